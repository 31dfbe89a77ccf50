"""The audit: every node of a saturated graph, evaluated, must agree with its class, and every fact must be true.

Values are float64 arrays at small random extents (axes that views or splits mention keep theirs, since index expressions contain
extents; an empty axis stays empty).  ``Ref`` and ``Acc`` are free parameters, so classes that mention them are evaluated at random ones;
what facts claim is tested in :mod:`.claims`.  A ``Roll`` is executed literally, element by element, with running references, all the
accumulators that its update mentions, and the guard that lowering uses: the state is kept where the old reference is the identity.
With ``masked=True`` some inputs are -inf, whole rows among them, and members must agree where the program's own form is finite (where
both are, in a class that rules made); nothing is asked of a loop where a reference of it is NaN (a choice may have left out the 0 * inf
that such data make of it, a repair cannot), or is 0 and positive over the reals (1/inf).  A program may write such rows itself, for some
positions: where its own form is then NaN (of -inf less its maximum) the others may be what they like, as with such inputs
(docs/numerics.md).

What is found names the two nodes or the fact, the rules that introduced them, the rule that was first to conclude something false
(:mod:`.blame`), and a minimal program, printed as code that runs (:mod:`.minimal`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ..errors import UnsoundGraphError
from ..rewrites import registry
from ..rewrites.rule import Rule
from .blame import Blame, blame
from .claims import ABSOLUTE, RELATIVE, Claims, Finding, constants_met
from .drawn import Drawn, audit_elements
from .frozen import ENode, FrozenGraph
from .minimal import Minimal, minimal

LARGE = 4000  # e-nodes of a graph in which the rule that was wrong first is searched for only if it does not show in a small program
MOST = 5_000_000  # numbers that an audit may hold to find out more about constants that met


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


def _findings(graph: FrozenGraph, seed: int, masked: bool, inputs: Mapping[str, np.ndarray] | None, counts: _Counts) -> Iterator[Finding]:
    """Everything that is wrong, at old references that are the references, and at free ones."""
    for free_old in (False, True):
        a = _Audit(graph, seed, masked, inputs, free_old)
        yield from a.nodes()
        claims = Claims(a)
        yield from claims.conditions() if free_old else claims.findings()
        a.counts[2] += claims.tested
        a.counts[3] += claims.numbers
        counts.passes.append(a.counts)


class _Audit(Drawn):
    """One pass."""

    def __init__(self, graph: FrozenGraph, seed: int, masked: bool, inputs: Mapping[str, np.ndarray] | None, free_old: bool) -> None:
        super().__init__(graph, seed, masked, inputs, free_old)
        self.counts = [0, 0, 0, 0, 0]

    def nodes(self) -> Iterator[Finding]:
        """Every node against its class."""
        for c, row in enumerate(self.graph.classes):
            for n in row:
                self.unknown = None
                with np.errstate(all="ignore"):
                    value = self.executed(n) if n.op == "roll" else self.node_value(n)
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
        """Agreement wherever either is finite; with masked inputs, wherever the first is.  Of a program with infinities of its own nothing
        is asked where the first is NaN; where either is, in a class that rules made."""
        try:
            a, b = np.broadcast_arrays(a, b)
        except ValueError:
            return self.unsound(first, second, c, f"shapes {a.shape} and {b.shape}")
        where = np.isfinite(a) if self.masked else np.isfinite(a) | np.isfinite(b)
        if self.infinite:
            where = where & ~np.isnan(a) & ~(np.isnan(b) & (first.rule is not None))
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
