"""What a rule's conclusions say about one solved world: pairs of arrays that must agree, and conditions that must hold.

A fact about repair says three things, and each is looked at: T(new) = rho(old, new) * T(old), as an equation; its ``tn`` *is* T read
at the new reference, which is computed from the definition of T; and nothing in it mentions the final value of the reference, which
a loop does not have while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .. import patterns as P
from ..facts import Condition, Equal, Fact, Settled, Within
from ..patterns import Pattern, Roll, Var
from ..relations import Equation, Row, Trait, Vanishing
from ..world import World
from .compare import Observation, Pair, Truth, short
from .solve import ahead, arguments, elsewhere
from .variables import Moved, Plan, claims_nothing, columns, moved, name_of


def observe(plan: Plan, fact: Fact, world: World) -> Iterator[Observation]:
    """The observations of one conclusion."""
    if claims_nothing(plan.rule, fact):
        return
    if isinstance(fact, Equal):
        if isinstance(fact.right, Roll):
            yield from _loop(plan, fact, fact.right, world)
            return
        world.acc = _own_state(plan, world)
        yield Pair(fact.left.value(world), fact.right.value(world), ("left", "right"))
    elif isinstance(fact, Condition):
        if isinstance(fact, Settled) and isinstance(fact.x, Var):  # what it is at the old reference follows from what it is made of
            fact = Settled(plan.matches.get(fact.x.name, fact.x))
        yield _condition(fact, world)
    elif isinstance(fact, Row):
        yield from _row(plan, fact, world)
    else:
        count, text = _own_test(fact, world)
        yield Truth(not text, text, count)


def _own_test(fact: Any, world: World) -> tuple[int, str]:
    """A fact that tests itself raises AssertionError."""
    if world.dtype is not float:
        return 0, ""
    try:
        return int(fact.test(world)), ""
    except AssertionError as error:
        return 1, str(error)


def _condition(fact: Condition, world: World) -> Truth:
    x = np.asarray(fact.x.value(world))
    count = int(np.sum(~np.isnan(x))) if x.dtype != object else x.size
    bound = f" {float(fact.size.value(world)):g}" if isinstance(fact, Within) else ""
    bad = None if (bad := fact.breaks(x, world)) is None else np.asarray(bad, bool)
    holds = fact.holds(world) if bad is None else not bad.any()
    return Truth(holds, f"{type(fact).__name__}{bound} does not hold of {short(x)}", count, bad)


def _row(plan: Plan, row: Row, world: World) -> Iterator[Observation]:
    meaning = row.relation.meaning
    if isinstance(meaning, Trait):
        cells = columns(row, world)
        names = cells if meaning.number is None else cells[:-1]
        holds = meaning.holds(*names)
        if holds and meaning.number is not None:
            holds = float(cells[-1].value(world)) == meaning.number(names[0])
        yield Truth(holds, f"{row.relation.name} does not hold of {', '.join(names)}", 1)
    elif isinstance(meaning, Equation):
        yield from _equation(plan, row, meaning, world)
    else:
        assert meaning is not None, row
        where = np.asarray(meaning.holds(*arguments(row, world)))
        yield Truth(bool(where.all()), f"{row.relation.name} does not hold: {row.relation.doc}", where.size)


def _equation(plan: Plan, row: Row, meaning: Equation, world: World) -> Iterator[Observation]:
    left, right = meaning.sides(*columns(row, world))
    if isinstance(right, Vanishing):
        x, known = np.broadcast_arrays(left.value(world), right.where(world))
        holds = known & (x == x)
        text = f"{row.relation.name} does not hold: {short(x)} where the reduction is {short(right.r.value(world))}"
        yield Truth(bool(np.all(right.admits(x[holds]))), text, int(holds.sum()))
        return
    for value, axis in meaning.free:
        at = row.args[axis].position(world)
        free = row.args[value].value(world).shape[at] == 1
        yield Truth(free, f"{row.relation.name} says that column {value + 1} does not depend on axis {row.args[axis].name}", 1)
    fact = moved(row)
    where = None
    if fact and row.relation.name in ("changes-by-term", "changes-by-factor") and name_of(fact.kind, world) == "run" and not world.rational:
        where = ~np.isinf(fact.t.value(world))  # where the old value is infinite nothing has been seen, and loops do not ask
        for x in [fact.r, *(m.t for m in plan.rows)]:
            where = where & ~np.isnan(x.value(world))  # one NaN makes all later values of its reduction NaN
    yield Pair(left.value(world), right.value(world), (row.relation.name, "its meaning"), where)
    if fact:
        yield from _reference(plan, fact, world)


def _reference(plan: Plan, fact: Moved, world: World) -> Iterator[Observation]:
    """Whether ``tn`` is t at the new reference, and mentions no final value."""
    running = name_of(fact.kind, world) == "run"
    if plan.rows or (running and isinstance(fact.t, Var) and fact.t is fact.r):
        there = ahead(plan, world)
        if isinstance(fact.t, Var) and fact.t.name in there.values and (fact.t.name in plan.matches or fact.t.name in _moved_names(plan)):
            yield Pair(fact.tn.value(world), there.values[fact.t.name], ("the new value", "the value at the new reference"))
    if running:
        other = elsewhere(plan, world, np.random.default_rng(7))
        yield Pair(fact.tn.value(world), fact.tn.value(other), ("the new value", "the same with another final reference"))
        if isinstance(fact.rest, Pattern) and fact.fact.relation.name != "function-of":
            yield Pair(fact.rest.value(world), fact.rest.value(other), ("the change", "the same with another final reference"))


def _moved_names(plan: Plan) -> set[str]:
    return {m.t.name for m in plan.rows if isinstance(m.t, Var)} | {f.r.name for g in plan.rule.gives if (f := moved(g))}


def _own_state(plan: Plan, world: World) -> np.ndarray | None:
    """What ``Acc`` stands for outside a loop: the sum over the stretch of the body that a premise calls its own."""
    for pattern in plan.matches.values():
        if isinstance(pattern, P.Summed):
            return world.reduce("sum", pattern.axis.position(world), pattern.own.value(world.back()))
    return None


def _loop(plan: Plan, fact: Equal, roll: Roll, world: World) -> Iterator[Observation]:
    """The loop invariant over one stretch of the axis, and that the body is what is reduced, at the new reference."""
    old, new = roll.body.value(world.back()), roll.body.value(world)
    inner = replace(world, acc=roll.state(old, world))
    monoid = P.MONOIDS[name_of(roll.monoid, world)]
    if monoid.state == "sum" or roll.axis.extent(world):
        yield Pair(roll.state(new, world), roll.update.value(inner), ("state at the new reference", "updated state"))
    whole = plan.matches.get(fact.left.name) if isinstance(fact.left, Var) else None
    if isinstance(whole, P.Reduce):
        same = name_of(whole.monoid, world) == monoid.name and whole.axis.name == roll.axis.name
        yield Truth(same, "the loop has another monoid or axis than the reduction", 1)
        if isinstance(whole.x, Var) and plan.rows:
            there = ahead(plan, world)
            yield Pair(new, there.values[whole.x.name], ("the loop's body", "what is reduced, at the new reference"))
