"""One node for each class, so that the whole is cheap: greedy selection in a graph with sharing, then climbing.

Nothing here knows what nodes mean: ``nodes`` maps classes to what may be selected, each with its ``args``, the classes below.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar


class Selectable(Protocol):
    """A node: the classes that it needs."""

    @property
    def args(self) -> tuple[int, ...]:
        """The classes below."""
        ...


N = TypeVar("N", bound=Selectable)


def greedy(nodes: Mapping[int, Sequence[N]], cost: Callable[[int, N], float]) -> dict[int, N]:
    """For each class the node whose classes below are cheapest together, shared ones counted once; no cycles.

    ``cost``: what a node of a class costs by itself.  Classes of which every node goes in a circle are left out.
    """
    users: dict[int, set[int]] = {}
    for c, row in nodes.items():
        for n in row:
            for a in n.args:
                users.setdefault(a, set()).add(c)
    best: dict[int, tuple[float, dict[int, float], N]] = {}
    own = {(c, k): cost(c, n) for c, row in nodes.items() for k, n in enumerate(row)}
    work = deque(nodes)
    queued = set(work)
    while work:
        c = work.popleft()
        queued.discard(c)
        for k, n in enumerate(nodes[c]):
            if any(a not in best or c in best[a][1] for a in n.args):
                continue
            below: dict[int, float] = {}
            for a in n.args:
                below |= best[a][1]
            below[c] = own[c, k]
            total = sum(below.values())
            if c not in best or total < best[c][0] * (1 - 1e-12) - 1e-12:
                best[c] = (total, below, n)
                new = users.get(c, set()) - queued
                work.extend(sorted(new))
                queued |= new
    return {c: n for c, (_, _, n) in best.items()}


def used(selected: Mapping[int, N], roots: Iterable[int]) -> set[int]:
    """The classes that the roots need."""
    found: set[int] = set()
    stack = list(roots)
    while stack:
        c = stack.pop()
        if c not in found:
            found.add(c)
            stack.extend(selected[c].args)
    return found


def climb(
    nodes: Mapping[int, Sequence[N]],
    selected: dict[int, N],
    roots: Sequence[int],
    price: Callable[[Mapping[int, N]], float],
    late: Callable[[], bool],
) -> tuple[dict[int, N], float]:
    """Another node for one class at a time, while the price of the whole falls; the price of what cannot be made is infinite."""
    best = price(selected)
    changed = best < math.inf
    while changed and not late():
        changed = False
        for c in sorted(used(selected, roots)):
            for n in nodes[c] if len(nodes[c]) > 1 else ():
                if n is selected[c] or any(a not in selected for a in n.args):
                    continue
                tried = {**selected, c: n}
                now = price(tried)
                if now < best * (1 - 1e-9):
                    selected, best, changed = tried, now, True
            if late():
                break
    return selected, best
