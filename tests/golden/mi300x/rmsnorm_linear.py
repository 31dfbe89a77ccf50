"""plan for rmsnorm_linear on mi300x: 2 kernels, 289.6 us estimated
  rmsnorm_linear_t8: weight, x -> t8
    roles   x_rows=grid:16 cols=stream:1024   (256 programs, 16 warps, 1 stages)
    loops   cols x2
    cost    21.2 us, bound by dram; 67.12 MB DRAM, 102.76 MB L2, 0.0 GFLOP, 0.09 G instructions; 0 B shared
  rmsnorm_linear_out: t8, w -> out
    roles   x_rows=grid:128 cols=stream:32 w_rows=grid:128   (1536 programs, 8 warps, 3 stages)
    loops   cols x1
    cost    268.4 us, bound by shared; 134.22 MB DRAM, 3.27 GB L2, 206.2 GFLOP, 0.00 G instructions; 32.77 kB shared
  memory: 201.33 MB; compulsory 134.23 MB; unfused 369.16 MB in 7 kernels (251.9 us)
  time against memory: 289.6 us holding 33.55 MB (2 kernels); 473.7 us holding 0 B (1 kernel)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: one kernel, 473.7 us, 134.23 MB: 184.1 us slower: 1 kernel, rmsnorm_linear_out is bound by shared
  search ended: exhausted
"""


import torch
import triton
import triton.language as tl


@triton.jit
def rmsnorm_linear_t8(
    x_ptr, weight_ptr, t8_ptr,
    N_cols, x_stride_x_rows, x_stride_cols, weight_stride_cols, t8_stride_x_rows, t8_stride_cols,
    T_x_rows: tl.constexpr, T_cols: tl.constexpr,
):
    """t8[x_rows, cols] = x * rsqrt(mean_cols(square(x)) + 1e-06) * weight
    moves: 67.12 MB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    x_rows_start = pid.to(tl.int64) * T_x_rows
    r_x_rows = tl.arange(0, T_x_rows)
    r_cols = tl.arange(0, T_cols)
    sum_lanes_cols = tl.zeros([T_x_rows, T_cols // 8], tl.float32)
    for cols_b_start in tl.range(0, N_cols, T_cols):
        x_2 = tl.load(
            x_ptr + (x_rows_start * x_stride_x_rows + tl.cast(cols_b_start, tl.int64) * x_stride_cols) + (r_x_rows[:, None] * x_stride_x_rows + r_cols[None, :] * x_stride_cols),
            eviction_policy="evict_last",
        )
        x_2_f = x_2.to(tl.float32)
        square = x_2_f * x_2_f
        sum_lanes_cols_new_part = tl.sum(tl.reshape(square, [T_x_rows, T_cols // 8, 8]), axis=2)
        sum_lanes_cols = sum_lanes_cols + sum_lanes_cols_new_part
    sum_cols = tl.sum(sum_lanes_cols, axis=1)
    mean_cols = tl.div_rn(sum_cols, tl.cast(tl.maximum(N_cols, 1), tl.float32))
    add = mean_cols + 1e-06
    rsqrt = tl.rsqrt(add)
    for cols_start in tl.range(0, N_cols, T_cols):
        x = tl.load(
            x_ptr + (x_rows_start * x_stride_x_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + (r_x_rows[:, None] * x_stride_x_rows + r_cols[None, :] * x_stride_cols),
            eviction_policy="evict_first",
        )
        x_f = x.to(tl.float32)
        mul = x_f * rsqrt[:, None]
        weight = tl.load(weight_ptr + tl.cast(cols_start, tl.int64) * weight_stride_cols + r_cols * weight_stride_cols)
        weight_f = weight.to(tl.float32)
        mul_2 = mul * weight_f[None, :]
        tl.store(
            t8_ptr + (x_rows_start * t8_stride_x_rows + tl.cast(cols_start, tl.int64) * t8_stride_cols) + (r_x_rows[:, None] * t8_stride_x_rows + r_cols[None, :] * t8_stride_cols),
            mul_2.to(tl.float16),
            eviction_policy="evict_first",
        )


@triton.jit
def rmsnorm_linear_out(
    t8_ptr, w_ptr, out_ptr,
    N_cols, N_w_rows, t8_stride_x_rows, t8_stride_cols, w_stride_w_rows, w_stride_cols, out_stride_x_rows, out_stride_w_rows,
    T_x_rows: tl.constexpr, T_cols: tl.constexpr, T_w_rows: tl.constexpr,
):
    """out[x_rows, w_rows] = sum_cols(x * rsqrt(mean_cols(square(x)) + 1e-06) * weight * w)
    moves: 134.22 MB of memory for the planned sizes; bound by shared
    """
    pid = tl.program_id(0)
    w_rows_start = (pid % tl.cdiv(N_w_rows, T_w_rows)).to(tl.int64) * T_w_rows
    pid = pid // tl.cdiv(N_w_rows, T_w_rows)
    x_rows_start = pid.to(tl.int64) * T_x_rows
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
    x = _readable("x", x, (15, 1023))
    weight = _readable("weight", weight, (1023,))
    w = _readable("w", w, (127, 31))
    out = torch.empty((N_x_rows, N_w_rows), dtype=torch.float16, device=x.device)
    _check_reach("out", out.stride(), (127, 127))
    with torch.cuda.device_of(x):
        t8 = torch.empty((N_x_rows, N_cols), dtype=torch.float16, device=x.device)
        _check_reach("t8", t8.stride(), (127, 1023))
        rmsnorm_linear_t8[_grid(triton.cdiv(N_x_rows, 16))](
            x, weight, t8,
            N_cols, x.stride(0), x.stride(1), weight.stride(0), t8.stride(0), t8.stride(1),
            T_x_rows=16, T_cols=1024,
            num_warps=16, num_stages=1, enable_fp_fusion=True,
        )
        rmsnorm_linear_out[_grid(triton.cdiv(N_x_rows, 128) * triton.cdiv(N_w_rows, 128))](
            t8, w, out,
            N_cols, N_w_rows, t8.stride(0), t8.stride(1), w.stride(0), w.stride(1), out.stride(0), out.stride(1),
            T_x_rows=128, T_cols=32, T_w_rows=128,
            num_warps=8, num_stages=3, enable_fp_fusion=True,
        )
    return (out,)
