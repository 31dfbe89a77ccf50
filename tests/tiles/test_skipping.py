"""Masked tiles are left out of loops: those that are, would change nothing, and of the masks that people use, none is left in.  Tiles in
which nothing is masked are in a loop of their own, which does not ask."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import eqfuse
from eqfuse.egraph.saturate import saturate
from eqfuse.extract.choose import Chooser
from eqfuse.frontends import trace
from eqfuse.ir.build import axes, const, iota, le, maximum_over, program, select, tensor
from eqfuse.ir.reference import evaluate
from eqfuse.testing.fuzz.lowering import relative_error
from eqfuse.tiles import skipping
from eqfuse.tiles.direct import kernel_from_program
from eqfuse.tiles.finish import finish
from eqfuse.tiles.finish import parts as finish_parts
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.program import Edge, Let, Loop, TileProgram
from eqfuse.tiles.simulate import Simulation, simulate
from eqfuse.tiles.walk import walk

INF = float("inf")


class Visits(Simulation):
    """Counts the steps of loops."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.steps = self.masked = 0

    def visits(self, s: Loop, env) -> list[int]:
        found = super().visits(s, env)
        self.steps += len(found)
        self.masked += len(found) * (s.part != "whole")
        return found


def weighted(mask):
    """softmax of masked scores, times values."""

    def f(s, v):
        i, j = torch.arange(s.shape[0])[:, None], torch.arange(s.shape[1])[None, :]
        return torch.softmax(torch.where(mask(i, j), s, -INF), -1) @ v

    return f


def summed(mask):
    """A sum of what a mask keeps."""

    def f(s, v):
        i, j = torch.arange(s.shape[0])[:, None], torch.arange(s.shape[1])[None, :]
        return torch.where(mask(i, j), s, 0.0) @ v

    return f


def programs(fn, rows, columns, tiles, seed=0):
    """The program, its inputs, and its kernels with rows in the grid and columns streamed, for every feasible number of passes."""
    args = (torch.empty(rows, columns), torch.empty(columns, 3))
    program = trace(fn, args).program
    (out,) = program.outputs
    row, streamed = out.layout[0], next(i.layout[1] for i in program.inputs if i.layout[0] == out.layout[0])
    roles = {row: Role("grid", tiles[0]), streamed: Role("stream", tiles[1]), out.layout[1]: Role("resident", 4)}
    plain = kernel_from_program(program, roles)
    graph = saturate(program)
    random_ = np.random.default_rng(seed)
    data = {i.name: random_.standard_normal([a.size for a in i.layout]) for i in program.inputs}
    kernels = []
    for _, nodes, positions, _ in Chooser(graph).cheapest((graph.roots[out.name],), {}, roles):
        roots = tuple(replace(r, node=n) for r, n in zip(plain.roots, positions, strict=True))
        kernels.append(replace(plain, nodes=nodes, roots=roots))
    return program, data, kernels


def visited(tiles: TileProgram, data) -> int:
    run = Visits(tiles, data, np.float64, False)
    run.run()
    return run.steps


def asked(tiles: TileProgram, data) -> int:
    """Steps of loops that are not in a clear stretch."""
    run = Visits(tiles, data, np.float64, False)
    run.run()
    return run.masked


def cut(mask, rows, columns, tiles):
    """What the mask keeps, in tiles."""
    i, j = torch.arange(rows)[:, None], torch.arange(columns)[None, :]
    kept = np.broadcast_to(mask(i, j).numpy(), (rows, columns))
    cuts = [list(pairwise([*range(0, n, t), n])) for n, t in zip((rows, columns), tiles, strict=True)]
    return [kept[a:b, c:d] for a, b in cuts[0] for c, d in cuts[1]]


def needed(mask, rows, columns, tiles) -> int:
    """Tiles in which the mask keeps something."""
    return sum(bool(t.any()) for t in cut(mask, rows, columns, tiles))


def whole(mask, rows, columns, tiles) -> int:
    """Tiles in which it keeps everything, and which are not cut off."""
    return sum(bool(t.all()) and t.shape == tuple(tiles) for t in cut(mask, rows, columns, tiles))


MASKS = {
    "causal": lambda i, j: j <= i,
    "strictly causal": lambda i, j: j < i,  # the first row keeps nothing
    "last rows": lambda i, j: j <= i + 9,
    "first rows keep nothing": lambda i, j: j <= i - 7,
    "anticausal": lambda i, j: j >= i,
    "window": lambda i, j: (j <= i) & (i - j < 6),
    "both sides": lambda i, j: (j - i < 4) & (i - j < 4),
    "distance": lambda i, j: (i - j).abs() <= 3,
    "beyond a distance": lambda i, j: (j - 2 * 4 - i).abs() > 5,
    "prefix": lambda i, j: (j <= i) | (j < 5),
    "columns": lambda i, j: (j > 3) & (j < 12) & (i >= 0),
    "reversed": lambda i, j: ~(j + i > 20),
}
FROM_DATA = lambda i, j: (j <= i) & ((3 * i + 5 * j) % 7 > 0)  # noqa: E731  of a part nothing is known


@pytest.mark.unaudited  # of a row that keeps nothing, exp(x - max x) is NaN as written and 0 as rolled, before both are divided by their sum
@pytest.mark.parametrize("sizes", [(17, 23, 4, 4), (16, 16, 4, 4), (8, 33, 2, 8), (23, 9, 8, 2), (2, 7, 1, 4), (5, 2, 4, 4)])
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("form", [weighted, summed])
def test_named_masks(form, name, sizes):
    rows, columns, *tiles = sizes
    program, data, kernels = programs(form(MASKS[name]), rows, columns, tiles)
    expected = evaluate(program, data)
    assert kernels
    for k in kernels:
        found = simulate(finish(lower(k, min_dot_k=2)), data)
        for out, value in expected.items():
            nan = np.isnan(value)
            assert (np.isnan(found[out]) == nan).all()
            assert relative_error(np.where(nan, 0, found[out]), np.where(nan, 0, value)) < 1e-12


@pytest.mark.unaudited
@pytest.mark.parametrize("name", sorted(set(MASKS) - {"beyond a distance"}))  # its masked tiles are amid others
@pytest.mark.parametrize("form", [weighted, summed])
def test_no_masked_tile_is_visited(form, name):
    rows, columns, tiles = 36, 41, (4, 4)  # whole tiles of rows: the edges of a padded one are where its last lane would be
    _, data, kernels = programs(form(MASKS[name]), rows, columns, tiles)
    mask = MASKS[name]
    one = [k for k in (lower(k, min_dot_k=2) for k in kernels) if sum(isinstance(s, Loop) for s in k.statements()) == 1]
    assert one
    for k in one:
        # a loop has one first and one last tile for all lanes of a program
        parted = finish(k)
        assert visited(k, data) == visited(parted, data) == needed(mask, rows, columns, tiles), str(k)
        if name not in ("columns",):  # of a condition on a row, nothing is known along the columns
            assert asked(parted, data) == needed(mask, rows, columns, tiles) - whole(mask, rows, columns, tiles), str(parted)


@pytest.mark.unaudited
def test_a_part_of_a_condition_is_known():
    _, _, kernels = programs(weighted(FROM_DATA), 36, 41, (4, 4))
    parts = [[s for s in finish(lower(k, min_dot_k=2)).statements() if isinstance(s, Loop) and s.part] for k in kernels]
    assert any(parts)
    for loops in filter(None, parts):
        ops = [[s.op for s in loop.body if isinstance(s, Let)] for loop in loops[:2]]
        assert "and" in ops[0]
        assert "and" not in ops[1]
        assert "where" in ops[1]


@pytest.mark.unaudited
@pytest.mark.parametrize("name", ["causal", "first rows keep nothing", "window"])
def test_a_reference_with_an_element_beside_the_row(name):
    """exp(s - max(max s, x)), of which a masked tile changes nothing whatever x is, in one loop."""
    mask, sizes = MASKS[name], (36, 41, 4, 4)

    def f(s, v):
        i, j = torch.arange(s.shape[0])[:, None], torch.arange(s.shape[1])[None, :]
        s = torch.where(mask(i, j), s, -INF)
        top = s.amax(-1, True).clamp(min=0.25)
        e = torch.exp(s - top)
        return (e @ v) / (e.sum(-1, True) + torch.exp(0.25 - top))

    rows, columns, *tiles = sizes
    program, data, kernels = programs(f, rows, columns, tiles)
    expected = evaluate(program, data)
    one = 0
    for k in kernels:
        tiles_ = lower(k, min_dot_k=2)
        found = simulate(tiles_, data)
        assert all(relative_error(found[out], value) < 1e-12 for out, value in expected.items())
        if sum(isinstance(s, Loop) for s in tiles_.statements()) == 1:
            one += 1
            assert visited(tiles_, data) == needed(mask, rows, columns, tiles)
    assert one


def formula(rng: random.Random, depth: int = 2):
    if depth == 0 or rng.random() < 0.4:
        a, b, c = rng.choice((-2, -1, 0, 1, 2)), rng.choice((-1, 1)), rng.randint(-12, 12)
        compare = rng.choice((torch.le, torch.lt, torch.ge, torch.gt))
        return lambda i, j: compare(a * i + b * j, c)
    x, y = formula(rng, depth - 1), formula(rng, depth - 1)
    return rng.choice((lambda i, j: x(i, j) & y(i, j), lambda i, j: x(i, j) | y(i, j), lambda i, j: ~x(i, j)))


def disagreements(seeds) -> tuple[int, int, list[int]]:
    """How many loops of random masks have edges, and how many are in two parts; the seeds of which something else is computed than the
    program says."""
    bounded, parted, wrong = 0, 0, []
    for seed in seeds:
        rng = random.Random(seed)
        mask, form = formula(rng), rng.choice((weighted, summed))
        sizes = rng.randint(2, 20), rng.randint(2, 20), (rng.choice((1, 2, 4)), rng.choice((2, 4)))
        program, data, kernels = programs(form(lambda i, j, mask=mask: mask(i, j) & (i >= 0)), *sizes, seed)
        expected = evaluate(program, data)
        for k in kernels:
            tiles = finish(lower(k, min_dot_k=2))
            bounded += any(isinstance(s, Loop) and (s.starts or s.stops) for s in tiles.statements())
            parted += any(isinstance(s, Loop) and s.part == "whole" for s in tiles.statements())
            found = simulate(tiles, data)
            for out, value in expected.items():
                nan = np.isnan(value)
                same = (np.isnan(found[out]) == nan).all()
                if not same or relative_error(np.where(nan, 0, found[out]), np.where(nan, 0, value)) > 1e-11:
                    wrong.append(seed)
    return bounded, parted, wrong


@pytest.mark.unaudited
def test_random_masks(monkeypatch):
    monkeypatch.setattr(finish_parts, "LEAST", 1e-9)
    bounded, parted, wrong = disagreements(range(40))
    assert not wrong
    assert bounded >= 30
    assert parted >= 20


@pytest.mark.unaudited
@pytest.mark.parametrize("off", [-1, 1])
def test_an_edge_in_the_wrong_place_is_found(monkeypatch, off):
    """Too early an end, too late a start."""
    right = skipping.halves
    monkeypatch.setattr(skipping, "halves", lambda found: [(up, moved(b, 2 * off) if up == (off < 0) else b) for up, b in right(found)])
    assert any(disagreements([seed])[-1] for seed in range(60))


def moved(bound, by):
    if isinstance(bound, Edge):
        return replace(bound, const=bound.const + by)
    return replace(bound, of=tuple(moved(b, by) for b in bound.of))


@pytest.mark.unaudited
@pytest.mark.parametrize("side", [0, 1])
def test_a_clear_stretch_that_is_too_long_is_found(monkeypatch, side):
    right = skipping.united

    def wrong(found):
        region = right(found)
        return tuple(tuple(moved(b, (-4, 4)[side]) for b in bounds) if k == side else bounds for k, bounds in enumerate(region))

    monkeypatch.setattr(skipping, "united", wrong)
    monkeypatch.setattr(finish_parts, "LEAST", 1e-9)
    assert any(disagreements([seed])[-1] for seed in range(60))


def test_a_step_that_does_something_is_not_left_out(monkeypatch):
    monkeypatch.setattr(skipping, "_does_nothing", lambda *_: True)
    fn = weighted(lambda i, j: j <= i)
    program, data, kernels = programs(
        lambda s, v: fn(s, v) + torch.where(torch.arange(s.shape[1]) > 3, s, 1.0).sum(-1, True), 17, 23, (4, 4)
    )
    expected = evaluate(program, data)
    out = next(iter(expected))
    assert any(relative_error(simulate(lower(k, min_dot_k=2), data)[out], expected[out]) > 1e-3 for k in kernels)


@pytest.mark.parametrize(
    "fn",
    [
        lambda s, v: torch.softmax(torch.where(torch.ones_like(s).tril() > 0, s, -1e9), -1) @ v,  # a finite mask: such a row is uniform
        lambda s, v: torch.softmax(s, -1) @ v,
        lambda s, v: torch.where(s > 0, s, 0.0) @ v,  # known from data only
    ],
)
def test_other_loops_visit_every_tile(fn):
    for k in programs(fn, 17, 23, (4, 4))[2]:
        assert not any(isinstance(s, Loop) and (s.starts or s.stops) for s in lower(k, min_dot_k=2).statements())


def test_the_plan_says_so_and_costs_less():
    args = tuple(torch.empty(1, 8, 4096, 128, dtype=torch.float16, device="meta") for _ in range(3))

    def plain(q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2), -1) @ v

    def causal(q, k, v):
        n = q.shape[2]
        mask = torch.ones(n, n, dtype=torch.bool, device=q.device).tril()
        return torch.softmax((q @ k.transpose(-1, -2)).masked_fill(~mask, -INF), -1) @ v

    every, half = (eqfuse.optimize(f, args, target="h200").plan for f in (plain, causal))
    assert half.estimated_us < 0.6 * every.estimated_us
    assert "% of the tiles of" in str(half)
    exact = eqfuse.optimize(causal, args, target="h200", licence="exact").plan
    assert "% of the tiles of" not in str(exact)


def test_loops_that_no_program_runs_are_counted():
    """The edge depends on an axis of length 0: there is no tile to take the average over."""
    i, k = axes(i=4, k=0)
    rows = maximum_over(i, select(le(iota(i), iota(k)), tensor("x", i), const(-INF)))
    kernel = kernel_from_program(program("p", y=(rows, (k,))), {i: Role("stream", 2), k: Role("grid", 2)})
    (loop,) = (s for s in lower(kernel).statements() if isinstance(s, Loop))
    assert loop.starts or loop.stops
    assert walk(lower(kernel)).steps == 0
