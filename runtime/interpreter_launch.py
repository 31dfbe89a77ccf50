"""One launch in Triton's interpreter: numbers become what a compiled kernel would see, and whatever it raises names the kernel's line."""

from __future__ import annotations

import contextlib
import inspect
import linecache
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.runtime import interpreter as ti
from triton.runtime.errors import InterpreterError
from triton.runtime.jit import JITCallable, KernelParam, mangle_type

from ..errors import EqFuseError, KernelError

_OWN = Path(__file__).parents[1]
LIBRARIES = (*(f"{p}{os.sep}" for p in (Path(triton.__file__).parent, Path(np.__file__).parent, _OWN / "runtime", _OWN / "testing")),
             contextlib.__file__)  # fmt: skip
"""Files that begin with one of these hold no kernels of a user."""

_NUMBERS = {tl.float16: np.float16, tl.float32: np.float32, tl.float64: np.float64, tl.int1: np.bool_, tl.int8: np.int8,
            tl.int16: np.int16, tl.int32: np.int32, tl.int64: np.int64, tl.uint8: np.uint8, tl.uint16: np.uint16,
            tl.uint32: np.uint32, tl.uint64: np.uint64}  # fmt: skip


def run_grid(self: ti.GridExecutor, *args: Any, **kwargs: Any) -> None:
    """Run every program of a launch.  Raises an error of this package whatever goes wrong in the kernel."""
    function = self.fn
    try:
        parameters = inspect.signature(function).parameters
        kwargs = {k: v for k, v in kwargs.items() if k in parameters}  # others are options of the compiler
        host_args, host_kwargs = self._init_args_hst(args, kwargs)
        for hook in self.pre_run_hooks:
            hook(*host_args, **host_kwargs)
        given = inspect.getcallargs(function, *host_args, **host_kwargs)
        grid = self.grid(given) if callable(self.grid) else self.grid
        grid = tuple(int(n) for n in grid)
        if len(grid) > 3:
            raise KernelError(f"a grid has at most three axes, and this one has {len(grid)}: {grid}")
        seen = {name: _argument(value, parameters[name]) for name, value in given.items()}
    except EqFuseError:
        raise
    except Exception as error:
        raise _launch_error(function, error) from error
    nx, ny, nz = grid + (1,) * (3 - len(grid))
    ti.interpreter_builder.set_grid_dim(nx, ny, nz)
    try:
        for x in range(nx):
            for y in range(ny):
                for z in range(nz):
                    ti.interpreter_builder.set_grid_idx(x, y, z)
                    function(**seen)
    except Exception as error:
        found = cause(error)
        if isinstance(found, EqFuseError) and found.where is not None:
            raise found from None
        raise _kernel_error(function, found) from found
    self._restore_args_dev(args, host_args, kwargs, host_kwargs)


def _argument(value: Any, parameter: inspect.Parameter) -> Any:
    """An argument as the compiled kernel gets it, but for a 1, which that gets as a constant."""
    known = KernelParam(0, parameter, False, False)
    if known.is_constexpr or value is None or isinstance(value, tl.constexpr | tl.dtype | JITCallable):
        return value
    if isinstance(value, tuple):
        parts = [_argument(v, inspect.Parameter(parameter.name, parameter.kind)) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if hasattr(value, "data_ptr") or type(value).__name__ == "TensorDescriptor":
        return ti._implicit_cvt(value)
    dtype = tl.str_to_ty(known.annotation_type or mangle_type(value), None)
    if dtype == tl.bfloat16:
        return tl.tensor(ti.interpreter_builder.get_bf16(value), dtype)
    return tl.tensor(ti.TensorHandle(np.array([value]).astype(_NUMBERS[dtype]), dtype), dtype)


def cause(error: BaseException) -> BaseException:
    """What is under the wrappers that the interpreter put around it."""
    while isinstance(error, InterpreterError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def place() -> str:
    """``file:line`` of the kernel's statement that is being interpreted."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(LIBRARIES):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _launch_error(function: Any, error: Exception) -> KernelError:
    """Arguments or a grid with which a kernel cannot be launched."""
    code = inspect.unwrap(function).__code__
    where = f"{Path(code.co_filename).name}:{code.co_firstlineno}, {code.co_name}"
    return KernelError(f"this launch is not possible: {_said(error)}", where=where, cure=_cure(error))


def _kernel_error(function: Any, error: BaseException) -> KernelError:
    """The error with the innermost line that belongs to a kernel."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(LIBRARIES)]
    own = [f for f in frames if f.name != "<lambda>"] or frames
    kernel, program = inspect.unwrap(function).__name__, getattr(ti.interpreter_builder, "grid_idx", None)
    where, text = f"{kernel}, program {program}", ""
    if own:
        frame = own[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}, {where}"
        text = (linecache.getline(frame.filename, frame.lineno) if frame.lineno else "").strip()
    line = f"\n    {text}" if text else ""
    if isinstance(error, EqFuseError):
        return KernelError(error.message + line, where=where, cure=error.cure)
    return KernelError(_said(error) + line, where=where, cure=_cure(error))


def _said(error: BaseException) -> str:
    types = error.args[0] if isinstance(error, KeyError) and isinstance(error.args[0], tuple | tl.tuple) else ()
    if types and all(isinstance(t, tl.dtype) for t in types):
        return f"the device library has no such function of ({', '.join(str(t) for t in types)})"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


_CURES = (
    (r"Expected dtype \[.*but got", "cast the argument first: x.to(tl.float32)"),
    (r"^\(triton\.language\.", "cast the argument to a type that the function has: x.to(tl.float32)"),
    (
        r"module 'triton.language.*' has no attribute",
        "this version of Triton has it elsewhere: see triton.language.extra.libdevice",
    ),
    (r"'dtype' object is not callable", "tl.full((), value, dtype=...) makes a number of a type, x.to(dtype) casts one"),
    (r"missing \d+ required|unexpected keyword|multiple values", "give the kernel the arguments that its definition names"),
    (r"Did you forget to add @triton.jit", "call it as triton.language has it: tl.name(...)"),
    (r"inline_asm", "compute it with functions of triton.language where the arguments are on the CPU"),
    (r"object has no attribute 'handle'|cannot convert .* to tensor", "give it a tensor: tl.full((), value, dtype=...)"),
)


def _cure(error: BaseException) -> str:
    for pattern, said in _CURES:
        if re.search(pattern, str(error)):
            return said
    return "compile the kernel: if Triton's compiler accepts this line, the interpreter lacks something, and only a device can run it"
