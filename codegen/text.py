"""Small pieces of Triton text: numbers, types, broadcasts, and index expressions split into a scalar base and lane offsets."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..ir.dtypes import DType
from ..ir.index import Axis, FloorDiv, IndexExpr
from ..tiles.program import Dim, Param


def number(value: float, *, whole: bool = False) -> str:
    """A literal in a kernel: an int where integers are computed with, a float otherwise."""
    if math.isinf(value) or math.isnan(value):
        return f'float("{value}")'
    if value == 0 and math.copysign(1.0, value) < 0 and not whole:
        return MINUS_ZERO
    return str(int(value)) if whole else repr(float(value))


# Triton makes a positive zero of every literal that equals zero; this is the sign bit alone
MINUS_ZERO = "tl.cast(-0x80000000, tl.float32, bitcast=True)"


def type_name(dtype: DType) -> str:
    """The Triton spelling of an element type."""
    return {"bool": "tl.int1"}.get(dtype.name, f"tl.{dtype.name}")


def torch_name(dtype: DType) -> str:
    """The torch spelling of an element type."""
    return f"torch.{dtype.name}"


def parameter_type(p: Param) -> str:
    """The type of a parameter as Triton's ahead-of-time compiler spells it."""
    if p.dtype is None:
        return p.kind
    if p.kind == "descriptor":
        return f"tensordesc<{p.dtype.short}{list(p.block)}>"
    return f"*{p.dtype.short}" if p.kind == "pointer" else p.dtype.short


def broadcast(name: str, have: tuple[Dim, ...], want: tuple[Dim, ...]) -> str:
    """A tile expanded to other dims; both are in the same order."""
    if have == want or not have:
        return name
    return f"{name}[{', '.join(':' if d in have else 'None' for d in want)}]"


def product(parts: list[str]) -> str:
    """A product, without factors of one."""
    kept = [p for p in parts if p != "1"]
    return " * ".join(kept) if kept else "1"


def scaled(text: str, coefficient: int) -> str:
    """``coefficient * text``."""
    if coefficient == 1:
        return text
    return f"{text} * {coefficient}" if coefficient >= 0 else f"{text} * ({coefficient})"


def total(parts: list[str]) -> str:
    """A sum; zero if there is nothing to add."""
    return " + ".join(parts) if parts else "0"


def split_index(
    expr: IndexExpr, has_lanes: Callable[[Axis], bool], start: Callable[[Axis], str | None], lanes: Callable[[Axis], str]
) -> tuple[list[str], list[str]]:
    """An index expression as scalar terms (starts of tiles) and lane terms (offsets within tiles).

    An axis stands for ``start + lanes``; linear terms are split, divisions and remainders of lanes are not.
    """
    scalars: list[str] = []
    vectors: list[str] = []
    for atom, c in expr.terms:
        if isinstance(atom, Axis):
            s = start(atom)
            if s is not None:
                scalars.append(scaled(s, c))
            if has_lanes(atom):
                vectors.append(scaled(lanes(atom), c))
            continue
        inner = position(atom.numerator, has_lanes, start, lanes)
        text = f"(({inner}) {'//' if isinstance(atom, FloorDiv) else '%'} {atom.divisor})"
        target = vectors if any(has_lanes(a) for a in atom.numerator.axes()) else scalars
        target.append(scaled(text, c))
    if expr.const:
        scalars.append(str(expr.const))
    return scalars, vectors


def position(expr: IndexExpr, has_lanes: Callable[[Axis], bool], start: Callable[[Axis], str | None], lanes: Callable[[Axis], str]) -> str:
    """An index expression as one sum."""
    scalars, vectors = split_index(expr, has_lanes, start, lanes)
    return total([*scalars, *vectors])


def wrap(words: list[str], width: int) -> list[str]:
    """Words joined by commas, in lines of bounded width."""
    lines: list[str] = []
    for w in words:
        if lines and len(lines[-1]) + 2 + len(w) <= width:
            lines[-1] += ", " + w
        else:
            lines.append(w)
    return lines
