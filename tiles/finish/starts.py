"""Accumulators that start from a value: ``v + sum_k x`` is summed onto ``v``, and is no operation of its own.

    for k: a = 0; a <- a + x                                        y: v
    y = v + a                                              -->      for k: y <- y + x

So the two loops of ``x @ w1 + y @ w2`` hold one tile of sums, not one each; and where they are one loop, the step of the one sum goes on
from the step of the other.  The same holds of every monoid, with its own combination: a maximum of maxima.

Only of a state that nothing but its own step reads: a running value of the sum alone is another one, and what rescales the state would
rescale the value.  And only from a value that loops or contractions have made, or that lives through the loop anyway: what can be made
at any time, as by a load, takes no registers from the loop if it is made after it.

Every step of a sum is then rounded at the size of the value, too.  Beside the rounding of their sum to 16 bits this is nothing; where more
of it is kept, from which something as large may be subtracted, only sums that carry what they lose (:mod:`..compensation`) start from a
value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import fields, replace
from typing import Any

from ...ir.monoids import MONOIDS
from ..program import (
    Accumulator,
    Cast,
    Dot,
    Let,
    Loop,
    Lost,
    Statement,
    Store,
    TileProgram,
    Value,
    defines,
    direct_uses,
    rewritten,
    uses,
    walk_statements,
)

Body = tuple[Statement, ...]


def start(program: TileProgram) -> TileProgram:
    """Decide ``Accumulator.start``; not in a kernel that sums in the order of the program."""
    body, kernel = program.body, program.kernel
    while kernel.contracts and (found := _once(body, _readers(body), _kept(program, body))) is not None:
        body, gone, kept = found
        body = _reading(body, gone, kept)
    return program if body is program.body else replace(program, body=body)


def _readers(body: Body) -> Counter[str]:
    """How many statements read a value, but for those that say what an addition to it lost."""
    return Counter(v.name for s in walk_statements(body) if not isinstance(s, Lost) for v in direct_uses(s))


def _kept(program: TileProgram, body: Body) -> frozenset[str]:
    """Values of which more than 16 bits are kept: something else than a rounding reads them, and the program has them so."""

    def rounds(s: Statement) -> bool:
        to = s.dst.dtype if isinstance(s, Cast) else program.kernel.buffers[s.access.buffer].dtype if isinstance(s, Store) else None
        return to is not None and to.is_float and to.itemsize <= 2

    statements = list(walk_statements(body))
    stored = {s.dst.name for s in statements if isinstance(s, Let) and s.stored}
    return frozenset(v.name for s in statements if not rounds(s) for v in direct_uses(s)) - stored


def _once(body: Body, readers: Counter[str], kept: Set[str]) -> tuple[Body, Value, Value] | None:
    """The body with one combination less, its result, and the state that takes the place of it.  ``kept``: values of which more than 16
    bits are."""
    states = {a.old.name: (at, s, a) for at, s in enumerate(body) if isinstance(s, Loop) for a in s.accumulators}
    for i, s in enumerate(body):
        if isinstance(s, Loop) and (inner := _once(s.body, readers, kept)) is not None:
            return (*body[:i], replace(s, body=inner[0]), *body[i + 1 :]), *inner[1:]
        values = uses(s)
        if not isinstance(s, Let) or len(values) != 2 or len({(v.dims, v.dtype) for v in (*values, s.dst)}) > 1:
            continue
        ways = [(*states[x.name], v) for x, v in (values, values[::-1]) if x.name in states]
        for at, loop, a, v in sorted(ways, key=lambda w: -w[0]):  # the last loop need not move
            if a.start is not None or a.identity != MONOIDS[a.monoid].identity or not _combines(loop.body, a, s.op, readers):
                continue
            rounded = s.op == "add" and a.old.dtype.is_float and not any(isinstance(t, Lost) and t.new == a.new for t in loop.body)
            if rounded and s.dst.name in kept:
                continue
            own, to = next((b for b in loop.accumulators if b.old == v), None), _place(v, body, at, s, readers)
            if own is not None:
                changed = _joined(loop, own, a) if _combines(loop.body, own, s.op, readers) else None
            else:
                began = tuple(replace(b, start=v) if b is a else b for b in loop.accumulators)
                changed = replace(loop, accumulators=began) if to else None
            if changed is not None:
                return (*body[:at], *body[at + 1 : to], changed, *body[to:i], *body[i + 1 :]), s.dst, (own or a).old
    return None


def _combines(body: Body, a: Accumulator, op: str, readers: Counter[str]) -> bool:
    """Whether a step does no more to a state than combine something with it by an operation, and nothing else reads the state or what it
    becomes on the way: of the state itself there are two readers, the step and one after the loop."""

    def comes_of(state: Value, v: Value) -> bool:
        step = next((s for s in body if v in defines(s)), None)
        if v == state or step is None:
            return v == state
        if isinstance(step, Loop):
            inner = next(b for b in step.accumulators if b.old == v)
            return inner.start is not None and comes_of(state, inner.start) and _combines(step.body, inner, op, readers)
        others = (step.acc,) if isinstance(step, Dot) else uses(step) if isinstance(step, Let) and step.op == op else ()
        return readers[v.name] == 1 and any(x is not None and comes_of(state, x) for x in others)

    return op == MONOIDS[a.monoid].combine and readers[a.old.name] == 2 and comes_of(a.old, a.new)


def _place(v: Value, body: Body, at: int, last: Let, readers: Counter[str]) -> int:
    """Before which statement a loop may run, to start from a value that ``last`` combines with its state: the next, or the one after all
    that makes the value, if that does without the loop and leaves nothing else behind that would live through it.  0 if nowhere."""
    made = next((i for i, s in enumerate(body) if v in defines(s)), -1)
    held: set[str] = set()  # values that loops or contractions have made
    for s in body[: made + 1]:
        if isinstance(s, Loop | Dot) or not held.isdisjoint(x.name for x in uses(s)):
            held.update(x.name for x in defines(s))
    between = body[at + 1 : made + 1]
    inside = _readers((*between, last))
    alone = all(readers[x.name] == inside[x.name] for s in between for x in defines(s))
    free = {x for s in between for x in uses(s)}.isdisjoint(defines(body[at]))
    return max(at, made) + 1 if alone and free and (made < 0 or v.name in held) else 0


def _joined(loop: Loop, first: Accumulator, a: Accumulator) -> Loop | None:
    """The loop with one state for two: the step for ``a`` goes on from that for ``first``, which must come before it."""
    made = [v for s in loop.body for v in defines(s)]
    if made.index(a.new) < made.index(first.new):
        return None
    states = tuple(replace(b, new=a.new) if b is first else b for b in loop.accumulators if b is not a)
    return replace(loop, accumulators=states, body=_reading(loop.body, a.old, first.new))


def _reading(body: Body, gone: Value, kept: Value) -> Body:
    """The statements with one value in the place of another."""

    def instead(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(map(instead, x))
        if isinstance(x, Accumulator):
            return replace(x, new=instead(x.new), start=instead(x.start))
        return kept if x == gone else x

    def one(s: Statement) -> Statement:
        return replace(s, **{f.name: instead(getattr(s, f.name)) for f in fields(s) if f.name != "body"})

    return rewritten(body, one)
