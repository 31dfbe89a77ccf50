"""The plan: which kernels run, in which order, what each costs, and what lost.  Pure data; ``print(plan)`` explains itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from ..ir.program import Program
from ..ir.terms import Term
from ..tiles.kernel import Buffer, Kernel, buffer_text
from ..tiles.outside import OutsideCall
from ..tiles.program import TileProgram
from ..tiles.walk import shares
from .quantities import bytes_text, plural
from .refined import Refined


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
    bound: str  # the term of the model that decides: dram | l2 | tensor | issue | special | shared | latency | launch, or one of a CPU
    terms: Mapping[str, float] = field(default_factory=dict)  # microseconds of each term, if there were no other
    parts: Mapping[str, float] = field(default_factory=dict)  # what each adds to the time: with the launch they are all of it
    ahead: float = 0.0  # the share of steps of loops that find their data loaded
    apart: float = 1.0  # into how many parts a program falls whose phases are not in step
    registers: int = 0  # of a thread, by the model


@dataclass(frozen=True)
class PlannedKernel:
    """A kernel, its tile program, its cost and the classes it covers."""

    kernel: Kernel = field(repr=False)
    tiles: TileProgram = field(repr=False)
    cost: Cost = field(repr=False)
    rules: tuple[str, ...]  # the rules that introduced its nodes
    passes: Mapping[str, int]  # loops over each streamed axis
    refined: Refined | None = field(default=None, compare=False)  # its candidates, where a compiler or a clock has judged them

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
    by_library: bool = False  # offered without a rule, where a target has the library's rates

    @property
    def loads(self) -> frozenset[str]:
        """The buffers that it reads."""
        return frozenset(o.buffer.name for o in self.call.reads)

    @property
    def stores(self) -> tuple[Buffer, ...]:
        """The buffer that it makes."""
        return (self.call.result.buffer,)


@dataclass(frozen=True)
class Launch:
    """Steps that are launched together, by their places in ``Plan.steps``, and the microseconds that they take so (:mod:`.launches`)."""

    steps: tuple[int, ...]
    us: float


@dataclass(frozen=True)
class Alternative:
    """A plan that was considered and lost."""

    description: str
    kernels: int
    us: float
    dram_bytes: int
    reason: str
    temporary_bytes: int = 0  # that it would hold at a time beside inputs and outputs


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
class Split:
    """An axis that is split over the grid: one kernel reduces each of its parts, and the next one what these have become.  ``among``: the
    numbers of parts that there were to choose from."""

    axis: str
    parts: int
    among: tuple[int, ...]

    def __str__(self) -> str:
        others = f", chosen among {', '.join(map(str, self.among))}" if len(self.among) > 1 else ""
        return f"{self.axis} in {self.parts} parts over the grid{others}"


@dataclass(frozen=True)
class Part:
    """A region of a program: the plan of its own program (one for all regions that are equal) between tensors of the whole.

    ``reads`` and ``makes`` are the tensors of the whole program, in the order of the region's inputs and outputs.  A shape may differ by
    dimensions of size 1, and by neighbours that are one in the region; there are no gaps in what kernels make, so it is seen as it is.
    """

    plan: Plan
    reads: tuple[str, ...]
    makes: tuple[str, ...]

    @property
    def tensors(self) -> dict[str, str]:
        """What the region's own tensors are called in the whole program."""
        program = self.plan.program
        own = [t.name for t in (*program.inputs, *program.outputs)]  # type: ignore[attr-defined]
        return dict(zip(own, (*self.reads, *self.makes), strict=True))


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
    splits: tuple[Split, ...]  # the axes that are split over the grid; of a plan in regions these have theirs
    stopped: str  # why the search ended: "bound" | "exhausted" | "work" | "time" | "clock" | "like"
    saturation: str = "saturated"  # why saturation ended: "saturated" | "nodes" | "time" | "clock" | "off"
    temporary_bytes: int = 0  # memory that it holds at a time beside inputs and outputs
    front: tuple[Alternative, ...] = ()  # the plans found that no other one beats in both time and memory held, the fastest first
    alternatives: tuple[Alternative, ...] = ()
    accuracy: tuple[str, ...] = ()  # what optimize(accuracy_factor=...) tried at small sizes: refused plans, and this one
    compiled: tuple[str, ...] = ()  # what optimize(no_spills=True) had compiled: kernels that spilled, and what is left of that
    register_shares: Mapping[tuple[str, ...], float] = field(default_factory=dict)  # and what it let each of these kernels use
    licence: str = "real"  # what rewrites may claim; under "exact" kernels round every operation by itself
    refused: tuple[str, ...] = ()  # offers of outside implementations that the plan does not use, each with the reason
    notes: tuple[str, ...] = ()  # inputs for which kernels overflow, or vanish, where the program does not
    unsure: tuple[str, ...] = ()  # rules of the user that the plan may use and whose check ended before it was complete
    rewritten: tuple[str, ...] = ()  # the rules by which the planned program is another one than ``program``, which is as written
    written_us: float = 0.0  # what the best plan of the program as written is estimated to take, if it is not this one
    decisions: tuple[Decision, ...] = ()  # verdicts of requests and fusion rules about values of the program, and what each did
    parts: tuple[Part, ...] = ()  # of a program that is planned in regions: these, in execution order; the steps are theirs
    launches: tuple[Launch, ...] = ()  # every step once, in execution order; none if each step is a launch of its own, in its order
    on_cpu: bool = False  # its kernels are for CPU tensors
    measured: str = ""  # when and on what the numbers of the target were measured

    @property
    def kernels(self) -> tuple[PlannedKernel, ...]:
        """The generated kernels."""
        return tuple(k for k in self.steps if isinstance(k, PlannedKernel))

    @property
    def calls(self) -> tuple[PlannedCall, ...]:
        """The calls of outside implementations."""
        return tuple(k for k in self.steps if isinstance(k, PlannedCall))

    @property
    def launched(self) -> tuple[tuple[PlannedKernel | PlannedCall, ...], ...]:
        """The steps in execution order, those together that are one launch."""
        return tuple(tuple(self.steps[k] for k in one.steps) for one in self.every_launch)

    @property
    def every_launch(self) -> tuple[Launch, ...]:
        """The launches, of one step as well."""
        return self.launches or tuple(Launch((at,), k.cost.us) for at, k in enumerate(self.steps))

    @property
    def separate_us(self) -> float:
        """Microseconds if every step were a launch of its own, which is how the search compares plans."""
        return sum(k.cost.us for k in self.steps)

    def __str__(self) -> str:
        return plan_text(self)


# ---- as text -----------------------------------------------------------------------------------------------------------------
_EARLY = {
    "saturation: nodes": "the e-graph reached node_budget before saturation",
    "saturation: time": "time_budget ran out before saturation",
    "saturation: clock": "the processor took five times time_budget before saturation",
    "search: work": "the search for a kernel that computes everything had its share of time_budget",
    "search: time": "time_budget ran out before the search for kernels ended",
    "search: clock": "the processor took five times time_budget before the search for kernels ended",
}


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


def _step_lines(k: PlannedKernel | PlannedCall, called: Mapping[str, str] = MappingProxyType({}), *, on_cpu: bool) -> list[str]:
    """A step in a few lines; ``called``: other names of its tensors; ``on_cpu``: without what a CPU has no word for."""
    c, lines = k.cost, list[str]()
    if isinstance(k, PlannedCall):
        made = ", ".join(called.get(b.name, b.name) for b in k.stores)
        lines.append(f"  {k.call.name}: {', '.join(called.get(b, b) for b in sorted(k.loads))} -> {made}")
        lines.append(f"    outside {':'.join(k.call.entry)}, offered by {k.rule} ({k.where})")
        lines.append(f"    cost    {c.us:.1f} us by its own account; {bytes_text(c.dram_bytes)} DRAM")
        return lines
    loads = sorted({n.attrs[0] for n in k.kernel.nodes if n.op == "load"})
    stores = [r.buffer for r in k.kernel.roots]
    read, made = (", ".join(called.get(b, b) for b in names) for names in (loads, stores))
    lines.append(f"  {k.kernel.name}: {read} -> {made}")
    programs = f"{c.programs} programs" + (f" for {k.tiles.tasks} tiles" if k.kernel.persistent else "")
    on_gpu = "" if on_cpu else f", {k.kernel.warps} warps, {k.kernel.stages} stages"
    lines.append(f"    roles   {_roles(k)}   ({programs}{on_gpu})")
    if said := k.kernel.notes.get("order"):
        lines.append(f"    order   {said}")
    if blocks := sorted({p.buffer for p in k.tiles.parameters if p.kind == "descriptor" and p.buffer}):
        lines.append(f"    copies  {', '.join(called.get(b, b) for b in blocks)} in blocks by tensor descriptors")
    passes = ", ".join(f"{a} x{n}" for a, n in k.passes.items()) or "none (whole rows on chip)"
    passes += "".join(f"; {share:.0%} of the tiles of {a}, the others being masked" for a, share in shares(k.tiles).items())
    passes += "".join(f"; the tiles of {b.axis.name} from the last to the first, for the last have most steps" for b in k.tiles.backwards)
    lines.append(f"    loops   {passes}")
    lines.append(
        f"    cost    {c.us:.1f} us, bound by {c.bound}; {bytes_text(c.dram_bytes)} DRAM, {bytes_text(c.l2_bytes)} L2, "
        f"{c.flops / 1e9:.1f} GFLOP, {c.simt / 1e9:.2f} G instructions" + ("" if on_cpu else f"; {bytes_text(c.shared_bytes)} shared")
    )
    lines += [f"    judged  {line}" for line in (k.refined.lines(on_cpu) if k.refined else ())]
    if k.rules:
        lines.append(f"    rules   {', '.join(k.rules)}")
    return lines


def launch_lines(plan: Plan) -> list[str]:
    """Which kernels are one launch, and what that saves."""
    lines = []
    for one in plan.launches:
        if len(one.steps) > 1:
            members = [k for k in (plan.steps[at] for at in one.steps) if isinstance(k, PlannedKernel)]
            saved = sum(k.cost.us for k in members) - one.us
            lines.append(f"one launch: {', '.join(k.kernel.name for k in members)}; {one.us:.1f} us (saves {saved:.1f} us)")
    return lines


def _part_lines(parts: Sequence[Part]) -> list[str]:
    """Each different region once, with how often it runs and between which tensors."""
    alike: dict[int, list[Part]] = {}
    for part in parts:
        alike.setdefault(id(part.plan), []).append(part)
    counted = f", {len(alike)} of them different" if len(alike) < len(parts) else ""
    lines = [f"  {plural(len(parts), 'region')}{counted}; tensors between them are stored, since making them again would cost more"]
    for number, same in enumerate(alike.values(), 1):
        plan, first = same[0].plan, same[0]
        times = f", {len(same)} times" if len(same) > 1 else ""
        lines.append(f"  region {number}{times}: {', '.join(first.makes)}; {plan.estimated_us:.1f} us{' each' if times else ''}")
        for step in plan.steps:
            lines += [f"  {line}" for line in _step_lines(step, first.tensors, on_cpu=plan.on_cpu)]
        lines += [f"    split   {split}" for split in plan.splits]
        lines += [f"    {line}" for line in launch_lines(plan)]
    return lines


def plan_text(plan: Plan, *, module: bool = False) -> str:
    """The plan as a table; ``module``: for the text of a generated module, which has no program to fall back on."""
    calls = f" and {plural(len(plan.calls), 'outside call')}" if plan.calls else ""
    launches = f" in {len(plan.launches)} launch{'es' * (len(plan.launches) > 1)}" if plan.launches else ""
    steps = f"{plural(len(plan.kernels), 'kernel')}{calls}{launches}"
    on = f"{plan.target} (measured {plan.measured})" if plan.measured else plan.target
    lines = [f"plan for {plan.program.name} on {on}: {steps}, {plan.estimated_us:.1f} us estimated"]
    if plan.parts:
        lines += _part_lines(plan.parts)
    for k in () if plan.parts else plan.steps:
        lines += _step_lines(k, on_cpu=plan.on_cpu)
    lines += [] if plan.parts else [f"  {line}" for line in launch_lines(plan)]
    lines.append(
        f"  memory: {bytes_text(plan.dram_bytes)}; compulsory {bytes_text(plan.compulsory_bytes)}; "
        f"unfused {bytes_text(plan.baseline_bytes)} in {plan.baseline_kernels} kernels ({plan.baseline_us:.1f} us)"
    )
    lines += [f"  split: {split}" for split in plan.splits]
    strided = [buffer_text(b) for b in plan.buffers.values() if b.strides is not None]
    if strided:
        lines.append(f"  planned for {'; '.join(strided)}")
    if plan.rewritten:
        lines.append(f"  program: another order than written, by {', '.join(plan.rewritten)}; {plan.written_us:.1f} us as written")
    if len(plan.front) > 1:
        points = (f"{a.us:.1f} us holding {bytes_text(a.temporary_bytes)} ({plural(a.kernels, 'kernel')})" for a in plan.front)
        lines.append(f"  time against memory: {'; '.join(points)}")
    if plan.licence == "exact":
        lines.append("  licence exact: no rewrite that changes bits, and every operation of a kernel is rounded by itself")
    here, there = ("CPU", "CUDA") if plan.on_cpu else ("CUDA", "CPU")
    if module:
        lines.append(f"  this module has kernels only: run() takes tensors on a {'CPU' if plan.on_cpu else 'GPU'}")
    else:
        lines.append(f"  {there} tensors run the original program in torch; {here} tensors run these kernels")
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
