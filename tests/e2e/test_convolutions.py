"""Convolutions as kernels: planned, and run in every way, beside torch."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as in torch's own documentation

import eqfuse
from eqfuse.frontends import trace
from eqfuse.ir.terms import Map
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


# networks: what stands between convolutions -----------------------------------------------------------------------------------------------


class Block(nn.Sequential):
    def __init__(self, inner, outer):
        super().__init__(nn.Conv2d(inner, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU())


class Pooled(nn.Module):
    """Convolutions of one length with pools that cut it, and what flattens it."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            Block(3, 16), Block(16, 16), nn.MaxPool2d(2), Block(16, 32), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 5)
        )

    def forward(self, x):
        return self.layers(x)


class Branches(nn.Module):
    """Two convolutions side by side, of which others read all channels."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(16, 17, 1), nn.Conv2d(16, 16, 3, padding=1)
        self.after, self.last = Block(33, 16), nn.Conv2d(33, 7, 1)

    def forward(self, x):
        both = torch.cat([self.one(x).relu(), self.two(x).relu()], 1)
        return self.after(both), self.last(both)


class Up(nn.Module):
    """A level of a network that goes down and up again: what went down stands beside what comes up."""

    def __init__(self):
        super().__init__()
        self.down, self.below, self.up, self.out = Block(3, 16), Block(16, 24), nn.ConvTranspose2d(24, 16, 2, stride=2), Block(32, 8)

    def forward(self, x):
        x = self.down(x)
        return self.out(torch.cat([self.up(self.below(F.max_pool2d(x, 2))), x], 1))


NETWORKS = {"pools": (Pooled, (2, 3, 8, 8)), "branches": (Branches, (2, 16, 5, 6)), "up": (Up, (1, 3, 6, 8))}


def network(name):
    made, shape = NETWORKS[name]
    torch.manual_seed(0)
    m = made().eval()
    for b in m.buffers():
        b.copy_(torch.rand(b.shape) + 0.5) if b.is_floating_point() else None
    return m.requires_grad_(False), randn(*shape)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_compute_what_torch_does(name):
    m, x = network(name)
    c = eqfuse.optimize(m, (x,), target="h200", strict=True, time_budget=1.0)
    torch.testing.assert_close(c.interpret(x), m(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "most"), [("pools", 9), ("branches", 7), ("up", 6)])
def test_dimensions_along_which_windows_overlap_are_in_no_parts(name, most):
    """Rows and columns of a convolution are one axis each, or those of the one pool that follows: not of all pools that come later, nor of
    phases that are made elsewhere.  One sum reads all channels that stand side by side."""
    m, x = network(name)
    products = [t for t in trace(m, (x,)).program.terms() if isinstance(t, Map) and t.op == "mul" and len(t.axes) > 5]
    assert max(len(t.axes) for t in products) == most


def test_tensors_side_by_side_are_stored_before_windows_of_them():
    """Each of nine positions would read both."""
    x, y, w = (torch.empty(s, device="meta") for s in ((8, 64, 64, 512), (8, 64, 64, 512), (64, 128, 3, 3)))
    plan = eqfuse.optimize(lambda x, y, w: F.conv2d(torch.cat([x, y], 1), w, padding=1), (x, y, w), target="h200").plan
    alone = eqfuse.optimize(lambda x, w: F.conv2d(x, w, padding=1), (torch.cat([x, y], 1), w), target="h200").plan
    assert plan.estimated_us <= 1.05 * alone.estimated_us


def test_a_network_is_a_kernel_for_each_convolution():
    """A residual block at the size of a model: normalisation, sum and bound are of the kernels, copies to channels last aside."""

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.norm = Block(64, 64), nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64)

        def forward(self, x):
            return (self.norm(self.b(self.a(x))) + x).relu()

    with torch.device("meta"):
        m, x = nn.Sequential(*(Residual() for _ in range(4))).eval(), torch.empty(32, 64, 56, 56)
    plan = eqfuse.optimize(m, (x,), target="h200").plan
    products = [k for k in plan.kernels if k.cost.flops > 1e9]
    assert len(products) == 8
    assert plan.dram_bytes <= 1.6 * 4 * 2 * 3 * x.numel() * 4
    assert len({id(part.plan) for part in plan.parts}) < len(plan.parts), "equal ones are planned once"
