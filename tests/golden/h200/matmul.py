"""plan for matmul on h200: 1 kernel, 9.9 us estimated
  matmul_out: a, b -> out
    roles   rows=grid:64 a_cols=stream:128 b_cols=grid:64   (80 programs, 8 warps, 3 stages)
    loops   a_cols x1
    cost    9.9 us, bound by issue; 2.62 MB DRAM, 15.83 MB L2, 0.6 GFLOP, 0.00 G instructions; 98.30 kB shared
  memory: 2.62 MB; compulsory 2.62 MB; unfused 2.62 MB in 1 kernels (3.6 us)
  this module has kernels only: run() takes tensors on a GPU
  search ended: exhausted
"""


import math

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_out(
    a_ptr, b_ptr, out_ptr,
    N_rows, N_a_cols, N_b_cols, a_stride_rows, a_stride_a_cols, b_stride_a_cols, b_stride_b_cols, out_stride_rows,
    out_stride_b_cols,
    T_rows: tl.constexpr, T_a_cols: tl.constexpr, T_b_cols: tl.constexpr, S_N_b_cols: tl.constexpr, S_b: tl.constexpr,
    S_out: tl.constexpr,
):
    """out[rows, b_cols] = sum_a_cols(a * b)
    moves: 2.62 MB of memory for the planned sizes; bound by issue
    """
    # for the compiler, which does not know that these are multiples of 2**S
    N_b_cols = N_b_cols >> S_N_b_cols << S_N_b_cols
    b_stride_a_cols = b_stride_a_cols >> S_b << S_b
    out_stride_rows = out_stride_rows >> S_out << S_out
    pid = tl.program_id(0)
    b_cols_start = (pid % tl.cdiv(N_b_cols, T_b_cols)).to(tl.int64) * T_b_cols
    pid = pid // tl.cdiv(N_b_cols, T_b_cols)
    rows_start = pid.to(tl.int64) * T_rows
    r_rows = tl.arange(0, T_rows)
    r_a_cols = tl.arange(0, T_a_cols)
    r_b_cols = tl.arange(0, T_b_cols)
    rows_ok = rows_start + r_rows < N_rows
    b_cols_ok = b_cols_start + r_b_cols < N_b_cols
    sum_a_cols = tl.zeros([T_rows, T_b_cols], tl.float32)
    a_cols_full = N_a_cols // T_a_cols * T_a_cols
    for a_cols_start in tl.range(0, a_cols_full, T_a_cols):
        a = tl.load(
            a_ptr + (rows_start * a_stride_rows + tl.cast(a_cols_start, tl.int64) * a_stride_a_cols) + (r_rows[:, None] * a_stride_rows + r_a_cols[None, :] * a_stride_a_cols),
            mask=rows_ok[:, None],
            other=0.0,
        )
        b = tl.load(
            b_ptr + (tl.cast(a_cols_start, tl.int64) * b_stride_a_cols + b_cols_start * b_stride_b_cols) + (r_a_cols[:, None] * b_stride_a_cols + r_b_cols[None, :] * b_stride_b_cols),
            mask=b_cols_ok[None, :],
            other=0.0,
        )
        sum_a_cols = tl.dot(a, b, sum_a_cols, out_dtype=tl.float32)
    for a_cols_start in tl.range(a_cols_full, N_a_cols, T_a_cols, num_stages=1):  # the ragged last tile
        a_cols_ok = a_cols_start + r_a_cols < N_a_cols
        a = tl.load(
            a_ptr + (rows_start * a_stride_rows + tl.cast(a_cols_start, tl.int64) * a_stride_a_cols) + (r_rows[:, None] * a_stride_rows + r_a_cols[None, :] * a_stride_a_cols),
            mask=rows_ok[:, None] & a_cols_ok[None, :],
            other=0.0,
        )
        b = tl.load(
            b_ptr + (tl.cast(a_cols_start, tl.int64) * b_stride_a_cols + b_cols_start * b_stride_b_cols) + (r_a_cols[:, None] * b_stride_a_cols + r_b_cols[None, :] * b_stride_b_cols),
            mask=b_cols_ok[None, :] & a_cols_ok[:, None],
            other=0.0,
        )
        sum_a_cols = tl.dot(a, b, sum_a_cols, out_dtype=tl.float32)
    tl.store(
        out_ptr + (rows_start * out_stride_rows + b_cols_start * out_stride_b_cols) + (r_rows[:, None] * out_stride_rows + r_b_cols[None, :] * out_stride_b_cols),
        sum_a_cols.to(tl.float16),
        mask=rows_ok[:, None] & b_cols_ok[None, :],
    )


def run(a, b):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("a", a, torch.float16, 2)
    _check_device("a", a, a.device, matmul_out)
    _check_tensor("b", b, torch.float16, 2)
    _check_device("b", b, a.device, matmul_out)
    N_rows = a.shape[0]
    N_a_cols = a.shape[1]
    N_b_cols = b.shape[1]
    _check_shape("a", a, (N_rows, N_a_cols))
    _check_shape("b", b, (N_a_cols, N_b_cols))
    _check_size("rows", N_rows == 1000, "of 1000, on which the program depends")
    _check_size("a_cols", N_a_cols == 777, "of 777, on which the program depends")
    _check_size("b_cols", N_b_cols == 300, "of 300, on which the program depends")
    a = _readable("a", a, (63, 127))
    b = _readable("b", b, (127, 63))
    out = torch.empty((N_rows, N_b_cols), dtype=torch.float16, device=a.device)
    _check_reach("out", out.stride(), (63, 63))
    with torch.cuda.device_of(a):
        matmul_out[_grid(triton.cdiv(N_rows, 64) * triton.cdiv(N_b_cols, 64))](
            a, b, out,
            N_rows, N_a_cols, N_b_cols, a.stride(0), a.stride(1), b.stride(0), b.stride(1), out.stride(0), out.stride(1),
            T_rows=64, T_a_cols=128, T_b_cols=64, S_N_b_cols=math.gcd(8, N_b_cols).bit_length() - 1,
            S_b=math.gcd(8, b.stride(0)).bit_length() - 1, S_out=math.gcd(8, out.stride(0)).bit_length() - 1,
            num_warps=8, num_stages=3, enable_fp_fusion=True,
        )
    return (out,)
