"""The corpus: plain PyTorch programs that EqFuse must turn into fused kernels, each with arguments in four sizes.

``small`` is for interpreters, ``odd`` has prime lengths and lengths of 1, ``check`` is ``bench`` shrunk for interpreters, and
``bench`` has the shapes of an 8-billion-parameter
language model (32 heads of 128, 8 of them for keys and values, 4096 tokens to a sequence, hidden size 4096, 14336 in the
feed-forward layers, a vocabulary of 128256).  Nothing here is written with fusion in mind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor

SIZES = ("small", "odd", "bench")
# ``check``: the bench shapes with every length shrunk to one that no tile divides and that still takes several tiles, so that a
# plan made for the bench shapes can be verified, loops, masks, tails and all, in an interpreter
_CHECK = {128256: 2501, 16384: 2309, 14336: 211, 8192: 1103, 6144: 149, 4096: 197, 1000: 197, 777: 101, 300: 89, 32: 4, 8: 2}
TYPES = ("float16", "bfloat16", "float32")  # what a program is meant to run in, unless it says otherwise; the first is the default


@dataclass(frozen=True)
class Arg:
    """How an argument is made: normal data ``offset + scale * N(0, 1)``, or integer labels below ``labels``."""

    shape: tuple[int, ...]
    scale: float = 1.0
    offset: float = 0.0
    labels: int | None = None


def weight(*shape: int) -> Arg:
    """A weight matrix: its products with normal data are of order one."""
    return Arg(shape, scale=shape[-1] ** -0.5)


@dataclass(frozen=True)
class Case:
    """A program with its arguments.  ``expected`` is what its best plan looks like; ``dtypes`` those it is meant to run in; ``options``
    what it is optimized with."""

    name: str
    fn: Callable[..., Any]
    shapes: Mapping[str, tuple[Arg, ...]]
    expected: Mapping[str, Any] = field(default_factory=lambda: {"kernels": 1, "passes": 1})
    dtypes: tuple[str, ...] = TYPES
    notes: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def args(
        self,
        size: str = "small",
        dtype: torch.dtype | str | None = None,
        generator: torch.Generator | int = 0,
        device: str = "cpu",
        spread: float = 1.0,
    ) -> tuple[torch.Tensor, ...]:
        """Arguments of a size.  Data are drawn in float32 and rounded, so every dtype sees the same numbers.

        ``device="meta"`` makes no data.  ``spread`` multiplies the scale (``1e4`` for logits at the edge of float16).
        """
        chosen = getattr(torch, dtype) if isinstance(dtype, str) else dtype or getattr(torch, self.dtypes[0])
        random = torch.Generator().manual_seed(generator) if isinstance(generator, int) else generator
        out = []
        for a in self.shapes[size]:
            if device == "meta":
                out.append(torch.empty(a.shape, dtype=torch.int64 if a.labels else chosen, device="meta"))
            elif a.labels:
                out.append(torch.randint(0, a.labels, a.shape, generator=random).to(device))
            else:
                x = torch.randn(a.shape, generator=random) * (a.scale * spread) + a.offset
                out.append(x.to(device=device, dtype=chosen))
        return tuple(out)


PROGRAMS: dict[str, Case] = {}


def _shrunk(a: Arg, lengths: Mapping[int, int]) -> Arg:
    shape = tuple(lengths.get(n, n) for n in a.shape)
    scale = a.scale * (a.shape[-1] / shape[-1]) ** 0.5 if a.scale == a.shape[-1] ** -0.5 else a.scale
    return Arg(shape, scale, a.offset, lengths.get(a.labels, a.labels) if a.labels else None)


def _case(
    *shapes: tuple[Arg, ...],
    dtypes: tuple[str, ...] = TYPES,
    kernels: int = 1,
    passes: int = 1,
    check: Mapping[int, int] = MappingProxyType({}),
    **options: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``check``: lengths of the check shapes that are other than ``_CHECK`` has them, by bench length.  ``options``: of ``optimize``."""

    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        notes = " ".join((fn.__doc__ or "").split())
        expected = {"kernels": kernels, "passes": passes}
        sized = dict(zip(SIZES, shapes, strict=True))
        sized["check"] = tuple(_shrunk(a, {**_CHECK, **check}) for a in sized["bench"])
        PROGRAMS[fn.__name__] = Case(fn.__name__, fn, sized, expected, dtypes, notes, options)
        return fn

    return add


def _rows(*sizes: tuple[int, int], offset: float = 0.0) -> tuple[tuple[Arg, ...], ...]:
    return tuple((Arg(s, offset=offset),) for s in sizes)


# rows -------------------------------------------------------------------------------------------------------------------------------
_ROWS = _rows((6, 40), (7, 131), (4096, 128256))


_LONG = {4096: 13, 128256: 70001}  # a few rows, longer than the tiles that keep a whole row in the L2


@_case(*_ROWS, passes=2, check=_LONG)
def row_softmax(x: Tensor) -> Tensor:
    """Softmax over rows; two passes where a row does not fit on chip, the second one out of the L2."""
    return torch.softmax(x, dim=-1)


@_case(*_ROWS, passes=2, check=_LONG)
def log_softmax(x: Tensor) -> Tensor:
    """Log-softmax over rows."""
    return torch.log_softmax(x, dim=-1)


@_case(*_ROWS)
def logsumexp(x: Tensor) -> Tensor:
    """One number per row."""
    return torch.logsumexp(x, dim=-1)


@_case(*_ROWS)
def softmax_entropy(x: Tensor) -> Tensor:
    """Entropy of the softmax of every row: -sum p log p."""
    p = torch.softmax(x, dim=-1)
    return -(p * torch.log_softmax(x, dim=-1)).sum(dim=-1)


@_case(*_rows((6, 40), (7, 131), (4096, 16384), offset=1000.0), dtypes=("float32", "bfloat16", "float16"))
def mean_variance(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of data around 1000: E[x^2] - E[x]^2 would lose every digit."""
    mean = x.mean(dim=-1, keepdim=True)
    return mean.squeeze(-1), ((x - mean) ** 2).mean(dim=-1)


def _affine(*sizes: tuple[int, int]) -> tuple[tuple[Arg, ...], ...]:
    return tuple((Arg(s), Arg(s[1:], offset=1.0, scale=0.1), Arg(s[1:], scale=0.1)) for s in sizes)


@_case(*_affine((6, 40), (7, 131), (4096, 4096)), passes=2)
def layernorm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Layer normalisation with weight and bias."""
    return F.layer_norm(x, x.shape[-1:], weight, bias)


_RMS = tuple((Arg(s), Arg(s[1:], offset=1.0, scale=0.1)) for s in ((6, 40), (7, 131), (4096, 4096)))


@_case(*_RMS, passes=2)
def rmsnorm(x: Tensor, weight: Tensor) -> Tensor:
    """Root-mean-square normalisation, written out."""
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * weight


# matrix products --------------------------------------------------------------------------------------------------------------------
@_case(
    (Arg((16, 32)), Arg((32,), offset=1.0, scale=0.1), weight(24, 32)),
    (Arg((17, 37)), Arg((37,), offset=1.0, scale=0.1), weight(1, 37)),
    (Arg((4096, 4096)), Arg((4096,), offset=1.0, scale=0.1), weight(6144, 4096)),
    kernels=2,  # one in bfloat16 and float32, which hold the rows before they are normalised
)
def rmsnorm_linear(x: Tensor, weight: Tensor, w: Tensor) -> Tensor:
    """A normalisation and the projection after it: the normalised row is never stored."""
    y = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * weight
    return y @ w.T


@_case(
    (Arg((16, 32)), weight(24, 32), Arg((24,))),
    (Arg((17, 37)), weight(29, 37), Arg((29,))),
    (Arg((4096, 4096)), weight(14336, 4096), Arg((14336,))),
)
def linear_gelu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """A linear layer with bias and its activation."""
    return F.gelu(F.linear(x, w, b))


@_case(
    (Arg((16, 32)), weight(24, 32), weight(24, 32)),
    (Arg((17, 37)), weight(29, 37), weight(29, 37)),
    (Arg((4096, 4096)), weight(14336, 4096), weight(14336, 4096)),
)
def swiglu(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    """The gated feed-forward layer up to its last projection: two products in one kernel."""
    return F.silu(x @ gate.T) * (x @ up.T)


@_case(
    (Arg((16, 32)), weight(32, 24)),
    (Arg((1, 37)), weight(37, 29)),
    (Arg((1000, 777)), weight(777, 300)),
)
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """A matrix product; the bench sizes divide no tile."""
    return a @ b


# losses -----------------------------------------------------------------------------------------------------------------------------
@_case(
    (Arg((6, 40)), Arg((6,), labels=40)),
    (Arg((7, 131)), Arg((7,), labels=131)),
    (Arg((4096, 128256)), Arg((4096,), labels=128256)),
)
def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The loss of every row from its logits, in one pass over the vocabulary."""
    return F.cross_entropy(logits, labels, reduction="none")


def _head(tokens: int) -> tuple[tuple[Arg, ...], ...]:
    return (
        (Arg((16, 32)), weight(40, 32), Arg((16,), labels=40)),
        (Arg((7, 37)), weight(131, 37), Arg((7,), labels=131)),
        (Arg((tokens, 4096)), weight(128256, 4096), Arg((tokens,), labels=128256)),
    )


@_case(*_head(16384), check={16384: 197}, memory_limit=1 << 28)
def linear_cross_entropy(x: Tensor, w: Tensor, labels: Tensor) -> Tensor:
    """The loss of every token of a batch of four sequences from a linear layer, in one pass; there is no memory for the logits."""
    return F.cross_entropy(F.linear(x, w), labels, reduction="none")


@_case(*_head(4096), kernels=2, memory_limit=1 << 28)
def linear_cross_entropy_few_rows(x: Tensor, w: Tensor, labels: Tensor) -> Tensor:
    """The same for one sequence: too few tiles of rows to fill a device.

    The vocabulary is split over the grid, and a small second kernel merges the parts; the logits are not stored here, either.
    """
    return F.cross_entropy(F.linear(x, w), labels, reduction="none")


# attention --------------------------------------------------------------------------------------------------------------------------
def _heads(b: int, h: int, q: int, k: int, d: int, kv: int | None = None) -> tuple[Arg, ...]:
    return Arg((b, h, q, d)), Arg((b, kv or h, k, d)), Arg((b, kv or h, k, d))


_ATTENTION = (_heads(1, 2, 16, 24, 16), _heads(2, 3, 17, 29, 16), _heads(1, 32, 4096, 4096, 128))
_SQUARE = (_heads(1, 2, 24, 24, 16), _heads(2, 1, 29, 29, 16), _heads(1, 32, 4096, 4096, 128))


@_case(*_ATTENTION)
def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention as everyone first writes it."""
    scale = q.shape[-1] ** -0.5
    return torch.softmax(q @ k.transpose(-1, -2) * scale, dim=-1) @ v


@_case(*_SQUARE)
def attention_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention in which a query sees the keys up to its own position."""
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    return torch.softmax(s.masked_fill(~seen, float("-inf")), dim=-1) @ v


@_case(*_ATTENTION)
def attention_softcap(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention whose scores are bounded by a tanh."""
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return torch.softmax(50.0 * torch.tanh(s / 50.0), dim=-1) @ v


def _with_bias(shapes: tuple[Arg, ...]) -> tuple[Arg, ...]:
    q, k, _ = shapes
    return (*shapes, Arg((q.shape[1], q.shape[2], k.shape[2])))


@_case(*(_with_bias(s) for s in _ATTENTION))
def attention_bias(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Attention with a bias per head, query and key added to the scores."""
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias
    return torch.softmax(s, dim=-1) @ v


@_case(_heads(1, 8, 16, 24, 16, 2), _heads(2, 6, 17, 29, 16, 2), _heads(1, 32, 4096, 4096, 128, 8))
def attention_grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Grouped-query attention: every key and value head serves several query heads."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    v = v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, dim=-1) @ v


@_case(*_ATTENTION)
def attention_normalised_inside(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention with every step of the softmax written out, the division inside the last sum."""
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    e = torch.exp(s - s.amax(dim=-1, keepdim=True))
    return (e / e.sum(dim=-1, keepdim=True)) @ v


@_case(*_ATTENTION)
def attention_lse(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Attention with the log-sum-exp of its scores, as a backward pass or a merge of partial results needs it."""
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return torch.softmax(s, dim=-1) @ v, torch.logsumexp(s, dim=-1)


@_case(_heads(1, 2, 1, 64, 16), _heads(2, 3, 1, 131, 16), _heads(1, 32, 1, 8192, 128), kernels=2)
def attention_decode(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One query against a long cache: the keys are split over the grid and the parts merged by a second kernel."""
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, dim=-1) @ v
