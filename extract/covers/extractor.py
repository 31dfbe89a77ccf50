"""Which kernels: a cover of the outputs by cuts of the e-graph.

A kernel is a cut: roots that are stored, leaves that are loaded, everything between on chip.  A plan is decided by the set of
classes that are materialised (stored by one kernel for others).  The search is anytime and exact in cost: every kernel it
considers has been lowered and priced.  It tries, in this order,

1. one kernel for all outputs, or one for each loop of them (:mod:`.loops`); if that is close to the bound that no plan beats, it is taken;
2. splitting a long reduction over the grid where the outputs alone give too few programs: partial results in a first kernel,
   their merge in a second;
3. the sets of values that may be stored between kernels, each as far as it may be the best (:mod:`.sets`); or, where many may be stored, a
   kernel for each output with nothing stored between, and from the unfused cover (materialised: every reduction of the program, and every
   finished operand of a matrix product, but for those whose storing alone costs more than the best cover so far) removing one
   materialisation at a time while the cover gets better;
4. merging kernels that can share their loops;
5. a kernel for every op, as eager code has it, unless something better than that could be is known.

Where time is scarce, one kernel for each reduction of the program as written, with what is pointwise in it, is made first and fused before
all that.  So no answer is worse, by the same model, than running op by op, and there is one however little time there is.
Step 3 is left out where a cover is already within ``CLOSE`` of the bound.  What is better, and which of covers that the model cannot tell
apart is taken, says the objective (:mod:`..objective`).  The answer is the same for the same input, unless ``time_budget`` ends the search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import MappingProxyType

from ...egraph.frozen import FrozenGraph
from ...errors import PlanError
from ...rewrites.verdicts import told
from ...tiles.walk import shares
from ...work import RATE, bitten, watched
from ..baseline import Baseline, baseline
from ..meter import Meter
from ..objective import TIE, Objective, sane
from ..plan import Plan, PlannedCall
from ..quantities import bytes_text, plural
from ..search import FIRST, ROUGH, STARTS_ONLY, Rejection
from ..targets import Target
from .calls import Calls
from .cover import Cover
from .finished import finished, launched_us
from .loops import by_loops, groups
from .maker import REST, CoverMaker
from .points import Points
from .record import Record
from .sets import FEW, REFINED, Sets

ONE_SHARE = 0.25  # of the work, for one kernel that computes everything, and for each split
SPLITS_SHARE = 0.5  # of the work, for all splits
MOST_ONE = 0.5  # of the work that is left, for the same
LOOPS_SHARE = 0.3  # of the work, for a kernel for each loop
MOST_QUICK = 0.05  # of the work that is left, for any kernel that computes everything
MOST_LOOPS = 0.5  # of the work that is left, for a kernel for each loop, the first that fit
SMALL = 4.0  # kernels that take so many times their launch are joined with those of other loops
MOST_FUSED = 0.8  # of the work that is left, to fuse kernels of the program as written, where there is little
TRIAL = 8  # work for each term of the program that finding the first kernel that fits may take, to fuse one more value
FIRST_FUSED = 0.75  # of that, by the first kernels that fit
OP_WORK = 100  # work that a kernel for one op takes, about
SCARCE = 0.02  # of the work that is left: if kernels for all ops take more, they are made first
SCARCE_FOR_SETS = 0.1  # the same where few values may be stored, of which there are covers soon
CLOSE = 1.25  # a plan within this factor of the bound ends the search
NEARLY = 1.1  # a cover within this factor of the best may beat it once kernels that can share loops are joined


class Extractor:
    """Extraction over one frozen graph and target."""

    def __init__(
        self,
        graph: FrozenGraph,
        target: Target,
        *,
        time_budget: float = 10.0,
        objective: str = "time",
        memory_limit: float | None = None,
        exact: bool = False,
        register_shares: Mapping[tuple[str, ...], float] = MappingProxyType({}),
        deadline: float = math.inf,
    ) -> None:
        self.graph, self.target, self.time_budget = graph, target, time_budget
        self.program = graph.program
        self.objective = Objective.on(target, objective, memory_limit)
        self.baseline: Baseline = baseline(self.program, target)
        self.meter = Meter(time_budget, deadline)
        self.maker = CoverMaker(graph, target, self.meter, exact, register_shares)
        self.outputs = tuple(self.maker.outputs)
        self.verdicts = self.maker.chooser.verdicts
        self.points = Points(graph, target, self.maker.buffers, self.verdicts)
        self.record = Record(self.objective)
        self.few = len(self.points.worth_storing) <= FEW
        self.sets = Sets(self.maker, self.points, self.record)
        self.loops = groups(self.program, target)
        self.calls = Calls(self.maker, self.points, self.record)

    def one(self) -> Cover | Rejection:
        found = self.maker.kernel(self.outputs, {})
        return found if isinstance(found, Rejection) else self.record.priced(Cover("one kernel", (found,)))

    def op_by_op(self, limit: float = math.inf) -> Cover | Rejection:
        """What eager code does: a kernel for every op, as the program has it.  However late it is, this is searched, as far as it may take
        less than a ``limit``: a plan there is in any case.  Where a view looks at what is no kernel of its own, that is one, too; or rules
        may have moved the view."""
        found: Cover | Rejection
        for written, viewed in ((True, False), (True, True), (False, False)):
            with self.meter.unbounded(), self.maker.as_written(written):
                points = self.points.written(viewed)
                found = self.maker.chain(points, "op by op", limit=limit, floors=self.maker.floors(points, self.points.floor_of))
            if isinstance(found, Cover) or found.beaten:
                break
        return found

    def _floor(self) -> Cover | Rejection:
        """A plan that takes little time to make, and is made however late it is: what is pointwise in the kernels of the reductions that it
        is made of or read by, the first that fit, or searched for where these are dearer than eager code; or op by op, where that is no
        plan of the program as written, or dearer."""
        best: Cover | None = None
        with self.meter.unbounded(), self.maker.as_written():
            for way in (self._hasty(), nullcontext()):
                with way:
                    found = self.maker.chain(self.points.simple, "one kernel per reduction")
                if isinstance(found, Rejection) or not self.objective.lean(found):
                    break
                best = found if best is None else min(best, found, key=lambda c: c.us)
                if best.us <= self.baseline.us:
                    return best
        written = self.op_by_op(math.inf if best is None else best.us)
        return best if best is not None and (isinstance(written, Rejection) or written.us >= best.us) else written

    def _fused(self, floor: Cover) -> None:
        """Better ones in the program as written, whose kernels are few: one stored value less at a time while that pays, by the first
        kernels that fit; then these searched for, and joined where they can share loops."""
        with self.maker.as_written(), self.meter.within(math.inf, MOST_FUSED):
            kept = list(self.points.simple)
            cut_short = set(self.meter.cut_short)
            with self.meter.within(math.inf, FIRST_FUSED), self._hasty():
                first = self.maker.chain(tuple(kept), "one kernel per reduction, the first that fit")
                if isinstance(first, Cover):
                    _, kept, _ = self._fuse_along(self.points.removal_orders(tuple(kept))[-1], first, first.us)
            self.meter.cut_short = cut_short  # the search goes on
            found = self.stored(kept)
            if isinstance(found, Cover) and (merged := self.maker.merged(found)) is not found:
                self.record.priced(merged)

    def _hasty(self) -> AbstractContextManager[None]:
        """Of every kernel the first that fits."""
        return self.maker.search.at(FIRST)

    def _quick(self) -> Cover | Rejection:
        """One kernel for all outputs, the first that fits; or one for each of their loops."""
        cut_short = set(self.meter.cut_short)
        several = len(self.loops) > 1
        with self.meter.within(math.inf, MOST_LOOPS if several else MOST_QUICK), self._hasty():
            found = by_loops(self.maker, self.loops) if several else self.maker.kernel(self.outputs, {})
        self.meter.cut_short = cut_short  # the search goes on
        if isinstance(found, Cover):
            return replace(found, description=f"{found.description}, the first that fit")
        return found if isinstance(found, Rejection) else Cover("one kernel, the first that fits", (found,))

    def _by_loops(self) -> list[Cover]:
        """One kernel for each loop, and these merged as far as that pays."""
        with self.meter.within(LOOPS_SHARE * self.time_budget * RATE, MOST_LOOPS):
            found = by_loops(self.maker, self.loops)
        if isinstance(found, Rejection):
            self.record.failed("one kernel per loop", found.reason)
            return []
        small = found.us < SMALL * len(found.steps) * self.target.launch_us
        merged = self.maker.merged(found) if small else found  # large products in one loop more are searched for long, and never pay
        return [self.record.priced(found), *([self.record.priced(merged)] if merged is not found else [])]

    def _first_found(self) -> Cover | Rejection:
        """Some plan where neither the search nor a kernel for every op has one that may be, as verdicts or a limit of memory rule them
        out: fewer kernels, each the first that fits."""
        with self.meter.unbounded():
            found = self._quick()
            if isinstance(found, Rejection) or self.objective.best([found]) is None:
                with self._hasty():
                    found = self.maker.chain(self.points.worth_storing, "one kernel per reduction")
        return found

    def _greedy(self, limit: float) -> list[Cover] | Rejection:
        """Start with every value stored that may pay on its own; then fuse one at a time while the time falls.  The fastest cover, and
        those that hold less, as far as the objective asks for them.

        ``limit``: the time of the best cover so far; what cannot beat it is not searched.
        """
        able = self.points.worth_storing
        points = tuple(p for p in able if self.points.floor((p,)) < limit)
        if len(points) < len(able):
            self.record.failed("more kernels", f"storing {len(able) - len(points)} of the reductions cannot pay for itself")
        if not points and limit < math.inf and (len(self.outputs) == 1 or self.points.floor(()) >= limit):
            return Rejection("no reduction is worth storing")
        first = self.maker.chain(points, "one kernel per reduction", parted=True)
        if isinstance(first, Rejection):
            return first
        best, kept, before = self.record.priced(first), list(points), first
        for order in self.points.removal_orders(points):
            found, left, last = self._fuse_along(order, first, limit)
            if found.us < best.us * (1 - 1e-9):
                best, kept, before = found, left, last
        if best is not first:
            self.record.beaten(first, best)
        close = before is not best and before.us <= NEARLY * best.us  # side by side its kernels may still be better
        return [best, *self._in_equal_parts(best, kept), *self._leaner(best, kept, min(limit, best.us)), *((before,) if close else ())]

    def _in_equal_parts(self, best: Cover, kept: Sequence[int]) -> list[Cover]:
        """Of a cover with kernels that split one axis into 125 parts and others that split it into 500, the covers in which all take 125,
        and 500.  Partial results of one value then serve all kernels that merge them, which no kernel sees that chooses for itself."""
        numbers: dict[str, set[int]] = {}
        for s in best.splits:
            numbers.setdefault(s.axis, set()).add(s.parts)
        several = {axis: found for axis, found in numbers.items() if len(found) > 1}
        covers: list[Cover] = []
        for n in sorted(set().union(*several.values())):
            rows = [r for r in self.maker.partials.rows if r[0].name not in several or r[1].size == n]
            if self.meter.over():
                break
            found = self.maker.chain(tuple(sorted(kept)), f"{plural(len(kept), 'value')} stored", parted=rows)
            if isinstance(found, Cover) and found.us < best.us * (1 - 1e-9):
                covers.append(self.record.priced(found))
        return covers

    def _apart(self) -> list[Cover]:
        """One kernel for each output with nothing stored between, and these merged as far as that pays.  Where several outputs are made of
        one large value, what lies between this and storing it is dearer than either, so no single step leads here."""
        if len({o.cls for o in self.outputs}) < (3 if self.few else 2):  # one kernel is known, and two are among the sets
            return []
        found = self._within(ONE_SHARE, lambda: self.maker.chain((), "one kernel per output", parted=True))
        if isinstance(found, Rejection):
            self.record.failed("one kernel per output", found.reason)
            return []
        merged = self.maker.merged(found)
        return [self.record.priced(found), *([self.record.priced(merged)] if merged is not found else [])]

    def _fuse_along(self, order: list[int], first: Cover, limit: float) -> tuple[Cover, list[int], Cover]:
        """Fuse stored values in an order, again and again, as long as the time falls; what is stored then; and the last cover but one."""
        best, kept, before, improved = first, order, first, True
        most = TRIAL * len(self.graph.original) if self.maker.search.hasty else math.inf
        while improved and not self.meter.over():
            improved = False
            for p in order:
                fewer = [q for q in kept if q != p]
                if p not in kept or self.meter.over() or self.points.floor(tuple(fewer)) >= min(limit, best.us):
                    continue
                with self.meter.within(most):
                    found = self.stored(fewer)
                if isinstance(found, Cover) and found.us < best.us * (1 - 1e-9):
                    before, best, kept, improved = best, found, fewer, True
        return best, kept, before

    def _share(self, covers: Sequence[Cover]) -> float:
        """The share of the products that is known to be enough, where masks leave tiles out."""
        total = sum(self.baseline.flops.values())
        done = [sum(k.cost.flops for k in c.kernels) for c in covers if any(shares(k.tiles) for k in c.kernels)]
        return min((d / total for d in done if d and total and d < total), default=1.0)

    def _bound(self, covers: Sequence[Cover]) -> float:
        """What no plan beats: bytes and products of the program, of these as much as covers do that leave masked tiles out."""
        least = self.target.least_us(self.baseline.compulsory_bytes)
        return max(least, self._share(covers) * self.baseline.bound_us) + self.target.launch_us

    def _store_along(self, best: Cover) -> list[Cover]:
        """Store values one at a time, from a cover that stores none, as long as the time falls.

        This is the way to what lies between that cover and everything stored where all the way down from there is dear: of a product
        whose operand is computed first that alone may be worth storing, and every cover that stores both is slower than one kernel.
        """
        found: list[Cover] = []
        kept: list[int] = []
        left = list(self.points.worth_storing)
        while left and not self.meter.over():
            able = [p for p in left if self.points.floor((*kept, p)) < best.us]
            rough = {p: us for p in able if (us := self._roughly([*kept, p], best.us)) < math.inf}
            near = sorted(rough, key=lambda p: rough[p])[:REFINED]
            tried = {p: self.stored([*kept, p]) for p in near if not self.meter.over()}
            better = {p: c for p, c in tried.items() if isinstance(c, Cover) and c.us < best.us * (1 - 1e-9)}
            if not better:
                break
            p = min(better, key=lambda p: better[p].us)
            best, left = better[p], [q for q in rough if q != p]  # what is no gain alone is none beside another
            kept.append(p)
            found.append(best)
        return found

    def _leaner(self, best: Cover, kept: list[int], least: float) -> list[Cover]:
        """From the best cover on, what holds less for the least time: as long as the objective wants less, or the model cannot tell its
        time from the ``least`` known."""
        found: list[Cover] = []
        while kept and not self.meter.over():
            most = TIE * least if self.objective.lean(best) else math.inf
            ways = {p: [q for q in kept if q != p] for p in kept}
            made = {p: self.stored(fewer) for p, fewer in ways.items() if self.points.floor(tuple(fewer)) < most and not self.meter.over()}
            able = {p: c for p, c in made.items() if isinstance(c, Cover) and c.us <= most and c.temporary_bytes < best.temporary_bytes}
            if not able:
                break
            p = min(able, key=lambda p: able[p].us)
            best, kept = able[p], ways[p]
            found.append(best)
        return found

    def _roughly(self, points: list[int], most: float) -> float:
        """The time of the cover that stores some values, each kernel at the best of its starts; infinite where it cannot beat so much."""
        some = tuple(sorted(points))
        if self.meter.over():
            return math.inf
        with self.maker.search.at(STARTS_ONLY):
            found = self.maker.chain(some, "", limit=ROUGH * most, floors=self.maker.floors(some, self.points.floor_of))
        return found.us if isinstance(found, Cover) else math.inf

    def stored(self, points: list[int]) -> Cover | Rejection:
        """The cover that stores some values."""
        parted = not self.maker.writes
        found = self.maker.chain(tuple(sorted(points)), f"{plural(len(points), 'value')} stored", parted=parted)
        return self.record.priced(found) if isinstance(found, Cover) else found

    def _within(self, share: float, search: Callable[[], Cover | Rejection]) -> Cover | Rejection:
        """A search that ends after a share of the time: what fuses everything must leave time to fuse less.  The share is counted in
        work: by a clock, a slow machine would make another plan.  Only if it is far slower than a count says, or the time far too short,
        a clock ends it."""
        with self.meter.within(share * self.time_budget * RATE, MOST_ONE):
            return search()

    def plan_of(self, cover: Cover, stopped: str) -> Plan:
        """The plan of a cover; ``stopped``: why the search ended."""
        return finished(self.maker, cover, self.record, self.baseline, stopped, self.calls.not_taken(cover))

    def like(self, model: Plan, margin: float = math.inf) -> Plan:
        """The plan with the kernels of ``model`` for other extents, or those that are better by a margin."""
        made = self.maker.like(model, margin)
        return finished(self.maker, made, self.record, self.baseline, "like", model=model.launches if margin == math.inf else None)

    def _split(self, covers: Sequence[Cover]) -> list[Cover]:
        """All outputs by two kernels that split an axis, as far as that may be better than other covers."""
        rows = self.maker.partials.rows
        rest = REST * (self.baseline.bound_us + 2 * self.target.launch_us)
        share = min(ONE_SHARE, SPLITS_SHARE / max(len(rows), 1))
        splits: list[Cover] = []
        for row in rows:
            described = f"{row[0].name} split over the grid into {plural(row[1].size, 'part')}"
            if any(c.us <= rest for c in splits):
                self.record.failed(described, "another number of parts is as good as can be")
                continue
            most = self.objective.most([*covers, *splits], 0)
            found = self._within(share, lambda r=row, us=most: self.maker.split_below(us, r, self.outputs, {}))  # type: ignore[misc]
            if isinstance(found, Rejection):
                self.record.failed(described, found.reason)
            else:
                splits.append(self.record.priced(found))
        return splits

    def _more(self, covers: Sequence[Cover], loops: bool) -> list[Cover]:
        """Covers that store something between kernels, or have a kernel for each output."""
        found = [] if loops else self._apart()
        part = (ONE_SHARE * self.time_budget * RATE, MOST_ONE) if loops and not self.few else (math.inf, 1.0)
        with self.meter.within(*part):
            if self.few:
                sets = self.sets.covers()
                found += [c for c, _ in sets]
                found += self._in_equal_parts(*sets[0]) if sets else []
            else:
                greedy = self._greedy(min((c.us for c in (*covers, *found)), default=math.inf))
                if isinstance(greedy, Rejection):
                    self.record.failed("one kernel per reduction", greedy.reason)
                else:
                    merged = [self.maker.merged(c) for c in greedy]
                    found += [*greedy, *(self.record.priced(m) for m in merged if m not in greedy)]
        best = min((*covers, *found), key=lambda c: c.us, default=None)
        if best is not None and not best.temporary_bytes and not loops and not self.few:
            found += self._store_along(best)
        return found

    def run(self) -> Plan:
        """The best cover found."""
        stopped = "exhausted"
        covers: list[Cover] = []
        for needs, bars in self.verdicts.conflicts:
            raise PlanError(
                f"{needs.by} requires and {bars.by} forbids that two values of {self.program.name!r} share a kernel",
                cure=f"leave out one of them: {told(needs.by)}, or {told(bars.by)}",
            )
        floor = None
        scarce = SCARCE_FOR_SETS if self.few else SCARCE
        if OP_WORK * len(self.points.written()) > scarce * max(self.meter.left(), 0.0):
            # what there is in any case is made while there is time; a kernel for everything that is known to beat it takes less
            quick = self._quick()
            if isinstance(quick, Cover) and quick.us <= self.baseline.us and self.objective.lean(quick):
                self.record.priced(quick)
            else:
                floor = self._floor()
        several = len(self.points.worth_storing) + len(self.outputs) > 1  # else there is one kernel, or the parts of one
        if isinstance(floor, Cover):
            if several:
                self._fused(floor)
            self.record.priced(floor)
            covers.append(min(self.record.considered, key=lambda c: c.us))
        together = any(len(g) > 1 for g in self.loops) and len(self.loops) > 1
        loops = self._by_loops() if together else []
        covers += loops
        one = None if loops else self._within(ONE_SHARE, self.one) if several else self.one()
        if one is None:
            pass
        elif isinstance(one, Rejection):
            self.record.failed("one kernel", one.reason)
        else:
            covers.append(one)
        covers += self._split(covers)
        enough = min(CLOSE * self._bound(covers), self.baseline.us)
        if any(c.us <= enough and self.objective.lean(c) for c in covers):
            stopped = "bound"
        elif several:
            self.points.share = self._share(covers)
            covers += self._more(covers, bool(loops))
            if self.meter.ended:
                stopped = "time"
        if min((c.us for c in self.record.considered), default=math.inf) > self.baseline.us:  # which products of ours may not reach
            floor = floor or self.op_by_op(min((c.us for c in self.record.considered), default=math.inf))
            if isinstance(floor, Cover):
                covers.append(self.record.priced(floor))
        known = min(covers, key=lambda c: c.us, default=None)
        called = self.calls.added_to(known)
        if called is not None and called is not known:
            covers.append(self.record.priced(called))
        else:
            called = None
        if self.meter.cut_short and self.objective.best(self.record.considered) is None:
            found = self._first_found()
            if isinstance(found, Cover):
                covers.append(self.record.priced(found))
            else:
                self.record.failed("the first kernels that fit", found.reason)
        if bitten():
            stopped = "clock"
        elif self.meter.ended or "time" in self.meter.cut_short:
            stopped = "time"
        elif self.meter.cut_short:
            stopped = "work"
        if not self.record.considered:
            reasons = "; ".join(dict.fromkeys(r.reason for r in self.record.rejected))
            cure = self.verdicts.cure(reasons)
            raise PlanError(f"no kernel computes {self.program.name!r} on {self.target.name}: {reasons}", cure=cure)
        # an offer that somebody wrote wins ties, if it pays
        wanted = called is not None and any(isinstance(k, PlannedCall) and not k.by_library for k in called.steps)
        best = self.objective.best([called] if called is not None and wanted else []) or self.objective.best(self.record.considered)
        if best is None:
            least = min(c.temporary_bytes for c in sane(self.record.considered))
            raise PlanError(
                f"no plan of {self.program.name!r} that the search found holds {bytes_text(int(self.objective.limit))} or less",
                cure=f"memory_limit={least}, or more",
            )
        for c in (*covers, *self.sets.lost):
            if c is not best and c.steps != best.steps:
                self.record.beaten(c, best)
        whole = self.maker.not_split(best, self.objective.limit) if best.splits and self.objective.by == "time" else best
        best = min(best, whole, key=lambda c: launched_us(c, self.target, self.objective.limit))
        return self.plan_of(best, stopped)


def extract(
    graph: FrozenGraph,
    target: Target,
    *,
    time_budget: float = 10.0,
    objective: str = "time",
    memory_limit: float | None = None,
    exact: bool = False,
    register_shares: Mapping[tuple[str, ...], float] = MappingProxyType({}),
    deadline: float = math.inf,
) -> Plan:
    """The cheapest plan found for a saturated graph on a target.

    ``time_budget`` is in seconds of the clock of work (:mod:`...work`), ``deadline`` when to be done by on that clock, if it is earlier; a
    plan there is in any case, at worst
    a kernel for every op, however long that takes.  ``objective`` is what plans are compared by, "time" or "memory",
    and ``memory_limit`` the bytes that one may hold beside inputs and outputs (:mod:`..objective`); PlanError if every plan found holds
    more.  ``exact``: kernels compute what is written, to the bit.
    ``register_shares``: by the buffers that a kernel stores, the share of the registers that its tiles may take (less than 1 where a
    compiler needs more than the model counts).
    """
    extractor = Extractor(
        graph,
        target,
        time_budget=time_budget,
        objective=objective,
        memory_limit=memory_limit,
        exact=exact,
        register_shares=register_shares,
        deadline=deadline,
    )
    with watched(time_budget):
        return replace(extractor.run(), register_shares=register_shares)


def extract_like(graph: FrozenGraph, target: Target, model: Plan, margin: float = math.inf) -> Plan:
    """A plan with the kernels, roles and tiles of ``model`` for other extents of the same program.  ``margin``: with other tiles, and an
    axis split or not, where that is better by such a share of the time.

    Raises :class:`~eqfuse.errors.PlanError` if the program has another structure at these sizes.
    """
    return Extractor(graph, target, time_budget=math.inf, exact=model.licence == "exact").like(model, margin)
