"""Exponentials relative to what a row has in common: the factor is multiplied once for the row, and each element takes one multiply-add.

    2^((x - m) * c)      -->      2^(fma(x, c, -r)),   r = c * m

Any r that all elements of a row share is a reference as good as c * m, whose rounding is then a factor 2^e of the whole row, its sum
included: so where nothing is stored that has this factor, as a sum has that is not divided by another (:mod:`.degrees`).  e is half a
unit in the last place of c * m, what x * c is off by already where x is rounded.  Elements that are data are exact, and so is their
difference from m, so theirs stay; and so do those of a row of which parts are merged by m, as it is stored or in another exponential.
A step that goes on from an earlier reference takes 2^(r' - r), by the same r, which the loop carries.

From |c * m| = 2^27 on 2^e is no number that 16 bits hold beside others.  There a row takes 1 for c: r is m, e is 0, and other elements have
next to no weight under either c, as neighbouring scores are 8 apart.  What a step goes on from must not be larger than the next one for any
m, so for c above 1 it is r and what takes it from where it would be at the edge.  All of these are finite where m is.

Where a row has no element yet m is -inf, which r is not, so that no exponential is one of a NaN.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ...ir import dtypes
from ...ir.dtypes import DType
from ..names import unused
from ..operations import operation
from ..program import (
    Accumulator,
    Cast,
    Dot,
    Let,
    Literal,
    Load,
    Loop,
    Operand,
    Permute,
    Reduce,
    Statement,
    Store,
    TileProgram,
    Value,
    Where,
    defines,
    direct_uses,
    rewritten,
)
from .degrees import seen

EXACT = 2.0**27  # from this scaled reference on a row takes a power of two
MOST = 2.0  # factor: log2 e is one
LEAST, LEAST_ABOVE = 8, 16  # elements that a thread has to have, for c up to 1 and above: a reference takes four to twelve instructions
THREADS = 32  # of a warp
EXACTLY = ("neg", "abs", "where", "maximum", "minimum", "relu")  # operations whose results are what they are given
LOWEST = -3.4028234663852886e38  # the least float32


@dataclass(frozen=True)
class _Difference:
    """An exponential of ``(x - m) * c``.  ``before`` and ``of``: x and m, or where they come from if a row without an element has 0."""

    exponential: Let
    x: Value
    m: Value
    c: float
    before: Value
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
    """``scaled`` = ``by`` * m, what steps go on from, and the statements that make them."""

    by: Value
    scaled: Value
    passed: Value
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
    threads, rounded = THREADS * program.kernel.warps, _rounded(program)
    enough = [d for d in found if d.of_a_row and d.x.elements >= threads * (LEAST if d.c <= 1 else LEAST_ABOVE)]
    rows = {d.key for d in enough if d.x.name in rounded}
    found = [d for d in found if d.key in rows]
    if not found:
        return program
    kept = _kept_inside(program, found)
    rows_of = [d for d in kept if d.of_a_row]
    references = {" ".join(d.key): _multiples(program, d.of.name) for d in rows_of}
    shown = seen(program, {d.exponential.dst.name: " ".join(d.key) for d in rows_of}, references)
    differences = {d.exponential.dst.name: d for d in kept if " ".join(d.key) not in shown}
    if not differences:
        return program
    name = unused(program)
    body, _ = _block(program.body, (), differences, name)
    return _without_unread(replace(program, body=tuple(body)))


def _difference(s: Let, made: dict[str, Let], readers: Counter[str]) -> _Difference | None:
    """What an exponential is of, if it is a difference times a number."""
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
    if p == q or not 0 < abs(by) <= MOST or not isinstance(x, Value) or not isinstance(m, Value):
        return None
    if not {*m.dims} <= {*x.dims} or not x.dtype == m.dtype == dtypes.float32:
        return None
    return _Difference(s, x, m, abs(by), _guarded(x, made), _guarded(m, made))


def _signed(v: Operand, made: dict[str, Let]) -> tuple[float, Operand]:
    """A sign, and what has it."""
    s = made.get(v.name) if isinstance(v, Value) else None
    return (-1.0, s.args[0]) if s is not None and s.op == "neg" else (1.0, v)


def _guarded(m: Value, made: dict[str, Let]) -> Value:
    """What a reference is where it is finite, if it is 0 in place of -inf, once or more."""
    s = made.get(m.name)
    if s is None or s.op != "where" or s.args[1] != Literal(0.0) or not isinstance(s.args[0], Value) or not isinstance(s.args[2], Value):
        return m
    asked, of = made.get(s.args[0].name), s.args[2]
    empty = asked is not None and asked.op == "eq" and asked.args == (of, Literal(-math.inf))
    return _guarded(of, made) if empty and of.dims == m.dims else m


def _rounded(program: TileProgram) -> set[str]:
    """The values that are no data: results of operations that round, and what is chosen among others with these."""
    found: set[str] = set()
    for s in program.statements():
        of = [v for v in direct_uses(s) if v.name in found]
        if isinstance(s, Loop):
            found |= {a.old.name for a in s.accumulators if a.monoid == "sum" or a.new.name in found}
        elif isinstance(s, Dot) or (isinstance(s, Reduce) and s.monoid == "sum") or of:
            found |= {v.name for v in defines(s)}
        elif isinstance(s, Let) and s.dst.dtype == dtypes.float32 and s.op not in EXACTLY:
            power = s.op == "mul" and any(isinstance(a, Literal) and math.frexp(a.value)[0] in (0.5, -0.5) for a in s.args)
            found |= set() if power else {s.dst.name}
    return found


def _kept_inside(program: TileProgram, found: list[_Difference]) -> list[_Difference]:
    """The differences of which all that sees the reference sees the scaled one: the maximum is the kernel's own, no part of a row is stored
    beside it, and no other exponential takes it.  A logarithm of the sum may be added to it, which is rounded as far."""
    taken = set(_together(program.body, found))
    by_family: dict[frozenset[str], list[_Difference]] = {}
    for d in found:
        by_family.setdefault(_family(program, d.of.name), []).append(d)
    kept: list[_Difference] = []
    for family, of in by_family.items():
        here = {d.exponential.dst.name for d in of} & taken
        if not _loaded(program, family) and _inside(program, family, here):
            kept += [d for d in of if d.exponential.dst.name in here]
    return kept


def _together(body: tuple[Statement, ...], found: list[_Difference]) -> Iterator[str]:
    """The exponentials that are in a body with one of a row that has their reference."""
    names = {s.dst.name for s in body if isinstance(s, Let)}
    own = [d for d in found if d.exponential.dst.name in names]
    shared = {d.key for d in own if d.of_a_row}
    yield from (d.exponential.dst.name for d in own if d.key in shared)
    for s in body:
        if isinstance(s, Loop):
            yield from _together(s.body, found)


def _family(program: TileProgram, name: str) -> frozenset[str]:
    """The values of a state: at the start of a step, at its end, and where loops go on from it."""
    states = [{v.name for v in (a.old, a.new, a.start) if v} for s in program.statements() if isinstance(s, Loop) for a in s.accumulators]
    found, before = {name}, 0
    while before < len(found):
        before = len(found)
        for names in states:
            found |= names if names & found else set()
    return frozenset(found)


def _multiples(program: TileProgram, name: str) -> set[str]:
    """The values of a state, and multiples of these."""
    found = set(_family(program, name))
    for s in program.statements():
        if isinstance(s, Cast | Permute) and s.src.name in found:
            found.add(s.dst.name)
        if isinstance(s, Let) and any(v.name in found for v in direct_uses(s)):
            scaled = s.op == "neg" or (s.op == "mul" and any(isinstance(a, Literal) for a in s.args))
            if scaled or (s.op == "where" and isinstance(s.args[2], Value) and s.args[2].name in found):
                found.add(s.dst.name)
    return found


def _loaded(program: TileProgram, family: frozenset[str]) -> bool:
    """Whether a reference comes from memory."""
    found = set(family)
    for s in reversed(list(program.statements())):
        if isinstance(s, Load) and s.dst.name in found:
            return True
        if isinstance(s, Let | Where | Cast | Permute) and s.dst.name in found:
            found |= {v.name for v in direct_uses(s)}
    return False


def _inside(program: TileProgram, family: frozenset[str], taken: set[str]) -> bool:
    """Whether no other exponential takes a reference, and none is stored."""
    reached, plain = set(family), set(family)  # what depends on it; and what is one, or a multiple
    for _ in range(2):  # loops carry what depends on it around once
        for s in program.statements():
            read = {v.name for v in direct_uses(s)}
            if isinstance(s, Loop) or not read & reached:
                continue
            if isinstance(s, Store):
                if read & plain:
                    return False
                continue
            (dst,) = defines(s)
            if isinstance(s, Let) and ("add", "mul") in operation(s.op).turns:
                if dst.name not in taken:
                    return False
                continue
            reached.add(dst.name)
            summed = read & reached - plain or (isinstance(s, Let) and s.op == "add")  # so is a choice between a sum and a reference
            plain |= set() if summed else {dst.name}
    return True


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
                added.append(Accumulator(one.old, one.new, "max", -math.inf, start.passed if start else None))
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
                state = next((a for a in states if (a.old, a.new) == (d.before, d.of)), None)
                if state is None:
                    before = _reference(d.x, d.c, name)
                    out += before.made
                    old = before.passed
                else:
                    if d.key not in carried:
                        carried[d.key] = _Carried(state, d.c, Value(name("reference"), d.x.dims, dtypes.float32), r.passed)
                    old = carried[d.key].old
                less = Let(Value(name("neg"), r.passed.dims, dtypes.float32), "neg", (r.passed,))
                out.append(less)
                argument = Let(Value(name("diff"), d.x.dims, dtypes.float32), "add", (old, less.dst))
            out += (argument, replace(d.exponential, args=(argument.dst,)))
    return out, list(carried.values())


def _reference(m: Value, c: float, name: Callable[[str], str]) -> _Reference:
    """The scaled reference of rows.  The largest of it and of the least number is what no compiler takes for a product in a sum."""
    edge = EXACT / c

    def value(word: str, dtype: DType = dtypes.float32) -> Value:
        return Value(name(word), m.dims, dtype)

    size, by, product, scaled, large = value("size"), value("by"), value("mul"), value("reference"), value("large", dtypes.bool_)
    made = [
        Let(size, "abs", (m,)),
        Let(large, "ge", (size, Literal(edge))),
        Let(by, "where", (large, Literal(1.0), Literal(c))),
        Let(product, "mul", (m, by)),
        Let(scaled, "maximum", (product, Literal(LOWEST))),
    ]
    if c <= 1:
        return _Reference(by, scaled, scaled, tuple(made))
    low, high = value("low", dtypes.bool_), value("high", dtypes.bool_)
    below, beyond, passed = value("below"), value("beyond"), value("passed")
    made += [
        Let(low, "le", (m, Literal(-edge))),
        Let(below, "where", (low, Literal(edge - EXACT), Literal(0.0))),
        Let(high, "ge", (m, Literal(edge))),
        Let(beyond, "where", (high, Literal(EXACT - edge), below)),
        Let(passed, "add", (scaled, beyond)),
    ]
    return _Reference(by, scaled, passed, tuple(made))


def _without_unread(program: TileProgram) -> TileProgram:
    """The program without what is read no more."""
    while True:
        read = {v.name for s in program.statements() for v in direct_uses(s)}
        unread = {s.dst for s in program.statements() if isinstance(s, Let) and s.dst.name not in read}
        if not unread:
            return program
        program = replace(program, body=_without(program.body, unread))


def _without(body: tuple[Statement, ...], unread: set[Value]) -> tuple[Statement, ...]:
    return rewritten(body, lambda s: None if isinstance(s, Let) and s.dst in unread else s)
