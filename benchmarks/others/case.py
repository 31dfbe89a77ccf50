"""One function of a library, what it should compute, and on which arguments."""

import importlib.util
import math
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import torch

from eqfuse.testing import interpreted_kernels


@dataclass(frozen=True)
class Case:
    """``theirs`` should compute what ``reference`` does on ``args`` (strategies of eqfuse.testing).

    ``fault``: what is wrong with ``theirs``, in a line; then the comparison must fail, with what matches ``seen``.  ``shows``: a plain
    check of that, without the comparison: the error of ``theirs`` against ``reference`` on arguments chosen by hand, and what would be
    right.
    """

    name: str
    reference: Callable[..., Any]
    theirs: Callable[..., Any]
    args: list[Any]
    gradients: bool = True
    examples: int = 8
    options: dict[str, Any] = field(default_factory=dict)
    fault: str = ""
    seen: str = ""
    shows: Callable[[], tuple[float, float] | None] | None = None


LANES = "lanes that a load masks without `other` are used, which Triton leaves undefined (triton-lang/triton#10119)"
LANES_SEEN = "with zeros in the masked lanes of loads they agree|undefined lanes"
STRIDE_SEEN = "on contiguous copies of the arguments they agree"


def undefined_lanes(case: Case, *numbers: Any) -> list[Case]:
    """A case that is right only where masked lanes happen to be zeros: as it is, and so.

    ``numbers``: arguments for the plain check, which shows the largest element of the first output or gradient that is not what it
    should be, with ten in the place of zeros, or, if that changes nothing, with NaN.
    """
    return [
        replace(case, fault=LANES, seen=LANES_SEEN, shows=lambda: _with_lanes(case, numbers) if numbers else None),
        replace(case, name=f"{case.name}, masked lanes zero", options={**case.options, "sanitize": False}),
    ]


def _with_lanes(case: Case, numbers: Any) -> tuple[float, float]:
    def results(function: Callable[..., Any]) -> list[torch.Tensor]:
        leaves = [a.clone().requires_grad_() if a.is_floating_point() else a for a in numbers]
        out = function(*leaves)
        wanted = [a for a in leaves if a.requires_grad] if case.gradients else []
        weights = torch.arange(1.0, 1 + out.numel()).reshape(out.shape)
        return [out.detach(), *(torch.autograd.grad(out, wanted, weights, allow_unused=True) if wanted else [])]

    right = results(case.reference)
    for masked in (10.0, math.nan):
        with interpreted_kernels(sanitize=False, order=None, masked=masked):
            ours = results(case.theirs)
        for a, b in zip(ours, right, strict=True):
            if a is not None and b is not None and not torch.allclose(a, b, atol=1e-3):
                at = (a - b).abs().argmax()
                return a.flatten()[at].item(), b.flatten()[at].item()
    return 0.0, 0.0


def package(name: str, path: Any) -> None:
    """A package whose modules can be imported, but not its own __init__, which may ask for what is not here."""
    module = types.ModuleType(name)
    module.__path__ = [str(path)]
    sys.modules[name] = module


class _Absent(types.ModuleType):
    """A module that is not installed: it has every name, and none does anything."""

    __path__ = ()
    __version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return mock.MagicMock(name=f"{self.__name__}.{name}")


def absent(*names: str) -> None:
    """Stand-ins for modules that a library imports and that its kernels do not need."""
    for name in names:
        top = name.partition(".")[0]
        if isinstance(sys.modules.get(top), _Absent) or (top not in sys.modules and importlib.util.find_spec(top) is None):
            sys.modules.setdefault(top, _Absent(top))
            sys.modules[name] = _Absent(name)
