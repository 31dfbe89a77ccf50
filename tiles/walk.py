"""Counting what a tile program does, without running it: bytes, operations, footprints.  The cost model reads these.

Everything is a total over the whole grid unless it says "per program".  Memory traffic counts elements that exist (padded lanes move
nothing) and counts reloads: once per program, per pass, per step of every loop around an access.  Arithmetic counts padded lanes,
because they are computed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..ir.dtypes import DType
from ..ir.index import Axis, FloorDiv, IndexExpr
from ..ir.monoids import MONOIDS
from ..ir.strides import SECTOR_BYTES
from .addresses import Addresses, Tile
from .folding import gone
from .inside import shares as inside_shares
from .kernel import Role
from .liveness import ADDRESS_BYTES, ASYNC_BYTES, Liveness
from .native import Work, native_work
from .operations import operation
from .program import (
    Access,
    Cast,
    Dot,
    Fill,
    IndexValue,
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
)
from .sampled import Sampled
from .sizes import VECTOR_BYTES, Sizes, wide_axes

LOST = 4.0  # instructions: two differences, a comparison, a selection
MIN_DOT_M = 16  # rows that the matrix unit computes at least


@dataclass(frozen=True)
class Traffic:
    """Accesses to one buffer.  ``axes``: those of the grid on which it depends what is read.  ``vector``: bytes that one thread moves per
    instruction (16 is best, the item size is scalar); ``run``: bytes of a tile that lie in one piece.  ``touched``: bytes of the sectors
    that are read where data say; ``None`` for accesses that know where they read.  ``spread``: how many times as much memory moves, where
    an index skips elements."""

    buffer: str
    axes: frozenset[str]
    bytes: int
    requests: int  # tile accesses, over all programs and steps
    vector: int
    run: int
    touched: int | None = None
    spread: float = 1.0

    @property
    def in_sectors(self) -> int:
        """Bytes of the sectors, if the buffer itself has no gaps."""
        return round(self.bytes * self.spread)

    @property
    def sectors_per_run(self) -> float:
        """How many times as much memory moves for a piece that is shorter than a sector."""
        return max(1.0, SECTOR_BYTES / max(self.run, 1))

    @property
    def vectorised(self) -> bool:
        """Full-width instructions."""
        return self.vector >= VECTOR_BYTES


@dataclass(frozen=True)
class Product:
    """Contractions of ``m x k`` with ``k x n`` tiles, so many ``times`` over all programs.  ``left_made``, ``right_made``: an operand is
    computed, not loaded."""

    m: int
    k: int
    n: int
    times: float
    dtype: DType
    precision: str
    left_made: bool
    right_made: bool

    @property
    def flops(self) -> float:
        """Operations of the matrix unit, which computes 16 rows at least."""
        return self.times * 2.0 * max(self.m, MIN_DOT_M) * self.n * self.k


@dataclass(frozen=True)
class Counts:
    """What a tile program does."""

    programs: int
    loads: tuple[Traffic, ...]  # one entry per load statement
    stores: tuple[Traffic, ...]
    products: tuple[Product, ...]  # of the matrix unit, by statement
    simt: float  # float32 instructions, per element
    special: float  # special-function instructions, per element
    work: Mapping[str, float]  # simt by kind: let, reduce, where, cast
    steps: float  # loop steps, all programs
    crossings: float  # without contractions, how often all threads of a program reduce something together, all programs
    inner_steps: float  # of these, steps of loops with no other inside
    begun: float  # how often these loops begin, all programs: their pipeline of loads is empty then
    refills: float  # how often one begins inside another loop
    trips: tuple[tuple[str, int, int], ...]  # (loop, level, steps per entry), in program order
    passes: Mapping[Axis, int]  # loops in sequence over each streamed axis
    dot_operand_bytes: int  # per program and pipeline stage: operands of contractions in loops without another one inside
    dot_operand_instructions: int  # that load them; what is too narrow for the asynchronous copy counts with the live values
    staged_bytes: int  # per program and stage but one: other tiles that loops with contractions load
    copied_bytes: int  # the same of the loop without contractions that loads most, as asynchronous copies
    static_operand_bytes: int  # per program: operands of contractions that are there once
    accumulator_bytes: int  # per program
    live_bytes: int  # per program: registers of live values at the worst point, accumulators included
    addressed: tuple[tuple[Tile, ...], ...]  # of each loop: what it accesses by addresses that it holds in registers
    rows: tuple[int, Tile] | None  # the widest tile, and how many values with a number for each row of it live at a time
    permutes: int  # layout changes
    masked_loops: int  # loops that run all their steps with masks
    kept: bool  # what one loop leaves for the next is marked, so that the L2 keeps it and not what passes beside it
    program: TileProgram = field(repr=False, compare=False)
    sizes: Sizes = field(repr=False, compare=False)

    @cached_property
    def native(self) -> Work:
        """What it does on a CPU."""
        return native_work(self.program, self.sizes)

    @property
    def dots(self) -> int:
        """How many statements multiply matrices."""
        return len(self.products)

    @property
    def flops(self) -> float:
        """Operations of the matrix unit."""
        return sum(p.flops for p in self.products)

    @property
    def address_bytes(self) -> int:
        """Registers for the addresses of a pipelined loop: one per instruction, all of them alive throughout."""
        return (self.dot_operand_instructions + self.staged_bytes // VECTOR_BYTES) * ADDRESS_BYTES

    @property
    def load_bytes(self) -> int:
        """Bytes loaded, reloads included."""
        return sum(t.bytes for t in self.loads)

    @property
    def store_bytes(self) -> int:
        """Bytes stored."""
        return sum(t.bytes for t in self.stores)


def walk(program: TileProgram) -> Counts:
    """Count a tile program."""
    return Counter(program).at(program.kernel.roles)


def skipped(program: TileProgram) -> list[str]:
    """What is to be said of the loops that leave out steps."""
    sizes = Sizes(program, program.kernel.roles, {})
    found = []
    share = shares(program)
    loops = {s.binding.axis.name: s for s in program.statements() if isinstance(s, Loop) and (s.starts or s.stops)}
    for axis, loop in loops.items():
        data, known = sizes.said_by(loop)
        names = " and ".join(data)
        if known:
            given = f" if {names} {'are' if len(data) > 1 else 'is'} as in the example" if data else ""
            found.append(f"{share[axis]:.0%} of the tiles of {axis}, the others being masked{given}")
        else:
            found.append(
                f"of {axis} the tiles that {names} ask{'' if len(data) > 1 else 's'} for, which is taken to be all: there is no example"
            )
    return found


def shares(program: TileProgram) -> dict[str, float]:
    """The share of its steps that a loop takes, on average, of every loop that leaves some out; by the name of its axis."""
    sizes = Sizes(program, program.kernel.roles, {})
    found: dict[str, float] = {}
    for s in program.statements():
        if isinstance(s, Loop) and (s.starts or s.stops):  # its parts together
            found[s.binding.axis.name] = sizes.taken(s) + (found[s.binding.axis.name] if s.part == "whole" else 0.0)
    return found


class Counter:
    """A tile program to be counted under any roles of the same shape (:mod:`.tilings`), as if it had been lowered for them."""

    def __init__(self, program: TileProgram) -> None:
        self.program = program
        self._liveness = Liveness(program)
        self._addresses = Addresses(program)
        streamed = dict.fromkeys(s.binding.axis for s in program.statements() if isinstance(s, Loop))
        self._passes = {a: _passes(program.body, a) for a in streamed}
        self._kept = any(isinstance(s, Load) and s.hint for s in program.statements())
        self._wide = wide_axes(program)
        self._sampled = Sampled(program)
        self._inside = inside_shares(program)
        self._gone = {id(s): gone(s) for s in program.statements() if isinstance(s, Loop) and s.clear is not None}

    def at(self, roles: Mapping[Axis, Role]) -> Counts:
        """The counts with these tile sizes."""
        sizes = Sizes(self.program, roles, self._wide, self._sampled)
        widest = self._addresses.widest(sizes)
        rows = None
        if widest is not None and widest[1].rows > 1:
            rows = -(-self._liveness.numbers(sizes, widest[0]) // widest[1].rows), widest[1]
        return _Walk(self.program, sizes, self._inside, self._gone).counts(
            self._passes, self._liveness.worst(sizes), self._addresses.at(sizes), rows, self._kept
        )


class _Walk:
    def __init__(self, program: TileProgram, sizes: Sizes, inside: Mapping[int, float], gone: Mapping[int, frozenset[str]]) -> None:
        self.program, self.sizes, self.inside, self.gone = program, sizes, inside, gone
        self.often: dict[str, float] = {}  # of values that clear stretches of loops do without, the share of steps that make them
        self.buffers = program.kernel.buffers
        self.loads: list[Traffic] = []
        self.stores: list[Traffic] = []
        self.work = {"let": 0.0, "reduce": 0.0, "where": 0.0, "cast": 0.0}
        self.special = self.steps = self.inner_steps = self.crossings = self.begun = self.refills = 0.0
        self.trips: list[tuple[str, int, int]] = []
        self.dot_bytes = self.dot_instructions = self.static_bytes = self.accumulators = self.permutes = self.masked = self.copied = 0
        self.products: list[Product] = []
        self.streamed: dict[str, int] = {}  # tiles loaded inside a loop, and their bytes: the pipeline holds several of them
        self.vectors: dict[str, int] = {}  # and the bytes that an instruction of theirs moves
        self.operands: set[str] = set()  # values that a contraction takes straight from memory
        self.states: set[Value | None] = set()  # of loops before or around
        self.programs = 1
        for b in program.grid:
            self.programs *= sizes.steps(b)

    def counts(
        self,
        passes: Mapping[Axis, int],
        live_bytes: int,
        addressed: tuple[tuple[Tile, ...], ...],
        rows: tuple[int, Tile] | None,
        kept: bool,
    ) -> Counts:
        self._block(self.program.body, float(self.programs), {b.name: self.sizes.steps(b) for b in self.program.grid}, 1.0)
        return Counts(
            programs=self.programs,
            loads=tuple(self.loads),
            stores=tuple(self.stores),
            products=tuple(self.products),
            simt=sum(self.work.values()),
            special=self.special,
            work=self.work,
            steps=self.steps,
            crossings=0.0 if self.products else self.crossings,  # beside one a row is with four threads
            inner_steps=self.inner_steps,
            begun=self.begun,
            refills=self.refills,
            trips=tuple(self.trips),
            passes=passes,
            dot_operand_bytes=self.dot_bytes,
            dot_operand_instructions=self.dot_instructions,
            staged_bytes=sum(n for v, n in self.streamed.items() if v not in self.operands) if self.products else 0,
            copied_bytes=0 if self.products else self.copied,
            static_operand_bytes=self.static_bytes,
            accumulator_bytes=self.accumulators,
            live_bytes=live_bytes,
            addressed=addressed,
            rows=rows,
            permutes=self.permutes,
            masked_loops=self.masked,
            kept=kept,
            program=self.program,
            sizes=self.sizes,
        )

    def _traffic(self, at: Access, around: Mapping[str, int], bounded: tuple[Loop, ...] = ()) -> Traffic:
        """Bytes: existing elements along the bindings of the access, times the steps of everything else around it, as far as it is
        inside the buffer and the loops with edges take theirs."""
        used = [b.name for b in at.bindings]
        buffer = self.buffers[at.buffer]
        elements, requests = math.prod([self.sizes.different(at, buffer, b) for b in at.bindings]), 1
        steps = math.prod([self.sizes.taken(loop, (), bounded[:k]) for k, loop in enumerate(bounded)])
        visited = math.prod([self.sizes.taken(loop, used, bounded[:k]) for k, loop in enumerate(bounded)])
        if (exists := self.inside.get(id(at))) is not None:  # an edge along an axis with a mask leaves out what is masked
            axes = {loop.binding.axis for loop in bounded}
            visited = visited * exists if all(axes.isdisjoint(i.expr.axes()) for i in at.inside) else min(visited, exists)
        for name, n in around.items():
            requests *= n
            if name not in used:
                elements *= n
        size = buffer.dtype.itemsize
        vector, run = self.sizes.vector(at, size), self.sizes.run(at, buffer)
        reached = math.prod([self.sizes.reached(loop, used) for loop in bounded])
        touched = self._touched(at)
        if reached < 1 and touched is None:
            own = math.prod([self.sizes.different(at, buffer, b) for b in at.bindings])
            touched = round(own * size * reached * self.sizes.spread(at, buffer))
        spread = self.sizes.spread(at, buffer) if touched is None else 1.0
        along = frozenset(b.name for b in self.program.grid if b.name in used)
        return Traffic(at.buffer, along, round(elements * size * visited), round(requests * steps), vector, run, touched, spread)

    def _touched(self, at: Access) -> int | None:
        """Bytes of the sectors that an access reads where data say: each position once, however many programs read it."""
        if not at.looked:
            return None
        buffer, together = self.buffers[at.buffer], 1
        for position, stride in buffer.memory:
            e = at.index[position]
            if stride != together or not e.axes().isdisjoint(at.places) or e.as_axis() is None:
                break
            together *= buffer.shape[position]
        size = buffer.dtype.itemsize
        over = frozenset().union(*(x.over for x in at.looked))
        elements = math.prod([self.sizes.different(at, buffer, b) if b.axis in over else _different(at, b.axis) for b in at.bindings])
        piece = together * size
        return -(-elements // together) * (piece if piece >= SECTOR_BYTES else SECTOR_BYTES)

    def _block(
        self, body: tuple[Statement, ...], trips: float, around: dict[str, int], masked: float, bounded: tuple[Loop, ...] = ()
    ) -> None:
        """``bounded``: the loops around that have edges."""
        work, in_loop, elements = self.work, len(around) > len(self.program.grid), self.sizes.elements
        most_bytes = most_instructions = 0  # of operands, in one of the loops here: what one has loaded the next does without
        for s in body:
            if isinstance(s, Loop):
                n = self.sizes.steps(s.binding)
                self.trips.append((s.binding.name, s.level, n))
                taken = self.sizes.taken(s, (), bounded)
                self.steps += trips * n * taken
                if s.innermost:
                    self.inner_steps += trips * n * taken
                    self.begun += trips
                    self.refills += trips if in_loop else 0
                self.accumulators += sum(self.sizes.bytes(a.old) for a in s.accumulators if a.start not in self.states)
                self.states.update(a.old for a in s.accumulators)
                if s.clear is not None:
                    self.often.update(dict.fromkeys(self.gone[id(s)], 1.0 - self.sizes.clear(s)))
                ragged = not s.binding.even and s.part != "whole"
                share = (1.0 / max(n, 1) if s.peeled else 1.0) if ragged else masked
                self.masked += ragged and not s.peeled and not s.part
                inner = (*bounded, s) if s.bounds else bounded
                here, self.dot_bytes, self.dot_instructions = (self.dot_bytes, self.dot_instructions), 0, 0
                loaded = len(self.loads)
                self._block(s.body, trips * n * taken, {**around, s.binding.name: n}, share, inner)
                most_bytes, most_instructions = max(most_bytes, self.dot_bytes), max(most_instructions, self.dot_instructions)
                self.dot_bytes, self.dot_instructions = here
                if s.innermost:
                    self.copied = max(self.copied, self._copied(s, self.loads[loaded:]))
            elif isinstance(s, Let):
                op = operation(s.op)
                made = trips * elements(s.dst) * self.often.get(s.dst.name, 1.0)
                work["let"] += made * op.cost if not s.contracted else 0.0
                self.special += made * op.special
            elif isinstance(s, Load):
                self.loads.append(self._traffic(s.access, around, bounded))
                if in_loop and len(s.dst.dims) > 1:
                    self.streamed[s.dst.name] = self.sizes.bytes(s.dst)
                    self.vectors[s.dst.name] = self.loads[-1].vector
            elif isinstance(s, Reduce):
                combined = trips * max(map(elements, s.parts or (s.src,)))
                work["reduce"] += combined * _combining(s)
                self.special += combined * _combining(s, special=True)
                self.crossings += trips if s.lanes is None and not s.parts[1:] else 0
            elif isinstance(s, Scan):  # a step of all lanes for each doubling of what a prefix has seen
                combined = trips * elements(s.dst) * max(1.0, math.log2(self.sizes.dims[s.dim.name]))
                work["reduce"] += combined * _combining(s)
                self.special += combined * _combining(s, special=True)
            elif isinstance(s, Where):
                work["where"] += trips * elements(s.dst) * masked
            elif isinstance(s, Cast):
                work["cast"] += trips * elements(s.dst) * (0.5 if s.dst.dtype.itemsize == 2 else 1.0)
            elif isinstance(s, Dot):
                self._dot(s, trips, in_loop and not any(isinstance(x, Loop) for x in body))
            elif isinstance(s, Store):
                once = {b.name for b in s.once}
                self.stores.append(self._traffic(s.access, {k: v for k, v in around.items() if k not in once}))
            elif isinstance(s, Permute):
                self.permutes += 1
                work["cast"] += trips * elements(s.dst)
            elif isinstance(s, Lost):
                work["let"] += trips * elements(s.dst) * LOST
            elif isinstance(s, Mean | Fill | IndexValue):
                work["let"] += trips * elements(s.dst) * self.often.get(s.dst.name, 1.0)
        self.dot_bytes += most_bytes
        self.dot_instructions += most_instructions

    def _copied(self, loop: Loop, loads: Sequence[Traffic]) -> int:
        """Bytes of a step's loads that are wide enough for the asynchronous copy."""
        tiles = (s.dst for s in loop.body if isinstance(s, Load))
        return sum(self.sizes.bytes(v) for v, t in zip(tiles, loads, strict=True) if v.dims and t.vector >= ASYNC_BYTES)

    def _dot(self, s: Dot, trips: float, pipelined: bool) -> None:
        m, k, n = (self.sizes.dims[d.name] for d in (*s.a.dims, s.b.dims[1]))
        self.products.append(Product(m, k, n, trips, s.a.dtype, s.precision, not s.loaded[0], not s.loaded[1]))
        for operand, loaded in ((s.a, s.loaded[0]), (s.b, s.loaded[1])):
            if operand.name in self.operands:
                continue
            if loaded and pipelined and operand.name in self.streamed:
                self.operands.add(operand.name)
                self.dot_bytes += self.sizes.bytes(operand)
                vector = self.vectors[operand.name]
                self.dot_instructions += self.sizes.bytes(operand) // (vector if vector >= ASYNC_BYTES else VECTOR_BYTES)
            elif loaded or operand is s.b:  # computed A operands stay in registers
                self.operands.add(operand.name)
                self.static_bytes += self.sizes.bytes(operand)


def _combining(s: Reduce | Scan, special: bool = False) -> float:
    """Instructions that combine two values; of a state of several parts, which are made together, the share of one."""
    m = MONOIDS[s.monoid]
    if m.several is None:
        return 0.0 if special else 1.0
    return sum(operation(op).special if special else operation(op).cost for op in m.several.written) / m.parts


def _different(at: Access, axis: Axis) -> int:
    """How many elements the positions of an axis are at least: heads that share one, as at ``h // 4``, read it once."""
    atoms = [atom for e in at.index for atom, _ in e.terms if axis in IndexExpr(((atom, 1),)).axes()]
    shared = [a.divisor for a in atoms if isinstance(a, FloorDiv) and a.numerator.as_axis() == axis]
    return -(-axis.size // min(shared)) if shared and len(shared) == len(atoms) else axis.size


def _passes(body: tuple[Statement, ...], axis: Axis) -> int:
    """The longest sequence of loops over an axis: siblings add, nested ones count with what contains them."""
    total = 0
    for s in body:
        if isinstance(s, Loop):
            total += _passes(s.body, axis) + (s.binding.axis == axis)
    return total
