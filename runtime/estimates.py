"""The time of compiled kernels by their machine code, beside what the model of plans says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import CompileError
from ..extract.plan import PlannedKernel
from ..extract.targets import Target
from ..ir.strides import SECTOR_BYTES
from ..machine import Accesses, Estimate, Work, assembled, disassemble, estimate
from ..machine.accesses import MATRIX, mean
from ..tiles.program import Loop
from ..tiles.walk import walk
from .aot import StaticReport
from .levels import KernelLayouts

WARP = 32  # lanes of those whose passes and sectors are counted


@dataclass(frozen=True)
class KernelEstimate:
    """One launch.  ``modelled``: microseconds by the model that chose the plan; ``static``: by the machine code, or ``None`` with a
    ``reason``."""

    kernel: str
    arch: str
    modelled: float
    static: Estimate | None
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kernel} {self.arch}: {self.modelled:.1f} us modelled, {self.static or self.reason}"


def accesses_of(layouts: KernelLayouts) -> Accesses:
    """What the layouts of a kernel say of its accesses, as machine code has them."""
    counted = [(m.way, m.passes) for m in layouts.moves if m.passes is not None]
    passes = [((way, MATRIX if n.matrix else n.bytes), n.instructions * n.passes, n.instructions * n.phases) for way, n in counted]
    sectors = [((a.way, a.width), float(a.sectors * SECTOR_BYTES), float(a.width * WARP)) for a in layouts.accesses]
    return Accesses(mean(passes), mean(sectors))


def kernel_estimate(
    report: StaticReport,
    kernels: Sequence[PlannedKernel],
    target: Target,
    layouts: KernelLayouts | None = None,
    most: float = math.inf,
) -> KernelEstimate:
    """What one launch takes; several kernels in one are not told apart.  ``layouts``: of this launch, for conflicts and sectors.  What
    takes ``most`` microseconds by its floors alone is not simulated."""
    modelled = sum(k.cost.us for k in kernels)

    def unknown(reason: str) -> KernelEstimate:
        return KernelEstimate(report.kernel, report.arch, modelled, None, reason)

    if len(kernels) > 1:
        return unknown("several kernels share this launch")
    if not report.occupancy:
        return unknown("it cannot be launched")
    work = work_of(kernels[0], report.warps, report.occupancy)
    try:
        listing = assembled(report.assembly) if target.vendor == "amd" else disassemble(report.machine_code)
        known = accesses_of(layouts) if layouts and target.warp_size == WARP else None
        return KernelEstimate(report.kernel, report.arch, modelled, estimate(listing, work, target, known, most))
    except CompileError as error:
        return unknown(error.message)


def work_of(k: PlannedKernel, warps: int, resident: int) -> Work:
    """What a launch of a kernel does, with so many warps in each program and programs at a time on a multiprocessor."""
    counts = walk(k.tiles)
    moved = counts.load_bytes + counts.store_bytes
    blocks = min(counts.programs, k.kernel.persistent or counts.programs)
    outer = max(1.0, (counts.programs if k.kernel.persistent else counts.refills) / blocks)
    loops = [s for s in k.tiles.statements() if isinstance(s, Loop) and s.innermost]
    steps = [counts.sizes.taken(s) * counts.sizes.steps(s.binding) for s in loops]
    trips = tuple(0 if n == max(steps) else max(1, round(n)) for n in steps) if any(s.part for s in loops) else ()
    return Work(blocks, warps, resident, k.cost.flops, moved, min(moved, k.cost.dram_bytes), outer, trips)
