"""Kernels near another one: what a compiler may make more of, and a model of tile programs cannot tell apart.

The nodes stay, and so does the kind of every role; warps, stages and one tile size change by a factor of two, or one stage.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..errors import PlanError
from ..ir.index import Axis
from ..tiles.finish import finish
from ..tiles.kernel import Kernel, Role
from ..tiles.lower import lower
from ..tiles.walk import Counts, walk
from .cost import MAX_THREADS, WARPS_OF_PRODUCTS, Fit, fit, launched_with, may_compile, price
from .plan import PlannedKernel
from .targets import Target

WARPS = (1, 2, 4, 8, 16)
MOST_STAGES = 5


def variants(planned: PlannedKernel, target: Target) -> tuple[PlannedKernel, ...]:
    """The kernels near one, the cheapest by the model first, and of equal ones those with other warps and stages before other tiles."""
    most = math.inf if target.on_cpu else target.shared_bytes_per_block
    near = [k for k in _near(planned.kernel, target) if k is not None and k.cost.shared_bytes <= most]
    return tuple(sorted(near, key=lambda k: k.cost.us))


def again(kernel: Kernel, target: Target) -> PlannedKernel:
    """A kernel as a step of a plan, with its own warps and stages, whatever fits.  Raises PlanError where it is none."""
    return _priced(kernel, walk(lower(kernel)), target, kernel.warps, kernel.stages)


def with_launch(planned: PlannedKernel, target: Target, warps: int, stages: int) -> PlannedKernel:
    """A kernel without a product as a member of a launch: with the warps of that, and its own stages or none."""
    counts, cost, k = walk(planned.tiles), planned.cost, planned.kernel
    own = replace(fit(counts, target), stages=k.stages, shared_bytes=cost.shared_bytes, register_bytes=cost.register_bytes)
    kernel = replace(k, warps=warps, stages=stages)
    cost = price(kernel, counts, of_launch(counts, own, warps, stages), target)
    return replace(planned, kernel=kernel, tiles=replace(planned.tiles, kernel=kernel), cost=cost)


def of_launch(counts: Counts, fitted: Fit, warps: int, stages: int) -> Fit:
    """How a kernel without a product fits as a member of a launch."""
    assert not counts.dots
    assert stages in (1, fitted.stages)
    return replace(fitted, warps=warps, stages=stages, shared_bytes=fitted.shared_bytes if stages > 1 else 0)


def _near(kernel: Kernel, target: Target) -> Iterator[PlannedKernel | None]:
    if not target.on_cpu:
        counts = walk(lower(kernel))
        able = WARPS_OF_PRODUCTS if counts.dots else WARPS
        for warps in (kernel.warps * 2, kernel.warps // 2):
            if warps in able and warps * target.warp_size <= MAX_THREADS:
                yield _priced(kernel, counts, target, warps, kernel.stages)
        for stages in (kernel.stages + 1, kernel.stages - 1) if counts.trips else ():
            if 1 <= stages <= MOST_STAGES:
                yield _priced(kernel, counts, target, kernel.warps, stages)
    for axis, role in kernel.roles.items():
        for tile in (role.tile * 2, role.tile // 2):
            if role.kind != "resident" and role.tile > 1 and 1 < tile < 2 * axis.size:
                yield _tiled(kernel, {**kernel.roles, axis: Role(role.kind, tile)}, target)


def _tiled(kernel: Kernel, roles: Mapping[Axis, Role], target: Target) -> PlannedKernel | None:
    """The kernel with other tiles, and the warps and stages that fit these; ``None`` if it is none."""
    other = replace(kernel, roles=roles)
    try:
        counts = walk(lower(other))
    except PlanError:
        return None
    fitted = fit(counts, target)
    if fitted.reason and not may_compile(fitted, target):
        return None
    return _priced(other, counts, target, fitted.warps, fitted.stages, fitted)


def _priced(kernel: Kernel, counts: Counts, target: Target, warps: int, stages: int, fitted: Fit | None = None) -> PlannedKernel:
    """The kernel with some warps and stages.  What the model says of few programs at a time (``persistent``) stays as it is."""
    footprint = launched_with(counts, fitted or fit(counts, target), warps, stages, target)
    kernel = replace(kernel, warps=warps, stages=stages)
    rules = tuple(dict.fromkeys(n.rule for n in kernel.nodes if n.rule))
    passes = {a.name: n for a, n in counts.passes.items()}
    return PlannedKernel(kernel, finish(lower(kernel)), price(kernel, counts, footprint, target), rules, passes)
