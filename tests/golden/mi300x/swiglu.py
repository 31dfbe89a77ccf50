"""plan for swiglu on mi300x: 2 kernels, 1065.6 us estimated
  swiglu_t3: gate, x -> t3
    roles   x_rows=grid:128 cols=stream:32 gate_rows=grid:128   (3584 programs, 8 warps, 3 stages)
    order   first along x_rows: loads move 150.99 MB (150.99 MB with half the cache), in the order of the axes 150.99 MB (725.84 MB with half the cache)
    loops   cols x1
    cost    531.1 us, bound by shared; 268.44 MB DRAM, 7.63 GB L2, 481.0 GFLOP, 0.00 G instructions; 32.77 kB shared
  swiglu_out: t3, up, x -> out
    roles   x_rows=grid:128 cols=stream:32 gate_rows=grid:128   (3584 programs, 8 warps, 3 stages)
    order   first along x_rows: loads move 268.44 MB (268.44 MB with half the cache), in the order of the axes 268.44 MB (843.28 MB with half the cache)
    loops   cols x1
    cost    534.5 us, bound by shared; 385.88 MB DRAM, 7.75 GB L2, 481.0 GFLOP, 0.59 G instructions; 32.77 kB shared
  memory: 654.31 MB; compulsory 385.88 MB; unfused 1.48 GB in 5 kernels (974.7 us)
  time against memory: 1065.6 us holding 117.44 MB (2 kernels); 1279.8 us holding 0 B (1 kernel)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: 1 value stored, 1065.6 us, 654.31 MB: 0.0 us slower: 2 kernels, swiglu_out is bound by shared
  search ended: exhausted
"""


import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_t3(
    x_ptr, gate_ptr, t3_ptr,
    N_x_rows, N_cols, x_stride_x_rows, x_stride_cols, gate_stride_gate_rows, gate_stride_cols, t3_stride_x_rows,
    t3_stride_gate_rows,
    T_x_rows: tl.constexpr, T_cols: tl.constexpr, T_gate_rows: tl.constexpr,
):
    """t3[x_rows, gate_rows] = sum_cols(x * gate)
    order: first along x_rows: loads move 150.99 MB (150.99 MB with half the cache), in the order of the axes 150.99 MB (725.84 MB with half the cache)
    moves: 268.44 MB of memory for the planned sizes; bound by shared
    """
    pid = tl.program_id(0)
    x_rows_start = (pid % tl.cdiv(N_x_rows, T_x_rows)).to(tl.int64) * T_x_rows
    pid = pid // tl.cdiv(N_x_rows, T_x_rows)
    gate_rows_start = pid.to(tl.int64) * T_gate_rows
    r_x_rows = tl.arange(0, T_x_rows)
    r_cols = tl.arange(0, T_cols)
    r_gate_rows = tl.arange(0, T_gate_rows)
    sum_cols = tl.zeros([T_x_rows, T_gate_rows], tl.float32)
    for cols_start in tl.range(0, N_cols, T_cols):
        x = tl.load(
            x_ptr + (x_rows_start * x_stride_x_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + (r_x_rows[:, None] * x_stride_x_rows + r_cols[None, :] * x_stride_cols),
        )
        gate = tl.load(
            gate_ptr + (gate_rows_start * gate_stride_gate_rows + tl.cast(cols_start, tl.int64) * gate_stride_cols) + (r_gate_rows[None, :] * gate_stride_gate_rows + r_cols[:, None] * gate_stride_cols),
        )
        sum_cols = tl.dot(x, gate, sum_cols, out_dtype=tl.float32)
    tl.store(
        t3_ptr + (x_rows_start * t3_stride_x_rows + gate_rows_start * t3_stride_gate_rows) + (r_x_rows[:, None] * t3_stride_x_rows + r_gate_rows[None, :] * t3_stride_gate_rows),
        sum_cols.to(tl.float16),
    )


@triton.jit
def swiglu_out(
    x_ptr, up_ptr, t3_ptr, out_ptr,
    N_x_rows, N_cols, x_stride_x_rows, x_stride_cols, up_stride_gate_rows, up_stride_cols, t3_stride_x_rows,
    t3_stride_gate_rows, out_stride_x_rows, out_stride_gate_rows,
    T_x_rows: tl.constexpr, T_cols: tl.constexpr, T_gate_rows: tl.constexpr,
):
    """t0[x_rows, gate_rows] = sum_cols(x * gate)
    out[x_rows, gate_rows] = t0 * sigmoid(t0) * sum_cols(x * up)
    order: first along x_rows: loads move 268.44 MB (268.44 MB with half the cache), in the order of the axes 268.44 MB (843.28 MB with half the cache)
    moves: 385.88 MB of memory for the planned sizes; bound by shared
    """
    pid = tl.program_id(0)
    x_rows_start = (pid % tl.cdiv(N_x_rows, T_x_rows)).to(tl.int64) * T_x_rows
    pid = pid // tl.cdiv(N_x_rows, T_x_rows)
    gate_rows_start = pid.to(tl.int64) * T_gate_rows
    r_x_rows = tl.arange(0, T_x_rows)
    r_cols = tl.arange(0, T_cols)
    r_gate_rows = tl.arange(0, T_gate_rows)
    sum_cols = tl.zeros([T_x_rows, T_gate_rows], tl.float32)
    for cols_start in tl.range(0, N_cols, T_cols):
        x = tl.load(
            x_ptr + (x_rows_start * x_stride_x_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + (r_x_rows[:, None] * x_stride_x_rows + r_cols[None, :] * x_stride_cols),
        )
        up = tl.load(
            up_ptr + (gate_rows_start * up_stride_gate_rows + tl.cast(cols_start, tl.int64) * up_stride_cols) + (r_gate_rows[None, :] * up_stride_gate_rows + r_cols[:, None] * up_stride_cols),
        )
        sum_cols = tl.dot(x, up, sum_cols, out_dtype=tl.float32)
    t3 = tl.load(
        t3_ptr + (x_rows_start * t3_stride_x_rows + gate_rows_start * t3_stride_gate_rows) + (r_x_rows[:, None] * t3_stride_x_rows + r_gate_rows[None, :] * t3_stride_gate_rows),
    )
    t3_f = t3.to(tl.float32)
    sigmoid = 1.0 / (1.0 + tl.exp(-t3_f))
    mul = t3_f * sigmoid
    mul_2 = mul * sum_cols
    tl.store(
        out_ptr + (x_rows_start * out_stride_x_rows + gate_rows_start * out_stride_gate_rows) + (r_x_rows[:, None] * out_stride_x_rows + r_gate_rows[None, :] * out_stride_gate_rows),
        mul_2.to(tl.float16),
    )


def run(x, gate, up):
    """Return the tuple (out), computed by 2 kernels on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, swiglu_t3)
    _check_tensor("gate", gate, torch.float16, 2)
    _check_device("gate", gate, x.device, swiglu_t3)
    _check_tensor("up", up, torch.float16, 2)
    _check_device("up", up, x.device, swiglu_t3)
    N_x_rows = x.shape[0]
    N_cols = x.shape[1]
    N_gate_rows = gate.shape[0]
    _check_shape("x", x, (N_x_rows, N_cols))
    _check_shape("gate", gate, (N_gate_rows, N_cols))
    _check_shape("up", up, (N_gate_rows, N_cols))
    _check_size("x_rows", N_x_rows == 4096, "of 4096, on which the program depends")
    _check_size("cols", N_cols == 4096, "of 4096, on which the program depends")
    _check_size("gate_rows", N_gate_rows == 14336, "of 14336, on which the program depends")
    x = _readable("x", x, (127, 31))
    gate = _readable("gate", gate, (127, 31))
    up = _readable("up", up, (127, 31))
    out = torch.empty((N_x_rows, N_gate_rows), dtype=torch.float16, device=x.device)
    _check_reach("out", out.stride(), (127, 127))
    with torch.cuda.device_of(x):
        t3 = torch.empty((N_x_rows, N_gate_rows), dtype=torch.float16, device=x.device)
        _check_reach("t3", t3.stride(), (127, 127))
        swiglu_t3[_grid(triton.cdiv(N_gate_rows, 128) * triton.cdiv(N_x_rows, 128))](
            x, gate, t3,
            N_x_rows, N_cols, x.stride(0), x.stride(1), gate.stride(0), gate.stride(1), t3.stride(0), t3.stride(1),
            T_x_rows=128, T_cols=32, T_gate_rows=128,
            num_warps=8, num_stages=3, enable_fp_fusion=True,
        )
        swiglu_out[_grid(triton.cdiv(N_gate_rows, 128) * triton.cdiv(N_x_rows, 128))](
            x, up, t3, out,
            N_x_rows, N_cols, x.stride(0), x.stride(1), up.stride(0), up.stride(1), t3.stride(0), t3.stride(1),
            out.stride(0), out.stride(1),
            T_x_rows=128, T_cols=32, T_gate_rows=128,
            num_warps=8, num_stages=3, enable_fp_fusion=True,
        )
    return (out,)
