"""Functions for writing programs by hand, in index notation.

>>> from eqfuse.ir.build import *
>>> i, j = axes(i=128, j=1024)
>>> x = tensor("x", i, j)
>>> e = exp(x - maximum_over(j, x))
>>> p = program("rows", y=(e / sum_over(j, e), (i, j)))
"""

from __future__ import annotations

from collections.abc import Callable

from . import dtypes
from .dtypes import DType
from .index import Axis, index
from .program import Output, Program
from .terms import Cast, Const, Extent, Gather, Index, Input, Map, Reduce, Scan, Term, View, as_term, postorder

__all__ = [
    "abs_", "axes", "cast", "const", "eq", "erf", "exp", "extent", "gather", "index", "iota", "le", "log", "lt", "maximum",
    "maximum_over", "mean_over", "program", "recip", "rsqrt", "running_maximum", "running_sum", "select", "sigmoid", "sqrt", "square",
    "sum_over", "tanh", "tensor", "view",
]  # fmt: skip


def axes(**sizes: int) -> tuple[Axis, ...]:
    """Axes by name and size."""
    return tuple(Axis(n, s) for n, s in sizes.items())


def tensor(name: str, *layout: Axis | None, dtype: DType = dtypes.float32) -> Input:
    """An input; the axes in the order of its dimensions."""
    return Input(name, layout, dtype)


def program(name: str, **outputs: tuple[Term, tuple[Axis | None, ...]]) -> Program:
    """A program from ``name=(term, layout)`` pairs; inputs are found in the terms, in name order of appearance."""
    outs = tuple(Output(n, t, tuple(lay), t.dtype or dtypes.float32) for n, (t, lay) in outputs.items())
    inputs = tuple(t for t in postorder(*(o.term for o in outs)) if isinstance(t, Input))
    return Program(name, outs, inputs)


def _unary(op: str) -> Callable[[Term | float], Term]:
    def f(x: Term | float) -> Term:
        return Map(op, (as_term(x),))

    f.__name__, f.__doc__ = op, f"Pointwise {op}."
    return f


def _binary(op: str) -> Callable[[Term | float, Term | float], Term]:
    def f(x: Term | float, y: Term | float) -> Term:
        return Map(op, (as_term(x), as_term(y)))

    f.__name__, f.__doc__ = op, f"Pointwise {op}."
    return f


def _reduction(monoid: str) -> Callable[[Axis, Term], Term]:
    def f(axis: Axis, x: Term) -> Term:
        return Reduce(monoid, axis, x)

    f.__name__, f.__doc__ = f"{monoid}_over", f"The {monoid} over one axis."
    return f


def running_sum(axis: Axis, x: Term) -> Term:
    """The sums of all prefixes along an axis."""
    return Scan("sum", axis, x)


def running_maximum(axis: Axis, x: Term) -> Term:
    """The maxima of all prefixes along an axis."""
    return Scan("max", axis, x)


exp, log, recip, sqrt, rsqrt, square, tanh, sigmoid, erf, abs_ = map(
    _unary, ("exp", "log", "recip", "sqrt", "rsqrt", "square", "tanh", "sigmoid", "erf", "abs")
)
maximum, lt, le, eq = map(_binary, ("maximum", "lt", "le", "eq"))
sum_over, maximum_over, mean_over = map(_reduction, ("sum", "max", "mean"))
const, iota, extent, cast, view, gather = Const, Index, Extent, Cast, View, Gather


def select(condition: Term, x: Term | float, y: Term | float) -> Term:
    """``x`` where the condition holds, else ``y``."""
    return Map("where", (condition, as_term(x), as_term(y)))
