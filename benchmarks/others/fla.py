"""flash-linear-attention: attention whose state is a matrix, and the modules around it.  Needs einops."""

import sys
from pathlib import Path

import torch
from torch.nn import functional as F

from eqfuse.testing import indices, size, tensors

from .case import STRIDE_SEEN, Case, absent, package, undefined_lanes

CLOSE = ("contiguous",)


def gated(q, k, v, g):
    """Linear attention with a state that decays by exp(g), of shape (batch, time, heads, keys or 1)."""
    state, out = 0.0, []
    for t in range(q.shape[1]):
        state = state * g[:, t].exp().unsqueeze(-1) + k[:, t].unsqueeze(-1) * v[:, t].unsqueeze(-2)
        out.append((q[:, t].unsqueeze(-1) * state).sum(-2))
    return torch.stack(out, 1) * q.shape[-1] ** -0.5


def linear(q, k, v):
    return gated(q, k, v, torch.zeros_like(q))


def of_heads(q, k, v, g):
    return gated(q, k, v, g.unsqueeze(-1))


def retention(q, k, v):
    decay = torch.log(1 - 2.0 ** (-5 - torch.arange(q.shape[2], dtype=q.dtype)))
    return gated(q, k, v, decay[None, None, :, None].expand(*q.shape[:3], 1))


def delta(q, k, v, b, g=None):
    state, out = torch.zeros_like(k[:, 0].unsqueeze(-1) * v[:, 0].unsqueeze(-2)), []
    for t in range(q.shape[1]):
        state = state * (1 if g is None else g[:, t].exp()[..., None, None])
        key, value = k[:, t], v[:, t]
        known = (key.unsqueeze(-1) * state).sum(-2)
        state = state + key.unsqueeze(-1) * (b[:, t].unsqueeze(-1) * (value - known)).unsqueeze(-2)
        out.append((q[:, t].unsqueeze(-1) * state).sum(-2))
    return torch.stack(out, 1) * q.shape[-1] ** -0.5


def gated_delta(q, k, v, g, b):
    return delta(q, k, v, b, g)


def hgrn(x, g):
    state, out = 0.0, []
    for t in range(x.shape[1]):
        state = g[:, t].exp() * state + x[:, t]
        out.append(state)
    return torch.stack(out, 1)


def rwkv6(r, k, v, w, u):
    state, out = 0.0, []
    for t in range(r.shape[1]):
        new = k[:, t].unsqueeze(-1) * v[:, t].unsqueeze(-2)
        out.append((r[:, t].unsqueeze(-1) * (state + u[None, :, :, None] * new)).sum(-2))
        state = state * w[:, t].exp().unsqueeze(-1) + new
    return torch.stack(out, 1) * r.shape[-1] ** -0.5


def attention(q, k, v):
    return F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True).transpose(1, 2)


def forgetting(q, k, v, g):
    total = g.cumsum(1).transpose(1, 2)
    bias = (total.unsqueeze(-1) - total.unsqueeze(-2)).masked_fill(torch.ones(q.shape[1], q.shape[1]).triu(1).bool(), -torch.inf)
    return F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), attn_mask=bias).transpose(1, 2)


def causal_conv(x, w, b):
    padded = F.pad(x.transpose(1, 2), (w.shape[1] - 1, 0))
    return F.silu(F.conv1d(padded, w.unsqueeze(1), b, groups=w.shape[0])).transpose(1, 2)


def rotary(x, angle):
    c, s = angle.cos()[None, :, None], angle.sin()[None, :, None]
    a, b = x.chunk(2, -1)
    return torch.cat([a * c - b * s, a * s + b * c], -1)


def rms_norm(x, w):
    return F.rms_norm(x, x.shape[-1:], w, 1e-5)


def cases():
    absent("transformers")
    root = next(Path(p) for p in sys.path if (Path(p) / "fla" / "ops").is_dir()) / "fla"
    for name in ("fla", "fla.ops", "fla.modules"):
        package(name, root.joinpath(*name.split(".")[1:]))
    sys.modules["fla"].__version__ = "0"
    from fla.modules.activations import logsigmoid, swiglu, swish
    from fla.modules.convolution import causal_conv1d
    from fla.modules.fused_cross_entropy import cross_entropy_loss
    from fla.modules.fused_norm_gate import rms_norm_gated
    from fla.modules.l2norm import l2norm
    from fla.modules.layernorm import group_norm as fla_group_norm
    from fla.modules.layernorm import layer_norm as fla_layer_norm
    from fla.modules.layernorm import rms_norm as fla_rms_norm
    from fla.modules.rotary import rotary_embedding
    from fla.modules.token_shift import token_shift
    from fla.ops.attn.parallel import parallel_attn
    from fla.ops.delta_rule import chunk_delta_rule, fused_recurrent_delta_rule
    from fla.ops.forgetting_attn.parallel import parallel_forgetting_attn
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
    from fla.ops.gla import chunk_gla, fused_recurrent_gla
    from fla.ops.hgrn import chunk_hgrn, fused_recurrent_hgrn
    from fla.ops.linear_attn import chunk_linear_attn, fused_recurrent_linear_attn
    from fla.ops.retention import chunk_retention, fused_recurrent_retention, parallel_retention
    from fla.ops.rwkv6 import chunk_rwkv6, fused_recurrent_rwkv6
    from fla.ops.simple_gla import chunk_simple_gla, fused_recurrent_simple_gla, parallel_simple_gla
    from fla.ops.utils.cumsum import chunk_global_cumsum, chunk_local_cumsum
    from fla.ops.utils.logcumsumexp import logcumsumexp_fwd_kernel
    from fla.ops.utils.logsumexp import logsumexp_fwd
    from fla.ops.utils.matmul import matmul
    from fla.ops.utils.pooling import mean_pooling
    from fla.ops.utils.softmax import softmax_bwd, softmax_fwd

    def logcumsumexp(x):
        """As chunk_abc launches it."""
        y = torch.empty_like(x)
        logcumsumexp_fwd_kernel[(x.shape[0],)](x, y, T=x.shape[1], S=x.shape[2])
        return y

    f32 = torch.float32
    b, t, h, d = (
        size("batch", 1, 2),
        size("time", 3, 70),
        size("heads", 1, 2),
        16,
    )  # chunks are of 64; gates of two steps do nothing

    def normal(*shape):
        return tensors(f32, shape, values="normal", layouts=CLOSE)

    q, k, v = normal(b, t, h, d), normal(b, t, h, d), normal(b, t, h, d)
    unit = normal(b, t, h, d).map(lambda x: F.normalize(x, dim=-1))
    decay = normal(b, t, h, d).map(lambda x: F.logsigmoid(x) / 4)
    of_head = normal(b, t, h).map(lambda x: F.logsigmoid(x) / 4)
    beta = normal(b, t, h).map(torch.sigmoid)
    short = size("short", 3, 12)  # programs that step through time one by one
    sq, sk, sv = normal(b, short, h, d), normal(b, short, h, d), normal(b, short, h, d)
    s_unit = normal(b, short, h, d).map(lambda x: F.normalize(x, dim=-1))
    s_decay = normal(b, short, h, d).map(lambda x: F.logsigmoid(x) / 4)
    s_of_head, s_beta = normal(b, short, h).map(lambda x: F.logsigmoid(x) / 4), normal(b, short, h).map(torch.sigmoid)
    few = {"examples": 2, "options": {"roundings": 16.0}}  # sums over time, in another order

    yield Case(
        "fused_recurrent_linear_attn",
        linear,
        lambda q, k, v: fused_recurrent_linear_attn(q, k, v, normalize=False)[0],
        [sq, sk, sv],
        **few,
    )
    yield Case("chunk_linear_attn", linear, lambda q, k, v: chunk_linear_attn(q, k, v, normalize=False)[0], [q, k, v], **few)
    yield Case("fused_recurrent_retention", retention, lambda *a: fused_recurrent_retention(*a)[0], [sq, sk, sv], **few)
    yield Case("chunk_retention", retention, lambda *a: chunk_retention(*a)[0], [q, k, v], **few)
    yield Case("parallel_retention", retention, lambda *a: parallel_retention(*a)[0], [q, k, v], **few)
    yield Case("fused_recurrent_simple_gla", of_heads, lambda *a: fused_recurrent_simple_gla(*a)[0], [sq, sk, sv, s_of_head], **few)
    yield Case("chunk_simple_gla", of_heads, lambda *a: chunk_simple_gla(*a)[0], [q, k, v, of_head], **few)
    yield Case("parallel_simple_gla", of_heads, lambda *a: parallel_simple_gla(*a)[0], [q, k, v, of_head], **few)
    yield Case("fused_recurrent_gla", gated, lambda *a: fused_recurrent_gla(*a)[0], [sq, sk, sv, s_decay], **few)
    yield Case("chunk_gla", gated, lambda *a: chunk_gla(*a)[0], [q, k, v, decay], **few)
    yield Case("fused_recurrent_delta_rule", delta, lambda *a: fused_recurrent_delta_rule(*a)[0], [sq, s_unit, sv, s_beta], **few)
    narrow = [x.map(torch.Tensor.bfloat16) for x in (q, unit, v, beta)]  # float32 is refused
    yield Case("chunk_delta_rule", delta, lambda *a: chunk_delta_rule(*a)[0], narrow, **few)
    yield Case(
        "fused_recurrent_gated_delta_rule",
        gated_delta,
        lambda q, k, v, g, b: fused_recurrent_gated_delta_rule(q, k, v, g, beta=b)[0],
        [sq, s_unit, sv, s_of_head, s_beta],
        gradients=False,
        **few,
    )
    yield Case("chunk_gated_delta_rule", gated_delta, lambda *a: chunk_gated_delta_rule(*a)[0], [q, unit, v, of_head, beta], **few)
    x, gate = normal(b, t, d), normal(b, t, d).map(F.logsigmoid)
    yield Case(
        "fused_recurrent_hgrn",
        hgrn,
        lambda *a: fused_recurrent_hgrn(*a)[0],
        [normal(b, short, d), normal(b, short, d).map(F.logsigmoid)],
        **few,
    )
    yield Case("chunk_hgrn", hgrn, lambda *a: chunk_hgrn(*a)[0], [x, gate], **few)
    yield Case(
        "fused_recurrent_rwkv6",
        rwkv6,
        lambda *a: fused_recurrent_rwkv6(*a, scale=d**-0.5)[0],
        [sq, sk, sv, s_decay, normal(h, d)],
        **few,
    )
    yield Case("chunk_rwkv6", rwkv6, lambda *a: chunk_rwkv6(*a, scale=d**-0.5)[0], [q, k, v, decay, normal(h, d)], **few)
    yield Case("parallel_attn", attention, parallel_attn, [q, k, v], **few)
    yield Case("parallel_forgetting_attn", forgetting, parallel_forgetting_attn, [q, k, v, of_head], **few)

    rows, columns = size("rows", 1, 9), size("columns", 2, 70)
    some, weight = normal(rows, columns), normal(columns)
    m, unit = torch.arange(6.0).view(2, 3), torch.ones(3)
    yield from undefined_lanes(
        Case("layer_norm", lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), fla_layer_norm, [some, weight, weight]), m, unit, unit
    )
    yield from undefined_lanes(Case("rms_norm", rms_norm, lambda x, w: fla_rms_norm(x, w, None), [some, weight]), m, unit)
    group = Case(
        "group_norm",
        lambda x, w, b: F.group_norm(x, 2, w, b),
        lambda x, w, b: fla_group_norm(x, w, b, num_groups=2),
        [normal(rows, 24), normal(24), normal(24)],
    )
    yield from undefined_lanes(group, torch.arange(48.0).view(2, 24), torch.ones(24), torch.ones(24))
    norm = Case(
        "rms_norm_gated",
        lambda x, g, w: rms_norm(x, w) * F.silu(g),
        lambda x, g, w: rms_norm_gated(x, g, w, None, eps=1e-5),
        [some, some, weight],
    )
    yield from undefined_lanes(norm, m, m, unit)
    yield Case("l2norm", lambda x: x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6), l2norm, [some])
    yield Case("swish", F.silu, swish, [some])
    yield Case("logsigmoid", F.logsigmoid, logsigmoid, [some])
    yield Case("swiglu", lambda a, b: F.silu(a) * b, swiglu, [some, some])
    yield Case(
        "cross_entropy_loss",
        lambda x, t: F.cross_entropy(x, t, reduction="none"),
        lambda x, t: cross_entropy_loss(x, t)[0],
        [some, indices((rows,), below=columns)],
    )
    yield Case(
        "rotary_embedding",
        lambda x, a: rotary(x, a.detach()),
        lambda x, a: rotary_embedding(x, a.detach().cos(), a.detach().sin()),
        [q, normal(t, d // 2)],
        examples=4,
    )
    yield Case(
        "causal_conv1d",
        causal_conv,
        lambda x, w, b: causal_conv1d(x, w, b, activation="silu")[0],
        [normal(b, t, 24), normal(24, 4), normal(24)],
        examples=4,
    )
    yield Case("token_shift", lambda x: F.pad(x, (0, 0, 1, -1)) - x, token_shift, [normal(b, t, 24)], examples=4)
    yield Case(
        "softmax_fwd",
        lambda x: x.softmax(-1),
        softmax_fwd,
        [tensors(f32, (rows, columns), values=("normal", "offset"), layouts=CLOSE)],
        gradients=False,
    )
    yield Case(
        "softmax_fwd, transposed",
        lambda x: x.softmax(-1),
        softmax_fwd,
        [tensors(f32, (rows, columns), values="normal", layouts="transposed")],
        gradients=False,
        fault="the strides of the argument are ignored",
        seen=STRIDE_SEEN,
        shows=lambda: transposed(softmax_fwd),
    )
    yield Case("softmax_bwd", lambda p, d: p * (d - (p * d).sum(-1, keepdim=True)), softmax_bwd, [some, some], gradients=False)
    yield Case("chunk_global_cumsum", lambda x: x.cumsum(1), chunk_global_cumsum, [normal(b, t, h)], gradients=False)
    yield Case(
        "chunk_local_cumsum",
        lambda x: torch.cat([c.cumsum(1) for c in x.split(16, 1)], 1),
        lambda x: chunk_local_cumsum(x, 16),
        [normal(b, t, h, d)],
        gradients=False,
    )
    yield Case("logcumsumexp_fwd", lambda x: x.logcumsumexp(1), logcumsumexp, [normal(b, t, d)], gradients=False)
    yield Case("logsumexp_fwd", lambda x: x.logsumexp(-1), logsumexp_fwd, [some], gradients=False)
    yield Case(
        "mean_pooling",
        lambda x: torch.stack([c.mean(1) for c in x.split(16, 1)], 1),
        lambda x: mean_pooling(x, 16),
        [normal(b, t, h, d)],
        examples=4,
    )
    yield Case(
        "matmul",
        lambda a, b: a @ b,
        lambda a, b: matmul(a, b),
        [normal(rows, columns), normal(columns, size("n", 1, 40))],
        gradients=False,
        examples=4,
    )


def transposed(softmax):
    m = torch.arange(4.0).view(2, 2).T
    return softmax(m)[0, 1].item(), m.softmax(-1)[0, 1].item()
