"""Random ragged programs: a few through the whole path and in C, what they cover, and proof that a mask put wrong is found."""

from collections import Counter

import numpy as np
import pytest

from eqfuse.errors import PlanError
from eqfuse.runtime.native import compiler
from eqfuse.testing.fuzz.command import main
from eqfuse.testing.fuzz.native import Log
from eqfuse.testing.fuzz.native import _drawn as own_kernels
from eqfuse.testing.fuzz.ragged import DRAWS, draw_ragged
from eqfuse.testing.fuzz.whole_path import LONG, Disagreement, _Counted, check, differs, filtered, fuzz
from eqfuse.tiles.data_edges import DataEdges
from eqfuse.tiles.program import Literal

FEW = range(3, 9)


def test_ragged_programs_through_the_whole_path():
    tally = fuzz(FEW, interpret_every=6, draw=draw_ragged)
    assert not tally.findings, str(tally.findings[0])
    asked = len(FEW) - tally.filtered.total()
    assert all(tally.stages[s] == asked >= 5 for s in ("meaning", "saturate", "audit", "plan", "simulate", "hazards"))
    assert tally.stages["tiles"] >= 3
    assert tally.stages["interpret"] >= 1
    assert tally.covered["loops that end where data say"] >= 2
    assert tally.covered["simulations"] >= DRAWS * asked


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
def test_ragged_programs_in_c(tmp_path):
    path = tmp_path / "log.json"
    assert main(["0", "20", "--native", "--ragged", "--plan-every", "10", "--json", str(path)]) == 0
    log = Log.read(path)
    assert log.draws == "ragged"
    assert log.ran["random tiles"] >= 12
    assert log.ran["planned"] == 2
    assert log.runs > 2 * log.ran.total()


def test_a_seed_is_one_function_with_other_data():
    used = Counter()
    for seed in range(50):
        drawn, again = draw_ragged(seed), draw_ragged(seed)
        assert drawn.source == again.source
        draws = (drawn.inputs, *drawn.again)
        assert len(draws) == len(drawn.meant) == DRAWS
        for a, b in zip(draws, (again.inputs, *again.again), strict=True):
            assert all(np.array_equal(a[n], b[n]) for n in a), seed
            assert {n: x.shape for n, x in a.items()} == {n: x.shape for n, x in drawn.inputs.items()}
        used.update(drawn.used.keys())
    assert {"program of scores", "program of batched", "program of linear", "program of packed"} <= set(used)
    assert not {"mask by lengths", "mask by windows", "mask by offsets", "searchsorted", "joined"} - set(used)


def test_what_torch_computes_otherwise_is_found():
    drawn = draw_ragged(3)
    for of in drawn.meant:
        for x in of.values():
            x += 1.0
    with pytest.raises(Disagreement, match="meaning: "):
        check(drawn.program, drawn.inputs, 3, drawn=drawn)


def test_what_cannot_be_read_is_a_finding_with_its_source():
    def draw(seed):
        raise_with = draw_ragged.__globals__["_Writer"]
        before = raise_with.write
        try:
            raise_with.write = lambda self: self.results.append("torch.zeros(3).unique()")
            return draw_ragged(seed)
        finally:
            raise_with.write = before

    (found,) = fuzz(range(1), draw=draw).findings
    assert found.stage == "draw"
    assert "torch.zeros(3).unique()" in found.message


# masks put wrong on purpose -----------------------------------------------------------------------------------------------------------


def moved(by):
    """Edges one too early or too late."""
    extreme = DataEdges.extreme

    def wrong(self, of, largest):
        return self._let("add", extreme(self, of, largest), Literal(float(by)))

    return wrong


def other(name):
    """The other lane, the other truth."""
    right = getattr(DataEdges, name)
    return lambda self, of, which: right(self, of, not which)


def never(self, condition, truth, right=DataEdges.guard):
    """No step for any condition."""
    return self._let("add", self._let("mul", right(self, condition, truth), Literal(0.0)), Literal(0.0))


def unmasked(self, v, largest, right=DataEdges._over_lanes):
    """The extreme of the first lane alone."""
    return right(self, v, largest) if not v.dims else right(self, v, not largest)


WRONG = {
    "ends too early": ("extreme", moved(-1)),
    "begins too late": ("extreme", moved(1)),
    "the other lane": ("extreme", other("extreme")),
    "the other truth": ("guard", other("guard")),
    "no step for any condition": ("guard", never),
    "the other end of a tile": ("_over_lanes", unmasked),
}


def simulated(seeds):
    """Kernels of the programs' own terms, under random roles and tiles: what differs from the reference, or goes too far."""
    for seed in seeds:
        drawn = draw_ragged(seed)
        if any(a.size > LONG for a in drawn.program.every_axis):
            continue
        try:
            (tiles,) = own_kernels(seed, drawn.program)
        except PlanError:
            continue
        for k, inputs in enumerate((drawn.inputs, *drawn.again)):
            if filtered(drawn.program, inputs) is None:
                run = _Counted(tiles, inputs, drawn.span, drawn.span.ends[k] if drawn.span else None)
                with np.errstate(all="ignore"):
                    said = differs(drawn.program, inputs, run.run(), dict.fromkeys((o.name for o in drawn.program.outputs), 1e-7))
                if said or run.beyond:
                    yield seed, said, run.beyond


def test_right_edges_are_right():
    assert not list(simulated(range(25)))


@pytest.mark.parametrize("name", WRONG)
def test_wrong_edges_are_found(name, monkeypatch):
    monkeypatch.setattr(DataEdges, *WRONG[name])
    assert any(said for _, said, _ in simulated(range(60)))


def test_a_loop_that_goes_too_far_is_found(monkeypatch):
    """Right numbers, and steps that no row needs: edges that are no closer than some tiles beyond."""
    extreme = DataEdges.extreme

    def far(self, of, largest):
        return self._let("add", extreme(self, of, largest), Literal(9.0 if largest else -9.0))

    monkeypatch.setattr(DataEdges, "extreme", far)
    _, said, beyond = next(simulated(range(80, 90)))
    assert not said
    assert beyond
