"""Associative scans of torch as one operator: ``eqfuse_scan::associative(xs, combine, dim)``, prefixes of tuples of tensors.

While a function is traced, ``torch._higher_order_ops.associative_scan`` gives this operator in the place of the slices and
concatenations of its definition (``combine_mode="generic"``) or of its own operator (``"pointwise"``).  ``combine`` names the function of
two tuples, which is traced when the operator is read (:mod:`.aten_associative`): it is kept here until then.  Where a gradient is
wanted, and where torch runs the operator, it is the definition.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

Combine = Callable[..., Sequence[torch.Tensor]]  # the parts of two tuples, one after the other, to those of one
COMBINES: dict[str, Combine] = {}  # by the name in the operator

of_torch: Any = importlib.import_module("torch._higher_order_ops.associative_scan")  # torch has a function of this name there, too
_generic = of_torch.generic_associative_scan
_names = itertools.count()
_library = torch.library.Library("eqfuse_scan", "DEF")
_library.define("associative(Tensor[] xs, str combine, int dim) -> Tensor[]", tags=(torch.Tag.pt2_compliant_tag,))
_SAME = {torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64}


def associative(combine: Combine, xs: Sequence[torch.Tensor], additional_inputs: Sequence[Any] = (), dim: int = 0) -> list[torch.Tensor]:
    """The operator, called with the arguments of torch's own."""
    given = tuple(additional_inputs)
    alike = len({x.shape for x in xs}) == 1 and all(x.dtype in _SAME for x in xs)  # else a combine function may broadcast or promote
    if not alike or any(isinstance(x, torch.Tensor) for x in given):
        return list(_generic(combine, list(xs), dim, given))
    name = f"combine{next(_names)}"
    COMBINES[name] = lambda *parts: torch.utils._pytree.tree_leaves(combine(*parts, *given))
    return list(torch.ops.eqfuse_scan.associative(list(xs), name, dim))


def _run(xs: list[torch.Tensor], combine: str, dim: int) -> list[torch.Tensor]:
    return [x.clone() for x in _generic(COMBINES[combine], xs, dim)]


def _fake(xs: list[torch.Tensor], combine: str, dim: int) -> list[torch.Tensor]:
    return [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in xs]


def _differentiable(keys: Any, xs: list[torch.Tensor], combine: str, dim: int) -> list[torch.Tensor]:
    if torch.is_grad_enabled() and any(x.requires_grad for x in xs):
        return list(_generic(COMBINES[combine], xs, dim))
    with torch._C._AutoDispatchBelowAutograd():
        return list(torch.ops.eqfuse_scan.associative.default.redispatch(keys & torch._C._after_autograd_keyset, xs, combine, dim))


_library.impl("associative", _run, "CompositeExplicitAutograd")
_library.impl("associative", _differentiable, "Autograd", with_keyset=True)
torch.library.register_fake("eqfuse_scan::associative", _fake, lib=_library)


@contextlib.contextmanager
def kept_whole() -> Iterator[None]:
    """Where associative scans are one operator."""

    def generic(operator: Combine, leaves: Sequence[Any], dim: int = 0, additional_inputs: Sequence[Any] = ()) -> list[torch.Tensor]:
        return associative(operator, leaves, additional_inputs, dim)

    ours = {
        "generic_associative_scan": generic,
        "associative_scan_op": associative,
        "_maybe_compile_and_run_fn": lambda f, *args: f(*args),
    }
    before = {name: getattr(of_torch, name) for name in ours if hasattr(of_torch, name)}
    try:
        for name in before:
            setattr(of_torch, name, ours[name])
        yield
    finally:
        for name, value in before.items():
            setattr(of_torch, name, value)
