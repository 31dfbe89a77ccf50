"""From the best cover to a plan: launches, and kernels with their headers."""

from __future__ import annotations

from dataclasses import replace

from ...ir.printing import equations
from ..baseline import Baseline
from ..launches import check_launches, held, launches
from ..launches import like as launches_like
from ..plan import Launch, Plan, PlannedKernel
from ..quantities import bytes_text
from ..targets import Target
from .cover import Cover, alternative
from .maker import CoverMaker
from .record import Record


def finished(
    maker: CoverMaker,
    best: Cover,
    record: Record,
    yardstick: Baseline,
    stopped: str,
    refused: tuple[str, ...] = (),
    model: tuple[Launch, ...] | None = None,
) -> Plan:
    """The plan of a cover, with the launches of ``model`` if there is one.

    ``stopped``: why the search ended.  ``refused``: why offers were not taken.
    """
    program, objective = maker.program, record.objective
    used = {b.name for k in best.steps for b in k.stores} | {i.name for i in program.inputs}
    if model is None:
        limit = objective.limit if objective.by == "time" else 0
        steps, found = launches(best.steps, maker.target, max(limit, best.temporary_bytes))
        best = replace(best, steps=steps)
    else:
        found = launches_like(best.steps, maker.target, model)
    check_launches(best.steps, found)
    best = replace(best, steps=tuple(_noted(maker, k) if isinstance(k, PlannedKernel) else k for k in best.steps))
    return Plan(
        program=program,
        target=maker.target.name,
        on_cpu=maker.target.on_cpu,
        measured=maker.target.measured,
        steps=best.steps,
        buffers={n: b for n, b in maker.buffers.items() if n in used},
        dram_bytes=best.dram_bytes,
        compulsory_bytes=yardstick.compulsory_bytes,
        baseline_bytes=yardstick.dram_bytes,
        baseline_kernels=yardstick.kernels,
        estimated_us=sum(one.us for one in found) if found else best.us,
        baseline_us=yardstick.us,
        splits=best.splits,
        stopped=stopped,
        saturation=maker.graph.report.stopped,
        temporary_bytes=held(tuple(best.steps[k] for k in one.steps) for one in found) if found else best.temporary_bytes,
        launches=found,
        front=tuple(alternative(c) for c in objective.front(record.considered)),
        alternatives=tuple(sorted(record.rejected, key=lambda a: a.us)),
        refused=refused,
        decisions=maker.chooser.verdicts.decided(best.steps),
    )


def launched_us(cover: Cover, target: Target, limit: float) -> float:
    """Modelled time of a cover with its launches."""
    most = max(limit, cover.temporary_bytes)
    return sum(one.us for one in launches(cover.steps, target, most)[1]) or cover.us


def _noted(maker: CoverMaker, planned: PlannedKernel) -> PlannedKernel:
    """The kernel with its header: the equations it computes, the rules behind it, the bytes it moves."""
    original = dict(zip(maker.graph.original, maker.program.terms(), strict=True))
    specs = maker.specs()
    computed = {r.buffer: original[specs[r.buffer].cls] for r in planned.kernel.roots if specs[r.buffer].cls in original}
    lines = equations(computed)
    lines += [f"{r.buffer}: a partial result" for r in planned.kernel.roots if r.buffer not in computed]
    return headed(planned, "\n".join(lines))


def headed(planned: PlannedKernel, computed: str) -> PlannedKernel:
    """The kernel with a header that begins with what it computes."""
    notes = {"": computed, **{k: v for k, v in planned.kernel.notes.items() if k}}
    if planned.rules:
        notes["rules"] = ", ".join(planned.rules)
    notes["moves"] = f"{bytes_text(planned.cost.dram_bytes)} of memory for the planned sizes; bound by {planned.cost.bound}"
    kernel = replace(planned.kernel, notes=notes)
    return replace(planned, kernel=kernel, tiles=replace(planned.tiles, kernel=kernel))
