"""Calls of one function, however they are spelled: by position, by keyword, with defaults or without.

``inspect.signature`` says which parameter an argument is for, so ``f(x, 2.0)``, ``f(x, scale=2.0)`` and, with that default, ``f(x)`` are
one call.  The program keeps the spelling that it was traced with; a call in another one is brought into it here.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..errors import StaticArgumentError, TraceError
from ..errors import shown as shown_value
from .spec import TensorSpec, layout_of, value_key

PLAIN = bool | int | float | complex | str | bytes | None | torch.dtype | torch.device  # these are what they say that they are


@dataclass(frozen=True)
class _Traced:
    """The flat argument at a position of the traced call."""

    position: int


@dataclass(frozen=True)
class Convention:
    """The traced call: ``leaves`` (a spec, or the value of what is no tensor) in the structure ``spec`` of (args, kwargs)."""

    name: str
    obj: Any
    spec: Any
    leaves: tuple[Any, ...]
    mode: bool | None = None  # whether a module was in training mode

    def arranged(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The flat arguments of a call in the order of the traced one.

        Raises TraceError for arguments that the function does not take or tensors in another structure, StaticArgumentError where
        something else than a tensor differs, or a default is left out that was not; and where a module is in another mode.
        """
        if training(self.obj) is not self.mode:
            before, now = ("training", "evaluation") if self.mode else ("evaluation", "training")
            raise StaticArgumentError(f"{self.name} was traced in {before} mode, now it is in {now} mode", cure="optimise again for it")
        flat, spec = flattened(args, kwargs)
        if spec == self.spec:
            return flat
        given, model = self._by_parameter(tuple(args), dict(kwargs)), self._model
        if given is None or model is None:
            raise self._other(args, kwargs)
        found: list[Any] = [None] * len(self.leaves)
        for p in (*model, *(p for p in given if p not in model)):
            if p not in given or p not in model:
                now, before = ("left out", "given") if p not in given else ("given", "left out")
                raise StaticArgumentError(f"{self.name} was traced with {p!r} {before}, now it is {now}", cure="optimise again for it")
            self._match(p, given[p], model[p], found)
        return found

    def key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """Equal for calls that make the same program: shapes, types and other values by parameter; and the same plan, as
        tensors lie alike in memory."""
        try:
            given = self._by_parameter(tuple(args), dict(kwargs))
        except TraceError:
            given = None
        flat, spec = flattened(args, kwargs) if given is None else pytree.tree_flatten(given)
        return (
            training(self.obj),
            str(spec),
            tuple((tuple(v.shape), v.dtype, layout_of(v)) if _like_tensor(v) else value_key(v) for v in flat),
        )

    # by parameter -----------------------------------------------------------------------------------------------------------------
    @cached_property
    def _signature(self) -> tuple[inspect.Signature, bool] | None:
        return signature_of(self.obj)

    @property
    def _example(self) -> Any:
        return pytree.tree_unflatten([_Traced(k) for k in range(len(self.leaves))], self.spec)

    @cached_property
    def _model(self) -> dict[str, Any] | None:
        return self._by_parameter(*self._example)

    def _by_parameter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """What each parameter is; None where the parameters are unknown."""
        if self._signature is None:
            return None
        signature, complete = self._signature
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise self._other(args, kwargs, f"; it takes {signature}: {error}") from None
        for p in signature.parameters.values():
            if p.kind is p.VAR_POSITIONAL or p.kind is p.VAR_KEYWORD:
                bound.arguments.setdefault(p.name, () if p.kind is p.VAR_POSITIONAL else {})
            elif complete:
                bound.arguments.setdefault(p.name, p.default)
        return {p: bound.arguments[p] for p in signature.parameters if p in bound.arguments}

    def _match(self, p: str, given: Any, model: Any, found: list[Any]) -> None:
        """Put what is given for a parameter where the traced call has it."""
        before, structure = pytree.tree_flatten(model)
        now, spec = pytree.tree_flatten(in_order(given, model))
        if spec != structure:
            tensors = any(isinstance(v, _Traced) and isinstance(self.leaves[v.position], TensorSpec) for v in before)
            if tensors and any(map(_like_tensor, now)):
                counts = f"{len(before)} values, now {len(now)}" if len(before) != len(now) else "the same values in another structure"
                raise TraceError(f"{self.name} was traced with other arguments: {p!r} was {counts}", cure="call it as it was traced")
            raise self._differs(p, model, given)
        for old, new in zip(before, now, strict=True):
            if isinstance(old, _Traced):
                found[old.position] = new
            elif not (new is old or (isinstance(old, PLAIN) and value_key(new) == value_key(old))):
                raise self._differs(p, old, new)

    def _other(self, args: Sequence[Any], kwargs: Mapping[str, Any], why: str = "") -> TraceError:
        before, now = _spelling(*self._example), _spelling(args, kwargs)
        return TraceError(f"{self.name} was traced with other arguments: {before}, now {now}{why}", cure="call it as it was traced")

    def _differs(self, p: str, model: Any, given: Any) -> StaticArgumentError:
        before = pytree.tree_map(lambda v: self.leaves[v.position] if isinstance(v, _Traced) else v, model)
        return StaticArgumentError(f"{self.name} was traced with {p}={shown(before)}, now {shown(given)}", cure="optimise again for it")


def flattened(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], Any]:
    """The values in the arguments of a call, and the structure that they are in.  TraceError for a structure without an end."""
    try:
        return pytree.tree_flatten((tuple(args), dict(kwargs)))
    except RecursionError:
        raise TraceError(
            "an argument has lists inside each other without an end", cure="pass tensors, in lists or dicts that hold them"
        ) from None


def training(obj: Any) -> bool | None:
    """Whether a module is in training mode; ``None`` for what is no module."""
    return obj.training if isinstance(obj, torch.nn.Module) else None


def signature_of(obj: Any) -> tuple[inspect.Signature, bool] | None:
    """The parameters of a callable, and whether what it says of defaults is true.  ``None`` where there are none to ask for.

    A decorator's function takes ``*args, **kwargs`` and refers to the one that it wraps, whose defaults it may replace.
    """
    if isinstance(obj, torch.export.ExportedProgram):
        names = obj.module_call_graph[0].signature.forward_arg_names if obj.module_call_graph[0].signature else None
        return (inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names]), True) if names else None
    target = obj.forward if isinstance(obj, torch.nn.Module) else obj
    try:
        own = inspect.signature(target, follow_wrapped=False)
        kinds = [p.kind for p in own.parameters.values()]
        if kinds == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD] and hasattr(target, "__wrapped__"):
            return inspect.signature(target), _file(target).startswith(str(Path(torch.__file__).parent))  # torch.no_grad() and the like
        return own, True
    except (TypeError, ValueError):
        return None


def _file(f: Any) -> str:
    return getattr(getattr(f, "__code__", None), "co_filename", "")


def in_order(given: Any, model: Any) -> Any:
    """The same arguments, with the keys of dicts in the order of ``model``: keyword arguments have none."""
    if type(given) is dict and type(model) is dict and given.keys() == model.keys():
        return {k: in_order(given[k], model[k]) for k in model}
    if type(given) in (list, tuple) and type(model) is type(given) and len(given) == len(model):
        return type(given)(in_order(g, m) for g, m in zip(given, model, strict=True))
    return given


def shown(value: Any) -> str:
    """A value in a message; tensors by their shape."""
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return f"[{', '.join(map(shown, value))}]"
    return f"a tensor {tuple(value.shape)}" if _like_tensor(value) else shown_value(value, 200)


def _like_tensor(value: Any) -> bool:
    try:
        return hasattr(value, "shape")
    except Exception:  # it has a __getattr__ that raises
        return False


def _spelling(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    parts = [f"{len(args)} by position"] * bool(args) + [f"{k}=" for k in kwargs]
    return " and ".join(parts) or "none"
