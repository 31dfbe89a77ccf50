"""Unusual values through the whole path: both runners against eager PyTorch in float64, shape and type included."""

import math

import pytest
import torch

import eqfuse
from eqfuse.ir.build import axes, iota, maximum_over, program, sum_over, tensor
from eqfuse.runtime.interpreter import interpret
from eqfuse.runtime.modules import load_module
from eqfuse.tiles.program import Store

G = torch.Generator().manual_seed(0)
X = torch.randn(5, 7, generator=G)
W = torch.randn(7, 3, generator=G)
LABELS = torch.tensor([3, 0, 6, -100, 2])
BIG = torch.tensor([[2**40 + 1, -(2**33) - 7, 5]])


def flat(value):
    return [v for v in torch.utils._pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]


def double(t):
    return t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t


def agree(fn, *args, runners=("interpret", "simulate"), **kwargs):
    """Optimise, run, compare; returns the compiled program.  Shapes and types must be eager's."""
    compiled = eqfuse.optimize(fn, args, kwargs=kwargs or None, target="h200")
    eager = fn(*args, **kwargs)
    exact = flat(fn(*map(double, args), **{k: double(v) for k, v in kwargs.items()}))
    for runner in runners:
        found = getattr(compiled, runner)(*args, **kwargs)
        assert torch.utils._pytree.tree_structure(found) == torch.utils._pytree.tree_structure(eager)
        for f, e, x in zip(flat(found), flat(eager), exact, strict=True):
            assert f.shape == e.shape
            if runner == "interpret":
                assert f.dtype == e.dtype
            unit = torch.finfo(e.dtype).eps if e.is_floating_point() else 0.0
            torch.testing.assert_close(f.double(), x.double(), rtol=4 * unit, atol=4 * unit, equal_nan=True)
    return compiled


def twice(x):
    y = torch.softmax(x, -1)
    return y, y, y.T


VALUES = {
    "0-d input": (lambda x, s: x * s + s, X, torch.tensor(2.5)),
    "0-d output": (lambda x: (x.sum(), x.sum(-1)), X),
    "0-d only": (lambda s: s * 2 + 1, torch.tensor(2.5)),
    "size 1": (lambda x: torch.softmax(x, -1), X[:, :1]),
    "one element": (lambda x: torch.logsumexp(x, -1), X[:1, :1]),
    "input passed through": (lambda x: (x, x * 2), X),
    "transposed input passed through": (lambda x: {"t": x.T, "y": x * 2}, X),
    "output used twice": (twice, X),
    "output in two types": (lambda x: ((x * 2), (x * 2).half()), X),
    "output built from another": (lambda x: (x.exp(), x.exp().sum(-1)), X),
    "constants beside": (lambda x: (x * 2, None, 3, torch.zeros(3)), X),
    "transposed": (lambda x: torch.softmax(x, -1), X.T),
    "every second": (lambda x: torch.softmax(x, -1), X[::2, 1::2]),
    "expanded rows": (lambda x: torch.softmax(x, -1), X[:1].expand(5, 7)),
    "expanded from one": (lambda x, y: (x * y).sum(-1), X[:1, :1].expand(5, 7), X),
    "expanded operand": (lambda x, w: x @ w, X[:1].expand(5, 7), W),
    "broadcast output": (lambda x: x.sum(-1, keepdim=True).expand(5, 7), X),
    "broadcast new dimension": (lambda x: (x * 2)[:, None, :].expand(5, 3, 7), X),
    "kept dimension": (lambda x: x.amax(-1, keepdim=True), X),
    "mask": (lambda x: x > 0.25, X),
    "mask of masks": (lambda x: ((x > 0) & ~(x > 1), (x > 0).any(-1)), X),
    "mask input": (lambda x, m: torch.where(m, x, -1.0), X, X > 0),
    "count": (lambda x: (x > 0).sum(-1), X),
    "labels": (lambda x, t: (x * 2, torch.where(t == -100, 0, t) + 1), X, LABELS),
    "large integers": (lambda t: (t * 3 + 1, -t, t < 7), BIG),
    "int32": (lambda t: t * 2 + 1, LABELS.to(torch.int32)),
    "to integer": (lambda x: (x * 10).long(), X),
    "no rows": (lambda x: torch.softmax(x, -1), X[:0]),
    "no columns": (lambda x: torch.softmax(x, -1), X[:, :0]),
    "sum of nothing": (lambda x: x.sum(-1) + 1, X[:, :0]),
    "mean of nothing": (lambda x: x.mean(-1), X[:, :0]),
    "log of nothing": (lambda x: torch.logsumexp(x, -1), X[:, :0]),
    "product over nothing": (lambda x, w: x @ w, X[:, :0], W[:0]),
    "product without rows": (lambda x, w: x @ w, X[:0], W),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    fn, *args = VALUES[name]
    agree(fn, *args)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_types_in_are_types_out(dtype):
    agree(lambda x, w: (x @ w, torch.softmax(x, -1), x > 0), X.to(dtype), W.to(dtype), runners=["interpret"])


def test_reductions_of_nothing_are_their_identities():
    i, j = axes(i=5, j=0)
    x = tensor("x", i, j)
    p = program("nothing", largest=(maximum_over(j, x), (i,)), total=(sum_over(j, x) + 2.0, (i,)), at=(sum_over(j, x * iota(j)), (i,)))
    c = eqfuse.optimize(p, target="h200")
    for run in (c.interpret, c.simulate):
        largest, total, at = run(torch.ones(5, 0))
        assert largest.tolist() == [-math.inf] * 5
        assert total.tolist() == [2.0] * 5
        assert at.tolist() == [0.0] * 5


def test_a_kernel_of_several_results_at_no_rows():
    """A program for each row of one result stores the other one, too; of no rows there has to be one all the same."""
    c = eqfuse.optimize(lambda x, y: (x + y.sum(), y.sum()), [torch.empty(n, device="meta") for n in (4000, 50)], target="h200")
    assert [s.once != () for s in c.plan.kernels[0].tiles.statements() if isinstance(s, Store)] == [False, True]
    args = [torch.ones(0), torch.ones(7)]
    for run in (c.at(*args).interpret, c.at(*args).simulate):
        assert [t.tolist() for t in run(*args)] == [[], 7.0]


def test_a_saved_kernel_refuses_an_empty_axis_that_it_would_load_whole():
    """Planned for 8 columns on chip, loaded without a mask: none of them is not a multiple of 8 that works."""
    c = eqfuse.optimize(lambda x: x.sum(-1), (torch.ones(5, 8),), target="h200")
    module = load_module(c.source, "interpret")
    assert interpret(module, "run", torch.ones(3, 8))[0].tolist() == [8.0] * 3
    with pytest.raises(ValueError, match="optimize again"):
        interpret(module, "run", torch.ones(5, 0))


def test_many_outputs_keep_their_structure():
    def fn(x, *, options):
        return {"a": [x * 2, (x.sum(-1), options["shift"] + x)], "b": x.amax(0)}

    compiled = agree(fn, X, options={"shift": X[0]})
    assert len(compiled.program.outputs) == 4


def test_results_of_two_ops_share_no_memory():
    compiled = agree(lambda x: (x * 2, x * 2), X)
    assert len(compiled.program.outputs) == 1
    a, b = compiled.interpret(X)
    a += 1
    assert torch.equal(b, X * 2)
    same = eqfuse.optimize(lambda x: (lambda y: (y, y))(x * 2), (X,), target="h200").interpret(X)
    assert same[0] is same[1], "one result returned twice is one tensor, as in eager"


def test_accuracy_of_repeated_and_constant_outputs():
    compiled = agree(lambda x: (twice(x), None, 3), X)
    report = compiled.accuracy(X)
    assert len(report.outputs) == len(compiled.program.outputs) == 2
    report.check()


@pytest.mark.parametrize("target", ["cpu", "h200"])
def test_what_a_function_closes_over_is_what_it_was(target):
    """A tensor that changes in place is seen, a name that is bound anew is not (docs/limits.md); a module's buffer is."""
    bias, scale, x = torch.ones(3), 2.0, torch.arange(3.0)

    def f(x):
        return x * scale + bias

    class Holder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("bias", torch.ones(3))

        def forward(self, x):
            return x * 2 + self.bias

    holder = Holder()
    function, module = (eqfuse.optimize(g, (x,), target=target) for g in (f, holder))
    run = [c if target == "cpu" else c.interpret for c in (function, module)]
    bias.add_(1)
    assert torch.equal(run[0](x), x * 2 + 2)
    bias, scale, holder.bias = torch.zeros(3), 5.0, torch.zeros(3)
    assert torch.equal(run[0](x), x * 2 + 2)
    assert torch.equal(run[1](x), x * 2)
