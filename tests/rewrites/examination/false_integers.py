"""False rules of whole quotients, remainders and bits."""

import numpy as np

from eqfuse.rewrites import Axis, Cast, Const, Extent, Index, Map, NonEmpty, Scalar, at_most, divides, finite, has_type, nonneg, positive

from . import false


@false("rounding down", "a quotient is rounded down on both sides of 0", lambda: (-7 // 2, -(7 // 2)))
def exam_quotient_of_negated(x, y):
    """(-x) // y = -(x // y), for whole numbers, y > 0."""
    return Map("floordiv", -x, y), -Map("floordiv", x, y), has_type(x, "int32"), has_type(y, "int32"), positive(y)


@false("sign of a remainder", "a remainder has the sign of the divisor", lambda: (-7 % 4, -(7 % 4)))
def exam_remainder_of_negated(x, y):
    """(-x) mod y = -(x mod y), for finite x and finite y > 0."""
    return Map("remainder", -x, y), -Map("remainder", x, y), finite(x), finite(y), positive(y)


@false("sign of a remainder", "that of C has the sign of the dividend", lambda: (-7 % 4, np.fmod(-7, 4)))
def exam_remainder_as_that_of_c(x, y):
    """x mod y = fmod(x, y), for whole x and finite y > 0."""
    return Map("remainder", x, y), Map("fmod", x, y), has_type(x, "int32"), finite(y), positive(y)


@false("wrap lost", "two remainders may add up to more than the divisor", lambda: ((3 + 3) % 4, 3 % 4 + 3 % 4))
def exam_remainder_of_sum(x, y, n):
    """(x + y) mod n = x mod n + y mod n, for whole numbers, n > 0."""
    given = has_type(x, "int32"), has_type(y, "int32"), has_type(n, "int32"), positive(n)
    return Map("remainder", x + y, n), Map("remainder", x, n) + Map("remainder", y, n), *given


@false("sign of a divisor", "by a negative number it is rounded the other way", lambda: ((1 // 2) // -1, 1 // -2))
def exam_quotients_in_a_row(x, a, b):
    """(x // a) // b = x // (a*b), for whole numbers, a > 0."""
    given = has_type(x, "int32"), has_type(a, "int32"), has_type(b, "int32"), positive(a)
    return Map("floordiv", Map("floordiv", x, a), b), Map("floordiv", x, a * b), *given


@false("a bit lost", "the lowest bit does not come back", lambda: (5 >> 1 << 1, 5))
def exam_shifted_down_and_up(x):
    """(x >> 1) << 1 = x, for an x of int32."""
    return Map("lshift", Map("rshift", x, 1.0), 1.0), x, has_type(x, "int32")


@false("rounding down", "a shift rounds down, a cast towards 0", lambda: (-3 >> 1, int(-1.5)))
def exam_shift_as_cast_of_half(x):
    """x >> 1 = int32(x/2), for an x of int32."""
    return Map("rshift", x, 1.0), Cast("int32", x * 0.5), has_type(x, "int32")


@false("common bits", "bits that both have are carried", lambda: (3 | 1, 3 + 1))
def exam_disjunction_as_sum(x, y):
    """x | y = x + y, for x and y of int32 that are not negative."""
    return Map("bitor", x, y), x + y, has_type(x, "int32"), has_type(y, "int32"), nonneg(x), nonneg(y)


@false("power of two", "6 is none", lambda: (7 % 6, 7 & 5))
def exam_remainder_by_six_as_mask(x):
    """x mod 6 = x & 5, for an x of int32."""
    return Map("remainder", x, 6.0), Map("bitand", x, 5.0), has_type(x, "int32")


@false("exact multiples", "what is divided without remainder needs no more", lambda: (-(-8 // 4), 8 // 4 + 1))
def exam_quotient_rounded_up_by_one(x, y):
    """-((-x) // y) = x // y + 1, for whole x and y > 0."""
    return -Map("floordiv", -x, y), Map("floordiv", x, y) + 1.0, has_type(x, "int32"), has_type(y, "int32"), positive(y)


@false("shift out of range", "no shift is a division, nor one by 64 a product", lambda: (0, 2.0**-1))
def exam_shift_as_power_of_two(n):
    """1 << n = 2^n, for whole n."""
    return Map("lshift", Const(1.0), n), Map("exp2", n), has_type(n, "int8")


@false(
    "multiples of nothing",
    "0 is a multiple of every number, and there is no remainder by it",
    lambda: (np.remainder(np.remainder(5.0, 0.0), 2.0), 5 % 2),
)
def exam_remainder_of_remainder(x, a: Scalar, b: Scalar):
    """(x mod b) mod a = x mod a, for whole x, and a that divides b."""
    return Map("remainder", Map("remainder", x, Const(b)), Const(a)), Map("remainder", x, Const(a)), has_type(x, "int32"), divides(a, b)


@false("another axis", "positions of a longer axis wrap around", lambda: (np.arange(5) % 3, np.arange(5)))
def exam_position_modulo_another_length(j: Axis, k: Axis):
    """index(j) mod size(k) = index(j), for a j of at most twice the length of k."""
    return Map("remainder", Index(j), Extent(k)), Index(j), NonEmpty(k), at_most(Extent(j), 2 * Extent(k))
