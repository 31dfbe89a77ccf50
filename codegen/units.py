"""Units: powers of two that divide the strides of a buffer or the length of an axis, told to the compiler.

A memory instruction moves several neighbours where the compiler can prove that they are aligned.  Triton finds out about a run-time integer
whether 16 divides it, and nothing else: rows of 72 float16 elements, which are aligned to 16 bytes, would be moved one element at a time,
without the asynchronous copy.  ``n // 8 * 8`` is a multiple of 8 that it can prove, and it is n if the constant 8 divides n.
The host passes a constant that does: of the strides and lengths that a call has, not those that were planned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..ir.index import Axis
from ..tiles.names import identifier
from ..tiles.program import Load, Store, TileProgram
from ..tiles.sizes import MOST_UNIT, run_dim
from .signature import Param

LARGEST = 8  # of twice as much the compiler finds out


def units(program: TileProgram, parameters: Sequence[Param]) -> tuple[Param, ...]:
    """The constants that a kernel takes beside its parameters, the logarithms of units: where planned lengths are no multiples of 16, but
    of less."""
    buffers = program.kernel.buffers
    runs: dict[Axis, None] = {}
    for s in program.statements():
        if isinstance(s, Load | Store) and (dim := run_dim(s.access, buffers[s.access.buffer])) is not None:
            runs[dim.axes[-1]] = None
    groups: dict[str, list[Param]] = {}
    for p in parameters:
        if p.kind == "int" and p.buffer is not None and p.value != 1:  # neighbours are at a distance of 1, which is a constant
            groups.setdefault(f"S_{identifier(p.buffer)}", []).append(p)
        elif p.kind == "int" and p.axis in runs:
            groups.setdefault(f"S_{p.name}", []).append(p)
    found = []
    for name, of in groups.items():
        unit = math.gcd(MOST_UNIT, *(p.value or 0 for p in of))
        if 1 < unit <= LARGEST:
            found.append(replace(of[0], name=name, kind="constexpr", dtype=None, value=unit.bit_length() - 1, divides=tuple(of)))
    return tuple(found)
