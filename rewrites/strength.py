# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""Cheaper spellings.

The hardware computes 2^x; e^x is 2^(x * log2 e).  The factor log2 e is folded into constants on demand: ``scal(c, x)`` says that
somebody wants c*x, and the factor sinks through sums and negation until it meets a constant.
"""

from __future__ import annotations

import math

from .facts import equal, match, scal
from .patterns import Const, Map, NumberLiteral
from .rule import Scalar, fact_rule

FAMILY, PHASE = "strength", "strength"
LOG2E = NumberLiteral(1.0 / math.log(2.0))


@fact_rule(family=FAMILY, phase=PHASE)
def exponential_to_base_two(t, x):
    """e^x = 2^(x * log2 e)."""
    return [match(t, Map("exp", x))], [equal(t, Map("exp2", x * Const(LOG2E))), scal(LOG2E, x)]


@fact_rule(family=FAMILY, phase=PHASE)
def scale_sum(t, x, y, c: Scalar):
    """(x + y) * c = x*c + y*c."""
    return [scal(c, t), match(t, x + y)], [equal(t * Const(c), x * Const(c) + y * Const(c)), scal(c, x), scal(c, y)]


@fact_rule(family=FAMILY, phase=PHASE)
def scale_negation(t, x, c: Scalar):
    """-x * c = -(x*c)."""
    return [scal(c, t), match(t, -x)], [equal(t * Const(c), -(x * Const(c))), scal(c, x)]


@fact_rule(family=FAMILY, phase=PHASE)
def scale_scaled(t, x, b: Scalar, c: Scalar):
    """(x * b) * c = x * (b*c) for constants b and c."""
    return [scal(c, t), match(t, x * Const(b))], [equal(t * Const(c), x * Const(b * c))]
