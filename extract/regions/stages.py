"""Stages: what would have to be computed again and again, if it shared a kernel with what needs it, belongs to an earlier one.

A nest ``t`` conflicts with a nest ``x`` that one of its sides is made of if computing ``x`` for every tile of the axes that this side
does not have costs more than storing it and reading it back.  The stage of a nest is one more than that of those it conflicts with, and
no less than that of those it is made of.  So the products of a chain follow each other, and one whose own axis fits into a tile stays
with what it is made of.  A statistic conflicts with a product whose row it sums if every element of that row is needed once more
afterwards, as normalised rows are, and a row is longer than what a kernel holds.  No operation is known by its name.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ...ir.index import Axis
from ...ir.terms import Gather, Reduce, Term, View
from .work import Nest, Work, elements, stored_bytes

TILE = 128  # positions of an axis that one program holds beside a product: registers hold accumulators of 64x128 to 128x256
ROW = 256  # positions of an axis that one program may hold of a product, if it sums them
Read = Mapping[Term, frozenset[Axis]]  # value -> axes over which it is read; more positions than it has, where windows overlap
MOST_DEEP = 6  # products on top of each other that are planned together


@dataclass(frozen=True)
class Conflict:
    """Why two nests are in different stages: what computing the inner one ``times`` would take, and storing it."""

    outer: Term
    inner: Term
    times: float
    again_us: float
    stored_us: float


@dataclass(frozen=True)
class Stages:
    """The stage of every nest, of every term the latest one among what it is made of (-1: made of none), and the conflicts.  ``counted``:
    whether products are parted because there are many on top of each other, which no price says; ``deep``: the most that are not."""

    of: dict[Term, int]
    level: dict[Term, int]
    conflicts: tuple[Conflict, ...]
    counted: bool = False
    deep: int = 0


def stages(work: Work, most: int = MOST_DEEP) -> Stages:
    """The stages of a program, of which each has so many products on top of each other at most."""
    stage: dict[Term, int] = {}
    depth: dict[Term, int] = {}  # products on top of each other in its stage
    above: dict[Term, Read] = {}  # the nests that a term is made of and that no conflict parts from it
    conflicts: list[Conflict] = []
    parted: set[tuple[Term, Term]] = set()  # nests, and what they are made of in an earlier stage, for their number
    uses: dict[Term, int] = {}
    needed: list[Conflict] = []  # of statistics with the products that are needed again with them
    for t in work.terms:
        nest = work.nests.get(t)
        if nest is None:
            above[t] = _read(t, [above[a] for a in t.args])
            continue
        at, below = 0, dict[Term, frozenset[Axis]]()
        for side in nest.sides:
            for x, where in above[side].items():
                found = conflict(work, nest, side, work.nests[x], where)
                if found is not None:
                    conflicts.append(found)
                    at = max(at, stage[x] + 1)
                else:
                    at = max(at, stage[x])
            below |= above[side]
        again = _again(work, nest, [work.nests[x] for x in below], uses)
        needed += again
        at = max([at, *(stage[c.inner] + 1 for c in again)])
        same = [x for x in below if stage[x] == at]
        deep = max((depth[x] for x in same), default=0) + nest.product
        if deep > most:
            parted.update((t, x) for x in same)
            at, same, deep = at + 1, [], 1
        stage[t], depth[t] = at, deep
        above[t] = {t: t.axes, **{x: below[x] for x in same}}
    counted = bool(parted)
    _later(work, stage, above, parted | {(c.outer, c.inner) for c in conflicts}, {(c.outer, c.inner) for c in needed})
    level: dict[Term, int] = {}
    for t in work.terms:
        level[t] = stage[t] if t in stage else max((level[a] for a in t.args), default=-1)
    for t, nest in work.nests.items():  # the reductions inside a nest are nothing by themselves
        level.update((x, stage[t]) for x in nest.inner)
    return Stages(stage, level, (*conflicts, *needed), counted, max(depth.values(), default=0))


def _read(t: Term, args: Sequence[Read]) -> Read:
    """Where a term reads the nests that its arguments read.  At quotients and remainders of one axis, as rows of heads are, it reads each
    position of a part once: the part stays."""
    found: dict[Term, frozenset[Axis]] = {}
    moved: dict[Axis, frozenset[Axis]] = {}
    if isinstance(t, View) and not all(not isinstance(a, Axis) and len(a.numerator.axes()) == 1 for a, _ in t.index.terms):
        moved = {t.axis: t.index.axes()}
    elif isinstance(t, Gather):
        moved = {t.axis: t.args[1].axes}
    for k, read in enumerate(args):
        for x, axes in read.items():
            if k == 0:
                axes = frozenset[Axis]().union(*(moved.get(a, {a}) for a in axes))
            if x not in found or elements(axes) > elements(found[x]):
                found[x] = axes
    return found


def _later(
    work: Work, stage: dict[Term, int], above: Mapping[Term, Read], parted: Collection[tuple[Term, Term]],
    before: Collection[tuple[Term, Term]],
) -> None:  # fmt: skip
    """Products that are only needed later on are made there, if making them for each that needs them costs less than storing them;
    ``before``: in the stage before the one that needs them, where they are stored for it."""
    users: dict[Term, list[Term]] = {t: [] for t in work.nests}
    for t, nest in work.nests.items():
        for x in above[nest.body]:
            users[x].append(t)
    for t in reversed(list(work.nests)):
        nest = work.nests[t]
        if not nest.product or t in work.outputs or not users[t] or any((u, t) in parted for u in users[t]):
            continue
        at = min(stage[u] - ((u, t) in before) for u in users[t])
        times = 1 if any((u, t) in before for u in users[t]) else len(users[t])
        if at > stage[t] and times * work.us(nest, frozenset()) < work.move_us(2 * stored_bytes(t)) + work.target.launch_us:
            stage[t] = at


def _again(work: Work, nest: Nest, below: Collection[Nest], uses: dict[Term, int]) -> list[Conflict]:
    """The products, rows of which a statistic sums, that are needed in other ways, too, if computing them for each costs more than storing
    what is made of them."""
    rows = [x for x in below if x.product and elements(x.top.axes & nest.summed) > ROW] if not nest.product else []
    for x in rows:
        if x.top not in uses:
            uses[x.top] = _uses(work, x)
    rows = [x for x in rows if uses[x.top] > 1]
    us = sum((uses[x.top] - 1) * work.us(x, frozenset()) for x in rows)
    stored = work.move_us(2 * max((stored_bytes(x.top) for x in rows), default=0)) + work.target.launch_us
    return [Conflict(nest.top, x.top, uses[x.top], us, stored) for x in rows] if us > stored else []


def _uses(work: Work, product: Nest) -> int:
    """In how many ways a product is needed: by sums over different axes of it, and once more if something is made of it and of a statistic
    of its rows that is not summed along them: what is may be so in the same loop (:mod:`eqfuse.rewrites.repair`)."""
    made: dict[Term, None] = {}  # of the product by what is pointwise
    sums: dict[Term, frozenset[Axis]] = {}
    todo: list[Term] = [product.top]
    while todo:
        t = todo.pop()
        if t not in made:
            made[t] = None
            sums.update((u, own) for u in work.users[t] if u in work.nests and (own := work.nests[u].summed & product.top.axes))
            todo += [u for u in work.users[t] if not isinstance(u, Reduce)]
    above: dict[Term, frozenset[Term]] = {}  # the statistics that a term is made of
    for t in work.terms:
        own = frozenset([t]) if t in sums and not work.nests[t].product else frozenset()
        above[t] = own.union(*(above[a] for a in t.args))

    def again(t: Term) -> bool:
        rows = frozenset().union(*(sums[x] for x in above[t]))
        ends = t in work.outputs or any(not rows <= work.nests[u].summed for u in work.users[t] if u in work.nests)
        return bool(rows) and rows <= t.axes and ends

    return len({*sums.values()}) + any(map(again, made))


def conflict(work: Work, nest: Nest, side: Term, inner: Nest, where: Collection[Axis]) -> Conflict | None:
    """Whether computing ``inner``, of which a side of ``nest`` is made, again for every tile, and at every position ``where`` it is read,
    costs more than storing it."""
    lacking, whole = nest.top.axes - side.axes, nest.top.axes & inner.summed  # the latter: all of an axis for each tile of it
    times = math.ceil(elements(lacking | whole) / TILE) * max(1.0, elements(where) / max(elements(inner.top.axes), 1))
    if times <= 1:
        return None
    beside = frozenset() if inner.product else work.leaves(nest.body, inner.top)
    below = [x for x in work.leaves(inner.body) if x in work.nests and work.nests[x].product] if whole else []
    again = (times - 1) * max(work.us(inner, beside), sum(work.us(work.nests[x], frozenset()) for x in below))
    stored = work.move_us(2 * stored_bytes(inner.top)) + work.target.launch_us
    return Conflict(nest.top, inner.top, times, again, stored) if again > stored else None
