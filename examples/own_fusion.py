"""Decide what shares a kernel: forbid, require, and offer an implementation of your own.

python examples/own_fusion.py
"""

import torch

import eqfuse
from eqfuse.rewrites import Axis, Map, Sum, forbid, match, offer


def vendor_us(target, i, j, k):
    """A vendor's matrix product reaches three quarters of the device's rate; 5 microseconds to start."""
    return 2e-6 * i * j * k / (0.75 * target.tensor_rate("float16")) + 5.0


@eqfuse.fusion(register=False)
def vendor_product(y, a, b, i: Axis, j: Axis, k: Axis):
    """y[i, j] = sum_k a[i, k] * b[k, j], by torch.matmul"""
    return [match(y, Sum(k, a * b))], offer("torch:matmul", (y, i, j), (a, i, k), (b, k, j), us=vendor_us)


@eqfuse.fusion(register=False)
def tanh_stands_alone(y, t, x):
    """A tanh and the square of it do not share a kernel."""
    return [match(t, Map("tanh", x)), match(y, Map("square", t))], forbid(y, t)


def layer(x, w, b):
    """A layer with an epilogue."""
    hidden = torch.tanh(x @ w + b)
    return hidden**2


def half(*shape):
    """A tensor without data: plans need shapes only."""
    return torch.empty(*shape, device="meta", dtype=torch.float16)


if __name__ == "__main__":
    eqfuse.testing.check_rule(vendor_product)  # the offer claims an equality: the function is run against it
    large = half(8192, 4096), half(4096, 8192), half(8192)

    print(eqfuse.optimize(layer, large, target="h200").plan, end="\n\n")

    # By a rule: wherever the pattern stands.
    print(eqfuse.optimize(layer, large, target="h200", rules=[tanh_stands_alone]).plan, end="\n\n")

    # By name: in this program.
    named = eqfuse.optimize(layer, large, target="h200", fusion=[("forbid", "out", "hidden")])
    print(named.why("out", "hidden"), end="\n\n")

    # An offer is taken where the plan with it is faster.
    offered = eqfuse.optimize(layer, large, target="h200", rules=[vendor_product])
    print(offered.plan)
    small = torch.randn(130, 70).half(), torch.randn(70, 190).half(), torch.randn(190).half()
    print(offered.at(*small).accuracy(*small, factor=2.0))
