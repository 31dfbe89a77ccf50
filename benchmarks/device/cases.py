"""What is run on the day of a GPU, most important first: the corpus, its other types, tiles to calibrate by, and Neptune's operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from eqfuse.compiled import Compiled
from eqfuse.errors import PlanError
from eqfuse.extract.cost import fit, launched_with, price
from eqfuse.extract.plan import PlannedKernel
from eqfuse.extract.search import power
from eqfuse.runtime.executable import Executable
from eqfuse.runtime.generated import Generated
from eqfuse.testing.programs import PROGRAMS, Arg
from eqfuse.tiles.finish import finish
from eqfuse.tiles.lower import lower
from eqfuse.tiles.walk import walk

from .there import operators

SMALL = 197  # queries and keys of an operator in an interpreter: several tiles and a ragged end
FIRST = (4096, 1024, 16384, 512, 32768, 2048, 8192, 256, 128)  # lengths by importance
_PRODUCTS = ((64, 128), (128, 128), (128, 256))
_FEW, _MORE = ((4, 2), (4, 3), (8, 2), (8, 3)), ((4, 3), (8, 3), (8, 4))  # warps, stages
TILES = {  # programs of the corpus -> tiles by the names of axes, warps, stages
    "attention": [({"q_rows": r, "k_rows": s}, *w) for r in (64, 128) for s in (32, 64, 128) for w in _FEW],
    "matmul": [({"rows": m, "b_cols": n, "a_cols": k}, *w) for m, n in _PRODUCTS for k in (32, 64) for w in _MORE],
    "rmsnorm": [({"rows": r}, w, 1) for r in (1, 2, 4) for w in (2, 4, 8)],
    "row_softmax": [({"rows": r, "cols": s}, w, 2) for r in (1, 2) for s in (1024, 4096, 8192) for w in (4, 8, 16)],
    "cross_entropy": [({"rows": r, "cols": s}, w, 2) for r in (1, 4) for s in (1024, 4096) for w in (4, 8)],
}
TILED_SHAPES = {"matmul": (Arg((4096, 4096)), Arg((4096, 4096)))}  # the corpus has odd ones


@dataclass(frozen=True)
class Wanted:
    """A case.  ``sizes``: name -> arguments, of which those of ``bench`` are planned for; ``alone``: only our kernels are timed;
    ``checked``: they are not timed, and not run at that size; ``tiles``: others than planned."""

    name: str
    kind: str
    source: str  # the module that has the program, and its name there
    program: str
    fn: Callable[..., Any]
    sizes: dict[str, tuple[Arg, ...]]
    dtypes: tuple[str, ...]
    options: dict[str, Any]
    alone: bool = False
    checked: bool = False
    tiles: tuple[dict[str, int], int, int] | None = None
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
    for name, tiles in TILES.items():
        p = PROGRAMS[name]
        sizes = {"bench": TILED_SHAPES.get(name, p.shapes["bench"]), "small": p.shapes["check"]}
        for t in tiles:
            said = f"tiles {name} {'x'.join(map(str, t[0].values()))} w{t[1]} s{t[2]}"
            yield Wanted(said, f"tiles {name}", "programs", name, p.fn, sizes, (p.dtypes[0],), {"strict": True}, alone=True, tiles=t)
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


def tensors(w: Wanted, size: str) -> tuple[torch.Tensor, ...]:
    """Arguments without data."""
    kinds = [w.dtypes[min(k, len(w.dtypes) - 1)] for k in range(len(w.sizes[size]))]
    return tuple(
        torch.empty(a.shape, dtype=torch.int64 if a.labels else getattr(torch, kind), device="meta")
        for a, kind in zip(w.sizes[size], kinds, strict=True)
    )


def described(w: Wanted, size: str) -> list[dict[str, Any]]:
    """The same as data."""
    return [
        {"shape": list(a.shape), "dtype": str(t.dtype).removeprefix("torch."), "scale": a.scale, "offset": a.offset, "labels": a.labels}
        for a, t in zip(w.sizes[size], tensors(w, size), strict=True)
    ]


def with_tiles(c: Compiled, tiles: tuple[dict[str, int], int, int]) -> Executable | None:
    """The plan, its kernel with other tiles of some axes, warps and stages; ``None`` where it has several kernels, or no such axes."""
    by_name, warps, stages = tiles
    if len(c.plan.steps) != 1 or not isinstance(c.plan.steps[0], PlannedKernel):
        return None
    kernel = c.plan.steps[0].kernel
    if not by_name.keys() <= {a.name for a, r in kernel.roles.items() if r.kind in ("grid", "stream")}:
        return None
    roles = {a: replace(r, tile=min(by_name.get(a.name, r.tile), power(a.size))) for a, r in kernel.roles.items()}
    order = tuple(a for a in kernel.order if roles[a].tile > 1) + tuple(a for a in roles if roles[a].tile > 1 and a not in kernel.order)
    try:
        other = replace(kernel, roles=roles, order=order, warps=warps, stages=stages, persistent=0)
        program = lower(other)
    except PlanError:
        return None
    counts = walk(program)
    fitted = launched_with(counts, fit(counts, c.target), warps, stages, c.target)
    cost = price(other, counts, fitted, c.target)
    plan = replace(c.plan, steps=(PlannedKernel(other, finish(program), cost, (), {}),), launches=(), estimated_us=cost.us)
    return Executable(c.traced, Generated(c.traced, True, plan, c.target), plan, c.target)
