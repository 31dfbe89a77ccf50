"""False rules of casts: double rounding, wrapping, overflow, ties, what is truncated."""

import math

import numpy as np

from eqfuse.rewrites import Axis, Cast, Const, Map, Max, NonEmpty, Sum, TypeName, Where, finite, has_type, nonneg, within

from . import false

inf = np.inf


def half(x):
    """A number as float16."""
    return np.float64(np.float16(x))


def brain(x):
    """A number as bfloat16: the nearest of eight bits, ties to even."""
    step = 2.0 ** (np.frexp(x)[1] - 8)
    near = np.rint(x / step) * step
    return np.where(np.abs(near) > 3.3895313892515355e38, np.copysign(inf, x), near)


@false(
    "double rounding",
    "a number just above the middle of two is in the middle once it is float16",
    lambda: (half(brain(1 + 2**-8 + 2**-13)), brain(half(1 + 2**-8 + 2**-13))),
    licence="exact",
)
def exam_order_of_two_half_types(x):
    """float16(bfloat16(x)) = bfloat16(float16(x)), to the last bit."""
    return Cast("float16", Cast("bfloat16", x)), Cast("bfloat16", Cast("float16", x))


@false("wrap", "from 128 on an int8 is negative", lambda: (np.int16(200).astype(np.uint8), np.int16(200).astype(np.int8)))
def exam_signed_byte_of_nonneg(x):
    """uint8(x) = int8(x), for an x >= 0 of int16."""
    return Cast("uint8", x), Cast("int8", x), has_type(x, "int16"), nonneg(x)


@false("wrap", "a wider type does not bring back what the narrower one lost", lambda: (np.int32(300).astype(np.int8).astype(np.int32), 300))
def exam_narrower_type_forgotten(x):
    """int32(int8(x)) = int32(x), for an x of int32."""
    return Cast("int32", Cast("int8", x)), Cast("int32", x), has_type(x, "int32")


@false("cancelling", "1 and -1 are true, their sum is not", lambda: (np.bool_(1 - 1.0), np.bool_(True)))
def exam_any_by_truth_of_sum(x, k: Axis):
    """bool(sum_k x) = max_k bool(x), for finite x, on no empty axis."""
    return Cast("bool", Sum(k, x)), Max(k, Cast("bool", x)), finite(x), NonEmpty(k)


@false(
    "wrap", "half of a wrapped number is another number", lambda: (np.int16(200 // 2).astype(np.int8), np.int16(200).astype(np.int8) // 2)
)
def exam_half_of_a_wrapped_number(x):
    """int8(floor(x/2)) = floor(int8(x)/2), for an x of int16."""
    return Cast("int8", Map("floor", x * 0.5)), Map("floor", Cast("int8", x) * 0.5), has_type(x, "int16")


@false("overflow", "a double of the largest bfloat16 is infinite", lambda: (inf, 2 * brain(3.3e38)), licence="exact")
def exam_double_in_bfloat16(x):
    """bfloat16(2*x) = 2 * bfloat16(x), to the last bit."""
    return Cast("bfloat16", x * 2.0), Cast("bfloat16", x) * 2.0


@false("rounding down", "a cast to an integer drops the fraction towards 0", lambda: (np.float64(-1.5).astype(np.int32), np.floor(-1.5)))
def exam_half_of_integer_rounded_down_by_cast(x):
    """int32(x/2) = floor(x/2), for an x of int32."""
    return Cast("int32", x * 0.5), Map("floor", x * 0.5), has_type(x, "int32")


@false("ties", "2.5 is rounded to the even number", lambda: (np.float64(2.5 + 0.5).astype(np.int64), np.rint(2.5)))
def exam_rounding_by_adding_a_half(x):
    """int64(x + 1/2) = round(x), for 0 <= x <= 1000."""
    return Cast("int64", x + 0.5), Map("round", x), nonneg(x), finite(x), within(x, 1000.0)


@false(
    "saturation", "65535 is no float16, and rounds to infinity", lambda: (half(min(1e6, 65535.0)), min(half(1e6), 65535.0)), licence="exact"
)
def exam_float16_clamped_at_65535(x):
    """float16(min(x, 65535)) = min(float16(x), 65535), to the last bit."""
    return Cast("float16", Map("minimum", x, 65535.0)), Map("minimum", Cast("float16", x), 65535.0)


@false("a condition is cast", "0.3 is true, and 0 as an integer", lambda: (7, np.where(np.int64(0.3), 7, 3)))
def exam_condition_cast_with_its_arms(c, x, y, d: TypeName):
    """d(where(c, x, y)) = where(d(c), d(x), d(y)), for finite c."""
    return Cast(d, Where(c, x, y)), Where(Cast(d, c), Cast(d, x), Cast(d, y)), finite(c)


@false(
    "overflow",
    "the largest float32 rounds to infinity in bfloat16",
    lambda: (brain(3.4028234e38) < inf, np.float32(3.4028234e38) < inf),
    licence="exact",
)
def exam_finite_in_bfloat16(x):
    """(|bfloat16(x)| < inf) = (|x| < inf), for an x of float32."""
    return Map("lt", Map("abs", Cast("bfloat16", x)), Const(math.inf)), Map("lt", Map("abs", x), Const(math.inf)), has_type(x, "float32")


@false(
    "double rounding",
    "rounded to float16 first, a sum may be a tie of bfloat16",
    lambda: (brain(1 + (2**-8 + 2**-13)), brain(half(1 + (2**-8 + 2**-13)))),
    licence="exact",
)
def exam_bfloat16_of_float16_sum(x, y):
    """bfloat16(x + y) = bfloat16(float16(x + y)), for x and y of float16."""
    return Cast("bfloat16", x + y), Cast("bfloat16", Cast("float16", x + y)), has_type(x, "float16"), has_type(y, "float16")
