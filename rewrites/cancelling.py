# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""What cancels, is normalised, or is decided.

x - x is 0, and exponentials divided by their sum add up to 1, where x is finite: infinities and NaN do not cancel.  No type says that
data are finite, so each of these laws declares it as an assumption (``finite_or``) and asks for the licence ``approx``: ``x != x`` is
how programs ask for NaN, and b - ((a + b) - a) is what an addition lost.  A shift that is common to both sides of a difference is none:
of a row from which its maximum is taken, it leaves the maximum, and then the difference.
"""

from __future__ import annotations

from .language import *

FAMILY, PHASE = "cancelling", "order"
NOTHING_ELSE = NumberLiteral(0.0)  # finite_or(x, 0): finite


@rule(family=FAMILY, phase=PHASE, licence="approx")
def difference_of_itself(x):
    """x - x = 0, for finite x."""
    return x + -x, Const(0.0), finite_or(x, NOTHING_ELSE)


@rule(family=FAMILY, phase=PHASE, licence="approx")
def common_term(f, a, b):
    """(f + a) - (f + b) = a - b, for finite f."""
    return (f + a) + -(f + b), a + -b, finite_or(f, NOTHING_ELSE)


@rule(family=FAMILY, phase=PHASE, licence="approx")
def term_taken_away(f, a, sign: Each[(lambda f, a: (f + a) + -f), (lambda f, a: (a + -f) + f), (lambda f, a: f + -(f + -a))]):
    """(f + a) - f = a, for finite f; so (a - f) + f and f - (f - a)."""
    return sign(f, a), a, finite_or(f, NOTHING_ELSE)


@rule(family=FAMILY, phase=PHASE, licence="approx")
def zero_times(x):
    """x * 0 = 0, for finite x."""
    return x * Const(0.0), Const(0.0), finite_or(x, NOTHING_ELSE)


@rule(family=FAMILY, phase=PHASE, licence="approx")
def ratio_to_itself(x):
    """x / x = 1, for finite x > 0."""
    return x * Map("recip", x), Const(1.0), positive(x), finite_or(x, NOTHING_ELSE)


@rule(family=FAMILY, phase=PHASE, licence="approx")
def common_factor(f, a):
    """(f * a) / f = a, for finite f > 0."""
    return (f * a) * Map("recip", f), a, positive(f), finite_or(f, NOTHING_ELSE)


@fact_rule(family=FAMILY, phase=PHASE, licence="approx")
def exponentials_below_the_largest(s, t, x, m, k: Axis):
    """sum_k exp(x - max_k x) > 0 (it is 1 or more), for finite x."""
    return (
        [match(s, Sum(k, t)), match(t, Map("exp", x + -m)), match(m, Max(k, x)), NonEmpty(k), finite_or(x, NOTHING_ELSE)],
        [positive(s)],
    )


@rule(family=FAMILY, phase=PHASE, licence="approx")
def sum_of_centred(x, k: Axis, g: Each["mean", "sum"]):
    """mean_k (x - mean_k x) = 0, for finite x; so the sum."""
    return Reduce(g, k, x + -Mean(k, x)), Const(0.0), NonEmpty(k), finite_or(x, NOTHING_ELSE)


# decided --------------------------------------------------------------------------------------------------------------------------


@rule(family=FAMILY, phase=PHASE)
def selection_of_itself(x, o: Each["maximum", "minimum"]):
    """max(x, x) = x; so the minimum."""
    return Map(o, x, x), x


@rule(family=FAMILY, phase=PHASE)
def selected_by_sign(x, decided: Each[("maximum", nonneg), ("minimum", nonpos)]):
    """max(x, 0) = x for x >= 0, and min(x, 0) = x for x <= 0."""
    op, sign = decided
    return Map(op, x, Const(0.0)), x, sign(x)


@rule(family=FAMILY, phase=PHASE)
def magnitude_of_nonneg(x):
    """|x| = x for x >= 0."""
    return Map("abs", x), x, nonneg(x)


@rule(family=FAMILY, phase=PHASE)
def decided_choice(x, y, choice: Each[(1.0, lambda x, y: x), (0.0, lambda x, y: y)]):
    """where(1, x, y) = x, and where(0, x, y) = y."""
    number, chosen = choice
    return Where(Const(number), x, y), chosen(x, y)


@rule(family=FAMILY, phase=PHASE, licence="approx")
def compared_with_itself(x, decided: Each[("ge", 1.0), ("le", 1.0), ("eq", 1.0), ("gt", 0.0), ("lt", 0.0), ("ne", 0.0)]):
    """x >= x, and not x > x, for finite x."""
    op, answer = decided
    return Map(op, x, x), Const(answer), finite_or(x, NOTHING_ELSE)


@rule(family=FAMILY, phase=PHASE, licence="approx")
def not_negative(x, decided: Each[("ge", 1.0), ("lt", 0.0)]):
    """x >= 0 is decided for finite x >= 0."""
    op, answer = decided
    return Map(op, x, Const(0.0)), Const(answer), nonneg(x), finite_or(x, NOTHING_ELSE)
