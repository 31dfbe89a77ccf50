"""plan for linear_gelu on mi300x: 1 kernel, 533.7 us estimated
  linear_gelu_out: b, w, x -> out
    roles   x_rows=grid:128 cols=stream:32 w_rows=grid:128   (3584 programs, 8 warps, 3 stages)
    order   first along x_rows: loads move 151.02 MB (151.02 MB with half the cache), in the order of the axes 151.02 MB (726.00 MB with half the cache)
    loops   cols x1
    cost    533.7 us, bound by shared; 268.46 MB DRAM, 7.63 GB L2, 481.0 GFLOP, 1.23 G instructions; 32.77 kB shared
  memory: 268.46 MB; compulsory 268.46 MB; unfused 1.80 GB in 7 kernels (749.2 us)
  this module has kernels only: run() takes tensors on a GPU
  search ended: exhausted
"""


import torch
import triton
import triton.language as tl


@triton.jit
def linear_gelu_out(
    x_ptr, w_ptr, b_ptr, out_ptr,
    N_x_rows, N_cols, x_stride_x_rows, x_stride_cols, w_stride_w_rows, w_stride_cols, b_stride_w_rows, out_stride_x_rows,
    out_stride_w_rows,
    T_x_rows: tl.constexpr, T_cols: tl.constexpr, T_w_rows: tl.constexpr,
):
    """t0[x_rows, w_rows] = sum_cols(x * w) + b
    out[x_rows, w_rows] = t0 * 0.5 * (erf(t0 * 0.707107) + 1)
    order: first along x_rows: loads move 151.02 MB (151.02 MB with half the cache), in the order of the axes 151.02 MB (726.00 MB with half the cache)
    moves: 268.46 MB of memory for the planned sizes; bound by shared
    """
    pid = tl.program_id(0)
    x_rows_start = (pid % tl.cdiv(N_x_rows, T_x_rows)).to(tl.int64) * T_x_rows
    pid = pid // tl.cdiv(N_x_rows, T_x_rows)
    w_rows_start = pid.to(tl.int64) * T_w_rows
    r_x_rows = tl.arange(0, T_x_rows)
    r_cols = tl.arange(0, T_cols)
    r_w_rows = tl.arange(0, T_w_rows)
    sum_cols = tl.zeros([T_x_rows, T_w_rows], tl.float32)
    for cols_start in tl.range(0, N_cols, T_cols):
        x = tl.load(
            x_ptr + (x_rows_start * x_stride_x_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + (r_x_rows[:, None] * x_stride_x_rows + r_cols[None, :] * x_stride_cols),
        )
        w = tl.load(
            w_ptr + (w_rows_start * w_stride_w_rows + tl.cast(cols_start, tl.int64) * w_stride_cols) + (r_w_rows[None, :] * w_stride_w_rows + r_cols[:, None] * w_stride_cols),
        )
        sum_cols = tl.dot(x, w, sum_cols, out_dtype=tl.float32)
    b = tl.load(b_ptr + w_rows_start * b_stride_w_rows + r_w_rows * b_stride_w_rows)
    b_f = b.to(tl.float32)
    add = sum_cols + b_f[None, :]
    mul = add * 0.5
    mul_2 = add * 0.7071067811865476
    erf = tl.erf(mul_2)
    add_2 = erf + 1.0
    mul_3 = mul * add_2
    tl.store(
        out_ptr + (x_rows_start * out_stride_x_rows + w_rows_start * out_stride_w_rows) + (r_x_rows[:, None] * out_stride_x_rows + r_w_rows[None, :] * out_stride_w_rows),
        mul_3.to(tl.float16),
    )


def run(x, w, b):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, linear_gelu_out)
    _check_tensor("w", w, torch.float16, 2)
    _check_device("w", w, x.device, linear_gelu_out)
    _check_tensor("b", b, torch.float16, 1)
    _check_device("b", b, x.device, linear_gelu_out)
    N_x_rows = x.shape[0]
    N_cols = x.shape[1]
    N_w_rows = w.shape[0]
    _check_shape("x", x, (N_x_rows, N_cols))
    _check_shape("w", w, (N_w_rows, N_cols))
    _check_shape("b", b, (N_w_rows,))
    _check_size("x_rows", N_x_rows == 4096, "of 4096, on which the program depends")
    _check_size("cols", N_cols == 4096, "of 4096, on which the program depends")
    _check_size("w_rows", N_w_rows == 14336, "of 14336, on which the program depends")
    x = _readable("x", x, (127, 31))
    w = _readable("w", w, (127, 31))
    b = _readable("b", b, (127,))
    out = torch.empty((N_x_rows, N_w_rows), dtype=torch.float16, device=x.device)
    _check_reach("out", out.stride(), (127, 127))
    with torch.cuda.device_of(x):
        linear_gelu_out[_grid(triton.cdiv(N_w_rows, 128) * triton.cdiv(N_x_rows, 128))](
            x, w, b, out,
            N_x_rows, N_cols, x.stride(0), x.stride(1), w.stride(0), w.stride(1), b.stride(0), out.stride(0), out.stride(1),
            T_x_rows=128, T_cols=32, T_w_rows=128,
            num_warps=8, num_stages=3, enable_fp_fusion=True,
        )
    return (out,)
