"""The numbers of edges for samples of the data: how far loops go that end where data say.

The statements that compute an edge (:mod:`.data_edges`) are executed in numpy, for many tiles at a time.  An array has a dimension for each
binding (a position is a tile of it), then one for each dim of the value (a position is a lane).

A condition on two axes is computed for each pair of their tiles.  A convolution has a mask over rows, columns and two axes of its window,
but of the rows the first tile, the last one and those between: where every comparison comes out the same in two tiles, they are one.

    0 <= row + w - 1 < 224  and  0 <= col + v - 1 < 224      224 * 3 * 224 * 3 tiles -> 3 * 3 * 3 * 3
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..ir.index import Axis
from ..ir.monoids import MONOIDS
from .operations import apply
from .program import (
    Access,
    Binding,
    Cast,
    Dim,
    ExtentValue,
    Fill,
    IndexValue,
    Let,
    Literal,
    Load,
    Loop,
    Operand,
    Reduce,
    Statement,
    TileProgram,
    Value,
    Where,
    defines,
    uses,
)

LANES = 16  # of a dim that are looked at, where an edge is made of a tile of several dims


@dataclass(frozen=True)
class Tiles:
    """Tiles of several bindings: an array over them has a dimension for each.  ``starts``: by binding, the first positions; ``times``: how
    many tiles each of them stands for."""

    starts: Mapping[str, np.ndarray]
    times: tuple[np.ndarray, ...]

    def mean(self, x: np.ndarray, over: Collection[int], weights: np.ndarray | int = 1) -> np.ndarray:
        """The average along some dimensions, which stay with length 1."""
        for k in over:
            weights = weights * self.times[k]
        return np.asarray(np.average(x, tuple(over), np.broadcast_to(weights, x.shape), keepdims=True))


class Sampled:
    """Evaluates the edges of one tile program.  Results are kept by tile sizes: a search asks for the same ones again and again."""

    def __init__(self, program: TileProgram) -> None:
        self._program = program
        self._buffers = program.kernel.buffers
        self._over: dict[str, tuple[Binding, ...] | None] = {}
        self._runs: dict[tuple[object, ...], _Run] = {}
        self._tiles: dict[tuple[object, ...], Tiles] = {}

    @cached_property
    def _by(self) -> dict[str, Statement]:
        return {v.name: s for s in self._program.statements() for v in defines(s)}

    def over(self, v: Value) -> tuple[Binding, ...] | None:
        """The bindings on whose tiles a value depends; ``None`` if it depends on a buffer without a sample."""
        if v.name not in self._over:
            self._over[v.name] = self._found(v)
        return self._over[v.name]

    def _found(self, v: Value) -> tuple[Binding, ...] | None:
        s = self._by[v.name]
        mine: tuple[Binding, ...] = ()
        if isinstance(s, Load):
            if self._buffers[s.access.buffer].sample is None:
                return None
            mine = s.access.bindings
        elif isinstance(s, IndexValue | Where):
            mine = s.bindings
        elif not isinstance(s, Let | Cast | ExtentValue | Fill) and not (isinstance(s, Reduce) and not s.parts and s.lanes is None):
            return None
        several = [self.over(x) for x in uses(s)]
        if any(o is None for o in several):
            return None
        return tuple(dict.fromkeys((*mine, *(b for o in several for b in o or ()))))

    def buffers(self, v: Value) -> list[str]:
        """The buffers from which a value is computed."""
        s = self._by[v.name]
        mine = [s.access.buffer] if isinstance(s, Load) else []
        return list(dict.fromkeys([*mine, *(b for x in uses(s) for b in self.buffers(x))]))

    @cached_property
    def _behind(self) -> tuple[Value, ...]:
        """The values that the edges of the program are made of."""
        todo = [v for s in self._program.statements() if isinstance(s, Loop) for v in s.edges]
        seen: dict[str, Value] = {}
        while todo:
            v = todo.pop()
            if v.name not in seen:
                seen[v.name] = v
                todo += uses(self._by[v.name])
        return tuple(seen.values())

    @cached_property
    def _axes(self) -> tuple[Axis, ...]:
        """The axes whose tile sizes change an edge of the program."""
        found: set[Axis] = set()
        for v in self._behind:
            found |= {b.axis for b in self.over(v) or ()} | {a for d in v.dims for a in d.axes}
        return tuple(sorted(found))

    @cached_property
    def _most(self) -> int:
        """How many lanes of a dim are looked at, where their pairs would be too many."""
        return LANES if any(len(v.dims) > 1 for v in self._behind) else 1 << 30

    def _comparisons(self, v: Value) -> tuple[dict[str, Value], dict[str, Where], frozenset[str]]:
        """The truth values that a value is made of, the masks of padded lanes, and the bindings on which it depends otherwise."""
        s = self._by[v.name]
        if v.dtype.kind == "bool" and not (isinstance(s, Let) and any(x.dtype.kind == "bool" for x in uses(s))):
            return {v.name: v}, {}, frozenset()
        truths: dict[str, Value] = {}
        masks = {v.name: s} if isinstance(s, Where) else {}
        bindings = s.access.bindings if isinstance(s, Load) else s.bindings if isinstance(s, IndexValue) else ()
        otherwise = frozenset(b.name for b in bindings)
        for x in uses(s):
            more = self._comparisons(x)
            truths, masks, otherwise = truths | more[0], masks | more[1], otherwise | more[2]
        return truths, masks, otherwise

    def different(
        self, values: Sequence[Value], tiles: Mapping[Axis, int], starts: Mapping[str, np.ndarray], but: Collection[str]
    ) -> Tiles:
        """Of tiles, one for all those that some values do not tell apart; of the bindings ``but`` each tile."""
        key = self._key(tiles, starts), tuple(v.name for v in values), frozenset(but)
        if key not in self._tiles:
            self._tiles[key] = self._different(values, tiles, starts, but)
        return self._tiles[key]

    def _different(
        self, values: Sequence[Value], tiles: Mapping[Axis, int], starts: Mapping[str, np.ndarray], but: Collection[str]
    ) -> Tiles:
        several = [self._comparisons(v) for v in values]
        run = self._run(tiles, starts)
        apart = frozenset(but).union(*(otherwise for _, _, otherwise in several))
        truths = [run.value(v) for found in several for v in found[0].values()]
        truths += [run.exists(b, w.src.dims) for found in several for w in found[1].values() for b in w.bindings]
        left, times = {}, []
        for k, (name, at) in enumerate(starts.items()):
            answers: list[object] = list(range(at.size))
            if name not in apart:
                bits = [np.packbits(np.moveaxis(x, k, 0).reshape(at.size, -1).astype(bool), axis=1) for x in truths if x.shape[k] > 1]
                answers = [tuple(b[n].tobytes() for b in bits) for n in range(at.size)]
            count = Counter(answers)  # in the order of the first of each
            left[name] = np.take(at, [answers.index(x) for x in count], axis=k)
            times.append(np.reshape(list(count.values()), left[name].shape))
        return Tiles(left, tuple(times))

    def number(self, v: Value, tiles: Mapping[Axis, int], starts: Mapping[str, np.ndarray]) -> np.ndarray:
        """A scalar, for many tiles.  ``tiles``: the tile size of each axis; ``starts``: by binding, the first positions of the tiles, as an
        array with one dimension per binding."""
        return self._run(tiles, starts).value(v)

    def _key(self, tiles: Mapping[Axis, int], starts: Mapping[str, np.ndarray]) -> tuple[object, ...]:
        return tuple((name, at.tobytes()) for name, at in starts.items()), tuple(tiles[a] for a in self._axes)

    def _run(self, tiles: Mapping[Axis, int], starts: Mapping[str, np.ndarray]) -> _Run:
        key = self._key(tiles, starts)
        if key not in self._runs:
            self._runs[key] = _Run(self._by, self._buffers, tiles, starts, self._most)
        return self._runs[key]


class _Run:
    """One evaluation: the values that are known for some tile sizes."""

    def __init__(
        self, by: Mapping[str, Any], buffers: Mapping[str, Any], tiles: Mapping[Axis, int], starts: Mapping[str, np.ndarray], most: int
    ) -> None:
        self.by, self.buffers, self.tiles, self.most = by, buffers, tiles, most
        self.starts = starts
        self.rank = max((s.ndim for s in starts.values()), default=0)
        self.known: dict[str, np.ndarray] = {}

    def value(self, v: Value) -> np.ndarray:
        if v.name not in self.known:
            found = self.made(self.by[v.name], v.dims)
            self.known[v.name] = found.reshape((1,) * (self.rank + len(v.dims) - found.ndim) + found.shape)
        return self.known[v.name]

    def operand(self, x: Operand, dims: Sequence[Dim]) -> np.ndarray:
        """The elements of an operand, shaped to broadcast over ``dims``."""
        if isinstance(x, Literal):
            return np.asarray(int(x.value))
        found = self.value(x)
        shape = iter(found.shape[self.rank :])
        return found.reshape(found.shape[: self.rank] + tuple(next(shape) if d in x.dims else 1 for d in dims))

    def lanes(self, d: Dim) -> np.ndarray:
        """The lanes of a dim that are looked at: the first and the last one, and as many between them as there may be."""
        n = int(np.prod([self.tiles[a] for a in d.axes]))
        return np.arange(n) if n <= self.most else np.linspace(0, n - 1, self.most).astype(int)

    def position(self, b: Binding, dims: Sequence[Dim]) -> np.ndarray:
        start = self.starts.get(b.name, np.zeros((1,) * self.rank, np.int64))
        at = start.reshape(start.shape + (1,) * len(dims))
        for k, d in enumerate(dims):
            if b.axis in d.axes:
                stride = int(np.prod([self.tiles[a] for a in d.axes[d.axes.index(b.axis) + 1 :]]))
                lanes = self.lanes(d) // stride % self.tiles[b.axis]
                at = at + lanes.reshape([-1 if i == k else 1 for i in range(len(dims))])
        return at

    def exists(self, b: Binding, dims: Sequence[Dim]) -> np.ndarray:
        """Which positions of a binding there are."""
        return self.position(b, dims) < b.axis.size

    def load(self, at: Access, dims: Sequence[Dim]) -> np.ndarray:
        buffer = self.buffers[at.buffer]
        numbers = buffer.sample.numbers(buffer.shape)
        where: dict[Axis, Any] = {b.axis: self.position(b, dims) for b in at.bindings}
        where |= {a: self.operand(v, dims) for a, v in at.places.items()}
        picks = [np.clip(e.evaluate(where), 0, max(n - 1, 0)) for e, n in zip(at.index, buffer.shape, strict=True)]
        return np.asarray(numbers[tuple(picks)] if picks else numbers)

    def made(self, s: Any, dims: Sequence[Dim]) -> np.ndarray:
        if isinstance(s, Load):
            return self.load(s.access, dims)
        if isinstance(s, IndexValue):
            return np.asarray(s.expr.evaluate({b.axis: self.position(b, dims) for b in s.bindings}))
        if isinstance(s, Let):
            return np.asarray(apply(s.op, *(self.operand(a, dims) for a in s.args)))
        if isinstance(s, Cast):
            return self.value(s.src)
        if isinstance(s, Where):
            ok = np.ones((), bool)
            for b in s.bindings:
                ok = ok & self.exists(b, dims)
            return np.where(ok, self.operand(s.src, dims), s.dst.dtype.number(s.fill))
        if isinstance(s, Reduce):
            x = self.operand(s.src, s.src.dims)
            at = self.rank + s.src.dims.index(s.dim)
            x = np.broadcast_to(x, (*x.shape[:at], len(self.lanes(s.dim)), *x.shape[at + 1 :]))
            return np.asarray(MONOIDS[s.monoid].reduce(x, axis=at))
        if isinstance(s, ExtentValue):
            return np.asarray(s.axis.size)
        return np.asarray(s.value)
