"""The order in which programs start: those with the most steps first.

A device starts programs in order, each where another one ended, so the last to start ends last.  Where the steps of a loop depend on the
tile of a grid axis, as below a diagonal, and are more at the end of the axis, its tiles are taken from the last to the first: what is left
for the end is short (longest processing time first, within what shares the other axes' data, so that this stays in the cache).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..program import Binding, Loop, TileProgram
from ..sizes import Sizes


def launch(program: TileProgram) -> TileProgram:
    """Decide ``TileProgram.backwards``.  Axes whose tiles are taken in groups have an order already."""
    sizes = Sizes(program, program.kernel.roles, {})
    free = program.grid[:-2] if program.kernel.grouped else program.grid
    return replace(program, backwards=tuple(b for b in free if _grows(program, b, sizes)))


def _grows(program: TileProgram, b: Binding, sizes: Sizes) -> bool:
    """Whether the later half of a grid axis has more steps than the earlier one."""
    loops = (s for s in program.statements() if isinstance(s, Loop))
    steps = sum((found for s in loops if (found := sizes.along(s, b)) is not None), np.zeros(1))
    half = len(steps) // 2
    return bool(half and steps[-half:].sum() > steps[:half].sum())
