"""False at a few sizes, sums or small numbers only; and sound rules that floats seem to refute where they absorb a term or round to a jump."""

import numpy as np

from eqfuse.rewrites import (
    Axis,
    Cast,
    Const,
    Extent,
    Index,
    Map,
    Mean,
    NonEmpty,
    Reduce,
    Sum,
    Where,
    at_least,
    at_most,
    divides,
    finite,
    has_type,
    match,
    nonneg,
    power_of_two,
    within,
)  # fmt: skip

from . import sound, unsound

f16 = np.float16


@unsound("extent", "kind: a bound that premises leave open", "2048 does not divide 1024", lambda: (1024 % 2048, 0))
def power_of_two_divides_1024(k: Axis):
    """1024 mod n = 0, for a power of two n."""
    return Map("remainder", Const(1024.0), Extent(k)), Const(0.0), power_of_two(Extent(k)), NonEmpty(k)


@sound
def small_power_of_two_divides_1024(k: Axis):
    """1024 mod n = 0, for a power of two n up to 1024."""
    return Map("remainder", Const(1024.0), Extent(k)), Const(0.0), power_of_two(Extent(k)), at_most(Extent(k), 1024)


@unsound("extent", "kind: a bound that premises leave open", "4096 does not divide 2048", lambda: (2048 % 4096, 0))
def power_of_two_divides_2048(k: Axis):
    """2048 mod n = 0, for a power of two n."""
    return Map("remainder", Const(2048.0), Extent(k)), Const(0.0), power_of_two(Extent(k)), NonEmpty(k)


@unsound("extent", "kind: a bound that premises leave open", "304 is the first multiple of 4 above 300", lambda: (float(304 > 300), 0.0))
def multiples_of_four_are_at_most_300(k: Axis):
    """(n > 300) = 0, for a multiple n of 4."""
    return Map("gt", Extent(k), Const(300.0)), Const(0.0), divides(4, Extent(k))


@sound
def multiples_of_four_are_at_most_300_by_premise(k: Axis):
    """(n > 300) = 0, for a multiple n of 4 that is at most 300."""
    return Map("gt", Extent(k), Const(300.0)), Const(0.0), divides(4, Extent(k)), at_most(Extent(k), 300)


@unsound("extent", "kind: a bound that premises leave open", "1,000,002 is a multiple of 3", lambda: (float(1_000_002 > 10**6), 0.0))
def multiples_of_three_are_at_most_a_million(x, k: Axis):
    """where(n > 10^6, 0, x) = x, for a multiple n of 3."""
    return Where(Map("gt", Extent(k), Const(1e6)), 0.0, x), x, divides(3, Extent(k))


@unsound("extent", "kind: a bound that premises leave open", "the sum of 0 to 32 is 528", lambda: (float(np.arange(33).sum() > 500), 0.0))
def positions_add_up_to_500(k: Axis):
    """(sum_k index(k) > 500) = 0, for a multiple of 11 that is at least 9."""
    return Map("gt", Sum(k, Index(k)), Const(500.0)), Const(0.0), divides(11, Extent(k)), at_least(Extent(k), 9)


@unsound("overflow", "kind: accumulators of quantised sums", "257 times -128 is -32896", lambda: (np.sum(np.full(257, -128)), np.full(257, -128).sum().astype(np.int16)))
def sum_of_bytes_in_int16(x, k: Axis):
    """sum_k x = int16(sum_k x), for an x of int8."""
    return Reduce("isum", k, x), Cast("int16", Reduce("isum", k, x)), has_type(x, "int8")


@sound
def sum_of_few_bytes_in_int16(x, k: Axis):
    """sum_k x = int16(sum_k x), for an x of int8 and up to 256 of them."""
    return Reduce("isum", k, x), Cast("int16", Reduce("isum", k, x)), has_type(x, "int8"), at_most(Extent(k), 256)


@unsound("overflow", "kind: accumulators of quantised sums", "129 times 255 is 32895", lambda: (np.sum(np.full(129, 255)), np.full(129, 255).sum().astype(np.int16)))
def sum_of_unsigned_bytes_in_int16(x, k: Axis):
    """sum_k x = int16(sum_k x), for an x of uint8."""
    return Reduce("isum", k, x), Cast("int16", Reduce("isum", k, x)), has_type(x, "uint8")


@unsound("overflow", "kind: accumulators of quantised dot products", "3 times 128 * 128 is 49152", lambda: (np.sum(np.full(3, 128 * 128)), np.full(3, 128 * 128).sum().astype(np.int16)))
def product_of_bytes_in_int16(x, y, k: Axis):
    """sum_k x*y = int16(sum_k x*y), for x and y of int8."""
    return Reduce("isum", k, x * y), Cast("int16", Reduce("isum", k, x * y)), has_type(x, "int8"), has_type(y, "int8")


@unsound("whole numbers", "kind: roots of an equation that the rule does not name", "5^2 + 5 is 30", lambda: (0.0, 5.0))
def no_root_of_thirty(x):
    """where(x^2 + x == 30, 0, x) = x."""
    return Where(Map("eq", Map("square", x) + x, Const(30.0)), 0.0, x), x


@sound
def no_root_of_thirty_below_five(x):
    """where(x^2 + x == 30, 0, x) = x, for |x| <= 4."""
    return Where(Map("eq", Map("square", x) + x, Const(30.0)), 0.0, x), x, within(x, 4.0)


@unsound("whole numbers", "kind: roots of an equation that the rule does not name", "7^3 is 343", lambda: (0.0, 7.0))
def no_cube_is_343(x):
    """where(x*x*x == 343, 0, x) = x."""
    return Where(Map("eq", x * x * x, Const(343.0)), 0.0, x), x


@unsound("whole numbers", "kind: a remainder that is never met", "15 mod 17 is 15", lambda: (float(15 % 17 == 15), 0.0))
def remainder_by_17_is_not_15(x):
    """(x mod 17 == 15) = 0."""
    return Map("eq", Map("remainder", x, Const(17.0)), Const(15.0)), Const(0.0)


@unsound("rounding", "kind: counting in float16", "2048 + 1 is 2048", lambda: (np.add.accumulate(np.ones(2050, f16))[-1], f16(2050)), licence="exact")
def sum_of_ones(k: Axis):
    """sum_k 1 = size(k), to the last bit."""
    return Sum(k, Const(1.0)), Extent(k)


@sound
def sum_of_at_most_2048_ones(k: Axis):
    """sum_k 1 = size(k), to the last bit, for up to 2048 of them."""
    return Sum(k, Const(1.0)), Extent(k), at_most(Extent(k), 2048)


@sound(licence="real")
def sum_of_ones_of_reals(k: Axis):
    """sum_k 1 = size(k)."""
    return Sum(k, Const(1.0)), Extent(k)


@unsound("whole numbers", "kind: remainders of remainders", "9 mod 6 mod 4 is 3", lambda: (9 % 6 % 4, 9 % 4))
def remainder_of_remainder_by_six(x):
    """(x mod 6) mod 4 = x mod 4."""
    return Map("remainder", Map("remainder", x, Const(6.0)), Const(4.0)), Map("remainder", x, Const(4.0))


@sound
def remainder_of_remainder_by_eight(x):
    """(x mod 8) mod 4 = x mod 4: at -5e-324, floats round x mod 8 to 8."""
    return Map("remainder", Map("remainder", x, Const(8.0)), Const(4.0)), Map("remainder", x, Const(4.0))


@unsound("comparison", "kind: absorbed terms", "2 + 1 is more than 2 + 0 by 1", lambda: (float(2.0 + 1.0 > 2.0), 0.0))
def sum_is_never_more(x, y):
    """(x + y > x) = 0, for finite x and y."""
    return Map("gt", x + y, x), Const(0.0), finite(x), finite(y)


@sound
def sum_is_more_by_a_positive_term(x, y):
    """(x + y > x) = (y > 0), for finite x and y: floats absorb a small y."""
    return Map("gt", x + y, x), Map("gt", y, Const(0.0)), finite(x), finite(y)


@unsound("fact", "kind: Jensen's inequality turned round", "the mean of 0 and 1 squared is 1/4, that of their squares 1/2", lambda: (True, bool(0.25 - 0.5 >= 0)))
def variance_is_never_positive(t, x, k: Axis):
    """(mean_k x)^2 - mean_k x^2 >= 0."""
    return [match(t, Map("square", Mean(k, x)) - Mean(k, Map("square", x)))], [nonneg(t)]


@sound
def variance_is_never_negative(t, x, k: Axis):
    """mean_k x^2 - (mean_k x)^2 >= 0: in floats it is -1e-22 for a row of equal numbers."""
    return [match(t, Mean(k, Map("square", x)) - Map("square", Mean(k, x)))], [nonneg(t)]


@sound
def variance_of_exponentials_is_never_negative(t, x, k: Axis):
    """mean_k e^2x - (mean_k e^x)^2 >= 0."""
    e = Map("exp", x)
    return [match(t, Mean(k, Map("square", e)) - Map("square", Mean(k, e)))], [nonneg(t)]


@unsound("count", "kind: sum of squares", "0 + 1 is 1, and 2*3*5/6 is 5", lambda: (1.0, 2 * 3 * 5 / 6))
def squares_of_positions_from_one(k: Axis):
    """sum_k index(k)^2 = n (n+1) (2n+1) / 6."""
    n = Extent(k)
    return Sum(k, Map("square", Index(k))), n * (n + 1.0) * (2.0 * n + 1.0) / 6.0


@sound
def squares_of_positions(k: Axis):
    """sum_k index(k)^2 = (n-1) n (2n-1) / 6: a sixth is no float."""
    n = Extent(k)
    return Sum(k, Map("square", Index(k))), (n - 1.0) * n * (2.0 * n - 1.0) / 6.0
