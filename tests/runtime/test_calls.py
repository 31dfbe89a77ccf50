"""Calls of what ``optimize`` returns that differ on a GPU, without one: CPU tensors count as CUDA tensors."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import eqfuse
from eqfuse.errors import TraceError
from eqfuse.runtime.executable import Executable
from eqfuse.runtime.interpreter import interpret
from eqfuse.runtime.modules import load_module

X = torch.randn(6, 40, generator=torch.Generator().manual_seed(0))


def rows(x):
    return torch.softmax(x * 2, -1)


@pytest.fixture(scope="module")
def compiled():
    return eqfuse.optimize(rows, (X,), target="h200")


@pytest.fixture
def on_device(monkeypatch):
    monkeypatch.setattr(Executable, "_device", lambda self, tensors: "cuda")


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


# -- gradients of what a function has captured -------------------------------------------------------------------------------


def captured(kind):
    """A function that has captured tensors with a gradient, and these tensors."""
    random = torch.Generator().manual_seed(1)
    if kind == "module":
        layer = torch.nn.Linear(40, 24)
        return lambda x: torch.softmax(layer(x), -1), list(layer.parameters())
    shape = () if kind == "parameter without dimensions" else (40,)
    scale = torch.rand(shape, generator=random)
    scale = scale.requires_grad_() if kind == "tensor" else torch.nn.Parameter(scale)
    return lambda x: torch.softmax(x * scale, -1), [scale]


@pytest.fixture
def kernels_run(monkeypatch, on_device):
    """Calls run the kernels, in the interpreter, and are counted."""
    calls = []

    def run(self):
        def count(tensors):
            calls.append(self)
            return interpret(load_module(self.generated.called_source, "interpret"), "run", *tensors)

        return count

    monkeypatch.setattr(Executable, "_kernels_on", property(run))
    return calls


@pytest.mark.parametrize("kind", ["parameter", "parameter without dimensions", "tensor", "module"])
def test_gradients_of_captured_tensors(kernels_run, kind):
    """Kernels know the value of a captured tensor; as a variable only the original program knows it."""
    f, learned = captured(kind)
    c = eqfuse.optimize(f, (X,), target="h200", name="f")
    x, y = (X.clone().requires_grad_() for _ in range(2))
    with pytest.warns(UserWarning, match="f: the function has captured what requires a gradient"):
        found = c(x)
    found.square().sum().backward()
    grads = [t.grad for t in learned]
    for t in learned:
        t.grad = None
    f(y).square().sum().backward()
    for mine, theirs in zip([x.grad, *grads], [y.grad, *(t.grad for t in learned)], strict=True):
        torch.testing.assert_close(mine, theirs)
        assert theirs.abs().max() > 0
    assert not kernels_run
    with torch.no_grad():
        learned[0].mul_(2)  # seen by kernels
        torch.testing.assert_close(c(X), f(X))
    assert kernels_run == [c.form]
    assert "unless under torch.no_grad(), calls run the original program in torch" in str(c)
    with pytest.raises(TraceError, match="captured a tensor that requires a gradient"):
        c.op(*c.bind((X,), {}).values())
    for t in learned:
        t.requires_grad_(False)
    assert "no_grad" not in str(c)
    torch.testing.assert_close(c(X), f(X))
    assert len(kernels_run) == 2


def test_captured_tensors_without_a_gradient_leave_kernels_alone(kernels_run):
    table = torch.linspace(0, 3, 40)
    c = eqfuse.optimize(lambda x: torch.softmax(x * table, -1), (X,), target="h200")
    torch.testing.assert_close(c(X), torch.softmax(X * table, -1))
    x, y = (X.clone().requires_grad_() for _ in range(2))
    c(x).square().sum().backward()  # by the operator
    torch.softmax(y * table, -1).square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


# -- arguments that are no tensors -------------------------------------------------------------------------------------------


def test_a_number_of_another_type_is_planned_for(kernels_run):
    def f(x, by):
        return x * by + 1

    x = torch.arange(40).reshape(5, 8)
    c = eqfuse.optimize(f, (x, 2), target="h200")
    for by in (2, 2.0, True, 2.0):
        found = c(x, by)
        assert found.dtype == f(x, by).dtype
        torch.testing.assert_close(found, f(x, by))
    assert len(c._variants) == 2


@pytest.mark.parametrize("planned", [float("nan"), 0.0])
def test_nan_is_planned_for_once(kernels_run, planned):
    def f(x, by):
        return torch.softmax(x, -1).masked_fill(x > 0, by)

    c = eqfuse.optimize(f, (X, planned), target="h200")
    for _ in range(3):
        torch.testing.assert_close(c(X, float("nan")), f(X, float("nan")), equal_nan=True)
    assert len(c._variants) == (planned == 0.0)


# -- spellings ---------------------------------------------------------------------------------------------------------------


def test_calls_by_keyword_are_the_calls_that_they_are(kernels_run):
    def f(x, scale=2.0, shift=0.0):
        return torch.softmax(x * scale + shift, -1)

    c = eqfuse.optimize(f, (), kwargs={"x": X}, target="h200")
    for args, kwargs in [((X,), {}), ((X, 2.0), {}), ((X,), {"scale": 2.0}), ((), {"shift": 0.0, "x": X})]:
        torch.testing.assert_close(c(*args, **kwargs), f(*args, **kwargs))
        torch.testing.assert_close(c.interpret(*args, **kwargs), f(*args, **kwargs))
    assert not c._variants
    for args, kwargs in [((X, 3.0), {}), ((X,), {"scale": 3.0}), ((X,), {"shift": 3.0}), ((X, 2.0, 3.0), {}), ((), {"scale": 3.0, "x": X})]:
        torch.testing.assert_close(c(*args, **kwargs), f(*args, **kwargs))
    assert len(c._variants) == 2


def test_a_module_is_called_by_keyword(kernels_run):
    class Masked(torch.nn.Module):
        def forward(self, hidden, mask=None):
            return torch.softmax(hidden if mask is None else hidden.masked_fill(mask, -1e9), -1)

    f, mask = Masked(), X > 0
    c = eqfuse.optimize(f, (X,), target="h200")
    for _ in range(2):
        for args, kwargs in [((), {"hidden": X}), ((X, None), {}), ((X, mask), {}), ((X,), {"mask": mask})]:
            torch.testing.assert_close(c(*args, **kwargs), f(*args, **kwargs))
    assert len(c._variants) == 1


def test_optimize_in_threads():
    def one(k):
        return eqfuse.optimize(lambda x: torch.softmax(x * k, -1), (X,), target="h200").interpret(X)

    with ThreadPoolExecutor(4) as pool:
        for k, found in zip(range(1, 5), pool.map(one, range(1, 5)), strict=True):
            torch.testing.assert_close(found, torch.softmax(X * k, -1))
