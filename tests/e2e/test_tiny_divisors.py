"""Quotients by what is smaller than 2**-126: its reciprocal is infinite, or has lost digits, and the quotient is an ordinary number.

The oracle is the program in float64.  Every program runs as C, in Triton's interpreter and tile by tile in float32.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it

import eqfuse

ROWS, COLS, TINY = 6, 24, 3e-39  # 1 / 3e-39 is just finite in float32; of half of the numbers drawn it is not


def numbers(scale, *shape):
    return (torch.rand(*(shape or (ROWS, COLS)), generator=torch.Generator().manual_seed(len(shape) + 1)) + 0.5) * scale


def signed(scale):
    return numbers(scale) * torch.tensor([1.0, -1.0]).repeat(ROWS, COLS // 2)


def column(scale):
    return numbers(scale, ROWS, 1)


def by_norm(x):
    return x / torch.sqrt((x * x).sum(-1, keepdim=True))


def quantised(x):
    scale = x.abs().amax(-1, keepdim=True) / 127
    return torch.round(x / scale).clamp(-127, 127), scale * 1e30


def gradient(x, y, upstream):
    """That of x / y, as torch's formulas have it."""
    return upstream / y, -upstream * ((x / y) / y)


def weighted(s, v):
    return (s / s.sum(-1, keepdim=True)) @ v


PROGRAMS = {
    "x / s": (lambda x, s: x / s, signed(TINY), column(TINY)),
    "y * (1 / x)": (lambda x, y: y * (1 / x), signed(TINY), numbers(TINY)),
    "x / (y * z)": (lambda x, y, z: x / (y * z), signed(TINY), column(1e-30), column(1e-9)),
    "x / (y / z)": (lambda x, y, z: x / (y / z), signed(TINY), column(1e-37), column(127.0)),
    "x / y * z": (lambda x, y, z: x / y * z, signed(TINY), column(TINY), column(1e5)),
    "two by one": (lambda x, y, s: (x / s, y / s, x / s + y / s), signed(TINY), numbers(TINY), column(TINY)),
    "inside of a sum": (lambda x, s: (x / s).sum(-1), numbers(TINY), column(TINY)),
    "inside of a maximum": (lambda x, s: (x / s).amax(-1), signed(TINY), column(TINY)),
    "a softmax of quotients": (lambda x, s: torch.softmax(x / s, -1), signed(TINY), column(TINY)),
    "by the largest": (lambda x: x / x.abs().amax(-1, keepdim=True), signed(TINY)),
    "by the sum": (lambda x: x / x.sum(-1, keepdim=True), numbers(1e-41)),
    "by the norm": (by_norm, signed(1e-18)),
    "normalize": (lambda x: F.normalize(x, dim=-1), signed(TINY)),
    "weights of values": (weighted, numbers(TINY), numbers(1.0, COLS, 5)),
    "int8 blocks": (quantised, signed(1e-37)),
    "codes times scale": (lambda q, s: (q * s) / s, torch.round(signed(100.0)), column(8e-40)),
    "gradients": (gradient, signed(TINY), numbers(TINY), numbers(1e-40)),
    "by a number": (lambda x: x / 1e-40, signed(1e-41)),
    "by numbers": (lambda x: x / 1e-20 / 1e-20, signed(1e-41)),
    "times numbers": (lambda x: x * 1e-20 * 1e-20, signed(1e38)),
    "rsqrt": (lambda x: torch.rsqrt(x), numbers(TINY)),
    "hypot": (torch.hypot, signed(TINY), numbers(TINY)),
    "hypot of huge numbers": (torch.hypot, signed(1e38), numbers(1e38)),
    "atan2": (torch.atan2, signed(TINY), numbers(TINY)),
    "sinc": (torch.sinc, signed(TINY)),
}
WAYS = ("cpu", "h200")


def outputs(found):
    return [t.double() for t in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("target", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_tiny_divisor_divides(name, target):
    fn, *args = PROGRAMS[name]
    compiled = eqfuse.optimize(fn, args, target=target)
    exact, eager = outputs(fn(*[a.double() for a in args])), outputs(fn(*args))
    found = [compiled(*args)] if target == "cpu" else [compiled.interpret(*args), compiled.simulate(*args, dtype=np.float32)]
    for ours in map(outputs, found):
        for o, e, want in zip(ours, eager, exact, strict=True):
            assert want.abs().max() > 1e-39
            # what is subnormal is a multiple of 2**-149
            allowed = max(2 * (e - want).abs().max().item(), 4 * 2.0**-23 * want.abs().max().item(), 2.0**-149)
            assert (o - want).abs().max() <= allowed, (name, target, compiled.plan)
