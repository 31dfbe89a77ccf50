"""Operators over ranges, windows and positions as kernels: planned, interpreted, and compared with torch."""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - as in torch's own documentation

import eqfuse
from eqfuse.errors import UnsupportedOpError

RANDOM = torch.Generator().manual_seed(0)


def randn(*shape):
    return torch.randn(*shape, generator=RANDOM)


def four_bits(x, packed, scale):
    """A product with weights of which a byte holds two."""
    low, high = (packed & 15).to(torch.int8) - 8, ((packed >> 4) & 15).to(torch.int8) - 8
    return x @ (torch.stack([low, high], -1).flatten(1).to(x.dtype) * scale[:, None]).t()


def spoiled(x):
    """With a NaN, an infinity, and the largest number twice."""
    x = x.clone()
    x.view(-1)[[3, 40, 41]] = torch.tensor([float("nan"), 9.0, 9.0])
    x.view(-1)[70] = float("-inf")
    return x


BYTES = torch.randint(0, 256, (16, 24), dtype=torch.uint8, generator=RANDOM)
PROGRAMS = {
    "pad and sum": (lambda x: F.pad(x, (1, 2), value=0.5).softmax(-1), (randn(3, 37),)),
    "pad and product": (lambda x, w: F.pad(x, (3, 2)) @ w, (randn(16, 27), randn(32, 16))),
    "pads": (lambda x: F.pad(x, (2, 3), mode="reflect") + F.pad(x, (1, 4), mode="circular"), (randn(5, 11),)),
    "slice of a copy": (lambda x, y: torch.slice_scatter(x, 2 * y, 1, 1, 8, 3).sum(1), (randn(6, 27), randn(6, 3))),
    "largest of windows": (lambda x: F.max_pool2d(x.exp(), 3, 2, 1, return_indices=True), (spoiled(randn(2, 2, 9, 7)),)),
    "means of windows": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), (randn(2, 2, 8, 10),)),
    "adaptive means": (lambda x: F.adaptive_avg_pool2d(x, (3, 5)), (randn(2, 3, 8, 5),)),
    "interpolation": (lambda x: F.interpolate(x, size=(7, 9), mode="bilinear"), (randn(1, 2, 5, 6),)),
    "one position": (lambda x, w, b: F.conv2d(x, w, b).relu(), (randn(2, 16, 5, 4), randn(8, 16, 1, 1), randn(8))),
    "single channels": (lambda x, w: F.conv1d(F.pad(x, (3, 0)), w, groups=4), (randn(2, 4, 20), randn(8, 1, 4))),
    "first largest": (lambda x: (x.argmax(-1), x.min(0), x.argmax()), (spoiled(randn(5, 37)),)),
    "products": (lambda x: (x.prod(-1), (9 * x).long().prod(0), (9 * x).to(torch.int8).prod(dim=1, dtype=torch.int8), x[:, :1].expand(25, 7).prod(1)), (8 + randn(25, 7),)),
    "functions": (lambda x, y: torch.atan2(x, y) + torch.asinh(x) * x.abs().pow(y) + torch.special.erfc(x), (randn(3, 31), randn(3, 31))),
    "eight bits": (lambda x, w, s: x @ (w.float() * s[:, None]).t(), (randn(8, 48), randn(16, 48).to(torch.float8_e4m3fn), randn(16))),
    "four bits": (four_bits, (randn(8, 48), BYTES, randn(16))),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_compute_what_torch_does(name):
    f, args = PROGRAMS[name]
    compiled = eqfuse.optimize(f, args, target="h200")
    found, wanted = (torch.utils._pytree.tree_leaves(values) for values in (compiled.interpret(*args), f(*args)))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-5, equal_nan=True)
    assert len(compiled.plan.kernels) <= len(found)


@pytest.mark.parametrize("fn", [lambda x: (2 * x).to(torch.float8_e5m2), lambda x: x.to(torch.float8_e4m3fn).flip(0)])
def test_float8_is_loaded_alone(fn):
    with pytest.raises(UnsupportedOpError, match=r"float8.*kernels only load"):
        eqfuse.optimize(fn, (randn(5, 7),), target="h200", strict=True)
