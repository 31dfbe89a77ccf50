"""Calls of what ``optimize`` returns that differ on a GPU, without one: CPU tensors count as CUDA tensors."""

import pytest
import torch

import eqfuse
from eqfuse.runtime.compiled import Compiled

X = torch.randn(6, 40, generator=torch.Generator().manual_seed(0))


def rows(x):
    return torch.softmax(x * 2, -1)


@pytest.fixture(scope="module")
def compiled():
    return eqfuse.optimize(rows, (X,), target="h200")


@pytest.fixture
def on_device(monkeypatch):
    monkeypatch.setattr(Compiled, "_device", lambda self, tensors: "cuda")


@pytest.mark.parametrize("gradients", [False, True])
def test_a_compiled_graph_holds_the_operator(compiled, on_device, gradients):
    """Traced into, a call would load modules, take locks and launch kernels: graphs break there, and ``fullgraph`` refuses."""
    targets = []

    def backend(graph, _):
        targets.extend(str(n.target) for n in graph.graph.nodes)
        return graph.forward

    torch._dynamo.reset()
    assert compiled.op  # once, outside
    f = torch.compile(lambda x: compiled(x + 1) * 2, backend=backend, fullgraph=True)
    x = X.clone().requires_grad_(gradients)
    torch.testing.assert_close(f(x), rows(x + 1) * 2)
    assert sum(compiled.op.name.split("::")[1] in t for t in targets) == 1


def test_views_whose_sign_is_not_in_memory(compiled):
    z = torch.complex(X, 2 * X)
    x = z.conj().imag
    assert x.is_neg()
    torch.testing.assert_close(compiled.interpret(x), rows(x))


def test_functions_of_one_source_have_operators_of_their_own():
    """What a function has captured is a constant of it: the derivative of another one is wrong, and so is its value on the CPU."""

    def scaled(by):
        return lambda x: torch.softmax(x * by, -1)

    factors = torch.ones(40), torch.linspace(0, 3, 40)
    functions = [scaled(by) for by in factors]
    compiled = [eqfuse.optimize(f, (X,), target="h200", name="scaled") for f in functions]
    assert compiled[0].source == compiled[1].source
    for f, by, c in zip(functions, factors, compiled, strict=True):
        x, y = (X.clone().requires_grad_() for _ in range(2))
        found, expected = c.op(x, by)[0], f(y)
        torch.testing.assert_close(found, expected)
        found.square().sum().backward()
        expected.square().sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
        assert c.op is c.op
