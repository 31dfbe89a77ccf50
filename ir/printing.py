"""Programs as text a person reads: one line per value, axis names instead of dimensions."""

from __future__ import annotations

from . import ops
from .program import Program
from .terms import Cast, Const, Extent, Index, Input, Map, Reduce, Term, View, postorder


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


def equations(outputs: dict[str, Term]) -> list[str]:
    """Named values as index-notation equations; what is used more than once gets a line of its own."""
    terms = postorder(*outputs.values())
    uses: dict[Term, int] = {}
    for t in terms:
        for a in t.args:
            uses[a] = uses.get(a, 0) + 1
    given = {t: n for n, t in outputs.items()}
    name: dict[Term, str] = {}
    lines: list[str] = []
    for t in terms:
        if isinstance(t, Input):
            name[t] = t.name
        elif t in given or (uses.get(t, 0) > 1 and t.args and t.axes):
            text = _nested(t, name, 0)
            name[t] = given.get(t) or f"t{len(lines)}"
            lines.append(f"{name[t]}{axes_text(t)} = {text}")
    return lines


def _nested(t: Term, name: dict[Term, str], level: int) -> str:
    """A whole expression; ``level`` is the precedence around it: 0 none, 1 sum, 2 product."""
    if t in name:
        return name[t]
    if not t.args:
        return expression(t, name)
    if isinstance(t, Map) and t.op == "add":
        second = t.args[1]
        if isinstance(second, Map) and second.op == "neg":
            text = f"{_nested(t.args[0], name, 0)} - {_nested(second.args[0], name, 1)}"
        else:
            text = f"{_nested(t.args[0], name, 0)} + {_nested(second, name, 0)}"
        return f"({text})" if level else text
    if isinstance(t, Map) and t.op == "mul":
        second = t.args[1]
        if isinstance(second, Map) and second.op == "recip":
            text = f"{_nested(t.args[0], name, 1)} / {_nested(second.args[0], name, 2)}"
        else:
            text = f"{_nested(t.args[0], name, 1)} * {_nested(second, name, 1)}"
        return f"({text})" if level > 1 else text
    inner = {a: _nested(a, name, 2 if isinstance(t, View) or (isinstance(t, Map) and ops.op(t.op).infix) else 0) for a in t.args}
    if isinstance(t, Map) and t.op in ("neg", "recip"):
        operand = _nested(t.args[0], name, 2)
        text = f"-{operand}" if t.op == "neg" else f"1 / {operand}"
        return f"({text})" if level else text
    return expression(t, {**name, **inner})
