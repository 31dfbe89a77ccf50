# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""Signs, bounds, and what may be rounded apart.

Equality over the reals says nothing about digits: if u + v is small because u and v cancel, then u and v may not reach a result on
different ways.  ``separable(f, x)`` says that nothing is lost by taking f out of f + x, because |f| <= |f + x| (both have one
sign: |f| + |x| = |f + x|) or because f is modest whatever the inputs (a tanh, a constant, a probability).  Every law that splits
or regroups a sum of terms asks for it.  Facts about signs come from what is known of selections and exponentials:
x - max x <= 0, and its exponentials are at most 1 and add up to at least 1, so that their logarithm is not negative.

What an op makes of signs follows from the range that it declares (:mod:`..ir.signs`), what a reduction makes of them from its op.  An
exponential is positive only if its argument is not infinite: it is 0 where a mask put -inf.  But for ``finite``, which is said of numbers,
every fact leaves NaN aside.
"""

from __future__ import annotations

import math

from .language import *

FAMILY, PHASE = "signs", "analysis"
ONE = NumberLiteral(1.0)


# signs ---------------------------------------------------------------------------------------------------------------------------

SIGNS = Each[nonneg, nonpos, positive, finite]


SIZES = Each[(lambda a: a, nonneg), (lambda a: -a, nonpos)]  # what of a is |a|, and the sign of such an a


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def sign_of_constant(t, a: Scalar, says: SIZES):
    """a >= 0, or a <= 0."""
    size, sign = says
    return [match(t, Const(a)), NotNegative(size(a))], [sign(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def constant_is_positive(t, a: Scalar):
    """a > 0."""
    return [match(t, Const(a)), less(0.0, a), less(a, math.inf)], [positive(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def constant_is_finite(t, a: Scalar):
    """-inf < a < inf."""
    return [match(t, Const(a)), less(a, math.inf), less(-math.inf, a)], [finite(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def counts_are_nonneg(t, j: Axis, count: Each[Extent, Index]):
    """Lengths and positions count from 0."""
    return [match(t, count(j))], [nonneg(t), finite(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def length_is_positive(t, j: Axis):
    """size(j) > 0 if there is an element."""
    return [match(t, Extent(j)), NonEmpty(j)], [positive(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def positive_is_nonneg(x):
    """x >= 0 for x > 0."""
    return [positive(x)], [nonneg(x)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def truth_is_nonneg(x):
    """0 and 1 are finite and not negative."""
    return [truth(x)], [nonneg(x), finite(x)]


@fact_rule(family=FAMILY, phase=PHASE)
def sign_of_op(t, x: Arguments, o: AnyOp, says: Each[(always_nonneg, nonneg), (makes_truth, truth)]):
    """|x| >= 0; so for every op whose range says it of all arguments."""
    trait, sign = says
    return [match(t, Map(o, *x)), trait(o)], [sign(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def sign_through_op(t, x: Arguments, o: AnyOp, says: Each[(keeps_nonneg, nonneg), (keeps_nonpos, nonpos), (keeps_bounded, finite)]):
    """x + y >= 0 for x, y >= 0; so for every op whose range says it of arguments that are all so."""
    trait, sign = says
    return [match(t, Map(o, *x)), trait(o), *map(sign, x)], [sign(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def positive_through_op(t, x: Arguments, o: AnyOp):
    """x * y > 0 for x, y > 0; so 1/x > 0, which is taken for granted of data that are infinite."""
    return [match(t, Map(o, *x)), keeps_positive(o), *map(positive, x), *(finite_or(a, 1.0) for a in x)], [positive(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def sign_of_either(t, x, y, both: EitherWay, o: Op2, says: Each[(nonneg_if_one, nonneg), (positive_if_one, positive)]):
    """max(x, y) >= 0 for x >= 0; so for every op whose range says it of one argument that is so."""
    trait, sign = says
    return [match(t, Map(o, *both(x, y))), trait(o), sign(x)], [sign(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def exponential_of_finite(t, x, o: Op1):
    """e^x > 0 for finite x; so for every op that reaches 0 at infinity only."""
    return [match(t, Map(o, x)), positive_if_bounded(o), finite(x)], [positive(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def exponential_of_bounded(t, x, a: Scalar, o: Op1):
    """e^tanh(x) > 0; so of all that has a bound."""
    return [match(t, Map(o, x)), positive_if_bounded(o), within(x, a), less(a, math.inf)], [positive(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def product_with_itself(t, x):
    """x * x >= 0."""
    return [match(t, x * x)], [nonneg(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def sum_of_positive(t, x, y):
    """x + y > 0 for x > 0, y >= 0."""
    return [match(t, x + y), positive(x), nonneg(y)], [positive(t)]


OPPOSITE = Each[(nonneg, nonpos), (nonpos, nonneg)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def sign_of_negation(t, x, signs: OPPOSITE):
    """-x <= 0 for x >= 0, and the other way round."""
    before, after = signs
    return [match(t, -x), before(x)], [after(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def product_of_signs(t, x, y, signs: OPPOSITE):
    """x * y <= 0 for x <= 0 <= y; x * y >= 0 for x, y <= 0."""
    before, after = signs
    return [match(t, x * y), nonpos(x), before(y)], [after(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def sign_of_choice(t, c, x, y, sign: SIGNS):
    """where(c, x, y) >= 0 for x, y >= 0; so for every sign."""
    return [match(t, Where(c, x, y)), sign(x), sign(y)], [sign(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def sign_in_view(t, x, j: Axis, e: Position, sign: SIGNS):
    """x[j = e] >= 0 for x >= 0; so for every sign."""
    return [match(t, View(x, j, e)), sign(x)], [sign(t)]


@fact_rule(family=FAMILY, licence="exact", phase=PHASE)
def sign_in_gather(t, x, j: Axis, p, sign: Each[nonneg, nonpos]):
    """x[j = p] >= 0 for x >= 0, for it is an element of x or 0; so for x <= 0."""
    return [match(t, Gather(x, j, p)), sign(x)], [sign(t)]


FOLDS = Each[(fold_nonneg, nonneg), (fold_nonpos, nonpos), (fold_positive, positive), (fold_bounded, finite)]
ROLLED = Each[FOLDS.choices[0], FOLDS.choices[2]]  # nobody asks for the others


@fact_rule(family=FAMILY, phase=PHASE)
def sign_of_reduction(t, x, j: Axis, g: AnyMonoid, says: FOLDS):
    """sum_j x >= 0 for x >= 0; so for every monoid whose op says it, but of nothing."""
    trait, sign = says
    return [match(t, Reduce(g, j, x)), NonEmpty(j), trait(g), sign(x)], [sign(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def sum_is_nonneg(t, x, j: Axis, g: LinearMonoid):
    """sum_j x >= 0 for x >= 0, also of nothing."""
    return [match(t, Reduce(g, j, x)), linear(g), nonneg(x)], [nonneg(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def sign_of_running_value(t, r, s, j: Axis, g: AnyMonoid, when: Each["new", "old"], says: ROLLED):
    """A running value has the sign that every element has.  That of the whole would not do: -1 + 3 > 0, and -1 was before."""
    trait, sign = says
    return [match(t, Ref(when, j, r)), match(r, Reduce(g, j, s)), NonEmpty(j), trait(g), sign(s)], [sign(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def cast_of_nonneg(t, x, d: TypeName):
    """cast(x) >= 0 for x >= 0 and a type of floats or truth values; an integer may wrap."""
    return [match(t, Cast(d, x)), keeps_sign(d), nonneg(x)], [nonneg(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def cast_to_unsigned(t, x, d: TypeName):
    """cast(x) >= 0 for a type without negative numbers."""
    return [match(t, Cast(d, x)), unsigned(d)], [nonneg(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def cast_of_nonpos(t, x, d: TypeName):
    """cast(x) <= 0 for x <= 0 and a type of floats; an integer may wrap."""
    return [match(t, Cast(d, x)), rounding(d), nonpos(x)], [nonpos(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def below_maximum(t, x, j: Axis, end: Each[("max", nonpos), ("min", nonneg)]):
    """x - max_j x <= 0, and x - min_j x >= 0."""
    monoid, sign = end
    return [match(t, x - Reduce(monoid, j, x)), NonEmpty(j)], [sign(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def below_safe_maximum(t, x, j: Axis):
    """x - max_j x <= 0, also with 0 for a maximum of -inf: there x is -inf."""
    m = Max(j, x)
    return [match(t, x - Where(Map("eq", m, Const(-math.inf)), 0.0, m)), NonEmpty(j)], [nonpos(t)]


# bounds of 1 -----------------------------------------------------------------------------------------------------------------------


@fact_rule(family=FAMILY, phase=PHASE)
def exponential_of_nonpos(t, x, o: Turns["add", "mul"]):
    """o(x) <= o(0) = 1 for x <= 0 and an increasing o that turns sums into products."""
    return [match(t, Map(o, x)), turns(o, "add", "mul"), increasing(o), nonpos(x)], [at_most_one(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def total_of_exponentials(t, x, j: Axis, o: Turns["add", "mul"]):
    """sum_j o(x - max_j x) >= 1: at the maximum the term is o(0) = 1, and no term is negative."""
    return [match(t, Sum(j, Map(o, x - Max(j, x)))), turns(o, "add", "mul"), NonEmpty(j)], [at_least_one(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def inverse_of_large(t, x):
    """1/x <= 1 for x >= 1."""
    return [match(t, Map("recip", x)), at_least_one(x)], [at_most_one(t)]


@fact_rule(family=FAMILY, phase=PHASE, mirrored=False)
def product_of_fractions(t, x, y):
    """x * y <= 1 for x, y between 0 and 1."""
    return [match(t, x * y), nonneg(x), at_most_one(x), nonneg(y), at_most_one(y)], [at_most_one(t)]


@fact_rule(family=FAMILY, phase=PHASE)
def logarithm_about_one(t, x, o: Turns["mul", "add", "nonneg"], side: Each[(at_least_one, nonneg), (at_most_one, nonpos)]):
    """o(x) >= o(1) = 0 for x >= 1 and an increasing o that turns products into sums; o(x) <= 0 for x <= 1."""
    bound, sign = side
    return [match(t, Map(o, x)), turns_nonneg(o, "mul", "add"), increasing(o), bound(x)], [sign(t)]


# the largest magnitude -------------------------------------------------------------------------------------------------------------


@fact_rule(family=FAMILY, phase=PHASE)
def size_of_constant(t, a: Scalar, says: SIZES):
    """|a| = a for a >= 0, and -a for a <= 0."""
    size, _ = says
    return [match(t, Const(a)), NotNegative(size(a)), Modest(size(a))], [within(t, size(a))]


@fact_rule(family=FAMILY, phase=PHASE)
def size_of_saturating(t, x, a: Scalar, o: Op1):
    """|tanh x| <= 1; so for every op with a bounded range."""
    return [match(t, Map(o, x)), saturating(o, a)], [within(t, a)]


@fact_rule(family=FAMILY, phase=PHASE)
def size_of_fraction(x):
    """|x| <= 1 for x between 0 and 1."""
    return [nonneg(x), at_most_one(x)], [within(x, ONE)]


@fact_rule(family=FAMILY, phase=PHASE)
def size_of_negation(t, x, a: Scalar):
    """|-x| = |x|."""
    return [match(t, -x), within(x, a)], [within(t, a)]


@fact_rule(family=FAMILY, phase=PHASE, mirrored=False)
def size_of_sum(t, x, y, a: Scalar, b: Scalar):
    """|x + y| <= |x| + |y|."""
    return [match(t, x + y), within(x, a), within(y, b)], [within(t, a + b)]


@fact_rule(family=FAMILY, phase=PHASE, mirrored=False)
def size_of_product(t, x, y, a: Scalar, b: Scalar):
    """|x * y| = |x| |y|."""
    return [match(t, x * y), within(x, a), within(y, b), Modest(a), Modest(b)], [within(t, a * b)]


@fact_rule(family=FAMILY, phase=PHASE)
def size_of_choice(t, c, x, y, a: Scalar, b: Scalar):
    """|where(c, x, y)| <= |x| + |y|."""
    return [match(t, Where(c, x, y)), within(x, a), within(y, b)], [within(t, a + b)]


@fact_rule(family=FAMILY, phase=PHASE)
def size_of_selection(t, x, a: Scalar, j: Axis, g: IdempotentMonoid):
    """|max_j x| <= max_j |x|; so for min."""
    return [match(t, Reduce(g, j, x)), idempotent(g), NonEmpty(j), within(x, a)], [within(t, a)]


@fact_rule(family=FAMILY, phase=PHASE)
def size_of_mean(t, x, a: Scalar, j: Axis):
    """|mean_j x| <= max_j |x|."""
    return [match(t, Reduce("mean", j, x)), within(x, a)], [within(t, a)]


@fact_rule(family=FAMILY, phase=PHASE)
def size_of_view(t, x, a: Scalar, j: Axis, e: Position):
    """|x[j = e]| <= max |x|."""
    return [match(t, View(x, j, e)), within(x, a)], [within(t, a)]


# what may be rounded apart -----------------------------------------------------------------------------------------------------------


@fact_rule(family=FAMILY, phase=PHASE)
def separable_of_sign(t, f, x, j: Axis, sign: Each[nonneg, nonpos]):
    """|f| <= |f + x| for f and x of one sign."""
    return [free_term(t, j, f, x), sign(f), sign(x)], [separable(f, x)]


@fact_rule(family=FAMILY, phase=PHASE)
def separable_modest(t, f, x, a: Scalar, j: Axis):
    """A modest f may be added later: the absolute error stays near one rounding of f."""
    return [free_term(t, j, f, x), within(f, a), Modest(a)], [separable(f, x)]


@fact_rule(family=FAMILY, phase=PHASE)
def position_is_onehot(c, y, j: Axis, both: EitherWay):
    """index(j) == y at one place at most, for y free of j."""
    return [match(c, Map("eq", *both(Index(j), y))), free(y, j)], [onehot(c, j)]
