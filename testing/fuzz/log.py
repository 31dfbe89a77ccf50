"""The log of a run as JSON lines: one for the run, then one for each program, written as soon as that is done.

    {"run": {"date": "2026-11-27T08:00:00+00:00", "commit": "8f36e48", "versions": {...}, "interpret_every": 10}}
    {"seed": 0, "programs": 1, "stages": {"saturate": 1, "audit": 1}, "seconds": {"draw": 0.01}, ...}

A run that is stopped, however, leaves what it found.  The summary of a run is made from such lines, and of several runs in one file, too; a
seed that is there twice counts as it was the last time.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from ...errors import OptionError
from ...ir.monoids import MONOIDS
from ...ir.ops import OPS
from ...rewrites import registry
from .whole_path import STAGES, Finding, Tally

_FINDING = ("seed", "stage", "message", "minimal")


def run_line(interpret_every: int, draws: str = "terms") -> dict[str, Any]:
    """What a run is of: when, which commit, which versions, what is drawn."""
    versions = {name: metadata.version(name) for name in ("eqfuse", "egglog", "numpy", "torch", "triton")}
    about = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "interpret_every": interpret_every,
        "draws": draws,
    }
    return about | {"versions": {"python": platform.python_version(), **versions}, "rules_registered": len(registry.rules())}


def program_line(seed: int, tally: Tally) -> dict[str, Any]:
    """One program, and what became of it: the tally of it alone, without what is empty."""
    found = [{k: getattr(f, k) for k in _FINDING} for f in tally.findings]
    fields = {f.name: getattr(tally, f.name) for f in dataclasses.fields(tally) if f.name not in ("findings", "at")}
    rounded = {"seconds": {k: round(v, 4) for k, v in tally.seconds.items()}, "findings": found}
    kept = {k: dict(v) if isinstance(v, Counter) else v for k, v in (fields | rounded).items() if v}
    return {"seed": seed, **kept, "peak_memory_mb": _peak_memory()}


def append(path: Path, line: Mapping[str, Any]) -> None:
    """Add a line; whatever ends the process later, it stays.  What a process was killed in the middle of gets an end first."""
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(line).encode() + b"\n")


@dataclasses.dataclass
class Summary:
    """What lines say together: the last run's own line, all programs, which seeds, and the most memory in MB."""

    run: Mapping[str, Any]
    tally: Tally = dataclasses.field(default_factory=Tally)
    seeds: tuple[int, int] | None = None  # the first, and the one behind the last
    memory: int = 0

    def add(self, line: Mapping[str, Any]) -> None:
        """One more program."""
        known: dict[str, Any] = {f.name: line[f.name] for f in dataclasses.fields(Tally) if f.name in line}
        found = [Finding(f["seed"], f["stage"], f["message"], None, f["minimal"]) for f in known.pop("findings", ())]
        counts: dict[str, Any] = {k: Counter(v) if isinstance(v, dict) else v for k, v in known.items()}
        self.tally.add(Tally(findings=found, **counts))
        first, last = self.seeds or (line["seed"], 0)
        self.seeds = min(first, line["seed"]), max(last, line["seed"] + 1)
        self.memory = max(self.memory, line["peak_memory_mb"] or 0)

    @classmethod
    def read(cls, path: Path) -> Summary:
        """A log, without a line that was not written to its end.  Raises OptionError for another file."""
        run, programs = None, {}
        try:
            for text in path.read_text(encoding="utf-8").splitlines():
                try:
                    line = json.loads(text)
                except ValueError:
                    continue
                run = line.get("run", run)
                if "seed" in line:
                    programs[line["seed"]] = line
        except (OSError, UnicodeDecodeError, AttributeError) as error:
            raise OptionError(f"this log cannot be read: {error}", where=str(path), cure="a file that --json wrote") from None
        if run is None:
            raise OptionError("this is no log of random programs", where=str(path), cure="a file that --json wrote")
        found = cls(run)
        for line in programs.values():
            found.add(line)
        return found

    def data(self) -> dict[str, Any]:
        """As one JSON object: versions, seeds, counts per stage, coverage, what was filtered and why, findings."""
        tally = self.tally
        covered = {k: n for k, n in sorted(tally.covered.items()) if n}
        return {
            **{k: self.run[k] for k in ("date", "commit", "versions")},
            "draws": self.run.get("draws", "terms"),
            "seeds": list(self.seeds or ()),
            "interpret_every": self.run["interpret_every"],
            "programs": tally.programs,
            "filtered": dict(tally.filtered),
            "steps_taken_back_while_drawing": dict(tally.taken_back),
            "passed": {s: tally.stages[s] for s in STAGES},
            "skipped": dict(tally.skipped),
            "findings": [{k: getattr(f, k) for k in _FINDING} for f in tally.findings],
            "static_hazard_alarms": tally.alarms,
            "audit": dict(tally.audit),
            "saturation_stopped": dict(tally.stopped),
            "rules_registered": self.run["rules_registered"],
            "rules_matched": len(tally.rules),
            "rules_that_never_matched": sorted({r.name for r in registry.rules()} - set(tally.rules)),
            "ops_not_drawn": sorted(o for o in OPS if f"op {o}" not in covered),
            "monoids_not_drawn": sorted(m for m in MONOIDS if f"monoid {m}" not in covered),
            "programs_with": covered,
            "peak_memory_mb": self.memory,
            "cpu_seconds": round(tally.seconds.total(), 1),
            "cpu_seconds_per_stage": {s: round(n, 1) for s, n in tally.seconds.items()},
        }


def commit() -> str | None:
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
