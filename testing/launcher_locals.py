"""Local constants of launchers, such as ``MAX_FUSED_SIZE = 65536 // x.element_size()``, with other values for the time of a test.

A function gets code in which each assignment to the name is followed by one of the value::

    BLOCK, warps = settings(n)  ->  BLOCK, warps = settings(n); BLOCK = 16
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any


def functions(namespace: dict[str, Any], fn: Any = None) -> Iterator[FunctionType]:
    """The functions of a module, methods of its classes and what decorators wrap among them; and ``fn``."""
    module = namespace.get("__name__")
    found = [fn, *(v for v in namespace.values() if getattr(v, "__module__", None) == module)]
    for value in list(found):
        if inspect.isclass(value):
            found += vars(value).values()
    seen = set()
    for value in found:
        while value is not None and id(value) not in seen:
            seen.add(id(value))
            value = getattr(value, "__func__", value)
            if isinstance(value, FunctionType):
                yield value
            value = value.func if isinstance(value, functools.partial) else getattr(value, "__wrapped__", None)


def assigns(function: FunctionType, name: str) -> bool:
    """Whether it is a local variable of a function, and not a parameter."""
    code = function.__code__
    parameters = code.co_argcount + code.co_kwonlyargcount
    return name in code.co_cellvars or name in code.co_varnames[parameters:]


def with_local(function: FunctionType, name: str, value: Any) -> CodeType | None:
    """The code of the function in which the local variable has the value; None if its source is not known or assigns it nowhere."""
    code = function.__code__
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename, function.__globals__)))
        node = _definition(tree, code)
        if node is None or not _Assigning(name, ast.parse(repr(value), mode="eval").body).of(node):
            return None
        made = _found(compile(ast.fix_missing_locations(tree), code.co_filename, "exec", dont_inherit=True), code)
    except (OSError, SyntaxError, ValueError):
        return None
    return made if made is not None and made.co_freevars == code.co_freevars else None


def numbers(function: FunctionType) -> Iterator[tuple[int, str]]:
    """Local variables in capitals that are assigned something with a power of two in it, and the largest such number."""
    try:
        node = _definition(ast.parse("".join(linecache.getlines(function.__code__.co_filename))), function.__code__)
    except (OSError, SyntaxError, ValueError):
        return
    for statement in ast.walk(node) if node is not None else ():
        if isinstance(statement, ast.Assign) and isinstance(target := statement.targets[0], ast.Name) and target.id.isupper():
            known = [n.value for n in ast.walk(statement.value) if isinstance(n, ast.Constant) and type(n.value) is int]
            if powers := [n for n in known if n > 1 and n & (n - 1) == 0]:
                yield max(powers), target.id


def _definition(tree: ast.Module, code: CodeType) -> ast.FunctionDef | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    return None


def _found(outer: CodeType, like: CodeType) -> CodeType | None:
    """The code of the same function among the constants of another."""
    if (outer.co_name, outer.co_firstlineno) == (like.co_name, like.co_firstlineno):
        return outer
    inner = (_found(c, like) for c in outer.co_consts if isinstance(c, CodeType))
    return next((c for c in inner if c is not None), None)


class _Assigning(ast.NodeTransformer):
    """Puts ``name = value`` behind every assignment to the name in one function, but not in those inside of it."""

    def __init__(self, name: str, value: ast.expr) -> None:
        self.name, self.value, self.many = name, value, 0

    def of(self, node: ast.FunctionDef) -> bool:
        self.generic_visit(node)
        return self.many > 0

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return node
        if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            return self.generic_visit(node)
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if not any(isinstance(n, ast.Name) and n.id == self.name for t in targets for n in ast.walk(t)):
            return node
        self.many += 1
        after = ast.Assign([ast.Name(self.name, ast.Store())], self.value)
        return [node, ast.copy_location(after, node)]
