# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""Cheaper spellings.

The hardware computes 2^x; e^x is 2^(x * log2 e).  The factor log2 e is folded into constants on demand: ``scal(c, x)`` says that
somebody wants c*x, and the factor sinks through sums and negation until it meets a constant.  It may sink into a sum only if both
terms have a constant that takes it up (``absorbs``): there each is rounded once, as before, but c*x - c*m of exact x and m would
cancel to less than c*(x - m).
"""

from __future__ import annotations

import math

from .language import *

FAMILY, PHASE = "strength", "strength"
LOG2E = NumberLiteral(1.0 / math.log(2.0))


@fact_rule(family=FAMILY, phase=PHASE)
def exponential_to_base_two(t, x):
    """e^x = 2^(x * log2 e)."""
    return [match(t, Map("exp", x))], [equal(t, Map("exp2", x * Const(LOG2E))), scal(LOG2E, x)]


@fact_rule(family=FAMILY, phase=PHASE)
def absorbs_at_constant(t, x, c: Scalar):
    """x*c can take up a constant."""
    return [match(t, x * Const(c))], [absorbs(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def absorbs_below_negation(t, x):
    """So can -x if x can."""
    return [match(t, -x), absorbs(x)], [absorbs(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def absorbs_new_reference(t, r, j: Axis):
    """So can the running value of r if r can: it is rounded where r is."""
    return [match(t, Ref("new", j, r)), absorbs(r)], [absorbs(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def absorbs_old_reference(t, r, j: Axis):
    """So can the value that r had before."""
    return [match(t, Ref("old", j, r)), absorbs(r)], [absorbs(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def scale_sum(t, x, y, c: Scalar):
    """(x + y) * c = x*c + y*c, where x and y are products with constants."""
    return [scal(c, t), match(t, x + y), absorbs(x), absorbs(y)], [equal(t * Const(c), x * Const(c) + y * Const(c)), scal(c, x), scal(c, y)]


@fact_rule(family=FAMILY, phase=PHASE)
def scale_negation(t, x, c: Scalar):
    """-x * c = -(x*c)."""
    return [scal(c, t), match(t, -x)], [equal(t * Const(c), -(x * Const(c))), scal(c, x)]


@fact_rule(family=FAMILY, phase=PHASE)
def scale_scaled(t, x, b: Scalar, c: Scalar):
    """(x * b) * c = x * (b*c) for constants b and c."""
    return [scal(c, t), match(t, x * Const(b))], [equal(t * Const(c), x * Const(b * c))]
