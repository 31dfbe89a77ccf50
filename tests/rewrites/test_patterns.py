"""Patterns are written as terms are, mean what numpy means, and what goes wrong in a rule's body is said with its line."""

import numpy as np
import pytest
import torch

import eqfuse
from eqfuse.errors import RuleError
from eqfuse.frontends import trace
from eqfuse.ir.terms import Const as ConstTerm
from eqfuse.ir.terms import Input, Term
from eqfuse.ir.terms import Map as MapTerm
from eqfuse.rewrites import Axis, Const, Map, Scalar, Sum, match
from eqfuse.rewrites.check import check_rule
from eqfuse.rewrites.patterns import Number, NumberVar, Pattern, Var
from eqfuse.rewrites.rule import make_rule
from eqfuse.rewrites.world import World

OPERATORS = {n for n in vars(Term) if n.strip("_") in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "neg")}
X, A, HERE = Var("x"), NumberVar("a"), "rewrites/test_patterns.py:"

WRITTEN = {
    "2.0 * x": lambda x: 2.0 * x,
    "x * 2": lambda x: x * 2,
    "1.0 - x": lambda x: 1.0 - x,
    "x - 3": lambda x: x - 3,
    "x - 0": lambda x: x - 0,
    "1.0 / x": lambda x: 1.0 / x,
    "3 / x": lambda x: 3 / x,
    "x / 4": lambda x: x / 4,
    "x / x": lambda x: x / (x + 1),
    "1 + x": lambda x: 1 + x,
    "-x": lambda x: -x,
    "x - x": lambda x: x - (x + 1),
}
POWERS = {f"x ** {p}": (lambda x, p=p: x**p) for p in (1, 2, 3, 8, 0.5, -0.5, -1, -2, 2.5)}


def shape(t):
    """A pattern or a term without variable names."""
    if isinstance(t, Map | MapTerm):
        return t.op, *map(shape, t.args)
    if isinstance(t, Const | ConstTerm):
        return float(t.number.number if isinstance(t, Const) else t.value)
    return "x"


def test_the_operators_of_terms():
    assert len(OPERATORS) == 9
    assert vars(Pattern).keys() >= OPERATORS
    assert vars(Number).keys() >= OPERATORS


@pytest.mark.parametrize("f", WRITTEN.values(), ids=WRITTEN)
def test_as_on_terms(f):
    assert shape(f(X)) == shape(f(Input("x", (), eqfuse.ir.dtypes.float32)))


@pytest.mark.parametrize("f", [*WRITTEN.values(), *POWERS.values()], ids=[*WRITTEN, *POWERS])
def test_as_in_numpy(f):
    x = np.array([0.3, 1.0, 2.5])
    np.testing.assert_allclose(f(X).value(World({"x": x}, (3,))), f(x), rtol=1e-14)


@pytest.mark.parametrize("f", POWERS.values(), ids=POWERS)
def test_powers_are_those_that_programs_are_read_as(f):
    (read,) = trace(lambda x: f(x) + 7.0, (torch.ones(4),)).program.outputs
    assert shape(f(X) + 7.0) == shape(read.term)


def test_numbers_of_constants():
    world = World({"x": np.array([3.0]), "a": 4.0}, (1,))
    for found, number in ((X * A, 12.0), (2 * A * X, 24.0), (1 / A - X, -2.75), (X / A, 0.75), ((1 - A) * X, -9.0), (A - 1 + X, 6.0)):
        assert found.value(world) == [number]
    assert (2.0**X).value(world) == [8.0]
    assert (3.0**X).value(world) == pytest.approx([27.0])


def test_a_rule_with_numbers_on_the_left():
    """It matches what the program says, in either order."""

    @eqfuse.rule(register=False)
    def tanh_of_twice(x):
        """1 - 2/(e^(2x) + 1) = tanh x."""
        return 1.0 - 2.0 / (Map("exp", 2.0 * x) + 1.0), Map("tanh", x)

    compiled = eqfuse.optimize(lambda x: 1.0 - 2.0 / (torch.exp(x * 2.0) + 1.0), (torch.ones(64),), target="h200", rules=[tanh_of_twice])
    assert any(r.rule == "tanh_of_twice" and r.matches for r in compiled.graph.report.rules)


# what goes wrong in a body ---------------------------------------------------------------------------------------------------------


def unbound(x):
    """x * y = x."""
    return x * yy, x  # noqa: F821


def misspelt(value):
    """x * 1 = x."""
    return value * 1.0, valeu  # noqa: F821


def unimported(x, k: Axis):
    """max of x."""
    return Max(k, x), x  # noqa: F821


def axis_as_value(x, k: Axis):
    """x times an axis."""
    return x * k, x


def out_of_range(x):
    """x + 0 = x."""
    parts = []
    return parts[3], x


def by_helper(x):
    """x + 0 = x."""
    return broken(x), x


def broken(x):
    return x.total()


BODIES = {
    unbound: ("name 'yy' is not defined", "return x * yy, x", "a variable of the rule must be one of its parameters"),
    misspelt: ("name 'valeu' is not defined", "return value * 1.0, valeu", "did you mean 'value'?"),
    unimported: ("name 'Max' is not defined", "return Max(k, x), x", "from eqfuse.rewrites import Max"),
    axis_as_value: ("k is no value but an axis", "return x * k, x", "Extent(k)"),
    out_of_range: ("IndexError: list index out of range", "return parts[3], x", "correct this line"),
    by_helper: ("x is a value, and has no total", "return x.total()", 'Map("exp", x) applies an op'),
}


@pytest.mark.parametrize("function", BODIES)
def test_the_line_that_failed(function):
    message, line, cure = BODIES[function]
    with pytest.raises(RuleError) as info:
        make_rule(function, "user", "real", "factor", True)
    error = info.value
    assert message in error.message
    assert function.__name__ in error.message
    assert error.where.startswith(HERE)
    assert error.where.endswith(f"  {line}") or f"  {line}  #" in error.where
    assert cure in error.cure
    assert "a rule returns" not in error.cure
    assert error.__cause__ is not None


def unknown_annotation(x: "Axes"):  # noqa: F821
    """x = x."""
    return x, x


def nothing_but_a_side(x):
    """x."""
    return x


def only_computed(x, a: Scalar):
    """x / a = x * (1/a)."""
    return x / a, (1 / a) * x


def test_other_causes_have_other_cures():
    for function, cure in ((unknown_annotation, "Axis, Scalar"), (nothing_but_a_side, "a rule returns"), (only_computed, "match Const(a)")):
        with pytest.raises(RuleError) as info:
            make_rule(function, "user", "real", "factor", True)
        assert cure in info.value.cure


def test_a_number_is_a_side():
    def vanishes(x, k: Axis):
        """sum_k 0 = 0."""
        return Sum(k, 0.0), 0.0

    check_rule(make_rule(vanishes, "user", "real", "factor", True), 20)

    def clipped(t, x):
        """max(x, 0) is not negative."""
        return [match(t, Map("maximum", x, 0.0))], [eqfuse.rewrites.nonneg(t)]

    check_rule(make_rule(clipped, "user", "real", "analysis", True), 20)
