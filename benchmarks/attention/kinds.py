"""The kinds of attention, as one writes them: ``softmax(q k^T) v`` with what each changes, and the arguments of each in two sizes.

Shapes: queries (batch, heads, queries, depth), keys (batch, key heads, keys, depth), values (batch, key heads, keys, width).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch

KINDS = {}  # name -> Kind
INF = math.inf


@dataclass(frozen=True)
class Sizes:
    """Of one problem.  ``width``: of the values, where it is not ``depth``."""

    batch: int = 1
    heads: int = 32
    key_heads: int = 32
    queries: int = 4096
    keys: int = 4096
    depth: int = 128
    width: int = 0

    def small(self):
        """Several tiles with a ragged end, for interpreters; as many queries as keys if there are, one if there is one."""
        queries = 1 if self.queries == 1 else 197
        heads = (2, 2) if self.heads == self.key_heads else (4, 2) if self.key_heads > 1 else (4, 1)
        batch = min(self.batch, 2)
        return Sizes(batch, *heads, queries, 197 if self.queries == self.keys else 331, self.depth, self.width)


@dataclass(frozen=True)
class Kind:
    """``extra``: of sizes and a generator, the arguments after q, k, v.  ``seen``: of sizes and those arguments, which keys each query
    sees, where that is not all; ``flops``: of matrix products for a pair of a query and a key, where it is not 2 (depth + width)."""

    name: str
    fn: Callable
    sizes: Sizes
    extra: Callable = lambda s, g: ()
    seen: Callable | None = None
    make: Callable | None = None  # of sizes and a generator, all arguments
    flops: Callable = field(default=lambda s: 2 * (s.depth + (s.width or s.depth)))
    decode: bool = False

    def args(self, size="large", seed=0, device="cpu"):
        s = self.sizes if size == "large" else self.sizes.small()
        g = torch.Generator(device).manual_seed(seed)
        with torch.device(device):
            return tuple(a.half() if a.is_floating_point() else a for a in (self.make or partial(plain, self.extra))(s, g))

    def work(self):
        """Operations that the products need, for the pairs that are seen."""
        s = self.sizes
        pairs = s.queries * s.keys * s.batch * s.heads
        return self.flops(s) * pairs * self.share()

    def share(self):
        """Of all pairs of a query and a key, those that are seen."""
        if self.seen is None:
            return 1.0
        s = self.sizes
        extra = self.extra(s, torch.Generator().manual_seed(0))
        q, k = torch.arange(s.keys - s.queries, s.keys)[:, None], torch.arange(s.keys)
        return self.seen(s, q, k, *extra).float().mean().item()


def plain(extra, s, g):
    """q, k, v and what else there is."""
    q = torch.randn(s.batch, s.heads, s.queries, s.depth, generator=g)
    k = torch.randn(s.batch, s.key_heads, s.keys, s.depth, generator=g)
    v = torch.randn(s.batch, s.key_heads, s.keys, s.width or s.depth, generator=g)
    return (q, k, v, *extra(s, g))


def kind(name, fn, sizes=None, **of):
    KINDS[name] = Kind(name, fn, Sizes(**(sizes or {})), **of)


# ---- what is common ---------------------------------------------------------------------------------------------------------------
def scores(q, k):
    return q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5


def positions(q, k):
    """Of queries, which are the last ones, as a column, and of keys."""
    n, m = q.shape[-2], k.shape[-2]
    return torch.arange(n, device=q.device)[:, None] + (m - n), torch.arange(m, device=q.device)


def shared(x, heads):
    """Each head of keys or values for all query heads that share it."""
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def masked(see):
    """Attention to those keys that ``see(query position, key position)`` says."""

    def attention(q, k, v):
        s = scores(q, k).masked_fill(~see(*positions(q, k)), -INF)
        return torch.softmax(s, -1) @ v

    return attention


def attention(q, k, v):
    return torch.softmax(scores(q, k), -1) @ v


def causal(q, k):
    return k <= q


def with_lse(q, k, v):
    s = scores(q, k)
    return torch.softmax(s, -1) @ v, torch.logsumexp(s, -1)


def causal_with_lse(q, k, v):
    i, j = positions(q, k)
    s = scores(q, k).masked_fill(j > i, -INF)
    return torch.softmax(s, -1) @ v, torch.logsumexp(s, -1)


kind("full", attention)
kind("full, with log-sum-exp", with_lse)
kind("causal", masked(causal), seen=lambda s, q, k: causal(q, k))
kind("causal, with log-sum-exp", causal_with_lse, seen=lambda s, q, k: causal(q, k))

# ---- head dimensions --------------------------------------------------------------------------------------------------------------
for depth in (64, 72, 80, 96, 112, 192, 256):
    kind(f"full, {depth} deep", attention, {"depth": depth})
    kind(f"causal, {depth} deep", masked(causal), {"depth": depth}, seen=lambda s, q, k: causal(q, k))

# ---- masks by position ------------------------------------------------------------------------------------------------------------
WINDOW, STEP, PREFIX = 1024, 4, 1024


def near(window):
    return lambda q, k: (k <= q) & (q - k < window)


def dilated(q, k):
    return (k <= q) & (q - k < WINDOW) & ((q - k) % STEP == 0)


def both_sides(q, k):
    return (q - k).abs() <= WINDOW // 2


def prefix(q, k):
    return (k <= q) | (k < PREFIX)


def first_and_near(q, k):
    return (k <= q) & ((q - k < WINDOW) | (k < 4))


for name, see in (
    ("sliding window", near(WINDOW)),
    ("window on both sides", both_sides),
    ("dilated window", dilated),
    ("prefix", prefix),
    ("window and first keys", first_and_near),
    ("chunks", lambda q, k: (k <= q) & (q // WINDOW == k // WINDOW)),
):
    kind(name, masked(see), seen=lambda s, q, k, see=see: see(q, k))


# ---- masks from data --------------------------------------------------------------------------------------------------------------
def documents(s, g, many=8):
    """Numbers of documents, in order."""
    ends = torch.randint(0, s.keys, (s.batch, many - 1), generator=g).sort(-1).values
    return (torch.searchsorted(ends, torch.arange(s.keys).expand(s.batch, -1).contiguous(), right=True).int(),)


def lengths(s, g):
    return (torch.randint(s.keys // 4, s.keys + 1, (s.batch,), generator=g).int(),)


def document_attention(q, k, v, document):
    i, j = positions(q, k)
    see = (document[:, None, :, None] == document[:, None, None, :]) & (j <= i)
    return torch.softmax(scores(q, k).masked_fill(~see, -INF), -1) @ v


def whole_documents(q, k, v, document):
    see = document[:, None, :, None] == document[:, None, None, :]
    return torch.softmax(scores(q, k).masked_fill(~see, -INF), -1) @ v


def padded(q, k, v, length):
    j = torch.arange(k.shape[-2], device=q.device)
    return torch.softmax(scores(q, k).masked_fill(j >= length[:, None, None, None], -INF), -1) @ v


def prefix_from_data(q, k, v, length):
    i, j = positions(q, k)
    see = (j <= i) | (j < length[:, None, None, None])
    return torch.softmax(scores(q, k).masked_fill(~see, -INF), -1) @ v


def bool_mask(q, k, v, see):
    return torch.softmax(scores(q, k).masked_fill(~see, -INF), -1) @ v


def pairs_seen(s, g):
    return (torch.rand(s.batch, 1, s.queries, s.keys, generator=g) < 0.9,)


kind("documents, causal", document_attention, extra=documents,
     seen=lambda s, q, k, d: (d[:, :, None] == d[:, None, :]) & (k <= q))  # fmt: skip
kind("documents", whole_documents, extra=documents, seen=lambda s, q, k, d: d[:, :, None] == d[:, None, :])
kind("padded batch", padded, {"batch": 4}, extra=lengths, seen=lambda s, q, k, n: k < n[:, None, None])
kind("prefix from data", prefix_from_data, {"batch": 4}, extra=lengths, seen=lambda s, q, k, n: (k <= q) | (k < n[:, None, None]))
kind("mask as a tensor", bool_mask, extra=pairs_seen)


# ---- changes to the scores --------------------------------------------------------------------------------------------------------
def alibi(q, k, v):
    i, j = positions(q, k)
    heads = q.shape[1]
    slopes = torch.exp2(-8.0 * torch.arange(1, heads + 1, device=q.device) / heads).to(q.dtype)
    s = scores(q, k) + slopes[:, None, None] * (j - i)
    return torch.softmax(s.masked_fill(j > i, -INF), -1) @ v


def buckets(distance, many=32, most=128):
    """T5's: exact up to half of them, then logarithmic."""
    distance = distance.clamp(min=0)
    exact = many // 2
    far = exact + (torch.log(distance.float().clamp(min=1) / exact) / math.log(most / exact) * (many - exact)).long()
    return torch.where(distance < exact, distance, far.clamp(max=many - 1))


def t5(q, k, v, table):
    i, j = positions(q, k)
    bias = table[buckets(i - j)].permute(2, 0, 1)
    s = q @ k.transpose(-1, -2) + bias
    return torch.softmax(s.masked_fill(j > i, -INF), -1) @ v


def bias(q, k, v, b):
    return torch.softmax(scores(q, k) + b, -1) @ v


def relative(q, k, v, table):
    """A bias for each distance and head."""
    i, j = positions(q, k)
    return torch.softmax(scores(q, k) + table[:, i - j + k.shape[-2] - 1], -1) @ v


def softcap(q, k, v):
    i, j = positions(q, k)
    s = 50.0 * torch.tanh(scores(q, k) / 50.0)
    return torch.softmax(s.masked_fill(j > i, -INF), -1) @ v


def sinks(q, k, v, sink):
    """A logit for each head takes part in the softmax and has no value (gpt-oss)."""
    i, j = positions(q, k)
    s = scores(q, k).masked_fill(j > i, -INF)
    sink = sink[:, None, None].expand(*s.shape[:-1], 1)
    return torch.softmax(torch.cat([s, sink], -1), -1)[..., :-1] @ v


def sinks_added(q, k, v, sink):
    """The same, as a change of the denominator."""
    i, j = positions(q, k)
    s = scores(q, k).masked_fill(j > i, -INF)
    top = torch.maximum(s.amax(-1, keepdim=True), sink[:, None, None])
    e = torch.exp(s - top)
    return (e @ v) / (e.sum(-1, keepdim=True) + torch.exp(sink[:, None, None] - top))


def softmax_plus_one(q, k, v):
    s = scores(q, k)
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return (e @ v) / (e.sum(-1, keepdim=True) + torch.exp(-s.amax(-1, keepdim=True)))


def rms(x, weight):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight


def query_key_norm(q, k, v, wq, wk):
    return masked(causal)(rms(q, wq), rms(k, wk), v)


def cosine(q, k, v, scale):
    q, k = (x / (x * x).sum(-1, keepdim=True).sqrt().clamp(min=1e-6) for x in (q, k))
    return torch.softmax(q @ k.transpose(-1, -2) * scale[:, None, None], -1) @ v


def sigmoid(q, k, v):
    i, j = positions(q, k)
    s = scores(q, k) - math.log(k.shape[-2])
    return torch.sigmoid(s).masked_fill(j > i, 0.0) @ v


def relu(q, k, v):
    return torch.relu(scores(q, k)) / k.shape[-2] @ v


def rotated(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def rotary(q, k, v, cos, sin):
    return masked(causal)(rotated(q, cos, sin), rotated(k, cos, sin), v)


def seen_causal(s, q, k, *_):
    return causal(q, k)


def per_head(s, g):
    return (torch.randn(s.heads, generator=g),)


kind("ALiBi", alibi, seen=seen_causal)
kind("T5's buckets", t5, extra=lambda s, g: (torch.randn(32, s.heads, generator=g),), seen=seen_causal)
kind("bias tensor", bias, extra=lambda s, g: (torch.randn(s.heads, s.queries, s.keys, generator=g),))
kind("bias of distances", relative, extra=lambda s, g: (torch.randn(s.heads, 2 * s.keys - 1, generator=g),))
kind("soft cap", softcap, seen=seen_causal)
kind("sinks", sinks, {"depth": 64}, extra=per_head, seen=seen_causal)
kind("sinks, added", sinks_added, {"depth": 64}, extra=per_head, seen=seen_causal)
kind("softmax plus one", softmax_plus_one)
kind("query-key norm", query_key_norm, extra=lambda s, g: tuple(torch.rand(2, s.depth, generator=g)), seen=seen_causal)
kind("cosine", cosine, extra=lambda s, g: (torch.rand(s.heads, generator=g),))
kind("rotary inside", rotary, extra=lambda s, g: tuple(torch.randn(2, s.keys, s.depth, generator=g)), seen=seen_causal)
kind("sigmoid", sigmoid, seen=seen_causal)
kind("relu", relu)


# ---- other structures -------------------------------------------------------------------------------------------------------------
def grouped(q, k, v):
    return masked(causal)(q, shared(k, q.shape[1]), shared(v, q.shape[1]))


def grouped_five(q, k, v):
    """The group as an axis of its own, so that nothing is repeated."""
    b, h, n, d = q.shape
    q = q.view(b, k.shape[1], h // k.shape[1], n, d)
    return (torch.softmax(scores(q, k[:, :, None]), -1) @ v[:, :, None]).reshape(b, h, n, -1)


def differential(q, k, v, mix):
    """The difference of two softmaxes: heads of queries and keys come in pairs (batch, 2 heads, ...), values do not."""
    b, h, n, _ = q.shape
    i, j = positions(q, k)
    p = torch.softmax(scores(q, k).masked_fill(j > i, -INF), -1).view(b, h // 2, 2, n, -1)
    return (p[:, :, 0] - mix[:, None, None] * p[:, :, 1]) @ v


def halves(s, g):
    q, k, v = plain(lambda s, g: (), s, g)
    return q, k, v[:, ::2].repeat(1, 1, 1, 2), torch.rand(s.heads // 2, generator=g)


def latent(q, k, v):
    return masked(causal)(q, k, v)


def latent_parts(q, k, v, q_rope, k_rope):
    """Scores of two parts, the second of which all heads share."""
    i, j = positions(q, k)
    s = (q @ k.transpose(-1, -2) + q_rope @ k_rope.transpose(-1, -2)) * (q.shape[-1] + q_rope.shape[-1]) ** -0.5
    return torch.softmax(s.masked_fill(j > i, -INF), -1) @ v


def rope_parts(s, g):
    return torch.randn(s.batch, s.heads, s.queries, 64, generator=g), torch.randn(s.batch, 1, s.keys, 64, generator=g)


kind("grouped", grouped, {"key_heads": 8}, seen=seen_causal)
kind("grouped, not repeated", grouped_five, {"key_heads": 8})
kind("differential", differential, {"depth": 64}, make=halves, seen=seen_causal, flops=lambda s: 2 * (s.depth + s.depth))
kind("latent, 192 and 128 deep", latent, {"heads": 16, "key_heads": 16, "depth": 192, "width": 128}, seen=seen_causal)
kind("latent, in two parts", latent_parts, {"heads": 16, "key_heads": 16}, extra=rope_parts, seen=seen_causal,
     flops=lambda s: 2 * (s.depth + 64 + s.depth))  # fmt: skip
kind("cross", attention, {"queries": 4096, "keys": 1024})
kind("cross, few keys", attention, {"queries": 4096, "keys": 77, "depth": 64})
