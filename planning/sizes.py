"""What was planned, for another target or for other sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..egraph.resize import resized
from ..egraph.run import parts_of, splits_of, way_of
from ..errors import PlanError
from ..extract import extract_like
from ..extract.regions import handed_out, regions
from ..extract.steering import steer
from ..extract.targets import Target
from ..ir.program import Program
from ..rewrites import registry
from .planned import Parts, Planned, in_parts
from .request import Request
from .ways import plan, region_request
from .whole import as_written, saturated, used_rules

if TYPE_CHECKING:
    from ..frontends import Traced

ANEW = 0.2  # of the time budget, for a plan at other sizes


def rerun(
    found: Planned, *, target: Target | None = None, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None
) -> Planned:
    """The same request for another ``target``, from what was traced; or for arguments of other sizes: the same kernels, roles and tiles.

    Raises :class:`~eqfuse.errors.PlanError` for other sizes if the program has its sizes, or another structure there.
    """
    if target is not None:
        return plan(replace(found.request, target=target), found)
    if found.fixed:
        raise PlanError(
            "the sizes of this program are fixed",
            where=found.traced.program.name,
            cure="call at() on what optimize() returned for a function or module",
        )
    args = args or ()
    request = found.request.on(args, kwargs or _beside(found.request, args))
    known = found.traced.symbolic.made  # for one other size a trace with numbers is quicker than one with symbols
    traced = (found.traced.at(request.args or (), request.kwargs or {}) if known else None) or request.trace()
    return like(found, request, traced, number=True)


def like(found: Planned, request: Request, traced: Traced, *, number: bool = False, margin: float = math.inf) -> Planned:
    """The kernels, roles and tiles of a plan for the program at other sizes.  The parts of an axis that is split over the grid have the
    same length, so that the kernels may be those of yet other sizes; or there is the same ``number`` of parts, however short.
    ``margin``: tiles for these sizes, and an axis split or not, where that is better by such a share of the time.

    Raises :class:`~eqfuse.errors.PlanError` if the program has another structure there.
    """
    model = found.plan
    choice = None if found.choice is None else found.choice.at(traced.program)
    if choice is None and found.choice is not None:
        raise PlanError(
            "the order of the program that was planned is not known at these sizes: it has another structure there",
            where=traced.program.name,
            cure="sizes above 1, disable=['order', 'cancelling'], or optimize() for these",
        )
    program = traced.program if choice is None else choice.program
    if found.parts is not None:
        return _parts_like(found, found.parts, request, traced, program, number, margin)
    graph = None if number and model.splits else resized(found.graph, program)
    if graph is None:
        here = {a.place: a for a in program.axes}
        rows = []  # of the splits that the model has
        taken = dict.fromkeys(row for k in model.kernels for row in k.kernel.splits)
        for axis, outer, inner in (row for row in taken if row in found.graph.facts.get("split", ())):
            if whole := here.get(axis.place):
                count = outer.size if number else -(-whole.size // inner.size)
                length = -(-whole.size // count) if number else inner.size
                rows.append((whole, *parts_of(whole, count, length, way_of(axis, outer))))
        splits = splits_of(rows)
        graph = steer(saturated(request, found.rules, program, splits), request.fusion)
    unsure = registry.vouch(used_rules(graph.report.rules, found.rules))
    made = as_written(extract_like(graph, request.target, model, margin), traced.program, request.target)
    made = replace(
        made, licence=request.licence, refused=model.refused, notes=model.notes, unsure=unsure, rewritten=model.rewritten,
        written_us=model.written_us,
    )  # fmt: skip
    return Planned(request.without_data(), found.rules, traced, graph, made, choice)


def _parts_like(found: Planned, parts: Parts, request: Request, traced: Traced, program: Program, number: bool, margin: float) -> Planned:
    """The same for the regions of a plan."""
    there = parts.partition.at(program)
    if there is None:
        raise PlanError("the program has another structure at these sizes", where=program.name, cure="optimize() for these")
    made: dict[str, Planned] = {}
    here, _ = handed_out(request.fusion, program, regions(there))
    for region, known in zip(here, parts.planned, strict=True):
        if region.key not in made:
            own = region_request(request, program, region)
            own = replace(own, fn=region.program_like(known.traced.program))
            made[region.key] = like(known, own, own.trace(), number=number, margin=margin)
    return in_parts(request.without_data(), found.rules, traced, found.choice, there, here, made)


def anew(found: Planned, request: Request, traced: Traced) -> Planned:
    """The best plan for the program at other sizes that a share of the budget finds: the call for which it is made waits."""
    made = plan(replace(request, time_budget=ANEW * request.time_budget), replace(found, traced=traced))
    return replace(made, request=request.without_data())


def _beside(request: Request, args: Sequence[Any]) -> dict[str, Any]:
    """The keyword arguments of an earlier call whose parameters these positional ones do not take."""
    from ..frontends.convention import signature_of

    found = signature_of(request.fn)
    taken = list(found[0].parameters)[: len(args)] if found else []
    return {k: v for k, v in (request.kwargs or {}).items() if k not in taken}
