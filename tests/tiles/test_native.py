"""What is counted for a CPU: every multiply-add once, whatever the tiles; bytes that exist; loops that leave steps out; order of loops."""

from dataclasses import replace

import pytest
import torch

import eqfuse
from eqfuse.extract.targets import bundled
from eqfuse.tiles.lower import lower
from eqfuse.tiles.order import choose_order
from eqfuse.tiles.walk import walk

CPU = replace(bundled("cpu"), library_tflops={})


def kernel_of(function, *shapes):
    (step,) = eqfuse.optimize(function, tuple(torch.empty(s) for s in shapes), target=CPU, strict=True).plan.kernels
    return step.kernel


def tiled(kernel, **tiles):
    roles = {a: replace(r, tile=tiles.get(a.name, r.tile)) for a, r in kernel.roles.items()}
    dims = tuple(a for a in roles if roles[a].tile > 1)
    return choose_order(replace(kernel, roles=roles, order=dims), on_cpu=True)


def work(kernel):
    return walk(lower(kernel)).native


@pytest.fixture(scope="module")
def product():
    return kernel_of(lambda a, b: a @ b, (100, 300), (300, 70))


@pytest.mark.parametrize(("rows", "a_cols", "b_cols"), [(16, 16, 16), (64, 256, 32), (128, 64, 128), (32, 128, 64)])
def test_every_multiply_add_is_counted_once(product, rows, a_cols, b_cols):
    found = work(tiled(product, rows=rows, a_cols=a_cols, b_cols=b_cols))
    assert sum(p.calls * p.m * p.n * p.k for p in found.products) == pytest.approx(100 * 300 * 70)
    assert all(p.m <= rows and p.n <= b_cols and p.there and not p.turned for p in found.products)
    total = {s.buffer: s.bytes for s in found.streams}
    for s in found.streams:
        for _, steps, other in s.around:
            total[s.buffer] *= steps if other else 1
    assert total == pytest.approx({"a": 4 * 100 * 300, "b": 4 * 300 * 70, "out": 4 * 100 * 70}), "lanes that do not exist move nothing"


def test_an_operand_in_columns_is_turned():
    found = work(kernel_of(lambda a, b: a @ b.t(), (64, 256), (96, 256)))
    assert all(p.turned and p.inner and not p.there for p in found.products)


def test_tiles_that_are_left_out_are_not_counted():
    def attention(q, k, v):
        mask = torch.ones(512, 512, dtype=torch.bool).tril()
        return torch.softmax((q @ k.t()).masked_fill(~mask, float("-inf")), -1) @ v

    kernel = kernel_of(attention, *[(512, 32)] * 3)
    names = [a.name for a, r in kernel.roles.items() if a.size == 512]
    found = work(tiled(kernel, **dict.fromkeys(names, 64)))
    share = sum(p.calls * p.m * p.n * p.k for p in found.products) / (2 * 512 * 512 * 32)
    assert share == pytest.approx((8 * 9 / 2) / 64)


def test_pieces_at_the_same_place_of_their_pages_share_sets():
    apart = kernel_of(lambda a, b: a @ b, (64, 1024), (1024, 64))
    beside = kernel_of(lambda a, b: a @ b, (64, 1040), (1040, 64))
    sets = [work(tiled(k, rows=64, a_cols=16, b_cols=64)).products[0].left_sets for k in (apart, beside)]
    assert sets == [64.0, 1.0]  # pieces of 64 bytes, 4096 bytes from each other, or 4160


def test_the_innermost_loop_runs_along_memory():
    kernel = kernel_of(lambda x: torch.softmax(x, 0), (256, 512))
    assert kernel.order[-1].name == "cols"
    assert not work(kernel).scattered
    (rows,) = (a for a in kernel.order if a.name == "rows")
    across = work(replace(kernel, order=(kernel.order[-1], rows)))
    assert {n for n, _ in across.scattered} == {256.0 * 512}
