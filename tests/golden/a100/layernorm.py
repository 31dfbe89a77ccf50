"""plan for layernorm on a100: 1 kernel, 36.4 us estimated
  layernorm_out: bias, weight, x -> out
    roles   i=grid:1 j=resident:4096   (4096 programs, 8 warps, 1 stages)
    loops   none (whole rows on chip)
    cost    36.4 us, bound by dram; 67.13 MB DRAM, 134.22 MB L2, 0.0 GFLOP, 0.15 G instructions; 0 B shared
  memory: 67.13 MB; compulsory 67.13 MB; unfused 402.74 MB in 9 kernels (229.0 us)
  this module has kernels only: run() takes tensors on a GPU
  search ended: bound
"""


import torch
import triton
import triton.language as tl


@triton.jit
def layernorm_out(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    N_j, x_stride_i, x_stride_j, weight_stride_j, bias_stride_j, out_stride_i, out_stride_j,
    T_j: tl.constexpr,
):
    """t0[i, j] = x - mean_j(x)
    out[i, j] = t0 * rsqrt(mean_j(square(t0)) + 1e-05) * weight + bias
    moves: 67.13 MB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    i0 = pid.to(tl.int64)
    r_j = tl.arange(0, T_j)
    x = tl.load(x_ptr + i0 * x_stride_i + r_j * x_stride_j)
    x_f = x.to(tl.float32)
    sum_j = tl.sum(x_f, axis=0)
    mean_j = sum_j / tl.cast(tl.maximum(N_j, 1), tl.float32)
    diff = x_f - mean_j
    square = diff * diff
    sum_j_2 = tl.sum(square, axis=0)
    mean_j_2 = sum_j_2 / tl.cast(tl.maximum(N_j, 1), tl.float32)
    add = mean_j_2 + 1e-05
    rsqrt = tl.rsqrt(add)
    mul = diff * rsqrt
    weight = tl.load(weight_ptr + r_j * weight_stride_j)
    weight_f = weight.to(tl.float32)
    bias = tl.load(bias_ptr + r_j * bias_stride_j)
    bias_f = bias.to(tl.float32)
    add_2 = tl.fma(mul, weight_f, bias_f)
    tl.store(out_ptr + i0 * out_stride_i + r_j * out_stride_j, add_2.to(tl.float16))


def run(x, weight, bias):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, layernorm_out)
    _check_tensor("weight", weight, torch.float16, 1)
    _check_device("weight", weight, x.device, layernorm_out)
    _check_tensor("bias", bias, torch.float16, 1)
    _check_device("bias", bias, x.device, layernorm_out)
    N_i = x.shape[0]
    N_j = x.shape[1]
    _check_shape("x", x, (N_i, N_j))
    _check_shape("weight", weight, (N_j,))
    _check_shape("bias", bias, (N_j,))
    _check_size("i", N_i == 4096, "of 4096, on which the program depends")
    _check_size("j", N_j == 4096, "of 4096, on which the program depends")
    x = _readable("x", x, (0, 4095))
    weight = _readable("weight", weight, (4095,))
    bias = _readable("bias", bias, (4095,))
    out = torch.empty((N_i, N_j), dtype=torch.float16, device=x.device)
    with torch.cuda.device_of(x):
        layernorm_out[_grid(N_i)](
            x, weight, bias, out,
            N_j, x.stride(0), x.stride(1), weight.stride(0), bias.stride(0), out.stride(0), out.stride(1),
            T_j=4096,
            num_warps=8, num_stages=1, enable_fp_fusion=True,
        )
    return (out,)
