"""The tile program in numpy, one grid program at a time: what the kernel does, without a compiler in between.

Masks, padding, identities, accumulators and loops are executed literally; outputs start as NaN, so that what is never stored shows.
In float64 the arithmetic is the mathematics and roundings are skipped unless asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ..ir import dtypes
from ..ir.index import Axis
from ..ir.monoids import MONOIDS
from ..ir.reference import round_to
from .launch_order import taken
from .operations import apply
from .program import (
    Access,
    Accumulator,
    Binding,
    Cast,
    Count,
    Dim,
    Dot,
    Edge,
    ExtentValue,
    Fill,
    IndexValue,
    IsFirst,
    Let,
    Literal,
    Load,
    Loop,
    Lost,
    Mean,
    Operand,
    Permute,
    Reduce,
    Scan,
    Statement,
    Store,
    TileProgram,
    Value,
    Where,
    evaluated,
)
from .reach import reach

_UNWRITTEN = 0x5EEDFEED5EEDFEED  # what stands in integer outputs that are never stored


def simulate(
    program: TileProgram, inputs: Mapping[str, np.ndarray], dtype: type = np.float64, *, rounding: bool = False
) -> dict[str, np.ndarray]:
    """Run a tile program.

    ``inputs`` maps buffer names to arrays of the buffers' shapes; the result maps the stored buffers to arrays of ``dtype``, those of
    integers to int64.
    ``rounding=True`` applies the casts to 16-bit types (of operands and stores); otherwise they are the identity.
    """
    return Simulation(program, inputs, dtype, rounding).run()


def products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a @ b`` in float32, every element summed in one order, as a device does.

    The library behind numpy's product takes another order at the edges of its blocks, and blocks depend on the processor: equal columns
    come out different, which decides exponentials of large numbers.
    """
    return np.einsum("...mk,...kn->...mn", a.astype(np.float32), b.astype(np.float32))


class Simulation:
    """One run of a tile program; what looks at how it goes is a subclass."""

    def __init__(self, program: TileProgram, inputs: Mapping[str, np.ndarray], dtype: type, rounding: bool) -> None:
        self.program, self.dtype, self.rounding = program, dtype, rounding
        self.buffers = program.kernel.buffers
        self.memory: dict[str, np.ndarray] = {}
        for name in program.loads():
            self.memory[name] = np.asarray(inputs[name]).reshape(self.buffers[name].shape)
        for name in program.stores():
            whole = self.buffers[name].dtype.kind == "int"
            self.memory[name] = np.full(self.buffers[name].shape, _UNWRITTEN if whole else np.nan, np.int64 if whole else dtype)
        self.start: dict[str, int] = {b.name: 0 for b in program.fixed}

    def run(self) -> dict[str, np.ndarray]:
        grid = self.program.grid
        tiles = taken(np.arange(self.program.tasks), [-(-b.axis.size // b.tile) for b in grid], self.program.kernel.grouped)
        with np.errstate(all="ignore"):
            for point in zip(*(t.tolist() for t in tiles), strict=True) if grid else [()]:
                self.start.update({b.name: b.tile * t for b, t in zip(grid, point, strict=True)})
                self.block(self.program.body, {})
        return {name: self.memory[name] for name in self.program.stores()}

    # -- positions -----------------------------------------------------------------------------------------------------------
    def position(self, b: Binding, dims: tuple[Dim, ...]) -> np.ndarray:
        """The positions of a binding's lanes, shaped to broadcast over ``dims``."""
        shape = [1] * len(dims)
        for i, d in enumerate(dims):
            if b.axis in d.axes:
                shape[i] = d.size
                lanes = np.arange(d.size) // d.stride(b.axis) % b.tile
                return (self.start[b.name] + lanes).reshape(shape)
        return np.full(shape, self.start[b.name])

    def valid(self, bindings: tuple[Binding, ...], dims: tuple[Dim, ...]) -> np.ndarray:
        mask = np.ones([1] * len(dims), bool)
        for b in bindings:
            mask = mask & (self.position(b, dims) < b.axis.size)
        return mask

    def address(self, at: Access, env: Mapping[str, np.ndarray]) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Index arrays for every buffer dimension (clamped into range) and the mask of lanes that really access memory."""
        shape = tuple(d.size for d in at.dims)
        where: dict[Axis, np.ndarray | int] = {b.axis: self.position(b, at.dims) for b in at.bindings}
        places = {a: self.operand(v, at.dims, env) for a, v in at.places.items()}
        where |= places
        picks = [np.asarray(e.evaluate(where)) for e in at.index]
        mask = self.valid(at.valid, at.dims)
        for a, p in places.items():
            mask = mask & (p >= 0) & (p < a.size)
        for i in at.inside:
            mask = mask & (picks[i.position] >= 0 if i.low else True) & (picks[i.position] < i.extent if i.high else True)
        full = np.broadcast_to(mask, shape)
        limits = self.buffers[at.buffer].shape
        out = tuple(np.broadcast_to(p, shape) for p in picks)
        for p, n in zip(out, limits, strict=True):
            if bool(np.any(full & ((p < 0) | (p >= n)))):
                raise IndexError(f"{self.program.name}: {at.buffer} is accessed out of bounds")
        return tuple(np.clip(p, 0, max(n - 1, 0)) for p, n in zip(out, limits, strict=True)), full

    # -- statements ----------------------------------------------------------------------------------------------------------
    def block(self, body: tuple[Statement, ...], env: dict[str, np.ndarray], inplace: Mapping[str, str] = MappingProxyType({})) -> None:
        """``inplace``: values that take the place of another one, by their names."""
        for s in body:
            if isinstance(s, Loop):
                self.loop(s, env)
            elif isinstance(s, Store):
                self.store(s, env)
            else:
                v = np.asarray(self.value(s, env))
                shape = [d.size for d in s.dst.dims]
                env[s.dst.name] = np.broadcast_to(self.typed(v, s.dst), shape)
                if s.dst.name in inplace:
                    env[inplace[s.dst.name]] = env[s.dst.name]

    def typed(self, v: np.ndarray, dst: Value) -> np.ndarray:
        kind = dst.dtype.kind
        if kind == "float":
            v = v.astype(self.dtype)
            return round_to(v, dst.dtype.name) if self.rounding and dst.dtype.itemsize == 2 else v
        return dtypes.cast(v, dst.dtype) if kind == "int" else v.astype(bool)

    def loop(self, s: Loop, env: dict[str, np.ndarray]) -> None:
        accumulators: tuple[Accumulator, ...] = s.accumulators
        for a in accumulators:
            kind = self.dtype if a.old.dtype.is_float else np.int64
            start: np.ndarray = np.full([d.size for d in a.old.dims], a.old.dtype.number(a.identity), kind)
            env[a.old.name] = start if a.start is None else env[a.start.name]
        b = s.binding
        for at in self.visits(s, env):
            self.start[b.name] = at
            inner = dict(env)
            self.block(s.body, inner, {a.new.name: a.old.name for a in accumulators if a.inplace})
            for a in accumulators:
                env[a.old.name] = inner[a.new.name]

    def visits(self, s: Loop, env: Mapping[str, np.ndarray]) -> list[int]:
        """The starts of the tiles that the loop visits."""

        def position(e: Edge) -> int:
            data = 0 if e.data is None else int(env[e.data.name])
            return e.const + data + sum(c * (self.start[b.name] + (b.tile - 1) * last) for b, c, last in e.terms)

        tile = s.binding.tile
        r = reach(s, tile, s.binding.axis.size, lambda b: evaluated(b, position, min, max))
        if s.part == "whole":
            return list(range(r.clear, r.clear_end, tile))
        return [t for t in range(r.first, r.end, tile) if not r.clear <= t < r.clear_end]

    def store(self, s: Store, env: dict[str, np.ndarray]) -> None:
        if any(self.start[b.name] for b in s.once):
            return
        picks, mask = self.address(s.access, env)
        v: np.ndarray = np.broadcast_to(self.operand(s.src, s.access.dims, env), mask.shape)
        dtype = self.buffers[s.access.buffer].dtype
        v = dtypes.cast(v, dtype) if dtype.kind == "int" else v.astype(self.dtype)
        if self.rounding and dtype.itemsize == 2:
            v = round_to(v, dtype.name)
        target = self.memory[s.access.buffer]
        if not picks:
            target[...] = v
        else:
            target[tuple(p[mask] for p in picks)] = v[mask]

    def operand(self, v: Operand, dims: tuple[Dim, ...], env: Mapping[str, np.ndarray]) -> np.ndarray:
        if isinstance(v, Literal):
            return np.asarray(v.value)
        x = env[v.name]
        for i, d in enumerate(v.dims):
            if d.each > 1 and d not in dims:  # a lane for several neighbours
                x = np.repeat(x, d.each, axis=i)
        axes = {d.axes for d in v.dims}
        return x.reshape([d.size if d.axes in axes else 1 for d in dims])

    def value(self, s: Statement, env: dict[str, np.ndarray]) -> Any:
        if isinstance(s, Load):
            picks, mask = self.address(s.access, env)
            data = self.memory[s.access.buffer]
            if data.size == 0:
                return np.zeros(mask.shape)
            return np.where(mask, data[picks] if picks else data, 0)
        if isinstance(s, Let):
            args = [self.operand(a, s.dst.dims, env) for a in s.args]
            if any(isinstance(a, Value) and a.dtype.is_float for a in s.args):  # numbers beside them have their type
                args = [x.astype(self.dtype) if isinstance(a, Literal) else x for a, x in zip(s.args, args, strict=True)]
            return apply(s.op, *args)
        if isinstance(s, Lost):
            new, kept, small = (self.operand(v, s.dst.dims, env) for v in (s.new, s.kept, s.small))
            off = (new - kept) - small
            return np.where(np.isfinite(off), off, 0.0)
        if isinstance(s, Where):
            return np.where(self.valid(s.bindings, s.src.dims), env[s.src.name], s.dst.dtype.number(s.fill))
        if isinstance(s, Reduce) and s.lanes:
            at, shape = s.src.dims.index(s.dim), [d.size for d in s.src.dims]
            apart = env[s.src.name].reshape([*shape[:at], s.lanes.size, s.lanes.each, *shape[at + 1 :]])
            return MONOIDS[s.monoid].reduce(apart, axis=at + 1)
        if isinstance(s, Reduce):
            dims = self.reduced_dims(s)
            return MONOIDS[s.monoid].reduce(*(self.operand(v, dims, env) for v in s.parts or (s.src,)), axis=dims.index(s.dim))
        if isinstance(s, Scan):
            prefixes = MONOIDS[s.monoid].prefixes
            assert prefixes is not None
            of = [self.operand(v, s.dst.dims, env) for v in s.parts or (s.src,)]
            return prefixes.numpy(*(v.astype(np.float64) for v in of) if s.wide else of, axis=s.dst.dims.index(s.dim))
        if isinstance(s, Dot):
            a, b = env[s.a.name], env[s.b.name]
            product = products(a, b) if self.dtype is np.float32 else a @ b
            return product if s.acc is None else product + self.operand(s.acc, s.dst.dims, env)
        if isinstance(s, Cast):
            return dtypes.cast(env[s.src.name], s.dst.dtype) if not s.dst.dtype.is_float else env[s.src.name]
        if isinstance(s, Permute):
            return env[s.src.name].transpose([s.src.dims.index(d) for d in s.dst.dims])
        if isinstance(s, Mean):
            return env[s.src.name] / max(self.seen(s.binding, s.which) if s.binding else s.axis.size, 1)
        if isinstance(s, Count):
            return self.seen(s.binding, s.which)
        if isinstance(s, IsFirst):
            return self.start[s.binding.name] == 0
        if isinstance(s, IndexValue):
            return s.expr.evaluate({b.axis: self.position(b, s.dst.dims) for b in s.bindings})
        if isinstance(s, ExtentValue):
            return s.axis.size
        assert isinstance(s, Fill)
        return s.value

    def reduced_dims(self, s: Reduce) -> tuple[Dim, ...]:
        """The dims of what is reduced: all that a part of it has."""
        dims = {d for v in s.parts for d in v.dims}
        return tuple(d for d in self.program.dims if d in dims) if s.parts else s.src.dims

    def seen(self, b: Binding, which: str) -> int:
        """Elements of the axis before this tile, up to its end, or in it."""
        start = self.start[b.name]
        stop = min(start + b.tile, b.axis.size)
        return {"old": start, "new": stop, "tile": stop - start}[which]
