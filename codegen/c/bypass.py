"""Stores that bypass the caches: what a kernel writes that moves more than the caches hold.

Such a result is gone from the cache before anybody reads it, and a usual store would first read the line that it writes.  A loop of vectors
makes a line of 64 bytes at a time, in registers, and what is before the first line or after the last is stored as ever.  Whether it is
worth it is decided by the sizes of each call.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.index import Axis
from ...tiles.program import Store, TileProgram
from . import text
from .nests import Nest
from .reductions import Reductions

CACHE = 1 << 25  # bytes that the caches which a few cores share hold, about
LINE = 64


class Bypass(Reductions):
    """How loops are printed that store a result."""

    def __init__(self, program: TileProgram) -> None:
        super().__init__(program)
        buffers = {*program.loads(), *program.stores()}
        self.moved = sum(self.kernel.buffers[b].bytes for b in buffers)  # at the sizes that are planned for
        self.bypassed: Store | None = None  # the store whose elements go into a line here
        self.bypasses = False  # somewhere

    def bypassing(self, n: Nest) -> Store | None:
        """The store of a loop of vectors that may bypass the caches."""
        assert n.axis is not None
        if not n.innermost or 2 * self.moved < CACHE:
            return None
        return next((s for s in n.statements if isinstance(s, Store) and self._in_lines(s, n.axis)), None)

    def _in_lines(self, s: Store, axis: Axis) -> bool:
        """Its elements are neighbours, all are stored, and they are no small part of what is moved."""
        buffer = self.kernel.buffers[s.access.buffer]
        unit = buffer.fastest
        if 8 * buffer.bytes < self.moved:
            return False
        if unit is None or s.once or self.masks(s.access) or axis in s.access.places or buffer.dtype.itemsize not in (2, 4):
            return False
        along = [(p, c) for p, e in enumerate(s.access.index) for atom, c in e.terms if atom == axis]
        compound = any(not isinstance(atom, Axis) and axis in atom.numerator.axes() for e in s.access.index for atom, _ in e.terms)
        return along == [(unit, 1)] and not compound

    def in_lines(self, axis: Axis, s: Store, body: Callable[[], None]) -> None:
        """The loop over ``axis`` with a store by lines."""
        self.bypasses = True
        lane, n, first, more = text.lane(axis), text.count(axis), f"first_{text.lane(axis)}", f"more_{text.lane(axis)}"
        dtype = self.kernel.buffers[s.access.buffer].dtype
        lanes = LINE // dtype.itemsize
        with self.braces(""):
            self.write(f"int64_t {first} = {n};")
            with self.braces("if (bypass)"):
                self.write(f"const int64_t {lane} = 0;")
                self.write(f"{first} = eq_least({n}, eq_before_line(&{self.place(s.access)}) / {dtype.itemsize});")
            self._plain(lane, "0", first, body)
            self.write(f"int64_t {more} = {first};")
            with self.braces(f"for (; {more} + {lanes} <= {n}; {more} += {lanes})"):
                self.write(f"{text.memory_type(dtype)} line[{lanes}];")
                self.bypassed = s
                self.write('_Pragma("omp simd")')
                with self.braces(f"for (int64_t part = 0; part < {lanes}; part++)"):
                    self.write(f"const int64_t {lane} = {more} + part;")
                    body()
                self.bypassed = None
                self.write(f"const int64_t {lane} = {more};")
                self.write(f"eq_store_line(&{self.place(s.access)}, line);")
            self._plain(lane, more, n, body)

    def _plain(self, lane: str, first: str, end: str, body: Callable[[], None]) -> None:
        self.write('_Pragma("omp simd")')
        with self.braces(f"for (int64_t {lane} = {first}; {lane} < {end}; {lane}++)"):
            body()
