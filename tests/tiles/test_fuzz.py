"""Random programs, roles and tiles through the numpy execution of their tile programs; and proof that the fuzzer can fail."""

import pytest

from eqfuse.testing.fuzz import simulated
from eqfuse.tiles import facts, lower


def test_random_programs():
    covered, wrong = simulated(range(400))
    assert not wrong, str(wrong[0])
    assert covered["programs"] >= 390
    assert min(covered[k] for k in ("loops", "nested", "passes", "dots", "roots")) >= 15, covered


@pytest.mark.parametrize("seed", [1197, 3159, 4415])
def test_programs_whose_shared_loops_are_cyclic(seed):
    covered, wrong = simulated([seed])
    assert covered["split"] == 1
    assert not wrong


def unmasked(self, block, v, bindings, fill):
    return v


def zero_everywhere(self, node, axis):
    return True


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [(lower.Lowering, "masked", unmasked), (facts.Facts, "zero_padded", zero_everywhere)],
)
def test_a_broken_lowering_is_found(monkeypatch, owner, name, broken):
    monkeypatch.setattr(owner, name, broken)
    _, wrong = simulated(range(400))
    assert wrong
