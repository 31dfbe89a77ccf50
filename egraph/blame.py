"""Who was first: the round of a saturation after which something is false, and the rules that concluded it there.

What is wrong spreads: a false fact is believed by sound rules, and these are the ones that unite classes.  So the saturation is done again,
one round of one ruleset at a time and with the rule that concluded each fact (:class:`~.run.Replay`), and the first round whose graph
fails an audit is searched for by bisection.  Everything that the rules of that round matched was true, so whatever is false after it was
concluded by an unsound rule: those that put their names to it are run alone, each from the round before, and the ones that fail are it.
Of what is false, only what speaks of no other class with a finding counts: the rest follows from it.

The search is bounded by processor time, and says so where it ended for that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from ..rewrites.rule import Rule
from .claims import Finding
from .frozen import FrozenGraph
from .run import Replay


@dataclass(frozen=True)
class Blame:
    """The first round after which something is false, what that is, and the rules that concluded it (none: an analysis did)."""

    round: int
    rounds: int
    finding: Finding
    rules: frozenset[str]

    def words(self, shown: Finding | None) -> str:
        """All of it but what is shown anyway."""
        by = ", ".join(sorted(self.rules)) or "an analysis"
        what = "" if shown is not None and self.finding.what == shown.what else f": {self.finding.what}"
        return f"first wrong in round {self.round} of {self.rounds}, by {by}{what}"


class _Late(Exception):
    """The time is up."""


def blame(
    graph: FrozenGraph, rules: tuple[Rule, ...], findings: Callable[[FrozenGraph], Iterator[Finding]], seconds: float = 10.0
) -> Blame | str:
    """Where it begins, or in words why that was not found out; ``seconds`` of processor time (an audit that has begun is ended)."""
    try:
        return _Search(graph, rules, findings, time.process_time() + seconds).run()
    except _Late:
        return f"the search for it took more than {seconds:g} s of processor time ({graph.enodes} e-nodes)"


class _Search:
    def __init__(
        self, graph: FrozenGraph, rules: tuple[Rule, ...], findings: Callable[[FrozenGraph], Iterator[Finding]], deadline: float
    ) -> None:
        self.graph, self.rules, self.findings, self.deadline = graph, rules, findings, deadline

    def run(self) -> Blame | str:
        """Replays until the first wrong round is known, from later and later rounds if not all of them could be kept; then who it was."""
        good, bad, rounds = 0, 0, 0
        while True:
            with closing(self.replay(bad or None, good)) as replay:
                if not bad:
                    bad = rounds = len(replay.matched)
                    if not bad or not self.fails(replay.graph(bad)):
                        if replay.late:
                            raise _Late
                        return "the rules alone, in another order, do not make anything false"
                kept = [k for k in replay.rounds if k < bad]
                while kept:
                    middle = kept[len(kept) // 2]
                    if self.fails(replay.graph(middle)):
                        bad, kept = middle, [k for k in kept if k < middle]
                    else:
                        good, kept = middle, [k for k in kept if k > middle]
                if bad - good == 1:
                    found = list(self.findings(replay.graph(bad)))
                    matched = replay.matched[bad - 1]
                    break
        wrong = {f.made for f in found}
        roots = [f for f in found if not f.classes & wrong] or found
        first = next((f for f in roots if f.rules & matched), roots[0])
        said = frozenset(r for f in roots for r in f.rules & matched)
        named = said or first.rules  # older names, if any: what they concluded only now got a value
        if len(said) > 1 or not named:
            with closing(self.replay(bad - 1, None)) as replay:
                alone = frozenset(r for r in sorted(said or matched) if self.fails(replay.after(r)))
            named = alone or said
        return Blame(bad, rounds, first, named)

    def replay(self, most: int | None, since: int | None) -> Replay:
        """The saturation again."""
        replay = Replay(self.graph, self.rules, most, since, max(0.0, self.deadline - time.process_time()))
        if replay.late and most is not None:
            replay.close()
            raise _Late
        return replay

    def fails(self, of: FrozenGraph) -> bool:
        """Whether an audit finds anything."""
        if time.process_time() > self.deadline:
            raise _Late
        return next(self.findings(of), None) is not None
