"""plan for attention_decode on a100: 2 kernels, 86.7 us estimated
  attention_decode_part10_part11_part14: k, q, v -> part10, part11, part14
    roles   batch=grid:1 q_cols=stream:16 v_cols=grid:128 rows_i3=stream:64 rows_o3=grid:1   (512 programs, 4 warps, 3 stages)
    loops   rows_i3 x1, q_cols x1
    cost    83.1 us, bound by dram; 134.49 MB DRAM, 135.53 MB L2, 0.0 GFLOP, 0.18 G instructions; 4.16 kB shared
    rules   view_through_op, view_through_reduction, split_reduction, seed_shift, function2, choice_by_reference, shift_through_additive, difference_of_multiples, scale_scaled, exponential_to_base_two, scale_negation, roll_by_factor, factor_of_product
  attention_decode_out: part10, part11, part14 -> out
    roles   batch=grid:1 v_cols=grid:16 rows_o3=resident:16   (256 programs, 1 warps, 1 stages)
    loops   none (whole rows on chip)
    cost    3.7 us, bound by launch; 274.43 kB DRAM, 303.10 kB L2, 0.0 GFLOP, 0.00 G instructions; 0 B shared
    rules   merge_selection_parts, local_selection, split_reduction, scale_scaled, scale_negation, exponential_to_base_two, factor_out
  memory: 134.77 MB; compulsory 134.23 MB; unfused 408.96 MB in 10 kernels (271.4 us)
  split: rows in 16 parts over the grid, chosen among 4, 2, 16
  this module has kernels only: run() takes tensors on a GPU
  runner-up: rows split over the grid into 2 parts, 98.9 us, 134.30 MB: 12.1 us slower: 2 kernels, attention_decode_part5_part6_part9 is bound by dram
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
def attention_decode_part10_part11_part14(
    q_ptr, k_ptr, v_ptr, part10_ptr, part11_ptr, part14_ptr,
    N_q_cols, N_v_cols, N_rows_i3, N_rows_o3, q_stride_batch, q_stride_q_cols, k_stride_batch, k_stride_2, k_stride_q_cols,
    v_stride_batch, v_stride_2, v_stride_v_cols, part10_stride_batch, part10_stride_rows_o3, part11_stride_batch,
    part11_stride_rows_o3, part14_stride_rows_o3, part14_stride_batch, part14_stride_v_cols,
    T_q_cols: tl.constexpr, T_v_cols: tl.constexpr, T_rows_i3: tl.constexpr,
):
    """part10: a partial result
    part11: a partial result
    part14: a partial result
    rules: view_through_op, view_through_reduction, split_reduction, seed_shift, function2, choice_by_reference, shift_through_additive, difference_of_multiples, scale_scaled, exponential_to_base_two, scale_negation, roll_by_factor, factor_of_product
    moves: 134.49 MB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    rows_o3_start = (pid % N_rows_o3).to(tl.int64)
    pid = pid // N_rows_o3
    v_cols_start = (pid % tl.cdiv(N_v_cols, T_v_cols)).to(tl.int64) * T_v_cols
    pid = pid // tl.cdiv(N_v_cols, T_v_cols)
    batch_start = pid.to(tl.int64)
    r_q_cols = tl.arange(0, T_q_cols)
    r_v_cols = tl.arange(0, T_v_cols)
    r_rows_i3 = tl.arange(0, T_rows_i3)
    max_rows_i3 = tl.full([], float("-inf"), tl.float32)
    sum_lanes_rows_i3 = tl.zeros([T_rows_i3], tl.float32)
    sum_lanes_rows_i3_2 = tl.zeros([T_v_cols, T_rows_i3], tl.float32)
    for rows_i3_start in tl.range(0, N_rows_i3, T_rows_i3):
        sum_lanes_q_cols = tl.zeros([T_rows_i3, T_q_cols], tl.float32)
        for q_cols_start in tl.range(0, N_q_cols, T_q_cols, num_stages=3):
            q = tl.load(
                q_ptr + (batch_start * q_stride_batch + tl.cast(q_cols_start, tl.int64) * q_stride_q_cols) + r_q_cols * q_stride_q_cols,
            )
            k = tl.load(
                k_ptr + (batch_start * k_stride_batch + (tl.cast(rows_i3_start, tl.int64) + rows_o3_start * 512) * k_stride_2 + tl.cast(q_cols_start, tl.int64) * k_stride_q_cols) + (r_rows_i3[:, None] * k_stride_2 + r_q_cols[None, :] * k_stride_q_cols),
            )
            q_f = q.to(tl.float32)
            k_f = k.to(tl.float32)
            sum_lanes_q_cols = tl.fma(q_f[None, :], k_f, sum_lanes_q_cols)
        sum_q_cols = tl.sum(sum_lanes_q_cols, axis=1)
        tile_max = _max(sum_q_cols, axis=0)
        max_rows_i3_new = _maximum(max_rows_i3, tile_max)
        empty = max_rows_i3_new == float("-inf")
        safe = tl.where(empty, 0.0, max_rows_i3_new)
        eq = safe == float("-inf")
        where = tl.where(eq, 0.0, safe)
        eq_2 = max_rows_i3 == float("-inf")
        where_2 = tl.where(eq_2, 0.0, max_rows_i3)
        diff = where - where_2
        mul_2 = diff * 0.12751743082459868
        neg_2 = mul_2 * -1.0
        exp2 = tl.exp2(neg_2)
        empty_2 = max_rows_i3 == float("-inf")
        factor = tl.where(empty_2, 1.0, exp2)
        diff_2 = sum_q_cols - where
        mul_4 = diff_2 * 0.12751743082459868
        exp2_2 = tl.exp2(mul_4)
        sum_lanes_rows_i3 = tl.fma(sum_lanes_rows_i3, factor, exp2_2)
        empty_3 = max_rows_i3 == float("-inf")
        factor_2 = tl.where(empty_3, 1.0, exp2)
        v = tl.load(
            v_ptr + (batch_start * v_stride_batch + (tl.cast(rows_i3_start, tl.int64) + rows_o3_start * 512) * v_stride_2 + v_cols_start * v_stride_v_cols) + (r_rows_i3[None, :] * v_stride_2 + r_v_cols[:, None] * v_stride_v_cols),
        )
        v_f = v.to(tl.float32)
        mul_6 = exp2_2[None, :] * v_f
        sum_lanes_rows_i3_2 = tl.fma(sum_lanes_rows_i3_2, factor_2, mul_6)
        max_rows_i3 = max_rows_i3_new
    if v_cols_start == 0:
        tl.store(part10_ptr + batch_start * part10_stride_batch + rows_o3_start * part10_stride_rows_o3, max_rows_i3)
    sum_rows_i3 = tl.sum(sum_lanes_rows_i3, axis=0)
    if v_cols_start == 0:
        tl.store(part11_ptr + batch_start * part11_stride_batch + rows_o3_start * part11_stride_rows_o3, sum_rows_i3)
    sum_rows_i3_2 = tl.sum(sum_lanes_rows_i3_2, axis=1)
    tl.store(
        part14_ptr + (rows_o3_start * part14_stride_rows_o3 + batch_start * part14_stride_batch + v_cols_start * part14_stride_v_cols) + r_v_cols * part14_stride_v_cols,
        sum_rows_i3_2,
    )


@triton.jit
def attention_decode_out(
    part11_ptr, part10_ptr, part14_ptr, out_ptr,
    N_v_cols, N_rows_o3, part11_stride_batch, part11_stride_rows_o3, part10_stride_batch, part10_stride_rows_o3,
    part14_stride_rows_o3, part14_stride_batch, part14_stride_v_cols, out_stride_batch, out_stride_v_cols,
    T_v_cols: tl.constexpr, T_rows_o3: tl.constexpr,
):
    """t0[batch, rows] = sum_q_cols(q * k) * 0.0883883
    t1[batch, rows] = exp(t0 - max_rows(t0))
    out[batch, v_cols] = sum_rows(t1 / sum_rows(t1) * v)
    rules: merge_selection_parts, local_selection, split_reduction, scale_scaled, scale_negation, exponential_to_base_two, factor_out
    moves: 274.43 kB of memory for the planned sizes; bound by launch
    """
    pid = tl.program_id(0)
    v_cols_start = (pid % tl.cdiv(N_v_cols, T_v_cols)).to(tl.int64) * T_v_cols
    pid = pid // tl.cdiv(N_v_cols, T_v_cols)
    batch_start = pid.to(tl.int64)
    r_v_cols = tl.arange(0, T_v_cols)
    r_rows_o3 = tl.arange(0, T_rows_o3)
    rows_o3_ok = r_rows_o3 < N_rows_o3
    part11 = tl.load(
        part11_ptr + batch_start * part11_stride_batch + r_rows_o3 * part11_stride_rows_o3,
        mask=rows_o3_ok,
        other=0.0,
    )
    eq = part11 == 0.0
    part10 = tl.load(
        part10_ptr + batch_start * part10_stride_batch + r_rows_o3 * part10_stride_rows_o3,
        mask=rows_o3_ok,
        other=0.0,
    )
    eq_2 = part10 == float("-inf")
    part10_ok = tl.where(rows_o3_ok, part10, float("-inf"))
    max_rows_o3 = _max(part10_ok, axis=0)
    where = tl.where(eq_2, 0.0, part10)
    diff = max_rows_o3 - where
    mul = diff * 0.12751743082459868
    neg_2 = mul * -1.0
    exp2 = tl.exp2(neg_2)
    where_2 = tl.where(eq_2, 1.0, exp2)
    mul_2 = where_2 * part11
    where_3 = tl.where(eq, 0.0, mul_2)
    where_3_ok = tl.where(rows_o3_ok, where_3, 0.0)
    sum_rows_o3 = tl.sum(where_3_ok, axis=0)
    part14 = tl.load(
        part14_ptr + (batch_start * part14_stride_batch + v_cols_start * part14_stride_v_cols) + (r_rows_o3[None, :] * part14_stride_rows_o3 + r_v_cols[:, None] * part14_stride_v_cols),
        mask=rows_o3_ok[None, :],
        other=0.0,
    )
    eq_3 = part14 == 0.0
    mul_3 = where_2[None, :] * part14
    where_4 = tl.where(eq_3, 0.0, mul_3)
    where_4_ok = tl.where(rows_o3_ok[None, :], where_4, 0.0)
    sum_rows_o3_2 = tl.sum(where_4_ok, axis=1)
    quotient = sum_rows_o3_2 / sum_rows_o3
    tl.store(
        out_ptr + (batch_start * out_stride_batch + v_cols_start * out_stride_v_cols) + r_v_cols * out_stride_v_cols,
        quotient.to(tl.float16),
    )


def run(q, k, v):
    """Return the tuple (out), computed by 2 kernels on the device of the arguments."""
    _check_tensor("q", q, torch.float16, 4)
    _check_device("q", q, q.device, attention_decode_part10_part11_part14)
    _check_tensor("k", k, torch.float16, 4)
    _check_device("k", k, q.device, attention_decode_part10_part11_part14)
    _check_tensor("v", v, torch.float16, 4)
    _check_device("v", v, q.device, attention_decode_part10_part11_part14)
    N_batch = q.shape[1]
    N_q_cols = q.shape[3]
    N_rows = k.shape[2]
    N_v_cols = v.shape[3]
    N_rows_o3 = triton.cdiv(N_rows, 512)
    _check_shape("q", q, (1, N_batch, 1, N_q_cols))
    _check_shape("k", k, (1, N_batch, N_rows, N_q_cols))
    _check_shape("v", v, (1, N_batch, N_rows, N_v_cols))
    _check_size("batch", N_batch == 32, "of 32, on which the program depends")
    _check_size("q_cols", N_q_cols == 128, "of 128, on which the program depends")
    _check_size("rows", N_rows == 8192, "of 8192, on which the program depends")
    _check_size("v_cols", N_v_cols == 128, "of 128, on which the program depends")
    q = _readable("q", q, (0, 0, 0, 15))
    k = _readable("k", k, (0, 0, 63, 15))
    v = _readable("v", v, (0, 0, 63, 127))
    out = torch.empty((1, N_batch, 1, N_v_cols), dtype=torch.float16, device=q.device)
    with torch.cuda.device_of(q):
        part10 = torch.empty((N_batch, N_rows_o3), dtype=torch.float32, device=q.device)
        part11 = torch.empty((N_batch, N_rows_o3), dtype=torch.float32, device=q.device)
        part14 = torch.empty((N_rows_o3, N_batch, N_v_cols), dtype=torch.float32, device=q.device)
        _check_reach("part14", part14.stride(), (15, 0, 127))
        attention_decode_part10_part11_part14[_grid(N_batch * triton.cdiv(N_v_cols, 128) * N_rows_o3)](
            q, k, v, part10, part11, part14,
            N_q_cols, N_v_cols, 512, N_rows_o3, q.stride(1), q.stride(3), k.stride(1), k.stride(2), k.stride(3), v.stride(1),
            v.stride(2), v.stride(3), part10.stride(0), part10.stride(1), part11.stride(0), part11.stride(1),
            part14.stride(0), part14.stride(1), part14.stride(2),
            T_q_cols=16, T_v_cols=128, T_rows_i3=64,
            num_warps=4, num_stages=3, enable_fp_fusion=True,
        )
        attention_decode_out[_grid(N_batch * triton.cdiv(N_v_cols, 16))](
            part11, part10, part14, out,
            N_v_cols, N_rows_o3, part11.stride(0), part11.stride(1), part10.stride(0), part10.stride(1), part14.stride(0),
            part14.stride(1), part14.stride(2), out.stride(1), out.stride(3),
            T_v_cols=16, T_rows_o3=16,
            num_warps=1, num_stages=1, enable_fp_fusion=True,
        )
    return (out,)
