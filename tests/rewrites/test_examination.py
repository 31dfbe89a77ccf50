"""The examination of the checker: every rule gets the verdict that its label asks for, but for those that are known to be missed.

``make test`` runs a few of both sorts, ``make test-all`` all of them; ``python benchmarks/examination.py`` writes the verdicts down.
"""

from __future__ import annotations

import json
from pathlib import Path

import examination
import pytest

from eqfuse.rewrites import registry

ALL = examination.questions()
FALSE, SOUND = ([q for q in ALL if q.label == label] for label in ("false", "sound"))
OFTEN = {q.name for q in [*FALSE[::14], *SOUND[::14]]}  # what `make test` asks
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def marks(q):
    """A wrong verdict is in ``MISSED``, and has to leave it once it is right."""
    missed = [pytest.mark.xfail(strict=True, reason=examination.MISSED[q.name])] if q.name in examination.MISSED else []
    return missed if q.name in OFTEN else [*missed, pytest.mark.exhaustive]


def test_there_are_enough_of_both_sorts():
    assert len(FALSE) >= 100
    assert len(SOUND) >= 100
    names = {q.name for q in ALL}
    assert len(names) == len(ALL)
    assert not names & {r.name for r in registry.rules()}
    assert names >= examination.MISSED.keys()


def test_false_ones_are_false_by_plain_numbers():
    """Their sides differ at a few numbers: nothing of the package is asked."""
    assert [q.name for q in FALSE if not examination.differ(q)] == []


@pytest.mark.parametrize("q", [pytest.param(q, id=q.name, marks=marks(q)) for q in ALL])
def test_verdict(q):
    """What a user sees who registers the rule, and checks it: a false rule is refused with a counterexample, a sound one gets in."""
    before = registry.rules()
    found = examination.judge(q)
    assert registry.rules() == before
    assert found.answers(q.label), f"{q.why}: {found.verdict} {found.reason}"


def test_the_verdicts_are_those_of_these_rules():
    """The newest run is of the rules as they are."""
    data = json.loads(max(RESULTS.glob("*-rule-examination.json")).read_text())
    assert [(r["rule"], r["label"]) for r in data["rules"]] == [(q.name, q.label) for q in ALL]
    assert {r["rule"] for r in data["rules"] if not r["right"]} == examination.MISSED.keys()
