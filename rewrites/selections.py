# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""The largest of a monotone function.

A function that is monotone in b, whatever else is in it, is extreme where b is: max_j o(b) = o(max_j b) for an increasing o, and of what
may be decreasing it is the larger of both ends, max_j f*b = max(f * max_j b, f * min_j b).  Then f may be a statistic that is known after
the loop, and b is what the loop sees.  Over floats these laws are exact, for rounding is monotone too, but for the sign of a zero, for
functions that a library computes, and where f is infinite and a b is 0: NaN as written, infinite at the ends.  They are asked for only
where a selection cannot run in the first loop over its axis.
"""

from __future__ import annotations

from .language import *

FAMILY = "selections"
PICKS = Each[("max", "maximum", "min", "minimum"), ("min", "minimum", "max", "maximum")]  # an end, its op, the other end, its op


@fact_rule(family=FAMILY)
def selection_of_product(e, t, f, b, j: Axis, end: PICKS):
    """max_j f*b = max(f * max_j b, f * min_j b), for f free of j and ready after a loop; so for min."""
    g, op, other, _ = end
    return (
        [match(e, Reduce(g, j, t)), written("mul", t, f, b), free(f, j), depends(b, j), later(f, j), NonEmpty(j)],
        [equal(e, Map(op, f * Reduce(g, j, b), f * Reduce(other, j, b)))],
    )


@fact_rule(family=FAMILY)
def selection_of_negation(e, t, b, j: Axis, end: PICKS):
    """max_j -b = -min_j b; so for min."""
    g, _, other, _ = end
    return [match(e, Reduce(g, j, t)), later(t, j), match(t, -b)], [equal(e, -Reduce(other, j, b))]


@fact_rule(family=FAMILY)
def largest_magnitude(e, t, b, j: Axis):
    """max_j |b| = max(max_j b, -min_j b)."""
    return (
        [match(e, Max(j, t)), later(t, j), match(t, Map("abs", b)), NonEmpty(j)],
        [equal(e, Map("maximum", Max(j, b), -Reduce("min", j, b)))],
    )


@fact_rule(family=FAMILY)
def largest_square(e, t, b, j: Axis, square: Each[(lambda b: b * b), (lambda b: Map("square", b))]):
    """max_j b^2 = (max_j |b|)^2."""
    return [match(e, Max(j, t)), later(t, j), match(t, square(b)), NonEmpty(j)], [equal(e, Map("square", Max(j, Map("abs", b))))]


@fact_rule(family=FAMILY)
def selection_of_selection(e, t, a, b, j: Axis, end: PICKS):
    """max_j max(a, b) = max(max_j a, max_j b); so for min."""
    g, op, _, _ = end
    return [match(e, Reduce(g, j, t)), later(t, j), match(t, Map(op, a, b))], [equal(e, Map(op, Reduce(g, j, a), Reduce(g, j, b)))]


@fact_rule(family=FAMILY)
def selection_of_bounded(e, t, c, b, j: Axis, end: PICKS):
    """max_j min(c, b) = min(c, max_j b), for c free of j; so for min."""
    g, _, _, op = end
    return (
        [match(e, Reduce(g, j, t)), later(t, j), match(t, Map(op, c, b)), free(c, j), depends(b, j), NonEmpty(j)],
        [equal(e, Map(op, c, Reduce(g, j, b)))],
    )


@fact_rule(family=FAMILY)
def selection_of_increasing(e, t, b, j: Axis, o: Op1, g: Each["max", "min"]):
    """max_j o(b) = o(max_j b), for an increasing o; so for min."""
    return [match(e, Reduce(g, j, t)), later(t, j), match(t, Map(o, b)), monotone(o), NonEmpty(j)], [equal(e, Map(o, Reduce(g, j, b)))]
