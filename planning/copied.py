"""Copies of what ``optimize`` returns: for ``copy.deepcopy`` and ``pickle`` it is its request, and a copy is planned when it is first used.

A module that holds one of its own has no parameters yet while it is copied or read, so nothing can be traced before.
"""

from __future__ import annotations

import copy
import functools
import pkgutil
import sys
import types
from dataclasses import replace
from typing import Any, Self

from ..errors import PickleError
from .request import Request


class Copied:
    """What has a ``form`` that was planned for a request, or will be when it is first asked for.

    A pickle holds the function as pickle holds functions and modules, shapes in the places of example tensors, and the options.  A deep
    copy has the function's deep copy, and the plan of the first where that is the same program.
    """

    form: Any
    _waiting: tuple[Request, Any]  # of a copy: what is planned when its form is asked for, and the form of what it is a copy of

    @property
    def _asked(self) -> tuple[Request, Any]:
        """The same for another copy."""
        return (_anywhere(self.form.request), self.form) if "form" in self.__dict__ else self._waiting

    def __copy__(self) -> Self:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        request, model = self._asked
        made = object.__new__(type(self))
        memo[id(self)] = made  # before the function, which may be a module that holds this
        made.__setstate__((replace(request, fn=copy.deepcopy(request.fn, memo)), model))
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        request, _ = self._asked
        function = _function(request.fn)
        if function is not None:
            named = f"{function.__module__}:{function.__qualname__}"
            found = _found(named)
            if found is self:  # it stands under the name of its function, as a decorator leaves it
                return pkgutil.resolve_name, (named,)
            if found is not function:
                raise PickleError(
                    f"no other process finds a function under the name {named}",
                    where="pickle",
                    cure="optimize a function at the top level of a module, or an nn.Module; or write a module with .save(path)",
                )
        return object.__new__, (type(self),), (request, None)

    def __setstate__(self, waiting: tuple[Request, Any]) -> None:
        self._waiting = waiting

    def __getattr__(self, name: str) -> Any:
        """What the form has beside, as the values that a training step saves."""
        if name in ("form", "_waiting") or (name.startswith("__") and name.endswith("__")):  # what Python asks of any object
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return getattr(self.form, name)


def _anywhere(request: Request) -> Request:
    """The same for arguments on no device: a copy of a module may have moved before it is called."""
    from torch.utils import _pytree as pytree

    from ..frontends.spec import ANYWHERE, TensorSpec

    def moved(x: Any) -> Any:
        return replace(x, device=ANYWHERE) if isinstance(x, TensorSpec) else x

    args, kwargs = pytree.tree_map(moved, (request.args, request.kwargs))
    return replace(request, args=args, kwargs=kwargs)


def _function(fn: Any) -> types.FunctionType | None:
    """The function that pickle looks for by its name; ``None`` for what it takes apart."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn if isinstance(fn, types.FunctionType) else None


def _found(named: str) -> Any:
    module, _, name = named.partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
