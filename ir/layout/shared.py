"""Tiles in shared memory: swizzled, as tensor cores and TMA want them, padded; in elements, on one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from ...errors import LayoutError
from .bases import Bases, layout_of_bases
from .iters import MEMORY, Iter
from .layout import Layout
from .swizzle import Swizzled

_PHASES = {32: (4, 2), 64: (2, 4), 128: (1, 8)}  # bytes of a swizzled row -> rows of a phase, phases


def swizzled(shape: Sequence[int], vector: int, per_phase: int, phases: int, order: Sequence[int]) -> Layout | Swizzled:
    """Vectors of a row change places by the row's phase: ``column ^ vector·(row / per_phase % phases)``."""
    if len(shape) == 1:
        return Bases(1).walk(MEMORY, shape[0], 0).layout(shape)
    return layout_of_bases({MEMORY: _rows(shape, vector, per_phase, phases, order)}, shape)


def _rows(shape: Sequence[int], vector: int, per_phase: int, phases: int, order: Sequence[int]) -> list[tuple[int, ...]]:
    column, row = order[:2]
    bits = Bases(len(shape)).walks(MEMORY, shape, order).bits[MEMORY]
    moves = [vector * (b[row] // per_phase % phases) % shape[column] for b in bits]  # 0 for bits of the column
    return [tuple(v + move if d == column else v for d, v in enumerate(b)) for b, move in zip(bits, moves, strict=True)]


def tensor_core(shape: Sequence[int], row_bytes: int, element_bits: int, transposed: bool) -> Layout | Swizzled:
    """Tiles of 8 swizzled rows, which wgmma and TMA read; tiles follow each other along the rows' dimension up to 256, then along the
    others.  ``row_bytes`` is 0, 32, 64 or 128; with 0 there is no swizzle."""
    rank = len(shape)
    order = list(range(rank))[::-1]
    if transposed and row_bytes:  # the first dimension is the contiguous one; rows without a swizzle ignore it
        order = [0, *range(rank)[:0:-1]]
    most = [min(n, 256) for n in shape]
    if not row_bytes:
        return Bases(rank).walks(MEMORY, most, order).fit(shape, MEMORY, order).layout(shape)
    if rank < 2 or row_bytes not in _PHASES:
        raise LayoutError(f"rows of {row_bytes} bytes in {tuple(shape)} are not described", cure="0, 32, 64 or 128, and two dimensions")
    columns = 8 * row_bytes // element_bits
    per_phase, phases = _PHASES[row_bytes]
    most[order[0]] = columns
    flat = [columns, math.prod(most[d] for d in order[1:])]
    if flat[1] < 8 or shape[order[0]] < columns:
        raise LayoutError(f"{tuple(shape)} is less than 8 rows of {row_bytes} bytes", cure="shorter rows")
    vector = 128 // element_bits
    out = Bases(rank).walks(MEMORY, most, order)
    seen = 0  # the number of the row, over all dimensions but the contiguous one
    bits = out.bits[MEMORY]
    for k, basis in enumerate(bits):
        if basis[order[0]] == 0:
            row = 1 << seen
            seen += 1
            if row < 8:
                bits[k] = tuple(vector * (row // per_phase % phases) if d == order[0] else v for d, v in enumerate(basis))
    return out.fit(shape, MEMORY, order).layout(shape)


def padded(layout: Layout | Swizzled, pads: Sequence[tuple[int, int]]) -> Layout:
    """``pad`` elements left out after every ``interval`` of a layout onto 0 .. size - 1, for each (interval, pad)."""
    if isinstance(layout, Swizzled):
        raise LayoutError(f"{layout} is swizzled, and padding adds where a swizzle turns over", cure="padding or a swizzle")
    steps: list[Iter] = []
    bounds = sorted({1, layout.size, *(i for i, _ in pads if i < layout.size)})
    for low, high in pairwise(bounds):
        steps.insert(0, Iter(high // low, low + sum(low // i * pad for i, pad in pads)))
    return Layout(tuple(steps)).compose(layout)
