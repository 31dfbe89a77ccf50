"""How many parts a long reduction is offered in: as many as keep the device busy, and none where it is busy anyway."""

from __future__ import annotations

import pytest
import torch

from eqfuse.egraph import saturate
from eqfuse.extract import extract
from eqfuse.extract.fusibility import Verdicts
from eqfuse.extract.splits import FULLER, TILE, _parts, busy, propose_splits
from eqfuse.extract.targets import load_target, targets
from eqfuse.frontends import trace
from eqfuse.testing.programs import PROGRAMS

VOCABULARY = 128256


@pytest.mark.parametrize("target", [t for t in targets() if not load_target(t).on_cpu])
@pytest.mark.parametrize("tokens", [2048, 4096])
def test_parts_fill_the_device_whichever_tile_is_taken(target, tokens):
    sms = load_target(target).sm_count
    tiles = tokens / TILE
    parts = _parts(tiles, VOCABULARY, sms, True)
    assert parts > 1
    assert busy(tiles * parts, sms) >= FULLER
    assert busy(tiles / 2 * parts, sms) >= FULLER


def test_a_last_wave_that_is_half_empty_is_worth_splitting():
    assert _parts(128, VOCABULARY, 108, True) == 8  # 128 programs on 108 multiprocessors: two waves, 59 % busy
    assert _parts(128, VOCABULARY, 132, True) == 2  # less than one wave
    assert _parts(256, VOCABULARY, 132, True) == 1  # 97 % busy
    assert _parts(4096, VOCABULARY, 108, True) == 1


@pytest.mark.parametrize("tiled", [True, False])
def test_parts_are_not_too_short(tiled):
    """Nor those of products: every axis of a tiny layer was split, and no saturation of all of these ended."""
    assert _parts(1, 1000, 132, tiled) == 4
    assert _parts(1, 200, 132, tiled) == 1


@pytest.mark.parametrize("tiled", [True, False])
def test_nothing_and_a_single_element_are_not_split(tiled):
    assert _parts(1, 0, 132, tiled) == 1
    assert _parts(1, 1, 132, tiled) == 1


def test_no_split_of_an_empty_axis_is_offered():
    x, g, w = torch.randn(5, 0), torch.randn(0), torch.randn(3, 0)
    assert propose_splits(trace(PROGRAMS["rmsnorm_linear"].fn, (x, g, w)).program, load_target("h200")) == {}


def test_one_value_is_not_parted_from_itself():
    """The mean of the parts of nothing is the mean of one of them: that the parts are stored says nothing there."""
    x, g, w = torch.randn(5, 0), torch.randn(0), torch.randn(3, 0)
    p = trace(PROGRAMS["rmsnorm_linear"].fn, (x, g, w)).program
    k = next(a for a in p.axes if a.size == 0)
    graph = saturate(p, splits={k: 2})
    assert any(verdict == "forbid" and outer == inner for verdict, outer, inner, _ in graph.facts["fuse"])
    assert all(f.outer != f.inner for f in Verdicts(graph).forbidden)
    assert len(extract(graph, load_target("h200")).kernels) == 1


@pytest.mark.parametrize(
    ("shape", "offered"),
    [
        ((32, 56, 56, 256), (56, (7,))),  # 8 x 56 rows of a sector fit on chip; the first axis takes one position per program
        ((33, 57, 55, 130), (57, (7,))),  # no equal parts
        ((64, 9, 9, 256), (64, (32,))),  # short parts fill the device
        ((31, 61, 53, 4096), None),  # columns enough
        ((2, 3, 5, 256), None),  # next to nothing
        ((0, 56, 56, 256), None),
    ],
)
def test_of_several_short_axes_one_is_split(shape, offered):
    program = trace(lambda x: x.mean((0, 1, 2)), [torch.empty(shape, dtype=torch.float16, device="meta")]).program
    found = propose_splits(program, load_target("h200"))
    assert [(a.size, n) for a, n in found.items()] == ([] if offered is None else [offered])
