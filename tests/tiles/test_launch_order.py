"""The order in which the programs of a grid take its tiles."""

import math

import numpy as np
import pytest

from eqfuse.tiles.launch_order import taken


def tiles(counts, grouped):
    return list(zip(*(t.tolist() for t in taken(np.arange(math.prod(counts)), counts, grouped)), strict=True))


def test_groups_of_two_rows_column_by_column():
    assert tiles((3, 2), 2) == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
    assert tiles((3, 2), 0) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]


@pytest.mark.parametrize("counts", [(1, 1), (7, 1), (1, 7), (5, 4), (2, 5, 3), (3, 2, 4, 5)])
@pytest.mark.parametrize("grouped", [0, 2, 3, 8])
def test_every_tile_is_taken_once(counts, grouped):
    found = tiles(counts, grouped)
    assert len(found) == math.prod(counts) and set(found) == set(np.ndindex(*counts))
    others = [t[:-2] for t in found]
    assert others == sorted(others)  # groups are of the last two axes
