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
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...ir import dtypes
from ...ir.index import Axis
from ...ir.strides import MOST_UNIT
from ..names import descriptor_name, extent_name, identifier, pointer_name, tile_name
from ..program import ExtentValue, Load, Loop, Mean, Param, Store, TileProgram
from ..sizes import run_dim
from .offsets import INT32_MAX

LARGEST = 8  # unit: of twice as much the compiler finds out


def parametrise(program: TileProgram) -> TileProgram:
    """Decide ``TileProgram.parameters``: all that the kernel reads or writes, and the sizes that it computes with."""
    kernel = program.kernel
    extents = _extents(program)
    found = [Param(pointer_name(b), "pointer", kernel.buffers[b].dtype, None, buffer=b) for b in (*program.loads(), *program.stores())]
    found += _descriptors(program)
    for a in (*(a for a in kernel.roles if a in extents), *sorted(extents - set(kernel.roles))):
        found.append(Param(extent_name(a), "int", dtypes.int32, a.size, axis=a))
    for (buffer, position), name in _strides(program).items():
        value = kernel.buffers[buffer].steps[position]
        wide = dtypes.int64 if value > INT32_MAX else dtypes.int32
        found.append(Param(name, "int", wide, value, buffer=buffer, position=position))
    found += [Param(tile_name(a), "constexpr", None, kernel.tile(a), axis=a) for a in kernel.roles if kernel.tile(a) > 1]
    return replace(program, parameters=(*found, *_units(program, found)))


def _descriptors(program: TileProgram) -> Iterator[Param]:
    """One for every shape of the blocks of each buffer."""
    blocks = dict.fromkeys((s.access.buffer, s.block) for s in program.statements() if isinstance(s, Load) and s.block)
    often: dict[str, int] = {}
    for buffer, block in blocks:
        often[buffer] = often.get(buffer, 0) + 1
        name = descriptor_name(buffer) + (f"_{often[buffer]}" if often[buffer] > 1 else "")
        yield Param(name, "descriptor", program.kernel.buffers[buffer].dtype, None, buffer=buffer, block=block)


def _extents(program: TileProgram) -> set[Axis]:
    """The axes whose lengths end a loop or a mask, are divided by, or say how many tiles the grid has (of the slowest, nobody
    asks where tiles are not taken in groups along it)."""
    statements = list(program.statements())
    loops = [s.binding for s in statements if isinstance(s, Loop)]
    slowest = program.kernel.persistent or (program.kernel.grouped and len(program.grid) == 2)
    asked = (*program.grid[0 if slowest else 1 :], *program.backwards)
    bindings = [*loops, *(b for b in program.fixed if not b.even), *asked]
    numbers = [s.axis for s in statements if isinstance(s, ExtentValue) or (isinstance(s, Mean) and s.binding is None)]
    masks = [i.axis for s in statements if isinstance(s, Load | Store) for i in s.access.inside if i.axis is not None]
    looked = [a for s in statements if isinstance(s, Load) for a in s.access.places]
    return {*(b.axis for b in bindings), *numbers, *masks, *looked}


def _strides(program: TileProgram) -> dict[tuple[str, int], str]:
    """The dimensions of buffers along which something moves, and what their strides are called."""
    found: dict[tuple[str, int], str] = {}
    for at in (s.access for s in program.statements() if isinstance(s, Load | Store)):
        for position, e in enumerate(at.index):
            if (e.terms or e.const) and (at.buffer, position) not in found:
                axis = e.as_axis()
                name = f"{identifier(at.buffer)}_stride_{identifier(axis.name) if axis else position}"
                found[at.buffer, position] = f"{identifier(at.buffer)}_stride_{position}" if name in found.values() else name
    return found


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
