"""A generated module as a torch operator: right on the CPU, in graphs, and under autograd."""

import pytest
import torch
from torch.library import opcheck

from eqfuse.runtime.ops import OutputSpec, register_op

SOURCE = "def run(x, scale):\n    raise RuntimeError('the kernels ran')\n"


def softmax_and_total(x, scale):
    return torch.softmax(x * scale, -1), torch.logsumexp(x * scale, -1)


def outputs(rows, columns):
    return [OutputSpec((rows, columns), torch.float32), OutputSpec((rows,), torch.float32)]


@pytest.fixture(scope="module")
def op():
    return register_op(SOURCE, outputs(4, 6), softmax_and_total, name="softmax pair", differentiable=True)


def inputs(requires_grad=False):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).requires_grad_(requires_grad) for shape in ((4, 6), (6,))]


def test_the_name_follows_from_the_source(op):
    assert op.name.startswith("eqfuse::softmax_pair_")
    assert register_op(SOURCE, outputs(4, 6), softmax_and_total, name="softmax pair") is op
    other = register_op(SOURCE + "# another\n", outputs(4, 6), softmax_and_total, name="softmax pair")
    assert other.name != op.name


def test_cpu_tensors_take_the_fallback(op):
    x = inputs()
    for found, expected in zip(op(*x), softmax_and_total(*x), strict=True):
        assert torch.equal(found, expected)


def test_opcheck(op):
    verdicts = opcheck(op.op, (inputs(requires_grad=True),))
    assert set(verdicts.values()) == {"SUCCESS"}
    assert "test_aot_dispatch_dynamic" in verdicts


def test_gradients_are_those_of_the_fallback(op):
    x = inputs(requires_grad=True)
    weights = torch.randn(4, 6), torch.randn(4)
    found = torch.autograd.grad([(r * w).sum() for r, w in zip(op(*x), weights, strict=True)], x)
    expected = torch.autograd.grad([(r * w).sum() for r, w in zip(softmax_and_total(*x), weights, strict=True)], x)
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f, e)
    only_total = torch.autograd.grad(op(*x)[1].sum(), x)
    torch.testing.assert_close(only_total, torch.autograd.grad(softmax_and_total(*x)[1].sum(), x))


def test_integer_inputs_have_no_gradient():
    source = SOURCE + "# gather\n"
    gather = register_op(source, [OutputSpec((3,), torch.float32)], lambda x, i: x[i] * 2.0, differentiable=True)
    x = torch.randn(5, requires_grad=True)
    (y,) = gather(x, torch.tensor([0, 0, 4]))
    y.sum().backward()
    assert x.grad.tolist() == [4.0, 0.0, 0.0, 0.0, 2.0]


def test_results_never_alias_inputs():
    same = register_op(SOURCE + "# same\n", [OutputSpec((3,), torch.float32)], lambda x: x)
    x = torch.ones(3)
    (y,) = same(x)
    y += 1
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_fake_tensors_know_shapes_without_running(op):
    found = op(*(t.to("meta") for t in inputs()))
    assert [(tuple(t.shape), t.dtype) for t in found] == [((4, 6), torch.float32), ((4,), torch.float32)]


def test_a_compiled_graph_holds_the_operator(op):
    @torch.compile(backend="aot_eager", fullgraph=True)
    def f(x, scale):
        return op(x * 1.0, scale)[0].sum()

    x = inputs(requires_grad=True)
    found = torch.autograd.grad(f(*x), x)
    for g, e in zip(found, torch.autograd.grad(softmax_and_total(*x)[0].sum(), x), strict=True):
        torch.testing.assert_close(g, e, atol=1e-6, rtol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_cuda_tensors_run_the_module(op):
    with pytest.raises(RuntimeError, match="the kernels ran"):
        op(*(t.cuda() for t in inputs()))


def test_results_are_contiguous_wherever_they_are_made():
    """Graphs are planned with the strides that fake tensors have; torch's own result here is transposed."""
    op = register_op(SOURCE + "# transposed\n", [OutputSpec((4, 6), torch.float32)], torch.relu, name="transposed")
    x = torch.randn(6, 4).T
    assert op(x)[0].is_contiguous()
    assert set(opcheck(op.op, ([x],)).values()) == {"SUCCESS"}
