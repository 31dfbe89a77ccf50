"""The time of compiled kernels by their machine code, beside what the model of plans says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import CompileError
from ..extract.plan import PlannedKernel
from ..extract.targets import Target
from ..machine import Estimate, Work, disassemble, estimate
from ..tiles.walk import walk
from .aot import StaticReport


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


def kernel_estimate(report: StaticReport, kernels: Sequence[PlannedKernel], target: Target) -> KernelEstimate:
    """What one launch takes; several kernels in one are not told apart."""
    modelled = sum(k.cost.us for k in kernels)

    def unknown(reason: str) -> KernelEstimate:
        return KernelEstimate(report.kernel, report.arch, modelled, None, reason)

    if len(kernels) > 1:
        return unknown("several kernels share this launch")
    if not report.machine_code or not report.occupancy:
        return unknown("it cannot be launched" if report.machine_code else f"machine code of {report.arch} is not read")
    (k,) = kernels
    counts = walk(k.tiles)
    moved = counts.load_bytes + counts.store_bytes
    blocks = min(counts.programs, k.kernel.persistent or counts.programs)
    outer = max(1.0, (counts.programs if k.kernel.persistent else counts.refills) / blocks)
    work = Work(blocks, report.warps, report.occupancy, k.cost.flops, moved, min(moved, k.cost.dram_bytes), outer)
    try:
        return KernelEstimate(report.kernel, report.arch, modelled, estimate(disassemble(report.machine_code), work, target))
    except CompileError as error:
        return unknown(error.message)
