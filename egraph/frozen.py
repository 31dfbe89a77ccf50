"""A saturated e-graph as plain data: what extraction and the audit read.

Classes are integers ``0 .. n-1``; a class is the list of its e-nodes.  Nothing here refers to the e-graph engine.

Nodes are of the language of :mod:`~eqfuse.ir.nodes`: ``op`` is the kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..ir.index import Axis
from ..ir.nodes import Operation
from ..ir.program import Program
from ..ir.recursion import arguments_first


@dataclass(frozen=True)
class ENode(Operation):
    """One e-node.  ``rule`` names the rule that first made it; ``None`` is the program itself."""

    op: str
    attrs: tuple[Any, ...]
    args: tuple[int, ...]
    rule: str | None = None


def member_text(c: int, n: ENode) -> str:
    """A member of a class on one line, without its rule."""
    return f"c{c} = {n.op}{n.attrs}({', '.join(f'c{a}' for a in n.args)})"


@dataclass(frozen=True)
class RuleCount:
    """How often a rule matched in one saturation; ``sized``: for these lengths of axes, as others may be no multiples or too short."""

    rule: str
    matches: int
    sized: bool = False


@dataclass(frozen=True)
class SaturationReport:
    """What a saturation did, and why it stopped: ``saturated``, ``nodes`` (budget), ``time`` (budget) or ``off``."""

    stopped: str
    enodes: int
    classes: int
    cpu_ms: float
    phases: tuple[tuple[str, float], ...] = ()  # phase name, CPU milliseconds
    rules: tuple[RuleCount, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.enodes} e-nodes in {self.classes} classes, {self.cpu_ms:.1f} ms CPU, stopped: {self.stopped}"]
        lines += [f"  {r.matches:5d}  {r.rule}" for r in sorted(self.rules, key=lambda r: (-r.matches, r.rule)) if r.matches]
        return "\n".join(lines)


@dataclass(frozen=True)
class FrozenGraph:
    """Classes, their e-nodes (in a deterministic order) and analyses.

    ``axes[c]``: the axes that class c depends on (some member may mention more).  ``roots``: output name -> class.
    ``original``: the class of each of ``program.terms()``, in that order (candidates for materialisation, and the baseline).
    """

    program: Program
    classes: tuple[tuple[ENode, ...], ...]
    axes: tuple[frozenset[Axis], ...]
    roots: Mapping[str, int]
    original: tuple[int, ...]
    report: SaturationReport
    facts: Mapping[str, tuple[tuple[Any, ...], ...]] = field(default_factory=dict)
    before: FrozenGraph | None = field(default=None, repr=False)  # of a saturation for programs: without the rules that order them

    @property
    def enodes(self) -> int:
        """Number of e-nodes."""
        return sum(map(len, self.classes))

    @cached_property
    def viewed(self) -> Mapping[int, frozenset[int]]:
        """The classes that a class is a view of, or a view of views of; a class without views is left out."""
        ways = {c: [n.args[0] for n in ns if n.op == "view"] for c, ns in enumerate(self.classes)}
        return {c: frozenset(arguments_first(below, lambda x: ways[x])) for c, below in ways.items() if below}

    @property
    def sized(self) -> bool:
        """Whether a rule that matched depended on the lengths of axes."""
        return any(r.sized and r.matches for r in self.report.rules)


def levels(graph: FrozenGraph, cls: int, axis: Axis) -> int | None:
    """How many loops over an axis must end before a class is known (the fewest over its forms)."""
    return next((n for c, a, n in graph.facts["level"] if c == cls and a == axis), None)
