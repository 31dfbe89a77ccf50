"""One node for each class, so that the whole is cheap: greedy selection in a graph with sharing, then climbing.

Nothing here knows what nodes mean: ``nodes`` maps classes to what may be selected, each with its ``args``, the classes below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from ...extraction import greedy as extraction


class Selectable(Protocol):
    """A node: the classes that it needs."""

    @property
    def args(self) -> tuple[int, ...]:
        """The classes below."""
        ...


N = TypeVar("N", bound=Selectable)


def greedy(nodes: Mapping[int, Sequence[N]], cost: Callable[[int, N], float]) -> dict[int, N]:
    """For each class the node whose classes below are cheapest together, shared ones counted once; no cycles (:mod:`eqfuse.extraction`).

    ``cost``: what a node of a class costs by itself.  Classes of which every node goes in a circle are left out.
    """
    every = [(c, n) for c, row in nodes.items() for n in row]
    price = [cost(c, n) for c, n in every]
    found = extraction.greedy([n.args for _, n in every], [c for c, _ in every], price, max(nodes, default=-1) + 1)
    return {c: every[k][1] for c, k in found.items()}


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
                if n is selected[c] or any(a not in selected for a in n.args) or late():
                    continue
                tried = {**selected, c: n}
                now = price(tried)
                if now < best * (1 - 1e-9):
                    selected, best, changed = tried, now, True
            if late():
                break
    return selected, best
