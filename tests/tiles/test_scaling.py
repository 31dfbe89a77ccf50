"""Products whose computed operand may be too large for float16: scaled by powers of two, they are as exact as the type is."""

import dataclasses

import hand_kernels as kernels
import numpy as np
import pytest

from eqfuse.ir import build as b
from eqfuse.ir import dtypes
from eqfuse.tiles import scaling
from eqfuse.tiles.direct import kernel_from_program
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.program import Dot, Let, Loop
from eqfuse.tiles.simulate import simulate

HALF = 2.0**-11  # what rounding to float16 may change, relative


def product(f, g=lambda w: w, *, length=64, k_role=None, inner=None, scaled=True, dtype=dtypes.float16):
    """out[i, j] = sum_k f(x[i, k]) * g(w[k, j]), its inputs in float16."""
    i, j, k = b.axes(i=32, j=32, k=length)
    y = b.cast(dtypes.float32, b.sum_over(k, f(b.tensor("x", i, k, dtype=dtype)) * g(b.tensor("w", k, j, dtype=dtype))))
    roles = {i: Role("grid", 16), j: Role("grid", 16), k: k_role or Role("stream", 16)}
    return dataclasses.replace(kernel_from_program(b.program("p", y=(y, (i, j))), roles), scaled=scaled)


def dots(kernel):
    return [(s.a.dtype.name, s.precision) for s in lower(kernel).statements() if isinstance(s, Dot)]


def data(length=64, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((32, length)) * scale, rng.standard_normal((length, 32))
    return {"x": x.astype(np.float16).astype(float), "w": w.astype(np.float16).astype(float)}


def error(kernel, inputs, f, g=lambda w: w):
    """The largest error of an element over sum_k |f(x) g(w)|, in float32 with operands rounded to float16."""
    a, c = f(inputs["x"]), g(inputs["w"])
    found = simulate(lower(kernel), inputs, np.float32, rounding=True)["y"]
    return (np.abs(found - a @ c) / (np.abs(a) @ np.abs(c) + 1e-300)).max()


SIDES = [(b.square, lambda x: x, np.square, lambda w: w), (lambda x: x, b.square, lambda x: x, np.square)]


@pytest.mark.parametrize(("f", "g", "nf", "ng"), SIDES, ids=["rows", "columns"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 300.0, 6e4])
@pytest.mark.parametrize("role", [Role("stream", 16), Role("resident", 64)], ids=str)
def test_nothing_overflows_and_nothing_vanishes(f, g, nf, ng, scale, role):
    k = product(f, g, k_role=role)
    assert dots(k) == [("float16", "")]
    inputs = data()
    wide = "x" if nf is np.square else "w"
    inputs[wide] = np.clip(inputs[wide] * scale, -65504, 65504).astype(np.float16).astype(float)
    assert error(k, inputs, nf, ng) <= HALF
    if scale > 300:  # which is what the scales are for
        plain = simulate(lower(product(f, g, k_role=role, scaled=False)), inputs, np.float32, rounding=True)["y"]
        assert np.isfinite(plain).all()
        with np.errstate(over="ignore"):
            assert np.isinf(np.float16(np.square(inputs[wide]))).any()


@pytest.mark.parametrize("direction", [1, -1], ids=["rising", "falling"])
def test_rows_that_rise_and_fall_over_many_orders(direction):
    """exp(x) from 2**-115 to 2**115: the accumulator moves in every step, or never again."""
    k = product(b.exp)
    inputs = data()
    inputs["x"] = np.broadcast_to(np.linspace(-80, 80, 64)[::direction], (32, 64)).astype(np.float16).astype(float)
    assert dots(k) == [("float16", "")]
    assert error(k, inputs, np.exp) <= 2 * HALF


def test_small_rows_beside_large_ones():
    """Each row has a power of its own; rows of zeros have none."""
    k = product(b.square)
    inputs = data()
    inputs["x"] *= np.where(np.arange(32) % 2, 200.0, 2.0**-8)[:, None]
    inputs["x"] = inputs["x"].astype(np.float16).astype(float)
    inputs["x"][5] = 0
    inputs["x"][6, :48] = 0
    a = np.square(inputs["x"])
    found = simulate(lower(k), inputs, np.float32, rounding=True)["y"]
    assert np.array_equal(found[5], np.zeros(32))
    for row in range(32):
        bound = HALF * (a[row] @ np.abs(inputs["w"]))
        assert (np.abs(found[row] - a[row] @ inputs["w"]) <= bound).all(), row


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("at", [0, 40, 63])
def test_what_is_not_finite_stays_in_its_row(bad, at):
    k = product(lambda x: x * 2.0)
    inputs = data()
    inputs["x"][3, at] = bad
    found = simulate(lower(k), inputs, np.float32, rounding=True)["y"]
    assert not np.isfinite(found[3]).any()
    assert np.isfinite(np.delete(found, 3, 0)).all()


def test_padded_lanes_and_odd_lengths():
    k = product(b.square, length=53)
    inputs = {"x": data(53, 100.0)["x"], "w": data(53)["w"]}
    assert error(k, inputs, np.square) <= HALF


def test_where_both_operands_are_too_large_the_unit_runs_in_tf32():
    assert dots(product(b.square, b.square)) == [("float32", "tf32")]


@pytest.mark.parametrize(
    ("f", "dtype", "expected"), [(b.tanh, dtypes.float16, ("float16", "")), (b.square, dtypes.bfloat16, ("bfloat16", ""))]
)
def test_what_fits_is_not_scaled(f, dtype, expected):
    k = product(f, dtype=dtype)
    assert dots(k) == [expected]
    assert not any(isinstance(s, Let) and s.op == "exp2" for s in lower(k).statements())


def test_without_the_decision_products_are_wide():
    assert dots(product(b.square, scaled=False)) == [("float32", "tf32")]


def test_powers_are_exact():
    """What scales is a power of two: data whose products float16 holds come out to the bit."""
    k = product(lambda x: x * 3.0)
    rng = np.random.default_rng(0)
    inputs = {n: rng.integers(-8, 9, s).astype(float) for n, s in (("x", (32, 64)), ("w", (64, 32)))}
    inputs["x"][:, :16] *= 2.0**-6  # small tiles first
    found = simulate(lower(k), inputs, np.float32, rounding=True)["y"]
    assert np.array_equal(found, (3 * inputs["x"]) @ inputs["w"])


def test_the_sum_of_a_mean_is_scaled_too():
    i, j, k = b.axes(i=32, j=32, k=64)
    squares = b.square(b.tensor("x", i, k, dtype=dtypes.float16))
    y = b.cast(dtypes.float32, b.mean_over(k, squares * b.tensor("w", k, j, dtype=dtypes.float16)))
    roles = {i: Role("grid", 16), j: Role("grid", 16), k: Role("stream", 16)}
    kernel = dataclasses.replace(kernel_from_program(b.program("p", y=(y, (i, j))), roles), scaled=True)
    assert dots(kernel) == [("float16", "")]
    inputs = data(scale=100.0)
    a = np.square(inputs["x"])
    found = simulate(lower(kernel), inputs, np.float32, rounding=True)["y"]
    assert (np.abs(found - a @ inputs["w"] / 64) <= HALF * (a @ np.abs(inputs["w"])) / 64).all()


def test_a_state_that_rolls_stays_wide():
    """The update of a roll is its own: its products are not scaled."""
    k, _ = kernels.attention(dtype=dtypes.float16)
    scaled = dataclasses.replace(k, scaled=True)
    assert [s for s in lower(scaled).statements() if isinstance(s, Dot)] == [s for s in lower(k).statements() if isinstance(s, Dot)]


@pytest.mark.parametrize("fault", ["moved", "power", "undone"])
def test_these_tests_can_fail(monkeypatch, fault):
    """A step left out of the scheme is off by orders of magnitude."""
    if fault == "moved":
        monkeypatch.setattr(scaling.Scale, "moved", lambda self, accumulator: accumulator)
    elif fault == "power":  # a power for each tile, not one that only grows
        monkeypatch.setattr(scaling, "LEAST", 2.0**-1)
        monkeypatch.setattr(scaling, "TOP", 0)
        monkeypatch.setattr(scaling, "MOST", 2.0**-1)
    else:
        monkeypatch.setattr(scaling, "unscaled", lambda lowering, block, v, power, hint=None: v)
    inputs = data(scale=100.0)
    inputs["x"] *= np.linspace(0.01, 1, 64)
    found = simulate(lower(product(b.square)), inputs, np.float32, rounding=True)["y"]
    a = np.square(inputs["x"])
    with np.errstate(invalid="ignore"):
        assert not (np.abs(found - a @ inputs["w"]) <= HALF * (a @ np.abs(inputs["w"]))).all()


def test_one_accumulator_more():
    (loop,) = (s for s in lower(product(b.square)).statements() if isinstance(s, Loop))
    assert [a.monoid for a in loop.accumulators] == ["sum", "max"]
