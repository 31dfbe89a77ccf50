"""plan for rmsnorm_linear on mi300x: 1 kernel, 264.5 us estimated
  rmsnorm_linear_out: w, weight, x -> out
    roles   i=grid:64 k=stream:64 j=grid:256   (1536 programs, 8 warps, 1 stages)
    loops   k x1
    cost    264.5 us, bound by tensor; 134.23 MB DRAM, 4.09 GB L2, 206.2 GFLOP, 4.09 G instructions; 32.77 kB shared
    rules   factor_from_inside, factor_out
    scaled  operands that float16 might not hold are divided by powers of two, row by row
  memory: 134.23 MB; compulsory 134.23 MB; unfused 369.16 MB in 7 kernels (244.0 us)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: one kernel per reduction, 227.2 us, 234.92 MB: 27.6 us faster but holds 33.57 MB of temporary memory
  search ended: exhausted
"""


import torch
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    """The larger of two; NaN if either is NaN, as in torch (tl.maximum alone ignores it)."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _minimum(a, b):
    """The smaller of two; NaN if either is NaN, as in torch (tl.minimum alone ignores it)."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _max(x, axis: tl.constexpr):
    """The largest along an axis; NaN if any is NaN, as in torch (tl.max alone ignores it)."""
    return tl.reduce(x, axis, _maximum)


@triton.jit
def rmsnorm_linear_out(
    x_ptr, weight_ptr, w_ptr, out_ptr,
    N_k, N_j, x_stride_i, x_stride_k, weight_stride_k, w_stride_j, w_stride_k, out_stride_i, out_stride_j,
    T_i: tl.constexpr, T_k: tl.constexpr, T_j: tl.constexpr,
):
    """out[i, j] = sum_k(x * rsqrt(mean_k(square(x)) + 1e-06) * weight * w)
    rules: factor_from_inside, factor_out
    scaled: operands that float16 might not hold are divided by powers of two, row by row
    moves: 134.23 MB of memory for the planned sizes; bound by tensor
    """
    pid = tl.program_id(0)
    j0 = (pid % tl.cdiv(N_j, T_j)).to(tl.int64) * T_j
    pid = pid // tl.cdiv(N_j, T_j)
    i0 = pid.to(tl.int64) * T_i
    r_i = tl.arange(0, T_i)
    r_k = tl.arange(0, T_k)
    r_j = tl.arange(0, T_j)
    sum_k = tl.zeros([T_i], tl.float32)
    sum_k_2 = tl.zeros([T_i, T_j], tl.float32)
    power = tl.full([T_i], 7.888609052210118e-31, tl.float32)
    for k0 in tl.range(0, N_k, T_k):
        x = tl.load(
            x_ptr + (i0 * x_stride_i + tl.cast(k0, tl.int64) * x_stride_k) + (r_i[:, None] * x_stride_i + r_k[None, :] * x_stride_k),
        )
        x_f = x.to(tl.float32)
        square = x_f * x_f
        tile_sum = tl.sum(square, axis=1)
        sum_k = sum_k + tile_sum
        weight = tl.load(weight_ptr + tl.cast(k0, tl.int64) * weight_stride_k + r_k * weight_stride_k)
        weight_f = weight.to(tl.float32)
        mul = x_f * weight_f[None, :]
        abs_2 = tl.abs(mul)
        largest = _max(abs_2, axis=1)
        log = tl.log(largest)
        exponent = log * 1.4426950408889634
        floor = tl.floor(exponent)
        exp2 = tl.exp2(floor)
        minimum = _minimum(exp2, 8.507059173023462e+37)
        power_2 = _maximum(power, minimum)
        recip = 1.0 / power_2
        scale = recip * 8192.0
        scaled = mul * scale[:, None]
        scaled_fp16 = scaled.to(tl.float16)
        w = tl.load(
            w_ptr + (j0 * w_stride_j + tl.cast(k0, tl.int64) * w_stride_k) + (r_j[None, :] * w_stride_j + r_k[:, None] * w_stride_k),
        )
        mul_2 = power * recip
        stays = power == power_2
        change = tl.where(stays, 1.0, mul_2)
        mul_3 = sum_k_2 * change[:, None]
        sum_k_2 = tl.dot(scaled_fp16, w, mul_3, out_dtype=tl.float32)
        power = power_2
    mean_k = sum_k / tl.cast(tl.maximum(N_k, 1), tl.float32)
    add = mean_k + 1e-06
    rsqrt = tl.rsqrt(add)
    mul_4 = power * 0.0001220703125
    mul_5 = sum_k_2 * mul_4[:, None]
    mul_6 = rsqrt[:, None] * mul_5
    tl.store(
        out_ptr + (i0 * out_stride_i + j0 * out_stride_j) + (r_i[:, None] * out_stride_i + r_j[None, :] * out_stride_j),
        mul_6.to(tl.float16),
    )


def run(x, weight, w):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, rmsnorm_linear_out)
    _check_tensor("weight", weight, torch.float16, 1)
    _check_device("weight", weight, x.device, rmsnorm_linear_out)
    _check_tensor("w", w, torch.float16, 2)
    _check_device("w", w, x.device, rmsnorm_linear_out)
    N_i = x.shape[0]
    N_k = x.shape[1]
    N_j = w.shape[0]
    _check_shape("x", x, (N_i, N_k))
    _check_shape("weight", weight, (N_k,))
    _check_shape("w", w, (N_j, N_k))
    _check_size("i", N_i == 4096, "of 4096, on which the program depends")
    _check_size("k", N_k == 4096, "of 4096, on which the program depends")
    _check_size("j", N_j == 6144, "of 6144, on which the program depends")
    x = _readable("x", x, (63, 63))
    weight = _readable("weight", weight, (63,))
    w = _readable("w", w, (255, 63))
    out = torch.empty((N_i, N_j), dtype=torch.float16, device=x.device)
    _check_reach("out", out.stride(), (63, 255))
    with torch.cuda.device_of(x):
        rmsnorm_linear_out[_grid(triton.cdiv(N_i, 64) * triton.cdiv(N_j, 256))](
            x, weight, w, out,
            N_k, N_j, x.stride(0), x.stride(1), weight.stride(0), w.stride(0), w.stride(1), out.stride(0), out.stride(1),
            T_i=64, T_k=64, T_j=256,
            num_warps=8, num_stages=1, enable_fp_fusion=True,
        )
    return (out,)
