"""The parameters of a printed kernel, in order: pointers, extents, strides, tile sizes, units.

Extents and strides are run-time integers, so that one kernel serves every shape the plan is valid for and every memory layout.  Tile
sizes are compile-time constants, and so are *units*: powers of two that divide the strides of a buffer or the length of an axis, told to
the compiler.  A memory instruction moves several neighbours where the compiler can prove that they are aligned.  Triton finds out about a
run-time integer whether 16 divides it, and nothing else: rows of 72 float16 elements, which are aligned to 16 bytes, would be moved one
element at a time, without the asynchronous copy.  ``n // 8 * 8`` is a multiple of 8 that it can prove, and it is n if the constant 8
divides n.  The host passes a constant that does: of the strides and lengths that a call has, not those that were planned.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ...ir import dtypes
from ...ir.index import Axis
from ..names import extent_name, identifier, pointer_name, tile_name
from ..program import (
    Access,
    Binding,
    Count,
    Dim,
    ExtentValue,
    Fill,
    IndexValue,
    Load,
    Loop,
    Mean,
    Param,
    Rest,
    Statement,
    Store,
    TileProgram,
    Where,
)
from ..sizes import MOST_UNIT, run_dim
from .offsets import INT32_MAX, contiguous_strides

LARGEST = 8  # unit: of twice as much the compiler finds out


def parametrise(program: TileProgram) -> TileProgram:
    """Decide ``TileProgram.parameters``: all that the kernel reads or writes, and all sizes that its text mentions."""
    kernel = program.kernel
    needs = _Needs(program)
    found = [Param(pointer_name(b), "pointer", kernel.buffers[b].dtype, None, buffer=b) for b in (*program.loads(), *program.stores())]
    for a in (*(a for a in kernel.roles if a in needs.extents), *sorted(needs.extents - set(kernel.roles))):
        found.append(Param(extent_name(a), "int", dtypes.int32, a.size, axis=a))
    for (buffer, position), name in needs.strides.items():
        value = contiguous_strides(kernel.buffers[buffer].shape)[position]
        wide = dtypes.int64 if value > INT32_MAX else dtypes.int32
        found.append(Param(name, "int", wide, value, buffer=buffer, position=position))
    found += [Param(tile_name(a), "constexpr", None, kernel.tile(a), axis=a) for a in kernel.roles if a in needs.tiles]
    return replace(program, parameters=(*found, *_units(program, found)))


class _Needs:
    """The extents, tile sizes and strides that the statements of a program are made of."""

    def __init__(self, program: TileProgram) -> None:
        self.kernel = program.kernel
        self.dim_of = {a: d for d in program.dims for a in d.axes}
        self.extents: set[Axis] = set()
        self.tiles: set[Axis] = set()
        self.strides: dict[tuple[str, int], str] = {}  # (buffer, dimension) -> name
        for at, b in enumerate(program.grid):
            if at or self.kernel.persistent:  # of the slowest one nobody asks how many tiles it has, but for the number of tasks
                self.extents.add(b.axis)
            self._tile(b.axis)
        for s in program.statements():
            self._statement(s)

    def _statement(self, s: Statement) -> None:
        if isinstance(s, Load | Store):
            self._access(s.access)
        elif isinstance(s, Loop):
            self.extents.add(s.binding.axis)
            edges = [b.axis for e in (*s.starts, *s.stops) for b, _, last in e.terms if last]
            self._tile(s.binding.axis, *edges)
            self._shapes(a.old.dims for a in s.accumulators if a.start is None)
        elif isinstance(s, Where):
            self._masks(s.bindings)
        elif isinstance(s, Rest):
            self._masks((s.binding,))
            self._count(s.binding, "tile")
        elif isinstance(s, Mean):
            if s.binding is None:
                self.extents.add(s.axis)
            else:
                self._count(s.binding, s.which)
        elif isinstance(s, Count):
            self._count(s.binding, s.which)
        elif isinstance(s, ExtentValue):
            self.extents.add(s.axis)
        elif isinstance(s, Fill):
            self._shapes([s.dst.dims])
        elif isinstance(s, IndexValue):
            self._lanes(a for a in s.expr.axes() if self.dim_of.get(a) in s.dst.dims)

    def _tile(self, *axes: Axis) -> None:
        self.tiles.update(a for a in axes if self.kernel.tile(a) > 1)

    def _shapes(self, shapes: Iterable[tuple[Dim, ...]]) -> None:
        self._tile(*(a for dims in shapes for d in dims for a in d.axes))

    def _lanes(self, axes: Iterable[Axis]) -> None:
        self._shapes([(self.dim_of[a],) for a in axes if a in self.dim_of])

    def _masks(self, bindings: Iterable[Binding]) -> None:
        uneven = [b.axis for b in bindings if not b.even]
        self.extents.update(uneven)
        self._lanes(uneven)

    def _count(self, b: Binding, which: str) -> None:
        """Elements of an axis: before a tile they are its start, in it or up to its end those that exist."""
        if which != "old":
            self._tile(b.axis)
            self.extents.update(() if b.even else (b.axis,))

    def _access(self, at: Access) -> None:
        for position, e in enumerate(at.index):
            if e.terms or e.const:
                self._lanes(e.axes())
                self._stride(at.buffer, position, e.as_axis())
        self._masks(at.valid)

    def _stride(self, buffer: str, position: int, axis: Axis | None) -> None:
        if (buffer, position) not in self.strides:
            name = f"{identifier(buffer)}_stride_{identifier(axis.name) if axis else position}"
            if name in self.strides.values():
                name = f"{identifier(buffer)}_stride_{position}"
            self.strides[buffer, position] = name


def _units(program: TileProgram, parameters: Sequence[Param]) -> Iterator[Param]:
    """The logarithms of units: where planned lengths are no multiples of 16, but of less."""
    buffers = program.kernel.buffers
    runs: set[Axis] = set()
    for s in program.statements():
        if isinstance(s, Load | Store) and (dim := run_dim(s.access, buffers[s.access.buffer])) is not None:
            runs.add(dim.axes[-1])
    groups: dict[str, list[Param]] = {}
    for p in parameters:
        if p.kind == "int" and p.buffer is not None and p.value != 1:  # neighbours are at a distance of 1, which is a constant
            groups.setdefault(f"S_{identifier(p.buffer)}", []).append(p)
        elif p.kind == "int" and p.axis in runs:
            groups.setdefault(f"S_{p.name}", []).append(p)
    for name, of in groups.items():
        unit = math.gcd(MOST_UNIT, *(p.value or 0 for p in of))
        if 1 < unit <= LARGEST:
            yield replace(of[0], name=name, kind="constexpr", dtype=None, value=unit.bit_length() - 1, divides=tuple(of))
