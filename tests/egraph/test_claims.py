"""Facts are audited as facts: a false one is a finding that names the rule that concluded it, the value, and a small program."""

from __future__ import annotations

import contextlib
import dataclasses
from contextlib import closing

import numpy as np
import pytest

from eqfuse.egraph import audit, blame, saturate
from eqfuse.egraph.audit import _Audit
from eqfuse.egraph.run import Replay
from eqfuse.egraph.schema import claimable
from eqfuse.errors import UnsoundGraphError, UnsoundRuleError
from eqfuse.ir import ops, ranges, terms
from eqfuse.ir.build import axes, exp, log, maximum_over, program, select, square, sum_over, tanh, tensor
from eqfuse.ir.program import Program
from eqfuse.rewrites import check_rule, facts, registry, relations
from eqfuse.rewrites.facts import at_most_one, match, nonneg, positive, truth, within
from eqfuse.rewrites.patterns import Along, Const, Map, Max, NumberLiteral, Sum
from eqfuse.rewrites.relations import (
    changes_by_factor,
    changes_by_form,
    changes_by_term,
    free_factor,
    free_term,
    relation,
    separable,
    zero_where,
)
from eqfuse.rewrites.rule import Axis, make_rule

pytestmark = pytest.mark.unaudited

i, j, d, e = axes(i=5, j=7, d=3, e=4)
x, y = tensor("x", i, j), tensor("y", i, j)


def attention() -> Program:
    q, key = tensor("Q", i, d), tensor("K", j, d)
    s = sum_over(d, q * key)
    p = exp(s - maximum_over(j, s))
    return program("attention", o=(sum_over(j, p * tensor("V", j, e)) / sum_over(j, p), (i, e)))


def other() -> Program:
    return program("other", y=(sum_over(j, tanh(x) * y) + square(maximum_over(j, x)), (i,)), z=(exp(x) + y, (i, j)))


def rules_of(function):
    rule = make_rule(function, "user", "real", "factor", True)
    return (*registry.active(), rule)


def tanh_is_nonneg(t, x):
    """tanh x >= 0, wrongly."""
    return [match(t, Map("tanh", x))], [nonneg(t)]


def tanh_is_positive(t, x):
    """tanh x > 0, wrongly."""
    return [match(t, Map("tanh", x))], [positive(t)]


def tanh_is_at_most_one_half(t, x):
    """|tanh x| <= 1/2, wrongly."""
    return [match(t, Map("tanh", x))], [within(t, NumberLiteral(0.5))]


def tanh_is_true(t, x):
    """tanh x is 0 or 1, wrongly."""
    return [match(t, Map("tanh", x))], [truth(t)]


def factor_of_tanh(t, x, b, k: Axis):
    """tanh(x) * b = tanh(x) * b with tanh(x) free of k, wrongly."""
    a = Map("tanh", x)
    return [match(t, Sum(k, a * b))], [free_factor(a * b, k, a, b)]


def terms_of_product(t, a, b, k: Axis):
    """a*b = a + b, wrongly."""
    return [match(t, Sum(k, a * b))], [free_term(a * b, k, a, b)]


def shift_by_itself(r, s, k: Axis):
    """A maximum moves by itself, wrongly."""
    return [match(r, Max(k, s))], [changes_by_term("run", k, r, r, r + r, r * r)]


def moved_already(r, s, k: Axis):
    """A maximum and its new value are the same at every reference: the factor 1 fits, and at the old reference it is wrong."""
    return [match(r, Max(k, s))], [changes_by_factor("run", k, r, r, r + r, Const(2.0))]


def form_of_itself(r, s, k: Axis):
    """A maximum is twice itself, wrongly."""
    return [match(r, Max(k, s))], [changes_by_form(k, r, r, r, Along(Const(2.0), r))]


def nothing_is_gone(r, s, k: Axis):
    """What a maximum is over is 0 where the maximum is -inf, wrongly: it is -inf."""
    return [match(r, Max(k, s))], [zero_where(s, r, Const(1.0))]


def far_apart(t, a, b):
    """Any two terms may be rounded apart, wrongly: 1e6 x - 1e6 y cancels."""
    return [match(t, a + b)], [separable(a * Const(1e6), -(a * Const(1e6)))]


def audits(graph, rules, masked):
    """At some data."""
    for seed in range(8):
        audit(graph, seed=seed, masked=masked, rules=rules, shrink_seconds=0)


CASES = [
    (tanh_is_nonneg, "is said to be nonneg and is not: -", False),
    (tanh_is_positive, "is said to be", False),
    (tanh_is_at_most_one_half, r"the fact size\(c\d+ = map\[tanh\]\(c\d+\), 0.5\) is false: \|x\| is 0\.", False),
    (tanh_is_true, "is said to be truth and is not", False),
    (factor_of_tanh, r"the fact free-factor\(.*changes along j", False),
    (terms_of_product, r"the fact free-term\(.*t = f \+ b, f free of the axis", False),
    (shift_by_itself, r"the fact changes-by-term\(run, j, ", False),
    (moved_already, r"the fact changes-by-factor\(run, j, .* at the old reference", False),
    (form_of_itself, r"the fact changes-by-form\(j, .*form \d", False),
    (nothing_is_gone, r"the fact zero-where\(", True),
    (far_apart, r"the fact separable\(.* it does not hold at", False),
]


@pytest.mark.parametrize(("function", "words", "masked"), CASES, ids=lambda p: getattr(p, "__name__", None))
def test_a_false_fact_is_a_finding_and_names_its_rule(function, words, masked):
    rules = rules_of(function)
    graph = saturate(other(), rules=rules, node_budget=2_000)
    with pytest.raises(UnsoundGraphError, match=words) as caught:
        audits(graph, rules, masked)
    assert caught.value.rules == (function.__name__,)
    assert f"by {function.__name__}: " in str(caught.value)


def test_the_program_of_these_cases_passes_without_them():
    graph = saturate(other())
    for seed in range(8):
        for masked in (False, True):
            assert audit(graph, seed=seed, masked=masked).facts > 0


def test_believers_are_not_blamed():
    """exp x <= 1 makes sound rules conclude that its logarithm is at most 0, that |exp x| <= 1 and more: one rule is named."""

    def exponential_is_small(t, x):
        """exp x <= 1, wrongly."""
        return [match(t, Map("exp", x))], [at_most_one(t)]

    rules = rules_of(exponential_is_small)
    p = program("p", y=(sum_over(j, exp(x) * tensor("c", i)) + log(exp(x)), (i, j)))
    graph = saturate(p, rules=rules)
    false = {t for t in ("at-most-one", "size", "nonpos") if graph.facts[t]}
    assert len(false) >= 2
    with pytest.raises(UnsoundGraphError) as caught:
        audit(graph, rules=rules, shrink_seconds=0)
    assert caught.value.rules == ("exponential_is_small",)


def test_what_an_op_declares_is_blamed_on_the_rule_that_reads_it(monkeypatch):
    monkeypatch.setitem(ops.OPS, "sin", dataclasses.replace(ops.OPS["sin"], range=lambda a: ranges.UNIT))
    graph = saturate(program("p", y=(terms.Map("sin", (x,)), (i, j))))
    with pytest.raises(UnsoundGraphError, match="by sign_of_op: ") as caught:
        audit(graph, shrink_seconds=0)
    assert caught.value.rules == ("sign_of_op",)
    (rule,) = registry.rules("sign_of_op")
    with pytest.raises(UnsoundRuleError, match="o = sin"):
        check_rule(rule)


@pytest.mark.parametrize("function", [tanh_is_nonneg, form_of_itself], ids=lambda f: f.__name__)
def test_a_false_fact_comes_with_a_minimal_program_that_runs(function, registered, shown):
    rule = registered(function)
    graph = saturate(other(), rules=(*(r for r in registry.active() if r is not rule), rule))
    with pytest.raises(UnsoundGraphError) as caught:
        audit(graph, shrink_seconds=60.0)
    p, rules = shown(caught.value, match=r"is said to be|the fact")
    assert sum(len(t.args) > 0 for t in p.terms()) <= 3
    assert rules == {function.__name__}, "one rule is enough for a false fact"


@contextlib.contextmanager
def declared(*args, **kwargs):
    made = relation(*args, **kwargs)
    try:
        yield made
    finally:
        relations.forget(made)


@pytest.mark.parametrize("wrong", [False, True])
def test_rows_of_relations_of_ones_own_are_audited(wrong):
    """A relation means what its declaration says, an equation or a predicate, in an audit as in a check."""
    with (
        declared("half", "T T", "a b: b is half of a", equation=lambda a, b: (a, b * Const(2.0))) as half,
        declared(
            "largest", "T i64 T", "a k m: no a along k exceeds m", claim=lambda a, k, m: ~(a.max(axis=k, keepdims=True) > m)
        ) as largest,
    ):

        def says_half(t, a, b):
            """a + b is twice b, where it is the half of its double."""
            return [match(t, a + b)], [half(t, t * Const(1.0 if wrong else 0.5))]

        def says_largest(t, a, k: Axis):
            """A maximum is the largest."""
            return [match(t, Max(k, a))], [largest(a, k, t + Const(-1.0) if wrong else t)]

        for function in (says_half, says_largest):
            rules = rules_of(function)
            graph = saturate(other(), rules=rules, node_budget=2_000)
            assert graph.facts["half" if function is says_half else "largest"]
            if not wrong:
                audit(graph, rules=rules)
                continue
            with pytest.raises(UnsoundGraphError, match=r"the fact (half|largest)\(") as caught:
                audit(graph, rules=rules, shrink_seconds=0)
            assert caught.value.rules == (function.__name__,)


# the saturation done again ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [0, 3])
def test_a_replay_makes_the_same_graph_and_knows_who_concluded_each_fact(parts):
    p = attention()
    graph = saturate(p, splits={j: parts} if parts else {})
    with closing(Replay(graph, registry.active())) as replay:
        again = replay.graph(len(replay.matched))
    assert again.classes == graph.classes
    known = {(table, row) for table, row, _ in again.facts["claimed"]}
    stated = {("written", r) for r in again.facts["written"] if set(r[1:]) <= set(again.original)}  # by the program, not by a rule
    concluded = {(t, r) for t in claimable() if t in relations.RELATIONS for r in again.facts.get(t, ())} - stated
    assert concluded, "nothing to look at"
    assert stated
    assert concluded <= known
    names = {r.name for r in registry.rules()}
    assert {rule for _, _, rule in again.facts["claimed"]} <= names
    assert "claimed" not in graph.facts, "an ordinary saturation does not pay for it"


def test_graphs_of_a_replay_grow_and_hold_after_every_round():
    """No round of sound rules makes an audit fail, half done or not: else the wrong ones would be blamed."""
    graph = saturate(attention(), splits={j: 3})
    sizes = []
    with closing(Replay(graph, registry.active())) as replay:
        for k in range(1, len(replay.matched) + 1, 7):
            part = replay.graph(k)
            sizes.append(part.enodes)
            audit(part, shrink_seconds=0)
            audit(part, masked=True, shrink_seconds=0)
    assert sizes[0] < sizes[-1] <= graph.enodes


def test_blame_is_one_more_saturation(monkeypatch):
    """A second saturation and a search in it (with a third, up to the wrong round, to ask who it was), not a search over saturations."""
    rules = rules_of(tanh_is_nonneg)
    graph = saturate(other(), rules=rules)
    replays = []
    monkeypatch.setattr(blame, "Replay", lambda *args, **options: replays.append(args) or Replay(*args, **options))
    with pytest.raises(UnsoundGraphError):
        audit(graph, rules=rules, shrink_seconds=0)
    assert 1 <= len(replays) <= 2


def test_an_empty_axis_stays_empty():
    """sum over nothing = 0, and max over nothing = -inf: what is false only there is seen there."""

    def selection_of_constant_anywhere(t, x, k: Axis):
        """max_k x = x for x free of k, also where k is empty."""
        return [match(t, Max(k, x)), facts.free(x, k)], [facts.equal(t, x)]

    rules = rules_of(selection_of_constant_anywhere)
    (none,) = axes(none=0)
    for axis, passes in ((j, True), (none, False)):
        graph = saturate(program("p", y=(maximum_over(axis, tensor("c", i)), (i,))), rules=rules)
        with contextlib.nullcontext() if passes else pytest.raises(UnsoundGraphError, match="selection_of_constant_anywhere"):
            audit(graph, rules=rules, shrink_seconds=0)


def test_whole_rows_are_masked():
    """What holds but in rows that are -inf from end to end is not found out by elements alone."""
    graph = saturate(program("p", y=(select(x, maximum_over(j, x), 0.0), (i, j))))
    gone_rows = 0
    for seed in range(12):
        drawn = _Audit(graph, seed, True, None, False).inputs["x"]
        gone_rows += bool(np.isneginf(drawn).all(axis=drawn.ndim - 1).any())
    assert gone_rows >= 2
