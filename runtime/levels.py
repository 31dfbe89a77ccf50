"""Who holds the tensors of a compiled kernel at each level: device memory, shared memory, registers.

Read from what the compiler decided, its own IR of the kernel on the GPU (TTGIR): every value there has a shape and an encoding, and
names are the kernel's variables.  Values that are views of others, pointers, masks and positions are left out.  Where the compiler
changes a layout in registers (``convert_layout``) it goes through a buffer of its own choice, of which its IR says nothing."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from triton._C.libtriton import ir
from triton.compiler.compiler import make_backend

from ..errors import CompileError, LayoutError
from ..extract.targets import Target
from ..ir.layout import Iter, Layout, Swizzled
from ..ir.layout.banks import Passes, passes
from ..ir.layout.encodings import TileType
from ..tiles.kernel import Buffer
from .accesses import MemoryAccess
from .aot import StaticReport, gpu_target

_VIEWS = {"arith.constant", "tt.make_range", "tt.splat", "tt.broadcast", "tt.expand_dims", "arith.cmpi", "arith.cmpf", "tt.addptr"}
_READS = {"tt.load", "amdg.buffer_load"}
Result: TypeAlias = tuple[int, str, str]  # number, type, name
Operation: TypeAlias = tuple[str, list[int], list[Result]]  # name, operands, results
_REQUESTS = "from and to device memory, each thread and each warp"
_MOVES = "into and out of shared memory, each warp"
_MATRIX = {"read": 75, "write": 90}  # compute capabilities with ldmatrix, stmatrix


@dataclass(frozen=True)
class Held:
    """Where the elements of a tensor are at one level.  ``layout`` is None where it is not described, and ``note`` says why."""

    tensor: str  # a buffer of the plan, or a variable of the kernel
    level: Literal["device", "shared", "tensor memory", "registers"]
    shape: tuple[int, ...]
    dtype: str
    encoding: str  # Triton's; of device memory none
    layout: Layout | Swizzled | None
    note: str = ""
    buffers: int = 1  # of shared memory, one after the other

    @property
    def place(self) -> str:
        """Without the name."""
        kinds = " of ".join(re.findall(r"#ttg\.(\w+)", self.encoding))
        where = str(self.layout or self.note)
        many = f"{self.buffers} of " if self.buffers > 1 else ""
        return f"{many}{'x'.join(map(str, self.shape)) or 'one'} {self.dtype}  {where}{kinds and f'  {kinds}'}"


@dataclass(frozen=True)
class Move:
    """A warp's part of a tile between registers and shared memory, or by a copy from device memory, which no register sees."""

    tensor: str
    way: Literal["write", "copy", "read"]
    passes: Passes | None
    note: str = ""


@dataclass(frozen=True)
class KernelLayouts:
    """The tensors of one launch."""

    kernel: str
    arch: str
    warps: int
    held: tuple[Held, ...]
    moves: tuple[Move, ...]
    accesses: tuple[MemoryAccess, ...]

    def __str__(self) -> str:
        groups: dict[tuple[str, str], dict[str, None]] = {}  # level, place -> names
        for h in self.held:
            groups.setdefault((h.level, h.place), {})[h.tensor] = None
        for m in self.moves:
            groups.setdefault((_MOVES, f"{m.way}, {m.passes or m.note}"), {})[m.tensor] = None
        for a in self.accesses:
            groups.setdefault((_REQUESTS, str(a)), {})[a.buffer] = None
        lines = [f"{self.kernel} {self.arch}, {self.warps} warps"]
        for level in ("device", _REQUESTS, "shared", "tensor memory", "registers", _MOVES):
            found = [f"    {', '.join(of)}: {place}" for (at, place), of in groups.items() if at == level]
            lines += [f"  {level}", *found] if found else []
        return "\n".join(lines)


def levels(report: StaticReport, target: Target, buffers: Mapping[str, Buffer], accesses: tuple[MemoryAccess, ...] = ()) -> KernelLayouts:
    """The levels of a compiled kernel; ``buffers``: those of its pointer parameters, by the names of these."""
    parameters, operations = _read(report, target)
    everywhere = Layout((), (Iter(target.warp_size, 1, "lane"), Iter(report.warps, 1, "warp")))
    found = _Reader(target, {name: b.name for name, b in buffers.items()}, everywhere, names=parameters)
    for op in operations:
        found.read(*op)
    device = [Held(b.name, "device", b.shape, b.dtype.name, "", Layout.from_strides(b.shape, b.steps)) for b in buffers.values()]
    held = tuple(dict.fromkeys([*device, *found.held]))
    return KernelLayouts(report.kernel, report.arch, report.warps, held, tuple(found.moves), accesses)


def _read(report: StaticReport, target: Target) -> tuple[dict[int, str], list[Operation]]:
    """The names of the parameters, and the operations in order, but for those that combine two elements of a reduction."""
    operations: list[tuple[int, Operation]] = []  # and the block of each
    combining: set[int] = set()

    def collect(op: Any) -> None:
        block = op.get_block()
        if block is None:
            return
        if op.get_name() in ("tt.reduce.return", "tt.scan.return"):
            combining.add(block.id())
        results = [op.get_result(k) for k in range(op.get_num_results())]
        operands = [op.get_operand(k).id() for k in range(op.get_num_operands())]
        operations.append((block.id(), (op.get_name(), operands, [(v.id(), str(v.get_type()), _named(v)) for v in results])))

    try:
        context = ir.context()
        ir.load_dialects(context)
        make_backend(gpu_target(target)).load_dialects(context)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "kernel.ttgir")
            path.write_text(report.ttgir)
            module = ir.parse_mlir_module(str(path), context)
        function = module.get_function(report.kernel)
        parameters = [function.args(k) for k in range(function.get_num_args())]
        module.walk(collect)
        return {p.id(): _named(p) for p in parameters}, [op for block, op in operations if block not in combining]
    except (AttributeError, RuntimeError) as error:
        raise CompileError(f"the IR of this Triton cannot be read: {error}", where=report.kernel, cure="Triton 3.6 or 3.7") from error


def _named(value: Any) -> str:
    """The variable of the kernel, "" for none: in a function that is called, the caller's if it has one."""
    place = str(value.get_loc())
    found = re.findall(r'"([^"]+)"\(', place)
    return found[-1 if "callsite" in place else 0] if found else ""


@dataclass
class _Reader:
    target: Target
    buffers: Mapping[str, str]
    everywhere: Layout  # of a number that is no tile
    held: list[Held] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    types: dict[int, TileType] = field(default_factory=dict)
    made: dict[int, list[int]] = field(default_factory=dict)  # value -> operands
    names: dict[int, str] = field(default_factory=dict)
    stores: dict[int, str] = field(default_factory=dict)  # buffers, and what is in them
    data: set[int] = field(default_factory=set)  # values that depend on what memory has

    def read(self, op: str, operands: Sequence[int], results: Sequence[Result]) -> None:
        depends = op in _READS or (not op.startswith("scf.") and any(v in self.data for v in operands))  # a loop has counters as well
        for value, text, name in results:
            self.made[value], self.names[value] = list(operands), name
            tile = TileType.read(text) or (TileType((), text, "") if re.fullmatch(r"b?f\d\w*|i\d+", text) else None)
            if tile is None:
                continue
            self.types[value] = tile
            if depends or tile.dtype.startswith(("f", "bf")):
                self.data.add(value)
                if op in _VIEWS or tile.dtype == "i1" or "ptr" in tile.dtype or (tile.buffers and not op.endswith("_alloc")):
                    continue
                if name:
                    self._hold(self._buffer(operands[0]) or name if op in _READS else name, tile)
        if op in ("tt.store", "amdg.buffer_store"):
            pointer, value = operands[:2] if op == "tt.store" else (operands[1], operands[0])
            if (buffer := self._buffer(pointer)) and value in self.types:
                self._hold(buffer, self.types[value])
        self._move(op, operands, results)

    def _buffer(self, pointer: int) -> str | None:
        """The buffer into which a pointer points."""
        while self.made.get(pointer):
            pointer = self.made[pointer][0]
        return self.buffers.get(self.names.get(pointer, ""))

    def _hold(self, tensor: str, tile: TileType) -> None:
        layout, note = None, ""
        try:
            layout = tile.layout() if tile.encoding else self.everywhere
        except LayoutError as error:
            note = error.message
        memory = "tensor memory" if "tensor_memory" in tile.encoding else "shared"
        level = cast(Any, memory if tile.buffers else "registers")
        self.held.append(Held(tensor, level, tile.shape, tile.dtype, tile.encoding, layout, note, tile.buffers or 1))

    def _move(self, op: str, operands: Sequence[int], results: Sequence[Result]) -> None:
        values = [v for v in (*operands, *(r for r, _, _ in results)) if v in self.types and self.types[v].encoding]
        buffers = [v for v in values if self.types[v].buffers and "tensor_memory" not in self.types[v].encoding]
        registers = next((self.types[v] for v in values if not self.types[v].buffers), None)
        if op.endswith("_alloc") or op.startswith("ttg.memdesc_"):  # a buffer, or a part of it
            self.stores |= {v: self.stores.get(operands[0], name) if operands else name for v, _, name in results}
        names = [self.stores.get(v) or next((name for *_, name in results if name), "a tile") for v in buffers]
        if op.endswith(("dot", "mma")):
            self.moves += [Move(name, "read", None, "by the tensor cores, where it is") for name in names]
        elif names and registers and (op.startswith("ttg.local_") or "to_local" in op):
            way: Literal["write", "copy", "read"] = "copy" if "to_local" in op else "read" if op == "ttg.local_load" else "write"
            self.moves.append(Move(names[0], way, *self._passes(way, registers, self.types[buffers[0]])))

    def _passes(self, way: str, registers: TileType, shared: TileType) -> tuple[Passes | None, str]:
        if self.target.vendor != "nvidia":
            return None, "passes are not counted: which lanes are served together depends on the instruction"
        bits = re.search(r"\d+", shared.dtype)
        try:
            held, stored = registers.layout(), shared.layout()
            if isinstance(held, Swizzled):
                raise LayoutError(f"registers of {held}", cure="")
            capability = int(self.target.arch.removeprefix("sm_"))
            matrix = capability >= _MATRIX.get(way, capability + 1)
            return passes(held, stored, max(8, int(bits[0]) if bits else 8) // 8, matrix=matrix), ""
        except LayoutError as error:
            return None, f"passes are not counted: {error.message}"
