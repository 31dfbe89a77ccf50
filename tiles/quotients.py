"""Quotients: a product with a reciprocal is printed as one division where that is no dearer, or where the reciprocal may be infinite.

    r = recip(s);  x * r      -->      x / s

In the e-graph ``x / s`` is ``x * recip(s)``.  In float32 the reciprocal of what is smaller than 2^-128 is infinite, though ``x / s`` is an
ordinary number: 1e-39 / 2e-39 is 0.5, and as a product it is infinite.  So a product divides

- if nothing else reads the reciprocal, in the same block and of the same dims: a division takes as many instructions as a reciprocal.
  Readers of running values are counted for each moment alone, and all moments divide if one does: a loop moves its state from the mean
  that it was counted from to the next one, which are the same quotient;
- if the divisor may be *tiny*: each element is divided by it.  A reciprocal that is made once for a row, or shared, takes one
  multiplication per element, and is kept for divisors that are known not to be tiny: numbers above an epsilon, integers, a sum of
  exponentials relative to their largest, one of which is 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..ir import dtypes
from ..ir.recursion import Steps, by_arguments
from .analysis import Facts
from .blocks import Block, OpenAccumulator
from .builder import Builder, Mode
from .program import Operand

NORMAL = 2.0**-126  # the smallest float32 with all its digits; the reciprocals of it and of what is larger are finite
SAME = ("abs", "neg", "where", "maximum", "minimum", "sqrt")  # not tiny of what is not tiny; a root is larger than what is below 1


@by_arguments
def may_be_tiny(facts: Facts, node: int) -> bool:
    """Whether a value may lie between -2^-126 and 2^-126 and not be 0.  By 0, a quotient and a product are infinite or NaN alike."""
    n = facts.nodes[node]
    if n.op in ("extent", "index") or (dtype := facts.dtype(node)) is not None and not dtype.is_float:
        return False
    if n.op == "load":
        return facts.kernel.buffers[n.attrs[0]].dtype != dtypes.float16  # whose smallest number is 2^-24
    if (n.reduction == "sum" and facts.has_one(n.args[0], n.attrs[1])) or (r := facts.range(node)).lo >= NORMAL or r.hi <= -NORMAL:
        return False
    if n.scalar in SAME:
        return any(may_be_tiny(facts, x) for x in n.args[n.scalar == "where" :])
    if n.op in ("cast", "ref") or (n.op == "reduce" and n.attrs[0] in ("max", "min")):
        return may_be_tiny(facts, n.args[0])
    return True


def divisor(builder: Builder, factor: int, others: Iterable[int], where: Block, mode: Mode | None) -> int | None:
    """What a product that is made in a block is divided by in place of being multiplied with a factor, the reciprocal of that; ``None``
    where it is multiplied."""
    n = builder.nodes[factor]
    if n.scalar != "recip" or builder.kernel.exact:
        return None
    beside = frozenset().union(*(builder.nodes[x].axes for x in others))
    alone = builder.facts.readers_at_once[factor] == 1 and builder.home(factor, where, mode) is where
    if alone and {*builder.dims_of(beside)} <= {*builder.dims_of(n.axes)} or may_be_tiny(builder.facts, n.args[0]):
        return n.args[0]
    return None


def product(
    builder: Builder, factors: Sequence[int], where: Block, mode: Mode | None, state: OpenAccumulator | None = None, **named: Any
) -> Steps[Operand]:
    """The product of some nodes, made in a block, divided by those whose reciprocals are better not made.  ``named``: of the result."""
    over = [divisor(builder, f, [x for x in factors if x != f], where, mode) for f in factors]
    if None not in over:
        over[0] = None
    above: Operand | None = None
    below: list[Operand] = []
    for f, by in zip(factors, over, strict=True):
        v: Operand = yield builder.emit(f if by is None else by, where, mode, state)
        if by is not None:
            below.append(v)
        else:
            above = v if above is None else builder.let(where, "mul", (above, v), **named)
    assert above is not None
    for v in below:
        above = builder.let(where, "quotient", (above, v), **named)
    return above
