"""What ``optimize`` returns is copied, pickled and transformed like the function that it came from."""

import copy
import os
import pickle
import subprocess
import sys
import textwrap

import pytest
import torch

import eqfuse
from eqfuse.compiled import Whole
from eqfuse.errors import PickleError, TraceError
from eqfuse.planning import run
from eqfuse.steps import Stepped
from eqfuse.training import Trained

G = torch.Generator().manual_seed(0)
X = torch.randn(4, 6, generator=G)


def rows(x):
    return torch.softmax(x * 2, -1)


def sorted_rows(x):
    return torch.sort(torch.softmax(x * 2, -1), -1).values * 3


class Layer(torch.nn.Module):
    """Holds what was optimized of itself, as a model does that replaces its own forward pass."""

    def __init__(self, options):
        super().__init__()
        self.linear = torch.nn.Linear(6, 5)
        self.register_buffer("scale", torch.tensor([2.0]))
        self.fast = eqfuse.optimize(self, (X,), target="cpu", **options)

    def forward(self, x):
        return self.after(torch.tanh(self.linear(x)) * self.scale)

    after = staticmethod(torch.nn.Identity())


class Sorting(Layer):
    @staticmethod
    def after(x):
        return torch.sort(x, -1).values * 3


CASES = {"whole": (Layer, {}), "in steps": (Sorting, {}), "training": (Layer, {"training": True})}


@pytest.fixture(scope="module", params=CASES)
def model(request):
    made, options = CASES[request.param]
    torch.manual_seed(0)
    return made(options)


def planned_anew(monkeypatch):
    """Counts of plans that are made from now on."""
    made = []

    def counted(request):
        made.append(request)
        return run(request)

    for module in ("eqfuse.compiled", "eqfuse.steps.planning", "eqfuse.planning.several"):
        monkeypatch.setattr(f"{module}.run", counted)
    return made


def test_a_deep_copy_of_a_module_has_its_own_parameters_and_the_plan(model, monkeypatch):
    made = planned_anew(monkeypatch)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.linear.weight.zero_()
        wanted = model(X)
        assert other.fast is not model.fast
        torch.testing.assert_close(model.fast(X), wanted)
        torch.testing.assert_close(other.fast(X), other(X))
    assert not torch.equal(other(X), wanted)
    assert type(other.fast.form) is type(model.fast.form)
    assert not made, "the same program has the same plan"


def test_a_pickled_module_is_planned_when_it_is_used(model):
    with torch.no_grad():
        other = pickle.loads(pickle.dumps(model))
        other.linear.weight.mul_(2)
        torch.testing.assert_close(other.fast(X), other(X))
    assert str(other.fast) == str(model.fast)


class Sorted(torch.nn.Module):
    def forward(self, x):
        return torch.sort(x, -1).values * 3


@pytest.mark.parametrize("last", [torch.nn.ReLU(), Sorted()], ids=["whole", "in steps"])
@pytest.mark.parametrize("use", [repr, str, lambda c: c.plan, lambda c: c(X)], ids=["repr", "str", "attribute", "call"])
def test_a_copy_of_another_program_is_planned_anew(last, use):
    """Whatever the copy is asked first, and whether or not it is in steps as the first is."""
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh())
    other = copy.deepcopy(eqfuse.optimize(model, (X,), target="cpu"))
    other._waiting[0].fn[1] = last
    with torch.no_grad():
        use(other)
        assert type(other.form) is (Stepped if isinstance(last, Sorted) else Whole)
        torch.testing.assert_close(other(X), last(model[0](X)))


@pytest.mark.parametrize("f", [rows, sorted_rows])
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c)), lambda c: copy.copy(copy.deepcopy(c))])
def test_functions(f, way):
    c = eqfuse.optimize(f, (X,), target="cpu")
    other = way(c)
    torch.testing.assert_close(other(X), f(X))
    assert type(other.form) is type(c.form)
    assert str(other.plan) == str(c.plan)


def test_another_process_reads_it(tmp_path):
    """A function in a module, and one whose name stands for what was made of it."""
    (tmp_path / "mine.py").write_text(
        textwrap.dedent(
            """
            import torch, eqfuse

            def rows(x):
                return torch.softmax(x * 2, -1)

            def twice(x):
                return torch.exp(x) * 2

            twice = eqfuse.optimize(twice, (torch.randn(4, 6),), target="cpu")
            """
        )
    )
    write = "import pickle, torch, mine, eqfuse; c = eqfuse.optimize(mine.rows, (torch.zeros(4, 6),), target='cpu')\n"
    write += "pickle.dump((c, mine.twice), open('both', 'wb'))"
    read = "import pickle, torch; x = torch.ones(4, 6); c, d = pickle.load(open('both', 'rb'))\n"
    read += "assert torch.allclose(c(x), torch.softmax(x * 2, -1)); assert torch.allclose(d(x), x.exp() * 2); import mine; assert d is mine.twice"
    for text in (write, read):
        subprocess.run([sys.executable, "-c", text], cwd=tmp_path, check=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})


def test_what_has_no_name_says_so():
    c = eqfuse.optimize(lambda x: x * 2, (X,), target="cpu")
    with pytest.raises(PickleError, match="lambda") as info:
        pickle.dumps(c)
    assert "top level" in info.value.cure
    torch.testing.assert_close(copy.deepcopy(c)(X), X * 2)


# transforms ---------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [{}, {"training": True}], ids=["whole", "training"])
@pytest.mark.parametrize("f", [rows, sorted_rows])
def test_torch_func(f, options):
    if options and f is sorted_rows:
        pytest.skip("training takes no programs in steps")
    one, v = X[0].clone().requires_grad_(bool(options)), torch.randn(6, generator=G)
    c = eqfuse.optimize(f, (one,), target="cpu", **options)
    assert isinstance(c.form, Trained if options else Stepped if f is sorted_rows else Whole)
    one = one.detach()
    func = torch.func
    for transformed in (
        lambda g: func.vmap(g)(X),
        lambda g: func.vmap(func.vmap(g))(X[None]),
        lambda g: func.grad(lambda x: g(x).square().sum())(one),
        lambda g: func.vmap(func.grad(lambda x: g(x).square().sum()))(X),
        lambda g: func.jacrev(g)(one),
        lambda g: func.jacfwd(g)(one),
        lambda g: func.jvp(g, (one,), (v,)),
        lambda g: func.hessian(lambda x: g(x).square().sum())(one),
    ):
        torch.testing.assert_close(transformed(c), transformed(f))


def test_forward_mode_keeps_the_tangent():
    c = eqfuse.optimize(rows, (X,), target="cpu")
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        found, wanted = (forward.unpack_dual(g(forward.make_dual(X, X.flip(0)))) for g in (c, rows))
        torch.testing.assert_close(found.tangent, wanted.tangent)


def test_parameters_that_are_transformed():
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh())
    c = eqfuse.optimize(model, (X,), target="cpu")

    class Around(torch.nn.Module):
        def __init__(self, f):
            super().__init__()
            self.inner, self.f = model, f

        def forward(self, x):
            return self.f(x).square().sum()

    def loss(f):
        around = Around(f)
        return torch.func.grad(lambda p: torch.func.functional_call(around, p, (X,)))(dict(around.named_parameters()))

    torch.testing.assert_close(loss(c), loss(model))


def test_the_operator_is_batched():
    """Under ``torch.compile`` the operator stands in the graph, and is called for each member of a batch."""
    c = eqfuse.optimize(rows, (X[0],), target="cpu")
    batched = torch.func.vmap(lambda x: c.op(x)[0])
    torch.testing.assert_close(batched(X), rows(X))
    torch.testing.assert_close(torch.func.vmap(lambda x: c.op(x)[0], in_dims=1)(X.T), rows(X))
    assert batched(X[:0]).shape == (0, 6)


def test_a_program_in_terms_is_not_transformed():
    c = eqfuse.optimize(eqfuse.optimize(rows, (X[0],), target="cpu").program, target="cpu")
    with pytest.raises(TraceError, match="in terms"):
        torch.func.vmap(c)(X)
