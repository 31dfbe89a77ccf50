"""Rows of products that are positions of several axes, and axes whose groups share an operand: what is read how often, and numbers."""

import math

import pytest
import torch

import eqfuse
from eqfuse.extract.grouping import grouped
from eqfuse.extract.reindexing import Places
from eqfuse.extract.structure import reachable
from eqfuse.tiles.walk import walk


def attention(q, k, v, bias=0.0):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias, dim=-1) @ v


def interleaved(q, k, v):
    times = q.shape[1] // k.shape[1]
    return attention(q, k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1))


def causal(q, k, v):
    times = q.shape[1] // k.shape[1]
    n, m = q.shape[2], k.shape[2]
    unseen = torch.where(torch.arange(m) > torch.arange(n)[:, None] + m - n, -math.inf, 0.0)
    return attention(q, k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1), unseen)


def of_length(q, k, v, lengths):
    times = q.shape[1] // k.shape[1]
    outside = torch.where(torch.arange(k.shape[2]) >= lengths[:, None, None, None], -math.inf, 0.0)
    return attention(q, k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1), outside)


def own_values(q, k, v):
    return attention(q, k.repeat(1, q.shape[1] // k.shape[1], 1, 1), v)


def paged(q, k, v, table):
    def rows(x):
        return x[table].transpose(1, 2).flatten(2, 3).repeat_interleave(q.shape[1] // x.shape[1], dim=1)

    return attention(q, rows(k), rows(v))


def linear(x, w):
    return torch.nn.functional.gelu(x @ w.T)


def meta(*shape, dtype=torch.float16):
    return torch.empty(shape, dtype=dtype, device="meta")


def heads(b, h, kv, q, k, d=128):
    return meta(b, h, q, d), meta(b, kv, k, d), meta(b, kv, k, d)


PAGES = (meta(16, 32, 1, 128), meta(8192, 8, 16, 128), meta(8192, 8, 16, 128), meta(16, 512, dtype=torch.int64))
ONCE = {  # what is read by groups or packed rows, and the buffers of which every element is loaded once
    "heads that follow each other": (interleaved, heads(16, 32, 8, 1, 8192), ("k", "v")),
    "several queries": (interleaved, heads(16, 32, 8, 4, 8192), ("k", "v")),
    "pages": (paged, PAGES, ("k", "v")),
    "rows of two axes": (linear, (meta(8, 16, 4096), meta(16384, 4096)), ("w",)),
}


@pytest.mark.parametrize("name", ONCE)
def test_an_operand_is_read_once_for_all_rows(name):
    function, args, once = ONCE[name]
    (kernel,) = eqfuse.optimize(function, args, target="h100").plan.kernels
    counts = walk(kernel.tiles)
    assert counts.dots, "the rows are those of a product on the matrix unit"
    for name in once:
        loaded = sum(t.bytes for t in counts.loads if t.buffer == name)
        assert loaded == kernel.kernel.buffers[name].bytes, f"{name} is loaded {loaded / kernel.kernel.buffers[name].bytes:g} times"


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(math.prod(shape)))


def small(b, h, kv, q, k=37, d=16, values=24):
    return drawn(b, h, q, d), drawn(b, kv, k, d), drawn(b, kv, k, values)


NUMBERS = {  # lengths that no tile divides
    "groups of three, five queries, causal": (causal, small(1, 6, 2, 5)),
    "lengths from data": (of_length, (*small(3, 6, 2, 2), torch.tensor([37, 1, 12]))),
    "in turn, values of every head": (own_values, (drawn(2, 6, 3, 16), drawn(2, 2, 37, 16), drawn(2, 6, 37, 24))),
    "rows of two axes": (linear, (drawn(5, 7, 33), drawn(40, 33))),
}


@pytest.mark.parametrize("target", ["h100", "cpu"])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name, target):
    function, args = NUMBERS[name]
    compiled = eqfuse.optimize(function, args, target=target)
    exact = function(*(x.double() if x.is_floating_point() else x for x in args))
    assert compiled.interpret(*args).sub(exact).abs().max() < 2e-6 * exact.abs().max()
    assert compiled.simulate(*args).sub(exact).abs().max() < 1e-12 * exact.abs().max()


def test_a_plan_by_groups_serves_other_numbers_of_groups():
    """Where there is one group, or one head in each, the axis of heads is whole, with the role of the part that is left."""
    large = eqfuse.optimize(interleaved, heads(1, 32, 8, 2048, 2048), target="h100")
    (kernel,) = large.plan.kernels
    assert {"q_batch_group", "q_batch_in_group"} <= {a.name for a in kernel.kernel.roles}
    for groups in (1, 2, 4):
        args = small(1, 4, groups, 3)
        exact = interleaved(*(x.double() for x in args))
        assert large.at(*args).simulate(*args).sub(exact).abs().max() < 1e-12 * exact.abs().max(), groups


UNGROUPED = {
    "no product": lambda x, y: x + y.repeat_interleave(4, dim=0),
    "an operand of its own for each": lambda x, y: (x * y.repeat_interleave(4, dim=0)).sum(-1) + (x * x).sum(-1),
    "heads that are summed": lambda x, y: torch.einsum("hk,hk->k", x, y.repeat_interleave(4, dim=0)),
}


@pytest.mark.parametrize("name", UNGROUPED)
def test_other_axes_are_left_whole(name):
    graph = eqfuse.optimize(UNGROUPED[name], (drawn(8, 5), drawn(2, 5)), target="h100").graph
    roots = tuple(graph.roots.values())
    stored = frozenset(a for o in graph.program.outputs for a in o.layout if a is not None)
    found = grouped(graph, reachable(graph, roots, {}), stored, {})
    if name == "an operand of its own for each":
        assert [str(e) for e in found.at.values()], "the first product reads y by groups"
    else:
        assert found == Places()
