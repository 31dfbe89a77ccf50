"""Kernels that are launched together: which ones, in which order, and what that is worth."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import eqfuse
from eqfuse.extract.cost import together
from eqfuse.extract.launches import check_launches, held, launches, like
from eqfuse.extract.objective import TIE
from eqfuse.extract.plan import Launch
from eqfuse.extract.targets import load_target
from eqfuse.runtime.spills import without_spills

H200 = load_target("h200")


def projections(x, wq, wk, wv):
    return x @ wq, x @ wk, x @ wv


def chains(x, a, b, y, c, d):
    """Kernels that need one another; neither chain needs the other one."""
    return x @ a @ b, y @ c @ d


CHAINS = [(16, 4096), (4096, 128), (128, 4096)] * 2


def plan(fn, *shapes, dtype=torch.float32, **options):
    return eqfuse.optimize(fn, [torch.empty(s, dtype=dtype, device="meta") for s in shapes], target="h200", **options).plan


@pytest.fixture(scope="module")
def two_chains():
    return plan(chains, *CHAINS)


@pytest.mark.parametrize(("rows", "groups"), [(1, [3]), (16, [3]), (2048, [1, 1, 1])])
def test_projections_of_few_rows_are_one_launch(rows, groups):
    found = plan(projections, (rows, 4096), (4096, 4096), (4096, 1024), (4096, 1024), dtype=torch.bfloat16)
    assert [len(kernels) for kernels in found.launched] == groups
    if len(groups) == 3:
        assert found.estimated_us == found.separate_us
        return
    assert found.separate_us > found.estimated_us + 2 * H200.launch_us  # the small ones do not fill the device
    assert found.estimated_us >= found.dram_bytes / (H200.dram_gb_s * 1e3) + H200.launch_us
    assert f"saves {found.separate_us - found.estimated_us:.1f} us" in str(found)


def test_members_take_the_warps_of_one_another():
    """The narrow products of one row have half the warps of the wide one, and copies for steps ahead that do not fit beside one another."""
    found = plan(projections, (1, 4096), (4096, 4096), (4096, 1024), (4096, 1024), dtype=torch.bfloat16)
    alone = [plan(torch.matmul, (1, 4096), (4096, n), dtype=torch.bfloat16).steps[0].kernel for n in (4096, 1024)]
    assert len({k.warps for k in alone}) == 2
    (together,) = found.launched
    assert len({k.kernel.warps for k in together}) == 1
    assert sum(k.cost.shared_bytes for k in together) <= H200.shared_bytes_per_block
    check_launches(found.steps, found.launches)


def rows_and_a_product(x, y, w):
    """What a reduction and a product need of one another: nothing."""
    return torch.tanh(x.sum(-1)), y @ w


def test_a_kernel_without_a_product_beside_one():
    """The product keeps its stages, which belong to the launch; the loops of the other one would say theirs."""
    found = plan(rows_and_a_product, (128, 2048), (16, 1024), (1024, 4096))
    ((rows, product),) = found.launched
    assert not rows.cost.flops and product.cost.flops
    assert rows.kernel.warps == product.kernel.warps and (rows.kernel.stages, product.kernel.stages) == (1, 3)
    check_launches(found.steps, found.launches)
    other = replace(rows, kernel=replace(rows.kernel, warps=2 * rows.kernel.warps))
    with pytest.raises(AssertionError, match="cannot be one"):
        check_launches([other, product], found.launches)


def test_each_launch_comes_after_what_it_needs(two_chains):
    """The first chain is planned before the second one, and they are launched side by side."""
    each = len(two_chains.steps) // 2
    assert [len(k.loads & {b.name for s in two_chains.steps for b in s.stores}) for k in two_chains.steps] == [0, *[1] * (each - 1)] * 2
    assert [one.steps for one in two_chains.launches] == [(k, k + each) for k in range(each)]


def test_a_law_of_launches(two_chains):
    steps, (first, second, *rest) = two_chains.steps, two_chains.launches
    each = len(steps) // 2
    check_launches(steps, (first, second, *rest))
    alike = [replace(k, kernel=replace(k.kernel, warps=4, stages=3), cost=replace(k.cost, flops=1.0)) for k in steps]
    wrong = {
        "made yet": [(steps, (second, first, *rest)), (alike, (Launch(tuple(range(len(steps))), 1.0),))],
        "launched once": [(steps, (first, *rest)), (steps, (first, second, *rest, first))],
        "cannot be one": [(steps, (Launch((0, each + 1), 1.0), Launch((1, each), 1.0), *rest))],
    }
    for said, plans in wrong.items():
        for bad in plans:
            with pytest.raises(AssertionError, match=said):
                check_launches(*bad)


def test_kernels_that_differ_at_other_sizes_are_launched_by_themselves(two_chains):
    steps, model = two_chains.steps, two_chains.launches
    assert [one.steps for one in like(steps, H200, model)] == [one.steps for one in model]
    rounded = [replace(k, tiles=replace(k.tiles, contracts=at > 0)) for at, k in enumerate(steps)]
    assert like(rounded, H200, model) == like(steps[1:], H200, model) == ()


def test_the_price_of_one_launch(two_chains):
    """One launch of a kernel is the kernel; no kernel gets faster; what does not fit on chip together, or needs the occupancy, stays apart."""
    steps = two_chains.steps
    assert all(together([k], H200) == pytest.approx(k.cost.us) for k in steps)
    assert together([steps[0], steps[3]], H200) >= max(steps[0].cost.us, steps[3].cost.us)
    large = [replace(k, cost=replace(k.cost, shared_bytes=H200.shared_bytes_per_block - 1024, flops=1.0)) for k in steps]
    assert launches(large, H200, float("inf"))[1] == ()

    def waits(k, us, at_a_time, programs, registers):
        terms = dict.fromkeys(k.cost.terms, 0.0) | {"latency": at_a_time * us}  # of one program after the other
        cost = replace(k.cost, us=us + H200.launch_us, terms=terms, programs=programs, register_bytes=registers, shared_bytes=0)
        return replace(k, cost=cost)

    threads = 32 * steps[0].kernel.warps
    light, heavy = waits(steps[0], 100.0, 16, 132 * 16 * 4, 4 * threads), waits(steps[2], 100.0, 1, 132, 200 * 4 * threads)
    assert together([light, heavy], H200) > TIE * (light.cost.us + heavy.cost.us)


def test_launches_within_a_limit_of_memory(two_chains):
    """What lies between the kernels of both chains is held at a time if these are launched together."""
    apart, joint = held((k,) for k in two_chains.steps), two_chains.temporary_bytes
    assert apart < joint == held(two_chains.launched)
    lean = launches(two_chains.steps, H200, joint - 1)[1]
    assert held(tuple(two_chains.steps[at] for at in one.steps) for one in lean) < joint
    assert launches(two_chains.steps, H200, joint) == (two_chains.steps, two_chains.launches)
    assert plan(chains, *CHAINS, objective="memory").temporary_bytes <= apart


def test_all_kernels_of_a_launch_that_spills_use_fewer_registers(two_chains):
    asked = []
    reports = [SimpleNamespace(spill_bytes=n, arch="sm_90") for n in (*[0] * (len(two_chains.launches) - 1), 8)]
    without_spills(two_chains, H200, lambda shares: asked.append(shares) or two_chains, lambda plan: reports)
    assert set(asked[0]) == {("out0",), ("out1",)}
