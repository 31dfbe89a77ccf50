"""What ``make test`` runs: each value of each parameter where it is worth its time, and everything that is cheap."""

from itertools import product
from types import SimpleNamespace

import quick


def function(costs):
    """A function's tests as ``chosen`` takes them: (program, type) -> seconds."""
    return {key: ({("program", key[0]), ("type", key[1])}, cost) for key, cost in costs.items()}


PAIRS = list(product("abcd", ("half", "single", "double")))


def test_each_value_is_there_once_and_the_cheapest_is_taken():
    costs = {(p, t): quick.FREE + (0.1 if t == "half" else 0.2) for p, t in PAIRS}
    found = quick.chosen(function(costs))
    assert {p for p, _ in found} == set("abcd") and {t for _, t in found} == {"half", "single", "double"}
    assert len(found) == 4, "one for each program: no value a second time"


def test_what_is_cheap_or_new_stays():
    assert quick.chosen(function(dict.fromkeys(PAIRS, 0.0))) == set(PAIRS)
    assert quick.chosen(function(dict.fromkeys(PAIRS, quick.FREE))) == set(PAIRS)


def test_what_is_dear_does_not():
    dear = quick.PRICE * (quick.FUNCTION + 2)
    assert quick.chosen(function({("a", "half"): 0.99 * dear})) == {("a", "half")}
    assert quick.chosen(function({("a", "half"): 1.01 * dear})) == set()


def test_values_are_told_apart_by_what_they_are():
    def item(index, **params):
        return SimpleNamespace(callspec=SimpleNamespace(params=params, indices=dict.fromkeys(params, index)))

    assert quick.facts(item(0, n=1, d="half")) & quick.facts(item(1, n=2, d="half")) == {("d", "'half'")}
    one, other = (quick.facts(item(k, f=f)) for k, f in enumerate((lambda: 0, lambda: 1)))
    assert not one & other
    assert quick.facts(SimpleNamespace()) == set()


def test_the_costs_are_of_files_that_are_there():
    known = quick.read_costs()
    assert known
    assert not [file for file in known if not (quick.HERE / file).exists()]
