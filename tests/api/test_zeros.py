"""The sign of zero: constants, negation and bounds, under the licence that promises every bit (docs/numerics.md)."""

import math
import re

import numpy as np
import pytest
import torch

import eqfuse
from eqfuse.errors import UnsoundRuleError
from eqfuse.ir import build
from eqfuse.ir.build import axes, exp, lt, program, select, tensor
from eqfuse.ir.program import Output, Program
from eqfuse.ir.reference import evaluate
from eqfuse.ir.source import program_source
from eqfuse.ir.terms import Const, Map, number_of
from eqfuse.rewrites.patterns import Const as Number
from eqfuse.rewrites.rule import Scalar, make_rule
from eqfuse.testing import check_rule

X = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.5, -0.5, math.inf, -math.inf, math.nan])
(I,) = axes(i=11)
T = tensor("x", I)


def bits(x):
    """A tensor of numbers as text, in which zeros have signs and there is one NaN."""
    return ["nan" if v != v else repr(v) for v in torch.as_tensor(np.asarray(x)).float().tolist()]


# each is divided into 1, which makes a difference in the sign of zero one of infinities
ZEROS = {
    "chosen": lambda x: torch.where(x > 0, x, -0.0),
    "chosen from two": lambda x: torch.where(x > 0, 0.0, -0.0),
    "masked": lambda x: x.masked_fill(x <= 0, -0.0),
    "added": lambda x: x + (-0.0),
    "positive added": lambda x: x + 0.0,
    "subtracted": lambda x: x - 0.0,
    "a whole number subtracted": lambda x: x - 0,
    "subtracted from": lambda x: -0.0 - x,
    "positive subtracted from": lambda x: 0.0 - x,
    "multiplied": lambda x: x * -0.0,
    "beside the positive one": lambda x: torch.where(x < 0, x * 0.0, x * -0.0),
    "filled": lambda x: torch.full_like(x, -0.0) * x,
    "made by a constant": lambda x: x * 0.0 + (-torch.zeros(())),
    "a tensor": lambda x: x * torch.tensor(-0.0),
    "beside integers": lambda x: torch.where(x > 0, (x > 1).long(), -0.0),
    "times integers": lambda x: (x > 1).long() * -0.0,
    "negated": lambda x: -x,
    "negated twice": lambda x: torch.neg(-x) * 1.0,
    "negated product": lambda x: -(x * 0.0),
    "difference of negations": lambda x: -x - (-x.abs()),
    "rounded up": lambda x: torch.ceil(x - 0.5),
    "relu": torch.relu,
    "at least": lambda x: x.clamp(min=0),
    "at least minus zero": lambda x: x.clamp(min=-0.0),
    "at most": lambda x: x.clamp(max=-0.0),
    "between": lambda x: torch.nn.functional.hardtanh(x, 0.0, 1.0),
    "between in the wrong order": lambda x: x.clamp(1.0, -0.0),
    "relu6": torch.nn.functional.relu6,
}


@pytest.mark.parametrize("name", ZEROS)
def test_exact_keeps_the_sign_of_zero(name):
    def f(x):
        y = ZEROS[name](x)
        return y * 1.0, 1.0 / y

    compiled = eqfuse.optimize(f, (X,), target="h200", licence="exact")
    expected = f(X)
    for found in (compiled.interpret(X), compiled.simulate(X)):
        assert [bits(y) for y in found] == [bits(y) for y in expected]


@pytest.mark.parametrize("name", ["chosen", "subtracted", "multiplied", "filled"])
def test_constants_keep_it_under_any_licence(name):
    def f(x):
        return 1.0 / ZEROS[name](x)

    assert bits(eqfuse.optimize(f, (X,), target="h200").interpret(X)) == bits(f(X))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "gfx942"])
def test_a_compiler_keeps_it(arch):
    """Triton reads a literal -0.0 as 0.0, and -x as 0 - x."""
    chosen = eqfuse.optimize(lambda x: torch.where(x > 1, x, -0.0), (torch.randn(64, 256),), target="h200", licence="exact")
    (report,) = chosen.compile(arch)
    assert re.search(r"0f80000000|0x80000000|-2147483648|\bv_bfrev_b32\w* v\d+, 1\b", report.assembly), "the sign bit alone"
    negated = eqfuse.optimize(lambda x: -x, (torch.randn(64, 256),), target="h200", licence="exact")
    (report,) = negated.compile(arch)
    assert not re.search(r"sub(?:\.rn)?\.f32|v_(?:pk_)?sub(?:rev)?_f32", report.assembly)
    assert re.search(r"neg\.f32|mul(?:\.rn)?\.f32|xor|v_(?:pk_)?mul_f32", report.assembly)


# terms -------------------------------------------------------------------------------------------------------------------------------
def test_minus_zero_is_the_negation_of_zero():
    assert Const(-0.0) is Map("neg", (Const(0.0),))
    assert Const(-0.0) is not Const(0.0)
    assert [str(number_of(t)) for t in (Const(-0.0), Const(0.0), Const(2), T, -T)] == ["-0.0", "0.0", "2.0", "None", "None"]
    assert Const(-0) is Const(0) is Const(0.0)


def test_subtracting_zero_adds_minus_zero():
    assert T - 0.0 is T + Const(-0.0)
    assert T - 0 is T + Const(-0.0)
    n = tensor("n", I, dtype=build.dtypes.int64)
    assert n - 0 is n + Const(0)


def test_terms_print_as_what_rebuilds_them():
    for value in (-0.0, 0.0, -1.5, math.inf, -math.inf, math.nan):
        t = T * Const(value)
        assert eval(repr(t), {**vars(build), **vars(build.dtypes), **vars(eqfuse.ir.terms)}) is t


def test_programs_print_as_what_rebuilds_them():
    p = program("p", y=(select(lt(T, 0.0), T * -0.0, T - 0.0), (I,)))
    scope = {}
    exec(program_source(p), scope)
    assert scope["p"] == p
    assert "= -0\n" in str(p)


def test_the_reference_knows_both():
    p = program("p", y=(select(lt(T, 0.0), Const(-0.0), Const(0.0)), (I,)))
    assert bits(evaluate(p, {"x": X.numpy()})["y"]) == bits(torch.where(X < 0, -0.0, 0.0))


def test_a_whole_program_of_both():
    p = program("p", y=(Map("recip", (select(lt(T, 0.0), T * 0.0, T * -0.0),)), (I,)), z=(exp(T) * -0.0, (I,)))
    found = eqfuse.optimize(p, target="h200", licence="exact").interpret(X)
    expected = 1.0 / torch.where(X < 0, X * 0.0, X * -0.0), torch.exp(X) * -0.0
    assert [bits(y) for y in found] == [bits(y) for y in expected]
    assert isinstance(p, Program)
    assert isinstance(p.outputs[0], Output)


# rules -------------------------------------------------------------------------------------------------------------------------------
def minus_zero_added(x):
    """x + -0 = x."""
    return x + Number(-0.0), x


def zero_added(x):
    """x + 0 = x."""
    return x + Number(0.0), x


def negation_folded(a: Scalar):
    """-(a) = (-a), which has no sign where a is 0."""
    return -Number(a), Number(-a)


def product_folded(a: Scalar, b: Scalar):
    """Constants are multiplied, 0 by -1 as well."""
    return Number(a) * Number(b), Number(a * b)


def test_a_rule_about_minus_zero_speaks_of_minus_zero():
    rule = make_rule(minus_zero_added, "user", "exact", "factor", True)
    check_rule(rule)
    for f, fires in ((lambda x: 1.0 / (x + 0.0), False), (lambda x: 1.0 / (x - 0.0), True)):
        compiled = eqfuse.optimize(f, (X,), target="h200", licence="exact", rules=[rule])
        assert any(r.rule == rule.name and r.matches for r in compiled.graph.report.rules) is fires
        assert bits(compiled.interpret(X)) == bits(f(X))


@pytest.mark.parametrize(
    ("function", "shows"), [(zero_added, r"-0\.0"), (negation_folded, r"-0\.0"), (product_folded, "compared bit by bit")]
)
def test_rules_that_lose_a_sign_are_not_exact(function, shows):
    with pytest.raises(UnsoundRuleError, match=shows):
        check_rule(make_rule(function, "user", "exact", "factor", True))
