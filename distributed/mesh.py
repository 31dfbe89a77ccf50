"""Meshes of devices, where values are on them, and what it takes to move one.

A *place* says for each dimension of the mesh what its devices have of a value: all of it (``REPLICATED``), an addend of it (``PARTIAL``),
or an equal part of one of its axes (the :class:`~eqfuse.ir.index.Axis`).  These are DTensor's placements, with an axis by its name and not
by its number.  An axis is shared out over one dimension of the mesh at most.

Bytes are those that a device sends in a ring, which is what no algorithm on equal links beats for large tensors (Patarasuk and Yuan,
"Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009): of n devices and B bytes of the whole value,
(n-1)/n B for an all-gather or reduce-scatter, twice that for an all-reduce, (n-1)/n^2 B for an all-to-all.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..errors import OptionError, expect, shown
from ..extract.targets import Target
from ..ir.index import Axis

REPLICATED = "replicated"
PARTIAL = "partial"

Place = tuple[Axis | str, ...]  # for each dimension of the mesh


@dataclass(frozen=True)
class Mesh:
    """The dimensions of a mesh: their names and how many devices each has."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, mesh: Any) -> Mesh:
        """From ``4``, ``{"dp": 2, "tp": 4}``, or torch's ``DeviceMesh``."""
        if isinstance(mesh, Mesh):
            return mesh
        if isinstance(mesh, Mapping):
            names, sizes = tuple(map(str, mesh)), tuple(mesh.values())
        elif hasattr(mesh, "mesh_dim_names"):
            sizes = tuple(mesh.shape)
            names = tuple(mesh.mesh_dim_names or (f"mesh{k}" for k in range(len(sizes))))
        else:
            names, sizes = ("mesh0",), (mesh,)
        good = bool(sizes) and all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in sizes)
        expect(good, "mesh", mesh, "a number of devices, {'dp': 2, 'tp': 4}, or a DeviceMesh")
        return cls(names, sizes)

    @property
    def devices(self) -> int:
        """How many there are."""
        return math.prod(self.sizes)

    @property
    def everywhere(self) -> Place:
        """The place of what every device has."""
        return (REPLICATED,) * len(self.sizes)

    def coordinates(self) -> Iterator[tuple[int, ...]]:
        """Of each device, in the order of their numbers."""
        return (tuple(k // math.prod(self.sizes[d + 1 :]) % n for d, n in enumerate(self.sizes)) for k in range(self.devices))

    def parts(self, place: Place, axis: Axis) -> int:
        """The number of parts that an axis is shared out in."""
        return math.prod(n for n, p in zip(self.sizes, place, strict=True) if p == axis)

    def fits(self, d: int, axis: Axis) -> bool:
        """Whether devices along a dimension can have equal parts of an axis, none of them empty."""
        return axis.size > 0 and axis.size % self.sizes[d] == 0

    def places(self, axes: Collection[Axis], partial: bool = False) -> list[Place]:
        """Where a value of these axes may be."""
        found: list[Place] = [()]
        for d in range(len(self.sizes)):
            here: list[Axis | str] = [REPLICATED, *(a for a in sorted(axes) if self.fits(d, a)), *([PARTIAL] if partial else [])]
            found = [(*p, h) for p in found for h in here if not isinstance(h, Axis) or h not in p]
        return found

    def share(self, place: Place) -> float:
        """The part of the elements of a value that one device has."""
        return 1.0 / math.prod(n for n, p in zip(self.sizes, place, strict=True) if isinstance(p, Axis))

    def text(self, place: Place) -> str:
        """``tp: rows``; with one dimension, ``rows``."""
        parts = [p.name if isinstance(p, Axis) else p for p in place]
        return parts[0] if len(parts) == 1 else ", ".join(f"{n}: {p}" for n, p in zip(self.names, parts, strict=True))

    def __str__(self) -> str:
        return " x ".join(f"{name}={n}" for name, n in zip(self.names, self.sizes, strict=True))


@dataclass(frozen=True)
class Move:
    """From one place to another that differs along one dimension of the mesh: how it is called, bytes that each device sends, time: what a
    collective takes at least, and what it moves over the links or in memory, whichever takes longer."""

    kind: str
    bytes: int
    us: float


@lru_cache(maxsize=4096)  # values of one shape have the same
def paths(
    mesh: Mesh, target: Target, place: Place, choices: tuple[Place, ...], whole_bytes: int
) -> dict[Place, tuple[tuple[Place, Move], ...]]:
    """The quickest ways from a place to each of some others, in steps along one dimension of the mesh each (Dijkstra)."""
    best: dict[Place, float] = {place: 0.0}
    found: dict[Place, tuple[tuple[Place, Move], ...]] = {place: ()}
    todo = set(best)
    while todo:
        here = min(todo, key=lambda p: (best[p], _order(p)))
        todo.remove(here)
        for other in choices:
            along = [d for d, (p, q) in enumerate(zip(here, other, strict=True)) if p != q]
            step = move(mesh, target, here, other, along[0], whole_bytes) if len(along) == 1 else None
            if step is not None and best[here] + step.us < best.get(other, math.inf):
                best[other], found[other] = best[here] + step.us, (*found[here], (other, step))
                todo.add(other)
    del found[place]
    return found


def _order(place: Place) -> str:
    """A text by which places that are equally far are ordered."""
    return repr(place)


def move(mesh: Mesh, target: Target, place: Place, other: Place, d: int, whole_bytes: int) -> Move | None:
    """One step along a dimension of the mesh; ``None`` where there is none: nothing becomes partial again."""
    n, before, after = mesh.sizes[d], place[d], other[d]
    rest = _beside(mesh, place, d, whole_bytes)
    if after == PARTIAL:
        return None
    held = sum(rest / n if isinstance(p, Axis) else rest for p in (before, after))  # what it reads and writes in its own memory
    own_us = target.launch_us + held / (target.dram_gb_s * 1e3)
    if before == REPLICATED:
        return Move("slice", 0, own_us)
    if before == PARTIAL:
        kind, share = ("all-reduce", 2 * (n - 1) / n) if after == REPLICATED else ("reduce-scatter", (n - 1) / n)
    else:
        kind, share = ("all-gather", (n - 1) / n) if after == REPLICATED else ("all-to-all", (n - 1) / n**2)
    sent = math.ceil(rest * share)
    return Move(kind, sent, (target.link_us if n > 1 else 0.0) + max(own_us, sent / (target.link_gb_s * 1e3)))


def _beside(mesh: Mesh, place: Place, d: int, whole_bytes: int) -> float:
    """The bytes of a value that the devices along one dimension of the mesh have together."""
    return whole_bytes * mesh.share(tuple(REPLICATED if k == d else p for k, p in enumerate(place)))


def place_of(placements: Sequence[Any], layout: Sequence[Axis | None], mesh: Mesh, name: str) -> Place:
    """The place that DTensor's placements mean for a tensor whose dimensions are these axes.

    Raises :class:`~eqfuse.errors.OptionError` for what is no such place: a dimension of length 1 or of uneven parts that is sharded, one
    that two dimensions of the mesh shard, reductions other than sums that are still to be made.
    """
    good = isinstance(placements, list | tuple) and len(placements) == len(mesh.sizes)
    expect(good, f"the placements of {name}", placements, f"{len(mesh.sizes)}, for the mesh {mesh}")
    found: list[Axis | str] = []
    for d, p in enumerate(placements):
        kind = type(p).__name__
        if kind == "Replicate":
            found.append(REPLICATED)
        elif kind == "Partial" and str(getattr(p, "reduce_op", None) or getattr(p, "op", "sum")) == "sum":
            found.append(PARTIAL)
        elif kind == "Shard" and -len(layout) <= p.dim < len(layout):
            axis = layout[p.dim]
            if axis is None or not mesh.fits(d, axis) or axis in found:
                size = 1 if axis is None else axis.size
                reason = f"sharded twice in {tuple(placements)}" if axis in found else f"{size} long, for {mesh.sizes[d]} devices"
                raise OptionError(
                    f"dimension {p.dim % len(layout)} of {name} is {reason}",
                    cure="a dimension that devices share equally, over one dimension of the mesh; or redistribute it to Replicate()",
                )
            found.append(axis)
        else:
            raise OptionError(
                f"a placement of {name} is {shown(p)}", cure="Replicate(), Shard(dim) of a dimension that it has, or Partial('sum')"
            )
    return tuple(found)
