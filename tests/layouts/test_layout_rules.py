"""Rules on layouts: saturation agrees with the direct algorithms, within a stated number of nodes; broken rules are refuted, by their check and by the audit."""

import random

import layout_properties as drawing
import pytest
import rule_properties as properties

from eqfuse.egraph import layouts
from eqfuse.egraph.audit import audit as audit_program
from eqfuse.egraph.saturate import saturate
from eqfuse.errors import LayoutError, RuleError, UnsoundGraphError, UnsoundRuleError
from eqfuse.ir.build import axes, program, tensor, view
from eqfuse.ir.index import index
from eqfuse.ir.layout import Layout
from eqfuse.ir.layout.terms import Term, layout, places, term
from eqfuse.rewrites import registry
from eqfuse.rewrites.check import check_rule
from eqfuse.rewrites.comparisons import at_most, divides, less
from eqfuse.rewrites.facts import equal, match, nonneg
from eqfuse.rewrites.iters import (
    Copies,
    Hardware,
    Offset,
    Places,
    Sharded,
    Slice,
    Tile,
    elements,
    magnitude,
    origin,
    quotient,
    remainder,
    span,
)  # fmt: skip
from eqfuse.rewrites.layout import Step
from eqfuse.rewrites.patterns import Map
from eqfuse.rewrites.rule import Scalar, make_rule

DRAWS = {"canonicalize": 100, "canonicalize_copies": 30}


@pytest.mark.parametrize("check", properties.PROPERTIES, ids=lambda p: p.__name__)
def test_saturation_agrees_with_the_direct_algorithm(check):
    """Never another map, and another form only of entangled copies; the graph is audited, its nodes are within the bound."""
    words = [check(drawing.Source(random.Random(f"test {seed}").randint))[0] for seed in range(DRAWS.get(check.__name__, 12))]
    assert "equal" in words
    assert words.count("equal") + words.count("neither") > 0.8 * len(words)


def test_the_bound_is_reached():
    """It is no larger than it has to be: copies that neither chain nor absorb, on two axes, one of them backwards."""
    found = Layout([(2, 1)], [(3, -5)], {"lane": 2})
    assert len(layouts.saturate(found).classes) > 4
    for small in (Layout([]), Layout([(2, 3)]), Layout([], [(3, -5)]), Layout([], (), {"lane": 2})):
        assert layouts.saturate(small).report.enodes <= properties.bound(small)
    assert layouts.saturate(Layout([], [(3, -5)])).report.enodes == properties.bound(Layout([], [(3, -5)]))


# false rules ------------------------------------------------------------------------------------------------------------------------


def d1_with_the_iters_exchanged(x: Places, e: Scalar, f: Scalar, s: Scalar, a: Hardware):
    return Sharded(e, s, a, Sharded(f, e * s, a, x)), Sharded(e * f, s, a, x)


def d1_on_two_axes(x: Places, e: Scalar, f: Scalar, s: Scalar, a: Hardware, b: Hardware):
    return Sharded(e, f * s, a, Sharded(f, s, b, x)), Sharded(e * f, s, b, x)


def d0_of_two(x: Places, s: Scalar, a: Hardware):
    return Sharded(2, s, a, x), x


def c0_of_iters(x: Places, e: Scalar, a: Hardware):
    return Sharded(e, 0, a, x), x


def c1_without_its_offset(x: Places, e: Scalar, s: Scalar, a: Hardware):
    return Copies(e, s, a, x), Copies(e, -s, a, x), less(s, 0)


def c1_one_step_too_far(x: Places, e: Scalar, s: Scalar, a: Hardware):
    return Copies(e, s, a, x), Offset(e * s, a, Copies(e, -s, a, x)), less(s, 0)


def c2_without_its_guard(x: Places, e: Scalar, f: Scalar, s: Scalar, t: Scalar, a: Hardware):
    return Copies(e, s, a, Copies(f, t, a, x)), Copies(e + quotient(t, s) * (f - 1), s, a, x), divides(s, t), less(0, t)


def c2_past_its_guard(x: Places, e: Scalar, f: Scalar, s: Scalar, t: Scalar, a: Hardware):
    absorbed = Copies(e + quotient(t, s) * (f - 1), s, a, x)
    return Copies(e, s, a, Copies(f, t, a, x)), absorbed, divides(s, t), less(0, t), at_most(t, (e + 1) * s)


def c2_backwards(x: Places, e: Scalar, f: Scalar, s: Scalar, t: Scalar, a: Hardware):
    return Copies(e, s, a, Copies(f, t, a, x)), Copies(e + quotient(t, s) * (f - 1), s, a, x), divides(s, t), at_most(t, e * s)


def iters_commute(x: Places, e: Scalar, f: Scalar, s: Scalar, t: Scalar, a: Hardware, b: Hardware):
    return Sharded(e, s, a, Sharded(f, t, b, x)), Sharded(f, t, b, Sharded(e, s, a, x))


def copies_are_iters(x: Places, e: Scalar, s: Scalar, a: Hardware):
    return Copies(e, s, a, x), Sharded(e, s, a, x)


def offsets_of_two_axes_add(x: Places, u: Scalar, v: Scalar, a: Hardware, b: Hardware):
    return Offset(u, a, Offset(v, b, x)), Offset(u + v, a, x)


def tile_without_the_span(x: Places, y: Places, e: Scalar, s: Scalar, a: Hardware, step: Step):
    return Tile(step(e, s, a, x), y), step(e, s, a, Tile(x, y))


def tile_by_the_elements(x: Places, y: Places, e: Scalar, s: Scalar, a: Hardware, n: Scalar):
    return Tile(Sharded(e, s, a, x), y), Sharded(e, s * n, a, Tile(x, y)), elements(y, n)


def slice_over_the_end_of_a_step(x: Places, e: Scalar, s: Scalar, a: Hardware, u: Scalar, n: Scalar, m: Scalar):
    r = remainder(u, m)
    return Slice(u, n, Sharded(e, s, a, x)), Offset(quotient(u - r, m) * s, a, Slice(r, n, x)), elements(x, m)


def slice_that_begins_in_a_step(x: Places, e: Scalar, s: Scalar, a: Hardware, u: Scalar, n: Scalar, m: Scalar):
    whole = Offset(quotient(u - remainder(u, m), m) * s, a, Sharded(quotient(n, m), s, a, x))
    return Slice(u, n, Sharded(e, s, a, x)), whole, elements(x, m), divides(m, n)


def slice_of_slice_from_its_own_first(x: Places, u: Scalar, v: Scalar, m: Scalar, n: Scalar):
    return Slice(u, n, Slice(v, m, x)), Slice(u, n, x)


def split_the_wrong_way(t: Places, x: Places, e: Scalar, s: Scalar, a: Hardware, f: Scalar):
    return [match(t, Sharded(e, s, a, x)), elements(x, f), divides(f, e)], [
        equal(t, Sharded(f, s, a, Sharded(quotient(e, f), f * s, a, x)))
    ]


def span_without_the_last_step(t: Places, x: Places, e: Scalar, s: Scalar, a: Hardware, w: Scalar):
    return [match(t, Sharded(e, s, a, x)), span(x, a, w)], [span(t, a, w + magnitude(s) * e)]


def span_with_its_sign(t: Places, x: Places, e: Scalar, s: Scalar, a: Hardware, w: Scalar):
    return [match(t, Copies(e, s, a, x)), span(x, a, w)], [span(t, a, w + s * (e - 1))]


def origin_of_backward_copies(t: Places, x: Places, e: Scalar, s: Scalar, a: Hardware, o: Scalar):
    return [match(t, Copies(e, s, a, x)), origin(x, a, o)], [origin(t, a, o)]


def elements_of_copies_too(t: Places, x: Places, e: Scalar, s: Scalar, a: Hardware, n: Scalar):
    return [match(t, Copies(e, s, a, x)), elements(x, n)], [elements(t, e * n)]


MUTANTS = [
    f for f in list(globals().values()) if callable(f) and getattr(f, "__module__", "") == __name__ and not f.__name__.startswith("test_")
]


def made(function):
    function.__doc__ = function.__name__
    return make_rule(function, "layout", "exact", "iters", True)


@pytest.mark.parametrize("function", MUTANTS, ids=lambda f: f.__name__)
def test_the_check_refutes_a_false_rule(function):
    """With a counterexample that names its variables, at its line."""
    rule = made(function)
    with pytest.raises(UnsoundRuleError, match=f"{rule.where}: rule {rule.name} is false") as caught:
        check_rule(rule, 200)
    assert any(f"  {v.name} = " in str(caught.value) for v in rule.variables)


@pytest.mark.parametrize(
    ("function", "at"),
    [
        (c2_without_its_guard, Layout([], [(2, 1), (2, 4)])),
        (d1_with_the_iters_exchanged, Layout([(2, 1), (3, 2)])),
        (tile_without_the_span, Term("tile", (), (term(Layout([(2, 1)])), term(Layout([(2, 1)]))))),
    ],
    ids=lambda f: getattr(f, "__name__", ""),
)
def test_the_audit_finds_a_false_rule(function, at):
    """Beside the others, which alone pass."""
    rules = tuple(r for r in registry.active("exact") if r.phase == "iters")
    layouts.audit(layouts.saturate(at, rules=rules))
    with pytest.raises(UnsoundGraphError) as caught:
        layouts.audit(layouts.saturate(at, rules=(*rules, made(function)), node_budget=2000))
    assert function.__name__ in caught.value.rules


def test_the_audit_finds_a_false_number():
    rules = tuple(r for r in registry.active("exact") if r.phase == "iters" and r.name != "span_along_step")
    with pytest.raises(UnsoundGraphError, match="the span on m of class 0 is 2, and said to be 0"):
        layouts.audit(layouts.saturate(Layout([], [(2, -1)]), rules=(*rules, made(span_with_its_sign))))


# what is refused --------------------------------------------------------------------------------------------------------------------


def test_values_and_layouts_do_not_mix():
    def refused(function, phase, message):
        function.__doc__ = "..."
        with pytest.raises(RuleError, match=message) as caught:
            make_rule(function, "layout", "exact", phase, True)
        assert caught.value.cure

    refused(lambda_rule(lambda x: (Map("neg", Map("neg", x)), x)), "iters", "is no layout")
    refused(one_step_elsewhere, "factor", "is a layout")
    refused(node_over_a_value, "iters", "Offset: y is no layout but a value")
    refused(a_sign, "iters", "NonNeg is no condition on layouts")


def lambda_rule(function):
    def written(x):
        return function(x)

    return written


def one_step_elsewhere(x: Places, s: Scalar, a: Hardware):
    return Sharded(1, s, a, x), x


def node_over_a_value(y, s: Scalar, a: Hardware):
    return Offset(0, a, y), y


def a_sign(x: Places, s: Scalar, a: Hardware):
    return Sharded(1, s, a, x), x, nonneg(x)


def test_what_has_no_layout_and_what_is_too_large():
    middle = Term("slice", (1, 3), (term(Layout([(2, 8), (2, 1)])),))
    with pytest.raises(LayoutError, match="no rule says which layout this is"):
        layouts.smallest(layouts.saturate(middle))
    with pytest.raises(LayoutError, match="slice is an operation"):
        layout(middle)
    assert [len(p) for p in places(middle)] == [1, 1, 1]
    for large in (Layout([(2, 2**60)]), Layout([(2**30, 1), (2**30, 0)]), Layout([(1, 1)], [(2**40, 2**20)])):
        with pytest.raises(LayoutError, match="beyond 2"):
            layouts.saturate(large)
    four = Layout([], [(2, -1), (3, -2), (2, -7), (3, -5)])
    assert layouts.saturate(four, node_budget=20).report.stopped == "nodes"
    assert layouts.smallest(layouts.saturate(four, node_budget=20)).equivalent(four), "what is there is true, budget or not"


# a value that is stored in another order --------------------------------------------------------------------------------------------


def test_a_value_read_back_from_another_order_is_the_value():
    """x in tiles of 4 x 8, on one axis of memory, and read again row by row: with its view rule it is x, without it is not."""
    i, j, m = axes(i=12, j=16, m=192)
    tiles = Layout([(3, 64), (4, 8), (2, 32), (8, 1)])
    there = tiles.to_index((i, j), (12, 16))["m"]
    row = index(m) // 64 * 4 + index(m) // 8 % 4
    col = index(m) // 32 % 2 * 8 + index(m) % 8
    assert there.substitute({i: row, j: col}) == index(m)
    stored = view(view(tensor("x", i, j), i, row), j, col)
    p = program("relayout", y=(view(stored, m, there), (i, j)))
    for disabled in ((), ("views_undo",)):
        graph = saturate(p, disabled=disabled)
        audit_program(graph, shrink_seconds=0)
        assert any(n.op == "input" for n in graph.classes[graph.roots["y"]]) == (not disabled)
