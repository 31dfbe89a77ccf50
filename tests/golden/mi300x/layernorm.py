"""plan for layernorm on mi300x: 1 kernel, 21.4 us estimated
  layernorm_out: bias, weight, x -> out
    roles   rows=grid:1 cols=resident:4096   (4096 programs, 8 warps, 1 stages)
    loops   none (whole rows on chip)
    cost    21.4 us, bound by dram; 67.13 MB DRAM, 134.22 MB L2, 0.0 GFLOP, 0.15 G instructions; 0 B shared
  memory: 67.13 MB; compulsory 67.13 MB; unfused 402.74 MB in 9 kernels (143.5 us)
  this module has kernels only: run() takes tensors on a GPU
  search ended: bound
"""


import torch
import triton
import triton.language as tl


@triton.jit
def layernorm_out(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    N_cols, x_stride_rows, x_stride_cols, weight_stride_cols, bias_stride_cols, out_stride_rows, out_stride_cols,
    T_cols: tl.constexpr,
):
    """t0[rows, cols] = x - mean_cols(x)
    out[rows, cols] = t0 * rsqrt(mean_cols(square(t0)) + 1e-05) * weight + bias
    moves: 67.13 MB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    rows_start = pid.to(tl.int64)
    r_cols = tl.arange(0, T_cols)
    x = tl.load(x_ptr + rows_start * x_stride_rows + r_cols * x_stride_cols)
    x_f = x.to(tl.float32)
    sum_cols = tl.sum(x_f, axis=0)
    mean_cols = tl.div_rn(sum_cols, tl.cast(tl.maximum(N_cols, 1), tl.float32))
    diff = x_f - mean_cols
    square = diff * diff
    sum_cols_2 = tl.sum(square, axis=0)
    mean_cols_2 = tl.div_rn(sum_cols_2, tl.cast(tl.maximum(N_cols, 1), tl.float32))
    add = mean_cols_2 + 1e-05
    rsqrt = tl.rsqrt(add)
    mul = diff * rsqrt
    weight = tl.load(weight_ptr + r_cols * weight_stride_cols)
    weight_f = weight.to(tl.float32)
    bias = tl.load(bias_ptr + r_cols * bias_stride_cols)
    bias_f = bias.to(tl.float32)
    add_2 = tl.fma(mul, weight_f, bias_f)
    tl.store(out_ptr + rows_start * out_stride_rows + r_cols * out_stride_cols, add_2.to(tl.float16))


def run(x, weight, bias):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, layernorm_out)
    _check_tensor("weight", weight, torch.float16, 1)
    _check_device("weight", weight, x.device, layernorm_out)
    _check_tensor("bias", bias, torch.float16, 1)
    _check_device("bias", bias, x.device, layernorm_out)
    N_rows = x.shape[0]
    N_cols = x.shape[1]
    _check_shape("x", x, (N_rows, N_cols))
    _check_shape("weight", weight, (N_cols,))
    _check_shape("bias", bias, (N_cols,))
    _check_size("rows", N_rows == 4096, "of 4096, on which the program depends")
    _check_size("cols", N_cols == 4096, "of 4096, on which the program depends")
    x = _readable("x", x, (0, 4095))
    weight = _readable("weight", weight, (4095,))
    bias = _readable("bias", bias, (4095,))
    out = torch.empty((N_rows, N_cols), dtype=torch.float16, device=x.device)
    with torch.cuda.device_of(x):
        layernorm_out[_grid(N_rows)](
            x, weight, bias, out,
            N_cols, x.stride(0), x.stride(1), weight.stride(0), bias.stride(0), out.stride(0), out.stride(1),
            T_cols=4096,
            num_warps=8, num_stages=1, enable_fp_fusion=True,
        )
    return (out,)
