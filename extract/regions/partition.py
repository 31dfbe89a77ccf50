"""A program in parts: the values that are stored between kernels because of what the parts would cost as one, and what makes them.

Between stages the cheapest values are stored, in bytes.  A region is what it takes to make a stored value from stored ones; regions that
share a product are one, and so are those without products that read the same tensor.  What is pointwise, and the statistics of rows, may
be part of several.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count

from ...ir.index import Axis
from ...ir.program import Program
from ...ir.recursion import arguments_first
from ...ir.samples import COMPARISONS
from ...ir.terms import Cast, Gather, Input, Map, Reduce, Scan, Term, as_read
from ..targets import Target
from .cuts import cheapest_cut
from .stages import MOST_DEEP, Conflict, Stages, stages
from .work import Work, stored_bytes

MOST_WHOLE = 6  # reductions of a program that is planned as one, however it might be parted: one search sees all of it
FEW_DEEP = 3  # products on top of each other whose search ends soon: where there are more in one, it is planned in such parts, too
MOST_NESTS = 10  # reductions of a region: what is tried grows with their squares, and with pointwise operations hardly


MOST_AXES = 40  # of a region: an e-graph has room for 62, and rules add some
REASONS = {
    "price": "since making them again would cost more",
    "depth": f"as at most {MOST_DEEP} products on top of each other are planned together",
    "size": f"as a region has {MOST_NESTS} reductions and {MOST_AXES} axes at most",
    "shared": "since several regions read them",
    "positions": "as they say which elements are read",
}


@dataclass(frozen=True)
class Partition:
    """``groups``: for each region the values that it makes, in an order in which regions can run; by their numbers among the terms of the
    program, so that the same partition can be made at other sizes.  ``names``: what the stored ones are called that are no results.
    ``reductions``: how many the program has; ``conflicts``: what parts them, and ``counted``: their number does; ``prelude``: whether some
    of them come before all products.  ``cuts``: why values are stored that are no results, by :data:`REASONS`."""

    program: Program
    groups: tuple[tuple[int, ...], ...]
    names: Mapping[int, str]
    reductions: int
    conflicts: tuple[Conflict, ...] = ()
    prelude: bool = False
    counted: bool = False
    cuts: Mapping[int, str] = field(default_factory=dict)

    @property
    def pays(self) -> bool:
        """Whether the program is better planned in these regions than as one."""
        return len(self.groups) > 1 and (self.prelude or self.large or self.counted or self.reductions > MOST_WHOLE)

    @property
    def one(self) -> bool:
        """Whether one search may see all of the program, and no price has made some of its cuts."""
        return not self.large and (self.counted or self.reductions <= MOST_WHOLE)

    @property
    def large(self) -> bool:
        """Whether the program is more than one region may be."""
        return _large(self.reductions, self.program.terms())

    @property
    def stored(self) -> dict[Term, None]:
        """Every value that a region makes."""
        terms = self.program.terms()
        return {terms[k]: None for group in self.groups for k in group}

    @property
    def reasons(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The names of what is stored between regions, by why it is."""
        found: dict[str, list[str]] = {}
        for k, cut in sorted(self.cuts.items()):
            found.setdefault(REASONS[cut], []).append(self.names[k])
        return tuple((reason, tuple(names)) for reason, names in found.items())

    def at(self, program: Program) -> Partition | None:
        """The same partition of the program at other sizes; ``None`` if it is another program there."""
        ours, theirs = self.program.terms(), program.terms()
        alike = len(ours) == len(theirs) and all(a.kind == b.kind for a, b in zip(ours, theirs, strict=True))
        return replace(self, program=program) if alike else None


def partition(program: Program, target: Target, also: Collection[int] = ()) -> Partition:
    """The regions of a program; one for most that are no models.  ``also``: the numbers of terms that are stored in any case."""
    work = Work(program, target)
    found = stages(work)
    whole = _partition(work, found, also)
    if whole.large or len(whole.groups) > 1 and not whole.counted or found.deep <= FEW_DEEP:
        return whole
    return _partition(work, stages(work, math.ceil(found.deep / math.ceil(found.deep / FEW_DEEP))), also)


def _partition(work: Work, found: Stages, also: Collection[int]) -> Partition:
    program = work.program
    cuts: dict[Term, str] = {}

    def because(reason: str) -> None:
        cuts.update((t, reason) for t in stored if t not in cuts and t not in work.outputs)

    stored = _between(work, found, cuts)
    stored.update((work.terms[k], None) for k in sorted(also))
    because("shared")
    prelude = _prelude(work)
    stored.update(dict.fromkeys(prelude))
    because("positions")
    _halved(work, stored)
    because("size")
    groups = _groups(work, found, stored, prelude)
    while (more := _made_by_several(work, stored, groups)) is not None:
        stored[more] = None
        groups = _groups(work, found, stored, prelude)
    because("shared")
    names = stored_names(program, {k for group in groups for k in group})
    order = {t: k for k, t in enumerate(work.terms)}
    by_number = {order[t]: reason for t, reason in cuts.items()}
    return Partition(program, groups, names, len(work.nests), found.conflicts, bool(prelude), found.counted, by_number)


def neighbourhoods(program: Program, target: Target) -> list[tuple[list[Term], dict[Term, None]]]:
    """Values that share products and still are in several regions, as some are made of others by what is in none of them: a forward and a
    backward pass of one thing, of a program of both.  With what is stored, which each is made of."""
    work = Work(program, target)
    found = stages(work)
    stored = _between(work, found)
    _halved(work, stored)
    region = {r: k for k, group in enumerate(_groups(work, found, stored)) for r in group}
    order = {t: k for k, t in enumerate(work.terms)}
    near: dict[int, list[Term]] = {}
    for group in _groups(work, found, stored, anyhow=True):
        if len({region[k] for k in group}) > 1:
            near[group[0]] = [work.terms[k] for k in group]
    return [(roots, dict.fromkeys(sorted(stored, key=order.__getitem__))) for roots in near.values()]


def stored_names(program: Program, numbers: Collection[int]) -> dict[int, str]:
    """A name of its own for every stored value: the user's, or that of its number."""
    taken = {t.name for t in (*program.inputs, *program.outputs, *program.results)}  # type: ignore[attr-defined]
    called: dict[Term, str] = {}
    for name, ts in program.names.items():
        called.update((t, name) for t in ts if t not in called)
    found: dict[int, str] = {}
    for k, t in enumerate(program.terms()):
        if k in numbers:
            base = called.get(t, f"t{k}")
            found[k] = next(n for n in chain([base], (f"{base}_{c}" for c in count(2))) if n not in taken)
            taken.add(found[k])
    return found


def able(t: Term) -> bool:
    """Whether a value may be stored: what is computed, of a type that memory has."""
    return isinstance(t, Map | Reduce | Scan | Cast) and t.dtype is not None and as_read(t) is t


def _between(work: Work, found: Stages, cuts: dict[Term, str] | None = None) -> dict[Term, None]:
    """What is stored between stages, results included.  ``cuts``: where it is noted why."""
    stored = dict.fromkeys(t for t in work.terms if t in work.outputs)
    inner = {x for n in work.nests.values() for x in (*n.inner, *((n.body,) if n.product else ()))}
    parted = {c.inner for c in found.conflicts}

    def storing(t: Term) -> float:
        return work.move_us((4 if _rearranged(t) else 2) * stored_bytes(t))

    for stage in sorted({*found.of.values()}):
        sources = [t for t, n in work.nests.items() if found.of[t] == stage and (n.product or t in parted)]
        sinks = {t for t in work.terms if found.level[t] > stage}
        if sources and sinks:
            again = {t: work.us(work.nests[t], frozenset()) for t in sources if t not in parted}
            cut = cheapest_cut(sources, sinks, work.users, stored, lambda t: able(t) and t not in inner, storing, again)
            if cuts is not None:
                reason = "depth" if found.counted and parted.isdisjoint(sources) else "price"
                cuts.update((t, reason) for t in cut if t not in stored)
            stored.update(dict.fromkeys(cut))
    return stored


def _prelude(work: Work) -> list[Term]:
    """Integers that say which elements are read, and which count, if reductions of reductions make them of other integers: the sequence of
    each token, the places of sorted rows.  What reads by them has many rows, and would make all of it for each."""
    depth: dict[Term, int] = {}  # of values that no float takes part in: how many reductions are of each other
    found: dict[Term, None] = {}
    for t in work.terms:
        if all(a in depth for a in t.args) and (t.dtype is None or not t.dtype.is_float):
            depth[t] = isinstance(t, Reduce | Scan) + max((depth[a] for a in t.args), default=0)
        if isinstance(t, Gather) or (isinstance(t, Map) and t.op in COMPARISONS):
            at = [a for a in t.args[isinstance(t, Gather) :] if a.dtype is not None and a.dtype.kind == "int"]
            below = arguments_first(at, lambda x: () if isinstance(x, Reduce | Scan) else x.args, lambda x: not depth.get(x))
            found.update((a, None) for a in below if isinstance(a, Reduce | Scan))
    return list(found) if any(depth[t] > 1 for t in found) else []


def _rearranged(t: Term) -> bool:
    """Whether a value is read at data from another that is computed: no kernel makes both, so the other one would be stored as well."""
    todo = [t]
    while todo:
        x = todo.pop()
        if isinstance(x, Gather) and not isinstance(x.args[0], Input):
            return True
        todo += x.args if isinstance(x, Map | Cast) else ()
    return False


def _made_by_several(work: Work, stored: Mapping[Term, None], groups: Sequence[Sequence[int]]) -> Term | None:
    """What several regions would make for themselves without products, if storing it once moves fewer bytes: the value that saves most."""
    within: dict[Term, list[tuple[int, frozenset[Term]]]] = {}  # of a value: regions that make it, and what each reads for it alone
    for k, group in enumerate(groups):
        roots = [work.terms[r] for r in group]
        cone = {t for r in roots for t in _cone(r, stored)}
        inside = [t for t in work.terms if t in cone and (t in roots or (t not in stored and not isinstance(t, Input)))]
        for t in inside:
            if able(t) and t not in stored:
                own = _cone(t, stored)
                others = {a for u in inside if u not in own for a in u.args}
                read = frozenset(x for x in own if isinstance(x, Input) or x in stored)
                if not any(x in work.nests and work.nests[x].product and x not in stored for x in own):
                    within.setdefault(t, []).append((k, read - others))
    best, most = None, 0
    for t, makers in within.items():
        if len(makers) > 1:
            now = sum(sum(map(work.bytes, read)) for _, read in makers)
            then = (1 + len(makers)) * stored_bytes(t) + max(sum(map(work.bytes, read)) for _, read in makers)
            if now - then > most:
                best, most = t, now - then
    return best


def _cone(root: Term, stored: Iterable[Term]) -> dict[Term, None]:
    """What it takes to make a value from stored ones, those included: from it down."""
    seen: dict[Term, None] = {}
    todo = [root]
    while todo:
        t = todo.pop()
        if t not in seen:
            seen[t] = None
            if t is root or t not in stored:
                todo.extend(t.args)
    return seen


def _halved(work: Work, stored: dict[Term, None]) -> None:
    """Store more until no value takes more than a region may have: the least bytes that part what takes about half of its terms."""
    order = {t: k for k, t in enumerate(work.terms)}
    inner = {x for n in work.nests.values() for x in (*n.inner, *((n.body,) if n.product else ()))}
    todo = [t for t in work.terms if t in stored]
    while todo:
        root = todo.pop()
        cone = sorted((t for t in _cone(root, stored) if t is root or t not in stored), key=order.__getitem__)
        if not _large(sum(t in work.nests for t in cone), cone):
            continue
        place = {t: k for k, t in enumerate(cone)}
        last = {t: max((place[u] for u in work.users[t] if u in place), default=-1) for t in cone if able(t) and not _light(work, t)}
        crossing = _bytes_after(cone, last)
        places = [k for k in range(len(cone) - 1) if able(cone[k]) and cone[k] not in inner]
        middle = [k for k in places if len(cone) // 4 <= k < len(cone) - len(cone) // 4] or places
        if not middle:
            continue
        best = min(middle, key=lambda k: (crossing[k], -k))
        new = [t for t in cone[: best + 1] if last.get(t, -1) > best and t not in stored]
        stored.update(dict.fromkeys(new))
        todo += [root, *new] if new else []


def _light(work: Work, t: Term) -> bool:
    """Whether it takes no more to make a value again than to read it: a mask is made of lengths."""
    leaves = work.leaves(t)
    return not any(x in work.nests for x in leaves) and sum(map(work.bytes, leaves)) <= stored_bytes(t)


def _bytes_after(cone: Sequence[Term], last: Mapping[Term, int]) -> list[int]:
    """For every place in a cone, the bytes of the values up to it that are used after it."""
    live, found = 0, []
    ends: Counter[int] = Counter()
    for k, t in enumerate(cone):
        live -= ends.pop(k, 0)
        if last.get(t, -1) > k:
            live += stored_bytes(t)
            ends[last[t]] += stored_bytes(t)
        found.append(live)
    return found


def _large(nests: int, cone: Iterable[Term]) -> bool:
    """Whether some terms are more than one region may have."""
    return nests > MOST_NESTS or len(frozenset[Axis]().union(*(t.axes for t in cone))) > MOST_AXES


def _groups(
    work: Work, found: Stages, stored: dict[Term, None], together: Sequence[Term] = (), anyhow: bool = False
) -> tuple[tuple[int, ...], ...]:
    """The regions, in an order in which they can run; values that are ``together`` are in one.  ``anyhow``: if values that share products
    are together whatever that order is, and others are alone."""
    order = {t: k for k, t in enumerate(work.terms)}
    roots = [t for t in work.terms if t in stored]
    cones = {r: _cone(r, stored) for r in roots}
    groups = _Groups({r: [t for t in cones[r] if t is not r and t in stored and not isinstance(t, Input)] for r in roots})
    first: dict[tuple[int | None, Term], Term] = {}  # without products, those of one stage
    for r in roots:
        products = [t for t in cones[r] if t in work.nests and work.nests[t].product and (t is r or t not in stored)]
        common = products or anyhow and [] or [t for t in cones[r] if t.axes and (isinstance(t, Input) or t in work.nests or t in stored)]
        for t in common:
            other = first.setdefault((None if products else found.level[r], t), r)
            both = {t for x in (r, other) for t in cones[x] if t is x or t not in stored}
            if not _large(sum(t in work.nests for t in both), both):
                groups.join(r, other, anyhow)
    for t in together:
        groups.join(together[0], t)
    run = dict.fromkeys(groups.of.values()) if anyhow else groups.order() or ()
    return tuple(tuple(order[r] for r in roots if groups.of[r] == k) for k in run)


class _Groups:
    """Regions that grow together, as long as none has to wait for itself.  ``needs``: the stored values that each is made of."""

    def __init__(self, needs: Mapping[Term, Sequence[Term]]) -> None:
        self.needs = needs
        self.of = {r: k for k, r in enumerate(needs)}

    def order(self) -> list[int] | None:
        """The groups in an order in which they can run; ``None`` if there is none."""
        import networkx as nx

        graph = nx.DiGraph()
        graph.add_nodes_from(dict.fromkeys(self.of.values()))
        graph.add_edges_from((self.of[x], k) for r, k in self.of.items() for x in self.needs[r] if self.of[x] != k)
        try:
            return list(nx.lexicographical_topological_sort(graph))
        except nx.NetworkXUnfeasible:
            return None

    def join(self, a: Term, b: Term, anyhow: bool = False) -> None:
        """One region for both, if it can run; or ``anyhow``."""
        if self.of[a] == self.of[b]:
            return
        before = dict(self.of)
        self.of = {r: before[b] if k == before[a] else k for r, k in before.items()}
        if not anyhow and self.order() is None:
            self.of = before
