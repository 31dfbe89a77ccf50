"""Sums that keep digits: results of 16 bits by lanes, those of float32 by carrying what additions lose."""

from dataclasses import replace

import hand_kernels as kernels
import numpy as np
import pytest

from eqfuse.ir import build as b
from eqfuse.ir import dtypes
from eqfuse.ir.index import Axis
from eqfuse.ir.reference import round_to
from eqfuse.tiles import compensation
from eqfuse.tiles.direct import NodeBuilder, kernel_from_program
from eqfuse.tiles.kernel import Buffer, Role
from eqfuse.tiles.lower import Lowering, lower
from eqfuse.tiles.program import Let, Loop, Reduce
from eqfuse.tiles.simulate import simulate


def states(program, start):
    return [a.old.name for s in program.statements() if isinstance(s, Loop) for a in s.accumulators if a.old.name.startswith(start)]


def lost(program):
    return states(program, "lost")


def lanes(program):
    return [n for monoid in ("sum", "max", "min") for n in states(program, f"{monoid}_lanes")]


# sums ---------------------------------------------------------------------------------------------------------------------------------


def summed(length=4096, tile=2, dtype=dtypes.float32):
    i, j = b.axes(i=3, j=length)
    x = b.tensor("x", i, j, dtype=dtype)
    return kernel_from_program(b.program("sums", y=(b.sum_over(j, x), (i,))), {i: Role("grid", 1), j: Role("stream", tile)})


def narrow(k, dtype=dtypes.float16):
    """The kernel with all its tensors in a type of 16 bits."""
    return replace(k, buffers={n: replace(buffer, dtype=dtype) for n, buffer in k.buffers.items()})


def error(k, x):
    exact = x.astype(np.float64).sum(1)
    return float(np.max(np.abs(simulate(lower(k), {"x": x}, np.float32)["y"] - exact) / exact))


@pytest.mark.parametrize(("result", "carried"), [(dtypes.float16, False), (dtypes.float32, True), (None, True)])
def test_parts_carry_what_their_result_has_digits_for(result, carried):
    k = summed(tile=16)
    part = replace(k, buffers={n: replace(b, role="temporary", result=result) if n == "y" else b for n, b in k.buffers.items()})
    assert bool(lost(lower(part))) is carried is not bool(lanes(lower(part)))


DATA = {"random": np.random.default_rng(0).random((3, 4096), np.float32) + 1, "equal": np.full((3, 4096), 0.1, np.float32)}


@pytest.mark.parametrize("data", DATA)
def test_a_sum_does_not_lose_digits_with_the_number_of_steps(data, monkeypatch):
    """The roundings of equal numbers are equal, too: nothing but what is carried makes up for them."""
    x = DATA[data]
    kept = error(summed(), x)
    assert not lanes(lower(summed()))
    monkeypatch.setattr(compensation, "worthwhile", lambda kernel, contractions: False)
    assert not lost(lower(summed()))
    assert kept <= 2.0**-24
    assert error(summed(), x) > 8 * 2.0**-24


def test_a_rescaled_sum_does_not_either(monkeypatch):
    """Its reference rises in every step."""
    k, _ = kernels.logsumexp(n=3, length=4096, tile=2, rows=1)
    x = (np.arange(4096) * 1e-4 + np.zeros((3, 1))).astype(np.float32)
    wide = x.astype(np.float64)
    exact = np.log(np.exp(wide - wide.max(1, keepdims=True)).sum(1)) + wide.max(1)

    def off():
        return float(np.max(np.abs(simulate(lower(k), {"x": x}, np.float32)["out"] - exact)))

    kept = off()
    monkeypatch.setattr(compensation, "worthwhile", lambda kernel, contractions: False)
    monkeypatch.setattr(Lowering, "_lanes", lambda lowering, node: None)
    assert kept < off()


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16])
def test_equal_numbers_lose_no_digit_of_16_bits(dtype):
    """512 steps, each lane rounding in the same direction: that is far below the last digit of the result."""
    k = narrow(summed(length=8192, tile=16), dtype)
    assert lanes(lower(k)) == ["sum_lanes_j"]
    x = np.full((3, 8192), round_to(np.float32(0.1), dtype.name), np.float32)
    stored = simulate(lower(k), {"x": x}, np.float32)["y"]
    np.testing.assert_array_equal(stored, round_to(x.astype(np.float64).sum(1), dtype.name))


def test_a_rescaled_sum_keeps_its_lanes():
    """The maximum itself is read in the loop, so every step reduces it, and nothing else."""
    program = lower(narrow(kernels.logsumexp(n=3, length=4096, tile=16, rows=1)[0]))
    assert [n.split("_")[0] for n in lanes(program)] == ["sum"]
    assert states(program, "max")
    (loop,) = (s for s in program.statements() if isinstance(s, Loop))
    assert [s.monoid for s in loop.body if isinstance(s, Reduce)] == ["max"]


@pytest.mark.parametrize("length", [64, 61])
@pytest.mark.parametrize("reduce", [b.maximum_over, b.sum_over, b.mean_over], ids=["max", "sum", "mean"])
def test_any_reduction_that_no_loop_reads_keeps_its_lanes(reduce, length):
    i, j = b.axes(i=4, j=length)
    k = kernel_from_program(b.program("p", y=(reduce(j, b.tensor("x", i, j)), (i,))), {i: Role("grid", 2), j: Role("stream", 16)})
    program = lower(narrow(k, dtypes.bfloat16))
    (loop,) = (s for s in program.statements() if isinstance(s, Loop))
    assert len(lanes(program)) == 1
    assert not any(isinstance(s, Reduce) for s in loop.body)
    x = np.random.default_rng(0).standard_normal((4, length)) - 3  # of negative numbers a padded lane of 0 would be the largest
    expected = {b.maximum_over: np.max, b.sum_over: np.sum, b.mean_over: np.mean}[reduce](x, 1)
    np.testing.assert_allclose(simulate(program, {"x": x})["y"], expected, rtol=2.0**-8)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((np.inf,), np.inf),
        ((-np.inf,), -np.inf),
        ((np.inf, -np.inf), np.nan),
        ((np.nan,), np.nan),
        ((3e38, 3e38), np.inf),  # overflow on the way
        ((3e38, 3e38, -3e38), np.inf),
    ],
)
def test_what_is_not_finite_stays_what_it_is(values, expected):
    x = np.ones((3, 64), np.float32)
    x[:, 5 : 5 + 4 * len(values) : 4] = values
    found = simulate(lower(summed(length=64, tile=4)), {"x": x}, np.float32)["y"]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("role", [Role("stream", 2), Role("resident", 8192)], ids=str)
@pytest.mark.parametrize(("value", "expected"), [(np.inf, np.inf), (-np.inf, -np.inf), (np.nan, np.nan), (3e38, np.inf), (1e-45, 0.0)])
def test_a_mean_that_is_not_finite_stays_what_it_is(value, expected, role):
    i, j = b.axes(i=3, j=4098)
    k = kernel_from_program(b.program("means", y=(b.mean_over(j, b.tensor("x", i, j)), (i,))), {i: Role("grid", 64), j: role})
    x = np.zeros((3, 4098), np.float32)
    x[:, 5:9] = value
    np.testing.assert_array_equal(simulate(lower(k), {"x": x}, np.float32)["y"], expected)


@pytest.mark.parametrize("reduce", [b.maximum_over, b.sum_over, b.mean_over], ids=["max", "sum", "mean"])
def test_a_mean_of_one_element_is_that_element(reduce):
    """A random program found that what the maximum over another axis had "lost" was taken from the mean (seed 95783)."""
    i, j = b.axes(i=1, j=6)
    p = b.program("mean of one", y=(b.mean_over(i, reduce(j, b.tensor("x", j, i))), ()))
    x = np.random.default_rng(0).standard_normal((6, 1)).astype(np.float32)
    expected = {b.maximum_over: np.max, b.sum_over: np.sum, b.mean_over: np.mean}[reduce](x.astype(float))
    for roles in ({i: Role("resident", 1), j: Role("resident", 8)}, {i: Role("stream", 1), j: Role("resident", 8)}):
        found = simulate(lower(kernel_from_program(p, roles)), {"x": x}, np.float32)["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_small_terms_of_an_update_meet_before_they_meet_the_tile():
    """The variance of data around 1000: what the changing mean adds is small beside a tile, and costs it no rounding of its own."""
    program = lower(kernels.CASES["moments"]()[0])
    lets = {s.dst.name: s for s in program.statements() if isinstance(s, Let)}
    tiles = {s.dst.name for s in program.statements() if isinstance(s, Reduce)}
    for a in (a for s in program.statements() if isinstance(s, Loop) for a in s.accumulators if not a.old.name.startswith("lost")):
        _, small = lets[a.new.name].args
        assert len(tiles & {x.name for x in lets[small.name].args}) == 1, a.new.name


@pytest.mark.parametrize(
    ("name", "by_lanes", "carried"),
    [
        ("softmax_rows", 1, 1), ("entropy", 2, 2),  # rescaled, and read after the loop
        ("moments", 0, 2), ("moments_by_vector_repair", 0, 3),  # the mean runs, and squares get a term for each row
        ("attention", 0, 1),  # the sum beside a contraction
        ("matmul", 0, 0),  # a step of a contraction is as large as the whole
    ],
)  # fmt: skip
def test_sums_keep_lanes_or_carry_what_they_lose(name, by_lanes, carried):
    k = kernels.CASES[name]()[0]
    for kernel, expected in ((narrow(k), (by_lanes, 0)), (k, (0, carried))):
        program = lower(kernel)
        assert (len(lanes(program)), len(lost(program))) == expected


def test_an_update_that_is_no_multiple_of_the_state_is_left_alone():
    i, j = Axis("i", 3), Axis("j", 16)
    g = NodeBuilder()
    x = g.load("x", i, j)
    r = g.roll("sum", j, x, g.map("square", g.acc()))
    buffers = [Buffer("x", dtypes.float32, (3, 16)), Buffer("y", dtypes.float32, (3,), "output")]
    k = kernels.kernel("odd", g, [(r, "y", (i,))], buffers, {i: Role("grid", 1), j: Role("stream", 4)})
    assert not lost(lower(k))
    assert not lanes(lower(k))
