"""What a page says of a program in steps: its pieces and what torch runs, in order."""

from __future__ import annotations

from typing import Any

from ..extract.plan import Plan
from ..pages import InTorch, Piece, graph_data
from .plan import LibraryStep, PieceStep, StepPlan


def step_data(plan: StepPlan, name: str = "", **more: Any) -> dict[str, Any]:
    """A graph of :func:`eqfuse.pages.page_data`; ``more`` goes to :func:`eqfuse.pages.graph_data`."""
    made = {value for s in plan.steps for value in ((s.name,) if isinstance(s, LibraryStep) else s.makes)}
    read = {value for s in plan.steps for value in s.reads}
    return graph_data(name or plan.name, plan.device, [_shown(s, made, read) for s in plan.steps], text=str(plan), **more)


def _shown(step: PieceStep | LibraryStep, made: set[str], read: set[str]) -> Piece | InTorch:
    if isinstance(step, LibraryStep):
        return InTorch(step.name, step.target, step.reason, step.where, step.reads, (step.name,), step.bytes)
    if step.plan is None:
        return InTorch(step.name, step.name, step.reason, step.where, step.reads, step.makes)
    called = _called(step.plan, step)
    return Piece(step.plan, "", called, {own: _role(value, made, read) for own, value in called.items()})


def _called(plan: Plan, step: PieceStep) -> dict[str, str]:
    """What the tensors of a piece are called around it; equal results are stored once, and keep their own names."""
    program = plan.program
    called = dict(zip((i.name for i in program.inputs), step.reads, strict=False))
    outputs = [o.name for o in program.outputs]
    return called | (dict(zip(outputs, step.makes, strict=True)) if len(outputs) == len(step.makes) else {})


def _role(value: str, made: set[str], read: set[str]) -> str:
    if value not in made:
        return "input"
    return "temporary" if value in read else "output"
