"""Programs as text a person reads: one line per value, axis names instead of dimensions."""

from __future__ import annotations

from . import ops
from .program import Program
from .terms import Cast, Const, Extent, Index, Input, Map, Reduce, Term, View


def expression(t: Term, name: dict[Term, str]) -> str:
    """One operation, its arguments by name."""

    def arg(x: Term) -> str:
        if isinstance(x, Const):
            return f"{x.value:g}"
        return name.get(x) or expression(x, name)

    if isinstance(t, Input):
        return t.name
    if isinstance(t, Const):
        return f"{t.value:g}"
    if isinstance(t, Index):
        return f"index({t.axis.name})"
    if isinstance(t, Extent):
        return f"size({t.axis.name})"
    if isinstance(t, Map):
        infix = ops.op(t.op).infix
        if infix:
            return f"{arg(t.args[0])} {infix} {arg(t.args[1])}"
        return f"-{arg(t.args[0])}" if t.op == "neg" else f"{t.op}({', '.join(map(arg, t.args))})"
    if isinstance(t, Reduce):
        return f"{t.monoid}_{t.axis.name}({arg(t.args[0])})"
    if isinstance(t, View):
        return f"{arg(t.args[0])}[{t.axis.name} = {t.index}]"
    assert isinstance(t, Cast)
    return f"{t.to.name}({arg(t.args[0])})"


def axes_text(t: Term) -> str:
    """``[i, j]``."""
    return "[" + ", ".join(a.name for a in sorted(t.axes)) + "]"


def program_text(program: Program) -> str:
    """The whole program; outputs last."""
    lines = [f"{program.name}: " + ", ".join(f"{a.name}={a.size}" for a in program.axes)]
    name: dict[Term, str] = {}
    for i in program.inputs:
        name[i] = i.name
        dims = ", ".join("1" if a is None else a.name for a in i.layout)
        lines.append(f"  {i.name}[{dims}] : {i.dtype.name}")
    outputs = {o.term: o.name for o in program.outputs}
    for t in program.terms():
        if isinstance(t, Input | Const):
            continue
        text = expression(t, name)
        name[t] = outputs.get(t) or f"t{len(name)}"
        lines.append(f"  {name[t]}{axes_text(t)} = {text}")
    for o in program.outputs:
        lines.append(f"  return {o.name}[{', '.join('1' if a is None else a.name for a in o.layout)}] : {o.dtype.name}")
    return "\n".join(lines)
