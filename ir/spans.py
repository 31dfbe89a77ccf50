"""Masks of data with the span of positions that each lets through.

Which documents, chunks or windows two tokens share is told by data, and of such a mask no comparison says where a loop may begin and end.
But whatever a condition is, the first and the last position at which it holds are numbers, made once, and it holds nowhere outside::

    doc[i] == doc[j]  ->  doc[i] == doc[j] and first[i] <= j < end[i],    first[i] = min{j: doc[i] == doc[j]},   end[i] = 1 + max{...}

which is the same for all numbers.  A loop over ``j`` then goes from ``first`` to ``end`` (:mod:`eqfuse.tiles.data_edges`).  The spans
cost a pass over the mask, which has fewer axes than the product under it, and all layers of a model share them.
"""

from __future__ import annotations

from collections.abc import Iterator

from .dtypes import int32
from .index import Axis
from .needed import OF_CONDITIONS, Case, Needed
from .program import Program
from .recursion import arguments_first
from .samples import COMPARISONS
from .terms import Cast, Const, Index, Input, Map, Reduce, Term, postorder


def spanned(program: Program) -> Program | None:
    """The program with spans in the masks of its products; ``None`` if there is no mask of which they say something new."""
    masks = _masks(program)
    if not masks:
        return None
    new: dict[Term, Term] = {}
    for t in program.terms():
        new[t] = t.over([new[a] for a in t.args]) if t.args else t
        for case, a in masks.get(t, ()):
            whole = new[t]
            inside = _span(Map("not", (whole,)) if case.truth else whole, a)
            new[t] = Map("or", (whole, Map("not", (inside,)))) if case.truth else Map("and", (whole, inside))
    return program.over(new)


def masking(program: Program) -> list[Input]:
    """The inputs that such masks are made of."""
    return [x for x in postorder(*_masks(program)) if isinstance(x, Input)]


def _masks(program: Program) -> dict[Term, list[tuple[Case, Axis]]]:
    """The masks of products of which no comparison says where they end, each with the case in which a product is not needed and the axes
    that something is reduced over."""
    needed = Needed(program, compound=True)
    if not needed.cases:
        return {}
    reduced = {t.axis for t in program.terms() if isinstance(t, Reduce)}
    masks = {c.condition: c for c in needed.cases if any(c in needed.unneeded[p] for p in needed.products)}
    inner = {x for t in masks for x in postorder(*t.args)}
    found: dict[Term, list[tuple[Case, Axis]]] = {}
    for case in (part for t, c in masks.items() if t not in inner for part in _parts(c)):
        if over := [a for a in sorted(case.axes & reduced) if not _bounded(case.condition, a)]:
            found[case.condition] = [(case, a) for a in over]
    return found


def _parts(case: Case) -> Iterator[Case]:
    """The cases in any of which a condition has that truth: it is false that ``x`` and ``y`` where one of them is false."""
    t, truth = case.condition, case.truth
    if isinstance(t, Map) and t.op == "not":
        yield from _parts(Case(t.args[0], not truth))
    elif isinstance(t, Map) and t.op == ("or" if truth else "and"):
        for x in t.args:
            yield from _parts(Case(x, truth))
    else:
        yield case


def _span(condition: Term, a: Axis) -> Term:
    """Whether a position lies between the first and the last one at which a condition holds.  If there is none, no position does."""
    at = Cast(int32, Index(a))
    first = Reduce("imin", a, Map("where", (condition, at, Const(float(a.size)))))
    end = Reduce("imax", a, Map("where", (condition, at + 1, Const(0.0))))
    return Map("and", (Map("le", (first, Index(a))), Map("lt", (Index(a), end))))


def _bounded(condition: Term, a: Axis) -> bool:
    """Whether comparisons tell already where on an axis a condition may hold: those of positions with what does not depend on the axis."""
    made: dict[Term, bool] = {}
    for t in arguments_first([condition], lambda t: t.args):
        below = all(made[x] for x in t.args)
        if isinstance(t, Map):
            made[t] = a not in t.axes or (below and t.op in (*COMPARISONS, *OF_CONDITIONS, "add", "sub", "neg"))
        else:
            made[t] = a not in t.axes or isinstance(t, Index) or (below and isinstance(t, Cast))
    return made[condition]
