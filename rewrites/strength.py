# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""Cheaper spellings.

The hardware computes 2^x; e^x is 2^(x * log2 e).  The factor log2 e is folded into constants on demand: ``wants_multiple(c, x)`` says that
somebody wants c*x, and the factor sinks through negation until it meets a constant.  It does not sink into a sum: the rounding of c*m
is a factor common to every term of o(c*x - c*m), which grows with m, and at scores of a few thousand millions exceeds the range of an
exponential.  c*(x - m) is exactly zero where x is m, and x - m is exact where they are close, so a constant factor comes out of such
differences (elsewhere x - m could overflow where c*x and c*m do not; here that is an exponential of infinity as it should be).
"""

from __future__ import annotations

import math

from .language import *

FAMILY, PHASE = "strength", "strength"
LOG2E = NumberLiteral(1.0 / math.log(2.0))


@fact_rule(family=FAMILY, phase=PHASE)
def exponential_to_base_two(t, x):
    """e^x = 2^(x * log2 e)."""
    return [match(t, Map("exp", x))], [equal(t, Map("exp2", x * Const(LOG2E))), wants_multiple(LOG2E, x)]


@fact_rule(family=FAMILY, phase=PHASE)
def difference_of_multiples(e, t, x, y, o: Op1, c: Scalar):
    """o(x*c - y*c) = o((x - y) * c) for an exponential o."""
    return [match(e, Map(o, t)), turns(o, "add", "mul"), match(t, x * Const(c) + -(y * Const(c)))], [equal(t, (x + -y) * Const(c))]


@fact_rule(family=FAMILY, phase=PHASE)
def scale_negation(t, x, c: Scalar):
    """-x * c = -(x*c)."""
    return [wants_multiple(c, t), match(t, -x)], [equal(t * Const(c), -(x * Const(c))), wants_multiple(c, x)]


@fact_rule(family=FAMILY, phase=PHASE)
def scale_scaled(t, x, b: Scalar, c: Scalar):
    """(x * b) * c = x * (b*c) for constants b and c."""
    return [wants_multiple(c, t), match(t, x * Const(b))], [equal(t * Const(c), x * Const(b * c))]
