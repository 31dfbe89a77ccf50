"""Products of rows with matrices that data choose, in groups of rows that have the same matrix.

Of ``y[t] = x[t] @ w[e[t]]`` no two rows need have the same matrix, so that a kernel reads one for each row and has no product of matrices.
Two other forms of it have one.  In the first, each matrix is multiplied by the rows that chose it, which a tile of rows may have any of::

    y[t] = sum_g where(e[t] == g, where(e[t] == g, x[t], 0) @ w[g], 0)

In the second, rows are sorted first, so that those of one matrix stand together: ``slot[t]`` is where row ``t`` goes, ``row[s]`` what
stands at ``s``, and the rows of ``g`` go from ``begin[g]`` to ``end[g]``::

    z[s] = sum_g where(begin[g] <= s < end[g], x[row[s]] @ w[g], 0),   y[t] = z[slot[t]]

That is what libraries call a grouped product.  The places are counted (a running count for each matrix), and nothing has a size that is
data.  A loop over ``g`` visits the matrices that a tile of rows has (:mod:`eqfuse.tiles.data_edges`).  Rows whose number is that of no
matrix are zero in all forms, as far as what they hold is finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .dtypes import DType, int32
from .index import Axis, index
from .program import NewAxes, Program
from .recursion import arguments_first
from .terms import Cast, Const, Extent, Gather, Index, Input, Map, Reduce, Scan, Term, View, postorder


def by_matrix(program: Program) -> Program | None:
    """The program with a sum over all matrices in the place of such products; ``None`` if it has none."""
    return _with(program, lambda found, i: _product(found, i, found.x, Map("eq", (Index(found.gather.axis), found.at))))


def sorted_by_matrix(program: Program) -> Program | None:
    """The program with sorted rows in the place of such products; ``None`` if it has none.  Rows that are sorted by the same numbers are
    sorted once, and stay so from one product to the next."""
    new_axis = NewAxes(program)
    orders: dict[tuple[Term, int], _Order] = {}

    def product(found: _Chosen, i: Axis) -> Term:
        key = _numbers(found.at), found.gather.axis.size
        if key not in orders:
            orders[key] = _Order(found, new_axis)
        return orders[key].product(found, i)

    return _with(program, product)


def _numbers(x: Term) -> Term:
    """A value with lengths as numbers, of whatever axes they are: negative positions are counted from them."""
    made: dict[Term, Term] = {}
    for t in postorder(x):
        made[t] = Const(float(t.axis.size)) if isinstance(t, Extent) else t.over([made[a] for a in t.args]) if t.args else t
    return made[x]


def choosing(program: Program) -> Iterator[Input]:
    """The inputs that choose matrices."""
    for t in program.terms():
        if (found := _chosen(t)) is not None:
            yield from (x for x in postorder(found.at) if isinstance(x, Input))


class _Chosen(NamedTuple):
    """A product ``sum_i x * w[g = at]``.  ``casts``: the types to which what is gathered is cast, one after the other; ``first``: whether
    the rows are the first factor."""

    x: Term
    gather: Gather
    at: Term
    casts: tuple[DType, ...]
    first: bool


def _chosen(t: Term) -> _Chosen | None:
    """The parts of a product of rows with matrices that data choose; ``None`` for another value."""
    body = t.args[0] if isinstance(t, Reduce) and t.monoid == "sum" else None
    if not isinstance(t, Reduce) or not isinstance(body, Map) or body.op != "mul":
        return None
    for x, factor in (body.args, body.args[::-1]):
        g, casts = factor, list[DType]()
        while isinstance(g, Cast):
            casts.append(g.to)
            (g,) = g.args
        if isinstance(g, Gather) and (at := g.args[1]).axes and at.dtype is not None and at.dtype.kind == "int":
            rows, matrix = at.axes, g.args[0].axes - {g.axis, t.axis}
            if (
                t.axis in g.args[0].axes & x.axes - rows
                and rows & x.axes
                and not rows & matrix
                and matrix - x.axes
                and g.axis not in x.axes
            ):
                return _Chosen(x, g, at, tuple(reversed(casts)), x is body.args[0])
    return None


def _with(program: Program, form: Callable[[_Chosen, Axis], Term]) -> Program | None:
    new: dict[Term, Term] = {}
    changed = False
    for t in program.terms():
        new[t] = made = t.over([new[a] for a in t.args]) if t.args else t
        if isinstance(made, Reduce) and (found := _chosen(made)) is not None:
            new[t], changed = form(found, made.axis), True
    return program.over(new) if changed else None


def _product(found: _Chosen, i: Axis, x: Term, inside: Term) -> Term:
    """The sum over the matrices of what each makes of the rows that are its own.  What is multiplied is masked as well, for which parts of
    a product may be left out (:mod:`eqfuse.tiles.skipping`)."""
    g, matrices = found.gather.axis, found.gather.args[0]
    for cast in found.casts:
        matrices = Cast(cast, matrices)
    own = Map("where", (inside, x, Const(0.0)))
    product = Map("mul", (own, matrices) if found.first else (matrices, own))
    return Reduce("sum", g, Map("where", (inside, Reduce("sum", i, product), Const(0.0))))


class _Order:
    """The order of rows by the number of their matrix, by counting.  ``n``: the axis of the rows, one for all that they have; ``s``: the
    axis of the sorted ones; ``slot[n]``: where each goes, -1 if its number is that of no matrix; ``row[s]``: which stands there."""

    def __init__(self, found: _Chosen, new_axis: NewAxes) -> None:
        self.g, self.rows = found.gather.axis, sorted(found.at.axes)
        size = math.prod(a.size for a in self.rows)
        self.n = self.rows[0] if len(self.rows) == 1 else new_axis(self.rows[0], "_".join(a.name for a in self.rows), size)
        self.s = new_axis(self.rows[0], f"{self.n.name}_sorted", size)
        mine = Map("eq", (Index(self.g), self._in_one(found.at)))
        one = Map("where", (mine, Cast(int32, Const(1.0)), Const(0.0)))
        count = Reduce("isum", self.n, one)
        self.end = Scan("isum", self.g, count)
        self.begin = self.end - count
        place = self.begin + Scan("isum", self.n, one) - 1
        self.slot = Reduce("imax", self.g, Map("where", (mine, place, Const(-1.0))))
        here = Map("eq", (self.slot, Index(self.s)))
        self.row = Reduce("isum", self.n, Map("where", (here, Cast(int32, Index(self.n)), Const(0.0))))
        self._known: dict[Term, Term] = {}  # the sorted form of what was made of sorted rows

    def product(self, found: _Chosen, i: Axis) -> Term:
        """The product of sorted rows, read at the place of each row."""
        begin, end = (View(x, self.g, found.gather.axis) if self.g != found.gather.axis else x for x in (self.begin, self.end))
        inside = Map("and", (Map("le", (begin, Index(self.s))), Map("lt", (Index(self.s), end))))
        made = _product(found, i, self._sorted(found.x), inside)
        read = self._apart(Gather(made, self.s, self.slot))
        self._known[read] = made
        return read

    def _sorted(self, x: Term) -> Term:
        """A value with sorted rows.  Which rows stand beyond the last sorted one does not matter: they are masked."""
        made = dict(self._known)
        for t in arguments_first([x], lambda t: t.args if isinstance(t, Map | Cast) else (), lambda t: t in self._known):
            if isinstance(t, Map | Cast) and any(a in made and made[a] is not a for a in t.args):
                made[t] = t.over([made[a] for a in t.args])
            else:
                made[t] = Gather(self._in_one(t), self.n, self.row) if not t.axes.isdisjoint(self.rows) else t
        return made[x]

    def _in_one(self, x: Term) -> Term:
        """A value with one axis in the place of several."""
        step = self.n.size
        for a in self.rows if len(self.rows) > 1 else ():
            step //= a.size
            x = View(x, a, index(self.n) // step % a.size) if a in x.axes else x
        return x

    def _apart(self, x: Term) -> Term:
        """A value with the axes of the rows again."""
        at, step = index(0), self.n.size
        for a in self.rows:
            step //= a.size
            at = at + index(a) * step
        return View(x, self.n, at) if len(self.rows) > 1 else x
