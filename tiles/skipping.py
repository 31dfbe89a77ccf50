"""Steps of a loop that do nothing: tiles in which a condition on positions masks every element.

Below ``where(j <= i, s, -inf)`` a tile beyond the diagonal adds nothing to a maximum, nor exp(-inf - max) to a sum.  That is not looked up
but executed: one step of the loop on symbols, the condition being known to fail in the whole tile.  If every accumulator ends as it
began, the step may be left out; and if the condition is an inequality between positions, the steps that it rules out are those
beyond an *edge*, which the loop need not reach.

The symbols stand for finite numbers, and exact ones: zero times an infinite element, of which the program makes NaN, is zero here, and
what rounding loses is nothing.  Results of reductions around the loop may be infinite: a maximum of which nothing was kept is -inf, and
relative to it the program makes NaN of what it masks.  A maximum of which
nothing has been seen is -inf; then every other state is still its identity.  That is executed, too: a tile without anything for the
maximum must leave them there.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from ..ir.index import Axis
from ..ir.monoids import MONOIDS
from .operations import by_parts, operation
from .program import (
    Accumulator,
    Binding,
    Cast,
    Count,
    Dot,
    Edge,
    Fill,
    IndexValue,
    IsFirst,
    Let,
    Literal,
    Load,
    Loop,
    Lost,
    Mean,
    Operand,
    Permute,
    Reduce,
    Statement,
    Store,
    Value,
    Where,
    defines,
    uses,
    walk_statements,
)

Made = Mapping[str, Statement]  # value name -> the statement that computes it


def skip(
    body: tuple[Statement, ...], temporary: Collection[str], outside: Made = MappingProxyType({}), results: frozenset[str] = frozenset()
) -> tuple[Statement, ...]:
    """The statements, with the edges of every loop that has some.

    ``temporary``: buffers that other kernels make; ``outside``: what the statements around compute; ``results``: which values around
    come from reductions.
    """
    made = {**outside, **{s.dst.name: s for s in body if isinstance(s, Let | IndexValue)}}
    found: list[Statement] = []
    for s in body:
        if isinstance(s, Loop):
            s = replace(s, body=skip(s.body, temporary, made, results | {a.old.name for a in s.accumulators}))
            s = _bounded(s, made, results)
        made_before = isinstance(s, Load) and s.access.buffer in temporary
        if made_before or isinstance(s, Loop | Reduce) or any(v.name in results for v in uses(s)):
            results |= {v.name for v in defines(s)}
        found.append(s)
    return tuple(found)


def _bounded(loop: Loop, outside: Made, results: frozenset[str]) -> Loop:
    statements = tuple(walk_statements(loop.body))
    if not loop.accumulators or any(isinstance(s, Store) for s in statements):
        return loop
    ordered = any(isinstance(s, IsFirst | Count) or (isinstance(s, Mean) and s.binding is not None) for s in statements)
    stops: dict[Edge, None] = {}
    starts: dict[Edge, None] = {}
    made = {**outside, **{s.dst.name: s for s in loop.body if isinstance(s, Let | IndexValue)}}
    for condition, truth in _conditions(loop):
        edges = list(_edges(condition, truth, loop.binding, made))
        if edges and _does_nothing(loop, condition, truth, results):
            stops.update((e, None) for up, e in edges if up)
            starts.update((e, None) for up, e in edges if not up and not ordered)
    return replace(loop, starts=tuple(starts), stops=tuple(stops))


def _conditions(loop: Loop) -> Iterator[tuple[Value, bool]]:
    """The conditions of choices in the loop, known to be true and known to be false."""
    found = {s.args[0]: None for s in loop.body if isinstance(s, Let) and s.op == "where" and isinstance(s.args[0], Value)}
    for c in found:
        yield c, True
        yield c, False


# edges -------------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Affine:
    """``const + sum(coefficient * position)``."""

    terms: tuple[tuple[Binding, int], ...]
    const: int

    def plus(self, other: _Affine, factor: int = 1) -> _Affine:
        total = dict(self.terms)
        for b, c in other.terms:
            total[b] = total.get(b, 0) + factor * c
        return _Affine(tuple((b, c) for b, c in total.items() if c), self.const + factor * other.const)


def _edges(condition: Operand, truth: bool, over: Binding, made: Made) -> Iterator[tuple[bool, Edge]]:
    """Edges beyond which the condition has the given truth in the whole tile: (upper, edge)."""
    for positive in _inequalities(condition, truth, made):
        mine = [c for b, c in positive.terms if b == over]
        others = [(b, c) for b, c in positive.terms if b != over]
        if len(mine) != 1 or abs(mine[0]) != 1 or any(b.axis == over.axis for b, _ in others):
            continue
        # c * x + others + const > 0 everywhere in the tile: at the lanes where the others are least
        if mine[0] > 0:
            yield True, Edge(tuple((b, -c, c < 0) for b, c in others), 1 - positive.const)
        else:
            yield False, Edge(tuple((b, c, c < 0) for b, c in others), positive.const)


def _inequalities(condition: Operand, truth: bool, made: Made) -> Iterator[_Affine]:
    """Affine forms, each of which, where it is positive, gives the condition that truth: |x| > y where x > y, and where -x > y."""
    s = made.get(condition.name) if isinstance(condition, Value) else None
    if not isinstance(s, Let):
        return
    if s.op == "not":
        yield from _inequalities(s.args[0], not truth, made)
    elif (s.op, truth) in (("or", True), ("and", False)):
        for x in s.args:
            yield from _inequalities(x, truth, made)
    elif s.op in ("le", "lt", "ge", "gt"):
        small, large = s.args if s.op in ("le", "lt") else s.args[::-1]
        strict = s.op in ("lt", "gt")
        # of integers, x < y: y - x > 0, else x - y + 1 > 0;  x <= y: y - x + 1 > 0, else x - y > 0
        more, less = (large, small) if truth else (small, large)
        least = _affine(less, made)
        for form in _signed(more, made) if least is not None else ():
            yield replace(form.plus(least, -1), const=form.const - least.const + (strict != truth))


def _signed(v: Operand, made: Made) -> Iterator[_Affine]:
    """Affine forms, each of which is at most the value: of |x|, x and -x."""
    s = made.get(v.name) if isinstance(v, Value) else None
    inside = s.args[0] if isinstance(s, Let) and s.op == "abs" else None
    if (form := _affine(v if inside is None else inside, made)) is not None:
        yield form
        if inside is not None:
            yield _Affine((), 0).plus(form, -1)


def _affine(v: Operand, made: Made) -> _Affine | None:
    if isinstance(v, Literal):
        return _Affine((), int(v.value)) if math.isfinite(v.value) and float(v.value).is_integer() else None
    s = made.get(v.name)
    if v.dtype.kind != "int" or s is None:
        return None
    if isinstance(s, IndexValue):
        of = {b.axis: b for b in s.bindings}
        if not all(isinstance(a, Axis) for a, _ in s.expr.terms):
            return None
        return _Affine(tuple((of[a], c) for a, c in s.expr.terms), s.expr.const)  # type: ignore[index]
    return by_parts(s.op, [_affine(a, made) for a in s.args], _sum) if isinstance(s, Let) and s.op in ("add", "neg", "sub") else None


def _sum(op: str, args: list[_Affine | None]) -> _Affine | None:
    total = _Affine((), 0)
    for a in args:
        if a is None:
            return None
        total = total.plus(a, -1 if op == "neg" else 1)
    return total


# one step on symbols -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Old:
    """The finite state of an accumulator before the step, or its negative.  ``least``: what a maximum is at least."""

    name: str
    negative: bool = False
    least: float = -math.inf


class _Unknown:
    """A finite number, or a truth value, of which nothing is known."""


UNKNOWN = _Unknown()
RESULT = _Unknown()  # what may be infinite, too
_Symbol = float | bool | _Old | _Unknown


def _does_nothing(loop: Loop, condition: Value, truth: bool, results: frozenset[str]) -> bool:
    """Whether a step leaves all states as they are, if a condition has one truth in the whole tile."""
    around: dict[str, _Symbol] = dict.fromkeys(results, RESULT)
    selective = [a for a in loop.accumulators if MONOIDS[a.monoid].copies == "one" and math.isinf(a.identity)]
    if len(selective) > 1:
        return False
    digits = {s.dst.name for s in loop.body if isinstance(s, Lost)}
    olds = {a.old.name: 0.0 if a.new.name in digits else _Old(a.old.name, least=_least(a)) for a in loop.accumulators}
    seen: dict[str, _Symbol] = around | olds
    known: dict[str, _Symbol] = {condition.name: truth}
    if not _unchanged(loop, seen, known):
        return False
    if not selective:
        return True
    unseen: dict[str, _Symbol] = around | {a.old.name: a.identity for a in loop.accumulators}
    nothing = _nothing_for(loop, selective[0])
    return nothing is not None and _unchanged(loop, unseen, known) and _unchanged(loop, unseen, nothing)


def _least(a: Accumulator) -> float:
    return a.identity if a.monoid == "max" else -math.inf


def _nothing_for(loop: Loop, a: Accumulator) -> dict[str, _Symbol] | None:
    """What is known if a tile has nothing for a maximum: all its elements are the identity."""
    made = {s.dst.name: s for s in loop.body if not isinstance(s, Loop | Store)}
    new = made.get(a.new.name)
    if not isinstance(new, Let) or len(new.args) != 2 or a.old not in new.args:
        return None
    known: dict[str, _Symbol] = {}
    tile = next((x for x in new.args if x != a.old), None)
    while isinstance(tile, Value):
        known[tile.name] = a.identity
        s = made.get(tile.name)
        if not isinstance(s, Reduce | Where | Permute) or (isinstance(s, Where) and s.fill != a.identity):
            return known
        if isinstance(s, Reduce) and s.monoid != a.monoid:
            return known
        tile = s.src
    return None


def _unchanged(loop: Loop, states: Mapping[str, _Symbol], known: Mapping[str, _Symbol]) -> bool:
    env: dict[str, _Symbol] = dict(states)
    for s in loop.body:
        if isinstance(s, Loop):
            env.update((a.old.name, UNKNOWN) for a in s.accumulators)
        elif not isinstance(s, Store):
            env[s.dst.name] = known[s.dst.name] if s.dst.name in known else _step(s, env)
            if env[s.dst.name] is UNKNOWN and any(env.get(v.name) is RESULT for v in uses(s)):
                env[s.dst.name] = RESULT
    return all(_same(env.get(a.new.name, states.get(a.new.name, UNKNOWN)), states[a.old.name]) for a in loop.accumulators)


def _same(x: _Symbol, y: _Symbol) -> bool:
    return not isinstance(x, _Unknown) and type(x) is type(y) and x == y


def _step(s: Statement, env: Mapping[str, _Symbol]) -> _Symbol:
    def of(v: Operand) -> _Symbol:
        return v.value if isinstance(v, Literal) else env.get(v.name, UNKNOWN)

    if isinstance(s, Fill):
        return s.value
    if isinstance(s, Lost):
        return 0.0
    if isinstance(s, Let):
        return by_parts(s.op, [of(a) for a in s.args], _applied)
    if isinstance(s, Cast | Permute):
        return of(s.src)
    if isinstance(s, Where):
        return of(s.src) if _same(of(s.src), s.fill) else UNKNOWN
    if isinstance(s, Reduce):
        x = of(s.src) if not s.parts else UNKNOWN
        return x if MONOIDS[s.monoid].copies == "one" and not isinstance(x, _Unknown) or _same(x, 0.0) else UNKNOWN
    if isinstance(s, Dot):
        product = 0.0 if any(_same(of(x), 0.0) for x in (s.a, s.b)) else UNKNOWN
        return product if s.acc is None else _applied("add", [of(s.acc), product])
    return UNKNOWN


def _applied(op: str, args: list[_Symbol]) -> _Symbol:
    if all(isinstance(a, float | bool) for a in args):
        with np.errstate(all="ignore"):
            value = operation(op).numpy(*(np.float64(a) for a in args))  # type: ignore[arg-type]
        return bool(value) if operation(op).result == "bool" else float(value) + 0.0  # -0.0 is 0.0 here
    if op == "where" and isinstance(args[0], bool):
        return args[1] if args[0] else args[2]
    if op in ("or", "and") and any(isinstance(a, bool) for a in args):
        known = next(a for a in args if isinstance(a, bool))
        return known if known == (op == "or") else next(a for a in args if a is not known)
    if any(a is RESULT for a in args):
        return RESULT
    if op == "where":
        return args[1] if _same(args[1], args[2]) else UNKNOWN
    if op in ("eq", "ne") and any(isinstance(a, _Old) for a in args) and any(isinstance(a, float) and math.isinf(a) for a in args):
        return op == "ne"  # a state of which something has been seen
    if op in ("eq", "ne") and isinstance(args[0], _Old) and args[0] == args[1]:
        return op == "eq"
    if op == "neg" and isinstance(args[0], _Old):
        return replace(args[0], negative=not args[0].negative)
    if len(args) == 2:
        for x, y in (args, args[::-1]):
            if isinstance(x, float):
                if op == "add" and (x == 0 or math.isinf(x)):
                    return y if x == 0 else x
                if op == "mul" and x in (0.0, 1.0):
                    return y if x == 1 else 0.0
                if (op, x) in (("maximum", -math.inf), ("minimum", math.inf)):
                    return y
                if op == "maximum" and isinstance(y, _Old) and not y.negative and x <= y.least:
                    return y
        x, y = args
        if op == "add" and isinstance(x, _Old) and isinstance(y, _Old) and x.name == y.name and x.negative != y.negative:
            return 0.0
    return UNKNOWN
