"""What is written where data say: a choice for each position, a sum over what several indices add."""

import pytest
import torch

from eqfuse.ir.terms import Reduce

from .test_corpus import agree

RANDOM = torch.Generator().manual_seed(0)
ONE = torch.tensor([[1], [0], [3], [2]])


def randn(*shape):
    return torch.randn(*shape, generator=RANDOM, dtype=torch.float64)


@pytest.mark.parametrize(
    "write",
    [
        lambda x, i: x.scatter(1, i, 2.0),
        lambda x, i: x.scatter(1, i, x[:, :1] * 3),
        lambda x, i: x.scatter_add(1, i, x[:, 1:2]),
        lambda x, i: x.T.scatter(0, i.T, -1.5),
    ],
)
def test_one_element_for_each_row(write):
    program = agree(write, (randn(4, 5), ONE)).program
    assert not [t for t in program.terms() if isinstance(t, Reduce)]


def test_what_several_indices_add():
    indices = torch.tensor([[1, 1, 4], [0, 2, 0], [3, 3, 3], [2, 0, 1]])
    agree(lambda x, i, s: x.scatter_add(1, i, s), (randn(4, 5), indices, randn(4, 3)))


@pytest.mark.parametrize("n", [0, 1, 3])
def test_rows_past_those_of_the_index_are_not_written(n):
    agree(lambda x, i: x.scatter(1, i, 2.0), (randn(4, 5), ONE[:n]))
    agree(lambda x, i, s: x.scatter_add(0, i, s), (randn(3, 4, 5), torch.randint(3, (6, n, 2), generator=RANDOM), randn(7, 4, 2)))
