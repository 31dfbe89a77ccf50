"""A rewrite step run on random arrays: the node before and the node after must have one value.

Values are float64 arrays with one dimension per axis of the graph, of length 1 where a value is free of the axis, at small random
extents (axes that index expressions mention keep theirs: extents are part of those).  Arguments are evaluated in their base form,
that is as the program states them, so each step is tested by itself.  A loop with running values is executed literally, tile by tile
as a kernel does, with its accumulators; outside its loop a running value is a free parameter and gets random numbers.
This is an interpreter of its own: it shares only the meaning of single ops, reductions and views with the audit.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..egraph.frozen import ENode, FrozenGraph
from ..ir.dtypes import cast
from ..ir.index import Axis
from ..ir.monoids import MONOIDS
from ..ir.ops import OPS
from ..ir.recursion import arguments_first
from ..ir.semantics import read_at, reduce_array
from ..ir.terms import Input
from .forms import Forms

AGREES = 1e-9  # of the largest magnitude: float64 at small sizes loses about 1e-15 per operation
NO_NUMBER = "no value is a number on random inputs"
LARGEST = 1 << 24  # elements of an array that is still evaluated
STEPS = 8  # of a loop over a long axis; an axis of up to so many elements is walked element by element

Limits = tuple[tuple[Axis, int], ...]  # reductions over these axes take only the first elements


class _NotReplayed(Exception):
    """A step that cannot be replayed; the text says why."""


class _TooLarge(_NotReplayed):
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


class Replay:
    """Random inputs for one graph, and the values of its classes on them.

    ``positive``: no input is negative.  ``cut``: classes that get random values of their own, of the sign that is known, as if they
    were inputs; then only the extents that the ``cone`` of some e-nodes above the cut mentions are kept, and the others are small.
    """

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
        self.graph, self.forms, self.positive, self.cut = graph, forms, positive, frozenset(cut)
        self.rng = np.random.default_rng(seed)
        self.axes = sorted({a for row in graph.classes for n in row for a in _axes(n)} | set(graph.program.axes))
        self.place = {a: k for k, a in enumerate(self.axes)}
        views = [n for row in graph.classes for n in row if n.op == "view"] if not cone else self._views_of(cone)
        fixed = {a for n in views for a in (n.attrs[0], *n.attrs[1].axes())}
        if not cone:
            fixed |= {a for split in graph.facts.get("split", ()) for a in split}
        reduced = {n.attrs[1] for row in graph.classes for n in row if n.op in ("reduce", "roll")}
        self.size = {
            a: a.size if a in fixed else int(self.rng.integers(*((5, 9) if a in reduced and not cone else (2, 4)))) for a in self.axes
        }
        self.inputs = {i.name: i for i in graph.program.inputs}
        self.drawn: dict[str, np.ndarray] = {}
        self.signed = {c for name in ("nonneg", "nonpos") for (c,) in graph.facts.get(name, ())}
        self.values: dict[tuple[int, Limits], np.ndarray] = {}
        self.free: dict[ENode, np.ndarray] = {}
        self.loose: set[int] = set()
        self.reduced: dict[int, frozenset[Axis]] = {}
        for c in reversed(forms.below(tuple(range(len(graph.classes))))):
            self._classify(c)

    def _views_of(self, cone: Sequence[ENode]) -> list[ENode]:
        """The views that the value of some e-nodes goes through, down to the cut."""
        found = [n for n in cone if n.op == "view"]
        seen = set(self.cut)
        stack = [a for n in cone for a in n.args]
        while stack:
            c = stack.pop()
            n = self.forms.base.get(c)
            if c in seen or n is None:
                continue
            seen.add(c)
            found += [n] if n.op == "view" else []
            stack.extend(n.args)
            if n.op == "pre":
                stack += [m.args[1] for row in self.graph.classes for m in row if m.op == "roll" and m.args[0] == n.args[0]]
        return found

    def _classify(self, root: int) -> None:
        """Whether the base form of a class mentions a running value of an outer loop, and which axes it reduces."""
        stack = [root]
        while stack:
            c = stack[-1]
            n = self.forms.base.get(c)
            if c in self.reduced or n is None:
                stack.pop()
                continue
            if c in self.cut:
                self.reduced[c] = frozenset()
                stack.pop()
                continue
            waiting = [a for a in n.args if a not in self.reduced and a in self.forms.base]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            own = frozenset({n.attrs[1]}) if n.op in ("reduce", "roll") else frozenset[Axis]()
            self.reduced[c] = own.union(*(self.reduced.get(a, frozenset()) for a in n.args))
            if n.op in ("ref", "pre", "acc") or (n.op != "roll" and any(a in self.loose for a in n.args)):
                self.loose.add(c)

    # one step ------------------------------------------------------------------------------------------------------------------
    def compare(self, before: ENode, after: ENode) -> Replayed:
        """The largest difference between two forms of one class, relative to its largest value."""
        try:
            with np.errstate(all="ignore"):
                a, b = np.broadcast_arrays(self.node(before), self.node(after))
                adds = before.op == "reduce" or before.op == "map" and before.attrs[0] == "add"
                around = [self._outside(c) for c in before.args] if adds else []
        except _NotReplayed as why:
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
            return self._loop(n, ())
        if n.op in ("ref", "pre", "acc"):
            return self._free(n)
        return self._apply(n, [self._outside(a) for a in n.args], ())

    # values --------------------------------------------------------------------------------------------------------------------
    def _outside(self, c: int) -> np.ndarray:
        return _Free(self).value(c) if c in self.loose else self.whole(c, ())

    def whole(self, c: int, limits: Limits) -> np.ndarray:
        """The value of a class that mentions no running value of an outer loop, reductions limited to prefixes."""
        stack = [c]
        while stack:
            d = stack[-1]
            mine = self._mine(d, limits)
            if (d, mine) in self.values:
                stack.pop()
                continue
            n = self.forms.base.get(d)
            if n is None:
                raise _NotReplayed("a value has no form that ends")
            if d in self.cut:
                self.values[d, mine] = self._draw(d)
                continue
            if n.op == "roll":
                self.values[d, mine] = self._loop(n, mine)
                continue
            waiting = [a for a in n.args if (a, self._mine(a, limits)) not in self.values]
            if waiting:
                stack.extend(waiting)
                continue
            self.values[d, mine] = self._apply(n, [self.values[a, self._mine(a, limits)] for a in n.args], mine)
        return self.values[c, self._mine(c, limits)]

    def _mine(self, c: int, limits: Limits) -> Limits:
        reduced = self.reduced.get(c, frozenset())
        return tuple((a, n) for a, n in limits if a in reduced)

    def _apply(self, n: ENode, args: list[np.ndarray], limits: Limits) -> np.ndarray:
        """An ordinary node."""
        shape = np.broadcast_shapes(*(a.shape for a in args)) if args else ()
        if math.prod(shape) > LARGEST:
            raise _TooLarge("arrays", math.prod(shape))
        if n.op == "input":
            return self._input(self.inputs[n.attrs[0]])
        if n.op == "const":
            return self._scalar(n.attrs[0])
        if n.op == "extent":
            return self._scalar(self.size[n.attrs[0]])
        if n.op == "index":
            return self._along(n.attrs[0]).astype(float)
        if n.op == "map":
            return np.asarray(OPS[n.attrs[0]].numpy(*args), float)
        if n.op == "cast":
            return args[0] if n.attrs[0].is_float else cast(args[0], n.attrs[0]).astype(float)
        if n.op == "reduce":
            return self._reduce(n.attrs[0], n.attrs[1], args[0], limits)
        assert n.op == "view", n
        axis, expr = n.attrs
        at = np.asarray(expr.evaluate({a: self._along(a) for a in expr.axes()}))
        at = at if at.ndim else np.full((1,) * len(self.axes), at)
        if any(m.op == "index" and m.attrs[0] == axis for m in self.graph.classes[n.args[0]]):
            return at.astype(float)  # a position past the end is still a position
        grown = np.broadcast_shapes(at.shape, tuple(1 if k == self.place[axis] else s for k, s in enumerate(args[0].shape)))
        if math.prod(grown) > LARGEST:
            raise _TooLarge("arrays", math.prod(grown))
        return read_at(args[0], self.place[axis], at)

    def _reduce(self, monoid: str, axis: Axis, x: np.ndarray, limits: Limits) -> np.ndarray:
        k = self.place[axis]
        length = dict(limits).get(axis, self.size[axis])
        if x.shape[k] > 1 or self.size[axis] == 1:
            x = x[(slice(None),) * k + (slice(0, length),)]
        return reduce_array(monoid, x, k, length)

    def _input(self, i: Input) -> np.ndarray:
        if i.name not in self.drawn:
            shape = [1 if a is None else self.size[a] for a in i.layout]
            if math.prod(shape) > LARGEST:
                raise _TooLarge(f"input {i.name}", math.prod(shape))
            if i.dtype.kind == "bool":
                x = self.rng.integers(0, 2, size=shape).astype(float)
            elif i.dtype.kind == "int":
                x = self.rng.integers(0, 3, size=shape).astype(float)
            else:
                x = self.rng.normal(size=shape) * 1.5
                x = np.abs(x) + 0.1 if self.positive else x
            named = [a for a in i.layout if a is not None]
            x = x.reshape([self.size[a] for a in named]).transpose(sorted(range(len(named)), key=lambda k: self.place[named[k]]))
            self.drawn[i.name] = x.reshape([self.size[a] if a in named else 1 for a in self.axes])
        return self.drawn[i.name]

    def _draw(self, c: int) -> np.ndarray:
        """A class of the cut: any values of its sign."""
        shape = [self.size[a] if a in self.graph.axes[c] else 1 for a in self.axes]
        if math.prod(shape) > LARGEST:
            raise _TooLarge("arrays", math.prod(shape))
        x = self.rng.normal(size=shape) * 1.5
        facts = {name: {d for (d,) in self.graph.facts.get(name, ())} for name in ("positive", "nonneg", "nonpos")}
        if c in facts["positive"] or c in facts["nonneg"]:
            return np.abs(x) + 0.1
        return -np.abs(x) if c in facts["nonpos"] else x

    def _scalar(self, x: float) -> np.ndarray:
        return np.full((1,) * len(self.axes), float(x))

    def _along(self, axis: Axis) -> np.ndarray:
        shape = [1] * len(self.axes)
        shape[self.place[axis]] = -1
        return np.arange(self.size[axis]).reshape(shape)

    def _free(self, n: ENode) -> np.ndarray:
        """A running value outside its loop: any number of the sign that it is known to have."""
        if n not in self.free:
            if n.op == "acc":
                self.free[n] = self._scalar(1.37)
            else:
                x = self._outside(n.args[0])
                x = reduce_array("sum", x, self.place[n.attrs[0]], self.size[n.attrs[0]]) if n.op == "pre" else x
                x = np.where(np.isfinite(x), x, 0.0)
                noise = self.rng.uniform(0.5, 1.5, size=x.shape)
                self.free[n] = x * noise if n.args[0] in self.signed or n.op == "pre" else x + noise
        return self.free[n]

    # loops ---------------------------------------------------------------------------------------------------------------------
    def _loop(self, roll: ENode, limits: Limits) -> np.ndarray:
        """Execute a loop: state <- combine(update[acc := state], body), with every accumulator that the update needs."""
        monoid, axis = roll.attrs
        body, update = roll.args
        length = dict(limits).get(axis, self.size[axis])
        tile = max(1, -(-length // STEPS))
        bodies = self._accumulators(axis, (body, update))
        state = self._scalar(MONOIDS[MONOIDS[monoid].state].identity)
        sums = {b: self._scalar(0.0) for b in bodies}
        combine = OPS[MONOIDS[monoid].combine].numpy
        for start in range(0, length, tile):
            now = _Step(self, axis, (start, min(start + tile, length)), limits, sums)
            after = combine(now.moved(update, state), now.reduced(MONOIDS[monoid].state, body))
            sums = {b: (sums[b] if u is None else now.moved(u, sums[b])) + now.reduced("sum", b) for b, u in bodies.items()}
            state = after
        return state / max(length, 1) if monoid == "mean" else state

    def _accumulators(self, axis: Axis, roots: tuple[int, ...]) -> dict[int, int | None]:
        """The sums that ``pre`` leaves below some classes read: body -> its update, or ``None`` for a plain sum."""
        found: dict[int, int | None] = {}
        seen: set[int] = set()
        stack = list(roots)
        while stack:
            c = stack.pop()
            n = self.forms.base.get(c)
            if c in seen or n is None or c not in self.loose:
                continue
            seen.add(c)
            if n.op == "pre":
                b = n.args[0]
                if b not in found:
                    found[b] = self._update_of(axis, b) if b in self.loose else None
                    stack += [b, *([found[b]] if found[b] is not None else [])]  # type: ignore[list-item]
            elif n.op != "ref":
                stack.extend(n.args)
        return found

    def _update_of(self, axis: Axis, body: int) -> int:
        for members in self.graph.classes:
            for n in members:
                if n.op == "roll" and n.attrs == ("sum", axis) and n.args[0] == body:
                    return n.args[1]
        raise _NotReplayed("an accumulator that no loop keeps")


class _Free:
    """Values outside the loop that they belong to."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.memo: dict[int, np.ndarray] = {}

    def value(self, c: int) -> np.ndarray:
        """A class's value here."""
        for x in arguments_first([c], self._below, self.memo.__contains__):
            self.memo[x] = self.compute(x)
        return self.memo[c]

    def _below(self, c: int) -> tuple[int, ...]:
        """The classes that :meth:`compute` asks for."""
        n = self.replay.forms.base.get(c)
        return () if n is None or c not in self.replay.loose or n.op in ("ref", "pre", "acc") else n.args

    def compute(self, c: int) -> np.ndarray:
        """By its base form."""
        r = self.replay
        n = r.forms.base.get(c)
        if n is None:
            raise _NotReplayed("a value has no form that ends")
        if c not in r.loose:
            return self.fixed(c)
        if n.op in ("ref", "pre", "acc"):
            return self.running(n)
        return r._apply(n, [self.value(a) for a in n.args], self.limits)

    limits: Limits = ()

    def fixed(self, c: int) -> np.ndarray:
        """A value without running values."""
        return self.replay.whole(c, ())

    def running(self, n: ENode) -> np.ndarray:
        """A running value."""
        return self.replay._free(n)


class _Step(_Free):
    """Values at one tile of a loop: the elements from ``begin`` up to ``end``."""

    def __init__(
        self, replay: Replay, axis: Axis, tile: tuple[int, int], limits: Limits, sums: dict[int, np.ndarray]
    ) -> None:
        super().__init__(replay)
        self.axis, self.limits, self.sums = axis, tuple((a, n) for a, n in limits if a != axis), sums
        self.begin, self.end = tile
        self.state: np.ndarray | None = None
        self.empty: list[np.ndarray] = []  # where an old reference has seen nothing

    def fixed(self, c: int) -> np.ndarray:
        x, k = self.replay.whole(c, self.limits), self.replay.place[self.axis]
        return x if x.shape[k] == 1 else x[(slice(None),) * k + (slice(self.begin, self.end),)]

    def reduced(self, monoid: str, body: int) -> np.ndarray:
        """The tile of a body, reduced."""
        return reduce_array(monoid, self.value(body), self.replay.place[self.axis], self.end - self.begin)

    def running(self, n: ENode) -> np.ndarray:
        if n.op == "acc":
            assert self.state is not None
            return self.state
        if n.op == "pre":
            return self.sums[n.args[0]]
        r, new = n.args[0], n.attrs[0] == "new"
        if r in self.replay.loose or n.attrs[1] != self.axis:
            raise _NotReplayed("a running value of another loop")
        x = self.replay.whole(r, (*self.limits, (self.axis, self.end if new else self.begin)))
        form = self.replay.forms.base[r]
        identity = MONOIDS[form.attrs[0]].identity if form.op == "reduce" else 0.0
        if math.isinf(identity):
            if new:
                return np.where(x == identity, 0.0, x)
            self.empty.append(x == identity)
        return x

    def moved(self, update: int, state: np.ndarray) -> np.ndarray:
        """The state at the new reference; kept in the first step, and where an old reference has seen nothing."""
        if self.begin == 0:
            return state
        self.state, saved, self.empty = state, dict(self.memo), []
        value = self.value(update)
        self.memo = saved  # values that depend on this state end with it
        for empty in self.empty:
            value = np.where(empty, state, value)
        return value


def _axes(n: ENode) -> Iterator[Axis]:
    for a in n.attrs:
        if isinstance(a, Axis):
            yield a
        elif n.op == "view":
            yield from a.axes()
