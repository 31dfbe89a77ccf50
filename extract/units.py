"""What the units of multiprocessors have to do for a tile program: instructions, shared memory, the matrix unit.

How operands of a product reach the matrix unit is a property of the architecture (``matrix_way`` of a target): each *warp* loads what it
multiplies from shared memory into registers, and what several warps need is read by each; a *group* of four warps reads operands where they
lie, the right one once for every 64 rows; or the *block* multiplies as a whole, 128 rows at a time, into a memory of its own.  Shapes with
too few rows for that are multiplied by warps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..tiles.walk import MIN_DOT_M, Counts, Product
from .targets import Target

# one instruction of the matrix unit (PTX ISA: mma, wgmma, tcgen05; AMD's are taken to be like those of a warp, an assumption)
ROWS = {"warp": 16, "group": 64, "block": 128}  # a block may take 64, and half of its time is lost
COLUMNS = {"warp": 8, "group": 256, "block": 256}  # at most
DEPTH_BYTES = 32  # of contracted elements
LOADED = 16.0  # bytes of operands that a lane loads by one instruction
# instructions of a warp beside those on elements (fitted to measured times: docs/decisions/cost_model.md)
ACCESS = 8.0  # for a load or store, the addresses and masks of it among them
STEP = 3.0  # for a step of a loop
PRODUCT = 32.0  # for a product: barriers, waits, where its operands lie
PROGRAM = 65.0  # for a program: where it begins
CROSSING = 45.0  # for a reduction over all threads


@dataclass(frozen=True)
class Units:
    """Totals over the grid.  ``instructions``: of warps; ``multiply_adds``: of lanes, for products that no matrix unit does; ``shared``:
    bytes through shared memory; ``matrix_us``: microseconds of all matrix units together."""

    instructions: float
    multiply_adds: float
    shared: float
    matrix_us: float


def way(p: Product, target: Target) -> str:
    """Who multiplies: a warp, a group or the block.  What is too small for these, and full float32, warps do."""
    return target.matrix_way if p.m >= ROWS["group"] and p.precision != "ieee" else "warp"


def layout(p: Product, counts: Counts, warps: int) -> tuple[int, int]:
    """Warps along the rows and the columns of a product of warps, as Triton lays them: where one product takes what another one made, both
    lie along the longer side of its result."""
    if (takes := _takes(counts)) is not None:
        return (warps, 1) if takes.m >= takes.n else (1, warps)
    tall, wide = p.m / ROWS["warp"], p.n / (2 * COLUMNS["warp"])
    rows = columns = 1
    while rows * columns < warps:
        if tall / rows >= wide / columns and rows < tall:
            rows *= 2
        else:
            columns *= 2
    return rows, columns


def _takes(counts: Counts) -> Product | None:
    """The product whose left operand follows from the result of another one."""
    return next((p for p in counts.products if p.left_made), None) if len(counts.products) > 1 else None


def exchanged(counts: Counts, warps: int, target: Target) -> int:
    """Bytes of shared memory through which warps hand each other a left operand that they have made, for one program."""
    takes = _takes(counts)
    if takes is None or way(takes, target) != "warp" or layout(takes, counts, warps)[1] == 1:
        return 0
    return takes.m * takes.k * takes.dtype.itemsize


def units(counts: Counts, warps: int, target: Target) -> Units:
    """What a tile program does with so many warps."""
    instructions = (counts.simt + counts.special) / target.warp_size
    for t in (*counts.loads, *counts.stores):  # each warp has a part of a tile, however narrow
        instructions += ACCESS * max(t.bytes / (target.warp_size * max(t.vector, 1)), t.requests * warps)
    each = PROGRAM * counts.programs + STEP * counts.steps + PRODUCT * sum(p.times for p in counts.products) + CROSSING * counts.crossings
    instructions += warps * each
    multiply_adds = shared = matrix = 0.0
    for p in counts.products:
        own, moved, us = _product(p, counts, warps, target)
        instructions, shared, matrix = instructions + p.times * own, shared + p.times * moved, matrix + p.times * us
        if operand(p) not in target.tensor_tflops:
            multiply_adds += p.flops / 2
    if counts.products and counts.trips:  # copies of loops arrive in shared memory
        shared += counts.load_bytes
    return Units(instructions + multiply_adds / target.warp_size, multiply_adds, shared, matrix)


def operand(p: Product) -> str:
    """The type of a product's operands as targets have rates for it."""
    return "tf32" if p.precision == "tf32" else p.dtype.name


def _product(p: Product, counts: Counts, warps: int, target: Target) -> tuple[float, float, float]:
    """Of one product: instructions of all warps but multiply-adds, bytes through shared memory, microseconds of all matrix units."""
    size, of_unit = p.dtype.itemsize, operand(p) in target.tensor_tflops
    left, right = p.m * p.k * size, p.k * p.n * size
    stored = right if p.right_made else 0
    us = 2.0 * max(p.m, MIN_DOT_M) * p.n * p.k / (target.tensor_rate(operand(p)) * 1e6) if of_unit else 0.0
    how = way(p, target)
    if how == "warp":
        rows, columns = layout(p, counts, warps)
        again = max(1.0, rows * ROWS[how] / max(p.m, ROWS[how])) * max(1.0, columns * COLUMNS[how] / p.n)  # warps that do the same
        moved = right * rows + (left * columns if not p.left_made else left * (1 + columns) if columns > 1 else 0)
        products = again * max(p.m, ROWS[how]) * p.n * p.k * size / (ROWS[how] * COLUMNS[how] * DEPTH_BYTES) if of_unit else 0.0
        return moved / (LOADED * target.warp_size) + products, moved + stored, us * again / target.warp_share
    passes, pieces = math.ceil(p.m / ROWS[how]), math.ceil(p.n / COLUMNS[how])
    moved = right * passes + (0 if p.left_made else left * pieces)  # what is made is in registers, or where the unit of a block has it
    if how == "group":
        return 4.0 * passes * pieces * math.ceil(p.k * size / DEPTH_BYTES), moved + stored, us
    return 0.0, moved + stored, us * max(1.0, ROWS[how] / p.m)
