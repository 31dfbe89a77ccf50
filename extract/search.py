"""The tile search: roles and tile sizes of one kernel, by coordinate descent over lowered candidates.

A candidate is priced by walking its tile program, so the search sees what will be printed: masks, reloads per pass, operands on chip.
Of candidates that differ in tile sizes only, most have one program but for its numbers, which is lowered once (:mod:`..tiles.tilings`).
Role *kinds* decide the choice of nodes and are enumerated; tile sizes are descended.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType

from ..egraph.frozen import FrozenGraph
from ..errors import PlanError
from ..ir.dtypes import DType
from ..ir.index import Axis, index
from ..tiles.centres import centres, counted
from ..tiles.finish import finish
from ..tiles.kernel import Buffer, Kernel, Node, Role, Root
from ..tiles.lower import lower
from ..tiles.order import choose_order, order_penalty
from ..tiles.tilings import Tilings
from ..tiles.walk import Counts
from .budgets import Budget
from .choose import Chooser, Leaf, recast
from .cost import Fit, fit, launchable, launched_with, may_compile, persistent, pipelined, price, registers, running
from .grouping import grouped, parts_of_place
from .plan import Cost, PlannedKernel
from .program_order import ordered
from .reindexing import Places, reindexings
from .splits import busy
from .structure import Structure, analyse, reachable
from .targets import Target
from .traffic import for_waves

RESIDENT_LIMIT = 16384  # longest axis kept whole on chip
CONTRACTED_RESIDENT_LIMIT = 256  # longest contracted axis kept whole on chip
LONG_LIMIT = 65536  # the same for rows that a CPU goes over one by one: a quarter of a megabyte
SIDES = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # positions of an axis that is packed with others into the rows or columns of a product
LEAST_SIDE = 16  # rows or columns of a product on a matrix unit
RUNS = (64, 256, 1024, 4096)  # elements that a CPU reads in one piece, as vectors; it takes the lanes of other axes one by one
ROUNDS = 3
# rows or columns, and positions of a streamed axis, that kernels with products start from.  With the last, three stages of two operands 128
# wide in 16 bits take 48 KB: two programs share a multiprocessor of an H200 or an A100, and one fits that of an MI300X (64 KB).
STARTS = ((128, 64), (128, 128), (128, 32))
FIRST_ORDERS, FIRST_STARTS = 6, 2  # orders of dims, and starts, that are tried where the first kernel that fits is taken
DESCRIBED = 20  # tensor descriptors are for kernels that take so many times what a launch takes longer for one
TIE = 1e-3  # times that differ by this share are the same
TELLS = 0.03  # and by this share are not told apart, where one of two kernels moves less (docs/decisions/cost_model.md)
LEANER = 0.95  # of two candidates that take the same time, one with at most this share of the bytes or the arithmetic is better
HOPELESS = 1.2  # a kernel with products whose best start takes so many times what it may take is not searched for tiles
ROUGH = 1.08  # what a kernel takes at the best of its starts, over what it takes at the best tiles: of ten kernels nine take less
FIRST, STARTS_ONLY, ALL = "the first that fits", "the best of the starts", "the best of all"  # what is looked for
NEAR = 1.3  # another form of a kernel is searched for tiles if it costs at most this factor at the tiles of the first form


@dataclass(frozen=True)
class RootSpec:
    """A class to store: its buffer name, layout and element type."""

    cls: int
    buffer: str
    layout: tuple[Axis | None, ...]
    dtype: DType


@dataclass(frozen=True)
class Refusal:
    """Why one candidate is no kernel: lowering refused it (``over`` is 0), or it needs ``over`` bytes more of a resource than there
    are.  ``tile`` are the axes of its largest value on chip with their tile sizes, ``cls`` the class of that value."""

    reason: str
    roles: Mapping[str, str]
    resource: str = ""
    over: int = 0
    tile: tuple[tuple[str, int], ...] = ()
    cls: int | None = None

    @property
    def tile_bytes(self) -> int:
        """Bytes of the largest tile in float32."""
        return 4 * math.prod(n for _, n in self.tile)


@dataclass(frozen=True)
class Rejection:
    """Why no kernel was found; ``refusals`` are the candidates that were tried.  ``cut``: the search ended before it could tell.
    ``beaten``: there may be one, but it would take longer than it may."""

    reason: str
    refusals: tuple[Refusal, ...] = ()
    cut: bool = False
    beaten: bool = False


BEATEN = Rejection("it would take longer than what is known", beaten=True)


class _Parts:
    """Which axis is which in the programs that one function makes at several sizes.  The parts of an axis have its place."""

    def __init__(self, splits: Iterable[tuple[Axis, Axis, Axis]]) -> None:
        self.part: dict[Axis, int] = {}
        for whole, outer, inner in splits:  # a second outer axis of one inner axis is for the parts before one
            self.part[outer] = 3 if inner in self.part else 1
            self.part |= {whole: 0, inner: 2}

    def __call__(self, a: Axis) -> tuple[int | str, int]:
        return a.place, self.part.get(a, 0)


class _Alike(_Parts):
    """The same for a kernel-to-be beside another, whose axes are ``known``: where that one takes an axis by groups, and here is one group,
    or groups of one, the axis is whole, and in the place of the part that is left."""

    def __init__(self, splits: Iterable[tuple[Axis, Axis, Axis]], s: Structure, known: Collection[tuple[int | str, int]]) -> None:
        super().__init__(splits)
        self.batch, self.known = s.batch, known

    def __call__(self, a: Axis) -> tuple[int | str, int]:
        place = super().__call__(a)
        group, in_group = ((of, 0) for of in parts_of_place(a.rank))
        left = group if a in self.batch else in_group
        return left if place not in self.known and left in self.known else place


@dataclass
class _Candidate:
    roles: dict[Axis, Role]
    kernel: Kernel
    counts: Counts
    cost: Cost

    @property
    def passes(self) -> dict[str, int]:
        """Loops over each streamed axis."""
        return {a.name: n for a, n in self.counts.passes.items()}

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that made its nodes."""
        return tuple(dict.fromkeys(n.rule for n in self.kernel.nodes if n.rule))

    def planned(self) -> PlannedKernel:
        """The candidate as a step of a plan."""
        return PlannedKernel(self.kernel, finish(lower(self.kernel)), self.cost, self.rules, self.passes)


def _misfit(fitted: Fit, kernel: Kernel) -> Refusal:
    def tile(n: Node) -> tuple[tuple[str, int], ...]:
        return tuple((a.name, kernel.roles[a].tile) for a in sorted(n.axes) if a in kernel.roles and kernel.roles[a].tile > 1)

    largest = max(kernel.nodes, key=lambda n: math.prod(size for _, size in tile(n)))
    roles = {a.name: str(r) for a, r in kernel.roles.items()}
    return Refusal(fitted.reason, roles, fitted.resource, fitted.over, tile(largest), largest.cls)


def power(n: int) -> int:
    """The smallest power of two that is at least n (1 for n <= 1)."""
    return 1 << max(0, (n - 1).bit_length())


class KernelSearch:
    """Finds the cheapest kernel for some roots, given what is already stored.  Results are remembered."""

    def __init__(
        self,
        chooser: Chooser,
        target: Target,
        buffers: Mapping[str, Buffer],
        exact: bool = False,
        register_shares: Mapping[tuple[str, ...], float] = MappingProxyType({}),
    ) -> None:
        self.chooser, self.target, self.buffers = chooser, target, buffers
        self.centres = centres(chooser.graph)
        self.memo: dict[tuple[object, ...], PlannedKernel | Rejection] = {}
        self.ordered: dict[frozenset[Axis], tuple[tuple[Axis, ...], tuple[int, ...]]] = {}  # dims -> the last order found, its penalty
        self.exact = exact  # kernels compute what is written, to the bit
        self.register_shares = register_shares  # what :func:`.cost.fit` may use, by the buffers a kernel stores
        self.meter = chooser.meter
        self.least_side = 1 if target.on_cpu else LEAST_SIDE
        self.fastest = math.inf  # of the candidates of a kernel: what moves less may be so much slower as is not told apart, not more
        self.effort = ALL
        self.limit = math.inf  # what the kernel that is looked for may take
        self.gave_up = False  # a form of it was not climbed, as it would take longer
        self.least: dict[tuple[object, ...], float] = {}  # what kernels that were given up take at least, as far as is known
        self.forms: dict[tuple[object, ...], _Form] = {}  # of the kernels looked for so far
        self.copies = True  # numbers of rows are counted with their copies (:func:`.cost.fit`)
        self.too_many_copies = False  # and refused something that would fit without
        self.listed: list[_Candidate] | None = None  # every candidate that was priced, if anybody wants more than the best

    @property
    def hasty(self) -> bool:
        """Whether the first candidate that fits is taken."""
        return self.effort == FIRST

    @contextmanager
    def at(self, effort: str) -> Iterator[None]:
        """A part of the search that looks for the first kernel that fits, or for the best of the starts."""
        before, self.effort = self.effort, effort
        try:
            yield
        finally:
            self.effort = before

    def _asked(self, roots: tuple[RootSpec, ...], leaves: Mapping[int, Leaf]) -> tuple[tuple[object, ...], dict[int, Leaf]]:
        """What a kernel is remembered by, and the leaves that matter to it: not what lies behind others."""
        below = set(reachable(self.chooser.graph, tuple(r.cls for r in roots), leaves))
        able = {c: leaf for c, leaf in leaves.items() if c in below}
        return (roots, tuple(sorted((c, leaf.buffer) for c, leaf in able.items()))), able

    def at_least(self, roots: tuple[RootSpec, ...], leaves: Mapping[int, Leaf]) -> float:
        """What a kernel takes at least, as far as searches have shown; infinite if there is none."""
        asked, _ = self._asked(roots, leaves)
        known, rough = self.memo.get((*asked, ALL)), self.memo.get((*asked, STARTS_ONLY))
        if known is not None:
            return known.cost.us if isinstance(known, PlannedKernel) else math.inf
        found = rough.cost.us / ROUGH if isinstance(rough, PlannedKernel) else 0.0
        return max(found, self.least.get((*asked, ALL), 0.0), self.least.get((*asked, STARTS_ONLY), 0.0) / ROUGH)

    def best(
        self, name: str, roots: tuple[RootSpec, ...], leaves: Mapping[int, Leaf], limit: float = math.inf
    ) -> PlannedKernel | Rejection:
        """The cheapest kernel that stores the roots, or why there is none.  ``limit``: what takes longer is of no use."""
        asked, leaves = self._asked(roots, leaves)
        key = (*asked, self.effort)
        if key not in self.memo and (searched := self.memo.get((*asked, ALL))) is not None:
            return searched
        if self.meter.end == math.inf and isinstance(known := self.memo.get(key), Rejection) and known.cut:
            del self.memo[key]
        if key in self.memo:
            return self.memo[key]
        if limit <= self.least.get(key, 0.0):
            return BEATEN
        self.limit, self.gave_up = limit, False
        self.copies, self.too_many_copies = True, False
        found = self._search(name, roots, leaves)
        if isinstance(found, Rejection) and self.too_many_copies:  # a kernel that may spill is better than none
            self.copies = False
            found = self._search(name, roots, leaves)
        first = self.memo.get((*asked, FIRST))
        if isinstance(first, PlannedKernel) and self.meter.spent():  # the search ended early: the first that fits may be better
            found = first if isinstance(found, Rejection) or first.cost.us < found.cost.us else found
        if isinstance(found, Rejection) and found.cut and not (self.hasty and not self.meter.late()):
            return found
        if self.gave_up and (isinstance(found, Rejection) or found.cost.us >= limit):
            self.least[key] = limit
            return BEATEN
        none = isinstance(found, Rejection) and self.effort == STARTS_ONLY  # from which every climb begins
        self.memo[(*asked, ALL) if none else key] = found
        return found

    def candidates(self, name: str, roots: tuple[RootSpec, ...], leaves: Mapping[int, Leaf], most: int) -> tuple[PlannedKernel, ...]:
        """The kernels that the search priced lowest, the cheapest first; of those with the same nodes, grid and price the one with least
        arithmetic.

        Those that are too large for registers by the model's count are among them, with the price that they would have: whoever compiles
        them finds out.  What moves every byte once does not end this search, as others may do so, too."""
        self.listed, self.limit = [], math.inf
        try:
            self._search(name, roots, leaves)
            distinct: dict[tuple[object, ...], _Candidate] = {}
            for c in sorted(self.listed, key=lambda c: (c.cost.us, c.cost.simt)):
                # whether products take a sum in parts or whole is one thing to the model: one of them stands for both
                shown = [(a, r) for a, r in c.kernel.roles.items() if r.kind == "grid" or not c.counts.dots]
                grid = tuple((a, r.kind, r.kind == "grid" and r.tile) for a, r in shown)
                distinct.setdefault((c.kernel.nodes, grid, float(f"{c.cost.us:.3g}")), c)
            return tuple(c.planned() for c in itertools.islice(distinct.values(), most))
        finally:
            self.listed = None

    def _search(self, name: str, roots: tuple[RootSpec, ...], leaves: Mapping[int, Leaf]) -> PlannedKernel | Rejection:
        best: _Candidate | None = None
        reasons: list[Refusal] = []
        self.chooser.refused.clear()
        self.fastest = math.inf
        ways = ((s, k) for s in self._structures(roots, leaves) for k in sorted(self._kinds(s, _partial(s, roots)), key=s.several))
        for structure, kinds in ways:
            if self.meter.spent():
                break
            multiplies = self.gave_up or (best is not None and best.counts.dots)  # then kinds with several matrices in a tile take longer
            if multiplies and structure.several(kinds) and self.listed is None:
                continue
            found = self._descend(name, roots, leaves, structure, kinds, reasons, math.inf if best is None else best.cost.us)
            if found is not None and (best is None or self._cheaper(found.cost, best.cost)):
                best = found
            if best is not None and (self.hasty or self._ideal(best)):
                break
        if best is None and self.meter.spent():
            return Rejection("its share of time_budget ran out before a kernel was found", tuple(reasons), cut=True)
        if best is None:
            last = self.chooser.ties.reason or "no legal representation of its roots"
            words = [*self.chooser.refused, *(r.reason for r in reasons), last]
            return Rejection(words[0], tuple(reasons))
        return best.planned()

    def _structures(self, roots: tuple[RootSpec, ...], leaves: Mapping[int, Leaf]) -> Iterator[Structure]:
        """The structure below some roots, in each of the places in which a kernel may be made."""
        graph, classes, layouts = self.chooser.graph, tuple(r.cls for r in roots), tuple(r.layout for r in roots)
        stored = frozenset(a for layout in layouts for a in layout if a is not None)
        below = reachable(graph, classes, leaves)
        for places in reindexings(graph, below, stored, leaves):
            yield analyse(graph, classes, layouts, leaves, places or grouped(graph, below, stored, leaves))

    def like(
        self, name: str, roots: tuple[RootSpec, ...], leaves: Mapping[int, Leaf], model: PlannedKernel, margin: float = math.inf
    ) -> PlannedKernel | Rejection:
        """The kernel with the roles, tiles and passes of another one, made for other extents of the same axes.  ``margin``: or with other
        tiles, if these are better by such a share of the time."""
        splits = (*self.chooser.graph.facts.get("split", ()), *_earlier(self.chooser.graph))
        there = _Parts(model.kernel.splits)
        wanted = {there(a): r for a, r in model.kernel.roles.items()}
        ways = ((s, _Alike(splits, s, wanted)) for s in self._structures(roots, leaves))
        structure, here = min(ways, key=lambda way: len(wanted.keys() ^ {*map(way[1], way[0].axes)}))
        outer = {row[1] for row in splits}  # room for more parts than there are here serves more lengths
        partial = _partial(structure, roots)
        roles: dict[Axis, Role] = {}
        for a in structure.axes:
            if here(a) in wanted:
                role = wanted[here(a)]
                if role.kind == "resident" or a in partial:
                    tile = self._tiles(a, "resident", structure)[0]
                    role = Role("resident", max(tile, role.tile) if a in outer else tile)
                roles[a] = role
        order, grid = (tuple(a for n in of for a in roles if here(a) == there(n)) for of in (model.kernel.order, model.kernel.grid))
        printed = replace(model.kernel, grid=grid)
        passes = {there(a): model.passes[a.name] for a in model.kernel.roles if a.name in model.passes}
        best: _Candidate | None = None
        climbed: _Candidate | None = None
        reasons: list[Refusal] = []
        alike = -1
        for _, nodes, positions, _ in self.chooser.cheapest(tuple(r.cls for r in roots), leaves, roles, places=structure.places):
            form = _Form(self, name, roots, nodes, positions, reasons, structure.places)
            form.orders[frozenset(order)] = order
            form.packs = tuple(tuple(a for n in p for a in roles if here(a) == there(n)) for p in model.kernel.packs)
            found = form.evaluate(roles, printed)
            if found is None:
                continue
            likeness = 2 * ({here(a): n for a, n in found.counts.passes.items()} == passes) + (found.rules == model.rules)
            if likeness > alike:
                best, alike, own = found, likeness, (nodes, positions)
        if best is not None and margin < math.inf:
            self.limit = best.cost.us / (1 + margin)
            kinds = {a: r.kind for a, r in roles.items()}
            form = self._form(name, roots, *own, reasons, structure, kinds)
            climbed = self._climb(form, roles, kinds, replace(structure, axes=tuple(roles)))
            if climbed is not None and climbed.cost.us < self.limit:
                best = climbed
        if best is None:
            return Rejection(reasons[0].reason if reasons else "its axes are other ones (a dimension of 1 has none)", tuple(reasons))
        return best.planned()

    # -- proposals -----------------------------------------------------------------------------------------------------------
    def _kinds(self, s: Structure, partial: Collection[Axis] = ()) -> Iterator[dict[Axis, str]]:
        """Role kinds to try: grid for stored axes that nothing reduces, or nothing that is written; stream or resident for reduced ones.
        None over ``partial`` axes."""
        options: list[list[tuple[Axis, str]]] = []
        for a in s.axes:
            if a not in s.reduced:
                options.append([(a, "resident" if a in partial else "grid")])
                continue
            limit = LONG_LIMIT if self.target.on_cpu and not s.has_contraction else RESIDENT_LIMIT
            if a in s.contracted or a in s.free:
                limit = CONTRACTED_RESIDENT_LIMIT
            kinds = [(a, "grid")] if a in s.derived else []  # for the forms that do not reduce it
            if power(a.size) <= limit:
                kinds.append((a, "resident"))
            if a.size > 32 or a in s.summed:
                kinds.append((a, "stream"))
            options.append(kinds or [(a, "stream")])
        return map(dict, itertools.product(*options))

    def _tiles(self, a: Axis, kind: str, s: Structure) -> list[int]:
        """Tile sizes to try for one axis."""
        whole = power(a.size)
        sizes: tuple[int, ...]
        if kind == "resident":
            return [max(whole, 16) if s.has_contraction and (a in s.contracted or a in s.free) else whole]
        if self.target.on_cpu and not s.has_contraction and a not in s.summed and a not in s.parts:
            sizes = (1024, 4096, 16384) if kind == "stream" else RUNS if a in s.stored[-1:] else (1, 8, 64)
            return [t for t in sizes if t < whole + (kind == "grid")] or [max(16, whole // 2) if kind == "stream" else whole]
        if kind == "stream":
            sizes = (16, 32, 64, 128) if a in s.contracted or a in s.free else (16, 64, 256, 1024, 2048, 4096)
            if a in s.summed:  # a matrix product at a time, in those forms of the program where it is no side of one
                sizes = (1, *sizes) if a in s.contracted or a in s.free else (1,)
            if a in s.stored and not s.has_contraction:
                sizes += (8192, 16384)  # few programs may run at a time, and then each has much to load
            return [t for t in sizes if t < whole] or [min(16, whole)]
        if a in s.parts:
            return [1]
        if s.has_contraction:
            if pack := s.pack(a):
                return [t for t in SIDES if t <= (whole if a != _main(pack) else max(whole, self.least_side))]
            if a not in s.tiled:
                return [1]
            few = (whole,) if self.target.on_cpu and whole < 16 else ()  # whose products have no rows but those that there are
            return [t for t in ((1,) if a in s.batch else ()) + (few or (16, 32, 64, 128, 256)) if t <= max(16, whole)]
        return [t for t in (1, 2, 4, 8, 16, 32, 128, 512, 1024, 2048) if t <= whole]

    def _start(self, a: Axis, kind: str, s: Structure, side: int = 64) -> int:
        tiles = self._tiles(a, kind, s)
        if kind == "grid" and not s.has_contraction:
            last = s.stored[-1] if s.stored else None
            want = 1024 if a == last else 1
        else:
            want = {"grid": 1 if a in s.batch else side, "stream": side if s.has_contraction else 16 * side, "resident": tiles[0]}[kind]
            pack = s.pack(a)
            if pack and kind == "grid":
                return _lanes(pack, want, self.least_side)[a]
        return max((t for t in tiles if t <= want), default=tiles[0])

    def _shrunk(self, a: Axis, role: Role, s: Structure, factor: int) -> int:
        tiles = self._tiles(a, role.kind, s)
        if (pack := s.pack(a)) and a == _main(pack):
            tiles = [t for t in tiles if t >= self.least_side]
        return max((t for t in tiles if t * factor <= role.tile), default=tiles[0])

    # -- descent -------------------------------------------------------------------------------------------------------------
    def _descend(
        self,
        name: str,
        roots: tuple[RootSpec, ...],
        leaves: Mapping[int, Leaf],
        s: Structure,
        kinds: Mapping[Axis, str],
        reasons: list[Refusal],
        known: float,
    ) -> _Candidate | None:
        roles = {a: Role(kinds[a], self._start(a, kinds[a], s)) for a in s.axes}  # type: ignore[arg-type]
        choices = list(self.chooser.cheapest(tuple(r.cls for r in roots), leaves, roles, places=s.places))
        best: _Candidate | None = None
        first = 3 if choices and recast(choices[0][1]) else 2
        kept = choices[:first] + choices[first:][-1:]
        forms = [self._form(name, roots, nodes, positions, reasons, s, kinds) for _, nodes, positions, _ in kept]
        first_form = forms[0] if forms else None
        while forms:
            form = forms.pop(0)
            starts = self._starts(roles, s)
            there = form.evaluate(roles if best is None else best.roles)
            if best is not None:  # another form of the same kernel: worth a search only if it is near where the first one ended
                if there is not None and there.cost.us > NEAR * best.cost.us:
                    continue
                starts = [best.roles] if there is not None else starts
            most = min(HOPELESS * self.limit, NEAR * (known if best is None else best.cost.us))
            starts, near = self._promising(form, starts, most)
            if not near and form is first_form:  # another form of the same kernel is not so much better
                break
            for start in starts[:FIRST_STARTS] if self.hasty else starts:
                if best is not None and best.counts.dots and self._above(form, start, NEAR * best.cost.us):
                    continue
                found = self._climb(form, start, kinds, s)
                if found is None:
                    break
                if best is None or self._cheaper(found.cost, best.cost):
                    best = found
                if self._ideal(best):
                    return best
            if best is not None and self.hasty:
                return best
        return best

    def _form(
        self,
        name: str,
        roots: tuple[RootSpec, ...],
        nodes: tuple[Node, ...],
        positions: tuple[int, ...],
        reasons: list[Refusal],
        s: Structure,
        kinds: Mapping[Axis, str],
    ) -> _Form:
        """The form with some nodes: one that an earlier search made, with what it knows, if there is one."""
        places = tuple(s.places.at.items())
        key = roots, nodes, positions, places, s.packed, tuple(kinds.items()), self.copies, self.hasty, self.listed is None
        if self.listed is not None or key not in self.forms:
            self.forms[key] = _Form(self, name, roots, nodes, positions, reasons, s.places, s.packed)
        self.forms[key].reasons = reasons
        return self.forms[key]

    def _promising(self, form: _Form, starts: list[dict[Axis, Role]], most: float) -> tuple[list[dict[Axis, Role]], bool]:
        """The starts of a form, the best first; none if it has products and each takes so much longer than it may, ``most``, that no tiles
        will do.  And whether another form of the same kernel may do."""
        if self.hasty or self.listed is not None:
            return starts, True
        tried = [(c.cost.us, k, c) for k, start in enumerate(starts) if (c := form.evaluate(start)) is not None]
        if not tried or not all(c.counts.dots for _, _, c in tried):
            return starts, True
        least = min(us for us, _, _ in tried)
        if least <= most:
            return [starts[k] for _, k, _ in sorted(tried, key=lambda t: t[:2])], True
        self.gave_up |= most == HOPELESS * self.limit
        return [], least <= NEAR * most

    def _above(self, form: _Form, start: dict[Axis, Role], us: float) -> bool:
        """Whether a form takes longer at some tiles."""
        found = form.evaluate(start)
        return found is not None and found.cost.us > us

    def _ideal(self, c: _Candidate) -> bool:
        """Nothing costs less: it moves every byte once, with the whole device, and takes no longer than that; operands of products once
        through the second level as well, for what reads them again multiplies them again."""
        if self.listed is not None:
            return False
        loaded: dict[str, int] = {}
        for t in c.counts.loads:
            loaded[t.buffer] = loaded.get(t.buffer, 0) + t.in_sectors
        once = c.counts.store_bytes + sum(self.buffers[name].moved(n) for name, n in loaded.items())
        least = once / (self.target.dram_gb_s * 1e3) + self.target.launch_us
        return c.cost.us <= least * (1 + 1e-9) and (self.target.on_cpu or not c.counts.dots or LEANER * c.cost.l2_bytes <= once)

    def _starts(self, roles: dict[Axis, Role], s: Structure) -> list[dict[Axis, Role]]:
        starts = [roles]
        if not s.has_contraction and any(r.kind == "stream" for r in roles.values()):
            # few long rows in flight; or, as elsewhere, many lanes of the last axis
            starts.insert(0, {a: Role("grid", self._tiles(a, "grid", s)[0]) if r.kind == "grid" else r for a, r in roles.items()})
        if s.has_contraction:
            sides = list(STARTS)
            if _programs(roles) < self.target.sm_count and not self.hasty:  # as the device is to be filled
                sides.append((LEAST_SIDE, 64))
            for grid, stream in sides:
                side = {"grid": grid, "stream": stream, "resident": 64}
                starts.append({a: Role(r.kind, self._start(a, r.kind, s, side[r.kind])) for a, r in roles.items()})
        return starts

    def _climb(
        self,
        form: _Form,
        start: dict[Axis, Role],
        kinds: Mapping[Axis, str],
        s: Structure,
    ) -> _Candidate | None:
        best = form.evaluate(start)
        shrunk = [{a: Role(r.kind, self._shrunk(a, r, s, shrink)) for a, r in start.items()} for shrink in (2, 4, 16, 64)]
        if best is None and form.evaluate(shrunk[-1]) is None:
            return None
        for roles in shrunk:  # too large to start from: shrink every tile
            best = best or form.evaluate(roles)
        if best is None:
            return None
        rounds = 0 if self.hasty else ROUNDS
        if self.effort == STARTS_ONLY:  # without products, or where tiles had to shrink until they fit, a start says little
            rounds = 0 if best.counts.dots and best.roles == start else 1
        for _ in range(rounds):
            if self._ideal(best):
                break
            before = best
            for a in s.axes:
                for tile in self._tiles(a, kinds[a], s):
                    best = self._better(best, form, {a: tile})
            if best is before:
                for a, b in itertools.permutations(s.axes, 2):  # no single step helps
                    while (found := self._traded(best, form, a, b, s)) is not best:
                        best = found
                if best is before:
                    break
        return best

    def _traded(self, best: _Candidate, form: _Form, a: Axis, b: Axis, s: Structure) -> _Candidate:
        """One tile grows, another one shrinks until both fit, if that is better."""
        up, smaller = self._larger(a, best.roles[a], s), self._smaller(b, best.roles[b], s)
        fits = (t for t in smaller if form.evaluate(_with_tiles(best.roles, {a: up, b: t})) is not None) if up else ()
        down = next(iter(fits), None)
        return self._better(best, form, {a: up, b: down}) if up and down else best

    def _better(self, best: _Candidate, form: _Form, tiles: Mapping[Axis, int]) -> _Candidate:
        if all(best.roles[a].tile == t for a, t in tiles.items()):
            return best
        found = form.evaluate(_with_tiles(best.roles, tiles))
        if found is None:
            return best
        gain = best.cost.us / found.cost.us - 1
        # steps of a loop with products are not made shorter for a few bytes
        shorter = found.counts.dots and found.counts.steps > best.counts.steps
        leaner = not shorter and (found.cost.dram_bytes < LEANER * best.cost.dram_bytes or self._leaner(found.cost, best.cost))
        tells = TELLS if found.counts.dots and not self.target.on_cpu else TIE
        return found if gain > TIE or (leaner and found.cost.us <= (1 + tells) * self.fastest) else best

    def _leaner(self, a: Cost, b: Cost) -> bool:
        """With products it moves less through the second level, without them it has less arithmetic (a row is gone over once), or as much
        and moves less in whole sectors; and it moves no more from memory, and keeps as much of the device at work."""
        whole = a.simt <= b.simt and a.terms.get("l2", 0.0) < LEANER * b.terms.get("l2", 0.0)
        less = a.l2_bytes < LEANER * b.l2_bytes if a.flops else a.simt < LEANER * b.simt or whole
        return less and a.dram_bytes <= b.dram_bytes and self._as_full(a, b)

    def _as_full(self, a: Cost, b: Cost) -> bool:
        """The programs of one keep as much of the device at work as those of another, as if all take one time."""
        return busy(a.programs, self.target.sm_count) >= LEANER * busy(b.programs, self.target.sm_count)

    def _cheaper(self, a: Cost, b: Cost) -> bool:
        """It takes less time, or about the same and moves less; or the same on a device that is as full, with less arithmetic that
        something else is said to hide."""
        gain = b.us / a.us - 1
        near = not self.target.on_cpu and abs(gain) <= TELLS and a.us <= (1 + TELLS) * self.fastest
        if near and self._leaner(a, b) is not self._leaner(b, a):
            return self._leaner(a, b)
        return gain > TIE or (gain >= 0 and a.simt < LEANER * b.simt and self._as_full(a, b))

    def _larger(self, a: Axis, role: Role, s: Structure) -> int | None:
        """The next larger tile to try for an axis."""
        tiles = self._tiles(a, role.kind, s)
        return next((t for t in tiles[tiles.index(role.tile) + 1 :]), None) if role.tile in tiles else None

    def _smaller(self, a: Axis, role: Role, s: Structure) -> list[int]:
        """The smaller tiles to try for an axis, the largest of them first."""
        tiles = self._tiles(a, role.kind, s)
        return tiles[: tiles.index(role.tile)][::-1] if role.tile in tiles else []


def _programs(roles: Mapping[Axis, Role]) -> int:
    """Programs of a grid."""
    return math.prod(math.ceil(a.size / r.tile) for a, r in roles.items() if r.kind == "grid")


def _main(pack: Collection[Axis]) -> Axis:
    """The longest axis of several."""
    return max(pack, key=lambda a: (a.size, a))


def _lanes(pack: Collection[Axis], most: int, least: int) -> dict[Axis, int]:
    """Tiles to start from of axes whose positions together are the rows of a product: the longest axis first, the others while there is
    room; all have at least so many positions, and more than there are if need be."""
    tiles: dict[Axis, int] = {}
    for a in sorted(pack, key=lambda a: (a.size, a), reverse=True):
        tiles[a] = max(1, min(power(a.size), most // math.prod(tiles.values())))
    tiles[_main(pack)] *= max(1, least // math.prod(tiles.values()))
    return tiles


def _partial(s: Structure, roots: Sequence[RootSpec]) -> set[Axis]:
    """Axes of length 0 that some root lacks: in a grid over one no program would store that root."""
    own = [s.places.axes([a for a in r.layout if a is not None]) for r in roots]
    return {a for a in s.axes if a.size == 0 and any(a not in axes for axes in own)}


def _earlier(graph: FrozenGraph) -> list[tuple[Axis, Axis, Axis]]:
    """The parts of axes once more, where a scan reduces those before its own: as rows of the relation ``split``."""
    inner = {outer: inner for _, outer, inner in graph.facts.get("split", ())}
    return [(whole, again, inner[outer]) for whole, outer, again in graph.facts.get("before", ())]


def _with_tiles(roles: Mapping[Axis, Role], tiles: Mapping[Axis, int]) -> dict[Axis, Role]:
    """Roles with other tile sizes for some axes."""
    return {**roles, **{a: Role(roles[a].kind, t) for a, t in tiles.items()}}


class _Form:
    """One choice of nodes for some roots: its candidates, each evaluated once."""

    def __init__(
        self,
        search: KernelSearch,
        name: str,
        roots: tuple[RootSpec, ...],
        nodes: tuple[Node, ...],
        positions: tuple[int, ...],
        reasons: list[Refusal],
        places: Places,
        packs: tuple[tuple[Axis, ...], ...] = (),
    ) -> None:
        self.search, self.name, self.reasons, self.packs = search, name, reasons, packs
        names = [*(n.attrs[0] for n in nodes if n.op == "load"), *(r.buffer for r in roots)]
        self.buffers = {b: search.buffers[b] for b in names}
        stores = (
            Root(p, r.buffer, tuple(index(0) if a is None else places.of(index(a)) for a in r.layout))
            for p, r in zip(positions, roots, strict=True)
        )
        self.nodes, self.roots = counted(nodes, tuple(stores), self.buffers, search.centres)
        self.axes = frozenset().union(*(n.axes for n in nodes)) | {n.attrs[-1] for n in nodes if n.reduction}
        self.axes |= {a for r in self.roots for e in r.index for a in e.axes()}
        self.stepwise = search.chooser.ties.rounds(nodes)
        self.share = search.register_shares.get(tuple(r.buffer for r in roots), 1.0)
        self.tilings = Tilings()
        self.orders: dict[frozenset[Axis], tuple[Axis, ...]] = {}  # dims -> their order
        self._seen: dict[tuple[int, ...], _Candidate | None] = {}

    def evaluate(self, roles: dict[Axis, Role], model: Kernel | None = None) -> _Candidate | None:
        """The candidate with some roles, or ``None`` if it is no kernel, or there is no time for another; with the warps and stages of
        ``model``, if given, whatever fits.  All roles given must be of the same kinds."""
        key = tuple(r.tile for r in roles.values())
        if key not in self._seen:
            if self.search.meter.late():
                return None
            self._seen[key] = self._evaluate(roles, model)
        if (found := self._seen[key]) is not None:
            self.search.fastest = min(self.search.fastest, found.cost.us)
        return found

    def _evaluate(self, roles: dict[Axis, Role], model: Kernel | None) -> _Candidate | None:
        target, graph = self.search.target, self.search.chooser.graph
        self.search.meter.count(len(self.nodes))
        mine = {a: r for a, r in roles.items() if a in self.axes}
        dims = frozenset(a for a, r in mine.items() if r.tile > 1)
        packs = tuple(kept for p in self.packs if len(kept := tuple(a for a in p if a in dims)) > 1)
        if model is None and any(math.prod(mine[a].tile for a in p) < self.search.least_side for p in self.packs if mine.keys() >= {*p}):
            return None
        kernel = Kernel(
            name=self.name,
            nodes=self.nodes,
            roots=self.roots,
            buffers=self.buffers,
            roles=mine,
            order=self.orders.get(dims, tuple(a for a in mine if a in dims)),
            grid=tuple(a for a, r in mine.items() if r.kind == "grid"),
            packs=packs,
            splits=tuple(s for s in graph.facts.get("split", ()) if not {*s[1:]}.isdisjoint(mine))
            + tuple(s for s in _earlier(graph) if s[1] in mine),
            exact=self.search.exact,
            stepwise=self.stepwise,
            lanes=not (target.on_cpu or self.search.exact) if model is None else model.lanes,
            narrow_products=1 if self.search.exact else target.narrow_products,
        )
        try:
            if dims not in self.orders:
                kernel = self._ordered(kernel, dims)
                self.orders[dims] = kernel.order
            counts = self.tilings.counts(kernel)
        except PlanError as illegal:
            self.reasons.append(Refusal(illegal.message, {a.name: str(r) for a, r in mine.items()}))
            return None
        fitted = fit(counts, target, self.share, self.search.copies)
        if fitted.reason and model is None:
            self.search.too_many_copies |= fitted.by_copies
            self.reasons.append(_misfit(fitted, kernel))
            if self.search.listed is not None and may_compile(fitted, target):
                kernel = replace(kernel, warps=fitted.warps, stages=fitted.stages)
                self.search.listed.append(_Candidate(dict(roles), kernel, counts, price(kernel, counts, fitted, target)))
            return None
        if model is not None and counts.dots and not target.on_cpu:
            fitted = launched_with(counts, fitted, model.warps, model.stages, target)
        once = fitted
        fitted = pipelined(counts, fitted, target, model.persistent if model else 0)
        chosen = model or fitted
        kernel = replace(kernel, warps=chosen.warps, stages=chosen.stages)
        if model is not None:
            grid = (*(a for a in model.grid if a in kernel.grid), *(a for a in kernel.grid if a not in model.grid))
            grouped = model.grouped if grid[-2:] == model.grid[-2:] else 0
            kernel = replace(kernel, persistent=model.persistent, registers=model.registers, grid=grid, grouped=grouped)
        elif not target.on_cpu:
            kernel = ordered(kernel, counts, running(counts, fitted, target), for_waves(target.cache))
        cost = price(kernel, counts, fitted, target)
        for other in launchable(counts, fitted, target, self.share)[1:] if model is None else ():
            there = price(kernel, counts, other, target)
            if there.us < cost.us * (1 - TIE):
                fitted, cost = other, there
        if model is None:
            kernel = replace(kernel, warps=fitted.warps, stages=fitted.stages)
            once = fitted if counts.dots else once
        for fewer in persistent(kernel, counts, once, target) if model is None else ():
            for fitted in dict.fromkeys((pipelined(counts, once, target, fewer), once)):
                again = replace(kernel, stages=fitted.stages, persistent=fewer, registers=registers(fewer, fitted, target))
                there = price(again, counts, fitted, target)
                if there.us < cost.us or (there.us <= (1 + TELLS) * cost.us and there.dram_bytes < LEANER * cost.dram_bytes):
                    kernel, cost = again, there
        described = model.descriptors if model is not None else 0 < target.descriptor_us * DESCRIBED < cost.us and counts.dots > 0
        found = _Candidate(dict(roles), replace(kernel, descriptors=described), counts, cost)
        if self.search.listed is not None:
            self.search.listed.append(found)
        return found

    def _ordered(self, kernel: Kernel, dims: frozenset[Axis]) -> Kernel:
        """The kernel with the best order of its dims; an order that served another form of it is taken if it serves as well."""
        known, on_cpu = self.search.ordered, self.search.target.on_cpu
        if dims in known:
            order, penalty = known[dims]
            again = replace(kernel, order=order)
            mine = order_penalty(self.tilings.program(again), on_cpu)
            if mine <= penalty or (not on_cpu and mine[:-1] <= penalty[:-1]):  # what is loaded across memory hangs on the leaves
                return again
        if self.search.hasty:
            return choose_order(kernel, lowered=self.tilings.program, limit=FIRST_ORDERS, on_cpu=on_cpu)
        found = choose_order(kernel, lowered=self.tilings.program, on_cpu=on_cpu)
        known[dims] = found.order, order_penalty(self.tilings.program(found), on_cpu)
        return found


__all__ = ["Budget", "KernelSearch", "Refusal", "Rejection", "RootSpec", "power"]
