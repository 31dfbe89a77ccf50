"""Kernels by the clock of the machine at hand: each by itself, on random tensors, turn by turn in one run.

A kernel that reads where its data say is left out: random numbers are no places, and ones that were would all lie in the cache.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ..codegen.c.host import C
from ..codegen.module import emit_module
from ..codegen.sizes import ModuleSpec
from ..errors import CompileError, EqFuseError
from ..extract.plan import PlannedKernel
from ..extract.targets import Target
from ..tiles.kernel import Buffer
from .compilers import workers_for
from .measuring import interleaved, sampler

if TYPE_CHECKING:
    import torch

SECONDS = 0.4  # for each kernel
ROUNDS = (3, 50)
FAR = 2.0  # what takes so many times as long as the best in its first call is not called again
LONG = 10.0  # seconds that the first calls take together: then these are enough
MOST_MEMORY = 0.25  # of what the machine has, for the tensors of one kernel


def why_not(k: PlannedKernel, target: Target) -> str:
    """What keeps a kernel from being timed here; empty if nothing."""
    if any(n.op == "load" and n.args for n in k.kernel.nodes):
        return "it reads where its data say"
    needed = sum(b.bytes for b in k.kernel.buffers.values())
    if target.on_cpu:
        from .native import compiler

        if not compiler():
            return "there is no C compiler"
        most = MOST_MEMORY * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else math.inf
    else:
        import torch

        here = torch.cuda.get_device_properties(torch.cuda.current_device()) if torch.cuda.is_available() else None
        arch = here and (getattr(here, "gcnArchName", "").partition(":")[0] or f"sm_{here.major}{here.minor}")
        if here is None or arch != target.arch:
            return f"no {target.arch} is at hand"
        most = MOST_MEMORY * here.total_memory
    return f"its tensors take {needed:,} bytes" if needed > most else ""


def device_name(target: Target) -> str:
    """The machine whose clock it is."""
    if target.on_cpu:
        return f"{target.measured or target.name} {platform.node()}"
    import torch

    return str(torch.cuda.get_device_name())


def measured(kernels: Sequence[PlannedKernel], target: Target) -> list[float | str]:
    """Microseconds of each kernel, which make the same tensors; or why it does not run."""
    given = _tensors(kernels[0], target)
    clock = sampler(target.device, min(target.sm_count, 2))
    calls: dict[int, Callable[[], object]] = {}
    found: list[float | str] = []
    with ThreadPoolExecutor(workers_for(len(kernels))) as threads:
        made = [threads.submit(_call, k, target, given) for k in kernels]
    for at, call in enumerate(made):
        try:
            calls[at] = call.result()
            found.append(clock(calls[at], 1))
        except (EqFuseError, RuntimeError) as error:  # of the compiler, of Triton, of the driver
            calls.pop(at, None)
            found.append(str(error).partition("\n")[0] or type(error).__name__)
    once = {at: us for at, us in enumerate(found) if not isinstance(us, str)}
    near = {str(at): calls[at] for at, us in once.items() if us <= FAR * min(once.values())}
    if len(near) > 1 and sum(once.values()) < LONG:
        times = interleaved(near, sample=clock, seconds=SECONDS * len(near), rounds=ROUNDS)
        for name, samples in times.items():
            found[int(name)] = samples.median
    return [said if isinstance(said, str) else 1e6 * said for said in found]


def _call(k: PlannedKernel, target: Target, given: dict[str, torch.Tensor]) -> Callable[[], object]:
    """A call of the kernel alone."""
    kernel = k.kernel
    loaded = tuple(b for name, b in kernel.buffers.items() if name in k.loads)
    source = emit_module(ModuleSpec(kernel.name, loaded, k.stores, (), (k.tiles,), language=C if target.on_cpu else None))
    module: Any
    if target.on_cpu:
        from .native import load

        module = load(source)
    else:
        from .modules import load_module

        module = load_module(source, "run")
    arguments = [given[b.name] for b in loaded]
    if not arguments:
        raise CompileError("it reads nothing")
    return lambda: module.run(*arguments)


def _tensors(k: PlannedKernel, target: Target) -> dict[str, torch.Tensor]:
    """Something for every tensor that a kernel loads: positive numbers below 1, of which logarithms and roots may be taken, and ones."""
    import torch

    def one(b: Buffer) -> torch.Tensor:
        dtype = getattr(torch, b.dtype.name)
        extent = 1 + sum((n - 1) * step for n, step in zip(b.shape, b.steps, strict=True)) if all(b.shape) else 0
        numbers = torch.rand(extent, generator=torch.Generator().manual_seed(0)) + 0.01
        made = (numbers if dtype.is_floating_point else torch.ones(extent)).to(dtype)
        return made.to(target.device).as_strided(b.shape, b.steps)

    return {name: one(b) for name, b in k.kernel.buffers.items() if name in k.loads}
