"""Loads of whole blocks by a tensor descriptor: one thread asks for the block, and a unit of the device copies it past the registers.

A block is a box of a tensor: some neighbours along every dimension.  What is outside the tensor is zero, as masked lanes are, so a mask of
positions that do not exist is none.  What a descriptor needs of memory (a multiple of 16 bytes from each line to the next and where it
begins, neighbours along the last dimension) a call may not have; the host looks, and without a descriptor the kernel loads by pointers.
Limits are those of CUDA's ``cuTensorMapEncodeTiled``.
"""

from __future__ import annotations

from dataclasses import replace

from ..kernel import Buffer
from ..program import Access, Dot, Load, Loop, Statement, TileProgram, rewritten, walk_statements

ALIGNED = 16  # bytes
LONGEST = 256  # elements along a dimension of a block
RANKS = range(2, 6)


def describe(program: TileProgram) -> TileProgram:
    """Decide ``Load.block``: of the operands of matrix products in loops, where the kernel has descriptors."""
    if not program.kernel.descriptors:
        return program
    loops = [s for s in program.statements() if isinstance(s, Loop)]
    inside = [s for loop in loops for s in walk_statements(loop.body)]
    operands = {v.name for s in inside if isinstance(s, Dot) for v, loaded in zip((s.a, s.b), s.loaded, strict=True) if loaded}
    loaded = {id(s) for s in inside if isinstance(s, Load) and s.dst.name in operands}

    def one(s: Statement) -> Statement:
        if id(s) in loaded and isinstance(s, Load) and not s.hint:
            return replace(s, block=block(s.access, program.kernel.buffers[s.access.buffer]))
        return s

    return replace(program, body=rewritten(program.body, one))


def block(at: Access, buffer: Buffer) -> tuple[int, ...]:
    """The shape of the block that an access reads, a number for each dimension of the buffer; empty if it reads none, or not by a
    descriptor."""
    size, rank = buffer.dtype.itemsize, len(at.index)
    if rank not in RANKS or size != 2 or at.looked or at.inside or 0 in buffer.shape or buffer.steps[-1] != 1:
        return ()
    if any(s * size % ALIGNED or s <= 0 for s in buffer.steps[:-1]):
        return ()
    lanes = {a: d for d in at.dims for a in d.axes}
    shape, seen = list[int](), set()
    for e, length in zip(at.index, buffer.shape, strict=True):
        axis = next(iter(e.axes()), None)
        if e.terms and (axis is None or e.terms != ((axis, 1),) or axis in seen):
            return ()
        seen.add(axis)
        if any(b.axis == axis and (e.const or axis.size != length) for b in at.valid):
            return ()  # a lane that the axis does not have may be in the buffer
        shape.append(at.binding(axis).tile if axis in lanes else 1)
    whole = len(lanes) == len(at.dims) and set(lanes) <= seen and at.index[-1].const * size % ALIGNED == 0
    return tuple(shape) if whole and shape[-1] * size >= ALIGNED and max(shape) <= LONGEST else ()
