"""False rules of functions: addition theorems, symmetries, and what is only nearly so."""

import math

import numpy as np

from eqfuse.rewrites import Const, Map, finite, nonneg, within

from . import false

x, inf, nan = 0.7, np.inf, np.nan


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@false("infinity", "inf - inf is NaN", lambda: (inf - inf, 1.0))
def exam_hyperbola(x):
    """cosh(x)^2 - sinh(x)^2 = 1."""
    return Map("square", Map("cosh", x)) - Map("square", Map("sinh", x)), Const(1.0)


@false("addition theorem", "the tangents of the angles are divided by 1 - xy", lambda: (np.arctan(0.5) + np.arctan(0.5), np.arctan(1.0)))
def exam_sum_of_arctangents(x, y):
    """atan(x) + atan(y) = atan(x + y), for finite x and y."""
    return Map("atan", x) + Map("atan", y), Map("atan", x + y), finite(x), finite(y)


@false("addition theorem", "exponentials multiply, and not these less 1", lambda: (np.expm1(2.0), np.expm1(1.0) * np.expm1(1.0)))
def exam_expm1_of_sum(x, y):
    """expm1(x + y) = expm1(x) * expm1(y), for finite x and y."""
    return Map("expm1", x + y), Map("expm1", x) * Map("expm1", y), finite(x), finite(y)


@false("symmetry", "erfc is no even function", lambda: (math.erfc(-x), math.erfc(x)))
def exam_erfc_of_negated(x):
    """erfc(-x) = erfc(x)."""
    return Map("erfc", -x), Map("erfc", x)


@false("double angle", "the hyperbolic cosine is lost", lambda: (np.sinh(2 * x), 2 * np.sinh(x)))
def exam_sinh_of_double(x):
    """sinh(2x) = 2 sinh(x), for |x| <= 1."""
    return Map("sinh", x * 2.0), Map("sinh", x) * 2.0, finite(x), within(x, 1.0)


@false("addition theorem", "the product of both is lost", lambda: (np.log1p(x) + np.log1p(x), np.log1p(x + x)))
def exam_sum_of_log1p(x, y):
    """log1p(x) + log1p(y) = log1p(x + y), for finite x, y >= 0."""
    return Map("log1p", x) + Map("log1p", y), Map("log1p", x + y), finite(x), finite(y), nonneg(x), nonneg(y)


@false("sign inside", "log sigmoid is the softplus of -x, with a minus", lambda: (np.log(sigmoid(x)), -np.log1p(np.exp(x))))
def exam_log_of_sigmoid(x):
    """log(sigmoid x) = -log1p(exp x), for finite x."""
    return Map("log", Map("sigmoid", x)), -Map("log1p", Map("exp", x)), finite(x)


@false("argument doubled", "tanh is a sigmoid of twice its argument", lambda: (sigmoid(2 * x) * 2 - 1, np.tanh(2 * x)))
def exam_tanh_of_double_by_sigmoid(x):
    """2 sigmoid(2x) - 1 = tanh(2x)."""
    return Map("sigmoid", x * 2.0) * 2.0 - 1.0, Map("tanh", x * 2.0)


@false("sign inside", "softplus of x and of -x differ by x", lambda: (np.log1p(np.exp(-x)) - np.log1p(np.exp(x)), x))
def exam_difference_of_softplus(x):
    """log1p(exp -x) - log1p(exp x) = x, for finite x."""
    return Map("log1p", Map("exp", -x)) - Map("log1p", Map("exp", x)), x, finite(x)


@false("sign inside", "the sines are subtracted", lambda: (np.cos(0.7 + 0.4), np.cos(0.7) * np.cos(0.4) + np.sin(0.7) * np.sin(0.4)))
def exam_cosine_of_sum(x, y):
    """cos(x + y) = cos x cos y + sin x sin y, for |x|, |y| <= 4."""
    cosines, sines = (Map(o, x) * Map(o, y) for o in ("cos", "sin"))
    return Map("cos", x + y), cosines + sines, finite(x), finite(y), within(x, 4.0), within(y, 4.0)


@false("nearly so", "log(1 + x) is x less half its square, a part in 2e9", lambda: (np.log1p(1e-9), 1e-9))
def exam_log1p_of_tiny(x):
    """log1p(x) = x, for |x| <= 1e-9."""
    return Map("log1p", x), x, finite(x), within(x, 1e-9)


@false("derivative", "the derivative of the logistic function is s(1 - s)", lambda: (sigmoid(x) * (1 - x), sigmoid(x) * sigmoid(-x)))
def exam_slope_of_sigmoid(x):
    """sigmoid(x) * (1 - x) = sigmoid(x) * sigmoid(-x), for |x| <= 8."""
    return Map("sigmoid", x) * (1 - x), Map("sigmoid", x) * Map("sigmoid", -x), finite(x), within(x, 8.0)
