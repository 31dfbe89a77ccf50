"""False rules of reductions: signs, counts, empty and short axes, ties."""

import math

import numpy as np

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
    at_most,
    at_most_one,
    equals,
    finite,
    free,
    nonneg,
    truth,
)

from . import false

x, y, inf = np.array([1.0, 2.0, 6.0]), np.array([1.0, 3.0, 4.0]), np.inf
x2, mask = np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])


@false("sign", "the least of x is not the negative of the largest", lambda: (np.min(x), -np.max(x)))
def exam_minimum_as_negated_maximum(x, k: Axis):
    """min_k x = -max_k x, on no empty axis."""
    return Reduce("min", k, x), -Max(k, x), NonEmpty(k)


@false("degree", "every factor of a product has its own s", lambda: (np.prod(2 * x), 2 * np.prod(x)))
def exam_factor_out_of_product(x, s, k: Axis):
    """prod_k s*x = s * prod_k x, for finite s and x, s constant along k."""
    return Reduce("prod", k, s * x), s * Reduce("prod", k, x), free(s, k), finite(s), finite(x), NonEmpty(k)


@false("parity", "an even number of signs cancel", lambda: (np.prod(-x[:2]), -np.prod(x[:2])))
def exam_product_of_negated(x, k: Axis):
    """prod_k -x = -prod_k x, on no empty axis."""
    return Reduce("prod", k, -x), -Reduce("prod", k, x), NonEmpty(k)


@false("base", "powers of two are no powers of e", lambda: (np.prod(2**x), np.exp(x.sum())))
def exam_product_of_powers_of_two(x, k: Axis):
    """prod_k 2^x = exp(sum_k x)."""
    return Reduce("prod", k, Map("exp2", x)), Map("exp", Sum(k, x))


@false("sign of a factor", "a factor below 0 makes the minimum a maximum", lambda: (np.min(-x), -np.min(x)))
def exam_factor_at_most_one_out_of_minimum(x, s, k: Axis):
    """min_k s*x = s * min_k x, for finite s and x, s <= 1 constant along k."""
    return Reduce("min", k, s * x), s * Reduce("min", k, x), free(s, k), finite(s), finite(x), at_most_one(s), NonEmpty(k)


@false(
    "count", "the square of the mean is subtracted from each element", lambda: (np.sum((x - x.mean()) ** 2), np.sum(x**2) - x.mean() ** 2)
)
def exam_squares_about_the_mean(x, k: Axis):
    """sum_k (x - mean_k x)^2 = sum_k x^2 - (mean_k x)^2, for finite x."""
    m = Mean(k, x)
    return Sum(k, Map("square", x - m)), Sum(k, Map("square", x)) - Map("square", m), finite(x), NonEmpty(k)


@false(
    "mean of means",
    "rows of unlike length have unlike weight",
    lambda: (np.mean((x2 * mask).sum(1) / mask.sum(1)), (x2 * mask).sum() / mask.sum()),
)
def exam_mean_of_masked_means(c, x, j: Axis, k: Axis):
    """mean_j (sum_k c*x / sum_k c) = (sum_j sum_k c*x) / (sum_j sum_k c) for truth values c and finite x."""
    kept = c * x
    means, all_of_it = Mean(j, Sum(k, kept) / Sum(k, c)), Sum(j, Sum(k, kept)) / Sum(j, Sum(k, c))
    return means, all_of_it, truth(c), finite(x), OtherAxis(j, k), NonEmpty(j)


@false("count", "a mean of exponentials lacks log n", lambda: (np.log(np.exp(np.log(np.exp(x).mean()))), np.log(np.exp(x).sum())))
def exam_log_sum_of_log_means(x, j: Axis, k: Axis):
    """log sum_j exp(log mean_k exp x) = log sum_j sum_k exp x, for finite x."""
    nested = Map("log", Sum(j, Map("exp", Map("log", Mean(k, Map("exp", x))))))
    return nested, Map("log", Sum(j, Sum(k, Map("exp", x)))), finite(x), NonEmpty(j), NonEmpty(k)


@false("counted twice", "the diagonal is in both triangles", lambda: (np.tril(x2).sum() + np.triu(x2).sum(), x2.sum()))
def exam_two_triangles_with_diagonal(x, j: Axis, k: Axis):
    """sum_j sum_k where(j <= k, x, 0) + sum_j sum_k where(k <= j, x, 0) = sum_j sum_k x."""
    upper, lower = (Where(Map("le", *both), x, 0.0) for both in ((Index(j), Index(k)), (Index(k), Index(j))))
    return Sum(j, Sum(k, upper)) + Sum(j, Sum(k, lower)), Sum(j, Sum(k, x)), OtherAxis(j, k)


@false("ties", "two places hold the largest", lambda: (0.0 + 1.0, 0.0))
def exam_position_of_largest_as_a_sum(x, k: Axis):
    """sum_k where(x == max_k x, index(k), 0) = min_k where(x == max_k x, index(k), size(k)), for finite x."""
    there = Map("eq", x, Max(k, x))
    return Sum(k, Where(there, Index(k), 0.0)), Reduce("min", k, Where(there, Index(k), Extent(k))), finite(x), NonEmpty(k)


@false("sign", "a norm is at most a sum of sizes, not a sum", lambda: (min(np.sqrt(1 + 4.0), 1 - 2.0), np.sqrt(1 + 4.0)))
def exam_norm_below_sum(x, k: Axis):
    """min(sqrt(sum_k x^2), sum_k x) = sqrt(sum_k x^2), for finite x."""
    norm = Map("sqrt", Sum(k, Map("square", x)))
    return Map("minimum", norm, Sum(k, x)), norm, finite(x)


@false("length 0 or 1", "the mean of nothing is 0, and its maximum -inf", lambda: (0.0, -inf))
def exam_mean_of_at_most_one_element(x, k: Axis):
    """mean_k x = max_k x, on an axis of at most one element."""
    return Mean(k, x), Max(k, x), at_most(Extent(k), 1)


@false("length 0 or 1", "what does not depend on an empty axis is divided by a sum of nothing", lambda: (np.exp(2.0) / 0.0, 1.0))
def exam_softmax_of_at_most_one_element(x, k: Axis):
    """exp x / sum_k exp x = 1, for finite x on an axis of at most one element."""
    return Map("exp", x) / Sum(k, Map("exp", x)), Const(1.0), finite(x), at_most(Extent(k), 1)


@false(
    "correction",
    "the variance of two numbers is a quarter of the square of their difference",
    lambda: (np.var(x[:2]), 0.5 * (x[0] - x[1]) ** 2),
)
def exam_variance_of_two(x, k: Axis):
    """mean_k (x - mean_k x)^2 = (x[k = 0] - x[k = 1])^2 / 2, for finite x on an axis of length 2."""
    spread = Map("square", View(x, k, 0) - View(x, k, 1)) * 0.5
    return Mean(k, Map("square", x - Mean(k, x))), spread, finite(x), equals(Extent(k), 2)


@false("ties", "where both are the largest, nothing is left for the second", lambda: (-inf, 1.0))
def exam_second_largest_of_two(x, k: Axis):
    """max_k where(x == max_k x, -inf, x) = min_k x, for finite x on an axis of length 2."""
    rest = Where(Map("eq", x, Max(k, x)), Const(-math.inf), x)
    return Max(k, rest), Reduce("min", k, x), finite(x), equals(Extent(k), 2)


@false("empty row of a mask", "-1 is no identity where nothing is chosen", lambda: (-1.0, -inf))
def exam_masked_maximum_with_minus_one(c, x, k: Axis):
    """max_k where(c, x, -1) = max_k where(c, x, -inf), for x >= 0 and truth values c."""
    return Max(k, Where(c, x, -1.0)), Max(k, Where(c, x, Const(-math.inf))), nonneg(x), truth(c), NonEmpty(k)
