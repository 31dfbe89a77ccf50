"""A program of somebody else's: how to make it at its own sizes without data, and at small ones with data."""

import ast
import builtins
import contextlib
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


class Refused(Exception):
    """There is no such program here."""


@dataclass(frozen=True)
class Case:
    """Both give a function or a module, and its arguments.  ``large`` is traced, ``small`` is compared."""

    large: Callable[[], tuple[Any, tuple[Any, ...]]]
    small: Callable[[], tuple[Any, tuple[Any, ...]]] | None = None


@contextlib.contextmanager
def unwritten():
    """Weights are not drawn: their memory is never touched."""
    names = [n for n in vars(torch.nn.init) if n.endswith("_") and not n.startswith("_")]
    before = {n: getattr(torch.nn.init, n) for n in names}
    try:
        for n in names:
            setattr(torch.nn.init, n, lambda tensor, *_, **__: tensor)
        yield
    finally:
        for n, f in before.items():
            setattr(torch.nn.init, n, f)


def definitions(path, name, **known):
    """A function or class of a file, with the others of the file that it uses, without what else the file imports and does; ``known``:
    further names that these use.  A name that is none of these is one of another file beside it, if that is imported."""
    path = Path(path).resolve()
    tree = ast.parse(path.read_text())
    there = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    if name not in there:
        raise Refused(f"{path.name} has no {name}")
    elsewhere = {}
    for n in tree.body:
        if isinstance(n, ast.ImportFrom) and n.module and (beside := path.parents[2] / (n.module.replace(".", "/") + ".py")).exists():
            elsewhere |= {a.asname or a.name: (beside, a.name) for a in n.names}
    module = sys.modules[f"public_{path.stem}"] = types.ModuleType(f"public_{path.stem}")  # as Dynamo imports where a function is from
    found = vars(module)
    found |= {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "Tensor": torch.Tensor, **known}
    todo, wanted = [name], {}
    while todo:
        one = todo.pop()
        if one in there and one not in wanted and (one == name or one not in known):
            wanted[one] = there[one]
            wanted[one].decorator_list = [d for d in there[one].decorator_list if isinstance(d, ast.Name) and d.id in dir(builtins)]
            todo += [n.id for n in ast.walk(there[one]) if isinstance(n, ast.Name)]
        elif one in elsewhere and one not in found:
            found[one] = definitions(*elsewhere[one], **known)
    future = ast.parse("from __future__ import annotations").body
    body = [n for n in tree.body if n in wanted.values()]
    exec(compile(ast.Module([*future, *body], []), str(path), "exec"), found)
    return found[name]
