"""Errors against float64: what the generated kernels do beside what the eager program does in its own type.

The norm is the largest absolute error divided by the largest absolute value of the exact output, per output; NaN or infinity in
one and not in the other counts as infinite error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import AccuracyError, OptionError
from ..ir import dtypes, reference

if TYPE_CHECKING:
    import numpy as np
    import torch

    from .compiled import Compiled


@dataclass(frozen=True)
class OutputError:
    """One output: relative errors against float64, and elements that are not finite though the exact value is."""

    name: str
    dtype: str
    ours: float
    eager: float
    ours_nonfinite: int
    eager_nonfinite: int

    def within(self, factor: float = 2.0) -> bool:
        """No worse than ``factor`` times eager (or than one rounding of the output type), and nothing newly non-finite."""
        floor = dtypes.dtype(self.dtype).epsilon
        return self.ours <= factor * max(self.eager, floor / 2) and self.ours_nonfinite <= self.eager_nonfinite


@dataclass(frozen=True)
class AccuracyReport:
    """All outputs."""

    runner: str
    outputs: tuple[OutputError, ...]

    def check(self, factor: float = 2.0) -> None:
        """Raise :class:`AccuracyError` unless every output is within the factor."""
        bad = [o for o in self.outputs if not o.within(factor)]
        if bad:
            raise AccuracyError(
                "; ".join(f"{o.name}: error {o.ours:.2e}, eager {o.eager:.2e}, non-finite {o.ours_nonfinite}" for o in bad),
                cure="use licence='exact', or a wider element type",
            )

    def __str__(self) -> str:
        lines = [f"error against float64 ({self.runner})"]
        lines += [f"  {o.name:12s} {o.dtype:9s} ours {o.ours:.2e}   eager {o.eager:.2e}" for o in self.outputs]
        return "\n".join(lines)


def relative_error(got: np.ndarray, exact: np.ndarray) -> tuple[float, int]:
    """(max |got - exact| / max |exact| over elements where both are finite, elements where just one of them is)."""
    import numpy as np

    finite = np.isfinite(exact)
    lost = int(np.sum(finite != np.isfinite(got)))
    both = finite & np.isfinite(got)
    if not both.any():
        return (0.0 if lost == 0 else float("inf")), lost
    scale = float(np.max(np.abs(exact[finite]))) or 1.0
    return float(np.max(np.abs(got[both] - exact[both]))) / scale, lost


RUNNERS = ("auto", "cuda", "interpret", "simulate")


def measure(
    compiled: Compiled, args: Sequence[Any], runner: str = "auto", kwargs: Mapping[str, Any] | None = None
) -> AccuracyReport:
    """Run ours (``interpret`` on CPU tensors, the kernels on CUDA ones; or ``simulate``) and eager, compare with float64."""
    if runner not in RUNNERS:
        raise OptionError(f"no runner is called {runner!r}", where="accuracy", cure=f"one of {', '.join(RUNNERS)}")
    given = dict(kwargs or {})
    tensors = compiled.bind(args, given)
    cuda = any(t.is_cuda for t in tensors.values())
    runner = ("cuda" if cuda else "interpret") if runner == "auto" else runner
    run: Callable[..., Any] = {"cuda": compiled.__call__, "interpret": compiled.interpret, "simulate": compiled.simulate}[runner]
    ours = compiled.in_order(run(*args, **given))
    eager = compiled.in_order(compiled.eager(*args, **given))
    exact = reference.evaluate(compiled.program, {n: _numpy(t) for n, t in tensors.items()})
    rows = []
    for o, a, b in zip(compiled.program.outputs, ours, eager, strict=True):
        e = exact[o.name]
        mine, mine_lost = relative_error(_numpy(a), e)
        theirs, theirs_lost = relative_error(_numpy(b), e)
        rows.append(OutputError(o.name, o.dtype.name, mine, theirs, mine_lost, theirs_lost))
    return AccuracyReport(runner, tuple(rows))


def _numpy(t: torch.Tensor) -> np.ndarray:
    import torch

    t = t.detach().cpu()
    return (t.double() if t.dtype.is_floating_point else t.to(torch.float64)).numpy()
