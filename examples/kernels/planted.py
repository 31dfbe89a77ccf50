"""Kernels with one planted fault each, of kinds that are found in the wild.  Do not use them for anything else."""

import torch
import triton
import triton.language as tl

EPS = 1e-5


def _empty(x):
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


# ---- softmax ----


@triton.jit
def missing_mask_kernel(x_ptr, y_ptr, columns, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + at).to(tl.float32)  # fault: no mask
    e = tl.where(at < columns, tl.exp(x - tl.max(x, axis=0)), 0.0)
    y = e / tl.sum(e, axis=0)
    tl.store(y_ptr + row * columns + at, y.to(y_ptr.dtype.element_ty), mask=at < columns)


def missing_mask(x):
    x, y = x.contiguous(), _empty(x)
    missing_mask_kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


@triton.jit
def missing_other_kernel(x_ptr, y_ptr, columns, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + at, mask=at < columns).to(tl.float32)  # fault: masked lanes are undefined
    e = tl.where(at < columns, tl.exp(x - tl.max(x, axis=0)), 0.0)
    y = e / tl.sum(e, axis=0)
    tl.store(y_ptr + row * columns + at, y.to(y_ptr.dtype.element_ty), mask=at < columns)


def missing_other(x):
    x, y = x.contiguous(), _empty(x)
    missing_other_kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


@triton.jit
def unguarded_rescale_kernel(x_ptr, y_ptr, columns, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    top = float("-inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * row_stride + at, mask=at < columns, other=float("-inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), axis=0)  # fault: both are -inf after a masked tile
        top = new
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * row_stride + at, mask=at < columns, other=float("-inf")).to(tl.float32)
        y = tl.exp(x - top) / total
        tl.store(y_ptr + row * columns + at, y.to(y_ptr.dtype.element_ty), mask=at < columns)


def unguarded_rescale(x, block=8):
    x, y = x.contiguous(), _empty(x)
    unguarded_rescale_kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), BLOCK=block)
    return y


@triton.jit
def narrow_offset_kernel(x_ptr, y_ptr, columns, x_row, y_row, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * x_row + at, mask=inside, other=float("-inf")).to(tl.float32)  # fault: a product in 32 bits
    e = tl.exp(x - tl.max(x, axis=0))
    y = e / tl.sum(e, axis=0)
    tl.store(y_ptr + row * y_row + at, y.to(y_ptr.dtype.element_ty), mask=inside)


def narrow_offset(x):
    x = x if x.stride(1) == 1 else x.contiguous()
    y = _empty(x)
    narrow_offset_kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), y.stride(0), BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


@triton.jit
def truncating_cast_kernel(x_ptr, y_ptr, columns, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * row_stride + at, mask=inside, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    y = e / tl.sum(e, axis=0)
    bits = (y.to(tl.uint32, bitcast=True) >> 16).to(tl.uint16)  # fault: the upper half of a float32 is cut off, not rounded
    tl.store(y_ptr + row * columns + at, bits.to(tl.bfloat16, bitcast=True), mask=inside)


def truncating_cast(x):
    x, y = x.contiguous(), _empty(x)
    truncating_cast_kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


def truncating_narrowing(x):
    x, y = x.contiguous(), torch.empty(x.shape, dtype=torch.bfloat16, device=x.device)  # fault: of the kernel above, from float32
    truncating_cast_kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


@triton.jit
def lost_tail_kernel(x_ptr, y_ptr, columns, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    top = float("-inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * row_stride + at, mask=at < columns, other=float("-inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), axis=0)
        top = new
    for start in range(0, columns - 1, BLOCK):  # fault: a tail of one column is not written
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * row_stride + at, mask=at < columns, other=float("-inf")).to(tl.float32)
        y = tl.exp(x - top) / total
        tl.store(y_ptr + row * columns + at, y.to(y_ptr.dtype.element_ty), mask=at < columns)


def lost_tail(x, block=8):
    x, y = x.contiguous(), _empty(x)
    lost_tail_kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), BLOCK=block)
    return y


@triton.jit
def short_mask_kernel(x_ptr, y_ptr, columns, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + at, mask=at < columns - 1, other=float("-inf")).to(tl.float32)  # fault: one too few
    e = tl.exp(x - tl.max(x, axis=0))
    y = e / tl.sum(e, axis=0)
    tl.store(y_ptr + row * columns + at, y.to(y_ptr.dtype.element_ty), mask=at < columns)


def short_mask(x):
    x, y = x.contiguous(), _empty(x)
    short_mask_kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


@triton.jit
def ignored_stride_kernel(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=float("-inf")).to(tl.float32)  # fault: x need not be contiguous
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * columns + at, (e / tl.sum(e, axis=0)).to(y_ptr.dtype.element_ty), mask=inside)


def ignored_stride(x):
    y = _empty(x)
    ignored_stride_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


# ---- sums over rows ----


@triton.jit
def racing_sum_kernel(x_ptr, y_ptr, columns, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * row_stride + at, mask=inside, other=0.0)
    total = tl.load(y_ptr + at, mask=inside, other=0.0)
    tl.store(y_ptr + at, total + x, mask=inside)  # fault: every row adds to the same sums, and not atomically


def racing_sum(x):
    x = x.contiguous()
    y = torch.zeros(x.shape[1], dtype=x.dtype, device=x.device)
    racing_sum_kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


def column_sums(x):
    return x.sum(0)


@triton.jit
def uncleared_sum_kernel(x_ptr, y_ptr, columns, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + at, mask=at < columns, other=0.0)
    tl.atomic_add(y_ptr + at, x, mask=at < columns)


def uncleared_sum(x):
    x = x.contiguous()
    y = torch.empty(x.shape[1], dtype=x.dtype, device=x.device)  # fault: the sums do not begin at zero
    uncleared_sum_kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


# ---- layer normalisation ----


@triton.jit
def normalise_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, columns, x_row, eps, HALF: tl.constexpr, OUTSIDE: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), x_ptr.dtype.element_ty if HALF else tl.float32)  # fault with HALF: sums in the type of the input
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_row + at, mask=at < columns, other=0.0)
        total += x.to(total.dtype)
    mean = tl.sum(total, axis=0).to(tl.float32) / columns
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_row + at, mask=at < columns, other=0.0).to(tl.float32)
        apart = tl.where(at < columns, x - mean, 0.0)
        squares += apart * apart
    variance = tl.sum(squares, axis=0) / columns
    if OUTSIDE:
        rstd = 1.0 / (tl.sqrt(variance) + eps)  # fault with OUTSIDE: epsilon belongs under the root
    else:
        rstd = 1.0 / tl.sqrt(variance + eps)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns
        x = tl.load(x_ptr + row * x_row + at, mask=inside, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + at, mask=inside, other=0.0).to(tl.float32)
        bias = tl.load(bias_ptr + at, mask=inside, other=0.0).to(tl.float32)
        y = (x - mean) * rstd * weight + bias
        tl.store(y_ptr + row * columns + at, y.to(y_ptr.dtype.element_ty), mask=inside)


def _normalise(x, weight, bias, half, outside, block=16):
    x, weight, bias, y = x.contiguous(), weight.contiguous(), bias.contiguous(), _empty(x)
    normalise_kernel[(x.shape[0],)](x, weight, bias, y, x.shape[1], x.stride(0), EPS, HALF=half, OUTSIDE=outside, BLOCK=block)
    return y


def normalise(x, weight, bias):
    return _normalise(x, weight, bias, False, False)


def missing_upcast(x, weight, bias):
    return _normalise(x, weight, bias, True, False, block=64)


def eps_outside_root(x, weight, bias):
    return _normalise(x, weight, bias, False, True)


class ForgottenTerm(torch.autograd.Function):
    """Layer normalisation whose backward takes the variance for a constant."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return normalise(x, weight, bias)

    @staticmethod
    def backward(ctx, gy):
        x, weight = (t.float() for t in ctx.saved_tensors)
        apart = x - x.mean(-1, keepdim=True)
        rstd = (apart.square().mean(-1, keepdim=True) + EPS).rsqrt()
        g = gy.float() * weight
        gx = rstd * (g - g.mean(-1, keepdim=True))  # fault: - scaled * mean(g * scaled) is missing
        gweight, gbias = (gy.float() * apart * rstd).sum(0), gy.float().sum(0)
        return gx.to(gy.dtype), gweight.to(gy.dtype), gbias.to(gy.dtype)


def forgotten_term(x, weight, bias):
    return ForgottenTerm.apply(x, weight, bias)


# ---- root mean square normalisation ----


def rms_norm(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * weight


@triton.jit
def rms_kernel(x_ptr, weight_ptr, y_ptr, columns, x_row, eps, PADDING: tl.constexpr, NARROW: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * x_row + at, mask=inside, other=PADDING)  # fault with PADDING=1: the sum below takes it in
    weight = tl.load(weight_ptr + at, mask=inside, other=0.0)
    y = x / tl.sqrt(tl.sum(x * x, axis=0) / columns + eps)
    if NARROW:
        y = y.to(tl.float16).to(tl.float32)  # fault with NARROW: digits are lost
    tl.store(y_ptr + row * columns + at, y * weight, mask=inside)


def _rms(x, weight, padding, narrow):
    x, weight, y = x.contiguous(), weight.contiguous(), _empty(x)
    block = triton.next_power_of_2(x.shape[1])
    rms_kernel[(x.shape[0],)](x, weight, y, x.shape[1], x.stride(0), EPS, PADDING=padding, NARROW=narrow, BLOCK=block)
    return y


def padding_of_ones(x, weight):
    return _rms(x, weight, 1.0, False)


def narrow_inside(x, weight):
    return _rms(x, weight, 0.0, True)


# ---- what every function can get wrong ----


def writes_its_argument(x):
    x -= x.amax(-1, keepdim=True)  # fault: the caller's tensor
    e = x.exp()
    return e / e.sum(-1, keepdim=True)


def noisy(x):
    return torch.softmax(x + torch.rand(()) * 1e-7, dim=-1)  # fault: another result every time
