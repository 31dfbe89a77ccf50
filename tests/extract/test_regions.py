"""Programs in regions: the same values however they are cut, cuts where they belong, equal regions planned once."""

import random
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - the field's name for it

import eqfuse
from eqfuse.errors import OptionError, PlanError
from eqfuse.extract.regions import partition, regions, stages, stored_by_several
from eqfuse.extract.regions.stages import Conflict
from eqfuse.extract.targets import load_target
from eqfuse.frontends import trace
from eqfuse.ir.dtypes import float32
from eqfuse.ir.fingerprint import fingerprint
from eqfuse.ir.index import Axis
from eqfuse.ir.program import Output, Program
from eqfuse.ir.reference import evaluate
from eqfuse.ir.terms import Const, Input, Map
from eqfuse.runtime.modules import load_module

H200 = load_target("h200")


def rms(x, w):
    return w * (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5))


def block(x, p, heads, groups):
    """A layer of a language model: grouped-query causal attention and a gated feed-forward layer."""
    n1, wq, wk, wv, wo, n2, wg, wu, wd = p
    b, t, _ = x.shape
    size = wq.shape[0] // heads
    h = rms(x, n1)
    q = (h @ wq.T).view(b, t, heads, size).transpose(1, 2)
    k = (h @ wk.T).view(b, t, groups, size).transpose(1, 2)
    v = (h @ wv.T).view(b, t, groups, size).transpose(1, 2)
    k, v = (s[:, :, None].expand(b, groups, heads // groups, t, size).reshape(b, heads, t, size) for s in (k, v))
    scores = q @ k.transpose(-1, -2) * size**-0.5
    scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1), float("-inf"))
    x = x + (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(b, t, heads * size) @ wo.T
    h = rms(x, n2)
    return x + (F.silu(h @ wg.T) * (h @ wu.T)) @ wd.T


def layers(count, heads=4, groups=2):
    def model(x, *weights):
        for k in range(count):
            x = block(x, weights[9 * k : 9 * k + 9], heads, groups)
        return x

    return model


def sizes(count, b=1, t=2048, d=2048, heads=4, groups=2, size=128, inner=4096):
    one = [(d,), (heads * size, d), (groups * size, d), (groups * size, d), (d, heads * size), (d,), (inner, d), (inner, d), (d, inner)]
    return [(b, t, d), *(s for _ in range(count) for s in one)]


def empty(shapes, dtype=torch.bfloat16):
    return tuple(torch.empty(s, dtype=dtype, device="meta") for s in shapes)


def linears(count):
    def mlp(x, *weights):
        for w in weights:
            x = F.relu(x @ w)
        return x

    return mlp, empty([(2048, 2048)] * (count + 1))


SMALL = {
    "layers": (layers(2), sizes(2, 1, 6, 16, 4, 2, 4, 20)),
    "batch": (layers(1), sizes(1, 2, 6, 16, 4, 2, 4, 20)),
    "attention": (lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2), -1) @ v, [(2, 6, 4)] * 3),
    "two results": (lambda x, w: ((h := F.gelu(x @ w)), h @ w, h.sum(-1)), [(6, 8), (8, 8)]),
    "input returned": (lambda x, w: (x, (x @ w) @ w), [(8, 8), (8, 8)]),
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("cut", ["everywhere", 1, 2, 3])
def test_regions_compute_what_the_program_does(name, cut, monkeypatch):
    f, shapes = SMALL[name]
    program = trace(f, empty(shapes, torch.float32)).program
    chosen = random.Random(cut if cut != "everywhere" else 0)

    def conflict(work, nest, side, inner, where):
        some = cut == "everywhere" or chosen.random() < 0.5
        return Conflict(nest.top, inner.top, 2, 1.0, 0.5) if some else None

    monkeypatch.setattr(stages, "conflict", conflict)
    found = regions(partition(program, H200))
    assert len(found) > 1 or cut != "everywhere"
    rng = np.random.default_rng(0)
    data = {i.name: rng.normal(size=[1 if a is None else a.size for a in i.layout]) for i in program.inputs}
    known = dict(data)
    for r in found:
        given = {i.name: known[n].reshape([a.size for a in i.layout]) for i, n in zip(r.program.inputs, r.reads, strict=True)}
        made = evaluate(r.program, given)
        known.update({n: made[o.name] for o, n in zip(r.program.outputs, r.makes, strict=True)})
    for name, expected in evaluate(program, data).items():
        np.testing.assert_allclose(known[name].reshape(expected.shape), expected, rtol=1e-12, atol=1e-13)


def test_a_layer_is_cut_between_its_products():
    program = trace(layers(1), empty(sizes(1))).program
    found = regions(partition(program, H200))
    products = [sum(n.product for n in stages.Work(r.program, H200).nests.values()) for r in found]
    assert sorted(products) == [1, 1, 1, 1, 1, 2, 2], "q, k, v, both of attention, its projection, gate and up, down"
    assert all(len(r.makes) == 1 for r in found)


def convolutions(x, v, w):
    return F.conv2d(F.relu(F.conv2d(x, v, padding=v.shape[-1] // 2)), w, padding=w.shape[-1] // 2)


WINDOWS = {  # windows of two convolutions, and how often the first one would be made
    "a window after a window": ((3, 3), 9.0),
    "a window after none": ((1, 3), 9.0),
    "none after a window": ((3, 1), None),
    "five after three": ((3, 5), 25.0),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_what_windows_read_is_stored(name):
    """Each position of it is read by several windows, and would be made for each."""
    (first, second), times = WINDOWS[name]
    args = empty([(32, 64, 56, 56), (64, 64, first, first), (64, 64, second, second)])
    program = trace(convolutions, args).program
    found = stages.stages(stages.Work(program, H200)).conflicts
    assert [c.times for c in found] == ([] if times is None else [times])
    assert len(partition(program, H200).groups) == 1 + len(found)


def test_what_a_table_shows_several_times_is_stored():
    """What is shown once, in another order, is not."""
    args = empty([(65536, 512), (512, 64), (64, 64)])
    rows = torch.empty(4 * 65536, dtype=torch.int64, device="meta")
    moves = {lambda t, at: t[at]: [4.0], lambda t, at: t[at[:65536]]: [], lambda t, at: t.roll(5, 0): [], lambda t, at: t[1:-3]: []}
    for move, times in moves.items():
        program = trace(lambda x, v, w, at, move=move: move(x @ v, at) @ w, (*args, rows)).program
        assert [c.times for c in stages.stages(stages.Work(program, H200)).conflicts] == times


def why(f, args):
    """Why a program's values are stored between regions: reasons, with how many."""
    found = partition(trace(f, args).program, H200)
    assert {k for group in found.groups for k in group} - {*found.cuts} == {
        found.program.terms().index(o.term) for o in found.program.outputs
    }
    assert sorted(n for _, names in found.reasons for n in names) == sorted(found.names[k] for k in found.cuts)
    return Counter(found.cuts.values())


def test_every_cut_says_why():
    def sums(x):
        for _ in range(30):
            x = torch.tanh(x - x.mean(-1, keepdim=True))
        return x

    def three(x, a, b, c):
        h = F.layer_norm(x, x.shape[-1:])
        return tuple(F.gelu(h @ w) @ w for w in (a, b, c))

    assert why(*linears(4)) == {"price": 3}
    for n, cuts in {3: {}, 4: {"depth": 1}, 6: {"depth": 1}, 9: {"depth": 2}}.items():
        assert why(linears(n)[0], empty([(2048, 64), *[(64, 64)] * n])) == cuts
    assert set(why(sums, empty([(64, 512)]))) == {"size"}
    assert set(why(three, empty([(12000, 1280), *[(1280, 1280)] * 3], torch.float16))) == {"price", "shared"}
    assert not why(F.gelu, empty([(64, 512)]))


def test_cuts_know_no_names():
    """Squared distances and a minimum where the layer has products and a softmax: the same two stages."""

    def far(x, y, w):
        nearest = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)
        return nearest @ w

    few = regions(partition(trace(far, empty([(4096, 64), (4096, 64), (4096, 64)])).program, H200))
    many = regions(partition(trace(far, empty([(4096, 1024), (4096, 1024), (4096, 4096)])).program, H200))
    assert (len(few), len(many)) == (1, 2)


def test_rows_of_one_token():
    """Nothing is a matrix product, but reading the first weights again for every tile of the second one costs as much."""

    def two(x, a, b):
        return F.relu(x @ a) @ b

    assert len(partition(trace(two, empty([(1, 4096), (4096, 4096), (4096, 4096)])).program, H200).groups) == 2
    assert len(partition(trace(lambda x, w: rms(x, w), empty([(1, 4096), (4096,)])).program, H200).groups) == 1


def test_equal_regions_are_planned_once():
    f, args = linears(17)
    c = eqfuse.optimize(f, args, target="h200")
    assert len(c.plan.parts) == 17
    assert len(c.planned.parts.different) == 1
    assert len(c.plan.kernels) == 17
    assert c.plan.estimated_us == pytest.approx(17 * c.plan.parts[0].plan.estimated_us)
    assert c.plan.temporary_bytes == 2 * 2048 * 2048 * 2, "two values at a time"
    assert "region 1, 17 times" in str(c.plan)
    assert c.source.count("\ndef mlp_") == 1
    assert len(c.compile()) == 1


@pytest.fixture(scope="module")
def layer():
    return eqfuse.optimize(layers(1), empty(sizes(1), torch.float32), target="h200")


def small_data(shapes, dtype=torch.float32):
    g = torch.Generator().manual_seed(0)
    return tuple(torch.randn(s, generator=g, dtype=dtype) * (1 if k == 0 else s[-1] ** -0.5) for k, s in enumerate(shapes))


def test_kernels_of_a_layer_compute_it(layer):
    small = layer.at(*empty(sizes(1, 1, 24, 40, 4, 2, 16, 48), torch.float32))
    assert len(small.plan.parts) == len(layer.plan.parts) > 1
    args = small_data(sizes(1, 1, 24, 40, 4, 2, 16, 48))
    expected = layers(1)(*(a.double() for a in args))
    torch.testing.assert_close(small.simulate(*args), expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(small.interpret(*args).double(), expected, rtol=1e-5, atol=1e-5)
    found = load_module(small.source, "interpret")
    assert "_region_2" in small.source
    with pytest.raises(ValueError, match="has shape"):
        found.run(args[0][..., 1:], *args[1:])


def test_other_sizes_are_served_by_the_same_kernels(layer):
    args = empty(sizes(1, 1, 4096), torch.float32)
    served = layer.serving(layer.traced.at(args, {}))
    assert served is not None
    assert [p.plan for p in served.generated.parts] == [p.plan for p in layer.generated.parts]


def test_questions_cross_regions(layer):
    assert layer.why("softmax", "out").verdict == "regions"
    assert "would take" in layer.why("softmax", "out").text
    assert layer.why("softmax", "softmax").verdict == "same"
    explained = layer.explain()
    assert "region 2" in str(explained)
    reason, names = layer.plan.cuts[0]
    assert f"{', '.join(names[:6])}" in str(layer.plan)
    assert "since making them again would cost more" in str(layer.plan)
    assert explained.data()["stored"][0] == {"reason": reason, "names": list(names)}
    assert explained.json()
    with pytest.raises(OptionError, match="computes no value called 'q'"):
        layer.why("q", "out")
    with pytest.raises(PlanError, match="in regions"):
        _ = layer.graph


def test_verdicts_reach_the_region_that_has_both_values(layer):
    apart = eqfuse.optimize(layers(1), empty(sizes(1), torch.float32), target="h200", fusion=[("forbid", "out", "softmax")])
    assert "different regions" in str(apart.plan)
    within = eqfuse.optimize(
        layers(1),
        empty(sizes(1), torch.float32),
        target="h200",
        fusion=[("forbid", "softmax", "masked_fill")],
        disable=["order", "cancelling"],
    )
    assert len(within.plan.kernels) > len(layer.plan.kernels)


def test_memory_is_held_once():
    f, args = linears(9)
    held = 2 * 2048 * 2048 * 2
    assert eqfuse.optimize(f, args, target="h200", memory_limit=held).plan.temporary_bytes == held
    f, args = linears(17)
    with pytest.raises(PlanError, match="are the limit"):
        eqfuse.optimize(f, args, target="h200", memory_limit=held // 2)


def test_a_fingerprint_is_of_all_but_names():
    f = lambda x, w: F.relu(x @ w)  # noqa: E731
    one = trace(f, empty([(8, 16), (16, 4)])).program
    assert fingerprint(one) == fingerprint(trace(lambda b, a: F.relu(b @ a), empty([(8, 16), (16, 4)])).program)
    others = [
        trace(f, empty([(8, 16), (16, 5)])).program,
        trace(f, empty([(8, 16), (16, 4)], torch.float16)).program,
        trace(lambda x, w: F.relu(x @ w) + 0.5, empty([(8, 16), (16, 4)])).program,
        trace(lambda x, w: F.relu(x @ w.T), empty([(8, 16), (4, 16)])).program,
    ]
    assert len({fingerprint(p) for p in (one, *others)}) == 5


def test_there_may_be_any_number_of_axes():
    """The norm of all gradients of a model: more axes than one e-graph can tell apart."""

    def norm(xs):
        return torch.sqrt(sum((x * x).sum() for x in xs))

    xs = [torch.randn(k, k + 1) for k in range(2, 40)]
    assert len(trace(norm, (xs,)).program.every_axis) > 62
    c = eqfuse.optimize(norm, (xs,), target="h200")
    assert len(c.plan.parts) > 1
    torch.testing.assert_close(c.simulate(xs), norm([x.double() for x in xs]), rtol=1e-12, atol=1e-12)


def test_statistics_that_several_regions_would_store_are_stored_once():
    def three(x, a, b, c):
        h = F.layer_norm(x, x.shape[-1:])
        return tuple(F.gelu(h @ w) @ w for w in (a, b, c))

    c = eqfuse.optimize(three, empty([(12000, 1280), *[(1280, 1280)] * 3], torch.float16), target="h200")
    made = [tuple(p.plan.program.outputs[k].term.axes for k in range(len(p.makes))) for p in c.plan.parts]
    assert any(all(len(axes) == 1 for axes in each) for each in made), "a region that makes the statistics"


def test_temporaries_are_called_like_no_tensor():
    """Values between regions may be called as the temporaries of a region are."""

    def means(x, ws):
        for w in ws:
            x = x - (x @ w).mean(1, keepdim=True)
        return x

    args = empty([(16, 512, 1024), *[(1024, 1024)] * 8])
    c = eqfuse.optimize(means, (args[0], list(args[1:])), target="h200", time_budget=2.0)
    for part in c.plan.parts:
        made = [b.name for step in part.plan.steps for b in step.stores]
        assert not {*made} & {i.name for i in part.plan.program.inputs}

    def f(t7, a, b):
        h = torch.softmax(t7 @ a, -1)
        return torch.softmax(torch.softmax(h @ b, -1) @ a, -1) + t7

    data = small_data([(8, 8)] * 3)
    found = eqfuse.optimize(f, data, target="h200", time_budget=0).simulate(*data)
    torch.testing.assert_close(found, f(*(x.double() for x in data)), rtol=1e-9, atol=1e-9)


def test_equal_regions_may_differ_at_other_sizes():
    """They are one plan; there each is a function of its own, of other kernels if they were made for it, and of the same ones else."""

    def centred(*xs):
        return tuple((x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-3) for x in xs)

    c = eqfuse.optimize(centred, empty([(16, 4096)] * 6, torch.float32), target="h200")
    assert [len(c.planned.parts.planned), len(c.planned.parts.different)] == [6, 1]
    args = [torch.randn(2 + k % 2, 30 + k % 2) for k in range(6)]
    for found, wanted in zip(c.at(*args).interpret(*args), centred(*args), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    same = c.serving(c.traced.at(empty([(17 + k % 2, 4096) for k in range(6)], torch.float32), {}))
    assert [len(same.generated.different), same.source.count("def _region"), same.source.count("@triton.jit")] == [2, 2, 1]


def test_a_region_may_return_an_input_or_a_number_at_other_sizes():
    def with_input(x, ws):
        y = x
        for w in ws:
            y = torch.tanh(y @ w) * 0.5 + y
        return x, y

    ws = list(empty([(2048, 2048)] * 8))
    c = eqfuse.optimize(with_input, (empty([(2048, 2048)])[0], ws), target="h200")
    assert len(c.at(empty([(4096, 2048)])[0], ws).plan.parts) == len(c.plan.parts) > 1
    assert c.serving(c.traced.at((empty([(4096, 2048)])[0], ws), {})) is not None

    def with_positions(x, ws):
        return with_input(x, ws)[1], torch.arange(x.shape[0], device=x.device) * 2

    for rows in (1, 2048):
        assert len(eqfuse.optimize(with_positions, (empty([(rows, 2048)])[0], ws), target="h200").plan.parts) > 1


def test_long_chains_are_halved_in_no_time():
    def chain(x):
        for _ in range(200):
            x = torch.tanh(x - x.mean(-1, keepdim=True))
        return x

    program = trace(chain, empty([(64, 512)])).program
    found = partition(program, H200)
    assert len(found.groups) > 10
    assert max(len(r.program.terms()) for r in regions(found)) < 250


def test_what_has_no_type_is_stored_by_no_region():
    """A value of numbers alone, which two regions keep for themselves: between regions nothing of no type can be kept."""
    i = Axis("i", 4)
    x = Input("x", (i,), float32)
    number = Map("cos", (Const(0.1),))
    typed = Map("mul", (x, number))
    program = Program("p", (Output("out", Map("exp", (typed,)), (i,), float32),), (x,))
    made = [SimpleNamespace(name=program.temporary(program.terms().index(t)), role="temporary") for t in (number, typed)]
    plan = SimpleNamespace(rewritten=(), program=program, steps=[SimpleNamespace(stores=made)])
    region = SimpleNamespace(whole={number: 7, typed: 8}, number=program.terms().index)
    assert stored_by_several([region] * 2, [plan] * 2) == {8}
