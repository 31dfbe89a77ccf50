"""Every registered rule is checked; malformed and false rules are refused, with their place."""

from __future__ import annotations

import pytest

from eqfuse import errors
from eqfuse.ir import ops, ranges
from eqfuse.rewrites import registry
from eqfuse.rewrites.check import CI_EXAMPLES, check_rule
from eqfuse.rewrites.decorators import rule
from eqfuse.rewrites.facts import NonEmpty, at_least_one, equal, free, match, nonneg, nonpos, within
from eqfuse.rewrites.library import FAMILIES
from eqfuse.rewrites.patterns import Const, Extent, Map, Max, Reduce, Sum
from eqfuse.rewrites.relations import (  # fmt: skip
    changes_by_factor,
    changes_by_term,
    free_term,
    needs_repair,
    onehot,
    separable,
    turns,
)
from eqfuse.rewrites.rule import Axis, Kind, LinearMonoid, Scalar, Turns, make_rule


@pytest.mark.parametrize("examples", [20, pytest.param(CI_EXAMPLES, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("r", registry.rules(), ids=lambda r: r.name)
def test_every_rule_holds(r, examples):
    """A wrong rule falls at once, as a rule; a difference of infinite values was refuted by CI's examples, and not by 60."""
    check_rule(r, examples)


@pytest.mark.parametrize("r", registry.rules(), ids=lambda r: r.name)
def test_every_rule_says_what_it_is(r):
    assert r.doc
    assert r.licence in ("exact", "real", "approx")
    assert r.family in FAMILIES
    assert r.file.startswith("rewrites/")
    assert r.line > 0
    assert f':name "{r.name}"' in r.egglog()


Rooted = Turns["mul", "mul", "nonneg"]
Exponential = Turns["add", "mul"]

# false rules ---------------------------------------------------------------------------------------------------------------------


def max_scale_without_sign(a, c, j: Axis):
    """max a*c = c * max a, wrongly for negative c."""
    return Max(j, a * c), Max(j, a) * c, free(c, j)


def max_scale_by_nonnegative(a, c, j: Axis):
    """max a*c = c * max a fails for c = 0 and an a of -inf."""
    return Max(j, a * c), Max(j, a) * c, free(c, j), nonneg(c)


def factor_without_free(a, b, j: Axis):
    """sum a*b = b * sum a, wrongly for a b that depends on j."""
    return Sum(j, a * b), b * Sum(j, a)


def sum_without_extent(a, j: Axis):
    """sum a = a, wrongly."""
    return Sum(j, a), a, free(a, j)


def mean_with_extent(a, j: Axis):
    """mean a = size * a, wrongly."""
    return Reduce("mean", j, a), Extent(j) * a, free(a, j)


def cancel(a, b):
    """(a*b)/b = a, wrongly where b = 0 (right wherever the LEFT side is finite)."""
    return (a * b) / b, a


def difference_is_zero(a):
    """a - a = 0, wrongly where a is -inf."""
    return a - a, Const(0.0)


def log_of_any_product(a, b):
    """log(a*b) = log a + log b, wrongly for two negative numbers."""
    return Map("log", a * b), Map("log", a) + Map("log", b)


def root_of_any_product(t, x, r, xn, q, j: Axis, k: Kind, o: Rooted):
    """o(x*q) = o(x)*o(q), wrongly without signs."""
    return [changes_by_factor(k, j, x, r, xn, q), match(t, Map(o, x))], [changes_by_factor(k, j, t, r, Map(o, xn), Map(o, q))]


def exponential_keeps_shift(t, x, r, xn, d, j: Axis, k: Kind, o: Exponential):
    """o(x+d) = o(x) * d, wrongly."""
    return [changes_by_term(k, j, x, r, xn, d), turns(o, "add", "mul"), needs_repair(t, j), match(t, Map(o, x))], [
        changes_by_factor(k, j, t, r, Map(o, xn), d)
    ]


def shift_scaled_without_factor(t, x, b, r, xn, d, j: Axis, k: Kind):
    """(x+d)*b = x*b + d, wrongly."""
    return [changes_by_term(k, j, x, r, xn, d), match(t, x * b)], [changes_by_term(k, j, t, r, xn * b, d)]


def factor_of_any_sum(e, t, r, tn, q, j: Axis, g: LinearMonoid):
    """sum t(new) = q * sum t, wrongly for a q that depends on j."""
    return [match(e, Reduce(g, j, t)), changes_by_factor("run", j, t, r, tn, q)], [equal(Reduce(g, j, tn), q * e)]


def below_any_maximum(t, x, y, j: Axis):
    """x - max y <= 0, wrongly."""
    return [match(t, x - Max(j, y)), NonEmpty(j)], [nonpos(t)]


def total_is_large(t, x, j: Axis, o: Exponential):
    """sum o(x) >= 1, wrongly without its reference."""
    return [match(t, Sum(j, Map(o, x))), turns(o, "add", "mul"), NonEmpty(j)], [at_least_one(t)]


def size_of_selection_of_sum(t, x, a: Scalar, j: Axis):
    """|sum x| <= |x|, wrongly."""
    return [match(t, Sum(j, x)), within(x, a)], [within(t, a)]


def always_separable(t, f, x, j: Axis):
    """|f| <= |f + x|, wrongly for values that cancel."""
    return [free_term(t, j, f, x)], [separable(f * 1000.0, x * 1000.0)]


def any_comparison_is_onehot(c, x, y, j: Axis):
    """x == y at one place at most, wrongly."""
    return [match(c, Map("eq", x, y)), free(y, j)], [onehot(c, j)]


FALSE = [
    below_any_maximum, total_is_large, size_of_selection_of_sum, always_separable, any_comparison_is_onehot,
    max_scale_without_sign, max_scale_by_nonnegative, factor_without_free, sum_without_extent, mean_with_extent, cancel,
    difference_is_zero, log_of_any_product, root_of_any_product, exponential_keeps_shift, shift_scaled_without_factor,
    factor_of_any_sum,
]  # fmt: skip


@pytest.mark.parametrize("function", FALSE, ids=lambda f: f.__name__)
def test_false_rules_are_caught(function):
    r = make_rule(function, "user", "real", "factor", True)
    with pytest.raises(errors.UnsoundRuleError) as caught:
        check_rule(r, 1000)
    text = str(caught.value)
    assert r.name in text
    assert f"test_rules.py:{r.line}" in text


def test_the_counterexample_is_small():
    r = make_rule(sum_without_extent, "user", "real", "factor", True)
    with pytest.raises(errors.UnsoundRuleError, match=r"axis j: [02] long"):
        check_rule(r)


# malformed rules ---------------------------------------------------------------------------------------------------------------------


def unbound(x, y):
    """x + 0 = y."""
    return x + 0.0, y


def silent(x):
    return x + 0.0, x


def odd(x: int):
    """x = x."""
    return x, x


def one_sided(x):
    """Nothing follows."""
    return x


MALFORMED = [
    (unbound, "real", "factor", "'y' is used on the right side"),
    (silent, "real", "factor", "no docstring"),
    (odd, "real", "factor", "unknown annotation"),
    (one_sided, "real", "factor", "returns"),
    (cancel, "nearly", "factor", "unknown licence"),
    (cancel, "real", "lunch", "unknown phase"),
]


@pytest.mark.parametrize(("function", "licence", "phase", "message"), MALFORMED)
def test_malformed_rules_are_refused(function, licence, phase, message):
    with pytest.raises(errors.RuleError, match=message) as caught:
        make_rule(function, "user", licence, phase, True)
    assert caught.value.where.startswith("rewrites/test_rules.py:")
    assert caught.value.cure


def test_names_are_unique():
    with pytest.raises(errors.RuleError, match="already taken by rewrites/algebra"):

        @rule(family="user")
        def times_one(x):
            """x * 1 = x."""
            return x * 1.0, x


def test_registry_is_a_table():
    before = registry.rules()

    @rule(family="user", licence="approx")
    def cosine_of_small(x):
        """cos(x) = cos(-x)."""
        return Map("cos", x), Map("cos", -x)

    try:
        assert registry.rules() == (*before, cosine_of_small)
        assert registry.rules("user") == (cosine_of_small,)
        assert cosine_of_small not in registry.active("real")
        assert cosine_of_small in registry.active("approx")
        registry.disable("cosine_of_small")
        assert cosine_of_small not in registry.active("approx")
    finally:
        registry.unregister("cosine_of_small")
    assert registry.rules() == before
    with pytest.raises(errors.RuleError, match="no rule"):
        registry.disable("cosine_of_small")


def test_a_new_op_takes_part_by_its_traits():
    """An op declared by a user is repaired without a new rule."""
    import numpy as np

    from eqfuse.egraph.audit import audit
    from eqfuse.egraph.frozen import levels
    from eqfuse.egraph.saturate import saturate
    from eqfuse.ir.build import axes, maximum_over, program, sum_over, tensor
    from eqfuse.ir.terms import Map as Term

    i, j = axes(i=4, j=8)
    x = tensor("x", i, j)
    ten = ops.ScalarOp(
        "exp10", 1, lambda v: np.power(10.0, v), ops.triton("tl.exp({} * 2.302585)"), ranges.increasing(lambda v: 10.0**v, 0.0),
        turns=(("add", "mul"),), increasing=True,
    )  # fmt: skip
    ops.register(ten)
    try:
        p = program("tens", y=(sum_over(j, Term("exp10", (x - maximum_over(j, x),))), (i,)))
        graph = saturate(p)
        assert levels(graph, graph.roots["y"], j) == 1
        audit(graph)
    finally:
        del ops.OPS["exp10"]
