"""``torch.compile(backend="eqfuse")``: forward and backward as torch does them, and a report of what became of the graphs."""

import copy
import json
import pickle
import tomllib
import warnings
from importlib.metadata import EntryPoint
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import eqfuse
from eqfuse import ranges
from eqfuse.backend import compile_graph, compiling
from eqfuse.backend.compiling import _Runner
from eqfuse.backend.settings import REFINED, settings
from eqfuse.errors import OptionError
from eqfuse.runtime.native import compiler

ROOT = Path(__file__).resolve().parents[2]
torch.manual_seed(0)


pytestmark = pytest.mark.usefixtures("nothing_compiled")


def compiled(f, **options):
    return torch.compile(f, backend=compile_graph, options={"run": "interpret", "target": "h200", **options})


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.norm = torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4)
        self.last = torch.nn.Linear(4, 5)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x):
        y = torch.relu(self.norm(self.convolution(x))).mean((2, 3)) * self.scale
        return self.last(y + torch.tensor([1.0, 2.0, 3.0, 4.0]))


def test_the_entry_point_is_the_backend():
    """Found by name once the package is installed; ``import eqfuse`` is not needed."""
    (found,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["torch_dynamo_backends"].items()
    assert EntryPoint(*found, "torch_dynamo_backends").load() is compile_graph
    assert found[0] == "eqfuse"


@pytest.mark.parametrize("run", ["torch", "interpret"])
def test_strides_that_torch_gives_otherwise_than_it_said(run):
    """Of a padded dimension of size 1: a view by the strides that it said is none by those that it gives."""

    def f(x):
        rows = (x * 2).transpose(1, 2).reshape(2, 1, 8, 8)
        padded = torch.nn.functional.pad(rows, (0, 0, 0, 0, 0, 7))
        return padded.permute(0, 2, 3, 1).reshape(16, 64).exp()

    x = torch.randn(2, 96, 1)[:, :64]
    torch.testing.assert_close(compiled(f, run=run)(x), f(x))


def test_a_training_step_is_that_of_eager():
    model = Classifier()
    same = copy.deepcopy(model)
    f = compiled(model)
    for _ in range(2):
        x, labels = torch.randn(2, 3, 6, 6), torch.tensor([1, 3])
        losses = [F.cross_entropy(m(x), labels) for m in (f, same)]
        torch.testing.assert_close(*losses)
        for loss in losses:
            loss.backward()
        for m in (model, same):
            torch.optim.SGD(m.parameters(), 0.1).step()
    for (name, a), b in zip(model.named_parameters(), same.parameters(), strict=True):
        torch.testing.assert_close(a, b, msg=name)
        torch.testing.assert_close(a.grad, b.grad, msg=name, rtol=1e-4, atol=1e-6)
    for (name, a), b in zip(model.named_buffers(), same.buffers(), strict=True):
        torch.testing.assert_close(a, b, msg=name)

    data = json.loads(eqfuse.report().json())["graphs"]
    assert [(g["kind"], g["calls"]) for g in data] == [("forward", 2), ("backward", 2)]
    for g in data:
        (plan,) = g["plans"]
        assert plan["kernels"]
        assert plan["us"] < plan["eager_us"]
        assert plan["bytes"] < plan["eager_bytes"]
    forward, backward = (g["library"] for g in data)
    assert not forward
    assert any("convolution_backward" in row["operator"] and "not supported" in row["reason"] for row in backward)
    text = str(eqfuse.report())
    assert "graph0_forward" in text
    assert "aten.convolution_backward" in text
    assert "what costs most: graph" in text
    costs = json.loads(eqfuse.report().json())["costs"]
    assert costs == sorted(costs, key=lambda c: -c["us"])
    assert sum(c["us"] for c in costs) <= sum(g["plans"][0]["us"] for g in data) * (1 + 1e-9)
    page = eqfuse.report().html("a step")
    assert "<title>a step</title>" in page
    assert page.count('<h2 id="graph') == 2
    assert all(s.reason in page for g in eqfuse.report().graphs for s in g.plans[0].library)
    assert len(page) < 1e6
    plan = eqfuse.report().graphs[0].plans[0]
    assert "convolution_weight" in str(plan), "tensors are called as the user calls them"


class Attending(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (2, 4)).transpose(1, 2) for y in self.project(x).chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


def test_inference_fuses_attention_and_copies_of_the_model_are_models():
    model, x = Attending(), torch.randn(2, 6, 8)
    wanted = model(x).detach()
    model.compile(backend=compile_graph, options={"run": "interpret", "target": "h200"})
    with torch.no_grad():
        torch.testing.assert_close(model(x), wanted)
        (plan,) = eqfuse.report().graphs[0].plans
        assert not plan.library
        assert len(plan.kernels) <= 2
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            torch.testing.assert_close(other(x), wanted)
        wrapped = torch.compile(model, backend=compile_graph, options={"run": "torch"})
        torch.testing.assert_close(copy.deepcopy(wrapped)(x), wanted)


def test_flexible_attention_is_a_program():
    """Its functions of scores and positions are called on all of them at once, where that means the same."""
    q, k, v = torch.randn(1, 4, 24, 8), torch.randn(1, 2, 24, 8), torch.randn(1, 2, 24, 8)
    slopes, document = torch.rand(4), torch.arange(24) // 10

    def biased(score, b, h, m, n):
        return score + slopes[h] * (m - n)

    def of_rows(score, b, h, m, n):
        return score + torch.stack([m, n])[1]

    def allowed(b, h, m, n):
        return (document[m] == document[n]) & (m >= n)

    mask = create_block_mask(allowed, None, None, 24, 24, device="cpu")
    for of_scores, pieces in ((biased, 1), (of_rows, 0)):
        torch._dynamo.reset()
        eqfuse.report(reset=True)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that torch itself does not fuse it
            wanted = flex_attention(q, k, v, score_mod=of_scores, block_mask=mask, enable_gqa=True)
            found = compiled(lambda *t: flex_attention(*t, score_mod=of_scores, block_mask=mask, enable_gqa=True))(q, k, v)  # noqa: B023
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        (plan,) = eqfuse.report().graphs[0].plans
        assert len(plan.pieces) == pieces
        assert any("flex" in s.target for s in plan.library) != bool(pieces)


def test_attention_is_differentiated_in_kernels_and_its_scores_are_not_saved():
    model, x = Attending(), torch.randn(2, 6, 8)
    same = copy.deepcopy(model)
    compiled(model)(x).square().sum().backward()
    same(x).square().sum().backward()
    for a, b in zip(model.parameters(), same.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)
    forward, backward = (g.plans[0] for g in eqfuse.report().graphs)
    assert not forward.library
    assert not backward.library
    assert (len(forward.kernels), len(backward.kernels)) <= (1, 2)
    assert "are saved for the backward pass" in str(eqfuse.report())


def f(x, w):
    return torch.softmax(x @ w, -1) * x.shape[0]


def test_every_batch_size_is_right_and_kernels_serve_a_range(monkeypatch):
    w, g = torch.randn(7, 5), compiled(f)

    def no_plan(*_):
        raise AssertionError("this size is within a range that is known to be served")

    for rows in (3, 4, 9, 6, 4):
        x = torch.randn(rows, 7)
        with monkeypatch.context() as m:
            if rows == 6:
                m.setattr(ranges, "anew", no_plan)
            torch.testing.assert_close(g(x, w), f(x, w))
    by_sizes = [len(graph.plans) for graph in eqfuse.report().graphs]
    assert by_sizes == [1, 3]  # 3; then a symbol, for 4, 9 and 6


def test_on_a_cpu_torch_runs_the_graph():
    x, w = torch.randn(3, 7), torch.randn(7, 5)
    g = torch.compile(f, backend=compile_graph, options={"target": "h200"})
    assert torch.equal(g(x, w), f(x, w))
    (graph,) = eqfuse.report().graphs
    assert (graph.calls, len(graph.plans[0].kernels)) == (1, 1)


def test_what_cannot_be_planned_runs_in_torch_and_says_so(monkeypatch):
    monkeypatch.setattr(compiling, "Steps", Mock(side_effect=RuntimeError("no such plan")))  # no code of the user's takes part
    x, w = torch.randn(3, 7), torch.randn(7, 5)
    with pytest.warns(UserWarning, match=r"torch runs all of graph0_inference[\s\S]*no such plan"):
        assert torch.equal(compiled(f)(x, w), f(x, w))
    assert "no such plan" in str(eqfuse.report())
    assert "no such plan" in eqfuse.report().html()
    with pytest.raises(Exception, match="no such plan"):
        compiled(f, strict=True)(x, w)


def test_strict_and_options():
    x = torch.randn(3, 7)
    with pytest.raises(Exception, match=r"aten\.median"):
        compiled(lambda x: x.median(-1).values * 2, strict=True)(x)
    for options, text in (({"licens": "real"}, "'licence'"), ({"run": "fast"}, "interpret"), ({"fusion": ()}, "the options are")):
        with pytest.raises(Exception, match=text) as info:
            compiled(lambda x: x * 2, **options)(x)
        assert isinstance(info.value.__cause__ or info.value, OptionError) or "OptionError" in str(info.value)


def test_modes_and_options_of_inductor_mean_what_they_can():
    h200 = {"target": "h200"}
    assert settings(h200, None).request.refine == 0
    for options, mode in (({}, "max-autotune-no-cudagraphs"), ({"max_autotune": True}, None), ({"coordinate_descent_tuning": True}, None)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            request = settings(h200 | options, mode).request
        assert (request.refine, request.tune) == (REFINED, True)
    assert settings(h200 | {"max_autotune": True, "refine": 3}, None).request.refine == 3
    with pytest.warns(UserWarning, match=r"triton\.cudagraphs=True is left out; instead: torch\.cuda\.make_graphed_callables"):
        assert settings(h200, "reduce-overhead").request.refine == 0
    with pytest.warns(UserWarning, match="epilogue_fusion=False is left out; instead: fusion="):
        settings({"epilogue_fusion": False}, None)
    with pytest.warns(UserWarning, match="Inductor's option max_fusion_size=8 is left out; instead: the options are target"):
        settings({"max_fusion_size": 8}, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settings({"target": "cpu", "triton.cudagraphs": True, "fallback-random": True}, "reduce-overhead")
    with pytest.raises(OptionError, match="max-autotune-no-cudagraphs"):
        settings({}, "fastest")


def test_torch_hands_modes_over(monkeypatch):
    monkeypatch.setenv("EQFUSE_TARGET", "h200")
    x = torch.randn(3, 7)
    with pytest.warns(UserWarning, match=r"triton\.cudagraphs"):
        assert torch.equal(torch.compile(lambda x: x * 2, backend=compile_graph, mode="reduce-overhead")(x), x * 2)


def test_breaks_writes_and_numbers():
    def branches(x, seen):
        seen.add_(1)
        return x * 2 if x.sum() > 0 else (torch.exp(x), 3)

    g, seen = compiled(branches), torch.zeros(4)
    assert torch.equal(g(torch.ones(4), seen), 2 * torch.ones(4))
    out, three = g(-torch.ones(4), seen)
    torch.testing.assert_close(out, torch.exp(-torch.ones(4)))
    assert (three, seen.tolist()) == (3, [2.0] * 4)


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
def test_a_graph_that_ran_goes_to_its_kernels_at_once(monkeypatch):
    """Until its plan is asked for; strides are looked at in every call, for kernels would read other memory."""
    given = torch.compile(lambda x: (x, torch.softmax(x, -1)), backend="eqfuse", options={"target": "cpu"})
    x = torch.randn(6, 40)
    given(x)
    with monkeypatch.context() as patch:
        patch.setattr(_Runner, "prepare", lambda *_: pytest.fail("prepared again"))
        for y in (x + 1, x * 2):
            found = given(y)
            assert found[0] is y, "an argument that is returned is itself"
            torch.testing.assert_close(found[1], torch.softmax(y, -1))
    (graph,) = eqfuse.report().graphs
    assert (graph.calls, graph.ran, len(graph.plans)) == (3, 3, 1)
    torch.testing.assert_close(given(x)[1], torch.softmax(x, -1))
    turned = torch.randn(40, 6).t()
    torch.testing.assert_close(given(turned)[1], torch.softmax(turned, -1))
