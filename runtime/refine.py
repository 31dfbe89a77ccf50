"""Kernels chosen by what a compiler makes of them, among the best by the model.

The model prices hundreds of candidates of a kernel and is wrong by a factor for some; the compiler takes seconds for one and knows.  So of
each kernel of a plan ``K`` candidates are compiled: the model's first, then the next best by its price, and a third of them near the best
of these (other warps, stages, or one tile of another size).  What cannot be launched, or spills, is refused; whose floors alone are above
the time of the model's first is not looked at further; the rest is ordered by the static estimate (:mod:`eqfuse.machine`), and where a
clock may be asked (:mod:`.clocked`), by that.  Nothing depends on how fast this machine compiles, but for a limit of time, and it is said
where that cut anything short.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from ..errors import CompileError, EqFuseError
from ..extract.covers.finished import headed
from ..extract.covers.shortlist import Shortlists
from ..extract.kept import folder
from ..extract.kept.codec import Unkept, decoded, encoded
from ..extract.kept.versions import made_by, package_sources
from ..extract.plan import Plan, PlannedCall, PlannedKernel
from ..extract.refined import Refined, Tried, tried
from ..extract.targets import Target
from ..extract.variants import again, variants
from ..tiles.kernel import Kernel
from ..tiles.kernel_spec import check_kernel
from . import clocked
from .compilers import Compilers, workers_for
from .judging import Judged, job_of

NEAR_SHARE = 3  # of so many candidates one is near the best of the others
DEAREST = 2.0  # candidates that the model finds so many times as slow as its first are not tried
GAIN = 0.98  # of the time of the model's first that another must take
SECONDS = 180.0  # on the wall, for the kernels of a plan
TUNED = 8  # candidates for the clock, if nobody says how many are compiled


@dataclass(frozen=True)
class Asked:
    """``most``: candidates of each kernel; ``tune``: order them by the clock where there is one.  On a CPU there is none but that."""

    most: int
    tune: bool
    target: Target

    @property
    def by_clock(self) -> bool:
        return self.tune or self.target.on_cpu


class Refiner:
    """Refines plans, all within one limit of time and with the same compilers, which end with this context."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.until = time.monotonic() + SECONDS
        self._open = ExitStack()

    def __enter__(self) -> Refiner:
        if not self.asked.target.on_cpu and importlib.util.find_spec("triton") is None:
            raise CompileError("kernels are compiled by Triton, which is not there", cure="pip install 'triton>=3.6,<4', on Linux")
        self.compilers = self._open.enter_context(Compilers(workers_for(self.asked.most)))
        self.progress = self._open.enter_context(_progress())
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def __call__(self, plan: Plan, lists: Callable[[], Shortlists], known_by: str | None) -> Plan:
        """The plan with the best candidate for each of its kernels, but for those that share a launch or take no longer than that.

        ``lists``: the searches of its kernels, which are made if there is something to find.  ``known_by``: the name of all that the plan
        follows from, by which what is found is kept on disk, if it is to be."""
        shortlists = functools.cache(lists)
        together = {at for one in plan.launches if len(one.steps) > 1 for at in one.steps}
        steps: list[PlannedKernel | PlannedCall] = list(plan.steps)
        kernels = {at: k for at, k in enumerate(steps) if isinstance(k, PlannedKernel) and at not in together and k.cost.bound != "launch"}
        for at in sorted(kernels, key=lambda at: -kernels[at].cost.us):  # where time is short, it is for the heaviest
            self.progress(kernels[at].kernel.name, self.asked.most, 0)
            found = _Candidates(kernels[at], self, known_by).best(shortlists)
            same = found.kernel is kernels[at].kernel
            steps[at] = found if same else headed(found, kernels[at].kernel.notes.get("", ""))
        return with_steps(plan, steps)


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal; yields what is told the kernel, how many candidates more there are, and how many are done."""
    if not sys.stderr.isatty():
        yield lambda name, more, done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("trying {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=0)
        yield lambda name, more, done: bar.update(task, description=name, advance=done, total=(bar.tasks[0].total or 0) + more)


def with_steps(plan: Plan, steps: Sequence[PlannedKernel | PlannedCall]) -> Plan:
    """A plan with other kernels in the places of its own."""
    pairs = list(zip(steps, plan.steps, strict=True))
    us, moved = (sum(of(new) - of(old) for new, old in pairs) for of in (lambda k: k.cost.us, lambda k: k.cost.dram_bytes))
    launches = tuple(replace(one, us=steps[one.steps[0]].cost.us) if len(one.steps) == 1 else one for one in plan.launches)
    return replace(plan, steps=tuple(steps), launches=launches, estimated_us=plan.estimated_us + us, dram_bytes=plan.dram_bytes + moved)


class _Candidates:
    """The candidates of one kernel."""

    def __init__(self, first: PlannedKernel, refiner: Refiner, known_by: str | None) -> None:
        self.known_by = known_by
        self.first, self.refiner, self.asked, self.target = first, refiner, refiner.asked, refiner.asked.target
        self.kernels: list[PlannedKernel] = []
        self.tried: list[Tried] = []
        self.stopped = ""

    def best(self, shortlists: Callable[[], Shortlists]) -> PlannedKernel:
        """The kernel with the candidates that were tried, or another in its place."""
        why = clocked.why_not(self.first, self.target) if self.asked.by_clock else ""
        device = "" if why or not self.asked.by_clock else clocked.device_name(self.target)
        key = None if self.known_by is None else _key(self.known_by, self.first, self.asked, device)
        known = _read(key, self.first, self.target)
        if known is not None:
            return known
        if self.target.on_cpu and why:
            return replace(self.first, refined=Refined((tried(self.first.kernel, self.first.cost.us),), 0, "model", f"not timed: {why}"))
        if self.target.on_cpu:
            self._list(self.first)
        else:
            self._compile([self.first])
        near = self.asked.most // NEAR_SHARE
        more = self.asked.most > 1 and not self.stopped
        listed = self._others(shortlists().of(self.first, 2 * self.asked.most) if more else ())
        self._add(listed, self.asked.most - near)
        self._add(self._others(variants(self.kernels[self._by_machine_code()], self.target)), self.asked.most)
        self._add(listed, self.asked.most)
        chosen, by = self._by_machine_code(), "machine code"
        if self.asked.by_clock and not why:
            chosen, by = self._by_clock(), "clock"
        by = by if any(t.measured_us is not None if by == "clock" else t.static_us is not None for t in self.tried) else "model"
        stopped = "; ".join(filter(None, (self.stopped, why and f"not timed: {why}")))
        found = replace(self.kernels[chosen], refined=Refined(tuple(self.tried), chosen, by, stopped))
        if not self.stopped:
            _write(key, found, self.target)
        return found

    def _others(self, found: Iterable[PlannedKernel]) -> Iterator[PlannedKernel]:
        """Those that are not tried yet, and that the model does not find far slower."""
        for k in found:
            known = {_what(t.kernel) for t in (self.first, *self.kernels)}
            if k.cost.us <= DEAREST * self.first.cost.us and _what(k.kernel) not in known:
                yield k

    def _add(self, others: Iterator[PlannedKernel], most: int) -> None:
        """Try some more, until there are as many as are wanted."""
        more: list[PlannedKernel] = []
        while len(self.kernels) + len(more) < most and (k := next(others, None)) is not None:
            if _what(k.kernel) not in {_what(m.kernel) for m in more}:
                more.append(k)
        if not self.target.on_cpu:
            self._compile(more)
        for k in more if self.target.on_cpu else ():
            self._list(k)

    def _list(self, k: PlannedKernel) -> None:
        self.kernels.append(k)
        self.tried.append(tried(k.kernel, k.cost.us))

    def _compile(self, kernels: Sequence[PlannedKernel]) -> None:
        most = GAIN * self.tried[0].static_us if self.tried and self.tried[0].static_us is not None else math.inf
        jobs = [job_of(k, self.target) for k in kernels]
        said = self.refiner.compilers(jobs, most, self.refiner.until, lambda: self.refiner.progress(self.first.kernel.name, 0, 1))
        for k, found in zip(kernels, said, strict=True):
            if found is None:
                self.stopped = f"the {SECONDS:.0f} s for a plan are over"
            if found is not None or not self.kernels:
                self._list(k)
                self.tried[-1] = _told(self.tried[-1], found or Judged())

    def _by_machine_code(self) -> int:
        """The candidate that takes least by the static estimate, if that is less than the model's first by more than it can tell."""
        able = [at for at, t in enumerate(self.tried) if not t.refused]
        if not able:
            return min(range(len(self.tried)), key=lambda at: (self.tried[at].spilled or math.inf, at))
        first = self.tried[0]
        if not first.refused and first.static_us is None:
            return 0  # nothing to compare with
        known = [at for at in able if self.tried[at].static_us is not None]
        if not known:
            return able[0]
        best = min(known, key=lambda at: (self.tried[at].static_us, at))
        least, own = self.tried[best].static_us, first.static_us
        assert least is not None
        return best if first.refused or own is None or least < GAIN * own else 0

    def _by_clock(self) -> int:
        """The candidate that takes least by the clock."""
        able = [at for at, t in enumerate(self.tried) if not t.refused] or [0]
        found = clocked.measured([self.kernels[at] for at in able], self.target)
        for at, said in zip(able, found, strict=True):
            self.tried[at] = replace(self.tried[at], **({"refused": said} if isinstance(said, str) else {"measured_us": said}))
        times = {at: us for at in able if (us := self.tried[at].measured_us) is not None}
        if not times:
            return 0
        best = min(times, key=lambda at: times[at])
        return best if times[best] < GAIN * times.get(0, math.inf) else 0


def _told(t: Tried, found: Judged) -> Tried:
    return replace(
        t, static_us=found.static_us, floor_us=found.floor_us, unit=found.unit, refused=found.refused, registers=found.registers,
        spilled=found.spill_bytes, compile_ms=found.compile_ms,
    )  # fmt: skip


def _what(kernel: Kernel) -> tuple[object, ...]:
    """In what candidates differ."""
    return kernel.nodes, tuple(kernel.roles.items()), kernel.order, kernel.warps, kernel.stages, kernel.persistent


# on disk ------------------------------------------------------------------------------------------------------------------------------


def _key(known_by: str, first: PlannedKernel, asked: Asked, device: str) -> str | None:
    """The name of what was found for a kernel; ``None`` where nothing is kept."""
    versions = made_by(package_sources(), ("triton", "numpy") if not asked.target.on_cpu else ("numpy",))
    if versions is None or folder.directory() is None:
        return None
    try:
        kernel = json.dumps(encoded(replace(first.kernel, notes={})))
    except Unkept:
        return None
    said = ("refined", versions, known_by, kernel, repr(asked.target), str(asked.most), device)
    return hashlib.sha256("\0".join(said).encode()).hexdigest()


def _write(key: str | None, found: PlannedKernel, target: Target) -> None:
    if key is not None:
        of = {"program": found.kernel.name, "target": target.name}
        kernel = replace(found.kernel, notes={})
        folder.write(key, {"of": of, "kernel": encoded(kernel), "refined": encoded(found.refined)})


def _read(key: str | None, first: PlannedKernel, target: Target) -> PlannedKernel | None:
    """What was found before: choices, of which the kernel is made again by the present code."""
    data = folder.read(key) if key is not None else None
    try:
        if not isinstance(data, dict):
            return None
        kernel, found = decoded(data["kernel"], Kernel), decoded(data["refined"], Refined)
        check_kernel(kernel)
        if _stored(kernel) != _stored(first.kernel) or any(first.kernel.buffers.get(n, b) != b for n, b in kernel.buffers.items()):
            return None
        if not 0 <= found.chosen < len(found.candidates):
            return None
        return replace(first if not found.chosen else again(kernel, target), refined=found)
    except (Unkept, EqFuseError, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return None


def _stored(kernel: Kernel) -> set[str]:
    return {r.buffer for r in kernel.roots}
