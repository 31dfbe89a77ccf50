"""Which values may be worth storing between kernels, and what storing them cannot beat."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from heapq import heapify, heappop, heappush

from ...egraph.frozen import FrozenGraph
from ...ir.index import Axis
from ...ir.terms import Cast, Gather, Input, Map, Reduce, Scan, Term, View, postorder
from ...tiles.kernel import Buffer
from ..baseline import contraction_us, eager_ops, is_contraction
from ..fusibility import Pair, Verdicts
from ..layouts import looked_at, summed_in_windows
from ..regions.work import Work
from ..targets import Target

MUCH = 2.0  # an operand of a product that reads so many times its own bytes may be made before


class Points:
    """The classes of one graph that may be materialised."""

    def __init__(self, graph: FrozenGraph, target: Target, buffers: Mapping[str, Buffer], verdicts: Verdicts) -> None:
        self.graph, self.program, self.target = graph, graph.program, target
        self.buffers, self.verdicts = buffers, verdicts
        self.work = Work(self.program, target)
        self.share = 1.0  # of the products that kernels do which leave masked tiles out
        self.roots = frozenset(graph.roots[o.name] for o in self.program.outputs)

    @cached_property
    def worth_storing(self) -> tuple[int, ...]:
        """Classes worth materialising: the program's own reductions and scans, the finished operands of its matrix products (what a
        product would otherwise compute once for every tile of its other side, with a reduction or from more than its own bytes), what
        several reductions are needed for alone (:meth:`_joins`), what is made along one axis and read along another (:meth:`_turns`),
        inputs and views without neighbours in memory, of which a copy has some, inputs in longer rows, and what verdicts keep apart; but
        nothing that stands between two values that must share a kernel, no sum of products that is only summed further, and none that
        nothing needs but an epilogue (:attr:`_ended`)."""
        reduced: set[int] = set()  # terms with a reduction below
        operands: set[int] = set()
        found: dict[int, None] = {}
        inside = {r for nest in self.work.nests.values() if nest.product for r in nest.inner}
        for t in self.program.terms():
            if isinstance(t, Reduce | Scan) or any(id(a) in reduced for a in t.args):
                reduced.add(id(t))
            if is_contraction(t):
                read = {id(x): x for a in t.args[0].args for x in (a, looked_at(a))}
                operands.update(k for k, x in read.items() if k in reduced or _read(x) >= MUCH * _bytes(x))
        for t, c in zip(self.program.terms(), self.graph.original, strict=True):
            worth = isinstance(t, Reduce | Scan) and t not in inside and any(t.axis in x.axes for x in t.args) and t not in self._ended
            worth = worth or t in self._joins or t in self._turns
            apart = isinstance(t, Map | Reduce | Scan) and c in self._kept_apart
            gaps = self._without_neighbours(t) or _lengthened(t) or self._apart_in_windows(t)
            if c not in self.roots and (worth or apart or gaps or (id(t) in operands and isinstance(t, Map))):
                found[c] = None
        return tuple(c for c in found if c not in self._between)

    @cached_property
    def _ended(self) -> frozenset[Term]:
        """Products of which one output alone is made, element by element and from inputs: stored, they would be written and read again for
        an epilogue that the product has for nothing."""
        found: set[Term] = set()
        summed: set[Term] = set()  # what has a reduction below
        for t in self.work.terms:
            summed |= {t} if isinstance(t, Reduce | Scan) or not summed.isdisjoint(t.args) else set()
        for t in (top for top, nest in self.work.nests.items() if nest.product):
            x = t
            while x not in self.work.outputs and len(self.work.users[x]) == 1:
                (user,) = self.work.users[x]
                if not isinstance(user, Map | Cast) or user.axes != t.axes or any(a in summed for a in user.args if a is not x):
                    break
                x = user
            found |= {t} if x is not t and x in self.work.outputs and not self.work.users[x] else set()
        return frozenset(found)

    @cached_property
    def _joins(self) -> frozenset[Term]:
        """Pointwise values that several things need, and that are at most half of the reductions which are needed for nothing else: the sum
        of some products.  Each is stored in the place of these, or they all would be."""
        users = self.work.users
        private: dict[Term, set[Term]] = {}  # what a value alone needs, down to reductions
        place = {t: k for k, t in enumerate(self.work.terms)}
        for t in self.work.terms:
            if not isinstance(t, Map) or len(users[t]) < 2 or t in self.work.outputs or t.dtype is None:
                continue
            own: set[Term] = {t}
            todo = [-place[a] for a in t.args]
            heapify(todo)
            while todo:  # users before arguments
                x = self.work.terms[-heappop(todo)]
                if x not in own and x not in self.work.outputs and own.issuperset(users[x]):
                    own.add(x)
                    for a in () if x in self.work.nests else x.args:
                        heappush(todo, -place[a])
            sums = [x for x in own if x in self.work.nests]
            if sum(map(_bytes, sums)) >= 2 * _bytes(t):
                private[t] = own
        return frozenset(t for t in private if not any(t in own for x, own in private.items() if x is not t))

    @cached_property
    def _turns(self) -> frozenset[Term]:
        """Pointwise values that are made of whole rows, as normalised ones are, and that a sum along their columns and something after it
        need: a kernel that holds rows makes them once, one that holds columns at each pass."""
        whole: dict[Term, frozenset[Axis]] = {}  # the axes of a value that are summed for each of its elements
        found: set[Term] = set()
        for t in self.work.terms:
            below = frozenset().union(*(whole[a] for a in t.args))
            whole[t] = below | {t.axis} if isinstance(t, Reduce | Scan) else below
            if not isinstance(t, Reduce):
                continue
            x = t.args[0]
            if isinstance(x, Map) and len(self.work.users[x]) > 1 and t.axis in x.axes - whole[x] and whole[x] & x.axes:
                found.add(x)
        return frozenset(found)

    def written(self, viewed: bool = False) -> tuple[int, ...]:
        """The classes that eager code makes by a kernel of their own, without the outputs; or with all that some view looks at.  A sum of
        products over several axes is one, and what is made of positions alone is made where it is needed."""
        inside = {r for nest in self.work.nests.values() if nest.product for r in nest.inner}
        terms = {t for t in eager_ops(self.program) if t not in inside and any(isinstance(x, Input) for x in postorder(t))}
        own = (c for t, c in zip(self.program.terms(), self.graph.original, strict=True) if t in terms and c not in self.roots)
        return self.with_viewed(dict.fromkeys(own)) if viewed else tuple(dict.fromkeys(own))

    @cached_property
    def simple(self) -> tuple[int, ...]:
        """What is stored so that every kernel is one of the program as written, and does one thing."""
        return self.with_viewed(self.worth_storing)

    def with_viewed(self, points: Collection[int]) -> tuple[int, ...]:
        """Some classes and, of the program, all that some view or gather looks at: what stands where no rule has moved a view."""
        seen = {t.args[0] for t in self.program.terms() if isinstance(t, View | Gather)}
        seen = {t for t in seen if isinstance(t, Map | Cast | Reduce | Scan)}
        pairs = zip(self.program.terms(), self.graph.original, strict=True)
        return tuple(dict.fromkeys(c for t, c in pairs if c in points or (t in seen and c not in self.roots)))

    def floor(self, points: tuple[int, ...]) -> float:
        """What a cover that stores these classes cannot beat.  An estimate on the program as written; it only saves searching."""
        return sum(self.floor_of(c, points) for c in (*points, *(self.graph.roots[o.name] for o in self.program.outputs)))

    @cached_property
    def _terms(self) -> dict[int, Term]:
        """The terms of the program, by class."""
        return dict(zip(self.graph.original, self.program.terms(), strict=True))

    @cached_property
    def classes(self) -> dict[Term, int]:
        """The classes of the program's terms."""
        return dict(zip(self.program.terms(), self.graph.original, strict=True))

    def bytes_of(self, c: int) -> int:
        """Bytes of a class."""
        return _bytes(self._terms[c])

    def floor_of(self, c: int, points: Collection[int]) -> float:
        """What a kernel for a class cannot beat, where some are stored: its memory traffic, and the matrix products between its leaves and
        its root; of these the ``share`` that is known to be enough."""
        terms = self._terms
        stored = {id(terms[p]) for p in points}
        root = terms[c]
        seen: set[int] = set()
        bytes_, us, stack = _bytes(root), 0.0, [root]
        while stack:
            t = stack.pop()
            if id(t) in seen:
                continue
            seen.add(id(t))
            if isinstance(t, Input) or (t is not root and id(t) in stored):
                bytes_ += _bytes(t)
                continue
            if is_contraction(t):
                us += self.share * contraction_us(t, self.target)
            stack.extend(t.args)
        return max(self.target.least_us(bytes_), us) + self.target.launch_us

    def removal_orders(self, points: tuple[int, ...]) -> list[list[int]]:
        """Later values first; and, where a pointwise function of a matrix product may be stored, the product itself first, so that
        the function joins the product as its epilogue and not the next product's loop."""
        terms = dict(zip(self.graph.original, self.program.terms(), strict=True))
        maps = [terms[p] for p in points if isinstance(terms[p], Map)]
        early = [p for p in points if isinstance(terms[p], Reduce) and any(terms[p] in postorder(m) for m in maps)]
        late = list(reversed(points))
        return [late, [*reversed(early), *(p for p in late if p not in early)]] if early else [late]

    @cached_property
    def _windows(self) -> Mapping[Term, Axis]:
        return summed_in_windows(self.program)

    def _apart_in_windows(self, t: Term) -> bool:
        """Whether it is an input that products read in windows, and has gaps between what they sum: a copy may have that side by side.  Or
        a choice between tensors, all of which would be read for each of them."""
        if not isinstance(t, Input) or t not in self._windows:
            return t in self._windows and isinstance(t, Map) and t.op == "where"
        where, stride = (self.buffers[t.name].memory or [(-1, 1)])[0]
        return t.layout[where] != self._windows[t] or stride > 1

    def _without_neighbours(self, t: Term) -> bool:
        """Whether it is an input, or a view of one, whose elements have gaps between each other in memory."""
        x = t.args[0] if isinstance(t, View) else t
        if not isinstance(x, Input) or not x.dtype.is_float or not (memory := self.buffers[x.name].memory):
            return False
        where, stride = memory[0]
        if not isinstance(t, View):
            return stride > 1
        return t.axis == x.layout[where] and all(abs(c) > 1 for _, c in t.index.terms)

    @cached_property
    def _kept_apart(self) -> frozenset[int]:
        """What verdicts that forbid have stored: of a pair the value that the other is computed from, or, where that one must share a
        kernel with its user, what lies between."""
        found: set[int] = set()
        for p in self.verdicts.forbidden:
            path = self._path(p) or self._path(replace(p, outer=p.inner, inner=p.outer)) or {p.inner}
            lowest = {p.inner, p.outer} & path
            found |= path if lowest & self._between else lowest
        return frozenset(found)

    @cached_property
    def _between(self) -> frozenset[int]:
        """Classes whose storing would part two values that must share a kernel: the inner one, and what lies between."""
        return frozenset(c for p in self.verdicts.required for c in self._path(p))

    def _path(self, p: Pair) -> set[int]:
        """The inner value of a pair and the classes between it and the outer one, which is left out; empty if that does not use it."""
        terms = dict(zip(self.graph.original, self.program.terms(), strict=True))
        number = {id(t): c for t, c in zip(self.program.terms(), self.graph.original, strict=True)}
        if p.outer not in terms or p.inner not in terms:
            return set()
        inner = terms[p.inner]
        return {number[id(t)] for t in postorder(terms[p.outer]) if any(s is inner for s in postorder(t))} - {p.outer}


def _lengthened(t: Term) -> bool:
    """Whether it is an input in longer rows, zero beyond its own."""
    x, longer = t, False
    while isinstance(x, View) or (isinstance(x, Map) and x.op == "where"):
        longer |= isinstance(x, View) and any(a.size > x.axis.size for a in x.index.axes())
        x = x.args[isinstance(x, Map)]
    return longer and isinstance(x, Input) and isinstance(t, Map)


def _bytes(t: Term) -> int:
    return math.prod(a.size for a in t.axes) * (t.dtype.itemsize if t.dtype else 4)


def _read(t: Term) -> int:
    """Bytes that a pointwise value is made of, of an input as often as it is looked at; 0 for any other."""
    found = 0
    for x in postorder(t):
        if isinstance(x, Reduce | Scan):
            return 0
        args = (a for a in x.args if isinstance(a, Input))
        found += _bytes(x) if isinstance(x, View | Gather) else sum(map(_bytes, args))
    return found if isinstance(t, Map) else 0
