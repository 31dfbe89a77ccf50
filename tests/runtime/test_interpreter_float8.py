"""Floats of eight bits in interpreted kernels: every number is read as it is, and what is cast to them is the nearest."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import eqfuse
from eqfuse.errors import EqFuseError, KernelError
from eqfuse.runtime.interpreter_float8 import encode
from eqfuse.testing import assert_equivalent, interpreted_kernels

TYPES = {torch.float8_e5m2: tl.float8e5, torch.float8_e4m3fn: tl.float8e4nv}


@triton.jit
def cast_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < N, other=0.0).to(y_ptr.dtype.element_ty), mask=at < N)


@triton.jit
def twice_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < N, other=0.0)
    tl.store(y_ptr + at, x + x, mask=at < N)


@triton.jit
def max_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr, tl.max(tl.load(x_ptr + at, mask=at < N).to(tl.float32), axis=0))


@triton.jit
def product_kernel(a_ptr, b_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)
    tl.store(y_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))


def launch(kernel, x, dtype, size=None):
    y = torch.empty(size or x.shape, dtype=dtype)
    kernel[(1,)](x, y, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))
    return y


def same(a, b):
    return torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(7.0, 1e9, -1e9), b.nan_to_num(7.0, 1e9, -1e9))


@pytest.mark.parametrize("to", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_pattern_is_the_number_it_stands_for(dtype, to):
    x = torch.arange(256, dtype=torch.uint8).view(dtype)
    with interpreted_kernels():
        found = launch(cast_kernel, x, to)
    assert same(found.float(), x.float().to(to).float())


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_cast_takes_the_nearest_number(dtype):
    """The nearest of the 256 numbers in float64, of two that are as near the one with even bits; beyond all, the largest."""
    numbers = torch.arange(256, dtype=torch.uint8).view(dtype).double().numpy()
    finite = np.flatnonzero(np.isfinite(numbers) & (np.arange(256) != 128))
    ends = numbers[finite]
    middles = (np.sort(ends)[1:] + np.sort(ends)[:-1]) / 2
    drawn = np.random.default_rng(0).normal(size=500) * np.exp2(np.random.default_rng(1).uniform(-18, 17, 500))
    values = np.concatenate([ends, middles, drawn, [1e30, -1e30, np.inf, -np.inf]]).astype(np.float32)
    within = np.clip(values.astype(np.float64), ends.min(), ends.max())
    apart = np.abs(within[:, None] - ends)
    nearest = apart == apart.min(1, keepdims=True)
    expected = ends[np.argmax(2 * nearest + (nearest & (finite % 2 == 0)), axis=1)]
    with interpreted_kernels():
        found = launch(cast_kernel, torch.from_numpy(values), dtype)
        missing = launch(cast_kernel, torch.tensor([float("nan")] * 2), dtype)
    assert np.array_equal(found.double().numpy(), expected)
    assert missing.float().isnan().all()
    cut = torch.from_numpy(encode(values, TYPES[dtype], to_zero=True)).view(dtype).double().numpy()
    assert np.array_equal(np.abs(cut), [np.abs(ends)[np.abs(ends) <= abs(v)].max() for v in within])


def test_a_product_of_tiles():
    a, b = (torch.randn(16, 16, generator=torch.Generator().manual_seed(k)) for k in (0, 1))
    a, b, y = a.to(torch.float8_e5m2), b.to(torch.float8_e4m3fn), torch.empty(16, 16)
    b[0, 0] = float("nan")
    with interpreted_kernels():
        product_kernel[(1,)](a, b, y, N=16)
    expected = a.double() @ b.double()
    assert torch.equal(y.isnan(), expected.isnan())
    assert torch.allclose(y.double(), expected, atol=1e-5, equal_nan=True)


def test_no_device_computes_in_them():
    with interpreted_kernels(), pytest.raises(KernelError, match="no device computes in fp8e5"):
        launch(twice_kernel, torch.ones(4).to(torch.float8_e5m2), torch.float32)


def test_other_types_of_eight_bits_are_refused():
    with interpreted_kernels(), pytest.raises(KernelError):
        launch(cast_kernel, torch.ones(4).to(torch.float8_e4m3fnuz), torch.float32)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_undefined_lanes_show_in_them_too(dtype):
    x = (torch.rand(5, generator=torch.Generator().manual_seed(0)) - 2).to(dtype)
    with pytest.raises(EqFuseError, match=r"in the masked lanes of loads they agree|undefined lanes"):
        assert_equivalent(lambda x: x.float().max().reshape(1), lambda x: launch(max_kernel, x, torch.float32, (1,)), [x])


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_planned_kernel_reads_them(dtype):
    x = torch.tensor([float("inf"), float("nan"), 57344.0, -0.0, 2.0**-16]).to(dtype)
    found = eqfuse.optimize(lambda x: x.float() * 2, (x,), target="h200").interpret(x)
    assert same(found, x.float() * 2)
