"""Graphs whose sizes are symbols: traced once, they are at any sizes what tracing them there gives."""

from functools import partial

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

import eqfuse
from eqfuse import ranges
from eqfuse.backend import compile_graph
from eqfuse.frontends import graphs, trace
from eqfuse.frontends.graphs import at_values, capture_graph, capture_symbols, without_data
from eqfuse.frontends.readable import readable
from eqfuse.frontends.traced import same_tensors
from eqfuse.ir.sameness import same_program
from eqfuse.steps.pieces import cut


@pytest.fixture(autouse=True)
def from_the_beginning(nothing_compiled):
    torch.manual_seed(0)


def attention(x, w):
    q, k, v = (y.view(y.shape[0], y.shape[1], 2, -1).transpose(1, 2) for y in (x @ w).chunk(3, -1))
    scores = (q @ k.transpose(-2, -1)).masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1).bool(), float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape[0], x.shape[1], -1)


def counted(x, w):
    return x.mean(0) / x.shape[0] + torch.arange(x.shape[1]) * w.sum(), x.t().exp()


def in_pieces(x, w):
    rows = torch.relu(x @ w)
    return torch.linalg.qr(rows)[1].exp().sum(0) * x.shape[0], rows.softmax(-1)


CASES = {
    "attention": (attention, [((2, 5, 8), (8, 24)), ((2, 6, 8), (8, 24)), ((2, 17, 8), (8, 24))]),
    "counted": (counted, [((7, 9), (9,)), ((8, 9), (9,)), ((33, 9), (9,))]),
    "in pieces": (in_pieces, [((7, 4), (4, 3)), ((8, 4), (4, 3)), ((64, 4), (4, 3))]),
}


def calls_of(f, shapes, wanted=False):
    """The graphs with symbols that AOTAutograd makes of a function, each with the arguments of its calls."""
    found = []

    def compiled(module, examples):
        given = []
        found.append((module, given))

        def call(args):
            given.append(list(args))
            return module(*args)

        call._boxed_call = True
        return call

    torch._dynamo.reset()
    g = torch.compile(f, backend=aot_autograd(fw_compiler=compiled, bw_compiler=compiled), dynamic=True)
    for several in shapes:
        given = [torch.randn(s, requires_grad=wanted) for s in several]
        out = g(*given)
        if wanted:
            sum(o.sum() for o in (out if isinstance(out, tuple) else (out,))).backward()
    return found


@pytest.mark.parametrize("wanted", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", CASES)
def test_a_graph_at_other_sizes_is_what_tracing_it_there_gives(name, wanted):
    f, shapes = CASES[name]
    compared = 0
    for module, calls in calls_of(f, shapes, wanted):
        names = [n.name for n in module.graph.nodes if n.op == "placeholder"]
        symbolic, first = capture_symbols(module, names), None
        if (f, wanted) == (in_pieces, True) and symbolic is None:
            continue  # what torch's derivative of qr asks of sizes
        for values in calls:
            found, there = at_values(symbolic, values), capture_graph(module, values, names)
            assert found is not None
            first = first or readable(found)
            cuts = [cut(there, readable(there), name), cut(found, first.at(found.graph), name, symbolic)]
            assert cuts[0].takes == cuts[1].takes
            targets = [{str(n.target) for n in r.unread} for r in (readable(there), first.at(found.graph))]
            assert targets[0] == targets[1]
            for a, b in zip(*(c.pieces.values() for c in cuts), strict=True):
                one, other = trace(a), trace(b)
                assert same_program(one.program, other.program, {}) and same_tensors(one, other)
                assert one.program.strides == other.program.strides
                compared += 1
    assert compared >= len(shapes)


@pytest.mark.parametrize("name", CASES)
def test_a_piece_at_other_sizes_is_that_of_the_graph_there(name):
    f, shapes = CASES[name]
    ((module, calls),) = calls_of(f, shapes)
    names = [n.name for n in module.graph.nodes if n.op == "placeholder"]
    symbolic = capture_symbols(module, names)
    whole = [at_values(symbolic, values) for values in calls]
    pieces = [{k: trace(p) for k, p in cut(c, readable(c), name, symbolic).pieces.items()} for c in whole]
    for called, first in pieces[0].items():
        for other in (p[called] for p in pieces[1:]):
            found = first.resized({i.name: other.specs[i.name].shape for i in other.program.inputs})
            assert found is not None and same_program(found.program, other.program, {})


def test_what_the_trace_does_not_hold_for_is_not_read():
    module, calls = calls_of(lambda x: (x.exp().t(), x.shape[0] * x.sum()), [((7, 9),), ((8, 9),)])[0]
    names = [n.name for n in module.graph.nodes if n.op == "placeholder"]
    symbolic, given = capture_symbols(module, names), calls[0]
    assert at_values(symbolic, given) is not None
    (k,) = (k for k, x in enumerate(given) if isinstance(x, torch.Tensor))
    for other in (torch.empty(9, 7).t(), torch.empty(1, 9), torch.empty(7, 1)):  # in memory in another order; a length of 1
        assert at_values(symbolic, [*given[:k], other, *given[k + 1 :]]) is None
    static = torch.fx.symbolic_trace(lambda x: (x + 1,))
    for n in static.graph.nodes:
        n.meta["val"] = without_data([torch.randn(3)])[0]
    assert capture_symbols(static, ["x"]) is None


def test_lengths_between_two_powers_of_two_are_traced_and_asked_about_once(monkeypatch):
    f = torch.compile(attention, backend=compile_graph, dynamic=True, options={"run": "interpret", "target": "h200", "time_budget": 1.0})
    w, done = torch.randn(8, 24), {"traced": 0, "asked": 0}

    def counting(what, made, *args, **more):
        done[what] += 1
        return made(*args, **more)

    monkeypatch.setattr(graphs, "decomposed", partial(counting, "traced", graphs.decomposed))
    monkeypatch.setattr(ranges, "like", partial(counting, "asked", ranges.like))
    known = []
    for n in (9, 10, 11, 12, 14, 15):
        x = torch.randn(2, n, 8)
        torch.testing.assert_close(f(x, w), attention(x, w), rtol=1e-4, atol=1e-5)
        known.append(dict(done))
    assert known[-1]["traced"] == 1
    assert known[2:] == known[2:3] * 4, "the third length on"
    assert not any(g.reasons for g in eqfuse.report().graphs)
