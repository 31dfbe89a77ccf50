"""Scans in kernels: whole on chip, or carried from step to step of a loop, under any tiles."""

import itertools

import numpy as np
import pytest

from eqfuse.errors import PlanError
from eqfuse.ir import build as b
from eqfuse.ir import dtypes
from eqfuse.ir.index import index
from eqfuse.ir.monoids import MONOIDS
from eqfuse.ir.reference import evaluate
from eqfuse.ir.terms import Reduce, Scan, View
from eqfuse.tiles.direct import kernel_from_program
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.program import Loop
from eqfuse.tiles.program import Scan as TileScan
from eqfuse.tiles.simulate import simulate

WAYS = [Role("resident", 16), Role("stream", 4), Role("stream", 1)]


def agree(program, roles, data):
    found = simulate(made := lower(kernel_from_program(program, roles)), data)
    for name, expected in evaluate(program, data).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-12, atol=1e-12)
    return made


@pytest.mark.parametrize("monoid", [m for m in MONOIDS if MONOIDS[m].prefixes is not None])
def test_every_monoid_under_all_roles(monoid):
    """Beside reductions of the scan and of what it scans, and a scan of a scan; lanes past the end hold what they like."""
    i, j = b.axes(i=3, j=13)
    whole = monoid in {m.integer for m in MONOIDS.values()}
    x = b.tensor("x", i, j, dtype=dtypes.int64 if whole else dtypes.float32)
    y = Scan(monoid, j, x + 1)
    program = b.program(
        "p", y=(y, (i, j)), z=(Scan(monoid, j, y), (i, j)), t=(Reduce("max", j, y), (i,)), u=(y - Reduce("max", j, x), (i, j))
    )
    rng = np.random.default_rng(0)
    data = {"x": rng.integers(-3, 4, size=(3, 13)) if whole else rng.normal(size=(3, 13))}
    for rows, columns in itertools.product((Role("grid", 2), Role("stream", 2)), WAYS):
        if rows.kind == "stream" and columns.kind == "stream":
            continue
        agree(program, {i: rows, j: columns}, data)
    if not whole:
        data["x"][0, 2], data["x"][1, :] = np.nan, -np.inf
        agree(program, {i: Role("grid", 1), j: Role("stream", 4)}, data)


def test_a_carry_for_each_row_of_a_tile():
    i, j = b.axes(i=5, j=9)
    program = b.program("p", y=(b.running_sum(j, b.tensor("x", i, j)), (i, j)))
    made = agree(program, {i: Role("grid", 2), j: Role("stream", 4)}, {"x": np.random.default_rng(1).normal(size=(5, 9))})
    (loop,) = (s for s in made.statements() if isinstance(s, Loop))
    assert [[d.name for d in a.old.dims] for a in loop.accumulators] == [["i"], ["i"]]  # the sum, and what it lost
    assert sum(isinstance(s, TileScan) for s in made.statements()) == 1


def test_what_does_not_vary_is_no_loop():
    i, j = b.axes(i=4, j=9)
    x = b.tensor("x", i)
    program = b.program("p", y=(Scan("sum", j, x), (i, j)), z=(Scan("max", j, x), (i, j)))
    made = agree(program, {i: Role("grid", 1), j: Role("grid", 4)}, {"x": np.arange(4.0)})
    assert not any(isinstance(s, TileScan | Loop) for s in made.statements())


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        ((Role("grid", 1), Role("grid", 4)), "cannot be a grid axis"),
        ((Role("stream", 2), Role("stream", 4)), None),
    ],
)
def test_an_axis_is_scanned_in_one_program_in_order(roles, words):
    i, j = b.axes(i=4, j=9)
    program = b.program("p", y=(b.running_sum(j, b.tensor("x", i, j)), (i, j)))
    data = {"x": np.random.default_rng(2).normal(size=(4, 9))}
    if words is None:  # rows outside: each has its own loop and carry
        agree(program, dict(zip((i, j), roles, strict=True)), data)
        with pytest.raises(PlanError, match="not of one inside"):
            lower(kernel_from_program(program, dict(zip((j, i), roles[::-1], strict=True))))
    else:
        with pytest.raises(PlanError, match=words):
            lower(kernel_from_program(program, dict(zip((i, j), roles, strict=True))))


def test_a_scan_read_elsewhere_is_another_kernel():
    j, k = b.axes(j=9, k=9)
    x = b.tensor("x", j)
    program = b.program("p", y=(View(b.running_sum(j, x), j, index(k) * -1 + 8), (k,)))
    with pytest.raises(PlanError, match="store it first"):
        kernel_from_program(program, {k: Role("resident", 16)})


def test_a_scan_read_along_an_axis_that_it_has_is_not_a_scan_along_that():
    """The diagonal of running sums, where the axis they are read at is free in what is summed."""
    i, j = b.axes(i=4, j=4)
    for x in (b.tensor("x", i, j), b.tensor("x", i)):
        program = b.program("p", y=(View(Scan("sum", j, x), j, index(i)), (i,)))
        with pytest.raises(PlanError, match="store it first"):
            kernel_from_program(program, {i: Role("resident", 4)})
