"""False rules of positions: rolls, reshapes, windows, diagonals, strides, split axes with tails, layouts."""

import numpy as np

from eqfuse.rewrites import (
    Axis,
    Const,
    Extent,
    Index,
    Map,
    Mean,
    NonEmpty,
    OtherAxis,
    Position,
    Reduce,
    Scalar,
    Sum,
    View,
    Where,
    at_most,
    equal,
    equals,
    finite,
    free,
    match,
)
from eqfuse.rewrites.iters import Hardware, Offset, Places, Sharded
from eqfuse.rewrites.relations import ragged, split

from . import false

x, five = np.array([1.0, 2.0, 6.0]), np.arange(1.0, 6)
x2 = np.array([[1.0, 2.0], [3.0, 5.0]])


@false("boundary of a roll", "two steps are no way round, but for lengths 1 and 2", lambda: (np.roll(x, -2), x))
def exam_rolled_twice(x, k: Axis):
    """x[k = (k+1) % n][k = (k+1) % n] = x."""
    on = (Index(k) + 1) % Extent(k)
    return View(View(x, k, on), k, on), x


@false(
    "stride of a reshape",
    "rows of a matrix are as far apart as they are long",
    lambda: (sum(i * 2 + j for i in range(2) for j in range(3)), 15),
)
def exam_reshape_by_number_of_rows(x, i: Axis, j: Axis, k: Axis):
    """sum_i sum_j x[k = i*size(i) + j] = sum_k x, for size(k) = size(i) * size(j)."""
    flat = Sum(i, Sum(j, View(x, k, Index(i) * Extent(i) + Index(j))))
    return flat, Sum(k, x), free(x, i), free(x, j), OtherAxis(i, j), equals(Extent(k), Extent(i) * Extent(j))


@false("odd tail", "of an odd number of elements the last has no partner", lambda: (five[0:4:2].sum() + five[1:4:2].sum(), five.sum()))
def exam_even_and_odd_places_of_odd_length(x, i: Axis, k: Axis):
    """sum_i x[k = 2i] + sum_i x[k = 2i+1] = sum_k x, for size(k) = 2 size(i) + 1."""
    both = Sum(i, View(x, k, 2 * Index(i))) + Sum(i, View(x, k, 2 * Index(i) + 1))
    return both, Sum(k, x), free(x, i), equals(Extent(k), 2 * Extent(i) + 1)


@false(
    "edge of a window", "elements at the edges are in fewer windows", lambda: (sum(five[i : i + 2].sum() for i in range(4)), 2 * five.sum())
)
def exam_sum_of_all_windows(x, i: Axis, w: Axis, k: Axis):
    """sum_i sum_w x[k = i+w] = size(w) * sum_k x, for size(k) = size(i) + size(w) - 1."""
    windows = Sum(i, Sum(w, View(x, k, Index(i) + Index(w))))
    given = free(x, i), free(x, w), OtherAxis(i, w), NonEmpty(i), NonEmpty(w), finite(x)
    return windows, Extent(w) * Sum(k, x), *given, equals(Extent(k), Extent(i) + Extent(w) - 1.0)


@false("off by one", "the last position is n-1", lambda: (np.arange(3.0)[::-1], 3 - np.arange(3.0)))
def exam_position_from_the_end(k: Axis):
    """index(k)[k = n-1-k] = size(k) - index(k)."""
    return View(Index(k), k, Extent(k) - 1 - Index(k)), Extent(k) - Index(k)


@false("partial diagonal", "a diagonal may end before both axes do", lambda: (x2[0, 0], np.trace(x2)))
def exam_diagonal_shorter_than_both(x, i: Axis, j: Axis, k: Axis):
    """sum_i x[j = i][k = i] = sum_j sum_k where(j == k, x, 0), for an i no longer than j and k."""
    trace = Sum(j, Sum(k, Where(Map("eq", Index(j), Index(k)), x, 0.0)))
    given = free(x, i), OtherAxis(j, k), OtherAxis(i, j), OtherAxis(i, k)
    return Sum(i, View(View(x, j, Index(i)), k, Index(i))), trace, *given, at_most(Extent(i), Extent(j)), at_most(Extent(i), Extent(k))


@false("end of a difference", "differences that stop before the last element", lambda: (np.diff(five)[:-1].sum(), five[-1] - five[0]))
def exam_differences_telescope_too_soon(x, i: Axis, k: Axis):
    """sum_i (x[k = i+1] - x[k = i]) = x[k = n-1] - x[k = 0], for finite x and size(k) = size(i) + 2."""
    steps = Sum(i, View(x, k, Index(i) + 1) - View(x, k, Index(i)))
    return steps, View(x, k, Extent(k) - 1) - View(x, k, 0), free(x, i), finite(x), equals(Extent(k), Extent(i) + 2)


@false("identity of padding", "places past the end of a product count as 1", lambda: (five.prod(), 0.0))
def exam_ragged_product_with_zeros(r, t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """prod_j t = prod_jo prod_ji where(jo*T + ji < size(j), t[j = jo*T + ji], 0)."""
    body = Where(Map("lt", View(Index(j), j, e), Extent(j)), View(t, j, e), 0.0)
    return (
        [match(r, Reduce("prod", j, t)), ragged(j, jo, ji, e), free(t, jo), free(t, ji)],
        [equal(r, Reduce("prod", jo, Reduce("prod", ji, body)))],
    )


@false("tail of a mean", "the mean of means counts the padding", lambda: (five.mean(), np.mean([five[:3].mean(), five[3:].sum() / 3])))
def exam_ragged_mean_of_means(r, t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """mean_j t = mean_jo mean_ji where(jo*T + ji < size(j), t[j = jo*T + ji], 0)."""
    body = Where(Map("lt", View(Index(j), j, e), Extent(j)), View(t, j, e), 0.0)
    return (
        [match(r, Mean(j, t)), ragged(j, jo, ji, e), free(t, jo), free(t, ji), NonEmpty(j)],
        [equal(r, Mean(jo, Mean(ji, body)))],
    )


@false("remainder by another length", "the inner position is the remainder by the length of the inner part", lambda: (4 % 2, 4 % 3))
def exam_inner_position_by_outer_length(t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """index(j)[j = jo*T + ji] mod size(jo) = index(ji)."""
    return [match(t, Map("remainder", View(Index(j), j, e), Extent(jo))), split(j, jo, ji, e)], [equal(t, Index(ji))]


@false("the wrong axis is constant", "x may vary along the axis that is read", lambda: (x[[2, 1, 0]], x))
def exam_view_of_what_is_constant_elsewhere(x, j: Axis, k: Axis, e: Position):
    """x[j = e] = x, for x constant along k."""
    return View(x, j, e), x, free(x, k), OtherAxis(j, k)


@false("order of views", "the first position may mention the axis of the second view", lambda: (x2[0, 1], x2[1, 1]))
def exam_views_of_two_axes_exchanged(x, j: Axis, k: Axis, e: Position, f: Position):
    """x[j = e][k = f] = x[k = f][j = e]."""
    return View(View(x, j, e), k, f), View(View(x, k, f), j, e), OtherAxis(j, k)


@false("strided tail", "elements beyond the last pair are even places, too", lambda: (five[0] + five[2], five[::2].sum()))
def exam_even_places_of_a_longer_axis(x, i: Axis, k: Axis):
    """sum_i x[k = 2i] = sum_k where(k mod 2 == 0, x, 0), for 2 size(i) <= size(k)."""
    even = Where(Map("eq", Map("remainder", Index(k), 2.0), Const(0.0)), x, 0.0)
    return Sum(i, View(x, k, 2 * Index(i))), Sum(k, even), free(x, i), OtherAxis(i, k), at_most(2 * Extent(i), Extent(k))


@false(
    "digits exchanged",
    "the slower digit takes the smaller step, so the elements are in another order",
    lambda: ([i + 2 * j for i in range(2) for j in range(2)], [0, 1, 2, 3]),
    licence="exact",
    phase="iters",
)
def exam_walk_of_columns_as_rows(x: Places, e: Scalar, f: Scalar, s: Scalar, a: Hardware):
    """(e:s, f:e*s) = (e*f:s)."""
    return Sharded(e, s, a, Sharded(f, e * s, a, x)), Sharded(e * f, s, a, x)


@false(
    "offset taken for a stride",
    "what is moved once is not moved at each step",
    lambda: ([3 + 0, 3 + 1], [0, 4]),
    licence="exact",
    phase="iters",
)
def exam_offset_into_the_stride(x: Places, e: Scalar, s: Scalar, p: Scalar, a: Hardware):
    """(e:s) + p = (e:s+p)."""
    return Offset(p, a, Sharded(e, s, a, x)), Sharded(e, s + p, a, x)
