"""Constants of modules and of launchers, such as the largest block of a kernel, with other values for the time of a test."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

from ..errors import OptionError, shown
from .launcher_locals import assigns, functions, numbers, with_local
from .loops import Loop


@contextlib.contextmanager
def bound(constants: Mapping[str, Any], fn: Callable[..., Any]) -> Iterator[None]:
    """Inside the block, the constants have these values: ``"NAME"`` in the module of ``fn``, ``"package.module.NAME"`` anywhere.

    What is a ``tl.constexpr`` stays one.  A name that the module does not have is that of a local variable of its functions.
    Raises :class:`~eqfuse.errors.OptionError` for a name that there is not.
    """
    with contextlib.ExitStack() as stack:
        for name, value in constants.items():
            namespace, short = _namespace(name, fn)
            if short in namespace:
                old = namespace[short]
                stack.callback(namespace.__setitem__, short, old)
                wraps = type(old).__name__ == "constexpr" and not isinstance(value, type(old))
                namespace[short] = type(old)(value) if wraps else value
                continue
            for function in _with_local(namespace, short, name, fn):
                code = with_local(function, short, getattr(value, "value", value))
                if code is None:
                    cure = "a number, for a name that the source of the function assigns"
                    raise OptionError(f"constants names {name!r}, but {function.__qualname__} cannot be given {shown(value)}", cure=cure)
                stack.callback(setattr, function, "__code__", function.__code__)
                function.__code__ = code
        yield


def _with_local(namespace: dict[str, Any], short: str, name: str, fn: Callable[..., Any]) -> list[FunctionType]:
    """The functions of a module that have the local variable.  Raises OptionError if there are none."""
    found = [f for f in functions(namespace, None if "." in name else fn) if assigns(f, short)]
    if not found:
        modules = {m: getattr(found, "__dict__", None) or {} for m, found in list(sys.modules.items())}
        others = [(getattr(names[short], "__module__", None) != m, m) for m, names in modules.items() if short in names]
        there = ", ".join(f'"{m}.{short}"' for _, m in sorted(others)[:3])  # first where it is defined
        where = name.rpartition(".")[0] or "the module of the second function"
        raise OptionError(f"constants names {name!r}, but there is no {short} in {where}", cure=there or _CURE)
    return found


_CURE = 'constants={"package.module.NAME": 16}, with the module that the launcher or the kernel looks it up in, or that the launcher is in'


def _namespace(name: Any, fn: Callable[..., Any]) -> tuple[dict[str, Any], str]:
    """The module in which a constant is looked for, and its name there."""
    if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
        raise OptionError(f"constants names {shown(name)}", cure=_CURE)
    module, _, short = name.rpartition(".")
    if not module:
        return _globals(fn), short
    try:
        return vars(importlib.import_module(module)), short
    except ImportError as error:
        raise OptionError(f"constants names {name!r}, but {module} cannot be imported: {error}", cure=_CURE) from None


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
    """Constants beside a loop's kernel, of its module or of launchers there, that may bound its blocks: powers of two of at least its step;
    the nearest first."""
    module = next((m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == loop.file), None)
    if module is None:
        return []
    found = [
        (value, name)
        for name, v in vars(module).items()
        if isinstance(value := getattr(v, "value", v), int) and not isinstance(value, bool) and value > 1 and value & (value - 1) == 0
        if name.isupper()
    ]
    found += [pair for function in functions(vars(module)) for pair in numbers(function)]
    return list(dict.fromkeys(f"{module.__name__}.{name}" for value, name in sorted(found) if value >= step))
