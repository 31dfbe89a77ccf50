"""The sizes that a saved module takes: those that the program does not depend on.

Kernels read lengths from tensors, so a module runs at other sizes than the planned ones.  What its kernels do not show is what the
function computed from sizes when it was traced: a scale ``q.shape[-1] ** -0.5``, where a half begins.  Such numbers are constants of the
terms, and right at one size only.  What it asked of sizes on the way (``if n > 4096``) are guards and ranges of the trace with symbols.

So that trace is read at other sizes: a module takes a size where a call would be served by its kernels, the program being the same and
the lengths those that the module would use.  A symbol stands for all dimensions that torch knows to be as long; each is tried far below
the planned size, next to it, above it and a million above it, with other remainders by 2 and 3: thresholds between them and periods of
a few elements show.  All are changed at once; if that fails, each is by itself.  A range of a symbol is a check of the module.  A doubt
means fixed: what else a guard asks of, what is no symbol (a parameter's length, a captured tensor's), and all lengths of a program that
was exported with numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..codegen.sizes import Dimension, ModuleSpec, agrees, lengths
from ..ir.program import Output
from ..ir.sameness import same_program
from ..ir.terms import Input, Reduce

if TYPE_CHECKING:
    from ..frontends import Traced

MOST_READINGS = 96  # what is not known after so many is fixed
WHERE = ("below", "beside", "above", "far")  # of the planned sizes others are tried
LEAST = 3  # the smallest size that is tried, if the planned one is larger: an axis of 1 is none, and 2 is what halves are
LARGE = {"above": 1 << 12, "far": 1 << 20}  # the sizes that are tried above the planned ones are at least so large,
COUNTABLE = 1 << 58  # unless a tensor that has all of them, or one of the program, would have more elements than this


@dataclass(frozen=True)
class Dependence:
    """``fixed``: dimensions of inputs that must have the planned length; ``equal``: pairs that must have one length; ``ranges``: the
    smallest and the largest length of others."""

    fixed: frozenset[Dimension] = frozenset()
    equal: tuple[tuple[Dimension, Dimension], ...] = ()
    ranges: tuple[tuple[Dimension, tuple[int, float]], ...] = ()


@dataclass(frozen=True)
class Unit:
    """Dimensions of inputs that have one length at every size, and between which lengths the trace with symbols holds."""

    size: int
    dimensions: tuple[Dimension, ...]
    least: int
    most: float


def dependence(traced: Traced, spec: ModuleSpec) -> Dependence:
    """What the program of a module depends on.  The function is traced once; its user's code runs on tensors without data."""
    if traced.convention is None:  # written in terms: its numbers are the user's own, and lengths are spelled Extent
        return Dependence()

    def admitted(other: Traced) -> bool:
        there = {a.name: a.size for a in other.program.every_axis}
        shapes = {i.name: _shape(i) for i in other.program.inputs} | {o.name: _shape(o) for o in other.program.outputs}
        return same_program(traced.program, other.program, there) and agrees(spec, there, shapes)

    groups = (*(one.dimensions for one in lengths(spec)), *((x,) for x in _changing(traced, spec)))
    free = Trials(traced, admitted, MOST_READINGS).settled(units_of(traced, groups))
    kept = {x for u in free for x in u.dimensions}
    one = [[x for x in length.dimensions if x in kept] for length in lengths(spec)]  # what the module checks by itself
    known = {x: k for k, dimensions in enumerate(one) for x in dimensions}
    pairs = [(x, u.dimensions[0]) for u in free for x in u.dimensions[1:]]
    return Dependence(
        frozenset(x for x in _changing(traced, spec) if x not in kept),
        tuple((x, y) for x, y in pairs if x not in known or known[x] != known.get(y)),
        tuple((u.dimensions[0], (u.least, u.most)) for u in free if u.least > 2 or u.most < math.inf),
    )


def _changing(traced: Traced, spec: ModuleSpec) -> list[Dimension]:
    """The dimensions whose length a call of the module could change: those that it reads, and those of inputs that no kernel has."""
    read = {x for k in spec.kernels for x in k.loads()} | {o.buffer.name for _, c in spec.calls for o in c.reads}
    taken = {x for one in lengths(spec) for x in one.dimensions}
    every = [(i.name, d) for i in traced.program.inputs for d, a in enumerate(i.layout) if a is not None and a.size > 1]
    return [x for x in every if x in taken or x[0] not in read]


def units_of(traced: Traced, together: Iterable[Sequence[Dimension]]) -> list[Unit]:
    """What may change: symbols that the function did not look at, all those of dimensions ``together`` that the module takes for one
    length."""
    symbolic = None if traced.static else traced.symbolic()
    if symbolic is None:
        return []
    position, shapes = traced.arguments, {i.name: i.layout for i in traced.program.inputs}
    symbol = {(name, d): symbolic.symbols.get((position.get(name, -1), d)) for name, layout in shapes.items() for d in range(len(layout))}
    groups: list[tuple[set[Any], set[Dimension]]] = []
    for dimensions in together:
        own, members = {symbol[x] for x in dimensions}, set(dimensions)
        for other in [g for g in groups if g[0] & own - {None} or g[1] & members]:
            groups.remove(other)
            own, members = own | other[0], members | other[1]
        groups.append((own, members))
    units = []
    for own, members in groups:
        if None not in own and not own & symbolic.asked:
            ranges = [symbolic.range(s) for s in own]
            dimensions = tuple(x for x in symbol if x in members)
            size = next(a.size for a in (shapes[name][d] for name, d in dimensions) if a is not None)
            units.append(Unit(size, dimensions, max(lo for lo, _ in ranges), min(hi for _, hi in ranges)))
    return sorted(units, key=lambda u: list(symbol).index(u.dimensions[0]))


class Trials:
    """The program at other sizes."""

    def __init__(self, traced: Traced, admitted: Callable[[Traced], bool], readings: int = MOST_READINGS) -> None:
        self.traced, self.admitted, self.left = traced, admitted, readings
        self.planned = {a.size for a in traced.program.every_axis}
        terms = traced.program.terms()
        summands = {t.args[0] for t in terms if isinstance(t, Reduce)}  # those of a product are no tensor
        self.tensors = {t.axes for t in terms if t not in summands}

    def settled(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Those of the units that may change while all other lengths are the planned ones: each alone, and all together.

        Loops over a length, which would be long far above, are found before.
        """
        kept = units
        for where in WHERE:
            if not self.same(where, kept):
                kept = [u for u in kept if self.same(where, [u])]
        return kept if len(kept) == len(units) or all(self.same(where, kept) for where in WHERE) else ()

    def same(self, where: str, units: Sequence[Unit]) -> bool:
        """Whether a call would be served if all these lengths change, each unit to a size of its own."""
        if not units or self.left == 0:
            return not units
        self.left -= 1
        return self.at(self.sizes(where, units)) is not None

    def at(self, chosen: Mapping[Unit, int]) -> Traced | None:
        """The program where units have these sizes, if a call would be served."""
        from ..frontends import same_tensors

        sizes = {x: n for u, n in chosen.items() for x in u.dimensions}
        shapes = {i.name: [sizes.get((i.name, d), n) for d, n in enumerate(_shape(i))] for i in self.traced.program.inputs}
        other = self.traced.resized({name: shapes[name] for name in self.traced.arguments})
        return other if other is not None and same_tensors(self.traced, other) and self.admitted(other) else None

    def sizes(self, where: str, units: Sequence[Unit]) -> dict[Unit, int]:
        """A size for every unit, within its range.

        Far above, a smaller planned size becomes a larger one, by factors: comparisons and quotients of two change, too.
        """
        least = LARGE.get(where, 1)
        while True:
            taken, chosen = set(self.planned), dict[Unit, int]()
            for k, u in enumerate(sorted(units, key=lambda u: u.size, reverse=where in LARGE)):
                chosen[u] = next((n for n in _others(where, u, least * (3 * k + 1)) if n not in taken), u.size)
                taken.add(chosen[u])
            if least == 1 or max(math.prod(chosen.values()), self._elements(chosen)) <= COUNTABLE:
                return chosen
            least //= 2

    def _elements(self, chosen: Mapping[Unit, int]) -> int:
        """Of the largest tensor, which may have an axis for each of several dimensions of a unit, as scores have two of one length."""
        longest: dict[int, int] = {}
        for u, n in chosen.items():
            longest[u.size] = max(n, longest.get(u.size, 0))
        return max(math.prod(longest.get(a.size, a.size) for a in axes) for axes in self.tensors)


def _shape(x: Input | Output) -> list[int]:
    return [1 if a is None else a.size for a in x.layout]


def _others(where: str, u: Unit, least: int) -> Iterator[int]:
    """Sizes to try, with other remainders, the best first: far ``below`` the planned one if there are such, ``beside`` or ``above``."""
    below = range(max(u.least, min(LEAST, u.size - 1), 2), u.size)
    smaller = sorted(below, key=lambda m: (2 * m > u.size, math.gcd(u.size - m, 6) > 1, m))
    larger = itertools.count(max(least, 2 * u.size) if where in LARGE else u.size + 1)
    found = (m for m in itertools.takewhile(lambda m: m <= u.most, larger) if math.gcd(m - u.size, 210) == 1)
    yield from itertools.chain(smaller, found) if where == "below" else itertools.chain(found, reversed(smaller))
