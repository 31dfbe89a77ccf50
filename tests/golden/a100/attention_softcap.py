"""plan for attention_softcap on a100: 2 kernels, 2235.5 us estimated
  attention_softcap_t3: k, q -> t3
    roles   batch=grid:1 q_rows=grid:128 q_cols=resident:128 k_rows=grid:128   (32768 programs, 8 warps, 1 stages)
    loops   none (whole rows on chip)
    cost    797.1 us, bound by l2; 1.14 GB DRAM, 3.22 GB L2, 137.4 GFLOP, 0.00 G instructions; 65.54 kB shared
  attention_softcap_out: t3, v -> out
    roles   batch=grid:1 q_rows=grid:64 k_rows=stream:64 v_cols=grid:128   (2048 programs, 4 warps, 3 stages)
    loops   k_rows x1
    cost    1438.3 us, bound by issue; 1.14 GB DRAM, 3.25 GB L2, 137.4 GFLOP, 14.29 G instructions; 49.15 kB shared
    rules   factor_out_of_selection, seed_shift, difference_of_multiples, scale_scaled, exponential_to_base_two, scale_negation, roll_by_factor, factor_of_product, factor_out
  memory: 2.28 GB; compulsory 134.22 MB; unfused 19.46 GB in 11 kernels (11288.6 us)
  time against memory: 2235.5 us holding 1.07 GB (2 kernels); 2441.9 us holding 0 B (1 kernel)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: one kernel, 2441.9 us, 134.22 MB: 206.5 us slower: 1 kernel, attention_softcap_out is bound by shared
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
def _tanh(x):
    """tanh without cancellation near zero: an odd polynomial for |x| < 0.3, exponentials of a negative argument beyond."""
    a = tl.abs(x)
    e = tl.exp(-2.0 * a)
    y = x * x
    near = x + x * y * (-0.33333333 + y * (0.13333333 + y * (-0.053968254 + y * (0.021869488 - 0.008863236 * y))))
    far = (1.0 - e) / (1.0 + e)
    return tl.where(a < 0.3, near, tl.where(x < 0.0, -far, far))


@triton.jit
def _max(x, axis: tl.constexpr):
    """The largest along an axis; NaN if any is NaN, as in torch (tl.max alone ignores it)."""
    return tl.reduce(x, axis, _maximum)


@triton.jit
def attention_softcap_t3(
    q_ptr, k_ptr, t3_ptr,
    N_q_rows, N_k_rows, q_stride_batch, q_stride_q_rows, q_stride_q_cols, k_stride_batch, k_stride_k_rows, k_stride_q_cols,
    t3_stride_batch, t3_stride_q_rows, t3_stride_k_rows,
    T_q_rows: tl.constexpr, T_q_cols: tl.constexpr, T_k_rows: tl.constexpr,
):
    """t3[batch, q_rows, k_rows] = sum_q_cols(q * k)
    moves: 1.14 GB of memory for the planned sizes; bound by l2
    """
    pid = tl.program_id(0)
    k_rows_start = (pid % tl.cdiv(N_k_rows, T_k_rows)).to(tl.int64) * T_k_rows
    pid = pid // tl.cdiv(N_k_rows, T_k_rows)
    q_rows_start = (pid % tl.cdiv(N_q_rows, T_q_rows)).to(tl.int64) * T_q_rows
    pid = pid // tl.cdiv(N_q_rows, T_q_rows)
    batch_start = pid.to(tl.int64)
    r_q_rows = tl.arange(0, T_q_rows)
    r_q_cols = tl.arange(0, T_q_cols)
    r_k_rows = tl.arange(0, T_k_rows)
    q = tl.load(
        q_ptr + (batch_start * q_stride_batch + q_rows_start * q_stride_q_rows) + (r_q_rows[:, None] * q_stride_q_rows + r_q_cols[None, :] * q_stride_q_cols),
    )
    k = tl.load(
        k_ptr + (batch_start * k_stride_batch + k_rows_start * k_stride_k_rows) + (r_k_rows[None, :] * k_stride_k_rows + r_q_cols[:, None] * k_stride_q_cols),
    )
    dot_q_cols = tl.dot(q, k, out_dtype=tl.float32)
    tl.store(
        t3_ptr + (batch_start * t3_stride_batch + q_rows_start * t3_stride_q_rows + k_rows_start * t3_stride_k_rows) + (r_q_rows[:, None] * t3_stride_q_rows + r_k_rows[None, :] * t3_stride_k_rows),
        dot_q_cols.to(tl.float16),
    )


@triton.jit
def attention_softcap_out(
    t3_ptr, v_ptr, out_ptr,
    N_q_rows, N_k_rows, N_v_cols, t3_stride_batch, t3_stride_q_rows, t3_stride_k_rows, v_stride_batch, v_stride_k_rows,
    v_stride_v_cols, out_stride_batch, out_stride_q_rows, out_stride_v_cols,
    T_q_rows: tl.constexpr, T_k_rows: tl.constexpr, T_v_cols: tl.constexpr,
):
    """t0[batch, q_rows, k_rows] = tanh(sum_q_cols(q * k) * 0.0883883 * 0.02) * 50
    t1[batch, q_rows, k_rows] = exp(t0 - max_k_rows(t0))
    out[batch, q_rows, v_cols] = sum_k_rows(t1 / sum_k_rows(t1) * v)
    rules: factor_out_of_selection, seed_shift, difference_of_multiples, scale_scaled, exponential_to_base_two, scale_negation, roll_by_factor, factor_of_product, factor_out
    moves: 1.14 GB of memory for the planned sizes; bound by issue
    """
    pid = tl.program_id(0)
    v_cols_start = (pid % tl.cdiv(N_v_cols, T_v_cols)).to(tl.int64) * T_v_cols
    pid = pid // tl.cdiv(N_v_cols, T_v_cols)
    q_rows_start = (pid % tl.cdiv(N_q_rows, T_q_rows)).to(tl.int64) * T_q_rows
    pid = pid // tl.cdiv(N_q_rows, T_q_rows)
    batch_start = pid.to(tl.int64)
    r_q_rows = tl.arange(0, T_q_rows)
    r_k_rows = tl.arange(0, T_k_rows)
    r_v_cols = tl.arange(0, T_v_cols)
    sum_k_rows = tl.zeros([T_q_rows], tl.float32)
    max_k_rows = tl.full([T_q_rows], float("-inf"), tl.float32)
    sum_k_rows_2 = tl.zeros([T_q_rows, T_v_cols], tl.float32)
    for k_rows_start in tl.range(0, N_k_rows, T_k_rows):
        t3 = tl.load(
            t3_ptr + (batch_start * t3_stride_batch + q_rows_start * t3_stride_q_rows + tl.cast(k_rows_start, tl.int64) * t3_stride_k_rows) + (r_q_rows[:, None] * t3_stride_q_rows + r_k_rows[None, :] * t3_stride_k_rows),
        )
        t3_f = t3.to(tl.float32)
        mul = t3_f * 0.08838834764831845
        mul_2 = mul * 0.02
        tanh = _tanh(mul_2)
        tile_max = _max(tanh, axis=1)
        max_k_rows_new = _maximum(max_k_rows, tile_max)
        diff = max_k_rows_new - max_k_rows
        mul_3 = diff * 72.13475204444816
        neg_2 = mul_3 * -1.0
        exp2 = tl.exp2(neg_2)
        diff_2 = tanh - max_k_rows_new[:, None]
        mul_5 = diff_2 * 72.13475204444816
        exp2_2 = tl.exp2(mul_5)
        tile_sum = tl.sum(exp2_2, axis=1)
        sum_k_rows = tl.fma(sum_k_rows, exp2, tile_sum)
        mul_6 = sum_k_rows_2 * exp2[:, None]
        exp2_2_fp16 = exp2_2.to(tl.float16)
        v = tl.load(
            v_ptr + (batch_start * v_stride_batch + tl.cast(k_rows_start, tl.int64) * v_stride_k_rows + v_cols_start * v_stride_v_cols) + (r_k_rows[:, None] * v_stride_k_rows + r_v_cols[None, :] * v_stride_v_cols),
        )
        sum_k_rows_2 = tl.dot(exp2_2_fp16, v, mul_6, out_dtype=tl.float32)
        max_k_rows = max_k_rows_new
    recip = 1.0 / sum_k_rows
    mul_7 = recip[:, None] * sum_k_rows_2
    tl.store(
        out_ptr + (batch_start * out_stride_batch + q_rows_start * out_stride_q_rows + v_cols_start * out_stride_v_cols) + (r_q_rows[:, None] * out_stride_q_rows + r_v_cols[None, :] * out_stride_v_cols),
        mul_7.to(tl.float16),
    )


def run(q, k, v):
    """Return the tuple (out), computed by 2 kernels on the device of the arguments."""
    _check_tensor("q", q, torch.float16, 4)
    _check_device("q", q, q.device, attention_softcap_t3)
    _check_tensor("k", k, torch.float16, 4)
    _check_device("k", k, q.device, attention_softcap_t3)
    _check_tensor("v", v, torch.float16, 4)
    _check_device("v", v, q.device, attention_softcap_t3)
    N_batch = q.shape[1]
    N_q_rows = q.shape[2]
    N_q_cols = q.shape[3]
    N_k_rows = k.shape[2]
    N_v_cols = v.shape[3]
    _check_shape("q", q, (1, N_batch, N_q_rows, N_q_cols))
    _check_shape("k", k, (1, N_batch, N_k_rows, N_q_cols))
    _check_shape("v", v, (1, N_batch, N_k_rows, N_v_cols))
    _check_size("batch", N_batch == 32, "of 32, on which the program depends")
    _check_size("q_rows", N_q_rows == 4096, "of 4096, on which the program depends")
    _check_size("q_cols", N_q_cols == 128, "of 128, on which the program depends")
    _check_size("k_rows", N_k_rows == 4096, "of 4096, on which the program depends")
    _check_size("v_cols", N_v_cols == 128, "of 128, on which the program depends")
    q = _readable("q", q, (0, 0, 127, 127))
    k = _readable("k", k, (0, 0, 127, 127))
    v = _readable("v", v, (0, 0, 63, 127))
    out = torch.empty((1, N_batch, N_q_rows, N_v_cols), dtype=torch.float16, device=q.device)
    _check_reach("out", out.stride(), (0, 0, 63, 127))
    with torch.cuda.device_of(q):
        t3 = torch.empty((N_batch, N_q_rows, N_k_rows), dtype=torch.float16, device=q.device)
        _check_reach("t3", t3.stride(), (0, 127, 127))
        attention_softcap_t3[_grid(N_batch * triton.cdiv(N_q_rows, 128) * triton.cdiv(N_k_rows, 128))](
            q, k, t3,
            N_q_rows, N_k_rows, q.stride(1), q.stride(2), q.stride(3), k.stride(1), k.stride(2), k.stride(3), t3.stride(0),
            t3.stride(1), t3.stride(2),
            T_q_rows=128, T_q_cols=128, T_k_rows=128,
            num_warps=8, num_stages=1, enable_fp_fusion=True,
        )
        attention_softcap_out[_grid(N_batch * triton.cdiv(N_q_rows, 64) * triton.cdiv(N_v_cols, 128))](
            t3, v, out,
            N_q_rows, N_k_rows, N_v_cols, t3.stride(0), t3.stride(1), t3.stride(2), v.stride(1), v.stride(2), v.stride(3),
            out.stride(1), out.stride(2), out.stride(3),
            T_q_rows=64, T_k_rows=64, T_v_cols=128,
            num_warps=4, num_stages=3, enable_fp_fusion=True,
        )
    return (out,)
