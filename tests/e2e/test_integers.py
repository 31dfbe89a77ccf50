"""Programs of integers: the reference, the plan in numpy and the generated kernels give torch's own bits.

Data are all of a type's numbers: most sums and products wrap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from eqfuse import optimize
from eqfuse.ir import bounds, dtypes, ops
from eqfuse.ir.index import Axis
from eqfuse.ir.ranges import Interval
from eqfuse.ir.reference import evaluate
from eqfuse.ir.terms import Const, Input, Map, Term

N = (5, 33)


def drawn(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    """Numbers of a type, its least and largest among them."""
    limits = torch.iinfo(dtype)
    rng = np.random.default_rng(seed)
    x = rng.integers(limits.min, limits.max, size=shape, endpoint=True, dtype=np.int64)
    x.reshape(-1)[:4] = (limits.min, limits.max, 0, limits.min)
    return torch.from_numpy(x).to(dtype)


I8, U8, I16, I32, I64 = (drawn(t, *N) for t in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64))
F32 = torch.from_numpy(np.random.default_rng(1).standard_normal(N).astype(np.float32)) * 50
W8 = drawn(torch.int8, 33, 16)
W4 = drawn(torch.uint8, 16, 16)
SCALE = torch.rand(16, generator=torch.Generator().manual_seed(2))


PLACES = torch.arange(70000)


def divisor(x: torch.Tensor) -> torch.Tensor:
    """Without zeros, and without -1, by which the least number has no quotient."""
    y = x.flip(1)
    return torch.where((y == 0) | (y == -1), 3, y)


def mixed(x):
    h = (x ^ (x >> 16)) * 73244475
    h = (h ^ (h >> 15)) * 668265263
    return h ^ (h >> 13)


def mixed_in_64_bits(x):
    x = (x ^ (x >> 30)) * -4658895280553007687
    x = (x ^ (x >> 27)) * -7723592293110705685
    return x ^ (x >> 31)


def ones(x):
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return (x * 0x01010101) >> 24


def quantized(x, scale, zero):
    return torch.clamp(torch.round(x / scale) + zero, -128, 127).to(torch.int8)


def dequantized_product(x, packed, scale):
    """Even rows in the lower halves of the bytes, odd ones in the upper."""
    low, high = (packed & 15).float() - 8, (packed >> 4).float() - 8
    return (x[:, 0:32:2] @ low + x[:, 1:32:2] @ high) * scale


Program = tuple[Callable[..., Any], Sequence[Any]]
WHOLE: dict[str, Program] = {
    "narrow sums wrap": (lambda a, b, c: (a + a.flip(1), b - 1, 0 - b, c * c, a.abs(), a.sign()), (I8, U8, I16)),
    "uint8 and int8": (lambda x, y: (x + y, x * y, torch.maximum(x, y), x > y), (U8, I8)),
    "wide sums wrap": (lambda a, b: (a * 3 + 7, b * 3 + 7, a + b, a**3, 2 ** (a & 7), (b > 3) * b + (b < 0) * 3000000000), (I32, I64)),
    "conversions": (lambda x, y: (x.to(torch.uint8), x.to(torch.int16), x.bool(), y.to(torch.int8), y.int()), (I64, F32)),
    "quotients": (lambda a, b: (a // b, torch.div(a, b, rounding_mode="trunc"), a % b, torch.fmod(a, b)), (I16, divisor(I16))),
    "quotients by a number": (lambda a: (a // 7, a // -7, torch.div(a, 7, rounding_mode="trunc"), a % 7, torch.fmod(a, -7)), (I64,)),
    "bits": (lambda a, b: (a & a.flip(1), a | 3, a ^ 85, ~a, b & 85, ~b), (I16, U8)),
    "shifts": (lambda a, n: (a << 3, a >> 31, a << (n & 15), a >> (n & 15), 1 << (n & 7), n >> 3), (I32, U8)),
    "packing": (lambda a, b: (a << 4) | (b & 15), (U8, U8.flip(0))),
    "unpacking": (lambda p: ((p & 15).to(torch.int8) - 8, (p >> 4).to(torch.int8) - 8), (U8,)),
    "ones in a number": (ones, (I32,)),
    "a hash": (mixed, (I32,)),
    "a hash of 64 bits": (mixed_in_64_bits, (I64,)),
    "sums": (lambda a, b, c: (a.sum(-1), b.sum(0), c.sum(), c.sum(-1, dtype=torch.int32), a.sum(dtype=torch.int8)), (I8, U8, I64)),
    "a sum of repeated elements": (lambda a: a[:, :1].expand(5, 7).sum(-1), (I64,)),
    "extrema": (lambda a, b: (a.amax(-1), a.amin(0), b.max(), b.min(1).values), (I64, I16)),
    "large numbers of positions": (
        lambda x: (PLACES * PLACES + x, PLACES**2 + x, x + PLACES * 100000, (1 << PLACES % 48) + x, (PLACES % 48 << 40) + x),
        (drawn(torch.int64, 70000),),
    ),
    "the sign of 64 bits": (lambda x, y: (((x & 1) << 63) >> 63, x.abs() >> 63, x - (-(2**63)), y.long() * 2**40 * 2**40), (I64, I8)),
    "a histogram": (lambda x, bins: (x[..., None] == bins).sum((0, 1)), (U8, torch.arange(0, 256, 51, dtype=torch.uint8))),
    "checksums": (lambda x: (((x.long() * 31 + 7) ^ 23130).sum(-1) % 65521, (x.long() * (torch.arange(33) + 1)).sum(-1)), (U8,)),
    "products": (lambda a, b, c: (a @ b, c @ c.t()), (I8, W8, I64)),
    "one element of a table": (lambda t, n: t.gather(1, (n[:, :1] % 33).long()), (I64, I32)),
    "choices and bounds": (lambda x, y: (torch.where(x > y, x, 0), y.clamp(-3, 100), torch.relu(y)), (I32, I16)),
    "a long sum": (lambda x: (x.sum(-1), x.amax(-1)), (drawn(torch.int64, 2, 9001),)),
    "quantized": (quantized, (torch.arange(-330, 330) * 0.25, 0.5, 3)),
    "quantized by channel": (lambda x, s: torch.clamp(torch.round(x * s), -128, 127).to(torch.int8), (F32[:, :16], SCALE)),
    "rounding modes": (lambda x: (x.round().int(), x.trunc().int(), x.floor().int(), x.ceil().int()), (torch.arange(-20, 20) * 0.25,)),
}  # fmt: skip

FLOATS: dict[str, Program] = {
    "integers among floats": (lambda x, y: (x * 2.0, x / 3, y + 0.5, x.abs().float().sqrt(), y.mean(-1, dtype=torch.float32)), (I32, I16)),
    "mean of an image": (lambda x: (x.float().mean((0, 1)), x.to(torch.float16) / 255), (U8,)),
    "quantized and back": (lambda x: (quantized(x, 0.5, 3).float() - 3) * 0.5, (torch.arange(-99, 99) * 0.5,)),
    "a product with int8 weights": (lambda x, w, s: x @ (w * s), (F32, W8, SCALE)),
    "a product with int4 weights": (dequantized_product, (F32, W4, SCALE)),
    "float quotients": (lambda x, y: (x // 3.7, x % -3.7, torch.fmod(x, y), torch.div(x, y, rounding_mode="trunc")), (F32, F32.flip(0).abs() + 1)),
    "rounded to decimals": (lambda x: (torch.round(x, decimals=1), x.frac(), x.trunc()), (F32,)),
}  # fmt: skip


def _flat(value: Any) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else list(value)


KERNELS = {"a product with int8 weights": 1, "quantized and back": 1, "mean of an image": 2, "a hash": 1, "ones in a number": 1}  # at most


@pytest.mark.parametrize("name", [*WHOLE, *FLOATS])
def test_what_torch_computes(name: str) -> None:
    f, args = (WHOLE | FLOATS)[name]
    wanted = _flat(f(*args))
    c = optimize(f, args, target="h200")
    assert len(c.plan.kernels) <= KERNELS.get(name, len(wanted) + 1)
    tensors = c.traced.bind(*args)
    exact = evaluate(c.program, {n: t.numpy() for n, t in tensors.items()})
    meant = _flat(c.traced.unflatten([torch.from_numpy(exact[o.name]) for o in c.program.outputs]))
    for how, found in (("reference", meant), ("simulate", _flat(c.simulate(*args))), ("interpret", _flat(c.interpret(*args)))):
        for x, y in zip(found, wanted, strict=True):
            if how == "interpret":
                assert x.dtype == y.dtype
            if y.is_floating_point():
                near = (2e-3 if y.dtype == torch.float16 else 1e-5) * y[y.isfinite()].abs().max().item()
                torch.testing.assert_close(x.double(), y.double(), rtol=0, atol=near, equal_nan=True, msg=how)
            else:
                assert torch.equal(x.long(), y.long()), (how, x, y)


def test_bounds_hold_at_the_ends() -> None:
    """The least int64 is its own absolute value, 1 << 63 is negative, and the bits of a power of two are more than those below it."""
    found: dict[Term, Interval] = {}
    k = Axis("k", 2)
    x = Input("x", (k,), dtypes.int64)
    bit = Map("bitand", (x, Const(1.0)))
    assert bounds.bounds(bounds.wrapped(Map("abs", (x,))), found).lo < 0
    assert bounds.bounds(bounds.wrapped(Map("lshift", (bit, Const(63.0)))), found).lo < 0
    for power in (1, 48, 49, 53, 60):
        n = 2.0**power
        assert ops.op("bitor").range(Interval(0.0, n), Interval(0.0, n - 1)).hi >= 2**power + (2**power - 1)


@pytest.mark.parametrize("target", ["sm_90", *(pytest.param(a, marks=pytest.mark.exhaustive) for a in ("sm_80", "gfx942"))])
def test_integer_kernels_compile(target: str) -> None:
    def f(x: torch.Tensor, y: torch.Tensor, p: torch.Tensor) -> Any:
        return mixed(x) // 7 + (x % y), ((p & 15).to(torch.int8) - 8, p << y, (p == 3).sum(-1)), x.long().sum(-1), x.amax(-1)

    optimize(f, (I32, I32.flip(1), U8), target="h200").compile(target)


@pytest.mark.parametrize(
    ("f", "dtype"),
    [
        (lambda x: x.sum(-1), torch.int64),
        (lambda x: x.sum(-1), torch.int32),
        (lambda x: x.amax(-1), torch.int32),
        (lambda x: (x - x.sum(-1, keepdim=True)).sum(0), torch.int64),
    ],
    ids=["sum of int64", "sum of int32", "maximum", "a sum that is read again"],
)
def test_what_is_stored_between_kernels_keeps_its_digits(f, dtype):
    """Parts of rows that are split over the grid, and sums that another kernel reads: float32 has 24 bits."""
    far = torch.iinfo(dtype).max // 2
    x = torch.randint(-far, far, (3, 1_200_000), dtype=dtype, generator=torch.Generator().manual_seed(1))
    c = optimize(f, [x], target="h200")
    held = [b for b in c.plan.buffers.values() if b.role == "temporary"]
    assert held
    assert not [b for b in held if b.dtype.is_float], str(c.plan)
    assert torch.equal(c.simulate(x), f(x))
    assert torch.equal(c.interpret(x, sanitize=False), f(x))
