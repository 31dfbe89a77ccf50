"""Addresses: how many of them the threads of a program hold through a loop.

What a loop loads and stores at the same place of every step but for a constant, a compiler addresses by pointers that it computes before
the loop and advances.  Lanes that are neighbours in memory need one pointer for all that a thread has of them, the rest being constants
in the instructions; lanes at a distance that only the call knows, a stride, need one each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .kernel import Buffer
from .program import Access, Dim, Dot, Load, Loop, Statement, Store, TileProgram, uses
from .sizes import Sizes, run_dim


@dataclass(frozen=True)
class Tile:
    """What one access covers: ``rows`` that lie at strides from each other, each moved by so many ``instructions``."""

    rows: int
    instructions: int

    def pointers(self, threads: int) -> int:
        """Pointers of one thread: the threads are spread over the instructions of a row first, then over rows."""
        across = min(threads, self.instructions)
        return -(-self.rows * across // threads)


@dataclass(frozen=True)
class _Held:
    """An access whose addresses a loop holds, and the dim along which neighbouring lanes are neighbours in memory."""

    access: Access
    itemsize: int
    run: Dim | None


class Addresses:
    """The accesses in the loops of a program whose addresses are held in registers."""

    def __init__(self, program: TileProgram) -> None:
        self._loops: list[tuple[_Held, ...]] = []
        self._tiles: list[_Held] = []  # of two dims and more, in loops and outside, with lanes that are neighbours in memory
        self._buffers: Mapping[str, Buffer] = program.kernel.buffers
        self._collect(program.body, False)

    def at(self, sizes: Sizes) -> tuple[tuple[Tile, ...], ...]:
        """The tiles of each loop."""
        return tuple(tuple(self._tile(h, sizes) for h in loop) for loop in self._loops)

    def widest(self, sizes: Sizes) -> tuple[tuple[Dim, ...], Tile] | None:
        """The tile with the most instructions, which a compiler lays out others by, and the dims of its rows."""
        tiles = [(tuple(d for d in h.access.dims if d != h.run), self._tile(h, sizes)) for h in self._tiles]
        return max(tiles, key=lambda t: t[1].rows * t[1].instructions, default=None)

    def _collect(self, body: tuple[Statement, ...], in_loop: bool) -> None:
        direct: dict[str, bool] = {}  # values that only contractions read: they go past the registers, and are counted with these
        for s in body:
            for v in uses(s):
                direct[v.name] = direct.get(v.name, True) and isinstance(s, Dot)
            if isinstance(s, Loop):
                self._collect(s.body, True)
        found = [s.access for s in body if (isinstance(s, Load) and not direct.get(s.dst.name, False)) or isinstance(s, Store)]
        buffers = [self._buffers[at.buffer] for at in found]
        held = tuple(_Held(at, b.dtype.itemsize, run_dim(at, b)) for at, b in zip(found, buffers, strict=True) if at.dims)
        self._tiles.extend(h for h in held if h.run is not None and len(h.access.dims) > 1)
        if in_loop:
            self._loops.append(held)

    @staticmethod
    def _tile(held: _Held, sizes: Sizes) -> Tile:
        lanes = 1
        for d in held.access.dims:
            lanes *= sizes.dims[d.name]
        if held.run is None:
            return Tile(lanes, 1)
        along = sizes.dims[held.run.name]
        each = max(sizes.vector(held.access, held.itemsize) // held.itemsize, 1)
        return Tile(lanes // along, -(-along // each))
