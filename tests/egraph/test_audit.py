"""The audit names what is wrong and shows it small: the two nodes, the rules, and a program of a few lines that runs."""

from __future__ import annotations

from importlib import import_module
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

from eqfuse.egraph import audit, blame, run, saturate
from eqfuse.errors import UnsoundGraphError
from eqfuse.ir import terms
from eqfuse.ir.build import (
    axes,
    const,
    exp,
    index,
    log,
    maximum_over,
    mean_over,
    program,
    recip,
    sqrt,
    square,
    sum_over,
    tanh,
    tensor,
    view,
)
from eqfuse.ir.program import Program
from eqfuse.rewrites import registry
from eqfuse.rewrites.facts import at_most_one, free, match
from eqfuse.rewrites.patterns import Map, Max, Sum
from eqfuse.rewrites.rule import Axis, make_rule

pytestmark = pytest.mark.unaudited

i, j, d, e = axes(i=5, j=7, d=3, e=4)


def attention() -> Program:
    q, key = tensor("Q", i, d), tensor("K", j, d)
    s = sum_over(d, q * key)
    p = exp(s - maximum_over(j, s))
    return program("attention", o=(sum_over(j, p * tensor("V", j, e)) / sum_over(j, p), (i, e)), m=(maximum_over(j, s), (i,)))


def sum_is_its_body(x, n: Axis):
    """sum_n x = x, wrongly."""
    return Sum(n, x), x


def twice(x):
    """exp x = exp x + exp x, wrongly."""
    return Map("exp", x), Map("exp", x) + Map("exp", x)


def square_of_sum(x, n: Axis):
    """sum_n x*x = (sum_n x) * (sum_n x), wrongly."""
    return Sum(n, x * x), Sum(n, x) * Sum(n, x)


def product_out_of_maximum(x, c, n: Axis):
    """max_n x*c = c * max_n x, wrongly for negative c."""
    return Max(n, x * c), c * Max(n, x)


def constant_out_of_maximum(x, c, n: Axis):
    """max_n x*c = c * max_n x, wrongly for negative c."""
    return Max(n, x * c), c * Max(n, x), free(c, n)


def deviations() -> Program:
    x = tensor("x", i, j)
    u = x - mean_over(j, x)
    v = sum_over(j, u * u)
    return program("deviations", v=(log(v + 1.0), (i,)), m=(maximum_over(j, x * tensor("w", j)), (i,)))


CASES = [(sum_is_its_body, attention, 1), (twice, attention, 1), (square_of_sum, deviations, 3), (product_out_of_maximum, deviations, 2)]


@pytest.mark.parametrize(("function", "make", "operations"), CASES, ids=lambda x: getattr(x, "__name__", None))
def test_a_disagreement_comes_with_a_minimal_program(function, make, operations, registered, shown):
    rule = registered(function)
    graph = saturate(make(), rules=(*(r for r in registry.active() if r is not rule), rule), node_budget=600)
    with pytest.raises(UnsoundGraphError, match=function.__name__) as caught:
        audit(graph, seed=3, shrink_seconds=60.0)
    p, rules = shown(caught.value, match=function.__name__)
    assert sum(len(t.args) > 0 for t in p.terms()) <= operations
    assert function.__name__ in rules
    assert len(rules) <= 4, "rules that are not needed are left out"


def test_the_budget_of_a_minimal_program_is_asked_between_candidates(registered, monkeypatch):
    """By a clock that goes on by a second for every look at it."""
    rule = registered(twice)
    graph = saturate(attention(), rules=(*(r for r in registry.active() if r is not rule), rule), node_budget=600)
    module = import_module("eqfuse.egraph.minimal")
    saturated, tried = module.saturated, []
    monkeypatch.setattr(module, "saturated", lambda *args: tried.append(args) or saturated(*args))

    def candidates(seconds: float) -> int:
        looks = count()
        for name in ("eqfuse.egraph.minimal", "eqfuse.ir.shrink"):
            monkeypatch.setattr(import_module(name), "time", SimpleNamespace(process_time=lambda: float(next(looks))))
        tried.clear()
        with pytest.raises(UnsoundGraphError, match="twice"):
            audit(graph, seed=3, shrink_seconds=seconds)
        return len(tried)

    enough = candidates(10_000.0)
    assert 0 < candidates(5.0) <= min(8, enough - 1)


def test_without_time_there_is_no_minimal_program():
    bad = make_rule(twice, "user", "real", "factor", True)
    graph = saturate(attention(), rules=(*registry.active(), bad), node_budget=400)
    with pytest.raises(UnsoundGraphError, match="twice") as caught:
        audit(graph, shrink_seconds=0)
    assert not caught.value.minimal
    assert "check_rule() on the named rules" in str(caught.value)


def test_rules_that_are_not_registered_can_be_given():
    bad = make_rule(twice, "user", "real", "factor", True)
    rules = (*registry.active(), bad)
    graph = saturate(attention(), rules=rules, node_budget=400)
    with pytest.raises(UnsoundGraphError, match=r"not registered, pass rules=: twice"):
        audit(graph)
    with pytest.raises(UnsoundGraphError, match=r"t1 = exp\(a0\)"):
        audit(graph, rules=rules)


def test_a_disagreement_at_given_data_is_shown_at_those_data():
    """max x*c = c max x is true at positive data, and false at negative."""
    bad = make_rule(constant_out_of_maximum, "user", "real", "factor", True)
    rules = (*registry.active(), bad)
    p = program("p", m=(maximum_over(j, tensor("x", i, j) * tensor("w", i)), (i,)))
    graph = saturate(p, rules=rules)
    x = np.arange(35.0).reshape(5, 7)
    audit(graph, rules=rules, inputs={"x": x, "w": np.ones(5)})
    with pytest.raises(UnsoundGraphError, match="constant_out_of_maximum"):
        audit(graph, rules=rules, inputs={"x": x, "w": -np.ones(5)})


def sum_is_product(a, b):
    """a + b = a * b, wrongly."""
    return a + b, a * b


def test_constants_that_meet_end_a_saturation_with_all_that_an_audit_says(registered, shown):
    rule = registered(sum_is_product)
    x = tensor("x", i, j)
    p = program("p", y=(exp(x) * (const(2.0) + const(3.0)) + maximum_over(j, x), (i, j)))
    with pytest.raises(UnsoundGraphError, match=r"the constants \d and \d were found equal") as caught:
        saturate(p, rules=(*(r for r in registry.active() if r is not rule), rule), shrink_seconds=60.0)
    assert caught.value.rules == ("sum_is_product",)
    assert "first wrong in round" in str(caught.value)
    small, rules = shown(caught.value, match="sum_is_product")
    assert sum(len(t.args) > 0 for t in small.terms()) == 1
    assert "sum_is_product" in rules


# found by fuzzing -------------------------------------------------------------------------------------------------------------------


def test_a_view_of_what_does_not_depend_on_its_axis_is_composed_once():
    """sum_i x[i = i+8 mod 17] is its own view: composing the view with itself must end."""
    a, c = axes(a=17, c=9)
    x = tensor("x", a, c)
    t = tanh(sum_over(a, square(x))) + view(x, c, (index(c) + 4) % 9)
    y = view(view(t, a, (index(a) + 8) % 17), c, (index(c) + 2) % 9)
    graph = saturate(program("cycle", y=(y, tuple(sorted(y.axes)))))
    assert graph.report.stopped == "saturated"
    audit(graph)


def test_positions_past_the_end_of_a_ragged_part_mean_nothing():
    """(i + 3) mod 11 of a position that is clipped, and clipped after it: both are right where the axis is."""
    (n,) = axes(n=11)
    p = program("ragged", y=(maximum_over(n, square(view(tensor("x", n), n, (index(n) + 3) % 11))), ()))
    graph = saturate(p, splits={n: 2})
    for seed in range(3):
        audit(graph, seed=seed)


def test_signs_are_not_claimed_past_the_end_of_a_ragged_part():
    """x[i + 2] - max_i x[i + 2] <= 0 where i is inside: past it the view reads elements that are not in the maximum."""
    n, m = axes(n=4, long=10)
    x = view(square(tensor("x", m)), m, index(n) + 2)
    graph = saturate(program("signs", y=(sum_over(n, x - maximum_over(n, x)), ())), splits={n: 3})
    for seed in range(4):
        audit(graph, seed=seed)


x_, y_, c_ = tensor("x", i, j), tensor("y", i, j), tensor("c", i)
MU, NU = mean_over(j, x_), mean_over(j, y_)
E = exp(x_ - maximum_over(j, x_))
BALANCE = sum_over(j, E * y_) / sum_over(j, E)
INFINITE = {
    "mean": exp(x_ + MU) * tensor("v", j),
    "mean of others": exp(x_ - mean_over(j, -y_)),
    "two means": exp(x_ - MU) * exp(y_ + NU),
    "term of a mean beside a maximum": exp(x_ - maximum_over(j, x_) + y_ + NU),
    "factor of a mean beside a maximum": E * exp(y_ + NU),
    "form beside a mean": (x_ - MU) * exp(y_ + NU),
    "weighted mean": E * exp(y_ + BALANCE),
    "positive sum": sqrt(square(y_) * recip(sum_over(j, square(x_) + 1.0))),
    "scale": exp((x_ + MU) * c_),
}


@pytest.mark.parametrize("parts", [0, 3])
@pytest.mark.parametrize("body", INFINITE.values(), ids=INFINITE)
def test_a_reference_that_becomes_infinite_moves_nothing_any_more(body, parts):
    """exp(x + mean x) is 0 in a row with -inf; a loop must not make exp(-inf - -inf) of it."""
    t = sum_over(j, body)
    graph = saturate(program("p", y=(t, tuple(sorted(t.axes)))), splits={j: parts} if parts else {})
    for seed in range(8):
        audit(graph, seed=seed, masked=True)


# large graphs -----------------------------------------------------------------------------------------------------------------------


def believed(t, x):
    """exp x <= 1, wrongly: sound rules believe it, and make false classes of it."""
    return [match(t, Map("exp", x))], [at_most_one(t)]


def many(blocks: int) -> Program:
    """As many attentions beside each other."""
    out = {}
    for k in range(blocks):
        s = sum_over(d, tensor(f"Q{k}", i, d) * tensor(f"K{k}", j, d))
        p = exp(s - maximum_over(j, s))
        out[f"o{k}"] = (sum_over(j, p * tensor(f"V{k}", j, e)) / sum_over(j, p), (i, e))
    last = tensor("last", i, j)
    return program("many", **out, v=(sum_over(j, last * last), (i,)), w=(exp(last), (i, j)))


@pytest.mark.parametrize("function", [sum_is_its_body, square_of_sum, believed], ids=lambda f: f.__name__)
def test_a_large_graph_is_searched_all_the_same(function, registered, shown):
    """First the program is made small, then the rule is searched for in that: the size does not matter."""
    rule = registered(function)
    graph = saturate(many(125), rules=(*(r for r in registry.active() if r is not rule), rule))
    assert graph.enodes > 4_000
    with pytest.raises(UnsoundGraphError, match=rf"the minimal program is first wrong in round .* by {function.__name__}: ") as caught:
        audit(graph, seed=3, shrink_seconds=60.0)
    assert caught.value.rules == (function.__name__,)
    p, rules = shown(caught.value, match=function.__name__)
    assert sum(len(t.args) > 0 for t in p.terms()) <= 3
    assert len(p.inputs) <= 2
    assert function.__name__ in rules


def test_a_large_graph_is_searched_itself_without_a_small_program(registered):
    rule = registered(square_of_sum)
    graph = saturate(many(125), rules=(*(r for r in registry.active() if r is not rule), rule))
    assert graph.enodes > 4_000
    with pytest.raises(UnsoundGraphError, match=r"; first wrong in round .*, by square_of_sum") as caught:
        audit(graph, shrink_seconds=0, blame_seconds=60)
    assert caught.value.rules == ("square_of_sum",)


def test_what_is_not_searched_is_said(registered):
    rule = registered(twice)
    graph = saturate(attention(), rules=(*(r for r in registry.active() if r is not rule), rule), node_budget=400)
    with pytest.raises(UnsoundGraphError, match=r"not known: the search for it took more than 0 s of processor time") as caught:
        audit(graph, shrink_seconds=0, blame_seconds=0)
    assert "twice" in caught.value.rules, "the nodes and their rules are named in any case"
    with pytest.raises(
        UnsoundGraphError, match=r"no minimal program: nothing is false in any of the \d+ smaller programs .* processor time"
    ):
        audit(graph, shrink_seconds=1e-9)


def test_rounds_that_could_not_be_kept_are_replayed(registered, monkeypatch):
    """With room for a few tables the first wrong round is the same: it is closed in upon, replay by replay."""
    rule = registered(product_out_of_maximum)
    graph = saturate(deviations(), rules=(*(r for r in registry.active() if r is not rule), rule))

    def first() -> str:
        with pytest.raises(UnsoundGraphError) as caught:
            audit(graph, shrink_seconds=0)
        return str(caught.value)

    expected = first()
    assert "by product_out_of_maximum" in expected
    replays = []
    monkeypatch.setattr(run, "MOST_HELD", 3 * graph.enodes)
    made = blame.Replay
    monkeypatch.setattr(blame, "Replay", lambda *args: replays.append(made(*args)) or replays[-1])
    assert first() == expected
    assert len(replays) > 1
    assert max(len(r.rounds) for r in replays) <= 12 < max(len(r.matched) for r in replays)


@pytest.mark.parametrize("masked", [False, True])
def test_a_zero_that_stands_for_too_small_a_number_has_no_ratio(masked):
    """exp(-2^x) underflows for large x, and 1/x^2 is 0 for an infinite one: 0 times an infinite ratio says nothing of the rule."""
    x = tensor("x", i, j)
    p = program(
        "left",
        y=(sum_over(i, exp(-maximum_over(i, terms.Map("exp2", (x,))))), (j,)),
        z=(sum_over(i, mean_over(i, recip(square(x) + 0.5))), (j,)),
    )
    graph = saturate(p)
    wide = np.random.default_rng(1).normal(size=(5, 7)) * 10.0 ** np.arange(-4, 3)
    for inputs in (None, {"x": wide}, {"x": np.where(wide > 0.1, -np.inf, wide)}, {"x": np.full((5, 7), -np.inf)}):
        for seed in range(4):
            audit(graph, seed=seed, masked=masked or inputs is not None, inputs=inputs, shrink_seconds=0)


def test_a_change_of_reference_too_large_for_a_float_is_no_finding():
    """exp(m - m_new) of maxima that lie thousands apart is infinite, what it changes is not: nothing is known of their product."""
    row, k = axes(row=1, k=10)
    x = tensor("x", k, row)
    t = x * x
    graph = saturate(program("far", y=(sum_over(k, exp(t - maximum_over(k, t))), (row,))))
    for seed in (44, 53):
        audit(graph, seed=seed, inputs={"x": np.random.default_rng(seed).normal(size=(10, 1)) * 30}, shrink_seconds=0)


def test_a_reference_is_free_of_what_its_value_does_not_depend_on():
    """The parts of j are read at (j_o * 2 + j_i) // 2, which is j_o: the reference that stands for this has no j_i, nor has what is drawn."""
    group, i, j = axes(group=2, i=1, j=4)
    t = view(tensor("v", group, i), group, index(j) // 2)
    p = program("shared", o=(sum_over(j, mean_over(i, t * sum_over(i, exp(tanh(t))))), ()))
    audit(saturate(p, splits={j: 2}))
