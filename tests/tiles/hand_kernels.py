"""Kernels with running values, made by hand: what extraction will hand over for the classic one-pass programs.

Each returns (kernel, oracle): the oracle maps input arrays to output arrays in float64 numpy.
"""

import numpy as np

from eqfuse.ir import dtypes
from eqfuse.ir.index import Axis, index
from eqfuse.tiles.direct import NodeBuilder
from eqfuse.tiles.kernel import Buffer, Kernel, Role, Root


def kernel(name, build, roots, buffers, roles, order=None, packs=(), warps=4, stages=2):
    """``roots``: (node, buffer, axes of its dimensions)."""
    made = tuple(Root(n, b, tuple(index(0 if a is None else a) for a in axes)) for n, b, axes in roots)
    tiled = tuple(a for a, r in roles.items() if r.tile > 1)
    grid = tuple(a for a, r in roles.items() if r.kind == "grid")
    return Kernel(name, tuple(build.nodes), made, {b.name: b for b in buffers}, roles, order or tiled, grid, packs, warps, stages)


def sub(g, a, b):
    return g.map("add", a, g.map("neg", b))


def online_exponentials(g, j, x, weight=None):
    """max_j x and sum_j exp(x - max) * weight in one pass: (maximum, roll)."""
    m = g.reduce("max", j, x)
    new, old = g.ref("new", j, m), g.ref("old", j, m)
    body = g.map("exp", sub(g, x, new))
    if weight is not None:
        body = g.map("mul", body, weight)
    update = g.map("mul", g.acc(), g.map("exp", sub(g, old, new)))
    return m, g.roll("sum", j, body, update)


def softmax_rows(n=5, length=37, tile=8, rows=1):
    """Row softmax, streamed twice: statistics, then output."""
    i, j = Axis("i", n), Axis("j", length)
    g = NodeBuilder()
    x = g.load("x", i, j)
    m, s = online_exponentials(g, j, x)
    y = g.map("mul", g.map("exp", sub(g, x, m)), g.map("recip", s))
    buffers = [Buffer("x", dtypes.float32, (n, length)), Buffer("y", dtypes.float32, (n, length), "output")]
    roles = {i: Role("grid", rows), j: Role("stream", tile)}

    def oracle(x):
        e = np.exp(x - x.max(1, keepdims=True))
        return {"y": e / e.sum(1, keepdims=True)}

    return kernel("rows", g, [(y, "y", (i, j))], buffers, roles), oracle


def logsumexp(n=5, length=37, tile=8, rows=2):
    i, j = Axis("i", n), Axis("j", length)
    g = NodeBuilder()
    x = g.load("x", i, j)
    m, s = online_exponentials(g, j, x)
    out = g.map("add", m, g.map("log", s))
    buffers = [Buffer("x", dtypes.float32, (n, length)), Buffer("out", dtypes.float32, (n,), "output")]
    roles = {i: Role("grid", rows), j: Role("stream", tile)}

    def oracle(x):
        with np.errstate(all="ignore"):
            m = x.max(1)
            return {"out": np.where(np.isinf(m), m, m + np.log(np.exp(x - np.where(np.isinf(m), 0, m)[:, None]).sum(1)))}

    return kernel("lse", g, [(out, "out", (i,))], buffers, roles), oracle


def entropy(n=4, length=29, tile=8):
    """H = -sum p log p = m + log s - (sum x exp(x - m)) / s."""
    i, j = Axis("i", n), Axis("j", length)
    g = NodeBuilder()
    x = g.load("x", i, j)
    m, s = online_exponentials(g, j, x)
    _, t = online_exponentials(g, j, x, weight=x)
    out = sub(g, g.map("add", m, g.map("log", s)), g.map("mul", t, g.map("recip", s)))
    buffers = [Buffer("x", dtypes.float32, (n, length)), Buffer("out", dtypes.float32, (n,), "output")]
    roles = {i: Role("grid", 2), j: Role("stream", tile)}

    def oracle(x):
        e = np.exp(x - x.max(1, keepdims=True))
        p = e / e.sum(1, keepdims=True)
        return {"out": -(p * np.log(p)).sum(1)}

    return kernel("entropy", g, [(out, "out", (i,))], buffers, roles), oracle


def attention(
    heads=2, queries=40, keys=53, width=16, tiles=(16, 16), dtype=dtypes.float32, mask=None, statistics=False, scale=0.25, kv_group=1
):
    """One pass over the keys.  ``mask(g, i, j)`` returns the condition node of visible elements."""
    h, i, j = Axis("h", heads), Axis("i", queries), Axis("j", keys)
    d, e = Axis("d", width), Axis("e", width)
    g = NodeBuilder()
    kv = h if kv_group == 1 else index(h) // kv_group
    q, k, v = g.load("q", h, i, d), g.load("k", kv, j, d), g.load("v", kv, j, e)
    score = g.map("mul", g.reduce("sum", d, g.map("mul", q, k)), g.const(scale))
    if mask is not None:
        score = g.map("where", mask(g, i, j), score, g.const(-np.inf))
    m, s = online_exponentials(g, j, score)
    _, o = online_exponentials(g, j, score, weight=v)
    out = g.map("mul", o, g.map("recip", s))
    kvh = heads // kv_group
    buffers = [
        Buffer("q", dtype, (heads, queries, width)),
        Buffer("k", dtype, (kvh, keys, width)),
        Buffer("v", dtype, (kvh, keys, width)),
        Buffer("o", dtype, (heads, queries, width), "output"),
    ]
    roots = [(out, "o", (h, i, e))]
    if statistics:
        buffers.append(Buffer("lse", dtypes.float32, (heads, queries), "output"))
        roots.append((g.map("add", m, g.map("log", s)), "lse", (h, i)))
    roles = {
        h: Role("grid", 1),
        i: Role("grid", tiles[0]),
        j: Role("stream", tiles[1]),
        d: Role("resident", width),
        e: Role("resident", width),
    }

    def oracle(q, k, v):
        k, v = np.repeat(k, kv_group, 0), np.repeat(v, kv_group, 0)
        s = np.einsum("hid,hjd->hij", q, k) * scale
        if mask is not None:
            visible = mask(_NumpyNodes(), np.arange(queries)[:, None], np.arange(keys)[None, :])
            s = np.where(visible, s, -np.inf)
        with np.errstate(all="ignore"):
            m = s.max(-1, keepdims=True)
            p = np.exp(s - np.where(np.isinf(m), 0, m))
            total = p.sum(-1, keepdims=True)
            out = {"o": np.einsum("hij,hje->hie", p / total, v)}
            if statistics:
                out["lse"] = (m + np.log(total))[..., 0]
        return out

    return kernel("attend", g, roots, buffers, roles, order=(i, j, d, e)), oracle


class _NumpyNodes:
    """Reads a mask written for NodeBuilder on arrays."""

    def index(self, a):
        return a

    def map(self, op, *args):
        return {"le": np.less_equal, "lt": np.less, "ge": np.greater_equal}[op](*args)


def moments(n=3, length=41, tile=8, offset=0.0):
    """Mean and variance in one pass: v <- v + seen * (new - old)^2 ... + sum (x - new)^2, by the repair of sum (x - mean)^2."""
    i, j = Axis("i", n), Axis("j", length)
    g = NodeBuilder()
    x = g.load("x", i, j)
    mu = g.reduce("mean", j, x)
    new, old = g.ref("new", j, mu), g.ref("old", j, mu)
    # T(r) = sum (x - r)^2;  T(new) = T(old) + 2 (old - new) * sum (x - old) + seen * (old - new)^2, and sum (x - old) = 0 over the seen
    count = g.reduce("sum", j, g.const(1.0))
    shift = sub(g, old, new)
    update = g.map("add", g.acc(), g.map("mul", g.pre(j, count), g.map("square", shift)))
    squares = g.roll("sum", j, g.map("square", sub(g, x, new)), update)
    variance = g.map("mul", squares, g.map("recip", g.extent(j)))
    buffers = [
        Buffer("x", dtypes.float32, (n, length)),
        Buffer("mean", dtypes.float32, (n,), "output"),
        Buffer("variance", dtypes.float32, (n,), "output"),
    ]
    roles = {i: Role("grid", 1), j: Role("stream", tile)}

    def oracle(x):
        return {"mean": x.mean(1), "variance": x.var(1)}

    return kernel("moments", g, [(mu, "mean", (i,)), (variance, "variance", (i,))], buffers, roles), oracle


def moments_by_vector_repair(n=3, length=41, tile=8):
    """The same variance with the full vector repair: the companion sum of x is read as a prefix of this loop."""
    i, j = Axis("i", n), Axis("j", length)
    g = NodeBuilder()
    x = g.load("x", i, j)
    mu = g.reduce("mean", j, x)
    new, old = g.ref("new", j, mu), g.ref("old", j, mu)
    count, total = g.reduce("sum", j, g.const(1.0)), g.reduce("sum", j, x)
    # T(new) = T(old) + 2 (old - new) * sum x + seen * (new^2 - old^2)
    linear = g.map("mul", g.map("mul", g.const(2.0), sub(g, old, new)), g.pre(j, total))
    constant = g.map("mul", g.pre(j, count), sub(g, g.map("square", new), g.map("square", old)))
    squares = g.roll("sum", j, g.map("square", sub(g, x, new)), g.map("add", g.acc(), g.map("add", linear, constant)))
    out = g.map("mul", squares, g.map("recip", g.extent(j)))
    buffers = [Buffer("x", dtypes.float32, (n, length)), Buffer("variance", dtypes.float32, (n,), "output")]
    roles = {i: Role("grid", 1), j: Role("stream", tile)}
    return kernel("moments", g, [(out, "variance", (i,))], buffers, roles), lambda x: {"variance": x.var(1)}


def normalised_product(n=4, length=23, tile=4):
    """sum_j x y / sqrt(sum_j x^2): the scaling factor sqrt(old / new) is 0/0 before anything non-zero was seen."""
    i, j = Axis("i", n), Axis("j", length)
    g = NodeBuilder()
    x, y = g.load("x", i, j), g.load("y", i, j)
    r = g.reduce("sum", j, g.map("square", x))
    new, old = g.ref("new", j, r), g.ref("old", j, r)
    scale = g.map("rsqrt", new)
    update = g.map("mul", g.acc(), g.map("recip", g.map("sqrt", g.map("mul", new, g.map("recip", old)))))
    out = g.roll("sum", j, g.map("mul", g.map("mul", x, y), scale), update)
    buffers = [Buffer(b, dtypes.float32, (n, length)) for b in "xy"] + [Buffer("out", dtypes.float32, (n,), "output")]
    roles = {i: Role("grid", 1), j: Role("stream", tile)}
    return kernel("project", g, [(out, "out", (i,))], buffers, roles), lambda x, y: {"out": (x * y).sum(1) / np.sqrt((x * x).sum(1))}


def decode_split(keys=53, width=16, parts=4, part=16, tile=8, heads=3):
    """One query, keys split over the grid: partial maximum, sum and output per part (the split does not divide)."""
    h, s, t = Axis("h", heads), Axis("s", parts), Axis("t", part)
    d, e = Axis("d", width), Axis("e", width)
    g = NodeBuilder()
    at = index(s) * part + t
    q, k, v = g.load("q", h, d), g.load("k", h, at, d), g.load("v", h, at, e)
    score = g.reduce("sum", d, g.map("mul", q, k))
    score = g.map("where", g.map("lt", g.index(at), g.const(keys)), score, g.const(-np.inf))
    m, total = online_exponentials(g, t, score)
    _, o = online_exponentials(g, t, score, weight=v)
    buffers = [
        Buffer("q", dtypes.float32, (heads, width)),
        Buffer("k", dtypes.float32, (heads, keys, width)),
        Buffer("v", dtypes.float32, (heads, keys, width)),
        Buffer("m", dtypes.float32, (heads, parts), "output"),
        Buffer("l", dtypes.float32, (heads, parts), "output"),
        Buffer("o", dtypes.float32, (heads, parts, width), "output"),
    ]
    roles = {h: Role("grid", 1), s: Role("grid", 1), t: Role("stream", tile), d: Role("resident", width), e: Role("resident", width)}
    roots = [(m, "m", (h, s)), (total, "l", (h, s)), (o, "o", (h, s, e))]

    def oracle(q, k, v):
        m, l, o = (np.zeros((heads, parts)), np.zeros((heads, parts)), np.zeros((heads, parts, width)))
        for n in range(parts):
            keep = slice(n * part, min((n + 1) * part, keys))
            score = np.einsum("hd,hjd->hj", q, k[:, keep])
            m[:, n] = score.max(1)
            p = np.exp(score - m[:, n : n + 1])
            l[:, n], o[:, n] = p.sum(1), np.einsum("hj,hje->he", p, v[:, keep])
        return {"m": m, "l": l, "o": o}

    return kernel("part", g, roots, buffers, roles), oracle


def matmul(m=50, n=37, k=41, tiles=(16, 16, 16), dtype=dtypes.float32):
    i, j, r = Axis("i", m), Axis("j", n), Axis("r", k)
    g = NodeBuilder()
    out = g.reduce("sum", r, g.map("mul", g.load("a", i, r), g.load("b", r, j)))
    buffers = [Buffer("a", dtype, (m, k)), Buffer("b", dtype, (k, n)), Buffer("c", dtype, (m, n), "output")]
    roles = {i: Role("grid", tiles[0]), j: Role("grid", tiles[1]), r: Role("stream", tiles[2])}
    return kernel("matmul", g, [(out, "c", (i, j))], buffers, roles, order=(i, j, r)), lambda a, b: {"c": a @ b}


def grouped_queries(keys=29, group=4, kv=2, queries=5, width=16, tile=16):
    """Query heads that share keys, packed with the query rows into one tile dim."""
    c, q_, i, j = Axis("c", kv), Axis("g", group), Axis("i", queries), Axis("j", keys)
    d, e = Axis("d", width), Axis("e", width)
    g = NodeBuilder()
    q, k, v = g.load("q", c, q_, i, d), g.load("k", c, j, d), g.load("v", c, j, e)
    score = g.reduce("sum", d, g.map("mul", q, k))
    _, s = online_exponentials(g, j, score)
    _, o = online_exponentials(g, j, score, weight=v)
    out = g.map("mul", o, g.map("recip", s))
    buffers = [
        Buffer("q", dtypes.float32, (kv, group, queries, width)),
        Buffer("k", dtypes.float32, (kv, keys, width)),
        Buffer("v", dtypes.float32, (kv, keys, width)),
        Buffer("o", dtypes.float32, (kv, group, queries, width), "output"),
    ]
    roles = {
        c: Role("grid", 1),
        q_: Role("grid", group),
        i: Role("grid", 4),
        j: Role("stream", tile),
        d: Role("resident", width),
        e: Role("resident", width),
    }

    def oracle(q, k, v):
        s = np.einsum("cgid,cjd->cgij", q, k)
        p = np.exp(s - s.max(-1, keepdims=True))
        return {"o": np.einsum("cgij,cje->cgie", p / p.sum(-1, keepdims=True), v)}

    return kernel("grouped", g, [(out, "o", (c, q_, i, e))], buffers, roles, order=(q_, j, d, e), packs=((q_, i),)), oracle


def causal(g, i, j):
    return g.map("le", g.index(j), g.index(i))


def later(g, i, j):
    """Row i sees j >= i: whole leading tiles are masked, and rows beyond the keys entirely."""
    return g.map("le", g.index(i), g.index(j))


def inputs(k, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    return {b.name: rng.standard_normal(b.shape) * scale for b in k.buffers.values() if b.role != "output"}


CASES = {
    "softmax_rows": softmax_rows,
    "softmax_row_tiles": lambda: softmax_rows(rows=4),
    "logsumexp": logsumexp,
    "entropy": entropy,
    "attention": attention,
    "attention_causal": lambda: attention(mask=causal, statistics=True),
    "attention_kv_groups": lambda: attention(heads=4, kv_group=2),
    "moments": moments,
    "moments_by_vector_repair": moments_by_vector_repair,
    "normalised_product": normalised_product,
    "decode_split": decode_split,
    "matmul": matmul,
    "matmul_even": lambda: matmul(32, 32, 48),
    "grouped_queries": grouped_queries,
}
