"""The sizes of a tile program under the roles of a kernel, which may have other tile sizes than the one that was lowered.

A program whose kernel has the same *shape* (:mod:`.tilings`) is the same program with other sizes, so counting asks here and never
its values and bindings.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..ir.index import Atom, Axis, FloorDiv, IndexExpr
from ..ir.strides import MOST_UNIT, SECTOR_BYTES, spread
from .kernel import Buffer, Role
from .program import Access, Binding, Bound, Dim, Edge, Load, Loop, Store, TileProgram, Value, edges_of, evaluated
from .reach import reach
from .sampled import Sampled, Tiles

VECTOR_BYTES = 16  # a full-width memory instruction
SAMPLES = 256  # tiles along an axis that an average is taken over


def run_dim(at: Access, buffer: Buffer) -> Dim | None:
    """The dim of a tile whose neighbouring lanes are neighbours in memory, if there is one."""
    if buffer.fastest is None:
        return None
    neighbours = [a for a, c in at.index[buffer.fastest].terms if c == 1]
    return next((d for d in at.dims if d.axes[-1] in neighbours), None)


def nearest(at: Access, buffer: Buffer) -> tuple[Atom | None, int]:
    """What moves along memory in the smallest steps, over all lanes and loops, and how many elements a step is."""
    steps: dict[Atom, int] = {}
    for expr, stride in zip(at.index, buffer.steps, strict=True):
        for atom, c in expr.terms:
            steps[atom] = steps.get(atom, 0) + c * stride
    moving = [a for a, s in steps.items() if s]
    if not moving:
        return None, 1
    atom = min(moving, key=lambda a: abs(steps[a]))
    return atom, abs(steps[atom])


def wide_axis(at: Access, buffer: Buffer) -> tuple[Axis, int] | None:
    """The axis whose neighbouring lanes are neighbours in memory, if there is one, and how many of them are surely aligned."""
    dim = run_dim(at, buffer)
    if dim is None or at.inside or buffer.fastest is None:
        return None
    axis = dim.axes[-1]
    expr = at.index[buffer.fastest]
    others = (c for atom, c in expr.terms if atom != axis)
    apart = [buffer.shape[buffer.fastest]] if buffer.strides is None else [s for _, s in buffer.memory[1:]]
    unit = math.gcd(MOST_UNIT, *apart, expr.const, buffer.unit, 0 if at.binding(axis).even else axis.size, *others)
    return (axis, unit) if unit > 1 else None


def wide_axes(program: TileProgram) -> Mapping[int, tuple[Axis, int] | None]:
    """:func:`wide_axis` of every access of a program, by the access's id."""
    accesses = (s.access for s in program.statements() if isinstance(s, Load | Store))
    return {id(at): wide_axis(at, program.kernel.buffers[at.buffer]) for at in accesses}


class Sizes:
    """Sizes of values, loops and memory instructions.  ``wide``: the :func:`wide_axes` of the program, which are the same under all
    roles, as ``sampled`` is."""

    def __init__(
        self,
        program: TileProgram,
        roles: Mapping[Axis, Role],
        wide: Mapping[int, tuple[Axis, int] | None],
        sampled: Sampled | None = None,
    ) -> None:
        self.roles = roles
        self.dims = {d.name: math.prod([roles[a].tile for a in d.axes]) for d in program.dims}  # dim name -> lanes
        self.dims |= {d.name: math.prod([roles[a].tile for a in d.axes]) // d.each for d in program.coarse}
        self._wide = wide
        self._elements: dict[str, int] = {}  # value name -> lanes
        self._taken: dict[tuple[int, tuple[object, ...]], float] = {}
        self._sampled = sampled or Sampled(program)

    def elements(self, v: Value) -> int:
        """Number of lanes, padding included."""
        n = self._elements.get(v.name)
        if n is None:
            n = self._elements[v.name] = math.prod([self.dims[d.name] for d in v.dims])
        return n

    def bytes(self, v: Value) -> int:
        """Bytes of a value."""
        return self.elements(v) * max(v.dtype.itemsize, 1)

    def steps(self, b: Binding) -> int:
        """Tiles of a binding's axis."""
        return -(-b.axis.size // self.roles[b.axis].tile)

    def taken(self, loop: Loop, along: Collection[str] = (), around: tuple[Loop, ...] = ()) -> float:
        """The share of its steps that a loop takes, on average over the tiles that its edges depend on and over the steps that the loops
        ``around`` take; of an access in it along some bindings, the share of its elements, of which the last tile of an axis may have
        fewer."""
        steps = self.steps(loop.binding)
        if not steps or not loop.bounds:
            return 1.0
        over = self._over(loop)
        around = tuple(x for x in around if x.bounds and not {*self._over(x), x.binding}.isdisjoint(over))
        over = list(dict.fromkeys((*over, *(b for x in around for b in self._over(x)))))
        if not all(map(self.steps, over)):
            return 1.0  # no program runs it
        ragged = frozenset(b.name for b in (*over, loop.binding) if b.name in along and b.axis.size % self.roles[b.axis].tile)
        key = id(loop), (ragged, *map(id, around))
        if key not in self._taken:
            self._taken[key] = self._share(loop, steps, over, ragged, around)
        return self._taken[key]

    def reached(self, loop: Loop, along: Collection[str]) -> float:
        """The share of what an access along some bindings may read that any step of a loop reads, on average, where data say how far it
        goes; what different programs read of it is taken to overlap if they begin at one place, and as little as it may if not."""
        over = self._over(loop)
        if not loop.edges or not self.steps(loop.binding) or not all(map(self.steps, over)):
            return 1.0
        others = tuple(k for k, b in enumerate(over) if b.name not in along)
        mine = [k for k in range(len(over)) if k not in others]
        tiles = self._tiles((loop,), over)
        _, taken = self._visits(loop, tiles)
        if loop.binding.name not in along:  # every step that there is reads the same
            return float(tiles.mean(np.max(taken > 0, axis=others, keepdims=True, initial=False), mine).item())
        apart = math.prod(self.steps(over[k]) for k in others) if loop.starts else 1
        most = tiles.mean(taken, others) * apart if loop.starts else taken.max(axis=others, keepdims=True, initial=0)
        return min(1.0, float(tiles.mean(np.minimum(most / self.steps(loop.binding), 1.0), mine).item()))

    def said_by(self, loop: Loop) -> tuple[list[str], bool]:
        """The buffers whose data say how far a loop goes, and whether there is an example of all of them."""
        bounds = (e.data for b in (*loop.starts, *loop.stops) for e in edges_of(b))
        data = [v for v in bounds if v is not None]
        names = [b for v in data for b in self._sampled.buffers(v)]
        return list(dict.fromkeys(names)), all(self._sampled.over(v) is not None for v in data)

    def clear(self, loop: Loop) -> float:
        """Of the steps that a loop takes, the share in its clear stretch, on average."""
        taken = self.taken(loop)
        if loop.clear is None or loop.part or not taken:
            return 0.0
        key = id(loop), ("clear",)
        if key not in self._taken:
            whole = replace(loop, part="whole")
            over = self._over(whole)
            usable = self.steps(loop.binding) and all(map(self.steps, over))
            self._taken[key] = self._share(whole, self.steps(loop.binding), over, ()) / taken if usable else 0.0
        return self._taken[key]

    def along(self, loop: Loop, b: Binding) -> np.ndarray | None:
        """The steps that a loop takes on average in each tile of a binding (or in a sample); ``None`` if they do not depend on it, but on
        data."""
        over = self._over(loop)
        if b not in _placed(loop) or not self.steps(loop.binding) or not all(map(self.steps, over)):
            return None
        tiles = self._tiles((loop,), over)
        _, taken = self._visits(loop, tiles)
        return tiles.mean(taken, [k for k, other in enumerate(over) if other != b]).reshape(-1)

    def _tiles(self, loops: Sequence[Loop], over: Sequence[Binding], apart: Collection[str] = ()) -> Tiles:
        """Tiles of the bindings that say which tiles some loops visit: each that an edge tells from others, and all of the bindings
        ``apart`` and of those whose positions edges are made of."""
        starts = {}
        for k, b in enumerate(over):
            n = self.steps(b)
            tiles = np.arange(n) if n <= SAMPLES else np.unique(np.linspace(0, n - 1, SAMPLES).astype(int))
            starts[b.name] = (tiles * self.roles[b.axis].tile).reshape([-1 if i == k else 1 for i in range(len(over))])
        values = tuple(dict.fromkeys(v for loop in loops for v in self._known(loop).edges))
        placed = (b.name for loop in loops for b in _placed(loop))
        return self._sampled.different(values, {a: r.tile for a, r in self.roles.items()}, starts, {*apart, *placed})

    def _visits(self, loop: Loop, tiles: Tiles) -> tuple[np.ndarray, np.ndarray]:
        """For tiles of the bindings that say which tiles a loop visits: the first tile that it visits, and how many."""
        sizes, at = {a: r.tile for a, r in self.roles.items()}, tiles.starts

        def edge(e: Edge) -> np.ndarray:
            data = 0 if e.data is None else self._sampled.number(e.data, sizes, at)
            return np.asarray(e.const + data + sum(c * (at[b.name] + (sizes[b.axis] - 1) * last) for b, c, last in e.terms))

        def position(b: Bound) -> np.ndarray:
            return evaluated(b, edge, np.minimum, np.maximum)

        mine, size = self.roles[loop.binding.axis].tile, np.asarray(loop.binding.axis.size)
        r = reach(self._known(loop), mine, size, position, np.minimum, np.maximum)
        taken, clear = np.maximum(-((r.first - r.end) // mine), 0), (r.clear_end - r.clear) // mine
        taken = clear if loop.part == "whole" else taken - clear
        return r.first, np.broadcast_to(taken, np.broadcast_shapes(taken.shape, *(p.shape for p in at.values())))

    def _over(self, loop: Loop) -> list[Binding]:
        """The bindings that say which tiles a loop visits."""
        found = _placed(loop)
        for v in loop.edges:
            found += self._sampled.over(v) or ()
        return list(dict.fromkeys(found))

    def _known(self, loop: Loop) -> Loop:
        """The loop with the bounds of which something is known: one that data say of which there is no sample is passed over, and
        nothing is surely clear beside it."""

        def kept(bounds: tuple[Bound, ...]) -> tuple[Bound, ...]:
            return tuple(b for b in bounds if all(e.data is None or self._sampled.over(e.data) is not None for e in edges_of(b)))

        clear = loop.clear
        if clear is not None and (kept(clear.starts) != clear.starts or kept(clear.stops) != clear.stops):
            clear = replace(clear, starts=(), stops=(Edge((), 0),))
        return replace(loop, starts=kept(loop.starts), stops=kept(loop.stops), clear=clear)

    def _share(self, loop: Loop, steps: int, over: list[Binding], ragged: Collection[str], around: tuple[Loop, ...] = ()) -> float:
        tiles = self._tiles((loop, *around), over, {*ragged, *(x.binding.name for x in around)})
        where = tiles.starts
        first, taken = self._visits(loop, tiles)
        mine, size = self.roles[loop.binding.axis].tile, loop.binding.axis.size
        visited = np.minimum(taken * mine, np.maximum(size - first, 0)) if loop.part != "whole" else taken * mine
        shares = visited / size if loop.binding.name in ragged else taken / steps
        weights = np.asarray(1)
        for t in tiles.times:
            weights = weights * t
        for b in over:
            if b.name in ragged:
                weights = weights * np.minimum(self.roles[b.axis].tile, b.axis.size - where[b.name])
        for x in around:
            begin, steps_around = self._visits(x, tiles)
            if x.binding.name in where:  # the step that it is at is one that it takes
                place = (where[x.binding.name] - begin) // self.roles[x.binding.axis].tile
                steps_around = (place >= 0) & (place < steps_around)
            weights = weights * steps_around
        if not np.any(weights):
            return 0.0
        return float(np.average(shares, weights=np.broadcast_to(weights, shares.shape)))

    def run(self, at: Access, buffer: Buffer) -> int:
        """Bytes that lie in one piece: neighbours along the last axis of the buffer, times those of the axis before it where they
        are all there, and so on; of neighbours with gaps, those that share a sector."""
        elements, itemsize = 1, buffer.dtype.itemsize
        atom, gap = nearest(at, buffer)
        if atom is not None and gap > 1:
            return max(1, min(self._values(atom), SECTOR_BYTES // (gap * itemsize))) * itemsize
        for position, stride in buffer.memory:
            length = buffer.shape[position]
            lanes = min(self._span(at.index[position]), length)
            if stride != elements:
                break
            elements *= max(lanes, 1)  # of nothing, what one would take
            if lanes < length:
                break
        return elements * itemsize

    def spread(self, at: Access, buffer: Buffer) -> float:
        """How many times as much memory moves for what an index reads as for the buffer's own neighbours: what it skips in a sector."""
        own = buffer.memory[0][1] if buffer.memory else 1
        return max(1.0, spread(nearest(at, buffer)[1], own, buffer.dtype.itemsize))

    def different(self, at: Access, buffer: Buffer, b: Binding) -> int:
        """How many positions of a binding are elements of their own: lanes along strides of 0 read the same one."""
        repeats = buffer.strides is not None and not any(b.axis in e.axes() for e, s in zip(at.index, buffer.strides, strict=True) if s)
        return self.steps(b) if repeats else b.axis.size

    def _span(self, expr: IndexExpr) -> int:
        """How many neighbouring positions an index takes in one tile: a term with coefficient 1 takes some, a term whose coefficient is
        just as many goes on where these end.  Backwards they are the same positions."""
        span, left = 1, dict(expr.terms)
        while (atom := next((a for a, c in left.items() if abs(c) == span), None)) is not None:
            del left[atom]
            span *= self._values(atom)
        return span

    def _values(self, atom: Atom) -> int:
        """How many values an atom takes in one tile."""
        if isinstance(atom, Axis):
            return min(self.roles[atom].tile, atom.size) if atom in self.roles else 1
        inside = self._span(atom.numerator)
        return -(-inside // atom.divisor) if isinstance(atom, FloorDiv) else min(inside, atom.divisor)

    def vector(self, at: Access, itemsize: int) -> int:
        """Bytes per memory instruction: the longest run of neighbouring lanes that are neighbours in memory and surely aligned."""
        wide = self._wide[id(at)]
        return itemsize if wide is None else min(VECTOR_BYTES, self.roles[wide[0]].tile * itemsize, wide[1] * itemsize)


def _placed(loop: Loop) -> list[Binding]:
    """The bindings whose positions say which tiles a loop visits."""
    return list(dict.fromkeys(b for bound in loop.bounds for e in edges_of(bound) for b, _, _ in e.terms))
