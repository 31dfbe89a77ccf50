"""Plans and reports as plain dictionaries: what ``--json`` prints and what the benchmarks save."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..extract.plan_data import plain, plan_data

if TYPE_CHECKING:
    from ..compiled import Compiled
    from ..egraph.frozen import SaturationReport

__all__ = ["of_compiled", "of_saturation", "plain"]


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
    """Saturation and plan; of a program in regions a saturation for each different one."""
    found = [of_saturation(graph.report) for graph in c.graphs]
    saturation = found[0] if len(found) == 1 else found
    return {"program": c.name, "saturation": saturation, "plan": plan_data(c.plan)}
