"""Pairs of one function written twice: as somebody writes it, and in the best form by hand.

An optimizer that chooses among equal programs plans both alike.  Each pair has shapes at which the forms differ most, and small ones with
the same structure for interpreters.  ``ratio`` is the modelled time of the first form over that of the second that is expected at most;
where it is not 1.05, ``why`` says what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it

RATIO = 1.05
N = 4096
Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Pair:
    """A function in two forms.  ``small`` maps the lengths of ``shapes`` to those for interpreters."""

    name: str
    written: Callable[..., Any]
    best: Callable[..., Any]
    shapes: Shapes
    dtype: str = "float32"
    licence: str = "real"
    ratio: float = RATIO
    why: str = ""

    def args(self, small: bool = False, seed: int = 0) -> tuple[torch.Tensor, ...]:
        """Arguments: without data for the shapes, random ones for the small shapes."""
        dtype = getattr(torch, self.dtype)
        if not small:
            return tuple(torch.empty(shape, dtype=dtype, device="meta") for shape in self.shapes)
        random = torch.Generator().manual_seed(seed)
        lengths = self.lengths()
        return tuple(torch.randn([lengths[n] for n in shape], generator=random, dtype=torch.float32) for shape in self.shapes)

    def lengths(self) -> Mapping[int, int]:
        """Small lengths for those of the shapes: in their order, 1 stays 1."""
        long = sorted({n for shape in self.shapes for n in shape if n > 1})
        return {1: 1} | {n: 4 + 3 * k for k, n in enumerate(long)}


def _t(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(-1, -2)


def _elu(x: torch.Tensor) -> torch.Tensor:
    return F.elu(x) + 1


def _normalised(scores: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (scores @ v) / scores.sum(-1, keepdim=True)


MATRIX, ROW, COLUMN, HEADS = (N, N), (1, N), (N, 1), (16, N, 64)
IN, OUT = (N, 16), (16, N)  # of low rank

_PAIRS = (
    # association
    Pair("matrix product times vector", lambda a, b, v: (a @ b) @ v, lambda a, b, v: a @ (b @ v), (MATRIX, MATRIX, COLUMN)),
    Pair("vector times matrix product", lambda a, b, v: v @ (a @ b), lambda a, b, v: (v @ a) @ b, (MATRIX, MATRIX, ROW)),
    Pair("square times vector", lambda a, v: a @ a @ v, lambda a, v: a @ (a @ v), (MATRIX, COLUMN)),
    Pair("Gram matrix times vector", lambda a, v: (a @ a.t()) @ v, lambda a, v: a @ (a.t() @ v), ((N, 1024), COLUMN)),
    Pair("quadratic form of a square", lambda a, v: v.t() @ (a @ a) @ v, lambda a, v: (v.t() @ a) @ (a @ v), (MATRIX, COLUMN)),
    Pair("chain of three", lambda a, b, c: (a @ b) @ c, lambda a, b, c: a @ (b @ c), ((N, 32), (32, N), (N, 32)), "bfloat16"),
    Pair("two linears", lambda x, a, b: (x @ a) @ b, lambda x, a, b: x @ (a @ b), ((65536, 1024), (1024, 1024), (1024, 1024)), "bfloat16"),
    Pair(
        "scaled product times vector", lambda a, b, s, v: ((a @ b) * s) @ v, lambda a, b, s, v: a @ (b @ (s[:, None] * v)),
        (MATRIX, MATRIX, (N,), COLUMN),
    ),
    # sums of products
    Pair("sum of a product", lambda a, b: (a @ b).sum(), lambda a, b: a.sum(0) @ b.sum(1), (MATRIX, MATRIX)),
    Pair("row sums of a product", lambda a, b: (a @ b).sum(-1), lambda a, b: a @ b.sum(1), (MATRIX, MATRIX)),
    Pair("column sums of a product", lambda a, b: (a @ b).sum(0), lambda a, b: a.sum(0) @ b, (MATRIX, MATRIX)),
    Pair("mean of a product", lambda a, b: (a @ b).mean(), lambda a, b: (a.mean(0) * b.mean(1)).sum(), (MATRIX, MATRIX)),
    Pair("row means of a product", lambda a, b: (a @ b).mean(-1), lambda a, b: a @ b.mean(1), (MATRIX, MATRIX)),
    Pair("sum of a square", lambda a: (a @ a).sum(), lambda a: a.sum(0) @ a.sum(1), (MATRIX,)),
    # linear attention
    Pair("linear attention", lambda q, k, v: (q @ _t(k)) @ v, lambda q, k, v: q @ (_t(k) @ v), (HEADS,) * 3, "bfloat16"),
    Pair(
        "scaled linear attention", lambda q, k, v: ((q @ _t(k)) * 0.125) @ v, lambda q, k, v: (q * 0.125) @ (_t(k) @ v), (HEADS,) * 3, "bfloat16"
    ),
    Pair(
        "linear attention of features", lambda q, k, v: (_elu(q) @ _t(_elu(k))) @ v, lambda q, k, v: _elu(q) @ (_t(_elu(k)) @ v), (HEADS,) * 3,
        "bfloat16",
    ),
    Pair(
        "normalised linear attention",
        lambda q, k, v: _normalised(_elu(q) @ _t(_elu(k)), v),
        lambda q, k, v: (_elu(q) @ (_t(_elu(k)) @ v)) / (_elu(q) * _elu(k).sum(-2, keepdim=True)).sum(-1, keepdim=True),
        (HEADS,) * 3,
        "bfloat16",
    ),
    Pair(
        "linear attention in float16", lambda q, k, v: (q @ _t(k)) @ v, lambda q, k, v: q @ (_t(k) @ v), (HEADS,) * 3, "float16", ratio=1.1,
        why="k^T v is stored as float32, in which it cannot overflow where the program as written does not",
    ),
    # shared operands
    Pair("one input, two weights", lambda x, a, b: x @ a + x @ b, lambda x, a, b: x @ (a + b), (MATRIX,) * 3, "bfloat16"),
    Pair(
        "one input, two weights in float16", lambda x, a, b: x @ a + x @ b, lambda x, a, b: x @ (a + b), (MATRIX,) * 3, "float16", ratio=1.6,
        why="the sum may exceed float16 and is kept in float32; its product in tf32 takes as long as two of float16, so both stay, in one kernel",
    ),
    Pair("one input, three weights", lambda x, a, b, c: x @ a + x @ b + x @ c, lambda x, a, b, c: x @ (a + b + c), (MATRIX,) * 4, "bfloat16"),
    Pair("difference of two linears", lambda x, a, b: x @ a - x @ b, lambda x, a, b: x @ (a - b), (MATRIX,) * 3, "bfloat16"),
    Pair("two linears and a bias", lambda x, a, b, c: x @ a + c + x @ b, lambda x, a, b, c: x @ (a + b) + c, (*(MATRIX,) * 3, (N,)), "bfloat16"),
    Pair("two inputs, one weight", lambda x, y, w: x @ w + y @ w, lambda x, y, w: (x + y) @ w, (MATRIX,) * 3, "bfloat16"),
    Pair(
        "low rank beside a weight", lambda x, w, b, a: x @ w + (x @ b) @ a, lambda x, w, b, a: x @ (w + b @ a), (MATRIX, MATRIX, IN, OUT), "bfloat16"
    ),
    Pair(
        "scaled low rank beside a weight", lambda x, w, b, a: x @ w + 2.0 * ((x @ b) @ a), lambda x, w, b, a: x @ (w + 2.0 * (b @ a)),
        (MATRIX, MATRIX, IN, OUT), "bfloat16",
    ),
    Pair(
        "low rank, one row", lambda x, w, b, a: x @ (w + b @ a), lambda x, w, b, a: x @ w + (x @ b) @ a, (ROW, MATRIX, IN, OUT), "bfloat16",
        licence="approx",
    ),
    # what cancels, is normalised, or is invariant
    Pair("softmax of a shifted row", lambda x, y: torch.softmax(x + y.sum(-1, keepdim=True), -1), lambda x, y: torch.softmax(x, -1), (MATRIX,) * 2, licence="approx"),
    Pair("times the sum of a softmax", lambda x, y: y * torch.softmax(x, -1).sum(-1, keepdim=True), lambda x, y: y * 1.0, (MATRIX,) * 2, licence="approx"),
    Pair("what is added and taken away", lambda x, y: x - x + y, lambda x, y: y * 1.0, (MATRIX,) * 2, licence="approx"),
    Pair("what is taken away again", lambda x, y: (x + y) - x, lambda x, y: y * 1.0, (MATRIX,) * 2, licence="approx"),
    Pair(
        "mean of what was centred", lambda x, y: (x - x.mean(-1, keepdim=True)).mean(-1, keepdim=True) + y, lambda x, y: y * 1.0, (MATRIX,) * 2,
        licence="approx",
    ),
    Pair("clipped twice", lambda x: torch.relu(torch.relu(x)), torch.relu, (MATRIX,)),
    # squares of differences
    Pair(
        "pairwise distances", lambda x, y: ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1),
        lambda x, y: (x * x).sum(-1)[:, None] + (y * y).sum(-1)[None, :] - 2 * (x @ y.t()), ((N, 256), (2048, 256)), licence="approx",
    ),
)  # fmt: skip
PAIRS = {p.name: p for p in _PAIRS}
