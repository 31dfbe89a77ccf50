"""Laws of the model of time: what units do, and how much of it happens at a time."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import eqfuse
from eqfuse.extract.cost import fit, launchable, price, running, together
from eqfuse.extract.overlap import contributions
from eqfuse.extract.targets import load_target
from eqfuse.extract.units import units, way
from eqfuse.testing.programs import PROGRAMS
from eqfuse.tiles.walk import walk

TERMS = ("tensor", "shared", "issue", "special", "dram", "l2", "latency")
TIMES = st.fixed_dictionaries(dict.fromkeys(TERMS, st.floats(0.0, 1e6)))
GPUS = ("a100", "h100", "b200", "mi300x", "rtx6000ada")


@given(TIMES, st.floats(1.0, 32.0), st.floats(0.0, 1.0), st.sampled_from([1.0, 2**0.5]))
def test_what_adds_up_is_no_less_than_any_unit_needs(terms, at_a_time, ahead, apart):
    parts = contributions(terms, at_a_time, ahead, apart)
    assert all(us >= 0 for us in parts.values())
    longest = max(us for t, us in terms.items() if t != "latency")
    assert sum(parts.values()) >= longest * (1 - 1e-12)
    assert sum(parts.values()) <= sum(terms.values()) * (1 + 1e-12)


@given(TIMES, st.floats(1.0, 16.0), st.floats(0.0, 1.0))
def test_more_programs_and_more_loads_ahead_are_never_slower(terms, at_a_time, ahead):
    def time(n, f):
        return sum(contributions(terms, n, f).values())

    assert time(2 * at_a_time, ahead) <= time(at_a_time, ahead) * (1 + 1e-12)
    assert time(at_a_time, 1.0) <= time(at_a_time, ahead) * (1 + 1e-12)


def planned(name, target, dtype=None):
    case = PROGRAMS[name]
    return eqfuse.optimize(case.fn, case.args("bench", dtype, device="meta"), target=target, **case.options).plan


@pytest.mark.parametrize("target", GPUS)
@pytest.mark.parametrize("name", ["attention_causal", "matmul", "row_softmax", "rmsnorm"])
def test_a_launch_of_one_kernel_is_the_kernel(name, target):
    for k in planned(name, target).kernels:
        if k.cost.shared_bytes <= load_target(target).shared_bytes_per_block and not k.kernel.persistent:
            assert together([k], load_target(target)) == pytest.approx(k.cost.us)
        assert sum(k.cost.parts.values()) + load_target(target).launch_us == pytest.approx(k.cost.us)
        assert 0.0 <= k.cost.ahead <= 1.0


@pytest.mark.parametrize("target", GPUS)
def test_units_of_a_product(target):
    """The matrix unit's operations at its rate, or multiply-adds where it has none for the type; each operand passes shared memory at least twice."""
    t = load_target(target)
    for dtype in ("float16", "float32"):
        (k, *_) = planned("matmul", target, dtype).kernels
        counts = walk(k.tiles)
        done = units(counts, k.kernel.warps, t)
        (p,) = counts.products
        if (dtype if p.precision != "tf32" else "tf32") in t.tensor_tflops:
            share = t.warp_share if way(p, t) == "warp" else 1.0
            assert done.matrix_us >= counts.flops / (t.tensor_rate(dtype) * 1e6 * share) * (1 - 1e-9)
            assert done.multiply_adds == 0
        else:
            assert done.multiply_adds == counts.flops / 2 and done.matrix_us == 0
        assert done.shared >= 2 * counts.load_bytes
        assert done.instructions > 0


def test_more_warps_than_rows_repeat_products():
    """Of eight warps on 16 rows some do what others do, or share columns; never is it less work."""
    args = [torch.empty(16, 4096, dtype=torch.float16, device="meta"), torch.empty(4096, 4096, dtype=torch.float16, device="meta")]
    t = load_target("a100")
    (k, *_) = eqfuse.optimize(torch.matmul, args, target="a100").plan.kernels
    counts = walk(k.tiles)
    four, eight = (units(counts, warps, t) for warps in (4, 8))
    assert eight.matrix_us >= four.matrix_us and eight.shared >= four.shared


@pytest.mark.parametrize("target", GPUS)
def test_what_may_be_launched_fits(target):
    t = load_target(target)
    (k, *_) = planned("attention", target).kernels
    counts = walk(k.tiles)
    for one in launchable(counts, fit(counts, t), t):
        assert one.shared_bytes <= t.shared_bytes_per_block
        assert running(counts, one, t) <= max(counts.programs, 1)
        assert price(k.kernel, counts, one, t).us > 0
