"""plan for rmsnorm_linear on h200: 2 kernels, 374.9 us estimated
  rmsnorm_linear_t2: x -> t2
    roles   x_rows=grid:1 cols=stream:1024   (4096 programs, 1 warps, 2 stages)
    loops   cols x1
    cost    11.0 us, bound by dram; 33.57 MB DRAM, 33.57 MB L2, 0.0 GFLOP, 0.05 G instructions; 2.05 kB shared
  rmsnorm_linear_out: t2, w, weight, x -> out
    roles   x_rows=grid:128 cols=stream:32 w_rows=grid:128   (1536 programs, 4 warps, 3 stages)
    order   16 tiles along x_rows, then the next along w_rows: loads move 134.25 MB (198.37 MB with half the cache), in the order of the axes 326.46 MB (326.46 MB with half the cache)
    copies  w in blocks by tensor descriptors
    loops   cols x1
    cost    363.8 us, bound by l2; 184.58 MB DRAM, 3.28 GB L2, 206.2 GFLOP, 2.83 G instructions; 40.96 kB shared
  memory: 218.15 MB; compulsory 134.23 MB; unfused 369.16 MB in 7 kernels (284.4 us)
  time against memory: 366.4 us holding 33.55 MB (2 kernels); 374.9 us holding 16.38 kB (2 kernels)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: 1 value stored, 366.4 us, 201.33 MB: 8.5 us faster, less than the model can tell, and holds 33.55 MB of temporary memory
  search ended: exhausted
"""


import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def _lost_digits(new, kept, small):
    """What rounding added to new = kept + small; nothing where it is not finite."""
    lost = (new - kept) - small
    return tl.where(tl.abs(lost) < float("inf"), lost, 0.0)


@triton.jit
def rmsnorm_linear_t2(
    x_ptr, t2_ptr,
    N_cols, x_stride_x_rows, x_stride_cols, t2_stride_x_rows,
    T_cols: tl.constexpr,
):
    """t2[x_rows] = mean_cols(square(x))
    moves: 33.57 MB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    x_rows_start = pid.to(tl.int64)
    r_cols = tl.arange(0, T_cols)
    sum_cols_by_lane = tl.zeros([T_cols // 8], tl.float32)
    lost_cols_by_lane = tl.zeros([T_cols // 8], tl.float32)
    for cols_start in tl.range(0, N_cols, T_cols, num_stages=2):
        x = tl.load(
            x_ptr + (x_rows_start * x_stride_x_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + r_cols * x_stride_cols,
        )
        x_f = x.to(tl.float32)
        square = x_f * x_f
        tile_sum = tl.sum(tl.reshape(square, [T_cols // 8, 8]), axis=1)
        small = tile_sum - lost_cols_by_lane
        sum_cols_new = sum_cols_by_lane + small
        lost_cols_by_lane = _lost_digits(sum_cols_new, sum_cols_by_lane, small)
        sum_cols_by_lane = sum_cols_new
    sum_cols_new_2 = sum_cols_by_lane - lost_cols_by_lane
    sum_cols = tl.sum(sum_cols_new_2, axis=0)
    mean_cols = tl.div_rn(sum_cols, tl.cast(tl.maximum(N_cols, 1), tl.float32))
    tl.store(t2_ptr + x_rows_start * t2_stride_x_rows, mean_cols)


@triton.jit
def rmsnorm_linear_out(
    t2_ptr, x_ptr, weight_ptr, w_ptr, out_ptr,
    w_block,
    N_x_rows, N_cols, N_w_rows, t2_stride_x_rows, x_stride_x_rows, x_stride_cols, weight_stride_cols, w_stride_w_rows,
    w_stride_cols, out_stride_x_rows, out_stride_w_rows,
    T_x_rows: tl.constexpr, T_cols: tl.constexpr, T_w_rows: tl.constexpr,
):
    """out[x_rows, w_rows] = sum_cols(x * rsqrt(mean_cols(square(x)) + 1e-06) * weight * w)
    order: 16 tiles along x_rows, then the next along w_rows: loads move 134.25 MB (198.37 MB with half the cache), in the order of the axes 326.46 MB (326.46 MB with half the cache)
    moves: 184.58 MB of memory for the planned sizes; bound by l2
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
    t2 = tl.load(t2_ptr + x_rows_start * t2_stride_x_rows + r_x_rows * t2_stride_x_rows)
    add = t2 + 1e-06
    rsqrt = tl.rsqrt(add)
    sum_cols = tl.zeros([T_x_rows, T_w_rows], tl.float32)
    for cols_start in tl.range(0, N_cols, T_cols):
        x = tl.load(
            x_ptr + (x_rows_start * x_stride_x_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + (r_x_rows[:, None] * x_stride_x_rows + r_cols[None, :] * x_stride_cols),
        )
        x_f = x.to(tl.float32)
        mul = x_f * rsqrt[:, None]
        weight = tl.load(weight_ptr + tl.cast(cols_start, tl.int64) * weight_stride_cols + r_cols * weight_stride_cols)
        weight_f = weight.to(tl.float32)
        mul_2 = mul * weight_f[None, :]
        mul_2_fp16 = mul_2.to(tl.float16)
        if w_block is not None:
            w = tl.permute(w_block.load([tl.cast(w_rows_start, tl.int32), tl.cast(cols_start, tl.int32)]), (1, 0))
        else:
            w = tl.load(
                w_ptr + (w_rows_start * w_stride_w_rows + tl.cast(cols_start, tl.int64) * w_stride_cols) + (r_w_rows[None, :] * w_stride_w_rows + r_cols[:, None] * w_stride_cols),
            )
        sum_cols = tl.dot(mul_2_fp16, w, sum_cols, out_dtype=tl.float32)
    tl.store(
        out_ptr + (x_rows_start * out_stride_x_rows + w_rows_start * out_stride_w_rows) + (r_x_rows[:, None] * out_stride_x_rows + r_w_rows[None, :] * out_stride_w_rows),
        sum_cols.to(tl.float16),
    )


def run(x, weight, w):
    """Return the tuple (out), computed by 2 kernels on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, rmsnorm_linear_t2)
    _check_tensor("weight", weight, torch.float16, 1)
    _check_device("weight", weight, x.device, rmsnorm_linear_t2)
    _check_tensor("w", w, torch.float16, 2)
    _check_device("w", w, x.device, rmsnorm_linear_t2)
    N_x_rows = x.shape[0]
    N_cols = x.shape[1]
    N_w_rows = w.shape[0]
    _check_shape("x", x, (N_x_rows, N_cols))
    _check_shape("weight", weight, (N_cols,))
    _check_shape("w", w, (N_w_rows, N_cols))
    _check_size("x_rows", N_x_rows == 4096, "of 4096, on which the program depends")
    _check_size("cols", N_cols == 4096, "of 4096, on which the program depends")
    _check_size("w_rows", N_w_rows == 6144, "of 6144, on which the program depends")
    x = _readable("x", x, (127, 1023))
    weight = _readable("weight", weight, (31,))
    w = _readable("w", w, (127, 31))
    out = torch.empty((N_x_rows, N_w_rows), dtype=torch.float16, device=x.device)
    _check_reach("out", out.stride(), (127, 127))
    with torch.cuda.device_of(x):
        t2 = torch.empty((N_x_rows,), dtype=torch.float32, device=x.device)
        rmsnorm_linear_t2[_grid(N_x_rows)](
            x, t2,
            N_cols, x.stride(0), x.stride(1), t2.stride(0),
            T_cols=1024,
            num_warps=1, num_stages=2, enable_fp_fusion=True,
        )
        rmsnorm_linear_out[_grid(triton.cdiv(N_x_rows, 128) * triton.cdiv(N_w_rows, 128))](
            t2, x, weight, w, out,
            _block(w, (128, 32)),
            N_x_rows, N_cols, N_w_rows, t2.stride(0), x.stride(0), x.stride(1), weight.stride(0), w.stride(0), w.stride(1),
            out.stride(0), out.stride(1),
            T_x_rows=128, T_cols=32, T_w_rows=128,
            num_warps=4, num_stages=3, enable_fp_fusion=True,
        )
    return (out,)
