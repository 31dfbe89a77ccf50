"""The placement that is taken: the cheapest choice, or a choice with reductions in one pass where that stores less.

What :meth:`Space.choose` minimises does not see that a value which is computed before a collective and used behind it is stored.  Where
the best choice stores something, others are tried in which reductions over an axis that is split are merged from partial results alone, and
the price of all of them includes what they store and a launch for each local program.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from ..errors import PlanError
from ..ir.index import Axis
from .choice import SECONDS, Allowed, Key, Made, Space, Usable
from .cut import cut
from .plan import Placed


def search(space: Space, allowed: Allowed, seconds: float = SECONDS, usable: Usable = lambda key, made: True) -> Placed:
    """The best plan found.  PlanError where an output cannot be where it should."""
    best = cut(space, space.choose(allowed, seconds, usable))
    axes = [a for a in space.forms.split if best.stored_bytes]
    for several in (c for n in range(1, len(axes) + 1) for c in combinations(axes, n)):

        def in_parts(key: Key, made: Made, apart: tuple[Axis, ...] = several) -> bool:
            return usable(key, made) and not _whole(space, key, made, apart)

        try:
            other = cut(space, space.choose(allowed, seconds, in_parts))
        except PlanError:
            continue
        other = replace(other, chosen=replace(other.chosen, bound=best.chosen.bound))  # that of a choice without conditions
        best = min(best, other, key=lambda p: p.us)
    return best


def _whole(space: Space, key: Key, made: Made, axes: tuple[Axis, ...]) -> bool:
    """Whether addends are made by a reduction over the whole of an axis, of which each device has a part."""
    n = space.forms.members[key[0]][made.member or 0]
    return n.op == "reduce" and n.attrs[1] in axes and n.attrs[1] in made.sources[0][1]
