# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""Layout: reading a value at other positions, and where a layout puts its elements.

``View(x, j, e)`` is x with its axis j read at the index expression e.  A view commutes with everything pointwise, with casts, and
with reductions over other axes (whose axis e does not mention), so views sink to the leaves, where they are index arithmetic in a
load.  Two views compose by substitution: x[j = e1][k = e2] = x[j = e1[k = e2]].  The substitution itself, ``e.at(k, f)``, is done in exact
index arithmetic outside the engine, as is every computed position.

The rules on layouts themselves are those of the Axe paper, where they hold (docs/layouts.md says where not).  D(x) is a list of iters
(extent e, stride s, axis a), the last the fastest; R is a set of copies; O an offset:

    D0, C0   an iter of extent 1 is none                    D1   (e:f·s, f:s) = (e·f:s)
    C1       {e:s} = {e:-s} + (e-1)·s                       C2   {e:s, f:q·s} = {e+q(f-1):s}, for 1 <= q <= e

C2 needs its guard: e steps of s leave no hole only if the next block begins at most e steps on.  Tiles and slices go through the steps of
a layout from the slowest iter to the last; to group is D1 backwards, where somebody wants a boundary (``cut``).
"""

from __future__ import annotations

from ..ir.layout.iters import MEMORY
from .language import *
from .rule import ITERS

FAMILY, PHASE = "layout", "layout"


@rule(family=FAMILY, licence="exact", phase=PHASE)
def view_of_constant(x, j: Axis, e: Position):
    """x[j = e] = x, for x free of j."""
    return View(x, j, e), x, free(x, j)


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def view_in_place(t, x, j: Axis, e: Position):
    """x[j = j] = x."""
    return [match(t, View(x, j, e)), same_index(e, j)], [equal(t, x)]


@rule(family=FAMILY, licence="exact", phase=PHASE)
def view_through_op(x: Arguments, j: Axis, e: Position, o: AnyOp):
    """o(x, y)[j = e] = o(x[j = e], y[j = e])."""
    return View(Map(o, *x), j, e), Map(o, *(View(a, j, e) for a in x))


@rule(family=FAMILY, licence="exact", phase=PHASE)
def view_through_cast(x, j: Axis, e: Position, d: TypeName):
    """cast(x)[j = e] = cast(x[j = e])."""
    return View(Cast(d, x), j, e), Cast(d, View(x, j, e))


@rule(family=FAMILY, licence="exact", phase=PHASE)
def view_through_reduction(x: Arguments, j: Axis, k: Axis, e: Position, g: AnyMonoid):
    """(sum_k x)[j = e] = sum_k x[j = e], where e does not mention k."""
    return View(Reduce(g, k, *x), j, e), Reduce(g, k, *(View(part, j, e) for part in x)), OtherAxis(j, k), IndexFree(e, k)


@rule(family=FAMILY, licence="exact", phase=PHASE)
def view_through_merge(x: TwoStates, j: Axis, e: Position, g: AnyMonoid):
    """A part of two states together, read elsewhere, is that of what both are there."""
    return View(Merge(g, *x), j, e), Merge(g, *(View(part, j, e) for part in x))


@rule(family=FAMILY, licence="exact", phase=PHASE)
def views_compose(x, j: Axis, k: Axis, e: Position, f: Position):
    """x[j = e][k = f] = x[j = h] with h = e[k = f], for x free of k.  A value free of j is its own view: e could be composed for ever."""
    return View(View(x, j, e), k, f), View(x, j, e.at(k, f)), free(x, k), depends(x, j), IndexDepends(e, k)


@rule(family=FAMILY, licence="exact", phase=PHASE)
def views_compose_same_axis(x, j: Axis, e: Position, f: Position):
    """x[j = e][j = f] = x[j = h] with h = e[j = f]."""
    return View(View(x, j, e), j, f), View(x, j, e.at(j, f)), depends(x, j), IndexDepends(e, j)


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def views_undo(t, x, j: Axis, k: Axis, e: Position, f: Position):
    """x[j = e][k = f] = x[k = f], where e[k = f] is j: what is stored in another order and read back through that order is the same value.
    An order of several axes takes a view for each, and is undone one axis after the other: the last is x[k = f] for an x free of k."""
    return [match(t, View(View(x, j, e), k, f)), same_index(e.at(k, f), j), OtherAxis(j, k)], [equal(t, View(x, k, f))]


# iters -----------------------------------------------------------------------------------------------------------------------------

LAWS = {"family": FAMILY, "licence": "exact", "phase": ITERS}
Step, Two = Each(Sharded, Copies), Each(Beside, Tile)  # the rule is said of each


@rule(**LAWS)
def one_step(x: Places, s: Scalar, a: Hardware, step: Step):
    """D0 and C0: an iter of extent 1 is none."""
    return step(1, s, a, x), x


@rule(**LAWS)
def one_walk(x: Places, e: Scalar, f: Scalar, s: Scalar, a: Hardware):
    """D1: (e:f·s, f:s) = (e·f:s)."""
    return Sharded(e, f * s, a, Sharded(f, s, a, x)), Sharded(e * f, s, a, x)


@rule(**LAWS)
def standing(x: Places, e: Scalar, a: Hardware):
    """A stride of 0 is on no axis of its own."""
    return Sharded(e, 0, a, x), Sharded(e, 0, MEMORY, x)


@rule(**LAWS)
def copies_in_place(x: Places, e: Scalar, a: Hardware):
    """C0: copies at a stride of 0 are none."""
    return Copies(e, 0, a, x), x


@rule(**LAWS)
def copies_backwards(x: Places, e: Scalar, s: Scalar, a: Hardware):
    """C1: {e:s} = {e:-s} + (e-1)·s."""
    return Copies(e, s, a, x), Offset((e - 1) * s, a, Copies(e, -s, a, x)), less(s, 0)


@rule(**LAWS)
def copies_absorb(x: Places, e: Scalar, f: Scalar, s: Scalar, t: Scalar, a: Hardware):
    """C2: {e:s, f:q·s} = {e+q(f-1):s}, for 1 <= q <= e."""
    return (
        Copies(e, s, a, Copies(f, t, a, x)), Copies(e + quotient(t, s) * (f - 1), s, a, x),
        divides(s, t), less(0, t), at_most(t, e * s),
    )  # fmt: skip


@rule(**LAWS)
def copies_in_any_order(x: Places, e: Scalar, f: Scalar, s: Scalar, t: Scalar, a: Hardware, b: Hardware):
    """{e:s, f:t} = {f:t, e:s}."""
    return Copies(e, s, a, Copies(f, t, b, x)), Copies(f, t, b, Copies(e, s, a, x))


@rule(**LAWS)
def copies_of_sharded(x: Places, e: Scalar, f: Scalar, s: Scalar, t: Scalar, a: Hardware, b: Hardware):
    """Copies are outside of iters."""
    return Sharded(e, s, a, Copies(f, t, b, x)), Copies(f, t, b, Sharded(e, s, a, x))


@rule(**LAWS)
def no_offset(x: Places, a: Hardware):
    """An offset of 0 is none."""
    return Offset(0, a, x), x


@rule(**LAWS)
def offsets_add(x: Places, u: Scalar, v: Scalar, a: Hardware):
    """(x + v) + u = x + (u+v)."""
    return Offset(u, a, Offset(v, a, x)), Offset(u + v, a, x)


@rule(**LAWS)
def offsets_in_any_order(x: Places, u: Scalar, v: Scalar, a: Hardware, b: Hardware):
    """(x + v@b) + u@a = (x + u@a) + v@b.  On one axis they add up; in other orders there would be more and more of them."""
    return Offset(u, a, Offset(v, b, x)), Offset(v, b, Offset(u, a, x)), OtherName(a, b), based(x, a), based(x, b)


@rule(**LAWS)
def offset_of_step(x: Places, e: Scalar, s: Scalar, u: Scalar, a: Hardware, b: Hardware, step: Step):
    """Offsets are outside of iters and copies."""
    return step(e, s, a, Offset(u, b, x)), Offset(u, b, step(e, s, a, x)), based(x, b)


# what is known of layouts ----------------------------------------------------------------------------------------------------------


@fact_rule(**LAWS)
def elements_of_point(t: Places):
    """One."""
    return [match(t, Point())], [elements(t, 1)]


@fact_rule(**LAWS)
def elements_of_sharded(t: Places, x: Places, e: Scalar, s: Scalar, a: Hardware, n: Scalar):
    """As many as digits of x, for each step."""
    return [match(t, Sharded(e, s, a, x)), elements(x, n)], [elements(t, e * n)]


@fact_rule(**LAWS)
def elements_of_copies(t: Places, x: Places, e: Scalar, s: Scalar, a: Hardware, n: Scalar):
    """Copies are no elements."""
    return [match(t, Copies(e, s, a, x)), elements(x, n)], [elements(t, n)]


@fact_rule(**LAWS)
def elements_of_offset(t: Places, x: Places, u: Scalar, a: Hardware, n: Scalar):
    """Those of x."""
    return [match(t, Offset(u, a, x)), elements(x, n)], [elements(t, n)]


@fact_rule(**LAWS)
def elements_of_two(t: Places, x: Places, y: Places, m: Scalar, n: Scalar, two: Two):
    """Each of x with each of y."""
    return [match(t, two(x, y)), elements(x, m), elements(y, n)], [elements(t, m * n)]


@fact_rule(**LAWS)
def elements_of_slice(t: Places, x: Places, u: Scalar, n: Scalar):
    """As many as are asked for."""
    return [match(t, Slice(u, n, x))], [elements(t, n)]


@fact_rule(**LAWS)
def span_of_point(t: Places, a: Hardware):
    """1 on every axis."""
    return [match(t, Point()), Mentioned(a)], [span(t, a, 1)]


@fact_rule(**LAWS)
def span_along_step(t: Places, x: Places, e: Scalar, s: Scalar, a: Hardware, w: Scalar, step: Step):
    """Digits are independent: |s|·(e-1) more."""
    return [match(t, step(e, s, a, x)), span(x, a, w)], [span(t, a, w + magnitude(s) * (e - 1))]


@fact_rule(**LAWS)
def span_beside_step(t: Places, x: Places, e: Scalar, s: Scalar, a: Hardware, b: Hardware, w: Scalar, step: Step):
    """Other axes do not know of it."""
    return [match(t, step(e, s, a, x)), span(x, b, w), OtherName(a, b)], [span(t, b, w)]


@fact_rule(**LAWS)
def span_of_offset(t: Places, x: Places, u: Scalar, a: Hardware, b: Hardware, w: Scalar):
    """An offset moves all."""
    return [match(t, Offset(u, a, x)), span(x, b, w)], [span(t, b, w)]


@fact_rule(**LAWS)
def origin_of_point(t: Places, a: Hardware):
    """0 on every axis."""
    return [match(t, Point()), Mentioned(a)], [origin(t, a, 0)]


@fact_rule(**LAWS)
def origin_of_sharded(t: Places, x: Places, e: Scalar, s: Scalar, a: Hardware, b: Hardware, o: Scalar):
    """The first digit is 0."""
    return [match(t, Sharded(e, s, a, x)), origin(x, b, o)], [origin(t, b, o)]


@fact_rule(**LAWS)
def origin_along_copies(t: Places, x: Places, e: Scalar, s: Scalar, a: Hardware, o: Scalar):
    """Copies that go backwards have the last of them first."""
    return [match(t, Copies(e, s, a, x)), origin(x, a, o)], [origin(t, a, o + least(0, s * (e - 1)))]


@fact_rule(**LAWS)
def origin_along_offset(t: Places, x: Places, u: Scalar, a: Hardware, o: Scalar):
    """An offset moves it."""
    return [match(t, Offset(u, a, x)), origin(x, a, o)], [origin(t, a, o + u)]


@fact_rule(**LAWS)
def origin_beside_copies(t: Places, x: Places, e: Scalar, s: Scalar, a: Hardware, b: Hardware, o: Scalar):
    """Other axes do not know of copies."""
    return [match(t, Copies(e, s, a, x)), origin(x, b, o), OtherName(a, b)], [origin(t, b, o)]


@fact_rule(**LAWS)
def origin_beside_offset(t: Places, x: Places, u: Scalar, a: Hardware, b: Hardware, o: Scalar):
    """Nor of an offset."""
    return [match(t, Offset(u, a, x)), origin(x, b, o), OtherName(a, b)], [origin(t, b, o)]


# sums, tiles, slices ---------------------------------------------------------------------------------------------------------------


@rule(**LAWS)
def two_of_point(y: Places, two: Two):
    """The point beside y, or tiled by y, is y."""
    return two(Point(), y), y


@rule(**LAWS)
def step_beside(x: Places, y: Places, e: Scalar, s: Scalar, a: Hardware, step: Step):
    """(e:s, x) + y = (e:s, x + y)."""
    return Beside(step(e, s, a, x), y), step(e, s, a, Beside(x, y))


@rule(**LAWS)
def offset_beside(x: Places, y: Places, u: Scalar, a: Hardware):
    """(x + u) beside y."""
    return Beside(Offset(u, a, x), y), Offset(u, a, Beside(x, y)), based(x, a)


@rule(**LAWS)
def step_tiled(x: Places, y: Places, e: Scalar, s: Scalar, a: Hardware, w: Scalar, step: Step):
    """(e:s, x) ⊗ y = (e:s·w, x ⊗ y), for y of span w.  Not for iters that are none: the point has any of them, of ever greater strides."""
    return Tile(step(e, s, a, x), y), step(e, s * w, a, Tile(x, y)), span(y, a, w), less(1, e)


@rule(**LAWS)
def offset_tiled(x: Places, y: Places, u: Scalar, a: Hardware, w: Scalar):
    """(x + u) ⊗ y = (x ⊗ y) + u·w, for y of span w."""
    return Tile(Offset(u, a, x), y), Offset(u * w, a, Tile(x, y)), span(y, a, w), based(x, a)


@rule(**LAWS)
def slice_of_all(x: Places, n: Scalar):
    """All elements of x."""
    return Slice(0, n, x), x, elements(x, n)


@rule(**LAWS)
def slice_of_slice(x: Places, u: Scalar, v: Scalar, m: Scalar, n: Scalar):
    """x[v, v+m)[u, u+n) = x[u+v, u+v+n)."""
    return Slice(u, n, Slice(v, m, x)), Slice(u + v, n, x)


@rule(**LAWS)
def slice_of_steps(x: Places, e: Scalar, s: Scalar, a: Hardware, u: Scalar, n: Scalar, m: Scalar):
    """(e:s, x)[u·m, (u+n)·m) = (n:s, x) + u·s, for x of m elements."""
    whole = Offset(quotient(u, m) * s, a, Sharded(quotient(n, m), s, a, x))
    return Slice(u, n, Sharded(e, s, a, x)), whole, elements(x, m), divides(m, u), divides(m, n)


@rule(**LAWS)
def slice_within_step(x: Places, e: Scalar, s: Scalar, a: Hardware, u: Scalar, n: Scalar, m: Scalar):
    """(e:s, x)[d·m+r, d·m+r+n) = x[r, r+n) + d·s, for x of m elements, r+n <= m."""
    r = remainder(u, m)
    inside = Offset(quotient(u - r, m) * s, a, Slice(r, n, x))
    return Slice(u, n, Sharded(e, s, a, x)), inside, elements(x, m), at_most(r + n, m)


@rule(**LAWS)
def slice_of_copies(x: Places, e: Scalar, s: Scalar, a: Hardware, u: Scalar, n: Scalar):
    """Copies of a slice."""
    return Slice(u, n, Copies(e, s, a, x)), Copies(e, s, a, Slice(u, n, x))


@rule(**LAWS)
def slice_of_offset(x: Places, v: Scalar, a: Hardware, u: Scalar, n: Scalar):
    """A slice that is moved."""
    return Slice(u, n, Offset(v, a, x)), Offset(v, a, Slice(u, n, x)), based(x, a)


# groups ----------------------------------------------------------------------------------------------------------------------------


@rule(**LAWS)
def split_walk(t: Places, x: Places, e: Scalar, s: Scalar, a: Hardware, m: Scalar, n: Scalar):
    """D1 backwards, where a cut at n elements is in the middle of an iter: (q·f:s, x) = (q:f·s, f:s, x), for x of n/f elements."""
    f = quotient(n, m)
    return (
        [match(t, Sharded(e, s, a, x)), cut(t, n), elements(x, m), less(m, n), divides(m, n), divides(f, e), less(f, e)],
        [equal(t, Sharded(quotient(e, f), f * s, a, Sharded(f, s, a, x)))],
    )


@fact_rule(**LAWS)
def cut_further_in(t: Places, x: Places, e: Scalar, s: Scalar, a: Hardware, m: Scalar, n: Scalar):
    """A cut after the slowest iter is one of the others."""
    return [match(t, Sharded(e, s, a, x)), cut(t, n), elements(x, m), less(n, m)], [cut(x, n)]


@fact_rule(**LAWS)
def cut_in_the_last(t: Places, x: Places, y: Places, m: Scalar, n: Scalar):
    """And one after a part is one of the rest."""
    return [match(t, Beside(x, y)), cut(t, n), elements(y, m), less(n, m)], [cut(y, n)]


@rule(**LAWS)
def cut_after_all(t: Places, n: Scalar):
    """Nothing before all of it."""
    return [cut(t, n), elements(t, n)], [equal(t, Beside(Point(), t))]


@rule(**LAWS)
def cut_after_part(t: Places, x: Places, y: Places, z: Places, e: Scalar, s: Scalar, a: Hardware, n: Scalar):
    """(e:s, x + y) = (e:s, x) + y."""
    return [match(t, Sharded(e, s, a, z)), cut(t, n), match(z, Beside(x, y)), elements(y, n)], [equal(t, Beside(Sharded(e, s, a, x), y))]


@rule(**LAWS)
def cut_after_step(t: Places, x: Places, e: Scalar, s: Scalar, a: Hardware, n: Scalar):
    """(e:s, x) = (e:s) + x."""
    return [match(t, Sharded(e, s, a, x)), cut(t, n), elements(x, n)], [equal(t, Beside(Sharded(e, s, a, Point()), x))]
