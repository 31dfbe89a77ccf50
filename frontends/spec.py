"""Shapes and types in place of tensors: what a tensor argument looks like when there is no data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from ..errors import TraceError
from ..ir.dtypes import INPUTS, DType
from ..ir.samples import Sample
from ..ir.strides import layout_kind

_TORCH = {name: getattr(torch, name) for name in INPUTS}
_NAMES = {t: n for n, t in _TORCH.items()}


ANYWHERE = "any"  # wherever the other arguments are


@dataclass(frozen=True)
class TensorSpec:
    """A tensor argument without data.  ``strides`` (in elements) default to contiguous; ``sample``: what integers to
    expect, of lengths and offsets, :meth:`eqfuse.ir.samples.Sample.of` an array of such; it changes what plans cost alone."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    strides: tuple[int, ...] | None = None
    device: str = ANYWHERE
    sample: Sample | None = field(default=None, compare=False, repr=False)

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
    return INPUTS[name]


def spec_of(x: Any) -> TensorSpec | None:
    """The spec of a tensor or of anything with ``shape`` and ``dtype``; ``None`` for other values."""
    if isinstance(x, TensorSpec):
        return x
    if isinstance(x, torch.Tensor):
        if x.is_nested:
            raise TraceError(
                "the rows of a nested tensor have lengths of their own",
                cure="pass a nested tensor of layout=torch.jagged, or x.to_padded_tensor(0.0) and the lengths: docs/ragged.md",
            )
        if x.is_quantized:
            raise TraceError("a quantized tensor holds integers and a scale of its own", cure="pass x.dequantize()")
        if _has_own_meaning(type(x)):
            raise TraceError(
                f"a {type(x).__name__} is a tensor with operations of its own, which kernels would not follow",
                cure="pass the plain tensor that it holds, or x.as_subclass(torch.Tensor)",
            )
        if x.layout != torch.strided:
            raise TraceError(f"a {x.layout} tensor has no strides", cure="pass a dense tensor: .to_dense()")
        return TensorSpec(tuple(x.shape), x.dtype, tuple(x.stride()), str(x.device), sample_of(x))
    try:
        shape, dtype = tuple(int(n) for n in x.shape), x.dtype
    except Exception:  # whatever it is, it is not like a tensor
        return None
    return TensorSpec(shape, torch_dtype(dtype))


def is_nested(x: Any) -> bool:
    """Whether a value is a nested tensor that consists of values and offsets."""
    return isinstance(x, torch.Tensor) and x.layout == torch.jagged


def on_no_device(x: Any) -> Any:
    """A tensor without its data, and whether a gradient of it is wanted; anything else is itself."""
    if is_nested(x):
        return x.detach().to("meta").requires_grad_(x.requires_grad)
    if not isinstance(x, torch.Tensor):
        return x
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta", requires_grad=x.requires_grad)


def sample_of(x: torch.Tensor) -> Sample | None:
    """What integers or truth values a tensor has, where they may be lengths, offsets or masks."""
    whole = not (x.dtype.is_floating_point or x.dtype.is_complex)
    if not whole or type(x) is not torch.Tensor or x.device.type == "meta":
        return None
    return None if torch.compiler.is_compiling() else Sample.of(x.detach().cpu().numpy())


_ITSELF = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer, torch._subclasses.FakeTensor)


def _has_own_meaning(kind: type[torch.Tensor]) -> bool:
    """Whether operations on a subclass of tensors run code of its own."""
    if kind in _ITSELF:
        return False
    function = getattr(kind.__torch_function__, "__func__", kind.__torch_function__)
    plain = (torch.Tensor.__torch_function__.__func__, torch._C._disabled_torch_function_impl)
    return function not in plain or kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


def layout_of(x: Any) -> str | None:
    """What a plan depends on of how a tensor lies in memory; ``None`` for one without gaps, and for what has no strides."""
    if not isinstance(x, torch.Tensor) or x.layout != torch.strided or x.is_contiguous():
        return None
    return layout_kind(x.shape, x.stride(), x.element_size())


def value_key(value: Any) -> tuple[type, str]:
    """Equal for arguments that make the same program: 2 is not 2.0, 1 is not True, -0.0 is not 0.0, and NaN is NaN."""
    return type(value), repr(value)
