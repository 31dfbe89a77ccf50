"""plan for swiglu on h200: 1 kernel, 1501.9 us estimated
  swiglu_out: gate, up, x -> out
    roles   i=grid:256 k=stream:64 j=grid:64   (3584 programs, 8 warps, 3 stages)
    loops   k x1
    cost    1501.9 us, bound by l2; 385.88 MB DRAM, 11.39 GB L2, 962.1 GFLOP, 0.53 G instructions; 147.46 kB shared
  memory: 385.88 MB; compulsory 385.88 MB; unfused 1.48 GB in 5 kernels (1183.1 us)
  this module has kernels only: run() takes tensors on a GPU
  runner-up: one kernel per reduction, 1596.8 us, 889.19 MB: 94.9 us slower: 3 kernels, swiglu_t3 is bound by l2
  search ended: exhausted
"""


import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_out(
    x_ptr, gate_ptr, up_ptr, out_ptr,
    N_k, N_j, x_stride_i, x_stride_k, gate_stride_j, gate_stride_k, up_stride_j, up_stride_k, out_stride_i, out_stride_j,
    T_i: tl.constexpr, T_k: tl.constexpr, T_j: tl.constexpr,
):
    """t0[i, j] = sum_k(x * gate)
    out[i, j] = t0 * sigmoid(t0) * sum_k(x * up)
    moves: 385.88 MB of memory for the planned sizes; bound by l2
    """
    pid = tl.program_id(0)
    j0 = (pid % tl.cdiv(N_j, T_j)).to(tl.int64) * T_j
    pid = pid // tl.cdiv(N_j, T_j)
    i0 = pid.to(tl.int64) * T_i
    r_i = tl.arange(0, T_i)
    r_k = tl.arange(0, T_k)
    r_j = tl.arange(0, T_j)
    sum_k = tl.zeros([T_i, T_j], tl.float32)
    sum_k_2 = tl.zeros([T_i, T_j], tl.float32)
    for k0 in tl.range(0, N_k, T_k):
        x = tl.load(
            x_ptr + (i0 * x_stride_i + tl.cast(k0, tl.int64) * x_stride_k) + (r_i[:, None] * x_stride_i + r_k[None, :] * x_stride_k),
        )
        gate = tl.load(
            gate_ptr + (j0 * gate_stride_j + tl.cast(k0, tl.int64) * gate_stride_k) + (r_j[None, :] * gate_stride_j + r_k[:, None] * gate_stride_k),
        )
        sum_k = tl.dot(x, gate, sum_k, out_dtype=tl.float32)
        up = tl.load(
            up_ptr + (j0 * up_stride_j + tl.cast(k0, tl.int64) * up_stride_k) + (r_j[None, :] * up_stride_j + r_k[:, None] * up_stride_k),
        )
        sum_k_2 = tl.dot(x, up, sum_k_2, out_dtype=tl.float32)
    sigmoid = 1.0 / (1.0 + tl.exp(-sum_k))
    mul = sum_k * sigmoid
    mul_2 = mul * sum_k_2
    tl.store(
        out_ptr + (i0 * out_stride_i + j0 * out_stride_j) + (r_i[:, None] * out_stride_i + r_j[None, :] * out_stride_j),
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
    N_i = x.shape[0]
    N_k = x.shape[1]
    N_j = gate.shape[0]
    _check_shape("x", x, (N_i, N_k))
    _check_shape("gate", gate, (N_j, N_k))
    _check_shape("up", up, (N_j, N_k))
    _check_size("i", N_i == 4096, "of 4096, on which the program depends")
    _check_size("k", N_k == 4096, "of 4096, on which the program depends")
    _check_size("j", N_j == 14336, "of 14336, on which the program depends")
    x = _readable("x", x, (255, 63))
    gate = _readable("gate", gate, (63, 63))
    up = _readable("up", up, (63, 63))
    out = torch.empty((N_i, N_j), dtype=torch.float16, device=x.device)
    _check_reach("out", out.stride(), (255, 63))
    with torch.cuda.device_of(x):
        swiglu_out[_grid(triton.cdiv(N_i, 256) * triton.cdiv(N_j, 64))](
            x, gate, up, out,
            N_k, N_j, x.stride(0), x.stride(1), gate.stride(0), gate.stride(1), up.stride(0), up.stride(1), out.stride(0),
            out.stride(1),
            T_i=256, T_k=64, T_j=64,
            num_warps=8, num_stages=3, enable_fp_fusion=True,
        )
    return (out,)
