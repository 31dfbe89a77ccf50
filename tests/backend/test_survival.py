"""What users do around compiled models: train them, copy and save them, run them in threads, draw random numbers, bring other sizes."""

import copy
import io
import pickle
import threading

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

import eqfuse
from eqfuse.backend import compile_graph
from eqfuse.testing.small_models import SMALL, trained

INTERPRETED = {"run": "interpret", "target": "h200", "time_budget": 1.0}


@pytest.fixture(autouse=True)
def from_the_beginning(nothing_compiled):
    torch.manual_seed(0)


def compiled(f, **more):
    return torch.compile(f, backend=compile_graph, options=INTERPRETED, **more)


def none_fell_back():
    graphs = eqfuse.report().graphs
    return bool(graphs) and not any(g.reasons for g in graphs) and any(p.kernels for g in graphs for p in g.plans)


def test_a_loss_curve_is_that_of_eager():
    """Of the ten that benchmarks/trained.py trains, the one with the fewest kernels."""
    model = SMALL["recommender"]()
    same = copy.deepcopy(model)
    torch.testing.assert_close(trained(same, compiled(same), 3), trained(model, model, 3), rtol=1e-5, atol=0.0)
    assert none_fell_back()


def test_random_numbers_are_those_of_eager():
    """The second piece could hold what the first dropout takes, and the numbers would then be drawn in another order."""

    def f(a, b):
        first = F.dropout(a.exp(), 0.5)
        second = F.dropout(b, 0.5)
        return first, torch.rand_like(a), second.sin()

    a, b = torch.randn(4, 6), torch.randn(4, 6)
    found, states = [], []
    for g in (f, compiled(f)):
        torch.manual_seed(1)
        found.append(g(a, b))
        states.append(torch.get_rng_state())
    torch.testing.assert_close(*found)
    assert torch.equal(*states)
    assert none_fell_back()


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(6, 6), torch.nn.LayerNorm(6)

    def forward(self, x):
        return self.norm(torch.tanh(self.linear(x))) + x


def test_models_are_copied_pickled_saved_and_loaded():
    model, x = Layer(), torch.randn(3, 6)
    wanted, f = model(x).detach(), compiled(model)
    torch.testing.assert_close(f(x), wanted)
    assert f.state_dict().keys() == {f"_orig_mod.{name}" for name in model.state_dict()}
    other = Layer()
    other.load_state_dict(model.state_dict())
    saved = io.BytesIO()
    torch.save(f._orig_mod, saved)
    saved.seek(0)
    copies = [copy.deepcopy(f), copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(saved, weights_only=False), other]
    for m in copies:
        torch.testing.assert_close(m(x), wanted)
    with torch.no_grad():
        copies[0].linear.weight.zero_()
    torch.testing.assert_close(f(x), wanted)
    assert not torch.equal(copies[0](x), wanted), "a copy has weights of its own"
    assert none_fell_back()


def test_threads_share_a_model():
    """As DataParallel's do: one compiled model, called at the same time."""
    model, x = Layer().requires_grad_(False), torch.randn(2, 3, 6)
    f, wanted, found = compiled(model), model(x), {}

    def work(k):
        found[k] = f(x[k])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    torch.testing.assert_close(torch.stack([found[k] for k in range(2)]), wanted)
    assert none_fell_back()


def ragged(x, w):
    """Means of rows that are there, a softmax beside them."""
    seen = x.cumsum(0) / torch.arange(1, x.shape[0] + 1)[:, None]
    return torch.softmax(seen @ w, -1), x.mean(), (x - x.amax(0, keepdim=True)).exp().sum(0)


@pytest.mark.parametrize("dynamic", [True, None])
def test_lengths_that_divide_nothing_share_a_graph(dynamic):
    """A dimension that is marked, or that torch finds to vary.  One is another program, for torch as well."""
    w, f = torch.randn(6, 5), compiled(ragged, dynamic=dynamic)
    for rows in (9, 7, 13):
        x = torch.randn(rows, 6)
        torch.testing.assert_close(f(x, w), ragged(x, w), rtol=1e-4, atol=1e-5)
    assert len(eqfuse.report().graphs) == (1 if dynamic else 2)
    assert none_fell_back()


@pytest.mark.parametrize("rows", [0, 1])
def test_a_batch_of_none_and_of_one(rows):
    model, x = Layer(), torch.randn(rows, 6, requires_grad=True)
    for m in (model, compiled(model)):
        y = m(x)
        torch.testing.assert_close(y, model(x))
        (y.square().sum()).backward()
    gradients = [torch.autograd.grad(m(x).square().sum(), [x, *model.parameters()]) for m in (model, compiled(model))]
    torch.testing.assert_close(*gradients)
