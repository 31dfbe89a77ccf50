"""Terms as text a person reads: axis names instead of dimensions, operators where there are any, brackets where they are needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import ops
from .nodes import text
from .terms import Const, Gather, Input, Map, Term, View, postorder


def expression(t: Term, name: Mapping[Term, str]) -> str:
    """One operation, its arguments by name."""

    def arg(x: Term) -> str:
        if isinstance(x, Const):
            return f"{x.value:g}"
        return name.get(x) or expression(x, name)

    return text(t.kind, t.attrs, [arg(a) for a in t.args])


def axes_text(t: Term) -> str:
    """``[i, j]``."""
    return "[" + ", ".join(a.name for a in sorted(t.axes)) + "]"


LONG = 600  # characters after which a value of an equation gets a line of its own


def equations(outputs: dict[str, Term]) -> list[str]:
    """Named values as index-notation equations; what is used more than once gets a line of its own, and so does what is long."""
    terms = postorder(*outputs.values())
    uses: dict[Term, int] = {}
    for t in terms:
        for a in t.args:
            uses[a] = uses.get(a, 0) + 1
    given = {t: n for n, t in outputs.items()}
    known: dict[Term, _Written] = {}
    lines: list[str] = []
    for t in terms:
        if isinstance(t, Input):
            known[t] = _Written(t.name)
            continue
        known[t] = _written(t, known)
        shared = uses.get(t, 0) > 1 or len(known[t].text) > LONG
        if t in given or (shared and t.args and t.axes):
            name = given.get(t) or f"t{len(lines)}"
            lines.append(f"{name}{axes_text(t)} = {known[t].text}")
            known[t] = _Written(name)
    return lines


@dataclass(frozen=True)
class _Written:
    """An expression, and the precedence around it above which it needs no parentheses: 0 none, 1 sum, 2 product."""

    text: str
    alone: int = 2

    def within(self, level: int) -> str:
        """The expression where ``level`` is the precedence around it."""
        return f"({self.text})" if level > self.alone else self.text


def _written(t: Term, known: Mapping[Term, _Written]) -> _Written:
    """A term over the expressions of its arguments."""
    if not t.args:
        return _Written(expression(t, {}))
    first, last = known[t.args[0]], known[t.args[-1]]
    if isinstance(t, Map) and t.op == "add":
        second = t.args[1]
        if _is(second, "neg", known):
            return _Written(f"{first.within(0)} - {known[second.args[0]].within(1)}", 0)
        return _Written(f"{first.within(0)} + {last.within(0)}", 0)
    if isinstance(t, Map) and t.op == "mul":
        second = t.args[1]
        if _is(second, "recip", known):
            return _Written(f"{first.within(1)} / {known[second.args[0]].within(2)}", 1)
        return _Written(f"{first.within(1)} * {last.within(1)}", 1)
    if isinstance(t, Map) and t.op in ("neg", "recip"):
        return _Written(f"-{first.within(2)}" if t.op == "neg" else f"1 / {first.within(2)}", 0)
    level = 2 if isinstance(t, View | Gather) or (isinstance(t, Map) and ops.op(t.op).infix) else 0
    return _Written(expression(t, {a: known[a].within(level) for a in t.args}))


def _is(t: Term, op: str, known: Mapping[Term, _Written]) -> bool:
    """The op, written out and not by a name."""
    return isinstance(t, Map) and t.op == op and known[t] == _written(t, known)
