"""Why is the plan what it is?  The rules behind each kernel, what fusion saves, and why the runner-up lost."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from ..egraph.frozen import FrozenGraph
from .plan import Plan
from .report import bytes_text


@dataclass(frozen=True)
class KernelExplanation:
    """One kernel: what it stores, the rules that introduced its nodes, the loops, the bound."""

    name: str
    stores: tuple[str, ...]
    loads: tuple[str, ...]
    rules: tuple[str, ...]
    passes: dict[str, int]
    us: float
    bound: str
    dram_bytes: int


@dataclass(frozen=True)
class Explanation:
    """The whole answer.  ``str()`` for people, :meth:`json` for programs."""

    program: str
    target: str
    kernels: tuple[KernelExplanation, ...]
    saved_bytes: int
    saved_us: float
    saturation: str
    lost: tuple[dict[str, Any], ...]
    stopped: str

    def json(self) -> str:
        """The same as JSON text."""
        return json.dumps(
            {
                "program": self.program,
                "target": self.target,
                "kernels": [vars(k) for k in self.kernels],
                "saved_bytes": self.saved_bytes,
                "saved_us": self.saved_us,
                "saturation": self.saturation,
                "alternatives": list(self.lost),
                "stopped": self.stopped,
            },
            indent=2,
        )

    def __str__(self) -> str:
        lines = [f"{self.program} on {self.target}"]
        for k in self.kernels:
            lines.append(f"  kernel {k.name}: loads {', '.join(k.loads)}; stores {', '.join(k.stores)}")
            if k.rules:
                lines.append("    made by rules: " + ", ".join(k.rules))
            else:
                lines.append("    no rewrite was needed: the program as written")
            loops = ", ".join(f"{n} loop(s) over {a}" for a, n in k.passes.items()) or "no loop: everything on chip"
            lines.append(f"    {loops}; bound by {k.bound}, {k.us:.1f} us, {bytes_text(k.dram_bytes)}")
        lines.append(f"  against the unfused plan it saves {bytes_text(self.saved_bytes)} and {self.saved_us:.1f} us (modelled)")
        lines.append(f"  saturation: {self.saturation}")
        if self.lost:
            lines.append("  what lost:")
            lines += [f"    {a['description']}: {a['reason']}" for a in self.lost]
        elif self.stopped == "bound":
            lines.append("  no other plan was worth pricing: this one is within reach of the bound")
        else:
            lines.append(f"  no other plan was priced; the search ended: {self.stopped}")
        return "\n".join(lines)


def explain(graph: FrozenGraph, plan: Plan) -> Explanation:
    """Explain a plan."""
    kernels = tuple(
        KernelExplanation(
            k.kernel.name,
            tuple(r.buffer for r in k.kernel.roots),
            tuple(sorted({n.attrs[0] for n in k.kernel.nodes if n.op == "load"})),
            k.rules,
            dict(k.passes),
            k.cost.us,
            k.cost.bound,
            k.cost.dram_bytes,
        )
        for k in plan.kernels
    )
    return Explanation(
        plan.program.name,
        plan.target,
        kernels,
        plan.baseline_bytes - plan.dram_bytes,
        plan.baseline_us - plan.estimated_us,
        f"{graph.report.enodes} e-nodes, stopped: {graph.report.stopped}",
        tuple(
            {"description": a.description, "reason": a.reason, "us": a.us if math.isfinite(a.us) else None, "kernels": a.kernels}
            for a in plan.alternatives
        ),
        plan.stopped,
    )
