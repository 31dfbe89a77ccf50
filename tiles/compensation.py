"""Sums in loops that do not lose digits with the number of steps.

A sum over a streamed axis adds one tile after the other to its accumulator, and each of n additions is rounded at the size of the
whole: the error grows like the square root of n, where a sum in a tree has the square root of log n.  So the accumulator carries what
the last addition lost (Kahan):

    small <- tile - lost;   new <- state + small;   lost <- (new - state) - small

This costs a few instructions per accumulator and step, nothing per element.  An update that rescales the state, state * q, rescales
what was lost; terms that it adds are of the size of a step or smaller, and meet what was lost before they meet the tile, so that
the tile is rounded once.  What was lost is forgotten where it is not finite: an infinite sum stays infinite.

A final mean is (state - lost) / count, rounded once (``program.Mean``): the difference itself is no number of the type, but the remainder
of the quotient of the state is, and takes it in.

Contractions on the matrix unit are left as they are: a step of theirs is as large as their accumulator.  Nor is there anything to gain
in a kernel that contracts 16-bit operands for 16-bit results: its terms were rounded 2^13 times coarser.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.monoids import MONOIDS
from . import dots, guards
from .blocks import OpenAccumulator
from .program import Literal, Lost, Operand, Value

if TYPE_CHECKING:
    from .blocks import Block
    from .facts import Facts
    from .lower import Lowering, Mode


@dataclass(frozen=True)
class Update:
    """The update of a rolling sum: a multiple of the state, and terms that are free of it."""

    carried: int | None  # the node of the multiple; None for the state itself
    terms: tuple[int, ...]


def worthwhile(lowering: Lowering) -> bool:
    """The kernel has digits to lose."""
    stored = (lowering.kernel.buffers[r.buffer] for r in lowering.kernel.roots)
    return any(b.role == "output" and b.dtype.itemsize > 2 for b in stored) or not any(
        found is not None and found.dtype.itemsize == 2
        for n in lowering.nodes
        if n.op in ("reduce", "roll") and MONOIDS[n.attrs[0]].state == "sum"
        for found in (dots.match(lowering, n.args[0], n.attrs[1]),)
    )


def update_of(facts: Facts, node: int) -> Update | None:
    """How a sum continues from step to step, or ``None`` if that is no multiple of the state and terms."""
    n = facts.nodes[node]
    if n.op != "roll":
        return Update(None, ())
    carried: list[int] = []
    terms: list[int] = []
    stack = [n.args[1]]
    while stack:
        x = stack.pop()
        if facts.has_state(x) and facts.nodes[x].op == "map" and facts.nodes[x].attrs[0] == "add":
            stack.extend(reversed(facts.nodes[x].args))
        else:
            (carried if facts.has_state(x) else terms).append(x)
    if len(carried) != 1 or not _multiple(facts, carried[0]):
        return None
    return Update(carried[0], tuple(terms))


def _multiple(facts: Facts, node: int) -> bool:
    """A product of the state and values that are free of it."""
    n = facts.nodes[node]
    if n.op == "acc":
        return True
    if n.op != "map" or n.attrs[0] != "mul":
        return False
    return any(_multiple(facts, x) and not facts.has_state(y) for x, y in (n.args, n.args[::-1]))


def step(
    lowering: Lowering, node: int, update: Update, state: OpenAccumulator, body: Block, mode: Mode | None, tile: Callable[[], Operand]
) -> Value:
    """The new state of a sum after a tile, which ``tile`` emits; the loop gets a second accumulator for what the addition loses."""
    assert body.loop is not None
    let = lowering.let
    old = lowering.value(f"lost_{body.loop.binding.axis.name}", state.old.dims, state.old.dtype)
    lost = OpenAccumulator(old, "sum", 0.0, node)
    state.lost = lost
    body.loop.accumulators.append(lost)
    lowering.define(old, body)
    kept: Operand = state.old
    carried: Operand = lost.old
    terms: list[Operand] = []
    if update.carried is not None:
        kept = lowering.emit(update.carried, body, mode, state)
        carried = lowering.emit(update.carried, body, mode, lost)
        terms = [lowering.emit(t, body, mode) for t in update.terms]
        untouched = guards.untouched(lowering, node, state, body)
        if untouched is not None:
            if kept is not state.old:
                kept = let(body, "where", (untouched, state.old, kept))
                carried = let(body, "where", (untouched, Literal(0.0), carried))
            terms = [let(body, "where", (untouched, Literal(0.0), t)) for t in terms]
    total = tile()
    rest = let(body, "neg", (carried,))
    for t in terms:
        rest = let(body, "add", (t, rest))
    small = let(body, "add", (total, rest), hint="small")
    new = let(body, "add", (kept, small), hint=state.old.name + "_new")
    assert isinstance(new, Value)
    left = lowering.value(old.name + "_new", old.dims, old.dtype)
    lost.new = lowering.put(body, Lost(left, new, lowering.as_value(kept, body), lowering.as_value(small, body)))
    return new
