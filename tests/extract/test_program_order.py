"""The order of programs, by what passes the second-level cache."""

from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch.nn import functional

import eqfuse
from eqfuse.extract.program_order import Panel, once, passed
from eqfuse.tiles.launch_order import taken

DEEP, CHUNK = 4096, 256  # of the contracted axis, and what programs in step are apart at most
HELD = int(0.8 * 50 * 2**20)


def simulated(counts, grouped, tile, at_a_time, held):
    """A product in 16 bits whose programs go through panels in step, over a cache that drops what was not used for longest."""
    programs = list(zip(*taken(np.arange(counts[0] * counts[1]), counts, grouped), strict=True))
    cache, used, missed = OrderedDict(), 0, 0
    for first in range(0, len(programs), at_a_time):
        wave = programs[first : first + at_a_time]
        panels = sorted({(0, m) for m, _ in wave} | {(1, n) for _, n in wave})
        for k in range(0, DEEP, CHUNK):
            for name in panels:
                size = tile[name[0]] * CHUNK * 2
                if (name, k) not in cache:
                    missed, used = missed + size, used + size
                cache[name, k] = size
                cache.move_to_end((name, k))
                while used > held:
                    used -= cache.popitem(last=False)[1]
    return missed


@pytest.mark.parametrize("grouped", [0, 4, 8])
def test_bytes_of_an_order_are_those_of_a_simulated_cache(grouped):
    counts, tile = (32, 112), (128, 128)
    panels = (Panel((0,), tile[0] * DEEP * 2), Panel((1,), tile[1] * DEEP * 2))
    found = passed(counts, grouped, panels, 132, HELD)
    assert found == pytest.approx(simulated(counts, grouped, tile, 132, HELD), rel=0.03)
    assert passed(counts, grouped, panels, 132, once(counts, panels)) == once(counts, panels)


def planned(f, *shapes):
    given = tuple(torch.empty(s, dtype=torch.float16, device="meta") for s in shapes)
    return eqfuse.optimize(f, given, target="a100").plan.kernels


def test_programs_of_a_product_run_in_blocks():
    """Rows and columns are many panels each, more than the cache holds."""
    (one,) = planned(lambda x, w: functional.silu(x @ w), (4096, 4096), (4096, 14336))
    assert one.kernel.grouped > 1 and "order" in one.kernel.notes
    assert one.cost.dram_bytes < 0.6e9  # about 4 GB along columns


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (torch.matmul, [(512, 512), (512, 512)]),  # all of it stays in the cache
        (torch.matmul, [(64, 4096), (4096, 14336)]),  # one tile of rows
        (lambda q, k, v: torch.softmax(q @ k.mT, -1) @ v, [(2, 16, 4096, 64)] * 3),  # programs of a head run together
        (lambda x, y: x + y, [(8192, 8192), (8192, 8192)]),
    ],
    ids=["small", "few rows", "attention", "elementwise"],
)
def test_order_of_the_axes_where_no_other_moves_less(f, shapes):
    for one in planned(f, *shapes):
        assert one.kernel.grouped == 0 and "order" not in one.kernel.notes
