"""Sound rules of choices and comparisons."""

from eqfuse.rewrites import Const, Map, Op1, Scalar, Where, at_most, finite, nonneg, power_of_two

from . import sound


@sound("all cases", "the middle one, from any two of the three first; NaN goes through both")
def exam_middle_of_three_from_another_pair(x, y, z):
    """max(min(x, y), min(max(x, y), z)) = max(min(y, z), min(max(y, z), x))."""

    def middle(x, y, z):
        return Map("maximum", Map("minimum", x, y), Map("minimum", Map("maximum", x, y), z))

    return middle(x, y, z), middle(y, z, x)


@sound("NaN", "without NaN a comparison is enough")
def exam_larger_of_finite_by_comparison(x, y):
    """where(x < y, y, x) = max(x, y), for finite x and y."""
    return Where(Map("lt", x, y), y, x), Map("maximum", x, y), finite(x), finite(y)


@sound("zero", "|0| needs no sign, nor does NaN")
def exam_sign_times_size(x):
    """((x > 0) - (x < 0)) * |x| = x."""
    zero = Const(0.0)
    return (Map("gt", x, zero) - Map("lt", x, zero)) * Map("abs", x), x


@sound("arm", "where c does not hold, nothing chooses y", licence="exact")
def exam_choice_of_the_same_behind(c, x, y, z):
    """where(c, x, where(c, y, z)) = where(c, x, z), to the last bit."""
    return Where(c, x, Where(c, y, z)), Where(c, x, z)


@sound("both arms", "o is applied to whatever is chosen", licence="exact")
def exam_any_function_of_chosen(c, x, y, o: Op1):
    """o(where(c, x, y)) = where(c, o(x), o(y)), for every o, to the last bit."""
    return Map(o, Where(c, x, y)), Where(c, Map(o, x), Map(o, y))


@sound("order of limits", "with a <= b it does not matter which limit comes first")
def exam_clamp_with_limits_in_order(x, a: Scalar, b: Scalar):
    """min(max(x, a), b) = max(min(x, b), a), for a <= b."""
    low, high = Const(a), Const(b)
    return Map("minimum", Map("maximum", x, low), high), Map("maximum", Map("minimum", x, high), low), at_most(a, b)


@sound("NaN", "two numbers that are at most each other are equal, and NaN is at most none", licence="exact")
def exam_equal_as_at_most_each_other(x, y):
    """(x <= y) * (y <= x) = (x == y)."""
    return Map("le", x, y) * Map("le", y, x), Map("eq", x, y)


@sound("De Morgan", "not both is one of them not, whatever counts as true", licence="exact")
def exam_not_both_as_one_not(x, y):
    """not (x and y) = (not x) or (not y)."""
    return Map("not", Map("and", x, y)), Map("or", Map("not", x), Map("not", y))


@sound("between", "both limits are within, NaN is not")
def exam_within_by_size_with_limits(x):
    """(x >= -3) * (x <= 3) = (|x| <= 3)."""
    return Map("ge", x, Const(-3.0)) * Map("le", x, Const(3.0)), Map("le", Map("abs", x), Const(3.0))


@sound("sign of a constant", "a power of two is positive, and its reciprocal exact")
def exam_power_of_two_out_of_comparison(x, a: Scalar):
    """(a*x <= 1) = (x <= 1/a), for finite x and a power of two up to 64."""
    return Map("le", x * Const(a), Const(1.0)), Map("le", x, Const(a.reciprocal())), finite(x), power_of_two(a), at_most(a, 64.0)


@sound("strictness", "a number below 3 has a floor below 3, and no other")
def exam_floor_strictly_below(x):
    """(floor x < 3) = (x < 3)."""
    return Map("lt", Map("floor", x), Const(3.0)), Map("lt", x, Const(3.0))


@sound("absorbed term", "what is added is not negative")
def exam_maximum_with_sum_of_nonneg(x, y):
    """max(x, x + y) = x + y, for finite x and y >= 0."""
    return Map("maximum", x, x + y), x + y, finite(x), finite(y), nonneg(y)
