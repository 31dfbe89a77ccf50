"""ATen ops that reduce: sums, extrema, moments, and matrix products.

Each is written by its definition over bound axes; nothing is simplified here.  A dimension of size 1 has no axis, so reducing
it reads the argument at 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import ShapeError
from ..ir import dtypes
from ..ir.index import Axis, IndexExpr
from ..ir.monoids import MONOIDS
from ..ir.states import NAMED, part_name
from ..ir.terms import Cast, Const, Extent, Map, Reduce, Term, as_term, number_of
from .aten import ZERO, At, Call, dims_of, free_axes, register, replaced, shape_of
from .aten_pointwise import power
from .places import place_of_node
from .precision import operand, products_in_tf32
from .spec import ir_dtype


def _wrapped(dims: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    if dims is None or dims == []:
        return tuple(range(rank))
    return tuple(sorted(d % rank for d in ([dims] if isinstance(dims, int) else dims))) if rank else ()


def reduce_over(monoid: str, axes: Sequence[Axis], x: Term) -> Term:
    """The reduction over several axes, the innermost dimension first."""
    for a in reversed(axes):
        x = Reduce(monoid, a, x)
    return x


def combined(monoid: str, values: Sequence[Term]) -> Term:
    """What reductions of several ranges make of all of them."""
    found = values[0]
    for v in values[1:]:
        found = Map(MONOIDS[monoid].combine, (found, v))
    return found


def extent(axes: Sequence[Axis]) -> Term:
    """The number of positions along several axes."""
    return math.prod((Extent(a) for a in axes), start=Const(1.0))


class Slices:
    """An argument seen from a reduction: ``inside`` has its term for each range of the reduced dimensions, bound to the ``axes`` there.

    There is one range, but for dimensions in which a concatenation put several side by side.
    """

    def __init__(self, call: Call, x: Any, dims: int | Sequence[int] | None, keepdim: bool) -> None:
        shape = shape_of(x)
        self.dims = _wrapped(dims, len(shape))
        rest = iter(call.at)
        outer: list[Any] = []
        for d in range(len(shape)):
            if d not in self.dims:
                outer.append(next(rest))
            else:
                outer.append(ZERO)
                if keepdim:
                    next(rest)
        taken = free_axes(tuple(outer))
        ranges: list[tuple[list[Axis], At]] = [([], tuple(outer))]
        for d in self.dims:
            ranges = [
                ([*axes, *bound], replaced(at, d, position))
                for axes, at in ranges
                for bound, position in call.reader.places(dims_of(x)[d], taken | frozenset(axes))
            ]
        self.count = math.prod(shape[d] for d in self.dims)
        self.ranges = ranges
        self.inside: list[tuple[list[Axis], Term]] = [(axes, call.read(x, at)) for axes, at in ranges]

    def places(self, sizes: Sequence[int]) -> list[IndexExpr]:
        """Where each range is among all elements of the reduced dimensions, which have these sizes."""
        found = []
        for _, at in self.ranges:
            place = ZERO
            for d, n in zip(self.dims, sizes, strict=True):
                place = place * n + at[d]
            found.append(place)
        return found

    @property
    def length(self) -> Term:
        """How many elements are reduced to one."""
        return combined("sum", [extent(axes) for axes, _ in self.inside])

    def reduced(self, monoid: str, of: Callable[[Term], Term] = lambda x: x) -> Term:
        """The reduction of a function of the argument.  torch's mean of nothing is NaN, the monoid's is 0."""
        if monoid == "mean" and len(self.inside) > 1:
            return self.reduced("sum", of) / self.length
        found = combined(monoid, [reduce_over(monoid, axes, of(x)) for axes, x in self.inside])
        return found + math.nan if monoid == "mean" and self.count == 0 else found


def _align(alignment: Any, node: Any, x: Any, dims: Any = None, keepdim: Any = False, *_: Any) -> Any:
    gone = _wrapped(dims, len(dims_of(x)))
    return tuple(None if d in gone else a for d, a in enumerate(dims_of(x)) if keepdim or d not in gone)


def _align_all(alignment: Any, node: Any, x: Any, *_: Any) -> Any:
    return ()


# sums and extrema -----------------------------------------------------------------------------------------------------------------
def _numeric(call: Call, x: Term) -> Term:
    """What is summed has the type of the sum: torch sums booleans and integers as int64, or in the type that it is told."""
    out = ir_dtype(call.node.meta["val"].dtype)
    if out.is_float:
        return Cast(dtypes.float32, x) if x.dtype is not None and not x.dtype.is_float else x
    return Cast(out, x) if x.dtype != out and number_of(x) is None else x


@register("aten.sum.dim_IntList", "aten.sum.default", align=_align)
def _sum(call: Call, x: Any, dims: Any = None, keepdim: bool = False) -> Term:
    return Slices(call, x, dims, keepdim).reduced("sum", lambda x: _numeric(call, x))


@register("aten.mean.dim", "aten.mean.default", align=_align)
def _mean(call: Call, x: Any, dims: Any = None, keepdim: bool = False) -> Term:
    return Slices(call, x, dims, keepdim).reduced("mean", lambda x: _numeric(call, x))


@register("aten.amax.default", align=_align)
def _amax(call: Call, x: Any, dims: Any, keepdim: bool) -> Term:
    return Slices(call, x, dims, keepdim).reduced("max")


@register("aten.amin.default", align=_align)
def _amin(call: Call, x: Any, dims: Any, keepdim: bool) -> Term:
    return Slices(call, x, dims, keepdim).reduced("min")


@register("aten.max.default", align=_align_all)
def _max(call: Call, x: Any) -> Term:
    return _some_extremum(call, x, None, False, "max")


@register("aten.min.default", align=_align_all)
def _min(call: Call, x: Any) -> Term:
    return _some_extremum(call, x, None, False, "min")


def _some_extremum(call: Call, x: Any, dim: int | None, keepdim: bool, monoid: str) -> Term:
    """Of all elements, or along a dimension.  There must be some: torch finds out when it runs, unlike for amax."""
    s = Slices(call, x, dim, keepdim)
    if s.count == 0:
        raise ShapeError(
            f"the {monoid} of no elements, of a tensor of shape {tuple(shape_of(x))}",
            where=place_of_node(call.node),
            cure="pass a tensor with elements, or leave it to torch",
        )
    return s.reduced(monoid)


def _align_pair(alignment: Any, node: Any, x: Any, dims: Any, keepdim: Any = False, *_: Any) -> Any:
    return (_align(alignment, node, x, dims, keepdim),) * 2


def _position(call: Call, x: Any, dim: int | None, keepdim: bool, monoid: str) -> Term:
    """The first position at which the extremum stands, or a NaN if there is one: a state of a value and its position, in one reduction."""
    _some_extremum(call, x, dim, keepdim, monoid)
    s, state = Slices(call, x, dim, keepdim), NAMED[f"arg{monoid}"]
    found: list[tuple[Term, Term]] = []
    for (axes, value), place in zip(s.inside, s.places([shape_of(x)[d] for d in s.dims]), strict=True):
        at = call.reader.position(place)
        at = at if at.dtype == dtypes.int64 else Cast(dtypes.int64, at)
        best = Cast(dtypes.int32, value) if value.dtype == dtypes.bool_ else value, at
        for a in reversed(axes):
            best = Reduce(part_name(state, 0), a, *best), Reduce(part_name(state, 1), a, *best)
        found.append(best)
    value, at = found[0]
    for other in found[1:]:
        value, at = state.combined((value, at), other, lambda op, *args: Map(op, args), Const)
    return at


def _extremum(monoid: str) -> Any:
    def read(call: Call, x: Any, dim: int, keepdim: bool) -> Term:
        return (_position if call.item else _some_extremum)(call, x, dim, keepdim, monoid)

    return read


def _extreme_position(monoid: str) -> Any:
    return lambda call, x, dim=None, keepdim=False: _position(call, x, dim, keepdim, monoid)


for _monoid in ("max", "min"):
    register(f"aten.{_monoid}.dim", align=_align_pair)(_extremum(_monoid))
    register(f"aten.arg{_monoid}.default", align=_align)(_extreme_position(_monoid))


@register("aten.prod.default", "aten.prod.dim_int", align=_align)
def _prod(call: Call, x: Any, dims: Any = None, keepdim: bool = False, *_: Any) -> Term:
    return Slices(call, x, dims, keepdim).reduced("prod", lambda x: _numeric(call, x))


def _some(call: Call, x: Any, dims: Any, keepdim: bool, monoid: str) -> Term:
    """any is max > 0 of the truth values as numbers, all is min > 0."""
    known = x.meta["val"].dtype == torch.bool

    def number(x: Term) -> Term:
        return Map("where", (x if known else Map("ne", (x, Const(0.0))), Const(1.0), Const(0.0)))

    return Map("gt", (Slices(call, x, dims, keepdim).reduced(monoid, number), Const(0.0)))


@register("aten.any.dim", "aten.any.dims", align=_align)
def _any(call: Call, x: Any, dims: Any, keepdim: bool = False) -> Term:
    return _some(call, x, dims, keepdim, "max")


@register("aten.all.dim", "aten.all.dims", align=_align)
def _all(call: Call, x: Any, dims: Any, keepdim: bool = False) -> Term:
    return _some(call, x, dims, keepdim, "min")


@register("aten.any.default", align=_align_all)
def _any_all(call: Call, x: Any) -> Term:
    return _some(call, x, None, False, "max")


@register("aten.all.default", align=_align_all)
def _all_all(call: Call, x: Any) -> Term:
    return _some(call, x, None, False, "min")


def _align_norm(alignment: Any, node: Any, x: Any, order: Any = 2, dims: Any = None, keepdim: Any = False, *_: Any) -> Any:
    return _align(alignment, node, x, dims, keepdim)


@register("aten.linalg_vector_norm.default", align=_align_norm)
def _norm(call: Call, x: Any, order: float = 2, dims: Any = None, keepdim: bool = False) -> Term:
    s = Slices(call, x, dims, keepdim)
    if order == 2:
        return Map("sqrt", (s.reduced("sum", lambda x: Map("square", (x,))),))
    if order == 1 or math.isinf(order):
        return s.reduced("sum" if order == 1 else "max" if order > 0 else "min", lambda x: Map("abs", (x,)))
    if order == 0:
        return s.reduced("sum", lambda x: Map("where", (Map("ne", (x, Const(0.0))), Const(1.0), Const(0.0))))
    return power(s.reduced("sum", lambda x: power(Map("abs", (x,)), order)), 1.0 / order)


# moments --------------------------------------------------------------------------------------------------------------------------
def moments(s: Slices, correction: float | None) -> tuple[Term, Term]:
    """Variance and mean: mean((x - mean)**2), times N / (N - correction), or infinity if that is not positive, for any length N.

    That factor is 1 + c with c = correction / (N - correction), and m + m * c has one rounding of a small term less: N / (N - 1) in float32
    is off by up to half a unit in the last place, by the same in all rows.  For a negative c the sum of an infinite m would be NaN.
    """
    mean = s.reduced("mean")
    var = s.reduced("mean", lambda x: Map("square", (x - mean,)))
    correction = 1.0 if correction is None else float(correction)
    if correction:
        count = s.length
        left = Map("maximum", (count - correction, Const(0.0)))
        var = var + var * (correction / left) if correction > 0 else var * (count / left)
    return var, mean


def _align_var(alignment: Any, node: Any, x: Any, dims: Any, correction: Any = None, keepdim: Any = False) -> Any:
    return _align(alignment, node, x, dims, keepdim)


@register("aten.var.correction", align=_align_var)
def _var(call: Call, x: Any, dims: Any, correction: float | None, keepdim: bool) -> Term:
    return moments(Slices(call, x, dims, keepdim), correction)[0]


def _align_var_mean(alignment: Any, node: Any, x: Any, dims: Any, correction: Any = None, keepdim: Any = False) -> Any:
    return (_align(alignment, node, x, dims, keepdim),) * 2


@register("aten.var_mean.correction", align=_align_var_mean)
def _var_mean(call: Call, x: Any, dims: Any, correction: float | None, keepdim: bool) -> Term:
    return moments(Slices(call, x, dims, keepdim), correction)[call.item or 0]


# contractions -----------------------------------------------------------------------------------------------------------------------
def _contract(call: Call, a: Any, b: Any) -> Term:
    """a[..., i, k] and b[..., k, j]: the sum over k of their product."""
    *batch, i, j = call.at
    allowed = products_in_tf32()

    def product(k: IndexExpr) -> Term:
        x, y = call.read(a, (*batch, i, k)), call.read(b, (*batch, k, j))
        return operand(x, allowed) * operand(y, allowed)

    return _sum_over(call, a, product)


def _sum_over(call: Call, a: Any, product: Callable[[IndexExpr], Term]) -> Term:
    """The sum of what there is at each position of the last dimension."""
    places = call.reader.places(dims_of(a)[-1], free_axes(call.at))
    return combined("sum", [reduce_over("sum", axes, product(k)) for axes, k in places])


def _align_matmul(alignment: Any, node: Any, a: Any, b: Any) -> Any:
    x, y = dims_of(a), dims_of(b)
    alignment.unify(x[-1], y[-2])
    return (*alignment.broadcast(x[:-2], y[:-2]), x[-2], y[-1])


@register("aten.mm.default", "aten.bmm.default", align=_align_matmul)
def _mm(call: Call, a: Any, b: Any) -> Term:
    return _contract(call, a, b)


def _align_addmm(alignment: Any, node: Any, c: Any, a: Any, b: Any, *_: Any) -> Any:
    return alignment.broadcast(_align_matmul(alignment, node, a, b), dims_of(c))


@register("aten.addmm.default", "aten.baddbmm.default", align=_align_addmm)
def _addmm(call: Call, c: Any, a: Any, b: Any, beta: float, alpha: float) -> Term:
    product = _contract(call, a, b)
    product = product if alpha == 1 else product * alpha
    if beta == 0:  # torch does not read c then, not even its NaNs
        return product
    added = as_term(call.aligned(c))
    return product + (added if beta == 1 else added * beta)


def _align_dot(alignment: Any, node: Any, a: Any, b: Any) -> Any:
    alignment.unify(dims_of(a)[-1], dims_of(b)[-1])
    return dims_of(a)[:-1]


@register("aten.dot.default", "aten.mv.default", align=_align_dot)
def _dot(call: Call, a: Any, b: Any) -> Term:
    return _sum_over(call, a, lambda k: call.read(a, (*call.at, k)) * call.read(b, (k,)))
