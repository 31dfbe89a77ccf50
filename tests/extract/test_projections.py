"""Products whose rows have several axes (heads and their features): one kernel, near the time that it takes if they have one."""

import pytest
import torch

import eqfuse


def heads(x, w):
    """x[batch, head, row, feature] @ w.T over heads and features."""
    batch, _, rows, _ = x.shape
    return x.transpose(1, 2).reshape(batch, rows, -1) @ w.t()


def groups(x, w):
    """The same for heads in groups: x[batch, group, head, row, feature]."""
    return heads(x.flatten(1, 2), w)


def plan(fn, *shapes, dtype=torch.float16, target="h200"):
    return eqfuse.optimize(fn, [torch.empty(s, dtype=dtype, device="meta") for s in shapes], target=target).plan


@pytest.mark.parametrize("target", ["h200", "a100", "b200", "mi300x"])
@pytest.mark.parametrize(("fn", "shape"), [(heads, (1, 32, 2048, 128)), (groups, (1, 8, 4, 2048, 128))])
def test_one_kernel_that_costs_what_a_product_of_plain_rows_costs(fn, shape, target):
    found = plan(fn, shape, (4096, 4096), target=target)
    plain = plan(lambda x, w: x @ w.t(), (2048, 4096), (4096, 4096), target=target)
    assert len(found.kernels) == 1
    assert found.dram_bytes == found.compulsory_bytes
    assert (
        found.estimated_us < 2 * plain.estimated_us
    )  # a head is one step of the loop, which leaves less room for tiles (so says machine code, too)


def test_no_spill():
    for fn, shape in ((heads, (1, 32, 2048, 128)), (groups, (1, 8, 4, 2048, 128))):
        args = [torch.empty(s, dtype=torch.float16, device="meta") for s in (shape, (4096, 4096))]
        assert all(r.spill_bytes == 0 for r in eqfuse.optimize(fn, args, target="h200").compile("sm_90"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("sizes", [(1, 3, 2, 37, 32), (2, 1, 5, 17, 24), (1, 2, 3, 1, 16), (1, 7, 1, 19, 5)], ids=str)
def test_as_accurate_as_eager(sizes, dtype):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(sizes, generator=generator).to(dtype)
    w = torch.randn(29, sizes[1] * sizes[2] * sizes[4], generator=generator).to(dtype)
    report = eqfuse.optimize(groups, (x, w), target="h200").accuracy(x, w, factor=2.0)
    assert report.outputs[0].ours_nonfinite == 0


@pytest.mark.parametrize(("heads", "kv", "size"), [(16, 8, 8), (64, 8, 32), (32, 8, 16), (32, 8, 20), (32, 8, 128)])
@pytest.mark.parametrize("target", ["h200", "a100", "mi300x"])
def test_keys_that_heads_share_are_projected_and_stored(heads, kv, size, target):
    def f(x, w, q):
        k = (x @ w).view(x.shape[0], kv, size).transpose(0, 1).repeat_interleave(heads // kv, 0)
        return q @ k.transpose(-1, -2)

    found = plan(f, (2048, 1024), (1024, kv * size), (heads, 2048, size), target=target)
    products = 2 * 2048 * 1024 * kv * size, 2 * heads * 2048 * 2048 * max(size, 16)
    assert sum(k.cost.flops for k in found.kernels) <= 2 * sum(products)
    assert found.estimated_us < 2 * found.baseline_us


def test_a_shared_value_that_is_a_result_is_read_from_there():
    def f(x, w, q):
        k = (x @ w).view(2048, 8, 128).transpose(0, 1)
        return q @ k.repeat_interleave(4, 0).transpose(-1, -2), k

    found = plan(f, (2048, 4096), (4096, 1024), (32, 2048, 128))
    assert [len(k.stores) for k in found.kernels] == [1, 1]
    assert found.estimated_us < 2 * found.baseline_us


def test_sums_of_masked_products_leave_tiles_out():
    found = plan(lambda x, w: torch.einsum("hij,hjk->ik", x.tril(), w), (16, 2048, 2048), (16, 2048, 2048))
    assert len(found.kernels) == 1
    full = plan(lambda x, w: torch.einsum("hij,hjk->ik", x, w), (16, 2048, 2048), (16, 2048, 2048))
    assert found.kernels[0].cost.flops < 0.6 * full.kernels[0].cost.flops


class Attention(torch.nn.Module):
    """Attention of a model, from rows to rows: projections, rotated queries and keys, heads that share keys, the output projection."""

    def __init__(self, width, heads, kv, size):
        super().__init__()
        self.heads, self.kv, self.size = heads, kv, size
        self.q, self.o = torch.nn.Linear(width, heads * size, bias=False), torch.nn.Linear(heads * size, width, bias=False)
        self.k, self.v = (torch.nn.Linear(width, kv * size, bias=False) for _ in range(2))

    def rotated(self, x, cos, sin):
        half = x.shape[-1] // 2
        at = torch.arange(x.shape[-1], device=x.device)
        return x * cos + x.roll(half, -1) * torch.where(at < half, -1.0, 1.0).to(x.dtype) * sin

    def forward(self, x, cos, sin):
        b, n, _ = x.shape
        q, k, v = (p(x).view(b, n, h, self.size).transpose(1, 2) for p, h in ((self.q, self.heads), (self.k, self.kv), (self.v, self.kv)))
        q, k = self.rotated(q, cos, sin), self.rotated(k, cos, sin)
        k, v = (t.repeat_interleave(self.heads // self.kv, 1) for t in (k, v))
        scores = q @ k.transpose(-1, -2) * self.size**-0.5
        later = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        mixed = torch.softmax(scores.masked_fill(later, -torch.inf), -1) @ v
        return self.o(mixed.transpose(1, 2).reshape(b, n, -1))


def test_the_attention_of_a_model_is_less_than_a_third_of_what_it_costs_unfused():
    with torch.device("meta"):
        module = Attention(4096, 32, 8, 128).half()
    args = [torch.empty(s, dtype=torch.float16, device="meta") for s in ((1, 2048, 4096), (2048, 128), (2048, 128))]
    found = eqfuse.optimize(module, args, target="h200", time_budget=60).plan
    assert len(found.kernels) <= 7
    assert found.estimated_us < 0.3 * found.baseline_us


def test_the_attention_of_a_model_is_as_accurate_as_eager():
    torch.manual_seed(0)
    module = Attention(48, 4, 2, 16)
    args = torch.randn(1, 13, 48), torch.randn(13, 16), torch.randn(13, 16)
    report = eqfuse.optimize(module, args, target="h200").accuracy(*args, factor=2.0)
    assert report.outputs[0].ours_nonfinite == 0
