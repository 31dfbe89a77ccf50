"""Plans that the compiler has seen: planned again until no kernel spills registers to memory.

The model counts registers, but how many a compiler needs it can only estimate.  So a plan is compiled ahead of time, and of a kernel that
spills the search may use fewer registers next time: a share of what the model allows, somewhat below the share that was too much.  That
corrects the model for kernels that store the same, and the search stays the same search.  Shares only fall, and after :data:`ATTEMPTS`
plans the one that spills least is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import PlanError
from ..extract.cost import register_share
from ..extract.quantities import plural

if TYPE_CHECKING:
    from .aot import StaticReport
    from .compiled import Compiled

ATTEMPTS = 10  # plans that are compiled at most
LESS = 0.92  # of the share that was too much


def without_spills(first: Compiled, extracted: Callable[[Mapping[tuple[str, ...], float]], Compiled]) -> Compiled:
    """The first plan that compiles without spills, beginning with ``first``, each with fewer registers for what spilled; or else the one
    that spills least.

    ``extracted`` plans with the share of registers that kernels may take, by the buffers that they store.  ``plan.compiled`` says what
    spilled.  Raises :class:`~eqfuse.errors.CompileError` if a kernel does not compile.
    """
    shares: dict[tuple[str, ...], float] = {}
    tried: dict[str, None] = {}
    best: tuple[int, Compiled, list[StaticReport]] | None = None
    current = first
    for _ in range(ATTEMPTS):
        reports = current.compile()
        spilled = sum(r.spill_bytes for r in reports)
        if best is None or spilled < best[0]:
            best = (spilled, current, reports)
        if not spilled:
            break
        for k, r in zip(current.plan.kernels, reports, strict=True):
            if r.spill_bytes:
                roles = " ".join(f"{a.name}={role}" for a, role in k.kernel.roles.items())
                tried[f"{k.kernel.name} with {roles} spills {r.spill_bytes} B per thread on {r.arch}"] = None
                shares[tuple(b.name for b in k.stores)] = LESS * register_share(k, current.target)
        try:
            current = extracted(dict(shares))
        except PlanError:  # nothing is small enough
            break
    assert best is not None
    spilled, found, reports = best
    if reports:
        kernels = plural(len(reports), "kernel")
        end = f"{spilled} B per thread of spills are left" if spilled else f"{kernels} without spills on {found.target.arch}"
        if found is not first:
            end += f": {found.plan.estimated_us:.1f} us estimated, where the first plan has {first.plan.estimated_us:.1f} us and spills"
        found.plan = replace(found.plan, compiled=(*tried, end))
    return found
