"""Equations of real numbers that are claimed to the last bit, or that a zero, a tie or an overflow refutes."""

import numpy as np

from eqfuse.rewrites import Axis, Const, Extent, Map, Scalar, Sum, View, Where, at_least_one, at_most, equals, finite, power_of_two

from . import false

h, inf = np.float16, np.inf


@false("wrong licence", "-0 == 0, and is another number to the last bit", lambda: (0.0, -0.0), licence="exact")
def exam_zero_chosen_for_zero(x):
    """where(x == 0, 0, x) = x, to the last bit."""
    return Where(Map("eq", x, Const(0.0)), 0.0, x), x


@false("wrong licence", "-1 * 0 is -0", lambda: (0.0, -1.0 * 0), licence="exact")
def exam_relu_as_product(x):
    """max(x, 0) = x * (x > 0), for finite x, to the last bit."""
    return Map("maximum", x, 0.0), x * Map("gt", x, Const(0.0)), finite(x)


@false("overflow between", "8x is infinite where 7x is not", lambda: (h(9000) * h(8) - h(9000), h(9000) * h(7)), licence="exact")
def exam_seven_as_eight_less_one(x):
    """x*8 - x = x*7, to the last bit."""
    return x * 8.0 - x, x * 7.0


@false(
    "rounding",
    "a reciprocal of a product is rounded twice, a product of reciprocals three times",
    lambda: (h(1) / (h(3) * h(9)), h(1) / h(3) * (h(1) / h(9))),
    licence="exact",
)
def exam_reciprocal_of_product_to_the_bit(x, y):
    """1/(x*y) = 1/x * 1/y for finite x, y >= 1, to the last bit."""
    return Map("recip", x * y), Map("recip", x) * Map("recip", y), at_least_one(x), at_least_one(y), finite(x), finite(y)


@false(
    "wrong licence",
    "a square is rounded before the difference is taken",
    lambda: ((1 + 2.0**-30) ** 2 - 1, 2.0**-30 * (2 + 2.0**-30)),
    licence="exact",
)
def exam_difference_of_squares_to_the_bit(x, y):
    """x^2 - y^2 = (x - y) * (x + y), for finite x and y, to the last bit."""
    return Map("square", x) - Map("square", y), (x - y) * (x + y), finite(x), finite(y)


@false(
    "overflow between",
    "doubled, a partial sum overflows",
    lambda: (h(40000) * h(2) + h(-40000) * h(2), h(2) * (h(40000) + h(-40000))),
    licence="exact",
)
def exam_double_out_of_sum_to_the_bit(x, k: Axis):
    """sum_k 2*x = 2 * sum_k x, to the last bit."""
    return Sum(k, x * 2.0), Sum(k, x) * 2.0


@false("signed zero", "a sum begins with 0, and 0 + -0 is 0", lambda: (0.0 + -0.0, -0.0), licence="exact")
def exam_sum_of_one_element_to_the_bit(x, k: Axis):
    """sum_k x = x[k = 0], on an axis of one element, to the last bit."""
    return Sum(k, x), View(x, k, 0), equals(Extent(k), 1)


@false("absorption", "1 + 2^-60 is 1, and 2^-60 is not 0", lambda: (1.0 + 2.0**-60 == 1.0, 2.0**-60 == 0), licence="exact")
def exam_equal_to_its_sum_to_the_bit(x, y):
    """(x + y == x) = (y == 0), for finite x and y, to the last bit."""
    return Map("eq", x + y, x), Map("eq", y, Const(0.0)), finite(x), finite(y)


@false("a constant overflows", "2^15 * 2^15 is no float16", lambda: (h(2**-20) * h(2**15) * h(2**15), h(2**-20) * h(inf)), licence="exact")
def exam_powers_of_two_folded_to_the_bit(x, a: Scalar, b: Scalar):
    """x * a * b = x * (a*b), for powers of two up to 2^15, to the last bit."""
    return x * Const(a) * Const(b), x * Const(a * b), power_of_two(a), power_of_two(b), at_most(a, 32768.0), at_most(b, 32768.0)


@false("ties", "2.5 is rounded to 2, and 3 is the floor of 3", lambda: (np.rint(2.5), np.floor(3.0)))
def exam_round_as_floor(x):
    """round(x) = floor(x + 1/2), for finite x."""
    return Map("round", x), Map("floor", x + 0.5), finite(x)
