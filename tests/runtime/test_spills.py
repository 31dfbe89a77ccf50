"""Plans that are compiled before they are given out: none spills, and what cannot be helped is said."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

import eqfuse
from eqfuse import cli
from eqfuse.errors import CompileError, PlanError
from eqfuse.extract.objective import TIE
from eqfuse.planning import run
from eqfuse.runtime import spills
from eqfuse.runtime.generated import Generated
from eqfuse.testing.programs import PROGRAMS


def heads(b, h, q, k, d, dtype):
    return tuple(torch.empty((b, h, n, d), dtype=getattr(torch, dtype), device="meta") for n in (q, k, k))


# shapes at which the plan of the model alone spills: the model counts registers, the compiler decides
SPILLING = [
    ("attention", heads(8, 16, 1500, 1500, 72, "float16"), "a100"),
    ("attention", heads(2, 16, 1000, 1000, 256, "float32"), "h200"),
]


@pytest.mark.parametrize(("name", "args", "target"), SPILLING, ids=[f"{n}-{t}" for n, _, t in SPILLING])
def test_a_plan_that_spills_is_planned_again(name, args, target):
    by_model = eqfuse.optimize(PROGRAMS[name].fn, args, target=target)
    spilled = max(r.spill_bytes for r in by_model.compile())
    assert spilled > 0, "if the model has learned of this shape, put another one here"
    c = eqfuse.optimize(PROGRAMS[name].fn, args, target=target, no_spills=True)
    assert [r.spill_bytes for r in c.compile()] == [0] * len(c.plan.kernels)
    assert f"spills {spilled} B per thread" in c.plan.compiled[0]
    assert "without spills" in c.plan.compiled[-1]
    assert all(f"  compiler: {line}" in str(c.plan) for line in c.plan.compiled)
    assert c.plan.estimated_us >= by_model.plan.estimated_us / TIE, "the model prefers what spills, or there was nothing to do"


def test_what_does_not_spill_is_left_alone():
    case = PROGRAMS["row_softmax"]
    args = case.args("small", device="meta")
    c = eqfuse.optimize(case.fn, args, target="h200", no_spills=True)
    plain = eqfuse.optimize(case.fn, args, target="h200")
    assert c.plan.compiled == ("1 kernel without spills on sm_90",)
    assert [k.kernel for k in c.plan.kernels] == [k.kernel for k in plain.plan.kernels]
    assert not plain.plan.compiled, "nothing is compiled unasked"


@pytest.fixture
def compiler(monkeypatch):
    """A compiler that says what it is told of every plan; returns the plans that it has seen."""
    seen = []

    def install(spilled):
        def reports(c):
            seen.append(c.plan)
            Report = dataclasses.make_dataclass("Report", ["spill_bytes", "arch"])
            return [Report(spilled(len(seen), k), c.target.arch) for k in c.plan.kernels]

        monkeypatch.setattr(Generated, "compile", reports)
        return seen

    return install


def planned(**options):
    case = PROGRAMS["attention"]
    return eqfuse.optimize(case.fn, case.args("bench", device="meta"), **case.options, target="h200", no_spills=True, **options)


def test_the_search_ends_and_says_what_is_left(compiler):
    seen = compiler(lambda n, k: 8 if n == 2 else 100)
    c = planned()
    assert 3 < len(seen) <= spills.ATTEMPTS
    assert c.plan.compiled[-1].startswith("8 B per thread of spills are left: ")
    assert [k.kernel for k in c.plan.kernels] == [k.kernel for k in seen[1].kernels], "the plan that spills least"
    used = [p.kernels[-1].cost.register_bytes / p.kernels[-1].kernel.warps for p in seen]
    assert used == sorted(used, reverse=True) and len(set(used)) == len(used), "each takes fewer registers than the one before"


def test_the_first_plan_that_does_not_spill_is_taken(compiler):
    seen = compiler(lambda n, k: 100 if n < 3 else 0)
    c = planned()
    assert len(seen) == 3 and len(c.plan.compiled) == 3
    assert [k.kernel for k in c.plan.kernels] == [k.kernel for k in seen[2].kernels]


def test_only_the_kernel_that_spills_changes(compiler):
    """The product; the statistics of rows before it stay.  There is no room to store all rows."""
    compiler(lambda n, k: 100 if n == 1 and k.kernel.name == "rmsnorm_linear_out" else 0)
    case = PROGRAMS["rmsnorm_linear"]
    args = case.args("bench", device="meta")
    plain = eqfuse.optimize(case.fn, args, target="h200", memory_limit=1 << 20).plan
    found = eqfuse.optimize(case.fn, args, target="h200", memory_limit=1 << 20, no_spills=True).plan
    assert [k.kernel.name for k in found.kernels] == [k.kernel.name for k in plain.kernels]
    assert found.kernels[0].kernel == plain.kernels[0].kernel
    assert found.kernels[1].kernel.roles != plain.kernels[1].kernel.roles


def test_an_explanation_is_about_the_plan_that_was_compiled(compiler):
    compiler(lambda n, k: 100 if n == 1 else 0)
    c = planned()
    explained = c.explain()
    runner_up = explained.runner_up
    assert runner_up is None or runner_up.us >= c.plan.estimated_us
    assert [k.cost for k in eqfuse.optimize(*_of("attention"), target="h200").plan.kernels] != [k.cost for k in c.plan.kernels]


def _of(name):
    return PROGRAMS[name].fn, PROGRAMS[name].args("bench", device="meta")


def test_nothing_smaller_ends_the_search(compiler):
    compiler(lambda n, k: 100)
    first = eqfuse.optimize(*_of("attention"), target="h200")

    def none(shares):
        raise PlanError("no kernel fits")

    found = spills.without_spills(first.plan, first.target, none, lambda plan: first.compile())
    assert found.compiled[-1] == "100 B per thread of spills are left"


def test_a_kernel_that_does_not_compile_is_an_error(monkeypatch):
    def fails(c):
        raise CompileError("no such instruction", where="kernel")

    monkeypatch.setattr(Generated, "compile", fails)
    with pytest.raises(CompileError, match="no such instruction"):
        planned()


def test_other_shapes_and_targets_are_compiled_too(compiler):
    seen = compiler(lambda n, k: 0)
    c = planned()
    args = PROGRAMS["attention"].args("small", device="meta")
    assert run(c.planned.request.on(args, {})).plan.compiled == ("1 kernel without spills on sm_90",)
    assert c.replan("a100").plan.compiled == ("1 kernel without spills on sm_80",)
    assert len(seen) == 3


def test_the_command_line(tmp_path, capsys):
    file = tmp_path / "model.py"
    file.write_text("def scaled(x):\n    return (x - x.mean(-1, keepdim=True)).exp()\n")
    assert cli.main(["optimize", f"{file}:scaled", "--shape", "x=64,128", "--no-spills"]) == 0
    assert "compiler: 1 kernel without spills on sm_90" in capsys.readouterr().out
    assert cli.main(["optimize", f"{file}:scaled", "--shape", "x=64,128", "--no-spills", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["compiled"] == ["1 kernel without spills on sm_90"]
