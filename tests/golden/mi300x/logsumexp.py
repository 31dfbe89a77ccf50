"""plan for logsumexp on mi300x: 1 kernel, 204.2 us estimated
  logsumexp_out: x -> out
    roles   i=grid:1 j=stream:1024   (4096 programs, 2 warps, 2 stages)
    loops   j x1
    cost    204.2 us, bound by dram; 1.05 GB DRAM, 1.05 GB L2, 0.0 GFLOP, 3.19 G instructions; 0 B shared
    rules   seed_shift, function1, function2, choice_by_reference, shift_through_additive, shift_of_term, factor_of_exponential, roll_by_factor
  memory: 1.05 GB; compulsory 1.05 GB; unfused 6.30 GB in 9 kernels (1243.5 us)
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
def logsumexp_out(
    x_ptr, out_ptr,
    N_j, x_stride_i, x_stride_j, out_stride_i,
    T_j: tl.constexpr,
):
    """t0[i] = max_j(x)
    t1[i] = where(eq(abs(t0), inf), 0, t0)
    out[i] = log(sum_j(exp(x - t1))) + t1
    rules: seed_shift, function1, function2, choice_by_reference, shift_through_additive, shift_of_term, factor_of_exponential, roll_by_factor
    moves: 1.05 GB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    i0 = pid.to(tl.int64)
    r_j = tl.arange(0, T_j)
    sum_lanes_j = tl.zeros([T_j], tl.float32)
    max_j = tl.full([], float("-inf"), tl.float32)
    j_full = N_j // T_j * T_j
    for j0 in tl.range(0, j_full, T_j):
        x = tl.load(x_ptr + (i0 * x_stride_i + tl.cast(j0, tl.int64) * x_stride_j) + r_j * x_stride_j)
        x_f = x.to(tl.float32)
        tile_max = _max(x_f, axis=0)
        max_j_new = _maximum(max_j, tile_max)
        empty = max_j_new == float("-inf")
        safe = tl.where(empty, 0.0, max_j_new)
        abs_2 = tl.abs(safe)
        eq = abs_2 == float("inf")
        where = tl.where(eq, 0.0, safe)
        abs_3 = tl.abs(max_j)
        eq_2 = abs_3 == float("inf")
        where_2 = tl.where(eq_2, 0.0, max_j)
        diff = where - where_2
        neg_2 = -diff
        exp = tl.exp(neg_2)
        empty_2 = max_j == float("-inf")
        factor = tl.where(empty_2, 1.0, exp)
        diff_2 = x_f - where
        exp_2 = tl.exp(diff_2)
        sum_lanes_j = tl.fma(sum_lanes_j, factor, exp_2)
        max_j = max_j_new
    for j0 in tl.range(j_full, N_j, T_j, num_stages=1):  # the ragged last tile
        j_ok = j0 + r_j < N_j
        x = tl.load(x_ptr + (i0 * x_stride_i + tl.cast(j0, tl.int64) * x_stride_j) + r_j * x_stride_j, mask=j_ok, other=0.0)
        x_f = x.to(tl.float32)
        x_f_ok = tl.where(j_ok, x_f, float("-inf"))
        tile_max = _max(x_f_ok, axis=0)
        max_j_new = _maximum(max_j, tile_max)
        empty = max_j_new == float("-inf")
        safe = tl.where(empty, 0.0, max_j_new)
        abs_2 = tl.abs(safe)
        eq = abs_2 == float("inf")
        where = tl.where(eq, 0.0, safe)
        abs_3 = tl.abs(max_j)
        eq_2 = abs_3 == float("inf")
        where_2 = tl.where(eq_2, 0.0, max_j)
        diff = where - where_2
        neg_2 = -diff
        exp = tl.exp(neg_2)
        empty_2 = max_j == float("-inf")
        factor = tl.where(empty_2, 1.0, exp)
        diff_2 = x_f - where
        exp_2 = tl.exp(diff_2)
        exp_2_ok = tl.where(j_ok, exp_2, 0.0)
        sum_lanes_j = tl.fma(sum_lanes_j, factor, exp_2_ok)
        max_j = max_j_new
    sum_j = tl.sum(sum_lanes_j, axis=0)
    log = tl.log(sum_j)
    abs_4 = tl.abs(max_j)
    eq_3 = abs_4 == float("inf")
    where_3 = tl.where(eq_3, 0.0, max_j)
    add = log + where_3
    tl.store(out_ptr + i0 * out_stride_i, add.to(tl.float16))


def run(x):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, logsumexp_out)
    N_i = x.shape[0]
    N_j = x.shape[1]
    _check_shape("x", x, (N_i, N_j))
    _check_size("i", N_i == 4096, "of 4096, on which the program depends")
    _check_size("j", N_j == 128256, "of 128256, on which the program depends")
    x = _readable("x", x, (0, 1023))
    out = torch.empty((N_i,), dtype=torch.float16, device=x.device)
    with torch.cuda.device_of(x):
        logsumexp_out[_grid(N_i)](
            x, out,
            N_j, x.stride(0), x.stride(1), out.stride(0),
            T_j=1024,
            num_warps=2, num_stages=2, enable_fp_fusion=True,
        )
    return (out,)
