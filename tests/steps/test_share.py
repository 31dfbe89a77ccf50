"""The headline of a plan in steps: how much of the model torch runs, in operators, bytes and arithmetic."""

import pytest
import torch

import eqfuse
from eqfuse.errors import PlanError
from eqfuse.extract.plan import Share, Work
from eqfuse.steps import planning

X, W = torch.randn(8, 16), torch.randn(16, 4)


def largest(x, w):
    return torch.topk(torch.relu(x @ w) * 2, 2, -1).values + 1


def test_operators_bytes_and_products():
    plan = eqfuse.optimize(largest, (X, W), target="h200").plan
    share = plan.share
    topk = 8 * 4 * 4 + 8 * 2 * (4 + 8)  # takes 8 x 4, gives 8 x 2 values and positions
    assert share.torch == Work(1, topk, 0)
    assert (share.all.operators, share.all.flops) == (5, 2 * 8 * 16 * 4)
    product = 4 * (X.numel() + W.numel() + 8 * 4)
    assert share.all.bytes == topk + product + 2 * (2 * 8 * 4 * 4) + 2 * 8 * 2 * 4
    assert f"1 of 5 operators in torch ({100 * topk / share.all.bytes:.0f} % of the bytes, 0 % of the arithmetic of products)" in str(plan)


def test_a_piece_without_kernels_is_torch_s(monkeypatch):
    """Which was one operator of one in torch, however much of the model it was."""

    def refused(*_, **__):
        raise PlanError("a program may have at most so many axes")

    monkeypatch.setattr(planning, "run", refused)
    plan = eqfuse.optimize(largest, (X, W), target="h200").plan
    assert plan.share.torch == plan.share.all
    assert plan.share.all.operators == 5
    assert "5 of 5 operators in torch (100 % of the bytes, 100 % of the arithmetic of products)" in str(plan)
    assert plan.library_bytes == plan.share.all.bytes


def test_a_product_in_torch_counts_by_its_arithmetic():
    weight = torch.randn(4, 3, 3, 3, dtype=torch.float64)  # in which no kernel computes

    def f(x):
        return torch.relu(torch.conv2d(x.double(), weight, padding=1).float()) * 2

    plan = eqfuse.optimize(f, (torch.randn(2, 3, 8, 8),), target="h200").plan
    flops = 2 * (2 * 8 * 8) * 4 * 3 * 9
    assert (plan.share.torch.flops, plan.share.all.flops) == (flops, flops)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (Share(Work(), Work(3, 100, 0)), "0 of 3 operators in torch"),
        (Share(Work(1, 25, 0), Work(3, 100, 0)), "1 of 3 operators in torch (25 % of the bytes)"),
        (Share(Work(1, 0, 0), Work(1, 0, 0)), "1 of 1 operator in torch"),
    ],
)
def test_words(share, text):
    assert str(share) == text
