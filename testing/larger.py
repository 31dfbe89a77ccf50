"""Larger examples: sizes such that a loop of a kernel, which never ran twice in those that were drawn, does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .comparison import Check
from .counterexample import named_sizes, resized
from .kernels import Launches
from .loops import Loop
from .strategies import Size

_ELEMENTS = 1 << 19  # of all arguments together: larger examples are not tried
_PATIENCE = 10.0  # seconds for all
_ROWS = 3  # other sizes are no larger


def larger(check: Check, drawn: Sequence[Sequence[Any]], launches: Launches) -> Iterator[tuple[list[Any], Loop]]:
    """Examples like those ``drawn``, in which loops run twice that have not in ``launches``; and which loop that is.

    Only sizes for which nobody has stated a bound grow, one at a time.  A block often grows with the size, up to its bound, so the size
    grows with the step of the loop for as long as that does.
    """
    limit = time.monotonic() + _PATIENCE
    for loop in launches.loops.once():
        for which in _open(drawn):
            if loop not in launches.loops.once() or time.monotonic() > limit:
                break
            value = _enough(check, drawn[-1], which, loop, launches.loops.steps.get(loop, 0), limit)
            if value is None:
                continue
            for example in reversed(drawn):
                args = _grown(example, which, value)
                if args is not None and time.monotonic() < limit:
                    yield args, loop


def _open(drawn: Sequence[Sequence[Any]]) -> list[Size]:
    return [s for s in named_sizes(drawn[-1]) if s.open] if drawn else []


def _enough(check: Check, example: Sequence[Any], which: Size, loop: Loop, step: int, limit: float) -> int | None:
    """A value of a size with which the loop runs twice.  A loop with a step goes over the size itself; others may count its blocks."""
    value = which.high
    while time.monotonic() < limit:
        value = max(5 * step // 2, value) + 1 if step > 1 else 4 * value + 1
        args = _grown(example, which, value)
        launches = None if args is None else check.runs(args)
        if launches is None:
            return None
        if launches.loops.most.get(loop, 0) > 1:
            return value
        now = launches.loops.steps.get(loop, 0)
        if now <= step and step > 1:
            return None  # it does not depend on this size
        step = now
    return None


def _grown(example: Sequence[Any], which: Size, value: int) -> list[Any] | None:
    """The example with one size of this value, and few of the others; None if that is too much."""
    sizes = {s: max(s.low, min(v, _ROWS)) for s, v in named_sizes(example).items()}
    small = resized(example, {**sizes, which: max(which.low, 1)})
    if sum(a.numel() for a in small if isinstance(a, torch.Tensor)) * value > _ELEMENTS:
        return None
    return resized(example, {**sizes, which: value})
