"""Means and variances as torch computes them on a CPU: in double, rounded once.  Kernels compute in float32 and stay within twice its error.

Of the variance as a user writes it out, eager is no such judge (tests/e2e/test_programs.py); here it is next to always the nearest number.
"""

import numpy as np
import pytest
import torch

import eqfuse

PROGRAMS = {
    "var": lambda x: x.var(-1),
    "population": lambda x: x.var(-1, correction=0),
    "var_mean": lambda x: torch.var_mean(x, -1),
    "std": lambda x: x.std(-1),
    "mean": lambda x: x.mean(-1),
    "columns": lambda x: torch.var_mean(x, 0),
    "everything": lambda x: x.var(),
}


SHAPES = [(128, 300), (33, 131), (40, 2050), (5, 2), (2, 1501)]
CASES = [(n, s) for n in PROGRAMS if n != "everything" for s in SHAPES]
# all rows at a time on chip; otherwise parts are stored, each rounded, or the mean of all rows runs along them (docs/decisions/moments.md, limits)
CASES += [("everything", (128, 300)), ("everything", (5, 2))]


@pytest.mark.parametrize(("name", "shape"), CASES, ids=[f"{n}-{'x'.join(map(str, s))}" for n, s in CASES])
def test_within_twice_of_double_in_every_draw(name, shape):
    f = PROGRAMS[name]
    compiled = eqfuse.optimize(f, (torch.empty(shape),), target="h200")
    for seed in range(3):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) + 1000
        found, eager, exact = (r if isinstance(r, tuple) else (r,) for r in (compiled.interpret(x), f(x), f(x.double())))
        for ours, theirs, right in zip(found, eager, exact, strict=True):
            off, allowed = (float((t.double() - right).abs().max() / right.abs().max()) for t in (ours, theirs))
            # few numbers may be next to exact by luck: then half a unit in the last place is what a right kernel has
            half = float(np.spacing(np.float32(right.abs().max())) / 2 / right.abs().max())
            assert off <= 2 * max(allowed, half if right.numel() < 10 else 0.0), (seed, off, allowed)


@pytest.mark.parametrize("length", [1, 7, 512, 700])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
def test_what_is_not_finite_is_what_it_is_in_eager(value, length):
    x = torch.ones(3, length)
    x[1, length // 2] = value
    var, mean = eqfuse.optimize(lambda x: torch.var_mean(x, -1, correction=0), (x,), target="h200").interpret(x)
    np.testing.assert_array_equal(mean.isnan(), x.mean(-1).isnan())  # of an infinity var_mean makes NaN; mean does not
    np.testing.assert_array_equal(var.isnan(), torch.var(x, -1, correction=0).isnan())
    if value == 3e38:
        np.testing.assert_allclose(mean, x.double().mean(-1).float(), rtol=1e-6)


DATA = {
    "around 0": lambda s, g: torch.randn(s, generator=g),
    "around 1": lambda s, g: torch.randn(s, generator=g) + 1,
    "whole": lambda s, g: torch.randint(-3, 4, s, generator=g).float(),
    "two values": lambda s, g: torch.randint(0, 2, s, generator=g).float() * 2 - 1,
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", ["mean", "var", "columns"])
def test_data_around_zero_loses_nothing(name, data):
    """Deviations from a mean that is small beside the data would be rounded like the data: then there are none."""
    f, shape = PROGRAMS[name], (64, 1000)
    compiled = eqfuse.optimize(f, (torch.empty(shape),), target="h200")
    for seed in range(3):
        x = DATA[data](shape, torch.Generator().manual_seed(seed))
        found, eager, exact = (r if isinstance(r, tuple) else (r,) for r in (compiled.interpret(x), f(x), f(x.double())))
        for ours, theirs, right in zip(found, eager, exact, strict=True):
            off, allowed = (float((t.double() - right).abs().max() / right.abs().max()) for t in (ours, theirs))
            assert off <= 2 * max(allowed, 2.0**-24), (seed, off, allowed)


@pytest.mark.parametrize("length", [300, 30000])
def test_sums_that_are_exact_stay_exact(length):
    """Ones and minus ones, whose mean is 2 / n: every deviation from it would be rounded in the same direction."""
    x = torch.ones(4, length)
    x[:, : length // 2 - 1] = -1
    x = x[:, torch.randperm(length, generator=torch.Generator().manual_seed(0))].contiguous()
    found = eqfuse.optimize(lambda x: x.mean(-1), (x,), target="h200").interpret(x)
    np.testing.assert_allclose(found, 2 / length, rtol=2.0**-23)
