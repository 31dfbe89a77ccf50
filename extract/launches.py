"""Kernels that do not wait for one another may be one launch.

A launch is a sum of grids: programs below the number that the first kernel has run that kernel, the next ones the next kernel.  Small
kernels then fill the device together, and there is one launch to pay for.  This is decided on the finished plan and changes no kernel; the
search compares plans whose kernels are launched one by one, but for splits, which small kernels do not need to fill a device together.

Members have the same warps and rounding, which belong to a launch, and give every tile a program.  The stages of a launch are those of its
products, which have the same; loops of kernels without one say theirs.  All programs have the registers of the neediest kernel and the
shared memory of all, so a heavy and a light kernel may lose more than a launch.  A kernel without a product may take the warps of another
one, and load nothing ahead: beside others it need not keep memory busy by itself, and its copies would take the shared memory of all.
Groups grow greedily: of all pairs of launches (n * n / 2 at first, n more for each pair that is joined) the one that saves most, as long as
a model can tell it from the two (:data:`.objective.TIE`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from ..tiles.program import Dot
from .blocks import bytes_held
from .cost import tile_bytes, together
from .objective import TIE
from .plan import Launch, PlannedCall, PlannedKernel
from .targets import Target
from .variants import with_launch

Step = PlannedKernel | PlannedCall
Unit = tuple[int, ...]  # places of steps, in order


def launches(steps: Sequence[Step], target: Target, most: float) -> tuple[tuple[Step, ...], tuple[Launch, ...]]:
    """The launches of some steps that may hold so many bytes at a time, and the steps with the warps and stages that these give them; no
    launches if each step is better off by itself."""
    units: list[Unit] = [(k,) for k in range(len(steps))]
    members: dict[Unit, tuple[float, tuple[PlannedKernel, ...]]] = {}
    forms: dict[tuple[int, int, int], PlannedKernel] = {}
    refused: set[Unit] = set()
    able = {at for at, k in enumerate(steps) if _shares(k)} if target.core is None else set()

    def form(at: int, warps: int, stages: int) -> PlannedKernel:
        k = steps[at]
        assert isinstance(k, PlannedKernel)
        if (warps, stages) == (k.kernel.warps, k.kernel.stages):
            return k
        if (at, warps, stages) not in forms:
            forms[at, warps, stages] = with_launch(k, target, warps, stages)
        return forms[at, warps, stages]

    def cheapest(joint: Unit) -> tuple[float, tuple[PlannedKernel, ...]]:
        """The time of one launch, and its members."""
        own = {at: k for at in joint if isinstance(k := steps[at], PlannedKernel)}
        given = {k.kernel.warps for k in own.values() if _has_product(k)} or {k.kernel.warps for k in own.values()}
        found = (math.inf, tuple(own.values()))
        for warps in sorted(given):
            if any(k.cost.register_bytes > tile_bytes(warps, target) for k in own.values()):
                continue  # it would spill
            for ahead in (True, False):
                if not ahead and all(k.kernel.stages == 1 or _has_product(k) for k in own.values()):
                    continue
                these = tuple(form(at, warps, k.kernel.stages if ahead or _has_product(k) else 1) for at, k in own.items())
                found = min(found, (together(these, target), these), key=lambda f: f[0])
        return found

    def gain(u: Unit, v: Unit) -> float:
        joint = _joined(u, v)
        apart = sum(members[one][0] if one in members else steps[one[0]].cost.us for one in (u, v))
        if joint not in members:
            if apart <= TIE * (sum(steps[at].cost.dram_bytes for at in joint) / (target.dram_gb_s * 1e3) + target.launch_us):
                return 0.0  # memory alone takes as long
            members[joint] = cheapest(joint)
        return apart - members[joint][0] if apart > TIE * members[joint][0] else 0.0

    while True:
        before = _reached(steps, units)
        of_a_kind = ((u, v) for u, v in itertools.combinations(units, 2) if {*u, *v} <= able and _one_launch([steps[k] for k in (*u, *v)]))
        free = [(u, v) for u, v in of_a_kind if u not in before[v] and v not in before[u] and _joined(u, v) not in refused]
        gained, u, v = max(((gain(u, v), u, v) for u, v in free), key=lambda found: found[0], default=(0.0, (), ()))
        if gained <= 0:
            break
        joined = in_order(steps, [w for w in units if w not in (u, v)] + [_joined(u, v)])
        if held(tuple(steps[k] for k in w) for w in joined) > most:
            refused.add(_joined(u, v))
        else:
            units = joined
    if len(units) == len(steps):
        return tuple(steps), ()
    found = list(steps)
    for u in units:
        if len(u) > 1:
            for at, k in zip(u, members[u][1], strict=True):
                found[at] = k
    return tuple(found), tuple(Launch(u, members[u][0] if len(u) > 1 else steps[u[0]].cost.us) for u in units)


def like(steps: Sequence[Step], target: Target, model: Sequence[Launch]) -> tuple[Launch, ...]:
    """The launches of another plan, which has the same steps at other sizes; none if steps differ there in what launches need, or a device
    cannot do them."""
    if _fault(steps, model):
        return ()
    members = {one.steps: [k for k in (steps[at] for at in one.steps) if isinstance(k, PlannedKernel)] for one in model}
    found = tuple(Launch(u, together(of, target) if len(u) > 1 else steps[u[0]].cost.us) for u, of in members.items())
    return found if all(math.isfinite(one.us) for one in found) else ()


def check_launches(steps: Sequence[Step], found: Sequence[Launch]) -> None:
    """Raise AssertionError unless every step is launched once, after what it reads was made, and together with none but its like."""
    fault = _fault(steps, found)
    assert not fault, fault


def _fault(steps: Sequence[Step], found: Sequence[Launch]) -> str:
    """What is wrong with launches, if anything."""
    if found and sorted(k for one in found for k in one.steps) != list(range(len(steps))):
        return "a step is not launched once"
    made = set[str]()
    everything = {b.name for k in steps for b in k.stores}
    for one in found:
        members = [steps[k] for k in one.steps]
        if len(members) > 1 and not (all(map(_shares, members)) and _one_launch(members) and _same_warps(members)):
            return "kernels that cannot be one launch"
        if {name for k in one.steps for name in steps[k].loads} & (everything - made):
            return "a kernel reads what is not made yet"
        made |= {b.name for k in one.steps for b in steps[k].stores}
    return ""


def held(launched: Iterable[Sequence[Step]]) -> int:
    """Bytes held at a time beside inputs and outputs by steps, those together that are one launch."""
    steps = (
        ({b.name: b.bytes for k in group for b in k.stores if b.role == "temporary"}, {n for k in group for n in k.loads}, 0)
        for group in launched
    )
    return max(bytes_held(steps), default=0)


def in_order(steps: Sequence[Step], units: Iterable[Unit]) -> list[Unit]:
    """The units so that each comes after what it needs; otherwise by their first steps."""
    rest, found = sorted(units), list[Unit]()
    needs = _needs(steps, rest)
    while rest:
        rest.remove(first := next(u for u in rest if needs[u] <= {*found}))
        found.append(first)
    return found


def _joined(u: Unit, v: Unit) -> Unit:
    return tuple(sorted((*u, *v)))


def _shares(k: Step) -> bool:
    """Whether a step may be a member of a launch."""
    return isinstance(k, PlannedKernel) and not (k.kernel.persistent or k.kernel.registers or k.kernel.descriptors)


def _one_launch(steps: Sequence[Step]) -> bool:
    """Whether kernels can be members of one launch, with the warps of some of them: those with products keep theirs, and their stages."""
    kernels = [k for k in steps if isinstance(k, PlannedKernel)]
    products = {(k.kernel.warps, k.kernel.stages) for k in kernels if _has_product(k)}
    return len(products) <= 1 and len({k.tiles.contracts for k in kernels}) == 1


def _same_warps(steps: Sequence[Step]) -> bool:
    return len({k.kernel.warps for k in steps if isinstance(k, PlannedKernel)}) == 1


def _needs(steps: Sequence[Step], units: Sequence[Unit]) -> dict[Unit, set[Unit]]:
    """The units that make what each reads."""
    maker = {b.name: u for u in units for k in u for b in steps[k].stores}
    return {u: {maker[name] for k in u for name in steps[k].loads if name in maker} for u in units}


def _reached(steps: Sequence[Step], units: Sequence[Unit]) -> Mapping[Unit, set[Unit]]:
    """What must have run before each unit; they are in order."""
    needs = _needs(steps, units)
    found: dict[Unit, set[Unit]] = {}
    for u in units:
        found[u] = needs[u].union(*(found[v] for v in needs[u]))
    return found


def _has_product(k: PlannedKernel) -> bool:
    """Whether a kernel multiplies matrices; over an axis of length 0 that is no operation."""
    return any(isinstance(s, Dot) for s in k.tiles.statements())
