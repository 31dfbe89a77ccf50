"""The scalar operations.  Each is declared once: meaning, spelling, types, range and algebra.

Everything else in EqFuse is generic over this table.  Rules ask for *traits* ("turns sums into products"), never for names; the
reference, the tile simulator and the rule checks run ``numpy``; a printer formats its ``spellings``; range analysis calls ``range``;
the cost model reads ``cost``.  To add an operation, add one entry here; one of a user's own is declared with ``eqfuse.op``, which tests
it before it calls :func:`register`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import dtypes, helpers, ranges
from .dtypes import TF32, Numbers
from .ranges import ALL, INF, UNIT, Interval


@dataclass(frozen=True)
class Spelling:
    """An operation in a language that kernels are printed in: a format string over its arguments (all floats are float32 there), and the
    source of helpers that it calls.  ``exact``: how it is written for floats where every operation is to be rounded once, if otherwise."""

    text: str
    helpers: str = ""
    exact: str = ""


def triton(text: str, helpers: str = "", exact: str = "", *, c: str = "") -> Mapping[str, Spelling]:
    """The spelling of an operation in Triton; and in C, if it has one, where it may call the functions of ``codegen/c/functions.h``."""
    found = {"triton": Spelling(text, helpers, exact)}
    return found | {"c": Spelling(c)} if c else found


@dataclass(frozen=True)
class ScalarOp:
    """A scalar operation.

    ``spellings``: language -> how kernels are printed in it.
    ``turns`` holds homomorphisms: ``("add", "mul")`` says f(x+y) = f(x)*f(y); they hold where every value is in ``domain``.
    ``addition`` is an addition theorem: (g, h, k, l, a) says f(x+y) = g(x) h(y) + a k(x) l(y).
    ``keeps_zero`` says f(0, ..., 0) = 0, ``jumps`` that f is not continuous in its numbers.  ``cost`` is float32 instructions per element, ``special`` special-function ones.
    """

    name: str
    arity: int
    numpy: Callable[..., np.ndarray]
    spellings: Mapping[str, Spelling] = field(hash=False)
    range: Callable[..., Interval]
    result: str = "float"  # "float": float even for ints; "same": the promoted type; "int": the same, of integers only; "bool"
    turns: tuple[tuple[str, str], ...] = ()
    domain: str = "real"  # where it is finite and the homomorphisms hold: real | nonneg | positive | nonzero | whole
    increasing: bool = False
    commutative: bool = False
    associative: bool = False
    keeps_zero: bool = False
    jumps: bool = False
    cost: float = 1.0
    special: float = 0.0
    infix: str | None = None  # how a term prints
    doc: str = ""
    where: str = "ir/ops.py"  # file:line of the declaration
    selects: bool = False  # gives one of its arguments, or that with the other sign, and rounds nothing
    holds: Numbers | None = None  # gives its argument, which a matrix unit may round to one of these numbers
    addition: tuple[str, str, str, str, float] | None = None

    def __repr__(self) -> str:
        return f"op({self.name!r})"


OPS: dict[str, ScalarOp] = {}


def register(op: ScalarOp) -> ScalarOp:
    """Add an operation to the table; names are unique."""
    if op.name in OPS:
        raise ValueError(f"op {op.name!r} is already registered")
    OPS[op.name] = op
    return op


def unregister(name: str) -> None:
    """Remove an operation that was registered later; programs that use it lose their meaning.  For tests."""
    assert name not in BUILT_IN, f"op {name!r} is built in"
    del OPS[name]


def op(name: str) -> ScalarOp:
    """Look an operation up by name."""
    return OPS[name]


def apply(name: str, *args: np.ndarray) -> np.ndarray:
    """An operation on numbers as :mod:`.reference` keeps them: float64, or int64 for integers and truth values."""
    return applied(OPS[name], *args)


def applied(spec: ScalarOp, *args: np.ndarray) -> np.ndarray:
    """The same for any operation.

    It is one on integers if some argument is an array of them and no other one has a fraction: numbers without a type, which are arrays
    of no dimension, take that of what stands beside them.
    """
    arrays = [np.asarray(a) for a in args]
    values = arrays[1:] if spec.name == "where" else arrays
    whole = spec.result != "float" and any(a.dtype.kind in "iub" for a in values) and all(
        a.dtype.kind in "iub" or (a.size == 1 and np.isfinite(a).all() and bool((a == np.rint(a)).all())) for a in values
    )  # fmt: skip
    kind = np.dtype(np.int64) if whole else next((a.dtype for a in values if a.dtype.kind == "f"), np.dtype(np.float64))
    others = [a if a.dtype == kind else dtypes.cast(a, dtypes.int64) if whole else a.astype(kind) for a in values]
    arrays = [*arrays[: len(arrays) - len(others)], *others]
    with np.errstate(all="ignore"):
        found = np.asarray(spec.numpy(*arrays))
    return found.astype(np.int64) if found.dtype.kind in "iub" else found


def _quiet(f: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """Numpy without warnings: overflow and NaN are ordinary values here."""

    def run(*args: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return f(*args)

    return run


def _erf(x: np.ndarray, f: Callable[[float], float] = math.erf) -> np.ndarray:
    return np.vectorize(f, otypes=[np.asarray(x).dtype if np.asarray(x).dtype.kind == "f" else float])(x)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def _even(f: Callable[[float], float]) -> Callable[[Interval], Interval]:
    """Range of an even function that grows with |x|."""

    def transfer(a: Interval) -> Interval:
        low = 0.0 if a.lo <= 0 <= a.hi else min(abs(a.lo), abs(a.hi))
        return Interval(f(low), f(a.magnitude))

    return transfer


def _hull(*xs: Interval) -> Interval:
    return Interval(min(x.lo for x in xs), max(x.hi for x in xs))


def _maximum(a: Interval, b: Interval) -> Interval:
    return Interval(max(a.lo, b.lo), max(a.hi, b.hi))


def _minimum(a: Interval, b: Interval) -> Interval:
    return Interval(min(a.lo, b.lo), min(a.hi, b.hi))


def _bool(*_: Interval) -> Interval:
    return UNIT


def _half_to_even(x: float) -> float:
    return float(np.rint(x))


def _square(x: float) -> float:
    return x * x if abs(x) < 1e154 else INF


def _sinh(x: float) -> float:
    return math.copysign(INF, x) if abs(x) > 710.0 else math.sinh(x)


def _expm1(x: float) -> float:
    return INF if x > 709.0 else math.expm1(x)


def _cosh(x: float) -> float:
    return INF if abs(x) > 710.0 else math.cosh(x)


def _pow_range(a: Interval, b: Interval) -> Interval:
    """x^y is monotone in x for every y, and in y for every x >= 0, so that its extremes are at corners."""
    if a.lo < 0:
        return ALL
    with np.errstate(all="ignore"):
        ends = [float(np.power(abs(x), y)) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]  # abs: the sign of a zero is not tracked
    return Interval(min(ends), max(ends))


def _rsqrt_range(a: Interval) -> Interval:
    if a.lo < 0:
        return ALL
    return Interval(0.0 if a.hi == INF else (a.hi**-0.5 if a.hi > 0 else INF), a.lo**-0.5 if a.lo > 0 else INF)


def of_integers(f: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """A function of integers on arrays of any numbers: NaN of what is none."""

    def run(*args: np.ndarray) -> np.ndarray:
        arrays = [np.asarray(a) for a in args]
        if all(a.dtype.kind in "iu" for a in arrays):
            return np.asarray(f(*arrays))
        with np.errstate(all="ignore"):
            whole = [(np.abs(a) < 2.0**63) & (a == np.rint(a)) for a in arrays]
            found = np.asarray(f(*(np.where(ok, a, 0).astype(np.int64) for ok, a in zip(whole, arrays, strict=True))))
            return np.where(np.logical_and.reduce(np.broadcast_arrays(*whole)), found.astype(np.float64), np.nan)

    return run


def _shifted_left(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    inside = (n >= 0) & (n < 64)
    return np.where(inside, np.left_shift(x, np.where(inside, n, 0)), 0)


def _shifted_right(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    return np.right_shift(x, np.where((n >= 0) & (n < 64), n, 63))


def _shift_range(a: Interval, n: Interval) -> Interval:
    """x * 2^n, or 0 where n is out of range."""
    if n.lo < 0 or n.hi >= 64:
        return ALL
    return _hull(ranges.mul(a, Interval(2.0**n.lo, 2.0**n.hi)), Interval(0.0, 0.0))


def _right_range(a: Interval, n: Interval) -> Interval:
    """x rounded down, between x and 0 or -1."""
    if n.lo == n.hi and 0 <= n.lo < 64 and a.finite:
        return Interval(float(math.floor(a.lo / 2.0**n.lo)), float(math.floor(a.hi / 2.0**n.lo)))
    return Interval(min(a.lo, 0.0) if a.lo >= 0 else min(a.lo, -1.0), max(a.hi, 0.0) if a.hi >= 0 else -1.0)


def _bits(a: Interval) -> float:
    """The least power of two above every magnitude; ~x has the magnitude of x less one."""
    size = max(a.hi, -a.lo - 1)
    return 2.0 ** int(size).bit_length() if 0 <= size < 2.0**62 else 1.0 if size < 0 else INF


def _and_range(a: Interval, b: Interval) -> Interval:
    if a.lo >= 0 or b.lo >= 0:
        return Interval(0.0, min(x.hi for x in (a, b) if x.lo >= 0))
    return _or_range(a, b)


def _or_range(a: Interval, b: Interval) -> Interval:
    size = max(_bits(a), _bits(b))
    return Interval(0.0 if a.lo >= 0 and b.lo >= 0 else -size, max(size - 1, 0.0))


def _fmod_range(a: Interval, b: Interval) -> Interval:
    """A remainder with the sign of the first argument is no larger than either."""
    size = min(a.magnitude, b.magnitude)
    return Interval(-size if a.lo < 0 else 0.0, size if a.hi > 0 else 0.0) if math.isfinite(size) else ALL


def _remainder_range(a: Interval, b: Interval) -> Interval:
    """A remainder with the sign of the second argument is no larger than that; of an infinite one it may be infinite."""
    return Interval(min(b.lo, 0.0), max(b.hi, 0.0))


def _floordiv_range(a: Interval, b: Interval) -> Interval:
    """The quotient, rounded down."""
    if not a.finite or b.lo <= 0 <= b.hi:
        return ALL
    q = ranges.mul(a, ranges.recip(b))
    return Interval(float(math.floor(q.lo)) - 1.0 if math.isfinite(q.lo) else q.lo, q.hi + 1.0)


for _op in (
    # Triton approximates quotients and roots to a few units in the last place, and makes 0 - x of -x, whose zeros are positive
    # arithmetic -----------------------------------------------------------------------------------------------------------
    ScalarOp("add", 2, _quiet(np.add), triton("{} + {}", c="{} + {}"), ranges.add, "same", commutative=True, associative=True, keeps_zero=True, infix="+"),
    ScalarOp("mul", 2, _quiet(np.multiply), triton("{} * {}", c="{} * {}"), ranges.mul, "same", commutative=True, associative=True, keeps_zero=True, infix="*"),
    ScalarOp("neg", 1, _quiet(np.negative), triton("-{}", exact="{} * -1.0", c="-{}"), ranges.neg, "same", turns=(("add", "add"),), keeps_zero=True, cost=0.25, selects=True),
    ScalarOp("recip", 1, _quiet(lambda x: 1.0 / x), triton("1.0 / {}", exact="tl.div_rn(1.0, {})", c="1.0f / {}"), ranges.recip, turns=(("mul", "mul"),), domain="nonzero", cost=4.0, special=1.0),
    ScalarOp("maximum", 2, _quiet(np.maximum), triton("_maximum({}, {})", helpers.MAXIMUM, c="eq_max({}, {})"), _maximum, "same", commutative=True, associative=True, keeps_zero=True, selects=True),
    ScalarOp("minimum", 2, _quiet(np.minimum), triton("_minimum({}, {})", helpers.MINIMUM, c="eq_min({}, {})"), _minimum, "same", commutative=True, associative=True, keeps_zero=True, selects=True),
    ScalarOp("square", 1, _quiet(np.square), triton("{0} * {0}", c="{0} * {0}"), _even(_square), "same", turns=(("mul", "mul"),), keeps_zero=True),
    ScalarOp("abs", 1, _quiet(np.abs), triton("tl.abs({})", c="eq_abs({})"), _even(abs), "same", turns=(("mul", "mul"),), keeps_zero=True, cost=0.25, selects=True),
    # exponentials ---------------------------------------------------------------------------------------------------------
    ScalarOp("exp", 1, _quiet(np.exp), triton("tl.exp({})", c="eq_exp({})"), ranges.increasing(math.exp, 0.0), turns=(("add", "mul"),), increasing=True, cost=2.0, special=1.0),
    ScalarOp("exp2", 1, _quiet(np.exp2), triton("tl.exp2({})", c="eq_exp2({})"), ranges.increasing(lambda x: 2.0**x, 0.0), turns=(("add", "mul"),), increasing=True, cost=1.0, special=1.0),
    ScalarOp("expm1", 1, _quiet(np.expm1), triton("_expm1({})", helpers.EXPM1, c="eq_expm1({})"), ranges.increasing(_expm1, -1.0), increasing=True, keeps_zero=True, cost=12.0, special=1.0),
    ScalarOp("log", 1, _quiet(np.log), triton("tl.log({})", c="eq_log({})"), ranges.increasing(math.log), turns=(("mul", "add"),), domain="positive", increasing=True, cost=3.0, special=1.0),
    ScalarOp("log1p", 1, _quiet(np.log1p), triton("_log1p({})", helpers.LOG1P, c="eq_log1p({})"), ranges.increasing(math.log1p), domain="nonneg", increasing=True, keeps_zero=True, cost=10.0, special=2.0),
    # powers ---------------------------------------------------------------------------------------------------------------
    ScalarOp("sqrt", 1, _quiet(np.sqrt), triton("tl.sqrt({})", exact="tl.sqrt_rn({})", c="sqrtf({})"), ranges.increasing(math.sqrt), turns=(("mul", "mul"),), domain="nonneg", increasing=True, keeps_zero=True, cost=4.0, special=1.0),
    ScalarOp("rsqrt", 1, _quiet(lambda x: 1.0 / np.sqrt(x)), triton("tl.rsqrt({})", c="1.0f / sqrtf({})"), _rsqrt_range, turns=(("mul", "mul"),), domain="positive", cost=3.0, special=1.0),
    ScalarOp("pow", 2, _quiet(np.power), triton("_pow({}, {})", helpers.POW, c="eq_pow({}, {})"), _pow_range, domain="positive", cost=40.0, special=2.0),
    # saturating -----------------------------------------------------------------------------------------------------------
    ScalarOp("tanh", 1, _quiet(np.tanh), triton("_tanh({})", helpers.TANH, c="eq_tanh({})"), ranges.increasing(math.tanh, -1.0, 1.0), increasing=True, keeps_zero=True, cost=16.0, special=2.0),
    ScalarOp("sigmoid", 1, _quiet(_sigmoid), triton("1.0 / (1.0 + tl.exp(-{}))", c="eq_sigmoid({})"), lambda a: UNIT, increasing=True, cost=7.0, special=2.0),
    ScalarOp("erf", 1, _quiet(_erf), triton("tl.erf({})", c="eq_erf({})"), ranges.increasing(math.erf, -1.0, 1.0), increasing=True, keeps_zero=True, cost=16.0, special=1.0),
    ScalarOp("erfc", 1, _quiet(lambda x: _erf(x, math.erfc)), triton("_erfc({})", helpers.ERFC, c="erfcf({})"), lambda a: Interval(0.0, math.erfc(a.lo)), cost=24.0, special=2.0),
    ScalarOp("sin", 1, _quiet(np.sin), triton("tl.sin({})", c="sinf({})"), lambda a: Interval(-1.0, 1.0), keeps_zero=True, cost=12.0, special=1.0, addition=("sin", "cos", "cos", "sin", 1.0)),
    ScalarOp("cos", 1, _quiet(np.cos), triton("tl.cos({})", c="cosf({})"), lambda a: Interval(-1.0, 1.0), cost=12.0, special=1.0, addition=("cos", "cos", "sin", "sin", -1.0)),
    ScalarOp("sinh", 1, _quiet(np.sinh), triton("_sinh({})", helpers.SINH, c="sinhf({})"), ranges.increasing(_sinh), increasing=True, keeps_zero=True, cost=16.0, special=2.0),
    ScalarOp("cosh", 1, _quiet(np.cosh), triton("_cosh({})", helpers.COSH, c="coshf({})"), _even(_cosh), cost=8.0, special=2.0),
    ScalarOp("atan", 1, _quiet(np.arctan), triton("_atan({})", helpers.ATAN, c="atanf({})"), ranges.increasing(math.atan, -math.pi / 2, math.pi / 2), increasing=True, keeps_zero=True, cost=30.0, special=2.0),
    ScalarOp("floor", 1, _quiet(np.floor), triton("tl.floor({})", c="floorf({})"), ranges.increasing(math.floor), increasing=True, keeps_zero=True, jumps=True),
    ScalarOp("round", 1, _quiet(np.rint), triton("_round({})", helpers.ROUND, c="nearbyintf({})"), ranges.increasing(_half_to_even), increasing=True, keeps_zero=True, jumps=True, cost=6.0),
    # whole quotients and remainders -----------------------------------------------------------------------------------------
    ScalarOp("floordiv", 2, _quiet(np.floor_divide), triton("_floordiv({}, {})", helpers.FLOORDIV, c="eq_floordiv({}, {})"), _floordiv_range, "same", domain="nonzero", jumps=True, cost=20.0, special=1.0),
    ScalarOp("remainder", 2, _quiet(np.remainder), triton("_remainder({}, {})", helpers.REMAINDER, c="eq_remainder({}, {})"), _remainder_range, "same", domain="nonzero", jumps=True, cost=20.0, special=1.0),
    ScalarOp("fmod", 2, _quiet(np.fmod), triton("_fmod({}, {})", helpers.FMOD, c="eq_fmod({}, {})"), _fmod_range, "same", domain="nonzero", jumps=True, cost=20.0, special=1.0),
    # bits of integers -------------------------------------------------------------------------------------------------------
    ScalarOp("bitand", 2, of_integers(np.bitwise_and), triton("{} & {}", c="{} & {}"), _and_range, "int", domain="whole", commutative=True, associative=True, keeps_zero=True),
    ScalarOp("bitor", 2, of_integers(np.bitwise_or), triton("{} | {}", c="{} | {}"), _or_range, "int", domain="whole", commutative=True, associative=True, keeps_zero=True),
    ScalarOp("bitxor", 2, of_integers(np.bitwise_xor), triton("{} ^ {}", c="{} ^ {}"), _or_range, "int", domain="whole", commutative=True, associative=True, keeps_zero=True),
    ScalarOp("lshift", 2, of_integers(_shifted_left), triton("_lshift({}, {})", helpers.LSHIFT, c="eq_lshift({}, {})"), _shift_range, "int", domain="whole", keeps_zero=True, cost=3.0),
    ScalarOp("rshift", 2, of_integers(_shifted_right), triton("_rshift({}, {})", helpers.RSHIFT, c="eq_rshift({}, {})"), _right_range, "int", domain="whole", keeps_zero=True, cost=3.0),
    # comparison and choice ------------------------------------------------------------------------------------------------
    ScalarOp("lt", 2, _quiet(np.less), triton("{} < {}", c="{} < {}"), _bool, "bool", jumps=True, infix="<"),
    ScalarOp("le", 2, _quiet(np.less_equal), triton("{} <= {}", c="{} <= {}"), _bool, "bool", jumps=True, infix="<="),
    ScalarOp("gt", 2, _quiet(np.greater), triton("{} > {}", c="{} > {}"), _bool, "bool", jumps=True, infix=">"),
    ScalarOp("ge", 2, _quiet(np.greater_equal), triton("{} >= {}", c="{} >= {}"), _bool, "bool", jumps=True, infix=">="),
    ScalarOp("eq", 2, _quiet(np.equal), triton("{} == {}", c="{} == {}"), _bool, "bool", jumps=True),
    ScalarOp("ne", 2, _quiet(np.not_equal), triton("{} != {}", c="{} != {}"), _bool, "bool", jumps=True),
    ScalarOp("and", 2, _quiet(np.logical_and), triton("{} & {}", c="{} & {}"), _bool, "bool", commutative=True, associative=True, infix="&"),
    ScalarOp("or", 2, _quiet(np.logical_or), triton("{} | {}", c="{} | {}"), _bool, "bool", commutative=True, associative=True, infix="|"),
    ScalarOp("not", 1, _quiet(np.logical_not), triton("{} == 0", c="{} == 0"), _bool, "bool"),
    ScalarOp("where", 3, _quiet(lambda c, x, y: np.where(c != 0, x, y)), triton("tl.where({}, {}, {})", c="{} ? {} : {}"), lambda c, x, y: _hull(x, y), "same", selects=True),
    # what torch's settings let a matrix unit round (frontends/precision.py): a value as it is everywhere else ------------------------------------
    ScalarOp("tf32", 1, _quiet(np.positive), triton("{}", c="{}"), lambda a: a, turns=(("add", "add"), ("mul", "mul")), increasing=True, keeps_zero=True, cost=0.0, holds=TF32),
    # a quotient rounded once: what ``x / y`` is where the licence is "exact"; everywhere else it is x * recip(y), which rules know ----------
    ScalarOp("div", 2, _quiet(lambda x, y: x / y), triton("tl.div_rn({}, {})", c="{} / {}"), lambda x, y: ranges.mul(x, ranges.recip(y)), domain="nonzero", cost=9.0, special=1.0, infix="/"),
):
    register(_op)

BUILT_IN = frozenset(OPS)
DOMAINS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "real": lambda x: ~np.isnan(x),
    "nonneg": lambda x: x >= 0,
    "positive": lambda x: x > 0,
    "nonzero": lambda x: (x != 0) & ~np.isnan(x),
    "whole": lambda x: (np.abs(x) < 2.0**31) & (x == np.rint(x)),
}
RESULTS = ("float", "same", "int", "bool")
