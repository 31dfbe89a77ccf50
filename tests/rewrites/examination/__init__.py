"""An examination of the check of rules: a hundred false rules and a hundred sound ones, written without a look at the checker.

Whoever wrote them read what users read, the notation and the rules that there were, and neither :mod:`eqfuse.rewrites.check` nor what it
draws.  Rules were labelled before they were first checked, and none was changed for a verdict.  A label that turned out to be wrong would be
said at its rule.  The family ``thin`` was written when the verdicts on the others were known, without a look at how they came about.  The kinds are others than those of :mod:`attacks`, or other mistakes of the same kind.

``family``   the file without its first word: ``false_scans.py`` and ``sound_scans.py`` are the family ``scans``.
``kind``     what the rule is about, in a few words.
``why``      why it is false, or why it is sound, in a line.
``at``       both sides of a false rule at a few numbers, in plain numpy, where they differ: nothing of the package is used.

``python benchmarks/examination.py`` checks them all and writes the verdicts down.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqfuse import errors, testing
from eqfuse.rewrites import register, unregister
from eqfuse.rewrites.rule import Rule, make_rule

FAMILIES = ("scans", "reductions", "places", "gathers", "casts", "bits", "integers", "functions", "choice", "facts", "names", "thin")
MISSED: dict[str, str] = {}  # wrong verdicts, and what is known of them: a mend has to take its rule out


@dataclass
class Question:
    """A rule and its label; see the module."""

    rule: Rule
    family: str
    label: str  # "false" or "sound"
    kind: str
    why: str
    at: Callable[[], tuple[Any, Any]] | None = None

    @property
    def name(self) -> str:
        return self.rule.name


_questions: list[Question] = []


def _ask(function: Callable[..., Any], label: str, kind: str, why: str, at: Any, licence: str, phase: str) -> Rule:
    rule = make_rule(function, family="examination", licence=licence, phase=phase, mirrored=True)
    of, _, family = function.__module__.rpartition(".")[2].partition("_")
    assert of == label, function.__module__
    _questions.append(Question(rule, family, label, kind, why, at))
    return rule


def false(kind: str, why: str, at: Callable[[], tuple[Any, Any]], licence: str = "real", phase: str = "factor") -> Callable[..., Rule]:
    """A false rule: ``at`` returns what both sides are where they differ, or what is claimed and what is true."""
    return lambda function: _ask(function, "false", kind, why, at, licence, phase)


def sound(kind: str, why: str, licence: str = "real", phase: str = "factor") -> Callable[..., Rule]:
    """A sound rule."""
    return lambda function: _ask(function, "sound", kind, why, None, licence, phase)


def questions() -> tuple[Question, ...]:
    """All of them, family by family, the false ones first."""
    for family in FAMILIES:
        for label in ("false", "sound"):
            importlib.import_module(f".{label}_{family}", __package__)
    return tuple(_questions)


def differ(q: Question) -> bool:
    """Whether both sides of a false rule differ where ``at`` says so, as its licence counts differences."""
    assert q.at is not None
    with np.errstate(all="ignore"):
        left, right = np.broadcast_arrays(*(np.asarray(x) * 1 for x in q.at()))  # of truth values, too, which have no sign
        if q.rule.licence == "exact":
            return not bool((((left == right) & (np.signbit(left) == np.signbit(right))) | (np.isnan(left) & np.isnan(right))).all())
        left, right = left.astype(float), right.astype(float)
        close = np.isfinite(left - right) & (np.abs(left - right) <= 1e-14 * np.maximum(np.abs(left), np.abs(right)))
        return bool(np.any((np.isfinite(left) | np.isfinite(right)) & ~close))


@dataclass(frozen=True)
class Verdict:
    """``accepted``, ``refused`` with a counterexample, or ``untested``: refused because nothing could be tested."""

    verdict: str
    stage: str  # "registration" or "check": where it fell
    reason: str  # the first line of the error
    seconds: float  # of CPU time

    def answers(self, label: str) -> bool:
        """Whether it is what the label asks for."""
        return self.verdict == ("refused" if label == "false" else "accepted")


def judge(q: Question) -> Verdict:
    """What a user gets: the registration, as ``@rule`` does it, and then ``eqfuse.testing.check_rule``."""
    start = time.process_time()
    stage = "registration"
    try:
        register(q.rule)
        try:
            stage = "check"
            testing.check_rule(q.rule)
        finally:
            unregister(q.rule.name)
    except errors.RuleError as error:
        verdict = "refused" if isinstance(error, errors.UnsoundRuleError) else "untested"
        return Verdict(verdict, stage, str(error).splitlines()[0], time.process_time() - start)
    return Verdict("accepted", "", "", time.process_time() - start)
