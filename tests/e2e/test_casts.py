"""Casts that programs write: what a sum needs moves out of them, under a licence that allows it, and what they lose stays where it shows."""

import pytest
import torch

import eqfuse
from eqfuse.tiles.walk import walk

TYPES = [torch.float16, torch.bfloat16]


def softmax_in_float32(q, k, v, mask):
    """Attention as model code writes it: weights in float32, rounded for the second product."""
    scores = q @ k.transpose(-1, -2) * 0.125 + mask
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return weights @ v


def norm_in_float32(x, gain, w):
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (gain * h.to(x.dtype)) @ w


def in_two_parts(s, v):
    """The weights as a sum of two 16-bit numbers: nearly the accuracy of float32, if the second is what the first lost."""
    p = torch.softmax(s, -1)
    high = p.bfloat16()
    low = (p - high.float()).bfloat16()
    return high.float() @ v, low.float() @ v


def attention_args(dtype, heads, queries, keys, device="cpu"):
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, heads, n, 64, generator=g).to(dtype) for n in (queries, keys, keys))
    mask = torch.zeros(1, 1, queries, keys, dtype=dtype).masked_fill(torch.rand(queries, keys, generator=g) < 0.3, -torch.inf)
    mask[..., 0] = 0
    return tuple(t.to(device) for t in (q, k, v, mask))


def empty(*shapes, dtype):
    return tuple(torch.empty(s, dtype=dtype, device="meta") for s in shapes)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_weights_that_are_rounded_take_one_pass(dtype):
    large = empty((1, 32, 4096, 64), (1, 32, 4096, 64), (1, 32, 4096, 64), (1, 1, 4096, 4096), dtype=dtype)
    c = eqfuse.optimize(softmax_in_float32, large, target="h200")
    (kernel,) = c.plan.kernels
    assert set(kernel.passes.values()) == {1}
    assert any("cast" in r for r in kernel.rules)
    c.at(*attention_args(dtype, 2, 37, 131)).accuracy(*attention_args(dtype, 2, 37, 131)).check()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_few_queries_are_split_over_the_keys(dtype):
    c = eqfuse.optimize(softmax_in_float32, empty((1, 8, 1, 64), (1, 8, 4096, 64), (1, 8, 4096, 64), (1, 1, 1, 4096), dtype=dtype))
    assert "merge_selection_parts" in c.plan.kernels[-1].rules
    args = attention_args(dtype, 8, 1, 4096)
    c.accuracy(*args).check()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_normalised_row_is_one_pass_before_a_product(dtype):
    """Normalised rows come first in float16, where a row that is not normalised could overflow with the gain; in bfloat16 the product is
    normalised, by statistics that it makes beside it or that come first, which take one time.  Products are of 16 bits."""
    shapes = (4096, 4096), (4096,), (4096, 4096)
    c = eqfuse.optimize(norm_in_float32, empty(*shapes, dtype=dtype), target="h200")
    *before, kernel = c.plan.kernels
    assert set(kernel.passes.values()) == {1}
    assert {(p.dtype.name, p.precision) for p in walk(kernel.tiles).products} == {(str(dtype).removeprefix("torch."), "")}
    if dtype == torch.float16:
        assert len(before) == 1 and "x" not in kernel.loads
        assert c.plan.temporary_bytes == 2 * 4096 * 4096
    else:
        assert len(before) <= 1 and "x" in kernel.loads
        assert c.plan.temporary_bytes <= 4 * 4096
    again = c.plan.dram_bytes - c.plan.compulsory_bytes - 2 * c.plan.temporary_bytes - len(before) * 2 * 4096 * 4096 * ("x" in kernel.loads)
    assert again <= 1e-3 * c.plan.dram_bytes, "a later loop finds rows in a cache"
    for size, gain in ((3.0, 1.0), (3e-6, 1e-3), (1e4, 100.0)):
        g = torch.Generator().manual_seed(0)
        args = tuple((torch.randn(s, generator=g) * scale).to(dtype) for s, scale in (((33, 257), size), ((257,), gain), ((257, 65), 0.1)))
        c.at(*args).accuracy(*args).check()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_attention_on_normalised_queries_and_keys_takes_one_pass(dtype):
    """The scores could be normalised after their product, but then a tile of them needs more than the keys that come."""

    def attention(q, k, v, a, b):
        def norm(x, gain):
            h = x.float()
            return gain * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

        return (norm(q, a) @ norm(k, b).transpose(-1, -2) * 0.125).softmax(-1) @ v

    heads, gains = (2, 16, 1024, 64), (64,)
    c = eqfuse.optimize(attention, empty(heads, heads, heads, gains, gains, dtype=dtype), target="h200")
    (kernel,) = c.plan.kernels
    assert set(kernel.passes.values()) == {1}
    assert walk(kernel.tiles).products[0].right_made, "keys are normalised before the product, not its results"
    g = torch.Generator().manual_seed(0)
    shapes = (2, 3, 37, 64), (2, 3, 131, 64), (2, 3, 131, 64), gains, gains
    args = tuple(torch.randn(s, generator=g).to(dtype) for s in shapes)
    c.at(*args).accuracy(*args).check()


def test_a_row_that_was_computed_in_float32_is_not_rounded_early():
    """x * 1.5 is no float16 number, so it is not rounded before it is normalised."""

    def scaled(x, gain, w):
        h = x.float() * 1.5
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (gain * h.to(x.dtype)) @ w

    c = eqfuse.optimize(scaled, empty((4096, 4096), (4096,), (4096, 4096), dtype=torch.float16), target="h200")
    assert not moved(c.graph)


def test_casts_stay_under_exact():
    large = empty((1, 32, 4096, 64), (1, 32, 4096, 64), (1, 32, 4096, 64), (1, 1, 4096, 4096), dtype=torch.float16)
    c = eqfuse.optimize(softmax_in_float32, large, target="h200", licence="exact")
    assert sum(sum(k.passes.values()) for k in c.plan.kernels) > 1
    assert not any("cast" in r for k in c.plan.kernels for r in k.rules)


def moved(graph):
    return {r.rule for r in graph.report.rules if r.matches} & {
        "factor_through_cast", "factor_through_cast_of_number", "fraction_through_cast", "factor_through_wide_cast", "factor_through_cast_of_modest",
    }  # fmt: skip


def test_what_a_cast_loses_is_not_lost():
    """A value that is also used unrounded keeps its place of rounding; under approx it need not."""
    g = torch.Generator().manual_seed(0)
    args = torch.randn(64, 300, generator=g) * 3, torch.randn(300, 32, generator=g)
    large = torch.empty(4096, 40_000, device="meta"), torch.empty(40_000, 32, device="meta")
    c = eqfuse.optimize(in_two_parts, large, target="h200")
    assert not moved(c.graph)
    high, low = c.at(*args).interpret(*args)
    exact = torch.softmax(args[0].double(), -1) @ args[1].double()
    eager = sum(t.double() for t in in_two_parts(*args))
    assert (high.double() + low.double() - exact).abs().max() <= 2 * (eager - exact).abs().max()
    assert (high.double() - exact).abs().max() > 20 * (eager - exact).abs().max(), "data for which the second part matters"
    assert moved(eqfuse.optimize(in_two_parts, large, target="h200", licence="approx").graph)


def test_a_cast_to_integers_is_no_rounding():
    def f(x, v):
        e = torch.exp(x - x.amax(-1, keepdim=True))
        return (7 * e / e.sum(-1, keepdim=True)).to(torch.int32).to(torch.float32) @ v

    g = torch.Generator().manual_seed(0)
    args = torch.randn(16, 90, generator=g) * 4, torch.randn(90, 16, generator=g)
    c = eqfuse.optimize(f, (torch.empty(4096, 20_000, device="meta"), torch.empty(20_000, 16, device="meta")), target="h200")
    assert not moved(c.graph)
    torch.testing.assert_close(c.at(*args).interpret(*args), f(*args), rtol=1e-4, atol=1e-4)
