"""The samples of integers that a program computes from its inputs: of offsets, from a sample of the lengths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .index import Axis, IndexExpr, index
from .recursion import arguments_first
from .reference import evaluate_terms
from .samples import Sample
from .terms import Cast, Const, Extent, Gather, Index, Input, Map, Reduce, Scan, Term, View, postorder

LARGEST = 1 << 20  # elements of a value that is computed for a sample
EVALUATED = Const | Extent | Index | Map | Cast | View | Gather | Reduce | Scan


def sample_of(t: Term, layout: tuple[Axis, ...], samples: Mapping[str, Sample]) -> Sample | None:
    """The sample of a value, with the dimensions in this order.  ``samples``: of inputs, by name.  ``None`` where the value is made of an
    input without one, or takes too long."""
    if set(layout) != t.axes:
        return None
    if isinstance(t, Input) and t.name in samples:
        return samples[t.name]
    inputs = [x for x in postorder(t) if isinstance(x, Input)]
    if not all(isinstance(x, Input | EVALUATED) for x in postorder(t)) or any(i.name not in samples for i in inputs):
        return None
    t, layout = _thinned(t, layout)
    if _most(t) > LARGEST:
        return None
    (value,) = evaluate_terms((t,), {i.name: samples[i.name].numbers(i.shape) for i in inputs})
    return Sample.of(value.aligned(layout))


def _most(t: Term) -> int:
    """The elements of the largest value that is computed for a value."""
    return max(math.prod([a.size for a in x.axes]) for x in postorder(t) if not isinstance(x, Input))


def _thinned(t: Term, layout: Sequence[Axis]) -> tuple[Term, tuple[Axis, ...]]:
    """A value at equally spaced positions of its longest axes, as many as can be computed."""
    made = list(layout)
    for a in sorted(layout, key=lambda a: -a.size):
        step = min(-(-_most(t) // LARGEST), a.size)
        if step > 1:
            fewer = Axis(f"{a.name}_thinned", -(-a.size // step), a.rank)
            t, made[made.index(a)] = _read_at(t, a, index(fewer) * step), fewer
    return t, tuple(made)


def _read_at(t: Term, a: Axis, at: IndexExpr) -> Term:
    """A value with an axis read at an index, which is read by what it is made of."""
    made: dict[Term, Term] = {}
    for x in arguments_first([t], lambda x: x.args, lambda x: a not in x.axes):
        below = [made.get(y, y) for y in x.args]
        if not x.args or (isinstance(x, Scan) and x.axis == a):
            made[x] = View(x, a, at)
        elif isinstance(x, View):
            made[x] = View(x.args[0] if x.axis == a else below[0], x.axis, x.index.substitute({a: at}))
        elif isinstance(x, Gather):
            made[x] = Gather(x.args[0] if x.axis == a else below[0], x.axis, below[1])
        else:
            made[x] = x.over(below)
    return made.get(t, t)
