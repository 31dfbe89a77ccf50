"""plan for softmax_entropy on a100: 1 kernel, 622.8 us estimated
  softmax_entropy_out: x -> out
    roles   rows=grid:1 cols=stream:256   (4096 programs, 1 warps, 2 stages)
    loops   cols x1
    cost    622.8 us, bound by dram; 1.05 GB DRAM, 1.05 GB L2, 0.0 GFLOP, 5.37 G instructions; 512 B shared
    rules   seed_shift, function1, shift_of_term, factor_of_exponential, shift_through_additive, roll_by_factor, late_term_out_of_sum, form_times_factor, own_accumulator, product_of_terms, other_accumulator, sum_of_forms, roll_by_form, factor_out
  memory: 1.05 GB; compulsory 1.05 GB; unfused 14.71 GB in 9 kernels (8534.1 us)
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
def softmax_entropy_out(
    x_ptr, out_ptr,
    N_cols, x_stride_rows, x_stride_cols, out_stride_rows,
    T_cols: tl.constexpr,
):
    """t0[rows, cols] = x - max_cols(x)
    t1[rows, cols] = exp(t0)
    t2[rows] = sum_cols(t1)
    out[rows] = -sum_cols(t1 / t2 * (t0 - log(t2)))
    rules: seed_shift, function1, shift_of_term, factor_of_exponential, shift_through_additive, roll_by_factor, late_term_out_of_sum, form_times_factor, own_accumulator, product_of_terms, other_accumulator, sum_of_forms, roll_by_form, factor_out
    moves: 1.05 GB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    rows_start = pid.to(tl.int64)
    r_cols = tl.arange(0, T_cols)
    sum_lanes_cols = tl.zeros([T_cols // 8], tl.float32)
    max_cols_by_lane = tl.full([T_cols // 8], float("-inf"), tl.float32)
    sum_cols_2_by_lane = tl.zeros([T_cols // 8], tl.float32)
    sum_cols_3_by_lane = tl.zeros([T_cols // 8], tl.float32)
    for cols_start in tl.range(0, N_cols, T_cols, num_stages=2):
        x = tl.load(
            x_ptr + (rows_start * x_stride_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + r_cols * x_stride_cols,
        )
        x_f = x.to(tl.float32)
        tile_max = _max(tl.reshape(x_f, [T_cols // 8, 8]), axis=1)
        max_cols_new = _maximum(max_cols_by_lane, tile_max)
        empty = max_cols_new == float("-inf")
        safe = tl.where(empty, 0.0, max_cols_new)
        diff = safe - max_cols_by_lane
        neg_2 = diff * -1.0
        scaled = neg_2 * 1.4426950408889634
        exp = tl.exp2(scaled)
        diff_2 = x_f - tl.reshape(tl.broadcast_to(safe[:, None], [T_cols // 8, 8]), [T_cols])
        scaled_2 = diff_2 * 1.4426950408889634
        exp_2 = tl.exp2(scaled_2)
        sum_lanes_cols_new_part = tl.sum(tl.reshape(exp_2, [T_cols // 8, 8]), axis=1)
        sum_lanes_cols = tl.fma(sum_lanes_cols, exp, sum_lanes_cols_new_part)
        mul_4 = neg_2 * exp
        tile_sum = tl.sum(tl.reshape(exp_2, [T_cols // 8, 8]), axis=1)
        sum_cols_3_new = tl.fma(sum_cols_3_by_lane, exp, tile_sum)
        mul_6 = mul_4 * sum_cols_3_by_lane
        add = tl.fma(exp, sum_cols_2_by_lane, mul_6)
        empty_2 = max_cols_by_lane == float("-inf")
        empty_3 = sum_cols_3_by_lane == 0.0
        empty_4 = empty_2 | empty_3
        where = tl.where(empty_4, sum_cols_2_by_lane, add)
        mul_7 = diff_2 * exp_2
        tile_sum_2 = tl.sum(tl.reshape(mul_7, [T_cols // 8, 8]), axis=1)
        sum_cols_2_by_lane = where + tile_sum_2
        max_cols_by_lane = max_cols_new
        sum_cols_3_by_lane = sum_cols_3_new
    max_cols = _max(max_cols_by_lane, axis=0)
    empty_5 = max_cols == float("-inf")
    safe_2 = tl.where(empty_5, 0.0, max_cols)
    diff_3 = safe_2 - max_cols_by_lane
    scaled_3 = diff_3 * -1.4426950408889634
    exp_3 = tl.exp2(scaled_3)
    mul_8 = sum_lanes_cols * exp_3
    sum_cols = tl.sum(mul_8, axis=0)
    empty_2_2 = max_cols_by_lane == float("-inf")
    empty_3_2 = sum_cols_3_by_lane == 0.0
    empty_4_2 = empty_2_2 | empty_3_2
    empty_6 = max_cols == float("-inf")
    safe_3 = tl.where(empty_6, 0.0, max_cols)
    diff_4 = safe_3 - max_cols_by_lane
    neg_2_3 = diff_4 * -1.0
    scaled_4 = neg_2_3 * 1.4426950408889634
    exp_4 = tl.exp2(scaled_4)
    mul_4_2 = neg_2_3 * exp_4
    mul_6_2 = mul_4_2 * sum_cols_3_by_lane
    add_3 = tl.fma(exp_4, sum_cols_2_by_lane, mul_6_2)
    where_2 = tl.where(empty_4_2, sum_cols_2_by_lane, add_3)
    sum_cols_2 = tl.sum(where_2, axis=0)
    log = tl.log(sum_cols)
    neg_4 = log * -1.0
    add_2 = tl.fma(neg_4, sum_cols, sum_cols_2)
    quotient = add_2 / sum_cols
    neg_5 = quotient * -1.0
    tl.store(out_ptr + rows_start * out_stride_rows, neg_5.to(tl.float16))


def run(x):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, softmax_entropy_out)
    N_rows = x.shape[0]
    N_cols = x.shape[1]
    _check_shape("x", x, (N_rows, N_cols))
    _check_size("rows", N_rows == 4096, "of 4096, on which the program depends")
    _check_size("cols", N_cols == 128256, "of 128256, on which the program depends")
    x = _readable("x", x, (0, 255))
    out = torch.empty((N_rows,), dtype=torch.float16, device=x.device)
    with torch.cuda.device_of(x):
        softmax_entropy_out[_grid(N_rows)](
            x, out,
            N_cols, x.stride(0), x.stride(1), out.stride(0),
            T_cols=256,
            num_warps=1, num_stages=2, enable_fp_fusion=True,
        )
    return (out,)
