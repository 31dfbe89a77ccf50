"""From e-classes to concrete nodes: the cheapest representative of every value *in its streaming context*.

Technology mapping with required times.  The state of choice is (class, budget), the budget being the number of loops over each
streamed axis that may finish before the value is needed.  A reduction over a streamed axis asks its body one loop earlier, a
running value one loop later; pointwise operations pass the budget on.  Whether to repair in the loop or to loop again follows
from the budget: there is no special case.  Costs are elements times the op's instructions, by role, never node counts.

The result is a hash-consed list of :class:`~eqfuse.tiles.kernel.Node`; lowering never sees a class.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ..egraph.frozen import ENode, FrozenGraph
from ..ir.dtypes import DType
from ..ir.index import Axis, IndexExpr, index
from ..ir.monoids import MONOIDS
from ..ir.ops import OPS
from ..ir.terms import Map, Reduce
from ..tiles.kernel import Node, Role
from .verdicts import Leaf, Verdicts

Budget = tuple[int, ...]
State = tuple[int, Budget]

ENUMERATED = 2  # streamed axes; with more of them it is asked first whether any number of loops is enough
EPSILON = 1e-3  # every node costs something, so that choices are acyclic and ties prefer fewer nodes
TENSOR_SHARE = 0.1  # cost of a multiply-add in a matrix product, in float32 instructions


@dataclass(frozen=True)
class Access:
    """How to read a class from memory or from positions: a buffer at index expressions, or (no buffer) an index value."""

    buffer: str | None
    index: tuple[IndexExpr, ...]

    @property
    def axes(self) -> frozenset[Axis]:
        """The axes that the addresses depend on."""
        return frozenset().union(*(e.axes() for e in self.index)) if self.index else frozenset()

    def substitute(self, axis: Axis, at: IndexExpr) -> Access:
        """The same access after a view."""
        return Access(self.buffer, tuple(e.substitute({axis: at}) for e in self.index))


class Chooser:
    """Choice over one frozen graph; holds what does not depend on a kernel's roots, leaves and roles."""

    def __init__(self, graph: FrozenGraph) -> None:
        self.graph = graph
        self.layouts = {i.name: i.layout for i in graph.program.inputs}
        self.verdicts = Verdicts(graph)
        self._accessed: tuple[object, list[tuple[Access, ...]]] = (None, [])
        self.refused: dict[str, None] = {}  # verdicts that ruled out a choice, in words
        self.stored = {  # class -> the 16-bit type that the program itself keeps it in
            c: t.dtype
            for t, c in zip(graph.program.terms(), graph.original, strict=True)
            if isinstance(t, Map | Reduce) and t.dtype is not None and t.dtype.is_float and t.dtype.itemsize == 2
        }

    @cached_property
    def accumulators(self) -> Mapping[tuple[Axis, int], tuple[ENode, ...]]:
        """(axis, body class) -> the sum reductions whose accumulator is kept over exactly that body."""
        found: dict[tuple[Axis, int], list[ENode]] = {}
        for enodes in self.graph.classes:
            for n in enodes:
                if n.op in ("reduce", "roll") and n.attrs[0] == "sum":
                    found.setdefault((n.attrs[1], n.args[0]), []).append(n)
        return {k: tuple(v) for k, v in found.items()}

    def accesses_of(self, leaves: Mapping[int, Leaf]) -> list[tuple[Access, ...]]:
        """:meth:`accesses`, remembered for the leaves that were asked for last: a kernel is chosen many times."""
        key = tuple(sorted((c, leaf.buffer) for c, leaf in leaves.items()))
        if key != self._accessed[0]:
            self._accessed = (key, self.accesses(leaves))
        return self._accessed[1]

    def accesses(self, leaves: Mapping[int, Leaf]) -> list[tuple[Access, ...]]:
        """Per class, the ways to read it directly: inputs, stored classes, positions, and views of these."""
        found: list[list[Access]] = [[] for _ in self.graph.classes]
        users: dict[int, list[tuple[int, ENode]]] = {}
        work: list[int] = []
        for c, enodes in enumerate(self.graph.classes):
            if c in leaves:
                leaf = leaves[c]
                found[c].append(Access(leaf.buffer, tuple(index(0) if a is None else index(a) for a in leaf.layout)))
            for n in enodes:
                if n.op == "input":
                    layout = self.layouts[n.attrs[0]]
                    found[c].append(Access(n.attrs[0], tuple(index(0) if a is None else index(a) for a in layout)))
                elif n.op == "index":
                    found[c].append(Access(None, (index(n.attrs[0]),)))
                elif n.op == "view":
                    users.setdefault(n.args[0], []).append((c, n))
            if found[c]:
                work.append(c)
        while work:
            c = work.pop(0)
            for user, n in users.get(c, ()):
                for a in tuple(found[c]):
                    viewed = a.substitute(*n.attrs)
                    if viewed not in found[user]:
                        found[user].append(viewed)
                        work.append(user)
        return [tuple(f) for f in found]

    def choose(
        self,
        roots: tuple[int, ...],
        leaves: Mapping[int, Leaf],
        roles: Mapping[Axis, Role],
        budget: Budget,
        *,
        written: bool = False,
    ) -> tuple[tuple[Node, ...], tuple[int, ...], float] | None:
        """Concrete nodes for the roots, the root positions and the cost; ``None`` if the roles and budget do not allow it.

        ``budget`` has one entry per streamed axis of ``roles``, in the order of ``roles``.  ``written`` admits only nodes of the
        program as written.
        """
        return _Choice(self, roots, leaves, roles, budget, written).solve()

    def cheapest(
        self, roots: tuple[int, ...], leaves: Mapping[int, Leaf], roles: Mapping[Axis, Role], limit: int = 3
    ) -> Iterable[tuple[Budget, tuple[Node, ...], tuple[int, ...], float]]:
        """Choices worth pricing: the one with the fewest loops, those with one loop more over one axis (fewer operations, more
        bytes), and the program as written (whose operands have the types that the program gives them)."""
        streamed = [a for a, r in roles.items() if r.kind == "stream"]
        first: int | None = None
        if len(streamed) > ENUMERATED and self.choose(roots, leaves, roles, (limit,) * len(streamed)) is None:
            return  # more loops never hurt, so fewer are of no use either
        vectors = sorted(itertools.product(range(limit + 1), repeat=len(streamed)), key=lambda b: (sum(b), b))
        seen: set[tuple[Node, ...]] = set()
        for b in vectors:
            if first is not None and sum(b) > first + 1:
                break
            found = self.choose(roots, leaves, roles, b)
            if found is not None:
                if first is None:
                    first = sum(b)
                if found[0] not in seen:
                    seen.add(found[0])
                    yield b, *found
        for b in vectors:
            found = self.choose(roots, leaves, roles, b, written=True)
            if found is not None:
                if found[0] not in seen:
                    yield b, *found
                return


class _Choice:
    """One run of the dynamic program."""

    def __init__(
        self,
        chooser: Chooser,
        roots: tuple[int, ...],
        leaves: Mapping[int, Leaf],
        roles: Mapping[Axis, Role],
        budget: Budget,
        written: bool = False,
    ) -> None:
        self.written = written
        self.chooser, self.graph, self.roots, self.roles, self.top = chooser, chooser.graph, roots, roles, budget
        self.slot = {a: k for k, a in enumerate(a for a, r in roles.items() if r.kind == "stream")}
        self.access = chooser.accesses_of(leaves)
        self.leaves = leaves
        self.elements: list[float] = []
        for axes in self.graph.axes:
            n = 1.0
            for a in axes:
                role = roles.get(a)
                if role is not None:
                    n *= role.tile if role.kind == "grid" else max(a.size, 1)
            self.elements.append(n)

    def _legal(self, axes: Iterable[Axis]) -> bool:
        return all(a in self.roles for a in axes)

    def _options(self, state: State) -> list[tuple[ENode | Access, tuple[State, ...], float]]:
        """The ways to make a class under a budget: what, the states it needs, and its own cost."""
        c, b = state
        out: list[tuple[ENode | Access, tuple[State, ...], float]] = []
        for a in self.access[c]:
            if self._legal(a.axes):
                out.append((a, (), EPSILON + (self.elements[c] * 0.5 if a.buffer else 0.0)))
        if c in self.leaves:
            return out
        for n in self.graph.classes[c]:
            if self.written and n.rule is not None:
                continue
            if n.op == "reduce" and n.attrs[1].size == 0 and n.attrs[1] not in self.graph.axes[n.args[0]]:
                n = ENode("const", (MONOIDS[n.attrs[0]].identity,), (), n.rule)  # no times a value that does not depend on the axis
            needs, own = self._needs(c, n, b)
            if needs is not None:
                out.append((n, needs, own))
        return out

    def _needs(self, c: int, n: ENode, b: Budget) -> tuple[tuple[State, ...] | None, float]:
        op = n.op
        if op in ("const", "extent", "acc"):
            return (), EPSILON
        if op in ("map", "cast"):
            args = tuple((x, b) for x in n.args)
            if op == "cast":
                return args, self.elements[c] + EPSILON
            if n.attrs[0] == "mul" and all(self.graph.axes[x] < self.graph.axes[c] for x in n.args):
                return args, EPSILON  # an outer product: a contraction's, or a broadcast that the consumer folds in
            return args, self.elements[c] * OPS[n.attrs[0]].cost + EPSILON
        if op in ("reduce", "roll"):
            axis = n.attrs[1]
            role = self.roles.get(axis)
            if role is None or axis not in self.graph.axes[n.args[0]]:
                return None, 0.0
            k = self.slot.get(axis)
            if k is None:
                if op == "roll" or role.kind == "grid":
                    return None, 0.0
                return tuple((x, b) for x in n.args), self._reduction_cost(n)
            if b[k] < 1:
                return None, 0.0
            earlier = (*b[:k], b[k] - 1, *b[k + 1 :])
            return tuple((x, earlier) for x in n.args), self._reduction_cost(n)
        if op in ("ref", "pre"):
            axis = n.attrs[-1]
            k = self.slot.get(axis)
            if k is None or b[k] > self.top[k]:
                return None, 0.0
            later = (*b[:k], b[k] + 1, *b[k + 1 :])
            if op == "ref":
                return ((n.args[0], later),), EPSILON
            return ((-1 - n.args[0], later),), EPSILON  # a negative class: the accumulator over that body
        return None, 0.0  # input and view are accesses

    def _reduction_cost(self, n: ENode) -> float:
        body = n.args[0]
        product = n.attrs[0] == "sum" and any(
            m.op == "map" and m.attrs[0] == "mul" and all(self.graph.axes[x] < self.graph.axes[body] for x in m.args)
            for m in self.graph.classes[body]
        )
        return self.elements[body] * (TENSOR_SHARE if product else 1.0) + EPSILON

    def _accumulator_options(self, state: State, axis_slot: int) -> list[tuple[ENode | Access, tuple[State, ...], float]]:
        """The reductions that keep the accumulator of a ``pre``; bodies may be free of the axis (a count)."""
        body, b = -1 - state[0], state[1]
        axis = next(a for a, k in self.slot.items() if k == axis_slot)
        earlier = (*b[:axis_slot], b[axis_slot] - 1, *b[axis_slot + 1 :])
        return [
            (n, tuple((x, earlier) for x in n.args), self.elements[body] + EPSILON)
            for n in self.chooser.accumulators.get((axis, body), ())
        ]

    def solve(self) -> tuple[tuple[Node, ...], tuple[int, ...], float] | None:
        options: dict[State, list[tuple[ENode | Access, tuple[State, ...], float]]] = {}
        users: dict[State, list[State]] = {}
        slot_of: dict[State, int] = {}
        todo: list[State] = [(r, self.top) for r in self.roots]
        while todo:
            s = todo.pop()
            if s in options:
                continue
            options[s] = self._accumulator_options(s, slot_of[s]) if s[0] < 0 else self._options(s)
            for what, needs, _ in options[s]:
                for q in needs:
                    if q[0] < 0 and isinstance(what, ENode):
                        slot_of[q] = self.slot[what.attrs[0]]
                    users.setdefault(q, []).append(s)
                    todo.append(q)
        cost, best = self._relax(options, users, frozenset())
        if any((r, self.top) not in cost for r in self.roots):
            return None
        if len(self.roots) > 1:  # what another root computes anyway costs this root nothing
            shared = self._used(best, self.roots[0])
            cost, best = self._relax(options, users, shared, best)
        builder = _Builder(best, self.chooser.stored)
        positions = tuple(builder.build((r, self.top)) for r in self.roots)
        refused = self.chooser.verdicts.against(builder.nodes, self.roots, self.leaves)
        if refused:
            self.chooser.refused[refused] = None
            return None
        return tuple(builder.nodes), positions, sum(cost[(r, self.top)] for r in self.roots)

    def _used(self, best: Mapping[State, tuple[ENode | Access, tuple[State, ...]]], root: int) -> frozenset[State]:
        seen: set[State] = set()
        stack = [(root, self.top)]
        while stack:
            s = stack.pop()
            if s not in seen:
                seen.add(s)
                stack.extend(best[s][1])
        return frozenset(seen)

    def _relax(
        self,
        options: Mapping[State, list[tuple[ENode | Access, tuple[State, ...], float]]],
        users: Mapping[State, list[State]],
        fixed: frozenset[State],
        chosen: Mapping[State, tuple[ENode | Access, tuple[State, ...]]] | None = None,
    ) -> tuple[dict[State, float], dict[State, tuple[ENode | Access, tuple[State, ...]]]]:
        """Least costs by relaxation.  ``fixed`` states keep their choice in ``chosen`` and cost next to nothing."""
        cost: dict[State, float] = dict.fromkeys(fixed, EPSILON)
        best: dict[State, tuple[ENode | Access, tuple[State, ...]]] = {s: chosen[s] for s in fixed} if chosen else {}
        work: dict[State, None] = dict.fromkeys(reversed(list(options)))
        while work:
            s = next(iter(work))
            del work[s]
            if s in fixed:
                continue
            for what, needs, own in options[s]:
                total = own
                for q in needs:
                    if q not in cost:
                        break
                    total += cost[q]
                else:
                    if s not in cost or total < cost[s] * (1 - 1e-12):
                        cost[s], best[s] = total, (what, needs)
                        for u in users.get(s, ()):
                            work[u] = None
        return cost, best


class _Builder:
    """Hash-cons the chosen options into nodes."""

    def __init__(self, best: Mapping[State, tuple[ENode | Access, tuple[State, ...]]], stored: Mapping[int, DType]) -> None:
        self.best, self.stored = best, stored
        self.nodes: list[Node] = []
        self.memo: dict[State, int] = {}
        self.ids: dict[tuple[object, ...], int] = {}

    def build(self, root: State) -> int:
        """Position of a state's node; iterative, arguments first."""
        stack = [(root, False)]
        while stack:
            s, ready = stack.pop()
            if s in self.memo:
                continue
            what, needs = self.best[s]
            if not ready:
                stack.append((s, True))
                stack.extend((q, False) for q in reversed(needs))
                continue
            self.memo[s] = self._add(what, tuple(self.memo[q] for q in needs), self.stored.get(s[0]), s[0] if s[0] >= 0 else None)
        return self.memo[root]

    def _add(self, what: ENode | Access, args: tuple[int, ...], stored: DType | None, cls: int | None) -> int:
        if isinstance(what, Access):
            if what.buffer is None:
                node = Node("index", (what.index[0],), (), what.axes, cls=cls)
            else:
                node = Node("load", (what.buffer, what.index), (), what.axes, cls=cls)
        else:
            axes = frozenset().union(*(self.nodes[a].axes for a in args)) if args else frozenset()
            if what.op in ("reduce", "roll", "pre"):
                axes -= {what.attrs[-1]}
            node = Node(what.op, what.attrs, args, axes, what.rule, stored, cls)
        key = (node.op, node.attrs, node.args, node.stored)
        if key not in self.ids:
            self.ids[key] = len(self.nodes)
            self.nodes.append(node)
        return self.ids[key]
