# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""Scalar algebra.

Products are factored on demand, which replaces free associativity and commutativity: a sum over k asks (``wants_factor``) how its body
splits into f * b with f free of k, and the answer (``free_factor``) is computed bottom-up through the product. Sums of terms are split
the same way (``wants_term``, ``free_term``), but regrouped only where no digits are lost (``separable``): (x - m) + b stays as it is.
Logarithms turn products of non-negative factors into sums: log(x*y) = log x + log y holds there everywhere, zeros included,
because both sides are then -inf. No law here expands a square of a sum.
"""

from __future__ import annotations

from .language import *

FAMILY = "algebra"


@fact_rule(family=FAMILY)
def want_factors(t, a, b, j: Axis):
    """To write a*b as f * rest, look into both factors."""
    return [wants_factor(t, j), match(t, a * b)], [wants_factor(a, j), wants_factor(b, j)]


@fact_rule(family=FAMILY)
def factor_is_free(t, a, b, j: Axis):
    """a*b = f * rest with f = a, if a is free of j."""
    return [wants_factor(t, j), match(t, a * b), free(a, j)], [free_factor(t, j, a, b)]


@fact_rule(family=FAMILY)
def factor_from_inside(t, a, b, f, x, j: Axis):
    """If a = f*x, then a*b = f * (x*b)."""
    return [wants_factor(t, j), match(t, a * b), depends(b, j), free_factor(a, j, f, x), depends(x, j)], [free_factor(t, j, f, x * b)]


@fact_rule(family=FAMILY)
def factor_through_negation(t, a, f, x, j: Axis):
    """If a = f*x, then -a = f * (-x)."""
    return [wants_factor(t, j), match(t, -a), free_factor(a, j, f, x)], [free_factor(t, j, f, -x)]


@fact_rule(family=FAMILY)
def want_under_negation(t, a, j: Axis):
    """To factor -a, factor a."""
    return [wants_factor(t, j), match(t, -a)], [wants_factor(a, j)]


# A cast to a floating type rounds relative to the value, so a factor may move out of it.  No cast is removed, and none moves whose value
# is also used unrounded (``movable``): x - cast(x) would not be what cast(x) lost.  A factor moves only if it is ready after a loop over
# the axis, which is when the sum could not run in that loop otherwise.


@rule(family=FAMILY, licence="exact")
def cast_of_truth(c, d: TypeName, k: TypeName):
    """cast(cast(c)) = cast(c) for a truth value c: every type has 0 and 1."""
    return Cast(d, Cast(k, c)), Cast(d, c), truth(c)


@fact_rule(family=FAMILY)
def want_under_cast(t, a, j: Axis, d: TypeName):
    """To factor cast(a), factor a."""
    return [wants_factor(t, j), match(t, Cast(d, a)), rounding(d), movable(t)], [wants_factor(a, j)]


@fact_rule(family=FAMILY, licence="approx")
def every_cast_moves(t, a, d: TypeName):
    """A cast to a floating type may round elsewhere, even if the program looks at what it loses."""
    return [match(t, Cast(d, a)), rounding(d)], [movable(t)]


@fact_rule(family=FAMILY)
def movable_in_a_view(t, x, j: Axis, e: Position):
    """What may move may move in a part."""
    return [match(t, View(x, j, e)), movable(x)], [movable(t)]


@fact_rule(family=FAMILY)
def factor_through_cast(t, a, f, x, j: Axis, d: TypeName):
    """If a = f*x, then cast(a) = f * cast(x) for f ready after a loop, to a type that overflows no earlier than float32."""
    rounded = Cast(d, x)
    return (
        [wants_factor(t, j), match(t, Cast(d, a)), movable(t), wide(d), free_factor(a, j, f, x), later(f, j)],
        [free_factor(t, j, f, rounded), movable(rounded)],
    )


@fact_rule(family=FAMILY)
def factor_through_cast_of_number(t, a, f, x, j: Axis, d: TypeName):
    """The same for any floating type, if x is a number of that type already: cast(x) is x, however large or small."""
    rounded = Cast(d, x)
    return (
        [wants_factor(t, j), match(t, Cast(d, a)), movable(t), rounding(d), free_factor(a, j, f, x), later(f, j), typed(x, d)],
        [free_factor(t, j, f, rounded), movable(rounded)],
    )


@fact_rule(family=FAMILY)
def fraction_through_cast(t, a, f, x, n: Scalar, j: Axis, d: TypeName):
    """The same for any floating type, if x is modest and f between 0 and 1: cast(x) does not overflow, nor vanish before cast(f*x)."""
    rounded = Cast(d, x)
    return (
        [
            wants_factor(t, j), match(t, Cast(d, a)), movable(t), rounding(d), free_factor(a, j, f, x), later(f, j),
            nonneg(f), at_most_one(f), within(x, n), Modest(n),
        ],
        [free_factor(t, j, f, rounded), movable(rounded)],
    )  # fmt: skip


@fact_rule(family=FAMILY)
def want_terms_of_factors(t, a, b, j: Axis):
    """A factor that is a sum may have a part that is free of j."""
    return [wants_factor(t, j), match(t, a * b)], [wants_term(a, j)]


@fact_rule(family=FAMILY)
def want_terms(t, a, b, j: Axis):
    """To write a+b as f + rest, look into both terms."""
    return [wants_term(t, j), match(t, a + b)], [wants_term(a, j), wants_term(b, j)]


@fact_rule(family=FAMILY)
def want_terms_of_argument(t, a, j: Axis, o: Op1):
    """The argument of a function under a sum may have a part that is free of j."""
    return [wants_factor(t, j), match(t, Map(o, a))], [wants_term(a, j)]


@fact_rule(family=FAMILY)
def term_is_free(t, a, b, j: Axis):
    """a+b = f + rest with f = a, if a is free of j."""
    return [wants_term(t, j), match(t, a + b), free(a, j), depends(b, j)], [free_term(t, j, a, b)]


@fact_rule(family=FAMILY)
def term_from_inside(t, a, b, f, x, j: Axis):
    """If a = f+x, then a+b = f + (x+b), where f + x does not cancel."""
    return [wants_term(t, j), match(t, a + b), depends(b, j), free_term(a, j, f, x), separable(f, x)], [free_term(t, j, f, x + b)]


@fact_rule(family=FAMILY)
def terms_collected(t, a, b, f, x, j: Axis):
    """If a = f+x and b is free of j, then a+b = (f+b) + x, where f + x does not cancel."""
    return [wants_term(t, j), match(t, a + b), free(b, j), free_term(a, j, f, x), separable(f, x)], [free_term(t, j, f + b, x)]


@fact_rule(family=FAMILY)
def negated_sum(t, a, b, j: Axis):
    """-(a+b) = -a + -b, where somebody wants the terms."""
    x = a + b
    return [wants_term(t, j), match(t, -x)], [equal(t, -a + -b)]


@rule(family=FAMILY, licence="exact")
def double_negation(x):
    """-(-x) = x."""
    return -(-x), x


@rule(family=FAMILY)
def log_of_product(x, y):
    """log(x*y) = log x + log y for x, y >= 0."""
    return Map("log", x * y), Map("log", x) + Map("log", y), nonneg(x), nonneg(y)


@rule(family=FAMILY)
def log_of_exp(x):
    """log(exp x) = x."""
    return Map("log", Map("exp", x)), x


@rule(family=FAMILY)
def log_of_reciprocal(x):
    """log(1/x) = -log x for x >= 0."""
    return Map("log", Map("recip", x)), -Map("log", x), nonneg(x)


@rule(family=FAMILY)
def reciprocal_of_product(x, y):
    """1/(x*y) = 1/x * 1/y."""
    return Map("recip", x * y), Map("recip", x) * Map("recip", y)


@rule(family=FAMILY)
def root_of_square(x):
    """sqrt(x^2) = |x|."""
    return Map("sqrt", Map("square", x)), Map("abs", x)


@rule(family=FAMILY, licence="exact")
def times_one(x):
    """x * 1 = x."""
    return x * Const(1.0), x


@rule(family=FAMILY)
def plus_zero(x):
    """x + 0 = x, but for the sign of a zero: -0 + 0 = 0."""
    return x + Const(0.0), x


@rule(family=FAMILY, licence="exact")
def same_choice(c, x):
    """where(c, x, x) = x."""
    return Where(c, x, x), x


@rule(family=FAMILY)
def fold_sum(a: Scalar, b: Scalar):
    """Constants are added."""
    return Const(a) + Const(b), Const(a + b)


@rule(family=FAMILY)
def fold_product(a: Scalar, b: Scalar):
    """Constants are multiplied."""
    return Const(a) * Const(b), Const(a * b)


@rule(family=FAMILY, licence="exact")
def fold_negation(a: Scalar):
    """Constants other than zero are negated: the engine knows one zero only."""
    return -Const(a), Const(-a), Nonzero(a)


@rule(family=FAMILY)
def fold_reciprocal(a: Scalar):
    """Constants other than zero are inverted."""
    return Map("recip", Const(a)), Const(a.reciprocal()), Nonzero(a)


# chains --------------------------------------------------------------------------------------------------------------------------
#
# Associativity and commutativity as equations would make every order of a chain: exponentially many forms.  As relations they say which
# operands a chain that the program writes has, and what is left without one or two of them: as many rows as pairs.  Only a rule that
# matches them asks for them.


@fact_rule(family=FAMILY)
def operand_of_two(t, x, y, o: Op2):
    """x o y has the operand x; so it has y."""
    return [wants_operands(o), written(o, t, x, y)], [operand(o, t, x, y)]


@fact_rule(family=FAMILY)
def operand_of_operand(t, s, x, y, rest, o: Op2):
    """(x o y) o rest = x o (y o rest)."""
    return [operand(o, t, s, rest), associative(o), written(o, s, x, y)], [operand(o, t, x, Map(o, y, rest))]


@fact_rule(family=FAMILY)
def operands_of_two(t, s, x, y, z, o: Op2):
    """(x o y) o z has the operands x and y."""
    return [wants_operands(o), written(o, t, s, z), written(o, s, x, y)], [operands(o, t, x, y, z)]


@fact_rule(family=FAMILY)
def operands_on_both_sides(t, s, x, z, rest, o: Op2):
    """(x o rest) o z = (x o z) o rest."""
    return (
        [written(o, t, s, z), operand(o, s, x, rest), associative(o)],
        [operands(o, t, x, z, rest), operands(o, t, z, x, rest)],
    )


@fact_rule(family=FAMILY)
def operands_inside_both_sides(t, s, z, x, y, p, q, o: Op2):
    """(x o p) o (y o q) = (x o y) o (p o q)."""
    return (
        [written(o, t, s, z), operand(o, s, x, p), operand(o, z, y, q), associative(o)],
        [operands(o, t, x, y, Map(o, p, q))],
    )


@fact_rule(family=FAMILY)
def operands_on_one_side(t, s, x, y, z, rest, o: Op2):
    """((x o y) o rest) o z = (x o y) o (rest o z)."""
    return [operands(o, s, x, y, rest), associative(o), written(o, t, s, z)], [operands(o, t, x, y, Map(o, rest, z))]
