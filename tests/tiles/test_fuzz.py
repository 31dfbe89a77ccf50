"""Random programs, roles and tiles through the numpy execution of their tile programs; and proof that the fuzzer can fail."""

import pytest

from eqfuse.testing.fuzz.lowering import simulated
from eqfuse.tiles import analysis, compensation, lower


def test_random_programs():
    covered, wrong = simulated(range(400))
    assert not wrong, str(wrong[0])
    assert covered["programs"] >= 390
    assert min(covered[k] for k in ("loops", "nested", "passes", "dots", "roots")) >= 15, covered


def test_random_programs_with_rolling_reductions():
    covered, wrong = simulated(range(500, 640), saturated=True)
    assert not wrong, str(wrong[0])
    assert covered["rolls"] >= 20, covered
    assert covered["prefixes"] >= 3, covered


@pytest.mark.parametrize("seed", [1197, 3159, 4415])
def test_programs_whose_shared_loops_are_cyclic(seed):
    covered, wrong = simulated([seed])
    assert covered["split"] == 1
    assert not wrong


def unmasked(self, block, v, bindings, fill):
    return v


def zero_everywhere(self, node, axis):
    return True


def test_a_missing_rescaling_is_found(monkeypatch):
    """Rolls whose update is dropped: the state is never brought to the new reference."""
    always = lambda lowering, roll, state, body: lowering.let(body, "eq", (state.old, state.old))  # noqa: E731
    monkeypatch.setattr(lower.guards, "untouched", always)
    monkeypatch.setattr(lower.compensation, "update_of", lambda facts, node: compensation.Update(None, ()))
    _, wrong = simulated(range(500, 540), saturated=True)
    assert wrong


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [(lower.Lowering, "masked", unmasked), (analysis.Facts, "zero_padded", zero_everywhere)],
)
def test_a_broken_lowering_is_found(monkeypatch, owner, name, broken):
    monkeypatch.setattr(owner, name, broken)
    _, wrong = simulated(range(400))
    assert wrong
