"""Broken reference invariance: a reference taken out of one factor and not put back into the other."""

import math

import numpy as np

from eqfuse.ir import terms
from eqfuse.ir.build import axes, exp, log, maximum_over, program, square, sum_over, tensor
from eqfuse.rewrites.facts import NonEmpty, depends, equal, finite_or, later, latest, match, nonpos, streamable
from eqfuse.rewrites.patterns import Const, Map, Max, NumberLiteral, Where
from eqfuse.rewrites.relations import free_factor, free_term, increasing, operand, turns, wants_factor
from eqfuse.rewrites.rule import Axis, Turns

from . import close, mutant

i, j, d = axes(i=4, j=8, d=2)
Exponential = Turns["add", "mul"]
Power = Turns["mul", "mul"]
x = np.array([1.0, -2])
m, f = np.max(x), 0.5


def normalised():
    """Attention whose normaliser is inside the exponential: f = -m - log l is ready two loops late."""
    s = tensor("x", i, j)
    m = maximum_over(j, s)
    l = sum_over(j, exp(s - m))
    return program("normalised", y=(sum_over(j, exp(s - (m + log(l))) * tensor("v", j, d)), (i, d)))


def apart():
    """The normaliser in two terms that are never positive."""
    s = tensor("x", i, j)
    s = s - maximum_over(j, s)
    return program("apart", y=(sum_over(j, exp(s - log(sum_over(j, exp(s)))) * tensor("v", j, d)), (i, d)))


def foreign():
    """The normaliser of other values: it is finite where all of x is -inf."""
    y = tensor("y", i, j)
    m = maximum_over(j, y)
    late = m + log(sum_over(j, exp(y - m)))
    return program("foreign", y=(sum_over(j, exp(tensor("x", i, j) - late) * tensor("v", j, d)), (i, d)))


def squared():
    """A square in place of the exponential."""
    s = tensor("x", i, j)
    m = maximum_over(j, s)
    return program("squared", y=(sum_over(j, square(s - (m + log(sum_over(j, exp(s - m))))) * tensor("v", j, d)), (i, d)))


def scaled():
    """The normaliser as a factor of the argument."""
    s = tensor("x", i, j)
    m = maximum_over(j, s)
    l = sum_over(j, exp(s - m))
    return program("scaled", y=(sum_over(j, exp(s * l) * tensor("v", j, d)) + sum_over(j, s * l), (i, d)))


def beside():
    """Attention with an element beside each row."""
    s = tensor("x", i, j)
    u = terms.Map("maximum", (maximum_over(j, s), tensor("z", i)))
    return program("beside", y=(sum_over(j, exp(s - u) * tensor("v", j, d)), (i, d)))


def safe(m):
    """m, or 0 where that is -inf."""
    return Where(Map("eq", m, Const(-math.inf)), 0.0, m)


@mutant("reference_invariance", "term lost", lambda: (True, close(np.exp(f + x), np.exp(x - m) * np.exp(f))), normalised)
def reference_not_put_back(t, a, f, x, j: Axis, o: Exponential):
    """o(f + x) = o(x - m) * o(f)."""
    m = Max(j, x)
    return (
        [wants_factor(t, j), match(t, Map(o, a)), turns(o, "add", "mul"), free_term(a, j, f, x), later(f, j, 2), streamable(x, j), depends(x, j)],
        [equal(t, Map(o, x - safe(m)) * Map(o, f))],
    )


@mutant("reference_invariance", "sign guard", lambda: (True, close(np.exp(f + x), np.exp(x - m) * np.exp(f - m))), normalised)
def reference_taken_out_twice(t, a, f, x, j: Axis, o: Exponential):
    """o(f + x) = o(x - m) * o(f - m)."""
    m = Max(j, x)
    return (
        [wants_factor(t, j), match(t, Map(o, a)), turns(o, "add", "mul"), free_term(a, j, f, x), later(f, j, 2), streamable(x, j), depends(x, j)],
        [equal(t, Map(o, x - safe(m)) * Map(o, f - safe(m)))],
    )


@mutant("reference_invariance", "identity", lambda: (True, close(np.exp(f + np.float64(-np.inf)), np.exp(np.float64(-np.inf) + np.inf) * np.exp(-np.inf + f))), foreign)
def reference_of_nothing(t, a, f, x, j: Axis, o: Exponential):
    """o(f + x) = o(x - m) * o(m + f) also where m = -inf: -inf - -inf is NaN."""
    m = Max(j, x)
    return (
        [wants_factor(t, j), match(t, Map(o, a)), turns(o, "add", "mul"), free_term(a, j, f, x), later(f, j, 2), streamable(x, j), depends(x, j)],
        [equal(t, Map(o, x - m) * Map(o, m + f))],
    )


@mutant("reference_invariance", "identity", lambda: (True, close(np.exp(f + np.float64(-np.inf)), np.exp(np.float64(-np.inf) + np.inf) * np.exp(-np.inf + f))), foreign)
def reference_guarded_as_minimum(t, a, f, x, j: Axis, o: Exponential):
    """m replaced by 0 where it is +inf: the identity of a minimum."""
    m = Max(j, x)
    m = Where(Map("eq", m, Const(math.inf)), 0.0, m)
    return (
        [wants_factor(t, j), match(t, Map(o, a)), turns(o, "add", "mul"), free_term(a, j, f, x), later(f, j, 2), streamable(x, j), depends(x, j)],
        [equal(t, Map(o, x - m) * Map(o, m + f))],
    )


@mutant("reference_invariance", "identity", lambda: (True, close(np.exp(f + x), np.exp(x - m) * np.exp(0.0 + f))), normalised)
def reference_guard_inverted(t, a, f, x, j: Axis, o: Exponential):
    """m in one factor, and 0 in the other wherever m is finite."""
    m = Max(j, x)
    wrong = Where(Map("eq", m, Const(-math.inf)), m, 0.0)
    return (
        [wants_factor(t, j), match(t, Map(o, a)), turns(o, "add", "mul"), free_term(a, j, f, x), later(f, j, 2), streamable(x, j), depends(x, j)],
        [equal(t, Map(o, x - safe(m)) * Map(o, wrong + f))],
    )


@mutant("reference_invariance", "trait", lambda: (True, close(np.square(f + x), np.square(x - m) * np.square(m + f))), squared)
def reference_of_power(t, a, f, x, j: Axis, o: Power):
    """o(f + x) = o(x - m) * o(m + f) for an o that turns products into products."""
    m = Max(j, x)
    return (
        [wants_factor(t, j), match(t, Map(o, a)), turns(o, "mul", "mul"), free_term(a, j, f, x), later(f, j, 2), streamable(x, j), depends(x, j)],
        [equal(t, Map(o, x - safe(m)) * Map(o, safe(m) + f))],
    )


@mutant("reference_invariance", "operand order", lambda: (True, close(np.exp(f * x), np.exp(x - m) * np.exp(m + f))), scaled)
def reference_of_factor(t, a, f, x, j: Axis, o: Exponential):
    """o(f * x) = o(x - m) * o(m + f): f is a factor, not a term."""
    m = Max(j, x)
    return (
        [wants_factor(t, j), match(t, Map(o, a)), turns(o, "add", "mul"), free_factor(a, j, f, x), later(f, j, 2), streamable(x, j), depends(x, j)],
        [equal(t, Map(o, x - safe(m)) * Map(o, safe(m) + f))],
    )


@mutant("exponential_of_late_term", "operand order", lambda: (True, close(np.exp(-1.0 + -2), np.exp(-1.0) + np.exp(-2.0))), apart)
def exponential_as_sum(t, a, f, x, j: Axis, o: Exponential):
    """o(f + x) = o(f) + o(x)."""
    return (
        [
            wants_factor(t, j), match(t, Map(o, a)), turns(o, "add", "mul"), free_term(a, j, f, x), nonpos(f), nonpos(x), later(f, j, 2),
            latest(f, x, x, j), depends(x, j),
        ],
        [equal(t, Map(o, f) + Map(o, x))],
    )  # fmt: skip


@mutant("exponential_of_late_term", "sign guard", lambda: (True, close(np.exp(-1.0 + -2), np.exp(1.0) * np.exp(-2.0))), apart)
def exponential_of_negated_term(t, a, f, x, j: Axis, o: Exponential):
    """o(f + x) = o(-f) * o(x)."""
    return (
        [
            wants_factor(t, j), match(t, Map(o, a)), turns(o, "add", "mul"), free_term(a, j, f, x), nonpos(f), nonpos(x), later(f, j, 2),
            latest(f, x, x, j), depends(x, j),
        ],
        [equal(t, Map(o, -f) * Map(o, x))],
    )  # fmt: skip



@mutant("own_reference", "operand order", lambda: (True, close(np.exp(x - 1.5), np.exp(x - m) * np.exp(1.5 - m))), beside)
def own_reference_put_back_upside_down(t, a, x, m, u, rest, j: Axis, o: Exponential):
    """o(x - u) = o(x - m) * o(u - m)."""
    return (
        [
            wants_factor(t, j), match(t, Map(o, a)), turns(o, "add", "mul"), increasing(o), free_term(a, j, -u, x),
            operand("maximum", u, m, rest), match(m, Max(j, x)), streamable(x, j), depends(x, j), NonEmpty(j),
            finite_or(x, NumberLiteral(-math.inf)),
        ],
        [equal(t, Map(o, x - safe(m)) * Map(o, u - m))],
    )  # fmt: skip
