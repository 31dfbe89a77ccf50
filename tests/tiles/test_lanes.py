"""States of loops for each few neighbours: what they are merged to, that no step waits, and which loops keep one state."""

from dataclasses import replace

import hand_kernels as kernels
import numpy as np
import pytest

from eqfuse.ir import build as b
from eqfuse.ir import dtypes
from eqfuse.ir.index import Axis
from eqfuse.tiles.direct import NodeBuilder, kernel_from_program
from eqfuse.tiles.finish import finish
from eqfuse.tiles.kernel import Buffer, Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.program import Loop, Reduce
from eqfuse.tiles.simulate import simulate
from eqfuse.tiles.spec import check_tiles
from eqfuse.tiles.walk import walk

ROWS = {
    "softmax": lambda n: kernels.softmax_rows(n=4, length=n, tile=64),
    "tiles of rows": lambda n: kernels.softmax_rows(n=4, length=n, tile=64, rows=2),
    "logsumexp": lambda n: kernels.logsumexp(n=4, length=n, tile=64),
    "entropy": lambda n: kernels.entropy(n=4, length=n, tile=64),
}
HARD = (-np.inf, np.inf, np.nan, 3e38)


def by_lanes(k):
    program = finish(lower(replace(k, lanes=True)))
    check_tiles(program)
    return program


def crossings(program):
    """Reductions over all lanes in loops."""
    loops = [s for s in program.statements() if isinstance(s, Loop)]
    return sum(isinstance(t, Reduce) and t.lanes is None for s in loops for t in s.body)


@pytest.mark.parametrize("length", [8, 56, 64, 72, 200])
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("size", [2, 4])
def test_lanes_merge_to_the_reduction(name, length, size):
    k, oracle = ROWS[name](length)
    if size == 2:  # vectors of eight, and sums that carry nothing
        k = replace(k, buffers={n: replace(v, dtype=dtypes.float16) for n, v in k.buffers.items()})
    program = by_lanes(k)
    assert crossings(program) == 0 < crossings(lower(k))
    assert [d.each for d in program.coarse] == [16 // size]
    data = kernels.inputs(k)
    found = simulate(program, data)
    for buffer, expected in oracle(**data).items():
        np.testing.assert_allclose(found[buffer], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["softmax", "logsumexp"])
def test_infinities_and_nan_in_some_lanes(name):
    """As where one state is kept: rows with one of them, with several of one lane or of many, and of nothing else."""
    k, _ = ROWS[name](200)
    x = np.random.default_rng(0).normal(size=(4, 200))
    for hard in HARD:
        for where in ([5], [0, 1, 2, 3, 150], range(0, 200, 2), range(64, 200), range(200)):
            x[1] = x[2]
            x[1, list(where)] = hard
            np.testing.assert_allclose(*(simulate(p, {"x": x})[k.roots[0].buffer] for p in (by_lanes(k), lower(k))), rtol=1e-12)


def test_a_sum_carries_what_it_loses_by_lanes():
    i, j = b.axes(i=2, j=64 * 500)
    k = kernel_from_program(b.program("sums", y=(b.sum_over(j, b.tensor("x", i, j)), (i,))), {i: Role("grid", 1), j: Role("stream", 64)})
    x = np.full((2, 64 * 500), 0.1, np.float32)
    exact = x.astype(np.float64).sum(1)
    program = by_lanes(k)
    assert crossings(program) == 0
    assert np.max(np.abs(simulate(program, {"x": x}, np.float32)["y"] / exact - 1)) < 1e-7


@pytest.mark.parametrize("name", ["moments", "moments_by_vector_repair", "attention"])
def test_other_loops_keep_one_state(name):
    """A running mean and a term for each row count what was seen; a matrix product reads what is relative to the running maximum."""
    k = kernels.CASES[name]()[0]
    k = replace(k, roles={a: Role(r.kind, 64) if r.kind == "stream" else r for a, r in k.roles.items()})
    assert lower(replace(k, lanes=True)).body == lower(k).body


def test_a_step_that_changes_a_state_between_equal_references_is_not_merged():
    i, j = Axis("i", 3), Axis("j", 256)
    g = NodeBuilder()
    r = g.roll("sum", j, g.load("x", i, j), g.map("square", g.acc()))
    buffers = [Buffer("x", dtypes.float32, (3, 256)), Buffer("y", dtypes.float32, (3,), "output")]
    k = kernels.kernel("odd", g, [(r, "y", (i,))], buffers, {i: Role("grid", 1), j: Role("stream", 64)})
    assert lower(replace(k, lanes=True)).body == lower(k).body


def test_rows_that_are_not_aligned_keep_one_state():
    """Their neighbours are loaded one by one, each by another thread."""
    k, _ = ROWS["softmax"](201)
    assert lower(replace(k, lanes=True)).body == lower(k).body


def test_tiles_across_memory_keep_one_state():
    """Neighbours of a vector are other rows: they are in other lanes anyway."""
    i, j = b.axes(i=256, j=256)
    x = b.tensor("x", j, i)
    roles = {i: Role("grid", 128), j: Role("stream", 64)}
    k = kernel_from_program(b.program("columns", y=(b.sum_over(j, x), (i,))), roles)
    assert lower(replace(k, lanes=True)).body == lower(k).body


def test_steps_that_wait_are_counted():
    k, _ = ROWS["softmax"](200)
    assert walk(lower(k)).crossings == 4 * 4 * 2  # rows, steps, a maximum and a sum in each
    assert walk(lower(replace(k, lanes=True))).crossings == 4 * 2  # merged once a row
