"""Plans and kernels of programs that put values side by side: nothing is copied, and what was one kernel stays one."""

import math

import pytest
import torch

import eqfuse
from eqfuse.runtime.interpreter import interpret
from eqfuse.runtime.modules import load_module

RANDOM = torch.Generator().manual_seed(0)


def randn(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=RANDOM).to(dtype)


def half(*shape):
    return torch.empty(shape, dtype=torch.float16, device="meta")


def planned(f, *args):
    return eqfuse.optimize(f, args, target="h200").plan


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v


def sinks(q, k, v, s):
    scores = q @ k.transpose(-1, -2) * 0.125
    scores = torch.cat([scores, s.reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)], -1)
    return torch.softmax(scores, -1)[..., :-1] @ v


def masked_sinks(q, k, v, s, mask):
    scores = q @ k.transpose(-1, -2) * 0.125 + mask
    scores = torch.cat([scores, s.reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)], -1)
    return torch.softmax(scores, -1)[..., :-1] @ v


def cached(q, k, v, k_new, v_new):
    return attention(q, torch.cat([k, k_new], 2), torch.cat([v, v_new], 2))


def cached_and_kept(q, k, v, k_new, v_new):
    k, v = torch.cat([k, k_new], 2), torch.cat([v, v_new], 2)
    return attention(q, k, v), k, v


def heads(q, k, v):
    return attention(q, k, v).transpose(1, 2).flatten(2)


def rotated(turn):
    def f(x, w, c, s):
        q = (x @ w).view(x.shape[0], -1, c.shape[-1])
        return q * c[:, None] + turn(q) * s[:, None]

    return f


def by_index(q):
    d = q.shape[-1]
    return q.roll(d // 2, -1) * torch.where(torch.arange(d) < d // 2, -1.0, 1.0).to(q.dtype)


def halves(q):
    h = q.shape[-1] // 2
    return torch.cat((-q[..., h:], q[..., :h]), -1)


def pairs(q):
    return torch.stack((-q[..., 1::2], q[..., ::2]), -1).flatten(-2)


@pytest.mark.parametrize("turn", [halves, pairs], ids=lambda f: f.__name__)
def test_a_rotary_embedding_costs_what_its_index_form_costs(turn):
    args = half(2048, 4096), half(4096, 4096), half(2048, 128), half(2048, 128)
    assert planned(rotated(turn), *args).estimated_us <= planned(rotated(by_index), *args).estimated_us * 1.001


def test_sinks_cost_attention_nothing():
    args = [half(2, 32, 2048, 64)] * 3
    plan, plain = planned(sinks, *args, half(32)), planned(attention, *args)
    assert len(plan.steps) == 1
    assert plan.estimated_us <= 1.01 * plain.estimated_us
    assert not plan.notes, "neither factor of an exponential overflows"


@pytest.mark.parametrize("new", [1, 512])
def test_a_cache_is_read_where_it_is(new):
    q, old, more = half(2, 32, new, 64), half(2, 32, 4096 - new, 64), half(2, 32, new, 64)
    plan, plain = planned(cached, q, old, old, more, more), planned(attention, q, half(2, 32, 4096, 64), half(2, 32, 4096, 64))
    assert [len(p.steps) for p in (plan, plain)] == [1, 1]
    assert plan.estimated_us <= 1.01 * plain.estimated_us
    assert plan.dram_bytes <= 1.01 * plain.dram_bytes


def test_a_cache_that_is_returned_is_read_and_written_once():
    q, old, more = half(8, 32, 1, 64), half(8, 32, 4095, 64), half(8, 32, 1, 64)
    plan = planned(cached_and_kept, q, old, old, more, more)
    assert plan.dram_bytes <= 1.01 * plan.compulsory_bytes


def test_products_side_by_side_are_stored_where_they_belong():
    plan = planned(lambda x, a, b: torch.cat([x @ a, x @ b], 1), half(4096, 1024), half(1024, 1024), half(1024, 1024))
    assert plan.temporary_bytes == 0
    assert [len(p.steps) for p in (plan,)] == [2]


def test_a_softmax_over_columns_side_by_side_reads_each_once():
    plan = planned(lambda a, b: torch.softmax(torch.cat([a, b], 1), 1), half(4096, 1024), half(4096, 1024))
    assert len(plan.steps) == 1
    assert sum(t.access.buffer in ("a", "b") for k in plan.kernels for t in k.tiles.statements() if hasattr(t, "access")) == 2


def test_heads_that_are_flattened_are_attention_still():
    args = [half(2, 32, 2048, 64)] * 3
    assert planned(heads, *args).estimated_us <= 1.001 * planned(attention, *args).estimated_us


def test_heads_that_are_flattened_and_normalised():
    def f(q, k, v, x, w):
        return torch.nn.functional.layer_norm(heads(q, k, v) + x, w.shape, w)

    plan = planned(f, *[half(2, 32, 2048, 64)] * 3, half(2, 2048, 2048), half(2048))
    assert len(plan.steps) == 2
    assert plan.estimated_us < 1.25 * planned(attention, *[half(2, 32, 2048, 64)] * 3).estimated_us


def test_a_product_that_is_flattened_and_normalised_is_computed_once():
    def f(a, x):
        return torch.nn.functional.normalize((a.transpose(1, 2) @ x).transpose(1, 2).reshape(len(a), -1), dim=-1)

    args = torch.empty(2048, 100, 32, device="meta"), torch.empty(2048, 100, 512, device="meta")
    assert planned(f, *args).estimated_us < 236


KERNELS = {
    "sinks": (sinks, ((1, 2, 19, 16), (1, 2, 300, 16), (1, 2, 300, 16), (2,))),
    "cache": (cached_and_kept, ((2, 2, 1, 16), (2, 2, 301, 16), (2, 2, 301, 16), (2, 2, 1, 16), (2, 2, 1, 16))),
    "chunk": (cached, ((1, 2, 19, 16), (1, 2, 301, 16), (1, 2, 301, 16), (1, 2, 77, 16), (1, 2, 77, 16))),
    "halves": (rotated(halves), ((19, 24), (24, 48), (19, 16), (19, 16))),
    "pairs": (rotated(pairs), ((19, 24), (24, 48), (19, 16), (19, 16))),
    "heads": (heads, ((2, 3, 19, 16),) * 3),
    "columns": (lambda a, b: torch.cat([a, b], 1), ((5, 33), (5, 17))),
    "rows": (lambda a, b: torch.cat([a, b], 0) * 2, ((5, 33), (7, 33))),
    "products": (lambda x, a, b: torch.cat([x @ a, x @ b], 1).softmax(1), ((33, 16), (16, 19), (16, 24))),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_as_accurate_as_eager(name, dtype):
    f, shapes = KERNELS[name]
    args = tuple(randn(*s, dtype=dtype) for s in shapes)
    report = eqfuse.optimize(f, args, target="h200").accuracy(*args)
    assert all(o.within() for o in report.outputs), report


def test_a_saved_module_returns_what_the_function_does(tmp_path):
    f, shapes = KERNELS["cache"]
    args = tuple(randn(*s) for s in shapes)
    c = eqfuse.optimize(f, args, target="h200")
    path = c.save(tmp_path / "cache.py")
    found = interpret(load_module((tmp_path / "cache.py").read_text(), "interpret"), "run", *args, sanitize=True)
    assert path is None or path
    for ours, want in zip(found, f(*args), strict=True):
        assert ours.is_contiguous()
        torch.testing.assert_close(ours, want)
    for ours, want in zip(c.simulate(*args), f(*args), strict=True):
        torch.testing.assert_close(ours.float(), want)


def test_the_same_kernels_at_other_sizes():
    args = tuple(randn(*s) for s in KERNELS["chunk"][1])
    longer = tuple(randn(*s) for s in ((1, 2, 23, 16), (1, 2, 405, 16), (1, 2, 405, 16), (1, 2, 78, 16), (1, 2, 78, 16)))
    at = eqfuse.optimize(cached, args, target="h200").at(*longer)
    torch.testing.assert_close(at.interpret(*longer), cached(*longer))


@pytest.mark.parametrize("sink", [0.5, -200.0, 200.0, -math.inf], ids=str)
def test_rows_of_which_nothing_is_kept(sink):
    """Of a row that is masked altogether the sink is all there is; with no sink it is NaN, as in torch."""
    q, k, v = randn(1, 1, 5, 16), randn(1, 1, 300, 16), randn(1, 1, 300, 16)
    mask = torch.zeros(5, 300)
    mask[2] = -math.inf
    mask[3, 100:] = -math.inf
    args = q, k, v, torch.tensor([sink]), mask
    c = eqfuse.optimize(masked_sinks, args, target="h200")
    torch.testing.assert_close(c.interpret(*args), masked_sinks(*args), equal_nan=True)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: torch.cat([x, y], 0) @ x.T,
        lambda x, y: torch.cat([x, y], 0)[:, None] + x[None],
        lambda x, y: torch.softmax(torch.cat([x, y], 0) @ x.T, 0),
        lambda x, y: torch.softmax(torch.cat([x, y], 0) @ x.T, -1),
        lambda x, y: torch.cat([torch.softmax(x.T, 0) - x.T, x.T], 0) @ x,
    ],
    ids=["product", "sum", "columns", "rows", "of itself"],
)
def test_what_is_joined_beside_a_part_of_itself(f):
    """A dimension of the result is that of a part: the part has an axis of its own."""
    x, y = randn(4, 3), randn(5, 3)
    c = eqfuse.optimize(f, (x, y), target="h200")
    expected = f(x.double(), y.double())
    torch.testing.assert_close(c.simulate(x, y), expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(c.interpret(x, y).double(), expected, rtol=1e-5, atol=1e-5)


def test_a_value_that_is_only_chosen_from_in_name_is_returned():
    """A mask of one element is decided, and what it would have chosen is loaded for nothing but to be returned."""
    x = randn(3, 4)
    c = eqfuse.optimize(lambda x: (x.masked_fill(torch.ones(1, 1, dtype=torch.bool, device=x.device), -1.5), x), (x,), target="h200")
    filled, same = c.interpret(x)
    assert torch.equal(filled, torch.full((3, 4), -1.5))
    assert torch.equal(same, x)
