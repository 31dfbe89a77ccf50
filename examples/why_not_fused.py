"""Why do two values (not) share a kernel?  Five programs, five answers.

python -m eqfuse explain examples/why_not_fused.py:brick --why rows out
python -m eqfuse explain examples/why_not_fused.py:attention --args attention_args --costs
"""

import torch

import eqfuse
from eqfuse.rewrites.decorators import fusion
from eqfuse.rewrites.facts import match
from eqfuse.rewrites.patterns import Map, Reduce, Sum
from eqfuse.rewrites.rule import Axis
from eqfuse.rewrites.verdicts import forbid


def half(*shape):
    """A tensor without data: plans need shapes only."""
    return torch.empty(*shape, device="meta", dtype=torch.float16)


def attention(q, k, v):
    """Fused: a rule rewrites the weights away, and the scores never leave the chip."""
    scores = q @ k.transpose(-1, -2)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v


def attention_args():
    """32 heads, 4096 tokens, head dimension 128."""
    return half(32, 4096, 128), half(32, 4096, 128), half(32, 4096, 128)


def feed_forward(x, w1, w2):
    """Costs more: one kernel would compute the first product again for every tile of the second one."""
    first = x @ w1
    hidden = torch.relu(first)
    return hidden @ w2


def brick(x):
    """Does not fit: normalising over four short axes at once takes a tile of a million elements."""
    rows = x.amax((3, 4), keepdim=True)
    top = rows.amax((1, 2), keepdim=True)
    e = torch.exp(x - top)
    return e / e.sum((1, 2, 3, 4), keepdim=True)


def example_args():
    """Arguments of ``brick``: what the command line uses where it is told of no others."""
    return torch.empty(64, 32, 32, 32, 32, device="meta")


def chain(x):
    """No equation: every maximum needs the one before it, and no rule turns that into fewer loops."""
    a = x.amax(-1, keepdim=True)
    b = torch.tanh(x * torch.cos(a)).amax(-1, keepdim=True)
    c = torch.tanh(x * torch.cos(b)).amax(-1, keepdim=True)
    d = torch.tanh(x * torch.cos(c)).amax(-1, keepdim=True)
    return torch.tanh(x * torch.cos(d)).amax(-1)


def partition(x):
    """Forbidden, by the rule below."""
    top = x.amax(-1, keepdim=True)
    return torch.exp(x - top).sum(-1)


@fusion(register=False)
def maximum_on_its_own(y, m, x, j: Axis):
    """A maximum and the sum of exponentials that needs it run in different kernels."""
    return [match(m, Reduce("max", j, x)), match(y, Sum(j, Map("exp", x + Map("neg", m))))], forbid(y, m)


if __name__ == "__main__":
    fused = eqfuse.optimize(attention, attention_args(), target="h200")
    print(fused.why("weights", "out"), "\n")

    arguments = half(8192, 1024), half(1024, 4096), half(4096, 1024)
    costly = eqfuse.optimize(feed_forward, arguments, target="h200")
    print(costly.why("first", "out"), "\n")

    large = eqfuse.optimize(brick, (example_args(),), target="h200")
    print(large.why("rows", "out"), "\n")

    long = eqfuse.optimize(chain, (torch.empty(256, 200_000, device="meta"),), target="h200")
    print(long.why("a", "out"), "\n")

    apart = eqfuse.optimize(partition, (torch.empty(4096, 4096, device="meta"),), target="h200", rules=[maximum_on_its_own])
    print(apart.why("top", "out"), "\n")

    print(fused.explain(costs=True))
