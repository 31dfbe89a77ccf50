"""``Compiled.op``: a compiled program as a torch operator."""

import pytest
import torch
from torch.library import opcheck

import eqfuse
from eqfuse.ir.build import axes, program, sum_over, tensor

G = torch.Generator().manual_seed(0)
X = torch.randn(6, 40, generator=G)
SCALE = torch.randn(40, generator=G)


def rows(x, scale):
    y = torch.softmax(x * scale, -1)
    return {"y": y, "lse": torch.logsumexp(x * scale, -1), "again": y}


@pytest.fixture(scope="module")
def compiled():
    return eqfuse.optimize(rows, (X, SCALE), target="h200")


def test_one_result_for_each_output_of_the_program(compiled):
    assert compiled.op is compiled.op
    assert compiled.op.name.startswith("eqfuse::rows_")
    found = compiled.op(X, SCALE)
    expected = rows(X, SCALE)
    assert [o.name for o in compiled.program.outputs] == ["y", "lse"]
    assert torch.equal(found[0], expected["y"])
    assert torch.equal(found[1], expected["lse"])


def test_opcheck(compiled):
    verdicts = opcheck(compiled.op.op, ([X.clone().requires_grad_(), SCALE.clone().requires_grad_()],))
    assert set(verdicts.values()) == {"SUCCESS"}


def test_in_a_compiled_graph(compiled):
    op = compiled.op

    @torch.compile(backend="aot_eager", fullgraph=True)
    def loss(x, scale):
        y, lse = op(x + 1.0, scale)
        return (y * y).sum() + lse.sum()

    def eager(x, scale):
        found = rows(x + 1.0, scale)
        return (found["y"] ** 2).sum() + found["lse"].sum()

    args = [X.clone().requires_grad_(), SCALE.clone().requires_grad_()]
    torch.testing.assert_close(loss(*args), eager(*args))
    for f, e in zip(torch.autograd.grad(loss(*args), args), torch.autograd.grad(eager(*args), args), strict=True):
        torch.testing.assert_close(f, e)


def test_parameters_of_a_module_are_inputs_with_gradients():
    layer = torch.nn.Sequential(torch.nn.LayerNorm(40), torch.nn.Linear(40, 3))
    compiled = eqfuse.optimize(layer, (X,), target="h200")
    tensors = list(compiled.traced.bind(X).values())
    (found,) = compiled.op(*tensors)
    assert torch.equal(found, layer(X))
    parameters = tensors[1:]
    expected = torch.autograd.grad(layer(X).square().sum(), parameters)
    for f, e in zip(torch.autograd.grad(found.square().sum(), parameters), expected, strict=True):
        torch.testing.assert_close(f, e)
    moved = [X, *(p.detach() * 2 for p in parameters)]  # other values than the module holds
    named = {i.name: t for i, t in zip(compiled.program.inputs, moved, strict=True)}
    held = {n: named["x" + n.replace(".", "_")] for n, _ in layer.named_parameters()}
    doubled = torch.func.functional_call(layer, held, (X,))
    assert torch.equal(compiled.op(*moved)[0], doubled)


def test_a_program_written_by_hand_has_no_derivative():
    i, j = axes(i=6, j=40)
    compiled = eqfuse.optimize(program("total", y=(sum_over(j, tensor("x", i, j)), (i,))), target="h200")
    torch.testing.assert_close(compiled.op(X)[0], X.sum(-1))
    x = X.clone().requires_grad_()
    with pytest.raises(RuntimeError):
        compiled.op(x)[0].sum().backward()
