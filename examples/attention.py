"""Attention as the textbook writes it, in plain torch operations.

python -m eqfuse optimize examples/attention.py:attention --source
python -m eqfuse optimize examples/attention.py:attention --check
"""

import torch


def attention(q, k, v):
    """softmax(q kᵀ / sqrt(d)) v, one batch of heads."""
    scale = q.shape[-1] ** -0.5
    return torch.softmax(q @ k.transpose(-1, -2) * scale, dim=-1) @ v


def causal_attention(q, k, v):
    """Each token sees itself and what came before."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    future = torch.arange(k.shape[-2])[None, :] > torch.arange(q.shape[-2])[:, None]
    return torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ v


def example_args():
    """Llama-3-8B prefill: 32 heads, 4096 tokens, head dimension 128, half precision."""
    return tuple(torch.randn(1, 32, 4096, 128).half() for _ in range(3))


if __name__ == "__main__":
    import eqfuse

    compiled = eqfuse.optimize(attention, example_args(), target="h200")
    print(compiled.plan)
    print(compiled.source)
