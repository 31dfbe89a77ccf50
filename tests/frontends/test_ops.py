"""Small programs, one per op or pattern of ops: a table of equations checked against torch in float64."""

import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

from .test_corpus import agree


def data(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64)


X, Y, SQUARE, ROW, COLUMN, SCALAR = data(5, 7), data(5, 7, seed=1), data(6, 6), data(7), data(5, 1), data()
CUBE, BATCH, OTHER = data(2, 3, 4), data(2, 3, 4, 5), data(2, 3, 6, 5)
LABELS = torch.tensor([3, 0, 6, -100, 2])
MASK = torch.tensor([True, False, True, True, False, False, True])

UNARY = {
    "neg": lambda x: -x, "abs": torch.abs, "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "sigmoid": torch.sigmoid,
    "tanh": torch.tanh, "erf": torch.erf, "sin": torch.sin, "cos": torch.cos, "sinh": torch.sinh, "cosh": torch.cosh, "floor": torch.floor, "ceil": torch.ceil,
    "reciprocal": torch.reciprocal, "relu": F.relu, "silu": F.silu, "gelu": F.gelu, "sign": torch.sign, "trunc_free": lambda x: x * 1,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "leaky_relu": lambda x: F.leaky_relu(x, 0.1), "elu": F.elu,
    "softplus": F.softplus, "softplus_beta": lambda x: F.softplus(x, beta=2.0), "hardtanh": F.hardtanh, "hardswish": F.hardswish,
    "mish": F.mish, "relu6": F.relu6, "hardsigmoid": F.hardsigmoid, "logsigmoid": F.logsigmoid, "softsign": F.softsign,
    "clamp": lambda x: x.clamp(-0.5, 0.5), "clamp_min": lambda x: x.clamp(min=0.1), "clamp_max": lambda x: x.clamp(max=0.1),
    "square": torch.square, "cube": lambda x: x**3, "fifth": lambda x: x**5, "inverse_square": lambda x: x**-2, "power0": lambda x: x**0 + x,
    "base": lambda x: 2.0**x + 3.0**x, "rsub": lambda x: 1 - x, "scaled_add": lambda x: torch.add(x, x * 2, alpha=3), "over": lambda x: 2 / x,
    "divided": lambda x: x / 3, "isinf": lambda x: torch.isinf(x / 0), "isnan": lambda x: torch.isnan(x), "isneginf": lambda x: torch.isneginf(x / 0),
    "isfinite": lambda x: torch.isfinite(x), "logical": lambda x: torch.logical_xor(x > 0, (x < 1) & ~(x == 0) | (x >= 2)),
    "where": lambda x: torch.where(x > 0, x, -1.0), "masked_fill": lambda x: x.masked_fill(x <= 0, -math.inf), "in_place": lambda x: (x + 1).mul_(2).relu_(),
    "dropout": lambda x: F.dropout(x, 0.5, training=False) * 2, "casts": lambda x: x.double().to(torch.float64) * 2, "no_grad": lambda x: torch.no_grad()(torch.exp)(x),
}  # fmt: skip

POSITIVE = {
    "log": torch.log, "log2": torch.log2, "log10": torch.log10, "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "half_power": lambda x: x**0.5, "minus_half_power": lambda x: x**-0.5, "odd_power": lambda x: x**1.7, "minus_odd_power": lambda x: x**-2.5,
}  # fmt: skip

REDUCTIONS = {
    "sum": lambda x: x.sum(), "sum0": lambda x: x.sum(0), "sum_keep": lambda x: x / x.sum(1, keepdim=True), "sum_both": lambda x: x.sum((0, 1)),
    "mean": lambda x: x.mean(), "mean1": lambda x: x.mean(-1), "amax": lambda x: x.amax(0), "amin": lambda x: x.amin((0, 1)), "max": torch.max, "min": torch.min,
    "max_dim": lambda x: x.max(dim=-1).values, "min_dim": lambda x: x.min(dim=0).values, "var": lambda x: x.var(-1), "var0": lambda x: x.var(unbiased=False),
    "std": lambda x: x.std(0), "var_mean": lambda x: torch.var_mean(x, dim=1), "var_correction": lambda x: x.var(dim=1, correction=3, keepdim=True),
    "softmax0": lambda x: torch.softmax(x, 0), "softmin": lambda x: F.softmin(x, dim=1), "logsumexp": lambda x: torch.logsumexp(x, (0, 1)), "log_softmax": lambda x: F.log_softmax(x, 1),
    "any": lambda x: (x > 2).any(1), "all": lambda x: (x > -2).all(0), "any_all": lambda x: (x > 2).any(), "count": lambda x: (x > 0).sum(1),
    "norm": lambda x: x.norm(dim=-1), "norm1": lambda x: x.norm(p=1, dim=0), "norm_inf": lambda x: x.norm(p=math.inf), "normalize": lambda x: F.normalize(x, dim=-1),
    "layer_norm": lambda x: F.layer_norm(x, (7,)), "layer_norm_all": lambda x: F.layer_norm(x, (5, 7)), "rms_norm": lambda x: F.rms_norm(x, (7,)),
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(7, dtype=x.dtype), torch.ones(7, dtype=x.dtype) * 2), "size_one": lambda x: x[:, :1].softmax(1) + x[:, :1].sum(1, keepdim=True),
    "softmax_of_rows_and_columns": lambda x: torch.softmax(x, 0) + torch.softmax(x, 1), "glu": lambda x: F.glu(x.T[:6], 0), "cosine": lambda x: F.cosine_similarity(x[:1], x),
}  # fmt: skip

VIEWS = {
    "transpose": lambda x: x.T * 2, "permute": lambda x: x[None].permute(2, 0, 1).exp(), "flip": lambda x: x.flip(0, 1) + x, "roll": lambda x: torch.roll(x, 2, 1) - x,
    "slice": lambda x: x[1:4, ::2] * 2, "shift": lambda x: x[:, 1:] - x[:, :-1], "negative_slice": lambda x: x[-3:, :-2] + 1, "select": lambda x: x[1] + x[-1],
    "split": lambda x: torch.add(*x[:, :6].split(3, 1)), "chunk": lambda x: x[:, :6].chunk(2, dim=1)[1].exp(), "unbind": lambda x: x.unbind(0)[2] * 2, "column": lambda x: x[:, 3:4] * x,
    "flatten": lambda x: x.flatten().exp(), "unflatten": lambda x: x[:, :6].unflatten(1, (2, 3)).sum(1), "regroup": lambda x: x.reshape(7, 5).exp(), "regroup_sum": lambda x: x.reshape(7, 5).sum(0),
    "softmax_of_flat": lambda x: torch.softmax(x.flatten(), 0).view(5, 7), "repeat": lambda x: x.repeat(2, 3) + 1, "expand": lambda x: x[:, None, :].expand(5, 4, 7).sum(1), "diagonal": lambda x: x.diagonal(1) * 2,
    "tril": lambda x: x.tril(1), "triu": lambda x: x.triu(-1), "arange": lambda x: x * torch.arange(7), "arange_steps": lambda x: x + torch.arange(3, 17, 2), "arange_float": lambda x: x + torch.arange(0.0, 3.5, 0.5),
    "grid": lambda x: torch.where(torch.arange(5)[:, None] * 2 <= torch.arange(7), x, 0.0), "blocks": lambda x: x * (torch.arange(7) // 3) + torch.arange(5)[:, None] % 2, "full": lambda x: x + torch.full((7,), 2.5) + torch.zeros(5, 1),
    "ones_like": lambda x: x + torch.ones_like(x), "stack_free": lambda x: x.unsqueeze(0).squeeze(0) + 1, "meshed": lambda x: x.movedim(0, 1)[..., None].squeeze(-1).contiguous() + 1,
    "index_positions": lambda x: x[torch.arange(5), torch.arange(5)] * 2, "index_rows": lambda x: x[torch.arange(2, 5)] * 2, "outer": lambda x: torch.outer(x[0], x[1]), "swap": lambda x: x[:, :5] + x[:, :5].T,
    "turn": lambda x: x[:, :5] @ x[:, :5].T.flip(0), "trace": lambda x: x.diagonal().sum() + x.sum(), "reverse_gram": lambda x: x.T @ x, "twice": lambda x: x[:, :5] @ x[:, :5] @ x[:, :5],
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_pointwise(name):
    agree(UNARY[name], (X,))


@pytest.mark.parametrize("name", POSITIVE)
def test_pointwise_on_positive_numbers(name):
    agree(POSITIVE[name], (X.abs() + 0.1,))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(name):
    agree(REDUCTIONS[name], (X,))


@pytest.mark.parametrize("name", VIEWS)
def test_view(name):
    agree(VIEWS[name], (X,))


def causal(n):
    positions = torch.arange(n)
    return torch.vmap(torch.vmap(lambda a, b: a >= b, (None, 0)), (0, None))(positions, positions)


def distances(n):
    """A table read at a position, as FlexAttention's reference reads it: by an autograd.Function under vmap."""
    positions, table = torch.arange(n), torch.arange(2.0 * n, dtype=torch.float64).cos()
    with TransformGetItemToIndex():
        return torch.vmap(torch.vmap(lambda a, b: table[a - b + n], (None, 0)), (0, None))(positions, positions)


SEVERAL = {
    "broadcast": (lambda x, r, c, s: x * r + c - s, (X, ROW, COLUMN, SCALAR)),
    "extrema": (lambda x, y: torch.maximum(x, y) - torch.minimum(x, y), (X, Y)),
    "mask": (lambda x, m: torch.where(m, x, 0.0).sum(-1), (X, MASK)),
    "mask_not": (lambda x, m: x.masked_fill(~m, -math.inf).softmax(-1), (X, MASK)),
    "mm": (lambda x, y: x @ y.T, (X, Y)),
    "matmul_scale": (lambda x, y: (x @ y.T) * 0.5 + 1, (X, Y)),
    "mv": (lambda x, r: x @ r, (X, ROW)),
    "vm": (lambda x, c: c.squeeze(1) @ x, (X, COLUMN)),
    "dot": (lambda r: r @ r, (ROW,)),
    "bmm": (lambda a: torch.bmm(a, a.transpose(1, 2)), (CUBE,)),
    "baddbmm": (lambda a, c: torch.baddbmm(c, a, a.transpose(1, 2), beta=0.5, alpha=2), (CUBE, data(2, 1, 3))),
    "addmm": (lambda x, y, c: torch.addmm(c, x, y.T, beta=0.5), (X, Y, data(1, 5))),
    "addmm_beta_0": (lambda x, y, c: torch.addmm(c * math.nan, x, y.T, beta=0), (X, Y, data(1, 5))),
    "broadcast_matmul": (lambda a, w: a @ w, (BATCH, data(5, 7))),
    "batch_broadcast_matmul": (lambda a, w: a @ w, (BATCH, data(1, 3, 5, 2))),
    "linear_bias": (F.linear, (BATCH, data(7, 5), data(7))),
    "einsum": (lambda a, b: torch.einsum("bhqd,bhkd->bhqk", a, b), (BATCH, OTHER)),
    "einsum_transposed": (lambda a, b: torch.einsum("bhqd,bhkd->kbq", a, b), (BATCH, OTHER)),
    "bilinear": (lambda x, y, w: torch.einsum("ij,jk,lk->il", x, w, y), (X, Y, data(7, 7))),
    "layer_norm_affine": (lambda x, w, b: F.layer_norm(x, (7,), w, b), (X, ROW, ROW + 1)),
    "cross_entropy": (F.cross_entropy, (X, LABELS)),
    "cross_entropy_sum": (lambda x, y: F.cross_entropy(x, y, reduction="sum"), (X, LABELS)),
    "cross_entropy_smooth": (lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), (X, LABELS)),
    "nll": (lambda x, y: F.nll_loss(F.log_softmax(x, 1), y), (X, LABELS)),
    "gather": (lambda x, y: x.gather(1, y.clamp(0)[:, None]).squeeze(1), (X, LABELS)),
    "indexed": (lambda x, y: x[torch.arange(5), y.clamp(0)] - x.logsumexp(1), (X, LABELS)),
    "indexed_from_the_end": (lambda x, y: x[torch.arange(5), y.clamp(-1)], (X, LABELS)),
    "mse": (F.mse_loss, (X, Y)),
    "kl": (lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"), (X, Y)),
    "bce": (lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()), (X, Y)),
    "huber": (F.huber_loss, (X, Y)),
    "sdpa": (F.scaled_dot_product_attention, (BATCH, OTHER, OTHER)),
    "sdpa_causal": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True, scale=0.3), (BATCH,)),
    "sdpa_bias": (lambda q, k, m: F.scaled_dot_product_attention(q, k, k, attn_mask=m), (BATCH, OTHER, data(4, 6))),
    "sdpa_mask": (lambda q, k, m: F.scaled_dot_product_attention(q, k, k, attn_mask=m), (BATCH, OTHER, data(4, 6) > 0)),
    "sdpa_no_key": (
        lambda q, k, m: F.scaled_dot_product_attention(q, k, k, attn_mask=m),
        (BATCH, OTHER, torch.arange(4)[:, None].expand(4, 6) > 1),
    ),
    "sdpa_grouped": (lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True), (data(2, 6, 4, 5), OTHER)),
    "rotary": (lambda x, c: torch.stack((x[..., 0], x[..., 1]), 0).sum(0) if False else x * c + x.flip(-1) * c, (CUBE, data(4))),
    "instance_norm": (F.instance_norm, (BATCH,)),
    "instance_norm_affine": (lambda x, w, b: F.instance_norm(x, weight=w, bias=b, eps=0.1), (CUBE, data(3), data(3, seed=1))),
    "instance_norm_of_volumes": (torch.nn.InstanceNorm3d(3), (data(2, 3, 2, 4, 3),)),
    "instance_norm_of_one": (torch.nn.InstanceNorm1d(3), (CUBE[0],)),
    "instance_norm_kept": (lambda x, m, v: F.instance_norm(x, m, v, use_input_stats=False), (BATCH, data(3), data(3).exp())),
    "batch_norm_of_batch": (lambda x: F.batch_norm(x, None, None, training=True), (BATCH,)),
    "batch_norm_of_rows": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True, eps=0.1), (X, ROW, ROW + 1)),
    "batch_norm_without_statistics": (torch.nn.BatchNorm2d(3, affine=False, track_running_stats=False).eval(), (BATCH,)),
    "batch_norm_and_its_statistics": (lambda x: torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5), (BATCH,)),
    "self_attention": (lambda x, w: torch.softmax((x @ w) @ (x @ w.T).mT, -1) @ x, (data(2, 6, 4), data(4, 4))),
    "symmetric": (lambda x: x + x.T, (SQUARE,)),
    "gram_of_softmax": (lambda x: (lambda p: p @ p.T)(x.softmax(-1)), (X,)),
    "normalised_gram": (lambda x: torch.softmax(x @ x.T, 0) @ x, (X,)),
    "three_of_a_kind": (lambda x: (x[:, None, None, :] * x[None, :, None, :] * x[None, None, :, :]).sum((1, 3)).softmax(1), (X,)),
    "rotated_cube": (lambda x: x + x.permute(1, 2, 0), (data(4, 4, 4),)),
    "merged_batch": (lambda a: (a.reshape(6, 4, 5).softmax(-1), a.logsumexp(-1)), (BATCH,)),
    "heads": (lambda x, w: (x @ w).view(2, 3, 2, 4).transpose(1, 2).softmax(-1).transpose(1, 2).reshape(2, 3, 8), (CUBE, data(4, 8))),
    "fused_projection": (lambda x, w: torch.mul(*(x @ w).chunk(2, -1)), (X, data(7, 6))),
    "empty_axis": (lambda x: (x[:, :0].sum(1), x.sum(1)), (X,)),
    "empty_contraction": (lambda x: x[:, :0] @ x.T[:0] + 1, (X,)),
    "bools": (lambda x, y: (x > 0) & (y > 0), (X, Y)),
    "vmap": (torch.vmap(lambda r: torch.softmax(r, -1)), (X,)),
    "vmap_of_a_table": (lambda q, k: (q @ k.T + distances(5)).softmax(-1), (X, Y)),
    "vmap_of_sizes": (torch.vmap(lambda a, b: (a * b).sum(-1) / a.shape[0]), (X, X)),
    "vmap_of_positions": (lambda q, k: torch.where(causal(5), q @ k.T, -1e9).softmax(-1), (X, Y)),
    "vmap_attention": (torch.vmap(F.scaled_dot_product_attention, in_dims=(0, 0, None)), (BATCH, OTHER, OTHER[0])),
    "vmap_triangle": (torch.vmap(torch.tril, in_dims=2, out_dims=1), (data(4, 4, 3),)),
    "vmap_in_place": (torch.vmap(lambda r: (r * 2).add_(1).cos()), (X,)),
    "eye": (lambda x: x @ torch.eye(7, dtype=x.dtype), (X,)),
    "eye_of_rows": (lambda x: x * torch.eye(5, 7, dtype=x.dtype) + torch.where(torch.eye(5, 7, dtype=torch.bool), x, 1), (X,)),
    "eye_of_floats": (lambda x: (torch.eye(5) * 2, x.exp()), (X,)),
    "positions_and_data": (
        lambda x, n: torch.where(torch.arange(7) < n[:, None], x, -math.inf).amax(1),
        (X, torch.tensor([1, 3, 7, 2, 4])),
    ),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_programs(name):
    fn, args = SEVERAL[name]
    agree(fn, args)
