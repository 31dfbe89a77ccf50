"""Seeded faults: unsound variants of registered rules, one realistic mistake each.

A net that has never caught anything is not known to be one.  Every module here takes the rules of one family and breaks each in one
way that an author really gets wrong: a condition dropped, a sign guard the wrong way round, ``free`` forgotten, the identity of
another monoid, a split that is off by one, old and new exchanged.  A mutant differs from its rule in nothing else, is never
registered, and carries

``refuted``   why it is false, by an argument that uses nothing of the package: premises and conclusion at a few concrete numbers, in
              plain numpy.  A variant without such numbers would be a different spelling of a true rule, and is not a mutant.
``program``   a small program in which it fires, for the second net, the audit of the saturated graph.
``audit``     what the audit must do: ``blames`` (it fails and names the mutant as the first that was wrong), ``finds`` (it fails, but
              names others), ``silent`` (it passes: whatever the mutant concludes in a program is true; ``why`` says how that comes),
              ``idle`` (nothing in its program matches) or ``none`` (it has no program).

The check of rules must refute every one.

``python -m mutants`` in ``tests/rewrites`` prints the table.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

from eqfuse.egraph import run, saturate, weighing
from eqfuse.egraph.audit import audit
from eqfuse.egraph.frozen import FrozenGraph
from eqfuse.errors import EqFuseError, UnsoundGraphError, UnsoundRuleError
from eqfuse.ir.program import Program
from eqfuse.rewrites import registry
from eqfuse.rewrites.check import check_rule
from eqfuse.rewrites.rule import Rule, make_rule

from .outcomes import FOUND_LATER, OUTCOME, SILENT

FAMILIES = ("analyses", "signs", "algebra", "reductions", "scans", "layout", "gathers", "tiling", "repair", "forms", "selections", "invariance", "strength", "order", "cancelling")
KINDS = (
    "condition dropped", "sign guard", "free missing", "identity", "monoid", "off by one", "old and new swapped", "operand order",
    "trait", "term lost", "count lost", "empty axis", "licence",
)  # fmt: skip
OUTCOMES = ("blames", "finds", "silent", "idle", "none")
__all__ = ["FAMILIES", "SILENT", "by_audit", "by_check", "mutants"]

Claim = tuple[Any, Any]  # whether the premises hold, whether the conclusion does


@dataclass(frozen=True)
class Mutant:
    """An unsound variant of the registered rule ``of``; see the module."""

    rule: Rule
    of: str
    kind: str
    refuted: Callable[[], Claim]
    program: Callable[[], Program] | None
    splits: Mapping[str, int] = field(default_factory=dict)
    why: str = ""

    @property
    def name(self) -> str:
        """The name of its function."""
        return self.rule.name

    @property
    def family(self) -> str:
        """The family of the rule that it breaks."""
        return self.rule.family

    @property
    def audit(self) -> str:
        """What the audit of its program does, one of ``OUTCOMES``."""
        return OUTCOME.get(self.name, "blames") if self.program else "none"

    @property
    def named(self) -> tuple[str, ...]:
        """The rules that the audit says were wrong first."""
        return (self.name,) if self.audit == "blames" else FOUND_LATER.get(self.name, ())


_mutants: list[Mutant] = []


def mutant(
    of: str,
    kind: str,
    refuted: Callable[[], Claim],
    program: Callable[[], Program] | None = None,
    *,
    splits: Mapping[str, int] | None = None,
    why: str = "",
    licence: str | None = None,
) -> Callable[[Callable[..., Any]], Rule]:
    """Make a mutant of the registered rule ``of``: its family, licence, phase and mirroring, another function."""
    (original,) = [r for r in registry.rules() if r.name == of]
    assert kind in KINDS

    def decorate(function: Callable[..., Any]) -> Rule:
        rule = make_rule(function, original.family, licence or original.licence, original.phase, original.mirrored)
        _mutants.append(Mutant(rule, of, kind, refuted, program, splits or {}, why))
        return rule

    return decorate


def mutants(family: str | None = None) -> tuple[Mutant, ...]:
    """All mutants, family by family, in the order of their files."""
    for name in FAMILIES:
        importlib.import_module(f".{name}", __package__)
    return tuple(m for m in _mutants if family is None or m.family == family)


def close(a: Any, b: Any) -> bool:
    """Equal up to rounding; NaN is equal to nothing."""
    return bool(np.allclose(a, b, rtol=1e-9, atol=1e-12))


@contextlib.contextmanager
def beside(rule: Rule) -> Iterator[tuple[Rule, ...]]:
    """The active rules of a saturation and one more."""
    active = (run.for_programs if run.ordered([rule]) else run.for_kernels)(registry.active())
    with mock.patch.object(weighing, "LEAST", -1.0):  # sums of any size are exchanged, as those of small programs are
        yield (*active, rule)


def saturated(m: Mutant, rules: tuple[Rule, ...], node_budget: int = 2_000) -> FrozenGraph:
    """The mutant's program, saturated with rules."""
    assert m.program is not None
    program = m.program()
    splits = {a: m.splits[a.name] for a in program.axes if a.name in m.splits}
    return saturate(program, rules=rules, splits=splits, node_budget=node_budget, shrink_seconds=0, order=run.ordered(rules))


def fired(m: Mutant, graph: FrozenGraph) -> bool:
    """Whether the mutant matched anything."""
    return any(r.rule == m.name and r.matches for r in graph.report.rules)


def by_check(m: Mutant) -> EqFuseError | None:
    """What the rule's own check finds."""
    try:
        check_rule(m.rule)
    except EqFuseError as error:
        return error
    return None


SEEDS = 6


@dataclass(frozen=True)
class Outcome:
    """What an audit of a mutant's program did, in a word of ``OUTCOMES``; what it said, and the rules that it named as first."""

    word: str
    text: str = ""
    names: tuple[str, ...] = ()


def by_audit(m: Mutant) -> Outcome:
    """The outcome of an audit of the mutant's program."""
    if m.program is None:
        return Outcome("none")
    with beside(m.rule) as rules:
        try:
            graph = saturated(m, rules)
            if not fired(m, graph):
                return Outcome("idle")
            for seed in range(SEEDS):
                for masked in (False, True):
                    audit(graph, seed=seed, masked=masked, rules=rules, shrink_seconds=0)
        except UnsoundGraphError as error:
            return Outcome("blames" if m.name in error.rules else "finds", str(error), error.rules)
    return Outcome("silent")


def seeded_faults() -> tuple[tuple[Mutant, bool], ...]:
    """Every mutant, and whether the check of rules refuted it: for ``seeded faults caught: N of N``."""
    return tuple((m, isinstance(by_check(m), UnsoundRuleError)) for m in mutants())
