"""Sound rules of whole families."""

from eqfuse.rewrites import (
    AnyMonoid,
    Axis,
    Const,
    Each,
    Map,
    Op1,
    Op2,
    OtherAxis,
    Reduce,
    Scalar,
    SelectiveMonoid,
    Where,
    associative,
    at_least,
    at_most,
    equal,
    finite,
    free,
    linear,
    nonneg,
    operands,
    selective,
    turns,
)

from . import sound

OfReals = Each("sum", "mean", "max", "min", "prod")


@sound("any op", "the trait says that the order of operands does not matter")
def exam_operands_of_commutative_op_exchanged(x, y, o: Op2):
    """x o y = y o x, for every o whose operands may be in any order."""
    return Map(o, x, y), Map(o, y, x), associative(o)


@sound("trait", "sums and means of negated numbers")
def exam_sign_out_of_linear(x, k: Axis, g: AnyMonoid):
    """reduce_k -x = -reduce_k x, for every linear g."""
    return Reduce(g, k, -x), -Reduce(g, k, x), linear(g)


@sound("trait", "o(x) o(-x) = o(0) = 1, at infinity 1/0 and 1/inf")
def exam_exponential_of_negated(x, o: Op1):
    """o(-x) = 1/o(x), for every o that turns sums into products."""
    return Map(o, -x), Map("recip", Map(o, x)), turns(o, "add", "mul")


@sound("axis of the mask", "all of the row or nothing is chosen")
def exam_constant_mask_out_of_selection(c, x, k: Axis, g: SelectiveMonoid, z: Scalar):
    """reduce_k where(c, x, z) = where(c, reduce_k x, z), for c constant along k."""
    return Reduce(g, k, Where(c, x, Const(z))), Where(c, Reduce(g, k, x), Const(z)), selective(g, z), free(c, k)


@sound("two axes", "one reduction over two axes, in either order; NaN of infinities, too")
def exam_one_reduction_over_two_axes(x, j: Axis, k: Axis, g: OfReals):
    """g_j g_k x = g_k g_j x."""
    return Reduce(g, j, Reduce(g, k, x)), Reduce(g, k, Reduce(g, j, x)), OtherAxis(j, k)


@sound("chain", "roots of numbers that are not negative multiply; 0 * inf is NaN in both")
def exam_roots_in_a_product(t, x, y, rest):
    """sqrt(x) * sqrt(y) * rest = sqrt(x*y) * rest, for x, y >= 0."""
    given = [operands("mul", t, Map("sqrt", x), Map("sqrt", y), rest), nonneg(x), nonneg(y)]
    return given, [equal(t, Map("sqrt", x * y) * rest)]


@sound("chain", "opposites of finite numbers vanish")
def exam_finite_opposites_in_a_sum(t, x, rest):
    """x + -x + rest = rest, for finite x."""
    return [operands("add", t, x, -x, rest), finite(x)], [equal(t, rest)]


@sound("constants", "what is added to a limit and a number is added to the larger")
def exam_constant_into_maximum(x, a: Scalar, b: Scalar):
    """max(x, a) + b = max(x + b, a + b), for numbers up to 100."""
    limits = at_most(a, 100.0), at_least(a, -100.0), at_most(b, 100.0), at_least(b, -100.0)
    return Map("maximum", x, Const(a)) + Const(b), Map("maximum", x + Const(b), Const(a + b)), *limits
