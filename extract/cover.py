"""Which kernels: a cover of the outputs by cuts of the e-graph.

A kernel is a cut: roots that are stored, leaves that are loaded, everything between on chip.  A plan is decided by the set of
classes that are materialised (stored by one kernel for others).  The search is anytime and exact in cost: every kernel it
considers has been lowered and priced.  It tries, in this order,

1. one kernel for all outputs; if that is close to the bound that no plan beats, it is taken;
2. splitting a long reduction over the grid where the outputs alone give too few programs: partial results in a first kernel,
   their merge in a second;
3. a kernel for each output with nothing stored between; and, from the unfused cover (materialised: every reduction of the program, and
   every finished operand of a matrix product, but for those whose storing alone costs more than the best cover so far) removing one
   materialisation at a time while the cover gets better;
4. merging kernels that can share their loops;
5. a kernel for every op, as eager code has it, unless something better than that could be is known.

So no answer is worse, by the same model, than running op by op, and there is one however little time there is.  Step 3 is left out
where a cover is already within ``CLOSE`` of the bound.  What is better, and which of covers that the model cannot tell apart is taken,
says the objective (:mod:`.objective`).  The answer is the same for the same input, unless ``time_budget`` ends the search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from ..egraph.frozen import FrozenGraph
from ..errors import PlanError
from ..ir import dtypes
from ..ir.index import Axis, index
from ..ir.printing import equations
from ..ir.terms import Cast, Gather, Input, Map, Reduce, Scan, Term, View, postorder
from ..rewrites.verdicts import told
from ..tiles.kernel import Buffer, input_buffers
from .baseline import Baseline, baseline, contraction_us, eager_ops, is_contraction
from .choose import Chooser, Leaf
from .fusibility import Pair
from .launches import check_launches, held, launches
from .launches import like as launches_like
from .layouts import memory_order
from .meter import RATE, Meter
from .objective import TIE, Objective
from .outside import Outside, misfits, offers, planned_call, spoken
from .partial import Partials, Row
from .plan import Alternative, Launch, Plan, PlannedCall, PlannedKernel, Split
from .quantities import bytes_text, plural
from .search import KernelSearch, Rejection, RootSpec
from .targets import Target

ONE_SHARE = 0.1  # of the time, for one kernel that computes everything, and for each split, counted in work
SPLITS_SHARE = 0.3  # of the time, for all splits, counted in work
MOST_ONE = 0.25  # of the time that is left, for the same, by the clock
MOST_QUICK = 0.05  # of the time that is left, for any kernel that computes everything
MOST_FUSED = 0.4  # of the time that is left, to fuse the kernels of the plan op by op
OP_WORK = 100  # work that a kernel for one op takes, about
SCARCE = 0.02  # of the time that is left: if kernels for all ops take more, they are made first
REST = 1.02  # a split within this factor of what no split beats ends the search for others
CLOSE = 1.25  # a plan within this factor of the bound ends the search
NEARLY = 1.1  # a cover within this factor of the best may beat it once kernels that can share loops are joined

Step = PlannedKernel | PlannedCall


@dataclass(frozen=True)
class Cover:
    """Steps in execution order."""

    description: str
    steps: tuple[Step, ...]
    splits: tuple[Split, ...] = ()

    @property
    def kernels(self) -> tuple[PlannedKernel, ...]:
        """The generated kernels."""
        return tuple(k for k in self.steps if isinstance(k, PlannedKernel))

    @property
    def us(self) -> float:
        """Modelled time."""
        return sum(k.cost.us for k in self.steps)

    @property
    def dram_bytes(self) -> int:
        """Modelled DRAM traffic."""
        return sum(k.cost.dram_bytes for k in self.steps)

    @property
    def temporary_bytes(self) -> int:
        """Memory that the plan holds at a time beside inputs and outputs: a temporary goes when its last reader has run."""
        return held((k,) for k in self.steps)


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
        deadline: float = math.inf,
    ) -> None:
        self.objective = Objective.on(target, objective, memory_limit)
        self.considered: list[Cover] = []  # every cover that was priced
        self.graph, self.target = graph, target
        self.program = graph.program
        self.time_budget = time_budget
        self.meter = Meter(time_budget, deadline)
        self.timed_out = False
        self.baseline: Baseline = baseline(self.program, target)
        self.buffers: dict[str, Buffer] = input_buffers(self.program)
        self.outputs: list[RootSpec] = []
        for o in self.program.outputs:
            self.buffers[o.name] = Buffer(o.name, o.dtype, o.shape, "output", unit=self.program.unit(o.name))
            self.outputs.append(RootSpec(graph.roots[o.name], o.name, o.layout, o.dtype))
        self.chooser = Chooser(graph, self.meter)
        self.offers = offers(graph)
        self.temporaries: dict[int, RootSpec] = {}
        self.partials = Partials(graph)
        self.partial_names: dict[int, str] = {}
        self.parted: dict[object, Cover | None] = {}
        self.search = KernelSearch(self.chooser, target, self.buffers)
        self.rejected: list[Alternative] = []
        self.refused: dict[str, str] = {}  # fusion rule -> why no plan with its offer exists
        self.offered: dict[str, tuple[Outside, Cover]] = {}  # fusion rule -> the best cover with its offer

    # -- pieces --------------------------------------------------------------------------------------------------------------
    def _temporary(self, c: int, name: str) -> RootSpec:
        """The buffer that a materialised class lives in; statistics stay in float32, matrix products and integers in their own type, and
        so does what an outside implementation may be given: functions expect the types of the program."""
        if c not in self.temporaries:
            terms = self.program.terms()
            term = next((t for t, k in zip(terms, self.graph.original, strict=True) if k == c), None)
            dtype = dtypes.float32
            own = term is not None and (is_contraction(term) or isinstance(term, Map | Scan | Input) or c in self._handed)
            if term is not None and own and term.dtype is not None and (term.dtype.is_float or c in self._handed):
                dtype = term.dtype
            whole = [t for t in ([term] if term is not None else self._sums_of_parts(c)) if t.dtype is not None and t.dtype.kind == "int"]
            if whole:
                dtype = max((t.dtype for t in whole if t.dtype is not None), key=lambda d: d.itemsize)
            narrow = term.dtype if term is not None and term in self.program.widened else None
            dtype = dtypes.float32 if narrow is not None else dtype
            order = self._order
            # the parts of a matrix outermost: programs that make them would else write into each other's sectors of memory; those of a
            # statistic side by side, as the kernel that merges them reads them
            parts = -1 if sum(a in order for a in self.graph.axes[c]) > 1 else len(order)
            layout = tuple(sorted(self.graph.axes[c], key=lambda a: (order.get(a, parts), a)))
            spec = RootSpec(c, name, layout, dtype)
            self.temporaries[c] = spec
            self.buffers[spec.buffer] = Buffer(spec.buffer, dtype, tuple(a.size for a in layout), "temporary", narrow)
        return self.temporaries[c]

    def _sums_of_parts(self, c: int) -> list[Reduce | Scan]:
        """The reductions and scans of the program of which a class may be a part: what reduces by the same monoid."""
        by = {n.attrs[0] for n in self.graph.classes[c] if n.in_order}
        return [t for t in self.program.terms() if isinstance(t, Reduce | Scan) and t.monoid in by]

    @cached_property
    def _order(self) -> Mapping[Axis, int]:
        """The places of the program's axes in temporaries."""
        return {a: k for k, a in enumerate(memory_order(self.program))}

    @cached_property
    def _handed(self) -> frozenset[int]:
        """Classes that some offer reads or makes."""
        return frozenset(c for o in self.offers for c in (o.cls, *o.reads))

    def _kernel(
        self, roots: tuple[RootSpec, ...], leaves: Mapping[int, Leaf], model: PlannedKernel | None = None
    ) -> PlannedKernel | Rejection:
        """The best kernel, or the one with the roles of another."""
        name = f"{self.program.name}_{'_'.join(r.buffer for r in roots)}"
        name = "".join(ch if ch.isalnum() else "_" for ch in name)
        return self.search.like(name, roots, leaves, model) if model else self.search.best(name, roots, leaves)

    def _leaf(self, spec: RootSpec) -> Leaf:
        return Leaf(spec.buffer, spec.layout)

    def _keeps(self, spec: RootSpec) -> bool:
        """The buffer holds all digits of the value: an output may be stored in a narrower type than its value has."""
        return spec.dtype.itemsize == 4 or not spec.dtype.is_float or self._types.get(spec.cls, set()) <= {spec.dtype, None}

    @cached_property
    def _types(self) -> Mapping[int, set[dtypes.DType | None]]:
        """The types that the program gives the values of a class."""
        found: dict[int, set[dtypes.DType | None]] = {}
        for t, c in zip(self.program.terms(), self.graph.original, strict=True):
            found.setdefault(c, set()).add(t.dtype)
        return found

    def _note(self, cover: Cover | None, description: str, reason: str) -> None:
        if cover is None:
            self.rejected.append(Alternative(description, 0, float("inf"), 0, reason))
        else:
            self.rejected.append(_alternative(cover, reason))

    # -- covers --------------------------------------------------------------------------------------------------------------
    def _one(self) -> Cover | Rejection:
        found = self._kernel(tuple(self.outputs), {})
        return found if isinstance(found, Rejection) else self._priced(Cover("one kernel", (found,)))

    def _priced(self, cover: Cover) -> Cover:
        """The cover, as one that may be taken."""
        self.considered.append(cover)
        return cover

    def op_by_op(self) -> Cover | Rejection:
        """What eager code does: a kernel for every op, as the program has it.  However late it is, this is searched: a plan there is in any
        case.  Where a view looks at what is no kernel of its own, that is one, too; or rules may have moved the view."""
        asked, self.search = self.search, self._written_search
        try:
            with self.meter.unbounded():
                found = self._chain(self._ops(), "op by op")
                if isinstance(found, Rejection):
                    found = self._chain(self._ops(viewed=True), "op by op")
                if isinstance(found, Rejection):
                    self.search = asked
                    found = self._chain(self._ops(), "op by op")
                return found
        finally:
            self.search = asked

    def _ops(self, viewed: bool = False) -> tuple[int, ...]:
        """The classes that eager code makes by a kernel of their own, without the outputs; or with all that some view looks at."""
        terms, roots = set(eager_ops(self.program)), {o.cls for o in self.outputs}
        if viewed:
            seen = {t.args[0] for t in self.program.terms() if isinstance(t, View | Gather)}
            terms |= {t for t in seen if isinstance(t, Map | Cast | Reduce | Scan)}
        own = (c for t, c in zip(self.program.terms(), self.graph.original, strict=True) if t in terms and c not in roots)
        return tuple(dict.fromkeys(own))

    @cached_property
    def _written_search(self) -> KernelSearch:
        """A search of kernels in the program as written."""
        classes = tuple(tuple(n for n in row if n.rule is None) for row in self.graph.classes)
        search = KernelSearch(Chooser(replace(self.graph, classes=classes), self.meter), self.target, self.buffers)
        search.exact, search.register_shares = self.search.exact, self.search.register_shares
        return search

    def _fused(self, floor: Cover) -> Cover:
        """The plan op by op with one stored value less at a time while that pays, in the program as written, whose kernels are few."""
        asked, self.search = self.search, self._written_search
        with self.meter.within(math.inf, MOST_FUSED):
            found, *_ = self._fuse_along(self._removal_orders(self._ops())[-1], self._priced(floor), floor.us)
        self.search = asked
        return found

    def _quick(self) -> Cover | Rejection:
        """One kernel for all outputs, the first that fits."""
        cut_short = set(self.meter.cut_short)
        self.search.hasty = True
        with self.meter.within(math.inf, MOST_QUICK):
            found = self._kernel(tuple(self.outputs), {})
        self.search.hasty = False
        self.meter.cut_short = cut_short  # the search goes on
        return found if isinstance(found, Rejection) else Cover("one kernel, the first that fits", (found,))

    def _first_found(self) -> Cover | Rejection:
        """Some plan where neither the search nor a kernel for every op has one that may be, as verdicts or a limit of memory rule them
        out: fewer kernels, each the first that fits."""
        with self.meter.unbounded():
            found = self._quick()
            if isinstance(found, Rejection) or self.objective.best([found]) is None:
                self.search.hasty = True
                found = self._chain(self._points(), "one kernel per reduction")
                self.search.hasty = False
        return found

    def _chain(
        self, materialised: tuple[int, ...], description: str, outside: Mapping[int, Outside] | None = None, parted: bool = False
    ) -> Cover | Rejection:
        """One kernel per output and per materialised class that is needed, each reading earlier ones; ``outside`` classes are made
        by a call.  ``parted``: or two kernels, where an axis that is split over the grid makes these faster."""
        order = {c: k for k, c in enumerate(self.graph.original)}
        specs: dict[int, RootSpec] = {c: self._temporary(c, self.program.temporary(order[c])) for c in materialised}
        equal: dict[int, list[RootSpec]] = {}  # outputs that are one value are stored by one kernel
        for o in self.outputs:
            equal.setdefault(o.cls, []).append(o)
            specs[o.cls] = equal[o.cls][0]
        done: set[int] = set()
        sequence: list[Step] = []
        splits: dict[Split, None] = {}

        def apart(steps: Sequence[Step]) -> bool:
            return all(_made(k) == _made(steps[0]) or not _made(k) & _made(steps[0]) for k in sequence)

        def make(spec: RootSpec) -> Rejection | None:
            if spec.cls in done:
                return None
            mine = order.get(spec.cls, len(order))
            earlier = {c: s for c, s in specs.items() if c != spec.cls and order.get(c, len(order)) < mine}
            leaves = {c: self._leaf(s) for c, s in earlier.items() if self._keeps(s)}
            other = (outside or {}).get(spec.cls)
            roots = tuple(equal.get(spec.cls, (spec,)))
            if other is not None and len(roots) > 1:
                return Rejection("two outputs are one value")
            found = self._kernel(roots, leaves) if other is None else self._call(other, spec, leaves)
            two = self._in_parts(roots, leaves, found) if parted and other is None else None
            if two is not None and not apart(two.steps):  # the parts of one sum that are parts of two
                two = None
            if two is not None:
                steps: tuple[Step, ...] = two.steps
            elif isinstance(found, Rejection):
                return found
            else:
                steps = (found,)
            done.add(spec.cls)
            for s in specs.values():
                if any(s.buffer in k.loads for k in steps) and s.cls != spec.cls and (failed := make(s)) is not None:
                    return failed
            if not apart(steps):
                return Rejection("some partial results would be made twice")
            sequence.extend(_not_made(sequence, steps))
            splits.update(dict.fromkeys(two.splits if two is not None else ()))
            return None

        for c in equal:
            failed = make(specs[c])
            if failed is not None:
                return failed
        return Cover("; ".join([description, *map(str, splits)]), tuple(sequence), tuple(splits))

    def _call(self, outside: Outside, spec: RootSpec, leaves: Mapping[int, Leaf]) -> PlannedCall | Rejection:
        """The step that makes a value by an outside implementation."""
        order = {c: k for k, c in enumerate(self.graph.original)}
        name = f"{self.program.name}_{outside.offer.by}_{spec.buffer}"
        term = self.program.terms()[order[spec.cls]]
        index_ = tuple(index(0) if a is None else index(a) for a in spec.layout)
        accesses = self.chooser.accesses(leaves)
        found = planned_call(name, outside, term, (self.buffers[spec.buffer], index_), accesses, self.buffers, self.target)
        if isinstance(found, str):
            return Rejection(found)
        return Rejection(refused) if (refused := self.chooser.verdicts.against_call(spec.cls, found.loads, leaves)) else found

    def _with_calls(self, best: Cover | None) -> Cover | None:
        """The cover with outside implementations where they lower the price, added one at a time, best first."""
        available = [o for o in self.offers if o.cls in self.graph.original]
        self.refused.update(misfits(self.graph))
        for o in self.offers:
            if o.offer.by not in {a.offer.by for a in available}:
                self.refused[o.offer.by] = f"{spoken(o.offer)} for what is no value of the program as written"
        taken: dict[int, Outside] = {}
        while available and not self._late():
            covers = []
            for o in available:
                using = {**taken, o.cls: o}
                needed = tuple(c for u in using.values() for c in (u.cls, *u.reads) if c in self.graph.original)
                for more in ((), self._points()):
                    inputs = {c for t, c in zip(self.program.terms(), self.graph.original, strict=True) if isinstance(t, Input)}
                    points = tuple(dict.fromkeys(c for c in (*needed, *more) if c not in inputs))
                    roots = {r.cls for r in self.outputs}
                    described = f"{', '.join(u.offer.by for u in using.values())} outside"
                    found = self._chain(tuple(c for c in points if c not in roots), described, using)
                    if isinstance(found, Cover) and not any(isinstance(k, PlannedCall) for k in found.steps):
                        found = Rejection("nothing uses it")
                    if isinstance(found, Rejection):
                        self._note(None, f"{o.offer.by} outside", found.reason)
                        self.refused[o.offer.by] = found.reason if o.offer.by in found.reason else f"{o.offer.by}: {found.reason}"
                    else:
                        covers.append((o, found))
                        before = self.offered.get(o.offer.by)
                        if before is None or found.us < before[1].us:
                            self.offered[o.offer.by] = (o, found)
            if not covers:
                break
            o, found = min(covers, key=lambda c: c[1].us)
            if best is not None and found.us >= best.us * (1 - 1e-9):
                self._note(found, found.description, self._lost(found, best))
                break
            best, taken[o.cls] = found, o
            available = [other for other in available if other.cls not in taken]
        return best

    def _points(self) -> tuple[int, ...]:
        """Classes worth materialising: the program's own reductions and scans, the finished operands of its matrix products (what a
        product would otherwise compute once for every tile of its other side), inputs without neighbours in memory, of which a copy has
        some, and what verdicts keep apart; but nothing that stands between two values that must share a kernel."""
        roots = {o.cls for o in self.outputs}
        reduced: set[int] = set()  # terms with a reduction below
        operands: set[int] = set()
        found: dict[int, None] = {}
        for t in self.program.terms():
            if isinstance(t, Reduce | Scan) or any(id(a) in reduced for a in t.args):
                reduced.add(id(t))
            if is_contraction(t):
                operands.update(id(a) for a in t.args[0].args if id(a) in reduced)
        for t, c in zip(self.program.terms(), self.graph.original, strict=True):
            worth = isinstance(t, Reduce | Scan) and t.axis in t.args[0].axes
            apart = isinstance(t, Map | Reduce | Scan) and c in self._kept_apart
            gaps = isinstance(t, Input) and t.dtype.is_float and bool(self.buffers[t.name].memory) and self.buffers[t.name].fastest is None
            if c not in roots and (worth or apart or gaps or (id(t) in operands and isinstance(t, Map))):
                found[c] = None
        return tuple(c for c in found if c not in self._between)

    @cached_property
    def _kept_apart(self) -> frozenset[int]:
        """What verdicts that forbid have stored: of a pair the value that the other is computed from, or, where that one must share a
        kernel with its user, what lies between."""
        found: set[int] = set()
        for p in self.chooser.verdicts.forbidden:
            path = self._path(p) or self._path(replace(p, outer=p.inner, inner=p.outer)) or {p.inner}
            lowest = {p.inner, p.outer} & path
            found |= path if lowest & self._between else lowest
        return frozenset(found)

    @cached_property
    def _between(self) -> frozenset[int]:
        """Classes whose storing would part two values that must share a kernel: the inner one, and what lies between."""
        return frozenset(c for p in self.chooser.verdicts.required for c in self._path(p))

    def _path(self, p: Pair) -> set[int]:
        """The inner value of a pair and the classes between it and the outer one, which is left out; empty if that does not use it."""
        terms = dict(zip(self.graph.original, self.program.terms(), strict=True))
        number = {id(t): c for t, c in zip(self.program.terms(), self.graph.original, strict=True)}
        if p.outer not in terms or p.inner not in terms:
            return set()
        inner = terms[p.inner]
        return {number[id(t)] for t in postorder(terms[p.outer]) if any(s is inner for s in postorder(t))} - {p.outer}

    def _floor(self, points: tuple[int, ...]) -> float:
        """What a cover that stores these classes cannot beat: for every kernel its memory traffic and the matrix products between
        its leaves and its root.  An estimate on the program as written; it only saves searching.
        """
        terms = dict(zip(self.graph.original, self.program.terms(), strict=True))
        stored = {id(terms[c]) for c in points}
        total = 0.0
        for root in (*(terms[c] for c in points), *(o.term for o in self.program.outputs)):
            seen: set[int] = set()
            bytes_, us, stack = _bytes(root), 0.0, [root]
            while stack:
                t = stack.pop()
                if id(t) in seen:
                    continue
                seen.add(id(t))
                if isinstance(t, Input) or (t is not root and id(t) in stored):
                    bytes_ += _bytes(t)
                    continue
                if is_contraction(t):
                    us += contraction_us(t, self.target)
                stack.extend(t.args)
            total += max(bytes_ / (self.target.dram_gb_s * 1e3), us) + self.target.launch_us
        return total

    def _greedy(self, limit: float) -> list[Cover] | Rejection:
        """Start with every value stored that may pay on its own; then fuse one at a time while the time falls.  The fastest cover, and
        those that hold less, as far as the objective asks for them.

        ``limit``: the time of the best cover so far; what cannot beat it is not searched.
        """
        points = tuple(p for p in self._points() if self._floor((p,)) < limit)
        if len(points) < len(self._points()):
            self._note(None, "more kernels", f"storing {len(self._points()) - len(points)} of the reductions cannot pay for itself")
        if not points and limit < math.inf and (len(self.outputs) == 1 or self._floor(()) >= limit):
            return Rejection("no reduction is worth storing")
        first = self._chain(points, "one kernel per reduction", parted=True)
        if isinstance(first, Rejection):
            return first
        best, kept, before = self._priced(first), list(points), first
        for order in self._removal_orders(points):
            found, left, last = self._fuse_along(order, first, limit)
            if found.us < best.us * (1 - 1e-9):
                best, kept, before = found, left, last
        if best is not first:
            self._note(first, first.description, self._lost(first, best))
        close = before is not best and before.us <= NEARLY * best.us  # side by side its kernels may still be better
        return [best, *self._leaner(best, kept, min(limit, best.us)), *((before,) if close else ())]

    def _apart(self) -> list[Cover]:
        """One kernel for each output with nothing stored between, and these merged as far as that pays.  Where several outputs are made of
        one large value, what lies between this and storing it is dearer than either, so no single step leads here."""
        if len({o.cls for o in self.outputs}) == 1:
            return []
        found = self._within(ONE_SHARE, lambda: self._chain((), "one kernel per output", parted=True))
        if isinstance(found, Rejection):
            self._note(None, "one kernel per output", found.reason)
            return []
        merged = self._merge(found)
        return [self._priced(found), *([self._priced(merged)] if merged is not found else [])]

    def _fuse_along(self, order: list[int], first: Cover, limit: float) -> tuple[Cover, list[int], Cover]:
        """Fuse stored values in an order, again and again, as long as the time falls; what is stored then; and the last cover but one."""
        best, kept, before, improved = first, order, first, True
        while improved and not self._late():
            improved = False
            for p in order:
                fewer = [q for q in kept if q != p]
                if p not in kept or self._late() or self._floor(tuple(fewer)) >= min(limit, best.us):
                    continue
                found = self._stored(fewer)
                if isinstance(found, Cover) and found.us < best.us * (1 - 1e-9):
                    before, best, kept, improved = best, found, fewer, True
        return best, kept, before

    def _leaner(self, best: Cover, kept: list[int], least: float) -> list[Cover]:
        """From the best cover on, what holds less for the least time: as long as the objective wants less, or the model cannot tell its
        time from the ``least`` known."""
        found: list[Cover] = []
        while kept and not self._late():
            most = TIE * least if self.objective.lean(best) else math.inf
            ways = {p: [q for q in kept if q != p] for p in kept}
            made = {p: self._stored(fewer) for p, fewer in ways.items() if self._floor(tuple(fewer)) < most and not self._late()}
            able = {p: c for p, c in made.items() if isinstance(c, Cover) and c.us <= most and c.temporary_bytes < best.temporary_bytes}
            if not able:
                break
            p = min(able, key=lambda p: able[p].us)
            best, kept = able[p], ways[p]
            found.append(best)
        return found

    def _stored(self, points: list[int]) -> Cover | Rejection:
        """The cover that stores some values."""
        parted = self.search is not self._written_search
        found = self._chain(tuple(sorted(points)), f"{plural(len(points), 'value')} stored", parted=parted)
        return self._priced(found) if isinstance(found, Cover) else found

    def _removal_orders(self, points: tuple[int, ...]) -> list[list[int]]:
        """Later values first; and, where a pointwise function of a matrix product may be stored, the product itself first, so that
        the function joins the product as its epilogue and not the next product's loop."""
        terms = dict(zip(self.graph.original, self.program.terms(), strict=True))
        maps = [terms[p] for p in points if isinstance(terms[p], Map)]
        early = [p for p in points if isinstance(terms[p], Reduce) and any(terms[p] in postorder(m) for m in maps)]
        late = list(reversed(points))
        return [late, [*reversed(early), *(p for p in late if p not in early)]] if early else [late]

    def _partials(self, row: Row, roots: tuple[RootSpec, ...], leaves: Mapping[int, Leaf]) -> list[RootSpec]:
        """What may be stored between the two kernels that make some roots of some leaves."""
        found = self.partials.below(row, [r.cls for r in roots], leaves)
        return [self._temporary(c, self.partial_names.setdefault(c, f"part{len(self.partial_names)}")) for c in found]

    def _split(
        self,
        row: Row,
        roots: tuple[RootSpec, ...],
        leaves: Mapping[int, Leaf] = MappingProxyType({}),
        models: tuple[PlannedKernel, PlannedKernel] | None = None,
    ) -> Cover | Rejection:
        """Partial results over the inner axis, one per outer position, then their merge; with the roles of two kernels if given."""
        axis, outer, inner = row
        partials = self._partials(row, roots, leaves)
        if not partials:
            return Rejection(f"no partial results over {inner.name}")
        both = {**leaves, **{p.cls: self._leaf(p) for p in partials}}
        merge = self._kernel(roots, both, models and models[1])
        if isinstance(merge, Rejection):
            return merge
        nodes = merge.kernel.nodes
        if any(n.reduction and axis in nodes[n.args[0]].axes for n in nodes):
            # x - max x, with x a sum that either kernel adds up in its own order, would be an error of x where it should be zero
            return Rejection(f"elements along {axis.name} would be summed again, in another order than for the parts")
        loaded = {n.attrs[0] for n in merge.kernel.nodes if n.op == "load"}
        stored = tuple(p for p in partials if p.buffer in loaded)
        if not stored:
            return Rejection("the merge does not use partial results")
        first = self._kernel(stored, leaves, models and models[0])
        if isinstance(first, Rejection):
            return first
        refused = self.chooser.verdicts.against_parts([r.cls for r in roots], {*first.loads, *merge.loads}, leaves)
        if refused:
            return Rejection(refused)
        split = Split(axis.name, outer.size, self.partials.among(axis))
        return Cover(f"{axis.name} split over the grid into {plural(outer.size, 'part')}", (first, merge), (split,))

    def _in_parts(
        self, roots: tuple[RootSpec, ...], leaves: Mapping[int, Leaf], whole: PlannedKernel | PlannedCall | Rejection
    ) -> Cover | None:
        """The two kernels that take the place of one, if some split of some axis makes these faster."""
        least = 2 * self.target.launch_us
        if not self.partials.rows or (not isinstance(whole, Rejection) and whole.cost.us <= least):
            return None
        key = roots, tuple(sorted((c, leaf.buffer) for c, leaf in leaves.items()))
        if key not in self.parted:
            best: Cover | None = None
            most = math.inf
            if not isinstance(whole, Rejection):
                most = whole.cost.us
                least += whole.cost.dram_bytes / (self.target.dram_gb_s * 1e3)
            for row in self.partials.rows:
                if most > REST * least and not self._late():
                    found = self._split(row, roots, leaves)
                    if isinstance(found, Cover) and found.us < most * (1 - 1e-9):
                        best, most = found, found.us
            self.parted[key] = best
        return self.parted[key]

    def like(self, model: Plan) -> Plan:
        """The same kernels for other extents: every kernel of ``model`` with its roots, leaves, roles and tiles."""
        specs = {o.buffer: o for o in self.outputs}
        for k, c in enumerate(self.graph.original):
            name = self.program.temporary(k)
            if any(b.name == name for m in model.steps for b in m.stores):
                specs[name] = self._temporary(c, name)
        steps: list[Step] = []
        splits: list[Split] = []
        partial: list[PlannedKernel] = []  # of the model, whose results later kernels merge
        for m in model.steps:
            missing = [b.name for b in m.stores if b.name not in specs]
            if missing and isinstance(m, PlannedKernel) and m.kernel.splits:
                partial.append(m)
                continue
            if missing:
                raise PlanError(f"the program at these sizes has no {missing[0]!r}", cure="call optimize() for them")
            parts = next((p for p in partial if _made(p) & m.loads), None)
            leaves = {s.cls: self._leaf(s) for b, s in specs.items() if b in m.loads or (parts is not None and b in parts.loads)}
            if isinstance(m, PlannedCall):
                steps.append(self._same_call(m, specs[m.call.result.buffer.name], leaves))
                continue
            roots = tuple(specs[r.buffer] for r in m.kernel.roots)
            if parts is not None:
                row = self.partials.like(parts.kernel)
                two = Rejection("nothing is split there") if row is None else self._split(row, roots, leaves, (parts, m))
                if isinstance(two, Rejection):
                    raise PlanError(f"the split plan cannot be made for these sizes: {two.reason}", cure="call optimize() for them")
                steps.extend(_not_made(steps, two.steps))
                splits.extend(s for s in two.splits if s not in splits)
                continue
            found = self._kernel(roots, leaves, m)
            if isinstance(found, Rejection):
                raise PlanError(f"{m.kernel.name} cannot be made for these sizes: {found.reason}", cure="call optimize() for them")
            steps.append(found)
        return self._plan(Cover("like another plan", tuple(steps), tuple(splits)), "like", model.launches)

    def _same_call(self, model: PlannedCall, spec: RootSpec, leaves: Mapping[int, Leaf]) -> PlannedCall:
        """The call of another plan at these extents."""
        for o in self.offers:
            if o.cls == spec.cls and o.offer.by == model.rule:
                found = self._call(o, spec, leaves)
                if isinstance(found, PlannedCall) and found.loads == model.loads:
                    return found
        raise PlanError(f"{model.rule} offers nothing for {spec.buffer} at these sizes", cure="call optimize() for them")

    def _late(self) -> bool:
        late = self.timed_out or self.meter.late()
        self.timed_out = late and (self.timed_out or self.meter.deadline == self.meter.end)
        return late

    def _merge(self, cover: Cover) -> Cover:
        """Join kernels that can share loops, when one kernel costs less than two.  One may read what the other stores: together they
        compute it once, and store it for the kernels after them."""
        kernels = list(cover.steps)
        between = {*self.partial_names.values()}  # the two kernels of a split stay as they are
        specs = {s.buffer: s for s in (*self.outputs, *self.temporaries.values())}
        changed = True
        while changed and not self._late():
            changed = False
            for i in range(len(kernels)):
                for j in range(i + 1, len(kernels)):
                    a, b = kernels[i], kernels[j]
                    if isinstance(a, PlannedCall) or isinstance(b, PlannedCall) or between & {*a.loads, *b.loads, *_made(a), *_made(b)}:
                        continue
                    stored = {r.buffer for r in a.kernel.roots}
                    if stored & {name for k in kernels[i + 1 : j] for name in k.loads}:
                        continue
                    kept = stored & {*(o.buffer for o in self.outputs), *(name for k in kernels[j + 1 :] for name in k.loads)}
                    roots = tuple(specs[r.buffer] for r in (*a.kernel.roots, *b.kernel.roots) if r.buffer in kept or r in b.kernel.roots)
                    loaded = {n.attrs[0] for k in (a, b) for n in k.kernel.nodes if n.op == "load"} - stored
                    leaves = {s.cls: self._leaf(s) for s in specs.values() if s.buffer in loaded}
                    found = self._kernel(roots, leaves)
                    if isinstance(found, PlannedKernel) and found.cost.us < (a.cost.us + b.cost.us) * (1 - 1e-9):
                        kernels[j] = found
                        del kernels[i]
                        changed = True
                        break
                if changed:
                    break
        return replace(cover, steps=tuple(kernels)) if len(kernels) < len(cover.steps) else cover

    def _lost(self, cover: Cover, best: Cover) -> str:
        """Why a cover lost: slower, or faster but with more memory than may be held, or by too little to count."""
        slower = cover.us - best.us
        if slower >= 0:
            return f"{slower:.1f} us slower: {_why(cover)}"
        holds = f"holds {bytes_text(cover.temporary_bytes)} of temporary memory"
        if cover.temporary_bytes > self.objective.limit:
            return f"{-slower:.1f} us faster but {holds}, and {bytes_text(int(self.objective.limit))} are the limit"
        if self.objective.by == "memory":
            return f"{-slower:.1f} us faster but {holds}"
        if self.objective.held(cover.temporary_bytes) <= self.objective.held(best.temporary_bytes):
            holds = f"has {plural(len(cover.steps), 'kernel')}"
        return f"{-slower:.1f} us faster, less than the model can tell, and {holds}"

    def _within(self, share: float, search: Callable[[], Cover | Rejection]) -> Cover | Rejection:
        """A search that ends after a share of the time: what fuses everything must leave time to fuse less.  The share is counted in
        work: by a clock, a slow machine would make another plan.  Only if it is far slower than a count says, or the time far too short,
        a clock ends it."""
        with self.meter.within(share * self.time_budget * RATE, MOST_ONE):
            return search()

    # -- all of it -----------------------------------------------------------------------------------------------------------
    def run(self) -> Plan:
        """The best cover found."""
        bound = self.baseline.bound_us + self.target.launch_us
        stopped = "exhausted"
        covers: list[Cover] = []
        for needs, bars in self.chooser.verdicts.conflicts:
            raise PlanError(
                f"{needs.by} requires and {bars.by} forbids that two values of {self.program.name!r} share a kernel",
                cure=f"leave out one of them: {told(needs.by)}, or {told(bars.by)}",
            )
        floor = None
        if OP_WORK * len(self._ops()) > SCARCE * RATE * max(self.meter.left(), 0.0):
            # what there is in any case is made while there is time; a kernel for everything that is known to beat it takes less
            quick = self._quick()
            if isinstance(quick, Cover) and quick.us <= self.baseline.us and self.objective.lean(quick):
                self._priced(quick)
            else:
                floor = self.op_by_op()
        one = self._within(ONE_SHARE, self._one)
        if isinstance(one, Rejection):
            self._note(None, "one kernel", one.reason)
        else:
            covers.append(one)
        rest = REST * (self.baseline.bound_us + 2 * self.target.launch_us)
        for row in self.partials.rows:
            described = f"{row[0].name} split over the grid into {plural(row[1].size, 'part')}"
            if any(c.us <= rest for c in covers if c.splits):
                self._note(None, described, "another number of parts is as good as can be")
                continue
            share = min(ONE_SHARE, SPLITS_SHARE / len(self.partials.rows))
            found = self._within(share, lambda r=row: self._split(r, tuple(self.outputs)))  # type: ignore[misc]
            if isinstance(found, Rejection):
                self._note(None, described, found.reason)
            else:
                covers.append(self._priced(found))
        if isinstance(floor, Cover) and min((c.us for c in covers), default=math.inf) > floor.us:
            covers.append(self._fused(floor))
        enough = min(CLOSE * bound, self.baseline.us)
        if any(c.us <= enough and self.objective.lean(c) for c in covers):
            stopped = "bound"
        elif len(self._points()) + len(self.outputs) > 1:
            covers += self._apart()
            greedy = self._greedy(min((c.us for c in covers), default=math.inf))
            if isinstance(greedy, Rejection):
                self._note(None, "one kernel per reduction", greedy.reason)
            else:
                merged = [self._merge(c) for c in greedy]
                covers.extend((*greedy, *(self._priced(m) for m in merged if m not in greedy)))
            if self.timed_out:
                stopped = "time"
        if min((c.us for c in self.considered), default=math.inf) > self.baseline.us:  # which products of ours may not reach
            floor = floor or self.op_by_op()
            if isinstance(floor, Cover):
                covers.append(self._priced(floor))
        known = min(covers, key=lambda c: c.us, default=None)
        called = self._with_calls(known)
        if called is not None and called is not known:
            covers.append(self._priced(called))
        else:
            called = None
        if self.meter.cut_short and self.objective.best(self.considered) is None:
            found = self._first_found()
            if isinstance(found, Cover):
                covers.append(self._priced(found))
            else:
                self._note(None, "the first kernels that fit", found.reason)
        if self.timed_out or "time" in self.meter.cut_short:
            stopped = "time"
        elif self.meter.cut_short:
            stopped = "work"
        if not self.considered:
            reasons = "; ".join(dict.fromkeys(r.reason for r in self.rejected))
            cure = self.chooser.verdicts.cure(reasons)
            raise PlanError(f"no kernel computes {self.program.name!r} on {self.target.name}: {reasons}", cure=cure)
        best = self.objective.best([called] if called else []) or self.objective.best(self.considered)  # an offer that pays wins ties
        if best is None:
            least = min(c.temporary_bytes for c in self.considered)
            raise PlanError(
                f"no plan of {self.program.name!r} that the search found holds {bytes_text(int(self.objective.limit))} or less",
                cure=f"memory_limit={least}, or more",
            )
        for c in covers:
            if c is not best and c.steps != best.steps:
                self._note(c, c.description, self._lost(c, best))
        whole = self._not_split(best) if best.splits and self.objective.by == "time" else best
        return self._plan(min(best, whole, key=self._launched_us), stopped)

    def _launched_us(self, cover: Cover) -> float:
        """Modelled time of a cover with its launches."""
        most = max(self.objective.limit, cover.temporary_bytes)
        return sum(one.us for one in launches(cover.steps, self.target, most)) or cover.us

    def _not_split(self, cover: Cover) -> Cover:
        """The cover with one kernel for two that split an axis: to fill a device, for which a launch of several kernels needs no parts.
        The cover itself where there is none, or it holds too much: what the parts are made of is held until their merge is stored."""
        specs = {s.buffer: s for s in (*self.outputs, *self.temporaries.values())}
        partial = {*self.partial_names.values()}
        makers = [k for k in cover.steps if _made(k) <= partial]
        steps: list[Step] = []
        for k in cover.steps:
            mine = [first for first in makers if _made(first) & k.loads]
            if mine and isinstance(k, PlannedKernel):
                loaded = k.loads.union(*(first.loads for first in mine)) - partial
                leaves = {s.cls: self._leaf(s) for s in specs.values() if s.buffer in loaded}
                found = self._kernel(tuple(specs[r.buffer] for r in k.kernel.roots), leaves)
                if isinstance(found, Rejection):
                    return cover
                steps.append(found)
            elif k not in makers:
                steps.append(k)
        whole = replace(cover, description="no axis split", steps=tuple(steps), splits=())
        return cover if whole.temporary_bytes > self.objective.limit else whole

    def _noted(self, planned: PlannedKernel) -> PlannedKernel:
        """The kernel with its header: the equations it computes, the rules behind it, the bytes it moves."""
        original = dict(zip(self.graph.original, self.program.terms(), strict=True))
        specs = {s.buffer: s for s in (*self.outputs, *self.temporaries.values())}
        computed = {r.buffer: original[specs[r.buffer].cls] for r in planned.kernel.roots if specs[r.buffer].cls in original}
        lines = equations(computed)
        lines += [f"{r.buffer}: a partial result" for r in planned.kernel.roots if r.buffer not in computed]
        notes = {"": "\n".join(lines)}
        if planned.rules:
            notes["rules"] = ", ".join(planned.rules)
        notes["moves"] = f"{bytes_text(planned.cost.dram_bytes)} of memory for the planned sizes; bound by {planned.cost.bound}"
        kernel = replace(planned.kernel, notes=notes)
        return replace(planned, kernel=kernel, tiles=replace(planned.tiles, kernel=kernel))

    def _not_taken(self, best: Cover) -> tuple[str, ...]:
        """Why each offer that was made is not in the plan: no plan with it exists, or it lost."""
        taken = {k.rule for k in best.steps if isinstance(k, PlannedCall)}
        said = [why for by, why in self.refused.items() if by not in self.offered and by not in taken]
        lost = [(o, c) for by, (o, c) in self.offered.items() if by not in taken]
        said += [f"{spoken(o.offer)} for {c.us:.1f} us in all, {self._lost(c, best)}" for o, c in lost]
        late = {o.offer.by: o for o in self.offers if o.offer.by not in {*self.offered, *self.refused, *taken}}
        return (*said, *(f"{spoken(o.offer)}, but time_budget ran out before it was tried" for o in late.values() if self.timed_out))

    def _plan(self, best: Cover, stopped: str, model: tuple[Launch, ...] | None = None) -> Plan:
        """The plan of a cover, with the launches of ``model`` if there is one."""
        best = replace(best, steps=tuple(self._noted(k) if isinstance(k, PlannedKernel) else k for k in best.steps))
        used = {b.name for k in best.steps for b in k.stores} | {i.name for i in self.program.inputs}
        if model is None:
            limit = self.objective.limit if self.objective.by == "time" else 0
            found = launches(best.steps, self.target, max(limit, best.temporary_bytes))
        else:
            found = launches_like(best.steps, self.target, model)
        check_launches(best.steps, found)
        return Plan(
            program=self.program,
            target=self.target.name,
            steps=best.steps,
            buffers={n: b for n, b in self.buffers.items() if n in used},
            dram_bytes=best.dram_bytes,
            compulsory_bytes=self.baseline.compulsory_bytes,
            baseline_bytes=self.baseline.dram_bytes,
            baseline_kernels=self.baseline.kernels,
            estimated_us=sum(one.us for one in found) if found else best.us,
            baseline_us=self.baseline.us,
            splits=best.splits,
            stopped=stopped,
            saturation=self.graph.report.stopped,
            temporary_bytes=held(tuple(best.steps[k] for k in one.steps) for one in found) if found else best.temporary_bytes,
            launches=found,
            front=tuple(_alternative(c) for c in self.objective.front(self.considered)),
            alternatives=tuple(sorted(self.rejected, key=lambda a: a.us)),
            refused=self._not_taken(best),
            decisions=self.chooser.verdicts.decided(best.steps),
        )


def _bytes(t: Term) -> int:
    return math.prod(a.size for a in t.axes) * (t.dtype.itemsize if t.dtype else 4)


def _made(k: Step) -> set[str]:
    return {b.name for b in k.stores}


def _not_made(steps: Sequence[Step], more: Sequence[Step]) -> list[Step]:
    """Those that store something new: partial results of one value serve all that merge them."""
    stored = {name for k in steps for name in _made(k)}
    return [k for k in more if not _made(k) <= stored]


def _alternative(cover: Cover, reason: str = "") -> Alternative:
    return Alternative(cover.description, len(cover.steps), cover.us, cover.dram_bytes, reason, cover.temporary_bytes)


def _why(cover: Cover) -> str:
    worst = max(cover.steps, key=lambda k: k.cost.us)
    name = worst.kernel.name if isinstance(worst, PlannedKernel) else worst.call.name
    return f"{plural(len(cover.steps), 'kernel')}, {name} is bound by {worst.cost.bound}"


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

    ``time_budget`` is CPU seconds, ``deadline`` the process time to be done by if that is earlier; a plan there is in any case, at worst
    a kernel for every op, however long that takes.  ``objective`` is what plans are compared by, "time" or "memory",
    and ``memory_limit`` the bytes that one may hold beside inputs and outputs (:mod:`.objective`); PlanError if every plan found holds
    more.  ``exact``: kernels compute what is written, to the bit.
    ``register_shares``: by the buffers that a kernel stores, the share of the registers that its tiles may take (less than 1 where a
    compiler needs more than the model counts).
    """
    extractor = Extractor(
        graph, target, time_budget=time_budget, objective=objective, memory_limit=memory_limit, deadline=deadline
    )  # fmt: skip
    extractor.search.exact = exact
    extractor.search.register_shares = register_shares
    return replace(extractor.run(), register_shares=register_shares)


def extract_like(graph: FrozenGraph, target: Target, model: Plan) -> Plan:
    """A plan with the kernels, roles and tiles of ``model`` for other extents of the same program.

    Raises :class:`~eqfuse.errors.PlanError` if the program has another structure at these sizes.
    """
    extractor = Extractor(graph, target, time_budget=math.inf)
    extractor.search.exact = model.licence == "exact"
    return extractor.like(model)
