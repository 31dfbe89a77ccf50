"""Errors of a program in steps, against torch's own in float64: there is no reference for operators that are not ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..runtime.accuracy import AccuracyReport, OutputError, relative_error

if TYPE_CHECKING:
    from .running import Steps


def measure(steps: Steps, names: Sequence[str], bound: Sequence[torch.Tensor]) -> AccuracyReport:
    """The floating results of the steps and of the same graph in torch, each against that graph on tensors in float64.

    Steps that write to arguments or buffers do so on copies.
    """
    cuda = any(t.is_cuda for t in bound)
    with torch.no_grad():
        ours = (steps.run if cuda else steps.interpret)([t.clone() for t in bound])
        eager = steps.in_torch([t.clone() for t in bound])
        exact = steps.in_torch([t.double() if t.is_floating_point() else t.clone() for t in bound])
    rows = []
    for k, (a, b, e) in enumerate(zip(ours, eager, exact, strict=True)):
        if not a.is_floating_point():
            continue
        (mine, lost), (theirs, also) = (relative_error(_numpy(x), _numpy(e)) for x in (a, b))
        rows.append(OutputError(names[k], str(a.dtype).removeprefix("torch."), mine, theirs, lost, also))
    return AccuracyReport("cuda" if cuda else "interpret", tuple(rows))


def _numpy(t: torch.Tensor) -> np.ndarray:
    found: np.ndarray = t.detach().cpu().double().numpy()
    return found
