"""Programs that were once wrong or planned badly, each small enough to read.  Plans are made at a size with several tiles on every
axis and verified there or, with the same kernels, at another one."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import eqfuse
from eqfuse.testing import assert_equivalent
from eqfuse.testing.programs import PROGRAMS


def planned(f, *shapes, dtype=torch.float32):
    return eqfuse.optimize(f, [torch.empty(s, dtype=dtype, device="meta") for s in shapes], target="h200")


def _two_way_centred(x):
    return (x - x.mean(0, keepdim=True) - x.mean(1, keepdim=True) + x.mean()).square().sum()


TWO_AXES = {
    "variance of a matrix": (lambda x: x.var((0, 1), correction=0), (3000, 3000), (300, 310)),
    "variance of inner matrices": (lambda x: x.var((1, 2), correction=0), (2, 3000, 300), (2, 700, 300)),
    "statistics of channels": (lambda x: torch.var_mean(x, (0, 2, 3), correction=0), (64, 256, 56, 56), (8, 5, 33, 17)),
    "centred both ways": (_two_way_centred, (2500, 3100), (250, 310)),
}


@pytest.mark.parametrize("name", TWO_AXES)
def test_running_values_stay_in_their_tile(name):
    """A running mean over rows was read inside a second loop over the rows, where it belonged to another tile."""
    f, large, small = TWO_AXES[name]
    x = torch.randn(small, generator=torch.Generator().manual_seed(0)) + 5
    for row in planned(f, large).at(x).accuracy(x, runner="simulate").outputs:
        assert row.ours < 1e-10, row


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (lambda x, w: x @ w, [(2, 4096, 4096), (4096, 4096)]),
        (lambda x, w: F.linear(x, w).view(2, 4096, 32, 128).transpose(1, 2), [(2, 4096, 4096), (4096, 4096)]),
        (lambda x, g, w: F.linear(F.rms_norm(x, (4096,)) * g, w), [(2, 4096, 4096), (4096,), (6144, 4096)]),
    ],
    ids=["batched", "into heads", "normalised"],
)
def test_batched_products_run_on_the_matrix_unit(f, shapes):
    """Two row axes on one side of a product: one of them is tiled, the other takes a position per program."""
    plan = planned(f, *shapes, dtype=torch.float16).plan
    assert all(k.cost.flops > 0 for k in plan.kernels if k.cost.simt > 1e9)
    assert plan.estimated_us < 3 * plan.baseline_us, str(plan)


def test_batched_product_is_right():
    x, w = torch.randn(3, 70, 33), torch.randn(33, 45)
    c = eqfuse.optimize(lambda x, w: x @ w, (x, w), target="h200")
    assert_equivalent(lambda x, w: x @ w, lambda *a: c.interpret(*a), (x, w))


def test_a_slice_is_compulsory_only_where_it_reads():
    plan = planned(lambda x: x[:, :128].sum(-1), (8192, 8192), dtype=torch.float16).plan
    assert plan.compulsory_bytes == 8192 * 128 * 2 + 8192 * 2
    assert plan.dram_bytes >= plan.compulsory_bytes


def test_accuracy_notices_a_lost_nan():
    from eqfuse.runtime.accuracy import relative_error

    exact = torch.tensor([1.0, float("nan"), 2.0]).numpy()
    assert relative_error(torch.tensor([1.0, 0.0, 2.0]).numpy(), exact) == (0.0, 1)


def test_another_number_than_was_traced_runs_in_torch_on_the_cpu():
    c = eqfuse.optimize(lambda x, s: x + s, (torch.ones(3), 3.0), target="h200")
    assert torch.equal(c(torch.ones(3), 5.0), torch.full((3,), 6.0))


def test_logits_are_not_stored_where_memory_is_what_counts():
    """Storing the logits is faster by the model; who has no memory for them says so, and the front of the plan has both."""
    f = PROGRAMS["linear_cross_entropy"].fn
    args = PROGRAMS["linear_cross_entropy"].args("bench", device="meta")

    lean, limited, fast = (
        eqfuse.optimize(f, args, target="h200", **kw).plan for kw in ({"objective": "memory"}, {"memory_limit": 1 << 30}, {})
    )
    assert lean.temporary_bytes < 1e7
    assert limited.temporary_bytes < 1 << 30
    assert fast.temporary_bytes > 1e9
    assert fast.estimated_us < lean.estimated_us
    assert [a.temporary_bytes for a in fast.front] == [fast.temporary_bytes, lean.temporary_bytes]


@pytest.mark.parametrize("monoid", ["logsumexp", "amax", "sum"])
def test_long_rows_are_split_over_the_grid(monoid):
    """A few very long rows: parts on the grid, and a second kernel that merges them; ragged parts, and rows with -inf."""
    f = getattr(torch, monoid)
    compiled = planned(lambda x: f(x, -1), (4, 1 << 20))
    assert len(compiled.plan.kernels) == 2, str(compiled.plan)
    x = torch.randn(3, 20001, generator=torch.Generator().manual_seed(0)) * 1e3
    if monoid != "sum":
        x[0, ::3] = float("-inf")
        x[1, :15000] = float("-inf")
        x[2] = float("-inf")
    assert_equivalent(lambda x: f(x, -1), lambda *a: compiled.at(*a).interpret(*a), (x,))


@pytest.mark.parametrize(
    "f",
    [
        lambda c, a, b: (c * torch.sin(a / b)).sum(-1),
        lambda c, a, b: (c * torch.tanh(torch.sin(1 / b))).sum(-1),
        lambda c, a, b: (c[None, :] * torch.cos(1 / b)).sum(-1) * a,
    ],
)
def test_padded_lanes_are_masked_where_they_may_be_nan(f):
    """b is zero on a padded lane and c too, but the sine of 1/0 is no number, whatever the range of a sine is."""
    args = torch.randn(3), torch.randn(()), torch.rand(3) + 0.5
    compiled = eqfuse.optimize(f, args, target="h200")
    for got in (compiled.simulate(*args), compiled.interpret(*args)):
        torch.testing.assert_close(got.float(), f(*args), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [30.0, 1e4, 1e10])
def test_the_maximum_is_that_of_the_rounded_products(size):
    """A row in two passes: an exponent that contracts x * w - max takes another product than the one that was the maximum."""
    f = lambda x, w: torch.softmax(x * w, -1)  # noqa: E731
    planned = eqfuse.optimize(f, [torch.empty(4096, 120000, device="meta"), torch.empty(120000, device="meta")], target="h200")
    assert "enable_fp_fusion=False" in planned.source
    random = torch.Generator().manual_seed(3)
    x, w = torch.randn(8, 900, generator=random) * size, torch.randn(900, generator=random) * 3
    exact = f(x.double(), w.double())
    error, eager = ((y - exact).abs().max().item() for y in (planned.at(x, w).interpret(x, w), f(x, w)))
    assert error <= 2 * max(eager, 2.0**-24)
