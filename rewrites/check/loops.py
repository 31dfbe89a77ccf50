"""Repair facts as facts about segments: a loop is run, and its states are merged.

A rule that concludes a loop (``Roll``) says how a state moves to another reference.  Here its premises get a concrete model, t(ref) =
b * h(ref) or b + h(ref), and the axis is cut into segments, some of them empty, some with nothing but -inf in them.  The state of a
segment is (its reference, its accumulator); two states are merged by moving both to the common reference.  Then

    merge(A, merge(B, C)) = merge(merge(A, B), C),   merge(A, empty) = A = merge(empty, A),   and all merged = the reduction itself,

under the guard that lowering applies: the state of a segment whose reference is still the identity is kept as it is.  That guard is
right only if what was accumulated there is the identity as well, or infinite, which is what the premises ``zero_where``, ``least_where``
and ``kept_where`` are for: without them the model lets those elements contribute, and the laws fail.  A sum may become infinite, and what
is counted from it vanish; what is infinite then, or NaN, no loop has to know.

The monoids themselves obey the same three laws; :func:`check_monoids` tests the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import UnsoundRuleError
from ...ir.monoids import MONOIDS, Monoid
from ...ir.ops import OPS
from ...ir.semantics import reduce_array
from ..facts import Equal, Match
from ..patterns import NameVar, NumberVar, Reduce, Roll, Var
from ..relations import Row, horizon, joint, kept_where, least_where, lost_where, zero_where
from ..world import World
from .variables import Moved, Plan, name_of

CLOSE = 1e-9
SHAPES: tuple[Callable[[Any], Any], ...] = (lambda r: np.exp(-r), lambda r: 1.0 + r * r, lambda r: 2.0 ** (0.5 * r))
SHIFTS: tuple[Callable[[Any], Any], ...] = (lambda r: -r, lambda r: 0.5 * r * r, np.sin)


@dataclass(frozen=True)
class _Loop:
    """The parts of a rule that concludes a loop."""

    roll: Roll
    row: Moved
    monoid: str | NameVar  # of the reference: a maximum where the rule says only that it is -inf where nothing has been seen
    vanishing: str | None  # the premise about the body where nothing has been seen, if there is one


def _loop(plan: Plan) -> _Loop | None:
    rolls = [f.right for f in plan.rule.gives if isinstance(f, Equal) and isinstance(f.right, Roll)]
    if not rolls or not isinstance(rolls[0].body, Var):
        return None
    roll = rolls[0]
    row = next((m for m in plan.rows if m.tn is roll.body and m.kind == "run"), None)
    if row is None or not isinstance(row.r, Var):
        return None
    found = [f.pattern for f in plan.rule.needs if isinstance(f, Match) and f.var is row.r and isinstance(f.pattern, Reduce)]
    if not found and not any(isinstance(f, Row) and f.relation in (horizon, joint) and f.args[0] is row.r for f in plan.rule.needs):
        return None
    vanishing = [
        f.relation.name
        for f in plan.rule.needs
        if isinstance(f, Row) and f.relation in (zero_where, least_where, lost_where, kept_where) and f.args[0] is row.tn
    ]
    return _Loop(roll, row, found[0].monoid if found else "max", vanishing[0] if vanishing else None)


@dataclass(frozen=True)
class _Model:
    """Concrete premises: elements ``s`` of the reference, ``b`` of the body, and how the body depends on the reference."""

    plan: Plan
    loop: _Loop
    s: np.ndarray
    b: np.ndarray
    h: Callable[[Any], Any]
    shift: bool
    monoid: Monoid
    over: Monoid

    def reference(self, part: slice) -> float:
        """The reference of a segment."""
        return float(reduce_array(self.over.name, self.s[part], 0, self.s[part].size)[0])

    def empty(self, part: slice) -> bool:
        """Whether lowering sees nothing in the segment: its maximum is the identity, or it has no elements."""
        return self.s[part].size == 0 or (self.over.idempotent and self.reference(part) == self.over.identity)

    def body(self, part: slice, at: float) -> np.ndarray:
        """t at a reference, with the safe value where that is the identity."""
        h = self.h(0.0 if self.over.idempotent and not np.isfinite(at) else at)
        if not np.isfinite(h):
            return self.b[part] + h if self.shift else self.b[part] * h
        return self.b[part] + h if self.shift else np.where(self.b[part] == 0, 0.0, self.b[part] * h)

    def total(self, part: slice, at: float) -> float:
        """The state over a segment, from the definition."""
        return float(reduce_array(self.monoid.state, self.body(part, at), 0, self.s[part].size)[0])

    def moved(self, state: float, part: slice, to: float) -> float:
        """The state of a segment at another reference, by the rule's update and the guard."""
        old = self.reference(part)
        if self.empty(part):
            return state
        change = self.h(to) - self.h(old) if self.shift else np.divide(self.h(to), self.h(old))
        row, axis = self.loop.row, self.loop.roll.axis
        values: dict[str, Any] = {axis.name: 0, "t": None}
        for name, x in ((row.t, self.body(part, old)), (row.tn, self.body(part, to)), (row.r, np.array([old]))):
            if isinstance(name, Var):
                values[name.name] = x
        if isinstance(row.rest, Var):
            values[row.rest.name] = self.body(part, to) if row.rest.sort == "L" else np.array([change])
        for v in self.plan.variables.values():
            if isinstance(v, NumberVar):
                values.setdefault(v.name, self.monoid.identity)
        world = World(values, (self.s[part].size,), acc=np.array([state]))
        out = self.loop.roll.update.value(world)
        return float(np.asarray(out).reshape(-1)[0])

    def combine(self, x: float, y: float) -> float:
        """Two states at one reference."""
        return float(OPS[self.monoid.combine].numpy(x, y))

    def merge(self, x: tuple[slice, float], y: tuple[slice, float]) -> tuple[slice, float]:
        """Two neighbouring segments with their states."""
        whole = slice(x[0].start, y[0].stop)
        to = self.reference(whole)
        return whole, self.combine(self.moved(x[1], x[0], to), self.moved(y[1], y[0], to))

    def state(self, part: slice) -> tuple[slice, float]:
        """A segment at its own reference."""
        return part, self.total(part, self.reference(part))


def _models(plan: Plan, loop: _Loop, seed: int) -> _Model | None:
    rng = np.random.default_rng(seed)
    names: dict[str, Any] = {n: c[rng.integers(len(c))] for n, c in plan.choices.items() if c}
    world = World(names, ())
    monoid, over = MONOIDS[name_of(loop.roll.monoid, world)], MONOIDS[name_of(loop.monoid, world)]
    n = int(rng.integers(0, 3 + seed // 4 % 6))
    s = rng.normal(size=n).round(1)
    if over.idempotent and rng.random() < 0.7:
        s = np.where(rng.random(size=n) < 0.5, over.identity, s)
    elif not over.idempotent and rng.random() < 0.3:
        s = np.where(rng.random(size=n) < 0.3, rng.choice((-np.inf, np.inf)), s)
    shift = loop.row.fact.relation.name == "changes-by-term"
    if loop.row.fact.relation.name == "changes-by-form":
        shift = bool(rng.integers(2)) and loop.vanishing != "zero-where"
    b = rng.normal(size=n).round(1)
    if loop.vanishing is not None:
        kept = (np.inf,) if shift else (0.0, np.inf)
        nothing = {"least-where": (-np.inf,), "zero-where": (0.0,), "lost-where": (np.inf,), "kept-where": kept}[loop.vanishing]
        b = np.where(s == -np.inf, rng.choice(nothing), b)
    h = (SHIFTS if shift else SHAPES)[rng.integers(3)]
    return _Model(plan, loop, s, b, h, shift, monoid, over)


def _near(x: float, y: float) -> bool:
    return x == y or (np.isnan(x) and np.isnan(y)) or abs(x - y) <= CLOSE * max(1.0, abs(x), abs(y))


def check_loops(plan: Plan, examples: int) -> tuple[int, int]:
    """Test the laws of merging for a rule that concludes a loop; (models, numbers compared), zeros for other rules.

    Models grow with their number, so the first failure is a small one.  Raises :class:`~eqfuse.errors.UnsoundRuleError`.
    """
    loop = _loop(plan)
    if loop is None:
        return 0, 0
    runs = numbers = 0
    for seed in range(examples):
        m = _models(plan, loop, seed)
        if m is None:
            continue
        runs += 1
        n = m.s.size
        cuts = sorted(int(c) for c in np.random.default_rng(seed).integers(0, n + 1, size=2))
        parts = [slice(0, cuts[0]), slice(cuts[0], cuts[1]), slice(cuts[1], n)]
        with np.errstate(all="ignore"):
            try:
                laws = list(_laws(m, parts))
            except KeyError:
                return 0, 0  # the update reads more than the row says; the invariant over one stretch is all that is tested
        for law, found, expected in laws:
            if not (m.over.idempotent or np.isfinite(expected) or expected == m.monoid.identity):
                continue
            numbers += 1
            if not _near(found, expected):
                raise UnsoundRuleError(_text(plan, m, parts, law, found, expected), where=plan.rule.where, cure="add the missing condition")
    return runs, numbers


def _laws(m: _Model, parts: list[slice]) -> Any:
    """(law, found, expected)."""
    a, b, c = (m.state(p) for p in parts)
    whole = slice(0, m.s.size)
    left, right = m.merge(m.merge(a, b), c)[1], m.merge(a, m.merge(b, c))[1]
    yield "merging is associative", left, right
    yield "the segments merged are the whole", left, m.total(whole, m.reference(whole))
    for state in (a, b, c):
        nothing_before, nothing_after = slice(state[0].start, state[0].start), slice(state[0].stop, state[0].stop)
        yield "an empty segment before changes nothing", m.merge(m.state(nothing_before), state)[1], state[1]
        yield "an empty segment after changes nothing", m.merge(state, m.state(nothing_after))[1], state[1]


def _text(plan: Plan, m: _Model, parts: list[slice], law: str, found: float, expected: float) -> str:
    change = "b + h(reference)" if m.shift else "b * h(reference)"
    cut = " | ".join(" ".join(f"{v:g}" for v in m.s[p]) or "nothing" for p in parts)
    return (
        f"rule {plan.rule.name} is false: {law}, but {found:g} is not {expected:g}\n"
        f"  a {m.monoid.name} over {change}, b = {np.array2string(m.b, precision=4)}\n"
        f"  its reference is a {m.over.name} over segments: {cut}"
    )


def check_monoids(examples: int = 50) -> int:
    """The laws that all merging rests on, for every monoid: combine is associative, the identity is the state of nothing, and the
    parts combined are the whole, -inf included.  Returns how many laws held."""
    laws = 0
    for m in MONOIDS.values():
        for seed in range(examples):
            rng = np.random.default_rng(seed)
            x = np.where(rng.random(size=6) < 0.3, -np.inf, rng.normal(size=6).round(2))
            i, j = sorted(int(v) for v in rng.integers(0, 7, size=2))
            a, b, c = (float(reduce_array(m.state, p, 0, p.size)[0]) for p in (x[:i], x[i:j], x[j:]))
            both = OPS[m.combine].numpy
            for law, found, expected in (
                ("combining is associative", both(both(a, b), c), both(a, both(b, c))),
                ("the parts combined are the whole", both(both(a, b), c), reduce_array(m.state, x, 0, 6)[0]),
                ("nothing is the identity", both(a, m.identity), a),
                ("the state of nothing is the identity", float(reduce_array(m.state, x[:0], 0, 0)[0]), m.identity),
            ):
                if not _near(float(found), float(expected)):
                    raise UnsoundRuleError(f"monoid {m.name}: {law}, but {found} is not {expected} for {x}", cure="mend the monoid")
        laws += 4
    return laws
