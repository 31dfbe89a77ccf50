"""Shapes and types in place of tensors: what a tensor argument looks like when there is no data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import TraceError
from ..ir.dtypes import DTYPES, DType

_TORCH = {name: getattr(torch, name) for name in DTYPES}
_NAMES = {t: n for n, t in _TORCH.items()}


ANYWHERE = "any"  # wherever the other arguments are


@dataclass(frozen=True)
class TensorSpec:
    """A tensor argument without data.  ``strides`` (in elements) default to contiguous."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    strides: tuple[int, ...] | None = None
    device: str = ANYWHERE

    @property
    def stride(self) -> tuple[int, ...]:
        """The strides, in elements."""
        if self.strides is not None:
            return self.strides
        return tuple(max(math.prod(self.shape[d + 1 :]), 1) for d in range(len(self.shape)))


def torch_dtype(d: Any) -> torch.dtype:
    """A torch dtype from a torch, numpy or EqFuse dtype or a name."""
    if isinstance(d, torch.dtype):
        return d
    name = d if isinstance(d, str) else getattr(d, "name", None) or getattr(d, "__name__", str(d))
    if name not in _TORCH:
        raise TraceError(f"element type {name!r} is not supported", cure=f"use one of {', '.join(_TORCH)}")
    return _TORCH[name]


def ir_dtype(d: torch.dtype, what: str = "a tensor") -> DType:
    """The IR's element type of a torch dtype; TraceError where there is none."""
    name = _NAMES.get(d)
    if name is None:
        raise TraceError(f"{what} has element type {d}, which is not supported", cure=f"use one of {', '.join(_TORCH)}")
    return DTYPES[name]


def spec_of(x: Any) -> TensorSpec | None:
    """The spec of a tensor or of anything with ``shape`` and ``dtype``; ``None`` for other values."""
    if isinstance(x, TensorSpec):
        return x
    if isinstance(x, torch.Tensor):
        if x.layout != torch.strided:
            raise TraceError(f"a {x.layout} tensor has no strides", cure="pass a dense tensor: .to_dense()")
        return TensorSpec(tuple(x.shape), x.dtype, tuple(x.stride()), str(x.device))
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return TensorSpec(tuple(int(n) for n in x.shape), torch_dtype(x.dtype))
    return None


def value_key(value: Any) -> tuple[type, str]:
    """Equal for arguments that make the same program: 2 is not 2.0, 1 is not True, -0.0 is not 0.0, and NaN is NaN."""
    return type(value), repr(value)
