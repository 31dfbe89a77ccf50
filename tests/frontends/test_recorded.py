"""What is recorded is what torch's export gives: the same program with its names and lines, of the same tensors; or the same error."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import nn

from eqfuse.errors import EqFuseError, TraceError
from eqfuse.frontends import TensorSpec, capture, read
from eqfuse.frontends.calls import Held
from eqfuse.testing import opinfo
from eqfuse.testing.models import MODELS
from eqfuse.testing.programs import PROGRAMS
from eqfuse.testing.small_models import SMALL

X, W, P = torch.ones(4, 6), torch.randn(6, 6), nn.Parameter(torch.randn(6, 6))
TWO = torch.tensor(2.0)


def found(obj, args, kwargs=None):
    """All that tracing gives, for comparing; and whether it was recorded."""
    torch.manual_seed(0)
    try:
        result = read(obj, args, kwargs)
    except EqFuseError as error:
        return (type(error), error.message, error.where, error.cure), None
    if (t := result.traced) is None:
        return (type(result.error), result.error.message, result.error.where, result.error.cure), result.captured
    held = {k: v for k, v in t.captured.items() if "lifted" not in k or k in t.graph.captured}
    return (t.program, dict(t.specs), sorted(t.captured), held.keys(), t.convention.spec, t.convention.leaves), t.graph


def same(obj, args, kwargs=None, *, is_recorded, names=True):
    """Trace in both ways and compare."""
    ours, graph = found(obj, args, kwargs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capture, "record", refuse)
        theirs, exported = found(obj, args, kwargs)
    if graph is not None and exported is not None:
        assert isinstance(graph.exported, Held) == is_recorded
        assert not isinstance(exported.exported, Held)
    if not names:
        ours, theirs = ((replace(p, names={}, sources={}), *rest) for p, *rest in (ours, theirs))
    assert ours == theirs


def refuse(*_):
    raise TraceError("recorded by export")


@pytest.mark.parametrize("size", ["small", "odd"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_corpus(name, size):
    same(PROGRAMS[name].fn, PROGRAMS[name].args(size, torch.float16), is_recorded=True)


@pytest.mark.parametrize("name", MODELS)
def test_layers_of_models(name):
    same(MODELS[name].module("tiny", 2, torch.float32, "cpu"), MODELS[name].args("tiny", torch.float32, "cpu"), is_recorded=True)


@pytest.mark.parametrize("name", SMALL)
def test_small_models(name):
    """A cell of a recurrent network writes to parts of what it has made."""
    model = SMALL[name]().eval()
    same(model, model.batch(torch.Generator().manual_seed(0)), is_recorded=name != "recurrent")


PARTS = 24


@pytest.mark.parametrize("part", [0, *(pytest.param(k, marks=pytest.mark.exhaustive) for k in range(1, PARTS))])
def test_operators(part):
    """Every operator of torch's database, errors included.  In a graph of export a copy in ``nanmean`` has a name."""
    for op in opinfo.database()[part::PARTS]:
        if opinfo.name_of(op) == "nanmean":
            continue
        for sample in [s for d in (torch.float32, torch.int64) for s in opinfo.samples(op, d, 1)]:
            call, tensors = opinfo.case(op, sample)
            if not tensors:
                continue
            ours, _ = found(call, tuple(tensors))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(capture, "record", refuse)
                theirs, _ = found(call, tuple(tensors))
            assert ours == theirs, opinfo.name_of(op)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def helper(x):
    z = x.softmax(-1)
    return z.log()


def in_place(x):
    y = x * 2
    y += 1
    y.mul_(x).masked_fill_(x > 0, 0.0)
    z = torch.empty_like(y)
    z.copy_(y)
    return y.relu_() + z


def from_its_device(x):
    table = torch.arange(6, device=x.device) if x.device.type == "cpu" and x.is_cpu and not x.is_meta else None
    return x + table


def split(x):
    a, b = x.split(3, -1)
    return a * b, x.chunk(2)[1], x.unbind(0)[2] + 1


RECORDED = {
    "tensors of a closure": lambda x: x @ W + W[:4] * TWO + x @ W.T,
    "a parameter of a closure": lambda x: x @ P,
    "tensors of numbers": lambda x: x[torch.tensor([0, 2])] + torch.tensor([1.0, 2, 3, 4, 5, 6]) * torch.tensor(3.0),
    "in place": in_place,
    "a device": from_its_device,
    "several results": split,
    "results that are arguments": lambda x: (x, x + 1, 3, None, "text"),
    "results in structures": lambda x: {"a": x + 1, "b": [x * 2, (x.T + 1,)]},
    "one result twice": lambda x: [x.exp()] * 2,
    "a helper": lambda x: helper(x) + x.detach(),
    "vmap": lambda x: torch.vmap(lambda row: row.softmax(0))(x),
    "an autograd function": lambda x: Doubled.apply(x) + 1,
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
    "dropout of none": lambda x: F.dropout(x, 0.5, False) + 1,
    "the grad mode": lambda x: x * 2 if torch.is_grad_enabled() and not x.requires_grad else x * 3,
    "sizes": lambda x: x * x.shape[0] * x.size(-1) * x.numel() / x.stride(0),
    "factories": lambda x: x + torch.arange(6) + torch.zeros_like(x) + torch.ones(4, 6) + x.new_full((6,), 2) + torch.eye(6)[:4],
    "random numbers": lambda x: x + torch.rand(4, 6),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded(name):
    same(RECORDED[name], (X,), is_recorded=True)


def test_recorded_without_grad_has_the_names_of_the_user():
    """Export has one operator for what is in the block, and its name."""

    def without_grad(x):
        with torch.no_grad():
            y = x * 2
        return y + x

    same(without_grad, (X,), is_recorded=True, names=False)
    assert "y" in read(without_grad, (X,)).traced.program.names


def test_arguments_in_structures_and_by_name():
    def f(d, pairs, *, scale=2.0, mask=None):
        return d["a"] + pairs[0][1] * pairs[1] * scale + (0 if mask is None else mask)

    given = ({"a": X}, [(1, TensorSpec((4, 6), torch.float32)), 2.0])
    same(f, given, is_recorded=True)
    same(f, given, {"mask": X, "scale": 3}, is_recorded=True)
    same(lambda: W * 2, (), is_recorded=True)


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.unused = nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(2, 2)
        self.register_buffer("table", torch.ones(6))
        self.register_buffer("other", torch.ones(6), persistent=False)
        self.plain = torch.ones(6)
        self.again = self.linear
        self.calls = 0

    def forward(self, x, *, k=None):
        self.calls += 1
        return self.norm(self.linear(x)) + self.table + self.other + self.plain + self.again(x) + (0 if k is None else k)


class Writes(Module):
    def forward(self, x):
        self.table += 1
        return self.linear(x) * self.table


class Keeps(Module):
    def forward(self, x):
        self.last = x * 2
        return self.linear(x) + self.last


def modules():
    yield "a module", Module().eval(), (X,), {}
    yield "by name", Module().eval(), (X,), {"k": X}
    yield "heads", nn.MultiheadAttention(6, 2).eval(), (X, X, X), {}
    yield "an encoder", nn.TransformerEncoderLayer(6, 2, 8).eval(), (X,), {}
    yield "a graph module", torch.fx.symbolic_trace(nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True))), (X,), {}
    yield "a traced module", torch.fx.symbolic_trace(Module().eval()), (X,), {}


@pytest.mark.parametrize(("module", "args", "kwargs"), [pytest.param(*m[1:], id=m[0]) for m in modules()])
def test_modules(module, args, kwargs):
    before = {k: (v, v.clone()) for k, v in module.state_dict(keep_vars=True).items()}
    same(module, args, kwargs, is_recorded=True)
    after = module.state_dict(keep_vars=True)
    assert all(after[k] is v and torch.equal(v, value) for k, (v, value) in before.items())
    assert getattr(module, "calls", 0) == 0, "what it counts is restored, as export restores it"


def writes_to_a_view(x):
    y = x * 2
    y[:, 1:] = 0
    y.view(24).mul_(2)
    return y


def casts(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x @ W).softmax(-1)


def differentiates(x):
    x = x.requires_grad_()
    return torch.autograd.grad((x * x).sum(), x)[0]


EXPORTED = {
    "views that are written": writes_to_a_view,
    "a given result": lambda x: torch.add(x, 1, out=torch.empty_like(x)),
    "its argument": lambda x: x.add_(1) * 2,
    "autocast": casts,
    "a number of data": lambda x: x * float(TWO),
    "data of a closure": lambda x: x * W[0, 0].item(),
    "data by numpy": lambda x: x + torch.from_numpy(W.numpy()[:4]),
    "a branch on data": lambda x: x + 1 if x.sum() > 0 else x,
    "a branch as an operator": lambda x: torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y * 2, (x,)),
    "a shape of data": lambda x: x[x > 0] + 1,
    "a derivative": lambda x: torch.func.grad(lambda y: y.sum())(x),
    "a derivative by autograd": differentiates,
    "data of an argument": lambda x: x.data * 2,
    "dropout": lambda x: F.dropout(x, 0.5, True) + 1,
    "a sparse tensor": lambda x: x.to_sparse().to_dense() * 2,
    "what is not there": lambda x: x.no_such_method(),
    "shapes that do not fit": lambda x: x @ x,
}


@pytest.mark.parametrize("name", EXPORTED)
def test_exported(name):
    same(EXPORTED[name], (X,), is_recorded=False)


@pytest.mark.parametrize("module", [Module(), Writes(), Keeps(), nn.GRU(6, 6).eval()], ids=["statistics", "writes", "keeps", "cells"])
def test_modules_that_write_are_exported(module):
    values = {k: v.clone() for k, v in module.state_dict().items()}
    same(module, (X,), is_recorded=False)
    assert all(torch.equal(v, values[k]) for k, v in module.state_dict().items())


def test_nothing_is_left_behind():
    """Neither the flags that torch has for its compilers nor its modes, whatever the function raises."""
    seen = []

    def breaks(x):
        seen.append(torch.compiler.is_exporting())
        raise KeyError("stop")

    with pytest.raises(TraceError, match="KeyError"):
        read(breaks, (X,))
    assert seen == [True, True], "recorded, then exported"
    assert not torch.compiler.is_exporting()
    assert not torch.compiler.is_compiling()
    assert X.device.type == "cpu"
    assert (X + 1).requires_grad is False
    assert (P * 1).requires_grad is True
