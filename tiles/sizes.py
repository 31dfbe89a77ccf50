"""The sizes of a tile program under the roles of a kernel, which may have other tile sizes than the one that was lowered.

A program whose kernel has the same *shape* (:mod:`.tilings`) is the same program with other sizes, so counting asks here and never
its values and bindings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ..ir.index import Axis
from .kernel import Buffer, Role
from .program import Access, Binding, Dim, Edge, Load, Loop, Store, TileProgram, Value

VECTOR_BYTES = 16  # a full-width memory instruction
SAMPLES = 256  # tiles along an axis that an average is taken over
EXTENT_DIVISOR = 16  # Triton knows of sizes and strides only whether 16 divides them


def run_dim(at: Access, buffer: Buffer) -> Dim | None:
    """The dim of a tile whose neighbouring lanes are neighbours in memory, if there is one."""
    real = [p for p, n in enumerate(buffer.shape) if n > 1]
    if not real:
        return None
    neighbours = [a for a, c in at.index[real[-1]].terms if c == 1]
    return next((d for d in at.dims if d.axes[-1] in neighbours), None)


def wide_axis(at: Access, buffer: Buffer) -> Axis | None:
    """The axis whose neighbouring lanes are neighbours in memory and surely aligned, if there is one."""
    dim = run_dim(at, buffer)
    if dim is None:
        return None
    axis = dim.axes[-1]
    position = max(p for p, n in enumerate(buffer.shape) if n > 1)
    aligned = buffer.shape[position] % EXTENT_DIVISOR == 0 and (at.binding(axis).even or axis.size % EXTENT_DIVISOR == 0)
    return axis if aligned and at.index[position].const % EXTENT_DIVISOR == 0 and not at.inside else None


def wide_axes(program: TileProgram) -> Mapping[int, Axis | None]:
    """:func:`wide_axis` of every access of a program, by the access's id."""
    accesses = (s.access for s in program.statements() if isinstance(s, Load | Store))
    return {id(at): wide_axis(at, program.kernel.buffers[at.buffer]) for at in accesses}


class Sizes:
    """Sizes of values, loops and memory instructions.  ``wide``: the :func:`wide_axes` of the program, which are the same under all
    roles."""

    def __init__(self, program: TileProgram, roles: Mapping[Axis, Role], wide: Mapping[int, Axis | None]) -> None:
        self.roles = roles
        self.dims = {d.name: math.prod([roles[a].tile for a in d.axes]) for d in program.dims}  # dim name -> lanes
        self._wide = wide
        self._elements: dict[str, int] = {}  # value name -> lanes

    def elements(self, v: Value) -> int:
        """Number of lanes, padding included."""
        n = self._elements.get(v.name)
        if n is None:
            n = self._elements[v.name] = math.prod([self.dims[d.name] for d in v.dims])
        return n

    def bytes(self, v: Value) -> int:
        """Bytes of a value."""
        return self.elements(v) * max(v.dtype.itemsize, 1)

    def steps(self, b: Binding) -> int:
        """Tiles of a binding's axis."""
        return -(-b.axis.size // self.roles[b.axis].tile)

    def taken(self, loop: Loop) -> float:
        """The share of its steps that a loop takes, on average over the tiles that its edges depend on."""
        steps = self.steps(loop.binding)
        if not steps or not (loop.starts or loop.stops):
            return 1.0
        over = list(dict.fromkeys(b for e in (*loop.starts, *loop.stops) for b, _, _ in e.terms))
        tile = {b.name: self.roles[b.axis].tile for b in over}
        tiles = [np.unique(np.linspace(0, self.steps(b) - 1, min(self.steps(b), SAMPLES)).astype(int)) for b in over]
        at = np.meshgrid(*(t * tile[b.name] for b, t in zip(over, tiles, strict=True)), indexing="ij") if over else []
        where = {b.name: p for b, p in zip(over, at, strict=True)}

        def position(e: Edge) -> np.ndarray:
            return np.asarray(e.const + sum(c * (where[b.name] + (tile[b.name] - 1) * last) for b, c, last in e.terms))

        mine = self.roles[loop.binding.axis].tile
        first, end = np.asarray(0), np.asarray(loop.binding.axis.size)
        for e in loop.starts:
            first = np.maximum(first, position(e) // mine * mine)
        for e in loop.stops:
            end = np.minimum(end, position(e))
        return float(np.mean(np.maximum(-((first - end) // mine), 0))) / steps

    def run(self, at: Access, buffer: Buffer) -> int:
        """Bytes that lie in one piece: neighbours along the last axis of the buffer, times those of the axis before it where they
        are all there, and so on."""
        elements = 1
        for position in reversed(range(len(buffer.shape))):
            length = buffer.shape[position]
            if length == 1:
                continue
            axis = next((a for a, c in at.index[position].terms if c == 1), None)
            lanes = 1 if axis is None or axis not in self.roles else min(self.roles[axis].tile, length)
            elements *= lanes
            if lanes < length:
                break
        return elements * buffer.dtype.itemsize

    def vector(self, at: Access, itemsize: int) -> int:
        """Bytes per memory instruction: the longest run of neighbouring lanes that are neighbours in memory and surely aligned."""
        axis = self._wide[id(at)]
        return itemsize if axis is None else min(VECTOR_BYTES, self.roles[axis].tile * itemsize)
