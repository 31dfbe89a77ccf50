"""Convolutions as kernels: planned, and run in every way, beside torch."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as in torch's own documentation

import eqfuse
from eqfuse.runtime.native import compiler

RANDOM = torch.Generator().manual_seed(0)


def randn(*shape):
    return torch.randn(*shape, generator=RANDOM)


PROGRAMS = {
    "plain": (lambda x, w, b: F.conv2d(x, w, b, padding=1).relu(), (randn(2, 19, 5, 7), randn(18, 19, 3, 3), randn(18))),
    "strides": (lambda x, w: F.conv2d(x, w, stride=(2, 3), dilation=(1, 2), padding=2), (randn(1, 17, 9, 8), randn(16, 17, 2, 3))),
    "groups": (lambda x, w: F.conv1d(x, w, groups=2, padding=2), (randn(2, 34, 11), randn(32, 17, 5))),
    "transposed": (lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1), (randn(1, 16, 3, 5), randn(16, 19, 4, 4), randn(19))),
    "transposed to an odd length": (lambda x, w: F.conv_transpose1d(x, w, stride=3, dilation=2), (randn(2, 17, 5), randn(17, 16, 3))),
    "volumes": (lambda x, w: F.conv3d(x, w, padding=(1, 0, 1)), (randn(1, 16, 4, 3, 5), randn(16, 16, 3, 2, 3))),
    "turned around": (lambda x, w: F.conv2d(F.pad(x, (1, 1, 2, 0), mode="circular"), w), (randn(1, 16, 5, 6), randn(16, 16, 3, 3))),
    "last in memory": (lambda x, w: F.conv2d(x, w, padding=1), [t.to(memory_format=torch.channels_last) for t in (randn(2, 16, 5, 6), randn(16, 16, 3, 3))]),
}  # fmt: skip


def exact(f, args):
    return f(*(a.double() for a in args))


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_compute_what_torch_does(name):
    """One kernel, which moves little more than it has to."""
    f, args = PROGRAMS[name]
    c = eqfuse.optimize(f, args, target="h200", strict=True)
    wanted = exact(f, args)
    torch.testing.assert_close(c.interpret(*args).double(), wanted, rtol=0, atol=1e-4)
    torch.testing.assert_close(c.simulate(*args, dtype="float64").double(), wanted, rtol=0, atol=1e-9)
    *_, kernel = c.plan.kernels
    assert c.source.count("tl.dot(") <= 2, "one product, in a loop with masks and one without"
    assert kernel.cost.dram_bytes <= 1.1 * c.plan.compulsory_bytes


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["plain", "groups", "transposed"])
def test_in_types_of_16_bits(name, dtype):
    f, args = PROGRAMS[name]
    args = [a.to(dtype) for a in args]
    wanted, theirs = exact(f, args), f(*args).double()
    found = eqfuse.optimize(f, args, target="h200", strict=True).interpret(*args)
    assert found.dtype == dtype
    assert (found.double() - wanted).abs().max() <= 2 * (theirs - wanted).abs().max()


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("name", PROGRAMS)
def test_on_a_cpu(name):
    f, args = PROGRAMS[name]
    c = eqfuse.optimize(f, args, target="cpu", strict=True)
    torch.testing.assert_close(c(*args).double(), exact(f, args), rtol=0, atol=1e-4)


@pytest.mark.parametrize("transposed", [False, True])
def test_products_at_each_position_of_a_window_go_into_one_accumulator(transposed):
    """On the unit for products, in one kernel; with channels first, operands are copied before."""
    x, w = (torch.empty(shape, dtype=torch.float16, device="meta") for shape in ((8, 64, 28, 28), (64, 64, 4, 4)))
    f = F.conv_transpose2d if transposed else F.conv2d
    c = eqfuse.optimize(lambda x, w: f(x, w, stride=2, padding=1), (x, w), target="h200", strict=True)
    copies, kernel = c.plan.kernels
    assert copies.cost.flops == 0
    assert kernel.cost.flops <= 1.5 * 2 * (8 * 64 * 64 * 28 * 28 * 4 * 4 if transposed else 8 * 64 * 64 * 14 * 14 * 4 * 4)
    assert "tl.dot(" in c.source


POOLS = {
    "max": lambda x, w: torch.relu(x @ w).view(-1, 2, w.shape[1]).amax(1),
    "least of three": lambda x, w: (x @ w).view(-1, 3, w.shape[1]).amin(1),
    "mean": lambda x, w: torch.tanh(x @ w).view(-1, 2, w.shape[1]).mean(1),
    "halves": lambda x, w: (x @ w).view(2, -1, w.shape[1]).amax(0),
}


@pytest.mark.parametrize("name", POOLS)
def test_a_pool_over_a_product_is_a_loop_around_it(name):
    """One kernel, each byte once, on the unit for products; and right, NaN and lengths that are no multiples of tiles included."""
    f = POOLS[name]
    x, w = (torch.empty(shape, dtype=torch.float16, device="meta") for shape in ((196608, 576), (576, 128)))
    c = eqfuse.optimize(f, (x, w), target="h200", time_budget=8.0)
    (kernel,) = c.plan.kernels
    assert c.plan.dram_bytes <= 1.02 * c.plan.compulsory_bytes
    assert 0.9 < kernel.cost.flops / (2 * 196608 * 576 * 128) < 1.1
    assert "tl.dot(" in c.source
    x, w = randn(2 * 3 * 37, 40), randn(40, 20)
    x[5, 3], x[17] = torch.nan, -torch.inf
    c = eqfuse.optimize(f, (x, w), target="h200", time_budget=2.0)
    torch.testing.assert_close(c.interpret(x, w).double(), exact(f, (x, w)), rtol=1e-5, atol=1e-5, equal_nan=True)


def test_a_chain_as_users_write_it():
    """A convolution, what normalises it, and a pool: nothing is left to torch."""
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    model = nn.Sequential(*layers).eval()
    x = randn(2, 3, 17, 15)
    c = eqfuse.optimize(model, (x,), target="h200", strict=True, time_budget=0.5)
    with torch.no_grad():
        torch.testing.assert_close(c.interpret(x), model(x), rtol=1e-5, atol=1e-5)


def test_other_batches_and_lengths():
    """The same kernels, where the plan takes them."""
    f, args = PROGRAMS["plain"]
    c = eqfuse.optimize(f, args, target="h200")
    for x in (randn(5, 19, 5, 7), randn(3, 19, 8, 4)):
        torch.testing.assert_close(c.at(x, *args[1:]).interpret(x, *args[1:]), f(x, *args[1:]), rtol=1e-4, atol=1e-4)
