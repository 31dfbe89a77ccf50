"""Loops in two parts: the tiles at the edges of a condition, and those in the clear stretch, whose steps do not look at it.

    for j in [0, n): a <- f(a, where(c, x, y))      -->      for j in [0, n) without [p, q): a <- f(a, where(c, x, y))
                                                             for j in [p, q): a <- f(a, x)

where c holds in all tiles of [p, q) (:class:`..program.Clear`).  The edges come first, those before the stretch and those after it in one
loop: so there are two copies of a body whatever the condition is, and a last tile with fewer elements is an edge like others.  The steps
are those of the one loop in another order, which is nothing to states of reductions, but to scans.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from ...ir.monoids import MONOIDS
from ..folding import folded, gone
from ..names import unused
from ..operations import operation
from ..program import Accumulator, Cast, Let, Loop, Reduce, Statement, Store, TileProgram, Value, Where, defines, uses
from ..sizes import Sizes

LEAST = 0.02  # the share of a loop's instructions that a second copy of its body has to save


def part(program: TileProgram) -> TileProgram:
    """Part the loops with a clear stretch, where it saves enough at the planned sizes."""
    if program.kernel.exact:
        return program
    sizes = Sizes(program, program.kernel.roles, {})
    name = unused(program)
    scanned = {n.attrs[1] for n in program.kernel.nodes if n.op == "scan"}

    def block(body: tuple[Statement, ...], states: tuple[Value, ...] = ()) -> tuple[Statement, ...]:
        found: list[Statement] = []
        gone: set[str] = set()  # edges of stretches that are none
        for s in body:
            if isinstance(s, Loop):
                s = replace(s, body=block(s.body, tuple(a.new for a in s.accumulators)))
                free = s.binding.axis not in scanned and all(_in_any_order(a) for a in s.accumulators)
                parted = s.clear is not None and free and _saved(s, sizes) >= LEAST
                gone |= set() if parted else {v.name for v in s.edges}
                found += _parted(s, name) if parted else [replace(s, clear=None)]
            else:
                found.append(s)
        return _without(found, gone, states) if gone else tuple(found)

    return replace(program, body=block(program.body))


def _without(body: list[Statement], unread: set[str], states: tuple[Value, ...]) -> tuple[Statement, ...]:
    """A block without those of some values that nothing reads, and without what only these read."""
    read, left = {v.name for v in states}, list[Statement]()
    for s in reversed(body):
        if not isinstance(s, Loop | Store) and s.dst.name in unread - read:
            unread = unread | {v.name for v in uses(s)}
        else:
            read |= {v.name for v in uses(s)}
            left.append(s)
    return tuple(left[::-1])


def _in_any_order(a: Accumulator) -> bool:
    several = MONOIDS[a.monoid].several
    return several is None or several.commutative


def _saved(loop: Loop, sizes: Sizes) -> float:
    """The share of a loop's instructions, but for products, that its clear stretch saves."""
    without = gone(loop)
    every = less = 0.0
    for s in loop.body:
        if isinstance(s, Let | Where | Cast | Reduce):
            n = sizes.elements(s.src if isinstance(s, Reduce) else s.dst) * (operation(s.op).cost if isinstance(s, Let) else 1.0)
            every += n
            less += n * (s.dst.name in without)
    return less / every * sizes.clear(loop) if every else 0.0


def _parted(loop: Loop, name: Callable[[str], str]) -> list[Loop]:
    assert loop.clear is not None
    new: dict[str, str] = {}

    def fresh(v: Value) -> Value:
        if v.name not in new:
            new[v.name] = name(f"{v.name}_edge")
        return replace(v, name=new[v.name])

    own = {v.name for s in loop.body for v in defines(s)} | {a.old.name for a in loop.accumulators}

    def renamed(x: Any) -> Any:
        if isinstance(x, Value):
            return fresh(x) if x.name in own else x
        if isinstance(x, tuple):
            return tuple(map(renamed, x))
        if hasattr(x, "looked"):
            return replace(x, looked=tuple(replace(k, at=renamed(k.at)) for k in x.looked))
        return x

    def one(s: Statement) -> Statement:
        return replace(s, **{f.name: renamed(getattr(s, f.name)) for f in fields(s)})

    states = tuple(replace(a, old=fresh(a.old), new=renamed(a.new)) for a in loop.accumulators)
    edges = replace(loop, accumulators=states, body=tuple(map(one, loop.body)), part="edges")
    body, same = folded(loop.body, dict(loop.clear.known), [a.new for a in loop.accumulators])
    on = tuple(replace(a, new=same.get(a.new.name, a.new), start=e.old) for a, e in zip(loop.accumulators, states, strict=True))
    return [edges, replace(loop, accumulators=on, body=body, part="whole")]
