"""What a check needs to know of a rule before it draws anything: its variables, what premises define, what names may stand for.

The engine matches what the premises say and nothing else, so names are drawn from *all* ops or monoids that the premises allow: an
annotation says of what sort a parameter is, never what is true of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import RuleError
from ...ir.dtypes import DTYPES
from ...ir.monoids import MONOIDS
from ...ir.ops import OPS
from ...ir.semantics import RATIONAL
from .. import patterns as P
from ..comparisons import OneOf
from ..facts import Condition, Equal, Fact, Match, NonEmpty, OtherAxis, Search, Settled
from ..patterns import AxisVar, NameVar, NumberVar, Pattern, Roll, Var, name_of
from ..positions import IndexVar
from ..relations import (
    Claim,
    Equation,
    Row,
    Trait,
    changes_by_factor,
    changes_by_form,
    changes_by_term,
    function_of,
    kept_where,
    least_where,
    lost_where,
    zero_where,
)
from ..rule import Rule, several
from ..world import World
from . import dictionary

AXES = 5  # that a rule may name


def columns(row: Row, world: World) -> tuple[Any, ...]:
    """A row's columns with names as strings."""
    return tuple(name_of(a, world) if isinstance(a, NameVar) else a for a in row.args)


def claims_nothing(rule: Rule, fact: Fact) -> bool:
    """Whether a conclusion only makes a node, steers the search, or speaks to extractors."""
    if isinstance(fact, Match):
        return True
    if isinstance(fact, Row):
        return fact.relation.demand
    return rule.phase == "fusion" and not isinstance(fact, Equal | Condition) and not hasattr(fact, "test")


@dataclass(frozen=True)
class Moved:
    """A premise or conclusion about a value at another reference: ``tn`` is ``t`` at the new one."""

    fact: Row
    kind: str | NameVar
    axis: AxisVar
    t: Any
    r: Any
    tn: Any
    rest: Any  # the change, the form, or the value at the old reference


def moved(fact: Any) -> Moved | None:
    """The reading of a repair row, or ``None``."""
    if not isinstance(fact, Row) or fact.relation not in (changes_by_term, changes_by_factor, function_of, changes_by_form):
        return None
    if fact.relation in (changes_by_term, changes_by_factor):
        kind, axis, t, r, tn, rest = fact.args
        return Moved(fact, kind, axis, t, r, tn, rest)
    axis, t, r, tn, rest = fact.args
    return Moved(fact, "run", axis, t, r, tn, rest)


@dataclass(frozen=True)
class Plan:
    """A rule, taken apart for its check."""

    rule: Rule

    def __post_init__(self) -> None:
        if len(self.axes) > AXES:
            raise RuleError(f"rule {self.rule.name} names more than {AXES} axes", where=self.rule.where, cure="use fewer axes")

    @cached_property
    def variables(self) -> dict[str, Any]:
        """All variables of premises and conclusions by name."""
        found: dict[str, Any] = {}
        for fact in (*self.rule.needs, *self.rule.gives):
            for part in fact.parts():
                for v in P.walk(part):
                    if isinstance(v, Var | AxisVar | NameVar | IndexVar | NumberVar):
                        found.setdefault(v.name, v)
        return found

    @cached_property
    def literals(self) -> tuple[float, ...]:
        """The numbers that the rule names."""
        return dictionary.literals((*self.rule.needs, *self.rule.gives))

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of axes at which the rule may change."""
        types = [n.to for n in self.nodes() if isinstance(n, P.Cast) and isinstance(n.to, str)]
        positions = any(isinstance(n, P.Extent) for n in self.nodes())
        return dictionary.lengths((*self.literals, *(dictionary.whole_numbers(t) for t in types if positions)))

    @cached_property
    def named_integers(self) -> list[str]:
        """Integer types that it casts to."""
        return [n.to for n in self.nodes() if isinstance(n, P.Cast) and isinstance(n.to, str) and DTYPES[n.to].kind == "int"]

    @cached_property
    def only_lengths(self) -> set[str]:
        """Axes of which the rule says nothing but how long they are: no value need have them."""
        used: set[str] = set()
        for n in (*self.rule.needs, *self.rule.gives, *self.nodes()):
            if not isinstance(n, P.LengthNumber | NonEmpty | OtherAxis) and type(n) is not P.Extent and hasattr(n, "parts"):
                used |= {a.name for a in n.parts() if isinstance(a, AxisVar)}
        return {a.name for a in self.axes} - used

    @cached_property
    def tests_itself(self) -> bool:
        """Whether a conclusion brings its own test, which may cost much for every number."""
        return any(hasattr(f, "test") for f in self.rule.gives)

    @cached_property
    def axes(self) -> list[AxisVar]:
        """The axes that the rule names."""
        return [v for v in self.variables.values() if isinstance(v, AxisVar)]

    @cached_property
    def may_coincide(self) -> list[tuple[str, str]]:
        """Pairs of axis variables that no premise tells apart: the engine may match both to one axis."""
        apart = {frozenset((f.a.name, f.b.name)) for f in self.rule.needs if isinstance(f, OtherAxis)}
        for f in self.rule.needs:
            if isinstance(f, Row) and f.relation.given:
                names = [a.name for a in f.args if isinstance(a, AxisVar)]
                apart |= {frozenset((a, b)) for a in names for b in names if a != b}
        names = [a.name for a in self.axes]
        return [(a, b) for k, a in enumerate(names) for b in names[k + 1 :] if frozenset((a, b)) not in apart]

    @cached_property
    def forms(self) -> bool:
        """Whether sides read values at the old reference: linear forms and accumulators, and what is said to be the same there."""
        return any(isinstance(n, P.Along | P.Pre | P.Summed) for n in self.nodes()) or any(isinstance(f, Settled) for f in self.rule.gives)

    @cached_property
    def tensors(self) -> list[Var]:
        """The variables that stand for values."""
        return [v for v in self.variables.values() if isinstance(v, Var)]

    @cached_property
    def choices(self) -> dict[str, tuple[str, ...]]:
        """What each name variable may stand for, by the premises."""
        return {n: self._choices(v) for n, v in self.variables.items() if isinstance(v, NameVar)}

    def _choices(self, v: NameVar) -> tuple[str, ...]:
        drawn = v.choices()
        sort = OPS if set(drawn) & set(OPS) else MONOIDS if set(drawn) & set(MONOIDS) else None
        names = drawn if sort is None else tuple(sort)
        arity = {len(node.args) for node in self.nodes() if isinstance(node, P.Map) and node.op is v}
        arity |= {v.arity} if v.arity is not None else set()
        if sort is OPS and arity:
            names = tuple(n for n in names if OPS[n].arity in arity)
        parts = {len(n.args) // (1 + isinstance(n, P.Merge)) for n in self.nodes() if isinstance(n, P.Folded | P.Merge) and n.monoid is v}
        if parts and parts != {1}:
            names = several(*parts)
        elif any(isinstance(node, P.Scan) and node.monoid is v for node in self.nodes()):
            names = tuple(n for n in names if MONOIDS[n].prefixes is not None)
        for fact in self.rule.needs:
            if isinstance(fact, OneOf) and fact.variable is v:
                names = tuple(n for n in names if n in fact.names)
            if isinstance(fact, Row) and isinstance(fact.relation.meaning, Trait) and fact.args[0] is v:
                trait = fact.relation.meaning
                literals = fact.args[1:] if trait.number is None else ()
                if trait.names is not None and not all(isinstance(a, str) for a in literals + fact.args[1:2]):
                    names = tuple(n for n in names if any(n == row[0] for row in trait.rows()))
                elif all(isinstance(a, str) for a in literals):
                    names = tuple(n for n in names if trait.holds(n, *literals))
                if trait.number is not None and isinstance(fact.args[-1], P.NumberLiteral):
                    names = tuple(n for n in names if trait.number(n) == fact.args[-1].number)
        return names

    @cached_property
    def rational(self) -> bool:
        """Whether exact rationals can evaluate the rule, for at least one choice of its names."""
        for node in self.nodes():
            if isinstance(node, P.Map) and isinstance(node.op, str) and node.op not in RATIONAL:
                return False
            if isinstance(node, P.NumberLiteral) and not np.isfinite(node.number):
                return False
        unseen = (least_where, zero_where, lost_where, kept_where)
        if any(isinstance(f, Row) and f.relation in unseen for f in (*self.rule.needs, *self.rule.gives)) or self.tests_itself:
            return False
        return all(any(c not in OPS or c in RATIONAL for c in choices) for choices in self.choices.values())

    @cached_property
    def jumps(self) -> bool:
        """Whether the rule has a function that is not continuous, for at least one choice of its names."""
        nodes = list(self.nodes())
        ops = {n.op for n in nodes if isinstance(n, P.Map) and isinstance(n.op, str)}.union(*self.choices.values())
        casts = [n.to for n in nodes if isinstance(n, P.Cast)]
        by_value = any(isinstance(n, P.Gather) for n in nodes) or any(not isinstance(t, str) or not DTYPES[t].is_float for t in casts)
        return by_value or any(OPS[op].jumps or OPS[op].domain == "whole" for op in ops & OPS.keys())

    def nodes(self) -> Iterator[Any]:
        """Every node and variable of the rule."""
        for fact in (*self.rule.needs, *self.rule.gives):
            for part in fact.parts():
                yield from P.walk(part)

    @cached_property
    def styles(self) -> dict[str, dict[str, Any]]:
        """What premises say of drawn values."""
        out: dict[str, dict[str, Any]] = {}
        for fact in self.rule.needs:
            if isinstance(fact, Condition) and isinstance(fact.x, Var):
                fact.constrain(out.setdefault(fact.x.name, {}))
            elif isinstance(fact, Row) and isinstance(fact.relation.meaning, Equation):
                for value, axis in fact.relation.meaning.free:
                    if isinstance(fact.args[value], Var):
                        out.setdefault(fact.args[value].name, {}).setdefault("free", set()).add(fact.args[axis].name)
                if fact.relation in (changes_by_term, changes_by_factor) and isinstance(fact.args[5], Var):
                    out.setdefault(fact.args[5].name, {})["finite"] = True
            elif isinstance(fact, Row) and fact.relation.name == "onehot" and isinstance(fact.args[0], Var):
                out.setdefault(fact.args[0].name, {})["onehot"] = fact.args[1].name
        for n in self.nodes():
            if isinstance(n, P.Map) and isinstance(n.op, str) and n.op == "where" and isinstance(n.args[0], Var):
                out.setdefault(n.args[0].name, {})["asked"] = True
        return out

    def equations(self, world: World) -> list[tuple[Any, Any, Fact]]:
        """Premises as (defined value, expression, premise)."""
        out: list[tuple[Any, Any, Fact]] = []
        for fact in self.rule.needs:
            if isinstance(fact, Match):
                out.append((fact.var, fact.pattern, fact))
            elif isinstance(fact, Row) and isinstance(fact.relation.meaning, Equation):
                out.append((*fact.relation.meaning.sides(*columns(fact, world)), fact))
        return out

    def assumed(self) -> list[tuple[Row, Claim]]:
        """Premises that are predicates, to be filtered by."""
        rows = [(f, f.relation.meaning) for f in self.rule.needs if isinstance(f, Row)]
        return [(row, meaning) for row, meaning in rows if isinstance(meaning, Claim) and meaning.assumed]

    @cached_property
    def rows(self) -> list[Moved]:
        """Premises about values at another reference."""
        return [m for f in self.rule.needs if (m := moved(f))]

    @cached_property
    def matches(self) -> dict[str, Pattern]:
        """What each value is matched as, first match first."""
        out: dict[str, Pattern] = {}
        for fact in self.rule.needs:
            if isinstance(fact, Match):
                out.setdefault(fact.var.name, fact.pattern)
        return out

    @cached_property
    def moves(self) -> bool:
        """Whether the rule speaks of values at another reference, so that anything not protected may depend on it."""
        return any(moved(f) or (isinstance(f, Equal) and isinstance(f.right, Roll)) for f in self.rule.gives)

    @cached_property
    def unmoved(self) -> set[str]:
        """Values that a premise protects from containing a running value."""
        out = {v.name for f in self.rule.needs if isinstance(f, Search) for v in f.unmoved}
        return out | {f.x.name for f in self.rule.needs if isinstance(f, Settled) and isinstance(f.x, Var)}
