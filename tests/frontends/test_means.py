"""Means by hand: a sum divided by how many numbers it adds, a number that a program may also have by chance."""

import pytest
import torch

import eqfuse
from eqfuse.frontends import trace

ROWS = torch.randn(3, 4, 105, generator=torch.Generator().manual_seed(0))


def monoids(f, x=ROWS, **options):
    return [t.monoid for t in trace(f, (x,), **options).program.terms() if hasattr(t, "monoid")]


@pytest.mark.parametrize(
    ("f", "axes"),
    [
        (lambda x: x.sum(-1) / x.shape[-1], 1),
        (lambda x: x.sum(-1, keepdim=True) * (1 / x.shape[-1]), 1),
        (lambda x: (1 / x.shape[-1]) * x.sum(-1), 1),
        (lambda x: x.sum(-1)[..., None] / 105, 1),
        (lambda x: x.sum((0, 2)) / (3 * 105), 2),
        (lambda x: x.sum() / x.numel(), 3),
        (lambda x: x.square().sum(1) / 4.0, 1),
    ],
)
def test_a_sum_divided_by_how_many_it_adds_is_a_mean(f, axes):
    assert monoids(f) == ["mean"] * axes


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.sum(-1) / 104,
        lambda x: x.sum(-1) / 4,
        lambda x: x.sum(-1) / -105,
        lambda x: x.sum(-1) / 0,
        lambda x: x.sum(-1) * (1 / 104),
        lambda x: x.sum(-1) * 105,
        lambda x: x.sum(-1) * 0.0,
        lambda x: x.sum(-1) / x.sum(-1),
        lambda x: (x[:, :, None] * x[:, None]).sum(-1) / 105,  # a product of matrices
    ],
)
def test_other_quotients_are_none(f):
    assert "mean" not in monoids(f)


def test_licence_exact_divides_the_sum():
    assert monoids(lambda x: x.sum(-1) / 105, exact=True) == ["sum"]
    assert monoids(lambda x: x.sum(-1) * (1 / 105), exact=True) == ["sum"]


@pytest.mark.parametrize("target", ["cpu", "h200"])
@pytest.mark.parametrize("n", [None, 105])
def test_other_lengths_divide_by_their_own_number(n, target):
    """By the length, or by a number that is the planned length by chance."""

    def f(x):
        return x - x.sum(-1, keepdim=True) / (n or x.shape[-1])

    compiled = eqfuse.optimize(f, (torch.empty(3, 105),), target=target)
    for columns in (96, 210):
        x = torch.randn(3, columns, generator=torch.Generator().manual_seed(columns))
        for found in (compiled(x), compiled.at(x).simulate(x)):
            torch.testing.assert_close(found.double(), f(x.double()), rtol=1e-5, atol=1e-5)


def test_a_module_says_which_length_its_divisor_is_the_number_of():
    x = torch.empty(64, 4096)
    by_length = eqfuse.optimize(lambda x: x.sum(-1) / x.shape[-1], (x,), target="h200").source
    by_number = eqfuse.optimize(lambda x: x.sum(-1) / 4096, (x,), target="h200").source
    assert "on which the program depends" not in by_length
    assert 'N_cols == 4096, "of 4096, on which the program depends"' in by_number
