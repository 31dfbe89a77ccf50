"""Gradients of pooling, read from the other side: at each position of the argument, the sum over the windows that look at it.

Windows of a stride that look at ``p`` are those from ``(p + padding) // stride`` downwards, as many as overlap.  Of adaptive pools, from
``n`` positions to ``o``, the windows that look at a position are an adaptive window themselves, from ``o`` to ``n``.  A maximum's gradient
goes to the position that its pool has returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.index import Axis, index
from ..ir.terms import Const, Map, Term, as_term
from .aten import OPS, WINDOWS, ZERO, AtenOp, Call, dims_of, free_axes
from .aten_ranges import all_of, within
from .aten_windows import (
    Seen,
    Window,
    adaptive,
    adaptive_windows,
    averaged,
    averaged_adaptively,
    flat_position,
    looked_at,
    pool_windows,
)


def _lookers(w: Window) -> Window:
    """The windows that look at a position, as a window of theirs."""
    if w.adaptive:
        return adaptive(w.out, w.n)
    return Window(w.out, (w.size - 1) * w.dilation // w.stride + 1, out=w.n)


def _align(alignment: Any, node: Any, grad: Any, x: Any, windows: Sequence[Window]) -> Any:
    k = len(windows)
    for d, e in zip(dims_of(grad)[:-k], dims_of(x)[:-k], strict=True):
        alignment.unify(d, e)
    node.meta[WINDOWS] = tuple(alignment.fresh(_lookers(w).size) for w in windows)
    return dims_of(x)


def _looking(call: Call, windows: Sequence[Window], *, all_there: bool = False) -> Seen:
    """Where the windows are that look at the position of the result, or, if ``all_there``, more of them."""
    if windows[0].adaptive:
        return looked_at(call, [_lookers(w) for w in windows])
    lead, own = call.at[: len(call.at) - len(windows)], call.at[len(call.at) - len(windows) :]
    axes: list[Axis] = []
    at, conditions = list(lead), list[Term]()
    for p, item, w in zip(own, call.node.meta[WINDOWS], windows, strict=True):
        a = call.reader.bound(item, free_axes(call.at) | frozenset(axes))
        axes += [] if a is None else [a]
        back = ZERO if a is None else index(a)
        which = (p + w.padding) // w.stride - back
        conditions += within(call, which, w.out)
        if not all_there:  # at a place in the window that it looks at; the pools that average have no dilation
            conditions += within(call, (p + w.padding) % w.stride + back * w.stride, w.size)
        at.append(ZERO if w.out == 1 else which)
    return Seen(axes, tuple(at), all_of(conditions), ())


def _of_maxima(call: Call, grad: Any, windows: Sequence[Window], *args: Any) -> Term:
    """What the windows have whose largest element is here."""
    indices = args[-1]
    there = _looking(call, windows, all_there=True)
    here = call.reader.position(flat_position(call.at, windows))
    found = Map("where", (Map("eq", (call.read(indices, there.at), here)), call.read(grad, there.at), Const(0.0)))
    return there.reduced(call, "sum", found, Const(0.0))


def _of_means(call: Call, grad: Any, windows: Sequence[Window], *args: Any) -> Term:
    """A share of what each window has."""
    there = _looking(call, windows)
    return there.reduced(call, "sum", averaged(call, call.read(grad, there.at), there.at, windows, *args[-2:]), Const(0.0))


def _of_adaptive_means(call: Call, grad: Any, windows: Sequence[Window]) -> Term:
    there = _looking(call, windows)
    return there.reduced(call, "sum", averaged_adaptively(call, call.read(grad, there.at), there.at, windows), Const(0.0))


def _table(name: str, windows: Callable[..., Sequence[Window]], read: Callable[..., Term]) -> None:
    def align(alignment: Any, node: Any, grad: Any, x: Any, *args: Any) -> Any:
        return _align(alignment, node, grad, x, windows(grad, x, *args))

    OPS[f"aten.{name}.default"] = AtenOp(
        align, lambda call, grad, x, *args: as_term(read(call, grad, windows(grad, x, *args), *args)), whole=True
    )


def _strided(k: int) -> Callable[..., Sequence[Window]]:
    return lambda grad, x, kernel, stride, padding, *more: pool_windows(
        grad, x, k, kernel, stride, padding, more[0] if not isinstance(more[0], bool) else 1
    )


def _adaptive(k: int) -> Callable[..., Sequence[Window]]:
    return lambda grad, x, *_: adaptive_windows(grad, x, k)


for _k in (2, 3):
    _table(f"max_pool{_k}d_with_indices_backward", _strided(_k), _of_maxima)
    _table(f"adaptive_max_pool{_k}d_backward", _adaptive(_k), _of_maxima)
    _table(f"avg_pool{_k}d_backward", _strided(_k), _of_means)
    _table(f"_adaptive_avg_pool{_k}d_backward", _adaptive(_k), _of_adaptive_means)
