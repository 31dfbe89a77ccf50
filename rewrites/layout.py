# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""Layout: reading a value at other positions.

``View(x, j, e)`` is x with its axis j read at the index expression e.  A view commutes with everything pointwise, with casts, and
with reductions over other axes (whose axis e does not mention), so views sink to the leaves, where they are index arithmetic in a
load.  Two views compose by substitution: x[j = e1][k = e2] = x[j = e1[k = e2]].  The substitution itself, ``e.at(k, f)``, is done in exact
index arithmetic outside the engine, as is every computed position.
"""

from __future__ import annotations

from .language import *

FAMILY, PHASE = "layout", "layout"


@rule(family=FAMILY, licence="exact", phase=PHASE)
def view_of_constant(x, j: Axis, e: Position):
    """x[j = e] = x, for x free of j."""
    return View(x, j, e), x, free(x, j)


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def view_in_place(t, x, j: Axis, e: Position):
    """x[j = j] = x."""
    return [match(t, View(x, j, e)), same_index(e, j)], [equal(t, x)]


@rule(family=FAMILY, licence="exact", phase=PHASE)
def view_through_op(x: Arguments, j: Axis, e: Position, o: AnyOp):
    """o(x, y)[j = e] = o(x[j = e], y[j = e])."""
    return View(Map(o, *x), j, e), Map(o, *(View(a, j, e) for a in x))


@rule(family=FAMILY, licence="exact", phase=PHASE)
def view_through_cast(x, j: Axis, e: Position, d: TypeName):
    """cast(x)[j = e] = cast(x[j = e])."""
    return View(Cast(d, x), j, e), Cast(d, View(x, j, e))


@rule(family=FAMILY, licence="exact", phase=PHASE)
def view_through_reduction(x, j: Axis, k: Axis, e: Position, g: AnyMonoid):
    """(sum_k x)[j = e] = sum_k x[j = e], where e does not mention k."""
    return View(Reduce(g, k, x), j, e), Reduce(g, k, View(x, j, e)), OtherAxis(j, k), IndexFree(e, k)


@rule(family=FAMILY, licence="exact", phase=PHASE)
def views_compose(x, j: Axis, k: Axis, e: Position, f: Position):
    """x[j = e][k = f] = x[j = h] with h = e[k = f], for x free of k.  A value free of j is its own view: e could be composed for ever."""
    return View(View(x, j, e), k, f), View(x, j, e.at(k, f)), free(x, k), depends(x, j), IndexDepends(e, k)


@rule(family=FAMILY, licence="exact", phase=PHASE)
def views_compose_same_axis(x, j: Axis, e: Position, f: Position):
    """x[j = e][j = f] = x[j = h] with h = e[j = f]."""
    return View(View(x, j, e), j, f), View(x, j, e.at(j, f)), depends(x, j), IndexDepends(e, j)
