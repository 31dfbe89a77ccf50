"""The call that is traced: what its arguments are called, where its tensors are, and what is made of it."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..errors import DeviceError, EqFuseError, TraceError
from .convention import flattened
from .naming import function_name
from .places import place_of_function
from .spec import ANYWHERE, TensorSpec, spec_of

SYMBOLS = "eqfuse_symbols"  # an attribute of functions that make nested tensors: which dimensions of each flat argument may be symbols


@dataclass(frozen=True)
class Source:
    """What a placeholder stands for: ``kind`` is argument, parameter, buffer or constant; ``key`` a flat position or a name."""

    kind: str
    key: int | str
    name: str  # a valid identifier, unique in the program


@dataclass(frozen=True)
class Captured:
    """A decomposed graph.  ``outputs`` holds graph nodes, and plain values where the function returns them."""

    graph: torch.fx.Graph
    sources: dict[torch.fx.Node, Source]
    outputs: tuple[Any, ...]
    out_spec: Any
    out_names: tuple[str, ...]
    in_spec: Any
    leaves: tuple[Any, ...]  # per flat argument: its TensorSpec, or its value if it is no tensor
    exported: Any
    captured: Mapping[str, torch.Tensor] = field(default_factory=dict)  # by key of a constant, the very tensor that may want a gradient
    refused: EqFuseError | None = None  # why it is no program of ours, whatever its operators are


@dataclass(frozen=True)
class Held:
    """The tensors that a function holds, by name: as an ``ExportedProgram`` has them."""

    state_dict: Mapping[str, Any]
    constants: Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Call:
    """The call that is traced.  ``names`` and ``leaves``: of the flat arguments; ``device``: where all tensors are."""

    obj: Any
    names: tuple[str, ...]
    in_spec: Any
    leaves: tuple[Any, ...]
    device: torch.device

    @property
    def module(self) -> torch.nn.Module:
        """What is called, as a module."""
        return self.obj if isinstance(self.obj, torch.nn.Module) else CalledFunction(self.obj)

    def arguments(self, device: torch.device) -> list[Any]:
        """The flat arguments, with new tensors in the places of tensors."""
        return [
            torch.empty_strided(x.shape, x.stride, dtype=x.dtype, device=device) if isinstance(x, TensorSpec) else x for x in self.leaves
        ]


def call_of(obj: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """The call, if the function takes these arguments and programs take their types."""
    _check_call(obj, args, kwargs)
    flat, in_spec = flattened(args, kwargs)
    names = argument_names(obj, args, kwargs)
    leaves: list[Any] = []
    for name, x in zip(names, flat, strict=True):
        spec = spec_of(x)
        if spec is None and not isinstance(x, bool | int | float | str | None | torch.dtype | torch.device):
            raise TraceError(
                f"argument {name!r} is a {type(x).__name__}, not a tensor or a plain number",
                cure="pass tensors (or TensorSpec), and close over anything else",
            )
        leaves.append(x if spec is None else spec)
    return Call(obj, tuple(names), in_spec, tuple(leaves), torch.device(_on_device(obj, names, leaves)))


class CalledFunction(torch.nn.Module):
    """A function as a module.  Torch records source lines of frames called ``forward`` only, so the function gets that name."""

    def __init__(self, f: Callable[..., Any]) -> None:
        super().__init__()
        self.f = f
        if isinstance(f, types.FunctionType):
            code = f.__code__.replace(co_name="forward")
            self.f = types.FunctionType(code, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
            self.f.__kwdefaults__ = f.__kwdefaults__

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.f(*args, **kwargs)


def identifier(text: str) -> str:
    """A valid identifier that looks like a text."""
    name = re.sub(r"\W+", "_", text).strip("_") or "x"
    return name if not name[0].isdigit() else f"x{name}"


def unique(names: Sequence[str]) -> list[str]:
    """The same names, numbered where they come again."""
    seen: dict[str, int] = {}
    out = []
    for n in names:
        while n in seen:
            seen[n] += 1
            n = f"{n}_{seen[n]}"
        seen[n] = 0
        out.append(n)
    return out


def _path(path: Sequence[Any]) -> str:
    parts = [getattr(k, "key", getattr(k, "idx", getattr(k, "name", None))) for k in path]
    return "".join(f"_{p}" for p in parts)


def argument_names(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """A name for each flat argument, from the function's own parameter names."""
    target = f.forward if isinstance(f, torch.nn.Module) else f
    positional: list[str] = []
    try:
        for p in inspect.signature(target).parameters.values():
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                positional.append(p.name)
            elif p.kind == p.VAR_POSITIONAL:
                positional += [f"{p.name}_{i}" for i in range(len(args) - len(positional))]
    except (TypeError, ValueError):
        pass
    positional += [f"arg{i}" for i in range(len(positional), len(args))]
    names = []
    for path, _ in pytree.tree_flatten_with_path((args, kwargs))[0]:
        first, second, *rest = path
        base = positional[second.idx] if first.idx == 0 else str(second.key)
        names.append(identifier(base + _path(rest)))
    return unique(names)


def one_device(places: Sequence[tuple[str, str]]) -> str:
    """The device that all named tensors are on; DeviceError if they are on several."""
    found: dict[str, str] = {}
    for name, device in places:
        if device != ANYWHERE:
            found.setdefault(device, name)
    if len(found) > 1:
        listed = ", ".join(f"{n!r} on {d}" for d, n in found.items())
        raise DeviceError(f"tensors are on different devices: {listed}", cure="move them all to one device with .to(device)")
    return next(iter(found), "cpu")


def _on_device(obj: Any, names: Sequence[str], specs: Sequence[Any]) -> str:
    places = [(n, s.device) for n, s in zip(names, specs, strict=True) if isinstance(s, TensorSpec) and s.shape != ()]
    held = []
    if isinstance(obj, torch.nn.Module):
        held = [(n, str(t.device)) for n, t in (*obj.named_parameters(), *obj.named_buffers())]
    given = one_device(places)
    if held and all(d == "meta" for _, d in held):
        return "meta"
    if given != "meta":
        return one_device([*places, *held])
    return one_device([(n, d) for n, d in held if d != "meta"])  # shapes alone fit a module wherever it is


def _check_call(obj: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The arguments are those that the function takes."""
    try:
        signature = inspect.signature(obj.forward if isinstance(obj, torch.nn.Module) else obj)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name, given = function_name(obj), len(args) + len(kwargs)
        raise TraceError(
            f"{name}{signature} was given {given} argument{'' if given == 1 else 's'}: {error}",
            where=place_of_function(obj),
            cure="give an example for each of its arguments, in a tuple: args=(x, ...), or by name: kwargs={...}",
        ) from None


def named(sources: Sequence[Source]) -> list[Source]:
    """The same with a name of its own for each; arguments keep theirs."""
    ordered = sorted(sources, key=lambda s: s.kind != "argument")
    renamed = {id(s): name for s, name in zip(ordered, unique([s.name for s in ordered]), strict=True)}
    return [Source(s.kind, s.key, renamed[id(s)]) for s in sources]


def result_names(out_spec: Any, count: int, sources: Sequence[Source]) -> tuple[str, ...]:
    """Names of the flat results, other than those of the sources."""
    paths = pytree.tree_flatten_with_path(pytree.tree_unflatten(list(range(count)), out_spec))[0]
    out_names = ["out"] if count == 1 and not paths[0][0] else [_output_name(p) for p, _ in paths]
    return tuple(unique([*(s.name for s in sources), *out_names])[len(sources) :])


def _output_name(path: Sequence[Any]) -> str:
    """``lse`` for the entry ``"lse"`` of a dict or field of a named tuple, ``out1`` for the second of a tuple."""
    text = _path(path).strip("_")
    return identifier(text) if text and not text[0].isdigit() else f"out{text}"
