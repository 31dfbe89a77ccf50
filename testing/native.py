"""Tile programs on this machine's processor: the printed C, compiled, on numpy arrays.  An oracle beside the simulator, and a fast one.

Compiling takes longer than running, so many programs are compiled as one file.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..codegen.c.host import translation_unit
from ..codegen.c.printer import arguments, function_name
from ..ir.dtypes import DType
from ..runtime.native import library, passing_library
from ..tiles.program import TileProgram


class Native:
    """Finished tile programs, compiled together.  Raises PlanError if there is no C for one, CompileError without a compiler."""

    def __init__(
        self, programs: Sequence[TileProgram], directory: str | None = None, *, attempts: Sequence[Sequence[str]] | None = None
    ) -> None:
        """``attempts``: other options of the compiler than users get, the first that it knows; such a library is not kept."""
        self.programs = tuple(replace(p, kernel=replace(p.kernel, name=f"k{at}")) for at, p in enumerate(programs))
        source = translation_unit(self.programs)
        self._library = library(source, directory) if attempts is None else passing_library(source, attempts)

    def run(self, at: int, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs of the program ``at``, from arrays in the shapes of its buffers: of float64 and int64, as in the reference.  What is
        never stored is NaN, or a number that nobody computes."""
        program = self.programs[at]
        buffers = program.kernel.buffers
        memory = {b: _stored(np.asarray(inputs[b]).reshape(buffers[b].shape), buffers[b].dtype) for b in program.loads()}
        for b in program.stores():
            made = np.empty(buffers[b].shape, _stored(np.zeros(()), buffers[b].dtype).dtype)
            made.view(np.uint8 if made.ndim else made.dtype).fill(0xFF if made.ndim else _unwritten(made.dtype))
            memory[b] = made
        given: list[int | np.ndarray] = [program.tasks]
        for p in arguments(program):
            if p.buffer is None or p.kind == "int":
                assert p.value is not None
                given.append(p.value)
            else:
                given.append(memory[p.buffer])
        self.call(at, given)
        return {b: _meant(memory[b], buffers[b].dtype) for b in program.stores()}

    def call(self, at: int, given: Sequence[int | np.ndarray]) -> None:
        """Call the function of the program ``at``, which writes into arrays among its arguments."""
        values = [ctypes.c_int64(x) if isinstance(x, int) else ctypes.c_void_p(x.ctypes.data) for x in given]
        self._library[function_name(self.programs[at])](*values)


def _unwritten(dtype: np.dtype) -> float:
    return float("nan") if dtype.kind == "f" else -1 if dtype.kind == "i" else 1


def _stored(x: np.ndarray, dtype: DType) -> np.ndarray:
    """An array as memory holds it, dense."""
    if dtype.name == "bfloat16":
        bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
        near = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        return np.where(np.isnan(x), 0x7FC0, near).astype(np.uint16).reshape(x.shape)
    return np.ascontiguousarray(x, np.dtype(np.uint8) if dtype.kind == "bool" else dtype.numpy).reshape(x.shape)


def _meant(x: np.ndarray, dtype: DType) -> np.ndarray:
    """An array of numbers from one of memory."""
    if dtype.name == "bfloat16":
        return (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return x.astype(dtype.meaning)
