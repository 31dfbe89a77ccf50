"""Sound rules of casts."""

from eqfuse.rewrites import Axis, Cast, Map, Max, NonEmpty, TypeName, Where, finite, has_type, nonneg, rounding, truth, within

from . import sound


@sound("double rounding", "every bfloat16 is a float32", licence="exact")
def exam_bfloat16_as_float32(x):
    """float32(bfloat16(x)) = bfloat16(x), to the last bit."""
    return Cast("float32", Cast("bfloat16", x)), Cast("bfloat16", x)


@sound("wrap", "up to 127 both bytes are x")
def exam_bytes_of_small_numbers(x):
    """uint8(x) = int8(x), for an x of int16 from 0 to 127."""
    return Cast("uint8", x), Cast("int8", x), has_type(x, "int16"), nonneg(x), within(x, 127.0)


@sound("wrap", "modulo 2^32 and then modulo 2^8 is modulo 2^8")
def exam_wider_type_forgotten(x):
    """int8(int32(x)) = int8(x), for an x of int64."""
    return Cast("int8", Cast("int32", x)), Cast("int8", x), has_type(x, "int64")


@sound("cancelling", "sizes do not cancel, NaN is true in both")
def exam_any_by_truth_of_largest_size(x, k: Axis):
    """bool(max_k |x|) = max_k bool(x), on no empty axis."""
    return Cast("bool", Max(k, Map("abs", x))), Max(k, Cast("bool", x)), NonEmpty(k)


@sound("wrap", "the low bits of a conjunction are those of both")
def exam_low_bits_of_conjunction(x, y):
    """int8(x & y) = int8(x) & int8(y), for x and y of int16."""
    return Cast("int8", Map("bitand", x, y)), Map("bitand", Cast("int8", x), Cast("int8", y)), has_type(x, "int16"), has_type(y, "int16")


@sound("wrap", "sums modulo 2^8 may wrap as often as they like")
def exam_wrapped_sum_of_wrapped(x, y):
    """int8(x + y) = int8(int8(x) + int8(y)), for x and y of int16."""
    return Cast("int8", x + y), Cast("int8", Cast("int8", x) + Cast("int8", y)), has_type(x, "int16"), has_type(y, "int16")


@sound("rounding down", "of numbers that are not negative the fraction is dropped downwards")
def exam_half_of_nonneg_integer_by_cast(x):
    """int32(x/2) = floor(x/2), for an x >= 0 of int32."""
    return Cast("int32", x * 0.5), Map("floor", x * 0.5), has_type(x, "int32"), nonneg(x)


@sound("ties", "what is whole and fits is the same as an integer")
def exam_rounded_as_integer(x):
    """int64(round(x)) = round(x), for |x| <= 1000."""
    return Cast("int64", Map("round", x)), Map("round", x), finite(x), within(x, 1000.0)


@sound("saturation", "65504 is the largest float16, and rounding keeps the order", licence="exact")
def exam_float16_clamped_at_its_largest(x):
    """float16(min(x, 65504)) = min(float16(x), 65504), to the last bit."""
    return Cast("float16", Map("minimum", x, 65504.0)), Map("minimum", Cast("float16", x), 65504.0)


@sound("a condition is cast", "0 and 1 are 0 and 1 in every type")
def exam_truth_cast_with_its_arms(c, x, y, d: TypeName):
    """d(where(c, x, y)) = where(d(c), d(x), d(y)), for truth values c."""
    return Cast(d, Where(c, x, y)), Where(Cast(d, c), Cast(d, x), Cast(d, y)), truth(c)


@sound("NaN", "rounding makes no NaN of a number, and no number of NaN", licence="exact")
def exam_nan_after_rounding(x, d: TypeName):
    """(d(x) != d(x)) = (x != x), for a floating type d."""
    return Map("ne", Cast(d, x), Cast(d, x)), Map("ne", x, x), rounding(d)


@sound("double rounding", "no bit is lost between: every float16 is a float32", licence="exact")
def exam_bfloat16_of_float32_of_float16(x):
    """bfloat16(float32(x)) = bfloat16(x), for an x of float16, to the last bit."""
    return Cast("bfloat16", Cast("float32", x)), Cast("bfloat16", x), has_type(x, "float16")
