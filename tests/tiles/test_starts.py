"""Accumulators that start from a value: what is added to a sum, or combined with another reduction in its own way, is where its loop begins."""

import random
from dataclasses import replace

import hand_kernels as kernels
import numpy as np
import pytest

from eqfuse.errors import SpecError
from eqfuse.ir import build as b
from eqfuse.ir import dtypes
from eqfuse.ir.index import Axis
from eqfuse.ir.reference import evaluate
from eqfuse.testing.fuzz.lowering import relative_error
from eqfuse.tiles.direct import NodeBuilder, kernel_from_program
from eqfuse.tiles.finish import finish, starts
from eqfuse.tiles.kernel import Buffer, Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.program import Let, Loop
from eqfuse.tiles.simulate import simulate
from eqfuse.tiles.walk import walk

I, J, K, L, M = b.axes(i=20, j=18, k=37, l=5, m=24)


def tensor(name, *axes, dtype=dtypes.float16):
    return b.tensor(name, *axes, dtype=dtype)


def product(name, k):
    """sum_k x[i, k] w[k, j]."""
    return b.sum_over(k, tensor(f"x{name}", I, k) * tensor(f"w{name}", k, J))


def largest(name, k):
    return b.maximum_over(k, tensor(f"x{name}", I, k) + tensor(f"w{name}", k, J))


def kernel(*values, stored=True, **roles):
    """Of values each of which the program stores in 16 bits, as torch does with tensors of float16, or only the last one."""
    p = b.program("k", **{f"o{n}": (v, (I, J)) for n, v in enumerate(values)})
    of = {"i": Role("grid", 16), "j": Role("grid", 16), "k": Role("stream", 16), "l": Role("stream", 1), "m": Role("stream", 16), **roles}
    axes = {a for t in p.inputs for a in t.layout}
    made = kernel_from_program(p, {a: of[a.name] for a in sorted(axes)})
    return p, in_16_bits(made) if stored else made


def in_16_bits(k):
    """The kernel of a program that keeps every value in the type of its result."""
    kept = dtypes.float16 if k.buffers["o0"].dtype == dtypes.float16 else None
    return replace(k, nodes=tuple(replace(n, stored=kept if n.op == "map" else None) for n in k.nodes))


def counted(program):
    """How many accumulators begin with an identity, how many with a value, and what is combined outside of loops."""
    states = [a for s in program.statements() if isinstance(s, Loop) for a in s.accumulators]
    begun = sum(a.start is not None for a in states)
    return len(states) - begun, begun, sum(isinstance(s, Let) and s.op in ("add", "maximum") for s in program.body)


A, B, C = product("a", K), product("b", M), product("c", K)  # two over one axis, one over another
R = tensor("r", I, J)
BIAS = tensor("v", J)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([A + B], (1, 1, 0)),
        ([B + A + product("d", L)], (1, 2, 0)),  # three loops
        ([A + C], (1, 0, 0)),  # one loop: one accumulator, to which each step adds twice
        ([A + C + B], (1, 1, 0)),
        ([A - B], (1, 1, 0)),  # from the negation
        ([(A + BIAS) + B], (1, 1, 1)),  # a row is broadcast by the addition
        ([A + R], (1, 0, 1)),  # is loaded after the loop, and takes no registers from it
        ([A + B, A], (1, 1, 0)),  # the one that is stored, too, is not begun
        ([A + B, A, B], (2, 0, 1)),
        ([A + A], (1, 0, 1)),
        ([A * 2.0 + B], (1, 1, 0)),
        ([b.maximum(A, B)], (2, 0, 1)),  # sums are no maxima
        ([b.maximum(largest("d", L), A)], (1, 1, 0)),
        ([b.maximum(largest("d", L), largest("e", L))], (1, 0, 0)),
        ([largest("d", L) + largest("e", L)], (2, 0, 1)),
    ],
)
def test_what_a_state_starts_from(values, found):
    p, k = kernel(*values)
    assert counted(lower(k)) == found
    rng = np.random.default_rng(0)
    data = {t.name: rng.normal(size=[a.size for a in t.layout]) for t in p.inputs}
    got = simulate(finish(lower(k)), data)
    assert all(relative_error(got[n], v) < 1e-12 for n, v in evaluate(p, data).items())


def test_two_loops_hold_one_tile_of_sums():
    one, two = walk(lower(kernel(B + A)[1])), walk(lower(replace(kernel(B + A)[1], exact=True)))
    assert (one.accumulator_bytes, two.accumulator_bytes) == (16 * 16 * 4, 2 * 16 * 16 * 4)
    assert two.live_bytes - one.live_bytes >= 16 * 16 * 4


def test_operands_of_one_loop_make_room_for_those_of_the_next():
    wide, both = walk(lower(kernel(A)[1])), walk(lower(kernel(A + B)[1]))
    assert both.dot_operand_bytes == wide.dot_operand_bytes


@pytest.mark.parametrize("how", ["exact", "stepwise"])
def test_sums_stay_in_the_order_of_the_program_where_that_is_promised(how):
    assert counted(lower(replace(kernel(A + B)[1], **{how: True}))) == (2, 0, 1)


@pytest.mark.parametrize("k", [K, M])
def test_digits_that_are_stored_are_not_lost_to_a_value_of_another_size(k):
    """Each step of a product is rounded at the size of its state, and carries nothing."""
    first, second = (b.sum_over(a, b.tensor(f"x{n}", I, a) * b.tensor(f"w{n}", a, J)) for n, a in enumerate((K, k)))
    assert counted(lower(kernel(first + second)[1])) == (2, 0, 1)


def test_what_is_large_may_be_subtracted_again():
    """The steps of one product are each nothing beside 16384, which is the other one; together they are what is left."""
    both = kernel(B + A, stored=False)[1]
    assert counted(lower(both)) == (1, 1, 0)  # rounded to 16 bits at once
    p, made = kernel(B + A - R, stored=False)
    data = {t.name: np.zeros([a.size for a in t.layout], np.float16) for t in p.inputs}
    data["xa"] += 2.0**-8
    data["wa"] += 0.9 * 2.0**-6
    data["xb"][:, 0], data["wb"][0], data["r"][:] = 128, 128, 16384
    expected = evaluate(p, data)["o0"]
    for k, close in ((made, True), (in_16_bits(made), False)):  # where the program itself would round them away
        assert (relative_error(simulate(lower(k), data, np.float32)["o0"], expected) < 0.1) == close


@pytest.mark.parametrize(
    ("scaled", "begun"),
    [(True, 0), (False, 1)],  # a sum that moves with a maximum is rescaled, and what it started from would be, too
)
def test_what_is_rescaled_starts_from_nothing(scaled, begun):
    i, j, k = b.axes(i=5, j=37, k=21)
    g = NodeBuilder()
    x, y = g.load("x", i, j), g.load("y", i, k)
    s = kernels.online_exponentials(g, j, x)[1] if scaled else g.reduce("sum", j, g.map("exp", x))
    out = g.map("add", s, g.reduce("max", k, y))
    buffers = [Buffer("x", dtypes.float32, (5, 37)), Buffer("y", dtypes.float32, (5, 21)), Buffer("o", dtypes.float32, (5,), "output")]
    roles = {i: Role("grid", 2), j: Role("stream", 8), k: Role("stream", 8)}
    tiles = lower(kernels.kernel("rows", g, [(out, "o", (i,))], buffers, roles))
    assert counted(tiles)[1] == begun
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 37)), rng.normal(size=(5, 21))
    expected = np.exp(x - scaled * x.max(1, keepdims=True)).sum(1) + y.max(1)
    assert relative_error(simulate(tiles, {"x": x, "y": y})["o"], expected) < 1e-12


@pytest.mark.parametrize("empty", ["", "k", "m"])
def test_infinities_nan_and_nothing_to_sum(empty):
    k, m = (Axis(n, 0 if n == empty else 19) for n in "km")
    values = [product("a", k) + product("b", m), b.maximum(b.maximum_over(k, R + tensor("y", I, k)), product("b", m))]
    p, made = kernel(*values, k=Role("stream", 1), m=Role("stream", 16))
    rng = np.random.default_rng(0)
    data = {t.name: rng.normal(size=[a.size for a in t.layout]).astype(np.float16) for t in p.inputs}
    for x in data.values():
        for v in (np.inf, -np.inf, np.nan, 65504.0, -65504.0):
            x.flat[rng.integers(x.size, size=min(x.size, 1))] = v  # one of each, where there is anything
    with np.errstate(all="ignore"):
        expected = {n: v.astype(np.float16) for n, v in evaluate(p, data).items()}
    got = simulate(finish(lower(made)), data, np.float32, rounding=True)
    for name, v in expected.items():
        assert made.buffers[name].dtype == dtypes.float16
        assert empty or (np.isinf(v).any() and np.isnan(v).any() and np.isfinite(v).any())
        np.testing.assert_allclose(got[name], v, rtol=2e-3, atol=2e-2)


def draw(seed):
    """Combinations of products, maxima and tensors, some of which several things read."""
    rng = random.Random(seed)
    axes = b.axes(**{n: rng.choice((2, 3, 5, 7)) for n in "ijklm"})
    i, j, *over = axes
    pool = []
    for n in range(rng.randint(2, 4)):
        k, l = rng.sample(over, 2)
        x, w = tensor(f"x{n}", i, k), tensor(f"w{n}", k, j)
        deep = b.sum_over(l, b.sum_over(k, tensor(f"x{n}", i, k, l) * tensor(f"w{n}", k, l, j)))
        pool.append(rng.choice((b.sum_over(k, x * w), b.sum_over(k, x * w), deep, b.maximum_over(k, x + w), tensor(f"r{n}", i, j))))
    values = list(pool)
    while len(values) > 1:
        x, y = (values.pop(rng.randrange(len(values))) for _ in range(2))
        values.append(rng.choice((x + y, x + y, x + y, b.maximum(x, y), x - y, x * 0.5 + y)))
        if rng.random() < 0.15:
            values.append(rng.choice(pool))
    stored = [*values, rng.choice(pool)] if rng.random() < 0.3 else values
    p = b.program("drawn", **{f"o{n}": (v, tuple(sorted(v.axes))) for n, v in enumerate(stored)})
    roles = {}
    for a in sorted({a for t in p.inputs for a in t.layout}):
        whole = Role("resident", 1 << (a.size - 1).bit_length())
        roles[a] = (
            Role("grid", rng.choice((2, 4))) if a in (i, j) else whole if rng.random() < 0.2 else Role("stream", rng.choice((1, 2, 4)))
        )
    return p, in_16_bits(kernel_from_program(p, roles))


def wrong(seeds):
    bad, seen = [], 0
    for seed in seeds:
        p, made = draw(seed)
        rng = np.random.default_rng(seed)
        data = {t.name: rng.normal(size=[a.size for a in t.layout]) for t in p.inputs}
        try:
            tiles = lower(made, min_dot_k=2)
        except SpecError:  # a value that is not there yet
            bad.append(seed)
            continue
        seen += counted(tiles) != counted(lower(replace(made, exact=True), min_dot_k=2))
        got = simulate(finish(tiles), data)
        bad += [seed for n, v in evaluate(p, data).items() if relative_error(got[n], v) > 1e-10]
    return bad, seen


def test_random_combinations():
    bad, begun = wrong(range(120))
    assert not bad
    assert begun >= 40


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("_combines", lambda body, a, op, readers: op == starts.MONOIDS[a.monoid].combine),  # whoever reads the state
        ("_combines", lambda body, a, op, readers: True),  # whatever is done to it
        ("_place", lambda v, body, at, last, readers: body.index(last)),  # whatever needs the loop before
    ],
)
def test_a_start_that_is_not_allowed_is_found(monkeypatch, name, broken):
    monkeypatch.setattr(starts, name, broken)
    assert wrong(range(40))[0]
