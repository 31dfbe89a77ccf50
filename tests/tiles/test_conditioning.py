"""Forms that keep digits: sums that carry what they lose, and differences before products below exponentials."""

from dataclasses import replace

import hand_kernels as kernels
import numpy as np
import pytest

from eqfuse.ir import build as b
from eqfuse.ir import dtypes
from eqfuse.ir.index import Axis
from eqfuse.tiles import compensation
from eqfuse.tiles.direct import NodeBuilder, kernel_from_program
from eqfuse.tiles.kernel import Buffer, Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.program import Let, Loop, Mean, Reduce, Rest
from eqfuse.tiles.simulate import simulate

C = 0.12751743082459868


def lost(program):
    return [a.old.name for s in program.statements() if isinstance(s, Loop) for a in s.accumulators if a.old.name.startswith("lost")]


# sums ---------------------------------------------------------------------------------------------------------------------------------


def summed(length=4096, tile=2, dtype=dtypes.float32):
    i, j = b.axes(i=3, j=length)
    x = b.tensor("x", i, j, dtype=dtype)
    return kernel_from_program(b.program("sums", y=(b.sum_over(j, x), (i,))), {i: Role("grid", 1), j: Role("stream", tile)})


def error(k, x):
    exact = x.astype(np.float64).sum(1)
    return float(np.max(np.abs(simulate(lower(k), {"x": x}, np.float32)["y"] - exact) / exact))


def test_a_sum_does_not_lose_digits_with_the_number_of_steps(monkeypatch):
    x = np.random.default_rng(0).random((3, 4096), np.float32) + 1
    kept = error(summed(), x)
    monkeypatch.setattr(compensation, "worthwhile", lambda lowering: False)
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
    monkeypatch.setattr(compensation, "worthwhile", lambda lowering: False)
    assert kept < off()


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


def averaged(exact=False, rows=64):
    i, j = b.axes(i=rows, j=4098)
    p = b.program("means", y=(b.mean_over(j, b.tensor("x", i, j)), (i,)))
    return replace(kernel_from_program(p, {i: Role("grid", 64), j: Role("stream", 2)}), exact=exact)


def test_a_final_mean_takes_what_its_sum_lost_and_is_rounded_once():
    """On a grid on which the sum of a tile is exact, the mean is the nearest float32 number; the quotient of the sum alone is not."""
    x = (np.random.default_rng(1).integers(1 << 20, 1 << 22, (64, 4098)) / 2.0**20).astype(np.float32)
    exact = x.astype(np.float64).mean(1).astype(np.float32)
    np.testing.assert_array_equal(simulate(lower(averaged()), {"x": x}, np.float32)["y"], exact)
    by_itself = simulate(lower(averaged(exact=True)), {"x": x}, np.float32)["y"]
    assert 0.1 < np.mean(by_itself != exact) < 0.9
    assert next(s for s in lower(averaged()).statements() if isinstance(s, Mean)).lost is not None
    assert "/ seen(j, final)" in str(lower(averaged()))


@pytest.mark.parametrize(("value", "expected"), [(np.inf, np.inf), (-np.inf, -np.inf), (np.nan, np.nan), (3e38, np.inf), (1e-45, 0.0)])
def test_a_mean_that_is_not_finite_stays_what_it_is(value, expected):
    x = np.zeros((3, 4098), np.float32)
    x[:, 5:9] = value
    np.testing.assert_array_equal(simulate(lower(averaged(rows=3)), {"x": x}, np.float32)["y"], expected)


def moments(length, role, correction=0.0, rows=64):
    """Mean and variance of rows, both stored; the variance times 1 + correction."""
    i, j = b.axes(i=rows, j=length)
    x = b.tensor("x", i, j)
    m = b.mean_over(j, x)
    v = b.mean_over(j, (x - m) * (x - m))
    v = v + v * correction if correction else v
    return kernel_from_program(b.program("moments", m=(m, (i,)), v=(v, (i,))), {i: Role("grid", 64), j: role})


@pytest.mark.parametrize("correction", [0.0, 1 / 299])
@pytest.mark.parametrize(
    ("length", "role"),
    [(256, Role("resident", 256)), (300, Role("resident", 512)), (301, Role("resident", 512)), (3000, Role("stream", 512))],
    ids=["full", "padded", "odd", "loop"],
)
def test_moments_that_are_stored_are_rounded_once(length, role, correction, monkeypatch):
    """The last additions of a tile are rounded at the size of the whole, unless what they lose is added up by itself.

    A loop needs the variance by repair to see this in one pass; here it is the mean that is streamed.
    """
    x = (np.random.default_rng(2).standard_normal((1024, length)) + 1000).astype(np.float32)
    wide = x.astype(np.float64)
    exact = {"m": wide.mean(1), "v": wide.var(1) * (1 + correction)}

    def off():
        """Root mean square, in distances of neighbouring float32 numbers; the nearest numbers have 1 / sqrt(12) = 0.29."""
        found = simulate(lower(moments(length, role, correction, rows=1024)), {"x": x}, np.float32)
        ulps = {k: (found[k] - exact[k]) / np.spacing(exact[k].astype(np.float32)) for k in exact}
        return {k: float(np.sqrt(np.mean(v**2))) for k, v in ulps.items()}

    kept = off()
    assert max(kept.values()) < 0.34
    monkeypatch.setattr(compensation, "stored_means", lambda lowering: frozenset())
    assert all(found > 1.08 * kept[k] for k, found in off().items())


@pytest.mark.parametrize(("value", "expected"), [(np.inf, np.inf), (-np.inf, -np.inf), (np.nan, np.nan), (3e38, np.inf), (1e-45, 0.0)])
def test_a_resident_mean_that_is_not_finite_stays_what_it_is(value, expected):
    i, j = b.axes(i=3, j=1000)
    p = b.program("means", y=(b.mean_over(j, b.tensor("x", i, j)), (i,)))
    program = lower(kernel_from_program(p, {i: Role("grid", 1), j: Role("resident", 1024)}))
    assert any(isinstance(s, Rest) for s in program.statements())
    x = np.zeros((3, 1000), np.float32)
    x[:, 5:9] = value
    np.testing.assert_array_equal(simulate(program, {"x": x}, np.float32)["y"], expected)


def test_only_means_that_are_stored_take_the_trouble():
    """Of what is computed from a mean, nobody sees its last digit: there is no second sum over the tile."""
    i, j = b.axes(i=64, j=300)
    x = b.tensor("x", i, j)
    p = b.program("centred", y=(x - b.mean_over(j, x), (i, j)))
    roles = {i: Role("grid", 1), j: Role("resident", 512)}
    assert not any(isinstance(s, Rest) for s in lower(kernel_from_program(p, roles)).statements())
    narrow = b.program("means", y=(b.cast(dtypes.float16, b.mean_over(j, x)), (i,)))
    assert not any(isinstance(s, Rest) for s in lower(kernel_from_program(narrow, roles)).statements())
    exact = replace(moments(300, Role("resident", 512)), exact=True)
    assert not any(isinstance(s, Rest) for s in lower(exact).statements())


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


def test_a_mean_times_nearly_one_replaces_the_mean():
    program = lower(moments(300, Role("resident", 512), 1 / 299))
    assert [m.excess for m in program.statements() if isinstance(m, Mean)] == [0.0, 1 / 299]
    assert "* (1 + 0.00334448" in str(program)
    far = lower(moments(300, Role("resident", 512), 2.0))  # 2 m would be rounded coarser than m is
    assert all(m.excess == 0 for m in far.statements() if isinstance(m, Mean))


def test_small_terms_of_an_update_meet_before_they_meet_the_tile():
    """The variance of data around 1000: what the changing mean adds is small beside a tile, and costs it no rounding of its own."""
    program = lower(kernels.CASES["moments"]()[0])
    lets = {s.dst.name: s for s in program.statements() if isinstance(s, Let)}
    tiles = {s.dst.name for s in program.statements() if isinstance(s, Reduce)}
    for a in (a for s in program.statements() if isinstance(s, Loop) for a in s.accumulators if not a.old.name.startswith("lost")):
        _, small = lets[a.new.name].args
        assert len(tiles & {x.name for x in lets[small.name].args}) == 1, a.new.name


def test_rolling_sums_carry_it_through_their_updates():
    for name, count in (("softmax_rows", 1), ("attention", 1), ("moments", 2), ("moments_by_vector_repair", 3), ("entropy", 2)):
        assert len(lost(lower(kernels.CASES[name]()[0]))) == count, name  # of attention, the sum that is no contraction


def test_contractions_do_not():
    assert not lost(lower(kernels.matmul()[0]))


@pytest.mark.parametrize(("dtype", "count"), [(dtypes.float16, 0), (dtypes.bfloat16, 0), (dtypes.float32, 1)])
def test_nor_sums_beside_contractions_in_16_bits(dtype, count):
    """Beside a product of 16-bit operands the sum of the weights has digits to spare; without one it has not."""
    k, _ = kernels.attention()
    narrow = {n: replace(buffer, dtype=dtype) for n, buffer in k.buffers.items()}
    assert len(lost(lower(replace(k, buffers=narrow)))) == count
    assert len(lost(lower(summed(dtype=dtype)))) == 1


def test_an_update_that_is_no_multiple_of_the_state_is_left_alone():
    i, j = Axis("i", 3), Axis("j", 16)
    g = NodeBuilder()
    x = g.load("x", i, j)
    r = g.roll("sum", j, x, g.map("square", g.acc()))
    buffers = [Buffer("x", dtypes.float32, (3, 16)), Buffer("y", dtypes.float32, (3,), "output")]
    k = kernels.kernel("odd", g, [(r, "y", (i,))], buffers, {i: Role("grid", 1), j: Role("stream", 4)})
    assert not lost(lower(k))


# exponentials -------------------------------------------------------------------------------------------------------------------------


def weights(dtype=dtypes.float32, op="exp2", negate=False, hide=False, wide=False):
    """o(C * x - C * m), m a row of its own; ``hide``: m is selected, as references that may be infinite are; ``wide``: in float32."""
    i, j = Axis("i", 4), Axis("j", 8)
    g = NodeBuilder()
    x, m, c = g.load("x", i, j), g.load("m", i), g.const(C)
    if wide:
        x, m = g.cast(dtypes.float32, x), g.cast(dtypes.float32, m)
    late = g.map("mul", c, m)
    if hide:
        late = g.map("where", g.map("eq", late, g.const(-np.inf)), g.const(0.0), late)
    if negate:  # o(-(C * m - C * x))
        y = g.map(op, g.map("neg", g.map("add", late, g.map("neg", g.map("mul", x, c)))))
    else:
        y = g.map(op, g.map("add", g.map("mul", x, c), g.map("neg", late)))
    buffers = [Buffer("x", dtype, (4, 8)), Buffer("m", dtype, (4,)), Buffer("y", dtypes.float32, (4, 8), "output")]
    return kernels.kernel("weights", g, [(y, "y", (i, j))], buffers, {i: Role("grid", 1), j: Role("resident", 8)})


def products_before_differences(k):
    """Sums one of whose terms is a product: what prints as a fused multiply-add."""
    lets = {s.dst.name: s for s in lower(k).statements() if isinstance(s, Let)}
    lone = [s for s in lets.values() if s.op == "add"]
    seen = [lets[a.name] for s in lone for a in s.args if getattr(a, "name", None) in lets]
    seen += [lets[a.name] for s in seen if s.op == "neg" for a in s.args if getattr(a, "name", None) in lets]
    return [s for s in seen if s.op == "mul"]


@pytest.mark.parametrize("options", [{}, {"op": "exp"}, {"negate": True}, {"hide": True}])
def test_differences_come_before_products(options):
    k = weights(**options)
    assert not products_before_differences(k)
    m = np.array([1e-3, 1.0, 1e4, 1e12], np.float32)
    x = (m[:, None] * (1 - np.arange(8) * 2.0**-23)).astype(np.float32)
    found = simulate(lower(k), {"x": x, "m": m}, np.float32)["y"]
    exact = {"exp": np.exp, "exp2": np.exp2}[options.get("op", "exp2")]((x.astype(np.float64) - m[:, None].astype(np.float64)) * C)
    np.testing.assert_allclose(found, exact, rtol=1e-6)
    assert (found[:, 0] == 1).all()


def test_infinite_references_are_as_before():
    m = np.array([-np.inf, np.inf, 0.0, np.nan], np.float32)
    x = np.array([[-np.inf, 0.0, 1.0, -1.0, np.inf, np.nan, 2.0, 3.0]] * 4, np.float32)
    with np.errstate(all="ignore"):
        late = np.where(np.float32(C) * m == -np.inf, 0, np.float32(C) * m)
        expected = np.exp2(x * np.float32(C) - late[:, None])
    np.testing.assert_allclose(simulate(lower(weights(hide=True)), {"x": x, "m": m}, np.float32)["y"], expected, rtol=1e-6)


def test_only_below_exponentials():
    """3e38 * C - (-3e38) * C is finite, and the difference of the two is not."""
    k = weights(op="abs")
    assert products_before_differences(k)
    data = {"x": np.full((4, 8), 3e38, np.float32), "m": np.full(4, -3e38, np.float32)}
    assert np.isfinite(simulate(lower(k), data, np.float32)["y"]).all()


def test_not_where_the_program_keeps_float16_or_asks_for_its_own_bits():
    assert products_before_differences(weights(dtypes.float16))
    assert not products_before_differences(weights(dtypes.float16, wide=True))  # its scores are float32
    assert not products_before_differences(weights(dtypes.bfloat16))
    assert products_before_differences(replace(weights(), exact=True))
