"""The choice of nodes: what may be left out of the budgets that are tried."""

import itertools

import pytest

from eqfuse.egraph import saturate
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


@pytest.mark.parametrize("name", ["attention", "attention_lse", "linear_cross_entropy", "rmsnorm_linear"])
@pytest.mark.parametrize("written", [False, True])
def test_only_budgets_that_cannot_be_are_left_out(name, written):
    found = choice(name, 3)
    n = len(found.streams)
    assert n == 3
    tried = found.budgets(LIMIT, written=written)
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
