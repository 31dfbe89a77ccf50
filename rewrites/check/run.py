"""Running the checks: one rule, or many, with every oracle that applies.

Each conclusion of a rule is looked at in many drawn worlds (:mod:`.draw`); a failing world is shrunk by Hypothesis and shown by
:mod:`.show`.  A conclusion that no world could test refutes the rule as well: what cannot be checked cannot be trusted.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, assume, find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample, Unsatisfiable

from ...errors import OptionError, RuleError, UnsoundRuleError, expect, shown
from ...ir.semantics import Noise, Undefined
from .. import table
from ..patterns import SORTS, NameVar
from ..relations import RELATIONS, Relation, Row, Trait
from ..rule import ITERS, Rule
from ..world import World
from . import compare, integers, layouts, loops
from .compact import compact
from .compare import Observation, Pair, Truth, certain, compared, lasting, moved_little, rounded_away, suspicious
from .draw import Chooser, Tape, Unusable, draw_world, shrink
from .observe import observe
from .show import describe, snippet
from .solve import Unsatisfied, solve
from .sweep import DRAWN, Sweep, sweeps
from .variables import Plan, claims_nothing

EXAMPLES = 400  # of one rule's check
CI_EXAMPLES = 200  # of each rule in the CI profile
PATIENCE = 1000  # more examples where some conclusion has been tested on fewer numbers than the least
LEAST = 5  # numbers of which a conclusion has to be tested
LOWERED = 100  # tries to lower the choices that led to a failing world, before its numbers are made fewer and rounder
EIGHTH = 8  # so many examples are there for one of Hypothesis, which takes four times as long as one of the tape
ORACLES = ("arrays", "rationals", "loops", "integers", "places")


def _world(choose: Chooser, plan: Plan, mode: str, sweep: Sweep = DRAWN) -> World | None:
    """A drawn world, or ``None`` if the choices lead to none."""
    with np.errstate(all="ignore"):
        try:
            return draw_world(choose, plan, mode, sweep)
        except (Unusable, Undefined):
            return None


@st.composite
def _worlds(draw: Any, plan: Plan, mode: str) -> World:
    world = _world(lambda options: draw(options.strategy), plan, mode)
    assume(world is not None)
    assert world is not None
    return world


@dataclass(frozen=True)
class Finding:
    """The first conclusion of a world that is false."""

    fact: Any
    number: int  # of the conclusion
    seen: Observation
    world: World


def test_world(plan: Plan, drawn: World, seen: Counter[int]) -> Finding | None:
    """Every conclusion in one world; ``seen`` counts the numbers compared, by conclusion.

    A failure in float64 is confirmed in longer floats before it is one.
    """
    try:
        with np.errstate(all="ignore"):
            world = solve(plan, drawn)
    except (Unsatisfied, Undefined):
        return None
    for number, fact in enumerate(plan.rule.gives):
        try:
            with np.errstate(all="ignore"):
                observations = list(observe(plan, fact, world))
        except Undefined:
            continue
        for k, o in enumerate(observations):
            seen[number] += compared(o, world)
            if np.any(suspicious(o, world)) and _stands(plan, number, k, o, drawn, world):
                return Finding(fact, number, o, world)
    return None


test_world.__test__ = False  # type: ignore[attr-defined]  # not a test for pytest, whatever its name


def _stands(plan: Plan, number: int, k: int, o: Observation, drawn: World, world: World) -> bool:
    """Whether what looks false is: longer floats have to say so, and then fractions, where they can be computed."""
    if world.rational or world.bitwise or hasattr(plan.rule.gives[number], "test"):
        return True
    return _stands_in_floats(plan, number, k, o, drawn, world) and _stands_in_fractions(plan, number, k, o, drawn, world)


def _stands_in_floats(plan: Plan, number: int, k: int, o: Observation, drawn: World, world: World) -> bool:
    longer = replace(drawn, dtype=compare.LONG or float, strict=True, values={n: _longer(v) for n, v in drawn.values.items()})

    def look(noisy: Noise | None = None) -> tuple[World, Observation] | None:
        try:
            with np.errstate(all="ignore"):
                solved = solve(plan, replace(longer, noisy=noisy, sizes=[]))
                return solved, list(observe(plan, plan.rule.gives[number], solved))[k]
        except (FloatingPointError, Unsatisfied, Undefined):
            return None

    def look_with_errors(seed: int) -> Observation | None:
        found = look(Noise(float(compare.NOISE * compare.EPS), np.random.default_rng(seed)))
        return found[1] if found else None

    second = look()
    if second is None:
        return any(_stands_at(plan, number, k, place) for place in _places(plan, o, drawn, world))
    solved, again = second
    if isinstance(o, Truth) or isinstance(again, Truth):
        if not isinstance(o, Truth) or not isinstance(again, Truth) or again.holds:
            return isinstance(again, Truth) and not again.holds
        return not rounded_away(o, again, look_with_errors)
    bad = lasting(o, again, world)
    if not bad.any():
        return False
    if plan.jumps and certain(bad, again, solved):  # errors would move a jump by all of its height
        return True
    noisy = [look_with_errors(seed) for seed in range(compare.NOISES)]
    return all(n is not None for n in noisy) and moved_little(bad, again, [n for n in noisy if isinstance(n, Pair)])


FEW = 2048  # numbers of an example that is computed in fractions as a whole


def _stands_in_fractions(plan: Plan, number: int, k: int, o: Observation, drawn: World, world: World) -> bool:
    """Whether fractions agree that a conclusion is false; also where they cannot say.  Floats absorb terms (1 + 1e-30 is 1), and a jump, a
    difference or a condition makes anything of what is lost."""
    if not plan.rational:
        return True
    numbers = sum(v.size for v in drawn.values.values() if isinstance(v, np.ndarray))
    if numbers <= FEW and (verdict := _false_in_fractions(plan, number, k, drawn)) is not None:
        return verdict
    places = list(_places(plan, o, drawn, world))
    for place in places:
        verdict = _false_in_fractions(plan, number, k, place)
        if verdict or (verdict is None and _stands_at(plan, number, k, place, fractions=False)):
            return True
    return not places and (numbers <= FEW or _false_in_fractions(plan, number, k, drawn) is not False)


def _false_in_fractions(plan: Plan, number: int, k: int, drawn: World) -> bool | None:
    """Whether a conclusion is false of the drawn numbers, computed exactly; ``None`` if that cannot be done."""
    try:
        values = {n: _exactly(v) for n, v in drawn.values.items()}
        with np.errstate(all="ignore"):
            world = solve(plan, replace(drawn, dtype=object, values=values))
            return bool(np.any(suspicious(list(observe(plan, plan.rule.gives[number], world))[k], world)))
    except Unsatisfied:
        return False
    except (Undefined, OverflowError, ValueError):  # infinite, or no number
        return None


def _exactly(value: Any) -> Any:
    """Floats as the fractions that they are."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        out = np.empty(value.shape, dtype=object)
        out.reshape(-1)[:] = [Fraction(v) for v in value.reshape(-1).tolist()]
        return out
    return Fraction(value) if isinstance(value, float) else value


PLACES = 6  # at which an example is looked at alone


def _places(plan: Plan, o: Observation, drawn: World, world: World) -> Iterator[World]:
    """The example at single suspicious places of the axes that are not the rule's: an overflow elsewhere says nothing of these."""
    ruled = {int(drawn.values[a.name]) for a in plan.axes}
    others = [d for d, n in enumerate(drawn.extents) if d not in ruled and n > 1]
    if not others:
        return
    bad = np.argwhere(suspicious(o, world))[:, others] if suspicious(o, world).ndim == len(drawn.extents) else np.empty((0, 0), int)
    for place in np.unique(bad, axis=0)[:PLACES]:
        at = dict(zip(others, place.tolist(), strict=True))
        values = {n: _at(v, at) if isinstance(v, np.ndarray) else v for n, v in drawn.values.items()}
        yield replace(drawn, values=values, extents=tuple(1 if d in at else n for d, n in enumerate(drawn.extents)))


def _at(x: np.ndarray, place: Mapping[int, int]) -> np.ndarray:
    """An array at one place of some dimensions, which stay."""
    return x[tuple(slice(place[d], place[d] + 1) if d in place and n > 1 else slice(None) for d, n in enumerate(x.shape))]


def _stands_at(plan: Plan, number: int, k: int, drawn: World, fractions: bool = True) -> bool:
    """Whether the conclusion fails, and stands, in an example that has no other axes left."""
    stands = _stands if fractions else _stands_in_floats
    try:
        with np.errstate(all="ignore"):
            world = solve(plan, drawn)
            o = list(observe(plan, plan.rule.gives[number], world))[k]
    except (Unsatisfied, Undefined):
        return False
    return bool(np.any(suspicious(o, world))) and stands(plan, number, k, o, drawn, world)


def _longer(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and compare.LONG is not None:
        return value.astype(compare.LONG)
    return value


@dataclass(frozen=True)
class RuleReport:
    """What the checks of one rule looked at."""

    rule: Rule
    examples: int = 0  # worlds that were drawn
    numbers: int = 0  # numbers compared
    checks: int = 0  # conclusions times oracles that looked at them
    oracles: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    stopped: bool = False  # before it had tried all examples, since its time was up
    error: RuleError | None = None


def check_rule(rule: Rule, examples: int = EXAMPLES, oracles: Iterable[str] = ORACLES, *, seconds: float = math.inf) -> RuleReport:
    """Test a rule; raises :class:`~eqfuse.errors.UnsoundRuleError` with the smallest counterexample found, or
    :class:`~eqfuse.errors.RuleError` if a conclusion could not be tested at all, its meaning raised an error, or it is no rule.
    ``examples`` is at least 1 and ``oracles`` are some of ``ORACLES``; else :class:`~eqfuse.errors.OptionError`.  No example is begun
    when it has taken so many ``seconds``; the report says if it ``stopped``."""
    table.known(rule)
    wanted = _asked(examples, oracles)
    expect(isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds >= 0, "seconds", seconds, "a number, 0 or more")
    start = time.perf_counter()
    end = start + min(seconds, 1e9)
    try:
        possible = [one for one in rule.instances if all(Plan(one).choices.values())]  # there is no such op of three arguments
        if not possible:
            raise _nothing_named(rule)
        found = [_check(one, examples, wanted, end) for one in possible]
        return _together(rule, found, time.perf_counter() - start)
    except RuleError:
        raise
    except Exception as error:  # a user's relation, op or test
        raise RuleError(
            f"rule {rule.name}: its check raised {type(error).__name__}: {error}",
            where=rule.where,
            cure="mend the op, or the meaning of the relation, that the traceback names",
        ) from error


def _nothing_named(rule: Rule) -> RuleError:
    """What is said of a rule whose premises no op, reduction or type has."""
    plan = Plan(rule.instances[0])
    name = next(n for n, choices in plan.choices.items() if not choices)
    asked = [f for f in plan.rule.needs if any(isinstance(p, NameVar) and p.name == name for p in f.parts())]
    premises = [f"{_called(f.relation)}({', '.join(getattr(a, 'name', str(a)) for a in f.args)})" for f in asked if isinstance(f, Row)]
    sort = SORTS[plan.variables[name].sort][0]
    near = [f"{_called(other)} is true of {', '.join(some[:3])}" for f in asked if isinstance(f, Row) for other, some in _weaker(f)]
    return RuleError(
        f"rule {rule.name}: no {sort} has what its premises ask of {name}: {', '.join(premises) or 'see its annotation'}",
        where=rule.where,
        cure="; ".join(near) or "weaken the premises",
    )


def _called(relation: Relation) -> str:
    return relation.name.replace("-", "_")


def _weaker(row: Row) -> Iterator[tuple[Relation, list[str]]]:
    """Relations of the same columns that say something like it of a part of the numbers, and what has it."""
    for other in RELATIONS.values():
        if other.name.startswith(f"{row.relation.name}-") and other.columns == row.relation.columns and isinstance(other.meaning, Trait):
            literals = row.args[1:]
            if found := [r[0] for r in other.meaning.rows() if r[1:] == literals]:
                yield other, found


def _asked(examples: int, oracles: Iterable[str]) -> tuple[str, ...]:
    """The oracles that were asked for."""
    good = isinstance(examples, int) and not isinstance(examples, bool) and examples >= 1
    expect(good, "examples", examples, f"a whole number above 0; the default is {EXAMPLES}")
    cure = f"some of {', '.join(ORACLES)}, in a list"
    expect(isinstance(oracles, str | list | tuple | set | frozenset), "oracles", oracles, cure)
    wanted = (oracles,) if isinstance(oracles, str) else tuple(oracles)
    for oracle in wanted:
        if not isinstance(oracle, str) or oracle not in ORACLES:
            raise OptionError(f"no oracle is called {shown(oracle)}", cure=cure)
    return wanted


def _together(rule: Rule, found: Collection[RuleReport], seconds: float) -> RuleReport:
    """The checks of all instances of a rule as one."""
    return RuleReport(
        rule,
        sum(r.examples for r in found),
        sum(r.numbers for r in found),
        sum(r.checks for r in found),
        tuple(dict.fromkeys(o for r in found for o in r.oracles)),
        tuple(dict.fromkeys(n for r in found for n in r.notes)),
        seconds,
        any(r.stopped for r in found),
    )


def _check(rule: Rule, examples: int, wanted: Collection[str], end: float) -> RuleReport:
    """The check of one instance of a rule."""
    plan = Plan(rule)
    claims = [k for k, f in enumerate(rule.gives) if not claims_nothing(rule, f)]
    report = RuleReport(rule)
    if not claims:
        return replace(report, notes=("claims nothing",))
    if rule.phase == ITERS:
        count, seen = layouts.check_layouts(rule, examples, end) if "places" in wanted else (0, Counter())
        _tested(rule, claims if "places" in wanted else [], seen)
        return replace(_add(report, "places", count, sum(seen.values()), len(claims)), stopped=time.perf_counter() > end)
    modes = {"arrays": "exact" if rule.licence == "exact" else "real", "rationals": "rational"}
    for oracle, mode in modes.items():
        if oracle not in wanted:
            continue
        runs = examples if oracle == "arrays" else max(20, examples // 4)
        count, seen = _search(plan, mode, runs, end)
        if oracle == "arrays":
            _tested(rule, claims, seen, LEAST if time.perf_counter() < end else 1)
        if any(seen.values()):
            report = _add(report, oracle, count, sum(seen.values()), sum(1 for k in claims if seen[k]))
    if "loops" in wanted:
        runs, numbers = loops.check_loops(plan, max(10, examples // 4))
        if runs:
            report = _add(report, "loops", runs, numbers, 3)
    if "integers" in wanted:
        verdict = integers.check_integers(plan)
        if verdict.proved:
            report = _add(report, "integers", 0, 0, verdict.proved)
        if verdict.note:
            report = replace(report, notes=(*report.notes, verdict.note))
    return replace(report, stopped=time.perf_counter() > end)


def _tested(rule: Rule, claims: Collection[int], seen: Counter[int], least: int = 1) -> None:
    """Refuse a rule of which a conclusion was not tested, or hardly."""
    if untested := [k for k in claims if seen[k] < least]:
        found = seen[untested[0]]
        how = f"only {found} numbers satisfied" if found else "no example satisfied"
        raise RuleError(
            f"rule {rule.name}: {how} its premises with a finite result (conclusion {untested[0] + 1})",
            where=rule.where,
            cure="a rule that cannot be checked cannot be trusted: weaken the premises or give a relation a meaning",
        )


def _add(report: RuleReport, oracle: str, examples: int, numbers: int, checks: int) -> RuleReport:
    return replace(
        report,
        examples=report.examples + examples,
        numbers=report.numbers + numbers,
        checks=report.checks + checks,
        oracles=(*report.oracles, oracle),
    )


def _search(plan: Plan, mode: str, examples: int, end: float) -> tuple[int, Counter[int]]:
    """Look for a counterexample; (worlds drawn, numbers compared by conclusion)."""
    if mode == "rational" and not plan.rational:
        return 0, Counter()
    seen: Counter[int] = Counter()
    drawn = 0

    def fails(world: World | None) -> bool:
        nonlocal drawn
        if time.perf_counter() > end and drawn:
            return False
        drawn += world is not None
        return world is not None and test_world(plan, world, seen) is not None

    swept = sweeps(plan, mode, examples)
    world = _by_hypothesis(plan, mode, fails, max(examples // EIGHTH, 5)) or _by_sweep(plan, mode, fails, swept)
    drawn_evenly = max(examples - examples // EIGHTH - len(swept), examples // 2)
    world = world or _by_tape(plan, mode, fails, 0, drawn_evenly)
    claims = [k for k, f in enumerate(plan.rule.gives) if not claims_nothing(plan.rule, f)]
    start = examples
    while world is None and mode != "rational" and start < examples + PATIENCE and not all(seen[k] >= LEAST for k in claims):
        world = _by_tape(plan, mode, fails, start, start + 50)  # premises that hardly any world obeys
        start += 50
    if world is None:
        return drawn, seen
    world = compact(plan, world, lambda w: test_world(plan, w, Counter()) is not None)
    finding = test_world(plan, world, Counter())
    assert finding is not None, "a check must be deterministic"
    rule = plan.rule
    raise UnsoundRuleError(
        f"rule {rule.name} is false: {describe(plan, finding.fact, finding.seen, finding.world)}"
        f"{snippet(plan, finding.fact, finding.seen, finding.world)}",
        where=rule.where,
        cure=getattr(finding.fact, "cure", "add the missing condition"),
    )


def _by_hypothesis(plan: Plan, mode: str, fails: Callable[[World], bool], examples: int) -> World | None:
    options = settings(
        max_examples=examples,
        database=None,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    try:
        return find(_worlds(plan, mode), fails, settings=options)
    except (NoSuchExample, Unsatisfiable):
        return None


def _by_sweep(plan: Plan, mode: str, fails: Callable[[World | None], bool], swept: Iterable[Sweep]) -> World | None:
    for sweep in swept:
        tape = Tape(sweep.seed)
        if fails(_world(tape, plan, mode, sweep)):
            marks = shrink(tape.marks, lambda m: fails(_world(Tape(None, m), plan, mode, sweep)), LOWERED)  # noqa: B023
            return _world(Tape(None, marks), plan, mode, sweep)
    return None


def _by_tape(plan: Plan, mode: str, fails: Callable[[World | None], bool], first: int, last: int) -> World | None:
    for seed in range(first, last):
        tape = Tape(seed)
        if fails(_world(tape, plan, mode)):
            marks = shrink(tape.marks, lambda m: fails(_world(Tape(None, m), plan, mode)), LOWERED)
            return _world(Tape(None, marks), plan, mode)
    return None


@dataclass(frozen=True)
class CheckSummary:
    """The check of many rules."""

    reports: tuple[RuleReport, ...]
    seconds: float
    law_checks: int = 0  # laws of the monoids, which every merge of partial results rests on

    @property
    def rules(self) -> int:
        """Rules tested."""
        return len(self.reports)

    @property
    def examples(self) -> int:
        """Worlds drawn."""
        return sum(r.examples for r in self.reports)

    @property
    def checks(self) -> int:
        """Conclusions times the oracles that looked at them, and laws of monoids."""
        return sum(r.checks for r in self.reports) + self.law_checks

    @property
    def numbers(self) -> int:
        """Numbers compared."""
        return sum(r.numbers for r in self.reports)

    @property
    def examples_per_second(self) -> float:
        """Worlds drawn, solved and compared per second."""
        return self.examples / max(self.seconds, 1e-9)

    @property
    def failures(self) -> tuple[RuleReport, ...]:
        """Rules that are false, or that nothing could test."""
        return tuple(r for r in self.reports if r.error)

    def by_oracle(self) -> dict[str, int]:
        """How many rules each oracle looked at."""
        return {o: sum(1 for r in self.reports if o in r.oracles) for o in ORACLES}

    def notes(self) -> Counter[str]:
        """What was left out, and for how many rules."""
        return Counter(n for r in self.reports for n in r.notes)

    def __str__(self) -> str:
        seen = ", ".join(f"{o} {n}" for o, n in self.by_oracle().items())
        return (
            f"{self.rules - len(self.failures)} of {self.rules} rules hold: {self.checks} checks, {self.examples} examples, "
            f"{self.numbers} numbers compared in {self.seconds:.1f} s ({self.examples_per_second:.0f} examples/s); rules by oracle: {seen}"
        )


def check_all(
    rules: Iterable[Rule] | None = None,
    *,
    examples: int = CI_EXAMPLES,
    oracles: Iterable[str] = ORACLES,
    progress: Callable[[Rule, RuleReport | None], None] = lambda rule, report: None,
) -> CheckSummary:
    """Test every registered rule (or those given); failures are collected in the summary, not raised.

    ``progress`` is called before each rule with ``None`` and after it with its report.
    """
    start, wanted = time.perf_counter(), _asked(examples, oracles)
    reports = []
    for rule in table.rules() if rules is None else [table.known(r) for r in rules]:
        progress(rule, None)
        begun = time.perf_counter()
        try:
            report = check_rule(rule, examples, wanted)
        except RuleError as error:
            report = RuleReport(rule, seconds=time.perf_counter() - begun, error=error)
        progress(rule, report)
        reports.append(report)
    laws = loops.check_monoids() if "loops" in wanted else 0
    return CheckSummary(tuple(reports), time.perf_counter() - start, laws)
