"""ATen ops that are convolutions: of one to three dimensions, with strides, dilation, padding and groups, and transposed ones.

A convolution relates what is *seen* at ``[b, g * C + c, i * stride + w * dilation - padding]`` with what is *seeing* at ``[b, o, i]``, by
``weight[o, c, w]``, where ``g`` is the group of ``o``.  What sees is the sum over ``c`` and ``w``; what is seen, the result of a transposed
convolution, that over ``o`` and ``w``.  The longest sum is innermost, which mostly is that over channels: products of matrices, at each
position of a window, into one accumulator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.index import IndexExpr
from ..ir.terms import Const, Map, Term
from .aten import OPS, WINDOWS, At, AtenOp, Call, dims_of, free_axes, shape_of
from .aten_reductions import combined, reduce_over
from .aten_windows import Seen, Window, align_windows, looked_at, lookers, looking_at, pool_windows
from .precision import convolutions_in_tf32, operand


@dataclass(frozen=True)
class _Related:
    """What is seen, what is seeing, one of which is the result, and how windows lie."""

    seen: Any
    seeing: Any
    weight: Any
    windows: Sequence[Window]
    groups: int

    @property
    def each(self) -> tuple[int, int]:
        """How many channels of a group see, and how many are seen."""
        out, inner = shape_of(self.weight)[:2]
        return out // self.groups, inner

    def align(self, alignment: Any) -> tuple[Any, Any, Any]:
        """The dimensions of the channels that see, of those that are seen, and of those in a group that see."""
        (out, inner), (seeing, seen) = dims_of(self.weight)[:2], self.each
        if self.groups == 1:
            return out, inner, out
        group, own = alignment.split(out, [self.groups, seeing]) if seeing > 1 else (out, None)
        if seen == 1:
            return out, group, own
        whole = alignment.merge([group, inner])
        for item in (out, whole):  # a group is a batch of a product
            alignment.take_apart(item)
        return out, whole, own

    def by_seeing(self, call: Call) -> Term:
        """What sees."""
        batch, out, *_ = call.at
        (seeing, channels), seen = self.each, looked_at(call, self.windows)
        first = out // max(seeing, 1) * channels
        return self._sum(call, seen, lambda c: (self.seen, (batch, first + c, *seen.at[2:])), lambda c: (out, c))

    def by_seen(self, call: Call) -> Term:
        """What is seen.  Results at ``stride * q + r`` are of one phase ``r``, for which some of a window's positions count, others not."""
        batch, channel, *_ = call.at
        (seeing, channels), there = self.each, looking_at(call, self.windows)
        first, inner = channel // max(channels, 1) * seeing, channel % max(channels, 1)
        return self._sum(call, there, lambda e: (self.seeing, (batch, first + e, *there.at[2:])), lambda e: (first + e, inner))

    def _sum(self, call: Call, seen: Seen, of: Callable[[IndexExpr], tuple[Any, At]], weight: Callable[[IndexExpr], At]) -> Term:
        """The sum over a window and channels of a value times the weight."""
        found = []
        allowed = convolutions_in_tf32() and self.each != (1, 1)  # of one channel each there is no product of matrices
        for axes, c in call.reader.places(call.node.meta[WINDOWS][-1], free_axes(call.at) | frozenset(seen.axes)):
            factor = operand(call.read(self.weight, (*weight(c), *seen.steps)), allowed)
            if seen.step_there is not None:  # of a number, 0 would be: of an infinite one, it is none
                factor = Map("where", (seen.step_there, factor, Const(0.0)))
            order = sorted([*seen.axes, *axes], key=lambda a: a.size)
            found.append(reduce_over("sum", order, seen.there(operand(call.reader.once(*of(c)), allowed), Const(0.0)) * factor))
        return combined("sum", found)


def _related(node: Any, x: Any, weight: Any, how: Sequence[Any], result: Any) -> _Related:
    """The values of a call, whose argument ``x`` and ``result`` are related."""
    stride, padding, dilation, transposed, _, groups = how
    seen, seeing = (result, x) if transposed else (x, result)
    window = shape_of(weight)[2:]
    return _Related(seen, seeing, weight, pool_windows(seeing, seen, len(window), window, stride, padding, dilation), groups)


def _phases(alignment: Any, node: Any, item: Any, w: Window) -> Any:
    """A dimension that is seen, as long as so many positions of windows: cut into these and the phases between them, unless other windows
    overlap in it."""
    n, stride = w.n, w.stride
    if stride == 1 or n % stride or n == stride:
        return item if n == w.out else alignment.fresh(n)
    every = item if n == stride * w.out else alignment.fresh(n // stride)
    found = alignment.merge([every, alignment.fresh(stride)])
    if not alignment.cut(found, node):
        return alignment.fresh(n)
    alignment.take_apart(found)
    return found


def _align(alignment: Any, node: Any, x: Any, weight: Any, bias: Any, *how: Any) -> Any:
    related, transposed = _related(node, x, weight, how, node), how[3]
    seeing, seen, own = related.align(alignment)
    alignment.unify(dims_of(x)[1], seeing if transposed else seen)
    out = seen if transposed else seeing
    if bias is not None:
        alignment.unify(out, dims_of(bias)[0])
    if transposed:
        places: Any = [_phases(alignment, node, item, w) for item, w in zip(dims_of(x)[2:], related.windows, strict=True)]
        node.meta[WINDOWS] = tuple(alignment.fresh(lookers(w).size) for w in related.windows)
    else:
        places = align_windows(alignment, node, x, related.windows)[2:]
        places = [i if n == m else p for i, p, n, m in zip(dims_of(x)[2:], places, shape_of(x)[2:], shape_of(node)[2:], strict=True)]
    node.meta[WINDOWS] = (*node.meta[WINDOWS], own if transposed else dims_of(weight)[1])
    return dims_of(x)[0], out, *places


def _convolution(call: Call, x: Any, weight: Any, bias: Any, *how: Any) -> Term:
    related = _related(call.node, x, weight, how, call.node)
    found = related.by_seen(call) if how[3] else related.by_seeing(call)
    return found if bias is None else found + call.read(bias, (call.at[1],))


OPS["aten.convolution.default"] = AtenOp(_align, _convolution, whole=True)
