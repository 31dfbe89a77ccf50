"""Which unit of a multiprocessor runs an instruction, for how long, and when its result is there.

Rates are data of an architecture (``processors/*.toml``, each number with its source); what a device makes of them (clock, number of
multiprocessors, peak of the matrix unit, bandwidths) is data of the target (``extract/targets``).
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from ..errors import CompileError
from ..extract.targets import Target
from .sass import Instruction

SCHEDULERS = 4  # of a multiprocessor, each with a quarter of its warps and units
LANES = 32

# Names of instructions by unit; what is in none of them is arithmetic.
_UNITS = {
    "special": re.compile(r"MUFU|[FI]2[FI]$|I2F|F2I|F2F$|FRND"),
    "paired": re.compile(r"F(FMA|MUL|ADD)2"),
    "multiply_add": re.compile(r"F(FMA|MUL|ADD|HADD|HFMA)"),
    "integer_multiply": re.compile(r"IMAD|IDP"),
    "packed": re.compile(r"H(ADD2|FMA2|MUL2|MNMX2)"),
    "shuffle": re.compile(r"SHFL|C?REDUX|MATCH"),
    "tensor_memory": re.compile(r"LDTM|STTM"),
    "memory": re.compile(r"LDS|STS|LDSM|STSM|LDG|STG|LDL|STL|ATOM|RED$|LDGSTS|S2R$"),
    "control": re.compile(
        r"BAR|DEPBAR|LDGDEPBAR|LDC|WARPGROUP|WARPSYNC|BRA|CALL|RET|EXIT|NOP|MEMBAR|FENCE|BSYNC|BSSY|VOTE$|ELECT|ERRBAR|CCTL|YIELD|NANOSLEEP|ENDCOLLECTIVE|ACQBULK|PREEXIT|SYNCS|UTCBAR|UTCATOMSWS|BPT"
    ),
    "uniform": re.compile(r"U[A-Z]|R2UR|S2UR|VOTEU|ULDC|PLOP3"),
}
_UNMODELLED = re.compile(r"UTMA(?!LDG)|UBLKCP|UTC(?!HMMA|BAR|ATOMSWS)|UTCHMMA\.\w*2CTA|UTCBAR\.\w*2CTA|[IDQB]G?MMA|QMMA|OMMA")
_WARPGROUP_SHAPE = re.compile(r"HGMMA\.(\d+)x(\d+)x(\d+)")
_WARP_SHAPE = re.compile(r"HMMA\.(16)(8)(16|8|4)")
_DESCRIPTOR = re.compile(r"idesc\[(0x[0-9a-f]+)\]")
_TENSOR_MEMORY = re.compile(r"[LS][DT]TM(?:\.(\d+)dp(\d+)bit\w*)?\.x(\d+)")


@dataclass(frozen=True)
class Processor:
    """One multiprocessor of a device.  Intervals and latencies are in cycles, per scheduler; rates are in bytes or operations a cycle."""

    target: Target
    interval: Mapping[str, float]
    latency: Mapping[str, float]
    shared_bytes: float
    tensor_memory_bytes: float  # to or from one scheduler's warps; 0 where there is none
    port_bytes: float  # that one multiprocessor takes from beyond its first level, at most
    warp_share: float

    def matrix_rate(self, operand: str) -> float:
        """Floating-point operations a cycle of the matrix unit, for an operand type."""
        rate = self.target.tensor_tflops.get(operand, 0.0)
        return 1e3 * rate / (self.target.sm_count * self.target.clock_ghz)

    @property
    def second_level_bytes(self) -> float:
        """Bytes a cycle from the second-level cache, if all multiprocessors draw."""
        return self.target.l2_gb_s / (self.target.sm_count * self.target.clock_ghz)

    @property
    def device_bytes(self) -> float:
        """Bytes a cycle from device memory, if all multiprocessors draw."""
        return self.target.dram_gb_s / (self.target.sm_count * self.target.clock_ghz)


@dataclass(frozen=True)
class Cost:
    """What an instruction of a warp takes: ``busy`` cycles of a ``unit`` of its scheduler, ``shared`` bytes of the multiprocessor's
    shared memory or
    first-level cache, ``memory`` bytes beyond; ``flops`` of the matrix unit; and ``latency`` cycles after the unit is done until the
    result is there."""

    unit: str
    busy: float
    latency: float = 0.0
    shared: float = 0.0
    memory: float = 0.0
    flops: float = 0.0
    matrix: str = ""  # warp | group | block: whose product it is


@functools.cache
def processor(target: Target) -> Processor:
    """The multiprocessor of a target.  Raises :class:`~eqfuse.errors.CompileError` for an architecture that no file describes."""
    file = resources.files(__package__) / "processors" / f"{target.arch}.toml"
    if not file.is_file():
        raise CompileError(f"no file describes the units of {target.arch}", cure="add machine/processors/" + target.arch + ".toml")
    data = tomllib.loads(file.read_text())
    shared, tensor_memory, port = (data.get(f"{of}_bytes_per_clock", 0.0) for of in ("shared", "tensor_memory", "port"))
    return Processor(target, data["interval"], data["latency"], shared, tensor_memory, port, target.warp_share)


def unmodelled(x: Instruction) -> bool:
    """Whether the time of an instruction is not modelled: bulk copies, products of other numbers than 16 and tf32's 19 bits, of two
    multiprocessors together, and those whose shape is not known before the kernel runs."""
    return bool(_UNMODELLED.match(x.opcode)) or (x.name == "UTCHMMA" and not _DESCRIPTOR.search(x.operands))


def cost(x: Instruction, p: Processor) -> Cost:
    """What an instruction takes."""
    if x.never:
        return Cost("control", p.interval["control"])
    if x.name in ("HGMMA", "HMMA"):
        return _matrix(x, p)
    if x.name == "UTCHMMA" and (said := _DESCRIPTOR.search(x.operands)):
        return _block_product(x, int(said[1], 16), p)
    if x.arriving:
        return Cost("control", p.interval["control"], 0.0, float(x.arriving), float(x.arriving))
    unit = next((unit for unit, names in _UNITS.items() if names.match(x.name)), "arithmetic")
    if unit == "tensor_memory":
        return Cost(unit, _of_tensor_memory(x) / p.tensor_memory_bytes, p.latency[unit])
    busy = p.interval[unit]
    if unit == "memory" and x.name not in ("S2R",):
        moved = float(LANES * x.lane_bytes)
        beyond = x.name in ("LDG", "STG", "LDGSTS", "ATOM", "ATOMG", "RED", "LDL", "STL")
        return Cost(unit, busy, p.latency["shared"], moved * x.passes, moved * x.sectors if beyond else 0.0)
    if unit == "shuffle":
        return Cost(unit, busy, p.latency["shuffle"], 4.0 * LANES)
    return Cost(unit, busy, p.latency.get(unit, p.latency["uniform"]))


def _matrix(x: Instruction, p: Processor) -> Cost:
    operand = "bfloat16" if "BF16" in x.opcode else "tf32" if "TF32" in x.opcode else "float16"
    rate = p.matrix_rate(operand)
    if shape := _WARPGROUP_SHAPE.match(x.opcode):
        m, n, k = map(int, shape.groups())
        size = 4 if operand == "tf32" else 2
        flops = 2.0 * m * n * k
        left = 0 if re.match(r"R\d+, R\d+", x.operands) else m * k  # the left operand may lie in registers
        read = float(size * (n * k + left))
        # one instruction of four warps, a quarter of it on each scheduler: each is busy as long as the whole
        return Cost("matrix", max(flops / rate, read / p.shared_bytes), p.latency["matrix"], read / 4, 0.0, flops / 4, "group")
    shape = _WARP_SHAPE.match(x.opcode)
    if shape is None:
        raise CompileError(f"the shape of {x.opcode} is not known")
    m, n, k = map(int, shape.groups())
    flops = 2.0 * m * n * k
    return Cost("matrix", flops / (rate / SCHEDULERS * p.warp_share), p.latency["matrix"], 0.0, 0.0, flops, "warp")


def _block_product(x: Instruction, descriptor: int, p: Processor) -> Cost:
    """A product that one thread begins (tcgen05).  The descriptor's fields are those of the PTX ISA: types from bit 7, columns divided by 8
    from bit 17, rows divided by 16 from bit 24.  Rows below 128 leave the rest of the unit idle."""
    kind, n, m = descriptor >> 7 & 7, (descriptor >> 17 & 63) * 8, (descriptor >> 24 & 31) * 16
    operand = ("float16", "bfloat16", "tf32")[min(kind, 2)]
    k = 8 if operand == "tf32" else 16
    flops = 2.0 * m * n * k
    read = 32.0 * (n + (m if x.operands.startswith("gdesc") else 0))  # the left operand may lie in tensor memory
    busy = max(flops * max(1.0, 128 / m) / p.matrix_rate(operand), read / p.shared_bytes)
    return Cost("matrix", SCHEDULERS * busy, p.latency["matrix"], read, 0.0, flops, "block")


def _of_tensor_memory(x: Instruction) -> float:
    """Bytes that a warp moves: so many lanes (data paths) of so many bits, that many times."""
    shape = _TENSOR_MEMORY.match(x.opcode)
    if shape is None:
        raise CompileError(f"the shape of {x.opcode} is not known")
    lanes, bits, times = (int(n) for n in shape.groups(default="32"))
    return lanes * bits / 8 * times
