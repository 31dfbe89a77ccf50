"""Relations of one's own: meanings that say too little, and rows that do not follow."""

import numpy as np

from eqfuse.rewrites import Axis, Index, Map, Max, NonEmpty, Position, Sum, View, finite, match, relation
from eqfuse.rewrites.relations import RELATIONS, forget

from . import sound, unsound


def _once(name, *args, **kwargs):
    """A relation, also when this module is read twice."""
    if name in RELATIONS:
        forget(RELATIONS[name])
    return relation(name, *args, **kwargs)


def _steps(x, j):
    """Differences of neighbours, 0 where x is constant along j."""
    return np.diff(np.asarray(x, float), axis=j)


even = _once("attack-even", "T", "x is an even number", claim=lambda x: np.asarray(x) % 2 == 0)
whole = _once("attack-whole", "T", "x is a whole number", claim=lambda x: np.isfinite(np.asarray(x, float)) & (np.floor(x) == x))
ascending = _once("attack-ascending", "T i64", "x does not fall along the axis", claim=lambda x, j: ~(_steps(x, j) < 0))
half = _once("attack-half", "T T", "y is half of x", equation=lambda x, y: (y, x * 0.5))
wish = _once("attack-wish", "T", "somebody would like x to be whole", demand=True)
anything = _once("attack-anything", "T", "x is a number of some kind", claim=lambda x: np.ones(np.shape(x), bool))
covers = _once("attack-covers", "T T", "x is at least y", claim=lambda x, y: ~(np.asarray(x, float) < np.asarray(y, float)))


@unsound("relation", "kind: halves of even numbers", "half of 2 is 1", lambda: (True, 2 * 0.5 % 2 == 0))
def half_of_even_is_even(t, x):
    """x/2 is even for even x."""
    return [match(t, x * 0.5), even(x)], [even(t)]


@sound
def double_of_whole_is_even(t, x):
    """2*x is even for whole x."""
    return [match(t, x * 2.0), whole(x)], [even(t)]


@unsound("relation", "kind: multiples of even numbers", "2 * 0.5 is 1", lambda: (True, 2 * 0.5 % 2 == 0))
def multiple_of_even_is_even(t, x, y):
    """x*y is even for even x and finite y."""
    return [match(t, x * y), even(x), finite(y)], [even(t)]


@sound
def multiple_of_even_by_whole_is_even(t, x, y):
    """x*y is even for even x and whole y."""
    return [match(t, x * y), even(x), whole(y)], [even(t)]


@unsound("whole numbers", "kind: floor of a product", "one factor is whole", lambda: (np.floor(3 * 0.5), 3 * 0.5))
def floor_of_product_of_one_whole(x, y):
    """floor(x*y) = x*y for whole x."""
    return Map("floor", x * y), x * y, whole(x)


@sound
def floor_of_product_of_whole(x, y):
    """floor(x*y) = x*y for whole x, y."""
    return Map("floor", x * y), x * y, whole(x), whole(y)


@unsound("relation", "kind: a demand taken for a fact", "a wish says nothing of the number", lambda: (np.floor(0.5), 0.5))
def floor_by_demand(x):
    """floor x = x for x that somebody would like to be whole."""
    return Map("floor", x), x, wish(x)


@unsound("relation", "kind: a meaning that always holds", "every number is of some kind", lambda: (np.floor(0.5), 0.5))
def floor_by_empty_meaning(x):
    """floor x = x for a number of some kind."""
    return Map("floor", x), x, anything(x)


@unsound("relation", "kind: order reversed", "negation turns the order round", lambda: (True, -2.0 >= -1.0))
def negation_of_ascending(t, x, j: Axis):
    """-x does not fall along j if x does not."""
    return [match(t, -x), ascending(x, j), finite(x)], [ascending(t, j)]


@sound
def sum_of_ascending(t, x, y, j: Axis):
    """x + y does not fall along j if neither does, for finite numbers."""
    return [match(t, x + y), ascending(x, j), ascending(y, j), finite(x), finite(y)], [ascending(t, j)]


@unsound("relation", "kind: product of what does not fall", "negative numbers", lambda: (True, -2 * 3.0 <= -1 * 8.0))
def product_of_ascending(t, x, y, j: Axis):
    """x*y does not fall along j if neither does, for finite numbers."""
    return [match(t, x * y), ascending(x, j), ascending(y, j), finite(x), finite(y)], [ascending(t, j)]


@unsound("position", "kind: order after a gather", "the positions may be in any order", lambda: (True, False))
def view_of_ascending(t, x, j: Axis, e: Position):
    """x[j = e] does not fall along j if x does not."""
    return [match(t, View(x, j, e)), ascending(x, j)], [ascending(t, j)]


@sound
def positions_ascend(t, j: Axis):
    """Positions do not fall."""
    return [match(t, Index(j))], [ascending(t, j)]


@unsound("relation", "kind: facts in a row", "half of a half is a quarter", lambda: (8 * 0.5 * 0.5, 8 * 0.5))
def half_of_half(x, y, z):
    """z is half of x, if y is half of x and z of y."""
    return [half(x, y), half(y, z)], [half(x, z)]


@sound
def half_of_double(t, x):
    """x is half of 2*x."""
    return [match(t, x * 2.0)], [half(t, x)]


@unsound("relation", "kind: the columns of a row exchanged", "half is not twice", lambda: (0.5 * 4, 4 / 0.5))
def half_exchanged(x, y):
    """x is half of y, if y is half of x."""
    return [half(x, y)], [half(y, x)]


@unsound("relation", "kind: a bound is no equality", "at least y is not y", lambda: (3.0, 2.0))
def maximum_of_covered(x, y):
    """max(x, y) = y where x is at least y."""
    return Map("maximum", x, y), y, covers(x, y), finite(x), finite(y)


@sound
def maximum_is_what_covers(x, y):
    """max(x, y) = x where x is at least y, for finite numbers."""
    return Map("maximum", x, y), x, covers(x, y), finite(x), finite(y)


@unsound("NaN", "kind: a meaning that NaN obeys", "NaN is not less than anything", lambda: (np.maximum(np.nan, 2.0), 2.0))
def minimum_of_what_is_covered(x, y):
    """min(x, y) = y where x is not less than y, also for NaN."""
    return Map("minimum", x, y), y, covers(x, y)


@sound
def minimum_of_what_is_covered_by_finite(x, y):
    """min(x, y) = y where x is not less than y, for finite x."""
    return Map("minimum", x, y), y, covers(x, y), finite(x)


@unsound("relation", "kind: order of sums", "the larger summand may be taken away", lambda: (True, 3 - 5.0 >= 2 - 1.0))
def covers_difference(t, s, x, y, z, w):
    """x - z is at least y - w if x is at least y and z at least w."""
    return [match(t, x - z), match(s, y - w), covers(x, y), covers(z, w), finite(x), finite(y), finite(z), finite(w)], [covers(t, s)]


@sound
def covers_sum(t, s, x, y, z, w):
    """x + z is at least y + w if x is at least y and z at least w, for finite numbers."""
    return [match(t, x + z), match(s, y + w), covers(x, y), covers(z, w), finite(x), finite(y), finite(z), finite(w)], [covers(t, s)]


@unsound("relation", "kind: the sum covers its terms", "terms may be negative", lambda: (True, 3 - 1.0 >= 3.0))
def sum_covers_terms(t, x, k: Axis):
    """sum_k x is at least x."""
    return [match(t, Sum(k, x)), finite(x)], [covers(t, x)]


@sound
def maximum_covers_terms(t, x, k: Axis):
    """max_k x is at least x."""
    return [match(t, Max(k, x)), finite(x), NonEmpty(k)], [covers(t, x)]


@unsound("axis confused", "kind: a row of a relation for another axis", "what does not fall along j may fall along k", lambda: (True, False))
def ascending_along_another_axis(t, x, j: Axis, k: Axis):
    """x does not fall along k, if it does not along j."""
    return [match(t, x + Index(k)), ascending(x, j)], [ascending(x, k)]
