"""Results that list several dimensions of an output by one (a last reshape): where they may be, and what a device has of them.

Of dimensions that are merged, the outermost may be spread, or devices would not have neighbours.
"""

from __future__ import annotations

import math

from ..errors import UnsupportedOpError
from ..ir.index import Axis
from ..ir.program import Output, Program
from .mesh import PARTIAL, Mesh, Place

Dims = tuple[Axis | None, ...]


def check_results(program: Program) -> None:
    """Raise UnsupportedOpError where a result is several values side by side."""
    for r in program.results:
        if len(r.outputs) > 1:
            raise UnsupportedOpError(
                f"{program.name} returns a concatenation ({r.name}), of which parts may be at different places",
                cure="return its parts, and concatenate them outside",
            )


def groups(program: Program, o: Output) -> tuple[Dims, ...]:
    """The dimensions of an output that each dimension of the result is made of."""
    merges = next((r.merges[0] for r in program.results if o.name in r.outputs), ())
    if sum(merges) != len(o.layout):
        return tuple((a,) for a in o.layout)
    rest = iter(o.layout)
    return tuple(tuple(next(rest) for _ in range(n)) for n in merges)


def outermost(program: Program, o: Output) -> Dims:
    """For each dimension of the result the axis that may be spread."""
    return tuple(next((a for a in dims if a is not None), None) for dims in groups(program, o))


def places(program: Program, o: Output, mesh: Mesh) -> list[Place] | None:
    """Where the result may be; ``None`` for anywhere."""
    able = {a for a in outermost(program, o) if a is not None}
    if able == o.term.axes:
        return None
    return [p for p in mesh.places(able) if PARTIAL not in p]


def merged_shape(program: Program, o: Output, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a result from that of the output, whole or on a device."""
    rest = iter(shape)
    return tuple(math.prod(next(rest) for _ in dims) for dims in groups(program, o))
