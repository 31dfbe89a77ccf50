"""AMD's assembly (CDNA, as Triton prints it for gfx942) as a listing, and what its instructions take: enough for floors.

A compute unit has four SIMDs of 16 lanes, so an instruction of a wave of 64 takes one four cycles; in each four cycles a SIMD issues
instructions of up to five kinds, of different waves.  Nothing says here when results are there, so waves are not simulated.
"""

from __future__ import annotations

import re

from ..errors import CompileError
from .pipes import SCHEDULERS, Cost, Processor
from .sass import Instruction, Listing

_LABEL = re.compile(r"^(\.\w+):")
_INSTRUCTION = re.compile(r"^\t([a-z]\w+)\s*([^;\n]*)")
_PRODUCT = re.compile(r"v_s?mfmac?_f32_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_?(\w+)")
_TYPES = {"f16": "float16", "bf16": "bfloat16", "bf16_1k": "bfloat16", "xf32": "tf32"}
_WIDTH = re.compile(r"_(?:dwordx?(\d?)|b(\d+)|[ui](\d+)|(ubyte|sbyte|byte)|(ushort|sshort|short))")
_UNITS = {
    "special": re.compile(r"v_(?:exp|log|rcp|rsq|sqrt|sin|cos)_"),
    "integer_multiply": re.compile(r"v_(?:mul_(?:lo|hi)_[ui]32|mad_[ui]64)"),
    "control": re.compile(r"s_(?:waitcnt|nop|barrier|endpgm|setprio|sleep|sched|c?branch)"),
    "uniform": re.compile(r"s_"),
    "shared": re.compile(r"ds_"),
    "memory": re.compile(r"(?:global|buffer|flat|scratch)_(?:load|store|atomic)"),
    "vector": re.compile(r"v_"),
}


def parse(assembly: str) -> Listing:
    """The listing of the one kernel in what Triton calls ``amdgcn``."""
    lines: list[tuple[str, str]] = []
    labels: dict[str, int] = {}
    for text in assembly.splitlines():
        if label := _LABEL.match(text):
            labels[label[1]] = len(lines)
        elif (found := _INSTRUCTION.match(text)) and any(names.match(found[1]) for names in _UNITS.values()):
            lines.append((found[1], found[2].strip()))
    return Listing(tuple(_instruction(opcode, operands, labels) for opcode, operands in lines))


def _instruction(opcode: str, operands: str, labels: dict[str, int]) -> Instruction:
    branch = opcode == "s_branch" or opcode.startswith("s_cbranch_")
    condition = opcode.removeprefix("s_cbranch_") if branch and opcode != "s_branch" else ""
    name = "BRA" if branch else "EXIT" if opcode == "s_endpgm" else opcode
    return Instruction(name, operands, condition, labels.get(operands) if branch else None, 1, (), (), ())


def unmodelled(x: Instruction) -> bool:
    """Whether it is a product whose rate is not known."""
    return "mfma" in x.opcode and ((shape := _PRODUCT.match(x.opcode)) is None or shape[5] not in _TYPES)


def cost(x: Instruction, p: Processor) -> Cost:
    """What an instruction takes."""
    if x.opcode in ("BRA", "EXIT"):
        return Cost("control", p.interval["control"])
    if "mfma" in x.opcode:
        return _product(x, p)
    unit = next(unit for unit, names in _UNITS.items() if names.match(x.opcode))
    moved = float(p.target.warp_size * _lane_bytes(x)) if unit in ("shared", "memory") else 0.0
    if unit == "shared":
        return Cost("memory", p.interval["memory"], shared=moved)
    return Cost(unit, p.interval[unit], memory=moved)


def _product(x: Instruction, p: Processor) -> Cost:
    shape = _PRODUCT.match(x.opcode)
    operand = _TYPES.get(shape[5], "") if shape else ""
    if shape is None or not p.matrix_rate(operand):
        return Cost("matrix", 0.0)
    m, n, k, blocks = (int(d or 1) for d in shape.groups()[:4])
    flops = 2.0 * m * n * k * blocks
    return Cost("matrix", flops * SCHEDULERS / p.matrix_rate(operand), flops=flops, matrix="warp")


def _lane_bytes(x: Instruction) -> int:
    """Bytes that each lane moves."""
    width = _WIDTH.search(x.opcode)
    if width is None:
        raise CompileError(f"how many bytes {x.opcode} moves is not known", cure="report it, with the kernel")
    words, bits, small, byte, short = width.groups()
    size = int(bits or small) // 8 if bits or small else 1 if byte else 2 if short else 4 * int(words or 1)
    return size * (2 if re.match(r"ds_(?:read|write)2", x.opcode) else 1)
