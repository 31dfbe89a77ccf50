"""What follows a product pointwise belongs to its kernel, and costs it no tile: a residual, a bias, a gate."""

import pytest
import torch

import eqfuse

SHAPES = ((2048, 11008), (11008, 4096), (2048, 4096))


def empty(*shape):
    return torch.empty(shape, dtype=torch.bfloat16, device="meta")


def residual(x, w, r):
    return x @ w + r


def residual_first(x, w, r):
    return r + x @ w


def gated(x, w, r):
    return (x @ w) * torch.sigmoid(r)


@pytest.mark.parametrize("epilogue", [residual, residual_first, gated])
def test_an_epilogue_takes_no_more_than_its_bytes(epilogue):
    product = eqfuse.optimize(lambda x, w: x @ w, [empty(*s) for s in SHAPES[:2]], target="h200").plan
    compiled = eqfuse.optimize(epilogue, [empty(*s) for s in SHAPES], target="h200")
    assert len(compiled.plan.kernels) == 1
    assert compiled.plan.temporary_bytes == 0
    assert compiled.plan.estimated_us < 1.02 * product.estimated_us
    assert [r.spill_bytes for r in compiled.compile("sm_90")] == [0]  # the compiler agrees with the model of registers


def two_products(x, w, y, v):
    return x @ w + y @ v


def of_one_operand(x, w, v):
    return x @ w + torch.relu(x) @ v


PRODUCTS = [
    (two_products, lambda m, k, n, l: [(m, k), (k, n), (m, l), (l, n)]),
    (of_one_operand, lambda m, k, n, l: [(m, k), (k, n), (k, n)]),
]


@pytest.mark.parametrize(("fn", "shapes"), PRODUCTS)
def test_a_sum_of_products_takes_no_more_than_its_products(fn, shapes):
    """One kernel with the tiles of one product: it has one accumulator."""
    product = eqfuse.optimize(lambda x, w: x @ w, [empty(4096, 4096)] * 2, target="h200").plan
    compiled = eqfuse.optimize(fn, [empty(*s) for s in shapes(4096, 4096, 4096, 4096)], target="h200")
    assert len(compiled.plan.kernels) == 1
    assert compiled.plan.estimated_us < 2 * product.estimated_us
    (report,), (kernel,) = compiled.compile("sm_90"), compiled.plan.kernels
    assert report.spill_bytes == 0
    assert report.shared_bytes <= kernel.cost.shared_bytes + 64  # and barriers; the operands of the two loops take turns


@pytest.mark.parametrize(("fn", "shapes"), PRODUCTS)
def test_a_sum_of_products_is_as_accurate_as_eager(fn, shapes):
    generator = torch.Generator().manual_seed(0)
    args = [torch.randn(s, generator=generator).half() for s in shapes(37, 83, 29, 51)]
    report = eqfuse.optimize(fn, args, target="h200").accuracy(*args, factor=2.0)
    assert report.outputs[0].ours_nonfinite == 0
