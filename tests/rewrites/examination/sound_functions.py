"""Sound rules of functions."""

from eqfuse.rewrites import Const, Map, finite, nonneg, within

from . import sound


@sound("finite", "(e^x + e^-x)^2/4 - (e^x - e^-x)^2/4 is 1")
def exam_hyperbola_of_finite(x):
    """cosh(x)^2 - sinh(x)^2 = 1, for finite x."""
    return Map("square", Map("cosh", x)) - Map("square", Map("sinh", x)), Const(1.0), finite(x)


@sound("symmetry", "atan is odd, also at infinity")
def exam_arctangent_of_negated(x):
    """atan(-x) = -atan(x)."""
    return Map("atan", -x), -Map("atan", x)


@sound("addition theorem", "(1 + a)(1 + b) - 1 = ab + a + b")
def exam_expm1_of_sum_in_full(x, y):
    """expm1(x + y) = expm1(x) * expm1(y) + expm1(x) + expm1(y), for finite x and y."""
    a, b = Map("expm1", x), Map("expm1", y)
    return Map("expm1", x + y), a * b + a + b, finite(x), finite(y)


@sound("symmetry", "both tails together are the whole")
def exam_erfc_of_negated_as_rest(x):
    """erfc(-x) = 2 - erfc(x)."""
    return Map("erfc", -x), 2 - Map("erfc", x)


@sound("double angle", "sinh 2x = 2 sinh x cosh x, also infinite")
def exam_sinh_of_double_in_full(x):
    """sinh(2x) = 2 sinh(x) cosh(x)."""
    return Map("sinh", x * 2.0), Map("sinh", x) * Map("cosh", x) * 2.0


@sound("addition theorem", "(1 + x)(1 + y) = 1 + x + y + xy")
def exam_sum_of_log1p_in_full(x, y):
    """log1p(x) + log1p(y) = log1p(x + y + x*y), for finite x, y >= 0."""
    return Map("log1p", x) + Map("log1p", y), Map("log1p", x + y + x * y), finite(x), finite(y), nonneg(x), nonneg(y)


@sound("sign inside", "log 1/(1 + e^-x)")
def exam_log_of_sigmoid_of_the_negative(x):
    """log(sigmoid x) = -log1p(exp -x), for finite x."""
    return Map("log", Map("sigmoid", x)), -Map("log1p", Map("exp", -x)), finite(x)


@sound("argument doubled", "2/(1 + e^-2x) - 1 = (1 - e^-2x)/(1 + e^-2x)")
def exam_tanh_by_sigmoid_of_double(x):
    """2 sigmoid(2x) - 1 = tanh(x)."""
    return Map("sigmoid", x * 2.0) * 2.0 - 1.0, Map("tanh", x)


@sound("sign inside", "log (1 + e^x)/(1 + e^-x) = log e^x")
def exam_difference_of_softplus_is_x(x):
    """log1p(exp x) - log1p(exp -x) = x, for finite x."""
    return Map("log1p", Map("exp", x)) - Map("log1p", Map("exp", -x)), x, finite(x)


@sound("sign inside", "the addition theorem of the cosine")
def exam_cosine_of_difference(x, y):
    """cos(x - y) = cos x cos y + sin x sin y, for |x|, |y| <= 4."""
    cosines, sines = (Map(o, x) * Map(o, y) for o in ("cos", "sin"))
    return Map("cos", x - y), cosines + sines, finite(x), finite(y), within(x, 4.0), within(y, 4.0)


@sound("inverse", "log(1 + (e^x - 1))")
def exam_log1p_of_expm1(x):
    """log1p(expm1(x)) = x, for finite x."""
    return Map("log1p", Map("expm1", x)), x, finite(x)


@sound("derivative", "1 - sigmoid x is sigmoid -x")
def exam_slope_of_sigmoid_by_symmetry(x):
    """sigmoid(x) * (1 - sigmoid(x)) = sigmoid(x) * sigmoid(-x)."""
    s = Map("sigmoid", x)
    return s * (1 - s), s * Map("sigmoid", -x)
