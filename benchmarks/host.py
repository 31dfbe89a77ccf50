"""Where a benchmark ran: what every result file says of the machine and the software, so that unlike results are not compared."""

import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
from pathlib import Path


def host(*packages):
    """Date, processor, cores, load, and the versions of Python, EqFuse and the packages named (those that are not installed: None)."""
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        cpu = next(s.split(":")[1].strip() for s in Path("/proc/cpuinfo").read_text().splitlines() if s.startswith("model name"))
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        **{p: version(p) for p in ("eqfuse", *packages)},
    }


def commit():
    """The checkout's short commit; outside one, what EQFUSE_COMMIT says (a copy on another machine knows it from there), or None."""
    return shell("git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD") or os.environ.get("EQFUSE_COMMIT")


def version(package):
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return None


def shell(*command):
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20).stdout.strip() or None
    return None


def write(path, result):
    """The file in one step: a run that is cut short leaves a whole one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1) + "\n")
    part.replace(path)
