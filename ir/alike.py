"""Values with sums in them that are equal under other names of their axes, written once.

Gradients of keys are wanted at the positions of keys, and at those of what keys and queries are both made of.  A front end that calls an
axis after the input that brings it writes such a value once for each, if its sum runs over an axis of the other name.  Here the second one
becomes the first with its axes renamed by views.

Terms are compared from below (hash-consing): a term is its operation, its arguments, and how the axes of these meet in it; axes are
numbered in the order in which they are met, and a view that only renames is its argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .index import Axis, index
from .nodes import renamed
from .program import NewAxes, Program
from .terms import Cast, Const, Input, Map, Reduce, Term, View

Moves = Mapping[Axis, Axis]
Shape = tuple[int, tuple[Axis, ...]]  # which value up to names, and its axes in the order in which they are met


def alike(program: Program) -> Program:
    """The program with each value that has a sum in it once; itself if no two are equal under other names."""
    shapes = _Shapes()
    met: dict[int, set[tuple[Axis, ...]]] = {}  # the names of the axes of each
    summed: set[Term] = set()  # with sums in them
    for t in program.terms():
        number, axes = shapes.of(t)
        if isinstance(t, Reduce) or any(a in summed for a in t.args):
            summed.add(t)
            met.setdefault(number, set()).add(axes)
    if all(len(names) == 1 for names in met.values()):
        return program
    names = _Names(shapes, summed, NewAxes(program))
    for t in program.terms():
        names.add(t)
    new = {t: names.term(t) for t in program.terms()}
    return replace(
        program,
        outputs=tuple(replace(o, term=new[o.term]) for o in program.outputs),
        sources={new[t]: text for t, text in program.sources.items() if t in new},
        names={n: tuple(dict.fromkeys(new[t] for t in ts if t in new)) for n, ts in program.names.items()},
        widened=frozenset(names.core[t] for t in program.widened),
    )


class _Names:
    """What terms become: a value, and the names that its axes have there.  Values are made under the names of their first argument with a
    sum in it, as far as the others have these, too, so that what is made of equal values is equal in turn."""

    def __init__(self, shapes: _Shapes, summed: set[Term], spare: NewAxes) -> None:
        self.shapes, self.summed, self.spare = shapes, summed, spare
        self.core: dict[Term, Term] = {}
        self.moved: dict[Term, Moves] = {}  # of axes of the core, those that have another name
        self.first: dict[int, Term] = {}

    def term(self, t: Term) -> Term:
        """The value under its own names."""
        return _viewed(self.core[t], self.moved[t], self.spare)

    def whole(self, t: Term) -> Moves:
        """The names of all axes of a core."""
        return {a: self.moved[t].get(a, a) for a in self.core[t].axes}

    def add(self, t: Term) -> None:
        """Decide what a term becomes, after its arguments."""
        number, axes = self.shapes.of(t)
        known = self.first.setdefault(number, t) if t in self.summed else t
        if known is not t:
            to = dict(zip(self.shapes.of(known)[1], axes, strict=True))
            core, moves = self.core[known], {a: to[b] for a, b in self.whole(known).items()}
        else:
            core, moves = self.made(t)
        self.core[t] = core
        self.moved[t] = {a: b for a, b in moves.items() if a != b and a in self.core[t].axes}

    def made(self, t: Term) -> tuple[Term, dict[Axis, Axis]]:
        """The term on what its arguments became."""
        if not t.args:
            return t, {}
        if (renaming := _renaming(t)) is not None:
            old, to = renaming
            return self.core[t.args[0]], {a: to if b == old else b for a, b in self.whole(t.args[0]).items()}
        lead = next((a for a in t.args if a in self.summed and self.moved[a]), None)
        if lead is None:
            return t.over([self.term(a) for a in t.args]), {}
        moves = self.moved[lead]
        back = {b: a for a, b in moves.items()}
        if isinstance(t, Reduce):
            own = back.get(t.axis, t.axis)
            if t.axis in back or t.axis not in moves:  # else something else has its name below
                return Reduce(t.monoid, own, self.core[lead]), {a: b for a, b in moves.items() if a != own}
        elif isinstance(t, Map | Cast) and not ({*moves} & t.axes - {*back}):
            args = []
            for a in t.args:
                if self.moved[a] == {back[b]: b for b in a.axes if b in back}:
                    args.append(self.core[a])
                elif a in self.summed:
                    break
                else:
                    args.append(_viewed(self.core[a], {x: back.get(b, b) for x, b in self.whole(a).items()}, self.spare))
            else:
                return t.over(args), dict(moves)
        return t.over([self.term(a) for a in t.args]), {}


class _Shapes:
    """Terms up to names."""

    def __init__(self) -> None:
        self._found: dict[Term, Shape] = {}
        self._numbers: dict[Any, int] = {}

    def of(self, t: Term) -> Shape:
        """The shape of a term, whose arguments have been asked for."""
        if t not in self._found:
            self._found[t] = self._made(t)
        return self._found[t]

    def _made(self, t: Term) -> Shape:
        below = [self._found[a] for a in t.args]
        if (renaming := _renaming(t)) is not None:
            old, to = renaming
            number, axes = below[0]
            return number, tuple(to if a == old else a for a in axes)
        places = _Places()
        if isinstance(t, Input):
            own: Any = (t.name, t.dtype.name, *(None if a is None else places(a) for a in t.layout))
        elif isinstance(t, Const):
            own = (repr(t),)  # zeros have signs
        else:
            met = tuple((number, *map(places, axes)) for number, axes in below)
            own = (met, renamed(t.attrs, places))
        order = tuple(a for a in places.known if a in t.axes)
        return self._numbers.setdefault((t.kind, own, tuple(map(places, order))), len(self._numbers)), order


def _renaming(t: Term) -> tuple[Axis, Axis] | None:
    """The axis that a view gives another name, and that name, if this is all that it does."""
    to = t.index.as_axis() if isinstance(t, View) else None
    return (t.axis, to) if isinstance(t, View) and to is not None and to.size == t.axis.size and to not in t.args[0].axes else None


class _Places:
    """Axes by the places at which they are met."""

    def __init__(self) -> None:
        self.known: dict[Axis, Axis] = {}

    def __call__(self, a: Axis) -> Axis:
        return self.known.setdefault(a, Axis(f"a{len(self.known)}", a.size, len(self.known) + 1))


def _viewed(x: Term, moves: Mapping[Axis, Axis], spare: NewAxes) -> Term:
    """A value with its axes renamed, all at once."""
    todo = {a: b for a, b in moves.items() if a != b}
    while todo:
        a = next((a for a, b in todo.items() if b not in todo), None)
        if a is None:  # a cycle: step aside
            a = next(iter(todo))
            other = spare(a)
            x = View(x, a, index(other))
            todo[other] = todo.pop(a)
        else:
            x = View(x, a, index(todo.pop(a)))
    return x
