"""Sums keep their digits however long they are: twice eager's error against float64, or four units in the last place of the largest result."""

import pytest
import torch
from torch.nn import functional

import eqfuse

BY_LAST_PLACE = 4 * 2.0**-23


def data(kind, shape, seed):
    random = torch.Generator().manual_seed(seed)
    if kind == "uniform":
        return torch.rand(shape, generator=random)
    return torch.randn(shape, generator=random) + float(kind)


def within_the_promise(f, run, x):
    right = f(x.double())
    largest = right.abs().max()
    ours, eager = (((y.double() - right).abs().max() / largest).item() for y in (run(x), f(x)))
    assert ours <= max(2 * eager, BY_LAST_PLACE), (ours, eager)


ROWS = 30_011  # no multiple of a vector or a block
SUMS = {
    "row": (lambda x: x.sum(-1), (3, 2 * ROWS)),
    "row and its largest": (lambda x: x.sum(-1) + x.amax(-1), (3, ROWS)),
    "first axis": (lambda x: x.sum(0), (ROWS, 24)),
    "mean of the first axis": (lambda x: x.mean(0), (ROWS, 5)),
    "middle axis": (lambda x: x.sum(1), (2, ROWS, 7)),
    "several axes": (lambda x: x.sum((0, 2)), (1024, 3, 64)),
    "planes": (lambda x: x.mean((1, 2)), (4, 256, 256)),
    "weights, then rows": (lambda x: (x.softmax(-1) * x).sum(0), (ROWS, 24)),
    "squares": (lambda x: x.square().sum(0), (ROWS, 24)),
    "products, printed as a loop": (lambda x: (x[:, :1] * x[:, 1:]).sum(0), (ROWS, 9)),
    "product of matrices": (lambda x: x[:, :8].t() @ (x[:, 8:] * 2), (2 * ROWS, 24)),
    "logsumexp": (lambda x: x.logsumexp(0), (ROWS, 6)),
    "scan": (lambda x: x.cumsum(-1), (3, ROWS)),
    "scan beside a sum": (lambda x: x.cumsum(-1) / x.sum(-1, keepdim=True), (2, ROWS)),
    "scan of the first axis": (lambda x: x.cumsum(0), (ROWS, 12)),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_in_c(name):
    f, shape = SUMS[name]
    run = eqfuse.optimize(f, (torch.empty(shape),), target="cpu")
    for kind in ("uniform", "100"):
        within_the_promise(f, run, data(kind, shape, 0))


@pytest.mark.exhaustive
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 127, 129, 513, 4099, 65_536, 2**20])
@pytest.mark.parametrize("name", ["row", "first axis", "middle axis", "squares", "logsumexp", "scan", "scan of the first axis"])
def test_sums_in_c_of_all_lengths(name, n):
    f, shape = SUMS[name]
    shape = tuple(n if size > 1000 else size for size in shape)
    run = eqfuse.optimize(f, (torch.empty(shape),), target="cpu")
    for kind in ("uniform", "0", "10", "100", "1e4"):
        for seed in range(3):
            within_the_promise(f, run, data(kind, shape, seed))


def test_planes_around_100_are_normalised():
    """A mean that is off by one unit of 100 is off by eight of what comes out."""

    def f(x):
        return functional.group_norm(x, 4)

    x = data("100", (1, 4, 256, 256), 9)
    within_the_promise(f, eqfuse.optimize(f, (x,), target="cpu"), x)


def gates(g):
    """Decays between all positions of a row of logarithms of gates."""
    c = g.cumsum(-1)
    return torch.tril((c[:, :, None] - c[:, None, :]).clamp(max=0).exp()).sum(-1)


@pytest.mark.parametrize("target", ["cpu", "h200"])
def test_differences_of_a_scan(target):
    """Gates whose logarithms add up to 280: a unit of 280 is 3e-5 of what comes out, so the scan has to be rounded once."""
    g = torch.rand(2, 300, generator=torch.Generator().manual_seed(3))
    g = -g * (280 / g.sum(-1, keepdim=True))
    c = eqfuse.optimize(gates, (g,), target=target)
    within_the_promise(gates, c if target == "cpu" else c.interpret, g)


@pytest.mark.parametrize("n", [4096, 2500])
def test_scans_on_a_device(n):
    def f(x):
        return x.cumsum(-1)

    x = data("uniform", (2, n), 0)
    within_the_promise(f, eqfuse.optimize(f, (x,), target="h200").interpret, x)


def test_scans_carried_from_step_to_step():
    def f(x):
        return x.cumsum(0)

    x = data("uniform", (2**20, 2), 0)
    c = eqfuse.optimize(f, (x,), target="cpu")
    assert any(r.kind == "stream" for k in c.plan.kernels for r in k.kernel.roles.values())
    within_the_promise(f, c, x)


def test_gradients_of_a_bias_and_a_weight():
    """A training step adds up all rows."""
    random = torch.Generator().manual_seed(0)
    x, t, w = torch.rand(65_536, 24, generator=random), torch.rand(65_536, 16, generator=random), torch.randn(16, 24, generator=random)
    b = torch.zeros(16)

    def f(w, b, x, t):
        return (functional.linear(x, w, b) * t).sum()

    def gradients(run, kind):
        given = [p.detach().to(kind, copy=True).requires_grad_() for p in (w, b)]
        run(*given, x.to(kind), t.to(kind)).backward()
        return [p.grad.double() for p in given]

    c = eqfuse.optimize(f, (w.clone().requires_grad_(), b.clone().requires_grad_(), x, t), target="cpu", training=True)
    for ours, eager, right in zip(gradients(c, torch.float32), gradients(f, torch.float32), gradients(f, torch.float64), strict=True):
        errors = [((y - right).abs().max() / right.abs().max()).item() for y in (ours, eager)]
        assert errors[0] <= max(2 * errors[1], BY_LAST_PLACE)


def test_sums_of_integers_stay_integers():
    x = torch.arange(100_000, dtype=torch.int64).reshape(50_000, 2)
    c = eqfuse.optimize(lambda x: (x.sum(0), x.cumsum(0)), (x,), target="cpu")
    assert all(torch.equal(a, b) for a, b in zip(c(x), (x.sum(0), x.cumsum(0)), strict=True))
    assert "double" not in c.source[c.source.rindex("void eq_") :]


def test_an_infinite_sum_stays_infinite():
    x = torch.ones(2000, 3)
    x[700, 0], x[800, 1], x[900, 1] = float("inf"), float("inf"), float("-inf")
    for f in (lambda x: x.sum(0), lambda x: x.t().contiguous().sum(-1), lambda x: x.cumsum(0)):
        torch.testing.assert_close(eqfuse.optimize(f, (x,), target="cpu")(x), f(x), equal_nan=True)
