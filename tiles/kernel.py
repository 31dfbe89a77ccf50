"""A kernel before lowering: concrete nodes and every decision about them.

Extraction makes these; lowering turns one into a tile program.  A node is *concrete*: it has one operation and points at other
nodes, never at an e-class, so one class may be represented in two ways in one kernel.

Nodes are of the language of :mod:`~eqfuse.ir.nodes`, ``op`` is the kind; access is resolved: there are loads, and no views.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..ir.dtypes import DType
from ..ir.index import Axis, IndexExpr
from ..ir.nodes import Operation


@dataclass(frozen=True)
class Node(Operation):
    """One operation.  ``args`` are positions in ``Kernel.nodes`` (smaller than this node's own).  ``axes`` are what *this*
    representative depends on.  ``rule`` is provenance only.  ``stored``: the program that the kernel comes from keeps this value in
    this type, so rounding to it loses nothing that the program has.  ``cls`` is the e-class that it represents, if it comes from one."""

    op: str
    attrs: tuple[Any, ...]
    args: tuple[int, ...]
    axes: frozenset[Axis]
    rule: str | None = None
    stored: DType | None = None
    cls: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Role:
    """What a kernel does with an axis.

    ``grid``: one program per tile.  ``stream``: a loop over tiles.  ``resident``: the whole axis is one tile (a power of two).
    """

    kind: Literal["grid", "stream", "resident"]
    tile: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.tile}"


@dataclass(frozen=True)
class Buffer:
    """A tensor in memory.  ``role``: ``input``, ``temporary`` (made by an earlier kernel) or ``output``."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    role: Literal["input", "temporary", "output"] = "input"

    @property
    def bytes(self) -> int:
        """Its size."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Root:
    """A value that the kernel stores: node, buffer, and the index expression of each buffer dimension (a plain axis or 0)."""

    node: int
    buffer: str
    index: tuple[IndexExpr, ...]


@dataclass(frozen=True)
class Kernel:
    """Everything that lowering needs.  ``order`` is the canonical order of tile dims (axes with tile > 1, packs by first axis);
    ``packs`` merge never-reduced grid axes into one tile dim; ``grid`` is the order of grid axes, slowest first.  ``persistent``: the
    most programs that are launched, each of which then takes several tiles of the grid in turn; 0 launches one program per tile.
    ``exact``: the nodes are computed as they are written, without the better conditioned forms of :mod:`.exponents`.
    ``stepwise``: every operation is rounded by itself, none contracted with another."""

    name: str
    nodes: tuple[Node, ...]
    roots: tuple[Root, ...]
    buffers: Mapping[str, Buffer]
    roles: Mapping[Axis, Role]
    order: tuple[Axis, ...]
    grid: tuple[Axis, ...]
    packs: tuple[tuple[Axis, ...], ...] = ()
    warps: int = 4
    stages: int = 2
    persistent: int = 0
    notes: Mapping[str, str] = field(default_factory=dict)  # header lines: equation, rules, bytes
    exact: bool = False
    stepwise: bool = False

    def __str__(self) -> str:
        from .printing import kernel_text

        return kernel_text(self)

    @property
    def contracts(self) -> bool:
        """A product and a sum may be one operation, rounded once."""
        return not (self.exact or self.stepwise)

    def tile(self, axis: Axis) -> int:
        """Tile size of an axis."""
        return self.roles[axis].tile

    def even(self, axis: Axis) -> bool:
        """The extent is a multiple of the tile: no masks are needed.  An empty axis has no programs and no steps, but if it is
        resident it has lanes, and none of them is valid."""
        role = self.roles[axis]
        return axis.size % role.tile == 0 and (axis.size > 0 or role.kind != "resident")
