"""Kernels of earlier processes: a graph that was seen before is neither captured nor planned, and no other graph is taken for it."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

import eqfuse
from eqfuse.backend import compile_graph, compiling, kept, partitioning
from eqfuse.backend.graph_text import Unspelled, graph_text
from eqfuse.extract.covers import extractor
from eqfuse.extract.kept import folder
from eqfuse.extract.targets import load_target
from eqfuse.frontends import capture
from eqfuse.planning import Request, checked
from eqfuse.rewrites import registry
from eqfuse.rewrites.table import RULES

H200 = load_target("h200")
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    monkeypatch.setenv("EQFUSE_CACHE", "1")
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))
    for name in [r.name for r in RULES.values() if not r.builtin]:  # what another test has registered
        monkeypatch.delitem(RULES, name)
    torch._dynamo.reset()
    eqfuse.report(reset=True)
    yield tmp_path / "plans"
    torch._dynamo.reset()


def compiled(f, **options):
    torch._dynamo.reset()
    return torch.compile(f, backend=compile_graph, options={"run": "interpret", "target": "h200", **options})


def refuse(*_, **__):
    raise AssertionError("made again")


@pytest.fixture
def unplanned(monkeypatch):
    """From here on no graph is captured, planned or parted."""

    def start():
        for where, name in ((compiling, "capture_graph"), (compiling, "Steps"), (partitioning, "_chosen")):
            monkeypatch.setattr(where, name, refuse)
        return monkeypatch

    return start


def entries(kind):
    return [e for e in folder.entries() if kind in e.data]


# the same graph -----------------------------------------------------------------------------------------------------------------------


def several(x, w):
    """Kernels, an operator of torch between them, constants of several sizes, and results that are no tensors."""
    y = torch.relu(x) * torch.tensor(0.5) + torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    return torch.sort(y, -1).values.exp() * w, 3, x, None, y


@pytest.mark.filterwarnings("error:eqfuse")
def test_a_graph_that_was_seen_is_called_without_being_read(unplanned):
    x, w = torch.randn(3, 5), torch.randn(5)
    with torch.no_grad():
        compiled(several)(x, w)
        cold = eqfuse.report(reset=True)
        unplanned()
        g = compiled(several, strict=False)
        for other in (x, torch.randn(3, 5)):
            for ours, theirs in zip(g(other, w), several(other, w), strict=True):
                torch.testing.assert_close(ours, theirs)
    assert len(entries("module")) == 1
    assert [g.reasons for g in eqfuse.report().graphs] == [[]] and cold.graphs[0].plans


def test_a_report_plans_what_was_read_and_says_what_it_said():
    x, w = torch.randn(3, 5), torch.randn(5)
    with torch.no_grad():
        compiled(several)(x, w)
        cold = eqfuse.report(reset=True).json()
        g = compiled(several)
        g(x, w)
        assert eqfuse.report().json().replace("graph1", "graph0") == cold.replace("graph1", "graph0")
        torch.testing.assert_close(g(x, w)[0], several(x, w)[0])  # by the kernels that were reported


class Counting(torch.nn.Module):
    """Learns, and writes a buffer."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 8)
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x):
        y = torch.relu(self.linear(x))
        self.seen.add_(y.detach().sum(0))
        return y


def test_a_training_step_that_was_seen(unplanned):
    torch.manual_seed(0)
    model, x = Counting(), torch.randn(4, 6)

    def gradients(f):
        model.zero_grad()
        model.seen.zero_()
        f(x).square().sum().backward()
        return [p.grad.clone() for p in model.parameters()] + [model.seen.clone()]

    wanted = gradients(model)
    gradients(compiled(model))
    assert (len(entries("module")), len(entries("saved"))) == (2, 1)
    cold = [g.notes for g in eqfuse.report(reset=True).graphs]
    unplanned()
    for ours, theirs in zip(gradients(compiled(model)), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    found = eqfuse.report().graphs
    assert [g.notes for g in found] == cold and not any(g.reasons for g in found)


def test_sizes_that_were_seen_are_read_and_others_have_their_kernels(monkeypatch):
    def f(x):
        return x.exp() * x.shape[0]

    def run(sizes):
        torch._dynamo.reset()
        g = torch.compile(f, backend=compile_graph, dynamic=True, options={"run": "interpret", "target": "h200"})
        for n in sizes:
            x = torch.randn(n, 7)
            torch.testing.assert_close(g(x), f(x))

    with torch.no_grad():
        run((4, 9))
        planned = []
        steps = compiling.Steps
        monkeypatch.setattr(compiling, "Steps", lambda c, *args: planned.append(c.leaves[-1].shape[0]) or steps(c, *args))
        run((4, 9, 6))
    assert planned == [4, 6], "that of 4 may serve 6"


# another graph ------------------------------------------------------------------------------------------------------------------------


def graph(f, *args):
    return make_fx(f)(*args)


X, Y, W = torch.randn(4, 6), torch.randn(4, 6), torch.randn(6, 6)
held = torch.tensor([1.0, 2.0])


def with_constant(t, *args):
    """A graph that holds a tensor."""
    g = torch.fx.Graph()
    x, c = g.placeholder("x"), g.get_attr("c")
    x.meta["val"], c.meta["val"] = X, t
    n = g.call_function(aten.mul.Tensor, (x, c))
    n.meta["val"] = X
    g.output((n,))
    root = torch.nn.Module()
    root.register_buffer("c", t)
    return GraphModule(root, g)


OTHERS = {
    "x+y": lambda: graph(lambda x, y: x + y, X, Y),
    "y+x": lambda: graph(lambda x, y: y + x, X, Y),
    "x-y": lambda: graph(lambda x, y: x - y, X, Y),
    "x+2y": lambda: graph(lambda x, y: torch.add(x, y, alpha=2), X, Y),
    "other result": lambda: graph(lambda x, y: (x + y, x), X, Y),
    "results in another order": lambda: graph(lambda x, y: (x, x + y), X, Y),
    "none among results": lambda: graph(lambda x, y: (x + y, None), X, Y),
    "half": lambda: graph(lambda x, y: x + y, X.half(), Y),
    "double": lambda: graph(lambda x, y: x + y, X.double(), Y.double()),
    "other sizes": lambda: graph(lambda x, y: x + y, X[:3], Y[:3]),
    "one row": lambda: graph(lambda x, y: x + y, X[:1], Y),
    "expanded": lambda: graph(lambda x, y: x + y, X[:1].expand(4, 6), Y),
    "turned": lambda: graph(lambda x, y: x + y, torch.randn(6, 4).t(), Y),
    "gaps": lambda: graph(lambda x, y: x + y, torch.randn(4, 12)[:, ::2], Y),
    "another device": lambda: graph(lambda x, y: x + y, X.to("meta"), Y.to("meta")),
    "one": lambda: graph(lambda x, y: x * 1, X, Y),
    "1.0": lambda: graph(lambda x, y: x * 1.0, X, Y),
    "True": lambda: graph(lambda x, y: aten.mul.Scalar(x, True), X, Y),
    "0.0": lambda: graph(lambda x, y: x * 0.0, X, Y),
    "-0.0": lambda: graph(lambda x, y: x * -0.0, X, Y),
    "nan": lambda: graph(lambda x, y: x * math.nan, X, Y),
    "nearly one": lambda: graph(lambda x, y: x * math.nextafter(1.0, 2.0), X, Y),
    "sum 0": lambda: graph(lambda x, y: x.sum(0), X, Y),
    "sum 1": lambda: graph(lambda x, y: x.sum(1), X, Y),
    "sum, kept": lambda: graph(lambda x, y: x.sum(1, keepdim=True), X, Y),
    "sum in double": lambda: graph(lambda x, y: x.sum(1, dtype=torch.float64), X, Y),
    "written": lambda: graph(lambda x, y: x.add_(y), X.clone(), Y),
    "random": lambda: graph(lambda x, y: torch.rand_like(x), X, Y),
    "random, normal": lambda: graph(lambda x, y: torch.randn_like(x), X, Y),
    "constant": lambda: with_constant(torch.tensor(2.0)),
    "another constant": lambda: with_constant(torch.tensor(3.0)),
    "a constant of other bits": lambda: with_constant(torch.tensor(math.nextafter(2.0, 3.0), dtype=torch.float64)),
    "a row of constants": lambda: with_constant(torch.tensor([2.0])),
    "constants": lambda: with_constant(torch.tensor([1.0, 2.0])),
    "constants in another order": lambda: with_constant(torch.tensor([2.0, 1.0])),
    "integers of the same bits": lambda: with_constant(torch.tensor([1.0, 2.0]).view(torch.int32)),
}


def test_every_difference_is_another_text():
    texts = {name: graph_text(make()) for name, make in OTHERS.items()}
    assert [(a, b) for a in texts for b in texts if a < b and texts[a] == texts[b]] == []
    assert all(graph_text(OTHERS[name]()) == text for name, text in texts.items()), "and none is a difference of processes"
    assert not any("0x" in text for text in texts.values())


def test_sizes_that_are_symbols_are_said_with_their_numbers():
    def text(f, *args):
        return graph_text(make_fx(f, tracing_mode="symbolic")(*args))

    four = text(lambda x: x.exp(), X)
    assert four == text(lambda x: x.exp(), Y) != text(lambda x: x.exp(), torch.randn(5, 6))
    with pytest.raises(Unspelled, match="comes from data"):
        text(lambda x: x.nonzero() * 2, X)


def request(**changed):
    return replace(checked(Request(None, None, None, "h200")), **changed)


def test_the_key_hangs_on_what_kernels_hang_on(monkeypatch):
    g = OTHERS["x+y"]()
    asked = [
        {}, {"target": load_target("a100")}, {"target": H200.with_level("dram", gb_s=1.0)}, {"licence": "exact"}, {"disable": ("repair",)},
        {"objective": "memory"}, {"memory_limit": 1e9}, {"node_budget": 100}, {"time_budget": 1.0}, {"no_spills": True}, {"refine": 2}, {"tune": True}, {"strict": True},
    ]  # fmt: skip
    names = [kept.key("graph", request(**changed), g) for changed in asked]
    values = [torch.empty(4, 6), torch.empty(6, 4).t(), torch.empty(4, 6, dtype=torch.float16), 4, 4.0]
    names += [kept.key("graph", request(), g, [v], ["x"]) for v in values]
    names += [
        kept.key("graph", request(), g, values[:1], ["y"]),
        kept.key("joint", request(), g),
        kept.key("graph", request(), g, outputs=1),
    ]
    torch.set_default_dtype(torch.float64)
    try:
        names.append(kept.key("graph", request(), g))
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.autocast("cpu"):
        names.append(kept.key("graph", request(), g))
    with monkeypatch.context() as m:
        m.setattr(kept, "made_by", lambda sources, packages: f"another {packages}")
        names.append(kept.key("graph", request(), g))
    assert None not in names and len(set(names)) == len(names)


def test_what_no_text_tells_apart_is_not_kept(monkeypatch):
    g, asked = OTHERS["x+y"](), request()
    assert kept.key("graph", asked, g) is not None

    def calls(target, *args):
        g = torch.fx.Graph()
        g.output(g.call_function(target, args))
        return SimpleNamespace(graph=g)

    with torch.library._scoped_library("eqfuse_warm", "DEF") as theirs:
        theirs.define("f(Tensor x) -> Tensor")
        for other in (
            calls(torch.ops.eqfuse_warm.f.default, None), calls(lambda x: x, 1), calls(torch.ops.higher_order.cond, None),
            calls(aten.neg.default, object()), with_constant(torch.eye(2).to_sparse()),
        ):  # fmt: skip
            with pytest.raises(Unspelled):
                graph_text(other)
    theirs = replace(registry.rules()[0], name="theirs", builtin=False)
    assert kept.key("graph", replace(asked, rules=(theirs,)), g) is None
    with monkeypatch.context() as m:
        m.setattr(kept, "made_by", lambda *_: None)  # sources are newer than the process
        assert kept.key("graph", asked, g) is None
    with monkeypatch.context() as m:
        m.setenv("EQFUSE_DEBUG", "1")
        assert kept.key("graph", asked, g) is None
    table = dict(capture.decompositions())
    monkeypatch.setattr(kept, "decompositions", lambda: table | {aten.relu.default: lambda x: x})
    assert kept.key("graph", asked, g) is None


def test_what_the_watchdog_ended_is_not_kept(monkeypatch):
    monkeypatch.setattr(extractor, "bitten", lambda: True)
    x, w = torch.randn(3, 5), torch.randn(5)
    with torch.no_grad():
        compiled(several)(x, w)
    assert not entries("module")


def test_what_is_not_as_it_was_written_is_planned_again(place, unplanned):
    x, w = torch.randn(3, 5), torch.randn(5)

    def fields(path, good):
        folder.write(path.stem, {"module": "raise SystemExit", "of": {}})

    def bits(path, good):
        path.write_bytes(good.replace(b"import torch", b"raise Exit  "))

    def rights(path, good):
        path.chmod(0o666)

    with torch.no_grad():
        compiled(several)(x, w)
        for spoil in (fields, bits, rights):
            (entry,) = entries("module")
            path = place / f"{entry.name}.plan"
            spoil(path, path.read_bytes())
            torch.testing.assert_close(compiled(several)(x, w)[0], several(x, w)[0])
            assert len(eqfuse.report(reset=True).graphs[0].plans) == 1
            assert entries("takes"), spoil.__name__
        unplanned()
        torch.testing.assert_close(compiled(several)(x, w)[0], several(x, w)[0])
