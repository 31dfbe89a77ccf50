"""What a compiler makes of one kernel, as a few numbers: whether it can be launched, what it spills, how long it takes by machine code.

That takes seconds and no GPU, depends on nothing but the text of the kernel, the target and some versions, and is remembered on disk by
these (:mod:`~eqfuse.extract.kept.folder`): numbers and words, nothing that could be run.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from ..codegen.module import emit_kernels
from ..codegen.sizes import ModuleSpec
from ..errors import CompileError
from ..extract.kept import folder
from ..extract.kept.versions import made_by
from ..extract.plan import PlannedKernel
from ..extract.targets import Target
from ..machine import Work
from ..tiles.program import Param

SOURCES, OTHERS = ("machine", "runtime", "codegen"), ("triton",)  # what a judgement is made by, beside what is in the job


@dataclass(frozen=True)
class Job:
    """One kernel to be compiled: all that the compiler, the gate and the estimate are told."""

    source: str
    name: str
    params: tuple[Param, ...]
    target: Target
    warps: int
    stages: int
    registers: int
    contract: bool
    work: Work  # whose warps and resident programs the compiler will say

    @property
    def key(self) -> str | None:
        """The name of its judgement on disk; ``None`` where nothing is kept."""
        versions = made_by(SOURCES, OTHERS)
        if versions is None or folder.directory() is None:
            return None
        said = (versions, self.source, self.name, repr(self.params), repr(self.target), self.warps, self.stages, self.registers,
                self.contract, repr(self.work))  # fmt: skip
        return hashlib.sha256("\0".join(map(str, ("judged", *said))).encode()).hexdigest()


@dataclass(frozen=True)
class Judged:
    """``refused``: why it is not to be launched.  ``static_us``: by machine code; ``None`` with a ``reason`` where that is not known, or
    was not asked since its floor is too high."""

    registers: int = 0
    spill_bytes: int = 0
    shared_bytes: int = 0
    occupancy: int = 0
    compile_ms: float = 0.0
    refused: str = ""
    unit: str = ""
    floor_us: float | None = None
    static_us: float | None = None
    reason: str = ""


def job_of(k: PlannedKernel, target: Target) -> Job:
    """The job of a planned kernel: its text without the header, which says what the model thinks of it."""
    tiles = replace(k.tiles, kernel=replace(k.kernel, notes={}))
    source = emit_kernels(ModuleSpec(k.kernel.name, (), (), (), (tiles,)))
    from .estimates import work_of

    return Job(
        source, k.kernel.name, k.tiles.parameters, target, k.kernel.warps, k.kernel.stages, k.kernel.registers, k.tiles.contracts,
        work_of(k, 0, 0),
    )  # fmt: skip


def judged(job: Job, most: float = math.inf) -> Judged:
    """Compile a kernel, and read how long it takes off its machine code, unless its floors alone are above ``most`` microseconds."""
    from ..machine import disassemble, estimate
    from .aot import compile_kernel
    from .modules import load_module, unload_module

    module = load_module(job.source, "aot")
    try:
        r = compile_kernel(
            module, job.name, job.params, job.target, num_warps=job.warps, num_stages=job.stages, registers=job.registers,
            contract=job.contract,
        )  # fmt: skip
    except CompileError as error:
        return Judged(refused=f"the compiler refuses it: {error.message}")
    finally:
        unload_module(module)
    refused = "; ".join(said.partition(" (")[0] for said in r.exceeded)
    found = Judged(r.registers, r.spill_bytes, r.shared_bytes, r.occupancy, r.compile_ms, refused)
    if refused or not r.machine_code:
        return found if refused else replace(found, reason=f"machine code of {r.arch} is not read")
    try:
        least = estimate(disassemble(r.machine_code), replace(job.work, warps=r.warps, resident=r.occupancy), job.target, most)
    except CompileError as error:
        return replace(found, reason=error.message)
    unit, floor = least.floor
    return replace(found, unit=unit, floor_us=floor, static_us=least.us, reason=least.reason)


def remembered(job: Job, most: float = math.inf) -> Judged | None:
    """What is on disk of a job; ``None`` if that does not answer the question."""
    data = folder.read(job.key) if job.key else None
    found = _read(data["judged"]) if isinstance(data, dict) and "judged" in data else None
    if found is None or (found.static_us is None and found.floor_us is not None and found.reason == "" and found.floor_us < most):
        return None
    return found


def remember(job: Job, found: Judged) -> None:
    """Keep a judgement.  That a kernel was not simulated is kept as no reason, so that who allows more time asks again."""
    if job.key:
        later = found.static_us is None and found.reason.startswith("not simulated")
        kept = replace(found, reason="" if later else found.reason)
        of = {"program": job.name, "target": job.target.name}
        folder.write(job.key, {"of": of, "judged": asdict(kept)})


def _read(data: Any) -> Judged | None:
    kinds = {f.name: f.type for f in fields(Judged)}
    if not isinstance(data, dict) or data.keys() != kinds.keys():
        return None
    for name, kind in kinds.items():
        able: tuple[type, ...] = (str,) if kind == "str" else (int,) if kind == "int" else (int, float)
        if not (type(data[name]) in able or (data[name] is None and "None" in str(kind))):
            return None
    return Judged(**data)
