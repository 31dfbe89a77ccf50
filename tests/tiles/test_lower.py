"""Facts about lowering: where loops, guards, masks, casts and contractions are, and where they are not."""

import dataclasses

import hand_kernels as kernels
import numpy as np
import pytest

from eqfuse.errors import PlanError
from eqfuse.ir import build as b
from eqfuse.ir import dtypes, terms
from eqfuse.ir.index import Axis
from eqfuse.ir.reference import evaluate, round_to
from eqfuse.tiles import lower as lowering
from eqfuse.tiles.direct import NodeBuilder, kernel_from_program
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.order import choose_order, order_penalty
from eqfuse.tiles.program import Cast, Count, Dot, IsFirst, Let, Load, Loop, Permute, Reduce, Store, Where
from eqfuse.tiles.simulate import simulate


def statements(program, kind):
    return [s for s in program.statements() if isinstance(s, kind)]


@pytest.mark.parametrize("name", kernels.CASES)
def test_hand_made_kernels_compute_what_they_should(name):
    k, oracle = kernels.CASES[name]()
    data = kernels.inputs(k)
    found = simulate(lower(k), data)
    for buffer, expected in oracle(**data).items():
        np.testing.assert_allclose(found[buffer], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "loops"),
    [
        ("softmax_rows", {0: 2, 1: 0}),  # statistics in one loop, then the output
        ("entropy", {0: 3}),
        ("attention_causal", {0: 3}),
        ("moments", {0: 2}),
        ("moments_by_vector_repair", {0: 3}),  # the prefix of x shares the loop of the roll; the count needs no accumulator
        ("decode_split", {0: 3}),
        ("matmul", {0: 1}),
    ],
)
def test_loops_and_accumulators(name, loops):
    """What additions lose is carried beside the sums (test_conditioning.py) and not counted here."""
    program = lower(kernels.CASES[name]()[0])
    assert {s.level: sum(not a.old.name.startswith("lost") for a in s.accumulators) for s in statements(program, Loop)} == loops


def test_a_kernel_prints_as_its_nodes():
    assert (
        str(kernels.logsumexp()[0])
        == """\
lse: 4 warps, 2 stages
  i of 5: grid:2
  j of 37: stream:8
  grid i; dims i, j
  input x: fp32[5, 37]
  output out: fp32[5]
  %0[i, j] = x[i, j]
  %1[i] = reduce max j (%0)
  %2[i] = ref new j (%1)
  %3[i] = ref old j (%1)
  %4[i] = neg(%2)
  %5[i, j] = add(%0, %4)
  %6[i, j] = exp(%5)
  %7[] = acc
  %8[i] = add(%3, %4)
  %9[i] = exp(%8)
  %10[i] = mul(%7, %9)
  %11[i] = roll sum j (%6, %10)
  %12[i] = log(%11)
  %13[i] = add(%1, %12)
  out[i] = %13"""
    )


def test_values_are_hoisted_out_of_the_loop():
    program = lower(kernels.attention()[0])
    (loop,) = statements(program, Loop)
    before = program.body[: program.body.index(loop)]
    assert [s.access.buffer for s in before if isinstance(s, Load)] == ["q"]
    assert sorted(s.access.buffer for s in loop.body if isinstance(s, Load)) == ["k", "v"]


# -- guards -----------------------------------------------------------------------------------------------------------------


def equality_guards(program):
    return [s for s in statements(program, Let) if s.op == "eq"]


@pytest.mark.parametrize("name", ["logsumexp", "attention", "moments"])
def test_no_guard_on_updates_that_vanish_by_themselves(name):
    program = lower(kernels.CASES[name]()[0])
    safe = [s for s in statements(program, Let) if s.op == "where" and s.dst.name.startswith("where")]
    assert not safe
    assert not statements(program, IsFirst)


def test_an_update_that_is_undefined_at_the_start_is_guarded_by_its_reference():
    program = lower(kernels.normalised_product()[0])
    assert len(equality_guards(program)) == 2  # the old sum of squares in the update, the new one under the root


def test_zeros_first_do_not_poison_the_sum():
    k, oracle = kernels.normalised_product(n=3, length=23, tile=4)
    data = kernels.inputs(k)
    data["x"][:, :9] = 0.0  # two whole tiles and part of a third
    np.testing.assert_allclose(simulate(lower(k), data)["out"], oracle(**data)["out"], rtol=1e-12)


def test_a_maximum_that_cannot_be_infinite_needs_no_guard():
    i, j = b.axes(i=3, j=20)
    g = NodeBuilder()
    x = g.map("tanh", g.load("x", i, j))
    _, s = kernels.online_exponentials(g, j, x)
    buffers = [kernels.Buffer("x", dtypes.float32, (3, 20)), kernels.Buffer("y", dtypes.float32, (3,), "output")]
    k = kernels.kernel("bounded", g, [(s, "y", (i,))], buffers, {i: Role("grid", 1), j: Role("stream", 8)})
    assert not equality_guards(lower(k))


@pytest.mark.parametrize("keys", [16, 53, 64])
def test_fully_masked_tiles_and_rows(keys):
    k, oracle = kernels.attention(queries=40, keys=keys, mask=kernels.later, statistics=True)
    data = kernels.inputs(k)
    found, expected = simulate(lower(k), data), oracle(**data)
    alive = np.arange(40) < keys
    np.testing.assert_allclose(found["o"][:, alive], expected["o"][:, alive], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["lse"], expected["lse"], rtol=1e-12)  # -inf for rows that see nothing
    assert np.isneginf(found["lse"][:, ~alive]).all()


def test_rows_of_minus_infinity():
    k, oracle = kernels.logsumexp()
    data = kernels.inputs(k)
    data["x"][1] = -np.inf
    data["x"][2, :20] = -np.inf
    np.testing.assert_allclose(simulate(lower(k), data)["out"], oracle(**data)["out"], rtol=1e-12)


def test_without_the_safe_reference_masked_tiles_give_nan(monkeypatch):
    monkeypatch.setattr(lowering.guards, "safe_value", lambda facts, node: None)
    k, _ = kernels.attention(queries=40, keys=53, mask=kernels.later)
    assert np.isnan(simulate(lower(k), kernels.inputs(k))["o"]).any()


def test_a_large_offset_loses_no_digits_in_float32():
    k, oracle = kernels.moments(length=999, tile=16)
    data = {"x": kernels.inputs(k)["x"].astype(np.float32) + np.float32(10000)}
    found = simulate(lower(k), data, np.float32)
    np.testing.assert_allclose(found["variance"], oracle(data["x"].astype(np.float64))["variance"], rtol=2e-3)


# -- masks ------------------------------------------------------------------------------------------------------------------


def test_even_axes_have_no_masks():
    program = lower(kernels.matmul(32, 32, 48)[0])
    assert not statements(program, Where)
    assert all(not s.access.valid and not s.access.inside for s in statements(program, Load) + statements(program, Store))


def test_zero_padded_operands_and_sums_are_not_masked_again():
    assert not statements(lower(kernels.matmul()[0]), Where)


def test_without_identities_padded_lanes_are_wrong(monkeypatch):
    monkeypatch.setattr(lowering.Lowering, "masked", lambda self, block, v, bindings, fill: v)
    k, oracle = kernels.softmax_rows()
    data = kernels.inputs(k)
    assert not np.allclose(simulate(lower(k), data)["y"], oracle(**data)["y"])


def test_an_index_that_leaves_its_dimension_has_its_own_mask():
    program = lower(kernels.decode_split(keys=53)[0])
    inside = {s.access.buffer: [(i.low, i.high, i.extent) for i in s.access.inside] for s in statements(program, Load)}
    assert inside == {"q": [], "k": [(False, True, 53)], "v": [(False, True, 53)]}
    assert not any(s.access.inside for s in statements(lower(kernels.decode_split(keys=64)[0]), Load))


def test_a_loop_over_parts_is_masked_for_calls_with_other_numbers_of_them():
    i, j = b.axes(i=4, j=8)
    k = kernel_from_program(b.program("sums", y=(b.sum_over(j, b.tensor("x", i, j)), (i,))), {i: Role("grid", 1), j: Role("stream", 4)})
    for parts, even in ((k, True), (dataclasses.replace(k, splits=((Axis("n", 32), j, Axis("m", 4)),)), False)):
        (loop,) = statements(lower(parts), Loop)
        assert loop.binding.even == even


def test_a_root_without_a_grid_axis_is_stored_once():
    i, j = b.axes(i=4, j=6)
    x = b.tensor("x", i, j)
    p = b.program("two", y=(x * 2.0, (i, j)), r=(b.sum_over(j, b.tensor("z", i, j)), (i,)))
    k = kernel_from_program(p, {i: Role("grid", 1), j: Role("resident", 8)})
    assert [[o.name for o in s.once] for s in statements(lower(k), Store)] == [[], []]
    p = b.program("two", y=(x * 2.0, (i, j)), r=(b.tensor("z", i) + 1.0, (i,)))
    k = kernel_from_program(p, {i: Role("grid", 1), j: Role("grid", 2)})
    assert [[o.name for o in s.once] for s in statements(lower(k), Store)] == [[], ["j"]]


# -- levels and repeated bindings ---------------------------------------------------------------------------------------------


def test_loops_that_would_need_each_other_are_split():
    j, k = b.axes(j=7, k=5)
    x, y = b.tensor("x", j), b.tensor("y", k)
    a, c = b.sum_over(j, x), b.sum_over(k, y)
    p = b.program("cycle", u=(b.sum_over(k, b.tanh(y * a)), ()), v=(b.sum_over(j, b.tanh(x * c)), ()))
    made = kernel_from_program(p, {j: Role("stream", 2), k: Role("stream", 2)})
    program = lower(made)
    assert program.split
    data = {"x": np.linspace(-1, 1, 7), "y": np.linspace(0, 1, 5)}
    for name, expected in evaluate(p, data).items():
        np.testing.assert_allclose(simulate(program, data)[name], expected, atol=1e-12)


def test_an_axis_may_be_bound_twice_in_one_nest():
    """x is streamed for the output and streamed again inside, for a reduction over the same axis."""
    i, k = b.axes(i=5, k=3)
    x = b.tensor("x", i)
    w = b.tensor("w", i, k)
    p = b.program("twice", y=(x * b.sum_over(i, x * x), (i,)), z=(b.sum_over(k, w * b.sum_over(i, w)), (i,)))
    made = kernel_from_program(p, {i: Role("stream", 2), k: Role("stream", 2)})
    data = {"x": np.arange(5.0), "w": np.arange(15.0).reshape(5, 3)}
    for name, expected in evaluate(p, data).items():
        np.testing.assert_allclose(simulate(lower(made), data)[name], expected)


def test_a_sum_over_an_axis_that_the_value_does_not_have_is_a_multiple():
    i, j = b.axes(i=3, j=7)
    p = b.program("repeat", y=(b.sum_over(j, b.tensor("x", i)), (i,)))
    program = lower(kernel_from_program(p, {i: Role("grid", 1), j: Role("stream", 2)}))
    assert not statements(program, Loop)
    np.testing.assert_allclose(simulate(program, {"x": np.arange(3.0)})["y"], 7 * np.arange(3.0))


def test_a_prefix_count_is_read_off_the_loop():
    program = lower(kernels.moments()[0])
    assert [s.which for s in statements(program, Count)] == ["old"]


# -- contractions -----------------------------------------------------------------------------------------------------------


def dots_of(k, **options):
    return [(s.a.dtype.name, s.b.dtype.name, s.precision) for s in statements(lower(k, **options), Dot)]


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (dtypes.float32, ("float32", "float32", "ieee")),
        (dtypes.float16, ("float16", "float16", "")),
        (dtypes.bfloat16, ("bfloat16", "bfloat16", "")),
    ],
)
def test_operand_types(dtype, expected):
    assert dots_of(kernels.attention(dtype=dtype)[0]) == [expected, expected]  # weights are at most 1: x minus its maximum


def product_kernel(f, dtype):
    i, j, k = b.axes(i=32, j=32, k=32)
    y = b.sum_over(k, f(b.tensor("x", i, k, dtype=dtype)) * b.tensor("w", k, j, dtype=dtype))
    roles = {i: Role("grid", 16), j: Role("grid", 16), k: Role("stream", 16)}
    return kernel_from_program(b.program("p", y=(y, (i, j))), roles)


@pytest.mark.parametrize(
    ("f", "dtype", "expected"),
    [
        (b.tanh, dtypes.float16, ("float16", "float16", "")),
        (lambda x: x * 0.5, dtypes.float16, ("float16", "float16", "")),
        (lambda x: x * 2.0, dtypes.float16, ("float32", "float32", "tf32")),
        (b.square, dtypes.float16, ("float32", "float32", "tf32")),
        (b.exp, dtypes.float16, ("float32", "float32", "tf32")),
        (b.square, dtypes.bfloat16, ("bfloat16", "bfloat16", "")),
        (b.square, dtypes.float32, ("float32", "float32", "ieee")),
        (lambda x: b.cast(dtypes.float16, b.square(x)), dtypes.float16, ("float16", "float16", "")),  # the program says so
    ],
)
def test_computed_operands_that_may_overflow_stay_wide(f, dtype, expected):
    assert dots_of(product_kernel(f, dtype)) == [expected]


def test_padded_lanes_of_a_contraction_are_zero_on_both_sides():
    """1/0 on padded lanes of one operand times the zeros of the other would be NaN."""
    k = product_kernel_with(b.recip, length=20)
    data = kernels.inputs(k)
    expected = data["x"] @ (1 / data["w"])
    np.testing.assert_allclose(simulate(lower(k), data)["y"], expected, rtol=1e-10)


def product_kernel_with(g, length):
    i, j, k = b.axes(i=16, j=16, k=length)
    y = b.sum_over(k, b.tensor("x", i, k) * g(b.tensor("w", k, j)))
    roles = {i: Role("grid", 16), j: Role("grid", 16), k: Role("stream", 16)}
    return kernel_from_program(b.program("p", y=(y, (i, j))), roles)


def test_short_contractions_are_products_and_sums():
    assert dots_of(kernels.matmul(tiles=(16, 16, 8))[0]) == []
    assert len(dots_of(kernels.matmul(tiles=(16, 16, 8))[0], min_dot_k=8)) == 1


def test_order_search_avoids_permutes_and_computed_b_operands():
    k, _ = kernels.attention(tiles=(32, 16))
    worst = dataclasses.replace(k, order=k.order[::-1])
    assert order_penalty(lower(worst)) > order_penalty(lower(choose_order(worst)))
    best = lower(choose_order(worst))
    assert not statements(best, Permute)
    assert all(s.src.dims[-1] == s.dim for s in statements(best, Reduce))


def test_packed_axes_are_one_dim():
    program = lower(kernels.grouped_queries()[0])
    assert {d.name: d.size for d in program.dims} == {"g_i": 16, "j": 16, "d": 16, "e": 16}
    assert len(statements(program, Dot)) == 2


# -- illegal kernels --------------------------------------------------------------------------------------------------------


def test_illegal_roles_are_refused():
    i, j = b.axes(i=4, j=8)
    p = b.program("rows", y=(b.sum_over(j, b.tensor("x", i, j)), (i,)))
    with pytest.raises(PlanError, match="j is reduced"):
        lower(kernel_from_program(p, {i: Role("grid", 1), j: Role("grid", 8)}))
    with pytest.raises(PlanError, match="tile 4 is smaller"):
        lower(kernel_from_program(p, {i: Role("grid", 1), j: Role("resident", 4)}))
    k, _ = kernels.logsumexp(length=16)
    resident = {a: Role("resident", 16) if a.name == "j" else r for a, r in k.roles.items()}
    with pytest.raises(PlanError, match="rolling reduction over j"):
        lower(dataclasses.replace(k, roles=resident))


def test_a_tile_program_prints():
    text = str(lower(kernels.attention()[0]))
    assert "for j/16 (level 0) carrying" in text
    assert "k[h, j, d] where j ok" in text


@pytest.mark.parametrize(("to", "rounds"), [(dtypes.float16, False), (dtypes.bfloat16, True)])
def test_what_was_widened_is_as_it_was(to, rounds):
    """float16 -> float32 -> float16 is nothing at all, and leaves no code; bfloat16 is another type."""
    i, j = b.axes(i=4, j=16)
    x = b.tensor("x", i, j, dtype=dtypes.float16)
    y = b.cast(to, b.cast(dtypes.float32, x))
    k = kernel_from_program(b.program("p", y=(y, (i, j))), {i: Role("grid", 1), j: Role("resident", 16)})
    assert [s.dst.dtype for s in lower(k).statements() if isinstance(s, Cast)] == ([dtypes.float32, to] if rounds else [])
    data = {"x": np.random.default_rng(0).standard_normal((4, 16)).astype(np.float16).astype(float)}
    found = simulate(lower(k), data, np.float32, rounding=True)["y"]
    np.testing.assert_array_equal(found, round_to(data["x"], to.name))


def test_what_a_loop_ends_with_is_converted_after_it():
    """An operator that works in another type than a sum has converts it where it is read: inside of the loop is the sum so far."""
    (i,) = b.axes(i=12)
    total = terms.Reduce("isum", i, b.tensor("x", i, dtype=dtypes.int32))
    one, zero = terms.as_term(1.0), terms.as_term(0.0)
    parts = {
        "wide": terms.Map("bitand", (total, terms.as_term(2654435761.0))),
        "float": b.exp(total * 1e-2),
        "truth": terms.Map("where", (total, one, zero)),
    }
    data = {"x": np.arange(12) - 3}
    for name, term in parts.items():
        made = lower(kernel_from_program(b.program("p", **{name: (term, ())}), {i: Role("stream", 1)}))
        np.testing.assert_allclose(simulate(made, data)[name], evaluate(b.program("p", **{name: (term, ())}), data)[name], rtol=1e-6)
