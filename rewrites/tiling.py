# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""Tiling: an axis in two parts.

A split axis j = jo * T + ji turns a reduction into a reduction of reductions.  Where T does not divide the extent, elements past
the end count as the identity.  Results of the parts are merged by the repair relation of kind ``loc``: if t at the whole
reference r is q times t at the part's own reference, then sum_jo sum_ji t(r) = sum_jo q * sum_ji t(part).  A part whose own
reference is the identity (nothing in it) merges with factor 1,
which is right because t vanishes there (``zero_where``), and a part that is zero stays zero whatever its factor: the reference may be NaN
because of elements that t does not choose.  The same split makes partial results private to their program.

Moments merge by another relation, ``shifted``: squares and products of data about their mean are a form of degree two in how far the
part's own mean is from that of the whole, with coefficients that the part can sum up.
"""

from __future__ import annotations

import math

from .language import *

FAMILY, PHASE = "tiling", "tiling"
LEAST = NumberLiteral(-math.inf)  # the identity of a maximum, which is what ``zero_where`` speaks of


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
def split_ragged_average(r, t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """mean_j t = (sum_jo sum_ji where(jo*T + ji < size(j), t[j = jo*T + ji], 0)) / size(j)."""
    inside = Map("lt", View(Index(j), j, e), Extent(j))
    body = Where(inside, View(t, j, e), 0.0)
    return (
        [match(r, Reduce("mean", j, t)), ragged(j, jo, ji, e), depends(t, j), free(t, jo), free(t, ji), NonEmpty(j)],
        [equal(r, Reduce("sum", jo, Reduce("sum", ji, body)) / Extent(j))],
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
def split_scan(
    r, t, g: AnyMonoid, o: Op2, z: Scalar, j: Axis, jo: Axis, ji: Axis, je: Axis, e: Position, b: Position, q: Position, m: Position
):
    """scan_j t = (sum_je where(je < jo, sum_ji t[j = je*T + ji], 0)) + scan_ji t[j = jo*T + ji], at jo = j // T and ji = j % T.

    What is past the end of the last part is in no sum of a part before another one, nor in a prefix that ends before it.
    """
    own = View(t, j, e)
    before = Reduce(g, je, Where(Map("lt", Index(je), Index(jo)), View(Reduce(g, ji, own), jo, b), Const(z)))
    return (
        [
            match(r, Scan(g, j, t)), steps(g, o, z), parts_before(j, jo, ji, je, e, b, q, m), depends(t, j), free(t, jo), free(t, ji),
            free(t, je), OtherAxis(je, j), OtherAxis(je, jo), OtherAxis(je, ji),
        ],
        [equal(r, View(View(Map(o, before, Scan(g, ji, own)), jo, q), ji, m))],
    )  # fmt: skip


def scan_in_parts(g, parts, neutral, xs, jo, ji, je, j, e, b):
    """A scan in parts: the state of all parts before one, then that of its own prefixes; those alone if it is the first."""
    own = [View(x, j, e) for x in xs]
    inside = Map("lt", Index(je), Index(jo))
    before = [Where(inside, View(Reduce(h, ji, *own), jo, b), Const(z)) for h, z in zip(parts, neutral, strict=True)]
    behind = Merge(g, *(Reduce(h, je, *before) for h in parts), *(Scan(h, ji, *own) for h in parts))
    return Where(Map("eq", Index(jo), Const(0.0)), Scan(g, ji, *own), behind)


def none_of(axes, xs):
    """What a scan in parts asks of its axes: values are free of the new ones, and none is another."""
    j, jo, ji, je = axes
    return [*(free(x, k) for x in xs for k in (jo, ji, je)), OtherAxis(je, j), OtherAxis(je, jo), OtherAxis(je, ji)]


@fact_rule(family=FAMILY, phase=PHASE)
def split_scan_of_pairs(
    r, x, y, g: PairMonoid, g0: PairMonoid, g1: PairMonoid, z0: Scalar, z1: Scalar,
    j: Axis, jo: Axis, ji: Axis, je: Axis, e: Position, b: Position, q: Position, m: Position,
):  # fmt: skip
    """The same for a state of two parts, behind which its neutral one changes nothing."""
    value = scan_in_parts(g, (g0, g1), (z0, z1), (x, y), jo, ji, je, j, e, b)
    return (
        [
            match(r, Scan(g, j, x, y)), pair(g, g0, g1), neutral(g0, z0), neutral(g1, z1), parts_before(j, jo, ji, je, e, b, q, m),
            *none_of((j, jo, ji, je), (x, y)),
        ],
        [equal(r, View(View(value, jo, q), ji, m))],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=PHASE)
def split_scan_of_triples(
    r, x, y, u, g: TripleMonoid, g0: TripleMonoid, g1: TripleMonoid, g2: TripleMonoid, z0: Scalar, z1: Scalar, z2: Scalar,
    j: Axis, jo: Axis, ji: Axis, je: Axis, e: Position, b: Position, q: Position, m: Position,
):  # fmt: skip
    """And of three."""
    value = scan_in_parts(g, (g0, g1, g2), (z0, z1, z2), (x, y, u), jo, ji, je, j, e, b)
    return (
        [
            match(r, Scan(g, j, x, y, u)), triple(g, g0, g1, g2), neutral(g0, z0), neutral(g1, z1), neutral(g2, z2),
            parts_before(j, jo, ji, je, e, b, q, m), *none_of((j, jo, ji, je), (x, y, u)),
        ],
        [equal(r, View(View(value, jo, q), ji, m))],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=PHASE)
def split_reduction_of_pairs(r, x, y, g: PairMonoid, g0: PairMonoid, g1: PairMonoid, j: Axis, jo: Axis, ji: Axis, e: Position):
    """What a state is reduced to, part by part of an axis, where all parts are as long."""
    own = (View(x, j, e), View(y, j, e))
    return (
        [match(r, Reduce(g, j, x, y)), pair(g, g0, g1), split(j, jo, ji, e), *(free(t, k) for t in (x, y) for k in (jo, ji))],
        [equal(r, Reduce(g, jo, *(Reduce(h, ji, *own) for h in (g0, g1))))],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def split_ragged_reduction_of_pairs(
    r, x, y, g: PairMonoid, g0: PairMonoid, g1: PairMonoid, z0: Scalar, z1: Scalar, j: Axis, jo: Axis, ji: Axis, e: Position
):
    """And where the last one is shorter: it has neutral elements at its end."""
    inside = Map("lt", View(Index(j), j, e), Extent(j))
    own = [Where(inside, View(t, j, e), Const(z)) for t, z in ((x, z0), (y, z1))]
    return (
        [
            match(r, Reduce(g, j, x, y)), pair(g, g0, g1), neutral(g0, z0), neutral(g1, z1), ragged(j, jo, ji, e),
            *(free(t, k) for t in (x, y) for k in (jo, ji)),
        ],
        [equal(r, Reduce(g, jo, *(Reduce(h, ji, *own) for h in (g0, g1))))],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=PHASE)
def local_selection(r, p, s, g: SelectiveMonoid, z: Scalar, jo: Axis, ji: Axis):
    """r = p + (r - p) for the part's own maximum p (0 where the part is empty)."""
    safe = Where(Map("eq", p, Const(z)), 0.0, p)
    return (
        [match(r, Reduce(g, jo, p)), match(p, Reduce(g, ji, s)), part(jo, ji), selective(g, z), needs_repair(r, ji)],
        [changes_by_term("loc", ji, r, r, safe, r - safe)],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def local_choice(t, c, r, p, s, a: Scalar, g: SelectiveMonoid, z: Scalar, jo: Axis, ji: Axis):
    """t = p + (t - p) for a guarded maximum t = where(c, a, r) as well: any value may be counted from the part's own maximum."""
    safe = Where(Map("eq", p, Const(z)), 0.0, p)
    return (
        [
            match(t, Where(c, Const(a), r)), match(r, Reduce(g, jo, p)), match(p, Reduce(g, ji, s)), part(jo, ji),
            selective(g, z), needs_repair(t, ji), finite_or(s, z),
        ],
        [changes_by_term("loc", ji, t, r, safe, t - safe)],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=PHASE)
def local_positive(r, p, s, g: LinearMonoid, jo: Axis, ji: Axis):
    """r = p * (r / p) for the part's own sum p of positive values."""
    return (
        [match(r, Reduce(g, jo, p)), match(p, Reduce(g, ji, s)), part(jo, ji), linear(g), needs_repair(r, ji), positive(p)],
        [changes_by_factor("loc", ji, r, r, p, r / p)],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def merge_selection_parts(e, u, t, r, p, tl, q, g: LinearMonoid, h: SelectiveMonoid, jo: Axis, ji: Axis):
    """sum_jo sum_ji t = sum_jo q * sum_ji t(part), q free of ji; factor 1 where the part's maximum is the identity."""
    factor, local = Where(Map("eq", p, Const(LEAST)), 1.0, q), Reduce(g, ji, tl)
    return (
        [
            match(e, Reduce(g, jo, u)), match(u, Reduce(g, ji, t)), part(jo, ji), linear(g),
            changes_by_factor("loc", ji, t, r, tl, q), free(q, ji), match(r, Reduce(h, jo, p)), selective(h, LEAST),
            free(p, ji), zero_where(tl, p, Const(1.0)),
        ],
        [equal(e, Reduce(g, jo, Where(Map("eq", local, Const(0.0)), 0.0, factor * local)))],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=PHASE)
def merge_positive_parts(e, u, t, r, p, tl, q, g: LinearMonoid, h: LinearMonoid, jo: Axis, ji: Axis):
    """sum_jo sum_ji t = sum_jo q * sum_ji t(part), q free of ji, for a reference that is a sum of positive parts.  Zero stays zero."""
    local = Reduce(g, ji, tl)
    return (
        [
            match(e, Reduce(g, jo, u)), match(u, Reduce(g, ji, t)), part(jo, ji), linear(g),
            changes_by_factor("loc", ji, t, r, tl, q), free(q, ji), match(r, Reduce(h, jo, p)), linear(h), positive(p), free(p, ji),
        ],
        [equal(e, Reduce(g, jo, Where(Map("eq", local, Const(0.0)), 0.0, q * local)))],
    )  # fmt: skip


# moments -------------------------------------------------------------------------------------------------------------------------
#
# (x - r)^2 needs the mean r of the whole axis, which no part knows.  With u = x - p and v = y - q for the means p and q of a part, and
# d = p - r, e = q - s, it is (x-r)(y-s) = uv + d v + e u + d e: a form in d and e whose coefficients a part can sum up.  Nothing
# cancels, and the equation holds for any p and q: the sums of u and v are what rounding left of them, and make up for it.


@fact_rule(family=FAMILY, phase=PHASE)
def square_wants_means(t, x, f, jo: Axis, ji: Axis):
    """(x+f)^2, with an f that no part knows, asks for means of x."""
    return [match(t, Map("square", x + f)), part(jo, ji), later(f, jo)], [counted_from(x, x)]


@fact_rule(family=FAMILY, phase=PHASE)
def product_wants_means(t, v, w, x, y, f, h, jo: Axis, ji: Axis):
    """(x+f)(y+h), with f and h that no part knows, asks for means of x and y."""
    return (
        [match(t, v * w), match(v, x + f), match(w, y + h), distinct(v, w), part(jo, ji), later(f, jo), later(h, jo)],
        [counted_from(x, x), counted_from(y, y)],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def near_mean(p, q, x, k: Axis):
    """Over one axis or several."""
    return [counted_from(x, p), match(q, Reduce("mean", k, p))], [counted_from(x, q)]


@fact_rule(family=FAMILY, phase=PHASE)
def spoilt_by_part(r, x, p, jo: Axis, ji: Axis):
    """Infinite values of a part show in the mean over the parts."""
    return [counted_from(x, p), match(r, Reduce("mean", jo, p)), part(jo, ji), free(p, ji), NonEmpty(jo)], [spoils(r, p)]


@fact_rule(family=FAMILY, phase=PHASE)
def spoilt_mean(r, q, p, k: Axis):
    """And in the mean over other axes, which is taken later."""
    return [spoils(q, p), match(r, Reduce("mean", k, q)), NonEmpty(k)], [spoils(r, p)]


@fact_rule(family=FAMILY, phase=PHASE)
def offset_from_mean(v, x, p, r, jo: Axis, ji: Axis):
    """x - r = (x-p) + (p-r) for the mean p of a part, and the mean r of all."""
    return (
        [counted_from(x, p), spoils(r, p), match(v, x - r), part(jo, ji), free(p, ji), later(r, jo)],
        [offset(v, p - r, x - p)],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def part_that_ends(h, j: Axis, jo: Axis, ji: Axis, e: Position):
    """What chooses the elements of a part that may be shorter."""
    return [match(h, Map("lt", View(Index(j), j, e), Extent(j))), ragged(j, jo, ji, e)], [before_end(h, jo, ji)]


@fact_rule(family=FAMILY, phase=PHASE)
def spoilt_by_shorter_part(x, h, q, s, w, r, j: Axis, jo: Axis, ji: Axis):
    """Infinite sums of parts show in their sum, and in the mean that this is divided for."""
    return (
        [
            counted_from(x, q), before_end(h, jo, ji), match(s, Reduce("sum", ji, Where(h, q, 0.0))), match(w, Reduce("sum", jo, s)),
            match(r, w / Extent(j)), NonEmpty(jo), NonEmpty(j),
        ],
        [spoils(r, s)],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=PHASE)
def offset_from_shorter_mean(v, x, h, q, s, r, jo: Axis, ji: Axis):
    """The same for the mean p of what is in a part that may be shorter: a result of the part as well, to be stored as it was rounded."""
    p = s / Map("maximum", Reduce("sum", ji, Where(h, 1.0, 0.0)), 1.0)
    return (
        [
            counted_from(x, q), before_end(h, jo, ji), match(s, Reduce("sum", ji, Where(h, q, 0.0))), spoils(r, s),
            match(v, x - r), later(r, jo), NonEmpty(ji),
        ],
        [offset(v, p - r, x - p), equal(p, Reduce("mean", ji, p))],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=PHASE)
def square_of_offset(t, v, d, u):
    """(u+d)^2 = u^2 + d u + d u + d^2."""
    return [match(t, Map("square", v)), offset(v, d, u)], [shifted(t, d, d, Map("square", u), u, u, Const(1.0))]


@fact_rule(family=FAMILY, phase=PHASE)
def product_of_offsets(t, v, w, d, e, a, b):
    """(a+d)(b+e) = ab + d b + e a + d e."""
    return [match(t, v * w), offset(v, d, a), offset(w, e, b), distinct(v, w)], [shifted(t, d, e, a * b, b, a, Const(1.0))]


@fact_rule(family=FAMILY, phase=PHASE)
def shifted_and_summed(s, t, d, e, a, b, c, n, g: LinearMonoid, k: Axis):
    """sum_k (a + d b + e c + d e n) = sum_k a + d sum_k b + e sum_k c + d e sum_k n, for d and e free of k."""
    return (
        [shifted(t, d, e, a, b, c, n), match(s, Reduce(g, k, t)), linear(g), free(d, k), free(e, k), NonEmpty(k)],
        [shifted(s, d, e, Reduce(g, k, a), Reduce(g, k, b), Reduce(g, k, c), Reduce(g, k, n))],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def shifted_before_the_end(s, t, d, e, a, b, c, n, h, jo: Axis, ji: Axis):
    """The same for a sum of what h chooses, with d = e = 0 where that is nothing."""
    nothing = Map("eq", Reduce("sum", ji, Where(h, 1.0, 0.0)), Const(0.0))
    sums = (Reduce("sum", ji, Where(h, x, 0.0)) for x in (a, b, c, n))
    return (
        [shifted(t, d, e, a, b, c, n), before_end(h, jo, ji), match(s, Reduce("sum", ji, Where(h, t, 0.0))), free(d, ji), free(e, ji)],
        [shifted(s, Where(nothing, 0.0, d), Where(nothing, 0.0, e), *sums)],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def merge_shifted(r, t, d, e, a, b, c, n, g: LinearMonoid, jo: Axis, ji: Axis):
    """sum_jo t = sum_jo (a + d b + e (c + d n)), where parts know a, b, c and n."""
    return (
        [match(r, Reduce(g, jo, t)), linear(g), shifted(t, d, e, a, b, c, n), free(a, ji), part(jo, ji)],
        [equal(r, Reduce(g, jo, a + d * b + e * (c + d * n)))],
    )
