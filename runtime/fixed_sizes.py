"""The sizes that a module must not take: those that the program itself depends on.

Kernels read lengths from tensors, so a module runs at other sizes than the planned ones.  What its kernels do not show is what the
function computed from sizes when it was traced: a scale ``q.shape[-1] ** -0.5``, the ``n - 1`` of a variance, where a half begins.  Such
numbers are constants of the terms, and right at one size only.

So the function is traced once more with sizes as symbols, which says what lengths are equal whatever they are, and read at other sizes.
If its terms are the same there, every constant bit by bit, but for the lengths of axes, and these are the lengths that the module would
use, then the module computes what the function computes there.  Every length is tried far below the planned one, next to it and far above
it, with other remainders by 2 and 3: thresholds between them and periods of a few elements show.  All lengths are changed at once, each to
a size of its own; if that fails, halves of them are, down to single ones.  A doubt means fixed: a length that torch needs as a number,
one that the function was seen to look at (torch's guards and ranges name it), one that a parameter or a captured tensor has, and all
lengths of a program that was exported with numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..codegen.module import Dimension, ModuleSpec, lengths, mentioned
from ..ir.program import Program
from ..ir.sameness import same_program
from ..ir.terms import View

if TYPE_CHECKING:
    from ..frontends import Traced
    from ..frontends.symbolic import Symbolic

MOST_READINGS = 96  # what is not known after so many is fixed
WHERE = ("below", "beside", "above")  # the planned sizes others are tried
LEAST = 3  # the smallest size that is tried, if the planned one is larger: an axis of 1 is none, and 2 is what halves are
LARGE = 1 << 12  # the sizes that are tried far above the planned ones are at least so large,
COUNTABLE = 1 << 58  # unless a tensor that has all of them would have more elements than this


@dataclass(frozen=True)
class Dependence:
    """``fixed``: dimensions of inputs that must have the planned length; ``equal``: pairs that must have one length."""

    fixed: frozenset[Dimension] = frozenset()
    equal: tuple[tuple[Dimension, Dimension], ...] = ()


@dataclass(frozen=True)
class _Length:
    """Dimensions of inputs that have one length, and the names of the axes that have it.  ``read``: where the module can read it."""

    size: int
    dimensions: tuple[Dimension, ...]
    read: tuple[Dimension, ...]
    axes: frozenset[str]


_Unit = tuple[_Length, ...]  # lengths that are equal at every size


def dependence(traced: Traced, spec: ModuleSpec) -> Dependence:
    """What the program of a module depends on.  The function is traced once; its user's code runs on tensors without data."""
    if traced.convention is None:  # written in terms: its numbers are the user's own, and lengths are spelled Extent
        return Dependence()
    found, held = _lengths(traced.program, spec, frozenset(traced.arguments))
    symbolic = None if traced.static else traced.symbolic()
    free = [] if symbolic is None else _Trials(traced, found).settled(_units(traced, found, symbolic))
    kept = {length for unit in free for length in unit}
    fixed = (x for length in (*held, *found) if length not in kept for x in length.read)
    equal = [(u.read[0], unit[0].read[0]) for unit in free for u in unit[1:]]
    return Dependence(frozenset(fixed), tuple(equal))


# lengths ------------------------------------------------------------------------------------------------------------------------------


def _lengths(program: Program, spec: ModuleSpec, arguments: frozenset[str]) -> tuple[list[_Length], list[_Length]]:
    """The lengths that a call of the module could change, and those among them that something has which is no argument.

    Dimensions have one length if the module says so or the program: it may have more inputs than the kernels read, and axes that no
    kernel has, which have the length of the axis that they rename.
    """
    parent: dict[Dimension | str, Dimension | str] = {}

    def root(x: Dimension | str) -> Dimension | str:
        while parent.setdefault(x, x) != x:
            x = parent[x]
        return x

    def join(things: Iterable[Dimension | str]) -> None:
        first, *rest = map(root, things)
        for other in rest:
            parent[root(other)] = root(first)

    taken = lengths(spec)
    dimensions: dict[Dimension, int] = {}
    for one in taken:
        join((*one.dimensions, *sorted(one.axes)))
    read = {x for k in spec.kernels for x in k.loads()} | {o.buffer.name for _, c in spec.calls for o in c.reads}
    variable = {x for one in taken for x in one.dimensions}
    unread: set[Dimension] = set()
    for i in program.inputs:
        for d, axis in enumerate(i.layout):
            if axis is not None:
                join(((i.name, d), axis.name))
                dimensions[i.name, d] = axis.size
                if i.name not in read:
                    unread.add((i.name, d))
    known = mentioned(spec)
    for t in program.terms():
        if isinstance(t, View):
            other = t.index.as_axis()
            if other is not None and other.size == t.axis.size and not {t.axis.name, other.name} <= known:
                join((t.axis.name, other.name))
    classes: dict[Dimension | str, list[Dimension | str]] = {}
    for x in list(parent):
        classes.setdefault(root(x), []).append(x)
    found: list[_Length] = []
    held: list[_Length] = []
    for members in classes.values():
        dims = tuple(sorted(x for x in members if isinstance(x, tuple) and x in dimensions))
        changing = tuple(x for x in dims if x in variable) or tuple(x for x in dims if x in unread)
        if changing and dimensions[dims[0]] > 1:
            length = _Length(dimensions[dims[0]], dims, changing, frozenset(x for x in members if isinstance(x, str)))
            (found if all(name in arguments for name, _ in dims) else held).append(length)
    order = list(dimensions)
    return sorted(found, key=lambda u: order.index(u.dimensions[0])), held


def _units(traced: Traced, found: Sequence[_Length], symbolic: Symbolic) -> list[_Unit]:
    """Lengths that torch has symbols for and the function did not look at, with those that have the same one."""
    symbols, asked = symbolic.symbols, symbolic.asked
    position = traced.arguments
    units: list[tuple[set[Any], list[_Length]]] = []
    for length in found:
        own = {symbols.get((position[name], d)) for name, d in length.dimensions}
        if None in own or own & asked:
            continue
        joined = [u for u in units if u[0] & own]
        units = [u for u in units if not u[0] & own]
        units.append((own.union(*(u[0] for u in joined)), [*(x for u in joined for x in u[1]), length]))
    return [tuple(unit) for _, unit in units]


# trials -------------------------------------------------------------------------------------------------------------------------------


class _Trials:
    """Traces at other sizes."""

    def __init__(self, traced: Traced, found: Sequence[_Length]) -> None:
        self.traced, self.found, self.left = traced, found, MOST_READINGS
        self.planned = {a.size for a in traced.program.every_axis}

    def settled(self, units: Sequence[_Unit]) -> list[_Unit]:
        """Those of the units that may change while all other lengths are the planned ones.

        Loops over a length, which would be long far above, are found before.  Who was found to be changeable beside what later turns out
        to be fixed is tried once more.
        """
        while True:
            below = self.changeable("below", units)
            kept = self.changeable("above", self.changeable("beside", below))
            if len(kept) == len(below):
                return kept
            units = kept

    def changeable(self, where: str, units: Sequence[_Unit], others: Sequence[_Unit] = (), *, fails: bool = False) -> list[_Unit]:
        """Those of the units that may change while others do.  ``fails``: it is known that they cannot all."""
        if not units or (not fails and self.same(where, [*others, *units])):
            return list(units)
        if len(units) == 1:
            return []
        half = len(units) // 2
        first = self.changeable(where, units[:half], others)
        return first + self.changeable(where, units[half:], [*others, *first], fails=len(first) == half)

    def same(self, where: str, units: Sequence[_Unit]) -> bool:
        """Whether the program is the same if all these lengths change, each unit to a size of its own."""
        if self.left == 0:
            return False
        self.left -= 1
        sizes = self.sizes(where, units)
        shapes = {}
        for i in self.traced.program.inputs[: len(self.traced.arguments)]:
            shapes[i.name] = [sizes.get((i.name, d), 1 if a is None else a.size) for d, a in enumerate(i.layout)]
        other = self.traced.resized(shapes)
        if other is None:
            return False
        expected = {name: sizes[length.dimensions[0]] for unit in units for length in unit for name in length.axes}
        from ..frontends import same_tensors

        return same_program(self.traced.program, other.program, expected) and same_tensors(self.traced, other)

    def sizes(self, where: str, units: Sequence[_Unit]) -> dict[Dimension, int]:
        """A size for every dimension that changes.

        Far above, a smaller planned size becomes a larger one, by factors: comparisons and quotients of two change, too.
        """
        least = LARGE
        while True:
            taken = set(self.planned)
            chosen = {}
            for k, unit in enumerate(sorted(units, key=lambda u: u[0].size, reverse=where == "above")):
                n = next(m for m in _others(where, unit[0].size, least * (3 * k + 1)) if m not in taken)
                taken.add(n)
                chosen[unit] = n
            if least == 1 or math.prod(chosen.values()) <= COUNTABLE:
                return {x: n for unit, n in chosen.items() for length in unit for x in length.dimensions}
            least //= 2


def _others(where: str, size: int, least: int) -> Iterator[int]:
    """Sizes to try, with other remainders, the best first: far ``below`` the planned one if there are such, ``beside`` or ``above``."""
    if where == "below":
        smaller = range(min(LEAST, size - 1), size)
        yield from sorted((m for m in smaller if m > 1), key=lambda m: (2 * m > size, math.gcd(size - m, 6) > 1, m))
    for m in itertools.count(max(least, 2 * size) if where == "above" else size + 1):
        if math.gcd(m - size, 210) == 1:
            yield m
