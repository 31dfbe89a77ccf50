"""What can be decided about a DAG extraction without search: a smaller problem that has an optimal selection of the larger one.

A problem is nodes with an owner (a class), children (classes) and a cost; some classes are wanted.  A selection takes at most
one node of each class, wanted classes and children included, without a cycle.  With

    required(c) = {c} + the classes that every node of c requires,   required(n) = the union of required(d) over the children d of n,

the greatest solution of which holds the classes that stand in every derivation of c, the steps are:

- *underivable*: a node with a child that has no derivation, or that requires the node's own class, is in no selection.  Nor is
one with a child
  that stands on every path from what is wanted to its own class (a dominator of it).
- *forced*: what a wanted class requires is wanted.  A child that is wanted anyway is free of charge, and may be forgotten if it
cannot lead
  back (it is in another strongly connected component): its own choice is made elsewhere.  The least cost in a wanted class is
  always paid.
- *free*: a class with a node without cost or children is chosen so, and is no child any more.
- *dominated*: a node gives way to another of its class that costs no more with what it needs beyond required(n).
- *too dear*: a node that costs, with the cheapest nodes of what it requires and of what dominates it, more than a selection
that is known.
- *contracted*: a class that is used by one node becomes part of it; what a class costs at least is paid by its users if these
are of one class.

Each keeps at least one optimal selection, or a known one is optimal.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from .bits import bits
from .graph import Graph, components
from .tree import settle

WORTH = 0.02  # the share of nodes and edges that a round of all steps must remove for another to follow
RIVALS = 100  # members of a class that each other member is compared with, the cheapest
ROUNDING = 1e-9  # sums of costs are right to this share

Picks = tuple[tuple[int, int], ...]  # (class, position) of the members that a node stands for


@dataclass
class Problem:
    """Nodes by number; ``members`` says which are left.  ``paid`` is what every selection costs; ``fixed`` are choices that are
    made."""

    owner: list[int]
    children: list[tuple[int, ...]]
    cost: list[float]
    picks: list[Picks]
    members: list[list[int]]
    wanted: set[int]
    paid: float = 0.0
    fixed: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> Problem:
        """The problem of a graph, without the members that may not be chosen."""
        p = cls([], [], [], [], [[] for _ in graph.classes], set(graph.roots))
        for c, ms in enumerate(graph.classes):
            for k, m in enumerate(ms):
                if m.cost < math.inf and c not in m.children:
                    p.add(c, tuple(sorted(set(m.children))), m.cost, ((c, k),))
        return p

    def add(self, c: int, children: tuple[int, ...], cost: float, picks: Picks) -> None:
        """One more node of a class."""
        self.members[c].append(len(self.owner))
        self.owner.append(c)
        self.children.append(children)
        self.cost.append(cost)
        self.picks.append(picks)

    def nodes(self) -> Iterator[int]:
        """The nodes that are left."""
        for ns in self.members:
            yield from ns

    def edges(self) -> list[set[int]]:
        """The children of each class."""
        return [{d for n in ns for d in self.children[n]} for ns in self.members]

    def users(self) -> list[list[int]]:
        """The nodes that have a class as a child."""
        found: list[list[int]] = [[] for _ in self.members]
        for n in self.nodes():
            for d in self.children[n]:
                found[d].append(n)
        return found

    def size(self) -> int:
        """Nodes and edges that are left."""
        return sum(1 + len(self.children[n]) for n in self.nodes())

    def keep(self, drop: set[int]) -> None:
        """Remove nodes."""
        if drop:
            self.members = [[n for n in ns if n not in drop] for ns in self.members]

    def parts(self) -> list[Problem]:
        """What can be decided apart: nothing of one part is a child in another."""
        both: list[set[int]] = [set() for _ in self.members]
        for c, ds in enumerate(self.edges()):
            both[c] |= ds
            for d in ds:
                both[d].add(c)
        found = []
        for part in components(both):
            inside = self.wanted.intersection(part)
            if inside and any(self.members[c] for c in part):
                number = {c: k for k, c in enumerate(part)}
                p = Problem([], [], [], [], [[] for _ in part], {number[c] for c in inside})
                for c in part:
                    for n in self.members[c]:
                        p.add(number[c], tuple(sorted(number[d] for d in self.children[n])), self.cost[n], self.picks[n])
                found.append(p)
        return found

    def lifted(self, chosen: list[int]) -> dict[int, int]:
        """The choice in the graph for a choice of nodes."""
        return {c: k for n in chosen for c, k in self.picks[n]}


def reduce(p: Problem, upper: float, deadline: float) -> bool:
    """All steps until they help little, or until ``deadline`` (of :func:`time.monotonic`).  False if no selection costs as little as
    ``upper``."""
    left, least = p.size(), math.inf
    while left < least * (1 - WORTH):
        least = left
        derivable(p)
        if not all(p.members[r] for r in p.wanted):
            return False
        for _ in _round(p, upper, deadline):  # after each step the problem is whole
            if not all(p.members[r] for r in p.wanted):
                return False
            if time.monotonic() > deadline:
                return True
        left = p.size()
    return True


def _round(p: Problem, upper: float, deadline: float) -> Iterator[None]:
    """The steps one by one.  Each leaves nodes that have derivations."""
    needs = required(p, deadline)
    if needs is None:
        return
    yield
    _without_returns(p, needs)
    yield
    _forced(p, needs)
    yield
    _free(p)
    yield
    _dear(p, needs, upper)
    yield
    _dominated(p, needs, deadline)
    yield
    _contracted(p)
    derivable(p)
    yield


def derivable(p: Problem) -> None:
    """Nodes whose children have derivations, of classes that what is wanted leads to."""
    users = p.users()
    missing = {n: len(p.children[n]) for n in p.nodes()}
    known: set[int] = set()
    ready = [n for n, count in missing.items() if not count]
    while ready:
        c = p.owner[ready.pop()]
        if c not in known:
            known.add(c)
            for n in users[c]:
                missing[n] -= 1
                if not missing[n]:
                    ready.append(n)
    p.keep({n for n, count in missing.items() if count})
    reached, stack = set(p.wanted), list(p.wanted)
    while stack:
        for n in p.members[stack.pop()]:
            new = [d for d in p.children[n] if d not in reached]
            reached.update(new)
            stack += new
    p.members = [ns if c in reached else [] for c, ns in enumerate(p.members)]


def required(p: Problem, deadline: float = math.inf) -> list[int] | None:
    """The sets ``required(c)`` as numbers: bit d is class d.  Every node has a derivation; sets start with all classes and lose
    some, so that they say nothing before the end: None where ``deadline`` comes first."""
    edges = p.edges()
    everything = (1 << len(p.members)) - 1
    found = [everything] * len(p.members)
    users: list[set[int]] = [set() for _ in p.members]
    for c, ds in enumerate(edges):
        for d in ds:
            users[d].add(c)
    queue = deque(c for part in components(edges) for c in part if p.members[c])
    waiting = set(queue)
    while queue:
        if time.monotonic() > deadline:
            return None
        c = queue.popleft()
        waiting.discard(c)
        new = everything
        for n in p.members[c]:
            under = 0
            for d in p.children[n]:
                under |= found[d]
            new &= under
        new |= 1 << c
        if new != found[c]:
            found[c] = new
            fresh = sorted(users[c] - waiting)
            waiting.update(fresh)
            queue.extend(fresh)
    return found


def below(p: Problem, needs: list[int], n: int) -> int:
    """What a node requires, if ``needs`` are the sets of classes."""
    found = 0
    for d in p.children[n]:
        found |= needs[d]
    return found


def _dominators(p: Problem) -> dict[int, int]:
    """Class -> its immediate dominator: the last class on every path to it from what is wanted; -1 if there is none (Cooper,
    Harvey, Kennedy)."""
    edges = [sorted(ds) for ds in p.edges()]
    order: list[int] = []
    seen: set[int] = set()
    for root in sorted(p.wanted):
        stack = [(root, iter(edges[root]))] if root not in seen else []
        seen.add(root)
        while stack:
            c, rest = stack[-1]
            d = next((d for d in rest if d not in seen), None)
            if d is None:
                order.append(stack.pop()[0])
            else:
                seen.add(d)
                stack.append((d, iter(edges[d])))
    order.reverse()
    rank = {c: k for k, c in enumerate(order)} | {-1: -1}
    above: dict[int, list[int]] = {c: [-1] if c in p.wanted else [] for c in order}
    for c in order:
        for d in edges[c]:
            above[d].append(c)
    idom: dict[int, int] = {-1: -1}
    changed = True
    while changed:
        changed = False
        for c in order:
            new: int | None = None
            for a in above[c]:
                if a not in idom:
                    continue
                b = a if new is None else new
                while a != b:
                    if rank[a] > rank[b]:
                        a = idom[a]
                    else:
                        b = idom[b]
                new = a
            if new is not None and idom.get(c) != new:
                idom[c] = new
                changed = True
    return idom


def _intervals(idom: dict[int, int]) -> dict[int, tuple[int, int]]:
    """Class -> the numbers, from the first to before the second, of the classes that it dominates, its own the first."""
    under: dict[int, list[int]] = {}
    for c, above in idom.items():
        if c != -1:
            under.setdefault(above, []).append(c)
    first: dict[int, int] = {}
    found: dict[int, tuple[int, int]] = {}
    stack = [-1]
    while stack:
        c = stack[-1]
        if c in first:
            found[c] = first[c], len(first)
            stack.pop()
        else:
            first[c] = len(first)
            stack += under.get(c, ())
    return found


def _without_returns(p: Problem, needs: list[int]) -> None:
    """Without nodes whose children need, or always lead to, their own class."""
    over = _intervals(_dominators(p))
    drop = set()
    for c, ns in enumerate(p.members):
        for n in ns:
            if below(p, needs, n) >> c & 1 or any(over[d][0] <= over[c][0] < over[d][1] for d in p.children[n]):
                drop.add(n)
    p.keep(drop)
    if drop:
        derivable(p)


def _forced(p: Problem, needs: list[int]) -> None:
    """What is wanted wants what it requires; edges to that are cut, and the least cost of it is paid."""
    every = 0
    for r in p.wanted:
        every |= needs[r]
    p.wanted |= set(bits(every))
    part = {c: k for k, cs in enumerate(components(p.edges())) for c in cs}
    for n in p.nodes():
        c = p.owner[n]
        p.children[n] = tuple(d for d in p.children[n] if d not in p.wanted or part[d] == part[c])
    for c in sorted(p.wanted):
        least = min((p.cost[n] for n in p.members[c]), default=0.0)
        p.paid += least
        for n in p.members[c]:
            p.cost[n] -= least


def _free(p: Problem) -> None:
    """Classes with a node that costs nothing are chosen, repeatedly."""
    users = p.users()
    ready = [n for n in p.nodes() if not p.children[n] and not p.cost[n]]
    if not ready:
        return
    while ready:
        n = ready.pop()
        c = p.owner[n]
        if n not in p.members[c]:
            continue
        p.members[c] = []
        p.wanted.discard(c)
        p.fixed |= dict(p.picks[n])
        for m in users[c]:
            p.children[m] = tuple(d for d in p.children[m] if d != c)
            if not p.children[m] and not p.cost[m]:
                ready.append(m)
    derivable(p)


def _dear(p: Problem, needs: list[int], upper: float) -> None:
    """Without nodes that no selection below ``upper`` can have.  A wanted class may lose all of its own: there is none below."""
    least = [min((p.cost[n] for n in ns), default=0.0) for ns in p.members]
    costly = sum(1 << c for c, x in enumerate(least) if x > 0)
    idom = _dominators(p)
    above = {-1: 0.0}  # what the dominators of a class cost at least: none of them is required by it, as they would need each other
    for c in idom:  # dominators first
        if c != -1:
            above[c] = above[idom[c]] + (least[idom[c]] if idom[c] != -1 else 0.0)
    limit = (upper - p.paid) * (1 + ROUNDING) + ROUNDING * upper
    drop = set()
    for c, ns in enumerate(p.members):
        for n in ns:
            if above[c] + p.cost[n] + sum(least[d] for d in bits(below(p, needs, n) & costly & ~(1 << c))) > limit:
                drop.add(n)
    p.keep(drop)
    if drop:
        derivable(p)


def _dominated(p: Problem, needs: list[int], deadline: float) -> None:
    """Without nodes that another of the class replaces.  What is needed beyond required(n) is paid at its tree cost, and must
    not lead back."""
    left = list(p.nodes())
    _, price = settle([p.children[n] for n in left], [p.owner[n] for n in left], [p.cost[n] for n in left], len(p.members))
    part = {c: k for k, cs in enumerate(components(p.edges())) for c in cs}
    drop: set[int] = set()
    for c, ns in enumerate(p.members):
        if len(ns) < 2:
            continue
        if time.monotonic() > deadline:
            break
        ns = sorted(ns, key=lambda n: (p.cost[n], len(p.children[n]), n))
        first: dict[tuple[int, ...], int] = {}
        drop.update(n for n in ns if first.setdefault(p.children[n], n) != n)
        ns = [*first.values()]
        own = {n: sum(1 << d for d in p.children[n]) for n in ns}
        for n in reversed(ns):  # the dearest first
            under = below(p, needs, n)
            for m in ns[:RIVALS]:
                if p.cost[m] > p.cost[n]:
                    break
                if m == n or m in drop:
                    continue
                more = own[m] & ~under
                if not more or (
                    p.cost[m] < p.cost[n]
                    and more.bit_count() <= 8
                    and all(part[d] != part[c] for d in bits(more))
                    and p.cost[m] + sum(price[d] for d in bits(more)) < p.cost[n] * (1 - ROUNDING)
                ):
                    drop.add(n)
                    break
    p.keep(drop)
    if drop:
        derivable(p)


def _contracted(p: Problem) -> None:
    """Classes that belong to their only user."""
    users = p.users()
    left = set(p.nodes())
    for d in range(len(p.members)):
        own = [m for m in p.members[d] if m in left]
        above = [n for n in users[d] if n in left and d in p.children[n]]
        if d in p.wanted or not own or len({p.owner[n] for n in above}) != 1:
            continue
        c = p.owner[above[0]]
        if len(own) == 1 or (len(above) == 1 and len(p.children[above[0]]) == 1):
            left.difference_update(own, above)
            for n in above:
                rest = set(p.children[n]) - {d}
                for m in own:
                    needs = tuple(sorted(rest.union(p.children[m])))
                    if c not in needs:
                        left.add(len(p.owner))
                        for e in needs:
                            users[e].append(len(p.owner))
                        p.add(c, needs, p.cost[n] + p.cost[m], p.picks[n] + p.picks[m])
        elif least := min(p.cost[m] for m in own):
            for m in own:
                p.cost[m] -= least
            for n in above:
                p.cost[n] += least
    p.members = [[n for n in ns if n in left] for ns in p.members]
