"""Pointers that a loop holds: one for each row of a tile that a thread has a part of."""

from __future__ import annotations

import itertools
from dataclasses import replace

import torch

import eqfuse
from eqfuse.extract.cost import fit
from eqfuse.extract.targets import load_target
from eqfuse.testing.programs import PROGRAMS
from eqfuse.tiles.addresses import Addresses, Tile
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.sizes import Sizes, wide_axes
from eqfuse.tiles.tilings import Tilings

H200 = load_target("h200")


POWERS = tuple(2**k for k in range(13))


def test_pointers_of_a_thread():
    """Neighbours are constants apart, rows are not: a thread has one pointer for each row that it has a part of."""
    for threads in (32, 128, 512):
        for rows, instructions in itertools.product(POWERS, POWERS):
            found = Tile(rows, instructions).pointers(threads)
            assert 1 <= found <= rows
            if instructions >= threads:
                assert found == rows, "every thread has a part of every row"
            elif rows * instructions <= threads:
                assert found == 1, "no thread has parts of two"
            elif rows > 1:
                assert found < rows
            assert found >= Tile(rows, instructions).pointers(2 * threads), "more threads share them"
            assert found <= Tile(2 * rows, instructions).pointers(threads)


def held(fn, *shapes, dtype=torch.float32):
    """The tiles whose addresses the loops of a planned program hold, and its roles."""
    c = eqfuse.optimize(fn, [torch.empty(s, dtype=dtype, device="meta") for s in shapes], target="h200")
    tiles = c.plan.kernels[0].tiles
    return Addresses(tiles).at(Sizes(tiles, tiles.kernel.roles, wide_axes(tiles))), tiles.kernel.roles


def tile_of(roles, name):
    return next(r.tile for a, r in roles.items() if a.name == name)


def test_wide_instructions_take_several_neighbours():
    odd, roles = held(PROGRAMS["logsumexp"].fn, (4096, 50257))
    assert odd[0][0] == Tile(tile_of(roles, "rows"), tile_of(roles, "cols")), "one lane at a time: no row after the first is aligned"
    even, roles = held(PROGRAMS["logsumexp"].fn, (4096, 50304))
    assert even[0][0] == Tile(tile_of(roles, "rows"), tile_of(roles, "cols") // 4), "four floats at a time"


def test_rows_that_stay_on_chip_are_in_no_loop():
    found, _ = held(PROGRAMS["layernorm"].fn, (4096, 1024), (1024,), (1024,))
    assert found == ()


def test_operands_of_products_are_not_counted_twice():
    found, _ = held(PROGRAMS["matmul"].fn, (512, 512), (512, 512), dtype=torch.float16)
    assert found == ((),)


def test_values_beside_a_product_are_counted():
    shapes = ((1, 4, 512, 64),) * 3
    plain, _ = held(PROGRAMS["attention"].fn, *shapes, dtype=torch.float16)
    biased, roles = held(PROGRAMS["attention_bias"].fn, *shapes, (4, 512, 512), dtype=torch.float16)
    assert plain == ((),)
    assert sum(len(loop) for loop in biased) == 1, roles


def test_rows_along_a_sum_have_a_pointer_each():
    """A maximum over the rows of a matrix: its lanes are a stride apart, those across are neighbours."""
    found, roles = held(lambda x: x.amax(dim=0), (4096, 4096))
    assert found[0][0] == Tile(tile_of(roles, "rows"), tile_of(roles, "cols") // 4)


def fitted(name, columns, dtype, gains, step):
    """How 32 rows of a program, so many columns at a time, fit the device, and what it counts."""
    args = [torch.empty(s, dtype=dtype, device="meta") for s in ((8192, columns), *((columns,),) * gains)]
    kernel = eqfuse.optimize(PROGRAMS[name].fn, args, target="h200").plan.kernels[0].kernel
    roles = {a: Role("grid", 32) if a.name == "rows" else Role("stream", step) for a in kernel.roles}
    counts = Tilings().counts(replace(kernel, roles=roles))
    return fit(counts, H200), counts


def test_many_rows_of_odd_length_need_registers():
    """32 rows of 32003 columns at a time, in sixteen warps, compile to 3910 bytes of spills: 32 pointers for each of two tensors."""
    odd, _ = fitted("rmsnorm", 32003, torch.bfloat16, 1, 512)
    even, _ = fitted("rmsnorm", 32000, torch.bfloat16, 1, 512)
    assert not even.reason
    assert odd.reason or odd.warps < 16
    assert odd.reason or odd.warps < even.warps, "more warps have fewer registers each"


def test_numbers_of_rows_are_copied_to_all_threads_that_share_them():
    """32 rows of 50257 columns, 256 at a time, one lane to an instruction: eight warps lie along a row, so a thread has sixteen rows, each with
    the sums and means of a running variance.  In sixteen warps that compiled to 812 bytes of spills, of 128 registers."""
    odd, counts = fitted("layernorm", 50257, torch.float16, 2, 256)
    even, _ = fitted("layernorm", 50304, torch.float16, 2, 256)
    assert counts.rows is not None
    values, tile = counts.rows
    assert tile.rows == 32 and values >= 3  # at least the three sums
    assert not even.reason
    assert odd.resource == "registers" or odd.warps < 16
