"""Broken gathers: what a position that is none reads, and axes that the position depends on."""

import numpy as np

from eqfuse.ir import dtypes
from eqfuse.ir.build import axes, exp, gather, index, iota, maximum_over, program, select, sum_over, tensor, view
from eqfuse.ir.build import eq as equals_
from eqfuse.rewrites.comparisons import one_of
from eqfuse.rewrites.facts import IndexFree, OtherAxis, depends, equal, free, has_type, looked_up, match
from eqfuse.rewrites.gathers import WHOLE
from eqfuse.rewrites.patterns import Gather, Index, Map, Reduce, View, Where
from eqfuse.rewrites.rule import AnyOp, Arguments, Axis, Each, EitherWay, Position, TypeName

from . import close, mutant

i, j, k, none = axes(i=4, j=5, k=3, none=0)
x_, p_ = tensor("x", j, k), tensor("p", i, dtype=dtypes.int32)
SUMS = Each["sum", "isum"]
table = np.array([0.5, 2.0])


def read(x, at):
    """x at a position; 0 where it is none."""
    return x[at] if 0 <= at < len(x) else 0.0


def out(t):
    """A program whose one output is t."""
    return lambda: program("out", y=(t, tuple(sorted(t.axes))))


@mutant("gather_through_op", "condition dropped", lambda: (True, close(read(np.exp(table), 2), np.exp(read(table, 2)))), out(gather(exp(x_), j, p_)))
def gather_through_op_unmasked(t, x: Arguments, j: Axis, p, o: AnyOp, d: TypeName):
    """o(x)[j = p] = o(x[j = p]): exp of the 0 that stands for nothing is 1."""
    given = [match(t, Gather(Map(o, *x), j, p)), looked_up(j), has_type(p, d), one_of(d, *WHOLE)]
    return given, [equal(t, Map(o, *(Gather(a, j, p) for a in x)))]


@mutant(
    "sum_as_gather", "identity", lambda: (True, close(sum(np.where(np.arange(2) == 1, table, 3.0)), read(table, 1))),
    out(sum_over(j, select(equals_(iota(j), p_), x_, 3.0))),
)  # fmt: skip
def sum_as_gather_beside_anything(t, x, y, j: Axis, p, d: TypeName, g: SUMS, both: EitherWay):
    """sum_j where(index(j) == p, x, y) = x[j = p], whatever the others are."""
    given = [free(p, j), depends(x, j), has_type(p, d), one_of(d, *WHOLE)]
    return [match(t, Reduce(g, j, Where(Map("eq", *both(Index(j), p)), x, y))), *given], [equal(t, Gather(x, j, p))]


@mutant(
    "sum_of_one_constant", "condition dropped", lambda: (True, close(sum(np.where(np.arange(2) == 7, 3.0, 0.0)), 3.0)),
    out(sum_over(j, select(equals_(iota(j), p_), tensor("c", i), 0.0))),
)  # fmt: skip
def sum_of_one_constant_anywhere(t, x, j: Axis, p, d: TypeName, g: SUMS, both: EitherWay):
    """sum_j where(index(j) == p, x, 0) = x, also where p is no position."""
    given = [free(p, j), free(x, j), has_type(p, d), one_of(d, *WHOLE)]
    return [match(t, Reduce(g, j, Where(Map("eq", *both(Index(j), p)), x, 0.0))), *given], [equal(t, x)]


@mutant("gather_of_constant", "condition dropped", lambda: (True, close(read(np.full(2, 3.0), 7), 3.0)), out(gather(sum_over(j, x_) * x_, j, p_)))
def gather_of_constant_anywhere(t, x, j: Axis, p, d: TypeName):
    """x[j = p] = x, for x free of j."""
    return [match(t, Gather(x, j, p)), free(x, j), has_type(p, d), one_of(d, *WHOLE)], [equal(t, x)]


@mutant(
    "gather_through_reduction", "empty axis", lambda: (True, close(read(np.full(2, -np.inf), 2), np.max(np.zeros(0), initial=-np.inf))),
    out(gather(maximum_over(none, tensor("y", j, none)), j, p_)),
)  # fmt: skip
def gather_through_reduction_of_nothing(t, x, j: Axis, k: Axis, p, g: Each["max", "min"]):
    """(max_k x)[j = p] = max_k x[j = p], also where k is empty: no element of nothing is 0."""
    given = [match(t, Gather(Reduce(g, k, x), j, p)), looked_up(j), OtherAxis(j, k), free(p, k)]
    return given, [equal(t, Reduce(g, k, Gather(x, j, p)))]


@mutant(
    "view_through_gather", "term lost", lambda: (True, close(table[np.array([0, 1])[::-1]], table[np.array([0, 1])])),
    out(view(gather(x_, j, p_), i, index(i) * -1 + 3)),
)  # fmt: skip
def view_beside_a_gather(t, x, j: Axis, k: Axis, e: Position, p):
    """x[k = p][j = e] = x[j = e][k = p], though p depends on j."""
    given = [match(t, View(Gather(x, k, p), j, e)), OtherAxis(j, k), IndexFree(e, k)]
    return given, [equal(t, Gather(View(x, j, e), k, p))]
