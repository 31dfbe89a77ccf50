"""Bound axes apart from free ones: the same program, in which no sum stands beside a factor that depends on the axis it sums.

A front end calls an axis after the input that brings it, so A Aᵀ A is ``sum_j (sum_k a[i,k]*a[j,k]) * a[j,k]``: the inner k is another
axis than the outer one.  Laws that move a factor into a sum ask that it is free of the summed axis, and must not be stopped by a name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .index import Axis, index
from .monoids import MONOIDS
from .nodes import renamed
from .program import NewAxes, Program
from .terms import Gather, Index, Input, Map, Reduce, Scan, Term, View, postorder


def apart(program: Program) -> Program:
    """The program with new names for such axes; itself if there are none."""
    captured = _captured(program)
    if not captured:
        return program
    new_axis = NewAxes(program)
    names: dict[tuple[Axis, int], Axis] = {}

    def named(axis: Axis, level: int) -> Axis:
        """Equal levels of one axis are one axis, so that equal sums stay equal."""
        if (axis, level) not in names:
            names[axis, level] = new_axis(axis)
        return names[axis, level]

    axes = {r.axis for r in captured}
    new: dict[Term, Term] = {}
    depth: dict[Term, dict[Axis, int]] = {}  # how many sums over an axis that get a new name are nested in a term
    for t in program.terms():
        made = t.over(tuple(new[a] for a in t.args)) if t.args else t
        depth[t] = {a: n for a in axes if (n := max((depth[x].get(a, 0) for x in t.args), default=0))}
        if isinstance(made, Reduce) and t in captured:
            level = depth[t][made.axis] = depth[t].get(made.axis, 0) + 1
            made = Reduce(made.monoid, named(made.axis, level), _moved(made.args[0], made.axis, named(made.axis, level)))
        new[t] = made
    return replace(
        program,
        outputs=tuple(replace(o, term=new[o.term]) for o in program.outputs),
        sources={new[t]: text for t, text in program.sources.items() if t in new},
        names={n: tuple(new[t] for t in ts if t in new) for n, ts in program.names.items()},
        widened=frozenset(new[t] for t in program.widened),
    )


def _captured(program: Program) -> set[Reduce]:
    """The sums in products beside which something depends on their axis."""
    factors: dict[Term, frozenset[Reduce]] = {}  # the sums among the factors of a term
    found: set[Reduce] = set()
    for t in program.terms():
        own = frozenset[Reduce]()
        if isinstance(t, Reduce) and MONOIDS[t.monoid].linear and _is_product(t):
            own = frozenset({t})
        elif isinstance(t, Map) and t.op in ("mul", "neg"):
            own = own.union(*(factors[x] for x in t.args))
        if isinstance(t, Gather):  # what is gathered could not be reduced later
            x, at = t.args
            found |= {r for r in postorder(x) if isinstance(r, Reduce) and r.axis in at.axes}
        if own and isinstance(t, Map) and t.op == "mul":
            for side, other in (t.args, t.args[::-1]):
                found |= {r for r in factors[side] if r.axis in other.axes}
        factors[t] = own
    return found


def _is_product(r: Reduce) -> bool:
    """Whether a factor of what is summed has the summed axis and lacks another: a sum whose factors all have the same axes has no other
    order, and what stands beside it would only be computed under two names."""
    stack = [body := r.args[0]]
    while stack:
        t = stack.pop()
        if isinstance(t, Map) and t.op in ("mul", "neg"):
            stack.extend(t.args)
        elif r.axis in t.axes and t.axes < body.axes:
            return True
    return isinstance(body, Reduce)


def _moved(x: Term, old: Axis, new: Axis) -> Term:
    """``x`` along another axis, which nothing in it has."""

    def to(attribute: Any) -> Any:
        return renamed(attribute, lambda a: new if a == old else a)

    made: dict[Term, Term] = {}
    for t in postorder(x):
        if old not in t.axes:
            made[t] = t
        elif isinstance(t, Input):
            made[t] = View(t, old, index(new))
        elif isinstance(t, Index):
            made[t] = Index(new)
        elif isinstance(t, View):  # of what is read along the axis itself, only the position
            made[t] = View(t.args[0] if t.axis == old else made[t.args[0]], t.axis, to(t.index))
        elif isinstance(t, Gather) and t.axis == old:
            made[t] = Gather(t.args[0], old, made[t.args[1]])
        else:
            made[t] = t.over(tuple(made[a] for a in t.args), to if isinstance(t, Scan) else lambda attribute: attribute)
    return made[x]
