"""Which sizes a plan serves, and when another one is worth making.

Kernels read lengths from tensors, so a plan runs at every size that its guards admit; whether it is also a *good* plan there is a
question for the cost model.  It is asked seldom.  At a new size outside the range that is known to be served, the model prices the plan
and the best one at the far end of that range, lengths rounded up to powers of two.  If the plan is within :data:`MARGIN` of the best, the
range, a box of lengths, reaches so far from now on, and between its ends the model is not asked; if not, the same is asked of the size
itself, and if the best is better there, too, it becomes a plan with a range of its own.  Prefill and decode get two plans, 4000 and 4096
one.  Within a range, the first size that the guards refuse (no multiple of a tile) adds the same kernels with masks.

How tensors lie in memory is part of it: a range is of one kind of layout (:func:`.ir.strides.layout_kind`), and where a call brings another
the plan that is there gets a second range if the model finds none that is better by the margin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .codegen.limits import check_computable
from .errors import EqFuseError
from .ir.program import Program
from .ir.strides import layout_kind
from .planning import Planned, Request, anew, like
from .runtime.executable import Executable

if TYPE_CHECKING:
    from .frontends import Traced

Layouts = tuple[tuple[str, str], ...]  # of the inputs that are not as without gaps: name and kind

MARGIN = 0.1  # a plan that the model finds better by so much is worth another compilation
MOST_PLANS = 16  # that one program keeps
MOST_KERNELS = 8  # that one plan keeps: with masks and without, and those of sizes at which something else is another number


@dataclass
class _Served:
    """A plan, the kernels made from it, and the lengths between which the model prefers it."""

    planned: Planned
    kernels: list[tuple[Planned, Executable]]
    least: dict[str, int]
    most: dict[str, int]
    layouts: Layouts

    def reaches(self, sizes: Mapping[str, int], layouts: Layouts) -> bool:
        """Whether the range has these sizes and kinds of layouts."""
        alike = layouts == self.layouts and sizes.keys() == self.least.keys()
        return alike and all(self.least[a] <= n <= self.most[a] for a, n in sizes.items())

    def reach(self, sizes: Mapping[str, int]) -> None:
        """From now on it has."""
        for a, n in sizes.items():
            self.least[a], self.most[a] = min(n, self.least[a]), max(n, self.most[a])


@dataclass
class Range:
    """The plans of one program, the first of them the one that was asked for."""

    first: Planned
    _plans: list[_Served] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._add(self.first)

    def _add(self, planned: Planned) -> _Served:
        sizes = _sizes(planned.traced)
        layouts = program_layouts(planned.traced.program)
        return self._keep(_Served(planned, [(planned, planned.executable)], dict(sizes), dict(sizes), layouts))

    def _keep(self, served: _Served) -> _Served:
        self._plans.append(served)
        del self._plans[1 : 1 - MOST_PLANS]
        return served

    def kernels(self, first: Executable) -> list[tuple[Executable, Mapping[str, int], Mapping[str, int]]]:
        """What serves dense tensors: kernels with the smallest and the largest lengths of axes between which they do.  ``first``: those of
        the first plan."""
        dense = [known for known in self._plans if known.layouts == self._plans[0].layouts]
        found = [(first if k == j == 0 else e, s.least, s.most) for k, s in enumerate(dense) for j, (_, e) in enumerate(s.kernels)]
        return list({id(e.generated): (e, least, most) for e, least, most in found}.values())

    def serving(self, request: Request, traced: Traced) -> Executable:
        """Kernels for a program that was read at other sizes."""
        check_computable(traced.program)
        sizes, layouts = _sizes(traced), program_layouts(traced.program)
        for known in self._plans:
            if known.reaches(sizes, layouts) and (found := _running(known, request, traced)):
                return found
        alike = [known for known in self._plans if known.least.keys() == sizes.keys()]  # others are of another program
        nearest = min(alike, key=lambda p: (p.layouts != layouts, _apart(p, sizes)), default=None)
        better = None
        for place in (self._far(traced), traced):
            if place is not None and nearest is not None:
                better = _better(nearest, request, place)
                if better is None and (found := _running(nearest, request, traced)):
                    if nearest.layouts != layouts:
                        nearest = self._keep(replace(nearest, least=dict(sizes), most=dict(sizes), layouts=layouts))
                    nearest.reach(_sizes(place))
                    nearest.reach(sizes)
                    return found
        planned = anew(self.first, request, traced) if better is None or request.no_spills else better
        self._add(planned)
        return planned.executable

    def _far(self, traced: Traced) -> Traced | None:
        """The program where every length that is not the planned one is rounded up to a power of two; ``None`` if it has other axes."""
        planned, sizes = _sizes(self.first.traced), _sizes(traced)
        if sizes.keys() != planned.keys() or sizes == planned:
            return None
        shapes = {
            i.name: [1 if a is None else a.size if a.size == planned[a.name] else 1 << (a.size - 1).bit_length() for a in i.layout]
            for i in traced.program.inputs
            if i.name in traced.arguments
        }
        far = traced.resized(shapes)
        return far if far is not None and _sizes(far).keys() == sizes.keys() else None


def program_layouts(program: Program) -> Layouts:
    """The kinds of layouts that a program is planned for; none where every input is without gaps."""
    strided = ((i, program.strides[i.name]) for i in program.inputs if i.name in program.strides)
    found = ((i.name, layout_kind(i.shape, strides, i.dtype.itemsize)) for i, strides in strided)
    return tuple((name, kind) for name, kind in found if kind is not None)


def layouts_of(tensors: Mapping[str, Any]) -> Layouts:
    """Those of the tensors of a call."""
    from .frontends.spec import layout_of

    return tuple((name, kind) for name, t in tensors.items() if (kind := layout_of(t)) is not None)


def _sizes(traced: Traced) -> dict[str, int]:
    return {a.name: a.size for a in traced.program.every_axis}


def _apart(known: _Served, sizes: Mapping[str, int]) -> float:
    """How far sizes are from a range, by factors."""
    return sum(max(known.least[a] / max(n, 1), n / max(known.most[a], 1), 1.0) for a, n in sizes.items())


def _better(known: _Served, request: Request, traced: Traced) -> Planned | None:
    """A plan that the model finds better than this one by more than the margin, or that is possible where this one is not."""
    best = anew(known.planned, replace(request, no_spills=False), traced)
    try:
        same = like(known.planned, request, traced)
    except EqFuseError:  # another structure
        return best
    return best if same.plan.estimated_us > (1 + MARGIN) * best.plan.estimated_us else None


def _running(known: _Served, request: Request, traced: Traced) -> Executable | None:
    """The plan's kernels for these sizes, with masks if they need some."""
    for _, kernels in known.kernels:
        if (found := kernels.serving(traced)) is not None:
            return found
    try:
        same = like(known.kernels[-1][0], request, traced)  # if there are such with masks, their graph may serve again
    except EqFuseError:
        return None
    known.kernels.append((same, same.executable))
    del known.kernels[1 : 1 - MOST_KERNELS]
    return known.kernels[-1][1]
