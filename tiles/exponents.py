"""Arguments of exponentials: differences before products.

An exponential is taken of differences, x - m with m at least x, so that it is at most 1.  Rewriting moves constant factors into such a
difference: c*x - c*m.  Over the reals that is the same.  In floating point the rounding of c*m is a factor common to every term, and
harmless while it is small; it grows with m, and at scores of a few thousand millions it exceeds the range of the exponential:
o(c*x - c*m) is zero or infinite even where x is m.  c*(x - m) is exactly zero there, x - m is exact where x and m are close, and two
references m are compared as exactly as x and m.  So a difference of two multiples of one constant, below an exponential, is emitted as
the constant times the difference.  The constant may stand anywhere in a product, (x*c)*y, where m is c times the largest x*y: what is
subtracted are then both times the same product, rounded alike.  The length of an axis is a constant, too, known when the kernel runs.
Of factors that are data, (x*f)*y - f*m, nothing is known: there the product is computed as m was, f*(x*y), to be rounded alike.

Only below an exponential: elsewhere x - m could overflow where c*x and c*m do not, here that is an exponential of minus infinity as
it should be.  And not where the program keeps the values in float16: it has no scores beyond 65504, its own rounding of them is 2^13
times coarser than that of c*m, and a product and a sum are one instruction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir import dtypes, ops
from ..ir.recursion import Steps, by_arguments
from .program import Literal, Operand

if TYPE_CHECKING:
    from .blocks import Block, OpenAccumulator
    from .facts import Facts
    from .lower import Lowering, Mode

SAME = 1e-12  # constants that differ by less were folded in another order
LEAST = 1e-30  # of a factor: where x - m overflows, c * (x - m) is beyond any exponential all the same


@dataclass(frozen=True)
class Factor:
    """What a value is a multiple of: a number, and nodes that are lengths of axes."""

    number: float = 1.0
    extents: tuple[int, ...] = ()

    def __mul__(self, other: Factor) -> Factor:
        return Factor(self.number * other.number, tuple(sorted(self.extents + other.extents)))


def is_exponential(op: str) -> bool:
    """The op turns sums into products."""
    return ("add", "mul") in ops.OPS[op].turns


def argument(
    lowering: Lowering, node: int, block: Block, mode: Mode | None, state: OpenAccumulator | None
) -> Steps[Operand] | Operand:
    """The value of a node as the argument of an exponential."""
    if lowering.kernel.exact or not _has_difference(lowering.facts, node):
        return lowering.emit(node, block, mode, state)
    return lowering.placed("argument", _argument, node, block, mode, state)


@by_arguments
def _has_difference(facts: Facts, node: int) -> bool:
    n = facts.nodes[node]
    if n.op != "map":
        return False
    if n.attrs[0] == "neg":
        return _has_difference(facts, n.args[0])
    if n.attrs[0] == "mul":
        return any(_number(facts, k) is not None and _has_difference(facts, x) for k, x in (n.args, n.args[::-1]))
    return _common(facts, node) is not None or _chosen_from(facts, node) is not None


def _argument(lowering: Lowering, node: int, where: Block, mode: Mode | None, state: OpenAccumulator | None) -> Steps[Operand]:
    n, facts = lowering.nodes[node], lowering.facts
    op = n.attrs[0]
    if op == "neg":
        return lowering.let(where, "neg", ((yield argument(lowering, n.args[0], where, mode, state)),))
    if op == "mul":
        k, x = n.args if _number(facts, n.args[0]) is not None else n.args[::-1]
        inner = yield argument(lowering, x, where, mode, state)
        return lowering.let(where, "mul", (inner, (yield lowering.emit(k, where, mode, state))))
    found = _common(facts, node)
    if found is None:
        at = _chosen_from(facts, node)
        assert at is not None
        chosen = n.args[at]
        terms = [(yield lowering.emit(chosen, where, mode, state))]
        terms.append((yield _as_chosen(lowering, chosen, where, mode, state)))
        if _product(facts, chosen)[0] > 0:
            terms[1] = lowering.let(where, "neg", (terms[1],))
        return lowering.let(where, "add", tuple(terms), hint="diff")
    c, d = found
    first = yield unscaled(lowering, n.args[0], where, mode, state)
    second = yield unscaled(lowering, n.args[1], where, mode, state)
    if c.number * d.number < 0:
        second = lowering.let(where, "neg", (second,))
    result = lowering.let(where, "add", (first, second), hint="diff")
    if c.number != 1 or not c.extents:
        result = lowering.let(where, "mul", (result, Literal(c.number)))
    for extent in c.extents:
        result = lowering.let(where, "mul", (result, (yield lowering.emit(extent, where, mode, state))))
    return result


def _common(facts: Facts, node: int) -> tuple[Factor, Factor] | None:
    """The factors of the two terms of a sum, if they are the same but for the sign."""
    n = facts.nodes[node]
    if n.op != "map" or n.attrs[0] != "add":
        return None
    c, d = (factor(facts, x) for x in n.args)
    if c is None or d is None or c.extents != d.extents or abs(c.number) < LEAST:
        return None
    if not math.isclose(abs(c.number), abs(d.number), rel_tol=SAME):
        return None
    return None if all(facts.dtype(x) == dtypes.float16 and _kept(facts, x) for x in n.args) else (c, d)


def _chosen_from(facts: Facts, node: int) -> int | None:
    """Which term of a difference is the largest or smallest of products of which the other term is one, but computed in another order."""
    n = facts.nodes[node]
    if n.op != "map" or n.attrs[0] != "add":
        return None
    for k in (0, 1):
        (sign, leaves), (other, others) = (_product(facts, x) for x in (n.args[k], n.args[1 - k]))
        bodies = [body for x in leaves if (body := _selected(facts, x)) is not None]
        if len(bodies) == 1:
            inner, more = _product(facts, bodies[0])
            rest = [x for x in leaves if _selected(facts, x) is None]
            same = sign * inner == -other and sorted([*rest, *more]) == sorted(others)
            if same and _order(facts, n.args[k], True) != _order(facts, n.args[1 - k], False):
                return k
    return None


def _product(facts: Facts, node: int) -> tuple[int, tuple[int, ...]]:
    """The sign and the factors of a product, of one factor if it is none."""
    sign, leaves, stack = 1, [], [node]
    while stack:
        n = facts.nodes[x := stack.pop()]
        if n.op == "map" and n.attrs[0] == "neg":
            sign = -sign
            stack.append(n.args[0])
        elif n.op == "map" and n.attrs[0] == "mul":
            stack.extend(reversed(n.args))
        elif (inside := _reference(facts, x)) is not None:
            stack.append(inside)
        else:
            leaves.append(x)
    return sign, tuple(leaves)


def _selected(facts: Facts, node: int) -> int | None:
    """What a node is the largest or smallest of."""
    n = facts.nodes[node]
    while n.op == "ref":
        n = facts.nodes[n.args[0]]
    return n.args[0] if n.op == "reduce" and n.attrs[0] in ("max", "min") else None


@by_arguments
def _reference(facts: Facts, node: int) -> int | None:
    """What a node stands for that is a product with a largest or smallest one in it, read in a loop or with a number where it is none."""
    n = facts.nodes[node]
    inside = None
    if n.op == "ref":
        inside = n.args[0]
    elif n.op == "map" and n.attrs[0] == "where":
        arms = [x for x in n.args[1:] if _number(facts, x) is None]
        inside = arms[0] if len(arms) == 1 else None
    if inside is None or _selected(facts, node) is not None:
        return None
    return inside if any(_selected(facts, x) is not None for x in _product(facts, inside)[1]) else None


@by_arguments
def _order(facts: Facts, node: int, chosen: bool) -> int:
    """The order in which a product is computed, as a number; with ``chosen``, of what a largest or smallest one in it is chosen from."""
    n = facts.nodes[node]
    if n.op == "map" and n.attrs[0] == "mul":
        key = ("order", *sorted(_order(facts, x, chosen) for x in n.args))
        return facts.memo.setdefault(key, -1 - len(facts.memo))
    if n.op == "map" and n.attrs[0] == "neg":
        return _order(facts, n.args[0], chosen)
    if chosen and (body := _selected(facts, node)) is not None:
        return _order(facts, body, False)
    if chosen and (inside := _reference(facts, node)) is not None:
        return _order(facts, inside, True)
    return node


def _as_chosen(lowering: Lowering, node: int, where: Block, mode: Mode | None, state: OpenAccumulator | None) -> Steps[Operand]:
    """A product without its sign, and in it instead of the largest or smallest one what that is chosen from."""
    n, facts = lowering.nodes[node], lowering.facts
    if n.op == "map" and n.attrs[0] == "mul":
        first = yield _as_chosen(lowering, n.args[0], where, mode, state)
        return lowering.let(where, "mul", (first, (yield _as_chosen(lowering, n.args[1], where, mode, state))))
    if n.op == "map" and n.attrs[0] == "neg":
        return (yield _as_chosen(lowering, n.args[0], where, mode, state))
    if (body := _selected(facts, node)) is not None:
        return (yield lowering.emit(body, where, mode, state))
    inside = _reference(facts, node)
    return (yield lowering.emit(node, where, mode, state) if inside is None else _as_chosen(lowering, inside, where, mode, state))


@by_arguments
def factor(facts: Facts, node: int) -> Factor | None:
    """A constant that the value of a node is a multiple of, by the way it is computed."""
    n = facts.nodes[node]
    if n.op == "ref":
        return factor(facts, n.args[0])
    if n.op != "map":
        return None
    if n.attrs[0] == "neg":
        return factor(facts, n.args[0])
    if n.attrs[0] == "mul":
        first, second = _factors(facts, n.args)
        return first * second if first is not None and second is not None else first or second
    if n.attrs[0] == "where":  # where(b, c*x, 0) = c * where(b, x, 0); for infinities c must be positive
        numbers = [_number(facts, x) for x in n.args[1:]]
        found = {factor(facts, x) for x, v in zip(n.args[1:], numbers, strict=True) if v is None}
        if len(found) == 1 and None not in found:
            (c,) = found
            assert c is not None
            if all(v is None or v == 0 or (math.isinf(v) and c.number > 0) for v in numbers):
                return c
    return None


def _factors(facts: Facts, args: tuple[int, ...]) -> tuple[Factor | None, Factor | None]:
    """Those of the two sides of a product; a constant is one itself, unless both are constants: then the first is."""
    first, second = (_constant(facts, x) for x in args)
    return first or factor(facts, args[0]), (second if first is None else None) or factor(facts, args[1])


def _constant(facts: Facts, node: int) -> Factor | None:
    """A node that is a constant, as a factor."""
    if facts.nodes[node].op == "extent":
        return Factor(1.0, (node,))
    value = _number(facts, node)
    return Factor(value) if value is not None and math.isfinite(value) and value != 0 else None


def unscaled(
    lowering: Lowering, node: int, block: Block, mode: Mode | None, state: OpenAccumulator | None
) -> Steps[Operand] | Operand:
    """The value of a node divided by its factor: the same computation without the constants."""
    if factor(lowering.facts, node) is None:
        return lowering.emit(node, block, mode, state)
    return lowering.placed("unscaled", _unscaled, node, block, mode, state)


def _unscaled(lowering: Lowering, node: int, where: Block, mode: Mode | None, state: OpenAccumulator | None) -> Steps[Operand]:
    n = lowering.nodes[node]
    if n.op == "ref":
        return (yield unscaled(lowering, n.args[0], where, lowering.mode_of(n, where), None))
    if n.attrs[0] == "neg":
        return lowering.let(where, "neg", ((yield unscaled(lowering, n.args[0], where, mode, state)),))
    if n.attrs[0] == "mul":
        first, second = (_constant(lowering.facts, x) for x in n.args)
        if first is not None or second is not None:
            return (yield unscaled(lowering, n.args[1] if first is not None else n.args[0], where, mode, state))
        left = yield unscaled(lowering, n.args[0], where, mode, state)
        return lowering.let(where, "mul", (left, (yield unscaled(lowering, n.args[1], where, mode, state))))
    parts = [(yield lowering.emit(n.args[0], where, mode, state))]
    for x in n.args[1:]:
        parts.append((yield unscaled(lowering, x, where, mode, state)))
    return lowering.let(where, "where", tuple(parts))


def _number(facts: Facts, node: int) -> float | None:
    n = facts.nodes[node]
    return float(n.attrs[0]) if n.op == "const" else None


@by_arguments
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
