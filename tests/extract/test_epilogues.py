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
