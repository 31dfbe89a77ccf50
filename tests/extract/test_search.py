"""The search of tile sizes does not stop where a larger tile of one axis needs a much smaller one of another; and plans taken to other sizes."""

import pytest
import torch

import eqfuse
from eqfuse.errors import PlanError
from eqfuse.extract.targets import load_target
from eqfuse.testing.programs import PROGRAMS


def test_growing_a_tile_may_shrink_another_by_several_steps():
    """Stored logits are read at best 16 rows by 256 columns at a time, registers being what they are.  From 64 by 64, where a step costs its
    latency, 32 by 256 does not fit; a search that tries no 16 by 256 pays for four times as many steps."""
    shapes = [(1023, 2304), (32003, 2304)]
    args = [*(torch.empty(s, dtype=torch.bfloat16, device="meta") for s in shapes), torch.empty(1023, dtype=torch.int64, device="meta")]
    plan = eqfuse.optimize(PROGRAMS["linear_cross_entropy"].fn, args, target="b200").plan
    last = plan.kernels[-1]
    busy = max(us for term, us in last.cost.terms.items() if term != "latency")
    assert last.cost.us < 1.2 * busy + load_target("b200").launch_us, "steps cost about what they do, not four times it"


def test_a_plan_for_other_sizes_may_lack_an_axis_of_the_grid():
    """Of one pair of heads there is no axis of pairs: the grid of the scores has it, and that of what they weigh.  It is said, and planned."""

    def difference(q, k, v):
        b, h, n, _ = q.shape
        p = torch.softmax(q @ k.transpose(-1, -2) / 8, -1).view(b, h // 2, 2, n, -1)
        return (p[:, :, 0] - p[:, :, 1]) @ v

    def given(b, h, n):
        shapes = (b, 2 * h, 1, 64), (b, 2 * h, n, 64), (b, h, n, 128)
        return [torch.empty(s, device="meta") for s in shapes]

    large = eqfuse.optimize(difference, given(8, 16, 8192), target="h100")
    assert {"b", "h_outer"} <= {a.name for k in large.plan.kernels for a in k.kernel.grid}
    with pytest.raises(PlanError, match="cannot be made for these sizes: its axes are other ones"):
        large.at(*given(2, 1, 331))
    assert large.at(*given(4, 2, 331)).plan.stopped == "like"
