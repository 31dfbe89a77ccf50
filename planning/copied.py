"""Copies of what ``optimize`` returns: for ``copy.deepcopy`` and ``pickle`` it is its request, and a copy is planned when it is first used.

A module that holds one of its own has no parameters yet while it is copied or read, so nothing can be traced before.
"""

from __future__ import annotations

import copy
import functools
import pkgutil
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

from ..errors import PickleError
from .request import Request

Again = Callable[..., Any]  # plans a request; given what it is a deep copy of, by its plan, if that serves


class Copied:
    """A pickle holds the function as pickle holds functions and modules, shapes in the places of example tensors, and the options.  A deep
    copy has the function's deep copy, and the plan of the first where that is the same program."""

    request: Request
    _again: Again

    @property
    def _asked(self) -> tuple[Again, Request, Any]:
        """How it is made once more, from what, and what it is a copy of."""
        return self._again, _anywhere(self.request), self

    def __copy__(self) -> Self:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Waiting:
        again, request, model = self._asked
        made = object.__new__(Waiting)
        memo[id(self)] = made  # before the function, which may be a module that holds this
        made.__setstate__((again, replace(request, fn=copy.deepcopy(request.fn, memo)), model))
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        again, request, _ = self._asked
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
        return object.__new__, (Waiting,), (again, request, None)


class Waiting(Copied):
    """A copy that was not used yet.  What class it is then, its program decides: the function may have changed since it was copied."""

    def __setstate__(self, waiting: tuple[Again, Request, Any]) -> None:
        self.__dict__["_waiting"] = waiting

    @property
    def _asked(self) -> tuple[Again, Request, Any]:
        waiting: tuple[Again, Request, Any] = self.__dict__["_waiting"]
        return waiting

    def _planned(self) -> Any:
        """This object, as what was planned for it."""
        again, request, model = self._asked
        made = again(request, model)
        self.__class__, self.__dict__ = type(made), made.__dict__
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._planned()(*args, **kwargs)

    def __str__(self) -> str:
        return str(self._planned())

    def __repr__(self) -> str:
        return repr(self._planned())

    def __getattr__(self, name: str) -> Any:
        if "_waiting" not in self.__dict__ or (name.startswith("__") and name.endswith("__")):  # what Python asks of any object
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return getattr(self._planned(), name)


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
