"""Broken tiling: elements past the end, elements twice, and parts that are merged at the wrong reference."""

import math

import numpy as np

from eqfuse.ir.build import (
    abs_,
    axes,
    exp,
    iota,
    le,
    maximum,
    maximum_over,
    mean_over,
    program,
    running_sum,
    select,
    square,
    sum_over,
    tanh,
    tensor,
)
from eqfuse.ir.terms import Reduce as ReduceTerm
from eqfuse.ir.terms import Scan as ScanTerm
from eqfuse.rewrites.facts import NonEmpty, OtherAxis, depends, distinct, equal, free, later, match, positive
from eqfuse.rewrites.patterns import Const, Extent, Index, Map, Merge, Reduce, Scan, View, Where
from eqfuse.rewrites.relations import (
    changes_by_factor,
    changes_by_term,
    counted_from,
    linear,
    needs_repair,
    neutral,
    offset,
    pair,
    part,
    parts_before,
    ragged,
    selective,
    shifted,
    split,
    spoils,
    steps,
    zero_where,
)
from eqfuse.rewrites.rule import AnyMonoid, Axis, LinearMonoid, Op2, PairMonoid, Position, Scalar, SelectiveMonoid

from . import close, mutant

i, j, d = axes(i=3, j=12, d=2)
(r_,) = axes(j=11)
five = np.array([1.0, 2, 3, 4, 5])  # five elements in two parts of three: the last place is past the end, and reads the fifth again
clipped = five[[[0, 1, 2], [3, 4, 4]]]
below = np.array([[0, 1, 2], [3, 4, 5]]) < 5


def rows(axis, term):
    """A program that reduces over a splittable axis."""
    return lambda: program("rows", y=(term(tensor("x", i, axis)), (i,)))


def weighted(axis, masked=False):
    """A sum of exponentials at their maximum, which parts merge by a factor."""

    def make():
        x = tensor("x", i, axis)
        x = select(le(iota(axis), iota(i) * 5), x, -math.inf) if masked else x
        p = exp(x - maximum_over(axis, x))
        return program("weighted", y=(sum_over(axis, p * tensor("v", axis, d)), (i, d)))

    return make


def scaled():
    """A sum of values divided by their positive sum, which parts merge by a factor."""
    x = exp(tanh(tensor("x", i, j)))
    return program("scaled", y=(sum_over(j, x / sum_over(j, x) * tensor("v", j)), (i,)))


def sparse():
    """The same with values that may be zero, all of them in a part."""
    x = maximum(tensor("x", i, j), 0.0)
    return program("sparse", y=(sum_over(j, x / sum_over(j, x) * tensor("v", j)), (i,)))


def foreign():
    """A sum of exponentials at the maximum of other values, in some parts of which there is nothing."""
    x = select(le(iota(j), iota(i) * 5), tensor("x", i, j), -math.inf)
    return program("foreign", y=(sum_over(j, exp(tensor("y", i, j) - maximum_over(j, x)) * tensor("v", j, d)), (i, d)))


def homonym():
    """A program with an axis that is called as the outer part of j is, and as long."""
    (jo,) = axes(j_o=3)
    return program("homonym", y=(sum_over(j, tensor("x", i, j) * tensor("w", j, jo)), (i, jo)))


@mutant("split_reduction", "term lost", lambda: (True, close(np.sum(five[:4]), np.sum(np.repeat(five[:4, None, None], 2, 1).repeat(2, 2)))), rows(j, lambda x: sum_over(j, x)), splits={"j": 3})
def split_without_view(r, t, g: AnyMonoid, j: Axis, jo: Axis, ji: Axis, e: Position):
    """sum_j t = sum_jo sum_ji t: nobody reads t at the part's place."""
    return (
        [match(r, Reduce(g, j, t)), split(j, jo, ji, e), depends(t, j), free(t, jo), free(t, ji)],
        [equal(r, Reduce(g, jo, Reduce(g, ji, t)))],
    )


@mutant("split_reduction", "off by one", lambda: (True, close(np.sum(five), np.sum(clipped))), rows(r_, lambda x: sum_over(r_, x)), splits={"j": 3})
def split_ragged_without_mask(r, t, g: AnyMonoid, j: Axis, jo: Axis, ji: Axis, e: Position):
    """sum_j t = sum_jo sum_ji t[j = jo*T + ji], also where T does not divide: the last element is read twice."""
    return (
        [match(r, Reduce(g, j, t)), ragged(j, jo, ji, e), depends(t, j), free(t, jo), free(t, ji)],
        [equal(r, Reduce(g, jo, Reduce(g, ji, View(t, j, e))))],
    )


@mutant("split_reduction", "monoid", lambda: (True, close(np.max(five[:4]), np.sum(np.max(five[:4].reshape(2, 2), 1)))), rows(j, lambda x: maximum_over(j, x)), splits={"j": 3})
def split_merged_by_sum(r, t, g: AnyMonoid, j: Axis, jo: Axis, ji: Axis, e: Position):
    """max_j t = sum_jo max_ji t[j = jo*T + ji]."""
    return (
        [match(r, Reduce(g, j, t)), split(j, jo, ji, e), depends(t, j), free(t, jo), free(t, ji)],
        [equal(r, Reduce("sum", jo, Reduce(g, ji, View(t, j, e))))],
    )


@mutant("split_reduction", "free missing", lambda: (True, close(np.sum(five[:2, None] * five[:2], 0), np.sum(five[:2] * five[:2]))), homonym, splits={"j": 3})
def split_captures_part(r, t, g: AnyMonoid, j: Axis, jo: Axis, ji: Axis, e: Position):
    """sum_j t = sum_jo sum_ji t[j = jo*T + ji], also for a t that already depends on jo."""
    return (
        [match(r, Reduce(g, j, t)), split(j, jo, ji, e), depends(t, j), free(t, ji)],
        [equal(r, Reduce(g, jo, Reduce(g, ji, View(t, j, e))))],
    )


@mutant("split_ragged_sum", "off by one", lambda: (True, close(np.sum(five), np.sum(np.where(np.array([[0, 1, 2], [3, 4, 5]]) <= 5, clipped, 0)))), rows(r_, lambda x: sum_over(r_, x)), splits={"j": 3})
def split_ragged_by_one_more(r, t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """sum_j t = sum_jo sum_ji where(jo*T + ji <= size(j), ...): one element too many."""
    inside = Map("le", View(Index(j), j, e), Extent(j))
    return (
        [match(r, Reduce("sum", j, t)), ragged(j, jo, ji, e), depends(t, j), free(t, jo), free(t, ji)],
        [equal(r, Reduce("sum", jo, Reduce("sum", ji, Where(inside, View(t, j, e), 0.0))))],
    )


@mutant("split_ragged_sum", "off by one", lambda: (True, close(np.sum(five), np.sum(np.where(np.array([[0, 1, 2], [3, 4, 5]]) < 5 - 1, clipped, 0)))), rows(r_, lambda x: sum_over(r_, x)), splits={"j": 3})
def split_ragged_by_one_less(r, t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """sum_j t = sum_jo sum_ji where(jo*T + ji < size(j) - 1, ...): the last element is lost."""
    inside = Map("lt", View(Index(j), j, e), Extent(j) + -1.0)
    return (
        [match(r, Reduce("sum", j, t)), ragged(j, jo, ji, e), depends(t, j), free(t, jo), free(t, ji)],
        [equal(r, Reduce("sum", jo, Reduce("sum", ji, Where(inside, View(t, j, e), 0.0))))],
    )


@mutant("split_ragged_sum", "count lost", lambda: (True, close(np.mean(five), np.mean(np.mean(np.where(below, clipped, 0), 1)))), rows(r_, lambda x: mean_over(r_, x)), splits={"j": 3})
def split_ragged_mean(r, t, g: LinearMonoid, j: Axis, jo: Axis, ji: Axis, e: Position):
    """mean_j t = mean_jo mean_ji where(jo*T + ji < size(j), ..., 0): the places past the end are counted."""
    inside = Map("lt", View(Index(j), j, e), Extent(j))
    return (
        [match(r, Reduce(g, j, t)), linear(g), ragged(j, jo, ji, e), depends(t, j), free(t, jo), free(t, ji)],
        [equal(r, Reduce(g, jo, Reduce(g, ji, Where(inside, View(t, j, e), 0.0))))],
    )


@mutant("split_ragged_selection", "identity", lambda: (True, close(np.max(-five), np.max(np.where(below, -clipped, 0)))), rows(r_, lambda x: maximum_over(r_, -abs_(x))), splits={"j": 3})
def split_ragged_maximum_with_zero(r, t, g: SelectiveMonoid, z: Scalar, j: Axis, jo: Axis, ji: Axis, e: Position):
    """max_j t = max_jo max_ji where(jo*T + ji < size(j), ..., 0): the identity of a sum."""
    inside = Map("lt", View(Index(j), j, e), Extent(j))
    return (
        [match(r, Reduce(g, j, t)), selective(g, z), ragged(j, jo, ji, e), depends(t, j), free(t, jo), free(t, ji)],
        [equal(r, Reduce(g, jo, Reduce(g, ji, Where(inside, View(t, j, e), 0.0))))],
    )


@mutant("split_ragged_selection", "identity", lambda: (True, close(np.min(five), np.min(np.where(below, clipped, -np.inf)))), rows(r_, lambda x: maximum_over(r_, x)), splits={"j": 3})
def split_ragged_with_the_other_identity(r, t, g: SelectiveMonoid, z: Scalar, j: Axis, jo: Axis, ji: Axis, e: Position):
    """min_j t = min_jo min_ji where(jo*T + ji < size(j), ..., -inf): the identity of the other end."""
    inside = Map("lt", View(Index(j), j, e), Extent(j))
    return (
        [match(r, Reduce(g, j, t)), selective(g, z), ragged(j, jo, ji, e), depends(t, j), free(t, jo), free(t, ji)],
        [equal(r, Reduce(g, jo, Reduce(g, ji, Where(inside, View(t, j, e), Const(-z)))))],
    )


@mutant("local_selection", "old and new swapped", lambda: (True, close(7.0, 3.0 + (3.0 - 7))), weighted(j), splits={"j": 3})
def local_selection_backwards(r, p, s, g: SelectiveMonoid, z: Scalar, jo: Axis, ji: Axis):
    """r = p + (p - r)."""
    safe = Where(Map("eq", p, Const(z)), 0.0, p)
    return (
        [match(r, Reduce(g, jo, p)), match(p, Reduce(g, ji, s)), part(jo, ji), selective(g, z), needs_repair(r, ji)],
        [changes_by_term("loc", ji, r, r, safe, safe - r)],
    )


NEGINF = -np.inf


@mutant("local_selection", "identity", lambda: (True, close(np.exp(-np.inf - 0.0), np.exp(np.float64(NEGINF) - NEGINF))), weighted(j, masked=True), splits={"j": 3})
def local_selection_of_nothing(r, p, s, g: SelectiveMonoid, z: Scalar, jo: Axis, ji: Axis):
    """r = p + (r - p) also where the part is empty: -inf - -inf is NaN, and so is every exponential of that part."""
    return (
        [match(r, Reduce(g, jo, p)), match(p, Reduce(g, ji, s)), part(jo, ji), selective(g, z), needs_repair(r, ji)],
        [changes_by_term("loc", ji, r, r, p, r - p)],
    )


@mutant("local_positive", "old and new swapped", lambda: (True, close(7.0, 3.0 * (3.0 / 7))), scaled, splits={"j": 3})
def local_positive_backwards(r, p, s, g: LinearMonoid, jo: Axis, ji: Axis):
    """r = p * (p / r)."""
    return (
        [match(r, Reduce(g, jo, p)), match(p, Reduce(g, ji, s)), part(jo, ji), linear(g), needs_repair(r, ji), positive(p), positive(r)],
        [changes_by_factor("loc", ji, r, r, p, p / r)],
    )


@mutant("local_positive", "sign guard", lambda: (True, close(np.sum([0.0, 3]), 0.0 * (np.float64(3) / 0))), sparse, splits={"j": 3})
def local_factor_of_any_sum(r, p, s, g: LinearMonoid, jo: Axis, ji: Axis):
    """r = p * (r / p) also where p is 0."""
    return (
        [match(r, Reduce(g, jo, p)), match(p, Reduce(g, ji, s)), part(jo, ji), linear(g), needs_repair(r, ji)],
        [changes_by_factor("loc", ji, r, r, p, r / p)],
    )


q_ = np.array([2.0, 3])
tl_ = np.array([5.0, 7])


@mutant("merge_selection_parts", "free missing", lambda: (True, close(np.sum(tl_ * q_), q_ * np.sum(tl_))), weighted(j), splits={"j": 3}, why="every factor that the rules derive is made of references, and free of the axis")
def merge_by_any_factor(e, u, t, r, p, tl, q, g: LinearMonoid, h: SelectiveMonoid, z: Scalar, jo: Axis, ji: Axis):
    """sum_jo sum_ji t = sum_jo q * sum_ji t(part), also for a q that depends on ji."""
    factor, local = Where(Map("eq", p, Const(z)), 1.0, q), Reduce(g, ji, tl)
    return (
        [
            match(e, Reduce(g, jo, u)), match(u, Reduce(g, ji, t)), part(jo, ji), linear(g),
            changes_by_factor("loc", ji, t, r, tl, q), match(r, Reduce(h, jo, p)), selective(h, z),
            free(p, ji), zero_where(tl, p, Const(1.0)),
        ],
        [equal(e, Reduce(g, jo, Where(Map("eq", local, Const(0.0)), 0.0, factor * local)))],
    )  # fmt: skip


@mutant("merge_selection_parts", "condition dropped", lambda: (True, close(np.sum(5.0 * 2), 1.0 * np.sum(5.0))), foreign, splits={"j": 3})
def merge_what_is_not_gone(e, u, t, r, p, tl, q, g: LinearMonoid, h: SelectiveMonoid, z: Scalar, jo: Axis, ji: Axis):
    """Factor 1 for a part that has seen nothing, although t does not vanish there."""
    factor, local = Where(Map("eq", p, Const(z)), 1.0, q), Reduce(g, ji, tl)
    return (
        [
            match(e, Reduce(g, jo, u)), match(u, Reduce(g, ji, t)), part(jo, ji), linear(g),
            changes_by_factor("loc", ji, t, r, tl, q), free(q, ji), match(r, Reduce(h, jo, p)), selective(h, z), free(p, ji),
        ],
        [equal(e, Reduce(g, jo, Where(Map("eq", local, Const(0.0)), 0.0, factor * local)))],
    )  # fmt: skip


@mutant("merge_selection_parts", "identity", lambda: (True, close(np.sum(5.0 * 2), np.where(np.float64(3) == 3, 1.0, 2.0) * 5)), weighted(j), splits={"j": 3})
def merge_with_guard_inverted(e, u, t, r, p, tl, q, g: LinearMonoid, h: SelectiveMonoid, z: Scalar, jo: Axis, ji: Axis):
    """Factor 1 for the parts that have seen something, q for those that have not."""
    factor, local = Where(Map("ne", p, Const(z)), 1.0, q), Reduce(g, ji, tl)
    return (
        [
            match(e, Reduce(g, jo, u)), match(u, Reduce(g, ji, t)), part(jo, ji), linear(g),
            changes_by_factor("loc", ji, t, r, tl, q), free(q, ji), match(r, Reduce(h, jo, p)), selective(h, z),
            free(p, ji), zero_where(tl, p, Const(1.0)),
        ],
        [equal(e, Reduce(g, jo, Where(Map("eq", local, Const(0.0)), 0.0, factor * local)))],
    )  # fmt: skip


@mutant("merge_positive_parts", "operand order", lambda: (True, close(np.sum(q_ * tl_), np.sum(tl_ / q_))), scaled, splits={"j": 3})
def merge_by_inverse_factor(e, u, t, r, p, tl, q, g: LinearMonoid, h: LinearMonoid, jo: Axis, ji: Axis):
    """sum_jo sum_ji t = sum_jo (sum_ji t(part)) / q."""
    return (
        [
            match(e, Reduce(g, jo, u)), match(u, Reduce(g, ji, t)), part(jo, ji), linear(g), positive(q),
            changes_by_factor("loc", ji, t, r, tl, q), free(q, ji), match(r, Reduce(h, jo, p)), linear(h), positive(p), free(p, ji),
        ],
        [equal(e, Reduce(g, jo, Reduce(g, ji, tl) / q))],
    )  # fmt: skip


@mutant("merge_positive_parts", "term lost", lambda: (True, close(np.sum(q_ * tl_), np.sum(tl_))), scaled, splits={"j": 3})
def merge_without_factor(e, u, t, r, p, tl, q, g: LinearMonoid, h: LinearMonoid, jo: Axis, ji: Axis):
    """sum_jo sum_ji t = sum_jo sum_ji t(part)."""
    return (
        [
            match(e, Reduce(g, jo, u)), match(u, Reduce(g, ji, t)), part(jo, ji), linear(g),
            changes_by_factor("loc", ji, t, r, tl, q), free(q, ji), match(r, Reduce(h, jo, p)), linear(h), positive(p), free(p, ji),
        ],
        [equal(e, Reduce(g, jo, Reduce(g, ji, tl)))],
    )  # fmt: skip


# moments ------------------------------------------------------------------------------------------------------------------------


def variance():
    """A mean of squares of distances from the mean."""
    x = tensor("x", i, j)
    return program("variance", y=(mean_over(j, square(x - mean_over(j, x))), (i,)))


def covariance():
    """A mean of products of such distances."""
    x, y = tensor("x", i, j), tensor("y", j, d)
    return program("covariance", y=(mean_over(j, (x - mean_over(j, x)) * (y - mean_over(j, y))), (i, d)))


@mutant("square_of_offset", "term lost", lambda: (True, close((2.0 + 3) ** 2, 2.0**2 + 2 * 3 * 2)), variance, splits={"j": 3})
def square_of_offset_within_the_part(t, v, d, u):
    """(u+d)^2 = u^2 + d u + d u: the parts' variances, without the variance of their means."""
    return [match(t, Map("square", v)), offset(v, d, u)], [shifted(t, d, d, Map("square", u), u, u, Const(0.0))]


@mutant("product_of_offsets", "term lost", lambda: (True, close((2.0 + 3) * (5 + 7), 2 * 5 + 3 * 5 + 7 * 2)), covariance, splits={"j": 3})
def product_of_offsets_within_the_part(t, v, w, d, e, a, b):
    """(a+d)(b+e) = ab + d b + e a."""
    return [match(t, v * w), offset(v, d, a), offset(w, e, b), distinct(v, w)], [shifted(t, d, e, a * b, b, a, Const(0.0))]


@mutant("product_of_offsets", "operand order", lambda: (True, close((2.0 + 3) * (5 + 7), 2 * 5 + 3 * 2 + 7 * 5 + 3 * 7)), covariance, splits={"j": 3})
def product_of_offsets_crossed(t, v, w, d, e, a, b):
    """(a+d)(b+e) = ab + d a + e b + d e."""
    return [match(t, v * w), offset(v, d, a), offset(w, e, b), distinct(v, w)], [shifted(t, d, e, a * b, a, b, Const(1.0))]


@mutant("offset_from_mean", "sign guard", lambda: (True, close(2.0 - 3, (2.0 - 7) + (3 - 7))), variance, splits={"j": 3})
def offset_from_mean_backwards(v, x, p, r, jo: Axis, ji: Axis):
    """x - r = (x-p) + (r-p)."""
    return (
        [counted_from(x, p), spoils(r, p), match(v, x - r), part(jo, ji), free(p, ji), later(r, jo)],
        [offset(v, r - p, x - p)],
    )


@mutant("shifted_and_summed", "count lost", lambda: (True, close(np.sum((five + 3) ** 2), np.sum(five**2) + 2 * 3 * np.sum(five) + 3 * 3)), lambda: program("squares", y=(sum_over(j, square(tensor("x", i, j) - mean_over(j, tensor("x", i, j)))), (i,))), splits={"j": 3})
def shifted_and_summed_once(s, t, d, e, a, b, c, n, g: LinearMonoid, k: Axis):
    """sum_k (a + d b + e c + d e n) = sum_k a + d sum_k b + e sum_k c + d e n: the part's places are not counted."""
    return (
        [shifted(t, d, e, a, b, c, n), match(s, Reduce(g, k, t)), linear(g), free(d, k), free(e, k), free(n, k), NonEmpty(k)],
        [shifted(s, d, e, Reduce(g, k, a), Reduce(g, k, b), Reduce(g, k, c), n)],
    )


@mutant("split_ragged_average", "count lost", lambda: (True, close(np.mean(five), np.sum(np.where(below, clipped, 0)) / 6)), rows(r_, lambda x: mean_over(r_, x)), splits={"j": 3})
def split_ragged_average_of_all_places(r, t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """mean_j t = (sum_jo sum_ji where(jo*T + ji < size(j), ..., 0)) / (size(jo) * size(ji))."""
    inside = Map("lt", View(Index(j), j, e), Extent(j))
    body = Where(inside, View(t, j, e), 0.0)
    return (
        [match(r, Reduce("mean", j, t)), ragged(j, jo, ji, e), depends(t, j), free(t, jo), free(t, ji), NonEmpty(j)],
        [equal(r, Reduce("sum", jo, Reduce("sum", ji, body)) / (Extent(jo) * Extent(ji)))],
    )


def paired(before, after):
    """h = a h + b over two steps, and one state before or after the other."""
    return close(before[1] * after[0] + after[1], after[1] * before[0] + before[1])


@mutant("split_scan_of_pairs", "operand order", lambda: (True, paired((2.0, 3.0), (5.0, 7.0))), lambda: program("scanned", y=(ScanTerm("linear[1]", j, tensor("x", i, j), tensor("y", i, j)), (i, j))), splits={"j": 3})
def split_scan_of_pairs_in_the_wrong_order(
    r, x, y, g: PairMonoid, g0: PairMonoid, g1: PairMonoid, z0: Scalar, z1: Scalar,
    j: Axis, jo: Axis, ji: Axis, je: Axis, e: Position, b: Position, q: Position, m: Position,
):  # fmt: skip
    """What is before a part stands behind it."""
    own = (View(x, j, e), View(y, j, e))
    inside = Map("lt", Index(je), Index(jo))
    before = [Where(inside, View(Reduce(h, ji, *own), jo, b), Const(z)) for h, z in ((g0, z0), (g1, z1))]
    behind = Merge(g, *(Scan(h, ji, *own) for h in (g0, g1)), *(Reduce(h, je, *before) for h in (g0, g1)))
    value = Where(Map("eq", Index(jo), Const(0.0)), Scan(g, ji, *own), behind)
    return (
        [
            match(r, Scan(g, j, x, y)), pair(g, g0, g1), neutral(g0, z0), neutral(g1, z1), parts_before(j, jo, ji, je, e, b, q, m),
            *(free(t, k) for t in (x, y) for k in (jo, ji, je)), OtherAxis(je, j), OtherAxis(je, jo), OtherAxis(je, ji),
        ],
        [equal(r, View(View(value, jo, q), ji, m))],
    )  # fmt: skip


@mutant("split_ragged_reduction_of_pairs", "condition dropped", lambda: (True, close(2.0 * (2.0 * 1.0 + 3.0) + 3.0, 2.0 * 1.0 + 3.0)), lambda: program("reduced", y=(ReduceTerm("linear[1]", r_, tensor("x", i, r_), tensor("y", i, r_)), (i,))), splits={"j": 3})
def split_reduction_of_pairs_past_the_end(r, x, y, g: PairMonoid, g0: PairMonoid, g1: PairMonoid, j: Axis, jo: Axis, ji: Axis, e: Position):
    """The last element of a shorter part as often as it takes to fill it."""
    own = (View(x, j, e), View(y, j, e))
    return (
        [match(r, Reduce(g, j, x, y)), pair(g, g0, g1), ragged(j, jo, ji, e), *(free(t, k) for t in (x, y) for k in (jo, ji))],
        [equal(r, Reduce(g, jo, *(Reduce(h, ji, *own) for h in (g0, g1))))],
    )


@mutant("split_scan", "off by one", lambda: (True, close(np.arange(1.0, 7).cumsum(), np.add(np.arange(1.0, 7).reshape(2, 3).cumsum(1), [[6], [21]]).ravel())), lambda: program("scanned", y=(running_sum(j, tensor("x", i, j)), (i, j))), splits={"j": 3})
def split_scan_with_its_own_part(
    r, t, g: AnyMonoid, o: Op2, z: Scalar, j: Axis, jo: Axis, ji: Axis, je: Axis, e: Position, b: Position, q: Position, m: Position
):
    """scan_j t = (sum_je where(je <= jo, ..)) + scan_ji t: a part's own elements twice."""
    own = View(t, j, e)
    before = Reduce(g, je, Where(Map("le", Index(je), Index(jo)), View(Reduce(g, ji, own), jo, b), Const(z)))
    return (
        [
            match(r, Scan(g, j, t)), steps(g, o, z), parts_before(j, jo, ji, je, e, b, q, m), depends(t, j), free(t, jo), free(t, ji),
            free(t, je), OtherAxis(je, j), OtherAxis(je, jo), OtherAxis(je, ji),
        ],
        [equal(r, View(View(Map(o, before, Scan(g, ji, own)), jo, q), ji, m))],
    )  # fmt: skip
