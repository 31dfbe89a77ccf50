"""Loops end where data say: as many steps as the data need, whatever the data, and what torch computes.

Lengths are drawn beyond the axis, negative, zero and at the ends of their type.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import eqfuse
from eqfuse.egraph.saturate import saturate
from eqfuse.extract.choose import Chooser
from eqfuse.extract.covers.examples import Examples
from eqfuse.frontends import TensorSpec, trace
from eqfuse.ir.samples import POINTS, Sample, compared
from eqfuse.tiles.direct import kernel_from_program
from eqfuse.tiles.finish import finish
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.program import Edge, Loop, edges_of, rewritten
from eqfuse.tiles.simulate import Simulation, simulate
from eqfuse.tiles.walk import walk

INF = float("inf")
ROWS, COLUMNS, TILES = 11, 23, (4, 4)
FAR = {torch.int32: [2**31 - 1, -(2**31), 2**30 + 7], torch.int64: [2**63 - 1, -(2**63), 2**40 + 3, 2**31, 2**32 + 5]}


class Visits(Simulation):
    """Counts the steps of loops."""

    steps = 0

    def visits(self, s: Loop, env) -> list[int]:
        found = super().visits(s, env)
        self.steps += len(found)
        return found


def weighted(mask):
    """softmax of masked scores, times values."""

    def f(s, v, n, m):
        i, j = torch.arange(s.shape[0])[:, None], torch.arange(s.shape[1])[None, :]
        return torch.softmax(torch.where(mask(i, j, n[:, None], m[:, None]), s, -INF), -1) @ v

    return f


def summed(mask):
    """A sum of what a mask keeps."""

    def f(s, v, n, m):
        i, j = torch.arange(s.shape[0])[:, None], torch.arange(s.shape[1])[None, :]
        return torch.where(mask(i, j, n[:, None], m[:, None]), s, 0.0) @ v

    return f


MASKS = {
    "length": lambda i, j, n, m: j < n,
    "from": lambda i, j, n, m: j >= n,
    "between": lambda i, j, n, m: (n <= j) & (j < m),
    "outside": lambda i, j, n, m: (j < n) | (m <= j),
    "causal too": lambda i, j, n, m: (j < n) & (j <= i),
    "rows, too": lambda i, j, n, m: (j < n) & (i < m),
    "a window beyond": lambda i, j, n, m: j - i < n,
    "one": lambda i, j, n, m: j == n,
    "flag": lambda i, j, n, m: (n > 0) & (j >= 0),
    "none of it": lambda i, j, n, m: ~(j >= n),
    "rounded up": lambda i, j, n, m: j < (n + 3) // 4 * 4,
}


def drawn(seed: int, dtype: torch.dtype, edge: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Two numbers for each row."""
    r = random.Random(seed)

    def one() -> int:
        return r.choice(FAR[dtype]) if edge and r.random() < 0.3 else r.choice([0, 1, COLUMNS, COLUMNS + 3, -2, *range(COLUMNS)])

    n, m = ([one() for _ in range(ROWS)] for _ in range(2))
    return torch.tensor(n, dtype=dtype), torch.tensor(m, dtype=dtype)


def kernels_of(fn, args, tiles=TILES):
    """The program, and its kernels with rows in the grid and columns streamed, for every feasible number of passes."""
    program = trace(fn, args).program
    (out,) = program.outputs
    row, streamed = out.layout[0], next(i.layout[1] for i in program.inputs if len(i.layout) == 2 and i.layout[0] == out.layout[0])
    roles = {row: Role("grid", tiles[0]), streamed: Role("stream", tiles[1]), out.layout[1]: Role("resident", 4)}
    plain = kernel_from_program(program, roles)
    graph = saturate(program)
    found = []
    for _, nodes, positions, _ in Chooser(graph).cheapest((graph.roots[out.name],), {}, roles):
        roots = tuple(replace(r, node=n) for r, n in zip(plain.roots, positions, strict=True))
        found.append(replace(plain, nodes=nodes, roots=roots))
    return program, found


@lru_cache
def masked(form, name, dtype):
    n = torch.zeros(ROWS, dtype=dtype)
    return kernels_of(form(MASKS[name]), (torch.zeros(ROWS, COLUMNS), torch.zeros(COLUMNS, 3), n, n))


def check(form, name, seed, dtype, edge):
    n, m = drawn(seed, dtype, edge)
    g = torch.Generator().manual_seed(seed)
    args = (torch.randn(ROWS, COLUMNS, generator=g, dtype=torch.float64), torch.randn(COLUMNS, 3, generator=g, dtype=torch.float64), n, m)
    program, kernels = masked(form, name, dtype)
    want = form(MASKS[name])(*args)
    i, j = torch.arange(ROWS)[:, None], torch.arange(COLUMNS)[None, :]
    kept = torch.broadcast_to(MASKS[name](i, j, n[:, None], m[:, None]), (ROWS, COLUMNS)).numpy()
    cuts = [kept[a : a + TILES[0], c : c + TILES[1]] for a in range(0, ROWS, TILES[0]) for c in range(0, COLUMNS, TILES[1])]
    data = dict(zip((i.name for i in program.inputs), (x.numpy() for x in args), strict=True))
    bounded = 0
    for k in kernels:
        for tiles in (lower(k), finish(lower(k))):
            loops = [s for s in tiles.statements() if isinstance(s, Loop)]
            run = Visits(tiles, data, np.float64, False)
            (found,) = run.run().values()
            assert np.allclose(found, want.numpy(), rtol=1e-12, atol=1e-12, equal_nan=True)
            if len(k.nodes) and sum(s.part != "whole" for s in loops) == 1:
                bounded += 1
                yield run.steps, sum(bool(t.any()) for t in cuts), cuts
    assert bounded


EXACT = ("length", "from", "between", "causal too", "flag", "none of it", "rounded up")  # whose tiles lie side by side


@pytest.mark.unaudited  # of a row that keeps nothing, exp(x - max x) is NaN as written and 0 as rolled, before both are divided by their sum
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("form", [weighted, summed])
def test_named_masks(form, name, dtype):
    for seed in range(3):
        for steps, needed, cuts in check(form, name, seed, dtype, edge=False):
            assert needed <= steps <= len(cuts)
            if name in EXACT and (form is summed or not torch.equal(*drawn(seed, dtype, False))):
                # a tile of rows goes from the least begin to the largest end, which may be more than the sum of its rows
                assert steps <= needed + sum(not t.any() for t in cuts) * (name in ("between", "from"))


@pytest.mark.unaudited
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(sorted(MASKS)), st.sampled_from([torch.int32, torch.int64]))
def test_numbers_at_the_ends_of_their_type(seed, name, dtype):
    for steps, needed, cuts in check(summed, name, seed, dtype, edge=True):
        assert needed <= steps <= len(cuts)


def test_an_edge_that_is_wrong_is_seen():
    n, m = torch.tensor([9, 0, 23, 5, 17, 30, 1, 2, 3, 4, 12]), torch.zeros(ROWS, dtype=torch.int64)
    g = torch.Generator().manual_seed(0)
    args = (torch.randn(ROWS, COLUMNS, generator=g), torch.randn(COLUMNS, 3, generator=g), n, m)
    program, kernels = kernels_of(summed(MASKS["length"]), args)
    tiles = lower(kernels[0])
    data = dict(zip((i.name for i in program.inputs), (x.numpy() for x in args), strict=True))

    def moved(bounds):
        return tuple(replace(b, const=b.const - 4) if isinstance(b, Edge) and b.data is not None else b for b in bounds)

    wrong = replace(tiles, body=rewritten(tiles.body, lambda s: replace(s, stops=moved(s.stops)) if isinstance(s, Loop) else s))
    right, less = (next(iter(simulate(t, data).values())) for t in (tiles, wrong))
    assert not np.allclose(right, less)


# whole plans ----------------------------------------------------------------------------------------------------------------------------


def attention(q, k, v, lengths):
    """Padded keys."""
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    m = torch.arange(k.shape[-2])[None, None, None, :] < lengths[:, None, None, None]
    return torch.softmax(torch.where(m, s, -INF), -1) @ v


def heads(batch, length, dtype=torch.float16):
    g = torch.Generator().manual_seed(length)
    return tuple(torch.randn(batch, 2, length, 64, generator=g).to(dtype) for _ in range(3))


@pytest.fixture(scope="module")
def padded():
    return eqfuse.optimize(attention, (*heads(4, 2048), torch.tensor([2048, 100, 700, 64], dtype=torch.int32)), target="h200")


@pytest.mark.parametrize("lengths", [[1, 200, 64, 130], [0, 1, 7, 0], [205, 2**31 - 1, 3, -5]])
def test_one_plan_serves_all_lengths(padded, lengths, monkeypatch):
    args = (*heads(4, 200), torch.tensor(lengths, dtype=torch.int32))
    here = padded.at(*args)
    (kernel,) = here.plan.kernels
    tile = {a.name: r.tile for a, r in kernel.kernel.roles.items()}
    steps = []
    before = Simulation.visits
    monkeypatch.setattr(Simulation, "visits", lambda self, s, env: steps.append(before(self, s, env)) or steps[-1])
    found = torch.as_tensor(np.asarray(here.simulate(*args)))
    want = attention(*(x.double() for x in args[:3]), args[3])
    assert torch.allclose(found.double(), want, rtol=0, atol=1e-12, equal_nan=True)
    needed = sum(-(-max(0, min(n, 200)) // tile["k_rows"]) for n in lengths)
    assert sum(map(len, steps)) == needed * 2 * -(-200 // tile["q_rows"])
    assert padded.plan.kernels[0].kernel.roles.values() == kernel.kernel.roles.values() or here.plan is not padded.plan


def test_the_example_is_priced(padded):
    """Not all of the tiles, nor none of them; and the explanation names what it hangs on."""
    share = (2048 + 100 + 700 + 64) / 4 / 2048
    (k,) = padded.plan.kernels
    whole = eqfuse.optimize(lambda q, k, v: attention(q, k, v, torch.full((4,), 2048)), heads(4, 2048), target="h200").plan
    assert 0.9 * share < k.cost.flops / whole.kernels[0].cost.flops < 1.35 * share
    assert "if lengths is as in the example" in str(padded.plan)


def test_without_an_example_all_tiles_are_priced():
    specs = [TensorSpec((4, 2, 2048, 64), torch.float16)] * 3
    found = eqfuse.optimize(attention, (*specs, TensorSpec((4,), torch.int32)), target="h200").plan
    assert "there is no example" in str(found)
    assert found.kernels[0].cost.flops >= 4 * 4 * 2 * 2048**2 * 64
    few = TensorSpec((4,), torch.int32, sample=Sample.of(np.array([128] * 4)))
    said = eqfuse.optimize(attention, (*specs, few), target="h200").plan
    assert said.kernels[0].cost.flops < found.kernels[0].cost.flops / 10


def test_c_goes_as_far_as_the_data():
    q, k, v = heads(2, 512, torch.float32)
    c = eqfuse.optimize(attention, (q, k, v, torch.tensor([512, 40])), target="cpu")
    for lengths in ([512, 40], [1, 0], [600, -1], [2**40, 77]):
        n = torch.tensor(lengths)
        assert torch.allclose(c(q, k, v, n), attention(q, k, v, n), atol=2e-6, equal_nan=True)
    assert "eq_least(" in c.source and "edge_lengths" in c.source


def test_parts_of_keys_end_where_data_say():
    """Decoding: keys are split over the grid, and each part goes as far as the length reaches into it."""
    g = torch.Generator().manual_seed(0)
    q, lengths = torch.randn(2, 4, 1, 64, generator=g).half(), torch.tensor([30000, 5000])
    k, v = (torch.randn(2, 4, 32768, 64, generator=g).half() for _ in range(2))
    c = eqfuse.optimize(attention, (q, k, v, lengths), target="h200")
    split = c.plan.kernels[0]
    assert any(e.terms for s in split.tiles.statements() if isinstance(s, Loop) for b in s.stops for e in edges_of(b) if e.data)
    assert split.cost.dram_bytes < 0.6 * 2 * k.nbytes
    few = (q, k[:, :, :600], v[:, :, :600], torch.tensor([600, 7]))
    found = torch.as_tensor(np.asarray(c.at(*few).simulate(*few)))
    want = attention(*(x.double() for x in few[:3]), few[3])
    assert torch.allclose(found.double(), want, rtol=0, atol=1e-9)


def padded_linear(x, w, lengths):
    """Rows beyond are zero."""
    m = torch.arange(x.shape[1])[None, :, None] < lengths[:, None, None]
    return torch.where(m, torch.relu(x @ w), 0.0)


def test_no_row_is_multiplied_whose_result_nobody_reads(monkeypatch):
    g = torch.Generator().manual_seed(0)
    x, w = torch.randn(4, 512, 512, generator=g).half(), torch.randn(512, 512, generator=g).half()
    lengths = torch.tensor([512, 100, 0, 30])
    c = eqfuse.optimize(padded_linear, (x, w, lengths), target="h200")
    (k,) = c.plan.kernels
    rows = next(r.tile for a, r in k.kernel.roles.items() if a.name == "rows")
    needed = sum(-(-n // rows) * rows for n in lengths.tolist()) * 512 * 512 * 2
    assert needed <= k.cost.flops <= 1.15 * needed  # the example is known by its distribution
    small = (torch.randn(3, 50, 512, generator=g).half(), w, torch.tensor([50, 0, 7]))
    found = torch.as_tensor(np.asarray(c.at(*small).simulate(*small)))
    want = padded_linear(*(t.double() if t.is_floating_point() else t for t in small))
    assert torch.allclose(found.double(), want, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16])
def test_lengths_of_small_types(dtype):
    def pooled(x, lengths):
        m = torch.arange(x.shape[1]) < lengths[:, None]
        return torch.where(m[..., None], x, 0.0).sum(1)

    x, lengths = torch.randn(4, 4096, 8), torch.tensor([100, 0, 5, 120], dtype=dtype)
    c = eqfuse.optimize(pooled, (x, lengths), target="h200")
    assert "if lengths is as in the example" in str(c.plan)
    for source in (c.simulate(x, lengths), c.interpret(x, lengths)):
        assert torch.allclose(torch.as_tensor(np.asarray(source)).float(), pooled(x, lengths), atol=2e-5)


READERS = {
    "one of two readers": lambda y, m: (torch.where(m, y, 0.0), y.sum(-1)),
    "a product with a mask": lambda y, m: y * m.to(y.dtype),
    "infinite where masked": lambda y, m: torch.where(m, y, -INF),
    "either": lambda y, m: torch.where(m, y, y + 1),
    "a sum after the mask": lambda y, m: torch.where(m, y, 0.0).sum(1),
    "prefixes": lambda y, m: torch.where(m, y.cumsum(1), 0.0),
    "a norm of masked rows": lambda y, m: torch.where(m, torch.softmax(y, -1), 0.0),
}


@pytest.mark.parametrize("name", READERS)
def test_what_somebody_reads_is_made(name):
    def f(x, w, lengths):
        m = (torch.arange(x.shape[1]) < lengths[:, None])[..., None]
        return READERS[name](x @ w, m)

    g = torch.Generator().manual_seed(0)
    x, w, lengths = torch.randn(3, 70, 256, generator=g), torch.randn(256, 33, generator=g), torch.tensor([70, 0, 9])
    c = eqfuse.optimize(f, (x, w, lengths), target="h200", time_budget=1.0)
    found, want = c.simulate(x, w, lengths), f(x.double(), w.double(), lengths)
    for a, b in zip(*((t,) if not isinstance(t, tuple | list) else t for t in (found, want)), strict=True):
        assert torch.allclose(torch.as_tensor(np.asarray(a)).double(), b, rtol=1e-9, atol=1e-9, equal_nan=True)


def test_what_a_loss_ignores_is_not_computed():
    def loss(logits, labels):
        return torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100, reduction="none")

    labels = torch.where(torch.arange(64) < 16, torch.arange(64), -100)
    (k,) = eqfuse.optimize(loss, (torch.randn(64, 32_000), labels), target="h200").plan.kernels
    loops = [s for s in k.tiles.statements() if isinstance(s, Loop)]
    assert loops
    assert all(s.edges for s in loops)


def test_exact_kernels_go_all_the_way():
    n, m = drawn(0, torch.int32, False)
    _, kernels = kernels_of(summed(MASKS["length"]), (torch.zeros(ROWS, COLUMNS), torch.zeros(COLUMNS, 3), n, m))
    loops = [s for s in lower(replace(kernels[0], exact=True)).statements() if isinstance(s, Loop)]
    assert loops
    assert not any(s.starts or s.stops for s in loops)


def test_prefix_sums_of_lengths_in_the_program():
    """As people write it who have lengths: the gathers of positions in a row of packed tokens once grew without an end."""

    def packed(q, k, v, lengths):
        cu = torch.cat([torch.zeros(1, dtype=lengths.dtype), lengths.cumsum(0)])
        t = torch.arange(q.shape[0])
        doc = torch.searchsorted(cu[1:], t, right=True)
        m = (cu[doc][:, None] <= t) & (t < cu[doc + 1][:, None])
        s = torch.einsum("qhd,khd->hqk", q, k) * q.shape[-1] ** -0.5
        return torch.einsum("hqk,khd->qhd", torch.softmax(s.masked_fill(~m[None], -INF), -1), v)

    def tokens(lengths):
        g = torch.Generator().manual_seed(1)
        n = sum(lengths)
        return (*(torch.randn(n, 2, 64, generator=g).half() for _ in range(3)), torch.tensor(lengths))

    args = tokens([20, 64, 0, 71])
    assert saturate(trace(packed, args).program).enodes < 400
    c = eqfuse.optimize(packed, args, target="h200")
    assert len(c.plan.kernels) <= 2
    want = packed(*(x.double() if x.is_floating_point() else x for x in args))
    found = torch.as_tensor(np.asarray(c.simulate(*args)))
    assert torch.allclose(found.double(), want, rtol=0, atol=1e-9)


# samples --------------------------------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=40))
def test_a_sample_keeps_order_and_ends(numbers):
    of = Sample.of(np.array(numbers))
    assert len(of.quantiles) == POINTS
    assert list(of.quantiles) == sorted(of.quantiles)
    again = of.numbers((len(numbers),))
    assert again.shape == (len(numbers),)
    near = np.clip(numbers, -(2**31), 2**31)
    unit = np.abs(near).max() / 32 + 1
    assert abs(again.min() - near.min()) <= unit
    assert abs(again.max() - near.max()) <= unit
    if of.trend == 1:
        assert np.all(np.diff(again) >= 0)


def test_a_batch_in_another_order_has_the_same_sample():
    a, b = ([500, 100, 310, 77], [310, 500, 77, 100])
    assert Sample.of(np.array(a)) == Sample.of(np.array(b))
    assert Sample.of(np.array(a)) != Sample.of(np.array([500] * 4))
    assert Sample.of(np.array([])) is None


def test_what_is_beyond_the_last_part_has_no_sample():
    """Five lengths in two parts of three: a sixth is read, and masked."""
    program = trace(
        lambda x, n: (torch.arange(x.shape[0])[None, :] < n.cumsum(0)[:, None]).sum(0), (torch.zeros(7), torch.arange(5))
    ).program
    (lengths,) = (i.layout[0] for i in program.inputs if i.name == "n")
    graph = saturate(program, splits={lengths: 3})
    assert any(n.op == "view" and n.attrs[0] == lengths and n.attrs[1].bounds()[1] == 5 for row in graph.classes for n in row)
    examples = Examples(graph)
    known = [examples.of(c, tuple(axes)) for c, axes in enumerate(graph.axes)]
    assert any(known)


def test_token_ids_are_no_lengths():
    def embedded(table, ids):
        return torch.where((ids != 0)[:, None], table[ids], 0.0).sum(0)

    program = trace(embedded, (torch.zeros(10, 4), torch.zeros(5, dtype=torch.int64))).program
    assert not compared(program.terms())
    assert not program.samples


def test_steps_are_counted_at_the_sample():
    n = torch.tensor([COLUMNS // 2] * ROWS)
    _, kernels = kernels_of(summed(MASKS["length"]), (torch.zeros(ROWS, COLUMNS), torch.zeros(COLUMNS, 3), n, n))
    counts = walk(lower(kernels[0]))
    every = -(-COLUMNS // TILES[1])
    assert counts.steps == pytest.approx(-(-ROWS // TILES[0]) * -(-(COLUMNS // 2) // TILES[1]))
    assert counts.steps < -(-ROWS // TILES[0]) * every


def grouped(x, w, ends):
    """Rows up to each end by a matrix of their own."""
    return torch.nn.functional.grouped_mm(x, w, offs=ends)


def test_loops_in_a_loop_take_their_share_of_the_steps_that_it_takes():
    """Both end where the same data say: what the inner one leaves out the outer one has left out before."""
    ends = torch.tensor([100, 700, 1000, 1500, 2500, 2600, 3500, 4096], dtype=torch.int32)
    x, w = torch.randn(4096, 512).bfloat16(), torch.randn(8, 512, 512).bfloat16()
    (k,) = eqfuse.optimize(grouped, (x, w, ends), target="h200").plan.kernels
    needed = 2 * 4096 * 512 * 512
    assert needed <= k.cost.flops <= 1.3 * needed
    assert k.cost.dram_bytes >= 0.9 * 2 * (x.numel() + w.numel() + 4096 * 512)


def test_padded_rows_of_a_chain_are_priced_once():
    def chain(x, w, v, lengths):
        m = (torch.arange(x.shape[1])[None] < lengths[:, None])[..., None]
        return torch.where(m, (x @ w).relu() @ v, 0.0)

    lengths = torch.tensor([512, 10, 20, 30, 100, 300, 60, 70])
    args = (torch.randn(8, 512, 512).half(), torch.randn(512, 256).half(), torch.randn(256, 64).half(), lengths)
    kernels = eqfuse.optimize(chain, args, target="h200").plan.kernels
    rows = sum(-(-n // 64) * 64 for n in lengths.tolist())
    assert sum(k.cost.flops for k in kernels) >= 0.85 * 2 * rows * (512 * 256 + 256 * 64)


def test_in_c_a_row_goes_as_far_as_its_own_length():
    """Where a thread takes the rows of a tile one by one, no other row counts."""

    def logarithms(x, lengths):
        inside = torch.arange(x.shape[1]) < lengths[:, None]
        return torch.logsumexp(torch.where(inside, x, -INF), -1)

    x, lengths = torch.randn(70, 100_000), torch.randint(-5, 100_010, (70,))
    lengths[:3] = torch.tensor([0, 100_000, 1])
    c = eqfuse.optimize(logarithms, (x, lengths), target="cpu")
    torch.testing.assert_close(c(x, lengths), logarithms(x, lengths))
