"""Operands of a product that cost more than their own bytes are made once, by a kernel of their own; the product's loops are as without."""

import pytest
import torch

import eqfuse
from eqfuse.tiles.walk import shares

INF = float("inf")


def causal(q, k, v):
    at = torch.arange(q.shape[-2], device=q.device)
    scores = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(at > at[:, None], -INF)
    return torch.softmax(scores, -1) @ v


def normalised(x, w):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w


def rotated(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


KINDS = {
    "norm": (lambda q, k, v, a, b: causal(normalised(q, a), normalised(k, b), v), (128,)),
    "rotary": (lambda q, k, v, a, b: causal(rotated(q, a, b), rotated(k, a, b), v), (4096, 128)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_keys_are_made_once(kind):
    fn, more = KINDS[kind]
    args = [torch.empty(s, dtype=torch.float16, device="meta") for s in ((1, 32, 4096, 128),) * 3 + (more,) * 2]
    plan, least = eqfuse.optimize(fn, args, target="h200").plan, eqfuse.optimize(causal, args[:3], target="h200").plan
    _, last = plan.kernels
    assert shares(last.tiles), "masked tiles are left out, though a factor of the scores was made by a reduction"
    assert plan.estimated_us < 1.25 * least.estimated_us
