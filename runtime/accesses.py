"""How wide a kernel reads and writes device memory: what the layouts of its tensors imply, and what the compiler made of it.

The model prices an access by the bytes that one instruction of a thread moves and by the sectors that a warp's request touches; both follow
from the strides of the tensor and the tile (:mod:`..tiles.sizes`).  What was compiled is read from the assembly, whose instructions name
the line of the kernel that they belong to.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..ir.strides import SECTOR_BYTES
from ..tiles.program import Load, Store, TileProgram
from ..tiles.sizes import Sizes, wide_axes

_LINE = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_INSTRUCTION = re.compile(r"^\s*(?:@!?%p\d+\s+)?(ld\.global|st\.global|cp\.async\.c[ag]\.shared\.global|cp\.async\.bulk)(\S*)\s(.*)")


@dataclass(frozen=True)
class MemoryAccess:
    """How a launch loads or stores a buffer.  ``width``: bytes that one instruction of a thread moves; ``piece``: bytes that lie together;
    ``sectors``: of 32 bytes, in the request of a warp whose threads each move ``width``.  ``compiled``: instruction -> the widths that it
    has in the assembly; empty where there is none to read."""

    buffer: str
    way: Literal["load", "store"]
    width: int
    piece: int
    sectors: int
    compiled: tuple[tuple[str, tuple[int, ...]], ...]

    def __str__(self) -> str:
        made = ", ".join(f"{name} {'/'.join(map(str, widths))}" for name, widths in self.compiled)
        implied = f"{self.way} {self.width} B a thread, pieces of {self.piece} B, {self.sectors} sectors a request"
        return f"{implied}; compiled: {made}" if made else implied


def memory_accesses(kernels: Sequence[TileProgram], source: str, assembly: str, lanes: int) -> tuple[MemoryAccess, ...]:
    """The accesses of a launch in order, those that are alike once; ``lanes``: of a warp."""
    compiled = _instructions(assembly)
    out: dict[MemoryAccess, None] = {}
    for k in kernels:
        calls = _calls(source, k.kernel.name, {p.name: p.buffer for p in k.parameters if p.kind == "pointer" and p.buffer})
        sizes = Sizes(k, k.kernel.roles, wide_axes(k))
        threads = k.kernel.warps * lanes
        for s in k.statements():
            if isinstance(s, Load | Store):
                way: Literal["load", "store"] = "load" if isinstance(s, Load) else "store"
                buffer = k.kernel.buffers[s.access.buffer]
                itemsize = buffer.dtype.itemsize
                elements = math.prod(sizes.dims[d.name] for d in s.access.dims)
                width = min(sizes.vector(s.access, itemsize), max(1, elements // threads) * itemsize)
                run = sizes.run(s.access, buffer)
                sectors = sectors_of_request(width, run, lanes)
                made: dict[str, set[int]] = {}
                for name, n in (found for line in calls.get((way, buffer.name), ()) for found in compiled.get(line, ())):
                    made.setdefault(name, set()).add(n)
                widths = tuple((name, tuple(sorted(n))) for name, n in sorted(made.items()))
                out[MemoryAccess(buffer.name, way, width, run, sectors, widths)] = None
    return tuple(out)


def sectors_of_request(width: int, run: int, lanes: int) -> int:
    """Of 32 bytes, that a warp asks for whose ``lanes`` threads each move ``width`` bytes, ``run`` of which lie together."""
    piece = min(run, lanes * width)
    return -(-lanes * width // piece) * -(-piece // SECTOR_BYTES)


def _calls(source: str, function: str, pointers: Mapping[str, str]) -> dict[tuple[str, str], set[int]]:
    """The lines on which a function loads or stores each buffer."""
    body = next(node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == function)
    found: dict[tuple[str, str], set[int]] = {}
    for node in ast.walk(body):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("load", "store"):
            for name in (n.id for n in ast.walk(node.args[0]) if isinstance(n, ast.Name) and n.id in pointers):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                found.setdefault((node.func.attr, pointers[name]), set()).update(lines)
    return found


def _instructions(assembly: str) -> dict[int, list[tuple[str, int]]]:
    """Line of the module -> its memory instructions in PTX, and the bytes that each moves."""
    found: dict[int, list[tuple[str, int]]] = {}
    line = 0
    for text in assembly.splitlines():
        if (place := _LINE.match(text)) is not None:
            line = int(place[2]) if place[1] == "1" else 0
        elif (made := _INSTRUCTION.match(text)) is not None and line:
            name, suffix, operands = made.groups()
            found.setdefault(line, []).append((name.removesuffix(".shared.global"), _bytes(suffix, operands)))
    return found


def _bytes(suffix: str, operands: str) -> int:
    """That one instruction moves: ``.v4.b32``, or the size that an asynchronous copy names."""
    kind = re.search(r"(?:\.v(\d))?\.[bfsu](\d+)$", suffix)
    if kind is not None:
        return int(kind[1] or 1) * int(kind[2]) // 8
    size = re.search(r"\],\s*(0x[0-9a-f]+|\d+)", operands)
    return int(size[1], 0) if size else 0
