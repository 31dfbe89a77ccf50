"""Arguments of exponentials: differences before products.

An exponential is taken of differences, x - m with m at least x, so that it is at most 1.  Rewriting moves constant factors into such a
difference: c*x - c*m.  Over the reals that is the same.  In floating point the rounding of c*m is a factor common to every term, and
harmless while it is small; it grows with m, and at scores of a few thousand millions it exceeds the range of the exponential:
o(c*x - c*m) is zero or infinite even where x is m.  c*(x - m) is exactly zero there, x - m is exact where x and m are close, and two
references m are compared as exactly as x and m.  So a difference of two multiples of one constant, below an exponential, is emitted as
the constant times the difference.

Only below an exponential: elsewhere x - m could overflow where c*x and c*m do not, here that is an exponential of minus infinity as
it should be.  And not where the program keeps the values in float16: it has no scores beyond 65504, its own rounding of them is 2^13
times coarser than that of c*m, and a product and a sum are one instruction.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..ir import dtypes, ops
from .program import Literal, Operand

if TYPE_CHECKING:
    from .blocks import Block, OpenAccumulator
    from .facts import Facts
    from .lower import Lowering, Mode

SAME = 1e-12  # constants that differ by less were folded in another order
LEAST = 1e-30  # of a factor: where x - m overflows, c * (x - m) is beyond any exponential all the same


def is_exponential(op: str) -> bool:
    """The op turns sums into products."""
    return ("add", "mul") in ops.OPS[op].turns


def argument(lowering: Lowering, node: int, block: Block, mode: Mode | None, state: OpenAccumulator | None) -> Operand:
    """The value of a node as the argument of an exponential."""
    if lowering.kernel.exact or not _has_difference(lowering.facts, node):
        return lowering.emit(node, block, mode, state)
    return lowering.placed("argument", _argument, node, block, mode, state)


def _has_difference(facts: Facts, node: int) -> bool:
    n = facts.nodes[node]
    if n.op != "map":
        return False
    if n.attrs[0] == "neg":
        return _has_difference(facts, n.args[0])
    if n.attrs[0] == "mul":
        return any(_number(facts, k) is not None and _has_difference(facts, x) for k, x in (n.args, n.args[::-1]))
    return _common(facts, node) is not None


def _argument(lowering: Lowering, node: int, where: Block, mode: Mode | None, state: OpenAccumulator | None) -> Operand:
    n, facts = lowering.nodes[node], lowering.facts
    op = n.attrs[0]
    if op == "neg":
        return lowering.let(where, "neg", (argument(lowering, n.args[0], where, mode, state),))
    if op == "mul":
        k, x = n.args if _number(facts, n.args[0]) is not None else n.args[::-1]
        return lowering.let(where, "mul", (argument(lowering, x, where, mode, state), lowering.emit(k, where, mode, state)))
    found = _common(facts, node)
    assert found is not None
    c, d = found
    first, second = (unscaled(lowering, x, where, mode, state) for x in n.args)
    if c * d < 0:
        second = lowering.let(where, "neg", (second,))
    return lowering.let(where, "mul", (lowering.let(where, "add", (first, second), hint="diff"), Literal(c)))


def _common(facts: Facts, node: int) -> tuple[float, float] | None:
    """The factors of the two terms of a sum, if they are the same but for the sign."""
    n = facts.nodes[node]
    if n.op != "map" or n.attrs[0] != "add":
        return None
    c, d = (factor(facts, x) for x in n.args)
    if c is None or d is None or abs(c) < LEAST or not math.isclose(abs(c), abs(d), rel_tol=SAME):
        return None
    return None if all(facts.dtype(x) == dtypes.float16 and _kept(facts, x) for x in n.args) else (c, d)


def factor(facts: Facts, node: int) -> float | None:
    """A constant that the value of a node is a multiple of, by the way it is computed."""
    n = facts.nodes[node]
    if n.op == "ref":
        return factor(facts, n.args[0])
    if n.op != "map":
        return None
    if n.attrs[0] == "neg":
        return factor(facts, n.args[0])
    if n.attrs[0] == "mul":
        for k, x in (n.args, n.args[::-1]):
            value = _number(facts, k)
            if value is not None and math.isfinite(value) and value != 0:
                inner = factor(facts, x)
                return value if inner is None else value * inner
    if n.attrs[0] == "where":  # where(b, c*x, 0) = c * where(b, x, 0); for infinities c must be positive
        numbers = [_number(facts, x) for x in n.args[1:]]
        found = {factor(facts, x) for x, v in zip(n.args[1:], numbers, strict=True) if v is None}
        if len(found) == 1 and None not in found:
            (c,) = found
            assert c is not None
            if all(v is None or v == 0 or (math.isinf(v) and c > 0) for v in numbers):
                return c
    return None


def unscaled(lowering: Lowering, node: int, block: Block, mode: Mode | None, state: OpenAccumulator | None) -> Operand:
    """The value of a node divided by its factor: the same computation without the constants."""
    if factor(lowering.facts, node) is None:
        return lowering.emit(node, block, mode, state)
    return lowering.placed("unscaled", _unscaled, node, block, mode, state)


def _unscaled(lowering: Lowering, node: int, where: Block, mode: Mode | None, state: OpenAccumulator | None) -> Operand:
    n = lowering.nodes[node]
    if n.op == "ref":
        return unscaled(lowering, n.args[0], where, lowering.mode_of(n, where), None)
    if n.attrs[0] == "neg":
        return lowering.let(where, "neg", (unscaled(lowering, n.args[0], where, mode, state),))
    if n.attrs[0] == "mul":
        x = n.args[1] if _number(lowering.facts, n.args[0]) is not None else n.args[0]
        return unscaled(lowering, x, where, mode, state)
    condition = lowering.emit(n.args[0], where, mode, state)
    arms = (unscaled(lowering, x, where, mode, state) for x in n.args[1:])
    return lowering.let(where, "where", (condition, *arms))


def _number(facts: Facts, node: int) -> float | None:
    n = facts.nodes[node]
    return float(n.attrs[0]) if n.op == "const" else None


def _kept(facts: Facts, node: int) -> bool:
    """A multiple of values that the program keeps in float16, selected or as they are."""
    n = facts.nodes[node]
    if n.stored is not None or n.op in ("load", "cast"):
        return (n.stored or facts.dtype(node)) == dtypes.float16
    if n.op == "const":
        return True
    if n.op in ("map", "ref", "reduce"):
        args = n.args[1:] if n.attrs[0] == "where" else n.args
        whole = n.op != "reduce" or n.attrs[0] in ("max", "min")
        return whole and (n.op != "map" or n.attrs[0] in ("mul", "neg", "where")) and all(_kept(facts, x) for x in args)
    return False
