"""What a user asks of two values, handed to the parts of a program that make both: regions, or pieces between what torch runs.

A part is asked by the names that its values have there.  Values of different parts share no kernel: what forbids that is content, and
what requires it is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...errors import OptionError
from ...ir.program import Program
from ..names import ProgramNames
from ..plan import Decision
from ..steering import Request, spelled, understood
from .region import Region

Place = Callable[[str], str | None]  # what a part calls a value of the whole; None if it does not make it


def shared(requests: Sequence[Request], places: Sequence[Place], kind: str) -> tuple[list[tuple[Request, ...]], tuple[Decision, ...]]:
    """What each part is asked, and what became of the rest.  ``kind``: what parts are called."""
    asked: list[list[Request]] = [[] for _ in places]
    decisions = []
    for request in requests:
        verdict, outer, inner = request
        named = [(place(outer), place(inner)) for place in places]
        homes = [k for k, pair in enumerate(named) if None not in pair]
        for k in homes:
            a, b = named[k]
            asked[k].append((verdict, str(a), str(b)))
        said = f"made in different {kind}, and share no kernel"
        if not homes and verdict == "require":
            cure = "leave it out; c.plan says what stands between them, and why"
            raise OptionError(f"{outer} and {inner} are {said}", where=spelled(request), cure=cure)
        if not homes:
            decisions.append(Decision(verdict, spelled(request), "", outer, inner, f"they are {said}"))
    return [tuple(of) for of in asked], tuple(decisions)


def handed_out(requests: Sequence[Request], program: Program, regions: Sequence[Region]) -> tuple[tuple[Region, ...], tuple[Decision, ...]]:
    """The regions with what is asked of them, and what became of the rest.  Raises what :func:`~eqfuse.extract.steering.steer` does."""
    names = ProgramNames(program)

    def place(region: Region) -> Place:
        def called(value: str) -> str | None:
            t = names.term(value)
            return ProgramNames(region.program).called[region.values[t]] if region.makes_value(t) else None

        return called

    asked, decisions = shared([understood(names, r) for r in requests], [place(r) for r in regions], "regions")
    return tuple(replace(r, fusion=own) for r, own in zip(regions, asked, strict=True)), decisions
