"""plan for attention_lse on h200: 1 kernel, 465.2 us estimated
  attention_lse_out0_out1: k, q, v -> out0, out1
    roles   i=grid:1 j=grid:128 m=resident:128 l=stream:32 k=grid:128   (1024 programs, 8 warps, 3 stages)
    loops   l x1
    cost    465.2 us, bound by tensor; 134.48 MB DRAM, 2.21 GB L2, 274.9 GFLOP, 8.19 G instructions; 81.92 kB shared
    rules   factor_out_of_selection, seed_shift, difference_of_multiples, scale_scaled, exponential_to_base_two, scale_negation, roll_by_factor, factor_of_product, factor_out, function1, function2, choice_by_reference, shift_through_additive, shift_of_term, factor_of_exponential
  memory: 134.48 MB; compulsory 134.48 MB; unfused 18.39 GB in 16 kernels (3879.7 us)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: one kernel per reduction, 608.1 us, 201.59 MB: 142.9 us slower: 2 kernels, attention_lse_out0 is bound by tensor
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
def attention_lse_out0_out1(
    q_ptr, k_ptr, v_ptr, out0_ptr, out1_ptr,
    N_j, N_l, N_k, q_stride_i, q_stride_j, q_stride_m, k_stride_i, k_stride_l, k_stride_m, v_stride_i, v_stride_l,
    v_stride_k, out0_stride_i, out0_stride_j, out0_stride_k, out1_stride_i, out1_stride_j,
    T_j: tl.constexpr, T_m: tl.constexpr, T_l: tl.constexpr, T_k: tl.constexpr,
):
    """t0[i, j, l] = sum_m(q * k) * 0.0883883
    t1[i, j] = max_l(t0)
    t2[i, j, l] = exp(t0 - t1)
    out0[i, j, k] = sum_l(t2 / sum_l(t2) * v)
    t4[i, j] = where(eq(abs(t1), inf), 0, t1)
    out1[i, j] = log(sum_l(exp(t0 - t4))) + t4
    rules: factor_out_of_selection, seed_shift, difference_of_multiples, scale_scaled, exponential_to_base_two, scale_negation, roll_by_factor, factor_of_product, factor_out, function1, function2, choice_by_reference, shift_through_additive, shift_of_term, factor_of_exponential
    moves: 134.48 MB of memory for the planned sizes; bound by tensor
    """
    pid = tl.program_id(0)
    k0 = (pid % tl.cdiv(N_k, T_k)).to(tl.int64) * T_k
    pid = pid // tl.cdiv(N_k, T_k)
    j0 = (pid % tl.cdiv(N_j, T_j)).to(tl.int64) * T_j
    pid = pid // tl.cdiv(N_j, T_j)
    i0 = pid.to(tl.int64)
    r_j = tl.arange(0, T_j)
    r_m = tl.arange(0, T_m)
    r_l = tl.arange(0, T_l)
    r_k = tl.arange(0, T_k)
    q = tl.load(q_ptr + (i0 * q_stride_i + j0 * q_stride_j) + (r_j[:, None] * q_stride_j + r_m[None, :] * q_stride_m))
    sum_l = tl.zeros([T_j], tl.float32)
    max_l = tl.full([T_j], float("-inf"), tl.float32)
    sum_l_2 = tl.zeros([T_j, T_k], tl.float32)
    sum_l_3 = tl.zeros([T_j], tl.float32)
    for l0 in tl.range(0, N_l, T_l):
        k = tl.load(
            k_ptr + (i0 * k_stride_i + tl.cast(l0, tl.int64) * k_stride_l) + (r_l[None, :] * k_stride_l + r_m[:, None] * k_stride_m),
        )
        dot_m = tl.dot(q, k, out_dtype=tl.float32)
        tile_max = _max(dot_m, axis=1)
        max_l_new = _maximum(max_l, tile_max)
        empty = max_l_new == float("-inf")
        safe = tl.where(empty, 0.0, max_l_new)
        diff = safe - max_l
        mul = diff * 0.12751743082459868
        neg_2 = -mul
        exp2 = tl.exp2(neg_2)
        diff_2 = dot_m - safe[:, None]
        mul_3 = diff_2 * 0.12751743082459868
        exp2_2 = tl.exp2(mul_3)
        tile_sum = tl.sum(exp2_2, axis=1)
        sum_l = tl.fma(sum_l, exp2, tile_sum)
        mul_4 = sum_l_2 * exp2[:, None]
        exp2_2_fp16 = exp2_2.to(tl.float16)
        v = tl.load(
            v_ptr + (i0 * v_stride_i + tl.cast(l0, tl.int64) * v_stride_l + k0 * v_stride_k) + (r_l[:, None] * v_stride_l + r_k[None, :] * v_stride_k),
        )
        sum_l_2 = tl.dot(exp2_2_fp16, v, mul_4, out_dtype=tl.float32)
        mul_6 = 0.08838834764831845 * safe
        abs_2 = tl.abs(mul_6)
        eq = abs_2 == float("inf")
        where = tl.where(eq, 0.0, mul_6)
        mul_7 = 0.08838834764831845 * max_l
        abs_3 = tl.abs(mul_7)
        eq_2 = abs_3 == float("inf")
        where_2 = tl.where(eq_2, 0.0, mul_7)
        diff_3 = where - where_2
        neg_5 = -diff_3
        exp = tl.exp(neg_5)
        mul_8 = sum_l_3 * exp
        empty_2 = max_l == float("-inf")
        where_3 = tl.where(empty_2, sum_l_3, mul_8)
        mul_9 = dot_m * 0.08838834764831845
        diff_4 = mul_9 - where[:, None]
        exp_2 = tl.exp(diff_4)
        tile_sum_2 = tl.sum(exp_2, axis=1)
        sum_l_3 = where_3 + tile_sum_2
        max_l = max_l_new
    recip = 1.0 / sum_l
    mul_5 = recip[:, None] * sum_l_2
    tl.store(
        out0_ptr + (i0 * out0_stride_i + j0 * out0_stride_j + k0 * out0_stride_k) + (r_j[:, None] * out0_stride_j + r_k[None, :] * out0_stride_k),
        mul_5.to(tl.float16),
    )
    log = tl.log(sum_l_3)
    mul_10 = 0.08838834764831845 * max_l
    abs_4 = tl.abs(mul_10)
    eq_3 = abs_4 == float("inf")
    where_4 = tl.where(eq_3, 0.0, mul_10)
    add = log + where_4
    if k0 == 0:
        tl.store(out1_ptr + (i0 * out1_stride_i + j0 * out1_stride_j) + r_j * out1_stride_j, add.to(tl.float16))


def run(q, k, v):
    """Return the tuple (out0, out1), computed by 1 kernel on the device of the arguments."""
    _check_tensor("q", q, torch.float16, 4)
    _check_device("q", q, q.device, attention_lse_out0_out1)
    _check_tensor("k", k, torch.float16, 4)
    _check_device("k", k, q.device, attention_lse_out0_out1)
    _check_tensor("v", v, torch.float16, 4)
    _check_device("v", v, q.device, attention_lse_out0_out1)
    N_i = q.shape[1]
    N_j = q.shape[2]
    N_m = q.shape[3]
    N_l = k.shape[2]
    N_k = v.shape[3]
    _check_shape("q", q, (1, N_i, N_j, N_m))
    _check_shape("k", k, (1, N_i, N_l, N_m))
    _check_shape("v", v, (1, N_i, N_l, N_k))
    _check_size("i", N_i == 32, "of 32, on which the program depends")
    _check_size("j", N_j == 4096, "of 4096, on which the program depends")
    _check_size("m", N_m == 128, "of 128, on which the program depends")
    _check_size("l", N_l == 4096, "of 4096, on which the program depends")
    _check_size("k", N_k == 128, "of 128, on which the program depends")
    q = _readable("q", q, (0, 0, 127, 127))
    k = _readable("k", k, (0, 0, 31, 127))
    v = _readable("v", v, (0, 0, 31, 127))
    out0 = torch.empty((1, N_i, N_j, N_k), dtype=torch.float16, device=q.device)
    _check_reach("out0", out0.stride(), (0, 0, 127, 127))
    out1 = torch.empty((1, N_i, N_j), dtype=torch.float16, device=q.device)
    with torch.cuda.device_of(q):
        attention_lse_out0_out1[_grid(N_i * triton.cdiv(N_j, 128) * triton.cdiv(N_k, 128))](
            q, k, v, out0, out1,
            N_j, N_l, N_k, q.stride(1), q.stride(2), q.stride(3), k.stride(1), k.stride(2), k.stride(3), v.stride(1),
            v.stride(2), v.stride(3), out0.stride(1), out0.stride(2), out0.stride(3), out1.stride(1), out1.stride(2),
            T_j=128, T_m=128, T_l=32, T_k=128,
            num_warps=8, num_stages=3, enable_fp_fusion=False,
        )
    return (out0, out1)
