"""Matrix products of the vendor's library in plans for CPUs: when they are taken, what is said of them, and what they compute."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import eqfuse
from eqfuse.egraph import saturate
from eqfuse.extract.covers.extractor import Extractor
from eqfuse.extract.library import NAME
from eqfuse.extract.targets import load_target, targets
from eqfuse.frontends import trace
from eqfuse.frontends.spec import TensorSpec
from eqfuse.runtime.native import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
CPU = load_target("cpu")
SLOW_KERNELS = replace(CPU.core, product_gflops=0.1, inner_gflops=0.1, vector_gops=0.1)
FAST = replace(CPU, library_us=0.0, library_tflops={"float32": 1e3, "bfloat16": 1e3}, core=SLOW_KERNELS)
SLOW = replace(CPU, library_us=1e6)
linear = torch.nn.functional.linear


def normal(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape) * 1000 + sum(shape))).to(dtype)


def scaled(x, g, w, b):
    """Rows divided by their length, a product, a function of it: kernels before and after a call."""
    return torch.tanh(linear(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * g, w) * b)


def gated(x, a, b, c):
    return linear(torch.sigmoid(linear(x, a)) * linear(x, b), c)


def alike(x):
    """A product of a value with itself: what the call reads is one value, seen in two ways."""
    y = torch.exp(x)
    return torch.tanh(y @ y.T), torch.relu(y @ y.T)


def right(compiled, f, args, rounding):
    """What the kernels and calls of a plan compute, against float64: to this share of the largest element, or twice as far as torch is."""
    exact = f(*(a.double() for a in args))
    theirs = (f(*args).double() - exact).abs().amax().item() if exact.numel() else 0.0

    def eager(*_, **__):
        raise AssertionError("torch runs the program")

    compiled.form.eager = eager
    got = compiled(*args)
    assert (got.shape, got.dtype) == (exact.shape, args[0].dtype)
    largest = exact.abs().amax().item() if exact.numel() else 0.0
    torch.testing.assert_close(got.double(), exact, rtol=0, atol=max(2 * theirs, rounding * max(1.0, largest)))


@pytest.mark.parametrize(("dtype", "rounding"), [(torch.float32, 2e-6), (torch.bfloat16, 2**-6)])
def test_kernels_before_and_after_a_product_of_the_library(dtype, rounding):
    args = [normal(*s, dtype=dtype) for s in ((37, 50), (50,), (19, 50), (19,))]
    c = eqfuse.optimize(scaled, args, target=FAST)
    assert [k.rule for k in c.plan.calls] == [NAME]
    assert len(c.plan.kernels) == 2
    assert "torch:matmul" in str(c.plan)
    right(c, scaled, args, rounding)
    if dtype != torch.float32:
        return
    strided = [a.new_empty([2 * n for n in a.shape])[tuple(slice(None, None, 2) for _ in a.shape)].copy_(a) for a in args]
    strided[2] = args[2].t().contiguous().t()
    right(c, scaled, strided, rounding)
    right(c, scaled, [normal(64, 50, dtype=dtype), *args[1:]], rounding)


def test_several_products_are_taken_together():
    args = [normal(*s) for s in ((33, 40), (50, 40), (50, 40), (24, 50))]
    c = eqfuse.optimize(gated, args, target=FAST)
    assert len(c.plan.calls) == 3
    right(c, gated, args, 2e-6)


@pytest.mark.parametrize(
    ("function", "f", "shapes"),
    [
        ("matmul", lambda x, w: x @ w, [(33, 20), (20, 17)]),
        ("matmul", lambda q, k: torch.einsum("bihd,bjhd->bhij", q, k), [(2, 9, 3, 8), (2, 11, 3, 8)]),
        ("linear", linear, [(33, 20), (17, 20), (17,)]),
        ("linear", lambda x, w, b: b + x @ w, [(2, 5, 20), (20, 17), (17,)]),
        ("linear", lambda x, w, b: (w @ x + b[:, None]).t(), [(20, 33), (17, 20), (17,)]),
        ("linear", lambda x, w, b: x @ w + b[:, None], [(17, 20), (20, 17), (17,)]),
        ("einsum", lambda x, w: torch.einsum("bhgid,bhjd->bhgij", x, w), [(2, 3, 4, 5, 8), (2, 3, 7, 8)]),
        ("einsum", lambda x, w: torch.einsum("ihd,ohd->io", x, w), [(9, 3, 8), (11, 3, 8)]),
        ("matmul", lambda x, w: x @ w, [(33, 1, 20), (20, 17)]),
    ],
)
def test_whatever_axes_a_product_has(function, f, shapes):
    args = [normal(*s) for s in shapes]
    c = eqfuse.optimize(f, args, target=FAST)
    assert [k.call.entry[1] for k in c.plan.calls] == [function], str(c.plan)
    right(c, f, args, 2e-6)


@pytest.mark.parametrize("shapes", [[(0, 20), (17, 20), (17,)], [(5, 0), (17, 0), (17,)], [(5, 20), (0, 20), (0,)]])
def test_empty_axes(shapes):
    args = [normal(*s) for s in shapes]
    right(eqfuse.optimize(linear, args, target=FAST), linear, args, 2e-6)


def test_a_result_in_another_order_of_memory_is_read_by_a_kernel():
    def f(q, k):
        return torch.relu(torch.einsum("bihd,bjhd->bjih", q, k)).sum(1)

    args = normal(2, 9, 3, 8), normal(2, 11, 3, 8)
    c = eqfuse.optimize(f, args, target=FAST)
    assert (len(c.plan.calls), len(c.plan.kernels)) == (1, 1), str(c.plan)
    right(c, f, args, 2e-6)


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.3, -1) @ v


def by_hand(q, k, v):
    s = torch.einsum("ihd,jhd->hij", q, k)
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return torch.einsum("hij,jhe->hie", e, v) / e.sum(-1, keepdim=True)


def unlike(q, k, v):
    """The largest score is that of another axis."""
    s = q @ k.transpose(-1, -2)
    e = torch.exp(s - s.amax(-2, keepdim=True))
    return (e / e.sum(-1, keepdim=True)) @ v


@pytest.mark.parametrize(
    ("f", "shapes", "taken"),
    [
        (attention, [(2, 3, 17, 8), (2, 3, 19, 8), (2, 3, 19, 5)], True),
        (attention, [(17, 8), (19, 8), (19, 8)], True),
        (torch.nn.functional.scaled_dot_product_attention, [(1, 3, 17, 8), (1, 3, 19, 8), (1, 3, 19, 8)], True),
        (by_hand, [(17, 3, 8), (19, 3, 8), (19, 3, 8)], True),
        (unlike, [(3, 17, 8), (3, 19, 8), (3, 19, 8)], False),
    ],
)
def test_attention_of_the_library_by_what_it_computes(f, shapes, taken):
    args = [normal(*s) for s in shapes]
    c = eqfuse.optimize(f, args, target=replace(FAST, core=replace(SLOW_KERNELS, special_ns={"exp": 1e6, "div": 1e6})))
    assert [k.rule == "library_attention" for k in c.plan.calls if len(c.plan.steps) == 1] == [True] * taken, str(c.plan)
    right(c, f, args, 2e-6)


def test_what_is_no_product_of_the_library():
    def none(x, w, c):
        return (x.float() * c) @ w.float(), (x[:, :, None] * w.float()).amax(1), (x[:, None] * c).sum(-1)

    args = normal(9, 12).bfloat16(), normal(12, 7).bfloat16(), normal(9, 12)
    whole = eqfuse.optimize(lambda x, w: x @ w, (torch.ones(4, 5, dtype=torch.int32), torch.ones(5, 6, dtype=torch.int32)), target=FAST)
    assert not whole.plan.calls
    assert not eqfuse.optimize(lambda x, w: x @ w, (normal(9, 12), normal(12, 7)), target=FAST, licence="exact").plan.calls
    mixed = eqfuse.optimize(none, args, target=FAST)
    for got, want in zip(mixed(*args), none(*args), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def test_a_plan_says_why_a_product_is_ours():
    args = normal(33, 20), normal(20, 17)
    c = eqfuse.optimize(lambda x, w: x @ w, args, target=SLOW)
    assert not c.plan.calls
    assert any(r.startswith(NAME) and "torch:matmul" in r and "us slower" in r for r in c.plan.refused), c.plan.refused
    taken = eqfuse.optimize(lambda x, w: torch.tanh(x @ w), args, target=FAST)
    assert f"offered by {NAME}" in str(taken.explain())


def test_devices_without_a_rate_are_offered_nothing():
    assert {t for t in targets() if load_target(t).library_tflops} == {"cpu"}


def test_a_saved_module_calls_the_library(tmp_path):
    args = normal(33, 20), normal(17, 20), normal(17)
    c = eqfuse.optimize(lambda x, w, b: torch.relu(linear(x, w, b)), args, target=FAST)
    assert c.plan.calls
    c.save(tmp_path / "saved.py")
    space = {"__name__": "saved"}
    exec(compile((tmp_path / "saved.py").read_text(), "saved.py", "exec"), space)
    torch.testing.assert_close(space["run"](*args)[0], torch.relu(linear(*args)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", [CPU, FAST], ids=["calls take longer", "calls are taken"])
@pytest.mark.parametrize(
    ("f", "shapes"),
    [(scaled, ((37, 50), (50,), (19, 50), (19,))), (gated, ((37, 50), (60, 50), (60, 50), (40, 60))), (alike, ((64, 48),))],
)
def test_what_a_cover_with_calls_takes_at_least_is_no_more_than_what_it_takes(f, shapes, target):
    """By that much a limit is lower for the kernels of such a cover, and one that is above it is not searched for."""
    program = trace(f, [TensorSpec(s) for s in shapes]).program
    extractor = Extractor(saturate(program), target)
    calls, maker = extractor.calls, extractor.maker
    offers = [o for o in maker.offers if o.cls in maker.graph.original]
    made = 0
    for using in [{o.cls: o} for o in offers] + [{o.cls: o for o in offers}]:
        found, floors = calls._with(using, None), calls._floors(using)
        if found is not None:
            made += 1
            assert sum(floors.values()) <= found.us * (1 + 1e-9)
            assert len(floors) <= len(found.steps)
    assert made > 1
