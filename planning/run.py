"""A request through all stages: trace, saturate, extract, finish; emission is lazy.  With a bound of its error, until a plan keeps it."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .. import library  # noqa: F401 -- it tells extraction what the library offers
from ..errors import AccuracyError
from ..rewrites import registry
from .planned import Planned
from .request import Request, active_rules
from .sizes import rerun
from .ways import plan

if TYPE_CHECKING:
    from ..runtime.executable import Executable


def run(request: Request) -> Planned:
    """All stages.  With ``accuracy_factor``, for as many forms of the request as it takes until a plan is accurate enough."""
    with old_objects_left_alone():
        if request.accuracy_factor is None:
            return plan(request)
        return _accurate(request, request.accuracy_factor)


def _accurate(request: Request, factor: float) -> Planned:
    """The first plan whose error at small sizes is within ``factor`` times eager's; ``plan.accuracy`` says what was tried and refused.

    Raises :class:`~eqfuse.errors.AccuracyError` if none is, or if one cannot be tried.
    """
    from ..runtime.accuracy import at_small_sizes

    tried: list[str] = []
    where = "optimize"
    for description, attempt in _attempts(request):
        found = plan(attempt)
        where = found.traced.program.name

        def at(args: Sequence[Any], kwargs: Mapping[str, Any], found: Planned = found) -> Executable:
            return rerun(found, args=args, kwargs=kwargs).executable

        report, sizes = at_small_sizes(found.executable, request.args or (), dict(request.kwargs or {}), None if found.fixed else at)
        worst = max(report.outputs, key=lambda o: (not o.within(factor), o.ours))
        text = f"{description}: error {worst.ours:.1e}, eager {worst.eager:.1e} ({worst.name}, at {sizes})"
        if worst.within(factor):
            said = (*tried, f"within {factor:g} times eager, {text}")
            return replace(found, request=request.without_data(), plan=replace(found.plan, accuracy=said))
        tried.append(f"refused, {text}" + (f", {worst.ours_nonfinite} not finite" if worst.ours_nonfinite else ""))
    raise AccuracyError(
        f"no plan is within {factor:g} times eager's error: {'; '.join(tried)}",
        where=where,
        cure="allow a larger accuracy_factor, or a wider element type",
    )


def _attempts(request: Request) -> Iterator[tuple[str, Request]]:
    """In order of preference: as asked for, by exact rules, by none but those that move views and those that every saturation has."""
    yield f"licence {request.licence!r}", request
    if not request.exact:
        yield "exact rules", replace(request, licence="exact")
    kept = {"layout", *(r.family for r in registry.analyses())}
    others = {r.family for r in (*registry.rules(), *active_rules(request))} - kept
    yield "no rules", replace(request, licence="exact", disable=(*request.disable, *sorted(others)))


@contextmanager
def old_objects_left_alone() -> Iterator[None]:
    """Garbage is looked for among new objects only: with those of torch a full collection takes 0.2 s, more than some budgets."""
    ours = gc.get_freeze_count() == 0
    if ours:
        gc.freeze()
    try:
        yield
    finally:
        if ours:
            gc.unfreeze()
