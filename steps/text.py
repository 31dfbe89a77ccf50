"""Steps as functions: the pieces, and ``run``, which is the outer graph as torch.fx prints it.

Saved modules have them beside the kernels of the pieces.  They are also what runs here, with kernels, the interpreter or the simulator in
the place of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..frontends.graphs import followed
from ..frontends.printed import function_text
from ..runtime.executable import Executable
from .pieces import Cut
from .planning import Piece


@dataclass(frozen=True)
class Text:
    """``functions`` mention ``kernels``, which take and return what ``run`` of a module of these does, and what the imports among ``lines``
    say, or in this process ``held``."""

    functions: list[str] = field(default_factory=list)
    kernels: dict[str, Executable] = field(default_factory=dict)
    lines: dict[str, None] = field(default_factory=dict)
    held: dict[str, Any] = field(default_factory=dict)


def text_of(cut: Cut, pieces: Mapping[str, Piece], *, here: bool) -> Text:
    """The functions.  ``here``: they are for this process; else PlanError where the program holds what no text says: a function of a
    control flow operator, or an operator of an extension without a module."""
    found, known = Text(), dict[int, str]()
    held = found.held if here else None
    for name, piece in pieces.items():
        e = piece.executable
        if e is None or (e.missing if here else e.unspelled):
            found.functions.append(function_text(piece.graph.module.graph, f"_{name}", found.lines, held=held))
            continue
        first = known.setdefault(id(e.generated), f"_kernels_{name}")  # of equal pieces those of the first
        found.kernels.setdefault(first, e)
        found.functions.append(_caller(name, first, e))
    found.functions.append(function_text(followed(cut.outer), "run", found.lines, pieces, held, cut.owner))
    return found


def _caller(name: str, kernels: str, e: Executable) -> str:
    """A function that returns what the graph of a piece does from what its module returns: equal results are stored once."""
    slots = e.traced.unflatten(list(range(len(e.program.results or e.program.outputs))))
    texts = [f"found[{k}]" + ".clone()" * (k in slots[:at]) for at, k in enumerate(slots)]
    return f"def _{name}(*tensors):\n    found = {kernels}(*tensors)\n    return ({', '.join(texts)},)"
