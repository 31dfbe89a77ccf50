"""Repairs to Triton's interpreter, found by probing it and applied only while it runs.

Seven defects matter, and which of them are present depends on the versions of Triton and numpy:

* ``index``: a loop bound known only at run time is a one-element array, which recent numpy refuses to turn into an int;
* ``bfloat16``: a value of that type is kept as its bits in ``uint16``; casts truncate instead of rounding to nearest even, and
  products and sums work on the bits, silently;
* ``condition``: the comparison of a scalar says that it is a float, and becomes one where it is broadcast to a tile;
* ``integer sum``: numpy adds narrow integers up in 64 bits, and refuses a sum that the type does not have;
* ``device calls``: each call of a ``@triton.jit`` helper patches ``triton.language`` again and never takes it back, so a later
  compilation in the same process fails; it is also half of the running time;
* the language is patched for every launch; here it is patched once for the whole time;
* sums of products are numpy's, whose order depends on the processor and differs from column to column.

A probe runs the defective operation on two or three numbers and compares; nothing asks for a version number.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as ti

from ..tiles.simulate import products

LANGUAGE_LOCK = threading.RLock()
"""Held while ``triton.language`` is patched and while a kernel is compiled: the two exclude each other."""

_REQUIRED = ("InterpreterBuilder", "TensorHandle", "GridExecutor", "InterpretedFunction", "_LangPatchScope", "_patch_builtin",
             "_patch_lang", "_patch_lang_core", "_patch_lang_tensor", "interpreter_builder", "FunctionRewriter", "ReduceOps",
             "ReduceScanOpInterface", "_get_np_dtype", "_interpreter")  # fmt: skip


class Patches:
    """Attribute replacements that can be undone, last one first."""

    def __init__(self) -> None:
        self._saved: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replace ``owner.name`` and return what it was."""
        original = owner.__dict__[name]
        self._saved.append((owner, name, original))
        setattr(owner, name, value)
        return original

    def undo(self) -> None:
        """Restore everything."""
        while self._saved:
            owner, name, original = self._saved.pop()
            setattr(owner, name, original)


def bfloat16_to_float32(bits: np.ndarray) -> np.ndarray:
    """Decode: a bfloat16 is the upper half of a float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def float32_to_bfloat16(values: np.ndarray) -> np.ndarray:
    """Encode with rounding to nearest, ties to even; any NaN becomes the quiet NaN."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    bits = values.view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


@functools.cache
def defects() -> frozenset[str]:
    """Which defects this installation has: a subset of ``{"index", "multiply-add", "condition", "integer sum", "bfloat16 cast",
    "bfloat16 arithmetic", "bfloat16 dot"}``."""
    missing = [name for name in _REQUIRED if not hasattr(ti, name)]
    if missing:
        raise AssertionError(f"this Triton's interpreter has no {', '.join(missing)}; eqfuse.runtime must learn its new shape")
    probes = {
        "index": _index_works,
        "multiply-add": _multiply_add_works,
        "condition": _condition_works,
        "integer sum": _integer_sum_works,
        "bfloat16 cast": _bfloat16_cast_works,
        "bfloat16 arithmetic": _bfloat16_arithmetic_works,
        "bfloat16 dot": _bfloat16_dot_works,
    }
    return frozenset(name for name, works in probes.items() if not _quietly(works))


def _quietly(works: Callable[[], bool]) -> bool:
    """A probe that raises has failed."""
    try:
        with np.errstate(all="ignore"):
            return works()
    except Exception:
        return False


def _index_works() -> bool:
    scope = ti._LangPatchScope()
    try:
        ti._patch_lang_tensor(tl.tensor, scope)
        return range(tl.tensor(ti.TensorHandle(np.array([3], np.int32), tl.int32), tl.int32)) == range(3)
    finally:
        scope.restore()


def _handle(values: list[Any]) -> ti.TensorHandle:
    return ti.TensorHandle(float32_to_bfloat16(np.array(values, np.float32)), tl.bfloat16)


def _bfloat16_cast_works() -> bool:
    values = np.array([1.0, 1.00390625, 1.01171875, 1.0041, np.inf], np.float32)  # exact, two ties, above a tie, infinity
    cast = ti.InterpreterBuilder().cast_impl(ti.TensorHandle(values, tl.float32), tl.bfloat16)
    return bool(np.array_equal(cast.data, float32_to_bfloat16(values)))


def _bfloat16_arithmetic_works() -> bool:
    total = ti.InterpreterBuilder().binary_op(_handle([1.0]), _handle([2.0]), np.add)
    return bool(bfloat16_to_float32(total.data).item() == 3.0)


def _multiply_add_works() -> bool:
    near = ti.TensorHandle(np.array([1.0 + 2.0**-12], np.float32), tl.float32)
    one = ti.TensorHandle(np.array([-1.0 - 2.0**-11], np.float32), tl.float32)
    return bool(ti.InterpreterBuilder().create_fma(near, near, one).data.item() == 2.0**-24)  # lost if the product is rounded


def _condition_works() -> bool:
    builder, one = ti.InterpreterBuilder(), ti.TensorHandle(np.array([1.0], np.float32), tl.float32)
    condition = builder.binary_op(one, one, np.equal)
    return bool(builder.create_splat(tl.block_type(tl.int1, [2]), condition).data.dtype == np.bool_)


def _integer_sum_works() -> bool:
    row = tl.tensor(ti.TensorHandle(np.full(2, 2**31 - 1, np.int32), tl.int32), tl.block_type(tl.int32, [2]))
    return bool(ti.ReduceOps(0, None, False).sum(row).handle.data.item() == -2)


def _bfloat16_dot_works() -> bool:
    zero = ti.TensorHandle(np.zeros((1, 1), np.float32), tl.float32)
    product = ti.InterpreterBuilder().create_dot(_handle([[1.5, 2.0]]), _handle([[2.0], [3.0]]), zero, None, 0)
    return bool(product.data.item() == 9.0)


@contextlib.contextmanager
def patched_interpreter() -> Iterator[None]:
    """Repair the interpreter and patch the language for interpretation; take both back at the end, whatever happens."""
    patches = Patches()
    scope = ti._LangPatchScope()
    with LANGUAGE_LOCK:
        found = defects()
        try:
            if "index" in found:
                _repair_index(patches)
            if "multiply-add" in found:
                _repair_multiply_add(patches)
            if "condition" in found:
                _repair_conditions(patches)
            if "integer sum" in found:
                _repair_integer_sums(patches)
            if "bfloat16 cast" in found:
                _repair_bfloat16_casts(patches)
            if "bfloat16 arithmetic" in found:
                _repair_bfloat16_arithmetic(patches)
            _repair_order_of_sums(patches)
            if "bfloat16 dot" in found:
                _repair_bfloat16_dot(patches)
            patches.set(ti.InterpretedFunction, "__call__", _call_device_function)
            patches.set(ti.ReduceOps, "generic_reduce", _reduce_by_pairs)
            patches.set(ti, "_patch_lang", lambda fn: _NothingToRestore())
            _patch_language(scope)
            yield
        finally:
            scope.restore()
            patches.undo()


class _NothingToRestore:
    def restore(self) -> None:
        pass


def _patch_language(scope: ti._LangPatchScope) -> None:
    """What ``ti._patch_lang`` does for a kernel, for both names of the language (library helpers use ``core``)."""
    for language in (tl, tl.core):
        ti._patch_builtin(language, ti.interpreter_builder, scope)
        ti._patch_builtin(language.tensor, ti.interpreter_builder, scope)
        if language is tl:
            ti._patch_builtin(language.math, ti.interpreter_builder, scope)
        ti._patch_lang_tensor(language.tensor, scope)
        ti._patch_lang_core(language, scope)
    ti._patch_builtin(tl.core.tensor_descriptor_base, ti.interpreter_builder, scope)


def _call_device_function(self: ti.InterpretedFunction, *args: Any, **kwargs: Any) -> Any:
    """Call a helper: the language is patched already."""
    return self.rewrite()(*args, **kwargs)


def _reduce_by_pairs(self: Any, inputs: Any) -> Any:
    """A reduction by a function of the user: neighbours are combined, all pairs at once, again and again.

    The interpreter would call the function once per element.  Order is kept, so the function must be associative, as on a device.
    """
    wanted = self.axis
    values, axis = self.unravel(inputs, wanted)
    data = [np.moveaxis(v.handle.data, axis, 0) for v in values]
    types = [v.dtype for v in values]
    while (n := data[0].shape[0]) > 1:
        halves = [[self.to_tensor(d[k : n - n % 2 : 2], t) for d, t in zip(data, types, strict=True)] for k in (0, 1)]
        found = self.combine_fn.fn(*halves[0], *halves[1])
        merged = [f.handle.data for f in (found if isinstance(found, tuple) else (found,))]
        data = [np.concatenate([m, d[n - n % 2 :]]).astype(d.dtype) for m, d in zip(merged, data, strict=True)]
    out = []
    for d, t in zip(data, types, strict=True):
        x = d[0]
        if self.keep_dims:
            x = np.expand_dims(x, axis) if wanted is not None else x.reshape((1,) * inputs[0].handle.data.ndim)
        elif wanted is None:
            x = x.item()
        out.append(self.to_tensor(x, t))
    return out


def _repair_index(patches: Patches) -> None:
    def patch_tensor(tensor: Any, scope: ti._LangPatchScope) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(np.asarray(self.handle.data).item()))

    original = patches.set(ti, "_patch_lang_tensor", patch_tensor)


def _repair_multiply_add(patches: Patches) -> None:
    """One rounding instead of two: exact in float64 but for the last sum, whose second rounding hardly ever shows."""

    def fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        if z.dtype.scalar != tl.float32:
            return original(self, x, y, z)
        exact = x.data.astype(np.float64) * y.data.astype(np.float64) + z.data.astype(np.float64)
        return ti.TensorHandle(exact.astype(np.float32), z.dtype.scalar)

    original = patches.set(ti.InterpreterBuilder, "create_fma", fma)


def _repair_order_of_sums(patches: Patches) -> None:
    def dot(self: Any, a: Any, b: Any, d: Any, *options: Any) -> Any:
        if d.dtype.scalar != tl.float32 or any(x.dtype.scalar not in (tl.float16, tl.float32) for x in (a, b)):
            return original(self, a, b, d, *options)
        return ti.TensorHandle(products(a.data, b.data) + d.data, d.dtype.scalar)

    original = patches.set(ti.InterpreterBuilder, "create_dot", dot)


def _repair_conditions(patches: Patches) -> None:
    """A truth value that is broadcast stays one, whatever type its handle was given."""

    def splat(self: Any, result: Any, arg: Any) -> Any:
        if arg.data.dtype == np.bool_:
            arg = ti.TensorHandle(arg.data, tl.int1)
        return original(self, result, arg)

    original = patches.set(ti.InterpreterBuilder, "create_splat", splat)


def _repair_integer_sums(patches: Patches) -> None:
    """Integers of a type add up to one of it, modulo the number of its values."""

    def total(self: Any, inputs: Any) -> Any:
        data = inputs.handle.data
        if data.dtype.kind not in "iu":
            return original(self, inputs)
        found = np.sum(data, axis=self.axis, keepdims=self.keep_dims, dtype=data.dtype)
        return self.to_tensor(found, inputs.dtype)

    original = patches.set(ti.ReduceOps, "sum", total)


def _repair_bfloat16_casts(patches: Patches) -> None:
    builder = ti.InterpreterBuilder

    def cast(self: Any, source: Any, to: Any) -> Any:
        from_type, to_type = source.dtype.scalar, to.scalar
        if tl.bfloat16 not in (from_type, to_type) or from_type == to_type:
            return original_cast(self, source, to)
        if from_type == tl.bfloat16:
            wide = ti.TensorHandle(bfloat16_to_float32(source.data), tl.float32)
            return wide if to_type == tl.float32 else original_cast(self, wide, to)
        wide = source if from_type == tl.float32 else original_cast(self, source, tl.float32)
        return ti.TensorHandle(float32_to_bfloat16(wide.data), tl.bfloat16)

    def float_to_float(self: Any, source: Any, to: Any, rounding: Any) -> Any:
        if (source.dtype.scalar, to.scalar) == (tl.float32, tl.bfloat16) and "rtz" in str(rounding).lower():  # asked to truncate
            bits = np.ascontiguousarray(source.data, dtype=np.float32).view(np.uint32)
            return ti.TensorHandle((bits >> np.uint32(16)).astype(np.uint16), tl.bfloat16)
        if {source.dtype.scalar, to.scalar} == {tl.bfloat16, tl.float32}:
            return cast(self, source, to)
        return original_float(self, source, to, rounding)

    original_cast = patches.set(builder, "cast_impl", cast)
    original_float = patches.set(builder, "create_fp_to_fp", float_to_float)
    for name in ("create_fp_ext", "create_fp_trunc"):
        if name in builder.__dict__:
            patches.set(builder, name, lambda self, source, to: self.cast_impl(source, to))


def _widen(handle: Any) -> Any:
    if handle.dtype.scalar != tl.bfloat16:
        return handle
    return ti.TensorHandle(bfloat16_to_float32(handle.data), tl.float32)


def _narrow(handle: Any) -> Any:
    if handle.data.dtype != np.float32:  # a comparison
        return handle
    return ti.TensorHandle(float32_to_bfloat16(handle.data), tl.bfloat16)


def _repair_bfloat16_arithmetic(patches: Patches) -> None:
    """Widen, compute, round: what the hardware does for each operation on bfloat16.

    Sums and scans of bfloat16 values are refused: their order of rounding is not modelled.
    """
    builder = ti.InterpreterBuilder

    def binary(self: Any, left: Any, right: Any, op: Any) -> Any:
        if left.dtype.scalar != tl.bfloat16:
            return original_binary(self, left, right, op)
        return _narrow(original_binary(self, _widen(left), _widen(right), op))

    def unary(self: Any, arg: Any, op: Any) -> Any:
        if arg.dtype.scalar != tl.bfloat16:
            return original_unary(self, arg, op)
        return _narrow(original_unary(self, _widen(arg), op))

    def fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        if z.dtype.scalar != tl.bfloat16:
            return original_fma(self, x, y, z)
        return _narrow(original_fma(self, _widen(x), _widen(y), _widen(z)))

    def check(self: Any, inputs: Any) -> Any:
        if any(value.dtype.scalar == tl.bfloat16 for value in inputs):
            raise NotImplementedError("reductions of bfloat16 are not modelled by the interpreter: cast to float32 first")
        return original_check(self, inputs)

    original_binary = patches.set(builder, "binary_op", binary)
    original_unary = patches.set(builder, "unary_op", unary)
    original_fma = patches.set(builder, "create_fma", fma)
    original_check = patches.set(ti.ReduceScanOpInterface, "check_tensor", check)


def _repair_bfloat16_dot(patches: Patches) -> None:
    def dot(self: Any, a: Any, b: Any, d: Any, *options: Any) -> Any:
        return original(self, _widen(a), _widen(b), d, *options)

    original = patches.set(ti.InterpreterBuilder, "create_dot", dot)
