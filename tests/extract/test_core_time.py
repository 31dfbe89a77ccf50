"""The time of a core: what is computed in vain costs, what a cache holds does not come again, memory hides behind work and not itself."""

from dataclasses import replace

import pytest
import torch

import eqfuse
from eqfuse.extract.core_time import core_terms
from eqfuse.extract.cost import fit, price
from eqfuse.extract.targets import bundled
from eqfuse.tiles.lower import lower
from eqfuse.tiles.native import Product, Stream, Work
from eqfuse.tiles.walk import walk

CPU = replace(bundled("cpu"), library_tflops={})
CORE = CPU.core
NOTHING = Work(1, (), (), 0.0, 0.0, 0.0, 0.0, (), {}, 0.0)


def product_us(m, n, k, **more):
    facts = {"inner": False, "turned": False, "there": False, "left_sets": 1.0, "adds": True} | more
    return sum(core_terms(replace(NOTHING, products=(Product(1.0, m, n, k, **facts),)), CORE).values())


def test_rows_and_columns_that_are_computed_in_vain_cost():
    rows, columns = CORE.rows, CORE.columns
    whole = product_us(8 * rows, 4 * columns, 256)
    assert product_us(8 * rows, 4 * columns - 1, 256) == pytest.approx(whole, rel=0.01)
    assert product_us(8 * rows, 4 * columns + 1, 256) == pytest.approx(1.25 * whole, rel=0.05)
    assert product_us(8 * rows + 1, 4 * columns, 256) > whole * (1 + CORE.step_ns / (2e3 * rows * columns * 8))
    ideal = 2e-3 * 8 * rows * 4 * columns * 256 / CORE.product_gflops
    assert ideal < whole < 1.5 * ideal
    assert product_us(8 * rows, 4 * columns, 256, turned=True) > whole  # packing
    assert product_us(2, 4 * columns, 256, inner=True, turned=True) < product_us(2, 4 * columns, 256, turned=True)


def test_what_a_cache_holds_does_not_come_again():
    mb = 1 << 20

    def us(around, size=mb):
        terms = core_terms(replace(NOTHING, streams=(Stream("x", size, around, 1 << 16, False, 1.0, False),)), CORE)
        return terms["streams"]

    once = us((("rows", 64.0, True),))  # 64 MB, each once
    assert once == pytest.approx(64e-3 * mb / CORE.levels[-1].read_gb_s)
    near = us((("rows", 64.0, True), ("again", 10.0, False)))  # ten times over 1 MB, which the third level holds
    assert once < near < 1.0 + once + 9 * 64e-3 * mb / CORE.levels[2].read_gb_s
    assert us((("again", 10.0, False), ("rows", 64.0, True))) == pytest.approx(10 * once)
    assert us((("rows", 1.0, True),), 1000.0) == 0.0


def test_memory_hides_behind_work_and_pieces_do_not():
    stream = Stream("x", 64 << 20, (), 1 << 20, False, 1.0, False)
    alone = sum(core_terms(replace(NOTHING, streams=(stream,)), CORE).values())
    for vector in (0.1, 1.0, 10.0):
        busy = replace(NOTHING, vector=vector * alone * 1e3 * CORE.vector_gops)
        work, both = (sum(core_terms(w, CORE).values()) for w in (busy, replace(busy, streams=(stream,))))
        assert both == pytest.approx(work + alone - CORE.overlap * min(work, alone))
        pieces = sum(core_terms(replace(busy, streams=(replace(stream, run=256),)), CORE).values())
        assert pieces > work + alone


def test_a_plan_adds_up_and_no_register_limits_its_tiles():
    plan = eqfuse.optimize(lambda a, b: torch.relu(a @ b), (torch.empty(512, 512), torch.empty(512, 512)), target=CPU, strict=True).plan
    (step,) = plan.kernels
    assert step.cost.us == pytest.approx(sum(step.cost.terms.values()) + CPU.launch_us)
    assert (step.kernel.warps, step.kernel.stages, step.cost.register_bytes) == (1, 1, 0)
    whole = replace(step.kernel, roles={a: replace(r, tile=512) for a, r in step.kernel.roles.items()})
    counts = walk(lower(whole))
    assert not fit(counts, CPU).reason  # a megabyte of sums
    assert fit(counts, CPU).shared_bytes >= 512 * 512 * 4
    small = fit(counts, CPU.with_level("l3", bytes=1 << 20))
    assert small.over == fit(counts, CPU).shared_bytes - (1 << 20) and "cache" in small.reason
    one, two = (price(step.kernel, walk(step.tiles), fit(counts, CPU), replace(CPU, sm_count=n)).us for n in (1, 2))
    assert one / 2 < two < one
