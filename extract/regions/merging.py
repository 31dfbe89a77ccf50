"""Axes that always come one right after the other, made one.

Where every value has both of two axes or neither, every tensor has them as neighbours, every sum over one is at once a sum over the other,
and every index reads them at ``outer * n + inner``, they are one axis of ``n`` times the length: kernels then tile it as one.  A reshape of
what lies in memory without gaps is free, so tensors between kernels may be seen so; those that users pass have the dimensions they have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import pairwise

from ...ir.index import Axis, IndexExpr, index
from ...ir.program import Program
from ...ir.terms import Extent, Gather, Index, Input, Reduce, Scan, Term, View


def merged(program: Program, own: Collection[str]) -> tuple[Program, dict[Term, Term]]:
    """The program with such axes made one, and what has become of its terms.  ``own``: inputs whose dimensions stay."""
    terms = {t: t for t in program.terms()}
    while (pair := next(_pairs(program, own), None)) is not None:
        program, now = _merge(program, *pair)
        terms = {t: now[x] for t, x in terms.items() if x in now}
    return program, terms


def _layouts(program: Program) -> Iterator[tuple[Axis | None, ...]]:
    yield from (i.layout for i in program.inputs)
    yield from (o.layout for o in program.outputs)


def _pairs(program: Program, own: Collection[str]) -> Iterator[tuple[Axis, Axis]]:
    """The pairs of neighbours, outer and inner, that can be merged."""
    fixed = {a for i in program.inputs if i.name in own for a in i.layout}
    near = {(a, b): None for layout in _layouts(program) for a, b in pairwise(layout) if a and b}
    terms = program.terms()
    users: dict[Term, list[Term]] = {t: [] for t in terms}
    for t in terms:
        for x in dict.fromkeys(t.args):
            users[x].append(t)
    results = {o.term for o in program.outputs}
    for a, b in near:
        neighbours = a != b and not {a, b} & fixed and all(_adjacent(layout, a, b) for layout in _layouts(program))
        if neighbours and all(_alike(t, a, b, users, results) for t in terms):
            yield a, b


def _adjacent(layout: tuple[Axis | None, ...], a: Axis, b: Axis) -> bool:
    return (a in layout) == (b in layout) and (a not in layout or layout.index(b) == layout.index(a) + 1)


def _alike(t: Term, a: Axis, b: Axis, users: dict[Term, list[Term]], results: Collection[Term]) -> bool:
    """Whether a term says of both axes what it says of one."""
    if isinstance(t, Index | Extent | Gather | Scan) and t.axis in (a, b):
        return False
    if isinstance(t, Index | Extent):
        return True
    if isinstance(t, Reduce) and t.axis == b:
        above = users[t]
        whole = len(above) == 1 and isinstance(above[0], Reduce) and above[0].axis == a and above[0].monoid == t.monoid
        return whole and t not in results and t.monoid != "mean" and len(t.args) == 1 and a in t.args[0].axes and b in t.args[0].axes
    if isinstance(t, Reduce) and t.axis == a:
        inner = t.args[0]
        return isinstance(inner, Reduce) and inner.axis == b
    if isinstance(t, View):
        if t.axis in (a, b):
            return False
        steps = dict(t.index.terms)
        if any(not isinstance(atom, Axis) and {a, b} & atom.numerator.axes() for atom in steps):
            return False
        if (a in steps) != (b in steps) or (a in steps and steps[a] != steps[b] * b.size):
            return False
    return isinstance(t, Reduce) or (a in t.axes) == (b in t.axes)


def _merge(program: Program, a: Axis, b: Axis) -> tuple[Program, dict[Term, Term]]:
    """The program with one axis in the place of two, and what has become of its terms."""
    whole = Axis(a.name, a.size * b.size, a.rank)

    def layout(axes: tuple[Axis | None, ...]) -> tuple[Axis | None, ...]:
        return tuple(whole if x == a else x for x in axes if x != b)

    now: dict[Term, Term] = {}
    for t in program.terms():
        args = [now[x] for x in t.args]
        if isinstance(t, Input):
            now[t] = Input(t.name, layout(t.layout), t.dtype)
        elif isinstance(t, Reduce) and t.axis == b:
            now[t] = args[0]
        elif isinstance(t, Reduce) and t.axis == a:
            now[t] = Reduce(t.monoid, whole, args[0])
        elif isinstance(t, View) and a in t.index.axes():
            now[t] = View(args[0], t.axis, _joined(t.index, a, b, whole))
        else:
            now[t] = t.over(args)
    inputs = tuple(Input(i.name, layout(i.layout), i.dtype) for i in program.inputs)
    outputs = tuple(replace(o, term=now[o.term], layout=layout(o.layout)) for o in program.outputs)
    kept = {t: x for t, x in now.items() if not (isinstance(t, Reduce) and t.axis == b)}  # a sum over half of the axis is no value now
    names = {n: tuple(kept[t] for t in ts if t in kept) for n, ts in program.names.items()}
    sources = {kept[t]: text for t, text in program.sources.items() if t in kept}
    widened = frozenset(kept[t] for t in program.widened if t in kept)
    return replace(program, outputs=outputs, inputs=inputs, sources=sources, names=names, widened=widened), kept


def _joined(e: IndexExpr, a: Axis, b: Axis, whole: Axis) -> IndexExpr:
    step = dict(e.terms)[b]
    return IndexExpr(tuple((atom, c) for atom, c in e.terms if atom not in (a, b)), e.const) + index(whole) * step
