"""plan for rmsnorm on mi300x: 1 kernel, 21.2 us estimated
  rmsnorm_out: weight, x -> out
    roles   rows=grid:16 cols=stream:1024   (256 programs, 16 warps, 1 stages)
    loops   cols x2
    cost    21.2 us, bound by dram; 67.12 MB DRAM, 102.76 MB L2, 0.0 GFLOP, 0.09 G instructions; 0 B shared
  memory: 67.12 MB; compulsory 67.12 MB; unfused 234.94 MB in 6 kernels (88.2 us)
  this module has kernels only: run() takes tensors on a GPU
  search ended: bound
"""


import torch
import triton
import triton.language as tl


@triton.jit
def rmsnorm_out(
    x_ptr, weight_ptr, out_ptr,
    N_cols, x_stride_rows, x_stride_cols, weight_stride_cols, out_stride_rows, out_stride_cols,
    T_rows: tl.constexpr, T_cols: tl.constexpr,
):
    """out[rows, cols] = x * rsqrt(mean_cols(square(x)) + 1e-06) * weight
    moves: 67.12 MB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    rows_start = pid.to(tl.int64) * T_rows
    r_rows = tl.arange(0, T_rows)
    r_cols = tl.arange(0, T_cols)
    sum_lanes_cols = tl.zeros([T_rows, T_cols // 8], tl.float32)
    for cols_b_start in tl.range(0, N_cols, T_cols):
        x_2 = tl.load(
            x_ptr + (rows_start * x_stride_rows + tl.cast(cols_b_start, tl.int64) * x_stride_cols) + (r_rows[:, None] * x_stride_rows + r_cols[None, :] * x_stride_cols),
            eviction_policy="evict_last",
        )
        x_2_f = x_2.to(tl.float32)
        square = x_2_f * x_2_f
        sum_lanes_cols_new_part = tl.sum(tl.reshape(square, [T_rows, T_cols // 8, 8]), axis=2)
        sum_lanes_cols = sum_lanes_cols + sum_lanes_cols_new_part
    sum_cols = tl.sum(sum_lanes_cols, axis=1)
    mean_cols = tl.div_rn(sum_cols, tl.cast(tl.maximum(N_cols, 1), tl.float32))
    add = mean_cols + 1e-06
    rsqrt = tl.rsqrt(add)
    for cols_start in tl.range(0, N_cols, T_cols):
        x = tl.load(
            x_ptr + (rows_start * x_stride_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + (r_rows[:, None] * x_stride_rows + r_cols[None, :] * x_stride_cols),
            eviction_policy="evict_first",
        )
        x_f = x.to(tl.float32)
        mul = x_f * rsqrt[:, None]
        weight = tl.load(weight_ptr + tl.cast(cols_start, tl.int64) * weight_stride_cols + r_cols * weight_stride_cols)
        weight_f = weight.to(tl.float32)
        mul_2 = mul * weight_f[None, :]
        tl.store(
            out_ptr + (rows_start * out_stride_rows + tl.cast(cols_start, tl.int64) * out_stride_cols) + (r_rows[:, None] * out_stride_rows + r_cols[None, :] * out_stride_cols),
            mul_2.to(tl.float16),
            eviction_policy="evict_first",
        )


def run(x, weight):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, rmsnorm_out)
    _check_tensor("weight", weight, torch.float16, 1)
    _check_device("weight", weight, x.device, rmsnorm_out)
    N_rows = x.shape[0]
    N_cols = x.shape[1]
    _check_shape("x", x, (N_rows, N_cols))
    _check_shape("weight", weight, (N_cols,))
    _check_size("rows", N_rows == 4096, "of 4096, on which the program depends")
    _check_size("cols", N_cols == 4096, "of 4096, on which the program depends")
    x = _readable("x", x, (15, 1023))
    weight = _readable("weight", weight, (1023,))
    out = torch.empty((N_rows, N_cols), dtype=torch.float16, device=x.device)
    _check_reach("out", out.stride(), (15, 1023))
    with torch.cuda.device_of(x):
        rmsnorm_out[_grid(triton.cdiv(N_rows, 16))](
            x, weight, out,
            N_cols, x.stride(0), x.stride(1), weight.stride(0), out.stride(0), out.stride(1),
            T_rows=16, T_cols=1024,
            num_warps=16, num_stages=1, enable_fp_fusion=True,
        )
    return (out,)
