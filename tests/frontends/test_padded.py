"""Padded batches with lengths: what nobody needs is not computed, and rows that count are packed where that is cheaper.

Programs are written as people write them, and compared with eager code at other lengths than the example's: beyond the axis, below zero.
"""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import eqfuse
from eqfuse.frontends import TensorSpec, trace
from eqfuse.ir import needed, packing
from eqfuse.ir.program import Program
from eqfuse.ir.reference import evaluate
from eqfuse.ir.terms import Const, Map, Reduce, Scan

B, S, D, HEADS, F = 4, 6, 8, 2, 12
INF = float("inf")


def inside(x, n):
    return torch.arange(x.shape[1]) < n[:, None]


def norm(x):
    return torch.nn.functional.layer_norm(x, x.shape[-1:])


def attention(x, n, w):
    b, s, d = x.shape
    q, k, v = (x @ torch.cat([w, -w, w.flip(0)], 1)).view(b, s, 3, HEADS, d // HEADS).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-1, -2) * (d // HEADS) ** -0.5
    p = torch.softmax(scores.masked_fill(~inside(x, n)[:, None, None, :], -INF), -1)
    return (p @ v).transpose(1, 2).reshape(b, s, d)


def perceptron(x, n, w, v):
    return torch.where(inside(x, n)[..., None], norm(x + torch.relu(x @ w) @ v), 0.0)


def encoder(x, n, w, v):
    y = norm(x + attention(x, n, w[:, :D]) @ v[:D])
    return torch.where(inside(x, n)[..., None], norm(y + torch.relu(y @ w) @ v), 0.0)


def two_layers(x, n, w, v):
    return encoder(encoder(x, n, w, v), n, w, v)


def pooled(x, n, w, v):
    mask = inside(x, n).float()
    return ((torch.relu(x @ w) @ v) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1.0)


def additive(x, n, w, v):
    """A mask of -inf that is added, and positions."""
    y = (x + torch.arange(x.shape[1])[:, None].double() * 0.1) @ w @ v
    scores = y @ (y @ w @ v).transpose(1, 2) + torch.where(inside(x, n), 0.0, -INF)[:, None, :]
    return (torch.softmax(scores / math.sqrt(D), -1) @ y) * inside(x, n)[..., None]


def upto(x, n, w, v):
    """Written with <=, and the other way around."""
    ok = (n[:, None] - 1) >= torch.arange(x.shape[1])
    return torch.where(ok[..., None], torch.tanh(x @ w) @ v, -1.0)


def largest(x, n, w, v):
    y = torch.relu(x @ w) @ v
    return y.masked_fill(~inside(x, n)[..., None], -INF).amax(1)


def everywhere(x, n, w, v):
    """Rows beyond the lengths are results, too; of a sequence without rows they are NaN."""
    return norm(x + attention(x, n, w[:, :D]) @ v[:D])


def through(x, n, w, v):
    """The row at the length counts as well."""
    return torch.where((torch.arange(x.shape[1]) <= n[:, None])[..., None], torch.relu(x @ w) @ v, 0.0)


def whole_numbers(x, n, w, v):
    """What is known of padded rows is rounded: -3.7 becomes -3, and 300 is 44 in eight bits."""
    y = torch.where(inside(x, n)[..., None], torch.relu(x @ w) @ v, -3.7).clamp(-1e6, 1e6).long()
    return y + torch.where(inside(x, n)[..., None], y, 300).to(torch.uint8).long()


def scanned(x, n, w, v):
    """Positions come from a scan of what has none."""
    weights = torch.exp(n.clamp(0, S).double() * 0.1)[:, None].expand(len(n), x.shape[1]).cumsum(1)
    return torch.where(inside(x, n)[..., None], torch.relu((x + weights[..., None]) @ w) @ v, 0.0).sum(1) @ w


def large_numbers(x, n, w, v):
    """What is known of padded rows has more digits than float64, or wraps around."""
    i = torch.where(inside(x, n), x.sum(-1).long(), 2**53) + 1
    k = torch.where(inside(x, n), x.sum(-1).long(), 2**40) * 2**40
    y = torch.where((i - 2**53 == 1)[..., None], torch.relu(x @ w) @ v, 0.0)
    return y + torch.where((k == 0)[..., None], torch.tanh(x @ w) @ v, 0.0)


def padding(x, n, w, v):
    """The mask of what does not count, and the same condition the other way around."""
    pad = torch.arange(x.shape[1]) >= n[:, None]
    y = (x @ w @ v).masked_fill(pad[..., None], 0.0)
    scores = (y @ y.transpose(1, 2)).masked_fill((n[:, None] <= torch.arange(x.shape[1]))[:, None, :], -INF)
    return (torch.softmax(scores, -1) @ y @ w).masked_fill(pad[..., None], 0.0)


PADDED = [perceptron, encoder, two_layers, pooled, additive, upto, largest, through, whole_numbers, scanned, padding]


def running(x, n, w, v):
    """What is before a row is no matter of the row alone."""
    return torch.where(inside(x, n)[..., None], (torch.relu(x @ w) @ v).cumsum(1) @ w @ v, 0.0)


def farthest(x, n, w, v):
    """The position of the largest one is computed with."""
    return (torch.relu(x @ w) @ v).masked_fill(~inside(x, n)[..., None], -INF).argmax(1).double() @ w


def across(x, n, w, v):
    """A sum over the sequences."""
    return torch.where(inside(x, n)[..., None], (x @ w @ v).sum(0, keepdim=True) @ w, 0.0)


def drawn(lengths, dtype=torch.int32):
    g = torch.Generator().manual_seed(len(lengths) + S)
    x, w, v = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((len(lengths), S, D), (D, F), (F, D)))
    return x, torch.tensor(lengths, dtype=dtype), w, v


@cache
def program(f, exact=False) -> Program:
    return trace(f, drawn([3, 6, 0, 9]), {}, name=f.__name__, exact=exact).program


@cache
def packed(f) -> Program:
    found = packing.packed(program(f))
    assert found is not None
    return found


def computed(p: Program, args):
    (found,) = evaluate(p, {i.name: x.numpy() for i, x in zip(p.inputs, args, strict=True)}).values()
    return torch.from_numpy(found)


LENGTHS = st.lists(st.sampled_from([0, 1, 2, 3, 5, S, S + 1, -1, -(2**31), 2**31 - 1]), min_size=B, max_size=B)


@pytest.mark.parametrize("f", PADDED)
@given(LENGTHS)
@example([0] * B)
@example([S] * B)
@settings(max_examples=12, deadline=None)
def test_masked_and_packed_programs_are_equal(f, lengths):
    args = drawn(lengths)
    expected = f(*args)
    if f is additive:  # a sequence of no rows: zero times NaN is zero where nobody needs it, unless licence="exact"
        expected = torch.where(args[1][:, None, None] > 0, expected, 0.0)
    forms = {"masked": program(f), "packed": packed(f)}
    for name, p in forms.items():
        p.check()
        found = computed(p, args)
        if f is additive:
            found = torch.where(args[1][:, None, None] > 0, found, found.nan_to_num())
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9, equal_nan=True, msg=lambda m, name=name: f"{name}: {m}")
    torch.testing.assert_close(computed(program(f, exact=True), args), f(*args), rtol=1e-9, atol=1e-9, equal_nan=True)


@pytest.mark.parametrize("f", [perceptron, through])
def test_lengths_at_the_ends_of_int64(f):
    args = drawn([2**63 - 1, -(2**63), 2**62, 2], dtype=torch.int64)
    p = packing.packed(trace(f, args, {}, name=f.__name__).program)
    assert p is not None
    torch.testing.assert_close(computed(p, args), f(*args), rtol=1e-9, atol=1e-9)


def test_large_numbers_are_not_known():
    args = drawn([3, 6, 0, 9])
    torch.testing.assert_close(computed(program(large_numbers), args), large_numbers(*args), rtol=1e-9, atol=1e-9)


def masks(p: Program) -> list[Map]:
    """The products of a program that are zero where a condition fails."""
    return [t for t in p.terms() if isinstance(t, Map) and t.op == "where" and isinstance(t.args[1], Reduce) and t.args[2] is Const(0.0)]


def test_every_product_that_another_one_reads_is_masked():
    assert len(masks(program(encoder))) >= 6  # q, k and v, their scores, what they weigh, its product, the perceptron's first
    assert not masks(program(encoder, exact=True))
    assert len(masks(program(perceptron))) == 1  # nothing is made of the second one that has a row for each position
    exact = program(upto, exact=True)
    assert needed.masked(exact) is not exact


def test_what_counts_everywhere_is_masked_nowhere():
    rows = {a.name for t in masks(program(everywhere)) for a in t.axes}
    assert "x_rows" not in rows and masks(program(everywhere))  # of keys and values alone nobody needs the others
    f = program(lambda x, n, w, v: x @ w @ v + inside(x, n)[..., None])
    assert not masks(f)


@pytest.mark.parametrize("f", [everywhere, running, across, farthest])
def test_no_packed_form(f):
    assert packing.packed(program(f)) is None


def test_a_mask_that_is_data_is_one():
    def f(x, ok, w, v):
        return torch.where(ok[..., None], norm(torch.relu(x @ w) @ v), 0.0)

    x, n, w, v = drawn([3, 6, 0, 9])
    p = trace(f, (x, inside(x, n), w, v), {}, name="f").program
    assert len(masks(p)) == 1
    torch.testing.assert_close(computed(p, (x, inside(x, n), w, v)), f(x, inside(x, n), w, v))
    assert packing.packed(p) is None  # nobody knows how many there are


def test_the_packed_form_goes_over_tokens():
    p = packing.packed(program(encoder))
    assert p is not None
    assert any(isinstance(t, Scan) for t in p.terms())  # where sequences begin
    products = needed.Needed(p).products
    assert products and all(any(a.name.endswith("_tokens") for a in t.axes) for t in products)


def half(*shape):
    return torch.zeros(*shape, dtype=torch.float16)


def short_lengths(batch=128):
    n = torch.randint(1, 40, (batch,), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    n[0] = 128
    return n


def test_it_is_planned_where_an_example_says_that_it_is_cheaper():
    """Of 128 rows of each sequence about 20 count: what is computed is a few percent more than is needed."""
    n = short_lengths()
    args = half(128, 128, 512), n, half(512, 2048), half(2048, 512)
    p = eqfuse.optimize(perceptron, args, target="h200", time_budget=4.0).plan
    least = 4 * 512 * 2048 * int(n.sum())
    assert p.rewritten == ("packed_rows",)
    assert "program: another one than written, by packed_rows" in str(p)
    assert least <= sum(k.cost.flops for k in p.kernels) <= 1.1 * least
    assert p.estimated_us < 0.8 * p.written_us


def test_without_an_example_every_row_may_count():
    args = half(128, 128, 512), TensorSpec((128,), torch.int32), half(512, 2048), half(2048, 512)
    assert not eqfuse.optimize(perceptron, args, target="h200", time_budget=2.0).plan.rewritten


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
def test_tokens_are_counted_in_a_type_that_has_their_number(dtype):
    g = torch.Generator().manual_seed(3)
    x, w, v = (torch.randn(*shape, generator=g) for shape in ((16, 128, 128), (128, 512), (512, 128)))
    n = short_lengths(16).clamp(max=127).to(dtype)
    c = eqfuse.optimize(through, (x, n, w, v), target="cpu", time_budget=2.0)
    assert c.plan.rewritten == ("packed_rows",)
    for lengths in (n, n.flip(0), torch.full_like(n, torch.iinfo(dtype).max)):
        torch.testing.assert_close(c(x, lengths, w, v), through(x, lengths, w, v), rtol=1e-4, atol=1e-3)


def test_a_packed_plan_is_right_at_other_lengths_and_sizes():
    g = torch.Generator().manual_seed(3)
    w, v = torch.randn(128, 512, generator=g) / 11, torch.randn(512, 128, generator=g) / 22
    x = torch.randn(16, 128, 128, generator=g)
    c = eqfuse.optimize(perceptron, (x, short_lengths(16), w, v), target="cpu", time_budget=2.0)
    assert c.plan.rewritten == ("packed_rows",)
    for n in (short_lengths(16), torch.zeros(16), torch.full((16,), 3), torch.full((16,), 2**31 - 1), -torch.ones(16)):
        torch.testing.assert_close(c(x, n.int(), w, v), perceptron(x, n, w, v), rtol=1e-4, atol=1e-4)
    y, n = torch.randn(5, 37, 128, generator=g), torch.tensor([0, 37, 36, 1, 9], dtype=torch.int32)
    torch.testing.assert_close(c(y, n, w, v), perceptron(y, n, w, v), rtol=1e-4, atol=1e-4)


def test_a_graph_of_torch_compile_is_planned_for_the_lengths_of_its_first_call(nothing_compiled):
    g = torch.Generator().manual_seed(3)
    w, v = torch.randn(128, 512, generator=g) / 11, torch.randn(512, 128, generator=g) / 22
    compiled = torch.compile(perceptron, backend="eqfuse", options={"target": "cpu", "time_budget": 2.0})
    with torch.no_grad():
        for shape, n in (((16, 128, 128), short_lengths(16)), ((16, 77, 128), short_lengths(16).flip(0)), ((9, 55, 128), torch.arange(9))):
            x = torch.randn(*shape, generator=g)
            torch.testing.assert_close(compiled(x, n, w, v), perceptron(x, n, w, v), rtol=1e-4, atol=1e-4)
    first, *_ = (plan for graph in eqfuse.report().graphs for plan in graph.plans)
    assert "packed_rows" in str(first)
    assert not any(graph.library for graph in eqfuse.report().graphs)
