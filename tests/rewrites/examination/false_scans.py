"""False rules of scans: directions, carries, positions, and what a scan starts from."""

import numpy as np

from eqfuse.rewrites import (
    Axis,
    Const,
    Each,
    Extent,
    Index,
    Map,
    NonEmpty,
    OtherAxis,
    Position,
    Reduce,
    Scan,
    Sum,
    View,
    Where,
    at_least,
    equal,
    equals,
    finite,
    free,
    match,
    positive,
)
from eqfuse.rewrites.relations import split

from . import false

SumOrProduct = Each("sum", "prod")
x, y, a = np.array([1.0, 2.0, 6.0]), np.array([1.0, 3.0, 4.0]), np.array([0.5, 2.0, 3.0])
x2 = np.array([[1.0, -2.0], [-3.0, 5.0]])


def recurrence(gates, values):
    """h = a h + b, all of it, from b."""
    out = [values[0]]
    for g, v in zip(gates[1:], values[1:], strict=True):
        out.append(g * out[-1] + v)
    return np.array(out)


@false("direction", "a scan of a reversed row sums the end first", lambda: (np.cumsum(x)[::-1], np.cumsum(x[::-1])))
def exam_scan_and_reversal_exchanged(x, k: Axis):
    """(scan_k x)[k = n-1-k] = scan_k x[k = n-1-k]."""
    back = Extent(k) - 1 - Index(k)
    return View(Scan("sum", k, x), k, back), Scan("sum", k, View(x, k, back))


@false("inclusive, exclusive", "the sum before an element does not include it", lambda: (np.cumsum(x), np.cumsum(x) - x))
def exam_exclusive_scan_with_own_element(x, j: Axis, k: Axis):
    """sum_j where(j <= k, x[k = j], 0) = scan_k x - x, for finite x and a j as long as k."""
    before = Sum(j, Where(Map("le", Index(j), Index(k)), View(x, k, Index(j)), 0.0))
    return before, Scan("sum", k, x) - x, free(x, j), OtherAxis(j, k), equals(Extent(j), Extent(k)), finite(x)


@false("not idempotent", "sums of prefix sums grow", lambda: (np.cumsum(np.cumsum(x)), np.cumsum(x)))
def exam_scan_twice(x, k: Axis, g: SumOrProduct):
    """scan_k scan_k x = scan_k x, for sums and products."""
    return Scan(g, k, Scan(g, k, x)), Scan(g, k, x)


@false(
    "monoid turned round",
    "the running maximum of -x is minus the running minimum",
    lambda: (np.maximum.accumulate(-x), -np.maximum.accumulate(x)),
)
def exam_running_maximum_of_negated(x, k: Axis):
    """scanmax_k -x = -scanmax_k x."""
    return Scan("max", k, -x), -Scan("max", k, x)


@false("the wrong axis is constant", "the factor varies along the axis of the scan", lambda: (np.cumsum(x * y), y * np.cumsum(x)))
def exam_factor_of_another_axis_out_of_scan(x, y, j: Axis, k: Axis):
    """scan_k x*y = y * scan_k x, for finite x and y, y constant along j."""
    return Scan("sum", k, x * y), y * Scan("sum", k, x), free(y, j), OtherAxis(j, k), finite(x), finite(y)


@false("off by one at the end", "the last prefix but one lacks the last element", lambda: (np.cumsum(x)[-2], x.sum()))
def exam_last_but_one_of_scan(x, k: Axis):
    """(scan_k x)[k = n-2] = sum_k x, for n >= 2."""
    return View(Scan("sum", k, x), k, Extent(k) - 2), Sum(k, x), at_least(Extent(k), 2)


@false("inclusive, exclusive", "the first prefix is the first element, and not the identity", lambda: (np.cumprod(x + 4)[0], 1.0))
def exam_first_of_running_product(x, k: Axis):
    """(scanprod_k x)[k = 0] = 1."""
    return View(Scan("prod", k, x), k, 0), Const(1.0), NonEmpty(k)


@false("count", "a running mean divides by what it has seen", lambda: (np.cumsum(x) / 3, np.cumsum(x) / np.arange(1, 4)))
def exam_running_mean_by_length(x, k: Axis):
    """scan_k x / size(k) = scan_k x / (index(k) + 1), on no empty axis."""
    return Scan("sum", k, x) / Extent(k), Scan("sum", k, x) / (Index(k) + 1.0), NonEmpty(k)


@false(
    "a pole between",
    "reciprocals turn the order round on each side of 0 only",
    lambda: (np.minimum.accumulate(1 / np.array([-1.0, 2.0])), 1 / np.maximum.accumulate(np.array([-1.0, 2.0]))),
)
def exam_running_minimum_of_reciprocals(x, k: Axis):
    """scanmin_k 1/x = 1/(scanmax_k x) for finite x that is not 0."""
    return Scan("min", k, Map("recip", x)), Map("recip", Scan("max", k, x)), finite(x), positive(Map("abs", x))


@false(
    "order of scans",
    "running sums and running maxima do not change places",
    lambda: (np.cumsum(np.maximum.accumulate(x2, 1), 0), np.maximum.accumulate(np.cumsum(x2, 0), 1)),
)
def exam_scans_of_two_monoids_exchanged(x, j: Axis, k: Axis):
    """scan_j scanmax_k x = scanmax_k scan_j x for finite x."""
    return Scan("sum", j, Scan("max", k, x)), Scan("max", k, Scan("sum", j, x)), finite(x), OtherAxis(j, k)


@false("carry lost", "a part begins with what all parts before it have summed", lambda: (np.cumsum(np.ones(4))[2:], np.cumsum(np.ones(2))))
def exam_scan_of_parts_without_carry(s, t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """(scan_j t)[j = jo*T + ji] = scan_ji t[j = jo*T + ji]."""
    return (
        [match(s, View(Scan("sum", j, t), j, e)), split(j, jo, ji, e), free(t, jo), free(t, ji)],
        [equal(s, Scan("sum", ji, View(t, j, e)))],
    )


@false("count", "positions up to k add up to k(k+1)/2", lambda: (np.cumsum(np.arange(4.0)), np.arange(4.0) * (np.arange(4.0) - 1) / 2))
def exam_running_sum_of_positions(k: Axis):
    """scan_k index(k) = index(k) * (index(k) - 1) / 2."""
    return Scan("sum", k, Index(k)), Index(k) * (Index(k) - 1.0) * 0.5


@false(
    "domain",
    "a logarithm loses the sign, and the product has one",
    lambda: (np.cumprod([-2.0, 3.0]), np.exp(np.cumsum(np.log([-2.0, 3.0])))),
)
def exam_running_product_by_logarithms(x, k: Axis):
    """scanprod_k x = exp(scan_k log x) for finite x that is not 0."""
    return Scan("prod", k, x), Map("exp", Scan("sum", k, Map("log", x))), finite(x), positive(Map("abs", x))


@false("which part of a state", "the gates of a recurrence multiply", lambda: (np.cumprod(a), np.cumsum(a)))
def exam_gates_of_recurrence_add(a, b, k: Axis):
    """The product of the gates of h = a h + b is their sum."""
    return Scan("linear[0]", k, a, b), Scan("sum", k, a)


@false(
    "which argument is linear",
    "a recurrence is linear in what is added, not in its gates",
    lambda: (recurrence(2 * a, x), 2 * recurrence(a, x)),
)
def exam_factor_of_gates_out_of_recurrence(a, b, c, k: Axis):
    """h = c a h + b is c times h = a h + b, for finite numbers and c constant along k."""
    return Reduce("linear[1]", k, a * c, b), c * Reduce("linear[1]", k, a, b), free(c, k), finite(a), finite(b), finite(c)


@false(
    "boundary of a roll",
    "the first prefix has none before it: rolled, it meets the last",
    lambda: (np.cumsum(x) - np.roll(np.cumsum(x), 1), x),
)
def exam_difference_of_rolled_scan(x, k: Axis):
    """scan_k x - (scan_k x)[k = (k+n-1) % n] = x, for finite x."""
    sums = Scan("sum", k, x)
    return sums - View(sums, k, (Index(k) + Extent(k) - 1) % Extent(k)), x, finite(x)
