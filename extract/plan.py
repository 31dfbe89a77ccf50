"""The plan: which kernels run, in which order, what each costs, and what lost.  Pure data; ``print(plan)`` explains itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..ir.program import Program
from ..ir.terms import Term
from ..tiles.kernel import Buffer, Kernel, buffer_text
from ..tiles.outside import OutsideCall
from ..tiles.program import TileProgram
from ..tiles.walk import skipped
from .quantities import bytes_text, plural
from .refined import Refined
from .targets import Target


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
    """A part of what runs: the plan of its own program (one for all parts that are equal) between tensors of the whole.  A region has no
    name of its own; a piece of a program in steps and a pass of a training step have one.

    ``reads`` and ``makes`` are the tensors of the whole, in the order of the part's inputs and outputs.  A shape may differ by
    dimensions of size 1, and by neighbours that are one in the region; there are no gaps in what kernels make, so it is seen as it is.
    """

    plan: Plan
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    name: str = ""

    @property
    def tensors(self) -> dict[str, str]:
        """What the part's own tensors are called in the whole; results that are stored once for several keep their own names."""
        program = self.plan.program
        outputs = [o.name for o in program.outputs]
        made = zip(outputs, self.makes, strict=True) if len(outputs) == len(self.makes) else ()
        return {**dict(zip((i.name for i in program.inputs), self.reads, strict=False)), **dict(made)}


@dataclass(frozen=True)
class TorchCall:
    """What torch runs, an operator or a piece for which there are no kernels, why, and the user's line.  ``bytes``: of its arguments and
    results, which nothing could save; what it takes is not modelled."""

    name: str
    target: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    reason: str
    where: str | None = None
    bytes: int = 0
    operators: int = 1
    effect: bool = False  # whether it writes, or is random


@dataclass(frozen=True, kw_only=True)
class Block:
    """What runs, in execution order: ``parts``, each a plan of its own or a call that torch runs; without parts the ``steps`` themselves.
    A block in parts has the steps of its parts, and says what they say."""

    target: str
    steps: tuple[PlannedKernel | PlannedCall, ...]
    dram_bytes: int
    compulsory_bytes: int
    baseline_bytes: int
    baseline_kernels: int
    estimated_us: float
    baseline_us: float
    stopped: str  # why the search ended: "bound" | "exhausted" | "work" | "time" | "clock" | "like"
    splits: tuple[Split, ...] = ()  # the axes that are split over the grid; parts have theirs
    saturation: str = "saturated"  # why saturation ended: "saturated" | "nodes" | "time" | "clock" | "off"
    temporary_bytes: int = 0  # memory that it holds at a time beside inputs and outputs, what torch's operators hold themselves left out
    front: tuple[Alternative, ...] = ()  # the plans found that no other one beats in both time and memory held, the fastest first
    alternatives: tuple[Alternative, ...] = ()
    accuracy: tuple[str, ...] = ()  # what optimize(accuracy_factor=...) tried at small sizes: refused plans, and this one
    compiled: tuple[str, ...] = ()  # what optimize(no_spills=True) had compiled: kernels that spilled, and what is left of that
    register_shares: Mapping[tuple[str, ...], float] = field(default_factory=dict)  # and what it let each of these kernels use
    licence: str = "real"  # what rewrites may claim; under "exact" kernels round every operation by itself
    refused: tuple[str, ...] = ()  # offers of outside implementations that the plan does not use, each with the reason
    notes: tuple[str, ...] = ()  # inputs for which kernels overflow, or vanish, where the program does not
    unsure: tuple[str, ...] = ()  # rules of the user that the plan may use and whose check ended before it was complete
    rewritten: tuple[str, ...] = ()  # the rules by which the planned program is another one than the program, which is as written
    written_us: float = 0.0  # what the best plan of the program as written is estimated to take, if it is not this one
    decisions: tuple[Decision, ...] = ()  # verdicts of requests and fusion rules about values of the program, and what each did
    parts: tuple[Part | TorchCall, ...] = ()
    cuts: tuple[tuple[str, tuple[str, ...]], ...] = ()  # the tensors between regions, by why they are stored
    launches: tuple[Launch, ...] = ()  # every step once, in execution order; none if each step is a launch of its own, in its order
    saved: tuple[Buffer, ...] | None = None  # by a forward pass for the backward pass, if these are its parts; a result is an output
    on_cpu: bool = False  # its kernels are for CPU tensors
    measured: str = ""  # when and on what the numbers of the target were measured

    @property
    def name(self) -> str:
        """What the program is called."""
        raise NotImplementedError

    @property
    def kernels(self) -> tuple[PlannedKernel, ...]:
        """The generated kernels."""
        return tuple(k for k in self.steps if isinstance(k, PlannedKernel))

    @property
    def calls(self) -> tuple[PlannedCall, ...]:
        """The calls of outside implementations."""
        return tuple(k for k in self.steps if isinstance(k, PlannedCall))

    @property
    def pieces(self) -> tuple[Part, ...]:
        """The parts that have kernels."""
        return tuple(p for p in self.parts if isinstance(p, Part))

    @property
    def library(self) -> tuple[TorchCall, ...]:
        """The parts that torch runs."""
        return tuple(p for p in self.parts if isinstance(p, TorchCall))

    @property
    def library_bytes(self) -> int:
        """What operators that torch runs take and return."""
        return sum(call.bytes for call in self.library)

    @property
    def saved_bytes(self) -> int:
        """What is held between the passes beside arguments and results."""
        return sum(b.bytes for b in self.saved or () if b.role == "temporary")

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


@dataclass(frozen=True, kw_only=True)
class Plan(Block):
    """The plan of one program.  Nothing of it is left to torch but what a fusion rule offers: what cannot be planned is refused by
    ``optimize``."""

    program: Program
    buffers: Mapping[str, Buffer]
    parts: tuple[Part, ...] = ()  # regions

    @property
    def name(self) -> str:
        """That of the program."""
        return self.program.name


@dataclass(frozen=True)
class Work:
    """``flops``: of matrix products and convolutions, a multiply-add being two."""

    operators: int = 0
    bytes: int = 0
    flops: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.operators + other.operators, self.bytes + other.bytes, self.flops + other.flops)


@dataclass(frozen=True)
class Share:
    """What ``torch`` runs of ``all`` of a program."""

    torch: Work = Work()
    all: Work = Work()

    def __str__(self) -> str:
        of_all = f"{self.torch.operators} of {plural(self.all.operators, 'operator')} in torch"
        parts = [(self.torch.bytes, self.all.bytes, "bytes"), (self.torch.flops, self.all.flops, "arithmetic of products")]
        shares = [f"{100 * part / whole:.0f} % of the {what}" for part, whole, what in parts if whole]
        return f"{of_all} ({', '.join(shares)})" if self.torch.operators and shares else of_all


@dataclass(frozen=True, kw_only=True)
class StepPlan(Block):
    """The plan of what is no single program: pieces and what torch runs between them, or the passes of a training step."""

    title: str
    device: Target = field(repr=False)
    share: Share = Share()  # what torch runs of its operators

    @property
    def name(self) -> str:
        """What the function is called."""
        return self.title

    @property
    def library_bytes(self) -> int:
        """What operators that torch runs take and return, those of pieces without kernels, too."""
        return self.share.torch.bytes


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


CUTS_SHOWN = 6  # names of tensors between regions, for each reason
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


def _step_lines(k: PlannedKernel | PlannedCall, called: Mapping[str, str], *, on_cpu: bool) -> list[str]:
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
    passes += "".join(f"; {said}" for said in skipped(k.tiles))
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


def launch_lines(plan: Block) -> list[str]:
    """Which kernels are one launch, and what that saves."""
    lines = []
    for one in plan.launches:
        if len(one.steps) > 1:
            members = [k for k in (plan.steps[at] for at in one.steps) if isinstance(k, PlannedKernel)]
            saved = sum(k.cost.us for k in members) - one.us
            lines.append(f"one launch: {', '.join(k.kernel.name for k in members)}; {one.us:.1f} us (saves {saved:.1f} us)")
    return lines


def named(parts: Sequence[Part | TorchCall]) -> Iterator[tuple[str, Part | TorchCall]]:
    """The parts, each with the name of the first one that is equal to it; regions are numbered."""
    known: dict[int, str] = {}
    for part in parts:
        if isinstance(part, Part):
            yield known.setdefault(id(part.plan), part.name or f"region {len(known) + 1}"), part
        else:
            yield part.name, part


def _part_lines(plan: Block, called: Mapping[str, str]) -> Iterator[str]:
    """The parts in order.  Of equal ones the first has the kernels, and unnamed ones stand there once, with how often they run."""
    every = list(named(plan.parts))
    often = Counter(first for first, _ in every)
    if plan.pieces and not any(p.name for p in plan.pieces):
        counted = f", {len(often)} of them different" if len(often) < len(every) else ""
        yield f"  {plural(len(every), 'region')}{counted}; stored between them:"
        for reason, names in plan.cuts:
            more = f" and {len(names) - CUTS_SHOWN} more" * (len(names) > CUTS_SHOWN)
            yield f"    {', '.join(names[:CUTS_SHOWN])}{more}, {reason}"
    seen = set[str]()
    for first, part in every:
        reads, makes = (", ".join(called.get(n, n) for n in names) or "nothing" for names in (part.reads, part.makes))
        if isinstance(part, TorchCall):
            yield f"  {part.name}: {part.target}({', '.join(part.reads)}) in torch" + f", {bytes_text(part.bytes)}" * bool(part.bytes)
            yield f"    {part.reason}" + f"   [{part.where}]" * bool(part.where)
        elif first not in seen:
            seen.add(first)
            p, times = part.plan, f", {often[first]} times" * (often[first] > 1)
            cost = f"{p.estimated_us:.1f} us{' each' * bool(times)}, {bytes_text(p.dram_bytes)} (op by op {p.baseline_us:.1f} us)"
            yield f"  {first}{times}: {reads} -> {makes}; {plural(len(p.kernels), 'kernel')}, {cost}"
            yield from (f"  {line}" for line in _body(p, {own: called.get(n, n) for own, n in part.tensors.items()}))
            yield from (f"    split   {split}" for split in p.splits)
        elif part.name:
            yield f"  {part.name}: {reads} -> {makes}; the kernels of {first}"


def _body(plan: Block, called: Mapping[str, str]) -> Iterator[str]:
    """What runs; ``called``: other names of its tensors."""
    if plan.parts:
        yield from _part_lines(plan, called)
        return
    for k in plan.steps:
        yield from _step_lines(k, called, on_cpu=plan.on_cpu)
    yield from (f"  {line}" for line in launch_lines(plan))


def plan_text(plan: Block, *, module: bool = False) -> str:
    """The plan as a table; ``module``: for the text of a generated module, which has no program to fall back on."""
    calls = f" and {plural(len(plan.calls), 'outside call')}" if plan.calls else ""
    launches = f" in {len(plan.launches)} launch{'es' * (len(plan.launches) > 1)}" if plan.launches else ""
    in_torch = f", {plan.share}" if isinstance(plan, StepPlan) and plan.library else ""
    steps = f"{plural(len(plan.kernels), 'kernel')}{calls}{launches}{in_torch}"
    on = f"{plan.target} (measured {plan.measured})" if plan.measured else plan.target
    lines = [f"plan for {plan.name} on {on}: {steps}, {plan.estimated_us:.1f} us estimated", *_body(plan, {})]
    if plan.saved is not None:
        lines.append(f"  saved for the backward pass: {bytes_text(plan.saved_bytes)} beside arguments and results")
        for b in plan.saved:
            lines.append(f"    {b.name}{list(b.shape)} {b.dtype.name}, {bytes_text(b.bytes)}" + ", a result" * (b.role == "output"))
    memory = (
        f"  memory: {bytes_text(plan.dram_bytes)}; compulsory {bytes_text(plan.compulsory_bytes)}; "
        f"unfused {bytes_text(plan.baseline_bytes)} in {plan.baseline_kernels} kernels ({plan.baseline_us:.1f} us)"
    )
    outside = f"; operators in torch {bytes_text(plan.library_bytes)}, not modelled" if plan.library else ""
    held = f"; {bytes_text(plan.temporary_bytes)} held beside arguments and results" if isinstance(plan, StepPlan) else ""
    lines.append(memory + outside + held)
    lines += [f"  split: {split}" for split in plan.splits]
    strided = [buffer_text(b) for b in plan.buffers.values() if b.strides is not None] if isinstance(plan, Plan) else []
    if strided:
        lines.append(f"  planned for {'; '.join(strided)}")
    if plan.rewritten:
        lines.append(f"  program: another one than written, by {', '.join(plan.rewritten)}; {plan.written_us:.1f} us as written")
    if len(plan.front) > 1:
        points = (f"{a.us:.1f} us holding {bytes_text(a.temporary_bytes)} ({plural(a.kernels, 'kernel')})" for a in plan.front)
        lines.append(f"  time against memory: {'; '.join(points)}")
    if plan.licence == "exact":
        lines.append("  licence exact: no rewrite that changes bits, and every operation of a kernel is rounded by itself")
    here, there = ("CPU", "CUDA") if plan.on_cpu else ("CUDA", "CPU")
    runs = "steps" if plan.library else "kernels"
    if module:
        lines.append(f"  this module has {runs} only: run() takes tensors on a {'CPU' if plan.on_cpu else 'GPU'}")
    else:
        lines.append(f"  {there} tensors run the original program in torch; {here} tensors run these {runs}")
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
