"""Broken cancelling: what is assumed of data forgotten, a sign, and which of two values is left."""

import numpy as np

from eqfuse.ir.build import (
    abs_,
    axes,
    const,
    exp,
    lt,
    maximum,
    maximum_over,
    mean_over,
    program,
    recip,
    select,
    sum_over,
    tanh,
    tensor,
)
from eqfuse.rewrites.facts import NonEmpty, finite_or, match, nonpos, positive
from eqfuse.rewrites.patterns import Const, Map, Max, NumberLiteral, Reduce, Sum, Where
from eqfuse.rewrites.rule import Axis, Each

from . import close, mutant

FINITE = NumberLiteral(0.0)
i, j = axes(i=4, j=5)
x, y, z = tensor("x", i, j), tensor("y", i, j), tensor("z", i, j)
POSITIVE = exp(tanh(x))


def out(t):
    """A program whose one output is t."""
    return lambda: program("out", y0=(t, tuple(sorted(t.axes))))


x_ = np.array([1.0, 4.0])


@mutant("common_term", "sign guard", lambda: (True, close((1.0 + 2.0) - (1.0 + 5.0), 2.0 + 5.0)), out((x + y) - (x + z)))
def common_term_with_both_signs(f, a, b):
    """(f + a) - (f + b) = a + b."""
    return (f + a) + -(f + b), a + b, finite_or(f, FINITE)


@mutant("common_term", "operand order", lambda: (True, close((1.0 + 2.0) - (1.0 + 5.0), 5.0 - 2.0)), out((x + y) - (x + z)))
def common_term_turned(f, a, b):
    """(f + a) - (f + b) = b - a."""
    return (f + a) + -(f + b), b + -a, finite_or(f, FINITE)


@mutant("term_taken_away", "term lost", lambda: (True, close((1.0 + 2.0) - 1.0, 0.0)), out((x + y) - x))
def everything_taken_away(f, a):
    """(f + a) - f = 0."""
    return (f + a) + -f, Const(0.0), finite_or(f, FINITE), finite_or(a, FINITE)


@mutant("ratio_to_itself", "identity", lambda: (True, close(4.0 * (1 / 4.0), 0.0)), out(POSITIVE * recip(POSITIVE)))
def quotient_is_nothing(x):
    """x / x = 0, as x - x is."""
    return x * Map("recip", x), Const(0.0), positive(x), finite_or(x, FINITE)


@mutant("common_factor", "operand order", lambda: (True, close((2.0 * 3.0) / 2.0, 2.0)), out((POSITIVE * y) * recip(POSITIVE)))
def other_factor(f, a):
    """(f * a) / f = f."""
    return (f * a) * Map("recip", f), f, positive(f), finite_or(f, FINITE)


@mutant("exponentials_below_the_largest", "condition dropped", lambda: (True, bool(np.sum(x_ - np.max(x_)) > 0)), out(sum_over(j, x - maximum_over(j, x))))
def values_below_the_largest(s, t, x, m, k: Axis):
    """sum_k (x - max_k x) > 0: the exponential is forgotten."""
    return [match(s, Sum(k, t)), match(t, x + -m), match(m, Max(k, x)), NonEmpty(k), finite_or(x, FINITE)], [positive(s)]


@mutant("sum_of_centred", "monoid", lambda: (True, close(np.mean(x_ - np.max(x_)), 0.0)), out(mean_over(j, x - maximum_over(j, x))))
def sum_below_the_largest(x, k: Axis):
    """mean_k (x - max_k x) = 0."""
    return Reduce("mean", k, x + -Max(k, x)), Const(0.0), NonEmpty(k), finite_or(x, FINITE)


@mutant("sum_of_centred", "count lost", lambda: (True, close(np.sum(x_ - np.sum(x_)), 0.0)), out(sum_over(j, x - sum_over(j, x))))
def sum_below_the_sum(x, k: Axis):
    """sum_k (x - sum_k x) = 0."""
    return Sum(k, x + -Sum(k, x)), Const(0.0), NonEmpty(k), finite_or(x, FINITE)


@mutant("selected_by_sign", "sign guard", lambda: (True, close(np.maximum(-1.0, 0.0), -1.0)), out(maximum(-abs_(x), 0.0)))
def selected_by_the_other_sign(x):
    """max(x, 0) = x for x <= 0."""
    return Map("maximum", x, Const(0.0)), x, nonpos(x)


@mutant("decided_choice", "operand order", lambda: (True, close(np.where(1.0, 2.0, 3.0), 3.0)), out(select(const(1.0), x, y)))
def other_choice(x, y):
    """where(1, x, y) = y."""
    return Where(Const(1.0), x, y), y


@mutant("compared_with_itself", "off by one", lambda: (True, bool(np.float64(2) < np.float64(2))), out(lt(x, x)))
def less_than_itself(x):
    """x < x."""
    return Map("lt", x, x), Const(1.0), finite_or(x, FINITE)


@mutant("magnitude_of_nonneg", "sign guard", lambda: (True, close(np.abs(-2.0), -2.0)), out(abs_(-abs_(x))))
def magnitude_of_anything(x, decided: Each[nonpos,]):
    """|x| = x for x <= 0."""
    return Map("abs", x), x, decided(x)
