"""A function as it is written against what else there is for it: eager, torch.compile, torch's own operation, and the kernels planned here.

All get the same arguments, are compared with the function in float64, and are timed turn by turn (:mod:`eqfuse.runtime.measuring`).  What
does not compile or is not there is said, not left out.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ..runtime.measuring import Times, interleaved, sampler

EAGER, COMPILED, OURS = "eager", "torch.compile", "eqfuse"


@dataclass(frozen=True)
class Contest:
    """A function, its arguments, and what of torch's own does the same, by name.  ``options`` are of ``optimize``."""

    name: str
    function: Callable[..., Any]
    args: tuple[torch.Tensor, ...]
    library: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def device(self) -> str:
        """Where the arguments are: "cpu" or "cuda"."""
        return self.args[0].device.type


@dataclass
class Peers:
    """What takes part: each has been called once.  ``absent`` says why the others do not."""

    contest: Contest
    calls: dict[str, Callable[[], Any]]
    absent: dict[str, str]
    plan: Any = None  # of ours

    def errors(self) -> dict[str, float]:
        """The largest difference from the function in float64, over its largest element; inf where a NaN is."""
        with torch.no_grad():  # torch.compile would compile again for the other mode
            exact = _tensors(self.contest.function(*(_wide(a) for a in self.contest.args)))
            return {name: max(map(_error, _tensors(call()), exact)) for name, call in self.calls.items()}

    def times(self, **options: Any) -> dict[str, Times]:
        """The times of a call of each; ``options`` are of :func:`~eqfuse.runtime.measuring.interleaved`."""
        with torch.no_grad():
            return interleaved(self.calls, sample=sampler(self.contest.device, torch.get_num_threads()), **options)


def peers(contest: Contest, target: str) -> Peers:
    """All that can be called, compiled: a peer that fails is absent, with the reason."""
    import eqfuse

    ours: list[Any] = []

    def planned() -> Callable[..., Any]:
        ours.append(eqfuse.optimize(contest.function, contest.args, target=target, strict=True, **contest.options))
        if missing := getattr(ours[0], "missing", ""):
            raise RuntimeError(missing)
        return ours[0]

    torch.compiler.reset()
    made: dict[str, Callable[[], Callable[..., Any]]] = {EAGER: lambda: contest.function}
    made |= {name: lambda call=call: call for name, call in contest.library.items()}  # type: ignore[misc]
    made |= {COMPILED: lambda: torch.compile(contest.function, dynamic=False), OURS: planned}
    calls: dict[str, Callable[[], Any]] = {}
    absent: dict[str, str] = {}
    for name, make in made.items():
        try:
            with torch.no_grad(), _silent():
                function = make()
                function(*contest.args)
            calls[name] = lambda function=function: function(*contest.args)  # type: ignore[misc]
        except Exception as error:  # of any compiler, ours as well
            absent[name] = _first_line(error)
    return Peers(contest, calls, absent, ours[0].plan if ours else None)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Without what torch.compile logs when there is no C++ compiler: the reason is reported."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _first_line(error: Exception) -> str:
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text}"[:200]


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.double() if x.is_floating_point() else x


def _tensors(result: Any) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def _error(got: torch.Tensor, exact: torch.Tensor) -> float:
    found = float(((got - exact).abs().max() / exact.abs().max()).item())
    return found if found == found else float("inf")
