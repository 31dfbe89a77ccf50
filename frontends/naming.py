"""What the user calls the values of a graph: variables of their source, and the names of the graph's own nodes.

Export records for every node the statements that were being executed.  A statement ``scores = q @ k.T * scale`` names what its last
operation made; so does ``hidden = self.layer(x)`` for the outer frame, whatever the layer calls the value inside.  Targets of
``a, b = ...`` name the results of an operation that has several.  The source is parsed, never run; where it cannot be found (a
shell, generated code) values keep the names of the operations that the user called (``linear``, ``cross_entropy``), which export
records too, and of their graph nodes (``mm``).
"""

from __future__ import annotations

import ast
import linecache
import operator
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ..ir.terms import Const, Term
from .places import user_frames

if TYPE_CHECKING:
    from torch.fx import Graph, Node

Targets = tuple[str | tuple[str, ...], ...]  # the names that a statement binds; a tuple is unpacked


@lru_cache(maxsize=64)
def _parsed(text: str) -> tuple[tuple[int, int, Targets], ...]:
    """(first line, last line, targets) of every assignment in a source text."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    found = []
    for node in ast.walk(tree):
        targets: Sequence[ast.expr] = ()
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            targets = [node.target]
        names = tuple(n for t in targets if (n := _bound(t)) is not None)
        if names:
            found.append((node.lineno, node.end_lineno or node.lineno, names))  # type: ignore[attr-defined]
    return tuple(sorted(found, key=lambda a: a[:2]))


def _bound(target: ast.expr) -> str | tuple[str, ...] | None:
    if isinstance(target, ast.Name):
        return target.id
    if isinstance(target, ast.Attribute):
        return target.attr
    if isinstance(target, ast.Tuple | ast.List):
        return tuple(t.id if isinstance(t, ast.Name) else "_" for t in target.elts)
    return None


def function_name(f: object) -> str:
    """What a function or module is called; a lambda by the variable it was bound to (``f = lambda x: ...``), else by its arguments."""
    name = getattr(f, "__name__", type(f).__name__)
    code = getattr(f, "__code__", None)
    if name != "<lambda>" or code is None:
        return name if name.isidentifier() else "program"
    bound = dict(_lambdas("".join(linecache.getlines(code.co_filename)))).get(code.co_firstlineno)
    return bound or "_".join(("lambda", *code.co_varnames[: min(code.co_argcount, 3)]))


@lru_cache(maxsize=64)
def _lambdas(text: str) -> tuple[tuple[int, str], ...]:
    """(line, variable) of every lambda that is bound to a variable and has its line to itself."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    lines = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Lambda)]
    bound = [n for n in ast.walk(tree) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Lambda) and len(n.targets) == 1]
    named = [(n.value.lineno, n.targets[0].id) for n in bound if isinstance(n.targets[0], ast.Name)]
    return tuple((line, name) for line, name in named if lines.count(line) == 1)


class _Sources:
    """The assignments of source files, each read once."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[tuple[int, int, Targets], ...]] = {}
        self.found: dict[tuple[str, int], tuple[int, Targets] | None] = {}

    def statement(self, file: str, line: int) -> tuple[int, Targets] | None:
        """The innermost assignment that a line belongs to: its first line and its targets."""
        if (file, line) not in self.found:
            if file not in self.files:
                self.files[file] = _parsed("".join(linecache.getlines(file)))
            inside = [a for a in self.files[file] if a[0] <= line <= a[1]]
            inner = max(inside, key=lambda a: (a[0], -a[1]), default=None)
            alone = inner is not None and sum(a[:2] == inner[:2] for a in inside) == 1  # else nobody can say which one made a value
            self.found[file, line] = (inner[0], inner[2]) if inner is not None and alone else None
        return self.found[file, line]


def _executions(graph: Graph) -> Iterator[tuple[Targets, list[Node]]]:
    """Every execution of an assignment, with the nodes that it made, in the order in which executions ended."""
    running: dict[tuple[str, int], tuple[Targets, list[Node]]] = {}
    sources = _Sources()
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        now: dict[tuple[str, int], Targets] = {}
        for file, line in user_frames(node):
            statement = sources.statement(file, line)
            if statement is not None:
                now[file, statement[0]] = statement[1]
        for key in [k for k in reversed(running) if k not in now]:
            yield running.pop(key)
        for key, targets in now.items():
            running.setdefault(key, (targets, []))[1].append(node)
    for key in reversed(list(running)):
        yield running[key]


def _result(made: Sequence[Node]) -> Node:
    """What a statement gives: the last node that something outside of it uses (an operation may have results that nobody uses)."""
    mine = set(made)
    used = [n for n in made if any(u not in mine for u in n.users)]
    return (used or made)[-1]


def _called(graph: Graph) -> list[tuple[str, list[Node]]]:
    """Every call of a torch function by the user, in order: its name, and the nodes that it was decomposed into."""
    calls: dict[tuple[str, str], list[Node]] = {}
    for node in graph.nodes:
        call = node.meta.get("torch_fn") if node.op == "call_function" else None
        if isinstance(call, tuple) and len(call) == 2:
            calls.setdefault((str(call[0]), str(call[1]).rpartition(".")[2].strip("_")), []).append(node)
    return [(name, made) for (_, name), made in calls.items() if name.isidentifier()]


def _item(node: Node) -> tuple[Node, int | None]:
    item: int | None = None
    while node.op == "call_function" and node.target is operator.getitem:
        node, item = node.args
    return node, item


def value_names(
    graph: Graph, values: Mapping[tuple[Node, int | None], Sequence[Term]], terms: Collection[Term]
) -> dict[str, tuple[Term, ...]]:
    """Name -> terms, in order of execution: first the user's variables, then the operations that the user called, then graph nodes; a
    name means what the first of these kinds that has it means.

    ``values``: what each node was read as.  Values that no output needs, and numbers, have no name.
    """
    alive = set(terms)
    found: dict[str, dict[Term, None]] = {}

    def give(name: str, node: Node, item: int | None) -> None:
        if re.fullmatch(r"_+", name):
            return
        for t in values.get((node, item), ()):
            if t in alive and not isinstance(t, Const):
                found.setdefault(name, {}).pop(t, None)
                found[name][t] = None
                return

    for targets, made in _executions(graph):
        for target in targets:
            if isinstance(target, str):
                give(target, *_item(_result(made)))
                continue
            items = [n for n in made if n.target is operator.getitem]
            for k, name in enumerate(target):
                last = [n for n in items if n.args[1] == k]
                if last:
                    give(name, *_item(last[-1]))
    taken = set(found)
    nodes = {n.name.strip("_") for n in graph.nodes if n.op == "call_function" and n.target is not operator.getitem}
    for name, made in _called(graph):
        if name not in taken and name not in nodes:
            give(name, *_item(_result(made)))
    taken = set(found)
    for node in graph.nodes:
        name = node.name.strip("_")
        if node.op == "call_function" and name not in taken and node.target is not operator.getitem:
            give(name, *_item(node))
    return {name: tuple(ts) for name, ts in found.items()}
