"""Sound rules of whole quotients, remainders and bits."""

from eqfuse.rewrites import Axis, Const, Extent, Index, Map, Scalar, at_least, at_most, divides, finite, has_type, less, nonneg, positive

from . import sound


@sound("rounding down", "what the quotient leaves is the remainder")
def exam_quotient_and_remainder(x, y):
    """(x // y) * y + x mod y = x, for whole numbers, y > 0."""
    given = has_type(x, "int32"), has_type(y, "int32"), positive(y)
    return Map("floordiv", x, y) * y + Map("remainder", x, y), x, *given


@sound("sign of a remainder", "the remainder of C has the sign of the dividend", licence="exact")
def exam_c_remainder_of_negated(x, y):
    """fmod(-x, y) = -fmod(x, y), to the last bit."""
    return Map("fmod", -x, y), -Map("fmod", x, y)


@sound("sign of a remainder", "both are the same where nothing is negative")
def exam_remainder_of_nonneg_as_that_of_c(x, y):
    """x mod y = fmod(x, y), for whole x >= 0 and finite y > 0."""
    return Map("remainder", x, y), Map("fmod", x, y), has_type(x, "int32"), nonneg(x), finite(y), positive(y)


@sound("wrap", "a multiple more leaves the remainder")
def exam_remainder_of_sum_with_divisor(x, n):
    """(x + n) mod n = x mod n, for whole numbers, n > 0."""
    return Map("remainder", x + n, n), Map("remainder", x, n), has_type(x, "int32"), has_type(n, "int32"), positive(n)


@sound("sign of a divisor", "floor(floor(x/a)/b) = floor(x/(ab)) for whole b > 0")
def exam_quotients_in_a_row_of_positive(x, a, b):
    """(x // a) // b = x // (a*b), for whole numbers, a > 0 and b > 0."""
    given = has_type(x, "int16"), has_type(a, "int16"), has_type(b, "int16"), positive(a), positive(b)
    return Map("floordiv", Map("floordiv", x, a), b), Map("floordiv", x, a * b), *given


@sound("a bit lost", "the lowest bit is what is lost, also of negative numbers")
def exam_shifted_down_and_up_without_lowest_bit(x):
    """(x >> 1) << 1 = x - (x & 1), for an x of int32."""
    return Map("lshift", Map("rshift", x, 1.0), 1.0), x - Map("bitand", x, 1.0), has_type(x, "int32")


@sound("rounding down", "an arithmetic shift is the floor of the half")
def exam_shift_as_floor_of_half(x):
    """x >> 1 = floor(x/2), for an x of int32."""
    return Map("rshift", x, 1.0), Map("floor", x * 0.5), has_type(x, "int32")


@sound("common bits", "bits that both have are counted once on either side")
def exam_disjunction_and_conjunction(x, y):
    """(x | y) + (x & y) = x + y, for x and y of int32."""
    return Map("bitor", x, y) + Map("bitand", x, y), x + y, has_type(x, "int32"), has_type(y, "int32")


@sound("power of two", "the three lowest bits are the remainder by 8, also of negative numbers in two's complement")
def exam_remainder_by_eight_as_mask(x):
    """x mod 8 = x & 7, for an x of int32."""
    return Map("remainder", x, 8.0), Map("bitand", x, 7.0), has_type(x, "int32")


@sound("exact multiples", "the quotient rounded up is that of x + y - 1")
def exam_quotient_rounded_up(x, y):
    """-((-x) // y) = (x + y - 1) // y, for whole x and y > 0."""
    return -Map("floordiv", -x, y), Map("floordiv", x + y - 1.0, y), has_type(x, "int32"), has_type(y, "int32"), positive(y)


@sound("shift", "three places are a factor of 8, in 64 bits")
def exam_shift_by_three(x):
    """x << 3 = 8 x, for an x of int32."""
    return Map("lshift", x, 3.0), x * 8.0, has_type(x, "int32")


@sound("multiples", "multiples of b are multiples of a, if b is not 0")
def exam_remainder_of_remainder_by_multiple(x, a: Scalar, b: Scalar):
    """(x mod b) mod a = x mod a, for whole x, and a >= 1 that divides b > 0."""
    left = Map("remainder", Map("remainder", x, Const(b)), Const(a))
    return left, Map("remainder", x, Const(a)), has_type(x, "int32"), divides(a, b), at_least(a, 1), less(0, b)


@sound("own axis", "positions are less than the length")
def exam_position_modulo_a_longer_length(j: Axis, k: Axis):
    """index(j) mod size(k) = index(j), for a j that is no longer than k."""
    return Map("remainder", Index(j), Extent(k)), Index(j), at_most(Extent(j), Extent(k))
