"""Memory moves in sectors of 32 bytes: tiles along a sum over rows are wide enough to use all of each."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import eqfuse
from eqfuse.extract.cost import fit, price
from eqfuse.extract.targets import load_target
from eqfuse.ir.strides import SECTOR_BYTES
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.program import Load, Store
from eqfuse.tiles.sizes import Sizes
from eqfuse.tiles.walk import walk

TYPES = ("float16", "float32")


def runs(plan):
    """Bytes in one piece of every tile that is loaded in a loop's or a program's body, by buffer."""
    found = {}
    for k in plan.kernels:
        sizes = Sizes(k.tiles, k.kernel.roles, {})
        for s in k.tiles.statements():
            if isinstance(s, Load):
                found[s.access.buffer] = sizes.run(s.access, k.kernel.buffers[s.access.buffer])
    return found


def planned(fn, *shapes, dtype):
    return eqfuse.optimize(fn, [torch.empty(s, dtype=getattr(torch, dtype), device="meta") for s in shapes], target="h200").plan


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("fn", "shape"),
    [
        (lambda x: x.amax(0), (4096, 4096)),
        (lambda x: x.sum(0), (16384, 4096)),
        (lambda x: x.sum((0, 1)), (8, 2048, 8192)),
        (lambda x: (x - x.mean(0)) * torch.rsqrt(x.var(0) + 1e-5), (8192, 4096)),
        (lambda x: x.transpose(0, 1).contiguous() * 2, (8192, 1024)),
        (lambda x: x.sum(0), (100352, 256)),
        (lambda x: x.sum(0), (1 << 20, 64)),
    ],
    ids=["amax", "sum", "sum of two", "batch", "transposed", "few columns", "very few columns"],
)
def test_tiles_across_a_sum_use_whole_sectors(fn, shape, dtype):
    found = runs(planned(fn, shape, dtype=dtype))
    assert found["x"] >= SECTOR_BYTES, found


def test_a_run_goes_on_where_rows_are_there_in_full():
    """Rows of three floats, all of each: the tile lies in one piece."""
    plan = planned(lambda x: x * 2, (4096, 3), dtype="float32")
    (kernel,) = plan.kernels
    rows = next(r.tile for a, r in kernel.kernel.roles.items() if a.size == 4096)
    columns = next(r.tile for a, r in kernel.kernel.roles.items() if a.size == 3)
    assert runs(plan)["x"] == (12 * rows if columns >= 3 else 4 * columns)


@pytest.mark.parametrize(
    ("fn", "shape"),
    [
        (lambda x, w: (x.reshape(-1, 32, 4) * w[:, None]).reshape(-1, 128), ((65536, 128), (32,))),
        (lambda x, w: x.reshape(65536, 64, 2).sum(-1) * w[0], ((65536, 128), (32,))),
    ],
    ids=["groups of four", "pairs"],
)
def test_pieces_of_several_axes_are_one(fn, shape):
    """Positions 2 j + k of neighbours j and k lie side by side."""
    plan = planned(fn, *shape, dtype="float16")
    assert runs(plan)["x"] >= SECTOR_BYTES
    whole = 1e-3 * plan.compulsory_bytes / load_target("h200").dram_gb_s  # us, if each byte is moved once
    assert all(us < 1.5 * whole for k in plan.kernels for us in k.cost.parts.values()), plan


@pytest.mark.parametrize("shapes", [((64, 16384), (16384, 512)), ((128, 4096), (4096, 128))], ids=str)
def test_parts_of_a_product_lie_in_rows(shapes):
    """Programs of different parts do not write into one sector: the parts are the outermost axis of what is stored between the kernels."""
    plan = planned(lambda x, y: x @ y, *shapes, dtype="float16")
    assert plan.splits
    part = plan.kernels[0]
    sizes = Sizes(part.tiles, part.kernel.roles, {})
    stores = [s.access for s in part.tiles.statements() if isinstance(s, Store)]
    assert min(sizes.run(at, part.kernel.buffers[at.buffer]) for at in stores) >= SECTOR_BYTES


def test_pieces_of_a_sector_are_priced_as_sectors():
    """A plan whose tiles are two columns wide reads four times as much from the L2 as it uses."""
    target = load_target("h200")
    kernel = planned(lambda x: x.amax(0), (16384, 16384), dtype="float32").kernels[0].kernel
    l2 = {}
    for columns in (2, 8):
        roles = {a: Role("grid", columns) if r.kind == "grid" else Role(r.kind, 512) for a, r in kernel.roles.items()}
        changed = replace(kernel, roles=roles)
        counts = walk(lower(changed))
        l2[columns] = price(changed, counts, fit(counts, target), target).terms["l2"]
    assert l2[2] == pytest.approx(4 * l2[8], rel=0.01)
