"""One kernel where it is asked for: linear + cross-entropy in a single launch, logits neither stored nor handed on.

By itself the plan for most devices is two kernels, because one has too few programs (a tile of rows each) and is modelled slower; a
verdict that requires the loss and the logits to share a kernel gives the other plan.
"""

from __future__ import annotations

import pytest

import eqfuse
from eqfuse.testing.programs import PROGRAMS

CASE = PROGRAMS["linear_cross_entropy"]
ONE = [("require", "out", "mm")]


@pytest.fixture(scope="module")
def required():
    return eqfuse.optimize(CASE.fn, CASE.args("bench", "float16", device="meta"), target="h200", fusion=ONE)


def test_one_kernel_and_no_temporary(required):
    plan = required.plan
    assert len(plan.steps) == len(plan.kernels) == 1, str(plan)
    assert dict(plan.kernels[0].passes)["j"] == 1
    assert not [b for b in plan.buffers.values() if b.role == "temporary"]
    assert plan.dram_bytes <= 1.1 * plan.compulsory_bytes


def test_it_computes_the_loss(required):
    args = CASE.args("check", "float16")
    small = required.at(*args)
    assert len(small.plan.kernels) == 1
    small.accuracy(*args, runner="simulate", factor=2.0)
    args = tuple(a[:37] if a.shape[0] == 197 else a for a in args)
    required.at(*args).accuracy(*args, runner="interpret", factor=2.0)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100", "gfx942"])
def test_it_compiles_without_spills(required, arch):
    reports = required.compile(arch)
    assert len(reports) == 1
    assert not reports[0].spill_bytes


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("target", eqfuse.targets())
def test_logits_are_never_stored(target, dtype):
    """Whatever the number of kernels."""
    plan = eqfuse.optimize(CASE.fn, CASE.args("bench", dtype, device="meta"), target=target).plan
    assert max((b.bytes for b in plan.buffers.values() if b.role == "temporary"), default=0) < 4e6, str(plan)
