"""A declared op as a function on torch tensors and on terms.

In a torch program it is one operator, ``eqfuse_op::<name>``, which tracing keeps whole and the table of :mod:`.aten` reads as the term.
Run by torch, it is the given torch function; without one, numpy's meaning in float64, on the CPU only.  Its derivative is that of
the torch function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as PROMOTION
from torch._prims_common import elementwise_dtypes

from ..errors import DeviceError, OpError, UnsupportedOpError
from ..ir import ops
from ..ir.ops import ScalarOp
from ..ir.terms import Map, Term, as_term
from . import aten
from .aten_pointwise import pointwise

NAMESPACE = "eqfuse_op"
_PROMOTION = {"float": PROMOTION.INT_TO_FLOAT, "same": PROMOTION.DEFAULT, "int": PROMOTION.DEFAULT, "bool": PROMOTION.ALWAYS_BOOL}
TorchFunction = Callable[..., torch.Tensor]


@dataclass(frozen=True, eq=False)
class DeclaredOp:
    """An op of the user's.  Call it on tensors, on terms, on arrays or on numbers; numbers go with any of them."""

    spec: ScalarOp
    torch_function: TorchFunction | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Its name: in terms, in printed programs and kernels, and as ``torch.ops.eqfuse_op.<name>``."""
        return self.spec.name

    @property
    def where(self) -> str:
        """``file:line`` of the declaration."""
        return self.spec.where

    def __call__(self, *args: Any) -> Any:
        if len(args) != self.spec.arity:
            raise OpError(f"op {self.name} takes {self.spec.arity} arguments, not {len(args)}", where=self.where)
        operator: Any = getattr(getattr(torch.ops, NAMESPACE), self.name, None)
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        if any(isinstance(a, Term) for a in args):
            return Map(self.name, tuple(as_term(a) for a in args))
        if any(isinstance(a, torch.fx.Proxy) for a in args):
            return operator(*args)
        if not tensors:
            with np.errstate(all="ignore"):
                return self.spec.numpy(*map(np.asarray, args))
        device = next((t.device for t in tensors if t.dim()), tensors[0].device)
        given = [a if isinstance(a, torch.Tensor) else torch.full((), a, dtype=_type_of(a), device=device) for a in args]
        return operator(*given)

    def unregister(self) -> None:
        """Take the declaration back.  Programs that use the op lose their meaning: for tests and notebooks."""
        if ops.OPS.get(self.name) is self.spec:
            ops.unregister(self.name)
            aten.OPS.pop(f"{NAMESPACE}.{self.name}.default", None)


def _type_of(number: Any) -> torch.dtype:
    """The type of a number in torch: numbers do not widen tensors of their own kind."""
    if isinstance(number, bool):
        return torch.bool
    return torch.int64 if isinstance(number, int) else torch.get_default_dtype()


def declare(spec: ScalarOp, function: TorchFunction | None) -> DeclaredOp:
    """Make a checked op known: to terms, to torch and to the front end.  Its name must be free."""
    _register_operator(spec, function)
    ops.register(spec)
    key = f"{NAMESPACE}.{spec.name}.default"
    aten.OPS.pop(key, None)
    pointwise(key)(lambda *args: Map(spec.name, tuple(as_term(a) for a in args)))
    return DeclaredOp(spec, function)


def _types(spec: ScalarOp, tensors: tuple[torch.Tensor, ...]) -> tuple[torch.dtype, torch.dtype]:
    """The type that torch would compute in, and that of the result."""
    if any(t.dtype.is_complex for t in tensors):
        raise UnsupportedOpError(f"op {spec.name} is not defined for complex numbers", where=spec.where)
    compute, result = elementwise_dtypes(*tensors, type_promotion_kind=_PROMOTION[spec.result])
    return compute, result


def in_torch(spec: ScalarOp, function: TorchFunction, tensors: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """The torch function in the type that torch computes in, rounded to the type of the result."""
    compute, result = _types(spec, tensors)
    return function(*(t.to(compute) for t in tensors)).to(result)


def in_numpy(spec: ScalarOp, tensors: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """numpy's meaning in float64, rounded once to the type of the result; CPU tensors only."""
    device = _device(tensors)
    if device.type != "cpu":
        raise DeviceError(
            f"op {spec.name} has no torch function, so torch cannot run it on {device.type}",
            where=spec.where,
            cure="declare it with torch=..., or call what eqfuse.optimize returns: its kernels have the Triton spelling",
        )
    _, result = _types(spec, tensors)
    with np.errstate(all="ignore"):
        found = np.asarray(spec.numpy(*(t.detach().to(torch.float64).numpy() for t in tensors)))
    shape = torch.broadcast_shapes(*(t.shape for t in tensors))
    return torch.from_numpy(np.array(found, order="C")).to(result).reshape(shape).contiguous()


def _register_operator(spec: ScalarOp, function: TorchFunction | None) -> None:
    """``eqfuse_op::<name>``.  Where a gradient is wanted, the operator *is* the torch function, so torch differentiates it as ever."""
    names = "xyz"[: spec.arity]

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        if function is None:
            return in_numpy(spec, tensors)
        found = in_torch(spec, function, tensors).contiguous()
        return found.clone() if any(found.data_ptr() == t.data_ptr() for t in tensors) else found

    def fake(*tensors: torch.Tensor) -> torch.Tensor:
        _, result = _types(spec, tensors)
        return torch.empty(torch.broadcast_shapes(*(t.shape for t in tensors)), dtype=result, device=_device(tensors))

    def with_gradient(keys: Any, *tensors: torch.Tensor) -> torch.Tensor:
        def below(*given: torch.Tensor) -> torch.Tensor:
            with torch._C._AutoDispatchBelowAutograd():
                return operator().redispatch(keys & torch._C._after_autograd_keyset, *given)

        if spec.result == "bool" or not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)):
            return below(*tensors)
        if function is not None:
            return in_torch(spec, function, tensors)
        return _without_derivative(spec, below, tensors)

    def operator() -> Any:
        return getattr(getattr(torch.ops, NAMESPACE), spec.name).default

    if spec.name in _libraries:  # declared again, after it was taken back
        _libraries.pop(spec.name)._destroy()
    library = _libraries[spec.name] = torch.library.Library(NAMESPACE, "FRAGMENT")
    library.define(f"{spec.name}({', '.join(f'Tensor {n}' for n in names)}) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(spec.name, run, "CompositeExplicitAutograd")
    library.impl(spec.name, with_gradient, "Autograd", with_keyset=True)
    torch.library.register_fake(f"{NAMESPACE}::{spec.name}", fake, lib=library)


_libraries: dict[str, torch.library.Library] = {}


def _device(tensors: tuple[torch.Tensor, ...]) -> torch.device:
    return next((t.device for t in tensors if t.dim()), tensors[0].device)


def _no_derivative(spec: ScalarOp) -> UnsupportedOpError:
    return UnsupportedOpError(
        f"op {spec.name} has no derivative", where=spec.where, cure="declare it with torch=..., a function that torch can differentiate"
    )


def _without_derivative(spec: ScalarOp, below: TorchFunction, tensors: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """The value, with an error in place of the derivative: most programs with parameters never ask for it."""
    if torch._C._are_functorch_transforms_active():
        raise _no_derivative(spec)

    class Opaque(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *given: torch.Tensor) -> torch.Tensor:
            return below(*given)

        @staticmethod
        def backward(ctx: Any, *cotangents: torch.Tensor) -> Any:
            raise _no_derivative(spec)

    found: torch.Tensor = Opaque.apply(*tensors)
    return found
