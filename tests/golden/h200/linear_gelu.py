"""plan for linear_gelu on h200: 2 kernels, 812.1 us estimated
  linear_gelu_t3: w, x -> t3
    roles   i=grid:256 k=stream:64 j=grid:128   (1792 programs, 8 warps, 3 stages)
    loops   k x1
    cost    760.2 us, bound by l2; 268.44 MB DRAM, 5.75 GB L2, 481.0 GFLOP, 0.00 G instructions; 147.46 kB shared
  linear_gelu_out: b, t3 -> out
    roles   i=grid:1 j=grid:1024   (57344 programs, 2 warps, 1 stages)
    loops   none (whole rows on chip)
    cost    51.9 us, bound by dram; 234.91 MB DRAM, 352.32 MB L2, 0.0 GFLOP, 1.35 G instructions; 0 B shared
  memory: 503.35 MB; compulsory 268.46 MB; unfused 1.80 GB in 7 kernels (825.3 us)
  time against memory: 812.1 us holding 117.44 MB (2 kernels); 1007.5 us holding 0 B (1 kernel)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: one kernel, 1007.5 us, 268.46 MB: 195.4 us slower: 1 kernel, linear_gelu_out is bound by l2
  search ended: exhausted
"""


import torch
import triton
import triton.language as tl


@triton.jit
def linear_gelu_t3(
    x_ptr, w_ptr, t3_ptr,
    N_k, N_j, x_stride_i, x_stride_k, w_stride_j, w_stride_k, t3_stride_i, t3_stride_j,
    T_i: tl.constexpr, T_k: tl.constexpr, T_j: tl.constexpr,
):
    """t3[i, j] = sum_k(x * w)
    moves: 268.44 MB of memory for the planned sizes; bound by l2
    """
    pid = tl.program_id(0)
    j0 = (pid % tl.cdiv(N_j, T_j)).to(tl.int64) * T_j
    pid = pid // tl.cdiv(N_j, T_j)
    i0 = pid.to(tl.int64) * T_i
    r_i = tl.arange(0, T_i)
    r_k = tl.arange(0, T_k)
    r_j = tl.arange(0, T_j)
    sum_k = tl.zeros([T_i, T_j], tl.float32)
    for k0 in tl.range(0, N_k, T_k):
        x = tl.load(
            x_ptr + (i0 * x_stride_i + tl.cast(k0, tl.int64) * x_stride_k) + (r_i[:, None] * x_stride_i + r_k[None, :] * x_stride_k),
        )
        w = tl.load(
            w_ptr + (j0 * w_stride_j + tl.cast(k0, tl.int64) * w_stride_k) + (r_j[None, :] * w_stride_j + r_k[:, None] * w_stride_k),
        )
        sum_k = tl.dot(x, w, sum_k, out_dtype=tl.float32)
    tl.store(
        t3_ptr + (i0 * t3_stride_i + j0 * t3_stride_j) + (r_i[:, None] * t3_stride_i + r_j[None, :] * t3_stride_j),
        sum_k.to(tl.float16),
    )


@triton.jit
def linear_gelu_out(
    t3_ptr, b_ptr, out_ptr,
    N_j, t3_stride_i, t3_stride_j, b_stride_j, out_stride_i, out_stride_j,
    T_j: tl.constexpr,
):
    """t0[i, j] = sum_k(x * w) + b
    out[i, j] = t0 * 0.5 * (erf(t0 * 0.707107) + 1)
    moves: 234.91 MB of memory for the planned sizes; bound by dram
    """
    pid = tl.program_id(0)
    j0 = (pid % tl.cdiv(N_j, T_j)).to(tl.int64) * T_j
    pid = pid // tl.cdiv(N_j, T_j)
    i0 = pid.to(tl.int64)
    r_j = tl.arange(0, T_j)
    t3 = tl.load(t3_ptr + (i0 * t3_stride_i + j0 * t3_stride_j) + r_j * t3_stride_j)
    b = tl.load(b_ptr + j0 * b_stride_j + r_j * b_stride_j)
    t3_f = t3.to(tl.float32)
    b_f = b.to(tl.float32)
    add = t3_f + b_f
    mul = add * 0.5
    mul_2 = add * 0.7071067811865476
    erf = tl.erf(mul_2)
    add_2 = erf + 1.0
    mul_3 = mul * add_2
    tl.store(out_ptr + (i0 * out_stride_i + j0 * out_stride_j) + r_j * out_stride_j, mul_3.to(tl.float16))


def run(x, w, b):
    """Return the tuple (out), computed by 2 kernels on the device of the arguments."""
    _check_tensor("x", x, torch.float16, 2)
    _check_device("x", x, x.device, linear_gelu_t3)
    _check_tensor("w", w, torch.float16, 2)
    _check_device("w", w, x.device, linear_gelu_t3)
    _check_tensor("b", b, torch.float16, 1)
    _check_device("b", b, x.device, linear_gelu_t3)
    N_i = x.shape[0]
    N_k = x.shape[1]
    N_j = w.shape[0]
    _check_shape("x", x, (N_i, N_k))
    _check_shape("w", w, (N_j, N_k))
    _check_shape("b", b, (N_j,))
    _check_size("i", N_i == 4096, "of 4096, on which the program depends")
    _check_size("k", N_k == 4096, "of 4096, on which the program depends")
    _check_size("j", N_j == 14336, "of 14336, on which the program depends")
    x = _readable("x", x, (255, 63))
    w = _readable("w", w, (127, 63))
    b = _readable("b", b, (1023,))
    out = torch.empty((N_i, N_j), dtype=torch.float16, device=x.device)
    with torch.cuda.device_of(x):
        t3 = torch.empty((N_i, N_j), dtype=torch.float16, device=x.device)
        _check_reach("t3", t3.stride(), (255, 1023))
        linear_gelu_t3[_grid(triton.cdiv(N_i, 256) * triton.cdiv(N_j, 128))](
            x, w, t3,
            N_k, N_j, x.stride(0), x.stride(1), w.stride(0), w.stride(1), t3.stride(0), t3.stride(1),
            T_i=256, T_k=64, T_j=128,
            num_warps=8, num_stages=3, enable_fp_fusion=True,
        )
        linear_gelu_out[_grid(N_i * triton.cdiv(N_j, 1024))](
            t3, b, out,
            N_j, t3.stride(0), t3.stride(1), b.stride(0), out.stride(0), out.stride(1),
            T_j=1024,
            num_warps=2, num_stages=1, enable_fp_fusion=True,
        )
    return (out,)
