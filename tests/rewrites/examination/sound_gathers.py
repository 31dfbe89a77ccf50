"""Sound rules of gathers."""

from eqfuse.rewrites import (
    Axis,
    Const,
    Extent,
    Gather,
    Index,
    Map,
    NonEmpty,
    OtherAxis,
    Reduce,
    Sum,
    TypeName,
    View,
    Where,
    at_most,
    depends,
    finite,
    free,
    has_type,
    nonneg,
    one_of,
)

from . import sound


@sound("out of range", "0 + 0 is 0, to the last bit", licence="exact")
def exam_gather_of_sum(x, y, j: Axis, p):
    """(x + y)[j = p] = x[j = p] + y[j = p], to the last bit."""
    return Gather(x + y, j, p), Gather(x, j, p) + Gather(y, j, p), free(p, j)


@sound("out of range", "the hyperbolic sine of 0 is 0")
def exam_gather_of_sinh(x, j: Axis, p, d: TypeName):
    """sinh(x)[j = p] = sinh(x[j = p]), for whole p."""
    return Gather(Map("sinh", x), j, p), Map("sinh", Gather(x, j, p)), free(p, j), has_type(p, d), one_of(d, "int32", "int64")


@sound("some axis", "a product of zeros, of at least one, is 0")
def exam_gather_of_some_product(x, j: Axis, k: Axis, p, d: TypeName):
    """(prod_k x)[j = p] = prod_k x[j = p], for whole p constant along k, on no empty axis k."""
    given = OtherAxis(j, k), free(p, k), free(p, j), has_type(p, d), one_of(d, "int32", "int64"), NonEmpty(k)
    return Gather(Reduce("prod", k, x), j, p), Reduce("prod", k, Gather(x, j, p)), *given


@sound("in range", "a position of an axis that is no longer is one of the other")
def exam_gather_at_position_of_shorter_axis(x, i: Axis, j: Axis):
    """x[j = index(i)] = x read at i along j, for an i that is no longer than j."""
    return Gather(x, j, Index(i)), View(x, j, Index(i)), OtherAxis(i, j), at_most(Extent(i), Extent(j))


@sound("negative positions", "p + n is a position where p is from -n to -1, and p itself never")
def exam_gather_from_either_end(x, j: Axis, p):
    """x[j = where(p < 0, p + n, p)] = x[j = p] + x[j = p + n] where p < 0, for whole p and finite x."""
    behind = Where(Map("lt", p, Const(0.0)), Gather(x, j, p + Extent(j)), 0.0)
    wrapped = Where(Map("lt", p, Const(0.0)), p + Extent(j), p)
    return Gather(x, j, wrapped), Gather(x, j, p) + behind, free(p, j), has_type(p, "int32"), finite(x)


@sound("clamp", "the clamped position is read where it is p")
def exam_gather_at_clamped_position_in_range(x, j: Axis, p):
    """where(p < n, x[j = min(p, n-1)], 0) = x[j = p], for whole p >= 0."""
    read = Gather(x, j, Map("minimum", p, Extent(j) - 1.0))
    return Where(Map("lt", p, Extent(j)), read, 0.0), Gather(x, j, p), free(p, j), has_type(p, "int64"), nonneg(p)


@sound("finite factor", "a finite number times 0 is 0")
def exam_finite_factor_out_of_gather(x, s, j: Axis, p):
    """(s*x)[j = p] = s * x[j = p], for finite s constant along j and whole p."""
    return Gather(s * x, j, p), s * Gather(x, j, p), free(s, j), free(p, j), finite(s), has_type(p, "int32")


@sound("finite beside", "what is not chosen is 0 times a finite number")
def exam_gather_of_finite_as_product_with_one_hot(x, j: Axis, p):
    """sum_j (index(j) == p) * x = x[j = p], for finite x that depends on j, and whole p."""
    return Sum(j, Map("eq", Index(j), p) * x), Gather(x, j, p), free(p, j), has_type(p, "int32"), finite(x), depends(x, j)
