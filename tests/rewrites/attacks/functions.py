"""Exponentials, logarithms, trigonometry; approximations that are claimed as equations, thresholds and periods."""

import math

import numpy as np

from eqfuse.rewrites import Axis, Const, Map, Sum, Where, finite, nonneg, positive

from . import sound, unsound

inf, nan = np.inf, np.nan


def gelu(x):
    return x * (0.5 + 0.5 * Map("erf", x * 0.7071067811865476))


def below(x, a):
    return Map("lt", x, Const(a))


def above(x, a):
    return Map("gt", x, Const(a))


@unsound("approximation", "opencv#24568, onnxruntime: FastGelu for Gelu", "tanh approximates the error function to 3e-4", lambda: (0.5 * (1 + np.tanh(0.7978845608 * 1.044715)), 0.5 * (1 + math.erf(0.70710678))))
def gelu_by_tanh(x):
    """0.5 x (1 + tanh(0.79788456 (x + 0.044715 x^3))) = 0.5 x (1 + erf(x / sqrt 2))."""
    return 0.5 * x * (1.0 + Map("tanh", 0.7978845608028654 * (x + 0.044715 * x**3))), gelu(x)


@sound
def gelu_by_erf(x):
    """0.5 x (1 + erf(x / sqrt 2)) = x (0.5 + 0.5 erf(x / sqrt 2))."""
    return 0.5 * x * (1.0 + Map("erf", x * 0.7071067811865476)), gelu(x)


@unsound("approximation", "kind: gelu by a sigmoid", "an approximation to 1e-2", lambda: (1 / (1 + np.exp(-1.702)), 0.5 * (1 + math.erf(0.70710678))))
def gelu_by_sigmoid(x):
    """x sigmoid(1.702 x) = gelu(x)."""
    return x * Map("sigmoid", 1.702 * x), gelu(x)


@unsound("approximation", "keras: hard_sigmoid", "straight lines are no sigmoid", lambda: (0.2 + 0.5, 1 / (1 + np.exp(-1.0))))
def hard_sigmoid(x):
    """clip(0.2 x + 0.5, 0, 1) = sigmoid x."""
    return Map("minimum", Map("maximum", 0.2 * x + 0.5, Const(0.0)), Const(1.0)), Map("sigmoid", x)


@unsound("approximation", "kind: tanh by a rational function", "a Pade form holds near 0", lambda: (2 * (27 + 4) / (27 + 9 * 4), np.tanh(2.0)))
def tanh_by_rational(x):
    """x (27 + x^2) / (27 + 9 x^2) = tanh x."""
    square = Map("square", x)
    return x * (27.0 + square) / (27.0 + 9.0 * square), Map("tanh", x)


@unsound("threshold", "kind: error function saturated early", "1 - erf 4 is 1.5e-8", lambda: (1.0, math.erf(4.1)))
def error_function_saturated(x):
    """where(x > 4, 1, erf x) = erf x."""
    return Where(above(x, 4.0), 1.0, Map("erf", x)), Map("erf", x)


@unsound("threshold", "kind: sigmoid cut off", "sigmoid -40 is 4e-18, and a logarithm of it -40", lambda: (0.0, np.exp(-40.5)))
def sigmoid_cut_off(x):
    """where(x < -40, 0, sigmoid x) = sigmoid x."""
    return Where(below(x, -40.0), 0.0, Map("sigmoid", x)), Map("sigmoid", x)


@unsound("threshold", "kind: exponential flushed", "exp -88 is no zero", lambda: (0.0, np.exp(-88.5)))
def exponential_flushed(x):
    """where(x < -88, 0, exp x) = exp x."""
    return Where(below(x, -88.0), 0.0, Map("exp", x)), Map("exp", x)


@sound
def exponential_of_minus_infinity_flushed(x):
    """where(x <= -inf, 0, exp x) = exp x."""
    return Where(Map("le", x, Const(-math.inf)), 0.0, Map("exp", x)), Map("exp", x)


@unsound("threshold", "kind: exponential clamped from above", "exp 89 is a number in float64, and in the reals", lambda: (np.exp(88.0), np.exp(90.0)))
def exponential_clamped(x):
    """exp(min(x, 88)) = exp x."""
    return Map("exp", Map("minimum", x, Const(88.0))), Map("exp", x)


@unsound("threshold", "kind: log1p of small numbers", "x - x^2/2 is not x", lambda: (0.9e-5, np.log1p(0.9e-5)))
def small_log1p_dropped(x):
    """where(|x| < 1e-5, x, log1p x) = log1p x."""
    return Where(below(Map("abs", x), 1e-5), x, Map("log1p", x)), Map("log1p", x)


@unsound("threshold", "kind: exp(x) - 1 of small numbers", "x + x^2/2 is not x", lambda: (0.9e-4, np.expm1(0.9e-4)))
def small_exponential_dropped(x):
    """where(|x| < 1e-4, x, exp x - 1) = exp x - 1."""
    return Where(below(Map("abs", x), 1e-4), x, Map("exp", x) - 1.0), Map("exp", x) - 1.0


@unsound("threshold", "kind: small angles", "x - x^3/6 is not x", lambda: (0.009, np.sin(0.009)))
def small_angle(x):
    """where(|x| < 0.01, x, sin x) = sin x."""
    return Where(below(Map("abs", x), 0.01), x, Map("sin", x)), Map("sin", x)


@unsound("threshold", "kind: silu cut off", "x sigmoid x at -30 is -3e-12", lambda: (0.0, -30.5 / (1 + np.exp(30.5))))
def silu_cut_off(x):
    """where(x < -30, 0, x sigmoid x) = x sigmoid x for finite x."""
    return Where(below(x, -30.0), 0.0, x * Map("sigmoid", x)), x * Map("sigmoid", x), finite(x)


@unsound("approximation", "kind: half a period", "the sine changes its sign after pi", lambda: (np.sin(1 + np.pi), np.sin(1.0)))
def half_period(x):
    """sin(x + pi) = sin x."""
    return Map("sin", x + math.pi), Map("sin", x)


@unsound("infinity", "kind: Pythagoras at infinity", "sine and cosine of inf are NaN", lambda: (nan, 1.0))
def sine_and_cosine(x):
    """sin^2 x + cos^2 x = 1."""
    return Map("square", Map("sin", x)) + Map("square", Map("cos", x)), Const(1.0)


@sound
def sine_and_cosine_of_finite(x):
    """sin^2 x + cos^2 x = 1 for finite x."""
    return Map("square", Map("sin", x)) + Map("square", Map("cos", x)), Const(1.0), finite(x)


@unsound("term lost", "kind: double angle", "2 sin x cos x", lambda: (np.sin(2.0), 2 * np.sin(1.0)))
def double_angle(x):
    """sin 2x = 2 sin x."""
    return Map("sin", 2.0 * x), 2.0 * Map("sin", x)


@sound
def double_angle_with_cosine(x):
    """sin 2x = 2 sin x cos x."""
    return Map("sin", 2.0 * x), 2.0 * Map("sin", x) * Map("cos", x)


@unsound("term lost", "kind: cosine near 0", "1 - cos x is 2 sin^2(x/2), not sin^2 x", lambda: (1 - np.cos(1.0), np.sin(1.0) ** 2))
def versine(x):
    """1 - cos x = sin^2 x."""
    return 1.0 - Map("cos", x), Map("square", Map("sin", x))


@sound
def versine_by_half_angle(x):
    """1 - cos x = 2 sin^2(x/2)."""
    return 1.0 - Map("cos", x), 2.0 * Map("square", Map("sin", 0.5 * x))


@unsound("term lost", "herbie: exp-prod", "the square of an exponential doubles its argument", lambda: (np.exp(3.0) ** 2, np.exp(9.0)))
def square_of_exponential(x):
    """(exp x)^2 = exp(x^2)."""
    return Map("square", Map("exp", x)), Map("exp", Map("square", x))


@sound
def square_of_exponential_doubles(x):
    """(exp x)^2 = exp(2x)."""
    return Map("square", Map("exp", x)), Map("exp", 2.0 * x)


@unsound("term lost", "herbie: sum-log", "logarithms turn products into sums", lambda: (np.log(1.0 + 2), np.log(1.0) + np.log(2.0)))
def log_of_sum(x, y):
    """log(x + y) = log x + log y for x, y > 0."""
    return Map("log", x + y), Map("log", x) + Map("log", y), positive(x), positive(y)


@unsound("term lost", "kind: log of a sum of exponentials", "the logarithm does not reach into a sum", lambda: (np.log(np.exp(1.0) + np.exp(2.0)), 3.0))
def log_of_sum_of_exponentials(x, k: Axis):
    """log(sum_k exp x) = sum_k x."""
    return Map("log", Sum(k, Map("exp", x))), Sum(k, x)


@unsound("constants", "kind: exponential to base two", "the exponents differ by log 2", lambda: (np.log(2.0**3), 3.0))
def log_of_power_of_two(x):
    """log(2^x) = x."""
    return Map("log", Map("exp2", x)), x


@sound
def log_of_power_of_two_scaled(x):
    """log(2^x) = x log 2."""
    return Map("log", Map("exp2", x)), x * math.log(2.0)


@unsound("constants", "kind: a constant of seven digits", "1/sqrt 2 has more", lambda: (math.erf(0.7071068), math.erf(math.sqrt(0.5))))
def error_function_with_short_constant(x):
    """erf(0.7071068 x) = erf(x / sqrt 2)."""
    return Map("erf", 0.7071068 * x), Map("erf", 0.7071067811865476 * x)


@unsound("term lost", "kind: logistic as tanh", "tanh takes half the argument", lambda: (1 / (1 + np.exp(-1.0)), 0.5 * np.tanh(1.0) + 0.5))
def sigmoid_by_tanh(x):
    """sigmoid x = (1 + tanh x) / 2."""
    return Map("sigmoid", x), 0.5 * Map("tanh", x) + 0.5


@sound
def sigmoid_by_tanh_of_half(x):
    """sigmoid x = (1 + tanh(x/2)) / 2."""
    return Map("sigmoid", x), 0.5 * Map("tanh", 0.5 * x) + 0.5


@unsound("sign", "kind: complement of a sigmoid", "the sigmoid is no odd function", lambda: (1 / (1 + np.e), -1 / (1 + np.exp(-1.0))))
def sigmoid_is_odd(x):
    """sigmoid -x = -sigmoid x."""
    return Map("sigmoid", -x), -Map("sigmoid", x)


@sound
def sigmoid_of_negation(x):
    """sigmoid -x = 1 - sigmoid x."""
    return Map("sigmoid", -x), 1.0 - Map("sigmoid", x)


@unsound("term lost", "kind: tanh of a sum", "tanh has an addition theorem", lambda: (np.tanh(2.0), 2 * np.tanh(1.0)))
def tanh_of_double(x):
    """tanh 2x = 2 tanh x."""
    return Map("tanh", 2.0 * x), 2.0 * Map("tanh", x)


@sound
def tanh_of_double_by_addition(x):
    """tanh 2x = 2 tanh x / (1 + tanh^2 x)."""
    return Map("tanh", 2.0 * x), 2.0 * Map("tanh", x) / (1.0 + Map("square", Map("tanh", x)))


@unsound("domain", "pytensor#474: inverse functions", "log(1 - exp x) is its own inverse only below 0", lambda: (np.log(1 - np.exp(np.log(1 - np.exp(1.0)))), 1.0))
def log_of_complement_twice(x):
    """log(1 - exp(log(1 - exp x))) = x."""
    return Map("log", 1.0 - Map("exp", Map("log", 1.0 - Map("exp", x)))), x


@unsound("sign", "kind: root of a sum", "roots do not distribute", lambda: (np.sqrt(9.0 + 16), 7.0))
def root_of_sum(x, y):
    """sqrt(x + y) = sqrt(x) + sqrt(y) for x, y >= 0."""
    return Map("sqrt", x + y), Map("sqrt", x) + Map("sqrt", y), nonneg(x), nonneg(y)


@unsound("constants", "kind: a pole at a constant", "at 1/3 nothing can be divided", lambda: (0.0, 1.0))
def pole_at_a_third(x):
    """(3*x - 1) / (3*x - 1) = 1 for finite x."""
    return (3.0 * x - 1.0) * Map("recip", 3.0 * x - 1.0), Const(1.0), finite(x)


@unsound("constants", "kind: one value singled out", "at 37.5 the sides differ", lambda: (0.0, 37.5))
def one_value_singled_out(x):
    """where(2*x == 75, 0, x) = x."""
    return Where(Map("eq", 2.0 * x, Const(75.0)), 0.0, x), x


@unsound("constants", "kind: a window between two constants", "between 1000 and 1001 the sides differ", lambda: (0.0, 1000.5))
def window_singled_out(x):
    """where(x > 1000 and x < 1001, 0, x) = x."""
    return Where(Map("and", above(x, 1000.0), below(x, 1001.0)), 0.0, x), x


@unsound("constants", "kind: polynomial with a narrow difference", "(x - 50)(x - 51) is negative between", lambda: (abs(0.5 * -0.5), -0.25))
def sign_between_roots(x):
    """|(x - 50)(x - 51)| = (x - 50)(x - 51)."""
    product = (x - 50.0) * (x - 51.0)
    return Map("abs", product), product


@unsound("constants", "kind: power of two by whole exponents", "x^65 is written by exp and log, which have no negative numbers", lambda: (np.exp(np.log(-1.0) * 65), -1.0))
def high_power_by_logarithm(x):
    """exp(65 log x) = x^64 * x."""
    return Map("exp", Map("log", x) * 65.0), x**64 * x


@sound
def high_power_of_nonneg_by_logarithm(x):
    """exp(65 log x) = x^64 * x for x >= 0."""
    return Map("exp", Map("log", x) * 65.0), x**64 * x, nonneg(x)
