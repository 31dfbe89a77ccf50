"""Counting what a tile program does, without running it: bytes, operations, footprints.  The cost model reads these.

Everything is a total over the whole grid unless it says "per program".  Memory traffic counts elements that exist (padded lanes move
nothing) and counts reloads: once per program, per pass, per step of every loop around an access.  Arithmetic counts padded lanes,
because they are computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ir import ops
from ..ir.index import Axis
from .kernel import Buffer
from .program import (
    Access,
    Binding,
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
    Statement,
    Store,
    TileProgram,
    Value,
    Where,
    defines,
    uses,
)
from .reuse import reuse

LANE_BY_LANE = (Let, Lost, Where, Cast, Mean, Store)
LOST = 4.0  # instructions: two differences, a comparison, a selection
EXPENSIVE = 12.0  # instructions of a function whose evaluation holds many temporaries
NESTED = 1.13  # a loop around another one keeps addresses for both (measured on the compiled corpus)
NESTED_MASKED = 1.17  # and masks, where its steps need them (measured on the compiled corpus)
ASYNC_BYTES = 4  # the narrowest asynchronous copy to shared memory
ADDRESS_BYTES = 8
ROW_COPIES = 4  # of one number for each row of a product: the four threads that share a row of the matrix unit hold it each
CHUNKS = 4  # a compiler computes chains of pointwise operations a few lanes at a time: this share of a temporary is live
MIN_DOT_M = 16  # rows that the matrix unit computes at least
VECTOR_BYTES = 16  # a full-width memory instruction
EXTENT_DIVISOR = 16  # Triton knows of sizes and strides only whether 16 divides them


@dataclass(frozen=True)
class Traffic:
    """Accesses to one buffer.  ``vector``: bytes that one thread moves per instruction (16 is best, the item size is scalar)."""

    buffer: str
    bytes: int
    requests: int  # tile accesses, over all programs and steps
    vector: int

    @property
    def vectorised(self) -> bool:
        """Full-width instructions."""
        return self.vector >= VECTOR_BYTES


@dataclass(frozen=True)
class Counts:
    """What a tile program does."""

    programs: int
    loads: tuple[Traffic, ...]  # one entry per load statement
    stores: tuple[Traffic, ...]
    tensor_flops: Mapping[tuple[str, str], float]  # (operand type, precision) -> operations on the matrix unit, M padded to 16
    simt: float  # float32 instructions, per element
    special: float  # special-function instructions, per element
    work: Mapping[str, float]  # simt by kind: let, reduce, where, cast
    steps: float  # loop steps, all programs
    trips: tuple[tuple[str, int, int], ...]  # (loop, level, steps per entry), in program order
    passes: Mapping[Axis, int]  # loops in sequence over each streamed axis
    dot_operand_bytes: int  # per program and pipeline stage: operands of contractions in loops
    staged_bytes: int  # per program and stage but one: other tiles that loops with contractions load
    static_operand_bytes: int  # per program: operands of contractions that stay
    accumulator_bytes: int  # per program
    live_bytes: int  # per program: registers of live values at the worst point, accumulators included
    dots: int
    smallest_m: int  # smallest row count of a contraction, 0 without one
    wide_dots: tuple[tuple[int, int, int], ...]  # rows, contracted length and columns of contractions in full float32
    permutes: int  # layout changes
    masked_loops: int  # loops that run all their steps with masks
    kept: bool  # what one loop leaves for the next is marked, so that the L2 keeps it and not what passes beside it

    @property
    def address_bytes(self) -> int:
        """Registers for the addresses of a pipelined loop: one per wide instruction, all of them alive throughout."""
        return (self.dot_operand_bytes + self.staged_bytes) // VECTOR_BYTES * ADDRESS_BYTES

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
    return _Walk(program).counts()


def _steps(b: Binding) -> int:
    return -(-b.axis.size // b.tile)


def _bytes(v: Value) -> int:
    return v.elements * max(v.dtype.itemsize, 1)


class _Walk:
    def __init__(self, program: TileProgram) -> None:
        self.program = program
        self.buffers = program.kernel.buffers
        self.loads: list[Traffic] = []
        self.stores: list[Traffic] = []
        self.flops: dict[tuple[str, str], float] = {}
        self.work = {"let": 0.0, "reduce": 0.0, "where": 0.0, "cast": 0.0}
        self.special = self.steps = 0.0
        self.trips: list[tuple[str, int, int]] = []
        self.dot_bytes = self.static_bytes = self.accumulators = self.permutes = self.dots = self.masked = 0
        self.smallest_m = 0
        self.wide_dots: dict[tuple[int, int, int], None] = {}
        self.streamed: dict[str, int] = {}  # tiles loaded inside a loop, and their bytes: the pipeline holds several of them
        self.operands: set[str] = set()  # values that a contraction takes straight from memory
        self.programs = 1
        for b in program.grid:
            self.programs *= _steps(b)

    def counts(self) -> Counts:
        self._block(self.program.body, float(self.programs), {b.name: _steps(b) for b in self.program.grid}, 1.0)
        streamed = dict.fromkeys(s.binding.axis for s in self.program.statements() if isinstance(s, Loop))
        return Counts(
            programs=self.programs,
            loads=tuple(self.loads),
            stores=tuple(self.stores),
            tensor_flops=self.flops,
            simt=sum(self.work.values()),
            special=self.special,
            work=self.work,
            steps=self.steps,
            trips=tuple(self.trips),
            passes={a: _passes(self.program.body, a) for a in streamed},
            dot_operand_bytes=self.dot_bytes,
            staged_bytes=sum(n for v, n in self.streamed.items() if v not in self.operands) if self.dots else 0,
            static_operand_bytes=self.static_bytes,
            accumulator_bytes=self.accumulators,
            live_bytes=_Liveness(self.buffers, self.dots > 0).worst(self.program.body, set(), {}),
            dots=self.dots,
            smallest_m=self.smallest_m,
            wide_dots=tuple(self.wide_dots),
            permutes=self.permutes,
            masked_loops=self.masked,
            kept=bool(reuse(self.program).loads),
        )

    def _traffic(self, at: Access, around: Mapping[str, int], repeats: float = 1.0) -> Traffic:
        """Bytes: existing elements along the bindings of the access, times the steps of everything else around it."""
        elements = repeats
        used = set()
        for b in at.bindings:
            used.add(b.name)
            elements *= b.axis.size
        requests = 1.0
        for name, n in around.items():
            requests *= n
            if name not in used:
                elements *= n
        size = self.buffers[at.buffer].dtype.itemsize
        return Traffic(at.buffer, int(elements * size), int(requests), _vector_bytes(at, self.buffers[at.buffer].shape, size))

    def _block(self, body: tuple[Statement, ...], trips: float, around: dict[str, int], masked: float) -> None:
        work, in_loop = self.work, len(around) > len(self.program.grid)
        for s in body:
            if isinstance(s, Loop):
                n = _steps(s.binding)
                self.trips.append((s.binding.name, s.level, n))
                self.steps += trips * n
                self.accumulators += sum(_bytes(a.old) for a in s.accumulators)
                ragged = not s.binding.even
                share = (1.0 / max(n, 1) if s.peeled else 1.0) if ragged else masked
                self.masked += ragged and not s.peeled
                self._block(s.body, trips * n, {**around, s.binding.name: n}, share)
            elif isinstance(s, Let):
                op = ops.OPS[s.op]
                n = s.dst.elements
                work["let"] += trips * n * op.cost
                self.special += trips * n * op.special
            elif isinstance(s, Load):
                self.loads.append(self._traffic(s.access, around))
                if in_loop and len(s.dst.dims) > 1:
                    self.streamed[s.dst.name] = _bytes(s.dst)
            elif isinstance(s, Reduce):
                work["reduce"] += trips * s.src.elements
            elif isinstance(s, Where):
                work["where"] += trips * s.dst.elements * masked
            elif isinstance(s, Cast):
                work["cast"] += trips * s.dst.elements * (0.5 if s.dst.dtype.itemsize == 2 else 1.0)
            elif isinstance(s, Dot):
                self._dot(s, trips, in_loop)
            elif isinstance(s, Store):
                once = {b.name for b in s.once}
                self.stores.append(self._traffic(s.access, {k: v for k, v in around.items() if k not in once}))
            elif isinstance(s, Permute):
                self.permutes += 1
                work["cast"] += trips * s.dst.elements
            elif isinstance(s, Lost):
                work["let"] += trips * s.dst.elements * LOST
            elif isinstance(s, Mean | Fill | IndexValue):
                work["let"] += trips * s.dst.elements

    def _dot(self, s: Dot, trips: float, in_loop: bool) -> None:
        m, k, n = s.a.dims[0].size, s.a.dims[1].size, s.b.dims[1].size
        key = (s.a.dtype.name, s.precision)
        self.flops[key] = self.flops.get(key, 0.0) + trips * 2.0 * max(m, MIN_DOT_M) * n * k
        self.dots += 1
        self.smallest_m = min(self.smallest_m or m, m)
        if s.precision == "ieee":
            self.wide_dots[m, k, n] = None
        for operand, loaded in ((s.a, s.loaded[0]), (s.b, s.loaded[1])):
            if operand.name in self.operands:
                continue
            if loaded and in_loop and operand.name in self.streamed:
                self.operands.add(operand.name)
                self.dot_bytes += _bytes(operand)
            elif loaded or operand is s.b:  # computed A operands stay in registers
                self.operands.add(operand.name)
                self.static_bytes += _bytes(operand)


def _vector_bytes(at: Access, shape: tuple[int, ...], size: int) -> int:
    """Bytes per memory instruction: the longest run of neighbouring lanes that are neighbours in memory and surely aligned."""
    real = [p for p, n in enumerate(shape) if n > 1]
    if not real:
        return size
    position = real[-1]
    expr = at.index[position]
    for d in at.dims:
        axis = d.axes[-1]
        if any(c == 1 and a == axis for a, c in expr.terms):
            b = at.binding(axis)
            aligned = shape[position] % EXTENT_DIVISOR == 0 and (b.even or axis.size % EXTENT_DIVISOR == 0)
            aligned = aligned and expr.const % EXTENT_DIVISOR == 0 and not at.inside
            return min(VECTOR_BYTES, b.tile * size) if aligned else size
    return size


def _passes(body: tuple[Statement, ...], axis: Axis) -> int:
    """The longest sequence of loops over an axis: siblings add, nested ones count with what contains them."""
    total = 0
    for s in body:
        if isinstance(s, Loop):
            total += _passes(s.body, axis) + (s.binding.axis == axis)
    return total


class _Liveness:
    """Bytes of values in registers at the worst point.

    Operands that go from memory to the matrix unit bypass the registers, if they are loaded by instructions wide enough for the
    asynchronous copy; narrower ones cost an address and a value per element.  Chains of cheap pointwise operations are computed a few
    lanes at a time; expensive functions are not, their many temporaries overlap.
    """

    def __init__(self, buffers: Mapping[str, Buffer], dots: bool) -> None:
        self.buffers, self.dots = buffers, dots

    def worst(self, body: tuple[Statement, ...], outer: set[str], sizes: dict[str, int], states: Mapping[str, str] | None = None) -> int:
        """``outer``: values of enclosing blocks, held throughout.  ``states``: accumulators of this loop, old name -> new name;
        the old value may die in the body, the new one lives to its end."""
        states = states or {}
        last: dict[str, int] = {}
        only_dot: dict[str, bool] = {}
        only_lanes: dict[str, bool] = {}
        reads = [uses(s) for s in body]
        for i, s in enumerate(body):
            for v in reads[i]:
                last[v.name] = i
                only_dot[v.name] = only_dot.get(v.name, True) and isinstance(s, Dot)
                only_lanes[v.name] = only_lanes.get(v.name, True) and isinstance(s, LANE_BY_LANE)
        for old, new in states.items():
            last.setdefault(old, len(body))
            last[new] = len(body)
            only_lanes[new] = False
        live: set[str] = outer | set(states)
        worst = current = sum(sizes[n] for n in live)
        for i, s in enumerate(body):
            transient = 0
            if isinstance(s, Loop):
                inner = dict(sizes)
                for a in s.accumulators:
                    inner[a.old.name] = sizes[a.old.name] = self._registers(a.old)
                    last.setdefault(a.old.name, i)
                held = live - {a.old.name for a in s.accumulators}
                found = self.worst(s.body, held, inner, {a.old.name: a.new.name for a in s.accumulators})
                nested = NESTED if s.peeled or s.binding.even else NESTED_MASKED
                worst = max(worst, found if s.innermost else int(nested * found))
            elif isinstance(s, Let) and ops.OPS[s.op].cost >= EXPENSIVE:
                transient = _bytes(s.dst)
            # lane by lane, a result takes the registers of the arguments that die in its making
            current -= _drop(live, {v.name for v in reads[i]} - outer, last, i, sizes)
            for v in defines(s):
                if v.name not in live:
                    sizes[v.name] = self._held(s, v, only_dot.get(v.name, False), only_lanes.get(v.name, False))
                    live.add(v.name)
                    current += sizes[v.name]
            worst = max(worst, current + transient)
            current -= _drop(live, {v.name for v in defines(s)} - outer, last, i, sizes)
        return worst

    def _held(self, s: Statement, v: Value, only_dot: bool, only_lanes: bool) -> int:
        if isinstance(s, Load) and only_dot:
            buffer = self.buffers[s.access.buffer]
            narrow = _vector_bytes(s.access, buffer.shape, buffer.dtype.itemsize) < ASYNC_BYTES
            return v.elements * (v.dtype.itemsize + ADDRESS_BYTES) if narrow else 0
        if isinstance(s, LANE_BY_LANE) and only_lanes:
            return self._registers(v) // CHUNKS
        return self._registers(v)

    def _registers(self, v: Value) -> int:
        return _bytes(v) * (ROW_COPIES if self.dots and len(v.dims) == 1 else 1)


def _drop(live: set[str], names: set[str], last: Mapping[str, int], i: int, sizes: Mapping[str, int]) -> int:
    """Remove the names that are not used after statement i; the bytes that this frees."""
    dead = {n for n in names & live if last.get(n, i) <= i}
    live -= dead
    return sum(sizes[n] for n in dead)
