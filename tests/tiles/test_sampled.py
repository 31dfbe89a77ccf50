"""Tiles that no condition tells apart are counted as one: the shares of a loop are those over all tiles."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - as in torch's own documentation

from eqfuse.frontends import TensorSpec, trace
from eqfuse.tiles.direct import kernel_from_program
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.program import Loop
from eqfuse.tiles.sampled import Sampled, Tiles
from eqfuse.tiles.walk import walk

SIZES = (1, 4)


def convolution(rows, columns, tiles, lanes, **attributes):
    """A kernel that sums channels inside of a window, of some rows and columns at a time."""
    given = (TensorSpec((2, 32, rows, columns), torch.float16), TensorSpec((16, 32, 3, 3), torch.float16))
    program = trace(lambda x, w: F.conv2d(x, w, **attributes), given).program
    wanted = {a.name: a for a in program.axes}
    channels = next(a for a in program.axes if a.size == 32)
    kinds = {n: "stream" if n.startswith("window") or a is channels else "grid" for n, a in wanted.items()}
    sizes = {"x_rows": tiles[0], "x_cols": tiles[1], "w_batch0": lanes, channels.name: 16}
    roles = {a: Role(kinds[n], sizes.get(n, 1)) for n, a in wanted.items()}
    packs = ((wanted["x_rows"], wanted["x_cols"]),) if min(tiles) > 1 else ()
    return kernel_from_program(program, roles, packs=packs)


def all_apart(self, values, tiles, starts, but):
    """Each tile by itself."""
    return Tiles(starts, tuple(np.ones(at.shape, int) for at in starts.values()))


@pytest.mark.parametrize("tiles", list(itertools.product(SIZES, SIZES)))
@pytest.mark.parametrize("attributes", [{"padding": 1}, {"padding": 2, "dilation": 2}])
def test_the_shares_are_those_over_all_tiles(monkeypatch, tiles, attributes):
    program = lower(convolution(10, 7, tiles, 16, **attributes))
    assert any(s.edges for s in program.statements() if isinstance(s, Loop))  # a tile in the padding adds nothing
    found = walk(program)
    monkeypatch.setattr(Sampled, "different", all_apart)
    there = walk(program)
    assert [found.steps, found.simt, found.flops] == pytest.approx([there.steps, there.simt, there.flops], rel=1e-12)
    assert [t.bytes for t in found.loads] == pytest.approx([t.bytes for t in there.loads], abs=1)


def test_a_window_over_a_large_image_has_few_tiles(monkeypatch):
    """The first row, the last one, and those between; at three places of a window; and as many columns."""
    program, counted = lower(convolution(200, 150, (1, 1), 16, padding=1)), []
    different = Sampled.different

    def kept(self, *args):
        counted.append(found := different(self, *args))
        return found

    monkeypatch.setattr(Sampled, "different", kept)
    walk(program)
    assert counted and all(np.prod([t.size for t in tiles.times]) <= 3**4 for tiles in counted)
    assert all(np.prod([t.sum() for t in tiles.times]) == 200 * 3 * 150 * 3 for tiles in counted)
