"""How fusion rules are written: what extraction must and may do with the values of a program.

A *verdict* speaks of two values, ``outer`` and ``inner``: ``forbid`` (no kernel covers both), ``require`` (a kernel that covers the
outer value covers the inner one, too) or ``allow`` (an exception from a ``forbid`` about the same two values).  A kernel *covers* a
value that it computes, in any form.
An *offer* names an outside implementation of a value, a library's or the user's own kernel, and what it costs; extraction takes it
where that is cheaper.  Verdicts change no value and claim nothing; an offer claims an equality, which its check tests::

    @eqfuse.fusion
    def library_matmul(y, a, b, i: Axis, j: Axis, k: Axis):
        \"\"\"The vendor's matrix product.\"\"\"
        return [match(y, Sum(k, a * b))], offer("torch:matmul", (y, i, j), (a, i, k), (b, k, j), us=cost)
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import RuleError
from .facts import Fact
from .notation import Notation, shown, what
from .patterns import AxisVar, Var
from .world import World

running: Callable[[], AbstractContextManager[Any]] = nullcontext
"""What implementations are called in on the CPU.  The face of the package sets it, so that hand-written Triton kernels run there."""

__all__ = ["allow", "forbid", "offer", "require"]

MOST_READS = 4  # tensors that an outside implementation may take
MOST_AXES = 4  # axes that a premise of an offer may bind
LARGEST = 1e6  # of what an implementation is tried with
CLAIM = 1e-6  # its error in float64, relative to the largest element of its arguments and result
VERDICTS = ("allow", "forbid", "require")

places: dict[str, str] = {}
"""Fusion rule -> where it was declared, for messages about its verdicts."""


def told(by: str) -> str:
    """Who gave a verdict: a request by itself, a rule with its place."""
    return f"{by} ({places[by]})" if places.get(by) else by


@dataclass(frozen=True, eq=False)
class Verdict(Fact):
    """What is decided about two values; ``by`` is the rule that says so."""

    verdict: str
    outer: Var
    inner: Var
    by: str = ""

    def __post_init__(self) -> None:
        for x in (self.outer, self.inner):
            if not isinstance(x, Var):
                said = f"{self.verdict}: {shown(x)} is no variable for a value but {what(x)}"
                raise RuleError(said, cure="a premise match(y, pattern) names the value y")

    def parts(self) -> tuple[Any, ...]:
        return (self.outer, self.inner)

    def egglog(self, fresh: str) -> str:
        return f'(fuse "{self.verdict}" {self.outer.egglog()} {self.inner.egglog()} "{self.by}")'


def forbid(outer: Var, inner: Var) -> Verdict:
    """No kernel covers both values."""
    return Verdict("forbid", outer, inner)


def require(outer: Var, inner: Var) -> Verdict:
    """The kernel that makes ``outer`` makes ``inner``, too."""
    return Verdict("require", outer, inner)


def allow(outer: Var, inner: Var) -> Verdict:
    """Whatever forbids these two values to share a kernel does not count."""
    return Verdict("allow", outer, inner)


@dataclass(frozen=True, eq=False)
class Offer(Fact):
    """An outside implementation of ``result`` from ``reads``.

    ``entry`` is (module, name) of a function from torch tensors to one torch tensor.  ``result`` and ``reads`` are a value and
    the order of its axes; the axes named are all that the value may have.  ``us`` is the modelled time in microseconds, or a
    function ``us(target, **lengths)`` of the device and of the length of every axis by its name in the rule.
    """

    entry: tuple[str, str]
    result: tuple[Any, ...]
    reads: tuple[tuple[Any, ...], ...]
    us: float | Callable[..., float] = field(repr=False)
    by: str = ""
    where: str = ""
    bound: tuple[AxisVar, ...] = ()  # axes that a premise binds; the others follow from those of the values

    def parts(self) -> tuple[Any, ...]:
        values = (self.result[0], *(r[0] for r in self.reads))
        return (*values, *self.axes) if self.by else values  # those that no premise binds follow from the values

    @property
    def axes(self) -> tuple[AxisVar, ...]:
        """Every axis that it names."""
        return tuple({a.name: a for v in (self.result, *self.reads) for a in v[1:]}.values())

    def egglog(self, fresh: str) -> str:
        values = [v[0].egglog() for v in (self.result, *self.reads)]
        values += values[:1] * (MOST_READS + 1 - len(values))
        axes = [a.egglog() for a in self.bound]
        axes += ["0"] * (MOST_AXES - len(axes))
        return f'(outside "{self.by}" {" ".join(values)} {" ".join(axes)})'

    @property
    def function(self) -> Callable[..., Any]:
        """The implementation."""
        return implementation(self.entry, self.where)

    @property
    def cure(self) -> str:
        """What to change where the check refuses it."""
        made, *given = (f"{v[0].name}[{', '.join(a.name for a in v[1:])}]" for v in (self.result, *self.reads))
        return (
            f"at {self.where}, change the premises or the order of axes of the offer, or {':'.join(self.entry)}, so that "
            f"{self.entry[1]}({', '.join(given)}) is {made}"
        )

    def cost(self, target: Any, lengths: Mapping[str, int]) -> float:
        """Microseconds on a target.  Raises :class:`~eqfuse.errors.RuleError` for what is no time."""
        said = f"rule {self.by}: the cost of {':'.join(self.entry)}"
        try:
            us = float(self.us(target, **lengths)) if callable(self.us) else float(self.us)
        except Exception as error:  # whatever a user's function raises
            given = ", ".join(("target", *sorted(lengths)))
            cure = f"us= is a number, or a function of {given}"
            raise RuleError(f"{said} raised {type(error).__name__}: {error}", where=self.where, cure=cure) from error
        if not us >= 0:
            raise RuleError(f"{said} is {us}", where=self.where, cure="microseconds: a number that is not negative")
        return us

    def test(self, world: World) -> int:
        """The implementation against the values that the premises define; how many numbers were compared.

        Called with float64 tensors on the CPU, in whatever memory layout.  Raises :class:`AssertionError` where they differ.
        """
        import torch

        values = (self.result, *self.reads)
        arrays = [v[0].value(world) for v in values]
        places = _places(values, arrays, world)
        if places is None or any(not np.isfinite(a).all() or np.abs(a).max(initial=0.0) > LARGEST for a in arrays):
            return 0

        def laid(value: tuple[Any, ...], full: np.ndarray) -> np.ndarray:
            mine = [places[a.name] for a in value[1:]]
            full = np.broadcast_to(full, [world.extents[k] if k in mine else 1 for k in range(full.ndim)])
            rest = [k for k in range(full.ndim) if k not in mine]
            return np.array(full.transpose([*mine, *rest]).reshape([world.extents[k] for k in mine]), np.float64)

        expected, *given = (laid(v, a) for v, a in zip(values, arrays, strict=True))
        kept = [a.copy() for a in given]
        with running():
            found = self.function(*map(torch.from_numpy, given))
        assert isinstance(found, torch.Tensor), f"{self.entry[1]} returns no tensor but a {type(found).__name__}"
        assert all(map(np.array_equal, kept, given)), f"{self.entry[1]} changes its arguments, which others read, too"
        assert tuple(found.shape) == expected.shape, f"{self.entry[1]} returns shape {tuple(found.shape)}, not {expected.shape}"
        scale = max(1.0, *(float(np.abs(a).max(initial=0.0)) for a in (expected, *given)))
        error = float(np.abs(found.detach().double().numpy() - expected).max(initial=0.0)) / scale
        assert error <= CLAIM, f"{self.entry[1]} differs from the value that it is offered for by {error:.1e} of the largest element"
        return expected.size


def _places(values: tuple[tuple[Any, ...], ...], arrays: list[np.ndarray], world: World) -> dict[str, int] | None:
    """A dimension of the check's universe for every axis of an offer, so that each value varies along its own axes only."""
    names = list(dict.fromkeys(a.name for v in values for a in v[1:]))
    varies = [{k for k, n in enumerate(a.shape) if n != 1} for a in arrays]

    def fits(places: dict[str, int]) -> bool:
        return all(
            seen <= {places[a.name] for a in v[1:]} for v, seen in zip(values, varies, strict=True) if all(a.name in places for a in v[1:])
        )

    def extend(places: dict[str, int]) -> dict[str, int] | None:
        if len(set(places.values())) < len(places) or not fits(places):
            return None
        missing = [n for n in names if n not in places]
        if not missing:
            return places
        tries = (extend({**places, missing[0]: k}) for k in range(len(world.extents)) if k not in places.values())
        return next((t for t in tries if t is not None), None)

    return extend({n: int(world.values[n]) for n in names if n in world.values})


def offer(entry: str | Callable[..., Any], result: tuple[Any, ...], *reads: tuple[Any, ...], us: float | Callable[..., float]) -> Offer:
    """Offer an implementation: a function at the top level of a module, or ``"module:name"``; see :class:`Offer`."""
    if inspect.isroutine(entry):
        module, name = entry.__module__, entry.__qualname__
    elif isinstance(entry, str):
        module, _, name = entry.partition(":")
    else:
        said = f"offer: {shown(entry)} is no function but {what(entry)}"
        raise RuleError(said, cure="a function at the top level of a module, or 'module:name'")
    for value in (result, *reads):
        good = isinstance(value, tuple) and value and isinstance(value[0], Var) and all(isinstance(a, AxisVar) for a in value[1:])
        if not good:
            said = f"offer: {shown(value)} is no value with its axes but {what(value)}"
            raise RuleError(said, cure="a tuple of a variable and its axes in their order: (x, i, k)")
    a_time = isinstance(us, int | float | np.number) and not isinstance(us, bool) and us >= 0
    if isinstance(us, Notation) or not (a_time or callable(us)):
        raise RuleError(f"offer: us={shown(us)} is no time but {what(us)}", cure="microseconds, or a function us(target, **lengths)")
    if not name.isidentifier():
        raise RuleError(
            f"a plan cannot import {name!r}", where=module, cure="offer a function at the top level of a module, or 'module:name'"
        )
    return Offer((module, name), result, reads, us)


def implementation(entry: tuple[str, str], where: str | None = None) -> Callable[..., Any]:
    """The function that an entry names; ``where`` it was offered."""
    try:
        return getattr(importlib.import_module(entry[0]), entry[1])
    except (ImportError, AttributeError) as error:
        module, name = entry
        cure = f"define {name} at the top level of {module}, in a module that can be imported, or correct 'module:name' in the offer"
        raise RuleError(f"no outside implementation {module}:{name}: {error}", where=where or None, cure=cure) from error
