"""Broken axes, types and claims that a value mentions no running value."""

import numpy as np

from eqfuse.ir import terms
from eqfuse.ir.build import axes, program, sum_over, tensor
from eqfuse.ir.index import index
from eqfuse.rewrites.facts import depends, match, spans
from eqfuse.rewrites.patterns import Index, Map, Reduce, View
from eqfuse.rewrites.rule import AnyMonoid, AnyOp, Arguments, Axis, Position

from . import mutant

i, j, k = axes(i=4, j=8, k=8)
x_, y_, c_ = tensor("x", i, j), tensor("y", i, j), tensor("c", i)
x, y = np.arange(4.0), np.ones((3, 1))
new, old = 2.0, 1.0


def claim(t):
    """A program whose one output is t."""
    return lambda: program("claim", y=(t, tuple(sorted(t.axes))))


@mutant("axes_of_position", "free missing", lambda: (True, np.ptp(np.arange(3)) == 0), claim(x_ + terms.Index(j)))
def place_of_nothing(t, j: Axis):
    """The position along an axis does not depend on this axis."""
    return [match(t, Index(j))], [spans(t)]


@mutant("axes_of_op", "term lost", lambda: (True, (x + y).shape == x.shape), claim(c_ + x_))
def axes_of_first_argument(t, x: Arguments, o: AnyOp):
    """o(x, y) depends on the axes of x."""
    return [match(t, Map(o, *x))], [spans(t, x[0])]


@mutant("axes_of_view", "term lost", lambda: (True, x[np.arange(4)].ndim == 0), claim(terms.View(x_, j, index(k))))
def axes_of_view_without_position(t, x, j: Axis, e: Position):
    """x[j = e] depends on the axes of x but j."""
    return [match(t, View(x, j, e)), depends(x, j)], [spans(t, (x, j))]


@mutant("axes_of_same_view", "condition dropped", lambda: (True, x[np.arange(4)].ndim == 0), claim(terms.View(x_, j, index(k))))
def axes_of_every_view(t, x, j: Axis, e: Position):
    """x[j = e] depends on the axes of x, whatever e mentions."""
    return [match(t, View(x, j, e))], [spans(t, x)]


@mutant("axes_of_reduction", "free missing", lambda: (True, np.sum(x * y, axis=1).ndim == 0), claim(sum_over(j, x_)))
def axes_of_nothing(t, x, j: Axis, g: AnyMonoid):
    """sum_j x depends on nothing."""
    return [match(t, Reduce(g, j, x))], [spans(t)]
