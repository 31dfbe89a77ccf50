"""Rows of a matrix product with several axes: the sums around the product add to one accumulator."""

import random
from dataclasses import replace

import numpy as np
import pytest

from eqfuse.extract.cost import fit, price
from eqfuse.extract.targets import load_target
from eqfuse.ir import build as b
from eqfuse.ir.dtypes import float32
from eqfuse.ir.index import Axis
from eqfuse.ir.reference import evaluate
from eqfuse.ir.terms import Input
from eqfuse.testing.fuzz.lowering import relative_error
from eqfuse.tiles import lower as lowering
from eqfuse.tiles.direct import kernel_from_program
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.program import Dot, Loop
from eqfuse.tiles.simulate import simulate
from eqfuse.tiles.walk import walk

i, j, k, l, m = (Axis(n, s) for n, s in zip("ijklm", (40, 36, 3, 5, 33), strict=True))


def heads(x=None):
    """out[i, j] = sum_k sum_l sum_m x[k, l, i, m] w[j, k, l, m]: what follows attention in a model."""
    x = x or Input("x", (k, l, i, m), float32)
    return b.sum_over(k, b.sum_over(l, b.sum_over(m, x * Input("w", (j, k, l, m), float32))))


def kernel(program, **roles):
    given = {"i": Role("grid", 16), "j": Role("grid", 16), "k": Role("stream", 1), "l": Role("stream", 1), "m": Role("stream", 16)}
    given |= roles
    return kernel_from_program(program, {a: given[a.name] for a in (i, j, k, l, m)})


def loops(program):
    return [s for s in program.statements() if isinstance(s, Loop)]


def agrees(made, program, seed=0):
    rng = np.random.default_rng(seed)
    data = {t.name: rng.normal(size=[a.size for a in t.layout]) for t in program.inputs}
    found = simulate(lower(made), data)
    return all(relative_error(found[n], v) < 1e-12 for n, v in evaluate(program, data).items())


@pytest.mark.parametrize(
    ("roles", "continued"),
    [
        ({}, 2),
        ({"m": Role("resident", 64)}, 1),
        ({"l": Role("resident", 8)}, 0),  # a tile of matrices: there is one for each of its positions
    ],
)
def test_one_accumulator_for_all_axes(roles, continued):
    p = b.program("heads", y=(heads(), (i, j)))
    made = kernel(p, **roles)
    states = [a for s in loops(lower(made)) for a in s.accumulators]
    assert sum(a.start is not None for a in states) == continued
    if continued:
        (dot,) = [s for s in lower(made).statements() if isinstance(s, Dot)]
        assert dot.acc is not None
        assert walk(lower(made)).accumulator_bytes == 16 * 16 * 4, "the loops hold one accumulator between them"
    assert agrees(made, p)


def test_a_sum_that_something_else_reads_has_its_own():
    inner = b.sum_over(l, b.sum_over(m, Input("x", (k, l, i, m), float32) * Input("w", (j, k, l, m), float32)))
    p = b.program("both", y=(b.sum_over(k, inner), (i, j)), z=(b.maximum_over(k, inner), (i, j)))
    made = kernel(p)
    assert [sum(a.start is not None for a in s.accumulators) for s in loops(lower(made))].count(1) == 1, "only within one matrix"
    assert agrees(made, p)


def test_nothing_is_summed_in_another_order_under_the_exact_licence():
    p = b.program("heads", y=(heads(), (i, j)))
    assert all(a.start is None for s in loops(lower(replace(kernel(p), exact=True))) for a in s.accumulators)


def test_the_accumulator_that_was_gone_on_from_takes_no_registers():
    """An outer sum of something else takes a tile of registers beside the inner one; that of a matrix product does not."""
    p = b.program("heads", y=(heads(), (i, j)))
    with_one = walk(lower(kernel(p, m=Role("resident", 64)))).live_bytes
    with_two = walk(lower(replace(kernel(p, m=Role("resident", 64)), exact=True))).live_bytes
    assert with_two - with_one >= 16 * 16 * 4


def test_a_loop_that_starts_inside_another_one_starts_with_an_empty_pipeline():
    p = b.program("heads", y=(heads(), (i, j)))
    programs = 3 * 3
    by_tile, whole = walk(lower(kernel(p))), walk(lower(kernel(p, m=Role("resident", 64))))
    assert by_tile.refills == programs * k.size * l.size
    assert whole.refills == programs * k.size
    alone = b.program("rows", y=(b.sum_over(m, Input("x", (i, m), float32) * Input("w", (j, m), float32)), (i, j)))
    roles = {i: Role("grid", 16), j: Role("grid", 16), m: Role("stream", 16)}
    assert walk(lower(kernel_from_program(alone, roles))).refills == 0
    h200 = load_target("h200")
    slow, fast = (price(kernel(p), counts, fit(counts, h200), h200).terms["latency"] for counts in (by_tile, replace(by_tile, begun=0.0)))
    assert slow > fast > 0


def draw(seed):
    """Sums over one to three axes in some order of a product of two to four factors, some of which lack some axes."""
    rng = random.Random(seed)
    axes = {n: Axis(n, rng.choice((2, 3, 4, 5))) for n in "ijklm"}
    i, j, *summed = axes.values()

    def factor(name, has, of=summed):
        return Input(name, tuple(a for a in axes.values() if a == has or (a in of and rng.random() < 0.9)), float32)

    body = factor("x", i) * factor("w", j)
    if rng.random() < 0.3:
        body = body * factor("s", None)
    if rng.random() < 0.15:
        body = b.select(b.le(b.iota(i), b.iota(rng.choice(summed))), body, 0.0)
    rng.shuffle(summed)
    inner = []
    for n, a in enumerate(summed):
        body = b.sum_over(a, body)
        inner.append(body)
        if rng.random() < 0.1:
            body = body * factor(f"t{n}", None, summed[n + 1 :])
    outputs = {"y": (body, (i, j))}
    if rng.random() < 0.3:
        other = rng.choice(inner)
        outputs["z"] = (other, tuple(sorted(other.axes)))
    p = b.program("sums", **outputs)
    roles = {}
    for a in axes.values():
        if a in (i, j):
            roles[a] = Role("grid", rng.choice((2, 4)))
        elif rng.random() < 0.15:
            roles[a] = Role("resident", 1 << max(0, (a.size - 1).bit_length()))
        else:
            roles[a] = Role("stream", rng.choice((2, 4) if a == summed[0] else (1, 1, 1, 2)))
    made = kernel_from_program(p, roles)
    order = list(made.order)
    rng.shuffle(order)
    return p, replace(made, order=tuple(order))


def wrong(seeds):
    found, continued = [], 0
    for seed in seeds:
        p, made = draw(seed)
        rng = np.random.default_rng(seed)
        data = {t.name: rng.normal(size=[a.size for a in t.layout]) for t in p.inputs}
        tiles = lower(made, min_dot_k=2)
        continued += any(a.start is not None for s in loops(tiles) for a in s.accumulators)
        got = simulate(tiles, data)
        found += [seed for n, v in evaluate(p, data).items() if relative_error(got[n], v) > 1e-10]
    return found, continued


def test_random_sums():
    found, continued = wrong(range(200))
    assert not found
    assert continued >= 40


def test_a_sum_that_forgets_what_it_goes_on_from_is_found(monkeypatch):
    plain = lowering.OpenAccumulator
    monkeypatch.setattr(lowering, "OpenAccumulator", lambda *a, start=None, lanes=None: plain(*a, lanes=lanes))
    assert wrong(range(100))[0]


def test_a_sum_with_two_readers_that_goes_on_is_found(monkeypatch):
    class Once(dict):
        def __missing__(self, key):
            return 1

    start = lowering.Lowering.__init__

    def init(self, *args, **kwargs):
        start(self, *args, **kwargs)
        self.readers = Once()

    monkeypatch.setattr(lowering.Lowering, "__init__", init)
    assert wrong(range(200))[0]
