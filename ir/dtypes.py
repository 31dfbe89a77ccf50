"""Element types: what memory holds, the number facts (largest value, mantissa) that range analysis and tolerances need, and what a
cast to each of them means."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Numbers:
    """Numbers of at most so many binary digits, all of them multiples of ``step``, a power of two, and none beyond ``largest``; of both
    signs.  Infinities and NaN are left aside."""

    digits: int
    step: float
    largest: float

    def __or__(self, other: Numbers) -> Numbers:
        """Those of both."""
        return Numbers(max(self.digits, other.digits), min(self.step, other.step), max(self.largest, other.largest))

    def __mul__(self, other: Numbers) -> Numbers:
        """All products of two of them: one of a single digit, a power of two, adds none."""
        digits = self.digits + other.digits - (1 in (self.digits, other.digits))
        return Numbers(digits, self.step * other.step, self.largest * other.largest)

    def __contains__(self, other: Numbers) -> bool:
        """Whether each of the others is one of them."""
        return other.digits <= self.digits and self.step <= other.step and other.largest <= self.largest


def number(value: float) -> Numbers:
    """A constant as numbers; 0 and what is not finite are among all."""
    if value == 0 or not math.isfinite(value):
        return Numbers(0, math.inf, 0.0)
    top, bottom = abs(value).as_integer_ratio()
    last = top & -top  # the last digit of the numerator, where the denominator is 1; that is a power of two
    return Numbers((top // last).bit_length(), last / bottom, abs(value))


@dataclass(frozen=True)
class DType:
    """An element type.  ``name`` is the name that torch and numpy use; ``short`` the one that compilers use."""

    name: str
    kind: str  # "float" | "int" | "bool"
    itemsize: int  # bytes in memory
    short: str  # "fp16", "i32", ...
    largest: float  # largest finite magnitude
    epsilon: float  # spacing at 1.0 (0 for exact types)
    step: float = 1.0  # smallest number above 0

    def __repr__(self) -> str:
        return f"dtype({self.name!r})"

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers that it has."""
        digits = 1 - int(math.log2(self.epsilon)) if self.is_float else int(self.largest).bit_length()
        return Numbers(digits, self.step, max(self.largest, -self.least))

    @property
    def is_wide(self) -> bool:
        """A float with at least the exponents of bfloat16 and float32."""
        return self.is_float and self.largest > 1e38

    @property
    def least(self) -> float:
        """The smallest finite number."""
        return 0.0 if self.kind == "bool" or self.unsigned else -self.largest - (self.kind == "int")

    @property
    def unsigned(self) -> bool:
        """An integer type without negative numbers."""
        return self.short.startswith("u")

    @property
    def meaning(self) -> np.dtype:
        """The numpy type in which a value of this type means itself: float64, or int64 for integers and truth values (0 and 1)."""
        return np.dtype(np.float64 if self.is_float else np.int64)

    def number(self, value: float) -> float:
        """A number as one of this type; infinities, which integers do not have, as the least and the largest of them."""
        if self.kind != "int":
            return value
        if math.isinf(value):
            return int(np.iinfo(self.numpy).max if value > 0 else np.iinfo(self.numpy).min)
        return int(value)

    @property
    def numpy(self) -> np.dtype:
        """The numpy type that stores it; bfloat16 and types of 8 bits have none and are kept in float32."""
        return np.dtype("float32" if self.is_float and (self.itemsize == 1 or self.name == "bfloat16") else self.name)


float16 = DType("float16", "float", 2, "fp16", 65504.0, 2.0**-10, 2.0**-24)
bfloat16 = DType("bfloat16", "float", 2, "bf16", 3.3895313892515355e38, 2.0**-7, 2.0**-133)
float32 = DType("float32", "float", 4, "fp32", 3.4028234663852886e38, 2.0**-23, 2.0**-149)
float64 = DType("float64", "float", 8, "fp64", 1.7976931348623157e308, 2.0**-52, 2.0**-1074)
int8 = DType("int8", "int", 1, "i8", 2.0**7 - 1, 0.0)
uint8 = DType("uint8", "int", 1, "u8", 2.0**8 - 1, 0.0)
int16 = DType("int16", "int", 2, "i16", 2.0**15 - 1, 0.0)
int32 = DType("int32", "int", 4, "i32", 2.0**31 - 1, 0.0)
int64 = DType("int64", "int", 8, "i64", 2.0**63 - 1, 0.0)
bool_ = DType("bool", "bool", 1, "i1", 1.0, 0.0)

# what matrix units read of float32 where they may round: no type of memory
TF32 = Numbers(float16.numbers.digits, 2.0**-136, bfloat16.largest)
DTYPES = {d.name: d for d in (float16, bfloat16, float32, float64, int8, uint8, int16, int32, int64, bool_)}
float8_e4m3fn = DType("float8_e4m3fn", "float", 1, "fp8e4nv", 448.0, 2.0**-3, 2.0**-9)
float8_e5m2 = DType("float8_e5m2", "float", 1, "fp8e5", 57344.0, 2.0**-2, 2.0**-16)
STORED = {d.name: d for d in (float8_e4m3fn, float8_e5m2)}  # of inputs alone: a load casts, and nothing is cast to them or computed in them
INPUTS = DTYPES | STORED  # what an input may be
_RANK = {
    "bool": 0, "int8": 1, "uint8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "bfloat16": 5, "float32": 6, "float64": 7,
}  # fmt: skip
_ABOVE_BOTH = {frozenset(("float16", "bfloat16")): float32, frozenset(("int8", "uint8")): int16}


def dtype(name: str) -> DType:
    """Look a type up by its torch/numpy name."""
    return INPUTS[name]


def promote(*types: DType | None) -> DType | None:
    """The type of an arithmetic result, by torch's rules; ``None`` stands for a weakly typed constant."""
    found: DType | None = None
    for t in types:
        if t is None or t is found:
            continue
        if found is None:
            found = t
        elif _RANK[t.name] == _RANK[found.name]:
            found = _ABOVE_BOTH[frozenset((t.name, found.name))]
        elif _RANK[t.name] > _RANK[found.name]:
            found = t
    return found


def cast(array: np.ndarray, to: DType) -> np.ndarray:
    """An array converted to a type as torch converts it: an array of ``to.meaning`` that holds numbers of ``to`` only.

    To a float it rounds once, to nearest even; to bool it asks for not zero; to an integer it drops the fraction, and the integer wraps
    around modulo the number of values of the type.  Where torch defines it, says :func:`castable`; NaN and what is beyond int64 become the
    least int64 and wrap like it.
    """
    array = np.asarray(array)
    with np.errstate(all="ignore"):
        if to.kind == "bool":
            return (array != 0).astype(np.int64)
        if to.kind == "int":
            if array.dtype.kind == "f":
                inside = (array >= -(2.0**63)) & (array < 2.0**63)  # False for NaN
                array = np.where(inside, np.where(inside, array, 0).astype(np.int64), np.iinfo(np.int64).min)
            return array.astype(to.numpy).astype(np.int64)
        if to.name == "bfloat16":
            return _bfloat16(array)
        return array.astype(to.numpy).astype(np.float64)


def castable(array: np.ndarray, to: DType) -> np.ndarray:
    """Where torch defines a cast: to integer types of what fits without its fraction and of whole numbers of 64 bits, to others always."""
    if to.is_float or to.kind == "bool":
        return np.ones(np.shape(array), bool)
    limits = np.iinfo(to.numpy)
    with np.errstate(all="ignore"):
        whole = np.trunc(array)
        fits = (whole >= float(limits.min)) & (whole < float(limits.max) + 1.0)
        return np.asarray(fits | ((array == whole) & (np.abs(array) < 2.0**63)))


def _bfloat16(array: np.ndarray) -> np.ndarray:
    """The nearest number of eight bits, ties to even, with the exponents of float32; numpy has no such type."""
    x = array.astype(np.float64)
    step = np.ldexp(1.0, np.maximum(np.frexp(x)[1], -125) - 8)
    near = np.rint(x / step) * step
    near = np.where(np.abs(near) > bfloat16.largest, np.copysign(np.inf, x), near)
    return np.where(np.isfinite(x), near, x)
