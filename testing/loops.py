"""How often the loops of interpreted kernels ran.

What a loop carries from one turn to the next (a running maximum that is rescaled, a pointer that moves on) is only tested by examples in
which it runs twice; and the sizes that one draws often fit into one block.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_COUNTED, _TURN = "__eqfuse_counted__", "__eqfuse_turn__"


@dataclass(frozen=True)
class Loop:
    """A loop of a kernel, and the text that opens it."""

    kernel: str
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}, {self.kernel}: the loop `{self.text}`"


@dataclass
class Loops:
    """``most``: how often each loop ran at a time, at most.  ``steps``: the largest step of those that go over a range."""

    most: dict[Loop, int] = field(default_factory=dict)
    steps: dict[Loop, int] = field(default_factory=dict)

    def ran(self, loop: Loop, turns: int, step: int = 0) -> None:
        """A loop was entered, and has run so often."""
        self.most[loop] = max(self.most.get(loop, 0), turns)
        if step:
            self.steps[loop] = max(self.steps.get(loop, 0), abs(step))

    def add(self, other: Loops) -> None:
        """What happened elsewhere."""
        for loop, turns in other.most.items():
            self.ran(loop, turns, other.steps.get(loop, 0))

    def once(self) -> list[Loop]:
        """Loops that were entered and never ran twice."""
        return sorted((loop for loop, turns in self.most.items() if turns < 2), key=lambda loop: (loop.file, loop.line))

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Inside the block, loops of kernels are counted here."""
        _records.append(self)
        try:
            yield
        finally:
            _records.pop()


_records: list[Loops] = []  # the last one counts


def counting(tree: ast.Module, kernel: str, file: str) -> tuple[ast.Module, dict[str, Any]]:
    """The module with its loops counted, and the names that it needs for that."""
    known: list[Loop] = []

    class Counter(ast.NodeTransformer):
        def visit_For(self, node: ast.For) -> ast.For:
            self.generic_visit(node)
            node.iter = ast.copy_location(_call(_COUNTED, node.iter, number(node, node)), node.iter)
            return node

        def visit_While(self, node: ast.While) -> list[ast.stmt]:
            self.generic_visit(node)
            k = number(node, node)
            enter, turn = (ast.copy_location(ast.Expr(_call(_TURN, k, ast.Constant(first))), node) for first in (True, False))
            node.body.insert(0, turn)
            return [enter, node]

    def number(node: ast.For | ast.While, at: ast.stmt) -> ast.expr:
        header = f"while {ast.unparse(node.test)}" if isinstance(node, ast.While) else ast.unparse(node).split(":\n")[0]
        known.append(Loop(kernel, file, at.lineno, " ".join(header.split())))
        return ast.copy_location(ast.Constant(len(known) - 1), at)

    def counted(turns: Iterable[Any], k: int) -> Iterator[Any]:
        many = 0
        try:
            for many, turn in enumerate(turns, 1):  # noqa: B007
                yield turn
        finally:
            if _records:
                _records[-1].ran(known[k], many, getattr(turns, "step", 0))

    running: dict[int, int] = {}

    def turn(k: int, first: bool) -> None:
        running[k] = 0 if first else running[k] + 1
        if _records:
            _records[-1].ran(known[k], running[k])

    tree = ast.fix_missing_locations(Counter().visit(tree))
    return tree, {_COUNTED: counted, _TURN: turn}


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(args), keywords=[])
