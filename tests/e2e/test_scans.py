"""Scans from torch to kernels: torch's values and types, one kernel for what is around a scan, parts over the grid for long ones."""

from __future__ import annotations

import math

import pytest
import torch

import eqfuse

INF, NAN = math.inf, math.nan
HARD = torch.tensor([[1.0, NAN, 3.0, -1.0, 2.0], [-INF, -2.0, 5.0, -INF, 4.0], [-INF, -INF, -INF, -INF, 0.5], [INF, 1.0, -INF, 2.0, 3.0]])
X = torch.linspace(-2.0, 2.0, 3 * 37).reshape(3, 37).sin() * 3.0


def check(f, *args):
    """What the planned kernels compute is what torch does: shape, type, numbers."""
    compiled = eqfuse.optimize(f, args, target="h200", strict=True)
    found, expected = compiled.interpret(*args), f(*args)
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    assert all(x.dtype == y.dtype for x, y in pairs)
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5, equal_nan=True)
    return compiled.plan


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x: x.cumsum(-1), (HARD,)),
        (lambda x: x.cumsum(0) + x.cumsum(1), (X,)),
        (lambda x: x.cummax(-1)[0], (HARD,)),
        (lambda x: x.cummin(0)[0], (HARD.nan_to_num(),)),
        (lambda x: torch.where(x.cummax(-1)[0] > 0, x.cummax(-1)[1], -x.cummin(-1)[1]), (torch.cat([HARD, X[:2, :5].round()]),)),
        (lambda x: x.cumsum(-1), (torch.arange(-9, 9).reshape(2, 9).to(torch.int32) * 2**28,)),
        (lambda x: x.cummax(0)[0], (torch.tensor([[3], [-(2**31)], [7]], dtype=torch.int32).expand(3, 2).contiguous(),)),
        (lambda x: x.cumprod(-1), (HARD,)),
        (lambda x: x.cumprod(0), (torch.arange(-9, 9).reshape(9, 2) * 2**20 + 1,)),
        (lambda x: x.cumsum(-1), (HARD > 0,)),
        (lambda x: x.cumsum(-1), (X.half(),)),
        (lambda x: x.cumsum(-1) * 2, (X[:, :0],)),
        (lambda x: x.cumsum(-1) * 2, (X[:, :1],)),
        (lambda x: torch.ones_like(x).cumsum(-1) + x, (X,)),
        (lambda x: torch.cat([x, x[:, :3] * 2], -1).cumsum(-1), (X,)),
        (lambda x: (y := x.flip(-1).cumsum(-1).flip(-1) * x) - y.amax(-1, keepdim=True), (X,)),
        (lambda x: (torch.stack([x, x]).prod(0), x[:, None].expand(4, 3, 5).cumprod(1)), (HARD,)),
        (lambda x: (x[:, None].expand(9, 7, 2).prod(1), x[:, None].expand(9, 7, 2).cumprod(1)), (torch.arange(-9, 9).reshape(9, 2) * 2**20 + 1,)),
    ],
    ids=["nan", "both", "max", "min", "positions", "wraps", "ints", "products", "products of ints", "truths", "half", "empty", "one", "constant", "joined", "statistics of one from the end", "copies", "copies of ints"],
)  # fmt: skip
def test_torch(f, args):
    check(f, *args)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.softmax(-1).cumsum(-1) < 0.9,
        lambda x: (x.cumsum(-1) - x).amax(-1, keepdim=True) - x.cumsum(-1),
        lambda x: x.flip(-1).cumsum(-1).flip(-1),
        lambda x: (x * 2).cumsum(-1).reshape(3, -1, 1) + 1,
        lambda x: torch.cat((torch.zeros_like(x[:, :1]), x), dim=1)[:, :-1].cumsum(1),
    ],
    ids=["top p", "statistics of a scan", "from the end", "reshaped", "without its own element"],
)
def test_one_kernel_reads_and_writes_once(f):
    plan = check(f, X)
    assert len(plan.kernels) == 1
    assert plan.dram_bytes == plan.compulsory_bytes


@pytest.mark.parametrize("length", [20000, 9000])
def test_long_rows_are_carried_from_tile_to_tile(length):
    """No tile of 16384 lanes for 9000 elements: by its machine code such a scan takes 216 us, and one by tiles of 1024 takes 69 us, which
    is the time of its bytes."""
    compiled = eqfuse.optimize(lambda x: x.cumsum(-1), [torch.empty(4096, length, device="meta")], target="h200")
    (kernel,) = compiled.plan.kernels
    assert kernel.passes == {"cols": 1}
    assert compiled.plan.dram_bytes == compiled.plan.compulsory_bytes
    assert kernel.cost.bound == "dram"
    x = torch.randn(2, length + 1 if length > 16384 else length - 1)
    torch.testing.assert_close(compiled.at(x).interpret(x), x.cumsum(-1), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("f", "kernels"),
    [
        (lambda x: x.cumsum(-1), 2),  # sums of parts; each part after those before it
        (lambda x: x.flip(-1).cummax(-1)[0].flip(-1), 2),
        (lambda x: x.softmax(-1).cumsum(-1), 5),  # the statistics in parts as well
    ],
    ids=["sum", "backwards", "softmax"],
)
def test_few_long_rows_fill_the_device(f, kernels):
    compiled = eqfuse.optimize(f, [torch.empty(2, 200000, device="meta")], target="h200")
    plan = compiled.plan
    assert len(plan.kernels) == kernels
    assert plan.splits
    assert plan.kernels[-1].cost.programs > 100
    assert plan.dram_bytes < 2.1 * 2 * 200000 * 4 + kernels // 2 * 2 * 200000 * 4
    x = torch.randn(2, 4003)  # parts that are as long, the last one shorter
    torch.testing.assert_close(compiled.at(x).interpret(x), f(x), rtol=1e-4, atol=1e-3)


# state space models by chunks ---------------------------------------------------------------------------------------------------------
def decays(a):
    """exp(a_{j+1} + .. + a_i) for j <= i, else 0: the sums of segments as differences of prefixes."""
    c = a.cumsum(-1)
    below = torch.ones(a.shape[-1], a.shape[-1], dtype=torch.bool).tril()
    return (c[..., :, None] - c[..., None, :]).masked_fill(~below, -INF).exp()


def retention(q, k, v, a):
    return (q @ k.transpose(-1, -2) * decays(a)) @ v


def state_space(x, a, b, c):
    """Mamba 2 by chunks: within chunks as attention with decays, between them by the states at their ends."""
    sums = a.cumsum(-1)
    within = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", c, b, decays(a), x)
    states = torch.einsum("bclhn,bhcl,bclhp->bchpn", b, (sums[..., -1:] - sums).exp(), x)
    states = torch.cat([torch.zeros_like(states[:, :1]), states], dim=1)
    ends = torch.cat([torch.zeros_like(sums[..., :1, -1]), sums[..., -1]], -1)
    states = torch.einsum("bhzc,bchpn->bzhpn", decays(ends), states)[:, :-1]
    between = torch.einsum("bclhn,bchpn,bhcl->bclhp", c, states, sums.exp())
    return (within + between).flatten(1, 2)


def test_decays_are_made_where_they_are_used():
    plan = check(retention, *(torch.randn(2, 17, 8) for _ in range(3)), -torch.rand(2, 17))
    assert len(plan.kernels) == 1
    assert plan.dram_bytes == plan.compulsory_bytes


def test_a_state_space_model_by_chunks():
    batch, chunks, length, heads, width, states = 1, 3, 16, 2, 8, 4
    keys = (torch.randn(batch, chunks, length, heads, states) for _ in range(2))
    plan = check(state_space, torch.randn(batch, chunks, length, heads, width), -torch.rand(batch, heads, chunks, length), *keys)
    assert len(plan.kernels) == 2, "the decays between chunks, then everything"
    assert plan.dram_bytes < 1.1 * plan.compulsory_bytes
