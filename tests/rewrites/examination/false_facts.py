"""Facts and rows that do not follow."""

import math

import numpy as np

from eqfuse.rewrites import (
    Axis,
    Const,
    Extent,
    Map,
    Max,
    Mean,
    NonEmpty,
    Scalar,
    Sum,
    Where,
    at_least_one,
    at_most,
    at_most_one,
    equal,
    finite,
    match,
    nonneg,
    nonpos,
    positive,
    truth,
    within,
)

from . import false, relations

inf, nan = np.inf, np.nan


@false("masked reference", "what the mask leaves out may be larger", lambda: (True, 5.0 - 2.0 <= 0))
def exam_below_masked_maximum(t, c, x, k: Axis):
    """x - max_k where(c, x, -inf) <= 0."""
    return [match(t, x - Max(k, Where(c, x, Const(-math.inf)))), NonEmpty(k)], [nonpos(t)]


@false("empty axis", "a sum of nothing is 0", lambda: (True, np.sum([]) >= 1))
def exam_softmax_denominator_of_any_axis(t, x, k: Axis):
    """sum_k exp(x - max_k x) >= 1, for finite x."""
    return [match(t, Sum(k, Map("exp", x - Max(k, x)))), finite(x)], [at_least_one(t)]


@false("bounds add up", "both may be near 1", lambda: (True, np.tanh(3.0) + 1 / (1 + np.exp(-3.0)) <= 1.5))
def exam_bound_of_two_saturated(t, x, y):
    """|tanh x + sigmoid y| <= 1.5."""
    return [match(t, Map("tanh", x) + Map("sigmoid", y))], [within(t, 1.5)]


@false("pole", "left of the pole at -1 it is more than 1", lambda: (True, -2.0 / (1 - 2.0) <= 1))
def exam_quotient_with_itself_and_one(t, x):
    """x/(1 + x) <= 1, for finite x <= 1."""
    return [match(t, x / (1 + x)), finite(x), at_most_one(x)], [at_most_one(t)]


@false("strictness", "cosh 0 is 1", lambda: (True, np.cosh(0.0) - 1 > 0))
def exam_cosh_above_one(t, x):
    """cosh x - 1 > 0, for finite x."""
    return [match(t, Map("cosh", x) - 1.0), finite(x)], [positive(t)]


@false(
    "empty axis",
    "what does not depend on an empty axis is divided by a sum of nothing",
    lambda: (True, np.isfinite(np.float64(2.0) / np.sum([]))),
)
def exam_part_of_sum_is_finite(t, x, k: Axis):
    """x / sum_k x is finite, for finite x > 0."""
    return [match(t, x / Sum(k, x)), finite(x), positive(x)], [finite(t)]


@false("fractions", "one of two is a half", lambda: (True, 0.5 in (0, 1)))
def exam_mean_of_truths(t, c, k: Axis):
    """mean_k c is 0 or 1 for truth values c."""
    return [match(t, Mean(k, c)), truth(c), NonEmpty(k)], [truth(t)]


@false("count", "eight numbers of size a add up to 8a", lambda: (True, 8 * 2.0 <= 7 * 2.0))
def exam_bound_of_a_sum_of_eight(t, x, a: Scalar, k: Axis):
    """|sum_k x| <= 7 a for |x| <= a, on an axis of at most 8 elements."""
    return [match(t, Sum(k, x)), within(x, a), at_most(Extent(k), 8)], [within(t, a * 7.0)]


@false("sign", "a negative number grows smaller in size by a positive step", lambda: (True, abs(-2.0 + 1) - abs(-2.0) >= 0))
def exam_size_grows_by_nonneg(t, x, y):
    """|x + y| - |x| >= 0 for finite x, and finite y >= 0."""
    return [match(t, Map("abs", x + y) - Map("abs", x)), finite(x), finite(y), nonneg(y)], [nonneg(t)]


@false("empty axis", "the largest of nothing is less than its mean, which is 0", lambda: (True, -inf - 0.0 >= 0))
def exam_largest_above_mean(t, x, k: Axis):
    """max_k x - mean_k x >= 0 for finite x."""
    return [match(t, Max(k, x) - Mean(k, x)), finite(x)], [nonneg(t)]


@false("relation", "a quarter of 4 is 1", lambda: (True, 4 * 0.25 % 2 == 0))
def exam_quarter_of_fourfold_is_even(t, x):
    """x/4 is even for multiples of 4."""
    return [match(t, x * 0.25), relations.fourfold(x)], [relations.even(t)]


@false("relation", "a negative factor turns the order round", lambda: (True, 2.0 * -1 >= 1.0 * -1))
def exam_order_kept_by_any_factor(t, u, x, y, z):
    """x*z is at least y*z, if x is at least y, for finite numbers."""
    given = [match(t, x * z), match(u, y * z), relations.at_least_as_large(x, y), finite(x), finite(y), finite(z)]
    return given, [relations.at_least_as_large(t, u)]


@false("relation", "twice and twice again is four times", lambda: (4 * 3.0, 2 * 3.0))
def exam_double_of_double_as_double(x, y, z):
    """z = 2x, if z is twice y and y is twice x."""
    return [relations.double(x, y), relations.double(y, z)], [equal(z, x * 2.0)]
