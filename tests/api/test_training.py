"""``optimize(..., training=True)``: gradients of generated kernels against float64, what is saved, and what is refused."""

import copy
import math

import pytest
import torch
from torch.nn import functional

import eqfuse
from eqfuse.errors import AccuracyError, OptionError, StaticArgumentError, TraceError
from eqfuse.extract.saving import parted
from eqfuse.frontends.joint import trace_joint
from eqfuse.ir.terms import Reduce
from eqfuse.planning import Request, checked, equal_programs, run


def randn(*shape, learned=True, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).requires_grad_(learned)


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1) @ v


def loss(h, w, y):
    return functional.cross_entropy(h @ w.t(), y, label_smoothing=0.1, ignore_index=2)


def turned(x, cos, sin):
    """Rotary embedding of neighbours: slices by steps, put together again."""
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def root_mean_square(x, w):
    """Its statistics are saved in float32, though every tensor of it is in float16."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


class Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x):
        return torch.tanh(self.norm(x)), x.shape[0]


LABELS = torch.tensor([1, 2, 0, 6, 3])
PROGRAMS = {  # the function, its arguments, and how many bytes may be saved: too few for scores, which kernels then make again
    "attention": (attention, (randn(7, 5), randn(9, 5, seed=1), randn(9, 6, seed=2)), 56),
    "loss": (loss, (randn(5, 9), randn(13, 9, seed=1), LABELS), None),
    "turned": (turned, (randn(2, 7, 6), randn(7, 3, learned=False), randn(7, 3, learned=False, seed=1)), None),
    "half": (root_mean_square, (randn(5, 33).half().detach().requires_grad_(), randn(33).half().detach().requires_grad_()), None),
    "normed": (Normed(), (randn(4, 3, 5),), None),
    "repeated": (
        lambda x: (x.softmax(0).expand(5, 4), functional.layer_norm(v := x.expand(5, 3).cumsum(1), (3,)), v),
        (randn(5, 1),),
        None,
    ),
    "pooled": (lambda x: functional.avg_pool2d(x.sin(), 3, 2, 1), (randn(2, 5, 6),), None),
    "products": (
        lambda x: x.cumprod(1).sum(),
        (torch.tensor([[0.5, 2.0, -1.5], [0.0, 3.0, 1.0], [2.0, 0.0, 0.0]]).requires_grad_(),),
        None,
    ),
}


def learned(fn, args):
    own = list(fn.parameters()) if isinstance(fn, torch.nn.Module) else []
    return [a for a in (*args, *own) if isinstance(a, torch.Tensor) and a.requires_grad]


def differentiated(call, inputs, cotangents):
    """The results that have a gradient, and the gradients of the inputs."""
    out = call()
    out = [x for x in (out if isinstance(out, tuple) else (out,)) if isinstance(x, torch.Tensor)]
    found = torch.autograd.grad(out, inputs, [c.to(x.dtype) for c, x in zip(cotangents, out, strict=True)])
    return [*out, *found]


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_kernels_are_those_of_float64(name, monkeypatch):
    monkeypatch.setenv("EQFUSE_AUDIT", "0")  # numbers are compared below
    fn, args, limit = PROGRAMS[name]
    fn = copy.deepcopy(fn)
    c = eqfuse.optimize(fn, args, target="h200", training=True, time_budget=2.0, memory_limit=limit)
    assert limit is None or c.saved_bytes <= limit
    wide = copy.deepcopy(fn).double() if isinstance(fn, torch.nn.Module) else fn
    given = [a.detach().double().requires_grad_(a.requires_grad) if a.is_floating_point() else a for a in args]
    out = wide(*given)
    cotangents = [
        randn(*x.shape, learned=False, seed=9) for x in (out if isinstance(out, tuple) else (out,)) if isinstance(x, torch.Tensor)
    ]
    if isinstance(wide, torch.nn.Module):
        wide.load_state_dict(fn.state_dict())  # as before the call
    expected = differentiated(lambda: wide(*given), learned(wide, given), cotangents)
    found = differentiated(lambda: c.interpret(*args), learned(fn, args), cotangents)
    for x, y in zip(found, expected, strict=True):
        near = 4e-3 if x.dtype == torch.float16 else 1e-5
        torch.testing.assert_close(x.double(), y, rtol=near, atol=near)
    if isinstance(fn, torch.nn.Module):  # running statistics
        for x, y in zip(fn.buffers(), wide.buffers(), strict=True):
            torch.testing.assert_close(x.to(y.dtype), y)
    text = str(c)
    assert "saved for the backward pass" in text
    assert all(s.input.name in text for s in c.saved)


@pytest.fixture(scope="module")
def scores():
    """Both passes of attention at a length where the scores take 2 GB."""
    example = torch.empty(4, 16, 4096, 64, dtype=torch.float16, device="meta", requires_grad=True)
    joint = trace_joint(attention, (example,) * 3, {})
    request = checked(Request(joint.traced.program, None, None, "h200"))
    program = equal_programs(request, joint.traced)[1]
    grads = set(joint.gradients.values())
    return parted(program, set(joint.tangents.values()), {"out"}, grads, request.target), request


def test_scores_are_made_again_in_the_backward_pass(scores):
    """Flash attention's backward pass: a kernel for the gradient of queries, one for those of keys and values, and the row sums of dO * O
    between them, which the search for equal programs finds: they were sums over the scores.  That is for little memory: with room for
    4 GB the model takes a tenth less where the first kernel stores its products for the gradients of keys and values."""
    passes, request = scores
    assert {s.input.name for s in passes.saved if s.result} == {"out"}
    assert passes.held < 4e6
    sums = [t for t in passes.backward.terms() if isinstance(t, Reduce) and t.args[0].axes == passes.saved[-1].input.axes]
    assert len(sums) == 1
    plan = run(Request(passes.backward, None, None, request.target, memory_limit=4e6)).plan
    assert len(plan.steps) == 2
    assert plan.temporary_bytes < 4e6


def test_statistics_are_saved_with_all_their_digits(scores):
    passes, _ = scores
    assert [s.dtype.name for s in passes.saved if not s.result] == ["float32"] * 2


def test_wide_products_are_saved():
    """Making a product of a wide layer again takes longer than reading it; its activation is made again from it."""

    def layer(x, up, down):
        return torch.relu(x @ up) @ down

    sizes = ((8192, 4096), (4096, 4096), (4096, 4096))
    args = [torch.empty(*n, dtype=torch.bfloat16, device="meta", requires_grad=True) for n in sizes]
    joint = trace_joint(layer, args, {})
    program = joint.traced.program
    target = checked(Request(program, None, None, "h200")).target
    of = (program, set(joint.tangents.values()), {"out"}, set(joint.gradients.values()), target)
    assert parted(*of).held == 8192 * 4096 * 2
    assert parted(*of, limit=0).held == 0
    assert parted(*of, limit=0).us > parted(*of).us


def test_what_is_refused():
    x = randn(4, 6)
    for fn, args, error, text in (
        (torch.relu, (x.detach(),), TraceError, "nothing requires a gradient"),
        (lambda a: a.detach() * 2, (x,), TraceError, "no result depends on"),
        (lambda a: a * x, (x.detach(),), TraceError, "captured"),
        (lambda a, b: a.detach().add_(1) * b, (x, x), TraceError, "writes to its argument"),
    ):
        with pytest.raises(error, match=text):
            eqfuse.optimize(fn, args, target="h200", training=True)


def weighted(q, k, v):
    scores = q @ k.transpose(-1, -2)
    weights = torch.softmax(scores, -1)
    return weights @ v


def test_options_about_kernels_are_about_those_of_a_pass():
    args = randn(7, 5), randn(9, 5, seed=1), randn(9, 6, seed=2)

    def step(**options):
        return eqfuse.optimize(weighted, args, target="h200", training=True, time_budget=2.0, **options)

    plain, apart = step(), step(fusion=[("forbid", "grad_q", "grad_k"), ("forbid", "out", "grad_k")])
    assert "weights" in {s.input.name for s in plain.saved}, "values are called as the user calls them"
    assert len(apart.plan.kernels) == len(plain.plan.kernels) + 1
    held, content = (d.outcome for d in apart.plan.decisions)
    assert held.startswith("held") and "different passes" in content
    for verdict, text in ((("require", "out", "grad_k"), "different passes"), (("forbid", "out", "nobody"), "'nobody'")):
        with pytest.raises(OptionError, match=text):
            step(fusion=[verdict])
    assert str(step(accuracy_factor=3.0)).count("within 3 times eager") == 2
    with pytest.raises(AccuracyError, match="no plan is within"):
        step(accuracy_factor=1e-9)


def test_calls():
    x = randn(4, 6)
    c = eqfuse.optimize(torch.tanh, (x,), target="h200", training=True)
    (c(x).sum()).backward()  # a CPU tensor: in torch
    torch.testing.assert_close(x.grad, 1 - torch.tanh(x.detach()) ** 2)
    with pytest.raises(StaticArgumentError):
        c.interpret(randn(5, 6))
    with pytest.raises(TraceError, match="derivative of the backward pass"):
        torch.autograd.grad(c.interpret(x).sum(), x, create_graph=True)
    with torch.no_grad():
        assert not c.interpret(x).requires_grad
