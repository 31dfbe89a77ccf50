"""Plans and reports as plain dictionaries: what ``--json`` prints and what the benchmarks save."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..ir.layout import Layout, Swizzled

if TYPE_CHECKING:
    from ..compiled import Compiled
    from ..egraph.frozen import SaturationReport
    from ..extract.plan import Plan


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


def of_plan(plan: Plan) -> dict[str, Any]:
    """The figures of a plan, kernel by kernel."""
    return {
        "target": plan.target,
        "dram_bytes": plan.dram_bytes,
        "compulsory_bytes": plan.compulsory_bytes,
        "baseline_bytes": plan.baseline_bytes,
        "baseline_kernels": plan.baseline_kernels,
        "estimated_us": plan.estimated_us,
        "baseline_us": plan.baseline_us,
        "stopped": plan.stopped,
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
    }


def of_saturation(report: SaturationReport) -> dict[str, Any]:
    """The figures of a saturation."""
    return {
        "stopped": report.stopped,
        "enodes": report.enodes,
        "classes": report.classes,
        "cpu_ms": report.cpu_ms,
        "rules": {r.rule: r.matches for r in report.rules if r.matches},
    }


def of_compiled(c: Compiled) -> dict[str, Any]:
    """Saturation and plan; of a program in regions a saturation for each different one, and what each reads and makes."""
    found = [of_saturation(graph.report) for graph in c.planned.graphs]
    regions = {"regions": [{"reads": part.reads, "makes": part.makes, "us": part.plan.estimated_us} for part in c.plan.parts]}
    whole = {} if len(found) == 1 else regions
    return {"program": c.program.name, "saturation": found[0] if len(found) == 1 else found, "plan": of_plan(c.plan), **whole}
