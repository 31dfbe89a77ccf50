"""Linear + cross-entropy: logits are never stored, and one kernel makes the loss where there are rows enough, or where it is asked for.

A batch of four sequences gives tiles of rows enough to fill a device.  One sequence does not: by itself its plan is two kernels, with the
vocabulary split over the grid; a verdict that requires the loss and the logits to share a kernel gives the one-kernel plan there, too.
"""

from __future__ import annotations

import pytest
import torch

import eqfuse
from eqfuse.testing.programs import PROGRAMS, TYPES
from eqfuse.tiles.walk import walk

MANY, FEW = PROGRAMS["linear_cross_entropy"], PROGRAMS["linear_cross_entropy_few_rows"]
ONE = [("require", "out", "mm")]


@pytest.fixture(scope="module")
def required():
    return eqfuse.optimize(FEW.fn, FEW.args("bench", "float16", device="meta"), target="h200", fusion=ONE)


def held(plan: eqfuse.Plan) -> int:
    return max((b.bytes for b in plan.buffers.values() if b.role == "temporary"), default=0)


def is_one_pass(plan: eqfuse.Plan) -> bool:
    """One kernel, one loop over the vocabulary, nothing stored but the losses, nothing read twice."""
    one = len(plan.steps) == len(plan.kernels) == 1 and dict(plan.kernels[0].passes)["j"] == 1
    return one and not held(plan) and plan.dram_bytes <= 1.1 * plan.compulsory_bytes


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("target", eqfuse.targets())
def test_one_kernel_by_default(target, dtype):
    plan = eqfuse.optimize(MANY.fn, MANY.args("bench", dtype, device="meta"), target=target).plan
    assert is_one_pass(plan), str(plan)


def test_one_kernel_where_it_is_required(required):
    assert is_one_pass(required.plan), str(required.plan)


def test_it_computes_the_loss(required):
    args = FEW.args("check", "float16")
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


@pytest.mark.parametrize("tokens", [2048, 4096, 8192])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("target", eqfuse.targets())
def test_logits_are_never_stored(target, dtype, tokens):
    """Whatever the number of kernels: what two of them pass on are the parts of the losses.  (16384 tokens are the bench shape.)"""
    element = getattr(torch, dtype)
    x, w = (torch.empty(n, 4096, dtype=element, device="meta") for n in (tokens, 128256))
    labels = torch.empty(tokens, dtype=torch.int64, device="meta")
    plan = eqfuse.optimize(MANY.fn, (x, w, labels), target=target).plan
    assert held(plan) < 4e6, str(plan)
    assert plan.dram_bytes <= 1.1 * plan.compulsory_bytes, str(plan)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("target", eqfuse.targets())
def test_normalised_rows_are_never_stored(target, dtype):
    """rmsnorm -> linear: one kernel whatever the cache, in two passes where the operands of a product on the general units leave no
    registers for a sum beside it.  float16 cannot hold the rows before they are normalised, so that they are scaled as they come; where
    that takes longer than another kernel, a kernel of its own makes the statistics."""
    case = PROGRAMS["rmsnorm_linear"]
    plan = eqfuse.optimize(case.fn, case.args("bench", dtype, device="meta"), target=target).plan
    apart = dtype == "float16" and target in ("a100", "mi300x")
    assert len(plan.kernels) == (2 if apart else 1), str(plan)
    assert held(plan) == (4096 * 4 if apart else 0)  # a number to a row
    assert any(k.kernel.scaled for k in plan.kernels) == (dtype == "float16" and not apart)
    passes = max(n for k in plan.kernels for n in k.passes.values())
    assert passes <= (2 if (target, dtype) == ("rtx6000ada", "float32") else 1)
    assert all(d == ("float16", "") for k in plan.kernels for d in walk(k.tiles).tensor_flops) or dtype != "float16"


@pytest.mark.parametrize("target", eqfuse.targets())
def test_statistics_and_product_share_a_kernel_where_that_is_required(target):
    """The same in float16: one kernel on demand, also where it takes longer."""
    case = PROGRAMS["rmsnorm_linear"]
    args = case.args("bench", "float16", device="meta")
    plan = eqfuse.optimize(case.fn, args, target=target, fusion=[("require", "out", "mean")]).plan
    assert len(plan.kernels) == 1
    assert not held(plan)
    free = eqfuse.optimize(case.fn, args, target=target).plan
    if len(free.kernels) == 1:
        assert plan.estimated_us == free.estimated_us
    else:
        assert plan.estimated_us > free.estimated_us
