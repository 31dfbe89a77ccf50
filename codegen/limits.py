"""What generated kernels cannot compute, found before anything is planned.

Kernels compute floating point in float32.  A program in float64 would silently lose digits, so it is refused with its place.
"""

from __future__ import annotations

from ..errors import UnsupportedOpError
from ..ir.program import Program


def check_computable(program: Program) -> None:
    """Raise :class:`~eqfuse.errors.UnsupportedOpError` for float64 anywhere."""
    used = set(program.terms())
    for i in program.inputs:
        if i.dtype.name == "float64" and i in used:
            raise UnsupportedOpError(f"input {i.name!r} is float64; {_FLOAT64}", where=program.name, cure=f"pass {i.name}.float()")
    for t in program.terms():
        where = program.sources.get(t, program.name)
        if t.dtype is not None and t.dtype.name == "float64":
            raise UnsupportedOpError(f"a value is float64; {_FLOAT64}", where=where, cure="compute in float32 (drop .double())")
    for o in program.outputs:
        if o.dtype.name == "float64":
            raise UnsupportedOpError(f"output {o.name!r} is float64; {_FLOAT64}", where=program.name, cure="return float32")


_FLOAT64 = "kernels compute in float32 and would lose its digits"
