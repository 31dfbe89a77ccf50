"""Rules that are false at the numbers they name, at the ends of a type, or where something vanishes: refused when they are registered.

Every rule here is a mistake that somebody makes: an epsilon dropped, a threshold taken for a law, an overflow forgotten, a cast taken for
the identity.  Beside each stands a sound neighbour, which differs in what makes it true, and must be accepted.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import eqfuse
from eqfuse.errors import UnsoundRuleError
from eqfuse.ir.dtypes import DTYPES, cast, castable
from eqfuse.rewrites import registry
from eqfuse.rewrites.check import check_rule
from eqfuse.rewrites.comparisons import Modest, NotNegative, less
from eqfuse.rewrites.facts import NonEmpty, at_least_one, finite, finite_or, nonneg, nonpos, positive, truth
from eqfuse.rewrites.patterns import Cast, Const, Extent, Index, Map, Max, Mean, NumberLiteral, Sum, Where
from eqfuse.rewrites.relations import rounding
from eqfuse.rewrites.rule import Axis, Scalar, TypeName, make_rule

FALSE: list = []
TRUE: list = []


def false(licence="real", of=None):
    return lambda f: FALSE.append(pytest.param(f, licence, id=f.__name__)) or f


def true(licence="real"):
    return lambda f: TRUE.append(pytest.param(f, licence, id=f.__name__)) or f


def _exp(x):
    return Map("exp", x)


ZERO = NumberLiteral(0.0)


# overflow and underflow are bits -------------------------------------------------------------------------------------------------------


@false("exact")
def doubled_and_halved(x):
    """x * 2 * 1/2 = x."""
    return x * 2.0 * 0.5, x


@false("exact")
def scaled_by_a_thousandth_power(x):
    """x * 2^-100 * 2^100 = x."""
    return x * 2.0**-100 * 2.0**100, x


@true("exact")
def negated_twice(x):
    """x * -1 * -1 = x."""
    return x * -1.0 * -1.0, x


@false("exact")
def quotient_of_doubles(x, y):
    """2x / 2y = x / y."""
    return Map("div", x * 2.0, y * 2.0), Map("div", x, y)


@false("exact")
def quotient_of_halves(x, y):
    """(x/2) / (y/2) = x / y, but for subnormal numbers."""
    return Map("div", x * 0.5, y * 0.5), Map("div", x, y)


@true("exact")
def quotient_of_negatives(x, y):
    """-x / -y = x / y."""
    return Map("div", -x, -y), Map("div", x, y)


@false("exact")
def sum_of_doubles(x, k: Axis):
    """sum_k 2x = 2 sum_k x."""
    return Sum(k, x * 2.0), Sum(k, x) * 2.0


@true("exact")
def maximum_of_doubles(x, k: Axis):
    """max_k 2x = 2 max_k x."""
    return Max(k, x * 2.0), Max(k, x) * 2.0, NonEmpty(k)


@true("exact")
def sum_of_negatives(x, k: Axis):
    """sum_k -x = -sum_k x, but for the sign of nothing."""
    return Map("abs", Sum(k, -x)), Map("abs", Sum(k, x))


@false("exact")
def square_of_double(x):
    """(2x)^2 = 4 x^2."""
    return Map("square", x * 2.0), Map("square", x) * 4.0


@true("exact")
def square_of_negative(x):
    """(-x)^2 = x^2."""
    return Map("square", -x), Map("square", x)


@false("exact")
def half_of_sum(x, y):
    """(x + y)/2 = x/2 + y/2."""
    return (x + y) * 0.5, x * 0.5 + y * 0.5


@false("exact")
def root_of_square(x):
    """sqrt(x^2) = |x|."""
    return Map("sqrt", Map("square", x)), Map("abs", x)


@false("exact")
def inverse_of_inverse(x):
    """1/(1/x) = x."""
    return Map("recip", Map("recip", x)), x


@false("exact")
def finite_exponential(t, x):
    """exp x is finite for finite x: not where floats end."""
    return [Map_match(t, _exp(x)), finite(x)], [finite(t)]


@false("exact")
def finite_double(t, x):
    """2x is finite for finite x: not where floats end."""
    return [Map_match(t, x * 2.0), finite(x)], [finite(t)]


@true("exact")
def finite_negative(t, x):
    """-x is finite for finite x."""
    return [Map_match(t, -x), finite(x)], [finite(t)]


@true("real")
def finite_exponential_of_reals(t, x):
    """exp x is finite for finite x: facts of this licence speak of real numbers."""
    return [Map_match(t, _exp(x)), finite(x)], [finite(t)]


def Map_match(t, p):
    from eqfuse.rewrites.facts import match

    return match(t, p)


# casts ---------------------------------------------------------------------------------------------------------------------------------


@false()
def wide_of_narrow(x):
    """int64(int32 x) = int64 x, which wraps beyond 2^31."""
    return Cast("int64", Cast("int32", x)), Cast("int64", x)


@false()
def wide_of_narrow_finite(x):
    """The same for finite x."""
    return Cast("int64", Cast("int32", x)), Cast("int64", x), finite(x)


@true()
def narrow_of_wide(x):
    """int32(int64 x) = int32 x: what wraps twice wraps once."""
    return Cast("int32", Cast("int64", x)), Cast("int32", x)


@false()
def bool_of_floor(x):
    """bool(floor x) = floor x: bool(2) is 1."""
    return Cast("bool", Map("floor", x)), Map("floor", x)


@false()
def bool_of_whole(x):
    """bool(int64 x) = bool(x): bool(0.5) is 1."""
    return Cast("bool", Cast("int64", x)), Cast("bool", x)


@true()
def bool_of_magnitude(x):
    """bool |x| = bool x."""
    return Cast("bool", Map("abs", x)), Cast("bool", x)


@true()
def bool_is_not_zero(x):
    """bool x = (x != 0)."""
    return Cast("bool", x), Map("ne", x, 0.0)


@true()
def bool_of_truth(x):
    """bool x = x for truth values."""
    return Cast("bool", x), x, truth(x)


@false()
def cast_of_sum_of_truths(a, b, t: TypeName):
    """t(a + b) = t(a) + t(b) for truth values: bool(1 + 1) is 1."""
    return Cast(t, a + b), Cast(t, a) + Cast(t, b), truth(a), truth(b)


@true()
def cast_of_sum_of_truths_to_float(a, b, t: TypeName):
    """The same for floating types."""
    return Cast(t, a + b), Cast(t, a) + Cast(t, b), truth(a), truth(b), rounding(t)


@false()
def cast_keeps_sign(t, x, d: TypeName):
    """d(x) <= 0 for x <= 0: not where a type wraps, and bool(-1) is 1."""
    return [Map_match(t, Cast(d, x)), nonpos(x)], [nonpos(t)]


@false()
def narrow_keeps_sign(t, x):
    """int32(x) >= 0 for x >= 0: it wraps."""
    return [Map_match(t, Cast("int32", x)), nonneg(x)], [nonneg(t)]


@true()
def wide_keeps_sign(t, x):
    """int64(x) >= 0 for x >= 0."""
    return [Map_match(t, Cast("int64", x)), nonneg(x)], [nonneg(t)]


@false()
def cast_twice(x, d: TypeName):
    """d(-x) = -d(x): bool(-1) is 1."""
    return Cast(d, -x), -Cast(d, x)


@false("exact")
def rounded_twice(x):
    """float16(float32 x) = float16 x: not for a float64 beside the middle of two float16."""
    return Cast("float16", Cast("float32", x)), Cast("float16", x)


@false("exact")
def rounded_twice_to_bfloat16(x):
    """bfloat16(float32 x) = bfloat16 x."""
    return Cast("bfloat16", Cast("float32", x)), Cast("bfloat16", x)


@false("exact")
def rounded_through_another_type(x):
    """bfloat16(float16 x) = bfloat16 x."""
    return Cast("bfloat16", Cast("float16", x)), Cast("bfloat16", x)


@false("exact")
def rounding_of_sum(x, y):
    """float16(x + y) = float16 x + float16 y."""
    return Cast("float16", x + y), Cast("float16", x) + Cast("float16", y)


@true("exact")
def rounded_to_the_same_type(x, d: TypeName):
    """d(d(x)) = d(x)."""
    return Cast(d, Cast(d, x)), Cast(d, x)


@true("exact")
def rounding_of_negative(x, d: TypeName):
    """d(-x) = -d(x) for floating types."""
    return Cast(d, -x), -Cast(d, x), rounding(d)


# epsilons ------------------------------------------------------------------------------------------------------------------------------


@false()
def epsilon_beside_a_sum(x, k: Axis):
    """sum_k exp x + 1e-20 = sum_k exp x."""
    return Sum(k, _exp(x)) + 1e-20, Sum(k, _exp(x))


@false()
def epsilon_below_a_probability(x):
    """max(sigmoid x, 1e-25) = sigmoid x."""
    return Map("maximum", Map("sigmoid", x), 1e-25), Map("sigmoid", x)


@false()
def epsilon_below_a_finite_probability(x):
    """The same for finite x."""
    return Map("maximum", Map("sigmoid", x), 1e-25), Map("sigmoid", x), finite(x)


@false()
def clamped_exponent(x):
    """exp(max(x, -87)) = exp x."""
    return _exp(Map("maximum", x, -87.0)), _exp(x)


@false()
def epsilon_beside_an_exponential(x):
    """exp x + 1e-17 = exp x."""
    return _exp(x) + 1e-17, _exp(x)


@false()
def epsilon_beside_a_root(x):
    """sqrt x + 1e-20 = sqrt x."""
    return Map("sqrt", x) + 1e-20, Map("sqrt", x)


@false()
def epsilon_beside_a_positive_root(x):
    """The same for x > 0."""
    return Map("sqrt", x) + 1e-20, Map("sqrt", x), positive(x)


@false()
def epsilon_in_a_norm(x, k: Axis):
    """sqrt(sum_k x^2 + 1e-30) = sqrt(sum_k x^2)."""
    return Map("sqrt", Sum(k, Map("square", x)) + 1e-30), Map("sqrt", Sum(k, Map("square", x)))


@false()
def epsilon_in_a_variance(x, k: Axis):
    """1/sqrt(mean_k x^2 + 1e-12) = 1/sqrt(mean_k x^2)."""
    mean = Mean(k, Map("square", x))
    return Map("rsqrt", mean + 1e-12), Map("rsqrt", mean)


@false()
def epsilon_in_a_logarithm(x):
    """log(x + 1e-40) = log x."""
    return Map("log", x + 1e-40), Map("log", x)


@false()
def epsilon_in_a_product(x, y):
    """x*y + 1e-20 = x*y."""
    return x * y + 1e-20, x * y


@false()
def epsilon_of_a_square(x):
    """max(x^2, 1e-38) = x^2."""
    return Map("maximum", Map("square", x), 1e-38), Map("square", x)


@false()
def epsilon_of_a_maximum(x, k: Axis):
    """max_k |x| + 1e-15 = max_k |x|."""
    return Max(k, Map("abs", x)) + 1e-15, Max(k, Map("abs", x)), NonEmpty(k)


@false()
def tiny_factor(x):
    """x * 1e-30 = 0."""
    return x * 1e-30, Const(0.0)


@false()
def flushed_to_zero(x):
    """where(|x| < 1e-30, 0, x) = x."""
    return Where(Map("lt", Map("abs", x), 1e-30), 0.0, x), x


@false()
def difference_of_exponentials(x):
    """exp(x + 1e-12) = exp x."""
    return _exp(x + 1e-12), _exp(x)


@true()
def clamped_below_zero(x):
    """max(exp x, -1e-20) = exp x."""
    return Map("maximum", _exp(x), -1e-20), _exp(x)


@true()
def clamped_sum_of_exponentials(x, k: Axis):
    """max(sum_k exp x, 0) = sum_k exp x."""
    return Map("maximum", Sum(k, _exp(x)), 0.0), Sum(k, _exp(x))


@true()
def large_total(x):
    """max(x, 1e-20) = x for x >= 1."""
    return Map("maximum", x, 1e-20), x, at_least_one(x)


@true()
def cancelling_sum(x, y):
    """x + y - x = y, though floats may lose y."""
    return (x + y) + -x, y, finite_or(x, ZERO), finite_or(y, ZERO)


@true()
def regrouped(x, y, z):
    """(x + y) + z = x + (y + z)."""
    return (x + y) + z, x + (y + z), finite_or(x, ZERO), finite_or(y, ZERO), finite_or(z, ZERO)


# thresholds and saturation ---------------------------------------------------------------------------------------------------------------


@false()
def softplus_threshold(x):
    """where(x > 20, x, log1p(exp x)) = log1p(exp x), off by 2e-9."""
    soft = Map("log1p", _exp(x))
    return Where(Map("gt", x, 20.0), x, soft), soft


@false()
def tanh_threshold(x):
    """where(x > 15, 1, tanh x) = tanh x, off by 2e-13."""
    return Where(Map("gt", x, 15.0), 1.0, Map("tanh", x)), Map("tanh", x)


@false()
def sigmoid_threshold(x):
    """where(x < -40, 0, sigmoid x) = sigmoid x."""
    return Where(Map("lt", x, -40.0), 0.0, Map("sigmoid", x)), Map("sigmoid", x)


@false()
def sigmoid_of_large(x):
    """sigmoid x = exp x for x <= -30."""
    return Where(Map("lt", x, -30.0), _exp(x), Map("sigmoid", x)), Map("sigmoid", x)


@false()
def exponent_capped(x):
    """exp(min(x, 80)) = exp x."""
    return _exp(Map("minimum", x, 80.0)), _exp(x)


@false()
def clipped(x):
    """min(|x|, 1e160) = |x|."""
    return Map("minimum", Map("abs", x), 1e160), Map("abs", x)


@false()
def clipped_at_half_precision(x):
    """min(x, 65504) = x."""
    return Map("minimum", x, 65504.0), x


@false()
def small_angle(x):
    """where(|x| < 1e-4, x, sin x) = sin x."""
    return Where(Map("lt", Map("abs", x), 1e-4), x, Map("sin", x)), Map("sin", x)


@true()
def clipped_twice(x):
    """min(min(x, 20), 30) = min(x, 20)."""
    return Map("minimum", Map("minimum", x, 20.0), 30.0), Map("minimum", x, 20.0)


@true()
def bounded_tanh(x):
    """min(tanh x, 15) = tanh x."""
    return Map("minimum", Map("tanh", x), 15.0), Map("tanh", x)


# one number ------------------------------------------------------------------------------------------------------------------------------


@false()
def hole_at_a_number(x):
    """where(x == 0.3, 0, x) = x."""
    return Where(Map("eq", x, 0.3), 0.0, x), x


@false()
def hole_at_a_sum(x, y):
    """where(x + y == 12.5, 0, x) = x."""
    return Where(Map("eq", x + y, 12.5), 0.0, x), x


@false()
def hole_at_a_root(x):
    """where(x^2 == 169, 0, x) = x."""
    return Where(Map("eq", Map("square", x), 169.0), 0.0, x), x


@false()
def pole(x):
    """(x - 12) * 1/(x - 12) = 1."""
    return (x - 12.0) * Map("recip", x - 12.0), Const(1.0), finite(x)


@false()
def pole_of_a_multiple(x):
    """(2x - 77) * 1/(2x - 77) = 1."""
    return (x * 2.0 - 77.0) * Map("recip", x * 2.0 - 77.0), Const(1.0), finite(x)


@false()
def strict_for_loose(x):
    """(x < 37.5) = (x <= 37.5)."""
    return Map("lt", x, 37.5), Map("le", x, 37.5)


@false()
def strict_for_loose_of_two(x, y):
    """(x < y) = (x <= y)."""
    return Map("lt", x, y), Map("le", x, y)


@true()
def pole_outside(x):
    """(x + 12) * 1/(x + 12) = 1 for x >= 0."""
    return (x + 12.0) * Map("recip", x + 12.0), Const(1.0), nonneg(x), finite(x)


@true()
def comparison_turned(x):
    """(x < 37.5) = (37.5 > x)."""
    return Map("lt", x, 37.5), Map("gt", 37.5, x)


# numbers of constants, lengths of axes -----------------------------------------------------------------------------------------------------


@false()
def constants_above_minus_three(a: Scalar):
    """max(a, -3) = a."""
    return Map("maximum", Const(a), -3.0), Const(a)


@false()
def constants_below_a_million(a: Scalar):
    """min(a, 1e6) = a."""
    return Map("minimum", Const(a), 1e6), Const(a)


@false()
def constants_above_a_large_negative(a: Scalar):
    """max(a, -12345) = a."""
    return Map("maximum", Const(a), -12345.0), Const(a)


@false()
def modest_constants_above(x, a: Scalar):
    """max(x * a, x * -50) = x * a, for x >= 0 and modest a."""
    return Map("maximum", x * Const(a), x * -50.0), x * Const(a), nonneg(x), Modest(a)


@true()
def constants_above_zero(a: Scalar):
    """max(a, -3) = a for a >= 0."""
    return Map("maximum", Const(a), -3.0), Const(a), NotNegative(a)


@true()
def modest_constants_below(a: Scalar):
    """min(a, 100) = a for modest a."""
    return Map("minimum", Const(a), 100.0), Const(a), Modest(a)


@false()
def short_axes(k: Axis):
    """min(n, 1024) = n."""
    return Map("minimum", Extent(k), 1024.0), Extent(k)


@false()
def never_six(k: Axis):
    """where(n == 6, 0, n) = n."""
    return Where(Map("eq", Extent(k), 6.0), 0.0, Extent(k)), Extent(k)


@false()
def masked_tail(x, k: Axis):
    """sum_k where(k < 500, x, 0) = sum_k x."""
    return Sum(k, Where(Map("lt", Index(k), 500.0), x, 0.0)), Sum(k, x)


@false()
def never_a_position(x, k: Axis):
    """sum_k where(k == 33, 0, x) = sum_k x."""
    return Sum(k, Where(Map("eq", Index(k), 33.0), 0.0, x)), Sum(k, x)


@true()
def lengths_are_not_negative(k: Axis):
    """max(n, -1024) = n."""
    return Map("maximum", Extent(k), -1024.0), Extent(k)


@true()
def whole_axis(x, k: Axis):
    """sum_k where(k < n, x, 0) = sum_k x."""
    return Sum(k, Where(Map("lt", Index(k), Extent(k)), x, 0.0)), Sum(k, x)


# NaN -------------------------------------------------------------------------------------------------------------------------------------


@false()
def choice_for_maximum(x, y):
    """where(x > y, x, y) = max(x, y), but for a NaN in x."""
    return Where(Map("gt", x, y), x, y), Map("maximum", x, y)


@false()
def equal_to_itself(x):
    """(x == x) = 1, but for NaN."""
    return Map("eq", x, x), Const(1.0)


@false()
def negated_comparison(x, y):
    """not (x < y) = (x >= y), but for NaN."""
    return Map("not", Map("lt", x, y)), Map("ge", x, y)


@false()
def zero_times_anything(x):
    """x * 0 = 0."""
    return x * 0.0, Const(0.0)


@false()
def difference_with_itself(x):
    """x - x = 0."""
    return x - x, Const(0.0)


@true()
def finite_times_zero(x):
    """x * 0 = 0 for finite x."""
    return x * 0.0, Const(0.0), finite(x)


@true()
def choice_for_maximum_of_finite(x, y):
    """where(x > y, x, y) = max(x, y) for finite x, y."""
    return Where(Map("gt", x, y), x, y), Map("maximum", x, y), finite(x), finite(y)


@pytest.mark.parametrize(("function", "licence"), FALSE)
def test_refused_when_registered(function, licence):
    rule = make_rule(function, "user", licence, "factor", True)
    with pytest.raises(UnsoundRuleError) as caught:
        registry.admit(rule)
    assert f"{function.__name__} is false" in str(caught.value)


@pytest.mark.parametrize(("function", "licence"), TRUE)
def test_accepted(function, licence):
    check_rule(make_rule(function, "user", licence, "factor", True), 200, ("arrays", "rationals"))


@pytest.mark.parametrize("least", [3, 20_000])
def test_a_counterexample_is_as_long_as_the_premise_says(least):
    def vanishes(x, k: Axis):
        """sum_k x = 0, false of any length."""
        return Sum(k, x), Const(0.0), less(float(least), Extent(k))

    with pytest.raises(UnsoundRuleError) as error:
        check_rule(make_rule(vanishes, "mine", "real", "factor", False))
    (length,) = re.findall(r"axis k: (\d+) long", str(error.value))
    assert int(length) > least


def test_what_registration_missed_is_found_before_a_plan_uses_it(monkeypatch):
    missed = make_rule(hole_at_a_number, "user", "real", "factor", True)
    monkeypatch.setitem(registry._admitted, id(missed), missed)
    args = (torch.zeros(4, 8),)
    assert eqfuse.optimize(torch.exp, args, target="h200", rules=[missed]), "it matches nothing"
    for _ in range(2):
        with pytest.raises(UnsoundRuleError, match="hole_at_a_number is false") as caught:
            eqfuse.optimize(lambda x: torch.where(x == 0.3, 0.0, x), args, target="h200", rules=[missed])
        assert "disable=['hole_at_a_number']" in caught.value.cure


def test_a_check_that_has_no_time_is_said(monkeypatch):
    slow = make_rule(bool_is_not_zero, "user", "real", "factor", True)
    monkeypatch.setattr(registry, "LONGEST", 0.0)
    (note,) = registry.vouch([slow])
    assert "bool_is_not_zero" in note and "stopped" in note
    assert registry.vouch([slow]) == (note,)
    assert registry.vouch(registry.rules("strength")) == ()


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "int32", "int64", "bool"])
def test_a_cast_is_that_of_torch(name):
    x = np.array(
        [0.0, -0.0, 1.5, -2.5, 300.7, 65519.0, 65520.0, 1e-8, 1 + 2**-8, 1 + 3 * 2**-8, 3e38, -7e-46, 2.0**31 + 256, -(2.0**40)], np.float32
    )
    x = np.concatenate([x, [np.inf, -np.inf, np.nan]]).astype(np.float32)
    to = DTYPES[name]
    known = castable(x, to) & (np.abs(x) < 2.0**31 if name == "int32" else True)
    expected = torch.from_numpy(x).to(getattr(torch, name)).double().numpy()
    assert np.array_equal(cast(x, to)[known], expected[known], equal_nan=True)
    whole = np.array([2**31 + 5, -(2**31) - 1, 2**40 + 3, -1, 7])
    expected = torch.from_numpy(whole).to(getattr(torch, name)).double().numpy()
    assert castable(whole.astype(float), to).all()
    assert np.array_equal(cast(whole.astype(float), to), expected)
