"""The audit: every node of a saturated graph, evaluated, must agree with its class.

Values are float64 arrays at small random extents (axes that views or splits mention keep theirs, since index expressions contain
extents).  ``Ref`` and ``Acc`` are free parameters, so classes that mention them are evaluated at random ones, and repair facts
are tested as the equations they state.  A ``Roll`` is executed literally, element by element, with running references, all the
accumulators that its update mentions, and the guard that lowering uses: the state is kept where the old reference is the identity.
With ``masked=True`` some inputs are -inf, and members must agree where the program's own form is finite (where both are, in a class that
rules made); nothing is asked of a loop where a reference of it is NaN (a choice may have left out the 0 * inf that such data make of it, a
repair cannot).

A disagreement names the two nodes, the rules that introduced them, and a minimal program: the program is made smaller, and rules are left
out, as long as a named rule still makes an audit fail.  It is printed as code that runs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ..errors import UnsoundGraphError
from ..ir.index import Axis
from ..ir.monoids import MONOIDS
from ..ir.ops import OPS
from ..ir.program import Program
from ..ir.shrink import shrink
from ..ir.source import program_source
from ..ir.terms import Input
from ..rewrites import registry
from ..rewrites.patterns import read_at, reduce_array
from ..rewrites.rule import Rule
from .frozen import ENode, FrozenGraph
from .saturate import saturate

RELATIVE, ABSOLUTE = 1e-6, 1e-9
SHORT = 4  # the longest extent that is drawn for an axis
ROUNDING = 1e-12  # what float64 may do to a bound of 1 or 0: exponentials of exact zeros, sums of them
SIGNS: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # table -> where a value breaks it
    "nonneg": lambda x: x < -ROUNDING,
    "nonpos": lambda x: x > ROUNDING,
    "at-least-one": lambda x: x < 1 - ROUNDING,
    "at-most-one": lambda x: x > 1 + ROUNDING,
}


@dataclass(frozen=True)
class AuditReport:
    """What an audit looked at."""

    nodes: int  # e-nodes compared with their class
    rolls: int  # of these, loops that were executed
    facts: int  # repair facts tested
    numbers: int  # numbers compared
    skipped: int  # e-nodes without a value: accumulators that nobody keeps, and what depends on them

    def __str__(self) -> str:
        return (
            f"{self.nodes} e-nodes ({self.rolls} loops executed), {self.facts} repair facts, {self.numbers} numbers agree; "
            f"{self.skipped} e-nodes have no value"
        )


def audit(
    graph: FrozenGraph,
    seed: int = 0,
    *,
    masked: bool = False,
    inputs: Mapping[str, np.ndarray] | None = None,
    rules: Collection[Rule] | None = None,
    shrink_seconds: float = 10.0,
) -> AuditReport:
    """Evaluate the whole graph; raises :class:`~eqfuse.errors.UnsoundGraphError` naming two nodes that disagree and their rules.

    The error ends with a minimal program as code.  ``rules``: those that the graph was saturated with (registered ones are found by
    their names in its report); ``shrink_seconds``: processor time for making the program small, 0 to leave it out.
    """
    try:
        return _evaluated(graph, seed, masked, inputs)
    except _Disagreement as found:
        text = ""
        if shrink_seconds > 0:
            text = _minimal(graph, seed, masked, inputs, rules, found.rules, shrink_seconds)
        cure = "check() the named rules; if they pass, the rule that united the class lacks a condition"
        error = UnsoundGraphError(found.what, where=found.where, cure=cure + text)
        error.minimal = text
        raise error from None


def _evaluated(graph: FrozenGraph, seed: int, masked: bool, inputs: Mapping[str, np.ndarray] | None) -> AuditReport:
    total = [0, 0, 0, 0, 0]
    for free_old in (False, True):
        a = _Audit(graph, seed, masked, inputs, free_old)
        a.check_nodes()
        a.check_signs()
        if not free_old:
            a.check_facts()
        total = [max(x, y) if k < 2 else x + y for k, (x, y) in enumerate(zip(total, a.counts, strict=True))]
        total[4] = a.counts[4]
    return AuditReport(*total)


class _Disagreement(Exception):
    """Two members differ, or a claim is false; internal."""

    def __init__(self, what: str, where: str, rules: frozenset[str]) -> None:
        self.what, self.where, self.rules = what, where, rules
        super().__init__(what)


SMALL = 2000  # e-nodes that a candidate may have: a minimal program has few
FEW = 24  # elements of inputs that are worth printing


def _minimal(
    graph: FrozenGraph,
    seed: int,
    masked: bool,
    inputs: Mapping[str, np.ndarray] | None,
    rules: Collection[Rule] | None,
    culprits: frozenset[str],
    seconds: float,
) -> str:
    """The smallest program and the fewest rules found that still make a named rule fail, as code.

    Data that were given are cut to the sizes of a candidate; without them, and if they are not needed, the audit draws its own.
    """
    matched = {r.rule for r in graph.report.rules if r.matches}
    pool = tuple(r for r in (rules if rules is not None else registry.rules()) if r.name in matched)
    parts = {axis.name: outer.size for axis, outer, _ in graph.facts.get("split", ())}
    fixed = [i.name for i in graph.program.inputs]
    deadline = time.process_time() + seconds

    def splits(p: Program) -> dict[Axis, int]:
        return {a: parts[a.name] for a in p.axes if parts.get(a.name, a.size) < a.size}

    def data(p: Program) -> dict[str, np.ndarray] | None:
        if inputs is None:
            return None
        found = {}
        for i in p.inputs:
            shape = [1 if a is None else a.size for a in i.layout]
            x = np.asarray(inputs[i.name]) if i.name in fixed else np.ones(())
            fits = x.ndim == len(shape) and all(n <= m for n, m in zip(shape, x.shape, strict=True))
            found[i.name] = (
                x[tuple(slice(n) for n in shape)] if fits else np.random.default_rng(seed).normal(size=shape).round(2)
            )
        return found

    def disagrees(p: Program, chosen: tuple[Rule, ...]) -> bool:
        try:
            small = saturate(p, rules=chosen, splits=splits(p), node_budget=SMALL, time_budget=2.0)
            _evaluated(small, seed, masked, data(p))
        except _Disagreement as found:
            return not culprits or bool(culprits & found.rules)
        except Exception:  # a candidate that is no program
            return False
        return False

    if not disagrees(graph.program, pool):
        strange = sorted(matched - {r.name for r in pool})
        why = f"these rules are not registered, pass rules=: {', '.join(strange)}" if strange else "its rules alone do not show it again"
        return f"\n  no minimal program: {why}"
    if inputs is not None:
        given, inputs = inputs, None
        if not disagrees(graph.program, pool):
            inputs = given
    program = shrink(graph.program, lambda p: disagrees(p, pool), seconds=seconds * 0.6)
    kept = _fewest(pool, lambda chosen: disagrees(program, chosen), deadline)
    program = shrink(program, lambda p: disagrees(p, kept), seconds=max(0.0, deadline - time.process_time()))
    return "\n  minimal program:\n\n" + _code(program, kept, splits(program), seed, masked, data(program))


def _fewest(rules: tuple[Rule, ...], fails: Callable[[tuple[Rule, ...]], bool], deadline: float) -> tuple[Rule, ...]:
    """Fewer rules that still fail: halves are left out, then quarters, then single ones."""
    size = (len(rules) + 1) // 2
    while size and time.process_time() < deadline:
        k = 0
        while k < len(rules) and time.process_time() < deadline:
            fewer = rules[:k] + rules[k + size :]
            if fewer and fails(fewer):
                rules = fewer
            else:
                k += size
        size //= 2
    return rules


def _code(
    program: Program, rules: tuple[Rule, ...], splits: Mapping[Axis, int], seed: int, masked: bool, inputs: Mapping[str, np.ndarray] | None
) -> str:
    """A script that repeats the failing audit; its rules are those of the registry."""
    options = f"seed={seed}, masked={masked}"
    lines = [program_source(program).rstrip(), "", "from eqfuse.egraph import audit, saturate", "from eqfuse.rewrites import registry"]
    if inputs is not None and sum(x.size for x in inputs.values()) <= FEW:
        inf = "from math import inf" if any(np.isinf(x).any() for x in inputs.values()) else None
        lines += [inf] if inf else []
        lines.append(f"inputs = {{{', '.join(f'{n!r}: {np.asarray(x).tolist()}' for n, x in inputs.items())}}}")
        options += ", inputs=inputs"
    names = ", ".join(repr(r.name) for r in rules)
    parts = ", ".join(f"Axis({a.name!r}, {a.size}): {n}" for a, n in splits.items())
    lines.append(f"names = {{{names}}}")
    lines.append("rules = [r for r in registry.rules() if r.name in names]")
    lines.append(f"audit(saturate(p, rules=rules, splits={{{parts}}}), {options})")
    return "".join(f"    {line}\n" if line else "\n" for line in "\n".join(lines).split("\n"))


def _fixed_axes(graph: FrozenGraph) -> set[Axis]:
    """The axes whose extents stand in index expressions: they are audited as long as they are."""
    fixed = {a for row in graph.classes for n in row if n.op == "view" for a in (n.attrs[0], *n.attrs[1].axes())}
    return fixed | {a for split in graph.facts.get("split", ()) for a in split}


def audit_elements(graph: FrozenGraph) -> int:
    """How many numbers an audit that draws its own data holds, about: what tells whether it fits into memory and time."""
    fixed = _fixed_axes(graph)
    return sum(math.prod(a.size if a in fixed else SHORT for a in axes) for axes in graph.axes)


class _Audit:
    def __init__(
        self, graph: FrozenGraph, seed: int, masked: bool, inputs: Mapping[str, np.ndarray] | None, free_old: bool
    ) -> None:
        self.graph, self.masked, self.free_old = graph, masked, free_old
        self.rng = np.random.default_rng(seed)
        self.axes = sorted({a for row in graph.classes for n in row for a in _axes_of(n)} | set(graph.program.axes))
        self.place = {a: k for k, a in enumerate(self.axes)}
        fixed = _fixed_axes(graph)
        self.size = [a.size if a in fixed else int(self.rng.integers(2, SHORT + 1)) for a in self.axes]
        self.given = inputs
        if inputs is not None:
            for t in graph.program.inputs:
                for a, n in zip(t.layout, np.shape(inputs[t.name]), strict=True):
                    if a is not None:
                        self.size[self.place[a]] = n
        self.inputs = {t.name: self.draw_input(t) for t in graph.program.inputs}
        self.nonneg = {c for (c,) in graph.facts.get("nonneg", ())}
        self.nonpos = {c for (c,) in graph.facts.get("nonpos", ())}
        self.settled = {c for (c,) in graph.facts.get("settled", ())}
        self.updates = {
            (n.attrs[1], n.args[0]): n.args[1] for row in graph.classes for n in row if n.op == "roll" and n.attrs[0] == "sum"
        }
        self.lanes = self.valid_lanes()
        self.values: dict[int, np.ndarray] = {}
        self.pick: dict[int, ENode] = {}
        self.counts = [0, 0, 0, 0, 0]
        self.unknown: np.ndarray | None = None  # where the loop that was executed last has a reference that is NaN
        with np.errstate(all="ignore"):
            self.evaluate_all()

    # values --------------------------------------------------------------------------------------------------------------------

    def draw_input(self, t: Input) -> np.ndarray:
        """An input as an array over all axes."""
        shape = [1 if a is None else self.size[self.place[a]] for a in t.layout]
        if self.given is not None:
            x = np.asarray(self.given[t.name], float)
        elif t.dtype.kind == "bool":
            x = self.rng.integers(0, 2, size=shape).astype(float)
        elif t.dtype.kind == "int":
            x = self.rng.integers(0, 3, size=shape).astype(float)
        else:
            x = self.rng.normal(size=shape) * 2
            if self.masked:
                x = np.where(self.rng.random(size=shape) < 0.25, -np.inf, x)
        named = [(a, n) for a, n in zip(t.layout, shape, strict=True) if a is not None]
        order = sorted(range(len(named)), key=lambda k: self.place[named[k][0]])
        x = x.reshape([n for _, n in named]).transpose(order)
        full = [1] * len(self.axes)
        for a, n in named:
            full[self.place[a]] = n
        return x.reshape(full)

    def valid_lanes(self) -> np.ndarray:
        """Where the positions that outer and inner axes of a ragged split make are inside the axis: past its end values mean nothing."""
        inside = np.ones((1,) * len(self.axes), bool)
        for whole, outer, inner in self.graph.facts.get("split", ()):
            if outer.size * inner.size != whole.size and {outer, inner} <= set(self.axes):
                inside = inside & (self.along(outer) * inner.size + self.along(inner) < whole.size)
        return inside

    def lanes_of(self, x: np.ndarray) -> np.ndarray:
        """Where a value means something; one that has not all axes of the parts is whole."""
        whole = all(n == 1 or m > 1 for n, m in zip(self.lanes.shape, x.shape, strict=True))
        return self.lanes if whole else np.ones((1,) * x.ndim, bool)

    def scalar(self, x: float) -> np.ndarray:
        """A number over all axes."""
        return np.full((1,) * len(self.axes), float(x))

    def along(self, axis: Axis) -> np.ndarray:
        """Positions along an axis."""
        shape = [1] * len(self.axes)
        shape[self.place[axis]] = -1
        return np.arange(self.size[self.place[axis]]).reshape(shape)

    def evaluate_all(self) -> None:
        """A value for every class, program nodes first; each from nodes whose classes have values already."""
        users: dict[int, list[int]] = {}
        for c, row in enumerate(self.graph.classes):
            for n in row:
                for a in n.args:
                    users.setdefault(a, []).append(c)
        for own in (True, False):
            work = list(range(len(self.graph.classes)))
            while work:
                c = work.pop()
                if c in self.values:
                    continue
                for n in self.graph.classes[c]:
                    if own and n.rule is not None:
                        continue
                    value = self.node_value(n)
                    if value is not None:
                        self.values[c], self.pick[c] = value, n
                        work.extend(users.get(c, ()))
                        break

    def node_value(self, n: ENode) -> np.ndarray | None:
        """A node's value from its classes' values; ``None`` if one is missing, or for loops, which are executed later."""
        if n.op == "roll" or any(a not in self.values for a in n.args):
            return None
        args = [self.values[a] for a in n.args]
        if n.op == "ref":
            return self.reference(n, args[0])
        if n.op == "pre":
            if n.args[0] not in self.settled and (n.attrs[0], n.args[0]) not in self.updates:
                return None
            return self.reduce("sum", n.attrs[0], args[0])
        if n.op == "acc":
            return self.scalar(1.37)
        return self.apply(n, args)

    def apply(self, n: ENode, args: list[np.ndarray]) -> np.ndarray:
        """Ordinary nodes."""
        if n.op == "input":
            return self.inputs[n.attrs[0]]
        if n.op == "const":
            return self.scalar(n.attrs[0])
        if n.op == "extent":
            return self.scalar(self.size[self.place[n.attrs[0]]])
        if n.op == "index":
            return self.along(n.attrs[0]).astype(float)
        if n.op == "map":
            return np.asarray(OPS[n.attrs[0]].numpy(*args), float)
        if n.op == "cast":
            return args[0]
        if n.op == "reduce":
            return self.reduce(n.attrs[0], n.attrs[1], args[0])
        assert n.op == "view", n
        axis, expr = n.attrs
        at = np.asarray(expr.evaluate({a: self.along(a) for a in expr.axes()}))
        at = at if at.ndim else np.full((1,) * len(self.axes), at)
        if any(m.op == "index" and m.attrs[0] == axis for m in self.graph.classes[n.args[0]]):
            return at.astype(float)  # a position past the end is still a position
        return read_at(args[0], self.place[axis], at)

    def reduce(self, monoid: str, axis: Axis, x: np.ndarray) -> np.ndarray:
        """A reduction over one axis."""
        k = self.place[axis]
        return reduce_array(monoid, x, k, self.size[k])

    def reference(self, n: ENode, r: np.ndarray) -> np.ndarray:
        """A free reference value, of the sign that r is known to have; the old one is r itself where facts are tested."""
        if n.attrs[0] == "old" and not self.free_old:
            return r
        known = np.where(np.isfinite(r), r, 0.0)
        noise = self.rng.uniform(0.5, 1.5, size=r.shape)
        return known * noise if n.args[0] in self.nonneg | self.nonpos else known + noise

    # comparing -----------------------------------------------------------------------------------------------------------------

    def check_nodes(self) -> None:
        """Every node against its class."""
        for c, row in enumerate(self.graph.classes):
            for n in row:
                self.unknown = None
                with np.errstate(all="ignore"):
                    value = self.run_loop(n) if n.op == "roll" else self.node_value(n)
                if value is None or c not in self.values:
                    self.counts[4] += 1
                    continue
                if n.op == "ref" or n is self.pick[c]:
                    continue
                self.counts[0] += 1
                self.counts[1] += n.op == "roll"
                self.compare(self.values[c], value, self.pick[c], n, c)

    def compare(self, a: np.ndarray, b: np.ndarray, first: ENode, second: ENode, c: int) -> None:
        """Agreement wherever either is finite; with masked inputs, wherever the first is."""
        try:
            a, b = np.broadcast_arrays(a, b)
        except ValueError:
            raise self.unsound(first, second, c, f"shapes {a.shape} and {b.shape}") from None
        where = np.isfinite(a) if self.masked else np.isfinite(a) | np.isfinite(b)
        if self.masked and first.rule is not None and second.op != "roll":
            where = where & np.isfinite(b)
        if self.masked and self.unknown is not None:
            wide = tuple(k for k, n in enumerate(where.shape) if n == 1)
            where = where & ~self.unknown.any(axis=wide, keepdims=True)
        where = where & self.lanes_of(a)
        self.counts[3] += int(where.sum())
        with np.errstate(all="ignore"):
            scale = np.max(np.abs(a[np.isfinite(a)]), initial=0.0)
            good = np.abs(a - b) <= ABSOLUTE + RELATIVE * np.maximum(np.abs(a), 1e-3 * scale)
        bad = where & ~good
        if bad.any():
            at = tuple(np.argwhere(bad)[0])
            raise self.unsound(first, second, c, f"{a[at]:.9g} and {b[at]:.9g}")

    def unsound(self, first: ENode, second: ENode, c: int, what: str) -> _Disagreement:
        """Two members that differ."""
        names = [n.rule or "the program" for n in (first, second)]
        united = sorted({rule for rule, cls in self.graph.facts.get("united", ()) if cls == c})
        return _Disagreement(
            f"class {c} has members {self.show(first)} and {self.show(second)} that differ: {what}",
            f"introduced by {names[0]} and {names[1]}; class united by {', '.join(united) or 'no rule'}",
            frozenset(r for r in (first.rule, second.rule, *united) if r),
        )

    def show(self, n: ENode) -> str:
        """A node in words."""
        attrs = ", ".join(a.name if isinstance(a, Axis) else str(a) for a in n.attrs)
        return f"{n.op}[{attrs}]({', '.join(f'c{a}' for a in n.args)})"

    def check_signs(self) -> None:
        """Signs and bounds that the analyses claim; NaN is not a claim."""
        for table, bad in SIGNS.items():
            for (c,) in self.graph.facts.get(table, ()):
                if c in self.values and np.any(bad(self.values[c]) & self.lanes_of(self.values[c])):
                    rule = self.pick[c].rule
                    raise _Disagreement(
                        f"class {c}, {self.show(self.pick[c])}, is said to be {table} and is not",
                        f"introduced by {rule or 'the program'}; claimed by a rule of the family signs, or by the range of an op",
                        frozenset(),
                    )
                self.counts[3] += c in self.values

    def check_facts(self) -> None:
        """Repair facts as equations: t(new) = t + d, or t(new) = t * q; for the parts of a split axis the other way round."""
        for table in ("radd", "rmul"):
            for kind, _, t, _, tn, change in self.graph.facts.get(table, ()):
                if any(c not in self.values for c in (t, tn, change)):
                    continue
                new, old = (self.values[tn], self.values[t]) if kind == "run" else (self.values[t], self.values[tn])
                with np.errstate(all="ignore"):
                    moved = old + self.values[change] if table == "radd" else old * self.values[change]
                    moved = np.where(np.isfinite(self.values[change]), moved, np.nan)
                    new = np.where(np.isfinite(moved), new, np.nan)
                self.counts[2] += 1
                self.compare(new, moved, self.pick[tn], self.pick[change], tn)

    # loops ---------------------------------------------------------------------------------------------------------------------

    def run_loop(self, roll: ENode) -> np.ndarray | None:
        """Execute a Roll over its axis, with every accumulator that its update needs."""
        monoid, axis = roll.attrs
        body, update = roll.args
        bodies: dict[int, int | None] = {}  # accumulator body -> update class (None: a plain sum)
        needed = [update]
        refs: dict[tuple[int, Axis], None] = {}
        seen: set[int] = set()
        needed.append(body)
        while needed:
            c = needed.pop()
            if c in seen or c in self.settled:
                continue
            seen.add(c)
            n = self.pick.get(c)
            if n is None:
                return None
            if n.op == "ref":
                refs[n.args[0], n.attrs[1]] = None
                continue
            if n.op == "pre":
                b = n.args[0]
                if b not in bodies:
                    bodies[b] = None if b in self.settled else self.updates[n.attrs[0], b]
                    needed += [b] if bodies[b] is None else [b, bodies[b]]  # type: ignore[list-item]
                continue
            needed.extend(n.args)
        running = {}
        for r, a in refs:
            trajectory = self.prefixes(r, a) if a == axis else None
            if trajectory is None:
                return None
            running[r] = trajectory
            strange: np.ndarray = np.asarray(np.isnan(trajectory[1]).any(axis=0))
            if strange.any():
                self.unknown = strange if self.unknown is None else self.unknown | strange
        state = self.scalar(MONOIDS[MONOIDS[monoid].state].identity)
        sums = {b: self.scalar(0.0) for b in bodies}
        combine = OPS[MONOIDS[monoid].combine].numpy
        for step in range(self.size[self.place[axis]]):
            loop = _Step(self, axis, step, running, sums)
            after = combine(loop.kept(update, state), loop.value(body))
            moved = {b: (sums[b] if u is None else loop.kept(u, sums[b])) + loop.value(b) for b, u in bodies.items()}
            state, sums = after, moved
        return state / self.size[self.place[axis]] if monoid == "mean" else state

    def prefixes(self, r: int, axis: Axis) -> tuple[str, list[np.ndarray]] | None:
        """The running values of a reduction: one more element each, the first being the identity."""
        for n in self.graph.classes[r]:
            if n.op == "reduce" and n.attrs[1] == axis and n.args[0] in self.values:
                k, m = self.place[axis], n.attrs[0]
                x = self.values[n.args[0]]
                full = np.broadcast_to(x, [self.size[k] if a == k else s for a, s in enumerate(x.shape)])
                take = (slice(None),) * k
                return m, [
                    reduce_array(m, full[(*take, slice(0, t))], k, t) for t in range(self.size[k] + 1)
                ]
        return None


class _Step:
    """One step of a loop: class values at one element, at the running references."""

    def __init__(
        self, audit: _Audit, axis: Axis, step: int, running: Mapping[int, tuple[str, list[np.ndarray]]], sums: Mapping[int, np.ndarray]
    ) -> None:
        self.audit, self.axis, self.step, self.running, self.sums = audit, axis, step, running, sums
        self.memo: dict[int, np.ndarray] = {}
        self.state: np.ndarray | None = None

    def value(self, c: int) -> np.ndarray:
        """A class's value here."""
        if c not in self.memo:
            self.memo[c] = self.compute(c)
        return self.memo[c]

    def compute(self, c: int) -> np.ndarray:
        a = self.audit
        if c in a.settled:
            x, k = a.values[c], a.place[self.axis]
            return x if x.shape[k] == 1 else np.take(x, [self.step], axis=k)
        n = a.pick[c]
        if n.op == "ref":
            monoid, values = self.running[n.args[0]]
            r = values[self.step + (n.attrs[0] == "new")]
            identity = MONOIDS[monoid].identity
            return np.where(r == identity, 0.0, r) if n.attrs[0] == "new" and np.isinf(identity) else r
        if n.op == "pre":
            return self.sums[n.args[0]]
        if n.op == "acc":
            assert self.state is not None
            return self.state
        return a.apply(n, [self.value(x) for x in n.args])

    def kept(self, update: int, state: np.ndarray) -> np.ndarray:
        """The state moved to the new reference, or kept where the old reference is the identity."""
        if self.step == 0:
            return state
        self.state, saved = state, dict(self.memo)
        moved = self.value(update)
        self.memo = saved  # values that depend on this state end with it
        for monoid, values in self.running.values():
            if np.isinf(MONOIDS[monoid].identity):
                moved = np.where(values[self.step] == MONOIDS[monoid].identity, state, moved)
        return moved


def _axes_of(n: ENode) -> Iterator[Axis]:
    for a in n.attrs:
        if isinstance(a, Axis):
            yield a
        elif n.op == "view":
            yield from a.axes()
