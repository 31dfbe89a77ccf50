"""Broken signs, bounds and claims about what may be rounded apart."""

import math

import numpy as np

from eqfuse.ir import dtypes, terms
from eqfuse.ir.build import (
    abs_,
    axes,
    eq,
    exp,
    iota,
    log,
    lt,
    maximum,
    maximum_over,
    mean_over,
    program,
    select,
    sum_over,
    tanh,
    tensor,
)
from eqfuse.rewrites.comparisons import Modest, NotNegative
from eqfuse.rewrites.facts import (
    NonEmpty,
    at_least_one,
    at_most_one,
    finite,
    free,
    match,
    nonneg,
    nonpos,
    positive,
    within,
)
from eqfuse.rewrites.patterns import Cast, Const, Extent, Index, Map, Max, Reduce, Sum, Where
from eqfuse.rewrites.relations import (
    free_term,
    increasing,
    keeps_nonneg,
    keeps_positive,
    onehot,
    positive_if_bounded,
    separable,
    turns,
    turns_nonneg,
)
from eqfuse.rewrites.rule import AnyMonoid, AnyOp, Arguments, Axis, EitherWay, Op1, Op2, Scalar, Turns, TypeName

from . import mutant

i, j, none = axes(i=4, j=8, none=0)
x_, y_, c_ = tensor("x", i, j), tensor("y", i, j), tensor("c", i)
Exponential = Turns["add", "mul"]
Logarithm = Turns["mul", "add", "nonneg"]
SHIFTED = x_ - maximum_over(j, x_)


def claim(t):
    """A program whose one output is t."""
    return lambda: program("claim", y=(t, tuple(sorted(t.axes))))


@mutant("sign_of_constant", "sign guard", lambda: (-3.0 <= 0, -3.0 >= 0), claim(x_ + -3.0))
def negative_constant_is_nonneg(t, a: Scalar):
    """a >= 0 for a <= 0."""
    return [match(t, Const(a)), NotNegative(-a)], [nonneg(t)]


@mutant("constant_is_finite", "condition dropped", lambda: (True, np.isfinite(np.inf)), claim(select(lt(x_, 0.0), x_, math.inf)))
def constant_is_anything(t, a: Scalar):
    """a < inf for every a."""
    return [match(t, Const(a))], [finite(t)]


@mutant("positive_is_nonneg", "operand order", lambda: (0.0 >= 0, 0.0 > 0), claim(maximum(x_, 0.0)))
def nonneg_is_positive(x):
    """x > 0 for x >= 0."""
    return [nonneg(x)], [positive(x)]


@mutant("counts_are_nonneg", "off by one", lambda: (True, np.all(np.arange(3) > 0)), claim(x_ + iota(j)))
def positions_are_positive(t, j: Axis):
    """Positions count from 1."""
    return [match(t, Index(j))], [positive(t)]


@mutant("length_is_positive", "empty axis", lambda: (True, len([]) > 0), claim(x_ + terms.Extent(none)))
def every_length_is_positive(t, j: Axis):
    """size(j) > 0, also of an empty axis."""
    return [match(t, Extent(j))], [positive(t)]


@mutant("sign_of_op", "trait", lambda: (True, np.log(0.5) >= 0), claim(log(x_)))
def every_op_is_nonneg(t, x: Arguments, o: AnyOp):
    """o(x) >= 0 for every op."""
    return [match(t, Map(o, *x))], [nonneg(t)]


@mutant("sign_through_op", "trait", lambda: (0.5 >= 0, np.log(0.5) >= 0), claim(log(abs_(x_))))
def every_op_keeps_the_sign(t, x: Arguments, o: AnyOp):
    """o(x) >= 0 for x >= 0 and every op."""
    return [match(t, Map(o, *x)), *map(nonneg, x)], [nonneg(t)]


@mutant("sign_through_op", "trait", lambda: (np.isfinite(0.0), np.isfinite(np.log(0.0))), claim(log(select(lt(x_, 0.0), 0.0, 1.0))))
def every_op_is_finite(t, x: Arguments, o: AnyOp):
    """o(x) is finite for finite x and every op."""
    return [match(t, Map(o, *x)), *map(finite, x)], [finite(t)]


@mutant("sign_of_either", "trait", lambda: (1.0 >= 0, 1.0 + -3.0 >= 0), claim(abs_(x_) + y_))
def sign_of_one_term(t, x, y, both: EitherWay, o: Op2):
    """x + y >= 0 for x >= 0: that it keeps the sign of both says nothing of one."""
    return [match(t, Map(o, *both(x, y))), keeps_nonneg(o), nonneg(x)], [nonneg(t)]


@mutant("positive_through_op", "condition dropped", lambda: (2.0 > 0 and 0.0 >= 0, 2.0 * 0.0 > 0), claim(exp(tanh(x_)) * maximum(y_, 0.0)))
def positive_by_one_factor(t, x, y, o: Op2):
    """x * y > 0 for x > 0, y >= 0."""
    return [match(t, Map(o, x, y)), keeps_positive(o), positive(x), nonneg(y)], [positive(t)]


@mutant("exponential_of_finite", "condition dropped", lambda: (True, np.exp(-np.inf) > 0), claim(exp(x_)))
def exponential_is_always_positive(t, x, o: Op1):
    """e^x > 0, also for x = -inf."""
    return [match(t, Map(o, x)), positive_if_bounded(o)], [positive(t)]


@mutant("product_with_itself", "operand order", lambda: (True, 2.0 * -3.0 >= 0), claim(x_ * y_))
def product_is_nonneg(t, x, y):
    """x * y >= 0."""
    return [match(t, x * y)], [nonneg(t)]


@mutant("sum_of_positive", "sign guard", lambda: (0.0 >= 0, 0.0 + 0.0 > 0), claim(maximum(x_, 0.0) + maximum(y_, 0.0)))
def sum_of_nonneg_is_positive(t, x, y):
    """x + y > 0 for x, y >= 0."""
    return [match(t, x + y), nonneg(x), nonneg(y)], [positive(t)]


@mutant("sum_is_nonneg", "monoid", lambda: (True, np.max([], initial=-np.inf) >= 0), claim(maximum_over(none, abs_(c_))))
def maximum_of_nothing_is_nonneg(t, x, j: Axis, g: AnyMonoid):
    """max_j x >= 0 for x >= 0, also of nothing."""
    return [match(t, Reduce(g, j, x)), nonneg(x)], [nonneg(t)]


@mutant("cast_of_nonneg", "trait", lambda: (200.0 >= 0, np.float64(200.0).astype(np.int64).astype(np.int8) >= 0), claim(terms.Cast(dtypes.int8, abs_(x_) * 100.0)))
def cast_of_nonneg_to_anything(t, x, d: TypeName):
    """cast(x) >= 0 for x >= 0 and every type."""
    return [match(t, Cast(d, x)), nonneg(x)], [nonneg(t)]


@mutant("cast_to_unsigned", "trait", lambda: (True, np.float32(-1.0) >= 0), claim(terms.Cast(dtypes.float16, x_)))
def cast_to_any_type(t, x, d: TypeName):
    """cast(x) >= 0 for every type."""
    return [match(t, Cast(d, x))], [nonneg(t)]


@mutant("below_maximum", "monoid", lambda: (True, np.all(np.array([0.0, 1]) - np.min([0.0, 1]) <= 0)), claim(x_ - terms.Reduce("min", j, x_)))
def below_minimum(t, x, j: Axis):
    """x - min_j x <= 0: the wrong end."""
    return [match(t, x - Reduce("min", j, x)), NonEmpty(j)], [nonpos(t)]


@mutant("below_maximum", "operand order", lambda: (True, np.all(np.max([0.0, 1]) - np.array([0.0, 1]) <= 0)), claim(maximum_over(j, x_) - x_))
def maximum_below(t, x, j: Axis):
    """max_j x - x <= 0: the difference the wrong way round."""
    return [match(t, Max(j, x) - x), NonEmpty(j)], [nonpos(t)]


@mutant("below_maximum", "empty axis", lambda: (True, 3.0 - np.max([], initial=-np.inf) <= 0), claim(c_ - maximum_over(none, c_)))
def below_maximum_of_nothing(t, x, j: Axis):
    """x - max_j x <= 0 also where j is empty: the maximum is -inf there."""
    return [match(t, x - Max(j, x))], [nonpos(t)]


@mutant("below_maximum", "sign guard", lambda: (True, np.all(np.array([0.0, 1]) - np.max([0.0, 1]) >= 0)), claim(SHIFTED))
def above_maximum(t, x, j: Axis):
    """x - max_j x >= 0: the sign of the other end."""
    return [match(t, x - Max(j, x)), NonEmpty(j)], [nonneg(t)]


@mutant("product_of_signs", "sign guard", lambda: (-2.0 <= 0 and -3.0 <= 0, -2.0 * -3.0 <= 0), claim(SHIFTED * (y_ - maximum_over(j, y_))))
def product_of_two_nonpos(t, x, y):
    """x * y <= 0 for x, y <= 0."""
    return [match(t, x * y), nonpos(x), nonpos(y)], [nonpos(t)]


@mutant("sign_through_op", "condition dropped", lambda: (-1.0 <= 0, -1.0 + 3.0 <= 0), claim(SHIFTED + y_))
def sum_of_one_nonpos(t, x, y):
    """x + y <= 0 for x <= 0, whatever y is."""
    return [match(t, x + y), nonpos(x)], [nonpos(t)]


@mutant("sign_of_choice", "condition dropped", lambda: (-1.0 <= 0, np.where(False, -1.0, 2.0) <= 0), claim(select(lt(y_, 0.0), SHIFTED, abs_(y_))))
def choice_of_one_nonpos(t, c, x, y):
    """where(c, x, y) <= 0 for x <= 0, whatever y is."""
    return [match(t, Where(c, x, y)), nonpos(x)], [nonpos(t)]


@mutant("sign_of_reduction", "empty axis", lambda: (True, np.min([], initial=np.inf) <= 0), claim(terms.Reduce("min", none, -abs_(c_))))
def reduction_of_no_nonpos(t, x, j: Axis, g: AnyMonoid):
    """min_j x <= 0 for x <= 0, also where j is empty: that minimum is inf."""
    return [match(t, Reduce(g, j, x)), nonpos(x)], [nonpos(t)]


@mutant("exponential_of_nonpos", "sign guard", lambda: (1.0 >= 0, np.exp(1.0) <= 1), claim(exp(abs_(x_))))
def exponential_of_nonneg(t, x, o: Exponential):
    """o(x) <= 1 for x >= 0."""
    return [match(t, Map(o, x)), turns(o, "add", "mul"), increasing(o), nonneg(x)], [at_most_one(t)]


@mutant("exponential_of_nonpos", "condition dropped", lambda: (True, np.exp(1.0) <= 1), claim(exp(x_)))
def exponential_of_anything(t, x, o: Exponential):
    """o(x) <= 1 for every x."""
    return [match(t, Map(o, x)), turns(o, "add", "mul"), increasing(o)], [at_most_one(t)]


@mutant("total_of_exponentials", "count lost", lambda: (True, np.mean(np.exp([-5.0, 0])) >= 1), claim(mean_over(j, exp(SHIFTED))))
def mean_of_exponentials(t, x, j: Axis, o: Exponential):
    """mean_j o(x - max_j x) >= 1: the total is, divided by the count it is not."""
    return [match(t, Reduce("mean", j, Map(o, x - Max(j, x)))), turns(o, "add", "mul"), NonEmpty(j)], [at_least_one(t)]


@mutant("total_of_exponentials", "term lost", lambda: (True, np.sum(np.exp([-9.0, -8])) >= 1), claim(sum_over(j, exp(x_ + -4.0))))
def total_without_reference(t, x, j: Axis, o: Exponential):
    """sum_j o(x) >= 1: nothing subtracts the maximum."""
    return [match(t, Sum(j, Map(o, x))), turns(o, "add", "mul"), NonEmpty(j)], [at_least_one(t)]


@mutant("inverse_of_large", "sign guard", lambda: (0.5 <= 1, 1 / 0.5 <= 1), claim(1.0 / exp(SHIFTED)))
def inverse_of_small(t, x):
    """1/x <= 1 for x <= 1."""
    return [match(t, Map("recip", x)), at_most_one(x)], [at_most_one(t)]


@mutant("product_of_fractions", "condition dropped", lambda: (-3.0 <= 1, -3.0 * -3.0 <= 1), claim(exp(SHIFTED) * exp(y_ - maximum_over(j, y_))), why="whatever the rules know to be at most 1 is an exponential or the inverse of a sum of them, and not negative")
def product_of_small(t, x, y):
    """x * y <= 1 for x, y <= 1, however negative."""
    return [match(t, x * y), at_most_one(x), at_most_one(y)], [at_most_one(t)]


@mutant("logarithm_about_one", "sign guard", lambda: (0.5 <= 1, np.log(0.5) >= 0), claim(log(exp(SHIFTED))))
def logarithm_of_small(t, x, o: Logarithm):
    """o(x) >= 0 for x <= 1."""
    return [match(t, Map(o, x)), turns_nonneg(o, "mul", "add"), increasing(o), at_most_one(x)], [nonneg(t)]


@mutant("size_of_constant", "sign guard", lambda: (True, abs(-3.0) <= -3.0), claim(x_ + -3.0))
def size_of_any_constant(t, a: Scalar):
    """|a| = a, also for a < 0."""
    return [match(t, Const(a)), Modest(a)], [within(t, a)]


@mutant("size_of_sum", "term lost", lambda: (abs(1.0) <= 1 and abs(2.0) <= 2, abs(1.0 + 2.0) <= 2), claim(tanh(x_) + tanh(y_)))
def size_of_one_term(t, x, y, a: Scalar, b: Scalar):
    """|x + y| <= |y|."""
    return [match(t, x + y), within(x, a), within(y, b)], [within(t, b)]


@mutant("size_of_product", "operand order", lambda: (abs(3.0) <= 3 and abs(4.0) <= 4, abs(3.0 * 4.0) <= 3 + 4), claim((tanh(x_) * 9.0) * (tanh(y_) * 9.0)))
def size_of_product_as_sum(t, x, y, a: Scalar, b: Scalar):
    """|x * y| <= |x| + |y|."""
    return [match(t, x * y), within(x, a), within(y, b), Modest(a), Modest(b)], [within(t, a + b)]


@mutant("size_of_choice", "term lost", lambda: (abs(1.0) <= 1, abs(np.where(False, 1.0, 2.0)) <= 1), claim(select(lt(y_, 0.0), tanh(x_), 5.0)))
def size_of_first_arm(t, c, x, y, a: Scalar, b: Scalar):
    """|where(c, x, y)| <= |x|."""
    return [match(t, Where(c, x, y)), within(x, a), within(y, b)], [within(t, a)]


@mutant("size_of_selection", "monoid", lambda: (np.all(np.abs([1.0, 1]) <= 1), abs(np.sum([1.0, 1])) <= 1), claim(sum_over(j, tanh(x_))))
def size_of_any_reduction(t, x, a: Scalar, j: Axis, g: AnyMonoid):
    """|sum_j x| <= max_j |x|."""
    return [match(t, Reduce(g, j, x)), NonEmpty(j), within(x, a)], [within(t, a)]


@mutant("size_of_saturating", "trait", lambda: (True, abs(np.exp(1.0)) <= 1), claim(exp(tanh(x_))))
def size_of_any_function(t, x, a: Scalar, o: Op1):
    """|o(x)| <= |a| for every o, from the bound of its argument."""
    return [match(t, Map(o, x)), within(x, a)], [within(t, a)]


@mutant("separable_of_sign", "condition dropped", lambda: (1e4 >= 0, abs(1e4) <= max(abs(1e4 - 9999.0), 100)), claim(sum_over(j, tanh(abs_(c_) * 1e4 + x_ * 1e4))))
def separable_of_one_nonneg(t, f, x, j: Axis):
    """|f| <= |f + x| for f >= 0, whatever x is."""
    return [free_term(t, j, f, x), nonneg(f)], [separable(f, x)]


@mutant("separable_of_sign", "sign guard", lambda: (-1e4 <= 0 and 9999.0 >= 0, abs(-1e4) <= max(abs(-1e4 + 9999.0), 100)), claim(sum_over(j, tanh(-abs_(c_ * 1e4) + abs_(x_ * 1e4)))))
def separable_of_signs(t, f, x, j: Axis):
    """|f| <= |f + x| for f <= 0 <= x."""
    return [free_term(t, j, f, x), nonpos(f), nonneg(x)], [separable(f, x)]


@mutant("separable_modest", "condition dropped", lambda: (abs(1e4) <= 1e6, abs(1e4) <= max(abs(1e4 - 9999.0), 100)), claim(sum_over(j, tanh((tanh(c_) * 99.0 + tanh(c_ * 2.0) * 99.0) + x_ * 99.0))))
def separable_bounded(t, f, x, a: Scalar, j: Axis):
    """Any bounded f may be added later, however large its bound."""
    return [free_term(t, j, f, x), within(f, a)], [separable(f, x)]


@mutant("position_is_onehot", "free missing", lambda: (True, np.sum(np.arange(3) == np.arange(3)) <= 1), claim(select(eq(iota(j), maximum(iota(j), 0.0)), x_, 0.0)))
def any_position_is_onehot(c, y, j: Axis):
    """index(j) == y at one place at most, also for a y that depends on j."""
    return [match(c, Map("eq", Index(j), y))], [onehot(c, j)]


@mutant("position_is_onehot", "operand order", lambda: (True, np.sum(np.arange(3) >= 0) <= 1), claim(select(terms.Map("ge", (iota(j), c_ * 0.0)), x_, 0.0)))
def positions_above_are_onehot(c, y, j: Axis):
    """index(j) >= y at one place at most."""
    return [match(c, Map("ge", Index(j), y)), free(y, j)], [onehot(c, j)]


