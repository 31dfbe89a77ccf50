"""plan for linear_cross_entropy on mi300x: 2 kernels, 29484.1 us estimated
  linear_cross_entropy_part4_part5_part7: labels, w, x -> part4, part5, part7
    roles   x_rows=grid:64 cols=stream:32 w_rows_i2=stream:128 w_rows_o2=grid:1   (2048 programs, 8 warps, 3 stages)
    loops   w_rows_i2 x1, cols x1
    cost    29477.7 us, bound by shared; 3.68 GB DRAM, 404.27 GB L2, 17317.3 GFLOP, 23.55 G instructions; 24.58 kB shared
    rules   view_through_op, view_through_reduction, split_reduction, seed_shift, function2, choice_by_reference, shift_through_additive, shift_of_term, factor_of_exponential, roll_by_factor
  linear_cross_entropy_out: labels, part4, part5, part7 -> out
    roles   x_rows=grid:16 w_rows_o2=resident:16   (1024 programs, 1 warps, 1 stages)
    loops   none (whole rows on chip)
    cost    6.4 us, bound by launch; 1.74 MB DRAM, 1.74 MB L2, 0.0 GFLOP, 0.00 G instructions; 0 B shared
    rules   sum_of_one_constant, late_term_out_of_choice, merge_selection_parts, local_selection, split_reduction, shift_through_additive, factor_of_exponential, term_out_of_single_choice
  memory: 3.68 GB; compulsory 1.19 GB; unfused 55.82 GB in 13 kernels (24452.1 us)
  split: w_rows in 8 parts over the grid, chosen among 2, 8
  this module has kernels only: run() takes tensors on a GPU
  runner-up: one kernel, 35350.2 us, 1.19 GB: 5866.1 us slower: 1 kernel, linear_cross_entropy_out is bound by shared
  search ended: exhausted
"""


import math

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
def linear_cross_entropy_part4_part5_part7(
    labels_ptr, x_ptr, w_ptr, part4_ptr, part5_ptr, part7_ptr,
    N_cols, N_w_rows_i2, N_w_rows_o2, labels_stride_x_rows, x_stride_x_rows, x_stride_cols, w_stride_0, w_stride_cols,
    part4_stride_x_rows, part4_stride_w_rows_o2, part5_stride_x_rows, part5_stride_w_rows_o2, part7_stride_x_rows,
    part7_stride_w_rows_o2,
    T_x_rows: tl.constexpr, T_cols: tl.constexpr, T_w_rows_i2: tl.constexpr, S_part4: tl.constexpr, S_part5: tl.constexpr,
    S_part7: tl.constexpr,
):
    """part4: a partial result
    part5: a partial result
    part7: a partial result
    rules: view_through_op, view_through_reduction, split_reduction, seed_shift, function2, choice_by_reference, shift_through_additive, shift_of_term, factor_of_exponential, roll_by_factor
    moves: 3.68 GB of memory for the planned sizes; bound by shared
    """
    # for the compiler, which does not know that these are multiples of 2**S
    part4_stride_x_rows = part4_stride_x_rows >> S_part4 << S_part4
    part5_stride_x_rows = part5_stride_x_rows >> S_part5 << S_part5
    part7_stride_x_rows = part7_stride_x_rows >> S_part7 << S_part7
    pid = tl.program_id(0)
    w_rows_o2_start = (pid % N_w_rows_o2).to(tl.int64)
    pid = pid // N_w_rows_o2
    x_rows_start = pid.to(tl.int64) * T_x_rows
    r_x_rows = tl.arange(0, T_x_rows)
    r_cols = tl.arange(0, T_cols)
    r_w_rows_i2 = tl.arange(0, T_w_rows_i2)
    labels = tl.load(labels_ptr + x_rows_start * labels_stride_x_rows + r_x_rows * labels_stride_x_rows)
    ne = labels != -100
    where_4 = tl.where(ne, labels, 0)
    max_w_rows_i2 = tl.full([T_x_rows], float("-inf"), tl.float32)
    sum_w_rows_i2 = tl.zeros([T_x_rows], tl.float32)
    sum_w_rows_i2_2 = tl.zeros([T_x_rows], tl.float32)
    for w_rows_i2_start in tl.range(0, N_w_rows_i2, T_w_rows_i2):
        w_rows_i2_ok = w_rows_i2_start + r_w_rows_i2 < N_w_rows_i2
        sum_cols = tl.zeros([T_x_rows, T_w_rows_i2], tl.float32)
        for cols_start in tl.range(0, N_cols, T_cols):
            x = tl.load(
                x_ptr + (x_rows_start * x_stride_x_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + (r_x_rows[:, None] * x_stride_x_rows + r_cols[None, :] * x_stride_cols),
            )
            w = tl.load(
                w_ptr + ((tl.cast(w_rows_i2_start, tl.int64) + w_rows_o2_start * 16032) * w_stride_0 + tl.cast(cols_start, tl.int64) * w_stride_cols) + (r_w_rows_i2[None, :] * w_stride_0 + r_cols[:, None] * w_stride_cols),
                mask=w_rows_i2_ok[None, :],
                other=0.0,
            )
            sum_cols = tl.dot(x, w, sum_cols, out_dtype=tl.float32)
        sum_cols_ok = tl.where(w_rows_i2_ok[None, :], sum_cols, float("-inf"))
        tile_max = _max(sum_cols_ok, axis=1)
        max_w_rows_i2_new = _maximum(max_w_rows_i2, tile_max)
        empty = max_w_rows_i2_new == float("-inf")
        safe = tl.where(empty, 0.0, max_w_rows_i2_new)
        eq = safe == float("-inf")
        where = tl.where(eq, 0.0, safe)
        eq_2 = max_w_rows_i2 == float("-inf")
        where_2 = tl.where(eq_2, 0.0, max_w_rows_i2)
        diff = where - where_2
        scaled = diff * -1.4426950408889634
        exp = tl.exp2(scaled)
        mul = sum_w_rows_i2 * exp
        empty_2 = max_w_rows_i2 == float("-inf")
        where_3 = tl.where(empty_2, sum_w_rows_i2, mul)
        diff_2 = sum_cols - where[:, None]
        scaled_2 = diff_2 * 1.4426950408889634
        exp_2 = tl.exp2(scaled_2)
        exp_2_ok = tl.where(w_rows_i2_ok[None, :], exp_2, 0.0)
        tile_sum = tl.sum(exp_2_ok, axis=1)
        sum_w_rows_i2 = where_3 + tile_sum
        at = tl.cast(w_rows_i2_start + w_rows_o2_start * 16032, tl.int32) + r_w_rows_i2
        eq_3 = at[None, :] == where_4[:, None]
        where_5 = tl.where(eq_3, sum_cols, 0.0)
        where_5_ok = tl.where(w_rows_i2_ok[None, :], where_5, 0.0)
        tile_sum_2 = tl.sum(where_5_ok, axis=1)
        sum_w_rows_i2_2 = sum_w_rows_i2_2 + tile_sum_2
        max_w_rows_i2 = max_w_rows_i2_new
    tl.store(
        part4_ptr + (x_rows_start * part4_stride_x_rows + w_rows_o2_start * part4_stride_w_rows_o2) + r_x_rows * part4_stride_x_rows,
        max_w_rows_i2,
    )
    tl.store(
        part5_ptr + (x_rows_start * part5_stride_x_rows + w_rows_o2_start * part5_stride_w_rows_o2) + r_x_rows * part5_stride_x_rows,
        sum_w_rows_i2,
    )
    tl.store(
        part7_ptr + (x_rows_start * part7_stride_x_rows + w_rows_o2_start * part7_stride_w_rows_o2) + r_x_rows * part7_stride_x_rows,
        sum_w_rows_i2_2,
    )


@triton.jit
def linear_cross_entropy_out(
    labels_ptr, part5_ptr, part4_ptr, part7_ptr, out_ptr,
    N_w_rows_o2, N_w_rows, labels_stride_x_rows, part5_stride_x_rows, part5_stride_w_rows_o2, part4_stride_x_rows,
    part4_stride_w_rows_o2, part7_stride_x_rows, part7_stride_w_rows_o2, out_stride_x_rows,
    T_x_rows: tl.constexpr, T_w_rows_o2: tl.constexpr, S_N_w_rows_o2: tl.constexpr, S_part5: tl.constexpr,
    S_part4: tl.constexpr, S_part7: tl.constexpr,
):
    """t0[x_rows] = ne(labels, -100)
    t1[x_rows, w_rows] = sum_cols(x * w)
    t2[x_rows, w_rows] = t1 - max_w_rows(t1)
    out[x_rows] = where(t0, -sum_w_rows(where(eq(index(w_rows), where(t0, labels, 0)), t2 - log(sum_w_rows(exp(t2))), 0)), 0)
    rules: sum_of_one_constant, late_term_out_of_choice, merge_selection_parts, local_selection, split_reduction, shift_through_additive, factor_of_exponential, term_out_of_single_choice
    moves: 1.74 MB of memory for the planned sizes; bound by launch
    """
    # for the compiler, which does not know that these are multiples of 2**S
    N_w_rows_o2 = N_w_rows_o2 >> S_N_w_rows_o2 << S_N_w_rows_o2
    part5_stride_x_rows = part5_stride_x_rows >> S_part5 << S_part5
    part4_stride_x_rows = part4_stride_x_rows >> S_part4 << S_part4
    part7_stride_x_rows = part7_stride_x_rows >> S_part7 << S_part7
    pid = tl.program_id(0)
    x_rows_start = pid.to(tl.int64) * T_x_rows
    r_x_rows = tl.arange(0, T_x_rows)
    r_w_rows_o2 = tl.arange(0, T_w_rows_o2)
    w_rows_o2_ok = r_w_rows_o2 < N_w_rows_o2
    labels = tl.load(labels_ptr + x_rows_start * labels_stride_x_rows + r_x_rows * labels_stride_x_rows)
    ne = labels != -100
    where = tl.where(ne, labels, 0)
    ge = where >= 0
    n_w_rows = tl.full([], N_w_rows, tl.int64)
    lt = where < n_w_rows
    vand = ge & lt
    where_2 = tl.where(vand, 1.0, 0.0)
    eq = where_2 == 0.0
    part5 = tl.load(
        part5_ptr + x_rows_start * part5_stride_x_rows + (r_x_rows[:, None] * part5_stride_x_rows + r_w_rows_o2[None, :] * part5_stride_w_rows_o2),
        mask=w_rows_o2_ok[None, :],
        other=0.0,
    )
    eq_2 = part5 == 0.0
    part4 = tl.load(
        part4_ptr + x_rows_start * part4_stride_x_rows + (r_x_rows[:, None] * part4_stride_x_rows + r_w_rows_o2[None, :] * part4_stride_w_rows_o2),
        mask=w_rows_o2_ok[None, :],
        other=0.0,
    )
    eq_3 = part4 == float("-inf")
    part4_ok = tl.where(w_rows_o2_ok[None, :], part4, float("-inf"))
    max_w_rows_o2 = _max(part4_ok, axis=1)
    where_3 = tl.where(eq_3, 0.0, part4)
    diff = max_w_rows_o2[:, None] - where_3
    scaled = diff * -1.4426950408889634
    exp = tl.exp2(scaled)
    where_4 = tl.where(eq_3, 1.0, exp)
    mul = where_4 * part5
    where_5 = tl.where(eq_2, 0.0, mul)
    where_5_ok = tl.where(w_rows_o2_ok[None, :], where_5, 0.0)
    sum_w_rows_o2 = tl.sum(where_5_ok, axis=1)
    log = tl.log(sum_w_rows_o2)
    neg_3 = log * -1.0
    mul_2 = neg_3 * where_2
    where_6 = tl.where(eq, 0.0, mul_2)
    neg_4 = max_w_rows_o2 * -1.0
    mul_3 = neg_4 * where_2
    where_7 = tl.where(eq, 0.0, mul_3)
    part7 = tl.load(
        part7_ptr + x_rows_start * part7_stride_x_rows + (r_x_rows[:, None] * part7_stride_x_rows + r_w_rows_o2[None, :] * part7_stride_w_rows_o2),
        mask=w_rows_o2_ok[None, :],
        other=0.0,
    )
    sum_w_rows_o2_2 = tl.sum(part7, axis=1)
    add = where_7 + sum_w_rows_o2_2
    add_2 = where_6 + add
    neg_5 = add_2 * -1.0
    where_8 = tl.where(ne, neg_5, 0.0)
    tl.store(out_ptr + x_rows_start * out_stride_x_rows + r_x_rows * out_stride_x_rows, where_8.to(tl.float16))


def run(x, w, labels):
    """Return the tuple (out), computed by 2 kernels on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, linear_cross_entropy_part4_part5_part7)
    _check_tensor("w", w, torch.float16, 2)
    _check_device("w", w, x.device, linear_cross_entropy_part4_part5_part7)
    _check_tensor("labels", labels, torch.int64, 1)
    _check_device("labels", labels, x.device, linear_cross_entropy_part4_part5_part7)
    N_x_rows = x.shape[0]
    N_cols = x.shape[1]
    N_w_rows = w.shape[0]
    N_w_rows_o2 = triton.cdiv(N_w_rows, 16032)
    _check_shape("x", x, (N_x_rows, N_cols))
    _check_shape("w", w, (N_w_rows, N_cols))
    _check_shape("labels", labels, (N_x_rows,))
    _check_size("x_rows", N_x_rows == 16384, "of 16384, on which the program depends")
    _check_size("cols", N_cols == 4096, "of 4096, on which the program depends")
    _check_size("w_rows", N_w_rows == 128256, "of 128256, on which the program depends")
    x = _readable("x", x, (63, 31))
    w = _readable("w", w, (127, 31))
    labels = _readable("labels", labels, (63,))
    out = torch.empty((N_x_rows,), dtype=torch.float16, device=x.device)
    with torch.cuda.device_of(x):
        part4 = torch.empty((N_x_rows, N_w_rows_o2), dtype=torch.float32, device=x.device)
        _check_reach("part4", part4.stride(), (63, 15))
        part5 = torch.empty((N_x_rows, N_w_rows_o2), dtype=torch.float32, device=x.device)
        _check_reach("part5", part5.stride(), (63, 15))
        part7 = torch.empty((N_x_rows, N_w_rows_o2), dtype=torch.float32, device=x.device)
        _check_reach("part7", part7.stride(), (63, 15))
        linear_cross_entropy_part4_part5_part7[_grid(triton.cdiv(N_x_rows, 64) * N_w_rows_o2)](
            labels, x, w, part4, part5, part7,
            N_cols, 16032, N_w_rows_o2, labels.stride(0), x.stride(0), x.stride(1), w.stride(0), w.stride(1),
            part4.stride(0), part4.stride(1), part5.stride(0), part5.stride(1), part7.stride(0), part7.stride(1),
            T_x_rows=64, T_cols=32, T_w_rows_i2=128, S_part4=math.gcd(8, part4.stride(0)).bit_length() - 1,
            S_part5=math.gcd(8, part5.stride(0)).bit_length() - 1, S_part7=math.gcd(8, part7.stride(0)).bit_length() - 1,
            num_warps=8, num_stages=3, enable_fp_fusion=True,
        )
        linear_cross_entropy_out[_grid(triton.cdiv(N_x_rows, 16))](
            labels, part5, part4, part7, out,
            N_w_rows_o2, N_w_rows, labels.stride(0), part5.stride(0), part5.stride(1), part4.stride(0), part4.stride(1),
            part7.stride(0), part7.stride(1), out.stride(0),
            T_x_rows=16, T_w_rows_o2=16, S_N_w_rows_o2=math.gcd(8, N_w_rows_o2).bit_length() - 1,
            S_part5=math.gcd(8, part5.stride(0)).bit_length() - 1, S_part4=math.gcd(8, part4.stride(0)).bit_length() - 1,
            S_part7=math.gcd(8, part7.stride(0)).bit_length() - 1,
            num_warps=1, num_stages=1, enable_fp_fusion=True,
        )
    return (out,)
