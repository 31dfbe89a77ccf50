"""plan for linear_cross_entropy_few_rows on a100: 2 kernels, 28011.0 us estimated
  linear_cross_entropy_few_rows_part8_part9_part11: labels, w, x -> part8, part9, part11
    roles   x_rows=grid:64 cols=stream:128 w_rows_i3=stream:128 w_rows_o3=grid:1   (4096 programs, 8 warps, 3 stages)
    order   16 tiles along x_rows, then the next along w_rows_o3: loads move 9.29 GB (9.29 GB with half the cache), in the order of the axes 40.38 GB (40.38 GB with half the cache)
    loops   w_rows_i3 x1, cols x1
    cost    28005.6 us, bound by shared; 4.52 GB DRAM, 101.61 GB L2, 4398.0 GFLOP, 5.98 G instructions; 98.30 kB shared
    rules   view_through_op, view_through_reduction, split_reduction, seed_shift, function2, choice_by_reference, shift_through_additive, shift_of_term, factor_of_exponential, roll_by_factor
  linear_cross_entropy_few_rows_out: labels, part11, part8, part9 -> out
    roles   x_rows=grid:16 w_rows_o3=resident:64   (256 programs, 4 warps, 1 stages)
    loops   none (whole rows on chip)
    cost    5.5 us, bound by launch; 3.19 MB DRAM, 3.19 MB L2, 0.0 GFLOP, 0.00 G instructions; 0 B shared
    rules   sum_of_one_constant, late_term_out_of_choice, merge_selection_parts, local_selection, split_reduction, shift_through_additive, factor_of_exponential, term_out_of_single_choice
  memory: 4.53 GB; compulsory 1.08 GB; unfused 14.74 GB in 13 kernels (21127.0 us)
  split: w_rows in 64 parts over the grid, chosen among 16, 4, 64
  time against memory: 26942.3 us holding 4.20 GB (13 kernels); 28011.0 us holding 3.15 MB (2 kernels)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: op by op, 26942.3 us, 18.95 GB: 1068.8 us faster but holds 4.20 GB of temporary memory, and 268.44 MB are the limit
  search ended: exhausted
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
def linear_cross_entropy_few_rows_part8_part9_part11(
    labels_ptr, x_ptr, w_ptr, part8_ptr, part9_ptr, part11_ptr,
    N_x_rows, N_cols, N_w_rows_i3, N_w_rows_o3, labels_stride_x_rows, x_stride_x_rows, x_stride_cols, w_stride_0,
    w_stride_cols, part8_stride_x_rows, part8_stride_w_rows_o3, part9_stride_x_rows, part9_stride_w_rows_o3,
    part11_stride_x_rows, part11_stride_w_rows_o3,
    T_x_rows: tl.constexpr, T_cols: tl.constexpr, T_w_rows_i3: tl.constexpr,
):
    """part8: a partial result
    part9: a partial result
    part11: a partial result
    order: 16 tiles along x_rows, then the next along w_rows_o3: loads move 9.29 GB (9.29 GB with half the cache), in the order of the axes 40.38 GB (40.38 GB with half the cache)
    rules: view_through_op, view_through_reduction, split_reduction, seed_shift, function2, choice_by_reference, shift_through_additive, shift_of_term, factor_of_exponential, roll_by_factor
    moves: 4.52 GB of memory for the planned sizes; bound by shared
    """
    pid = tl.program_id(0)
    # 16 tiles along x_rows, then the next along w_rows_o3: what they load stays in the cache
    first = pid // (16 * N_w_rows_o3) * 16
    height = tl.minimum(tl.cdiv(N_x_rows, T_x_rows) - first, 16)
    w_rows_o3_start = (pid % (16 * N_w_rows_o3) // height).to(tl.int64)
    x_rows_start = (first + pid % (16 * N_w_rows_o3) % height).to(tl.int64) * T_x_rows
    r_x_rows = tl.arange(0, T_x_rows)
    r_cols = tl.arange(0, T_cols)
    r_w_rows_i3 = tl.arange(0, T_w_rows_i3)
    labels = tl.load(labels_ptr + x_rows_start * labels_stride_x_rows + r_x_rows * labels_stride_x_rows)
    ne = labels != -100
    where_4 = tl.where(ne, labels, 0)
    max_w_rows_i3 = tl.full([T_x_rows], float("-inf"), tl.float32)
    sum_w_rows_i3 = tl.zeros([T_x_rows], tl.float32)
    sum_w_rows_i3_2 = tl.zeros([T_x_rows], tl.float32)
    for w_rows_i3_start in tl.range(0, N_w_rows_i3, T_w_rows_i3):
        w_rows_i3_ok = w_rows_i3_start + r_w_rows_i3 < N_w_rows_i3
        sum_cols = tl.zeros([T_x_rows, T_w_rows_i3], tl.float32)
        for cols_start in tl.range(0, N_cols, T_cols):
            x = tl.load(
                x_ptr + (x_rows_start * x_stride_x_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + (r_x_rows[:, None] * x_stride_x_rows + r_cols[None, :] * x_stride_cols),
            )
            w = tl.load(
                w_ptr + ((tl.cast(w_rows_i3_start, tl.int64) + w_rows_o3_start * 2004) * w_stride_0 + tl.cast(cols_start, tl.int64) * w_stride_cols) + (r_w_rows_i3[None, :] * w_stride_0 + r_cols[:, None] * w_stride_cols),
                mask=w_rows_i3_ok[None, :],
                other=0.0,
            )
            sum_cols = tl.dot(x, w, sum_cols, out_dtype=tl.float32)
        sum_cols_ok = tl.where(w_rows_i3_ok[None, :], sum_cols, float("-inf"))
        tile_max = _max(sum_cols_ok, axis=1)
        max_w_rows_i3_new = _maximum(max_w_rows_i3, tile_max)
        empty = max_w_rows_i3_new == float("-inf")
        safe = tl.where(empty, 0.0, max_w_rows_i3_new)
        eq = safe == float("-inf")
        where = tl.where(eq, 0.0, safe)
        eq_2 = max_w_rows_i3 == float("-inf")
        where_2 = tl.where(eq_2, 0.0, max_w_rows_i3)
        diff = where - where_2
        scaled = diff * -1.4426950408889634
        exp = tl.exp2(scaled)
        mul = sum_w_rows_i3 * exp
        empty_2 = max_w_rows_i3 == float("-inf")
        where_3 = tl.where(empty_2, sum_w_rows_i3, mul)
        diff_2 = sum_cols - where[:, None]
        scaled_2 = diff_2 * 1.4426950408889634
        exp_2 = tl.exp2(scaled_2)
        exp_2_ok = tl.where(w_rows_i3_ok[None, :], exp_2, 0.0)
        tile_sum = tl.sum(exp_2_ok, axis=1)
        sum_w_rows_i3 = where_3 + tile_sum
        at = tl.cast(w_rows_i3_start + w_rows_o3_start * 2004, tl.int32) + r_w_rows_i3
        eq_3 = at[None, :] == where_4[:, None]
        where_5 = tl.where(eq_3, sum_cols, 0.0)
        where_5_ok = tl.where(w_rows_i3_ok[None, :], where_5, 0.0)
        tile_sum_2 = tl.sum(where_5_ok, axis=1)
        sum_w_rows_i3_2 = sum_w_rows_i3_2 + tile_sum_2
        max_w_rows_i3 = max_w_rows_i3_new
    tl.store(
        part8_ptr + (x_rows_start * part8_stride_x_rows + w_rows_o3_start * part8_stride_w_rows_o3) + r_x_rows * part8_stride_x_rows,
        max_w_rows_i3,
    )
    tl.store(
        part9_ptr + (x_rows_start * part9_stride_x_rows + w_rows_o3_start * part9_stride_w_rows_o3) + r_x_rows * part9_stride_x_rows,
        sum_w_rows_i3,
    )
    tl.store(
        part11_ptr + (x_rows_start * part11_stride_x_rows + w_rows_o3_start * part11_stride_w_rows_o3) + r_x_rows * part11_stride_x_rows,
        sum_w_rows_i3_2,
    )


@triton.jit
def linear_cross_entropy_few_rows_out(
    labels_ptr, part9_ptr, part8_ptr, part11_ptr, out_ptr,
    N_w_rows_o3, N_w_rows, labels_stride_x_rows, part9_stride_x_rows, part9_stride_w_rows_o3, part8_stride_x_rows,
    part8_stride_w_rows_o3, part11_stride_x_rows, part11_stride_w_rows_o3, out_stride_x_rows,
    T_x_rows: tl.constexpr, T_w_rows_o3: tl.constexpr,
):
    """t0[x_rows] = ne(labels, -100)
    t1[x_rows, w_rows] = sum_cols(x * w)
    t2[x_rows, w_rows] = t1 - max_w_rows(t1)
    out[x_rows] = where(t0, -sum_w_rows(where(eq(index(w_rows), where(t0, labels, 0)), t2 - log(sum_w_rows(exp(t2))), 0)), 0)
    rules: sum_of_one_constant, late_term_out_of_choice, merge_selection_parts, local_selection, split_reduction, shift_through_additive, factor_of_exponential, term_out_of_single_choice
    moves: 3.19 MB of memory for the planned sizes; bound by launch
    """
    pid = tl.program_id(0)
    x_rows_start = pid.to(tl.int64) * T_x_rows
    r_x_rows = tl.arange(0, T_x_rows)
    r_w_rows_o3 = tl.arange(0, T_w_rows_o3)
    w_rows_o3_ok = r_w_rows_o3 < N_w_rows_o3
    labels = tl.load(labels_ptr + x_rows_start * labels_stride_x_rows + r_x_rows * labels_stride_x_rows)
    ne = labels != -100
    where = tl.where(ne, labels, 0)
    ge = where >= 0
    n_w_rows = tl.full([], N_w_rows, tl.int64)
    lt = where < n_w_rows
    vand = ge & lt
    where_2 = tl.where(vand, 1.0, 0.0)
    eq = where_2 == 0.0
    part9 = tl.load(
        part9_ptr + x_rows_start * part9_stride_x_rows + (r_x_rows[:, None] * part9_stride_x_rows + r_w_rows_o3[None, :] * part9_stride_w_rows_o3),
        mask=w_rows_o3_ok[None, :],
        other=0.0,
    )
    eq_2 = part9 == 0.0
    part8 = tl.load(
        part8_ptr + x_rows_start * part8_stride_x_rows + (r_x_rows[:, None] * part8_stride_x_rows + r_w_rows_o3[None, :] * part8_stride_w_rows_o3),
        mask=w_rows_o3_ok[None, :],
        other=0.0,
    )
    eq_3 = part8 == float("-inf")
    part8_ok = tl.where(w_rows_o3_ok[None, :], part8, float("-inf"))
    max_w_rows_o3 = _max(part8_ok, axis=1)
    where_3 = tl.where(eq_3, 0.0, part8)
    diff = max_w_rows_o3[:, None] - where_3
    scaled = diff * -1.4426950408889634
    exp = tl.exp2(scaled)
    where_4 = tl.where(eq_3, 1.0, exp)
    mul = where_4 * part9
    where_5 = tl.where(eq_2, 0.0, mul)
    where_5_ok = tl.where(w_rows_o3_ok[None, :], where_5, 0.0)
    sum_w_rows_o3 = tl.sum(where_5_ok, axis=1)
    log = tl.log(sum_w_rows_o3)
    neg_3 = log * -1.0
    mul_2 = neg_3 * where_2
    where_6 = tl.where(eq, 0.0, mul_2)
    neg_4 = max_w_rows_o3 * -1.0
    mul_3 = neg_4 * where_2
    where_7 = tl.where(eq, 0.0, mul_3)
    part11 = tl.load(
        part11_ptr + x_rows_start * part11_stride_x_rows + (r_x_rows[:, None] * part11_stride_x_rows + r_w_rows_o3[None, :] * part11_stride_w_rows_o3),
        mask=w_rows_o3_ok[None, :],
        other=0.0,
    )
    sum_w_rows_o3_2 = tl.sum(part11, axis=1)
    add = where_7 + sum_w_rows_o3_2
    add_2 = where_6 + add
    neg_5 = add_2 * -1.0
    where_8 = tl.where(ne, neg_5, 0.0)
    tl.store(out_ptr + x_rows_start * out_stride_x_rows + r_x_rows * out_stride_x_rows, where_8.to(tl.float16))


def run(x, w, labels):
    """Return the tuple (out), computed by 2 kernels on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, linear_cross_entropy_few_rows_part8_part9_part11)
    _check_tensor("w", w, torch.float16, 2)
    _check_device("w", w, x.device, linear_cross_entropy_few_rows_part8_part9_part11)
    _check_tensor("labels", labels, torch.int64, 1)
    _check_device("labels", labels, x.device, linear_cross_entropy_few_rows_part8_part9_part11)
    N_x_rows = x.shape[0]
    N_cols = x.shape[1]
    N_w_rows = w.shape[0]
    N_w_rows_o3 = triton.cdiv(N_w_rows, 2004)
    _check_shape("x", x, (N_x_rows, N_cols))
    _check_shape("w", w, (N_w_rows, N_cols))
    _check_shape("labels", labels, (N_x_rows,))
    _check_size("x_rows", N_x_rows == 4096, "of 4096, on which the program depends")
    _check_size("cols", N_cols == 4096, "of 4096, on which the program depends")
    _check_size("w_rows", N_w_rows == 128256, "of 128256, on which the program depends")
    x = _readable("x", x, (63, 127))
    w = _readable("w", w, (127, 127))
    labels = _readable("labels", labels, (63,))
    out = torch.empty((N_x_rows,), dtype=torch.float16, device=x.device)
    with torch.cuda.device_of(x):
        part8 = torch.empty((N_x_rows, N_w_rows_o3), dtype=torch.float32, device=x.device)
        _check_reach("part8", part8.stride(), (63, 63))
        part9 = torch.empty((N_x_rows, N_w_rows_o3), dtype=torch.float32, device=x.device)
        _check_reach("part9", part9.stride(), (63, 63))
        part11 = torch.empty((N_x_rows, N_w_rows_o3), dtype=torch.float32, device=x.device)
        _check_reach("part11", part11.stride(), (63, 63))
        linear_cross_entropy_few_rows_part8_part9_part11[_grid(triton.cdiv(N_x_rows, 64) * N_w_rows_o3)](
            labels, x, w, part8, part9, part11,
            N_x_rows, N_cols, 2004, N_w_rows_o3, labels.stride(0), x.stride(0), x.stride(1), w.stride(0), w.stride(1),
            part8.stride(0), part8.stride(1), part9.stride(0), part9.stride(1), part11.stride(0), part11.stride(1),
            T_x_rows=64, T_cols=128, T_w_rows_i3=128,
            num_warps=8, num_stages=3, enable_fp_fusion=True,
        )
        linear_cross_entropy_few_rows_out[_grid(triton.cdiv(N_x_rows, 16))](
            labels, part9, part8, part11, out,
            N_w_rows_o3, N_w_rows, labels.stride(0), part9.stride(0), part9.stride(1), part8.stride(0), part8.stride(1),
            part11.stride(0), part11.stride(1), out.stride(0),
            T_x_rows=16, T_w_rows_o3=64,
            num_warps=4, num_stages=1, enable_fp_fusion=True,
        )
    return (out,)
