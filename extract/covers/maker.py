"""Covers made from decisions: which values are stored, which axes split, which kernels joined, which offers taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType

from ...egraph.frozen import FrozenGraph
from ...errors import PlanError
from ...ir.index import index
from ...tiles.kernel import Buffer, input_buffers
from ..choose import Chooser, Leaf
from ..library import library_offers
from ..meter import Meter
from ..outside import Outside, offers, planned_call
from ..partial import Partials, Row
from ..plan import Plan, PlannedCall, PlannedKernel, Split
from ..quantities import plural
from ..search import ALL, BEATEN, ROUGH, STARTS_ONLY, KernelSearch, Rejection, RootSpec
from ..targets import Target
from .cover import Cover, Step, Steps, made
from .stored import Stored

REST = 1.02  # a split within this factor of what no split beats ends the search for others


class CoverMaker:
    """Makes covers of one graph on a target.

    ``exact``: kernels compute what is written, to the bit.  ``register_shares``: by the buffers that a kernel stores, the share of the
    registers that its tiles may take.
    """

    def __init__(
        self, graph: FrozenGraph, target: Target, meter: Meter, exact: bool, register_shares: Mapping[tuple[str, ...], float]
    ) -> None:
        self.graph, self.program, self.target, self.meter = graph, graph.program, target, meter
        self.buffers: dict[str, Buffer] = input_buffers(self.program)
        self.outputs: list[RootSpec] = []
        for o in self.program.outputs:
            self.buffers[o.name] = Buffer(o.name, o.dtype, o.shape, "output", unit=self.program.unit(o.name))
            self.outputs.append(RootSpec(graph.roots[o.name], o.name, o.layout, o.dtype))
        self.offers = [*offers(graph), *(() if exact else library_offers(graph, target))]
        self.stored = Stored(graph, self.buffers, frozenset(c for o in self.offers for c in (o.cls, *(r.cls for r in o.reads))))
        self.partials = Partials(graph)
        self.partial_names: dict[int, str] = {}
        self.margin = math.inf  # by how much other tiles than those of a model have to be better
        self._parted: dict[object, Cover | None] = {}
        self.chooser = Chooser(graph, meter)
        self.search = self._whole = KernelSearch(self.chooser, target, self.buffers, exact, register_shares)
        self._written: KernelSearch | None = None

    @property
    def writes(self) -> bool:
        """Whether kernels are those of the program as written."""
        return self.search is self._written

    @contextmanager
    def as_written(self, asked: bool = True) -> Iterator[None]:
        """Kernels of the program as written, whose forms are few; or not, within such a part."""
        before = self.search
        if asked and self._written is None:
            classes = tuple(tuple(n for n in row if n.rule is None) for row in self.graph.classes)
            chooser = Chooser(replace(self.graph, classes=classes), self.meter)
            self._written = KernelSearch(chooser, self.target, self.buffers, self.search.exact, self.search.register_shares)
        self.search = self._written if asked and self._written is not None else self._whole
        try:
            yield
        finally:
            self.search = before

    def specs(self) -> dict[str, RootSpec]:
        """What has a buffer so far, but for inputs."""
        return {s.buffer: s for s in (*self.outputs, *self.stored.temporaries.values())}

    def leaf(self, spec: RootSpec) -> Leaf:
        """A stored value, as one that kernels load."""
        return Leaf(spec.buffer, spec.layout)

    def kernel(
        self, roots: tuple[RootSpec, ...], leaves: Mapping[int, Leaf], model: PlannedKernel | None = None, limit: float = math.inf
    ) -> PlannedKernel | Rejection:
        """The best kernel, of use if it takes less than the ``limit``; or the one with the roles of another."""
        name = f"{self.program.name}_{'_'.join(r.buffer for r in roots)}"
        name = "".join(ch if ch.isalnum() else "_" for ch in name)
        return self.search.like(name, roots, leaves, model, self.margin) if model else self.search.best(name, roots, leaves, limit)

    def chain(
        self,
        materialised: tuple[int, ...],
        description: str,
        outside: Mapping[int, Outside] | None = None,
        parted: bool | Sequence[Row] = False,
        limit: float = math.inf,
        floors: Mapping[int, float] = MappingProxyType({}),
    ) -> Cover | Rejection:
        """One kernel per output and per materialised class that is needed, each reading earlier ones; ``outside`` classes are made
        by a call.  ``parted``: or two kernels, where an axis that is split over the grid makes these faster, in any of its numbers of
        parts or as some rows say.  ``limit``: a cover that takes longer is of no use, where kernels take their ``floors`` at least."""
        rows = tuple(parted) if isinstance(parted, Sequence) else self.partials.rows if parted else ()
        specs, equal = self._to_store(materialised)
        done: set[int] = set()
        spent: dict[frozenset[str], float] = {}  # by the steps so far
        sequence = Steps()

        def make(spec: RootSpec) -> Rejection | None:
            if spec.cls in done:
                return None
            leaves = self._loadable(spec, specs)
            other = (outside or {}).get(spec.cls)
            roots = tuple(equal.get(spec.cls, (spec,)))
            if other is not None and len(roots) > 1:
                return Rejection("two outputs are one value")
            most = limit - sum(spent.values()) - sum(us for c, us in floors.items() if c not in done and c != spec.cls)
            if floors.get(spec.cls, 0.0) >= most:
                return BEATEN
            found = self.kernel(roots, leaves, limit=most) if other is None else self.call(other, spec, leaves)
            two = self._in_parts(roots, leaves, found, rows, most) if other is None else None
            if two is not None and not sequence.apart(two.steps):  # the parts of one sum that are parts of two
                two = None
            if two is not None:
                steps: tuple[Step, ...] = two.steps
            elif isinstance(found, Rejection):
                return found
            else:
                steps = (found,)
            done.add(spec.cls)
            spent.update({frozenset(made(k)): k.cost.us for k in steps})
            for s in specs.values():
                if any(s.buffer in k.loads for k in steps) and s.cls != spec.cls and (failed := make(s)) is not None:
                    return failed
            if not sequence.apart(steps):
                return Rejection("some partial results would be made twice")
            sequence.add(steps, two.splits if two is not None else ())
            return None

        for c in equal:
            failed = make(specs[c])
            if failed is not None:
                return failed
        return Cover("; ".join([description, *map(str, sequence.splits)]), tuple(sequence.steps), tuple(sequence.splits))

    def _to_store(self, materialised: Collection[int]) -> tuple[dict[int, RootSpec], dict[int, list[RootSpec]]]:
        """What kernels store, by class; and the outputs, of which those that are one value are stored by one kernel."""
        order = {c: k for k, c in enumerate(self.graph.original)}
        specs: dict[int, RootSpec] = {c: self.stored.temporary(c, self.program.temporary(order[c])) for c in materialised}
        equal: dict[int, list[RootSpec]] = {}
        for o in self.outputs:
            equal.setdefault(o.cls, []).append(o)
            specs[o.cls] = equal[o.cls][0]
        return specs, equal

    def _loadable(self, spec: RootSpec, specs: Mapping[int, RootSpec]) -> dict[int, Leaf]:
        """Of some stored values those that the kernel for one may load."""
        order = {c: k for k, c in enumerate(self.graph.original)}
        mine = order.get(spec.cls, len(order))
        earlier = {c: s for c, s in specs.items() if c != spec.cls and order.get(c, len(order)) < mine}
        return {c: self.leaf(s) for c, s in earlier.items() if self.stored.keeps(s)}

    def floors(self, materialised: tuple[int, ...], floor_of: Callable[[int, Collection[int]], float]) -> dict[int, float]:
        """What the kernels of a cover take at least, none of them in parts: by what they move and multiply, or as searches have shown."""
        specs, equal = self._to_store(materialised)
        return {
            c: max(floor_of(c, materialised), self.search.at_least(tuple(equal.get(c, (s,))), self._loadable(s, specs)))
            for c, s in specs.items()
        }

    def call(self, outside: Outside, spec: RootSpec, leaves: Mapping[int, Leaf]) -> PlannedCall | Rejection:
        """The step that makes a value by an outside implementation."""
        order = {c: k for k, c in enumerate(self.graph.original)}
        name = f"{self.program.name}_{outside.by}_{spec.buffer}"
        term = self.program.terms()[order[spec.cls]]
        index_ = tuple(index(0) if a is None else index(a) for a in spec.layout)
        accesses = self.chooser.accesses(leaves)
        found = planned_call(name, outside, term, (self.buffers[spec.buffer], index_), accesses, self.buffers, self.target)
        if isinstance(found, str):
            return Rejection(found)
        return Rejection(refused) if (refused := self.chooser.verdicts.against_call(spec.cls, found.loads, leaves)) else found

    def parts(self, row: Row, roots: tuple[RootSpec, ...], leaves: Mapping[int, Leaf]) -> list[RootSpec]:
        """What may be stored between the two kernels that make some roots of some leaves."""
        found = self.partials.below(row, [r.cls for r in roots], leaves)
        names = (self.partial_names.setdefault(c, self.program.unused(f"part{len(self.partial_names)}")) for c in found)
        return [self.stored.temporary(c, name) for c, name in zip(found, names, strict=True)]

    def split(
        self,
        row: Row,
        roots: tuple[RootSpec, ...],
        leaves: Mapping[int, Leaf] = MappingProxyType({}),
        models: tuple[PlannedKernel, PlannedKernel] | None = None,
        limit: float = math.inf,
    ) -> Cover | Rejection:
        """Partial results over the inner axis, one per outer position, then their merge; with the roles of two kernels if given.
        ``limit``: what takes longer is of no use."""
        axis, outer, inner = row
        partials = self.parts(row, roots, leaves)
        if not partials:
            return Rejection(f"no partial results over {inner.name}")
        both = {**leaves, **{p.cls: self.leaf(p) for p in partials}}
        merge = self.kernel(roots, both, models and models[1], limit - self.target.launch_us)
        if isinstance(merge, Rejection):
            return merge
        nodes = merge.kernel.nodes
        if any(n.reduction and any(axis in nodes[x].axes for x in n.args) for n in nodes):
            # x - max x, with x a sum that either kernel adds up in its own order, would be an error of x where it should be zero
            return Rejection(f"elements along {axis.name} would be summed again, in another order than for the parts")
        loaded = {n.attrs[0] for n in merge.kernel.nodes if n.op == "load"}
        stored = tuple(p for p in partials if p.buffer in loaded)
        if not stored:
            return Rejection("the merge does not use partial results")
        first = self.kernel(stored, leaves, models and models[0], limit - merge.cost.us)
        if isinstance(first, Rejection):
            return first
        refused = self.chooser.verdicts.against_parts([r.cls for r in roots], {*first.loads, *merge.loads}, leaves)
        if refused:
            return Rejection(refused)
        split = Split(axis.name, outer.size, self.partials.among(axis))
        return Cover(f"{axis.name} split over the grid into {plural(outer.size, 'part')}", (first, merge), (split,))

    def roughly_below(self, limit: float, make: Callable[[float], Cover | PlannedKernel | Rejection]) -> bool:
        """Whether it may be made to take less than a limit: as what it takes with each kernel at the best of its starts shows."""
        if limit == math.inf or self.search.effort != ALL:
            return True
        with self.search.at(STARTS_ONLY):
            found = make(ROUGH * limit)
        return not isinstance(found, Rejection) and (found.us if isinstance(found, Cover) else found.cost.us) <= ROUGH * limit

    def split_below(self, limit: float, row: Row, roots: tuple[RootSpec, ...], leaves: Mapping[int, Leaf]) -> Cover | Rejection:
        """A split that may take less than a limit."""
        if not self.roughly_below(limit, lambda us: self.split(row, roots, leaves, limit=us)):
            return BEATEN
        return self.split(row, roots, leaves, limit=limit)

    def _in_parts(
        self,
        roots: tuple[RootSpec, ...],
        leaves: Mapping[int, Leaf],
        whole: PlannedKernel | PlannedCall | Rejection,
        rows: tuple[Row, ...],
        limit: float,
    ) -> Cover | None:
        """The two kernels that take the place of one, if a split of an axis by one of these rows makes them faster."""
        least = 2 * self.target.launch_us
        if not rows or (not isinstance(whole, Rejection) and whole.cost.us <= least):
            return None
        key = roots, tuple(sorted((c, leaf.buffer) for c, leaf in leaves.items())), rows, self.search.effort
        if key not in self._parted:
            best: Cover | None = None
            most = limit if isinstance(whole, Rejection) and whole.beaten else math.inf
            bounded = most < math.inf
            if not isinstance(whole, Rejection):
                most = whole.cost.us
                least += whole.cost.dram_bytes / (self.target.dram_gb_s * 1e3)
            for row in rows:
                if most > REST * least and not self.meter.over():
                    found = self.split_below(most, row, roots, leaves)
                    if isinstance(found, Cover) and found.us < most * (1 - 1e-9):
                        best, most = found, found.us
            if bounded and best is None:  # for a higher limit there may be one
                return None
            self._parted[key] = best
        return self._parted[key]

    def merged(self, cover: Cover) -> Cover:
        """Join kernels that can share loops, when one kernel costs less than two.  One may read what the other stores: together they
        compute it once, and store it for the kernels after them."""
        kernels = list(cover.steps)
        between = {*self.partial_names.values()}  # the two kernels of a split stay as they are
        specs = self.specs()
        changed = True
        while changed and not self.meter.over():
            changed = False
            for i in range(len(kernels)):
                for j in range(i + 1, len(kernels)):
                    a, b = kernels[i], kernels[j]
                    if isinstance(a, PlannedCall) or isinstance(b, PlannedCall) or between & {*a.loads, *b.loads, *made(a), *made(b)}:
                        continue
                    stored = {r.buffer for r in a.kernel.roots}
                    if stored & {name for k in kernels[i + 1 : j] for name in k.loads}:
                        continue
                    kept = stored & {*(o.buffer for o in self.outputs), *(name for k in kernels[j + 1 :] for name in k.loads)}
                    roots = tuple(specs[r.buffer] for r in (*a.kernel.roots, *b.kernel.roots) if r.buffer in kept or r in b.kernel.roots)
                    loaded = {n.attrs[0] for k in (a, b) for n in k.kernel.nodes if n.op == "load"} - stored
                    leaves = {s.cls: self.leaf(s) for s in specs.values() if s.buffer in loaded}
                    most = a.cost.us + b.cost.us
                    if not self.roughly_below(most, lambda us, r=roots, x=leaves: self.kernel(r, x, limit=us)):  # type: ignore[misc]
                        continue
                    found = self.kernel(roots, leaves, limit=most)
                    if isinstance(found, PlannedKernel) and found.cost.us < most * (1 - 1e-9):
                        kernels[j] = found
                        del kernels[i]
                        changed = True
                        break
                if changed:
                    break
        return replace(cover, steps=tuple(kernels)) if len(kernels) < len(cover.steps) else cover

    def not_split(self, cover: Cover, limit: float = math.inf) -> Cover:
        """The cover with one kernel for two that split an axis: to fill a device, for which a launch of several kernels needs no parts.
        The cover itself where there is none, or it holds more than the ``limit``: what parts are made of is held until they are merged."""
        specs = self.specs()
        partial = {*self.partial_names.values()}
        makers = [k for k in cover.steps if made(k) <= partial]
        steps: list[Step] = []
        for k in cover.steps:
            mine = [first for first in makers if made(first) & k.loads]
            if mine and isinstance(k, PlannedKernel):
                loaded = k.loads.union(*(first.loads for first in mine)) - partial
                leaves = {s.cls: self.leaf(s) for s in specs.values() if s.buffer in loaded}
                found = self.kernel(tuple(specs[r.buffer] for r in k.kernel.roots), leaves)
                if isinstance(found, Rejection):
                    return cover
                steps.append(found)
            elif k not in makers:
                steps.append(k)
        whole = replace(cover, description="no axis split", steps=tuple(steps), splits=())
        return cover if whole.temporary_bytes > limit else whole

    def like(self, model: Plan, margin: float = math.inf) -> Cover:
        """The same kernels for other extents: every kernel of ``model`` with its roots, leaves, roles and tiles; or with other tiles, and
        an axis split or not, where that is better by a ``margin`` of the time.  PlanError if the program has another structure there."""
        specs = {o.buffer: o for o in self.outputs}
        for k, c in enumerate(self.graph.original):
            name = self.program.temporary(k)
            if any(b.name == name for m in model.steps for b in m.stores):
                specs[name] = self.stored.temporary(c, name)
        sequence = Steps()
        self.margin = margin
        partial: list[PlannedKernel] = []  # of the model, whose results later kernels merge
        for m in model.steps:
            missing = [b.name for b in m.stores if b.name not in specs]
            if missing and isinstance(m, PlannedKernel) and m.kernel.splits:
                partial.append(m)
                continue
            if missing:
                raise PlanError(f"the program at these sizes has no {missing[0]!r}", cure="call optimize() for them")
            parts = next((p for p in partial if made(p) & m.loads), None)
            leaves = {s.cls: self.leaf(s) for b, s in specs.items() if b in m.loads or (parts is not None and b in parts.loads)}
            if isinstance(m, PlannedCall):
                sequence.add((self._same_call(m, specs[m.call.result.buffer.name], leaves),))
                continue
            roots = tuple(specs[r.buffer] for r in m.kernel.roots)
            same = self._same(m, parts, roots, leaves)
            better = self._parted_or_not(same, roots, leaves) if margin < math.inf else None
            if better is not None and sequence.apart(better.steps):
                same = better
            if isinstance(same, Rejection):
                what = m.kernel.name if parts is None else "the split plan"
                raise PlanError(f"{what} cannot be made for these sizes: {same.reason}", cure="call optimize() for them")
            if not sequence.apart(same.steps):
                raise PlanError("some partial results would be made twice", cure="call optimize() for these sizes")
            sequence.add(same.steps, same.splits)
        if left := {o.buffer for o in self.outputs}.difference(*map(made, sequence.steps)):
            raise PlanError(f"the plan for other sizes has no {min(left)!r}", cure="call optimize() for these")
        return Cover("like another plan", tuple(sequence.steps), tuple(sequence.splits))

    def _same(
        self, model: PlannedKernel, parts: PlannedKernel | None, roots: tuple[RootSpec, ...], leaves: Mapping[int, Leaf]
    ) -> Cover | Rejection:
        """A kernel of another plan at these extents, or that which makes parts and the one that merges them."""
        if parts is None:
            found = self.kernel(roots, leaves, model)
            return found if isinstance(found, Rejection) else Cover("", (found,))
        row = self.partials.like(parts.kernel)
        return Rejection("nothing is split there") if row is None else self.split(row, roots, leaves, (parts, model))

    def _parted_or_not(self, known: Cover | Rejection, roots: tuple[RootSpec, ...], leaves: Mapping[int, Leaf]) -> Cover | None:
        """One kernel for two that split an axis, or two for one, if that takes less by the margin: what splits are for, a device that is
        not full, is a matter of sizes."""
        most = math.inf if isinstance(known, Rejection) else known.us / (1 + self.margin)
        whole = known.kernels[0] if isinstance(known, Cover) and not known.splits else None
        if whole is None and self.roughly_below(most, lambda us: self.kernel(roots, leaves, limit=us)):
            found = self.kernel(roots, leaves, limit=most)
            if isinstance(found, PlannedKernel) and found.cost.us < most:
                return Cover("", (found,))
        two = None if whole is None else self._in_parts(roots, leaves, whole, self.partials.rows, most)
        return two if two is not None and two.us < most else None

    def _same_call(self, model: PlannedCall, spec: RootSpec, leaves: Mapping[int, Leaf]) -> PlannedCall:
        """The call of another plan at these extents."""
        for o in self.offers:
            if o.cls == spec.cls and o.by == model.rule:
                found = self.call(o, spec, leaves)
                if isinstance(found, PlannedCall) and found.loads == model.loads:
                    return found
        raise PlanError(f"{model.rule} offers nothing for {spec.buffer} at these sizes", cure="call optimize() for them")
