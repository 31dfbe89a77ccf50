"""Calls of what ``optimize`` returns that differ on a GPU, without one: CPU tensors count as CUDA tensors."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import eqfuse
from eqfuse.errors import EqFuseError, TraceError
from eqfuse.runtime.executable import Executable
from eqfuse.runtime.interpreter import interpret
from eqfuse.runtime.modules import load_module
from eqfuse.runtime.native import compiler, load

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
        def count(*tensors):
            calls.append(self)
            return interpret(load_module(self.generated.called_source, "interpret"), "run", *tensors)

        return count

    monkeypatch.setattr(Executable, "_run", property(run))
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


# -- calls like an earlier one -------------------------------------------------------------------------------------------------


@pytest.fixture
def checked(monkeypatch):
    """How often a call was checked."""
    calls = []
    bind = Executable.bind
    monkeypatch.setattr(Executable, "bind", lambda self, args, kwargs: calls.append(self) or bind(self, args, kwargs))
    return calls


needs_c = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


@needs_c
def test_calls_alike_are_checked_once(checked):
    """One tensor in two places says nothing of where two go; other types, strides and structures are no calls alike."""

    def f(a, pair, by=2.0):
        return torch.softmax(a * by - pair["b"], -1), pair["c"] + 1

    def agree(*args, **kwargs):
        for found, expected in zip(c(*args, **kwargs), f(*args, **kwargs), strict=True):
            torch.testing.assert_close(found, expected)
        return len(checked)

    y, z = torch.randn(2, *X.shape, generator=torch.Generator().manual_seed(1))
    c = eqfuse.optimize(f, (X, {"b": X, "c": X}), target="cpu")
    assert agree(X, {"b": X, "c": X}) == 1
    assert agree(y, {"b": z, "c": X}) == agree(z, {"b": X, "c": y}) == 1
    assert agree(y, {"c": z, "b": X}) == 2
    assert agree(y, {"c": X, "b": z}) == agree(z, {"c": y, "b": X}) == 2
    assert agree(y, {"b": z, "c": X}, 2.0) == agree(z, {"b": X, "c": y}, 2.0) == 3
    before = agree(y, {"b": z, "c": X}, by=-0.0)
    assert agree(y, {"b": z, "c": X}, by=-0.0) == before > 3
    assert agree(y, {"b": z, "c": X}, by=0.0) > before


@needs_c
def test_what_a_module_holds_is_part_of_a_signature(checked):
    f = torch.nn.Sequential(torch.nn.Linear(40, 8), torch.nn.Softmax(-1))
    c = eqfuse.optimize(f, (X,), target="cpu")
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(c(X), f(X))
        f[0].weight = torch.nn.Parameter(torch.randn(8, 40))
        torch.testing.assert_close(c(X), f(X))
        f[0] = torch.nn.Linear(40, 8)
        torch.testing.assert_close(c(X), f(X))
        assert len(checked) == 1
        f[0].requires_grad_(False)
        torch.testing.assert_close(c(X), f(X))
        assert len(checked) == 2
    f[0].requires_grad_()
    for _ in range(2):
        f.zero_grad()
        c(X).square().sum().backward()
        mine = f[0].weight.grad
        f.zero_grad()
        f(X).square().sum().backward()
        torch.testing.assert_close(mine, f[0].weight.grad)
    assert len(checked) == 3
    within = torch.compile(lambda x: c(x) + 1, backend="eager", fullgraph=True)
    torch.testing.assert_close(within(X), f(X) + 1)
    f[0].weight.data = torch.randn(8, 41)
    with torch.no_grad(), pytest.raises(EqFuseError):
        c(X)


@needs_c
def test_what_a_function_has_captured_is_part_of_a_signature(checked):
    table = torch.linspace(0, 3, 40)
    c = eqfuse.optimize(lambda x: torch.softmax(x * table, -1), (X,), target="cpu", name="tabled")
    for _ in range(2):
        torch.testing.assert_close(c(X), torch.softmax(X * table, -1))
        table.mul_(2)
    assert len(checked) == 1
    table.requires_grad_()
    for _ in range(2):
        with pytest.warns(UserWarning, match="tabled: the function has captured what requires a gradient"):
            assert c(X).requires_grad
    table.requires_grad_(False)
    torch.testing.assert_close(c(X), torch.softmax(X * table, -1))
    assert len(checked) == 3


class Named(torch.Tensor):
    """A tensor whose results are of its class, too."""


@needs_c
def test_calls_that_are_not_alike():
    """What tells a call from one that is known, although shapes and types are the same."""

    def f(x, w):
        return x * w[:, 0], torch.softmax(x @ w, -1)

    w = torch.randn(40, 6, generator=torch.Generator().manual_seed(2))
    c = eqfuse.optimize(f, (X, w), target="cpu", name="known")

    def agree(x, w):
        found, expected = c(x, w), f(x, w)
        torch.testing.assert_close(found, expected)
        assert [(type(r), r.requires_grad, r.is_inference()) for r in found] == [
            (type(r), r.requires_grad, r.is_inference()) for r in expected
        ]
        return found

    for _ in range(2):
        agree(X, w)
        turned = torch.randn(40, 6)
        agree(turned.t_(), w)  # in place: the same tensor, other strides
        agree(X[:1].expand(6, 40), w)
        learned = w.clone().requires_grad_()
        assert agree(X, learned)[1].grad_fn is not None
        with torch.no_grad():
            agree(X, learned)
            with torch.enable_grad():
                agree(X, learned)
        with torch.inference_mode():
            agree(X, learned)
        agree(X.as_subclass(Named), w)
        batch = torch.stack([X, X + 1])
        torch.testing.assert_close(torch.func.vmap(c, (0, None))(batch, w), torch.func.vmap(f, (0, None))(batch, w))
        tangent = [torch.func.jvp(lambda x, g=g: g(x, w)[1], (X,), (X + 1,))[1] for g in (c, f)]
        torch.testing.assert_close(*tangent)
        with FakeTensorMode() as mode:
            fake = c(mode.from_tensor(X), mode.from_tensor(w))
        assert [(type(r), tuple(r.shape)) for r in fake] == [(FakeTensor, (6, 40)), (FakeTensor, (6, 6))]
        assert "eqfuse.known_" in str(make_fx(c)(X, w).graph), "a graph has the operator"
        within = torch.compile(lambda x: c(x, w)[1] + 1, backend="eager", fullgraph=True)
        torch.testing.assert_close(within(X), f(X, w)[1] + 1)


@needs_c
def test_results_of_calls_alike_share_no_memory():
    """An argument that is returned is a copy, in each call another one; where the function returns it twice it is one tensor."""
    c = eqfuse.optimize(lambda x: (x, x * 2, x), (X,), target="cpu", name="copies")
    results = [c(X) for _ in range(3)]
    for a, b, again in results:
        torch.testing.assert_close((a, b), (X, X * 2))
        assert a is again
    assert len({r.data_ptr() for r in (X, *(r for found in results for r in found[:2]))}) == 7


@needs_c
def test_calls_of_several_signatures_in_threads():
    c = eqfuse.optimize(rows, (X,), target="cpu", name="threaded")
    given = [torch.randn(2 + n % 3, 40) for n in range(24)]
    for x in given[:3]:  # planned here, and found by all
        torch.testing.assert_close(c(x), rows(x))
    vars(c.form).pop("_calls")
    with ThreadPoolExecutor(4) as pool:
        for x, found in zip(given * 20, pool.map(c, given * 20), strict=True):
            torch.testing.assert_close(found, rows(x))


def test_a_warning_names_the_line_of_the_call(monkeypatch):
    """Of this shape, of strides of its own, and of another shape."""
    monkeypatch.setattr("eqfuse.runtime.native.compiler", lambda: None)
    c = eqfuse.optimize(rows, (X,), target="cpu", name="not_compiled")
    for x in (X, X, torch.randn(40, 6).t(), X[:3]):
        with pytest.warns(UserWarning, match="not_compiled: there is no C compiler") as found:
            torch.testing.assert_close(c(x), rows(x))
        assert [w.filename for w in found] == [__file__]


@needs_c
def test_a_module_with_kernels_in_c_checks_tensors_alike_once():
    c = eqfuse.optimize(rows, (X,), target="cpu", name="prepared_rows")
    module = load(c.source)
    torch.testing.assert_close(module.run(X)[0], rows(X))
    checks = {n: f for n, f in vars(module).items() if n.startswith("_check_")}
    assert len(checks) == 4
    vars(module).update(dict.fromkeys(checks, lambda *_: pytest.fail("checked again")))
    try:
        torch.testing.assert_close(module.run(x=X + 1)[0], rows(X + 1))
        with pytest.raises(pytest.fail.Exception, match="checked again"):
            module.run(X.double())
    finally:
        vars(module).update(checks)
    columns = torch.randn(40, 6).t()  # whose rows kernels in C read a copy of
    for x in (columns, columns + 1, torch.complex(X, X).conj().imag):
        torch.testing.assert_close(module.run(x)[0], rows(x))
    for wrong in (X.double(), X[0], torch.randn(6, 65), X.to("meta")):
        for _ in range(2):
            with pytest.raises(ValueError, match=r"planned for|must be|is on"):
                module.run(wrong)
