"""plan for mean_variance on h200: 1 kernel, 58.9 us estimated
  mean_variance_out0_out1: x -> out0, out1
    roles   i=grid:1 j=stream:1024   (4096 programs, 2 warps, 2 stages)
    loops   j x1
    cost    58.9 us, bound by dram; 268.47 MB DRAM, 268.47 MB L2, 0.0 GFLOP, 0.27 G instructions; 0 B shared
    rules   seed_shift, function1, shift_of_term, form_of_product, shift_through_additive, keep_plain_accumulator, other_accumulator, sum_of_forms, roll_by_form_of_mean, product_of_terms
  memory: 268.47 MB; compulsory 268.47 MB; unfused 1.61 GB in 4 kernels (347.6 us)
  this module has kernels only: run() takes tensors on a GPU
  search ended: bound
"""


import torch
import triton
import triton.language as tl


@triton.jit
def _lost_digits(new, kept, small):
    """What rounding added to new = kept + small; nothing where it is not finite."""
    lost = (new - kept) - small
    return tl.where(tl.abs(lost) < float("inf"), lost, 0.0)


@triton.jit
def mean_variance_out0_out1(
    x_ptr, out0_ptr, out1_ptr,
    N_j, x_stride_i, x_stride_j, out0_stride_i, out1_stride_i,
    T_j: tl.constexpr,
):
    """out0[i] = mean_j(x)
    out1[i] = mean_j(square(x - out0))
    rules: seed_shift, function1, shift_of_term, form_of_product, shift_through_additive, keep_plain_accumulator, other_accumulator, sum_of_forms, roll_by_form_of_mean, product_of_terms
    moves: 268.47 MB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    i0 = pid.to(tl.int64)
    r_j = tl.arange(0, T_j)
    sum_j = tl.zeros([], tl.float32)
    lost_j = tl.zeros([], tl.float32)
    sum_j_2 = tl.zeros([], tl.float32)
    lost_j_2 = tl.zeros([], tl.float32)
    sum_j_3 = tl.zeros([], tl.float32)
    lost_j_3 = tl.zeros([], tl.float32)
    for j0 in tl.range(0, N_j, T_j):
        x = tl.load(x_ptr + (i0 * x_stride_i + tl.cast(j0, tl.int64) * x_stride_j) + r_j * x_stride_j)
        tile_sum = tl.sum(x, axis=0)
        small = tile_sum - lost_j
        sum_j_new = sum_j + small
        lost_j = _lost_digits(sum_j_new, sum_j, small)
        mean_j_2 = sum_j_new / tl.cast(j0 + T_j, tl.float32)
        mean_j_3 = sum_j / tl.cast(tl.maximum(j0, 1), tl.float32)
        diff = mean_j_2 - mean_j_3
        neg_4 = -diff
        seen_j = tl.cast(j0, tl.float32)
        mul = 1.0 * seen_j
        diff_2 = tl.fma(neg_4, mul, -lost_j_3)
        diff_3 = x - mean_j_2
        tile_sum_2 = tl.sum(diff_3, axis=0)
        small_2 = tile_sum_2 + diff_2
        sum_j_3_new = sum_j_3 + small_2
        lost_j_3 = _lost_digits(sum_j_3_new, sum_j_3, small_2)
        mul_3 = neg_4 * sum_j_3
        diff_4 = mul_3 - lost_j_2
        mul_4 = neg_4 * neg_4
        add = tl.fma(mul_4, mul, mul_3)
        add_2 = add + diff_4
        mul_6 = diff_3 * diff_3
        tile_sum_3 = tl.sum(mul_6, axis=0)
        small_3 = tile_sum_3 + add_2
        sum_j_2_new = sum_j_2 + small_3
        lost_j_2 = _lost_digits(sum_j_2_new, sum_j_2, small_3)
        sum_j = sum_j_new
        sum_j_2 = sum_j_2_new
        sum_j_3 = sum_j_3_new
    mean_j = sum_j / tl.cast(tl.maximum(N_j, 1), tl.float32)
    tl.store(out0_ptr + i0 * out0_stride_i, mean_j)
    mean_j_4 = sum_j_2 / tl.cast(tl.maximum(N_j, 1), tl.float32)
    tl.store(out1_ptr + i0 * out1_stride_i, mean_j_4)


def run(x):
    """Return the tuple (out0, out1), computed by 1 kernel on the device of the arguments."""
    _check_tensor("x", x, torch.float32, 2)
    _check_device("x", x, x.device, mean_variance_out0_out1)
    N_i = x.shape[0]
    N_j = x.shape[1]
    _check_shape("x", x, (N_i, N_j))
    _check_size("i", N_i == 4096, "of 4096, on which the program depends")
    _check_size("j", N_j == 16384, "of 16384, on which the program depends")
    x = _readable("x", x, (0, 1023))
    out0 = torch.empty((N_i,), dtype=torch.float32, device=x.device)
    out1 = torch.empty((N_i,), dtype=torch.float32, device=x.device)
    with torch.cuda.device_of(x):
        mean_variance_out0_out1[_grid(N_i)](
            x, out0, out1,
            N_j, x.stride(0), x.stride(1), out0.stride(0), out1.stride(0),
            T_j=1024,
            num_warps=2, num_stages=2, enable_fp_fusion=True,
        )
    return (out0, out1)
