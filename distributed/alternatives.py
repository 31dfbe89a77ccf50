"""What else could have been chosen, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import PlanError
from .choice import Allowed, Chosen, Key, Made, Space, Usable
from .mesh import PARTIAL
from .plan import Placed
from .search import search


@dataclass(frozen=True)
class Alternative:
    """Another choice: what is different, its time and the bytes that each device sends."""

    description: str
    us: float
    moving_us: float
    bytes: int


def alternatives(space: Space, allowed: Allowed, chosen: Chosen, seconds: float = 2.0) -> tuple[Alternative, ...]:
    """The best choices under one more condition each, the cheapest first: no reduction merged from parts, no addends, everything computed
    by all devices, and each output at each other place that it may have."""
    found = {}
    for description, where, usable in _conditions(space, allowed, chosen):
        try:
            found[description] = search(space, where, seconds, usable)
        except PlanError:
            continue  # there is no such choice
    made = [Alternative(text, p.us, p.chosen.moving_us, p.bytes) for text, p in found.items()]
    return tuple(sorted(made, key=lambda a: (a.us, a.description)))


def _conditions(space: Space, allowed: Allowed, chosen: Chosen) -> Iterator[tuple[str, Allowed, Usable]]:
    def anything(key: Key, made: Made) -> bool:
        return True

    def written(key: Key, made: Made) -> bool:
        return made.member is None or space.forms.members[key[0]][made.member].rule is None

    def whole(key: Key, made: Made) -> bool:
        return PARTIAL not in key[1]

    def everywhere(key: Key, made: Made) -> bool:
        return key[1] == space.mesh.everywhere

    if space.forms.splits:
        yield "no reduction merged from parts", allowed, written
    yield "no addends", allowed, whole
    yield "everything computed by all devices", allowed, everywhere
    for o in space.forms.program.outputs:
        c = space.forms.graph.roots[o.name]
        for place in space.places[c] if o.name not in allowed.outputs else ():
            if PARTIAL not in place and place != chosen.outputs[o.name][1]:
                yield f"{o.name} {space.mesh.text(place)}", Allowed(allowed.inputs, {**allowed.outputs, o.name: (place,)}), anything


def lost(plan: Placed, other: Alternative) -> str:
    """Why an alternative was not taken."""
    more, moving = other.us - plan.us, other.moving_us - plan.chosen.moving_us
    if more <= 1e-6 * plan.us:
        return "takes as long"
    return f"{more:.1f} us more: {moving:+.1f} in collectives, {more - moving:+.1f} in computing"
