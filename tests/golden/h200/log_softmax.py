"""plan for log_softmax on h200: 1 kernel, 440.8 us estimated
  log_softmax_out: x -> out
    roles   i=grid:1 j=stream:8192   (132 programs for 4096 tiles, 16 warps, 2 stages)
    loops   j x2
    cost    440.8 us, bound by dram; 2.10 GB DRAM, 3.15 GB L2, 0.0 GFLOP, 4.93 G instructions; 0 B shared
    rules   seed_shift, function1, shift_of_term, factor_of_exponential, shift_through_additive, roll_by_factor
  memory: 2.10 GB; compulsory 2.10 GB; unfused 8.41 GB in 6 kernels (1769.1 us)
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
def log_softmax_out(
    x_ptr, out_ptr,
    N_i, N_j, x_stride_i, x_stride_j, out_stride_i, out_stride_j,
    T_j: tl.constexpr,
):
    """t0[i, j] = x - max_j(x)
    out[i, j] = t0 - log(sum_j(exp(t0)))
    rules: seed_shift, function1, shift_of_term, factor_of_exponential, shift_through_additive, roll_by_factor
    moves: 2.10 GB of memory for the planned sizes; bound by dram
    """
    r_j = tl.arange(0, T_j)
    tasks = N_i
    for task in tl.range(tl.program_id(0), tasks, tl.num_programs(0), num_stages=1):
        pid = task
        i0 = pid.to(tl.int64)
        max_j = tl.full([], float("-inf"), tl.float32)
        sum_lanes_j = tl.zeros([T_j], tl.float32)
        j_b_full = N_j // T_j * T_j
        for j_b0 in tl.range(0, j_b_full, T_j):
            x_2 = tl.load(
                x_ptr + (i0 * x_stride_i + tl.cast(j_b0, tl.int64) * x_stride_j) + r_j * x_stride_j,
                eviction_policy="evict_last",
            )
            x_2_f = x_2.to(tl.float32)
            tile_max = _max(x_2_f, axis=0)
            max_j_new = _maximum(max_j, tile_max)
            empty = max_j_new == float("-inf")
            safe = tl.where(empty, 0.0, max_j_new)
            diff_2 = safe - max_j
            neg_3 = -diff_2
            exp = tl.exp(neg_3)
            diff_3 = x_2_f - safe
            exp_2 = tl.exp(diff_3)
            sum_lanes_j = tl.fma(sum_lanes_j, exp, exp_2)
            max_j = max_j_new
        for j_b0 in tl.range(j_b_full, N_j, T_j, num_stages=1):  # the ragged last tile
            j_b_ok = j_b0 + r_j < N_j
            x_2 = tl.load(
                x_ptr + (i0 * x_stride_i + tl.cast(j_b0, tl.int64) * x_stride_j) + r_j * x_stride_j,
                mask=j_b_ok,
                other=0.0,
                eviction_policy="evict_last",
            )
            x_2_f = x_2.to(tl.float32)
            x_2_f_ok = tl.where(j_b_ok, x_2_f, float("-inf"))
            tile_max = _max(x_2_f_ok, axis=0)
            max_j_new = _maximum(max_j, tile_max)
            empty = max_j_new == float("-inf")
            safe = tl.where(empty, 0.0, max_j_new)
            diff_2 = safe - max_j
            neg_3 = -diff_2
            exp = tl.exp(neg_3)
            diff_3 = x_2_f - safe
            exp_2 = tl.exp(diff_3)
            exp_2_ok = tl.where(j_b_ok, exp_2, 0.0)
            sum_lanes_j = tl.fma(sum_lanes_j, exp, exp_2_ok)
            max_j = max_j_new
        sum_j = tl.sum(sum_lanes_j, axis=0)
        log = tl.log(sum_j)
        j_full = N_j // T_j * T_j
        for j0 in tl.range(0, j_full, T_j):
            x = tl.load(
                x_ptr + (i0 * x_stride_i + tl.cast(j0, tl.int64) * x_stride_j) + r_j * x_stride_j,
                eviction_policy="evict_first",
            )
            x_f = x.to(tl.float32)
            diff = x_f - max_j
            diff_4 = diff - log
            tl.store(
                out_ptr + (i0 * out_stride_i + tl.cast(j0, tl.int64) * out_stride_j) + r_j * out_stride_j,
                diff_4.to(tl.float16),
                eviction_policy="evict_first",
            )
        for j0 in tl.range(j_full, N_j, T_j, num_stages=1):  # the ragged last tile
            j_ok = j0 + r_j < N_j
            x = tl.load(
                x_ptr + (i0 * x_stride_i + tl.cast(j0, tl.int64) * x_stride_j) + r_j * x_stride_j,
                mask=j_ok,
                other=0.0,
                eviction_policy="evict_first",
            )
            x_f = x.to(tl.float32)
            diff = x_f - max_j
            diff_4 = diff - log
            tl.store(
                out_ptr + (i0 * out_stride_i + tl.cast(j0, tl.int64) * out_stride_j) + r_j * out_stride_j,
                diff_4.to(tl.float16),
                mask=j_ok,
                eviction_policy="evict_first",
            )


def run(x):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, log_softmax_out)
    N_i = x.shape[0]
    N_j = x.shape[1]
    _check_shape("x", x, (N_i, N_j))
    _check_size("i", N_i == 4096, "of 4096, on which the program depends")
    _check_size("j", N_j == 128256, "of 128256, on which the program depends")
    x = _readable("x", x, (0, 8191))
    out = torch.empty((N_i, N_j), dtype=torch.float16, device=x.device)
    with torch.cuda.device_of(x):
        log_softmax_out[(min(N_i, 132),)](
            x, out,
            N_i, N_j, x.stride(0), x.stride(1), out.stride(0), out.stride(1),
            T_j=8192,
            num_warps=16, num_stages=2, maxnreg=128, enable_fp_fusion=True,
        )
    return (out,)
