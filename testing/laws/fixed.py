"""The fixed set of laws: ordinary programs in float16, each beside others that it should not cost more than."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor

from .law import Law, Planned

Function = Callable[..., Any]


def tensor(*shape: int, dtype: torch.dtype = torch.float16) -> Tensor:
    """An argument that has a size only."""
    return torch.empty(*shape, dtype=dtype, device="meta")


def planned(fn: Function, *args: Any, **options: Any) -> Planned:
    """A function of arguments; tuples are sizes."""
    return Planned(fn, tuple(tensor(*a) if isinstance(a, tuple) else a for a in args), options)


# programs -----------------------------------------------------------------------------------------------------------------------------
def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As it is written by hand."""
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """With the mask that most write."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ v


def swiglu(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """Llama's feed-forward layer."""
    return (F.silu(x @ gate) * (x @ up)) @ down


def mlp(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """Two linear layers."""
    return F.gelu(x @ up) @ down


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """With statistics in float32."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * weight


def residual(x: Tensor, w: Tensor) -> Tensor:
    """A step of a chain."""
    return x + torch.tanh(x @ w)


def relu_linear(x: Tensor, w: Tensor) -> Tensor:
    """A layer of a small network."""
    return torch.relu(x @ w)


def self_attention(x: Tensor, q: Tensor, k: Tensor, v: Tensor, heads: int = 4) -> Tensor:
    """Several heads, and the residual."""

    def split(t: Tensor) -> Tensor:
        return t.view(t.shape[0], heads, -1).transpose(0, 1)

    found = F.scaled_dot_product_attention(split(x @ q), split(x @ k), split(x @ v))
    return x + found.transpose(0, 1).reshape(x.shape)


def chain(layer: Function, n: int) -> Function:
    """n layers, each with weights of its own."""

    def run(x: Tensor, *weights: Tensor) -> Tensor:
        each = len(weights) // n
        return reduce(lambda t, k: layer(t, *weights[k * each : (k + 1) * each]), range(n), x)

    return run


def upcast(fn: Function) -> Function:
    """A function computed in float32."""
    return lambda *args: fn(*(a.float() for a in args)).to(args[0].dtype)


# laws ---------------------------------------------------------------------------------------------------------------------------------
def laws() -> Iterator[Law]:
    """All of them."""
    for family, made in FAMILIES.items():
        for name, mine, others, *rest in made():
            yield Law(family, name, mine, tuple(others) if isinstance(others, list) else (others,), *rest)


def _spellings() -> Iterator[tuple[Any, ...]]:
    n, heads = (4096, 4096), (32, 4096, 128)
    product = planned(torch.matmul, n, n)
    yield "product upcast", planned(upcast(torch.matmul), n, n), product
    taken = "weights of the softmax are float32, and taken in two pieces of 16 bits: three products for two, which is 1.5 times at most"
    for name, fn in {"attention": attention, "causal attention": causal}.items():
        yield f"{name} upcast", planned(upcast(fn), heads, heads, heads), planned(fn, heads, heads, heads), 1.4, taken
    wide = (n, (4096, 14336), (4096, 14336), (14336, 4096))
    taken = "the hidden values are float32: the last product is five of 16 bits, where the first two are one each: seven for three"
    yield "swiglu upcast", planned(upcast(swiglu), *wide), planned(swiglu, *wide), 2.35, taken
    yield "linear, gelu upcast", planned(upcast(lambda x, w: F.gelu(x @ w)), n, n), planned(lambda x, w: F.gelu(x @ w), n, n), 1.05
    yield "product as einsum", planned(lambda a, b: torch.einsum("ij,jk->ik", a, b), n, n), product
    yield "product as a sum", planned(lambda a, b: (a[:, :, None] * b[None]).sum(1), n, n), product
    yield "transposed weights", planned(lambda a, b: a @ b.t(), n, n), product, 1.05

    def masked(fill: Function) -> Function:
        return lambda q, k, v, m: fill(F.relu(q @ k.transpose(-1, -2)), m) @ v

    lower = (*([(8, 2048, 64)] * 3), (2048, 2048))
    yield (
        "a mask as a product",
        planned(masked(lambda s, m: s * (m > 0).to(s.dtype)), *lower),
        planned(masked(lambda s, m: torch.where(m > 0, s, 0.0)), *lower),
        1.05,
    )
    table, ids = (32000, 1024), tensor(4096, dtype=torch.int64)
    yield (
        "a one-hot product",
        planned(lambda t, i: F.one_hot(i, 32000).to(t.dtype) @ t, table, ids),
        planned(lambda t, i: t[i], table, ids),
    )
    x = (8192, 4096)
    yield "division by a constant", planned(lambda x: torch.softmax(x / 8, -1), x), planned(lambda x: torch.softmax(x * 0.125, -1), x)

    def unshifted(x: Tensor) -> Tensor:
        e = x.float().exp()
        return (e / e.sum(-1, keepdim=True)).to(x.dtype)

    yield "softmax by hand", planned(lambda x: F.softmax(x, -1), x), planned(unshifted, x), 1.1
    yield "a reshape there and back", planned(lambda x, w: x.view(64, 128, 4096).reshape(8192, 4096) @ w, x, n), planned(torch.matmul, x, n)

    def experts(x: Tensor, w: Tensor, e: Tensor) -> Tensor:
        return torch.einsum("td,tdf->tf", x, w[e])

    def dense(x: Tensor, w: Tensor, e: Tensor) -> Tensor:
        return torch.einsum("td,edf->tef", x, w)[torch.arange(len(x), device=x.device), e]

    rows = (1024, 2048), (8, 2048, 768), tensor(1024, dtype=torch.int64)
    yield "chosen matrices", planned(experts, *rows), planned(dense, *rows), 1.05
    moved, kernel = tensor(8, 64, 56, 56).to(memory_format=torch.channels_last), tensor(64, 64, 3, 3).to(memory_format=torch.channels_last)

    def shifted(x: Tensor, w: Tensor) -> Tensor:
        padded = F.pad(x, (0, 0, 1, 1, 1, 1))
        return sum(padded[:, i : i + 56, j : j + 56] @ w[i, j] for i in range(3) for j in range(3))

    yield (
        "a convolution",
        planned(lambda x, w: F.conv2d(x, w, padding=1), moved, kernel),
        planned(shifted, (8, 56, 56, 64), (3, 3, 64, 64)),
        1.1,
    )

    def convolved(x: Tensor, w: Tensor) -> Tensor:
        return F.conv2d(x, w, padding=1)

    taken = "both tensors are copied to the other order of memory, by one launch"
    yield (
        "a convolution, channels first",
        planned(convolved, (8, 64, 56, 56), (64, 64, 3, 3)),
        planned(convolved, moved, kernel),
        1.5,
        taken,
    )


def _joins() -> Iterator[tuple[Any, ...]]:
    w, h = (256, 256), (32, 4096, 128)
    yield (
        "a class token before attention",
        planned(lambda c, x, *w: self_attention(torch.cat([c, x]), *w), (1, 256), (1023, 256), w, w, w),
        planned(self_attention, (1024, 256), w, w, w),
        1.1,
    )
    yield (
        "a class token before two layers",
        planned(lambda c, x, *w: chain(self_attention, 2)(torch.cat([c, x]), *w), (1, 256), (1023, 256), *(w,) * 6),
        planned(chain(self_attention, 2), (1024, 256), *(w,) * 6),
        1.1,
    )
    n = (4096, 4096)
    yield "halves of rows", planned(lambda a, b, w: torch.cat([a, b]) @ w, (2048, 4096), (2048, 4096), n), planned(torch.matmul, n, n), 1.05
    yield (
        "halves of columns",
        planned(lambda a, b, w: torch.cat([a, b], -1) @ w, (4096, 2048), (4096, 2048), n),
        planned(torch.matmul, n, n),
        1.05,
    )
    cache = (8, 8, 4095, 128)

    def decode(q: Tensor, k: Tensor, v: Tensor, new_k: Tensor, new_v: Tensor) -> Tensor:
        return attention(q, torch.cat([k, new_k], -2), torch.cat([v, new_v], -2))

    token = (8, 8, 1, 128)
    yield (
        "a cache that grows",
        planned(decode, (8, 8, 4, 128), cache, cache, token, token),
        planned(attention, (8, 8, 4, 128), *((8, 8, 4096, 128),) * 2),
        1.1,
    )
    yield (
        "two linear layers as one",
        planned(lambda x, a, b: x @ torch.cat([a, b], -1), n, (4096, 2048), (4096, 2048)),
        planned(torch.matmul, n, n),
        1.05,
    )
    yield (
        "a product in chunks",
        planned(lambda x, w: torch.mul(*(x @ w).chunk(2, -1)), n, (4096, 8192)),
        planned(lambda x, a, b: (x @ a) * (x @ b), n, n, n),
        1.05,
    )

    def turned(x: Tensor, c: Tensor, s: Tensor) -> Tensor:
        return x * c + torch.cat([-x[..., 64:], x[..., :64]], -1) * s

    yield (
        "rotary by halves",
        planned(turned, h, (4096, 128), (4096, 128)),
        planned(lambda x, c, s: x * c + x * s, h, (4096, 128), (4096, 128)),
        1.1,
    )
    yield (
        "padded and cut",
        planned(lambda x, w: (F.pad(x, (0, 0, 0, 64)) @ w)[:4096], n, n),
        planned(torch.matmul, n, n),
        1.05,
    )
    yield (
        "a stack that is undone",
        planned(lambda a, b, w: torch.stack([a, b]).unbind()[0] @ w, n, n, n),
        planned(lambda a, b, w: a @ w, n, n, n),
    )


def _parts() -> Iterator[tuple[Any, ...]]:
    maps, n = (1, 64, 256, 256), (4096, 4096)

    def narrow(x: Tensor, w: Tensor) -> Tensor:
        return F.conv2d(x, w)

    def deep(x: Tensor, w: Tensor, y: Tensor) -> Tensor:
        return F.gelu(F.conv2d(x, w, padding=1, groups=64) + y)

    yield (
        "single positions, single channels, gelu",
        planned(lambda x, w, d: deep(narrow(x, w), d, x), maps, (64, 64, 1, 1), (64, 1, 3, 3)),
        [planned(narrow, maps, (64, 64, 1, 1)), planned(deep, maps, (64, 1, 3, 3), maps)],
    )
    heads = (32, 4096, 128)

    def projected(o: Tensor, w: Tensor) -> Tensor:
        return o.transpose(0, 1).reshape(4096, 4096) @ w

    yield (
        "attention and its projection",
        planned(lambda q, k, v, w: projected(attention(q, k, v), w), heads, heads, heads, n),
        [planned(attention, heads, heads, heads), planned(torch.matmul, n, n)],
    )
    yield (
        "norm and linear",
        planned(lambda x, g, w: rms_norm(x, g) @ w, n, (4096,), n),
        [planned(rms_norm, n, (4096,)), planned(torch.matmul, n, n)],
    )
    yield (
        "feed-forward",
        planned(mlp, n, (4096, 16384), (16384, 4096)),
        [planned(lambda x, w: F.gelu(x @ w), n, (4096, 16384)), planned(torch.matmul, (4096, 16384), (16384, 4096))],
    )
    w = (256, 256)
    yield (
        "attention and feed-forward",
        planned(
            lambda x, q, k, v, a, b: (lambda y: y + mlp(y, a, b))(self_attention(x, q, k, v)),
            (4096, 256),
            w,
            w,
            w,
            (256, 1024),
            (1024, 256),
        ),
        [
            planned(self_attention, (4096, 256), w, w, w),
            planned(lambda y, a, b: y + mlp(y, a, b), (4096, 256), (256, 1024), (1024, 256)),
        ],
    )
    yield (
        "two softmaxes",
        planned(lambda x: torch.softmax(torch.softmax(x, -1), 0), n),
        [planned(lambda x: torch.softmax(x, -1), n), planned(lambda x: torch.softmax(x, 0), n)],
    )


def _layers() -> Iterator[tuple[Any, ...]]:
    rows, square = 1 << 18, (64, 64)

    def times(layer: Function, n: int, x: tuple[int, ...], *weights: tuple[int, ...]) -> tuple[Any, ...]:
        return f"{n} of {layer.__name__}, {x[-1]} wide", planned(chain(layer, n), x, *weights * n), [planned(layer, x, *weights)] * n

    for n in (2, 3, 4, 7):
        yield times(residual, n, (rows, 64), square)
    for n in (7, 9, 12):
        yield times(relu_linear, n, (rows, 64), square)
    yield times(residual, 3, (1 << 16, 256), (256, 256))
    w = (256, 256)
    yield times(self_attention, 2, (4096, 256), w, w, w)

    def encoder(x: Tensor, q: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, g: Tensor, h: Tensor) -> Tensor:
        y = F.layer_norm(self_attention(x, q, k, v), (256,), g)
        return F.layer_norm(y + mlp(y, a, b), (256,), h)

    for n in (2, 4):
        yield times(encoder, n, (4096, 256), w, w, w, (256, 1024), (1024, 256), (256,), (256,))

    def normed(x: Tensor, g: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return x + mlp(rms_norm(x, g), a, b)

    yield times(normed, 2, (16384, 64), (64,), (64, 128), (128, 64))


def _objectives() -> Iterator[tuple[Any, ...]]:
    rows, square = (1 << 18, 64), (64, 64)
    for name, fn, args in (
        ("seven small layers", chain(relu_linear, 7), (rows, *(square,) * 7)),
        ("attention", attention, ((32, 4096, 128),) * 3),
        ("norm and linear", lambda x, g, w: rms_norm(x, g) @ w, ((4096, 4096), (4096,), (4096, 4096))),
        ("a layer", self_attention, ((4096, 256), *((256, 256),) * 3)),
    ):
        yield f"time above memory: {name}", planned(fn, *args), planned(fn, *args, objective="memory"), 1.0


def _sizes() -> Iterator[tuple[Any, ...]]:
    n, m = 4096, 4097
    yield "one more row", planned(torch.matmul, (m, n), (n, n)), planned(torch.matmul, (n, n), (n, n)), 1.1
    yield (
        "one more of all",
        planned(torch.matmul, (m, m), (m, m)),
        planned(torch.matmul, (n, n), (n, n)),
        1.6,
        "copies of both to rows that are aligned, and a fifth wave of tiles",
    )

    def softmax(x: Tensor) -> Tensor:
        return torch.softmax(x, -1)

    yield "a row of one more", planned(softmax, (8192, m)), planned(softmax, (8192, n)), 1.35, "loads that are not aligned"
    for head in (72, 96, 192):
        wide = 128 if head < 128 else 256
        args, more = ((32, 4096, head),) * 3, ((32, 4096, wide),) * 3
        yield f"heads of {head}", planned(attention, *args), planned(attention, *more), (head + 16) / wide

    def smooth(x: Tensor, w: Tensor) -> Tensor:
        return torch.softmax(x @ w, -1)

    yield "linear and softmax, 288 wide", planned(smooth, (65536, 256), (256, 288)), planned(smooth, (65536, 256), (256, 256)), 1.25
    maps = (32, 64, 56, 56)
    yield (
        "norms of groups of channels",
        planned(lambda x: F.group_norm(x, 8), maps),
        planned(lambda x: F.layer_norm(x, x.shape[-1:]), (32 * 8, 8 * 56 * 56)),
        1.1,
    )


def _axes() -> Iterator[tuple[Any, ...]]:
    def layer(x: Tensor, w: Tensor) -> Tensor:
        return torch.softmax(F.gelu(x @ w), -1)

    w = (256, 256)
    yield "rows in two dims", planned(layer, (8, 2048, 256), w), planned(layer, (16384, 256), w)
    yield "dims of one", planned(layer, (1, 16384, 1, 256), w), planned(layer, (16384, 256), w)
    moved = tensor(2048, 8, 256).transpose(0, 1)
    yield "rows in another order of memory", planned(layer, moved, w), planned(layer, (8, 2048, 256), w), 1.05
    heads = (32, 4096, 128)
    moved_heads = tuple(tensor(4096, 32, 128).transpose(0, 1) for _ in range(3))
    yield "heads beside each other", planned(attention, *moved_heads), planned(attention, heads, heads, heads), 1.05


def _devices() -> Iterator[tuple[Any, ...]]:
    heads, n = ((32, 4096, 128),) * 3, (4096, 4096)
    for name, fn, args in (("attention", attention, heads), ("linear, norm", lambda x, w, g: rms_norm(x @ w, g), (n, n, (4096,)))):
        for better, worse in (("h200", "h100"), ("h200", "a100"), ("b200", "h200")):
            yield (
                f"{name}: {better} above {worse}",
                planned(fn, *args, target=better),
                planned(fn, *args, target=worse),
                1.0,
            )


FAMILIES = {
    "spelling": _spellings,
    "joins": _joins,
    "parts": _parts,
    "layers": _layers,
    "objectives": _objectives,
    "sizes": _sizes,
    "axes": _axes,
    "devices": _devices,
}
