"""Are two tensor functions equal?  Judged by a float64 oracle instead of a guessed tolerance.

The first function, run in float64 on the same numbers, is the oracle.  The second may be as inaccurate as the first is in its own
type, times a stated factor, and never worse than a few roundings of the output type would explain.  (A function that casts to a
narrower type inside is its own oracle only up to that cast.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import AccuracyError

Function = Callable[..., Any]


def assert_equivalent(f: Function, g: Function, args: Sequence[Any], *, factor: float = 2.0, roundings: float = 2.0) -> None:
    """Raise :class:`~eqfuse.errors.AccuracyError` unless ``g(*args)`` computes what ``f(*args)`` computes.

    Results are compared tensor by tensor, in order, whatever holds them; numbers of outputs, shapes and types must be the same.
    Floating point: ``factor`` times the error of ``f`` in its own type against ``f`` in float64 is allowed, and at least ``roundings``
    units in the last place of the output type, both relative to the largest exact element.  NaN and infinity must be where the
    oracle has them, or may be where ``f`` has them.  Integers and truth values must be those of ``f`` or of the oracle.
    """
    ours, theirs = _flat(g(*args)), _flat(f(*args))
    exact = _flat(f(*[_double(a) for a in args]))
    if len(ours) != len(theirs):
        raise AccuracyError(f"the second function has {len(ours)} outputs, the first {len(theirs)}")
    for k, (a, b, e) in enumerate(zip(ours, theirs, exact, strict=True)):
        if a.shape != b.shape:
            raise AccuracyError(f"output {k} has shape {tuple(a.shape)}, not {tuple(b.shape)}")
        if a.dtype != b.dtype:
            raise AccuracyError(f"output {k} has type {a.dtype}, not {b.dtype}")
        a, b, e = (x.detach().cpu() for x in (a, b, e))
        if a.is_floating_point():
            _check_finite(k, a.double(), b.double(), e.double())
            _check_error(k, a.double(), b.double(), e.double(), factor, roundings * torch.finfo(a.dtype).eps)
        else:
            _refuse(k, (a != b) & (a != e.to(a.dtype)), a, b, "are not equal")


def _flat(value: Any) -> list[torch.Tensor]:
    return [v for v in torch.utils._pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]


def _double(t: Any) -> Any:
    return t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t


def _refuse(k: int, wrong: torch.Tensor, a: torch.Tensor, b: torch.Tensor, what: str) -> None:
    """Raise if any element is wrong, and show the first."""
    if bool(wrong.any()):
        at = tuple(torch.nonzero(wrong)[0].tolist())
        raise AccuracyError(f"output {k}: {int(wrong.sum())} elements {what}; first at {at}: {a[at].item():.6g} against {b[at].item():.6g}")


def _check_finite(k: int, a: torch.Tensor, b: torch.Tensor, e: torch.Tensor) -> None:
    """NaN and infinities stand where the oracle or the first function has the same."""

    def differs(x: torch.Tensor) -> torch.Tensor:
        return (a.isnan() != x.isnan()) | ((a.isinf() | x.isinf()) & (a != x))

    odd = differs(e) & differs(b)
    _refuse(k, odd & ~a.isfinite(), a, e, "are not finite where they should be")
    _refuse(k, odd & a.isfinite(), a, e, "are finite where they should not be")


def _check_error(k: int, a: torch.Tensor, b: torch.Tensor, e: torch.Tensor, factor: float, least: float) -> None:
    """The largest error of the second function, over elements that are finite everywhere, is within the bound."""
    finite = e.isfinite() & a.isfinite() & b.isfinite()
    if not bool(finite.any()):
        return
    scale = e[finite].abs().max().clamp_min(torch.finfo(torch.float64).tiny)
    mine = ((a - e)[finite].abs().max() / scale).item()
    base = ((b - e)[finite].abs().max() / scale).item()
    allowed = max(factor * base, least)
    if mine > allowed:
        flat = (a - e).abs().masked_fill(~finite, 0).argmax()
        at = tuple(int(i) for i in torch.unravel_index(flat, a.shape))
        raise AccuracyError(
            f"output {k}: error {mine:.2e} exceeds {allowed:.2e} (the first function's own error is {base:.2e}); "
            f"worst at {at}: {a[at].item():.6g} against {e[at].item():.6g}"
        )
