"""Facts and rows that follow."""

from eqfuse.rewrites import (
    Axis,
    Extent,
    Map,
    Max,
    Mean,
    NonEmpty,
    Scalar,
    Sum,
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

from . import relations, sound


@sound("reference", "no element is above the largest; what is infinite less itself is NaN, which is not positive")
def exam_below_maximum(t, x, k: Axis):
    """x - max_k x <= 0, on no empty axis."""
    return [match(t, x - Max(k, x)), NonEmpty(k)], [nonpos(t)]


@sound("some axis", "the largest element gives exp 0")
def exam_softmax_denominator_of_some_axis(t, x, k: Axis):
    """sum_k exp(x - max_k x) >= 1, for finite x on no empty axis."""
    return [match(t, Sum(k, Map("exp", x - Max(k, x)))), finite(x), NonEmpty(k)], [at_least_one(t)]


@sound("bounds add up", "each is at most 1 in size")
def exam_bound_of_two_saturated_added(t, x, y):
    """|tanh x + sigmoid y| <= 2."""
    return [match(t, Map("tanh", x) + Map("sigmoid", y))], [within(t, 2.0)]


@sound("pole", "there is no pole right of 0")
def exam_quotient_with_itself_and_one_of_nonneg(t, x):
    """x/(1 + x) <= 1, for finite x >= 0."""
    return [match(t, x / (1 + x)), finite(x), nonneg(x)], [at_most_one(t)]


@sound("strictness", "cosh is at least 1, and NaN of NaN")
def exam_cosh_at_least_one(t, x):
    """cosh x >= 1."""
    return [match(t, Map("cosh", x))], [at_least_one(t)]


@sound("some axis", "a sum of positive numbers, at least one, is positive")
def exam_part_of_some_sum_is_finite(t, x, k: Axis):
    """x / sum_k x is finite, for finite x > 0 on no empty axis."""
    return [match(t, x / Sum(k, x)), finite(x), positive(x), NonEmpty(k)], [finite(t)]


@sound("truths", "|c - d| is whether they differ")
def exam_difference_of_truths_in_size(t, c, d):
    """|c - d| is 0 or 1 for truth values."""
    return [match(t, Map("abs", c - d)), truth(c), truth(d)], [truth(t)]


@sound("count", "at most eight numbers of size a")
def exam_bound_of_a_sum_of_eight_counted(t, x, a: Scalar, k: Axis):
    """|sum_k x| <= 8 a for |x| <= a, on an axis of at most 8 elements."""
    return [match(t, Sum(k, x)), within(x, a), at_most(Extent(k), 8)], [within(t, a * 8.0)]


@sound("sign", "both parts point the same way")
def exam_size_of_nonneg_grows_by_nonneg(t, x, y):
    """|x + y| - |x| >= 0 for finite x, y >= 0."""
    return [match(t, Map("abs", x + y) - Map("abs", x)), finite(x), finite(y), nonneg(x), nonneg(y)], [nonneg(t)]


@sound("some axis", "the largest of something is at least its mean")
def exam_largest_of_something_above_mean(t, x, k: Axis):
    """max_k x - mean_k x >= 0 for finite x on no empty axis."""
    return [match(t, Max(k, x) - Mean(k, x)), finite(x), NonEmpty(k)], [nonneg(t)]


@sound("relation", "half of 4n is 2n")
def exam_half_of_fourfold_is_even(t, x):
    """x/2 is even for multiples of 4."""
    return [match(t, x * 0.5), relations.fourfold(x)], [relations.even(t)]


@sound("relation", "a factor that is not negative keeps the order")
def exam_order_kept_by_nonneg_factor(t, u, x, y, z):
    """x*z is at least y*z, if x is at least y and z >= 0, for finite numbers."""
    given = [match(t, x * z), match(u, y * z), relations.at_least_as_large(x, y), finite(x), finite(y), finite(z), nonneg(z)]
    return given, [relations.at_least_as_large(t, u)]


@sound("relation", "twice and twice again is four times")
def exam_double_of_double(x, y, z):
    """z = 4x, if z is twice y and y is twice x."""
    return [relations.double(x, y), relations.double(y, z)], [equal(z, x * 4.0)]
