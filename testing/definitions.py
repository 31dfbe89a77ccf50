"""How a printed program makes a function known: by import, by its source with what it uses, or not at all.

A lambda, or a function inside another, has no name that can be imported.  Its source can be printed if all that it uses can be made
known in turn: numbers and types are written out, modules and what lies at the top of a module are imported.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch


class Unknown(Exception):
    """It cannot be made known."""


class Definitions:
    """Lines that make functions known; ``lines`` is what has been collected.  Names that are ``taken`` mean something else."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.lines: dict[str, None] = {}
        self._known: dict[str, Any] = {name: object() for name in taken} | {"torch": torch}

    def name(self, fn: Any, fallback: str) -> str:
        """How the program calls the function; raises :class:`Unknown`."""
        before, known = dict(self.lines), dict(self._known)
        try:
            return self._name(fn, fallback)
        except Unknown:
            self.lines, self._known = before, known
            raise

    def _name(self, fn: Any, fallback: str) -> str:
        owner = getattr(fn, "__self__", None)
        if isinstance(owner, type):  # a class method, such as the apply of an autograd function
            return f"{self._imported(owner)}.{fn.__name__}"
        short = getattr(fn, "__name__", "")
        for home, prefix in ((torch.Tensor, "torch.Tensor"), (torch, "torch")):
            if short and getattr(home, short, None) is fn:
                return f"{prefix}.{short}"
        try:
            return self._imported(fn)
        except Unknown:
            return self._defined(fn, fallback)

    def _imported(self, value: Any) -> str:
        """A function or class at the top of a module, under its own name."""
        name = getattr(value, "__qualname__", "")
        home = sys.modules.get(getattr(value, "__module__", None) or "")
        if not name.isidentifier() or home is None or getattr(home, name, None) is not value:
            raise Unknown
        return self._from(home, name, value)

    def _from(self, home: ModuleType, name: str, value: Any) -> str:
        module = home.__name__
        if module == "__main__":  # a script: its file, if that can be imported
            module = Path(getattr(home, "__file__", None) or "").stem
        if not module or not all(part.isidentifier() for part in module.split(".")):
            raise Unknown
        return self._line(name, value, f"from {module} import {name}")

    def _line(self, name: str, value: Any, line: str) -> str:
        """A line that gives a name its value; one name has one value."""
        if name in self._known:
            same = self._known[name] is value or line in self.lines
            if not same:
                raise Unknown
            return name
        self._known[name] = value
        self.lines[line] = None
        return name

    def _defined(self, fn: Any, fallback: str) -> str:
        """By source."""
        if not isinstance(fn, FunctionType) or hasattr(fn, "__wrapped__"):
            raise Unknown
        node, lines = _node(fn)
        if isinstance(node, ast.FunctionDef) and node.name in self._known:
            raise Unknown
        home = sys.modules.get(fn.__module__)
        nonlocals = inspect.getclosurevars(fn).nonlocals
        for name in sorted(_names(node)):
            if name in nonlocals:
                self._value(name, nonlocals[name])
            elif name in fn.__globals__:
                self._value(name, fn.__globals__[name], home)
            elif not hasattr(builtins, name):
                raise Unknown  # a default that is evaluated where the function is made
        if isinstance(node, ast.Lambda):
            return self._line(fallback, fn, f"{fallback} = {ast.unparse(node)}")
        return self._line(node.name, fn, textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno])))

    def _value(self, name: str, value: Any, home: ModuleType | None = None) -> None:
        """What a function uses, under the name that it uses."""
        if name in self._known and self._known[name] is value:
            return
        if isinstance(value, ModuleType):
            short = "import torch" if value is torch and name == "torch" else f"import {value.__name__} as {name}"
            self._line(name, value, short if value.__name__ != name else f"import {name}")
        elif _written(value):
            self._line(name, value, f"{name} = {value!r}")
        elif home is not None and getattr(home, name, None) is value:
            self._from(home, name, value)
        elif isinstance(value, FunctionType) and self._name(value, name) == name:
            return
        else:
            raise Unknown


def _written(value: Any) -> bool:
    """Its ``repr`` makes it again."""
    if isinstance(value, tuple):
        return all(map(_written, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or type(value) in (bool, int, str) or isinstance(value, torch.dtype)


def _node(fn: FunctionType) -> tuple[ast.Lambda | ast.FunctionDef, list[str]]:
    """The function in the syntax tree of its file, and the lines of that file."""
    try:
        lines = [line.rstrip("\n") for line in inspect.findsource(fn)[0]]
        tree = ast.parse("\n".join(lines))
    except (OSError, TypeError, SyntaxError):
        raise Unknown from None
    code = fn.__code__
    kind = ast.Lambda if fn.__name__ == "<lambda>" else ast.FunctionDef
    found: list[Any] = [n for n in ast.walk(tree) if isinstance(n, kind) and n.lineno == code.co_firstlineno and not _decorated(n)]
    if len(found) > 1:  # lambdas on one line
        found = [n for n in found if _alike(_compiled(n), code)]
    if not found or len({ast.unparse(n) for n in found}) > 1:
        raise Unknown
    return found[0], lines


def _decorated(node: ast.AST) -> bool:
    return bool(getattr(node, "decorator_list", ()))


def _compiled(node: ast.Lambda) -> CodeType:
    """The code of a lambda by itself."""
    whole = compile(ast.unparse(node), "?", "eval")
    return next(c for c in whole.co_consts if isinstance(c, CodeType))


def _alike(a: CodeType, b: CodeType) -> bool:
    """Are they of one source?  Names from outside are free variables in the one and globals in the other."""

    def key(c: CodeType) -> Any:
        constants = [key(k) if isinstance(k, CodeType) else repr(k) for k in c.co_consts if not _a_name(k)]
        return c.co_varnames[: c.co_argcount + c.co_kwonlyargcount], constants, {*c.co_names, *c.co_freevars}

    return bool(key(a) == key(b))


def _a_name(constant: Any) -> bool:
    return isinstance(constant, str) and "<locals>" in constant


def _names(node: ast.Lambda | ast.FunctionDef) -> set[str]:
    """Names that are used and not made inside."""

    def made() -> Iterator[str]:
        for n in ast.walk(node):
            if isinstance(n, ast.arg):
                yield n.arg
            elif isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load):
                yield n.id
            elif isinstance(n, ast.FunctionDef | ast.ClassDef) and n is not node:
                yield n.name
            elif isinstance(n, ast.alias):
                yield (n.asname or n.name).split(".")[0]
            elif isinstance(n, ast.ExceptHandler) and n.name:
                yield n.name

    used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return used - set(made()) - {getattr(node, "name", "")}
