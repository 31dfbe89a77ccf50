"""Gradients of pools, from the other side: each position and the windows that look at it."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

from .test_corpus import agree

X = torch.randn(2, 3, 9, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64).round(decimals=1)  # with ties


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation", "ceil"),
    [(3, 2, 1, 1, False), (2, 2, 0, 1, False), ((3, 2), (1, 3), (1, 0), (2, 1), True), (1, 3, 0, 1, False), ((9, 7), 9, 0, 1, False)],
    ids=["overlapping", "side by side", "with gaps", "between", "whole"],
)
def test_largest(kernel, stride, padding, dilation, ceil):
    def f(x):
        return functional.max_pool2d(x, kernel, stride, padding, dilation, ceil)

    check(f)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "ceil", "include", "divisor"),
    [(3, 2, 1, False, True, None), (3, 2, 1, True, False, None), ((2, 3), (3, 1), (1, 0), True, True, None), (2, 2, 0, False, True, 5)],
)
def test_means(kernel, stride, padding, ceil, include, divisor):
    check(lambda x: functional.avg_pool2d(x, kernel, stride, padding, ceil, include, divisor))


@pytest.mark.parametrize("size", [(3, 5), (1, 1), (11, 3), (9, 7)])
@pytest.mark.parametrize("pool", [functional.adaptive_avg_pool2d, functional.adaptive_max_pool2d])
def test_adaptive(pool, size):
    check(lambda x: pool(x, size))


def test_of_one_and_three_dimensions():
    check(lambda x: functional.max_pool1d(x[0], 3, 2, 1))
    check(lambda x: functional.avg_pool1d(x[0], 3, 2, 1))
    check(lambda x: functional.max_pool3d(x, 2, 1, 1))
    check(lambda x: functional.avg_pool3d(x, (1, 2, 3), 2, (0, 1, 1)))
    check(lambda x: functional.adaptive_avg_pool3d(x, (2, 4, 5)))


def check(pool):
    """The gradient of a pool, by the op that autograd calls, for cotangents that differ."""
    gradient = torch.func.grad(lambda x: (pool(x) * pool(x.cos()).detach()).sum())
    agree(make_fx(gradient)(X), (X,))
