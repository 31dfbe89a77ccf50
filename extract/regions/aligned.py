"""Axes called so that equal values are one term: a program with as few views as may be that only rename.

A program says by a view that what it calls ``rows`` here is ``cols`` there: a tensor multiplied with itself has left and right rows that
are both rows of one tensor, and a sum over one name stands beside another sum over the other.  A region sees a part of that, and the names
in it are free.  So every axis of every term is an item of its own; the items that a term takes over from its arguments are one, and those
that a view only renames are made one if no term then has two axes that are one.  The largest values come first: what is equal to them under
other names would be computed again.

Nothing here bears on correctness: names only decide which equal values are written as one term.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ...ir import nodes
from ...ir.index import Axis, index
from ...ir.program import Program
from ...ir.terms import Extent, Gather, Input, Reduce, Term, View

Item = tuple[Term, Axis]


def aligned(program: Program) -> tuple[Program, dict[Term, Term]]:
    """The program with its axes called so, and what has become of its terms."""
    terms = program.terms()
    items = _Items(terms)
    for v in sorted(filter(_renames, terms), key=lambda v: -math.prod(a.size for a in v.axes)):
        items.unify(*_both(v))
    called = items.names()
    of_extent = {a: axis for (_, a), axis in reversed(called.items())}

    def name(t: Term, a: Axis) -> Axis:
        return called.get((t, a), a)

    now: dict[Term, Term] = {}
    for t in terms:
        args = [now[x] for x in t.args]
        if isinstance(t, Input):
            now[t] = Input(t.name, tuple(a and name(t, a) for a in t.layout), t.dtype)
        elif _renames(t) and items.one(*_both(t)):
            now[t] = args[0]
        elif isinstance(t, Extent):
            now[t] = Extent(of_extent.get(t.axis, t.axis))
        elif isinstance(t, View):
            at = t.index.substitute({a: index(name(t, a)) for a in t.index.axes()})
            now[t] = View(args[0], name(t.args[0], t.axis), at)
        elif isinstance(t, Gather | Reduce):
            bound = next((name(x, t.axis) for x in t.args if t.axis in x.axes), t.axis)
            now[t] = t.over(args, partial(nodes.renamed, to={t.axis: bound}.__getitem__))
        else:
            now[t] = t.over(args, partial(nodes.renamed, to=partial(name, t)))
    return replace(
        program,
        inputs=tuple(now.get(i, i) for i in program.inputs),  # type: ignore[misc]
        outputs=tuple(replace(o, term=now[o.term], layout=tuple(a and name(o.term, a) for a in o.layout)) for o in program.outputs),
        names={n: tuple(now[t] for t in ts) for n, ts in program.names.items()},
        sources={now[t]: text for t, text in program.sources.items()},
        widened=frozenset(now[t] for t in program.widened),
    ), now


def _renames(t: Term) -> bool:
    """Whether a term is a value under another name of one of its axes."""
    if not isinstance(t, View) or (to := t.index.as_axis()) is None:
        return False
    x = t.args[0]
    return t.axis in x.axes and to.size == t.axis.size and (to == t.axis or to not in x.axes)


def _both(v: Term) -> tuple[Item, Item]:
    """The new and the old name of what a view renames."""
    assert isinstance(v, View)
    return (v, v.index.as_axis()), (v.args[0], v.axis)  # type: ignore[return-value]


class _Items:
    """The axes of all terms, with those one that are."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self.parent: dict[Item, Item] = {(t, a): (t, a) for t in terms for a in sorted(t.axes)}
        self.seen: dict[Item, set[Term]] = {item: {item[0]} for item in self.parent}  # terms in which an axis must be no other one
        self.mentioned: set[Axis] = set()  # by terms that do not depend on them
        for t in terms:
            taken = t.axis if isinstance(t, View | Gather | Reduce) else None
            kept = t.args[:1] if isinstance(t, View | Gather) else t.args
            for x in t.args:
                for a in x.axes:
                    if a != taken or x not in kept:
                        self.join((x, a), (t, a))
            own = [(x, taken) for x in kept if taken is not None and taken in x.axes]
            for item in own:
                self.join(item, own[0])
                self.seen[self.find(item)].update(t.args)  # beside an axis that ends here
            inside = {*t.index.axes()} if isinstance(t, View) else set()
            self.mentioned |= (inside - t.axes) | ({taken} if taken and not own else set())

    def find(self, item: Item) -> Item:
        """The representative."""
        while self.parent[item] != item:
            self.parent[item] = self.parent[self.parent[item]]
            item = self.parent[item]
        return item

    def one(self, a: Item, b: Item) -> bool:
        """Whether two are one axis."""
        return self.find(a) == self.find(b)

    def join(self, a: Item, b: Item) -> None:
        """Make two one axis."""
        a, b = self.find(a), self.find(b)
        if a != b:
            self.parent[b] = a
            self.seen[a] |= self.seen.pop(b)

    def unify(self, a: Item, b: Item) -> None:
        """The same, unless some term has both."""
        a, b = self.find(a), self.find(b)
        if a != b and self.seen[a].isdisjoint(self.seen[b]):
            self.join(a, b)

    def names(self) -> dict[Item, Axis]:
        """What each is called: as the first item of those that are one, if nothing else is."""
        taken = set(self.mentioned)
        called: dict[Item, Axis] = {}
        for item in self.parent:
            root = self.find(item)
            if root not in called:
                axis = item[1]
                called[root] = axis if axis not in taken else Axis(f"{axis.name}'{len(called)}", axis.size, axis.rank)
                taken.add(called[root])
        return {item: called[self.find(item)] for item in self.parent}
