"""The plan of a program in steps: its pieces and what torch runs, in order."""

from __future__ import annotations

from collections.abc import Mapping

from torch.fx import Node

from ..extract.blocks import step_plan
from ..extract.plan import Decision, Part, StepPlan, TorchCall
from ..extract.targets import Target
from .memory import bytes_of
from .pieces import CALLED, Cut, effect
from .planning import Piece
from .share import share_of


def plan_of_steps(
    cut: Cut, pieces: Mapping[str, Piece], name: str, target: Target, crossing: Mapping[str, int], decisions: tuple[Decision, ...]
) -> StepPlan:
    """The plan of a graph in pieces.  ``crossing``: bytes that are held between steps, at each of them."""
    library = {x.node: x for x in cut.library}
    parts: list[Part | TorchCall] = []
    for n in cut.outer.nodes:
        reads = tuple(map(called, n.all_input_nodes))
        if n.op == "call_module":
            piece, makes = pieces[n.target], tuple(map(called, n.users))
            e, error = piece.executable, piece.error
            if e is None or e.missing:
                reason, where = (e.missing, None) if e is not None else (error.message, error.where) if error is not None else ("", None)
                operators = sum(m.op == "call_function" for m in piece.graph.module.graph.nodes)
                parts.append(TorchCall(n.target, n.target, reads, makes, reason, where, operators=operators))
            else:
                parts.append(Part(e.plan, reads, makes, n.target))
        elif n in library:
            found = library[n]
            size = sum(map(bytes_of, (n, *n.all_input_nodes)))
            parts.append(TorchCall(n.name, target_name(n), reads, (n.name,), found.reason, found.where, size, effect=effect(n)))
    own = {k: p.executable.plan.temporary_bytes for k, p in pieces.items() if p.executable is not None}
    most = max((n + own.get(step, 0) for step, n in crossing.items()), default=0)
    return step_plan(name, target, parts, decisions, temporary_bytes=most, share=share_of(cut, pieces))


def called(n: Node) -> str:
    """What a value of the outer graph is called: a result of a piece by the node that computes it there."""
    name: str = n.meta.get(CALLED, n.name)
    return name


def target_name(n: Node) -> str:
    """An operator as people write it."""
    return str(n.target).removesuffix(".default") if not hasattr(n.target, "__name__") or "." in str(n.target) else n.target.__name__
