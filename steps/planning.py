"""Pieces as plans: each different one through the whole pipeline, as a program of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from ..codegen.limits import check_computable
from ..errors import AccuracyError, EqFuseError, PlanError
from ..extract.baseline import baseline
from ..extract.plan import Decision
from ..extract.quantities import bytes_text
from ..frontends import Traced, trace
from ..frontends.graphs import FlatGraph
from ..ir.fingerprint import fingerprint
from ..planning import Planned, Request, like, run
from ..planning.clock import shared_out
from ..planning.several import asked, on_no_device
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
    pieces: Mapping[str, FlatGraph],
    request: Request,
    ranges: Ranges,
    crossing: Mapping[str, int],
    outside: Collection[str],
    models: Mapping[str, Planned] | None = None,
) -> tuple[dict[str, Piece], tuple[Decision, ...]]:
    """Each piece with a plan, and what became of verdicts that are about no piece.

    The work is shared out as in a program of regions (:func:`~eqfuse.planning.clock.shared_out`).  ``ranges``: whose kernels
    serve where they can; those that are new are added.  ``crossing``: the bytes that are held
    when a piece runs, which count against a limit of memory; ``outside``: the names of values that torch computes.
    ``models``: plans of the pieces of the same graph at other sizes, whose kernels are taken; PlanError where they cannot be.
    """
    _check_limit(request, crossing)
    end = min(now() + RATE * request.time_budget, request.deadline)
    traced: dict[str, Traced | EqFuseError] = {name: _traced(piece, request) for name, piece in pieces.items()}
    read = {name: t for name, t in traced.items() if isinstance(t, Traced)}
    verdicts, decisions = asked(request.fusion, {name: t.program for name, t in read.items()}, outside, "steps")
    keys = {name: f"{_key(t)}\n{verdicts.get(name, ())}" for name, t in read.items()}
    held = {key: max(crossing[name] for name, k in keys.items() if k == key) for key in keys.values()}
    different = {key: name for name, key in reversed(keys.items())}
    weights = {key: _weight(read[name], request) for key, name in different.items()}
    made: dict[str, Executable | EqFuseError] = {}
    planned: dict[str, Planned] = {}
    for key, until in shared_out(weights, end):
        name = different[key]
        own = replace(
            request, fn=pieces[name], args=on_no_device(read[name].program), kwargs=None, name=None, traced=read[name], deadline=until,
            fusion=verdicts.get(name, ()), memory_limit=None if request.memory_limit is None else request.memory_limit - held[key],
        )  # fmt: skip
        if models is not None:
            if name not in models:
                raise PlanError("the program has another structure at these sizes", where=name, cure="optimize() for these")
            planned[key] = like(models[name], own, read[name], number=True)
            made[key] = planned[key].executable
            continue
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
