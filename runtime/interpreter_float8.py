"""Floats of eight bits in Triton's interpreter, which keeps them as their bits in ``uint8``.

Triton's own conversion knows neither infinity nor NaN of these types: of ``e5m2`` it makes 65536 of infinity and 114688 of NaN, and what
it casts to them it rounds without the carry.  Here torch says what the 256 numbers of a type are, and rounds to them::

    0x7c of fp8e5 -> inf        464.0 -> 448.0 as fp8e4nv        NaN -> NaN

A number beyond the largest becomes the largest, and infinity too, as ``cvt.satfinite`` has it, which is what Triton emits on NVIDIA devices
(torch makes infinity or NaN of it).  No device computes in these types: operations on them are refused, where the interpreter computed
with their bits.  The other types of eight bits, of AMD's first and NVIDIA's old devices, are refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter as ti

from ..errors import KernelError

_TORCH = {tl.float8e5: torch.float8_e5m2, tl.float8e4nv: torch.float8_e4m3fn}


@functools.cache
def _numbers(dtype: Any) -> np.ndarray:
    """The float32 number of each of the 256 patterns of bits."""
    if dtype not in _TORCH:
        raise KernelError(f"{dtype} is not interpreted", cure="tl.float8e5 or tl.float8e4nv; or a device")
    return torch.arange(256, dtype=torch.uint8).view(_TORCH[dtype]).float().numpy()


def decode(bits: np.ndarray, dtype: Any) -> np.ndarray:
    """The numbers of a type of eight bits, as float32."""
    return np.asarray(_numbers(dtype)[bits])


def encode(values: np.ndarray, dtype: Any, *, to_zero: bool = False) -> np.ndarray:
    """The bits of numbers in a type: the nearest, ties to even, or (``to_zero``) the next towards zero."""
    known = _numbers(dtype)
    largest = known[np.isfinite(known)].max()
    single = np.array(values, np.float32, ndmin=1)
    single = np.where(np.isnan(single), single, np.clip(single, -largest, largest))
    bits = torch.from_numpy(single).to(_TORCH[dtype]).view(torch.uint8).numpy()
    if to_zero:
        bits = bits - (np.abs(known[bits]) > np.abs(single)).astype(np.uint8)  # bits of one sign are in the order of magnitude
    return bits.reshape(np.shape(values))


def works() -> bool:
    """Whether the interpreter knows infinity, and rounds up through the exponent."""
    builder = ti.InterpreterBuilder()
    infinite = ti.TensorHandle(np.array([0x7C], np.uint8), tl.float8e5)
    near = ti.TensorHandle(np.array([1.97], np.float32), tl.float32)
    found = (builder.create_fp_to_fp(x, t, None).data.item() for x, t in ((infinite, tl.float32), (near, tl.float8e4nv)))
    return list(found) == [np.inf, 0x40]


def is_float8(handle: Any) -> bool:
    """Whether a handle holds the bits of such numbers."""
    return bool(handle.dtype.scalar.is_fp8())


def widened(handle: Any) -> Any:
    """A handle of eight bits in float32; another as it is."""
    return ti.TensorHandle(decode(handle.data, handle.dtype.scalar), tl.float32) if is_float8(handle) else handle


def repair(patch: Callable[[Any, str, Any], Any]) -> None:
    """Install this; ``patch(owner, name, value)`` replaces an attribute for the time of an interpretation and returns what it was."""
    builder = ti.InterpreterBuilder

    def cast(self: Any, source: Any, to: Any) -> Any:
        if not (is_float8(source) or to.scalar.is_fp8()) or source.dtype.scalar == to.scalar:
            return original_cast(self, source, to)
        return float_to_float(self, widened(source), to, None)

    def float_to_float(self: Any, source: Any, to: Any, rounding: Any) -> Any:
        if not (is_float8(source) or to.scalar.is_fp8()):
            return original_float(self, source, to, rounding)
        wide = widened(source)
        if to.scalar.is_fp8():
            wide = wide if wide.dtype.scalar == tl.float32 else self.cast_impl(wide, tl.float32)
            return ti.TensorHandle(encode(wide.data, to.scalar, to_zero="rtz" in str(rounding).lower()), to.scalar)
        return wide if to.scalar == tl.float32 else self.cast_impl(wide, to)

    def dot(self: Any, a: Any, b: Any, d: Any, *options: Any) -> Any:
        return original_dot(self, widened(a), widened(b), d, *options)

    def refusing(name: str) -> Callable[..., Any]:
        def operation(self: Any, *args: Any) -> Any:
            if found := next((a for a in args if isinstance(a, ti.TensorHandle) and is_float8(a)), None):
                raise KernelError(f"no device computes in {found.dtype.scalar}", cure="cast first: x.to(tl.float32)")
            return original[name](self, *args)

        return operation

    def reduce(self: Any, values: Any) -> Any:
        for value in values if isinstance(values, tuple | tl.tuple) else (values,):
            if value.dtype.scalar.is_fp8():
                raise KernelError(f"no device reduces in {value.dtype.scalar}", cure="cast first: x.to(tl.float32)")
        return original_reduce(self, values)

    original_cast = patch(builder, "cast_impl", cast)
    original_float = patch(builder, "create_fp_to_fp", float_to_float)
    original_dot = patch(builder, "create_dot", dot)
    original = {name: patch(builder, name, refusing(name)) for name in ("binary_op", "unary_op", "create_fma")}
    original_reduce = patch(ti.ReduceScanOpInterface, "apply", reduce)
