"""plan for linear_cross_entropy on a100: 1 kernel, 125543.6 us estimated
  linear_cross_entropy_out: labels, w, x -> out
    roles   x_rows=grid:64 cols=stream:32 w_rows=stream:128   (256 programs, 4 warps, 3 stages)
    loops   w_rows x1, cols x1; of w_rows the tiles that labels asks for, which is taken to be all: there is no example
    cost    125543.6 us, bound by shared; 1.38 GB DRAM, 403.46 GB L2, 17214.2 GFLOP, 16.99 G instructions; 24.58 kB shared
    rules   sum_of_one_constant, late_term_out_of_choice, seed_shift, function1, shift_of_term, factor_of_exponential, shift_through_additive, roll_by_factor, term_out_of_single_choice
  memory: 1.38 GB; compulsory 1.19 GB; unfused 55.82 GB in 13 kernels (84371.4 us)
  time against memory: 107632.3 us holding 16.81 GB (13 kernels); 125543.6 us holding 0 B (1 kernel)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: op by op, 107632.3 us, 75.78 GB: 17911.4 us faster but holds 16.81 GB of temporary memory, and 268.44 MB are the limit
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
    N_cols, N_w_rows, labels_stride_x_rows, x_stride_x_rows, x_stride_cols, w_stride_w_rows, w_stride_cols,
    out_stride_x_rows,
    T_x_rows: tl.constexpr, T_cols: tl.constexpr, T_w_rows: tl.constexpr,
):
    """t0[x_rows] = ne(labels, -100)
    t1[x_rows, w_rows] = sum_cols(x * w)
    t2[x_rows, w_rows] = t1 - max_w_rows(t1)
    out[x_rows] = where(t0, -sum_w_rows(where(eq(index(w_rows), where(t0, labels, 0)), t2 - log(sum_w_rows(exp(t2))), 0)), 0)
    rules: sum_of_one_constant, late_term_out_of_choice, seed_shift, function1, shift_of_term, factor_of_exponential, shift_through_additive, roll_by_factor, term_out_of_single_choice
    moves: 1.38 GB of memory for the planned sizes; bound by shared
    """
    pid = tl.program_id(0)
    x_rows_start = pid.to(tl.int64) * T_x_rows
    r_x_rows = tl.arange(0, T_x_rows)
    r_cols = tl.arange(0, T_cols)
    r_w_rows = tl.arange(0, T_w_rows)
    labels = tl.load(labels_ptr + x_rows_start * labels_stride_x_rows + r_x_rows * labels_stride_x_rows)
    ne = labels != -100
    where = tl.where(ne, labels, 0)
    edge_ne = tl.where(ne, 1074790400, 0)
    edge_ne_2 = _max(edge_ne, axis=0)
    sum_w_rows = tl.zeros([T_x_rows], tl.float32)
    max_w_rows = tl.full([T_x_rows], float("-inf"), tl.float32)
    sum_w_rows_2 = tl.zeros([T_x_rows], tl.float32)
    w_rows_to = (tl.minimum(N_w_rows, edge_ne_2)).to(tl.int32)
    for w_rows_start in tl.range(0, w_rows_to, T_w_rows):
        sum_cols = tl.zeros([T_x_rows, T_w_rows], tl.float32)
        for cols_start in tl.range(0, N_cols, T_cols):
            x = tl.load(
                x_ptr + (x_rows_start * x_stride_x_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + (r_x_rows[:, None] * x_stride_x_rows + r_cols[None, :] * x_stride_cols),
            )
            w = tl.load(
                w_ptr + (tl.cast(w_rows_start, tl.int64) * w_stride_w_rows + tl.cast(cols_start, tl.int64) * w_stride_cols) + (r_w_rows[None, :] * w_stride_w_rows + r_cols[:, None] * w_stride_cols),
            )
            sum_cols = tl.dot(x, w, sum_cols, out_dtype=tl.float32)
        tile_max = _max(sum_cols, axis=1)
        max_w_rows_new = _maximum(max_w_rows, tile_max)
        empty = max_w_rows_new == float("-inf")
        safe = tl.where(empty, 0.0, max_w_rows_new)
        diff = safe - max_w_rows
        scaled = diff * -1.4426950408889634
        exp = tl.exp2(scaled)
        diff_2 = sum_cols - safe[:, None]
        scaled_2 = diff_2 * 1.4426950408889634
        exp_2 = tl.exp2(scaled_2)
        tile_sum = tl.sum(exp_2, axis=1)
        sum_w_rows = tl.fma(sum_w_rows, exp, tile_sum)
        at_w_rows = tl.cast(w_rows_start, tl.int32) + r_w_rows
        eq_2 = at_w_rows[None, :] == where[:, None]
        where_5 = tl.where(eq_2, sum_cols, 0.0)
        tile_sum_2 = tl.sum(where_5, axis=1)
        sum_w_rows_2 = sum_w_rows_2 + tile_sum_2
        max_w_rows = max_w_rows_new
    log = tl.log(sum_w_rows)
    neg_4 = log * -1.0
    ge = where >= 0
    n_w_rows = tl.full([], N_w_rows, tl.int64)
    lt = where < n_w_rows
    vand = ge & lt
    where_2 = tl.where(vand, 1.0, 0.0)
    mul_2 = neg_4 * where_2
    eq = where_2 == 0.0
    where_3 = tl.where(eq, 0.0, mul_2)
    neg_5 = max_w_rows * -1.0
    mul_3 = neg_5 * where_2
    where_4 = tl.where(eq, 0.0, mul_3)
    add = where_4 + sum_w_rows_2
    add_2 = where_3 + add
    neg_6 = add_2 * -1.0
    where_6 = tl.where(ne, neg_6, 0.0)
    tl.store(out_ptr + x_rows_start * out_stride_x_rows + r_x_rows * out_stride_x_rows, where_6.to(tl.float16))


def run(x, w, labels):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, linear_cross_entropy_out)
    _check_tensor("w", w, torch.float16, 2)
    _check_device("w", w, x.device, linear_cross_entropy_out)
    _check_tensor("labels", labels, torch.int64, 1)
    _check_device("labels", labels, x.device, linear_cross_entropy_out)
    N_x_rows = x.shape[0]
    N_cols = x.shape[1]
    N_w_rows = w.shape[0]
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
        linear_cross_entropy_out[_grid(triton.cdiv(N_x_rows, 64))](
            labels, x, w, out,
            N_cols, N_w_rows, labels.stride(0), x.stride(0), x.stride(1), w.stride(0), w.stride(1), out.stride(0),
            T_x_rows=64, T_cols=32, T_w_rows=128,
            num_warps=4, num_stages=3, enable_fp_fusion=True,
        )
    return (out,)
