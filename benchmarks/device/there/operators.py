"""The ten attention operators of Neptune (arXiv 2510.08726, table 1), at its heads and lengths, as one writes them, and what others call.

``rows``: positions of the queries that are given, where these are not all.
"""

import math

import torch

LENGTHS = [2**n for n in range(7, 16)]
DEPTH, WINDOW, CAP = 128, 4096, 50.0
HEADS = {"global": (32, 32), "causal": (32, 32), "alibi": (32, 32), "gqa": (64, 8), "softcap": (32, 16), "window": (32, 8)}
NAMES = [*(f"{kind}_prefill" for kind in HEADS), *(f"{kind}_decode" for kind in ("causal", "alibi", "gqa", "softcap"))]


def shapes(name, length, heads=None):
    """Of q, k, v, and of the slopes of ALiBi."""
    kind, mode = name.split("_")
    of_queries, of_keys = heads or HEADS[kind]
    queries = 1 if mode == "decode" else length
    keys = (1, of_keys, length, DEPTH)
    return [(1, of_queries, queries, DEPTH), keys, keys, *([(of_queries,)] if kind == "alibi" else [])]


def work(name, length):
    """Operations of its products, for the pairs that are seen."""
    kind, mode = name.split("_")
    if mode == "decode":
        pairs = length
    elif kind == "global":
        pairs = length**2
    else:
        seen = min(length, WINDOW if kind == "window" else length)
        pairs = seen * (seen + 1) // 2 + (length - seen) * seen
    return 4 * DEPTH * HEADS[kind][0] * pairs


def operator(name):
    """The program."""
    kind, mode = name.split("_")

    def attention(q, k, v, slopes=None, rows=None):
        if k.shape[1] != q.shape[1]:
            k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        s = q @ k.transpose(-1, -2) / math.sqrt(DEPTH)
        if mode == "prefill" and kind != "global":
            i = (torch.arange(q.shape[-2], device=q.device) if rows is None else rows)[:, None]
        else:
            i = k.shape[-2] - 1
        j = torch.arange(k.shape[-2], device=q.device)
        if kind == "alibi":
            s = s + slopes[:, None, None] * (j - i)
        if kind == "softcap":
            s = CAP * torch.tanh(s / CAP)
        if mode == "prefill" and kind != "global":
            s = s.masked_fill(j > i, -math.inf)
        if kind == "window":
            s = s.masked_fill(i - j >= WINDOW, -math.inf)
        return torch.softmax(s, -1).to(v.dtype) @ v

    if kind == "alibi":
        return lambda q, k, v, slopes, rows=None: attention(q, k, v, slopes, rows)
    return lambda q, k, v, rows=None: attention(q, k, v, None, rows)


def scaled_dot_product(name):
    """What torch's operation is called with, as a function of the arguments; ``None`` where it has no such operator."""
    kind, mode = name.split("_")
    sdpa = torch.nn.functional.scaled_dot_product_attention
    more = {"enable_gqa": True} if HEADS[kind][0] != HEADS[kind][1] else {}
    if kind == "softcap":
        return None
    if mode == "decode" and kind != "alibi":
        return lambda q, k, v: sdpa(q, k, v, **more)
    if kind in ("global", "causal", "gqa"):
        return lambda q, k, v: sdpa(q, k, v, is_causal=kind != "global", **more)

    def masked(q, k, v, slopes=None):
        n, m = q.shape[-2], k.shape[-2]
        i, j = torch.arange(m - n, m, device=q.device)[:, None], torch.arange(m, device=q.device)
        if kind == "window":
            return sdpa(q, k, v, attn_mask=(j <= i) & (i - j < WINDOW), **more)
        bias = (slopes[:, None, None] * (j - i)).masked_fill(j > i, -math.inf)
        return sdpa(q, k, v, attn_mask=bias[None].to(q.dtype))

    return masked


def flexible(name):
    """FlexAttention with the operator's score and mask, compiled; its mask of blocks is made before."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    kind, mode = name.split("_")
    masks = {
        "window": lambda b, h, i, j: (j <= i) & (i - j < WINDOW),
        "global": None,
    }  # fmt: skip
    mask = masks.get(kind, lambda b, h, i, j: j <= i) if mode == "prefill" else None
    more = {"enable_gqa": HEADS[kind][0] != HEADS[kind][1]}
    called = torch.compile(flex_attention)
    blocks = {}

    def attention(q, k, v, slopes=None):
        n, m = q.shape[-2], k.shape[-2]
        if mask is not None and (n, m) not in blocks:
            blocks[n, m] = create_block_mask(mask, None, None, n, m, device=q.device, _compile=True)
        score = None
        if kind == "alibi":
            score = lambda s, b, h, i, j: s + slopes[h] * (j - i - (m - n))  # noqa: E731
        elif kind == "softcap":
            score = lambda s, b, h, i, j: CAP * torch.tanh(s / CAP)  # noqa: E731
        return called(q, k, v, score_mod=score, block_mask=blocks.get((n, m)), **more)

    return attention
