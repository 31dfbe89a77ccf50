# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""Scans: at each position along an axis, the reduction of the elements up to it.

What is beside the axis commutes with a scan: views of other axes, and factors of a linear one.  Along the axis itself a scan may be
read under another name, which may be shorter: the prefixes of a prefix are prefixes.  The last of them is the reduction.  A scan of what
does not vary is known.
"""

from __future__ import annotations

from .language import *

FAMILY = "scans"


@rule(family=FAMILY, licence="exact", phase="layout")
def view_beside_scan(x: Arguments, j: Axis, k: Axis, e: Position, g: AnyMonoid):
    """(scan_k x)[j = e] = scan_k x[j = e], where e does not mention k."""
    return View(Scan(g, k, *x), j, e), Scan(g, k, *(View(part, j, e) for part in x)), OtherAxis(j, k), IndexFree(e, k)


@fact_rule(family=FAMILY, licence="exact", phase="layout")
def scan_of_other_name(t, s, x: Arguments, j: Axis, k: Axis, e: Position, g: AnyMonoid):
    """(scan_j x)[j = k] = scan_k x[j = k], for x free of k: for every element of k, which may be fewer."""
    return (
        [
            match(t, View(s, j, e)), match(s, Scan(g, j, *x)), same_index(e, k), OtherAxis(j, k), *(free(part, k) for part in x),
            at_most(Extent(k), Extent(j)),
        ],
        [equal(t, Scan(g, k, *(View(part, j, e) for part in x)))],
    )  # fmt: skip


@rule(family=FAMILY, licence="exact", phase="layout")
def last_of_scan(x: Arguments, j: Axis, g: AnyMonoid):
    """(scan_j x)[j = size(j) - 1] = reduce_j x."""
    return View(Scan(g, j, *x), j, Extent(j) - 1), Reduce(g, j, *x), NonEmpty(j)


@fact_rule(family=FAMILY)
def scan_wants_factors(e, t, j: Axis):
    """Sums of prefixes ask for the factors of their elements."""
    return [match(e, Scan("sum", j, t)), depends(t, j)], [wants_factor(t, j)]


@fact_rule(family=FAMILY)
def factor_out_of_scan(e, t, f, b, j: Axis):
    """scan_j f*b = f * scan_j b, for f free of j."""
    return [match(e, Scan("sum", j, t)), free_factor(t, j, f, b), depends(b, j)], [equal(e, f * Scan("sum", j, b))]


@rule(family=FAMILY)
def scan_of_constant(x, j: Axis, g: Each["sum", "isum"]):
    """scan_j x = (j + 1) * x, for x free of j."""
    return Scan(g, j, x), (Index(j) + 1) * x, free(x, j)


@rule(family=FAMILY, licence="exact")
def selections_of_constant(x, j: Axis, g: Each["max", "min", "imax", "imin"]):
    """max of x as often as you like is x, for x free of j; so for min."""
    return Scan(g, j, x), x, free(x, j)
