"""A program as a text that is the same for programs that differ in names alone.

Axes, inputs and outputs are numbered as they are met, so two programs have one fingerprint if they are one program under other names:
the layers of a model, say.  Terms are written once each, however often they are used.
"""

from __future__ import annotations

from .index import Axis, FloorDiv, IndexExpr
from .program import Program
from .terms import Const, Input, Term


def fingerprint(program: Program) -> str:
    """A line for each input, term and output; types, sizes, strides, constants to the bit, and index expressions included."""
    return _text(program, _Numbers(program))


def spelled(program: Program) -> str:
    """The same with all names that a plan may speak of: of the program, its inputs, outputs, results and axes."""
    names = [program.name, *(i.name for i in program.inputs), *(o.name for o in program.outputs), program.results]
    return "\n".join((_text(program, _Names(program)), *map(repr, names)))


def _text(program: Program, numbers: _Numbers) -> str:
    known = {i.name: [x for x in (program.strides.get(i.name), program.samples.get(i.name)) if x is not None] for i in program.inputs}
    lines = [" ".join(("in", i.dtype.name, numbers.layout(i.layout), *map(str, known[i.name]))) for i in program.inputs]
    lines += [numbers.line(t) for t in program.terms() if not isinstance(t, Input)]
    lines += [f"out {numbers.term[o.term]} {o.dtype.name} {numbers.layout(o.layout)}" for o in program.outputs]
    return "\n".join(lines)


class _Numbers:
    """Of axes and terms."""

    def __init__(self, program: Program) -> None:
        self.axes: dict[Axis, str] = {}
        self.widened = program.widened
        self.term: dict[Term, int] = {i: k for k, i in enumerate(program.inputs)}

    def axis(self, a: Axis | None) -> str:
        """An axis with its size."""
        if a is None:
            return "1"
        return self.axes.setdefault(a, f"a{len(self.axes)}:{a.size}")

    def layout(self, axes: tuple[Axis | None, ...]) -> str:
        """The dimensions of a tensor."""
        return f"[{' '.join(map(self.axis, axes))}]"

    def index(self, e: IndexExpr) -> str:
        """An index expression."""
        parts = [f"{c}*{self.atom(atom)}" for atom, c in e.terms]
        return "+".join([str(e.const), *parts])

    def atom(self, atom: object) -> str:
        """A part of an index expression."""
        if isinstance(atom, Axis):
            return self.axis(atom)
        sign = "//" if isinstance(atom, FloorDiv) else "%"
        return f"({self.index(atom.numerator)}){sign}{atom.divisor}"  # type: ignore[attr-defined]

    def line(self, t: Term) -> str:
        """A term whose arguments have numbers."""
        number = self.term.setdefault(t, len(self.term))
        if isinstance(t, Const):
            return f"{number} const {float(t.value).hex()}"
        wide = ["float32"] if t in self.widened else []
        return " ".join([str(number), t.kind, *map(self.attribute, t.attrs), *(str(self.term[a]) for a in t.args), *wide])

    def attribute(self, x: object) -> str:
        """What a term is of besides terms."""
        if isinstance(x, Axis):
            return self.axis(x)
        return self.index(x) if isinstance(x, IndexExpr) else str(getattr(x, "name", x))


class _Names(_Numbers):
    """Of terms; axes have their names."""

    def axis(self, a: Axis | None) -> str:
        return "1" if a is None else repr(a)
