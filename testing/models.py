"""Layers of public models, as their code writes them, and stacks of such layers.

Shapes are those of the public configurations (``bench``), or a few elements (``tiny``), for values.  Weights are each layer's own.  What a
model computes once for all of its layers, the causal mask, is computed once by the stack; what it looks up in tables (cosines and sines of
positions, T5's position bias, BERT's padding mask) is an argument.  Nothing here is written with fusion in mind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor, nn

from .programs import Arg, Case


@dataclass(frozen=True)
class Sizes:
    """Of a layer.  ``kv``: heads of keys and values, ``head``: the size of one; 0 where the others say it."""

    batch: int
    tokens: int
    hidden: int
    heads: int
    ff: int
    kv: int = 0
    head: int = 0

    @property
    def size(self) -> int:
        """Of one head."""
        return self.head or self.hidden // self.heads


# parts that several models have -----------------------------------------------------------------------------------------------------
class RMSNorm(nn.Module):
    """Statistics in float32, whatever the type."""

    def __init__(self, hidden: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(hidden)), eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(batch, tokens, hidden) as (batch, heads, tokens, size of a head)."""
    return x.view(*x.shape[:-1], heads, -1).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """The other way round."""
    x = x.transpose(1, 2).contiguous()
    return x.reshape(*x.shape[:-2], -1)


def causal_mask(x: Tensor, hidden: float | None = None) -> Tensor:
    """What is added to scores: 0 for what a position sees; for what comes after it ``hidden``, by default the lowest number of the type."""
    positions = torch.arange(x.shape[1], device=x.device)
    seen = positions[None, :] <= positions[:, None]
    hidden = torch.finfo(x.dtype).min if hidden is None else hidden
    return torch.where(seen, torch.zeros((), dtype=x.dtype, device=x.device), hidden)[None, None]


def attend(q: Tensor, k: Tensor, v: Tensor, scale: float = 1.0, mask: Tensor | None = None) -> Tensor:
    """Attention written out: the scores, what is added to them, their softmax in float32, rounded, and the weighted values."""
    scores = torch.matmul(q, k.transpose(2, 3)) * scale
    if mask is not None:
        scores = scores + mask
    weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(weights, v)


def gelu_new(x: Tensor) -> Tensor:
    """GELU by a tanh, written out as GPT-2 does."""
    return 0.5 * x * (1.0 + torch.tanh((2.0 / torch.pi) ** 0.5 * (x + 0.044715 * torch.pow(x, 3.0))))


class Stack(nn.Module):
    """Layers one after the other; all get the same further arguments."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, hidden: Tensor, *given: Tensor) -> Tensor:
        for layer in self.layers:
            hidden = layer(hidden, *given)
        return hidden


class Linears(nn.Module):
    """Linear layers with a relu behind each: one kernel could compute them in 4**(depth - 1) ways to loop, and none of those pays."""

    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Decoder(Stack):
    """Layers in which a position sees itself and what is before it."""

    hidden: float | None = None

    def forward(self, hidden: Tensor, *given: Tensor) -> Tensor:
        return super().forward(hidden, causal_mask(hidden, self.hidden), *given)


class InfiniteDecoder(Decoder):
    """The same with minus infinity in the mask: whatever the scores, none of those is ever the largest of its row."""

    hidden = -torch.inf


# Llama ------------------------------------------------------------------------------------------------------------------------------
def rotate_half(x: Tensor) -> Tensor:
    """The halves of every head the other way round, the second one negated."""
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def repeat_heads(x: Tensor, times: int) -> Tensor:
    """Each head several times, for the heads of queries that share it."""
    batch, heads, tokens, size = x.shape
    if times == 1:
        return x
    return x[:, :, None, :, :].expand(batch, heads, times, tokens, size).reshape(batch, heads * times, tokens, size)


class LlamaLayer(nn.Module):
    """Grouped-query attention with rotary positions and a gated feed-forward layer, both after a norm and added to what they read."""

    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.heads, self.kv, self.scale = s.heads, s.kv or s.heads, s.size**-0.5
        self.before, self.between = RMSNorm(s.hidden, 1e-5), RMSNorm(s.hidden, 1e-5)
        self.q_proj = nn.Linear(s.hidden, s.heads * s.size, bias=False)
        self.k_proj = nn.Linear(s.hidden, self.kv * s.size, bias=False)
        self.v_proj = nn.Linear(s.hidden, self.kv * s.size, bias=False)
        self.o_proj = nn.Linear(s.heads * s.size, s.hidden, bias=False)
        self.gate_proj = nn.Linear(s.hidden, s.ff, bias=False)
        self.up_proj = nn.Linear(s.hidden, s.ff, bias=False)
        self.down_proj = nn.Linear(s.ff, s.hidden, bias=False)

    def forward(self, hidden: Tensor, mask: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = self.before(hidden)
        q, k, v = split_heads(self.q_proj(x), self.heads), split_heads(self.k_proj(x), self.kv), split_heads(self.v_proj(x), self.kv)
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        k, v = (repeat_heads(t, self.heads // self.kv) for t in (k, v))
        hidden = hidden + self.o_proj(merge_heads(attend(q, k, v, self.scale, mask)))
        x = self.between(hidden)
        return hidden + self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


# GPT-2 ------------------------------------------------------------------------------------------------------------------------------
class Conv1D(nn.Module):
    """A linear layer whose weight is stored as inputs by outputs."""

    def __init__(self, outputs: int, inputs: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(inputs, outputs)), nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], -1)


class Gpt2Layer(nn.Module):
    """One product for queries, keys and values; a norm before each half."""

    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.heads, self.hidden, self.scale = s.heads, s.hidden, s.size**-0.5
        self.ln_1, self.ln_2 = nn.LayerNorm(s.hidden), nn.LayerNorm(s.hidden)
        self.c_attn, self.attn_proj = Conv1D(3 * s.hidden, s.hidden), Conv1D(s.hidden, s.hidden)
        self.c_fc, self.mlp_proj = Conv1D(s.ff, s.hidden), Conv1D(s.hidden, s.ff)
        self.dropout = nn.Dropout(0.1)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (split_heads(t, self.heads) for t in self.c_attn(self.ln_1(hidden)).split(self.hidden, dim=2))
        weights = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * self.scale + mask, dim=-1).type(v.dtype)
        attended = merge_heads(torch.matmul(self.dropout(weights), v))
        hidden = self.dropout(self.attn_proj(attended)) + hidden
        return hidden + self.dropout(self.mlp_proj(gelu_new(self.c_fc(self.ln_2(hidden)))))


# BERT -------------------------------------------------------------------------------------------------------------------------------
class BertLayer(nn.Module):
    """A norm after each half; the mask of padded positions is added to the scores."""

    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.heads, self.scale = s.heads, s.size**-0.5
        self.query, self.key, self.value, self.dense = (nn.Linear(s.hidden, s.hidden) for _ in range(4))
        self.intermediate, self.output = nn.Linear(s.hidden, s.ff), nn.Linear(s.ff, s.hidden)
        self.norm_1, self.norm_2 = nn.LayerNorm(s.hidden, eps=1e-12), nn.LayerNorm(s.hidden, eps=1e-12)
        self.dropout = nn.Dropout(0.1)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (split_heads(p(hidden), self.heads) for p in (self.query, self.key, self.value))
        weights = F.softmax(torch.matmul(q, k.transpose(-1, -2)) * self.scale + mask, dim=-1)
        attended = merge_heads(torch.matmul(self.dropout(weights), v))
        hidden = self.norm_1(self.dropout(self.dense(attended)) + hidden)
        return self.norm_2(self.dropout(self.output(F.gelu(self.intermediate(hidden)))) + hidden)


# T5 ---------------------------------------------------------------------------------------------------------------------------------
class T5Layer(nn.Module):
    """Scores are not scaled; a bias that depends on how far positions are from each other is added to them."""

    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.heads, inner = s.heads, s.heads * s.size
        self.before, self.between = RMSNorm(s.hidden, 1e-6), RMSNorm(s.hidden, 1e-6)
        self.q, self.k, self.v = (nn.Linear(s.hidden, inner, bias=False) for _ in range(3))
        self.o = nn.Linear(inner, s.hidden, bias=False)
        self.wi, self.wo = nn.Linear(s.hidden, s.ff, bias=False), nn.Linear(s.ff, s.hidden, bias=False)

    def forward(self, hidden: Tensor, bias: Tensor) -> Tensor:
        x = self.before(hidden)
        q, k, v = (split_heads(p(x), self.heads) for p in (self.q, self.k, self.v))
        hidden = hidden + self.o(merge_heads(attend(q, k, v, mask=bias)))
        return hidden + self.wo(self.activated(self.between(hidden)))

    def activated(self, x: Tensor) -> Tensor:
        """The first half of the feed-forward layer."""
        return F.relu(self.wi(x))


class GatedT5Layer(T5Layer):
    """T5 1.1: one more product gates the first one."""

    def __init__(self, s: Sizes) -> None:
        super().__init__(s)
        self.gate = nn.Linear(s.hidden, s.ff, bias=False)

    def activated(self, x: Tensor) -> Tensor:
        return gelu_new(self.gate(x)) * self.wi(x)


# ViT and Whisper --------------------------------------------------------------------------------------------------------------------
class VitLayer(nn.Module):
    """A norm before each half; nothing is masked."""

    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.heads, self.scale = s.heads, s.size**-0.5
        self.before, self.between = nn.LayerNorm(s.hidden, eps=1e-12), nn.LayerNorm(s.hidden, eps=1e-12)
        self.query, self.key, self.value, self.dense = (nn.Linear(s.hidden, s.hidden) for _ in range(4))
        self.intermediate, self.output = nn.Linear(s.hidden, s.ff), nn.Linear(s.ff, s.hidden)

    def forward(self, hidden: Tensor) -> Tensor:
        x = self.before(hidden)
        q, k, v = (split_heads(p(x), self.heads) for p in (self.query, self.key, self.value))
        hidden = self.dense(merge_heads(attend(q, k, v, self.scale))) + hidden
        return self.output(F.gelu(self.intermediate(self.between(hidden)))) + hidden


class WhisperLayer(nn.Module):
    """The encoder's: queries are scaled before the product, keys have no bias, and float16 is kept from overflowing."""

    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.heads, self.scale = s.heads, s.size**-0.5
        self.before, self.between = nn.LayerNorm(s.hidden), nn.LayerNorm(s.hidden)
        self.q_proj, self.v_proj, self.out_proj = (nn.Linear(s.hidden, s.hidden) for _ in range(3))
        self.k_proj = nn.Linear(s.hidden, s.hidden, bias=False)
        self.fc1, self.fc2 = nn.Linear(s.hidden, s.ff), nn.Linear(s.ff, s.hidden)

    def forward(self, hidden: Tensor) -> Tensor:
        x = self.before(hidden)
        q, k, v = (split_heads(t, self.heads) for t in (self.q_proj(x) * self.scale, self.k_proj(x), self.v_proj(x)))
        hidden = hidden + self.out_proj(merge_heads(attend(q, k, v)))
        hidden = hidden + self.fc2(F.gelu(self.fc1(self.between(hidden))))
        if hidden.dtype == torch.float16:
            limit = torch.finfo(hidden.dtype).max - 1000
            hidden = torch.clamp(hidden, min=-limit, max=limit)
        return hidden


# the models -------------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Model:
    """A kind of layer.  ``sizes``: by name, those of layers that follow each other, repeated for longer stacks."""

    name: str
    layer: Callable[[Sizes], nn.Module]
    sizes: Mapping[str, tuple[Sizes, ...]]
    dtype: str
    given: Callable[[Sizes], tuple[Arg, ...]] = lambda s: ()
    stack: type[Stack] = Stack
    notes: str = ""

    def module(
        self, size: str = "bench", layers: int | None = None, dtype: torch.dtype | str | None = None, device: str = "meta"
    ) -> nn.Module:
        """So many layers, by default each of the sizes once, for inference.  Weights are drawn, but on ``meta``."""
        pattern = self.sizes[size]
        chosen = getattr(torch, dtype) if isinstance(dtype, str) else dtype or getattr(torch, self.dtype)
        with torch.device(device):
            count = len(pattern) if layers is None else layers
            found = self.stack([self.layer(pattern[k % len(pattern)]) for k in range(count)])
        random = torch.Generator().manual_seed(0)
        for p in found.parameters() if device != "meta" else ():
            noise = torch.randn(p.shape, generator=random)
            with torch.no_grad():
                p.copy_(noise * p.shape[-1] ** -0.5 if p.dim() > 1 else p + 0.1 * noise)
        return found.to(chosen).requires_grad_(False).eval()

    def args(
        self, size: str = "bench", dtype: torch.dtype | str | None = None, device: str = "meta", generator: torch.Generator | int = 0
    ) -> tuple[Tensor, ...]:
        """What a stack of any length takes."""
        s = self.sizes[size][0]
        case = Case(self.name, self.layer, {size: (Arg((s.batch, s.tokens, s.hidden)), *self.given(s))}, dtypes=(self.dtype,))
        return case.args(size, dtype, generator, device)


def _rotary(s: Sizes) -> tuple[Arg, ...]:
    return (Arg((1, s.tokens, s.size)),) * 2


_LLAMA = Sizes(1, 2048, 4096, 32, 14336, kv=8)
_TINY_LLAMA = Sizes(2, 6, 16, 4, 20, kv=2)
_WIDTHS = ((32, 8, 14336), (32, 8, 11008), (32, 4, 12288), (24, 8, 13824), (16, 8, 10240), (24, 4, 9216), (16, 4, 8192), (32, 32, 11264))
_TINY_WIDTHS = ((4, 2, 20), (4, 2, 12), (4, 1, 24), (2, 2, 28), (2, 1, 36), (6, 2, 44), (6, 3, 52), (4, 4, 60))

MODELS: dict[str, Model] = {
    m.name: m
    for m in (
        Model(
            "llama", LlamaLayer, {"bench": (_LLAMA,), "tiny": (_TINY_LLAMA,)}, "bfloat16", _rotary, Decoder,
            "Llama-3-8B; cosines and sines of positions are arguments",
        ),
        Model(
            "llama_infinite", LlamaLayer, {"bench": (_LLAMA,), "tiny": (_TINY_LLAMA,)}, "bfloat16", _rotary, InfiniteDecoder,
            "the same with minus infinity in the mask, as the model's first code had it: what is masked is skipped",
        ),
        Model(
            "gpt2", Gpt2Layer, {"bench": (Sizes(8, 1024, 768, 12, 3072),), "tiny": (Sizes(2, 6, 16, 4, 20),)}, "float16", stack=Decoder,
            notes="GPT-2 small, 8 sequences",
        ),
        Model(
            "bert", BertLayer, {"bench": (Sizes(16, 512, 768, 12, 3072),), "tiny": (Sizes(2, 6, 16, 4, 20),)}, "float16",
            lambda s: (Arg((s.batch, 1, 1, s.tokens)),), notes="BERT base, 16 sequences; the mask of padded positions is an argument",
        ),
        Model(
            "t5", T5Layer, {"bench": (Sizes(16, 512, 768, 12, 3072),), "tiny": (Sizes(2, 6, 16, 4, 20),)}, "bfloat16",
            lambda s: (Arg((1, s.heads, s.tokens, s.tokens)),), notes="T5 base, encoder, 16 sequences; the position bias is an argument",
        ),
        Model(
            "t5_gated", GatedT5Layer, {"bench": (Sizes(16, 512, 768, 12, 2048),), "tiny": (Sizes(2, 6, 16, 4, 20),)}, "bfloat16",
            lambda s: (Arg((1, s.heads, s.tokens, s.tokens)),), notes="T5 1.1 base, encoder, 16 sequences",
        ),
        Model(
            "vit", VitLayer, {"bench": (Sizes(32, 197, 768, 12, 3072),), "tiny": (Sizes(2, 7, 16, 4, 20),)}, "float16",
            notes="ViT base of patches of 16, 32 images",
        ),
        Model(
            "whisper", WhisperLayer, {"bench": (Sizes(8, 1500, 1280, 20, 5120),), "tiny": (Sizes(2, 7, 16, 4, 20),)}, "float16",
            notes="Whisper large, encoder, 8 windows of 30 s",
        ),
        Model(
            "llama_widths", LlamaLayer,
            {
                "bench": tuple(replace(_LLAMA, heads=h, kv=kv, ff=ff, head=128) for h, kv, ff in _WIDTHS),
                "tiny": tuple(replace(_TINY_LLAMA, heads=h, kv=kv, ff=ff, head=4) for h, kv, ff in _TINY_WIDTHS),
            },
            "bfloat16", _rotary, Decoder, "eight layers like Llama's, of eight widths",
        ),
    )
}  # fmt: skip
