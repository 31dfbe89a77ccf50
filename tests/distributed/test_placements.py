"""Placements: facts of propagation, the choice against an enumeration, what plans compute, and what they move."""

import math
import random
from dataclasses import replace
from itertools import chain, combinations, product

import numpy as np
import pytest
import torch
from mesh_programs import H100, PROGRAMS, cross_entropy, drawn, formed, placed, program
from torch.distributed.tensor import Replicate, Shard

import eqfuse
from eqfuse.distributed import DTensorSpec
from eqfuse.distributed.alternatives import alternatives
from eqfuse.distributed.choice import Allowed, Space
from eqfuse.distributed.cut import cut
from eqfuse.distributed.forms import forms
from eqfuse.distributed.mesh import PARTIAL, REPLICATED, Mesh, move, place_of
from eqfuse.distributed.plan import Spread
from eqfuse.distributed.propagation import aligned, argument_places
from eqfuse.distributed.search import search
from eqfuse.distributed.simulate import simulate, spread
from eqfuse.egraph.frozen import ENode
from eqfuse.errors import EqFuseError, OptionError
from eqfuse.ir import build as b
from eqfuse.ir.dtypes import float32
from eqfuse.ir.index import Axis, index
from eqfuse.ir.reference import evaluate
from eqfuse.planning import Request, run
from eqfuse.testing.fuzz.random_programs import random_inputs, random_program

I, J, K = b.axes(i=8, j=8, k=8)
R, P = REPLICATED, PARTIAL
NUMBER, ANY = 2.0, None

# a node, axes of its arguments, which of them are constants, where its value is -> where its arguments have to be, every way
WAYS = {
    "a value without the axis is everywhere": (("map", ("mul",)), ({I, J}, {I}), (ANY, ANY), J, [(J, R)]),
    "part by part": (("map", ("exp",)), ({I},), (ANY,), I, [(I,)]),
    "a reduction over another axis": (("reduce", ("max", J)), ({I, J},), (ANY,), I, [(I,)]),
    "addends of a sum": (("reduce", ("sum", J)), ({I, J},), (ANY,), P, [(P,), (J,)]),
    "addends of a mean": (("reduce", ("mean", J)), ({J},), (ANY,), P, [(P,), (J,)]),
    "a maximum has none": (("reduce", ("max", J)), ({J},), (ANY,), P, []),
    "sums of addends": (("map", ("add",)), ({I}, {I}), (ANY, ANY), P, [(P, P)]),
    "addends times a number": (("map", ("mul",)), ({I}, set()), (ANY, NUMBER), P, [(P, R)]),
    "not times any value": (("map", ("mul",)), ({I}, {I}), (ANY, ANY), P, []),
    "not times infinity": (("map", ("mul",)), ({I}, set()), (ANY, math.inf), P, []),
    "no function of addends": (("map", ("exp",)), ({I},), (ANY,), P, []),
    "a choice between addends": (("map", ("where",)), ({I}, {I}, {I}), (ANY, ANY, ANY), P, [(R, P, P)]),
    "0 has the addends 0": (("const", (0.0,)), (), (), P, [()]),
    "1 has no addends": (("const", (1.0,)), (), (), P, []),
    "positions of a part": (("index", (I,)), (), (), I, [()]),
    "a view under another name": (("view", (J, index(I))), ({J, K},), (ANY,), I, [(J,)]),
    "beside it": (("view", (J, index(I))), ({J, K},), (ANY,), K, [(K,)]),
    "one backwards": (("view", (J, index(7) + index(I) * -1)), ({J},), (ANY,), I, []),
    "one shifted": (("view", (J, (index(I) + 1) % 8)), ({J},), (ANY,), I, []),
    "a diagonal": (("view", (J, index(I))), ({I, J},), (ANY,), I, []),
}


@pytest.mark.parametrize("what", WAYS)
def test_what_an_operation_needs(what):
    (op, attrs), axes, numbers, place, wanted = WAYS[what]
    node = ENode(op, attrs, tuple(range(len(axes))))
    found = argument_places(node, [frozenset(a) for a in axes], numbers, (place,), Mesh.of(4))
    assert [tuple(p for (p,) in ways) for ways in found] == wanted


def test_reshapes_keep_what_is_outermost():
    h, d, o = b.axes(h=8, d=16, o=128)
    merged = index(h) * 16 + index(d)
    assert aligned(merged, h, 4, 32) and not aligned(merged, d, 4, 32)
    assert aligned(index(o) // 16, o, 4, 2) and not aligned(index(o) // 16, o, 16, 1)  # 16 devices would have half a head each
    assert aligned(index(o) % 16, o, 4, 0) and not aligned(index(o) % 48, o, 4, 0)


def test_bytes_of_moves():
    """Those of a ring of 4, of 4096 bytes."""
    mesh, sent = Mesh.of(4), {}
    for before, after in (((I,), (R,)), ((P,), (R,)), ((P,), (I,)), ((I,), (J,)), ((R,), (I,))):
        step = move(mesh, H100, before, after, 0, 4096)
        sent[step.kind] = step.bytes
    assert sent == {"all-gather": 3072, "all-reduce": 6144, "reduce-scatter": 3072, "all-to-all": 768, "slice": 0}
    assert move(mesh, H100, (R,), (P,), 0, 4096) is None
    two = Mesh.of({"a": 2, "b": 4})
    assert move(two, H100, (I, J), (I, R), 1, 4096).bytes == 1536  # of the half that the others along a have not


# the choice ------------------------------------------------------------------------------------------------------------------------
def cheapest(space, allowed):
    """The least time, by trying everything: at which places each value is computed and how; those who use values come first."""
    classes, users = list(dict.fromkeys(space.forms.graph.original)), {}
    for c in classes:
        users[c] = [a for n in space.forms.members[c] for a in n.args]
    order = classes[::-1]
    assert all(order.index(c) < order.index(a) for c in classes for a in users[c]), "users first"
    given = space.given(allowed)
    roots = [
        [
            (space.forms.graph.roots[o.name], p)
            for p in allowed.outputs.get(o.name, [q for q in space.places[space.forms.graph.roots[o.name]] if P not in q])
        ]
        for o in space.forms.program.outputs
    ]

    def least(k, wanted):
        if k == len(order):
            return 0.0
        c = order[k]
        here = [p for p in space.places[c] if (c, p) in wanted]
        if not here:
            return least(k + 1, wanted)
        best = math.inf
        for computed in chain.from_iterable(combinations(space.places[c], n) for n in range(1, len(space.places[c]) + 1)):
            ways = [[*([given[c, p]] if (c, p) in given else []), *space.ways[c, p]] for p in computed]
            moves = 0.0
            for p in here:
                if p not in computed:
                    moves += min((m.us for m in space.moved.get((c, p), ()) if m.sources[0][1] in computed), default=math.inf)
            if moves < best and all(ways):
                for chosen in product(*ways):
                    own = moves + sum(m.us for m in chosen)
                    if own < best:
                        best = min(best, own + least(k + 1, wanted | {s for m in chosen for s in m.sources}))
        return best

    return min(least(0, frozenset(r)) for r in product(*roots))


def tiny(kind):
    x, w, v = b.tensor("x", I, K), b.tensor("w", K, J), b.tensor("v", J)
    y = b.sum_over(K, x * w)
    if kind == "linear":
        return b.program("linear", y=(y + v, (I, J)))
    if kind == "two uses":
        return b.program("uses", y=(b.exp(x), (I, K)), s=(b.sum_over(K, x), (I,)))
    return b.program("norm", y=(x * b.rsqrt(b.mean_over(K, b.square(x))), (I, K)))


@pytest.mark.parametrize("kind", ["linear", "two uses", "norm"])
def test_no_enumeration_finds_better(kind):
    p, mesh = tiny(kind), Mesh.of(2)
    rng = np.random.default_rng(len(kind))
    different = set()
    for _ in range(6):
        rates = dict(zip(("link_gb_s", "link_us", "launch_us", "dram", "simt_gops"), 10.0 ** rng.uniform(-4, 2, 5), strict=True))
        device = H100.with_level("dram", gb_s=rates.pop("dram"))
        space = Space(forms(p, mesh, parts=False), mesh, replace(device, **rates))
        inputs = {i.name: [space.mesh.places(i.axes)[rng.integers(len(space.mesh.places(i.axes)))]] for i in p.inputs}
        found = space.choose(Allowed(inputs))
        assert found.us == pytest.approx(cheapest(space, Allowed(inputs)), rel=1e-5, abs=1e-4)
        different.add(str(cut(space, found)))
    assert len(different) > 2


# what plans compute ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", PROGRAMS)
def test_plans_compute_what_the_program_does(name):
    for seed, devices in list(enumerate((2, 4, {"a": 2, "b": 2}, 3)))[len(name) % 2 :: 2]:
        space, allowed, values = drawn(name, Mesh.of(devices), seed)
        plan = cut(space, space.choose(allowed, seconds=0.3))
        with np.errstate(all="ignore"):
            want, got = evaluate(space.forms.program, values), simulate(plan, values)
        for o in want:  # where one is infinite or NaN, the other may be NaN or infinite (docs/numerics.md)
            both = [np.where(np.isfinite(x[o]), x[o], np.nan) for x in (got, want)]
            np.testing.assert_allclose(*both, rtol=1e-9, atol=1e-11, err_msg=str(plan))


def test_plans_of_random_programs():
    spread_out = 0
    for seed in range(60):
        rng = random.Random(seed)
        p = random_program(rng, sizes={"i": (2, 4, 6), "j": (4, 8), "k": (4, 6, 8)})
        mesh = Mesh.of(rng.choice((2, 3, 4)))
        space = Space(forms(p, mesh), mesh, replace(H100, link_gb_s=rng.choice((1e-4, 1.0)), simt_gops=rng.choice((1e-6, 1e3))))
        inputs = {i.name: [rng.choice(mesh.places(i.axes))] for i in p.inputs}
        plan, values = search(space, Allowed(inputs), 0.5), random_inputs(rng, p)
        spread_out += plan.bytes > 0
        with np.errstate(all="ignore"):
            want, got = evaluate(p, values), simulate(plan, values)
        for o in want:
            both = [np.where(np.isfinite(x[o]), x[o], np.nan) for x in (got, want)]
            np.testing.assert_allclose(
                *both, rtol=1e-7, atol=1e-8 * max(1.0, np.nanmax(np.abs(both[1]), initial=1)), err_msg=f"{p}\n{plan}"
            )
    assert spread_out > 20


def test_a_wrong_plan_is_noticed():
    plan = placed("mlp", 2, {"w1": "w1_rows", "b": "w1_rows", "w2": "w1_rows"}, {"out": "replicated"})
    reducing = next(m for m in plan.moves if m.steps[-1][1].kind == "all-reduce")
    wrong = replace(plan, tensors={**plan.tensors, reducing.source: replace(plan.tensors[reducing.source], place=(R,))})
    rng = np.random.default_rng(0)
    values = {i.name: rng.standard_normal(i.shape) for i in plan.program.inputs}
    assert np.allclose(simulate(plan, values)["out"], evaluate(plan.program, values)["out"])
    with pytest.raises((AssertionError, StopIteration)):
        assert np.allclose(simulate(wrong, values)["out"], evaluate(plan.program, values)["out"])


def test_parts_are_those_of_the_layout():
    """What a device has is what the layout of the placements says, element by element."""
    mesh, array = Mesh.of({"a": 2, "b": 2}), np.arange(64).reshape(8, 8)
    for place in ((I, R), (J, I), (R, J)):
        t = Spread("x", (I, J), float32, place)
        layout = t.sharding(mesh).layout
        parts = spread(mesh, t, array)
        for position in np.ndindex(8, 8):
            for at in layout(position, (8, 8)):
                assert parts[at.get("a", 0) * 2 + at.get("b", 0)].flat[at["m"]] == array[position]


# what plans move -------------------------------------------------------------------------------------------------------------------
def kinds(plan):
    return [step.kind for m in plan.moves for _, step in m.steps]


def test_column_then_row_parallel():
    """One collective, behind the second product; the result's placement is inferred."""
    plan = placed("mlp", 4, {"w1": "w1_rows", "b": "w1_rows", "w2": "w1_rows"})
    assert kinds(plan) == ["reduce-scatter"]
    assert len(plan.locals) == 1
    assert kinds(placed("mlp", 4, {"w1": "w1_rows", "b": "w1_rows", "w2": "w1_rows"}, {"out": "replicated"})) == ["all-reduce"]


SLOW = replace(H100, link_gb_s=1e-3, link_us=0.1)  # bytes decide


def test_keys_over_devices_are_not_gathered():
    """Partial results move, whose size does not depend on the number of keys."""
    plan = placed("attention", 4, {"k": "k_rows", "v": "k_rows"}, {"out": "replicated"}, SLOW)
    parts = next(iter(plan.locals)).makes
    assert all(any(a is not None and a.name == "k_rows_o" for a in plan.tensors[n].layout) for n in parts)
    assert not any(a is not None and a.name == "k_rows" for m in plan.moves for a in plan.tensors[m.source].layout)


def test_the_vocabulary_over_devices_is_not_gathered():
    plan = placed("cross_entropy", 4, {"w": "w_rows"}, {"out": "replicated"}, SLOW)
    logits = 8 * 16 * 4
    assert 0 < plan.bytes < logits * 3 / 4
    assert not any(a is not None and a.name == "w_rows" for m in plan.moves for a in plan.tensors[m.source].layout)


def test_a_sum_is_computed_at_one_place():
    """Also where it would be cheaper to compute it once for each place than to move it."""
    p = program("several")
    rows, cols = p.outputs[0].layout
    wanted = {p.outputs[0].name: rows.name, p.outputs[1].name: cols.name}
    plan = placed("several", 2, {}, wanted, replace(H100, link_gb_s=1e-3, link_us=1.0))
    members = formed("several", plan.mesh).members
    sums = [c for ((c, _), moved), m in plan.chosen.made.items() if not moved and members[c][m.member].op == "reduce"]
    assert sums and len(sums) == len(set(sums))


def test_alternatives_are_dearer():
    p, mesh = program("attention"), Mesh.of(4)
    rows = {i.name: [(next(a for a in i.layout if a and a.name == "k_rows"),)] for i in p.inputs if i.name != "q"}
    space, allowed = Space(forms(p, mesh), mesh, SLOW), Allowed({"q": [(R,)], **rows})
    plan = search(space, allowed)
    others = {a.description: a for a in alternatives(space, allowed, plan.chosen)}
    assert {"no reduction merged from parts", "no addends", "everything computed by all devices", "out replicated"} <= others.keys()
    assert all(a.us >= plan.us * (1 - 1e-6) for a in others.values())
    assert others["no reduction merged from parts"].bytes > plan.bytes


def test_exact_sums_stay_on_one_device():
    p, mesh = program("mlp"), Mesh.of(2)
    weights = {i.name: [(next((a for a in i.layout if a and a.name == "w1_rows"), R),)] for i in p.inputs}
    plan = cut(space := Space(forms(p, mesh), mesh, H100, exact=True), space.choose(Allowed(weights)))
    assert not any(P in t.place for t in plan.tensors.values())
    ints, i_mesh = program("integers"), Mesh.of(2)
    cols = {i.name: [(i.layout[1],)] for i in ints.inputs}
    plan = cut(space := Space(forms(ints, i_mesh), i_mesh, SLOW, exact=True), space.choose(Allowed(cols)))
    assert any(P in t.place for t in plan.tensors.values()), "sums of integers are the same in any order"


def test_local_programs_are_planned_like_others():
    """As kernels, which compute what the local program says, positions of a device included."""
    plan = placed("causal", 4, {"q": "q_rows"}, {"out": "q_rows"})
    (step,) = plan.locals
    assert step.positions
    found = run(Request(step.program, None, None, H100)).executable
    rng = np.random.default_rng(0)
    values = {i.name: rng.standard_normal(i.shape) for i in step.program.inputs}
    values[step.program.inputs[-1].name] = np.asarray(8)
    got = found.simulate(*(torch.as_tensor(values[i.name]).to(getattr(torch, i.dtype.name)) for i in step.program.inputs))
    want = evaluate(step.program, values)
    np.testing.assert_allclose(got.numpy(), want["out"], rtol=1e-5, atol=1e-6)


# what is refused -------------------------------------------------------------------------------------------------------------------
class Torch:
    """Placements by torch's names."""

    Shard = type("Shard", (), {"__init__": lambda self, dim: setattr(self, "dim", dim)})
    Partial = type("Partial", (), {"__init__": lambda self, op: setattr(self, "reduce_op", op)})


@pytest.mark.parametrize(
    ("placements", "message"),
    [
        ((Torch.Shard(0),), "6 long, for 4 devices"),
        ((Torch.Shard(1),), "1 long"),
        ((Torch.Shard(2),), "placement of x is"),
        ((Torch.Partial("max"),), "placement of x is"),
        ((Torch.Shard(0), Torch.Shard(0)), "1, for the mesh"),
    ],
)
def test_placements_that_are_none(placements, message):
    with pytest.raises(OptionError, match=message):
        place_of(placements, (Axis("rows", 6), None), Mesh.of(4), "x")


def test_options_about_one_program_are_refused():
    spec = DTensorSpec((8, 8), torch.float32, 2, (Shard(0),))
    with pytest.raises(OptionError, match="memory_limit"):
        eqfuse.optimize(torch.exp, (spec,), memory_limit=0)
    with pytest.raises(OptionError, match="'nobody'"):
        eqfuse.optimize(torch.exp, (spec,), fusion=[("forbid", "out", "nobody")])
    (made,) = eqfuse.optimize(torch.exp, (spec,), target="h100", accuracy_factor=2.0).parts.values()
    assert "within 2 times eager" in made.plan.accuracy[0]
    with pytest.raises(OptionError, match="out_placements"):
        eqfuse.optimize(torch.exp, (torch.zeros(2),), out_placements=[(Replicate(),)])
    with pytest.raises(EqFuseError, match="2 meshes"):
        eqfuse.optimize(torch.add, (spec, replace(spec, device_mesh=4)))


def test_planned_without_processes():
    """From shapes and placements; what it means is computed here."""
    x = DTensorSpec((8, 4), torch.float32, 4, (Replicate(),))
    w = DTensorSpec((16, 4), torch.float32, 4, (Shard(0),))
    t = DTensorSpec((8,), torch.int64, 4, (Replicate(),))
    c = eqfuse.optimize(cross_entropy, (x, w, t), out_placements=[(Replicate(),)])
    data = torch.randn(8, 4, dtype=torch.float64), torch.randn(16, 4, dtype=torch.float64), torch.randint(16, (8,))
    torch.testing.assert_close(c.simulate(*data), cross_entropy(*data))
    assert "alternatives" in str(c.explain())
