"""Sound rules of reductions."""

import math

from eqfuse.rewrites import (
    Axis,
    Const,
    Extent,
    Index,
    Map,
    Max,
    Mean,
    NonEmpty,
    OtherAxis,
    Reduce,
    Sum,
    View,
    Where,
    equals,
    finite,
    free,
    nonneg,
    positive,
    truth,
)

from . import sound


@sound("sign", "negation turns the order round, also of nothing")
def exam_minimum_as_negated_maximum_of_negated(x, k: Axis):
    """min_k x = -max_k -x."""
    return Reduce("min", k, x), -Max(k, -x)


@sound("degree", "two factors have it twice")
def exam_factor_out_of_product_of_two(x, s, k: Axis):
    """prod_k s*x = s^2 * prod_k x, for finite s and x, s constant along k, on an axis of length 2."""
    return Reduce("prod", k, s * x), Map("square", s) * Reduce("prod", k, x), free(s, k), finite(s), finite(x), equals(Extent(k), 2)


@sound("signs of products", "rounding does not look at signs, nor does |x| round", licence="exact")
def exam_size_of_product(x, k: Axis):
    """|prod_k x| = prod_k |x|, to the last bit."""
    return Map("abs", Reduce("prod", k, x)), Reduce("prod", k, Map("abs", x))


@sound("base", "powers of one base multiply by adding exponents; -inf with +inf is NaN in both")
def exam_product_of_powers_of_two_added(x, k: Axis):
    """prod_k 2^x = 2^(sum_k x)."""
    return Reduce("prod", k, Map("exp2", x)), Map("exp2", Sum(k, x))


@sound("sign of a factor", "a finite factor above 0 keeps the order, and infinities")
def exam_positive_factor_out_of_minimum(x, s, k: Axis):
    """min_k s*x = s * min_k x, for finite s > 0 constant along k."""
    return Reduce("min", k, s * x), s * Reduce("min", k, x), free(s, k), finite(s), positive(s)


@sound("count", "the square of the mean is subtracted n times")
def exam_squares_about_the_mean_counted(x, k: Axis):
    """sum_k (x - mean_k x)^2 = sum_k x^2 - n (mean_k x)^2, for finite x."""
    m = Mean(k, x)
    return Sum(k, Map("square", x - m)), Sum(k, Map("square", x)) - Extent(k) * Map("square", m), finite(x), NonEmpty(k)


@sound("mean of means", "rows of the same mask have the same weight")
def exam_mean_of_means_of_one_mask(c, x, j: Axis, k: Axis):
    """mean_j (sum_k c*x / sum_k c) = (sum_j sum_k c*x) / (sum_j sum_k c) for truth values c constant along j, finite x."""
    kept = c * x
    means, all_of_it = Mean(j, Sum(k, kept) / Sum(k, c)), Sum(j, Sum(k, kept)) / Sum(j, Sum(k, c))
    return means, all_of_it, truth(c), free(c, j), finite(x), OtherAxis(j, k), NonEmpty(j)


@sound("nested", "the exponential of a logarithm of a sum that is not negative is the sum")
def exam_log_sum_of_log_sums(x, j: Axis, k: Axis):
    """log sum_j exp(log sum_k exp x) = log sum_j sum_k exp x."""
    nested = Map("log", Sum(j, Map("exp", Map("log", Sum(k, Map("exp", x))))))
    return nested, Map("log", Sum(j, Sum(k, Map("exp", x))))


@sound("counted once", "the diagonal is in one of the triangles")
def exam_two_triangles(x, j: Axis, k: Axis):
    """sum_j sum_k where(j <= k, x, 0) + sum_j sum_k where(k < j, x, 0) = sum_j sum_k x."""
    upper, lower = Where(Map("le", Index(j), Index(k)), x, 0.0), Where(Map("lt", Index(k), Index(j)), x, 0.0)
    return Sum(j, Sum(k, upper)) + Sum(j, Sum(k, lower)), Sum(j, Sum(k, x)), OtherAxis(j, k)


@sound("ties", "the first place of the largest, counted from either end")
def exam_first_place_of_largest(x, k: Axis):
    """min_k where(x == max_k x, k, n) = n-1 - max_k where(x == max_k x, n-1-k, -1), for finite x."""
    there, last = Map("eq", x, Max(k, x)), Extent(k) - 1.0
    first = Reduce("min", k, Where(there, Index(k), Extent(k)))
    return first, last - Max(k, Where(there, last - Index(k), -1.0)), finite(x), NonEmpty(k)


@sound("sign", "the square of a sum of numbers that are not negative is at least the sum of squares")
def exam_norm_below_sum_of_nonneg(x, k: Axis):
    """min(sqrt(sum_k x^2), sum_k x) = sqrt(sum_k x^2), for finite x >= 0."""
    norm = Map("sqrt", Sum(k, Map("square", x)))
    return Map("minimum", norm, Sum(k, x)), norm, finite(x), nonneg(x)


@sound("length 1", "of one element mean and maximum are that element")
def exam_mean_of_one_element(x, k: Axis):
    """mean_k x = max_k x, on an axis of one element."""
    return Mean(k, x), Max(k, x), equals(Extent(k), 1)


@sound("length 1", "the exponential of a finite number by itself")
def exam_softmax_of_one_element(x, k: Axis):
    """exp x / sum_k exp x = 1, for finite x on an axis of one element."""
    return Map("exp", x) / Sum(k, Map("exp", x)), Const(1.0), finite(x), equals(Extent(k), 1)


@sound("length 2", "each is half the difference away from the mean")
def exam_variance_of_two_by_half_difference(x, k: Axis):
    """mean_k (x - mean_k x)^2 = ((x[k = 0] - x[k = 1]) / 2)^2, for finite x on an axis of length 2."""
    spread = Map("square", (View(x, k, 0) - View(x, k, 1)) * 0.5)
    return Mean(k, Map("square", x - Mean(k, x))), spread, finite(x), equals(Extent(k), 2)


@sound("ties", "what is left of the sum of two is the other one, also where they are equal")
def exam_second_largest_of_two_by_sum(x, k: Axis):
    """sum_k x - max_k x = min_k x, for finite x on an axis of length 2."""
    return Sum(k, x) - Max(k, x), Reduce("min", k, x), finite(x), equals(Extent(k), 2)


@sound("empty row of a mask", "both are -1 where nothing is chosen")
def exam_masked_maximum_at_least_minus_one(c, x, k: Axis):
    """max(max_k where(c, x, -1), -1) = max(max_k where(c, x, -inf), -1), for x >= 0."""
    return Map("maximum", Max(k, Where(c, x, -1.0)), -1.0), Map("maximum", Max(k, Where(c, x, Const(-math.inf))), -1.0), nonneg(x)
