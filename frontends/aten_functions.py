"""Pointwise ATen ops that are compositions of a few scalar ops: inverse functions, powers, and what looks at signs and NaN."""

from __future__ import annotations

import math
from typing import Any

from ..errors import UnsupportedOpError
from ..ir.terms import Map, Term, as_term
from .aten_pointwise import is_whole, pointwise

_LARGE = 1e9  # beyond it the square of a number plus one is the square, and that of float32 overflows further on


def _map(op: str, *args: Any) -> Term:
    return Map(op, tuple(as_term(a) for a in args))


def _where(c: Term, x: Any, y: Any) -> Term:
    return _map("where", c, x, y)


def _negative(x: Any) -> Term:
    """Whether the sign is that of a negative number; that of a zero shows in its reciprocal."""
    if is_whole(x):
        return _map("lt", x, 0.0)
    return _map("or", _map("lt", x, 0.0), _map("lt", _map("recip", x), 0.0))


def _signed(size: Term, like: Term) -> Term:
    """An odd function of a number from its values for positive ones; a zero stays what it is."""
    return _where(_map("lt", like, 0.0), -size, _where(_map("eq", like, 0.0), like, size))


# inverse functions ------------------------------------------------------------------------------------------------------------------
@pointwise("aten.asin.default")
def _asin(x: Term) -> Term:
    """The angle whose tangent is x / sqrt(1 - x^2)."""
    return _map("atan", x * _map("rsqrt", (1.0 - x) * (x + 1.0)))


@pointwise("aten.acos.default")
def _acos(x: Term) -> Term:
    """Twice the angle whose tangent is sqrt((1 - x) / (1 + x)), which is small near 1."""
    return _map("atan", _map("sqrt", (1.0 - x) * _map("recip", x + 1.0))) * 2.0


@pointwise("aten.atan2.default")
def _atan2(y: Term, x: Term) -> Term:
    """The angle of a point: that of the quotient that is at most 1, put into its octant."""
    a, b = _map("abs", as_term(x)), _map("abs", as_term(y))
    least, most = _map("minimum", a, b), _map("maximum", a, b)
    ratio = _where(_map("eq", most, 0.0), 0.0, _where(_map("eq", least, math.inf), 1.0, least * _map("recip", most)))
    angle = _map("atan", ratio)
    angle = _where(_map("gt", b, a), math.pi / 2 - angle, angle)
    angle = _where(_negative(x), math.pi - angle, angle)
    return _where(_negative(y), -angle, angle)


@pointwise("aten.asinh.default")
def _asinh(x: Term) -> Term:
    """log(a + sqrt(a^2 + 1)) of the magnitude, without cancellation near zero or overflow far from it."""
    a = _map("abs", x)
    square = _map("square", a)
    near = _map("log1p", a + square * _map("recip", _map("sqrt", square + 1.0) + 1.0))
    return _signed(_where(_map("gt", a, _LARGE), _map("log", a) + math.log(2.0), near), x)


@pointwise("aten.acosh.default")
def _acosh(x: Term) -> Term:
    """log(x + sqrt(x^2 - 1)); NaN of what is less than 1."""
    over = x - 1.0
    near = _map("log1p", over + _map("sqrt", over * (x + 1.0)))
    return _where(_map("lt", x, 1.0), math.nan, _where(_map("gt", x, _LARGE), _map("log", x) + math.log(2.0), near))


@pointwise("aten.atanh.default")
def _atanh(x: Term) -> Term:
    """Half the logarithm of (1 + a) / (1 - a)."""
    a = _map("abs", x)
    return _signed(_map("log1p", a * 2.0 * _map("recip", 1.0 - a)) * 0.5, x)


# powers -----------------------------------------------------------------------------------------------------------------------------
@pointwise("aten.pow.Tensor_Tensor")
def _pow(x: Any, y: Any) -> Term:
    if is_whole(x) and is_whole(y):
        raise UnsupportedOpError("integer powers of integers", cure=".float() first if rounding is welcome")
    return _map("pow", x, y)


@pointwise("aten.ldexp.Tensor")
def _ldexp(x: Any, n: Any) -> Term:
    return as_term(x) * _map("exp2", n)


@pointwise("aten.hypot.default")
def _hypot(x: Any, y: Any) -> Term:
    """The root of the sum of squares, which itself does not overflow: the larger one times sqrt(1 + q^2)."""
    a, b = _map("abs", x), _map("abs", y)
    least, most = _map("minimum", a, b), _map("maximum", a, b)
    size = most * _map("sqrt", _map("square", least * _map("recip", most)) + 1.0)
    infinite = _map("or", _map("eq", a, math.inf), _map("eq", b, math.inf))
    return _where(infinite, math.inf, _where(_map("eq", most, 0.0), 0.0, size))


# signs and NaN ------------------------------------------------------------------------------------------------------------------------
@pointwise("aten.signbit.default")
def _signbit(x: Term) -> Term:
    return _negative(x)


@pointwise("aten.copysign.Tensor", "aten.copysign.Scalar")
def _copysign(x: Any, y: Any) -> Term:
    size = _map("abs", x)
    if isinstance(y, int | float):
        return -size if math.copysign(1.0, y) < 0 else size
    return _where(_negative(y), -size, size)


@pointwise("aten.fmax.default")
def _fmax(x: Term, y: Term) -> Term:
    return _where(_map("ne", x, x), y, _where(_map("ne", y, y), x, _map("maximum", x, y)))


@pointwise("aten.fmin.default")
def _fmin(x: Term, y: Term) -> Term:
    return _where(_map("ne", x, x), y, _where(_map("ne", y, y), x, _map("minimum", x, y)))


@pointwise("aten.angle.default")
def _angle(x: Term) -> Term:
    return _where(_map("lt", x, 0.0), math.pi, _where(_map("ne", x, x), x, 0.0))
