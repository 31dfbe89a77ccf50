"""False rules of choices and comparisons: NaN, zeros, ties, the order of limits."""

import numpy as np

from eqfuse.rewrites import Const, Map, Op1, Scalar, Where, at_least, at_most, differs, finite, within

from . import false

inf, nan = np.inf, np.nan


@false("a case lost", "the middle one may be one of the first and the last", lambda: (max(min(3, 1), min(1, 2)), 2))
def exam_middle_of_three_by_two_pairs(x, y, z):
    """max(min(x, y), min(y, z)) = max(min(x, y), min(max(x, y), z))."""
    low = Map("minimum", x, y)
    return Map("maximum", low, Map("minimum", y, z)), Map("maximum", low, Map("minimum", Map("maximum", x, y), z))


@false("NaN", "a comparison with NaN chooses the other number", lambda: (1.0, np.maximum(1.0, nan)))
def exam_larger_by_comparison(x, y):
    """where(x < y, y, x) = max(x, y), for finite x."""
    return Where(Map("lt", x, y), y, x), Map("maximum", x, y), finite(x)


@false("zero", "the sign of 0 is 0", lambda: (1.0 - 0.0, 0.0 - 0.0))
def exam_sign_without_zero(x):
    """(x >= 0) - (x < 0) = (x > 0) - (x < 0)."""
    zero = Const(0.0)
    return Map("ge", x, zero) - Map("lt", x, zero), Map("gt", x, zero) - Map("lt", x, zero)


@false("arm exchanged", "where c holds, the inner choice takes its second arm", lambda: (2.0, 1.0))
def exam_choice_of_the_opposite_inside(c, x, y, z):
    """where(c, where(not c, x, y), z) = where(c, x, z)."""
    return Where(c, Where(Map("not", c), x, y), z), Where(c, x, z)


@false("value at zero", "the cosine of 0 is no 0", lambda: (np.cos(0.0), 0.0))
def exam_any_function_of_masked(c, x, o: Op1):
    """o(where(c, x, 0)) = where(c, o(x), 0), for every o."""
    return Map(o, Where(c, x, 0.0)), Where(c, Map(o, x), 0.0)


@false("order of limits", "a may be larger than b by less than 1", lambda: (min(max(0.0, 2.5), 2.0), max(min(0.0, 2.0), 2.5)))
def exam_clamp_with_limits_nearly_in_order(x, a: Scalar, b: Scalar):
    """min(max(x, a), b) = max(min(x, b), a), for a <= b + 1."""
    low, high = Const(a), Const(b)
    return Map("minimum", Map("maximum", x, low), high), Map("maximum", Map("minimum", x, high), low), at_most(a, b + 1.0)


@false("NaN", "NaN differs from everything, and is neither less nor more", lambda: (0.0, 1.0), licence="exact")
def exam_unequal_as_less_or_more(x, y):
    """(x < y or x > y) = (x != y)."""
    return Map("or", Map("lt", x, y), Map("gt", x, y)), Map("ne", x, y)


@false("De Morgan", "not both is not neither", lambda: (1.0, 0.0))
def exam_not_both_as_neither(x, y):
    """not (x and y) = (not x) and (not y)."""
    return Map("not", Map("and", x, y)), Map("and", Map("not", x), Map("not", y))


@false("between", "a number at the upper limit is within", lambda: (1.0, 0.0))
def exam_within_by_size(x):
    """(x >= -3) * (x < 3) = (|x| <= 3)."""
    return Map("ge", x, Const(-3.0)) * Map("lt", x, Const(3.0)), Map("le", Map("abs", x), Const(3.0))


@false("sign of a constant", "a negative factor turns a comparison round", lambda: (float(-2 * 3 <= 1), float(3 <= -0.5)))
def exam_factor_out_of_comparison(x, a: Scalar):
    """(a*x <= 1) = (x <= 1/a), for finite x and a that is not 0, |a| <= 100."""
    limits = differs(a, 0.0), at_most(a, 100.0), at_least(a, -100.0)
    return Map("le", x * Const(a), Const(1.0)), Map("le", x, Const(a.reciprocal())), finite(x), *limits


@false("strictness", "the floor of 3 is no less than 3", lambda: (0.0, 1.0))
def exam_floor_below(x):
    """(floor x < 3) = (x <= 3), for finite x."""
    return Map("lt", Map("floor", x), Const(3.0)), Map("le", x, Const(3.0)), finite(x)


@false("absorbed term", "a maximum with a sum is its term only if the other is not negative", lambda: (max(1.0, 1.0 - 2.0), 1.0 - 2.0))
def exam_maximum_with_larger_sum(x, y):
    """max(x, x + y) = x + y, for finite x and |y| <= 1."""
    return Map("maximum", x, x + y), x + y, finite(x), finite(y), within(y, 1.0)
