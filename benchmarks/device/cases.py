"""What is run on the day of a GPU, most important first: the corpus, tiles of a few programs to calibrate by, and Neptune's operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from eqfuse.compiled import Compiled
from eqfuse.testing.programs import PROGRAMS, Arg

from .there import operators

SMALL = 197  # queries and keys of an operator in an interpreter: several tiles and a ragged end
FIRST = (4096, 1024, 16384, 512, 32768, 2048, 8192, 256, 128)  # lengths by importance
TILES = {  # programs of the corpus -> tiles of grid axes and of the streamed one, warps and stages
    "attention": [((r, s), w, n) for r in (64, 128) for s in (32, 64, 128) for w, n in ((4, 2), (4, 3), (8, 2), (8, 3))],
    "matmul": [((m, n, k), w, s) for m, n in ((64, 128), (128, 128), (128, 256), (256, 128)) for k in (32, 64) for w, s in ((4, 3), (8, 3), (8, 4))],
    "rmsnorm": [((r,), w, 1) for r in (1, 2, 4) for w in (2, 4, 8, 16)],
    "row_softmax": [((r, s), w, n) for r in (1, 2) for s in (1024, 4096, 8192) for w, n in ((4, 2), (8, 2), (16, 2))],
    "cross_entropy": [((r, s), w, n) for r in (1, 2, 4) for s in (1024, 4096) for w, n in ((4, 2), (8, 2))],
}
TILED_SHAPES = {"matmul": (Arg((4096, 4096)), Arg((4096, 4096)))}  # the corpus has odd ones


@dataclass(frozen=True)
class Wanted:
    """A case.  ``sizes``: name -> arguments; ``alone``: only our kernels are timed; ``tiles``: others than planned."""

    name: str
    kind: str
    source: str  # the module that has the program, and its name there
    program: str
    fn: Callable[..., Any]
    sizes: dict[str, tuple[Arg, ...]]
    dtypes: tuple[str, ...]
    options: dict[str, Any]
    alone: bool = False
    tiles: tuple[tuple[int, ...], int, int] | None = None
    flops: float = 0.0


def wanted() -> Iterator[Wanted]:
    """All cases, in order."""
    for p in PROGRAMS.values():
        sizes = {size: p.shapes[size] for size in ("bench", "check", "odd")} | {"small": p.shapes["small"]}
        yield Wanted(f"corpus {p.name}", "corpus", "programs", p.name, p.fn, sizes, (p.dtypes[0],), dict(p.options))
    for name, tiles in TILES.items():
        p = PROGRAMS[name]
        sizes = {"bench": TILED_SHAPES.get(name, p.shapes["bench"]), "small": p.shapes["check"]}
        for t in tiles:
            said = f"tiles {name} {'x'.join(map(str, t[0]))} w{t[1]} s{t[2]}"
            yield Wanted(said, f"tiles {name}", "programs", name, p.fn, sizes, (p.dtypes[0],), {"strict": True}, alone=True, tiles=t)
    for length in FIRST:
        for name in operators.NAMES:
            of = ["float16", "float16", "float16", "float32"]
            heads = operators.HEADS[name.split("_")[0]]
            ratio = heads[0] // heads[1]
            small = tuple(Arg(s) for s in operators.shapes(name, min(SMALL, length), (2 * ratio, 2)))
            sizes = {"bench": tuple(Arg(s) for s in operators.shapes(name, length)), "small": small}
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


def with_tiles(c: Compiled, tiles: tuple[tuple[int, ...], int, int]) -> Compiled | None:
    """The plan, its one kernel with other tiles (grid axes and the streamed one that are tiled, in order), warps and stages; ``None`` where
    there is no such kernel, or the model knows that it does not fit."""
    from eqfuse.errors import PlanError
    from eqfuse.extract.cost import fit_with, price
    from eqfuse.extract.plan import PlannedKernel
    from eqfuse.runtime.generated import Generated
    from eqfuse.tiles.finish import finish
    from eqfuse.tiles.lower import lower
    from eqfuse.tiles.walk import walk

    (step,) = c.plan.kernels
    kernel, (sizes, warps, stages) = step.kernel, tiles
    axes = [a for a, r in kernel.roles.items() if r.kind in ("grid", "stream") and (r.tile > 1 or r.kind == "stream")]
    axes = axes or [a for a, r in kernel.roles.items() if r.kind == "grid"]
    if len(axes) < len(sizes):
        axes = [a for a, r in kernel.roles.items() if r.kind in ("grid", "stream")][: len(sizes)]
    if len(axes) < len(sizes):
        return None
    roles = {a: replace(r, tile=sizes[axes.index(a)]) if a in axes[: len(sizes)] else r for a, r in kernel.roles.items()}
    order = tuple(a for a in kernel.order if roles[a].tile > 1) + tuple(a for a in roles if roles[a].tile > 1 and a not in kernel.order)
    try:
        other = replace(kernel, roles=roles, order=order, warps=warps, stages=stages, persistent=0)
        program = lower(other)
        counts = walk(program)
        fitted = fit_with(counts, c.target, warps, stages)
        if fitted.reason:
            return None
        planned = PlannedKernel(other, finish(program), price(other, counts, fitted, c.target), (), {})
    except PlanError:
        return None
    found = Compiled.__new__(Compiled)
    found.__dict__.update(c.__dict__)
    plan = replace(c.plan, steps=(planned,), launches=())
    found.__dict__["plan"] = plan
    found.__dict__["generated"] = Generated(c.planned.traced, True, plan, c.target)
    return found
