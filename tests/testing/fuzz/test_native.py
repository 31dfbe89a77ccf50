"""Random programs under random roles and tiles, in C: loops, tails, masks, packs, states that loops carry, several outputs."""

import pytest

from eqfuse.runtime.native import compiler
from eqfuse.testing.fuzz.lowering import compiled


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("saturated", [False, True])
def test_random_tile_programs_in_c(saturated):
    covered, wrong = compiled(range(24), saturated=saturated)
    assert not wrong, "\n\n".join(map(str, wrong))
    assert covered["programs"] >= 20
    assert min(covered[x] for x in ("loops", "nested", "passes", "dots", "roots")) > 0
    assert not saturated or covered["rolls"] > 0
