"""Kernels that differ in their tile sizes and in the order of their dims alone: what need not be found out again for each of them.

The facts about nodes are the same for all.  And a tile size decides few questions of lowering: whether an axis has lanes at all,
whether the last tile is padded, whether one tile is the whole axis; and of a loop, whether its steps are long enough for the matrix unit
and for states in lanes.  Two
kernels of one order that answer these alike, have one *shape*: their tile programs differ in sizes only, and counting takes the
sizes from the roles (:class:`.walk.Counter`).  A search prices hundreds of tilings of a dozen shapes.
"""

from __future__ import annotations

from typing import Any

from ..errors import PlanError
from ..ir.index import Axis
from .analysis import Facts
from .dots import MIN_DOT_K
from .kernel import Kernel, Role
from .lanes import LEAST_TILE
from .lower import lowered
from .program import TileProgram
from .walk import Counter, Counts


def shape(kernel: Kernel) -> tuple[Any, ...]:
    """What lowering asks of the tile sizes and the order of a kernel."""
    return kernel.order, kernel.packs, kernel.lanes, tuple(_answers(kernel, a, r) for a, r in kernel.roles.items())


def _answers(kernel: Kernel, axis: Axis, role: Role) -> tuple[Any, ...]:
    if role.kind == "resident":
        return axis, role.kind, role.tile
    if role.kind == "grid":  # no loop goes along it, and no product contracts it
        return axis, role.kind, role.tile > 1, role.tile >= axis.size, kernel.even(axis)
    lanes = kernel.lanes and role.tile >= LEAST_TILE
    return axis, role.kind, role.tile > 1, role.tile >= MIN_DOT_K, lanes, role.tile >= axis.size, kernel.even(axis)


class Tilings:
    """The tilings of one kernel, each shape lowered once.  All kernels given must have its nodes, roots, buffers and kinds of roles."""

    def __init__(self) -> None:
        self._facts: dict[bool, Facts] = {}
        self._programs: dict[tuple[Any, ...], TileProgram | PlanError] = {}
        self._counters: dict[tuple[Any, ...], Counter] = {}

    def program(self, kernel: Kernel) -> TileProgram:
        """The tile program of the kernel or of one of its shape, whose sizes may be other ones.  Raises PlanError as ``lower`` does."""
        return self._lowered(kernel, shape(kernel))

    def counts(self, kernel: Kernel) -> Counts:
        """What the kernel does.  Raises PlanError as ``lower`` does."""
        key = shape(kernel)
        if key not in self._counters:
            self._counters[key] = Counter(self._lowered(kernel, key))
        return self._counters[key].at(kernel.roles)

    def _lowered(self, kernel: Kernel, key: tuple[Any, ...]) -> TileProgram:
        if key not in self._programs:
            try:
                self._programs[key] = lowered(kernel, facts=lambda split: self._known(kernel, split))
            except PlanError as illegal:
                self._programs[key] = illegal
        found = self._programs[key]
        if isinstance(found, PlanError):
            raise found.with_traceback(None)
        return found

    def _known(self, kernel: Kernel, split: bool) -> Facts:
        if split not in self._facts:
            self._facts[split] = Facts(kernel, split)
        return self._facts[split]
