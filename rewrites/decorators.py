"""``@rule`` and ``@fusion``: a function becomes a rule, which is tested and enters the table."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..errors import RuleError, expect
from . import registry
from .patterns import AxisVar, walk
from .rule import Rule, make_rule
from .verdicts import MOST_AXES, MOST_READS, Offer, Verdict, places


def rule(
    function: Callable[..., Any] | None = None,
    /,
    *,
    family: str = "user",
    licence: str = "real",
    phase: str = "factor",
    mirrored: bool = True,
    register: bool = True,
) -> Any:
    """Register the rule that a function describes; ``@rule`` or ``@rule(family=..., licence=...)``.

    ``licence``: the equality it claims, ``exact`` (the same bits), ``real`` or ``approx``.  ``phase``: when it runs, one of ``PHASES``.
    ``register=False`` leaves it out of the table: for ``optimize(..., rules=[...])``.

    Raises :class:`~eqfuse.errors.RuleError` for a malformed rule, and for one outside the package its subclass
    :class:`~eqfuse.errors.UnsoundRuleError` if random arrays refute it.
    """
    expect(isinstance(register, bool), "register", register, "register=False leaves the rule out of the table", RuleError)
    if function is None:
        return lambda f: rule(f, family=family, licence=licence, phase=phase, mirrored=mirrored, register=register)
    for option, value in (("family", family), ("licence", licence), ("phase", phase)):
        expect(isinstance(value, str), option, value, "a text, as @rule(family='mine', licence='real', phase='factor')", RuleError)
    expect(isinstance(mirrored, bool), "mirrored", mirrored, "True or False", RuleError)
    expect(inspect.isfunction(function), "what rule() is given", function, "a function that returns both sides of an equation", RuleError)
    made = make_rule(function, family, licence, phase, mirrored)
    return registry.register(made) if register else made


fact_rule = rule


def fusion(function: Callable[..., Any] | None = None, /, *, register: bool = True) -> Any:
    """Register a fusion rule: a function of pattern variables that returns premises and verdicts or offers.

    ``([premises], conclusion)`` or ``([premises], [conclusions])``, each conclusion one of :func:`forbid`, :func:`require`,
    :func:`allow`, :func:`offer`.  ``register=False`` leaves it out of the table: for ``optimize(..., rules=[...])``.
    """
    if function is None:
        return lambda f: fusion(f, register=register)
    expect(inspect.isfunction(function), "what fusion() is given", function, "a function that returns premises and verdicts", RuleError)
    expect(isinstance(register, bool), "register", register, "True or False", RuleError)
    made = _with_its_name(make_rule(function, "fusion", "exact", "fusion", True))
    return registry.register(made) if register else made


def _with_its_name(rule: Rule) -> Rule:
    """The rule with its name in every conclusion, and the axes that each offer needs to know."""
    places[rule.name] = rule.where
    bound = {v.name: v for f in rule.needs for p in f.parts() for v in walk(p) if isinstance(v, AxisVar)}
    gives = []
    if rule.others:
        raise RuleError(f"rule {rule.name} has choices", where=rule.where, cure="write a fusion rule for each")
    if sum(isinstance(f, Offer) for f in rule.gives) > 1:  # rows of the engine name the rule that they come from
        raise RuleError(f"rule {rule.name} makes more than one offer", where=rule.where, cure="write a rule for each")
    for fact in rule.gives:
        if isinstance(fact, Verdict):
            fact = replace(fact, by=rule.name)
        elif isinstance(fact, Offer):
            named = dict.fromkeys(a.name for v in (fact.result, *fact.reads) for a in v[1:])
            axes = tuple(bound[n] for n in named if n in bound)
            if len(axes) > MOST_AXES or len(fact.reads) > MOST_READS:
                raise RuleError(
                    f"rule {rule.name}: more than {MOST_READS} tensors or {MOST_AXES} bound axes",
                    where=rule.where,
                    cure="offer less at once",
                )
            fact = replace(fact, by=rule.name, where=rule.where, bound=axes)
        else:
            raise RuleError(f"rule {rule.name}: concludes {fact!r}", where=rule.where, cure="conclude forbid, require, allow or offer")
        gives.append(fact)
    claims = any(isinstance(f, Offer) for f in gives)
    return replace(rule, gives=tuple(gives), licence="real" if claims else rule.licence)
