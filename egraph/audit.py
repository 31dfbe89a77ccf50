"""The audit: every node of a saturated graph, evaluated, must agree with its class, and every fact must be true.

Values are float64 arrays at small random extents (axes that views or splits mention keep theirs, since index expressions contain
extents; an empty axis stays empty).  ``Ref`` and ``Acc`` are free parameters, so classes that mention them are evaluated at random ones;
what facts claim is tested in :mod:`.claims`.  A ``Roll`` is executed literally, element by element, with running references, all the
accumulators that its update mentions, and the guard that lowering uses: the state is kept where the old reference is the identity.
With ``masked=True`` some inputs are -inf, whole rows among them, and members must agree where the program's own form is finite (where
both are, in a class that rules made); nothing is asked of a loop where a reference of it is NaN (a choice may have left out the 0 * inf
that such data make of it, a repair cannot), or is 0 and positive over the reals (1/inf).

What is found names the two nodes or the fact, the rules that introduced them, the rule that was first to conclude something false
(:mod:`.blame`), and a minimal program, printed as code that runs (:mod:`.minimal`).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ..errors import UnsoundGraphError
from ..ir.dtypes import cast
from ..ir.index import Axis
from ..ir.monoids import MONOIDS
from ..ir.ops import OPS
from ..ir.recursion import arguments_first
from ..ir.semantics import left_range, read_at, reduce_array
from ..ir.terms import Input
from ..rewrites import registry
from ..rewrites.rule import Rule
from .blame import Blame, blame
from .claims import ABSOLUTE, RELATIVE, Claims, Finding, constants_met
from .frozen import ENode, FrozenGraph
from .minimal import Minimal, minimal

LARGE = 4000  # e-nodes of a graph in which the rule that was wrong first is searched for only if it does not show in a small program
MOST = 5_000_000  # numbers that an audit may hold to find out more about constants that met
SHORT = 4  # the longest extent that is drawn for an axis
STATE = 1.37  # of an accumulator outside its loop


@dataclass(frozen=True)
class AuditReport:
    """What an audit looked at."""

    nodes: int  # e-nodes compared with their class
    rolls: int  # of these, loops that were executed
    facts: int  # rows of relations tested: factors, terms, changes between references, what vanishes
    numbers: int  # numbers compared
    skipped: int  # e-nodes without a value: accumulators that nobody keeps, and what depends on them

    def __str__(self) -> str:
        return (
            f"{self.nodes} e-nodes ({self.rolls} loops executed), {self.facts} facts, {self.numbers} numbers agree; "
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
    blame_seconds: float = 10.0,
) -> AuditReport:
    """Evaluate the whole graph; raises :class:`~eqfuse.errors.UnsoundGraphError` naming two nodes that disagree, or a fact that is false,
    and the rules behind them.

    The error ends with a minimal program as code.  ``rules``: those that the graph was saturated with (registered ones are found by
    their names in its report); ``shrink_seconds``: processor time for making the program small, 0 to leave it out; ``blame_seconds``:
    for finding the rule that was wrong first (in the small program, where the graph is large).  What was not found out is said, and why.
    """
    counts = _Counts()
    found = next(_findings(graph, seed, masked, inputs, counts), None)
    if found is None:
        return counts.report()
    options = {"shrink_seconds": shrink_seconds, "blame_seconds": blame_seconds, "most": math.inf}
    raise explained(graph, found, rules, seed=seed, masked=masked, inputs=inputs, **options)


def explained(
    graph: FrozenGraph,
    found: Finding,
    rules: Collection[Rule] | None,
    *,
    seed: int = 0,
    masked: bool = False,
    inputs: Mapping[str, np.ndarray] | None = None,
    shrink_seconds: float = 10.0,
    blame_seconds: float = 10.0,
    most: float = MOST,
) -> UnsoundGraphError:
    """What is false in a graph, as an error: the rule that was wrong first, a minimal program; or why they were not found out.

    Graphs at the audit's own data are evaluated if that takes no more than ``most`` numbers; of larger ones only constants are looked at.
    """

    def findings(of: FrozenGraph, data: Mapping[str, np.ndarray] | None = inputs) -> Iterator[Finding]:
        if data is None and audit_elements(of) > most:
            wrong = constants_met(of)
            yield from [wrong] if wrong is not None else []
        else:
            yield from _findings(of, seed, masked, data, _Counts())

    chosen = rules if rules is not None else registry.rules()
    matched = {r.rule for r in graph.report.rules if r.matches}
    used = {r.rule for r in graph.report.rules}
    pool, whole = (tuple(r for r in chosen if r.name in names) for names in (matched, used))
    strange = sorted(matched - {r.name for r in whole})
    small: Minimal | str = ""
    begins: Blame | str = f"these rules are not registered, pass rules=: {', '.join(strange)}" if strange else ""
    if not strange and (graph.enodes <= LARGE or shrink_seconds <= 0):
        begins = blame(graph, whole, findings, blame_seconds)
    culprits = begins.rules if isinstance(begins, Blame) else None
    if shrink_seconds > 0:
        near = found.classes | ({found.made} if found.made is not None else frozenset())
        small = minimal(graph, pool, culprits, near, findings, inputs, seed, masked, shrink_seconds)
    place = ""
    if culprits is None and isinstance(small, Minimal) and isinstance(small.begins, Blame):
        begins, place = small.begins, "the minimal program is "
    elif not begins:
        begins = blame(graph, whole, findings, blame_seconds)
    return _error(found, begins, place, small)


def _error(found: Finding, begins: Blame | str, place: str, small: Minimal | str) -> UnsoundGraphError:
    """All that is known of a finding."""
    names = (begins.rules if isinstance(begins, Blame) else frozenset()) or found.rules
    if isinstance(begins, Blame):
        first = place + begins.words(None if place else found)
    else:
        first = f"the rule that was wrong first is not known: {begins}"
    if isinstance(small, Minimal):
        text = f"\n  minimal program:\n\n{small.code}"
    else:
        text = f"\n  no minimal program: {small}" if small else ""
    cure = "check_rule() on the named rules; if they pass, the rule that united the class lacks a condition"
    error = UnsoundGraphError(found.what, where="; ".join(filter(None, (found.where, first))), cure=cure + text)
    error.minimal, error.rules = text, tuple(sorted(names))
    return error


@dataclass
class _Counts:
    """What was looked at so far."""

    passes: list[list[int]] = field(default_factory=list)

    def report(self) -> AuditReport:
        nodes, rolls, facts, numbers, skipped = zip(*self.passes, strict=True)
        return AuditReport(max(nodes), max(rolls), sum(facts), sum(numbers), skipped[-1])


def _findings(
    graph: FrozenGraph, seed: int, masked: bool, inputs: Mapping[str, np.ndarray] | None, counts: _Counts
) -> Iterator[Finding]:
    """Everything that is wrong, at old references that are the references, and at free ones."""
    for free_old in (False, True):
        a = _Audit(graph, seed, masked, inputs, free_old)
        yield from a.nodes()
        claims = Claims(a)
        yield from claims.conditions() if free_old else claims.findings()
        a.counts[2] += claims.tested
        a.counts[3] += claims.numbers
        counts.passes.append(a.counts)


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
        self.graph, self.masked, self.free_old, self.seed = graph, masked, free_old, seed
        self.rng = np.random.default_rng(seed)
        self.axes = sorted({a for row in graph.classes for n in row for a in _axes_of(n)} | set(graph.program.axes))
        self.place = {a: k for k, a in enumerate(self.axes)}
        fixed = _fixed_axes(graph)
        self.size = [a.size if a in fixed else min(a.size, int(self.drawn(a.name).integers(2, SHORT + 1))) for a in self.axes]
        self.given = inputs
        if inputs is not None:
            for t in graph.program.inputs:
                for a, n in zip(t.layout, np.shape(inputs[t.name]), strict=True):
                    if a is not None:
                        self.size[self.place[a]] = n
        self.inputs = {t.name: self.draw_input(t) for t in graph.program.inputs}
        self.nonneg = {c for (c,) in graph.facts.get("nonneg", ())}
        self.positive = {c for (c,) in graph.facts.get("positive", ())}
        self.nonpos = {c for (c,) in graph.facts.get("nonpos", ())}
        self.settled = {c for (c,) in graph.facts.get("settled", ())}
        self.updates = {
            (n.attrs[1], n.args[0]): n.args[1] for row in graph.classes for n in row if n.op == "roll" and n.attrs[0] == "sum"
        }
        self.lanes = self.valid_lanes()
        self.values: dict[int, np.ndarray] = {}
        self.old: dict[int, np.ndarray] = {}
        self.left_range = False  # whether something overflowed or underflowed, or is the inverse of an infinite number
        self.inverted = False  # whether something is the inverse of -0, which is an infinite number of either sign
        self.pick: dict[int, ENode] = {}
        self.counts = [0, 0, 0, 0, 0]
        self.unknown: np.ndarray | None = None  # where the loop that was executed last has a reference that is NaN
        self.watching = True  # only while classes get their values: loops have numbers of their own
        with np.errstate(all="ignore"):
            self.evaluate_all()
        self.watching = False

    # values --------------------------------------------------------------------------------------------------------------------

    def drawn(self, name: str) -> np.random.Generator:
        """Random numbers of a name, the same whatever else there is: a graph's earlier rounds are evaluated at the same data."""
        return np.random.default_rng([self.seed, zlib.crc32(name.encode())])

    def draw_input(self, t: Input) -> np.ndarray:
        """An input as an array over all axes."""
        shape = [1 if a is None else self.size[self.place[a]] for a in t.layout]
        rng = self.drawn(t.name)
        if self.given is not None:
            x = np.asarray(self.given[t.name], float)
        elif t.dtype.kind == "bool":
            x = rng.integers(0, 2, size=shape).astype(float)
        elif t.dtype.kind == "int":
            x = rng.integers(0, 3, size=shape).astype(float)
        else:
            x = rng.normal(size=shape) * 2
            if self.masked:
                x = np.where(self.mask(rng, shape), -np.inf, x)
        named = [(a, n) for a, n in zip(t.layout, shape, strict=True) if a is not None]
        order = sorted(range(len(named)), key=lambda k: self.place[named[k][0]])
        x = x.reshape([n for _, n in named]).transpose(order)
        full = [1] * len(self.axes)
        for a, n in named:
            full[self.place[a]] = n
        return x.reshape(full)

    def mask(self, rng: np.random.Generator, shape: list[int]) -> np.ndarray:
        """Where an input is -inf: here and there; in whole rows and columns, too; or, if there are other inputs, nowhere."""
        kind = int(rng.integers(0, 3 if len(self.graph.program.inputs) > 1 else 2))
        gone = rng.random(size=shape) < (0.25 if kind < 2 else 0.0)
        for k in range(len(shape) if kind == 1 and len(shape) > 1 else 0):
            gone = gone | (rng.random(size=[n if k == m else 1 for m, n in enumerate(shape)]) < 0.2)
        return gone

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
            return self.scalar(STATE)
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
            out = np.asarray(OPS[n.attrs[0]].numpy(*args), float)
            if OPS[n.attrs[0]].domain == "nonzero" and np.any(np.isinf(out) & (args[-1] == 0) & np.signbit(args[-1])):
                self.inverted = True
            if self.watching and not self.left_range and not np.all(np.isfinite(out) & (out != 0)):
                inverse = OPS[n.attrs[0]].domain in ("nonzero", "positive") and np.any((out == 0) & np.isinf(args[0]))
                self.left_range = bool(inverse) or left_range(n.attrs[0], out, tuple(args))
            return out
        if n.op == "cast":  # to a floating type the identity over the reals
            return args[0] if n.attrs[0].is_float else cast(args[0], n.attrs[0]).astype(float)
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
        known = np.where(np.isfinite(r), r, 1.0 if n.args[0] in self.positive else 0.0)
        own = {self.place[a] for a in self.graph.axes[n.args[0]]}  # along other axes r has equal values, if several
        noise = self.rng.uniform(0.5, 1.5, size=[size if k in own else 1 for k, size in enumerate(r.shape)])
        return known * noise if n.args[0] in self.nonneg | self.nonpos else known + noise

    def back(self, cls: int) -> np.ndarray:
        """A class's value at the old reference: that of its form with every reference the reduction itself."""
        old = self.old
        for c in arguments_first([cls], lambda c: () if c in self.settled else self.pick[c].args, old.__contains__):
            n = self.pick[c]
            if c in self.settled or n.op == "acc":
                old[c] = self.values[c]
            elif n.op == "ref":
                old[c] = old[n.args[0]]
            elif n.op == "pre":
                old[c] = self.reduce("sum", n.attrs[0], old[n.args[0]])
            else:
                with np.errstate(all="ignore"):
                    old[c] = self.apply(n, [old[a] for a in n.args])
        return old[cls]

    def update(self, cls: int, axis: Axis, own: int) -> np.ndarray | None:
        """The value of an update whose state is the sum of ``own`` at the old reference, and whose accumulators are such sums."""
        if cls not in self.values:
            return None
        value: dict[int, np.ndarray] = {}

        def below(c: int) -> tuple[int, ...]:
            return () if c in self.settled or self.pick[c].op in ("ref", "acc", "pre") else self.pick[c].args

        for c in arguments_first([cls], below):
            n = self.pick[c]
            if c in self.settled or n.op == "ref":
                value[c] = self.values[c]
            elif n.op == "acc":
                value[c] = self.reduce("sum", axis, self.back(own))
            elif n.op == "pre":
                value[c] = self.reduce("sum", n.attrs[0], self.back(n.args[0]))
            else:
                value[c] = self.apply(n, [value[a] for a in n.args])
        return value[cls]

    # comparing -----------------------------------------------------------------------------------------------------------------

    def nodes(self) -> Iterator[Finding]:
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
                found = self.compare(self.values[c], value, self.pick[c], n, c)
                if found is not None:
                    yield found

    def compare(self, a: np.ndarray, b: np.ndarray, first: ENode, second: ENode, c: int) -> Finding | None:
        """Agreement wherever either is finite; with masked inputs, wherever the first is."""
        try:
            a, b = np.broadcast_arrays(a, b)
        except ValueError:
            return self.unsound(first, second, c, f"shapes {a.shape} and {b.shape}")
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
            good = np.isfinite(a) & (np.abs(a - b) <= ABSOLUTE + RELATIVE * np.maximum(np.abs(a), 1e-3 * scale))
        bad = where & ~good
        if not bad.any():
            return None
        at = tuple(np.argwhere(bad)[0])
        return self.unsound(first, second, c, f"{a[at]:.9g} and {b[at]:.9g}")

    def unsound(self, first: ENode, second: ENode, c: int, what: str) -> Finding:
        """Two members that differ."""
        names = [n.rule or "the program" for n in (first, second)]
        united = sorted({rule for rule, cls in self.graph.facts.get("united", ()) if cls == c})
        return Finding(
            f"class {c} has members {self.show(first)} and {self.show(second)} that differ: {what}",
            f"introduced by {names[0]} and {names[1]}; class united by {', '.join(united) or 'no rule'}",
            frozenset(r for r in (first.rule, second.rule, *united) if r),
            frozenset((*first.args, *second.args)) - {c},
            c,
        )

    def show(self, n: ENode) -> str:
        """A node in words."""
        attrs = ", ".join(a.name if isinstance(a, Axis) else str(a) for a in n.attrs)
        return f"{n.op}[{attrs}]({', '.join(f'c{a}' for a in n.args)})"

    def show_class(self, cls: int) -> str:
        """A class in words."""
        return f"c{cls} = {self.show(self.pick[cls])}" if cls in self.pick else f"c{cls}"

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
            if self.left_range and r in self.positive:  # 1/inf, or too small a number: it has no ratio to what comes next
                strange = strange | (np.asarray(trajectory[1][1:]) <= 0).any(axis=0)
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
        for x in arguments_first([c], self._below, self.memo.__contains__):
            self.memo[x] = self.compute(x)
        return self.memo[c]

    def _below(self, c: int) -> tuple[int, ...]:
        """The classes that :meth:`compute` asks for."""
        n = self.audit.pick[c]
        return () if c in self.audit.settled or n.op in ("ref", "pre", "acc") else n.args

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
