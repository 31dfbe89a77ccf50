"""Kernels chosen by what compilers and clocks say of several candidates: which are tried, which refused, what is remembered."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
import pytest
import torch

import eqfuse
from eqfuse.extract.cost import fit
from eqfuse.extract.covers.shortlist import Shortlists
from eqfuse.extract.targets import load_target
from eqfuse.extract.variants import variants
from eqfuse.runtime import clocked, compilers, refine
from eqfuse.runtime.compilers import Compilers
from eqfuse.runtime.judging import Judged, job_of, judged
from eqfuse.runtime.refine import Asked, Refiner, with_steps
from eqfuse.testing.programs import PROGRAMS
from eqfuse.tiles.walk import walk


def meta(*shape, dtype=torch.float16):
    return torch.empty(shape, dtype=dtype, device="meta")


@pytest.fixture(scope="module")
def attention():
    """A plan whose kernel is searched for with several tiles."""
    return eqfuse.optimize(PROGRAMS["attention"].fn, [meta(1, 8, 1024, 64)] * 3, target="a100")


def lists(c):
    return lambda: Shortlists(c.graph, c.target, c.plan, 10.0)


def refined(c, most, tune=False, found=None):
    with Refiner(Asked(most, tune, c.target)) as refiner:
        return refiner(c.plan, found or lists(c), "this test")


def tiles(k):
    return {a.name: r.tile for a, r in k.kernel.roles.items()}, k.kernel.warps, k.kernel.stages


def told(job):
    """What a compiler is told of a kernel: tile sizes are parameters."""
    return job.source, job.planned.tiles.parameters, job.planned.kernel.warps, job.planned.kernel.stages


class Said:
    """A compiler that says what it is told of every candidate, by its number; remembers what it was asked."""

    def __init__(self, *answers, late_after=math.inf):
        self.answers, self.asked, self.most, self.late_after = answers, [], [], late_after

    def __call__(self, workers):
        return self

    def __enter__(self):
        return lambda jobs, most, deadline, tick: [self.answer(job, most) for job in jobs]

    def __exit__(self, *error):
        return None

    def answer(self, job, most):
        self.asked.append(job)
        self.most.append(most)
        if len(self.asked) > self.late_after:
            return None
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


def by(us, **more):
    return Judged(static_us=us, floor_us=us and us / 2, unit="issue", **more)


SPILLS = Judged(refused="spills 8 B per thread", spill_bytes=8)
WORSE = Judged(refused="spills 64 B per thread", spill_bytes=64)


@pytest.mark.parametrize(
    ("answers", "chosen", "how"),
    [
        ((by(100.0), by(50.0), by(40.0), by(60.0)), 2, "machine code"),
        ((by(100.0), by(99.0), by(120.0)), 0, "machine code"),  # less than the estimate can tell
        ((SPILLS, by(500.0), by(400.0), WORSE), 2, "machine code"),  # what spills is not compared
        ((by(100.0), SPILLS), 0, "machine code"),
        ((WORSE, SPILLS, WORSE), 1, "model"),  # the one that spills least
        ((Judged(reason="not read"), by(1.0)), 0, "machine code"),  # nothing to compare with
        ((SPILLS, Judged(reason="not read")), 1, "model"),  # of an architecture whose code is not read, what does not spill
    ],
)
def test_the_best_by_machine_code_is_taken(attention, monkeypatch, answers, chosen, how):
    said = Said(*answers)
    monkeypatch.setattr(refine, "Compilers", said)
    plan = refined(attention, 4)
    (k,) = plan.kernels
    assert len(said.asked) == 4 == len(k.refined.candidates), "the model's first, two of its next, and one near the best"
    assert (k.refined.chosen, k.refined.by) == (chosen, how)
    assert len({told(job) for job in said.asked}) == 4, "each once"
    assert told(job_of(k, attention.target)) == told(said.asked[chosen]), "what was judged is what is planned"
    assert plan.estimated_us == pytest.approx(attention.plan.estimated_us + k.cost.us - attention.plan.kernels[0].cost.us)
    assert ("instead of the model's first" in str(plan)) == (chosen > 0)


def test_floors_are_asked_for_with_the_time_of_the_first(attention, monkeypatch):
    said = Said(by(100.0), by(200.0))
    monkeypatch.setattr(refine, "Compilers", said)
    refined(attention, 3)
    assert said.most == [math.inf, pytest.approx(98.0), pytest.approx(98.0)]


def test_a_limit_of_time_is_said(attention, monkeypatch):
    monkeypatch.setattr(refine, "Compilers", Said(by(100.0), by(50.0), late_after=2))
    (k,) = refined(attention, 6).kernels
    assert len(k.refined.candidates) == 2 and k.refined.chosen == 1
    assert "are over" in k.refined.stopped and k.refined.stopped in "\n".join(k.refined.lines(False))


def test_every_candidate_computes_the_same(attention):
    """At a small size, in float64: the candidates of the search, those too large by the model's count, and those near the first."""
    rng = np.random.default_rng(0)
    small = [torch.from_numpy(rng.standard_normal((1, 2, 96, 64))).half() for _ in range(3)]
    want = PROGRAMS["attention"].fn(*(t.double() for t in small))
    first = attention.plan.kernels[0]
    found = [*lists(attention)().of(first, 12), *variants(first, attention.target)]
    assert len({str(tiles(k)) for k in found}) >= 10
    for k in found:
        planned = dataclasses.replace(attention.planned, plan=with_steps(attention.plan, [k]))
        c = eqfuse.planning.rerun(planned, args=small)
        torch.testing.assert_close(c.executable.simulate(*small), want, rtol=1e-9, atol=1e-9)


def test_tiles_that_the_model_refuses_are_tried():
    """Some of those have no spill by the compiler (docs/decisions/machine_code.md)."""
    c = eqfuse.optimize(PROGRAMS["attention"].fn, [meta(1, 8, 2048, 128)] * 3, target="b200")
    found = lists(c)().of(c.plan.kernels[0], 24)
    assert any(fit(walk(k.tiles), c.target).resource == "registers" for k in found)
    assert not any(fit(walk(k.tiles), c.target).reason for k in c.plan.kernels)


def test_a_process_says_what_this_one_says(attention):
    """The report of a compiler in another process, and of a target that is no file."""
    target = dataclasses.replace(load_target("a100"), name="mine")
    case = PROGRAMS["row_softmax"]
    job = job_of(eqfuse.optimize(case.fn, case.args("small", device="meta"), target=target).plan.kernels[0], target)
    with Compilers(2) as pool:
        (there,) = pool([job])
        assert len(pool._started) == 1, "no more than are needed"
    here = judged(job)
    assert dataclasses.replace(there, compile_ms=0) == dataclasses.replace(here, compile_ms=0)
    assert here.static_us > 0 and not here.refused
    assert judged(job, most=0.0).static_us is None, "its floors are above that"


def test_a_process_that_ends_is_a_refusal(attention, monkeypatch):
    monkeypatch.setattr(compilers, "_START", "import sys; sys.exit(3)")
    with Compilers(2) as pool:
        (found,) = pool([job_of(attention.plan.kernels[0], attention.target)])
    assert "ended with status 3" in found.refused or "-9" in found.refused


def test_what_was_found_is_remembered(attention, monkeypatch, tmp_path):
    monkeypatch.setenv("EQFUSE_CACHE", "1")
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))
    said = Said(by(100.0), by(50.0))
    monkeypatch.setattr(refine, "Compilers", said)
    first = refined(attention, 3)
    count = len(said.asked)

    again = refined(attention, 3, found=lambda: pytest.fail("the search is made again"))
    assert len(said.asked) == count, "nothing is compiled again"
    assert again.kernels[0].kernel == first.kernels[0].kernel and again.kernels[0].refined == first.kernels[0].refined
    assert str(again) == str(first)
    for path in (tmp_path / "plans").iterdir():
        path.write_bytes(path.read_bytes().replace(b"machine code", b"machine coda"))
    refined(attention, 3)
    assert len(said.asked) > count, "what is not as it was written is not believed"


def test_judgements_are_remembered(attention, monkeypatch, tmp_path):
    monkeypatch.setenv("EQFUSE_CACHE", "1")
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))
    calls = []
    monkeypatch.setattr(
        compilers,
        "judged",
        lambda job, most: calls.append(most) or by(80.0 if most > 70 else None, reason="" if most > 70 else "not simulated"),
    )
    job = job_of(attention.plan.kernels[0], attention.target)
    pool = Compilers(1)
    assert pool([job], 50.0)[0].static_us is None
    assert pool([job], 30.0)[0].static_us is None and calls == [50.0], "whose floor is above 30 us"
    assert pool([job], 90.0)[0].static_us == pool([job], 10.0)[0].static_us == pool([job])[0].static_us
    assert len(calls) <= 2


def test_the_clock_decides_where_it_is_asked(attention, monkeypatch):
    """On a machine with the target's GPU, of which there is none here: the clock is made up."""
    answers = by(100.0), by(50.0), by(60.0), SPILLS
    monkeypatch.setattr(refine, "Compilers", Said(*answers))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (k,) = refined(attention, 4, True).kernels
    assert k.refined.by == "machine code" and "not timed: no sm_80 is at hand" in k.refined.stopped
    monkeypatch.setattr(refine, "Compilers", Said(*answers))
    monkeypatch.setattr(clocked, "why_not", lambda k, target: "")
    monkeypatch.setattr(clocked, "device_name", lambda target: "fake")
    monkeypatch.setattr(clocked, "_tensors", lambda k, target: {})
    seconds = iter((9e-5, 8e-5, 7e-5))  # of candidates by when they are first called
    monkeypatch.setattr(clocked, "_call", lambda k, target, given: functools.cache(lambda: next(seconds)))
    monkeypatch.setattr(clocked, "sampler", lambda device, threads: lambda call, times: call())
    plan = refined(attention, 4, True)
    (k,) = plan.kernels
    assert [t.measured_us and round(t.measured_us) for t in k.refined.candidates] == [90, 80, 70, None], "what spills is not run"
    assert (k.refined.chosen, k.refined.by) == (2, "clock")
    assert "60.0 us by machine code, at least 30.0 us (issue), 70.0 us measured" in str(plan)


def test_on_a_cpu_it_is_the_clock():
    case = PROGRAMS["row_softmax"]
    c = eqfuse.optimize(case.fn, [torch.empty(64, 512)], target="cpu", refine=2)
    (k,) = c.plan.kernels
    assert len(k.refined.candidates) == 2 and all(t.measured_us > 0 for t in k.refined.candidates)
    x = torch.randn(64, 512)
    torch.testing.assert_close(c(x), case.fn(x))


def test_equal_regions_are_refined_once(monkeypatch):
    def layers(x, *weights):
        for w in weights:
            x = torch.relu(x @ w)
        return x

    said = Said(by(100.0), by(50.0))
    monkeypatch.setattr(refine, "Compilers", said)
    c = eqfuse.optimize(layers, [meta(2048, 2048)] * 18, target="h200", refine=2)
    assert len(c.plan.parts) == 17 and len(said.asked) == 2
    assert all(k.refined.chosen == 1 for k in c.plan.kernels)
    assert str(c.plan).count("instead of the model's first") == 1
