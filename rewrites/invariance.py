# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""Reference invariance.

Let o turn sums into products and increase (an exponential).  For any m that is free of j:  o(f + x) = o(x - m) * o(m + f).  Here x can be
streamed over j and f is free of j but ready only after several loops over it, so the right side moves everything late out of a
sum over j.  The choice m = max_j x, or 0 where that is -inf, keeps o(x - m) at most o(0).  Where f and
x are never positive they need no reference at all.
"""

from __future__ import annotations

import math

from .language import *


@fact_rule(family="invariance", phase="invariance")
def reference_invariance(t, a, f, x, j: Axis, o: Turns["add", "mul"]):
    """o(f + x) = o(x - m) * o(m + f) with m = max_j x (0 where that is -inf), for f free of j and x finite or -inf."""
    m = Max(j, x)
    safe = Where(Map("eq", m, Const(-math.inf)), 0.0, m)
    return (
        [
            wants_factor(t, j), match(t, Map(o, a)), turns(o, "add", "mul"), increasing(o), free_term(a, j, f, x), later(f, j, 2),
            streamable(x, j), depends(x, j), finite_or(x, NumberLiteral(-math.inf)),
        ],
        [equal(t, Map(o, x - safe) * Map(o, safe + f))],
    )  # fmt: skip


@fact_rule(family="invariance", phase="invariance")
def own_reference(t, a, x, m, u, rest, j: Axis, o: Turns["add", "mul"]):
    """o(x - u) = o(x - m) * o(m - u), for u = max(m, rest) and m = max_j x (0 in its first place where that is -inf), x finite or -inf.

    Of several ranges side by side, or a row and an element beside it, each counts from its own maximum; neither factor exceeds o(0).
    """
    safe = Where(Map("eq", m, Const(-math.inf)), 0.0, m)
    return (
        [
            wants_factor(t, j), match(t, Map(o, a)), turns(o, "add", "mul"), increasing(o), free_term(a, j, -u, x),
            operand("maximum", u, m, rest), match(m, Max(j, x)), streamable(x, j), depends(x, j), NonEmpty(j),
            finite_or(x, NumberLiteral(-math.inf)),
        ],
        [equal(t, Map(o, x - safe) * Map(o, m - u))],
    )  # fmt: skip


@fact_rule(family="invariance", phase="invariance")
def exponential_of_late_term(t, a, f, x, j: Axis, o: Turns["add", "mul"]):
    """o(f + x) = o(f) * o(x), for f free of j, and f, x <= 0: neither factor exceeds 1."""
    return (
        [
            wants_factor(t, j), match(t, Map(o, a)), turns(o, "add", "mul"), increasing(o), free_term(a, j, f, x), nonpos(f), nonpos(x),
            later(f, j, 2), latest(f, x, x, j), depends(x, j),
        ],
        [equal(t, Map(o, f) * Map(o, x))],
    )  # fmt: skip
