"""What it is worth to know how arguments lie in memory: plans made with their strides beside plans made as if there were no gaps.

    python benchmarks/strides.py        a row for each case, modelled for an h200 (half a minute)

Both plans are priced for the strides that there are.
"""

import torch

import eqfuse
from eqfuse import pipeline


def meta(*shape):
    return torch.empty(shape, dtype=torch.float16, device="meta")


def norm(x, dims):
    mean = x.mean(dims, keepdim=True)
    return (x - mean) * torch.rsqrt(x.var(dims, keepdim=True, unbiased=False) + 1e-5)


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v


PACKED = tuple(meta(4, 2048, 3 * 16 * 64).view(4, 2048, 3, 16, 64).permute(2, 0, 3, 1, 4))
IMAGES = meta(32, 256, 56, 56).contiguous(memory_format=torch.channels_last)
SQUARE = meta(4096, 4096)
CASES = {
    "x @ w, w transposed": (torch.matmul, (SQUARE, SQUARE.t())),
    "x @ w, x transposed": (torch.matmul, (SQUARE.t(), SQUARE)),
    "x @ w, every second column of x": (torch.matmul, (meta(4096, 8192)[:, ::2], SQUARE)),
    "v * w, summed over rows, w transposed": (lambda v, w: (v * w).sum(1), (meta(1, 4096), SQUARE.t())),
    "softmax of x transposed": (lambda x: torch.softmax(x, -1), (SQUARE.t(),)),
    "softmax of every second column of x": (lambda x: torch.softmax(x, -1), (meta(8192, 4096)[:, ::2],)),
    "statistics over channels, NHWC": (lambda x: x.var(1), (IMAGES,)),
    "norm over channels, NHWC": (lambda x: norm(x, 1), (IMAGES,)),
    "norm over positions, NHWC": (lambda x: norm(x, (2, 3)), (IMAGES,)),
    "attention, q, k and v packed": (attention, PACKED),
    "relu(x + b), b expanded": (lambda x, b: torch.relu(x + b), (SQUARE, meta(4096).expand(4096, 4096))),
}


def main():
    print("| arguments | as if without gaps: us | MB | with strides: us | MB | kernels |\n| --- | --- | --- | --- | --- | --- |")
    for name, (fn, args) in CASES.items():
        known = eqfuse.optimize(fn, args, target="h200")
        assumed = eqfuse.optimize(fn, [torch.empty(x.shape, dtype=x.dtype, device="meta") for x in args], target="h200")
        there = pipeline.like(assumed.planned, known.planned.request, known.planned.traced).plan
        numbers = [f"{n:.1f}" for p in (there, known.plan) for n in (p.estimated_us, p.dram_bytes / 1e6)]
        print(f"| {' | '.join((name, *numbers, str(len(known.plan.kernels))))} |", flush=True)


if __name__ == "__main__":
    main()
