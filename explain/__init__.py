"""The plan explained: why it is what it is.

:func:`explain` gives the chain of rewrites from the program to every kernel, each replayed on random numbers; what fusion, each step
of the chain and each rule save; the plan that came second and the term of the cost that it lost by; and for two named values, why
they do or do not share a kernel.  docs/explain.md describes the text and the JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from ..egraph.frozen import FrozenGraph
from ..errors import UnknownTargetError
from ..extract.names import Names, Value
from ..extract.plan import Plan, PlannedCall, Split, launch_lines
from ..extract.quantities import bytes_text, plural
from ..extract.targets import Target, load_target
from ..ir.printing import axes_text, expression
from ..ir.terms import Const
from ..rewrites.registry import rules as known_rules
from .chain import Chain, Part, Priced, Share
from .costs import shares
from .derivation import Step
from .effects import Effect, effects
from .study import Options, RunnerUp, Saving, Study
from .why import VERDICTS, Why, term_data, why

SCHEMA = "eqfuse.explain/2"


@dataclass(frozen=True)
class KernelExplanation:
    """One kernel: what it stores, the rules that introduced its nodes, the loops, the bound, and its rewrites in order.

    ``computes`` are the named values that it works out.  ``outside`` names the implementation that a fusion rule offered, for a step
    that is not a generated kernel.
    """

    name: str
    stores: tuple[str, ...]
    loads: tuple[str, ...]
    rules: tuple[str, ...]
    passes: dict[str, int]
    us: float
    bound: str
    dram_bytes: int
    terms_us: dict[str, float] = field(default_factory=dict)
    computes: tuple[str, ...] = ()
    outside: str = ""
    where: str = ""
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Rewritten:
    """Another program than the one that was written: the rules that made it, their laws, its values that are not written, as equations,
    and what the best plan of the program as written is estimated to take."""

    rules: tuple[str, ...]
    laws: tuple[str, ...]
    values: tuple[str, ...]
    written_us: float

    def lines(self) -> list[str]:
        """In words."""
        lines = [f"  program: another one than written, which would take {self.written_us:.1f} us; its other values are"]
        lines += [f"    {value}" for value in self.values]
        return [*lines, *(f"    by {rule}" + (f": {law}" if law else "") for rule, law in zip(self.rules, self.laws, strict=True))]


def _rewritten(graph: FrozenGraph, plan: Plan) -> Rewritten | None:
    if not plan.rewritten:
        return None
    names = Names(graph)
    called = {t: names.label(c) for t, c in names.cls.items() if not isinstance(t, Const)}
    written = {*plan.program.terms()}
    values = tuple(
        f"{called[t]}{axes_text(t)} = {expression(t, {x: n for x, n in called.items() if x is not t})}"
        for t in names.terms
        if t not in written and not isinstance(t, Const)
    )
    laws = {r.name: r.doc.partition("\n")[0] for r in known_rules()}
    return Rewritten(plan.rewritten, tuple(laws.get(r, "") for r in plan.rewritten), values, plan.written_us)


@dataclass(frozen=True)
class Explanation:
    """The whole answer.  ``str()`` for people, :meth:`json` for programs, :meth:`why` for two values of the program."""

    program: str
    target: str
    kernels: tuple[KernelExplanation, ...]
    saved_bytes: int
    saved_us: float
    saturation: str
    lost: tuple[dict[str, Any], ...]
    stopped: str
    splits: tuple[Split, ...] = ()  # the axes that are split over the grid, and what there was to choose from
    rewritten: Rewritten | None = None  # the program that was planned, if it is not the one that was written
    notes: tuple[str, ...] = ()  # inputs for which kernels overflow, or vanish, where the program does not
    launches: tuple[str, ...] = ()  # which kernels are one launch, and what that saves
    study: Study | None = field(default=None, repr=False, compare=False)
    costs: bool = False

    # questions -----------------------------------------------------------------------------------------------------------------
    def why(self, a: str, b: str) -> Why:
        """Whether two values share a kernel, and if not, why.  Values are named as :meth:`values` lists them, or ``file.py:LINE``.

        Raises :class:`~eqfuse.errors.OptionError` for a name that the program does not have.
        """
        return why(self._asked(), a, b)

    def value(self, name: str) -> Value:
        """What a name means."""
        return self._asked().names.resolve(name)

    @property
    def values(self) -> tuple[str, ...]:
        """The names that can be asked about: inputs, outputs, variables of the source, nodes of the traced graph."""
        return self.study.names.spoken if self.study else ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """The rewrites of all kernels."""
        return tuple(s for k in self.kernels for s in k.steps)

    @property
    def runner_up(self) -> RunnerUp | None:
        """The best plan that lost; runs the search once more when it is first asked for."""
        return self.study.runner_up if self.study else None

    @cached_property
    def verdicts(self) -> tuple[Effect, ...]:
        """What the requests and fusion rules with a verdict about two values did: one search for each."""
        return effects(self.study) if self.study and self.study.plan.decisions else ()

    @property
    def savings(self) -> Mapping[str, Saving]:
        """What each rule of the plan saves, and under ``""`` all rules together: one saturation and search for each."""
        return self._asked().savings

    @cached_property
    def chain(self) -> Chain:
        """What each step of the chain of rewrites saves: one search for each."""
        return Chain(self._asked())

    def _asked(self) -> Study:
        if self.study is None:
            raise UnknownTargetError(f"no target is called {self.target}, which the plan was made for", cure="explain(graph, plan, target)")
        return self.study

    # as data -------------------------------------------------------------------------------------------------------------------
    def data(self) -> dict[str, Any]:
        """The same as JSON values; the schema is in docs/explain.md."""
        runner = self.runner_up
        return {
            "schema": SCHEMA,
            "program": self.program,
            "target": self.target,
            "rewritten": asdict(self.rewritten) if self.rewritten else None,
            "kernels": [asdict(k) for k in self.kernels],
            "saved_bytes": self.saved_bytes,
            "saved_us": self.saved_us,
            "splits": [asdict(s) for s in self.splits],
            "saturation": self.saturation,
            "alternatives": list(self.lost),
            "runner_up": _runner_data(runner) if runner else None,
            "savings": [asdict(s) for s in self.savings.values()] if self.costs else None,
            "chain": self.chain.data() if self.costs else None,
            "verdicts": [v.data() for v in self.verdicts],
            "values": list(self.values),
            "stopped": self.stopped,
            "numbers": list(self.notes),
            "launches": list(self.launches),
        }

    def json(self) -> str:
        """The same as JSON text."""
        return json.dumps(strict(self.data()), indent=2)

    def __str__(self) -> str:
        lines = [f"{self.program} on {self.target}"]
        lines += self.rewritten.lines() if self.rewritten else []
        for k in self.kernels:
            lines += self._kernel_lines(k)
        lines += [f"  {line}" for line in self.launches]
        lines.append(f"  against the unfused plan it saves {bytes_text(self.saved_bytes)} and {self.saved_us:.1f} us (modelled)")
        if self.costs:
            lines += self._costs()
        lines += [f"  {line}" for v in self.verdicts for line in v.lines()]
        lines += [f"  split: {s}" for s in self.splits]
        lines.append(f"  saturation: {self.saturation}")
        lines += [f"  numbers: {note}" for note in self.notes]
        if self.lost:
            lines.append("  what lost:")
            lines += [f"    {a['description']}: {a['reason']}" for a in self.lost]
        elif self.stopped == "bound":
            lines.append("  no other plan was worth pricing: this one is within reach of the bound")
        else:
            lines.append(f"  no other plan was priced; the search ended: {self.stopped}")
        if self.runner_up:
            lines += runner_lines(self.runner_up)
        if self.values:
            lines.append(f"  values to ask about, two at a time: {', '.join(self.values)}")
        return "\n".join(lines)

    def _kernel_lines(self, k: KernelExplanation) -> list[str]:
        lines = [f"  kernel {k.name}: loads {', '.join(k.loads)}; stores {', '.join(k.stores)}"]
        if k.outside:
            lines.append(f"    not generated: {k.outside}, offered by {k.rules[0]} ({k.where}); {k.us:.1f} us by its own account")
            lines += [f"    computes {', '.join(k.computes)}"] if k.computes else []
            return lines
        if k.rules:
            lines.append("    made by rules: " + ", ".join(k.rules))
        else:
            lines.append(f"    no rewrite was needed: the program as {'planned' if self.rewritten else 'written'}")
        loops = ", ".join(f"{n} loop(s) over {a}" for a, n in k.passes.items()) or "no loop: everything on chip"
        lines.append(f"    {loops}; bound by {k.bound}, {k.us:.1f} us, {bytes_text(k.dram_bytes)}")
        if k.computes:
            lines.append(f"    computes {', '.join(k.computes)}")
        if k.steps:
            through = "" if len(k.steps) == len(self.steps) else " (numbered through all kernels, from the outputs down)"
            lines.append(f"    {plural(len(k.steps), 'rewrite')} from the program, each replayed on random numbers{through}:")
        first = self.chain.number(k.name, 0) if self.study and k.steps else 1
        for number, s in enumerate(k.steps, first):
            lines += self._step_lines(number, s)
        return lines

    def _step_lines(self, number: int, s: Step) -> list[str]:
        about = ", ".join(x for x in (s.licence, s.where) if x)
        lines = [f"    {number}. {s.rule}" + (f" ({about})" if about else "") + (f": {s.law}" if s.law else "")]
        if not s.matched and s.also:
            lines.append(f"       together with {', '.join(s.also)}")
        lines += [f"         {s.value} = {s.before}", f"      -> {' ' * max(0, len(s.value) - 1)}= {s.after}"]
        if s.skipped:
            lines.append(f"       not replayed: {s.skipped}")
        elif s.agrees:
            lines.append(f"       replayed: {plural(s.numbers, 'number')}, largest difference {s.difference:.1e}")
        else:
            lines.append(f"       DISAGREES: {plural(s.numbers, 'number')}, largest difference {s.difference:.1e}")
        if self.costs:
            lines.append(f"       {self.chain.step_line(number)}")
        return lines

    def _costs(self) -> list[str]:
        """What adds up to the saving, step by step; and what the plan would be without each rule."""
        lines = ["    step by step (the best plan of what stood there before, less that of what stands there after):"]
        lines += [f"      {row}" for row in self.chain.table()]
        rules = [s for s in self.savings.values() if s.rule]
        if rules:
            lines.append("    rule by rule (the best plan without it, of the program saturated again; these do not add up):")
            lines += [f"      {s.rule}: {saving_text(s)}" for s in rules]
        return lines


def saving_text(s: Saving) -> str:
    """What a rule is worth, in words."""
    if s.us is None or s.dram_bytes is None or s.kernels is None:
        return s.note
    if s.note:
        return s.note
    held = f"{bytes_text(abs(s.dram_bytes))} {'more' if s.dram_bytes >= 0 else 'less'}"
    time = f"{abs(s.us):.1f} us {'slower' if s.us >= 0 else 'faster'}"
    return f"{time}, moves {held}, in {plural(s.kernels, 'kernel')}"


def runner_lines(r: RunnerUp) -> list[str]:
    """The runner-up in words."""
    t = r.term
    how = "lost" if r.searched else "was not worth pricing, and loses"
    more = f"holds {bytes_text(r.temporary_bytes)} between {plural(r.kernels, 'kernel')}"
    by = f"{how} by {r.slower_us:.1f} us" if r.slower_us >= 0 else f"takes {-r.slower_us:.1f} us less, and {more}"
    lines = [f"  runner-up: {r.description}, {plural(r.kernels, 'kernel')}, {r.us:.1f} us, {bytes_text(r.dram_bytes)}; it {by}"]
    lines.append(f"    most of it is {t.words}: {t.plan_us:.1f} us here, {t.other_us:.1f} us there ({t.difference_us:+.1f} us)")
    rest = [f"{x.words} {x.difference_us:+.1f}" for x in r.terms[1:] if abs(x.difference_us) > 1e-3]
    if rest:
        lines.append("    the other terms: " + ", ".join(rest))
    return lines


def _runner_data(r: RunnerUp) -> dict[str, Any]:
    return {**{k: v for k, v in vars(r).items() if k != "terms"}, "term": r.term.term, "terms": term_data(r.terms)}


def strict(x: Any) -> Any:
    """JSON has no infinities."""
    if isinstance(x, float):
        return x if math.isfinite(x) else None
    if isinstance(x, Mapping):
        return {k: strict(v) for k, v in x.items()}
    return [strict(v) for v in x] if isinstance(x, list | tuple) else x


def explain(
    graph: FrozenGraph, plan: Plan, target: Target | None = None, *, options: Options | None = None, costs: bool = False
) -> Explanation:
    """Explain a plan.

    ``target``: the device that it was made for, where its name is none of ``eqfuse.targets()``.  ``options``: how it was made.
    ``costs=True`` also asks what each step of the chain saves, which takes a search per step, and what each rule does, which takes a
    saturation and a search per rule.
    """
    try:
        study = Study(graph, plan, target or load_target(plan.target), options or Options())
    except UnknownTargetError:
        study = None
    launch = study.target.launch_us if study else 0.0
    steps = study.derivation.steps if study else ((),) * len(plan.steps)
    kernels = []
    for k, planned in enumerate(plan.steps):
        cost = planned.cost
        computes = study.computes(k) if study else ()
        stores, loads = tuple(b.name for b in planned.stores), tuple(sorted(planned.loads))
        terms = shares(cost, launch)
        if isinstance(planned, PlannedCall):
            outside = ":".join(planned.call.entry)
            kernels.append(KernelExplanation(
                planned.call.name, stores, loads, (planned.rule,), {}, cost.us, cost.bound, cost.dram_bytes, terms, computes,
                outside, planned.where,
            ))  # fmt: skip
        else:
            kernels.append(KernelExplanation(
                planned.kernel.name, stores, loads, planned.rules, dict(planned.passes), cost.us, cost.bound, cost.dram_bytes, terms,
                computes, steps=steps[k],
            ))  # fmt: skip
    return Explanation(
        plan.program.name,
        plan.target,
        tuple(kernels),
        plan.baseline_bytes - plan.dram_bytes,
        plan.baseline_us - plan.estimated_us,
        f"{graph.report.enodes} e-nodes, stopped: {graph.report.stopped}",
        tuple(
            {"description": a.description, "reason": a.reason, "us": a.us if math.isfinite(a.us) else None, "kernels": a.kernels}
            for a in plan.alternatives
        )
        + tuple({"description": "an offer not taken", "reason": why, "us": None, "kernels": 0} for why in plan.refused),
        plan.stopped,
        plan.splits,
        _rewritten(graph, plan),
        plan.notes,
        tuple(launch_lines(plan)),
        study,
        costs,
    )


__all__ = [
    "SCHEMA", "VERDICTS", "Chain", "Effect", "Explanation", "KernelExplanation", "Options", "Part", "Priced", "Rewritten", "RunnerUp",
    "Saving", "Share", "Step", "Value", "Why", "explain",
]  # fmt: skip
