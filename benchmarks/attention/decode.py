"""Decoding: one query, or few, against a cache of keys and values."""

import torch

from .kinds import INF, causal, differential, halves, kind, masked, plain, rms, scores, shared

CACHE = {"batch": 16, "heads": 32, "key_heads": 8, "queries": 1, "keys": 8192}
PAGE = 64


def lengths(s, g):
    return (torch.randint(s.keys // 2, s.keys + 1, (s.batch,), generator=g).int(),)


def grouped(q, k, v):
    return torch.softmax(scores(q, shared(k, q.shape[1])), -1) @ shared(v, q.shape[1])


def with_lse(q, k, v):
    s = scores(q, shared(k, q.shape[1]))
    return torch.softmax(s, -1) @ shared(v, q.shape[1]), torch.logsumexp(s, -1)


def with_lengths(q, k, v, length):
    j = torch.arange(k.shape[-2], device=q.device)
    s = scores(q, shared(k, q.shape[1])).masked_fill(j >= length[:, None, None, None], -INF)
    return torch.softmax(s, -1) @ shared(v, q.shape[1])


def window(q, k, v, length):
    j = torch.arange(k.shape[-2], device=q.device)
    n = length[:, None, None, None]
    s = scores(q, shared(k, q.shape[1])).masked_fill((j >= n) | (j < n - 1024), -INF)
    return torch.softmax(s, -1) @ shared(v, q.shape[1])


def softcapped(q, k, v):
    s = 50.0 * torch.tanh(scores(q, shared(k, q.shape[1])) / 50.0)
    return torch.softmax(s, -1) @ shared(v, q.shape[1])


def alibi(q, k, v):
    heads, n = q.shape[1], k.shape[-2]
    slopes = torch.exp2(-8.0 * torch.arange(1, heads + 1, device=q.device) / heads).to(q.dtype)
    s = scores(q, shared(k, heads)) + slopes[:, None, None] * (torch.arange(n, device=q.device) - (n - 1))
    return torch.softmax(s, -1) @ shared(v, heads)


def sinks(q, k, v, sink):
    s = scores(q, shared(k, q.shape[1]))
    sink = sink[:, None, None].expand(*s.shape[:-1], 1)
    return torch.softmax(torch.cat([s, sink], -1), -1)[..., :-1] @ shared(v, q.shape[1])


def query_key_norm(q, k, v, wq, wk):
    return grouped(rms(q, wq), rms(k, wk), v)


def sigmoid(q, k, v):
    return torch.sigmoid(scores(q, shared(k, q.shape[1])) - torch.tensor(k.shape[-2]).log()) @ shared(v, q.shape[1])


def paged(q, k, v, table, length):
    """Keys and values lie in pages (page, key heads, position, depth); ``table`` (batch, pages) says which are whose."""
    b = q.shape[0]
    k, v = (x[table].transpose(1, 2).reshape(b, x.shape[1], -1, x.shape[-1]) for x in (k, v))
    return with_lengths(q, k, v, length)


def pages(s, g):
    many = s.keys // PAGE + (s.keys % PAGE > 0)
    q, _, _ = plain(lambda s, g: (), s, g)
    k, v = (torch.randn(s.batch * many, s.key_heads, PAGE, s.depth, generator=g) for _ in range(2))
    return q, k, v, torch.randperm(s.batch * many, generator=g).view(s.batch, many).int(), *lengths(s, g)


def absorbed(q, q_rope, cache, rope):
    """DeepSeek's latent cache: keys are the latent vectors and a rotated part, values the latent vectors, for all heads."""
    s = (q @ cache.transpose(-1, -2) + q_rope @ rope.transpose(-1, -2)) * 192**-0.5
    return torch.softmax(s, -1) @ cache


def latent_cache(s, g):
    return (
        torch.randn(s.batch, s.heads, s.queries, s.depth, generator=g) * 0.3,
        torch.randn(s.batch, s.heads, s.queries, 64, generator=g),
        torch.randn(s.batch, 1, s.keys, s.depth, generator=g),
        torch.randn(s.batch, 1, s.keys, 64, generator=g),
    )


def decode(name, fn, sizes=None, **of):
    kind(f"decode: {name}", fn, {**CACHE, **(sizes or {})}, decode=True, **of)


def seen_of_lengths(s, q, k, n):
    return k < n[:, None, None]


decode("one head each", grouped, {"key_heads": 32, "batch": 4})
decode("grouped", grouped)
decode("grouped, with log-sum-exp", with_lse)
decode("grouped, 64 deep", grouped, {"depth": 64})
decode("grouped, 80 deep", grouped, {"depth": 80})
decode("grouped, 256 deep", grouped, {"depth": 256})
decode("one request", grouped, {"batch": 1, "keys": 32768})
decode("lengths from data", with_lengths, extra=lengths, seen=seen_of_lengths)
decode("window", window, extra=lengths, seen=lambda s, q, k, n: (k < n[:, None, None]) & (k >= n[:, None, None] - 1024))
decode("soft cap", softcapped)
decode("ALiBi", alibi)
decode("sinks", sinks, extra=lambda s, g: (torch.randn(s.heads, generator=g),))
decode("query-key norm", query_key_norm, extra=lambda s, g: (torch.rand(s.depth, generator=g), torch.rand(s.depth, generator=g)))
decode("sigmoid", sigmoid)
decode("differential", differential, {"depth": 64, "key_heads": 32, "batch": 8}, make=halves)
decode("paged", paged, make=pages)
decode("latent", absorbed, {"heads": 16, "key_heads": 1, "depth": 512}, make=latent_cache, flops=lambda s: 2 * (512 + 64 + 512))
decode("several tokens", masked(causal), {"key_heads": 32, "batch": 4, "queries": 4}, seen=lambda s, q, k: causal(q, k))
