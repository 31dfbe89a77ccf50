"""Repairs to Triton's interpreter, found by probing it and applied only while it runs.

These defects matter, and which of them are present depends on the versions of Triton and numpy:

* ``index``: a loop bound known only at run time is a one-element array, which recent numpy refuses to turn into an int;
* ``bfloat16``: a value of that type is kept as its bits in ``uint16``; casts truncate instead of rounding to nearest even, and
  products and sums work on the bits, silently;
* ``condition``: the comparison of a scalar says that it is a float, and becomes one where it is broadcast to a tile;
* ``integer sum``: numpy adds narrow integers up in 64 bits, and refuses a sum that the type does not have;
* ``device calls``: each call of a ``@triton.jit`` helper patches ``triton.language`` again and never takes it back, so a later
  compilation in the same process fails; it is also half of the running time;
* the language is patched for every launch; here it is patched once for the whole time;
* ``arguments``: numbers of a launch stay Python numbers, or get another type than a compiled kernel gives them;
* ``bfloat16 constant``: there are no constants of that type;
* ``float8``: see :mod:`~eqfuse.runtime.interpreter_float8`;
* functions of device libraries do nothing, or are refused: see :mod:`~eqfuse.runtime.libdevice`;
* names that a module took out of the language (``exp = tl.exp``) stay those for the compiler: :meth:`Language.now`;
* sums of products are numpy's, whose order depends on the processor and differs from column to column.

A probe runs the defective operation on two or three numbers and compares; nothing asks for a version number.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
import triton.language.extra.libdevice as libdevice_stubs
from triton._C.libtriton import ir
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.language.extra.cuda import utils as cuda_utils
from triton.runtime import interpreter as ti

from ..errors import KernelError
from ..tiles.simulate import products
from . import interpreter_float8, libdevice
from .interpreter_launch import run_grid
from .interpreter_speed import remember

LANGUAGE_LOCK = threading.RLock()
"""Held while ``triton.language`` is patched and while a kernel is compiled: the two exclude each other."""

_REQUIRED = ("InterpreterBuilder", "TensorHandle", "GridExecutor", "InterpretedFunction", "_LangPatchScope", "_patch_builtin",
             "_patch_lang", "_patch_lang_core", "_patch_lang_tensor", "interpreter_builder", "FunctionRewriter", "ReduceOps",
             "ReduceScanOpInterface", "_get_np_dtype", "_interpreter")  # fmt: skip


_ABSENT = object()


class Patches:
    """Attribute replacements that can be undone, last one first."""

    def __init__(self) -> None:
        self._saved: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replace ``owner.name``, which may be absent, and return what it was."""
        original = owner.__dict__.get(name, _ABSENT)
        self._saved.append((owner, name, original))
        setattr(owner, name, value)
        return original

    def undo(self) -> None:
        """Restore everything."""
        while self._saved:
            owner, name, original = self._saved.pop()
            if original is _ABSENT:
                delattr(owner, name)
            else:
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
    """Which defects this installation has, by the names of :data:`PROBES`."""
    missing = [name for name in _REQUIRED if not hasattr(ti, name)]
    if missing:
        raise AssertionError(f"this Triton's interpreter has no {', '.join(missing)}; eqfuse.runtime must learn its new shape")
    return frozenset(name for name, works in PROBES.items() if not _quietly(works))


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


def _bfloat16_constant_works() -> bool:
    return bool(ti.InterpreterBuilder().get_bf16(1.01171875).data.item() == float32_to_bfloat16(np.array([1.01171875])).item())


def _binary(name: str, left: list[Any], right: list[Any], kind: Any, dtype: Any) -> list[Any]:
    handles = [ti.TensorHandle(np.array(values, kind), dtype) for values in (left, right)]
    return list(getattr(ti.InterpreterBuilder(), name)(*handles).data.tolist())


def _nan_works() -> bool:
    found = [_binary(name, [np.nan, 1.0], [2.0, np.nan], np.float32, tl.float32) for name in ("create_minnumf", "create_maxnumf")]
    return found == [[2.0, 1.0]] * 2


def _bit_works() -> bool:
    found = [_binary(name, [True, True], [True, False], np.bool_, tl.int1) for name in ("create_add", "create_sub")]
    return [[v % 2 for v in row] for row in found] == [[0, 1]] * 2


def _shift_works() -> bool:
    left, right = (ti.TensorHandle(np.array([value], np.uint32), tl.uint32) for value in (8, 1))
    ti.InterpreterBuilder().create_ashr(left, right)
    return left.data.dtype == np.uint32


def _histogram_works() -> bool:
    values, mask = ti.TensorHandle(np.array([0, 4, 4, 1], np.int64), tl.int64), ti.TensorHandle(np.ones(4, bool), tl.int1)
    return bool(ti.InterpreterBuilder().create_histogram(values, 4, mask).data.tolist() == [1, 1, 0, 0])


PROBES: dict[str, Callable[[], bool]] = {
    "index": _index_works,
    "multiply-add": _multiply_add_works,
    "condition": _condition_works,
    "integer sum": _integer_sum_works,
    "bfloat16 cast": _bfloat16_cast_works,
    "bfloat16 arithmetic": _bfloat16_arithmetic_works,
    "bfloat16 dot": _bfloat16_dot_works,
    "bfloat16 constant": _bfloat16_constant_works,
    "float8": interpreter_float8.works,
    "nan": _nan_works,
    "bit": _bit_works,
    "shift": _shift_works,
    "histogram": _histogram_works,
}
"""What is tried on a few numbers, by the name of the defect that it shows."""


class Language:
    """``triton.language`` while it is patched."""

    def __init__(self, scope: ti._LangPatchScope) -> None:
        self._now = {id(original): (original, getattr(owner, name)) for owner, name, original in scope._changes}

    def now(self, value: Any) -> Any:
        """What stands for ``value`` while the language is patched: a module may have taken it out of the language before, or out of a
        copy of its device library."""
        found = self._now.get(id(value))
        if found is None and inspect.isfunction(value) and value.__module__ == libdevice_stubs.__name__:
            return getattr(libdevice_stubs, value.__name__, value)
        return value if found is None else found[1]


@contextlib.contextmanager
def patched_interpreter() -> Iterator[Language]:
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
            if "bfloat16 constant" in found:
                patches.set(ti.InterpreterBuilder, "get_bf16", lambda self, value: _handle([value]))
            if "float8" in found:
                interpreter_float8.repair(patches.set)
            if "nan" in found:
                _repair_nan(patches)
            if "bit" in found:
                _repair_bits(patches)
            if "shift" in found:
                _repair_shift(patches)
            if "histogram" in found:
                _repair_histogram(patches)
            patches.set(ti.InterpretedFunction, "__call__", _call_device_function)
            patches.set(ti.GridExecutor, "__call__", run_grid)
            patches.set(ti.InterpreterBuilder, "create_extern_elementwise", _call_library)
            patches.set(ti.ReduceOps, "generic_reduce", _reduce_by_pairs)
            patches.set(ti.ScanOps, "generic_scan", _scan_by_steps)
            patches.set(ti.ReduceScanOpInterface, "check_axis", _check_axis)
            patches.set(ti, "_patch_lang", lambda fn: _NothingToRestore())
            remember(patches.set)
            _patch_language(scope)
            yield Language(scope)
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
    for module in (cuda_libdevice, cuda_utils):
        ti._patch_builtin(module, ti.interpreter_builder, scope)
    for name, function in list(vars(libdevice_stubs).items()):  # bodies of "...", which the compiler exchanges
        if inspect.isfunction(function) and hasattr(cuda_libdevice, name):
            scope.set_attr(libdevice_stubs, name, getattr(cuda_libdevice, name))


def _call_device_function(self: ti.InterpretedFunction, *args: Any, **kwargs: Any) -> Any:
    """Call a helper: the language is patched already."""
    return self.rewrite()(*args, **kwargs)


def _call_library(self: Any, library: str, path: str, symbol: str, args: Any, result: Any, pure: bool) -> Any:
    """An elementwise function of a device library."""
    data = list(np.broadcast_arrays(*(a.data for a in args)))
    values = libdevice.call(symbol, data, ti._get_np_dtype(result.scalar))
    if values is None:
        raise KernelError(
            f"{symbol} of the device library has no meaning in the interpreter",
            cure="compute it with functions of triton.language, or on a device",
        )
    return ti.TensorHandle(values, result.scalar)


def _check_axis(self: Any, shape: Any, axis: Any) -> None:
    """The axis of a reduction or scan is a number, known when the kernel is compiled."""
    axis = axis.value if isinstance(axis, tl.constexpr) else axis
    if isinstance(axis, tl.tensor):
        raise KernelError(
            "the axis of a reduction is a tensor, not a number",
            cure="of two tensors, tl.maximum(a, b), tl.minimum(a, b) and a + b; tl.max(a, axis=0) is the maximum along an axis",
        )
    if axis is not None and not -len(shape) <= axis < len(shape):
        raise KernelError(f"axis {axis} of a reduction or scan of a tensor with {len(shape)} axes")


def _combined(self: Any, before: Any, after: Any) -> list[np.ndarray]:
    """What the function of a reduction or scan makes of neighbours."""
    found = self.combine_fn.fn(*before, *after)
    found = found if isinstance(found, tuple | tl.tuple) else (found,)
    kinds, types = ([v.dtype.scalar for v in values] for values in (found, before))
    if kinds != types:
        raise KernelError(
            f"the function of a reduction or scan makes {', '.join(map(str, kinds))} of {', '.join(map(str, types))}",
            cure="cast what is reduced first: x.to(tl.float32)",
        )
    return [v.handle.data for v in found]


def _scan_by_steps(self: Any, inputs: Any) -> Any:
    """A scan by a function of the user, in log2(n) steps: element i is combined with what stands 1, 2, 4, ... before it.

    The interpreter would call the function once per element.  Order is kept, so the function must be associative, as on a device.
    """
    types = [v.dtype for v in inputs]
    data = [np.moveaxis(v.handle.data, self.axis, 0) for v in inputs]
    step = 1
    while step < data[0].shape[0]:
        before = [self.to_tensor(np.roll(d, step, axis=0), t) for d, t in zip(data, types, strict=True)]
        merged = _combined(self, before, [self.to_tensor(d, t) for d, t in zip(data, types, strict=True)])
        data = [np.concatenate([d[:step], m[step:]]).astype(d.dtype) for m, d in zip(merged, data, strict=True)]
        step *= 2
    return [self.to_tensor(np.ascontiguousarray(np.moveaxis(d, 0, self.axis)), t) for d, t in zip(data, types, strict=True)]


def _repair_nan(patches: Patches) -> None:
    """The smaller and the larger of two numbers are the number, if one is NaN, unless the kernel asks for NaN."""
    builder = ti.InterpreterBuilder
    patches.set(builder, "create_minnumf", lambda self, x, y: self.binary_op(x, y, np.fmin))
    patches.set(builder, "create_maxnumf", lambda self, x, y: self.binary_op(x, y, np.fmax))

    def clamp(self: Any, x: Any, low: Any, high: Any, nan: Any) -> Any:
        if nan == ir.PROPAGATE_NAN.NONE:
            return self.binary_op(self.binary_op(x, low, np.fmax), high, np.fmin)
        return self.binary_op(self.binary_op(x, low, np.maximum), high, np.minimum)

    patches.set(builder, "create_clampf", clamp)


def _repair_bits(patches: Patches) -> None:
    """Sums, differences and products of truth values are those of integers with one bit."""

    def binary(self: Any, left: Any, right: Any, op: Any) -> Any:
        if op in (np.add, np.subtract, np.multiply) and left.data.dtype == right.data.dtype == np.bool_:
            return ti.TensorHandle((op(left.data.astype(np.int8), right.data.astype(np.int8)) & 1).astype(bool), left.dtype.scalar)
        return original(self, left, right, op)

    original = patches.set(ti.InterpreterBuilder, "binary_op", binary)


def _repair_shift(patches: Patches) -> None:
    def shift(self: Any, left: Any, right: Any) -> Any:
        return original(self, left.clone(), right.clone())  # it changes the types of its operands

    original = patches.set(ti.InterpreterBuilder, "create_ashr", shift)


def _repair_histogram(patches: Patches) -> None:
    """Values that belong to no bin are not counted."""

    def histogram(self: Any, data: Any, bins: int, mask: Any) -> Any:
        counted = (data.data >= 0) & (data.data < bins)
        if mask is not None:
            counted &= mask.data
        return ti.TensorHandle(np.bincount(data.data[counted].astype(np.int64), minlength=bins).astype(np.int32), tl.int32)

    patches.set(ti.InterpreterBuilder, "create_histogram", histogram)


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
        merged = _combined(self, *halves)
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

    Reductions and scans of bfloat16 values call their function, which rounds at every step: only ``tl.sum`` and functions of the user
    reduce in bfloat16, the others of the library cast to float32 first.
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

    def apply(generic: str, original: Any) -> Callable[[Any, Any], Any]:
        def by_steps(self: Any, inputs: Any) -> Any:
            if all(value.dtype.scalar != tl.bfloat16 for value in inputs):
                return original(self, inputs)
            reverse = getattr(self, "reverse", False)
            given = [self.to_tensor(np.flip(v.handle.data, self.axis), v.dtype) for v in inputs] if reverse else inputs
            found = getattr(self, generic)(given)
            return [self.to_tensor(np.flip(v.handle.data, self.axis), v.dtype) for v in found] if reverse else found

        return by_steps

    for kind, generic in ((ti.ReduceOps, "generic_reduce"), (ti.ScanOps, "generic_scan")):
        patches.set(kind, "apply_impl", apply(generic, kind.apply_impl))
    original_binary = patches.set(builder, "binary_op", binary)
    original_unary = patches.set(builder, "unary_op", unary)
    original_fma = patches.set(builder, "create_fma", fma)


def _repair_bfloat16_dot(patches: Patches) -> None:
    def dot(self: Any, a: Any, b: Any, d: Any, *options: Any) -> Any:
        return original(self, _widen(a), _widen(b), d, *options)

    original = patches.set(ti.InterpreterBuilder, "create_dot", dot)
