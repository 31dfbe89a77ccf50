"""What ``make test`` runs: each value of each parameter where it is worth its time, and everything that is cheap."""

import json
from itertools import product
from types import SimpleNamespace

import quick


def function(costs):
    """A function's tests as ``chosen`` takes them: (program, type) -> seconds."""
    return {key: ({("program", key[0]), ("type", key[1])}, cost) for key, cost in costs.items()}


PAIRS = list(product("abcd", ("half", "single", "double")))


def test_each_value_is_there_once_and_the_cheapest_is_taken(monkeypatch):
    monkeypatch.setattr(quick, "FREE", 0.1)
    costs = {(p, t): 0.5 if t == "half" else 0.9 for p, t in PAIRS}
    found = quick.chosen(function(costs), 1.0)
    assert {p for p, _ in found} == set("abcd") and {t for _, t in found} == {"half", "single", "double"}
    assert len(found) == 4, "one for each program: no value a second time"


def test_what_is_cheap_or_new_stays():
    assert quick.chosen(function(dict.fromkeys(PAIRS, 0.0)), 0.0) == set(PAIRS)
    assert quick.chosen(function(dict.fromkeys(PAIRS, quick.FREE)), 0.0) == set(PAIRS)


def test_what_is_dear_does_not():
    dear = 0.3 * (quick.FUNCTION + 2)
    assert quick.chosen(function({("a", "half"): 0.99 * dear}), 0.3) == {("a", "half")}
    assert quick.chosen(function({("a", "half"): 1.01 * dear}), 0.3) == set()


def test_a_function_counts_for_more_after_it():
    costs = {("a", "half"): 9.0, ("b", "half"): 2.0}
    assert quick.chosen(function(costs), 0.1) == set()
    assert quick.chosen(function(costs), 0.1, quick.RARELY) == {("b", "half")}


def test_the_price_is_the_highest_that_the_budget_pays():
    functions = [function(dict.fromkeys(PAIRS, seconds)) for seconds in (0.5, 1.0, 2.0)]
    price = quick.price_for(functions, 3.0)
    costs = [sum(0.5 * 2**k * len(quick.chosen(f, at)) for k, f in enumerate(functions)) for at in (price, price + 0.01)]
    assert costs[0] <= 3.0 < costs[1]
    assert quick.price_for(functions, 0.0) < 0.5 / (quick.FUNCTION + 2) <= quick.price_for(functions, 0.5)


PRICES = {"quick": 0.5, "rest": 1.0}


def noted(tmp_path, monkeypatch, lines):
    """What ``main`` writes, given such lines, in a directory with two test files."""
    monkeypatch.setattr(quick, "HERE", tmp_path)
    monkeypatch.setattr(quick, "COSTS", tmp_path / "costs.json")
    for name in ("test_a.py", "test_b.py"):
        (tmp_path / name).touch()
    quick.COSTS.write_text(json.dumps({"prices": PRICES, "tests": {"test_a.py": {"old": 9.0}, "test_gone.py": {"test": 1.0}}}))
    (tmp_path / "log").write_text("\n".join(map(json.dumps, lines)))
    quick.main(str(tmp_path / "log"))
    return quick.read_costs()


def test_a_run_of_all_files_sets_the_prices_and_a_run_of_some_does_not(tmp_path, monkeypatch):
    a, b = ["test_a.py", "test_x[1]", 2.0, ["n"], False], ["test_b.py", "test_y", quick.BUDGET + 1.0, [], True]
    assert noted(tmp_path, monkeypatch, [a]) == (PRICES, {"test_a.py": {"old": 9.0, "test_x[1]": 2.0}})
    prices, costs = noted(tmp_path, monkeypatch, [a, b])
    assert prices["quick"] > 0.5, "what a hand has marked costs nothing: it is not in make test"
    assert costs == {"test_a.py": {"test_x[1]": 2.0}, "test_b.py": {"test_y": quick.BUDGET + 1.0}}


def test_values_are_told_apart_by_what_they_are():
    def item(index, **params):
        return SimpleNamespace(callspec=SimpleNamespace(params=params, indices=dict.fromkeys(params, index)))

    assert quick.facts(item(0, n=1, d="half")) & quick.facts(item(1, n=2, d="half")) == {("d", "'half'")}
    one, other = (quick.facts(item(k, f=f)) for k, f in enumerate((lambda: 0, lambda: 1)))
    assert not one & other
    assert quick.facts(SimpleNamespace()) == set()


def test_the_costs_are_of_files_that_are_there():
    prices, known = quick.read_costs()
    assert known
    assert all(price > 0 for price in prices.values())
    assert not [file for file in known if not (quick.HERE / file).exists()]
