"""False only on a thin set: one number, a tie, a boundary, one length.  Written when the verdicts on the other families were known."""

import numpy as np

from eqfuse.rewrites import (
    Axis,
    Cast,
    Const,
    Extent,
    Index,
    Map,
    Mean,
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
    within,
)

from . import false


def brain(x):
    """A number as bfloat16: the nearest of eight bits, ties to even."""
    step = 2.0 ** (np.frexp(x)[1] - 8)
    return np.rint(x / step) * step


@false("one number", "at 1 the pieces are a half apart, and each rule takes the other one", lambda: (1.0**2, abs(1.0) - 0.5))
def exam_pieces_that_do_not_meet(x):
    """where(|x| <= 1, x^2, |x| - 1/2) = where(|x| < 1, x^2, |x| - 1/2)."""
    size, one = Map("abs", x), Const(1.0)
    return Where(Map("le", size, one), Map("square", x), size - 0.5), Where(Map("lt", size, one), Map("square", x), size - 0.5)


@false("slope", "with a slope above 1 the larger of both is the other one", lambda: (max(2.0, 1.5 * 2), 2.0))
def exam_leaky_relu_as_maximum(x, a: Scalar):
    """max(x, a*x) = where(x > 0, x, a*x), for finite x and 0 <= a <= 2."""
    steep = x * Const(a)
    return Map("maximum", x, steep), Where(Map("gt", x, Const(0.0)), x, steep), finite(x), at_most(a, 2.0), at_least(a, 0.0)


@false("one number", "257 needs nine bits", lambda: (brain(257.0), 257.0), licence="exact")
def exam_whole_numbers_in_bfloat16(x):
    """bfloat16(x) = x, for whole |x| <= 257, to the last bit."""
    return Cast("bfloat16", x), x, has_type(x, "int16"), within(x, 257.0)


@false("large numbers", "2^24 + 1 is no float32", lambda: (np.int32(np.float32(2**24 + 1)), 2**24 + 1), licence="exact")
def exam_int32_through_float32(x):
    """int32(float32(x)) = x, for an x of int32, to the last bit."""
    return Cast("int32", Cast("float32", x)), x, has_type(x, "int32")


@false("one number", "256 - 0 is no byte", lambda: (np.int64(-0).astype(np.uint8), 256 - 0))
def exam_negated_byte(x):
    """uint8(-x) = 256 - x, for an x of uint8."""
    return Cast("uint8", -x), 256.0 - x, has_type(x, "uint8")


@false("one number", "128 is no int8", lambda: (np.int64(128).astype(np.int8), 128))
def exam_size_of_signed_byte(x):
    """int8(|x|) = |x|, for an x of int8."""
    return Cast("int8", Map("abs", x)), Map("abs", x), has_type(x, "int8")


@false("whole numbers", "the floors of 2 and -2 are opposites", lambda: (np.floor(2.0) + np.floor(-2.0), -1.0))
def exam_floors_of_opposites(x):
    """floor(x) + floor(-x) = -1, for finite x."""
    return Map("floor", x) + Map("floor", -x), Const(-1.0), finite(x)


@false("ties", "0.5 is rounded down to 0, 1.5 up to 2", lambda: (np.rint(1.5), np.rint(0.5) + 1))
def exam_one_out_of_round(x):
    """round(x + 1) = round(x) + 1, for finite x."""
    return Map("round", x + 1.0), Map("round", x) + 1.0, finite(x)


@false(
    "zero",
    "neither 0 nor -1 is positive, and their product is not, either",
    lambda: (float(-1.0 * 0.0 > 0), float((-1.0 > 0) == (0.0 > 0))),
)
def exam_sign_of_product_by_equal_signs(x, y):
    """(x*y > 0) = ((x > 0) == (y > 0)), for finite x and y."""
    zero = Const(0.0)
    return Map("gt", x * y, zero), Map("eq", Map("gt", x, zero), Map("gt", y, zero)), finite(x), finite(y)


@false(
    "magic number",
    "6554/65536 is more than a tenth: from 16389 on the quotient may be one too large",
    lambda: (16389 * 6554 >> 16, 16389 // 10),
)
def exam_tenth_by_multiplication(x):
    """(x * 6554) >> 16 = x // 10, for an x >= 0 of int16."""
    return Map("rshift", x * 6554.0, 16.0), Map("floordiv", x, 10.0), has_type(x, "int16"), nonneg(x)


@false("rounding up", "of odd sums the larger half", lambda: ((1 | 2) - ((1 ^ 2) >> 1), (1 + 2) >> 1))
def exam_middle_without_overflow_rounded_up(x, y):
    """(x | y) - ((x ^ y) >> 1) = (x + y) >> 1, for x and y of int32."""
    half = Map("rshift", Map("bitxor", x, y), 1.0)
    return Map("bitor", x, y) - half, Map("rshift", x + y, 1.0), has_type(x, "int32"), has_type(y, "int32")


@false("sign", "of -1 a bit is lost as well", lambda: (float(-1 & -2 < -1), float(-1 > 0)))
def exam_lowest_bit_cleared_is_less(x):
    """((x & (x - 1)) < x) = (x > 0), for an x of int32."""
    return Map("lt", Map("bitand", x, x - 1.0), x), Map("gt", x, Const(0.0)), has_type(x, "int32")


@false("edges", "at the edges a window has fewer places", lambda: (3.0, 5.0))
def exam_places_of_a_window(j: Axis, k: Axis):
    """sum_k (|index(j) - index(k)| <= 2) = min(5, size(k)), for a j as long as k."""
    near = Map("le", Map("abs", Index(j) - Index(k)), Const(2.0))
    return Sum(k, near), Map("minimum", Const(5.0), Extent(k)), OtherAxis(j, k), equals(Extent(j), Extent(k))


@false("length", "fewer rows than columns have more pairs above the diagonal", lambda: (1 + 2.0, 2 * 1 / 2))
def exam_pairs_above_the_diagonal(j: Axis, k: Axis):
    """sum_j sum_k (index(j) < index(k)) = size(j) (size(j) - 1) / 2, for a j that is no longer than k."""
    pairs = Sum(j, Sum(k, Map("lt", Index(j), Index(k))))
    return pairs, Extent(j) * (Extent(j) - 1.0) * 0.5, OtherAxis(j, k), at_most(Extent(j), Extent(k))


@false("term lost", "the means of the rows vary, too", lambda: (np.var([1.0, 2, 3, 5]), np.mean([np.var([1.0, 2]), np.var([3.0, 5])])))
def exam_variance_within_rows(x, j: Axis, k: Axis):
    """mean_j mean_k (x - mean_j mean_k x)^2 = mean_j mean_k (x - mean_k x)^2, for finite x."""
    rows = Mean(k, x)
    within_rows = Mean(j, Mean(k, Map("square", x - rows)))
    return Mean(j, Mean(k, Map("square", x - Mean(j, rows)))), within_rows, finite(x), OtherAxis(j, k)
