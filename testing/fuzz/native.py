"""Random programs on this machine's processor: kernels in C against float64, many to a call of the compiler, tens of programs a second.

Every program becomes a kernel of its own terms under random roles and small random tiles (loops, tails, masks, packs, scans at sizes at
which a plan would keep whole rows on chip); every so many are also saturated with all rules and planned for a CPU.  A batch is compiled
as one file, with few optimizations, for compiling is most of the time; every tenth batch has the flags that users get, whose loops are
vectors.  It runs in a process of its own, so that a kernel that writes where it should not is a finding like any other.

A run is a log, which is written after each batch.  The same command goes on where the log ends.
"""

from __future__ import annotations

import faulthandler
import json
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...codegen.c.printer import print_function
from ...egraph.saturate import saturate
from ...errors import CompileError, EqFuseError, OptionError, PlanError
from ...extract.covers import Extractor
from ...extract.targets import load_target
from ...ir.program import Program
from ...ir.reference import evaluate_terms
from ...ir.shrink import shrink
from ...ir.source import program_source
from ...ir.terms import Term
from ...rewrites import registry
from ...tiles.direct import kernel_from_program
from ...tiles.finish import finish
from ...tiles.lower import lower
from ...tiles.program import TileProgram
from ..native import Native
from .conditioning import spread
from .grammar import draw_program
from .ragged import draw_ragged
from .random_programs import random_roles
from .whole_path import SINGLE, WORTHLESS, Disagreement, differs, filtered, matching

QUICK = (("-Og", "-fopenmp-simd"),)
THOROUGH_EVERY = 10  # batches
BATCH = 40  # programs
PATIENCE = 300.0  # seconds for a batch to compile and run
NODE_BUDGET = 1500
DRAWS = {"terms": draw_program, "ragged": draw_ragged}
SMALLEST, LARGEST = 2.0**-126, float(np.finfo(np.float32).max)
Chain = tuple[TileProgram, ...]


@dataclass(frozen=True)
class Case:
    """A program with its data and the ways to compute it: kernels one after the other."""

    seed: int
    program: Program
    data: Sequence[tuple[Mapping[str, np.ndarray], Mapping[str, float]]]  # inputs, and how far off outputs may be
    ways: Mapping[str, Chain]


@dataclass
class Log:
    """What a run looked at, as data."""

    seeds: tuple[int, int]
    plan_every: int
    next: int
    programs: int = 0
    ran: Counter[str] = field(default_factory=Counter)  # programs, by how their kernels were made
    kernels: int = 0
    filtered: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)  # by lowering, or for want of C
    batches: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)  # of processor time; "compile and run" by the clock
    findings: list[dict[str, Any]] = field(default_factory=list)
    draws: str = "terms"  # of what programs are drawn
    runs: int = 0  # of kernels' chains, one for each draw of data

    @classmethod
    def read(cls, path: Path) -> Log:
        """A log that was written.  Raises OptionError for another file."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            names = ("ran", "filtered", "refused", "batches", "seconds")
            return cls(**found["log"] | {n: Counter(found["log"][n]) for n in names} | {"seeds": tuple(found["log"]["seeds"])})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OptionError(f"this is no log of native programs: {error}", where=str(path), cure="another name") from None

    def write(self, path: Path, environment: Mapping[str, Any]) -> None:
        """In one step, so that what ends the process leaves the last one."""
        made = path.with_suffix(".new")
        made.write_text(json.dumps({"environment": dict(environment), "log": vars(self)}, indent=1) + "\n", encoding="utf-8")
        made.replace(path)


def fuzz_native(log: Log, after: Callable[[Log], bool] = lambda log: False, *, batch: int = BATCH, shrink_seconds: float = 20.0) -> Log:
    """The seeds of a log that are left.  ``after`` is called after each batch, and says whether to stop there."""
    while log.next < log.seeds[1]:
        last = min(log.next + batch, log.seeds[1])
        cases = [c for seed in range(log.next, last) if (c := _case(seed, log)) is not None]
        thorough = sum(log.batches.values()) % THOROUGH_EVERY == THOROUGH_EVERY - 1
        started = time.monotonic()
        for at, way, message in _run(cases, None if thorough else QUICK):
            log.findings.append(_finding(cases[at], way, message, None if thorough else QUICK, shrink_seconds))
        log.seconds["compile and run"] += time.monotonic() - started  # type: ignore[assignment]
        log.batches["as users compile" if thorough else "compiled quickly"] += 1
        log.next = last
        if after(log):
            break
    return log


# what is run ------------------------------------------------------------------------------------------------------------------------


def _case(seed: int, log: Log) -> Case | None:
    """A program that can be asked something of; counts go to the log."""
    log.programs += 1
    started = time.process_time()
    drawn = DRAWS[log.draws](seed)
    data = []
    for inputs in (drawn.inputs, *drawn.again):
        reason, allowed = asked(drawn.program, inputs)
        if reason is None:
            data.append((inputs, allowed))
        else:
            log.filtered[reason] += 1
    log.seconds["draw"] += time.process_time() - started  # type: ignore[assignment]
    if not data:
        return None
    case = _with_ways(seed, drawn.program, data, bool(log.plan_every) and seed % log.plan_every == 0, log)
    log.ran.update(case.ways.keys())
    log.kernels += sum(map(len, case.ways.values()))
    log.runs += len(data) * len(case.ways)
    return case if case.ways else None


def asked(program: Program, inputs: Mapping[str, np.ndarray]) -> tuple[str | None, Mapping[str, float]]:
    """Why nothing can be asked of a program in float32, or how far its outputs may be moved."""
    reason = filtered(program, inputs) or _beyond(program, inputs)
    allowed = {} if reason else spread(program, inputs, SINGLE, narrow=True, again=True)
    if any(v > WORTHLESS for v in allowed.values()):
        reason = "float32 or a narrower type of the program decides the result"
    return reason, allowed


def _beyond(program: Program, inputs: Mapping[str, np.ndarray]) -> str | None:
    """Whether some value is a number that float32 has not, such as the sigmoid of -100, which is 0 in a kernel: as large an error as there
    is, of which :mod:`.conditioning` knows nothing."""
    found: list[str] = []

    def seen(t: Term, value: np.ndarray, _: object) -> np.ndarray:
        if t.dtype is None or t.dtype.is_float:
            size = np.abs(value[np.isfinite(value)])
            if ((size > LARGEST) | ((size > 0) & (size < SMALLEST))).any():
                found.append("a value is larger, or smaller, than any number of float32")
        return value

    evaluate_terms(tuple(o.term for o in program.outputs), inputs, rounding=seen)
    return found[0] if found else None


def _with_ways(
    seed: int, program: Program, data: Sequence[tuple[Mapping[str, np.ndarray], Mapping[str, float]]], planned: bool, log: Log
) -> Case:
    ways: dict[str, Chain] = {}
    makers: dict[str, Callable[[], Chain]] = {"random tiles": lambda: _drawn(seed, program)}
    if planned:
        makers["planned"] = lambda: _planned(program)
    for name, make in makers.items():
        started = time.process_time()
        try:
            found = make()
            for k in found:
                print_function(k)
            ways[name] = found
        except PlanError as error:
            log.refused[f"{name}: {error.message[:60]}"] += 1
        except Exception as error:  # a fault of ours, and no reason to look at no other program
            message = f"making kernels: {type(error).__name__}: {error}"[:300]
            log.findings.append({"seed": seed, "way": name, "message": message, "minimal": program_source(program)})
        log.seconds[name] += time.process_time() - started  # type: ignore[assignment]
    types = {o.name: o.dtype for o in program.outputs}
    allowed = [(inputs, {o: 1e-5 + 8 * e + 2 * types[o].epsilon for o, e in moved.items()}) for inputs, moved in data]
    return Case(seed, program, allowed, ways)


def _drawn(seed: int, program: Program) -> Chain:
    """The terms of a program as one kernel, under random roles and tiles."""
    rng = random.Random(seed)
    plain = kernel_from_program(program, random_roles(rng, program))
    order = list(plain.order)
    rng.shuffle(order)
    kernel = replace(plain, order=tuple(order), persistent=rng.choice((0, 0, 1, 3)) if plain.grid else 0)
    kernel = replace(kernel, grouped=rng.choice((0, 2, 3)) if len(plain.grid) > 1 else 0)
    return (finish(lower(kernel, min_dot_k=2)),)


def _planned(program: Program) -> Chain:
    """The plan for a CPU, without products of the library: those are no kernels."""
    graph = saturate(program, rules=registry.active("approx"), node_budget=NODE_BUDGET, time_budget=5.0)
    return tuple(k.tiles for k in Extractor(graph, replace(load_target("cpu"), library_tflops={})).run().kernels)


def _computed(cases: Sequence[Case], attempts: Sequence[Sequence[str]] | None) -> list[tuple[int, str, str]]:
    """What is wrong: the case, the way, and what it says."""
    programs = [k for c in cases for way in c.ways.values() for k in way]
    native, at, wrong = Native(programs, attempts=attempts), 0, []
    for n, c in enumerate(cases):
        for name, way in c.ways.items():
            for inputs, tolerance in c.data:
                arrays = dict(inputs)
                for k in range(len(way)):
                    arrays |= native.run(at + k, arrays)
                said = differs(c.program, inputs, arrays, tolerance)
                wrong += [(n, name, said)] if said else []
            at += len(way)
    return wrong


def _run(cases: Sequence[Case], attempts: Sequence[Sequence[str]] | None) -> list[tuple[int, str, str]]:
    """The same in another process; what ends that is asked of each case alone."""
    if not cases:
        return []
    found = _apart(cases, attempts)
    if isinstance(found, list):
        return found
    if len(cases) == 1:
        return [(0, next(iter(cases[0].ways)), found)]
    return [(n, way, said) for n, c in enumerate(cases) for _, way, said in _run([c], attempts)]


def _apart(cases: Sequence[Case], attempts: Sequence[Sequence[str]] | None) -> list[tuple[int, str, str]] | str:
    """What a process of its own finds, or how it ends."""
    here = multiprocessing.get_context("fork")
    receive, send = here.Pipe(duplex=False)

    def work() -> None:
        faulthandler.disable()  # how it ends is said below
        try:
            send.send(_computed(cases, attempts))
        except CompileError as error:
            send.send(f"{type(error).__name__}: {error.message}")

    process = here.Process(target=work)
    process.start()
    send.close()
    try:
        if receive.poll(PATIENCE):
            found: list[tuple[int, str, str]] | str = receive.recv()
            return found
        return f"not done after {PATIENCE:g} seconds"
    except EOFError:
        process.join()
        return f"the process ended with {process.exitcode}"
    finally:
        process.kill()
        process.join()
        receive.close()


def _finding(case: Case, way: str, message: str, attempts: Sequence[Sequence[str]] | None, seconds: float) -> dict[str, Any]:
    """What was found, with a small program that fails in the same way."""

    def fails(p: Program) -> bool:
        try:
            data = []
            for inputs, _ in case.data:
                given = matching(p, inputs, case.seed)
                reason, allowed = asked(p, given)
                data += [(given, allowed)] if reason is None else []
            if not data:
                return False
            small = _with_ways(case.seed, p, data, way == "planned", Log((0, 0), 0, 0))
            chosen = {n: w for n, w in small.ways.items() if n == way}
            return bool(chosen) and bool(_run([replace(small, ways=chosen)], attempts))
        except (EqFuseError, Disagreement, AssertionError, ValueError, KeyError, IndexError):
            return False

    small = shrink(case.program, fails, seconds=seconds)
    return {"seed": case.seed, "way": way, "message": message, "minimal": program_source(small)}


def summary(log: Log) -> Iterator[str]:
    """Lines for people."""
    yield f"{log.programs} programs, {log.kernels} kernels, {log.runs} runs, {len(log.findings)} findings"
    for title, counts in (("ran", log.ran), ("filtered", log.filtered), ("refused", log.refused), ("batches", log.batches)):
        if counts:
            yield f"{title}: {', '.join(f'{n} {name}' for name, n in counts.most_common())}"
    yield f"seconds: {', '.join(f'{name} {n:.0f}' for name, n in log.seconds.items())}"
