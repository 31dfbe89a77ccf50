"""What the probes say of a machine, as a target.  Caches are those that the system names, or that reading shows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType

from ..extract.targets import Target, bundled
from ..extract.targets.core import Core, Level
from ..extract.targets.levels import Level as Memory
from ..extract.targets.machine import caches, cores, processor
from ..tiles.native import LINE
from .library import products
from .probes import Probe, Probes

NAMES = ("exp", "log", "tanh", "erf", "div")
MEMORY = 32 << 20  # floats that are surely not in a cache: more are not read where caches are larger than half of them
SMALL = 2048  # floats in the nearest cache
FAR = 16  # a step of the micro-kernel is what is between so many and 16 times as many
TABLE = (16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)  # bytes, where the system does not name its caches
STEEP = 0.75  # a cache ends where what it reads a second falls below this share
LAST = "dram"

Tick = Callable[[str, float], None]  # told what is measured, and the share that is done


@dataclass(frozen=True)
class Calibration:
    """A measured target, and by how much the median run was longer than the shortest, of all probes the worst."""

    target: Target
    spread: float


def calibrate(tick: Tick = lambda what, share: None) -> Calibration:
    """Measure this machine; a few seconds.  Raises :class:`~eqfuse.errors.CompileError` without a C compiler."""
    probes = Probes(MEMORY)
    levels = _caches(probes)
    tick("caches", 0.1)
    asked = _asked(probes, levels)
    took, spread = probes.measured(asked, lambda share: tick("probes", 0.1 + 0.9 * share))
    return Calibration(_target(probes, levels, took), max(spread.values()))


def _caches(probes: Probes) -> list[tuple[str, float]]:
    """Names of caches and the bytes of them that a core has: of one that all share, its part."""
    found = caches()
    if found:
        return [(f"L{level}", size / min(shared, cores()) if level > 2 else size) for level, size, shared in found]
    rates = probes.measured({str(n): Probe("read", n // 4) for n in TABLE})[0]
    speed = [n / rates[str(n)] for n in TABLE]
    ends = [k for k in range(len(TABLE) - 1) if speed[k + 1] < STEEP * speed[k]]
    return [(f"L{i + 1}", float(TABLE[k])) for i, k in enumerate(ends)]


def _asked(probes: Probes, levels: list[tuple[str, float]]) -> dict[str, Probe]:
    unit = 8 * probes.lanes  # floats of a turn of the reading loop
    asked = {}
    for name, size in levels:
        n = max(min(int(size) // 2 // 4, MEMORY // 4) // unit * unit, unit)
        asked[f"{name} read"], asked[f"{name} copy"] = Probe("read", n), Probe("copy", n // 2)
        asked[f"{name} pieces"] = Probe("pieces", max(n, 1024))
    half = MEMORY // 2
    asked["memory read"], asked["memory copy"] = Probe("read", MEMORY), Probe("copy", half)
    asked["memory all"] = Probe("copy_all", half, clock=True)
    asked["last all"] = Probe("copy_all", max(65536 * cores(), int(levels[-1][1]) // 16 // 65536 * 65536) if levels else 65536, clock=True)
    asked["memory pieces"] = Probe("pieces", MEMORY)
    for rows in (1, probes.rows):
        for k in (FAR, 16 * FAR):
            asked[f"rows {rows} {k}"] = Probe(f"rows_{rows}", k)
    for k in (FAR, 16 * FAR):
        asked[f"inner {k}"] = Probe("inner", k)
    for name in ("pack", "turn"):
        asked[name] = Probe(name, 64 * 128)
    for name in (*NAMES, "vector"):
        asked[name] = Probe(name, SMALL)
    asked["memory exp"] = Probe("exp", half)
    for n in (64, 512):
        asked[f"row {n}"] = Probe("most", n)
    return asked


def _target(probes: Probes, caches: list[tuple[str, float]], took: dict[str, float]) -> Target:
    half, n = MEMORY // 2, cores()
    asked = _asked(probes, caches)
    levels, least = [], math.inf
    for name, size in caches:
        read, copy = f"{name} read", f"{name} copy"
        rates = _gb_s(4 * asked[read].n, took[read]), _gb_s(8 * asked[copy].n, took[copy])
        begins = _piece(asked[f"{name} pieces"].n, took[f"{name} pieces"], rates[0])
        least = min(least, begins)  # of which the loop itself is a part
        levels.append(Level(name, size, *rates, begins - least))
    rates = _gb_s(4 * MEMORY, took["memory read"]), _gb_s(8 * half, took["memory copy"])
    memory = Level("memory", 1e15, *rates, max(_piece(MEMORY, took["memory pieces"], rates[0]) - least, 0.0))
    all_memory, all_last = _gb_s(8 * half, took["memory all"]), _gb_s(8 * asked["last all"].n, took["last all"])
    step = {r: (took[f"rows {r} {16 * FAR}"] - took[f"rows {r} {FAR}"]) / (15 * FAR) for r in (1, probes.rows)}
    call = max(took[f"rows {probes.rows} {FAR}"] - FAR * step[probes.rows], 1e-10)
    peak = 2e-9 * probes.rows * probes.columns / step[probes.rows]
    inner = (took[f"inner {16 * FAR}"] - took[f"inner {FAR}"]) / (15 * FAR)
    stream, exp = took["memory copy"], took["exp"] / SMALL * half
    hidden = (stream + exp - took["memory exp"]) / min(stream, exp)
    row = (took["row 512"] - took["row 64"]) / (512 - 64)
    core = Core(
        rows=probes.rows,
        columns=probes.columns,
        product_gflops=peak,
        step_ns=step[1] * 1e9,
        call_ns=call * 1e9,
        inner_gflops=2e-9 * 32 / inner,
        inner_ns=max(took[f"inner {FAR}"] / 32 - FAR * inner / 32, 1e-10) * 1e9,
        pack_gelem_s=1e-9 * 64 * 128 / took["pack"],
        turn_gelem_s=1e-9 * 64 * 128 / took["turn"],
        vector_gops=1e-9 * 17 * SMALL / took["vector"],
        loop_ns=max(took["row 64"] - 64 * row, 1e-10) * 1e9,
        extremum_ns=row * 1e9,
        overlap=min(max(hidden, 0.0), 1.0),
        special_ns=MappingProxyType({name: took[name] / SMALL * 1e9 for name in NAMES}),
        levels=(*levels, memory),
    )
    last = levels[-1] if levels else memory
    library_us, library_tflops = products()
    together = {v.name: v.read_gb_s * n for v in levels} | {last.name: max(all_last, last.copy_gb_s)}
    return replace(
        bundled("cpu"),
        sm_count=n,
        levels=_memories(levels, together, max(all_memory, memory.copy_gb_s), n, probes.lanes),
        simt_gops=core.vector_gops * n,
        special_gops=n / core.special_ns["exp"],
        launch_us=probes.launch(n) * 1e6,
        library_us=library_us,
        library_tflops=library_tflops,
        tensor_tflops=MappingProxyType(dict.fromkeys(("float16", "bfloat16", "float32", "tf32"), 1e-3 * peak * n)),
        core=core,
        measured=f"{datetime.now(UTC):%Y-%m-%d} on {processor()}, {n} core{'s' * (n > 1)}",
    )


def _memories(caches: list[Level], rates: dict[str, float], memory: float, cores: int, lanes: int) -> tuple[Memory, ...]:
    """The memories as :mod:`..extract.targets.levels` has them: what is beyond the second cache belongs to all cores.  Tiles may take three
    quarters of the second one."""
    found = [Memory(LAST, "device", bundled("cpu").levels[0].bytes, LINE, memory)]
    for k, v in reversed([*enumerate(caches)]):
        size = v.bytes * cores if k > 1 else v.bytes
        kept = int(size) // 4 if k == 1 else 0
        found.append(Memory(v.name.lower(), "device" if k > 1 else "sm", size, LINE, rates[v.name], reserved=kept))
    registers = 16 if lanes == 8 else 32  # of AVX2, or of AVX-512 and NEON
    return (*found, Memory("registers", "sm", 4 * lanes * registers, 4 * lanes))


def _gb_s(size: float, seconds: float) -> float:
    return 1e-9 * size / seconds


def _piece(n: int, seconds: float, gb_s: float) -> float:
    """Nanoseconds of a piece of 256 bytes, a page from the one before, beside those of its bytes."""
    return max(1e9 * seconds / (n // 1024) - 256 / gb_s, 0.0)
