"""The order of programs, by what passes the second-level cache."""

import pytest
import torch
from torch.nn import functional

import eqfuse


def planned(f, *shapes):
    given = tuple(torch.empty(s, dtype=torch.float16, device="meta") for s in shapes)
    return eqfuse.optimize(f, given, target="a100").plan.kernels


def test_programs_of_a_product_run_in_blocks():
    """Rows and columns are many panels each, more than the cache holds."""
    one = planned(lambda x, w: functional.silu(x @ w), (4096, 4096), (4096, 14336))[0]
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
