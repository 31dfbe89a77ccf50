"""Minima, maxima, clamps, comparisons, choices and logic."""

import math

import numpy as np

from eqfuse.rewrites import (
    Axis,
    Const,
    Extent,
    Index,
    Map,
    Max,
    NonEmpty,
    Nonzero,
    Op1,
    OtherAxis,
    Reduce,
    Scalar,
    Sum,
    Where,
    finite,
    free,
    increasing,
    less,
    nonneg,
    positive,
    truth,
)

from . import sound, unsound

nan, inf = np.nan, np.inf


def clamp(x, low, high):
    """The minimum last: where low > high, it is high."""
    return Map("minimum", Map("maximum", x, Const(low)), Const(high))


@unsound("order of a clamp", "openxla/xla, tvm: clamp as min of max", "where the bounds are the wrong way round, the last one counts", lambda: (min(max(0.0, 2.0), 1.0), max(min(0.0, 1.0), 2.0)))
def clamp_from_either_end(x, a: Scalar, b: Scalar):
    """min(max(x, a), b) = max(min(x, b), a) for any constants."""
    return clamp(x, a, b), Map("maximum", Map("minimum", x, Const(b)), Const(a))


@sound
def clamp_of_unit_from_either_end(x):
    """min(max(x, -1), 1) = max(min(x, 1), -1)."""
    return clamp(x, -1.0, 1.0), Map("maximum", Map("minimum", x, Const(1.0)), Const(-1.0))


@unsound("order of a clamp", "r-xla/anvl#545: clamp by comparisons", "where the bounds are the wrong way round, the first comparison wins", lambda: (min(max(0.0, 2.0), 1.0), 2.0))
def clamp_by_comparisons(x, a: Scalar, b: Scalar):
    """min(max(x, a), b) = where(x < a, a, where(x > b, b, x)) for any constants."""
    return clamp(x, a, b), Where(Map("lt", x, Const(a)), Const(a), Where(Map("gt", x, Const(b)), Const(b), x))


@sound
def clamp_of_unit_by_comparisons(x):
    """min(max(x, -1), 1) = where(x < -1, -1, where(x > 1, 1, x))."""
    return clamp(x, -1.0, 1.0), Where(Map("lt", x, Const(-1.0)), -1.0, Where(Map("gt", x, Const(1.0)), 1.0, x))


@unsound("order of a clamp", "onnxruntime#11836, onnxruntime#10936: FuseReluClip", "the relu raises the lower bound to 0", lambda: (min(max(max(-0.5, 0), -1), 1), min(max(-0.5, -1), 1)))
def clip_takes_relu(x):
    """clip(relu(x), -1, 1) = clip(x, -1, 1)."""
    return clamp(Map("maximum", x, Const(0.0)), -1.0, 1.0), clamp(x, -1.0, 1.0)


@sound
def clip_takes_relu_as_bound(x):
    """clip(relu(x), -1, 1) = clip(x, 0, 1)."""
    return clamp(Map("maximum", x, Const(0.0)), -1.0, 1.0), clamp(x, 0.0, 1.0)


@unsound("order of a clamp", "halide: nested clamps", "the inner clamp is not covered by the outer one", lambda: (min(max(min(max(8.0, 0), 6), 0), 10), min(max(8.0, 0), 10)))
def inner_clamp_dropped(x):
    """clip(clip(x, 0, 6), 0, 10) = clip(x, 0, 10)."""
    return clamp(clamp(x, 0.0, 6.0), 0.0, 10.0), clamp(x, 0.0, 10.0)


@sound
def outer_clamp_dropped(x):
    """clip(clip(x, 0, 6), 0, 10) = clip(x, 0, 6)."""
    return clamp(clamp(x, 0.0, 6.0), 0.0, 10.0), clamp(x, 0.0, 6.0)


@unsound("NaN", "halide, tvm: min(max(x, y), y)", "NaN passes through the maximum, and y has none", lambda: (np.minimum(np.maximum(nan, 1.0), 1.0), 1.0))
def maximum_absorbed(x, y):
    """min(max(x, y), y) = y."""
    return Map("minimum", Map("maximum", x, y), y), y


@sound
def maximum_of_finite_absorbed(x, y):
    """min(max(x, y), y) = y for finite x."""
    return Map("minimum", Map("maximum", x, y), y), y, finite(x)


@unsound("order of a clamp", "halide: min(max(x, y), z)", "maximum and minimum do not change places", lambda: (min(max(1.0, 3.0), 2.0), max(min(1.0, 2.0), 3.0)))
def maximum_leaves_minimum(x, y, z):
    """min(max(x, y), z) = max(min(x, z), y)."""
    return Map("minimum", Map("maximum", x, y), z), Map("maximum", Map("minimum", x, z), y)


@sound
def minimum_over_maximum(x, y, z):
    """min(max(x, y), z) = max(min(x, z), min(y, z))."""
    return Map("minimum", Map("maximum", x, y), z), Map("maximum", Map("minimum", x, z), Map("minimum", y, z))


@unsound("sign", "halide#6174: max(x, y) - min(x, y)", "the larger less the smaller is never negative", lambda: (3.0 - 1.0, 1.0 - 3.0))
def ends_subtracted(x, y):
    """max(x, y) - min(x, y) = x - y."""
    return Map("maximum", x, y) - Map("minimum", x, y), x - y


@sound
def ends_multiplied(x, y):
    """max(x, y) * min(x, y) = x * y."""
    return Map("maximum", x, y) * Map("minimum", x, y), x * y


@unsound("comparison", "kind: max(x, y) == y as x < y", "equal numbers are both the maximum", lambda: (1.0, 0.0))
def second_is_the_maximum(x, y):
    """(max(x, y) == y) = (x < y)."""
    return Map("eq", Map("maximum", x, y), y), Map("lt", x, y)


@sound
def second_is_the_maximum_or_equal(x, y):
    """(max(x, y) == y) = (x <= y)."""
    return Map("eq", Map("maximum", x, y), y), Map("le", x, y)


@unsound("NaN", "tvm#3029, LLVM InstCombine: inverted comparison", "NaN is neither below nor not below", lambda: (float(not nan < 1), float(nan >= 1)))
def comparison_inverted(x, y):
    """not (x < y) = (x >= y)."""
    return Map("not", Map("lt", x, y)), Map("ge", x, y)


@sound
def comparison_of_finite_inverted(x, y):
    """not (x < y) = (x >= y) for finite x, y."""
    return Map("not", Map("lt", x, y)), Map("ge", x, y), finite(x), finite(y)


@sound(licence="exact")
def equality_inverted(x, y):
    """not (x == y) = (x != y), to the last bit."""
    return Map("not", Map("eq", x, y)), Map("ne", x, y)


@unsound("NaN", "tvm#3029", "neither holds of NaN", lambda: (float(nan < 1 or nan >= 1), 1.0))
def one_of_two_comparisons(x, y):
    """(x < y or x >= y) = 1."""
    return Map("or", Map("lt", x, y), Map("ge", x, y)), Const(1.0)


@sound
def either_holds_or_not(c):
    """(c or not c) = 1."""
    return Map("or", c, Map("not", c)), Const(1.0)


@unsound("NaN", "hexagon: llvm#210132, xdsl#4251", "with the arms exchanged NaN takes the other one", lambda: (2.0, nan))
def choice_by_inverted_comparison(x, y):
    """where(x < y, x, y) = where(x >= y, y, x)."""
    return Where(Map("lt", x, y), x, y), Where(Map("ge", x, y), y, x)


@sound
def choice_by_inverted_comparison_of_finite(x, y):
    """where(x < y, x, y) = where(x >= y, y, x) for finite x, y."""
    return Where(Map("lt", x, y), x, y), Where(Map("ge", x, y), y, x), finite(x), finite(y)


@sound
def choice_by_negation(c, x, y):
    """where(not c, x, y) = where(c, y, x)."""
    return Where(Map("not", c), x, y), Where(c, y, x)


@unsound("NaN", "triton-shared#21: select by comparison with 0 as a maximum", "a choice by comparison turns NaN into 0, the maximum keeps it", lambda: (0.0, nan))
def relu_by_choice(x):
    """where(x > 0, x, 0) = max(x, 0)."""
    return Where(Map("gt", x, Const(0.0)), x, 0.0), Map("maximum", x, Const(0.0))


@sound
def relu_by_choice_that_keeps_nan(x):
    """where(x <= 0, 0, x) = max(x, 0)."""
    return Where(Map("le", x, Const(0.0)), 0.0, x), Map("maximum", x, Const(0.0))


@unsound("NaN", "llvm#213029", "x != a is true of NaN, which is then chosen", lambda: (nan, 5.0))
def choice_by_inequality(x, y, a: Scalar):
    """where(x != a, y, x) = where(x == a, a, y), and NaN gives a."""
    return Where(Map("ne", x, Const(a)), x, y), Where(Map("lt", x, Const(a)), x, Where(Map("gt", x, Const(a)), x, y))


@unsound("infinity", "LLVM InstCombine: fcmp of a difference", "inf - inf is NaN, but inf == inf", lambda: (float(inf == inf), float(inf - inf == 0)))
def equality_by_difference(x, y):
    """(x == y) = (x - y == 0)."""
    return Map("eq", x, y), Map("eq", x - y, Const(0.0))


@sound
def equality_of_finite_by_difference(x, y):
    """(x == y) = (x - y == 0) for finite x, y."""
    return Map("eq", x, y), Map("eq", x - y, Const(0.0)), finite(x), finite(y)


@unsound("zero", "llvm#205003", "the factor may be 0", lambda: (float(1.0 * 0 == 2.0 * 0), 0.0))
def factor_cancelled_in_equality(x, y, a: Scalar):
    """(a*x == a*y) = (x == y) for any constant a."""
    return Map("eq", x * Const(a), y * Const(a)), Map("eq", x, y)


@sound
def nonzero_factor_cancelled_in_equality(x, y, a: Scalar):
    """(a*x == a*y) = (x == y) for a finite constant a that is not 0."""
    return Map("eq", x * Const(a), y * Const(a)), Map("eq", x, y), Nonzero(a), less(a, inf), less(-inf, a)


@unsound("sign", "llvm#205003", "a negative factor turns a comparison round", lambda: (float(1.0 * -1 < 2.0 * -1), 1.0))
def factor_cancelled_in_comparison(x, y, a: Scalar):
    """(a*x < a*y) = (x < y) for a constant a that is not 0."""
    return Map("lt", x * Const(a), y * Const(a)), Map("lt", x, y), Nonzero(a)


@sound
def positive_factor_cancelled_in_comparison(x, y):
    """(2*x < 2*y) = (x < y)."""
    return Map("lt", x * 2.0, y * 2.0), Map("lt", x, y)


@unsound("sign", "kind: comparison of reciprocals", "reciprocals change their order only on one side of 0", lambda: (float(1 / -1.0 < 1 / 1.0), float(1.0 < -1.0)))
def reciprocals_compared(x, y):
    """(1/x < 1/y) = (y < x)."""
    return Map("lt", Map("recip", x), Map("recip", y)), Map("lt", y, x)


@sound
def reciprocals_of_positive_compared(x, y):
    """(1/x < 1/y) = (y < x) for x, y > 0."""
    return Map("lt", Map("recip", x), Map("recip", y)), Map("lt", y, x), positive(x), positive(y)


@unsound("sign", "kind: comparison of squares", "-3 has the larger square and is less", lambda: (float(1.0 < 9.0), float(1.0 < -3.0)))
def squares_compared(x, y):
    """(x^2 < y^2) = (x < y)."""
    return Map("lt", Map("square", x), Map("square", y)), Map("lt", x, y)


@sound
def squares_of_nonneg_compared(x, y):
    """(x^2 < y^2) = (x < y) for x, y >= 0."""
    return Map("lt", Map("square", x), Map("square", y)), Map("lt", x, y), nonneg(x), nonneg(y)


@unsound("whole numbers", "tvm#14528", "between x - 1 and x there are other numbers", lambda: (float(2.5 - 1 < 2), float(2.5 <= 2)))
def less_by_one(x, y):
    """(x - 1 < y) = (x <= y)."""
    return Map("lt", x - 1.0, y), Map("le", x, y)


@sound
def less_by_one_of_positions(j: Axis, k: Axis):
    """(index(j) - 1 < index(k)) = (index(j) <= index(k))."""
    return Map("lt", Index(j) - 1.0, Index(k)), Map("le", Index(j), Index(k))


@unsound("whole numbers", "tvm#18025", "a remainder below 2 matters unless x is whole", lambda: (float(2 * 3.7 + 1 < 8), float(3.7 < 4)))
def remainder_dropped_in_comparison(x, c):
    """(2*x + c < 8) = (x < 4) for a truth value c."""
    return Map("lt", x * 2.0 + c, Const(8.0)), Map("lt", x, Const(4.0)), truth(c)


@sound
def remainder_dropped_in_comparison_of_positions(c, k: Axis):
    """(2*index(k) + c < 8) = (index(k) < 4) for a truth value c."""
    return Map("lt", Index(k) * 2.0 + c, Const(8.0)), Map("lt", Index(k), Const(4.0)), truth(c)


@unsound("select", "halide: nested selects", "both conditions choose x, not either", lambda: (2.0, 1.0))
def nested_choice_by_either(c, d, x, y):
    """where(c, where(d, x, y), y) = where(c or d, x, y)."""
    return Where(c, Where(d, x, y), y), Where(Map("or", c, d), x, y)


@sound
def nested_choice_by_both(c, d, x, y):
    """where(c, where(d, x, y), y) = where(c and d, x, y)."""
    return Where(c, Where(d, x, y), y), Where(Map("and", c, d), x, y)


@unsound("select", "halide#7811: select of equal arms", "two conditions choose apart", lambda: (1.0 + 1.0, 1.0 + 2.0))
def choices_complementary(c, d, x, y):
    """where(c, x, y) + where(d, y, x) = x + y."""
    return Where(c, x, y) + Where(d, y, x), x + y


@sound
def choices_of_one_condition_complementary(c, x, y):
    """where(c, x, y) + where(c, y, x) = x + y."""
    return Where(c, x, y) + Where(c, y, x), x + y


@unsound("domain", "kind: guard of a root", "the root of a negative number is NaN, the choice is 0", lambda: (0.0, np.sqrt(-1.0)))
def root_unguarded(x):
    """where(x > 0, sqrt(x), 0) = sqrt(x)."""
    return Where(Map("gt", x, Const(0.0)), Map("sqrt", x), 0.0), Map("sqrt", x)


@sound
def root_of_finite_nonneg_unguarded(x):
    """where(x > 0, sqrt(x), 0) = sqrt(x) for finite x >= 0."""
    return Where(Map("gt", x, Const(0.0)), Map("sqrt", x), 0.0), Map("sqrt", x), nonneg(x), finite(x)


@unsound("cast", "kind: logic by arithmetic", "numbers are true without being 1", lambda: (1.0, 3.0))
def or_by_maximum(x, y):
    """x or y = max(x, y)."""
    return Map("or", x, y), Map("maximum", x, y)


@sound
def or_of_truths_by_maximum(x, y):
    """x or y = max(x, y) for truth values."""
    return Map("or", x, y), Map("maximum", x, y), truth(x), truth(y)


@unsound("cast", "kind: logic by arithmetic", "not 2 is 0, and 1 - 2 is -1", lambda: (float(not 2.0), 1.0 - 2.0))
def not_by_subtraction(x):
    """not x = 1 - x."""
    return Map("not", x), 1.0 - x


@sound
def not_of_truth_by_subtraction(x):
    """not x = 1 - x for a truth value."""
    return Map("not", x), 1.0 - x, truth(x)


@unsound("select", "kind: sum of a choice", "the condition changes along the axis", lambda: (1.0 + 20.0, 1.0 + 2.0))
def choice_out_of_sum(c, x, y, k: Axis):
    """sum_k where(c, x, y) = where(c, sum_k x, sum_k y)."""
    return Sum(k, Where(c, x, y)), Where(c, Sum(k, x), Sum(k, y))


@sound
def constant_choice_out_of_sum(c, x, y, k: Axis):
    """sum_k where(c, x, y) = where(c, sum_k x, sum_k y), for c constant along k."""
    return Sum(k, Where(c, x, y)), Where(c, Sum(k, x), Sum(k, y)), free(c, k)


@unsound("identity of padding", "kind: maximum padded with 0", "0 is more than all negative numbers", lambda: (0.0, -3.0))
def maximum_padded_with_zero(c, x, k: Axis):
    """max_k where(c, x, 0) = max_k where(c, x, -inf)."""
    return Max(k, Where(c, x, 0.0)), Max(k, Where(c, x, -math.inf))


@sound
def maximum_of_nonneg_padded_with_zero(c, x, k: Axis):
    """max_k where(c, x, 0) = max(max_k where(c, x, -inf), 0) for x >= 0."""
    return Max(k, Where(c, x, 0.0)), Map("maximum", Max(k, Where(c, x, -math.inf)), Const(0.0)), nonneg(x), NonEmpty(k)


@unsound("identity of padding", "openxla/xla#48715", "-1e4 is less than most numbers, and not than all", lambda: (-1e4, -1e5))
def maximum_padded_with_large_number(c, x, k: Axis):
    """max_k where(c, x, -10000) = max_k where(c, x, -inf) where c holds somewhere."""
    some = Max(k, Where(c, 1.0, 0.0))
    return some * Max(k, Where(c, x, -10000.0)), some * Max(k, Where(c, x, -10000.0 - 10000.0)), finite(x), NonEmpty(k)


@unsound("ties", "tensorflow#116436: ArgMin of relu", "several numbers have one floor", lambda: (np.array([1.0, 1.0]), np.array([0.0, 1.0])))
def largest_by_floor(x, k: Axis):
    """(floor(x) == max_k floor(x)) = (x == max_k x) for finite x."""
    down = Map("floor", x)
    return Map("eq", down, Max(k, down)), Map("eq", x, Max(k, x)), finite(x)


@unsound("ties", "tensorflow#118675, tensorflow#122826", "an increasing function may be flat, or not defined", lambda: (np.array([1.0, 1.0]), np.array([0.0, 1.0])))
def largest_by_any_increasing(x, k: Axis, o: Op1):
    """(o(x) == max_k o(x)) = (x == max_k x) for every increasing o."""
    return Map("eq", Map(o, x), Max(k, Map(o, x))), Map("eq", x, Max(k, x)), increasing(o), finite(x)


@unsound("domain", "tensorflow#122826: max(f(x)) as f(max(x))", "sqrt(-1) is NaN, and the maximum with it", lambda: (np.maximum(np.sqrt(-1.0), 2.0), np.sqrt(max(-1.0, 4.0))))
def increasing_out_of_maximum(x, k: Axis, o: Op1):
    """max_k o(x) = o(max_k x) for every increasing o."""
    return Max(k, Map(o, x)), Map(o, Max(k, x)), increasing(o), NonEmpty(k)


@sound
def increasing_out_of_maximum_of_positive(x, k: Axis, o: Op1):
    """max_k o(x) = o(max_k x) for every increasing o and x > 0."""
    return Max(k, Map(o, x)), Map(o, Max(k, x)), increasing(o), NonEmpty(k), positive(x)


@unsound("empty axis", "kind: function of a maximum of nothing", "the maximum of nothing is -inf, whose exponential is 0", lambda: (-inf, 0.0))
def exponential_out_of_maximum_of_nothing(x, k: Axis):
    """max_k exp x = exp(max_k x)."""
    return Max(k, Map("exp", x)), Map("exp", Max(k, x))


@sound
def exponential_out_of_maximum(x, k: Axis):
    """max_k exp x = exp(max_k x)."""
    return Max(k, Map("exp", x)), Map("exp", Max(k, x)), NonEmpty(k)


@unsound("sign", "tensorflow: Grappler takes reciprocals for decreasing", "reciprocals fall on either side of 0, not across", lambda: (1.0, 1 / -1.0))
def reciprocal_out_of_maximum(x, k: Axis):
    """max_k 1/x = 1/(min_k x) for x that is not 0."""
    return Max(k, Map("recip", x)), Map("recip", Reduce("min", k, x)), NonEmpty(k)


@sound
def reciprocal_of_positive_out_of_maximum(x, k: Axis):
    """max_k 1/x = 1/(min_k x) for x > 0."""
    return Max(k, Map("recip", x)), Map("recip", Reduce("min", k, x)), NonEmpty(k), positive(x)


@unsound("ties", "kind: one-hot of the maximum", "ties are counted more than once", lambda: (2.0, 1.0))
def one_maximum(x, k: Axis):
    """sum_k (x == max_k x) = 1 for finite x."""
    return Sum(k, Map("eq", x, Max(k, x))), Const(1.0), finite(x), NonEmpty(k)


@sound
def some_maximum(x, k: Axis):
    """max_k (x == max_k x) = 1 for finite x."""
    return Max(k, Map("eq", x, Max(k, x))), Const(1.0), finite(x), NonEmpty(k)


@unsound("order of a clamp", "kind: minimax", "the least maximum is no greatest minimum", lambda: (1.0, 0.0))
def minimum_and_maximum_exchanged(x, j: Axis, k: Axis):
    """min_j max_k x = max_k min_j x."""
    return Reduce("min", j, Max(k, x)), Max(k, Reduce("min", j, x)), NonEmpty(j), NonEmpty(k), OtherAxis(j, k)


@sound
def maxima_exchanged(x, j: Axis, k: Axis):
    """max_j max_k x = max_k max_j x."""
    return Max(j, Max(k, x)), Max(k, Max(j, x)), OtherAxis(j, k)


@unsound("order of a clamp", "kind: maximum of a minimum", "maxima are at different places", lambda: (0.0, 1.0))
def minimum_out_of_maximum(x, y, k: Axis):
    """max_k min(x, y) = min(max_k x, max_k y)."""
    return Max(k, Map("minimum", x, y)), Map("minimum", Max(k, x), Max(k, y))


@sound
def maximum_out_of_maximum(x, y, k: Axis):
    """max_k max(x, y) = max(max_k x, max_k y)."""
    return Max(k, Map("maximum", x, y)), Map("maximum", Max(k, x), Max(k, y))


@unsound("comparison", "kind: transitivity taken for equality", "y between x and z is more than x below z", lambda: (0.0, 1.0))
def middle_dropped(x, y, z):
    """(x < y and y < z) = (x < z)."""
    return Map("and", Map("lt", x, y), Map("lt", y, z)), Map("lt", x, z)


@sound
def transitive(x, y, z):
    """(x < y and y < z and x < z) = (x < y and y < z)."""
    both = Map("and", Map("lt", x, y), Map("lt", y, z))
    return Map("and", both, Map("lt", x, z)), both


@unsound("constants", "openxla/xla: compare(iota, c) with the constant off by one", "the position 1024 exists on longer axes", lambda: (0.0, 1.0))
def positions_below_1024(k: Axis):
    """(index(k) < 1024) = 1."""
    return Map("lt", Index(k), Const(1024.0)), Const(1.0)


@sound
def positions_below_extent(k: Axis):
    """(index(k) < size(k)) = 1."""
    return Map("lt", Index(k), Extent(k)), Const(1.0)
