"""Pointwise ATen ops, each written as torch's documentation writes it, in the scalar ops of the IR."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..errors import UnsupportedOpError
from ..ir import dtypes
from ..ir.dtypes import DType
from ..ir.index import Axis, IndexExpr
from ..ir.terms import Cast, Const, Map, Reduce, Term, as_term, number_of, whole_number
from .aten import OPS, AtenOp, Call, dims_of, is_inside
from .spec import ir_dtype


def _align(alignment: Any, node: Any, *args: Any) -> Any:
    return alignment.broadcast(*(dims_of(a) for a in args if hasattr(a, "meta")))


def pointwise(*names: str, integer: Callable[..., IndexExpr | None] | None = None, truths: int = 0) -> Callable[[Any], Any]:
    """Declare a pointwise op by a function from terms (and plain numbers) to a term; ``truths`` leading arguments only choose."""

    def add(f: Callable[..., Term]) -> Callable[..., Term]:
        @functools.wraps(f)
        def read(call: Call, *args: Any) -> Term:
            return as_term(f(*map(call.aligned, args[:truths]), *_operands(call, args[truths:])))

        for name in names:
            assert name not in OPS, name
            OPS[name] = AtenOp(_align, read, None, integer)
        return f

    return add


_RANK = {"bool": 0, "int": 1, "float": 2}


def _operands(call: Call, args: Sequence[Any]) -> list[Any]:
    """Tensors as terms, in a type of the kind that torch computes the op in; numbers stay numbers, but for -0.0 beside integers, which is
    a float: integers have one zero.

    Truth values among numbers are 0 and 1 as they are, and so are integers that float32 has, if they are not alone.
    """
    read = [call.aligned(a) if hasattr(a, "meta") else whole_number(a) for a in args]
    tensors = [k for k, a in enumerate(args) if hasattr(a, "meta")]
    kinds = {k: _RANK[ir_dtype(args[k].meta["val"].dtype).kind] for k in tensors}
    wanted = ir_dtype(_computed_in(call, args))
    most = max(kinds.values(), default=0)
    for k, kind in kinds.items():
        if kind == _RANK[wanted.kind] or number_of(read[k]) is not None:
            continue
        if most < _RANK[wanted.kind] or (kind == _RANK["int"] and not call.reader.small(read[k])):
            read[k] = Cast(_holding(wanted, read[k].dtype), read[k])
    floats = any(isinstance(a, Term) and a.dtype is not None and a.dtype.is_float for a in read)
    if floats:
        return read
    return [Cast(dtypes.float32, Const(a)) if isinstance(a, float) and a == 0 and math.copysign(1.0, a) < 0 else a for a in read]


def _computed_in(call: Call, args: Sequence[Any]) -> torch.dtype:
    """The type that torch converts the operands to: that of the result, or for a comparison what they have in common."""
    result: torch.dtype = call.node.meta["val"].dtype
    if result != torch.bool:
        return result
    found: Any = None
    for a in args:
        value = a.meta["val"] if hasattr(a, "meta") else a
        if isinstance(value, torch.Tensor | bool | int | float):
            found = value if found is None else torch.empty((), dtype=torch.result_type(found, value), device="meta")
    return found.dtype if isinstance(found, torch.Tensor) else result


def _holding(wanted: DType, of: DType | None) -> DType:
    """A float type for integers: the one that torch takes if it has all of theirs, else float32."""
    exact = of is not None and wanted.is_float and of.largest * wanted.epsilon <= 2
    return wanted if exact or not wanted.is_float else dtypes.float32


def _map(op: str, *args: Any) -> Term:
    return Map(op, tuple(as_term(a) for a in args))


def _divide(x: Term, y: Any) -> Term:
    if isinstance(y, int | float):
        mean = _mean(x, y)
        return x * Const(1.0 / y if y else math.copysign(math.inf, y)) if mean is None else mean
    return x / y


def _mean(x: Term, n: float) -> Term | None:
    """The mean that a sum of ``n`` numbers is when it is divided by ``n``; ``None`` for what is no such sum.

    ``x.sum(-1) / 768`` is a mean where a row has 768 numbers: what is known of means is then known of it, and at other lengths it is
    another program.  A product of matrices stays a sum, which matrix units have and means have not.
    """
    axes: list[Axis] = []
    while isinstance(x, Reduce) and x.monoid == "sum":
        axes.append(x.axis)
        (x,) = x.args
    product = isinstance(x, Map) and x.op == "mul" and x.args[0].axes != x.args[1].axes
    if not axes or product or not math.prod(a.size for a in axes) == n > 0:
        return None
    for a in reversed(axes):
        x = Reduce("mean", a, x)
    return x


def _truth(x: Any) -> Term:
    """The truth value of a tensor: itself if it is bool, else x != 0."""
    x = as_term(x)
    if (number := number_of(x)) is not None:
        return Const(float(number != 0))
    return x if x.dtype is not None and x.dtype.kind == "bool" else _map("ne", x, 0.0)


for _name, _op in {
    "neg": "neg", "abs": "abs", "exp": "exp", "exp2": "exp2", "log": "log", "log1p": "log1p", "sqrt": "sqrt", "rsqrt": "rsqrt",
    "reciprocal": "recip", "tanh": "tanh", "sigmoid": "sigmoid", "erf": "erf", "sin": "sin", "cos": "cos",
    "sinh": "sinh", "cosh": "cosh", "atan": "atan", "erfc": "erfc", "expm1": "expm1",
}.items():  # fmt: skip
    pointwise(f"aten.{_name}.default")(lambda x, _op=_op: _map(_op, x))

for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    pointwise(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar")(lambda x, y, _op=_name: _map(_op, x, y))


def _connective(op: str, x: Any, y: Any) -> Term:
    """``and`` / ``or``; with a known operand (the ones of a mask under construction) it is the other operand or the known one."""
    x, y = _truth(x), _truth(y)
    for known, other in ((x, y), (y, x)):
        if isinstance(known, Const):
            return other if bool(known.value) == (op == "and") else known
    return _map(op, x, y)


for _name in ("and", "or"):
    pointwise(f"aten.logical_{_name}.default")(lambda x, y, _op=_name: _connective(_op, x, y))


# arithmetic ---------------------------------------------------------------------------------------------------------------------
def _scaled(y: Any, alpha: Any) -> Any:
    return y if alpha == 1 else y * alpha


def _integer_add(x: IndexExpr, y: IndexExpr, alpha: int = 1) -> IndexExpr:
    return x + y * alpha


def _integer_sub(x: IndexExpr, y: IndexExpr, alpha: int = 1) -> IndexExpr:
    return x - y * alpha


def _integer_mul(x: IndexExpr, y: IndexExpr) -> IndexExpr | None:
    if not y.terms:
        return x * y.const
    return None if x.terms else y * x.const


def _integer_floor(x: IndexExpr, y: IndexExpr, rounding: str = "floor") -> IndexExpr | None:
    same = rounding == "floor" or (rounding == "trunc" and x.bounds()[0] >= 0)
    return x // y.const if not y.terms and y.const > 0 and same else None


def _integer_mod(x: IndexExpr, y: IndexExpr) -> IndexExpr | None:
    return x % y.const if not y.terms and y.const > 0 else None


def _integer_fmod(x: IndexExpr, y: IndexExpr) -> IndexExpr | None:
    return _integer_mod(x, y) if x.bounds()[0] >= 0 else None


@pointwise("aten.add.Tensor", "aten.add.Scalar", integer=_integer_add)
def _add(x: Term, y: Any, alpha: Any = 1) -> Term:
    return as_term(x) + _scaled(y, alpha)


@pointwise("aten.sub.Tensor", "aten.sub.Scalar", integer=_integer_sub)
def _sub(x: Term, y: Any, alpha: Any = 1) -> Term:
    return as_term(x) - _scaled(y, alpha)


@pointwise("aten.rsub.Tensor", "aten.rsub.Scalar")
def _rsub(x: Term, y: Any, alpha: Any = 1) -> Term:
    return as_term(y) - _scaled(x, alpha)


def _mul(call: Call, x: Any, y: Any) -> Term:
    x, y = _operands(call, (x, y))
    n = round(1.0 / y) if isinstance(y, float) and 2.0**-63 < y < 1 else 0
    mean = _mean(as_term(x), n) if n and 1.0 / n == y and not call.reader.exact else None
    return as_term(x) * y if mean is None else mean


for _name in ("aten.mul.Tensor", "aten.mul.Scalar"):
    OPS[_name] = AtenOp(_align, _mul, None, _integer_mul)


def _div(call: Call, x: Any, y: Any) -> Term:
    x, y = _operands(call, (x, y))
    return _map("div", x, y) if call.reader.exact else _divide(as_term(x), y)


for _name in ("aten.div.Tensor", "aten.div.Scalar"):
    OPS[_name] = AtenOp(_align, _div)


def is_whole(x: Any) -> bool:
    """Whether an operand is of integers or truth values."""
    return not isinstance(x, float) and (not isinstance(x, Term) or (x.dtype is not None and not x.dtype.is_float))


# whole quotients and remainders: of integers and zero torch raises an error on a CPU, and promises nothing on a GPU; here it is 0
@pointwise("aten.remainder.Scalar", "aten.remainder.Tensor", "aten.remainder.Scalar_Tensor", integer=_integer_mod)
def _remainder(x: Any, y: Any) -> Term:
    return _map("remainder", x, y)


@pointwise("aten.fmod.Scalar", "aten.fmod.Tensor", integer=_integer_fmod)
def _fmod(x: Any, y: Any) -> Term:
    return _map("fmod", x, y)


def _div_mode(call: Call, x: Any, y: Any, rounding: str | None = "floor") -> Term:
    x, y = _operands(call, (x, y))
    if rounding is None:
        return _map("div", x, y) if call.reader.exact else _divide(as_term(x), y)
    if rounding == "floor":
        return _map("floordiv", x, y)
    if is_whole(x) and is_whole(y):
        return _map("floordiv", as_term(x) - _map("fmod", x, y), y)  # nothing is left to round
    return _trunc(_map("div", x, y))


for _name in ("floor_divide.default", "floor_divide.Scalar", "div.Tensor_mode", "div.Scalar_mode"):
    OPS[f"aten.{_name}"] = AtenOp(_align, _div_mode, None, _integer_floor)


@pointwise("aten.maximum.default")
def _maximum(x: Term, y: Term) -> Term:
    return _map("maximum", x, y)


@pointwise("aten.minimum.default")
def _minimum(x: Term, y: Term) -> Term:
    return _map("minimum", x, y)


# rounding: integers are what they are
@pointwise("aten.floor.default")
def _floor(x: Term) -> Term:
    return x if is_whole(x) else _map("floor", x)


@pointwise("aten.ceil.default")
def _ceil(x: Term) -> Term:
    return x if is_whole(x) else -_map("floor", -x)


@pointwise("aten.trunc.default", "aten.fix.default")
def _trunc(x: Term) -> Term:
    return x if is_whole(x) else _map("where", _map("lt", x, 0.0), -_map("floor", -x), _map("floor", x))


@pointwise("aten.frac.default")
def _frac(x: Term) -> Term:
    return x - _trunc(x)


@pointwise("aten.round.default")
def _round(x: Term) -> Term:
    return x if is_whole(x) else _map("round", x)


@pointwise("aten.round.decimals")
def _round_to(x: Term, decimals: int) -> Term:
    """As torch writes it: x times, or divided by, a power of ten, rounded and back."""
    ten = 10.0 ** abs(decimals)
    if is_whole(x) or decimals == 0:
        return _round(x)
    return _map("div", _map("round", x * ten), ten) if decimals > 0 else _map("round", _map("div", x, ten)) * ten


@pointwise("aten.sign.default", "aten.sgn.default")
def _sign(x: Term) -> Term:
    return _map("where", _map("gt", x, 0.0), 1.0, _map("where", _map("lt", x, 0.0), -1.0, 0.0))


MOST_FACTORS = 8  # of a power that is a product: each product rounds, and seven roundings are within 4 units in the last place


def power(x: Term, p: float) -> Term:
    """x ** p for a number p: products or a root where p is a small whole or half number; of integers always products, which are exact."""
    simple = {0: Const(1.0), 1: x, 2: _map("square", x), 0.5: _map("sqrt", x), -0.5: _map("rsqrt", x)}
    if p in simple:
        return simple[p]
    if not float(p).is_integer() or (abs(p) > MOST_FACTORS and not is_whole(x)):
        return _map("pow", x, float(p))
    if p < 0:
        return _map("recip", power(x, -p))
    half = _map("square", power(x, p // 2))
    return half * x if p % 2 else half


@pointwise("aten.pow.Tensor_Scalar")
def _pow(x: Term, p: float) -> Term:
    return power(x, p)


@pointwise("aten.pow.Scalar")
def _pow_of(base: float, x: Term) -> Term:
    if is_whole(x) and is_whole(base):
        return _whole_power_of(int(base), x)
    return _map("exp2", x) if base == 2 else _map("pow", base, x)


def _whole_power_of(base: int, x: Term) -> Term:
    """An integer to the power of integers, as torch has it: of a negative power nothing is left but that of 1 and -1."""
    if abs(base) > 2:
        raise UnsupportedOpError(f"integer powers of {base}", cure="2 ** x, or .float() first if rounding is welcome")
    size = {0: lambda: _map("where", _map("eq", x, 0), 1, 0), 1: lambda: as_term(1), 2: lambda: _map("lshift", 1, x)}[abs(base)]()
    return size if base >= 0 else _map("where", _map("eq", _map("remainder", x, 2), 0), size, -size)


@pointwise("aten.log2.default")
def _log2(x: Term) -> Term:
    return _map("log", x) * (1.0 / math.log(2.0))


@pointwise("aten.log10.default")
def _log10(x: Term) -> Term:
    return _map("log", x) * (1.0 / math.log(10.0))


@pointwise("aten.tan.default")
def _tan(x: Term) -> Term:
    return _map("sin", x) / _map("cos", x)


# activations ----------------------------------------------------------------------------------------------------------------------
@pointwise("aten.leaky_relu.default")
def _leaky_relu(x: Term, slope: float) -> Term:
    return _map("where", _map("gt", x, 0.0), x, x * slope)


@pointwise("aten.elu.default")
def _elu(x: Term, alpha: float, scale: float, input_scale: float) -> Term:
    below = _map("expm1", x * input_scale) * (alpha * scale)
    return _map("where", _map("gt", x, 0.0), _scaled(x, scale), below)


@pointwise("aten.gelu.default")
def _gelu(x: Term, approximate: str) -> Term:
    if approximate == "tanh":  # (tanh(u) + 1) / 2 is sigmoid(2 u), which does not cancel
        return x * _map("sigmoid", (x + power(x, 3) * 0.044715) * (2.0 * math.sqrt(2.0 / math.pi)))
    return x * 0.5 * (_map("erf", x * math.sqrt(0.5)) + 1.0)


@pointwise("aten.silu.default")
def _silu(x: Term) -> Term:
    return x * _map("sigmoid", x)


@pointwise("aten.softplus.default")
def _softplus(x: Term, beta: float, threshold: float) -> Term:
    soft = _map("log1p", _map("exp", _scaled(x, beta)))
    return _map("where", _map("gt", _scaled(x, beta), float(threshold)), x, _divide(soft, beta) if beta != 1 else soft)


def _bounded(op: str, worse: str) -> Callable[[Call, Term, Any], Term]:
    """``maximum`` / ``minimum`` with a bound, or none.

    Where the licence is "exact" and the bound a number, it is a choice: torch keeps the value, and the sign of a zero, at the bound,
    and a maximum of two zeros is one or the other.  A NaN is not worse than a bound, and stays.
    """

    def read(call: Call, x: Term, bound: Any) -> Term:
        if bound is None:
            return x
        if call.reader.exact and isinstance(bound, int | float) and bound == bound:
            return _map("where", _map(worse, x, bound), bound, x)
        return _map(op, x, bound)

    return read


_at_least, _at_most = _bounded("maximum", "lt"), _bounded("minimum", "gt")


def _clamp(call: Call, x: Any, lo: Any = None, hi: Any = None) -> Term:
    x, lo, hi = _operands(call, (x, lo, hi))
    return _at_most(call, _at_least(call, as_term(x), lo), hi)


_BOUNDS: dict[str, Callable[..., Term]] = {
    "relu.default": lambda call, x: _clamp(call, x, 0.0),
    "clamp.default": _clamp,
    "clamp.Tensor": _clamp,
    "hardtanh.default": _clamp,
    "clamp_min.default": _clamp,
    "clamp_min.Tensor": _clamp,
    "clamp_max.default": lambda call, x, hi: _clamp(call, x, None, hi),
    "clamp_max.Tensor": lambda call, x, hi: _clamp(call, x, None, hi),
}
for _name, _read in _BOUNDS.items():
    OPS[f"aten.{_name}"] = AtenOp(_align, _read)


# truth ------------------------------------------------------------------------------------------------------------------------------
@pointwise("aten.logical_not.default")
def _not(x: Term) -> Term:
    return _map("not", _truth(x))


@pointwise("aten.logical_xor.default")
def _xor(x: Term, y: Term) -> Term:
    return _map("ne", _truth(x), _truth(y))


# bits: of truth values logic, of integers arithmetic
def _bitwise(logical: Callable[..., Term], whole: Callable[..., Term]) -> Callable[..., Term]:
    def read(call: Call, *args: Any) -> Term:
        if call.node.meta["val"].dtype == torch.bool:
            return logical(*(call.aligned(a) for a in args))
        return whole(*_operands(call, args))

    return read


for _name in ("and", "or", "xor"):
    _read = _bitwise(
        _xor if _name == "xor" else lambda x, y, _op=_name: _connective(_op, x, y), lambda x, y, _op=f"bit{_name}": _map(_op, x, y)
    )
    for _overload in ("Tensor", "Scalar", "Scalar_Tensor"):
        OPS[f"aten.bitwise_{_name}.{_overload}"] = AtenOp(_align, _read)
OPS["aten.bitwise_not.default"] = AtenOp(_align, _bitwise(_not, lambda x: -x - 1))


def _shift_left(x: Any, n: Any) -> Term:
    """By a number it is a product, which laws of arithmetic know."""
    return as_term(x) * Const(2.0**n) if isinstance(n, int) and 0 <= n < 64 else _map("lshift", x, n)


for _name, _shift in (("left", _shift_left), ("right", lambda x, n: _map("rshift", x, n))):
    pointwise(*(f"aten.bitwise_{_name}_shift.{o}" for o in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")))(_shift)
    pointwise(*(f"aten.__{_name[0]}shift__.{o}" for o in ("Tensor", "Scalar")))(_shift)


@pointwise("aten.isinf.default")
def _isinf(x: Term) -> Term:
    return _map("eq", _map("abs", x), math.inf)


@pointwise("aten.isnan.default")
def _isnan(x: Term) -> Term:
    return _map("ne", x, x)


@pointwise("aten.where.self", truths=1)
def _where(c: Term, x: Term, y: Term) -> Term:
    return _map("where", c, x, y)


@pointwise("aten.copy.default")
def _copy(x: Term, y: Term) -> Term:
    return y


# copies -----------------------------------------------------------------------------------------------------------------------------
def _read_cast(call: Call, x: Any, *_: Any) -> Term:
    after = call.node.meta["val"].dtype
    if isinstance(x, bool | int | float):  # a number that torch has made a tensor of
        return call.aligned(x if after.is_floating_point else bool(x) if after == torch.bool else int(x))
    before, term = x.meta["val"].dtype, call.aligned(x)
    if before == after:
        return term
    if isinstance(term, Const):  # a number has no type yet
        return term if after.is_floating_point else whole_number(int(dtypes.cast(np.asarray(term.value), ir_dtype(after))))
    if before.is_floating_point and after.is_floating_point and (is_inside(call.node, before) or is_inside(call.node, after)):
        return term
    if after == torch.bool:
        return _truth(term)
    return Cast(ir_dtype(after), term)


OPS["aten._to_copy.default"] = AtenOp(_align, _read_cast, None, lambda x, *_: x)
