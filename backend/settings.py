"""What ``torch.compile(..., options={...})`` and ``mode=`` may say: options of ``optimize`` that are about every graph, how to run, and
what Inductor calls the same."""

from __future__ import annotations

import difflib
import importlib.util
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import OptionError, expect
from ..extract.targets import Target
from ..planning import Request, checked
from ..runtime.native import compiler

OF_OPTIMIZE = ("target", "licence", "rules", "disable", "node_budget", "time_budget", "objective", "no_spills", "refine", "tune", "strict")
RUNS = ("auto", "interpret", "torch")
REFINED = 8  # candidates of each kernel that "max-autotune" compiles

# torch's modes, as Inductor's options.
MODES: dict[str | None, dict[str, bool]] = {
    None: {},
    "default": {},
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune": {"max_autotune": True, "triton.cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True},
}
SEARCHES = ("max_autotune", "max_autotune_pointwise", "max_autotune_gemm", "coordinate_descent_tuning")
# Inductor's options of which one value is what is done here anyway, and what there is for another.
_FUSION = "fusion=[('forbid', a, b)] of eqfuse.optimize keeps two values apart"
ANYWAY: dict[str, tuple[object, str]] = {
    "epilogue_fusion": (True, _FUSION),
    "prologue_fusion": (True, _FUSION),
    "fallback_random": (True, "random numbers are always torch's"),
    "shape_padding": (False, "tiles are masked, and tensors are as long as they are"),
    "triton.cudagraphs": (False, "torch.cuda.make_graphed_callables(compiled, args) records the calls"),
    "force_disable_caches": (False, "EQFUSE_CACHE=0 in the environment keeps nothing on disk"),
    "trace.enabled": (False, "eqfuse.report() says what became of each graph"),
    "debug": (False, "EQFUSE_DEBUG=1 in the environment prints each stage"),
}


@dataclass(frozen=True)
class Settings:
    """``request`` has the options for every graph; ``run``: ``auto`` (kernels on the device that is planned for, torch elsewhere),
    ``interpret`` (kernels in Triton's interpreter, on CPU tensors) or ``torch``."""

    request: Request
    run: str = "auto"


def settings(options: Mapping[str, Any] | None, mode: str | None) -> Settings:
    """The settings that options stand for.  What Inductor has and this backend has not is left out with a warning.  Raises
    :class:`~eqfuse.errors.OptionError` for options that neither has."""
    expect(mode in MODES, "mode", mode, f"one of {', '.join(m for m in MODES if m)}", where=_HERE)
    given = dict(options or {})
    run = given.pop("run", "auto")
    own = {name: given.pop(name) for name in OF_OPTIMIZE if name in given}
    foreign = {**MODES[mode], **{str(name).replace("-", "_"): value for name, value in given.items()}}
    for name in foreign:
        if name not in SEARCHES and name not in ANYWAY and name not in _of_inductor():
            known = (*OF_OPTIMIZE, "run")
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"{close[0]!r}; " if close else ""
            raise OptionError(f"no option is called {name!r}", where=_HERE, cure=f"{hint}the options are {', '.join(known)}")
    expect(run in RUNS, "run", run, f"one of {', '.join(RUNS)}", where=_HERE)
    request = checked(Request(None, None, None, own.pop("target", "auto"), **own))
    for name, value in foreign.items():
        if name in SEARCHES:
            if value and not request.refine:
                request = _searched(request, name)
        elif name not in ANYWAY:
            _left_out(name, value, f"the options are {', '.join((*OF_OPTIMIZE, 'run'))}")
        elif value != ANYWAY[name][0] and not (name == "triton.cudagraphs" and request.target.on_cpu):  # where there are none
            _left_out(name, value, ANYWAY[name][1])
    return Settings(request, run)


def _searched(request: Request, name: str) -> Request:
    """The request with candidates of each kernel compiled and timed, where they can be."""
    if not _compiles(request.target):
        _left_out(name, True, "install a C compiler" if request.target.on_cpu else "pip install triton, on Linux")
        return request
    return replace(request, refine=REFINED, tune=True)


def _compiles(target: Target) -> bool:
    return bool(compiler()) if target.on_cpu else importlib.util.find_spec("triton") is not None


def _left_out(name: str, value: object, instead: str) -> None:
    warnings.warn(f"{_HERE}: Inductor's option {name}={value!r} is left out; instead: {instead}", stacklevel=2)


def _of_inductor() -> tuple[str, ...]:
    """The names of Inductor's options."""
    from torch._inductor import list_options

    return tuple(list_options())


_HERE = 'torch.compile(backend="eqfuse")'
