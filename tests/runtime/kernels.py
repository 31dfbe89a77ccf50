"""Hand-written Triton modules, as text, of the shape that code generation emits: kernels and a host function ``run``."""

HEADER = """
import torch
import triton
import triton.language as tl

"""

SOFTMAX = (
    HEADER
    + """
@triton.jit
def row_max(x):
    return tl.max(x, axis=0)


@triton.jit
def softmax_kernel(x_ptr, y_ptr, N, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    x = tl.load(x_ptr + row * stride + columns, mask=inside, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - row_max(x))
    y = e / tl.sum(e, axis=0)
    tl.store(y_ptr + row * stride + columns, y.to(y_ptr.dtype.element_ty), mask=inside)


def run(x):
    y = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=4)
    return y
"""
)

MATMUL = (
    HEADER
    + """
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in tl.range(0, K, BK):
        ks = k0 + tl.arange(0, BK)
        a = tl.load(a_ptr + rows[:, None] * sa + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        b = tl.load(b_ptr + ks[:, None] * sb + columns[None, :], mask=(ks[:, None] < K) & (columns[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    c = acc.to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + rows[:, None] * sc + columns[None, :], c, mask=(rows[:, None] < M) & (columns[None, :] < N))


def run(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    matmul_kernel[grid](a, b, c, M, N, K, a.stride(0), b.stride(0), c.stride(0), BM=32, BN=32, BK=32, num_stages=2)
    return c
"""
)

ATTENTION = (
    HEADER
    + """
@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, o_ptr, S, stride, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * stride + d[None, :], mask=rows[:, None] < S, other=0.0)
    m = tl.full((BM,), float("-inf"), tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for j0 in tl.range(0, S, BN):
        j = j0 + tl.arange(0, BN)
        k = tl.load(k_ptr + j[:, None] * stride + d[None, :], mask=j[:, None] < S, other=0.0)
        s = tl.where(j[None, :] < S, tl.dot(q, tl.trans(k)), float("-inf"))
        new = tl.maximum(m, tl.max(s, axis=1))
        p = tl.exp2(s - new[:, None])
        alpha = tl.exp2(m - new)
        l = l * alpha + tl.sum(p, axis=1)
        v = tl.load(v_ptr + j[:, None] * stride + d[None, :], mask=j[:, None] < S, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = new
    tl.store(o_ptr + rows[:, None] * stride + d[None, :], (acc / l[:, None]).to(o_ptr.dtype.element_ty), mask=rows[:, None] < S)
"""
)

BFLOAT16 = (
    HEADER
    + """
@triton.jit
def axpy_kernel(a_ptr, b_ptr, y_ptr, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + at, mask=at < N, other=0.0)
    b = tl.load(b_ptr + at, mask=at < N, other=0.0)
    tl.store(y_ptr + at, a * b + a, mask=at < N)


def run(a, b):
    y = torch.empty_like(a)
    axpy_kernel[(1,)](a, b, y, a.numel(), BLOCK=triton.next_power_of_2(a.numel()))
    return y
"""
)

OUT_OF_BOUNDS = (
    HEADER
    + """
@triton.jit
def copy_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at), mask=at < N)


@triton.jit
def spill_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < N, other=0.0))


@triton.jit
def far_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at.to(tl.int64) * (1 << 40), mask=at < N, other=0.0), mask=at < N)


def reads(x):
    y = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), BLOCK=16)
    return y


def writes(x):
    y = torch.empty_like(x)
    spill_kernel[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), BLOCK=16)
    return y


def far(x):
    y = torch.empty_like(x)
    far_kernel[(1,)](x, y, x.numel(), BLOCK=16)
    return y
"""
)

RACES = (
    HEADER
    + """
@triton.jit
def total_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr, tl.sum(tl.load(x_ptr + at), axis=0))


@triton.jit
def atomic_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr, tl.sum(tl.load(x_ptr + at), axis=0))


@triton.jit
def shift_kernel(x_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at + 1, mask=at + 1 < N, other=0.0)
    tl.store(x_ptr + at, x, mask=at < N)


def writes(x):
    y = torch.zeros(1)
    total_kernel[(x.numel() // 16,)](x, y, BLOCK=16)
    return y


def atomic(x):
    y = torch.zeros(1)
    atomic_kernel[(x.numel() // 16,)](x, y, BLOCK=16)
    return y


def in_place(x):
    shift_kernel[(x.numel() // 16,)](x, x.numel(), BLOCK=16)
    return x


def twice(x):
    y = torch.zeros(1)
    total_kernel[(1,)](x, y, BLOCK=16)
    total_kernel[(1,)](x, y, BLOCK=16)
    return y
"""
)

UNDEFINED = (
    HEADER
    + """
@triton.jit
def max_kernel(x_ptr, y_ptr, N, LOW: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < N)
    tl.store(y_ptr, tl.min(x, axis=0) if LOW else tl.max(x, axis=0))


def run(x, low):
    y = torch.empty(1)
    max_kernel[(1,)](x, y, x.numel(), LOW=low, BLOCK=triton.next_power_of_2(x.numel()))
    return y
"""
)

COMPOSED = (
    HEADER
    + '''
@triton.jit
def then(a1, b1, a2, b2):
    """First x -> a1 x + b1, then x -> a2 x + b2: associative, and not commutative."""
    return a1 * a2, b1 * a2 + b2


@triton.jit
def compose_kernel(a_ptr, b_ptr, y_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, KEEP: tl.constexpr):
    i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    at = i * COLUMNS + j
    a, b = tl.reduce((tl.load(a_ptr + at), tl.load(b_ptr + at)), 1, then, keep_dims=KEEP)
    rows = tl.arange(0, ROWS)
    if KEEP:
        tl.store(y_ptr + 2 * i, a)
        tl.store(y_ptr + 2 * i + 1, b)
    else:
        tl.store(y_ptr + 2 * rows, a)
        tl.store(y_ptr + 2 * rows + 1, b)


def run(a, b, keep):
    y = torch.empty(a.shape[0], 2)
    compose_kernel[(1,)](a, b, y, ROWS=a.shape[0], COLUMNS=a.shape[1], KEEP=keep)
    return y
'''
)
