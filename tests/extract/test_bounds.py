"""What the search prunes by is a bound: no kernel takes less than its floor, and no plan less than the floor of all."""

import math

import pytest

from eqfuse.egraph import saturate
from eqfuse.extract.covers import Extractor
from eqfuse.extract.targets import load_target, targets
from eqfuse.frontends import trace
from eqfuse.testing.programs import PROGRAMS

QUICK = ("cross_entropy", "rmsnorm_linear", "attention_causal")  # small values, products, products of which masks leave tiles out
EXACT = 1 + 1e-9


def floors(ex):
    """Every kernel of the covers that were considered, its floor as one for each value that it stores, and what it takes."""
    specs = ex.maker.specs()
    partial = {*ex.maker.partial_names.values()}
    found = []
    for k in {id(k): k for c in ex.record.considered for k in c.kernels}.values():
        stored = {b.name for b in k.stores}
        if partial & {*k.loads, *stored}:  # what a split saves its floor does not know
            continue
        leaves = [specs[b].cls for b in k.loads if b in specs]
        found += [(k.kernel.name, ex.points.floor_of(specs[b].cls, leaves), k.cost.us) for b in stored]
    return found


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.exhaustive) for n in PROGRAMS])
@pytest.mark.parametrize("target", targets())
def test_no_kernel_takes_less_than_its_floor(name, target):
    case = PROGRAMS[name]
    program = trace(case.fn, case.args("bench", "float16", device="meta")).program
    ex = Extractor(saturate(program), load_target(target), memory_limit=case.options.get("memory_limit", math.inf))
    ex.run()
    known = floors(ex)
    assert known or all(c.splits for c in ex.record.considered)
    assert [row for row in known if row[1] > EXACT * row[2]] == []
    assert ex._bound(ex.record.considered) <= EXACT * min(c.us for c in ex.record.considered)
