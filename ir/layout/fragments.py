"""Tiles in registers: who holds what of a tensor, on the axes reg, lane and warp.

Blocks as Triton deals them out, and the fragments of matrix instructions: mma of sm_80, wgmma of sm_90 (PTX ISA, "Matrix fragments
for mma.m16n8k16" and "wgmma register fragments"), MFMA of CDNA.  A tensor that is larger than all walks takes more registers, along
the dimensions of ``order`` in turn; one that is smaller is copied."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import LayoutError
from .bases import Bases

REG, LANE, WARP = "reg", "lane", "warp"


def blocked(shape: Sequence[int], per_thread: Sequence[int], lanes: Sequence[int], warps: Sequence[int], order: Sequence[int]) -> Bases:
    """A box of elements for each lane, a box of lanes for each warp, a box of warps; the fastest dimension first in ``order``."""
    out = Bases(len(shape)).walks(REG, per_thread, order).walks(LANE, lanes, order).walks(WARP, warps, order)
    return out.fit(shape, REG, order)


def blocked_operand(
    shape: Sequence[int], operand: int, per_thread: Sequence[int], lanes: Sequence[int], warps: Sequence[int], order: Sequence[int]
) -> Bases:
    """An operand of a product whose result is ``blocked``: each lane has all of the summed dimension."""
    summed = _summed(len(shape), operand)
    own = [shape[d] if d == summed else n for d, n in enumerate(per_thread)]
    out = Bases(len(shape)).walks(REG, own, order).walks(LANE, lanes, order, summed).walks(WARP, warps, order, summed)
    return out.fit(shape, REG, order)


def mma(shape: Sequence[int], version: int, instruction: Sequence[int], warps: Sequence[int]) -> Bases:
    """The accumulator of mma (version 2) or wgmma (3): 2 elements of a row in a lane, 4 lanes along a row, 8 rows, the lower 8 rows."""
    if not (version == 2 and tuple(instruction[-2:]) == (16, 8)) and not (version == 3 and instruction[0] == 16):
        raise LayoutError(f"mma of version {version}, {tuple(instruction)}, is not described", cure="m16n8 of 2, m16nNkK of 3")
    rank = len(shape)
    order = _rows_first(rank)
    tile = instruction if version == 2 else instruction[:2]
    out = _nvidia_tile(Bases(rank), tile, 2, order)
    return out.walks(WARP, warps, _warp_order(rank, version)).fit(shape, REG, order)


def mma_operand(shape: Sequence[int], operand: int, version: int, warps: Sequence[int], width: int) -> Bases:
    """An operand of mma in registers, ``width`` elements of the summed dimension in a row; for wgmma only the first."""
    rank = len(shape)
    if version == 3 and operand:
        raise LayoutError("the second operand of wgmma is in shared memory", cure="the layout of the shared buffer")
    order = _rows_first(rank) if operand == 0 else _columns_first(rank)
    tile = [1] * (rank - 2) + ([16, 8 * width] if operand == 0 else [8 * width, 8])
    out = _nvidia_tile(Bases(rank), tile, width, order)
    return out.walks(WARP, warps, _warp_order(rank, version), _summed(rank, operand)).fit(shape, REG, order)


def mfma(shape: Sequence[int], instruction: Sequence[int], warps: Sequence[int], transposed: bool) -> Bases:
    """The accumulator of MFMA 32x32 or 16x16: 4 elements of a column in a lane (of a row if transposed), lanes along the other
    dimension, then the groups of 4."""
    rank, side = len(shape), _side(instruction)
    order = _rows_first(rank) if transposed else _columns_first(rank)
    out = Bases(rank).walk(REG, 4, order[0]).walk(LANE, side, order[1]).walk(LANE, 64 // side, order[0])
    out.walk(REG, side * side // 256, order[0])
    return out.walks(WARP, warps, _rows_first(rank)).fit(shape, REG, _rows_first(rank))


def mfma_operand(shape: Sequence[int], operand: int, instruction: Sequence[int], warps: Sequence[int], width: int) -> Bases:
    """An operand of MFMA: ``width`` elements of the summed dimension in a lane, lanes along the other, then along the summed one."""
    rank, side = len(shape), _side(instruction)
    order = _rows_first(rank) if operand == 0 else _columns_first(rank)
    out = Bases(rank).walk(REG, width, order[0]).walk(LANE, side, order[1]).walk(LANE, 64 // side, order[0])
    return out.walks(WARP, warps, _rows_first(rank), order[0]).fit(shape, REG, order)


def _nvidia_tile(out: Bases, tile: Sequence[int], width: int, order: Sequence[int]) -> Bases:
    inner, outer = order[:2]
    out.walk(REG, width, inner).walk(LANE, 4, inner).walk(LANE, 8, outer)
    return out.walk(REG, tile[outer] // 8, outer).walk(REG, tile[inner] // (4 * width), inner)


def _side(instruction: Sequence[int]) -> int:
    if tuple(instruction[:2]) not in {(32, 32), (16, 16)}:
        raise LayoutError(f"MFMA of {tuple(instruction)} is not described", cure="32x32 or 16x16")
    return instruction[0]


def _summed(rank: int, operand: int) -> int:
    return rank - 1 if operand == 0 else rank - 2


def _rows_first(rank: int) -> list[int]:
    return list(range(rank))[::-1]


def _columns_first(rank: int) -> list[int]:
    return [rank - 2, rank - 1, *_rows_first(rank - 2)]


def _warp_order(rank: int, version: int) -> list[int]:
    return _columns_first(rank) if version == 3 else _rows_first(rank)
