"""Engines that grow: one for each set of rules that programs may have, with those compiled in that programs have needed so far.

To compile the rules takes longer than most saturations, and a program needs a fifth of them (:mod:`.reach`).  What an engine lacks is
compiled below its programs, each of which is pushed, saturated, read and popped.  A rule that only other programs needed matches nothing,
and what it asks for is not asked.

What came before changes nothing: every rule has a ruleset of its own, and a phase runs those of its rules in the order in which they are
given, whenever they were compiled.  (Of two rules that make a node in one round the first gives it its name, and classes are numbered by
their nodes.)

An engine belongs to the thread that made it.  While it is lent it is in no table, so one that was interrupted is never used again.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..ir.ops import OPS
from ..rewrites import table
from ..rewrites.rule import ITERS, ORDER, PHASES, Rule
from ..work import now
from . import weighing
from .engine import leave_behind, new_engine
from .schema import OWN, layouts, schema, trait_facts

if TYPE_CHECKING:
    from egglog.bindings import EGraph

ENGINES_KEPT = 8  # of a thread, some 10 MB each
COMPILING = 1.5  # work to compile a rule and run it a few times: without so much for each of them none is compiled, nor is it counted
_parsed: dict[str, list[Any]] = {}


def run_text(engine: EGraph, text: str) -> list[Any]:
    """Run engine text; parsed commands are kept, since schedules repeat."""
    commands = _parsed.get(text)
    if commands is None:
        commands = engine.parse_program(text)
        if text.startswith("(run-schedule") or text in ("(push)", "(pop)", "(print-size)"):
            _parsed[text] = commands
    return engine.run_program(*commands)


class Engine:
    """An engine for programs that may have these rules; ``claims``: one that keeps the rule that concluded each fact."""

    def __init__(self, base: str, rules: tuple[Rule, ...], claims: bool) -> None:
        self.egglog, self.claims = new_engine(), claims
        self.compiled: set[Rule] = set()
        _made.add(self)
        self._compile(base)
        self._compile("\n".join(f"(ruleset {r.ruleset})" for r in rules))
        for phase in PHASES:
            own = [OWN] if phase == "analysis" else []
            self._compile(f"(unstable-combined-ruleset {phase} {' '.join([*own, *(r.ruleset for r in rules if r.phase == phase)])})")

    def grow(self, needed: Collection[Rule]) -> None:
        """Compile what is lacking of these rules."""
        for rule in needed:
            if rule not in self.compiled:
                self._compile(rule.egglog(self.claims))
                self.compiled.add(rule)

    def _compile(self, text: str) -> None:
        """One command after the other: every node of a parsed text keeps, and hands over, a copy of the whole text."""
        for command in text.splitlines():
            self.egglog.run_program(*self.egglog.parse_program(command))


class _Kept(threading.local):
    def __init__(self) -> None:
        self.engines: dict[Any, Engine] = {}  # the one that was used last at the end


_kept = _Kept()
_made: weakref.WeakSet[Engine] = weakref.WeakSet()  # by all threads
_forking: list[Engine] = []


@contextmanager
def lent(rules: tuple[Rule, ...], needed: Collection[Rule], claims: bool, deadline: float) -> Iterator[tuple[EGraph, bool]]:
    """The engine for programs with these rules, and whether there is time for what is needed: what the first phases prepare is of no use
    without the last ones.  Whether it is compiled already makes no difference.  What is inserted is gone afterwards."""
    analyses, kept = table.analyses(), _kept.engines
    every = tuple(dict.fromkeys((*analyses, *rules)))
    own = [text() for phase, text in ((ORDER, weighing.text), (ITERS, layouts)) if any(r.phase == phase for r in rules)]
    base = "\n".join((schema(claims), *own, trait_facts()))
    key = base, every, claims, frozenset(o.name for o in OPS.values() if o.commutative)  # all that texts of rules hang on
    engine = kept.pop(key, None) or Engine(base, every, claims)
    engine.grow(analyses)
    if ready := now() + COMPILING * len(needed) <= deadline:
        engine.grow(needed)
    asked = dict.fromkeys(row for r in (*analyses, *needed) for row in r.asks)
    run_text(engine.egglog, " ".join(("(push)", *asked)))
    yield engine.egglog, ready
    run_text(engine.egglog, "(pop)")
    while len(kept) >= ENGINES_KEPT:
        kept.pop(next(iter(kept)))
    kept[key] = engine


def forget_engines() -> None:
    """Drop the engines of this thread that are not lent."""
    _kept.engines.clear()


def _forked() -> None:
    """In the child of a fork: engines and parsed commands belong to the parent's copy of the compiled module."""
    leave_behind((_forking.copy(), _parsed.copy()))
    _kept.engines.clear()
    _forking.clear()
    _parsed.clear()


if hasattr(os, "register_at_fork"):  # the child drops what is of other threads before it calls anything, and each must drop its own
    os.register_at_fork(before=lambda: _forking.extend(_made), after_in_parent=_forking.clear, after_in_child=_forked)
