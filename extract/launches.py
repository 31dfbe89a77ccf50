"""Kernels that do not wait for one another may be one launch.

A launch is a sum of grids: programs below the number that the first kernel has run that kernel, the next ones the next kernel.  Small
kernels then fill the device together, and there is one launch to pay for.  This is decided on the finished plan and changes no kernel; the
search compares plans whose kernels are launched one by one, but for splits, which small kernels do not need to fill a device together.

Members have the same warps, stages and rounding, which belong to a launch, and give every tile a program.  All programs have the registers
of the neediest kernel and the shared memory of all, so a heavy and a light kernel may lose more than a launch.  Groups grow greedily: of
all pairs of launches (n * n / 2 at first, n more for each pair that is joined) the one that saves most, as long as a model can tell it from
the two (:data:`.objective.TIE`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from .cost import together
from .objective import TIE
from .plan import Launch, PlannedCall, PlannedKernel
from .targets import Target

Step = PlannedKernel | PlannedCall
Unit = tuple[int, ...]  # places of steps, in order


def launches(steps: Sequence[Step], target: Target, most: float) -> tuple[Launch, ...]:
    """The launches of some steps that may hold so many bytes at a time; none if each step is better off by itself."""
    units: list[Unit] = [(k,) for k in range(len(steps))]
    us: dict[Unit, float] = {}
    refused: set[Unit] = set()

    def gain(u: Unit, v: Unit) -> float:
        joint = _joined(u, v)
        if joint not in us:
            us[joint] = together([k for k in (steps[at] for at in joint) if isinstance(k, PlannedKernel)], target)
        apart = sum(us.get(one, steps[one[0]].cost.us) for one in (u, v))
        return apart - us[joint] if apart > TIE * us[joint] else 0.0

    alike = _alike(steps)
    while True:
        before = _reached(steps, units)
        of_a_kind = ((u, v) for u, v in itertools.combinations(units, 2) if u[0] in alike and alike[u[0]] == alike.get(v[0]))
        able = [(u, v) for u, v in of_a_kind if u not in before[v] and v not in before[u] and _joined(u, v) not in refused]
        gained, u, v = max(((gain(u, v), u, v) for u, v in able), key=lambda found: found[0], default=(0.0, (), ()))
        if gained <= 0:
            break
        joined = in_order(steps, [w for w in units if w not in (u, v)] + [_joined(u, v)])
        if held(tuple(steps[k] for k in w) for w in joined) > most:
            refused.add(_joined(u, v))
        else:
            units = joined
    return tuple(Launch(u, us.get(u, steps[u[0]].cost.us)) for u in units) if len(units) < len(steps) else ()


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
    alike, made = _alike(steps), set[str]()
    everything = {b.name for k in steps for b in k.stores}
    for one in found:
        if len({alike.get(k, -1 - k) for k in one.steps}) != 1:
            return "kernels that cannot be one launch"
        if {name for k in one.steps for name in steps[k].loads} & (everything - made):
            return "a kernel reads what is not made yet"
        made |= {b.name for k in one.steps for b in steps[k].stores}
    return ""


def held(launched: Iterable[Sequence[Step]]) -> int:
    """Bytes held at a time beside inputs and outputs: a temporary goes when its last reader has run."""
    groups = list(launched)
    most, live = 0, dict[str, int]()
    for at, group in enumerate(groups):
        live |= {b.name: b.bytes for k in group for b in k.stores if b.role == "temporary"}
        most = max(most, sum(live.values()))
        needed = {name for later in groups[at + 1 :] for k in later for name in k.loads}
        live = {name: n for name, n in live.items() if name in needed}
    return most


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


def _alike(steps: Sequence[Step]) -> dict[int, int]:
    """The kernels that may be members of a launch, each with the first one of the same kind."""
    kinds = {
        at: (k.kernel.warps, k.kernel.stages if k.cost.flops else 0, k.tiles.contracts)
        for at, k in enumerate(steps)
        if isinstance(k, PlannedKernel) and not (k.kernel.persistent or k.kernel.registers or k.kernel.descriptors)
    }
    return {at: next(first for first, other in kinds.items() if other == kind) for at, kind in kinds.items()}


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
