"""Two softmax kernels in Triton: a row in one tile, and a row in many tiles with a running maximum.

Rows that are masked entirely (all -inf) give zeros.  Any strides are taken.
"""

import torch
import triton
import triton.language as tl


def reference(x):
    """What the kernels should compute, in plain torch."""
    return torch.softmax(x, dim=-1).nan_to_num(0.0)


def narrowing_reference(x):
    """The same, stored as bfloat16."""
    return reference(x).bfloat16()


@triton.jit
def one_tile_kernel(x_ptr, y_ptr, columns, x_row, x_column, y_row, y_column, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * x_row + at * x_column, mask=inside, other=float("-inf")).to(tl.float32)
    top = tl.max(x, axis=0)
    e = tl.exp(x - tl.where(top == float("-inf"), 0.0, top))
    total = tl.sum(e, axis=0)
    y = e / tl.where(total == 0.0, 1.0, total)
    tl.store(y_ptr + row * y_row + at * y_column, y.to(y_ptr.dtype.element_ty), mask=inside)


def one_tile(x, dtype=None):
    y = torch.empty(x.shape, dtype=dtype or x.dtype, device=x.device)
    if x.numel():
        block = triton.next_power_of_2(x.shape[1])
        one_tile_kernel[(x.shape[0],)](x, y, x.shape[1], *x.stride(), *y.stride(), BLOCK=block)
    return y


def narrowing(x):
    return one_tile(x, torch.bfloat16)


@triton.jit
def many_tiles_kernel(x_ptr, y_ptr, columns, x_row, x_column, y_row, y_column, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_row
    y_ptr += row * y_row
    top = float("-inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at * x_column, mask=at < columns, other=float("-inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(x, axis=0))
        safe = tl.where(new == float("-inf"), 0.0, new)
        total = total * tl.exp(top - safe) + tl.sum(tl.exp(x - safe), axis=0)
        top = new
    top = tl.where(top == float("-inf"), 0.0, top)
    total = tl.where(total == 0.0, 1.0, total)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at * x_column, mask=at < columns, other=float("-inf")).to(tl.float32)
        y = tl.exp(x - top) / total
        tl.store(y_ptr + at * y_column, y.to(y_ptr.dtype.element_ty), mask=at < columns)


def many_tiles(x, block=16):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        many_tiles_kernel[(x.shape[0],)](x, y, x.shape[1], *x.stride(), *y.stride(), BLOCK=block)
    return y
