"""plan for attention_decode on h200: 2 kernels, 34.0 us estimated
  attention_decode_part0_part3_part4: k, q, v -> part0, part3, part4
    roles   i=grid:1 l=resident:128 j=grid:128 k_i=stream:256 k_o=grid:1   (256 programs, 16 warps, 2 stages)
    loops   k_i x1
    cost    31.0 us, bound by dram; 134.36 MB DRAM, 134.42 MB L2, 0.0 GFLOP, 0.20 G instructions; 0 B shared
    rules   view_through_op, view_through_reduction, split_reduction, factor_out_of_selection, seed_shift, function2, choice_by_reference, shift_through_additive, shift_of_term, factor_of_exponential, roll_by_factor, factor_of_product
  attention_decode_out: part0, part3, part4 -> out
    roles   i=grid:1 j=grid:8 k_o=resident:8   (512 programs, 1 warps, 1 stages)
    loops   none (whole rows on chip)
    cost    3.0 us, bound by launch; 141.31 kB DRAM, 172.03 kB L2, 0.0 GFLOP, 0.00 G instructions; 0 B shared
    rules   merge_selection_parts, local_selection, split_reduction, shift_through_additive, factor_of_exponential, factor_out
  memory: 134.50 MB; compulsory 134.23 MB; unfused 408.96 MB in 10 kernels (115.2 us)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: one kernel, 47.8 us, 134.23 MB: 13.8 us slower: 1 kernel, attention_decode_out is bound by latency
  search ended: bound
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
def _lost_digits(new, kept, small):
    """What rounding added to new = kept + small; nothing where it is not finite."""
    lost = (new - kept) - small
    return tl.where(tl.abs(lost) < float("inf"), lost, 0.0)


@triton.jit
def attention_decode_part0_part3_part4(
    q_ptr, k_ptr, v_ptr, part0_ptr, part3_ptr, part4_ptr,
    N_j, N_k_i, N_k_o, q_stride_i, q_stride_l, k_stride_i, k_stride_2, k_stride_l, v_stride_i, v_stride_2, v_stride_j,
    part0_stride_i, part0_stride_k_o, part3_stride_i, part3_stride_k_o, part4_stride_k_o, part4_stride_i, part4_stride_j,
    T_l: tl.constexpr, T_j: tl.constexpr, T_k_i: tl.constexpr, S_part0: tl.constexpr, S_part3: tl.constexpr,
):
    """part0: a partial result
    part3: a partial result
    part4: a partial result
    rules: view_through_op, view_through_reduction, split_reduction, factor_out_of_selection, seed_shift, function2, choice_by_reference, shift_through_additive, shift_of_term, factor_of_exponential, roll_by_factor, factor_of_product
    moves: 134.36 MB of memory for the planned sizes; bound by dram
    """
    # for the compiler, which does not know that these are multiples of 2**S
    part0_stride_i = part0_stride_i >> S_part0 << S_part0
    part3_stride_i = part3_stride_i >> S_part3 << S_part3
    pid = tl.program_id(0)
    k_o0 = (pid % N_k_o).to(tl.int64)
    pid = pid // N_k_o
    j0 = (pid % tl.cdiv(N_j, T_j)).to(tl.int64) * T_j
    pid = pid // tl.cdiv(N_j, T_j)
    i0 = pid.to(tl.int64)
    r_l = tl.arange(0, T_l)
    r_j = tl.arange(0, T_j)
    r_k_i = tl.arange(0, T_k_i)
    q = tl.load(q_ptr + i0 * q_stride_i + r_l * q_stride_l)
    q_f = q.to(tl.float32)
    max_k_i = tl.full([], float("-inf"), tl.float32)
    sum_k_i = tl.zeros([], tl.float32)
    lost_k_i = tl.zeros([], tl.float32)
    sum_k_i_2 = tl.zeros([T_j], tl.float32)
    lost_k_i_2 = tl.zeros([T_j], tl.float32)
    for k_i0 in tl.range(0, N_k_i, T_k_i):
        k = tl.load(
            k_ptr + (i0 * k_stride_i + (tl.cast(k_i0, tl.int64) + k_o0 * 1024) * k_stride_2) + (r_k_i[:, None] * k_stride_2 + r_l[None, :] * k_stride_l),
        )
        k_f = k.to(tl.float32)
        mul = q_f[None, :] * k_f
        sum_l = tl.sum(mul, axis=1)
        tile_max = _max(sum_l, axis=0)
        max_k_i_new = _maximum(max_k_i, tile_max)
        empty = max_k_i_new == float("-inf")
        safe = tl.where(empty, 0.0, max_k_i_new)
        mul_3 = 0.08838834764831845 * safe
        eq = mul_3 == float("-inf")
        where = tl.where(eq, 0.0, mul_3)
        mul_4 = 0.08838834764831845 * max_k_i
        eq_2 = mul_4 == float("-inf")
        where_2 = tl.where(eq_2, 0.0, mul_4)
        diff = where - where_2
        neg_2 = -diff
        exp = tl.exp(neg_2)
        empty_2 = max_k_i == float("-inf")
        factor = tl.where(empty_2, 1.0, exp)
        mul_5 = sum_k_i * factor
        mul_6 = lost_k_i * factor
        mul_7 = sum_l * 0.08838834764831845
        diff_2 = mul_7 - where
        exp_2 = tl.exp(diff_2)
        tile_sum = tl.sum(exp_2, axis=0)
        small = tile_sum - mul_6
        sum_k_i = mul_5 + small
        lost_k_i = _lost_digits(sum_k_i, mul_5, small)
        empty_3 = max_k_i == float("-inf")
        factor_2 = tl.where(empty_3, 1.0, exp)
        mul_8 = sum_k_i_2 * factor_2
        mul_9 = lost_k_i_2 * factor_2
        v = tl.load(
            v_ptr + (i0 * v_stride_i + (tl.cast(k_i0, tl.int64) + k_o0 * 1024) * v_stride_2 + j0 * v_stride_j) + (r_k_i[None, :] * v_stride_2 + r_j[:, None] * v_stride_j),
        )
        v_f = v.to(tl.float32)
        mul_10 = exp_2[None, :] * v_f
        tile_sum_2 = tl.sum(mul_10, axis=1)
        small_2 = tile_sum_2 - mul_9
        sum_k_i_2 = mul_8 + small_2
        lost_k_i_2 = _lost_digits(sum_k_i_2, mul_8, small_2)
        max_k_i = max_k_i_new
    mul_2 = 0.08838834764831845 * max_k_i
    if j0 == 0:
        tl.store(part0_ptr + i0 * part0_stride_i + k_o0 * part0_stride_k_o, mul_2)
    if j0 == 0:
        tl.store(part3_ptr + i0 * part3_stride_i + k_o0 * part3_stride_k_o, sum_k_i)
    tl.store(
        part4_ptr + (k_o0 * part4_stride_k_o + i0 * part4_stride_i + j0 * part4_stride_j) + r_j * part4_stride_j,
        sum_k_i_2,
    )


@triton.jit
def attention_decode_out(
    part3_ptr, part0_ptr, part4_ptr, out_ptr,
    N_j, N_k_o, part3_stride_i, part3_stride_k_o, part0_stride_i, part0_stride_k_o, part4_stride_k_o, part4_stride_i,
    part4_stride_j, out_stride_i, out_stride_j,
    T_j: tl.constexpr, T_k_o: tl.constexpr, S_N_k_o: tl.constexpr, S_part3: tl.constexpr, S_part0: tl.constexpr,
):
    """t0[i, k] = sum_l(q * k) * 0.0883883
    t1[i, k] = exp(t0 - max_k(t0))
    out[i, j] = sum_k(t1 / sum_k(t1) * v)
    rules: merge_selection_parts, local_selection, split_reduction, shift_through_additive, factor_of_exponential, factor_out
    moves: 141.31 kB of memory for the planned sizes; bound by launch
    """
    # for the compiler, which does not know that these are multiples of 2**S
    N_k_o = N_k_o >> S_N_k_o << S_N_k_o
    part3_stride_i = part3_stride_i >> S_part3 << S_part3
    part0_stride_i = part0_stride_i >> S_part0 << S_part0
    pid = tl.program_id(0)
    j0 = (pid % tl.cdiv(N_j, T_j)).to(tl.int64) * T_j
    pid = pid // tl.cdiv(N_j, T_j)
    i0 = pid.to(tl.int64)
    r_j = tl.arange(0, T_j)
    r_k_o = tl.arange(0, T_k_o)
    k_o_ok = r_k_o < N_k_o
    part3 = tl.load(part3_ptr + i0 * part3_stride_i + r_k_o * part3_stride_k_o, mask=k_o_ok, other=0.0)
    eq = part3 == 0.0
    part0 = tl.load(part0_ptr + i0 * part0_stride_i + r_k_o * part0_stride_k_o, mask=k_o_ok, other=0.0)
    eq_2 = part0 == float("-inf")
    part0_ok = tl.where(k_o_ok, part0, float("-inf"))
    max_k_o = _max(part0_ok, axis=0)
    where = tl.where(eq_2, 0.0, part0)
    diff = max_k_o - where
    neg_2 = -diff
    exp = tl.exp(neg_2)
    where_2 = tl.where(eq_2, 1.0, exp)
    mul = where_2 * part3
    where_3 = tl.where(eq, 0.0, mul)
    where_3_ok = tl.where(k_o_ok, where_3, 0.0)
    sum_k_o = tl.sum(where_3_ok, axis=0)
    recip = 1.0 / sum_k_o
    part4 = tl.load(
        part4_ptr + (i0 * part4_stride_i + j0 * part4_stride_j) + (r_k_o[None, :] * part4_stride_k_o + r_j[:, None] * part4_stride_j),
        mask=k_o_ok[None, :],
        other=0.0,
    )
    eq_3 = part4 == 0.0
    mul_2 = where_2[None, :] * part4
    where_4 = tl.where(eq_3, 0.0, mul_2)
    where_4_ok = tl.where(k_o_ok[None, :], where_4, 0.0)
    sum_k_o_2 = tl.sum(where_4_ok, axis=1)
    mul_3 = recip * sum_k_o_2
    tl.store(out_ptr + (i0 * out_stride_i + j0 * out_stride_j) + r_j * out_stride_j, mul_3.to(tl.float16))


def run(q, k, v):
    """Return the tuple (out), computed by 2 kernels on the device of the arguments."""
    _check_tensor("q", q, torch.float16, 4)
    _check_device("q", q, q.device, attention_decode_part0_part3_part4)
    _check_tensor("k", k, torch.float16, 4)
    _check_device("k", k, q.device, attention_decode_part0_part3_part4)
    _check_tensor("v", v, torch.float16, 4)
    _check_device("v", v, q.device, attention_decode_part0_part3_part4)
    N_i = q.shape[1]
    N_l = q.shape[3]
    N_k = k.shape[2]
    N_j = v.shape[3]
    N_k_o = triton.cdiv(N_k, 1024)
    _check_shape("q", q, (1, N_i, 1, N_l))
    _check_shape("k", k, (1, N_i, N_k, N_l))
    _check_shape("v", v, (1, N_i, N_k, N_j))
    _check_size("i", N_i == 32, "of 32, on which the program depends")
    _check_size("l", N_l == 128, "of 128, on which the program depends")
    _check_size("k", N_k == 8192, "of 8192, on which the program depends")
    _check_size("j", N_j == 128, "of 128, on which the program depends")
    q = _readable("q", q, (0, 0, 0, 127))
    k = _readable("k", k, (0, 0, 255, 127))
    v = _readable("v", v, (0, 0, 255, 127))
    out = torch.empty((1, N_i, 1, N_j), dtype=torch.float16, device=q.device)
    with torch.cuda.device_of(q):
        part0 = torch.empty((N_i, N_k_o), dtype=torch.float32, device=q.device)
        part3 = torch.empty((N_i, N_k_o), dtype=torch.float32, device=q.device)
        part4 = torch.empty((N_k_o, N_i, N_j), dtype=torch.float32, device=q.device)
        _check_reach("part4", part4.stride(), (7, 0, 127))
        attention_decode_part0_part3_part4[_grid(N_i * triton.cdiv(N_j, 128) * N_k_o)](
            q, k, v, part0, part3, part4,
            N_j, 1024, N_k_o, q.stride(1), q.stride(3), k.stride(1), k.stride(2), k.stride(3), v.stride(1), v.stride(2),
            v.stride(3), part0.stride(0), part0.stride(1), part3.stride(0), part3.stride(1), part4.stride(0),
            part4.stride(1), part4.stride(2),
            T_l=128, T_j=128, T_k_i=256, S_part0=math.gcd(8, part0.stride(0)).bit_length() - 1,
            S_part3=math.gcd(8, part3.stride(0)).bit_length() - 1,
            num_warps=16, num_stages=2, enable_fp_fusion=False,
        )
        attention_decode_out[_grid(N_i * triton.cdiv(N_j, 8))](
            part3, part0, part4, out,
            N_j, N_k_o, part3.stride(0), part3.stride(1), part0.stride(0), part0.stride(1), part4.stride(0), part4.stride(1),
            part4.stride(2), out.stride(1), out.stride(3),
            T_j=8, T_k_o=8, S_N_k_o=math.gcd(8, N_k_o).bit_length() - 1,
            S_part3=math.gcd(8, part3.stride(0)).bit_length() - 1, S_part0=math.gcd(8, part0.stride(0)).bit_length() - 1,
            num_warps=1, num_stages=1, enable_fp_fusion=True,
        )
    return (out,)
