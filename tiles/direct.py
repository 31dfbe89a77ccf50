"""A kernel straight from a program's own terms, with given roles: no rewriting, no search.

This is how one kernel is made by hand, and the baseline that tests of lowering start from.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..errors import PlanError
from ..ir.index import Axis, IndexExpr, index
from ..ir.nodes import axes
from ..ir.program import Program
from ..ir.recursion import Steps, completed
from ..ir.terms import Gather, Index, Input, Reduce, Scan, Term, View, selected
from .kernel import Buffer, Kernel, Node, Role, Root, input_buffers


class NodeBuilder:
    """Hash-consed nodes.  Also for building kernels by hand, with running values: each method returns the node's position."""

    def __init__(self, *, anywhere: bool = False) -> None:
        """``anywhere``: for what is true of values, not for kernels: scans that are read at other positions are there,
        too, and reductions over an axis that stands in the position at which they are read, over another one."""
        self.anywhere = anywhere
        self.nodes: list[Node] = []
        self._known: dict[Node, int] = {}

    def node(self, op: str, attrs: tuple[object, ...], args: tuple[int, ...] = ()) -> int:
        """The position of a node, made if it is new."""
        n = Node(op, attrs, args, axes(op, attrs, [self.nodes[a].axes for a in args]))
        if n not in self._known:
            self._known[n] = len(self.nodes)
            self.nodes.append(n)
        return self._known[n]

    def load(self, buffer: str, *at: Axis | IndexExpr | int, looked: Mapping[Axis, int] = MappingProxyType({})) -> int:
        """A load, one index per buffer dimension; ``looked``: axes of these that are read where other nodes say."""
        return self.node("load", (buffer, tuple(index(e) for e in at), tuple(looked)), tuple(looked.values()))

    def const(self, value: float) -> int:
        """A number."""
        return self.node("const", (float(value),))

    def extent(self, axis: Axis) -> int:
        """The length of an axis."""
        return self.node("extent", (axis,))

    def index(self, expr: IndexExpr | Axis) -> int:
        """The value of an index expression."""
        return self.node("index", (index(expr),))

    def map(self, op: str, *args: int) -> int:
        """A scalar op."""
        return self.node("map", (op,), args)

    def cast(self, to: object, x: int) -> int:
        """A rounding."""
        return self.node("cast", (to,), (x,))

    def reduce(self, monoid: str, axis: Axis, *body: int) -> int:
        """A reduction."""
        return self.node("reduce", (monoid, axis), body)

    def roll(self, monoid: str, axis: Axis, body: int, update: int) -> int:
        """A rolling reduction."""
        return self.node("roll", (monoid, axis), (body, update))

    def ref(self, which: str, axis: Axis, r: int) -> int:
        """A reference to the running value of a reduction."""
        return self.node("ref", (which, axis), (r,))

    def pre(self, axis: Axis, r: int) -> int:
        """The prefix of a sum in the same loop."""
        return self.node("pre", (axis,), (r,))

    def acc(self) -> int:
        """The state of the enclosing roll."""
        return self.node("acc", ())

    def term(self, t: Term, at: Mapping[Axis, IndexExpr] | None = None) -> int:
        """A term, with views resolved into the loads' index expressions.  ``at``: what the free axes stand for."""
        return completed(self._term(t, dict(at or {}), {}))

    def _term(self, t: Term, at: dict[Axis, IndexExpr], memo: dict[tuple[Term, tuple[object, ...]], int]) -> Steps[int]:
        key = (t, tuple(sorted((a, e) for a, e in at.items() if a in t.axes)))
        if key not in memo:
            memo[key] = yield self._make(t, at, memo)
        return memo[key]

    def _make(self, t: Term, at: dict[Axis, IndexExpr], memo: dict[tuple[Term, tuple[object, ...]], int]) -> Steps[int]:
        if isinstance(t, Input):
            return self.load(t.name, *(0 if a is None else at.get(a, index(a)) for a in t.layout))
        if isinstance(t, Index):
            return self.index(at.get(t.axis, index(t.axis)))
        if isinstance(t, View):
            x = t.args[0]
            if t.axis not in x.axes:
                return (yield self._term(x, at, memo))
            inner = {a: e for a, e in at.items() if a != t.axis}
            return (yield self._term(x, {**inner, t.axis: t.index.substitute(at)}, memo))
        if isinstance(t, Gather):
            x, place = t.args
            there = yield self._term(place, at, memo)
            if isinstance(x, Input):
                here = {**at, t.axis: index(t.axis)}
                return self.load(x.name, *(0 if a is None else here.get(a, index(a)) for a in x.layout), looked={t.axis: there})
            return (yield self._term(selected(t), at, memo))
        if isinstance(t, Scan):
            read = at.get(t.axis, index(t.axis))
            along = read.as_axis()
            if along is None or any(along in at.get(a, index(a)).axes() for a in t.axes if a != t.axis):
                if not self.anywhere:
                    raise PlanError(f"the scan along {t.axis.name} is read at {read}, where its other axes are: store it first")
                along, at = t.axis, {a: e for a, e in at.items() if a != t.axis and t.axis not in e.axes()}
            args = []
            for x in t.args:
                args.append((yield self._term(x, {**at, t.axis: index(along)}, memo)))
            return self.node("scan", (t.monoid, along), tuple(args))
        if not isinstance(t, Reduce):
            args = []
            for a in t.args:
                args.append((yield self._term(a, at, memo)))
            return self.node(t.kind, t.attrs, tuple(args))
        inner = {a: e for a, e in at.items() if a != t.axis and any(a in x.axes for x in t.args)}
        axis = t.axis
        if any(axis in e.axes() for e in inner.values()):
            if not self.anywhere:
                raise PlanError(f"axis {axis.name} is both reduced and read from outside; rename one")
            axis = Axis(f"{axis.name} within {len(self.nodes)}", axis.size, axis.rank)
            inner[t.axis] = index(axis)
        args = []
        for x in t.args:
            args.append((yield self._term(x, inner, memo)))
        return self.reduce(t.monoid, axis, *args)


def kernel_from_program(
    program: Program,
    roles: Mapping[Axis, Role],
    *,
    order: tuple[Axis, ...] | None = None,
    grid: tuple[Axis, ...] | None = None,
    packs: tuple[tuple[Axis, ...], ...] = (),
    warps: int = 4,
    stages: int = 2,
    anywhere: bool = False,
) -> Kernel:
    """One kernel that computes all outputs of a program.  ``order`` and ``grid`` default to the order of the program's axes."""
    build = NodeBuilder(anywhere=anywhere)
    roots = []
    buffers = input_buffers(program)
    for o in program.outputs:
        roots.append(Root(build.term(o.term), o.name, tuple(index(0 if a is None else a) for a in o.layout)))
        buffers[o.name] = Buffer(o.name, o.dtype, o.shape, "output")
    tiled = tuple(a for a in roles if roles[a].tile > 1)
    return Kernel(
        program.name,
        tuple(build.nodes),
        tuple(roots),
        buffers,
        dict(roles),
        tiled if order is None else order,
        tuple(a for a in roles if roles[a].kind == "grid") if grid is None else grid,
        packs,
        warps,
        stages,
    )
