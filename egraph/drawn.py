"""What the audit evaluates: a value for every class of a graph, from inputs at random or given, and its loops."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from ..ir.index import Axis
from ..ir.monoids import MONOIDS
from ..ir.ops import OPS
from ..ir.recursion import evaluated
from ..ir.semantics import left_range
from ..ir.terms import Const, Input
from .frozen import ENode, FrozenGraph
from .values import Limits, NoValue, Values, fixed_axes

SHORT = 4  # the longest extent that is drawn for an axis


def _fixed(graph: FrozenGraph) -> set[Axis]:
    return fixed_axes((n for row in graph.classes for n in row), graph.facts.get("split", ()))


def audit_elements(graph: FrozenGraph) -> int:
    """How many numbers an audit that draws its own data holds, about: what tells whether it fits into memory and time."""
    fixed = _fixed(graph)
    return sum(math.prod(a.size if a in fixed else SHORT for a in axes) for axes in graph.axes)


class Drawn(Values):
    """Every class by the first of its members that had a value, the program's own before others.

    ``free_old``: old references are free as the new ones are, instead of the reductions themselves, as facts are tested.
    """

    def __init__(self, graph: FrozenGraph, seed: int, masked: bool, inputs: Mapping[str, np.ndarray] | None, free_old: bool) -> None:
        self.seed, self.masked, self.given, self.free_old = seed, masked, inputs, free_old
        fixed = _fixed(graph)
        shapes = {a: n for t in graph.program.inputs for a, n in zip(t.layout, np.shape(inputs[t.name]), strict=True)} if inputs else {}

        def length(a: Axis) -> int:
            drawn = a.size if a in fixed else min(a.size, int(self.drawn(a.name).integers(2, SHORT + 1)))
            return shapes.get(a, drawn)

        super().__init__(graph, seed, length)
        self.settled = self.known("settled")
        self.inputs = {t.name: self.spread(t, self.data(t)) for t in graph.program.inputs}
        self.lanes = self.valid_lanes()
        self.values: dict[int, np.ndarray] = {}
        self.pick: dict[int, ENode] = {}
        self.old: dict[int, np.ndarray] = {}
        self.prefixes: dict[tuple[int, Axis], tuple[list[np.ndarray], float] | None] = {}
        self.infinite = any(isinstance(t, Const) and math.isinf(t.value) for t in graph.program.terms())
        self.given_infinite = self.infinite or any(np.isinf(x).any() for x in self.inputs.values())
        self.left_range = False  # whether something overflowed or underflowed, or is the inverse of an infinity that was given
        self.inverted = False  # whether something is the inverse of -0, which is an infinite number of either sign
        self.unknown: np.ndarray | None = None  # where the loop that was executed last has a reference that is NaN
        self.watching = True  # only while classes get their values: loops have numbers of their own
        with np.errstate(all="ignore"):
            self.evaluate_all()
        self.watching = False

    # data ----------------------------------------------------------------------------------------------------------------------
    def drawn(self, name: str) -> np.random.Generator:
        """Random numbers of a name, the same whatever else there is: a graph's earlier rounds are evaluated at the same data."""
        return np.random.default_rng([self.seed, zlib.crc32(name.encode())])

    def data(self, t: Input) -> np.ndarray:
        """An input in its own layout."""
        rng = self.drawn(t.name)
        if self.given is not None:
            return np.asarray(self.given[t.name], float)
        x = self.draw(t, rng)
        return np.where(self.mask(rng, x.shape), -np.inf, x) if self.masked and t.dtype.is_float else x

    def mask(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Where an input is -inf: here and there; in whole rows and columns, too; or, if there are other inputs, nowhere."""
        kind = int(rng.integers(0, 3 if len(self.graph.program.inputs) > 1 else 2))
        gone = rng.random(size=shape) < (0.25 if kind < 2 else 0.0)
        for k in range(len(shape) if kind == 1 and len(shape) > 1 else 0):
            gone = gone | (rng.random(size=[n if k == m else 1 for m, n in enumerate(shape)]) < 0.2)
        return gone

    def valid_lanes(self) -> list[np.ndarray]:
        """For each ragged split, where the positions that its two axes make are inside the axis: past its end values mean nothing.  Of an
        axis that is scanned, its parts are also said by its own positions, j // T, and by the axis for those before one."""
        found = []
        again = {outer: a for _, outer, a in self.graph.facts.get("before", ())}
        for whole, outer, inner in self.graph.facts.get("split", ()):
            if outer.size * inner.size != whole.size and {outer, inner} <= set(self.axes):
                places = [self.along(self.place[outer])]
                if outer in again:
                    places += [self.along(self.place[whole]) // inner.size]
                    places += [self.along(self.place[again[outer]])] if again[outer] in self.place else []
                found += [at * inner.size + self.along(self.place[inner]) < whole.size for at in places]
        return found

    def lanes_of(self, x: np.ndarray) -> np.ndarray:
        """Where a value means something: inside the axes of which it has both parts; of others it is whole."""
        inside = np.ones((1,) * x.ndim, bool)
        for lanes in self.lanes:
            if all(n == 1 or m > 1 for n, m in zip(lanes.shape, x.shape, strict=True)):
                inside = inside & lanes
        return inside

    # values --------------------------------------------------------------------------------------------------------------------
    def evaluate_all(self) -> None:
        """A value for every class, program nodes first; each from nodes whose classes have values already."""
        users: dict[int, list[int]] = {}
        for c, row in enumerate(self.graph.classes):
            for n in row:
                for a in n.args:
                    users.setdefault(a, []).append(c)
        for own in (True, False):
            work = list(range(len(self.graph.classes)))
            while work:
                c = work.pop()
                if c in self.values:
                    continue
                for n in self.graph.classes[c]:
                    if own and n.rule is not None:
                        continue
                    value = self.node_value(n)
                    if value is not None:
                        self.values[c], self.pick[c] = value, n
                        work.extend(users.get(c, ()))
                        break

    def node_value(self, n: ENode) -> np.ndarray | None:
        """A node's value from its classes' values; ``None`` if one is missing, or for loops, which are executed later."""
        if n.op == "roll" or any(a not in self.values for a in n.args):
            return None
        args = [self.values[a] for a in n.args]
        if n.op == "ref":
            return args[0] if n.attrs[0] == "old" and not self.free_old else self.free(n, args[0])
        if n.op == "pre":
            kept = n.args[0] in self.settled or (n.attrs[0], n.args[0]) in self.updates
            return self.reduced("sum", n.attrs[0], args[0]) if kept else None
        return self.free(n, self.full(0.0)) if n.op == "acc" else self.apply(n, args)

    def input(self, name: str) -> np.ndarray:
        return self.inputs[name]

    def map(self, op: str, *args: np.ndarray) -> np.ndarray:
        """A scalar op; what left the range of float64 is noted."""
        out = super().map(op, *args)
        domain = OPS[op].domain
        if domain == "nonzero" and np.any(np.isinf(out) & (args[-1] == 0) & np.signbit(args[-1])):
            self.inverted = True
        if self.watching and not self.left_range and not np.all(np.isfinite(out) & (out != 0)):
            # an infinity at a pole is a number's own, and 0 its inverse; one that was given stands for what is too large
            inverse = self.given_infinite and domain in ("nonzero", "positive") and np.any((out == 0) & np.isinf(args[0]))
            self.left_range = bool(inverse) or left_range(op, out, args)
        return out

    def form(self, c: int) -> ENode | None:
        return self.pick.get(c)

    def is_settled(self, c: int) -> bool:
        return c in self.settled

    def whole(self, c: int, limits: Limits) -> np.ndarray:
        return self.values[c]

    def prefix(self, r: int, axis: Axis, end: int, limits: Limits) -> tuple[np.ndarray, np.ndarray | float]:
        found = self.trajectory(r, axis)
        if found is None:
            raise NoValue("a reference that is no reduction")
        return found[0][end], found[1] if found[1] == found[1] else found[0][0]

    def trajectory(self, r: int, axis: Axis) -> tuple[list[np.ndarray], float] | None:
        """The running values of a reduction, or of a function of some: one more element each, the first of nothing; and the identity of the
        reduction, NaN for a function."""
        if (r, axis) not in self.prefixes:
            forms = (n for n in self.graph.classes[r] if n.op == "reduce" and len(n.args) == 1 and n.attrs[1] == axis)
            forms = (n for n in forms if n.args[0] in self.values)
            n, found = next(forms, None), None
            if n is not None:
                k, x = self.place[axis], self.values[n.args[0]]
                full = np.broadcast_to(x, [self.extents[k] if a == k else s for a, s in enumerate(x.shape)])
                found = [self.reduced(n.attrs[0], axis, full, length=t) for t in range(self.extents[k] + 1)], MONOIDS[n.attrs[0]].identity
            elif (n := self.pick.get(r)) is not None and n.op in ("map", "cast"):
                found = self._composed(n, axis)
            self.prefixes[r, axis] = found
        return self.prefixes[r, axis]

    def _composed(self, n: ENode, axis: Axis) -> tuple[list[np.ndarray], float] | None:
        """A function of running values, and of what needs no loop over the axis."""
        steps = []
        for a in n.args:
            found = self.trajectory(a, axis) if (a, axis) in self.late else ([self.values[a]] * (self.extents[self.place[axis]] + 1), 0.0)
            if found is None:
                return None
            steps.append(found[0])
        return [self.apply(n, list(now)) for now in zip(*steps, strict=True)], np.nan

    @cached_property
    def late(self) -> frozenset[tuple[int, Axis]]:
        """The classes that are ready after a loop over an axis."""
        return frozenset((c, axis) for c, axis, level in self.graph.facts.get("level", ()) if level)

    def executed(self, roll: ENode) -> np.ndarray | None:
        """A loop's value, if all that it reads has one; and where nothing is known of it."""
        try:
            state = self.run(roll)
        except NoValue:
            return None
        for r, axis in self.references:
            found = self.trajectory(r, axis)
            if found is None or axis != roll.attrs[1]:
                return None
            begun = found[0] if found[1] == found[1] else found[0][-1:]
            strange: np.ndarray = np.asarray(np.isnan(begun).any(axis=0))
            if self.left_range and r in self.positive:  # 1/inf, or too small a number: it has no ratio to what comes next
                strange = strange | (np.asarray(found[0][1:]) <= 0).any(axis=0)
            if strange.any():
                self.unknown = strange if self.unknown is None else self.unknown | strange
        return state

    # what facts are held against -----------------------------------------------------------------------------------------------
    def back(self, cls: int) -> np.ndarray:
        """A class's value at the old reference: that of its form with every reference the reduction itself."""

        def leaf(c: int, n: ENode) -> np.ndarray | None:
            if c in self.settled or n.op == "acc":
                return self.values[c]
            if n.op == "ref":
                return self.back(n.args[0])
            return self.reduced("sum", n.attrs[0], self.back(n.args[0])) if n.op == "pre" else None

        with np.errstate(all="ignore"):
            return self.evaluate(cls, leaf, self.old)

    def finite_references(self, cls: int) -> np.ndarray:
        """Where every reference is finite that a value moves with."""

        def leaf(c: int, n: ENode) -> np.ndarray | None:
            return np.asarray(True) if c in self.settled else np.isfinite(self.values[n.args[0]]) if n.op == "ref" else None

        def of(c: int, args: list[np.ndarray]) -> np.ndarray:
            every = np.asarray(True)
            for a in args:
                every = np.asarray(every & a)
            met = [self.place[a] for a in self.pick[c].attrs if isinstance(a, Axis)] if every.ndim else []  # what is read along them
            return np.asarray(every.all(axis=tuple(met), keepdims=True)) if met else every

        return evaluated(cls, lambda c: self.pick[c].args, lambda c: leaf(c, self.pick[c]), of, {})

    def update(self, cls: int, axis: Axis, own: int) -> np.ndarray | None:
        """The value of an update whose state is the sum of ``own`` at the old reference, and whose accumulators are such sums."""

        def leaf(c: int, n: ENode) -> np.ndarray | None:
            if c in self.settled or n.op == "ref":
                return self.values[c]
            if n.op == "acc":
                return self.reduced("sum", axis, self.back(own))
            return self.reduced("sum", n.attrs[0], self.back(n.args[0])) if n.op == "pre" else None

        return self.evaluate(cls, leaf, {}) if cls in self.values else None

    # in words ------------------------------------------------------------------------------------------------------------------
    def show(self, n: ENode) -> str:
        """A node in words."""
        attrs = ", ".join(a.name if isinstance(a, Axis) else str(a) for a in n.attrs)
        return f"{n.op}[{attrs}]({', '.join(f'c{a}' for a in n.args)})"

    def show_class(self, cls: int) -> str:
        """A class in words."""
        return f"c{cls} = {self.show(self.pick[cls])}" if cls in self.pick else f"c{cls}"
