"""Equations that hold to the last bit, and real ones whose neighbours do not."""

from eqfuse.rewrites import Axis, Const, Extent, Map, Max, Scalar, View, Where, at_most, equals, finite, power_of_two

from . import sound


@sound("equal to a number", "1 has one sign", licence="exact")
def exam_one_chosen_for_one(x):
    """where(x == 1, 1, x) = x, to the last bit."""
    return Where(Map("eq", x, Const(1.0)), 1.0, x), x


@sound("right licence", "as real numbers -0 is 0")
def exam_relu_as_product_of_finite(x):
    """max(x, 0) = x * (x > 0), for finite x."""
    return Map("maximum", x, 0.0), x * Map("gt", x, Const(0.0)), finite(x)


@sound("doublings", "sums of equal numbers are exact, and overflow where the product does", licence="exact")
def exam_four_by_doubling_twice(x):
    """(x + x) + (x + x) = x*4, to the last bit."""
    return (x + x) + (x + x), x * 4.0


@sound("signs", "a reciprocal is rounded alike on both sides of 0", licence="exact")
def exam_size_of_reciprocal(x):
    """|1/x| = 1/|x|, to the last bit."""
    return Map("abs", Map("recip", x)), Map("recip", Map("abs", x))


@sound("right licence", "one of the two is the larger, the other the smaller; as real numbers -0 is 0")
def exam_sum_by_larger_and_smaller(x, y):
    """max(x, y) + min(x, y) = x + y."""
    return Map("maximum", x, y) + Map("minimum", x, y), x + y


@sound("signs", "sizes are rounded alike, whatever the signs", licence="exact")
def exam_size_of_product_of_two(x, y):
    """|x*y| = |x| * |y|, to the last bit."""
    return Map("abs", x * y), Map("abs", x) * Map("abs", y)


@sound("length 1", "the larger of -inf and x is x, with its sign", licence="exact")
def exam_maximum_of_one_element_to_the_bit(x, k: Axis):
    """max_k x = x[k = 0], on an axis of one element, to the last bit."""
    return Max(k, x), View(x, k, 0), equals(Extent(k), 1)


@sound("right licence", "x + y = x only for y = 0, as real numbers")
def exam_equal_to_its_sum(x, y):
    """(x + y == x) = (y == 0), for finite x and y."""
    return Map("eq", x + y, x), Map("eq", y, Const(0.0)), finite(x), finite(y)


@sound("powers of two", "up to 64 all three numbers are exact, and products grow: one overflows where the other does", licence="exact")
def exam_small_powers_of_two_folded_to_the_bit(x, a: Scalar, b: Scalar):
    """x * a * b = x * (a*b), for powers of two up to 8, to the last bit."""
    return x * Const(a) * Const(b), x * Const(a * b), power_of_two(a), power_of_two(b), at_most(a, 8.0), at_most(b, 8.0)


@sound("ties", "halves go to even numbers on both sides of 0, and -0 comes out on both", licence="exact")
def exam_round_of_negated(x):
    """round(-x) = -round(x), to the last bit."""
    return Map("round", -x), -Map("round", x)
