"""plan for mean_variance on h200: 1 kernel, 67.4 us estimated
  mean_variance_out0_out1: x -> out0, out1
    roles   rows=grid:1 cols=stream:1024   (4096 programs, 2 warps, 1 stages)
    loops   cols x1
    cost    67.4 us, bound by dram; 268.47 MB DRAM, 268.47 MB L2, 0.0 GFLOP, 0.27 G instructions; 0 B shared
    rules   seed_shift, function1, shift_of_term, form_of_product, shift_through_additive, keep_plain_accumulator, other_accumulator, sum_of_forms, roll_by_form_of_mean, product_of_terms
  memory: 268.47 MB; compulsory 268.47 MB; unfused 1.61 GB in 4 kernels (389.2 us)
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
    N_cols, x_stride_rows, x_stride_cols, out0_stride_rows, out1_stride_rows,
    T_cols: tl.constexpr,
):
    """out0[rows] = mean_cols(x)
    out1[rows] = mean_cols(square(x - out0))
    rules: seed_shift, function1, shift_of_term, form_of_product, shift_through_additive, keep_plain_accumulator, other_accumulator, sum_of_forms, roll_by_form_of_mean, product_of_terms
    moves: 268.47 MB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    rows_start = pid.to(tl.int64)
    r_cols = tl.arange(0, T_cols)
    sum_cols = tl.zeros([], tl.float32)
    lost_cols = tl.zeros([], tl.float32)
    sum_cols_2 = tl.zeros([], tl.float32)
    lost_cols_2 = tl.zeros([], tl.float32)
    sum_cols_3 = tl.zeros([], tl.float32)
    lost_cols_3 = tl.zeros([], tl.float32)
    mean_cols_3 = tl.zeros([], tl.float32)
    for cols_start in tl.range(0, N_cols, T_cols):
        x = tl.load(
            x_ptr + (rows_start * x_stride_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + r_cols * x_stride_cols,
        )
        tile_sum = tl.sum(x, axis=0)
        small = tile_sum - lost_cols
        sum_cols_new = sum_cols + small
        lost_cols = _lost_digits(sum_cols_new, sum_cols, small)
        mean_cols_2 = sum_cols_new / tl.cast(cols_start + T_cols, tl.float32)
        diff = mean_cols_2 - mean_cols_3
        neg_4 = diff * -1.0
        seen_cols = tl.cast(cols_start, tl.float32)
        mul = 1.0 * seen_cols
        diff_2 = tl.fma(neg_4, mul, -lost_cols_3)
        diff_3 = x - mean_cols_2
        tile_sum_2 = tl.sum(diff_3, axis=0)
        small_2 = tile_sum_2 + diff_2
        sum_cols_3_new = sum_cols_3 + small_2
        lost_cols_3 = _lost_digits(sum_cols_3_new, sum_cols_3, small_2)
        mul_3 = neg_4 * sum_cols_3
        diff_4 = mul_3 - lost_cols_2
        mul_4 = neg_4 * neg_4
        add = tl.fma(mul_4, mul, mul_3)
        add_2 = add + diff_4
        mul_6 = diff_3 * diff_3
        tile_sum_3 = tl.sum(mul_6, axis=0)
        small_3 = tile_sum_3 + add_2
        sum_cols_2_new = sum_cols_2 + small_3
        lost_cols_2 = _lost_digits(sum_cols_2_new, sum_cols_2, small_3)
        sum_cols = sum_cols_new
        sum_cols_2 = sum_cols_2_new
        sum_cols_3 = sum_cols_3_new
        mean_cols_3 = mean_cols_2
    mean_cols = sum_cols / tl.cast(tl.maximum(N_cols, 1), tl.float32)
    tl.store(out0_ptr + rows_start * out0_stride_rows, mean_cols)
    mean_cols_4 = sum_cols_2 / tl.cast(tl.maximum(N_cols, 1), tl.float32)
    tl.store(out1_ptr + rows_start * out1_stride_rows, mean_cols_4)


def run(x):
    """Return the tuple (out0, out1), computed by 1 kernel on the device of the arguments."""
    _check_tensor("x", x, torch.float32, 2)
    _check_device("x", x, x.device, mean_variance_out0_out1)
    N_rows = x.shape[0]
    N_cols = x.shape[1]
    _check_shape("x", x, (N_rows, N_cols))
    _check_size("rows", N_rows == 4096, "of 4096, on which the program depends")
    _check_size("cols", N_cols == 16384, "of 16384, on which the program depends")
    x = _readable("x", x, (0, 1023))
    out0 = torch.empty((N_rows,), dtype=torch.float32, device=x.device)
    out1 = torch.empty((N_rows,), dtype=torch.float32, device=x.device)
    with torch.cuda.device_of(x):
        mean_variance_out0_out1[_grid(N_rows)](
            x, out0, out1,
            N_cols, x.stride(0), x.stride(1), out0.stride(0), out1.stride(0),
            T_cols=1024,
            num_warps=2, num_stages=1, enable_fp_fusion=True,
        )
    return (out0, out1)
