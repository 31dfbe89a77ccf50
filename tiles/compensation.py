"""Sums in loops that do not lose digits with the number of steps.

A sum over a streamed axis adds one tile after the other to its accumulator, and each of n additions is rounded at the size of the
whole: the error grows like the square root of n, where a sum in a tree has the square root of log n.  So the accumulator carries what
the last addition lost (Kahan):

    small <- tile - lost;   new <- state + small;   lost <- (new - state) - small

This costs a few instructions per accumulator and step, nothing per element.  An update that rescales the state, state * q, rescales
what was lost; terms that it adds are of the size of a step or smaller, and meet what was lost before they meet the tile, so that
the tile is rounded once.  What was lost is forgotten where it is not finite: an infinite sum stays infinite.

A final mean is (state - lost) / count, rounded once (``program.Mean``): the difference itself is no number of the type, but the remainder
of the quotient of the state is, and takes it in.  So does a mean that is multiplied by a number next to one: m + m * c.

Where such a mean is itself what the kernel stores, nothing after it hides a digit, and what is left is the sum of a tile, whose last
additions are rounded at the size of the whole.  A sum s of n elements x has lost sum (x - c) + (n * c - s), for any c.  With c near s / n
the first adds up to little: where the x have one sign, its partial sums are smaller than those of s by the square root of n, and so are
its errors.  c is rounded to eight bits, so that x - c and n * c - s are exact (but for x smaller than c), and is zero, with nothing
gained or lost, where it is small beside the largest x: for data around zero x - c would be rounded as often as the sum.  Where the x are
products, their roundings are taken in as well.

Contractions on the matrix unit are left as they are: a step of theirs is as large as their accumulator.  Nor is there anything to gain
in a kernel that contracts 16-bit operands for 16-bit results: its terms were rounded 2^13 times coarser.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..ir.monoids import MONOIDS
from ..ir.recursion import Steps, by_arguments
from . import dots, guards
from .blocks import OpenAccumulator
from .program import Let, Literal, Lost, Operand, Rest, Value, Where

if TYPE_CHECKING:
    from ..ir.index import Axis
    from .blocks import Block
    from .facts import Facts
    from .lower import Lowering, Mode

SMALL_EXCESS = 0.5  # of a factor beside one: m * c is then rounded finer than m is


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


def stored_means(lowering: Lowering) -> frozenset[int]:
    """The means that are outputs, as wide as they are computed: themselves, with a number as a factor, or their roots, whose relative
    errors are no larger."""
    if not lowering.compensates or lowering.kernel.exact:
        return frozenset()
    found: set[int] = set()
    for root in lowering.kernel.roots:
        node = root.node
        buffer = lowering.kernel.buffers[root.buffer]
        if buffer.role == "output" and buffer.dtype.itemsize > 2:
            n = lowering.nodes[node]
            node = n.args[0] if n.op == "map" and n.attrs[0] in ("sqrt", "rsqrt") else node
            more = _one_more(lowering, node)
            node = node if more is None else more[0]
            n = lowering.nodes[node]
            if n.op in ("reduce", "roll") and n.attrs[0] == "mean":
                found.add(node)
    return frozenset(found)


def means_below(lowering: Lowering, nodes: frozenset[int]) -> frozenset[int]:
    """The means that some nodes are computed from, they included: deviations from a mean that is off by d add d * d to their squares."""
    found: set[int] = set()
    seen: set[int] = set()
    stack = list(nodes)
    while stack:
        n = lowering.nodes[node := stack.pop()]
        if n.op in ("reduce", "roll") and n.attrs[0] == "mean":
            found.add(node)
        stack.extend(set(n.args) - seen)
        seen.update(n.args)
    return frozenset(found)


def _one_more(lowering: Lowering, node: int) -> tuple[int, float] | None:
    """m and c of m + m * c, for a mean m and a number c that is small beside one."""
    nodes = lowering.nodes
    n = nodes[node]
    if n.op != "map" or n.attrs[0] != "add":
        return None
    for m, product in (n.args, n.args[::-1]):
        p = nodes[product]
        if nodes[m].op in ("reduce", "roll") and nodes[m].attrs[0] == "mean" and p.op == "map" and p.attrs[0] == "mul" and m in p.args:
            c = nodes[p.args[1 - p.args.index(m)]]
            if c.op == "const" and abs(c.attrs[0]) <= SMALL_EXCESS:
                return m, float(c.attrs[0])
    return None


def more_than_mean(lowering: Lowering, node: int, where: Block) -> Steps[Value | None]:
    """m + m * c, rounded once, if the node is that and m is a mean that knows what its sum lost."""
    found = None if lowering.kernel.exact else _one_more(lowering, node)
    if found is None:
        return None
    v = yield lowering.emit(found[0], where)
    m = lowering.means.get(v.name) if isinstance(v, Value) else None
    if m is None or m.lost is None:
        return None
    return lowering.mean(where, replace(m, dst=lowering.value(m.dst.name, m.dst.dims, m.dst.dtype), excess=found[1]))


def lost_in(lowering: Lowering, total: Operand, axis: Axis, where: Block) -> Value | None:
    """What the sum of a tile along an axis loses, if the value is that: total - sum."""
    rest = _rest(lowering, total, axis, where)
    if rest is None:
        return None
    lost = lowering.let(where, "neg", (rest,), hint="lost")
    assert isinstance(lost, Value)
    return lost


def _rest(lowering: Lowering, total: Operand, axis: Axis, where: Block) -> Value | None:
    """Sum less total; ``None`` where a tile has one lane of the axis, whose value may be another reduction's."""
    found = lowering.sums.get(total.name) if isinstance(total, Value) else None
    if found is None or found[1].axis != axis:
        return None
    s, binding = found
    made = {t.dst.name: t for t in where.statements if isinstance(t, Let | Where)}
    src, of = s.src, made.get(s.src.name)
    if isinstance(of, Where) and of.bindings == (binding,):
        src, of = of.src, made.get(of.src.name)
    factors = None
    if isinstance(of, Let) and (of.op == "square" or of.op == "mul"):
        x, y = of.args * 2 if of.op == "square" else of.args
        if all(isinstance(v, Value) and v.dims == src.dims for v in (x, y)):
            factors = x, y
    dst = lowering.value(f"{s.dst.name}_rest", s.dst.dims, s.dst.dtype)
    return lowering.put(where, Rest(dst, src, s.dim, s.dst, binding, factors))  # type: ignore[arg-type]


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


def step(
    lowering: Lowering,
    node: int,
    update: Update,
    state: OpenAccumulator,
    body: Block,
    mode: Mode | None,
    tile: Callable[[], Steps[Operand]],
) -> Steps[Value]:
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
        kept = yield lowering.emit(update.carried, body, mode, state)
        carried = yield lowering.emit(update.carried, body, mode, lost)
        for t in update.terms:
            terms.append((yield lowering.emit(t, body, mode)))
        untouched = guards.untouched(lowering, node, state, body)
        if untouched is not None:
            if kept is not state.old:
                kept = let(body, "where", (untouched, state.old, kept))
                carried = let(body, "where", (untouched, Literal(0.0), carried))
            terms = [let(body, "where", (untouched, Literal(0.0), t)) for t in terms]
    total = yield tile()
    if node in lowering.stored_means:
        rest_of_tile = _rest(lowering, total, lowering.nodes[node].attrs[1], body)
        terms += [] if rest_of_tile is None else [rest_of_tile]
    rest = let(body, "neg", (carried,))
    for term in terms:
        rest = let(body, "add", (term, rest))
    small = let(body, "add", (total, rest), hint="small")
    new = let(body, "add", (kept, small), hint=state.old.name + "_new")
    assert isinstance(new, Value)
    left = lowering.value(old.name + "_new", old.dims, old.dtype)
    lost.new = lowering.put(body, Lost(left, new, lowering.as_value(kept, body), lowering.as_value(small, body)))
    return new
