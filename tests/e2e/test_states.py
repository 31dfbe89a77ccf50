"""States of several parts from torch to kernels: positions of extrema, logs of running sums, and scans by a function of the user's."""

from __future__ import annotations

import math

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan

import eqfuse
from eqfuse.errors import UnsupportedOpError

INF, NAN = math.inf, math.nan
HARD = torch.tensor([[1.0, NAN, 3.0, NAN, 2.0], [-INF, -2.0, 5.0, 5.0, 4.0], [-INF, -INF, -INF, -INF, -INF], [INF, 1.0, -INF, INF, 3.0]])
X = torch.linspace(-2.0, 2.0, 3 * 37).reshape(3, 37).sin() * 3.0
A, B = torch.linspace(0.1, 1.0, 37 * 5).cos().reshape(37, 5), torch.linspace(-9.0, 9.0, 37 * 5).sin().reshape(37, 5)


def scan(combine, xs, dim=0, **options):
    return associative_scan(combine, xs, dim, combine_mode="generic", **options)


def linear(left, right):
    """h -> a h + b."""
    return left[0] * right[0], right[0] * left[1] + right[1]


def recurrence(a, b, dim=0, **options):
    """h_t = a_t h_{t-1} + b_t."""
    return scan(linear, (a, b), dim, **options)[1]


def gated(x, decay, gate):
    """RG-LRU: its decays are made where they are used."""
    log = -8.0 * torch.nn.functional.softplus(decay) * gate.sigmoid()
    return recurrence(log.exp(), (1 - (2 * log).exp()).sqrt() * x, 1)


def selective(x, dt, a, b, c, d):
    """Mamba's selective scan, as it is written down."""
    h = recurrence((dt[..., None] * a).exp(), dt[..., None] * b[:, :, None, :] * x[..., None], 1)
    return (h * c[:, :, None, :]).sum(-1) + d * x


def weighted(left, right):
    """The running state of a softmax and of what it weighs: three parts."""
    m = torch.maximum(left["m"], right["m"])
    p, q = (left["m"] - m).exp(), (right["m"] - m).exp()
    return {"m": m, **{k: left[k] * p + right[k] * q for k in ("s", "o")}}


def first_largest(left, right):
    """A user's own pair of a value and its position, which keeps the first of equals."""
    over = right[0] > left[0]
    return torch.where(over, right[0], left[0]), torch.where(over, right[1], left[1])


def check(f, *args, rtol=1e-5):
    """What the planned kernels compute is what torch computes in float64; returns the plan."""
    compiled = eqfuse.optimize(f, args, target="h200", strict=True)
    found, types = compiled.interpret(*args), f(*args)
    wide = f(*(x.double() if x.is_floating_point() else x for x in args))
    pairs = [(found, types, wide)] if isinstance(found, torch.Tensor) else zip(found, types, wide, strict=True)
    for x, y, z in pairs:
        assert x.dtype == y.dtype
        torch.testing.assert_close(x.to(z.dtype), z, rtol=rtol, atol=rtol, equal_nan=True)
    return compiled.plan


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x: (x.argmax(-1), x.argmin(0), x.max(-1)[1]), (HARD,)),
        (lambda x: (x.argmax(), x.min(-1, keepdim=True)[1]), ((X * 2).round().to(torch.int32),)),
        (lambda x: torch.cat([x, x[:, :3] * 2], -1).argmax(-1).reshape(1, 3) + 1, (X,)),
        (lambda x: (x.logcumsumexp(-1), x.logcumsumexp(0)), (HARD,)),
        (lambda a, b: scan(linear, (a, b)), (A, B)),
        (lambda a, b: recurrence(a, b, 1, reverse=True).tanh(), (A, B)),
        (lambda a, b: recurrence(a, b)[-1], (A, B)),
        (lambda a, b: recurrence(a[:, :1].expand(37, 5), b).reshape(-1) * 2, (A, B)),
        (gated, (X.reshape(3, 37, 1), X[0, :3], A.reshape(1, 37, 5).expand(3, 37, 5)[..., :3])),
        (selective, tuple(torch.rand(s) - 0.5 for s in ((2, 19, 6), (2, 19, 6), (6, 4), (2, 19, 4), (2, 19, 4), (6,)))),
        (lambda m, s, o: scan(weighted, {"m": m, "s": s, "o": o})["o"], (B, A, A * B)),
        (lambda x, i: scan(first_largest, (x, i))[1], (B.round(), torch.arange(185).reshape(37, 5))),
        (lambda x: scan(lambda left, right: left * right, x), (A,)),
    ],
    ids=[
        "positions", "of integers", "joined", "logs", "both parts", "reversed", "last", "constant decay", "rg-lru", "mamba", "three parts",
        "positions of a user", "a monoid",
    ],
)  # fmt: skip
def test_torch(f, args):
    check(f, *args)


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b: recurrence(a.sigmoid(), b * 2).relu().sum(0),
        lambda a, b: a.max(-1).indices + b.argmin(-1),
        lambda a, b: scan(weighted, {"m": b, "s": a, "o": a * b})["o"],
    ],
    ids=["a recurrence", "positions", "three parts"],
)
def test_one_kernel_reads_and_writes_once(f):
    plan = check(f, A, B)
    assert len(plan.kernels) == 1
    assert plan.dram_bytes == plan.compulsory_bytes


@pytest.mark.parametrize(
    ("f", "shape", "kernels", "loops"),
    [
        (lambda x: x.argmax(-1), (64, 32000), 1, True),
        (lambda x: x.argmax(-1), (2, 200000), 2, False),
        (lambda x: recurrence(x.sigmoid(), x), (4096, 1024), 1, True),
        (lambda x: recurrence(x.sigmoid(), x), (100000, 4), 2, False),
    ],
    ids=["rows", "few rows", "channels", "few channels"],
)
def test_long_rows_are_carried_or_cut_over_the_grid(f, shape, kernels, loops):
    compiled = eqfuse.optimize(f, [torch.empty(shape, device="meta")], target="h200")
    plan = compiled.plan
    assert len(plan.kernels) == kernels
    assert bool(plan.splits) != loops
    assert any(k.passes for k in plan.kernels) or not loops
    assert plan.dram_bytes < 1.01 * plan.compulsory_bytes if loops else plan.kernels[-1].cost.programs > 50 or plan.dram_bytes < 2 * 10**6
    x = (
        torch.randn([n if n < 2000 else 4003 for n in shape]).clamp(min=-2.0)[:, :33].T.contiguous().T
        if shape[0] > 2000
        else torch.randn(2, 4003)
    )
    found, wanted = compiled.at(x).interpret(x), f(x.double())
    torch.testing.assert_close(found.to(wanted.dtype), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("f", "says"),
    [
        (lambda a, b: scan(lambda left, right: (left[0] - right[0], left[1] * right[1]), (a, b))[0], "not associative: part 0 of"),
        (lambda a, b: scan(lambda left, right: tuple(x + y for x, y in zip(left, right, strict=True)), (a, b, a, b))[0], "at most 3 parts"),
        (lambda a, b: scan(lambda left, right: (left[0] + right[0] + b[0, 0], left[1]), (a, b))[0], "none of its arguments"),
    ],
    ids=["order matters", "parts", "captured"],
)
def test_what_is_no_state_is_refused(f, says):
    with pytest.raises(UnsupportedOpError, match=says):
        eqfuse.optimize(f, (A, B), strict=True)


def test_gradients_are_those_of_the_definition():
    compiled = eqfuse.optimize(recurrence, (A, B))
    a, b = (x.clone().requires_grad_() for x in (A, B))
    compiled(a, b).sum().backward()
    c, d = (x.clone().requires_grad_() for x in (A, B))
    recurrence(c, d).sum().backward()
    torch.testing.assert_close((a.grad, b.grad), (c.grad, d.grad))
