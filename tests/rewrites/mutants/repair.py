"""Broken repair: factors and terms that do not take a value from the old reference to the new one, guards that are not there, and
loops whose state is moved wrongly."""

import math

import numpy as np

from eqfuse.ir import terms
from eqfuse.ir.build import (
    abs_,
    axes,
    eq,
    exp,
    iota,
    le,
    log,
    maximum,
    maximum_over,
    mean_over,
    program,
    rsqrt,
    select,
    sqrt,
    square,
    sum_over,
    tanh,
    tensor,
)
from eqfuse.ir.dtypes import int64
from eqfuse.rewrites.comparisons import Modest
from eqfuse.rewrites.facts import (
    NonEmpty,
    OtherAxis,
    apart,
    covers,
    distinct,
    earlier,
    equal,
    free,
    match,
    nonneg,
    positive,
    within,
)
from eqfuse.rewrites.patterns import (
    Acc,
    Along,
    Cast,
    Const,
    LinearProduct,
    LinearSum,
    Map,
    NumberLiteral,
    Pre,
    Reduce,
    Ref,
    Roll,
    Summed,
    Where,
)
from eqfuse.rewrites.relations import (
    changes_by_factor,
    changes_by_form,
    changes_by_term,
    function_of,
    increasing,
    least_where,
    linear,
    movable,
    needs_repair,
    selective,
    turns,
    turns_nonneg,
    zero_where,
)
from eqfuse.rewrites.rule import AnyMonoid, Axis, Form, Kind, LinearMonoid, Op1, Scalar, SelectiveMonoid, Turns, TypeName

from . import close, mutant

i, j, d, k, none = axes(i=4, j=8, d=2, k=3, none=0)
x_, y_, v_, w_ = tensor("x", i, j), tensor("y", i, j), tensor("v", j, d), tensor("w", i, k, j)
Exponential, Additive = Turns["add", "mul"], Turns["add", "add"]
Power, Root, Logarithm = Turns["mul", "mul"], Turns["mul", "mul", "nonneg"], Turns["mul", "add", "nonneg"]
ALWAYS = Const(1.0)
INF = np.inf


def out(t):
    """A program whose one output is t."""
    return lambda: program("out", y=(t, tuple(sorted(t.axes))))


M_ = maximum_over(j, x_)
MU = mean_over(j, x_)
SQUARES = sum_over(j, square(x_)) + 1.0
causal = select(le(iota(j), iota(i) * 2), x_, -math.inf)
WEIGHTED = out(sum_over(j, exp(x_ - M_) * v_))
CAUSAL = out(sum_over(j, exp(causal - maximum_over(j, causal)) * v_))
VARIANCE = out(mean_over(j, square(x_ - MU)))
NORMED = out(sum_over(j, x_ * rsqrt(mean_over(j, square(x_)) + 1e-6) * v_))
TOTAL = sum_over(j, exp(tanh(x_)))
POSITIVE = "every running factor that the rules derive is an exponential or a quotient of positive sums, and not negative"
FREE = "every factor that the rules derive is made of references, and free of the axis"
# old and new references, values there
old, new = 2.0, 5.0
s = np.array([1.0, 2.0, 4.0])


@mutant("seed_shift", "old and new swapped", lambda: (True, close(new, old + (old - new))), WEIGHTED)
def seed_shift_backwards(r, s, j: Axis, g: AnyMonoid):
    """new = old + (old - new)."""
    new, old = Ref("new", j, r), Ref("old", j, r)
    return [match(r, Reduce(g, j, s)), needs_repair(r, j)], [changes_by_term("run", j, r, r, new, old - new)]


@mutant("seed_factor", "old and new swapped", lambda: (True, close(new, old * (old / new))), out(sum_over(j, x_ / TOTAL * v_)))
def seed_factor_backwards(r, s, j: Axis, g: AnyMonoid):
    """new = old * (old / new)."""
    new, old = Ref("new", j, r), Ref("old", j, r)
    return [match(r, Reduce(g, j, s)), needs_repair(r, j), positive(s), positive(r)], [changes_by_factor("run", j, r, r, new, old / new)]


@mutant("seed_factor", "sign guard", lambda: (0.0 >= 0, close(np.float64(0.5), 0.0 * (np.float64(0.5) / 0))), out(sum_over(j, x_ * sum_over(j, maximum(y_ + -4.0, 0.0)) * v_)))
def seed_factor_of_nonneg(r, s, j: Axis, g: AnyMonoid):
    """new = old * (new / old) also where old is 0."""
    new, old = Ref("new", j, r), Ref("old", j, r)
    return [match(r, Reduce(g, j, s)), needs_repair(r, j), nonneg(s), nonneg(r)], [changes_by_factor("run", j, r, r, new, new / old)]


@mutant("seed_function", "old and new swapped", lambda: (True, close(new, old)), out(sum_over(j, exp(x_ - select(eq(abs_(M_), math.inf), 0.0, M_)) * v_)))
def seed_function_backwards(r, s, j: Axis, g: AnyMonoid):
    """r read at old is its new value, and the other way round."""
    return [match(r, Reduce(g, j, s)), needs_repair(r, j)], [function_of(j, r, r, Ref("old", j, r), Ref("new", j, r))]


@mutant("function1", "term lost", lambda: (True, close(np.exp(old), old)), out(sum_over(j, exp(x_ - select(eq(abs_(M_), math.inf), 0.0, M_)) * v_)))
def function_forgotten_at_old(t, x, r, xn, xo, j: Axis, o: Op1):
    """If x is a function of r alone, o(x) at old is x at old."""
    return [function_of(j, x, r, xn, xo), needs_repair(t, j), match(t, Map(o, x))], [function_of(j, t, r, Map(o, xn), xo)]


@mutant("choice_by_reference", "old and new swapped", lambda: (True, close(new, old + (old - new))), out(sum_over(j, exp(x_ - select(eq(abs_(M_), math.inf), 0.0, M_)) * v_)))
def choice_by_reference_backwards(t, c, x, r, cn, co, xn, xo, a: Scalar, j: Axis):
    """A guarded maximum changes by old - new."""
    new, old = Where(cn, Const(a), xn), Where(co, Const(a), xo)
    return (
        [function_of(j, c, r, cn, co), function_of(j, x, r, xn, xo), needs_repair(t, j), match(t, Where(c, Const(a), x))],
        [changes_by_term("run", j, t, r, new, old - new)],
    )


@mutant("choice_by_reference", "operand order", lambda: (True, close(np.where(False, 0.0, old), np.where(False, old, 0.0))), out(sum_over(j, exp(x_ - select(eq(abs_(M_), math.inf), 0.0, M_)) * v_)))
def choice_by_reference_from_other_arm(t, c, x, r, cn, co, xn, xo, a: Scalar, j: Axis):
    """The old value of a guarded maximum is taken from the other arm."""
    new, old = Where(cn, Const(a), xn), Where(co, xo, Const(a))
    return (
        [function_of(j, c, r, cn, co), function_of(j, x, r, xn, xo), needs_repair(t, j), match(t, Where(c, Const(a), x))],
        [changes_by_term("run", j, t, r, new, new - old)],
    )


@mutant("shift_of_larger", "term lost", lambda: (True, close(np.maximum(new, 3.0), np.maximum(old, 3.0) + (np.maximum(new, 3.0) - old))), out(sum_over(j, exp(x_ - maximum(M_, 3.0)) * v_)))
def shift_of_larger_from_old_alone(t, x, b, r, xn, xo, j: Axis):
    """A maximum of r and b changes by max(new, b) - old."""
    larger = Map("maximum", xn, b)
    return (
        [function_of(j, x, r, xn, xo), needs_repair(t, j), match(t, Map("maximum", x, b)), earlier(b, r, j)],
        [changes_by_term("run", j, t, r, larger, larger - xo)],
    )


@mutant("shift_through_additive", "trait", lambda: (True, close(np.exp(old + 3), np.exp(old) + np.exp(3.0))), WEIGHTED)
def shift_through_exponential(t, x, r, xn, d, j: Axis, k: Kind, o: Exponential):
    """o(x+d) = o(x) + o(d) for an exponential."""
    return (
        [changes_by_term(k, j, x, r, xn, d), turns(o, "add", "mul"), needs_repair(t, j), match(t, Map(o, x))],
        [changes_by_term(k, j, t, r, Map(o, xn), Map(o, d))],
    )


@mutant("shift_through_additive", "term lost", lambda: (True, close(-(old + 3), -old + 3)), WEIGHTED)
def shift_not_negated(t, x, r, xn, d, j: Axis, k: Kind, o: Additive):
    """-(x+d) = -x + d."""
    return (
        [changes_by_term(k, j, x, r, xn, d), turns(o, "add", "add"), needs_repair(t, j), match(t, Map(o, x))],
        [changes_by_term(k, j, t, r, Map(o, xn), d)],
    )


@mutant("shift_of_both", "term lost", lambda: (True, close((1 + 2.0) + (3 + 4.0), (1 + 3) + 2.0)), out(sum_over(j, exp((x_ - M_) + (y_ - M_)) * v_)))
def shift_of_one(t, x, y, r, xn, yn, d, e, j: Axis, k: Kind):
    """(x+d) + (y+e) = (x+y) + d."""
    return (
        [changes_by_term(k, j, x, r, xn, d), changes_by_term(k, j, y, r, yn, e), needs_repair(t, j), match(t, x + y)],
        [changes_by_term(k, j, t, r, xn + yn, d)],
    )


@mutant("shift_scaled", "term lost", lambda: (True, close((1 + 2.0) * 3, 1 * 3 + 2.0)), out(sum_over(j, exp((x_ - M_) * 0.5) * v_)))
def shift_not_scaled(t, x, b, r, xn, d, j: Axis, k: Kind):
    """(x+d) * b = x*b + d."""
    return (
        [changes_by_term(k, j, x, r, xn, d), needs_repair(t, j), match(t, x * b), earlier(b, r, j), free(b, j)],
        [changes_by_term(k, j, t, r, xn * b, d)],
    )


@mutant("shift_through_log", "sign guard", lambda: (True, close(np.log(-2.0 * -3.0), np.log(-2.0) + np.log(-3.0))), out(sum_over(j, log(exp(x_ - M_)) * v_)), why=POSITIVE)
def shift_through_log_of_anything(t, x, r, xn, q, j: Axis, k: Kind, o: Logarithm):
    """o(x*q) = o(x) + o(q), also for negative numbers."""
    return (
        [changes_by_factor(k, j, x, r, xn, q), turns_nonneg(o, "mul", "add"), needs_repair(t, j), match(t, Map(o, x))],
        [changes_by_term(k, j, t, r, Map(o, xn), Map(o, q))],
    )


@mutant("shift_through_other_sum", "count lost", lambda: (True, close(np.sum(s + 2), np.sum(s) + 2)), out(sum_over(j, exp(sum_over(k, w_ - M_)) * v_)))
def shift_through_other_sum_once(t, x, r, xn, d, j: Axis, i: Axis, k: Kind, g: LinearMonoid):
    """sum_i (x+d) = sum_i x + d: d is counted once."""
    return (
        [changes_by_term(k, j, x, r, xn, d), needs_repair(t, j), match(t, Reduce(g, i, x)), linear(g), OtherAxis(i, j), apart(i, j), free(d, i)],
        [changes_by_term(k, j, t, r, Reduce(g, i, xn), d)],
    )


@mutant("factor_of_exponential", "term lost", lambda: (True, close(np.exp(1 + 2.0), np.exp(1.0) * 2)), WEIGHTED)
def factor_is_the_shift(t, x, r, xn, d, j: Axis, k: Kind, o: Exponential):
    """o(x+d) = o(x) * d."""
    return (
        [changes_by_term(k, j, x, r, xn, d), turns(o, "add", "mul"), needs_repair(t, j), match(t, Map(o, x))],
        [changes_by_factor(k, j, t, r, Map(o, xn), d)],
    )


@mutant("factor_of_exponential", "old and new swapped", lambda: (True, close(np.exp(1 + 2.0), np.exp(1.0) * np.exp(-2.0))), WEIGHTED)
def factor_of_exponential_backwards(t, x, r, xn, d, j: Axis, k: Kind, o: Exponential):
    """o(x+d) = o(x) * o(-d)."""
    return (
        [changes_by_term(k, j, x, r, xn, d), turns(o, "add", "mul"), needs_repair(t, j), match(t, Map(o, x))],
        [changes_by_factor(k, j, t, r, Map(o, xn), Map(o, -d))],
    )


@mutant("factor_of_exponential", "trait", lambda: (True, close(np.tanh(1 + 2.0), np.tanh(1.0) * np.tanh(2.0))), out(sum_over(j, tanh(x_ - M_) * v_)))
def factor_of_any_function(t, x, r, xn, d, j: Axis, k: Kind, o: Op1):
    """o(x+d) = o(x) * o(d) for every increasing o."""
    return (
        [changes_by_term(k, j, x, r, xn, d), increasing(o), needs_repair(t, j), match(t, Map(o, x))],
        [changes_by_factor(k, j, t, r, Map(o, xn), Map(o, d))],
    )


@mutant("factor_through_root", "sign guard", lambda: (True, close(np.sqrt(-2.0 * -3.0), np.sqrt(-2.0) * np.sqrt(-3.0))), out(sum_over(j, sqrt(x_ * TOTAL) * v_)), why=POSITIVE)
def factor_through_root_of_anything(t, x, r, xn, q, j: Axis, k: Kind, o: Root):
    """o(x*q) = o(x) * o(q), also for negative numbers."""
    return (
        [changes_by_factor(k, j, x, r, xn, q), turns_nonneg(o, "mul", "mul"), needs_repair(t, j), match(t, Map(o, x))],
        [changes_by_factor(k, j, t, r, Map(o, xn), Map(o, q))],
    )


@mutant("factor_through_power", "term lost", lambda: (True, close(1 / (2.0 * 3), 1 / 2.0 * 3)), out(sum_over(j, x_ / TOTAL * v_)))
def factor_not_inverted(t, x, r, xn, q, j: Axis, k: Kind, o: Power):
    """1/(x*q) = 1/x * q."""
    return (
        [changes_by_factor(k, j, x, r, xn, q), turns(o, "mul", "mul"), needs_repair(t, j), match(t, Map(o, x))],
        [changes_by_factor(k, j, t, r, Map(o, xn), q)],
    )


@mutant("factor_through_additive", "sign guard", lambda: (True, close(-(2.0 * 3), -2.0 * -3)), out(sum_over(j, -exp(x_ - M_) * v_)))
def factor_negated_too(t, x, r, xn, q, j: Axis, k: Kind):
    """-(x*q) = -x * -q."""
    return [changes_by_factor(k, j, x, r, xn, q), needs_repair(t, j), match(t, -x)], [changes_by_factor(k, j, t, r, -xn, -q)]


@mutant("factor_of_product", "operand order", lambda: (True, close((2.0 * 3) * 5, (2.0 * 5) * (3 * 5))), WEIGHTED)
def factor_takes_the_product(t, x, b, r, xn, q, j: Axis, k: Kind):
    """(x*q) * b = (x*b) * (q*b)."""
    return [changes_by_factor(k, j, x, r, xn, q), needs_repair(t, j), match(t, x * b), earlier(b, r, j)], [changes_by_factor(k, j, t, r, xn * b, q * b)]


@mutant("factor_of_both", "term lost", lambda: (True, close((2.0 * 3) * (5 * 7), (2.0 * 5) * 3)), out(sum_over(j, exp(x_ - M_) * exp(y_ - M_))))
def factor_of_one(t, x, y, r, xn, yn, p, q, j: Axis, k: Kind):
    """(x*p) * (y*q) = (x*y) * p."""
    return (
        [changes_by_factor(k, j, x, r, xn, p), changes_by_factor(k, j, y, r, yn, q), needs_repair(t, j), match(t, x * y)],
        [changes_by_factor(k, j, t, r, xn * yn, p)],
    )


@mutant("factor_of_sum", "condition dropped", lambda: (True, close(2.0 * 3 + 5.0 * 7, (2.0 + 5) * 7)), out(sum_over(j, (exp(x_ - M_) + exp((x_ - M_) * 2.0)) * v_)))
def factor_of_unequal_sum(t, x, y, r, xn, yn, p, q, j: Axis, k: Kind):
    """x*p + y*q = (x+y) * q for two factors."""
    return (
        [changes_by_factor(k, j, x, r, xn, p), changes_by_factor(k, j, y, r, yn, q), needs_repair(t, j), match(t, x + y)],
        [changes_by_factor(k, j, t, r, xn + yn, q)],
    )


@mutant("factor_of_choice", "identity", lambda: (True, close(np.where(False, 2.0 * 3, 1.0), np.where(False, 2.0, 1.0) * 3)), out(sum_over(j, select(le(y_, 0.0), exp(x_ - M_), 1.0) * v_)))
def factor_of_choice_with_one(t, c, x, r, xn, q, j: Axis, k: Kind):
    """where(c, x*q, 1) = where(c, x, 1) * q."""
    return (
        [changes_by_factor(k, j, x, r, xn, q), needs_repair(t, j), match(t, Where(c, x, 1.0)), earlier(c, r, j)],
        [changes_by_factor(k, j, t, r, Where(c, xn, 1.0), q)],
    )


@mutant("factor_through_wide_cast", "trait", lambda: (True, close(np.trunc(0.5 * 3), 0.5 * np.trunc(3.0))), out(sum_over(j, terms.Cast(int64, exp(x_ - M_)) * v_)))
def repair_through_cast_to_integer(t, x, r, xn, q, j: Axis, k: Kind, d: TypeName):
    """cast(x*q) = cast(x) * q, also for a type of integers."""
    return [changes_by_factor(k, j, x, r, xn, q), needs_repair(t, j), match(t, Cast(d, x)), movable(t)], [changes_by_factor(k, j, t, r, Cast(d, xn), q)]


@mutant("factor_through_cast_of_modest", "trait", lambda: (True, close(np.trunc(0.5 * 3), 0.5 * np.trunc(3.0))), out(sum_over(j, terms.Cast(int64, exp(x_ - M_)) * v_)))
def repair_through_cast_of_modest_to_integer(t, x, r, xn, q, n: Scalar, j: Axis, k: Kind, d: TypeName):
    """The same, if x is modest."""
    return (
        [changes_by_factor(k, j, x, r, xn, q), needs_repair(t, j), match(t, Cast(d, x)), movable(t), within(x, n), Modest(n)],
        [changes_by_factor(k, j, t, r, Cast(d, xn), q)],
    )


@mutant("factor_through_other_sum", "free missing", lambda: (True, close(np.sum(s * s), np.sum(s) * s)), out(sum_over(j, sum_over(k, exp(w_ - maximum_over(j, w_))) * v_)))
def factor_through_its_own_axis(t, x, r, xn, q, j: Axis, i: Axis, k: Kind, g: LinearMonoid):
    """sum_i x*q = (sum_i x) * q, also for a q that depends on i."""
    return (
        [changes_by_factor(k, j, x, r, xn, q), needs_repair(t, j), match(t, Reduce(g, i, x)), linear(g), OtherAxis(i, j), apart(i, j)],
        [changes_by_factor(k, j, t, r, Reduce(g, i, xn), q)],
    )


@mutant("factor_through_other_sum", "monoid", lambda: (True, close(np.max(s * -2), np.max(s) * -2)), out(sum_over(j, maximum_over(k, exp(x_ - M_) * tensor("u", k)) * v_)), why=POSITIVE)
def factor_through_other_maximum(t, x, r, xn, q, j: Axis, i: Axis, k: Kind, g: AnyMonoid):
    """max_i x*q = (max_i x) * q for every q."""
    return (
        [changes_by_factor(k, j, x, r, xn, q), needs_repair(t, j), match(t, Reduce(g, i, x)), OtherAxis(i, j), apart(i, j), free(q, i)],
        [changes_by_factor(k, j, t, r, Reduce(g, i, xn), q)],
    )


@mutant("form_of_shift", "term lost", lambda: (True, close(new, old)), VARIANCE)
def form_without_shift(t, r, tn, d, j: Axis):
    """t + d = 1 * t(old)."""
    one = Const(1.0)
    return [changes_by_term("run", j, t, r, tn, d), distinct(t, r)], [changes_by_form(j, t, r, tn, Along(one, tn))]


@mutant("form_of_shift", "old and new swapped", lambda: (True, close(7.0 - new, (7.0 - old) + (new - old))), VARIANCE)
def form_of_shift_backwards(t, r, tn, d, j: Axis):
    """t(new) = 1 * t(old) - d * 1."""
    one = Const(1.0)
    return [changes_by_term("run", j, t, r, tn, d), distinct(t, r)], [changes_by_form(j, t, r, tn, LinearSum(Along(one, tn), Along(-d, one)))]


@mutant("form_of_shift", "operand order", lambda: (True, close(old + (new - old), old + (old - old))), VARIANCE)
def form_of_shift_at_old(t, r, tn, d, j: Axis):
    """t + d = 1 * t(old) + 1 * d(old): the change itself read at the old reference, where it is 0."""
    one = Const(1.0)
    return [changes_by_term("run", j, t, r, tn, d), distinct(t, r)], [changes_by_form(j, t, r, tn, LinearSum(Along(one, tn), Along(one, d)))]


@mutant("form_of_product", "operand order", lambda: (True, close((1 + 2.0) * (3 + 4.0), (1 + 2.0) + (3 + 4.0))), VARIANCE)
def form_of_product_as_sum(t, x, y, r, xn, yn, j: Axis, a: Form, b: Form):
    """A product of forms is the sum of both."""
    return (
        [changes_by_form(j, x, r, xn, a), changes_by_form(j, y, r, yn, b), needs_repair(t, j), match(t, x * y)],
        [changes_by_form(j, t, r, xn * yn, LinearSum(a, b))],
    )


@mutant("form_times_factor", "term lost", lambda: (True, close((1 + 2.0) * (3 * 5), (1 + 2.0) * 3)), out(sum_over(j, exp(x_ - M_) * (x_ - M_))))
def form_times_factor_forgotten(t, x, y, r, xn, yn, q, j: Axis, a: Form):
    """A form times a value that changes by q, without the q."""
    return (
        [changes_by_form(j, x, r, xn, a), changes_by_factor("run", j, y, r, yn, q), needs_repair(t, j), match(t, x * y)],
        [changes_by_form(j, t, r, xn * yn, LinearProduct(a, Along(Const(1.0), yn)))],
    )


@mutant("form_times_value", "condition dropped", lambda: (True, close((1 + 2.0) * new, (1 + 2.0) * old)), VARIANCE, why="the other value is the whole reduction's, with which the equation holds; that a loop does not have it yet is said by levels")
def form_times_running_value(t, x, b, r, xn, j: Axis, a: Form):
    """A form times a value that changes too, taken at the old reference."""
    return (
        [changes_by_form(j, x, r, xn, a), needs_repair(t, j), match(t, x * b)],
        [changes_by_form(j, t, r, xn * b, LinearProduct(a, Along(Const(1.0), b)))],
    )


@mutant("product_of_terms", "operand order", lambda: (True, close((2.0 * 3) * (5 * 7.0), (2.0 + 5) * (3 * 7.0))), VARIANCE)
def product_of_terms_adds(l: Form, c, d, x, y):
    """(c x)(d y) = (c + d)(x y)."""
    return [match(l, LinearProduct(Along(c, x), Along(d, y)))], [equal(l, Along(c + d, x * y))]


@mutant("distribute", "term lost", lambda: (True, close((2.0 + 3) * 5, 2.0 * 5 + 3)), VARIANCE)
def distribute_once(l: Form, x: Form, y: Form, z: Form):
    """(x + y) z = x z + y."""
    return (
        [match(l, LinearProduct(LinearSum(x, y), z))],
        [equal(l, LinearSum(LinearProduct(x, z), y))],
    )


# what vanishes -------------------------------------------------------------------------------------------------------------------


@mutant("nothing_seen", "identity", lambda: (np.min([-INF, 3]) == -INF, np.all(np.array([-INF, 3]) == -INF)), out(terms.Reduce("min", j, x_)))
def something_seen(r, s, j: Axis, g: SelectiveMonoid):
    """Where min_j s is -inf, s is: one element is."""
    return [match(r, Reduce(g, j, s)), NonEmpty(j)], [least_where(s, r, ALWAYS)]


@mutant("nothing_seen", "empty axis", lambda: (np.max([], initial=-INF) == -INF, -INF == 3.0), out(maximum_over(none, exp(tensor("c", i)))))
def nothing_seen_in_nothing(r, s, j: Axis, g: SelectiveMonoid):
    """Where max_j s is -inf, s is, also for an s free of an empty j."""
    return [match(r, Reduce(g, j, s)), selective(g, NumberLiteral(-math.inf))], [least_where(s, r, ALWAYS)]


@mutant("nothing_seen_inside", "condition dropped", lambda: (np.where(False, 3.0, -INF) == -INF, -INF == 3.0), CAUSAL)
def nothing_seen_outside(t, c, x, r):
    """If where(c, x, -inf) = -inf, then x = -inf, also where c does not hold."""
    return [least_where(t, r, ALWAYS), match(t, Where(c, x, -math.inf))], [least_where(x, r, ALWAYS)]


@mutant("nothing_seen_scaled", "sign guard", lambda: (True, -INF * -2.0 == -INF), out(sum_over(j, exp((x_ - M_) * -0.5) * v_)))
def nothing_seen_negated(t, x, b, r, c):
    """-inf * b = -inf for every b."""
    return [least_where(x, r, c), match(t, x * b)], [least_where(t, r, c)]


@mutant("nothing_seen_chosen", "identity", lambda: (True, np.where(False, -INF, 0.0) == -INF), out(select(le(iota(j), iota(i) * 2), x_, 0.0) + maximum_over(j, causal)))
def nothing_seen_or_zero(t, c, x, r):
    """where(c, -inf, 0) = -inf."""
    return [least_where(x, r, c), match(t, Where(c, x, 0.0))], [least_where(t, r, ALWAYS)]


@mutant("gone_by_exponential", "trait", lambda: (True, np.tanh(-INF) == 0), out(tanh(x_) + M_))
def gone_by_increasing(t, x, r, c, o: Op1):
    """o(-inf) = 0 for every increasing o."""
    return [least_where(x, r, c), match(t, Map(o, x)), increasing(o)], [zero_where(t, r, c)]


@mutant("gone_times", "operand order", lambda: (True, 0.0 + 3.0 == 0), out(exp(x_) + tensor("c", i) + M_))
def gone_plus(t, x, b, r, c):
    """0 + b = 0."""
    return [zero_where(x, r, c), match(t, x + b)], [zero_where(t, r, c)]


@mutant("gone_chosen", "operand order", lambda: (True, np.where(True, 0.0, 3.0) == 0 and np.where(False, 0.0, 3.0) == 0), out(select(le(iota(j), iota(i) * 2), 0.0, exp(x_)) + maximum_over(j, causal)))
def gone_where_not_chosen(t, c, x, r):
    """where(c, 0, x) = 0 if x = 0 where c holds."""
    return [zero_where(x, r, c), match(t, Where(c, 0.0, x))], [zero_where(t, r, ALWAYS)]


@mutant("gone_chosen", "identity", lambda: (True, np.where(False, 0.0, 1.0) == 0), out(select(le(y_, 0.0), exp(x_), 1.0) + M_))
def gone_or_one(t, c, x, r):
    """where(c, 0, 1) = 0."""
    return [zero_where(x, r, ALWAYS), match(t, Where(c, x, 1.0))], [zero_where(t, r, ALWAYS)]


@mutant("gone_summed", "free missing", lambda: (True, np.sum([0.0, 3.0]) == 0), out(sum_over(k, exp(w_)) + maximum_over(j, w_)))
def gone_summed_over_its_own_axis(t, x, r, i: Axis, g: LinearMonoid):
    """A sum over i of values that vanish at one i."""
    return [zero_where(x, r, ALWAYS), match(t, Reduce(g, i, x)), linear(g)], [zero_where(t, r, ALWAYS)]


# the loop ------------------------------------------------------------------------------------------------------------------------

UNRELATED = out(sum_over(j, exp(y_ - M_) * v_))
FUNCTION = out(sum_over(j, exp(x_ - M_) * (x_ - M_)))


@mutant("roll_by_factor", "condition dropped", lambda: (True, close(np.exp(4.0 - 1.0), 0.0)), UNRELATED)
def roll_by_factor_of_anything(e, t, r, tn, q, z: Scalar, s, j: Axis, g: LinearMonoid, h: SelectiveMonoid):
    """acc <- acc * q + t(new) also where t is not gone before r has seen anything: that part of the sum is taken at no reference."""
    return (
        [match(e, Reduce(g, j, t)), linear(g), changes_by_factor("run", j, t, r, tn, q), free(q, j), match(r, Reduce(h, j, s)), selective(h, z)],
        [equal(e, Roll(g, j, tn, Acc() * q))],
    )


@mutant("roll_by_factor", "free missing", lambda: (True, close(np.sum(s * s), np.sum(s) * s)), WEIGHTED, why=FREE)
def roll_by_local_factor(e, t, r, tn, q, z: Scalar, s, j: Axis, g: LinearMonoid, h: SelectiveMonoid):
    """acc <- acc * q + t(new) also for a q that depends on j."""
    return (
        [
            match(e, Reduce(g, j, t)), linear(g), changes_by_factor("run", j, t, r, tn, q),
            match(r, Reduce(h, j, s)), selective(h, z), zero_where(tn, r, ALWAYS),
        ],
        [equal(e, Roll(g, j, tn, Acc() * q))],
    )  # fmt: skip


@mutant("roll_by_factor", "term lost", lambda: (True, close(np.sum(s * 2), np.sum(s))), WEIGHTED)
def roll_without_factor(e, t, r, tn, q, z: Scalar, s, j: Axis, g: LinearMonoid, h: SelectiveMonoid):
    """acc <- acc + t(new)."""
    return (
        [
            match(e, Reduce(g, j, t)), linear(g), changes_by_factor("run", j, t, r, tn, q), free(q, j),
            match(r, Reduce(h, j, s)), selective(h, z), zero_where(tn, r, ALWAYS),
        ],
        [equal(e, Roll(g, j, tn, Acc()))],
    )  # fmt: skip


@mutant("roll_by_factor", "old and new swapped", lambda: (True, close(np.sum(s * 2), np.sum(s) / 2)), WEIGHTED)
def roll_by_inverse_factor(e, t, r, tn, q, z: Scalar, s, j: Axis, g: LinearMonoid, h: SelectiveMonoid):
    """acc <- acc / q + t(new)."""
    return (
        [
            match(e, Reduce(g, j, t)), linear(g), changes_by_factor("run", j, t, r, tn, q), free(q, j),
            match(r, Reduce(h, j, s)), selective(h, z), zero_where(tn, r, ALWAYS),
        ],
        [equal(e, Roll(g, j, tn, Acc() / q))],
    )  # fmt: skip


@mutant("roll_by_factor", "old and new swapped", lambda: (True, close(np.sum(np.exp(s - new)), np.sum(np.exp(s - old)) * np.exp(old - new) * np.exp(old - new))), WEIGHTED)
def roll_by_squared_factor(e, t, r, tn, q, z: Scalar, s, j: Axis, g: LinearMonoid, h: SelectiveMonoid):
    """acc <- acc * q * q + t(new): moved twice."""
    return (
        [
            match(e, Reduce(g, j, t)), linear(g), changes_by_factor("run", j, t, r, tn, q), free(q, j),
            match(r, Reduce(h, j, s)), selective(h, z), zero_where(tn, r, ALWAYS),
        ],
        [equal(e, Roll(g, j, tn, Acc() * q * q))],
    )  # fmt: skip


@mutant("roll_by_factor", "monoid", lambda: (True, close(np.max(s * -2), np.max(s) * -2)), out(maximum_over(j, exp(x_ - M_) * y_)), why=POSITIVE)
def roll_of_maximum_by_factor(e, t, r, tn, q, z: Scalar, s, j: Axis, g: SelectiveMonoid, h: SelectiveMonoid):
    """max_j t by acc <- max(acc * q, t(new)), for every q."""
    return (
        [
            match(e, Reduce(g, j, t)), changes_by_factor("run", j, t, r, tn, q), free(q, j),
            match(r, Reduce(h, j, s)), selective(h, z), zero_where(tn, r, ALWAYS),
        ],
        [equal(e, Roll(g, j, tn, Acc() * q))],
    )  # fmt: skip


@mutant("roll_by_factor_of_sum", "condition dropped", lambda: (close(0.0 + 0.0, 0.0), close(0.0 * np.exp(-INF - -INF) + 0.0, 0.0)), out(sum_over(j, exp(x_ + MU))))
def roll_by_factor_of_infinite_sum(e, t, r, tn, q, s, j: Axis, g: LinearMonoid, h: LinearMonoid):
    """acc <- acc * q + t(new) also once the sum is infinite, and q = o(inf - inf)."""
    return (
        [
            match(e, Reduce(g, j, t)), linear(g), changes_by_factor("run", j, t, r, tn, q), free(q, j), covers(t, r),
            match(r, Reduce(h, j, s)), linear(h),
        ],
        [equal(e, Roll(g, j, tn, Acc() * q))],
    )  # fmt: skip


@mutant("roll_by_shift", "operand order", lambda: (True, close(np.max(s + 2), np.max(s) * 2)), out(maximum_over(j, (x_ - M_) * 3.0 + y_)))
def roll_of_shift_by_factor(e, t, r, tn, d, z: Scalar, y: Scalar, s, j: Axis, g: SelectiveMonoid, h: SelectiveMonoid):
    """acc <- max(acc * d, t(new))."""
    return (
        [
            match(e, Reduce(g, j, t)), selective(g, z), changes_by_term("run", j, t, r, tn, d), free(d, j), distinct(e, r),
            match(r, Reduce(h, j, s)), selective(h, y), least_where(tn, r, ALWAYS),
        ],
        [equal(e, Roll(g, j, tn, Acc() * d))],
    )  # fmt: skip


@mutant("roll_by_shift", "count lost", lambda: (True, close(np.sum(s + 2), np.sum(s) + 2)), out(sum_over(j, x_ - M_)))
def roll_of_sum_by_shift(e, t, r, tn, d, z: Scalar, y: Scalar, s, j: Axis, g: LinearMonoid, h: SelectiveMonoid):
    """sum_j t by acc <- acc + d + t(new): d is counted once, not once for each element."""
    return (
        [
            match(e, Reduce(g, j, t)), linear(g), changes_by_term("run", j, t, r, tn, d), free(d, j), distinct(e, r),
            match(r, Reduce(h, j, s)), selective(h, y), least_where(tn, r, ALWAYS),
        ],
        [equal(e, Roll(g, j, tn, Acc() + d))],
    )  # fmt: skip


@mutant("roll_by_form", "condition dropped", lambda: (True, close(np.exp(4.0 - 1.0), 0.0)), out(sum_over(j, square(y_ - M_))))
def roll_by_form_of_anything(e, t, r, tn, s, z: Scalar, j: Axis, l: Form, g: LinearMonoid, h: SelectiveMonoid):
    """A linear form with a maximum, also where t is not gone before r has seen anything."""
    return (
        [match(e, Reduce(g, j, t)), linear(g), changes_by_form(j, t, r, tn, l), distinct(e, r), match(r, Reduce(h, j, s)), selective(h, z)],
        [equal(e, Roll(g, j, tn, Summed(j, tn, l)))],
    )


@mutant("sum_of_forms", "term lost", lambda: (True, close(np.sum(s + s), np.sum(s))), VARIANCE)
def sum_of_one_form(u, own, j: Axis, x: Form, y: Form):
    """A sum of forms, summed, is the sum of the first."""
    return [match(u, Summed(j, own, LinearSum(x, y)))], [equal(u, Summed(j, own, x))]


@mutant("own_accumulator", "free missing", lambda: (True, close(np.sum(s * s), s * np.sum(s))), VARIANCE, why=FREE)
def own_accumulator_by_local_factor(u, own, c, j: Axis):
    """c * own(old), summed, is c times the loop's own state, also for a c that depends on j."""
    return [match(u, Summed(j, own, Along(c, own))), NonEmpty(j)], [equal(u, c * Acc())]


@mutant("own_accumulator", "condition dropped", lambda: (True, close(np.sum(2 * s), 2 * np.sum(s + 1))), VARIANCE)
def any_accumulator_is_own(u, own, c, b, j: Axis):
    """c * b(old), summed, is c times the loop's own state, whatever b is."""
    return [match(u, Summed(j, own, Along(c, b))), free(c, j), NonEmpty(j)], [equal(u, c * Acc())]


@mutant("own_accumulator", "empty axis", lambda: (True, close(np.sum(np.zeros(0)), -INF * np.float64(np.sum(np.zeros(0))))), VARIANCE, why="a loop over nothing takes no step, and nobody reads its update")
def own_accumulator_of_nothing(u, own, c, j: Axis):
    """c * own(old), summed, is c times the state also where j is empty: an infinite c times 0 is NaN there."""
    return [match(u, Summed(j, own, Along(c, own))), free(c, j)], [equal(u, c * Acc())]


@mutant("other_accumulator", "term lost", lambda: (True, close(np.sum(2 * s), np.sum(s))), VARIANCE)
def other_accumulator_unscaled(u, own, c, b, j: Axis):
    """c * b(old), summed, is the accumulator of b."""
    return [match(u, Summed(j, own, Along(c, b))), free(c, j), distinct(b, own), NonEmpty(j)], [equal(u, Pre(j, b))]


@mutant("other_accumulator", "old and new swapped", lambda: (True, close(np.sum(2 * (s - old)), 2 * np.sum(s - new))), VARIANCE)
def other_accumulator_at_new(u, own, c, b, j: Axis):
    """c * b(old), summed, is c times the sum of b(new)."""
    return [match(u, Summed(j, own, Along(c, b))), free(c, j), distinct(b, own), NonEmpty(j)], [equal(u, c * Reduce("sum", j, b))]


