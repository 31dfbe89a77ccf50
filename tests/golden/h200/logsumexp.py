"""plan for logsumexp on h200: 1 kernel, 254.9 us estimated
  logsumexp_out: x -> out
    roles   rows=grid:1 cols=stream:1024   (4096 programs, 2 warps, 2 stages)
    loops   cols x1
    cost    254.9 us, bound by dram; 1.05 GB DRAM, 1.05 GB L2, 0.0 GFLOP, 3.69 G instructions; 2.05 kB shared
    rules   seed_shift, function1, shift_of_term, factor_of_exponential, shift_through_additive, roll_by_factor
  memory: 1.05 GB; compulsory 1.05 GB; unfused 6.30 GB in 9 kernels (1503.4 us)
  this module has kernels only: run() takes tensors on a GPU
  search ended: bound
"""


import torch
import triton
import triton.language as tl


@triton.jit
def _maximum(a, b):
    """The larger of two; NaN if either is NaN, as in torch (tl.maximum alone ignores it)."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _max(x, axis: tl.constexpr):
    """The largest along an axis; NaN if any is NaN, as in torch (tl.max alone ignores it)."""
    return tl.reduce(x, axis, _maximum)


@triton.jit
def logsumexp_out(
    x_ptr, out_ptr,
    N_cols, x_stride_rows, x_stride_cols, out_stride_rows,
    T_cols: tl.constexpr,
):
    """t0[rows] = max_cols(x)
    out[rows] = where(eq(abs(t0), inf), t0, log(sum_cols(exp(x - t0))) + t0)
    rules: seed_shift, function1, shift_of_term, factor_of_exponential, shift_through_additive, roll_by_factor
    moves: 1.05 GB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    rows_start = pid.to(tl.int64)
    r_cols = tl.arange(0, T_cols)
    max_cols_by_lane = tl.full([T_cols // 8], float("-inf"), tl.float32)
    sum_lanes_cols = tl.zeros([T_cols // 8], tl.float32)
    cols_full = N_cols // T_cols * T_cols
    for cols_start in tl.range(0, cols_full, T_cols, num_stages=2):
        x = tl.load(
            x_ptr + (rows_start * x_stride_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + r_cols * x_stride_cols,
        )
        x_f = x.to(tl.float32)
        tile_max = _max(tl.reshape(x_f, [T_cols // 8, 8]), axis=1)
        max_cols_new = _maximum(max_cols_by_lane, tile_max)
        empty = max_cols_new == float("-inf")
        safe = tl.where(empty, 0.0, max_cols_new)
        diff = safe - max_cols_by_lane
        scaled = diff * -1.4426950408889634
        exp = tl.exp2(scaled)
        diff_2 = x_f - tl.reshape(tl.broadcast_to(safe[:, None], [T_cols // 8, 8]), [T_cols])
        scaled_2 = diff_2 * 1.4426950408889634
        exp_2 = tl.exp2(scaled_2)
        sum_lanes_cols_new_part = tl.sum(tl.reshape(exp_2, [T_cols // 8, 8]), axis=1)
        sum_lanes_cols = tl.fma(sum_lanes_cols, exp, sum_lanes_cols_new_part)
        max_cols_by_lane = max_cols_new
    for cols_start in tl.range(cols_full, N_cols, T_cols, num_stages=1):  # the ragged last tile
        cols_ok = cols_start + r_cols < N_cols
        x = tl.load(
            x_ptr + (rows_start * x_stride_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + r_cols * x_stride_cols,
            mask=cols_ok,
            other=0.0,
        )
        x_f = x.to(tl.float32)
        x_f_ok = tl.where(cols_ok, x_f, float("-inf"))
        tile_max = _max(tl.reshape(x_f_ok, [T_cols // 8, 8]), axis=1)
        max_cols_new = _maximum(max_cols_by_lane, tile_max)
        empty = max_cols_new == float("-inf")
        safe = tl.where(empty, 0.0, max_cols_new)
        diff = safe - max_cols_by_lane
        scaled = diff * -1.4426950408889634
        exp = tl.exp2(scaled)
        diff_2 = x_f - tl.reshape(tl.broadcast_to(safe[:, None], [T_cols // 8, 8]), [T_cols])
        scaled_2 = diff_2 * 1.4426950408889634
        exp_2 = tl.exp2(scaled_2)
        exp_2_ok = tl.where(cols_ok, exp_2, 0.0)
        sum_lanes_cols_new_part = tl.sum(tl.reshape(exp_2_ok, [T_cols // 8, 8]), axis=1)
        sum_lanes_cols = tl.fma(sum_lanes_cols, exp, sum_lanes_cols_new_part)
        max_cols_by_lane = max_cols_new
    max_cols = _max(max_cols_by_lane, axis=0)
    empty_2 = max_cols == float("-inf")
    safe_2 = tl.where(empty_2, 0.0, max_cols)
    diff_3 = safe_2 - max_cols_by_lane
    scaled_3 = diff_3 * -1.4426950408889634
    exp_3 = tl.exp2(scaled_3)
    mul_2 = sum_lanes_cols * exp_3
    sum_cols = tl.sum(mul_2, axis=0)
    abs_2 = tl.abs(max_cols)
    eq = abs_2 == float("inf")
    log = tl.log(sum_cols)
    add = log + max_cols
    where = tl.where(eq, max_cols, add)
    tl.store(out_ptr + rows_start * out_stride_rows, where.to(tl.float16))


def run(x):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, logsumexp_out)
    N_rows = x.shape[0]
    N_cols = x.shape[1]
    _check_shape("x", x, (N_rows, N_cols))
    _check_size("rows", N_rows == 4096, "of 4096, on which the program depends")
    _check_size("cols", N_cols == 128256, "of 128256, on which the program depends")
    x = _readable("x", x, (0, 1023))
    out = torch.empty((N_rows,), dtype=torch.float16, device=x.device)
    with torch.cuda.device_of(x):
        logsumexp_out[_grid(N_rows)](
            x, out,
            N_cols, x.stride(0), x.stride(1), out.stride(0),
            T_cols=1024,
            num_warps=2, num_stages=2, enable_fp_fusion=True,
        )
    return (out,)
