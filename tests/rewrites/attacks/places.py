"""Positions, views, lengths and parts of axes: index arithmetic that is off, and extents that are used as numbers."""

import numpy as np

from eqfuse.rewrites import (
    AnyMonoid,
    Axis,
    Const,
    Extent,
    Index,
    Map,
    Max,
    Mean,
    NonEmpty,
    OtherAxis,
    Position,
    Reduce,
    Sum,
    View,
    Where,
    depends,
    equal,
    finite,
    free,
    match,
    positive,
)
from eqfuse.rewrites.facts import IndexFree
from eqfuse.rewrites.relations import ragged, same_index, split

from . import sound, unsound

inf, nan = np.inf, np.nan
x, back, turn = np.array([1.0, 2.0, 6.0]), np.array([2, 1, 0]), np.array([1, 2, 0])
five = np.arange(1.0, 6)


@unsound("position", "kind: sum of a gather as the sum", "positions may repeat", lambda: (x[[0, 0, 1]].sum(), x.sum()))
def sum_of_gather(x, k: Axis, e: Position):
    """sum_k x[k = e] = sum_k x."""
    return Sum(k, View(x, k, e)), Sum(k, x)


@unsound("position", "kind: maximum of a gather as the maximum", "positions may leave the largest out", lambda: (x[[0, 0, 1]].max(), x.max()))
def maximum_of_gather(x, k: Axis, e: Position):
    """max_k x[k = e] = max_k x."""
    return Max(k, View(x, k, e)), Max(k, x)


@unsound("position", "openxla/xla#49121: nested dynamic slices without a clamp", "positions of a part may be past the end of what is read", lambda: (0.0, 1.0))
def positions_are_in_range(k: Axis, e: Position):
    """(index(k)[k = e] < size(k)) = 1: parts that are padded read past the end, and are masked by this comparison."""
    return Map("lt", View(Index(k), k, e), Extent(k)), Const(1.0)


@unsound("position", "openxla/xla#48715: padding folded away", "the mask of a padded part is not always true", lambda: (0.0, 1.0))
def mask_of_ragged_part_dropped(x, j: Axis, e: Position):
    """where(index(j)[j = e] < size(j), x, 0) = x."""
    return Where(Map("lt", View(Index(j), j, e), Extent(j)), x, 0.0), x


@sound
def mask_of_whole_part_dropped(t, x, j: Axis, jo: Axis, ji: Axis, e: Position):
    """where(jo*T + ji < size(j), x, 0) = x where T divides the extent."""
    masked = Where(Map("lt", View(Index(j), j, e), Extent(j)), x, 0.0)
    return [match(t, masked), split(j, jo, ji, e)], [equal(t, x)]


@unsound("position", "openxla/xla#48715: padding folded away", "parts of a ragged axis reach past the end", lambda: (0.0, 1.0))
def ragged_part_is_in_range(t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """(jo*T + ji < size(j)) = 1 also where T does not divide."""
    return [match(t, Map("lt", View(Index(j), j, e), Extent(j))), ragged(j, jo, ji, e)], [equal(t, Const(1.0))]


@sound
def whole_part_is_in_range(t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """(jo*T + ji < size(j)) = 1 where T divides."""
    return [match(t, Map("lt", View(Index(j), j, e), Extent(j))), split(j, jo, ji, e)], [equal(t, Const(1.0))]


@unsound("position", "tvm#5505, tvm#10336: strides of a split", "the outer stride is the length of the inner part", lambda: (1 * 3 + 2.0, 1 * 2 + 2.0))
def stride_of_outer_part(t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """index(j)[j = e] = jo * size(jo) + ji."""
    return [match(t, View(Index(j), j, e)), split(j, jo, ji, e)], [equal(t, Index(jo) * Extent(jo) + Index(ji))]


@sound
def stride_of_inner_part(t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """index(j)[j = e] = jo * size(ji) + ji."""
    return [match(t, View(Index(j), j, e)), split(j, jo, ji, e)], [equal(t, Index(jo) * Extent(ji) + Index(ji))]


@unsound("position", "tvm#15881: a layout read the other way round", "the parts are exchanged", lambda: (0 * 3 + 2.0, 2 * 2 + 0.0))
def parts_exchanged(t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """index(j)[j = e] = ji * size(jo) + jo."""
    return [match(t, View(Index(j), j, e)), split(j, jo, ji, e)], [equal(t, Index(ji) * Extent(jo) + Index(jo))]


@unsound("extent", "tvm#8852: a split that does not divide", "the parts of a ragged axis are longer than the axis", lambda: (5.0, 2 * 3.0))
def extent_of_ragged_parts(t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """size(j) = size(jo) * size(ji) also where T does not divide."""
    return [match(t, Extent(j)), ragged(j, jo, ji, e)], [equal(t, Extent(jo) * Extent(ji))]


@sound
def extent_of_parts(t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """size(j) = size(jo) * size(ji) where T divides."""
    return [match(t, Extent(j)), split(j, jo, ji, e)], [equal(t, Extent(jo) * Extent(ji))]


@unsound("monoid", "kind: mean of sums of parts", "the parts are averaged twice or not at all", lambda: (five.mean(), five.sum() / 1.0))
def split_average_of_sums(r, t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """mean_j t = mean_jo sum_ji t[j = jo*T + ji]."""
    return (
        [match(r, Mean(j, t)), split(j, jo, ji, e), depends(t, j), free(t, jo), free(t, ji)],
        [equal(r, Mean(jo, Sum(ji, View(t, j, e))))],
    )


@sound
def split_average_of_averages(r, t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """mean_j t = mean_jo mean_ji t[j = jo*T + ji]."""
    return (
        [match(r, Mean(j, t)), split(j, jo, ji, e), depends(t, j), free(t, jo), free(t, ji)],
        [equal(r, Mean(jo, Mean(ji, View(t, j, e))))],
    )


@unsound("identity of padding", "kind: minimum of padded parts", "the places past the end count as 0", lambda: (five.min(), 0.0))
def ragged_minimum_with_zero(r, t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """min_j t = min_jo min_ji where(jo*T + ji < size(j), t[j = jo*T + ji], 0) for t > 0."""
    inside = Map("lt", View(Index(j), j, e), Extent(j))
    return (
        [match(r, Reduce("min", j, t)), ragged(j, jo, ji, e), positive(t), free(t, jo), free(t, ji)],
        [equal(r, Reduce("min", jo, Reduce("min", ji, Where(inside, View(t, j, e), 0.0))))],
    )


@sound
def ragged_maximum_with_zero(r, t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """max_j t = max_jo max_ji where(jo*T + ji < size(j), t[j = jo*T + ji], 0) for t > 0."""
    inside = Map("lt", View(Index(j), j, e), Extent(j))
    return (
        [match(r, Max(j, t)), ragged(j, jo, ji, e), positive(t), free(t, jo), free(t, ji)],
        [equal(r, Max(jo, Max(ji, Where(inside, View(t, j, e), 0.0))))],
    )


@unsound("position", "kind: a mask that tests the inner position", "the inner position is always less than the extent", lambda: (five.sum(), five.sum() + 5.0))
def ragged_mask_of_inner_position(r, t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """sum_j t = sum_jo sum_ji where(ji < size(j), t[j = jo*T + ji], 0)."""
    body = Where(Map("lt", Index(ji), Extent(j)), View(t, j, e), 0.0)
    return (
        [match(r, Sum(j, t)), ragged(j, jo, ji, e), depends(t, j), free(t, jo), free(t, ji)],
        [equal(r, Sum(jo, Sum(ji, body)))],
    )


@unsound("position", "Triton: a mask by the block's length", "whole parts only are counted", lambda: (five.sum(), five[:3].sum()))
def ragged_mask_of_outer_position(r, t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """sum_j t = sum_jo sum_ji where(jo < size(jo) - 1, t[j = jo*T + ji], 0)."""
    body = Where(Map("lt", Index(jo), Extent(jo) - 1.0), View(t, j, e), 0.0)
    return (
        [match(r, Sum(j, t)), ragged(j, jo, ji, e), depends(t, j), free(t, jo), free(t, ji)],
        [equal(r, Sum(jo, Sum(ji, body)))],
    )


@unsound("axis confused", "kind: a product read at one place", "both factors are read at the position", lambda: (x[0] * x[0], x[0] * x[2]))
def view_of_product_of_one(x, y, j: Axis, e: Position):
    """(x*y)[j = e] = x * y[j = e]."""
    return View(x * y, j, e), x * View(y, j, e)


@sound
def view_of_product_with_constant(x, y, j: Axis, e: Position):
    """(x*y)[j = e] = x * y[j = e], for x constant along j."""
    return View(x * y, j, e), x * View(y, j, e), free(x, j)


@unsound("position", "kind: position of a view", "the position is read, too", lambda: (2.0, 0.0))
def position_not_read(j: Axis, e: Position):
    """index(j)[j = e] = index(j)."""
    return View(Index(j), j, e), Index(j)


@unsound("position", "inductor: two views of one axis", "the second view reads what the first gave", lambda: (x[turn[turn[0]]], x[0]))
def views_cancel(x, j: Axis, e: Position):
    """x[j = e][j = e] = x: a reversal is its own inverse, a shift is not."""
    return View(View(x, j, e), j, e), x


@unsound("position", "kind: reduction of a view over another axis", "the position may depend on the axis that is reduced", lambda: (x[0] + x[1] + x[2], 3 * x[0]))
def sum_into_view(x, j: Axis, k: Axis, e: Position):
    """sum_k x[j = e] = size(k) * x[j = e], for x constant along k."""
    return Sum(k, View(x, j, e)), Extent(k) * View(x, j, e), free(x, k), NonEmpty(k), OtherAxis(j, k), finite(x)


@sound
def sum_into_view_elsewhere(x, j: Axis, k: Axis, e: Position):
    """sum_k x[j = e] = size(k) * x[j = e], for x and e constant along k."""
    return Sum(k, View(x, j, e)), Extent(k) * View(x, j, e), free(x, k), NonEmpty(k), OtherAxis(j, k), finite(x), IndexFree(e, k)


@unsound("extent", "kind: reciprocal of a length", "an empty axis has none", lambda: (0 / np.float64(0), 1.0))
def length_by_itself(k: Axis):
    """size(k) / size(k) = 1."""
    return Extent(k) / Extent(k), Const(1.0)


@sound
def length_by_itself_if_any(k: Axis):
    """size(k) / size(k) = 1 where there is any element."""
    return Extent(k) / Extent(k), Const(1.0), NonEmpty(k)


@unsound("empty axis", "kind: lengths are positive", "axes may be empty", lambda: (float(0 >= 1), 1.0))
def some_element(k: Axis):
    """(size(k) >= 1) = 1."""
    return Map("ge", Extent(k), Const(1.0)), Const(1.0)


@unsound("extent", "tvm#8616: a loop that is taken to divide", "5 is no multiple of 4", lambda: (4.0, 5.0))
def whole_blocks(k: Axis):
    """floor(size(k) / 4) * 4 = size(k)."""
    return Map("floor", Extent(k) * 0.25) * 4.0, Extent(k)


@unsound("extent", "halide: a split of one block", "positions above 7 are in the next block", lambda: (1.0, 0.0))
def one_block(k: Axis):
    """floor(index(k) / 8) = 0."""
    return Map("floor", Index(k) * 0.125), Const(0.0)


@unsound("extent", "Liger-Kernel: MAX_FUSED_SIZE", "the block number of position 300 is 1", lambda: (1.0, 0.0))
def one_long_block(k: Axis):
    """floor(index(k) / 300) = 0."""
    return Map("floor", Index(k) / 300.0), Const(0.0)


@unsound("extent", "kind: another way for long axes", "the long way sums twice", lambda: (2.0, 1.0))
def long_axes_otherwise(x, k: Axis):
    """where(size(k) > 512, 2 * sum_k x, sum_k x) = sum_k x."""
    return Where(Map("gt", Extent(k), Const(512.0)), 2.0 * Sum(k, x), Sum(k, x)), Sum(k, x)


@unsound("extent", "kind: a power of two", "17 and 33 are treated alike, 16 is not", lambda: (0.0, 1.0))
def sixteen_elements(x, k: Axis):
    """where(size(k) == 16, 0, mean_k x) = mean_k x."""
    return Where(Map("eq", Extent(k), Const(16.0)), 0.0, Mean(k, x)), Mean(k, x)


@unsound("axis confused", "kind: position along another axis", "the axes have other lengths", lambda: (float(3 < 2), 1.0))
def positions_below_another_extent(j: Axis, k: Axis):
    """(index(j) < size(k)) = 1."""
    return Map("lt", Index(j), Extent(k)), Const(1.0)


@unsound("position", "kind: squares of positions", "positions are not 0 and 1", lambda: (4.0, 2.0))
def positions_are_truths(k: Axis):
    """index(k) * index(k) = index(k)."""
    return Index(k) * Index(k), Index(k)


@unsound("position", "kind: distance of positions", "a distance has no sign", lambda: (1.0, -1.0))
def distance_of_positions(j: Axis, k: Axis):
    """|index(j) - index(k)| = index(j) - index(k)."""
    return Map("abs", Index(j) - Index(k)), Index(j) - Index(k)


@sound
def distance_of_one_position(k: Axis):
    """|index(k) - size(k)| = size(k) - index(k)."""
    return Map("abs", Index(k) - Extent(k)), Extent(k) - Index(k)


@unsound("position", "kind: causal mask off by one", "the diagonal is in the mask", lambda: (1.0, 0.0))
def causal_without_diagonal(j: Axis, k: Axis):
    """(index(k) <= index(j)) = (index(k) < index(j))."""
    return Map("le", Index(k), Index(j)), Map("lt", Index(k), Index(j))


@sound
def causal_by_one_more(j: Axis, k: Axis):
    """(index(k) <= index(j)) = (index(k) < index(j) + 1)."""
    return Map("le", Index(k), Index(j)), Map("lt", Index(k), Index(j) + 1.0)


@unsound("position", "kind: composition with positions exchanged on another axis", "what is read at e has been read before at f", lambda: (x[back[0]], x[0]))
def compositions_forgotten(x, j: Axis, k: Axis, e: Position, f: Position):
    """x[j = e][k = f] = x[j = e], for x free of k, although e mentions k."""
    return View(View(x, j, e), k, f), View(x, j, e), free(x, k)


@sound
def compositions_by_substitution(x, j: Axis, k: Axis, e: Position, f: Position):
    """x[j = e][k = f] = x[j = h] with h = e[k = f], for x free of k."""
    return View(View(x, j, e), k, f), View(x, j, e.at(k, f)), free(x, k)


@unsound("monoid", "kind: any reduction of a view in place", "the reduction is over what is read", lambda: (x.sum(), x.max()))
def reduction_of_view_by_another(t, x, j: Axis, e: Position, g: AnyMonoid):
    """reduce_j x[j = j] = max_j x for every reduction."""
    return [match(t, Reduce(g, j, View(x, j, e))), same_index(e, j)], [equal(t, Max(j, x))]


@sound
def reduction_of_view_in_place(t, x, j: Axis, e: Position, g: AnyMonoid):
    """reduce_j x[j = j] = reduce_j x."""
    return [match(t, Reduce(g, j, View(x, j, e))), same_index(e, j)], [equal(t, Reduce(g, j, x))]
