"""The folder for the machine with the GPU: modules of kernels, what runs them, and what is expected of them."""

from __future__ import annotations

import contextlib
import datetime
import json
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import triton

import eqfuse
from eqfuse.compiled import Compiled
from eqfuse.errors import EqFuseError
from eqfuse.extract.targets import load_target
from eqfuse.testing import programs

from ..host import commit
from .cases import Wanted, described, tensors, wanted
from .drawn import Drawn, drawn
from .ranked import Sampled, sampled

THERE = Path(__file__).parent / "there"
ATTENTION = Path(__file__).parents[1] / "attention"


def write(folder: Path, target: str, only: Sequence[str] = (), static: bool = True, random_programs: int = 0) -> int:
    """Fill a folder; what is there already of the same commit is kept.  Returns how many cases could not be made."""
    made = Writer(folder, target, static)
    for one in sampled(target):
        if not only or any(word in one.name for word in only):
            made.take(one)
    for program in drawn(target, random_programs):
        made.draw(program)
    for w in wanted():
        if not only or any(word in w.name for word in only):
            made.add(w)
    return made.failed


class Writer:
    """Makes a folder, with what runs there, and puts cases into it."""

    def __init__(self, folder: Path, target: str, static: bool) -> None:
        (folder / "kernels").mkdir(parents=True, exist_ok=True)
        shutil.copytree(THERE, folder / "there", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        for path in (Path(programs.__file__), ATTENTION / "kinds.py", ATTENTION / "decode.py"):
            shutil.copy(path, folder / "there")
        self.folder, self.target, self.static, self.failed = folder, target, static, 0
        versions = {"torch": torch.__version__, "triton": triton.__version__, "eqfuse": eqfuse.__version__}
        where = {"target": target, "arch": load_target(target).arch, "commit": commit()}
        self._path = folder / "manifest.json"
        now = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M:%S}"
        self._manifest: dict[str, Any] = {"written": where | versions | {"date": now}, "cases": [], "failed": {}}
        if self._path.exists():
            before = json.loads(self._path.read_text())
            if before["written"] | {"date": now} == self._manifest["written"]:
                self._manifest = before

    def add(self, w: Wanted) -> None:
        """Plan, print, estimate; a case that cannot be made is said."""
        if any(c["name"] == w.name for c in self._manifest["cases"]):
            return
        started = time.process_time()
        try:
            case = self._case(w)
        except EqFuseError as error:
            self._manifest["failed"][w.name] = f"{type(error).__name__}: {error.message}"
            self.failed += 1
            print(f"{w.name}: {type(error).__name__}: {error.message}", flush=True)
            return
        self._manifest["cases"].append(case)
        self._save()
        told = f", {case['static_us']:.1f} static" if case["static_us"] else ""
        print(f"{w.name}: {case['modelled_us']:.1f} us modelled{told} ({time.process_time() - started:.1f} s)", flush=True)

    def take(self, one: Sampled) -> None:
        """Keep a kernel as it is: what it was priced at and its static time are known."""
        if any(c["name"] == one.name for c in self._manifest["cases"]):
            return
        name = f"kernels/{_plain(one.name)}.py"
        (self.folder / name).write_text(one.source())
        case = one.case | {"files": {"bench": {"file": name, "arguments": one.arguments}}}
        first = next((c["like"] for c in self._manifest["cases"] if c.get("makes") == case["makes"]), name)
        self._manifest["cases"].append(case | {"like": first})
        self._save()

    def draw(self, one: Drawn) -> None:
        """Keep a random program with its data."""
        if any(c["name"] == one.name for c in self._manifest["cases"]):
            return
        name = _plain(one.name)
        (self.folder / "kernels" / f"{name}.py").write_text(one.source)
        one.keep(self.folder / "kernels" / f"{name}.npz")
        files = {"small": {"file": f"kernels/{name}.py", "arguments": f"kernels/{name}.npz"}}
        self._manifest["cases"].append({"name": one.name, **one.case, "files": files})
        self._save()

    def _save(self) -> None:
        self._path.write_text(json.dumps(self._manifest, indent=1) + "\n")

    def _case(self, w: Wanted) -> dict[str, Any]:
        chosen = self._plan(w, "bench")
        estimates = chosen.estimates() if self.static and not w.checked else []
        files = {} if w.checked else {"bench": self._file(w, "bench", chosen)}
        files |= {size: self._file(w, size, self._at(w, size, chosen)) for size in w.sizes if size != "bench"}
        found = [e.static for e in estimates if e.static is not None]
        whole = bool(found) and len(found) == len(estimates) and all(s.us is not None for s in found)
        floors: dict[str, float] = {}
        for s in found:
            for unit, us in s.floors.items():
                floors[unit] = round(floors.get(unit, 0.0) + us, 2)
        return {
            "name": w.name, "kind": w.kind, "source": w.source, "program": w.program, "alone": w.alone, "files": files, "flops": w.flops,
            "modelled_us": round(chosen.plan.estimated_us, 2), "launches": len(chosen.plan.steps), "bytes": chosen.plan.dram_bytes,
            "static_us": round(sum(s.us or 0.0 for s in found), 2) if whole else None, "floors": floors,
        }  # fmt: skip

    def _plan(self, w: Wanted, size: str) -> Compiled:
        return eqfuse.optimize(w.fn, tensors(w, size), target=self.target, name=re.sub(r"\W+", "_", w.program), **w.options)

    def _at(self, w: Wanted, size: str, best: Compiled) -> Compiled:
        """At other sizes the same plan, if it can be had there, but for odd sizes: there the best one."""
        if size != "odd":
            with contextlib.suppress(EqFuseError):  # another program at these sizes
                return best.at(*tensors(w, size))
        return self._plan(w, size)

    def _file(self, w: Wanted, size: str, made: Compiled) -> dict[str, Any]:
        name = f"kernels/{_plain(w.name)}_{size}.py"
        (self.folder / name).write_text(made.source)
        return {"file": name, "arguments": described(w, size)}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
