"""The main job on real input, printed link by link: what ``make demo`` runs.

Attention as plain torch operations at Llama-3-8B prefill shape goes through tracing, saturation, extraction and code
generation; its kernel is compiled ahead of time for real devices and run in Triton's interpreter, at reduced sizes, against
float64.  No GPU is needed; where there is one, the kernel also runs on it.  At last a few programs are timed on the machine at hand.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from .measurement import show_measurement
from .tables import show_heading, show_python

HEADS, HEAD_DIM = 32, 128
ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "gfx942")
REDUCED = ((1, 2, 256, 128), (1, 2, 200, 128), (1, 3, 97, 96))  # even, ragged, prime: what the interpreter can do in seconds


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Softmax(q kᵀ · scale) v, as the textbook writes it."""
    scale = q.shape[-1] ** -0.5
    return torch.softmax(q @ k.transpose(-1, -2) * scale, dim=-1) @ v


def example(*shape: int, device: str = "cpu", scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Query, key and value in half precision; the same numbers every time."""
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(shape, generator=g).half().to(device) for _ in range(3))
    return q * scale, k * scale, v


def run(target: str = "h200", tokens: int = 4096, measure: bool = True) -> int:
    """Print every link, and with ``measure`` a table of times; returns 0 if the checks passed."""
    import eqfuse

    shape = (1, HEADS, tokens, HEAD_DIM)
    start = time.process_time()
    c = eqfuse.optimize(attention, example(*shape), target=target)
    seconds = time.process_time() - start

    show_heading("the program, traced")
    print(c.program)
    show_heading("saturation")
    print(c.graph.report)
    show_heading(f"the plan for {target}")
    print(c.plan)
    show_heading("the kernel")
    show_python(c.source)
    show_heading("compiled ahead of time")
    for arch in ARCHITECTURES:
        for report in c.compile(arch):
            print(report)
    show_heading("the same kernel against float64 through Triton's interpreter, at reduced sizes")
    passed = True
    for small in REDUCED:
        for scale, what in ((1.0, "unit scale"), (30.0, "logits beyond 1e3")):
            args = example(*small, scale=scale)
            found = c.at(*args).accuracy(*args)  # the same kernel, tiles and loops, at another size
            passed &= all(o.within() for o in found.outputs)
            print(f"{'x'.join(map(str, small))}, {what}:")
            print("\n".join("  " + line for line in str(found).splitlines()))
    if torch.cuda.is_available():
        show_heading(f"on {torch.cuda.get_device_name()}")
        passed &= _on_device(c, shape)
    if measure:
        passed &= show_measurement("cuda" if torch.cuda.is_available() else "cpu")
    print(f"\noptimize() took {seconds:.2f} s of CPU time, the imports and the rules' compilation of a first call included")
    if not passed:
        print("A CHECK FAILED")
    return 0 if passed else 1


def _on_device(c: Callable[..., torch.Tensor], shape: tuple[int, ...]) -> bool:
    """Difference from a float32 computation; whether it is right."""
    args = example(*shape, device="cuda")
    ours, eager = c(*args), attention(*args)
    right = True
    for head in range(0, shape[1], 8):  # a few heads: the float32 score matrix of one is already 64 MiB
        one = tuple(a[:, head].float() for a in args)
        exact = attention(*one)
        error, theirs = ((x[:, head] - exact).abs().max().item() for x in (ours, eager))
        right &= error <= 2 * theirs  # not so where an output is NaN
        print(f"head {head:2d}: max error {error:.2e} (eager {theirs:.2e})")
    return right
