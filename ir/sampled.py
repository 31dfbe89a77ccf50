"""The samples of integers that a program computes from its inputs: of offsets, from a sample of the lengths."""

from __future__ import annotations

import math
from collections.abc import Mapping

from .index import Axis
from .reference import evaluate_terms
from .samples import Sample
from .terms import Cast, Const, Extent, Gather, Index, Input, Map, Reduce, Scan, Term, View, postorder

LARGEST = 1 << 22  # elements of a value that is computed for its sample
EVALUATED = Const | Extent | Index | Map | Cast | View | Gather | Reduce | Scan


def sample_of(t: Term, layout: tuple[Axis, ...], samples: Mapping[str, Sample]) -> Sample | None:
    """The sample of a value, with the dimensions in this order.  ``samples``: of inputs, by name.  ``None`` where the value is made of an
    input without one, or takes too long."""
    if set(layout) != t.axes or not samples:
        return None
    if isinstance(t, Input) and t.name in samples:
        return samples[t.name]
    below = postorder(t)
    inputs = [x for x in below if isinstance(x, Input)]
    known = all(isinstance(x, EVALUATED) and math.prod([a.size for a in x.axes]) <= LARGEST for x in below if not isinstance(x, Input))
    if not known or any(i.name not in samples for i in inputs):
        return None
    (value,) = evaluate_terms((t,), {i.name: samples[i.name].numbers(i.shape) for i in inputs})
    return Sample.of(value.aligned(layout))
