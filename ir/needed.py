"""Products that are needed only where a condition holds are zero elsewhere.

Below ``where(rows < lengths, norm(x + relu(x @ w) @ v), 0)`` no row beyond a length is needed, of the products inside neither; nor of the
values of an attention whose weights are zero beyond a length::

    w1 = where(rows < lengths, x @ w, 0)        a kernel that stores this multiplies no padded rows (:mod:`eqfuse.tiles.skipping`)

So a mask that the user wrote once stands at every product, wherever programs are cut.  What is needed is not looked up by operation but
executed, with a condition known to be false (or true): where an operation then gives a number whatever one of its arguments is, that
argument is not needed.  As for masked tiles, this is about finite numbers: 0 times an infinite element, of which the program makes NaN,
is zero here; and one zero is as good as the other, whatever their signs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from . import ops
from .dtypes import DType, cast, castable
from .index import Axis
from .monoids import MONOIDS
from .nodes import mentioned, renamed
from .program import Program
from .recursion import arguments_first
from .samples import COMPARISONS
from .terms import Cast, Const, Gather, Input, Map, Reduce, Scan, Term, View, postorder

ABSORBING = {  # what an operation gives whatever its other argument is, if that is finite, by one of its arguments
    ("mul", 0.0): 0.0, ("and", 0.0): 0.0, ("or", 1.0): 1.0, ("add", float("-inf")): float("-inf"), ("add", float("inf")): float("inf"),
    ("minimum", float("-inf")): float("-inf"), ("maximum", float("inf")): float("inf"),
}  # fmt: skip
OF_CONDITIONS = ("and", "or", "not")
MOST = 16  # conditions of a program


@dataclass(frozen=True)
class Case:
    """A condition, and the truth of it that is supposed."""

    condition: Term
    truth: bool

    @property
    def axes(self) -> frozenset[Axis]:
        """The axes that the condition depends on."""
        return self.condition.axes

    def otherwise(self) -> Term:
        """What holds in the other case."""
        return Map("not", (self.condition,)) if self.truth else self.condition

    def along(self, new: Axis, old: Axis) -> Case | None:
        """The same condition on another axis; ``None`` if the other one is in it already."""
        terms = postorder(self.condition)
        if any(new in (*t.axes, *mentioned(t.attrs)) for t in terms):
            return None
        made: dict[Term, Term] = {}
        for t in terms:  # of an input its layout would be another one: it is read along the new axis
            made[t] = View(t, old, new) if isinstance(t, Input) and old in t.axes else _along(t, new, old, made)
        return Case(made[self.condition], self.truth)


def _along(t: Term, new: Axis, old: Axis, made: Mapping[Term, Term]) -> Term:
    if isinstance(t, Input):
        return t
    found: Term = t.over([made[a] for a in t.args], lambda x: renamed(x, lambda a: new if a == old else a))
    return found


def masked(program: Program) -> Program:
    """The program with zeros in its products where nobody needs them; itself if all of them are needed."""
    needed = Needed(program)
    wanted = {t: far for t in needed.products if (far := needed.far(t))} if needed.cases else {}
    if not wanted:
        return program
    new: dict[Term, Term] = {}
    for t in program.terms():
        made = t.over([new[a] for a in t.args]) if t.args else t
        for case in wanted.get(t, ()):
            made = Map("where", (case.otherwise(), made, Const(0.0)))
        new[t] = made
    return program.over(new)


class Needed:
    """Of the values of a program, the cases in which nobody needs them.  ``compound``: for all conditions."""

    def __init__(self, program: Program, compound: bool = False) -> None:
        self.program, self.terms, self.compound = program, program.terms(), compound
        self.users: dict[Term, list[Term]] = {t: [] for t in self.terms}
        for t in self.terms:
            for a in dict.fromkeys(t.args):
                self.users[a].append(t)
        self._values: dict[tuple[Term, Case], float | None] = {}

    @cached_property
    def cases(self) -> list[Case]:
        """Conditions on data, each with both truths: comparisons of integers, and truth values.  None if there are too many.  ``compound``:
        also those on positions alone, and what is made of conditions."""
        found: dict[Term, None] = {}
        for t in self.terms:
            made = self.compound and isinstance(t, Map) and t.op in OF_CONDITIONS and any(a in found for a in t.args)
            if t.axes and (made or (isinstance(t, Input) and t.dtype.name == "bool") or _compares(t, not self.compound)):
                found[t] = None
        return [Case(t, truth) for t in found for truth in (False, True)] if len(found) <= MOST else []

    @cached_property
    def products(self) -> list[Term]:
        """Sums of products whose factors all lack some axis: matrix products and their like."""
        return [t for t in self.terms if isinstance(t, Reduce) and t.monoid == "sum" and _combines(t.args[0])]

    @cached_property
    def _products(self) -> frozenset[Term]:
        return frozenset(self.products)

    def far(self, t: Term) -> list[Case]:
        """The cases in which a value is not needed and a product stands between it and the mask.  Without one, the kernel of the value can
        have the mask itself (:mod:`eqfuse.tiles.skipping`), and another one gains nothing."""
        return [case for case, far in self.unneeded[t].items() if far and case.axes < t.axes]

    @cached_property
    def unneeded(self) -> Mapping[Term, Mapping[Case, bool]]:
        """For each value the cases in which it may be any number, and whether a product stands between it and what ignores it."""
        found: dict[Term, dict[Case, bool]] = {}
        outputs = {o.term for o in self.program.outputs}
        for t in reversed(self.terms):
            each = [self._through(u, t, found[u]) for u in self.users[t]]
            common = {} if t in outputs or not each else {c: any(e[c] for e in each) for c in each[0] if all(c in e for e in each)}
            found[t] = {c: far for c, far in common.items() if c.axes <= t.axes}
        return found

    def _through(self, u: Term, t: Term, cases: Mapping[Case, bool]) -> dict[Case, bool]:
        """The cases in which the value of a user does not depend on an argument, or is not needed itself."""
        if isinstance(u, View):
            return self._through_view(u, cases)
        if isinstance(u, Gather | Scan):
            moved = mentioned(u.attrs) | (u.args[1].axes if isinstance(u, Gather) else frozenset())
            return {c: far for c, far in cases.items() if not c.axes & moved}
        if isinstance(u, Reduce):
            return dict.fromkeys(cases, True) if u in self._products else dict(cases)
        found = dict(cases)
        if isinstance(u, Map):
            for c in self.cases:
                if c not in found and c.axes <= t.axes and self._applied(u, c, without=t) is not None:
                    found[c] = False
        return found

    @staticmethod
    def _through_view(u: View, cases: Mapping[Case, bool]) -> dict[Case, bool]:
        found: dict[Case, bool] = {}
        for c, far in cases.items():
            if not c.axes & u.index.axes():
                if u.axis not in c.axes:
                    found[c] = far
            elif (read := u.index.as_axis()) is not None and read.size == u.axis.size and (other := c.along(u.axis, read)) is not None:
                found[other] = far
        return found

    def value(self, t: Term, case: Case) -> float | None:
        """The number that a value is everywhere in a case; ``None`` if it may be several."""
        for x in arguments_first([t], lambda x: x.args, lambda x: (x, case) in self._values):
            self._values[x, case] = self._executed(x, case)
        return self._values[t, case]

    def surely(self, t: Term, case: Case) -> float | None:
        """The number of :meth:`value`, if it does not rest on 0 times a value that may be infinite or NaN; else ``None``."""
        number = self.value(t, case)
        while isinstance(t, Map) and t.op == "where" and (chosen := self.value(t.args[0], case)) is not None:
            t = t.args[1 if chosen else 2]
        return number if all(map(_finite, postorder(t))) or isinstance(t, Const) else None

    def _executed(self, t: Term, case: Case) -> float | None:
        if t is case.condition:
            return float(case.truth)
        if isinstance(t, Const):
            return t.value
        if isinstance(t, Map):
            return self._applied(t, case)
        if isinstance(t, Cast):
            return _cast(self._values[t.args[0], case], t.to)
        if isinstance(t, Reduce | View):
            x = self._values[t.args[0], case]
            if mentioned(t.attrs) & case.axes:
                return None
            return x if not isinstance(t, Reduce) or MONOIDS[t.monoid].copies == "one" or (x == 0 and t.monoid in ("sum", "isum")) else None
        return None

    def _applied(self, t: Map, case: Case, without: Term | None = None) -> float | None:
        """The number that an operation gives in a case, ``without`` knowing one of its arguments."""
        args = [None if a is without else self.value(a, case) for a in t.args]
        if t.op == "where" and args[0] is not None:
            return args[1] if args[0] else args[2]
        if t.op == "where" and args[1] is not None and args[1] == args[2]:
            return args[1]
        known = [x for x in args if x is not None]
        if len(known) == len(args):
            with np.errstate(all="ignore"):
                found = float(ops.apply(t.op, *map(np.asarray, known)))
            whole = t.dtype is not None and t.dtype.kind == "int"  # of large ones float64 loses digits, and int64 wraps
            return found if not whole or abs(found) < 2.0**53 else None
        return next((ABSORBING[t.op, x] for x in known if (t.op, x) in ABSORBING), None)


def _cast(x: float | None, to: DType) -> float | None:
    """A number in another type; ``None`` where torch does not say what it is, and where a float may be rounded."""
    if x is None or x in (0.0, 1.0):
        return x
    return None if to.is_float or not castable(np.asarray(x), to) else float(cast(np.asarray(x), to))


def _compares(t: Term, data: bool) -> bool:
    """Whether it compares integers; some of which are ``data``."""
    if not (isinstance(t, Map) and t.op in COMPARISONS) or any(a.dtype is not None and a.dtype.is_float for a in t.args):
        return False
    return not data or any(isinstance(x, Input) for x in postorder(t))


def _finite(t: Term) -> bool:
    """Whether an operation makes finite numbers of finite ones."""
    return math.isfinite(t.value) if isinstance(t, Const) else not isinstance(t, Map) or ops.op(t.op).domain in ("real", "whole")


def _combines(body: Term) -> bool:
    return isinstance(body, Map) and body.op == "mul" and all(a.axes < body.axes for a in body.args)
