"""Steps of a loop that do nothing: tiles in which a condition on positions masks every element.

Below ``where(j <= i, s, -inf)`` a tile beyond the diagonal adds nothing to a maximum, nor exp(-inf - max) to a sum.  That is not looked up
but executed: one step of the loop on symbols, the condition being known to fail in the whole tile.  If every accumulator ends as it
began, the step may be left out; and if the condition is made of inequalities between positions, the steps that it rules out are those
beyond an *edge* (:mod:`.edges`), which the loop need not reach.  The same inequalities say in which tiles the condition rules out
nothing: in that *clear* stretch of the loop it need not be looked at (:mod:`.finish.parts`).

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

import numpy as np

from ..ir.index import Axis
from ..ir.monoids import MONOIDS
from .data_edges import DataEdges, New
from .edges import Made, Region, conditions, defined, halves, parts, regions, united
from .operations import by_parts, operation
from .program import (
    Accumulator,
    Binding,
    Bound,
    Cast,
    Clear,
    Count,
    Dim,
    Dot,
    Fill,
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

Body = tuple[Statement, ...]


@dataclass(frozen=True)
class _Scope:
    """Where a block stands.  ``made``: what computes the values around it; ``visible``: these values; ``results``: which of them come from
    reductions; ``open``: the bindings that run; ``states``: what the loop whose body it is takes on."""

    made: Made
    visible: tuple[Value, ...]
    results: frozenset[str]
    open: Mapping[Axis, Binding]
    states: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Skipping:
    """Edges for the loops of one program.

    ``temporary``: buffers that other kernels make; ``order``: the dims of tiles; ``new``: a value with a name like a hint.
    """

    temporary: Collection[str]
    order: tuple[Dim, ...]
    new: New

    def program(self, body: Body, fixed: Collection[Binding]) -> Body:
        """The statements, with the edges and the clear stretch of every loop that has some.  ``fixed``: the bindings of the grid and of
        whole axes."""
        return self.block(body, _Scope({}, (), frozenset(), {b.axis: b for b in fixed}))

    def block(self, body: Body, at: _Scope) -> Body:
        """The statements of a block."""
        made, visible, results = {**at.made, **defined(body)}, at.visible, at.results
        data = DataEdges(visible, self.order, at.open, self.new)
        found: list[Statement] = []
        left = list(body[::-1])
        while left:
            s = left.pop()
            if isinstance(s, Loop):
                unread = _unread(s, tuple(left[::-1]), at.states, made) if s.accumulators else {}
                early = _before(unread, left, data)
                if early:  # compute the condition first, then look at the loop again
                    taken = {id(x) for x in early}
                    left = [x for x in left if id(x) not in taken] + [s, *early[::-1]]
                    continue
                states = tuple(a.old for a in s.accumulators)
                inner = _Scope(
                    made, (*visible, *states), results | {v.name for v in states}, {**at.open, s.binding.axis: s.binding},
                    tuple(a.new for a in s.accumulators),
                )  # fmt: skip
                s = replace(s, body=self.block(s.body, inner))
                known = _Known(s.binding, {**made, **defined(s.body)}, data)
                idle = _idle(s, results, made, known)
                s = _bounded(s, idle, unread, known)
                if not results.isdisjoint(_reads(s)):  # what a condition is known to be may be used whatever is around
                    idle = _idle(s, frozenset(), made, known)
                if idle and s.innermost and not _in_order(s):
                    s = replace(s, clear=_clear(idle, known))
                found += data.statements(s.edges)
            made_before = isinstance(s, Load) and s.access.buffer in self.temporary
            if made_before or isinstance(s, Loop | Reduce) or any(v.name in results for v in uses(s)):
                results |= {v.name for v in defines(s)}
            visible += defines(s)
            data.values.update((v.name, v) for v in defines(s))
            found.append(s)
        return tuple(found)


def _unread(loop: Loop, rest: Body, states: tuple[Value, ...], outside: Made) -> dict[Value, bool]:
    """The conditions, each with a truth, under which nobody needs the results of a loop: ``where(c, sum, 0)`` where ``c`` is false in the
    whole tile.  The rest of the block is executed on symbols twice, with unknown results of the loop and with those of a loop of no steps;
    both runs have to store the same constants."""
    asked = conditions(rest, outside)
    if not asked or any(isinstance(s, Store) for s in walk_statements(loop.body)):
        return {}
    made = {v.name for s in rest for v in defines(s)} | {a.old.name for a in loop.accumulators}
    around: dict[str, _Symbol] = {v.name: RESULT for s in rest for v in uses(s) if v.name not in made}
    around |= {v.name: _Old(v.name) for s in rest if isinstance(s, Load) for v in defines(s)}
    finite = not any(math.isinf(x) for x in _numbers(loop))
    some: dict[str, _Symbol] = {a.old.name: _Old(a.old.name) if finite and a.monoid == "sum" else RESULT for a in loop.accumulators}
    none: dict[str, _Symbol] = {a.old.name: a.identity for a in loop.accumulators}
    found = {}
    for c in asked:
        for truth in (True, False):
            there, here = (_given(rest, {**around, **start, c.name: truth}, {c.name: truth}, states) for start in (some, none))
            if all(_same(x, y) for x, y in zip(there, here, strict=True)):
                found[c] = truth
    return found


def _numbers(loop: Loop) -> Iterator[float]:
    """The constants in a loop, and what its states begin with."""
    for s in walk_statements((loop,)):
        if isinstance(s, Loop):
            yield from (a.identity for a in s.accumulators)
        elif isinstance(s, Let):
            yield from (x.value for x in s.args if isinstance(x, Literal))
        elif isinstance(s, Fill | Where):
            yield s.value if isinstance(s, Fill) else s.fill


def _given(body: Body, start: Mapping[str, _Symbol], known: Mapping[str, _Symbol], states: tuple[Value, ...]) -> list[_Symbol]:
    """The symbols that a block stores, and those of the states that the loop around it carries to its next step."""
    env = _executed(body, start, known)
    stores = [env.get(s.src.name, UNKNOWN) for s in body if isinstance(s, Store)]
    return [*stores, *(UNKNOWN for s in body if isinstance(s, Loop) for t in walk_statements(s.body) if isinstance(t, Store))] + [
        env.get(v.name, UNKNOWN) for v in states
    ]


def _before(conditions: Collection[Value], left: list[Statement], data: DataEdges) -> list[Statement]:
    """The statements after a loop that compute conditions and depend on no loop, arguments first: they may run before it."""
    by = {v.name: s for s in left for v in defines(s)}
    found: dict[str, Statement] = {}

    def add(v: Value, to: dict[str, Statement]) -> bool:
        if data.outside(v) or v.name in found or v.name in to:
            return True
        s = by.get(v.name)
        if s is None or isinstance(s, Loop) or not all(add(x, to) for x in uses(s)):
            return False
        to[v.name] = s
        return True

    for c in conditions:
        mine: dict[str, Statement] = {}
        if add(c, mine):
            found |= mine
    return list(found.values())


class _Known:
    """The stretches of a loop in which conditions have one truth in whole tiles, each found once.  ``made``: what computes the values in
    and around the loop."""

    def __init__(self, over: Binding, made: Made, data: DataEdges) -> None:
        self.over, self.made, self.data = over, made, data
        self._found: dict[tuple[str, bool], list[Region]] = {}

    def regions(self, condition: Value, truth: bool) -> list[Region]:
        key = condition.name, truth
        if key not in self._found:
            self._found[key] = regions(condition, truth, self.over, self.made, self.data)
        return self._found[key]


def _reads(loop: Loop) -> frozenset[str]:
    """What the statements of a loop read, without those of loops in it."""
    return frozenset(v.name for s in loop.body if not isinstance(s, Loop) for v in uses(s))


def _idle(loop: Loop, results: frozenset[str], outside: Made, known: _Known) -> dict[Value, bool]:
    """The conditions of choices under whose one truth, in a whole tile, a step does nothing, and that truth.  Those of which nothing is
    known in a whole tile are left out, and the parts of one of which all is."""
    if not loop.accumulators or any(isinstance(s, Store) for s in walk_statements(loop.body)):
        return {}
    found: dict[Value, bool] = {}
    said: set[str] = set()
    around = _around(loop, results)
    for c in conditions(loop.body, outside):
        there = {truth: bool(known.regions(c, truth)) for truth in (True, False)} if c.name not in said else {}
        truth = next((t for t in there if any(there.values()) and _does_nothing(loop, c, t, around)), None)
        if truth is not None:
            found[c] = truth
            said |= parts(c, known.made) if all(there.values()) else set()
    return found


def _bounded(loop: Loop, idle: Mapping[Value, bool], unread: Mapping[Value, bool], known: _Known) -> Loop:
    sides = [h for c, truth in idle.items() for h in halves(known.regions(c, truth))]
    sides += [h for c, truth in unread.items() if known.data.outside(c) for h in halves(known.regions(c, truth))]
    starts = () if _in_order(loop) else tuple(dict.fromkeys(b for upper, b in sides if not upper))
    return replace(loop, starts=starts, stops=tuple(dict.fromkeys(b for upper, b in sides if upper)))


def _in_order(loop: Loop) -> bool:
    """Whether a loop must begin with its first tile: something counts its steps."""
    statements = walk_statements(loop.body)
    return any(isinstance(s, IsFirst | Count) or (isinstance(s, Mean) and s.binding is not None) for s in statements)


def _clear(idle: Mapping[Value, bool], known: _Known) -> Clear | None:
    """Where no condition makes a step idle.  Of parts of a condition that is taken where of the whole nothing is known, as beside a mask
    that is data."""
    ruled_out: dict[Value, bool] = {}
    starts: dict[Bound, None] = {}
    stops: dict[Bound, None] = {}
    taken: set[str] = set()
    for condition, truth in idle.items():
        found = known.regions(condition, not truth)
        if found and condition.name not in taken:
            ruled_out[condition] = not truth
            taken |= parts(condition, known.made)
            first, last = united(found)
            starts.update(dict.fromkeys(first))
            stops.update(dict.fromkeys(last))
    return Clear(tuple(ruled_out.items()), tuple(starts), tuple(stops)) if ruled_out else None


# one step on symbols -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Old:
    """The finite state of an accumulator before the step, or its negative.  ``least``: what a maximum is at least."""

    name: str
    negative: bool = False
    least: float = -math.inf


@dataclass(frozen=True)
class _Of:
    """A finite number that is made of states and of values around the loop, by an operator of finite results."""

    op: str
    args: tuple[object, ...]


FINITE = ("maximum", "minimum", "add", "mul", "neg")


class _Unknown:
    """A finite number, or a truth value, of which nothing is known."""


UNKNOWN = _Unknown()
RESULT = _Unknown()  # what may be infinite, too
_Symbol = float | bool | _Old | _Of | _Unknown


def _around(loop: Loop, results: frozenset[str]) -> dict[str, _Symbol]:
    """What stands for the values around a loop."""
    made = {v.name for s in walk_statements(loop.body) for v in defines(s)} | {a.old.name for a in loop.accumulators}
    return {v.name: RESULT if v.name in results else _Old(v.name) for v in uses(loop) if v.name not in made}


def _does_nothing(loop: Loop, condition: Value, truth: bool, around: Mapping[str, _Symbol]) -> bool:
    """Whether a step leaves all states as they are, if a condition has one truth in the whole tile."""
    selective = [a for a in loop.accumulators if MONOIDS[a.monoid].copies == "one" and math.isinf(a.identity)]
    if len(selective) > 1:
        return False
    digits = {s.dst.name for s in loop.body if isinstance(s, Lost)}
    olds = {a.old.name: 0.0 if a.new.name in digits else _Old(a.old.name, least=_least(a)) for a in loop.accumulators}
    seen: dict[str, _Symbol] = {**around, **olds}
    known: dict[str, _Symbol] = {condition.name: truth}
    if not _unchanged(loop, seen, known):
        return False
    if not selective:
        return True
    unseen: dict[str, _Symbol] = {**around, **{a.old.name: a.identity for a in loop.accumulators}}
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


def _executed(body: Body, states: Mapping[str, _Symbol], known: Mapping[str, _Symbol]) -> dict[str, _Symbol]:
    env: dict[str, _Symbol] = {**states, **known}
    for s in body:
        if isinstance(s, Loop):
            env.update((a.old.name, UNKNOWN) for a in s.accumulators)
        elif not isinstance(s, Store):
            given = states if isinstance(s, Load) else known
            env[s.dst.name] = given[s.dst.name] if s.dst.name in given else _step(s, env)
            if env[s.dst.name] is UNKNOWN and any(env.get(v.name) is RESULT for v in uses(s)):
                env[s.dst.name] = RESULT
    return env


def _unchanged(loop: Loop, states: Mapping[str, _Symbol], known: Mapping[str, _Symbol]) -> bool:
    env = _executed(loop.body, states, known)
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
        if op == "add" and (_Of("neg", (x,)) == y or _Of("neg", (y,)) == x):
            return 0.0
    if op in FINITE and all(isinstance(a, float | _Old | _Of) and not (isinstance(a, float) and math.isinf(a)) for a in args):
        return _Of(op, tuple(args))
    return UNKNOWN
