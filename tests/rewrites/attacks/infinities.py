"""Infinities, NaN, and the laws that guards are for."""

import math

import numpy as np

from eqfuse.rewrites import Const, Map, Where, finite, nonneg, positive, truth

from . import sound, unsound

inf, nan = np.inf, np.nan
INF = Const(math.inf)


@unsound("infinity", "stoke#904; openxla/xla: A - A behind fast-math", "inf - inf is NaN", lambda: (inf - inf, 0.0))
def difference_with_itself(x):
    """x - x = 0."""
    return x - x, Const(0.0)


@sound
def finite_difference_with_itself(x):
    """x - x = 0 for finite x."""
    return x - x, Const(0.0), finite(x)


@unsound("infinity", "tensorflow#119428", "0 * inf is NaN, and what is added to it with it", lambda: (1 + 0 * inf, 1.0))
def zero_times_something_added(x, y):
    """y + 0*x = y."""
    return y + x * 0.0, y


@sound
def zero_times_finite_added(x, y):
    """y + 0*x = y for finite x."""
    return y + x * 0.0, y, finite(x)


@unsound("NaN", "tensorflow#119428", "x*0 != x*0 is how programs look for infinities and NaN", lambda: (float((inf * 0) != (inf * 0)), 0.0))
def detector_of_infinity_folded(x):
    """(x*0 != x*0) = 0."""
    return Map("ne", x * 0.0, x * 0.0), Const(0.0)


@sound
def detector_of_infinity_folded_if_finite(x):
    """(x*0 != x*0) = 0 for finite x."""
    return Map("ne", x * 0.0, x * 0.0), Const(0.0), finite(x)


@unsound("NaN", "jax#276", "the guard is what replaces NaN", lambda: (0.0, nan))
def guard_against_nan_dropped(x):
    """where(x != x, 0, x) = x."""
    return Where(Map("ne", x, x), 0.0, x), x


@sound
def guard_against_nan_dropped_if_finite(x):
    """where(x != x, 0, x) = x for finite x."""
    return Where(Map("ne", x, x), 0.0, x), x, finite(x)


@unsound("infinity", "openxla/stablehlo: compare with infinity", "inf < inf is false, and so is NaN < inf", lambda: (float(inf < inf), 1.0))
def everything_is_below_infinity(x):
    """(x < inf) = 1."""
    return Map("lt", x, INF), Const(1.0)


@sound
def finite_is_below_infinity(x):
    """(x < inf) = 1 for finite x."""
    return Map("lt", x, INF), Const(1.0), finite(x)


@unsound("NaN", "llvm#114947: comparison folded to a constant", "NaN <= inf is false", lambda: (float(nan <= inf), 1.0))
def everything_is_at_most_infinity(x):
    """(x <= inf) = 1."""
    return Map("le", x, INF), Const(1.0)


@sound
def finite_is_at_most_infinity(x):
    """(x <= inf) = 1 for finite x."""
    return Map("le", x, INF), Const(1.0), finite(x)


@unsound("NaN", "llvm#114594, stablehlo#2891", "the maximum of NaN and inf is NaN here, not inf", lambda: (np.maximum(nan, inf), inf), licence="exact")
def infinity_absorbs_in_maximum(x):
    """max(x, inf) = inf, to the last bit."""
    return Map("maximum", x, INF), INF


@sound
def infinity_absorbs_finite_in_maximum(x):
    """max(x, inf) = inf for finite x, to the last bit."""
    return Map("maximum", x, INF), INF, finite(x)


@sound
def minus_infinity_is_neutral_in_maximum(x):
    """max(x, -inf) = x, to the last bit."""
    return Map("maximum", x, -INF), x


@unsound("infinity", "llvm#161525", "the difference of equal infinities is NaN, and not 0", lambda: (float(inf - inf <= 0), float(inf <= inf)))
def comparison_of_difference(x, y):
    """(x - y <= 0) = (x <= y)."""
    return Map("le", x - y, Const(0.0)), Map("le", x, y)


@sound(licence="exact")
def strict_comparison_of_difference(x, y):
    """(x - y < 0) = (x < y), to the last bit: differences vanish only of equal numbers, and NaN < 0 is as false as inf < inf."""
    return Map("lt", x - y, Const(0.0)), Map("lt", x, y)


@unsound("infinity", "kind: term cancelled", "inf - inf is NaN", lambda: (1 + inf - inf, 1.0))
def term_cancelled(x, y):
    """x + y - y = x."""
    return x + y - y, x


@sound
def finite_term_cancelled(x, y):
    """x + y - y = x for finite y."""
    return x + y - y, x, finite(y)


@unsound("infinity", "halide#6174: x * select(y, 1, 0)", "what is not chosen may be infinite", lambda: (inf * 0.0, 0.0))
def product_with_mask(c, x):
    """x * where(c, 1, 0) = where(c, x, 0)."""
    return x * Where(c, 1.0, 0.0), Where(c, x, 0.0)


@sound
def product_with_mask_if_finite(c, x):
    """x * where(c, 1, 0) = where(c, x, 0) for finite x."""
    return x * Where(c, 1.0, 0.0), Where(c, x, 0.0), finite(x)


@unsound("infinity", "kind: choice by arithmetic", "0 * inf is NaN", lambda: (0 * inf + 1 * 2.0, 2.0))
def choice_by_arithmetic(c, x, y):
    """c*x + (1-c)*y = where(c, x, y) for a truth value c."""
    return c * x + (1.0 - c) * y, Where(c, x, y), truth(c)


@sound
def choice_by_arithmetic_if_finite(c, x, y):
    """c*x + (1-c)*y = where(c, x, y) for a truth value c and finite x, y."""
    return c * x + (1.0 - c) * y, Where(c, x, y), truth(c), finite(x), finite(y)


@unsound("infinity", "pytensor#1037: local_mul_switch_sink", "0 * inf is NaN, and 0 after the product is pulled in", lambda: (0.0 * inf, 0.0))
def product_into_choice(c, x, y):
    """where(c, x, 0) * y = where(c, x*y, 0)."""
    return Where(c, x, 0.0) * y, Where(c, x * y, 0.0)


@sound
def finite_product_into_choice(c, x, y):
    """where(c, x, 0) * y = where(c, x*y, 0) for finite y."""
    return Where(c, x, 0.0) * y, Where(c, x * y, 0.0), finite(y)


@unsound("infinity", "kind: additive mask", "inf - inf is NaN where a choice gives 0", lambda: (np.exp(inf + -inf), 0.0))
def additive_mask(c, x):
    """exp(x + where(c, 0, -inf)) = where(c, exp x, 0)."""
    return Map("exp", x + Where(c, 0.0, -math.inf)), Where(c, Map("exp", x), 0.0)


@sound
def additive_mask_of_finite(c, x):
    """exp(x + where(c, 0, -inf)) = where(c, exp x, 0) for finite x."""
    return Map("exp", x + Where(c, 0.0, -math.inf)), Where(c, Map("exp", x), 0.0), finite(x)


@unsound("constants", "lattice#361, flashinfer#4401", "a finite mask hides nothing from a number that is larger", lambda: (np.exp(1e4 - 1e4), 0.0))
def finite_additive_mask(c, x):
    """exp(x + where(c, 0, -10000)) = where(c, exp x, 0) for finite x."""
    return Map("exp", x + Where(c, 0.0, -10000.0)), Where(c, Map("exp", x), 0.0), finite(x)


@unsound("guard lost", "flashinfer#1178, pytorch#130014", "-inf - -inf is NaN, the guard makes it 0", lambda: (0.0, -inf - -inf))
def guard_of_difference_dropped(x, m):
    """where(m == -inf, 0, x - m) = x - m."""
    return Where(Map("eq", m, -INF), 0.0, x - m), x - m


@sound
def guard_of_finite_difference_dropped(x, m):
    """where(m == -inf, 0, x - m) = x - m for finite m."""
    return Where(Map("eq", m, -INF), 0.0, x - m), x - m, finite(m)


@sound
def guard_of_exponential_dropped(x):
    """where(x == -inf, 0, exp x) = exp x: the exponential of -inf is 0."""
    return Where(Map("eq", x, -INF), 0.0, Map("exp", x)), Map("exp", x)


@unsound("overflow", "kind: tanh by exponentials", "inf/inf is NaN, tanh is 1", lambda: (1.0, (np.exp(inf) - 0) / (np.exp(inf) + 0)))
def tanh_by_exponentials(x):
    """tanh x = (exp x - exp -x) / (exp x + exp -x)."""
    up, down = Map("exp", x), Map("exp", -x)
    return Map("tanh", x), (up - down) / (up + down)


@sound
def tanh_by_one_exponential(x):
    """tanh x = 1 - 2 / (1 + exp 2x)."""
    return Map("tanh", x), 1.0 - 2.0 / (1.0 + Map("exp", 2.0 * x))


@unsound("overflow", "tt-metal#56397", "inf/inf is NaN, the sigmoid is 1", lambda: (1.0, np.exp(inf) / (1 + np.exp(inf))))
def sigmoid_by_growing_exponential(x):
    """sigmoid x = exp x / (1 + exp x)."""
    return Map("sigmoid", x), Map("exp", x) / (1.0 + Map("exp", x))


@sound
def sigmoid_by_falling_exponential(x):
    """sigmoid x = 1 / (1 + exp -x)."""
    return Map("sigmoid", x), 1.0 / (1.0 + Map("exp", -x))


@unsound("infinity", "pytorch#173894: the other form of softplus", "-inf + inf is NaN, softplus is 0", lambda: (np.log1p(np.exp(-inf)), -inf + np.log1p(np.exp(inf))))
def softplus_by_falling_exponential(x):
    """log1p(exp x) = x + log1p(exp -x)."""
    return Map("log1p", Map("exp", x)), x + Map("log1p", Map("exp", -x))


@sound
def softplus_by_size(x):
    """log1p(exp x) = max(x, 0) + log1p(exp -|x|)."""
    return Map("log1p", Map("exp", x)), Map("maximum", x, Const(0.0)) + Map("log1p", Map("exp", -Map("abs", x)))


@unsound("infinity", "kind: logaddexp from one side", "-inf + inf is NaN", lambda: (np.log(np.exp(-inf) + np.exp(1.0)), -inf + np.log1p(np.exp(1.0 - -inf))))
def logaddexp_from_first(x, y):
    """log(exp x + exp y) = x + log1p(exp(y - x))."""
    return Map("log", Map("exp", x) + Map("exp", y)), x + Map("log1p", Map("exp", y - x))


@sound
def logaddexp_from_larger(x, y):
    """log(exp x + exp y) = max(x, y) + log1p(exp -|x - y|)."""
    larger = Map("maximum", x, y) + Map("log1p", Map("exp", -Map("abs", x - y)))
    return Map("log", Map("exp", x) + Map("exp", y)), larger


@unsound("overflow", "tensorflow#123169", "exp 100 * exp -100 is inf * 0 in float32", lambda: (np.exp(np.float32(100)) * np.exp(np.float32(-120)), np.exp(np.float32(-20))), licence="exact")
def exponentials_multiplied(x, y):
    """exp x * exp y = exp(x + y), to the last bit."""
    return Map("exp", x) * Map("exp", y), Map("exp", x + y)


@sound(licence="real")
def exponentials_multiplied_of_reals(x, y):
    """exp x * exp y = exp(x + y)."""
    return Map("exp", x) * Map("exp", y), Map("exp", x + y)


@unsound("overflow", "openxla/xla#42732, jax#38099", "exp 89 overflows float32, and the logarithm of inf is inf", lambda: (np.log(np.exp(np.float32(89))), np.float32(89)), licence="exact")
def log_of_exponential(x):
    """log(exp x) = x, to the last bit."""
    return Map("log", Map("exp", x)), x


@sound(licence="real")
def log_of_exponential_of_reals(x):
    """log(exp x) = x."""
    return Map("log", Map("exp", x)), x


@unsound("overflow", "jax#37919, openxla/xla#45560", "the square of the largest number is inf", lambda: (np.sqrt(np.square(np.float32(3e38))), np.float32(3e38)), licence="exact")
def root_of_square_exactly(x):
    """sqrt(|x^2|) = |x|, to the last bit."""
    return Map("sqrt", Map("abs", Map("square", x))), Map("abs", x)


@sound(licence="real")
def root_of_square_of_reals(x):
    """sqrt(|x^2|) = |x|."""
    return Map("sqrt", Map("abs", Map("square", x))), Map("abs", x)


@unsound("domain", "pytensor#1451", "log1p has no business with log x of a negative x", lambda: (np.log1p(np.exp(np.log(-0.5))), np.log1p(-0.5)))
def softplus_of_log(x):
    """log1p(exp(log x)) = log1p x."""
    return Map("log1p", Map("exp", Map("log", x))), Map("log1p", x)


@sound
def softplus_of_log_of_nonneg(x):
    """log1p(exp(log x)) = log1p x for x >= 0."""
    return Map("log1p", Map("exp", Map("log", x))), Map("log1p", x), nonneg(x)


@unsound("NaN", "kind: a premise that NaN obeys", "relu(NaN) is NaN, which is not negative and not at least 0", lambda: (float(nan >= 0), 1.0))
def nonneg_is_at_least_zero(x):
    """(x >= 0) = 1 for x >= 0, which is true of NaN as a premise: it says never negative."""
    return Map("ge", x, Const(0.0)), Const(1.0), nonneg(x)


@sound
def positive_is_at_least_zero(x):
    """(x >= 0) = 1 for finite x > 0: what is positive may be NaN."""
    return Map("ge", x, Const(0.0)), Const(1.0), positive(x), finite(x)


@sound
def finite_nonneg_is_at_least_zero(x):
    """(x >= 0) = 1 for finite x >= 0."""
    return Map("ge", x, Const(0.0)), Const(1.0), nonneg(x), finite(x)
