"""Making a world that refutes a rule small: fewer elements along every axis, then rounder numbers, as long as it refutes the rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..patterns import View
from ..relations import Row
from ..world import World
from .variables import Plan

TRIES = 300
FEW = 8  # numbers of one value that are made rounder


def compact(plan: Plan, world: World, fails: Callable[[World], bool]) -> World:
    """The smallest world found that still fails."""
    tries = TRIES
    bound = any(isinstance(f, Row) and f.relation.given for f in plan.rule.needs) or any(isinstance(n, View) for n in plan.nodes())
    named = {world.values[a.name] for a in plan.axes}
    for step in (_shorter, _rounder):
        changed = True
        while changed and tries > 0:
            changed = False
            for smaller in step(world, named if bound else set()):
                tries -= 1
                if fails(smaller):
                    world, changed = smaller, True
                    break
                if tries <= 0:
                    break
    return world


def _shorter(world: World, kept: set[int]) -> Iterator[World]:
    """The world with a part of one axis: a single position, or one half."""
    for k, n in enumerate(world.extents):
        if n < 2 or k in kept:
            continue
        singles = [slice(p, p + 1) for p in range(min(n, 20))]
        for part in (slice(0, (n + 1) // 2), slice(n // 2, n), *singles) if n > 2 else singles:
            extents = tuple(part.stop - part.start if i == k else m for i, m in enumerate(world.extents))
            yield replace(world, extents=extents, values={name: _cut(v, k, n, part) for name, v in world.values.items()})


def _cut(value: Any, k: int, n: int, part: slice) -> Any:
    if not isinstance(value, np.ndarray) or value.ndim <= k or value.shape[k] != n:
        return value
    return value[(slice(None),) * k + (part,)]


def _rounder(world: World, kept: set[int]) -> Iterator[World]:
    """The world with one number replaced by a simpler one."""
    for name, value in world.values.items():
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or value.size > FEW:
            continue
        for at in np.ndindex(value.shape):
            x = float(value[at])
            simpler = [v for v in (0.0, 1.0, -1.0, float(np.rint(x)) if np.isfinite(x) else x) if _plain(v) < _plain(x)]
            for v in simpler:
                other = value.copy()
                other[at] = v
                yield replace(world, values={**world.values, name: other})


def _plain(x: float) -> int:
    """How much there is to read in a number."""
    return -1 if x == 0 else len(f"{x:.17g}")
