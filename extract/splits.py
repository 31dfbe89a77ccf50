"""Which long reductions to offer for splitting over the grid: those whose results alone give too few programs to fill the device, or
so few that a last wave leaves much of it idle.  Of axes that are reduced together, none of them long, one is offered.

This only *offers* split forms to the e-graph, several for each axis; which of them wins, if any, is the cost model's decision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..ir.index import Axis
from ..ir.program import Program
from ..ir.strides import SECTOR_BYTES
from ..ir.terms import Map, Reduce, Scan, Term, View
from .grouping import divisors
from .layouts import in_memory
from .targets import Target

SHORTEST_PART = 128  # elements of the axis that one part should at least have
ON_CHIP = 8192  # elements that one program holds at a time without spilling registers, statistics of them included
TILE = 64  # rows or columns of a matrix product that one program would take
WIDE = 128  # columns, of one whose rows are made by another product: each program that takes some of the columns makes the rows again
FULL = 0.75  # a device of which so much works is not worth splitting for
FULLER = 0.8  # and this much should work when a reduction is split
AROUND = (1, 1 / 4, 4)  # numbers of parts that are offered, by the one that fills the device: fewer store less, smaller tiles want more
MOST_SPLITS = 6  # of a program, over all axes: each is a few dozen e-nodes, and two kernels to search
MOST_PARTS = 4096  # beyond which merging them takes longer than anything that they save
MOST_WAVES = 16  # programs per multiprocessor that a split may make in order to get there


def propose_splits(program: Program, target: Target) -> dict[Axis, tuple[int, ...]]:
    """Axis -> numbers of parts to choose from, for every axis worth offering, the one first that fills the device."""
    terms = program.terms()
    rows = _tiles(terms)
    # and of the neighbours in memory as many as fill a sector
    near: dict[Axis, int] = {}
    for i in program.inputs:
        if last := [a for a in in_memory(program, i) if a is not None][-1:]:
            near.setdefault(last[0], SECTOR_BYTES // i.dtype.itemsize)
    programs: dict[Axis, tuple[int, bool]] = {}
    for t in terms:
        if isinstance(t, Reduce | Scan) and any(t.axis in x.axes for x in t.args):
            beside = t.axes - {t.axis}
            count = math.prod(math.ceil(a.size / rows[t].get(a, near.get(a, 1))) for a in beside)
            programs[t.axis] = min((count, bool(rows[t])), programs.get(t.axis, (count, True)))
    wanted = {a: _parts(n, a.size, target.sm_count, tiled) for a, (n, tiled) in programs.items()}
    offers = {a: _around(parts, a.size) for a, parts in wanted.items() if parts >= 2}
    nests = [_nest(t) for t in terms]
    inside = {t for nest in nests for t in nest[1:]}
    for nest in nests:
        outermost = len(nest) > 1 and nest[0] not in inside and offers.keys().isdisjoint(t.axis for t in nest)
        if outermost and (found := _parts_of_nest(program, nest, target.sm_count)):
            axis, parts, least = found
            offers[axis] = _around(parts, axis.size, least)
    return _bounded(offers)


def _tiles(terms: Sequence[Term]) -> dict[Term, dict[Axis, int]]:
    """Of the products that a term is made of, how many positions of its axes one program takes: a tile of the rows and columns (the longest
    axis of each side, and others while there is room), and of an axis whose groups share an operand a group."""
    found: dict[Term, dict[Axis, int]] = {}
    groups: dict[Term, dict[Axis, int]] = {}  # axis -> how many positions of it read what a term is made of at one place
    for t in terms:
        groups[t] = {a: n for x in t.args for a, n in groups[x].items() if all(a in groups[y] for y in t.args if a in y.axes)}
        if isinstance(t, View):
            groups[t] |= {a: d if quotient else a.size // d for a, d, quotient in divisors(t.index)}
        found[t] = {a: n for x in t.args for a, n in found[x].items()}
        if not (isinstance(t, Reduce) and t.monoid == "sum" and isinstance(t.args[0], Map) and t.args[0].op == "mul"):
            continue
        x, y = t.args[0].args
        shared = [{a: n for a, n in groups[q].items() if a in p.axes and a not in groups[p]} for p, q in ((x, y), (y, x))]
        sides = (x.axes - y.axes, y.axes - x.axes)
        if t.axis not in x.axes & y.axes or not all(own or group for own, group in zip(sides, shared, strict=True)):
            continue
        for own, group, other in zip(sides, shared, (y, x), strict=True):
            room = WIDE if found[other] else TILE
            for a in sorted(own, key=lambda a: (a.size, a), reverse=True):
                found[t][a] = room
                room = max(1, room // max(a.size, 1))
            found[t] |= group
    return found


def _around(parts: int, size: int, least: int = 2) -> tuple[int, ...]:
    """Numbers of parts near one, itself first, and none below the ``least``."""
    most = max(parts, min(_floor_power(size / SHORTEST_PART), MOST_PARTS))
    wanted = (max(2, math.floor(parts * f)) for f in AROUND if parts * f <= most)
    return tuple(dict.fromkeys(n for w in wanted if (n := _even(w, size)) >= least or w == parts))


def _even(parts: int, size: int) -> int:
    """The number of equal parts that is nearest by its ratio, for uneven ones are read with masks; the number itself where none is near."""
    near = [n for n in range(math.ceil(parts / 2), 2 * parts + 1) if n >= 2 and size % n == 0 and n < size]
    return min(near, key=lambda n: (max(n / parts, parts / n), n), default=parts)


def _bounded(offers: Mapping[Axis, tuple[int, ...]]) -> dict[Axis, tuple[int, ...]]:
    """The first choices for every axis, the longest first, then the second ones, as many as a program may have."""
    order = sorted(offers, key=lambda a: (a.size, a), reverse=True)
    ranked = [(k, a) for k in range(len(AROUND)) for a in order if k < len(offers[a])][:MOST_SPLITS]
    return {a: offers[a][: sum(b == a for _, b in ranked)] for a in order if (0, a) in ranked}


def _nest(t: Term) -> list[Reduce]:
    """A reduction of reductions by the same monoid, over several axes, the last one first."""
    found: list[Reduce] = []
    while isinstance(t, Reduce) and t.axis in t.args[0].axes and (not found or t.monoid == found[0].monoid):
        found.append(t)
        t = t.args[0]
    return found


def _parts_of_nest(program: Program, nest: Sequence[Reduce], sms: int) -> tuple[Axis, int, int] | None:
    """Of axes that are reduced one after the other, the one to split, its number of parts, and the least number of which each part fits on
    chip: those that are reduced after it take one position per program.  A part fits on chip, fills its share of the device if that is
    possible, and has at least two positions of the axis; parts are equal where that makes them at most half as long."""
    axes = [t.axis for t in nest]
    if min(a.size for a in axes) < 1 or math.prod(a.size for a in axes) < 2 * SHORTEST_PART:
        return None
    whole = [i for i in program.inputs if {*axes} <= {*i.layout}]
    lanes = {a: SECTOR_BYTES // i.dtype.itemsize for i in whole for a in in_memory(program, i)[-1:]}
    programs = math.prod(math.ceil(a.size / lanes.get(a, 1)) for a in nest[0].axes)
    if not programs or (programs >= sms and busy(programs, sms) >= FULL):
        return None
    room = ON_CHIP // math.prod(min(lanes.get(a, 1), a.size) for a in nest[0].axes)
    for k, a in enumerate(axes):
        inner = math.prod(b.size for b in axes[k + 1 :])
        longest = min(a.size // 2, room // inner, max(a.size * programs // (2 * sms), math.ceil(SHORTEST_PART / inner)))
        if longest >= 2:
            equal = [n for n in range(math.ceil(longest / 2), longest + 1) if n >= 2 and a.size % n == 0]
            return a, math.ceil(a.size / max(equal, default=longest)), math.ceil(a.size * inner / room)
        programs *= a.size
    return None


def _parts(programs: float, size: int, sms: int, tiled: bool) -> int:
    """Parts of an axis of ``size`` whose reduction gives so many programs by itself; 1 leaves it whole.

    One to two waves, and more where these would leave a fifth of the device idle.  ``tiled``: programs are tiles of a matrix product,
    and may be made half as many by tiles of twice the size.
    """
    most = _floor_power(size / SHORTEST_PART)
    if most < 2 or (programs >= sms and busy(programs, sms) >= FULL):
        return 1
    parts = min(_floor_power(2 * sms / max(programs, 1)), most)
    if not tiled:
        return parts

    def filled(parts: int) -> float:
        return min(busy(programs * parts, sms), busy(math.ceil(programs / 2) * parts, sms))

    wanted = max(parts, 2)
    while filled(wanted) < FULLER and 2 * wanted <= most and 2 * wanted * programs <= MOST_WAVES * sms:
        wanted *= 2
    return wanted if filled(wanted) > filled(parts) else parts


def busy(programs: float, sms: int) -> float:
    """The share of the device that works, on average over the waves that so many programs take."""
    return programs / (math.ceil(programs / sms) * sms) if programs else 1.0


def _floor_power(x: float) -> int:
    return 1 << max(0, int(math.log2(x))) if x >= 1 else 1
