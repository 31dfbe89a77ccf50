"""ATen ops over windows: pooling.

The result at ``i`` is a reduction over ``w`` of what stands at ``i * stride + w * dilation - padding``.  A position in the
padding is chosen to be the identity of the reduction, and what is not chosen is read at some position that there is.  Windows
that lie side by side are a reshape of the dimension, and are known as that.  Adaptive pools have windows that start at
``i * n // o`` and end before ``((i + 1) * n + o - 1) // o``, which are positions of the language as well.

From the other side, windows of a stride ``s`` that look at ``p`` are those from ``(p + padding) // s`` downwards, as many as overlap
(:func:`looking_at`).  Of adaptive pools, from ``n`` positions to ``o``, the windows that look at a position are an adaptive window
themselves, from ``o`` to ``n``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..ir import dtypes
from ..ir.index import Axis, IndexExpr, index
from ..ir.terms import Cast, Const, Map, Term, as_term, whole_number
from .aten import OPS, WINDOWS, ZERO, At, AtenOp, Call, dims_of, free_axes, shape_of
from .aten_ranges import all_of, within
from .aten_reductions import reduce_over
from .spec import ir_dtype


@dataclass(frozen=True)
class Window:
    """One dimension of windows: the length ``n`` that they look at, and for each result where it starts, how long it is at most, its steps
    and, if its length varies, where it ends."""

    n: int
    size: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    out: int = 1
    adaptive: bool = False

    def start(self, i: IndexExpr) -> IndexExpr:
        """The first position of a window, which may be one in the padding."""
        return i * self.n // self.out if self.adaptive else i * self.stride - self.padding

    def end(self, i: IndexExpr) -> IndexExpr:
        """The position after the last one of an adaptive window."""
        return (i * self.n + (self.n + self.out - 1)) // self.out

    @property
    def side_by_side(self) -> bool:
        """Whether the windows are the dimension cut into equal parts."""
        if self.adaptive:
            return self.n == self.size * self.out
        return self.n == self.size * self.out and self.stride == self.size and not self.padding and self.dilation == 1


def _several(value: Any, k: int, default: Any = None) -> list[int]:
    """A number for each of ``k`` dimensions from one number, a list of one or of all; of nothing, the default."""
    found = [value] if isinstance(value, int) else list(value if value is not None else [])
    found = found or _several(default, k)
    return found * k if len(found) == 1 else found


def pool_windows(pooled: Any, x: Any, k: int, kernel: Any, stride: Any, padding: Any, dilation: Any = 1) -> list[Window]:
    """The windows over the last ``k`` dimensions of x that make a value of the shape of ``pooled``."""
    out = _result_shape(pooled)[-k:]
    values = zip(
        shape_of(x)[-k:], _several(kernel, k), _several(stride, k, kernel), _several(padding, k), _several(dilation, k), out, strict=True
    )
    return [Window(*v) for v in values]


def adaptive_windows(pooled: Any, x: Any, k: int) -> list[Window]:
    """The same for adaptive pools."""
    return [adaptive(n, o) for n, o in zip(shape_of(x)[-k:], _result_shape(pooled)[-k:], strict=True)]


def adaptive(n: int, out: int) -> Window:
    """The windows of an adaptive pool from so many positions to so many."""
    return Window(n, max((((i + 1) * n + out - 1) // out - i * n // out for i in range(out)), default=1), out=out, adaptive=True)


def _result_shape(node: Any) -> tuple[int, ...]:
    value = node.meta["val"]
    return tuple(int(n) for n in (value if isinstance(value, torch.Tensor) else value[0]).shape)


def align_windows(alignment: Any, node: Any, x: Any, windows: Sequence[Window]) -> Any:
    """The dimensions of a result that sees an argument through windows; those inside of these stay at the node."""
    dims, k = dims_of(x), len(windows)
    outer, inner = [], []
    for item, w in zip(dims[-k:], windows, strict=True):
        if item is not None and not w.side_by_side:
            alignment.overlap(item)
        if w.side_by_side and item is not None and 0 not in (w.size, w.out) and alignment.cut(item, node):
            parts = [n for n in (w.out, w.size) if n != 1]
            found = iter(alignment.split(item, parts) if len(parts) > 1 else [item])
            outer.append(None if w.out == 1 else next(found))
            inner.append(None if w.size == 1 else next(found))
        else:
            outer.append(alignment.fresh(w.out))
            inner.append(alignment.fresh(w.size))
    node.meta[WINDOWS] = tuple(inner)
    found = (*dims[:-k], *outer)
    return (found,) * len(node.meta["val"]) if isinstance(node.meta["val"], list | tuple) else found


@dataclass(frozen=True)
class Seen:
    """What a result sees of the argument: the axes of its window, where that is read, and the condition that it is there."""

    axes: list[Axis]
    at: At
    condition: Term | None
    steps: At  # the position in the window, for each of its dimensions
    step_there: Term | None = None  # the condition that it is one

    def reduced(self, monoid: str, x: Term, identity: Term) -> Term:
        """The reduction over the window of a term at :attr:`at`."""
        return reduce_over(monoid, self.axes, self.there(x, identity))

    def there(self, x: Term, identity: Term) -> Term:
        """A term at :attr:`at`, if there is such a position."""
        return x if self.condition is None else Map("where", (self.condition, x, identity))


def looked_at(call: Call, windows: Sequence[Window]) -> Seen:
    """What the result sees of an argument through windows, whose axes the alignment has left at the node."""
    k = len(windows)
    lead, own = call.at[: len(call.at) - k], call.at[len(call.at) - k :]
    axes: list[Axis] = []
    at = list(lead)
    conditions: list[Term] = []
    steps: list[IndexExpr] = []
    for e, item, w in zip(own, call.node.meta[WINDOWS][:k], windows, strict=True):
        a = call.reader.bound(item, free_axes(call.at) | frozenset(axes))
        step = ZERO if a is None else index(a)
        steps.append(step)
        axes += [] if a is None else [a]
        position = w.start(e) + step * w.dilation
        if w.adaptive and not w.side_by_side:
            left = position - w.end(e)
            if left.bounds()[1] >= 0 and a is not None:
                conditions.append(Map("lt", (call.reader.position(position), call.reader.position(w.end(e)))))
        elif not w.adaptive:
            conditions += within(call, position, w.n)
        at.append(ZERO if w.n == 1 else position)
    return Seen(axes, tuple(at), all_of(conditions), tuple(steps))


def lookers(w: Window) -> Window:
    """The windows that look at a position, as a window of theirs."""
    if w.adaptive:
        return adaptive(w.out, w.n)
    return Window(w.out, -(-w.size * math.gcd(w.stride, w.dilation) // w.stride), out=w.n)


def looking_at(call: Call, windows: Sequence[Window], *, all_there: bool = False) -> Seen:
    """What the windows see that look at the position of the result, or, if ``all_there``, more of them.

    ``i * stride + w * dilation = p + padding`` has no solution where stride and dilation have a divisor that the right side lacks.
    Without it they have none, so ``w`` is a multiple of the right side, up to multiples of the stride, and ``i`` is what is left.
    """
    if windows[0].adaptive:
        return looked_at(call, [lookers(w) for w in windows])
    k = len(windows)
    lead, own = call.at[: len(call.at) - k], call.at[len(call.at) - k :]
    axes: list[Axis] = []
    at, steps = list(lead), list[IndexExpr]()
    there, steps_there = list[Term](), list[Term]()
    for p, item, w in zip(own, call.node.meta[WINDOWS][:k], windows, strict=True):
        a = call.reader.bound(item, free_axes(call.at) | frozenset(axes))
        axes += [] if a is None else [a]
        back = ZERO if a is None else index(a)
        common = math.gcd(w.stride, w.dilation)
        stride, dilation = w.stride // common, w.dilation // common
        place = (p + w.padding) // common
        first = place * pow(dilation, -1, stride) % stride
        which = place // stride + (place % stride - first * dilation) // stride - back * dilation
        step = first + back * stride
        there += within(call, which, w.out)
        if not all_there:
            of_step = within(call, step, w.size) + within(call, (p + w.padding) % common, 1)
            there += of_step
            steps_there += of_step
        at.append(ZERO if w.out == 1 else which)
        steps.append(ZERO if w.size == 1 else step)
    return Seen(axes, tuple(at), all_of(there), tuple(steps), all_of(steps_there))


# maxima -----------------------------------------------------------------------------------------------------------------------------
def _max_pool(call: Call, x: Any, windows: Sequence[Window]) -> Term:
    """The largest of each window; NaN if one is.  Its position, if that is wanted, is the first of it, or the last NaN, as torch's."""
    seen = looked_at(call, windows)
    value = call.read(x, seen.at)
    dtype = ir_dtype(x.meta["val"].dtype)
    least = Const(-math.inf) if dtype.is_float else Cast(dtype, Const(dtype.least))
    largest = seen.reduced("max", value, least)
    if not call.item:
        return largest
    position = call.reader.position(flat_position(seen.at, windows))
    beyond, before = as_term(whole_number(math.prod(w.n for w in windows))), Const(-1.0)

    def only(condition: Term, other: Term) -> Term:
        return Cast(dtypes.int64, Map("where", (condition, position, other)))

    first = seen.reduced("min", only(Map("eq", (value, largest)), beyond), Cast(dtypes.int64, beyond))
    if not dtype.is_float:
        return first
    last = seen.reduced("max", only(Map("ne", (value, value)), before), Cast(dtypes.int64, before))
    return Map("where", (Map("ne", (largest, largest)), last, first))


def flat_position(at: At, windows: Sequence[Window]) -> IndexExpr:
    """A position among all that windows look at, as torch counts them."""
    place = ZERO
    for e, w in zip(at[len(at) - len(windows) :], windows, strict=True):
        place = place * w.n + e
    return place


def _max_windows(k: int) -> Any:
    def windows(node: Any, x: Any, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, *_: Any) -> list[Window]:
        return pool_windows(node, x, k, kernel, stride, padding, dilation)

    return windows


def _adaptive_windows(k: int) -> Any:
    return lambda node, x, *_: adaptive_windows(node, x, k)


def _avg_windows(k: int) -> Any:
    return lambda node, x, kernel, stride=None, padding=0, *_: pool_windows(node, x, k, kernel, stride, padding)


def _table(name: str, windows: Any, read: Any) -> None:
    def align(alignment: Any, node: Any, x: Any, *args: Any) -> Any:
        return align_windows(alignment, node, x, windows(node, x, *args))

    OPS[name] = AtenOp(align, lambda call, x, *args: read(call, x, windows(call.node, x, *args), *args), whole=True)


for _k in (2, 3):
    _table(f"aten.max_pool{_k}d_with_indices.default", _max_windows(_k), lambda call, x, windows, *_: _max_pool(call, x, windows))
    _table(f"aten.adaptive_max_pool{_k}d.default", _adaptive_windows(_k), lambda call, x, windows, *_: _max_pool(call, x, windows))


# means ------------------------------------------------------------------------------------------------------------------------------
def _total(call: Call, x: Any, windows: Sequence[Window]) -> Term:
    dtype = ir_dtype(call.node.meta["val"].dtype)
    if not dtype.is_float:
        raise call.unsupported("of integers")
    seen = looked_at(call, windows)
    return seen.reduced("sum", call.read(x, seen.at), Const(0.0))


def averaged(call: Call, total: Term, at: At, windows: Sequence[Window], include: bool = True, divisor: int | None = None) -> Term:
    """A sum over the windows at a position as a mean.  What lies in the padding counts, if so is said; what lies beyond it, at the last
    window, never does."""
    count: Term = Const(1.0)
    for e, w in zip(at[len(at) - len(windows) :], windows, strict=True):
        count = count * _counted(call, e, w, w.padding if include else 0)
    return total / as_term(float(divisor)) if divisor else total / count


def _counted(call: Call, e: IndexExpr, w: Window, padding: int) -> Term:
    """How many positions of a window are among those that there are and so many before and after them."""
    start = w.start(e)
    low, high = start.bounds()
    if low >= -padding and high + w.size <= w.n + padding:
        return Const(float(w.size))
    position = call.reader.position(start)
    first = Map("maximum", (position, Const(float(-padding)))) if low < -padding else position
    last = position + w.size if high + w.size <= w.n + padding else Map("minimum", (position + w.size, Const(float(w.n + padding))))
    return Cast(dtypes.float32, last - first)


for _k in (1, 2, 3):
    _table(
        f"aten.avg_pool{_k}d.default", _avg_windows(_k),
        lambda call, x, windows, kernel, stride=None, padding=0, ceil=False, *how: averaged(
            call, _total(call, x, windows), call.at, windows, *how
        ),
    )  # fmt: skip


def averaged_adaptively(call: Call, total: Term, at: At, windows: Sequence[Window]) -> Term:
    """The same of an adaptive pool."""
    count: Term = Const(1.0)
    for e, w in zip(at[len(at) - len(windows) :], windows, strict=True):
        length = w.end(e) - w.start(e)
        count = count * (Const(float(w.size)) if w.side_by_side else Cast(dtypes.float32, call.reader.position(length)))
    return total / count


for _k in (2, 3):
    _table(
        f"aten._adaptive_avg_pool{_k}d.default", _adaptive_windows(_k),
        lambda call, x, windows, *_: averaged_adaptively(call, _total(call, x, windows), call.at, windows),
    )  # fmt: skip
