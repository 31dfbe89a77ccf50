"""Rewrite rules: equations that check themselves.

Everything that a rule of your own is written with can be imported from here::

    from eqfuse.rewrites import Axis, NonEmpty, Sum, free, rule

:mod:`.rule` is how one is written, :mod:`.patterns` what its sides are made of, :mod:`.facts` its conditions, :mod:`.check` its test,
:mod:`.registry` the table of all.  Every other module here is one family, opened by its mathematics.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .facts import (
    FiniteOr,
    NonEmpty,
    Nonzero,
    NotNegative,
    OtherAxis,
    associative,
    at_least,
    at_least_one,
    at_most,
    at_most_one,
    depends,
    differs,
    divides,
    equal,
    equals,
    finite,
    finite_or,
    free,
    has_type,
    idempotent,
    increasing,
    integer,
    less,
    linear,
    match,
    nonneg,
    nonpos,
    one_of,
    operand,
    operands,
    positive,
    power_of_two,
    relation,
    rounding,
    selective,
    truth,
    turns,
    turns_nonneg,
    wide,
    within,
)
from .patterns import Cast, Const, Extent, Index, Map, Max, Mean, Reduce, Sum, View, Where
from .registry import active, disable, enable, families, register, rules, unregister
from .rule import (
    AnyMonoid,
    Axis,
    IdempotentMonoid,
    LinearMonoid,
    Op1,
    Op2,
    Op3,
    Position,
    Rule,
    Scalar,
    SelectiveMonoid,
    Turns,
    TypeName,
    fact_rule,
    rule,
)
from .verdicts import allow, forbid, offer, require

if TYPE_CHECKING:
    from .check import CheckSummary, check_all, check_rule

__all__ = [
    "AnyMonoid", "Axis", "Cast", "CheckSummary", "Const", "Extent", "FiniteOr", "IdempotentMonoid", "Index", "LinearMonoid", "Map",
    "Max", "Mean", "NonEmpty", "Nonzero", "NotNegative", "Op1", "Op2", "Op3", "OtherAxis", "Position", "Reduce", "Rule", "Scalar",
    "SelectiveMonoid", "Sum", "Turns", "TypeName", "View", "Where", "active", "allow", "associative", "at_least", "at_least_one",
    "at_most", "at_most_one", "check_all", "check_rule", "depends", "differs", "disable", "divides", "enable", "equal", "equals",
    "fact_rule", "families", "finite", "finite_or", "forbid", "free", "has_type", "idempotent", "increasing", "integer", "less",
    "linear", "match", "nonneg", "nonpos", "offer", "one_of", "operand", "operands", "positive", "power_of_two", "register",
    "relation", "require", "rounding", "rule", "rules", "selective", "truth", "turns", "turns_nonneg", "unregister", "wide", "within",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in ("CheckSummary", "check_all", "check_rule"):  # they draw with Hypothesis, which nothing else here needs
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(".check", __name__), name)
