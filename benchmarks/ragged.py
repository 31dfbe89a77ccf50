"""What data as edges of loops are worth, by the model: programs planned without an example of their lengths, and with one.

    python benchmarks/ragged.py                 every program; --only WORD those whose names have it
    python benchmarks/ragged.py --save          write benchmarks/results/DATE-ragged.json
    python benchmarks/ragged.py --target a100   another device

Without an example a plan is priced as if all tiles were visited, which is what a kernel without such edges does.  ``needed``: the FLOPs
of products without padded rows and pairs.  ``tiles``, of documents: those that the loop visits at these very documents, those that hold
a visible pair, and all.
"""

import argparse
import os

import numpy as np
import torch
from latency import keep
from torch.nn.functional import grouped_mm

import eqfuse
from eqfuse.frontends import TensorSpec

HEADS = 8
BATCHES = 32, 64, 128
DATASETS = {  # least, mean and longest: table 3 of CoRA's paper
    "RACE": (80, 364, 512), "Wiki512": (12, 371, 512), "SQuAD": (39, 192, 384), "Wiki128": (14, 117, 128),
    "MNLI": (9, 43, 128), "XNLI": (9, 70, 128), "MRPC": (21, 59, 102), "CoLA": (6, 13, 37),
}  # fmt: skip


def attention(q, k, v, lengths):
    """Padded keys."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    inside = torch.arange(k.shape[-2]) < lengths[:, None, None, None]
    return torch.softmax(scores.masked_fill(~inside, float("-inf")), -1) @ v


def documents(q, k, v, cu, doc):
    """Packed tokens, which see those of their own document."""
    j = torch.arange(k.shape[0])
    inside = (cu[doc][:, None] <= j) & (j < cu[doc + 1][:, None])
    scores = torch.einsum("qhd,khd->hqk", q, k) * q.shape[-1] ** -0.5
    return torch.einsum("hqk,khd->qhd", torch.softmax(scores.masked_fill(~inside, float("-inf")), -1), v)


def numbered(q, k, v, doc):
    """Tokens of which each has the number of its document."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=doc[:, None] == doc)


def chunks(q, k, v):
    """Tokens that see what is before them in their own chunk: no data, and no comparison that says where it begins."""
    i = torch.arange(q.shape[-2])
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=(i[:, None] // 1024 == i // 1024) & (i[:, None] >= i))


def tokenized(q, k, v, mask):
    """Keys that a tokenizer says are no padding."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=(mask != 0)[:, None, None])


def matrices(a, b, m, n, k):
    """Products of matrices of different sizes, in padded storage."""
    at = torch.arange(a.shape[-1])
    rows, columns, inner = (at < x[:, None] for x in (m, n, k))
    products = torch.where(inner[:, None], a, 0) @ torch.where(inner[:, :, None], b, 0)
    return torch.where(rows[:, :, None] & columns[:, None], products, 0)


def triangular(a, b):
    return torch.tril(a) @ b


def chosen(x, w, expert):
    """Rows by matrices that data choose."""
    return torch.einsum("td,tdf->tf", x, w[expert])


def experts(x, gate, expert, up, side, down):
    """A layer of experts, two for each token."""
    h = torch.nn.functional.silu(torch.einsum("td,tkdf->tkf", x, up[expert])) * torch.einsum("td,tkdf->tkf", x, side[expert])
    return (torch.einsum("tkf,tkfd->tkd", h, down[expert]) * gate[..., None]).sum(1)


def linear(x, w, lengths):
    """Rows beyond a length are zero."""
    inside = torch.arange(x.shape[1]) < lengths[:, None]
    return torch.where(inside[..., None], torch.relu(x @ w), 0.0)


def grouped(x, w, ends):
    """Rows up to each end by a matrix of their own."""
    return grouped_mm(x, w, offs=ends)


def norm(x, scale, shift):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], scale, shift)


def encoder(x, lengths, qkv, o, up, down, a, b, c, d):
    """A layer of a padded batch; rows beyond a length are zero."""
    batch, rows, width = x.shape
    inside = torch.arange(rows) < lengths[:, None]
    q, k, v = (x @ qkv).view(batch, rows, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-1, -2) * (width // HEADS) ** -0.5
    seen = torch.softmax(scores.masked_fill(~inside[:, None, None, :], float("-inf")), -1) @ v
    y = norm(x + seen.transpose(1, 2).reshape(x.shape) @ o, a, b)
    return torch.where(inside[..., None], norm(y + torch.relu(y @ up) @ down, c, d), 0.0)


def packed_encoder(x, cu, doc, qkv, o, up, down, a, b, c, d):
    """The same of rows that somebody has packed."""
    rows, width = x.shape
    j = torch.arange(rows)
    inside = (cu[doc][:, None] <= j) & (j < cu[doc + 1][:, None])
    q, k, v = (x @ qkv).view(rows, 3, HEADS, width // HEADS).permute(1, 2, 0, 3)
    scores = q @ k.transpose(-1, -2) * (width // HEADS) ** -0.5
    seen = torch.softmax(scores.masked_fill(~inside, float("-inf")), -1) @ v
    y = norm(x + seen.transpose(0, 1).reshape(x.shape) @ o, a, b)
    return norm(y + torch.relu(y @ up) @ down, c, d)


def half(*shape):
    return torch.zeros(*shape, dtype=torch.float16)


def drawn(batch, longest, seed=0):
    return torch.randint(1, longest, (batch,), dtype=torch.int32, generator=torch.Generator().manual_seed(seed))


def lengths_like(batch, least, mean, longest):
    """Lengths with these figures: drawn from a beta distribution, the least and the longest among them."""
    share = (mean - least) / (longest - least)
    found = np.round(least + np.random.default_rng(0).beta(2 * share, 2 * (1 - share), batch) * (longest - least)).astype(np.int32)
    found[:2] = longest, least
    return torch.from_numpy(found)


def encoders():
    """The layer of CoRA's evaluation (its section 7.2) with lengths like those of some of its data sets."""
    width, hidden = HEADS * 64, 2048
    weights = half(width, 3 * width), half(width, width), half(width, hidden), half(hidden, width), *(half(width) for _ in range(4))
    for name, figures in DATASETS.items():
        for batch in BATCHES:
            n = lengths_like(batch, *figures).long()
            rows = int(n.sum())
            needed = 2 * rows * (4 * width**2 + 2 * width * hidden) + 4 * int((n**2).sum()) * width
            cu, doc = torch.cat([torch.zeros(1, dtype=torch.int64), n.cumsum(0)]), torch.repeat_interleave(torch.arange(batch), n)
            said = f"encoder layer, lengths like {name}'s, batch {batch}"
            yield f"{said}, padded", (encoder, (half(batch, figures[2], width), n.int(), *weights), needed)
            yield f"{said}, packed by the user", (packed_encoder, (half(rows, width), cu, doc, *weights), needed)


def programs():
    """Functions by name, each with its arguments and the FLOPs that it needs."""
    lengths, few, rows = drawn(8, 4096), torch.tensor([30000, 5000], dtype=torch.int32), drawn(32, 512)
    ends = torch.tensor([100, 700, 1000, 1500, 2500, 2600, 3500, 4096], dtype=torch.int32)
    cuts = torch.sort(torch.randperm(8191, generator=torch.Generator().manual_seed(1))[:15] + 1).values
    cu = torch.cat([torch.tensor([0]), cuts, torch.tensor([8192])])
    long = cu.diff()
    doc = torch.repeat_interleave(torch.arange(16), long)
    keep = (torch.arange(2048) < drawn(16, 1024)[:, None]).long()
    sizes = [128 * drawn(64, 5, seed) for seed in range(3)]
    pick = torch.Generator().manual_seed(0)
    one, two = torch.randint(0, 8, (4096,), generator=pick), torch.stack([torch.randperm(16, generator=pick)[:2] for _ in range(2048)])
    return {
        "padded attention, 8x16x4096x64": (
            attention, (*(half(8, 16, 4096, 64) for _ in range(3)), lengths), 4 * 16 * 4096 * 64 * int(lengths.sum()),
        ),
        "decoding, 2x4 heads, 32768 keys": (
            attention, (half(2, 4, 1, 64), *(half(2, 4, 32768, 64) for _ in range(2)), few), 4 * 4 * 64 * int(few.sum()),
        ),
        "16 documents in 8192 tokens, 8 heads of 64": (
            documents, (*(half(8192, 8, 64) for _ in range(3)), cu, doc), 4 * 8 * 64 * int((long**2).sum()),
        ),
        "padded linear, 32x512x512 to 2048": (linear, (half(32, 512, 512), half(512, 2048), rows), 2 * 512 * 2048 * int(rows.sum())),
        "grouped product, 4096x512 by 8x512x512": (
            grouped, (half(4096, 512).bfloat16(), half(8, 512, 512).bfloat16(), ends), 2 * 4096 * 512 * 512,
        ),
        "16 documents in 8192 tokens by their numbers, 8 heads of 64": (
            numbered, (*(half(8, 8192, 64) for _ in range(3)), doc), 4 * 8 * 64 * int((long**2).sum()),
        ),
        "causal chunks of 1024 in 8192 tokens, 16 heads of 64": (
            chunks, tuple(half(16, 8192, 64) for _ in range(3)), 4 * 16 * 64 * 8 * 1024 * 1025 // 2,
        ),
        "a tokenizer's mask, 16x12x2048x64": (
            tokenized, (*(half(16, 12, 2048, 64) for _ in range(3)), keep), 4 * 12 * 2048 * 64 * int(keep.sum()),
        ),
        "64 products of up to 512x512x512": (
            matrices, (half(64, 512, 512), half(64, 512, 512), *sizes), 2 * int((sizes[0].long() * sizes[1] * sizes[2]).sum()),
        ),
        "triangular product, 2048": (triangular, (half(2048, 2048), half(2048, 2048)), 2048 * 2048 * 2049),
        "rows by one of 8 matrices, 4096x1024x1024": (chosen, (half(4096, 1024), half(8, 1024, 1024), one), 2 * 4096 * 1024 * 1024),
        "two of 16 experts, 2048x1024x2816": (
            experts, (half(2048, 1024), half(2048, 2), two, half(16, 1024, 2816), half(16, 1024, 2816), half(16, 2816, 1024)),
            2 * 2 * 2048 * 3 * 1024 * 2816,
        ),
        **dict(encoders()),
    }  # fmt: skip


def figures(plan):
    costs = [k.cost for k in plan.kernels]
    return {
        "us": round(plan.estimated_us, 1), "gflop": round(sum(c.flops for c in costs) / 1e9, 2),
        "dram_mb": round(plan.dram_bytes / 1e6, 1), "kernels": len(costs), "form": ", ".join(plan.rewritten),
    }  # fmt: skip


def tiles(plan, cu, doc):
    """The tiles of scores of packed documents that are visited, that hold a visible pair, and all."""
    (kernel,) = plan.kernels
    rows, columns = (next(r.tile for a, r in kernel.kernel.roles.items() if a.name == name) for name in ("q_batch", "k_batch"))
    begin, end = cu[doc].split(rows), cu[doc + 1].split(rows)
    visited = sum(-(-int(e.max()) // columns) - int(b.min()) // columns for b, e in zip(begin, end, strict=True))
    visible = (doc[:, None] == doc).view(len(doc) // rows, rows, len(doc) // columns, columns).any(3).any(1)
    return [visited, int(visible.sum()), visible.numel()]


def row(name, f, args, needed, target):
    """A program without an example and with one."""
    specs = tuple(a if a.is_floating_point() else TensorSpec(tuple(a.shape), a.dtype) for a in args)
    plans = {how: eqfuse.optimize(f, given, target=target).plan for how, given in (("without", specs), ("with", args))}
    found = {"program": name, "needed_gflop": round(needed / 1e9, 2), **{how: figures(p) for how, p in plans.items()}}
    return {**found, "tiles": tiles(plans["with"], *args[3:])} if f is documents else found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD", help="programs whose names have it")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    os.environ["EQFUSE_CACHE"] = "0"
    made = (row(name, *p, options.target) for name, p in programs().items() if options.only in name)
    keep(made, "ragged", options.target, options.save)


if __name__ == "__main__":
    main()
