"""Convolutions found among values by what they compute: the call that is said computes the value, and what is nearly one is none."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812 - as in torch's own documentation

import eqfuse
from eqfuse.extract.convolutions import convolution
from eqfuse.extract.library import CONVOLUTION
from eqfuse.extract.targets import load_target
from eqfuse.frontends import trace
from eqfuse.ir.reference import evaluate_terms
from eqfuse.runtime.native import compiler

RANDOM = torch.Generator().manual_seed(0)
CPU = load_target("cpu")
SLOW = replace(CPU.core, product_gflops=0.1, inner_gflops=0.1, vector_gops=0.1)
FAST = replace(CPU, library_us=0.0, library_tflops={"float32": 1e3, "bfloat16": 1e3}, core=SLOW)  # where all products are the library's


def randn(*shape):
    return torch.randn(*shape, generator=RANDOM)


def root(f, *args):
    """The value that a function returns, and its arguments by the names that the program has for them."""
    traced = trace(f, args)
    (output,) = traced.program.outputs
    return output.term, traced.bind(*args)


def handed(tensor, layout, order):
    """A tensor with the axes of a dimension each as a function takes it."""
    held = [a for a in layout if a is not None]
    axes = [a for dim in order for a in dim]
    seen = tensor.reshape([a.size for a in held]).permute([held.index(a) for a in axes if a is not None])
    return seen[tuple(None if a is None else slice(None) for a in axes)]


def called(found, tensors):
    """What the function of a convolution returns, an axis for each of its own."""
    y, *orders = found.orders
    terms = [t for t in (found.x, found.weight, found.added) if t is not None]
    args = [handed(tensors[t.name].double(), t.layout, order) for t, order in zip(terms, orders, strict=False)]
    (_, name), named = found.function
    axes = tuple(a for dim in y for a in dim if a is not None)
    return axes, getattr(F, name)(*args, **dict(named)).reshape([a.size for a in axes]).numpy()


@st.composite
def windows(draw):
    kernel, stride, dilation = (draw(st.integers(1, 3)) for _ in range(3))
    return draw(st.integers(3, 7)), kernel, stride, draw(st.integers(0, 2)), dilation, draw(st.integers(0, max(stride, dilation) - 1))


@settings(max_examples=80, deadline=None)
@given(st.lists(windows(), min_size=1, max_size=3), st.booleans(), st.booleans(), st.tuples(st.integers(1, 3), st.integers(2, 3)))
def test_the_call_computes_the_value(windows, transposed, bias, channels):
    n, kernel, stride, padding, dilation, more = map(list, zip(*windows, strict=True))
    inner, outer = channels
    x, w = randn(2, inner, *n), randn(*((inner, outer) if transposed else (outer, inner)), *kernel)
    b = randn(outer) if bias else None
    k = len(windows)

    def f(x, w, b):
        if transposed:
            return getattr(F, f"conv_transpose{k}d")(x, w, b, stride, padding, more, 1, dilation)
        return getattr(F, f"conv{k}d")(x, w, b, stride, padding, dilation)

    reach = [d * (m - 1) + 1 for d, m in zip(dilation, kernel, strict=True)]
    sized = zip(n, reach, stride, padding, more, strict=True)
    assume(all(((a - 1) * s - 2 * p + r + e if transposed else (a + 2 * p - r) // s + 1) > 0 for a, r, s, p, e in sized))
    term, tensors = root(f, x, w, b)
    found = convolution(term)
    if found is not None:
        axes, result = called(found, tensors)
        (value,) = evaluate_terms((term,), {name: t.double().numpy() for name, t in tensors.items()})
        np.testing.assert_allclose(result, value.aligned(axes), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("stride", "padding", "dilation"), [(1, 1, 1), (2, 1, 1), (1, 2, 2), (3, 1, 2), ((1, 2), (0, 1), 1)]
)  # side by side they are products
def test_usual_ones_are_found(stride, padding, dilation, transposed):
    f, w = (F.conv_transpose2d, randn(3, 4, 3, 2)) if transposed else (F.conv2d, randn(4, 3, 3, 2))
    term, _ = root(lambda x, w: f(x, w, stride=stride, padding=padding, dilation=dilation), randn(2, 3, 9, 8), w)
    found = convolution(term)
    assert found is not None
    named = dict(found.function[1])
    for name, wanted in (("stride", stride), ("padding", padding), ("dilation", dilation)):
        assert named[name] == (wanted if isinstance(wanted, tuple) else (wanted, wanted))


X, W, V = randn(2, 3, 7, 6), randn(4, 3, 3, 2), randn(3, 4, 4, 2)
ALMOST = {
    "a product": lambda x, w, v: torch.einsum("bchw,oc->bohw", x, w[:, :, 0, 0]),
    "one channel at a time": lambda x, w, v: F.conv2d(x, w[:3, :1], groups=3),
    "other padding": lambda x, w, v: F.conv2d(F.pad(x, (1, 1), mode="circular"), w),
    "a part of the input": lambda x, w, v: F.conv2d(x[:, :, 1:], w, padding=1),
    "more after than before": lambda x, w, v: F.conv2d(F.pad(x, (0, 1)), w),
    "weights by position": lambda x, w, v: (x[:, None] * w[None, :, :, :1, :1]).sum(2) * x[:, :1],
    "a mask of data": lambda x, w, v: torch.einsum("bchw,ochk->bowk", torch.where(x > 0, x, 0.0)[:, :, :3], w),
    "more than once": lambda x, w, v: (F.conv2d(x, w)[..., None] * w.new_ones(1, 1, 1, 1, 5)).sum(-1),
    "turned windows": lambda x, w, v: F.conv2d(x, w.flip(2)),
}  # fmt: skip


@pytest.mark.parametrize("name", ALMOST)
def test_what_is_nearly_one_is_none(name):
    assert convolution(root(ALMOST[name], X, W, V)[0]) is None


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize(
    ("f", "kernels"),
    [
        (lambda x, w, v: torch.tanh(F.conv2d(torch.sin(x), w, padding=1, stride=2)), 2),
        (lambda x, w, v: F.conv_transpose2d(x, v, stride=2, padding=1), 0),
        (lambda x, w, v: F.conv_transpose2d(x, v, stride=2, padding=1).relu(), 1),
        (lambda x, w, v: F.conv2d(x.to(memory_format=torch.channels_last), w, w[:, 0, 0, 0].clone()), 1),
    ],
    ids=["between kernels", "phases", "phases before a kernel", "with a bias"],
)
def test_the_library_is_called_where_it_is_faster(f, kernels):
    args = X, W, V
    c = eqfuse.optimize(f, args, target=FAST)
    assert [k.rule for k in c.plan.calls] == [CONVOLUTION]
    assert len(c.plan.kernels) == kernels
    torch.testing.assert_close(c(*args), f(*args))
    other = [torch.cat([X, X[:1]]), W, V]
    torch.testing.assert_close(c(*other), f(*other))


@pytest.mark.parametrize("time_budget", [0.01, 0.1])
def test_the_library_is_looked_at_however_late_it_is(time_budget):
    """A call takes no search: a budget that kernels have used up leaves no plan of theirs where the library's is quicker."""
    x, w, b = (torch.empty(shape, device="meta") for shape in ((2, 64, 33, 33), (72, 64, 3, 3), (72,)))
    c = eqfuse.optimize(lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1).relu(), (x, w, b), target=FAST, time_budget=time_budget)
    assert [k.rule for k in c.plan.calls] == [CONVOLUTION]


def test_late_calls_are_taken_together():
    """Of several convolutions each has one, though einsum offers the same values for less."""

    def f(x, *weights):
        for w in weights:
            x = F.conv2d(x, w, padding=1).relu()
        return x

    args = [torch.empty(shape, device="meta") for shape in ((2, 64, 33, 33), (72, 64, 3, 3), (64, 72, 3, 3), (64, 64, 3, 3))]
    c = eqfuse.optimize(f, args, target=FAST, time_budget=0.01)
    assert [k.rule for k in c.plan.calls] == [CONVOLUTION] * 3


def test_the_plan_says_what_the_library_would_take():
    x, w = (torch.empty(shape, device="meta") for shape in ((2, 16, 2, 2), (16, 16, 2, 2)))
    c = eqfuse.optimize(lambda x, w: F.conv2d(x, w, padding=1), (x, w), target=replace(CPU, library_us=1e6))
    assert not c.plan.calls
    assert "library_convolution (extract/library.py) offers torch.nn.functional:conv2d for out" in str(c.plan)
