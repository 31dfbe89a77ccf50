"""How much of an access exists: the share of positions for which its index stays inside the buffer.

The last part of an axis that is taken in parts has less than the others, and a window hangs over the edge: such lanes are masked, and move
nothing.  The share is one of positions, whatever the tiles are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ..ir.index import Atom, Axis
from .program import Access, Inside, Load, Store, TileProgram

MOST = 1 << 20  # positions of all axes but the longest that are looked at


def shares(program: TileProgram) -> Mapping[int, float]:
    """The share of every access that has masks of its own, by the access's id."""
    accesses = (s.access for s in program.statements() if isinstance(s, Load | Store))
    return {id(at): share(at) for at in accesses if at.inside}


def share(at: Access) -> float:
    """Of all positions of the axes that the masks of an access name, the share inside.  1 where data say the place, where the index has
    quotients, and for more positions than one can look at."""
    looked = {x.axis for x in at.looked}
    known = [i for i in at.inside if all(isinstance(a, Axis) and a not in looked for a, _ in i.expr.terms)]
    groups: list[list[Inside]] = []  # of masks that have axes in common
    for i in known:
        near = [g for g in groups if any(not m.expr.axes().isdisjoint(i.expr.axes()) for m in g)]
        groups = [*(g for g in groups if g not in near), [i, *(m for g in near for m in g)]]
    return math.prod(_share(g, sorted({a for m in g for a in m.expr.axes()}, key=lambda a: a.size)) for g in groups)


def _share(masks: Sequence[Inside], axes: Sequence[Axis]) -> float:
    """The share of masks that have axes in common: along the longest axis each one holds in an interval."""
    if not axes:
        return 1.0
    *others, longest = axes
    if any(a.size == 0 for a in axes) or math.prod(a.size for a in others) > MOST:
        return 1.0
    grid = np.meshgrid(*(np.arange(a.size) for a in others), indexing="ij") if others else []
    at: dict[Atom, np.ndarray] = dict(zip(others, grid, strict=True))
    first, end = np.asarray(0), np.asarray(longest.size)
    for i in masks:
        terms = dict(i.expr.terms)
        step = terms.pop(longest, 0)
        base = np.asarray(i.expr.const + sum(c * at[a] for a, c in terms.items()))
        low, high = (0 if i.low else -math.inf), (i.extent if i.high else math.inf)  # low <= base + step * x < high
        if step == 0:
            end = np.where((base >= low) & (base < high), end, 0)
            continue
        if step > 0:
            bounds = np.ceil((low - base) / step), np.ceil((high - base) / step)
        else:
            bounds = np.floor((high - base) / step) + 1, np.floor((low - base) / step) + 1
        first, end = np.maximum(first, bounds[0]), np.minimum(end, bounds[1])
    return float(np.mean(np.maximum(end - first, 0))) / longest.size
