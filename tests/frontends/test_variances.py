"""Variances with a correction: what torch gives for any number of elements, and digits that the factor n / (n - correction) does not cost."""

import math

import numpy as np
import pytest
import torch

import eqfuse
from eqfuse.frontends import trace
from eqfuse.ir.reference import evaluate, evaluate_terms

from .test_corpus import agree

CORRECTIONS = (0, 1, 1.5, 2, 3, 7, -1, -5)


@pytest.mark.filterwarnings("ignore:var")  # torch's, about too few degrees of freedom
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 7, 300])
@pytest.mark.parametrize("correction", CORRECTIONS)
def test_any_correction_of_any_number_of_elements(n, correction):
    """None left gives infinity, and NaN where nothing deviates."""
    x = torch.randn(3, n, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    agree(lambda x: x.var(1, correction=correction), (x,))
    agree(lambda x: torch.var_mean(x, 1, correction=correction, keepdim=True), (x,))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.var((0, 2)), lambda x: x.var((0, 2), keepdim=True), lambda x: x.std(), lambda x: torch.std_mean(x, (1, 2), unbiased=False),
        lambda x: x.var(1, unbiased=True, keepdim=True) + x.std(dim=(0, 1), correction=11),
    ],
)  # fmt: skip
def test_over_several_dimensions(f):
    agree(f, (torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64),))


def float32(f, x):
    """The traced program, every operation rounded to float32, and its meaning."""
    p = trace(f, (x,)).program
    data = {p.inputs[0].name: x.numpy()}
    (found,) = evaluate_terms((p.outputs[0].term,), data, np.float32)
    return found.array.astype(float), evaluate(p, data)[p.outputs[0].name]


@pytest.mark.parametrize(("n", "correction"), [(7, 1), (131, 1), (300, 1), (300, 3), (4096, 1), (4096, 3), (5, 3)])
def test_the_factor_of_the_correction_is_not_rounded_for_all_rows_alike(n, correction):
    """1 + 1/4095 in float32 is 6.1e-8 too large, in every row; what a sum loses averages out over them."""
    x = torch.randn(3000, n, generator=torch.Generator().manual_seed(n))
    found, exact = float32(lambda x: x.var(1, correction=correction), x)
    error = found / exact - 1
    assert abs(error.mean()) < 1e-8
    assert np.sqrt(np.mean(error**2)) < 8e-8


@pytest.mark.parametrize("correction", [-1, -5, -(10**6)])
def test_a_negative_correction_does_not_cancel(correction):
    x = torch.randn(300, 10, generator=torch.Generator().manual_seed(0))
    found, exact = float32(lambda x: x.var(1, correction=correction), x)
    np.testing.assert_allclose(found, exact, rtol=5e-7)


@pytest.mark.parametrize("correction", [1, -1])
def test_a_variance_beyond_the_type_is_infinite(correction):
    x = torch.tensor([[3e38, -3e38, 0.0, 1.0]])
    with np.errstate(over="ignore"):
        found, _ = float32(lambda x: x.var(1, correction=correction), x)
    assert found == math.inf


@pytest.mark.parametrize("f", [lambda x: x.var(-1), lambda x: torch.var_mean(x, -1), lambda x: x.std(-1)], ids=["var", "var_mean", "std"])
def test_a_variance_is_one_pass_and_as_accurate_as_a_mean_of_squares(f):
    """In the kernel, of data around 1000: no more than two units in the last place, and no error that all rows have in common."""
    x = torch.randn(64, 4096, generator=torch.Generator().manual_seed(0)) + 1000
    c = eqfuse.optimize(f, (torch.empty(4096, 4096, device="meta"),), target="h200")
    (k,) = c.plan.kernels
    assert k.cost.dram_bytes < 1.01 * 4 * 4096 * 4096
    found = c.at(x).interpret(x)
    exact = f(x.double())
    found, exact = (y[0] if isinstance(y, tuple) else y for y in (found, exact))
    error = (found.double() / exact - 1).numpy()
    assert abs(error.mean()) < 2e-8
    assert np.abs(error).max() < 2.0**-22
