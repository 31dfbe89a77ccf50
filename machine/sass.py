"""NVIDIA's machine code (SASS) as a list: instructions with the control codes by which the compiler schedules them.

Since Volta the hardware does not look for hazards: each instruction says how many cycles the warp waits after it, which of six
scoreboards it
sets when its result is there or its operands are read, and which scoreboards it waits for.  The fields of the upper 64 bits of the 128 are
those that Jia et al. found ("Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", arXiv 1804.06826, section 2.1), in the
places where they are from Volta to Blackwell.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import CompileError

NO_SCOREBOARD = 7

_LABEL = re.compile(r"^(\.L\w+):")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s*/\* 0x[0-9a-f]{16} \*/")
_UPPER_HALF = re.compile(r"^\s*/\* (0x[0-9a-f]{16}) \*/")
_PARTS = re.compile(r"(?:@(!?U?P\w+)\s+)?(\S+)\s*(.*)")
_TARGET = re.compile(r"`\((\.L\w+)\)")
_UNIFORM_BRANCH = re.compile(r"BRA\.U\s+(!?UP\w+),")
_DESCRIPTOR = re.compile(r"idesc\[(UR\d+)\]")
_ARRIVING = re.compile(r"\], (0x[0-9a-f]+)$")
_EXPECTED = re.compile(r"\], (R\d+)\s*$")
_WRITTEN = re.compile(r"(U?R\d+),")
_MOVED = re.compile(r"U?R\d+, (?:RZ, RZ, )?(0x[0-9a-f]+)\s*$")


@dataclass(frozen=True)
class Instruction:
    """One machine instruction.  ``opcode`` with its modifiers, as ``LDG.E.128``; ``predicate`` is empty where it always runs."""

    opcode: str
    operands: str
    predicate: str
    target: int | None  # where it branches to: a position in the listing
    stall: int  # cycles before the warp may issue the next
    sets: tuple[int, ...]  # scoreboards that are busy until the result is there
    reads: tuple[int, ...]  # scoreboards that are busy until the operands are read
    waits: tuple[int, ...]  # scoreboards that must be free before it issues
    passes: float = 1.0  # over the banks of shared memory, over the fewest
    sectors: float = 1.0  # bytes that it moves of device memory, over those that it asks for

    @property
    def name(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def never(self) -> bool:
        """Whether its predicate is false always: it takes a slot, and does nothing."""
        return self.predicate in ("!PT", "!UPT")

    @property
    def arriving(self) -> int:
        """Bytes of the bulk copies whose barrier it tells to wait for them; one thread of a block does that."""
        found = _ARRIVING.search(self.operands) if self.opcode == "SYNCS.ARRIVE.TRANS64" else None
        return int(found[1], 16) if found else 0

    @property
    def branches(self) -> bool:
        """Whether control may go to ``target``; a call of code that does not come back is a branch."""
        return self.target is not None

    @property
    def lane_bytes(self) -> int:
        """Bytes that each lane moves, for loads and stores: the width is a modifier, 32 bits without one."""
        modifiers = self.opcode.split(".")[1:]
        if self.name in ("LDSM", "STSM"):  # matrices of 8 by 8 16-bit elements, four bytes a lane for each
            return 4 * next((int(m) for m in modifiers if m in ("2", "4")), 1)
        widths = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
        return next((widths[m] for m in modifiers if m in widths), 4)


@dataclass(frozen=True, eq=False)
class Listing:
    """The instructions of one function, in the order of their addresses."""

    instructions: tuple[Instruction, ...]

    def __len__(self) -> int:
        return len(self.instructions)

    def __getitem__(self, position: int) -> Instruction:
        return self.instructions[position]


def disassemble(cubin: bytes) -> Listing:
    """The listing of the object file of one kernel.

    Raises :class:`~eqfuse.errors.CompileError` where Triton's wheel has no disassembler, or it does not read the file.
    """
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    if not tool.exists():
        raise CompileError("this Triton carries no disassembler (nvdisasm)", cure="install triton's wheel for Linux")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool, "-c", "-hex", file.name], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise CompileError(f"nvdisasm does not read this kernel: {done.stderr.strip().splitlines()[-1:]}")
    return parse(done.stdout)


def parse(text: str) -> Listing:
    """The listing in what ``nvdisasm -c -hex`` prints of one function."""
    lines: list[tuple[str, int]] = []
    labels: dict[str, int] = {}
    read: str | None = None
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(lines)
        elif found := _INSTRUCTION.match(line):
            read = found[2]
        elif read is not None and (upper := _UPPER_HALF.match(line)):
            lines.append((read, int(upper[1], 16)))
            read = None
    return Listing(_described([_instruction(text, upper, labels) for text, upper in lines]))


def _described(found: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """The same, with the number in the place of the register where a product's descriptor, or the bytes that a barrier is told to wait
    for, is one that was moved there just before."""
    held: dict[str, str] = {}  # registers -> constants
    out = []
    for x in found:
        if (used := _DESCRIPTOR.search(x.operands)) and (number := held.get(used[1])):
            x = replace(x, operands=x.operands.replace(used[0], f"idesc[{number}]"))
        elif x.opcode == "SYNCS.ARRIVE.TRANS64" and (used := _EXPECTED.search(x.operands)) and (number := held.get(used[1])):
            x = replace(x, operands=x.operands[: used.start(1)] + number)
        if written := _WRITTEN.match(x.operands):
            moves = x.opcode in ("MOV", "IMAD.MOV.U32") or (x.opcode == "UMOV" and not x.predicate)
            constant = _MOVED.match(x.operands) if moves else None
            held[written[1]] = constant[1] if constant else ""
        out.append(x)
    return tuple(out)


def _instruction(text: str, upper: int, labels: Mapping[str, int]) -> Instruction:
    parts = _PARTS.match(text)
    assert parts is not None
    predicate, opcode, operands = parts.groups(default="")
    if uniform := _UNIFORM_BRANCH.match(text):  # whose predicate is an operand
        predicate = uniform[1]
    to = _TARGET.search(operands) if opcode.startswith(("BRA", "CALL")) else None
    sets, reads = upper >> 46 & 7, upper >> 49 & 7
    return Instruction(
        opcode,
        operands,
        predicate,
        labels.get(to[1]) if to else None,
        upper >> 41 & 15,
        (sets,) if sets != NO_SCOREBOARD else (),
        (reads,) if reads != NO_SCOREBOARD else (),
        tuple(i for i in range(6) if upper >> 52 + i & 1),
    )
