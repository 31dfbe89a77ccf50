"""ATen ops that make values from nothing: constants, positions."""

from __future__ import annotations

from typing import Any

from ..ir.index import IndexExpr, index
from ..ir.terms import Const, Term, as_term, whole_number
from .aten import At, Call, register


# constants and positions -------------------------------------------------------------------------------------------------------------
def _integer_constant(at: At, value: Any) -> IndexExpr | None:
    return index(value) if isinstance(value, int) else None


@register("aten.full.default", integer=lambda at, shape, value, *_: _integer_constant(at, value))
def _full(call: Call, shape: Any, value: float, *_: Any) -> Term:
    return as_term(whole_number(value))


@register("aten.full_like.default", integer=lambda at, x, value, *_: _integer_constant(at, value))
def _full_like(call: Call, x: Any, value: float, *_: Any) -> Term:
    return as_term(whole_number(value))


@register("aten.scalar_tensor.default", integer=lambda at, value, *_: _integer_constant(at, value))
def _scalar(call: Call, value: float, *_: Any) -> Term:
    return as_term(whole_number(value))


@register("aten.zeros.default", "aten.zeros_like.default", integer=lambda at, *_: index(0))
def _zeros(call: Call, *_: Any) -> Term:
    return Const(0.0)


@register("aten.ones.default", "aten.ones_like.default", integer=lambda at, *_: index(1))
def _ones(call: Call, *_: Any) -> Term:
    return Const(1.0)


def _integer_arange(at: At, start: Any, end: Any = None, step: Any = 1, *_: Any) -> IndexExpr | None:
    return at[0] * step + start if isinstance(start, int) and isinstance(step, int) else None


@register("aten.arange.start_step", integer=_integer_arange)
def _arange(call: Call, start: float, end: float, step: float, *_: Any) -> Term:
    position = call.reader.position(call.at[0])
    if step != 1:
        position = position * step
    return position + start if start else position
