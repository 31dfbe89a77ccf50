"""What values of a graph are called: names that users can say, and e-nodes in index notation.

A user names a value by an input, an output, a variable of the traced source, a node of the traced graph, the name of a buffer of the
plan (``t7`` is the eighth term of the program) or the line that computes it (``model.py:12``).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..egraph.frozen import ENode, FrozenGraph
from ..errors import OptionError, expect
from ..ir import nodes, ops
from ..ir.program import Program
from ..ir.terms import Const, Extent, Index, Input, Term, View

REORDERING = ("order", "cancelling")  # the families of rules by which programs become other ones
LISTED = 40  # names that an error lists


@dataclass(frozen=True)
class Value:
    """A value of the program: what the user called it, its term, and its class."""

    name: str
    term: Term
    cls: int


class ProgramNames:
    """What the values of a program are called."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.terms = program.terms()

    @cached_property
    def table(self) -> dict[str, Term]:
        """Every name and its term.  ``x`` is the input of that name, else the last value that was called so; ``x#1`` the first."""
        found: dict[str, Term] = {}
        here = {*self.terms}
        for i in self.program.inputs:
            if i in here:
                found.setdefault(i.name, i)
        for o in self.program.outputs:
            found.setdefault(o.name, o.term)
        for name, terms in self.program.names.items():
            alive = [t for t in terms if t in here]
            if alive:
                found.setdefault(name, alive[-1])
            if len(alive) > 1 or (alive and found[name] is not alive[0]):  # the name of an input is the input's
                found.update((f"{name}#{k}", t) for k, t in enumerate(alive, 1))
        for k, t in enumerate(self.terms):
            if not isinstance(t, Input | Const | Extent | Index):
                found.setdefault(self.program.temporary(k), t)
        return found

    @cached_property
    def called(self) -> dict[Term, str]:
        """The first name of each value."""
        return {t: name for name, t in reversed(self.table.items())}

    @property
    def spoken(self) -> tuple[str, ...]:
        """Names worth listing: inputs, outputs, and the best name of each other value that has one."""
        own = {i.name for i in self.program.inputs} | {o.name for o in self.program.outputs}
        return tuple(n for n, t in self.table.items() if n in own or (self.called[t] == n and not re.fullmatch(r"t\d+", n)))

    def term(self, text: str) -> Term:
        """The value that a user means; an :class:`~eqfuse.errors.OptionError` lists what there is."""
        expect(isinstance(text, str), "a value", text, 'names as text: why("scores", "out")', where="why")
        text = text.strip()
        line = re.fullmatch(r"(.+\.py):(\d+)", text)
        if line:
            return self._at_line(text, line[1].replace("\\", "/").rpartition("/")[2], int(line[2]))
        term = self.table.get(text)
        if term is None and text in self.program.names:
            raise OptionError(
                f"{self.program.name} is planned as another program than it is written, which computes no {text}",
                cure=f"disable={list(REORDERING)!r} plans it as written; the values are {_listed(self.spoken)}",
            )
        if term is None:
            close = difflib.get_close_matches(text, self.table, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
            raise OptionError(
                f"{self.program.name} computes no value called {text!r}",
                cure=f"{hint}the values are {_listed(self.spoken)}; a line is named as in {self._example()}",
            )
        return term

    def _at_line(self, text: str, file: str, line: int) -> Term:
        """What a line made last."""
        places: dict[tuple[str, int], Term] = {}
        for t in self.terms:
            where = re.match(r"(.+\.py):(\d+)", self.program.sources.get(t, ""))
            if where and not isinstance(t, Const | Index | Extent):
                places[where[1], int(where[2])] = t
        if (file, line) not in places:
            known = [f"{f}:{n}" for f, n in sorted(places)]
            raise OptionError(
                f"{self.program.name} computes nothing at {text}",
                cure=f"the lines that compute something are {_listed(known)}" if known else "name a value instead of a line",
            )
        return places[file, line]

    def _example(self) -> str:
        found = (re.match(r".+\.py:\d+", s) for s in self.program.sources.values())
        return next((m[0] for m in found if m), "file.py:12")


class Names(ProgramNames):
    """Names of one graph's values, both ways."""

    def __init__(self, graph: FrozenGraph) -> None:
        super().__init__(graph.program)
        self.graph = graph
        self.cls = dict(zip(self.terms, graph.original, strict=True))

    @property
    def spoken(self) -> tuple[str, ...]:
        """Names worth listing: inputs, outputs, and the best name of each other value that has one."""
        own = {i.name for i in self.program.inputs} | {o.name for o in self.program.outputs}
        named = (n for n in self.table if not re.fullmatch(r"t\d+", n))
        return tuple(n for n in named if n in own or self.labels.get(self.cls[self.table[n]]) == n)

    def resolve(self, text: str) -> Value:
        """The value that a user means; an :class:`~eqfuse.errors.OptionError` lists what there is."""
        term = self.term(text)
        return Value(text.strip(), term, self.cls[term])

    @cached_property
    def labels(self) -> dict[int, str]:
        """The best name of each class that has one: an input's, an output's, a variable's, else ``t7`` for a term of the program."""
        found: dict[int, str] = {}
        for name, t in self.table.items():
            if not (re.fullmatch(r"t\d+", name) and _is_read(t)):
                found.setdefault(self.cls[t], name)
        return found

    def label(self, c: int) -> str:
        """A class in one word; ``x12`` is a class that only rules made."""
        return self.labels.get(c, f"x{c}")

    def title(self, c: int) -> str:
        """A class with its axes: ``scores[i, j]``."""
        axes = sorted(self.graph.axes[c])
        return self.label(c) + (f"[{', '.join(a.name for a in axes)}]" if axes else "")

    def text(self, n: ENode, form: Callable[[int], ENode | None], depth: int = 5) -> str:
        """An e-node in index notation; arguments without a name are written out through ``form``, ``depth`` levels deep."""
        return self._text(n, form, depth, 0)

    def _argument(self, c: int, form: Callable[[int], ENode | None], depth: int, level: int) -> str:
        n = form(c)
        if n is not None and n.op in ("const", "extent", "index", "acc"):
            return self._text(n, form, depth, level)
        named = c in self.labels and not re.fullmatch(r"t\d+", self.labels[c])
        if named or n is None or depth <= 0:
            return self.label(c)
        light = n.op in ("ref", "view", "cast") or (n.scalar in ("neg", "recip"))
        return self._text(n, form, depth - (not light), level)

    def _text(self, n: ENode, form: Callable[[int], ENode | None], depth: int, level: int) -> str:
        """``level`` is the precedence around it: 0 none, 1 sum, 2 product."""

        def arg(k: int, level: int = 0) -> str:
            return self._argument(n.args[k], form, depth, level)

        if n.op == "map":
            return self._map(n, form, depth, level)
        return nodes.text(n.op, n.attrs, [arg(k, 2 * (n.op == "view")) for k in range(len(n.args))])

    def _map(self, n: ENode, form: Callable[[int], ENode | None], depth: int, level: int) -> str:
        op = n.attrs[0]

        def arg(c: int, level: int) -> str:
            return self._argument(c, form, depth, level)

        if op == "neg":
            text = f"-{arg(n.args[0], 1)}"
            return f"({text})" if level else text
        if op == "recip":
            text = f"1 / {arg(n.args[0], 2)}"
            return f"({text})" if level else text
        infix = ops.op(op).infix
        if infix and len(n.args) == 2:
            own = 1 if op == "add" else 2  # needs brackets inside a product or under a sign; a product only as a divisor
            left, right = n.args
            first, second = self._negated(left, form), self._negated(right, form)
            if op == "add" and second is not None:
                text = f"{arg(left, 0)} - {arg(second, 1)}"
            elif op == "add" and first is not None:
                text = f"{arg(right, 0)} - {arg(first, 1)}"
            else:
                inner = 0 if op == "add" else 1
                text = f"{arg(left, inner)} {infix} {arg(right, inner)}"
            return f"({text})" if level >= own else text
        return f"{op}({', '.join(arg(a, 0) for a in n.args)})"

    def _negated(self, c: int, form: Callable[[int], ENode | None]) -> int | None:
        """x, where a class without a name is written as -x."""
        named = c in self.labels and not re.fullmatch(r"t\d+", self.labels[c])
        n = None if named else form(c)
        return n.args[0] if n is not None and n.scalar == "neg" else None


def _is_read(t: Term) -> bool:
    return isinstance(t, View) and isinstance(t.args[0], Input)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:LISTED])
    return shown + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "") if names else "none"
