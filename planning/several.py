"""The programs of one that is planned as several, each by a request of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import OptionError
from ..extract.names import ProgramNames
from ..extract.plan import Decision
from ..extract.regions.asked import Place, shared
from ..extract.steering import Request as Verdict
from ..extract.steering import spoken, understood
from ..ir.program import Program
from ..ir.terms import Input
from .planned import Planned
from .request import Request
from .run import run

if TYPE_CHECKING:
    import torch


def planned_apart(request: Request, programs: Mapping[str, Program], kind: str) -> tuple[dict[str, Planned], tuple[Decision, ...]]:
    """Each program with a plan, and what became of verdicts that are about none of them.  ``kind``: what messages call them."""
    verdicts, decisions = asked(request.fusion, programs, (), kind)
    tried = request.accuracy_factor is not None
    request = replace(request, kwargs=None, name=None, traced=None, training=False, out_placements=None)

    def planned(name: str, program: Program) -> Planned:
        return run(replace(request, fn=program, args=on_no_device(program) if tried else None, fusion=verdicts.get(name, ())))

    return {name: planned(name, program) for name, program in programs.items()}, decisions


def asked(
    requests: Sequence[Verdict], programs: Mapping[str, Program], outside: Collection[str], kind: str
) -> tuple[dict[str, tuple[Verdict, ...]], tuple[Decision, ...]]:
    """The verdicts about two values for each program that makes both, by its name, and what became of the others.  ``outside``: the names
    of values that none makes and that may be spoken of.  OptionError for names that there are not."""
    names = {name: ProgramNames(program) for name, program in programs.items()}

    def place(own: ProgramNames) -> Place:
        def called(value: str) -> str | None:
            with suppress(OptionError):
                return None if isinstance(own.term(value), Input) else value
            return None

        return called

    places = [place(own) for own in names.values()]
    for request in requests:
        for value in spoken(request)[1:]:
            if value not in outside and all(called(value) is None for called in places):
                cure = f"a value of one of them: {', '.join(dict.fromkeys(x for own in names.values() for x in own.spoken))}"
                raise OptionError(f"none of the {kind} computes a value called {value!r}", where="fusion", cure=cure)
    found, decisions = shared(requests, places, kind)
    own = {name: tuple(understood(names[name], r) for r in mine) for name, mine in zip(names, found, strict=True)}
    return {name: mine for name, mine in own.items() if mine}, decisions


def on_no_device(program: Program) -> tuple[torch.Tensor, ...]:
    """Arguments like those of a program."""
    import torch

    def like(i: Input) -> torch.Tensor:
        made = torch.empty(i.shape, dtype=getattr(torch, program.kept(i).name), device="meta")
        return made if i.name not in program.strides else made.as_strided(i.shape, program.strides[i.name])

    return tuple(map(like, program.inputs))
