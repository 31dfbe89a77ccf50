"""Relations of the examination's own."""

import numpy as np

from eqfuse.rewrites import relation
from eqfuse.rewrites.relations import RELATIONS, forget


def _once(name, *args, **kwargs):
    """A relation, also when this module is read twice."""
    if name in RELATIONS:
        forget(RELATIONS[name])
    return relation(name, *args, **kwargs)


even = _once("exam-even", "T", "x is an even number", claim=lambda x: np.asarray(x, float) % 2 == 0)
fourfold = _once("exam-fourfold", "T", "x is a multiple of 4", claim=lambda x: np.asarray(x, float) % 4 == 0)
at_least_as_large = _once(
    "exam-at-least", "T T", "x is at least y", claim=lambda x, y: ~(np.asarray(x, float) < np.asarray(y, float))
)  # fmt: skip
double = _once("exam-double", "T T", "y is twice x", equation=lambda x, y: (y, x * 2.0))
