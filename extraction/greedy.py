"""Extraction by DAG cost, greedily: what is used twice is paid for once, by the estimate that each class makes for itself.

A class knows the classes that its best member needs, directly or not; a member's estimate is the sum over the union of what its
children need. Members are tried again whenever a child finds something cheaper, until nothing does (what extraction-gym calls
greedy-dag), the cheapest first, so that most are tried once.  It cannot see that a dearer member would share with what stands
beside its class: that is not its own sum.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from .bits import bits


def estimates(
    children: Sequence[Sequence[int]], owner: Sequence[int], cost: Sequence[float], classes: int
) -> tuple[dict[int, int], list[float]]:
    """Class -> the node that it chooses, and its estimate; the choices may make a cycle in rare cases (see
    :func:`without_cycles`)."""
    users: list[list[int]] = [[] for _ in range(classes)]
    needs = [tuple(dict.fromkeys(ds)) for ds in children]
    for n, ds in enumerate(needs):
        for d in ds:
            users[d].append(n)
    below = [0] * classes  # the classes that the best node needs, with its own: bit d is class d
    total, own = [math.inf] * classes, [0.0] * classes
    best: dict[int, int] = {}
    heap = [(cost[n], n) for n, ds in enumerate(needs) if not ds]
    heapq.heapify(heap)
    waiting = {n for _, n in heap}
    while heap:
        _, n = heapq.heappop(heap)
        waiting.discard(n)
        c, ds = owner[n], needs[n]
        # no union costs less than its largest part
        if cost[n] + max((total[d] for d in ds), default=0.0) >= total[c] or any(below[d] >> c & 1 for d in ds):
            continue
        union, price = 0, cost[n]
        for d in sorted(ds, key=lambda d: -total[d]):
            price += sum(own[e] for e in bits(below[d] & ~union)) if union else total[d]
            union |= below[d]
        if price < total[c]:
            best[c], below[c], total[c], own[c] = n, union | 1 << c, price, cost[n]
            for m in users[c]:
                if m not in waiting and owner[m] != c:
                    known = max(total[d] for d in needs[m])
                    if cost[m] + known < total[owner[m]]:
                        waiting.add(m)
                        heapq.heappush(heap, (cost[m] + known, m))
    return best, total


def without_cycles(
    best: dict[int, int], total: Sequence[float], children: Sequence[Sequence[int]], owner: Sequence[int], cost: Sequence[float]
) -> dict[int, int]:
    """The choices, children first.  A class learns what its children need when that becomes cheaper, not when it becomes more,
    so that choices can form a cycle; one class of each takes the node with the least estimate among those that are settled
    below."""
    users: dict[int, list[int]] = {}
    missing = [len(set(ds)) for ds in children]
    ready: list[int] = []
    for n, ds in enumerate(children):
        for d in set(ds):
            users.setdefault(d, []).append(n)
        if not ds and cost[n] < math.inf:
            ready.append(n)
    settled: dict[int, int] = {}
    spare: list[int] = []
    while ready or spare:
        if ready:
            n = ready.pop()
            if owner[n] in settled:
                continue
            if best.get(owner[n]) != n:
                spare.append(n)
                continue
        else:
            spare = [n for n in spare if owner[n] not in settled]
            if not spare:
                break
            n = min(spare, key=lambda n: (cost[n] + sum(total[d] for d in children[n]) - total[owner[n]], n))
        settled[owner[n]] = n
        for m in users.get(owner[n], ()):
            missing[m] -= 1
            if not missing[m] and cost[m] < math.inf and owner[m] not in settled:
                ready.append(m)
    return settled


def greedy(children: Sequence[Sequence[int]], owner: Sequence[int], cost: Sequence[float], classes: int) -> dict[int, int]:
    """Class -> node, without cycles, for every class that can be had."""
    best, total = estimates(children, owner, cost, classes)
    return without_cycles(best, total, children, owner, cost)
