"""Broken reductions: what may not leave them, and how often a constant is counted."""

import numpy as np

from eqfuse.ir.build import (
    abs_,
    axes,
    eq,
    exp,
    extent,
    iota,
    log,
    maximum,
    maximum_over,
    mean_over,
    program,
    recip,
    select,
    sum_over,
    tensor,
)
from eqfuse.ir.build import lt as less
from eqfuse.rewrites.facts import NonEmpty, depends, equal, free, later, latest, match, nonneg
from eqfuse.rewrites.patterns import Const, Extent, Map, Reduce, Sum, Where
from eqfuse.rewrites.relations import free_factor, free_term, idempotent, linear, onehot, selective, separable, written
from eqfuse.rewrites.rule import AnyMonoid, Axis, IdempotentMonoid, LinearMonoid, Scalar, SelectiveMonoid

from . import close, mutant

i, j, k, none = axes(i=4, j=8, k=8, none=0)
x_, y_, c_ = tensor("x", i, j), tensor("y", i, j), tensor("c", i)
a, b = np.array([1.0, 2]), np.array([3.0, 5])
signed = np.array([-1.0, 2])
nothing = np.zeros(0)
THIRDS = np.arange(1, 50) / 3
REAL = "true over the reals, which is what an audit compares; only the check looks at bits"


def out(t):
    """A program whose one output is t."""
    return lambda: program("out", y=(t, tuple(sorted(t.axes))))


@mutant("factor_out", "monoid", lambda: (True, close(np.max(-2 * a), -2 * np.max(a))), out(maximum_over(j, c_ * x_) + sum_over(j, c_ * x_)))
def factor_out_of_anything(e, t, f, b, j: Axis, g: AnyMonoid):
    """max_j f*b = f * max_j b, for f of either sign."""
    return [match(e, Reduce(g, j, t)), free_factor(t, j, f, b), depends(b, j), NonEmpty(j)], [equal(e, f * Reduce(g, j, b))]


@mutant("factor_out", "empty axis", lambda: (True, close(np.sum(-np.inf * nothing), -np.inf * np.float64(np.sum(nothing)))), out(sum_over(none, c_ * tensor("x", i, none))))
def factor_out_of_nothing(e, t, f, b, j: Axis, g: LinearMonoid):
    """sum_j f*b = f * sum_j b also where j is empty: an infinite f times 0 is NaN there."""
    return [match(e, Reduce(g, j, t)), linear(g), free_factor(t, j, f, b), depends(b, j)], [equal(e, f * Reduce(g, j, b))]


@mutant("factor_out", "count lost", lambda: (True, close(np.mean(7 * b), 7 * np.sum(b))), out(mean_over(j, c_ * x_)))
def factor_out_as_sum(e, t, f, b, j: Axis, g: LinearMonoid):
    """mean_j f*b = f * sum_j b."""
    return [match(e, Reduce(g, j, t)), linear(g), free_factor(t, j, f, b), depends(b, j), NonEmpty(j)], [equal(e, f * Sum(j, b))]


@mutant("negation_out", "monoid", lambda: (True, close(np.max(-a), -np.max(a))), out(maximum_over(j, -x_)))
def negation_out_of_selection(e, t, a, j: Axis, g: SelectiveMonoid, z: Scalar):
    """max_j -a = -max_j a: it is -min_j a."""
    return [match(e, Reduce(g, j, t)), selective(g, z), match(t, -a)], [equal(e, -Reduce(g, j, a))]


@mutant("negation_out", "sign guard", lambda: (True, close(np.sum(-a), np.sum(a))), out(sum_over(j, -x_)))
def negation_forgotten(e, t, a, j: Axis, g: LinearMonoid):
    """sum_j -a = sum_j a."""
    return [match(e, Reduce(g, j, t)), linear(g), match(t, -a)], [equal(e, Reduce(g, j, a))]


@mutant("term_out_of_selection", "count lost", lambda: (True, close(np.sum(7 + b), 7 + np.sum(b))), out(sum_over(j, c_ + x_) + maximum_over(j, c_ + x_)))
def term_out_of_sum(e, t, f, b, j: Axis, g: LinearMonoid):
    """sum_j (f+b) = f + sum_j b: f is counted once."""
    return [match(e, Reduce(g, j, t)), linear(g), written("add", t, f, b), free(f, j), depends(b, j)], [equal(e, f + Reduce(g, j, b))]


@mutant("term_out_of_selection", "monoid", lambda: (True, close(np.max(7 + b), 7 + np.min(b))), out(maximum_over(j, c_ + x_)))
def term_out_of_the_other_end(e, t, f, b, j: Axis):
    """max_j (f+b) = f + min_j b."""
    return [match(e, Reduce("max", j, t)), written("add", t, f, b), free(f, j), depends(b, j)], [equal(e, f + Reduce("min", j, b))]


@mutant("factor_out_of_selection", "sign guard", lambda: (0.0 >= 0, close(np.max(0.0 * np.array([-np.inf, 1])), 0.0 * np.max([-np.inf, 1]))), out(maximum_over(j, maximum(c_, 0.0) * select(eq(iota(j), 0.0), -np.inf, x_))), why="where it is false, the program itself is NaN, of 0 and its own infinity, and nothing is asked")
def nonneg_factor_out_of_selection(e, t, f, b, j: Axis, g: SelectiveMonoid, z: Scalar):
    """max_j f*b = f * max_j b for f >= 0: 0 times an infinite maximum is NaN."""
    return (
        [match(e, Reduce(g, j, t)), selective(g, z), written("mul", t, f, b), free(f, j), depends(b, j), nonneg(f)],
        [equal(e, f * Reduce(g, j, b))],
    )


@mutant("factor_out_of_selection", "condition dropped", lambda: (True, close(np.min(-2 * a), -2 * np.min(a))), out(maximum_over(j, c_ * x_)))
def signed_factor_out_of_selection(e, t, f, b, j: Axis, g: SelectiveMonoid, z: Scalar):
    """max_j f*b = f * max_j b, for every f."""
    return (
        [match(e, Reduce(g, j, t)), selective(g, z), written("mul", t, f, b), free(f, j), depends(b, j)],
        [equal(e, f * Reduce(g, j, b))],
    )


@mutant("written_in_a_choice", "sign guard", lambda: (True, close(-np.inf, -2.0 * -np.inf)), out(maximum_over(j, select(less(x_, 0.0), -np.inf, x_ * -2.0))))
def signed_factor_out_of_choice(t, h, x, f, b, c: Scalar):
    """where(h, -inf, f*b) = f * where(h, -inf, b), for every constant f."""
    chosen = Where(h, -np.inf, b)
    return (
        [match(t, Where(h, -np.inf, x)), written("mul", x, f, b), match(f, Const(c))],
        [equal(t, f * chosen), written("mul", t, f, chosen)],
    )


@mutant("sum_of_constant", "free missing", lambda: (True, close(np.sum(a), 2 * a)), out(sum_over(j, x_)))
def sum_of_anything(x, j: Axis):
    """sum_j x = size(j) * x, also for an x that depends on j."""
    return Sum(j, x), Extent(j) * x, NonEmpty(j)


@mutant("sum_of_constant", "count lost", lambda: (True, close(np.sum(np.full(3, 5.0)), 5.0)), out(sum_over(j, exp(c_))))
def sum_of_constant_once(x, j: Axis):
    """sum_j x = x, for x free of j."""
    return Sum(j, x), x, free(x, j), NonEmpty(j)


@mutant("sum_of_constant", "off by one", lambda: (True, close(np.sum(np.full(3, 5.0)), 2 * 5.0)), out(sum_over(j, exp(c_))))
def sum_of_constant_but_one(x, j: Axis):
    """sum_j x = (size(j) - 1) * x, for x free of j."""
    return Sum(j, x), (Extent(j) + -1.0) * x, free(x, j), NonEmpty(j)


@mutant("mean_of_constant", "monoid", lambda: (True, close(np.mean(np.full(3, 5.0)), 3 * 5.0)), out(mean_over(j, exp(c_))))
def mean_of_constant_counted(x, j: Axis):
    """mean_j x = size(j) * x, for x free of j."""
    return Reduce("mean", j, x), Extent(j) * x, free(x, j), NonEmpty(j)


@mutant("mean_of_constant", "empty axis", lambda: (True, close(np.sum(nothing) / max(0, 1), 5.0)), out(mean_over(none, exp(c_))))
def mean_of_nothing(x, j: Axis):
    """mean_j x = x for x free of j, also where j is empty: the mean is 0 there."""
    return Reduce("mean", j, x), x, free(x, j)


@mutant("sum_divided_by_extent", "count lost", lambda: (True, close(np.sum(b) / 2, np.sum(b))), out(sum_over(j, x_) * recip(extent(j))))
def sum_divided_is_sum(e, x, j: Axis):
    """sum_j x / size(j) = sum_j x."""
    return [match(e, Sum(j, x) / Extent(j)), NonEmpty(j)], [equal(e, Sum(j, x))]


@mutant("sum_divided_by_extent", "operand order", lambda: (True, close(np.sum(b) / 5, np.mean(b))), out(sum_over(j, x_) * recip(extent(k)) + sum_over(k, tensor("w", k))))
def sum_divided_by_any_extent(e, x, j: Axis, k: Axis):
    """sum_j x / size(k) = mean_j x: the count of another axis."""
    return [match(e, Sum(j, x) / Extent(k)), NonEmpty(j), NonEmpty(k)], [equal(e, Reduce("mean", j, x))]


@mutant("selection_of_constant", "monoid", lambda: (True, close(np.sum(np.full(3, 5.0)), 5.0)), out(sum_over(j, exp(c_))))
def reduction_of_constant(x, j: Axis, g: AnyMonoid):
    """sum_j x = x, for x free of j."""
    return Reduce(g, j, x), x, free(x, j), NonEmpty(j)


@mutant("selection_of_constant", "free missing", lambda: (True, close(np.max(a), a)), out(maximum_over(j, x_)))
def selection_of_anything(x, j: Axis, g: IdempotentMonoid):
    """max_j x = x, also for an x that depends on j."""
    return Reduce(g, j, x), x, idempotent(g), NonEmpty(j)


@mutant("selection_of_constant", "empty axis", lambda: (True, close(np.max(nothing, initial=-np.inf), 5.0)), out(maximum_over(none, exp(c_))))
def selection_of_nothing(x, j: Axis, g: IdempotentMonoid):
    """max_j x = x for x free of j, also where j is empty: the maximum is -inf there."""
    return Reduce(g, j, x), x, idempotent(g), free(x, j)


s_ = x_ - maximum_over(j, x_)
l_ = sum_over(j, exp(s_))
LATE_SUM = out(sum_over(j, exp(s_) / l_ * (s_ - log(l_))))
hit_ = less(y_, 0.0)
chosen_ = less(0.0, y_)
late_ = -abs_(log(sum_over(j, exp(s_) * select(chosen_, y_, 0.0))))  # -inf where nothing is chosen
INFINITE_CHOICE = out(sum_over(j, select(chosen_, late_ + s_, 0.0)))
LATE_CHOICE = out(sum_over(j, select(hit_, s_ - log(l_), 0.0)))


@mutant("late_term_out_of_sum", "count lost", lambda: (True, close(np.sum(a * (7 + b)), 7 * 2 + np.sum(a * b))), LATE_SUM)
def late_term_counted_without_weight(e, t, a, s, f, b, j: Axis):
    """sum_j a*(f+b) = f * size(j) + sum_j a*b: the weights of f are forgotten."""
    return (
        [
            match(e, Sum(j, t)), match(t, a * s), free_term(s, j, f, b), separable(f, b), nonneg(a), depends(a, j),
            latest(f, a, b, j), later(f, j, 2), NonEmpty(j),
        ],
        [equal(e, f * Extent(j) + Sum(j, a * b))],
    )  # fmt: skip


@mutant("late_term_out_of_sum", "operand order", lambda: (True, close(np.sum(a * (7 + b)), 7 * np.sum(a) + np.sum(b))), LATE_SUM)
def late_term_takes_the_weights(e, t, a, s, f, b, j: Axis):
    """sum_j a*(f+b) = f * sum_j a + sum_j b."""
    return (
        [
            match(e, Sum(j, t)), match(t, a * s), free_term(s, j, f, b), separable(f, b), nonneg(a), depends(a, j),
            latest(f, a, b, j), later(f, j, 2), NonEmpty(j),
        ],
        [equal(e, f * Sum(j, a) + Sum(j, b))],
    )  # fmt: skip


@mutant("late_term_out_of_choice", "identity", lambda: (True, close(np.sum(np.where([False, False], -np.inf + b, 0)), -np.inf * np.float64(0) + 0)), INFINITE_CHOICE)
def late_term_out_of_empty_choice(e, t, c, s, f, b, j: Axis):
    """sum_j where(c, f+b, 0) = f * count + ..., also where nothing is chosen and f is infinite."""
    return (
        [
            match(e, Sum(j, t)), match(t, Where(c, s, 0.0)), free_term(s, j, f, b), separable(f, b), depends(c, j),
            latest(f, c, b, j), later(f, j, 2),
        ],
        [equal(e, f * Sum(j, Where(c, 1.0, 0.0)) + Sum(j, Where(c, b, 0.0)))],
    )  # fmt: skip


@mutant("term_out_of_single_choice", "count lost", lambda: (True, close(np.sum(np.where([False, False], 7 + b, 0)), 7 + np.sum(np.where([False, False], b, 0)))), out(sum_over(j, select(eq(iota(j), c_), maximum_over(j, y_) + x_, 0.0))))
def term_out_of_single_choice_always(e, t, c, s, f, b, j: Axis):
    """sum_j where(c, f+b, 0) = f + sum_j where(c, b, 0) for a c that holds at one place at most: or nowhere."""
    return (
        [match(e, Sum(j, t)), match(t, Where(c, s, 0.0)), free_term(s, j, f, b), onehot(c, j), later(f, j)],
        [equal(e, f + Sum(j, Where(c, b, 0.0)))],
    )


@mutant("late_term_out_of_choice", "operand order", lambda: (True, close(np.sum(np.where([True, False], 7 + b, 0)), 7 * 1 + np.sum(np.where([True, False], 0, b)))), LATE_CHOICE)
def late_term_out_of_the_other_arm(e, t, c, s, f, b, j: Axis):
    """sum_j where(c, f+b, 0) = f * count + sum_j where(c, 0, b)."""
    count = Sum(j, Where(c, 1.0, 0.0))
    return (
        [
            match(e, Sum(j, t)), match(t, Where(c, s, 0.0)), free_term(s, j, f, b), separable(f, b), depends(c, j),
            latest(f, c, b, j), later(f, j, 2),
        ],
        [equal(e, Where(Map("eq", count, Const(0.0)), 0.0, f * count) + Sum(j, Where(c, 0.0, b)))],
    )  # fmt: skip


@mutant("factor_out", "licence", lambda: (True, np.array_equal(THIRDS / 3 + THIRDS / 7, THIRDS * (np.float64(1) / 3 + np.float64(1) / 7))), out(sum_over(j, c_ * x_)), why=REAL, licence="exact")
def factor_out_exactly(e, t, f, b, j: Axis, g: LinearMonoid):
    """sum_j f*b = f * sum_j b to the last bit."""
    return [match(e, Reduce(g, j, t)), linear(g), free_factor(t, j, f, b), depends(b, j), NonEmpty(j)], [equal(e, f * Reduce(g, j, b))]

