"""A program over its budgets still gets a valid plan, which says that it stopped early and is right."""

import itertools
import math
import time

import pytest
import torch

import eqfuse
from eqfuse import planning, work
from eqfuse.egraph import engines, run, saturate
from eqfuse.extract import meter, search
from eqfuse.extract.covers import Extractor
from eqfuse.extract.covers import extractor as covers
from eqfuse.extract.objective import TIE
from eqfuse.planning import exchanged, whole
from eqfuse.rewrites import Rule
from eqfuse.testing.models import MODELS, Linears
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
    assert {compiled.plan.saturation, *(g.report.stopped for g in compiled.planned.graphs)} == {"saturated"}
    assert "stopped early" not in str(compiled.plan)


def test_node_budget():
    compiled = eqfuse.optimize(softmax_chain, ARGS, target="h200", node_budget=5)
    assert {compiled.plan.saturation, *(g.report.stopped for g in compiled.planned.graphs)} == {"nodes"}
    assert "stopped early: the e-graph reached node_budget" in str(compiled.plan)
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


def test_a_share_of_the_search_that_ends_is_said(monkeypatch):
    monkeypatch.setattr(covers, "ONE_SHARE", 1e-5)
    case = PROGRAMS["attention"]
    compiled = eqfuse.optimize(case.fn, case.args("small", "float32", generator=1), **case.options, target="h200")
    assert compiled.plan.stopped == "work"
    assert "stopped early: the search for a kernel that computes everything had its share" in str(compiled.plan)


# the budget is a contract --------------------------------------------------------------------------------------------------------------
def layers(depth):
    with torch.device("meta"):
        return Linears(depth, 1024).half(), (torch.empty(4096, 1024, dtype=torch.float16),)


def corpus(name):
    case = PROGRAMS[name]
    return case.fn, case.args("bench", device="meta")


def layer(name, size):
    model = MODELS[name]
    return model.module(size, 1, device="meta"), model.args(size, device="meta")


CUT = {
    "llama": lambda: layer("llama", "bench"),
    "gpt2": lambda: layer("gpt2", "tiny"),
    "attention": lambda: corpus("attention"),
    "attention_decode": lambda: corpus("attention_decode"),
    "layers": lambda: layers(4),
}
SMALL = ("attention", "attention_decode", "layers")


@pytest.fixture
def evaluated(monkeypatch):
    """The kernels whose tiles are priced while a test runs, by name."""
    found = []
    original = search._Form._evaluate

    def call(self, *args):
        found.append(self.name)
        return original(self, *args)

    monkeypatch.setattr(search._Form, "_evaluate", call)
    return found


def op_by_op(compiled):
    return Extractor(saturate(compiled.program, rules=()), compiled.target).op_by_op()


@pytest.mark.parametrize("name", SMALL)
def test_without_time_what_is_pointwise_is_fused_for_about_the_work_of_op_by_op(name, evaluated):
    fn, args = CUT[name]()
    compiled = eqfuse.optimize(fn, args, target="h200", time_budget=0)
    needed = list(evaluated)
    evaluated.clear()
    floor = op_by_op(compiled)
    assert compiled.plan.stopped == "time"
    assert compiled.plan.estimated_us <= floor.us
    assert len(compiled.plan.steps) <= len(floor.steps) - (name != "layers")  # which stores what products read in any case
    assert len(needed) <= 1.1 * len(evaluated)


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.1, 0.5, 2.0])
@pytest.mark.parametrize("name", SMALL)
def test_wherever_the_time_ends_no_plan_is_dearer_than_op_by_op(name, seconds):
    fn, args = CUT[name]()
    compiled = eqfuse.optimize(fn, args, target="h200", time_budget=seconds)
    assert compiled.plan.estimated_us <= TIE * op_by_op(compiled).us


@pytest.mark.parametrize(("name", "seconds"), [("attention", 0.2), ("layers", 0.2), ("attention_decode", 0.5)])
def test_nothing_is_begun_when_the_time_is_up(monkeypatch, name, seconds):
    """When all of it is spent only kernels of the plan op by op are priced."""
    fn, args = CUT[name]()
    late = []
    original = search._Form._evaluate

    def call(self, *args):
        if math.inf > self.search.meter.end and self.search.meter.whole < work.now():
            late.append(self.name)
        return original(self, *args)

    monkeypatch.setattr(search._Form, "_evaluate", call)
    compiled = eqfuse.optimize(fn, args, target="h200", time_budget=seconds)
    assert compiled.plan.stopped == "time"
    assert not late


def test_seventeen_linear_layers(evaluated):
    """It used to write down 4**16 budgets of loops.  One kernel for everything is hopeless, and is given up after its share of the work."""
    fn, args = layers(17)
    compiled = eqfuse.optimize(fn, args, target="h200", time_budget=1.0)
    assert compiled.plan.estimated_us <= TIE * op_by_op(compiled).us
    assert len(set(evaluated)) > 17, "there was time for other kernels, too"


@pytest.mark.parametrize("name", ["linear_cross_entropy", "linear_cross_entropy_few_rows"])
def test_a_limit_of_memory_holds_without_time(name):
    """A kernel for every op would hold all logits."""
    compiled = eqfuse.optimize(*corpus(name), **PROGRAMS[name].options, target="h200", time_budget=0)
    assert compiled.plan.temporary_bytes <= PROGRAMS[name].options["memory_limit"]
    assert op_by_op(compiled).temporary_bytes > PROGRAMS[name].options["memory_limit"]


def test_all_programs_that_are_planned_share_one_budget(monkeypatch):
    """Of two programs each has half of what is left; a saturation leaves time for the search after it."""
    ends = []
    for name in ("saturate", "extract"):
        original = getattr(whole, name)

        def call(*args, name=name, original=original, **options):
            ends.append((name, options["deadline"]))
            return original(*args, **options)

        monkeypatch.setattr(whole, name, call)
        if name == "saturate":
            monkeypatch.setattr(exchanged, name, call)
    for module in (run, meter):
        monkeypatch.setattr(module, "count", lambda amount: None)  # nothing is any work
    begun = work.now()
    a, v = torch.empty(2048, 2048, device="meta"), torch.empty(2048, 1, device="meta")
    request = planning.Request(lambda a, b, v: (a @ b) @ v, (a, a, v), None, "h200", in_regions=False)
    found = planning.run(planning.checked(request))
    assert found.plan.rewritten
    assert [(name, (end - begun) / work.RATE) for name, end in ends] == [
        ("saturate", 1.0),
        ("saturate", 3.0),
        ("extract", 5.0),
        ("saturate", 6.0),
        ("extract", 10.0),
    ]


def test_a_view_of_what_is_no_kernel_of_its_own():
    """Without rules a view of a negative is moved nowhere, so the negative is stored."""

    def fn(x):
        return torch.softmax((-x).flip(0), -1).flip(1) * 2, x.sum(-1)

    x = torch.randn(8, 16, generator=G)
    right(eqfuse.optimize(fn, (x,), target="h200", time_budget=0), fn, (x,))


# the clock of work -----------------------------------------------------------------------------------------------------------------------
IN_REGIONS = ("gpt2", "llama")


@pytest.mark.unaudited  # which is no part of planning
@pytest.mark.parametrize("seconds", [0.2, pytest.param(10.0, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", [pytest.param("llama", marks=pytest.mark.exhaustive), "gpt2", "layers", *PROGRAMS])
def test_a_plan_does_not_hang_on_the_clock(monkeypatch, name, seconds):
    """On a machine that is four times as fast, or a quarter as fast: the way of a search is the same, and so is where it ends."""
    fn, args = CUT[name]() if name in CUT else corpus(name)
    options = PROGRAMS[name].options if name in PROGRAMS else {}
    real, found = time.process_time, []
    for factor in (1.0, 0.25, 4.0):
        monkeypatch.setattr(time, "process_time", lambda factor=factor: factor * real())
        plan = eqfuse.optimize(fn, args, target="h200", time_budget=seconds, **options).plan
        found.append((str(plan), plan.stopped, plan.saturation))
    assert found[1:] == found[:1] * 2
    assert seconds < 1 or bool(plan.parts) == (name in IN_REGIONS)


def test_the_watchdog_ends_what_never_ends_and_says_so(monkeypatch):
    """Fifty seconds of the processor after the first look, for a budget of ten."""
    real, looks = time.process_time, itertools.count()
    monkeypatch.setattr(time, "process_time", lambda: real() + next(looks))
    compiled = eqfuse.optimize(*corpus("attention"), target="h200")
    assert "clock" in (compiled.plan.stopped, compiled.plan.saturation)
    assert "stopped early: the processor took" in str(compiled.plan)
    assert compiled.plan.estimated_us <= TIE * op_by_op(compiled).us


# saturation ----------------------------------------------------------------------------------------------------------------------------
def test_where_rules_cannot_be_compiled_in_time_none_is(monkeypatch):
    compiled = []
    original = Rule.egglog
    monkeypatch.setattr(Rule, "egglog", lambda rule, *args: compiled.append(rule) or original(rule, *args))
    case = PROGRAMS["attention"]
    program = eqfuse.optimize(case.fn, case.args("small", device="meta"), target="h200", time_budget=0).program
    compiled.clear()
    engines.forget_engines()
    graph = saturate(program, time_budget=0.01)
    assert graph.report.stopped == "time"
    assert {r.family for r in compiled} == {"analyses"}
    assert not any(n.rule for row in graph.classes for n in row)
    assert saturate(program, time_budget=60.0).report.stopped == "saturated"


def test_a_saturation_is_ended_by_a_count(monkeypatch):
    """Of e-nodes, however fast the machine is."""
    monkeypatch.setattr(run, "NODE", 1e4)
    case = PROGRAMS["attention"]
    program = eqfuse.optimize(case.fn, case.args("small", device="meta"), target="h200", time_budget=0).program
    graphs = [saturate(program, time_budget=30.0) for _ in range(2)]
    assert [g.report.stopped for g in graphs] == ["time", "time"]
    assert graphs[0].classes == graphs[1].classes
