"""Laws of planning: the fixed set on three devices, beside the list of known violations (tests/laws.json), which may only shrink.

To write the list anew: ``python -m eqfuse.testing.laws --known tests/laws.json --update`` (``--target a100``, ``cpu``).
"""

import json
import math
from pathlib import Path

import pytest

from eqfuse import optimize
from eqfuse.testing.laws import drawn, fixed, ratchet
from eqfuse.testing.laws.command import main
from eqfuse.testing.laws.fixed import planned
from eqfuse.testing.laws.law import Law, Outcome

KNOWN = Path(__file__).parent.parent / "laws.json"
LAWS = list(fixed.laws())
TARGETS = ("h200", "a100", "cpu")
SLOW = {"a class token before attention", "a class token before two layers", "4 of encoder, 256 wide", "2 of encoder, 256 wide"}


def cases():
    """Quick laws by one model with the quick tests, by the others with the rest; slow ones by one model."""
    for law in LAWS:
        quick = law.name not in SLOW and law.family in ("spelling", "joins", "sizes", "axes")
        for target in TARGETS[:1] if law.family == "devices" else TARGETS:
            marks = [] if target == "h200" and quick else [pytest.mark.exhaustive]
            marks += [] if target == "h200" or quick else [pytest.mark.combination]
            yield pytest.param(law, target, marks=marks, id=f"{target}-{law.family}-{law.name}")


@pytest.mark.parametrize(("law", "target"), list(cases()))
def test_a_law_holds_or_its_violation_is_known(law, target):
    assert not ratchet.judged([law.looked_at(target)], ratchet.read(KNOWN))


def test_known_violations_are_of_laws_that_there_are():
    names = {Outcome(law, target, 1.0, 1.0).key for law in LAWS for target in TARGETS}
    known = ratchet.read(KNOWN)
    assert known.keys() <= names
    assert all(v["reason"] for v in known.values()), "somebody has looked at each"


def outcome(us, most):
    return Outcome(Law("sizes", "one", planned(abs), (planned(abs),)), "h200", us, most)


@pytest.mark.parametrize(
    ("us", "most", "known", "said"),
    [
        (10.0, 9.0, {}, 0),  # a launch is allowed
        (20.0, 10.0, {}, 1),
        (20.0, 10.0, {"ratio": 2.0, "reason": "x"}, 0),
        (22.0, 10.0, {"ratio": 2.0, "reason": "x"}, 1),
        (16.0, 10.0, {"ratio": 2.0, "reason": "x"}, 1),  # better than is written down
        (10.0, 10.0, {"ratio": 2.0, "reason": "x"}, 1),
        (math.inf, 10.0, {}, 1),
        (math.inf, 10.0, {"ratio": None, "reason": "x"}, 0),
        (10.0, math.inf, {}, 1),  # nothing to compare with
    ],
)
def test_a_violation_may_shrink_and_not_grow(us, most, known, said):
    o = outcome(us, most)
    assert len(ratchet.judged([o], {o.key: known} if known else {})) == said


def test_the_list_is_by_excess_and_keeps_reasons():
    a, b = outcome(20.0, 10.0), Outcome(Law("sizes", "two", planned(abs), ()), "cpu", 90.0, 10.0)
    text = json.loads(
        ratchet.updated(
            [a, outcome(1.0, 1.0), b],
            {a.key: {"us": 30.0, "ratio": 3.0, "reason": "kept"}, "other": {"us": 2.0, "ratio": 2.0, "reason": "stays"}},
        )
    )
    assert list(text) == [b.key, a.key, "other"]
    assert (text[a.key]["reason"], text[a.key]["ratio"], text[b.key]["reason"]) == ("kept", 2.0, "")


def test_a_law_of_a_slow_program_is_broken_and_made_small(monkeypatch):
    """A block that costs what no block should, among others: the law that finds it has that block alone."""

    def us(self, target):
        names = next((c.cell_contents for c in self.fn.__closure__ or () if isinstance(c.cell_contents, tuple)), ())
        return 100.0 * len(names) ** 2 if "gate" in names else 10.0 * len(names)

    monkeypatch.setattr("eqfuse.testing.laws.law.Planned.us", us)
    chain = drawn.Chain(("gelu", "gate", "bias"), 64, 256)
    twice = next(x for x in drawn.laws(chain) if x.kind == "twice above two")
    found = drawn.smallest(twice.looked_at("h200"), chain)
    assert not found.holds and found.law.name == "twice above two: gate, 256 x 64"


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 6, 7, 8])
def test_a_drawn_law_holds(seed):
    found, _ = drawn.looked_at(seed, "h200")
    assert found.holds, found


@pytest.mark.exhaustive
def test_a_chain_that_is_twice_as_deep_takes_twice():
    """One search of six products ends early: the halves, of which each is planned in no time, are a plan as well."""
    chain = drawn.Chain(("residual", "linear", "residual"), 64, 1 << 17)
    twice = next(x for x in drawn.laws(chain) if x.kind == "twice above two")
    assert twice.looked_at("h200").holds


@pytest.mark.parametrize(
    ("names", "times"), [("gelu bias", 1), ("linear", 1), ("turn gate", 1), ("mlp", 3), ("gelu linear", 5), ("linear gate", 11 / 3)]
)
def test_products_of_what_is_computed_in_float32_are_five(names, times):
    assert drawn.Chain(tuple(names.split()), 64, 256).products_upcast == times


def test_a_plan_that_laws_share_is_made_once(monkeypatch):
    made = []
    monkeypatch.setattr("eqfuse.testing.laws.law.optimize", lambda fn, *_, **options: made.append(fn) or optimize(fn, *_, **options))
    own = planned(abs, (4, 4))
    assert own.us("h200") == own.us("h200") != own.us("a100") and len(made) == 2


def test_the_command_line(tmp_path, capsys):
    file = tmp_path / "known.json"
    assert main(["product as", "--json", str(tmp_path / "all.json")]) == 0
    assert [r["holds"] for r in json.loads((tmp_path / "all.json").read_text())] == [True, True]
    assert main(["product as einsum", "--known", str(file), "--update"]) == 0 and json.loads(file.read_text()) == {}
    assert main(["product as einsum", "--known", str(file)]) == 0
    assert "2 of 2 hold" in capsys.readouterr().out


def test_drawn_chains_are_the_same_everywhere():
    assert drawn.drawn(1)[0] == drawn.drawn(1)[0]
    chain, law = drawn.drawn(3)
    assert {*chain.names} <= drawn.BLOCKS.keys() and chain.width in drawn.WIDTHS
    assert law.name == drawn.drawn(3)[1].name
