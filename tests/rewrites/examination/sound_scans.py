"""Sound rules of scans."""

from eqfuse.rewrites import (
    Axis,
    Const,
    Each,
    Extent,
    Index,
    Map,
    Mean,
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

from . import sound

MaxOrMin = Each("max", "min")


@sound("direction", "what is summed from the end is everything, without what is before")
def exam_suffix_sums(x, k: Axis):
    """(scan_k x[k = n-1-k])[k = n-1-k] = sum_k x - scan_k x + x, for finite x."""
    back = Extent(k) - 1 - Index(k)
    return View(Scan("sum", k, View(x, k, back)), k, back), Sum(k, x) - Scan("sum", k, x) + x, finite(x)


@sound("inclusive, exclusive", "x - x = 0 for finite x, so the sum of what is before remains")
def exam_exclusive_scan(x, j: Axis, k: Axis):
    """sum_j where(j < k, x[k = j], 0) = scan_k x - x, for finite x and a j as long as k."""
    before = Sum(j, Where(Map("lt", Index(j), Index(k)), View(x, k, Index(j)), 0.0))
    return before, Scan("sum", k, x) - x, free(x, j), OtherAxis(j, k), equals(Extent(j), Extent(k)), finite(x)


@sound("idempotent", "running extremes do not fall or rise again")
def exam_running_extreme_twice(x, k: Axis, g: MaxOrMin):
    """scan_k scan_k x = scan_k x, for maxima and minima."""
    return Scan(g, k, Scan(g, k, x)), Scan(g, k, x)


@sound("monoid turned round", "negation turns the order round, NaN stays NaN")
def exam_running_maximum_of_negated_is_minimum(x, k: Axis):
    """scanmax_k -x = -scanmin_k x."""
    return Scan("max", k, -x), -Scan("min", k, x)


@sound("quotient out of a scan", "one finite positive divisor for all elements")
def exam_divisor_out_of_scan(x, y, k: Axis):
    """scan_k x/y = (scan_k x)/y, for finite y > 0 constant along k."""
    return Scan("sum", k, x / y), Scan("sum", k, x) / y, free(y, k), positive(y), finite(y)


@sound("off by one at the end", "the last element is added to all before it")
def exam_last_but_one_of_scan_and_last(x, k: Axis):
    """(scan_k x)[k = n-2] + x[k = n-1] = sum_k x, for n >= 2."""
    return View(Scan("sum", k, x), k, Extent(k) - 2) + View(x, k, Extent(k) - 1), Sum(k, x), at_least(Extent(k), 2)


@sound("inclusive, exclusive", "1 * x is x, to the last bit", licence="exact")
def exam_first_of_running_product_is_first(x, k: Axis):
    """(scanprod_k x)[k = 0] = x[k = 0], to the last bit."""
    return View(Scan("prod", k, x), k, 0), View(x, k, 0), NonEmpty(k)


@sound("count", "the last running mean is the mean")
def exam_last_running_mean(x, k: Axis):
    """(scan_k x / (index(k) + 1))[k = n-1] = mean_k x, on no empty axis."""
    return View(Scan("sum", k, x) / (Index(k) + 1.0), k, Extent(k) - 1), Mean(k, x), NonEmpty(k)


@sound("a pole between", "reciprocals of positive numbers fall, and 1/inf is 0")
def exam_running_minimum_of_positive_reciprocals(x, k: Axis):
    """scanmin_k 1/x = 1/(scanmax_k x) for x > 0."""
    return Scan("min", k, Map("recip", x)), Map("recip", Scan("max", k, x)), positive(x)


@sound("order of scans", "both are sums over a rectangle; two infinities of it are NaN in either order")
def exam_scans_of_sums_exchanged(x, j: Axis, k: Axis):
    """scan_j scan_k x = scan_k scan_j x."""
    return Scan("sum", j, Scan("sum", k, x)), Scan("sum", k, Scan("sum", j, x)), OtherAxis(j, k)


@sound("carry", "the sums of the parts before are those up to here, without one's own")
def exam_scan_of_parts_with_carry(s, t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """(scan_j t)[j = jo*T + ji] = scan_ji t[e] + (scan_jo sum_ji t[e] - sum_ji t[e]), for finite t."""
    own = View(t, j, e)
    carry = Scan("sum", jo, Sum(ji, own)) - Sum(ji, own)
    return (
        [match(s, View(Scan("sum", j, t), j, e)), split(j, jo, ji, e), free(t, jo), free(t, ji), finite(t)],
        [equal(s, Scan("sum", ji, own) + carry)],
    )


@sound("count", "0 + 1 + ... + k")
def exam_running_sum_of_positions_inclusive(k: Axis):
    """scan_k index(k) = index(k) * (index(k) + 1) / 2."""
    return Scan("sum", k, Index(k)), Index(k) * (Index(k) + 1.0) * 0.5


@sound("domain", "logarithms of positive numbers add up")
def exam_running_product_of_positive_by_logarithms(x, k: Axis):
    """scanprod_k x = exp(scan_k log x) for finite x > 0."""
    return Scan("prod", k, x), Map("exp", Scan("sum", k, Map("log", x))), finite(x), positive(x)


@sound("which part of a state", "the gates of a recurrence multiply, whatever is added")
def exam_gates_of_recurrence_multiply(a, b, k: Axis):
    """The first part of h = a h + b is the product of the gates."""
    return Scan("linear[0]", k, a, b), Scan("prod", k, a)


@sound("which argument is linear", "all that is added has the factor, and so has their sum with any gates")
def exam_factor_of_inputs_out_of_recurrence(a, b, c, k: Axis):
    """h = a h + c b is c times h = a h + b, for finite numbers and c constant along k."""
    return Reduce("linear[1]", k, a, b * c), c * Reduce("linear[1]", k, a, b), free(c, k), finite(a), finite(b), finite(c)


@sound("boundary of a roll", "the first prefix is taken by itself")
def exam_difference_of_rolled_scan_but_for_the_first(x, k: Axis):
    """where(k == 0, scan_k x, scan_k x - (scan_k x)[k = (k+n-1) % n]) = x, for finite x."""
    sums = Scan("sum", k, x)
    before = View(sums, k, (Index(k) + Extent(k) - 1) % Extent(k))
    return Where(Map("eq", Index(k), Const(0.0)), sums, sums - before), x, finite(x)
