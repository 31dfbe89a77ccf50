"""The command line of the fuzzer: random programs through the whole path (:mod:`.whole_path`), with a summary.

    python -m eqfuse.testing.fuzz 0 1000 --interpret 10

``--lowering`` runs :func:`~.lowering.simulated` instead, ``--native`` kernels in C (:mod:`.native`), and goes on with a log.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ...errors import OptionError
from ...ir.monoids import MONOIDS
from ...ir.ops import OPS
from ...runtime.native import compiler as native_compiler
from .log import Summary, append, commit, program_line, run_line
from .lowering import simulated
from .native import DRAWS, Log, fuzz_native
from .native import summary as native_summary
from .whole_path import LIMIT, STAGES, Finding, Tally, fuzz

_COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
_EPILOG = """Example: %(prog)s 0 2000 --interpret 10 --json log.jsonl (some ten minutes; about 0.5 GB of memory, however many seeds).
Ctrl-C stops after the program at hand and tells what was done; a second one ends at once."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Random programs through the whole path: saturated with all rules, audited, planned, simulated, lowered with random roles and
    tiles, checked for new sources of overflow and cancellation, and interpreted.  What is found is printed at once, made small, as code
    that runs.  A seed is one program, on every machine.  The exit status is 1 if something was found.
    """
    parser = argparse.ArgumentParser(prog="python -m eqfuse.testing.fuzz", description=main.__doc__, epilog=_EPILOG)
    parser.add_argument("first", type=int, metavar="FIRST", nargs="?", default=0, help="the first seed (default: %(default)s)")
    parser.add_argument("last", type=int, metavar="LAST", nargs="?", default=sys.maxsize, help="the seed to stop before (default: none)")
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
    parser.add_argument("--json", metavar="FILE", help="append a line of JSON for the run, and one for each program as soon as it is done")
    parser.add_argument("--read", metavar="FILE", help="run nothing: tell what is in the lines that --json wrote")
    parser.add_argument("--summary", metavar="FILE", help="write the summary as one JSON object")
    parser.add_argument(
        "--native", action="store_true",
        help="run kernels in C on this processor instead, tens of programs a second; --json is one object, written after each batch, "
        "and a file that is there goes on where it ends",
    )  # fmt: skip
    parser.add_argument(
        "--plan-every", type=int, default=25, metavar="N", help="with --native: plan seeds that N divides (default: %(default)s; 0: none)"
    )
    parser.add_argument(
        "--ragged", action="store_true",
        help="draw functions on tensors of torch over ragged data, each with several lengths, offsets, documents or windows",
    )  # fmt: skip
    parser.add_argument("--lowering", action="store_true", help="only simulate random tile programs: random roles and tiles, no plan")
    options = parser.parse_args(arguments)
    if options.last <= options.first or options.first < 0:
        parser.error("FIRST must be below LAST, and no seed is negative")
    if options.limit < 0:
        parser.error("--limit must not be negative")
    seeds = range(options.first, options.last)
    draws = "ragged" if options.ragged else "terms"
    if options.lowering:
        return _lowering(seeds)
    if options.native:
        try:
            return _native(seeds, options.plan_every, Path(options.json) if options.json else None, draws)
        except OptionError as error:
            parser.error(str(error))
    console = Console(stderr=True)
    log = Path(options.json) if options.json else None

    def show(finding: Finding) -> None:
        console.print(str(finding), markup=False, highlight=False, soft_wrap=True)

    def done() -> int:
        Console(width=None if sys.stdout.isatty() else 120).print(summary(whole.tally))
        if options.summary:
            Path(options.summary).write_text(json.dumps(whole.data(), indent=1) + "\n")
        return int(bool(whole.tally.findings))

    if options.read:
        try:
            whole = Summary.read(Path(options.read))
        except OptionError as error:
            parser.error(str(error))
        return done()
    whole = Summary(run_line(options.interpret, draws))
    if log is not None:
        append(log, {"run": whole.run})

    def note(seed: int, tally: Tally) -> None:
        line = program_line(seed, tally)
        whole.add(line)
        if log is not None:
            append(log, line)

    with Progress(*_COLUMNS, console=console) as bar:
        task = bar.add_task("programs", total=len(seeds) if options.last < sys.maxsize else None)
        shown = 0

        def report(seed: int, tally: Tally) -> bool:
            nonlocal shown
            note(seed, tally)
            for finding in tally.findings:
                show(finding)
            shown += len(tally.findings)
            bar.update(task, advance=1, description=f"programs, {shown} found")
            return stop.asked

        def stuck(tally: Tally, finding: Finding) -> None:
            """The end, in another thread: this process cannot go on."""
            bar.stop()
            tally.findings.append(finding)
            note(finding.seed, tally)
            show(finding)
            done()
            console.print(f"This process cannot be interrupted where it is; go on with seed {finding.seed + 1}.", highlight=False)
            sys.stdout.flush()
            os._exit(1)

        with _Interruptible() as stop:
            fuzz(
                seeds, interpret_every=options.interpret, shrink_seconds=options.shrink, report=report, limit=options.limit, stuck=stuck,
                draw=DRAWS[draws],
            )  # fmt: skip
    return done()


def summary(tally: Tally) -> Table:
    """What a run looked at."""
    table = Table(title=f"{tally.programs} programs, {len(tally.findings)} findings, {tally.seconds.total():.0f} s of CPU")
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


def _native(seeds: range, plan_every: int, path: Path | None, draws: str) -> int:
    """Seeds in C, or those that a log has left."""
    console = Console(stderr=True)
    new = Log((seeds.start, seeds.stop), plan_every, seeds.start, draws=draws)
    log = Log.read(path) if path is not None and path.exists() else new
    if (log.seeds[0], log.plan_every, log.draws) != (seeds.start, plan_every, draws):
        said = f"this log begins with seed {log.seeds[0]}, plans every {log.plan_every}th and draws {log.draws}"
        raise OptionError(said, where=str(path), cure="another name")
    log.seeds = seeds.start, seeds.stop
    about = {"commit": commit(), "processor": platform.machine(), "python": platform.python_version(), "compiler": native_compiler()}
    with Progress(*_COLUMNS, console=console) as bar, _Interruptible() as stop:
        task = bar.add_task("programs", total=len(seeds))
        shown = len(log.findings)

        def after(log: Log) -> bool:
            nonlocal shown
            for f in log.findings[shown:]:
                said = f"seed {f['seed']}, {f['way']}: {f['message']}\n{f['minimal']}"
                console.print(said, markup=False, highlight=False, soft_wrap=True)
            shown = len(log.findings)
            bar.update(task, completed=log.next - seeds.start, description=f"programs, {shown} found")
            if path is not None:
                log.write(path, about | {"date": datetime.now(UTC).isoformat(timespec="seconds")})
            return stop.asked

        fuzz_native(log, after)
    print("\n".join(native_summary(log)))
    return int(bool(log.findings))


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
