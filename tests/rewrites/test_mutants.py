"""Every seeded fault is refuted by its rule's check, with its place and a counterexample; every family has enough of them."""

from __future__ import annotations

import mutants
import numpy as np
import pytest

from eqfuse import errors
from eqfuse.rewrites import registry
from eqfuse.rewrites.check import check_rule
from eqfuse.rewrites.library import FAMILIES

ALL = mutants.mutants()


@pytest.mark.parametrize("m", ALL, ids=lambda m: m.name)
def test_mutant_is_false_by_plain_numbers(m):
    """Its premises hold of a few numbers and its conclusion does not: nothing of the package is asked."""
    with np.errstate(all="ignore"):
        premise, conclusion = m.refuted()
    assert bool(premise)
    assert not bool(conclusion)


@pytest.mark.parametrize("m", ALL, ids=lambda m: m.name)
def test_the_check_refutes_the_mutant(m):
    with pytest.raises(errors.UnsoundRuleError) as caught:
        check_rule(m.rule)
    text = str(caught.value)
    assert m.name in text
    assert f"mutants/{m.family}.py:{m.rule.line}" in text
    assert any(f"  {v.name}" in text or f"axis {v.name}" in text for v in m.rule.variables), "no counterexample"


@pytest.mark.parametrize("family", mutants.FAMILIES)
def test_every_family_has_enough_mutants(family):
    """At least five of each family, of several kinds, and each of a registered rule."""
    found = mutants.mutants(family)
    assert len(found) >= 5
    assert len({m.kind for m in found}) >= 3
    assert {m.of for m in found} <= {r.name for r in registry.rules(family)}


def test_every_family_that_claims_something_is_covered():
    """Fusion is left out: its verdicts state nothing of values, so none can be unsound; its offers are compared when they are checked."""
    assert set(mutants.FAMILIES) == set(FAMILIES) - {"fusion"}


def test_mutants_are_not_registered_and_differ():
    names = {r.name for r in registry.rules()}
    assert len({m.name for m in ALL}) == len(ALL)
    rules = {r.name: r for r in registry.rules()}
    for m in ALL:
        assert m.name not in names
        original = rules[m.of]
        assert m.rule.phase == original.phase
        assert m.rule.licence == original.licence or m.kind == "licence"


def test_the_rules_that_were_broken_hold():
    """The net lets the sound ones through: each original passes the check that refutes its mutants."""
    rules = {r.name: r for r in registry.rules()}
    for name in sorted({m.of for m in ALL})[::6]:
        check_rule(rules[name], 100)
