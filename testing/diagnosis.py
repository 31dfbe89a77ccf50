"""What is the matter?  Experiments on a counterexample: change one thing; if the functions then agree, that thing matters.

Each observation is a fact about this counterexample; what stands in brackets is what it suggests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from .gradients import results
from .judge import Difference

if TYPE_CHECKING:
    from .equivalence import Check

_LOW = (torch.float16, torch.bfloat16)


def observations(check: Check, args: Sequence[Any], error: Exception) -> list[str]:
    """What can be said about a failure of ``check`` on ``args``, at most a few lines."""
    kind = error.kind if isinstance(error, Difference) else ""
    if kind in ("outputs", "shape", "type", "truncated", "changed", "detached") or "overflow" in str(error):
        return []
    seen = [place(error.wrong)] if isinstance(error, Difference) and error.wrong is not None else []
    seen += _experiments(check, args, kind)
    return [s for s in seen if s]


def _experiments(check: Check, args: Sequence[Any], kind: str) -> Iterator[str]:
    launches = check.launches(args)
    found = False
    if kind and launches.count:
        if check.agree(args, poison=False):
            found = True
            yield "with zeros in the masked lanes of loads they agree (a load with a mask and no `other` is used: missing mask)"
        elif check.shuffle and check.agree(args, order=None):
            found = True
            yield "with the programs in the order of their numbers they agree (race: the result depends on the order of programs)"
        if launches.wraps:
            found = True
            yield f"32-bit arithmetic wrapped: {launches.wraps[0]} (int32 offset overflow)"
    if any(isinstance(a, torch.Tensor) and not a.is_contiguous() for a in args) and check.agree(_each(args, torch.Tensor.contiguous)):
        found = True
        yield "on contiguous copies of the arguments they agree (a stride is ignored)"
    if kind and _any(args, lambda a: bool(a.isinf().any())) and check.agree(_each(args, _bounded)):
        found = True
        yield "with -1e4 in place of -inf they agree (-inf minus -inf is NaN: a tile or row that is masked entirely needs a guard)"
    narrow = [torch.finfo(a.dtype).eps for a in args if _floats(a) and a.dtype in _LOW]
    if kind in ("error", "not finite") and narrow and _tolerant(check, min(narrow)).agree(_each(args, torch.Tensor.float)):
        found = True
        yield "on float32 copies of the arguments they agree (something is computed or summed in the narrow type: missing upcast)"
    if kind == "error" and not found:
        for k, a in enumerate(args):
            scale = _room(a) if _floats(a) else 1
            if scale > 1:
                larger = [x * scale if i == k else x for i, x in enumerate(args)]
                smaller = [x / 1024 if i == k else x for i, x in enumerate(args)]
                if check.agree(larger) and _finite(check, larger) and not check.agree(smaller):
                    yield f"with argument {k} {scale} times as large they agree (something small is added: an epsilon, or its place)"
                    return


def _floats(a: Any) -> bool:
    return isinstance(a, torch.Tensor) and a.is_floating_point() and a.numel() > 0


def _tolerant(check: Check, eps: float) -> Check:
    """The same comparison on float32 arguments, with the tolerance of a narrower type."""
    return replace(check, roundings=check.roundings * eps / torch.finfo(torch.float32).eps)


def _finite(check: Check, args: Sequence[Any]) -> bool:
    """The results of the first function are finite, so that agreement says something."""
    return all(bool(r.value.isfinite().all()) for r in results(check.f, args))


def _room(a: torch.Tensor) -> int:
    """The largest power of two up to 2²⁰ by which the tensor may grow and stay well within its type."""
    largest = float(a.abs().max())
    scale = 1 << 20
    while scale > 1 and not largest * scale < torch.finfo(a.dtype).max / 8:
        scale //= 2
    return scale


def _any(args: Sequence[Any], holds: Callable[[torch.Tensor], bool]) -> bool:
    return any(_floats(a) and holds(a) for a in args)


def _each(args: Sequence[Any], change: Callable[[torch.Tensor], torch.Tensor]) -> list[Any]:
    return [change(a) if _floats(a) else a for a in args]


def _bounded(a: torch.Tensor) -> torch.Tensor:
    return a.clamp(-1e4, 1e4)


def place(wrong: torch.Tensor) -> str:
    """Where the wrong elements are, if that says something."""
    if wrong.ndim == 0 or bool(wrong.all()):
        return ""
    said = []
    for axis, size in enumerate(wrong.shape):
        others = [d for d in range(wrong.ndim) if d != axis]
        hit = torch.nonzero(wrong.any(others) if others else wrong)[:, 0].tolist()
        if len(hit) == size:
            continue
        if hit == [size - 1]:
            said.append(f"at the last index of axis {axis} ({hit[0]} of {size})")
        elif hit == [0]:
            said.append(f"at the first index of axis {axis} (of {size})")
        elif hit == list(range(hit[0], size)):
            said.append(f"at indices {hit[0]} and above of axis {axis} (of {size})")
        elif hit == list(range(hit[-1] + 1)):
            said.append(f"at indices below {hit[-1] + 1} of axis {axis} (of {size})")
    return f"all wrong elements are {' and '.join(said)}" if said else ""


def ignored(check: Check, args: Sequence[Any]) -> str:
    """An end of an argument's last axis that the second function does not look at, although the first does."""
    for k, a in enumerate(args):
        if not _floats(a) or a.ndim == 0 or a.shape[-1] < 2:
            continue
        for index, name in ((-1, "last"), (0, "first")):
            changed = a.clone(memory_format=torch.contiguous_format)
            changed[..., index] = changed[..., index].clamp(-10, 10) * 0.5 + 1
            other = [changed if i == k else x for i, x in enumerate(args)]
            if check.depends(check.f, args, other) and not check.depends(check.g, args, other):
                return f"the second function does not depend on the {name} index of the last axis of argument {k} (off by one)"
    return ""
