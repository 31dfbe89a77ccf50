"""Which loop over the lanes of an axis is outside of which.

Between programs of the grid nothing is shared, and without a product nothing is shared between the lanes of a grid axis either.  So all
that a program does is done for one lane after the other (such an axis is *opened*): what a loop carries for a row is a number in a
register, and a row is read from its beginning to its end, as memory likes it.  Innermost is the axis along which most elements are
neighbours in memory, by which loops are vectorised: a reduction over another one has an accumulator for every lane of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...ir.index import Axis
from ...tiles.program import Access, Dot, Load, Store, TileProgram

_FEWEST = 8  # lanes that are worth a loop of vectors


def loop_order(program: TileProgram) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """The axes that are opened, and those of all other loops over lanes, outermost first."""
    axes = [a for d in program.dims for a in d.axes]
    if any(isinstance(s, Dot) for s in program.statements()):  # its operands are matrices, in the order of the dims
        return (), tuple(axes)
    along = _along_memory(program)
    if along is not None:
        axes.sort(key=lambda a: a == along)
    grid = {b.axis for b in program.grid}
    opened = tuple(a for a in axes[:-1] if a in grid)
    return opened, tuple(a for a in axes if a not in opened)


def _along_memory(program: TileProgram) -> Axis | None:
    """The axis along which most elements that are read and written are neighbours."""
    votes: Counter[Axis] = Counter()
    for s in program.statements():
        if isinstance(s, Load | Store):
            lanes = 1
            for d in s.access.dims:
                lanes *= d.size
            votes.update(dict.fromkeys(_neighbours(program, s.access), lanes))
    found = [a for a in votes if program.kernel.tile(a) >= _FEWEST]
    return max(found, key=lambda a: votes[a], default=None)


def _neighbours(program: TileProgram, at: Access) -> Iterator[Axis]:
    """The axes whose next lane is the next element."""
    unit = program.kernel.buffers[at.buffer].fastest
    lanes = {a for d in at.dims for a in d.axes} - at.places.keys()
    if unit is not None and at.index:
        yield from (a for a, c in at.index[unit].terms if c == 1 and isinstance(a, Axis) and a in lanes)
