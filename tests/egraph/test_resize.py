"""A graph at other sizes is the graph that saturation makes there."""

from __future__ import annotations

import pytest
import torch

from eqfuse.egraph import saturate
from eqfuse.egraph.resize import resized
from eqfuse.frontends import trace
from eqfuse.ir.index import Axis
from eqfuse.testing.programs import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_corpus(name):
    case = PROGRAMS[name]
    here, there = (trace(case.fn, case.args(s, device="meta")).program for s in ("bench", "check"))
    found = resized(saturate(here), there)
    if found is None:
        assert name == "attention_grouped", "its heads are read at h // 4"
        return
    made = saturate(there)
    assert found.program is there
    assert (found.classes, found.axes, found.roots, found.original) == (made.classes, made.axes, made.roots, made.original)
    assert {k: set(v) for k, v in found.facts.items()} == {k: set(v) for k, v in made.facts.items()}


def graph(f, *shapes, **options):
    return saturate(trace(f, tuple(torch.empty(s, device="meta") for s in shapes)).program, **options)


def program(f, *shapes):
    return trace(f, tuple(torch.empty(s, device="meta") for s in shapes)).program


def test_where_it_may_be_another_graph_there_is_none():
    softmax = lambda x: torch.softmax(x, -1)  # noqa: E731
    assert resized(graph(softmax, (64, 128)), program(softmax, (5, 7))) is not None
    assert resized(graph(softmax, (64, 128)), program(softmax, (1, 7))) is None, "a length of 1 is none"
    assert resized(graph(softmax, (64, 128)), program(softmax, (5, 0))) is None, "sums over nothing"
    assert resized(graph(softmax, (64, 128)), program(lambda x: x.exp(), (5, 7))) is None, "another program"
    split = graph(softmax, (64, 4096), splits={Axis("cols", 4096, 2): 8})
    assert resized(split, program(softmax, (64, 2047))) is None, "the last part would be shorter"
    ragged = graph(softmax, (64, 4095), splits={Axis("cols", 4095, 2): 8})
    assert resized(ragged, program(softmax, (64, 2048))) is None, "it would not"
    scaled = lambda x: x * x.shape[0]  # noqa: E731
    assert resized(graph(scaled, (64, 8)), program(scaled, (32, 8))) is None, "another constant"
    heads = lambda x: x.reshape(x.shape[0], 4, -1).sum(-1)  # noqa: E731
    assert resized(graph(heads, (6, 8)), program(heads, (6, 20))) is None, "positions that depend on lengths"


@pytest.mark.parametrize(("here", "there"), [(4096, 1536), (4095, 700)])
def test_parts_keep_their_length(here, there):
    softmax = lambda x: torch.softmax(x, -1)  # noqa: E731
    found = resized(graph(softmax, (64, here), splits={Axis("cols", here, 2): 8}), program(softmax, (5, there)))
    outer, inner = Axis("cols_o", -(-there // 512), 2), Axis("cols_i", 512, 2)
    made = graph(softmax, (5, there), splits={Axis("cols", there, 2): ((outer, inner),)})
    assert found is not None and found.facts["split"] == ((Axis("cols", there, 2), outer, inner),)
    assert (found.classes, found.axes, found.roots, found.original) == (made.classes, made.axes, made.roots, made.original)
    assert {k: set(v) for k, v in found.facts.items()} == {k: set(v) for k, v in made.facts.items()}
