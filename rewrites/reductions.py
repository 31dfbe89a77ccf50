# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""Reductions.

A linear reduction (sum, mean) lets factors out: sum_k f*x = f * sum_k x for f free of k.  A selective one (max, min) lets terms
out, max_k (f+x) = f + max_k x, and positive factors, but only those that the program itself adds and multiplies last: rounding is
monotone, so both sides round alike, and x - max x stays at 0 or below; of regrouped products that is not true.  A choice between a
product and infinity, as of scores that are masked and of a part that is shorter, rounds like the product.  A reduction of what
does not depend on the axis is known.  A term f that is ready only after everything around it may leave a sum:
sum_k a*(f+b) = f * sum_k a + sum_k a*b, for weights a >= 0.  That last law is asked for only when f needs two loops, and f may not
cancel against b (``separable``): a shift of data by their mean or maximum is never undone.
"""

from __future__ import annotations

import math

from .language import *

FAMILY = "reductions"
SMALLEST = 2.0**-14  # normal number of float16: what is smaller may be 0 there, and 0 * inf is NaN


@fact_rule(family=FAMILY)
def sum_wants_factors(e, t, j: Axis, g: LinearMonoid):
    """A linear reduction asks for the factors of its body."""
    return [match(e, Reduce(g, j, t)), linear(g), depends(t, j)], [wants_factor(t, j)]


@fact_rule(family=FAMILY)
def factor_out(e, t, f, b, j: Axis, g: LinearMonoid):
    """sum_j f*b = f * sum_j b, for f free of j; so for mean."""
    return [match(e, Reduce(g, j, t)), linear(g), free_factor(t, j, f, b), depends(b, j), NonEmpty(j)], [equal(e, f * Reduce(g, j, b))]


@fact_rule(family=FAMILY)
def negation_out(e, t, a, j: Axis, g: LinearMonoid):
    """sum_j -a = -sum_j a; so for mean."""
    return [match(e, Reduce(g, j, t)), linear(g), match(t, -a)], [equal(e, -Reduce(g, j, a))]


@fact_rule(family=FAMILY)
def factor_as_choice(e, t, c, b, j: Axis, d: TypeName, one: Each[(lambda c, d: Cast(d, c)), (lambda c, d: Where(c, 1.0, 0.0))]):
    """sum_j cast(c) * b = sum_j where(c, b, 0), for a truth value c; so for where(c, 1, 0) * b.  Zero times what is not
    finite is zero, as in tiles that a mask leaves out."""
    return (
        [match(e, Sum(j, t)), match(t, one(c, d) * b), truth(c), depends(c, j), finite_or(b, 0.0)],
        [equal(e, Sum(j, Where(c, b, 0.0)))],
    )


@fact_rule(family=FAMILY)
def written_in_a_view(t, x, f, b, o: Op2, j: Axis, e: Position):
    """o(f, b)[j = e] = o(f[j = e], b[j = e])."""
    return [match(t, View(x, j, e)), written(o, x, f, b)], [written(o, t, View(f, j, e), View(b, j, e))]


@fact_rule(family=FAMILY, licence="exact")
def written_in_a_choice(t, h, x, f, b, c: Scalar, z: Each[math.inf, -math.inf], arms: EitherWay):
    """where(h, f*b, -inf) = f * where(h, b, -inf), for a constant f > 0; so for inf."""
    chosen = Where(h, *arms(b, Const(z)))
    return (
        [match(t, Where(h, *arms(x, Const(z)))), written("mul", x, f, b), match(f, Const(c)), at_least(c, SMALLEST)],
        [equal(t, f * chosen), written("mul", t, f, chosen)],
    )


@fact_rule(family=FAMILY)
def term_out_of_selection(e, t, f, b, j: Axis, g: SelectiveMonoid, z: Scalar):
    """max_j (f+b) = f + max_j b, for f free of j; so for min."""
    return [match(e, Reduce(g, j, t)), selective(g, z), written("add", t, f, b), free(f, j), depends(b, j)], [equal(e, f + Reduce(g, j, b))]


@fact_rule(family=FAMILY)
def factor_out_of_selection(e, t, f, b, j: Axis, g: SelectiveMonoid, z: Scalar):
    """max_j f*b = f * max_j b, for f > 0 free of j; so for min."""
    return (
        [match(e, Reduce(g, j, t)), selective(g, z), written("mul", t, f, b), free(f, j), depends(b, j), positive(f)],
        [equal(e, f * Reduce(g, j, b))],
    )


# of integers these two are all that is known: what wraps obeys few laws


@rule(family=FAMILY)
def sum_of_constant(x, j: Axis, g: Each["sum", "isum"]):
    """sum_j x = size(j) * x, for x free of j."""
    return Reduce(g, j, x), Extent(j) * x, free(x, j), NonEmpty(j)


@rule(family=FAMILY, licence="exact")
def selection_of_constant_integer(x, j: Axis, g: Each["imax", "imin"]):
    """max_j x = x, for x free of j; so for min."""
    return Reduce(g, j, x), x, free(x, j), NonEmpty(j)


@rule(family=FAMILY)
def mean_of_constant(x, j: Axis):
    """mean_j x = x, for x free of j."""
    return Reduce("mean", j, x), x, free(x, j), NonEmpty(j)


@fact_rule(family=FAMILY)
def sum_divided_by_extent(e, x, j: Axis):
    """sum_j x / size(j) = mean_j x, whose running value is near x at any time, as that of the divided sum is not."""
    return [match(e, Sum(j, x) / Extent(j)), NonEmpty(j)], [equal(e, Reduce("mean", j, x))]


@rule(family=FAMILY, licence="exact")
def selection_of_constant(x, j: Axis, g: IdempotentMonoid):
    """max_j x = x, for x free of j; so for min."""
    return Reduce(g, j, x), x, idempotent(g), free(x, j), NonEmpty(j)


@fact_rule(family=FAMILY)
def late_term_out_of_sum(e, t, a, s, f, b, j: Axis):
    """sum_j a*(f+b) = f * sum_j a + sum_j a*b, for weights a >= 0, f free of j and ready last, and f + b that does not cancel."""
    return (
        [
            match(e, Sum(j, t)), match(t, a * s), free_term(s, j, f, b), separable(f, b), nonneg(a), depends(a, j),
            latest(f, a, b, j), later(f, j, 2), NonEmpty(j),
        ],
        [equal(e, f * Sum(j, a) + Sum(j, a * b))],
    )  # fmt: skip


def _counted(f, c, j) -> Pattern:
    """f * count, and 0 where nothing is chosen even if f is not finite."""
    count = Sum(j, Where(c, 1.0, 0.0))
    return Where(Map("eq", count, Const(0.0)), 0.0, f * count)


@fact_rule(family=FAMILY)
def late_term_out_of_choice(e, t, c, s, f, b, j: Axis):
    """sum_j where(c, f+b, 0) = f * count + sum_j where(c, b, 0), count = sum_j where(c, 1, 0), under the same conditions."""
    return (
        [
            match(e, Sum(j, t)), match(t, Where(c, s, 0.0)), free_term(s, j, f, b), separable(f, b), depends(c, j),
            latest(f, c, b, j), later(f, j, 2),
        ],
        [equal(e, _counted(f, c, j) + Sum(j, Where(c, b, 0.0)))],
    )  # fmt: skip


@fact_rule(family=FAMILY)
def term_out_of_single_choice(e, t, c, s, f, b, j: Axis):
    """The same where c holds at one place at most: both sides add the same two numbers, so that cancelling does no harm."""
    return (
        [match(e, Sum(j, t)), match(t, Where(c, s, 0.0)), free_term(s, j, f, b), onehot(c, j), later(f, j)],
        [equal(e, _counted(f, c, j) + Sum(j, Where(c, b, 0.0)))],
    )


@fact_rule(family=FAMILY)
def want_terms_of_choice(t, c, x, y, j: Axis):
    """The arm of a choice under a sum may have a part that is free of j."""
    return [wants_factor(t, j), match(t, Where(c, x, y))], [wants_term(x, j)]
