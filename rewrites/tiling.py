# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""Tiling: an axis in two parts.

A split axis j = jo * T + ji turns a reduction into a reduction of reductions.  Where T does not divide the extent, elements past
the end count as the identity.  Results of the parts are merged by the repair relation of kind ``loc``: if t at the whole
reference r is q times t at the part's own reference, then sum_jo sum_ji t(r) = sum_jo q * sum_ji t(part).  A part whose own
reference is the identity (nothing in it) merges with factor 1,
which is right because t vanishes there (``gone``), and a part that is zero stays zero whatever its factor: the reference may be NaN
because of elements that t does not choose.  The same split makes partial results private to their program.
"""

from __future__ import annotations

import math

from .facts import (
    depends,
    equal,
    finite_or,
    free,
    gone,
    hot,
    linear,
    match,
    part,
    positive,
    radd,
    ragged,
    rmul,
    selective,
    split,
)
from .patterns import Const, Extent, Index, Map, NumberLiteral, Reduce, View, Where
from .rule import AnyMonoid, Axis, LinearMonoid, Position, Scalar, SelectiveMonoid, fact_rule

FAMILY, PHASE = "tiling", "tiling"
LEAST = NumberLiteral(-math.inf)  # the identity of a maximum, which is what ``gone`` speaks of


@fact_rule(family=FAMILY, phase=PHASE)
def split_reduction(r, t, g: AnyMonoid, j: Axis, jo: Axis, ji: Axis, e: Position):
    """sum_j t = sum_jo sum_ji t[j = jo*T + ji]; so for every monoid."""
    return (
        [match(r, Reduce(g, j, t)), split(j, jo, ji, e), depends(t, j), free(t, jo), free(t, ji)],
        [equal(r, Reduce(g, jo, Reduce(g, ji, View(t, j, e))))],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def split_ragged_sum(r, t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """sum_j t = sum_jo sum_ji where(jo*T + ji < size(j), t[j = jo*T + ji], 0)."""
    inside = Map("lt", View(Index(j), j, e), Extent(j))
    body = Where(inside, View(t, j, e), 0.0)
    return (
        [match(r, Reduce("sum", j, t)), ragged(j, jo, ji, e), depends(t, j), free(t, jo), free(t, ji)],
        [equal(r, Reduce("sum", jo, Reduce("sum", ji, body)))],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def split_ragged_selection(r, t, g: SelectiveMonoid, z: Scalar, j: Axis, jo: Axis, ji: Axis, e: Position):
    """max_j t = max_jo max_ji where(jo*T + ji < size(j), t[j = jo*T + ji], -inf); so for min with +inf."""
    inside = Map("lt", View(Index(j), j, e), Extent(j))
    body = Where(inside, View(t, j, e), Const(z))
    return (
        [match(r, Reduce(g, j, t)), selective(g, z), ragged(j, jo, ji, e), depends(t, j), free(t, jo), free(t, ji)],
        [equal(r, Reduce(g, jo, Reduce(g, ji, body)))],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def local_selection(r, p, s, g: SelectiveMonoid, z: Scalar, jo: Axis, ji: Axis):
    """r = p + (r - p) for the part's own maximum p (0 where the part is empty)."""
    safe = Where(Map("eq", p, Const(z)), 0.0, p)
    return (
        [match(r, Reduce(g, jo, p)), match(p, Reduce(g, ji, s)), part(jo, ji), selective(g, z), hot(r, ji)],
        [radd("loc", ji, r, r, safe, r - safe)],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def local_choice(t, c, r, p, s, a: Scalar, g: SelectiveMonoid, z: Scalar, jo: Axis, ji: Axis):
    """t = p + (t - p) for a guarded maximum t = where(c, a, r) as well: any value may be counted from the part's own maximum."""
    safe = Where(Map("eq", p, Const(z)), 0.0, p)
    return (
        [
            match(t, Where(c, Const(a), r)), match(r, Reduce(g, jo, p)), match(p, Reduce(g, ji, s)), part(jo, ji),
            selective(g, z), hot(t, ji), finite_or(s, z),
        ],
        [radd("loc", ji, t, r, safe, t - safe)],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=PHASE)
def local_positive(r, p, s, g: LinearMonoid, jo: Axis, ji: Axis):
    """r = p * (r / p) for the part's own sum p of positive values."""
    return (
        [match(r, Reduce(g, jo, p)), match(p, Reduce(g, ji, s)), part(jo, ji), linear(g), hot(r, ji), positive(p)],
        [rmul("loc", ji, r, r, p, r / p)],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def merge_selection_parts(e, u, t, r, p, tl, q, g: LinearMonoid, h: SelectiveMonoid, jo: Axis, ji: Axis):
    """sum_jo sum_ji t = sum_jo q * sum_ji t(part), q free of ji; factor 1 where the part's maximum is the identity."""
    factor, local = Where(Map("eq", p, Const(LEAST)), 1.0, q), Reduce(g, ji, tl)
    return (
        [
            match(e, Reduce(g, jo, u)), match(u, Reduce(g, ji, t)), part(jo, ji), linear(g),
            rmul("loc", ji, t, r, tl, q), free(q, ji), match(r, Reduce(h, jo, p)), selective(h, LEAST),
            free(p, ji), gone(tl, p, Const(1.0)),
        ],
        [equal(e, Reduce(g, jo, Where(Map("eq", local, Const(0.0)), 0.0, factor * local)))],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=PHASE)
def merge_positive_parts(e, u, t, r, p, tl, q, g: LinearMonoid, h: LinearMonoid, jo: Axis, ji: Axis):
    """sum_jo sum_ji t = sum_jo q * sum_ji t(part), q free of ji, for a reference that is a sum of positive parts."""
    return (
        [
            match(e, Reduce(g, jo, u)), match(u, Reduce(g, ji, t)), part(jo, ji), linear(g),
            rmul("loc", ji, t, r, tl, q), free(q, ji), match(r, Reduce(h, jo, p)), linear(h), positive(p), free(p, ji),
        ],
        [equal(e, Reduce(g, jo, q * Reduce(g, ji, tl)))],
    )  # fmt: skip
