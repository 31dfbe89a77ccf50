"""Sums, means, variances: counts, axes that are confused, reductions of nothing and of one."""

import numpy as np

from eqfuse.rewrites import (
    AnyMonoid,
    Axis,
    Const,
    Extent,
    IdempotentMonoid,
    Index,
    Map,
    Max,
    Mean,
    NonEmpty,
    OtherAxis,
    Reduce,
    Sum,
    Where,
    finite,
    free,
    idempotent,
    linear,
    nonneg,
    positive,
    truth,
)

from . import sound, unsound

inf, nan = np.inf, np.nan
x, y, z = np.array([1.0, 2.0, 6.0]), np.array([1.0, 1.0, 4.0]), np.array([5.0, 1.0, 2.0])
x2 = np.array([[1.0, 2.0], [3.0, 5.0]])


@unsound("term lost", "kind: mean of a product", "numbers that go together have a covariance", lambda: (np.mean(x * y), np.mean(x) * np.mean(y)))
def mean_of_product(x, y, k: Axis):
    """mean_k x*y = mean_k x * mean_k y."""
    return Mean(k, x * y), Mean(k, x) * Mean(k, y)


@sound
def mean_of_product_with_constant(x, y, k: Axis):
    """mean_k x*y = mean_k x * mean_k y, for y constant along k."""
    return Mean(k, x * y), Mean(k, x) * Mean(k, y), free(y, k), NonEmpty(k)


@unsound("term lost", "kind: mean of a quotient", "a mean of quotients is no quotient of means", lambda: (np.mean(x / z), np.mean(x) / np.mean(z)))
def mean_of_quotient(x, y, k: Axis):
    """mean_k x/y = mean_k x / mean_k y for y > 0."""
    return Mean(k, x / y), Mean(k, x) / Mean(k, y), positive(y), NonEmpty(k)


@unsound("term lost", "kind: variance", "the mean is squared, and not only subtracted", lambda: (np.mean(x**2) - np.mean(x), np.var(x)))
def variance_without_square(x, k: Axis):
    """mean_k x^2 - mean_k x = mean_k (x - mean_k x)^2."""
    return Mean(k, Map("square", x)) - Mean(k, x), Mean(k, Map("square", x - Mean(k, x)))


@sound
def variance_by_moments(x, k: Axis):
    """mean_k x^2 - (mean_k x)^2 = mean_k (x - mean_k x)^2."""
    return Mean(k, Map("square", x)) - Map("square", Mean(k, x)), Mean(k, Map("square", x - Mean(k, x)))


@unsound("count", "pytorch: var with and without correction", "one less than the count is another count", lambda: (np.var(x, ddof=1), np.var(x)))
def corrected_variance(x, k: Axis):
    """sum_k (x - mean_k x)^2 / (size(k) - 1) = mean_k (x - mean_k x)^2."""
    centred = Map("square", x - Mean(k, x))
    return Sum(k, centred) / (Extent(k) - 1.0), Mean(k, centred), NonEmpty(k)


@unsound("term lost", "kind: covariance", "one of the two is centred, or both", lambda: (np.mean((x - x.mean()) * y), np.mean(x * y)))
def covariance_uncentred(x, y, k: Axis):
    """mean_k (x - mean_k x) * y = mean_k x*y."""
    return Mean(k, (x - Mean(k, x)) * y), Mean(k, x * y)


@sound
def covariance_centred_once(x, y, k: Axis):
    """mean_k (x - mean_k x) * y = mean_k x*y - mean_k x * mean_k y for finite x, y."""
    return Mean(k, (x - Mean(k, x)) * y), Mean(k, x * y) - Mean(k, x) * Mean(k, y), finite(x), finite(y)


@unsound("axis confused", "onnxruntime#25855: gamma by another shape", "the weight changes along the axis of the mean", lambda: (np.mean(x * y), y[0] * np.mean(x)))
def weight_out_of_mean(x, g, k: Axis):
    """mean_k x*g = g * mean_k x."""
    return Mean(k, x * g), g * Mean(k, x), NonEmpty(k)


@sound
def constant_weight_out_of_mean(x, g, k: Axis):
    """mean_k x*g = g * mean_k x, for g constant along k."""
    return Mean(k, x * g), g * Mean(k, x), NonEmpty(k), free(g, k)


@unsound("axis confused", "onnxruntime#31144: LayerNorm with keepdims=0", "the mean along one axis is broadcast along another", lambda: (x2 - x2.mean(0, keepdims=True) + x2.mean(1, keepdims=True), x2))
def centred_along_any_axis(x, j: Axis, k: Axis):
    """x - mean_j x + mean_k x = x for finite x."""
    return x - Mean(j, x) + Mean(k, x), x, finite(x)


@unsound("axis confused", "pytorch#195383: permuted keys in attention", "a sum along one axis is no sum along another", lambda: (x2.sum(0) - x2.sum(1), 0.0))
def product_summed_along_any_axis(x, y, j: Axis, k: Axis):
    """sum_j x*y - sum_k x*y = 0 for finite x, y."""
    return Sum(j, x * y) - Sum(k, x * y), Const(0.0), finite(x), finite(y)


@unsound("axis confused", "kind: shift invariance of the variance", "the shift changes along the axis", lambda: (np.var(x + y), np.var(x)))
def variance_of_shifted(x, c, k: Axis):
    """mean_k (x + c - mean_k (x + c))^2 = mean_k (x - mean_k x)^2 for finite c."""
    return Mean(k, Map("square", x + c - Mean(k, x + c))), Mean(k, Map("square", x - Mean(k, x))), finite(c), NonEmpty(k)


@sound
def variance_of_shifted_by_constant(x, c, k: Axis):
    """mean_k (x + c - mean_k (x + c))^2 = mean_k (x - mean_k x)^2 for finite c, constant along k."""
    left, right = Mean(k, Map("square", x + c - Mean(k, x + c))), Mean(k, Map("square", x - Mean(k, x)))
    return left, right, finite(c), free(c, k), NonEmpty(k)


@unsound("count", "openxla/xla: trivial reduce removed", "a sum is its element only on an axis of length 1", lambda: (np.sum(x), x[0]))
def sum_of_one(x, k: Axis):
    """sum_k x = x."""
    return Sum(k, x), x


@unsound("monoid", "kind: sum of maxima", "sums and maxima do not change places", lambda: (np.eye(2).max(1).sum(), np.eye(2).sum(0).max()))
def sum_and_maximum_exchanged(x, j: Axis, k: Axis):
    """sum_j max_k x = max_k sum_j x."""
    return Sum(j, Max(k, x)), Max(k, Sum(j, x)), NonEmpty(j), NonEmpty(k), OtherAxis(j, k)


@unsound("count", "tensorflow#126892: a factor of the broadcast", "only what is constant along j is counted size(j) times", lambda: (x2.sum(), x2[0].sum() * 2))
def sum_counted(x, j: Axis, k: Axis):
    """sum_j sum_k x = size(j) * sum_k x."""
    return Sum(j, Sum(k, x)), Extent(j) * Sum(k, x), NonEmpty(j)


@sound
def sum_of_constant_counted(x, j: Axis, k: Axis):
    """sum_j sum_k x = size(j) * sum_k x, for x constant along j."""
    return Sum(j, Sum(k, x)), Extent(j) * Sum(k, x), NonEmpty(j), free(x, j), OtherAxis(j, k)


@unsound("axis confused", "TENSAT: products of sums", "both change along both axes", lambda: (x2.sum(0).sum() * x2.sum(), (x2 * x2).sum()))
def sums_multiplied(x, y, j: Axis, k: Axis):
    """sum_j x * sum_k y = sum_j sum_k x*y."""
    return Sum(j, x) * Sum(k, y), Sum(j, Sum(k, x * y)), OtherAxis(j, k), NonEmpty(j), NonEmpty(k)


@unsound("empty axis", "TENSAT: products of sums", "a sum of nothing times infinity is NaN, the double sum is 0", lambda: (0.0 * inf, 0.0))
def sums_of_nothing_multiplied(x, y, j: Axis, k: Axis):
    """sum_j x * sum_k y = sum_j sum_k x*y, for x constant along k and y along j."""
    return Sum(j, x) * Sum(k, y), Sum(j, Sum(k, x * y)), OtherAxis(j, k), free(x, k), free(y, j)


@sound
def sums_of_something_multiplied(x, y, j: Axis, k: Axis):
    """sum_j x * sum_k y = sum_j sum_k x*y, for x constant along k and y along j, both finite."""
    return Sum(j, x) * Sum(k, y), Sum(j, Sum(k, x * y)), OtherAxis(j, k), free(x, k), free(y, j), finite(x), finite(y)


@unsound("monoid", "PET: any reduction distributes over +", "the maximum of a sum is no sum of maxima", lambda: (np.max(x - x), np.max(x) + np.max(-x)))
def any_reduction_of_sum(x, y, k: Axis, g: AnyMonoid):
    """reduce_k (x + y) = reduce_k x + reduce_k y for every reduction."""
    return Reduce(g, k, x + y), Reduce(g, k, x) + Reduce(g, k, y)


@sound
def linear_reduction_of_sum(x, y, k: Axis, g: AnyMonoid):
    """reduce_k (x + y) = reduce_k x + reduce_k y for a linear reduction."""
    return Reduce(g, k, x + y), Reduce(g, k, x) + Reduce(g, k, y), linear(g)


@unsound("monoid", "PET: a reduction of a reduction", "only some reductions of constants are the constant", lambda: (3 * 9.0, 9.0))
def reduced_twice(x, j: Axis, k: Axis, g: AnyMonoid):
    """reduce_j reduce_k x = reduce_k x, for x constant along j."""
    return Reduce(g, j, Reduce(g, k, x)), Reduce(g, k, x), free(x, j), NonEmpty(j)


@sound
def selected_twice(x, j: Axis, k: Axis, g: IdempotentMonoid):
    """reduce_j reduce_k x = reduce_k x, for x constant along j, and a reduction with x + x = x."""
    return Reduce(g, j, Reduce(g, k, x)), Reduce(g, k, x), free(x, j), NonEmpty(j), idempotent(g)


@unsound("monoid", "TASO: maximum of weighted values", "both maxima may be at different places", lambda: (max(1 * 4.0, 3 * 1.0), 3 * 4.0))
def maximum_of_product(x, y, k: Axis):
    """max_k x*y = max_k x * max_k y for finite x, y > 0."""
    return Max(k, x * y), Max(k, x) * Max(k, y), positive(x), positive(y), finite(x), finite(y), NonEmpty(k)


@sound
def maximum_of_product_with_constant(x, y, k: Axis):
    """max_k x*y = max_k x * max_k y for finite x, y > 0, y constant along k."""
    return Max(k, x * y), Max(k, x) * Max(k, y), positive(x), positive(y), finite(x), finite(y), NonEmpty(k), free(y, k)


@unsound("term lost", "kind: norm", "the square of a sum is no sum of squares", lambda: (np.sqrt(np.sum(x**2)), np.sum(np.abs(x))))
def norm_as_sum_of_sizes(x, k: Axis):
    """sqrt(sum_k x^2) = sum_k |x|."""
    return Map("sqrt", Sum(k, Map("square", x))), Sum(k, Map("abs", x))


@unsound("count", "kind: sum of positions", "positions start at 0", lambda: (np.arange(4.0).sum(), 10.0))
def positions_from_one(k: Axis):
    """sum_k index(k) = size(k) * (size(k) + 1) / 2."""
    return Sum(k, Index(k)), Extent(k) * (Extent(k) + 1.0) * 0.5


@sound
def positions_from_zero(k: Axis):
    """sum_k index(k) = size(k) * (size(k) - 1) / 2."""
    return Sum(k, Index(k)), Extent(k) * (Extent(k) - 1.0) * 0.5


@unsound("empty axis", "kind: last position", "the maximum of nothing is -inf", lambda: (-inf, -1.0))
def last_position_of_any(k: Axis):
    """max_k index(k) = size(k) - 1."""
    return Max(k, Index(k)), Extent(k) - 1.0


@sound
def last_position(k: Axis):
    """max_k index(k) = size(k) - 1."""
    return Max(k, Index(k)), Extent(k) - 1.0, NonEmpty(k)


@unsound("empty axis", "kind: middle position", "the mean of nothing is 0", lambda: (0.0, -0.5))
def middle_position_of_any(k: Axis):
    """mean_k index(k) = (size(k) - 1) / 2."""
    return Mean(k, Index(k)), (Extent(k) - 1.0) * 0.5


@sound
def middle_position(k: Axis):
    """mean_k index(k) = (size(k) - 1) / 2."""
    return Mean(k, Index(k)), (Extent(k) - 1.0) * 0.5, NonEmpty(k)


@unsound("extent", "kind: length of a causal row", "rows beyond the last column do not grow", lambda: (3.0, 5.0))
def causal_length(j: Axis, k: Axis):
    """sum_k (index(k) <= index(j)) = index(j) + 1."""
    return Sum(k, Map("le", Index(k), Index(j))), Index(j) + 1.0


@sound
def causal_length_within_columns(j: Axis, k: Axis):
    """sum_k (index(k) <= index(j)) = min(index(j) + 1, size(k))."""
    return Sum(k, Map("le", Index(k), Index(j))), Map("minimum", Index(j) + 1.0, Extent(k)), OtherAxis(j, k)


@unsound("position", "halide: loop bound off by one", "the last element is not summed", lambda: (np.sum(x[:-1]), np.sum(x)))
def bound_off_by_one(x, k: Axis):
    """sum_k where(index(k) < size(k) - 1, x, 0) = sum_k x."""
    return Sum(k, Where(Map("lt", Index(k), Extent(k) - 1.0), x, 0.0)), Sum(k, x)


@sound
def bound_at_end(x, k: Axis):
    """sum_k where(index(k) < size(k), x, 0) = sum_k x."""
    return Sum(k, Where(Map("lt", Index(k), Extent(k)), x, 0.0)), Sum(k, x)


@unsound("extent", "kind: gather by a one-hot", "position j may be past the end of k", lambda: (0.0, 7.0))
def one_hot_gather(x, j: Axis, k: Axis):
    """sum_k where(index(j) == index(k), x, 0) = x, for x constant along k."""
    return Sum(k, Where(Map("eq", Index(j), Index(k)), x, 0.0)), x, free(x, k)


@sound
def one_hot_gather_in_range(x, j: Axis, k: Axis):
    """sum_k where(index(j) == index(k), x, 0) = where(index(j) < size(k), x, 0), for x constant along k."""
    left = Sum(k, Where(Map("eq", Index(j), Index(k)), x, 0.0))
    return left, Where(Map("lt", Index(j), Extent(k)), x, 0.0), free(x, k), OtherAxis(j, k)


@unsound("empty axis", "kind: any as a maximum", "the maximum of nothing is -inf, and nothing is false", lambda: (-inf, 0.0))
def any_by_maximum(c, k: Axis):
    """max_k c = (sum_k c > 0) for truth values."""
    return Max(k, c), Map("gt", Sum(k, c), Const(0.0)), truth(c)


@sound
def any_by_maximum_of_something(c, k: Axis):
    """max_k c = (sum_k c > 0) for truth values."""
    return Max(k, c), Map("gt", Sum(k, c), Const(0.0)), truth(c), NonEmpty(k)


@unsound("monoid", "kind: all by the sum", "all is a count, and not any", lambda: (1.0, 0.0))
def all_by_sum(c, k: Axis):
    """(sum_k c > 0) = (sum_k c == size(k)) for truth values."""
    return Map("gt", Sum(k, c), Const(0.0)), Map("eq", Sum(k, c), Extent(k)), truth(c), NonEmpty(k)


@sound
def all_by_minimum(c, k: Axis):
    """min_k c = (sum_k c == size(k)) for truth values."""
    return Reduce("min", k, c), Map("eq", Sum(k, c), Extent(k)), truth(c), NonEmpty(k)


@unsound("infinity", "tvm#13359: mask by multiplication before a sum", "0 * inf is NaN", lambda: (0 * inf + 1.0, 1.0))
def masked_sum_by_product(c, x, k: Axis):
    """sum_k c*x = sum_k where(c, x, 0) for truth values c."""
    return Sum(k, c * x), Sum(k, Where(c, x, 0.0)), truth(c)


@sound
def masked_sum_of_finite_by_product(c, x, k: Axis):
    """sum_k c*x = sum_k where(c, x, 0) for truth values c and finite x."""
    return Sum(k, c * x), Sum(k, Where(c, x, 0.0)), truth(c), finite(x)


@unsound("count", "kind: mean of a masked row", "the mean of what is chosen counts only that", lambda: (np.mean([1.0, 0, 0]), 1.0))
def masked_mean(c, x, k: Axis):
    """mean_k where(c, x, 0) = sum_k where(c, x, 0) / sum_k c for truth values c."""
    kept = Where(c, x, 0.0)
    return Mean(k, kept), Sum(k, kept) / Sum(k, c), truth(c), NonEmpty(k)


@sound
def masked_mean_counted(c, x, k: Axis):
    """mean_k where(c, x, 0) = sum_k where(c, x, 0) / size(k) for truth values c."""
    kept = Where(c, x, 0.0)
    return Mean(k, kept), Sum(k, kept) / Extent(k), truth(c), NonEmpty(k)


@unsound("sign", "kind: Cauchy", "the product of norms bounds the product of vectors, and is not it", lambda: (0.0, 2.0))
def product_of_norms(x, y, k: Axis):
    """(sum_k x*y)^2 = sum_k x^2 * sum_k y^2."""
    return Map("square", Sum(k, x * y)), Sum(k, Map("square", x)) * Sum(k, Map("square", y))


@unsound("count", "kind: mean of a sum along another axis", "the sum is not divided", lambda: (x2.mean(0).mean(), x2.mean(0).sum()))
def mean_of_means_is_sum(x, j: Axis, k: Axis):
    """mean_j mean_k x = mean_k sum_j x."""
    return Mean(j, Mean(k, x)), Mean(k, Sum(j, x))


@sound
def means_exchanged(x, j: Axis, k: Axis):
    """mean_j mean_k x = mean_k mean_j x."""
    return Mean(j, Mean(k, x)), Mean(k, Mean(j, x))


@unsound("sign", "kind: largest of nonneg sums", "a sum of numbers is at least its largest only if none is negative", lambda: (max(3.0 - 1.0, 3.0), 3.0 - 1.0))
def sum_covers_maximum(x, k: Axis):
    """max(sum_k x, max_k x) = sum_k x."""
    return Map("maximum", Sum(k, x), Max(k, x)), Sum(k, x)


@sound
def sum_of_nonneg_covers_maximum(x, k: Axis):
    """max(sum_k x, max_k x) = sum_k x for x >= 0."""
    return Map("maximum", Sum(k, x), Max(k, x)), Sum(k, x), nonneg(x)
