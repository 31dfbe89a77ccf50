"""States of several parts: their laws on hard values, and kernels that carry them under any tiles."""

import itertools

import numpy as np
import pytest

from eqfuse.errors import UnsupportedOpError
from eqfuse.ir import build as b
from eqfuse.ir import dtypes
from eqfuse.ir.monoids import MONOIDS
from eqfuse.ir.reference import evaluate
from eqfuse.ir.states import NAMED, THREE, part_of
from eqfuse.ir.terms import Index, Reduce, Scan
from eqfuse.tiles.direct import kernel_from_program
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.program import Loop
from eqfuse.tiles.simulate import simulate

HARD = (0.0, 1.0, -2.5, np.inf, -np.inf, np.nan)
SECOND = {"linear": HARD, "logsumexp": (0.0, 1.0, 2.5)}  # sums are not negative, nor infinite
WAYS = [Role("resident", 16), Role("stream", 4), Role("stream", 1)]


@pytest.mark.parametrize("state", NAMED.values(), ids=lambda s: s.name)
def test_laws(state):
    """Associative where nothing overflows, and neutral behind anything; in any order where it says so."""
    pairs = list(itertools.product(HARD, SECOND.get(state.name, (0.0, 1.0, 7.0))))
    a, c, d = ([np.array([x[k] for x in each]) for k in range(2)] for each in zip(*itertools.product(pairs, repeat=3), strict=True))
    with np.errstate(all="ignore"):
        one, other = state.on_arrays(state.on_arrays(a, c), d), state.on_arrays(a, state.on_arrays(c, d))
        kept = state.on_arrays(a, [np.full_like(a[0], e) for e in state.neutral])
        turned = state.on_arrays(c, a), state.on_arrays(a, c)
    finite = np.isfinite(np.stack([*a, *c, *d])).all(axis=0)
    for part in range(2):
        where = finite if state.name == "linear" else np.ones_like(finite)  # 0 * inf is NaN
        np.testing.assert_allclose(one[part][where], other[part][where], rtol=1e-12)
        np.testing.assert_array_equal(kept[part], a[part])
        if state.commutative:
            np.testing.assert_array_equal(turned[0][part], turned[1][part])


@pytest.mark.parametrize("name", [*NAMED, THREE])
def test_a_name_says_all(name):
    state, part = part_of(f"{name}[1]")
    again, _ = part_of(f"{state.text()}[1]")
    assert (part, again.formulas, again.neutral, again.commutative) == (1, state.formulas, state.neutral, state.commutative)


@pytest.mark.parametrize("name", ["linear[2]", "linear", "add(l0,r0)|0.0[1]", "nothing(l0)|0.0[0]", "add(l0,r1)|0.0[0]", "add(l0|0.0[0]"])
def test_what_names_no_part(name):
    assert name not in MONOIDS
    with pytest.raises(UnsupportedOpError):
        Reduce(name, b.axes(i=2)[0], b.const(1.0))


def test_a_value_for_each_part():
    (i,) = b.axes(i=2)
    with pytest.raises(UnsupportedOpError, match="reduces 2 at a time, 1 given"):
        Scan("linear[0]", i, b.tensor("x", i))


@pytest.mark.parametrize("name", [*NAMED, THREE])
def test_every_state_under_all_roles(name):
    """Scanned and reduced, every part; one that does not vary along the axis is as good as any."""
    i, j = b.axes(i=3, j=13)
    state, _ = part_of(f"{name}[0]")
    values = (b.tensor("x", i, j), Index(j) if name.startswith("arg") else b.tensor("y", i), b.tensor("z", j))[: len(state.formulas)]
    outputs = {}
    for part in range(len(values)):
        made = [fold(f"{name}[{part}]", j, *values) for fold in (Scan, Reduce)]
        outputs |= {f"s{part}": (made[0], (i, j)), f"r{part}": (made[1], (i,))}
    program = b.program("p", **outputs)
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=(3, 13)).round(), "y": rng.uniform(0.5, 1.0, size=3), "z": rng.normal(size=13)}
    data = {t.name: data[t.name] for t in program.inputs}
    for rows, columns in itertools.product((Role("grid", 2), Role("stream", 2)), WAYS):
        if rows.kind != "stream" or columns.kind != "stream":
            found = simulate(lower(kernel_from_program(program, {i: rows, j: columns})), data)
            for output, expected in evaluate(program, data).items():
                np.testing.assert_allclose(found[output], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("part", "carried"), [(0, 1), (1, 1)])
def test_a_loop_carries_what_is_asked_for(part, carried):
    t, c = b.axes(t=9, c=3)
    h = Scan(f"linear[{part}]", t, b.tensor("a", t, c), b.tensor("b", t, c))
    made = lower(kernel_from_program(b.program("p", h=(h, (t, c))), {t: Role("stream", 4), c: Role("grid", 4)}))
    (loop,) = (s for s in made.statements() if isinstance(s, Loop))
    assert len(loop.accumulators) == carried


def test_what_overflows_before_the_first_element_is_nothing():
    """An infinite factor at the first step: nothing is multiplied by it."""
    (t,) = b.axes(t=9)
    program = b.program("p", h=(Scan("linear[1]", t, b.tensor("a", t, dtype=dtypes.float32), b.tensor("b", t)), (t,)))
    data = {"a": np.array([np.inf, *[0.5] * 8]), "b": np.ones(9)}
    for role in WAYS:
        found = simulate(lower(kernel_from_program(program, {t: role})), data)["h"]
        np.testing.assert_allclose(found, 2 - 0.5 ** np.arange(9.0))
