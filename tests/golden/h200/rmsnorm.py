"""plan for rmsnorm on h200: 1 kernel, 19.4 us estimated
  rmsnorm_out: weight, x -> out
    roles   rows=grid:1 cols=resident:4096   (4096 programs, 8 warps, 1 stages)
    loops   none (whole rows on chip)
    cost    19.4 us, bound by dram; 67.12 MB DRAM, 100.66 MB L2, 0.0 GFLOP, 0.08 G instructions; 0 B shared
  memory: 67.12 MB; compulsory 67.12 MB; unfused 234.94 MB in 6 kernels (73.0 us)
  this module has kernels only: run() takes tensors on a GPU
  search ended: bound
"""


import torch
import triton
import triton.language as tl


@triton.jit
def rmsnorm_out(
    x_ptr, weight_ptr, out_ptr,
    N_cols, x_stride_rows, x_stride_cols, weight_stride_cols, out_stride_rows, out_stride_cols,
    T_cols: tl.constexpr,
):
    """out[rows, cols] = x * rsqrt(mean_cols(square(x)) + 1e-06) * weight
    moves: 67.12 MB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    rows_start = pid.to(tl.int64)
    r_cols = tl.arange(0, T_cols)
    x = tl.load(x_ptr + rows_start * x_stride_rows + r_cols * x_stride_cols)
    x_f = x.to(tl.float32)
    square = x_f * x_f
    sum_cols = tl.sum(square, axis=0)
    mean_cols = tl.div_rn(sum_cols, tl.cast(tl.maximum(N_cols, 1), tl.float32))
    add = mean_cols + 1e-06
    rsqrt = tl.rsqrt(add)
    mul = x_f * rsqrt
    weight = tl.load(weight_ptr + r_cols * weight_stride_cols)
    weight_f = weight.to(tl.float32)
    mul_2 = mul * weight_f
    tl.store(out_ptr + rows_start * out_stride_rows + r_cols * out_stride_cols, mul_2.to(tl.float16))


def run(x, weight):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, rmsnorm_out)
    _check_tensor("weight", weight, torch.float16, 1)
    _check_device("weight", weight, x.device, rmsnorm_out)
    N_rows = x.shape[0]
    N_cols = x.shape[1]
    _check_shape("x", x, (N_rows, N_cols))
    _check_shape("weight", weight, (N_cols,))
    _check_size("rows", N_rows == 4096, "of 4096, on which the program depends")
    _check_size("cols", N_cols == 4096, "of 4096, on which the program depends")
    x = _readable("x", x, (0, 4095))
    weight = _readable("weight", weight, (4095,))
    out = torch.empty((N_rows, N_cols), dtype=torch.float16, device=x.device)
    with torch.cuda.device_of(x):
        rmsnorm_out[_grid(N_rows)](
            x, weight, out,
            N_cols, x.stride(0), x.stride(1), weight.stride(0), out.stride(0), out.stride(1),
            T_cols=4096,
            num_warps=8, num_stages=1, enable_fp_fusion=True,
        )
    return (out,)
