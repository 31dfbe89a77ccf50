"""A program across devices, as data: what each device computes, and what moves in between."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..extract.quantities import bytes_text, plural
from ..ir.dtypes import DType
from ..ir.index import Axis
from ..ir.layout import Iter, Partial, Replicate, Shard, Sharding
from ..ir.program import Program
from .choice import Chosen
from .mesh import PARTIAL, Mesh, Move, Place


@dataclass(frozen=True)
class Spread:
    """A tensor over devices: its dimensions, element type and place."""

    name: str
    layout: tuple[Axis | None, ...]
    dtype: DType
    place: Place

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole tensor."""
        return tuple(1 if a is None else a.size for a in self.layout)

    @property
    def dims(self) -> tuple[int | str, ...]:
        """The place by numbers of dimensions, as DTensor has it."""
        return tuple(self.layout.index(p) if isinstance(p, Axis) else p for p in self.place)

    def sharding(self, mesh: Mesh) -> Sharding:
        """The same as placements on a mesh; its ``layout`` says where each element is."""
        placements = (Shard(d) if isinstance(d, int) else Partial() if d == PARTIAL else Replicate() for d in self.dims)
        return Sharding(self.shape, tuple(Iter(n, 1, name) for name, n in zip(mesh.names, mesh.sizes, strict=True)), tuple(placements))

    def text(self, mesh: Mesh) -> str:
        """Name, axes and place."""
        return f"{self.name}[{', '.join('1' if a is None else a.name for a in self.layout)}] {mesh.text(self.place)}"


@dataclass(frozen=True)
class Position:
    """An input of a local program: where the part of an axis begins that a device has, along one dimension of the mesh."""

    axis: Axis
    dimension: int


@dataclass(frozen=True)
class Local:
    """A program that every device runs on what it has."""

    program: Program
    reads: tuple[str, ...]  # tensors, in the order of the program's inputs
    makes: tuple[str, ...]  # in the order of its outputs
    positions: tuple[Position, ...]  # the last inputs of the program


@dataclass(frozen=True)
class Moved:
    """A tensor at another place: by steps, each along one dimension of the mesh."""

    source: str
    makes: str
    steps: tuple[tuple[Place, Move], ...]

    @property
    def bytes(self) -> int:
        """What each device sends."""
        return sum(step.bytes for _, step in self.steps)

    @property
    def us(self) -> float:
        """Modelled time."""
        return sum(step.us for _, step in self.steps)


@dataclass(frozen=True)
class Placed:
    """Steps in order.  ``outputs``: the tensor of each output of the program."""

    program: Program
    mesh: Mesh
    tensors: Mapping[str, Spread]
    steps: tuple[Local | Moved, ...]
    outputs: Mapping[str, str]
    chosen: Chosen
    apart_us: float = 0.0  # what local programs take because they are several: what they store for each other, and launches

    @property
    def stored_bytes(self) -> int:
        """What one device stores in a local program for a later one, where it does not move in between; once for each that reads it."""
        made = {n for s in self.locals for n in s.makes}
        read = [n for s in self.locals for n in s.reads if n in made]
        found = (self.tensors[n] for n in read)
        return round(sum(math.prod(t.shape) * t.dtype.itemsize * self.mesh.share(t.place) for t in found))

    @property
    def proved(self) -> bool:
        """Whether no choice takes less, but for what local programs are apart, which the search does not see."""
        return self.chosen.us <= self.chosen.bound * (1 + 1e-6)

    @property
    def moves(self) -> tuple[Moved, ...]:
        """What moves, also where that sends nothing."""
        return tuple(s for s in self.steps if isinstance(s, Moved))

    @property
    def locals(self) -> tuple[Local, ...]:
        """What devices compute."""
        return tuple(s for s in self.steps if isinstance(s, Local))

    @property
    def bytes(self) -> int:
        """What each device sends."""
        return sum(m.bytes for m in self.moves)

    @property
    def us(self) -> float:
        """Modelled: a bound on computing, the time of collectives, and what local programs store for each other."""
        return self.chosen.us + self.apart_us

    def __str__(self) -> str:
        lines = [f"{self.program.name} on {self.mesh}: {bytes_text(self.bytes)} sent by each device, {self.us:.1f} us modelled"]
        lines += [f"  given    {self.tensors[i.name].text(self.mesh)}" for i in self.program.inputs if i.name in self.tensors]
        for s in self.steps:
            if isinstance(s, Local):
                lines.append(f"  compute  {', '.join(self.tensors[n].text(self.mesh) for n in s.makes)}")
            else:
                kinds = ", ".join(step.kind for _, step in s.steps)
                lines.append(f"  {kinds}  {s.source} -> {self.tensors[s.makes].text(self.mesh)}: {bytes_text(s.bytes)}, {s.us:.1f} us")
        sending = [m for m in self.moves if m.bytes]
        lines.append(f"  {plural(len(sending), 'collective')}, {plural(len(self.locals), 'local program')}")
        return "\n".join(lines)
