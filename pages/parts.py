"""One plan as data: the operations of its program as eager code runs them, and the kernels that it runs instead."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..codegen.triton import print_kernel
from ..explain.costs import TERMS
from ..extract.baseline import eager_costs, is_contraction
from ..extract.plan import Plan, PlannedCall, PlannedKernel
from ..extract.targets import Target
from ..ir.nodes import text
from ..ir.printing import axes_text, expression
from ..ir.program import Program
from ..rewrites.registry import rules as known_rules
from ..tiles.kernel import Kernel

LONG = 120  # characters after which a value of a kernel's equations gets a line of its own


def piece_data(plan: Plan, target: Target, called: Mapping[str, str], roles: Mapping[str, str]) -> dict[str, Any]:
    """A plan without parts.  ``called``: what its tensors are called around it; ``roles``: and what they are there, argument
    (input), between kernels (temporary) or result (output)."""
    laws = {r.name: r.doc.partition("\n")[0] for r in known_rules()}
    steps = [_step(s, plan, called, roles, laws) for s in plan.steps]
    return {
        "kind": "piece",
        "name": plan.program.name,
        "us": plan.estimated_us,
        "unfused_us": plan.baseline_us,
        "bytes": sum(s["bytes"] for s in steps),
        "unfused_bytes": plan.baseline_bytes,
        "written": _written(plan.program, target),
        "steps": steps,
        "ended": plan.stopped,
        "rewritten": list(plan.rewritten),
    }


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


def _step(
    step: PlannedKernel | PlannedCall, plan: Plan, called: Mapping[str, str], roles: Mapping[str, str], laws: Mapping[str, str]
) -> dict[str, Any]:
    cost = step.cost
    reads = sorted(step.loads)
    lost = [a for a in plan.alternatives if a.kernels]
    return {
        "kind": "kernel" if isinstance(step, PlannedKernel) else "outside",
        "name": step.kernel.name if isinstance(step, PlannedKernel) else step.call.name,
        "reads": [_tensor(plan, b, called, roles) for b in reads],
        "makes": [_tensor(plan, b.name, called, roles) for b in step.stores],
        "us": cost.us,
        "bytes": cost.dram_bytes,
        "tensor_operations": cost.flops,
        "operations": cost.flops + 2 * cost.simt,
        "bound": cost.bound,
        "bound_by": TERMS.get(cost.bound, cost.bound),
        "terms_us": {k: v for k, v in cost.parts.items() if v > 0 and math.isfinite(v)},
        "equations": _equations(step.kernel) if isinstance(step, PlannedKernel) else [f"outside {':'.join(step.call.entry)}"],
        "rules": [{"name": r, "law": laws.get(r, "")} for r in (step.rules if isinstance(step, PlannedKernel) else (step.rule,))],
        "loops": dict(step.passes) if isinstance(step, PlannedKernel) else {},
        "tiles": str(step.tiles) if isinstance(step, PlannedKernel) else "",
        "source": print_kernel(step.tiles) if isinstance(step, PlannedKernel) else "",
        "instead": [f"{a.description}: {a.reason}" for a in lost[:1]] if len(plan.steps) == 1 or step is plan.steps[-1] else [],
    }


def _tensor(plan: Plan, name: str, called: Mapping[str, str], roles: Mapping[str, str]) -> dict[str, Any]:
    b = plan.buffers[name]
    return {
        "name": called.get(name, name), "shape": list(b.shape), "dtype": b.dtype.name, "role": roles.get(name, b.role),
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
            lines += [f"{b} = {text(n.op, n.attrs, args)}" for b in roots.get(k, ())]
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
