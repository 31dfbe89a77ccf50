"""plan for matmul on a100: 1 kernel, 10.2 us estimated
  matmul_out: a, b -> out
    roles   i=grid:64 k=stream:64 j=grid:128   (48 programs, 8 warps, 3 stages)
    loops   k x1
    cost    10.2 us, bound by l2; 2.62 MB DRAM, 12.72 MB L2, 0.7 GFLOP, 0.00 G instructions; 73.73 kB shared
  memory: 2.62 MB; compulsory 2.62 MB; unfused 2.62 MB in 1 kernels (5.0 us)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: k split over the grid into 2 parts, 98.3 us, 7.42 MB: 88.2 us slower: 2 kernels, matmul_part0 is bound by simt
  search ended: exhausted
"""


import math

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_out(
    a_ptr, b_ptr, out_ptr,
    N_i, N_k, N_j, a_stride_i, a_stride_k, b_stride_k, b_stride_j, out_stride_i, out_stride_j,
    T_i: tl.constexpr, T_k: tl.constexpr, T_j: tl.constexpr, S_N_j: tl.constexpr, S_b: tl.constexpr, S_out: tl.constexpr,
):
    """out[i, j] = sum_k(a * b)
    moves: 2.62 MB of memory for the planned sizes; bound by l2
    """
    # for the compiler, which does not know that these are multiples of 2**S
    N_j = N_j >> S_N_j << S_N_j
    b_stride_k = b_stride_k >> S_b << S_b
    out_stride_i = out_stride_i >> S_out << S_out
    pid = tl.program_id(0)
    j0 = (pid % tl.cdiv(N_j, T_j)).to(tl.int64) * T_j
    pid = pid // tl.cdiv(N_j, T_j)
    i0 = pid.to(tl.int64) * T_i
    r_i = tl.arange(0, T_i)
    r_k = tl.arange(0, T_k)
    r_j = tl.arange(0, T_j)
    i_ok = i0 + r_i < N_i
    j_ok = j0 + r_j < N_j
    sum_k = tl.zeros([T_i, T_j], tl.float32)
    k_full = N_k // T_k * T_k
    for k0 in tl.range(0, k_full, T_k):
        a = tl.load(
            a_ptr + (i0 * a_stride_i + tl.cast(k0, tl.int64) * a_stride_k) + (r_i[:, None] * a_stride_i + r_k[None, :] * a_stride_k),
            mask=i_ok[:, None],
            other=0.0,
        )
        b = tl.load(
            b_ptr + (tl.cast(k0, tl.int64) * b_stride_k + j0 * b_stride_j) + (r_k[:, None] * b_stride_k + r_j[None, :] * b_stride_j),
            mask=j_ok[None, :],
            other=0.0,
        )
        sum_k = tl.dot(a, b, sum_k, out_dtype=tl.float32)
    for k0 in tl.range(k_full, N_k, T_k, num_stages=1):  # the ragged last tile
        k_ok = k0 + r_k < N_k
        a = tl.load(
            a_ptr + (i0 * a_stride_i + tl.cast(k0, tl.int64) * a_stride_k) + (r_i[:, None] * a_stride_i + r_k[None, :] * a_stride_k),
            mask=i_ok[:, None] & k_ok[None, :],
            other=0.0,
        )
        b = tl.load(
            b_ptr + (tl.cast(k0, tl.int64) * b_stride_k + j0 * b_stride_j) + (r_k[:, None] * b_stride_k + r_j[None, :] * b_stride_j),
            mask=j_ok[None, :] & k_ok[:, None],
            other=0.0,
        )
        sum_k = tl.dot(a, b, sum_k, out_dtype=tl.float32)
    tl.store(
        out_ptr + (i0 * out_stride_i + j0 * out_stride_j) + (r_i[:, None] * out_stride_i + r_j[None, :] * out_stride_j),
        sum_k.to(tl.float16),
        mask=i_ok[:, None] & j_ok[None, :],
    )


def run(a, b):
    """Return the tuple (out), computed by 1 kernel on the device of the arguments."""
    _check_tensor("a", a, torch.float16, 2)
    _check_device("a", a, a.device, matmul_out)
    _check_tensor("b", b, torch.float16, 2)
    _check_device("b", b, a.device, matmul_out)
    N_i = a.shape[0]
    N_k = a.shape[1]
    N_j = b.shape[1]
    _check_shape("a", a, (N_i, N_k))
    _check_shape("b", b, (N_k, N_j))
    _check_size("i", N_i == 1000, "of 1000, on which the program depends")
    _check_size("k", N_k == 777, "of 777, on which the program depends")
    _check_size("j", N_j == 300, "of 300, on which the program depends")
    a = _readable("a", a, (63, 63))
    b = _readable("b", b, (63, 127))
    out = torch.empty((N_i, N_j), dtype=torch.float16, device=a.device)
    _check_reach("out", out.stride(), (63, 127))
    with torch.cuda.device_of(a):
        matmul_out[_grid(triton.cdiv(N_i, 64) * triton.cdiv(N_j, 128))](
            a, b, out,
            N_i, N_k, N_j, a.stride(0), a.stride(1), b.stride(0), b.stride(1), out.stride(0), out.stride(1),
            T_i=64, T_k=64, T_j=128, S_N_j=math.gcd(8, N_j).bit_length() - 1, S_b=math.gcd(8, b.stride(0)).bit_length() - 1,
            S_out=math.gcd(8, out.stride(0)).bit_length() - 1,
            num_warps=8, num_stages=3, enable_fp_fusion=True,
        )
    return (out,)
