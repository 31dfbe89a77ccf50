"""What else might serve in the place of a planned kernel: the best few candidates of its search, for who can judge them better."""

from __future__ import annotations

from collections.abc import Mapping

from ...egraph.frozen import FrozenGraph
from ..meter import Meter
from ..plan import Plan, PlannedKernel
from ..search import RootSpec
from ..targets import Target
from .maker import CoverMaker


class Shortlists:
    """The searches of a plan's kernels once more, over the graph in which they were found.

    A kernel is asked for again by what it stores and loads: its roots by their classes, the stored values of other kernels as leaves.
    """

    def __init__(self, graph: FrozenGraph, target: Target, plan: Plan, seconds: float) -> None:
        self.maker = CoverMaker(graph, target, Meter(seconds), plan.licence == "exact", plan.register_shares)
        specs = {o.buffer: o for o in self.maker.outputs}
        for k in plan.kernels:
            for r in k.kernel.roots:
                c = k.kernel.nodes[r.node].cls
                if r.buffer not in specs and c is not None:
                    specs[r.buffer] = self.maker.stored.temporary(c, r.buffer)
        self.specs: Mapping[str, RootSpec] = specs

    def of(self, planned: PlannedKernel, most: int) -> tuple[PlannedKernel, ...]:
        """The cheapest candidates, the planned kernel among them or not; none where it is not known what it stores."""
        stored = [r.buffer for r in planned.kernel.roots]
        if any(b not in self.specs for b in stored):
            return ()
        leaves = {s.cls: self.maker.leaf(s) for b, s in self.specs.items() if b in planned.loads and b not in stored}
        found = self.maker.search.candidates(planned.kernel.name, tuple(self.specs[b] for b in stored), leaves, most)
        return tuple(k for k in found if k.loads <= {*self.specs, *(i.name for i in self.maker.program.inputs)})
