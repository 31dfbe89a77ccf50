"""Sums in loops that do not lose digits with the number of steps.

Each of n additions in a loop is rounded at the size of the whole: that loses n * 2^-25 of it where all numbers are equal, and how many
steps there are is known when the kernel runs.  Beside the rounding of a 16-bit result this is nothing: there each lane of the tile has a
sum of its own (:meth:`.lower.Lowering._lanes`), and so it is for the parts of such a result.  Where a result of float32 is stored, every
step reduces its tile, and the one accumulator carries what its last addition lost (Kahan):

    small <- tile - lost;   new <- state + small;   lost <- (new - state) - small

This costs a few instructions per accumulator and step, nothing per element; of each lane it would be six per element.  An update
that rescales the state, state * q, rescales what was lost; terms that it adds are of the size of a step or smaller, and meet what was
lost before they meet the tile, so that the tile is rounded once.  What was lost is forgotten where it is not finite: an infinite sum stays
infinite.

Contractions on the matrix unit are left as they are: a step of theirs is as large as their accumulator.  Nor is there anything to gain for
the parts of a result that products of 16-bit operands are in: its terms were rounded 2^13 times coarser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..ir.recursion import Steps, by_arguments
from . import guards
from .analysis import Facts
from .blocks import Block, OpenAccumulator
from .builder import Builder, Mode
from .dots import DotMatch
from .kernel import Kernel
from .program import Literal, Lost, Operand, Value
from .quotients import product


@dataclass(frozen=True)
class Update:
    """The update of a rolling sum: a multiple of the state, and terms that are free of it."""

    carried: int | None  # the node of the multiple; None for the state itself
    terms: tuple[int, ...]


ONE = Literal(1.0)


@dataclass(frozen=True)
class Factor:
    """What a state is multiplied with, and the condition under which it stays as it is instead."""

    by: Operand
    untouched: Operand | None

    def of(self, builder: Builder, v: Value, block: Block) -> Operand:
        """The multiple of a state."""
        return v if self.by == ONE else builder.let(block, "mul", (v, self.by))


def worthwhile(kernel: Kernel, contractions: Sequence[DotMatch]) -> bool:
    """The kernel stores what has digits to lose: in more than 16 bits, and no part of a result of these."""
    stored = (b for r in kernel.roots if not ((b := kernel.buffers[r.buffer]).result and b.result.itemsize <= 2))
    fine = not any(m.how.rounded for m in contractions)
    return any(b.dtype.itemsize > 2 and (fine or b.role == "output") for b in stored)


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


@by_arguments
def _multiple(facts: Facts, node: int) -> bool:
    """A product of the state and values that are free of it."""
    n = facts.nodes[node]
    if n.op == "acc":
        return True
    if n.op != "map" or n.attrs[0] != "mul":
        return False
    return any(_multiple(facts, x) and not facts.has_state(y) for x, y in (n.args, n.args[::-1]))


def factor(builder: Builder, node: int, update: Update, state: OpenAccumulator, body: Block, mode: Mode | None) -> Steps[Factor]:
    """What a sum is multiplied with before a tile is added, 1 where it must stay as it is; and where that is."""
    factors: list[int] = []
    stack = [] if update.carried is None else [update.carried]
    while stack:
        n = builder.nodes[x := stack.pop()]
        if n.op == "map" and builder.facts.has_state(x):
            stack.extend(reversed(n.args))
        elif n.op != "acc":
            factors.append(x)
    found: Operand = (yield product(builder, factors, body, mode)) if factors else ONE
    untouched = None if update.carried is None else guards.untouched(builder, node, state, body)
    if untouched is not None and found != ONE:
        found = builder.let(body, "where", (untouched, ONE, found), hint="factor")
    return Factor(found, untouched)


def step(
    builder: Builder,
    node: int,
    update: Update,
    state: OpenAccumulator,
    body: Block,
    mode: Mode | None,
    tile: Callable[[], Steps[Operand]],
) -> Steps[Value]:
    """The new state of a sum after a tile, which ``tile`` emits; the loop gets a second accumulator for what the addition loses."""
    old, lost = opened(builder, node, state.old, body)
    scale = yield factor(builder, node, update, state, body, mode)
    kept, carried = (scale.of(builder, v, body) for v in (state.old, old))
    rest = builder.let(body, "neg", (carried,))
    for term_node in update.terms:
        term = yield builder.emit(term_node, body, mode)
        if scale.untouched is not None:
            term = builder.let(body, "where", (scale.untouched, Literal(0.0), term))
        rest = builder.let(body, "add", (term, rest))
    return added(builder, state.old, kept, (yield tile()), rest, lost, body)


def carried(builder: Builder, node: int, old: Value, tile: Value, body: Block) -> tuple[Operand, Value]:
    """What is to be added to a sum because it was lost before, and the sum after a tile."""
    value, lost = opened(builder, node, old, body)
    rest = builder.let(body, "neg", (value,))
    return rest, added(builder, old, old, tile, rest, lost, body)


def opened(builder: Builder, node: int, old: Value, body: Block) -> tuple[Value, OpenAccumulator]:
    """An accumulator for what the additions to ``old`` lose."""
    assert body.loop is not None
    value = builder.value(f"lost_{body.loop.binding.axis.name}", old.dims, old.dtype)
    lost = OpenAccumulator(value, "sum", 0.0, node)
    body.loop.accumulators.append(lost)
    builder.define(value, body)
    return value, lost


def added(builder: Builder, old: Value, kept: Operand, tile: Operand, rest: Operand, lost: OpenAccumulator, body: Block) -> Value:
    """The sum of what is ``kept`` of ``old``, a tile and what was lost before; what this loses is in ``lost``."""
    small = builder.let(body, "add", (tile, rest), hint="small")
    new = builder.let(body, "add", (kept, small), hint=old.name + "_new")
    assert isinstance(new, Value)
    left = builder.value(lost.old.name + "_new", lost.old.dims, lost.old.dtype)
    lost.new = builder.put(body, Lost(left, new, builder.as_value(kept, body), builder.as_value(small, body)))
    return new
