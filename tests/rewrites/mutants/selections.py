"""Broken selections: the other end forgotten, the wrong end, and functions that do not increase."""

import numpy as np

from eqfuse.ir.build import abs_, axes, maximum_over, mean_over, program, square, tensor
from eqfuse.ir.terms import Map as Term
from eqfuse.rewrites.facts import NonEmpty, depends, equal, free, later, match
from eqfuse.rewrites.patterns import Map, Max, Reduce
from eqfuse.rewrites.relations import written
from eqfuse.rewrites.rule import Axis, Each, Op1
from eqfuse.rewrites.selections import PICKS

from . import close, mutant

i, j = axes(i=4, j=8)
x_, y_ = tensor("x", i, j), tensor("y", i, j)
MU = mean_over(j, x_)
s = np.array([1.0, 4.0])
t = np.array([5.0, 2.0])


def out(term):
    """A program whose one output is the largest along j."""
    return lambda: program("out", y=(maximum_over(j, term), (i,)))


@mutant("selection_of_product", "sign guard", lambda: (True, close(np.max(-1.0 * s), -1.0 * np.max(s))), out(y_ * MU))
def selection_of_product_by_one_end(e, t, f, b, j: Axis, end: PICKS):
    """max_j f*b = f * max_j b, also for f < 0."""
    return (
        [match(e, Reduce(end[0], j, t)), written("mul", t, f, b), free(f, j), depends(b, j), later(f, j), NonEmpty(j)],
        [equal(e, f * Reduce(end[0], j, b))],
    )


@mutant("selection_of_product", "monoid", lambda: (True, close(np.max(2.0 * s), min(2.0 * np.max(s), 2.0 * np.min(s)))), out(y_ * MU))
def selection_of_product_the_lesser(e, t, f, b, j: Axis, end: PICKS):
    """max_j f*b = min(f * max_j b, f * min_j b)."""
    g, _, other, op = end
    return (
        [match(e, Reduce(g, j, t)), written("mul", t, f, b), free(f, j), depends(b, j), later(f, j), NonEmpty(j)],
        [equal(e, Map(op, f * Reduce(g, j, b), f * Reduce(other, j, b)))],
    )


@mutant("selection_of_negation", "monoid", lambda: (True, close(np.max(-s), -np.max(s))), out(-square(x_ - MU)))
def selection_of_negation_at_one_end(e, t, b, j: Axis, end: PICKS):
    """max_j -b = -max_j b."""
    return [match(e, Reduce(end[0], j, t)), later(t, j), match(t, -b)], [equal(e, -Reduce(end[0], j, b))]


@mutant("largest_magnitude", "sign guard", lambda: (True, close(np.max(np.abs(-s)), max(np.max(-s), np.min(-s)))), out(abs_(x_ - MU)))
def largest_magnitude_unsigned(e, t, b, j: Axis):
    """max_j |b| = max(max_j b, min_j b)."""
    return (
        [match(e, Max(j, t)), later(t, j), match(t, Map("abs", b)), NonEmpty(j)],
        [equal(e, Map("maximum", Max(j, b), Reduce("min", j, b)))],
    )


@mutant("largest_square", "sign guard", lambda: (True, close(np.max((-s) ** 2), np.max(-s) ** 2)), out(square(x_ - MU)))
def largest_square_of_largest(e, t, b, j: Axis, power: Each[(lambda b: b * b), (lambda b: Map("square", b))]):
    """max_j b^2 = (max_j b)^2."""
    return [match(e, Max(j, t)), later(t, j), match(t, power(b)), NonEmpty(j)], [equal(e, Map("square", Max(j, b)))]


@mutant("selection_of_selection", "operand order", lambda: (True, close(np.max(np.minimum(s, t)), min(np.max(s), np.max(t)))), out(Term("minimum", (x_ - MU, y_))))
def selection_of_the_other_selection(e, t, a, b, j: Axis, end: PICKS):
    """max_j min(a, b) = min(max_j a, max_j b)."""
    g, _, _, op = end
    return [match(e, Reduce(g, j, t)), later(t, j), match(t, Map(op, a, b))], [equal(e, Map(op, Reduce(g, j, a), Reduce(g, j, b)))]


@mutant("selection_of_increasing", "trait", lambda: (True, close(np.max(np.square(-s)), np.square(np.max(-s)))), out(square(x_ - MU)))
def selection_of_any_function(e, t, b, j: Axis, o: Op1, g: Each["max", "min"]):
    """max_j o(b) = o(max_j b), for any o."""
    return [match(e, Reduce(g, j, t)), later(t, j), match(t, Map(o, b)), NonEmpty(j)], [equal(e, Map(o, Reduce(g, j, b)))]
