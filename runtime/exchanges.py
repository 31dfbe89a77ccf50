"""Which lanes of a program meet in memory: one loads or stores where another has stored, with no barrier between.

The warps of a program run on their own.  Triton orders what they exchange through shared memory, but not what they store in global memory
and load again::

    for i in range(k):
        tl.store(row + i, best(i))          # one thread of the program
    p = tl.load(row + tl.arange(0, K))      # other threads, maybe of a warp that is ahead
    tl.debug_barrier()                      # between the two it makes them right

A lane that loads what it has stored itself, at the same place of a tile of the same shape, has what it stored.  The interpreter runs lane
by lane in the order of the program, so it shows no such fault in numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class Exchanges:
    """The stores of one program since its last barrier."""

    def __init__(self) -> None:
        self._program = 0
        self._stores: list[tuple[np.ndarray, np.ndarray, str]] = []  # addresses, the flags of all lanes of the tile, and the place

    def barrier(self) -> None:
        """All lanes have what the others stored."""
        self._stores.clear()

    def stored(self, program: int, addresses: np.ndarray, flags: np.ndarray, where: str) -> None:
        """Note a store: addresses of the lanes that are active, by the ``flags`` of a tile."""
        if program != self._program:
            self._program = program
            self._stores.clear()
        self._stores.append((addresses, flags, where))

    def met(self, program: int, addresses: np.ndarray, flags: np.ndarray, changed: Callable[[], np.ndarray] | None = None) -> str | None:
        """The place of a store that some of these lanes meet, which other lanes of the program made last there; None: no lane does.

        ``changed``: which lanes bring another value than there is; the others disturb nothing.
        """
        if program != self._program:
            return None
        left = np.ones(addresses.size, bool)  # lanes whose last store is not found yet
        for theirs, their_flags, where in reversed(self._stores):
            order = np.argsort(theirs, kind="stable")
            at = order[np.minimum(np.searchsorted(theirs, addresses, sorter=order), theirs.size - 1)]
            found = left & (theirs[at] == addresses)
            hit, left = found.copy(), left & ~found
            if their_flags.shape == flags.shape:
                own = np.zeros(flags.size, addresses.dtype)
                own[np.flatnonzero(their_flags)] = theirs
                hit &= own[np.flatnonzero(flags)] != addresses
            if hit.any() and changed is not None:
                hit &= changed()
            if hit.any():
                return where
            if not left.any():
                return None
        return None
