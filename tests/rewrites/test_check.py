"""The checks of rules: each oracle finds what it is for, and can fail."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import pytest

from eqfuse.errors import RuleError, UnsoundRuleError
from eqfuse.ir import monoids, ops, ranges
from eqfuse.rewrites import check, registry
from eqfuse.rewrites.check import check_all, check_rule, compare, integers, loops
from eqfuse.rewrites.check.compare import same_bits
from eqfuse.rewrites.check.draw import Options, Tape, draw_world, shrink
from eqfuse.rewrites.check.sweep import sweeps
from eqfuse.rewrites.check.variables import Plan
from eqfuse.rewrites.comparisons import at_most, divides, equals
from eqfuse.rewrites.decorators import rule  # fmt: skip
from eqfuse.rewrites.facts import Fact, NonEmpty, OtherAxis, earlier, equal, finite, finite_or, free, has_type, match, nonneg, positive
from eqfuse.rewrites.patterns import (
    Acc,
    Cast,
    Const,
    Extent,
    Index,
    Map,
    Max,
    NumberLiteral,
    Reduce,
    Ref,
    Roll,
    Sum,
    Var,
    View,
    Where,
)
from eqfuse.rewrites.relations import (
    Relation,
    changes_by_factor,
    changes_by_term,
    forget,
    free_factor,
    free_term,
    function_of,
    increasing,
    linear,
    ragged,
    relation,
    rounding,
    same_index,
    selective,
    split,
    turns,
    wants_factor,
    zero_where,
)  # fmt: skip
from eqfuse.rewrites.rule import (
    AnyMonoid,
    Axis,
    Kind,
    LinearMonoid,
    Op1,
    Position,
    Scalar,
    SelectiveMonoid,
    Turns,
    TypeName,
    make_rule,
)
from eqfuse.rewrites.world import World

Exponential = Turns["add", "mul"]
LEAST = NumberLiteral(-math.inf)


def made(function, licence="real"):
    return make_rule(function, "user", licence, "factor", True)


def refused(function, licence="real", oracles=check.ORACLES, examples=400):
    with pytest.raises(UnsoundRuleError) as caught:
        check_rule(made(function, licence), examples, oracles)
    assert f"test_check.py:{function.__code__.co_firstlineno}" in str(caught.value)
    return str(caught.value)


# bits --------------------------------------------------------------------------------------------------------------------------------


def plus_zero(x):
    """x + 0 = x."""
    return x + Const(0.0), x


def half_twice(x):
    """(x / 2) * 2 = x, but for numbers so small that halving rounds."""
    return (x * Const(0.5)) * Const(2.0), x


def sum_in_another_order(x, y, k: Axis):
    """sum_k (x + y) = sum_k x + sum_k y."""
    return Sum(k, x + y), Sum(k, x) + Sum(k, y)


def cast_of_square(x, d: TypeName):
    """cast(x^2) = cast(x)^2, for a floating type."""
    return Cast(d, Map("square", x)), Map("square", Cast(d, x)), rounding(d)


def cast_of_square_to_any_type(x, d: TypeName):
    """cast(x^2) = cast(x)^2."""
    return Cast(d, Map("square", x)), Map("square", Cast(d, x))


@pytest.mark.parametrize("function", [plus_zero, half_twice, sum_in_another_order, cast_of_square], ids=lambda f: f.__name__)
def test_exact_means_bits(function):
    assert check_rule(made(function, "real")).error is None
    assert "compared bit by bit" in refused(function, "exact")


def test_a_cast_to_integers_is_no_rounding():
    assert re.search("d = (u?int|bool)", refused(cast_of_square_to_any_type, "real"))


def test_signed_zeros_and_nan_positions_are_bits():
    zero, nan = np.array([0.0, -0.0, np.nan, 1.0]), np.array([0.0, 0.0, np.nan, np.nan])
    assert same_bits(zero, nan).tolist() == [True, False, True, False]


def test_exact_rules_are_drawn_in_every_float_type():
    plan = Plan(registry.rules("layout")[0])
    assert {draw_world(Tape(k), plan, "exact").dtype for k in range(1, 60) if plan and _drawn(plan, k)} == {
        np.float64, np.float32, np.float16,
    }  # fmt: skip


def _drawn(plan, seed):
    try:
        return draw_world(Tape(seed), plan, "exact")
    except Exception:
        return None


def test_a_bitwise_reduction_is_a_left_fold_from_the_identity():
    x = np.array([1e8, 1.0, -1e8, -0.0], np.float32).reshape(4, 1)
    world = World({}, (4, 1), dtype=np.float32, bitwise=True)
    assert world.reduce("sum", 0, x).item() == np.float32(np.float32(1e8) + np.float32(1.0)) - np.float32(1e8)
    assert not np.signbit(world.reduce("sum", 0, x[3:] + np.zeros((4, 1), np.float32))).any()


# reals: rounding is no counterexample, falsehood is, however small or large the numbers ------------------------------------------------


def exp_of_log(x):
    """exp(log x) = x, for x > 0."""
    return Map("exp", Map("log", x)), x, positive(x)


def log_of_exp(x):
    """log(exp x) = x: overflow is not a counterexample."""
    return Map("log", Map("exp", x)), x


def nearly_one(x):
    """x * 1.000001 = x, wrongly by a millionth."""
    return x * Const(1.000001), x


def square_of_sum(x, y):
    """(x + y)^2 = x^2 + 2xy + y^2, which cancels badly."""
    return (
        Map("square", x + y),
        Map("square", x) + (x * y) * Const(2.0) + Map("square", y),
        finite_or(x, NumberLiteral(0.0)),
        finite_or(y, NumberLiteral(0.0)),
    )


def test_rounding_and_overflow_are_told_from_falsehood():
    for function in (exp_of_log, log_of_exp, square_of_sum):
        check_rule(made(function), 1000)
    assert "is false" in refused(nearly_one)


def test_without_longer_floats_there_are_no_false_alarms(monkeypatch):
    """On machines whose long doubles are doubles."""
    monkeypatch.setattr(compare, "LONG", None)
    monkeypatch.setattr(compare, "EPS", np.finfo(float).eps)
    assert not check_all([*registry.rules("algebra"), *registry.rules("reductions")], examples=100, oracles=("arrays",)).failures
    assert "is false" in refused(nearly_one, oracles=("arrays",))


def test_what_is_drawn():
    """Lengths 0, 1, 2, odd, prime and large; ties, zeros of both signs, smallest and largest numbers, infinities, NaN."""
    plan = Plan(made(sum_in_another_order))
    worlds = [draw_world(Tape(seed), plan, "real") for seed in range(1500)]
    lengths = {n for w in worlds for n in w.extents}
    assert {0, 1, 2, 3, 5, 7, 64, 257} <= lengths
    values = np.concatenate([w.values["x"].ravel() for w in worlds])
    assert np.isnan(values).any() and np.isposinf(values).any() and np.isneginf(values).any()
    finite = values[np.isfinite(values)]
    assert (finite == 0).any() and (np.signbit(finite) & (finite == 0)).any()
    assert (np.abs(finite) > 1e100).any() and ((np.abs(finite) < 1e-300) & (finite != 0)).any()
    assert {tuple(n > 1 for n in w.values["x"].shape) for w in worlds} == {(a, b) for a in (False, True) for b in (False, True)}


# what the engine matches, and not what an annotation suggests ------------------------------------------------------------------------


def scaled_without_premise(x, c, k: Axis, g: LinearMonoid):
    """g_k (x*c) = c * g_k x: the annotation says linear, no premise does."""
    return Reduce(g, k, x * c), c * Reduce(g, k, x), free(c, k), NonEmpty(k)


def scaled(x, c, k: Axis, g: LinearMonoid):
    """The same with the premise."""
    return Reduce(g, k, x * c), c * Reduce(g, k, x), free(c, k), NonEmpty(k), linear(g)


def test_an_annotation_is_no_premise():
    text = refused(scaled_without_premise)
    assert re.search(r"g = (max|min|prod)", text)
    check_rule(made(scaled))


def sums_commute_with_views(x, j: Axis, k: Axis, e: Position):
    """(sum_k x)[j = e] = sum_k x[j = e], which needs j and k to be different."""
    from eqfuse.rewrites.facts import IndexFree

    return View(Sum(k, x), j, e), Sum(k, View(x, j, e)), IndexFree(e, k)


def test_two_axis_variables_may_be_one_axis():
    assert "the same axis as" in refused(sums_commute_with_views, oracles=("arrays",))


# repair facts as facts -----------------------------------------------------------------------------------------------------------------


def changed_by_another_number(t, x, b, r, xn, d, j: Axis, k: Kind):
    """T(new) is not T(old) + d."""
    return [changes_by_term(k, j, x, r, xn, d), match(t, x * b), earlier(b, r, j)], [changes_by_term(k, j, t, r, xn * b, d)]


def new_value_of_something_else(t, x, b, r, xn, d, j: Axis, k: Kind):
    """The equation holds, but x + b + 1 at the new reference is not xn + b + 2."""
    return [changes_by_term(k, j, x, r, xn, d), match(t, x + b), earlier(b, r, j)], [
        changes_by_term(k, j, t, r, xn + b + Const(1.0), d + Const(1.0))
    ]


def unprotected(t, x, b, r, xn, d, j: Axis, k: Kind):
    """Nothing says that b does not contain r."""
    return [changes_by_term(k, j, x, r, xn, d), match(t, x + b)], [changes_by_term(k, j, t, r, xn + b, d)]


def seeded_with_the_final_value(r, s, j: Axis, g: AnyMonoid):
    """new - r is no change from old to new: a loop does not have r."""
    new = Ref("new", j, r)
    return [match(r, Reduce(g, j, s))], [changes_by_term("run", j, r, r, new, new - r)]


def function_at_old(t, x, r, xn, xo, j: Axis, o: Op1):
    """The new value of o(x) is not o(x at old)."""
    return [function_of(j, x, r, xn, xo), match(t, Map(o, x))], [function_of(j, t, r, Map(o, xo), Map(o, xo))]


def swapped(r, s, j: Axis, g: AnyMonoid):
    """new = old * (old / new), wrongly."""
    new, old = Ref("new", j, r), Ref("old", j, r)
    return [match(r, Reduce(g, j, s)), positive(s), positive(r)], [changes_by_factor("run", j, r, r, new, old / new)]


def factor_that_depends(t, a, b, j: Axis):
    """a*b = f * rest with f = a, which may depend on j."""
    return [wants_factor(t, j), match(t, a * b)], [free_factor(t, j, a, b)]


REPAIR = [
    (changed_by_another_number, "its meaning"),
    (new_value_of_something_else, "the value at the new reference"),
    (unprotected, "reference"),  # it may be told by b at the new reference, or by b with another final one
    (seeded_with_the_final_value, "another final reference"),
    (function_at_old, "the value at the new reference"),
    (swapped, "its meaning"),
    (factor_that_depends, "does not depend on axis j"),
]


@pytest.mark.parametrize(("function", "why"), REPAIR, ids=lambda x: getattr(x, "__name__", ""))
def test_false_repair_facts(function, why):
    assert why in refused(function)


def loop_over_maximum(e, t, r, tn, q, s, j: Axis, g: LinearMonoid, h: SelectiveMonoid):
    """A sum in one loop with a maximum, t gone where nothing has been seen."""
    return (
        [
            match(e, Reduce(g, j, t)),
            linear(g),
            changes_by_factor("run", j, t, r, tn, q),
            free(q, j),
            match(r, Reduce(h, j, s)),
            selective(h, LEAST),
            zero_where(tn, r, Const(1.0)),
        ],
        [equal(e, Roll(g, j, tn, Acc() * q))],
    )


def loop_that_forgets_the_first(e, t, r, tn, q, s, j: Axis, g: LinearMonoid, h: SelectiveMonoid):
    """Without ``zero_where``: what was accumulated while the maximum was -inf is lost."""
    return (
        [
            match(e, Reduce(g, j, t)),
            linear(g),
            changes_by_factor("run", j, t, r, tn, q),
            free(q, j),
            match(r, Reduce(h, j, s)),
            selective(h, LEAST),
        ],
        [equal(e, Roll(g, j, tn, Acc() * q))],
    )


def loop_over_minimum(e, t, r, tn, q, z: Scalar, s, j: Axis, g: LinearMonoid, h: SelectiveMonoid):
    """``zero_where`` speaks of -inf, which is nothing for a maximum only."""
    return (
        [
            match(e, Reduce(g, j, t)),
            linear(g),
            changes_by_factor("run", j, t, r, tn, q),
            free(q, j),
            match(r, Reduce(h, j, s)),
            selective(h, z),
            zero_where(tn, r, Const(1.0)),
        ],
        [equal(e, Roll(g, j, tn, Acc() * q))],
    )


def test_loops_merge():
    report = check_rule(made(loop_over_maximum))
    assert "loops" in report.oracles
    for function in (loop_that_forgets_the_first, loop_over_minimum):
        text = refused(function, oracles=("loops",))
        assert "segments" in text or "merging" in text or "empty segment" in text


def test_every_monoid_merges_and_a_broken_one_is_found(monkeypatch):
    assert loops.check_monoids() == 4 * len(monoids.MONOIDS)
    wrong = monoids.Monoid("max", 0.0, "maximum", monoids.MONOIDS["max"].reduce, "max", False, True)
    monkeypatch.setitem(monoids.MONOIDS, "max", wrong)
    with pytest.raises(UnsoundRuleError, match="identity"):
        loops.check_monoids()


# the other oracles ---------------------------------------------------------------------------------------------------------------------


def rarely_wrong(x, y):
    """x*y = x*y + 2^-40 (x - y): no float tolerance would see it."""
    return x * y, x * y + (x - y) * Const(2.0**-40)


def square_of_difference(x, y):
    """(x - y)^2 = x^2 - xy - yx + y^2."""
    return (x - y) * (x - y), x * x - x * y - y * x + y * y


def exponential_law(x, y, o: Exponential):
    """o(x + y) = o(x) o(y): no rational arithmetic for it."""
    return (
        Map(o, x + y),
        Map(o, x) * Map(o, y),
        turns(o, "add", "mul"),
        increasing(o),
        finite_or(x, NumberLiteral(0.0)),
        finite_or(y, NumberLiteral(0.0)),
    )


def test_rationals_are_exact():
    text = refused(rarely_wrong, oracles=("rationals",))
    assert "computed exactly" in text
    assert check_rule(made(square_of_difference), oracles=("rationals",)).oracles == ("rationals",)
    assert check_rule(made(exponential_law)).oracles == ("arrays",)


def test_most_field_rules_have_the_second_oracle():
    done = check_all(registry.rules("algebra"), examples=20)
    assert not done.failures
    assert done.by_oracle()["rationals"] >= 15


def backwards(x, j: Axis, e: Position, f: Position):
    """x[j = e][j = f] = x[j = f[j = e]], the wrong way round."""
    return View(View(x, j, e), j, f), View(x, j, f.at(j, e))


def one_too_many(r, t, j: Axis, jo: Axis, ji: Axis, e: Position):
    """A ragged split whose mask lets one element more in."""
    from eqfuse.rewrites.patterns import Extent, Index

    body = Where(Map("le", View(Index(j), j, e), Extent(j)), View(t, j, e), 0.0)
    return [match(r, Sum(j, t)), ragged(j, jo, ji, e), free(t, jo), free(t, ji)], [equal(r, Sum(jo, Sum(ji, body)))]


def captured(r, t, g: AnyMonoid, j: Axis, jo: Axis, ji: Axis, e: Position):
    """t may depend on the parts already: they would be captured."""
    return [match(r, Reduce(g, j, t)), split(j, jo, ji, e)], [equal(r, Reduce(g, jo, Reduce(g, ji, View(t, j, e))))]


def in_place(t, x, j: Axis, e: Position):
    """x[j = j] = x."""
    return [match(t, View(x, j, e)), same_index(e, j)], [equal(t, x)]


@pytest.mark.parametrize("function", [backwards, one_too_many, captured], ids=lambda f: f.__name__)
def test_positions_are_refuted_by_proof(function):
    pytest.importorskip("z3")
    assert "found by z3" in refused(function, oracles=("integers",))


def test_positions_are_proved():
    pytest.importorskip("z3")
    assert check_rule(made(in_place), oracles=("integers",)).checks == 1
    proved = {r.name: integers.check_integers(Plan(r)).proved for r in registry.rules() if integers.applies(Plan(r))}
    assert all(proved.values())
    assert {"views_compose", "split_reduction", "split_ragged_sum", "split_ragged_selection", "view_through_reduction"} <= set(proved)
    assert proved["same_bound_axis"]


def bound_axis_that_is_used(s, t, u, x, b, k: Axis, m: Axis):
    """sum_m t = sum_k t[m = k], though t may depend on k."""
    needs = [match(s, Sum(m, t)), match(t, u * b), match(u, View(x, k, Index(m))), OtherAxis(k, m), equals(Extent(k), Extent(m))]
    return needs, [equal(s, Sum(k, View(t, m, Index(k))))]


def test_a_bound_axis_that_is_not_free_is_not_proved():
    pytest.importorskip("z3")
    rule = made(bound_axis_that_is_used)
    assert integers.applies(Plan(rule))
    assert integers.check_integers(Plan(rule)).proved == 0
    refused(bound_axis_that_is_used)


def test_without_z3_the_report_says_so(monkeypatch):
    monkeypatch.setattr(integers, "solver", lambda: None)
    report = check_rule(made(in_place), 20)
    assert any("eqfuse[z3]" in note for note in report.notes)
    assert report.oracles[0] == "arrays"


def test_an_op_that_z3_does_not_know_is_not_refuted():
    pytest.importorskip("z3")
    assert integers.check_integers(Plan(made(odd_op))).proved == 0


def odd_op(x, j: Axis, e: Position):
    """|x[j = e]| = |-x|[j = e]: true by what abs is, which z3 is not told."""
    return Map("abs", View(x, j, e)), View(Map("abs", -x), j, e)


# registration ---------------------------------------------------------------------------------------------------------------------------


def test_registration_runs_the_check():
    before = registry.rules()
    with pytest.raises(UnsoundRuleError, match="cube_of_sum is false"):

        @rule
        def cube_of_sum(x, y):
            """(x + y)^2 = x^2 + y^2."""
            return Map("square", x + y), Map("square", x) + Map("square", y)

    assert registry.rules() == before


def test_premises_that_no_op_has_are_named():
    def sum_of_images(x, y, o: Op1):
        """o(x*y) = o(x) + o(y)."""
        return Map(o, x * y), Map(o, x) + Map(o, y), turns(o, "mul", "add")

    with pytest.raises(RuleError, match=r"no op has what its premises ask of o: turns\(o, mul, add\)") as caught:
        check_rule(made(sum_of_images))
    assert caught.value.cure == "turns_nonneg is true of log"


def test_a_conclusion_tested_on_hardly_any_number_is_refused(monkeypatch):
    """A report never says that a rule holds on a number or two."""

    def commuted(x, y):
        """x + y = y + x."""
        return x + y, y + x

    monkeypatch.setattr(check.run, "LEAST", 10**6)
    with pytest.raises(RuleError, match=r"only [0-9]+ numbers satisfied its premises"):
        check_rule(made(commuted), 20)


def test_values_obey_a_claim_on_single_numbers():
    """Of -16 to 16 nine numbers are multiples of 4: the others become one of these, so half of them is refuted."""
    fourfold = relation("fourfold-drawn", "T", "x is a multiple of 4", claim=lambda x: np.asarray(x) % 4 == 0)

    def quarter_is_even(x):
        """(x/4) mod 2 = 0 for multiples of 4."""
        return Map("remainder", x / 4.0, Const(2.0)), Const(0.0), fourfold(x)

    try:
        assert "is false" in refused(quarter_is_even)
    finally:
        forget(fourfold)


def test_what_is_always_tried():
    """Lengths above a named number obey the premises; -128 to 127 are all there; the ends fill an axis that they overflow."""

    def multiples(x, k: Axis):
        """where(n > 300, x, 0) = 0, for multiples n of 4."""
        return Where(Map("gt", Extent(k), Const(300.0)), x, 0.0), Const(0.0), divides(4, Extent(k)), at_most(Extent(k), 10**5)

    plan = Plan(made(multiples))
    lengths = [dict(s.lengths)["k"] for s in sweeps(plan, "real", 100) if s.lengths]
    assert {304, 308} <= set(lengths)
    assert all(n % 4 == 0 and n <= 10**5 for n in lengths)
    assert all(draw_world(Tape(0), plan, "real", s).values["x"].size < 1e4 for s in sweeps(plan, "real", 100)), "its length alone is named"

    def summed(x, k: Axis):
        """int16 of a sum, for an x of int8."""
        return Reduce("isum", k, x), Cast("int16", Reduce("isum", k, x)), has_type(x, "int8")

    plan = Plan(made(summed))
    worlds = {s.how: draw_world(Tape(0), plan, "real", s) for s in sweeps(plan, "real", 100)}
    assert set(range(-128, 128)) == set(worlds["all"].values["x"].ravel())
    assert set(range(-16, 17)) == set(worlds["count"].values["x"].ravel())
    assert worlds["least"].extents[0] == 257
    assert (worlds["least"].values["x"] == -128).all()


def test_a_division_by_a_number_is_a_quotient_in_fractions():
    def six_sixths(x):
        """x/6 * 6 = x."""
        return x / 6.0 * 6.0, x

    assert "rationals" in check_rule(made(six_sixths)).oracles


def test_errors_on_purpose_leave_exact_values_alone():
    """e^0 - 1 is 0, not a rounding error: a pole there refutes, and so does a bound; e^1e-40 - 1 is one in every float."""

    def pole(x):
        """(e^x - 1) / (e^x - 1) = 1."""
        return Map("recip", Map("exp", x) - 1.0) * (Map("exp", x) - 1.0), Const(1.0), finite(x)

    def more_than_one(t, x):
        """e^x - 1 > 0 for x >= 0."""
        return [match(t, Map("exp", x) - 1.0), nonneg(x)], [positive(t)]

    def above_its_tangent(t, x):
        """e^x - 1 - x >= 0."""
        return [match(t, Map("exp", x) - 1.0 - x), finite(x)], [nonneg(t)]

    assert "is false" in refused(pole)
    with pytest.raises(UnsoundRuleError, match="Positive does not hold"):
        check_rule(made(more_than_one))
    check_rule(made(above_its_tangent))


def test_a_rule_that_nothing_can_test_is_refused():
    with pytest.raises(RuleError, match="no example satisfied its premises") as caught:

        @rule
        def from_nothing(x):
            """x = x + 1 for x >= 1 that are negative."""
            from eqfuse.rewrites.facts import at_least_one, nonpos

            return x, x + 1.0, at_least_one(x), nonpos(x), match(x, Const(2.0))

    assert not isinstance(caught.value, UnsoundRuleError)


def concludes_given(t, x, j: Axis, e: Position):
    """Rows of same-index come from index arithmetic."""
    return [match(t, View(x, j, e))], [same_index(e, j)]


def concludes_premise(t, x, y, j: Axis):
    """Nothing can make an axis non-empty."""
    return [match(t, Sum(j, x + y))], [NonEmpty(j)]


undeclared = Relation("undeclared", ("T",), "nobody says what this means")


def concludes_undeclared(t, x, y):
    """A relation without a meaning."""
    return [match(t, x + y)], [undeclared(t)]


def no_such_op(x):
    """An op that does not exist."""
    return Map("wobble", x), x


def too_many_arguments(x):
    """exp takes one."""
    return Map("exp", x, x), x


STRUCTURE = [
    (concludes_given, "come from outside"),
    (concludes_premise, "a premise"),
    (concludes_undeclared, "meaning is not declared"),
    (no_such_op, "no op 'wobble'"),
    (too_many_arguments, "takes 1 argument, not 2"),
]


@pytest.mark.parametrize(("function", "message"), STRUCTURE, ids=lambda x: getattr(x, "__name__", ""))
def test_untestable_conclusions_are_refused_when_the_rule_is_made(function, message):
    with pytest.raises(RuleError, match=message) as caught:
        made(function)
    at = int(caught.value.where.split(":")[1].split()[0])  # of the rule, or of the line of its body
    assert function.__code__.co_firstlineno <= at <= function.__code__.co_firstlineno + 3


def test_relations_declare_a_meaning():
    with pytest.raises(RuleError, match="meaning is not declared"):
        relation("vague", "T", "something")
    with pytest.raises(RuleError, match="meaning"):
        relation("double", "T", "something", demand=True, claim=lambda x: x > 0)
    with pytest.raises(RuleError, match="taken"):
        relation("free-factor", "T", "something", demand=True)
    with pytest.raises(RuleError, match="columns"):
        relation("columns", "T tensor", "something", demand=True)
    with pytest.raises(RuleError, match="has 2 columns"):
        free_term.__class__("two", ("T", "T"), "doc", demand=True)(1)


def test_relations_of_a_user_are_tested():
    whole = relation("whole-number", "T", "x is a whole number", claim=lambda x: x == np.floor(x))
    twice = relation("twice", "T T", "t = 2 x", equation=lambda t, x: (t, x + x))
    try:

        def floors(t, x):
            """floor x is whole."""
            return [match(t, Map("floor", x)), finite_or(x, NumberLiteral(0.0))], [whole(t)]

        def sums(t, x, y):
            """x + y is whole if both are."""
            return [match(t, x + y), whole(x), whole(y), finite_or(x, NumberLiteral(0.0)), finite_or(y, NumberLiteral(0.0))], [whole(t)]

        def halves(t, x):
            """x / 2 is whole if x is, wrongly."""
            return [match(t, x * Const(0.5)), whole(x)], [whole(t)]

        def doubles(t, x):
            """x + x is twice x."""
            return [match(t, x + x)], [twice(t, x)]

        def quadruples(t, x, y):
            """If t is twice x, t + t = 4x."""
            return [twice(t, x), match(y, t + t)], [equal(y, x * Const(4.0))]

        def triples(t, x):
            """x + x + x is twice x, wrongly."""
            return [match(t, (x + x) + x)], [twice(t, x)]

        for function in (floors, sums, doubles, quadruples):
            check_rule(made(function))
        for function in (halves, triples):
            refused(function)
    finally:
        forget(whole)
        forget(twice)


def test_a_meaning_that_raises_is_an_error_with_a_place():
    broken = relation("broken", "T", "nobody can say", claim=lambda x: x.no_such_thing)
    try:

        def concludes_broken(t, x):
            """x + 1 is broken."""
            return [match(t, x + 1.0)], [broken(t)]

        with pytest.raises(RuleError, match="its check raised AttributeError") as caught:
            check_rule(made(concludes_broken))
        assert "test_check.py:" in caught.value.where
    finally:
        forget(broken)


def test_names_and_families_are_switched():
    try:

        @rule(family="mine")
        def mine_one(x):
            """-(x * 2) = x * -2."""
            return -(x * Const(2.0)), x * Const(-2.0)

        @rule(family="mine")
        def mine_two(x):
            """x * 4 = (x * 2) * 2."""
            return x * Const(4.0), (x * Const(2.0)) * Const(2.0)

        assert registry.families()[-1] == "mine"
        registry.disable("mine")
        assert not {mine_one, mine_two} & set(registry.active())
        registry.enable("mine_two")
        assert mine_two in registry.active() and mine_one not in registry.active()
        registry.enable("mine")
        assert {mine_one, mine_two} <= set(registry.active())
        with pytest.raises(RuleError, match="no rule or family 'nine'") as caught:
            registry.disable("nine")
        assert "'mine'" in str(caught.value)
        with pytest.raises(RuleError, match="family"):

            @rule(family="mine_one")
            def other(x):
                """x * 1 = x."""
                return x * Const(1.0), x
    finally:
        for name in ("mine_one", "mine_two"):
            registry.unregister(name)


def test_rules_given_to_a_call_are_checked_too():
    def false(x):
        """x + 1 = x."""
        return x + 1.0, x

    wrong = rule(register=False)(false)
    assert wrong not in registry.rules()
    with pytest.raises(UnsoundRuleError):
        registry.extras([wrong])
    with pytest.raises(RuleError, match="is no rule") as caught:
        registry.extras([false])
    assert "register=False" in str(caught.value)
    with pytest.raises(RuleError, match="already taken"):
        registry.extras([make_rule(renamed("times_one"), "user", "real", "factor", True)])


def renamed(name):
    def function(x):
        """x * 1 = x."""
        return x * Const(1.0), x

    function.__name__ = name
    return function


@dataclass(frozen=True)
class Doubled(Fact):
    """A fact that tests itself: the first value is twice the second."""

    y: Var
    x: Var

    def parts(self):
        return (self.y, self.x)

    def egglog(self, fresh):
        return ""

    def test(self, world):
        y, x = self.y.value(world), self.x.value(world)
        assert np.allclose(y, 2 * x, equal_nan=True), "not twice as much"
        return x.size


def doubled(y, x):
    """y is twice x."""
    return [match(y, x + x)], [Doubled(y, x)]


def not_doubled(y, x):
    """y is twice x, wrongly."""
    return [match(y, x * x)], [Doubled(y, x)]


def test_facts_that_test_themselves():
    assert check_rule(made(doubled)).numbers > 0
    assert "not twice as much" in refused(not_doubled)


# reports ---------------------------------------------------------------------------------------------------------------------------------


def wrong_twice(x, y, k: Axis):
    """max_k (x + y) = max_k x + max_k y."""
    return Max(k, x + y), Max(k, x) + Max(k, y)


def wrong_reduction(monoid):
    def wrong(x, k: Axis):
        """What any reduction makes is three times x."""
        return Reduce(monoid, k, x), x * 3.0

    return wrong


@pytest.mark.parametrize("rule", [wrong_twice, *map(wrong_reduction, monoids.MONOIDS)], ids=["extrema", *monoids.MONOIDS])
def test_the_counterexample_runs_as_numpy(rule, capsys):
    text = refused(rule)
    code = "\n".join(line[4:] for line in text.split("one dimension per axis:")[1].splitlines() if line.startswith("    "))
    names: dict = {}
    exec(code, names)
    assert not np.allclose(names["left"], names["right"])
    left, right = capsys.readouterr().out.splitlines()
    assert left.startswith("left") and right.startswith("right")


def test_choices_shrink():
    tape = Tape(5)
    options = [Options(range(10)) for _ in range(6)]
    for o in options:
        tape(o)

    def fails(marks):
        played = Tape(None, marks)
        return sum(played(o) for o in options) >= 7

    marks = shrink([9] * 6, fails)
    assert sum(marks) == 7
    played = Tape(None, [3, 99])
    assert [played(o) for o in (Options("abcd"), Options("ab"))] == ["d", "b"], "a mark beyond the options is the last one"


def test_summary():
    seen = []
    rules = registry.rules("strength")
    done = check_all(rules, examples=20, progress=lambda r, report: seen.append((r.name, report is None)))
    assert not done.failures
    assert done.rules == len(rules)
    assert done.checks > 0 and done.numbers > 0 and done.examples_per_second > 0
    assert seen == [(r.name, before) for r in rules for before in (True, False)]
    assert f"{len(rules)} of {len(rules)} rules hold" in str(done)
    failing = check_all([made(wrong_twice)], examples=50)
    assert len(failing.failures) == 1 and "0 of 1 rules hold" in str(failing)


def test_every_oracle_checks_rules_of_the_registry():
    done = check_all(examples=check.CI_EXAMPLES // 10)
    assert not done.failures
    assert done.by_oracle()["arrays"] > 120 and done.by_oracle()["rationals"] > 80 and done.by_oracle()["loops"] == 9


def test_an_op_with_a_false_trait_is_found():
    """Rules ask for traits, so a trait that is not true of its op makes true rules false."""
    liar = ops.ScalarOp(
        "liar", 1, lambda v: v + 1.0, ops.triton("{} + 1"), ranges.increasing(lambda v: v + 1.0), turns=(("add", "mul"),), increasing=True
    )
    ops.register(liar)
    try:
        failing = {r.rule.name for r in check_all(registry.rules("repair"), examples=60, oracles=("arrays",)).failures}
    finally:
        del ops.OPS["liar"]
    assert "factor_of_exponential" in failing
