"""Gradients of pooling, read from the other side: at each position of the argument, the sum over the windows that look at it.

A maximum's gradient goes to the position that its pool has returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.terms import Const, Map, Term, as_term
from .aten import OPS, WINDOWS, AtenOp, Call, dims_of
from .aten_windows import (
    Window,
    adaptive_windows,
    averaged,
    averaged_adaptively,
    flat_position,
    lookers,
    looking_at,
    pool_windows,
)


def _align(alignment: Any, node: Any, grad: Any, x: Any, windows: Sequence[Window]) -> Any:
    k = len(windows)
    for d, e in zip(dims_of(grad)[:-k], dims_of(x)[:-k], strict=True):
        alignment.unify(d, e)
    node.meta[WINDOWS] = tuple(alignment.fresh(lookers(w).size) for w in windows)
    return dims_of(x)


def _of_maxima(call: Call, grad: Any, windows: Sequence[Window], *args: Any) -> Term:
    """What the windows have whose largest element is here."""
    indices = args[-1]
    there = looking_at(call, windows, all_there=True)
    here = call.reader.position(flat_position(call.at, windows))
    found = Map("where", (Map("eq", (call.read(indices, there.at), here)), call.read(grad, there.at), Const(0.0)))
    return there.reduced("sum", found, Const(0.0))


def _of_means(call: Call, grad: Any, windows: Sequence[Window], *args: Any) -> Term:
    """A share of what each window has."""
    there = looking_at(call, windows)
    return there.reduced("sum", averaged(call, call.read(grad, there.at), there.at, windows, *args[-2:]), Const(0.0))


def _of_adaptive_means(call: Call, grad: Any, windows: Sequence[Window]) -> Term:
    there = looking_at(call, windows)
    return there.reduced("sum", averaged_adaptively(call, call.read(grad, there.at), there.at, windows), Const(0.0))


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
