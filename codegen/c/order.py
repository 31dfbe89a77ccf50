"""Which loop over the lanes of an axis is outside of which.

Between programs of the grid nothing is shared, and without a product nothing is shared between the lanes of a grid axis either.  So all
that a program does is done for one lane after the other (such an axis is *opened*): what a loop carries for a row is a number in a
register, and a row is read from its beginning to its end, as memory likes it.  Innermost is the axis along which most elements are
neighbours in memory, by which loops are vectorised: a reduction over another one has an accumulator for every lane of it.

A transpose has no such axis.  Its innermost loop runs along what is stored, in strips as long as a line of a cache, and inside of that
along what is loaded: lines that are loaded in strips are used up while they are there, and those that are stored are written whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...ir.index import Axis
from ...tiles.program import Access, Dot, Load, Loop, Reduce, Scan, Store, TileProgram

_FEWEST = 8  # lanes that are worth a loop of vectors


def loop_order(program: TileProgram) -> tuple[tuple[Axis, ...], tuple[Axis, ...], Axis | None]:
    """The axes that are opened, and those of all other loops over lanes, outermost first; of these the one in strips inside of which is the
    innermost."""
    axes = [a for d in program.dims for a in d.axes]
    if any(isinstance(s, Dot) for s in program.statements()):  # its operands are matrices, in the order of the dims
        return (), tuple(axes), None
    along = _along_memory(program)
    across = None if along is None else _loaded_across(program, along)
    if along is not None:
        axes.sort(key=lambda a: (a == along, a == across))
    grid = {b.axis for b in program.grid}
    opened = tuple(a for a in axes[:-1] if a in grid and a != across)
    return opened, tuple(a for a in axes if a not in opened), across


def _along_memory(program: TileProgram) -> Axis | None:
    """The axis along which most elements that are read and written are neighbours; of two those that are written."""
    votes: Counter[Axis] = Counter()
    written = {a for s in program.statements() if isinstance(s, Store) for a in _neighbours(program, s.access)}
    for s in program.statements():
        if isinstance(s, Load | Store):
            lanes = 1
            for d in s.access.dims:
                lanes *= d.size
            votes.update(dict.fromkeys(_neighbours(program, s.access), lanes))
    found = [a for a in votes if program.kernel.tile(a) >= _FEWEST]
    return max(found, key=lambda a: (votes[a], a in written), default=None)


def _loaded_across(program: TileProgram, along: Axis) -> Axis | None:
    """Another axis along which elements that are loaded are neighbours, where nothing is carried or reduced."""
    statements = tuple(program.statements())
    if any(isinstance(s, Loop | Reduce | Scan) for s in statements):
        return None
    loaded = [tuple(_neighbours(program, s.access)) for s in statements if isinstance(s, Load)]
    return next((a for axes in loaded for a in axes if along not in axes and program.kernel.tile(a) >= _FEWEST), None)


def _neighbours(program: TileProgram, at: Access) -> Iterator[Axis]:
    """The axes whose next lane is the next element."""
    unit = program.kernel.buffers[at.buffer].fastest
    lanes = {a for d in at.dims for a in d.axes} - at.places.keys()
    if unit is not None and at.index:
        yield from (a for a, c in at.index[unit].terms if c == 1 and isinstance(a, Axis) and a in lanes)
