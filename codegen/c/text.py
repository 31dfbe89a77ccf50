"""Small pieces of C: numbers, element types, positions of lanes, index expressions.

In printed C a binding ``i`` has the start of its tile in ``s_i``; an axis ``i`` has the number of its lanes that exist in ``n_i``, and
the lane of a loop over it in ``l_i``.  A value ``x`` is ``v_x``.  So no name of a program meets one of C.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ...errors import PlanError
from ...ir.dtypes import DType
from ...ir.index import Axis, FloorDiv, IndexExpr
from ...tiles.names import identifier
from ...tiles.program import Binding, Value

IN_MEMORY = {
    "float16": "eq_f16", "bfloat16": "eq_bf16", "float32": "float", "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t",
    "int32": "int32_t", "int64": "int64_t", "bool": "uint8_t",
}  # fmt: skip
_READ = {"float16": "eq_from_f16({})", "bfloat16": "eq_from_bf16({})", "bool": "({} != 0)"}
_WRITTEN = {"float16": "eq_to_f16({})", "bfloat16": "eq_to_bf16({})", "bool": "({} != 0)"}


def memory_type(dtype: DType) -> str:
    """The type of an element of a buffer."""
    if dtype.name not in IN_MEMORY:
        raise PlanError(f"no C for tensors of {dtype.name}")
    return IN_MEMORY[dtype.name]


def value_type(dtype: DType) -> str:
    """The type of a value: every float is computed in float32, a truth value is a whole number as wide."""
    return "float" if dtype.is_float else "int32_t" if dtype.kind == "bool" else memory_type(dtype)


def read(text: str, dtype: DType) -> str:
    """An element of a buffer as a value."""
    return _READ.get(dtype.name, "{}").format(text)


def written(text: str, dtype: DType) -> str:
    """A value as an element of a buffer."""
    return _WRITTEN.get(dtype.name, "{}").format(text)


def number(value: float, dtype: DType | None = None) -> str:
    """A literal: of an integer type if one is given, else a float."""
    if dtype is not None and not dtype.is_float:
        n = int(dtype.number(value))
        return "INT64_MIN" if n == -(2**63) else "INT32_MIN" if n == -(2**31) else f"INT64_C({n})" if dtype.itemsize == 8 else str(n)
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    text = f"{float(value)!r}f"
    return f"({text})" if text.startswith("-") else text


def variable(value: Value) -> str:
    """A value that is a variable."""
    return f"v_{identifier(value.name)}"


def start(b: Binding) -> str:
    """The start of the tile of a binding."""
    return "0" if b.kind == "resident" else f"s_{identifier(b.name)}"


def lane(axis: Axis) -> str:
    """The variable of a loop over the lanes of an axis."""
    return f"l_{identifier(axis.name)}"


def count(axis: Axis) -> str:
    """How many lanes of an axis exist in the present tile."""
    return f"n_{identifier(axis.name)}"


def total(parts: list[str]) -> str:
    """A sum."""
    return " + ".join(parts) if parts else "0"


def scaled(text: str, factor: str | int) -> str:
    """A product."""
    return text if str(factor) == "1" else f"({text}) * {factor}" if " " in text else f"{text} * {factor}"


def expression(e: IndexExpr, position: Callable[[Axis], str]) -> str:
    """An index expression, given positions on axes.  Numerators are never negative (:class:`~eqfuse.ir.index.FloorDiv`)."""
    parts = []
    for atom, c in e.terms:
        if isinstance(atom, Axis):
            text = position(atom)
        else:
            text = f"(({expression(atom.numerator, position)}) {'/' if isinstance(atom, FloorDiv) else '%'} {atom.divisor})"
        parts.append(scaled(text, c))
    if e.const or not parts:
        parts.append(str(e.const))
    return total(parts)


def positions(bindings: Mapping[Axis, Binding], lanes: Callable[[Axis], bool]) -> Callable[[Axis], str]:
    """Where a lane is on an axis; ``lanes``: the axes of whose lanes there are several."""

    def position(a: Axis) -> str:
        parts = [t for t in (start(bindings[a]),) if t != "0"] + ([lane(a)] if lanes(a) else [])
        return f"({total(parts)})" if len(parts) > 1 else total(parts)

    return position
