"""What is planned for the day of a GPU, most important first: the corpus, its other types, attention at many lengths and of all kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from eqfuse.testing.programs import PROGRAMS, Arg

from ..attention import decode  # noqa: F401  # adds its kinds
from ..attention.kinds import KINDS
from .there import operators

SMALL = 197  # queries and keys of an operator in an interpreter: several tiles and a ragged end
FIRST = (4096, 1024, 16384, 512, 32768, 2048, 8192, 256, 128)  # lengths by importance


@dataclass(frozen=True)
class Wanted:
    """A case.  ``sizes``: name -> arguments (of a kind of attention which of its sizes), of which those of ``bench`` are planned for;
    ``alone``: only our kernels are timed; ``checked``: they are not timed, and not run at that size."""

    name: str
    kind: str
    source: str  # the module that has the program, and its name there
    program: str
    fn: Callable[..., Any]
    sizes: dict[str, tuple[Arg, ...] | str]
    dtypes: tuple[str, ...]
    options: dict[str, Any]
    alone: bool = False
    checked: bool = False
    flops: float = 0.0


def wanted() -> Iterator[Wanted]:
    """All cases, in order."""
    for p in PROGRAMS.values():
        sizes = {size: p.shapes[size] for size in ("bench", "check", "odd")} | {"small": p.shapes["small"]}
        yield Wanted(f"corpus {p.name}", "corpus", "programs", p.name, p.fn, sizes, (p.dtypes[0],), dict(p.options))
    for p in PROGRAMS.values():
        for dtype in p.dtypes[1:]:
            sizes = {size: p.shapes[size] for size in ("bench", "check", "odd")}
            yield Wanted(f"types {p.name} {dtype}", "types", "programs", p.name, p.fn, sizes, (dtype,), dict(p.options), True, checked=True)
    for length in FIRST:
        for name in operators.NAMES:
            of = ["float16", "float16", "float16", "float32"]
            heads = operators.HEADS[name.split("_")[0]]
            ratio = heads[0] // heads[1]
            small = tuple(Arg(s) for s in operators.shapes(name, min(SMALL, length), (2 * ratio, 2)))
            bench = tuple(Arg(s) for s in operators.shapes(name, length))
            sizes = {"bench": bench, "small": small}
            flops = operators.work(name, length)
            yield Wanted(f"{name} {length}", name, "operators", name, operators.operator(name), sizes, tuple(of), {}, flops=flops)
    for name, kind in KINDS.items():
        yield Wanted(f"kind {name}", "kinds", "kinds", name, kind.fn, {"bench": "large", "small": "small"}, (), {}, flops=kind.work())


def tensors(w: Wanted, size: str) -> tuple[torch.Tensor, ...]:
    """Arguments without data."""
    given = w.sizes[size]
    if isinstance(given, str):
        return tuple(a.to("meta") for a in KINDS[w.program].args(given))
    kinds = [w.dtypes[min(k, len(w.dtypes) - 1)] for k in range(len(given))]
    return tuple(
        torch.empty(a.shape, dtype=torch.int64 if a.labels else getattr(torch, kind), device="meta")
        for a, kind in zip(given, kinds, strict=True)
    )


def described(w: Wanted, size: str) -> list[dict[str, Any]] | str:
    """The same as data."""
    given = w.sizes[size]
    if isinstance(given, str):
        return given
    return [
        {"shape": list(a.shape), "dtype": str(t.dtype).removeprefix("torch."), "scale": a.scale, "offset": a.offset, "labels": a.labels}
        for a, t in zip(given, tensors(w, size), strict=True)
    ]
