"""Offsets of lanes from the start of their tile: 32 bits, or 64 where the planned shape needs them."""

from __future__ import annotations

from dataclasses import replace

from ...ir.index import Atom, Axis, IndexExpr
from ...ir.strides import contiguous_strides
from ..kernel import Kernel
from ..program import Access, Load, Statement, Store, TileProgram, rewritten

INT32_MAX = 2**31 - 1


def widen(program: TileProgram) -> TileProgram:
    """Decide ``Access.wide``."""

    def one(s: Statement) -> Statement:
        if isinstance(s, Load | Store) and _is_wide(program.kernel, s.access):
            return replace(s, access=replace(s.access, wide=True))
        return s

    return replace(program, body=rewritten(program.body, one))


def last_lanes(kernel: Kernel, at: Access) -> tuple[int, ...]:
    """For each dimension of a buffer, how far the lanes of a tile are from its start at most, padded lanes included."""
    tiles = {b.axis: b.tile for b in at.bindings}

    def last(atom: Atom) -> int:
        e = IndexExpr(((atom, 1),))
        if not e.axes().isdisjoint(at.places):
            return 0  # what is looked up has 64 bits
        if isinstance(atom, Axis):
            return kernel.tile(atom) - 1
        if any(at.binding(a).kind != "resident" for a in e.axes()):
            return 0  # the start of a tile is in it, and that has 64 bits
        return max(map(abs, e.bounds(tiles)))

    return tuple(sum(abs(c) * last(atom) for atom, c in e.terms) for e in at.index)


def _is_wide(kernel: Kernel, at: Access) -> bool:
    buffer = kernel.buffers[at.buffer]
    steps = map(max, buffer.steps, contiguous_strides(buffer.shape))  # a call may bring the one or the other
    return sum(n * s for n, s in zip(last_lanes(kernel, at), steps, strict=True)) > INT32_MAX // 2
