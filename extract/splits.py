"""Which long reductions to offer for splitting over the grid: those whose results alone give too few programs to fill the device.

This only *offers* split forms to the e-graph; whether a split wins is the cost model's decision.
"""

from __future__ import annotations

import math

from ..ir.index import Axis
from ..ir.program import Program
from ..ir.terms import Reduce
from .baseline import is_contraction
from .targets import Target

SHORTEST_PART = 128  # elements of the axis that one part should at least have
TILE = 64  # rows or columns of a matrix product that one program would take


def propose_splits(program: Program, target: Target) -> dict[Axis, int]:
    """Axis -> number of parts, for the axes worth offering (at most one: the longest)."""
    terms = program.terms()
    # axes that belong to one side of a matrix product: one program takes a tile of them, of any other axis one position
    rows: set[Axis] = set()
    for t in terms:
        if is_contraction(t):
            left, right = (x.axes for x in t.args[0].args)
            rows |= left ^ right
    programs: dict[Axis, float] = {}
    for t in terms:
        if isinstance(t, Reduce) and t.axis in t.args[0].axes:
            count = float(math.prod(math.ceil(a.size / TILE) if a in rows else a.size for a in t.axes))
            programs[t.axis] = min(count, programs.get(t.axis, math.inf))
    offers = {
        axis: parts
        for axis, n in programs.items()
        if (parts := min(_floor_power(2 * target.sm_count / max(n, 1)), _floor_power(axis.size / SHORTEST_PART))) >= 2
        and n < target.sm_count
    }
    if not offers:
        return {}
    axis = max(offers, key=lambda a: (a.size, a.name))
    return {axis: offers[axis]}


def _floor_power(x: float) -> int:
    return 1 << max(0, int(math.log2(x))) if x >= 1 else 1
