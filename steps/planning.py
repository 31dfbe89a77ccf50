"""Pieces as plans: each different one through the whole pipeline, as a program of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import torch

from ..codegen.limits import check_computable
from ..errors import AccuracyError, EqFuseError, OptionError, PlanError
from ..extract.baseline import baseline
from ..extract.names import ProgramNames
from ..extract.plan import Decision
from ..extract.quantities import bytes_text
from ..extract.regions.asked import Place, shared
from ..extract.steering import Request as Verdict
from ..extract.steering import spoken, understood
from ..frontends import Traced, trace
from ..frontends.graphs import FlatGraph
from ..ir.fingerprint import fingerprint
from ..ir.terms import Input
from ..planning import Planned, Request, run
from ..planning.clock import shared_out
from ..ranges import Range, Ranges
from ..runtime.executable import Executable
from ..work import RATE, now


@dataclass(frozen=True, eq=False)
class Piece:
    """A piece: its graph, and its plan with what is needed to call it, or why there is none.  ``executable.generated`` is one object for
    equal ones, and so is ``planned``, which a piece lacks that was planned at other sizes."""

    graph: FlatGraph
    executable: Executable | None
    planned: Planned | None = None
    error: EqFuseError | None = None


def plan_pieces(
    pieces: Mapping[str, FlatGraph], request: Request, ranges: Ranges, crossing: Mapping[str, int], outside: Collection[str]
) -> tuple[dict[str, Piece], tuple[Decision, ...]]:
    """Each piece with a plan, and what became of verdicts that are about no piece.

    The work is shared out as in a program of regions (:func:`~eqfuse.planning.clock.shared_out`).  ``ranges``: whose kernels
    serve where they can; those that are new are added.  ``crossing``: the bytes that are held
    when a piece runs, which count against a limit of memory; ``outside``: the names of values that torch computes.
    """
    _check_limit(request, crossing)
    end = min(now() + RATE * request.time_budget, request.deadline)
    traced: dict[str, Traced | EqFuseError] = {name: _traced(piece, request) for name, piece in pieces.items()}
    read = {name: t for name, t in traced.items() if isinstance(t, Traced)}
    asked, decisions = _asked(request.fusion, read, outside)
    keys = {name: f"{_key(t)}\n{asked.get(name, ())}" for name, t in read.items()}
    held = {key: max(crossing[name] for name, k in keys.items() if k == key) for key in keys.values()}
    different = {key: name for name, key in reversed(keys.items())}
    weights = {key: _weight(read[name], request) for key, name in different.items()}
    made: dict[str, Executable | EqFuseError] = {}
    planned: dict[str, Planned] = {}
    for key, until in shared_out(weights, end):
        name = different[key]
        own = replace(
            request, fn=pieces[name], args=_on_no_device(read[name]), kwargs=None, name=None, traced=read[name], deadline=until,
            fusion=asked.get(name, ()), memory_limit=None if request.memory_limit is None else request.memory_limit - held[key],
        )  # fmt: skip
        try:
            if (known := ranges.of(name, own, read[name])) is not None:
                made[key] = known.serving(own, read[name])
            else:
                planned[key] = run(own)
                made[key] = planned[key].executable
        except AccuracyError:  # what was asked for, and is not to be had
            raise
        except EqFuseError as error:
            if own.memory_limit is not None and _possible(replace(own, memory_limit=None)):
                raise
            made[key] = error
    new = {key: Range(p) for key, p in planned.items()}
    for name, key in keys.items():
        if key in new:
            ranges.add(name, new[key])
    found: dict[str, Piece] = {}
    for name, piece in pieces.items():
        here = traced[name]
        executable = here if isinstance(here, EqFuseError) else made[keys[name]]
        if isinstance(here, EqFuseError) or isinstance(executable, EqFuseError):
            assert isinstance(executable, EqFuseError)
            found[name] = Piece(piece, None, None, executable)
        else:  # the kernels of an equal piece, called as this one is
            found[name] = Piece(piece, replace(executable, traced=here), planned.get(keys[name]))
    return found, decisions


def _asked(
    requests: Sequence[Verdict], pieces: Mapping[str, Traced], outside: Collection[str]
) -> tuple[dict[str, tuple[Verdict, ...]], tuple[Decision, ...]]:
    """The verdicts about two values for each piece that makes both, by its name, and what became of the others.  OptionError for names
    that there are not."""
    names = {name: ProgramNames(t.program) for name, t in pieces.items()}

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
                cure = f"a value of a piece: {', '.join(dict.fromkeys(x for own in names.values() for x in own.spoken))}"
                raise OptionError(f"no step computes a value called {value!r}", where="fusion", cure=cure)
    asked, decisions = shared(requests, places, "steps")
    found = {name: tuple(understood(names[name], r) for r in own) for name, own in zip(names, asked, strict=True)}
    return {name: own for name, own in found.items() if own}, decisions


def _on_no_device(traced: Traced) -> tuple[torch.Tensor, ...]:
    """Arguments like those of a piece."""
    specs = (traced.specs[i.name] for i in traced.program.inputs)
    return tuple(torch.empty_strided(s.shape, s.stride, dtype=s.dtype, device="meta") for s in specs)


def _check_limit(request: Request, crossing: Mapping[str, int]) -> None:
    """PlanError where more is held between steps than may be held at all."""
    step = max(crossing, key=lambda name: crossing[name], default="")
    if request.memory_limit is not None and step and crossing[step] > request.memory_limit:
        said = f"{bytes_text(crossing[step])} are held between steps at {step}, and {bytes_text(int(request.memory_limit))} are the limit"
        raise PlanError(said, where="memory_limit", cure=f"memory_limit={crossing[step]}, or more")


def _possible(request: Request) -> bool:
    """Whether there is a plan."""
    try:
        return bool(run(request))
    except EqFuseError:
        return False


def _traced(piece: FlatGraph, request: Request) -> Traced | EqFuseError:
    try:
        traced = trace(piece, exact=request.exact)
        check_computable(traced.program)
        return traced
    except EqFuseError as error:
        return error


def _key(traced: Traced) -> str:
    """The same for pieces that one plan serves."""
    results = [(r.merges, r.along) for r in traced.program.results]
    return f"{fingerprint(traced.program)}\n{results}"


def _weight(traced: Traced, request: Request) -> tuple[float, float]:
    return len(traced.program.terms()), baseline(traced.program, request.target).us
