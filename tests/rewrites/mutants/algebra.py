"""Broken scalar algebra: factors and terms that are not what the demand asked for, and laws without their signs."""

# ruff: noqa: B002 - a negation twice is what a rule is about
import numpy as np

from eqfuse.ir import terms
from eqfuse.ir.build import (
    abs_,
    axes,
    exp,
    log,
    lt,
    maximum_over,
    program,
    recip,
    select,
    sigmoid,
    sqrt,
    square,
    sum_over,
    tensor,
)
from eqfuse.ir.dtypes import float16, float32, int64
from eqfuse.rewrites.comparisons import Modest
from eqfuse.rewrites.facts import at_most_one, depends, equal, later, match, nonneg, within
from eqfuse.rewrites.patterns import Cast, Const, Map, Where
from eqfuse.rewrites.relations import free_factor, free_term, movable, separable, typed, wants_factor, wants_term, wide
from eqfuse.rewrites.rule import Axis, Scalar, TypeName

from . import close, mutant

i, j = axes(i=4, j=8)
x_, y_, c_, z_ = tensor("x", i, j), tensor("y", i, j), tensor("c", i), tensor("z", j)
half_ = tensor("h", i, j, dtype=float16)
REAL = "true over the reals, which is what an audit compares; only the check looks at bits"
a, b, f, x = np.array([1.0, 2]), np.array([3.0, 5]), 7.0, np.array([2.0, 3])


def out(t):
    """A program whose one output is t."""
    return lambda: program("out", y=(t, tuple(sorted(t.axes))))


def both(t):
    """t is summed as it is, which asks for its factors, and as an integer; by another name, so that its cast is read alone."""
    return sum_over(j, t) + sum_over(j, terms.Cast(int64, -(-t)) * z_)


@mutant("factor_is_free", "free missing", lambda: (True, close(np.sum(a * b), a * np.sum(b))), out(sum_over(j, x_ * z_)))
def factor_is_anything(t, a, b, j: Axis):
    """a*b = f * rest with f = a, also if a depends on j."""
    return [wants_factor(t, j), match(t, a * b)], [free_factor(t, j, a, b)]


@mutant("factor_from_inside", "term lost", lambda: (True, close(f * x * b, f * x)), out(sum_over(j, (c_ * x_) * y_)))
def factor_forgets_the_rest(t, a, b, f, x, j: Axis):
    """If a = f*x, then a*b = f * x."""
    return [wants_factor(t, j), match(t, a * b), depends(b, j), free_factor(a, j, f, x), depends(x, j)], [free_factor(t, j, f, x)]


@mutant("factor_from_inside", "operand order", lambda: (True, close(f * x * b, (f * x) * (f * b))), out(sum_over(j, (c_ * x_) * y_)))
def factor_taken_twice(t, a, b, f, x, j: Axis):
    """If a = f*x, then a*b = a * (f*b)."""
    return [wants_factor(t, j), match(t, a * b), depends(b, j), free_factor(a, j, f, x), depends(x, j)], [free_factor(t, j, f, a * b)]


@mutant("factor_through_negation", "sign guard", lambda: (True, close(-(f * x), -f * -x)), out(sum_over(j, -(c_ * x_))))
def factor_negated_twice(t, a, f, x, j: Axis):
    """If a = f*x, then -a = -f * -x."""
    return [wants_factor(t, j), match(t, -a), free_factor(a, j, f, x)], [free_factor(t, j, -f, -x)]


@mutant("factor_through_cast", "trait", lambda: (True, close(np.trunc(0.5 * 3), 0.5 * np.trunc(3.0))), out(both(x_ * sum_over(j, y_))))
def factor_through_cast_to_integer(t, a, f, x, j: Axis, d: TypeName):
    """If a = f*x, then cast(a) = f * cast(x), also for a type of integers."""
    return [wants_factor(t, j), match(t, Cast(d, a)), movable(t), free_factor(a, j, f, x), later(f, j)], [free_factor(t, j, f, Cast(d, x))]


@mutant("factor_through_cast", "operand order", lambda: (True, close(f * x, f * (f * x))), out(sum_over(j, terms.Cast(float32, x_ * sum_over(j, y_)) * z_)))
def factor_out_of_cast_twice(t, a, f, x, j: Axis, d: TypeName):
    """If a = f*x, then cast(a) = f * cast(a)."""
    return [wants_factor(t, j), match(t, Cast(d, a)), movable(t), wide(d), free_factor(a, j, f, x), later(f, j)], [free_factor(t, j, f, Cast(d, a))]


@mutant("factor_through_cast_of_number", "operand order", lambda: (True, close(f * x, f * (f * x))), out(sum_over(j, terms.Cast(float16, half_ * sum_over(j, y_)) * z_)))
def factor_out_of_cast_of_number_twice(t, a, f, x, j: Axis, d: TypeName):
    """If a = f*x, then cast(a) = f * cast(a), for x of the type of the cast."""
    return [wants_factor(t, j), match(t, Cast(d, a)), movable(t), free_factor(a, j, f, x), later(f, j), typed(x, d)], [free_factor(t, j, f, Cast(d, a))]


@mutant("fraction_through_cast", "trait", lambda: (True, close(np.trunc(0.5 * 3), 0.5 * np.trunc(3.0))), out(both(sigmoid(x_) * 50.0 * recip(sum_over(j, exp(y_ - maximum_over(j, y_)))))))
def fraction_through_cast_to_integer(t, a, f, x, n: Scalar, j: Axis, d: TypeName):
    """The same for any type, if x is modest and f between 0 and 1."""
    return (
        [wants_factor(t, j), match(t, Cast(d, a)), movable(t), free_factor(a, j, f, x), later(f, j), nonneg(f), at_most_one(f), within(x, n), Modest(n)],
        [free_factor(t, j, f, Cast(d, x))],
    )


@mutant("term_is_free", "free missing", lambda: (True, close(np.max(a + b), a + np.max(b))), out(sum_over(j, exp(x_ + z_))))
def term_is_anything(t, a, b, j: Axis):
    """a+b = f + rest with f = a, also if a depends on j."""
    return [wants_term(t, j), match(t, a + b), depends(b, j)], [free_term(t, j, a, b)]


@mutant("term_from_inside", "term lost", lambda: (True, close(f + x + b, f + x)), out(sum_over(j, exp((square(c_) + square(x_)) + y_))))
def term_forgets_the_rest(t, a, b, f, x, j: Axis):
    """If a = f+x, then a+b = f + x."""
    return [wants_term(t, j), match(t, a + b), depends(b, j), free_term(a, j, f, x), separable(f, x)], [free_term(t, j, f, x)]


@mutant("terms_collected", "free missing", lambda: (True, close(np.max(f + x + b), f + b + np.max(x))), out(sum_over(j, exp((square(c_) + square(x_)) + y_))))
def terms_collected_anyway(t, a, b, f, x, j: Axis):
    """If a = f+x, then a+b = (f+b) + x, also for a b that depends on j."""
    return [wants_term(t, j), match(t, a + b), free_term(a, j, f, x), separable(f, x)], [free_term(t, j, f + b, x)]


@mutant("negated_sum", "sign guard", lambda: (True, close(-(a + b), -a + b)), out(sum_over(j, exp(-(x_ + c_)))))
def half_negated_sum(t, a, b, j: Axis):
    """-(a+b) = -a + b."""
    x = a + b
    return [wants_term(t, j), match(t, -x)], [equal(t, -a + b)]


@mutant("double_negation", "sign guard", lambda: (True, close(-(-3.0), -3.0)), out(-(-x_)))
def double_negation_is_one(x):
    """-(-x) = -x."""
    return -(-x), -x


@mutant("log_of_product", "condition dropped", lambda: (True, close(np.log(-2.0 * -3.0), np.log(-2.0) + np.log(-3.0))), out(log(x_ * y_)))
def log_of_signed_product(x, y):
    """log(x*y) = log x + log y, also for two negative numbers."""
    return Map("log", x * y), Map("log", x) + Map("log", y)


@mutant("log_of_product", "operand order", lambda: (True, close(np.log(2.0 * 3), np.log(2.0) * np.log(3.0))), out(log(abs_(x_) * abs_(y_))))
def log_of_product_as_product(x, y):
    """log(x*y) = log x * log y for x, y >= 0."""
    return Map("log", x * y), Map("log", x) * Map("log", y), nonneg(x), nonneg(y)


@mutant("log_of_exp", "operand order", lambda: (True, close(np.exp(np.log(-2.0)), -2.0)), out(exp(log(x_))))
def exp_of_log(x):
    """exp(log x) = x, also for x < 0."""
    return Map("exp", Map("log", x)), x


@mutant("log_of_reciprocal", "sign guard", lambda: (True, close(np.log(1 / 2.0), np.log(2.0))), out(log(recip(abs_(x_)))))
def log_of_reciprocal_without_sign(x):
    """log(1/x) = log x for x >= 0."""
    return Map("log", Map("recip", x)), Map("log", x), nonneg(x)


@mutant("reciprocal_of_product", "term lost", lambda: (True, close(1 / (2.0 * 4), 1 / 2.0 * 4)), out(recip(x_ * y_)))
def reciprocal_of_one_factor(x, y):
    """1/(x*y) = 1/x * y."""
    return Map("recip", x * y), Map("recip", x) * y


@mutant("root_of_square", "sign guard", lambda: (True, close(np.sqrt(np.square(-2.0)), -2.0)), out(sqrt(square(x_))))
def root_of_square_is_itself(x):
    """sqrt(x^2) = x, also for x < 0."""
    return Map("sqrt", Map("square", x)), x


@mutant("times_one", "identity", lambda: (True, close(2.0 * 0.0, 2.0)), out(x_ * 0.0))
def times_zero_is_itself(x):
    """x * 0 = x: the identity of addition."""
    return x * Const(0.0), x


@mutant("plus_zero", "identity", lambda: (True, close(2.0 + 1.0, 2.0)), out(x_ + 1.0))
def plus_one_is_itself(x):
    """x + 1 = x: the identity of multiplication."""
    return x + Const(1.0), x


@mutant("times_one", "condition dropped", lambda: (True, close(-np.inf * np.float64(0.0), 0.0)), out(x_ * 0.0))
def times_zero_is_zero(x):
    """x * 0 = 0, also for x = -inf."""
    return x * Const(0.0), Const(0.0)


@mutant("same_choice", "condition dropped", lambda: (True, close(np.where(False, 1.0, 2.0), 1.0)), out(select(lt(c_, 0.0), x_, y_)))
def any_choice(c, x, y):
    """where(c, x, y) = x."""
    return Where(c, x, y), x


@mutant("fold_sum", "operand order", lambda: (True, close(3.0 + 2.0, 3.0 * 2.0)), out(x_ * terms.Map("add", (terms.Const(3.0), terms.Const(2.0)))))
def fold_sum_as_product(a: Scalar, b: Scalar):
    """Constants are added by multiplying them."""
    return Const(a) + Const(b), Const(a * b)


@mutant("fold_product", "term lost", lambda: (True, close(1.0 * -1.0, 1.0)), out(terms.Map("mul", (terms.Const(1.0), terms.Const(-1.0)))))
def fold_product_to_one(a: Scalar, b: Scalar):
    """Constants are multiplied by dropping one."""
    return Const(a) * Const(b), Const(a)


@mutant("fold_negation", "sign guard", lambda: (True, close(-3.0, 3.0)), out(x_ * terms.Map("neg", (terms.Const(3.0),))))
def fold_negation_without_sign(a: Scalar):
    """-a = a."""
    return -Const(a), Const(a)


@mutant("reciprocal_of_product", "licence", lambda: (True, np.array_equal(1 / (np.float32(3) * np.float32(7)), (1 / np.float32(3)) * (1 / np.float32(7)))), out(recip(x_ * y_)), why=REAL, licence="exact")
def reciprocal_of_product_exactly(x, y):
    """1/(x*y) = 1/x * 1/y to the last bit: each side rounds at other places."""
    return Map("recip", x * y), Map("recip", x) * Map("recip", y)


@mutant("log_of_product", "licence", lambda: (True, np.array_equal(np.log(a * b), np.log(a) + np.log(b))), out(log(abs_(x_) * abs_(y_))), why=REAL, licence="exact")
def log_of_product_exactly(x, y):
    """log(x*y) = log x + log y to the last bit."""
    return Map("log", x * y), Map("log", x) + Map("log", y), nonneg(x), nonneg(y)
