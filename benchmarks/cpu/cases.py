"""What is timed: functions as they are written, with what torch has of its own for the same, in families with a bar each.

A bar is a ratio of times that kernels are meant to reach in the geometric mean of a family, against one peer.  ``predicted`` is what was
expected before the first run, on two cores of a Zen 4 (NOTES.md has the reasons); the tables set both beside what was measured.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from eqfuse.testing.programs import PROGRAMS, Arg, weight

EAGER, TORCH, COMPILED = "eager", "torch", "torch.compile"  # torch: the operation that torch has for it
FLEX = "flex_attention"
EPS = 1e-5


@dataclass(frozen=True)
class Family:
    name: str
    bars: dict[str, float]  # by peer
    predicted: dict[str, float]  # by peer, one thread
    memory: bool = False  # whether peak memory is the point


@dataclass(frozen=True)
class Case:
    family: Family
    name: str
    function: Callable
    shapes: tuple[Arg, ...]
    library: dict[str, Callable] = field(default_factory=dict)
    options: dict = field(default_factory=dict)
    in_order: bool = False  # whether labels grow along their axis

    def args(self):
        random = torch.Generator().manual_seed(0)

        def drawn(a):
            if a.labels:
                x = torch.randint(0, a.labels, a.shape, generator=random)
                return x.sort().values if self.in_order else x
            return torch.randn(a.shape, generator=random) * a.scale + a.offset

        return tuple(map(drawn, self.shapes))


ROWS = Family("rows", {TORCH: 1.0, COMPILED: 1.2}, {TORCH: 1.3, COMPILED: 1.3})
FULL = Family("full attention", {TORCH: 1.0}, {TORCH: 1.1})
CAUSAL = Family("causal attention", {TORCH: 1.0}, {TORCH: 1.15})
MASKED = Family("attention, mask by hand", {COMPILED: 2.0}, {COMPILED: 2.5})
DECODE = Family("decode, grouped heads", {TORCH: 1.2}, {TORCH: 1.1})
LOSS = Family("linear + cross-entropy", {EAGER: 1.0, COMPILED: 1.0}, {EAGER: 0.95, COMPILED: 0.95}, memory=True)
PRODUCTS = Family("products", {TORCH: 0.95}, {TORCH: 0.9})
FAMILIES = (ROWS, FULL, CAUSAL, MASKED, DECODE, LOSS, PRODUCTS)


# ---- rows --------------------------------------------------------------------------------------------------------------------------
def softmax(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def log_softmax(x):
    y = x - x.amax(-1, keepdim=True)
    return y - torch.log(torch.exp(y).sum(-1, keepdim=True))


def layer_norm(x, w, b):
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + EPS) * w + b


def rms_norm(x, w):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * w


def cross_entropy(x, labels):
    return torch.logsumexp(x, -1) - x.gather(1, labels[:, None])[:, 0]


def rows():
    for n, m in ((4096, 4096), (8192, 512), (1024, 32000)):
        x, scale, shift = Arg((n, m)), Arg((m,), scale=0.1, offset=1.0), Arg((m,), scale=0.1)
        for function, shapes, op in (
            (softmax, (x,), lambda x: F.softmax(x, -1)),
            (log_softmax, (x,), lambda x: F.log_softmax(x, -1)),
            (layer_norm, (x, scale, shift), lambda x, w, b: F.layer_norm(x, w.shape, w, b, EPS)),
            (rms_norm, (x, scale), lambda x, w: F.rms_norm(x, w.shape, w, EPS)),
            (cross_entropy, (x, Arg((n,), labels=m)), lambda x, labels: F.cross_entropy(x, labels, reduction="none")),
        ):
            yield Case(ROWS, f"{function.__name__} {n}x{m}", function, shapes, {TORCH: op})


# ---- attention ---------------------------------------------------------------------------------------------------------------------
def positions(s):
    return torch.arange(s.shape[-2])[:, None], torch.arange(s.shape[-1])


def scores(q, k):
    return q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5


def attended(s, seen, v):
    return torch.softmax(s.masked_fill(~seen, float("-inf")), -1) @ v


def sliding_window(q, k, v):
    """A query sees itself and the 255 keys before it."""
    s = scores(q, k)
    i, j = positions(s)
    return attended(s, (j <= i) & (i - j < 256), v)


def documents(q, k, v, of):
    """Several documents in one sequence: a query sees earlier keys of its own."""
    s = scores(q, k)
    i, j = positions(s)
    return attended(s, (j <= i) & (of[:, None] == of), v)


def prefix(q, k, v):
    """The first 512 keys are seen by all, the others by later queries."""
    s = scores(q, k)
    i, j = positions(s)
    return attended(s, (j <= i) | (j < 512), v)


def softcapped(q, k, v):
    """Scores bounded by a tanh, then the causal mask."""
    s = 50.0 * torch.tanh(scores(q, k) / 50.0)
    i, j = positions(s)
    return attended(s, j <= i, v)


def masked_by(mask):
    """Torch's own attention with the mask as a tensor, made in the call as the function makes it."""

    def call(q, k, v, *more):
        i, j = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask(i, j, *more))

    return call


def flex(mask, score=None):
    """FlexAttention, which torch.compile makes a kernel of; its blocks are found before, and not in the call."""
    compiled = []

    def call(q, k, v, *more):
        if not compiled:
            lengths = (q.shape[-2], k.shape[-2])
            blocks = create_block_mask(lambda b, h, i, j: mask(i, j, *more), None, None, *lengths, device=q.device.type)
            compiled.append(torch.compile(lambda q, k, v: flex_attention(q, k, v, score_mod=score, block_mask=blocks), dynamic=False))
        return compiled[0](q, k, v)

    return call


def attention():
    plain, causal = PROGRAMS["attention"].fn, PROGRAMS["attention_causal"].fn
    for shape in ((1, 8, 1024, 64), (1, 4, 2048, 128), (1, 4, 4096, 64)):
        name, qkv = "x".join(map(str, shape)), (Arg(shape),) * 3
        yield Case(FULL, f"attention {name}", plain, qkv, {TORCH: F.scaled_dot_product_attention})
        sdpa = {TORCH: lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)}
        yield Case(CAUSAL, f"causal attention {name}", causal, qkv, sdpa)
    shape, qkv = "1x4x2048x64", (Arg((1, 4, 2048, 64)),) * 3
    masks = (
        (f"sliding window 256, {shape}", sliding_window, qkv, lambda i, j: (j <= i) & (i - j < 256)),
        (f"8 documents, {shape}", documents, (*qkv, Arg((2048,), labels=8)), lambda i, j, of: (j <= i) & (of[i] == of[j])),
        (f"prefix 512, {shape}", prefix, qkv, lambda i, j: (j <= i) | (j < 512)),
    )
    for name, function, shapes, mask in masks:
        yield Case(MASKED, name, function, shapes, {TORCH: masked_by(mask), FLEX: flex(mask)}, in_order=True)
    capped = {FLEX: flex(lambda i, j: j <= i, lambda s, b, h, i, j: 50.0 * torch.tanh(s / 50.0))}
    yield Case(MASKED, f"soft cap, causal, {shape}", softcapped, qkv, capped)


def grouped(q, k, v):
    """Attention of 8 heads of keys with 4 of queries each, repeated as the formula says it."""
    return PROGRAMS["attention_grouped"].fn(q, k, v)


def rows_of_a_group(q, k, v):
    """As who knows torch writes it: the queries of a group are rows of one product."""
    heads = k.shape[1]
    return F.scaled_dot_product_attention(q.view(q.shape[0], heads, -1, q.shape[-1]), k, v).view(q.shape)


def decode():
    for batch, keys in ((1, 4096), (4, 1024)):
        shapes = (Arg((batch, 32, 1, 128)), Arg((batch, 8, keys, 128)), Arg((batch, 8, keys, 128)))
        library = {TORCH: rows_of_a_group, "enable_gqa": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True)}
        yield Case(DECODE, f"decode {batch}x32q8kvx{keys}x128", grouped, shapes, library)


# ---- products ----------------------------------------------------------------------------------------------------------------------
def losses():
    for n, k, words in ((1024, 512, 16000), (512, 1024, 32000)):
        shapes = (Arg((n, k)), weight(words, k), Arg((n,), labels=words))
        options = {"memory_limit": 4 * n * words // 4}  # a quarter of the logits
        yield Case(LOSS, f"linear + cross-entropy {n}x{k}x{words}", PROGRAMS["linear_cross_entropy"].fn, shapes, options=options)


def products():
    yield Case(PRODUCTS, "matmul 1024x1024x1024", torch.matmul, (Arg((1024, 1024)), weight(1024, 1024)), {TORCH: torch.mm})
    yield Case(PRODUCTS, "matmul 1000x777x300", torch.matmul, (Arg((1000, 777)), weight(777, 300)), {TORCH: torch.mm})
    yield Case(PRODUCTS, "linear 512x1024x4096", lambda x, w: x @ w.T, (Arg((512, 1024)), weight(4096, 1024)), {TORCH: F.linear})
    yield Case(PRODUCTS, "linear 16x4096x4096", lambda x, w: x @ w.T, (Arg((16, 4096)), weight(4096, 4096)), {TORCH: F.linear})
    normed = (Arg((1024, 1024)), Arg((1024,), scale=0.1, offset=1.0), weight(3072, 1024))
    own = {TORCH: lambda x, g, w: F.linear(F.rms_norm(x, g.shape, g, 1e-6), w)}
    yield Case(PRODUCTS, "rms_norm, linear 1024x1024x3072", PROGRAMS["rmsnorm_linear"].fn, normed, own)
    gelu = (Arg((512, 1024)), weight(4096, 1024), Arg((4096,)))
    yield Case(PRODUCTS, "linear, gelu 512x1024x4096", PROGRAMS["linear_gelu"].fn, gelu, {TORCH: PROGRAMS["linear_gelu"].fn})
    gated = (Arg((512, 1024)), weight(2816, 1024), weight(2816, 1024))
    own = {TORCH: lambda x, a, b: F.silu(F.linear(x, a)).mul_(F.linear(x, b))}
    yield Case(PRODUCTS, "swiglu 512x1024x2816", PROGRAMS["swiglu"].fn, gated, own)


def cases():
    """All of them by name."""
    return {c.name: c for family in (rows, attention, decode, losses, products) for c in family()}


QUICK = (
    "softmax 8192x512", "rms_norm 8192x512", "causal attention 1x8x1024x64", "sliding window 256, 1x4x2048x64", "decode 4x32q8kvx1024x128",
    "linear + cross-entropy 1024x512x16000", "matmul 1024x1024x1024",
)  # fmt: skip
