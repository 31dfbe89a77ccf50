"""What a page says of plans, as data: JSON values alone, so that a page can be drawn from what another process has written.

Schema ``eqfuse.page/1``: ``graphs``, each with ``written`` (the operations that eager code runs as kernels of their own) and ``steps``
(what the plan runs instead, equal ones once, with how ``often``).  Bytes and microseconds are modelled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..codegen.triton import print_kernel
from ..extract.baseline import eager_costs, is_contraction
from ..extract.plan import Plan, PlannedCall, PlannedKernel, plan_text
from ..extract.targets import Target
from ..ir.nodes import text
from ..ir.printing import axes_text, expression
from ..ir.program import Program
from ..rewrites.registry import rules as known_rules
from ..tiles.kernel import Kernel

SCHEMA = "eqfuse.page/1"
LONG = 120  # characters after which a value of a kernel's equations gets a line of its own


def page_data(plans: Sequence[tuple[Plan, Target]]) -> dict[str, Any]:
    """Plans with the devices that they were made for, as JSON values."""
    return {"schema": SCHEMA, "graphs": [graph_data(plan, target) for plan, target in plans]}


def graph_data(plan: Plan, target: Target) -> dict[str, Any]:
    """One plan, beside its program as it was written."""
    steps = _steps(plan)
    return {
        "program": plan.program.name,
        "target": target.name,
        "equations": str(plan.program),
        "us": plan.estimated_us,
        "unfused_us": plan.baseline_us,
        "bytes": plan.dram_bytes,
        "unfused_bytes": plan.baseline_bytes,
        "compulsory_bytes": plan.compulsory_bytes,
        "kernels": len(plan.steps),
        "unfused_kernels": plan.baseline_kernels,
        "written": _written(plan.program, target),
        "steps": steps,
        "roof": {"bytes_per_us": target.dram_gb_s * 1e3, "operations_per_us": _peak(steps, target) * 1e6},
        "plan": plan_text(plan),
    }


def _peak(steps: Sequence[Mapping[str, Any]], target: Target) -> float:
    """The rate of the fastest unit that the steps use, in 1e12 operations a second."""
    matrix = any(s["tensor_operations"] for s in steps)
    return max(target.tensor_tflops.values(), default=0.0) if matrix and target.tensor_tflops else 2e-3 * target.simt_gops


def _written(program: Program, target: Target) -> list[dict[str, Any]]:
    """The operations of eager code, in order."""
    ops = eager_costs(program, target)
    folded = {op.term.args[0] for op in ops if is_contraction(op.term)}
    names = {t: name for t, name in program.labels.items() if t not in folded}
    return [
        {
            "equation": f"{names[op.term]}{axes_text(op.term)} = {expression(op.term, names)}",
            "where": program.sources.get(op.term, ""),
            "bytes": op.dram_bytes,
            "us": op.us,
        }
        for op in ops
    ]


def _steps(plan: Plan) -> list[dict[str, Any]]:
    """The steps of a plan, those of equal regions once."""
    groups: dict[int, tuple[Plan, int, Mapping[str, str]]] = {}
    for part in plan.parts:
        _, often, called = groups.get(id(part.plan), (part.plan, 0, part.tensors))
        groups[id(part.plan)] = (part.plan, often + 1, called)
    found = list(groups.values()) if plan.parts else [(plan, 1, {})]
    laws = {r.name: r.doc.partition("\n")[0] for r in known_rules()}
    return [_step(step, of, often, called, laws) for of, often, called in found for step in of.steps]


def _step(
    step: PlannedKernel | PlannedCall, plan: Plan, often: int, called: Mapping[str, str], laws: Mapping[str, str]
) -> dict[str, Any]:
    cost = step.cost
    reads = sorted(step.loads)
    lost = [a for a in plan.alternatives if a.kernels]
    return {
        "kind": "kernel" if isinstance(step, PlannedKernel) else "outside",
        "name": step.kernel.name if isinstance(step, PlannedKernel) else step.call.name,
        "often": often,
        "reads": [_tensor(plan, b, called) for b in reads],
        "makes": [_tensor(plan, b.name, called) for b in step.stores],
        "us": cost.us,
        "bytes": cost.dram_bytes,
        "tensor_operations": cost.flops,
        "operations": cost.flops + 2 * cost.simt,
        "bound": cost.bound,
        "terms_us": {k: v for k, v in cost.terms.items() if math.isfinite(v)},
        "equations": _equations(step.kernel) if isinstance(step, PlannedKernel) else [f"outside {':'.join(step.call.entry)}"],
        "rules": [{"name": r, "law": laws.get(r, "")} for r in (step.rules if isinstance(step, PlannedKernel) else (step.rule,))],
        "loops": dict(step.passes) if isinstance(step, PlannedKernel) else {},
        "tiles": str(step.tiles) if isinstance(step, PlannedKernel) else "",
        "source": print_kernel(step.tiles) if isinstance(step, PlannedKernel) else "",
        "instead": [f"{a.description}: {a.reason}" for a in lost[:1]] if len(plan.steps) == 1 or step is plan.steps[-1] else [],
    }


def _tensor(plan: Plan, name: str, called: Mapping[str, str]) -> dict[str, Any]:
    b = plan.buffers[name]
    return {
        "name": called.get(name, name), "shape": list(b.shape), "dtype": b.dtype.name, "role": b.role,
        "bytes": math.prod(b.shape) * b.dtype.itemsize,
    }  # fmt: skip


def _equations(kernel: Kernel) -> list[str]:
    """What a kernel computes, over what it loads; values that are used twice, or are long, have lines of their own."""
    uses = [0] * len(kernel.nodes)
    for n in kernel.nodes:
        for a in n.args:
            uses[a] += 1
    roots: dict[int, list[str]] = {}
    for r in kernel.roots:
        roots.setdefault(r.node, []).append(r.buffer)
    lines: list[str] = []
    names: list[str] = []
    for k, n in enumerate(kernel.nodes):
        args = [names[a] for a in n.args]
        if n.op == "load":
            names.append(n.attrs[0])
            continue
        if n.op == "map":
            args = [f"({a})" if " " in a and not a.endswith(")") else a for a in args]
        said = text(n.op, n.attrs, args)
        if k in roots:
            lines += [f"{b} = {said}" for b in roots[k]]
            said = roots[k][0]
        elif n.args and (uses[k] > 1 or len(said) > LONG):
            lines.append(f"t{k} = {said}")
            said = f"t{k}"
        names.append(said)
    return lines
