"""Are two tensor functions equal?  Judged by a float64 oracle instead of a guessed tolerance.

The first function, run in float64 on the same numbers, is the oracle.  The second may be as inaccurate as the first is in its own
type, times a stated factor, and never worse than a few roundings of the output type would explain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import AccuracyError

Function = Callable[..., Any]


def _flat(value: Any) -> list[torch.Tensor]:
    leaves, _ = torch.utils._pytree.tree_flatten(value)
    return [v for v in leaves if isinstance(v, torch.Tensor)]


def _double(t: Any) -> Any:
    return t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t


def assert_equivalent(f: Function, g: Function, args: Sequence[Any], *, factor: float = 2.0, roundings: float = 2.0) -> None:
    """Raise :class:`~eqfuse.errors.AccuracyError` unless ``g(*args)`` computes what ``f(*args)`` computes.

    ``factor`` times the error of ``f`` in its own type against ``f`` in float64 is allowed, and at least ``roundings`` units in
    the last place of the output type (relative to the largest exact element).  NaN and infinity must be where ``f`` has them, or
    where the oracle is finite and ``f`` overflowed.
    """
    ours, theirs = _flat(g(*args)), _flat(f(*args))
    exact = _flat(f(*[_double(a) for a in args]))
    if len(ours) != len(theirs):
        raise AccuracyError(f"{len(ours)} outputs against {len(theirs)}")
    for k, (a, b, e) in enumerate(zip(ours, theirs, exact, strict=True)):
        if a.shape != b.shape:
            raise AccuracyError(f"output {k} has shape {tuple(a.shape)}, not {tuple(b.shape)}")
        if a.dtype != b.dtype:
            raise AccuracyError(f"output {k} has type {a.dtype}, not {b.dtype}")
        a64, b64, e64 = (x.detach().cpu().double() for x in (a, b, e))
        newly = (torch.isfinite(b64) & torch.isfinite(e64) & ~torch.isfinite(a64)).sum().item()
        if newly:
            where = tuple(torch.nonzero(torch.isfinite(b64) & ~torch.isfinite(a64))[0].tolist())
            raise AccuracyError(f"output {k}: {newly} elements are not finite where they should be, first at {where}")
        finite = torch.isfinite(e64) & torch.isfinite(a64) & torch.isfinite(b64)
        if not bool(finite.any()):
            continue
        scale = e64[finite].abs().max().clamp_min(torch.finfo(torch.float64).tiny)
        mine = ((a64 - e64)[finite].abs().max() / scale).item()
        base = ((b64 - e64)[finite].abs().max() / scale).item()
        unit = torch.finfo(a.dtype).eps if a.is_floating_point() else 0.0
        allowed = max(factor * base, roundings * unit)
        if mine > allowed:
            at = (a64 - e64).abs().masked_fill(~finite, 0).argmax().item()
            raise AccuracyError(
                f"output {k}: error {mine:.2e} exceeds {allowed:.2e} (the first function's own error is {base:.2e}); "
                f"flat position {at}: {a64.flatten()[at].item():.6g} against {e64.flatten()[at].item():.6g}"
            )
