"""Fuzzing.  On the command line: random programs through the whole path (:mod:`.whole_path`), with a summary.

    python -m eqfuse.testing.fuzz 0 1000 --interpret 10

As functions: fuzzing of lowering and printing alone, random program x random roles x random tiles, against the float64 reference.
A program is lowered as it stands, or (``saturated``) from nodes that extraction chooses in its saturated e-graph, which is where
rolling reductions come from, once for every feasible number of passes.  The order of tile dims is random, too, and how many programs
are launched.  ``simulated`` runs the tile program in float64 numpy, where it must agree to rounding.  ``printed`` gives the emitted
module to a runner (Triton's interpreter) in float32.  ``--lowering`` runs the first of these.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ..codegen.module import ModuleSpec, emit_module
from ..egraph.saturate import saturate
from ..extract.choose import Chooser
from ..ir import dtypes
from ..ir.monoids import MONOIDS
from ..ir.ops import OPS
from ..ir.reference import evaluate
from ..rewrites import registry
from ..tiles.direct import kernel_from_program
from ..tiles.finish import finish
from ..tiles.kernel import Kernel
from ..tiles.lower import lower
from ..tiles.program import Dot, Loop, TileProgram, scales
from ..tiles.simulate import simulate
from .random_programs import Draw, draw
from .whole_path import LIMIT, STAGES, Finding, Tally, fuzz

TAME = 1e4  # larger reference values say nothing about float32


@dataclass(frozen=True)
class Mismatch:
    """A seed whose kernel computes something else than its program."""

    seed: int
    output: str
    error: float  # relative to the largest element of the output
    draw: Draw
    tiles: TileProgram

    def __str__(self) -> str:
        roles = ", ".join(f"{a.name}={a.size}:{r}" for a, r in self.draw.roles.items())
        return f"seed {self.seed}, {self.output}: error {self.error:.1e} with {roles}\n{self.draw.program}\n{self.tiles}"


def cases(seeds: Sequence[int], saturated: bool = False) -> Iterator[tuple[int, Draw, Kernel, Mapping[str, np.ndarray]]]:
    """Kernels of the seeds whose reference is finite and not huge, each with its draw and the reference."""
    for seed in seeds:
        d = draw(seed)
        expected = evaluate(d.program, d.inputs)
        if not all(np.isfinite(v).all() and np.abs(v).max(initial=0.0) < TAME for v in expected.values()):
            continue
        plain = kernel_from_program(d.program, d.roles)
        order = list(plain.order)
        rng = random.Random(seed)
        rng.shuffle(order)
        plain = replace(plain, order=tuple(order), persistent=rng.choice((0, 0, 1, 3)) if plain.grid else 0)
        for kernel in _chosen(d, plain) if saturated else (plain,):
            yield seed, d, kernel, expected


def _chosen(d: Draw, plain: Kernel) -> Iterator[Kernel]:
    """The kernel with the nodes that extraction chooses, for every feasible budget of passes."""
    graph = saturate(d.program)
    classes = tuple(graph.roots[o.name] for o in d.program.outputs)
    for _, nodes, positions, _ in Chooser(graph).cheapest(classes, {}, d.roles):
        roots = tuple(replace(r, node=n) for r, n in zip(plain.roots, positions, strict=True))
        yield replace(plain, nodes=nodes, roots=roots)


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference over the largest element; infinite if anything is NaN."""
    expected = np.asarray(expected, np.float64)
    difference = np.abs(np.asarray(found, np.float64) - expected).max(initial=0.0)
    error = float(difference / (np.abs(expected).max(initial=0.0) + 1e-2))
    return error if error == error else float("inf")


def simulated(
    seeds: Sequence[int], *, saturated: bool = False, min_dot_k: int = 2, tolerance: float = 1e-8
) -> tuple[Counter[str], list[Mismatch]]:
    """Run tile programs in float64 numpy.  Returns what was covered and what was wrong."""
    covered: Counter[str] = Counter()
    wrong = []
    for seed, d, kernel, expected in cases(seeds, saturated):
        tiles = finish(lower(kernel, min_dot_k=min_dot_k))
        covered += _coverage(tiles)
        made = [tiles]
        if any(isinstance(s, Dot) for s in tiles.statements()):
            made.append(finish(lower(_scaled(kernel), min_dot_k=min_dot_k)))
            covered["scaled"] += scales(made[-1])
        for tiles in made:
            found = simulate(tiles, d.inputs)
            for name, value in expected.items():
                error = relative_error(found[name], value)
                if error > tolerance:
                    wrong.append(Mismatch(seed, name, error, d, tiles))
    return covered, wrong


def _scaled(kernel: Kernel) -> Kernel:
    """The kernel with float16 inputs, whose products need scales; in float64 nothing is rounded to that type."""
    narrow = {n: replace(b, dtype=dtypes.float16) if b.role == "input" and b.dtype.is_float else b for n, b in kernel.buffers.items()}
    return replace(kernel, buffers=narrow, scaled=True)


def printed(
    seeds: Sequence[int],
    run: Callable[[str, list[np.ndarray]], Sequence[Any]],
    *,
    saturated: bool = False,
    tolerance: float = 1e-3,
) -> tuple[Counter[str], list[Mismatch]]:
    """Run emitted modules.  ``run(source, inputs)`` executes a module's ``run`` on float32 copies of the arrays."""
    covered: Counter[str] = Counter()
    wrong = []
    for seed, d, kernel, expected in cases(seeds, saturated):
        tiles = finish(lower(kernel))
        buffers = kernel.buffers
        spec = ModuleSpec(
            "fuzz", tuple(buffers[i.name] for i in d.program.inputs), tuple(buffers[o.name] for o in d.program.outputs), (), (tiles,)
        )
        found = run(emit_module(spec), [d.inputs[i.name] for i in d.program.inputs])
        covered += _coverage(tiles)
        for (name, value), out in zip(expected.items(), found, strict=True):
            error = relative_error(np.asarray(out), value)
            if error > tolerance:
                wrong.append(Mismatch(seed, name, error, d, tiles))
    return covered, wrong


def _coverage(tiles: TileProgram) -> Counter[str]:
    statements = list(tiles.statements())
    return Counter(
        programs=1,
        loops=any(isinstance(s, Loop) for s in statements),
        nested=any(isinstance(s, Loop) and not s.innermost for s in statements),
        passes=any(isinstance(s, Loop) and s.level > 0 for s in statements),
        dots=any(isinstance(s, Dot) for s in statements),
        continued=any(isinstance(s, Loop) and any(a.start is not None for a in s.accumulators) for s in statements),
        split=tiles.split,
        roots=len(tiles.kernel.roots) > 1,
        rolls=any(n.op == "roll" for n in tiles.kernel.nodes),
        prefixes=any(n.op == "pre" for n in tiles.kernel.nodes),
        persistent=tiles.kernel.persistent > 0,
    )


# the command line --------------------------------------------------------------------------------------------------------------------


_EPILOG = """Example: %(prog)s 0 2000 --interpret 10 --json log.json (some ten minutes; about 0.5 GB of memory, however many seeds).
Ctrl-C stops after the program at hand and tells what was done; a second one ends at once."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Random programs through the whole path: saturated with all rules, audited, planned, simulated, lowered with random roles and
    tiles, checked for new sources of overflow and cancellation, and interpreted.  What is found is printed at once, made small, as code
    that runs.  A seed is one program, on every machine.  The exit status is 1 if something was found.
    """
    parser = argparse.ArgumentParser(prog="python -m eqfuse.testing.fuzz", description=main.__doc__, epilog=_EPILOG)
    parser.add_argument("first", type=int, metavar="FIRST", help="the first seed")
    parser.add_argument("last", type=int, metavar="LAST", help="the seed to stop before")
    parser.add_argument(
        "--interpret",
        type=int,
        default=0,
        metavar="N",
        help="run seeds that N divides in Triton's interpreter, which takes about as long as all other stages together (default: none)",
    )
    parser.add_argument(
        "--shrink",
        type=float,
        default=20.0,
        metavar="SECONDS",
        help="processor time for making a failing program small (default: %(default)g)",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=LIMIT,
        metavar="SECONDS",
        help="processor time for one program, and ten times as much by the clock; one that takes longer is a finding, with the stage and "
        "the place where it was, and the run goes on, but for native code that does not return (default: %(default)g; 0: no limit)",
    )
    parser.add_argument("--json", metavar="FILE", help="write what was done and found, as data")
    parser.add_argument("--lowering", action="store_true", help="only simulate random tile programs: random roles and tiles, no plan")
    options = parser.parse_args(arguments)
    if options.last <= options.first or options.first < 0:
        parser.error("FIRST must be below LAST, and no seed is negative")
    if options.limit < 0:
        parser.error("--limit must not be negative")
    seeds = range(options.first, options.last)
    if options.lowering:
        return _lowering(seeds)
    console = Console(stderr=True)
    started = time.process_time()

    def show(finding: Finding) -> None:
        console.print(str(finding), markup=False, highlight=False, soft_wrap=True)

    def done(tally: Tally) -> None:
        seconds = time.process_time() - started
        Console(width=None if sys.stdout.isatty() else 120).print(summary(tally, seconds))
        if options.json:
            data = as_data(tally, seeds[: tally.programs], options.interpret, seconds)
            Path(options.json).write_text(json.dumps(data, indent=1) + "\n")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("programs", total=len(seeds))
        shown = 0

        def report(tally: Tally) -> bool:
            nonlocal shown
            for finding in tally.findings[shown:]:
                show(finding)
            shown = len(tally.findings)
            bar.update(task, advance=1, description=f"programs, {shown} found")
            return stop.asked

        def stuck(tally: Tally, finding: Finding) -> None:
            """The end, in another thread: this process cannot go on."""
            bar.stop()
            tally.findings.append(finding)
            show(finding)
            done(tally)
            console.print(f"This process cannot be interrupted where it is; go on with seed {finding.seed + 1}.", highlight=False)
            sys.stdout.flush()
            os._exit(1)

        with _Interruptible() as stop:
            tally = fuzz(
                seeds, interpret_every=options.interpret, shrink_seconds=options.shrink, report=report, limit=options.limit, stuck=stuck
            )
    done(tally)
    return int(bool(tally.findings))


def summary(tally: Tally, seconds: float) -> Table:
    """What a run looked at."""
    table = Table(title=f"{tally.programs} programs, {len(tally.findings)} findings, {seconds:.0f} s of CPU")
    table.add_column("stage")
    table.add_column("passed", justify="right")
    table.add_column("CPU s", justify="right")
    table.add_column("what")
    checked = {f.stage: 0 for f in tally.findings} | Counter(f.stage for f in tally.findings)
    enumerated = {
        "op": (len(OPS), "ops"), "monoid": (len(MONOIDS), "monoids"), "view": (0, "kinds of views"), "cast": (0, "casts"),
    }  # fmt: skip
    cover = []
    for kind, (total, noun) in enumerated.items():
        n = sum(name.startswith(f"{kind} ") for name in tally.covered)
        cover.append(f"{n}/{total} {noun}" if total else f"{n} {noun}")
    notes = {
        "draw": ", ".join([*cover, *(f"{n} filtered: {reason}" for reason, n in sorted(tally.filtered.items()))]),
        "saturate": f"{len(tally.rules)} rules matched; " + ", ".join(f"{n} {why}" for why, n in sorted(tally.stopped.items())),
        "audit": ", ".join(f"{n:,} {name}" for name, n in tally.audit.items()),
        "plan": ", ".join(f"{tally.covered[k]} {k}" for k in ("several kernels", "split axis")),
        "tiles": ", ".join(f"{tally.covered[k]} {k}" for k in ("loops", "matrix products", "rolling reductions", "prefixes")),
        "hazards": f"{tally.alarms} static alarms" if tally.alarms else "",
    }
    for stage in ("draw", *STAGES):
        passed = tally.programs if stage == "draw" else tally.stages[stage]
        more = [notes.get(stage, "")] + [f"{n} {k.split(': ', 1)[1]}" for k, n in tally.skipped.items() if k.startswith(stage)]
        found = f"; {checked[stage]} FOUND" if stage in checked else ""
        table.add_row(stage, str(passed), f"{tally.seconds[stage]:.1f}", "; ".join(filter(None, more)) + found)
    return table


def as_data(tally: Tally, seeds: range, interpret_every: int, seconds: float) -> dict[str, Any]:
    """A run as JSON: versions, seeds, counts per stage, coverage, what was filtered and why, findings."""
    versions = {name: metadata.version(name) for name in ("eqfuse", "egglog", "numpy", "torch", "triton")}
    covered = {k: n for k, n in sorted(tally.covered.items()) if n}
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "versions": {"python": platform.python_version(), **versions},
        "seeds": [seeds.start, seeds.stop],
        "interpret_every": interpret_every,
        "programs": tally.programs,
        "filtered": dict(tally.filtered),
        "steps_taken_back_while_drawing": dict(tally.taken_back),
        "passed": {s: tally.stages[s] for s in STAGES},
        "skipped": dict(tally.skipped),
        "findings": [{"seed": f.seed, "stage": f.stage, "message": f.message, "minimal": f.minimal} for f in tally.findings],
        "static_hazard_alarms": tally.alarms,
        "audit": dict(tally.audit),
        "saturation_stopped": dict(tally.stopped),
        "rules_registered": len(registry.rules()),
        "rules_matched": len(tally.rules),
        "rules_that_never_matched": sorted({r.name for r in registry.rules()} - set(tally.rules)),
        "ops_not_drawn": sorted(o for o in OPS if f"op {o}" not in covered),
        "monoids_not_drawn": sorted(m for m in MONOIDS if f"monoid {m}" not in covered),
        "programs_with": covered,
        "peak_memory_mb": _peak_memory(),
        "cpu_seconds": round(seconds, 1),
        "cpu_seconds_per_stage": {s: round(n, 1) for s, n in tally.seconds.items()},
    }


class _Interruptible:
    """Inside, the first Ctrl-C asks to stop after the program at hand, and what was done so far is told; the second one ends at once."""

    asked = False

    def __enter__(self) -> _Interruptible:
        self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def _ask(self, *_: object) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, self._before)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)


def _commit() -> str | None:
    """The checkout's commit, marked if files differ from it; ``None`` outside a checkout."""
    command = ("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*")
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20).stdout.strip() or None
    except OSError:
        return None


def _peak_memory() -> int | None:
    """The most memory that this process has had resident, in MB; ``None`` where the system does not say."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit)


def _lowering(seeds: range) -> int:
    """Seeds through the simulator, plain and saturated."""
    failed = False
    for saturated in (False, True):
        covered, wrong = simulated(seeds, saturated=saturated)
        print(dict(covered))
        for m in wrong:
            print(m)
        failed |= bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
