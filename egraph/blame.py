"""Who was first: the round of a saturation after which something is false, and the rules that concluded it there.

What is wrong spreads: a false fact is believed by sound rules, and these are the ones that unite classes.  So the saturation is done again,
one round of one ruleset at a time and with the rule that concluded each fact (:class:`~.saturate.Replay`), and the first round whose graph
fails an audit is searched for by bisection.  Everything that the rules of that round matched was true, so whatever is false after it was
concluded by an unsound rule: those that put their names to it are run alone, each from the round before, and the ones that fail are it.
Of what is false, only what speaks of no other class with a finding counts: the rest follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from ..rewrites.rule import Rule
from .claims import Finding
from .frozen import FrozenGraph
from .saturate import Replay

LARGEST = 4000  # e-nodes of a graph that is saturated again, its tables kept after every round


@dataclass(frozen=True)
class Blame:
    """The first round after which something is false, what that is, and the rules that concluded it (none: an analysis did)."""

    round: int
    rounds: int
    finding: Finding
    rules: frozenset[str]

    def words(self, shown: Finding) -> str:
        """All of it but what is shown anyway."""
        by = ", ".join(sorted(self.rules)) or "an analysis or what an op declares"
        what = "" if self.finding.what == shown.what else f": {self.finding.what}"
        return f"first wrong in round {self.round} of {self.rounds}, by {by}{what}"


def blame(graph: FrozenGraph, rules: tuple[Rule, ...], findings: Callable[[FrozenGraph], Iterator[Finding]]) -> Blame | None:
    """Where it begins, or None if the rules alone do not show it again, or the graph is too large for that."""
    if graph.enodes > LARGEST:
        return None

    def fails(of: FrozenGraph) -> bool:
        return next(findings(of), None) is not None

    with closing(Replay(graph, rules)) as replay:
        good, bad = 0, len(replay.matched)
        if not bad or not fails(replay.graph(bad)):
            return None
        while bad - good > 1:
            middle = (good + bad) // 2
            if fails(replay.graph(middle)):
                bad = middle
            else:
                good = middle
        found = list(findings(replay.graph(bad)))
        matched, rounds = replay.matched[bad - 1], len(replay.matched)
    wrong = {f.made for f in found}
    roots = [f for f in found if not f.classes & wrong] or found
    first = next((f for f in roots if f.rules & matched), roots[0])
    said = frozenset(r for f in roots for r in f.rules & matched)
    named = said or first.rules  # older names, if any: what they concluded only now got a value
    if len(said) > 1 or not named:
        with closing(Replay(graph, rules, bad - 1)) as replay:
            alone = frozenset(r for r in sorted(said or matched) if fails(replay.after(r)))
        named = alone or said
    return Blame(bad, rounds, first, named)
