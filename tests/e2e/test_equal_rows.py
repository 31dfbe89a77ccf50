"""Rows of equal numbers: what is counted from their mean is 0, on every target, whatever the length and the number.

Padding rows, flat images and dead channels are such rows.  A mean that is off by one unit of the numbers is 0.001 around 1e4, and a
normalisation divides that by the root of ``eps``."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it

import eqfuse

TARGETS = ("cpu", "h200")
VALUES = (1000.3, 10000.7, -1e5 - 0.1, 1e15, 3e-5, 0.1, 1e30)

ROWS = {
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "var": lambda x: x.var(-1),
    "std": lambda x: x.std(-1, correction=0),
    "var_mean": lambda x: torch.var_mean(x, -1)[0],
    "centred": lambda x: x - x.mean(-1, keepdim=True),
    "sum / n": lambda x: x - x.sum(-1, keepdim=True) / x.shape[-1],
    "by_hand": lambda x: ((m := x.mean(-1, keepdim=True)) - x) * ((x - m).square().mean(-1, keepdim=True) + 1e-5).rsqrt(),
}
PLANES = {
    "instance_norm": lambda x: F.instance_norm(x),
    "group_norm": lambda x: F.group_norm(x, 2),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "var of all": lambda x: x.var(),
    "std of planes": lambda x: x.std((-2, -1)),
}


def run(f, x, target, planned=None):
    compiled = eqfuse.optimize(f, (x if planned is None else planned,), target=target)
    if planned is not None:
        compiled = compiled.at(x)
    return compiled(x) if target == "cpu" else compiled.interpret(x)


def equal_rows(columns, values=VALUES):
    return torch.tensor(values)[:, None].expand(len(values), columns).contiguous()


# every program at one length and on one target, one of them at every length; all of them in the longer run
QUICK = {("layer_norm", 5, "h200"), ("layer_norm", 768, "cpu"), *((n, 105, t) for n, t in zip(ROWS, TARGETS * len(ROWS), strict=False))}
CASES = [(n, c, t) for n in ROWS for c in (5, 96, 105, 768, 1000) for t in TARGETS]


@pytest.mark.parametrize(
    ("name", "columns", "target"), [c if c in QUICK else pytest.param(*c, marks=pytest.mark.exhaustive) for c in CASES]
)
def test_equal_rows_are_zero(name, columns, target):
    found = run(ROWS[name], equal_rows(columns), target)
    assert torch.equal(found, torch.zeros_like(found))


@pytest.mark.parametrize("target", ["cpu", pytest.param("h200", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", ["batch_norm", *(pytest.param(n, marks=pytest.mark.exhaustive) for n in PLANES if n != "batch_norm")])
def test_equal_planes_are_zero(name, target):
    found = run(PLANES[name], torch.full((2, 4, 9, 7), 3000.7), target)
    assert torch.equal(found, torch.zeros_like(found))


@pytest.mark.parametrize("name", ["layer_norm", *(pytest.param(n, marks=pytest.mark.exhaustive) for n in ("var", "centred"))])
def test_equal_rows_that_are_streamed(name):
    """A plan for rows that do not stay on chip: one pass, or several."""
    planned = torch.empty(4096, 131072, device="meta")
    found = run(ROWS[name], equal_rows(5003, VALUES[:4]), "h200", planned)
    assert torch.equal(found, torch.zeros_like(found))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["layer_norm", "var", "centred"])
def test_equal_rows_in_parts(name):
    """Rows that are split over programs, whose partial means are stored."""
    found = run(ROWS[name], equal_rows(131072, VALUES[:2]), "h200")
    assert torch.equal(found, torch.zeros_like(found))


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("target", TARGETS)
def test_equal_rows_of_16_bits(dtype, target):
    for columns in (105, 12001):
        x = equal_rows(columns, (1000.3, 30000.0, 0.1)).to(dtype)
        for name in ("layer_norm", "var"):
            found = run(ROWS[name], x, target)
            assert torch.equal(found, torch.zeros_like(found))


def promised(found, eager, exact):
    off, allowed = (float((t.double() - exact).abs().max()) for t in (found, eager))
    size = float(np.spacing(np.float32(exact.abs().max())))
    assert off <= max(2 * allowed, 4 * size), (off, allowed, size)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [40, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (512, 1000))])
def test_a_variance_around_1e4(columns, target):
    compiled = eqfuse.optimize(lambda x: x.var(-1, unbiased=False), (torch.empty(6, columns),), target=target)
    for seed in range(3):
        x = torch.randn(6, columns, generator=torch.Generator().manual_seed(seed)) + 1e4
        found = compiled(x) if target == "cpu" else compiled.interpret(x)
        promised(found, x.var(-1, unbiased=False), x.double().var(-1, unbiased=False))


SEVERAL = {
    "channels": (lambda x: x.var((0, 2, 3)), (16, 4, 14, 14)),
    "planes": (lambda x: x.var((-2, -1)), (6, 4, 9, 7)),
    "places that are quotients": (lambda x: x.view(4, 2, -1).var(-1), (4, 8, 12, 12)),
}


@pytest.mark.parametrize("target", ["cpu", pytest.param("h200", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", SEVERAL)
def test_a_variance_of_several_axes_that_stay_on_chip(name, target):
    f, shape = SEVERAL[name]
    compiled = eqfuse.optimize(f, (torch.empty(shape),), target=target)
    for seed in range(3):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) + 1000.0
        promised(compiled(x) if target == "cpu" else compiled.interpret(x), f(x), f(x.double()))


AWKWARD = {
    "first is large": lambda x: torch.cat([torch.full_like(x[:, :1], 1e8), torch.ones_like(x[:, 1:])], -1),
    "first is infinite": lambda x: torch.cat([torch.full_like(x[:, :1], math.inf), x[:, 1:]], -1),
    "one is infinite": lambda x: torch.cat([x[:, 1:], torch.full_like(x[:, :1], math.inf)], -1),
    "first is NaN": lambda x: torch.cat([torch.full_like(x[:, :1], math.nan), x[:, 1:]], -1),
    "ones and minus ones": lambda x: 1.0 - 2.0 * (torch.arange(x.shape[-1]) % 2).expand_as(x) + 0.0 * x,
    "zeros and one": lambda x: torch.nn.functional.one_hot(torch.zeros(len(x), dtype=torch.long), x.shape[-1]) * 1e6 + 0.0 * x,
    "a unit apart": lambda x: torch.where(torch.arange(x.shape[-1]) == 3, 10000.701, 10000.7) + 0.0 * x,
}


@pytest.mark.parametrize("target", TARGETS)
def test_data_that_are_hard_on_an_element_as_origin(target):
    """The mean that is a result has its digits wherever the element that differences are taken of lies."""

    def f(x):
        both = x.mean(-1), x - x.mean(-1, keepdim=True)
        # in C a lane of a vector adds 16 equal squares to that of the large one, and each rounds the same way: 7 units are lost, not 4
        return both if target == "cpu" else (*both, F.layer_norm(x, x.shape[-1:]))

    compiled = eqfuse.optimize(f, (torch.empty(3, 131),), target=target)
    for data in AWKWARD.values():
        x = data(torch.randn(3, 131, generator=torch.Generator().manual_seed(0)))
        ours = compiled(x) if target == "cpu" else compiled.interpret(x)
        for found, eager, exact in zip(ours, f(x), f(x.double()), strict=True):
            assert torch.equal(found.isfinite(), eager.isfinite())
            finite = eager.isfinite() & exact.isfinite()
            if finite.any():
                promised(found[finite], eager[finite], exact[finite])
