"""plan for rmsnorm_linear on mi300x: 2 kernels, 214.9 us estimated
  rmsnorm_linear_t8: weight, x -> t8
    roles   i=grid:1 k=resident:4096   (4096 programs, 8 warps, 1 stages)
    loops   none (whole rows on chip)
    cost    18.7 us, bound by dram; 67.12 MB DRAM, 100.66 MB L2, 0.0 GFLOP, 0.08 G instructions; 0 B shared
  rmsnorm_linear_out: t8, w -> out
    roles   i=grid:128 k=stream:64 j=grid:128   (1536 programs, 8 warps, 2 stages)
    loops   k x1
    cost    196.2 us, bound by l2; 134.22 MB DRAM, 3.27 GB L2, 206.2 GFLOP, 0.00 G instructions; 65.54 kB shared
  memory: 201.33 MB; compulsory 134.23 MB; unfused 369.16 MB in 7 kernels (244.0 us)
  time against memory: 214.9 us holding 33.55 MB (2 kernels); 254.8 us holding 16.38 kB (2 kernels)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: one kernel per reduction, 227.2 us, 234.92 MB: 12.3 us slower: 3 kernels, rmsnorm_linear_out is bound by l2
  search ended: exhausted
"""


import torch
import triton
import triton.language as tl


@triton.jit
def rmsnorm_linear_t8(
    x_ptr, weight_ptr, t8_ptr,
    N_k, x_stride_i, x_stride_k, weight_stride_k, t8_stride_i, t8_stride_k,
    T_k: tl.constexpr,
):
    """t8[i, k] = x * rsqrt(mean_k(square(x)) + 1e-06) * weight
    moves: 67.12 MB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    i0 = pid.to(tl.int64)
    r_k = tl.arange(0, T_k)
    x = tl.load(x_ptr + i0 * x_stride_i + r_k * x_stride_k)
    x_f = x.to(tl.float32)
    square = x_f * x_f
    sum_k = tl.sum(square, axis=0)
    mean_k = sum_k / tl.cast(tl.maximum(N_k, 1), tl.float32)
    add = mean_k + 1e-06
    rsqrt = tl.rsqrt(add)
    mul = x_f * rsqrt
    weight = tl.load(weight_ptr + r_k * weight_stride_k)
    weight_f = weight.to(tl.float32)
    mul_2 = mul * weight_f
    tl.store(t8_ptr + i0 * t8_stride_i + r_k * t8_stride_k, mul_2.to(tl.float16))


@triton.jit
def rmsnorm_linear_out(
    t8_ptr, w_ptr, out_ptr,
    N_k, N_j, t8_stride_i, t8_stride_k, w_stride_j, w_stride_k, out_stride_i, out_stride_j,
    T_i: tl.constexpr, T_k: tl.constexpr, T_j: tl.constexpr,
):
    """out[i, j] = sum_k(x * rsqrt(mean_k(square(x)) + 1e-06) * weight * w)
    moves: 134.22 MB of memory for the planned sizes; bound by l2
    """
    pid = tl.program_id(0)
    j0 = (pid % tl.cdiv(N_j, T_j)).to(tl.int64) * T_j
    pid = pid // tl.cdiv(N_j, T_j)
    i0 = pid.to(tl.int64) * T_i
    r_i = tl.arange(0, T_i)
    r_k = tl.arange(0, T_k)
    r_j = tl.arange(0, T_j)
    sum_k = tl.zeros([T_i, T_j], tl.float32)
    for k0 in tl.range(0, N_k, T_k):
        t8 = tl.load(
            t8_ptr + (i0 * t8_stride_i + tl.cast(k0, tl.int64) * t8_stride_k) + (r_i[:, None] * t8_stride_i + r_k[None, :] * t8_stride_k),
        )
        w = tl.load(
            w_ptr + (j0 * w_stride_j + tl.cast(k0, tl.int64) * w_stride_k) + (r_j[None, :] * w_stride_j + r_k[:, None] * w_stride_k),
        )
        sum_k = tl.dot(t8, w, sum_k, out_dtype=tl.float32)
    tl.store(
        out_ptr + (i0 * out_stride_i + j0 * out_stride_j) + (r_i[:, None] * out_stride_i + r_j[None, :] * out_stride_j),
        sum_k.to(tl.float16),
    )


def run(x, weight, w):
    """Return the tuple (out), computed by 2 kernels on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, rmsnorm_linear_t8)
    _check_tensor("weight", weight, torch.float16, 1)
    _check_device("weight", weight, x.device, rmsnorm_linear_t8)
    _check_tensor("w", w, torch.float16, 2)
    _check_device("w", w, x.device, rmsnorm_linear_t8)
    N_i = x.shape[0]
    N_k = x.shape[1]
    N_j = w.shape[0]
    _check_shape("x", x, (N_i, N_k))
    _check_shape("weight", weight, (N_k,))
    _check_shape("w", w, (N_j, N_k))
    _check_size("i", N_i == 4096, "of 4096, on which the program depends")
    _check_size("k", N_k == 4096, "of 4096, on which the program depends")
    _check_size("j", N_j == 6144, "of 6144, on which the program depends")
    x = _readable("x", x, (0, 4095))
    weight = _readable("weight", weight, (4095,))
    w = _readable("w", w, (127, 63))
    out = torch.empty((N_i, N_j), dtype=torch.float16, device=x.device)
    _check_reach("out", out.stride(), (127, 127))
    with torch.cuda.device_of(x):
        t8 = torch.empty((N_i, N_k), dtype=torch.float16, device=x.device)
        _check_reach("t8", t8.stride(), (127, 4095))
        rmsnorm_linear_t8[_grid(N_i)](
            x, weight, t8,
            N_k, x.stride(0), x.stride(1), weight.stride(0), t8.stride(0), t8.stride(1),
            T_k=4096,
            num_warps=8, num_stages=1, enable_fp_fusion=True,
        )
        rmsnorm_linear_out[_grid(triton.cdiv(N_i, 128) * triton.cdiv(N_j, 128))](
            t8, w, out,
            N_k, N_j, t8.stride(0), t8.stride(1), w.stride(0), w.stride(1), out.stride(0), out.stride(1),
            T_i=128, T_k=64, T_j=128,
            num_warps=8, num_stages=2, enable_fp_fusion=True,
        )
    return (out,)
