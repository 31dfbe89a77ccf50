"""Guards of rolling reductions: references that are still empty, and first steps.

A roll rescales its state from an old reference to a new one.  Where the reference is still the identity of its reduction (no step yet,
or only masked elements so far) two things go wrong: the contribution is taken relative to -inf, and the rescaling factor may be
undefined.  The cure that is right for every form:

- reads of a *new* reference see a harmless value where it is the identity (any reference is valid there, because nothing is
  contributed): 0 for a maximum or minimum that may be infinite, 1 for a non-negative sum by whose zero something would divide;
- the update is replaced by the untouched state, *by select*, where an *old* reference is the identity.  For references whose identity
  does not show (a mean, a signed sum) the condition is "first step".

The second is printed only if it is needed: a plan-time probe evaluates the update with all old states at their identities.

A third thing goes wrong where a reference is NaN because of elements that a ``where`` in the body does not choose: a state that is
still the identity, because nothing was chosen, must not be rescaled by NaN.  So where the body can be a number beside a reference that
is not, the update is replaced by the untouched state also where *the state itself* is the identity.
"""

from __future__ import annotations

import math
from typing import Any

from ..ir import dtypes
from ..ir.index import Axis
from ..ir.monoids import MONOIDS
from ..ir.ops import OPS
from ..ir.recursion import by_arguments
from .analysis import Facts
from .blocks import Block, OpenAccumulator
from .builder import Builder
from .kernel import Node
from .program import IsFirst, Literal, Operand, Value

# (new references, everything else); large references show a factor that overflows before it meets the identity
PROBES = ((1.7, 0.7), (0.0, -1.1), (-2.3, 3.1), (1e4, 0.7), (-1e4, 0.7))


def safe_value(facts: Facts, node: int) -> float | None:
    """What a new reference to a reduction must be replaced by where it is the identity; ``None`` if it cannot be, or may."""
    n = facts.nodes[node]
    if not n.reduction:
        return None
    if n.attrs[0] in ("max", "min"):
        body = facts.range(n.args[0])
        return 0.0 if (body.lo == -math.inf if n.attrs[0] == "max" else body.hi == math.inf) else None
    return 1.0 if node in _singular_sums(facts) else None


def _singular_sums(facts: Facts) -> frozenset[int]:
    """Non-negative sums at whose zero the body of some roll is not finite (a division by them)."""
    if facts.singular is None:
        found: set[int] = set()
        for n in facts.nodes:
            if n.op == "roll":
                met: set[int] = set()
                value = _probe_body(facts, n, met)
                if not math.isfinite(value):
                    found |= met
        facts.singular = frozenset(found)
    return facts.singular


def _probe_body(facts: Facts, roll: Node, met: set[int]) -> float:
    """The body of a roll where every new reference that is a non-negative sum is zero; ``met`` collects those sums."""

    def leaf(node: int, n: Node, new: Any) -> float | None:
        if n.op == "ref":
            return facts.evaluate(n.args[0], leaf, n.attrs == ("new", roll.attrs[1]))
        if n.reduction:
            if new and n.attrs[0] == "sum" and facts.range(node).lo >= 0:
                met.add(node)
                return 0.0
            return 0.7
        return {"const": n.attrs[0] if n.attrs else 0.0, "extent": 64.0, "load": 0.7, "index": 0.7, "acc": 0.0, "pre": 0.7}.get(n.op)

    return facts.evaluate(roll.args[0], leaf)


@by_arguments
def needs_safe(facts: Facts, node: int) -> bool:
    """A value computed from references that may be empty."""
    n = facts.nodes[node]
    if n.reduction:
        return safe_value(facts, node) is not None
    return n.op in ("map", "cast", "scan", "merge") and any(needs_safe(facts, x) for x in n.args)


def update_needs_guard(facts: Facts, roll: int) -> bool:
    """Whether the update fails to give the identity when every old state is at its identity."""
    n = facts.nodes[roll]
    identity = MONOIDS[n.attrs[0]].identity
    return any(_probe(facts, n, identity, new, other) != identity for new, other in PROBES)


def _probe(facts: Facts, roll: Node, identity: float, new: float, other: float) -> float:
    axis: Axis = roll.attrs[1]

    def leaf(node: int, n: Node, context: Any) -> float | None:
        if n.op == "acc":
            return identity
        if n.op == "pre":
            return 0.0
        if n.op == "ref":
            return facts.evaluate(n.args[0], leaf, n.attrs[0] if n.attrs[1] == axis else None)
        if n.reduction:
            if context is None or facts.level(node, axis) == 0 or n.attrs[1] != axis:
                return other if context is None else new if context == "new" else None
            return new if context == "new" else MONOIDS[n.attrs[0]].identity
        if n.op == "const":
            return n.attrs[0]
        if n.op == "extent":
            return 64.0
        return other if n.op in ("load", "index") else None

    return facts.evaluate(roll.args[1], leaf)


def chooses(facts: Facts, roll: int) -> bool:
    """Whether the body can be a number although every new reference is NaN, and an update by finite references keeps the identity."""
    n = facts.nodes[roll]
    return _number(facts, n.args[0], n.attrs[1]) and _keeps_identity(facts, n)


@by_arguments
def _number(facts: Facts, node: int, axis: Axis) -> bool:
    """Whether a value can be a number where the new references of a loop are NaN: what ``where`` does not choose is nobody's."""
    n = facts.nodes[node]
    if n.op == "ref" and n.attrs == ("new", axis):
        return False
    if n.scalar == "where":
        chosen = _beside_nan(facts, n.args[0], axis)
        return any(_number(facts, x, axis) for x, truth in zip(n.args[1:], (True, False), strict=True) if chosen in (None, truth))
    if n.op == "map" and OPS[n.attrs[0]].result == "bool":
        return True
    return all(_number(facts, x, axis) for x in n.args)


def _beside_nan(facts: Facts, condition: int, axis: Axis) -> bool | None:
    """What a comparison with a value says that is NaN where the new references of a loop are; ``None`` for others."""
    n = facts.nodes[condition]
    if n.op == "map" and n.attrs[0] in ("eq", "ne", "lt", "le", "gt", "ge") and not all(_number(facts, x, axis) for x in n.args):
        return bool(n.attrs[0] == "ne")
    return None


def _keeps_identity(facts: Facts, roll: Node) -> bool:
    identity = MONOIDS[roll.attrs[0]].identity

    def leaf(node: int, n: Node, context: Any) -> float | None:
        if n.op == "acc":
            return identity
        if n.op in ("const", "extent"):
            return n.attrs[0] if n.op == "const" else 64.0
        return None if n.op in ("map", "cast", "ref") else 0.3 + 0.17 * (node % 11)

    return facts.evaluate(roll.args[1], leaf) == identity


def untouched(builder: Builder, roll: int, state: OpenAccumulator, body: Block) -> Operand | None:
    """Where the state of a roll must stay as it is, whatever the update says; ``None`` for nowhere."""
    facts = builder.facts
    found = _unseen(builder, roll, body) if update_needs_guard(facts, roll) else None
    if chooses(facts, roll):
        none = builder.let(body, "eq", (state.old, Literal(state.identity)), hint="none")
        found = none if found is None else builder.let(body, "or", (found, none), hint="none")
    return found


def _unseen(builder: Builder, roll: int, body: Block) -> Operand:
    """Whether an old reference is the identity."""
    facts = builder.facts
    conditions: dict[str, Operand] = {}
    for reduction, old in _old_states(builder, roll, body):
        n = facts.nodes[reduction]
        identity = MONOIDS[n.attrs[0]].identity
        shows = n.attrs[0] in ("max", "min") or (n.attrs[0] == "sum" and facts.range(reduction).lo >= 0)
        if shows and old is not None:
            c: Operand = builder.let(body, "eq", (old, Literal(identity)), hint="empty")
        else:
            c = first_step(builder, body)
        assert isinstance(c, Value)
        conditions[c.name] = c
    if not conditions:
        first = first_step(builder, body)
        conditions[first.name] = first
    parts = list(conditions.values())
    found = parts[0]
    for p in parts[1:]:
        found = builder.let(body, "or", (found, p), hint="empty")
    return found


def first_step(builder: Builder, body: Block) -> Value:
    """Whether the loop is in its first step."""
    assert body.loop is not None
    if "first" not in body.memo:
        first = builder.value("first", (), dtypes.bool_)
        builder.put(body, IsFirst(first, body.loop.binding))
        body.memo["first"] = first
    value = body.memo["first"]
    assert isinstance(value, Value)
    return value


def _old_states(builder: Builder, roll: int, body: Block) -> list[tuple[int, Value | None]]:
    """The reductions of this loop whose old states the update reads, each with its state (``None`` for a mean or a closed form)."""
    assert body.loop is not None
    facts, axis, level = builder.facts, body.loop.binding.axis, body.loop.level
    found: dict[int, Value | None] = {}
    seen: set[tuple[int, bool]] = set()
    todo = [(facts.nodes[roll].args[1], False)]
    while todo:
        node, old = todo.pop()
        if (node, old) in seen:
            continue
        seen.add((node, old))
        n = facts.nodes[node]
        if n.op == "ref" and n.attrs[1] == axis:
            if n.attrs[0] == "old":
                todo.append((n.args[0], True))
        elif n.op == "pre" and n.attrs[0] == axis:
            found[n.args[0]] = builder.state_of(n.args[0], body)
        elif n.reduction:
            if old and n.attrs[1] == axis and facts.level(node, axis) > level:
                found[node] = builder.state_of(node, body)
            elif old and n.op == "reduce":
                todo.append((n.args[0], True))
        else:
            todo += [(x, old) for x in reversed(n.args)]
    return list(found.items())
