"""What the functions of NVIDIA's device library compute, in numpy: for kernels that are interpreted.

A function is looked up by the symbol that Triton links (``__nv_tanhf``), so it does not matter by which name or module a kernel reaches
it.  Float32 results are computed in float64 and rounded once: the device's are within a few units in the last place of them, those of
the ``fast_`` variants within more.  What has no meaning here (:func:`meaning` is None) is refused by the interpreter.

``x_rn``, ``x_rz``, ``x_rd``, ``x_ru`` round to nearest even, towards zero, down and up.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Function = Callable[..., Any]


def _special(function: Callable[[torch.Tensor], torch.Tensor]) -> Function:
    """A function of torch on arrays."""
    return lambda x: function(torch.from_numpy(np.array(x, np.float64))).numpy()


def _tgamma(x: float) -> float:
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf
    except ValueError:  # a pole: an infinity with the sign of zero, NaN at the negative integers
        return math.copysign(math.inf, x) if x == 0 else math.nan


def _sinpi(x: Any) -> Any:
    """Reduced first, so that the zeros are exact."""
    r = np.fmod(x, 2.0)
    return np.where(np.fmod(r, 1.0) == 0, np.copysign(0.0, x), np.sin(np.pi * r))


def _round(x: Any) -> Any:
    """Halves away from zero."""
    return np.copysign(np.trunc(np.abs(x)) + (np.abs(x) - np.trunc(np.abs(x)) >= 0.5), x)


def _remainder(x: float, y: float) -> float:
    try:
        return math.remainder(x, y)
    except ValueError:  # of an infinity, or by zero
        return math.nan


def _logb(x: Any) -> Any:
    return np.where(x == 0, -np.inf, np.where(np.isinf(x), np.inf, np.frexp(x)[1] - 1.0 + 0 * x))


def _ilogb(x: Any) -> Any:
    lowest, highest = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    return np.where((x == 0) | np.isnan(x), lowest, np.where(np.isinf(x), highest, np.frexp(x)[1] - 1))


def _norm(*parts: Any) -> Any:
    return functools.reduce(np.hypot, parts)


def _unsigned(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def _bits(x: np.ndarray) -> np.ndarray:
    """The binary digits of integers, lowest first, along a new last axis."""
    places = np.arange(8 * x.dtype.itemsize, dtype=np.uint64)
    return (_unsigned(x).astype(np.uint64)[..., None] >> places) & np.uint64(1)


def _clz(x: np.ndarray) -> np.ndarray:
    seen = np.cumsum(_bits(x)[..., ::-1], axis=-1)
    return np.sum(seen == 0, axis=-1)


def _ffs(x: np.ndarray) -> np.ndarray:
    """One more than the place of the lowest one, 0 if there is none."""
    digits = _bits(x)
    return np.where(digits.any(-1), digits.argmax(-1) + 1, 0)


def _brev(x: np.ndarray) -> np.ndarray:
    places = np.arange(8 * x.dtype.itemsize, dtype=np.uint64)
    return np.sum(_bits(x)[..., ::-1] << places, axis=-1, dtype=np.uint64).astype(f"u{x.dtype.itemsize}").view(x.dtype)


def _whole(of: Callable[..., int]) -> Function:
    """A function of Python's integers, which are of any length, wrapped to the type of the first argument."""

    def function(*args: np.ndarray) -> np.ndarray:
        bits = 8 * args[0].dtype.itemsize
        wide = np.vectorize(lambda *a: of(*(int(v) for v in a), bits) % 2**bits, otypes=[np.uint64])(*args)
        return wide.astype(f"u{args[0].dtype.itemsize}").view(args[0].dtype)

    return function


def _signed24(a: int, bits: int = 24) -> int:
    return (a + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


# name of the function, without a suffix for its type -> what it computes, of float64 or of integers
_MEANINGS: dict[str, Function] = {
    # roundings
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint, "nearbyint": np.rint, "round": _round,
    "llrint": np.rint, "llround": _round, "saturate": lambda x: np.where(np.isnan(x), 0.0, np.clip(x, 0.0, 1.0)),
    # arithmetic
    "abs": np.abs, "fabs": np.abs, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt, "rcbrt": lambda x: 1 / np.cbrt(x),
    "fma": lambda x, y, z: x * y + z, "fmod": np.fmod, "remainder": np.vectorize(_remainder, otypes=[np.float64]),
    "fdim": lambda x, y: np.where(x > y, x - y, 0 * (x + y)),
    "hypot": np.hypot, "rhypot": lambda *a: 1 / _norm(*a), "norm3d": _norm, "rnorm3d": lambda *a: 1 / _norm(*a), "norm4d": _norm,
    "rnorm4d": lambda *a: 1 / _norm(*a), "copysign": np.copysign, "nextafter": np.nextafter, "ldexp": np.ldexp, "scalbn": np.ldexp,
    "logb": _logb, "ilogb": _ilogb, "fast_fdivide": np.divide, "fmin": np.fmin, "fmax": np.fmax,
    # questions
    "isnan": np.isnan, "isinf": np.isinf, "finite": np.isfinite, "isfinite": np.isfinite, "signbit": np.signbit,
    # exponentials
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(10.0, x), "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "pow": np.power, "powi": np.power,
    # trigonometry
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "sinpi": _sinpi, "cospi": lambda x: _sinpi(np.abs(np.fmod(x, 2.0)) + 0.5),
    # special functions
    "erf": _special(torch.special.erf), "erfc": _special(torch.special.erfc), "erfcx": _special(torch.special.erfcx),
    "erfinv": _special(torch.special.erfinv), "erfcinv": lambda x: -_special(torch.special.ndtri)(x / 2) / math.sqrt(2),
    "normcdf": _special(torch.special.ndtr), "normcdfinv": _special(torch.special.ndtri),
    "lgamma": _special(torch.special.gammaln), "tgamma": np.vectorize(_tgamma, otypes=[np.float64]),
    "j0": _special(torch.special.bessel_j0), "j1": _special(torch.special.bessel_j1),
    "y0": _special(torch.special.bessel_y0), "y1": _special(torch.special.bessel_y1),
    "cyl_bessel_i0": _special(torch.special.i0), "cyl_bessel_i1": _special(torch.special.i1),
    # bits
    "clz": _clz, "ffs": _ffs, "brev": _brev, "popc": lambda x: np.sum(_bits(x), axis=-1),
    "mulhi": _whole(lambda a, b, bits: (a * b) >> bits), "hadd": _whole(lambda a, b, _: (a + b) >> 1),
    "rhadd": _whole(lambda a, b, _: (a + b + 1) >> 1), "sad": _whole(lambda a, b, c, _: abs(a - b) + c),
    "mul24": _whole(lambda a, b, _: _signed24(a) * _signed24(b)), "umul24": _whole(lambda a, b, _: (a % 2**24) * (b % 2**24)),
    "int_as_float": lambda x: x.view(np.float32), "uint_as_float": lambda x: x.view(np.float32),
    "float_as_int": lambda x: x.view(np.int32), "float_as_uint": lambda x: x.view(np.int32),
    "longlong_as_double": lambda x: x.view(np.float64), "double_as_longlong": lambda x: x.view(np.int64),
    "double2loint": lambda x: x.view(np.uint64).astype(np.uint32).view(np.int32),
    "double2hiint": lambda x: (x.view(np.uint64) >> np.uint64(32)).astype(np.uint32).view(np.int32),
    "hiloint2double": lambda high, low: (_unsigned(high).astype(np.uint64) << np.uint64(32) | _unsigned(low)).view(np.float64),
}  # fmt: skip

_EXACT = {"abs", "llabs", "clz", "ffs", "brev", "popc", "mulhi", "hadd", "rhadd", "sad", "mul24", "umul24", "int_as_float",
          "uint_as_float", "float_as_int", "float_as_uint", "longlong_as_double", "double_as_longlong", "double2loint", "double2hiint",
          "hiloint2double", "nextafter"}  # fmt: skip
"""These are computed in the type of their arguments."""

_DIRECTED: dict[str, Function] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "sqrt": np.sqrt,
                                  "rcp": lambda x: 1 / x, "rsqrt": lambda x: 1 / np.sqrt(x), "fma": lambda x, y, z: x * y + z}  # fmt: skip
_TO_INTEGER = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}
_TO_WHOLE = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}


def meaning(symbol: str) -> Function | None:
    """The function of arrays that ``symbol`` names, None if there is none here.  It expects the types that the library has for it.

    Its result is exact, or rounded to float64 (extended precision where the rounding is part of the function); :func:`call` rounds it
    to the type of the result.
    """
    name = symbol.removeprefix("__nv_")
    for short in (name, name.removesuffix("f"), name.removesuffix("d"), name.removesuffix("ll")):
        for known in (short, short.removeprefix("fast_"), short.removeprefix("u"), short.removeprefix("ll")):
            if known in _MEANINGS:
                return _in(_MEANINGS[known], exact=known in _EXACT)
    if name in ("mul64hi", "umul64hi"):
        return _MEANINGS["mulhi"]
    base, _, rounding = name.rpartition("_")
    if rounding not in _TO_WHOLE:
        return None
    _, two, target = base.partition("2")
    if two:
        return functools.partial(_convert, target, rounding)
    base = base.removesuffix("f") if base == "fmaf" else base
    for known in (base, base[1:]):
        if known in _DIRECTED:
            return functools.partial(_directed, _DIRECTED[known], rounding)
    return None


def call(symbol: str, args: list[np.ndarray], result: np.dtype[Any]) -> np.ndarray | None:
    """The values of the function at ``args``, of type ``result``; None if it has no meaning here."""
    function = meaning(symbol)
    if function is None:
        return None
    found = np.asarray(function(*args))
    if found.dtype.kind == "f" and result.kind in "iu":  # llrint
        return _saturated(found, result.type)
    return found.astype(result)


def _in(function: Function, *, exact: bool) -> Function:
    """In float64 what is of floating point, unless it is exact in its own type."""
    if exact:
        return function
    return lambda *args: function(*(a.astype(np.float64) if a.dtype.kind == "f" else a for a in args))


def _directed(function: Function, rounding: str, *args: np.ndarray) -> np.ndarray:
    """Computed in extended precision, then rounded in the direction asked for."""
    wide = function(*(a.astype(np.longdouble) for a in args))
    return _rounded(wide, args[0].dtype, rounding)


def _rounded(wide: np.ndarray, kind: np.dtype[Any], rounding: str) -> np.ndarray:
    near = wide.astype(kind)
    if rounding == "rn":
        return near
    back = near.astype(np.longdouble)
    down = (back > wide) & ((rounding == "rd") | ((rounding == "rz") & (wide > 0)))
    up = (back < wide) & ((rounding == "ru") | ((rounding == "rz") & (wide < 0)))
    low, high = np.nextafter(near, kind.type(-np.inf)), np.nextafter(near, kind.type(np.inf))
    return np.where(down, low, np.where(up, high, near))


def _convert(target: str, rounding: str, x: np.ndarray) -> np.ndarray:
    if target in _TO_INTEGER:
        return _saturated(_TO_WHOLE[rounding](x), _TO_INTEGER[target])
    return _rounded(x.astype(np.longdouble), np.dtype({"float": np.float32, "double": np.float64}[target]), rounding)


def _saturated(x: np.ndarray, kind: Any) -> np.ndarray:
    """Whole numbers of floating point as integers: the nearest that the type has, 0 for NaN.  Unsigned ones keep their bits only."""
    limits = np.iinfo(kind)
    lowest, highest = (np.longdouble(limits.min), np.longdouble(limits.max))
    held = np.clip(np.where(np.isnan(x), 0, x).astype(np.longdouble), lowest, highest).astype(kind)
    return held.view(f"i{held.dtype.itemsize}")
