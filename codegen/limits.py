"""What generated kernels cannot compute, found before anything is planned.

Kernels compute floating point in float32, and reductions of integers in float32 too.  A program in float64, or an integer reduction
whose result may not be a float32 exactly, would silently lose digits, so it is refused with its place.
"""

from __future__ import annotations

import math

from ..errors import UnsupportedOpError
from ..ir.program import Program
from ..ir.terms import Cast, Const, Extent, Index, Input, Map, Reduce, Term

EXACT = 2.0**24  # float32 represents every integer up to this magnitude


def check_computable(program: Program) -> None:
    """Raise :class:`~eqfuse.errors.UnsupportedOpError` for float64 anywhere and for integer reductions that float32 may round."""
    used = set(program.terms())
    for i in program.inputs:
        if i.dtype.name == "float64" and i in used:
            raise UnsupportedOpError(f"input {i.name!r} is float64; {_FLOAT64}", where=program.name, cure=f"pass {i.name}.float()")
    sizes: dict[Term, float] = {}
    for t in program.terms():
        where = program.sources.get(t, program.name)
        if t.dtype is not None and t.dtype.name == "float64":
            raise UnsupportedOpError(f"a value is float64; {_FLOAT64}", where=where, cure="compute in float32 (drop .double())")
        sizes[t] = _magnitude(t, sizes)
        if isinstance(t, Reduce) and t.dtype is not None and t.dtype.kind == "int" and sizes[t] > EXACT:
            raise UnsupportedOpError(
                f"the {t.monoid} of {t.dtype.name} values over {t.axis.size} elements; kernels reduce in float32, which is exact up "
                "to 2**24 only",
                where=where,
                cure="convert with .float() first if rounding is welcome, or keep it outside the optimised function",
            )
    for o in program.outputs:
        if o.dtype.name == "float64":
            raise UnsupportedOpError(f"output {o.name!r} is float64; {_FLOAT64}", where=program.name, cure="return float32")


_FLOAT64 = "kernels compute in float32 and would lose its digits"


def _magnitude(t: Term, known: dict[Term, float]) -> float:
    """A bound of the absolute value of an integer or truth value; infinity where nothing is known."""
    args = [known[a] for a in t.args]
    if isinstance(t, Input):
        return t.dtype.largest if not t.dtype.is_float else math.inf
    if isinstance(t, Const):
        return abs(t.value)
    if isinstance(t, Index | Extent):
        return float(t.axis.size)
    if t.dtype is not None and t.dtype.kind == "bool":
        return 1.0
    if isinstance(t, Cast):
        return args[0] if t.args[0].dtype is not None and not t.args[0].dtype.is_float else math.inf
    if isinstance(t, Reduce):
        return args[0] * t.axis.size if t.monoid == "sum" else args[0]
    if isinstance(t, Map):
        if t.op in ("add", "mul"):
            return math.fsum(args) if t.op == "add" else math.prod(args)
        return max(args[-2:]) if t.op in ("where", "maximum", "minimum", "neg", "abs") else math.inf
    return args[0]  # a view
