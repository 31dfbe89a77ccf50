"""The whole path, fuzzed: one random program through every stage that a user's program goes through, each checked against the reference.

=============  ==================================================================================================================
``meaning``    of a program that was read from torch: what torch computes in float64
``saturate``   all registered rules, of every licence; now and then with a split axis
``audit``      every e-node evaluated at the program's data, and at data of the audit's own
``plan``       extraction for a target; the cover with a split axis too, if there is one
``simulate``   the planned kernels in float64 numpy, tile by tile
``tiles``      the nodes that extraction chooses under random roles and small random tiles, in numpy: loops, masks and repairs at
               sizes at which a plan would keep whole rows on chip.  Where it is known which columns a row sees, a loop that ends
               where data say visits no tile beyond those of its rows
``hazards``    no overflow or cancellation source that the program did not have: a static check, confirmed in float32
``interpret``  the printed Triton module in Triton's interpreter with its sanitizer, in the program's own types
=============  ==================================================================================================================

A program is *filtered*, and counted, only if its float64 reference is not finite or moves by whole steps under rounding.  The first
disagreement is a finding; ``minimal`` makes it small.  Every check has a tolerance made from the program itself (:mod:`.conditioning`).
A program that takes longer than a limit is a finding, too, with the stage and the place where it was (:mod:`.watchdog`).
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

import numpy as np

from ...codegen.module import emit_module
from ...egraph.audit import audit
from ...egraph.frozen import FrozenGraph
from ...egraph.saturate import saturate
from ...errors import EqFuseError, PlanError
from ...extract.choose import Chooser
from ...extract.covers import Cover, Extractor
from ...extract.hazards import new_hazards
from ...extract.objective import TIE
from ...extract.plan import Plan
from ...extract.programs import FORMS
from ...extract.targets import Target, load_target
from ...ir.program import Program
from ...ir.reference import evaluate, evaluate_terms
from ...ir.shrink import shrink
from ...ir.source import program_source
from ...ir.terms import Reduce, Scan, Term, postorder
from ...rewrites import registry
from ...runtime.generated import module_spec
from ...tiles.data_edges import FARTHEST
from ...tiles.direct import kernel_from_program
from ...tiles.finish import finish
from ...tiles.lower import lower
from ...tiles.program import Bound, Dot, Loop, TileProgram, edges_of
from ...tiles.simulate import Simulation, simulate
from ...tiles.walk import walk
from .conditioning import relative_move, spread
from .grammar import Drawn, Span, draw_data, draw_program
from .random_programs import free_axes, random_roles
from .watchdog import TooLong, limited

STAGES = ("meaning", "forms", "saturate", "audit", "plan", "simulate", "tiles", "hazards", "interpret")
TARGETS = ("h200", "a100", "mi300x", "b200")
DOUBLE, SINGLE = 2.0**-52, 2.0**-23
UNSTABLE = 1e-6  # how far a disturbance of 1e-12 may move an output
STRESSES = ((1.0, 0.0), (30.0, 0.0), (1.0, 1e3), (1.0, -1e4), (100.0, 1e3), (-300.0, 0.0))  # factor and offset of the data
WORTHLESS = 0.05  # a result that float32 or the program's own narrow types move so far says nothing
NODE_BUDGET = 6000
MOST_STEPS = 50_000  # of the loops of one kernel, all its programs together: numpy takes some ten seconds for them
LONG = 100  # an axis that small tiles would cut into too many
LIMIT = 120.0  # seconds of processor time for one program: they take one, on an old machine a few


@dataclass(frozen=True)
class Finding:
    """A program for which two links of the chain disagree."""

    seed: int
    stage: str
    message: str
    program: Program | None  # None: it could not even be drawn
    minimal: str = ""  # runnable code

    def __str__(self) -> str:
        text = self.minimal or (str(self.program) if self.program is not None else "")
        return f"seed {self.seed}, {self.stage}: {self.message}\n{text}"


@dataclass
class Tally:
    """What a run looked at."""

    programs: int = 0
    filtered: Counter[str] = field(default_factory=Counter)
    stages: Counter[str] = field(default_factory=Counter)  # programs that passed a stage
    skipped: Counter[str] = field(default_factory=Counter)  # "stage: reason"
    covered: Counter[str] = field(default_factory=Counter)
    taken_back: Counter[str] = field(default_factory=Counter)
    audit: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)  # programs in which a rule matched
    stopped: Counter[str] = field(default_factory=Counter)
    alarms: int = 0  # plans in which the static check found a hazard that the program does not have
    seconds: Counter[str] = field(default_factory=Counter)  # CPU seconds per stage
    findings: list[Finding] = field(default_factory=list)
    at: tuple[int, str] = (-1, "")  # the seed and the stage at hand

    def add(self, other: Tally) -> None:
        """What was looked at elsewhere, too."""
        for f in fields(self):
            mine, more = getattr(self, f.name), getattr(other, f.name)
            if f.name == "at":
                self.at = more
            elif isinstance(mine, Counter):
                mine.update(more)
            else:
                setattr(self, f.name, mine + more)


class Disagreement(Exception):
    """A stage found something; internal."""

    def __init__(self, stage: str, message: str, inputs: Mapping[str, np.ndarray] | None = None) -> None:
        self.stage, self.message, self.inputs = stage, message, inputs  # None: those that the program was drawn with
        super().__init__(f"{stage}: {message}")


def fuzz(
    seeds: range,
    *,
    interpret_every: int = 0,
    shrink_seconds: float = 20.0,
    report: Callable[[int, Tally], bool] | None = None,
    limit: float = LIMIT,
    stuck: Callable[[Tally, Finding], None] | None = None,
    draw: Callable[[int], Drawn] = draw_program,
) -> Tally:
    """Every seed through the whole path.  ``interpret_every``: how often the interpreter runs (0: never); ``report`` is called after
    each with its tally, and says whether to stop there.  ``limit``: seconds of processor time for one program, 0 for any
    (:func:`.watchdog.limited`); ``stuck`` is called with the tally of the program at hand, in another thread, where native code does not
    return; it must end the process."""
    total = Tally()
    for seed in seeds:
        tally, interpret = Tally(), bool(interpret_every) and seed % interpret_every == 0
        one(seed, tally, interpret=interpret, shrink_seconds=shrink_seconds, limit=limit, stuck=stuck, draw=draw)
        total.add(tally)
        if report is not None and report(seed, tally):
            break
    return total


def one(
    seed: int,
    tally: Tally,
    *,
    interpret: bool = False,
    shrink_seconds: float = 20.0,
    limit: float = LIMIT,
    stuck: Callable[[Tally, Finding], None] | None = None,
    draw: Callable[[int], Drawn] = draw_program,
) -> None:
    """One seed; counts and findings go to the tally."""
    drawn: Drawn | None = None

    def finding(message: str, stack: str) -> Finding:
        source = program_source(drawn.program) if drawn is not None else ""
        return Finding(seed, tally.at[1], f"{message}, at\n{stack}", drawn.program if drawn is not None else None, source)

    def hangs(message: str, stack: str) -> None:
        if stuck is not None:
            stuck(tally, finding(message, stack))

    tally.programs += 1
    tally.at = seed, "draw"
    failed: Disagreement | None = None
    try:
        with limited(limit, hangs if stuck is not None else None):
            started = time.process_time()
            drawn = draw(seed)
            tally.seconds["draw"] += time.process_time() - started  # type: ignore[assignment]
            tally.taken_back += drawn.taken_back
            reason = filtered(drawn.program, drawn.inputs)
            if reason is not None:
                tally.filtered[reason] += 1
                return
            tally.covered.update(drawn.used.keys())
            check(drawn.program, drawn.inputs, seed, interpret=interpret, tally=tally, drawn=drawn)
    except TooLong as e:
        tally.findings.append(finding(str(e), e.stack))
    except EqFuseError as e:  # of a program that is read from torch
        tally.findings.append(Finding(seed, "draw", "\n".join([f"raised {type(e).__name__}: {e}", *getattr(e, "__notes__", ())]), None))
    except Disagreement as d:
        failed = d
    if failed is not None and drawn is not None:
        small = drawn.program
        with suppress(TooLong), limited(limit + shrink_seconds if limit else 0.0):
            small = minimal(drawn, seed, failed, shrink_seconds)
        said = f"{failed.message}\n{drawn.source}".rstrip()
        tally.findings.append(Finding(seed, failed.stage, said, drawn.program, program_source(small)))


def filtered(program: Program, inputs: Mapping[str, np.ndarray]) -> str | None:
    """Why nothing can be asked of a program, or ``None``."""
    exact = evaluate(program, inputs)
    if any(v.size and not np.isfinite(v).any() for v in exact.values()):
        return "reference not finite"
    if any(v > UNSTABLE for v in spread(program, inputs, 1e-12).values()):
        return "ill-conditioned"
    return None


def minimal(drawn: Drawn, seed: int, first: Disagreement, seconds: float) -> Program:
    """A small program that fails in the same stage."""

    def fails(p: Program) -> bool:
        try:
            data = matching(p, first.inputs or drawn.inputs, seed)
            if filtered(p, data) is not None:
                return False
            check(p, data, seed, interpret=first.stage == "interpret", only=first.stage)
        except Disagreement as d:
            return d.stage == first.stage and bool(_kinds(d) & _kinds(first))
        except (EqFuseError, AssertionError, ValueError, KeyError, IndexError):
            return False
        return False

    return shrink(drawn.program, fails, seconds=seconds)


def _kinds(d: Disagreement) -> set[str]:
    """What a message says, without its numbers: a crash stays a crash of the same class, a hazard one of its kind and level."""
    if d.message.startswith("raised "):
        return {d.message.split(":")[0]}
    return {part.split(":")[0] for part in d.message.split("; ")} if d.stage == "hazards" else {d.stage}


def matching(p: Program, given: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Data for a program: the given arrays where they fit (cut to its sizes where those are smaller), drawn ones elsewhere."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    found = {}
    for i in p.inputs:
        shape = [1 if a is None else a.size for a in i.layout]
        x = given.get(i.name)
        if x is not None and x.ndim == len(shape) and all(n <= m for n, m in zip(shape, x.shape, strict=True)):
            found[i.name] = x[tuple(slice(0, n) for n in shape)]
        else:
            found[i.name] = draw_data(rng, numbers, shape, i.dtype)
    return found


# the stages ------------------------------------------------------------------------------------------------------------------------


def check(
    program: Program,
    inputs: Mapping[str, np.ndarray],
    seed: int,
    *,
    interpret: bool = False,
    tally: Tally | None = None,
    only: str | None = None,
    drawn: Drawn | None = None,
) -> None:
    """Every stage; raises :class:`Disagreement` at the first that fails.  ``only`` leaves out the checks of other stages.  ``drawn``: what
    else is known of the program."""
    path = _Path(program, inputs, seed, tally or Tally(), drawn)
    for stage in STAGES:
        if stage == "interpret" and not interpret:
            continue
        if only is None or stage in (only, "forms", "saturate", "plan"):
            path.run(stage)


def _has_fractions(t: Term) -> bool:
    return t.dtype is not None and t.dtype.is_float


def _whole(program: Program) -> set[str]:
    """The outputs that are made of integers alone."""
    return {o.name for o in program.outputs if o.dtype.kind == "int" and not any(map(_has_fractions, postorder(o.term)))}


def _arranged(program: Program, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The results of a program from its outputs, which may be parts of them."""
    found = dict(values)
    for r in program.results:
        parts = [values[o].reshape(r.flat(k, values[o].shape)) for k, o in enumerate(r.outputs)]
        found[r.name] = np.concatenate(parts, r.along) if len(parts) > 1 else values[r.outputs[0]]
    return found


def differs(program: Program, inputs: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray], tolerance: Mapping[str, float]) -> str:
    """How outputs differ from the reference, where that is finite; empty if they do not."""
    return _difference(evaluate(program, inputs), _whole(program), found, tolerance)


def _difference(exact: Mapping[str, np.ndarray], whole: set[str], found: Mapping[str, np.ndarray], tolerance: Mapping[str, float]) -> str:
    for name, expected in exact.items():
        got = np.asarray(found[name])
        if name in whole and not np.array_equal(got.reshape(expected.shape).astype(np.int64), expected):
            return f"{name} is made of integers alone and differs: {got.ravel()[:8]}, not {expected.ravel()[:8]}"
        error = relative_move(got.astype(float).reshape(expected.shape), expected)
        if not error <= tolerance[name]:
            return f"{name} is off by {error:.1e} of its largest element, {tolerance[name]:.1e} allowed"
    return ""


class _Case:
    """Data for a program, what they should make, and how far that may be off."""

    def __init__(
        self,
        program: Program,
        inputs: Mapping[str, np.ndarray],
        ends: tuple[np.ndarray, np.ndarray] | None,
        meant: Mapping[str, Any] | None,
    ) -> None:
        self.program, self.inputs, self.ends, self.meant = program, inputs, ends, meant
        self.expected = evaluate(program, inputs)
        self.tolerances: dict[bool, dict[str, float]] = {}

    def become(self, program: Program) -> None:
        """Another form of the program is in its place from now on."""
        self.program, self.ends, self.tolerances = program, None, {}

    def tolerance(self, again: bool) -> dict[str, float]:
        """Of an evaluation in float64 that may compute values more than once, or does not; made when first asked for."""
        if again not in self.tolerances:
            moved = spread(self.program, self.inputs, 64 * DOUBLE, again=again)
            self.tolerances[again] = {o: 1e-11 + 4 * e for o, e in moved.items()}
        return self.tolerances[again]


class _Path:
    def __init__(self, program: Program, inputs: Mapping[str, np.ndarray], seed: int, tally: Tally, drawn: Drawn | None = None) -> None:
        self.program, self.inputs, self.seed, self.tally = program, inputs, seed, tally
        self.rng = random.Random(seed)
        self.whole = _whole(program)
        self.span: Span | None = drawn.span if drawn is not None else None
        self.cases: list[_Case] = []
        for k, data in enumerate((inputs, *(drawn.again if drawn is not None else ()))):
            reason = filtered(program, data) if k else None
            if reason is not None:
                self.tally.skipped[f"other data: {reason}"] += 1
                continue
            ends = self.span.ends[k] if self.span is not None else None
            self.cases.append(_Case(program, data, ends, drawn.meant[k] if drawn is not None and drawn.meant else None))
        self.expected = self.cases[0].expected
        self.other = False  # whether the program goes on in another form
        self.graph: FrozenGraph
        self.plans: list[Plan] = []

    def run(self, stage: str) -> None:
        """One stage, timed and counted; what it raises is a finding."""
        started = time.process_time()
        self.tally.at = self.seed, stage
        try:
            passed = getattr(self, stage)()
        except Disagreement:
            raise
        except Exception as e:
            raise Disagreement(stage, f"raised {type(e).__name__}: {e}") from e
        finally:
            self.tally.seconds[stage] += time.process_time() - started  # type: ignore[assignment]
        self.tally.stages[stage] += passed is not False

    def meaning(self) -> bool:
        """The reference computes what torch does, also where that is no number."""
        for case in self.cases:
            for name, found in case.expected.items():
                if case.meant is not None:
                    wanted = case.meant[name].reshape(found.shape)
                    finite = np.isfinite(wanted)
                    size = np.abs(wanted[finite]).max(initial=1.0)
                    allowed = (1e-9 + case.tolerance(True)[name]) * size
                    if not np.allclose(found, wanted, rtol=0.0, atol=allowed, equal_nan=True):
                        raise Disagreement("meaning", f"{name} is {found.ravel()[:8]}, in torch {wanted.ravel()[:8]}", case.inputs)
        return any(case.meant is not None for case in self.cases)

    def forms(self) -> bool:
        """What no rule makes (:mod:`eqfuse.extract.programs.forms`) is the same program; in half of the programs that have some, one of
        them goes on in its place."""
        found = {name: made for name, kind in FORMS.items() if (made := kind.make(self.program)) is not None}
        for name, made in found.items():
            made.check()
            self.tally.covered[f"form {name}"] += 1
            for case in self.cases:
                wrong = _difference(case.expected, self.whole, _arranged(made, evaluate(made, case.inputs)), case.tolerance(True))
                if wrong:
                    raise Disagreement("forms", f"{name}: {wrong}", case.inputs)
        same = [made for made in found.values() if [o.name for o in made.outputs] == [o.name for o in self.program.outputs]]
        if same and self.rng.random() < 0.5:
            self.program, self.span, self.other = self.rng.choice(same), None, True
            for case in self.cases:
                case.become(self.program)
        return bool(found)

    def saturate(self) -> None:
        """All rules; a reduced or scanned axis is split in a third of the programs that have one."""
        folded = (t for t in self.program.terms() if isinstance(t, Reduce | Scan))
        reduced = sorted({t.axis for t in folded if t.axis in t.args[0].axes and t.axis.size > 3})
        splits = {self.rng.choice(reduced): self.rng.choice((2, 3))} if reduced and self.rng.random() < 0.35 else {}
        self.graph = saturate(self.program, rules=registry.active("approx"), splits=splits, node_budget=NODE_BUDGET, time_budget=5.0)
        self.tally.stopped[self.graph.report.stopped] += 1
        self.tally.covered["split axis"] += bool(splits)
        self.tally.rules.update(r.rule for r in self.graph.report.rules if r.matches)

    def audit(self) -> None:
        """At the program's own data, and at the audit's."""
        infinite = not all(np.isfinite(v).all() for v in self.expected.values()) or "inf" in str(self.program)
        for masked, inputs in ((infinite, self.inputs), (infinite, None), (True, None)):
            r = audit(self.graph, self.seed, masked=masked, inputs=inputs, shrink_seconds=0.0)
            for name in ("nodes", "rolls", "facts", "numbers", "skipped"):
                self.tally.audit[name] += getattr(r, name)

    def plan(self) -> bool:
        """The plan that ``optimize`` would take, and the one that splits an axis over the grid.  Of another form there may be none as one:
        ``optimize`` plans it in parts, or takes the program as it was."""
        target = _target(self.rng.choice(TARGETS), self.rng.random() < 0.5)
        extractor = Extractor(self.graph, target, objective=self.rng.choice(("time", "memory")))
        try:
            self.plans = [extractor.run()]
        except PlanError:
            if not self.other:
                raise
            self.tally.skipped["plan: no kernels for all of another form"] += 1
            return False
        floor = extractor.op_by_op()
        if isinstance(floor, Cover) and extractor.objective.by == "time" and self.plans[0].estimated_us > TIE * floor.us:
            raise Disagreement("plan", f"op by op takes {floor.us:.2f} us, the plan {self.plans[0].estimated_us:.2f}")
        for row in extractor.maker.partials.rows:
            found = extractor.maker.split(row, tuple(extractor.outputs))
            if isinstance(found, Cover):
                self.plans.append(extractor.plan_of(found, "split"))
        for p in self.plans:
            self.tally.covered["several kernels"] += len(p.kernels) > 1
            for k in p.kernels:
                self.cover(k.tiles)
        return True

    def simulate(self) -> None:
        """Every planned kernel, in order."""
        for p in self.plans:
            again = _computes_again(k.tiles for k in p.kernels)
            for case in self.cases:
                arrays = dict(case.inputs)
                for k in p.kernels:
                    arrays.update(simulate(k.tiles, arrays))
                self.compare("simulate", arrays, case.tolerance(again), case)
                self.tally.covered["simulations"] += 1

    def tiles(self) -> bool:
        """Random roles and tiles for the nodes that extraction chooses."""
        long = any(a.size > LONG for a in free_axes(self.program))
        roles = random_roles(self.rng, self.program, **({"tiles": (8, 16), "stream_tiles": (32, 64)} if long else {}))
        try:
            plain = kernel_from_program(self.program, roles)
        except PlanError:
            self.tally.skipped["tiles: an axis is reduced and read from outside"] += 1
            return False
        order = list(plain.order)
        self.rng.shuffle(order)
        classes = tuple(self.graph.roots[o.name] for o in self.program.outputs)
        met = False
        for _, nodes, positions, _ in Chooser(self.graph).cheapest(classes, {}, roles):
            roots = tuple(replace(r, node=n) for r, n in zip(plain.roots, positions, strict=True))
            kernel = replace(plain, nodes=nodes, roots=roots, order=tuple(order))
            try:
                tiles = finish(lower(kernel, min_dot_k=2))
            except PlanError as e:
                self.tally.skipped[f"tiles: {str(e).split(':')[-1].strip()[:60]}"] += 1
                continue
            if walk(tiles).steps * len(self.cases) > MOST_STEPS:
                self.tally.skipped["tiles: more steps of loops than a simulation is given time for"] += 1
                continue
            met = True
            self.cover(tiles)
            for case in self.cases:
                simulation = _Counted(tiles, case.inputs, self.span, case.ends)
                self.compare("tiles", simulation.run(), case.tolerance(_computes_again((tiles,))), case, tiles)
                if simulation.beyond:
                    raise Disagreement("tiles", f"a loop visits tiles that no row sees: {simulation.beyond}\n{tiles}", case.inputs)
                self.tally.covered["simulations"] += 1
                self.tally.covered["loops bounded by data"] += simulation.bounded
        return met

    def hazards(self) -> None:
        """Sources of overflow and cancellation.  The static check is conservative: what it reports is confirmed on data that punish it."""
        for p in self.plans:
            found = new_hazards(p)
            if found:
                self.tally.alarms += 1
                worse = self.worse(p)
                if worse:
                    raise Disagreement("hazards", f"{'; '.join(map(str, found))}; confirmed: {worse}")

    def worse(self, plan: Plan) -> str | None:
        """Where a plan loses digits in float32 that its program, evaluated in float32, keeps: at large, shifted and spread data."""
        for scale, offset in STRESSES:
            data = {
                i.name: (x * scale + offset if i.dtype.itemsize == 4 else x).astype(np.float32) if i.dtype.is_float else x
                for i, x in ((i, self.inputs[i.name]) for i in self.program.inputs)
            }
            exact = evaluate(self.program, data)
            moved = spread(self.program, data, SINGLE)
            arrays: dict[str, np.ndarray] = dict(data)
            for k in plan.kernels:
                arrays.update(simulate(k.tiles, arrays, dtype=np.float32))
            written = evaluate_terms(tuple(o.term for o in self.program.outputs), data, np.float32)
            for o, value in zip(self.program.outputs, written, strict=True):
                axes = tuple(a for a in o.layout if a is not None)
                theirs = relative_move(np.broadcast_to(value.aligned(axes), [a.size for a in axes]).reshape(o.shape), exact[o.name])
                ours = relative_move(np.asarray(arrays[o.name], float).reshape(o.shape), exact[o.name])
                if np.isfinite(theirs) and moved[o.name] < WORTHLESS and not ours <= 8 * max(theirs, moved[o.name]) + 64 * SINGLE:
                    return f"{o.name} is off by {ours:.1e}, {theirs:.1e} as written, at data times {scale:g} plus {offset:g}"
        return None

    def interpret(self) -> bool:
        """The printed module on float32 (or narrower) tensors."""
        import torch

        from ...runtime.interpreter import forget, interpret
        from ...runtime.modules import load_module

        again = any(_computes_again(k.tiles for k in p.kernels) for p in self.plans)
        types = {o.name: o.dtype for o in self.program.outputs}
        asked: list[tuple[_Case, dict[str, float]]] = []
        for case in self.cases:
            allowed = spread(self.program, case.inputs, SINGLE, narrow=True, again=again)
            if any(v > WORTHLESS for v in allowed.values()):
                self.tally.skipped["interpret: float32 or a narrower type of the program decides the result"] += 1
            else:
                asked.append((case, {o: 1e-5 + 8 * e + 2 * types[o].epsilon for o, e in allowed.items()}))
        for p in self.plans if asked else ():
            module = load_module(emit_module(module_spec(p)), "interpret", directory=_directory())
            try:
                for case, tolerance in asked:
                    tensors = [
                        torch.from_numpy(np.array(case.inputs[i.name])).to(getattr(torch, i.dtype.name)) for i in self.program.inputs
                    ]
                    found = interpret(module, "run", *tensors)
                    numbers = [(t.double() if t.is_floating_point() else t.long()).numpy() for t in found]
                    arrays = {o.name: x for o, x in zip(self.program.outputs, numbers, strict=True)}
                    self.compare("interpret", arrays, tolerance, case)
            finally:
                forget(module)
        return bool(asked)

    def compare(
        self, stage: str, found: Mapping[str, np.ndarray], tolerance: Mapping[str, float], case: _Case, tiles: TileProgram | None = None
    ) -> None:
        """Outputs against the reference, where that is finite."""
        if said := _difference(case.expected, self.whole, found, tolerance):
            raise Disagreement(stage, f"{said}\n{tiles}" if tiles else said, case.inputs)

    def cover(self, tiles: TileProgram) -> None:
        """Count what lowering made."""
        statements = list(tiles.statements())
        self.tally.covered.update(
            {
                "loops": any(isinstance(s, Loop) for s in statements),
                "loops that end where data say": any(isinstance(s, Loop) and s.edges for s in statements),
                "matrix products": any(isinstance(s, Dot) for s in statements),
                "rolling reductions": any(n.op == "roll" for n in tiles.kernel.nodes),
                "prefixes": any(n.op == "pre" for n in tiles.kernel.nodes),
            }
        )


class _Counted(Simulation):
    """Looks at the tiles that loops over columns visit: ``bounded`` loops end where data say, ``beyond`` is what one visits in vain."""

    def __init__(
        self, program: TileProgram, inputs: Mapping[str, np.ndarray], span: Span | None, ends: tuple[np.ndarray, np.ndarray] | None
    ) -> None:
        super().__init__(program, inputs, np.float64, False)
        self.span, self.ends, self.bounded, self.beyond = span, ends, 0, ""

    def visits(self, s: Loop, env: Mapping[str, np.ndarray]) -> list[int]:
        found = super().visits(s, env)
        if self.span is not None and self.ends is not None and s.binding.axis == self.span.columns:
            first, last = (self.bound(sides, env, neutral) for sides, neutral in ((s.starts, 0), (s.stops, int(FARTHEST))))
            if first or last:
                here = next((b for b in self.program.grid if b.axis == self.span.rows), None)
                rows = slice(None) if here is None else slice(self.start[here.name], self.start[here.name] + here.tile)
                low, high = (e[rows] for e in self.ends)
                tile = s.binding.tile
                begin, end = int(low.min()) // tile * tile if first else 0, int(high.max()) if last else s.binding.axis.size
                self.bounded += 1
                if any(not begin <= t < end for t in found):
                    self.beyond = f"{s.binding}: {found}, from {begin} to {end}"
        return found

    def bound(self, sides: Iterable[Bound], env: Mapping[str, np.ndarray], neutral: int) -> bool:
        """Whether data bound a loop on one side.  ``neutral``: what a condition is that leaves the loop as it is."""
        return any(e.data is not None and int(env[e.data.name]) != neutral for b in sides for e in edges_of(b))


def _computes_again(programs: Iterable[TileProgram]) -> bool:
    """Whether these kernels may compute a value more than once: one loop or kernel does not see what another has made."""
    found = list(programs)
    return len(found) > 1 or any(isinstance(s, Loop) for t in found for s in t.statements())


@cache
def _target(name: str, cheap_launches: bool) -> Target:
    """A target; with cheap launches plans have more kernels."""
    target = load_target(name)
    return replace(target, name=f"{name} with free launches", launch_us=0.0) if cheap_launches else target


@cache
def _holder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="eqfuse-fuzz-")


def _directory() -> str:
    """Where generated modules of this process are written; removed when it ends."""
    return _holder().name
