"""A program over its budgets still gets a valid plan, which says that it stopped early and is right."""

import itertools
from types import SimpleNamespace

import pytest
import torch

import eqfuse
from eqfuse.extract import cover, search
from eqfuse.testing.programs import PROGRAMS


def softmax_chain(x, w):
    """Enough reductions for the search to take steps."""
    p = torch.softmax(x, -1)
    return torch.softmax(p @ w, -1), p.sum(0)


G = torch.Generator().manual_seed(0)
ARGS = torch.randn(80, 70, generator=G), torch.randn(70, 50, generator=G)
LARGER = torch.randn(200, 300, generator=G), torch.randn(300, 200, generator=G)  # storing some values pays: there is a search


def right(compiled, fn, args):
    exact = fn(*(a.double() for a in args))
    for found, expected in zip(compiled.simulate(*args), exact, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_within_budget_nothing_is_said():
    compiled = eqfuse.optimize(softmax_chain, ARGS, target="h200")
    assert compiled.plan.saturation == compiled.graph.report.stopped == "saturated"
    assert "stopped early" not in str(compiled.plan)


def test_node_budget():
    compiled = eqfuse.optimize(softmax_chain, ARGS, target="h200", node_budget=5)
    assert compiled.graph.report.stopped == compiled.plan.saturation == "nodes"
    assert "stopped early: the e-graph reached node_budget" in str(compiled.plan)
    assert "stopped: nodes" in str(compiled.graph.report)
    assert "stopped: nodes" in str(compiled.explain())
    right(compiled, softmax_chain, ARGS)


def test_time_budget():
    compiled = eqfuse.optimize(softmax_chain, LARGER, target="h200", time_budget=0)
    assert compiled.graph.report.stopped == compiled.plan.saturation == "time"
    assert compiled.plan.stopped == "time"
    text = str(compiled.plan)
    assert "stopped early: time_budget ran out before saturation" in text
    assert "stopped early: time_budget ran out before the search" in text
    assert "stopped early" in compiled.source, "the kernel's header says so, too"
    right(compiled, softmax_chain, LARGER)


@pytest.mark.parametrize("budget", [{"node_budget": 5}, {"time_budget": 0}], ids=str)
@pytest.mark.parametrize("name", ["attention", "layernorm", "cross_entropy"])
def test_corpus_over_budget(name, budget):
    case = PROGRAMS[name]
    args = case.args("small", "float32", generator=1)
    compiled = eqfuse.optimize(case.fn, args, target="h200", **budget)
    assert "stopped early" in str(compiled.plan)
    for row in compiled.accuracy(*args, runner="simulate").outputs:
        assert row.ours < 1e-12
    compiled.accuracy(*args).check()


def test_a_plan_does_not_hang_on_the_clock(monkeypatch):
    """Where the search takes most of its time, the way it takes is the same: what its parts may take is counted, not timed."""
    args = torch.randn(2, 3, 67, 16), torch.randn(2, 3, 131, 16), torch.randn(2, 3, 131, 16)
    expected = str(eqfuse.optimize(PROGRAMS["attention"].fn, args, target="h200").plan)
    ticks = itertools.count()
    clock = SimpleNamespace(process_time=lambda: 2.0 * next(ticks))  # seconds that pass between two looks at it
    monkeypatch.setattr(search, "time", clock)
    monkeypatch.setattr(cover, "time", clock)
    assert str(eqfuse.optimize(PROGRAMS["attention"].fn, args, target="h200").plan) == expected
    assert 2 < next(ticks) < 5, "within the budget"


def test_a_share_of_the_search_that_ends_is_said(monkeypatch):
    monkeypatch.setattr(cover, "WORK", 1)
    case = PROGRAMS["attention"]
    compiled = eqfuse.optimize(case.fn, case.args("small", "float32", generator=1), **case.options, target="h200")
    assert compiled.plan.stopped == "work"
    assert "stopped early: the search for a kernel that computes everything had its share" in str(compiled.plan)
