"""plan for swiglu on h200: 2 kernels, 1645.9 us estimated
  swiglu_t8: up, x -> t8
    roles   x_rows=grid:128 cols=stream:64 gate_rows=grid:256   (1792 programs, 8 warps, 3 stages)
    order   8 tiles along gate_rows, then the next along x_rows: loads move 150.99 MB (462.64 MB with half the cache), in the order of the axes 1.63 GB (1.63 GB with half the cache)
    copies  up, x in blocks by tensor descriptors
    loops   cols x1
    cost    805.7 us, bound by shared; 268.44 MB DRAM, 5.75 GB L2, 481.0 GFLOP, 0.00 G instructions; 147.46 kB shared
  swiglu_out: gate, t8, x -> out
    roles   x_rows=grid:128 cols=stream:64 gate_rows=grid:256   (1792 programs, 8 warps, 3 stages)
    order   16 tiles along x_rows, then the next along gate_rows: loads move 385.88 MB (580.08 MB with half the cache), in the order of the axes 1.75 GB (1.75 GB with half the cache)
    copies  gate, x in blocks by tensor descriptors
    loops   cols x1
    cost    840.2 us, bound by shared; 503.32 MB DRAM, 5.87 GB L2, 481.0 GFLOP, 0.59 G instructions; 147.46 kB shared
  memory: 771.75 MB; compulsory 385.88 MB; unfused 1.48 GB in 5 kernels (1207.4 us)
  time against memory: 1645.9 us holding 117.44 MB (2 kernels); 1827.5 us holding 0 B (1 kernel)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: one kernel, 1827.5 us, 385.88 MB: 181.6 us slower: 1 kernel, swiglu_out is bound by shared
  search ended: exhausted
"""


import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def swiglu_t8(
    x_ptr, up_ptr, t8_ptr,
    x_block, up_block,
    N_x_rows, N_cols, N_gate_rows, x_stride_x_rows, x_stride_cols, up_stride_gate_rows, up_stride_cols, t8_stride_x_rows,
    t8_stride_gate_rows,
    T_x_rows: tl.constexpr, T_cols: tl.constexpr, T_gate_rows: tl.constexpr,
):
    """t8[x_rows, gate_rows] = sum_cols(x * up)
    order: 8 tiles along gate_rows, then the next along x_rows: loads move 150.99 MB (462.64 MB with half the cache), in the order of the axes 1.63 GB (1.63 GB with half the cache)
    moves: 268.44 MB of memory for the planned sizes; bound by shared
    """
    pid = tl.program_id(0)
    # 8 tiles along gate_rows, then the next along x_rows: what they load stays in the cache
    first = pid // (8 * tl.cdiv(N_x_rows, T_x_rows)) * 8
    height = tl.minimum(tl.cdiv(N_gate_rows, T_gate_rows) - first, 8)
    x_rows_start = (pid % (8 * tl.cdiv(N_x_rows, T_x_rows)) // height).to(tl.int64) * T_x_rows
    gate_rows_start = (first + pid % (8 * tl.cdiv(N_x_rows, T_x_rows)) % height).to(tl.int64) * T_gate_rows
    r_x_rows = tl.arange(0, T_x_rows)
    r_cols = tl.arange(0, T_cols)
    r_gate_rows = tl.arange(0, T_gate_rows)
    sum_cols = tl.zeros([T_x_rows, T_gate_rows], tl.float32)
    for cols_start in tl.range(0, N_cols, T_cols):
        if x_block is not None:
            x = x_block.load([tl.cast(x_rows_start, tl.int32), tl.cast(cols_start, tl.int32)])
        else:
            x = tl.load(
                x_ptr + (x_rows_start * x_stride_x_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + (r_x_rows[:, None] * x_stride_x_rows + r_cols[None, :] * x_stride_cols),
            )
        if up_block is not None:
            up = tl.permute(up_block.load([tl.cast(gate_rows_start, tl.int32), tl.cast(cols_start, tl.int32)]), (1, 0))
        else:
            up = tl.load(
                up_ptr + (gate_rows_start * up_stride_gate_rows + tl.cast(cols_start, tl.int64) * up_stride_cols) + (r_gate_rows[None, :] * up_stride_gate_rows + r_cols[:, None] * up_stride_cols),
            )
        sum_cols = tl.dot(x, up, sum_cols, out_dtype=tl.float32)
    tl.store(
        t8_ptr + (x_rows_start * t8_stride_x_rows + gate_rows_start * t8_stride_gate_rows) + (r_x_rows[:, None] * t8_stride_x_rows + r_gate_rows[None, :] * t8_stride_gate_rows),
        sum_cols.to(tl.float16),
    )


@triton.jit
def swiglu_out(
    x_ptr, gate_ptr, t8_ptr, out_ptr,
    x_block, gate_block,
    N_x_rows, N_cols, N_gate_rows, x_stride_x_rows, x_stride_cols, gate_stride_gate_rows, gate_stride_cols, t8_stride_x_rows,
    t8_stride_gate_rows, out_stride_x_rows, out_stride_gate_rows,
    T_x_rows: tl.constexpr, T_cols: tl.constexpr, T_gate_rows: tl.constexpr,
):
    """t0[x_rows, gate_rows] = sum_cols(x * gate)
    out[x_rows, gate_rows] = t0 * sigmoid(t0) * sum_cols(x * up)
    order: 16 tiles along x_rows, then the next along gate_rows: loads move 385.88 MB (580.08 MB with half the cache), in the order of the axes 1.75 GB (1.75 GB with half the cache)
    moves: 503.32 MB of memory for the planned sizes; bound by shared
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
    for cols_start in tl.range(0, N_cols, T_cols):
        if x_block is not None:
            x = x_block.load([tl.cast(x_rows_start, tl.int32), tl.cast(cols_start, tl.int32)])
        else:
            x = tl.load(
                x_ptr + (x_rows_start * x_stride_x_rows + tl.cast(cols_start, tl.int64) * x_stride_cols) + (r_x_rows[:, None] * x_stride_x_rows + r_cols[None, :] * x_stride_cols),
            )
        if gate_block is not None:
            gate = tl.permute(gate_block.load([tl.cast(gate_rows_start, tl.int32), tl.cast(cols_start, tl.int32)]), (1, 0))
        else:
            gate = tl.load(
                gate_ptr + (gate_rows_start * gate_stride_gate_rows + tl.cast(cols_start, tl.int64) * gate_stride_cols) + (r_gate_rows[None, :] * gate_stride_gate_rows + r_cols[:, None] * gate_stride_cols),
            )
        sum_cols = tl.dot(x, gate, sum_cols, out_dtype=tl.float32)
    sigmoid = 1.0 / (1.0 + tl.exp(-sum_cols))
    mul = sum_cols * sigmoid
    t8 = tl.load(
        t8_ptr + (x_rows_start * t8_stride_x_rows + gate_rows_start * t8_stride_gate_rows) + (r_x_rows[:, None] * t8_stride_x_rows + r_gate_rows[None, :] * t8_stride_gate_rows),
    )
    t8_f = t8.to(tl.float32)
    mul_2 = mul * t8_f
    tl.store(
        out_ptr + (x_rows_start * out_stride_x_rows + gate_rows_start * out_stride_gate_rows) + (r_x_rows[:, None] * out_stride_x_rows + r_gate_rows[None, :] * out_stride_gate_rows),
        mul_2.to(tl.float16),
    )


def run(x, gate, up):
    """Return the tuple (out), computed by 2 kernels on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, swiglu_t8)
    _check_tensor("gate", gate, torch.float16, 2)
    _check_device("gate", gate, x.device, swiglu_t8)
    _check_tensor("up", up, torch.float16, 2)
    _check_device("up", up, x.device, swiglu_t8)
    N_x_rows = x.shape[0]
    N_cols = x.shape[1]
    N_gate_rows = gate.shape[0]
    _check_shape("x", x, (N_x_rows, N_cols))
    _check_shape("gate", gate, (N_gate_rows, N_cols))
    _check_shape("up", up, (N_gate_rows, N_cols))
    _check_size("x_rows", N_x_rows == 4096, "of 4096, on which the program depends")
    _check_size("cols", N_cols == 4096, "of 4096, on which the program depends")
    _check_size("gate_rows", N_gate_rows == 14336, "of 14336, on which the program depends")
    x = _readable("x", x, (127, 63))
    gate = _readable("gate", gate, (255, 63))
    up = _readable("up", up, (255, 63))
    out = torch.empty((N_x_rows, N_gate_rows), dtype=torch.float16, device=x.device)
    _check_reach("out", out.stride(), (127, 255))
    with torch.cuda.device_of(x):
        t8 = torch.empty((N_x_rows, N_gate_rows), dtype=torch.float16, device=x.device)
        _check_reach("t8", t8.stride(), (127, 255))
        swiglu_t8[_grid(triton.cdiv(N_gate_rows, 256) * triton.cdiv(N_x_rows, 128))](
            x, up, t8,
            _block(x, (128, 64)), _block(up, (256, 64)),
            N_x_rows, N_cols, N_gate_rows, x.stride(0), x.stride(1), up.stride(0), up.stride(1), t8.stride(0), t8.stride(1),
            T_x_rows=128, T_cols=64, T_gate_rows=256,
            num_warps=8, num_stages=3, enable_fp_fusion=True,
        )
        swiglu_out[_grid(triton.cdiv(N_x_rows, 128) * triton.cdiv(N_gate_rows, 256))](
            x, gate, t8, out,
            _block(x, (128, 64)), _block(gate, (256, 64)),
            N_x_rows, N_cols, N_gate_rows, x.stride(0), x.stride(1), gate.stride(0), gate.stride(1), t8.stride(0),
            t8.stride(1), out.stride(0), out.stride(1),
            T_x_rows=128, T_cols=64, T_gate_rows=256,
            num_warps=8, num_stages=3, enable_fp_fusion=True,
        )
    return (out,)
