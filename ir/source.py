"""A program as runnable Python: what a bug report, a failing seed and an audit print.

The text uses the functions of :mod:`.build`; running it makes an equal program (``p``), and equal terms are one object, so the text
says everything.  One line per value, subterms that are used once are written inside their user.
"""

from __future__ import annotations

import keyword
import math
from collections import ChainMap
from collections.abc import Mapping
from typing import Any

from . import build
from .dtypes import DType
from .index import Axis, FloorDiv, IndexExpr
from .nodes import mentioned
from .program import Program
from .terms import Index, Input, Map, Reduce, Scan, Term

IMPORTS = """\
from eqfuse.ir import dtypes
from eqfuse.ir.build import *
from eqfuse.ir.index import Axis
from eqfuse.ir.program import Output, Program
from eqfuse.ir.terms import Map, Reduce, Scan
"""
LONG = 100  # characters after which an expression gets a line of its own

_REDUCTIONS = {"sum": "sum_over", "max": "maximum_over", "mean": "mean_over"}
_CALLS = {
    op: name
    for name in build.__all__
    for op in (name.rstrip("_"),)
    if op in ("exp", "log", "recip", "sqrt", "rsqrt", "square", "tanh", "sigmoid", "erf", "abs", "maximum", "lt", "le", "eq")
}
_INFIX = {"add": "+", "mul": "*"}


def program_source(program: Program) -> str:
    """Python that rebuilds a program as ``p``: imports, axes, inputs, values, outputs."""
    return IMPORTS + "\n" + _Writer(program).text()


class _Writer:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.taken: set[str] = set()
        axes = dict.fromkeys(program.axes)
        for i in program.inputs:
            axes.update(dict.fromkeys(a for a in i.layout if a is not None))
        for t in program.terms():  # axes of views that are free of them, and of reductions over what does not depend on them
            axes.update(dict.fromkeys(sorted(mentioned(t.attrs))))
        self.axis = {a: self.fresh(a.name) for a in axes}
        self.name: dict[Term, str] = {}

    def fresh(self, wish: str) -> str:
        """An identifier that is like the wish."""
        name = "".join(ch if ch.isalnum() else "_" for ch in wish)
        name = name if name[:1].isalpha() and not keyword.iskeyword(name) else f"n_{name}"
        while name in self.taken or name in build.__all__ or name in ("p", "dtypes", "Axis", "Output", "Program", "Map", "Reduce", "Scan"):
            name += "_"
        self.taken.add(name)
        return name

    def text(self) -> str:
        """The lines after the imports."""
        lines = [f"{self.axis[a]} = {a!r}" for a in self.axis]
        terms = self.program.terms()
        inputs = dict.fromkeys((*self.program.inputs, *(t for t in terms if isinstance(t, Input))))
        for i in inputs:
            self.name[i] = self.fresh(i.name)
            dims = "".join(", None" if a is None else f", {self.axis[a]}" for a in i.layout)
            lines.append(f"{self.name[i]} = tensor({i.name!r}{dims}, dtype={self.dtype(i.dtype)})")
        uses: dict[Term, int] = {}
        for t in terms:
            for a in t.args:
                uses[a] = uses.get(a, 0) + 1
        inline: dict[Term, str] = {}
        known = ChainMap(self.name, inline)
        for t in terms:
            if isinstance(t, Input):
                continue
            text = self.expression(t, known)
            if t.args and (uses.get(t, 0) != 1 or len(text) > LONG):
                self.name[t] = self.fresh(f"t{len(self.name)}")
                lines.append(f"{self.name[t]} = {text}")
            else:
                inline[t] = text
        outputs = []
        for o in self.program.outputs:
            layout = "".join("None, " if a is None else f"{self.axis[a]}, " for a in o.layout)
            outputs.append(f"    Output({o.name!r}, {known[o.term]}, ({layout.rstrip() if o.layout else ''}), {self.dtype(o.dtype)}),")
        given = "".join(f"{self.name[i]}, " for i in self.program.inputs).rstrip()
        lines += [f"p = Program({self.program.name!r}, (", *outputs, f"), ({given}))"]
        return "\n".join(lines) + "\n"

    def dtype(self, d: DType) -> str:
        """The spelling of an element type."""
        return f"dtypes.{'bool_' if d.name == 'bool' else d.name}"

    def expression(self, t: Term, known: Mapping[Term, str]) -> str:
        """One operation over spelled arguments."""
        parts = [known[p] if isinstance(p, Term) else self.spelled(p) for p in t.parts]
        if isinstance(t, Map):
            args = ", ".join(parts[1:])
            if t.op in _INFIX:
                return f"({f' {_INFIX[t.op]} '.join(parts[1:])})"
            if t.op == "neg":
                return f"(-{args})"
            call = "select" if t.op == "where" else _CALLS.get(t.op)
            return f"{call}({args})" if call else f"Map({t.op!r}, ({args},))"
        if isinstance(t, Reduce) and t.monoid in _REDUCTIONS:
            return f"{_REDUCTIONS[t.monoid]}({', '.join(parts[1:])})"
        call = type(t).__name__ if isinstance(t, Reduce | Scan) else "iota" if isinstance(t, Index) else t.kind
        return f"{call}({', '.join(parts)})"

    def spelled(self, x: Any) -> str:
        """An attribute."""
        if isinstance(x, Axis):
            return self.axis[x]
        if isinstance(x, IndexExpr):
            return self.position(x)
        if isinstance(x, DType):
            return self.dtype(x)
        return repr(x) if isinstance(x, str) or math.isfinite(x) else f"float({str(x)!r})"

    def position(self, e: IndexExpr) -> str:
        """An index expression."""
        parts = []
        for atom, c in e.terms:
            if isinstance(atom, Axis):
                text = f"index({self.axis[atom]})"
            else:
                text = f"(({self.position(atom.numerator)}) {'//' if isinstance(atom, FloorDiv) else '%'} {atom.divisor})"
            parts.append(text if c == 1 else f"{text} * {c}")
        if not parts:
            return f"index({e.const})"
        return " + ".join(parts) + (f" + {e.const}" if e.const > 0 else f" + ({e.const})" if e.const else "")
