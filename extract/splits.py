"""Which long reductions to offer for splitting over the grid: those whose results alone give too few programs to fill the device, or
so few that a last wave leaves much of it idle.  Where several axes are reduced together, none of them long, one of them is offered.

This only *offers* split forms to the e-graph; whether a split wins is the cost model's decision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..ir.index import Axis
from ..ir.program import Program
from ..ir.terms import Reduce, Term
from .baseline import is_contraction
from .cost import SECTOR_BYTES
from .targets import Target

SHORTEST_PART = 128  # elements of the axis that one part should at least have
ON_CHIP = 8192  # elements that one program holds at a time without spilling registers, statistics of them included
TILE = 64  # rows or columns of a matrix product that one program would take
FULL = 0.75  # a device of which so much works is not worth splitting for
FULLER = 0.8  # and this much should work when a reduction is split
MOST_WAVES = 16  # programs per multiprocessor that a split may make in order to get there


def propose_splits(program: Program, target: Target) -> dict[Axis, int]:
    """Axis -> number of parts, for the axes worth offering (at most one: the longest)."""
    terms = program.terms()
    # axes that belong to one side of a matrix product: one program takes a tile of them, of any other axis one position
    rows: set[Axis] = set()
    for t in terms:
        if is_contraction(t):
            left, right = (x.axes for x in t.args[0].args)
            rows |= left ^ right
    # and of the neighbours in memory as many as fill a sector
    lanes = dict.fromkeys(rows, TILE)
    for i in program.inputs:
        if last := [a for a in i.layout if a is not None][-1:]:
            lanes.setdefault(last[0], SECTOR_BYTES // i.dtype.itemsize)
    programs: dict[Axis, float] = {}
    for t in terms:
        if isinstance(t, Reduce) and t.axis in t.args[0].axes:
            count = float(math.prod(math.ceil(a.size / lanes.get(a, 1)) for a in t.axes))
            programs[t.axis] = min(count, programs.get(t.axis, math.inf))
    offers = {a: parts for a, n in programs.items() if (parts := _parts(n, a.size, target.sm_count, bool(rows))) >= 2}
    if not offers and not rows:
        nests = [_nest(t) for t in terms]
        inside = {t for nest in nests for t in nest[1:]}
        outermost = [nest for nest in nests if len(nest) > 1 and nest[0] not in inside]
        offers = dict(found for nest in outermost if (found := _parts_of_nest(program, nest, target.sm_count)))
    if not offers:
        return {}
    axis = max(offers, key=lambda a: (a.size, a))
    return {axis: offers[axis]}


def _nest(t: Term) -> list[Reduce]:
    """A reduction of reductions by the same monoid, over several axes, the last one first."""
    found: list[Reduce] = []
    while isinstance(t, Reduce) and t.axis in t.args[0].axes and (not found or t.monoid == found[0].monoid):
        found.append(t)
        t = t.args[0]
    return found


def _parts_of_nest(program: Program, nest: Sequence[Reduce], sms: int) -> tuple[Axis, int] | None:
    """Of axes that are reduced one after the other, the one to split and its number of parts: those that are reduced after it take one
    position per program.  A part fits on chip, fills its share of the device if that is possible, and has at least two positions of the
    axis; parts are equal where that makes them at most half as long."""
    axes = [t.axis for t in nest]
    if min(a.size for a in axes) < 1 or math.prod(a.size for a in axes) < 2 * SHORTEST_PART:
        return None
    lanes = {i.layout[-1]: SECTOR_BYTES // i.dtype.itemsize for i in program.inputs if {*axes} <= {*i.layout}}
    programs = math.prod(math.ceil(a.size / lanes.get(a, 1)) for a in nest[0].axes)
    if not programs or (programs >= sms and _busy(programs, sms) >= FULL):
        return None
    room = ON_CHIP // math.prod(min(lanes.get(a, 1), a.size) for a in nest[0].axes)
    for k, a in enumerate(axes):
        inner = math.prod(b.size for b in axes[k + 1 :])
        longest = min(a.size // 2, room // inner, max(a.size * programs // (2 * sms), math.ceil(SHORTEST_PART / inner)))
        if longest >= 2:
            equal = [n for n in range(math.ceil(longest / 2), longest + 1) if n >= 2 and a.size % n == 0]
            return a, math.ceil(a.size / max(equal, default=longest))
        programs *= a.size
    return None


def _parts(programs: float, size: int, sms: int, tiled: bool) -> int:
    """Parts of an axis of ``size`` whose reduction gives so many programs by itself; 1 leaves it whole.

    One to two waves, and more where these would leave a fifth of the device idle.  ``tiled``: programs are tiles of a matrix product,
    and may be made half as many by tiles of twice the size.
    """
    if size < 2:
        return 1  # some part would be empty, and all parts of nothing are one value: where they are stored would be no question
    most = _floor_power(size / SHORTEST_PART)
    if programs >= sms and _busy(programs, sms) >= FULL:
        return 1
    parts = min(_floor_power(2 * sms / max(programs, 1)), most)
    if not tiled:
        return parts

    def busy(parts: int) -> float:
        return min(_busy(programs * parts, sms), _busy(math.ceil(programs / 2) * parts, sms))

    wanted = max(parts, 2)
    while busy(wanted) < FULLER and 2 * wanted <= most and 2 * wanted * programs <= MOST_WAVES * sms:
        wanted *= 2
    return wanted if busy(wanted) > busy(parts) else parts


def _busy(programs: float, sms: int) -> float:
    """The share of the device that works, on average over the waves that so many programs take."""
    return programs / (math.ceil(programs / sms) * sms) if programs else 1.0


def _floor_power(x: float) -> int:
    return 1 << max(0, int(math.log2(x))) if x >= 1 else 1
