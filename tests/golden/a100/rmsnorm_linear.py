"""plan for rmsnorm_linear on a100: 2 kernels, 936.0 us estimated
  rmsnorm_linear_t8: weight, x -> t8
    roles   x_rows=grid:1 cols=resident:4096   (4096 programs, 8 warps, 1 stages)
    loops   none (whole rows on chip)
    cost    43.6 us, bound by dram; 67.12 MB DRAM, 100.66 MB L2, 0.0 GFLOP, 0.08 G instructions; 0 B shared
  rmsnorm_linear_out: t8, w -> out
    roles   x_rows=grid:128 cols=stream:64 w_rows=grid:128   (1536 programs, 4 warps, 3 stages)
    order   16 tiles along x_rows, then the next along w_rows: loads move 134.22 MB (339.27 MB with half the cache), in the order of the axes 749.38 MB (749.38 MB with half the cache)
    loops   cols x1
    cost    892.4 us, bound by tensor; 184.55 MB DRAM, 3.27 GB L2, 206.2 GFLOP, 0.00 G instructions; 65.54 kB shared
  memory: 251.67 MB; compulsory 134.23 MB; unfused 369.16 MB in 7 kernels (821.1 us)
  time against memory: 936.0 us holding 33.55 MB (2 kernels); 1203.3 us holding 0 B (1 kernel)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: one kernel, 1203.3 us, 302.01 MB: 267.3 us slower: 1 kernel, rmsnorm_linear_out is bound by tensor
  search ended: exhausted
"""


import torch
import triton
import triton.language as tl


@triton.jit
def rmsnorm_linear_t8(
    x_ptr, weight_ptr, t8_ptr,
    N_cols, x_stride_x_rows, x_stride_cols, weight_stride_cols, t8_stride_x_rows, t8_stride_cols,
    T_cols: tl.constexpr,
):
    """t8[x_rows, cols] = x * rsqrt(mean_cols(square(x)) + 1e-06) * weight
    moves: 67.12 MB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    x_rows_start = pid.to(tl.int64)
    r_cols = tl.arange(0, T_cols)
    x = tl.load(x_ptr + x_rows_start * x_stride_x_rows + r_cols * x_stride_cols)
    x_f = x.to(tl.float32)
    square = x_f * x_f
    sum_cols = tl.sum(square, axis=0)
    mean_cols = tl.div_rn(sum_cols, tl.cast(tl.maximum(N_cols, 1), tl.float32))
    add = mean_cols + 1e-06
    rsqrt = tl.rsqrt(add)
    mul = x_f * rsqrt
    weight = tl.load(weight_ptr + r_cols * weight_stride_cols)
    weight_f = weight.to(tl.float32)
    mul_2 = mul * weight_f
    tl.store(t8_ptr + x_rows_start * t8_stride_x_rows + r_cols * t8_stride_cols, mul_2.to(tl.float16))


@triton.jit
def rmsnorm_linear_out(
    t8_ptr, w_ptr, out_ptr,
    N_x_rows, N_cols, N_w_rows, t8_stride_x_rows, t8_stride_cols, w_stride_w_rows, w_stride_cols, out_stride_x_rows,
    out_stride_w_rows,
    T_x_rows: tl.constexpr, T_cols: tl.constexpr, T_w_rows: tl.constexpr,
):
    """out[x_rows, w_rows] = sum_cols(x * rsqrt(mean_cols(square(x)) + 1e-06) * weight * w)
    order: 16 tiles along x_rows, then the next along w_rows: loads move 134.22 MB (339.27 MB with half the cache), in the order of the axes 749.38 MB (749.38 MB with half the cache)
    moves: 184.55 MB of memory for the planned sizes; bound by tensor
    """
    pid = tl.program_id(0)
    # 16 tiles along x_rows, then the next along w_rows: what they load stays in the cache
    first = pid // (16 * tl.cdiv(N_w_rows, T_w_rows)) * 16
    height = tl.minimum(tl.cdiv(N_x_rows, T_x_rows) - first, 16)
    w_rows_start = (pid % (16 * tl.cdiv(N_w_rows, T_w_rows)) // height).to(tl.int64) * T_w_rows
    x_rows_start = (first + pid % (16 * tl.cdiv(N_w_rows, T_w_rows)) % height).to(tl.int64) * T_x_rows
    r_x_rows = tl.arange(0, T_x_rows)
    r_cols = tl.arange(0, T_cols)
    r_w_rows = tl.arange(0, T_w_rows)
    sum_cols = tl.zeros([T_x_rows, T_w_rows], tl.float32)
    for cols_start in tl.range(0, N_cols, T_cols):
        t8 = tl.load(
            t8_ptr + (x_rows_start * t8_stride_x_rows + tl.cast(cols_start, tl.int64) * t8_stride_cols) + (r_x_rows[:, None] * t8_stride_x_rows + r_cols[None, :] * t8_stride_cols),
        )
        w = tl.load(
            w_ptr + (w_rows_start * w_stride_w_rows + tl.cast(cols_start, tl.int64) * w_stride_cols) + (r_w_rows[None, :] * w_stride_w_rows + r_cols[:, None] * w_stride_cols),
        )
        sum_cols = tl.dot(t8, w, sum_cols, out_dtype=tl.float32)
    tl.store(
        out_ptr + (x_rows_start * out_stride_x_rows + w_rows_start * out_stride_w_rows) + (r_x_rows[:, None] * out_stride_x_rows + r_w_rows[None, :] * out_stride_w_rows),
        sum_cols.to(tl.float16),
    )


def run(x, weight, w):
    """Return the tuple (out), computed by 2 kernels on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, rmsnorm_linear_t8)
    _check_tensor("weight", weight, torch.float16, 1)
    _check_device("weight", weight, x.device, rmsnorm_linear_t8)
    _check_tensor("w", w, torch.float16, 2)
    _check_device("w", w, x.device, rmsnorm_linear_t8)
    N_x_rows = x.shape[0]
    N_cols = x.shape[1]
    N_w_rows = w.shape[0]
    _check_shape("x", x, (N_x_rows, N_cols))
    _check_shape("weight", weight, (N_cols,))
    _check_shape("w", w, (N_w_rows, N_cols))
    _check_size("x_rows", N_x_rows == 4096, "of 4096, on which the program depends")
    _check_size("cols", N_cols == 4096, "of 4096, on which the program depends")
    _check_size("w_rows", N_w_rows == 6144, "of 6144, on which the program depends")
    x = _readable("x", x, (0, 4095))
    weight = _readable("weight", weight, (4095,))
    w = _readable("w", w, (127, 63))
    out = torch.empty((N_x_rows, N_w_rows), dtype=torch.float16, device=x.device)
    _check_reach("out", out.stride(), (127, 127))
    with torch.cuda.device_of(x):
        t8 = torch.empty((N_x_rows, N_cols), dtype=torch.float16, device=x.device)
        _check_reach("t8", t8.stride(), (127, 4095))
        rmsnorm_linear_t8[_grid(N_x_rows)](
            x, weight, t8,
            N_cols, x.stride(0), x.stride(1), weight.stride(0), t8.stride(0), t8.stride(1),
            T_cols=4096,
            num_warps=8, num_stages=1, enable_fp_fusion=True,
        )
        rmsnorm_linear_out[_grid(triton.cdiv(N_x_rows, 128) * triton.cdiv(N_w_rows, 128))](
            t8, w, out,
            N_x_rows, N_cols, N_w_rows, t8.stride(0), t8.stride(1), w.stride(0), w.stride(1), out.stride(0), out.stride(1),
            T_x_rows=128, T_cols=64, T_w_rows=128,
            num_warps=4, num_stages=3, enable_fp_fusion=True,
        )
    return (out,)
