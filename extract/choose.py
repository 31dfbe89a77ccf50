"""From e-classes to concrete nodes: the cheapest representative of every value *in its streaming context*.

Technology mapping with required times.  The state of choice is (class, budget), the budget being the number of loops over each
streamed axis that may finish before the value is needed.  A reduction over a streamed axis asks its body one loop earlier, a
running value one loop later; pointwise operations pass the budget on.  Whether to repair in the loop or to loop again follows
from the budget: there is no special case.  Costs are elements times the op's instructions, by role, never node counts.

The result is a hash-consed list of :class:`~eqfuse.tiles.kernel.Node`; lowering never sees a class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ..egraph.frozen import ENode, FrozenGraph
from ..ir import nodes
from ..ir.dtypes import DType
from ..ir.index import Axis, IndexExpr, index
from ..ir.monoids import MONOIDS
from ..ir.ops import OPS
from ..ir.terms import Map, Reduce, Scan
from ..tiles.kernel import Node, Role
from .budgets import Budget, possible
from .fusibility import Leaf, Verdicts
from .meter import STATES, Meter
from .reindexing import EVERYWHERE, Places
from .ties import Ties

State = tuple[int, Budget]

EPSILON = 1e-3  # every node costs something, so that choices are acyclic and ties prefer fewer nodes
TENSOR_SHARE = 0.1  # cost of a multiply-add in a matrix product, in float32 instructions


@dataclass(frozen=True)
class Access:
    """How to read a class from memory or from positions: a buffer at index expressions, or (no buffer) an index value.  ``looked``: axes
    of the expressions that are read where other classes say."""

    buffer: str | None
    index: tuple[IndexExpr, ...]
    looked: tuple[tuple[Axis, int], ...] = ()

    @property
    def axes(self) -> frozenset[Axis]:
        """The axes that the addresses depend on, beside those of the values that say where to read."""
        return frozenset().union(*(e.axes() for e in self.index)) - {a for a, _ in self.looked}

    @property
    def places(self) -> tuple[int, ...]:
        """The classes that say where to read."""
        return tuple(c for _, c in self.looked)

    def moved(self, places: Places) -> Access:
        """The same access in a kernel in some places."""
        looked = {a for a, _ in self.looked}
        at = {a: e for a, e in places.at.items() if a not in looked}
        return Access(self.buffer, tuple(e.substitute(at) for e in self.index), self.looked)

    def substitute(self, axis: Axis, at: IndexExpr) -> Access:
        """The same access after a view."""
        return Access(self.buffer, tuple(e.substitute({axis: at}) for e in self.index), self.looked)


class Chooser:
    """Choice over one frozen graph; holds what does not depend on a kernel's roots, leaves and roles."""

    def __init__(self, graph: FrozenGraph, meter: Meter | None = None) -> None:
        self.graph = graph
        self.meter = meter or Meter()
        self.layouts = {i.name: i.layout for i in graph.program.inputs}
        self.verdicts = Verdicts(graph)
        self.ties = Ties(graph)
        self._accessed: tuple[object, list[tuple[Access, ...]]] = (None, [])
        self.refused: dict[str, None] = {}  # what ruled out a choice, in words
        self.stored = {  # class -> the 16-bit type that the program itself keeps it in
            c: t.dtype
            for t, c in zip(graph.program.terms(), graph.original, strict=True)
            if isinstance(t, Map | Reduce | Scan)
            and t.dtype is not None
            and t.dtype.is_float
            and t.dtype.itemsize == 2
            and t not in graph.program.widened
        }

    @cached_property
    def accumulators(self) -> Mapping[tuple[Axis, int], tuple[ENode, ...]]:
        """(axis, body class) -> the sum reductions whose accumulator is kept over exactly that body."""
        found: dict[tuple[Axis, int], list[ENode]] = {}
        for enodes in self.graph.classes:
            for n in enodes:
                if n.reduction == "sum":
                    found.setdefault((n.attrs[1], n.args[0]), []).append(n)
        return {k: tuple(v) for k, v in found.items()}

    def accesses_of(self, leaves: Mapping[int, Leaf]) -> list[tuple[Access, ...]]:
        """:meth:`accesses`, remembered for the leaves that were asked for last: a kernel is chosen many times."""
        key = tuple(sorted((c, leaf.buffer) for c, leaf in leaves.items()))
        if key != self._accessed[0]:
            self._accessed = (key, self.accesses(leaves))
        return self._accessed[1]

    def accesses(self, leaves: Mapping[int, Leaf]) -> list[tuple[Access, ...]]:
        """Per class, the ways to read it directly: inputs, stored classes, positions, views of these, and what is gathered from memory."""
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
                elif n.op in ("view", "gather"):
                    users.setdefault(n.args[0], []).append((c, n))
            if found[c]:
                work.append(c)
        while work:
            c = work.pop(0)
            for user, n in users.get(c, ()):
                for a in tuple(found[c]):
                    read = self._read(a, n)
                    if read is not None and read not in found[user]:
                        found[user].append(read)
                        work.append(user)
        return [tuple(f) for f in found]

    def _read(self, a: Access, n: ENode) -> Access | None:
        """The access of a view or a gather of what is accessed so; ``None`` where it is none.  Where places depend on an axis that is
        read elsewhere, rules say at which places that is."""
        axis = n.attrs[0]
        if any(axis in self.graph.axes[c] for c in a.places):
            return None
        if n.op == "view":
            clash = not n.attrs[1].axes().isdisjoint(x for x, _ in a.looked)
            return None if clash or axis in dict(a.looked) else a.substitute(*n.attrs)
        if a.buffer is None or axis in dict(a.looked):
            return None
        return Access(a.buffer, a.index, (*a.looked, (axis, n.args[1])))

    def cheapest(
        self, roots: tuple[int, ...], leaves: Mapping[int, Leaf], roles: Mapping[Axis, Role], limit: int = 3, places: Places = EVERYWHERE
    ) -> Iterator[tuple[Budget, tuple[Node, ...], tuple[int, ...], float]]:
        """Choices worth pricing: the budget (one entry per streamed axis of ``roles``, in their order), concrete nodes, the positions of
        the roots among them, and the cost.  These are the choice with the fewest loops; after it, if rules moved casts in it, the one with
        as many loops and casts where the program has them, as operands of products then have its types; those with one loop more over one
        axis (fewer operations, more bytes); and the program as written.  None follows when the time or the work is spent."""
        choice = _Choice(self, roots, leaves, roles, places)
        seen: set[tuple[Node, ...]] = set()
        for b, found in choice.possible(limit, more=1):
            kept = choice.solve(b, recast=False) if not seen and recast(found[0]) else None
            for one in (found, kept):
                if one is not None and one[0] not in seen:
                    seen.add(one[0])
                    yield b, *one
        for b, found in choice.possible(limit, written=True):
            if found[0] not in seen:
                yield b, *found
            return


def recast(nodes: tuple[Node, ...]) -> bool:
    """Whether a rule moved a cast."""
    return any(n.op == "cast" and n.rule is not None for n in nodes)


@dataclass(frozen=True)
class _Option:
    """A way to make a class: what, the states that it needs, and its own cost.  ``deep``: the streamed axis over which it needs a state
    one loop earlier, if any, and how many loops before the roots that is."""

    what: ENode | Access
    needs: tuple[State, ...]
    cost: float
    deep: tuple[int, int] | None = None

    @property
    def written(self) -> bool:
        """It is the program itself."""
        return isinstance(self.what, Access) or self.what.rule is None

    @property
    def recast(self) -> bool:
        """It is a cast that a rule moved."""
        return isinstance(self.what, ENode) and self.what.op == "cast" and self.what.rule is not None


Best = dict[State, _Option]
Solution = tuple[tuple[Node, ...], tuple[int, ...], float]  # nodes, the positions of the roots among them, the cost


class _Choice:
    """The dynamic program for some roots, leaves and roles, under one budget after the other.

    A state is kept as (class, loops over each streamed axis that must *still* run before the roots): so its options are the same for
    all budgets, but for those that a budget rules out.
    """

    def __init__(
        self,
        chooser: Chooser,
        roots: tuple[int, ...],
        leaves: Mapping[int, Leaf],
        roles: Mapping[Axis, Role],
        places: Places = EVERYWHERE,
    ) -> None:
        self.chooser, self.graph, self.roots, self.leaves, self.roles = chooser, chooser.graph, roots, leaves, roles
        self.places = places
        self.slot = {a: k for k, a in enumerate(a for a, r in roles.items() if r.kind == "stream")}
        self.streams = tuple(self.slot)
        self.access = chooser.accesses_of(leaves)
        self.top = (0,) * len(self.slot)
        self._elements: dict[int, float] = {}
        self._options: dict[State, tuple[_Option, ...]] = {}

    def elements(self, c: int) -> float:
        """How many elements of a class one program computes."""
        n = self._elements.get(c)
        if n is None:
            n = 1.0
            for a in sorted(self.places.axes_of(c, self.graph.axes[c])):
                role = self.roles.get(a)
                if role is not None:
                    n *= role.tile if role.kind == "grid" else max(a.size, 1)
            self._elements[c] = n
        return n

    def options(self, state: State) -> tuple[_Option, ...]:
        """The ways to make a class so many loops before the roots, under any budget."""
        found = self._options.get(state)
        if found is None:
            c, _ = state
            made = self._accumulators(state) if c < 0 else self._ways(state)
            found = self._options[state] = tuple(made)
        return found

    def _ways(self, state: State) -> Iterator[_Option]:
        c, b = state
        for a in self.access[c]:
            a = a.moved(self.places) if self.places else a
            if all(x in self.roles for x in a.axes):
                yield _Option(a, tuple((x, b) for x in a.places), EPSILON + (self.elements(c) * 0.5 if a.buffer else 0.0))
        if c in self.leaves:
            return
        for n in self.graph.classes[c]:
            if not self.chooser.ties.admits(c, n):
                continue
            if n.op == "reduce" and n.attrs[1].size == 0 and n.attrs[1] not in self.graph.axes[n.args[0]]:
                n = ENode("const", (MONOIDS[n.attrs[0]].identity,), (), n.rule)  # no times a value that does not depend on the axis
            found = self._way(c, n, b)
            if found is not None:
                yield found

    def _way(self, c: int, n: ENode, b: Budget) -> _Option | None:
        op, axes = n.op, self.graph.axes
        if n.in_order is not None and any(self.places.captures(n.in_order, axes[x]) for x in n.args):
            return None
        if self.places.shows(n):
            return _Option(n, ((n.args[0], b),), EPSILON)
        if op in ("const", "extent", "acc"):
            return _Option(n, (), EPSILON)
        if op in ("map", "cast"):
            args = tuple((x, b) for x in n.args)
            if op == "cast":
                return _Option(n, args, self.elements(c) + EPSILON)
            if n.attrs[0] == "mul" and all(axes[x] < axes[c] for x in n.args):
                return _Option(n, args, EPSILON)  # an outer product: a contraction's, or a broadcast that the consumer folds in
            return _Option(n, args, self.elements(c) * OPS[n.attrs[0]].cost + EPSILON)
        if op in ("reduce", "roll"):
            axis = n.attrs[1]
            role, along = self.roles.get(axis), n.goes_along(*(axes[x] for x in n.args))
            if op == "reduce" and along is None and axis not in self.slot:  # so many copies: a multiple of one, or one
                return _Option(n, tuple((x, b) for x in n.args), self.elements(c) * OPS["mul"].cost + 3 * EPSILON)
            if role is None or along is None or (op == "roll" and axis not in axes[n.args[0]]):
                return None
            k = self.slot.get(axis)
            if k is not None:
                earlier = (*b[:k], b[k] + 1, *b[k + 1 :])
                return _Option(n, tuple((x, earlier) for x in n.args), self._reduction_cost(n), (k, b[k] + 1))
            if op == "roll" or role.kind == "grid":
                return None
            return _Option(n, tuple((x, b) for x in n.args), self._reduction_cost(n))
        if op == "scan":
            role = self.roles.get(n.attrs[1])
            if role is None or (role.kind == "grid" and n.goes_along(*(axes[x] for x in n.args))):
                return None
            return _Option(n, tuple((x, b) for x in n.args), self.elements(c) * max(1.0, math.log2(role.tile)) + EPSILON)
        if op == "merge":
            return _Option(n, tuple((x, b) for x in n.args), self.elements(c) + EPSILON)
        if op in ("ref", "pre"):
            k = self.slot.get(n.attrs[-1])
            if k is None or b[k] < 0:
                return None
            later = (*b[:k], b[k] - 1, *b[k + 1 :])
            return _Option(n, ((n.args[0] if op == "ref" else self._accumulator_of(n.args[0], k), later),), EPSILON)
        return None  # input, view and gather are accesses

    def _reduction_cost(self, n: ENode) -> float:
        body = n.args[0]
        product = n.attrs[0] == "sum" and any(
            m.scalar == "mul" and all(self.graph.axes[x] < self.graph.axes[body] for x in m.args) for m in self.graph.classes[body]
        )
        return max(map(self.elements, n.args)) * (TENSOR_SHARE if product else 1.0) + EPSILON

    def _accumulator_of(self, body: int, k: int) -> int:
        """What stands for the accumulator over a body in a loop over the k-th streamed axis: a negative class."""
        return -1 - body * len(self.streams) - k

    def _accumulators(self, state: State) -> Iterator[_Option]:
        """The reductions that keep the accumulator of a ``pre``; bodies may be free of the axis (a count)."""
        body, k = divmod(-1 - state[0], len(self.streams))
        b = state[1]
        earlier = (*b[:k], b[k] + 1, *b[k + 1 :])
        for n in self.chooser.accumulators.get((self.streams[k], body), ()):
            yield _Option(n, tuple((x, earlier) for x in n.args), self.elements(body) + EPSILON, (k, b[k] + 1))

    def possible(self, limit: int, *, written: bool = False, more: int = 0) -> Iterator[tuple[Budget, Solution]]:
        """The budgets with the fewest loops that can be, and those with up to so many ``more``, each with what :meth:`solve` finds."""
        return possible(
            len(self.streams), limit, lambda b: self.solve(b, written=written), lambda b: self._solved(b, written) is not None,
            self.chooser.meter.spent, more,
        )  # fmt: skip

    def solve(self, budget: Budget, *, written: bool = False, recast: bool = True) -> Solution | None:
        """Concrete nodes for the roots, the positions of the roots and the cost; ``None`` if the roles, the budget or a verdict do not
        allow it.

        ``written`` admits only nodes of the program as written; without ``recast`` casts stay where they are.
        """
        solved = self._solved(budget, written, recast)
        if solved is None:
            return None
        cost, best = solved
        builder = _Builder(best, self.chooser.stored)
        positions = tuple(builder.build((r, self.top)) for r in self.roots)
        nodes, stored = builder.nodes, self.chooser.stored
        refused = self.chooser.verdicts.against(nodes, self.roots, self.leaves) or self.chooser.ties.against(nodes, self.roots, stored)
        if refused:
            self.chooser.refused[refused] = None
            return None
        return tuple(builder.nodes), positions, sum(cost[r, self.top] for r in self.roots)

    def _solved(self, budget: Budget, written: bool, recast: bool = True) -> tuple[dict[State, float], Best] | None:
        """Least costs and the options to make the roots; ``None`` if the roles and the budget do not allow it."""
        options: dict[State, list[_Option]] = {}
        users: dict[State, list[State]] = {}
        todo: list[State] = [(r, self.top) for r in self.roots]
        while todo:
            s = todo.pop()
            if s in options:
                continue
            options[s] = [
                o
                for o in self.options(s)
                if (o.deep is None or o.deep[1] <= budget[o.deep[0]]) and (o.written or not written) and (recast or not o.recast)
            ]
            for o in options[s]:
                for q in o.needs:
                    users.setdefault(q, []).append(s)
                    todo.append(q)
        self.chooser.meter.count(len(options) / STATES)
        cost, best = self._relax(options, users, frozenset(), {})
        if any((r, self.top) not in cost for r in self.roots):
            return None
        if len(self.roots) > 1:  # what another root computes anyway costs this root nothing
            cost, best = self._relax(options, users, self._used(best, self.roots[0]), best)
        return cost, best

    def _used(self, best: Best, root: int) -> frozenset[State]:
        seen: set[State] = set()
        stack = [(root, self.top)]
        while stack:
            s = stack.pop()
            if s not in seen:
                seen.add(s)
                stack.extend(best[s].needs)
        return frozenset(seen)

    def _relax(
        self, options: Mapping[State, list[_Option]], users: Mapping[State, list[State]], fixed: frozenset[State], chosen: Best
    ) -> tuple[dict[State, float], Best]:
        """Least costs and their options by relaxation.  ``fixed`` states keep their choice in ``chosen`` and cost next to nothing."""
        cost: dict[State, float] = dict.fromkeys(fixed, EPSILON)
        best: Best = {s: chosen[s] for s in fixed}
        work: dict[State, None] = dict.fromkeys(reversed(list(options)))
        while work:
            s = next(iter(work))
            del work[s]
            if s in fixed:
                continue
            for o in options[s]:
                total = o.cost
                for q in o.needs:
                    if q not in cost:
                        break
                    total += cost[q]
                else:
                    if s not in cost or total < cost[s] * (1 - 1e-12):
                        cost[s], best[s] = total, o
                        for u in users.get(s, ()):
                            work[u] = None
        return cost, best


class _Builder:
    """Hash-cons the chosen options into nodes."""

    def __init__(self, best: Best, stored: Mapping[int, DType]) -> None:
        self.best, self.stored = best, stored
        self.nodes: list[Node] = []
        self.reduced: list[frozenset[Axis]] = []  # of each node, the axes of the reductions in it, and below
        self.memo: dict[State, int] = {}
        self.ids: dict[tuple[object, ...], int] = {}

    def build(self, root: State) -> int:
        """Position of a state's node; iterative, arguments first."""
        stack = [(root, False)]
        while stack:
            s, ready = stack.pop()
            if s in self.memo:
                continue
            what, needs = self.best[s].what, self.best[s].needs
            if ready and isinstance(what, ENode) and what.op == "view":  # it shows what is there
                self.memo[s] = self.memo[needs[0]]
                continue
            if not ready:
                stack.append((s, True))
                stack.extend((q, False) for q in reversed(needs))
                continue
            self.memo[s] = self._add(what, tuple(self.memo[q] for q in needs), self.stored.get(s[0]), s[0] if s[0] >= 0 else None)
        return self.memo[root]

    def _add(self, what: ENode | Access, args: tuple[int, ...], stored: DType | None, cls: int | None) -> int:
        if isinstance(what, ENode) and what.op == "ref" and what.attrs[1] not in self.reduced[args[0]]:
            return args[0]  # another kernel made it: it is the same before and after a step
        if isinstance(what, Access):
            if what.buffer is None:
                node = Node("index", (what.index[0],), (), what.axes, cls=cls)
            else:
                attrs = (what.buffer, what.index, tuple(a for a, _ in what.looked))
                node = Node("load", attrs, args, nodes.axes("load", attrs, [self.nodes[a].axes for a in args]), cls=cls)
        else:
            own = nodes.axes(what.op, what.attrs, [self.nodes[a].axes for a in args])
            node = Node(what.op, what.attrs, args, own, what.rule, stored, cls)
        key = (node.op, node.attrs, node.args, node.stored)
        if key not in self.ids:
            self.ids[key] = len(self.nodes)
            self.nodes.append(node)
            along = frozenset((node.attrs[1],)) if node.op in nodes.REDUCTIONS else frozenset()
            self.reduced.append(along.union(*(self.reduced[a] for a in args)))
        return self.ids[key]
