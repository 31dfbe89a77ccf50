"""Linear + cross-entropy within little memory: logits are not stored, and one kernel makes the loss where there are rows enough, or where it is asked for.

A batch of four sequences gives tiles of rows enough to fill a device.  One sequence does not: by itself its plan is two kernels, with the
vocabulary split over the grid; a verdict that requires the loss and the logits to share a kernel gives the one-kernel plan there, too.
"""

from __future__ import annotations

import pytest
import torch

import eqfuse
from eqfuse.extract.targets import load_target
from eqfuse.testing.programs import PROGRAMS, TYPES
from eqfuse.tiles.walk import walk

MANY, FEW = PROGRAMS["linear_cross_entropy"], PROGRAMS["linear_cross_entropy_few_rows"]
LITTLE = {"memory_limit": 4 << 20}  # for what is passed on between kernels: parts of losses, statistics of rows
ONE = [("require", "out", "mm")]
GPUS = [t for t in eqfuse.targets() if not load_target(t).on_cpu]


@pytest.fixture(scope="module")
def required():
    return eqfuse.optimize(FEW.fn, FEW.args("bench", "float16", device="meta"), **FEW.options, target="h200", fusion=ONE)


def held(plan: eqfuse.Plan) -> int:
    return max((b.bytes for b in plan.buffers.values() if b.role == "temporary"), default=0)


def is_one_pass(plan: eqfuse.Plan) -> bool:
    """One kernel, one loop over the vocabulary, nothing stored but the losses, nothing read twice."""
    one = len(plan.steps) == len(plan.kernels) == 1 and dict(plan.kernels[0].passes)["w_rows"] == 1
    return one and not held(plan) and plan.dram_bytes <= 1.1 * plan.compulsory_bytes


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("target", GPUS)
def test_one_kernel_by_default(target, dtype):
    """Unless tiles of rows leave compute units idle that parts of the vocabulary would use: 256 tiles in float32 for the 304 of mi300x."""
    plan = eqfuse.optimize(MANY.fn, MANY.args("bench", dtype, device="meta"), **MANY.options, target=target).plan
    if plan.splits:
        assert (target, dtype) == ("mi300x", "float32")
        assert held(plan) <= LITTLE["memory_limit"]
        assert plan.dram_bytes <= 1.1 * plan.compulsory_bytes
    else:
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
@pytest.mark.parametrize("target", GPUS)
def test_logits_are_not_stored(target, dtype, tokens):
    """Whatever the number of kernels: what two of them pass on are the parts of the losses.  (16384 tokens are the bench shape.)"""
    element = getattr(torch, dtype)
    x, w = (torch.empty(n, 4096, dtype=element, device="meta") for n in (tokens, 128256))
    labels = torch.empty(tokens, dtype=torch.int64, device="meta")
    plan = eqfuse.optimize(MANY.fn, (x, w, labels), target=target, **LITTLE).plan
    assert held(plan) < 4e6, str(plan)
    assert plan.dram_bytes < 0.5 * plan.baseline_bytes, str(plan)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("target", GPUS)
def test_normalised_rows_are_not_stored(target, dtype):
    """rmsnorm -> linear within little memory: one pass where the type holds the rows before they are normalised, or their statistics come
    first, one number for each row, from a kernel of its own.  Float16 does not hold them: it has that kernel, or a pass, and the products
    are of float16 all the same."""
    case = PROGRAMS["rmsnorm_linear"]
    plan = eqfuse.optimize(case.fn, case.args("bench", dtype, device="meta"), target=target, **LITTLE).plan
    passes = [dict(k.passes)["cols"] for k in plan.kernels]
    assert passes in ([1, 1], [2] if dtype == "float16" else [1]), str(plan)
    assert held(plan) == (4 * 4096 if len(passes) == 2 else 0)
    if dtype == "float16":
        assert {(p.dtype.name, p.precision) for p in walk(plan.kernels[-1].tiles).products} == {("float16", "")}
