"""The search of tile sizes does not stop where a larger tile of one axis needs a much smaller one of another."""

import torch

import eqfuse
from eqfuse.testing.programs import PROGRAMS


def test_growing_a_tile_may_shrink_another_by_several_steps():
    """Stored logits are read at best 16 rows by 256 columns at a time, registers being what they are.  From 64 by 64, where a step costs its
    latency, 32 by 256 does not fit; a search that tries no 16 by 256 pays for four times as many steps."""
    shapes = [(1023, 2304), (32003, 2304)]
    args = [*(torch.empty(s, dtype=torch.bfloat16, device="meta") for s in shapes), torch.empty(1023, dtype=torch.int64, device="meta")]
    plan = eqfuse.optimize(PROGRAMS["linear_cross_entropy"].fn, args, target="b200").plan
    last = plan.kernels[-1]
    latency = last.cost.terms["latency"]
    assert latency < 2 * max(us for term, us in last.cost.terms.items() if term != "latency"), "steps cost about what they do, not four times it"
