"""Layer normalisation in Triton, forward and backward, as a function that autograd knows.

A row goes through in tiles, twice: mean and variance are merged tile by tile (no E[x²] - mean²), then the row is scaled.  Gradients
of weight and bias are sums over rows: each program owns some columns and walks down all rows, so no two programs share a sum.
"""

import torch
import triton
import triton.language as tl

EPS = 1e-5


def reference(x, weight, bias):
    """What the kernels should compute, in plain torch."""
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, EPS)


@triton.jit
def forward_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr, columns, x_row, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    count = 0.0
    mean = 0.0
    squares = 0.0  # the sum of squared distances from the mean
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_row + at, mask=at < columns, other=0.0).to(tl.float32)
        size = tl.minimum(columns - start, BLOCK).to(tl.float32)
        tile_mean = tl.sum(x, axis=0) / size
        apart = tl.where(at < columns, x - tile_mean, 0.0)
        both = count + size
        between = tile_mean - mean
        squares += tl.sum(apart * apart, axis=0) + between * between * (count * size / both)
        mean += between * (size / both)
        count = both
    rstd = 1.0 / tl.sqrt(squares / columns + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns
        x = tl.load(x_ptr + row * x_row + at, mask=inside, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + at, mask=inside, other=0.0).to(tl.float32)
        bias = tl.load(bias_ptr + at, mask=inside, other=0.0).to(tl.float32)
        y = (x - mean) * rstd * weight + bias
        tl.store(y_ptr + row * columns + at, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def input_gradient_kernel(x_ptr, weight_ptr, gy_ptr, gx_ptr, mean_ptr, rstd_ptr, columns, x_row, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * x_row + at, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + at, mask=inside, other=0.0).to(tl.float32)
    gy = tl.load(gy_ptr + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    rstd = tl.load(rstd_ptr + row)
    scaled = tl.where(inside, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
    g = gy * weight
    gx = rstd * (g - tl.sum(g, axis=0) / columns - scaled * (tl.sum(g * scaled, axis=0) / columns))
    tl.store(gx_ptr + row * columns + at, gx.to(gx_ptr.dtype.element_ty), mask=inside)


@triton.jit
def parameter_gradients_kernel(x_ptr, gy_ptr, mean_ptr, rstd_ptr, gweight_ptr, gbias_ptr, rows, columns, x_row, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < columns
    gweight = tl.zeros((BLOCK,), tl.float32)
    gbias = tl.zeros((BLOCK,), tl.float32)
    for r in range(rows):
        row = tl.cast(r, tl.int64)
        gy = tl.load(gy_ptr + row * columns + at, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * x_row + at, mask=inside, other=0.0).to(tl.float32)
        gweight += gy * (x - tl.load(mean_ptr + row)) * tl.load(rstd_ptr + row)
        gbias += gy
    tl.store(gweight_ptr + at, gweight.to(gweight_ptr.dtype.element_ty), mask=inside)
    tl.store(gbias_ptr + at, gbias.to(gbias_ptr.dtype.element_ty), mask=inside)


class LayerNorm(torch.autograd.Function):
    """Normalise the rows of a matrix; ``block`` columns at a time."""

    @staticmethod
    def forward(ctx, x, weight, bias, block):
        x = x if x.stride(1) == 1 or x.shape[1] == 1 else x.contiguous()
        weight, bias = weight.contiguous(), bias.contiguous()
        rows, columns = x.shape
        y = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
        mean, rstd = torch.empty((2, rows), dtype=torch.float32, device=x.device)
        forward_kernel[(rows,)](x, weight, bias, y, mean, rstd, columns, x.stride(0), EPS, BLOCK=block)
        ctx.save_for_backward(x, weight, mean, rstd)
        ctx.block = block
        return y

    @staticmethod
    def backward(ctx, gy):
        x, weight, mean, rstd = ctx.saved_tensors
        gy = gy.contiguous()
        rows, columns = x.shape
        gx = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
        gweight, gbias = torch.empty((2, columns), dtype=weight.dtype, device=x.device)
        whole = triton.next_power_of_2(columns)
        input_gradient_kernel[(rows,)](x, weight, gy, gx, mean, rstd, columns, x.stride(0), BLOCK=whole)
        grid = (triton.cdiv(columns, ctx.block),)
        parameter_gradients_kernel[grid](x, gy, mean, rstd, gweight, gbias, rows, columns, x.stride(0), BLOCK=ctx.block)
        return gx, gweight, gbias, None


def layernorm(x, weight, bias, block=32):
    return LayerNorm.apply(x, weight, bias, block)
