"""why(a, b): each reason shown by a program that has it, and checked against the extractor or the model by other means."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

import eqfuse
from eqfuse.egraph.frozen import levels
from eqfuse.explain import VERDICTS
from eqfuse.extract.targets import load_target
from eqfuse.rewrites.decorators import fusion
from eqfuse.rewrites.facts import match
from eqfuse.rewrites.patterns import Map, Reduce, Sum
from eqfuse.rewrites.rule import Axis
from eqfuse.rewrites.verdicts import forbid
from eqfuse.testing.programs import PROGRAMS


def empty(*shape, dtype=torch.float32):
    return torch.empty(*shape, device="meta", dtype=dtype)


def answered(c, a, b):
    """The answer, after checking what every answer promises."""
    found = c.why(a, b)
    assert found.verdict in VERDICTS
    assert (found.a, found.b) == (a, b)
    data = json.loads(json.dumps(found.data()))
    assert data["text"] == str(found) == found.text
    assert data["meaning"] == VERDICTS[found.verdict]
    back = c.why(b, a)
    assert (back.verdict, back.shared) == (found.verdict, found.shared)
    return found


# together -------------------------------------------------------------------------------------------------------------------------
def attention(q, k, v):
    scores = q @ k.transpose(-1, -2)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v


@pytest.fixture(scope="module")
def fused():
    return eqfuse.optimize(attention, (empty(8, 2048, 64, dtype=torch.float16),) * 3, target="h200")


def test_values_of_one_kernel(fused):
    assert len(fused.plan.kernels) == 1
    found = answered(fused, "scores", "out")
    assert found.verdict == "shared"
    assert found.kernels == {"scores": ("attention_out",), "out": ("attention_out",)}
    assert answered(fused, "q", "out").verdict == "shared"  # an input is where it is read


def test_one_value_under_two_names(fused):
    assert answered(fused, "scores", "bmm").verdict == "same"


def test_a_value_that_was_rewritten_away(fused):
    found = answered(fused, "weights", "out")
    assert found.verdict == "rewritten"
    assert found.shared
    assert found.details["rule"] == "factor_out"
    assert found.details["where"] == next(r.where for r in eqfuse.rules() if r.name == "factor_out")
    assert "sum_k_rows(weights * v)" in found.text
    without = eqfuse.optimize(attention, (empty(8, 2048, 64, dtype=torch.float16),) * 3, target="h200", disable=["factor_out"])
    assert without.why("weights", "out").verdict == "shared"  # the rule is to blame


# costs more -----------------------------------------------------------------------------------------------------------------------
def feed_forward(x, w1, w2):
    first = x @ w1
    hidden = torch.relu(first)
    return hidden @ w2


def test_costs_more():
    shapes = ((8192, 1024), (1024, 4096), (4096, 1024))
    c = eqfuse.optimize(feed_forward, tuple(empty(*s, dtype=torch.float16) for s in shapes), target="h200")
    found = answered(c, "first", "out")
    assert found.verdict == "costs more"
    assert not found.shared
    assert found.kernels["first"] != found.kernels["out"]
    one = next(a for a in c.plan.alternatives if a.description == "one kernel")  # the search itself priced that kernel
    assert found.details["slower_us"] == pytest.approx(one.us - c.plan.estimated_us)
    assert found.details["more_dram_bytes"] == one.dram_bytes - c.plan.dram_bytes
    terms = {t["term"]: t["difference_us"] for t in found.details["terms"]}
    assert found.details["term"] == max(terms, key=terms.get)
    assert sum(terms.values()) == pytest.approx(found.details["slower_us"])
    assert terms["launch"] < 0  # a kernel less
    assert "because one kernel with both takes" in found.text


def test_what_loses_by_memory_says_so():
    """Where holding memory is what counts, the runner-up stores the product and would be faster."""
    shapes = ((32768, 1024), (1024, 4096), (4096, 1024))
    arguments = tuple(empty(*s, dtype=torch.float16) for s in shapes)
    c = eqfuse.optimize(feed_forward, arguments, target="h200", objective="memory")
    assert answered(c, "first", "out").verdict == "shared"
    r = c.explain().runner_up
    assert r.slower_us < 0  # it would be faster
    assert r.temporary_bytes > c.plan.temporary_bytes
    assert f"takes {-r.slower_us:.1f} us less, and holds" in str(c.explain())


# does not fit -----------------------------------------------------------------------------------------------------------------------
def brick(x):
    rows = x.amax((3, 4), keepdim=True)
    top = rows.amax((1, 2), keepdim=True)
    e = torch.exp(x - top)
    return e / e.sum((1, 2, 3, 4), keepdim=True)


def test_does_not_fit():
    c = eqfuse.optimize(brick, (empty(64, 32, 32, 32, 32),), target="h200")
    assert len(c.plan.kernels) > 1
    found = answered(c, "rows", "out")
    assert found.verdict == "does not fit"
    d = found.details
    assert d["resource"] == "registers"
    assert sorted(d["tile"].values()) == [32] * 4
    assert d["tile_bytes"] == 4 * 32**4
    device = load_target("h200")
    assert d["over_bytes"] > d["tile_bytes"] - 16 * 4 * device.tile_registers * device.warp_size > 0  # beside the tile stands something
    assert str(d["over_bytes"]) in found.text
    larger = replace(device.with_level("registers", bytes=64 * 4 * device.registers_per_sm), name="larger", tile_registers=64 * 255)
    assert eqfuse.optimize(brick, (empty(64, 32, 32, 32, 32),), target=larger).why("rows", "out").shared  # the limit is the reason


# no equation ------------------------------------------------------------------------------------------------------------------------
def chain(x):
    a = x.amax(-1, keepdim=True)
    b = torch.tanh(x * torch.cos(a)).amax(-1, keepdim=True)
    c = torch.tanh(x * torch.cos(b)).amax(-1, keepdim=True)
    d = torch.tanh(x * torch.cos(c)).amax(-1, keepdim=True)
    return torch.tanh(x * torch.cos(d)).amax(-1)


def test_no_equation():
    c = eqfuse.optimize(chain, (empty(256, 200_000),), target="h200", disable=["forms", "selections"])
    found = answered(c, "a", "out")
    assert found.verdict == "no equation"
    value = c.explain().value("d")
    assert found.details["missing"] == "d[rows]"
    (axis,) = [x for x in c.program.axes if x.size == 200_000]
    assert levels(c.graph, value.cls, axis) == 4
    assert "after 4 loops over cols" in found.details["reason"]
    assert "d[rows] is missing" in found.text


def test_the_equation_that_was_missing():
    """With a rule's help the same question has another answer: softmax needs two loops without repair, one with it."""
    case = PROGRAMS["row_softmax"]
    c = eqfuse.optimize(case.fn, case.args("bench", device="meta"), **case.options, target="h200")
    assert c.explain().kernels[0].passes == {"cols": 2}
    plain = eqfuse.optimize(case.fn, case.args("bench", device="meta"), **case.options, target="h200", disable=["repair"])
    assert plain.explain().kernels[0].passes == {"cols": 3}


# forbidden --------------------------------------------------------------------------------------------------------------------------
@fusion(register=False)
def maximum_on_its_own(y, m, x, j: Axis):
    """A maximum and the sum of exponentials that needs it run in different kernels."""
    return [match(m, Reduce("max", j, x)), match(y, Sum(j, Map("exp", x + Map("neg", m))))], forbid(y, m)


def partition(x):
    top = x.amax(-1, keepdim=True)
    return torch.exp(x - top).sum(-1)


def test_forbidden():
    free = eqfuse.optimize(partition, (empty(4096, 4096),), target="h200")
    assert answered(free, "top", "out").verdict == "shared"
    c = eqfuse.optimize(partition, (empty(4096, 4096),), target="h200", rules=[maximum_on_its_own])
    found = answered(c, "top", "out")
    assert found.verdict == "forbidden"
    assert found.details["rule"] == "maximum_on_its_own"
    assert found.details["where"].startswith("api/test_explain_why.py:")
    assert found.details["where"] in found.text
    assert set(found.details["speaks_of"]) == {"top", "out"}


def test_lifting_the_verdict_is_what_it_takes():
    """A kernel that costs more is not called forbidden because some verdict speaks of other values."""
    shapes = ((8192, 1024), (1024, 4096), (4096, 1024))
    c = eqfuse.optimize(feed_forward, tuple(empty(*s, dtype=torch.float16) for s in shapes), target="h200", rules=[maximum_on_its_own])
    assert c.why("first", "out").verdict == "costs more"


# a split reduction -------------------------------------------------------------------------------------------------------------------
def test_parts_of_a_split_axis():
    """The scores of decoding are computed in parts (through a view), and one kernel for both parts and their merge costs more."""
    c = eqfuse.optimize(
        attention, (empty(8, 1, 128, dtype=torch.float16), *(empty(8, 16384, 128, dtype=torch.float16),) * 2), target="h200"
    )
    assert len(c.plan.kernels) == 2
    found = answered(c, "scores", "out")
    assert found.verdict == "costs more"
    assert found.kernels == {"scores": (c.plan.kernels[0].kernel.name,), "out": (c.plan.kernels[1].kernel.name,)}
    one = next(a for a in c.plan.alternatives if a.description == "one kernel")
    assert found.details["slower_us"] == pytest.approx(one.us - c.plan.estimated_us)
