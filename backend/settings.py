"""What ``torch.compile(..., options={...})`` may say: options of ``optimize`` that are about every graph, and how to run."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import OptionError, expect
from ..planning import Request, checked

OF_OPTIMIZE = ("target", "licence", "rules", "disable", "node_budget", "time_budget", "objective", "no_spills", "refine", "tune", "strict")
RUNS = ("auto", "interpret", "torch")


@dataclass(frozen=True)
class Settings:
    """``request`` has the options for every graph; ``run``: ``auto`` (kernels on the device that is planned for, torch elsewhere),
    ``interpret`` (kernels in Triton's interpreter, on CPU tensors) or ``torch``."""

    request: Request
    run: str = "auto"


def settings(options: Mapping[str, Any] | None, mode: str | None) -> Settings:
    """The settings that options stand for.  Raises :class:`~eqfuse.errors.OptionError` for those that there are not."""
    expect(mode in (None, "default"), "mode", mode, "leave it out: options={'time_budget': 60.0} lets it search for longer", where=_HERE)
    given = dict(options or {})
    run = given.pop("run", "auto")
    known = (*OF_OPTIMIZE, "run")
    for name in given:
        if name not in OF_OPTIMIZE:
            close = difflib.get_close_matches(str(name), known, n=1)
            hint = f"{close[0]!r}; " if close else ""
            raise OptionError(f"no option is called {name!r}", where=_HERE, cure=f"{hint}the options are {', '.join(known)}")
    expect(run in RUNS, "run", run, f"one of {', '.join(RUNS)}", where=_HERE)
    request = checked(Request(None, None, None, given.pop("target", "auto"), **given))
    return Settings(request, run)


_HERE = 'torch.compile(backend="eqfuse")'
