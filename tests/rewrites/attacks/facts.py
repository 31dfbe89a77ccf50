"""Facts that do not follow: signs, bounds, truth values, what is finite."""

import numpy as np

from eqfuse.rewrites import (
    Axis,
    Cast,
    Const,
    Extent,
    Map,
    Max,
    Mean,
    NonEmpty,
    Op1,
    Reduce,
    Scalar,
    Sum,
    Where,
    at_least_one,
    at_most_one,
    finite,
    increasing,
    match,
    nonneg,
    nonpos,
    positive,
    truth,
    within,
)

from . import sound, unsound

inf, nan = np.inf, np.nan


def claim(text):
    """What is claimed, and what numbers say."""
    return lambda: (True, text())


@unsound("fact", "openxla/xla#41784: IsNonNegative of a product", "one factor of two is not enough", claim(lambda: 2.0 * -1 >= 0))
def product_of_one_nonneg(t, x, y):
    """x*y >= 0 for x >= 0."""
    return [match(t, x * y), nonneg(x)], [nonneg(t)]


@sound
def product_of_nonneg(t, x, y):
    """x*y >= 0 for x, y >= 0."""
    return [match(t, x * y), nonneg(x), nonneg(y)], [nonneg(t)]


@unsound("fact", "kind: difference of numbers that are not negative", "1 - 2", claim(lambda: 1.0 - 2.0 >= 0))
def difference_of_nonneg(t, x, y):
    """x - y >= 0 for x, y >= 0."""
    return [match(t, x - y), nonneg(x), nonneg(y)], [nonneg(t)]


@sound
def sum_of_nonneg(t, x, y):
    """x + y >= 0 for x, y >= 0."""
    return [match(t, x + y), nonneg(x), nonneg(y)], [nonneg(t)]


@unsound("fact", "openxla/xla#46628: IsNonNegative of a power", "odd powers keep the sign", claim(lambda: (-2.0) ** 3 >= 0))
def cube_is_nonneg(t, x):
    """x * x^2 >= 0."""
    return [match(t, x * Map("square", x))], [nonneg(t)]


@sound
def square_is_nonneg(t, x):
    """x^2 >= 0."""
    return [match(t, Map("square", x))], [nonneg(t)]


@unsound("fact", "openxla/xla: IsPositive of exp", "the exponential of -inf is 0", claim(lambda: np.exp(-inf) > 0))
def exponential_is_positive(t, x):
    """exp x > 0."""
    return [match(t, Map("exp", x))], [positive(t)]


@sound
def exponential_of_finite_is_positive(t, x):
    """exp x > 0 for finite x."""
    return [match(t, Map("exp", x)), finite(x)], [positive(t)]


@unsound("fact", "kind: squares are positive", "0 is a square", claim(lambda: 0.0**2 > 0))
def square_is_positive(t, x):
    """x^2 > 0 for finite x."""
    return [match(t, Map("square", x)), finite(x)], [positive(t)]


@unsound("fact", "kind: sum of numbers that are not negative is positive", "0 + 0", claim(lambda: 0.0 + 0.0 > 0))
def sum_of_nonneg_is_positive(t, x, y):
    """x + y > 0 for x, y >= 0."""
    return [match(t, x + y), nonneg(x), nonneg(y)], [positive(t)]


@sound
def sum_with_positive_is_positive(t, x, y):
    """x + y > 0 for x > 0 and y >= 0; a fact about signs says nothing of NaN."""
    return [match(t, x + y), positive(x), nonneg(y)], [positive(t)]


@unsound("fact", "kind: logarithm of a positive number", "logarithms of numbers below 1 are negative", claim(lambda: np.log(0.5) >= 0))
def log_of_positive_is_nonneg(t, x):
    """log x >= 0 for x > 0."""
    return [match(t, Map("log", x)), positive(x)], [nonneg(t)]


@sound
def log_of_at_least_one_is_nonneg(t, x):
    """log x >= 0 for x >= 1."""
    return [match(t, Map("log", x)), at_least_one(x)], [nonneg(t)]


@unsound("empty axis", "kind: sum of positive numbers", "a sum of nothing is 0", claim(lambda: np.sum([]) > 0))
def sum_is_positive(t, x, k: Axis):
    """sum_k x > 0 for x > 0."""
    return [match(t, Sum(k, x)), positive(x)], [positive(t)]


@sound
def sum_of_something_is_positive(t, x, k: Axis):
    """sum_k x > 0 for x > 0."""
    return [match(t, Sum(k, x)), positive(x), NonEmpty(k)], [positive(t)]


@unsound("empty axis", "kind: maximum of numbers that are not negative", "the maximum of nothing is -inf", claim(lambda: -inf >= 0))
def maximum_is_nonneg(t, x, k: Axis):
    """max_k x >= 0 for x >= 0."""
    return [match(t, Max(k, x)), nonneg(x)], [nonneg(t)]


@sound
def maximum_of_something_is_nonneg(t, x, k: Axis):
    """max_k x >= 0 for x >= 0."""
    return [match(t, Max(k, x)), nonneg(x), NonEmpty(k)], [nonneg(t)]


@unsound("fact", "halide#6012: bounds of a sum", "1 + 1", claim(lambda: 1.0 + 1.0 <= 1))
def sum_at_most_one(t, x, y):
    """x + y <= 1 for x, y <= 1."""
    return [match(t, x + y), at_most_one(x), at_most_one(y)], [at_most_one(t)]


@sound
def sum_at_most_one_with_nonpos(t, x, y):
    """x + y <= 1 for x <= 1, y <= 0."""
    return [match(t, x + y), at_most_one(x), nonpos(y)], [at_most_one(t)]


@unsound("fact", "halide#6012: bounds of a product", "one factor may be larger", claim(lambda: 0.5 * 5 <= 1))
def product_with_fraction_at_most_one(t, x, y):
    """x*y <= 1 for 0 <= x <= 1 and y >= 0."""
    return [match(t, x * y), nonneg(x), at_most_one(x), nonneg(y)], [at_most_one(t)]


@sound
def product_of_fractions_at_most_one(t, x, y):
    """x*y <= 1 for 0 <= x <= 1 and 0 <= y <= 1."""
    return [match(t, x * y), nonneg(x), at_most_one(x), nonneg(y), at_most_one(y)], [at_most_one(t)]


@unsound("count", "kind: sum of fractions", "many fractions add up", claim(lambda: np.sum([1.0, 1.0]) <= 1))
def sum_of_fractions_at_most_one(t, x, k: Axis):
    """sum_k x <= 1 for x <= 1."""
    return [match(t, Sum(k, x)), at_most_one(x)], [at_most_one(t)]


@sound
def mean_of_fractions_at_most_one(t, x, k: Axis):
    """mean_k x <= 1 for x <= 1."""
    return [match(t, Mean(k, x)), at_most_one(x)], [at_most_one(t)]


@unsound("fact", "kind: exponentials are at least 1", "only of numbers that are not negative", claim(lambda: np.exp(-1.0) >= 1))
def exponential_at_least_one(t, x):
    """exp x >= 1."""
    return [match(t, Map("exp", x))], [at_least_one(t)]


@sound
def exponential_of_nonneg_at_least_one(t, x):
    """exp x >= 1 for x >= 0."""
    return [match(t, Map("exp", x)), nonneg(x)], [at_least_one(t)]


@unsound("sign", "kind: reciprocals of fractions", "negative numbers are at most 1, too", claim(lambda: 1 / -2.0 >= 1))
def reciprocal_at_least_one(t, x):
    """1/x >= 1 for x <= 1."""
    return [match(t, Map("recip", x)), at_most_one(x)], [at_least_one(t)]


@sound
def reciprocal_of_fraction_at_least_one(t, x):
    """1/x >= 1 for 0 < x <= 1."""
    return [match(t, Map("recip", x)), positive(x), at_most_one(x)], [at_least_one(t)]


@unsound("sign", "kind: product of large numbers", "two numbers above 1 and one below 0", claim(lambda: 2.0 * -3 >= 1))
def product_with_large_at_least_one(t, x, y):
    """x*y >= 1 for x >= 1."""
    return [match(t, x * y), at_least_one(x)], [at_least_one(t)]


@sound
def product_of_large_at_least_one(t, x, y):
    """x*y >= 1 for x, y >= 1."""
    return [match(t, x * y), at_least_one(x), at_least_one(y)], [at_least_one(t)]


@unsound("zero", "kind: reciprocal of a finite number", "1/0 is infinite", claim(lambda: np.isfinite(1 / np.float64(0))))
def reciprocal_is_finite(t, x):
    """1/x is finite for finite x."""
    return [match(t, Map("recip", x)), finite(x)], [finite(t)]


@sound
def reciprocal_of_large_is_finite(t, x):
    """1/x is finite for finite x >= 1."""
    return [match(t, Map("recip", x)), finite(x), at_least_one(x)], [finite(t)]


@unsound("zero", "kind: logarithm of a finite number", "log 0 is -inf", claim(lambda: np.isfinite(np.log(0.0))))
def log_is_finite(t, x):
    """log x is finite for finite x >= 0."""
    return [match(t, Map("log", x)), finite(x), nonneg(x)], [finite(t)]


@sound
def log_of_positive_is_finite(t, x):
    """log x is finite for finite x > 0."""
    return [match(t, Map("log", x)), finite(x), positive(x)], [finite(t)]


@unsound("overflow", "tensorflow#123169: a finite number whose exponential is not", "exp 100 is infinite in float32", claim(lambda: np.isfinite(np.exp(np.float32(100)))), licence="exact")
def exponential_of_fraction_is_finite(t, x):
    """exp(100 x) is finite for 0 <= x <= 1, in every type."""
    return [match(t, Map("exp", x * 100.0)), nonneg(x), at_most_one(x)], [finite(t)]


@sound
def exponential_of_nonpos_is_finite(t, x):
    """exp x is finite for finite x <= 0, in every type."""
    return [match(t, Map("exp", x)), nonpos(x), finite(x)], [finite(t)]


@unsound("overflow", "pytorch#173793: finite numbers add up to infinity", "3e38 + 3e38 in float32", claim(lambda: np.isfinite(np.float32(3e38) + np.float32(3e38))), licence="exact")
def sum_of_finite_is_finite(t, x, y):
    """x + y is finite for finite x, y, in every type."""
    return [match(t, x + y), finite(x), finite(y)], [finite(t)]


@sound(licence="real")
def sum_of_finite_reals_is_finite(t, x, y):
    """x + y is finite for finite x, y."""
    return [match(t, x + y), finite(x), finite(y)], [finite(t)]


@unsound("empty axis", "kind: maximum of finite numbers", "the maximum of nothing is -inf", claim(lambda: np.isfinite(-inf)))
def maximum_is_finite(t, x, k: Axis):
    """max_k x is finite for finite x."""
    return [match(t, Max(k, x)), finite(x)], [finite(t)]


@sound
def maximum_of_something_is_finite(t, x, k: Axis):
    """max_k x is finite for finite x."""
    return [match(t, Max(k, x)), finite(x), NonEmpty(k)], [finite(t)]


@unsound("select", "kind: a choice of which one arm is finite", "the other arm may be chosen", claim(lambda: np.isfinite(inf)))
def choice_is_finite(t, c, x, y):
    """where(c, x, y) is finite for finite x."""
    return [match(t, Where(c, x, y)), finite(x)], [finite(t)]


@sound
def choice_of_finite_is_finite(t, c, x, y):
    """where(c, x, y) is finite for finite x, y."""
    return [match(t, Where(c, x, y)), finite(x), finite(y)], [finite(t)]


@unsound("domain", "kind: an increasing function of a finite number", "the root of a negative number is NaN", claim(lambda: np.isfinite(np.sqrt(-1.0))))
def increasing_is_finite(t, x, o: Op1):
    """o(x) is finite for finite x and every increasing o."""
    return [match(t, Map(o, x)), increasing(o), finite(x)], [finite(t)]


@unsound("fact", "kind: sum of truth values", "1 + 1 is no truth value", claim(lambda: 1 + 1 in (0, 1)))
def sum_of_truths(t, x, y):
    """x + y is 0 or 1 for truth values."""
    return [match(t, x + y), truth(x), truth(y)], [truth(t)]


@sound
def product_of_truths(t, x, y):
    """x * y is 0 or 1 for truth values."""
    return [match(t, x * y), truth(x), truth(y)], [truth(t)]


@unsound("fact", "kind: difference of truth values", "0 - 1 is no truth value", claim(lambda: 0 - 1 in (0, 1)))
def difference_of_truths(t, x, y):
    """x - y is 0 or 1 for truth values."""
    return [match(t, x - y), truth(x), truth(y)], [truth(t)]


@sound
def complement_of_truth(t, x):
    """1 - x is 0 or 1 for a truth value."""
    return [match(t, 1.0 - x), truth(x)], [truth(t)]


@unsound("empty axis", "kind: any as a truth value", "the maximum of nothing is -inf", claim(lambda: -inf in (0, 1)))
def any_is_a_truth(t, c, k: Axis):
    """max_k c is 0 or 1 for truth values."""
    return [match(t, Max(k, c)), truth(c)], [truth(t)]


@sound
def any_of_something_is_a_truth(t, c, k: Axis):
    """max_k c is 0 or 1 for truth values."""
    return [match(t, Max(k, c)), truth(c), NonEmpty(k)], [truth(t)]


@unsound("fact", "kind: a fraction as a truth value", "0.5 is between 0 and 1", claim(lambda: 0.5 in (0, 1)))
def fraction_is_a_truth(t, x):
    """|x| is 0 or 1 for |x| <= 1."""
    return [match(t, Map("abs", x)), at_most_one(t)], [truth(t)]


@unsound("fact", "halide#7811: bounds of a sum", "the bounds add up", claim(lambda: abs(2.0 + 2.0) <= 2))
def bound_of_sum(t, x, y, a: Scalar):
    """|x + y| <= a for |x| <= a and |y| <= a."""
    return [match(t, x + y), within(x, a), within(y, a)], [within(t, a)]


@sound
def bound_of_sum_added(t, x, y, a: Scalar, b: Scalar):
    """|x + y| <= a + b for |x| <= a and |y| <= b."""
    return [match(t, x + y), within(x, a), within(y, b)], [within(t, a + b)]


@unsound("fact", "halide#6012: bounds of a product", "the square of a bound above 1 is larger", claim(lambda: 2.0**2 <= 2))
def bound_of_square(t, x, a: Scalar):
    """|x^2| <= a for |x| <= a."""
    return [match(t, Map("square", x)), within(x, a)], [within(t, a)]


@sound
def bound_of_square_squared(t, x, a: Scalar):
    """|x^2| <= a*a for |x| <= a."""
    return [match(t, Map("square", x)), within(x, a)], [within(t, a * a)]


@unsound("fact", "tvm#3386: bounds of a multiple", "the constant may be negative, and the bound with it", claim(lambda: abs(2.0 * -3) <= 2.0 * -3))
def bound_of_multiple(t, x, a: Scalar, b: Scalar):
    """|x * b| <= a * b for |x| <= a and a constant b."""
    return [match(t, x * Const(b)), within(x, a)], [within(t, a * b)]


@sound
def bound_of_multiple_by_three(t, x, a: Scalar):
    """|x * -3| <= a * 3 for |x| <= a."""
    return [match(t, x * -3.0), within(x, a)], [within(t, a * 3.0)]


@unsound("count", "kind: bound of a sum", "as many numbers as the axis has add up", claim(lambda: abs(2.0 + 2) <= 2))
def bound_of_reduction(t, x, a: Scalar, k: Axis):
    """|sum_k x| <= a for |x| <= a."""
    return [match(t, Sum(k, x)), within(x, a)], [within(t, a)]


@sound
def bound_of_mean(t, x, a: Scalar, k: Axis):
    """|mean_k x| <= a for |x| <= a."""
    return [match(t, Mean(k, x)), within(x, a)], [within(t, a)]


@unsound("empty axis", "kind: bound of a maximum", "the maximum of nothing is -inf", claim(lambda: abs(-inf) <= 2))
def bound_of_maximum(t, x, a: Scalar, k: Axis):
    """|max_k x| <= a for |x| <= a."""
    return [match(t, Max(k, x)), within(x, a)], [within(t, a)]


@sound
def bound_of_maximum_of_something(t, x, a: Scalar, k: Axis):
    """|max_k x| <= a for |x| <= a."""
    return [match(t, Max(k, x)), within(x, a), NonEmpty(k)], [within(t, a)]


@unsound("zero", "kind: bound of a reciprocal", "small numbers have large reciprocals", claim(lambda: abs(1 / 0.1) <= 2))
def bound_of_reciprocal(t, x, a: Scalar):
    """|1/x| <= a for |x| <= a."""
    return [match(t, Map("recip", x)), within(x, a)], [within(t, a)]


@unsound("cast", "openxla/xla#46628: iota is not negative", "numbers from 2^31 on wrap", claim(lambda: np.int64(2**31).astype(np.int32) >= 0))
def int32_of_extent_is_nonneg(t, x):
    """int32(x^2) >= 0 for finite x."""
    return [match(t, Cast("int32", Map("square", x))), finite(x)], [nonneg(t)]


@unsound("empty axis", "kind: reciprocal of a length", "an empty axis has length 0", claim(lambda: np.isfinite(1 / np.float64(0))))
def reciprocal_of_length_is_finite(t, k: Axis):
    """1/size(k) is finite."""
    return [match(t, Map("recip", Extent(k)))], [finite(t)]


@sound
def reciprocal_of_length_of_something_is_finite(t, k: Axis):
    """1/size(k) is finite."""
    return [match(t, Map("recip", Extent(k))), NonEmpty(k)], [finite(t)]


@unsound("monoid", "kind: minimum of positive numbers", "the minimum of nothing is inf", claim(lambda: np.isfinite(inf)))
def minimum_of_fractions(t, x, k: Axis):
    """min_k x <= 1 for x <= 1."""
    return [match(t, Reduce("min", k, x)), at_most_one(x)], [at_most_one(t)]


@sound
def minimum_of_some_fractions(t, x, k: Axis):
    """min_k x <= 1 for x <= 1."""
    return [match(t, Reduce("min", k, x)), at_most_one(x), NonEmpty(k)], [at_most_one(t)]
