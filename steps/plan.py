"""What a program in steps does: its pieces and what torch runs, in order.  Pure data; ``print`` explains itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch.fx import Node

from ..extract.plan import Decision, Plan, decision_lines
from ..extract.quantities import bytes_text, plural
from ..extract.targets import Target
from .pieces import CALLED, Cut, effect
from .planning import Piece
from .share import Share, share_of, size_of


@dataclass(frozen=True)
class PieceStep:
    """A piece with its plan; ``first``: the piece that it equals, if another one was planned for both.  Without a plan torch runs it, for
    this ``reason``."""

    name: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    plan: Plan | None = field(repr=False)
    first: str
    reason: str = ""
    where: str | None = None


@dataclass(frozen=True)
class LibraryStep:
    """An operator that torch runs, why, and the user's line.  ``bytes``: of its arguments and results, which nothing could save."""

    name: str
    target: str
    reads: tuple[str, ...]
    reason: str
    where: str | None
    bytes: int
    effect: bool  # whether it writes, or is random


@dataclass(frozen=True)
class StepPlan:
    """Steps in execution order.  What torch runs is not modelled: times are those of pieces, and bytes those that steps read and write."""

    name: str
    device: Target = field(repr=False)
    steps: tuple[PieceStep | LibraryStep, ...]
    share: Share  # of torch, of all operators
    temporary_bytes: int = 0  # that are held at a time beside arguments and results, what operators in torch hold for themselves left out
    decisions: tuple[Decision, ...] = ()  # verdicts about values of different steps

    @property
    def target(self) -> str:
        """The name of the device that it is for."""
        return self.device.name

    @property
    def pieces(self) -> tuple[PieceStep, ...]:
        """The steps that have kernels of ours."""
        return tuple(s for s in self.steps if isinstance(s, PieceStep) and s.plan is not None)

    @property
    def library(self) -> tuple[LibraryStep, ...]:
        """The operators that torch runs."""
        return tuple(s for s in self.steps if isinstance(s, LibraryStep))

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plan of every piece, in order; one object for equal ones."""
        return tuple(s.plan for s in self.pieces if s.plan is not None)

    @property
    def kernels(self) -> int:
        """How many generated kernels run."""
        return sum(len(p.kernels) for p in self.plans)

    @property
    def estimated_us(self) -> float:
        """Modelled microseconds of all pieces."""
        return sum(p.estimated_us for p in self.plans)

    @property
    def baseline_us(self) -> float:
        """The same op by op."""
        return sum(p.baseline_us for p in self.plans)

    @property
    def dram_bytes(self) -> int:
        """What pieces read and write."""
        return sum(p.dram_bytes for p in self.plans)

    @property
    def baseline_bytes(self) -> int:
        """The same op by op."""
        return sum(p.baseline_bytes for p in self.plans)

    @property
    def library_bytes(self) -> int:
        """What operators that torch runs take and return, those of pieces without kernels, too."""
        return self.share.torch.bytes

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        count = f"{plural(len(self.pieces), 'piece')} of {plural(self.kernels, 'kernel')}, {self.share}"
        lines = [f"plan for {self.name} on {self.target}: {count}; {self.estimated_us:.1f} us estimated for the pieces"]
        for step in self.steps:
            lines += _piece_lines(step) if isinstance(step, PieceStep) else _library_lines(step)
        lines.append(
            f"  memory: pieces {bytes_text(self.dram_bytes)}, op by op {bytes_text(self.baseline_bytes)} ({self.baseline_us:.1f} us); "
            f"operators in torch {bytes_text(self.library_bytes)}, not modelled; {bytes_text(self.temporary_bytes)} held beside arguments "
            "and results"
        )
        every = (*dict.fromkeys(d for p in self.plans for d in p.decisions), *self.decisions)
        lines += [f"  verdict: {line}" for line in decision_lines(every)]
        lines += [f"  accuracy of {s.name}: {tried}" for s in self.pieces if s.plan for tried in s.plan.accuracy if s.first == s.name]
        here, there = ("CPU", "CUDA") if self.device.on_cpu else ("CUDA", "CPU")
        lines.append(f"  {there} tensors run the original program in torch; {here} tensors run these steps")
        return lines


def _piece_lines(step: PieceStep) -> list[str]:
    head = f"  {step.name}: {', '.join(step.reads) or 'nothing'} -> {', '.join(step.makes)}"
    if step.plan is None:
        return [head, f"    in torch: {step.reason}{_at(step.where)}"]
    p = step.plan
    cost = f"{p.estimated_us:.1f} us, {bytes_text(p.dram_bytes)} (op by op {p.baseline_us:.1f} us)"
    lines = [f"{head}; {plural(len(p.kernels), 'kernel')}, {cost}"]
    if step.first != step.name:
        return [*lines, f"    the kernels of {step.first}"]
    return [*lines, *(f"    {k.kernel.name}: {', '.join(sorted(k.loads))} -> {', '.join(b.name for b in k.stores)}" for k in p.kernels)]


def _library_lines(step: LibraryStep) -> list[str]:
    head = f"  {step.name}: {step.target}({', '.join(step.reads)}) in torch, {bytes_text(step.bytes)}"
    return [head, f"    {step.reason}{_at(step.where)}"]


def _at(where: str | None) -> str:
    return f"   [{where}]" if where else ""


def step_plan(
    cut: Cut, pieces: Mapping[str, Piece], name: str, target: Target, crossing: Mapping[str, int], decisions: tuple[Decision, ...]
) -> StepPlan:
    """The plan of a graph in pieces.  ``crossing``: bytes that are held between steps, at each of them."""
    library = {x.node: x for x in cut.library}
    first: dict[int, str] = {}
    steps: list[PieceStep | LibraryStep] = []
    for n in cut.outer.nodes:
        if n.op == "call_module":
            piece = pieces[n.target]
            reads = tuple(map(called, n.all_input_nodes))
            makes = tuple(called(u) for u in n.users)
            if piece.executable is None:
                assert piece.error is not None
                steps.append(PieceStep(n.target, reads, makes, None, n.target, piece.error.message, piece.error.where))
            elif piece.executable.missing:
                steps.append(PieceStep(n.target, reads, makes, None, n.target, piece.executable.missing))
            else:
                same = first.setdefault(id(piece.executable.generated), n.target)
                steps.append(PieceStep(n.target, reads, makes, piece.executable.plan, same))
        elif n in library:
            found = library[n]
            size = size_of(n.meta.get("val")) + sum(size_of(a.meta.get("val")) for a in n.all_input_nodes)
            reads = tuple(map(called, n.all_input_nodes))
            steps.append(LibraryStep(n.name, target_name(n), reads, found.reason, found.where, size, effect(n)))
    own = {k: p.executable.plan.temporary_bytes for k, p in pieces.items() if p.executable is not None}
    most = max((n + own.get(step, 0) for step, n in crossing.items()), default=0)
    return StepPlan(name, target, tuple(steps), share_of(cut, pieces), most, decisions)


def called(n: Node) -> str:
    """What a value of the outer graph is called: a result of a piece by the node that computes it there."""
    name: str = n.meta.get(CALLED, n.name)
    return name


def target_name(n: Node) -> str:
    """An operator as people write it."""
    return str(n.target).removesuffix(".default") if not hasattr(n.target, "__name__") or "." in str(n.target) else n.target.__name__
