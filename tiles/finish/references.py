"""Exponentials relative to what a row has in common: the factor is multiplied once for the row, and each element takes one multiply-add.

    2^((x - m) * c)      -->      2^(fma(x, c, -r)),   r = c * m

Any r that all elements of a row share is a reference as good as c * m, whose rounding is then a factor 2^e of the whole row, its sum
included: e is half a unit in the last place of c * m, what x * c is off by already where x is rounded.  So a step that goes on from an
earlier reference takes 2^(r' - r), by the same r, which the loop carries.  From |c * m| = 2^27 on that factor is no number that 16 bits
hold beside others.  There a row takes the next power of two for c: its products are exact, e is 0, and other elements have no weight under
either c, as neighbouring scores are 8 apart.  It is at most 1, so that r is finite where m is.

Where a row has no element yet m is -inf, which r is not, so that no exponential is one of a NaN.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from ...ir import dtypes
from ..names import unused
from ..program import Accumulator, Let, Literal, Loop, Operand, Statement, TileProgram, Value, direct_uses, rewritten

EXACT = 2.0**27  # from this scaled reference on a row takes a power of two
LEAST = 8  # elements that a thread has to have: a reference takes as many instructions as three elements are spared, or eight
THREADS = 32  # of a warp
LOWEST = -3.4028234663852886e38  # the least float32


@dataclass(frozen=True)
class _Difference:
    """An exponential of ``(x - m) * c``; ``of``: where m comes from, if it is m or, for a row without an element, 0."""

    exponential: Let
    x: Value
    m: Value
    c: float
    of: Value

    @property
    def key(self) -> tuple[str, str]:
        """What has the same reference."""
        return self.of.name, f"{self.c:.12g}"

    @property
    def of_a_row(self) -> bool:
        """Whether several elements share m."""
        return {*self.m.dims} < {*self.x.dims} and all(d.each == 1 for d in self.x.dims)


@dataclass(frozen=True)
class _Reference:
    """``scaled`` = ``by`` * m, and the statements that make them."""

    by: Value
    scaled: Value
    made: tuple[Statement, ...]


@dataclass(frozen=True)
class _Carried:
    """A reference that a loop carries beside a state: at the start of a step, and at its end."""

    state: Accumulator
    c: float
    old: Value
    new: Value


def refer(program: TileProgram) -> TileProgram:
    """The program with scaled references where elements share one; not in a kernel that keeps every bit."""
    if program.kernel.exact:
        return program
    made = {s.dst.name: s for s in program.statements() if isinstance(s, Let)}
    readers = Counter(v.name for s in program.statements() for v in direct_uses(s))
    found = [d for s in made.values() if s.op == "exp2" and (d := _difference(s, made, readers)) is not None]
    worth = LEAST * THREADS * program.kernel.warps
    rows = {d.key for d in found if d.of_a_row and d.x.elements >= worth}
    found = [d for d in found if d.key in rows]
    if not found:
        return program
    differences = {d.exponential.dst.name: d for d in found}
    name = unused(program)
    body, _ = _block(program.body, (), differences, name)
    return _without_unread(replace(program, body=tuple(body)), frozenset(made))


def _difference(s: Let, made: dict[str, Let], readers: Counter[str]) -> _Difference | None:
    """What an exponential is of, if it is a difference times a number from 0 to 1."""
    by, at = 1.0, s.args[0]
    while isinstance(at, Value) and (step := made.get(at.name)) is not None and readers[at.name] == 1:
        first, last = step.args[0], step.args[-1]
        if step.op == "neg":
            by, at = -by, first
        elif step.op == "mul" and isinstance(last, Literal):
            by, at = by * last.value, first
        else:
            return _of_sum(s, step, by, made) if step.op == "add" else None
    return None


def _of_sum(s: Let, total: Let, by: float, made: dict[str, Let]) -> _Difference | None:
    """The same of the exponential of a sum times a number."""
    (p, x), (q, m) = (_signed(v, made) for v in total.args)
    if by * p < 0:
        x, m = m, x
    if p == q or not 0 < abs(by) <= 1 or not isinstance(x, Value) or not isinstance(m, Value):
        return None
    if not {*m.dims} <= {*x.dims} or not x.dtype == m.dtype == dtypes.float32:
        return None
    return _Difference(s, x, m, abs(by), _guarded(m, made))


def _signed(v: Operand, made: dict[str, Let]) -> tuple[float, Operand]:
    """A sign, and what has it."""
    s = made.get(v.name) if isinstance(v, Value) else None
    return (-1.0, s.args[0]) if s is not None and s.op == "neg" else (1.0, v)


def _guarded(m: Value, made: dict[str, Let]) -> Value:
    """What a reference is where it is finite, if it is 0 in place of -inf."""
    s = made.get(m.name)
    if s is None or s.op != "where" or s.args[1] != Literal(0.0) or not isinstance(s.args[0], Value) or not isinstance(s.args[2], Value):
        return m
    asked = made.get(s.args[0].name)
    empty = asked is not None and asked.op == "eq" and asked.args == (s.args[2], Literal(-math.inf))
    return s.args[2] if empty and s.args[2].dims == m.dims else m


def _block(
    body: tuple[Statement, ...], states: tuple[Accumulator, ...], differences: dict[str, _Difference], name: Callable[[str], str]
) -> tuple[list[Statement], list[_Carried]]:
    """The statements of a body, of a loop with some states; and the references that the loop carries with these."""
    own = [d for s in body if isinstance(s, Let) and (d := differences.get(s.dst.name)) is not None]
    shared = {d.key for d in own if d.of_a_row}
    known: dict[tuple[str, str], _Reference] = {}
    carried: dict[tuple[str, str], _Carried] = {}
    out: list[Statement] = []
    for s in body:
        d = differences.get(s.dst.name) if isinstance(s, Let) else None
        if isinstance(s, Loop):
            inside, more = _block(s.body, s.accumulators, differences, name)
            added = list(s.accumulators)
            for one in more:
                start = None if one.state.start is None else _reference(one.state.start, one.c, name)
                out += start.made if start else ()
                added.append(Accumulator(one.old, one.new, "max", -math.inf, start.scaled if start else None))
            out.append(replace(s, body=tuple(inside), accumulators=tuple(added)))
        elif d is None or d.key not in shared:
            out.append(s)
        else:
            if d.key not in known:
                known[d.key] = _reference(d.of, d.c, name)
                out += known[d.key].made
            r = known[d.key]
            if d.of_a_row:
                argument = Let(Value(name("scaled"), d.x.dims, dtypes.float32), "fms", (d.x, r.by, r.scaled))
            else:
                state = next((a for a in states if (a.old, a.new) == (d.x, d.of)), None)
                if state is None:
                    before = _reference(d.x, d.c, name)
                    out += before.made
                    old = before.scaled
                else:
                    if d.key not in carried:
                        carried[d.key] = _Carried(state, d.c, Value(name("reference"), d.x.dims, dtypes.float32), r.scaled)
                    old = carried[d.key].old
                less = Let(Value(name("neg"), r.scaled.dims, dtypes.float32), "neg", (r.scaled,))
                out.append(less)
                argument = Let(Value(name("diff"), d.x.dims, dtypes.float32), "add", (old, less.dst))
            out += (argument, replace(d.exponential, args=(argument.dst,)))
    return out, list(carried.values())


def _reference(m: Value, c: float, name: Callable[[str], str]) -> _Reference:
    """The scaled reference of rows.  The largest of it and of the least number is what no compiler takes for a product in a sum."""
    size, by, product, scaled = (Value(name(word), m.dims, dtypes.float32) for word in ("size", "by", "mul", "reference"))
    large = Value(name("large"), m.dims, dtypes.bool_)
    power = 2.0 ** math.ceil(math.log2(c))
    made = (
        Let(size, "abs", (m,)),
        Let(large, "ge", (size, Literal(EXACT / c))),
        Let(by, "where", (large, Literal(power), Literal(c))),
        Let(product, "mul", (m, by)),
        Let(scaled, "maximum", (product, Literal(LOWEST))),
    )
    return _Reference(by, scaled, made)


def _without_unread(program: TileProgram, before: frozenset[str]) -> TileProgram:
    """The program without what was read before, and is no more."""
    while True:
        read = {v.name for s in program.statements() for v in direct_uses(s)}
        unread = {s.dst for s in program.statements() if isinstance(s, Let) and s.dst.name in before - read}
        if not unread:
            return program
        program = replace(program, body=_without(program.body, unread))


def _without(body: tuple[Statement, ...], unread: set[Value]) -> tuple[Statement, ...]:
    return rewritten(body, lambda s: None if isinstance(s, Let) and s.dst in unread else s)
