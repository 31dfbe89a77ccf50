"""``cat`` and ``stack`` as selections over ranges of one axis, and results that are stored part by part."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

from eqfuse import optimize
from eqfuse.errors import EmptyProgramError, ShapeError
from eqfuse.frontends import trace
from eqfuse.frontends.results import arranged, taken_apart
from eqfuse.ir.terms import Map, Reduce, View

from .test_corpus import agree

RANDOM = torch.Generator().manual_seed(0)


def randn(*shape):
    return torch.randn(*shape, generator=RANDOM, dtype=torch.float64)


def choices(program):
    return [t for t in program.terms() if isinstance(t, Map) and t.op == "where"]


def sums(program):
    return sorted(sorted(a.size for a in t.axes) for t in program.terms() if isinstance(t, Reduce) and t.monoid == "sum")


def halves(x):
    """Rotary embedding's other half, as models write it."""
    h = x.shape[-1] // 2
    return torch.cat((-x[..., h:], x[..., :h]), -1)


def pairs(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2), -1) @ v


def sinks(q, k, v, s):
    scores = q @ k.transpose(-1, -2)
    scores = torch.cat([scores, s.reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)], -1)
    return torch.softmax(scores, -1)[..., :-1] @ v


def cached(q, k, v, k_new, v_new):
    return attention(q, torch.cat([k, k_new], 2), torch.cat([v, v_new], -2))


def joined(*shapes):
    return tuple(randn(*s) for s in shapes)


AB = joined((3, 2), (3, 5))
LABELS = torch.tensor([[0], [4], [6]])

VALUES = {
    "columns": (lambda a, b: torch.cat([a, b], 1) * 2, AB),
    "rows": (lambda a, b: torch.cat([a.T, b.T], -2).exp(), AB),
    "inputs alone": (lambda a, b: torch.cat([a, b], 1), AB),
    "many, one of them empty, one twice": (lambda a, b, c: torch.cat([a, b, c, a], 1) + 1, joined((3, 2), (3, 0), (3, 4))),
    "an empty vector": (lambda a: torch.cat([a, torch.empty(0, dtype=torch.float64)], 0) * 2, AB[:1]),
    "nothing": (lambda a: torch.cat([a[:0], a[:0]], 0) * 2, AB[:1]),
    "sum": (lambda a, b: torch.cat([a, b], 1).sum(1), AB),
    "mean": (lambda a, b: torch.cat([a, b], 1).mean(1), AB),
    "var of all": (lambda a, b: torch.var_mean(torch.cat([a, b], 1), (0, 1)), AB),
    "extrema and norms": (lambda a, b: (lambda y: (y.amin(1), y.amax(1), y.norm(dim=1), (y > 0).any(1), (y > -9).all(1)))(torch.cat([a, b], 1)), AB),
    "softmax": (lambda a, b: torch.softmax(torch.cat([a, b], 1), 1), AB),
    "log_softmax": (lambda a, b: torch.log_softmax(torch.cat([a, b], 1), 1), AB),
    "layer_norm": (lambda a, b, w: functional.layer_norm(torch.cat([a, b], 1), (7,), w, w), (*AB, randn(7))),
    "product over it": (lambda a, b, w: torch.cat([a, b], 1) @ w, (*AB, randn(7, 4))),
    "product beside it": (lambda a, b, w: torch.cat([a.T, b.T], 0) @ w, (*AB, randn(3, 4))),
    "products in it": (lambda a, b: torch.cat([a @ a.T, b @ b.T], 1), AB),
    "products in it, used": (lambda a, b: (lambda y: (y, y.softmax(1)))(torch.cat([a @ a.T, b @ b.T], 1)), AB),
    "in each other": (lambda a, b, c: torch.softmax(torch.cat([torch.cat([a, b], 1), c], 1), 1), (*AB, randn(3, 4))),
    "in each other, turned": (lambda a, b, c: torch.cat([torch.cat([a, b], 1).flip(1), c], 1) * 2, (*AB, randn(3, 4))),
    "cut across": (lambda a, b: torch.cat([a, b], 1)[:, 1:6:2] * 2, AB),
    "cut as joined": (lambda a, b: torch.cat([a, b, a], 1)[:, 2:9].sum(1), AB),
    "split as joined": (lambda a, b: (lambda p, q: p.sum(1) * q.sum(1))(*torch.cat([a, b], 1).split([2, 5], 1)), AB),
    "cut in two ways": (lambda a, b, c, d: (torch.cat([a, b], 1) * torch.cat([c, d], 1)).sum(1), (*AB, randn(3, 3), randn(3, 4))),
    "flattened": (lambda a, b: torch.cat([a, b], 1).flatten().softmax(0), AB),
    "flattened inside": (lambda a, b: torch.cat([a, b], 0).flatten(1).softmax(1), joined((3, 2, 4), (2, 2, 4))),
    "reshaped before": (lambda a, b: torch.cat([a.reshape(6), b.reshape(15)], 0) * torch.arange(21), AB),
    "gathered": (lambda a, b: torch.cat([a, b], 1).gather(1, LABELS), AB),
    "cross_entropy": (lambda a, b: functional.cross_entropy(torch.cat([a, b], 1), LABELS[:, 0]), AB),
    "positions": (lambda a: torch.cat([torch.arange(3), torch.arange(4)]) * a, (randn(7),)),
    "read at positions": (lambda a: torch.cat([a[torch.arange(2) + 1], a[torch.arange(3)]]) * 2, (randn(7),)),
    "number beside values": (lambda a: torch.cat([a, torch.ones(3, 1, dtype=torch.float64)], 1).sum(1), AB[:1]),
    "integers beside floats": (lambda a: torch.cat([a, torch.arange(6).reshape(3, 2)], 1), AB[:1]),
    "integers of two types": (lambda a, b: torch.cat([a, b], 0) + 1, (torch.arange(3), torch.arange(4, dtype=torch.int32))),
    "truth values": (lambda a, b: torch.cat([a > 0, b > 0], 1).sum(1), AB),
    "stack": (lambda a, b: (torch.stack([a, b], 1), torch.stack([a, b]).sum(0), torch.stack([a, b], -1).amax(-1)), joined((3, 5), (3, 5))),
    "hstack and vstack": (lambda a, b: (torch.hstack([a, b]), torch.vstack([a.T, b.T])), AB),
    "one value": (lambda a: torch.cat([a, -a, a.square()], 1).relu().sum(1), AB[:1]),
    "one value at steps": (lambda a: torch.cat([a[:, 1::2], -a[:, ::2]], 1), (randn(3, 6),)),
    "halves": (lambda x, c, s: x * c + halves(x) * s, joined((2, 3, 5, 6), (5, 6), (5, 6))),
    "pairs": (lambda x, c, s: x * c + pairs(x) * s, joined((2, 3, 5, 6), (5, 6), (5, 6))),
    "part of a head": (lambda x, c: torch.cat((x[..., :4] * c + halves(x[..., :4]), x[..., 4:]), -1), joined((2, 5, 6), (5, 4))),
    "sinks": (sinks, joined((2, 3, 4, 5), (2, 3, 7, 5), (2, 3, 7, 5), (3,))),
    "cache and a token": (cached, joined((2, 3, 1, 5), (2, 3, 7, 5), (2, 3, 7, 5), (2, 3, 1, 5), (2, 3, 1, 5))),
    "cache and a chunk": (cached, joined((2, 3, 4, 5), (2, 3, 7, 5), (2, 3, 7, 5), (2, 3, 4, 5), (2, 3, 4, 5))),
    "heads side by side": (lambda q, k, v: attention(q, k, v).transpose(1, 2).flatten(2), joined(*[(2, 3, 4, 5)] * 3)),
    "normalised when flat": (lambda a, x: functional.normalize((a.transpose(1, 2) @ x).transpose(1, 2).reshape(2, -1), dim=-1), joined((2, 5, 3), (2, 5, 4))),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_means_what_torch_computes(name):
    f, args = VALUES[name]
    program = trace(f, args).program
    if program.results:  # outputs are parts: what is arranged of them is compared
        from eqfuse.ir.reference import evaluate

        traced = trace(f, args)
        values = evaluate(program, {n: x.numpy() for n, x in traced.bind(*args).items()})
        got, want = traced.unflatten([torch.as_tensor(values[o.name]) for o in program.outputs]), f(*args)
        for g, w in zip(*((x,) if isinstance(x, torch.Tensor) else x for x in (got, want)), strict=True):
            torch.testing.assert_close(g.to(w.dtype), w, rtol=1e-10, atol=1e-10)
    else:
        agree(f, args)


def test_nothing_is_chosen_where_a_range_is_reduced_or_stored():
    for name in ("softmax", "sinks", "cache and a token", "cache and a chunk", "columns", "layer_norm", "products in it, used"):
        f, args = VALUES[name]
        assert not choices(trace(f, args).program), name
    assert choices(trace(*VALUES["cut across"]).program), "positions of both parts at one step"


@pytest.mark.parametrize("other", [halves, pairs], ids=lambda f: f.__name__)
def test_what_is_put_together_the_other_way_round_is_read_once(other):
    program = trace(lambda x: x + other(x), (randn(3, 6),)).program
    assert len([t for t in program.terms() if isinstance(t, View) and t.args[0] in program.inputs]) == 1
    assert len(choices(program)) == 1


@pytest.mark.parametrize("other", [halves, pairs], ids=lambda f: f.__name__)
def test_a_projection_is_rotated_and_projected_once(other):
    def f(x, w, c):
        q = (x @ w).view(5, 3, 6).transpose(0, 1)
        return q * c + other(q)

    assert len(sums(agree(f, joined((5, 7), (7, 18), (5, 6))).program)) == 1


def test_lengths_of_parts_stay_free():
    """No length is a number of the program, so a longer cache is the same program."""
    text = str(trace(cached, VALUES["cache and a token"][1]).program)
    longer = joined((2, 3, 1, 5), (2, 3, 9, 5), (2, 3, 9, 5), (2, 3, 1, 5), (2, 3, 1, 5))
    assert text.replace("rows=7", "rows=9") == str(trace(cached, longer).program)


def test_outputs_and_results_are_each_other():
    traced = trace(
        lambda q, k, v: (torch.cat([q, k], 1), attention(q, k, v).transpose(1, 2).flatten(2), q + 1), joined(*[(2, 3, 4, 5)] * 3)
    )
    q, k, v = joined(*[(2, 3, 4, 5)] * 3)
    want = [torch.cat([q, k], 1), attention(q, k, v).transpose(1, 2).flatten(2), q + 1]
    parts = taken_apart(traced.program, want)
    assert [tuple(p.shape) for p in parts] == [o.shape for o in traced.program.outputs]
    for found, w in zip(arranged(traced.program, parts), want, strict=True):
        assert torch.equal(found, w)
    assert all(x is y for x, y in zip(arranged(traced.program, want), want, strict=True) if x.shape == y.shape and x.dim() < 4)


def test_heads_keep_their_axes_where_nothing_flattens_a_reduction():
    program = trace(lambda x, y: (x @ y, x.flatten().exp(), x.sum(-1, keepdim=True) * x), joined((3, 4), (4, 5))).program
    assert program.results == ()


def test_a_gradient_through_a_concatenation_is_slices():
    def f(x, y):
        return torch.func.grad(lambda x, y: (torch.cat([x, y], 1).exp() * torch.arange(7)).sum(), argnums=(0, 1))(x, y)

    agree(make_fx(f)(*AB), AB)


def test_that_returns_its_input_is_still_refused():
    with pytest.raises(EmptyProgramError):
        trace(lambda a: torch.cat([a], 1), AB[:1])


@pytest.mark.parametrize("other", ["y_0", "y_1"])
def test_parts_are_called_as_nothing_else(other):
    class Two(torch.nn.Module):
        def forward(self, a, b):
            return {"y": torch.cat([a, b]).exp(), other: a + 2 * b}

    args = AB[0].float(), AB[0].float() + 1
    c = optimize(Two(), args, target="h200", time_budget=1.0)
    names = [o.name for o in c.program.outputs]
    assert len({*names, "y"}) == 4
    for found, expected in zip(c.interpret(*args).values(), Two()(*args).values(), strict=True):
        torch.testing.assert_close(found, expected)


def test_parts_are_called_as_no_argument():
    def f(out_1, b):
        return torch.cat([out_1, b], 1).exp()

    args = AB[0].float(), AB[1].float()
    torch.testing.assert_close(optimize(f, args, target="h200", time_budget=1.0).interpret(*args), f(*args))


def test_results_that_share_a_name_are_refused():
    program = trace(lambda a, b: torch.cat([a, b], 1).exp(), AB).program
    (whole,) = program.results
    with pytest.raises(ShapeError, match="two tensors are called 'out_1'"):
        replace(program, results=(replace(whole, name="out_1"),)).check()


def layer(x, a, b, c):
    return x + attention(x @ a, x @ b, x @ c)


def test_what_goes_through_layers_is_one_axis():
    """A class token before the rows of an image: each layer would be there twice as often as the one before."""

    def model(token, rows, a, b, c):
        return layer(layer(torch.cat([token, rows]), a, b, c), a, b, c)

    args = joined((1, 4), (6, 4), (4, 4), (4, 4), (4, 4))
    traced = agree(model, args)
    apart = trace(lambda x, a, b, c: layer(layer(x, a, b, c), a, b, c), joined((7, 4), (4, 4), (4, 4), (4, 4))).program
    assert len(sums(traced.program)) == len(sums(apart))
    assert not traced.program.results
    assert len(choices(traced.program)) <= 3, "one for each way in which it is read"


def test_a_residual_in_shifted_windows_is_one_value():
    """Swin's: what every second layer reads in windows that are shifted is not written again down to the first layer."""

    def block(x, w, shift):
        y = x.roll(shift, 0).view(3, 4, 5) @ w
        return x + torch.tanh(y.view(12, 5).roll(-shift, 0))

    def model(n):
        def f(x, w):
            for k in range(n):
                x = block(x, w, 2 * (k % 2))
            return x

        return f

    args = joined((12, 5), (5, 5))
    agree(model(3), args)
    lengths = [len(trace(model(n), args).program.terms()) for n in (2, 4, 6, 8)]
    steps = [b - a for a, b in pairwise(lengths)]
    assert steps[-1] <= 1.2 * steps[0], f"terms grow with the layers, not with their square: {lengths}"


@pytest.mark.parametrize(
    ("f", "shape"),
    [
        (lambda x: torch.cat([x * 2, x.sum(1, keepdim=True)], 1), (37, 40)),
        (lambda x: torch.cat([x * 2, x.sum(1, keepdim=True)], 1), (37, 40, 1)),
        (lambda x: torch.stack([x.sum(1), x.amax(1)], -1), (37, 40)),
    ],
    ids=["beside rows", "beside rows of ones", "beside a column"],
)
def test_a_column_beside_others_has_no_neighbours_in_memory(f, shape):
    """Its rows are as far apart as those of the result."""
    x = torch.randn(*shape)
    torch.testing.assert_close(optimize(f, (x,), target="cpu")(x), f(x))
