"""Programs of nested tensors: planned as programs of dense ones (:mod:`.frontends.nested`), which every call is opened for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch
from torch.utils import _pytree as pytree

from .errors import StaticArgumentError, TraceError
from .extract.targets import Target
from .frontends.calls import argument_names
from .frontends.convention import Convention, flattened, training
from .frontends.naming import function_name
from .frontends.nested import Rows, closed, dense_function, opened
from .frontends.spec import is_nested, on_no_device, spec_of, value_key
from .planning import Request
from .planning.composite import kept
from .runtime.executable import transformed
from .training import held

if TYPE_CHECKING:
    from .runtime.accuracy import AccuracyReport


class _Served(NamedTuple):
    """The program that serves a call and what it takes; ``owners`` as in :class:`~.frontends.nested.Opened`."""

    form: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    owners: Mapping[int, Any]


class Nested:
    """A program of nested tensors.  Call it like the function it came from.

    ``inner`` is the program of dense tensors, in whatever form, which plans for other sizes, types and numbers.  Arguments in another
    structure (nested or dense, with offsets of their own or shared ones) are planned for once each.  What ``inner`` has beside is an
    attribute here, too.  ``form_of`` plans; ``model``: a program of another function, whose plan serves if it is the same.
    """

    def __init__(self, request: Request, form_of: Callable[..., Any], model: Any = None) -> None:
        self.fn, self._form_of = request.fn, form_of
        if not callable(self.fn) or isinstance(self.fn, torch.export.ExportedProgram):
            raise TraceError(f"a {type(self.fn).__name__} takes no nested tensors", cure="pass x.values() and x.offsets(): docs/ragged.md")
        args, kwargs = tuple(request.args or ()), dict(request.kwargs or {})
        flat, spec = flattened(args, kwargs)
        self._names = argument_names(self.fn, args, kwargs)
        call = opened(flat, self._names)
        self._places, name = call.places, request.name or function_name(self.fn)
        leaves = [(spec_of(x.values() if is_nested(x) else x), x) for x in flat]
        target = self.fn.forward if isinstance(self.fn, torch.nn.Module) else self.fn  # whose mode is a matter of what is inside
        self._convention = Convention(name, target, spec, tuple(x if s is None else s for s, x in leaves))
        dense = replace(request, fn=dense_function(self.fn, call, spec), args=call.dense, kwargs=None, name=name)
        self.inner: Any = form_of(dense, model.inner if isinstance(model, Nested) else None)
        args, kwargs = pytree.tree_map(on_no_device, (args, kwargs))
        self.request = replace(request, args=args, kwargs=kwargs, traced=None)
        self._variants: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self.inner, name)

    # running --------------------------------------------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on the device of the arguments.  In graphs of ``torch.compile``, in transforms of ``torch.func``, and for a gradient that was
        not planned for, the original function runs in torch."""
        if torch.compiler.is_compiling() or transformed() or (not self.request.training and self._learns(args, kwargs)):
            return self.fn(*args, **kwargs)
        return self._run(lambda form: form, args, kwargs)

    def eager(self, *args: Any, **kwargs: Any) -> Any:
        """The original function."""
        return self.fn(*args, **kwargs)

    def interpret(self, *args: Any, sanitize: bool = True, **kwargs: Any) -> Any:
        """The result by Triton's interpreter."""
        return self._run(lambda form: partial(form.interpret, sanitize=sanitize), args, kwargs)

    def simulate(self, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        """The result by the numpy tile interpreter."""
        return self._run(lambda form: partial(form.simulate, dtype=dtype), args, kwargs)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """The tensor of every input; of nested arguments their parts."""
        call = self._served(args, kwargs)
        found: dict[str, torch.Tensor] = call.form.bind(call.args, call.kwargs)
        return found

    def errors(self, args: Sequence[Any], kwargs: Mapping[str, Any], runner: str) -> AccuracyReport:
        """Errors against float64."""
        call = self._served(args, kwargs)
        found: AccuracyReport = call.form.errors(call.args, call.kwargs, runner)
        return found

    def _run(self, way: Callable[[Any], Callable[..., Any]], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        call = self._served(args, kwargs)

        def result(x: Any) -> Any:
            if not isinstance(x, Rows):
                return x
            if not isinstance(x.offsets, int):
                return closed(*x)
            owner = call.owners[x.offsets]
            return closed(x.values, owner.offsets(), x.ragged, owner._min_seqlen_tensor, owner._max_seqlen_tensor)

        return pytree.tree_map(result, way(call.form)(*call.args, **call.kwargs), is_leaf=lambda x: isinstance(x, Rows))

    def _learns(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        given = (x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor))
        return torch.is_grad_enabled() and any(x.requires_grad for x in (*given, *held(self.fn).values()))

    def _served(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Served:
        """The program that serves a call, and what it takes."""
        try:
            call = opened(self._convention.arranged(args, kwargs), self._names)
            if call.places == self._places:
                return _Served(self.inner, call.dense, {}, call.owners)
        except StaticArgumentError:  # another default, another structure
            pass
        flat, spec = flattened(args, kwargs)
        values = tuple(value_key(x) for x in flat if not isinstance(x, torch.Tensor))
        key = training(self.fn), str(spec), opened(flat, [""] * len(flat)).places, values
        form = kept(self._variants, key, lambda: self._form_of(replace(self.request, args=tuple(args), kwargs=dict(kwargs))))
        return form._served(args, kwargs) if isinstance(form, Nested) else _Served(form, args, kwargs, {})

    # planning again -------------------------------------------------------------------------------------------------------------------
    def at(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Self:
        """The same kernels for arguments of other sizes."""
        call = self._served(args, kwargs)
        return self._with(call.form.at(call.args, call.kwargs), self.request)

    def on(self, target: Target) -> Self:
        """The same program planned for another target."""
        return self._with(self.inner.on(target), replace(self.request, target=target))

    def _with(self, inner: Any, request: Request) -> Self:
        made = copy.copy(self)
        made.inner, made.request, made._variants = inner, request, {}
        return made

    def standalone(self, sizes: Sequence[Sequence[Any]]) -> str:
        """The module, which takes the parts of nested tensors and returns those of nested results."""
        found: str = self.inner.standalone([self._served(args, {}).args for args in sizes])
        return found
