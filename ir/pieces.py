"""A program with some axes in pieces: one value with one axis, or several values side by side.

``x[i]`` with ``i < 96`` is ``x[j]`` with ``j < 64`` and ``x[64 + k]`` with ``k < 32``.  A sum over the axis is the sum of a sum over each
piece; a result along it is stored in parts; a choice that a piece decides is made once::

    sum_i q[i] * k[i]                     ->  sum_j q[j] * k[j] + sum_k q[64 + k] * k[64 + k]
    sum_i where(i < 5, a[i], b[i - 5])    ->  sum_j a[j] + sum_k b[k]

The last piece may be longer than what is left of the axis: tensors are zero there, and reductions see their identity.

- :func:`powers`: tiles have sides that are powers of two, so that an axis which one tile has to hold whole (a row that is normalised, the
  columns of an inner product) is padded to the next: pieces are padded less.
- :func:`aligned`: rows that do not begin at multiples of 16 bytes are read element by element; in copies with longer rows they are not.
- :func:`joints`: what was put side by side has a choice in each element, which pieces have made.

All are equal programs, to be chosen by price.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise, product
from typing import NamedTuple

from .bounds import bounds
from .index import Axis, IndexExpr, index
from .monoids import MONOIDS
from .program import NewAxes, Output, Program, Result
from .ranges import Interval
from .samples import COMPARISONS
from .terms import Cast, Const, Extent, Gather, Index, Input, Map, Reduce, Scan, Term, View

LEAST = 16  # the shortest piece: that a side of a matrix product may have
LARGEST = 1024  # the longest axis that is cut into powers of two; longer ones are rarely held whole
WASTE = 1.15  # what a tile may have more than its axis
MOST = 3  # pieces of an axis
MOST_JOINTS = 4
MOST_REDUCTIONS = 6  # of a program: every one that goes along a piece is there once more
WIDE = 16  # bytes of the widest load, which has to begin at a multiple of them

Cuts = Mapping[Axis, Sequence[int]]  # where the pieces of an axis begin, and last where they end


class Whole(Exception):
    """A program that reads across pieces."""


def powers(program: Program) -> Program | None:
    """The program with the rows of its tensors in pieces of powers of two, where tiles of whole rows would be too large by much.  Only
    reductions of reductions need whole rows."""
    depth: dict[Term, int] = {}
    for t in program.terms():
        depth[t] = isinstance(t, Reduce | Scan) + max((depth[x] for x in t.args), default=0)
    if max(depth.values(), default=0) < 2:
        return None
    layouts = (*(x.layout for x in program.inputs), *(o.layout for o in program.outputs))
    rows = {a for layout in layouts for a in layout[-1:] if a is not None}
    found = {a: _of_powers(a.size) for a in rows if LEAST < a.size <= LARGEST}
    return in_pieces(program, {a: cuts for a, cuts in found.items() if len(cuts) > 2})


def _of_powers(n: int) -> tuple[int, ...]:
    """Pieces of powers of two, until the rest is as good as one."""
    cuts, at = [0], 0
    while len(cuts) < MOST and (1 << (n - at - 1).bit_length()) > WASTE * (n - at) and n - at > LEAST:
        at += 1 << ((n - at).bit_length() - 1)
        cuts.append(at)
    return (*cuts, n)


def aligned(program: Program) -> Program | None:
    """The program with longer rows in the place of rows of tensors that are multiplied and that wide loads could not begin at."""
    summed = {t.axis for t in program.terms() if isinstance(t, Reduce) and isinstance(t.args[0], Map) and t.args[0].op == "mul"}
    multiplied = [x for x in program.inputs if x.dtype.is_float and len(x.axes) > 1 and x.axes & summed]
    rows = {x.layout[-1]: x.dtype.itemsize for x in multiplied if x.name not in program.strides}
    step = {a: WIDE // size for a, size in rows.items() if a is not None and a.size > LARGEST and a.size * size % WIDE}
    return in_pieces(program, {a: (0, -(-a.size // n) * n) for a, n in step.items()})


def joints(program: Program) -> Program | None:
    """The program in pieces along axes of which a comparison with a number tells one part from another."""
    found: dict[Axis, set[int]] = {}
    for t in program.terms():
        if isinstance(t, Map) and t.op == "where" and (at := _threshold(t.args[0])) is not None:
            found.setdefault(at[0], set()).add(at[1])
    cuts = {a: (0, *sorted(k for k in at if 0 < k < a.size), a.size) for a, at in found.items()}
    return in_pieces(program, {a: c for a, c in cuts.items() if 2 < len(c) <= MOST_JOINTS + 1})


def _threshold(t: Term) -> tuple[Axis, int] | None:
    """The axis and the first position at which ``i < n`` no longer holds."""
    if isinstance(t, Map) and t.op == "lt" and isinstance(t.args[0], Index) and isinstance(t.args[1], Const):
        return t.args[0].axis, int(t.args[1].value)
    return None


def in_pieces(program: Program, cuts: Cuts) -> Program | None:
    """The program with axes in pieces; ``None`` if there are none, or values are read across pieces: by a scan, at data, or at positions of
    several pieces."""
    if not cuts or sum(isinstance(t, Reduce | Scan) for t in program.terms()) > MOST_REDUCTIONS:
        return None
    try:
        return _Pieces(program, _closed(program, cuts)).program()
    except Whole:
        return None


def _closed(program: Program, cuts: Cuts) -> dict[Axis, tuple[int, ...]]:
    """The same cuts of axes that are one another's names."""
    found = {a: {*at} for a, at in cuts.items()}
    same = [(t.axis, b) for t in program.terms() if isinstance(t, View) and (b := t.index.as_axis()) is not None and b.size == t.axis.size]
    while any(found.get(a, set()) != found.get(b, set()) for a, b in same):
        for a, b in same:
            both = found.get(a, set()) | found.get(b, set())
            found.update({a: both, b: both} if both else {})
    return {a: (*sorted(k for k in at if k < a.size), max(at)) for a, at in found.items()}


class _Piece(NamedTuple):
    """``axis``: of the piece, which may be longer than the ``size`` positions from ``start`` on that it stands for."""

    axis: Axis
    start: int
    size: int

    @property
    def at(self) -> IndexExpr:
        """Where a position is in the whole."""
        return index(self.axis) + self.start

    @property
    def inside(self) -> Term | None:
        """Whether a position is one; ``None`` if all are."""
        return Map("lt", (Index(self.axis), Const(float(self.size)))) if self.size < self.axis.size else None


class _Pieces:
    """``made``: of each term, one for every choice of pieces of the axes that it has."""

    def __init__(self, program: Program, cuts: Mapping[Axis, tuple[int, ...]]) -> None:
        self.whole, self.new = program, NewAxes(program)
        self.pieces = {
            a: [_Piece(self.new(a, a.name, end - start), start, min(end, a.size) - start) for start, end in pairwise(at)]
            for a, at in sorted(cuts.items())
        }
        self.made: dict[Term, dict[tuple[int, ...], Term]] = {}
        self.known: dict[Term, Interval] = {}
        for t in program.terms():
            own = self.cut(t.axes)
            choices = product(*(range(len(self.pieces[a])) for a in own))
            self.made[t] = {chosen: self.piece(t, dict(zip(own, chosen, strict=True))) for chosen in choices}

    def cut(self, axes: Iterable[Axis]) -> list[Axis]:
        """The axes among some that are cut, in order."""
        return sorted(a for a in axes if a in self.pieces)

    def of(self, t: Term, chosen: Mapping[Axis, int]) -> Term:
        """A term in pieces of its axes."""
        return self.made[t][tuple(chosen[a] for a in self.cut(t.axes))]

    def piece(self, t: Term, chosen: Mapping[Axis, int]) -> Term:
        """A term in pieces of its axes, made of its arguments in theirs."""
        if isinstance(t, Input):
            return self.input(t, [(a, self.pieces[a][k]) for a, k in chosen.items()])
        if isinstance(t, Index) and t.axis in self.pieces:
            own = self.pieces[t.axis][chosen[t.axis]]
            return Index(own.axis) + own.start if own.start else Index(own.axis)
        if isinstance(t, Extent):
            return Const(float(t.axis.size)) if t.axis in self.pieces else t
        if isinstance(t, View):
            return self.view(t, chosen)
        if isinstance(t, Reduce) and t.axis in self.pieces:
            return self.reduction(t, chosen)
        if isinstance(t, Scan | Gather) and t.axis in self.pieces:
            raise Whole
        args = [self.of(x, chosen) for x in t.args]
        if isinstance(t, Map) and t.op == "where" and (truth := _truth(args[0], self.known)) is not None:
            return args[1 if truth else 2]
        found: Term = t.over(args) if args else t
        return found

    def input(self, t: Input, chosen: Sequence[tuple[Axis, _Piece]]) -> Term:
        """What a piece has of a tensor, and zero beyond."""
        found: Term = t
        for a, own in chosen:
            found = View(found, a, own.at if own.inside is None else own.at % a.size)
        conditions = [own.inside for _, own in chosen if own.inside is not None]
        return reduce(lambda x, c: Map("where", (c, x, Const(0.0))), conditions, found)

    def view(self, t: View, chosen: Mapping[Axis, int]) -> Term:
        """What is read must be in one piece."""
        moved = {a: self.pieces[a][chosen[a]] for a in self.cut(t.index.axes())}
        at = t.index.substitute({a: own.at for a, own in moved.items()})
        if t.axis in self.pieces and t.axis in t.args[0].axes:
            low, high = at.bounds()
            for k, own in enumerate(self.pieces[t.axis]):
                if own.start <= low and high < own.start + own.axis.size:
                    return View(self.of(t.args[0], {**chosen, t.axis: k}), own.axis, at - own.start)
            raise Whole
        if any(own.inside is not None for own in moved.values()):
            raise Whole  # it would be read beyond its end
        return View(self.of(t.args[0], chosen), t.axis, at)

    def reduction(self, t: Reduce, chosen: Mapping[Axis, int]) -> Term:
        """What the reductions of the pieces are together."""
        monoid = MONOIDS[t.monoid]
        if monoid.several is not None:
            raise Whole
        parts: list[Term] = []
        for k, own in enumerate(self.pieces[t.axis]):
            body = self.of(t.args[0], {**chosen, t.axis: k})
            if own.inside is not None and not (monoid.state == "sum" and _zero_beyond(body, own.inside)):
                body = Map("where", (own.inside, body, Const(monoid.identity)))
            parts.append(Reduce(monoid.state, own.axis, body))
        found, *others = parts
        for part in others:
            found = Map(monoid.combine, (found, part))
        return found if monoid.state == t.monoid else found / float(t.axis.size)

    def program(self) -> Program:
        """All of it, with results in parts."""
        parts = {o.name: [*self.parts(o)] for o in self.whole.outputs}
        named = {o.name: o for o in self.whole.outputs}
        outputs, results = [], []
        for r in self.whole.results or [Result(o.name, (o.name,), ((1,) * len(o.layout),)) for o in named.values()]:
            own = [o for name in r.outputs for o in parts[name]]
            outputs += own
            if len(own) > len(r.outputs):
                if len(r.outputs) > 1 or {*r.merges[0]} != {1}:
                    raise Whole
                along = next(d for d, a in enumerate(named[r.outputs[0]].layout) if a is not None and len(self.pieces.get(a, ())) > 1)
                r = Result(r.name, tuple(o.name for o in own), r.merges * len(own), along)
            results.append(r)

        def each(terms: Iterable[Term]) -> tuple[Term, ...]:
            return tuple(x for t in terms if t in self.made for x in self.made[t].values())

        return replace(
            self.whole,
            outputs=tuple(outputs),
            results=tuple(results) if self.whole.results or len(outputs) > len(named) else (),
            sources={x: text for t, text in self.whole.sources.items() for x in each([t])},
            names={n: each(ts) for n, ts in self.whole.names.items()},
            widened=frozenset(each(self.whole.widened)),
        )

    def parts(self, o: Output) -> Iterator[Output]:
        """The outputs for the pieces of one.  What is beyond its end is left out."""
        cut = self.cut(a for a in o.layout if a is not None)
        several = [a for a in cut if len(self.pieces[a]) > 1]
        if len(several) > 1:
            raise Whole
        for k in range(len(self.pieces[several[0]]) if several else 1):
            chosen = {a: k if a in several else 0 for a in cut}
            term, axes = self.of(o.term, chosen), dict[Axis, Axis]()
            for a in cut:
                own = self.pieces[a][chosen[a]]
                axes[a] = own.axis
                if own.inside is not None:
                    axes[a] = self.new(a, a.name, own.size)
                    term = View(term, own.axis, axes[a])
            name = self.whole.unused(f"{o.name}_{k}") if several else o.name
            yield replace(o, name=name, term=term, layout=tuple(a if a is None else axes.get(a, a) for a in o.layout))


def _zero_beyond(t: Term, inside: Term) -> bool:
    """Whether a value is zero where a condition does not hold, whatever tensors have where it does."""
    if isinstance(t, Map) and t.op == "where":
        return t.args[2] == Const(0.0) and (t.args[0] == inside or _zero_beyond(t.args[1], inside))
    if isinstance(t, Map):
        return t.op in ("mul", "add", "neg") and all(_zero_beyond(x, inside) for x in t.args)
    return isinstance(t, Cast) and _zero_beyond(t.args[0], inside)


def _truth(t: Term, known: dict[Term, Interval]) -> bool | None:
    """Whether a condition holds, if the lengths of axes say so."""
    if not isinstance(t, Map):
        return None
    if t.op in ("and", "or", "not"):
        truths = [_truth(x, known) for x in t.args]
        if t.op == "not":
            return None if truths[0] is None else not truths[0]
        decides = t.op == "or"
        return decides if decides in truths else None if None in truths else not decides
    if t.op not in COMPARISONS or any(a.dtype is not None and a.dtype.is_float for a in t.args):
        return None
    a, b = (bounds(x, known) for x in t.args)
    if t.op in ("gt", "ge"):
        a, b = b, a
    if t.op in ("lt", "gt"):
        return True if a.hi < b.lo else False if a.lo >= b.hi else None
    if t.op in ("le", "ge"):
        return True if a.hi <= b.lo else False if a.lo > b.hi else None
    apart = a.hi < b.lo or b.hi < a.lo
    equal = a.lo == a.hi == b.lo == b.hi
    return (apart if t.op == "ne" else not apart) if apart or equal else None
