"""plan for attention on h200: 1 kernel, 564.4 us estimated
  attention_out: k, q, v -> out
    roles   batch=grid:1 q_rows=grid:128 q_cols=resident:128 k_rows=stream:128 v_cols=grid:128   (1024 programs, 8 warps, 3 stages)
    copies  k, v in blocks by tensor descriptors
    loops   k_rows x1
    cost    564.4 us, bound by tensor; 134.22 MB DRAM, 2.21 GB L2, 274.9 GFLOP, 3.54 G instructions; 229.38 kB shared
    rules   factor_out_of_selection, seed_shift, difference_of_multiples, scale_scaled, exponential_to_base_two, scale_negation, roll_by_factor, factor_of_product, factor_out
  memory: 134.22 MB; compulsory 134.22 MB; unfused 13.02 GB in 8 kernels (3073.2 us)
  this module has kernels only: run() takes tensors on a GPU
  search ended: exhausted
"""


import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def _maximum(a, b):
    """The larger of two; NaN if either is NaN, as in torch (tl.maximum alone ignores it)."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _max(x, axis: tl.constexpr):
    """The largest along an axis; NaN if any is NaN, as in torch (tl.max alone ignores it)."""
    return tl.reduce(x, axis, _maximum)


@triton.jit
def attention_out(
    q_ptr, k_ptr, v_ptr, out_ptr,
    k_block, v_block,
    N_q_rows, N_k_rows, N_v_cols, q_stride_batch, q_stride_q_rows, q_stride_q_cols, k_stride_batch, k_stride_k_rows,
    k_stride_q_cols, v_stride_batch, v_stride_k_rows, v_stride_v_cols, out_stride_batch, out_stride_q_rows,
    out_stride_v_cols,
    T_q_rows: tl.constexpr, T_q_cols: tl.constexpr, T_k_rows: tl.constexpr, T_v_cols: tl.constexpr,
):
    """t0[batch, q_rows, k_rows] = sum_q_cols(q * k) * 0.0883883
    t1[batch, q_rows, k_rows] = exp(t0 - max_k_rows(t0))
    out[batch, q_rows, v_cols] = sum_k_rows(t1 / sum_k_rows(t1) * v)
    rules: factor_out_of_selection, seed_shift, difference_of_multiples, scale_scaled, exponential_to_base_two, scale_negation, roll_by_factor, factor_of_product, factor_out
    moves: 134.22 MB of memory for the planned sizes; bound by tensor
    """
    pid = tl.program_id(0)
    v_cols_start = (pid % tl.cdiv(N_v_cols, T_v_cols)).to(tl.int64) * T_v_cols
    pid = pid // tl.cdiv(N_v_cols, T_v_cols)
    q_rows_start = (pid % tl.cdiv(N_q_rows, T_q_rows)).to(tl.int64) * T_q_rows
    pid = pid // tl.cdiv(N_q_rows, T_q_rows)
    batch_start = pid.to(tl.int64)
    r_q_rows = tl.arange(0, T_q_rows)
    r_q_cols = tl.arange(0, T_q_cols)
    r_k_rows = tl.arange(0, T_k_rows)
    r_v_cols = tl.arange(0, T_v_cols)
    q = tl.load(
        q_ptr + (batch_start * q_stride_batch + q_rows_start * q_stride_q_rows) + (r_q_rows[:, None] * q_stride_q_rows + r_q_cols[None, :] * q_stride_q_cols),
    )
    sum_k_rows = tl.zeros([T_q_rows], tl.float32)
    max_k_rows = tl.full([T_q_rows], float("-inf"), tl.float32)
    sum_k_rows_2 = tl.zeros([T_q_rows, T_v_cols], tl.float32)
    reference_2 = tl.full([T_q_rows], float("-inf"), tl.float32)
    for k_rows_start in tl.range(0, N_k_rows, T_k_rows):
        if k_block is not None:
            k = tl.permute(k_block.load([0, tl.cast(batch_start, tl.int32), tl.cast(k_rows_start, tl.int32), 0]).reshape([T_k_rows, T_q_cols]), (1, 0))
        else:
            k = tl.load(
                k_ptr + (batch_start * k_stride_batch + tl.cast(k_rows_start, tl.int64) * k_stride_k_rows) + (r_k_rows[None, :] * k_stride_k_rows + r_q_cols[:, None] * k_stride_q_cols),
            )
        dot_q_cols = tl.dot(q, k, out_dtype=tl.float32)
        tile_max = _max(dot_q_cols, axis=1)
        max_k_rows = _maximum(max_k_rows, tile_max)
        size = tl.abs(max_k_rows)
        large = size >= 1052544166.9587716
        by = tl.where(large, 1.0, 0.12751743082459868)
        mul_6 = max_k_rows * by
        reference = _maximum(mul_6, -3.4028234663852886e+38)
        diff_3 = reference_2 - reference
        exp2 = tl.exp2(diff_3)
        scaled = tl.fma(dot_q_cols, by[:, None], -reference[:, None])
        exp2_2 = tl.exp2(scaled)
        tile_sum = tl.sum(exp2_2, axis=1)
        sum_k_rows = tl.fma(sum_k_rows, exp2, tile_sum)
        mul_4 = sum_k_rows_2 * exp2[:, None]
        exp2_2_fp16 = exp2_2.to(tl.float16)
        if v_block is not None:
            v = v_block.load([0, tl.cast(batch_start, tl.int32), tl.cast(k_rows_start, tl.int32), tl.cast(v_cols_start, tl.int32)]).reshape([T_k_rows, T_v_cols])
        else:
            v = tl.load(
                v_ptr + (batch_start * v_stride_batch + tl.cast(k_rows_start, tl.int64) * v_stride_k_rows + v_cols_start * v_stride_v_cols) + (r_k_rows[:, None] * v_stride_k_rows + r_v_cols[None, :] * v_stride_v_cols),
            )
        sum_k_rows_2 = tl.dot(exp2_2_fp16, v, mul_4, out_dtype=tl.float32)
        reference_2 = reference
    recip = 1.0 / sum_k_rows
    mul_5 = recip[:, None] * sum_k_rows_2
    tl.store(
        out_ptr + (batch_start * out_stride_batch + q_rows_start * out_stride_q_rows + v_cols_start * out_stride_v_cols) + (r_q_rows[:, None] * out_stride_q_rows + r_v_cols[None, :] * out_stride_v_cols),
        mul_5.to(tl.float16),
    )


def run(q, k, v):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("q", q, torch.float16, 4)
    _check_device("q", q, q.device, attention_out)
    _check_tensor("k", k, torch.float16, 4)
    _check_device("k", k, q.device, attention_out)
    _check_tensor("v", v, torch.float16, 4)
    _check_device("v", v, q.device, attention_out)
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
    v = _readable("v", v, (0, 0, 127, 127))
    out = torch.empty((1, N_batch, N_q_rows, N_v_cols), dtype=torch.float16, device=q.device)
    _check_reach("out", out.stride(), (0, 0, 127, 127))
    with torch.cuda.device_of(q):
        attention_out[_grid(N_batch * triton.cdiv(N_q_rows, 128) * triton.cdiv(N_v_cols, 128))](
            q, k, v, out,
            _block(k, (1, 1, 128, 128)), _block(v, (1, 1, 128, 128)),
            N_q_rows, N_k_rows, N_v_cols, q.stride(1), q.stride(2), q.stride(3), k.stride(1), k.stride(2), k.stride(3),
            v.stride(1), v.stride(2), v.stride(3), out.stride(1), out.stride(2), out.stride(3),
            T_q_rows=128, T_q_cols=128, T_k_rows=128, T_v_cols=128,
            num_warps=8, num_stages=3, enable_fp_fusion=True,
        )
    return (out,)
