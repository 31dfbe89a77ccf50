"""Ops of your own: declared once, checked, then traced, fused, repaired and verified like the library's.

    python examples/own_op.py
    python -m eqfuse optimize examples/own_op.py:softplus_attention --source

1. Attention whose weights are softplus(s) / sum softplus(s): an op with a helper in Triton.  One kernel, one pass over the keys.
2. A power of ten.  Its trait "turns sums into products" is all that is needed for a running maximum: one pass instead of two.
"""

import numpy as np
import torch
import triton
import triton.language as tl

import eqfuse
from eqfuse.errors import UnsoundOpError


@triton.jit
def log_one_plus(e):
    """log(1 + e) for e in [0, 1]: the rounding of u = 1 + e cancels in e / (u - 1)."""
    u = 1.0 + e
    return tl.where(u == 1.0, e, tl.log(u) * (e / (u - 1.0)))


@triton.jit
def softplus_kernel(x):
    """log(1 + exp(x)), without overflow for large x and without losing exp(x) for small x."""
    return tl.maximum(x, 0.0) + log_one_plus(tl.exp(-tl.abs(x)))


softplus = eqfuse.op(
    "soft_plus",
    numpy=lambda x: np.logaddexp(x, 0.0),
    triton=softplus_kernel,
    increasing=True,
    cost=14,
    special=3,
    torch=lambda x: torch.nn.functional.softplus(x, threshold=40.0),  # for derivatives, and for running the program in torch on a GPU
)

exp10 = eqfuse.op(
    "exp10",
    numpy=lambda x: np.power(10.0, x),
    triton="tl.exp2({} * 3.321928094887362)",
    increasing=True,
    turns=(("add", "mul"),),  # 10**(x + y) = 10**x * 10**y
    cost=2,
    special=1,
)


def softplus_attention(q, k, v):
    """Weights softplus(s) / sum softplus(s): like softmax, but a far score costs little."""
    w = softplus(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5)
    return (w / w.sum(-1, keepdim=True)) @ v


def attention_in_tens(q, k, v):
    """Weights 10**(s - max s), normalised."""
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    w = exp10(s - s.amax(-1, keepdim=True))
    return (w / w.sum(-1, keepdim=True)) @ v


def example_args():
    return tuple(torch.randn(1, 16, 4096, 64, dtype=torch.float16, device="meta") for _ in range(3))


def main():
    small = tuple(torch.randn(1, 2, 200, 64, dtype=torch.float16) for _ in range(3))
    for program in (softplus_attention, attention_in_tens):
        compiled = eqfuse.optimize(program, example_args(), target="h200")
        print(compiled.plan)
        report = compiled.at(*small).accuracy(*small)  # the same kernel, in Triton's interpreter
        print(report, "\n")
        report.check()

    try:
        eqfuse.op("exp10_of_half", numpy=lambda x: np.power(10.0, x / 2), triton="tl.exp2({} * 1.6609640474436813)", increasing=True,
                  turns=(("add", "add"),))  # fmt: skip
    except UnsoundOpError as error:
        print(error)


if __name__ == "__main__":
    main()
