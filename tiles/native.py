"""Counting what a tile program does as loops of a CPU (:mod:`eqfuse.codegen.c`), without running it.

Beside :mod:`.walk`, which counts for GPUs: lanes that do not exist are not computed, operands of products are packed into panels, tiles are
arrays of a thread's memory, and what is loaded again comes from the nearest cache that holds all that was touched between.  Everything is a
total over the grid unless it says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..ir import dtypes
from ..ir.index import Axis
from ..ir.monoids import MONOIDS
from .folding import gone
from .operations import operation
from .program import (
    Access,
    Cast,
    Dim,
    Dot,
    Let,
    Load,
    Loop,
    Lost,
    Mean,
    Permute,
    Reduce,
    Scan,
    Statement,
    Store,
    TileProgram,
    Value,
    Where,
    direct_uses,
)
from .sizes import Sizes, run_dim

EXTREMA = 3.0  # instructions: a comparison, a choice, whether it is a number; beside what a row waits for from element to element
PAGE = 4096  # bytes in which neighbours in memory are surely neighbours in a cache
LINE = 64  # bytes that memory is moved in
NARROW = 6.0  # instructions to convert an element of 16 bits
Around = tuple[tuple[object, float, Axis], ...]  # loops, slowest first: what names them, their steps and axes


@dataclass(frozen=True)
class Product:
    """Calls of the product of an ``m x k`` with a ``k x n`` matrix, of lanes that exist."""

    calls: float
    m: int
    n: int
    k: float
    inner: bool  # both are in one piece along k
    turned: bool  # the right one is not in one piece along n
    there: bool  # the right one is float32 in memory, in one piece along n
    left_sets: float  # as ``sets`` of a stream, of the left one
    adds: bool


@dataclass(frozen=True)
class Stream:
    """Tiles of a buffer that are loaded or stored.  ``around``: of each loop around, slowest first, what names it, its steps, and whether
    other steps are other elements."""

    buffer: str
    bytes: float  # of one tile
    around: tuple[tuple[object, float, bool], ...]
    run: int  # bytes in one piece
    goes_on: bool  # the next step of the loop takes the next pieces of the same rows
    sets: float  # how many times as much of a cache it takes: pieces at the same places of pages share the sets of these
    stores: bool


@dataclass(frozen=True)
class Work:
    """What a tile program does on a CPU."""

    programs: int
    products: tuple[Product, ...]
    streams: tuple[Stream, ...]
    held: float  # bytes of a thread's arrays
    array_bytes: float  # that are read from arrays and written to them, outside of products
    vector: float  # instructions on elements
    extrema: float  # elements of which the largest or the smallest is found along a row
    scattered: tuple[tuple[float, float], ...]  # elements that a loop finds far apart, and bytes of a cache between two uses of a line
    special: Mapping[str, float]  # elements by function
    loops: float  # rows that begin
    several: bool = False  # it reduces over lanes of several axes, which C does not: it goes over rows along one axis


class Native:
    """The counts of a tile program under the sizes of some roles (:class:`.walk.Counter`)."""

    def __init__(self, program: TileProgram, sizes: Sizes) -> None:
        self.program, self.sizes, self.buffers = program, sizes, program.kernel.buffers
        self.readers: dict[str, list[Statement]] = {}
        for s in program.statements():
            for v in direct_uses(s):
                self.readers.setdefault(v.name, []).append(s)
        self.maker = {s.dst.name: s for s in program.statements() if not isinstance(s, Loop | Store)}
        self.states = {a.old.name for s in program.statements() if isinstance(s, Loop) for a in s.accumulators}
        self.lanes = {d.name: math.prod([self._lanes(a) for a in d.axes]) for d in program.dims}
        self.at = {d.name: k for k, d in enumerate(program.dims)}
        self.segment_of: dict[str, int] = {}
        self.segment = 0
        self.products: list[Product] = []
        self.streams: list[Stream] = []
        self.arrays: dict[str, float] = {}
        self.special: dict[str, float] = {}
        self.array_bytes = self.vector = self.loops = self.extrema = 0.0
        self.scattered: list[tuple[float, float]] = []
        self.often: dict[str, float] = {}  # of values that clear stretches of loops do without, the share of steps that make them

    def _lanes(self, a: Axis) -> float:
        """Lanes that exist, on average over the tiles."""
        tile = self.sizes.roles[a].tile
        return a.size / max(-(-a.size // tile), 1) if a.size else float(tile)

    def work(self) -> Work:
        """Count."""
        around = tuple((("grid", b.name), float(self.sizes.steps(b)), b.axis) for b in self.program.grid)
        self._block(self.program.body, math.prod([n for _, n, _ in around]), around)
        programs = math.prod([self.sizes.steps(b) for b in self.program.grid])
        return Work(
            programs, tuple(self.products), tuple(self.streams), sum(self.arrays.values()), self.array_bytes, self.vector, self.extrema,
            tuple(self.scattered), self.special, self.loops,
            any(isinstance(s, Reduce | Scan) and len(s.dim.axes) > 1 for s in self.program.statements()),
        )  # fmt: skip

    def _elements(self, dims: tuple[Dim, ...]) -> float:
        return math.prod([self.lanes[d.name] for d in dims])

    def _block(self, body: tuple[Statement, ...], trips: float, around: Around, bounded: tuple[Loop, ...] = ()) -> None:
        rows: list[tuple[tuple[Dim, ...], bool]] = []
        for s in body:
            if isinstance(s, Loop):
                self._flush(rows, trips)
                n = self.sizes.steps(s.binding) * self.sizes.taken(s, (), bounded)
                self.often.update(dict.fromkeys(gone(s), 1.0 - self.sizes.clear(s)))
                for v in (a.old for a in s.accumulators if len(a.old.dims) > 1):  # made before the loop
                    self.loops += trips
                    self.vector += trips * self._elements(v.dims)
                    self._array(v, trips)
                    self.segment_of[v.name] = self.segment
                self.segment += 1
                self._block(s.body, trips * n, (*around, (id(s), n, s.binding.axis)), (*bounded, s) if s.bounds else bounded)
                self.segment += 1
            elif isinstance(s, Dot):
                self._flush(rows, trips)
                self._dot(s, trips)
            else:
                self._statement(s, trips, around, rows)
        self._flush(rows, trips)

    def _flush(self, rows: list[tuple[tuple[Dim, ...], bool]], trips: float) -> None:
        """The end of a segment: its statements share the loops over rows; each reduction along a row ends one."""
        wide = [(d, r) for d, r in rows if d]
        if wide:
            entries: dict[int, tuple[float, int]] = {}
            for dims, reduces in wide:
                inner = self._inner(dims)
                k = self.at[inner.name]
                n, several = entries.get(k, (0.0, 1))
                entries[k] = max(n, self._elements(dims) / self.lanes[inner.name]), several + reduces
            self.loops += trips * sum(n * several for n, several in entries.values())
        rows.clear()
        self.segment += 1

    def _inner(self, dims: tuple[Dim, ...]) -> Dim:
        """Along which the innermost loop runs."""
        return max(dims, key=lambda d: self.at[d.name])

    def _statement(self, s: Statement, trips: float, around: Around, rows: list[tuple[tuple[Dim, ...], bool]]) -> None:
        if isinstance(s, Load | Store):
            self._stream(s.access, around, isinstance(s, Store), s)
        if isinstance(s, Load) and self._direct(s):
            return
        dims = s.access.dims if isinstance(s, Store) else s.dst.dims  # type: ignore[union-attr]
        if isinstance(s, Reduce):  # a state may have a part that is one number for the whole axis: 1, as of a sum of exponentials
            dims = max((x.dims for x in s.parts or (s.src,)), key=self._elements)
        n = trips * self._elements(dims)
        if isinstance(s, Load | Store) and dims:
            self._scatter(s.access, n)
        along = isinstance(s, Reduce) and s.dim == self._inner(dims)
        if along and MONOIDS[s.monoid].combine in ("maximum", "minimum"):  # type: ignore[union-attr]
            self.extrema += n
        cost = self._instructions(s, n)
        if cost:
            rows.append((dims, along))
        self.vector += n * cost
        for v in direct_uses(s):  # from an array: what another segment has made
            if self.segment_of.get(v.name, self.segment) != self.segment and len(v.dims) > 1:
                self.vector += n
                self._array(v, trips)
        if not isinstance(s, Store):
            self.segment_of[s.dst.name] = self.segment  # type: ignore[union-attr]
            if len(s.dst.dims) > 1 and any(isinstance(r, Dot | Loop) for r in self.readers.get(s.dst.name, ())) and cost:  # type: ignore[union-attr]
                self.vector += n
                self._array(s.dst, trips)  # type: ignore[union-attr]

    def _scatter(self, at: Access, n: float) -> None:
        """Elements that are loaded or stored one by one, if the innermost loop does not run along memory.  The next turn of the loop around
        uses the same lines."""
        inner, buffer = self._inner(at.dims), self.buffers[at.buffer]
        if run_dim(at, buffer) == inner:
            return
        steps = [c * x for e, x in zip(at.index, buffer.steps, strict=True) for atom, c in e.terms if atom in inner.axes]
        apart = abs(sum(steps)) * buffer.dtype.itemsize
        if apart:
            self.scattered.append((n, self.lanes[inner.name] * max(LINE, math.gcd(PAGE, apart))))

    def _array(self, v: Value, trips: float) -> None:
        size = 4.0 * self._elements(v.dims)
        if v.name not in self.states:  # which lie where what they become does
            self.arrays[v.name] = size
        self.array_bytes += trips * size

    def _instructions(self, s: Statement, n: float) -> float:
        if isinstance(s, Let):
            op = operation(s.op)
            if op.special:
                self.special[s.op] = self.special.get(s.op, 0.0) + n
                return 1e-9
            return 0.0 if s.contracted else op.cost * self.often.get(s.dst.name, 1.0)
        if isinstance(s, Load | Store):
            buffer = self.buffers[s.access.buffer]
            return NARROW if buffer.dtype.itemsize == 2 else 1.0
        if isinstance(s, Reduce | Scan):
            several = MONOIDS[s.monoid].several
            if several is not None:
                return sum(operation(op).cost for op in several.written)
            return EXTREMA if MONOIDS[s.monoid].combine in ("maximum", "minimum") else 1.0
        if isinstance(s, Where | Permute):
            return 0.0
        if isinstance(s, Cast):
            return NARROW if s.dst.dtype.itemsize == 2 else 0.0 if s.src.dtype.is_float else 1.0
        if isinstance(s, Lost):
            return 4.0
        return 1.0 if isinstance(s, Mean) else 0.0

    def _direct(self, s: Load) -> bool:
        """Products read it where it is."""
        readers = self.readers.get(s.dst.name, ())
        at, stored = s.access, self.buffers[s.access.buffer].dtype
        if not readers or not all(isinstance(r, Dot) for r in readers) or at.inside or at.looked:
            return False
        left = any(isinstance(r, Dot) and r.a.name == s.dst.name for r in readers)
        return stored == dtypes.float32 or (not left and stored.itemsize == 2 and stored.is_float)

    def _stream(self, at: Access, around: Around, stores: bool, s: Load | Store) -> None:
        buffer = self.buffers[at.buffer]
        used = {b.axis for b in at.bindings}
        elements = math.prod([self._lanes(b.axis) for b in at.bindings])
        once = {b.axis for b in s.once} if isinstance(s, Store) else set()
        loops = tuple((name, n, axis in used) for name, n, axis in around if axis not in once)
        size = elements * buffer.dtype.itemsize
        dim = run_dim(at, buffer)
        goes_on = dim is not None and bool(around) and around[-1][2] in dim.axes
        self.streams.append(Stream(at.buffer, size, loops, self.sizes.run(at, buffer), goes_on, self._sets(at), stores))

    def _dot(self, s: Dot, trips: float) -> None:
        (k,) = (d for d in s.a.dims if d in s.b.dims)
        (m,) = (d for d in s.a.dims if d != k)
        (n,) = (d for d in s.b.dims if d != k)
        left, along_a = self._matrix(s.a)
        memory, along_b = self._matrix(s.b)
        sets = 1.0 if left is None else self._sets(left)
        kind = self.buffers[memory.buffer].dtype if memory is not None else None
        for rows, share in self._sizes(m):
            for columns, part in self._sizes(n):
                self.products.append(Product(
                    trips * share * part, rows, columns, self.lanes[k.name], along_a == k and along_b == k, along_b != n,
                    along_b == n and kind == dtypes.float32, sets, s.acc is not None,
                ))  # fmt: skip
        self.arrays[s.dst.name if s.acc is None else s.acc.name] = 4.0 * self.lanes[m.name] * self.lanes[n.name]
        self.arrays[f"{s.dst.name} panel"] = 4.0 * self.lanes[k.name] * self.lanes[n.name]
        self.segment_of[s.dst.name] = self.segment
        self.segment += 1

    def _sizes(self, d: Dim) -> list[tuple[int, float]]:
        """How many lanes there are, and in which share of the tiles."""
        if len(d.axes) > 1:
            return [(round(self.lanes[d.name]), 1.0)]
        size, tile = d.axes[0].size, self.sizes.roles[d.axes[0]].tile
        full, rest = divmod(size, tile)
        steps = max(full + (rest > 0), 1)
        return [(lanes, n / steps) for lanes, n in ((tile, full), (rest, rest > 0)) if n and lanes]

    def _matrix(self, v: Value) -> tuple[Access | None, Dim | None]:
        """Of an operand: its access if it is read from memory, and the dim along which it is in one piece."""
        s = self.maker.get(v.name)
        if isinstance(s, Load) and self._direct(s):
            return s.access, run_dim(s.access, self.buffers[s.access.buffer])
        return None, self._inner(v.dims)

    def _sets(self, at: Access) -> float:
        """How many times as much of a cache a tile takes as it has bytes: a cache finds a place by the address within a page, so pieces
        whose distances have a large part in common with that are in few of its sets."""
        buffer = self.buffers[at.buffer]
        apart = [stride * buffer.dtype.itemsize for position, stride in buffer.memory if stride > 1 and self._moves(at, position)]
        return max(1.0, math.gcd(PAGE, *apart) / self.sizes.run(at, buffer)) if apart else 1.0

    def _moves(self, at: Access, position: int) -> bool:
        """Whether a tile has several positions of a dimension."""
        return any(self.sizes.roles[a].tile > 1 for a in at.index[position].axes() if a in self.sizes.roles)


def native_work(program: TileProgram, sizes: Sizes) -> Work:
    """What a tile program does on a CPU, with these tile sizes."""
    return Native(program, sizes).work()
