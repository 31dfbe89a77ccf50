"""A padded program in packed form: rows that count, one after the other, without those beyond the lengths.

Of a program over sequences ``b`` and positions ``s`` in which only ``s < n[b]`` counts, an equal one goes over tokens ``t``: row ``s`` of
sequence ``b`` is token ``begin[b] + s``.  What is done for each row is done for each token; a reduction over positions takes the tokens of
the same sequence; results are put back::

    where(s < n[b], relu(x[b, s] @ w), 0)  ->  y[t] = relu(x[of[t], t - begin[of[t]]] @ w)
                                               where(s < n[b], y[begin[b] + s], 0)

``n`` is cut to the length of the axis; ``begin`` is its running sum, ``of[t]`` the number of sequences that end at ``t`` or before.  So a
tile has rows of several sequences, and padding is left in the last tile alone.  The idea is CoRA's fusion of ragged loops (Fegade et al.,
MLSys 2022), which a user asks for there; here it is a form of the program that competes by its price.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from .dtypes import DType, int32, int64
from .index import Axis
from .monoids import MONOIDS
from .needed import Case, Needed
from .nodes import mentioned
from .program import NewAxes, Program
from .recursion import arguments_first
from .terms import Cast, Const, Gather, Index, Input, Map, Reduce, Scan, Term, View

IDENTITIES = ("sum", "isum", "max", "min", "imax", "imin")


class Unpacked(Exception):
    """A program that has no packed form."""


def packed(program: Program) -> Program | None:
    """The packed form of a program; ``None`` if it has none, or if nothing in it is worth one."""
    program = _one_way(program)
    needed = Needed(program)
    for case in needed.cases:
        found = None if case.truth else _beyond(case.condition)
        if found is None or not any(case in needed.unneeded[p] for p in needed.products):
            continue
        try:
            return _Packing(program, needed, *found).program()
        except Unpacked:
            continue
    return None


TURNED = {"gt": "lt", "ge": "le", "lt": "gt", "le": "ge"}
OTHERWISE = {"ge": "lt", "gt": "le"}


def _one_way(program: Program) -> Program:
    """The program with ``s < n`` and ``s <= n`` for all comparisons of positions: what ``s >= n`` says is ``not s < n``, of integers."""
    new: dict[Term, Term] = {}
    for t in program.terms():
        made = t.over([new[a] for a in t.args]) if t.args else t
        if isinstance(made, Map) and made.op in TURNED and all(a.dtype is not None and a.dtype.kind == "int" for a in made.args):
            op, (s, n) = made.op, made.args
            if isinstance(n, Index) and not isinstance(s, Index):
                op, s, n = TURNED[op], n, s
            if isinstance(s, Index):
                made = Map("not", (Map(OTHERWISE[op], (s, n)),)) if op in OTHERWISE else Map(op, (s, n))
        new[t] = made
    return program.over(new)


def _beyond(c: Term) -> tuple[Axis, Axis, Term, bool] | None:
    """The sequences, the positions and the lengths of ``s < n[b]``; last, whether row ``n[b]`` counts as well."""
    if not isinstance(c, Map) or c.op not in ("lt", "le"):
        return None
    s, n = c.args
    if not isinstance(s, Index) or len(n.axes) != 1 or s.axis in n.axes or n.dtype is None or n.dtype.kind != "int":
        return None
    return next(iter(n.axes)), s.axis, n, c.op == "le"


class _Packing:
    """The packed form for one condition ``s < n[b]``; with ``through``, for ``s <= n[b]``.  Positions may have several axes (of queries
    and of keys); ``tokens`` maps each of them to the axis of tokens that takes its place."""

    def __init__(self, program: Program, needed: Needed, b: Axis, s: Axis, n: Term, through: bool) -> None:
        self.whole, self.needed, self.b, self.s = program, needed, b, s
        self.n, self.through = n, through
        self.cases: dict[Axis, Case] = {}  # by the axis of positions
        for case in needed.cases:
            found = None if case.truth else _beyond(case.condition)
            if found is not None and (found[0], *found[2:]) == (b, n, through) and found[1].size == s.size:
                self.cases[found[1]] = case
        new_axis = NewAxes(program)
        self.tokens = {a: new_axis(a, f"{a.name}_tokens", b.size * a.size) for a in self.cases}
        self.made: dict[Term, Term] = {}

    def program(self) -> Program:
        """All of it.  Raises :class:`Unpacked` where rows beyond the lengths count."""
        for t in self.whole.terms():
            self.made[t] = self.over(t, [self.put_back(x) for x in t.args]) if t in self.late else self.form(t)
            if t in self.products and len(rows := self.rows(t)) == 1:  # of what is no token there is no product
                self.made[t] = Map("where", (self.counts(rows[0]), self.made[t], Const(0.0)))
        outputs = tuple(replace(o, term=self.put_back(o.term)) for o in self.whole.outputs)
        return replace(self.whole.over(self.made), outputs=outputs)

    @cached_property
    def products(self) -> frozenset[Term]:
        """The products that are not masked yet (:func:`~.needed.masked`)."""
        there = {t.args[1] for t in self.whole.terms() if isinstance(t, Map) and t.op == "where" and self.case(t.args[0]) is not None}
        return frozenset(self.needed.products) - there

    @cached_property
    def late(self) -> frozenset[Term]:
        """The values after the last product, from the first reduction on.  They keep positions: their arguments are put back before."""
        products, before = set(self.needed.products), set[Term]()
        for t in reversed(self.whole.terms()):
            if t in products or t in before:
                before.update((t, *t.args))
        found: set[Term] = set()
        for t in self.whole.terms():
            if t not in before and (isinstance(t, Reduce) or not found.isdisjoint(t.args)):
                found.add(t)
        return frozenset(found)

    @cached_property
    def summed(self) -> frozenset[Axis]:
        """The axes of positions that something is reduced over.  Over tokens, such a reduction would meet those of other sequences."""
        return frozenset(t.axis for t in self.whole.terms() if isinstance(t, Reduce) and t.axis in self.cases)

    def rows(self, t: Term) -> list[Axis]:
        """The axes of positions of a value that also has the axis of sequences.  Its packed form has tokens in the place of both."""
        return [a for a in self.cases if a in t.axes] if self.b in t.axes and t not in self.late else []

    # sequences ----------------------------------------------------------------------------------------------------------------------

    @cached_property
    def counted(self) -> DType:
        """An integer type in which all tokens can be counted.  The type of the lengths may be too small: int8, uint8."""
        kind = self.n.dtype
        return kind if kind is not None and kind.largest >= max(int32.largest, self.b.size * self.s.size) else int64

    @cached_property
    def lengths(self) -> Term:
        """How many rows of each sequence count, between 0 and the length of the axis.  For ``s <= n[b]`` that is ``n[b] + 1``, which is cut
        before 1 is added: ``n[b]`` may be the largest number of its type."""
        least, n = -float(self.through), self.n if self.n.dtype == self.counted else Cast(self.counted, self.n)
        cut = Map("minimum", (Map("maximum", (n, Const(0.0 + least))), Const(self.s.size + least)))
        return cut + 1 if self.through else cut

    @cached_property
    def ends(self) -> Term:
        """The token after the last one of each sequence."""
        return Scan("isum", self.b, self.lengths)

    @cached_property
    def begins(self) -> Term:
        """The first token of each sequence."""
        return self.ends - self.lengths

    def of(self, a: Axis) -> Term:
        """The sequence of each token.  Beyond the last token that is no sequence, and a gather there reads 0."""
        return self.upto(a, self.ends, Const(1.0))

    def begin(self, a: Axis) -> Term:
        """The first token of the sequence of each token."""
        return self.upto(a, self.ends, self.lengths)

    def end(self, a: Axis) -> Term:
        """The token after the last one of the sequence of each token.  Beyond the last token, first and last are equal: no token."""
        return self.upto(a, self.begins, self.lengths)

    def upto(self, a: Axis, where: Term, what: Term) -> Term:
        """The sum over the sequences that begin, or end, at each token or before."""
        there = Map("le", (where, Index(self.tokens[a])))
        return Reduce("isum", self.b, Map("where", (there, Cast(self.counted, what), Const(0.0))))

    def position(self, a: Axis) -> Term:
        """The position of each token in its sequence."""
        return Index(self.tokens[a]) - self.begin(a)

    @cached_property
    def total(self) -> Term:
        """How many tokens there are."""
        return Reduce("isum", self.b, self.lengths)

    def counts(self, a: Axis) -> Term:
        """Whether a position on the axis of tokens is one of the tokens, or lies beyond the last one."""
        return Map("lt", (Index(self.tokens[a]), self.total))

    def together(self, a: Axis, other: Axis | None) -> Term:
        """Whether tokens of two axes are of the same sequence; without another axis, whether a token is of each of the sequences."""
        begin, end = (self.begins, self.ends) if other is None else (self.begin(other), self.end(other))
        t = Index(self.tokens[a])
        return Map("and", (Map("le", (begin, t)), Map("lt", (t, end))))

    # values -------------------------------------------------------------------------------------------------------------------------

    def form(self, t: Term) -> Term:
        """The packed form of a value, once those of its arguments are there."""
        rows = self.rows(t)
        if (case := self.case(t)) is not None:
            return self.counts(case)
        below = {a for x in t.args for a in self.rows(x)}
        if isinstance(t, Input) or (isinstance(t, View | Scan) and not below):  # where it gets positions it is read at tokens
            return self.read(t, rows)
        if isinstance(t, Reduce) and t.axis in below:
            return self.reduced(t)
        if isinstance(t, View) and below:
            return self.viewed(t)
        if isinstance(t, Reduce | Scan | Gather) and below and t.axis in (self.b, *self.cases):
            raise Unpacked
        return self.over(t, [self.lifted(x, rows) for x in t.args])

    def over(self, t: Term, args: list[Term]) -> Term:
        """The same operation on other arguments."""
        found: Term = t.over(args) if args else t
        return found

    def case(self, t: Term) -> Axis | None:
        """The axis of positions, if a value is their comparison with the lengths."""
        return next((a for a, case in self.cases.items() if t is case.condition), None)

    def lifted(self, t: Term, rows: list[Axis]) -> Term:
        """An argument beside others with tokens: a value of sequences alone, or of positions alone, is read for each token."""
        if (mask := self.mask(t, rows)) is not None:
            return mask
        if not rows or self.rows(t):
            return self.made[t]
        return self.position(t.axis) if isinstance(t, Index) and t.axis in rows else self.read(self.made[t], rows)

    def read(self, t: Term, rows: list[Axis]) -> Term:
        """A padded value, read at the sequence and the position of each token."""
        found = t
        for a in rows:
            if a in t.axes:
                found = Gather(found, a, self.position(a))
        return Gather(found, self.b, self.of(rows[0])) if rows and self.b in t.axes else found

    def mask(self, t: Term, rows: list[Axis]) -> Term | None:
        """The packed form of a mask of keys beside queries: it lets a token see those of its sequence.  ``None`` for another value."""
        own = self.rows(t)
        others = [r for r in rows if r not in own]
        if len(own) != 1 or own[0] not in self.summed or not others:
            return None
        made: dict[Term, Term] = {}
        for x in arguments_first([t], lambda x: x.args, lambda x: self.case(x) is not None):
            if not isinstance(x, Const | Map | Cast):
                return None
            made[x] = x.over([made.get(a) or self.together(own[0], others[0]) for a in x.args]) if x.args else x
        return made.get(t) or self.together(own[0], others[0])

    def reduced(self, t: Reduce) -> Term:
        """A reduction over positions, as one over the tokens of the sequence.  What the program reduces beyond the length has to be the
        identity of the monoid, for no token stands for it.  Where the result has a number for each sequence, an empty one included, that is
        asked whatever is infinite or NaN: an empty sequence has no token that could say."""
        x, a = t.args[0], t.axis
        others = [r for r in self.rows(x) if r != a]
        identity = MONOIDS[t.monoid].identity
        if t.monoid not in IDENTITIES or (self.needed.value if others else self.needed.surely)(x, self.cases[a]) != identity:
            raise Unpacked
        inside = self.together(a, others[0] if others else None)
        nothing = self.needed.value(self.made[x], Case(inside, False)) == identity
        return Reduce(t.monoid, self.tokens[a], self.made[x] if nothing else Map("where", (inside, self.made[x], Const(identity))))

    def viewed(self, t: View) -> Term:
        """A view.  It may rename positions, as keys are rows read under another name, and do anything to other axes."""
        read = t.index.as_axis()
        if t.axis in self.cases and read in self.cases:
            return View(self.made[t.args[0]], self.tokens[t.axis], self.tokens[read])
        if mentioned(t.attrs) & {self.b, *self.cases}:
            raise Unpacked
        return self.over(t, [self.made[t.args[0]]])

    def put_back(self, t: Term) -> Term:
        """A value with tokens, as one with positions: each row is read at its token.  Beyond the length stands the number that the program
        has there, or 0 if nobody needs it."""
        rows = self.rows(t)
        if isinstance(t, Input) or self.case(t) is not None:
            return t
        if not rows:
            return self.made[t]
        a, *more = rows
        number = self.needed.value(t, self.cases[a])
        if more or (number is None and self.cases[a] not in self.needed.unneeded[t]):
            raise Unpacked
        found = Gather(self.made[t], self.tokens[a], self.begins + Index(a))
        return Map("where", (self.cases[a].condition, found, Const(number or 0.0)))
