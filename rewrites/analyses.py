# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""What follows for a value from the node that makes it: the axes that it depends on, its element type, and whether it is settled.

Every saturation has these rules: other rules, and whoever reads the graph, rely on them.  A value is free of an axis if one of its forms
is.  ``settled`` values mention no running value, so that they are the same at every reference.
"""

from __future__ import annotations

from .language import *

FAMILY, PHASE = "analyses", "analysis"


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def axes_of_constant(t, a: Scalar):
    """A constant depends on nothing."""
    return [match(t, Const(a))], [spans(t), settled(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def axes_of_length(t, j: Axis):
    """The length of an axis depends on nothing."""
    return [match(t, Extent(j))], [spans(t), settled(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def axes_of_position(t, j: Axis):
    """The position along an axis depends on this axis."""
    return [match(t, Index(j))], [spans(t, j), settled(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def axes_of_op(t, x: Arguments, o: AnyOp):
    """o(x, y) depends on the axes of x and y."""
    return [match(t, Map(o, *x))], [spans(t, *x)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def settled_op(t, x: Arguments, o: AnyOp):
    """o(x, y) is settled if x and y are."""
    return [match(t, Map(o, *x)), *map(settled, x)], [settled(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def type_of_cast(t, x, d: TypeName):
    """cast(x) is a number of the type, and depends on the axes of x."""
    return [match(t, Cast(d, x))], [has_type(t, d), spans(t, x)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def settled_cast(t, x, d: TypeName):
    """cast(x) is settled if x is."""
    return [match(t, Cast(d, x)), settled(x)], [settled(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def axes_of_view(t, x, j: Axis, e: Position):
    """x[j = e] depends on the axes of x but j, and on those of e."""
    return [match(t, View(x, j, e)), depends(x, j)], [spans(t, (x, j), e)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def axes_of_same_view(t, x, j: Axis, e: Position):
    """x[j = e] depends on the axes of x, for x free of j."""
    return [match(t, View(x, j, e)), free(x, j)], [spans(t, x)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def type_of_view(t, x, j: Axis, e: Position, d: TypeName):
    """x[j = e] has the type of x."""
    return [match(t, View(x, j, e)), has_type(x, d)], [has_type(t, d)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def settled_view(t, x, j: Axis, e: Position):
    """x[j = e] is settled if x is."""
    return [match(t, View(x, j, e)), settled(x)], [settled(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def axes_of_gather(t, x, j: Axis, p):
    """x[j = p] depends on the axes of x but j, and on those of p."""
    return [match(t, Gather(x, j, p))], [spans(t, (x, j), p)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def type_of_gather(t, x, j: Axis, p, d: TypeName):
    """x[j = p] has the type of x."""
    return [match(t, Gather(x, j, p)), has_type(x, d)], [has_type(t, d)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def settled_gather(t, x, j: Axis, p):
    """x[j = p] is settled if x and p are."""
    return [match(t, Gather(x, j, p)), settled(x), settled(p)], [settled(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def axes_of_reduction(t, x: Arguments, j: Axis, g: AnyMonoid):
    """sum_j x depends on the axes of x but j."""
    return [match(t, Reduce(g, j, *x))], [spans(t, *((part, j) for part in x))]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def settled_reduction(t, x: Arguments, j: Axis, g: AnyMonoid):
    """sum_j x is settled if x is, whatever the monoid."""
    return [match(t, Reduce(g, j, *x)), *map(settled, x)], [settled(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def axes_of_scan(t, x: Arguments, j: Axis, g: AnyMonoid):
    """The sums of x up to each position along j depend on the axes of x and on j."""
    return [match(t, Scan(g, j, *x))], [spans(t, *x, j)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def settled_scan(t, x: Arguments, j: Axis, g: AnyMonoid):
    """So they are settled if x is, whatever the monoid."""
    return [match(t, Scan(g, j, *x)), *map(settled, x)], [settled(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def axes_of_merged(t, x: TwoStates, g: AnyMonoid):
    """Two states together depend on the axes of both."""
    return [match(t, Merge(g, *x))], [spans(t, *x)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def settled_merged(t, x: TwoStates, g: AnyMonoid):
    """They are settled if both are."""
    return [match(t, Merge(g, *x)), *map(settled, x)], [settled(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def axes_of_running_value(t, r, j: Axis, when: Each["new", "old"]):
    """A running value of r depends on the axes of r."""
    return [match(t, Ref(when, j, r))], [spans(t, r)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def axes_of_accumulator(t, x, j: Axis):
    """The sum over x up to this step depends on the axes of x but j."""
    return [match(t, Pre(j, x))], [spans(t, (x, j))]
