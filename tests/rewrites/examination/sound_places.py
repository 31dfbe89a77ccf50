"""Sound rules of positions."""

from eqfuse.rewrites import (
    Axis,
    Const,
    Extent,
    Index,
    Map,
    Max,
    NonEmpty,
    OtherAxis,
    Position,
    Reduce,
    Scalar,
    Sum,
    View,
    Where,
    equal,
    equals,
    finite,
    free,
    match,
)
from eqfuse.rewrites.facts import IndexFree
from eqfuse.rewrites.iters import Hardware, Offset, Places, Sharded
from eqfuse.rewrites.relations import ragged, split

from . import sound


@sound("boundary of a roll", "(k + n - 1 + 1) mod n is k", licence="exact")
def exam_rolled_on_and_back(x, k: Axis):
    """x[k = (k+1) % n][k = (k+n-1) % n] = x, to the last bit."""
    return View(View(x, k, (Index(k) + 1) % Extent(k)), k, (Index(k) + Extent(k) - 1) % Extent(k)), x


@sound("stride of a reshape", "i*size(j) + j goes through 0 ... size(i)*size(j)-1 once")
def exam_reshape_by_length_of_rows(x, i: Axis, j: Axis, k: Axis):
    """sum_i sum_j x[k = i*size(j) + j] = sum_k x, for size(k) = size(i) * size(j)."""
    flat = Sum(i, Sum(j, View(x, k, Index(i) * Extent(j) + Index(j))))
    return flat, Sum(k, x), free(x, i), free(x, j), OtherAxis(i, j), equals(Extent(k), Extent(i) * Extent(j))


@sound("even length", "each place is even or odd")
def exam_even_and_odd_places(x, i: Axis, k: Axis):
    """sum_i x[k = 2i] + sum_i x[k = 2i+1] = sum_k x, for size(k) = 2 size(i)."""
    both = Sum(i, View(x, k, 2 * Index(i))) + Sum(i, View(x, k, 2 * Index(i) + 1))
    return both, Sum(k, x), free(x, i), equals(Extent(k), 2 * Extent(i))


@sound("edge of a window", "each element is in a window, and a maximum does not count in how many")
def exam_maximum_of_all_windows(x, i: Axis, w: Axis, k: Axis):
    """max_i max_w x[k = i+w] = max_k x, for size(k) = size(i) + size(w) - 1."""
    windows = Max(i, Max(w, View(x, k, Index(i) + Index(w))))
    given = free(x, i), free(x, w), OtherAxis(i, w), NonEmpty(i), NonEmpty(w)
    return windows, Max(k, x), *given, equals(Extent(k), Extent(i) + Extent(w) - 1.0)


@sound("off by one", "the position from the end, counted from 0")
def exam_position_from_the_end_counted_from_zero(k: Axis):
    """index(k)[k = n-1-k] = size(k) - 1 - index(k)."""
    return View(Index(k), k, Extent(k) - 1 - Index(k)), Extent(k) - 1.0 - Index(k)


@sound("whole diagonal", "all three axes are as long")
def exam_diagonal_as_trace(x, i: Axis, j: Axis, k: Axis):
    """sum_i x[j = i][k = i] = sum_j sum_k where(j == k, x, 0), for axes of one length."""
    trace = Sum(j, Sum(k, Where(Map("eq", Index(j), Index(k)), x, 0.0)))
    given = free(x, i), OtherAxis(j, k), OtherAxis(i, j), OtherAxis(i, k)
    return Sum(i, View(View(x, j, Index(i)), k, Index(i))), trace, *given, equals(Extent(i), Extent(j)), equals(Extent(j), Extent(k))


@sound("end of a difference", "all but the first and the last cancel")
def exam_differences_telescope(x, i: Axis, k: Axis):
    """sum_i (x[k = i+1] - x[k = i]) = x[k = n-1] - x[k = 0], for finite x and size(k) = size(i) + 1."""
    steps = Sum(i, View(x, k, Index(i) + 1) - View(x, k, Index(i)))
    return steps, View(x, k, Extent(k) - 1) - View(x, k, 0), free(x, i), finite(x), equals(Extent(k), Extent(i) + 1)


@sound("identity of padding", "1 is the identity of a product")
def exam_ragged_product_with_ones(r, t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """prod_j t = prod_jo prod_ji where(jo*T + ji < size(j), t[j = jo*T + ji], 1)."""
    body = Where(Map("lt", View(Index(j), j, e), Extent(j)), View(t, j, e), 1.0)
    return (
        [match(r, Reduce("prod", j, t)), ragged(j, jo, ji, e), free(t, jo), free(t, ji)],
        [equal(r, Reduce("prod", jo, Reduce("prod", ji, body)))],
    )


@sound("tail counted", "as many places are before the end as the axis has")
def exam_ragged_places_counted(t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """size(j) = sum_jo sum_ji (jo*T + ji < size(j))."""
    inside = Map("lt", View(Index(j), j, e), Extent(j))
    return [match(t, Extent(j)), ragged(j, jo, ji, e)], [equal(t, Sum(jo, Sum(ji, inside)))]


@sound("remainder", "the inner position is the remainder by the length of the inner part, the outer one the quotient")
def exam_inner_position_by_inner_length(t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """index(j)[j = jo*T + ji] mod size(ji) = index(ji)."""
    return [match(t, Map("remainder", View(Index(j), j, e), Extent(ji))), split(j, jo, ji, e)], [equal(t, Index(ji))]


@sound("constant along the axis", "what is the same everywhere is so at e", licence="exact")
def exam_view_of_constant(x, j: Axis, e: Position):
    """x[j = e] = x, for x constant along j, to the last bit."""
    return View(x, j, e), x, free(x, j)


@sound("order of views", "neither position mentions the axis of the other", licence="exact")
def exam_independent_views_exchanged(x, j: Axis, k: Axis, e: Position, f: Position):
    """x[j = e][k = f] = x[k = f][j = e], for e free of k and f free of j, to the last bit."""
    return View(View(x, j, e), k, f), View(View(x, k, f), j, e), OtherAxis(j, k), IndexFree(e, k), IndexFree(f, j)


@sound("strided", "the even places of an axis of even length")
def exam_even_places_by_remainder(x, i: Axis, k: Axis):
    """sum_i x[k = 2i] = sum_k where(k mod 2 == 0, x, 0), for size(k) = 2 size(i)."""
    even = Where(Map("eq", Map("remainder", Index(k), 2.0), Const(0.0)), x, 0.0)
    return Sum(i, View(x, k, 2 * Index(i))), Sum(k, even), free(x, i), OtherAxis(i, k), equals(Extent(k), 2 * Extent(i))


@sound("digits", "a step of e*s goes on where e steps of s end", licence="exact", phase="iters")
def exam_walk_of_three(x: Places, e: Scalar, s: Scalar, a: Hardware):
    """(3:e*s, e:s) = (3*e:s)."""
    return Sharded(3, e * s, a, Sharded(e, s, a, x)), Sharded(3 * e, s, a, x)


@sound("offset", "all of it elsewhere is each of its parts elsewhere", licence="exact", phase="iters")
def exam_offset_of_what_is_walked(x: Places, e: Scalar, s: Scalar, p: Scalar, a: Hardware):
    """(e:s) + p, of what is walked."""
    return Offset(p, a, Sharded(e, s, a, x)), Sharded(e, s, a, Offset(p, a, x))
