"""Verdicts that no plan obeys: the error names each verdict and who gave it."""

import pytest
import torch
from verdict_rules import joined, optimised, parted

import eqfuse
from eqfuse.errors import PlanError

HERE = "verdict_rules.py"


def refused(**options):
    with pytest.raises(PlanError) as info:
        optimised(**options)
    return info.value


def test_two_rules_that_contradict_each_other():
    error = refused(rules=[joined, parted])
    assert "joined requires and parted forbids that two values of 'layer' share a kernel" in error.message
    assert error.cure == f"leave out one of them: joined ({joined.where}), or parted ({parted.where})"
    assert HERE in error.cure


def test_a_rule_and_a_request_that_contradict_each_other():
    error = refused(rules=[joined], fusion=[("forbid", "bounded", "product")])
    assert f"joined ({joined.where})" in error.cure
    assert "fusion=('forbid', 'bounded', 'product')" in error.cure


def test_verdicts_that_no_plan_obeys_together():
    """The product must be made where the result is, and so is the tanh between them, from which another verdict parts it."""
    asked = [("require", "out", "product"), ("forbid", "bounded", "product")]
    error = refused(fusion=asked)
    assert f"forbidden by fusion={asked[1]!r}" in error.message
    assert error.cure == f"leave out fusion={asked[1]!r}, or fusion={asked[0]!r}: no plan obeys them all"


def test_two_requests_that_contradict_each_other():

    def f(x, w):
        scores = x @ w
        return torch.softmax(scores, -1) @ w.t()

    x = torch.empty(64, 65536, device="meta", dtype=torch.float16)
    w = torch.empty(65536, 65536, device="meta", dtype=torch.float16)
    asked = [("require", "out", "scores"), ("forbid", "out", "scores")]
    with pytest.raises(PlanError) as info:
        eqfuse.optimize(f, (x, w), target="h200", fusion=asked)
    assert all(f"fusion={a!r}" in info.value.cure for a in asked)
