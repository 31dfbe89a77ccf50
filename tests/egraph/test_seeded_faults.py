"""Faults seeded into a saturation: what the audit, the second net, makes of each mutant, and faults in other links."""

from __future__ import annotations

import dataclasses

import mutants
import numpy as np
import pytest

from eqfuse.egraph import run
from eqfuse.egraph.audit import audit
from eqfuse.egraph.saturate import saturate
from eqfuse.errors import UnsoundGraphError, UnsoundRuleError
from eqfuse.ir import ops, ranges
from eqfuse.ir.build import axes, exp, maximum_over, program, square, sum_over, tensor
from eqfuse.ir.program import Program
from eqfuse.rewrites import registry
from eqfuse.rewrites.check import check_rule

ALL = mutants.mutants()
i, j = axes(i=4, j=8)
x = tensor("x", i, j)

pytestmark = pytest.mark.unaudited


def _ids(m):
    return m.name


@pytest.mark.parametrize("m", ALL, ids=_ids)
def test_the_audit_does_what_is_recorded(m):
    """It fails and names the mutant, and only the mutant, as the first rule that was wrong; what it does not find is listed."""
    outcome = mutants.by_audit(m)
    assert outcome.word == m.audit, outcome.text
    assert outcome.names == m.named, outcome.text
    if m.audit == "blames":
        assert f"by {m.name}: " in outcome.text


def beside_many(p: Program, blocks: int = 120) -> Program:
    """A program beside so many attentions that its graph is large."""
    a, b, c, d = axes(za=5, zb=7, zc=3, zd=4)
    out = {}
    for k in range(blocks):
        s = sum_over(c, tensor(f"zq{k}", a, c) * tensor(f"zk{k}", b, c))
        e = exp(s - maximum_over(b, s))
        out[f"z{k}"] = (sum_over(b, e * tensor(f"zv{k}", b, d)) / sum_over(b, e), (a, d))
    more = program("more", **out)
    return Program(p.name, p.outputs + more.outputs, p.inputs + more.inputs)


@pytest.mark.parametrize("family", ["signs", "layout", "tiling", "repair"])
def test_a_mutant_is_named_in_a_large_graph_too(family):
    """The program is made small first, and the rule is searched for in what is left."""
    m = next(m for m in mutants.mutants(family) if m.audit == "blames")
    p = beside_many(m.program())

    def audits(graph, rules):
        for seed in range(mutants.SEEDS):
            for masked in (False, True):
                audit(graph, seed=seed, masked=masked, rules=rules)

    with mutants.beside(m.rule) as rules:
        graph = saturate(p, rules=rules, splits={a: m.splits[a.name] for a in p.axes if a.name in m.splits})
        assert graph.enodes > 4_000
        with pytest.raises(UnsoundGraphError, match="the minimal program is first wrong") as caught:
            audits(graph, rules)
    assert caught.value.rules == m.named
    assert caught.value.minimal.count("tensor(") <= 4


@pytest.mark.parametrize("family", mutants.FAMILIES)
def test_the_audit_blames_mutants_of_every_family(family):
    found = [m for m in mutants.mutants(family) if m.audit == "blames"]
    assert len(found) >= 5
    assert len({m.kind for m in found}) >= 3


def test_every_mutant_has_a_program_in_which_it_fires():
    """What is silent has matched: ``idle`` is another outcome."""
    assert all(m.program for m in ALL)
    assert {m.audit for m in ALL} == {"blames", "finds", "silent"}


def test_what_the_audit_cannot_find_says_why():
    assert {m.name for m in ALL if m.why} == set(mutants.SILENT)
    assert len(mutants.SILENT) <= 14


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
                check_rule(r)
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
    for make, splits, order in dict.fromkeys((m.program, tuple(m.splits.items()), m.rule.phase == run.ORDER) for m in ALL):
        p = make()
        parts = {a: n for a in p.axes for name, n in splits if a.name == name}
        graph = saturate(p, splits=parts, node_budget=2_000, order=order)
        for seed in range(mutants.SEEDS // 2):
            for masked in (False, True):
                audit(graph, seed=seed, masked=masked, shrink_seconds=0)
