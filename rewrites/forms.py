# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""Forms: families of sums that are closed under a change of reference.

Let V be a space of functions of finite dimension that every shift maps into itself: polynomials, exponentials, and their products.  Then
for f in V, and u = x - r, the sum of f(u) at a new r is a linear form of sums of a basis of V at the old r, so one loop can keep those
sums while r moves.  No rule knows V.  A form is found from below: u + d is 1 u + d 1, and a product of forms is a form.  The basis is what
forms mention: a body that is read (``wants_body``) is given a form of its own, and so on until nothing new is mentioned.

Sines and cosines are such a space, too, but each of the two sums needs the other one, and a loop keeps its states one after the other.
What an addition theorem gives is taken at the end instead, when r is known: sum o(x + r) = h(r) sum g(x) + a m(r) sum k(x).
Where the data are close to each other and far from 0 the two terms cancel, so that is ``approx``.

A product of forms is written in one order, from the left, one ``prime`` operand after the other and what only scales at the end,
so that a monomial is one value and has one accumulator.

*Several references.*  A value may move with more than one.  What moves with r and what moves with s move together with min(r, s),
which is -inf where either of them has seen nothing; a mean has always seen something, and asks for nothing.  Two more values are references
beside reductions: the logarithm of a sum that is at least 1, and a mean with weights, (sum w*y) / (sum w).

*Where nothing has been seen* a loop keeps its state, which is right if what was added is 0 (``zero_where``), and also if it is infinite
or NaN (``lost_where``): so is the sum then, at every reference.
"""

from __future__ import annotations

import math

from .language import *
from .repair import OF_FORMS, stopping

FAMILY, PHASE, ROLL = "forms", "repair", "roll"
LEAST = NumberLiteral(-math.inf)
ALWAYS = Const(1.0)


# references ----------------------------------------------------------------------------------------------------------------------


@fact_rule(family=FAMILY, phase=PHASE)
def least_as_largest(r, s, j: Axis):
    """min_j s = -max_j -s, for a minimum that other values are counted from."""
    return [match(r, Reduce("min", j, s)), needs_repair(r, j)], [equal(r, -Max(j, -s)), needs_repair(Max(j, -s), j)]


@fact_rule(family=FAMILY, phase=PHASE)
def horizon_of_selection(r, s, j: Axis, g: SelectiveMonoid):
    """A maximum is -inf where it has seen nothing."""
    return [match(r, Reduce(g, j, s)), selective(g, LEAST), needs_repair(r, j)], [horizon(r, j)]


@fact_rule(family=FAMILY, phase=PHASE)
def seed_logarithm(t, s, w, r, wn, q, j: Axis):
    """new = old + (new - old), for the logarithm of a sum of at most 1 each that is at least 1 as soon as r has seen something."""
    new, old = Ref("new", j, t), Ref("old", j, t)
    return (
        [
            match(t, Map("log", s)), match(s, Sum(j, w)), at_least_one(s), at_most_one(w), changes_by_factor("run", j, w, r, wn, q),
            needs_repair(t, j),
        ],
        [changes_by_term("run", j, t, r, new, new - old)],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=PHASE)
def seed_weighted_mean(r, s, n, w, y, j: Axis):
    """new = old + (new - old), for a mean with weights w >= 0; where log (sum_j w) is -inf, nothing has been seen."""
    new, old, seen = Ref("new", j, r), Ref("old", j, r), Map("log", n)
    return (
        [match(r, s * Map("recip", n)), match(s, Sum(j, w * y)), match(n, Sum(j, w)), nonneg(w), needs_repair(r, j)],
        [changes_by_term("run", j, r, seen, new, stopping(new - old, new, 0.0)), horizon(seen, j), joint(seen, j)],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def nothing_weighed(r, n, w, j: Axis):
    """Where log (sum_j w) is -inf, w >= 0 is 0."""
    return [horizon(r, j), match(r, Map("log", n)), match(n, Sum(j, w)), nonneg(w), NonEmpty(j)], [zero_where(w, r, ALWAYS)]


@fact_rule(family=FAMILY, phase=PHASE)
def nothing_weighed_moved(x, r, s, xn, q, j: Axis):
    """0 * q = 0."""
    return [zero_where(x, r, ALWAYS), horizon(r, j), changes_by_factor("run", j, x, s, xn, q)], [zero_where(xn, r, ALWAYS)]


# what moves with two references ---------------------------------------------------------------------------------------------------
#
# With r and a mean s it moves with r; with r and s that both may have seen nothing, with the lesser of both.


def unchanged(change, none):
    """The change of a row's own reference."""
    return change


def of_mean(j, s):
    """A mean stands behind another reference, whose loops do not know where it is infinite."""
    return lambda change, none: stopping(change, Ref("new", j, s), none)


TOGETHER = Each[
    lambda j, r, s, p, x, y: (r, unchanged, of_mean(j, s), [match(s, Reduce("mean", j, p)), covers(y, s)], []),
    lambda j, r, s, p, x, y: (s, of_mean(j, r), unchanged, [match(r, Reduce("mean", j, p)), covers(x, r)], []),
    lambda j, r, s, p, x, y: (
        z := Map("minimum", r, s), unchanged, unchanged, [horizon(r, j), horizon(s, j)], [horizon(z, j), joint(z, j), together(r, s)]
    ),
]  # fmt: skip


@fact_rule(family=FAMILY, phase=PHASE, mirrored=False)
def shift_of_two(t, x, y, r, s, p, xn, yn, d, e, j: Axis, both: TOGETHER):
    """(x+d) + (y+e) = (x+y) + (d+e), for x and y with references of their own."""
    z, first, second, needs, gives = both(j, r, s, p, x, y)
    return (
        [
            changes_by_term("run", j, x, r, xn, d), changes_by_term("run", j, y, s, yn, e), distinct(r, s), needs_repair(t, j),
            match(t, x + y), *needs,
        ],
        [changes_by_term("run", j, t, z, xn + yn, first(d, 0.0) + second(e, 0.0)), *gives],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=PHASE, mirrored=False)
def factor_of_two(t, x, y, r, s, p, xn, yn, a, b, j: Axis, both: TOGETHER):
    """(x*a) * (y*b) = (x*y) * (a*b), for x and y with references of their own."""
    z, first, second, needs, gives = both(j, r, s, p, x, y)
    return (
        [
            changes_by_factor("run", j, x, r, xn, a), changes_by_factor("run", j, y, s, yn, b), distinct(r, s), needs_repair(t, j),
            match(t, x * y), *needs,
        ],
        [changes_by_factor("run", j, t, z, xn * yn, first(a, 1.0) * second(b, 1.0)), *gives],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=PHASE, mirrored=False)
def form_of_two(t, x, y, r, s, p, xn, yn, j: Axis, a: Form, b: Form, both: TOGETHER):
    """A product of forms with references of their own is a form."""
    z, _, _, needs, gives = both(j, r, s, p, x, y)
    return (
        [
            changes_by_form(j, x, r, xn, a), changes_by_form(j, y, s, yn, b), prime(y, j), distinct(r, s), needs_repair(t, j),
            match(t, x * y), *needs,
        ],
        [changes_by_form(j, t, z, xn * yn, LinearProduct(a, b)), *gives],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=PHASE)
def form_times_factor_of_two(t, x, y, r, s, p, m, xn, yn, q, j: Axis, a: Form, both: TOGETHER, of: OF_FORMS):
    """A form times a value that changes by a factor, with references of their own, is a form."""
    z, _, _, needs, gives = both(j, r, s, p, x, y)
    more, change = of(j, s, m, y, q)
    return (
        [
            changes_by_form(j, x, r, xn, a), changes_by_factor("run", j, y, s, yn, q), distinct(r, s), needs_repair(t, j),
            match(t, x * y), *needs, *more,
        ],
        [changes_by_form(j, t, z, xn * yn, LinearProduct(a, Along(change, yn))), *gives],
    )  # fmt: skip


# forms ---------------------------------------------------------------------------------------------------------------------------


@fact_rule(family=FAMILY, phase=PHASE)
def bends_by_form(t, r, tn, j: Axis, a: Form):
    """What has a form."""
    return [changes_by_form(j, t, r, tn, a)], [bends(t, j)]


@fact_rule(family=FAMILY, phase=PHASE, mirrored=False)
def from_the_left(t, a, b, x, y, j: Axis):
    """a * (x*y) = (a*x) * y, for forms."""
    return (
        [needs_repair(t, j), match(t, a * b), match(b, x * y), bends(a, j), bends(x, j), bends(y, j)],
        [equal(t, (a * x) * y), needs_repair(a * x, j)],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def scales_last(t, a, e, x, y, r, en, q, j: Axis):
    """(x*e) * y = (x*y) * e, for forms x and y, and an e that changes by a factor."""
    return (
        [needs_repair(t, j), match(t, a * y), match(a, x * e), bends(x, j), bends(y, j), changes_by_factor("run", j, e, r, en, q)],
        [equal(t, (x * y) * e), needs_repair(x * y, j)],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def weighs_last(t, a, e, x, y, j: Axis):
    """(x*e) * y = (x*y) * e, for forms x and y, and an e that needs no loop."""
    return (
        [needs_repair(t, j), match(t, a * y), match(a, x * e), bends(x, j), bends(y, j), streamable(e, j), depends(e, j)],
        [equal(t, (x * y) * e), needs_repair(x * y, j)],
    )


# the basis -----------------------------------------------------------------------------------------------------------------------


@fact_rule(family=FAMILY, phase=ROLL)
def body_is_read(p, b, j: Axis):
    """The sum over b at the old references is read."""
    return [match(p, Pre(j, b))], [wants_body(b, j)]


@fact_rule(family=FAMILY, phase=ROLL, mirrored=False)
def body_of_product(b, x, y, r, s, xn, yn, j: Axis, k: Form, l: Form):  # noqa: E741
    """xn * yn is x * y at the new references, whose form is wanted."""
    return (
        [wants_body(b, j), match(b, xn * yn), changes_by_form(j, x, r, xn, k), changes_by_form(j, y, s, yn, l), prime(y, j)],
        [needs_repair(x * y, j)],
    )


@fact_rule(family=FAMILY, phase=ROLL)
def body_of_scaled(b, x, y, r, s, xn, yn, q, j: Axis, k: Form):
    """The same for a form and what changes by a factor."""
    return (
        [wants_body(b, j), match(b, xn * yn), changes_by_form(j, x, r, xn, k), changes_by_factor("run", j, y, s, yn, q)],
        [needs_repair(x * y, j)],
    )


@fact_rule(family=FAMILY, phase=ROLL)
def body_of_weighed(b, x, y, r, xn, j: Axis, k: Form):
    """The same for a form and what does not change."""
    return [wants_body(b, j), match(b, xn * y), changes_by_form(j, x, r, xn, k), settled(y)], [needs_repair(x * y, j)]


# where nothing has been seen ------------------------------------------------------------------------------------------------------


@fact_rule(family=FAMILY, phase=PHASE)
def lost_as_least(x, r):
    """-inf is infinite."""
    return [least_where(x, r, ALWAYS)], [lost_where(x, r)]


@fact_rule(family=FAMILY, phase=PHASE)
def lost_of_negated(t, x, r):
    """x is infinite where -x is."""
    return [lost_where(t, r), match(t, -x)], [lost_where(x, r)]


@fact_rule(family=FAMILY, phase=PHASE)
def lost_negated(t, x, r):
    """-x is infinite where x is."""
    return [lost_where(x, r), match(t, -x)], [lost_where(t, r)]


@fact_rule(family=FAMILY, phase=PHASE)
def lost_shifted(t, x, b, r):
    """inf + b is infinite or NaN."""
    return [lost_where(x, r), match(t, x + b)], [lost_where(t, r)]


@fact_rule(family=FAMILY, phase=PHASE)
def lost_times(t, x, b, r):
    """inf * b is infinite or NaN."""
    return [lost_where(x, r), match(t, x * b)], [lost_where(t, r)]


@fact_rule(family=FAMILY, phase=ROLL)
def kept_as_zero(x, r):
    """A sum of zeros is zero."""
    return [zero_where(x, r, ALWAYS)], [kept_where(x, r)]


@fact_rule(family=FAMILY, phase=ROLL)
def kept_as_lost(x, r):
    """A sum of infinities is infinite or NaN."""
    return [lost_where(x, r)], [kept_where(x, r)]


@fact_rule(family=FAMILY, phase=ROLL)
def kept_times(t, x, b, r):
    """0 * b = 0, and inf * b is infinite or NaN."""
    return [kept_where(x, r), match(t, x * b)], [kept_where(t, r)]


@fact_rule(family=FAMILY, phase=ROLL)
def kept_chosen(t, c, x, r):
    """where(c, x, 0) is x or 0."""
    return [kept_where(x, r), match(t, Where(c, x, 0.0))], [kept_where(t, r)]


@fact_rule(family=FAMILY, phase=ROLL)
def kept_for_two(x, r, s):
    """min(r, s) is -inf where r or s is."""
    return [together(r, s), kept_where(x, r), kept_where(x, s)], [kept_where(x, Map("minimum", r, s))]


# loops ---------------------------------------------------------------------------------------------------------------------------


@fact_rule(family=FAMILY, phase=ROLL)
def roll_kept_form(e, t, r, tn, j: Axis, l: Form, g: LinearMonoid):  # noqa: E741
    """sum_j t in one loop with the references that it moves with and the accumulators of its linear form."""
    return (
        [match(e, Reduce(g, j, t)), linear(g), changes_by_form(j, t, r, tn, l), distinct(e, r), joint(r, j), kept_where(tn, r)],
        [equal(e, Roll(g, j, tn, Summed(j, tn, l)))],
    )


@fact_rule(family=FAMILY, phase=ROLL)
def roll_lost_form(e, t, r, tn, j: Axis, l: Form, g: LinearMonoid):  # noqa: E741
    """The same with one maximum, where t is infinite as long as that has seen nothing."""
    return (
        [match(e, Reduce(g, j, t)), linear(g), changes_by_form(j, t, r, tn, l), distinct(e, r), horizon(r, j), lost_where(tn, r)],
        [equal(e, Roll(g, j, tn, Summed(j, tn, l)))],
    )


@fact_rule(family=FAMILY, phase=ROLL)
def roll_kept_factor(e, t, r, tn, q, j: Axis, g: LinearMonoid):
    """sum_j t in one loop with the references that it moves with: acc <- acc * q + t(new), for q free of j."""
    return (
        [match(e, Reduce(g, j, t)), linear(g), changes_by_factor("run", j, t, r, tn, q), free(q, j), joint(r, j), kept_where(tn, r)],
        [equal(e, Roll(g, j, tn, Acc() * q))],
    )


# factors beside terms ------------------------------------------------------------------------------------------------------------


@fact_rule(family=FAMILY)
def want_factors_beside_term(t, a, b, j: Axis):
    """A term that is ready after a loop may have a factor that is."""
    return [wants_factor(t, j), match(t, a + b), later(a, j), depends(a, j), streamable(b, j)], [wants_factor(a, j)]


@fact_rule(family=FAMILY, licence="approx")
def late_factor_beside_term(e, t, s, w, a, b, f, x, j: Axis, g: LinearMonoid):
    """sum_j (f*x + b) * w = f * sum_j x*w + sum_j b*w, for an f that is ready after a loop, even if the terms cancel."""
    return (
        [
            match(e, Reduce(g, j, t)), linear(g), match(t, s * w), match(s, a + b), free_factor(a, j, f, x), later(f, j), streamable(b, j),
            depends(x, j), NonEmpty(j),
        ],
        [equal(e, f * Reduce(g, j, x * w) + Reduce(g, j, b * w))],
    )  # fmt: skip


# addition theorems ---------------------------------------------------------------------------------------------------------------

BESIDE = Each[(lambda t, w, j: (t, [])), (lambda t, w, j: (t * w, [depends(w, j)]))]  # a value, or with weights


@fact_rule(family=FAMILY, licence="approx")
def late_term_in_theorem(
    e, t, s, c, w, f, b, a: Scalar, n: Scalar, j: Axis, o: Op1, g: Op1, h: Op1, k: Op1, m: Op1, v: LinearMonoid, beside: BESIDE
):
    """sum_j o(b+f)*w = h(f) * sum_j g(b)*w + a m(f) * sum_j k(b)*w, for a bounded o, and an f free of j that is ready after a loop."""
    body, needs = beside(c, w, j)
    first, second = (beside(Map(x, b), w, j)[0] for x in (g, k))
    return (
        [
            match(e, Reduce(v, j, t)), linear(v), match(t, body), match(c, Map(o, s)), match(s, b + f),
            free(f, j), depends(b, j), later(f, j), adds(o, g, h, k, m, a), saturating(o, n), moderate(b), moderate(f), NonEmpty(j), *needs,
        ],
        [equal(e, Map(h, f) * Reduce(v, j, first) + (Const(a) * Map(m, f)) * Reduce(v, j, second))],
    )  # fmt: skip
