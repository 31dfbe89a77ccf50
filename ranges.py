"""Which sizes a plan serves, and when another one is worth making.

Kernels read lengths from tensors, so a plan runs at every size that its guards admit; whether it is also a *good* plan there is a
question for the cost model.  What a plan takes is compared with what no plan beats (bytes and products of the program, and a launch), and
this ratio with those that searches of all plans have left at sizes within a factor :data:`FAR`.  A plan is good where it is no more than
:data:`MARGIN` above these, or above the bound where nothing so near was searched.

The model is asked seldom.  At a new size it is asked at both ends of the lengths that lie between the same powers of two: where a plan is
good at both, it serves what is between, and there nobody asks again.  Else it is asked at the size itself; where none is good, the nearest
has its tiles made anew for this size, and kernels that split an axis or do not; and where that is not good either, all plans are searched.
Prefill and decode get two plans, 4000 and 4096 one.  Within a range, the first size that the guards refuse (no multiple of a tile) adds
the same kernels with masks.

How tensors lie in memory is part of it: a range is of one kind of layout (:func:`.ir.strides.layout_kind`), and where a call brings another
the plan that is there gets a second range if it is good there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, MutableSequence, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .codegen.limits import check_computable
from .egraph.run import for_kernels
from .errors import EqFuseError
from .extract.baseline import baseline
from .ir.program import Program
from .ir.sameness import same_program
from .ir.strides import layout_kind
from .planning import Planned, Request, active_rules, anew, like, old_objects_left_alone
from .runtime.executable import Executable

if TYPE_CHECKING:
    from .frontends import Traced

Layouts = tuple[tuple[str, str], ...]  # of the inputs that are not as without gaps: name and kind

MARGIN = 0.1  # a plan that the model finds better by so much is worth another compilation
FAR = 4  # a search of all plans says what is good for lengths that are up to so many times longer or shorter
NEAR = 3  # plans that are asked about
MOST_PLANS = 16  # that one program keeps
MOST_KERNELS = 8  # that one plan keeps: with masks and without, and those of sizes at which something else is another number


@dataclass(frozen=True)
class _Span:
    """Lengths of axes, between a least and a most of each, of tensors of some layouts."""

    least: Mapping[str, int]
    most: Mapping[str, int]
    layouts: Layouts

    def has(self, sizes: Mapping[str, int], layouts: Layouts) -> bool:
        """Whether sizes and layouts are among these."""
        alike = layouts == self.layouts and sizes.keys() == self.least.keys()
        return alike and all(self.least[a] <= n <= self.most[a] for a, n in sizes.items())


@dataclass
class _Served:
    """A plan, the kernels made from it, and the spans in which it is good."""

    planned: Planned
    kernels: list[tuple[Planned, Executable]]
    spans: list[_Span]
    ratios: dict[object, float] = field(default_factory=dict)  # to the bound, by sizes and layouts; infinite where it cannot be made

    def ratio(self, request: Request, traced: Traced) -> float:
        """What the plan takes of what no plan beats."""
        key = tuple(_sizes(traced).items()), program_layouts(traced.program)
        if key not in self.ratios:
            try:
                self.ratios[key] = ratio(like(self.planned, request, traced))
            except EqFuseError:  # another structure
                self.ratios[key] = math.inf
        return self.ratios[key]


class Range:
    """The plans of one program, the first of them the one that was asked for."""

    def __init__(self, first: Planned) -> None:
        self.first = first
        self._plans: list[_Served] = []
        self._searched: list[tuple[Mapping[str, int], float]] = []  # sizes with the ratio of the best plan that a search of all has left
        self._add(first)
        self._searched.append((_sizes(first.traced), ratio(first)))

    def _add(self, planned: Planned) -> Executable:
        sizes = _sizes(planned.traced)
        found = _Served(planned, [(planned, planned.executable)], [_Span(sizes, sizes, program_layouts(planned.traced.program))])
        self._plans.append(found)
        del self._plans[1 : 1 - MOST_PLANS]
        return found.kernels[0][1]

    def kernels(self, first: Executable) -> list[tuple[Executable, Mapping[str, int], Mapping[str, int]]]:
        """What serves dense tensors: kernels with the smallest and the largest lengths of axes between which they do.  ``first``: those of
        the first plan."""
        layouts = self._plans[0].spans[0].layouts
        dense = [(k, known, s) for k, known in enumerate(self._plans) for s in known.spans if s.layouts == layouts]
        found = [(first if k == j == 0 else e, s.least, s.most) for k, known, s in dense for j, (_, e) in enumerate(known.kernels)]
        return list({id(e.generated): (e, least, most) for e, least, most in found}.values())

    def serving(self, request: Request, traced: Traced) -> Executable:
        """Kernels for a program that was read at other sizes."""
        check_computable(traced.program)
        with old_objects_left_alone():
            return self._serving(request, traced)

    def _serving(self, request: Request, traced: Traced) -> Executable:
        sizes, layouts = _sizes(traced), program_layouts(traced.program)
        for known in self._plans:
            if any(s.has(sizes, layouts) for s in known.spans) and (found := _running(known, request, traced)):
                return found
        alike = [known for known in self._plans if known.spans[0].least.keys() == sizes.keys()]  # others are of another program
        near = sorted(alike, key=lambda p: min((s.layouts != layouts, _apart(s, sizes)) for s in p.spans))[:NEAR]
        ends = self._ends(traced)
        for places in (ends, (traced,)) if ends else ((traced,),):
            for known in near:
                good = all(known.ratio(request, place) <= self._limit(place) for place in places)
                if good and (found := _running(known, request, traced)):
                    known.spans.append(_Span(_sizes(places[0]), _sizes(places[-1]), layouts))
                    return found
        planned = self._retiled(near, request, traced)
        if planned is None or request.no_spills or ratio(planned) > self._limit(traced):
            planned = anew(self.first, request, traced)
            self._searched.append((sizes, min([ratio(planned), *(p.ratio(request, traced) for p in near)])))
            for known in near:
                if known.ratio(request, traced) <= self._limit(traced) and (found := _running(known, request, traced)):
                    known.spans.append(_Span(sizes, sizes, layouts))
                    return found
        return self._add(planned)

    def same(self, request: Request, traced: Traced) -> bool:
        """Whether this is the program of another graph, but for lengths, and planned by an equal request."""
        program, rules = self.first.traced.program, for_kernels(active_rules(request))
        return self.first.rules == rules and self.first.request.alike(request) and same_program(program, traced.program, _sizes(traced))

    def _limit(self, traced: Traced) -> float:
        """The ratio up to which a plan is good: what searches of all plans have left at sizes that are near, by inverse distance weighting
        (Shepard 1968)."""
        sizes = _sizes(traced)
        near = [(_factor(there, sizes), ratio) for there, ratio in self._searched if there.keys() == sizes.keys()]
        weights = [(1 / max(math.log(factor), 1e-9) ** 2, ratio) for factor, ratio in near if factor <= FAR]
        best = sum(w * r for w, r in weights) / sum(w for w, _ in weights) if weights else 1.0
        return (1 + MARGIN) * max(best, 1.0)

    def _retiled(self, near: Sequence[_Served], request: Request, traced: Traced) -> Planned | None:
        """The nearest plan, with tiles for these sizes."""
        for known in near:
            with suppress(EqFuseError):  # another structure
                return like(known.planned, request, traced, margin=MARGIN)
        return None

    def _ends(self, traced: Traced) -> tuple[Traced, Traced] | None:
        """The program where every length that is not the planned one is the least, and the largest, of those that the next power of two is
        the same for; ``None`` if it has other axes there."""
        planned, sizes = _sizes(self.first.traced), _sizes(traced)
        if sizes.keys() != planned.keys() or sizes == planned:
            return None

        def end(of: Callable[[int], int]) -> Traced | None:
            shapes = {
                i.name: [1 if a is None else a.size if a.size == planned[a.name] else of(1 << (a.size - 1).bit_length()) for a in i.layout]
                for i in traced.program.inputs
                if i.name in traced.arguments
            }
            found = traced.resized(shapes)
            return found if found is not None and _sizes(found).keys() == sizes.keys() else None

        least, most = end(lambda power: power // 2 + 1), end(lambda power: power)
        return None if least is None or most is None else (least, most)


class Ranges(dict[str, Range]):
    """The ranges of the pieces of one graph, by name.  ``shared``: those of other graphs, too, the last to be made last: Dynamo makes a
    graph of its own for sizes that vary, and one for every layer."""

    def __init__(self, shared: MutableSequence[Range] | None = None) -> None:
        super().__init__()
        self._shared: MutableSequence[Range] = [] if shared is None else shared

    def of(self, name: str, request: Request, traced: Traced) -> Range | None:
        """The range of a piece, or of one that is the same program but for lengths."""
        if name not in self:
            same = next((known for known in reversed(self._shared) if known.same(request, traced)), None)
            if same is None:
                return None
            self[name] = same
        return self[name]

    def add(self, name: str, found: Range) -> None:
        """A new one."""
        self[name] = found
        self._shared.append(found)


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


def ratio(planned: Planned) -> float:
    """What a plan takes, of what no plan beats."""
    target = planned.request.target
    limit = planned.request.memory_limit
    if limit is not None and planned.plan.temporary_bytes > limit:
        return math.inf
    return planned.plan.estimated_us / (baseline(planned.traced.program, target).bound_us + target.launch_us)


def _apart(span: _Span, sizes: Mapping[str, int]) -> float:
    """How far sizes are from those of a span, by factors."""
    return sum(max(span.least[a] / max(n, 1), n / max(span.most[a], 1), 1.0) for a, n in sizes.items())


def _factor(there: Mapping[str, int], sizes: Mapping[str, int]) -> float:
    """By how much the length differs most."""
    return max((max(n / max(there[a], 1), there[a] / max(n, 1)) for a, n in sizes.items()), default=1.0)


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
