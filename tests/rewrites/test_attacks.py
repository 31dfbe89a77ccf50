"""The unsound rules of other optimizers are refused, and their sound neighbours accepted.

All of them take minutes: ``python benchmarks/attacks.py`` runs them, and its newest result says at which stage each falls.  Here every rule is
shown to be false by plain numbers, and a sample of both sorts is run.
"""

from __future__ import annotations

import json
from pathlib import Path

import attacks
import pytest

from eqfuse import errors
from eqfuse.rewrites import Const, registry, rule

ALL = attacks.attacks()
SOUND = [r for a in ALL for r in a.sound]
THIN = [a for a in ALL if a.module == "thin"]  # false at a few numbers only: all of them are run
OPEN = {  # accepted still, and why
    "pole_at_a_third": "the pole is at 1/3, which no float is: in floats the sides agree everywhere",
}
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@pytest.mark.parametrize("a", ALL, ids=lambda a: a.name)
def test_attack_is_false_by_plain_numbers(a):
    """Its sides differ at a few numbers: nothing of the package is asked."""
    assert attacks.differ(a)
    assert a.source
    assert a.why


def test_there_are_many_of_many_kinds():
    assert len(ALL) >= 150
    assert {a.kind for a in ALL} == set(attacks.KINDS)
    assert len({a.name for a in ALL} | {r.name for r in SOUND}) == len(ALL) + len(SOUND)
    assert not {a.name for a in ALL} & {r.name for r in registry.rules()}
    assert sum(1 for a in ALL if not a.source.startswith("kind:")) >= 100, "attacks with a source"


@pytest.mark.parametrize("a", [*[a for a in ALL if a.name not in OPEN and a.module != "thin"][::4], *THIN], ids=lambda a: a.name)
def test_attack_is_refused(a):
    """By the examples of a registration, or those of a check: with a counterexample, at the line of the rule."""
    verdict = attacks.judge(a.rule, ("registration", "check"))
    assert attacks.refuted(verdict), verdict.text or "accepted"
    assert f"attacks/{a.module}.py:{a.rule.line}" in verdict.text


@pytest.mark.parametrize("r", [*SOUND[::6], *(r for a in THIN for r in a.sound if r not in SOUND[::6])], ids=lambda r: r.name)
def test_sound_neighbour_is_accepted(r):
    verdict = attacks.judge(r, ("registration",))
    assert verdict.stage == "accepted", verdict.text


def test_a_decorated_attack_does_not_get_in():
    """What a user writes: the decorator itself refuses it, and the table is as before."""
    before = registry.rules()
    with pytest.raises(errors.UnsoundRuleError, match="difference_with_itself"):

        @rule(family="attacked")
        def difference_with_itself(x):
            """x - x = 0."""
            return x - x, Const(0.0)

    assert registry.rules() == before


def test_the_results_are_those_of_these_rules():
    """The newest run is of the rules as they are, and left accepted what is known to be open."""
    newest = max(RESULTS.glob("*-attacks.json"))
    data = json.loads(newest.read_text())
    assert {r["rule"] for r in data["rules"]} == {a.name for a in ALL}
    assert {s["rule"] for r in data["rules"] for s in r["sound"]} == {r.name for r in SOUND}
    assert set(data["summary"]["accepted"]) == set(OPEN)
    assert not data["summary"]["sound_refused"]
