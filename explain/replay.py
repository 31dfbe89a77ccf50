"""A rewrite step run on random arrays: the node before and the node after must have one value.

Extents are small and random (axes that index expressions mention keep theirs: extents are part of those).  Arguments are evaluated in
their base form, that is as the program states them, so each step is tested by itself; loops with running values are executed tile by tile.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from ..egraph.frozen import ENode, FrozenGraph
from ..egraph.values import Limits, NoValue, Values, fixed_axes
from ..ir.index import Axis
from ..ir.monoids import MONOIDS
from ..ir.nodes import RUNNING
from ..ir.recursion import arguments_first
from .forms import Forms

AGREES = 1e-9  # of the largest magnitude: float64 at small sizes loses about 1e-15 per operation
NO_NUMBER = "no value is a number on random inputs"
LARGEST = 1 << 24  # elements of an array that is still evaluated
STEPS = 8  # of a loop over a long axis; an axis of up to so many elements is walked element by element


class _TooLarge(NoValue):
    """Arrays that are too large."""

    def __init__(self, what: str, elements: int) -> None:
        super().__init__(f"{what} of {elements:,} elements: extents that index expressions mention stay what they are")


@dataclass(frozen=True)
class Replayed:
    """The outcome for one step: the largest difference, relative to the largest value (of a sum also the largest addend: a sum of
    deviations is 0 but for rounding), over how many numbers; or why there is none."""

    difference: float
    numbers: int
    skipped: str = ""
    large: bool = False  # skipped because arrays are too large

    @property
    def agrees(self) -> bool:
        """Both nodes have one value, as far as it was tested."""
        return not self.skipped and self.difference <= AGREES


class Replay(Values):
    """Random inputs for one graph, and the values of its classes on them.

    ``positive``: no input is negative.  ``cut``: classes that get random values of their own, of the sign that is known, as if they
    were inputs; then only the extents that the ``cone`` of some e-nodes above the cut mentions are kept, and the others are small.
    """

    steps = STEPS

    def __init__(
        self,
        graph: FrozenGraph,
        forms: Forms,
        seed: int = 0,
        *,
        positive: bool = False,
        cut: Collection[int] = (),
        cone: Sequence[ENode] = (),
    ) -> None:
        self.forms, self.only_positive, self.cut = forms, positive, frozenset(cut)
        members = [n for row in graph.classes for n in row]
        fixed = fixed_axes(self._cone(graph, cone) if cone else members, () if cone else graph.facts.get("split", ()))
        reduced = {n.attrs[1] for n in members if n.reduction}
        rng = np.random.default_rng(seed)

        def length(a: Axis) -> int:
            return a.size if a in fixed else int(rng.integers(5, 9) if a in reduced and not cone else rng.integers(2, 4))

        super().__init__(graph, seed, length)
        self.inputs = {i.name: i for i in graph.program.inputs}
        self.drawn: dict[str, np.ndarray] = {}
        self.values: dict[Limits, dict[int, np.ndarray]] = {}
        self.outside: dict[ENode, np.ndarray] = {}
        self.loose: set[int] = set()
        self.over: dict[int, frozenset[Axis]] = {}  # the axes that the base form of a class reduces
        for c in arguments_first(forms.base, lambda c: forms.base[c].args if c in forms.base and c not in self.cut else ()):
            self._classify(c)

    def _cone(self, graph: FrozenGraph, cone: Sequence[ENode]) -> list[ENode]:
        """The nodes that the value of some e-nodes goes through, down to the cut."""
        found = list(cone)
        seen = set(self.cut)
        stack = [a for n in cone for a in n.args]
        while stack:
            c = stack.pop()
            n = self.forms.base.get(c)
            if c in seen or n is None:
                continue
            seen.add(c)
            found.append(n)
            stack.extend(n.args)
            if n.op == "pre":
                stack += [m.args[1] for row in graph.classes for m in row if m.op == "roll" and m.args[0] == n.args[0]]
        return found

    def _classify(self, c: int) -> None:
        """Whether the base form of a class mentions a running value of an outer loop, and which axes it reduces."""
        n = self.forms.base.get(c)
        if n is None or c in self.cut:
            return
        own = frozenset({n.attrs[1]}) if n.reduction else frozenset[Axis]()
        self.over[c] = own.union(*(self.over.get(a, frozenset()) for a in n.args))
        if n.op in RUNNING or (n.op != "roll" and any(a in self.loose for a in n.args)):
            self.loose.add(c)

    # one step ------------------------------------------------------------------------------------------------------------------
    def compare(self, before: ENode, after: ENode) -> Replayed:
        """The largest difference between two forms of one class, relative to its largest value."""
        try:
            with np.errstate(all="ignore"):
                a, b = np.broadcast_arrays(self.node(before), self.node(after))
                adds = before.op == "reduce" or before.scalar == "add"
                around = [self.value(c) for c in before.args] if adds else []
        except NoValue as why:
            return Replayed(math.nan, 0, str(why), isinstance(why, _TooLarge))
        except ValueError as why:
            return Replayed(math.inf, 0, f"the values have other shapes: {why}")
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        tested = np.isfinite(a) | np.isfinite(b) | same & np.isinf(a)
        if not tested.any():
            return Replayed(math.nan, 0, NO_NUMBER)
        with np.errstate(all="ignore"):
            apart = np.where(same, 0.0, np.abs(a - b))[tested]
        apart = np.where(np.isnan(apart), math.inf, apart)
        scale = max(float(np.max(np.abs(x[np.isfinite(x)]), initial=0.0)) for x in (a, *around)) or 1.0
        return Replayed(float(np.max(apart)) / scale, int(tested.sum()))

    def node(self, n: ENode) -> np.ndarray:
        """A node's value, its arguments in base form; running values of loops around it are free."""
        if n.op == "roll":
            return self.run(n)
        return self._running(n) if n.op in RUNNING else self.apply(n, [self.value(a) for a in n.args])

    # values --------------------------------------------------------------------------------------------------------------------
    def value(self, c: int) -> np.ndarray:
        """A class's value outside of all loops."""

        def leaf(c: int, n: ENode) -> np.ndarray | None:
            return self.whole(c, ()) if c not in self.loose else self._running(n) if n.op in RUNNING else None

        return self.evaluate(c, leaf, {})

    def _running(self, n: ENode) -> np.ndarray:
        """A running value outside its loop."""
        if n not in self.outside:
            x = self.value(n.args[0]) if n.args else self.full(0.0)
            self.outside[n] = self.free(n, self.reduced("sum", n.attrs[0], x) if n.op == "pre" else x)
        return self.outside[n]

    def form(self, c: int) -> ENode | None:
        return self.forms.base.get(c)

    def is_settled(self, c: int) -> bool:
        return c not in self.loose

    def whole(self, c: int, limits: Limits) -> np.ndarray:
        mine = self._mine(c, limits)

        def leaf(d: int, n: ENode) -> np.ndarray | None:
            if (less := self._mine(d, mine)) != mine:  # it has one value for all of these
                return self.whole(d, less)
            return self._cut(d) if d in self.cut else self.run(n, mine) if n.op == "roll" else None

        return self.evaluate(c, leaf, self.values.setdefault(mine, {}), mine)

    def _mine(self, c: int, limits: Limits) -> Limits:
        reduced = self.over.get(c, frozenset())
        return tuple((a, n) for a, n in limits if a in reduced)

    def prefix(self, r: int, axis: Axis, end: int, limits: Limits) -> tuple[np.ndarray, np.ndarray | float]:
        if r in self.loose:
            raise NoValue("a running value of another loop")
        form = self.forms.base[r]
        nothing = form.op in ("map", "cast")
        identity = MONOIDS[form.attrs[0]].identity if form.op == "reduce" else self.whole(r, (*limits, (axis, 0))) if nothing else 0.0
        return self.whole(r, (*limits, (axis, end))), identity

    def apply(self, n: ENode, args: list[np.ndarray], limits: Limits = ()) -> np.ndarray:
        shape = np.broadcast_shapes(*(x.shape for x in args))
        _room("arrays", shape)
        if n.op == "view":
            rest = tuple(1 if k == self.place[n.attrs[0]] else size for k, size in enumerate(shape))
            _room("arrays", np.broadcast_shapes(self.position(n.attrs[1]).shape, rest))
        return super().apply(n, args, limits)

    def input(self, name: str) -> np.ndarray:
        if name not in self.drawn:
            i = self.inputs[name]
            _room(f"input {name}", [self.extents[self.place[a]] for a in i.layout if a is not None])
            x = self.draw(i, self.rng)
            self.drawn[name] = self.spread(i, np.abs(x) + 0.1 if self.only_positive and i.dtype.is_float else x)
        return self.drawn[name]

    def _cut(self, c: int) -> np.ndarray:
        """A class of the cut: any values of its sign."""
        shape = [size if a in self.graph.axes[c] else 1 for a, size in zip(self.axes, self.extents, strict=True)]
        _room("arrays", shape)
        x = self.rng.normal(size=shape) * 1.5
        if c in self.positive or c in self.known("nonneg"):
            return np.abs(x) + 0.1
        return -np.abs(x) if c in self.signed else x


def _room(what: str, shape: Sequence[int]) -> None:
    """Raise where an array has too many elements."""
    if math.prod(shape) > LARGEST:
        raise _TooLarge(what, math.prod(shape))
