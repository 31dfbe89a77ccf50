"""Broken scans: what does not commute with them, and where they begin and end."""

import numpy as np

from eqfuse.ir.build import axes, program, tensor, view
from eqfuse.ir.index import index
from eqfuse.ir.terms import Scan as ScanTerm
from eqfuse.rewrites.comparisons import at_most
from eqfuse.rewrites.facts import NonEmpty, OtherAxis, depends, equal, free, match
from eqfuse.rewrites.patterns import Extent, Index, Reduce, Scan, View
from eqfuse.rewrites.relations import free_factor, same_index
from eqfuse.rewrites.rule import AnyMonoid, Axis, Each, Position

from . import close, mutant

i, j, k = axes(i=4, j=4, k=4)
x_, y_, c_ = tensor("x", i, j), tensor("y", i, j), tensor("c", i)
a, b = np.array([1.0, 2, 4]), np.array([3.0, 5, 6])
square = np.array([[1.0, 2, 3], [4, 6, 5], [9, 7, 8]])
far = np.arange(3)
SUMS = ("sum", "isum")


def scanned(t, monoid="sum", at=None):
    """A program that scans along j, perhaps read elsewhere."""
    found = ScanTerm(monoid, j, t)
    found = found if at is None else view(found, *at)
    return lambda: program("scanned", y=(found, tuple(sorted(found.axes))))


@mutant("view_beside_scan", "condition dropped", lambda: (True, close(square.cumsum(1)[far, far], square[far, far].cumsum())), scanned(x_, at=(i, index(j))))
def view_across_scan(x, j: Axis, k: Axis, e: Position, g: AnyMonoid):
    """(scan_k x)[j = e] = scan_k x[j = e], also where e mentions k."""
    return View(Scan(g, k, x), j, e), Scan(g, k, View(x, j, e)), OtherAxis(j, k)


@mutant("scan_of_other_name", "free missing", lambda: (True, close(square.cumsum(0)[far, far], square[far, far].cumsum())), scanned(x_, at=(j, index(i))))
def scan_of_taken_name(t, s, x, j: Axis, k: Axis, e: Position, g: AnyMonoid):
    """(scan_j x)[j = k] = scan_k x[j = k], also for an x that depends on k."""
    return (
        [match(t, View(s, j, e)), match(s, Scan(g, j, x)), same_index(e, k), OtherAxis(j, k), at_most(Extent(k), Extent(j))],
        [equal(t, Scan(g, k, View(x, j, e)))],
    )


@mutant("last_of_scan", "off by one", lambda: (True, close(a.cumsum()[1], a.sum())), scanned(x_, at=(j, 2)))
def last_but_one_of_scan(x, j: Axis, g: AnyMonoid):
    """(scan_j x)[j = size(j) - 2] = reduce_j x."""
    return View(Scan(g, j, x), j, Extent(j) - 2), Reduce(g, j, x), NonEmpty(j)


@mutant("factor_out_of_scan", "free missing", lambda: (True, close((a * b).cumsum(), a * b.cumsum())), scanned(x_ * y_))
def any_factor_out_of_scan(e, t, f, b, j: Axis):
    """scan_j f*b = f * scan_j b, also for an f that depends on j."""
    return [match(e, Scan("sum", j, t)), match(t, f * b), depends(b, j)], [equal(e, f * Scan("sum", j, b))]


@mutant("factor_out_of_scan", "monoid", lambda: (True, close(np.maximum.accumulate(-a), -np.maximum.accumulate(a))), lambda: program("both", y=(ScanTerm("max", j, c_ * x_) + ScanTerm("sum", j, c_ * x_), (i, j))))
def factor_out_of_any_scan(e, t, f, b, j: Axis, g: AnyMonoid):
    """The largest of f*b so far is f times that of b, for f of either sign."""
    return [match(e, Scan(g, j, t)), free_factor(t, j, f, b), depends(b, j)], [equal(e, f * Scan(g, j, b))]


@mutant("scan_of_constant", "off by one", lambda: (True, close(np.full(3, 2.0).cumsum(), far * 2.0)), scanned(c_))
def scan_of_constant_from_nothing(x, j: Axis, g: Each[SUMS]):
    """scan_j x = j * x: without the element itself."""
    return Scan(g, j, x), Index(j) * x, free(x, j)


@mutant("scan_of_constant", "count lost", lambda: (True, close(np.full(3, 2.0).cumsum(), 2.0)), scanned(c_))
def scan_of_constant_once(x, j: Axis, g: Each[SUMS]):
    """scan_j x = x."""
    return Scan(g, j, x), x, free(x, j)
