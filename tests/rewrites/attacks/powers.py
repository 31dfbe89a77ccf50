"""Signs, absolute values, squares, roots and powers."""

import numpy as np

from eqfuse.rewrites import Axis, Const, Map, Max, Reduce, Scalar, Where, finite, free, nonneg, positive

from . import sound, unsound

nan = np.nan


@unsound("domain", "pytensor#1922", "the cases of sqrt(x^2) and sqrt(x)^2 are exchanged: the latter is not defined for x < 0", lambda: (np.sqrt(-4.0) ** 2, 4.0))
def square_of_root_is_size(x):
    """sqrt(x)^2 = |x|."""
    return Map("square", Map("sqrt", x)), Map("abs", x)


@sound
def square_of_root(x):
    """sqrt(x)^2 = x for x >= 0."""
    return Map("square", Map("sqrt", x)), x, nonneg(x)


@unsound("sign", "herbie#733: sqrt-prod", "two negative factors have a root together, but none alone", lambda: (np.sqrt(-1.0 * -4.0), np.sqrt(-1.0) * np.sqrt(-4.0)))
def root_of_any_product(x, y):
    """sqrt(x*y) = sqrt(x) * sqrt(y)."""
    return Map("sqrt", x * y), Map("sqrt", x) * Map("sqrt", y)


@sound
def root_of_nonneg_product(x, y):
    """sqrt(x*y) = sqrt(x) * sqrt(y) for x, y >= 0."""
    return Map("sqrt", x * y), Map("sqrt", x) * Map("sqrt", y), nonneg(x), nonneg(y)


@unsound("sign", "LLVM InstCombine: sqrt(x*x*y)", "the square leaves a root as |x|", lambda: (np.sqrt(-2.0 * -2 * 9), -2.0 * 3))
def square_leaves_root(x, y):
    """sqrt(x*x*y) = x * sqrt(y) for y >= 0."""
    return Map("sqrt", x * x * y), x * Map("sqrt", y), nonneg(y)


@sound
def square_leaves_root_as_size(x, y):
    """sqrt(x*x*y) = |x| * sqrt(y) for y >= 0."""
    return Map("sqrt", x * x * y), Map("abs", x) * Map("sqrt", y), nonneg(y)


@unsound("sign", "GCC match.pd: abs(x)*abs(x)", "only both sizes together are a square", lambda: (2.0 * -2, 4.0))
def size_times_itself(x):
    """|x| * x = x^2."""
    return Map("abs", x) * x, Map("square", x)


@sound
def size_times_size(x):
    """|x| * |x| = x^2."""
    return Map("abs", x) * Map("abs", x), Map("square", x)


@unsound("sign", "tvm#2426", "a negative scale does not leave an absolute value", lambda: (abs(-2.0 * 3), -2.0 * 3))
def scale_out_of_size(x, s):
    """|s*x| = s * |x|."""
    return Map("abs", s * x), s * Map("abs", x)


@sound
def nonneg_scale_out_of_size(x, s):
    """|s*x| = s * |x| for s >= 0."""
    return Map("abs", s * x), s * Map("abs", x), nonneg(s)


def relu(x):
    return Map("maximum", x, Const(0.0))


@unsound("sign", "tvm#2299, tvm#16211", "a negative scale turns relu around", lambda: (max(-2.0 * -3, 0), -2.0 * max(-3.0, 0)))
def scale_out_of_relu(x, s):
    """relu(s*x) = s * relu(x)."""
    return relu(s * x), s * relu(x)


@unsound("infinity", "tvm#2426", "a scale of 0 makes NaN of -inf before the relu, and 0 after it", lambda: (np.maximum(0.0 * -np.inf, 0), 0.0 * max(-np.inf, 0)))
def nonneg_scale_out_of_relu(x, s):
    """relu(s*x) = s * relu(x) for finite s >= 0."""
    return relu(s * x), s * relu(x), nonneg(s), finite(s)


@unsound("infinity", "tvm#2299", "an infinite scale makes NaN of the zeros of relu", lambda: (np.maximum(np.inf * -1, 0), np.inf * max(-1.0, 0)))
def positive_scale_out_of_relu(x, s):
    """relu(s*x) = s * relu(x) for s > 0."""
    return relu(s * x), s * relu(x), positive(s)


@sound
def finite_positive_scale_out_of_relu(x, s):
    """relu(s*x) = s * relu(x) for finite s > 0."""
    return relu(s * x), s * relu(x), positive(s), finite(s)


@unsound("sign", "tvm#5749", "a minimum of negative multiples is a multiple of the maximum", lambda: (min(3 * -2.0, -4.0), min(3.0, 2.0) * -2))
def minimum_of_multiples(x):
    """min(x * -2, -4) = min(x, 2) * -2."""
    return Map("minimum", x * -2.0, Const(-4.0)), Map("minimum", x, Const(2.0)) * -2.0


@sound
def minimum_of_multiples_is_of_maximum(x):
    """min(x * -2, -4) = max(x, 2) * -2."""
    return Map("minimum", x * -2.0, Const(-4.0)), Map("maximum", x, Const(2.0)) * -2.0


@unsound("sign", "tvm#3386", "the constant may be negative", lambda: (min(1 * -1.0, 2 * -1.0), min(1.0, 2.0) * -1))
def constant_out_of_minimum(x, y, a: Scalar):
    """min(x*a, y*a) = min(x, y) * a for a constant a."""
    return Map("minimum", x * Const(a), y * Const(a)), Map("minimum", x, y) * Const(a)


@sound
def positive_constant_out_of_minimum(x, y):
    """min(x*3, y*3) = min(x, y) * 3."""
    return Map("minimum", x * 3.0, y * 3.0), Map("minimum", x, y) * 3.0


@unsound("whole numbers", "halide#2949, halide#2895", "rounding down is not symmetric: the sign may not leave a division that rounds down", lambda: (np.floor(-0.5), -np.floor(0.5)))
def sign_out_of_floor(x):
    """floor(-x) = -floor(x)."""
    return Map("floor", -x), -Map("floor", x)


@sound
def floor_of_negation_is_ceiling(x):
    """floor(-x) = -floor(x) where x is whole, and one less elsewhere."""
    down = Map("floor", x)
    return Map("floor", -x), -Where(Map("eq", down, x), down, down + 1.0)


@unsound("whole numbers", "tvm#10336", "dividing first loses the remainder", lambda: (np.floor(3 * 0.5) * 2, np.floor(3.0)))
def half_rounded_and_doubled(x):
    """floor(x/2) * 2 = floor(x)."""
    return Map("floor", x * 0.5) * 2.0, Map("floor", x)


@sound
def doubled_and_half_rounded(x):
    """floor(x*2/2) = floor(x)."""
    return Map("floor", x * 2.0 * 0.5), Map("floor", x)


@unsound("whole numbers", "tvm: nested floordiv", "floor(floor(x)*1.5) forgets what was cut off", lambda: (np.floor(np.floor(1.9) * 1.5), np.floor(1.9 * 1.5)))
def nested_floors(x):
    """floor(floor(x) * 1.5) = floor(x * 1.5)."""
    return Map("floor", Map("floor", x) * 1.5), Map("floor", x * 1.5)


@sound
def nested_floors_of_a_quotient(x):
    """floor(floor(x) / 4) = floor(x / 4)."""
    return Map("floor", Map("floor", x) * 0.25), Map("floor", x * 0.25)


@unsound("sign", "LLVM InstCombine: cos(-x), copied to sin", "sine is odd", lambda: (np.sin(-1.0), np.sin(1.0)))
def sine_is_even(x):
    """sin(-x) = sin(x)."""
    return Map("sin", -x), Map("sin", x)


@sound
def cosine_is_even(x):
    """cos(-x) = cos(x)."""
    return Map("cos", -x), Map("cos", x)


@sound
def sine_is_odd(x):
    """sin(-x) = -sin(x), to the last bit."""
    return Map("sin", -x), -Map("sin", x)


@unsound("sign", "GCC match.pd: cos(fabs(x))", "the sine of a size is not the size of the sine", lambda: (np.sin(4.0), abs(np.sin(4.0))))
def sine_of_size(x):
    """sin(|x|) = |sin(x)|."""
    return Map("sin", Map("abs", x)), Map("abs", Map("sin", x))


@sound
def cosine_of_size(x):
    """cos(|x|) = cos(x)."""
    return Map("cos", Map("abs", x)), Map("cos", x)


@unsound("zero", "herbie: sgn", "0 and -inf have no sign by division", lambda: (np.float64(0) / abs(0.0), 0.0))
def sign_by_division(x):
    """x / |x| = (x > 0) - (x < 0)."""
    zero = Const(0.0)
    return x / Map("abs", x), Map("gt", x, zero) - Map("lt", x, zero)


@sound
def sign_by_division_of_positive(x):
    """x / |x| = 1 for finite x > 0."""
    return x / Map("abs", x), Const(1.0), positive(x), finite(x)


@unsound("term lost", "openxla/xla#14074", "the rule did not look whether both roots are of the same value", lambda: (np.sqrt(4.0) * np.sqrt(9.0), 4.0))
def product_of_two_roots(x, y):
    """sqrt(x) * sqrt(y) = x for x, y >= 0."""
    return Map("sqrt", x) * Map("sqrt", y), x, nonneg(x), nonneg(y)


@unsound("domain", "openxla/xla#14074", "the root of a negative number is NaN", lambda: (np.sqrt(-4.0) * np.sqrt(-4.0), -4.0))
def product_of_equal_roots(x):
    """sqrt(x) * sqrt(x) = x."""
    return Map("sqrt", x) * Map("sqrt", x), x


@sound
def product_of_equal_roots_of_nonneg(x):
    """sqrt(x) * sqrt(x) = x for x >= 0."""
    return Map("sqrt", x) * Map("sqrt", x), x, nonneg(x)


@unsound("domain", "openxla/xla#13771", "1/sqrt(x) is NaN for x < 0, 1/x is not", lambda: ((1 / np.sqrt(-4.0)) ** 2, -0.25))
def square_of_reciprocal_root(x):
    """rsqrt(x) * rsqrt(x) = 1/x."""
    return Map("rsqrt", x) * Map("rsqrt", x), Map("recip", x)


@sound
def square_of_reciprocal_root_of_positive(x):
    """rsqrt(x) * rsqrt(x) = 1/x for x > 0."""
    return Map("rsqrt", x) * Map("rsqrt", x), Map("recip", x), positive(x)


@unsound("sign", "herbie#732: sqrt-pow", "the square has lost the sign", lambda: (1 / np.sqrt(np.square(-2.0)), -0.5))
def reciprocal_root_of_square(x):
    """rsqrt(x^2) = 1/x."""
    return Map("rsqrt", Map("square", x)), Map("recip", x)


@sound
def reciprocal_root_of_square_is_of_size(x):
    """rsqrt(x^2) = 1/|x|."""
    return Map("rsqrt", Map("square", x)), Map("recip", Map("abs", x))


@unsound("sign", "herbie: log-pow", "the logarithm of a square exists for negative numbers", lambda: (np.log(4.0), 2 * np.log(-2.0)))
def log_of_square(x):
    """log(x^2) = 2 * log(x)."""
    return Map("log", Map("square", x)), 2.0 * Map("log", x)


@sound
def log_of_square_of_size(x):
    """log(x^2) = 2 * log(|x|)."""
    return Map("log", Map("square", x)), 2.0 * Map("log", Map("abs", x))


@unsound("sign", "LLVM InstCombine: max(x, -x)", "the larger of x and -x is |x|, not x", lambda: (max(-3.0, 3.0), -3.0))
def larger_of_both_signs(x):
    """max(x, -x) = x."""
    return Map("maximum", x, -x), x


@sound
def larger_of_both_signs_is_size(x):
    """max(x, -x) = |x|."""
    return Map("maximum", x, -x), Map("abs", x)


@unsound("sign", "kind: triangle inequality", "sizes of terms of unlike signs do not add up", lambda: (abs(1.0 - 2.0), 3.0))
def sum_of_sizes_of_terms(x, y):
    """|x + y| = |x| + |y|."""
    return Map("abs", x + y), Map("abs", x) + Map("abs", y)


@sound
def size_of_nonneg_sum(x, y):
    """|x + y| = |x| + |y| for x, y >= 0."""
    return Map("abs", x + y), Map("abs", x) + Map("abs", y), nonneg(x), nonneg(y)


@unsound("sign", "kind: norm of a difference", "|x - y| is no difference of sizes", lambda: (abs(1.0 - 3.0), 1.0 - 3.0))
def size_of_difference(x, y):
    """|x - y| = |x| - |y|."""
    return Map("abs", x - y), Map("abs", x) - Map("abs", y)


@sound
def size_of_difference_by_ends(x, y):
    """|x - y| = max(x, y) - min(x, y)."""
    return Map("abs", x - y), Map("maximum", x, y) - Map("minimum", x, y)


@unsound("term lost", "kind: freshman's square", "2xy is lost", lambda: ((1.0 + 2) ** 2, 1.0 + 4))
def square_of_sum(x, y):
    """(x + y)^2 = x^2 + y^2."""
    return Map("square", x + y), Map("square", x) + Map("square", y)


@sound
def square_of_product(x, y):
    """(x * y)^2 = x^2 * y^2."""
    return Map("square", x * y), Map("square", x) * Map("square", y)


@unsound("term lost", "kind: hypotenuse", "the root does not distribute over a sum", lambda: (np.hypot(3.0, 4.0), 7.0))
def hypotenuse_as_sum(x, y):
    """sqrt(x^2 + y^2) = |x| + |y|."""
    return Map("sqrt", Map("square", x) + Map("square", y)), Map("abs", x) + Map("abs", y)


@unsound("zero", "kind: scaled hypotenuse", "scaling by the first number divides by 0 where it vanishes", lambda: (np.sqrt(0.0 + 4), 0 * np.sqrt(1 + (2 / np.float64(0)) ** 2)))
def hypotenuse_scaled(x, y):
    """sqrt(x^2 + y^2) = |x| * sqrt(1 + (y/x)^2)."""
    return Map("sqrt", Map("square", x) + Map("square", y)), Map("abs", x) * Map("sqrt", 1.0 + Map("square", y / x)), finite(x), finite(y)


@sound
def hypotenuse_scaled_by_positive(x, y):
    """sqrt(x^2 + y^2) = x * sqrt(1 + (y/x)^2) for finite x > 0."""
    return Map("sqrt", Map("square", x) + Map("square", y)), x * Map("sqrt", 1.0 + Map("square", y / x)), positive(x), finite(x), finite(y)


@unsound("sign", "herbie: pow-flip of even roots", "x^3 has the sign of x", lambda: (np.sqrt((-2.0) ** 6), (-2.0) ** 3))
def root_of_sixth_power(x):
    """sqrt(x^6) = x^3."""
    return Map("sqrt", x**6), x**3


@sound
def root_of_fourth_power(x):
    """sqrt(x^4) = x^2."""
    return Map("sqrt", x**4), x**2


@unsound("zero", "drjit#168, openxla/xla: pow(x, 0)", "0 * log 0 is NaN, so a power of 0 that is computed by logarithms has no 0th power", lambda: (np.exp(0 * np.log(0.0)), 1.0))
def power_of_zero(x):
    """exp(0 * log x) = 1."""
    return Map("exp", Map("log", x) * 0.0), Const(1.0), nonneg(x), finite(x)


@sound
def zeroth_power_of_positive(x):
    """exp(0 * log x) = 1 for finite x > 0."""
    return Map("exp", Map("log", x) * 0.0), Const(1.0), positive(x), finite(x)


@unsound("sign", "kind: largest square", "the largest square may be that of the smallest number", lambda: (max(9.0, 1.0), max(-3.0, 1.0) ** 2))
def largest_square_as_square(x, k: Axis):
    """max_k x^2 = (max_k x)^2."""
    return Max(k, Map("square", x)), Map("square", Max(k, x))


@sound
def largest_size(x, k: Axis):
    """max_k |x| = max(max_k x, -min_k x)."""
    return Max(k, Map("abs", x)), Map("maximum", Max(k, x), -Reduce("min", k, x))


@unsound("sign", "kind: size of a sum", "sizes do not cancel", lambda: (1.0 + 2.0, abs(1.0 - 2.0)))
def sum_of_sizes(x, k: Axis):
    """sum_k |x| = |sum_k x|."""
    return Reduce("sum", k, Map("abs", x)), Map("abs", Reduce("sum", k, x))


@unsound("sign", "kind: relu of a sum", "negative terms are cut off one by one", lambda: (max(3.0, 0) + max(-1.0, 0), max(3.0 - 1.0, 0)))
def sum_of_relus(x, k: Axis):
    """sum_k relu(x) = relu(sum_k x)."""
    return Reduce("sum", k, relu(x)), relu(Reduce("sum", k, x))


@sound
def sum_of_relus_of_nonneg(x, k: Axis):
    """sum_k relu(x) = relu(sum_k x) for x >= 0."""
    return Reduce("sum", k, relu(x)), relu(Reduce("sum", k, x)), nonneg(x)


@unsound("sign", "pytorch#124119", "a negative scale makes the smallest number the largest", lambda: (-2.0 * 1 - max(-2.0, -6.0), -2.0 * (1 - max(1.0, 3.0))))
def scale_out_of_shifted(x, s, k: Axis):
    """s*x - max_k s*x = s * (x - max_k x), for s constant along k."""
    return s * x - Max(k, s * x), s * (x - Max(k, x)), free(s, k), finite(s)


@sound
def positive_scale_out_of_shifted(x, s, k: Axis):
    """s*x - max_k s*x = s * (x - max_k x), for finite s > 0 constant along k."""
    return s * x - Max(k, s * x), s * (x - Max(k, x)), free(s, k), positive(s), finite(s)
