"""plan for softmax_entropy on a100: 1 kernel, 518.8 us estimated
  softmax_entropy_out: x -> out
    roles   i=grid:1 j=stream:1024   (4096 programs, 2 warps, 2 stages)
    loops   j x1
    cost    518.8 us, bound by dram; 1.05 GB DRAM, 1.05 GB L2, 0.0 GFLOP, 4.78 G instructions; 0 B shared
    rules   seed_shift, function1, shift_of_term, factor_of_exponential, shift_through_additive, roll_by_factor, late_term_out_of_sum, form_times_factor, own_accumulator, product_of_terms, other_accumulator, sum_of_forms, roll_by_form, factor_out
  memory: 1.05 GB; compulsory 1.05 GB; unfused 14.71 GB in 9 kernels (7245.6 us)
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
    N_j, x_stride_i, x_stride_j, out_stride_i,
    T_j: tl.constexpr,
):
    """t0[i, j] = x - max_j(x)
    t1[i, j] = exp(t0)
    t2[i] = sum_j(t1)
    out[i] = -sum_j(t1 / t2 * (t0 - log(t2)))
    rules: seed_shift, function1, shift_of_term, factor_of_exponential, shift_through_additive, roll_by_factor, late_term_out_of_sum, form_times_factor, own_accumulator, product_of_terms, other_accumulator, sum_of_forms, roll_by_form, factor_out
    moves: 1.05 GB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    i0 = pid.to(tl.int64)
    r_j = tl.arange(0, T_j)
    sum_lanes_j = tl.zeros([T_j], tl.float32)
    max_j = tl.full([], float("-inf"), tl.float32)
    sum_j_2 = tl.zeros([], tl.float32)
    sum_j_3 = tl.zeros([], tl.float32)
    j_full = N_j // T_j * T_j
    for j0 in tl.range(0, j_full, T_j):
        x = tl.load(x_ptr + (i0 * x_stride_i + tl.cast(j0, tl.int64) * x_stride_j) + r_j * x_stride_j)
        x_f = x.to(tl.float32)
        tile_max = _max(x_f, axis=0)
        max_j_new = _maximum(max_j, tile_max)
        empty = max_j_new == float("-inf")
        safe = tl.where(empty, 0.0, max_j_new)
        diff = safe - max_j
        neg_2 = -diff
        exp = tl.exp(neg_2)
        diff_2 = x_f - safe
        exp_2 = tl.exp(diff_2)
        sum_lanes_j = tl.fma(sum_lanes_j, exp, exp_2)
        mul_4 = neg_2 * exp
        tile_sum = tl.sum(exp_2, axis=0)
        sum_j_3_new = tl.fma(sum_j_3, exp, tile_sum)
        mul_6 = mul_4 * sum_j_3
        add = tl.fma(exp, sum_j_2, mul_6)
        empty_2 = max_j == float("-inf")
        empty_3 = sum_j_3 == 0.0
        empty_4 = empty_2 | empty_3
        where = tl.where(empty_4, sum_j_2, add)
        mul_7 = diff_2 * exp_2
        tile_sum_2 = tl.sum(mul_7, axis=0)
        sum_j_2 = where + tile_sum_2
        max_j = max_j_new
        sum_j_3 = sum_j_3_new
    for j0 in tl.range(j_full, N_j, T_j, num_stages=1):  # the ragged last tile
        j_ok = j0 + r_j < N_j
        x = tl.load(x_ptr + (i0 * x_stride_i + tl.cast(j0, tl.int64) * x_stride_j) + r_j * x_stride_j, mask=j_ok, other=0.0)
        x_f = x.to(tl.float32)
        x_f_ok = tl.where(j_ok, x_f, float("-inf"))
        tile_max = _max(x_f_ok, axis=0)
        max_j_new = _maximum(max_j, tile_max)
        empty = max_j_new == float("-inf")
        safe = tl.where(empty, 0.0, max_j_new)
        diff = safe - max_j
        neg_2 = -diff
        exp = tl.exp(neg_2)
        diff_2 = x_f - safe
        exp_2 = tl.exp(diff_2)
        exp_2_ok = tl.where(j_ok, exp_2, 0.0)
        sum_lanes_j = tl.fma(sum_lanes_j, exp, exp_2_ok)
        mul_4 = neg_2 * exp
        tile_sum = tl.sum(exp_2_ok, axis=0)
        sum_j_3_new = tl.fma(sum_j_3, exp, tile_sum)
        mul_6 = mul_4 * sum_j_3
        add = tl.fma(exp, sum_j_2, mul_6)
        empty_2 = max_j == float("-inf")
        empty_3 = sum_j_3 == 0.0
        empty_4 = empty_2 | empty_3
        where = tl.where(empty_4, sum_j_2, add)
        mul_7 = diff_2 * exp_2
        mul_7_ok = tl.where(j_ok, mul_7, 0.0)
        tile_sum_2 = tl.sum(mul_7_ok, axis=0)
        sum_j_2 = where + tile_sum_2
        max_j = max_j_new
        sum_j_3 = sum_j_3_new
    sum_j = tl.sum(sum_lanes_j, axis=0)
    recip = 1.0 / sum_j
    log = tl.log(sum_j)
    neg_4 = -log
    add_2 = tl.fma(neg_4, sum_j, sum_j_2)
    mul_8 = recip * add_2
    neg_5 = -mul_8
    tl.store(out_ptr + i0 * out_stride_i, neg_5.to(tl.float16))


def run(x):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, softmax_entropy_out)
    N_i = x.shape[0]
    N_j = x.shape[1]
    _check_shape("x", x, (N_i, N_j))
    _check_size("i", N_i == 4096, "of 4096, on which the program depends")
    _check_size("j", N_j == 128256, "of 128256, on which the program depends")
    x = _readable("x", x, (0, 1023))
    out = torch.empty((N_i,), dtype=torch.float16, device=x.device)
    with torch.cuda.device_of(x):
        softmax_entropy_out[_grid(N_i)](
            x, out,
            N_j, x.stride(0), x.stride(1), out.stride(0),
            T_j=1024,
            num_warps=2, num_stages=2, enable_fp_fusion=True,
        )
    return (out,)
