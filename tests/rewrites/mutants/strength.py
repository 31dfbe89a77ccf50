"""Broken spellings: constants that are folded into the wrong place, or with the wrong value."""

import math

import numpy as np

from eqfuse.ir.build import axes, exp, program, tensor
from eqfuse.rewrites.facts import equal, match
from eqfuse.rewrites.patterns import Const, Map, NumberLiteral
from eqfuse.rewrites.relations import turns, wants_multiple
from eqfuse.rewrites.rule import Op1, Scalar

from . import close, mutant

i, j = axes(i=4, j=8)
x_ = tensor("x", i, j)
LOG2E, LN2 = NumberLiteral(1.0 / math.log(2.0)), NumberLiteral(math.log(2.0))
x, y, b, c = 2.0, 3.0, 0.5, 4.0


def out(t):
    """A program whose one output is t."""
    return lambda: program("out", y=(t, tuple(sorted(t.axes))))


SCALED = out(exp(x_ * 0.125))
MULTIPLES = out(exp(x_ * 0.125 - tensor("y", i, j) * 0.125))
UNEQUAL = out(exp(x_ * 0.125 - tensor("y", i, j) * 0.5))


@mutant("exponential_to_base_two", "operand order", lambda: (True, close(np.exp(x), np.exp2(x * math.log(2.0)))), out(exp(x_)))
def exponential_to_base_two_inverted(t, x):
    """e^x = 2^(x * ln 2): the factor the wrong way round."""
    return [match(t, Map("exp", x))], [equal(t, Map("exp2", x * Const(LN2))), wants_multiple(LN2, x)]


@mutant("exponential_to_base_two", "term lost", lambda: (True, close(np.exp(x), np.exp2(x))), out(exp(x_)))
def exponential_to_base_two_unscaled(t, x):
    """e^x = 2^x."""
    return [match(t, Map("exp", x))], [equal(t, Map("exp2", x)), wants_multiple(LOG2E, x)]


@mutant("exponential_to_base_two", "off by one", lambda: (True, close(np.exp(10.0), np.exp2(10.0 * 1.442695))), out(exp(x_ * 100.0)))
def exponential_with_short_constant(t, x):
    """e^x = 2^(x * 1.442695): seven digits of log2 e, where a float32 takes eight."""
    return [match(t, Map("exp", x))], [equal(t, Map("exp2", x * Const(1.442695))), wants_multiple(LOG2E, x)]


@mutant("difference_of_multiples", "term lost", lambda: (True, close(np.exp2(x * c - y * c), np.exp2(x - y))), MULTIPLES)
def difference_loses_its_factor(e, t, x, y, o: Op1, c: Scalar):
    """o(x*c - y*c) = o(x - y)."""
    return [match(e, Map(o, t)), turns(o, "add", "mul"), match(t, x * Const(c) + -(y * Const(c)))], [equal(t, x + -y)]


@mutant("difference_of_multiples", "operand order", lambda: (True, close(np.exp2(x * c - y * c), np.exp2((y - x) * c))), MULTIPLES)
def difference_the_other_way_round(e, t, x, y, o: Op1, c: Scalar):
    """o(x*c - y*c) = o((y - x) * c)."""
    return [match(e, Map(o, t)), turns(o, "add", "mul"), match(t, x * Const(c) + -(y * Const(c)))], [equal(t, (y + -x) * Const(c))]


@mutant("difference_of_multiples", "condition dropped", lambda: (True, close(np.exp2(x * c - y * b), np.exp2((x - y) * c))), UNEQUAL)
def difference_of_other_multiples(e, t, x, y, o: Op1, b: Scalar, c: Scalar):
    """o(x*c - y*b) = o((x - y) * c)."""
    return [match(e, Map(o, t)), turns(o, "add", "mul"), match(t, x * Const(c) + -(y * Const(b)))], [equal(t, (x + -y) * Const(c))]


@mutant("scale_negation", "sign guard", lambda: (True, close(-x * c, x * c)), out(exp(-x_)))
def scale_negation_without_sign(t, x, c: Scalar):
    """-x * c = x*c."""
    return [wants_multiple(c, t), match(t, -x)], [equal(t * Const(c), x * Const(c)), wants_multiple(c, x)]


@mutant("scale_scaled", "operand order", lambda: (True, close((x * b) * c, x * (b + c))), SCALED)
def scale_scaled_by_sum(t, x, b: Scalar, c: Scalar):
    """(x * b) * c = x * (b+c)."""
    return [wants_multiple(c, t), match(t, x * Const(b))], [equal(t * Const(c), x * Const(b + c))]


@mutant("scale_scaled", "term lost", lambda: (True, close((x * b) * c, x * c)), SCALED)
def scale_scaled_forgets(t, x, b: Scalar, c: Scalar):
    """(x * b) * c = x * c."""
    return [wants_multiple(c, t), match(t, x * Const(b))], [equal(t * Const(c), x * Const(c))]


@mutant("scale_scaled", "monoid", lambda: (True, close((x + b) * c, x + b * c)), out(exp(x_ + 0.125)))
def scale_shifted(t, x, b: Scalar, c: Scalar):
    """(x + b) * c = x + b*c."""
    return [wants_multiple(c, t), match(t, x + Const(b))], [equal(t * Const(c), x + Const(b * c))]
