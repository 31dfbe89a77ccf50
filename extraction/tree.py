"""Extraction by tree cost: every use of a value pays for it again.

The cost of a class is that of its cheapest member, a member's is its own and its children's.  Costs are not negative, so
classes are settled in the order of their costs, each once (Knuth 1977, the generalisation of Dijkstra's algorithm to grammars).
 A class is settled after the children of its member, so there is no cycle, whatever costs nothing.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from ..errors import GraphError
from .graph import Graph, Selection


def settle(
    children: Sequence[Sequence[int]], owner: Sequence[int], cost: Sequence[float], classes: int
) -> tuple[dict[int, int], list[float]]:
    """Class -> the node of the least tree cost, in the order in which they are settled, without those that cannot be had; and
    the costs."""
    users: list[list[int]] = [[] for _ in range(classes)]
    missing, total = [0] * len(owner), list(cost)
    heap: list[tuple[float, int]] = []
    for n, needs in enumerate(children):
        missing[n] = len(needs)
        for d in needs:
            users[d].append(n)  # as often as it is used
        if not needs and cost[n] < math.inf:
            heap.append((cost[n], n))
    heapq.heapify(heap)
    best: dict[int, int] = {}
    costs = [math.inf] * classes
    while heap:
        price, n = heapq.heappop(heap)
        if owner[n] in best:
            continue
        best[owner[n]], costs[owner[n]] = n, price
        for m in users[owner[n]]:
            missing[m] -= 1
            total[m] += price
            if not missing[m] and owner[m] not in best and cost[m] < math.inf:
                heapq.heappush(heap, (total[m], m))
    return best, costs


def tree(graph: Graph) -> Selection:
    """The selection of the least tree cost."""
    owner, position, children, cost = graph.flat()
    best, _ = settle(children, owner, cost, len(graph.classes))
    for r in graph.roots:
        if r not in best:
            raise GraphError(
                f"nothing can be chosen for the root {graph.names[r]}: every way to it needs the class itself, a class without members, or "
                "a member that may not be chosen",
                cure="a member without children in some class of each cycle (a leaf), or another root",
            )
    return Selection(graph, {c: position[n] for c, n in best.items()})
