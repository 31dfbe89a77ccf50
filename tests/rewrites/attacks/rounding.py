"""Laws of real numbers that rounding, the smallest and the largest numbers break: claimed to the last bit."""

import numpy as np

from eqfuse.rewrites import Axis, Const, Extent, Map, Max, NonEmpty, OtherAxis, Sum, Where, equals, finite, nonneg

from . import sound, unsound

f16, f32 = np.float16, np.float32
MAX, TINY = np.finfo(f32).max, np.float32(1e-45)


@unsound("rounding", "tvm#16211: c1 + (c2 + x) + c3", "sums round at each step", lambda: ((f32(5.4) + f32(0.8)) + f32(3), f32(5.4) + (f32(0.8) + f32(3))), licence="exact")
def terms_regrouped(x, y, z):
    """(x + y) + z = x + (y + z), to the last bit."""
    return (x + y) + z, x + (y + z)


@sound(licence="real")
def terms_regrouped_of_reals(x, y, z):
    """(x + y) + z = x + (y + z)."""
    return (x + y) + z, x + (y + z)


@unsound("overflow", "llvm#91417: reassociation", "x*y may overflow where y*z does not", lambda: (MAX * f32(2) * f32(0.5), MAX * (f32(2) * f32(0.5))), licence="exact")
def factors_regrouped(x, y, z):
    """(x * y) * z = x * (y * z), to the last bit."""
    return (x * y) * z, x * (y * z)


@sound(licence="real")
def factors_regrouped_of_reals(x, y, z):
    """(x * y) * z = x * (y * z)."""
    return (x * y) * z, x * (y * z)


@unsound("rounding", "openxla/xla#41579", "products round before they are added", lambda: (f32(7.6) * f32(38) + f32(7.6) * f32(46), f32(7.6) * f32(84)), licence="exact")
def factor_collected(x, y, z):
    """x*y + x*z = x * (y + z), to the last bit."""
    return x * y + x * z, x * (y + z)


@unsound("rounding", "tensorflow: Grappler folds constants of sums", "0.1 + 0.2 rounds otherwise after x", lambda: (f32(1.3) + f32(0.1) + f32(0.2), f32(1.3) + f32(0.1 + 0.2)), licence="exact")
def constants_added_first(x):
    """x + 0.1 + 0.2 = x + (0.1 + 0.2), to the last bit."""
    return x + 0.1 + 0.2, x + (0.1 + 0.2)


@unsound("rounding", "kind: power by squaring", "x*x*x*x rounds three times, the square of the square twice", lambda: (f32(0.4) * f32(0.4) * f32(0.4) * f32(0.4), np.square(np.square(f32(0.4)))), licence="exact")
def fourth_power_by_squaring(x):
    """x*x*x*x = (x^2)^2, to the last bit."""
    return x * x * x * x, Map("square", Map("square", x))


@sound
def square_is_product(x):
    """x^2 = x*x, to the last bit."""
    return Map("square", x), x * x


@unsound("rounding", "kind: root multiplied back", "the root is rounded", lambda: (np.sqrt(f32(2)) * np.sqrt(f32(2)), f32(2)), licence="exact")
def root_multiplied_back(x):
    """sqrt(x) * sqrt(x) = x for x >= 0, to the last bit."""
    return Map("sqrt", x) * Map("sqrt", x), x, nonneg(x)


@unsound("rounding", "tvm#13275: x + x as 2*x, taken further", "6x rounds once, its sums more often", lambda: (f32(6) * f32(0.65), f32(0.65) + f32(0.65) + f32(0.65) + f32(0.65) + f32(0.65) + f32(0.65)), licence="exact")
def six_times(x):
    """6 * x = x + x + x + x + x + x, to the last bit."""
    return 6.0 * x, x + x + x + x + x + x


@sound
def five_times(x):
    """5 * x = x + x + x + x + x, to the last bit: roundings to even cancel up to five."""
    return 5.0 * x, x + x + x + x + x


@sound
def three_times(x):
    """3 * x = x + x + x, to the last bit: x + x is exact."""
    return 3.0 * x, x + x + x


@sound
def twice(x):
    """2 * x = x + x, to the last bit."""
    return 2.0 * x, x + x


@unsound("rounding", "kind: factor of a sum with 1", "x*y rounds before x is added", lambda: (f32(9.9) + f32(9.9) * f32(80), f32(9.9) * f32(81)), licence="exact")
def one_collected(x, y):
    """x + x*y = x * (1 + y), to the last bit."""
    return x + x * y, x * (1.0 + y)


@unsound("underflow", "llvm#205003: an underflow hazard", "an odd multiple of the smallest number has no half", lambda: (TINY * f32(0.5) * f32(2), TINY), licence="exact")
def halved_and_doubled(x):
    """x * 0.5 * 2 = x, to the last bit."""
    return x * 0.5 * 2.0, x


@unsound("underflow", "llvm#205003: an underflow hazard", "11 times the smallest number is halved to 6, 3, 2, and its eighth rounds to 1", lambda: (f32(11) * TINY * f32(0.5) * f32(0.5) * f32(0.5), f32(11) * TINY * f32(0.125)), licence="exact")
def halved_thrice(x):
    """x * 0.5 * 0.5 * 0.5 = x * 0.125, to the last bit."""
    return x * 0.5 * 0.5 * 0.5, x * 0.125


@sound
def doubled_twice(x):
    """x * 2 * 4 = x * 8, to the last bit."""
    return x * 2.0 * 4.0, x * 8.0


@unsound("underflow", "llvm#205003: (x * c == 0) as (x == 0)", "half of the smallest number is 0", lambda: (float(TINY * f32(0.5) == 0), float(TINY == 0)), licence="exact")
def half_is_zero(x):
    """(x * 0.5 == 0) = (x == 0), to the last bit."""
    return Map("eq", x * 0.5, Const(0.0)), Map("eq", x, Const(0.0))


@sound(licence="real")
def half_is_zero_of_reals(x):
    """(x * 0.5 == 0) = (x == 0)."""
    return Map("eq", x * 0.5, Const(0.0)), Map("eq", x, Const(0.0))


@unsound("overflow", "kind: (2x == 2y) as (x == y)", "both overflow", lambda: (float(MAX * f32(2) == f32(3e38) * f32(2)), float(f32(3e38) == MAX)), licence="exact")
def doubles_compared(x, y):
    """(2*x == 2*y) = (x == y), to the last bit."""
    return Map("eq", x * 2.0, y * 2.0), Map("eq", x, y)


@sound(licence="real")
def doubles_compared_of_reals(x, y):
    """(2*x == 2*y) = (x == y)."""
    return Map("eq", x * 2.0, y * 2.0), Map("eq", x, y)


@unsound("overflow", "kind: root of a multiple", "4x overflows where 2*sqrt(x) does not", lambda: (np.sqrt(MAX * f32(4)), f32(2) * np.sqrt(MAX)), licence="exact")
def root_of_multiple(x):
    """sqrt(4*x) = 2*sqrt(x), to the last bit."""
    return Map("sqrt", 4.0 * x), 2.0 * Map("sqrt", x)


@sound(licence="real")
def root_of_multiple_of_reals(x):
    """sqrt(4*x) = 2*sqrt(x)."""
    return Map("sqrt", 4.0 * x), 2.0 * Map("sqrt", x)


@unsound("overflow", "kind: midpoint", "the sum overflows, its halves do not", lambda: ((MAX + MAX) * f32(0.5), MAX * f32(0.5) + MAX * f32(0.5)), licence="exact")
def midpoint_by_halves(x, y):
    """(x + y) * 0.5 = x*0.5 + y*0.5, to the last bit."""
    return (x + y) * 0.5, x * 0.5 + y * 0.5


@unsound("overflow", "kind: doubled sum", "doubles overflow that would cancel", lambda: ((MAX - MAX) * f32(2), MAX * f32(2) - MAX * f32(2)), licence="exact")
def doubled_sum(x, y):
    """(x + y) * 2 = x*2 + y*2, to the last bit."""
    return (x + y) * 2.0, x * 2.0 + y * 2.0


@unsound("signed zero", "LLVM InstCombine: -(y - x) without nsz", "x - x is +0, and its negation -0", lambda: (1.0 - 1.0, -(1.0 - 1.0)), licence="exact")
def difference_turned(x, y):
    """x - y = -(y - x), to the last bit."""
    return x - y, -(y - x)


@sound(licence="real")
def difference_turned_of_reals(x, y):
    """x - y = -(y - x)."""
    return x - y, -(y - x)


@unsound("signed zero", "LLVM InstCombine: -(x + y) without nsz", "1 + -1 is +0 either way", lambda: (-(1.0 + -1.0), -1.0 + 1.0), licence="exact")
def negation_into_sum(x, y):
    """-(x + y) = -x + -y, to the last bit."""
    return -(x + y), -x + -y


@sound
def negation_into_product(x, y):
    """-(x * y) = -x * y, to the last bit."""
    return -(x * y), -x * y


@sound
def negation_into_quotient(x, y):
    """-(x / y) = -x / y, to the last bit."""
    return -Map("div", x, y), Map("div", -x, y)


@unsound("signed zero", "LLVM: fneg as 0 - x", "0 - 0 is +0", lambda: (0.0 - 0.0, -0.0), licence="exact")
def negation_by_subtraction(x):
    """0 - x = -x, to the last bit."""
    return 0.0 - x, -x


@sound
def negation_by_subtraction_from_minus_zero(x):
    """-0 - x = -x, to the last bit."""
    return Const(-0.0) + -x, -x


@sound
def zero_subtracted(x):
    """x - 0 = x, to the last bit."""
    return x - 0.0, x


@unsound("signed zero", "llvm#141538, llvm#217505", "the size of -0 is +0, which the choice leaves alone", lambda: (-0.0, 0.0), licence="exact")
def size_by_choice(x):
    """where(x < 0, -x, x) = |x|, to the last bit."""
    return Where(Map("lt", x, Const(0.0)), -x, x), Map("abs", x)


@sound
def size_by_choice_with_subtraction(x):
    """where(x <= 0, 0 - x, x) = |x|, to the last bit."""
    return Where(Map("le", x, Const(0.0)), 0.0 - x, x), Map("abs", x)


@unsound("signed zero", "LLVM InstCombine: select(x == y, x, y)", "-0 equals +0, and is another number", lambda: (np.float64(-0.0), np.float64(0.0)), licence="exact")
def choice_of_equals(x, y):
    """where(x == y, x, y) = y, to the last bit."""
    return Where(Map("eq", x, y), x, y), y


@sound(licence="real")
def choice_of_equals_of_reals(x, y):
    """where(x == y, x, y) = y."""
    return Where(Map("eq", x, y), x, y), y


@unsound("empty axis", "kind: sign of a sum of nothing", "a sum of nothing is +0, and its negation -0", lambda: (0.0, -0.0), licence="exact")
def negation_out_of_sum(x, k: Axis):
    """sum_k -x = -sum_k x, to the last bit."""
    return Sum(k, -x), -Sum(k, x)


@unsound("infinity", "kind: monotone sum", "inf - inf is NaN, but only one of the terms was -inf", lambda: (np.maximum(-np.inf, 1.0) + np.inf, np.maximum(-np.inf + np.inf, 1.0 + np.inf)), licence="exact")
def term_into_maximum(x, y, z):
    """max(x, y) + z = max(x + z, y + z), to the last bit."""
    return Map("maximum", x, y) + z, Map("maximum", x + z, y + z)


@sound(licence="real")
def term_into_maximum_of_reals(x, y, z):
    """max(x, y) + z = max(x + z, y + z)."""
    return Map("maximum", x, y) + z, Map("maximum", x + z, y + z)


@unsound("rounding", "openxla/xla: reduce of reduce", "the order of a sum is in its bits", lambda: ((f32(1) + f32(1e-8)) + (f32(-1) + f32(0)), (f32(1) + f32(-1)) + (f32(1e-8) + f32(0))), licence="exact")
def sums_exchanged(x, j: Axis, k: Axis):
    """sum_j sum_k x = sum_k sum_j x, to the last bit."""
    return Sum(j, Sum(k, x)), Sum(k, Sum(j, x)), OtherAxis(j, k)


@sound(licence="real")
def sums_exchanged_of_reals(x, j: Axis, k: Axis):
    """sum_j sum_k x = sum_k sum_j x."""
    return Sum(j, Sum(k, x)), Sum(k, Sum(j, x)), OtherAxis(j, k)


@unsound("rounding", "kind: sum of a sum", "each sum rounds", lambda: ((f32(1) + f32(1e-8)) + (f32(-1) + f32(0)), (f32(1) + f32(-1)) + (f32(1e-8) + f32(0))), licence="exact")
def sum_of_terms_apart(x, y, k: Axis):
    """sum_k (x + y) = sum_k x + sum_k y, to the last bit."""
    return Sum(k, x + y), Sum(k, x) + Sum(k, y)


@sound(licence="real")
def sum_of_terms_apart_of_reals(x, y, k: Axis):
    """sum_k (x + y) = sum_k x + sum_k y."""
    return Sum(k, x + y), Sum(k, x) + Sum(k, y)


@unsound("rounding", "tensorflow#25427", "log1p exists because 1 + x rounds", lambda: (np.log1p(1e-20), np.log(1 + 1e-20)), licence="exact")
def log1p_as_log(x):
    """log1p x = log(1 + x), to the last bit."""
    return Map("log1p", x), Map("log", 1.0 + x)


@sound(licence="real")
def log1p_as_log_of_reals(x):
    """log1p x = log(1 + x)."""
    return Map("log1p", x), Map("log", 1.0 + x)


@unsound("rounding", "openxla/xla#14075", "a power by logarithms rounds otherwise than a root", lambda: (np.exp(np.log(3.0) * 0.5), np.sqrt(3.0)), licence="exact")
def root_by_logarithm(x):
    """exp(log(x) * 0.5) = sqrt(x), to the last bit."""
    return Map("exp", Map("log", x) * 0.5), Map("sqrt", x)


@sound(licence="real")
def root_by_logarithm_of_reals(x):
    """exp(log(x) * 0.5) = sqrt(x)."""
    return Map("exp", Map("log", x) * 0.5), Map("sqrt", x)


@unsound("rounding", "kind: rounding to whole numbers by floor(x + 0.5)", "the number below 0.5, and 0.5, round up to 1", lambda: (np.floor(np.nextafter(0.5, 0) + 0.5), 0.0), licence="exact")
def round_half_up(x):
    """floor(x + 0.5) = floor(x) + (x - floor(x) >= 0.5) for finite x, to the last bit."""
    down = Map("floor", x)
    return Map("floor", x + 0.5), down + Map("ge", x - down, Const(0.5)), finite(x)


@sound(licence="real")
def round_half_up_of_reals(x):
    """floor(x + 0.5) = floor(x) + (x - floor(x) >= 0.5) for finite x."""
    down = Map("floor", x)
    return Map("floor", x + 0.5), down + Map("ge", x - down, Const(0.5)), finite(x)


@unsound("rounding", "kind: fraction below 1", "-1e-20 - floor(-1e-20) rounds to 1", lambda: (float(-1e-20 - np.floor(-1e-20) < 1), 1.0), licence="exact")
def fraction_is_below_one(x):
    """(x - floor(x) < 1) = 1 for finite x, to the last bit."""
    return Map("lt", x - Map("floor", x), Const(1.0)), Const(1.0), finite(x)


@unsound("rounding", "kind: 1 cancelled in a comparison", "1 + x rounds to 1 for both", lambda: (float(1 + 1e-20 < 1 + 2e-20), 1.0), licence="exact")
def one_cancelled_in_comparison(x, y):
    """(1 + x < 1 + y) = (x < y), to the last bit."""
    return Map("lt", 1.0 + x, 1.0 + y), Map("lt", x, y)


@unsound("rounding", "kind: complement twice", "1 - x rounds", lambda: (1 - (1 - 1e-20), 1e-20), licence="exact")
def complement_twice(x):
    """1 - (1 - x) = x, to the last bit."""
    return 1.0 - (1.0 - x), x


@sound(licence="real")
def complement_twice_of_reals(x):
    """1 - (1 - x) = x."""
    return 1.0 - (1.0 - x), x


@unsound("rounding", "kind: sum of a constant", "n times x rounds once, its sum n times", lambda: (f16(0.1) + f16(0.1) + f16(0.1) + f16(0.1) + f16(0.1) + f16(0.1) + f16(0.1), f16(7) * f16(0.1)), licence="exact")
def sum_of_tenth(k: Axis):
    """sum_k 0.1 = size(k) * 0.1, to the last bit."""
    return Sum(k, Const(0.1)), Extent(k) * 0.1


@sound
def sum_of_three_tenths(k: Axis):
    """sum_k 0.1 = 0.1 + 0.1 + 0.1, to the last bit, for three of them."""
    return Sum(k, Const(0.1)), Const(0.1) + 0.1 + 0.1, equals(Extent(k), 3)


@unsound("rounding", "kind: difference from the maximum, regrouped", "x - m - n rounds twice", lambda: (f32(1) - f32(0.1) - f32(0.3), f32(1) - (f32(0.1) + f32(0.3))), licence="exact")
def references_added(x, n, k: Axis):
    """x - max_k x - n = x - (max_k x + n), to the last bit."""
    return x - Max(k, x) - n, x - (Max(k, x) + n), NonEmpty(k)
