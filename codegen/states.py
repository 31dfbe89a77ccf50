"""How states of several parts are combined, as Triton functions."""

from __future__ import annotations

import hashlib

from ..ir.states import State
from ..tiles.operations import operation
from .text import number


def name_of(state: State) -> str:
    """The function that combines two states."""
    return f"_{state.name if state.name.isidentifier() else 'state_' + hashlib.sha256(state.name.encode()).hexdigest()[:8]}"


def _number(x: float) -> str:
    """A number, a whole one so that integers stay integers beside it."""
    return number(x, whole=x.is_integer() and abs(x) < 2.0**31 and str(x) != "-0.0")


def combining(state: State) -> str:
    """Its text."""
    count = range(len(state.formulas))
    lines: list[str] = []

    def apply(op: str, *args: str) -> str:
        lines.append(f"    t{len(lines)} = {operation(op).spellings['triton'].text.format(*args)}")
        return f"t{len(lines) - 1}"

    found = state.combined([f"l{k}" for k in count], [f"r{k}" for k in count], apply, _number)
    given = ", ".join([*(f"l{k}" for k in count), *(f"r{k}" for k in count)])
    head = ["@triton.jit", f"def {name_of(state)}({given}):", '    """One state of the two that l and r are, l before r."""']
    return "\n".join([*head, *lines, f"    return {', '.join(found)}"])
