"""plan for cross_entropy on h200: 1 kernel, 254.9 us estimated
  cross_entropy_out: labels, logits -> out
    roles   rows=grid:1 cols=stream:1024   (4096 programs, 2 warps, 2 stages)
    loops   cols x1; of cols the tiles that labels asks for, which is taken to be all: there is no example
    cost    254.9 us, bound by dram; 1.05 GB DRAM, 1.05 GB L2, 0.0 GFLOP, 3.69 G instructions; 2.05 kB shared
    rules   sum_of_one_constant, late_term_out_of_choice, seed_shift, function1, shift_of_term, factor_of_exponential, shift_through_additive, roll_by_factor, term_out_of_single_choice
  memory: 1.05 GB; compulsory 1.05 GB; unfused 12.61 GB in 12 kernels (2988.8 us)
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
def cross_entropy_out(
    labels_ptr, logits_ptr, out_ptr,
    N_cols, labels_stride_rows, logits_stride_rows, logits_stride_cols, out_stride_rows,
    T_cols: tl.constexpr,
):
    """t0[rows] = ne(labels, -100)
    t1[rows, cols] = logits - max_cols(logits)
    out[rows] = where(t0, -sum_cols(where(eq(index(cols), where(t0, labels, 0)), t1 - log(sum_cols(exp(t1))), 0)), 0)
    rules: sum_of_one_constant, late_term_out_of_choice, seed_shift, function1, shift_of_term, factor_of_exponential, shift_through_additive, roll_by_factor, term_out_of_single_choice
    moves: 1.05 GB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    rows_start = pid.to(tl.int64)
    r_cols = tl.arange(0, T_cols)
    labels = tl.load(labels_ptr + rows_start * labels_stride_rows)
    ne = labels != -100
    edge_ne = tl.where(ne, 1074790400, 0)
    sum_lanes_cols = tl.zeros([T_cols // 8], tl.float32)
    max_cols_by_lane = tl.full([T_cols // 8], float("-inf"), tl.float32)
    cols_to = (tl.minimum(N_cols, edge_ne)).to(tl.int32)
    cols_full = N_cols // T_cols * T_cols
    for cols_start in tl.range(0, tl.minimum(cols_full, cols_to), T_cols, num_stages=2):
        logits = tl.load(
            logits_ptr + (rows_start * logits_stride_rows + tl.cast(cols_start, tl.int64) * logits_stride_cols) + r_cols * logits_stride_cols,
        )
        logits_f = logits.to(tl.float32)
        tile_max = _max(tl.reshape(logits_f, [T_cols // 8, 8]), axis=1)
        max_cols_new = _maximum(max_cols_by_lane, tile_max)
        empty = max_cols_new == float("-inf")
        safe = tl.where(empty, 0.0, max_cols_new)
        diff = safe - max_cols_by_lane
        scaled = diff * -1.4426950408889634
        exp = tl.exp2(scaled)
        diff_2 = logits_f - tl.reshape(tl.broadcast_to(safe[:, None], [T_cols // 8, 8]), [T_cols])
        scaled_2 = diff_2 * 1.4426950408889634
        exp_2 = tl.exp2(scaled_2)
        sum_lanes_cols_new_part = tl.sum(tl.reshape(exp_2, [T_cols // 8, 8]), axis=1)
        sum_lanes_cols = tl.fma(sum_lanes_cols, exp, sum_lanes_cols_new_part)
        max_cols_by_lane = max_cols_new
    for cols_start in tl.range(cols_full, cols_to, T_cols, num_stages=1):  # the ragged last tile
        cols_ok = cols_start + r_cols < N_cols
        logits = tl.load(
            logits_ptr + (rows_start * logits_stride_rows + tl.cast(cols_start, tl.int64) * logits_stride_cols) + r_cols * logits_stride_cols,
            mask=cols_ok,
            other=0.0,
        )
        logits_f = logits.to(tl.float32)
        logits_f_ok = tl.where(cols_ok, logits_f, float("-inf"))
        tile_max = _max(tl.reshape(logits_f_ok, [T_cols // 8, 8]), axis=1)
        max_cols_new = _maximum(max_cols_by_lane, tile_max)
        empty = max_cols_new == float("-inf")
        safe = tl.where(empty, 0.0, max_cols_new)
        diff = safe - max_cols_by_lane
        scaled = diff * -1.4426950408889634
        exp = tl.exp2(scaled)
        diff_2 = logits_f - tl.reshape(tl.broadcast_to(safe[:, None], [T_cols // 8, 8]), [T_cols])
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
    mul_4 = sum_lanes_cols * exp_3
    sum_cols = tl.sum(mul_4, axis=0)
    log = tl.log(sum_cols)
    neg_4 = log * -1.0
    where = tl.where(ne, labels, 0)
    ge = where >= 0
    n_cols = tl.full([], N_cols, tl.int64)
    lt = where < n_cols
    vand = ge & lt
    where_2 = tl.where(vand, 1.0, 0.0)
    mul_2 = neg_4 * where_2
    eq = where_2 == 0.0
    where_3 = tl.where(eq, 0.0, mul_2)
    neg_5 = max_cols * -1.0
    mul_3 = neg_5 * where_2
    where_4 = tl.where(eq, 0.0, mul_3)
    logits_2 = tl.load(
        logits_ptr + rows_start * logits_stride_rows + where.to(tl.int64) * logits_stride_cols,
        mask=(where >= 0) & (where < N_cols),
        other=0.0,
    )
    logits_2_f = logits_2.to(tl.float32)
    add = where_4 + logits_2_f
    add_2 = where_3 + add
    neg_6 = add_2 * -1.0
    where_5 = tl.where(ne, neg_6, 0.0)
    tl.store(out_ptr + rows_start * out_stride_rows, where_5.to(tl.float16))


def run(logits, labels):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("logits", logits, torch.float16, 2)
    _check_device("logits", logits, logits.device, cross_entropy_out)
    _check_tensor("labels", labels, torch.int64, 1)
    _check_device("labels", labels, logits.device, cross_entropy_out)
    N_rows = logits.shape[0]
    N_cols = logits.shape[1]
    _check_shape("logits", logits, (N_rows, N_cols))
    _check_shape("labels", labels, (N_rows,))
    _check_size("rows", N_rows == 4096, "of 4096, on which the program depends")
    _check_size("cols", N_cols == 128256, "of 128256, on which the program depends")
    logits = _readable("logits", logits, (0, 1023))
    labels = _readable("labels", labels, (0,))
    out = torch.empty((N_rows,), dtype=torch.float16, device=logits.device)
    with torch.cuda.device_of(logits):
        cross_entropy_out[_grid(N_rows)](
            labels, logits, out,
            N_cols, labels.stride(0), logits.stride(0), logits.stride(1), out.stride(0),
            T_cols=1024,
            num_warps=2, num_stages=2, enable_fp_fusion=True,
        )
    return (out,)
