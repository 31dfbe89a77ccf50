"""What became of a verdict is said: in the plan, in its text, and, with what it changed, in the explanation."""

import json

import pytest
import torch
from verdict_rules import excepted, joined, optimised, parted

from eqfuse.errors import OptionError

BOTH = "held, layer_out makes both; no kernel that was tried is against it"


def told(c):
    return [line.removeprefix("  verdict: ") for line in str(c.plan).splitlines() if line.startswith("  verdict: ")]


def test_without_verdicts_nothing_is_said():
    c = optimised()
    assert c.plan.decisions == ()
    assert not told(c)
    assert "verdict" not in str(c.explain())


def test_a_request_that_is_honoured_in_silence():
    c = optimised(fusion=[("require", "out", "product")])
    assert told(c) == [f"fusion=('require', 'out', 'product'): {BOTH}"]
    (d,) = c.plan.decisions
    assert (d.verdict, d.outer, d.inner, d.where, d.ruled_out) == ("require", "out", "product", "", 0)


def test_a_request_that_rules_kernels_out():
    c = optimised(fusion=[("forbid", "bounded", "product")])
    (d,) = c.plan.decisions
    assert d.outcome == "held, bounded is made in layer_out, product in layer_t3"
    assert told(c) == [f"fusion=('forbid', 'bounded', 'product'): {d.outcome}; it ruled out {d.ruled_out} of the kernels that were tried"]
    assert d.ruled_out > 0


def test_a_rule_is_named_with_its_place():
    (line,) = told(optimised(rules=[joined]))
    assert line == f"joined ({joined.where}) requires bounded with product: {BOTH}"


def test_a_verdict_that_another_one_lifts():
    lines = told(optimised(rules=[parted, excepted]))
    assert lines == [
        f"excepted ({excepted.where}) allows bounded with product: lifts what parted ({parted.where}) forbids",
        f"parted ({parted.where}) forbids bounded with product: lifted by excepted ({excepted.where})",
    ]
    (alone,) = told(optimised(rules=[excepted]))
    assert alone.endswith("nothing forbids it, so it has no effect")


def test_a_rule_that_matches_everywhere_takes_a_few_lines():
    def deep(a, b):
        for _ in range(5):
            a = torch.tanh(a @ b)
        return a

    c = optimised(deep, rules=[joined])
    assert len(c.plan.decisions) == 5
    lines = told(c)
    assert len(lines) == 4
    assert lines[-1].endswith("2 more pairs of values")


def test_a_rule_that_matches_nothing_is_not_passed_over():
    c = optimised(lambda a, b: torch.exp(a @ b), rules=[joined])
    assert c.plan.decisions == ()
    said = f"joined ({joined.where}) would require y with x, but no values of the program are what its premises describe"
    assert c.plan.refused == (said,)
    assert said in str(c.plan)
    assert said in str(c.explain())


@pytest.mark.parametrize(
    ("pair", "message", "cure"),
    [
        (("pre", "act"), "pre is not computed from act", "fusion=('require', 'act', 'pre'): act is computed from pre"),
        (("one", "other"), "one is not computed from other", "name an outer value that is"),
    ],
)
def test_a_required_pair_is_one_value_and_what_it_is_computed_from(pair, message, cure):
    def f(a, b):
        pre = a @ b
        act = torch.tanh(pre)
        one = torch.exp(act)
        other = torch.sin(act)
        return one * other

    with pytest.raises(OptionError) as info:
        optimised(f, fusion=[("require", *pair)])
    assert info.value.message == f"fusion={('require', *pair)!r}: {message}"
    assert info.value.cure == cure
    optimised(f, fusion=[("forbid", "act", "pre"), ("require", "act", "pre")][:1])  # to forbid is meant both ways


def test_the_explanation_says_what_changed():
    c = optimised(fusion=[("forbid", "bounded", "product")])
    text = str(c.explain())
    assert f"verdict: {c.plan.decisions[0]}" in text
    assert "it changed the plan: without it there would be 1 kernel" in text
    (entry,) = json.loads(c.explain().json())["verdicts"]
    assert (entry["by"], entry["changed"], entry["kernels_without"]) == ("fusion=('forbid', 'bounded', 'product')", True, 1)
    assert entry["slower_us_without"] < 0
    assert entry["decisions"][0]["ruled_out"] == c.plan.decisions[0].ruled_out


def test_the_explanation_says_what_did_not_change():
    c = optimised(rules=[joined])
    assert "no effect: without it the search ends with the same plan" in str(c.explain())
    (entry,) = c.explain().data()["verdicts"]
    assert entry["changed"] is False
    assert json.loads(optimised().explain().json())["verdicts"] == []
