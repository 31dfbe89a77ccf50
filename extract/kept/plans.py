"""Plans as entries: what a plan follows from is its key; what the search chose is kept, and made into a plan again.

Kept is what every process would find: plans of the package's own rules and operations, without outside calls, that no clock has ended.
Names are part of a key, as the texts of a plan speak of them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from ...errors import EqFuseError
from ...ir.fingerprint import spelled
from ...ir.ops import BUILT_IN
from ...ir.program import Program
from ...ir.terms import Map
from ...rewrites import Rule
from ...tiles.finish import finish
from ...tiles.kernel import Buffer, Kernel, input_buffers
from ...tiles.kernel_spec import check_kernel
from ...tiles.lower import lower
from ...tiles.walk import walk
from ..cost import fit, launchable, pipelined, price
from ..launches import check_launches
from ..launches import like as launches_like
from ..plan import Cost, Plan, PlannedKernel
from ..targets import Target
from ..variants import of_launch
from . import folder
from .codec import Unkept, decoded, encoded
from .versions import made_by

SOURCES = ("extract", "extraction", "egraph", "ir", "rewrites", "tiles", "planning")  # what plans are made by
OTHERS = ("egglog", "numpy")
GIVEN = ("program", "target", "steps", "parts")  # fields of a plan that an entry does not hold as they are


@dataclass(frozen=True)
class Key:
    """What a plan is for, and the name that this has on disk."""

    name: str
    program: Program  # that is planned
    target: Target
    seconds: float  # time_budget


@dataclass(frozen=True)
class Read:
    """A plan that was kept; ``sized``: a rule depended on the lengths of axes; ``work``: what it took to find it."""

    plan: Plan
    sized: bool
    work: float


def key(
    kind: str, program: Program, target: Target, rules: Sequence[Rule], every: Sequence[Rule], seconds: float, **options: object
) -> Key | None:
    """The key of a plan by some ``rules``; ``None`` if it is not to be kept: ``every`` rule that there is has to be the package's own, for
    plans speak of those, too, that they do not use."""
    if folder.directory() is None or not all(r.builtin for r in (*rules, *every)):
        return None
    terms = program.terms()
    versions = made_by(SOURCES, OTHERS)
    if versions is None or any(isinstance(t, Map) and t.op not in BUILT_IN for t in terms):
        return None
    place = {t: k for k, t in enumerate(terms)}
    said = [versions, kind, spelled(program), repr(target), *(r.name for r in rules)]
    if options.get("fusion"):  # verdicts are about values by name, or by line
        said += [f"{n}: {[place[t] for t in ts if t in place]}" for n, ts in program.names.items()]
        said += [f"{place[t]}: {where}" for t, where in program.sources.items() if t in place]
    said += [f"{k}={v!r}" for k, v in sorted(options.items())]
    return Key(hashlib.sha256("\0".join(said).encode()).hexdigest(), program, target, seconds)


# plans ------------------------------------------------------------------------------------------------------------------------------


def write_plan(to: Key, plan: Plan, sized: bool, work: float) -> None:
    """Keep a plan, if any process would find it.  ``sized``: a rule depended on the lengths of axes; ``work``: what it took to find it, on
    the clock of work, which it takes from a budget when it is read as well: what else is planned must not hang on what is kept."""
    if plan.calls or plan.parts or plan.unsure or "clock" in (plan.saturation, plan.stopped):
        return
    try:
        rest = {f.name: encoded(getattr(plan, f.name)) for f in fields(Plan) if f.name not in GIVEN}
        kernels = [[encoded(k.kernel), encoded(k.cost)] for k in plan.kernels]
    except Unkept:
        return
    cut = plan.stopped in ("work", "time") or plan.saturation == "time"
    seconds = to.seconds if cut and math.isfinite(to.seconds) else None
    folder.write(to.name, {"of": _of(to), "sized": sized, "seconds": seconds, "work": work, "kernels": kernels, "plan": rest})


def _of(to: Key) -> dict[str, str]:
    """What an entry is for, for people."""
    return {"program": to.program.name, "target": to.target.name}


def read_plan(of: Key, written: Program) -> Read | None:
    """The plan of an entry, whose kernels are made by the present code and cost what they did; ``None`` if there is none.  ``written`` is
    the program that the plan speaks of."""
    data = folder.read(of.name)
    try:
        if data is None or (data["seconds"] is not None and of.seconds > data["seconds"]):
            return None
        hints = get_type_hints(Plan)
        rest = {f.name: decoded(data["plan"][f.name], hints[f.name]) for f in fields(Plan) if f.name not in GIVEN}
        _check_buffers(rest["buffers"], of.program)
        joined = {at for one in rest["launches"] if len(one.steps) > 1 for at in one.steps}
        known = [(decoded(kernel, Kernel), decoded(cost, Cost)) for kernel, cost in data["kernels"]]
        steps = tuple(_step(k, cost, rest["buffers"], of.target, at in joined) for at, (k, cost) in enumerate(known))
        check_launches(steps, rest["launches"])
        if launches_like(steps, of.target, rest["launches"]) != rest["launches"]:
            raise Unkept("another cost")
        return Read(Plan(program=written, target=of.target.name, steps=steps, **rest), bool(data["sized"]), float(data["work"]))
    except (Unkept, EqFuseError, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return None  # whatever a file says, it is as if there were none


def _step(kernel: Kernel, cost: Cost, buffers: Mapping[str, Buffer], target: Target, joined: bool) -> PlannedKernel:
    """A kernel as a step: lowered, fitted and priced as the search does it, or as a member of a launch (``joined``).  Raises
    :class:`Unkept` if that is not what was kept."""
    names = [kernel.name, *(a.name.replace("'", "_") for a in kernel.roles)]
    if not all(map(_plain, names)) or any(buffers.get(b) != buffer for b, buffer in kernel.buffers.items()):
        raise Unkept("names")
    check_kernel(kernel)
    tiles = lower(kernel)
    counts = walk(tiles)
    for copies in (True, False):
        first = pipelined(counts, fit(counts, target, copies=copies), target, kernel.persistent)
        if joined and not counts.dots and kernel.stages in (1, first.stages):
            first = of_launch(counts, first, kernel.warps, kernel.stages)
        for fitted in launchable(counts, first, target):
            if fitted.reason or (fitted.warps, fitted.stages) != (kernel.warps, kernel.stages):
                continue
            found = price(kernel, counts, fitted, target)
            if found == cost:
                rules = tuple(dict.fromkeys(n.rule for n in kernel.nodes if n.rule))
                return PlannedKernel(kernel, finish(tiles), found, rules, {a.name: n for a, n in counts.passes.items()})
    raise Unkept("another cost")


def _check_buffers(buffers: Mapping[str, Buffer], program: Program) -> None:
    """Inputs and outputs are those of the program, and temporaries have plain names."""
    sizes = {name: (b.dtype, b.shape, b.strides, b.role) for name, b in input_buffers(program).items()}
    sizes |= {o.name: (o.dtype, o.shape, None, "output") for o in program.outputs}
    for name, b in buffers.items():
        temporary = b.role == "temporary" and name not in sizes and _plain(name)
        if b.name != name or not (temporary or sizes.get(name) == (b.dtype, b.shape, b.strides, b.role)):
            raise Unkept("buffers")
    if not sizes.keys() <= buffers.keys():
        raise Unkept("buffers")


def _plain(name: str) -> bool:
    return name.isidentifier()


# that no other program is better --------------------------------------------------------------------------------------------------------


def note_best(to: Key, work: float) -> None:
    """Keep that no equal program in another order has a better plan than the one that was written, and what it took to look for one."""
    folder.write(to.name, {"of": _of(to), "best": "as written", "work": work})


def known_best(of: Key) -> float | None:
    """What it took to find that out; ``None`` if it is not known."""
    data: Any = folder.read(of.name)
    known = isinstance(data, dict) and data.get("best") == "as written" and isinstance(data.get("work"), int | float)
    return float(data["work"]) if known else None
