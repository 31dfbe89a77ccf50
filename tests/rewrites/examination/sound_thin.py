"""Sound neighbours of rules that are false on a thin set.  Written when the verdicts on the other families were known."""

from eqfuse.rewrites import (
    Axis,
    Cast,
    Const,
    Extent,
    Index,
    Map,
    Mean,
    NonEmpty,
    OtherAxis,
    Scalar,
    Sum,
    Where,
    at_least,
    at_most,
    equals,
    finite,
    has_type,
    nonneg,
    positive,
    within,
)

from . import sound


@sound("one number", "at 1 the pieces meet: a half on both sides")
def exam_pieces_that_meet(x):
    """where(|x| <= 1, x^2/2, |x| - 1/2) = where(|x| < 1, x^2/2, |x| - 1/2)."""
    size, one, inner = Map("abs", x), Const(1.0), Map("square", x) * 0.5
    return Where(Map("le", size, one), inner, size - 0.5), Where(Map("lt", size, one), inner, size - 0.5)


@sound("slope", "up to a slope of 1 the larger of both is x where x is positive")
def exam_leaky_relu_as_maximum_of_gentle_slope(x, a: Scalar):
    """max(x, a*x) = where(x > 0, x, a*x), for finite x and 0 <= a <= 1."""
    slow = x * Const(a)
    return Map("maximum", x, slow), Where(Map("gt", x, Const(0.0)), x, slow), finite(x), at_most(a, 1.0), at_least(a, 0.0)


@sound("one number", "up to 256 eight bits are enough", licence="exact")
def exam_small_whole_numbers_in_bfloat16(x):
    """bfloat16(x) = x, for whole |x| <= 256, to the last bit."""
    return Cast("bfloat16", x), x, has_type(x, "int16"), within(x, 256.0)


@sound("large numbers", "every int16 is a float32", licence="exact")
def exam_int16_through_float32(x):
    """int32(float32(x)) = x, for an x of int16, to the last bit."""
    return Cast("int32", Cast("float32", x)), x, has_type(x, "int16")


@sound("one number", "256 less 1 to 255 is 255 to 1")
def exam_negated_positive_byte(x):
    """uint8(-x) = 256 - x, for an x > 0 of uint8."""
    return Cast("uint8", -x), 256.0 - x, has_type(x, "uint8"), positive(x)


@sound("one number", "without -128 every size is an int8")
def exam_size_of_signed_byte_but_for_the_least(x):
    """int8(|x|) = |x|, for an x of int8 with |x| <= 127."""
    return Cast("int8", Map("abs", x)), Map("abs", x), has_type(x, "int8"), within(x, 127.0)


@sound("whole numbers", "the floors are opposites of whole numbers, and else differ by 1")
def exam_floors_of_opposites_in_full(x):
    """floor(x) + floor(-x) = where(floor(x) == x, 0, -1), for finite x."""
    down = Map("floor", x)
    return down + Map("floor", -x), Where(Map("eq", down, x), 0.0, -1.0), finite(x)


@sound("ties", "2 more is as even as before")
def exam_two_out_of_round(x):
    """round(x + 2) = round(x) + 2, for finite x."""
    return Map("round", x + 2.0), Map("round", x) + 2.0, finite(x)


@sound("zero", "both are above 0, or both below")
def exam_sign_of_product(x, y):
    """(x*y > 0) = (x > 0) * (y > 0) + (x < 0) * (y < 0), for finite x and y."""
    zero = Const(0.0)
    both = Map("gt", x, zero) * Map("gt", y, zero) + Map("lt", x, zero) * Map("lt", y, zero)
    return Map("gt", x * y, zero), both, finite(x), finite(y)


@sound("magic number", "tried for each of the 65536 numbers of 16 bits")
def exam_tenth_by_finer_multiplication(x):
    """(x * 52429) >> 19 = x // 10, for an x >= 0 of int16."""
    return Map("rshift", x * 52429.0, 19.0), Map("floordiv", x, 10.0), has_type(x, "int16"), nonneg(x)


@sound("rounding down", "common bits whole, the others half")
def exam_middle_without_overflow(x, y):
    """(x & y) + ((x ^ y) >> 1) = (x + y) >> 1, for x and y of int32."""
    half = Map("rshift", Map("bitxor", x, y), 1.0)
    return Map("bitand", x, y) + half, Map("rshift", x + y, 1.0), has_type(x, "int32"), has_type(y, "int32")


@sound("sign", "of a positive number a bit is lost, 0 has none")
def exam_lowest_bit_of_nonneg_cleared_is_less(x):
    """((x & (x - 1)) < x) = (x > 0), for an x >= 0 of int32."""
    return Map("lt", Map("bitand", x, x - 1.0), x), Map("gt", x, Const(0.0)), has_type(x, "int32"), nonneg(x)


@sound("edges", "two places on each side, as far as the axis goes")
def exam_places_of_a_window_at_edges(j: Axis, k: Axis):
    """sum_k (|index(j) - index(k)| <= 2) = min(j, 2) + 1 + min(n-1-j, 2), for a j as long as k."""
    near = Map("le", Map("abs", Index(j) - Index(k)), Const(2.0))
    left, right = (Map("minimum", side, 2.0) for side in (Index(j), Extent(k) - 1.0 - Index(j)))
    return Sum(k, near), left + 1.0 + right, OtherAxis(j, k), equals(Extent(j), Extent(k))


@sound("length", "each pair is above the diagonal once")
def exam_pairs_above_the_diagonal_of_a_square(j: Axis, k: Axis):
    """sum_j sum_k (index(j) < index(k)) = size(j) (size(j) - 1) / 2, for a j as long as k."""
    pairs = Sum(j, Sum(k, Map("lt", Index(j), Index(k))))
    return pairs, Extent(j) * (Extent(j) - 1.0) * 0.5, OtherAxis(j, k), equals(Extent(j), Extent(k))


@sound("term", "the variance is that within rows and that of their means")
def exam_variance_within_and_of_rows(x, j: Axis, k: Axis):
    """mean_j mean_k (x - m)^2 = mean_j mean_k (x - mean_k x)^2 + mean_j (mean_k x - m)^2 with m = mean_j mean_k x, for finite x."""
    rows = Mean(k, x)
    m = Mean(j, rows)
    parts = Mean(j, Mean(k, Map("square", x - rows))) + Mean(j, Map("square", rows - m))
    return Mean(j, Mean(k, Map("square", x - m))), parts, finite(x), OtherAxis(j, k), NonEmpty(k)
