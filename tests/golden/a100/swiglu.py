"""plan for swiglu on a100: 1 kernel, 4460.2 us estimated
  swiglu_out: gate, up, x -> out
    roles   x_rows=grid:128 cols=stream:32 gate_rows=grid:64   (7168 programs, 4 warps, 3 stages)
    order   16 tiles along x_rows, then the next along gate_rows: loads move 503.32 MB (1.58 GB with half the cache), in the order of the axes 7.59 GB (7.59 GB with half the cache)
    loops   cols x1
    cost    4460.2 us, bound by shared; 620.76 MB DRAM, 15.15 GB L2, 962.1 GFLOP, 0.53 G instructions; 32.77 kB shared
  memory: 620.76 MB; compulsory 385.88 MB; unfused 1.48 GB in 5 kernels (3644.1 us)
  time against memory: 4249.0 us holding 234.88 MB (3 kernels); 4460.2 us holding 0 B (1 kernel)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: one kernel per reduction, 4249.0 us, 1.12 GB: 211.1 us faster, less than the model can tell, and holds 234.88 MB of temporary memory
  search ended: exhausted
"""


import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_out(
    x_ptr, gate_ptr, up_ptr, out_ptr,
    N_x_rows, N_cols, N_gate_rows, x_stride_x_rows, x_stride_cols, gate_stride_gate_rows, gate_stride_cols,
    up_stride_gate_rows, up_stride_cols, out_stride_x_rows, out_stride_gate_rows,
    T_x_rows: tl.constexpr, T_cols: tl.constexpr, T_gate_rows: tl.constexpr,
):
    """t0[x_rows, gate_rows] = sum_cols(x * gate)
    out[x_rows, gate_rows] = t0 * sigmoid(t0) * sum_cols(x * up)
    order: 16 tiles along x_rows, then the next along gate_rows: loads move 503.32 MB (1.58 GB with half the cache), in the order of the axes 7.59 GB (7.59 GB with half the cache)
    moves: 620.76 MB of memory for the planned sizes; bound by shared
    """
    pid = tl.program_id(0)
    # 16 tiles along x_rows, then the next along gate_rows: what they load stays in the cache
    first = pid // (16 * tl.cdiv(N_gate_rows, T_gate_rows)) * 16
    height = tl.minimum(tl.cdiv(N_x_rows, T_x_rows) - first, 16)
    gate_rows_start = (pid % (16 * tl.cdiv(N_gate_rows, T_gate_rows)) // height).to(tl.int64) * T_gate_rows
    x_rows_start = (first + pid % (16 * tl.cdiv(N_gate_rows, T_gate_rows)) % height).to(tl.int64) * T_x_rows
    r_x_rows = tl.arange(0, T_x_rows)
    r_cols = tl.arange(0, T_cols)
    r_gate_rows = tl.arange(0, T_gate_rows)
    sum_cols = tl.zeros([T_x_rows, T_gate_rows], tl.float32)
    sum_cols_2 = tl.zeros([T_x_rows, T_gate_rows], tl.float32)
    for cols_start in tl.range(0, N_cols, T_cols):
        x = tl.load(
            x_ptr + (x_rows_start * x_stride_x_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + (r_x_rows[:, None] * x_stride_x_rows + r_cols[None, :] * x_stride_cols),
        )
        gate = tl.load(
            gate_ptr + (gate_rows_start * gate_stride_gate_rows + tl.cast(cols_start, tl.int64) * gate_stride_cols) + (r_gate_rows[None, :] * gate_stride_gate_rows + r_cols[:, None] * gate_stride_cols),
        )
        sum_cols = tl.dot(x, gate, sum_cols, out_dtype=tl.float32)
        up = tl.load(
            up_ptr + (gate_rows_start * up_stride_gate_rows + tl.cast(cols_start, tl.int64) * up_stride_cols) + (r_gate_rows[None, :] * up_stride_gate_rows + r_cols[:, None] * up_stride_cols),
        )
        sum_cols_2 = tl.dot(x, up, sum_cols_2, out_dtype=tl.float32)
    sigmoid = 1.0 / (1.0 + tl.exp(-sum_cols))
    mul = sum_cols * sigmoid
    mul_2 = mul * sum_cols_2
    tl.store(
        out_ptr + (x_rows_start * out_stride_x_rows + gate_rows_start * out_stride_gate_rows) + (r_x_rows[:, None] * out_stride_x_rows + r_gate_rows[None, :] * out_stride_gate_rows),
        mul_2.to(tl.float16),
    )


def run(x, gate, up):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, swiglu_out)
    _check_tensor("gate", gate, torch.float16, 2)
    _check_device("gate", gate, x.device, swiglu_out)
    _check_tensor("up", up, torch.float16, 2)
    _check_device("up", up, x.device, swiglu_out)
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
    gate = _readable("gate", gate, (63, 31))
    up = _readable("up", up, (63, 31))
    out = torch.empty((N_x_rows, N_gate_rows), dtype=torch.float16, device=x.device)
    _check_reach("out", out.stride(), (127, 63))
    with torch.cuda.device_of(x):
        swiglu_out[_grid(triton.cdiv(N_x_rows, 128) * triton.cdiv(N_gate_rows, 64))](
            x, gate, up, out,
            N_x_rows, N_cols, N_gate_rows, x.stride(0), x.stride(1), gate.stride(0), gate.stride(1), up.stride(0),
            up.stride(1), out.stride(0), out.stride(1),
            T_x_rows=128, T_cols=32, T_gate_rows=64,
            num_warps=4, num_stages=3, enable_fp_fusion=True,
        )
    return (out,)
