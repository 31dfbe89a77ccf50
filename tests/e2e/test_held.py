"""Products of operands that the program cast to a wider type: they are multiplied in the narrow one, and nothing is lost that the wide one has."""

from math import prod

import pytest
import torch
from torch.nn import functional

import eqfuse
from eqfuse.extract.baseline import baseline
from eqfuse.extract.targets import load_target
from eqfuse.extract.units import operand
from eqfuse.tiles.walk import walk

F16, BF16, F32, I8, F8 = torch.float16, torch.bfloat16, torch.float32, torch.int8, torch.float8_e4m3fn


def product(a, b):
    return a @ b


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def causal(q, k, v):
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return torch.softmax(scores.masked_fill(later, float("-inf")), -1) @ v


def swiglu(x, gate, up):
    return functional.silu(x @ gate) * (x @ up)


def gelu(x, w):
    return functional.gelu(x @ w)


def masked(a, b):
    return torch.tril(a) @ b


def rectified(a, b):
    return torch.relu(a) @ b


def gated(a, m, b):
    return (a * m) @ b


def by_weights(x, w, scale):
    return x @ (w * scale)


def rounded(a, b):
    return (a * a).to(F16).to(a.dtype) @ b


def of_rows(p, s, g):
    return (p * s).mT @ g


def of_rows_turned(p, s, g):
    return g.mT @ (p * s)


def multiplied(*args):
    *factors, b = args
    return prod(factors) @ b


def widened(f):
    """A function of arguments that are cast to float32."""
    return lambda *args: f(*(a.float() for a in args))


def drawn(*args, seed=0):
    g = torch.Generator().manual_seed(seed)

    def one(shape, dtype):
        if dtype in (I8, torch.bool):
            return torch.randint(-128, 128, shape, generator=g).to(dtype)
        return torch.randn(shape, generator=g).to(dtype)

    return tuple(one(shape, dtype) for *shape, dtype in args)


# program, small arguments, how many products each of its sums of products takes, and in which type
CASES = {
    "product": (product, ((50, 70, F16), (70, 40, F16)), "float16", [1]),
    "of bfloat16": (product, ((50, 70, BF16), (70, 40, BF16)), "bfloat16", [1]),
    "of both": (product, ((50, 70, BF16), (70, 40, F16)), "tf32", [1]),
    "of float8": (product, ((50, 70, F8), (70, 40, F8)), "float16", [1]),
    "of integers": (product, ((50, 70, BF16), (70, 40, I8)), "bfloat16", [1]),
    "with scales": (by_weights, ((50, 70, F16), (70, 40, I8), (40, F32)), "float16", [1]),
    "masked": (masked, ((64, 64, F16), (64, 40, F16)), "float16", [1]),
    "rectified": (rectified, ((50, 70, F16), (70, 40, F16)), "float16", [1]),
    "gated": (gated, ((50, 70, F16), (50, 70, torch.bool), (70, 40, F16)), "float16", [1]),
    "rounded": (rounded, ((50, 70, F16), (70, 40, F16)), "float16", [1]),
    "swiglu": (swiglu, ((50, 70, F16), (70, 40, F16), (70, 40, F16)), "float16", [1, 1]),
    "gelu": (gelu, ((50, 70, BF16), (70, 40, BF16)), "bfloat16", [1]),
    "attention": (attention, ((2, 96, 32, F16), (2, 160, 32, F16), (2, 160, 32, F16)), "float16", [1, 2]),
    "attention of bfloat16": (attention, ((2, 96, 32, BF16), (2, 160, 32, BF16), (2, 160, 32, BF16)), "bfloat16", [1, 3]),
    "causal": (causal, ((2, 96, 32, F16), (2, 96, 32, F16), (2, 96, 32, F16)), "float16", [1, 2]),
    "one in float32": (product, ((50, 70, F32), (70, 40, BF16)), "bfloat16", [3]),
    "the other in float32": (product, ((50, 70, F16), (70, 40, F32)), "bfloat16", [5]),
    "a product on a side": (multiplied, ((50, 70, F16), (50, 70, F16), (70, 40, F16)), "bfloat16", [5]),
    "of three": (multiplied, ((50, 70, F16),) * 3 + ((70, 40, F16),), "bfloat16", [5]),
    "a factor of neither side": (of_rows, ((70, 50, F32), (70, 1, F32), (70, 40, F16)), "bfloat16", [5]),
    "the same, turned": (of_rows_turned, ((70, 50, F32), (70, 1, F32), (70, 40, F16)), "bfloat16", [5]),
    "all in float32": (product, ((50, 70, F32), (70, 40, F32)), "float32", [1]),
}


def units_of(c):
    """The unit of each product in the kernels of a plan."""
    return [operand(p) for k in c.plan.kernels for p in walk(k.tiles).products]


@pytest.mark.parametrize("name", CASES)
def test_operands_are_multiplied_in_the_type_that_holds_them(name):
    f, shapes, unit, many = CASES[name]
    args = drawn(*shapes)
    c = eqfuse.optimize(widened(f), args, target="h200")
    assert units_of(c) == [unit] * sum(many)
    assert ('input_precision="ieee"' in c.source) == (unit == "float32")
    c.accuracy(*args).check()  # against float64: at most twice torch's error in float32, or four units in the last place


@pytest.mark.parametrize("name", ["product", "attention", "one in float32"])
def test_the_exact_licence_multiplies_in_the_type_of_the_program(name):
    f, shapes, *_ = CASES[name]
    c = eqfuse.optimize(widened(f), drawn(*shapes), target="h200", licence="exact")
    assert set(units_of(c)) == {"float32"}


def test_a_device_that_multiplies_float32_as_fast_keeps_it():
    f, shapes, *_ = CASES["product"]
    plan = eqfuse.optimize(widened(f), drawn(*shapes), target="cpu").plan
    assert all(k.kernel.narrow_products == 1 for k in plan.kernels)
    assert load_target("a100").narrow_products == 16


WIDE = (1, 32, 4096, 128)
SQUARE = (4096, 4096)
AT_MOST = {  # a function, shapes, and how much longer than in 16 bits it may take, with what is stored in both
    "product": (product, (SQUARE, SQUARE), 1.02),
    "swiglu": (swiglu, (SQUARE, (4096, 8192), (4096, 8192)), 1.15),
    "gelu": (gelu, (SQUARE, (4096, 8192)), 1.15),
    "attention": (attention, (WIDE,) * 3, 1.4),  # three products for two
    "causal": (causal, (WIDE,) * 3, 1.4),
}


@pytest.mark.parametrize("target", ["h200", "a100"])
@pytest.mark.parametrize("name", AT_MOST)
def test_a_wider_type_around_a_product_costs_little(name, target):
    f, shapes, most = AT_MOST[name]
    args = tuple(torch.empty(s, dtype=F16, device="meta") for s in shapes)
    plain, wide = (eqfuse.optimize(g, args, target=target) for g in (f, lambda *a: widened(f)(*a).to(F16)))
    assert wide.plan.estimated_us <= (min(most, 1.3) if target == "h200" else most) * plain.plan.estimated_us
    assert len(wide.plan.kernels) <= len(plain.plan.kernels)
    if f is not causal:  # which leaves tiles out
        assert baseline(wide.program, load_target(target)).bound_us <= wide.plan.estimated_us


def same_places(found, expected):
    """Two results are finite in the same places."""
    torch.testing.assert_close(found.isfinite(), expected.isfinite())


def close(found, f, args):
    """A result is as near to float64 as twice what torch is in float32, or four units in the last place; and finite where torch's is."""
    exact, theirs = f(*(a.double() for a in args)), f(*(a.float() for a in args))
    same_places(found, theirs)
    fine = theirs.isfinite() & exact.isfinite()
    error, other = ((x.double() - exact)[fine].abs().max() for x in (found, theirs))
    assert error <= max(2 * other, 4 * torch.finfo(F32).eps * exact[fine].abs().max())


LIMITS = {F16: (65504.0, 6e-5, 6e-8), BF16: (1e38, 1e-33, 1e-38)}


@pytest.mark.parametrize("dtypes", [(F16, F16), (BF16, BF16), (F16, BF16), (F32, F16), (F32, BF16), (BF16, F32)], ids=str)
@pytest.mark.parametrize("what", ["large", "small", "subnormal", "not finite"])
def test_values_at_the_ends_of_types(dtypes, what):
    shapes = (20, 40), (40, 24)
    args = list(drawn(*((*s, d) for s, d in zip(shapes, dtypes, strict=True)), seed=3))
    c = eqfuse.optimize(widened(product), tuple(args), target="h200")
    if what == "not finite":
        for a in args:
            a[3, 5], a[7, 2], a[9, 9] = float("inf"), float("nan"), -float("inf")
    else:
        narrow = min(dtypes, key=lambda d: torch.finfo(d).max)
        size = LIMITS[narrow][("large", "small", "subnormal").index(what)]
        side = 0 if dtypes[0] is narrow else 1
        args[side] = (args[side].double() / args[side].double().abs().max() * size).to(dtypes[side])
        if what == "large":
            args[side][0, 0] = torch.finfo(dtypes[side]).max
            args[1 - side] = (args[1 - side].double() / 400).to(dtypes[1 - side])
    close(c.interpret(*args), product, args)


def test_the_largest_float32_has_pieces():
    """Rounded to bfloat16 it is infinite, and so is the sum of its first two pieces."""
    largest = torch.finfo(F32).max * torch.eye(32)
    args = largest, torch.eye(32, dtype=BF16)
    c = eqfuse.optimize(widened(product), args, target="h200")
    assert len(units_of(c)) == 3
    assert torch.equal(c.interpret(*args), largest)


@pytest.mark.parametrize("size", [1.0, 30.0, 3000.0, 65504.0])
def test_weights_of_scores_of_any_size(size):
    q, k, v = drawn(*[(1, 40, 32, F16)] + [(1, 300, 32, F16)] * 2, seed=4)
    q, k = ((x.float() * size).clamp(-65504, 65504).to(F16) for x in (q, k))
    c = eqfuse.optimize(widened(attention), (q, k, v), target="h200")
    assert set(units_of(c)) == {"float16"}
    close(c.interpret(q, k, v), attention, (q, k, v))


def test_small_weights_are_not_lost_beside_one():
    """The largest weight of each row has a value of 0, so that what is left is the sum of many small ones."""
    q, k, v = drawn((1, 16, 32, F16), (1, 2048, 32, F16), (1, 2048, 32, F16), seed=5)
    q, k, v = q.abs(), k * 0.05, v.abs()
    k[:, 0], v[:, 0] = 4.0, 0.0
    c = eqfuse.optimize(widened(attention), (q, k, v), target="h200")
    assert set(units_of(c)) == {"float16"}
    found, exact, theirs = c.interpret(q, k, v), attention(q.double(), k.double(), v.double()), attention(q.float(), k.float(), v.float())
    assert exact.max() < 1e-2
    assert (found - exact).abs().max() <= 2 * (theirs - exact).abs().max()


def test_weights_of_which_no_sum_has_the_largest_are_in_more_pieces():
    """The maximum is that of all scores: whole rows may be small, and must not vanish."""

    def of_all(s, v):
        return torch.exp(s - s.amax((-2, -1), keepdim=True)) @ v

    s, v = drawn((48, 40, F32), (40, 32, F16), seed=6)
    s[1:] -= 60
    c = eqfuse.optimize(widened(of_all), (s, v), target="h200")
    close(c.interpret(s, v)[1:] * 1e20, lambda s, v: of_all(s, v)[1:] * 1e20, (s, v))


@pytest.mark.parametrize("f", [rounded, lambda a, b: (a * a).to(F16).float() @ b.float()], ids=["in float32", "in its own type"])
def test_a_cast_that_rounds_stays(f):
    """A square of float16 overflows in the program, and must not be infinite beside what it is not."""
    a, b = drawn((32, 48, F16), (48, 32, F16), seed=7)
    a[2, 3] = 300.0
    b[:, 5] = 0.0
    c = eqfuse.optimize(widened(f) if f is rounded else f, (a, b), target="h200")
    found, eager = c.interpret(a, b), (widened(f) if f is rounded else f)(a, b)
    same_places(found, eager)
    torch.testing.assert_close(found, eager, rtol=1e-5, atol=1e-4, equal_nan=True)
