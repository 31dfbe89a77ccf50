"""Quotients, reciprocals, and the epsilon that keeps them finite."""

import numpy as np

from eqfuse.rewrites import Axis, Const, Extent, Map, Mean, NonEmpty, Sum, Where, finite, free, nonneg, positive

from . import sound, unsound

f16, f32 = np.float16, np.float32
inf, nan = np.inf, np.nan


@unsound("zero", "jax#2071", "0/0 and inf/inf are NaN", lambda: (np.float64(0) / 0, 1.0))
def quotient_of_itself(x):
    """x / x = 1."""
    return x / x, Const(1.0)


@sound
def quotient_of_itself_if_positive(x):
    """x / x = 1 for finite x > 0."""
    return x / x, Const(1.0), positive(x), finite(x)


@unsound("zero", "herbie#1207: a rule that its prover called unsound", "a*0/0 is NaN", lambda: (3.0 * 0 / np.float64(0), 3.0))
def factor_cancelled(a, b):
    """a * b / b = a."""
    return a * b / b, a


@sound
def positive_factor_cancelled(a, b):
    """a * b / b = a for finite b > 0."""
    return a * b / b, a, positive(b), finite(b)


@unsound("zero", "ONNX optimizer: 0 / x", "0/0 is NaN", lambda: (0 / np.float64(0), 0.0))
def zero_divided(x):
    """0 / x = 0."""
    return 0.0 / x, Const(0.0)


@sound
def zero_divided_by_positive(x):
    """0 / x = 0 for finite x > 0: what is positive may be NaN."""
    return 0.0 / x, Const(0.0), positive(x), finite(x)


@unsound("infinity", "herbie: frac-add", "over a common denominator an infinite one makes NaN", lambda: (1 / inf + 2.0, (1 * 1 + 2.0 * inf) / (inf * 1)))
def fractions_added(a, b, c, d):
    """a/b + c/d = (a*d + c*b) / (b*d) for b, d > 0."""
    return a / b + c / d, (a * d + c * b) / (b * d), positive(b), positive(d), finite(a), finite(c)


@sound
def fractions_added_if_finite(a, b, c, d):
    """a/b + c/d = (a*d + c*b) / (b*d) for finite a, c and finite b, d > 0."""
    return a / b + c / d, (a * d + c * b) / (b * d), positive(b), positive(d), finite(a), finite(b), finite(c), finite(d)


@unsound("zero", "herbie: flip--", "the conjugate may vanish", lambda: (2.0 + -2.0, (4.0 - 4.0) / (2.0 - np.float64(-2.0) - 4.0)))
def sum_by_conjugate(x, y):
    """x + y = (x^2 - y^2) / (x - y)."""
    return x + y, (Map("square", x) - Map("square", y)) / (x - y)


@sound
def difference_of_squares(x, y):
    """x^2 - y^2 = (x - y) * (x + y) for finite x, y."""
    return Map("square", x) - Map("square", y), (x - y) * (x + y), finite(x), finite(y)


@unsound("term lost", "kind: reciprocal of a sum", "1/(x + y) is not 1/x + 1/y", lambda: (1 / 2.0 + 1 / 2.0, 1 / 4.0))
def reciprocals_added(x, y):
    """1/x + 1/y = 1/(x + y)."""
    return Map("recip", x) + Map("recip", y), Map("recip", x + y)


@unsound("infinity", "kind: distributivity below a reciprocal", "inf - inf is NaN where (2 - 1) * inf is inf, and its reciprocal 0", lambda: (1 / ((2.0 - 1) * inf), 1 / (2 * inf - 1 * inf)))
def reciprocal_of_distributed(x, y, z):
    """1 / ((x + y) * z) = 1 / (x*z + y*z)."""
    return Map("recip", (x + y) * z), Map("recip", x * z + y * z)


@sound
def reciprocal_of_distributed_if_finite(x, y, z):
    """1 / ((x + y) * z) = 1 / (x*z + y*z) for finite z, x and y >= 0."""
    return Map("recip", (x + y) * z), Map("recip", x * z + y * z), finite(x), finite(y), finite(z), nonneg(x), nonneg(y)


@unsound("epsilon", "Liger-Kernel: epsilon outside of the root", "sqrt(v + e) is not sqrt(v) + e: at v = 0 it is sqrt(e)", lambda: (1 / np.sqrt(1e-5), 1 / 1e-5))
def epsilon_leaves_root(v):
    """1/sqrt(v + 1e-5) = 1/(sqrt(v) + 1e-5) for v >= 0."""
    return Map("rsqrt", v + 1e-5), Map("recip", Map("sqrt", v) + 1e-5), nonneg(v)


@sound
def reciprocal_root_with_epsilon(v):
    """1/sqrt(v + 1e-5) = 1/(sqrt(v + 1e-5)) for v >= 0."""
    return Map("rsqrt", v + 1e-5), Map("recip", Map("sqrt", v + 1e-5)), nonneg(v)


@unsound("epsilon", "onnxruntime: LayerNormFusion without its epsilon", "at v = 0 the quotient is finite with epsilon, and infinite without", lambda: (1 / np.sqrt(0 + 1e-12), 1 / np.sqrt(np.float64(0))))
def epsilon_dropped_in_root(v):
    """1/sqrt(v + 1e-12) = 1/sqrt(v) for v >= 0."""
    return Map("rsqrt", v + 1e-12), Map("rsqrt", v), nonneg(v)


@unsound("epsilon", "pytorch#183605", "the epsilon is in the sum once, and not once for each element", lambda: (1.0 + 4.0 + 1e-6, 1.0 + 1e-6 + 4.0 + 1e-6))
def epsilon_enters_sum(x, k: Axis):
    """sum_k x^2 + 1e-6 = sum_k (x^2 + 1e-6)."""
    return Sum(k, Map("square", x)) + 1e-6, Sum(k, Map("square", x) + 1e-6)


@unsound("empty axis", "kind: epsilon of a mean of nothing", "the mean of nothing is 0, with epsilon outside it is epsilon", lambda: (0.0 + 1e-6, 0.0))
def epsilon_enters_mean_of_nothing(x, k: Axis):
    """mean_k x^2 + 1e-6 = mean_k (x^2 + 1e-6)."""
    return Mean(k, Map("square", x)) + 1e-6, Mean(k, Map("square", x) + 1e-6)


@sound
def epsilon_enters_mean(x, k: Axis):
    """mean_k x^2 + 1e-6 = mean_k (x^2 + 1e-6)."""
    return Mean(k, Map("square", x)) + 1e-6, Mean(k, Map("square", x) + 1e-6), NonEmpty(k)


@unsound("epsilon", "kind: F.normalize", "a floor is no summand", lambda: (max(3.0, 1e-12), 3.0 + 1e-3))
def floor_as_summand(n):
    """max(n, 1e-3) = n + 1e-3 for n >= 0."""
    return Map("maximum", n, Const(1e-3)), n + 1e-3, nonneg(n)


@unsound("epsilon", "kind: F.normalize without its floor", "x/0 is no number, x/1e-12 is", lambda: (1 / max(0.0, 1e-12), 1 / np.float64(0)))
def floor_of_norm_dropped(x, k: Axis):
    """x / max(sqrt(sum_k x^2), 1e-12) = x / sqrt(sum_k x^2)."""
    norm = Map("sqrt", Sum(k, Map("square", x)))
    return x / Map("maximum", norm, Const(1e-12)), x / norm


@sound
def floor_of_large_norm_dropped(x, n):
    """x / max(1 + n, 1e-12) = x / (1 + n) for n >= 0."""
    return x / Map("maximum", 1.0 + n, Const(1e-12)), x / (1.0 + n), nonneg(n)


@unsound("epsilon", "kind: scale invariance of a norm", "the epsilon is not scaled", lambda: (2e-3 / np.sqrt(4e-6 + 1e-5), 1e-3 / np.sqrt(1e-6 + 1e-5)))
def norm_with_epsilon_scaled(x, s, k: Axis):
    """s*x / sqrt(mean_k (s*x)^2 + 1e-5) = x / sqrt(mean_k x^2 + 1e-5) for finite s > 0."""
    left = s * x * Map("rsqrt", Mean(k, Map("square", s * x)) + 1e-5)
    return left, x * Map("rsqrt", Mean(k, Map("square", x)) + 1e-5), free(s, k), positive(s), finite(s)


@unsound("sign", "kind: scale invariance of a norm", "a negative scale stays as a sign", lambda: (-3.0 / np.sqrt(9.0), 1.0))
def norm_scaled(x, s, k: Axis):
    """s*x / sqrt(mean_k (s*x)^2) = x / sqrt(mean_k x^2)."""
    return s * x * Map("rsqrt", Mean(k, Map("square", s * x))), x * Map("rsqrt", Mean(k, Map("square", x))), free(s, k), finite(s)


@sound
def norm_scaled_by_positive(x, s, k: Axis):
    """s*x / sqrt(mean_k (s*x)^2) = x / sqrt(mean_k x^2) for finite s > 0."""
    left = s * x * Map("rsqrt", Mean(k, Map("square", s * x)))
    return left, x * Map("rsqrt", Mean(k, Map("square", x))), free(s, k), positive(s), finite(s), finite(x)


@unsound("zero", "kind: root by its reciprocal", "0 * inf is NaN, and so is inf * 0", lambda: (0 * (1 / np.sqrt(np.float64(0))), 0.0))
def root_by_reciprocal_root(x):
    """x * rsqrt(x) = sqrt(x) for x >= 0."""
    return x * Map("rsqrt", x), Map("sqrt", x), nonneg(x)


@sound
def root_by_reciprocal_root_of_positive(x):
    """x * rsqrt(x) = sqrt(x) for finite x > 0."""
    return x * Map("rsqrt", x), Map("sqrt", x), positive(x), finite(x)


@unsound("zero", "kind: safe division", "the guard is what makes 0/0 a number", lambda: (0.0, np.float64(0) / 0))
def safe_division_unguarded(x, y):
    """where(y == 0, 0, x/y) = x/y."""
    return Where(Map("eq", y, Const(0.0)), 0.0, x / y), x / y


@sound
def safe_division_by_positive(x, y):
    """where(y == 0, 0, x/y) = x/y for y > 0."""
    return Where(Map("eq", y, Const(0.0)), 0.0, x / y), x / y, positive(y)


@unsound("zero", "kind: entropy", "0 * log 0 is NaN, which the guard makes 0", lambda: (0.0, 0 * np.log(0.0)))
def entropy_unguarded(x):
    """where(x == 0, 0, x * log x) = x * log x for x >= 0."""
    return Where(Map("eq", x, Const(0.0)), 0.0, x * Map("log", x)), x * Map("log", x), nonneg(x)


@sound
def entropy_of_positive(x):
    """where(x == 0, 0, x * log x) = x * log x for x > 0."""
    return Where(Map("eq", x, Const(0.0)), 0.0, x * Map("log", x)), x * Map("log", x), positive(x)


@unsound("sign", "kind: relative entropy", "two negative numbers have a quotient with a logarithm, and none alone", lambda: (np.log(-1.0) - np.log(-2.0), np.log(0.5)))
def logs_subtracted(x, y):
    """log x - log y = log(x/y)."""
    return Map("log", x) - Map("log", y), Map("log", x / y)


@sound
def logs_subtracted_of_positive(x, y):
    """log x - log y = log(x/y) for x, y > 0."""
    return Map("log", x) - Map("log", y), Map("log", x / y), positive(x), positive(y)


@unsound("rounding", "openxla/xla#40844, tvm#16211", "1/sqrt is rounded before the product", lambda: (f32(50) / np.sqrt(f32(61)), f32(50) * (f32(1) / np.sqrt(f32(61)))), licence="exact")
def quotient_by_root_as_product(x, y):
    """x / sqrt(y) = x * rsqrt(y), to the last bit."""
    return Map("div", x, Map("sqrt", y)), x * Map("rsqrt", y)


@sound(licence="real")
def quotient_by_root_as_product_of_reals(x, y):
    """x / sqrt(y) = x * rsqrt(y)."""
    return Map("div", x, Map("sqrt", y)), x * Map("rsqrt", y)


@unsound("rounding", "tensorflow#126208", "a quotient is rounded once, a product with a reciprocal twice", lambda: (f32(5) / f32(3), f32(5) * (f32(1) / f32(3))), licence="exact")
def quotient_as_product(x, y):
    """x / y = x * (1/y), to the last bit."""
    return Map("div", x, y), x * Map("recip", y)


@sound
def quotient_of_one(y):
    """1 / y is the reciprocal, to the last bit."""
    return Map("div", Const(1.0), y), Map("recip", y)


@unsound("rounding", "llvm#93882", "1/3 is not exact, so neither is the product with it", lambda: (f32(5) / f32(3), f32(5) * f32(1 / 3)), licence="exact")
def quotient_by_three(x):
    """x / 3 = x * (1/3), to the last bit."""
    return Map("div", x, Const(3.0)), x * (1.0 / 3.0)


@sound
def quotient_by_four(x):
    """x / 4 = x * 0.25, to the last bit: 1/4 is exact."""
    return Map("div", x, Const(4.0)), x * 0.25


@unsound("overflow", "llvm#93882: the reciprocal of a small constant", "1/2^-24 overflows float16", lambda: (f16(0) / f16(2.0**-24), f16(0) * f16(2.0**24)), licence="exact")
def quotient_by_small_constant(x):
    """x / 2^-24 = x * 2^24, to the last bit."""
    return Map("div", x, Const(2.0**-24)), x * 2.0**24


@unsound("rounding", "tensorflow#119429", "reciprocals are no involution: 1/(1/x) rounds twice", lambda: (f32(1) / (f32(1) / f32(63)), f32(63)), licence="exact")
def reciprocal_twice(x):
    """1/(1/x) = x, to the last bit."""
    return Map("recip", Map("recip", x)), x


@sound(licence="real")
def reciprocal_twice_of_reals(x):
    """1/(1/x) = x."""
    return Map("recip", Map("recip", x)), x


@unsound("rounding", "kind: multiply back", "the quotient was rounded", lambda: (f32(56) / f32(93) * f32(93), f32(56)), licence="exact")
def quotient_multiplied_back(x, y):
    """x / y * y = x for finite y > 0, to the last bit."""
    return Map("div", x, y) * y, x, positive(y), finite(y)


@sound(licence="real")
def quotient_multiplied_back_of_reals(x, y):
    """x / y * y = x for finite y > 0."""
    return Map("div", x, y) * y, x, positive(y), finite(y)


@unsound("rounding", "openxla/xla: mean as a product with 1/n", "1/n is rounded", lambda: (f32(5) / f32(3), f32(5) * (f32(1) / f32(3))), licence="exact")
def mean_by_reciprocal_of_count(x, k: Axis):
    """mean_k x = sum_k x * (1/size(k)), to the last bit."""
    return Mean(k, x), Sum(k, x) * Map("recip", Extent(k)), NonEmpty(k)


@sound
def mean_by_count(x, k: Axis):
    """mean_k x = sum_k x / size(k), rounded once, to the last bit."""
    return Mean(k, x), Map("div", Sum(k, x), Extent(k)), NonEmpty(k)


@unsound("empty axis", "kind: mean of nothing", "0/0 is NaN, and the mean of nothing is 0", lambda: (0 / np.float64(0), 0.0))
def mean_of_any_count(x, k: Axis):
    """sum_k x / size(k) = mean_k x."""
    return Sum(k, x) / Extent(k), Mean(k, x)
