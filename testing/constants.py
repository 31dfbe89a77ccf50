"""Module-level constants, such as the largest block of a kernel, with other values for the time of a test."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..errors import OptionError, shown
from .loops import Loop


@contextlib.contextmanager
def bound(constants: Mapping[str, Any], fn: Callable[..., Any]) -> Iterator[None]:
    """Inside the block, the constants have these values: ``"NAME"`` in the module of ``fn``, ``"package.module.NAME"`` anywhere.

    What is a ``tl.constexpr`` stays one.  Raises :class:`~eqfuse.errors.OptionError` for a name that there is not.
    """
    saved = []
    for name, value in constants.items():
        namespace, short = _namespace(name, fn)
        saved.append((namespace, short, namespace[short], value))
    try:
        for namespace, short, old, value in saved:
            wraps = type(old).__name__ == "constexpr" and not isinstance(value, type(old))
            namespace[short] = type(old)(value) if wraps else value
        yield
    finally:
        for namespace, short, old, _ in saved:
            namespace[short] = old


def _namespace(name: Any, fn: Callable[..., Any]) -> tuple[dict[str, Any], str]:
    """Where the constant is bound, and as what."""
    cure = 'constants={"package.module.NAME": 16}, with the module that the launcher or the kernel looks it up in'
    if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
        raise OptionError(f"constants names {shown(name)}", cure=cure)
    module, _, short = name.rpartition(".")
    if not module:
        namespace, where = _globals(fn), "the module of the second function"
    else:
        try:
            namespace, where = vars(importlib.import_module(module)), module
        except ImportError as error:
            raise OptionError(f"constants names {name!r}, but {module} cannot be imported: {error}", cure=cure) from None
    if short not in namespace:
        modules = {m: getattr(found, "__dict__", None) or {} for m, found in list(sys.modules.items())}
        others = [(getattr(names[short], "__module__", None) != m, m) for m, names in modules.items() if short in names]
        there = ", ".join(f'"{m}.{short}"' for _, m in sorted(others)[:3])  # first where it is defined
        raise OptionError(f"constants names {name!r}, but there is no {short} in {where}", cure=there or cure)
    return namespace, short


def _globals(fn: Any) -> dict[str, Any]:
    """The namespace of the module that a function stands in."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    fn = inspect.unwrap(fn)
    found = getattr(getattr(fn, "__func__", fn), "__globals__", None)
    owner = getattr(fn, "__self__", None)
    if found is None or isinstance(owner, type):  # the apply of an autograd function, or an instance
        module = sys.modules.get(getattr(owner if isinstance(owner, type) else type(fn), "__module__", ""))
        found = vars(module) if module is not None else found
    return found if found is not None else {}


def blocks(loop: Loop, step: int) -> list[str]:
    """Constants beside a loop's kernel that may bound its blocks: powers of two of at least its step; the nearest first."""
    module = next((m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == loop.file), None)
    if module is None:
        return []
    found = [
        (value, name)
        for name, v in vars(module).items()
        if isinstance(value := getattr(v, "value", v), int) and not isinstance(value, bool) and value > 1 and value & (value - 1) == 0
        if value >= step and name.isupper()
    ]
    return [f"{module.__name__}.{name}" for _, name in sorted(found)]
