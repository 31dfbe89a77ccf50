"""plan for linear_cross_entropy on mi300x: 1 kernel, 23462.9 us estimated
  linear_cross_entropy_out: labels, w, x -> out
    roles   i=grid:64 k=stream:64 j=stream:128   (256 programs, 8 warps, 2 stages)
    loops   j x1, k x1
    cost    23462.9 us, bound by l2; 1.19 GB DRAM, 403.46 GB L2, 17214.2 GFLOP, 17.10 G instructions; 49.15 kB shared
    rules   late_term_out_of_choice, seed_shift, function1, shift_of_term, factor_of_exponential, shift_through_additive, roll_by_factor, term_out_of_single_choice
  memory: 1.19 GB; compulsory 1.19 GB; unfused 55.82 GB in 13 kernels (22760.5 us)
  time against memory: 16687.3 us holding 4.20 GB (2 kernels); 23462.9 us holding 0 B (1 kernel)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: 1 value stored, 16687.3 us, 9.59 GB: 6775.6 us faster but holds 4.20 GB of temporary memory, and 268.44 MB are the limit
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
def linear_cross_entropy_out(
    labels_ptr, x_ptr, w_ptr, out_ptr,
    N_k, N_j, labels_stride_i, x_stride_i, x_stride_k, w_stride_j, w_stride_k, out_stride_i,
    T_i: tl.constexpr, T_k: tl.constexpr, T_j: tl.constexpr,
):
    """t0[i] = ne(labels, -100)
    t1[i, j] = sum_k(x * w)
    t2[i, j] = t1 - max_j(t1)
    out[i] = where(t0, -sum_j(where(eq(index(j), where(t0, labels, 0)), t2 - log(sum_j(exp(t2))), 0)), 0)
    rules: late_term_out_of_choice, seed_shift, function1, shift_of_term, factor_of_exponential, shift_through_additive, roll_by_factor, term_out_of_single_choice
    moves: 1.19 GB of memory for the planned sizes; bound by l2
    """
    pid = tl.program_id(0)
    i0 = pid.to(tl.int64) * T_i
    r_i = tl.arange(0, T_i)
    r_k = tl.arange(0, T_k)
    r_j = tl.arange(0, T_j)
    labels = tl.load(labels_ptr + i0 * labels_stride_i + r_i * labels_stride_i)
    ne = labels != -100
    where = tl.where(ne, labels, 0)
    sum_j = tl.zeros([T_i], tl.float32)
    sum_j_2 = tl.zeros([T_i], tl.float32)
    max_j = tl.full([T_i], float("-inf"), tl.float32)
    sum_j_3 = tl.zeros([T_i], tl.float32)
    for j0 in tl.range(0, N_j, T_j):
        sum_k = tl.zeros([T_i, T_j], tl.float32)
        for k0 in tl.range(0, N_k, T_k):
            x = tl.load(
                x_ptr + (i0 * x_stride_i + tl.cast(k0, tl.int64) * x_stride_k) + (r_i[:, None] * x_stride_i + r_k[None, :] * x_stride_k),
            )
            w = tl.load(
                w_ptr + (tl.cast(j0, tl.int64) * w_stride_j + tl.cast(k0, tl.int64) * w_stride_k) + (r_j[None, :] * w_stride_j + r_k[:, None] * w_stride_k),
            )
            sum_k = tl.dot(x, w, sum_k, out_dtype=tl.float32)
        tile_max = _max(sum_k, axis=1)
        max_j_new = _maximum(max_j, tile_max)
        empty = max_j_new == float("-inf")
        safe = tl.where(empty, 0.0, max_j_new)
        diff = safe - max_j
        neg_3 = -diff
        exp = tl.exp(neg_3)
        diff_2 = sum_k - safe[:, None]
        exp_2 = tl.exp(diff_2)
        tile_sum = tl.sum(exp_2, axis=1)
        sum_j_2 = tl.fma(sum_j_2, exp, tile_sum)
        at_j = tl.cast(j0, tl.int32) + r_j
        eq_2 = at_j[None, :] == where[:, None]
        where_5 = tl.where(eq_2, sum_k, 0.0)
        tile_sum_2 = tl.sum(where_5, axis=1)
        sum_j_3 = sum_j_3 + tile_sum_2
        first = tl.cast(j0, tl.int64)
        after = where - first
        here_j = tl.full([], T_j, tl.float32)
        ge = after >= 0
        after_f = after.to(tl.float32)
        lt = after_f < here_j
        here = ge & lt
        where_2 = tl.where(here, 1.0, 0.0)
        sum_j = sum_j + where_2
        max_j = max_j_new
    eq = sum_j == 0.0
    log = tl.log(sum_j_2)
    neg_5 = -log
    mul_2 = neg_5 * sum_j
    where_3 = tl.where(eq, 0.0, mul_2)
    neg_6 = -max_j
    mul_3 = neg_6 * sum_j
    where_4 = tl.where(eq, 0.0, mul_3)
    add = where_4 + sum_j_3
    add_2 = where_3 + add
    neg_7 = -add_2
    where_6 = tl.where(ne, neg_7, 0.0)
    tl.store(out_ptr + i0 * out_stride_i + r_i * out_stride_i, where_6.to(tl.float16))


def run(x, w, labels):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, linear_cross_entropy_out)
    _check_tensor("w", w, torch.float16, 2)
    _check_device("w", w, x.device, linear_cross_entropy_out)
    _check_tensor("labels", labels, torch.int64, 1)
    _check_device("labels", labels, x.device, linear_cross_entropy_out)
    N_i = x.shape[0]
    N_k = x.shape[1]
    N_j = w.shape[0]
    _check_shape("x", x, (N_i, N_k))
    _check_shape("w", w, (N_j, N_k))
    _check_shape("labels", labels, (N_i,))
    _check_size("i", N_i == 16384, "of 16384, on which the program depends")
    _check_size("k", N_k == 4096, "of 4096, on which the program depends")
    _check_size("j", N_j == 128256, "of 128256, on which the program depends")
    x = _readable("x", x, (63, 63))
    w = _readable("w", w, (127, 63))
    labels = _readable("labels", labels, (63,))
    out = torch.empty((N_i,), dtype=torch.float16, device=x.device)
    with torch.cuda.device_of(x):
        linear_cross_entropy_out[_grid(triton.cdiv(N_i, 64))](
            labels, x, w, out,
            N_k, N_j, labels.stride(0), x.stride(0), x.stride(1), w.stride(0), w.stride(1), out.stride(0),
            T_i=64, T_k=64, T_j=128,
            num_warps=8, num_stages=2, enable_fp_fusion=True,
        )
    return (out,)
