"""Values of the classes of a graph on small arrays, and loops executed literally.

Values are float64 arrays with one dimension per axis of the graph, of length 1 where a value is free of the axis.  A class is computed by
one of its forms, and whoever computes says by which.  A loop with running values is executed step by step, as a kernel does: with running
references, all the accumulators that its update mentions, and the guard that lowering uses: the state is kept where an old reference is the
identity.  Outside of its loop a running value is a free parameter, and gets random numbers of the sign that it is known to have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np

from ..ir.index import Axis, IndexExpr
from ..ir.monoids import MONOIDS
from ..ir.ops import OPS
from ..ir.recursion import evaluated
from ..ir.semantics import Arrays, reduce_array, value
from ..ir.terms import Input
from .frozen import ENode, FrozenGraph

STATE = 1.37  # of an accumulator outside its loop
WHOLE = {"bool": 2, "int": 3}  # kind of type -> below which number whole numbers are drawn

Limits = tuple[tuple[Axis, int], ...]  # reductions over these axes take only the first elements
Leaf = Callable[[int, ENode], "np.ndarray | None"]


class NoValue(Exception):
    """What has no value; the text says why."""


def fixed_axes(nodes: Iterable[ENode], splits: Iterable[tuple[Axis, ...]]) -> set[Axis]:
    """The axes whose lengths stand in index expressions, or are products of others: they are as long as they are."""
    return {a for n in nodes if n.op == "view" for a in n.mentions} | {a for split in splits for a in split}


class Values(Arrays, ABC):
    """The values of one graph at some lengths of its axes."""

    steps: int | None = None  # into which a loop over a long axis is cut; ``None``: element by element

    def __init__(self, graph: FrozenGraph, seed: int, length: Callable[[Axis], int]) -> None:
        self.graph = graph
        self.rng = np.random.default_rng(seed)
        self.axes = sorted({a for row in graph.classes for n in row for a in n.mentions} | set(graph.program.axes))
        self.place = {a: k for k, a in enumerate(self.axes)}
        self.extents = tuple(map(length, self.axes))
        self.references: dict[tuple[int, Axis], None] = {}  # that the loop reads which was executed last

    @abstractmethod
    def form(self, c: int) -> ENode | None:
        """By which member a class is computed."""

    @abstractmethod
    def is_settled(self, c: int) -> bool:
        """Whether a class mentions no running value of a loop around it."""

    @abstractmethod
    def whole(self, c: int, limits: Limits) -> np.ndarray:
        """The value of a class that is settled."""

    @abstractmethod
    def prefix(self, r: int, axis: Axis, end: int, limits: Limits) -> tuple[np.ndarray, np.ndarray | float]:
        """The running value of a class after so many elements, and what it is where it has seen nothing."""

    @abstractmethod
    def input(self, name: str) -> np.ndarray:
        """An input of the program, over all axes."""

    @cached_property
    def updates(self) -> dict[tuple[Axis, int], int]:
        """The updates of the accumulators that loops keep, by the axis and the body of the sum."""
        rolls = (n for row in self.graph.classes for n in row if n.op == "roll" and n.attrs[0] == "sum")
        return {(n.attrs[1], n.args[0]): n.args[1] for n in rolls}

    def known(self, condition: str) -> frozenset[int]:
        """The classes of which a condition is known."""
        return frozenset(c for (c,) in self.graph.facts.get(condition, ()))

    @cached_property
    def positive(self) -> frozenset[int]:
        """Those that are positive."""
        return self.known("positive")

    @cached_property
    def signed(self) -> frozenset[int]:
        """Those that are nowhere of both signs."""
        return self.known("nonneg") | self.known("nonpos")

    # nodes ---------------------------------------------------------------------------------------------------------------------
    def position(self, e: IndexExpr) -> np.ndarray:
        """An index expression over all axes."""
        at = np.asarray(e.evaluate({a: self.along(self.place[a]) for a in e.axes()}))
        return at if at.ndim else np.full((1,) * len(self.axes), at)

    def apply(self, n: ENode, args: list[np.ndarray], limits: Limits = ()) -> np.ndarray:
        """A node that is no running value, over the values of its arguments."""
        if n.op == "view" and any(m.op == "index" and m.attrs == n.attrs[:1] for m in self.graph.classes[n.args[0]]):
            return self.numbers(self.position(n.attrs[1]))  # a position past the end is still a position
        if n.op == "reduce":
            monoid, axis = n.attrs
            return self.reduced(monoid, axis, *args, length=dict(limits).get(axis))
        attrs = [self.place[a] if isinstance(a, Axis) else self.position(a) if isinstance(a, IndexExpr) else a for a in n.attrs]
        return np.asarray(value(self, n.op, attrs, args))

    def reduced(self, monoid: str, axis: Axis, x: np.ndarray, *more: np.ndarray, length: int | None = None) -> np.ndarray:
        """A reduction, of the first elements only if so many are given."""
        k = self.place[axis]
        if length is None:
            return self.reduce(monoid, k, x, *more)
        if more:
            raise NoValue("a state of several parts before the end of its loop")
        if x.shape[k] > 1 or self.extents[k] == 1:
            x = x[(slice(None),) * k + (slice(0, length),)]
        return reduce_array(monoid, x, k, length)

    def evaluate(self, root: int, leaf: Leaf, memo: dict[int, np.ndarray], limits: Limits = ()) -> np.ndarray:
        """A class by the forms below it, down to what ``leaf`` knows."""

        def form(c: int) -> ENode:
            if (n := self.form(c)) is None:
                raise NoValue("a value has no form that ends")
            return n

        return evaluated(root, lambda c: form(c).args, lambda c: leaf(c, form(c)), lambda c, args: self.apply(form(c), args, limits), memo)

    # what is drawn -------------------------------------------------------------------------------------------------------------
    def draw(self, t: Input, rng: np.random.Generator) -> np.ndarray:
        """Random numbers of an input's type, in its own layout."""
        shape = [1 if a is None else self.extents[self.place[a]] for a in t.layout]
        most = WHOLE.get(t.dtype.kind)
        return rng.normal(size=shape) * 2 if most is None else rng.integers(0, most, size=shape).astype(float)

    def spread(self, t: Input, x: np.ndarray) -> np.ndarray:
        """An array in an input's layout over all axes."""
        dims = [self.place[a] for a in t.layout if a is not None]
        ordered = x.reshape([self.extents[k] for k in dims]).transpose(sorted(range(len(dims)), key=dims.__getitem__))
        return ordered.reshape([n if k in dims else 1 for k, n in enumerate(self.extents)])

    def free(self, n: ENode, x: np.ndarray) -> np.ndarray:
        """A running value outside its loop, for what x is at the end: any number of the sign that it is known to have."""
        if n.op == "acc":
            return self.full(STATE)
        r = n.args[0]
        finite = np.where(np.isfinite(x), x, 1.0 if r in self.positive else 0.0)
        own = {self.place[a] for a in self.graph.axes[r]}  # along other axes r has equal values, if several
        noise = self.rng.uniform(0.5, 1.5, size=[size if k in own else 1 for k, size in enumerate(x.shape)])
        return finite * noise if r in self.signed or n.op == "pre" else finite + noise

    # loops ---------------------------------------------------------------------------------------------------------------------
    def run(self, roll: ENode, limits: Limits = ()) -> np.ndarray:
        """Execute a loop: state <- combine(update[acc := state], body), with every accumulator that the update needs."""
        monoid, axis = roll.attrs
        body, update = roll.args
        m = MONOIDS[MONOIDS[monoid].state]
        length = dict(limits).get(axis, self.extents[self.place[axis]])
        tile = 1 if self.steps is None else max(1, -(-length // self.steps))
        bodies = self._accumulators((body, update))
        state, sums = self.full(m.identity), {b: self.full(0.0) for b in bodies}
        for begin in range(0, length, tile):
            now = _Step(self, axis, begin, min(begin + tile, length), limits, sums)
            after = OPS[m.combine].numpy(now.moved(update, state), now.reduced(m.name, body))
            sums = {b: (sums[b] if u is None else now.moved(u, sums[b])) + now.reduced("sum", b) for b, u in bodies.items()}
            state = after
        return state / max(length, 1) if monoid == "mean" else state

    def _accumulators(self, roots: tuple[int, ...]) -> dict[int, int | None]:
        """The sums that ``pre`` leaves below some classes read: body -> its update, or ``None`` for a plain sum."""
        found: dict[int, int | None] = {}
        self.references = {}
        seen: set[int] = set()
        stack = list(roots)
        while stack:
            c = stack.pop()
            if c in seen or self.is_settled(c):
                continue
            seen.add(c)
            n = self.form(c)
            if n is None:
                raise NoValue("a value has no form that ends")
            if n.op == "ref":
                self.references[n.args[0], n.attrs[1]] = None
            elif n.op != "pre":
                stack.extend(n.args)
            elif (b := n.args[0]) not in found:
                kept = self.updates.get((n.attrs[0], b))
                if kept is None and not self.is_settled(b):
                    raise NoValue("an accumulator that no loop keeps")
                found[b] = None if self.is_settled(b) else kept
                stack += [b] if found[b] is None else [b, found[b]]  # type: ignore[list-item]
        return found


class _Step:
    """One step of a loop: values of classes at the elements from ``begin`` up to ``end``, at the running references."""

    def __init__(self, of: Values, axis: Axis, begin: int, end: int, limits: Limits, sums: dict[int, np.ndarray]) -> None:
        self.of, self.axis, self.begin, self.end, self.sums = of, axis, begin, end, sums
        self.limits = tuple((a, n) for a, n in limits if a != axis)
        self.memo: dict[int, np.ndarray] = {}
        self.state: np.ndarray | None = None
        self.empty: list[np.ndarray] = []  # where an old reference has seen nothing

    def value(self, c: int) -> np.ndarray:
        """A class's value here."""
        return self.of.evaluate(c, self.leaf, self.memo, self.limits)

    def reduced(self, monoid: str, body: int) -> np.ndarray:
        """The elements of a body, reduced."""
        return reduce_array(monoid, self.value(body), self.of.place[self.axis], self.end - self.begin)

    def leaf(self, c: int, n: ENode) -> np.ndarray | None:
        """What is settled, and running values."""
        if self.of.is_settled(c):
            x, k = self.of.whole(c, self.limits), self.of.place[self.axis]
            return x if x.shape[k] == 1 else x[(slice(None),) * k + (slice(self.begin, self.end),)]
        if n.op == "pre":
            return self.sums[n.args[0]]
        if n.op == "scan" and n.attrs[1] == self.axis:
            raise NoValue("a scan along its loop of what changes from step to step")
        return self.reference(n) if n.op == "ref" else self.state if n.op == "acc" else None

    def reference(self, n: ENode) -> np.ndarray:
        """A running reference; a new one that has seen nothing is a harmless number."""
        if n.attrs[1] != self.axis:
            raise NoValue("a running value of another loop")
        new = n.attrs[0] == "new"
        x, identity = self.of.prefix(n.args[0], self.axis, self.end if new else self.begin, self.limits)
        if np.all(np.isfinite(identity)):
            return x
        nothing = (x == identity) | (np.isnan(x) & np.isnan(identity))
        if new:
            return np.where(nothing, 0.0, x)
        self.empty.append(nothing)
        return x

    def moved(self, update: int, state: np.ndarray) -> np.ndarray:
        """The state at the new reference; kept in the first step, and where an old reference has seen nothing."""
        if self.begin == 0:
            return state
        self.state, saved, self.empty = state, dict(self.memo), []
        found = self.value(update)
        self.memo = saved  # values that depend on this state end with it
        for empty in self.empty:
            found = np.where(empty, state, found)
        return found
