"""Plans that the compiler has seen: planned again until no kernel spills registers to memory.

The model counts registers, but how many a compiler needs it can only estimate.  So a plan is compiled ahead of time, and of a kernel that
spills the search may use fewer registers next time: a share of what the model allows, somewhat below the share that was too much.  That
corrects the model for kernels that store the same, and the search stays the same search.  Shares only fall, and after :data:`ATTEMPTS`
plans the one that spills least is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import PlanError
from ..extract.cost import register_share
from ..extract.plan import Plan, PlannedKernel
from ..extract.quantities import plural
from ..extract.targets import Target

if TYPE_CHECKING:
    from .aot import StaticReport

ATTEMPTS = 10  # plans that are compiled at most
LESS = 0.92  # of the share that was too much


def without_spills(
    first: Plan,
    target: Target,
    extracted: Callable[[Mapping[tuple[str, ...], float]], Plan],
    compiled: Callable[[Plan], Sequence[StaticReport]],
) -> Plan:
    """The first plan that compiles without spills, beginning with ``first``, each with fewer registers for what spilled; or else the one
    that spills least.

    ``extracted`` plans with the share of registers that kernels may take, by the buffers that they store.  ``plan.compiled`` says what
    spilled.  Raises :class:`~eqfuse.errors.CompileError` if a kernel does not compile.
    """
    shares: dict[tuple[str, ...], float] = {}
    tried: dict[str, None] = {}
    best: tuple[int, Plan, Sequence[StaticReport]] | None = None
    current = first
    for _ in range(ATTEMPTS):
        reports = compiled(current)
        spilled = sum(r.spill_bytes for r in reports)
        if best is None or spilled < best[0]:
            best = (spilled, current, reports)
        if not spilled:
            break
        generated = ([k for k in step if isinstance(k, PlannedKernel)] for step in current.launched)
        for launched, r in zip(filter(None, generated), reports, strict=True):
            for k in launched if r.spill_bytes else ():  # a compiler does not say which of them it is
                roles = " ".join(f"{a.name}={role}" for a, role in k.kernel.roles.items())
                tried[f"{k.kernel.name} with {roles} spills {r.spill_bytes} B per thread on {r.arch}"] = None
                shares[tuple(b.name for b in k.stores)] = LESS * register_share(k, target)
        try:
            current = extracted(dict(shares))
        except PlanError:  # nothing is small enough
            break
    assert best is not None
    spilled, found, reports = best
    if not reports:
        return found
    kernels = plural(len(found.kernels), "kernel")
    end = f"{spilled} B per thread of spills are left" if spilled else f"{kernels} without spills on {target.arch}"
    if found is not first:
        end += f": {found.estimated_us:.1f} us estimated, where the first plan has {first.estimated_us:.1f} us and spills"
    return replace(found, compiled=(*tried, end))
