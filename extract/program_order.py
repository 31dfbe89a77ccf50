"""Which programs of a grid run first: the order that lets least pass the cache that all of them share.

Where one operand depends on one axis of the grid and another on another, programs that run at a time should be a block of tiles, which
shares both, and not a line of them, which shares one and needs all of the other (:mod:`.waves`).
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from ..tiles.kernel import Kernel
from ..tiles.walk import Counts
from .quantities import bytes_text
from .traffic import order_of, panels
from .waves import dram_bytes

GROUPS = (4, 8, 16)  # tiles that are tried
LESS = 0.95  # another order is taken if it moves at most this share of the bytes


def ordered(kernel: Kernel, counts: Counts, running: int, held: int) -> Kernel:
    """The kernel with the order of ``running`` programs at a time that lets least pass a cache that holds so many bytes, and a note that
    says what.

    An order should not hang on the cache's last megabyte: what passes one of half the size counts as much.  Tried are two axes as the
    last ones, of which each has something loaded along it that does not depend on the other, in either order and in groups."""
    loaded, tiles = panels(counts), dict(order_of(kernel, counts))

    def alone(one: str, other: str) -> bool:
        return any(one in p.axes and other not in p.axes for p in loaded)

    def passing(k: Kernel) -> tuple[float, float]:
        order = order_of(k, counts)
        return dram_bytes(loaded, order, running, held), dram_bytes(loaded, order, running, held / 2)

    pairs = [
        (a, b)
        for a, b in itertools.permutations(kernel.grid, 2)
        if min(tiles[a.name], tiles[b.name]) > 1 and alone(a.name, b.name) and alone(b.name, a.name)
    ]
    best, before = kernel, passing(kernel) if pairs else (0.0, 0.0)
    least = before
    for outer, inner in pairs:
        grid = (*(a for a in kernel.grid if a not in (outer, inner)), outer, inner)
        for grouped in (0, *(g for g in GROUPS if g < tiles[outer.name])):
            k = replace(kernel, grid=grid, grouped=grouped)
            if sum(found := passing(k)) < LESS * sum(least):
                best, least = k, found
    if best is kernel:
        return kernel
    outer, inner = best.grid[-2:]
    said = f"{best.grouped} tiles along {outer.name}, then the next along" if best.grouped else "first along"
    now, then = (f"{bytes_text(round(whole))} ({bytes_text(round(half))} with half the cache)" for whole, half in (least, before))
    return replace(best, notes={**kernel.notes, "order": f"{said} {inner.name}: loads move {now}, in the order of the axes {then}"})
