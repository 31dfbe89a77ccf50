"""Centres: means that data are counted from.

``sum / n`` is off by a unit or two of the mean, and so is every ``x - mean``.  Of a row of equal numbers 10000.7 these are 0.001 where 0
is right, and what divides them by the deviation of the row makes 1 of them.  So a mean that is subtracted is counted from an element:

    x - mean x        -->        x - c,    c = s + mean (x - s)        s = x at the first position, 0 if that is not finite

Differences of numbers that are close to each other are exact, those of equal numbers are 0, and then c is the number.  What c lacks
otherwise is a part in 2^24 of the mean, rounded once, or of s - c, which is one of the differences.  That is right for differences, and not
for a mean that is stored: around zero c has digits of s only.  What is stored is c where s is of its size, |s| < 2 |c|, and the plain mean
where it is not; but c itself in 16 bits, and for a later kernel where all data have 16 bits.

A mean that nothing is counted from (``mean x^2 + eps``) stays as it is.  So does one of 16-bit numbers, as long as float32 holds every sum
of equal ones, and one of what cannot be had at one position alone: sums of products, scans, elements at positions that are data.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..egraph.frozen import FrozenGraph
from ..ir import dtypes
from ..ir.index import Axis, index
from .kernel import Buffer, Kernel, Node, Root

NEAR = 2.0  # how large an element may be, in units of a mean that has digits of it
DIGITS = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24}
RULE = "centre"  # what made the nodes
LARGEST = 2.0**126  # element: differences with a larger one may overflow


def centres(graph: FrozenGraph) -> frozenset[int]:
    """The classes that something is counted from: what is added to values that vary where it does not; and what these are the negation, a
    view, the running value or the mean of."""
    axes = graph.axes
    found: set[int] = set()
    todo = [x for nodes in graph.classes for n in nodes if n.scalar == "add" for x, y in (n.args, n.args[::-1]) if not axes[y] <= axes[x]]
    while todo:
        c = todo.pop()
        if c not in found:
            found.add(c)
            todo += [n.args[0] for n in graph.classes[c] if n.scalar == "neg" or n.op in ("ref", "view") or n.reduction == "mean"]
    return frozenset(found)


def counted(
    nodes: tuple[Node, ...], roots: tuple[Root, ...], buffers: Mapping[str, Buffer], classes: Collection[int]
) -> tuple[tuple[Node, ...], tuple[Root, ...]]:
    """The nodes with every mean of some classes counted from an element, and the roots among them."""
    groups = {i: axes for i, axes in _groups(nodes, classes).items() if not _is_exact(nodes, i, axes, buffers)}
    if not groups:
        return nodes, roots
    made = _Counted(nodes)
    for i, n in enumerate(nodes):
        made.take(n, groups.get(i))
    coarse = all(buffers[n.attrs[0]].dtype.itemsize <= 2 for n in nodes if n.op == "load")

    def stored(r: Root) -> int:
        b = buffers[r.buffer]
        fine = b.dtype.itemsize > 2 and (b.role == "output" or not coarse)
        return made.stored.get(r.node, made.now[r.node]) if fine else made.now[r.node]

    return _used(made.nodes, [Root(stored(r), r.buffer, r.index) for r in roots])


def plain(kernel: Kernel) -> Kernel:
    """The kernel with its means as the e-graph has them, which is what an explanation is about."""
    if not any(n.rule == RULE for n in kernel.nodes):
        return kernel
    before, nodes, now = kernel.nodes, list[Node](), list[int]()
    for n in before:
        rest = before[n.args[1]] if n.op == "map" and len(n.args) > 1 else n
        if rest is not n and rest.op == "reduce" and rest.rule == RULE and n.attrs == ("add",):  # c = s + mean (x - s)
            x = before[rest.args[0]].args[0]
            n = Node("reduce", rest.attrs, (x,), n.axes, n.rule, n.stored, n.cls)
        elif n.op == "map" and n.attrs == ("where",) and n.rule != RULE and before[n.args[0]].rule == RULE:  # what of it is stored
            now.append(now[n.args[1]])
            continue
        nodes.append(Node(n.op, n.attrs, tuple(now[a] for a in n.args), n.axes, n.rule, n.stored, n.cls))
        now.append(len(nodes) - 1)
    kept, roots = _used(nodes, [Root(now[r.node], r.buffer, r.index) for r in kernel.roots])
    return replace(kernel, nodes=kept, roots=roots)


def _groups(nodes: Sequence[Node], classes: Collection[int]) -> dict[int, tuple[Axis, ...]]:
    """The means of some classes, each with the axes of the whole group that it is a mean in: its own, and those of a mean of it."""
    found: dict[int, tuple[Axis, ...]] = {}
    for i in reversed(range(len(nodes))):
        n = nodes[i]
        if _is_mean(n) and n.cls in classes:
            found[i] = (n.attrs[1], *found.get(i, ()))
            inner = n.args[0]
            while nodes[inner].op == "ref":
                inner = nodes[inner].args[0]
            if _is_mean(nodes[inner]):
                found[inner] = found[i]
    return {i: axes for i, axes in found.items() if nodes[i].cls in classes}


def _is_exact(nodes: Sequence[Node], mean: int, group: tuple[Axis, ...], buffers: Mapping[str, Buffer]) -> bool:
    """Whether the sum of equal elements is exact: they have few digits, and there are not many of them."""
    n = nodes[mean]
    while n.op in ("cast", "ref") or _is_mean(n):
        n = nodes[n.args[0]]
    digits = DIGITS.get(buffers[n.attrs[0]].dtype) if n.op == "load" else None
    return digits is not None and math.prod(a.size for a in group) <= 1 << (DIGITS[dtypes.float32] - digits)


def _is_mean(n: Node) -> bool:
    return n.op == "reduce" and n.attrs[0] == "mean"


@dataclass
class _Counted:
    """Nodes with centres: ``now``, what each node before has become; ``stored``, what it is where it is stored."""

    before: Sequence[Node]
    nodes: list[Node] = field(default_factory=list)
    now: list[int] = field(default_factory=list)
    stored: dict[int, int] = field(default_factory=dict)
    places: dict[Node, int] = field(default_factory=dict)

    def take(self, n: Node, group: tuple[Axis, ...] | None) -> None:
        """Append a node; ``group``: the axes of a mean and of those around it."""
        plain = Node(n.op, n.attrs, tuple(self.now[x] for x in n.args), n.axes, n.rule, n.stored, n.cls)
        s = self._first(n.args[0], group) if group and all(a.size for a in group) else None
        if s is None:
            self.now.append(self._put(plain))
            return
        (x,) = plain.args
        s = self._map("where", self._map("lt", self._map("abs", s), self._const(LARGEST)), s, self._const(0.0))
        off = self._map("add", x, self._map("neg", s))
        rest = self._put(Node(n.op, n.attrs, (off,), n.axes, RULE))
        c = self._put(Node("map", ("add",), (s, rest), n.axes, n.rule, n.stored, n.cls))
        near = self._map("lt", self._map("abs", s), self._map("mul", self._map("abs", c), self._const(NEAR)))
        mean = self._put(Node(n.op, n.attrs, plain.args, n.axes, n.rule))
        self.stored[len(self.now)] = self._put(Node("map", ("where",), (near, c, mean), n.axes, n.rule, n.stored, n.cls))
        self.now.append(c)

    def _first(self, node: int, group: tuple[Axis, ...]) -> int | None:
        """A value at the first position of some axes, of a mean that of any of its elements; ``None`` if it cannot be had alone."""
        n = self.before[node]
        while n.op == "ref" or _is_mean(n):
            group = (*group, n.attrs[1]) if n.op == "reduce" else group
            node = n.args[0]
            n = self.before[node]
        s: int | None = self.now[node]
        for axis in group:
            s = None if s is None else self._at(s, axis)
        return s

    def _at(self, node: int, axis: Axis) -> int | None:
        n = self.nodes[node]
        first = {axis: index(0)}
        if axis not in n.axes:
            return node if n.op not in ("ref", "roll", "pre", "acc") else None
        if n.op == "load" and not n.args:
            name, at, *rest = n.attrs
            return self._put(Node("load", (name, tuple(e.substitute(first) for e in at), *rest), (), n.axes - {axis}, RULE))
        if n.op == "index":
            return self._put(Node("index", (n.attrs[0].substitute(first),), (), n.axes - {axis}, RULE))
        if n.op not in ("map", "cast"):
            return None
        args = []
        for a in n.args:
            if (x := self._at(a, axis)) is None:
                return None
            args.append(x)
        return self._put(Node(n.op, n.attrs, tuple(args), self._over(args), RULE, n.stored))

    def _const(self, number: float) -> int:
        return self._put(Node("const", (number,), (), frozenset()))

    def _map(self, op: str, *args: int) -> int:
        return self._put(Node("map", (op,), args, self._over(args), RULE))

    def _over(self, args: Collection[int]) -> frozenset[Axis]:
        return frozenset().union(*(self.nodes[x].axes for x in args))

    def _put(self, n: Node) -> int:
        if n not in self.places:
            self.nodes.append(n)
            self.places[n] = len(self.nodes) - 1
        return self.places[n]


def _used(nodes: Sequence[Node], roots: Sequence[Root]) -> tuple[tuple[Node, ...], tuple[Root, ...]]:
    """The nodes that roots need."""
    needed = {r.node for r in roots}
    for i in reversed(range(len(nodes))):
        if i in needed:
            needed.update(nodes[i].args)
    now = {x: k for k, x in enumerate(sorted(needed))}
    kept = (nodes[x] for x in now)
    return (
        tuple(Node(n.op, n.attrs, tuple(now[a] for a in n.args), n.axes, n.rule, n.stored, n.cls) for n in kept),
        tuple(Root(now[r.node], r.buffer, r.index) for r in roots),
    )
