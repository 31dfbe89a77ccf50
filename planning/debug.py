"""``EQFUSE_DEBUG``: how much of a plan's making is printed, and ``EQFUSE_AUDIT``: whether e-graphs are audited on the way.

``EQFUSE_DEBUG`` is one ascending knob: 1 prints the plan, 2 stage timings, 3 the rules that fired, 4 the Triton source, 5 the e-graph and
every kernel before and after lowering, each level including the lower ones.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from ..egraph import FrozenGraph
from ..egraph import audit as audit_now
from ..egraph.drawn import audit_elements
from ..egraph.frozen import member_text
from ..errors import OptionError
from ..rewrites import Rule

LONGEST_AUDITED_SPLIT = 2048
MOST_AUDITED = 20_000_000  # numbers that an audit may hold


def debug_level() -> int:
    """The number in ``EQFUSE_DEBUG``."""
    text = os.environ.get("EQFUSE_DEBUG", "").strip() or "0"
    if not text.isdecimal():
        raise OptionError(f"EQFUSE_DEBUG is {text!r}", cure="a number from 0 to 5 (docs/debug.md)")
    return int(text)


def show(planned: Any) -> None:
    """Print of a :class:`~.planned.Planned` what ``EQFUSE_DEBUG`` asks for, to the standard error."""
    level = debug_level()

    def say(text: object) -> None:
        print(text, file=sys.stderr)

    if level >= 1:
        say(planned.plan)
    if level >= 2:
        say("timings (CPU ms): " + ", ".join(f"{n} {ms:.0f}" for n, ms in planned.timings))
    for graph in planned.graphs if level >= 3 else ():
        say(graph.report)
    if level >= 4:
        say(planned.executable.source)
    if level >= 5:
        for graph in planned.graphs:
            for c, enodes in enumerate(graph.classes):
                for n in enodes:
                    say(f"  {member_text(c, n)}  {n.rule or ''}")
        for k in planned.plan.kernels:
            say(f"{k.kernel}\n{k.tiles}")


def auditable(graph: FrozenGraph) -> bool:
    """Whether an audit of the graph fits into memory and a moment."""
    long = any(axis.size > LONGEST_AUDITED_SPLIT for axis, *_ in graph.facts.get("split", ()))
    return not long and audit_elements(graph) <= MOST_AUDITED


def audit(graph: FrozenGraph, rules: Sequence[Rule]) -> None:
    """Evaluate a saturated e-graph node by node where ``EQFUSE_AUDIT=1`` asks for it (about 10 ms), before anything is made of it.

    The audit chooses small extents, but for axes that are split or reshaped, whose extents stand in index expressions: graphs where
    these are long are left to the audit of the same program at small sizes (``Compiled.at``).
    """
    if os.environ.get("EQFUSE_AUDIT", "") not in ("", "0") and auditable(graph):
        audit_now(graph, rules=rules)
