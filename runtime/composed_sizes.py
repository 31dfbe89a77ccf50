"""The sizes that a saved module of several regions takes.

As for one plan (:mod:`.saved_sizes`): the program is read at other sizes, and a length is free where every region's kernels would serve
there.  Between regions tensors are seen in other shapes, of which lengths are told apart by what they are at all sizes that were tried:
a number, a length that is read from an argument, or, for one dimension of a tensor, what is left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from ..codegen.composed import Call, ComposedSpec, Free
from ..tiles.kernel import Buffer
from .generated import Generated, module_spec
from .saved_sizes import WHERE, Trials, Unit, units_of

if TYPE_CHECKING:
    from ..frontends import Traced

READINGS = 24  # of a whole model, which take a second each
SMALL = (5, 16, 32, 64, 128)  # sizes at which a test may be


class Whole(Protocol):
    """A module of several regions, :class:`.composed.Composed`."""

    traced: Traced
    parts: tuple[Generated, ...]

    @property
    def different(self) -> tuple[Generated, ...]:
        """Each part once."""

    @property
    def calls(self) -> tuple[Call, ...]:
        """What runs, in order."""

    @property
    def tensors(self) -> dict[str, Buffer]:
        """Of the whole program."""

    @property
    def exact_spec(self) -> ComposedSpec:
        """What the module for the planned sizes is made of."""

    def serving(self, traced: Traced, *, guarded: bool = True) -> Self | None:
        """The same kernels at other sizes."""


W = TypeVar("W", bound=Whole)


def at_other_sizes(whole: Whole) -> ComposedSpec | None:
    """The module for all sizes that are admitted; ``None`` if these are the planned ones alone."""
    traced = whole.traced
    if traced.convention is None or any(p.sized for p in whole.parts):
        return None
    trials, units = _trials(whole, guarded=False)
    free = trials.settled(units)
    if not free:
        return None
    others: list[tuple[Mapping[Unit, int], Whole]] = []
    for where in WHERE:
        chosen = trials.sizes(where, free)
        other = trials.at(chosen)
        served = None if other is None else whole.serving(other, guarded=False)
        if served is None:
            return None
        others.append((chosen, served))
    return _written(whole, free, others)


def _trials(whole: Whole, *, guarded: bool) -> tuple[Trials, list[Unit]]:
    traced = whole.traced

    def admitted(other: Traced) -> bool:
        return whole.serving(other, guarded=guarded) is not None

    every = [((i.name, d),) for i in traced.program.inputs for d, a in enumerate(i.layout) if a is not None and a.size > 1]
    return Trials(traced, admitted, READINGS), units_of(traced, every)


def _written(whole: Whole, free: Sequence[Unit], others: Sequence[tuple[Mapping[Unit, int], Whole]]) -> ComposedSpec | None:
    """The module where these lengths are read; ``None`` where a shape between regions is not known from them."""
    variables = {u: f"N_{k + 1}" for k, u in enumerate(free)}
    sizes = [{u: u.size for u in free}, *(chosen for chosen, _ in others)]

    def length(values: Sequence[int]) -> int | str | None:
        if len(set(values)) == 1:
            return values[0]
        return next((variables[u] for u in free if [s[u] for s in sizes] == list(values)), None)

    def shape(shapes: Sequence[Sequence[int]]) -> tuple[int | str, ...] | None:
        found = [length(values) for values in zip(*shapes, strict=True)]
        return tuple(-1 if n is None else n for n in found) if found.count(None) <= 1 else None

    exact = whole.exact_spec
    places = [whole, *(c for _, c in others)]
    calls = []
    for here in zip(*(c.calls for c in places), strict=True):
        reads = [(name, shape([dict(c.reads)[name] for c in here])) for name, _ in here[0].reads]
        makes = [(name, shape([dict(c.makes)[name] for c in here])) for name, _ in here[0].makes]
        calls.append(replace(here[0], reads=tuple(reads), makes=tuple(makes)))
    known = {o.name: shape([c.tensors[o.name].shape for c in places]) for o in exact.outputs}
    returned = {name: s for name, s in known.items() if s is not None}
    if len(returned) < len(known) or any(s is None for c in calls for _, s in (*c.reads, *c.makes)):
        return None
    found = tuple(Free(variables[u], u.dimensions, u.least, u.most) for u in free)
    plans = tuple(module_spec(p.plan) for p in whole.different)
    return replace(exact, plans=plans, calls=tuple(calls), free=found, returned=returned)


def small(whole: W, free: Sequence[Free]) -> W:
    """The same at small sizes, if it takes such."""
    taken = {f.dimensions for f in free}
    trials, units = _trials(whole, guarded=True)
    units = [u for u in units if u.dimensions in taken]
    best = math.prod(u.size for u in units)
    for base in SMALL if units else ():
        chosen = {u: min(u.size, base * (1 + k % 2)) for k, u in enumerate(units)}
        if math.prod(chosen.values()) < best and (other := trials.at(chosen)) is not None and (found := whole.serving(other)) is not None:
            return found
    return whole
