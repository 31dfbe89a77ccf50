"""The machine at hand: its processor, its caches, and where its calibrated target file is."""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import subprocess
from functools import cache
from pathlib import Path

import platformdirs

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def calibrated_path() -> Path:
    """Where ``eqfuse calibrate`` writes what it measured: one file for each kind of processor, as machines may share a home directory.
    ``EQFUSE_TARGETS`` names another directory than the user's own."""
    chosen = os.environ.get("EQFUSE_TARGETS")
    folder = Path(chosen).expanduser() if chosen else platformdirs.user_config_path("eqfuse") / "targets"
    said = "\0".join((platform.machine(), processor(), str(cores()), repr(caches())))
    return folder / f"cpu-{hashlib.sha256(said.encode()).hexdigest()[:12]}.toml"


def calibrated() -> Path | None:
    """The calibrated file of this machine, if there is one that nobody else may have written."""
    path = calibrated_path()
    try:
        status = path.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o022 or (hasattr(os, "getuid") and status.st_uid != os.getuid()):
        return None
    return path


@cache
def processor() -> str:
    """What the system calls the processor."""
    named = _sysctl("machdep.cpu.brand_string")
    try:
        lines = [line.partition(":") for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        lines = []
    facts: dict[str, str] = {}
    for key, _, value in lines:
        facts.setdefault(key.strip(), value.strip())
    parts = [facts.get("model name", ""), *(f"{k} {facts[k]}" for k in ("cpu family", "model", "CPU part") if facts.get(k))]
    return named or ", ".join(p for p in parts if p) or platform.processor() or platform.machine()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def caches() -> tuple[tuple[int, int, int], ...]:
    """Data caches as (level, bytes, how many processors share it), nearest first; none where the system does not say."""
    found: dict[int, tuple[int, int, int]] = {}
    for folder in sorted(_CACHES.glob("index*")):
        try:
            kind, number, size, shared = ((folder / n).read_text().strip() for n in ("type", "level", "size", "shared_cpu_list"))
        except OSError:
            continue
        if kind != "Instruction" and size[-1:] in _UNITS and size[:-1].isdecimal() and number.isdecimal():
            found[int(number)] = int(number), int(size[:-1]) * _UNITS[size[-1]], _listed(shared)
    if not found:
        for level, name in ((1, "hw.l1dcachesize"), (2, "hw.l2cachesize"), (3, "hw.l3cachesize")):
            said = _sysctl(name)
            if said.isdecimal() and int(said):
                found[level] = level, int(said), 1
    return tuple(found[k] for k in sorted(found))


def _listed(text: str) -> int:
    """How many numbers a list such as ``0-3,8`` has."""
    spans = [p.split("-") for p in text.split(",") if p]
    return sum(int(s[-1]) - int(s[0]) + 1 for s in spans) or 1


def _sysctl(name: str) -> str:
    if platform.system() != "Darwin":
        return ""
    done = subprocess.run(["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, check=False)
    return done.stdout.strip()
