"""Reading compiled kernels: resources from NVIDIA's ELF and AMD's assembly text, and the mix of machine instructions.

The resources come from the object file itself in well under a millisecond; the instruction mix of an NVIDIA kernel needs the
disassembler that Triton's wheel carries and takes about a second.
"""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import triton

_REGISTER_COUNT, _FRAME_SIZE = 0x2F, 0x11  # attributes of the section .nv.info
_VALUE_SIZED, _SIZED = 0x03, 0x04  # formats: a value of two bytes in the header; a block of that many bytes behind it


def nvidia_resources(cubin: bytes) -> dict[str, int]:
    """``registers`` per thread and bytes of ``stack`` per thread (the largest over the functions of the object)."""
    found = {"registers": 0, "stack": 0}
    for name, content in _sections(cubin):
        if name == ".nv.info":
            for attribute, words in _attributes(content):
                key = {_REGISTER_COUNT: "registers", _FRAME_SIZE: "stack"}.get(attribute)
                if key and len(words) >= 2:  # a symbol and its value
                    found[key] = max(found[key], words[1])
    return found


def _sections(elf: bytes) -> Iterator[tuple[str, bytes]]:
    """Name and content of each section of a 64-bit little-endian ELF file."""
    if elf[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    (offset,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, offset + size * i) for i in range(count)]
    strings = headers[names][4]
    for name, kind, _, _, start, length in headers:
        text = elf[strings + name : elf.index(b"\0", strings + name)].decode()
        yield text, b"" if kind == 8 else elf[start : start + length]  # kind 8 occupies no space in the file


def _attributes(section: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    at = 0
    while at + 4 <= len(section):
        form, attribute, size = struct.unpack_from("<BBH", section, at)
        at += 4
        if form == _SIZED:
            yield attribute, struct.unpack_from(f"<{size // 4}I", section, at)
            at += size


def nvidia_spills(log: str) -> int | None:
    """Bytes of spill stores per thread from the assembler's report, or None if the report does not say."""
    found = [int(n) for n in re.findall(r"(\d+) bytes spill stores", log)]
    return sum(found) if found else None


def amd_resources(assembly: str) -> dict[str, int]:
    """``registers`` and ``stack`` (scratch bytes) per lane, and ``spills`` in bytes, from the metadata in the assembly text."""

    def largest(key: str) -> int:
        return max((int(n) for n in re.findall(rf"\.{key}:\s+(\d+)", assembly)), default=0)

    # .vgpr_count includes the accumulation registers on this family: both come from one file
    return {
        "registers": largest("vgpr_count"),
        "stack": largest("private_segment_fixed_size"),
        # scalar registers spill into lanes of vector registers, which costs no memory access
        "spills": 4 * largest("vgpr_spill_count"),
    }


_NVIDIA_GROUPS = {
    "tensor": re.compile(r"(?:[HIQD]G?MMA|UTC\w*MMA)(?:\.|$)"),
    "async_copy": re.compile(r"LDGSTS(?:\.|$)"),
    "async_copy_128": re.compile(r"LDGSTS\.(?:\w+\.)*128"),
    "bulk_copy": re.compile(r"UTMALDG"),
    "load": re.compile(r"LDG(?:\.|$)"),
    "load_128": re.compile(r"LDG\.(?:\w+\.)*128"),
    "store": re.compile(r"STG(?:\.|$)"),
    "store_128": re.compile(r"STG\.(?:\w+\.)*128"),
    "spill": re.compile(r"(?:LDL|STL)(?:\.|$)"),
    "special": re.compile(r"MUFU(?:\.|$)"),
    "multiply_add": re.compile(r"FFMA2?(?:\.|$)"),
}
_AMD_GROUPS = {
    "tensor": re.compile(r"v_s?mfmac?_"),
    "load": re.compile(r"(?:global|buffer|flat)_load_"),
    "load_128": re.compile(r"(?:global|buffer|flat)_load_dwordx4"),
    "store": re.compile(r"(?:global|buffer|flat)_store_"),
    "store_128": re.compile(r"(?:global|buffer|flat)_store_dwordx4"),
    "spill": re.compile(r"scratch_(?:load|store)_"),
    "special": re.compile(r"v_(?:exp|log|rcp|rsq|sqrt|sin|cos)_f"),
    "multiply_add": re.compile(r"v_(?:pk_)?(?:fma|fmac|mac|mad)_f32"),
}
_SASS_LINE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.a-z]*)")


def nvidia_instructions(cubin: bytes) -> dict[str, int] | None:
    """Static counts of machine instructions by group, or None where the wheel has no disassembler."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    if not tool.exists():
        return None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool, "-c", file.name], capture_output=True, text=True, timeout=60, check=False)
    return _count(_SASS_LINE.findall(done.stdout), _NVIDIA_GROUPS) if done.returncode == 0 else None


def amd_instructions(assembly: str) -> dict[str, int]:
    """Static counts of machine instructions by group."""
    return _count(re.findall(r"^\t([a-z]\w+)", assembly, re.MULTILINE), _AMD_GROUPS)


def _count(opcodes: list[str], groups: dict[str, re.Pattern[str]]) -> dict[str, int]:
    counts = {name: sum(1 for opcode in opcodes if pattern.match(opcode)) for name, pattern in groups.items()}
    return {"total": len(opcodes)} | counts
