"""Every op of the table passes the check that a user's declaration must pass, and broken variants of them do not."""

import dataclasses
import math

import numpy as np
import pytest

from eqfuse import errors
from eqfuse.ir.ops import BUILT_IN, OPS, triton
from eqfuse.ir.ranges import UNIT, Interval, increasing
from eqfuse.ir.signs import sign_traits
from eqfuse.testing.ops import check as op_check
from eqfuse.testing.ops.check import check_op
from eqfuse.testing.ops.spelling import check_spelling


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_op_of_the_library_is_what_it_says(name):
    check_op(OPS[name])


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_spelling_of_the_library_says_what_numpy_says(name):
    check_spelling(OPS[name], inside=False)


def broken(name, **change):
    return dataclasses.replace(OPS[name], **change)


FAULTS = {
    "exp without its limit": broken("exp", range=increasing(lambda x: math.exp(min(x, 700.0)))),
    "exp that is never small": broken("exp", range=lambda a: Interval(1e-3, math.inf)),
    "sigmoid turns sums": broken("sigmoid", turns=(("add", "mul"),)),
    "tanh turns sums": broken("tanh", turns=(("add", "add"),)),
    "log on all reals": broken("log", domain="real"),
    "sqrt on all reals": broken("sqrt", domain="real"),
    "recip at zero": broken("recip", domain="real"),
    "square increases": broken("square", increasing=True),
    "cos keeps zero": broken("cos", keeps_zero=True),
    "erf below one half": broken("erf", range=lambda a: Interval(-0.5, 0.5)),
    "neg is positive": broken("neg", range=lambda a: Interval(max(a.lo, 0.0), max(a.hi, 0.0))),
    "where commutes": broken("lt", commutative=True),
    "add as min": broken("add", range=lambda a, b: Interval(min(a.lo, b.lo), max(a.hi, b.hi))),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_broken_declarations_are_found(fault):
    with pytest.raises(errors.UnsoundOpError):
        check_op(FAULTS[fault])


SPELLINGS = {
    "exp": "tl.exp({} * 1.00001)", "exp2": "tl.exp({} * 0.6931)", "log": "tl.log2({}) * 0.693", "tanh": "1.0 - 2.0 / (1.0 + tl.exp(2.0 * {}))",
    "floor": "{} - 0.5", "recip": "1.0 / ({} + 1e-6)", "sigmoid": "tl.exp({0}) / (1.0 + tl.exp({0}))", "maximum": "tl.minimum({}, {})",
    "lt": "{} <= {}", "abs": "{}", "log1p": "tl.log(1.0 + {})", "square": "{0} * tl.abs({0})", "where": "tl.where({}, {}, {}) * 1.0001",
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_broken_spellings_are_found(name):
    with pytest.raises(errors.UnsoundOpError):
        check_spelling(broken(name, spellings=triton(SPELLINGS[name])), compiled=False)


def test_derived_signs_ask_wide_intervals():
    shifted = broken("exp", numpy=lambda x: x + 2, range=lambda a: Interval(a.lo + 2, a.hi + 2), turns=())
    assert "positive-if-bounded" not in sign_traits(shifted)
    cancelling = broken("sigmoid", range=lambda a: Interval(1 + a.lo / (1 - a.lo), 2) if -1e30 < a.lo < 0 else Interval(0, 2))
    assert "positive-if-bounded" not in sign_traits(cancelling)  # it is 0 from -1e17 on, by rounding
    assert "positive-if-bounded" in sign_traits(OPS["exp"])
    assert "keeps-bounded" not in sign_traits(broken("exp", range=lambda a: Interval() if a.lo < 5 < a.hi else UNIT))


SHIFTED = broken(
    "exp", numpy=lambda x: np.maximum(x + 500.0, 0.0), turns=(), range=lambda a: Interval(max(a.lo + 500.0, 0.0), max(a.hi + 500.0, 0.0))
)


def test_a_true_zero_is_told_from_underflow(monkeypatch):
    """max(x + 500, 0) is positive on [-300, 300] and zero beyond; exp is zero beyond -745 by underflow."""
    check_op(SHIFTED)
    assert "positive-if-bounded" not in sign_traits(SHIFTED)
    monkeypatch.setattr(op_check, "sign_traits", lambda op: ("positive-if-bounded",))
    check_op(OPS["exp"])
    with pytest.raises(errors.UnsoundOpError, match="positive-if-bounded"):
        check_op(SHIFTED)


def test_a_pole_is_told_from_overflow(monkeypatch):
    monkeypatch.setattr(op_check, "sign_traits", lambda op: ("keeps-bounded",))
    check_op(OPS["exp"])
    with pytest.raises(errors.UnsoundOpError, match="keeps-bounded"):
        check_op(OPS["recip"])


@pytest.mark.parametrize("first", ["floor", "round"])
def test_ranges_of_huge_numbers_are_floats(first):
    """math.floor of 3e38 is an integer that numpy has no type for; the next operation's range must not meet it."""
    inner = OPS[first].range(Interval(-3e38, 3e38))
    assert {type(inner.lo), type(inner.hi)} == {float}
    for name in BUILT_IN:
        if OPS[name].arity == 1:
            OPS[name].range(inner)
