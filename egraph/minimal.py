"""The smallest program, and the fewest rules, that make an audit fail: printed as code that runs.

The program is made smaller, and rules are left out, as long as something is still false, and, where the rules that are to blame are known,
as these still match.  Windows of a few operations are tried first, those at the finding before others and programs that differ in names
alone once: so the size of the program hardly matters.  Then come smaller programs as :mod:`~eqfuse.ir.shrink` makes them, each saturated
within a budget of nodes, and with a larger one where that was too small.  For graphs that are too large to be saturated again and again,
the rule that was wrong first is searched for here, in what is left of the program.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ..ir.index import Axis
from ..ir.program import Program
from ..ir.shrink import alike, shrink, window
from ..ir.source import program_source
from ..rewrites.rule import Rule
from .blame import Blame, blame
from .claims import Finding
from .frozen import FrozenGraph
from .run import saturated

BUDGETS = (2_000, 8_000, 32_000)  # e-nodes that a candidate may have; a minimal program has few, and needs few
DEPTHS = 4  # operations on top of each other in a window
FEW = 24  # elements of inputs that are worth printing

Data = Mapping[str, np.ndarray] | None
Findings = Callable[[FrozenGraph, Data], Iterator[Finding]]


@dataclass(frozen=True)
class Minimal:
    """A small program that fails, as code; and where it begins there to be false, if that was not known: or why it is not known."""

    code: str
    begins: Blame | str | None


def minimal(
    graph: FrozenGraph,
    pool: tuple[Rule, ...],
    culprits: frozenset[str] | None,
    near: frozenset[int],
    findings: Findings,
    inputs: Data,
    seed: int,
    masked: bool,
    seconds: float,
) -> Minimal | str:
    """The smallest program and the fewest rules of ``pool`` found with which the culprits still make an audit fail; or why there is none.

    ``culprits``: the rules that are to blame, or ``None`` if that is not known yet; ``near``: the classes that a finding speaks of;
    ``findings``: what an audit of a graph at some data finds.  Data that were given are cut to the sizes of a candidate; without them, and
    if they are not needed, the audit draws its own.
    """
    started = time.process_time()
    if inputs is not None and next(findings(graph, None), None) is not None:
        inputs = None
    search = _Search(graph, pool, culprits, findings, inputs, seed, started + seconds)
    program = search.program(near, started + 0.6 * seconds)
    if program is None:
        strange = sorted({r.rule for r in graph.report.rules if r.matches} - {r.name for r in pool})
        if strange:
            return f"these rules are not registered, pass rules=: {', '.join(strange)}"
        spent = time.process_time() - started
        return (
            f"nothing is false in any of the {len(search.tried)} smaller programs that were saturated again with its rules, "
            f"in {spent:.0f} of {seconds:g} s of processor time"
        )
    begins = None
    if culprits is None:
        begins = search.blame(program)
        search.culprits = begins.rules if isinstance(begins, Blame) else frozenset()
    search.rules = search.fewest(program)
    program = search.shrunk(program, search.deadline)
    if isinstance(begins, Blame):  # in fewer rounds than before
        again = search.blame(program)
        begins = again if isinstance(again, Blame) and again.rules == begins.rules else begins
    return Minimal(_code(program, search.rules, search.splits(program), seed, masked, search.data(program)), begins)


class _Search:
    """Candidates, tried with some rules and a budget of nodes: those with which a program failed that contains them."""

    def __init__(
        self,
        graph: FrozenGraph,
        rules: tuple[Rule, ...],
        culprits: frozenset[str] | None,
        findings: Findings,
        inputs: Data,
        seed: int,
        deadline: float,
    ) -> None:
        self.graph, self.rules, self.culprits, self.findings, self.inputs = graph, rules, culprits, findings, inputs
        self.seed, self.deadline = seed, deadline
        self.budget = BUDGETS[0]
        self.parts: dict[str, tuple[int, ...]] = {}
        for axis, outer, _ in graph.facts.get("split", ()):
            self.parts[axis.name] = (*self.parts.get(axis.name, ()), outer.size)
        self.tried: dict[tuple[Program, int], bool] = {}

    # candidates ----------------------------------------------------------------------------------------------------------------

    def splits(self, p: Program) -> dict[Axis, tuple[int, ...]]:
        """The axes of a candidate that are split."""
        found = {a: tuple(n for n in self.parts.get(a.name, ()) if n < a.size) for a in p.axes}
        return {a: parts for a, parts in found.items() if parts}

    def data(self, p: Program) -> dict[str, np.ndarray] | None:
        """The data of a candidate, if they were given."""
        if self.inputs is None:
            return None
        known = {i.name for i in self.graph.program.inputs}
        found = {}
        for i in p.inputs:
            shape = [1 if a is None else a.size for a in i.layout]
            x = np.asarray(self.inputs[i.name]) if i.name in known else np.ones(())
            fits = x.ndim == len(shape) and all(n <= m for n, m in zip(shape, x.shape, strict=True))
            found[i.name] = x[tuple(slice(n) for n in shape)] if fits else np.random.default_rng(self.seed).normal(size=shape).round(2)
        return found

    def disagrees(self, p: Program, rules: tuple[Rule, ...]) -> bool:
        """Whether something is false in a candidate's graph, the culprits having matched."""
        try:
            small = self.saturated(p, rules)
            matched = {r.rule for r in small.report.rules if r.matches}
            return (not self.culprits or bool(self.culprits & matched)) and next(self.findings(small, self.data(p)), None) is not None
        except Exception:  # a candidate that is no program
            return False

    def saturated(self, p: Program, rules: tuple[Rule, ...]) -> FrozenGraph:
        """The graph of a candidate."""
        seconds = max(2.0, min(self.budget / 1000, self.deadline - time.process_time()))
        return saturated(p, rules, self.splits(p), self.budget, seconds)

    def fails(self, p: Program) -> bool:
        """Whether a candidate disagrees with all the rules; one that differs from another in names alone has its answer."""
        key = (alike(p) if self.inputs is None else p, self.budget)
        if key not in self.tried:
            self.tried[key] = self.disagrees(p, self.rules)
        return self.tried[key]

    # the search ----------------------------------------------------------------------------------------------------------------

    def program(self, near: frozenset[int], deadline: float) -> Program | None:
        """A small program that fails: a window, or the whole one made smaller; the whole one only if it has to be."""
        whole = self.graph.program
        if self.graph.enodes <= BUDGETS[0] and not self.fails(whole):
            return None
        found = self.windows(near, deadline)
        if found is not None:
            return self.shrunk(found, deadline)
        for self.budget in BUDGETS:
            found = self.shrunk(whole, deadline)
            if found is not whole or (time.process_time() < self.deadline and self.fails(whole)):
                return found
            if self.graph.enodes <= self.budget or time.process_time() > deadline:
                break
        return None

    def windows(self, near: frozenset[int], deadline: float) -> Program | None:
        """The first window that fails, of the fewest operations on top of each other."""
        whole = self.graph.program
        order = sorted(zip(whole.terms(), self.graph.original, strict=True), key=lambda row: row[1] not in near)
        for depth in range(1, DEPTHS + 1):
            for t, _ in order:
                if time.process_time() > deadline:
                    return None
                p = window(whole, t, depth) if t.args else None
                if p is not None and self.fails(p):
                    return p
        return None

    def shrunk(self, p: Program, deadline: float) -> Program:
        """A program made smaller while it fails."""
        return shrink(p, self.fails, seconds=max(0.0, deadline - time.process_time()))

    def fewest(self, p: Program) -> tuple[Rule, ...]:
        """Fewer rules that still fail: halves are left out, then quarters, then single ones."""
        rules = self.rules
        size = (len(rules) + 1) // 2
        while size and time.process_time() < self.deadline:
            k = 0
            while k < len(rules) and time.process_time() < self.deadline:
                fewer = rules[:k] + rules[k + size :]
                if fewer and self.disagrees(p, fewer):
                    rules = fewer
                else:
                    k += size
            size //= 2
        self.tried.clear()
        return rules

    def blame(self, p: Program) -> Blame | str:
        """Who was first to be wrong in a small program."""
        data = self.data(p)
        seconds = max(2.0, self.deadline - time.process_time())
        return blame(self.saturated(p, self.rules), self.rules, lambda of: self.findings(of, data), seconds)


def _code(
    program: Program,
    rules: tuple[Rule, ...],
    splits: Mapping[Axis, tuple[int, ...]],
    seed: int,
    masked: bool,
    inputs: Mapping[str, np.ndarray] | None,
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
    parts = ", ".join(f"{a!r}: {n if len(n) > 1 else n[0]}" for a, n in splits.items())
    lines.append(f"names = {{{names}}}")
    lines.append("rules = [r for r in registry.rules() if r.name in names]")
    lines.append(f"audit(saturate(p, rules=rules, splits={{{parts}}}), {options})")
    return "".join(f"    {line}\n" if line else "\n" for line in "\n".join(lines).split("\n"))
