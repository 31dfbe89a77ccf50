"""The sizes that a module must not take: those that the program itself depends on.

Kernels read lengths from tensors, so a module runs at other sizes than the planned ones.  What its kernels do not show is what the
function computed from sizes when it was traced: a scale ``q.shape[-1] ** -0.5``, the ``n - 1`` of a variance, where a half begins.  Such
numbers are constants of the terms, and right at one size only.

So the function is traced again at other sizes.  If its terms are the same, every constant bit by bit, but for the lengths of axes, and
these are the lengths that the module would use, then the module computes what the function computes there.  Every length is tried far
below the planned one, next to it and far above it, with other remainders by 2 and 3: thresholds between them and periods of a few
elements show.  All lengths are changed at once, each to a size of its own; if that fails, halves of them are, down to single ones.  Lengths
that must be equal (the rows and columns of a mask) are tried together, and the module then asks for that.  A doubt means fixed: a length
at which tracing fails, one that a parameter or a captured tensor has, and all lengths of an exported program.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..codegen.module import Dimension, ModuleSpec, lengths, mentioned
from ..ir.index import Axis, FloorDiv, IndexExpr, Mod
from ..ir.program import Program
from ..ir.terms import Term, View, postorder

if TYPE_CHECKING:
    from ..frontends import Traced

MOST_TRACES = 48  # what is not known after so many is fixed
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
    """What the program of a module depends on.  The function is traced a few times; its user's code runs on tensors without data."""
    if traced.convention is None:  # written in terms: its numbers are the user's own, and lengths are spelled Extent
        return Dependence()
    found, held = _lengths(traced.program, spec, frozenset(traced.arguments))
    free: list[_Unit] = [] if traced.static else _Trials(traced, found).free()
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


# trials -------------------------------------------------------------------------------------------------------------------------------


class _Trials:
    """Traces at other sizes."""

    def __init__(self, traced: Traced, found: Sequence[_Length]) -> None:
        self.traced, self.found, self.left = traced, found, MOST_TRACES
        self.planned = {a.size for a in traced.program.every_axis}

    def free(self) -> list[_Unit]:
        """The lengths that may change, as many at once as there are."""
        alone = self.settled([(length,) for length in self.found])
        return alone + self.together([length for length in self.found if (length,) not in alone], alone)

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

    def together(self, lengths: Sequence[_Length], others: Sequence[_Unit]) -> list[_Unit]:
        """Lengths that cannot change alone, joined with others of the same planned size to units that can."""
        found: list[_Unit] = []
        for _, same in itertools.groupby(sorted(lengths, key=lambda u: u.size), key=lambda u: u.size):
            alone = list(same)
            for count in range(len(alone), 1, -1) if len(alone) <= 4 else (len(alone), 2):
                for unit in itertools.combinations(alone, count):
                    if all(u in alone for u in unit) and all(self.same(where, [*others, *found, unit]) for where in WHERE):
                        found.append(unit)
                        alone = [u for u in alone if u not in unit]
        return found

    def same(self, where: str, units: Sequence[_Unit]) -> bool:
        """Whether the program is the same if all these lengths change, each unit to a size of its own."""
        if self.left == 0:
            return False
        self.left -= 1
        sizes = self.sizes(where, units)
        shapes = {}
        for i in self.traced.program.inputs[: len(self.traced.arguments)]:
            shapes[i.name] = [sizes.get((i.name, d), 1 if a is None else a.size) for d, a in enumerate(i.layout)]
        try:
            other = self.traced.resized(shapes)
        except Exception:  # whatever the user's function says of sizes that it was not written for
            return False
        expected = {name: sizes[length.dimensions[0]] for unit in units for length in unit for name in length.axes}
        return same_program(self.traced.program, other.program, expected) and _same_tensors(self.traced, other)

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


# comparison -----------------------------------------------------------------------------------------------------------------------------


def same_program(a: Program, b: Program, sizes: Mapping[str, int]) -> bool:
    """Whether ``b`` is ``a`` where the axes named in ``sizes`` have those sizes: the same terms, constants, index expressions, names.

    Names of axes follow from the structure of what is traced, so equal programs have equal names.
    """
    same = _Same(sizes)
    return (
        len(a.inputs) == len(b.inputs)
        and len(a.outputs) == len(b.outputs)
        and all(same.leaf(x, y) for x, y in zip(a.inputs, b.inputs, strict=True))
        and all(
            (x.name, x.dtype) == (y.name, y.dtype) and same.key(x.layout, y.layout) and same.terms(x.term, y.term)
            for x, y in zip(a.outputs, b.outputs, strict=True)
        )
    )


class _Same:
    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.equal: dict[int, Term] = {}  # of terms of one program, the terms of the other

    def terms(self, a: Term, b: Term) -> bool:
        """One walk over both, arguments first."""
        ours, theirs = postorder(a), postorder(b)
        return len(ours) == len(theirs) and all(self.leaf(x, y) for x, y in zip(ours, theirs, strict=True))

    def leaf(self, a: Term, b: Term) -> bool:
        """Terms whose arguments were compared before."""
        known = self.equal.get(id(a))
        if known is not None:
            return known is b
        if type(a) is not type(b) or len(a.args) != len(b.args):
            return False
        if any(self.equal.get(id(x)) is not y for x, y in zip(a.args, b.args, strict=True)):
            return False
        if not self.key(a.key, b.key):
            return False
        self.equal[id(a)] = b
        return True

    def key(self, a: object, b: object) -> bool:
        """What a term is made of, but for its arguments."""
        if isinstance(a, Term) and isinstance(b, Term):
            return True
        if isinstance(a, Axis) and isinstance(b, Axis):
            return a.name == b.name and b.size == self.sizes.get(a.name, a.size)
        if isinstance(a, tuple) and isinstance(b, tuple):
            return len(a) == len(b) and all(map(self.key, a, b))
        if isinstance(a, IndexExpr) and isinstance(b, IndexExpr):
            return a.const == b.const and self.key(a.terms, b.terms)
        if type(a) is not type(b):
            return False
        if isinstance(a, float) and isinstance(b, float):
            return a.hex() == b.hex()
        if isinstance(a, FloorDiv | Mod) and isinstance(b, FloorDiv | Mod):
            return a.divisor == b.divisor and self.key(a.numerator, b.numerator)
        return a == b


def _same_tensors(a: Traced, b: Traced) -> bool:
    """Whether what the function holds is the same: it may have made tensors from sizes."""
    import torch

    def same(x: torch.Tensor, y: torch.Tensor) -> bool:
        return x is y or (x.dtype == y.dtype and x.shape == y.shape and x.device == y.device and torch.equal(x, y))

    return a.captured.keys() == b.captured.keys() and all(same(x, b.captured[name]) for name, x in a.captured.items())
