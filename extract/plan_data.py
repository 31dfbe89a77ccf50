"""A plan as plain dictionaries: what ``--json`` prints, what explanations hold and what the benchmarks save."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from ..ir.layout import Layout, Swizzled
from .plan import Block, TorchCall, named


def plain(x: Any) -> Any:
    """Dataclasses, mappings and sequences as JSON values; anything else as its text.  Infinities become ``None``."""
    if x is None or isinstance(x, bool | int | str):
        return x
    if isinstance(x, float):
        return x if math.isfinite(x) else None
    if isinstance(x, Layout | Swizzled):
        return str(x)
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return {f.name: plain(getattr(x, f.name)) for f in dataclasses.fields(x) if f.repr}  # long texts are not shown
    if isinstance(x, Mapping):
        return {str(k): plain(v) for k, v in x.items()}
    if isinstance(x, list | tuple):
        return [plain(v) for v in x]
    if isinstance(x, set | frozenset):
        return sorted(map(str, x))
    return str(x)


def figures(plan: Block) -> dict[str, Any]:
    """What it does, in numbers."""
    return {
        "target": plan.target,
        "dram_bytes": plan.dram_bytes,
        "compulsory_bytes": plan.compulsory_bytes,
        "baseline_bytes": plan.baseline_bytes,
        "baseline_kernels": plan.baseline_kernels,
        "estimated_us": plan.estimated_us,
        "baseline_us": plan.baseline_us,
        "stopped": plan.stopped,
    }


def plan_data(plan: Block) -> dict[str, Any]:
    """The figures of a plan, kernel by kernel, and of its parts."""
    return {
        **figures(plan),
        "kernels": [
            {
                "name": k.kernel.name,
                "roles": {a.name: str(r) for a, r in k.kernel.roles.items()},
                "warps": k.kernel.warps,
                "stages": k.kernel.stages,
                "persistent": k.kernel.persistent,
                "registers": k.kernel.registers,
                "passes": {str(getattr(a, "name", a)): n for a, n in k.passes.items()},
                "rules": list(k.rules),
                "cost": plain(k.cost),
                **({"refined": plain(k.refined)} if k.refined else {}),
            }
            for k in plan.kernels
        ],
        "calls": [
            {"name": k.call.name, "entry": ":".join(k.call.entry), "rule": k.rule, "where": k.where, "cost": plain(k.cost)}
            for k in plan.calls
        ],
        "launches": [{"steps": list(one.steps), "us": one.us} for one in plan.every_launch],
        "alternatives": [plain(a) for a in plan.alternatives],
        "compiled": list(plan.compiled),
        **({"parts": parts_data(plan)} if plan.parts else {}),
    }


def parts_data(plan: Block) -> list[dict[str, Any]]:
    """The parts in order; ``first``: the one that a part is equal to, which has the same kernels."""
    return [
        plain(part) if isinstance(part, TorchCall) else {
            "name": part.name, "reads": part.reads, "makes": part.makes, "first": first,
            "plan": {"kernels": len(part.plan.kernels), **figures(part.plan)},
        }
        for first, part in named(plan.parts)
    ]  # fmt: skip
