"""States of loops for each few neighbours, merged once after the loop.

A loop that reduces a long row keeps, for instance, its largest element so far and a sum that is taken relative to it.  Reduced over its
whole tile in every step, each is one number, for which all threads of a program wait for each other in every step.  Kept for each few
neighbours of the tile, as many as a thread loads with one instruction, no thread waits for another before the loop is over:

    for j: m <- max(m, max_j x);  s <- s * f(m_old, m_new) + sum_j e(x, m_new)

                                                                          m, s: for each 8 neighbours of a tile
    for j: m <- max(m, max_8 x);  s <- s * f(m_old, m_new) + sum_8 e(x, m_new)
    M = max_lanes m;  S = sum_lanes s * f(m, M)

Every lane has then seen a part of the row, and what merges parts is what a step does: it takes a state from one reference to another, and
combines it with a tile by the monoid.  So the merge is made of the step: with the lane's reference for the old one, the merged reference
for the new one, and nothing for the tile.  Steps for which that is not so keep one state: those that use how many elements or steps were
seen (a mean), whose tile is not simply combined with the state, or whose running values leave the loop by another way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..ir.monoids import MONOIDS
from .names import Names
from .operations import apply
from .program import (
    Accumulator,
    Cast,
    Dim,
    Fill,
    Let,
    Literal,
    Load,
    Loop,
    Lost,
    Operand,
    Reduce,
    Statement,
    TileProgram,
    Value,
    Where,
    defines,
    uses,
    walk_statements,
)
from .sizes import VECTOR_BYTES, wide_axis

PROBES = 3  # of a merge
LEAST_TILE = 64  # of a loop whose states are kept so: shorter ones are a vector for each of a few threads

Body = tuple[Statement, ...]


class _OneState(Exception):
    """The states of a loop are not kept by lanes."""


def by_lanes(program: TileProgram) -> TileProgram:
    """The program whose innermost loops keep their states by lanes, where they can."""
    names = Names(program.kernel)
    for s in program.statements():
        for v in defines(s):
            names.take(v.name)
    made = _Program(program, names)
    body = made.block(program.body)
    return replace(program, body=body, coarse=tuple(made.coarse.values())) if made.coarse else program


@dataclass
class _Program:
    program: TileProgram
    names: Names
    coarse: dict[str, Dim] = field(default_factory=dict)

    def block(self, body: Body) -> Body:
        """A block with its loops changed, each with what merges its lanes behind it."""
        found: list[Statement] = []
        gone: set[str] = set()
        for i, s in enumerate(body):
            if isinstance(s, Loop) and not s.innermost:
                found.append(replace(s, body=self.block(s.body)))
            elif isinstance(s, Loop):
                try:
                    loop, after, replaced = self.loop(s, body[i + 1 :])
                    found += [loop, *after]
                    gone |= replaced
                except _OneState:
                    found.append(s)
            elif not any(v.name in gone for v in defines(s)):
                found.append(s)
        return tuple(found)

    def loop(self, s: Loop, rest: Body) -> tuple[Loop, list[Statement], set[str]]:
        """The loop by lanes, the statements that merge them, and the values of ``rest`` that these make in its place."""
        dim, lanes = self.dims(s)
        states = {a.old.name: a for a in s.accumulators}
        reduced = {name: self.reduced(a, dim, rest) for name, a in states.items() if dim in a.old.dims}
        by_lane = set(reduced)
        while True:
            changed = _Changed(dim, lanes, self.program.dims, by_lane, s)
            more = {a.old.name for a in s.accumulators if lanes in changed.now[a.new.name].dims} - by_lane
            if not more:
                break
            by_lane |= more
        if not by_lane:
            raise _OneState
        kept = {name: replace(changed.now[name], name=self.names.fresh(f"{name}_by_lane")) for name in by_lane if name not in reduced}
        body = tuple(_renamed(t, kept) for t in changed.body)
        accumulators = tuple(
            replace(a, old=kept.get(a.old.name, changed.now[a.old.name]), new=changed.now[a.new.name]) for a in s.accumulators
        )
        loop = replace(s, body=body, accumulators=accumulators)
        merge = _Merge(loop, {a.old.name: b for a, b in zip(s.accumulators, accumulators, strict=True)}, lanes, self)
        read = {v.name for t in walk_statements(rest) for v in uses(t)}
        for name in states:
            if name in by_lane and name in read:
                merge.merged(name, reduced.get(name, states[name].old))
        if not merge.alone():
            raise _OneState
        self.coarse[lanes.name] = lanes
        return loop, merge.statements, {v.name for v in reduced.values()}

    def dims(self, s: Loop) -> tuple[Dim, Dim]:
        """The dim of a loop's tiles, whose neighbours are neighbours in memory, and that of as many neighbours each as a vector has.  More,
        or neighbours that threads load one by one, would be of several threads."""
        buffers = self.program.kernel.buffers
        dim = next((d for d in self.program.dims if d.axes == (s.binding.axis,)), None)
        if dim is None or dim.size < LEAST_TILE or any(a.start is not None for a in s.accumulators):
            raise _OneState
        each = 0
        for at in (t.access for t in s.body if isinstance(t, Load) and dim in t.access.dims):
            axis, unit = wide_axis(at, buffers[at.buffer]) or (None, 1)
            vector = VECTOR_BYTES // max(buffers[at.buffer].dtype.itemsize, 1) if axis == s.binding.axis else 1
            each = math.gcd(each, vector, unit)
        tile = dim.size // max(each, 1)
        if each < 2 or tile * each != dim.size:
            raise _OneState
        return dim, Dim(f"{dim.name}_by_{each}", dim.axes, (tile,), tile, each)

    def reduced(self, a: Accumulator, dim: Dim, rest: Body) -> Value:
        """The value that a loop's state for each position is reduced to after it, if nothing else reads the state."""
        readers = [t for t in walk_statements(rest) if a.old in uses(t)]
        if len(readers) == 1 and readers[0] in rest and isinstance(t := readers[0], Reduce) and t.dim == dim and t.monoid == a.monoid:
            return t.dst
        raise _OneState


class _Changed:
    """The body of a loop with some states by lanes: ``body``, and its values by their names, ``now``."""

    def __init__(self, dim: Dim, lanes: Dim, order: tuple[Dim, ...], by_lane: set[str], s: Loop) -> None:
        self.dim, self.lanes = dim, lanes
        self.order = tuple(x for d in order for x in ((d, lanes) if d == dim else (d,)))
        self.now: dict[str, Value] = {}
        self.running: set[str] = set()  # values of one lane, and those made of them
        self.body: list[Statement] = []
        for a in s.accumulators:
            self.now[a.old.name] = a.old
            if a.old.name in by_lane:
                self._give(a.old, {lanes, *a.old.dims} - {dim})
        steps = {a.new.name: a for a in s.accumulators if dim in a.old.dims}
        for t in s.body:
            self._statement(t, steps)

    def _give(self, v: Value, dims: set[Dim]) -> Value:
        """A value with other dims."""
        found = self.now[v.name] = replace(v, dims=tuple(d for d in self.order if d in dims))
        self.running.add(v.name)
        return found

    def _of(self, v: Operand) -> Operand:
        return self.now.get(v.name, v) if isinstance(v, Value) else v

    def _statement(self, t: Statement, steps: Mapping[str, Accumulator]) -> None:
        runs = any(v.name in self.running for v in uses(t))
        if isinstance(t, Reduce) and t.dim == self.dim and not t.parts:
            self._reduce(t)
            return
        if not runs:
            self.body.append(t)
            self.now.update({v.name: v for v in defines(t)})
            return
        if isinstance(t, Where) and self.dim in self.now[t.src.name].dims:
            self.body.append(replace(t, dst=self._give(t.dst, {*t.dst.dims}), src=self.now[t.src.name]))
        elif isinstance(t, Cast):
            src = self.now[t.src.name]
            self.body.append(replace(t, dst=self._give(t.dst, {*src.dims}), src=src))
        elif isinstance(t, Lost):
            new, kept, small = (self.now[v.name] for v in (t.new, t.kept, t.small))
            self.body.append(replace(t, dst=self._give(t.dst, {*new.dims}), new=new, kept=kept, small=small))
        elif isinstance(t, Let):
            self._let(t, steps.get(t.dst.name))
        else:
            raise _OneState

    def _reduce(self, t: Reduce) -> None:
        src = self.now.get(t.src.name, t.src)
        if self.dim not in src.dims:
            raise _OneState
        dst = self._give(t.dst, {self.lanes, *src.dims} - {self.dim})
        self.body.append(replace(t, dst=dst, src=src, lanes=self.lanes))

    def _let(self, t: Let, step: Accumulator | None) -> None:
        args = [self._of(a) for a in t.args]
        if step is not None:  # a state for each position is one for each lane now
            if t.op != MONOIDS[step.monoid].combine:
                raise _OneState
            for k, a in enumerate(args):
                if isinstance(a, Value) and self.dim in a.dims:
                    left = tuple(d for d in self.order if d in {self.lanes, *a.dims} - {self.dim})
                    part = Value(f"{t.dst.name}_part", left, a.dtype)  # no other value is named so: the state's next value has one part
                    self.body.append(Reduce(part, step.monoid, self.dim, a, lanes=self.lanes))
                    self.now[part.name] = args[k] = part
                    self.running.add(part.name)
        dims = {d for a in args if isinstance(a, Value) for d in a.dims}
        if self.dim in dims:
            dims -= {self.lanes}
        self.body.append(replace(t, dst=self._give(t.dst, dims), args=tuple(args)))


class _Merge:
    """The merge of a loop's states.  ``states``: by the name that each had before."""

    def __init__(self, loop: Loop, states: Mapping[str, Accumulator], lanes: Dim, within: _Program) -> None:
        self.lanes, self.within, self.states = lanes, within, states
        self.made = {v.name: t for t in loop.body for v in defines(t)}
        self.old = {a.old.name: name for name, a in states.items()}
        self.new = {a.new.name: name for name, a in states.items()}
        self.statements: list[Statement] = []
        self.found: dict[str, Value | None] = {}
        self.again: dict[tuple[str, str, bool], Operand] = {}

    def merged(self, name: str, dst: Value | None = None) -> Value:
        """The state of all lanes."""
        a = self.states[name]
        if name not in self.found:
            self.found[name] = None
            if self.lanes not in a.old.dims:
                raise _OneState
            alone = self.step(name, a.new, True)
            if not isinstance(alone, Value) or self.lanes not in alone.dims:
                raise _OneState
            to = dst or Value(name, tuple(d for d in a.old.dims if d != self.lanes), a.old.dtype)
            self.statements.append(Reduce(to, a.monoid, self.lanes, alone))
            self.found[name] = to
        found = self.found[name]
        if found is None:  # two states that are each relative to the other
            raise _OneState
        return found

    def alone(self) -> bool:
        """Whether a lane that is merged with nothing stays what it is: a step between equal references changes no state."""
        rng = np.random.default_rng(0)
        for _ in range(PROBES):
            env = {a.old.name: np.asarray(rng.uniform(-2, 2) if n in self.found else a.identity) for n, a in self.states.items()}
            for t in self.statements:
                args = [
                    np.asarray(v.value) if isinstance(v, Literal) else env.setdefault(v.name, np.asarray(rng.uniform(-2, 2)))
                    for v in (t.args if isinstance(t, Let) else uses(t))
                ]
                (to,) = defines(t)
                env[to.name] = apply(t.op, *args) if isinstance(t, Let) else np.asarray(t.value) if isinstance(t, Fill) else args[0]
            merged = ((v, self.states[n].old) for n, v in self.found.items() if v is not None)
            if not all(np.isclose(env[v.name], env[old.name], rtol=1e-9) for v, old in merged):
                return False
        return True

    def step(self, name: str, v: Operand, combined: bool) -> Operand:
        """A value of a step that takes the state from its reference to the merged one.  ``combined``: nothing but the monoid's own
        operation stands between it and the new state, so that a tile in its place is nothing."""
        a = self.states[name]
        if not isinstance(v, Value) or v.name in self.old:
            if isinstance(v, Value) and self.lanes not in v.dims:
                raise _OneState
            return v
        if v.name in self.new and self.new[v.name] != name:
            return self.merged(self.new[v.name])
        made = self.made.get(v.name)
        if made is None:
            return v
        key = (name, v.name, combined)
        if key not in self.again:
            self.again[key] = self._again(name, a, made, combined)
        return self.again[key]

    def _again(self, name: str, a: Accumulator, made: Statement, combined: bool) -> Operand:
        combine = MONOIDS[a.monoid].combine
        if isinstance(made, Reduce) and made.monoid == a.monoid and made.lanes == self.lanes and combined:
            return Literal(a.identity)
        if isinstance(made, Fill):
            return self._put(made, ())
        if isinstance(made, Cast):
            src = self.step(name, made.src, False)
            return self._put(made, (src,)) if isinstance(src, Value) else src
        if not isinstance(made, Let):
            raise _OneState
        own = combined and made.op == combine
        args = [self.step(name, x, own) for x in made.args]
        if own:
            kept = [x for x in args if x != Literal(a.identity)]
            if len(kept) < len(args):
                return kept[0] if kept else Literal(a.identity)
        return self._put(made, tuple(args))

    def _put(self, made: Let | Cast | Fill, args: tuple[Operand, ...]) -> Value:
        have = {d for x in args if isinstance(x, Value) for d in x.dims}
        order = (*self.within.program.dims, self.lanes)
        rank = {d.axes: k for k, d in enumerate(order) if d.each == 1}
        dims = tuple(sorted(have, key=lambda d: rank[d.axes]))
        dst = Value(self.within.names.fresh(made.dst.name), dims if not isinstance(made, Fill) else made.dst.dims, made.dst.dtype)
        if isinstance(made, Let):
            self.statements.append(replace(made, dst=dst, args=args))
        elif isinstance(made, Cast):
            assert isinstance(args[0], Value)
            self.statements.append(replace(made, dst=dst, src=args[0]))
        else:
            self.statements.append(replace(made, dst=dst))
        return dst


def _renamed(s: Statement, names: Mapping[str, Value]) -> Statement:
    """A statement that reads some values under other names."""

    def of(v: Operand) -> Operand:
        return names.get(v.name, v) if isinstance(v, Value) else v

    if isinstance(s, Let):
        return replace(s, args=tuple(map(of, s.args)))
    if isinstance(s, Lost):
        new, kept, small = map(of, (s.new, s.kept, s.small))
        return replace(s, new=new, kept=kept, small=small)  # type: ignore[arg-type]
    return replace(s, src=of(s.src)) if isinstance(s, Cast | Where | Reduce) else s  # type: ignore[arg-type]
