"""Products whose computed operand may be too large for float16: scaled by powers of two, they are as exact as the type is."""

import dataclasses

import hand_kernels as kernels
import numpy as np
import pytest

from eqfuse.ir import build as b
from eqfuse.ir import dtypes
from eqfuse.ir.index import index
from eqfuse.tiles import scaling
from eqfuse.tiles.direct import NodeBuilder, kernel_from_program
from eqfuse.tiles.kernel import Buffer, Kernel, Role, Root
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


def mantissas():
    """float16 numbers whose exponentials lie just below a power of two."""
    x = np.arange(1, 80, 2.0**-5)
    fraction = np.frexp(np.exp(x))[0]
    return x[np.argsort(fraction)[-16:]]


def near_the_top(rows):
    rows[:] = np.tile(mantissas(), 4)


def one_large_among_small(rows):
    """What is 2**-25 of the largest element counts alone, for the weight of that one is zero."""
    rows[:] = -17.0
    rows[:, 7] = 0.0


def tiny(rows):
    rows[:] = -60.0 + rows


def huge(rows):
    """Up to 3.2e38; the sum of so many overflows, so one of them is all there is."""
    rows[:] = -100.0
    rows[:, 9] = 88.6875


def small_then_large(rows):
    rows[:] = np.sort(rows * 8, axis=1)


def large_then_small(rows):
    rows[:] = np.sort(rows * 8, axis=1)[:, ::-1]


EXPONENTS = [near_the_top, one_large_among_small, tiny, huge, small_then_large, large_then_small]


def exponentials_hold(fill) -> bool:
    """Whether sums of products with exponentials of such exponents are as exact as rounding each operand once."""
    inputs = data()
    fill(inputs["x"])
    inputs["x"] = inputs["x"].astype(np.float16).astype(float)
    if fill is one_large_among_small:
        inputs["w"][7] = 0
    if fill is huge:
        inputs["w"] = np.abs(inputs["w"]) * 2.0**-8
    return bool(error(product(b.exp), inputs, np.exp) <= 2 * HALF)


@pytest.mark.parametrize("fill", EXPONENTS)
def test_exponentials(fill):
    assert exponentials_hold(fill)


def test_an_infinite_element_makes_an_infinite_sum():
    inputs = data()
    inputs["x"][3, 40] = np.inf
    inputs["w"] = np.abs(inputs["w"]) + 1
    found = simulate(lower(product(lambda x: x * 2.0)), inputs, np.float32, rounding=True)["y"]
    assert (found[3] == np.inf).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOP", 15),  # what is just below 2 p overflows
        ("TOP", 4),  # what is small beside p loses digits
        ("LEAST", 2.0**-20),  # small rows vanish
        ("MOST", 2.0**40),  # large ones overflow
        ("moved", lambda self, accumulator: accumulator),
        ("absolute", lambda lowering, block, v, power, hint=None: v),
    ],
)
def test_these_tests_can_fail(monkeypatch, name, value):
    monkeypatch.setattr(scaling.Scale if name == "moved" else scaling, name, value)
    with np.errstate(all="ignore"):
        assert not all(exponentials_hold(fill) for fill in EXPONENTS)


def test_one_accumulator_more():
    (loop,) = (s for s in lower(product(b.square)).statements() if isinstance(s, Loop))
    assert [a.monoid for a in loop.accumulators] == ["sum", "max"]


def test_products_that_share_an_operand_share_its_scale():
    i, j, k = b.axes(i=32, j=32, k=64)
    a = b.square(b.tensor("x", i, k, dtype=dtypes.float16)) * b.tensor("g", k, dtype=dtypes.float16)
    y, z = (b.cast(dtypes.float32, b.sum_over(k, a * b.tensor(n, k, j, dtype=dtypes.float16))) for n in ("w", "v"))
    roles = {i: Role("grid", 16), j: Role("grid", 16), k: Role("stream", 16)}
    kernel = dataclasses.replace(kernel_from_program(b.program("p", y=(y, (i, j)), z=(z, (i, j))), roles), scaled=True)
    tiles = lower(kernel)
    (loop,) = (s for s in tiles.statements() if isinstance(s, Loop))
    assert sorted(a.monoid for a in loop.accumulators) == ["max", "sum", "sum"]
    assert [s.op for s in tiles.statements() if isinstance(s, Let)].count("exp2") == 1
    assert len({s.a.name for s in tiles.statements() if isinstance(s, Dot)}) == 1
    inputs = {**data(scale=100.0), "v": data(seed=1)["w"], "g": np.arange(64.0) - 20}
    found = simulate(tiles, inputs)
    for name, w in (("y", "w"), ("z", "v")):
        np.testing.assert_allclose(found[name], (np.square(inputs["x"]) * inputs["g"]) @ inputs[w], rtol=1e-9, atol=1e-6)


def test_masked_tiles_are_left_out():
    """A tile of zeros changes neither the sum nor the power."""
    i, j, k = b.axes(i=64, j=64, k=64)
    x = b.square(b.tensor("x", i, k, dtype=dtypes.float16))
    masked = b.select(b.le(b.iota(k), b.iota(i)), x, 0.0)
    y = b.cast(dtypes.float32, b.sum_over(k, masked * b.tensor("w", k, j, dtype=dtypes.float16)))
    roles = {i: Role("grid", 16), j: Role("grid", 16), k: Role("stream", 16)}
    kernel = dataclasses.replace(kernel_from_program(b.program("p", y=(y, (i, j))), roles), scaled=True)
    (loop,) = (s for s in lower(kernel).statements() if isinstance(s, Loop))
    assert loop.stops
    rng = np.random.default_rng(0)
    inputs = {n: rng.standard_normal((64, 64)) for n in ("x", "w")}
    np.testing.assert_allclose(simulate(lower(kernel), inputs)["y"], np.tril(np.square(inputs["x"])) @ inputs["w"], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scaled", [False, True])
def test_a_scaled_sum_is_zero_where_the_sum_is(scaled):
    """A roll that divides by it takes nothing from a first tile of zeros."""
    i, j, k = b.axes(i=16, j=16, k=40)
    g = NodeBuilder()
    s = g.reduce("sum", k, g.map("mul", g.map("square", g.load("x", i, k)), g.map("abs", g.load("w", k, j))))
    new, old = g.ref("new", k, s), g.ref("old", k, s)
    t = g.roll("sum", k, g.map("mul", g.load("y", i, k), new), g.map("mul", g.acc(), g.map("mul", new, g.map("recip", old))))
    shapes = {"x": (16, 40), "w": (40, 16), "y": (16, 40)}
    buffers = {n: Buffer(n, dtypes.float16, shape) for n, shape in shapes.items()}
    buffers["out"] = Buffer("out", dtypes.float32, (16, 16), "output")
    roles = {i: Role("grid", 16), j: Role("grid", 16), k: Role("stream", 16)}
    roots = (Root(t, "out", (index(i), index(j))),)
    kernel = Kernel("p", tuple(g.nodes), roots, buffers, roles, (i, j, k), (i, j), scaled=scaled)
    rng = np.random.default_rng(0)
    inputs = {n: rng.standard_normal(shape) for n, shape in shapes.items()}
    inputs["x"][:, :16] = inputs["y"][:, :16] = 0
    expected = inputs["y"].sum(1)[:, None] * (np.square(inputs["x"]) @ np.abs(inputs["w"]))
    assert any(isinstance(st, Dot) and st.scaled for st in lower(kernel).statements()) == scaled
    np.testing.assert_allclose(simulate(lower(kernel), inputs)["out"], expected, rtol=1e-9, atol=1e-9)
