"""False rules of whole families: of any op, any reduction, any type, of chains, of constants."""

import numpy as np

from eqfuse.rewrites import (
    AnyMonoid,
    Axis,
    Cast,
    Const,
    IdempotentMonoid,
    LinearMonoid,
    Map,
    NonEmpty,
    Op1,
    Op2,
    OtherAxis,
    Reduce,
    Scalar,
    SelectiveMonoid,
    TypeName,
    Where,
    at_least,
    at_most,
    at_most_one,
    equal,
    finite,
    idempotent,
    linear,
    nonneg,
    one_of,
    operands,
    selective,
    turns,
)

from . import false

inf, nan = np.inf, np.nan
x2 = np.array([[1.0, -2.0], [-3.0, 5.0]])


@false("any op", "quotients and comparisons have an order", lambda: (1.0 < 2.0, 2.0 < 1.0))
def exam_operands_of_any_op_exchanged(x, y, o: Op2):
    """x o y = y o x, for every o that has two operands."""
    return Map(o, x, y), Map(o, y, x)


@false("trait", "a maximum is idempotent, and turned round by a sign", lambda: (np.max([-1.0, -2.0]), -np.max([1.0, 2.0])))
def exam_sign_out_of_idempotent(x, k: Axis, g: AnyMonoid):
    """reduce_k -x = -reduce_k x, for every g with x + x = x."""
    return Reduce(g, k, -x), -Reduce(g, k, x), idempotent(g), NonEmpty(k)


@false("trait", "squares and sizes multiply, and lose a sign", lambda: ((-2.0) ** 2, -(2.0**2)))
def exam_sign_out_of_multiplicative(x, o: Op1):
    """o(-x) = -o(x), for every o that keeps products."""
    return Map(o, -x), -Map(o, x), turns(o, "mul", "mul")


@false("axis of the mask", "some of the row may be chosen", lambda: (np.max(np.where([1, 0], [2.0, 3.0], -inf)), 3.0))
def exam_mask_out_of_selection(c, x, k: Axis, g: SelectiveMonoid, z: Scalar):
    """reduce_k where(c, x, z) = where(c, reduce_k x, z), for a maximum or minimum with identity z."""
    return Reduce(g, k, Where(c, x, Const(z))), Where(c, Reduce(g, k, x), Const(z)), selective(g, z)


@false("two reductions", "of one kind each, they do not change places", lambda: (x2.max(1).sum(), x2.sum(0).max()))
def exam_linear_and_idempotent_exchanged(x, j: Axis, k: Axis, g: LinearMonoid, h: IdempotentMonoid):
    """g_j h_k x = h_k g_j x, for a linear g and an idempotent h."""
    given = linear(g), idempotent(h), OtherAxis(j, k), NonEmpty(j), NonEmpty(k), finite(x)
    return Reduce(g, j, Reduce(h, k, x)), Reduce(h, k, Reduce(g, j, x)), *given


@false("chain", "twice the product is missing", lambda: (1.0 + 1 + 3, (1.0 + 1) ** 2 + 3))
def exam_squares_in_a_sum(t, x, y, rest):
    """x^2 + y^2 + rest = (x + y)^2 + rest."""
    return [operands("add", t, Map("square", x), Map("square", y), rest)], [equal(t, Map("square", x + y) + rest)]


@false("chain", "inf - inf does not vanish", lambda: (inf - inf + 1, 1.0))
def exam_opposites_in_a_sum(t, x, rest):
    """x + -x + rest = rest."""
    return [operands("add", t, x, -x, rest)], [equal(t, rest)]


@false(
    "any type",
    "a whole type wraps, or drops what is between",
    lambda: (np.float64(0.5).astype(np.int32) * 2, np.float64(1.0).astype(np.int32)),
)
def exam_double_out_of_any_cast(x, d: TypeName):
    """d(2*x) = 2 * d(x), for 0 <= x <= 1 and every type d but bool."""
    return Cast(d, x * 2.0), Cast(d, x) * 2.0, nonneg(x), at_most_one(x), finite(x), one_of(d, "float32", "int32", "int64")


@false("constants", "a limit above which a is added is a limit of the sum", lambda: (max(4.0, 2.0) + 3, max(4.0, 2.0 + 3)))
def exam_constant_out_of_maximum(x, a: Scalar, b: Scalar):
    """max(x, a) + b = max(x, a + b), for finite x and numbers up to 100."""
    limits = at_most(a, 100.0), at_least(a, -100.0), at_most(b, 100.0), at_least(b, -100.0)
    return Map("maximum", x, Const(a)) + Const(b), Map("maximum", x, Const(a + b)), finite(x), *limits
