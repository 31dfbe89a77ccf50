"""Rules and targets as the face shows them; extra and disabled rules take part, or do not, in a call."""

import pytest

import eqfuse
from eqfuse.errors import OptionError, RuleError, UnsoundRuleError
from eqfuse.ir.build import axes, maximum_over, program, sum_over, tensor
from eqfuse.rewrites.patterns import Map, Sum
from eqfuse.rewrites.registry import unregister
from eqfuse.rewrites.rule import Axis, make_rule

I, J = axes(i=4096, j=8192)
X = tensor("x", I, J)
P = program("rows", y=(sum_over(J, (X - maximum_over(J, X)) * 3.0), (I,)))


def names(compiled):
    return {r.rule for r in compiled.graph.report.rules}


def twice_tanh(x):
    """tanh(x) + tanh(x) = 2 * tanh(x)."""
    return Map("tanh", x) + Map("tanh", x), Map("tanh", x) * 2.0


def product_of_sums(x, y, k: Axis):
    """sum_k x*y = (sum_k x) * (sum_k y), which is false."""
    return Sum(k, x * y), Sum(k, x) * Sum(k, y)


def test_the_table_of_rules():
    rules = eqfuse.rules()
    assert len({r.name for r in rules}) == len(rules) > 10
    assert all(r.doc and ":" in r.where for r in rules)
    assert {r.family for r in eqfuse.rules("repair")} == {"repair"}


def test_targets():
    assert {"h200", "h100", "a100", "b200", "mi300x"} <= set(eqfuse.targets())
    for name in eqfuse.targets():
        compiled = eqfuse.optimize(program("twice", y=(X * 2.0, (I, J))), target=name)
        assert compiled.plan.target == name


def test_check_rule():
    for r in eqfuse.rules()[:3]:
        eqfuse.testing.check_rule(r)
    false = make_rule(product_of_sums, "user", "real", "factor", True)
    with pytest.raises(UnsoundRuleError, match=r"rule product_of_sums is false") as info:
        eqfuse.testing.check_rule(false)
    assert "test_rules.py:" in info.value.where


def test_a_decorated_rule_is_registered():
    from eqfuse.rewrites.decorators import rule as decorator

    assert eqfuse.rule is decorator
    try:
        mine = eqfuse.rule(family="user", licence="real")(twice_tanh)
        assert mine in eqfuse.rules()
        assert "twice_tanh" in names(eqfuse.optimize(P, target="h200"))
        with pytest.raises(RuleError, match="already taken"):
            eqfuse.rule(family="user")(twice_tanh)
    finally:
        unregister("twice_tanh")


def test_extra_rules_join_the_registered_ones():
    mine = make_rule(twice_tanh, "user", "real", "factor", True)
    plain = names(eqfuse.optimize(P, target="h200"))
    assert names(eqfuse.optimize(P, target="h200", rules=[mine])) == plain | {"twice_tanh"}
    assert names(eqfuse.optimize(P, target="h200", rules=list(eqfuse.rules()[:2]))) == plain, "each rule once"


def test_the_licence_binds_extra_rules():
    mine = make_rule(twice_tanh, "user", "real", "factor", True)
    exact = names(eqfuse.optimize(P, target="h200", licence="exact", rules=[mine]))
    assert "twice_tanh" not in exact
    assert exact == {r.name for r in eqfuse.rules() if r.licence == "exact" and r.phase != "iters"}


def test_rules_are_left_out_from_now_on():
    """By name and by family; what is enabled again takes part again."""
    plain = names(eqfuse.optimize(P, target="h200"))
    one = sorted(n for n in plain - {r.name for r in eqfuse.rules("analyses")} if n)[0]
    try:
        eqfuse.disable(one)
        eqfuse.disable("repair")
        left = names(eqfuse.optimize(P, target="h200"))
        assert left == plain - {one} - {r.name for r in eqfuse.rules("repair")} < plain
        assert one in {r.name for r in eqfuse.rules()}
        with pytest.raises(RuleError, match="there is no rule or family 'repaire'"):
            eqfuse.disable("repaire")
    finally:
        eqfuse.enable(one)
        eqfuse.enable("repair")
    assert names(eqfuse.optimize(P, target="h200")) == plain


def test_disabled_rules_and_families():
    plain = names(eqfuse.optimize(P, target="h200"))
    repair = {r.name for r in eqfuse.rules("repair")}
    one = min(repair)
    assert names(eqfuse.optimize(P, target="h200", disable=[one])) == plain - {one}
    without = eqfuse.optimize(P, target="h200", disable=["repair"])
    assert names(without) == plain - repair
    with pytest.raises(OptionError):
        eqfuse.optimize(P, target="h200", disable=["mend"])


def test_disabled_rules_say_so():
    family = eqfuse.rules("layout")
    try:
        eqfuse.disable("layout")
        assert all(repr(r) == f"rule({r.name!r}, disabled)" for r in eqfuse.rules("layout"))
        assert not any("disabled" in repr(r) for r in eqfuse.rules("repair"))
    finally:
        eqfuse.enable("layout")
    assert eqfuse.rules("layout") == family
    assert not any("disabled" in repr(r) for r in family)


def test_rules_of_a_name_that_nothing_has():
    one = eqfuse.rules()[0]
    assert eqfuse.rules(one.name) == (one,)
    with pytest.raises(RuleError, match="there is no rule or family 'repare'") as info:
        eqfuse.rules("repare")
    assert "did you mean 'repair'" in info.value.cure
