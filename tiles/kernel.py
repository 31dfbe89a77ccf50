"""A kernel before lowering: concrete nodes and every decision about them.

Extraction makes these; lowering turns one into a tile program.  A node is *concrete*: it has one operation and points at other
nodes, never at an e-class, so one class may be represented in two ways in one kernel.

Nodes are of the language of :mod:`~eqfuse.ir.nodes`, ``op`` is the kind; access is resolved: there are loads, and no views.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from ..ir.dtypes import DType
from ..ir.index import Axis, IndexExpr, index
from ..ir.nodes import Operation
from ..ir.program import Program
from ..ir.samples import Sample
from ..ir.strides import Strides, contiguous_strides, footprint, nearest_first


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
    """A tensor in memory.  ``role``: ``input``, ``temporary`` (made by an earlier kernel) or ``output``.  ``narrow``: the type that torch
    would give the value, which is kept in a wider one because the narrow one may not hold it.  ``result``: of a value that is none of the
    program's, such as a part of one, the widest type that results have.  ``unit``: where it is part of a longer row, how many elements
    surely divide where its own rows start; 0 for as many as they have.  ``strides``: those that are planned for, in elements; ``None`` for
    no gaps.  ``sample``: what integers it is planned for."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    role: Literal["input", "temporary", "output"] = "input"
    narrow: DType | None = None
    unit: int = 0
    strides: Strides | None = None
    result: DType | None = None
    sample: Sample | None = None

    @property
    def bytes(self) -> int:
        """Its size; of one that repeats its elements, that of these."""
        return footprint(self.shape, self.strides, self.dtype.itemsize)[0]

    @property
    def steps(self) -> Strides:
        """Its strides, in elements."""
        return contiguous_strides(self.shape) if self.strides is None else self.strides

    @cached_property
    def memory(self) -> list[tuple[int, int]]:
        """Its dimensions from neighbour to neighbour first, with their strides, without those that change nothing."""
        return nearest_first(self.shape, self.strides)

    @property
    def fastest(self) -> int | None:
        """The dimension along which neighbours are neighbours in memory, if there is one: none of a column that is part of longer rows."""
        found = self.memory[0][0] if self.memory and self.memory[0][1] == 1 else None
        return None if self.unit and found != len(self.shape) - 1 else found

    def moved(self, loaded: int) -> int:
        """Bytes that memory moves for so many that are loaded of it, each once: whole sectors."""
        size, sectors = footprint(self.shape, self.strides, self.dtype.itemsize)
        once = min(size, loaded)
        return once if sectors <= size else round(once * sectors / size)


def input_buffers(program: Program) -> dict[str, Buffer]:
    """The tensors that a program is given."""
    return {
        i.name: Buffer(
            i.name,
            program.kept(i),
            i.shape,
            narrow=i.dtype if i in program.widened else None,
            strides=program.strides.get(i.name),
            sample=program.samples.get(i.name),
        )
        for i in program.inputs
    }


@dataclass(frozen=True)
class Root:
    """A value that the kernel stores: node, buffer, and the index expression of each buffer dimension (a plain axis or 0)."""

    node: int
    buffer: str
    index: tuple[IndexExpr, ...]


@dataclass(frozen=True)
class Kernel:
    """Everything that lowering needs.  ``order`` is the canonical order of tile dims (axes with tile > 1, packs by first axis);
    ``packs`` merge never-reduced grid axes into one tile dim; ``grid`` is the order of grid axes, slowest first; ``grouped``: how many
    tiles along the last but one of them programs take before they go on along the last (:mod:`.launch_order`).  ``persistent``: the most
    programs that are launched, each of which then takes several tiles of the grid in turn; 0 launches one program per tile.
    ``descriptors``: operands of products are loaded as blocks by tensor descriptors, where that can be (:mod:`.finish.descriptors`).
    ``registers``: how many a thread may take; 0 leaves it to the compiler, which would rather spill than let fewer programs run at a time.
    ``splits``: axes that are taken in parts, each with the axes of its parts (how many there are, and what is in one, of which the last may
    have less).  ``exact``: the nodes are computed as they are written.
    ``stepwise``: every operation is rounded by itself, none contracted with another.  ``lanes``: loops keep a state for each few
    neighbours, where they can (:mod:`.lanes`).  ``narrow_products``: how many matrix products in 16 bits take no longer than one in
    float32; 1 where operands are multiplied in the type that they are declared in (:mod:`.dots`)."""

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
    grouped: int = 0
    persistent: int = 0
    descriptors: bool = False
    registers: int = 0
    splits: tuple[tuple[Axis, Axis, Axis], ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)  # header lines: equation, rules, bytes
    exact: bool = False
    stepwise: bool = False
    lanes: bool = False
    narrow_products: int = 1

    def __str__(self) -> str:
        return kernel_text(self)

    @property
    def contracts(self) -> bool:
        """A product and a sum may be one operation, rounded once."""
        return not (self.exact or self.stepwise)

    def tile(self, axis: Axis) -> int:
        """Tile size of an axis."""
        return self.roles[axis].tile

    def whole(self, e: IndexExpr) -> Axis | None:
        """The axis at whose positions an index expression reads: one by itself, or one that is taken in parts."""
        return e.as_axis() or next((a for a, outer, inner in self.splits if e == index(outer) * inner.size + index(inner)), None)

    def even(self, axis: Axis) -> bool:
        """The extent is a multiple of the tile: no masks are needed.  An empty axis has no programs and no steps, but if it is
        resident it has lanes, and none of them is valid.  How many parts an axis is taken in, a call says."""
        role = self.roles[axis]
        if any(axis == outer for _, outer, _ in self.splits):
            return role.tile == 1
        return axis.size % role.tile == 0 and (axis.size > 0 or role.kind != "resident")


# text: for people and for tests, not for a compiler --------------------------------------------------------------------------------------
def kernel_text(kernel: Kernel) -> str:
    """The whole kernel: what it does with its axes, its buffers, its nodes in order, and what it stores.

    A node names its number, the axes that it depends on, its op with attributes and arguments, and the rule that made it.
    """
    launch = f"{kernel.warps} warps, {kernel.stages} stages" + (f", {kernel.persistent} persistent programs" if kernel.persistent else "")
    launch += f", {kernel.registers} registers" if kernel.registers else ""
    launch += ", tensor descriptors" if kernel.descriptors else ""
    flags = ", exact" if kernel.exact else ", stepwise" if kernel.stepwise else ""
    flags += ", states by lanes" if kernel.lanes else ""
    roles = [f"  {a.name} of {a.size}: {r}" for a, r in kernel.roles.items()]
    roles += [f"  {a.name} of {a.size}: in parts {outer.name}, {inner.name}" for a, outer, inner in kernel.splits]
    groups = f" in groups of {kernel.grouped} along {kernel.grid[-2].name}" if kernel.grouped > 1 else ""
    lists = [f"grid {_names(kernel.grid)}{groups}; dims {_names(kernel.order)}", *(f"packed {_names(p)}" for p in kernel.packs)]
    buffers = [f"  {b.role} {buffer_text(b)}" for b in kernel.buffers.values()]
    nodes = [f"  {node_text(i, n)}" + (f"  # {n.rule}" if n.rule else "") for i, n in enumerate(kernel.nodes)]
    return "\n".join(
        [f"{kernel.name}: {launch}{flags}", *roles, f"  {'; '.join(lists)}", *buffers, *nodes, *(f"  {root_text(r)}" for r in kernel.roots)]
    )


def buffer_text(b: Buffer) -> str:
    """A tensor in memory: ``w: fp16[512, 64] at strides (1, 512)``."""
    return f"{b.name}: {b.dtype.short}[{', '.join(map(str, b.shape))}]" + (f" at strides {b.strides}" if b.strides else "")


def node_text(position: int, n: Node) -> str:
    """One node of a kernel: ``%3[i, k] = mul(%1, %2)``."""
    args = ", ".join(f"%{a}" for a in n.args)
    attrs = " ".join(map(_attribute, n.attrs))
    if n.op == "load":
        places = ", ".join(f"{a.name} = %{x}" for a, x in zip(n.attrs[2], n.args, strict=False))
        right = f"{n.attrs[0]}[{', '.join(map(str, n.attrs[1]))}]" + (f" at {places}" if places else "")
    elif n.op == "map":
        right = f"{attrs}({args})"
    else:
        right = " ".join(w for w in (n.op, attrs, f"({args})" if args else "") if w)
    return f"%{position}[{_names(sorted(n.axes))}] = {right}"


def root_text(r: Root) -> str:
    """What a kernel stores: ``out[i, 0] = %7``."""
    return f"{r.buffer}[{', '.join(map(str, r.index))}] = %{r.node}"


def _names(axes: Iterable[Axis]) -> str:
    return ", ".join(a.name for a in axes)


def _attribute(x: object) -> str:
    return x.name if isinstance(x, Axis | DType) else str(x) if isinstance(x, IndexExpr | str) else repr(x)
