"""A plan as text: kernels, tiles, passes, bytes, what bounds each kernel, and what lost."""

from __future__ import annotations

from collections.abc import Sequence

from ..tiles.walk import shares
from .plan import Decision, Plan, PlannedCall, PlannedKernel

_EARLY = {
    "saturation: nodes": "the e-graph reached node_budget before saturation",
    "saturation: time": "time_budget ran out before saturation",
    "search: work": "the search for a kernel that computes everything had its share of time_budget",
    "search: time": "time_budget ran out before the search for kernels ended",
}


def bytes_text(n: float) -> str:
    """1234567 -> '1.23 MB'."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(n) < 1000 or unit == "TB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.2f} {unit}"
        n /= 1000
    raise AssertionError


def plural(n: int, noun: str) -> str:
    """1 kernel, 2 kernels."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _roles(k: PlannedKernel) -> str:
    return " ".join(f"{a.name}={r}" for a, r in k.kernel.roles.items())


MOST_DECISIONS = 3  # lines for the verdicts of one rule: it may match in every layer


def decision_lines(decisions: Sequence[Decision]) -> list[str]:
    """What verdicts did, a line for each; of a rule that says the same of many values, for the first few."""
    lines: list[str] = []
    for giver in dict.fromkeys(d.giver for d in decisions):
        of = [d for d in decisions if d.giver == giver]
        lines += map(str, of[:MOST_DECISIONS])
        if len(of) > MOST_DECISIONS:
            lines.append(f"{giver}: {plural(len(of) - MOST_DECISIONS, 'more pair')} of values")
    return lines


def plan_text(plan: Plan, *, module: bool = False) -> str:
    """The plan as a table; ``module``: for the text of a generated module, which has no program to fall back on."""
    calls = f" and {plural(len(plan.calls), 'outside call')}" if plan.calls else ""
    steps = f"{plural(len(plan.kernels), 'kernel')}{calls}"
    lines = [f"plan for {plan.program.name} on {plan.target}: {steps}, {plan.estimated_us:.1f} us estimated"]
    for k in plan.steps:
        c = k.cost
        if isinstance(k, PlannedCall):
            made = ", ".join(b.name for b in k.stores)
            lines.append(f"  {k.call.name}: {', '.join(sorted(k.loads))} -> {made}")
            lines.append(f"    outside {':'.join(k.call.entry)}, offered by {k.rule} ({k.where})")
            lines.append(f"    cost    {c.us:.1f} us by its own account; {bytes_text(c.dram_bytes)} DRAM")
            continue
        loads = sorted({n.attrs[0] for n in k.kernel.nodes if n.op == "load"})
        lines.append(f"  {k.kernel.name}: {', '.join(loads)} -> {', '.join(r.buffer for r in k.kernel.roots)}")
        programs = f"{c.programs} programs" + (f" for {k.tiles.tasks} tiles" if k.kernel.persistent else "")
        lines.append(f"    roles   {_roles(k)}   ({programs}, {k.kernel.warps} warps, {k.kernel.stages} stages)")
        passes = ", ".join(f"{a} x{n}" for a, n in k.passes.items()) or "none (whole rows on chip)"
        passes += "".join(f"; {share:.0%} of the tiles of {a}, the others being masked" for a, share in shares(k.tiles).items())
        lines.append(f"    loops   {passes}")
        lines.append(
            f"    cost    {c.us:.1f} us, bound by {c.bound}; {bytes_text(c.dram_bytes)} DRAM, {bytes_text(c.l2_bytes)} L2, "
            f"{c.flops / 1e9:.1f} GFLOP, {c.simt / 1e9:.2f} G instructions; {bytes_text(c.shared_bytes)} shared"
        )
        if k.rules:
            lines.append(f"    rules   {', '.join(k.rules)}")
        if "scaled" in k.kernel.notes:
            lines.append(f"    scaled  {k.kernel.notes['scaled']}")
    lines.append(
        f"  memory: {bytes_text(plan.dram_bytes)}; compulsory {bytes_text(plan.compulsory_bytes)}; "
        f"unfused {bytes_text(plan.baseline_bytes)} in {plan.baseline_kernels} kernels ({plan.baseline_us:.1f} us)"
    )
    if plan.licence == "exact":
        lines.append("  licence exact: no rewrite that changes bits, and every operation of a kernel is rounded by itself")
    if module:
        lines.append("  this module has kernels only: run() takes tensors on a GPU")
    else:
        lines.append("  CPU tensors run the original program in torch; CUDA tensors run these kernels")
    lost = [a for a in plan.alternatives if a.kernels]
    if lost:
        lines.append(f"  runner-up: {lost[0].description}, {lost[0].us:.1f} us, {bytes_text(lost[0].dram_bytes)}: {lost[0].reason}")
    lines += [f"  not taken: {why}" for why in plan.refused]
    lines += [f"  not fully checked: {which}" for which in plan.unsure]
    lines += [f"  verdict: {line}" for line in decision_lines(plan.decisions)]
    lines += [f"  numbers: {note}" for note in plan.notes]
    early = [_EARLY[why] for why in (f"saturation: {plan.saturation}", f"search: {plan.stopped}") if why in _EARLY]
    lines += [f"  accuracy: {tried}" for tried in plan.accuracy]
    lines += [f"  compiler: {said}" for said in plan.compiled]
    lines.append(f"  search ended: {plan.stopped}")
    lines += [f"  stopped early: {what}; a larger budget may find a better plan" for what in early]
    return "\n".join(lines)
