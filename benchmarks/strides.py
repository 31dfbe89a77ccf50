"""What it is worth to know how arguments lie in memory: plans made with their strides beside plans made as if there were no gaps.

    python benchmarks/strides.py [WORD ...] [--save]        a row for each case, those whose names have a word; modelled for an h200

Both plans are priced for the strides that there are.  Sectors: of 32 bytes, what the requests of all warps ask for, reloads included.
"""

import argparse
import json
from pathlib import Path

import torch
from host import commit, host
from torch.nn import functional

import eqfuse
from eqfuse import planning
from eqfuse.runtime.accesses import sectors_of_request
from eqfuse.tiles.walk import walk

TARGET, RESULTS = "h200", Path(__file__).parent / "results"


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v


def split_and_merged(q, k, v, heads):
    """Heads are split before attention, and merged after it."""
    split = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    return attention(*split).transpose(1, 2).flatten(2)


def paged(q, keys, values, table):
    """A token's attention over the pages of its sequence, one after the other; a group of heads has one of keys."""
    (b, n), (_, size, heads, d) = table.shape, keys.shape
    k, v = (x[table].reshape(b, n * size, heads, 1, d).movedim(1, 3) for x in (keys, values))
    return attention(q.unflatten(1, (heads, -1)).unsqueeze(3), k, v)


def norm(x, dims):
    mean = x.mean(dims, keepdim=True)
    return (x - mean) * torch.rsqrt(x.var(dims, keepdim=True, unbiased=False) + 1e-5)


def chain(x, heads):
    """Back where it was, by way of heads, halves and the other order."""
    y = x.unflatten(-1, (heads, -1)).permute(0, 2, 1, 3).reshape(x.shape[0] * heads, x.shape[1], -1)
    y = y.transpose(1, 2).unflatten(0, (x.shape[0], heads)).flatten(1, 2).transpose(1, 2)
    return y.reshape(-1, y.shape[-1]).view(x.shape)


def windows(x, length, step):
    """Pieces of rows that overlap in memory."""
    n = (x.shape[1] - length) // step + 1
    return x.as_strided((x.shape[0], n, length), (x.stride(0), step, 1))


def batch_norm(x, mean, var, weight, bias):
    return functional.batch_norm(x, mean, var, weight, bias)


def cases(new, large):
    """Name -> function and arguments; ``new(*shape)`` makes a tensor.  Not ``large``: small odd sizes, for tests."""
    b, s, h, d = (4, 2048, 16, 64) if large else (2, 7, 3, 5)
    n, c, image, groups = (32, 256, 56, 32) if large else (2, 6, 5, 3)
    rows, columns = (4096, 4096) if large else (9, 13)
    length, step, basis = (400, 160, 512) if large else (7, 3, 5)
    merged, square = (b, s, h * d), (rows, columns)
    packed, flat = new(b, s, 3, h, d), new(b, s, 3 * h * d)
    images = {"NCHW": new(n, c, image, image), "NHWC": new(n, c, image, image).to(memory_format=torch.channels_last)}
    wide, channels = new(rows, 2 * columns), [new(c).abs() for _ in range(4)]
    moved = [new(b, s, h, d).transpose(1, 2) for _ in range(3)]
    sound = new(8, 160 * 1000 + 400 if large else 40)
    pages, size, kv_heads = (256, 16, 8) if large else (3, 4, 2)  # of each sequence
    table = torch.arange(b * pages - 1, -1, -1, device=sound.device).view(b, pages)
    query, caches = new(b, 4 * kv_heads, d), {
        "positions before heads": [new(b * pages, size, kv_heads, d) for _ in range(2)],
        "heads before positions": [new(b * pages, kv_heads, size, d).transpose(1, 2) for _ in range(2)],
    }  # fmt: skip
    found = {
        "heads split and merged inside": (lambda q, k, v: split_and_merged(q, k, v, h), [new(*merged) for _ in range(3)]),
        "heads split by the caller": (lambda q, k, v: attention(q, k, v).transpose(1, 2).flatten(2), moved),
        "q, k, v packed: strided arguments": (attention, list(packed.permute(2, 0, 3, 1, 4))),
        "q, k, v packed: unbind inside": (lambda x: attention(*x.permute(2, 0, 3, 1, 4).unbind(0)), [packed]),
        "q, k, v packed: chunk inside": (lambda x: split_and_merged(*x.chunk(3, -1), h), [flat]),
        "x @ w, w transposed": (torch.matmul, [new(*square), new(columns, columns).t()]),
        "x @ w, x transposed": (torch.matmul, [new(columns, rows).t(), new(columns, columns)]),
        "x @ w, every second column of x": (torch.matmul, [wide[:, ::2], new(columns, columns)]),
        "x @ w, every second column of x, inside": (lambda x, w: x[:, ::2] @ w, [wide, new(columns, columns)]),
        "v * w, summed over rows, w transposed": (lambda v, w: (v * w).sum(1), [new(1, columns), new(columns, rows).t()]),
        "softmax of x transposed": (lambda x: torch.softmax(x, -1), [new(columns, rows).t()]),
        "softmax of every second column": (lambda x: torch.softmax(x, -1), [wide[:, ::2]]),
        "softmax of every second column, inside": (lambda x: torch.softmax(x[:, ::2], -1), [wide]),
        "softmax of the first of pairs": (lambda x: torch.softmax(x, -1), [new(rows, columns, 2)[..., 0]]),
        "softmax of the first of pairs, inside": (lambda x: torch.softmax(x[..., 0], -1), [new(rows, columns, 2)]),
        "softmax without the first column": (lambda x: torch.softmax(x, -1), [new(rows, columns + 1)[:, 1:]]),
        "relu(x + b), b expanded": (lambda x, b: torch.relu(x + b), [new(*square), new(columns).expand(*square)]),
        "relu(x + b), b a row": (lambda x, b: torch.relu(x + b), [new(*square), new(columns)]),
        "mean of windows that overlap": (lambda x: x.mean(-1), [windows(sound, length, step)]),
        "frames @ basis, windows that overlap": (torch.matmul, [windows(sound, length, step), new(length, basis)]),
        "relu of a chain of reshapes": (lambda x: torch.relu(chain(x, h)), [new(*merged)]),
        "relu without the chain": (torch.relu, [new(*merged)]),
    }  # fmt: skip
    found |= {f"a token over a cache in pages, {order}": (paged, [query, *cache, table]) for order, cache in caches.items()}
    for order, x in images.items():
        found |= {
            f"layer norm over channels, {order}": (lambda x: norm(x, 1), [x]),
            f"norm over positions, {order}": (lambda x: norm(x, (2, 3)), [x]),
            f"group norm, {order}": (lambda x: functional.group_norm(x, groups), [x]),
            f"batch norm, {order}": (batch_norm, [x, *channels]),
            f"variance over channels, {order}": (lambda x: x.var(1), [x]),
        }
    return found


def meta(*shape):
    return torch.empty(shape, dtype=torch.float16, device="meta")


def sectors(plan, lanes):
    """Of all requests, and of what they would be if every request lay in one piece."""
    traffic = [t for kernel in plan.kernels for t in (lambda c: (*c.loads, *c.stores))(walk(kernel.tiles))]
    asked = sum(t.bytes / (lanes * t.vector) * sectors_of_request(t.vector, t.run, lanes) for t in traffic)
    return asked, sum(t.bytes for t in traffic) / 32


def numbers(plan, lanes):
    asked, least = sectors(plan, lanes)
    widths = [t.vector for k in plan.kernels for t in walk(k.tiles).loads]
    return {
        "kernels": len(plan.kernels), "us": round(plan.estimated_us, 2), "bytes": plan.dram_bytes, "sectors": round(asked),
        "in_one_piece": round(least), "narrowest_load": min(widths, default=0),
    }  # fmt: skip


def measured(name, fn, args):
    """One row: the plan for the strides that there are, and the one as if there were no gaps."""
    known = eqfuse.optimize(fn, args, target=TARGET)
    assumed = eqfuse.optimize(fn, [torch.empty(x.shape, dtype=x.dtype, device="meta") for x in args], target=TARGET)
    there = planning.like(assumed.planned, known.planned.request, known.planned.traced).plan
    lanes = known.planned.request.target.warp_size
    return {"case": name, "with": numbers(known.plan, lanes), "without": numbers(there, lanes), "compulsory": known.plan.compulsory_bytes}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="cases whose names have one of these words")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/DATE-strides.json")
    options = parser.parse_args()
    rows = []
    for name, (fn, args) in cases(meta, True).items():
        if not options.words or any(w in name for w in options.words):
            rows.append(measured(name, fn, args))
            print(rows[-1], flush=True)
    result = {"environment": {**host("torch"), "commit": commit()}, "target": TARGET, "rows": rows}
    if options.save:
        path = RESULTS / f"{result['environment']['date'][:10]}-strides.json"
        path.write_text(json.dumps(result, indent=1) + "\n")
        print(path)


if __name__ == "__main__":
    main()
