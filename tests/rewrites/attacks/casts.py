"""Casts: narrowing, rounding twice, whole numbers that wrap, truth values."""

import numpy as np

from eqfuse.rewrites import (
    Axis,
    Cast,
    Const,
    Extent,
    Index,
    Map,
    Max,
    Mean,
    NonEmpty,
    Sum,
    TypeName,
    at_most_one,
    finite,
    match,
    nonneg,
    nonpos,
    rounding,
    truth,
)

from . import sound, unsound

f16, f32, i32, i64 = np.float16, np.float32, np.int32, np.int64
LOW = -(2.0**31)


def wrapped(x):
    """A number as int32, as it wraps."""
    return float(np.int64(x).astype(np.int32))


@unsound("cast", "openxla/xla#41605, openxla/xla#47333", "what float16 has rounded away does not come back", lambda: (f32(f16(0.1)), f32(0.1)), licence="exact")
def narrow_cast_elided(x):
    """float32(float16(x)) = float32(x), to the last bit."""
    return Cast("float32", Cast("float16", x)), Cast("float32", x)


@sound
def equal_casts(x):
    """float16(float16(x)) = float16(x), to the last bit."""
    return Cast("float16", Cast("float16", x)), Cast("float16", x)


@sound
def narrow_cast_of_wide_cast(x):
    """float64(float32(x)) is no narrower: float32(float64(x)) = float32(x), to the last bit."""
    return Cast("float32", Cast("float64", x)), Cast("float32", x)


@unsound("overflow", "openxla/xla#10687", "float16 overflows at 65520, bfloat16 does not", lambda: (f32(f16(1e5)), 99840.0), licence="exact")
def cast_by_half(x):
    """bfloat16(float16(x)) = bfloat16(x), to the last bit."""
    return Cast("bfloat16", Cast("float16", x)), Cast("bfloat16", x)


@unsound("rounding", "NVIDIA Fuser#355: casts moved through arithmetic", "the sum of rounded numbers is not the rounded sum", lambda: (f16(1.0011 + 0.1), f16(1.0011) + f16(0.1)), licence="exact")
def cast_into_sum(x, y):
    """float16(x + y) = float16(x) + float16(y), to the last bit."""
    return Cast("float16", x + y), Cast("float16", x) + Cast("float16", y)


@sound
def cast_into_negation(x):
    """float16(-x) = -float16(x), to the last bit."""
    return Cast("float16", -x), -Cast("float16", x)


@unsound("rounding", "kind: comparison of narrowed numbers", "two numbers may round to one", lambda: (float(f16(1.0001) == f16(1.0002)), 0.0), licence="exact")
def narrowed_numbers_compared(x, y):
    """(float16(x) == float16(y)) = (x == y), to the last bit."""
    return Map("eq", Cast("float16", x), Cast("float16", y)), Map("eq", x, y)


@unsound("rounding", "kind: what a cast loses", "the difference to the rounded number is what was lost", lambda: (float(f16(0.1)) - 0.1, 0.0), licence="exact")
def nothing_lost(x):
    """float16(x) - x = 0 for finite x, to the last bit."""
    return Cast("float16", x) - x, Const(0.0), finite(x)


@sound
def nothing_lost_of_truth(c):
    """float16(c) - c = 0 for a truth value c, to the last bit."""
    return Cast("float16", c) - c, Const(0.0), truth(c)


@unsound("overflow", "pytorch: half overflows at 65520", "a finite number may be infinite in float16", lambda: (float(f16(1e5) - f16(1e5) == 0), 1.0), licence="exact")
def finite_in_half(x):
    """float16(x) - float16(x) = 0 for finite x, to the last bit."""
    return Cast("float16", x) - Cast("float16", x), Const(0.0), finite(x)


@sound
def finite_in_wide(x):
    """float64(x) - float64(x) = 0 for finite x, to the last bit."""
    return Cast("float64", x) - Cast("float64", x), Const(0.0), finite(x)


@unsound("rounding", "kind: sum of rounded numbers", "the sum is rounded once, its terms each", lambda: (f16(1.0 + 0.0004 + 0.0004), f16(1.0) + f16(0.0004) + f16(0.0004)), licence="exact")
def cast_into_reduction(x, k: Axis):
    """float16(sum_k x) = sum_k float16(x), to the last bit."""
    return Cast("float16", Sum(k, x)), Sum(k, Cast("float16", x))


@sound(licence="real")
def cast_into_reduction_of_reals(x, k: Axis):
    """float16(sum_k x) = sum_k float16(x)."""
    return Cast("float16", Sum(k, x)), Sum(k, Cast("float16", x))


@unsound("cast", "kind: truncated terms", "halves add up to a whole", lambda: (1.0, 0.0))
def truncation_into_sum(x, y):
    """int64(x + y) = int64(x) + int64(y) for x, y from 0 to 1."""
    return Cast("int64", x + y), Cast("int64", x) + Cast("int64", y), nonneg(x), at_most_one(x), nonneg(y), at_most_one(y)


@sound
def truncation_twice(x):
    """int64(int64(x)) = int64(x) for truth values."""
    return Cast("int64", Cast("int64", x)), Cast("int64", x), truth(x)


@unsound("cast", "tvm#5922: truncated and floored division mixed", "truncation rounds -0.5 to 0, floor to -1", lambda: (float(i64(-0.5)), np.floor(-0.5)))
def truncation_is_floor(x):
    """int64(x) = floor(x) for finite x <= 1."""
    return Cast("int64", x), Map("floor", x), finite(x), at_most_one(x)


@sound
def truncation_of_small_nonneg_is_floor(x):
    """int64(x) = floor(x) for x from 0 to 1."""
    return Cast("int64", x), Map("floor", x), nonneg(x), at_most_one(x)


@unsound("cast", "kind: a cast that changes nothing", "0.5 is no whole number", lambda: (float(i64(0.5)), 0.5))
def truncation_dropped(x):
    """int64(x) = x for x from 0 to 1."""
    return Cast("int64", x), x, nonneg(x), at_most_one(x)


@sound
def truncation_of_truth_dropped(c):
    """int64(c) = c for a truth value c."""
    return Cast("int64", c), c, truth(c)


@unsound("comparison", "kind: comparison of truncated numbers", "0.2 and 0.7 truncate to one number", lambda: (0.0, 1.0))
def truncated_numbers_compared(x, y):
    """(int64(x) < int64(y)) = (x < y) for x, y from 0 to 1."""
    return Map("lt", Cast("int64", x), Cast("int64", y)), Map("lt", x, y), nonneg(x), at_most_one(x), nonneg(y), at_most_one(y)


@unsound("cast", "openxla/xla#46628, tensorflow#117142", "the least int32 has no negation in int32", lambda: (wrapped(2**31), 2.0**31))
def negation_out_of_int32(x):
    """int32(-x) = -int32(x) for finite x."""
    return Cast("int32", -x), -Cast("int32", x), finite(x)


@sound
def negation_out_of_int32_of_truth(c):
    """int32(-c) = -int32(c) for a truth value c."""
    return Cast("int32", -c), -Cast("int32", c), truth(c)


@unsound("cast", "openxla/xla#46628: abs of the least integer", "2^31 wraps, its size does not", lambda: (abs(wrapped(2**31 + 5)), 2.0**31 + 5))
def size_out_of_int32(x):
    """|int32(x)| = |x| for a finite whole number x."""
    whole = Map("floor", x)
    return Map("abs", Cast("int32", whole)), Map("abs", whole), finite(x)


@unsound("cast", "openxla/xla#46628: iota is not negative", "2^31 wraps to a negative number", lambda: (wrapped(2**31 + 5) >= 0, True))
def int32_of_nonneg(t, x):
    """int32(x) >= 0 for finite x >= 0."""
    return [match(t, Cast("int32", x)), nonneg(x), finite(x)], [nonneg(t)]


@sound
def int32_of_small_nonneg(t, x):
    """int32(x) >= 0 for x from 0 to 1."""
    return [match(t, Cast("int32", x)), nonneg(x), at_most_one(x)], [nonneg(t)]


@unsound("cast", "llvm#214658, for integers", "numbers that wrap do not keep their order", lambda: (wrapped(2**31 + 5), max(wrapped(2**31 + 5), 1.0)))
def int32_of_maximum(x, y):
    """int32(max(x, y)) = max(int32(x), int32(y)) for finite x, y."""
    return Cast("int32", Map("maximum", x, y)), Map("maximum", Cast("int32", x), Cast("int32", y)), finite(x), finite(y)


@sound
def int32_of_maximum_of_small(x, y):
    """int32(max(x, y)) = max(int32(x), int32(y)) for x, y from 0 to 1."""
    left, right = Cast("int32", Map("maximum", x, y)), Map("maximum", Cast("int32", x), Cast("int32", y))
    return left, right, nonneg(x), at_most_one(x), nonneg(y), at_most_one(y)


@unsound("rounding", "llvm#55150", "float32 has not all whole numbers above 2^24", lambda: (float(i64(f32(2**24 + 1))), 2.0**24 + 1), licence="exact")
def round_trip_by_float(x):
    """int64(float32(x)) = int64(x) for finite x, to the last bit."""
    return Cast("int64", Cast("float32", x)), Cast("int64", x), finite(x)


@unsound("cast", "openxla/xla: convert to int16 and back", "what does not fit has wrapped", lambda: (wrapped(2**31 + 5), 2.0**31 + 5))
def float_of_int32(x):
    """float64(int32(x)) = floor(x) for finite x >= 0."""
    return Cast("float64", Cast("int32", x)), Map("floor", x), finite(x), nonneg(x)


@unsound("cast", "kind: truth of a number as its sign", "a negative number is true", lambda: (float(bool(-1.0)), float(-1.0 > 0)))
def truth_is_positive(x):
    """bool(x) = (x > 0)."""
    return Cast("bool", x), Map("gt", x, Const(0.0))


@sound
def truth_is_not_zero(x):
    """bool(x) = (x != 0)."""
    return Cast("bool", x), Map("ne", x, Const(0.0))


@unsound("cast", "kind: truth of a sum", "1 + -1 is false", lambda: (float(bool(1.0 + -1.0)), 1.0))
def truth_of_sum(x, y):
    """bool(x + y) = x or y, for finite x, y."""
    return Cast("bool", x + y), Map("or", x, y), finite(x), finite(y)


@sound
def truth_of_nonneg_sum(x, y):
    """bool(x + y) = x or y, for x, y >= 0."""
    return Cast("bool", x + y), Map("or", x, y), nonneg(x), nonneg(y)


@unsound("infinity", "kind: truth of a product", "0 * inf is NaN, which is true", lambda: (float(bool(np.nan)), 0.0))
def truth_of_product(x, y):
    """bool(x * y) = x and y."""
    return Cast("bool", x * y), Map("and", x, y)


@unsound("underflow", "kind: truth of a small product", "1e-30 * 1e-30 is 0 in float32", lambda: (float(bool(f32(1e-30) * f32(1e-30))), 1.0), licence="exact")
def truth_of_finite_product_exactly(x, y):
    """bool(x * y) = x and y, for finite x, y, to the last bit."""
    return Cast("bool", x * y), Map("and", x, y), finite(x), finite(y)


@sound(licence="real")
def truth_of_finite_product(x, y):
    """bool(x * y) = x and y, for finite x, y."""
    return Cast("bool", x * y), Map("and", x, y), finite(x), finite(y)


@unsound("cast", "openxla/stablehlo#2633", "for types of more than a bit, and with 1 is not the number", lambda: (float(bool(2.0 and 1.0)), 2.0))
def and_with_one(x):
    """x and 1 = x."""
    return Map("and", x, Const(1.0)), x


@sound
def truth_and_with_one(c):
    """c and 1 = c for a truth value c."""
    return Map("and", c, Const(1.0)), c, truth(c)


@unsound("cast", "kind: a type variable that may be bool", "bool(-1) is 1, and -bool(1) is -1", lambda: (float(bool(-1.0)), -float(bool(1.0))))
def negation_out_of_any_cast(x, t: TypeName):
    """cast(-x) = -cast(x) for truth values, to any type."""
    return Cast(t, -x), -Cast(t, x), truth(x)


@sound
def negation_out_of_rounding_cast(x, t: TypeName):
    """cast(-x) = -cast(x), to a floating type."""
    return Cast(t, -x), -Cast(t, x), rounding(t)


@unsound("cast", "kind: a type variable that may be bool", "bool(-1) is 1, and -1 <= 0", lambda: (float(bool(-1.0)) <= 0, True))
def any_cast_of_nonpos(t, x, d: TypeName):
    """cast(x) <= 0 for -1 <= x <= 0, to any type."""
    return [match(t, Cast(d, x)), nonpos(x), finite(x)], [nonpos(t)]


@sound
def rounding_cast_of_nonpos(t, x, d: TypeName):
    """cast(x) <= 0 for x <= 0, to a floating type."""
    return [match(t, Cast(d, x)), nonpos(x), finite(x), rounding(d)], [nonpos(t)]


@unsound("cast", "kind: a type variable that may be bool", "the maximum of -1 and 0 is false, and -1 is true", lambda: (float(bool(max(-1.0, 0.0))), 1.0))
def any_cast_into_maximum(x, y, t: TypeName):
    """cast(max(x, y)) = max(cast(x), cast(y)), to any type, for finite x, y."""
    return Cast(t, Map("maximum", x, y)), Map("maximum", Cast(t, x), Cast(t, y)), finite(x), finite(y)


@sound
def rounding_cast_into_maximum(x, y, t: TypeName):
    """cast(max(x, y)) = max(cast(x), cast(y)), to a floating type."""
    return Cast(t, Map("maximum", x, y)), Map("maximum", Cast(t, x), Cast(t, y)), rounding(t)


@unsound("cast", "openxla/xla#41605, for any types", "the inner type may be narrower", lambda: (float(bool(2.0)), 2.0))
def inner_cast_dropped(x, t: TypeName, d: TypeName):
    """cast_t(cast_d(x)) = cast_t(x), for finite x."""
    return Cast(t, Cast(d, x)), Cast(t, x), finite(x)


@sound
def cast_twice(x, t: TypeName):
    """cast(cast(x)) = cast(x), for truth values."""
    return Cast(t, Cast(t, x)), Cast(t, x), truth(x)


@unsound("cast", "kind: mean of truncated numbers", "a mean of whole numbers is no whole number", lambda: (0.0, 0.5))
def truncation_into_mean(c, k: Axis):
    """int64(mean_k c) = mean_k int64(c) for truth values."""
    return Cast("int64", Mean(k, c)), Mean(k, Cast("int64", c)), truth(c), NonEmpty(k)


@sound
def truncation_into_maximum(c, k: Axis):
    """int64(max_k c) = max_k int64(c) for truth values."""
    return Cast("int64", Max(k, c)), Max(k, Cast("int64", c)), truth(c), NonEmpty(k)


@unsound("extent", "jax: iota in a narrow type", "bfloat16 has no 257, float16 no 2049", lambda: (256.0, 257.0), licence="exact")
def extent_in_bfloat16(k: Axis):
    """bfloat16(size(k)) = size(k), to the last bit."""
    return Cast("bfloat16", Extent(k)), Extent(k)


@unsound("extent", "jax: iota in a narrow type", "float16 has no 2049", lambda: (float(f16(2049)), 2049.0), licence="exact")
def positions_in_half(k: Axis):
    """float16(index(k)) = index(k), to the last bit."""
    return Cast("float16", Index(k)), Index(k)


@sound
def positions_in_int64(k: Axis):
    """int64(index(k)) = index(k), to the last bit."""
    return Cast("int64", Index(k)), Index(k)
