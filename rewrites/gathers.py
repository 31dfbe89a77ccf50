# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""Gathers: reading a value where data say.

``Gather(x, j, p)``, here x[j = p], is the element of x at the position p along j, and 0 where p is no position.  That is a sum which
selects one element,

    x[j = p] = sum_j where(index(j) == p, x, 0),

and both forms stay: laws of sums hold of the sum, which a loop over j that makes x has anyway; the gather reads one element of what is in
memory.  Where no loop over j reads x anyway, gathers sink to the leaves like views, so that what is computed from a
table is computed for the rows that are read: o(x, y)[j = p] = where(0 <= p < size(j), o(x[j = p], y[j = p]), 0).
"""

from __future__ import annotations

from .language import *

FAMILY = "gathers"
WHOLE = ("int8", "int16", "int32", "int64", "uint8")


def _inside(p, j) -> Pattern:
    """p is a position along j."""
    return Map("and", Map("ge", p, Const(0.0)), Map("lt", p, Extent(j)))


@fact_rule(family=FAMILY)
def gather_as_sum(t, x, j: Axis, p):
    """x[j = p] = sum_j where(index(j) == p, x, 0), where a loop over j reads x anyway."""
    return [match(t, Gather(x, j, p)), summable(t), free(p, j)], [equal(t, Sum(j, Where(Map("eq", Index(j), p), x, 0.0)))]


@fact_rule(family=FAMILY)
def sum_as_gather(t, x, j: Axis, p, d: TypeName, g: Each["sum", "isum"], both: EitherWay):
    """sum_j where(index(j) == p, x, 0) = x[j = p], for whole numbers p free of j."""
    here = Where(Map("eq", *both(Index(j), p)), x, 0.0)
    given = [free(p, j), depends(x, j), has_type(p, d), one_of(d, *WHOLE)]
    return [match(t, Reduce(g, j, here)), *given], [equal(t, Gather(x, j, p))]


@fact_rule(family=FAMILY)
def sum_of_one_constant(t, x, j: Axis, p, d: TypeName, g: Each["sum", "isum"], both: EitherWay):
    """sum_j where(index(j) == p, x, 0) = where(0 <= p < size(j), x, 0), for whole numbers p and x free of j."""
    here = Where(Map("eq", *both(Index(j), p)), x, 0.0)
    given = [free(p, j), free(x, j), has_type(p, d), one_of(d, *WHOLE)]
    return [match(t, Reduce(g, j, here)), *given], [equal(t, Where(_inside(p, j), x, 0.0))]


@fact_rule(family=FAMILY, licence="exact")
def gather_of_constant(t, x, j: Axis, p, d: TypeName):
    """x[j = p] = where(0 <= p < size(j), x, 0), for x free of j."""
    return [match(t, Gather(x, j, p)), free(x, j), has_type(p, d), one_of(d, *WHOLE)], [equal(t, Where(_inside(p, j), x, 0.0))]


@fact_rule(family=FAMILY, licence="exact")
def gather_of_positions(t, j: Axis, p, d: TypeName):
    """index(j)[j = p] = where(0 <= p < size(j), p, 0)."""
    return [match(t, Gather(Index(j), j, p)), has_type(p, d), one_of(d, *WHOLE)], [equal(t, Where(_inside(p, j), p, 0.0))]


@fact_rule(family=FAMILY, licence="exact")
def gather_through_op(t, m, x: Arguments, j: Axis, p, o: AnyOp, d: TypeName):
    """o(x, y)[j = p] = where(0 <= p < size(j), o(x[j = p], y[j = p]), 0), where j is an axis of x or y."""
    read = Map(o, *(Gather(a, j, p) for a in x))
    given = [looked_up(j), depends(m, j), has_type(p, d), one_of(d, *WHOLE)]
    return [match(t, Gather(m, j, p)), match(m, Map(o, *x)), *given], [equal(t, Where(_inside(p, j), read, 0.0))]


@fact_rule(family=FAMILY, licence="exact")
def gather_through_cast(t, x, j: Axis, p, d: TypeName):
    """cast(x)[j = p] = cast(x[j = p])."""
    return [match(t, Gather(Cast(d, x), j, p)), looked_up(j)], [equal(t, Cast(d, Gather(x, j, p)))]


@fact_rule(family=FAMILY)
def gather_through_reduction(t, x, j: Axis, k: Axis, p, g: Each["sum", "isum", "mean", "max", "min", "imax", "imin"]):
    """(sum_k x)[j = p] = sum_k x[j = p], for p free of k."""
    return (
        [match(t, Gather(Reduce(g, k, x), j, p)), looked_up(j), OtherAxis(j, k), free(p, k), NonEmpty(k)],
        [equal(t, Reduce(g, k, Gather(x, j, p)))],
    )


@fact_rule(family=FAMILY, licence="exact")
def gather_of_gather(t, x, j: Axis, k: Axis, p, q):
    """x[k = q][j = p] = x[j = p][k = q[j = p]], for p free of k."""
    return (
        [match(t, Gather(Gather(x, k, q), j, p)), OtherAxis(j, k), free(p, k), depends(q, j)],
        [equal(t, Where(_inside(p, j), Gather(Gather(x, j, p), k, Gather(q, j, p)), 0.0))],
    )


@rule(family=FAMILY, licence="exact", phase="layout")
def view_through_gather(x, j: Axis, k: Axis, e: Position, p):
    """x[k = p][j = e] = x[j = e][k = p[j = e]], where e does not mention k."""
    return View(Gather(x, k, p), j, e), Gather(View(x, j, e), k, View(p, j, e)), OtherAxis(j, k), IndexFree(e, k)
