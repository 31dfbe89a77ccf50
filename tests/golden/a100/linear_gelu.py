"""plan for linear_gelu on a100: 2 kernels, 2082.0 us estimated
  linear_gelu_t3: w, x -> t3
    roles   x_rows=grid:128 cols=stream:64 w_rows=grid:128   (3584 programs, 4 warps, 3 stages)
    order   16 tiles along x_rows, then the next along w_rows: loads move 268.44 MB (791.64 MB with half the cache), in the order of the axes 3.79 GB (3.79 GB with half the cache)
    loops   cols x1
    cost    1941.3 us, bound by tensor; 385.88 MB DRAM, 7.63 GB L2, 481.0 GFLOP, 0.00 G instructions; 65.54 kB shared
  linear_gelu_out: b, t3 -> out
    roles   x_rows=grid:2 w_rows=grid:512   (57344 programs, 2 warps, 1 stages)
    loops   none (whole rows on chip)
    cost    140.7 us, bound by dram; 234.91 MB DRAM, 293.60 MB L2, 0.0 GFLOP, 1.32 G instructions; 0 B shared
  memory: 620.79 MB; compulsory 268.46 MB; unfused 1.80 GB in 7 kernels (2448.8 us)
  time against memory: 2082.0 us holding 117.44 MB (2 kernels); 2246.2 us holding 0 B (1 kernel)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: one kernel, 2246.2 us, 385.93 MB: 164.2 us slower: 1 kernel, linear_gelu_out is bound by shared
  search ended: exhausted
"""


import torch
import triton
import triton.language as tl


@triton.jit
def linear_gelu_t3(
    x_ptr, w_ptr, t3_ptr,
    N_x_rows, N_cols, N_w_rows, x_stride_x_rows, x_stride_cols, w_stride_w_rows, w_stride_cols, t3_stride_x_rows,
    t3_stride_w_rows,
    T_x_rows: tl.constexpr, T_cols: tl.constexpr, T_w_rows: tl.constexpr,
):
    """t3[x_rows, w_rows] = sum_cols(x * w)
    order: 16 tiles along x_rows, then the next along w_rows: loads move 268.44 MB (791.64 MB with half the cache), in the order of the axes 3.79 GB (3.79 GB with half the cache)
    moves: 385.88 MB of memory for the planned sizes; bound by tensor
    """
    pid = tl.program_id(0)
    # 16 tiles along x_rows, then the next along w_rows: what they load stays in the cache
    first = pid // (16 * tl.cdiv(N_w_rows, T_w_rows)) * 16
    height = tl.minimum(tl.cdiv(N_x_rows, T_x_rows) - first, 16)
    w_rows_start = (pid % (16 * tl.cdiv(N_w_rows, T_w_rows)) // height).to(tl.int64) * T_w_rows
    x_rows_start = (first + pid % (16 * tl.cdiv(N_w_rows, T_w_rows)) % height).to(tl.int64) * T_x_rows
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
    tl.store(
        t3_ptr + (x_rows_start * t3_stride_x_rows + w_rows_start * t3_stride_w_rows) + (r_x_rows[:, None] * t3_stride_x_rows + r_w_rows[None, :] * t3_stride_w_rows),
        sum_cols.to(tl.float16),
    )


@triton.jit
def linear_gelu_out(
    t3_ptr, b_ptr, out_ptr,
    N_w_rows, t3_stride_x_rows, t3_stride_w_rows, b_stride_w_rows, out_stride_x_rows, out_stride_w_rows,
    T_x_rows: tl.constexpr, T_w_rows: tl.constexpr,
):
    """t0[x_rows, w_rows] = sum_cols(x * w) + b
    out[x_rows, w_rows] = t0 * 0.5 * (erf(t0 * 0.707107) + 1)
    moves: 234.91 MB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    w_rows_start = (pid % tl.cdiv(N_w_rows, T_w_rows)).to(tl.int64) * T_w_rows
    pid = pid // tl.cdiv(N_w_rows, T_w_rows)
    x_rows_start = pid.to(tl.int64) * T_x_rows
    r_x_rows = tl.arange(0, T_x_rows)
    r_w_rows = tl.arange(0, T_w_rows)
    t3 = tl.load(
        t3_ptr + (x_rows_start * t3_stride_x_rows + w_rows_start * t3_stride_w_rows) + (r_x_rows[:, None] * t3_stride_x_rows + r_w_rows[None, :] * t3_stride_w_rows),
    )
    b = tl.load(b_ptr + w_rows_start * b_stride_w_rows + r_w_rows * b_stride_w_rows)
    t3_f = t3.to(tl.float32)
    b_f = b.to(tl.float32)
    add = t3_f + b_f[None, :]
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
    """Return the tuple (out), computed by 2 kernels on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, linear_gelu_t3)
    _check_tensor("w", w, torch.float16, 2)
    _check_device("w", w, x.device, linear_gelu_t3)
    _check_tensor("b", b, torch.float16, 1)
    _check_device("b", b, x.device, linear_gelu_t3)
    N_x_rows = x.shape[0]
    N_cols = x.shape[1]
    N_w_rows = w.shape[0]
    _check_shape("x", x, (N_x_rows, N_cols))
    _check_shape("w", w, (N_w_rows, N_cols))
    _check_shape("b", b, (N_w_rows,))
    _check_size("x_rows", N_x_rows == 4096, "of 4096, on which the program depends")
    _check_size("cols", N_cols == 4096, "of 4096, on which the program depends")
    _check_size("w_rows", N_w_rows == 14336, "of 14336, on which the program depends")
    x = _readable("x", x, (127, 63))
    w = _readable("w", w, (127, 63))
    b = _readable("b", b, (511,))
    out = torch.empty((N_x_rows, N_w_rows), dtype=torch.float16, device=x.device)
    _check_reach("out", out.stride(), (1, 511))
    with torch.cuda.device_of(x):
        t3 = torch.empty((N_x_rows, N_w_rows), dtype=torch.float16, device=x.device)
        _check_reach("t3", t3.stride(), (127, 511))
        linear_gelu_t3[_grid(triton.cdiv(N_x_rows, 128) * triton.cdiv(N_w_rows, 128))](
            x, w, t3,
            N_x_rows, N_cols, N_w_rows, x.stride(0), x.stride(1), w.stride(0), w.stride(1), t3.stride(0), t3.stride(1),
            T_x_rows=128, T_cols=64, T_w_rows=128,
            num_warps=4, num_stages=3, enable_fp_fusion=True,
        )
        linear_gelu_out[_grid(triton.cdiv(N_x_rows, 2) * triton.cdiv(N_w_rows, 512))](
            t3, b, out,
            N_w_rows, t3.stride(0), t3.stride(1), b.stride(0), out.stride(0), out.stride(1),
            T_x_rows=2, T_w_rows=512,
            num_warps=2, num_stages=1, enable_fp_fusion=True,
        )
    return (out,)
