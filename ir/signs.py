"""What the declared range of an op says about signs and finiteness of its results."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from .ops import ScalarOp
from .ranges import ALL, UNIT, Interval

SIGN_TRAITS = {
    "always-nonneg": "an op whose results are never negative",
    "keeps-nonneg": "an op that is not negative where no argument is",
    "keeps-nonpos": "an op that is not positive where no argument is",
    "nonneg-if-one": "a commutative op that is not negative where one argument is not",
    "keeps-positive": "an op that is positive where all arguments are",
    "positive-if-bounded": "an op that is positive where its argument is not infinite",
    "positive-if-one": "a commutative op that is positive where one argument is",
    "keeps-bounded": "an op that is finite where all arguments are",
    "makes-truth": "an op whose results are 0 or 1",
}


@functools.cache
def sign_traits(op: ScalarOp) -> tuple[str, ...]:
    """What the declared range transfer says about signs and finiteness.

    Of a positive or finite value a transfer in floating point cannot say it for all arguments at once (an exponential underflows), so
    narrow intervals are asked, and wide ones must not contradict.  ``eqfuse.op`` tests what follows on values.
    """
    n = op.arity
    nonneg, positive = Interval(0.0, math.inf), Interval(1e-30, 1e30)
    near, wide = Interval(-1.0, 1.0), Interval(-300.0, 300.0)

    def ranges(*args: Interval) -> Interval | None:
        try:
            return op.range(*args)
        except (ArithmeticError, AssertionError, ValueError):
            return None

    def low(*args: Interval) -> float:
        r = ranges(*args)
        return -math.inf if r is None else r.lo

    out: list[str] = []
    if op.name == "where" or n > 2:
        return ()
    if low(*[ALL] * n) >= 0:
        out.append("always-nonneg")
    if low(*[nonneg] * n) >= 0:
        out.append("keeps-nonneg")
    below = ranges(*[Interval(-math.inf, 0.0)] * n)
    if below is not None and below.hi <= 0:
        out.append("keeps-nonpos")
    if low(*[positive] * n) > 0 and low(*[nonneg] * n) >= 0:
        out.append("keeps-positive")
    if n == 2 and op.commutative and low(ALL, nonneg) >= 0:
        out.append("nonneg-if-one")
    if n == 2 and op.commutative and low(ALL, positive) > 0:
        out.append("positive-if-one")
    everywhere, bounded = ranges(*[ALL] * n), [ranges(*[span] * n) for span in (near, wide)]
    if n == 1 and _positive_until_tiny(lambda size: low(Interval(-size, size))):
        out.append("positive-if-bounded")
    if op.domain == "real" and all(r is not None and r.finite for r in bounded):
        out.append("keeps-bounded")
    if op.result == "bool" and everywhere == UNIT:
        out.append("makes-truth")
    return tuple(out)


def _positive_until_tiny(low: Callable[[float], float]) -> bool:
    """Whether the lower bound for arguments up to a size is positive, and reaches zero, if at all, by underflow: tiny before."""
    small, large = 1.0, 1e30
    if low(small) <= 0 or low(large) < 0:
        return False
    if low(large) > 0:
        return True
    while large > small * (1 + 1e-9):
        middle = math.sqrt(small * large)
        small, large = (middle, large) if low(middle) > 0 else (small, middle)
    return low(small) < 1e-200
