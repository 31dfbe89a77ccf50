"""False rules of gathers: what is 0 out of range, negative positions, clamps, empty rows."""

import numpy as np

from eqfuse.rewrites import (
    Axis,
    Extent,
    Gather,
    Index,
    Map,
    Max,
    NonEmpty,
    OtherAxis,
    Sum,
    TypeName,
    free,
    has_type,
    nonneg,
    nonpos,
    one_of,
)

from . import false

x, inf, nan = np.array([1.0, 2.0, 6.0]), np.inf, np.nan


def take(x, p):
    """The element at p, 0 where p is no position."""
    return x[int(p)] if 0 <= p < len(x) and p % 1 == 0 else 0.0


@false("out of range", "what is read out of range is 0, and not 0 + 1", lambda: (take(x + 1, 7), take(x, 7) + 1))
def exam_gather_of_sum_with_one(x, j: Axis, p):
    """(x + 1)[j = p] = x[j = p] + 1."""
    return Gather(x + 1.0, j, p), Gather(x, j, p) + 1.0, free(p, j)


@false("out of range", "the cosine of 0 is 1", lambda: (take(np.cos(x), -1), np.cos(take(x, -1))))
def exam_gather_of_cosine(x, j: Axis, p, d: TypeName):
    """cos(x)[j = p] = cos(x[j = p]), for whole p."""
    return Gather(Map("cos", x), j, p), Map("cos", Gather(x, j, p)), free(p, j), has_type(p, d), one_of(d, "int32", "int64")


@false("empty axis", "of nothing, and out of range, the maximum of what is read is -inf", lambda: (0.0, -inf))
def exam_gather_of_any_maximum(x, j: Axis, k: Axis, p, d: TypeName):
    """(max_k x)[j = p] = max_k x[j = p], for whole p constant along k."""
    given = OtherAxis(j, k), free(p, k), free(p, j), has_type(p, d), one_of(d, "int32", "int64")
    return Gather(Max(k, x), j, p), Max(k, Gather(x, j, p)), *given


@false("out of range", "a position past the end reads 0", lambda: (take(np.arange(3.0), 5), 5.0))
def exam_gather_of_positions_from_zero(j: Axis, p):
    """index(j)[j = p] = p, for whole p >= 0."""
    return Gather(Index(j), j, p), p, free(p, j), has_type(p, "int32"), nonneg(p)


@false("negative positions", "no position is counted from the end", lambda: (take(x, -1), take(x, -1 + 3)))
def exam_gather_from_the_end(x, j: Axis, p):
    """x[j = p] = x[j = p + n], for whole p <= 0."""
    return Gather(x, j, p), Gather(x, j, p + Extent(j)), free(p, j), has_type(p, "int32"), nonpos(p)


@false("clamp", "a position past the end is not the last one", lambda: (take(x, 5), take(x, min(5, 2))))
def exam_gather_at_clamped_position(x, j: Axis, p):
    """x[j = p] = x[j = min(p, n-1)], for whole p >= 0."""
    last = Extent(j) - 1.0
    return Gather(x, j, p), Gather(x, j, Map("minimum", p, last)), free(p, j), has_type(p, "int64"), nonneg(p), NonEmpty(j)


@false("infinite factor", "out of range inf * 0 is NaN, and not 0", lambda: (take(inf * x, 7), inf * take(x, 7)))
def exam_factor_out_of_gather(x, s, j: Axis, p):
    """(s*x)[j = p] = s * x[j = p], for s constant along j and whole p."""
    return Gather(s * x, j, p), s * Gather(x, j, p), free(s, j), free(p, j), has_type(p, "int32")


@false("infinity beside", "an infinite element that is not chosen is 0 * inf", lambda: (np.array([0.0, 1.0]) @ np.array([inf, 2.0]), 2.0))
def exam_gather_as_product_with_one_hot(x, j: Axis, p):
    """sum_j (index(j) == p) * x = x[j = p], for whole p."""
    return Sum(j, Map("eq", Index(j), p) * x), Gather(x, j, p), free(p, j), has_type(p, "int32")
