"""The plan: which kernels run, in which order, what each costs, and what lost.  Pure data; ``print(plan)`` explains itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..ir.program import Program
from ..ir.terms import Term
from ..tiles.kernel import Buffer, Kernel
from ..tiles.outside import OutsideCall
from ..tiles.program import TileProgram


@dataclass(frozen=True)
class Cost:
    """What the model says a kernel does.  Bytes and operations are totals; ``us`` is the estimated time in microseconds."""

    us: float
    dram_bytes: int
    l2_bytes: int
    flops: float  # tensor-core floating point operations
    simt: float  # float32 instructions
    special: float  # special-function instructions
    programs: int
    shared_bytes: int
    register_bytes: int  # per program
    bound: str  # the term of the model that decides: dram | l2 | tensor | simt | special | latency | launch
    terms: Mapping[str, float] = field(default_factory=dict)  # microseconds of each term


@dataclass(frozen=True)
class PlannedKernel:
    """A kernel, its tile program, its cost and the classes it covers."""

    kernel: Kernel = field(repr=False)
    tiles: TileProgram = field(repr=False)
    cost: Cost = field(repr=False)
    rules: tuple[str, ...]  # the rules that introduced its nodes
    passes: Mapping[str, int]  # loops over each streamed axis

    def __repr__(self) -> str:
        roles = " ".join(f"{a.name}={r}" for a, r in self.kernel.roles.items())
        made = ", ".join(r.buffer for r in self.kernel.roots)
        reads = ", ".join(sorted(self.loads))
        return f"<PlannedKernel {self.kernel.name}: {reads} -> {made}; {roles}; {self.cost.us:.1f} us, bound by {self.cost.bound}>"

    @property
    def loads(self) -> frozenset[str]:
        """The buffers that it reads."""
        return frozenset(n.attrs[0] for n in self.kernel.nodes if n.op == "load")

    @property
    def stores(self) -> tuple[Buffer, ...]:
        """The buffers that it makes."""
        return tuple(self.kernel.buffers[r.buffer] for r in self.kernel.roots)


@dataclass(frozen=True)
class PlannedCall:
    """A step that runs an outside implementation instead of a generated kernel.  ``term`` is the value it is offered for."""

    call: OutsideCall
    cost: Cost
    term: Term
    rule: str  # the fusion rule that offers it
    where: str  # and where that rule stands

    @property
    def loads(self) -> frozenset[str]:
        """The buffers that it reads."""
        return frozenset(o.buffer.name for o in self.call.reads)

    @property
    def stores(self) -> tuple[Buffer, ...]:
        """The buffer that it makes."""
        return (self.call.result.buffer,)


@dataclass(frozen=True)
class Alternative:
    """A plan that was considered and lost."""

    description: str
    kernels: int
    us: float
    dram_bytes: int
    reason: str


LIFTED = "lifted by"  # how the outcome of a forbid begins that an allow lifts


@dataclass(frozen=True)
class Decision:
    """What a verdict about two values did.  ``by`` is who gave it: a request, or a fusion rule, which stands at ``where``;
    ``outcome`` is what became of the values; ``ruled_out`` how many of the kernels that the search tried it refused."""

    verdict: str
    by: str
    where: str
    outer: str
    inner: str
    outcome: str
    ruled_out: int = 0

    @property
    def giver(self) -> str:
        """Who gave it, with the place."""
        return f"{self.by} ({self.where})" if self.where else self.by

    def __str__(self) -> str:
        speaks = "" if not self.where else {"require": "requires ", "forbid": "forbids ", "allow": "allows "}[self.verdict]
        about = f" {speaks}{self.outer} with {self.inner}" if speaks else ""
        return f"{self.giver}{about}: {self.outcome}{self._effect}"

    @property
    def _effect(self) -> str:
        if self.verdict == "allow" or self.outcome.startswith(LIFTED):
            return ""
        if not self.ruled_out:
            return "; no kernel that was tried is against it"
        return f"; it ruled out {self.ruled_out} of the kernels that were tried"


@dataclass(frozen=True)
class Plan:
    """Steps in execution order.  Nothing is left to torch but what a fusion rule offers: what cannot be planned is refused by
    ``optimize``."""

    program: Program
    target: str
    steps: tuple[PlannedKernel | PlannedCall, ...]
    buffers: Mapping[str, Buffer]
    dram_bytes: int
    compulsory_bytes: int
    baseline_bytes: int
    baseline_kernels: int
    estimated_us: float
    baseline_us: float
    split: tuple[str, int] | None  # the axis that was split over the grid, and into how many parts
    stopped: str  # why the search ended: "bound" | "exhausted" | "work" | "time" | "like"
    saturation: str = "saturated"  # why saturation ended: "saturated" | "nodes" | "time" | "off"
    alternatives: tuple[Alternative, ...] = ()
    accuracy: tuple[str, ...] = ()  # what optimize(accuracy_factor=...) tried at small sizes: refused plans, and this one
    compiled: tuple[str, ...] = ()  # what optimize(no_spills=True) had compiled: kernels that spilled, and what is left of that
    register_shares: Mapping[tuple[str, ...], float] = field(default_factory=dict)  # and what it let each of these kernels use
    licence: str = "real"  # what rewrites may claim; under "exact" kernels round every operation by itself
    refused: tuple[str, ...] = ()  # offers of outside implementations that the plan does not use, each with the reason
    notes: tuple[str, ...] = ()  # inputs for which kernels overflow, or vanish, where the program does not
    unsure: tuple[str, ...] = ()  # rules of the user that the plan may use and whose check ended before it was complete
    decisions: tuple[Decision, ...] = ()  # verdicts of requests and fusion rules about values of the program, and what each did

    @property
    def kernels(self) -> tuple[PlannedKernel, ...]:
        """The generated kernels."""
        return tuple(k for k in self.steps if isinstance(k, PlannedKernel))

    @property
    def calls(self) -> tuple[PlannedCall, ...]:
        """The calls of outside implementations."""
        return tuple(k for k in self.steps if isinstance(k, PlannedCall))

    def __str__(self) -> str:
        from .report import plan_text

        return plan_text(self)
