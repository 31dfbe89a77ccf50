"""Kernels that read where data say: one kernel, the bytes of what is read, and no element next to the table."""

import math

import pytest
import torch
from torch.nn import functional

import eqfuse
from eqfuse.egraph import audit, saturate
from eqfuse.ir import dtypes
from eqfuse.ir.build import axes, cast, exp, gather, index, maximum_over, program, sum_over, tensor, view

G = torch.Generator().manual_seed(0)


def randn(*shape):
    return torch.randn(*shape, generator=G)


def integers(low, high, *shape, dtype=torch.int64):
    return torch.randint(low, high, shape, generator=G, dtype=dtype)


def embedded(ids, table, positions, gain):
    """Tokens and their positions, normalised."""
    x = functional.embedding(ids, table) + positions
    return functional.rms_norm(x, x.shape[-1:], gain)


def paged(q, keys, values, table, lengths):
    """One token's attention over a cache in pages, as it is written: the pages of a sequence, one after the other."""
    b, n = table.shape
    s, heads = n * keys.shape[1], keys.shape[2]
    k, v = (x[table].reshape(b, s, heads, -1) for x in (keys, values))
    scores = torch.einsum("bhd,bshd->bhs", q, k) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(torch.arange(s) >= lengths[:, None, None], -math.inf)
    return torch.einsum("bhs,bshd->bhd", scores.softmax(-1), v)


def paged_groups(q, keys, values, table, lengths):
    """The same by positions, for grouped queries."""
    b, n = table.shape
    size, heads = keys.shape[1:3]
    at = torch.arange(n * size)
    k, v = (x[table[:, at // size], at % size] for x in (keys, values))
    grouped = q.view(b, heads, -1, q.shape[-1])
    scores = torch.einsum("bkgd,bskd->bkgs", grouped, k) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(at >= lengths[:, None, None, None], -math.inf)
    return torch.einsum("bkgs,bskd->bkgd", scores.softmax(-1), v).reshape(q.shape)


CASES = {
    "embedding and norm": (embedded, (integers(0, 11, 2, 5), randn(11, 24), randn(5, 24), randn(24))),
    "pages": (paged, (randn(2, 3, 16), randn(6, 4, 3, 16), randn(6, 4, 3, 16), integers(0, 6, 2, 3, dtype=torch.int32), torch.tensor([9, 12]))),
    "pages of groups": (
        paged_groups, (randn(2, 4, 16), randn(6, 4, 2, 16), randn(6, 4, 2, 16), integers(0, 6, 2, 9, dtype=torch.int32), torch.tensor([35, 3])),
    ),
    "a number for each code, in a product": (lambda q, code, x: code[q] @ x, (integers(-16, 16, 9, 32), randn(16), randn(32, 8))),
    "several of each row of a softmax": (lambda x, i: x.softmax(-1).gather(1, i), (randn(5, 40), integers(0, 40, 5, 3))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_kernel(name):
    fn, args = CASES[name]
    c = eqfuse.optimize(fn, args, target="h200")
    assert len(c.plan.kernels) == 1
    torch.testing.assert_close(c.interpret(*args), fn(*args), rtol=1e-5, atol=1e-5)


def test_no_element_beside_the_table_is_read():
    """The sanitizer stops a kernel that reads memory of nobody; a position that is none reads 0."""
    fn, (ids, table, positions, gain) = CASES["embedding and norm"]
    c = eqfuse.optimize(fn, (ids, table, positions, gain), target="h200")
    ids = torch.tensor([[11, -1, 2**40, -(2**40), 3], [0, 10, 12, 5, -11]])
    inside = (ids >= 0) & (ids < 11)
    rows = torch.where(inside[..., None], table[torch.where(inside, ids, 0)], 0.0) + positions
    torch.testing.assert_close(c.interpret(ids, table, positions, gain), functional.rms_norm(rows, (24,), gain), rtol=1e-5, atol=1e-5)


def empty(*shape, dtype=torch.bfloat16):
    return torch.empty(shape, dtype=dtype, device="meta")


def test_bytes_are_those_of_the_rows_that_are_read():
    """Embedding and norm of 4096 tokens read 4096 rows of a table of a gigabyte; a decode reads the pages in its table."""
    n, d = 4096, 4096
    c = eqfuse.optimize(embedded, (empty(8, n // 8, dtype=torch.int64), empty(128256, d), empty(n // 8, d), empty(d)), target="h200")
    (kernel,) = c.plan.kernels
    assert kernel.cost.dram_bytes == c.plan.compulsory_bytes == 2 * (2 * n * d + n // 8 * d + d) + 8 * n
    b, heads, size, pages = 8, 8, 16, 256
    cache = empty(4096, size, heads, 128, dtype=torch.float16)
    table, lengths = empty(b, pages, dtype=torch.int32), empty(b, dtype=torch.int32)
    c = eqfuse.optimize(paged_groups, (empty(b, 32, 128, dtype=torch.float16), cache, cache, table, lengths), target="h200")
    assert len(c.plan.kernels) == 1
    read = 2 * b * pages * size * heads * 128 * 2
    assert read <= c.plan.dram_bytes < read + 200_000 < 2 * cache.numel() * 2


def test_scattered_elements_take_sectors():
    """One number of 4 bytes moves 32."""
    c = eqfuse.optimize(lambda x, i: x[i], (empty(2**26, dtype=torch.float32), empty(2**16, dtype=torch.int32)), target="h200")
    assert c.plan.dram_bytes == 2**16 * (32 + 4 + 4)


def test_a_loop_that_reads_the_row_anyway_selects_from_it():
    """A cross-entropy reads its rows once, and neither the row's own element again."""
    c = eqfuse.optimize(functional.cross_entropy, (randn(6, 300), integers(0, 300, 6)), target="h200")
    assert sum(n.op == "load" and n.attrs[0] == "input" for k in c.plan.kernels for n in k.kernel.nodes) == 1
    assert not any(n.op == "load" and n.args for k in c.plan.kernels for n in k.kernel.nodes)


@pytest.mark.unaudited
@pytest.mark.parametrize("masked", [False, True])
def test_every_form_of_a_gather_has_its_value(masked):
    """Tables that are computed, read at what is read from tables, along axes that are split, viewed, reduced and not."""
    n, v, d, p, q = axes(n=6, v=5, d=4, p=3, q=2)
    table, scale, ids = tensor("table", v, d), tensor("scale", v), tensor("ids", n, dtype=dtypes.int64)
    pages = tensor("pages", p, dtype=dtypes.int32)
    computed = gather(exp(cast(dtypes.float16, table * scale)) * sum_over(d, table), v, gather(pages, p, ids))
    moved = view(view(computed, n, index(p) * 2 + index(q)), d, index(d) * -1 + 3)
    row = table - maximum_over(v, table)
    picked = gather(row, v, view(tensor("labels", d, dtype=dtypes.int64), d, index(d)))
    graph = saturate(program("forms", moved=(moved, (p, q, d)), picked=(picked, (d,))), splits={n: 4})
    assert {r for row in graph.classes for m in row if (r := m.rule)} >= {"gather_as_sum", "gather_through_op", "view_through_gather"}
    report = audit(graph, masked=masked)
    assert report.skipped == 0
