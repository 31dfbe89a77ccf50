"""plan for rmsnorm_linear on h200: 2 kernels, 338.4 us estimated
  rmsnorm_linear_t2: x -> t2
    roles   i=grid:1 k=stream:1024   (4096 programs, 1 warps, 2 stages)
    loops   k x1
    cost    10.0 us, bound by dram; 33.57 MB DRAM, 33.57 MB L2, 0.0 GFLOP, 0.03 G instructions; 0 B shared
  rmsnorm_linear_out: t2, w, weight, x -> out
    roles   i=grid:256 k=stream:32 j=grid:128   (768 programs, 8 warps, 3 stages)
    loops   k x1
    cost    328.4 us, bound by l2; 134.24 MB DRAM, 2.47 GB L2, 206.2 GFLOP, 2.82 G instructions; 57.34 kB shared
  memory: 167.81 MB; compulsory 134.23 MB; unfused 369.16 MB in 7 kernels (278.3 us)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: one kernel per reduction, 354.5 us, 234.92 MB: 16.1 us slower: 3 kernels, rmsnorm_linear_out is bound by l2
  search ended: exhausted
"""


import torch
import triton
import triton.language as tl


@triton.jit
def _lost_digits(new, kept, small):
    """What rounding added to new = kept + small; nothing where it is not finite."""
    lost = (new - kept) - small
    return tl.where(tl.abs(lost) < float("inf"), lost, 0.0)


@triton.jit
def rmsnorm_linear_t2(
    x_ptr, t2_ptr,
    N_k, x_stride_i, x_stride_k, t2_stride_i,
    T_k: tl.constexpr,
):
    """t2[i] = mean_k(square(x))
    moves: 33.57 MB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    i0 = pid.to(tl.int64)
    r_k = tl.arange(0, T_k)
    sum_k = tl.zeros([], tl.float32)
    lost_k = tl.zeros([], tl.float32)
    for k0 in tl.range(0, N_k, T_k):
        x = tl.load(x_ptr + (i0 * x_stride_i + tl.cast(k0, tl.int64) * x_stride_k) + r_k * x_stride_k)
        x_f = x.to(tl.float32)
        square = x_f * x_f
        tile_sum = tl.sum(square, axis=0)
        small = tile_sum - lost_k
        sum_k_new = sum_k + small
        lost_k = _lost_digits(sum_k_new, sum_k, small)
        sum_k = sum_k_new
    mean_k = sum_k / tl.cast(tl.maximum(N_k, 1), tl.float32)
    tl.store(t2_ptr + i0 * t2_stride_i, mean_k)


@triton.jit
def rmsnorm_linear_out(
    t2_ptr, x_ptr, weight_ptr, w_ptr, out_ptr,
    N_k, N_j, t2_stride_i, x_stride_i, x_stride_k, weight_stride_k, w_stride_j, w_stride_k, out_stride_i, out_stride_j,
    T_i: tl.constexpr, T_k: tl.constexpr, T_j: tl.constexpr,
):
    """out[i, j] = sum_k(x * rsqrt(mean_k(square(x)) + 1e-06) * weight * w)
    moves: 134.24 MB of memory for the planned sizes; bound by l2
    """
    pid = tl.program_id(0)
    j0 = (pid % tl.cdiv(N_j, T_j)).to(tl.int64) * T_j
    pid = pid // tl.cdiv(N_j, T_j)
    i0 = pid.to(tl.int64) * T_i
    r_i = tl.arange(0, T_i)
    r_k = tl.arange(0, T_k)
    r_j = tl.arange(0, T_j)
    t2 = tl.load(t2_ptr + i0 * t2_stride_i + r_i * t2_stride_i)
    add = t2 + 1e-06
    rsqrt = tl.rsqrt(add)
    sum_k = tl.zeros([T_i, T_j], tl.float32)
    for k0 in tl.range(0, N_k, T_k):
        x = tl.load(
            x_ptr + (i0 * x_stride_i + tl.cast(k0, tl.int64) * x_stride_k) + (r_i[:, None] * x_stride_i + r_k[None, :] * x_stride_k),
        )
        x_f = x.to(tl.float32)
        mul = x_f * rsqrt[:, None]
        weight = tl.load(weight_ptr + tl.cast(k0, tl.int64) * weight_stride_k + r_k * weight_stride_k)
        weight_f = weight.to(tl.float32)
        mul_2 = mul * weight_f[None, :]
        mul_2_fp16 = mul_2.to(tl.float16)
        w = tl.load(
            w_ptr + (j0 * w_stride_j + tl.cast(k0, tl.int64) * w_stride_k) + (r_j[None, :] * w_stride_j + r_k[:, None] * w_stride_k),
        )
        sum_k = tl.dot(mul_2_fp16, w, sum_k, out_dtype=tl.float32)
    tl.store(
        out_ptr + (i0 * out_stride_i + j0 * out_stride_j) + (r_i[:, None] * out_stride_i + r_j[None, :] * out_stride_j),
        sum_k.to(tl.float16),
    )


def run(x, weight, w):
    """Return the tuple (out), computed by 2 kernels on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, rmsnorm_linear_t2)
    _check_tensor("weight", weight, torch.float16, 1)
    _check_device("weight", weight, x.device, rmsnorm_linear_t2)
    _check_tensor("w", w, torch.float16, 2)
    _check_device("w", w, x.device, rmsnorm_linear_t2)
    N_i = x.shape[0]
    N_k = x.shape[1]
    N_j = w.shape[0]
    _check_shape("x", x, (N_i, N_k))
    _check_shape("weight", weight, (N_k,))
    _check_shape("w", w, (N_j, N_k))
    _check_size("i", N_i == 4096, "of 4096, on which the program depends")
    _check_size("k", N_k == 4096, "of 4096, on which the program depends")
    _check_size("j", N_j == 6144, "of 6144, on which the program depends")
    x = _readable("x", x, (255, 1023))
    weight = _readable("weight", weight, (31,))
    w = _readable("w", w, (127, 31))
    out = torch.empty((N_i, N_j), dtype=torch.float16, device=x.device)
    _check_reach("out", out.stride(), (255, 127))
    with torch.cuda.device_of(x):
        t2 = torch.empty((N_i,), dtype=torch.float32, device=x.device)
        rmsnorm_linear_t2[_grid(N_i)](
            x, t2,
            N_k, x.stride(0), x.stride(1), t2.stride(0),
            T_k=1024,
            num_warps=1, num_stages=2, enable_fp_fusion=True,
        )
        rmsnorm_linear_out[_grid(triton.cdiv(N_i, 256) * triton.cdiv(N_j, 128))](
            t2, x, weight, w, out,
            N_k, N_j, t2.stride(0), x.stride(0), x.stride(1), weight.stride(0), w.stride(0), w.stride(1), out.stride(0),
            out.stride(1),
            T_i=256, T_k=32, T_j=128,
            num_warps=8, num_stages=3, enable_fp_fusion=True,
        )
    return (out,)
