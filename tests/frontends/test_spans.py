"""Masks of data: a loop goes over the span of positions that a mask lets through, whatever the mask is made of."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import eqfuse
from eqfuse.extract.programs import forms
from eqfuse.frontends import TensorSpec, trace
from eqfuse.ir import spans
from eqfuse.ir.dtypes import int32
from eqfuse.ir.program import Program
from eqfuse.ir.reference import evaluate
from eqfuse.ir.sampled import sample_of
from eqfuse.ir.samples import Sample
from eqfuse.ir.terms import Cast, Const, Index, Map, Reduce

N, D = 12, 4
INF = float("inf")


def attention(q, k, v, seen):
    scores = (q @ k.transpose(-1, -2)).masked_fill(~seen, -INF)
    return torch.softmax(scores, -1) @ v


def documents(q, k, v, doc):
    return attention(q, k, v, doc[:, None] == doc[None, :])


def other_documents(q, k, v, doc):
    """What is not seen is said."""
    scores = torch.where(doc[:, None] != doc[None, :], -INF, q @ k.transpose(-1, -2))
    return torch.softmax(scores, -1) @ v


def causal_documents(q, k, v, doc):
    i = torch.arange(N)
    return attention(q, k, v, (i[:, None] >= i) & (doc[:, None] == doc))


def prefix_or_document(q, k, v, doc):
    i = torch.arange(N)
    return attention(q, k, v, (i[:, None] >= i) & ((doc[:, None] == doc) | (doc == 0)))


def not_padding(q, k, v, doc):
    """Numbers below zero are padding: no query sees it, and a row of padding sees nothing."""
    return attention(q, k, v, ~((doc < 0)[:, None] | (doc < 0) | (doc[:, None] != doc)))


def neighbours(q, k, v, doc):
    return attention(q, k, v, (doc[:, None] - doc[None, :]).abs() <= 1)


def summed(q, k, v, doc):
    """A mask that is a factor, and sums over both of its axes."""
    y = (q @ k.transpose(-1, -2)) * (doc[:, None] == doc)
    return y.sum(-1, keepdim=True) + (y @ v) + y.sum(0)[:, None]


def chunks(q, k, v, doc):
    """No data at all."""
    i = torch.arange(N)
    return attention(q, k, v, (i[:, None] // 5 == i // 5) & (doc >= -1))


MASKS = [documents, other_documents, causal_documents, prefix_or_document, not_padding, neighbours, summed, chunks]


def drawn(doc, dtype=torch.float64):
    g = torch.Generator().manual_seed(1)
    return *(torch.randn(len(doc), D, generator=g, dtype=dtype) for _ in range(3)), torch.tensor(doc)


@cache
def program(f) -> Program:
    return trace(f, drawn([0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3]), {}, name=f.__name__).program


@cache
def spanned(f) -> Program:
    found = spans.spanned(program(f))
    assert found is not None
    found.check()
    return found


def computed(p: Program, args):
    (found,) = evaluate(p, {i.name: x.numpy() for i, x in zip(p.inputs, args, strict=True)}).values()
    return torch.from_numpy(found)


DOCUMENTS = st.lists(st.integers(-2, 3), min_size=N, max_size=N)


@pytest.mark.parametrize("f", MASKS)
@given(DOCUMENTS)
@example([0] * N)
@example([-1] * N)
@example(list(range(N)))
@example([3, 1] * (N // 2))
@settings(max_examples=15, deadline=None)
def test_a_mask_with_its_span_is_the_same_mask(f, doc):
    args = drawn(doc)
    torch.testing.assert_close(computed(spanned(f), args), f(*args), rtol=1e-9, atol=1e-9, equal_nan=True)


def test_a_span_that_is_too_short_is_seen(monkeypatch):
    def short(condition, a):
        last = Reduce("imax", a, Map("where", (condition, Cast(int32, Index(a)), Const(0.0))))
        return Map("lt", (Index(a), last))

    monkeypatch.setattr(spans, "_span", short)
    found = spans.spanned(program(documents))
    args = drawn([0] * 5 + [1] * 7)
    assert not torch.allclose(computed(found, args), documents(*args))


def test_what_comparisons_bound_gets_no_span():
    def lengths(q, k, v, n):
        return attention(q, k, v, torch.arange(N) < n[:, None])

    def window(q, k, v, n):
        i = torch.arange(N)
        return attention(q, k, v, (i <= i[:, None]) & (i > i[:, None] - n[:, None]))

    for f in (lengths, window):
        assert spans.spanned(program(f)) is None
    many = [t for t in spanned(causal_documents).terms() if isinstance(t, Reduce) and t.monoid in ("imin", "imax")]
    assert len(many) == 2  # that it is causal is known without


def test_without_an_example_there_is_none():
    q, k, v, _ = drawn([0] * N)
    p = trace(documents, (q, k, v, TensorSpec((N,), torch.int64)), {}, name="documents").program
    assert [*forms(p)] == [] and [f.name for f in forms(program(documents))] == ["spans_of_masks"]


@given(st.lists(st.integers(0, 40), min_size=2, max_size=60))
@settings(deadline=None)
def test_a_sample_of_truth_values_says_how_many_hold(lengths):
    held = np.arange(40) < np.array(lengths)[:, None]
    sample = Sample.of(held)
    some = any(0 < n < 40 for n in lengths)
    assert sample.trend == (-1 if some else 1)
    first = sample.numbers(held.shape)
    assert np.all(first[:, 1:] <= first[:, :-1]) or not some
    assert abs(first.sum(1).mean() - np.mean(lengths)) <= 20


def test_large_values_are_sampled_at_some_positions():
    """2**26 comparisons: a few thousand of the rows say where their documents begin."""
    n = 1 << 13
    doc = torch.arange(n) // 512
    p = spans.spanned(trace(documents, (*(torch.zeros(n, 2) for _ in range(3)), doc), {}, name="documents").program)
    first = next(t for t in p.terms() if isinstance(t, Reduce) and t.monoid == "imin")
    sample = sample_of(first, tuple(first.axes), p.samples)
    expected = Sample.of((np.arange(n) // 512) * 512)
    assert sample.trend == 1
    assert np.abs(np.array(sample.quantiles) - np.array(expected.quantiles)).mean() <= n / 64


def half(*shape):
    return torch.zeros(*shape, dtype=torch.float16)


def test_documents_visit_their_own_tiles():
    """Sixteen documents in 8192 tokens: of the tiles in which some pair is visible, no half as many more are visited."""
    n, heads, d = 8192, 8, 64
    ends = torch.sort(torch.randperm(n - 1, generator=torch.Generator().manual_seed(0))[:15] + 1).values
    doc = torch.searchsorted(ends, torch.arange(n), right=True)
    x = half(heads, n, d)
    p = eqfuse.optimize(documents, (x, x, x, doc), target="h200", time_budget=4.0).plan
    assert p.rewritten == ("spans_of_masks",)
    tile = 64
    seen = (doc.view(-1, tile)[:, None, :, None] == doc.view(-1, tile)[None, :, None, :]).flatten(2).any(-1).sum()
    least = 4 * heads * d * tile * tile * int(seen)
    assert sum(k.cost.flops for k in p.kernels) <= 1.5 * least
    assert p.estimated_us < 0.4 * p.written_us


def test_where_documents_lie_everywhere_the_mask_stays_as_it_is():
    doc = torch.randint(0, 16, (2048,), generator=torch.Generator().manual_seed(0))
    x = half(8, 2048, 64)
    assert not eqfuse.optimize(documents, (x, x, x, doc), target="h200", time_budget=4.0).plan.rewritten


@pytest.mark.parametrize("kind", ["right", "left"])
def test_keys_that_are_padding_are_not_read(kind):
    """The mask that tokenizers make: of each sequence a first, or a last, part is padding."""

    def padded(q, k, v, mask):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=(mask != 0)[:, None, None, :])

    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(8, 2, 512, 16, generator=g) for _ in range(3))
    n = torch.randint(20, 100, (8,), generator=g)
    mask = (torch.arange(512) < n[:, None]).long()
    mask = mask.flip(1) if kind == "left" else mask
    c = eqfuse.optimize(padded, (q, k, v, mask), target="cpu", time_budget=3.0)
    assert c.plan.rewritten == ("spans_of_masks",)
    for m in (mask, mask.flip(0), mask.flip(1), torch.ones_like(mask), torch.randint(0, 2, mask.shape, generator=g)):
        torch.testing.assert_close(c(q, k, v, m), padded(q, k, v, m), rtol=1e-4, atol=1e-5)


def test_a_graph_of_torch_compile_is_planned_for_its_first_mask(nothing_compiled):
    def padded(q, k, v, mask):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])

    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(8, 2, 512, 16, generator=g) for _ in range(3))
    mask = torch.arange(512) < torch.randint(20, 100, (8,), generator=g)[:, None]
    compiled = torch.compile(padded, backend="eqfuse", options={"target": "cpu", "time_budget": 3.0})
    with torch.no_grad():
        for m in (mask, mask.flip(1), torch.ones_like(mask)):
            torch.testing.assert_close(compiled(q, k, v, m), padded(q, k, v, m), rtol=1e-4, atol=1e-5)
    (graph,) = eqfuse.report().graphs
    assert "spans_of_masks" in str(graph.plans[0])


def test_other_documents_run_the_same_kernels(nothing_compiled):
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1024, 16, generator=g) for _ in range(3))
    doc = torch.arange(1024) // 64

    def causal(q, k, v, doc):
        i = torch.arange(1024)
        return attention(q, k, v, (i[:, None] >= i) & (doc[:, None] == doc))

    c = eqfuse.optimize(causal, (q, k, v, doc), target="cpu", time_budget=3.0)
    assert c.plan.rewritten == ("spans_of_masks",)
    for other in (doc, doc.flip(0), doc * 0, torch.randint(0, 5, (1024,), generator=g), -doc):
        torch.testing.assert_close(c(q, k, v, other), causal(q, k, v, other), rtol=1e-4, atol=1e-5)
