"""plan for linear_cross_entropy_few_rows on h200: 2 kernels, 9197.1 us estimated
  linear_cross_entropy_few_rows_part0_part1_part2_part3: labels, w, x -> part0, part1, part2, part3
    roles   x_rows=grid:128 cols=stream:128 w_rows_i=stream:128 w_rows_o=grid:1   (128 programs, 8 warps, 3 stages)
    copies  x in blocks by tensor descriptors
    loops   w_rows_i x1, cols x1
    cost    9194.0 us, bound by shared; 1.08 GB DRAM, 67.31 GB L2, 4312.1 GFLOP, 5.89 G instructions; 196.61 kB shared
    rules   view_through_op, view_through_reduction, split_reduction, seed_shift, function2, choice_by_reference, shift_through_additive, shift_of_term, factor_of_exponential, roll_by_factor
  linear_cross_entropy_few_rows_out: labels, part0, part1, part2, part3 -> out
    roles   x_rows=grid:16 w_rows_o=resident:16   (256 programs, 1 warps, 1 stages)
    loops   none (whole rows on chip)
    cost    3.1 us, bound by launch; 303.10 kB DRAM, 303.10 kB L2, 0.0 GFLOP, 0.00 G instructions; 0 B shared
    rules   split_reduction, late_term_out_of_choice, merge_selection_parts, local_selection, shift_through_additive, factor_of_exponential, term_out_of_single_choice
  memory: 1.08 GB; compulsory 1.08 GB; unfused 14.74 GB in 13 kernels (7341.4 us)
  split: w_rows in 4 parts over the grid, chosen among 4, 2, 16
  this module has kernels only: run() takes tensors on a GPU
  runner-up: w_rows split over the grid into 16 parts, 9228.0 us, 4.11 GB: 30.9 us slower: 2 kernels, linear_cross_entropy_few_rows_part8_part9_part11 is bound by shared
  search ended: exhausted
"""


import math

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def _maximum(a, b):
    """The larger of two; NaN if either is NaN, as in torch (tl.maximum alone ignores it)."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _max(x, axis: tl.constexpr):
    """The largest along an axis; NaN if any is NaN, as in torch (tl.max alone ignores it)."""
    return tl.reduce(x, axis, _maximum)


@triton.jit
def linear_cross_entropy_few_rows_part0_part1_part2_part3(
    labels_ptr, x_ptr, w_ptr, part0_ptr, part1_ptr, part2_ptr, part3_ptr,
    x_block,
    N_cols, N_w_rows_i, N_w_rows_o, labels_stride_x_rows, x_stride_x_rows, x_stride_cols, w_stride_0, w_stride_cols,
    part0_stride_x_rows, part0_stride_w_rows_o, part1_stride_x_rows, part1_stride_w_rows_o, part2_stride_x_rows,
    part2_stride_w_rows_o, part3_stride_x_rows, part3_stride_w_rows_o,
    T_x_rows: tl.constexpr, T_cols: tl.constexpr, T_w_rows_i: tl.constexpr, S_part0: tl.constexpr, S_part1: tl.constexpr,
    S_part2: tl.constexpr, S_part3: tl.constexpr,
):
    """part0: a partial result
    part1: a partial result
    part2: a partial result
    part3: a partial result
    rules: view_through_op, view_through_reduction, split_reduction, seed_shift, function2, choice_by_reference, shift_through_additive, shift_of_term, factor_of_exponential, roll_by_factor
    moves: 1.08 GB of memory for the planned sizes; bound by shared
    """
    # for the compiler, which does not know that these are multiples of 2**S
    part0_stride_x_rows = part0_stride_x_rows >> S_part0 << S_part0
    part1_stride_x_rows = part1_stride_x_rows >> S_part1 << S_part1
    part2_stride_x_rows = part2_stride_x_rows >> S_part2 << S_part2
    part3_stride_x_rows = part3_stride_x_rows >> S_part3 << S_part3
    pid = tl.program_id(0)
    w_rows_o_start = (pid % N_w_rows_o).to(tl.int64)
    pid = pid // N_w_rows_o
    x_rows_start = pid.to(tl.int64) * T_x_rows
    r_x_rows = tl.arange(0, T_x_rows)
    r_cols = tl.arange(0, T_cols)
    r_w_rows_i = tl.arange(0, T_w_rows_i)
    labels = tl.load(labels_ptr + x_rows_start * labels_stride_x_rows + r_x_rows * labels_stride_x_rows)
    ne = labels != -100
    where_4 = tl.where(ne, labels, 0)
    max_w_rows_i = tl.full([T_x_rows], float("-inf"), tl.float32)
    sum_w_rows_i = tl.zeros([T_x_rows], tl.float32)
    sum_w_rows_i_2 = tl.zeros([T_x_rows], tl.float32)
    sum_w_rows_i_3 = tl.zeros([T_x_rows], tl.float32)
    for w_rows_i_start in tl.range(0, N_w_rows_i, T_w_rows_i):
        w_rows_i_ok = w_rows_i_start + r_w_rows_i < N_w_rows_i
        sum_cols = tl.zeros([T_x_rows, T_w_rows_i], tl.float32)
        for cols_start in tl.range(0, N_cols, T_cols):
            if x_block is not None:
                x = x_block.load([tl.cast(x_rows_start, tl.int32), tl.cast(cols_start, tl.int32)])
            else:
                x = tl.load(
                    x_ptr + (x_rows_start * x_stride_x_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + (r_x_rows[:, None] * x_stride_x_rows + r_cols[None, :] * x_stride_cols),
                )
            w = tl.load(
                w_ptr + ((tl.cast(w_rows_i_start, tl.int64) + w_rows_o_start * 32064) * w_stride_0 + tl.cast(cols_start, tl.int64) * w_stride_cols) + (r_w_rows_i[None, :] * w_stride_0 + r_cols[:, None] * w_stride_cols),
                mask=w_rows_i_ok[None, :],
                other=0.0,
            )
            sum_cols = tl.dot(x, w, sum_cols, out_dtype=tl.float32)
        sum_cols_ok = tl.where(w_rows_i_ok[None, :], sum_cols, float("-inf"))
        tile_max = _max(sum_cols_ok, axis=1)
        max_w_rows_i_new = _maximum(max_w_rows_i, tile_max)
        empty = max_w_rows_i_new == float("-inf")
        safe = tl.where(empty, 0.0, max_w_rows_i_new)
        eq = safe == float("-inf")
        where = tl.where(eq, 0.0, safe)
        eq_2 = max_w_rows_i == float("-inf")
        where_2 = tl.where(eq_2, 0.0, max_w_rows_i)
        diff = where - where_2
        scaled = diff * -1.4426950408889634
        exp = tl.exp2(scaled)
        mul = sum_w_rows_i * exp
        empty_2 = max_w_rows_i == float("-inf")
        where_3 = tl.where(empty_2, sum_w_rows_i, mul)
        diff_2 = sum_cols - where[:, None]
        scaled_2 = diff_2 * 1.4426950408889634
        exp_2 = tl.exp2(scaled_2)
        exp_2_ok = tl.where(w_rows_i_ok[None, :], exp_2, 0.0)
        tile_sum = tl.sum(exp_2_ok, axis=1)
        sum_w_rows_i = where_3 + tile_sum
        at = tl.cast(w_rows_i_start + w_rows_o_start * 32064, tl.int32) + r_w_rows_i
        eq_3 = at[None, :] == where_4[:, None]
        where_6 = tl.where(eq_3, sum_cols, 0.0)
        where_6_ok = tl.where(w_rows_i_ok[None, :], where_6, 0.0)
        tile_sum_2 = tl.sum(where_6_ok, axis=1)
        sum_w_rows_i_3 = sum_w_rows_i_3 + tile_sum_2
        first = tl.cast(w_rows_i_start + w_rows_o_start * 32064, tl.int64)
        after = where_4 - first
        here_w_rows_i = tl.cast(tl.minimum(T_w_rows_i, N_w_rows_i - w_rows_i_start), tl.float32)
        ge = after >= 0
        after_f = after.to(tl.float32)
        lt = after_f < here_w_rows_i
        here = ge & lt
        where_5 = tl.where(here, 1.0, 0.0)
        sum_w_rows_i_2 = sum_w_rows_i_2 + where_5
        max_w_rows_i = max_w_rows_i_new
    tl.store(
        part0_ptr + (x_rows_start * part0_stride_x_rows + w_rows_o_start * part0_stride_w_rows_o) + r_x_rows * part0_stride_x_rows,
        max_w_rows_i,
    )
    tl.store(
        part1_ptr + (x_rows_start * part1_stride_x_rows + w_rows_o_start * part1_stride_w_rows_o) + r_x_rows * part1_stride_x_rows,
        sum_w_rows_i,
    )
    tl.store(
        part2_ptr + (x_rows_start * part2_stride_x_rows + w_rows_o_start * part2_stride_w_rows_o) + r_x_rows * part2_stride_x_rows,
        sum_w_rows_i_2,
    )
    tl.store(
        part3_ptr + (x_rows_start * part3_stride_x_rows + w_rows_o_start * part3_stride_w_rows_o) + r_x_rows * part3_stride_x_rows,
        sum_w_rows_i_3,
    )


@triton.jit
def linear_cross_entropy_few_rows_out(
    labels_ptr, part2_ptr, part1_ptr, part0_ptr, part3_ptr, out_ptr,
    N_w_rows_o, labels_stride_x_rows, part2_stride_x_rows, part2_stride_w_rows_o, part1_stride_x_rows, part1_stride_w_rows_o,
    part0_stride_x_rows, part0_stride_w_rows_o, part3_stride_x_rows, part3_stride_w_rows_o, out_stride_x_rows,
    T_x_rows: tl.constexpr, T_w_rows_o: tl.constexpr, S_N_w_rows_o: tl.constexpr, S_part2: tl.constexpr,
    S_part1: tl.constexpr, S_part0: tl.constexpr, S_part3: tl.constexpr,
):
    """t0[x_rows] = ne(labels, -100)
    t1[x_rows, w_rows] = sum_cols(x * w)
    t2[x_rows, w_rows] = t1 - max_w_rows(t1)
    out[x_rows] = where(t0, -sum_w_rows(where(eq(index(w_rows), where(t0, labels, 0)), t2 - log(sum_w_rows(exp(t2))), 0)), 0)
    rules: split_reduction, late_term_out_of_choice, merge_selection_parts, local_selection, shift_through_additive, factor_of_exponential, term_out_of_single_choice
    moves: 303.10 kB of memory for the planned sizes; bound by launch
    """
    # for the compiler, which does not know that these are multiples of 2**S
    N_w_rows_o = N_w_rows_o >> S_N_w_rows_o << S_N_w_rows_o
    part2_stride_x_rows = part2_stride_x_rows >> S_part2 << S_part2
    part1_stride_x_rows = part1_stride_x_rows >> S_part1 << S_part1
    part0_stride_x_rows = part0_stride_x_rows >> S_part0 << S_part0
    part3_stride_x_rows = part3_stride_x_rows >> S_part3 << S_part3
    pid = tl.program_id(0)
    x_rows_start = pid.to(tl.int64) * T_x_rows
    r_x_rows = tl.arange(0, T_x_rows)
    r_w_rows_o = tl.arange(0, T_w_rows_o)
    w_rows_o_ok = r_w_rows_o < N_w_rows_o
    labels = tl.load(labels_ptr + x_rows_start * labels_stride_x_rows + r_x_rows * labels_stride_x_rows)
    ne = labels != -100
    part2 = tl.load(
        part2_ptr + x_rows_start * part2_stride_x_rows + (r_x_rows[:, None] * part2_stride_x_rows + r_w_rows_o[None, :] * part2_stride_w_rows_o),
        mask=w_rows_o_ok[None, :],
        other=0.0,
    )
    sum_w_rows_o = tl.sum(part2, axis=1)
    eq = sum_w_rows_o == 0.0
    part1 = tl.load(
        part1_ptr + x_rows_start * part1_stride_x_rows + (r_x_rows[:, None] * part1_stride_x_rows + r_w_rows_o[None, :] * part1_stride_w_rows_o),
        mask=w_rows_o_ok[None, :],
        other=0.0,
    )
    eq_2 = part1 == 0.0
    part0 = tl.load(
        part0_ptr + x_rows_start * part0_stride_x_rows + (r_x_rows[:, None] * part0_stride_x_rows + r_w_rows_o[None, :] * part0_stride_w_rows_o),
        mask=w_rows_o_ok[None, :],
        other=0.0,
    )
    eq_3 = part0 == float("-inf")
    part0_ok = tl.where(w_rows_o_ok[None, :], part0, float("-inf"))
    max_w_rows_o = _max(part0_ok, axis=1)
    where = tl.where(eq_3, 0.0, part0)
    diff = max_w_rows_o[:, None] - where
    scaled = diff * -1.4426950408889634
    exp = tl.exp2(scaled)
    where_2 = tl.where(eq_3, 1.0, exp)
    mul = where_2 * part1
    where_3 = tl.where(eq_2, 0.0, mul)
    where_3_ok = tl.where(w_rows_o_ok[None, :], where_3, 0.0)
    sum_w_rows_o_2 = tl.sum(where_3_ok, axis=1)
    log = tl.log(sum_w_rows_o_2)
    neg_3 = log * -1.0
    mul_2 = neg_3 * sum_w_rows_o
    where_4 = tl.where(eq, 0.0, mul_2)
    neg_4 = max_w_rows_o * -1.0
    mul_3 = neg_4 * sum_w_rows_o
    where_5 = tl.where(eq, 0.0, mul_3)
    part3 = tl.load(
        part3_ptr + x_rows_start * part3_stride_x_rows + (r_x_rows[:, None] * part3_stride_x_rows + r_w_rows_o[None, :] * part3_stride_w_rows_o),
        mask=w_rows_o_ok[None, :],
        other=0.0,
    )
    sum_w_rows_o_3 = tl.sum(part3, axis=1)
    add = where_5 + sum_w_rows_o_3
    add_2 = where_4 + add
    neg_5 = add_2 * -1.0
    where_6 = tl.where(ne, neg_5, 0.0)
    tl.store(out_ptr + x_rows_start * out_stride_x_rows + r_x_rows * out_stride_x_rows, where_6.to(tl.float16))


def run(x, w, labels):
    """Return the tuple (out), computed by 2 kernels on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, linear_cross_entropy_few_rows_part0_part1_part2_part3)
    _check_tensor("w", w, torch.float16, 2)
    _check_device("w", w, x.device, linear_cross_entropy_few_rows_part0_part1_part2_part3)
    _check_tensor("labels", labels, torch.int64, 1)
    _check_device("labels", labels, x.device, linear_cross_entropy_few_rows_part0_part1_part2_part3)
    N_x_rows = x.shape[0]
    N_cols = x.shape[1]
    N_w_rows = w.shape[0]
    N_w_rows_o = triton.cdiv(N_w_rows, 32064)
    _check_shape("x", x, (N_x_rows, N_cols))
    _check_shape("w", w, (N_w_rows, N_cols))
    _check_shape("labels", labels, (N_x_rows,))
    _check_size("x_rows", N_x_rows == 4096, "of 4096, on which the program depends")
    _check_size("cols", N_cols == 4096, "of 4096, on which the program depends")
    _check_size("w_rows", N_w_rows == 128256, "of 128256, on which the program depends")
    x = _readable("x", x, (127, 127))
    w = _readable("w", w, (127, 127))
    labels = _readable("labels", labels, (127,))
    out = torch.empty((N_x_rows,), dtype=torch.float16, device=x.device)
    with torch.cuda.device_of(x):
        part0 = torch.empty((N_x_rows, N_w_rows_o), dtype=torch.float32, device=x.device)
        _check_reach("part0", part0.stride(), (127, 15))
        part1 = torch.empty((N_x_rows, N_w_rows_o), dtype=torch.float32, device=x.device)
        _check_reach("part1", part1.stride(), (127, 15))
        part2 = torch.empty((N_x_rows, N_w_rows_o), dtype=torch.float32, device=x.device)
        _check_reach("part2", part2.stride(), (127, 15))
        part3 = torch.empty((N_x_rows, N_w_rows_o), dtype=torch.float32, device=x.device)
        _check_reach("part3", part3.stride(), (127, 15))
        linear_cross_entropy_few_rows_part0_part1_part2_part3[_grid(triton.cdiv(N_x_rows, 128) * N_w_rows_o)](
            labels, x, w, part0, part1, part2, part3,
            _block(x, (128, 128)),
            N_cols, 32064, N_w_rows_o, labels.stride(0), x.stride(0), x.stride(1), w.stride(0), w.stride(1), part0.stride(0),
            part0.stride(1), part1.stride(0), part1.stride(1), part2.stride(0), part2.stride(1), part3.stride(0),
            part3.stride(1),
            T_x_rows=128, T_cols=128, T_w_rows_i=128, S_part0=math.gcd(8, part0.stride(0)).bit_length() - 1,
            S_part1=math.gcd(8, part1.stride(0)).bit_length() - 1, S_part2=math.gcd(8, part2.stride(0)).bit_length() - 1,
            S_part3=math.gcd(8, part3.stride(0)).bit_length() - 1,
            num_warps=8, num_stages=3, enable_fp_fusion=True,
        )
        linear_cross_entropy_few_rows_out[_grid(triton.cdiv(N_x_rows, 16))](
            labels, part2, part1, part0, part3, out,
            N_w_rows_o, labels.stride(0), part2.stride(0), part2.stride(1), part1.stride(0), part1.stride(1),
            part0.stride(0), part0.stride(1), part3.stride(0), part3.stride(1), out.stride(0),
            T_x_rows=16, T_w_rows_o=16, S_N_w_rows_o=math.gcd(8, N_w_rows_o).bit_length() - 1,
            S_part2=math.gcd(8, part2.stride(0)).bit_length() - 1, S_part1=math.gcd(8, part1.stride(0)).bit_length() - 1,
            S_part0=math.gcd(8, part0.stride(0)).bit_length() - 1, S_part3=math.gcd(8, part3.stride(0)).bit_length() - 1,
            num_warps=1, num_stages=1, enable_fp_fusion=True,
        )
    return (out,)
