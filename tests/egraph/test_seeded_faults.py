"""Faults seeded into a saturation: what the audit, the second net, makes of each mutant, and faults in other links."""

from __future__ import annotations

import dataclasses

import mutants
import numpy as np
import pytest

from eqfuse.egraph.audit import audit
from eqfuse.egraph.saturate import saturate
from eqfuse.errors import UnsoundGraphError, UnsoundRuleError
from eqfuse.ir import ops, ranges
from eqfuse.ir.build import axes, exp, maximum_over, program, square, sum_over, tensor
from eqfuse.rewrites import registry

ALL = mutants.mutants()
i, j = axes(i=4, j=8)
x = tensor("x", i, j)

pytestmark = pytest.mark.unaudited


def _ids(m):
    return m.name


@pytest.mark.parametrize("m", [m for m in ALL if m.program], ids=_ids)
def test_the_audit_does_what_is_recorded(m):
    outcome, text = mutants.by_audit(m)
    assert outcome == m.audit, text


@pytest.mark.parametrize("family", ["algebra", "reductions", "layout", "tiling", "repair", "reference", "strength"])
def test_the_audit_blames_mutants_of_every_family(family):
    """Facts about signs carry no provenance: there an audit names the value and not the rule."""
    assert sum(m.audit == "blames" for m in mutants.mutants(family)) >= 2


def test_the_table_of_outcomes_is_current():
    assert set(mutants.OUTCOME) <= {m.name for m in ALL if m.program}
    assert not any(m.audit == "blames" for m in mutants.mutants("signs"))


# other links ------------------------------------------------------------------------------------------------------------------------


def changed(monkeypatch, name, **fields):
    """The op with some declarations replaced."""
    monkeypatch.setitem(ops.OPS, name, dataclasses.replace(ops.OPS[name], **fields))


def refuted(*names):
    """Which of the named rules their checks refute."""
    out = []
    for r in registry.rules():
        if r.name in names:
            try:
                r.check()
            except UnsoundRuleError:
                out.append(r.name)
    return out


def test_a_false_homomorphism_is_refuted_through_the_rules_that_use_it(monkeypatch):
    changed(monkeypatch, "tanh", turns=(("add", "mul"),))
    assert refuted("factor_of_exponential", "reference_invariance") == ["factor_of_exponential", "reference_invariance"]


def test_a_false_homomorphism_fails_the_audit(monkeypatch):
    changed(monkeypatch, "square", turns=(("add", "mul"), ("mul", "mul")))
    graph = saturate(program("p", y=(sum_over(j, square(x - maximum_over(j, x))), (i,))))
    with pytest.raises(UnsoundGraphError):
        audit(graph, shrink_seconds=0)


def test_a_false_meaning_fails_the_audit(monkeypatch):
    """exp that computes 2^x: the spelling 2^(x log2 e) disagrees."""
    changed(monkeypatch, "exp", numpy=np.exp2)
    graph = saturate(program("p", y=(exp(x), (i, j))))
    with pytest.raises(UnsoundGraphError, match="exponential_to_base_two"):
        audit(graph, shrink_seconds=0)
    assert refuted("exponential_to_base_two") == ["exponential_to_base_two"]


def test_a_false_range_fails_the_audit(monkeypatch):
    """sin declared to be non-negative."""
    changed(monkeypatch, "sin", range=lambda a: ranges.UNIT)
    from eqfuse.ir.terms import Map

    graph = saturate(program("p", y=(Map("sin", (x,)), (i, j))))
    with pytest.raises(UnsoundGraphError, match="said to be nonneg"):
        audit(graph, shrink_seconds=0)


def test_without_their_mutants_the_programs_pass():
    """The control: what an audit found above was the mutant's doing."""
    for m in ALL:
        if m.audit in ("blames", "finds"):
            p = m.program()
            graph = saturate(p, splits={a: m.splits[a.name] for a in p.axes if a.name in m.splits}, node_budget=2_000)
            for seed in range(mutants.SEEDS):
                for masked in (False, True):
                    audit(graph, seed=seed, masked=masked, shrink_seconds=0)
