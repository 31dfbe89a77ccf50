"""A simulation in float32 rounds what float32 rounds: operations, and the numbers of the program."""

import numpy as np
import pytest
import torch

import eqfuse


@pytest.mark.parametrize(
    "fn", [lambda x: x * 0.1, lambda x: x / 3.0 + 0.7, lambda x: torch.where(x < 0.1, x, 0.1)], ids=["product", "sum", "comparison"]
)
def test_numbers_of_the_program_are_float32(fn):
    x = torch.cat([torch.full((7,), 0.1), torch.randn(93)])
    c = eqfuse.optimize(fn, (x,), target="h200", licence="exact")
    assert torch.equal(c.simulate(x, dtype=np.float32), fn(x))
    assert c.simulate(x).dtype == torch.float64


def test_positions_keep_all_their_digits():
    """Whole numbers are no float32: 2**24 + 1 is not 2**24."""
    n = (1 << 24) + 2
    c = eqfuse.optimize(lambda x: torch.where(torch.arange(n) > n - 2, x, 0.0), (torch.ones(n),), target="h200")
    found = c.simulate(torch.ones(n), dtype=np.float32)
    assert found.sum() == 1 and found[-1] == 1
