"""Softmax and attention: references that are -inf, masks that are numbers, rows without any score."""

import math

import numpy as np

from eqfuse.rewrites import Axis, Const, Map, Max, NonEmpty, Sum, Where, finite, finite_or, free, nonneg
from eqfuse.rewrites.patterns import NumberLiteral

from . import sound, unsound

inf, nan = np.inf, np.nan
NOTHING = Const(-math.inf)


def exp(x):
    return Map("exp", x)


def safe(m):
    """A reference of -inf replaced by 0."""
    return Where(Map("eq", m, NOTHING), 0.0, m)


@unsound("infinity", "pytorch#163932, pytorch#184046", "next to an infinite score a finite one has weight 0 without the maximum, and NaN with it", lambda: (np.exp(1.0) * (1 / inf), np.exp(1.0 - inf) * (1 / nan)))
def softmax_with_reference(x, k: Axis):
    """exp x / sum_k exp x = exp(x - m) / sum_k exp(x - m), m = max_k x."""
    shifted = exp(x - Max(k, x))
    return exp(x) / Sum(k, exp(x)), shifted / Sum(k, shifted)


@sound
def softmax_of_finite_with_reference(x, k: Axis):
    """exp x / sum_k exp x = exp(x - m) / sum_k exp(x - m), m = max_k x, for finite x."""
    shifted = exp(x - Max(k, x))
    return exp(x) / Sum(k, exp(x)), shifted / Sum(k, shifted), finite(x), NonEmpty(k)


@unsound("guard lost", "burn#4694, flashinfer#1178", "-inf - -inf is NaN in a row without scores, whose sum is 0", lambda: (0.0, np.exp(-inf) * nan))
def sum_of_exponentials_by_reference(x, k: Axis):
    """sum_k exp x = exp(m) * sum_k exp(x - m), m = max_k x."""
    m = Max(k, x)
    return Sum(k, exp(x)), exp(m) * Sum(k, exp(x - m))


@sound
def sum_of_exponentials_by_safe_reference(x, k: Axis):
    """sum_k exp x = exp(m) * sum_k exp(x - m), m = max_k x, or 0 where that is -inf."""
    m = safe(Max(k, x))
    return Sum(k, exp(x)), exp(m) * Sum(k, exp(x - m))


@unsound("guard lost", "flash-attention#76: rows of a mask that are all false", "the guard is on one side only", lambda: (0.0, nan))
def reference_guarded_outside_only(x, k: Axis):
    """sum_k exp x = exp(m') * sum_k exp(x - m), m' = 0 where m = max_k x is -inf."""
    m = Max(k, x)
    return Sum(k, exp(x)), exp(safe(m)) * Sum(k, exp(x - m))


@unsound("guard lost", "pytorch#130014", "exp(-inf - m) * exp(m - n) is NaN where m is -inf", lambda: (np.exp(-inf - 1.0), np.exp(-inf - -inf) * np.exp(-inf - 1.0)))
def references_exchanged(x, m, n):
    """exp(x - m) * exp(m - n) = exp(x - n)."""
    return exp(x - m) * exp(m - n), exp(x - n)


@sound
def finite_references_exchanged(x, m, n):
    """exp(x - m) * exp(m - n) = exp(x - n) for finite m."""
    return exp(x - m) * exp(m - n), exp(x - n), finite(m)


@unsound("guard lost", "cubecl#1070", "0 times NaN is NaN: the guard comes too late", lambda: (0.0, nan * 0.0))
def guard_after_the_factor(x, m, n):
    """exp(x - m) * where(m == -inf, 0, exp(m - n)) = exp(x - n) for finite n, and x <= m."""
    x = Map("minimum", x, m)
    return exp(x - m) * Where(Map("eq", m, NOTHING), 0.0, exp(m - n)), exp(x - n), finite(n)


@sound
def guard_before_the_factor(x, m, n):
    """where(m == -inf, 0, exp(x - m) * exp(m - n)) = exp(x - n) for finite n, m finite or -inf, and finite x, at most m."""
    y = Map("minimum", x, m)
    return Where(Map("eq", m, NOTHING), 0.0, exp(y - m) * exp(m - n)), exp(y - n), finite(x), finite(n), finite_or(m, NumberLiteral(-math.inf))


@unsound("term lost", "kind: online softmax without rescaling", "the sum at another reference has another factor", lambda: (np.exp(0.0 - 5.0) / np.exp(1.0), np.exp(0.0 - 1.0)))
def reference_changed_without_factor(x, m, n, k: Axis):
    """sum_k exp(x - m) / exp(n) = sum_k exp(x - n), for finite m, n constant along k."""
    return Sum(k, exp(x - m)) / exp(n), Sum(k, exp(x - n)), finite(m), finite(n), free(m, k), free(n, k)


@unsound("sign", "kind: online softmax rescaled the wrong way", "the factor is exp(m - n)", lambda: (np.exp(0.0 - 1.0), np.exp(1.0) * np.exp(0.0)))
def reference_changed_by_inverse(x, m, n, k: Axis):
    """exp(n - m) * sum_k exp(x - m) = sum_k exp(x - n), for finite m, n constant along k."""
    return exp(n - m) * Sum(k, exp(x - m)), Sum(k, exp(x - n)), finite(m), finite(n), free(m, k), free(n, k)


@sound
def reference_changed(x, m, n, k: Axis):
    """exp(m - n) * sum_k exp(x - m) = sum_k exp(x - n), for finite m, n constant along k."""
    return exp(m - n) * Sum(k, exp(x - m)), Sum(k, exp(x - n)), finite(m), finite(n), free(m, k), free(n, k)


@unsound("axis confused", "Triton: an axis of a maximum that is a tensor", "the reference changes along the axis", lambda: (np.exp(1.0) + np.exp(2.0), np.exp(1.0) * (np.exp(0.0) + np.exp(1.0 - 5.0))))
def reference_that_depends(x, m, k: Axis):
    """exp(m) * sum_k exp(x - m) = sum_k exp x, for finite m."""
    return exp(m) * Sum(k, exp(x - m)), Sum(k, exp(x)), finite(m)


@sound
def reference_that_is_constant(x, m, k: Axis):
    """exp(m) * sum_k exp(x - m) = sum_k exp x, for finite m constant along k."""
    return exp(m) * Sum(k, exp(x - m)), Sum(k, exp(x)), finite(m), free(m, k)


@unsound("constants", "burn#4697: the maximum clamped at -1e4", "rows may lie below -1e4", lambda: (np.exp(-2e4 + 1e4), np.exp(-2e4 + 2e4)))
def reference_clamped(x, k: Axis):
    """exp(x - max(m, -10000)) = exp(x - m), m = max_k x, for finite x."""
    m = Max(k, x)
    return exp(x - Map("maximum", m, Const(-1e4))), exp(x - m), finite(x), NonEmpty(k)


@unsound("epsilon", "burn#4697: the sum clamped at 1e-6", "a row without scores is 0 with the clamp, and NaN without", lambda: (0 / max(0.0, 1e-6), 0 / np.float64(0)))
def denominator_clamped(x, k: Axis):
    """exp x / max(sum_k exp x, 1e-6) = exp x / sum_k exp x."""
    total = Sum(k, exp(x))
    return exp(x) / Map("maximum", total, Const(1e-6)), exp(x) / total


@sound
def denominator_of_shifted_clamped(x, k: Axis):
    """exp(x - m) / max(sum_k exp(x - m), 1e-6) = exp(x - m) / sum_k exp(x - m), m = max_k x: that sum is at least 1."""
    shifted = exp(x - Max(k, x))
    total = Sum(k, shifted)
    return shifted / Map("maximum", total, Const(1e-6)), shifted / total, NonEmpty(k)


@unsound("infinity", "kind: probabilities add up to 1", "not in a row without scores, nor with an infinite one", lambda: (nan, 1.0))
def probabilities_add_up(x, k: Axis):
    """sum_k exp x / sum_k exp x = 1."""
    return Sum(k, exp(x) / Sum(k, exp(x))), Const(1.0), NonEmpty(k)


@sound
def probabilities_of_finite_add_up(x, k: Axis):
    """sum_k exp x / sum_k exp x = 1 for finite x."""
    return Sum(k, exp(x) / Sum(k, exp(x))), Const(1.0), NonEmpty(k), finite(x)


@unsound("empty axis", "pytensor#603", "nothing adds up to 0", lambda: (0.0, 1.0))
def probabilities_of_nothing_add_up(x, k: Axis):
    """sum_k exp x / sum_k exp x = 1 for finite x."""
    return Sum(k, exp(x) / Sum(k, exp(x))), Const(1.0), finite(x)


@unsound("axis confused", "pytorch#195320: softmax along another axis", "each axis has its own sum", lambda: (0.5 - 1.0, 0.0))
def softmax_along_any_axis(x, j: Axis, k: Axis):
    """exp x / sum_j exp x - exp x / sum_k exp x = 0."""
    return exp(x) / Sum(j, exp(x)) - exp(x) / Sum(k, exp(x)), Const(0.0)


@unsound("term lost", "kind: cross entropy with a masked maximum", "the logarithm of the sum is what is subtracted, not the maximum", lambda: (np.log(np.exp(0.0) + np.exp(-1.0)), 0.0))
def logsumexp_is_maximum(x, k: Axis):
    """log(sum_k exp x) = max_k x."""
    return Map("log", Sum(k, exp(x))), Max(k, x)


@unsound("constants", "flashinfer#4401: a sentinel of 5e4", "scores below the sentinel are hidden by what is masked", lambda: (-5e4, -6e4))
def sentinel_instead_of_infinity(c, x, k: Axis):
    """max_k where(c, x, -50000) = max_k where(c, x, -inf), where that is finite."""
    hidden = Max(k, Where(c, x, -math.inf))
    seen = Map("ne", hidden, NOTHING)
    return Where(seen, Max(k, Where(c, x, -5e4)), 0.0), Where(seen, hidden, 0.0), finite(x)


@unsound("order of a clamp", "kind: mask before scaling", "a negative scale makes +inf of a mask", lambda: (np.exp(-1.0 * -inf), 0.0))
def mask_before_scale(c, x, s):
    """exp(s * where(c, x, -inf)) = where(c, exp(s*x), 0) for finite s >= 0."""
    return exp(s * Where(c, x, -math.inf)), Where(c, exp(s * x), 0.0), finite(s), nonneg(s)


@sound
def mask_before_positive_scale(c, x):
    """exp(0.125 * where(c, x, -inf)) = where(c, exp(0.125*x), 0)."""
    return exp(0.125 * Where(c, x, -math.inf)), Where(c, exp(0.125 * x), 0.0)


@unsound("term lost", "kind: dropped values of masked keys", "the values of masked keys may be infinite", lambda: (0 * inf, 0.0))
def masked_weights_times_values(c, x, v, k: Axis):
    """sum_k where(c, exp x, 0) * v = sum_k where(c, exp x * v, 0)."""
    return Sum(k, Where(c, exp(x), 0.0) * v), Sum(k, Where(c, exp(x) * v, 0.0))


@sound
def masked_weights_times_finite_values(c, x, v, k: Axis):
    """sum_k where(c, exp x, 0) * v = sum_k where(c, exp x * v, 0) for finite v."""
    return Sum(k, Where(c, exp(x), 0.0) * v), Sum(k, Where(c, exp(x) * v, 0.0)), finite(v)


@unsound("zero", "kind: denominators multiplied", "normalising after the sum divides by what may be 0", lambda: (0.0, 0.0 * (1 / np.float64(0))))
def normalised_after_the_sum(p, v, k: Axis):
    """sum_k where(s == 0, 0, p/s) * v = (sum_k p*v) / s, s = sum_k p, for finite p, v >= 0."""
    s = Sum(k, p)
    weights = Where(Map("eq", s, Const(0.0)), 0.0, p / s)
    return Sum(k, weights * v), Sum(k, p * v) / s, nonneg(p), nonneg(v), finite(p), finite(v)


@sound
def normalised_after_the_sum_with_guard(p, v, k: Axis):
    """sum_k where(s == 0, 0, p/s) * v = where(s == 0, 0, (sum_k p*v) / s), s = sum_k p, for finite p, v >= 0."""
    s = Sum(k, p)
    nothing = Map("eq", s, Const(0.0))
    weights = Where(nothing, 0.0, p / s)
    return Sum(k, weights * v), Where(nothing, 0.0, Sum(k, p * v) / s), nonneg(p), nonneg(v), finite(p), finite(v)
