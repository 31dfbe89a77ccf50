"""Computed positions, conditions on lengths, numbers and types, and operands of chains: checked, proved, and matched where they hold only."""

import pytest
import torch

import eqfuse
from eqfuse.egraph.audit import audit
from eqfuse.egraph.saturate import saturate
from eqfuse.errors import RuleError, UnsoundRuleError
from eqfuse.ir.build import axes, exp, log, program, square, sum_over, tensor, view
from eqfuse.ir.index import index
from eqfuse.ir.terms import Const as Number
from eqfuse.ir.terms import Map as Op
from eqfuse.rewrites import (
    AnyMonoid,
    Axis,
    Cast,
    Const,
    Extent,
    Index,
    Map,
    Max,
    Mean,
    OtherAxis,
    Position,
    Reduce,
    Scalar,
    Sum,
    TypeName,
    View,
    at_least,
    at_most,
    depends,
    differs,
    divides,
    equal,
    equals,
    finite,
    free,
    has_type,
    integer,
    less,
    nonneg,
    one_of,
    operand,
    operands,
    power_of_two,
    registry,
)  # fmt: skip
from eqfuse.rewrites.check import check_rule, integers
from eqfuse.rewrites.check.variables import Plan
from eqfuse.rewrites.rule import make_rule

# equations -------------------------------------------------------------------------------------------------------------------------


def forwards(x, i: Axis, k: Axis, g: AnyMonoid):
    """g_i x[k = n-1-i] = g_k x, for an i as long as k."""
    return Reduce(g, i, View(x, k, Extent(k) - 1 - Index(i))), Reduce(g, k, x), free(x, i), equals(Extent(i), Extent(k))


def forwards_for_any_length(x, i: Axis, k: Axis, g: AnyMonoid):
    """The same, wrongly for an i that is shorter."""
    return Reduce(g, i, View(x, k, Extent(k) - 1 - Index(i))), Reduce(g, k, x), free(x, i)


def backwards(x, i: Axis, g: AnyMonoid):
    """g_i x = g_i x[n-1-i]."""
    return Reduce(g, i, x), Reduce(g, i, View(x, i, Extent(i) - 1 - Index(i))), depends(x, i)


def each_but_first(x, i: Axis):
    """sum_i x = sum_i x[max(i, 1)], wrongly."""
    return Sum(i, x), Sum(i, View(x, i, (Index(i) + 1) % Extent(i) // 1)) + View(x, i, 0 * Index(i)) * 0.5, depends(x, i)


def rolled(x, i: Axis, g: AnyMonoid):
    """g_i x = g_i x[i+1 mod n]."""
    return Reduce(g, i, x), Reduce(g, i, View(x, i, (Index(i) + 1) % Extent(i))), depends(x, i)


def clamped(x, i: Axis):
    """max_i x = max_i x[i - i mod 2], wrongly."""
    return Max(i, x), Max(i, View(x, i, Index(i) - Index(i) % 2)), depends(x, i)


def flattened(x, i: Axis, j: Axis, k: Axis):
    """sum_i sum_j x[k = i*m + j] = sum_k x, for m that many j."""
    rows = View(x, k, Index(i) * Extent(j) + Index(j))
    return Sum(i, Sum(j, rows)), Sum(k, x), free(x, i), free(x, j), OtherAxis(i, j), equals(Extent(i) * Extent(j), Extent(k))


def flattened_for_any_length(x, i: Axis, j: Axis, k: Axis):
    """The same, wrongly where k is longer."""
    rows = View(x, k, Index(i) * Extent(j) + Index(j))
    return Sum(i, Sum(j, rows)), Sum(k, x), free(x, i), free(x, j), OtherAxis(i, j)


def flattened_the_other_way(x, i: Axis, j: Axis, k: Axis):
    """x[k = i*m + j] = x[k = j*m + i], wrongly."""
    return (
        View(x, k, Index(i) * Extent(j) + Index(j)),
        View(x, k, Index(j) * Extent(i) + Index(i)),
        equals(Extent(i) * Extent(j), Extent(k)),
    )


def reversed_twice(x, k: Axis):
    """x[n-1-k][n-1-k] = x."""
    return View(View(x, k, Extent(k) - 1 - Index(k)), k, Extent(k) - 1 - Index(k)), x


def sorted_once(x, k: Axis, e: Position):
    """x[k = e][k = e] = x[k = e], wrongly."""
    return View(View(x, k, e), k, e), View(x, k, e)


def moved_by(x, y, k: Axis, e: Position):
    """a b + a = a (b + 1), for a = x[k = e] and b = y[k = e+1]."""
    a, b = View(x, k, e), View(y, k, e + 1)
    return a * b + a, a * (b + 1.0)


def moved_by_another(x, k: Axis, e: Position):
    """x[k = e][k = k+1] = x[k = e+1], wrongly: e is read elsewhere."""
    return View(View(x, k, e), k, Index(k) // 2), View(x, k, e // 2)


def moved_inside(x, k: Axis, e: Position):
    """x[k = e][k = k/2] = x[k = e at k/2]."""
    return View(View(x, k, e), k, Index(k) // 2), View(x, k, e.at(k, Index(k) // 2))


def difference(x, i: Axis, k: Axis):
    """(x^2)[i+1] - (x^2)[i] = (x[i+1] - x[i]) (x[i+1] + x[i]), for a window of two."""
    a, b = View(x, k, Index(i) + 1), View(x, k, Index(i))
    return View(Map("square", x), k, Index(i) + 1) - View(Map("square", x), k, Index(i)), (a - b) * (a + b)


def diagonal(x, y, i: Axis, j: Axis):
    """(x y)[j = i] = x[j = i] y[j = i]."""
    return View(x * y, j, Index(i)), View(x, j, Index(i)) * View(y, j, Index(i))


def transposed(x, i: Axis, j: Axis):
    """x[j = i] = x[i = j], wrongly off the diagonal."""
    return View(x, j, Index(i)), View(x, i, Index(j)), OtherAxis(i, j)


def position_is_value(k: Axis):
    """The position along k, read at n-1-k, is n-1-k."""
    return View(Index(k), k, Extent(k) - 1 - Index(k)), Extent(k) - 1 - (Index(k) + 0.0)


def mean_of_many(x, k: Axis):
    """mean = sum / 1024, for that many."""
    return Mean(k, x), Sum(k, x) * (1 / 1024), equals(Extent(k), 1024)


def mean_of_many_more(x, k: Axis):
    """mean = sum / 1024, wrongly for fewer."""
    return Mean(k, x), Sum(k, x) * (1 / 1024), at_most(Extent(k), 1024)


def clip(x, a: Scalar, b: Scalar):
    """max(min(x, b), a) = min(max(x, a), b), for a <= b."""
    low, high = Const(a), Const(b)
    return Map("maximum", Map("minimum", x, high), low), Map("minimum", Map("maximum", x, low), high), at_most(a, b)


def clip_any(x, a: Scalar, b: Scalar):
    """The same, wrongly for other numbers."""
    low, high = Const(a), Const(b)
    return Map("maximum", Map("minimum", x, high), low), Map("minimum", Map("maximum", x, low), high), differs(a, b)


def never_below(a: Scalar, x):
    """min(max(x, a), a - 1) = a - 1, for a < -41.5 and finite x >= 0: NaN is not negative either."""
    return Map("minimum", Map("maximum", x, Const(a)), Const(a - 1)), Const(a - 1), less(a, -41.5), nonneg(x), finite(x)


def whole_already(x, t: TypeName):
    """floor x = x, for integers."""
    return Map("floor", x), x, has_type(x, t), integer(t)


def whole_if_stored(x, t: TypeName):
    """floor x = x, wrongly for floats."""
    return Map("floor", x), x, has_type(x, t)


def rounded_once(x):
    """To round a number of the type changes nothing."""
    return Cast("bfloat16", x), x, has_type(x, "bfloat16")


def rounded_to_less(x):
    """The same, wrongly for wider numbers."""
    return Cast("float16", x), x, has_type(x, "float32")


def no_rounding(x, t: TypeName):
    """cast x = x over the reals, for two types."""
    return Cast(t, x), x, one_of(t, "float16", "bfloat16")


def no_rounding_of(x, t: TypeName):
    """cast x = x, wrongly for an integer type among them."""
    return Cast(t, x), x, one_of(t, "float16", "int64")


def logs_in_a_chain(t, x, y, rest):
    """log x + log y + rest = log(x y) + rest."""
    return [operands("add", t, Map("log", x), Map("log", y), rest), nonneg(x), nonneg(y)], [equal(t, Map("log", x * y) + rest)]


def logs_without_the_rest(t, x, y, rest):
    """The same, wrongly without the rest."""
    return [operands("add", t, Map("log", x), Map("log", y), rest), nonneg(x), nonneg(y)], [equal(t, Map("log", x * y))]


def doubled(t, x, rest):
    """x and the rest, x again: t + x = 2x + rest."""
    return [operand("add", t, x, rest)], [equal(t, (x + x + rest) - x)]


def lost(t, x, rest):
    """t = x, wrongly without the rest."""
    return [operand("mul", t, x, rest)], [equal(t, x)]


TRUE = {  # and whether z3 proves it
    forwards: True, backwards: True, rolled: True, flattened: False, reversed_twice: True, moved_by: True, moved_inside: True, difference: False,
    diagonal: True, position_is_value: True, mean_of_many: None, clip: None, never_below: None, whole_already: None, rounded_once: None,
    no_rounding: None, logs_in_a_chain: None,
}  # fmt: skip
FALSE = {
    forwards_for_any_length: "real", each_but_first: "real", clamped: "real", flattened_for_any_length: "real", flattened_the_other_way: "exact",
    sorted_once: "exact", moved_by_another: "exact", transposed: "exact", mean_of_many_more: "real", clip_any: "real", whole_if_stored: "real",
    rounded_to_less: "exact", no_rounding_of: "real", logs_without_the_rest: "real", lost: "real", backwards: "exact",
}  # fmt: skip


def made(function, licence="real"):
    return make_rule(function, "user", licence, "factor", True)


@pytest.mark.parametrize("function", TRUE, ids=lambda f: f.__name__)
def test_true_rules_hold(function):
    report = check_rule(made(function), 100)
    assert report.numbers > 50
    if TRUE[function] and integers.solver() is not None:
        assert "integers" in report.oracles


@pytest.mark.parametrize("function", FALSE, ids=lambda f: f.__name__)
def test_false_rules_are_refuted(function):
    with pytest.raises(UnsoundRuleError):
        check_rule(made(function, FALSE[function]))


def test_a_counterexample_shows_positions_as_they_are_written():
    with pytest.raises(UnsoundRuleError, match=r"position \(\(Extent\(k\) \+ -1\.?0?\) .*Index\(i\)"):
        check_rule(made(forwards_for_any_length))


def test_proofs_refute_as_well():
    pytest.importorskip("z3")
    for function in (flattened_the_other_way, moved_by_another, transposed):
        with pytest.raises(UnsoundRuleError, match="found by z3"):
            integers.check_integers(Plan(made(function)))


# the engine ------------------------------------------------------------------------------------------------------------------------


def matches(function, terms, free_axes, splits=None):
    """How often a rule matches beside those that it builds on, and the audited graph."""
    r = made(function)
    rules = [x for family in ("signs", "layout", "algebra") for x in registry.rules(family)]
    graph = saturate(program("p", y=(terms, free_axes)), rules=[*rules, r], splits=splits)
    audit(graph)
    return next(c.matches for c in graph.report.rules if c.rule == r.name), graph


def members(graph):
    return {n.op for n in graph.classes[graph.roots["y"]]}, [n for n in graph.classes[graph.roots["y"]] if n.op == "reduce"]


def test_a_position_is_made():
    i, k = axes(i=4, k=8)
    found, graph = matches(backwards, sum_over(k, exp(tensor("x", i, k))), (i,))
    assert found
    assert any(n.op == "view" and str(n.attrs[1]) == "k*-1 + 7" for row in graph.classes for n in row)


def test_a_position_is_recognised():
    """Whatever it is called, and only if it is that one."""
    i, k, m = axes(i=8, k=8, m=7)
    x = tensor("x", k)
    assert matches(forwards, sum_over(i, view(x, k, index(i) * -1 + 7)), ())[0]
    assert not matches(forwards, sum_over(i, view(x, k, index(i))), ())[0]
    assert not matches(forwards, sum_over(i, view(x, k, (index(i) + 1) % 8)), ())[0]
    assert not matches(forwards, sum_over(m, view(x, k, index(m) * -1 + 7)), ())[0]  # seven of eight


def reshaped(x, i: Axis, j: Axis, k: Axis):
    """exp(x[k = i*m + j]) = exp(x)[k = i*m + j], for axes that nothing but the position names."""
    at = Index(i) * Extent(j) + Index(j)
    return Map("exp", View(x, k, at)), View(Map("exp", x), k, at), OtherAxis(i, j)


def test_axes_are_found_in_a_position():
    i, j, k = axes(i=3, j=4, k=12)
    x = tensor("x", k)
    check_rule(made(reshaped), 100)
    assert matches(reshaped, exp(view(x, k, index(i) * 4 + index(j))), (i, j))[0]
    assert not matches(reshaped, exp(view(x, k, index(i) * 4 + index(j) * -1 + 3)), (i, j))[0]
    assert matches(flattened, sum_over(i, sum_over(j, view(x, k, index(i) * 4 + index(j)))), ())[0]


def shifted(x, i: Axis, k: Axis):
    """2 x[k = i+1] = (2 x)[k = i+1], as a reason to ask for x[k = i+2]."""
    return View(x, k, Index(i)) * 2.0, View(x * 2.0, k, Index(i)) + (View(x, k, Index(i) + 1) * 0.0 + 0.0) * 0.0, free(x, i)


def test_no_position_leaves_an_axis():
    """In one program it would, so the rule does nothing there."""
    i, k, n = axes(i=7, k=8, n=7)
    assert matches(shifted, view(tensor("x", k), k, i) * 2.0, (i,))[0]
    assert not matches(shifted, view(tensor("x", n), n, i) * 2.0, (i,))[0]


def test_splits_of_what_a_rule_made():
    k, b = axes(k=12, b=4)
    found, graph = matches(backwards, sum_over(k, square(tensor("x", b, k))), (b,), splits={k: 3})
    assert found
    audit(graph, masked=True)


# conditions: rule fires for exactly these lengths of 0, 1, ..., 9
def lengths(condition):
    def r(x, k: Axis):
        """A rule that claims little."""
        return Sum(k, x), Sum(k, x * 1.0) * 1.0, condition(Extent(k))

    return r


CONDITIONS = {
    "equals": (lambda n: equals(n, 4), {4}),
    "equals of a product": (lambda n: equals(n * 2 - 1, 7), {4}),
    "differs": (lambda n: differs(n, 4), set(range(1, 10)) - {4}),
    "less": (lambda n: less(n, 3), {1, 2}),
    "greater": (lambda n: less(3, n), {4, 5, 6, 7, 8, 9}),
    "at most": (lambda n: at_most(n, 3), {1, 2, 3}),
    "at least": (lambda n: at_least(n, 8), {8, 9}),
    "divides": (lambda n: divides(3, n), {3, 6, 9}),
    "divides a number": (lambda n: divides(n, 12), {1, 2, 3, 4, 6}),
    "nothing divides by a fraction": (lambda n: divides(n, 0.5), set()),
    "power of two": (lambda n: power_of_two(n), {1, 2, 4, 8}),
    "power of two less one": (lambda n: power_of_two(n + 1), {1, 3, 7}),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_the_engine_asks_what_the_check_assumes(name):
    condition, expected = CONDITIONS[name]
    r = made(lengths(condition))
    compare = next(f for f in r.needs if type(f).__name__ == "Compare")
    from eqfuse.rewrites.world import World

    held, fired = set(), set()
    for n in range(1, 10):
        (k,) = axes(k=n)
        graph = saturate(program("p", y=(sum_over(k, tensor("x", k)), ())), rules=[r])
        fired |= {n} if graph.report.rules[0].matches else set()
        held |= {n} if compare.holds(World({"k": 0}, (n,))) else set()
    assert fired == held == expected
    if expected:
        check_rule(r, 50)
    assert r.sized


def between(x, low, high):
    return Op("maximum", (Op("minimum", (x, Number(high))), Number(low)))


def test_numbers_of_constants_are_compared():
    (i,) = axes(i=4)
    x = tensor("x", i)
    assert matches(clip, between(x, 1.0, 3.0), (i,))[0]
    assert matches(clip, between(x, 3.0, 3.0), (i,))[0]
    assert not matches(clip, between(x, 3.0, 1.0), (i,))[0]


def test_a_rule_whose_premises_nothing_satisfies_is_refused():
    def never(x, k: Axis):
        """No length is that."""
        return Sum(k, x), Sum(k, x) * 1.0, less(Extent(k), 0)

    with pytest.raises(RuleError, match="no example satisfied its premises"):
        check_rule(made(never), 20)


def optimized(f, args, function, **options):
    r = made(function)
    compiled = eqfuse.optimize(f, args, target="h200", rules=[r], **options)
    return compiled, next(c.matches for c in compiled.graph.report.rules if c.rule == r.name)


def halved_twice(x, t: TypeName):
    """cast(x) * 0.25 = cast(x) * 0.5 * 0.5, for 16-bit types."""
    return Cast(t, x) * 0.25, Cast(t, x) * 0.5 * 0.5, one_of(t, "float16", "bfloat16")


def of_stored(x):
    """|x| = |-x|, for x of bfloat16."""
    return Map("abs", x), Map("abs", -x), has_type(x, "bfloat16")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int64])
def test_types_in_programs(dtype):
    x = torch.ones(8, 4).to(dtype)
    assert bool(optimized(lambda x: (x.float() + 1).to(dtype) * 0.25, (x,), halved_twice)[1]) == (dtype in (torch.float16, torch.bfloat16))
    assert bool(optimized(lambda x: x.abs() + 1, (x,), of_stored)[1]) == (dtype == torch.bfloat16)
    assert bool(optimized(lambda x: x.t().abs() + 1, (x,), of_stored)[1]) == (dtype == torch.bfloat16)


def test_operands_anywhere_in_a_chain():
    (i,) = axes(i=4)
    a, b, c, d, e = (tensor(n, i) for n in "abcde")
    p, q = log(exp(a)), log(exp(b))
    for chain in (p + q + c + d, p + c + q + d, c + (p + d) + (e + q), (c + p) + (q + d), c + (d + (p + (e + q))), p + (c + q)):
        found, graph = matches(logs_in_a_chain, chain, (i,))
        assert found, str(chain)
        assert any(n.op == "map" and n.attrs == ("log",) for row in graph.classes for n in row if n.rule == "logs_in_a_chain")
    assert not matches(logs_in_a_chain, p * q * c, (i,))[0]
    assert not matches(logs_in_a_chain, p + c + d, (i,))[0]


def test_only_a_rule_that_asks_pays_for_chains():
    (i,) = axes(i=4)
    t = tensor("x0", i)
    for n in range(1, 10):
        t = t + tensor(f"x{n}", i)
    p = program("chain", y=(t, (i,)))
    assert not saturate(p).facts["operand"]
    found, graph = matches(logs_in_a_chain, t, (i,))
    assert not found
    assert graph.report.stopped == "saturated"
    pairs = {frozenset(row[2:4]) for row in graph.facts["operands"] if row[1] == graph.roots["y"]}
    leaves = {c for c, row in enumerate(graph.classes) if any(n.op == "input" for n in row)}
    assert len([pair for pair in pairs if pair <= leaves]) == 45
    assert graph.enodes < 1000


# end to end ------------------------------------------------------------------------------------------------------------------------


def renamed(x, i: Axis, k: Axis, g: AnyMonoid):
    """g_i x[k = i] = g_k x, for an i as long as k."""
    return Reduce(g, i, View(x, k, Index(i))), Reduce(g, k, x), free(x, i), equals(Extent(i), Extent(k))


def range_of_flipped(x):
    return torch.flip(x, [-1]).amax(-1) - x.amin(-1)


@pytest.mark.parametrize("functions", [(forwards,), (backwards, renamed)], ids=["left", "right"])
def test_a_rule_with_a_computed_position_changes_the_plan(functions):
    """Two axes over one row become one: the row is read once."""
    args = (torch.randn(6, 40),)
    rules = [made(f) for f in functions]
    plain = eqfuse.optimize(range_of_flipped, args, target="h200")
    ours = eqfuse.optimize(range_of_flipped, args, target="h200", rules=rules)
    count = [len(k.kernel.roles) for c in (plain, ours) for k in c.plan.kernels]
    assert count == [3, 2]
    torch.testing.assert_close(ours.interpret(*args), range_of_flipped(*args))
    other = torch.randn(6, 40) - 100.0
    torch.testing.assert_close(ours.interpret(other), range_of_flipped(other))


def test_a_module_made_for_some_lengths_takes_these_alone():
    args = (torch.randn(6, 64),)
    plain = eqfuse.optimize(lambda x: x.mean(-1), args, target="h200")
    scaled = eqfuse.optimize(lambda x: x.mean(-1), args, target="h200", rules=[made(mean_of_many_here)])
    assert scaled.graph.report.rules[-1].matches
    assert "N_rows == 6" not in plain.source
    assert "N_rows == 6" in scaled.source


def mean_of_many_here(x, k: Axis):
    """mean = sum / 64, for that many."""
    return Mean(k, x), Sum(k, x) * (1 / 64), equals(Extent(k), 64)


def test_what_a_position_needs_is_said():
    def loose(x, j: Axis, k: Axis):
        """x = x."""
        return Sum(k, x), Sum(k, View(x, k, Index(j)))

    def unknown_length(x, j: Axis, k: Axis):
        """x = x."""
        return Sum(k, View(x, k, Index(k) % Extent(j))), Sum(k, View(x, k, Index(k)))

    def product(x, k: Axis):
        """x = x."""
        return x, View(x, k, Index(k) * Index(k))

    def divided(x, k: Axis):
        """x = x."""
        return x, View(x, k, Index(k) // Index(k))

    def by_zero(x, k: Axis):
        """x = x."""
        return x, View(x, k, Index(k) % 0)

    def by_a_value(x, y, k: Axis):
        """x = x."""
        return x, View(x, k, Index(k) + y)

    def by_a_function(x, k: Axis):
        """x = x."""
        return x, View(x, k, Map("floor", Index(k)))

    for function, message in (
        (loose, "binds 'j', which the position Index(j)"), (unknown_length, "binds 'j'"), (product, "the product of two positions"),
        (divided, "divided by a position"), (by_zero, "divided by 0"), (by_a_value, "y is no position"), (by_a_function, "is no position"),
    ):  # fmt: skip
        with pytest.raises(RuleError) as info:
            made(function)
        assert message in info.value.message, info.value
        assert info.value.cure
        assert info.value.where.startswith("rewrites/test_positions.py:")
