"""Broken forms: changes of one of two references forgotten, a basis that is not closed, and states that are kept where they must move."""

import numpy as np

from eqfuse.ir.build import axes, exp, maximum_over, mean_over, program, square, sum_over, tensor
from eqfuse.ir.terms import Map as Term
from eqfuse.ir.terms import Reduce as Least
from eqfuse.rewrites.facts import (
    NonEmpty,
    depends,
    distinct,
    equal,
    free,
    later,
    match,
    moderate,
    nonneg,
    streamable,
)
from eqfuse.rewrites.forms import ALWAYS, TOGETHER
from eqfuse.rewrites.patterns import Acc, Along, Const, LinearProduct, LinearSum, Map, Max, Reduce, Ref, Roll, Sum
from eqfuse.rewrites.relations import (
    adds,
    changes_by_factor,
    changes_by_form,
    changes_by_term,
    free_factor,
    joint,
    kept_where,
    linear,
    lost_where,
    needs_repair,
    prime,
    saturating,
    together,
    zero_where,
)
from eqfuse.rewrites.rule import Axis, Form, LinearMonoid, Op1, Scalar

from . import close, mutant

i, j = axes(i=4, j=8)
x_, y_, v_ = tensor("x", i, j), tensor("y", i, j), tensor("v", i, j)
M, N = maximum_over(j, x_), maximum_over(j, y_)
MU, NU = mean_over(j, x_), mean_over(j, y_)
E, F = exp(x_ - M), exp(y_ - N)
BALANCE = sum_over(j, E * y_) / sum_over(j, E)
INF = np.inf


def out(t):
    """A program whose one output is t."""
    return lambda: program("out", y=(t, tuple(sorted(t.axes))))


COVARIANCE = out(mean_over(j, (x_ - MU) * (y_ - NU)))
OVERLAP = out(sum_over(j, E * F))
BESIDE = out(sum_over(j, E * (y_ - N)))
SPREAD = out(sum_over(j, E * square(y_ - BALANCE)))
old, new = 2.0, 5.0
s, w = np.array([1.0, 2.0, 4.0]), np.array([3.0, 1.0, 2.0])


@mutant("least_as_largest", "sign guard", lambda: (True, close(np.min(s), -np.max(s))), out(sum_over(j, (x_ - Least("min", j, x_)) * y_)))
def least_as_largest_unsigned(r, s, j: Axis):
    """min_j s = -max_j s."""
    return [match(r, Reduce("min", j, s)), needs_repair(r, j)], [equal(r, -Max(j, s))]


@mutant("seed_weighted_mean", "old and new swapped", lambda: (True, close(new, old + (old - new))), SPREAD)
def seed_weighted_mean_backwards(r, s, n, w, y, j: Axis):
    """new = old + (old - new)."""
    new, old, seen = Ref("new", j, r), Ref("old", j, r), Map("log", n)
    return (
        [match(r, s * Map("recip", n)), match(s, Sum(j, w * y)), match(n, Sum(j, w)), nonneg(w), needs_repair(r, j)],
        [changes_by_term("run", j, r, seen, new, old - new)],
    )


@mutant("shift_of_two", "term lost", lambda: (True, close((1.0 + 2) + (3.0 + 4), (1.0 + 3) + 2)), out(mean_over(j, square((x_ - MU) + (y_ - NU)))))
def shift_of_two_by_one(t, x, y, r, s, p, xn, yn, d, e, j: Axis, both: TOGETHER):
    """(x+d) + (y+e) = (x+y) + d."""
    z, _, _, needs, gives = both(j, r, s, p, x, y)
    return (
        [
            changes_by_term("run", j, x, r, xn, d), changes_by_term("run", j, y, s, yn, e), distinct(r, s), needs_repair(t, j),
            match(t, x + y), *needs,
        ],
        [changes_by_term("run", j, t, z, xn + yn, d), *gives],
    )  # fmt: skip


@mutant("factor_of_two", "term lost", lambda: (True, close((1.0 * 2) * (3.0 * 4), (1.0 * 3) * 2)), OVERLAP)
def factor_of_two_by_one(t, x, y, r, s, p, xn, yn, a, b, j: Axis, both: TOGETHER):
    """(x*a) * (y*b) = (x*y) * a."""
    z, _, _, needs, gives = both(j, r, s, p, x, y)
    return (
        [
            changes_by_factor("run", j, x, r, xn, a), changes_by_factor("run", j, y, s, yn, b), distinct(r, s), needs_repair(t, j),
            match(t, x * y), *needs,
        ],
        [changes_by_factor("run", j, t, z, xn * yn, a), *gives],
    )  # fmt: skip


@mutant("form_of_two", "operand order", lambda: (True, close((1 + 2.0) * (3 + 4.0), (1 + 2.0) + (3 + 4.0))), COVARIANCE)
def form_of_two_as_sum(t, x, y, r, s, p, xn, yn, j: Axis, a: Form, b: Form, both: TOGETHER):
    """A product of forms is the sum of both."""
    z, _, _, needs, gives = both(j, r, s, p, x, y)
    return (
        [
            changes_by_form(j, x, r, xn, a), changes_by_form(j, y, s, yn, b), prime(y, j), distinct(r, s), needs_repair(t, j),
            match(t, x * y), *needs,
        ],
        [changes_by_form(j, t, z, xn * yn, LinearSum(a, b)), *gives],
    )  # fmt: skip


@mutant("form_times_factor_of_two", "term lost", lambda: (True, close((1 + 2.0) * (3 * 5), (1 + 2.0) * 3)), BESIDE)
def form_times_factor_of_two_forgotten(t, x, y, r, s, p, xn, yn, q, j: Axis, a: Form, both: TOGETHER):
    """A form times a value that changes by q, without the q."""
    z, _, _, needs, gives = both(j, r, s, p, x, y)
    return (
        [
            changes_by_form(j, x, r, xn, a), changes_by_factor("run", j, y, s, yn, q), distinct(r, s), needs_repair(t, j),
            match(t, x * y), *needs,
        ],
        [changes_by_form(j, t, z, xn * yn, LinearProduct(a, Along(Const(1.0), yn))), *gives],
    )  # fmt: skip


@mutant("lost_as_least", "identity", lambda: (np.exp(-INF) == 0, bool(np.isinf(np.exp(-INF)))), OVERLAP)
def lost_as_zero(x, r):
    """What is 0 is infinite."""
    return [zero_where(x, r, ALWAYS)], [lost_where(x, r)]


@mutant("kept_for_two", "condition dropped", lambda: (min(1.0, -INF) == -INF, close(3.0, 0.0)), out(sum_over(j, E * (v_ - N))))
def kept_for_one(x, r, s):
    """min(r, s) is -inf only where r is."""
    return [together(r, s), kept_where(x, r)], [kept_where(x, Map("minimum", r, s))]


@mutant("roll_kept_factor", "term lost", lambda: (True, close(np.sum(s * 2), np.sum(s) + 2)), OVERLAP)
def roll_kept_factor_as_term(e, t, r, tn, q, j: Axis, g: LinearMonoid):
    """acc <- acc + q + t(new)."""
    return (
        [match(e, Reduce(g, j, t)), linear(g), changes_by_factor("run", j, t, r, tn, q), free(q, j), joint(r, j), kept_where(tn, r)],
        [equal(e, Roll(g, j, tn, Acc() + q))],
    )


@mutant("late_factor_beside_term", "term lost", lambda: (True, close(np.sum((2 * s + 1) * w), 2 * np.sum(s * w))), out(sum_over(j, (y_ * MU + v_) * x_)))
def late_factor_alone(e, t, s, w, a, b, f, x, j: Axis, g: LinearMonoid):
    """sum_j (f*x + b) * w = f * sum_j x*w."""
    return (
        [
            match(e, Reduce(g, j, t)), linear(g), match(t, s * w), match(s, a + b), free_factor(a, j, f, x), later(f, j), streamable(b, j),
            depends(x, j), NonEmpty(j),
        ],
        [equal(e, f * Reduce(g, j, x * w))],
    )  # fmt: skip


@mutant("late_term_in_theorem", "operand order", lambda: (True, close(np.sin(1.0 + 2.0), np.sin(1.0) * np.sin(2.0) + np.cos(1.0) * np.cos(2.0))), out(sum_over(j, Term("sin", (x_ + MU,)))))
def late_term_in_theorem_turned(e, t, s, f, b, a: Scalar, n: Scalar, j: Axis, o: Op1, g: Op1, h: Op1, k: Op1, m: Op1, v: LinearMonoid):
    """sum_j o(b+f) = m(f) * sum_j g(b) + a h(f) * sum_j k(b)."""
    return (
        [
            match(e, Reduce(v, j, t)), linear(v), match(t, Map(o, s)), match(s, b + f), free(f, j), depends(b, j), later(f, j),
            adds(o, g, h, k, m, a), saturating(o, n), moderate(b), moderate(f), NonEmpty(j),
        ],
        [equal(e, Map(m, f) * Reduce(v, j, Map(g, b)) + (Const(a) * Map(h, f)) * Reduce(v, j, Map(k, b)))],
    )  # fmt: skip
