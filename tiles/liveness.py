"""Registers: the bytes of the values that are alive at the worst point of a tile program.

Operands that go from memory to the matrix unit bypass the registers, if they are loaded by instructions wide enough for the
asynchronous copy; narrower ones cost an address and a value per element.  Chains of cheap pointwise operations are computed a few
lanes at a time; expensive functions are not, their many temporaries overlap.

Which values live when does not depend on their sizes.  It is found out once for a program; the worst point is then looked for under
any sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from .operations import operation
from .program import (
    Access,
    Cast,
    Dim,
    Dot,
    Let,
    Load,
    Loop,
    Lost,
    Mean,
    Statement,
    Store,
    TileProgram,
    Value,
    Where,
    defines,
    uses,
)
from .sizes import Sizes

LANE_BY_LANE = (Let, Lost, Where, Cast, Mean, Store)
EXPENSIVE = 12.0  # instructions of a function whose evaluation holds many temporaries
NESTED = 1.13  # a loop around another one keeps addresses for both (measured on the compiled corpus)
NESTED_MASKED = 1.17  # and masks, where its steps need them (measured on the compiled corpus)
ASYNC_BYTES = 4  # the narrowest asynchronous copy to shared memory
ADDRESS_BYTES = 8
ROW_COPIES = 4  # of one number for each row of a product: the four threads that share a row of the matrix unit hold it each
CHUNKS = 4  # a compiler computes chains of pointwise operations a few lanes at a time: this share of a temporary is live
LOADED = 2  # and this share of what is loaded for one outside of loops: it is loaded a few lanes ahead (measured on epilogues of products)


@dataclass(frozen=True)
class _Amount:
    """Registers of a value: so many bytes for each lane, or a share of them; ``narrow``: only where this access is too narrow for the
    asynchronous copy."""

    value: Value
    each: int
    share: int = 1
    narrow: Access | None = None

    def bytes(self, sizes: Sizes) -> int:
        if self.narrow is not None and sizes.vector(self.narrow, self.value.dtype.itemsize) >= ASYNC_BYTES:
            return 0
        return sizes.elements(self.value) * self.each // self.share


@dataclass(frozen=True)
class _Step:
    """One statement: what it holds while it runs, what dies as it reads it, what it makes, what of that nobody needs."""

    inner: _Body | None
    nested: float  # what the registers of the loop are multiplied with
    transient: tuple[int, ...]
    freed: tuple[int, ...]
    made: tuple[int, ...]
    unused: tuple[int, ...]


@dataclass(frozen=True)
class _Body:
    """``entry``: what is alive at its start.  Numbers stand for amounts."""

    entry: tuple[int, ...]
    steps: tuple[_Step, ...]


class Liveness:
    """When the values of a program are alive."""

    def __init__(self, program: TileProgram) -> None:
        self._dots = any(isinstance(s, Dot) for s in program.statements())
        self._amounts: dict[tuple[object, ...], int] = {}
        self._listed: list[_Amount] = []
        self._body = self._analysed(program.body, frozenset(), {}, {})

    def worst(self, sizes: Sizes) -> int:
        """Bytes at the worst point."""
        return _worst(self._body, [a.bytes(sizes) for a in self._listed])

    def numbers(self, sizes: Sizes, dims: Collection[Dim]) -> int:
        """Elements of values with just some of these dims, at the worst point for them."""
        found = [bool(a.value.dims) and all(d in dims for d in a.value.dims) for a in self._listed]
        return _worst(self._body, [sizes.elements(a.value) * counts for a, counts in zip(self._listed, found, strict=True)])

    def _analysed(self, body: tuple[Statement, ...], outer: frozenset[str], held: dict[str, int], states: Mapping[str, str]) -> _Body:
        """``outer``: values of enclosing blocks, held throughout; ``held``: their amounts.  ``states``: accumulators of this loop, old
        name -> new name; the old value may die in the body, the new one lives to its end."""
        last: dict[str, int] = {}
        only_dot: dict[str, bool] = {}
        only_lanes: dict[str, bool] = {}
        looped = bool(states)
        reads = [uses(s) for s in body]
        for i, s in enumerate(body):
            for v in reads[i]:
                last[v.name] = i
                only_dot[v.name] = only_dot.get(v.name, True) and isinstance(s, Dot)
                only_lanes[v.name] = only_lanes.get(v.name, True) and isinstance(s, LANE_BY_LANE)
        for old, new in states.items():
            last.setdefault(old, len(body))
            last[new] = len(body)
            only_lanes[new] = False
        live = {*outer, *states}

        def dead(values: Iterable[Value], i: int) -> tuple[int, ...]:
            names = {v.name for v in values} & live - outer
            gone = sorted(n for n in names if last.get(n, i) <= i)
            live.difference_update(gone)
            return tuple(held[n] for n in gone)

        entry = tuple(held[n] for n in sorted(live))
        steps: list[_Step] = []
        for i, s in enumerate(body):
            inner: _Body | None = None
            nested, transient = 1.0, tuple[int, ...]()
            if isinstance(s, Loop):
                for a in s.accumulators:
                    held[a.old.name] = self._registers(a.old)
                    last.setdefault(a.old.name, i)
                # what an accumulator goes on from is no longer needed once the loop runs, if nothing reads it later
                taken = {a.start.name for a in s.accumulators if a.start is not None and last[a.start.name] <= i}
                around = frozenset(live - {a.old.name for a in s.accumulators} - (taken - outer))
                inner = self._analysed(s.body, around, dict(held), {a.old.name: a.new.name for a in s.accumulators})
                if any(isinstance(t, Loop) and t.innermost for t in s.body):  # once, however many loops are around
                    nested = NESTED if s.binding.even else NESTED_MASKED
            elif isinstance(s, Let) and operation(s.op).cost >= EXPENSIVE:
                transient = (self._amount(_Amount(s.dst, max(s.dst.dtype.itemsize, 1))),)
            # lane by lane, a result takes the registers of the arguments that die in its making
            freed = dead(reads[i], i)
            fresh = [v for v in defines(s) if v.name not in live]
            for v in fresh:
                in_lanes = only_lanes.get(v.name, False)
                if isinstance(s, Load):
                    in_lanes &= not looped and all(isinstance(t, (*LANE_BY_LANE, Load)) for t in body[i : last.get(v.name, i)])
                held[v.name] = self._held(s, v, only_dot.get(v.name, False), in_lanes)
                live.add(v.name)
            made = tuple(held[v.name] for v in fresh)
            steps.append(_Step(inner, nested, transient, freed, made, dead(defines(s), i)))
        return _Body(entry, tuple(steps))

    def _amount(self, a: _Amount) -> int:
        """The number of an amount; values of the same dims share it."""
        key = (tuple(d.name for d in a.value.dims), a.each, a.share, id(a.narrow))
        if key not in self._amounts:
            self._amounts[key] = len(self._listed)
            self._listed.append(a)
        return self._amounts[key]

    def _held(self, s: Statement, v: Value, only_dot: bool, in_lanes: bool) -> int:
        if isinstance(s, Load) and only_dot:
            return self._amount(_Amount(v, v.dtype.itemsize + ADDRESS_BYTES, 1, s.access))
        share = LOADED if isinstance(s, Load) else CHUNKS if isinstance(s, LANE_BY_LANE) else 1
        return self._registers(v, share if in_lanes else 1)

    def _registers(self, v: Value, share: int = 1) -> int:
        copies = ROW_COPIES if self._dots and len(v.dims) == 1 else 1
        return self._amount(_Amount(v, max(v.dtype.itemsize, 1) * copies, share))


def _worst(body: _Body, amounts: list[int]) -> int:
    worst = current = sum([amounts[k] for k in body.entry])
    for s in body.steps:
        if s.inner is not None:
            found = _worst(s.inner, amounts)
            worst = max(worst, found if s.nested == 1.0 else int(s.nested * found))
        for k in s.freed:
            current -= amounts[k]
        for k in s.made:
            current += amounts[k]
        most = current
        for k in s.transient:
            most += amounts[k]
        if most > worst:
            worst = most
        for k in s.unused:
            current -= amounts[k]
    return worst
