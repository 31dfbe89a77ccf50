"""What the backend made of the graphs that ``torch.compile`` gave it, as a table.

Times are modelled, and bytes are those of pieces, beside the same pieces op by op, which is what eager does; what torch runs is the same in
both, and is not modelled.  What Inductor would make of the same graphs is counted where it is asked for.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from io import StringIO
from typing import Any

from ..errors import expect
from ..extract.blocks import step_plan
from ..extract.plan import PlannedKernel, StepPlan
from ..extract.quantities import bytes_text, plural
from ..extract.targets import load_target
from .inductor import Written

MOST_COSTS = 5
_GRAPHS: list[Graph] = []


@dataclass(eq=False)
class Graph:
    """A graph of AOTAutograd: what gives its plan for each set of sizes that it was ``planned`` for, and ``reasons`` why it was not;
    ``written``: the graph of Dynamo's that it is of; ``notes``: what else there is to say, such as what is saved."""

    name: str
    kind: str  # "inference" | "forward" | "backward"
    written: Written = field(repr=False)
    planned: list[Callable[[], StepPlan | None]] = field(default_factory=list, repr=False)
    reasons: list[str] = field(default_factory=list)
    calls: int = 0
    ran: int = 0  # of these calls, those that ran the steps; torch ran the graph in the others
    notes: tuple[str, ...] = ()

    @property
    def plans(self) -> list[StepPlan]:
        """One for each set of sizes.  Of kernels that an earlier process kept they are made when they are asked for."""
        return [plan for planned in self.planned if (plan := planned()) is not None]

    @property
    def library(self) -> dict[tuple[str, str], int]:
        """What torch runs: operator and reason, and how often, of the plan for the first sizes."""
        return dict(Counter((call.target, call.reason) for plan in self.plans[:1] for call in plan.library))

    def by_inductor(self) -> dict[str, Any]:
        """What Inductor makes of it, priced for the device of the plan; or the ``reason`` why that is not known."""
        found = self.written.by_inductor
        if isinstance(found, str):
            return {"reason": found}
        plans = self.plans
        if self.kind not in found or not plans:
            return {"reason": "there is no such graph of Inductor's" if plans else "there is no plan"}
        return found[self.kind].data(plans[0].device)

    def data(self) -> dict[str, Any]:
        """As JSON values."""
        plans = [
            {
                "pieces": len(p.pieces), "kernels": len(p.kernels), "us": p.estimated_us, "eager_us": p.baseline_us, "bytes": p.dram_bytes,
                "eager_bytes": p.baseline_bytes, "library_bytes": p.library_bytes, "target": p.target,
                "in_torch": asdict(p.share.torch), "operators": asdict(p.share.all),
            }
            for p in self.plans
        ]  # fmt: skip
        library = [{"operator": op, "reason": why, "times": n} for (op, why), n in self.library.items()]
        return {
            "name": self.name, "kind": self.kind, "calls": self.calls, "ran": self.ran, "plans": plans, "library": library,
            "reasons": self.reasons, "notes": list(self.notes),
        }  # fmt: skip

    def page_data(self) -> dict[str, Any]:
        """What a page says of it."""
        from ..pages import graph_data

        plan = next(iter(self.plans), None) or step_plan(self.name, load_target("auto"), ())
        return graph_data(plan, plan.device, self.name, kind=self.kind, calls=self.calls, reasons=self.reasons)


@dataclass(frozen=True)
class Costly:
    """A kernel of a graph: how often it runs, what that takes, and what bounds it."""

    graph: str
    kernel: str
    times: int
    us: float
    bound: str


@dataclass(frozen=True)
class Report:
    """``str`` for people, :meth:`json` for programs.  ``inductor``: what Inductor makes of a graph by its name, where that was asked."""

    graphs: tuple[Graph, ...]
    inductor: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    def json(self) -> str:
        """The same as a JSON document."""
        graphs = [g.data() | ({"inductor": self.inductor[g.name]} if g.name in self.inductor else {}) for g in self.graphs]
        return json.dumps({"graphs": graphs, "costs": [asdict(c) for c in self.costs]})

    @property
    def costs(self) -> list[Costly]:
        """The kernels that take longest, of all graphs at the first sizes that they were planned for."""
        found: dict[tuple[str, str], list[PlannedKernel]] = {}
        for g in self.graphs:
            for k in (k for plan in g.plans[:1] for k in plan.kernels):
                found.setdefault((g.name, k.kernel.name), []).append(k)
        every = [Costly(g, name, len(ks), sum(k.cost.us for k in ks), ks[0].cost.bound) for (g, name), ks in found.items()]
        return sorted(every, key=lambda c: -c.us)[:MOST_COSTS]

    def html(self, title: str = "EqFuse") -> str:
        """The same as one page of HTML without references to others, which a person can read without the code: for every graph (at the
        first sizes that it was planned for) the program as written beside its kernels, what torch runs and why, and what costs most."""
        from ..pages import page, page_data

        return page(page_data([g.page_data() for g in self.graphs]), title)

    def __str__(self) -> str:
        from rich.console import Console
        from rich.table import Table

        if not self.graphs:
            return 'nothing was compiled with torch.compile(backend="eqfuse")'
        table = Table(title="graphs of torch.compile; times are modelled, bytes are those of pieces", title_justify="left")
        for heading in ("graph", "calls", "by steps", "sizes", "pieces", "kernels", "us", "eager us", "bytes", "eager bytes", "in torch"):
            table.add_column(heading, justify="left" if heading == "graph" else "right")
        for g in self.graphs:
            if not g.plans:
                table.add_row(g.name, str(g.calls), "0", "0", "", "", "", "", "", "", "all")
                continue
            p = g.plans[0]
            table.add_row(
                g.name, str(g.calls), str(g.ran), str(len(g.plans)), str(len(p.pieces)), str(len(p.kernels)), f"{p.estimated_us:.1f}",
                f"{p.baseline_us:.1f}", bytes_text(p.dram_bytes), bytes_text(p.baseline_bytes),
                f"{p.share.torch.operators} of {p.share.all.operators}",
            )  # fmt: skip
        out = StringIO()
        Console(file=out, width=128, no_color=True).print(table)
        lines = [out.getvalue().rstrip()]
        for g in self.graphs:
            lines += [f"{g.name}: {_beside(g, self.inductor[g.name])}"] if g.name in self.inductor else []
        for g in self.graphs:
            lines += [f"{g.name}: {note}" for note in g.notes]
            lines += [f"{g.name}: torch runs all of it: {why}" for why in g.reasons]
            lines += [f"{g.name}: torch runs {op} ({plural(n, 'time')}): {why}" for (op, why), n in g.library.items()]
        if self.costs:
            listed = (f"{c.kernel} {c.us:.1f} us in {plural(c.times, 'run')}, bound by {c.bound}" for c in self.costs)
            lines.append(f"what costs most: {'; '.join(listed)}")
        return "\n".join(lines)


def _beside(graph: Graph, inductor: Mapping[str, Any]) -> str:
    """One line: ours and eager's with what torch runs, and Inductor's."""
    if "reason" in inductor:
        return f"what Inductor would make of it is not known: {inductor['reason']}"
    p = graph.plans[0]
    ours, eager = (bytes_text(n + p.library_bytes) for n in (p.dram_bytes, p.baseline_bytes))
    calls = plural(sum(inductor["library"].values()), "call")
    return (
        f"with what torch runs {ours}, op by op {eager}; Inductor's own fusion is {plural(inductor['kernels'], 'kernel')} and {calls} "
        f"of libraries, {bytes_text(inductor['bytes'])}, {inductor['us']:.1f} us"
    )


def remember(kind: str, written: Written, notes: Sequence[str] = ()) -> Graph:
    """A new graph in the report."""
    graph = Graph(f"graph{len(_GRAPHS)}_{kind}", kind, written, notes=tuple(notes))
    _GRAPHS.append(graph)
    return graph


def report(*, reset: bool = False, inductor: bool = False) -> Report:
    """What ``torch.compile(backend="eqfuse")`` made of its graphs since the process began, or the last ``reset``: pieces and kernels,
    bytes and modelled time beside eager, and what torch runs and why.

    ``inductor``: also kernels, calls of libraries, bytes and modelled time of the same graphs as Inductor would schedule them for a GPU,
    which takes its passes and lowering (a second or so for each layer, no GPU and no compiler); what is counted: :mod:`.inductor`.
    """
    expect(isinstance(inductor, bool), "inductor", inductor, "True or False", where="report")
    graphs = tuple(_GRAPHS)
    found = Report(graphs, {g.name: g.by_inductor() for g in graphs} if inductor else {})
    if reset:
        _GRAPHS.clear()
    return found
