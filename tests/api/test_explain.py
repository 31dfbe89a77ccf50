"""explain(): the chain of rewrites is replayed and ends in the plan; costs add up; names; text and JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

import eqfuse
from eqfuse.egraph import saturate
from eqfuse.errors import OptionError
from eqfuse.explain import SCHEMA, Options, explain
from eqfuse.explain.chain import Standing
from eqfuse.explain.costs import compare
from eqfuse.explain.derivation import Derivation
from eqfuse.explain.forms import Forms
from eqfuse.explain.matching import applied_to
from eqfuse.explain.replay import Replay
from eqfuse.extract import extract
from eqfuse.extract.targets import load_target
from eqfuse.ir.build import axes, exp, maximum, maximum_over, program, sum_over, tensor
from eqfuse.rewrites.decorators import fusion
from eqfuse.rewrites.facts import match
from eqfuse.rewrites.patterns import Sum
from eqfuse.rewrites.rule import Axis
from eqfuse.rewrites.verdicts import offer
from eqfuse.testing.programs import PROGRAMS


def empty(*shape, dtype=torch.float16):
    return torch.empty(*shape, device="meta", dtype=dtype)


def weighted(q, k, v):
    scores = q @ k.transpose(-1, -2) * 0.125
    weights = torch.softmax(scores, dim=-1)
    return weights @ v


@pytest.fixture(scope="module")
def compiled():
    return eqfuse.optimize(weighted, (empty(8, 2048, 64),) * 3, target="h200")


@pytest.fixture(scope="module")
def explanation(compiled):
    return compiled.explain()


# the chain ----------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", ["attention", "attention_decode", "attention_lse", "mean_variance", "softmax_entropy", "linear_cross_entropy"]
)
def test_the_chain_leads_from_the_program_to_the_plan(name):
    case = PROGRAMS[name]
    c = eqfuse.optimize(case.fn, case.args("bench", device="meta"), **case.options, target="h200")
    d = Derivation(c.graph, c.plan)
    for k, located in enumerate(d.kernels):
        assert None not in located.cls, "a node of the kernel is no e-node"
        stored = {root.buffer for root in located.kernel.roots}
        assert set(located.stores) == stored
        assert all(located.stores[o] == c.graph.roots[o] for o in c.graph.roots if o in stored)
        ends = {cls for kernel, cls in d.reached(d.links) if kernel == k}
        assert located.computed <= ends, "the last program of the chain is not what the kernel computes"
    start = {cls for _, cls in d.reached(())}
    assert start <= set(c.graph.original), "the first program of the chain is the program"
    assert all(s.agrees for steps in d.steps for s in steps), [s for steps in d.steps for s in steps if not s.agrees]
    assert all(s.numbers > 0 for steps in d.steps for s in steps)


def test_steps_name_rules_that_exist(explanation):
    rules = {r.name: r for r in eqfuse.rules()}
    assert explanation.steps
    for s in explanation.steps:
        rule = rules[s.rule]
        assert (s.family, s.licence, s.where) == (rule.family, rule.licence, rule.where)
        assert s.before != s.after
    assert "factor_out" in {s.rule for s in explanation.steps}
    assert any("loop_" in s.after and "new(" in s.after for s in explanation.steps)


def test_what_a_rule_was_applied_to_gets_a_step_of_its_own():
    """Splitting comes before merging, although the e-graph keeps only that both rules met in the class."""
    case = PROGRAMS["attention_decode"]
    c = eqfuse.optimize(case.fn, case.args("bench", device="meta"), **case.options, target="h200")
    d = Derivation(c.graph, c.plan)
    merged = [link for link in d.links if link.rule == "merge_selection_parts"]
    assert merged
    for link in merged:
        before = next(x for x in d.links if (x.kernel, x.cls, x.after) == (link.kernel, link.cls, link.before))
        assert before.rule == "split_reduction"
        assert before.before == d.forms.base[link.cls]
    assert all(link.matched for link in d.links)


def test_matching_finds_nothing_for_a_rule_that_did_not_apply():
    c = eqfuse.optimize(weighted, (empty(8, 2048, 64),) * 3, target="h200")
    d = Derivation(c.graph, c.plan)
    rules = {r.name: r for r in eqfuse.rules()}
    link = next(x for x in d.links if x.rule == "factor_out")
    assert link.before in applied_to(c.graph, rules["factor_out"], link.cls, link.after)
    for other in ("split_reduction", "roll_by_factor", "exponential_to_base_two", "view_through_op"):
        assert applied_to(c.graph, rules[other], link.cls, link.after) == []


def test_long_axes_that_are_reshaped_are_replayed_below_a_cut():
    """A reshape mentions both long axes, so that the arrays of the whole program cannot be made small."""
    c = eqfuse.optimize(lambda x, w: torch.softmax(x.view(16384, 16384), -1) @ w, (empty(1 << 28), empty(16384, 64)), target="h200")
    d = Derivation(c.graph, c.plan)
    assert any(d.replay.compare(x.before, x.after).large for x in d.links)
    steps = c.explain().steps
    assert steps
    assert all(s.agrees and s.numbers for s in steps), [s.skipped for s in steps]


def test_a_program_as_written_has_no_steps():
    c = eqfuse.optimize(lambda x: torch.relu(x) + 1, (empty(64, 64),), target="h200")
    assert c.explain().steps == ()
    assert "no rewrite was needed" in str(c.explain())


# the replay can fail ---------------------------------------------------------------------------------------------------------------
def graph_of_rows():
    i, j = axes(i=64, j=40_000)
    x = tensor("x", i, j)
    e = exp(x - maximum_over(j, x))
    return saturate(program("rows", y=(sum_over(j, e), (i,))))


def faulty(graph, change):
    """The graph with one e-node changed, and that e-node with its class."""
    for c, members in enumerate(graph.classes):
        for n in members:
            other = change(c, n)
            if other is not None:
                classes = [*graph.classes]
                classes[c] = tuple(other if m is n else m for m in members)
                return replace(graph, classes=tuple(classes)), c, other
    raise AssertionError("nothing to change")


def first_roll(graph, change):
    target = graph.roots["y"]
    return faulty(graph, lambda c, n: change(n) if c == target and n.op == "roll" else None)


def difference(graph, c, n):
    forms = Forms(graph)
    return Replay(graph, forms).compare(forms.base[c], n)


def test_a_sound_loop_agrees():
    graph, c, n = first_roll(graph_of_rows(), lambda n: n)
    outcome = difference(graph, c, n)
    assert outcome.agrees
    assert outcome.difference < 1e-12


def test_a_value_that_is_drawn_is_one_for_the_whole_loop():
    """The loop reads prefixes of what is reduced, and of what is cut off below them: the same numbers each time."""
    graph, c, n = first_roll(graph_of_rows(), lambda n: n)
    forms = Forms(graph)
    below = {k for k, members in enumerate(graph.classes) for m in members if m.op == "input"}
    outcome = Replay(graph, forms, cut=below, cone=(forms.base[c], n)).compare(forms.base[c], n)
    assert outcome.agrees
    assert outcome.numbers


def test_a_state_that_is_not_moved_is_found():
    """acc <- acc + exp(x - new max), without the factor."""
    graph = graph_of_rows()
    acc = next(c for c, members in enumerate(graph.classes) for n in members if n.op == "acc")
    graph, c, n = first_roll(graph, lambda n: replace(n, args=(n.args[0], acc)))
    outcome = difference(graph, c, n)
    assert not outcome.agrees
    assert outcome.difference > 1e-3


def test_a_wrong_monoid_is_found():
    graph, c, n = first_roll(graph_of_rows(), lambda n: replace(n, attrs=("max", n.attrs[1])))
    assert not difference(graph, c, n).agrees


def test_swapped_references_are_found():
    """The factor exp(new - old) instead of exp(old - new): every old reference becomes a new one and the other way round."""
    graph = graph_of_rows()
    other = {"new": "old", "old": "new"}
    swapped = tuple(
        tuple(replace(n, attrs=(other[n.attrs[0]], *n.attrs[1:])) if n.op == "ref" else n for n in members) for members in graph.classes
    )
    graph, c, n = first_roll(replace(graph, classes=swapped), lambda n: n)
    assert not difference(graph, c, n).agrees


def test_a_wrong_step_is_told():
    """A rule that is false: the step of the plan that it made says DISAGREES, in text and as data."""
    i, j = axes(i=64, j=500)
    x = tensor("x", i, j)
    p = program("rows", y=(sum_over(j, exp(x)), (i,)))
    graph = saturate(p, enable=False)
    root = graph.roots["y"]
    classes = [*graph.classes]
    (real,) = classes[root]
    classes[root] = (replace(real, attrs=("max", j), rule="planted"),)
    false = replace(graph, classes=tuple(classes))
    plan = extract(false, load_target("h200"))
    both = replace(graph, classes=(*classes[:root], (real, *classes[root]), *classes[root + 1 :]))
    found = explain(both, plan)
    (step,) = found.steps
    assert (step.rule, step.agrees) == ("planted", False)
    assert "DISAGREES" in str(found)
    assert json.loads(found.json())["kernels"][0]["steps"][0]["agrees"] is False


# costs ----------------------------------------------------------------------------------------------------------------------------
def test_terms_add_up_to_the_time(explanation):
    for k in explanation.kernels:
        assert sum(k.terms_us.values()) == pytest.approx(k.us)


def test_the_runner_up_is_the_best_that_lost():
    case = PROGRAMS["attention_decode"]
    c = eqfuse.optimize(case.fn, case.args("bench", device="meta"), **case.options, target="h200")
    r = c.explain().runner_up
    assert r.searched
    lost = [a for a in c.plan.alternatives if a.kernels]
    assert (r.description, r.us) in [(a.description, a.us) for a in lost]
    assert r.slower_us == pytest.approx(r.us - c.plan.estimated_us)
    assert sum(t.difference_us for t in r.terms) == pytest.approx(r.slower_us)
    assert r.term.difference_us == max(t.difference_us for t in r.terms) > 0
    text = str(c.explain())
    assert f"runner-up: {r.description}" in text
    assert f"most of it is {r.term.words}" in text


def test_a_search_that_ran_out_of_time_is_not_run_again(monkeypatch):
    """Then the two ends are priced: one kernel for everything, and one for every reduction."""
    from eqfuse.extract.covers import Extractor

    case = PROGRAMS["attention_decode"]
    c = eqfuse.optimize(case.fn, case.args("bench", device="meta"), **case.options, target="h200")
    monkeypatch.setattr(Extractor, "run", lambda self: pytest.fail("the search was run again"))
    r = explain(c.graph, replace(c.plan, stopped="time"), c.target).runner_up
    assert not r.searched
    assert r.slower_us > 0


def test_compare_orders_terms_by_what_they_lose():
    found = compare({"dram": 10.0, "launch": 3.0}, {"dram": 4.0, "l2": 9.0, "launch": 6.0})
    assert [(t.term, t.difference_us) for t in found] == [("l2", 9.0), ("launch", 3.0), ("dram", -6.0)]


def partition(x):
    top = x.amax(-1, keepdim=True)
    return torch.exp(x - top).sum(-1)


def test_savings_are_what_plans_without_a_rule_cost():
    rows = empty(512, 1_000_000, dtype=torch.float32)
    c = eqfuse.optimize(partition, (rows,), target="h200")
    explained = c.explain(costs=True)
    assert set(explained.savings) == {s.rule for s in explained.steps} | {""}
    other = eqfuse.optimize(partition, (rows,), target="h200", disable=["roll_by_factor"])
    saving = explained.savings["roll_by_factor"]
    assert saving.us == pytest.approx(other.plan.estimated_us - c.plan.estimated_us)
    assert saving.dram_bytes == other.plan.dram_bytes - c.plan.dram_bytes > 0
    assert saving.us > 0
    assert f"{saving.us:.1f} us slower" in str(explained)
    found = json.loads(explained.json())["savings"]
    assert {r["rule"] for r in found} == set(explained.savings)
    assert json.loads(c.explain().json())["savings"] is None


# what each step saves --------------------------------------------------------------------------------------------------------------
@cache
def costed(name):
    case = PROGRAMS[name]
    c = eqfuse.optimize(case.fn, case.args("bench", device="meta"), **case.options, target="h200")
    return c, c.explain(costs=True)


@pytest.fixture(scope="module")
def weighted_costs(compiled):
    return compiled.explain(costs=True)


def adds_up(c, explained):
    """Shares start at the unfused plan, end at the plan, meet, and tell every step once."""
    shares = explained.chain.shares
    assert sum(s.saved_bytes for s in shares) == explained.saved_bytes == c.plan.baseline_bytes - c.plan.dram_bytes
    assert sum(s.saved_us for s in shares) == pytest.approx(explained.saved_us, abs=1e-6)
    assert (shares[-1].after.us, shares[-1].after.dram_bytes) == (c.plan.estimated_us, c.plan.dram_bytes)
    us, bytes_ = c.plan.baseline_us, c.plan.baseline_bytes
    for s in shares:
        assert s.saved_us == us - s.after.us
        assert s.saved_bytes == bytes_ - s.after.dram_bytes
        us, bytes_ = s.after.us, s.after.dram_bytes
    assert [p.number for s in shares for p in s.parts if p.kind == "step"] == list(range(1, len(explained.steps) + 1))
    assert shares[0].parts[0].kind == "fusion"
    return shares


@pytest.mark.parametrize(
    "name", ["rmsnorm", "cross_entropy", "mean_variance", "rmsnorm_linear", "linear_cross_entropy", "attention_decode"]
)
def test_what_steps_save_adds_up(name):
    c, explained = costed(name)
    shares = adds_up(c, explained)
    written = extract(saturate(c.program, enable=False), c.target, **PROGRAMS[name].options)
    assert shares[0].after.us == pytest.approx(written.estimated_us)
    assert shares[0].after.dram_bytes == written.dram_bytes


def planned(p):
    """The plan of a program with no rewriting."""
    return extract(saturate(p, enable=False), load_target("h200"))


def test_a_step_saves_the_difference_of_two_plans():
    """The only step of a program: nothing of the chain's own machinery is in the expected number."""
    i, j = axes(i=512, j=1_000_000)
    x = tensor("x", i, j)
    p = program("rows", y=(sum_over(j, exp(x - maximum_over(j, x))), (i,)))
    graph = saturate(p)
    plan, written = extract(graph, load_target("h200")), planned(p)
    found = explain(graph, plan)
    (step,) = found.steps
    fusion, share = adds_up_to(found, plan)
    assert step.rule == share.parts[0].rule == "roll_by_factor"
    assert share.saved_us == written.estimated_us - plan.estimated_us > 0
    assert (
        share.saved_bytes == written.dram_bytes - plan.dram_bytes >= 0.9 * 512 * 1_000_000 * 4
    )  # caches of multiprocessors keep a twentieth
    assert fusion.saved_bytes == plan.baseline_bytes - written.dram_bytes


def adds_up_to(found, plan):
    shares = found.chain.shares
    assert sum(s.saved_bytes for s in shares) == plan.baseline_bytes - plan.dram_bytes
    return shares


def test_a_program_between_costs_what_it_costs_when_written_by_hand():
    """After the first step, which takes 1/z out of the sum, stands a program that a person can write."""
    i, j, k = axes(i=2048, j=20_000, k=64)
    x, v = tensor("x", i, j), tensor("v", j, k)
    e = exp(x - maximum_over(j, x))
    z = sum_over(j, e)
    p = program("rows", y=(sum_over(j, e / z * v), (i, k)))
    graph = saturate(p)
    plan = extract(graph, load_target("h200"))
    found = explain(graph, plan)
    shares = found.chain.shares
    assert shares[1].parts[0].rule == "factor_out"
    between = planned(program("rows", y=(1.0 / z * sum_over(j, e * v), (i, k))))
    assert len(shares) > 2
    assert (shares[1].after.us, shares[1].after.dram_bytes) == (between.estimated_us, between.dram_bytes)
    assert shares[1].saved_bytes == planned(p).dram_bytes - between.dram_bytes > 0
    assert shares[1].after.us > plan.estimated_us


def test_a_step_on_its_own_may_cost_something(compiled, weighted_costs):
    shares = adds_up(compiled, weighted_costs)
    costly = [s for s in shares[1:] if s.saved_us < -0.1]
    assert costly, "a program that joins some loops only: if there is none any more, take another example"
    text = str(weighted_costs)
    for s in costly:
        assert f"on its own it costs {-s.saved_us:.1f} us" in text


def test_steps_without_a_plan_between_are_told_together():
    c, explained = costed("mean_variance")
    (_, share) = adds_up(c, explained)
    assert [p.number for p in share.parts] == [1, 2, 3]
    assert share.asked
    assert share.reason.startswith("the program after step 1 has no plan: ")
    text = str(explained)
    assert text.count("counted with step 3: no plan computes what stands here") == 2
    assert f"with steps 1 and 2 it saves {share.saved_us:.1f} us" in text
    assert "steps 1 to 3 together (no plan stands between) -> 1 kernel" in text


def test_programs_without_time_are_not_asked(monkeypatch):
    from eqfuse.explain import chain

    monkeypatch.setattr(chain, "SECONDS", 0.0)
    c = costed("cross_entropy")[0]
    explained = c.explain(costs=True)
    (_, share) = adds_up(c, explained)
    assert [p.kind for p in share.parts] == ["step"] * len(explained.steps)
    assert not share.asked
    assert "was not asked for a plan" in share.reason
    assert "there was no time to plan what stands here" in str(explained)


@pytest.mark.parametrize("name", ["softmax_entropy", "attention_decode", "mean_variance"])
def test_the_last_program_of_a_chain_is_the_plan(name):
    """Searched for like the others, with the forms that the steps left, it costs what the plan costs."""
    c, explained = costed(name)
    study, priced = explained.study, explained.chain
    *_, last = Standing(study.derivation).graphs()
    assert all(len(members) <= 1 for members in last.classes), "one kernel computes each value in one form"
    again = priced.priced(priced.extractor(last, 10.0).run())
    assert again.us == pytest.approx(c.plan.estimated_us)
    assert again.dram_bytes == c.plan.dram_bytes


def test_steps_of_several_kernels_are_numbered_from_the_outputs():
    c, explained = costed("attention_decode")
    first, last = explained.kernels
    parts = {p.number: p for s in adds_up(c, explained) for p in s.parts if p.number}
    assert [(p.kernel, p.index) for p in parts.values()] == [
        *((last.name, n) for n in range(len(last.steps))), *((first.name, n) for n in range(len(first.steps))),
    ]  # fmt: skip
    for p in parts.values():
        assert next(k for k in explained.kernels if k.name == p.kernel).steps[p.index].rule == p.rule
    text = str(explained)
    assert f"    {len(last.steps) + 1}. {first.steps[0].rule}" in text
    assert "numbered through all kernels, from the outputs down" in text


def test_verdicts_count_before_any_step():
    c = eqfuse.optimize(weighted, (empty(8, 2048, 64),) * 3, target="h200", fusion=[("forbid", "out", "weights")])
    explained = c.explain(costs=True)
    shares = adds_up(c, explained)
    assert [p.kind for p in shares[1].parts] == ["found"]
    assert shares[1].saved_bytes < 0, "storing the weights costs traffic"
    assert shares[1].saved_temporary_bytes == -shares[1].after.temporary_bytes < 0


def test_tiles_of_another_plan_are_a_line_of_their_own():
    x = torch.randn(16, 4096)
    c = eqfuse.optimize(lambda x: torch.softmax(x, -1), (x,), target="h200")
    small = c.at(x[:, :100])
    shares = adds_up(small, small.explain(costs=True))
    assert [p.kind for s in shares for p in s.parts] == ["fusion", "like"]


# outside implementations ------------------------------------------------------------------------------------------------------------
@fusion(register=False)
def library_matmul(y, a, b, i: Axis, j: Axis, k: Axis):
    """A matrix product by a library."""
    return [match(y, Sum(k, a * b))], offer("torch:matmul", (y, i, j), (a, i, k), (b, k, j), us=1.0)


def test_a_step_that_an_outside_implementation_takes():
    i, j, k = axes(i=4096, j=4096, k=512)
    product = sum_over(k, tensor("x", i, k) * tensor("w", k, j))
    p = program("rows", y=(sum_over(j, maximum(product, 0.0)), (i,))).named(product=product)
    rules = (*eqfuse.rules(), library_matmul)
    graph = saturate(p, rules=rules)
    plan = extract(graph, load_target("h200"))
    assert len(plan.calls) == 1
    found = explain(graph, plan, options=Options(rules), costs=True)
    call = next(x for x in found.kernels if x.outside)
    assert (call.outside, call.rules, call.computes) == ("torch:matmul", ("library_matmul",), ("product",))
    assert call.where.startswith("api/test_explain.py:")
    assert found.savings["library_matmul"].us > 0
    last = adds_up_to(found, plan)[-1]
    assert [(p.kind, p.rule) for p in last.parts] == [("call", "library_matmul")]
    assert last.saved_us > 0
    assert "library_matmul, from outside -> 2 kernels" in str(found)
    assert f"not generated: torch:matmul, offered by library_matmul ({call.where})" in str(found)
    assert json.loads(found.json())["kernels"]
    answer = found.why("product", "y")
    assert answer.verdict == "costs more"
    assert answer.kernels["product"] == (call.name,)


# names ----------------------------------------------------------------------------------------------------------------------------
def test_variables_inputs_outputs_and_lines_are_names(compiled, explanation):
    assert set(explanation.values) >= {"q", "k", "v", "scores", "weights", "out"}
    line = weighted.__code__.co_firstlineno + 1
    assert explanation.value(f"test_explain.py:{line}").cls == explanation.value("scores").cls
    assert explanation.value("softmax").cls == explanation.value("weights").cls  # the node of the traced graph
    inner, scale = explanation.value("bmm"), explanation.value("mul")
    assert inner.cls != scale.cls == explanation.value("scores").cls
    position = compiled.program.terms().index(inner.term)
    assert explanation.value(f"t{position}").term is inner.term


def test_an_unknown_name_says_what_there_is(compiled):
    with pytest.raises(OptionError, match=r"no value called 'scoers'.*") as error:
        compiled.why("scoers", "out")
    assert "did you mean 'scores'" in str(error.value)
    assert "weights" in str(error.value)
    with pytest.raises(OptionError, match=r"computes nothing at test_explain\.py:1") as error:
        compiled.why("test_explain.py:1", "out")
    assert f"test_explain.py:{weighted.__code__.co_firstlineno + 1}" in str(error.value)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(64, 64)

    def forward(self, x):
        inside = self.up(x)
        return torch.relu(inside)


class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def forward(self, x):
        once = self.layer(x)
        top, _where = once.max(-1, keepdim=True)  # one of the results is not needed
        once = once - top
        both = self.layer(
            once,
        )
        both += 1
        return both


def test_names_of_modules_unpacked_results_and_repeated_assignments():
    c = eqfuse.optimize(Twice(), (torch.empty(32, 64),), target="h200")
    names = c.explain().study.names
    assert {"once", "both", "top", "inside"} <= set(names.table)
    assert "_where" not in names.table, "nothing needs it"
    first, second = names.table["once#1"], names.table["once#2"]
    assert first is not second
    assert names.table["once"] is second
    assert second.op == "add"  # once - top
    assert names.table["inside#1"] is not names.table["inside#2"]
    assert names.table["both"] is c.program.outputs[0].term


def test_operations_with_several_results_and_names_of_inputs():
    layer = torch.nn.LayerNorm(64)

    def f(x):
        hidden = layer(x)  # mean and reciprocal deviation come out of the same operation, later
        x = x + hidden
        return torch.relu(x)

    c = eqfuse.optimize(f, (torch.empty(32, 64),), target="h200")
    names = c.explain().study.names
    assert names.table["x"] is c.program.inputs[0]
    total = names.table["x#1"]
    assert total.op == "add"
    assert names.table["hidden"] in total.args
    assert c.why("hidden", "x#1").shared


def test_two_assignments_on_one_line_name_nothing():
    def f(x):
        a = torch.exp(x); (b, _c) = torch.exp(a).max(-1)  # fmt: skip  # noqa: E702
        d = a.sum(-1)
        return b + d

    names = eqfuse.optimize(f, (torch.empty(32, 64),), target="h200").explain().study.names
    assert not {"a", "b"} & set(names.table)
    assert names.table["d"].monoid == "sum"


def test_source_that_cannot_be_found_leaves_the_names_of_graph_nodes():
    scope = {"torch": torch}
    exec("def f(x):\n    hidden = torch.exp(x)\n    return hidden.sum(-1)", scope)
    names = eqfuse.optimize(scope["f"], (torch.empty(32, 64),), target="h200").explain().study.names
    assert "hidden" not in names.table
    assert names.table["exp"].op == "exp"


def test_programs_written_by_hand_can_name_values():
    i, j = axes(i=64, j=300)
    x = tensor("x", i, j)
    top = maximum_over(j, x)
    p = program("rows", y=(sum_over(j, exp(x - top)), (i,))).named(top=top)
    c = eqfuse.optimize(p, target="h200")
    assert c.why("top", "y").shared
    with pytest.raises(ValueError, match="does not compute other"):
        p.named(other=sum_over(i, x))


def test_names_do_not_change_what_a_program_is():
    i, j = axes(i=4, j=8)
    x = tensor("x", i, j)
    p = program("rows", y=(sum_over(j, x), (i,)))
    assert p.named(total=p.outputs[0].term) == p


# text and JSON --------------------------------------------------------------------------------------------------------------------
STEP_KEYS = {
    "rule",
    "family",
    "licence",
    "where",
    "law",
    "value",
    "before",
    "after",
    "agrees",
    "difference",
    "numbers",
    "skipped",
    "matched",
    "also",
}
KERNEL_KEYS = {
    "name", "stores", "loads", "rules", "passes", "us", "bound", "dram_bytes", "terms_us", "computes", "outside", "where", "steps",
}  # fmt: skip
TOP_KEYS = {
    "schema",
    "program",
    "target",
    "kernels",
    "saved_bytes",
    "saved_us",
    "saturation",
    "alternatives",
    "runner_up",
    "savings",
    "chain",
    "verdicts",
    "values",
    "stopped",
    "numbers",
    "launches",
    "rewritten",
    "splits",
}
SHARE_KEYS = {"parts", "saved_us", "saved_bytes", "saved_temporary_bytes", "after", "reason", "asked"}
PART_KEYS = {"kind", "rule", "number", "kernel", "index"}
PRICE_KEYS = {"us", "dram_bytes", "temporary_bytes", "kernels", "stopped"}  # fmt: skip


def test_json_has_the_documented_schema(explanation):
    data = json.loads(explanation.json(), parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))
    assert data["schema"] == SCHEMA == "eqfuse.explain/2"
    assert set(data) == TOP_KEYS
    assert all(set(k) == KERNEL_KEYS for k in data["kernels"])
    assert all(set(s) == STEP_KEYS for k in data["kernels"] for s in k["steps"])
    assert data["kernels"][0]["steps"]
    assert data["chain"] is data["savings"] is None


def test_json_of_what_steps_save(weighted_costs):
    data = json.loads(weighted_costs.json())
    chain = data["chain"]
    assert all(set(s) == SHARE_KEYS and set(s["after"]) == PRICE_KEYS for s in chain)
    assert all(set(p) == PART_KEYS for s in chain for p in s["parts"])
    assert sum(s["saved_bytes"] for s in chain) == data["saved_bytes"]
    assert sum(s["saved_us"] for s in chain) == pytest.approx(data["saved_us"])
    kernels = {k["name"]: k for k in data["kernels"]}
    steps = [p for s in chain for p in s["parts"] if p["kind"] == "step"]
    assert len(steps) == sum(len(k["steps"]) for k in data["kernels"]) > 0
    assert all(kernels[p["kernel"]]["steps"][p["index"]]["rule"] == p["rule"] for p in steps)


def test_text_tells_every_step(explanation):
    text = str(explanation)
    for s in explanation.steps:
        assert s.rule in text
        assert s.where in text
        assert s.after in text
    assert text.count("replayed: ") == len(explanation.steps)


def test_a_plan_for_other_sizes_explains_itself():
    x = torch.randn(16, 4096)
    c = eqfuse.optimize(lambda x: torch.softmax(x, -1), (x,), target="h200")
    small = c.at(x[:, :100])
    found = small.explain()
    assert found.stopped == "like"
    assert found.runner_up is None
    assert json.loads(found.json())["runner_up"] is None


def test_masks_are_replayed_where_values_are_infinite():
    """Where a mask removes whole rows, both sides are infinite or not a number in the same places."""
    case = PROGRAMS["attention_causal"]
    c = eqfuse.optimize(case.fn, case.args("bench", device="meta"), **case.options, target="h200")
    assert all(s.agrees for s in c.explain().steps)
    assert np.isfinite([s.difference for s in c.explain().steps]).all()
