"""The choice of nodes: what may be left out of the budgets that are tried, and that few are tried however many there are."""

import itertools

import pytest

from eqfuse.egraph import saturate
from eqfuse.extract.budgets import MOST_REFUSED, budgets, possible, reduced, shared_out
from eqfuse.extract.choose import Chooser, _Choice
from eqfuse.frontends import trace
from eqfuse.testing.programs import PROGRAMS
from eqfuse.tiles.kernel import Role

LIMIT = 3


def choice(name, streamed):
    """The dynamic program for all outputs of a program of the corpus, with so many axes streamed, the last ones first."""
    case = PROGRAMS[name]
    program = trace(case.fn, case.args("small", device="meta")).program
    graph = saturate(program)
    axes = program.axes
    stored = {a for o in program.outputs for a in o.layout}
    roles = {a: Role("grid", 4) if a in stored else Role("resident", 64) for a in axes}
    chosen = sorted(axes, key=lambda a: (a in stored, a.name))[:streamed]
    roles |= {a: Role("stream", 4) for a in chosen}
    return _Choice(Chooser(graph), tuple(graph.roots[o.name] for o in program.outputs), {}, roles)


def never():
    return False


@pytest.mark.parametrize("name", ["attention", "attention_lse", "linear_cross_entropy", "rmsnorm_linear"])
@pytest.mark.parametrize("written", [False, True])
def test_only_budgets_that_cannot_be_are_left_out(name, written):
    found = choice(name, 3)
    n = len(found.streams)
    assert n == 3
    tried = list(budgets(n, LIMIT, lambda b: found._solved(b, written) is not None, never))
    possible = {b for b in itertools.product(range(LIMIT + 1), repeat=n) if found.solve(b, written=written) is not None}
    assert possible <= set(tried)
    assert tried == sorted(tried, key=lambda b: (sum(b), b))
    assert len(tried) < (LIMIT + 1) ** n  # something is left out


@pytest.mark.parametrize("name", ["attention_lse", "linear_cross_entropy"])
def test_more_loops_never_hurt(name):
    found = choice(name, 2)
    for b in itertools.product(range(LIMIT), repeat=len(found.streams)):
        if found.solve(b) is not None:
            for k in range(len(b)):
                assert found.solve((*b[:k], b[k] + 1, *b[k + 1 :])) is not None, (b, k)


@pytest.mark.parametrize("least", [(0,), (0, 0, 0), (1, 0, 2), (3, 3), (0, 2, 3, 1)])
def test_loops_are_shared_out_in_order(least):
    for total in range(sum(least), LIMIT * len(least) + 1):
        expected = [b for b in itertools.product(*(range(m, LIMIT + 1) for m in least)) if sum(b) == total]
        assert list(shared_out(total, least, LIMIT)) == expected


class Needs:
    """A program that a budget suffices for if one of some needs is met; counts what is asked."""

    def __init__(self, *needs):
        self.needs, self.asked = needs, 0

    def __call__(self, b):
        self.asked += 1
        return any(all(x >= y for x, y in zip(b, need, strict=True)) for need in self.needs)

    def solve(self, b):
        return str(b) if self(b) else None


def test_the_first_possible_budgets_are_those_with_fewest_loops():
    needs = Needs((2, 0, 0), (0, 1, 2), (0, 2, 1))
    every = [b for b in itertools.product(range(LIMIT + 1), repeat=3) if needs(b)]
    least = min(map(sum, every))
    expected = sorted((b for b in every if sum(b) <= least + 1), key=lambda b: (sum(b), b))
    assert [b for b, _ in possible(3, LIMIT, needs.solve, needs, never, more=1)] == expected


@pytest.mark.parametrize("n", [16, 60])
def test_few_budgets_are_asked_for_however_many_there_are(n):
    """Two ways to make it, each with 20 loops more over some of the axes: 4**n budgets, of which the first are all refused."""
    first, second = (LIMIT,) * 8 + (0,) * (n - 8), (0,) * (n - 8) + (LIMIT,) * 8
    needs = Needs(first, second)
    found = [b for b, _ in possible(n, LIMIT, needs.solve, needs, never, more=1)]
    assert found[0] in (first, second)
    assert all(sum(b) == sum(first) + 1 for b in found[1:])
    assert needs.asked < MOST_REFUSED + 8 * n


def test_no_loop_can_be_taken_away_from_what_is_reduced():
    needs = Needs((2, 0, 1), (0, 3, 0))
    b = reduced((LIMIT,) * 3, needs, never)
    assert needs(b)
    assert not any(needs((*b[:k], b[k] - 1, *b[k + 1 :])) for k in range(3) if b[k])
    assert reduced((LIMIT,) * 3, Needs(), never) is None


def test_nothing_is_asked_for_when_the_time_is_up():
    needs, looks = Needs((2,) * 9), itertools.count()
    assert list(possible(9, LIMIT, needs.solve, needs, lambda: next(looks) > 5, more=1)) == []
    assert needs.asked < 20
