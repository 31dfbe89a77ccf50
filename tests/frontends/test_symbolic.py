"""A function that is traced once with its sizes as symbols is, at any sizes, what tracing at these sizes gives."""

from __future__ import annotations

import pytest
import torch

from eqfuse.frontends import trace
from eqfuse.ir.sameness import same_program
from eqfuse.testing.programs import PROGRAMS


def tensors(*shapes):
    return tuple(torch.empty(s, device="meta") for s in shapes)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_corpus_at_other_sizes_is_what_tracing_there_gives(name):
    case = PROGRAMS[name]
    traced = trace(case.fn, case.args("bench", device="meta"))
    read = 0
    for sizes in ("bench", "check", "small", "odd"):
        args = case.args(sizes, device="meta")
        found = traced.at(args, {})
        if any(1 in x.shape for x in args) != any(1 in x.shape for x in case.args("bench", device="meta")):
            continue  # another program: a length of 1 is none
        if found is not None:
            read += 1
            there = trace(case.fn, args)
            assert same_program(there.program, found.program, {})
            assert found.specs == there.specs
    assert read >= 3


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(24)
        self.up = torch.nn.Linear(24, 40)

    def forward(self, x, *, scale=1.0):
        return torch.relu(self.up(self.norm(x))) * scale


def nested(x, parts, scale=1.0, *, beside):
    return x * scale + parts["a"] @ parts["b"], beside.sum(-1)


CASES = {
    "scale": (lambda q, k: q @ k.T * q.shape[-1] ** -0.5, ((6, 8), (5, 8)), ((60, 80), (50, 80))),
    "count": (lambda x: x.var(-1), ((6, 8),), ((5, 77),)),
    "halves": (lambda x: x[..., : x.shape[-1] // 2] * x[..., x.shape[-1] // 2 :], ((6, 8),), ((6, 18),)),
    "positions": (lambda x: x * torch.arange(x.shape[-1]), ((6, 8),), ((7, 9),)),
    "heads": (lambda x: x.reshape(x.shape[0], 4, -1).sum(-1), ((6, 8),), ((7, 20),)),
    "number of rows": (lambda x: x * (3.0 if x.shape[0] > 64 else 2.0), ((100, 8),), ((65, 9),)),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_computed_from_sizes_is_computed_again(name):
    f, shapes, others = CASES[name]
    found = trace(f, tensors(*shapes)).at(tensors(*others), {})
    assert found is not None
    assert same_program(trace(f, tensors(*others)).program, found.program, {})


@pytest.mark.parametrize(
    ("f", "shapes", "others"),
    [
        (CASES["number of rows"][0], ((100, 8),), ((64, 8),)),  # on the other side of a comparison
        (lambda x: x.exp() + 1, ((6, 8),), ((6, 1),)),  # a length of 1
        (lambda x, y: x + y, ((6, 8), (6, 8)), ((6, 8), (6, 9))),  # no longer equal
        (lambda x: x.reshape(x.shape[0], 4, -1), ((6, 8),), ((6, 9),)),  # no multiple
        (lambda x: sum(x[k] for k in range(x.shape[0])), ((6, 8),), ((7, 8),)),  # a loop over a size
    ],
)
def test_where_the_trace_does_not_hold_there_is_nothing(f, shapes, others):
    assert trace(f, tensors(*shapes)).at(tensors(*others), {}) is None


def test_arguments_of_every_kind():
    torch.manual_seed(0)
    x, a, b, beside = (torch.randn(s) for s in ((64, 30), (64, 5), (5, 30), (7, 8)))
    traced = trace(nested, (x, {"a": a, "b": b}), {"beside": beside, "scale": 3.0})
    x, a, b, beside = (torch.randn(s) for s in ((48, 20), (48, 6), (6, 20), (3, 9)))
    found = traced.at((x, {"b": b, "a": a}), {"scale": 3.0, "beside": beside})
    assert found is not None
    bound = found.bind(x, {"a": a, "b": b}, beside=beside, scale=3.0)
    assert [tuple(t.shape) for t in bound.values()] == [(48, 20), (48, 6), (6, 20), (3, 9)]
    assert traced.at((x, {"b": b, "a": a}), {"scale": 2.0, "beside": beside}) is None, "another number is another program"
    assert traced.at((x.half(), {"b": b, "a": a}), {"scale": 3.0, "beside": beside}) is None, "another type, too"


def test_parameters_are_found_again():
    torch.manual_seed(0)
    block = Block()
    traced = trace(block, (torch.randn(3, 17, 24),), {"scale": 2.0})
    x = torch.randn(5, 9, 24)
    found = traced.at((x,), {"scale": 2.0})
    assert found is not None
    assert found.bind(x, scale=2.0)["up_weight"] is block.up.weight


def test_the_function_runs_once_however_many_sizes_there_are():
    calls = []

    def f(x):
        calls.append(tuple(x.shape))
        return torch.softmax(x, -1)

    traced = trace(f, tensors((64, 128)))
    assert len(calls) == 1, "and not before another size is asked for"
    for n in range(2, 40):
        assert traced.at(tensors((n, 3 * n)), {}) is not None
    assert len(calls) == 2


def test_an_exported_program_with_symbols():
    """It has the sizes that it was exported with until others are given."""

    class Scores(torch.nn.Module):
        def forward(self, q, k):
            return torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, -1)

    dims = {"q": {0: torch.export.Dim("queries"), 1: None}, "k": {0: torch.export.Dim("keys", max=4096), 1: None}}
    exported = torch.export.export(Scores(), (torch.randn(6, 16), torch.randn(9, 16)), dynamic_shapes=dims)
    traced = trace(exported)
    assert not traced.static
    assert [tuple(1 if a is None else a.size for a in i.layout) for i in traced.program.inputs] == [(6, 16), (9, 16)]
    q, k = torch.randn(60, 16), torch.randn(333, 16)
    there = trace(exported, (q, k))
    assert [tuple(1 if a is None else a.size for a in i.layout) for i in there.program.inputs] == [(60, 16), (333, 16)]
    assert traced.at((q, torch.randn(5000, 16)), {}) is None, "more than it was exported for"
    assert torch.equal(there.eager(q, k), Scores()(q, k))
