"""What a user asks of two values, handed to the regions that have both.

A region is asked by the names that its values have there.  Values of different regions share no kernel: what forbids that is content.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ir.program import Program
from ..names import ProgramNames
from ..plan import Decision
from ..steering import Request, spelled, understood
from .region import Region


def handed_out(requests: Sequence[Request], program: Program, regions: Sequence[Region]) -> tuple[tuple[Region, ...], tuple[Decision, ...]]:
    """The regions with what is asked of them, and what became of the rest.  Raises what :func:`~eqfuse.extract.steering.steer` does."""
    names = ProgramNames(program)
    asked: dict[int, list[Request]] = {}
    decisions = []
    for request in requests:
        verdict, outer, inner = understood(names, request)
        a, b = names.term(outer), names.term(inner)
        homes = [k for k, r in enumerate(regions) if r.makes_value(a) and r.makes_value(b)]
        for k in homes:
            called = ProgramNames(regions[k].program).called
            asked.setdefault(k, []).append((verdict, called[regions[k].values[a]], called[regions[k].values[b]]))
        if not homes:
            said = "they are made in different regions, and share no kernel"
            decisions.append(Decision(verdict, spelled(request), "", outer, inner, said))
    return tuple(replace(r, fusion=tuple(asked.get(k, ()))) for k, r in enumerate(regions)), tuple(decisions)
