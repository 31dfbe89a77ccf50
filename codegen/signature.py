"""The parameters of a generated kernel, in order: pointers, extents, strides, tile sizes.

Extents and strides are run-time integers, so that one kernel serves every shape the plan is valid for and every memory layout;
Triton itself specialises those that are 1 or divisible by 16.  Tile sizes are compile-time constants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ..ir import dtypes
from ..ir.dtypes import DType
from ..ir.index import Atom, Axis, IndexExpr
from ..tiles.kernel import Kernel
from ..tiles.names import identifier
from ..tiles.program import Access, TileProgram

INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class Param:
    """One parameter.

    ``value`` is the constant of a ``constexpr`` and the planned value of an ``int``.  A pointer belongs to ``buffer``; a stride to
    ``buffer`` and its dimension ``position``; an extent or a tile size to ``axis``.  ``dtype`` is the pointee of a pointer.
    A unit (:mod:`.units`) ``divides`` others; its ``value`` is the logarithm of the planned one.
    """

    name: str
    kind: Literal["pointer", "int", "constexpr"]
    dtype: DType | None
    value: int | None
    buffer: str | None = None
    axis: Axis | None = None
    position: int | None = None
    divides: tuple[Param, ...] = ()

    @property
    def triton(self) -> str:
        """The type as Triton's ahead-of-time compiler spells it."""
        if self.kind == "constexpr":
            return "constexpr"
        assert self.dtype is not None
        return f"*{self.dtype.triton}" if self.kind == "pointer" else self.dtype.triton


def signature(program: TileProgram) -> tuple[Param, ...]:
    """The parameters of the kernel that :func:`~eqfuse.codegen.triton.print_kernel` prints for a tile program."""
    from .triton import KernelPrinter

    return KernelPrinter(program).parameters


def pointer_name(buffer: str) -> str:
    """The pointer parameter of a buffer."""
    return f"{identifier(buffer)}_ptr"


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a dense tensor, in elements."""
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def last_lanes(kernel: Kernel, at: Access) -> tuple[int, ...]:
    """For each dimension of a buffer, how far the lanes of a tile are from its start at most, padded lanes included."""
    tiles = {b.axis: b.tile for b in at.bindings}

    def last(atom: Atom) -> int:
        if isinstance(atom, Axis):
            return kernel.tile(atom) - 1
        e = IndexExpr(((atom, 1),))
        if any(at.binding(a).kind != "resident" for a in e.axes()):
            return 0  # the start of a tile is in it, and that has 64 bits
        return max(map(abs, e.bounds(tiles)))

    return tuple(sum(abs(c) * last(atom) for atom, c in e.terms) for e in at.index)


def is_wide(kernel: Kernel, at: Access) -> bool:
    """Whether the lanes of a tile need offsets of 64 bits, by the planned shape."""
    strides = contiguous_strides(kernel.buffers[at.buffer].shape)
    return sum(n * s for n, s in zip(last_lanes(kernel, at), strides, strict=True)) > INT32_MAX // 2


def build(program: TileProgram, extents: list[Axis], strides: dict[tuple[str, int], str], tiles: list[Axis]) -> tuple[Param, ...]:
    """Parameters from what the printed text uses."""
    kernel = program.kernel
    params = []
    for b in (*program.loads(), *program.stores()):
        params.append(Param(pointer_name(b), "pointer", kernel.buffers[b].dtype, None, buffer=b))
    for a in extents:
        params.append(Param(f"N_{identifier(a.name)}", "int", dtypes.int32, a.size, axis=a))
    for (b, d), name in strides.items():
        value = contiguous_strides(kernel.buffers[b].shape)[d]
        wide = dtypes.int64 if value > INT32_MAX else dtypes.int32
        params.append(Param(name, "int", wide, value, buffer=b, position=d))
    for a in tiles:
        params.append(Param(f"T_{identifier(a.name)}", "constexpr", None, kernel.tile(a), axis=a))
    return tuple(params)
