"""plan for row_softmax on a100: 1 kernel, 1494.8 us estimated
  row_softmax_out: x -> out
    roles   rows=grid:1 cols=stream:16384   (65 programs for 4096 tiles, 16 warps, 1 stages)
    loops   cols x2
    cost    1494.8 us, bound by issue; 2.10 GB DRAM, 3.15 GB L2, 0.0 GFLOP, 6.61 G instructions; 0 B shared
    rules   seed_shift, function1, shift_of_term, factor_of_exponential, shift_through_additive, roll_by_factor
  memory: 2.10 GB; compulsory 2.10 GB; unfused 8.41 GB in 5 kernels (4876.1 us)
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
def row_softmax_out(
    x_ptr, out_ptr,
    N_rows, N_cols, x_stride_rows, x_stride_cols, out_stride_rows, out_stride_cols,
    T_cols: tl.constexpr,
):
    """t0[rows, cols] = exp(x - max_cols(x))
    out[rows, cols] = t0 / sum_cols(t0)
    rules: seed_shift, function1, shift_of_term, factor_of_exponential, shift_through_additive, roll_by_factor
    moves: 2.10 GB of memory for the planned sizes; bound by issue
    """
    r_cols = tl.arange(0, T_cols)
    tasks = N_rows
    for task in tl.range(tl.program_id(0), tasks, tl.num_programs(0), num_stages=1):
        pid = task
        rows_start = pid.to(tl.int64)
        max_cols_by_lane = tl.full([T_cols // 8], float("-inf"), tl.float32)
        sum_lanes_cols = tl.zeros([T_cols // 8], tl.float32)
        cols_b_full = N_cols // T_cols * T_cols
        for cols_b_start in tl.range(0, cols_b_full, T_cols):
            x_2 = tl.load(
                x_ptr + (rows_start * x_stride_rows + tl.cast(cols_b_start, tl.int64) * x_stride_cols) + r_cols * x_stride_cols,
                eviction_policy="evict_last",
            )
            x_2_f = x_2.to(tl.float32)
            tile_max = _max(tl.reshape(x_2_f, [T_cols // 8, 8]), axis=1)
            max_cols_new = _maximum(max_cols_by_lane, tile_max)
            empty = max_cols_new == float("-inf")
            safe = tl.where(empty, 0.0, max_cols_new)
            diff_2 = safe - max_cols_by_lane
            scaled = diff_2 * -1.4426950408889634
            exp_2 = tl.exp2(scaled)
            diff_3 = x_2_f - tl.reshape(tl.broadcast_to(safe[:, None], [T_cols // 8, 8]), [T_cols])
            scaled_2 = diff_3 * 1.4426950408889634
            exp_3 = tl.exp2(scaled_2)
            sum_lanes_cols_new_part = tl.sum(tl.reshape(exp_3, [T_cols // 8, 8]), axis=1)
            sum_lanes_cols = tl.fma(sum_lanes_cols, exp_2, sum_lanes_cols_new_part)
            max_cols_by_lane = max_cols_new
        for cols_b_start in tl.range(cols_b_full, N_cols, T_cols, num_stages=1):  # the ragged last tile
            cols_b_ok = cols_b_start + r_cols < N_cols
            x_2 = tl.load(
                x_ptr + (rows_start * x_stride_rows + tl.cast(cols_b_start, tl.int64) * x_stride_cols) + r_cols * x_stride_cols,
                mask=cols_b_ok,
                other=0.0,
                eviction_policy="evict_last",
            )
            x_2_f = x_2.to(tl.float32)
            x_2_f_ok = tl.where(cols_b_ok, x_2_f, float("-inf"))
            tile_max = _max(tl.reshape(x_2_f_ok, [T_cols // 8, 8]), axis=1)
            max_cols_new = _maximum(max_cols_by_lane, tile_max)
            empty = max_cols_new == float("-inf")
            safe = tl.where(empty, 0.0, max_cols_new)
            diff_2 = safe - max_cols_by_lane
            scaled = diff_2 * -1.4426950408889634
            exp_2 = tl.exp2(scaled)
            diff_3 = x_2_f - tl.reshape(tl.broadcast_to(safe[:, None], [T_cols // 8, 8]), [T_cols])
            scaled_2 = diff_3 * 1.4426950408889634
            exp_3 = tl.exp2(scaled_2)
            exp_3_ok = tl.where(cols_b_ok, exp_3, 0.0)
            sum_lanes_cols_new_part = tl.sum(tl.reshape(exp_3_ok, [T_cols // 8, 8]), axis=1)
            sum_lanes_cols = tl.fma(sum_lanes_cols, exp_2, sum_lanes_cols_new_part)
            max_cols_by_lane = max_cols_new
        max_cols = _max(max_cols_by_lane, axis=0)
        empty_2 = max_cols == float("-inf")
        safe_2 = tl.where(empty_2, 0.0, max_cols)
        diff_2_2 = safe_2 - max_cols_by_lane
        scaled_3 = diff_2_2 * -1.4426950408889634
        exp_2_2 = tl.exp2(scaled_3)
        mul_3 = sum_lanes_cols * exp_2_2
        sum_cols = tl.sum(mul_3, axis=0)
        recip = 1.0 / sum_cols
        cols_full = N_cols // T_cols * T_cols
        for cols_start in tl.range(0, cols_full, T_cols):
            x = tl.load(
                x_ptr + (rows_start * x_stride_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + r_cols * x_stride_cols,
                eviction_policy="evict_first",
            )
            x_f = x.to(tl.float32)
            diff = x_f - max_cols
            scaled_4 = diff * 1.4426950408889634
            exp = tl.exp2(scaled_4)
            mul_2 = exp * recip
            tl.store(
                out_ptr + (rows_start * out_stride_rows + tl.cast(cols_start, tl.int64) * out_stride_cols) + r_cols * out_stride_cols,
                mul_2.to(tl.float16),
                eviction_policy="evict_first",
            )
        for cols_start in tl.range(cols_full, N_cols, T_cols, num_stages=1):  # the ragged last tile
            cols_ok = cols_start + r_cols < N_cols
            x = tl.load(
                x_ptr + (rows_start * x_stride_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + r_cols * x_stride_cols,
                mask=cols_ok,
                other=0.0,
                eviction_policy="evict_first",
            )
            x_f = x.to(tl.float32)
            diff = x_f - max_cols
            scaled_4 = diff * 1.4426950408889634
            exp = tl.exp2(scaled_4)
            mul_2 = exp * recip
            tl.store(
                out_ptr + (rows_start * out_stride_rows + tl.cast(cols_start, tl.int64) * out_stride_cols) + r_cols * out_stride_cols,
                mul_2.to(tl.float16),
                mask=cols_ok,
                eviction_policy="evict_first",
            )


def run(x):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, row_softmax_out)
    N_rows = x.shape[0]
    N_cols = x.shape[1]
    _check_shape("x", x, (N_rows, N_cols))
    _check_size("rows", N_rows == 4096, "of 4096, on which the program depends")
    _check_size("cols", N_cols == 128256, "of 128256, on which the program depends")
    x = _readable("x", x, (0, 16383))
    out = torch.empty((N_rows, N_cols), dtype=torch.float16, device=x.device)
    with torch.cuda.device_of(x):
        row_softmax_out[(min(N_rows, 65),)](
            x, out,
            N_rows, N_cols, x.stride(0), x.stride(1), out.stride(0), out.stride(1),
            T_cols=16384,
            num_warps=16, num_stages=1, maxnreg=128, enable_fp_fusion=True,
        )
    return (out,)
