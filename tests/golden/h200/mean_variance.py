"""plan for mean_variance on h200: 1 kernel, 81.9 us estimated
  mean_variance_out0_out1: x -> out0, out1
    roles   rows=grid:8 cols=stream:1024   (512 programs, 16 warps, 1 stages)
    loops   cols x1
    cost    81.9 us, bound by issue; 268.47 MB DRAM, 268.48 MB L2, 0.0 GFLOP, 0.41 G instructions; 0 B shared
    rules   centre, seed_shift, function1, shift_of_term, form_of_product, shift_through_additive, keep_plain_accumulator, other_accumulator, sum_of_forms, roll_by_form_of_mean, product_of_terms
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
    T_rows: tl.constexpr, T_cols: tl.constexpr,
):
    """out0[rows] = mean_cols(x)
    out1[rows] = mean_cols(square(x - out0))
    rules: centre, seed_shift, function1, shift_of_term, form_of_product, shift_through_additive, keep_plain_accumulator, other_accumulator, sum_of_forms, roll_by_form_of_mean, product_of_terms
    moves: 268.47 MB of memory for the planned sizes; bound by issue
    """
    pid = tl.program_id(0)
    rows_start = pid.to(tl.int64) * T_rows
    r_rows = tl.arange(0, T_rows)
    r_cols = tl.arange(0, T_cols)
    x = tl.load(x_ptr + rows_start * x_stride_rows + r_rows * x_stride_rows)
    abs_2 = tl.abs(x)
    lt = abs_2 < 8.507059173023462e+37
    where = tl.where(lt, x, 0.0)
    sum_cols = tl.zeros([T_rows], tl.float32)
    lost_cols = tl.zeros([T_rows], tl.float32)
    sum_cols_2 = tl.zeros([T_rows], tl.float32)
    lost_cols_2 = tl.zeros([T_rows], tl.float32)
    sum_cols_3 = tl.zeros([T_rows], tl.float32)
    lost_cols_3 = tl.zeros([T_rows], tl.float32)
    sum_cols_4 = tl.zeros([T_rows], tl.float32)
    lost_cols_4 = tl.zeros([T_rows], tl.float32)
    mean_cols_4 = tl.zeros([T_rows], tl.float32)
    for cols_start in tl.range(0, N_cols, T_cols):
        x_2 = tl.load(
            x_ptr + (rows_start * x_stride_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + (r_rows[:, None] * x_stride_rows + r_cols[None, :] * x_stride_cols),
        )
        diff = x_2 - where[:, None]
        tile_sum = tl.sum(diff, axis=1)
        small = tile_sum - lost_cols
        sum_cols_new = sum_cols + small
        lost_cols = _lost_digits(sum_cols_new, sum_cols, small)
        tile_sum_2 = tl.sum(x_2, axis=1)
        small_2 = tile_sum_2 - lost_cols_2
        sum_cols_2_new = sum_cols_2 + small_2
        lost_cols_2 = _lost_digits(sum_cols_2_new, sum_cols_2, small_2)
        mean_cols_3 = tl.div_rn(sum_cols_new, tl.cast(cols_start + T_cols, tl.float32))
        add_2 = where + mean_cols_3
        add_3 = where + mean_cols_4
        diff_2 = add_2 - add_3
        neg_6 = diff_2 * -1.0
        seen_cols = tl.cast(cols_start, tl.float32)
        mul_2 = 1.0 * seen_cols
        diff_3 = tl.fma(neg_6, mul_2, -lost_cols_4)
        diff_4 = x_2 - add_2[:, None]
        tile_sum_3 = tl.sum(diff_4, axis=1)
        small_3 = tile_sum_3 + diff_3
        sum_cols_4_new = sum_cols_4 + small_3
        lost_cols_4 = _lost_digits(sum_cols_4_new, sum_cols_4, small_3)
        mul_4 = neg_6 * sum_cols_4
        diff_5 = mul_4 - lost_cols_3
        mul_5 = neg_6 * neg_6
        add_4 = tl.fma(mul_5, mul_2, mul_4)
        add_5 = add_4 + diff_5
        mul_7 = diff_4 * diff_4
        tile_sum_4 = tl.sum(mul_7, axis=1)
        small_4 = tile_sum_4 + add_5
        sum_cols_3_new = sum_cols_3 + small_4
        lost_cols_3 = _lost_digits(sum_cols_3_new, sum_cols_3, small_4)
        sum_cols = sum_cols_new
        sum_cols_2 = sum_cols_2_new
        sum_cols_3 = sum_cols_3_new
        sum_cols_4 = sum_cols_4_new
        mean_cols_4 = mean_cols_3
    mean_cols = tl.div_rn(sum_cols, tl.cast(tl.maximum(N_cols, 1), tl.float32))
    add = where + mean_cols
    abs_4 = tl.abs(add)
    mul = abs_4 * 2.0
    abs_3 = tl.abs(where)
    lt_2 = abs_3 < mul
    mean_cols_2 = tl.div_rn(sum_cols_2, tl.cast(tl.maximum(N_cols, 1), tl.float32))
    where_2 = tl.where(lt_2, add, mean_cols_2)
    tl.store(out0_ptr + rows_start * out0_stride_rows + r_rows * out0_stride_rows, where_2)
    mean_cols_5 = tl.div_rn(sum_cols_3, tl.cast(tl.maximum(N_cols, 1), tl.float32))
    tl.store(out1_ptr + rows_start * out1_stride_rows + r_rows * out1_stride_rows, mean_cols_5)


def run(x):
    """Return the tuple (out0, out1), computed by 1 kernel on the device of the arguments."""
    _check_tensor("x", x, torch.float32, 2)
    _check_device("x", x, x.device, mean_variance_out0_out1)
    N_rows = x.shape[0]
    N_cols = x.shape[1]
    _check_shape("x", x, (N_rows, N_cols))
    _check_size("rows", N_rows == 4096, "of 4096, on which the program depends")
    _check_size("cols", N_cols == 16384, "of 16384, on which the program depends")
    x = _readable("x", x, (7, 1023))
    out0 = torch.empty((N_rows,), dtype=torch.float32, device=x.device)
    out1 = torch.empty((N_rows,), dtype=torch.float32, device=x.device)
    with torch.cuda.device_of(x):
        mean_variance_out0_out1[_grid(triton.cdiv(N_rows, 8))](
            x, out0, out1,
            N_cols, x.stride(0), x.stride(1), out0.stride(0), out1.stride(0),
            T_rows=8, T_cols=1024,
            num_warps=16, num_stages=1, enable_fp_fusion=True,
        )
    return (out0, out1)
