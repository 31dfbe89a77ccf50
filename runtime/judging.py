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

SOURCES, OTHERS = ("machine", "runtime", "codegen"), ("triton",)  # what a judgement is made by, beside what is in the job


@dataclass(frozen=True)
class Job:
    """One kernel to be compiled: its text, and the kernel that this is of."""

    source: str
    planned: PlannedKernel
    target: Target

    @property
    def key(self) -> str | None:
        """The name of its judgement on disk: all that the compiler, the gate and the estimate are told.  ``None`` where nothing is kept."""
        from .estimates import work_of

        versions = made_by(SOURCES, OTHERS)
        if versions is None or folder.directory() is None:
            return None
        k = self.planned.kernel
        told = (self.planned.tiles.parameters, self.target, k.warps, k.stages, k.registers, k.contracts, work_of(self.planned, 0, 0))
        return hashlib.sha256("\0".join(("judged", versions, self.source, k.name, *map(repr, told))).encode()).hexdigest()


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
    bare = replace(k.kernel, notes={})
    k = replace(k, kernel=bare, tiles=replace(k.tiles, kernel=bare), refined=None)
    return Job(emit_kernels(ModuleSpec(bare.name, (), (), (), (k.tiles,))), k, target)


def judged(job: Job, most: float = math.inf) -> Judged:
    """Compile a kernel, and read how long it takes off its machine code, unless its floors alone are above ``most`` microseconds."""
    from .accesses import memory_accesses
    from .aot import compile_kernel
    from .estimates import kernel_estimate
    from .levels import levels
    from .modules import load_module, unload_module

    k, target, params = job.planned.kernel, job.target, job.planned.tiles.parameters
    module = load_module(job.source, "aot")
    try:
        r = compile_kernel(
            module, k.name, params, target, num_warps=k.warps, num_stages=k.stages, registers=k.registers,
            contract=job.planned.tiles.contracts,
        )  # fmt: skip
    except CompileError as error:
        return Judged(refused=f"the compiler refuses it: {error.message}")
    finally:
        unload_module(module)
    refused = "; ".join(said.partition(" (")[0] for said in r.exceeded)
    found = Judged(r.registers, r.spill_bytes, r.shared_bytes, r.occupancy, r.compile_ms, refused)
    if refused:
        return found
    pointers = {p.name: k.buffers[p.buffer] for p in params if p.kind == "pointer" and p.buffer}
    accesses = memory_accesses((job.planned.tiles,), job.source, r.assembly, target.warp_size)
    known = kernel_estimate(r, [job.planned], target, levels(r, target, pointers, accesses), most)
    if known.static is None:
        return replace(found, reason=known.reason)
    unit, floor = known.static.floor
    return replace(found, unit=unit, floor_us=floor, static_us=known.static.us, reason=known.static.reason)


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
        of = {"program": job.planned.kernel.name, "target": job.target.name}
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
