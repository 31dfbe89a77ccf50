"""Computing what premises define, in dependency order, in whatever arithmetic the world has.

The same drawn numbers are solved in several arithmetics (:mod:`.compare` asks for longer floats), and at several references: the
value of a repair fact ``tn`` at the new reference is compared with the *definition* of ``t`` read there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...ir.semantics import Undefined
from .. import patterns as P
from ..comparisons import Compare
from ..facts import Condition
from ..patterns import NameVar, Var
from ..relations import Vanishing
from ..world import World
from .compare import alike
from .variables import Plan, columns, name_of


class Unsatisfied(Exception):
    """The drawn numbers do not obey the premises."""


def solve(plan: Plan, drawn: World) -> World:
    """A world with everything that premises define; raises :class:`Unsatisfied` if they cannot all hold."""
    world = replace(drawn, values=dict(drawn.values), old={}, refs={})
    for name, value in drawn.values.items():
        if name.endswith(" at new"):
            world.refs["new", name.removesuffix(" at new")] = value
        elif name.endswith(" at old"):
            world.old[name.removesuffix(" at old")] = name
    for m in plan.rows:
        if m.fact.relation.name != "function-of" and isinstance(m.tn, Var) and isinstance(m.t, Var):
            world.old[m.tn.name] = m.t.name
        if m.fact.relation.name in ("changes-by-term", "changes-by-factor") and name_of(m.kind, world) == "run" and isinstance(m.rest, Var):
            world.old[m.rest.name] = f"{m.rest.name} at old"  # no change: from the old reference to itself
            world.values[f"{m.rest.name} at old"] = world.full(0 if m.fact.relation.name == "changes-by-term" else 1)
    pending = sorted(plan.equations(world), key=lambda e: isinstance(e[1], Vanishing))  # what vanishes is adjusted to what is matched
    while pending:
        left = []
        for var, expr, fact in pending:
            try:
                value = expr.value(world)
                known = var.value(world) if not isinstance(var, Var) or var.name in world.values else None
            except KeyError:
                left.append((var, expr, fact))
                continue
            if known is None:
                world.values[var.name] = value
            elif not world.noisy and isinstance(expr, Vanishing):
                if not np.all(~expr.where(world) | expr.admits(known)):
                    if expr.r.name not in drawn.values:
                        raise Unsatisfied
                    _see_something(expr, known, world)
            elif not world.noisy and not alike(known, value, world):
                raise Unsatisfied
        if len(left) == len(pending):
            raise Unsatisfied
        pending = left
    if world.noisy:  # that premises hold without errors has been seen
        return world
    for fact in plan.rule.needs:
        if isinstance(fact, Condition | Compare) and not fact.holds(world):
            raise Unsatisfied
    for row, claim in plan.assumed():
        if not np.all(claim.holds(*arguments(row, world))):
            raise Unsatisfied
    return world


def _see_something(claim: Vanishing, x: np.ndarray, world: World) -> None:
    """Make a drawn reference finite wherever ``x`` does not vanish, so that the premise holds."""
    r = world.values[claim.r.name]
    wrong = claim.where(world) & ~claim.admits(x)
    wrong = np.broadcast_to(wrong, np.broadcast_shapes(wrong.shape, r.shape))
    over = tuple(k for k, n in enumerate(r.shape) if n == 1)
    world.values[claim.r.name] = np.where(wrong.any(axis=over, keepdims=True), world.numbers(0.0), r)


def arguments(row: Any, world: World) -> tuple[Any, ...]:
    """The columns of a row as a :class:`~eqfuse.rewrites.relations.Claim` reads them."""
    cells = columns(row, world)
    axes = [a.position(world) for a in cells if isinstance(a, P.AxisVar)]
    out: list[Any] = []
    for cell in cells:
        if isinstance(cell, P.AxisVar):
            out.append(cell.position(world))
        elif isinstance(cell, P.Pattern):
            x = cell.value(world)
            for k in axes:
                x = x if x.shape[k] == world.extents[k] else np.repeat(x, world.extents[k], axis=k)
            out.append(x)
        elif hasattr(cell, "value"):
            out.append(cell.value(world))
        else:
            out.append(cell)
    return tuple(out)


def ahead(plan: Plan, world: World) -> World:
    """The world read at the new reference: what rows move has its new value, what may contain a running value has another one, and
    what is matched is computed from that."""
    there = replace(world, values=dict(world.values))
    fixed: set[str] = set()
    for name in world.values:
        if name.endswith(" at new"):
            base = name.removesuffix(" at new")
            then, now = world.values[name], world.values[base]
            there.values[base] = then if world.rational else np.where(np.isnan(now), now, then)  # what has seen a NaN stays one
            fixed.add(base)
    for m in plan.rows:
        if isinstance(m.t, Var):
            there.values[m.t.name] = m.tn.value(world)
            fixed.add(m.t.name)
    return _rematch(plan, there, fixed)


def elsewhere(plan: Plan, world: World, rng: np.random.Generator) -> World:
    """The world at another *final* value of every reference: old, new and changes stay, what the program computes is different.

    A running fact may mention the references only through ``Ref`` and what premises give; a bare ``r`` would be the final value.
    """
    there = replace(world, values=dict(world.values), old=dict(world.old), refs=dict(world.refs))
    for tn, t in world.old.items():
        there.values[f"{t} at old"] = world.values[t]
        there.old[tn] = f"{t} at old"
    fixed: set[str] = set()
    names = {v.name for m in plan.rows if isinstance(m.kind, NameVar) or m.kind != "loc" for v in (m.t, m.r) if isinstance(v, Var)}
    names |= {name for when, name in world.refs if when == "new"}
    for name in sorted(names & world.values.keys()):
        old = world.values[name]
        there.refs.setdefault(("old", name), old)
        if world.rational:
            there.values[name] = old + P.Fraction(7, 3)
        else:
            other = np.where(np.isfinite(old), old, 0) + world.numbers(rng.normal(size=old.shape))
            there.values[name] = np.where(np.isnan(old), old, other)
        fixed.add(name)
    return _rematch(plan, there, fixed)


def _rematch(plan: Plan, there: World, fixed: set[str]) -> World:
    """Compute again what matches define, but for the fixed."""
    pending = {n: p for n, p in plan.matches.items() if n not in fixed}
    for n in pending:
        there.values.pop(n, None)
    while pending:
        done = []
        for n, p in pending.items():
            try:
                there.values[n] = p.value(there)
            except KeyError:
                continue
            done.append(n)
        if not done:
            raise Undefined("a value that depends on itself")
        for n in done:
            del pending[n]
    return there
