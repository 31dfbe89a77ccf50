"""False rules about what the audit has no numbers for: running values, accumulators, and what a cast rounds.  Their checks refute them."""

import pytest

from eqfuse import errors
from eqfuse.rewrites import check_rule
from eqfuse.rewrites.facts import has_type, match, nonneg, settled, spans
from eqfuse.rewrites.patterns import Cast, Map, Pre, Reduce, Ref
from eqfuse.rewrites.relations import fold_nonneg
from eqfuse.rewrites.rule import AnyMonoid, AnyOp, Arguments, Axis, TypeName, make_rule


def axes_of_no_accumulator(t, x, j: Axis):
    """The sum over x up to this step depends on nothing."""
    return [match(t, Pre(j, x))], [spans(t)]


def settled_by_first_argument(t, x: Arguments, o: AnyOp):
    """o(x, y) is settled if x is."""
    return [match(t, Map(o, *x)), settled(x[0])], [settled(t)]


def every_reduction_is_settled(t, x, j: Axis, g: AnyMonoid):
    """sum_j x is settled, whatever x is."""
    return [match(t, Reduce(g, j, x))], [settled(t)]


def running_value_is_settled(t, r, j: Axis):
    """The running value of r is the same at every reference."""
    return [match(t, Ref("new", j, r))], [settled(t)]


def type_before_the_cast(t, x, d: TypeName):
    """x is a number of the type that it is cast to."""
    return [match(t, Cast(d, x))], [has_type(x, d)]


def running_value_of_nothing(t, r, s, j: Axis, g: AnyMonoid):
    """A running value has the sign of every element, also where there is none."""
    return [match(t, Ref("new", j, r)), match(r, Reduce(g, j, s)), fold_nonneg(g), nonneg(s)], [nonneg(t)]


FALSE = [
    axes_of_no_accumulator, settled_by_first_argument, every_reduction_is_settled, running_value_is_settled, type_before_the_cast,
    running_value_of_nothing,
]  # fmt: skip


@pytest.mark.parametrize("function", FALSE, ids=lambda f: f.__name__)
def test_a_false_analysis_is_refuted(function):
    with pytest.raises(errors.UnsoundRuleError, match=function.__name__):
        check_rule(make_rule(function, "mine", "exact", "analysis", True))
