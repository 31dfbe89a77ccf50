"""Extraction by DAG cost, exactly: reductions, then an integer program for each part that they leave (HiGHS, by ``highspy``).

A variable x(n) for each node, and y(c), the sum over the nodes of c: 1 for classes that are wanted.  At most one node of a class is
chosen, so that children take one row for each pair of classes,

    sum of the x(n) of c with the child d  <=  y(d).

The same row holds for every class d that the nodes require (:mod:`.reduction`), and says more where different children lead to it;
these rows are added where a solution of the linear relaxation breaks them.

All that admits cycles, which live in strongly connected components.  A set of classes S in which every chosen node has a child in S
has no derivation, so that

    y(c)  <=  sum of the x(n) of classes in S without a child in S,       for c in S

(the loop formulas of logic programs).  There are too many, so they are added where a solution breaks one: first to the relaxation,
where the shortest cycle through a class is sought, an edge from s to t being as long as y(s) - sum of the x(n) of s with the child t;
then to the integer program, which is solved again from the best selection known.  A component in which a solution had a cycle
gets levels, too, so that it has none the next time: level(c) >= level(d) + a step where a node of c with the child d is chosen.

What HiGHS proves of a program with some of these rows is a bound for all of them: the search can end at any time, with a gap.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import OptionError
from .bits import bits
from .graph import Graph, Selection, components
from .greedy import greedy
from .reduction import Problem, below, reduce, required

PROVED = 1e-6  # the relative gap that counts as none: the tolerance to which HiGHS solves
REDUCING = 0.3  # of the time that is left, after which reductions end
STEP = 0.01  # the part of the gap that a round of rows for the relaxation should close,
STILL = 3  # and how many rounds in turn may close less
SHORTEST = 400  # classes whose shortest cycle is sought in a round


@dataclass
class Row:
    """low <= sum of the coefficients times variables <= high."""

    terms: dict[int, float]
    low: float
    high: float


@dataclass
class Solved:
    """The nodes chosen, what they cost, and what any selection costs at least."""

    chosen: dict[int, int]
    cost: float
    bound: float


def exact(graph: Graph, start: Selection, deadline: float) -> tuple[Selection, float]:
    """The cheapest selection that is found by ``time.monotonic() = deadline``, at most as dear as ``start``; and a bound for all."""
    best = start
    p = Problem.of(graph)
    for _ in range(2):  # the second time with what a smaller problem shows to be possible
        if not reduce(p, best.dag_cost, time.monotonic() + REDUCING * (deadline - time.monotonic())):
            return best, best.dag_cost
        if time.monotonic() > deadline:
            return best, min(p.paid, best.dag_cost)
        found = Selection(graph, p.fixed | p.lifted([*_greedy(p).values()]))
        if not found.dag_cost < best.dag_cost:
            break
        best = found
    bound, choice = p.paid, dict(p.fixed)
    parts = sorted(p.parts(), key=lambda q: sum(map(len, q.members)))
    for k, part in enumerate(parts):
        solved = _Search(part, time.monotonic() + (deadline - time.monotonic()) / (len(parts) - k)).run()
        bound += solved.bound
        choice |= part.lifted([*solved.chosen.values()])
    found = Selection(graph, choice)
    if found.dag_cost < best.dag_cost:
        best = found
    return best, min(bound, best.dag_cost)


def _greedy(p: Problem, cost: Sequence[float] | None = None, only: set[int] | None = None) -> dict[int, int]:
    """Class -> node, greedily, of what is left (or of some of that), at its own or at other costs; for classes that are
    needed."""
    left = [n for n in p.nodes() if only is None or n in only]
    price = p.cost if cost is None else cost
    found = greedy([p.children[n] for n in left], [p.owner[n] for n in left], [price[n] for n in left], len(p.members))
    return _needed(p, {c: left[k] for c, k in found.items()})


def _needed(p: Problem, choice: dict[int, int]) -> dict[int, int]:
    """What the wanted classes need of a choice."""
    found: dict[int, int] = {}
    stack = sorted(p.wanted)
    while stack:
        c = stack.pop()
        if c not in found:
            found[c] = choice[c]
            stack += p.children[choice[c]]
    return found


@dataclass
class _Search:
    """One part: an integer program that grows."""

    p: Problem
    deadline: float
    rows: list[Row] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    best: dict[int, int] = field(default_factory=dict)
    column: dict[int, int] = field(default_factory=dict)
    total: dict[int, int] = field(default_factory=dict)  # the column of y, of classes that are not wanted
    part: dict[int, int] = field(default_factory=dict)  # the strongly connected component of a class
    level: dict[int, int] = field(default_factory=dict)  # the column of the level of a class, where there are any
    inside: dict[int, int] = field(default_factory=dict)  # the classes of a component whose classes have levels
    unit: int = 0  # every selection costs a multiple of it; 0 where that is not known
    scale: float = 1.0  # of costs, for HiGHS
    needs: list[int] | None = None
    cost: float = math.inf
    bound: float = 0.0

    def run(self) -> Solved:
        """Solve, add what is broken, solve again."""
        p = self.p
        self.left = list(p.nodes())
        self.column = {n: k for k, n in enumerate(self.left)}
        self.total = {c: len(self.left) + k for k, c in enumerate(c for c, ns in enumerate(p.members) if ns and c not in p.wanted)}
        self.offer(_greedy(p))
        self.part = {c: k for k, cs in enumerate(components(p.edges())) for c in cs}
        costs = [p.cost[n] for n in self.left]
        whole = all(x == int(x) for x in costs if x < 2**40) and max(costs, default=0) < 2**40
        self.unit = math.gcd(*map(int, costs)) if whole else 0  # every selection costs a multiple
        if not self.proved() and self.seconds() > 0:
            self.write_rows()
            self.relax()
        while not self.proved() and self.seconds() > 0 and self.branch():
            pass
        no_step = self.cost - self.bound < self.unit * (1 - PROVED)
        return Solved(self.best, self.cost, self.cost if no_step else min(self.bound, self.cost))

    def seconds(self) -> float:
        """The time that is left."""
        return self.deadline - time.monotonic()

    def proved(self) -> bool:
        """Nothing cheaper is possible."""
        missing = self.cost - self.bound
        return missing <= PROVED * self.cost or missing < self.unit * (1 - PROVED)

    def offer(self, choice: dict[int, int]) -> None:
        """A selection without cycles: kept if it is the best one."""
        cost = math.fsum(self.p.cost[n] for n in choice.values())
        if cost < self.cost:
            self.best, self.cost = choice, cost

    # rows ----------------------------------------------------------------------------------------------------------------------
    def write_rows(self) -> None:
        """One node for each wanted class, at most one for others, and children; cycles of two classes are forbidden from the
        start."""
        p = self.p
        for c, ns in enumerate(p.members):
            if not ns:
                continue
            wanted = c in p.wanted
            total = {} if wanted else {self.total[c]: -1.0}
            self.rows.append(Row({**{self.column[n]: 1.0 for n in ns}, **total}, float(wanted), float(wanted)))
            above: dict[int, list[int]] = {}
            for n in ns:
                for d in p.children[n]:
                    above.setdefault(d, []).append(n)
            for d, users in above.items():
                if d not in p.wanted:  # otherwise y(d) = 1
                    self.rows.append(self.used(users, d))
                if c < d and self.part[c] == self.part[d] and any(c in p.children[m] for m in p.members[d]):
                    self.forbid({c, d})

    def used(self, nodes: Iterable[int], d: int) -> Row:
        """Of nodes, at most one of which is chosen, one is only if the class d is used."""
        return Row({**{self.column[n]: 1.0 for n in nodes}, self.total[d]: -1.0}, -math.inf, 0.0)

    def support(self, classes: set[int]) -> list[int]:
        """The nodes of a set of classes that have no child in it."""
        p = self.p
        return [n for c in sorted(classes) for n in p.members[c] if classes.isdisjoint(p.children[n])]

    def forbid(self, classes: set[int]) -> None:
        """What is chosen in a set of classes does not need itself."""
        support = {self.column[n]: -1.0 for n in self.support(classes)}
        for c in sorted(classes):
            if c in self.p.wanted:
                self.rows.append(Row(support, -math.inf, -1.0))
            else:
                self.rows.append(Row({**support, self.total[c]: 1.0}, -math.inf, 0.0))

    def order(self, parts: set[int]) -> None:
        """Levels from 0 to 1 for the classes of components, in which a solution had a cycle: no cycle is left there."""
        for part in sorted(parts - set(self.inside)):
            inside = [c for c, k in self.part.items() if k == part]
            self.inside[part] = len(inside)
            step = 1.0 / (len(inside) - 1)
            for c in inside:
                self.level[c] = len(self.left) + len(self.total) + len(self.level)
            for c in inside:
                users: dict[int, list[int]] = {}
                for n in self.p.members[c]:
                    for d in self.p.children[n]:
                        if self.part[d] == part:
                            users.setdefault(d, []).append(n)
                for d, ns in users.items():  # level(c) >= level(d) + step where one of the nodes is chosen
                    terms = {self.level[c]: 1.0, self.level[d]: -1.0, **{self.column[n]: -1.0 - step for n in ns}}
                    self.rows.append(Row(terms, -1.0, math.inf))

    def heights(self) -> dict[int, float]:
        """The levels of the classes of the best selection that have one."""
        edges = [self.p.children[self.best[c]] if c in self.best else () for c in range(len(self.p.members))]
        found: dict[int, float] = {}
        for (c,) in components(edges, sorted(self.p.wanted)):  # children first
            if c in self.level:
                step = 1.0 / (self.inside[self.part[c]] - 1)
                found[c] = max((found[d] + step for d in edges[c] if self.part[d] == self.part[c]), default=0.0)
        return found

    # solving -------------------------------------------------------------------------------------------------------------------
    def model(self, integers: bool) -> Any:
        """HiGHS with the present rows, silent, on one thread: the same program gives the same answer."""
        highspy, np = _solver()
        h = highspy.Highs()
        for option, value in (("output_flag", False), ("threads", 1), ("mip_rel_gap", 0.0), ("mip_abs_gap", 0.0)):
            h.setOptionValue(option, value)
        h.setOptionValue("time_limit", max(self.seconds(), 0.01))
        lp = highspy.HighsLp()
        others = len(self.total) + len(self.level)
        lp.num_col_, lp.num_row_ = len(self.left) + others, len(self.rows)
        self.scale = 1.0 / self.unit if self.unit else 1000.0 / self.cost
        lp.col_cost_ = np.array([self.p.cost[n] * self.scale for n in self.left] + [0.0] * others)
        lp.col_lower_, lp.col_upper_ = np.zeros(lp.num_col_), np.ones(lp.num_col_)
        lp.row_lower_, lp.row_upper_ = np.array([r.low for r in self.rows]), np.array([r.high for r in self.rows])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0, *(len(r.terms) for r in self.rows)])
        lp.a_matrix_.index_ = np.array([k for r in self.rows for k in r.terms], dtype=np.int32)
        lp.a_matrix_.value_ = np.array([x for r in self.rows for x in r.terms.values()])
        if integers:
            whole = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
            lp.integrality_ = [whole[k >= len(self.left)] for k in range(lp.num_col_)]
        h.passModel(lp)
        return h

    def relax(self) -> None:
        """The linear relaxation, with the loop formulas that its solutions break."""
        highspy, np = _solver()
        h = self.model(integers=False)
        known, half, still = len(self.rows), self.seconds() / 2, 0
        while still < STILL and self.seconds() > half:
            h.setOptionValue("time_limit", h.getRunTime() + max(self.seconds(), 0.01))
            h.run()
            if h.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                return
            bound = h.getInfo().objective_function_value / self.scale * (1 - 1e-9)
            still = 0 if bound - self.bound > STEP * (self.cost - self.bound) else still + 1
            self.bound = max(self.bound, bound)
            x = h.getSolution().col_value
            self.offer(_greedy(self.p, self.discounted(x)))
            if self.proved():
                return
            self.rows += self.broken_requirements(x)
            for classes in self.broken(x):
                self.forbid(classes)
            if len(self.rows) == known:
                return
            for r in self.rows[known:]:
                h.addRow(r.low, r.high, len(r.terms), np.array([*r.terms], dtype=np.int32), np.array([*r.terms.values()]))
            known = len(self.rows)

    def broken_requirements(self, x: Sequence[float]) -> list[Row]:
        """The rows for children hold for all that a node requires: those that a solution breaks."""
        p = self.p
        if self.needs is None and (needs := required(p, self.deadline)):
            self.needs = needs
        if self.needs is None:
            return []
        y = [sum(x[self.column[n]] for n in ns) for ns in p.members]
        partial = sum(1 << c for c in self.total if y[c] < 1 - 1e-4)
        rows: list[Row] = []
        for c, ns in enumerate(p.members):
            if y[c] < 1e-4:
                continue
            share: dict[int, float] = {}
            under = {n: below(p, self.needs, n) & partial for n in ns}
            for n in ns:
                if x[self.column[n]] > 1e-6:
                    for e in bits(under[n]):
                        share[e] = share.get(e, 0.0) + x[self.column[n]]
            rows += [self.used([n for n in ns if under[n] >> e & 1], e) for e, v in share.items() if v > y[e] + 1e-4]
        return rows

    def discounted(self, x: Sequence[float]) -> list[float]:
        """Costs by which a greedy selection follows a solution of the relaxation."""
        cost = list(self.p.cost)
        for k, n in enumerate(self.left):
            cost[n] *= 1.0 - 0.999 * min(max(x[k], 0.0), 1.0)
        return cost

    def broken(self, x: Sequence[float]) -> list[set[int]]:
        """Sets of classes whose loop formulas a solution of the relaxation breaks: the shortest cycles through the classes most
        used."""
        p = self.p
        y = [sum(x[self.column[n]] for n in ns) for ns in p.members]
        length: list[dict[int, float]] = [{} for _ in p.members]
        for k, n in enumerate(self.left):
            c = p.owner[n]
            for d in p.children[n]:
                if x[k] > 1e-6 and self.part[c] == self.part[d]:
                    length[c][d] = length[c].get(d, y[c]) - x[k]
        found: dict[frozenset[int], None] = {}
        covered: set[int] = set()
        for c in sorted((c for c in range(len(y)) if length[c]), key=lambda c: (-y[c], c))[:SHORTEST]:
            if c in covered or self.seconds() < 0:
                continue
            cycle = _shortest_cycle(length, c, y[c] - 1e-4)
            if cycle and sum(x[self.column[n]] for n in self.support(cycle)) < max(y[d] for d in cycle) - 1e-4:
                found[frozenset(cycle)] = None
                covered |= cycle
        return [set(s) for s in found]

    def branch(self) -> bool:
        """The integer program once.  False if the time is over; a solution with cycles adds rows that forbid them."""
        highspy, np = _solver()
        h = self.model(integers=True)
        start = highspy.HighsSolution()
        value = np.zeros(len(self.left) + len(self.total) + len(self.level))
        value[[self.column[n] for n in self.best.values()]] = 1.0
        value[[self.total[c] for c in self.best if c in self.total]] = 1.0
        for c, level in self.heights().items():
            value[self.level[c]] = level
        start.col_value = value
        h.setSolution(start)
        if self.unit:
            h.setOptionValue("mip_abs_gap", 1.0 - PROVED)
        h.run()
        self.bound = max(self.bound, h.getInfo().mip_dual_bound / self.scale)
        done = h.getModelStatus() == highspy.HighsModelStatus.kOptimal
        x = h.getSolution().col_value
        if len(x) < len(self.left):
            return False
        used = {n for k, n in enumerate(self.left) if x[k] > 0.5}
        choice = {self.p.owner[n]: n for n in sorted(used)}
        edges = [self.p.children[choice[c]] if c in choice else () for c in range(len(self.p.members))]
        loops = [set(cs) for cs in components(edges, sorted(self.p.wanted)) if len(cs) > 1]
        self.offer(_greedy(self.p, only=used | set(self.best.values())) if loops else _needed(self.p, choice))
        for classes in loops:
            self.forbid(classes)
        self.order({self.part[c] for classes in loops for c in classes})
        return done and bool(loops)


def _shortest_cycle(length: list[dict[int, float]], c: int, limit: float) -> set[int] | None:
    """The classes of the shortest cycle through one of them, if that is shorter than a limit."""
    above: dict[int, int] = {}
    heap: list[tuple[float, int, int]] = [(0.0, c, -1)]
    while heap:
        far, d, came = heapq.heappop(heap)
        if far >= limit:
            return None
        if d in above and d != c:
            continue
        if d == c and came != -1:
            cycle = {c}
            while came != c:
                cycle.add(came)
                came = above[came]
            return cycle
        above[d] = came
        for e, more in length[d].items():
            if e not in above or e == c:
                heapq.heappush(heap, (far + max(more, 0.0), e, d))
    return None


def _solver() -> tuple[Any, Any]:
    """highspy and numpy."""
    try:
        import highspy
    except ImportError as error:
        raise OptionError(
            'method="exact" needs the solver highspy, which cannot be imported', cure='pip install highspy, or method="greedy-dag"'
        ) from error
    import numpy as np

    return highspy, np
