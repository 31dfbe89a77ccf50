"""Placements of torch's DTensor, as data, and layouts over a mesh of devices.

A mesh is a list of iters: ``{"dp": 2, "tp": 4}`` has an axis for each dimension, ``[(2, 4, "gpu"), (4, 1, "gpu")]`` one axis of
device numbers.  As in DTensor, a dimension of the tensor that several mesh dimensions shard is split by the first of them first; what
is local is row-major on ``m``.  ``Partial`` says that devices hold addends: the places are those of a replica, what is there is not,
so it is kept beside the layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ...errors import LayoutError
from ...errors import shown as shown_value
from .iters import MEMORY, Iter, Iters, elements, read, read_shape, strides, whole
from .layout import Layout


@dataclass(frozen=True)
class Shard:
    """The tensor's dimension ``dim`` is split over this dimension of the mesh."""

    dim: int


@dataclass(frozen=True)
class Replicate:
    """Every device along this dimension of the mesh has a copy."""


@dataclass(frozen=True)
class Partial:
    """Every device along this dimension of the mesh has a part of a reduction that is still to be made."""

    op: str = "sum"


Placement = Shard | Replicate | Partial


@dataclass(frozen=True)
class Sharding:
    """A tensor's shape, a mesh, and a placement for each dimension of the mesh (torch's own are read as well)."""

    shape: tuple[int, ...]
    mesh: Iters
    placements: tuple[Placement, ...]

    def __post_init__(self) -> None:
        mesh = [(n, 1, name) for name, n in self.mesh.items()] if isinstance(self.mesh, Mapping) else self.mesh
        object.__setattr__(self, "shape", read_shape(self.shape))
        object.__setattr__(self, "mesh", read(mesh, "the dimensions of the mesh"))
        given = elements(self.placements, "the placements", "one for each dimension of the mesh")
        object.__setattr__(self, "placements", tuple(_read(p, len(self.shape)) for p in given))
        if len(self.placements) != len(self.mesh):
            raise LayoutError(
                f"{len(self.placements)} placements for a mesh of {len(self.mesh)} dimensions",
                cure="one for each dimension of the mesh",
            )
        if any(it.axis == MEMORY for it in self.mesh):
            raise LayoutError(f"the mesh is on the axis {MEMORY}, which is the memory of a device", cure="another name, such as 'gpu'")

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape of what one device has."""
        local = list(self.shape)
        for it, p in zip(self.mesh, self.placements, strict=True):
            if isinstance(p, Shard):
                if local[p.dim] % it.extent:
                    raise LayoutError(
                        f"mesh dimension {it} does not divide {local[p.dim]}, what is left of dimension {p.dim} of {self.shape}",
                        cure="sizes that devices share equally: a layout has no ragged shards",
                    )
                local[p.dim] //= it.extent
        return tuple(local)

    @property
    def layout(self) -> Layout:
        """Where each element is: the device axes, and ``m`` in the memory of the device."""
        local = self.local_shape
        pairs = list(zip(self.mesh, self.placements, strict=True))
        out: list[Iter] = []
        for dim, (n, step) in enumerate(zip(local, strides(local), strict=True)):
            out += [it for it, p in pairs if p == Shard(dim)]
            out.append(Iter(n, step))
        return Layout(tuple(out), tuple(it for it, p in pairs if not isinstance(p, Shard)))

    @property
    def partial(self) -> dict[int, str]:
        """Dimension of the mesh -> the reduction that is still to be made along it."""
        return {k: p.op for k, p in enumerate(self.placements) if isinstance(p, Partial)}

    @staticmethod
    def of(layout: Layout, shape: Sequence[int], mesh: Any, partial: Mapping[int, str] | None = None) -> Sharding:
        """The sharding whose layout is equivalent to this one; LayoutError if no placements are.  Each placement of each mesh
        dimension is tried."""
        pending = partial or {}
        choices: list[list[Placement]] = [
            [Partial(pending[k])] if k in pending else [Replicate(), *map(Shard, range(len(shape)))] for k in range(len(mesh))
        ]
        wanted = layout.canonicalize()
        for placements in product(*choices):
            found = Sharding(tuple(shape), mesh, placements)
            try:
                if found.layout.canonicalize() == wanted:
                    return found
            except LayoutError:
                continue  # ragged
        raise LayoutError(
            f"{layout} is no placement of a row-major tensor {tuple(shape)} on the mesh {mesh!r}",
            cure="a layout that shards whole dimensions in the order of the mesh",
        )


def _read(placement: Any, rank: int) -> Placement:
    """A placement from one, or from torch's object of that name."""
    kind = type(placement).__name__
    if kind not in ("Shard", "Replicate", "Partial"):
        raise LayoutError(f"{shown_value(placement)} is no placement", cure="Shard(dim), Replicate() or Partial(op)")
    if kind == "Replicate":
        return Replicate()
    if kind == "Partial":
        return Partial(getattr(placement, "op", None) or placement.reduce_op)
    dim = whole(placement.dim, "the dimension of a Shard")
    if not -rank <= dim < rank:
        raise LayoutError(f"Shard({dim}) of a tensor of {rank} dimensions", cure="a dimension that it has")
    return Shard(dim % rank)
