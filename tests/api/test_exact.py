"""What licence="exact" promises (docs/numerics.md): each operation of the program in float32, rounded once, in kernels of every vendor."""

import re

import numpy as np
import pytest
import torch

import eqfuse

ARCHITECTURES = {"a100": "sm_80", "h200": "sm_90", "mi300x": "gfx942"}


def draw(*shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*s, generator=generator) * 10.0 ** torch.randint(-3, 4, s, generator=generator) for s in shapes]


def exact(fn, args, target="h200", **options):
    return eqfuse.optimize(fn, args, target=target, licence="exact", **options)


def chain(x, y, z):
    """Products that are added, a quotient, a quotient by a number, a reciprocal, choices, bounds, a square."""
    a = x * y + z
    b = a / (y.abs() + 0.3) - x * 0.7
    c = torch.where(z > 0, b / 3.0, 1.0 / (x * x + 0.1))
    return torch.maximum(c, -z) * x - torch.clamp(y, -1.0, 1.0) / x + torch.floor(z * 0.3)


def same_bits(found, expected):
    return torch.equal(found.isnan(), expected.isnan()) and torch.equal(found.nan_to_num(0.125), expected.nan_to_num(0.125))


@pytest.mark.parametrize("seed", range(3))
def test_float32_arithmetic_is_that_of_torch_bit_by_bit(seed):
    args = draw((33, 70), (33, 70), (70,), seed=seed)
    args[0][3, 4], args[1][5, 6], args[2][7] = float("nan"), float("inf"), 0.0
    assert same_bits(exact(chain, args).interpret(*args), chain(*args))


def test_the_real_licence_does_not_promise_that():
    args = draw((33, 70), (33, 70), (70,))
    assert not same_bits(eqfuse.optimize(chain, args, target="h200").interpret(*args), chain(*args))


def test_a_root_is_rounded_once():
    (x,) = draw((40, 50))
    x = x.abs()
    c = exact(torch.sqrt, (x,))
    np.testing.assert_array_equal(c.interpret(x).numpy(), np.sqrt(x.double().numpy()).astype(np.float32))  # torch's own may be off by one
    assert "tl.sqrt_rn(" in c.source


def test_maxima_and_what_is_made_of_them():
    def f(x):
        return (x - x.amax(-1, keepdim=True)) / x.amin(0)

    (x,) = draw((24, 90))
    x[5, 7] = float("nan")
    assert same_bits(exact(f, (x,)).interpret(x), f(x))


def test_casts_of_the_program_stay():
    def f(x, y):
        return (x * y).half().float() + (x - y).bfloat16().float() * y

    args = draw((20, 30), (20, 30))
    assert same_bits(exact(f, args).interpret(*args), f(*args))


def test_exponentials_stay_what_they_are():
    (x,) = draw((8, 64))
    source = exact(lambda x: torch.softmax(x, -1), (x,)).source
    assert "tl.exp(" in source
    assert "exp2" not in source


def test_nothing_is_rolled_split_or_moved_to_another_type():
    def attention(q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v

    meta = [torch.empty(1, 4, 256, 64, device="meta", dtype=torch.float16)] * 3
    c = exact(attention, meta)
    assert c.plan.licence == "exact"
    assert not c.plan.splits
    assert "tf32" not in c.source
    assert {r.licence for r in eqfuse.rules() if r.name in {n for k in c.plan.kernels for n in k.rules}} <= {"exact"}
    assert "every operation of a kernel is rounded by itself" in str(c.plan)


@pytest.mark.parametrize("target", ARCHITECTURES)
def test_no_product_and_sum_become_one_operation(target):
    """In the machine's text, not only in ours; the same program under the default licence shows that the test can fail."""

    def f(x, y, z):
        return (x * y + z) * z - x * z

    args = draw((64, 256), (64, 256), (64, 256))
    contracted = {"gfx942": r"\bv_(?:pk_)?(?:fma|fmac|mac|mad)_f32"}.get(ARCHITECTURES[target], r"\bfma\.rn")
    for licence, expected in (("exact", False), ("real", True)):
        c = eqfuse.optimize(f, args, target=target, licence=licence)
        (report,) = c.compile()
        assert report.arch == ARCHITECTURES[target]
        assert bool(re.search(contracted, report.assembly)) is expected, licence
        assert f"enable_fp_fusion={expected}" in c.source
        assert ("tl.fma" in c.source) is expected


@pytest.mark.parametrize("target", ["a100", "h200"])
def test_division_and_roots_are_not_approximate(target):
    (x, y) = draw((64, 256), (64, 256))
    (report,) = exact(lambda x, y: torch.sqrt(x) / y, (x, y), target).compile()
    assert "div.rn.f32" in report.assembly
    assert "sqrt.rn.f32" in report.assembly
    assert not re.search(r"(div\.full|div\.approx|sqrt\.approx|rcp\.approx)", report.assembly)


def test_what_is_saved_compiles_the_same(tmp_path):
    args = draw((64, 256), (64, 256), (256,))
    assert exact(chain, args).save(tmp_path / "chain.py").read_text().count("enable_fp_fusion=False") == 1


def test_the_same_kernels_at_other_sizes_and_for_other_devices():
    args, small = draw((64, 256), (64, 256), (256,)), draw((5, 33), (5, 33), (33,))
    c = exact(chain, args).at(*small)
    assert c.plan.licence == "exact"
    assert same_bits(c.interpret(*small), chain(*small))
    assert not re.search(r"\bfma\.rn", exact(chain, args).compile("sm_80")[0].assembly)
