"""Powers, in every spelling, on both targets: values of zero, negative and infinite bases, and digits, beside float64."""

import pytest
import torch

import eqfuse

UNIT = 2.0**-23
STEPS = torch.arange(-3.0, 70.0)
INF = float("inf")
BASES = torch.tensor([-INF, -2.5, -1.1, -1.0, -0.9, -0.0, 0.0, 0.3, 0.9, 1.0, 1.0001, 2.0, 7.0, INF, float("nan")])
RANDOM = torch.Generator().manual_seed(9)
POSITIVE = torch.rand(1000, generator=RANDOM) * 100 + 0.01
EXPONENTS = torch.rand(1000, generator=RANDOM) * 20 - 10
NUMBERS = (0, 3, 8, 9, 63, 65, 99, 100, 65.0, -65, -3, 1.5, 2.5, 0.3, -2.2, -0.7)


def of_numbers(k):
    return tuple(b**k for b in (-2.5, -2.0, -1.0, -1, -0.0, 0.0, 0, 0.5, 1.0, 1.1, 3.0, 10.0))


def of_integers(k):
    return tuple(b**k for b in (-2, -1, 0, 1, 2))


def alternating(k, x):
    return ((-1.0) ** k * x).sum(-1), (1.0 - 2.0 * 0.0**k) * x


def to_numbers(x):
    return tuple(x**p for p in NUMBERS)


def spellings(x, y):
    return (
        x**y,
        torch.pow(x.abs(), y),
        torch.pow(1.7, y),
        x.abs().pow(-1.25),
        x.pow(7),
        torch.special.xlogy(x.abs(), x.abs()) + x.abs() ** x.abs(),
    )


def decay(i, rates):
    return rates ** i[:, None]


PROGRAMS = {
    "numbers to tensors": (of_numbers, (STEPS,)),
    "numbers to integers": (of_numbers, (torch.arange(0, 40, dtype=torch.int32).float(),)),
    "integers to integers": (of_integers, (torch.arange(0, 40),)),
    "alternating series": (alternating, (torch.arange(8.0), torch.rand(3, 8, generator=RANDOM))),
    "tensors to numbers": (to_numbers, (BASES,)),
    "digits of tensors to numbers": (to_numbers, (POSITIVE,)),
    "pairs": (lambda x, y: x**y, tuple(g.flatten() for g in torch.meshgrid(BASES, torch.cat([STEPS[:8], BASES]), indexing="ij"))),
    "spellings": (spellings, (POSITIVE, EXPONENTS)),
    "decay": (decay, (torch.arange(600.0), torch.tensor([0.97, 0.9, 0.99, -0.99, 1.0]))),
    "frequencies": (lambda i: 1.0 / 10000.0 ** (i / 64), (torch.arange(64.0),)),
}


def within_bounds(found, eager, exact):
    """Each element is eager's or the rounded exact one, or its error at most twice eager's, or 4 units in the last place."""
    assert found.dtype == eager.dtype
    if not found.is_floating_point():
        return found == eager
    near = exact.float()
    good = (found == eager) | (found == near) | (found.isnan() & eager.isnan())
    good |= (found.abs() <= torch.finfo(torch.float32).tiny) & (near.abs() <= torch.finfo(torch.float32).tiny)
    allowed = torch.maximum(2 * (eager - exact).abs(), 4 * UNIT * exact.abs())
    return good | (found.isfinite() & exact.isfinite() & ((found - exact).abs() <= allowed))


CHEAP = ("integers to integers", "alternating series", "pairs", "decay")  # to interpret
CASES = [(n, "cpu") for n in PROGRAMS]
CASES += [pytest.param(n, "h200", marks=[] if n in CHEAP else pytest.mark.exhaustive) for n in PROGRAMS]


@pytest.mark.parametrize(("name", "target"), CASES)
def test_powers_are_eagers_and_as_exact(name, target):
    f, args = PROGRAMS[name]
    c = eqfuse.optimize(f, args, target=target)
    found, eager = (c(*args) if target == "cpu" else c.interpret(*args)), f(*args)
    exact = f(*(a.double() if a.is_floating_point() else a for a in args))
    for k, values in enumerate(zip(*(torch.utils._pytree.tree_leaves(v) for v in (found, eager, exact)), strict=True)):
        good = within_bounds(*values)
        assert good.all(), (k, [v[~good][:5].tolist() for v in values])


def test_gradients_of_powers_are_eagers():
    def loss(x, y):
        return (x**3.5 + x**y + 2.5**y + x**-1.5 + x**70).sum()

    x = (torch.rand(50, generator=RANDOM) + 0.5).requires_grad_()
    y = torch.randn(50, generator=RANDOM).requires_grad_()
    wanted = torch.autograd.grad(loss(x.double(), y.double()), (x, y))
    found = torch.autograd.grad(torch.compile(loss, backend="eqfuse")(x, y), (x, y))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other.float(), rtol=4e-6, atol=1e-6)


def test_a_negation_keeps_the_sign_of_a_zero():
    """In Triton -x is 0 - x, and the angle of (0, -0) is pi."""
    zeros = torch.zeros(4)
    for target in ("cpu", "h200"):
        c = eqfuse.optimize(lambda a: (torch.atan2(a, -a), torch.copysign(a + 1, -a)), (zeros,), target=target)
        angle, signed = c(zeros) if target == "cpu" else c.interpret(zeros)
        torch.testing.assert_close(angle, torch.atan2(zeros, -zeros))
        assert torch.equal(signed, torch.copysign(zeros + 1, -zeros))
