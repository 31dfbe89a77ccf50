"""What a plan was chosen from: its extraction run once more, keeping the covers that lost, and open for further questions.

Extraction is deterministic, so the second run meets the same covers; every kernel that it priced is remembered, and a question
about another kernel is answered by lowering and pricing that one.  It runs when a question first needs it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

from ..egraph import saturate
from ..egraph.frozen import FrozenGraph
from ..egraph.run import splits_of
from ..errors import EqFuseError, PlanError
from ..extract.covers import Cover, Extractor
from ..extract.plan import Plan, PlannedKernel
from ..extract.search import Rejection, RootSpec
from ..extract.targets import Target
from ..rewrites.rule import Rule
from .costs import Planned, TermDifference, compare, times
from .derivation import Derivation, rules_by_name

MOST_RULES = 16  # rules that are left out, one at a time, to see what each saves


@dataclass(frozen=True)
class Options:
    """How the plan was made: what ``optimize`` was given."""

    rules: tuple[Rule, ...] | None = None  # those of the saturation; by default the registered ones of the same names
    objective: str = "time"
    memory_limit: float | None = None
    node_budget: int = 20_000
    time_budget: float = 10.0


@dataclass(frozen=True)
class RunnerUp:
    """The best plan that lost.  ``terms`` add up to the difference of the times, the term that decided first; a negative one says that
    the plan holds less memory, or has fewer kernels for the same time.  ``searched`` is false for a plan that the search did not need to
    price."""

    description: str
    kernels: int
    us: float
    dram_bytes: int
    temporary_bytes: int
    slower_us: float
    terms: tuple[TermDifference, ...]
    searched: bool = True

    @property
    def term(self) -> TermDifference:
        """The term that it lost by."""
        return self.terms[0]


@dataclass(frozen=True)
class Saving:
    """What the plan gains by a rule: the best plan without it, minus this one.  ``note`` says so if there is none."""

    rule: str
    us: float | None
    dram_bytes: int | None
    kernels: int | None  # of the plan without it
    note: str = ""


class Study:
    """One plan, its graph and target, and what can be asked of them."""

    def __init__(self, graph: FrozenGraph, plan: Plan, target: Target, options: Options) -> None:
        self.graph, self.plan, self.target, self.options = graph, plan, target, options
        self.rules = {**rules_by_name(), **{r.name: r for r in options.rules or ()}}
        self.derivation = Derivation(graph, plan, self.rules)
        self.names = self.derivation.names

    def computes(self, k: int) -> tuple[str, ...]:
        """The named values that a step of the plan works out."""
        made = self.derivation.kernels[k].computed
        best = self.names.labels
        return tuple(n for n in self.names.spoken if (c := self.names.cls[self.names.table[n]]) in made and best.get(c) == n)

    # the search again ----------------------------------------------------------------------------------------------------------
    def extracts(self, graph: FrozenGraph, *, time_budget: float | None = None) -> Extractor:
        """An extractor over a graph, with the options that the plan was made with."""
        return Extractor(
            graph,
            self.target,
            time_budget=self.options.time_budget if time_budget is None else time_budget,
            objective=self.options.objective,
            memory_limit=self.options.memory_limit,
            exact=self.plan.licence == "exact",
            register_shares=self.plan.register_shares,
        )

    @cached_property
    def extractor(self) -> Extractor:
        """An extractor to ask for single kernels."""
        return self.extracts(self.graph, time_budget=math.inf)

    def _lost(self) -> tuple[list[Cover], bool]:
        """Priced covers that lost to the plan, and whether the search itself priced them.

        A search that ran out of time would do so again: then, as where it priced no other cover, the two ends are priced, one kernel
        for everything and one for every reduction.
        """
        ex = self.extracts(self.graph)
        if self.plan.stopped not in ("time", "clock"):
            with suppress(PlanError):
                ex.run()
        mine = [k.cost for k in self.plan.steps]
        lost = [c for c in ex.record.lost if [k.cost for k in c.steps] != mine]
        if lost:
            return lost, True
        with ex.meter.within(math.inf, 0.5):
            one = ex.one()
        ends = (one, ex.maker.chain(ex.points.worth_storing, "one kernel per reduction"))
        return [c for c in ends if isinstance(c, Cover) and [k.cost for k in c.steps] != mine], False

    def times(self, steps: tuple[Planned, ...]) -> dict[str, float]:
        """Modelled time by term."""
        return times(steps, self.target.launch_us)

    def against(self, steps: tuple[Planned, ...]) -> tuple[TermDifference, ...]:
        """Another plan against this one, term by term."""
        return compare(self.times(self.plan.steps), self.times(steps))

    @cached_property
    def runner_up(self) -> RunnerUp | None:
        """The best plan that lost."""
        if self.plan.stopped == "like":
            return None
        lost, searched = self._lost()
        if not lost:
            return None
        best = min(lost, key=lambda c: c.us)
        slower = best.us - self.plan.separate_us
        terms = self.against(best.steps)
        return RunnerUp(best.description, len(best.steps), best.us, best.dram_bytes, best.temporary_bytes, slower, terms, searched)

    # what rules are worth ------------------------------------------------------------------------------------------------------
    def without(self, names: Collection[str], *, everything: bool = False) -> Plan:
        """The plan of the same program saturated without some rules, or without any."""
        known = self.rules
        missing = [r.rule for r in self.graph.report.rules if r.rule not in known]
        if missing and not everything:
            raise PlanError(f"the rule {missing[0]} is not registered any more", cure="register it again to ask what rules save")
        graph = saturate(
            self.graph.program,
            rules=() if everything else tuple(known[r.rule] for r in self.graph.report.rules if r.rule not in names),
            splits=splits_of(self.graph.facts.get("split", ())),
            node_budget=self.options.node_budget,
            time_budget=self.options.time_budget,
        )
        return self.extracts(graph).run()

    @cached_property
    def as_written(self) -> Plan:
        """The plan of the program without any rule."""
        return self.without((), everything=True)

    @cached_property
    def savings(self) -> dict[str, Saving]:
        """What each rule of the plan saves, and under ``""`` what all rules together do."""
        used = list(dict.fromkeys(s.rule for steps in self.derivation.steps for s in steps))
        used += [call.rule for call in self.plan.calls if call.rule not in used]
        fired = {r.rule for r in self.graph.report.rules}
        used = [r for r in used if r in fired]
        found = {r: self._saving(r) for r in used[:MOST_RULES]}
        found |= {r: Saving(r, None, None, None, "not asked: too many rules") for r in used[MOST_RULES:]}
        return found | {"": self._saving("")}

    def _saving(self, name: str) -> Saving:
        try:
            other = self.without({name}) if name else self.as_written
        except EqFuseError as error:
            return Saving(name, None, None, None, f"no plan without it: {error.message}")
        us = other.estimated_us - self.plan.estimated_us
        bytes_ = other.dram_bytes - self.plan.dram_bytes
        same = len(other.steps) == len(self.plan.steps) and abs(us) < 1e-9 and bytes_ == 0
        return Saving(name, us, bytes_, len(other.steps), "the best plan costs the same" if same else "")

    # kernels that are not in the plan --------------------------------------------------------------------------------------------
    def spec(self, c: int, buffer: str) -> RootSpec:
        """How a class is stored: as the output that it is, or as a temporary."""
        ex = self.extractor
        return next((o for o in ex.outputs if o.buffer == buffer), None) or ex.maker.stored.temporary(c, buffer)

    def ask(self, roots: Mapping[str, int], leaves: Mapping[str, int]) -> PlannedKernel | Rejection:
        """The best kernel that stores some classes, given that others are stored already (both: buffer -> class)."""
        ex = self.extractor
        at = {c: ex.maker.leaf(self.spec(c, b)) for b, c in leaves.items()}
        return ex.maker.kernel(tuple(self.spec(c, b) for b, c in roots.items()), at)

    @cached_property
    def lifted(self) -> Study:
        """The same without the verdicts of fusion rules."""
        graph = replace(self.graph, facts={**self.graph.facts, "fuse": ()})
        return Study(graph, self.plan, self.target, self.options)
