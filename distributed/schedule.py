"""When each value is computed: before which collectives, so that as few bytes as possible are stored for later stages.

A stage is what devices compute between moves.  A value has a first stage that could compute it, for it waits for what moves, and a last
one, for what it is moved to waits for it.  Between two stages values are parted so that the bytes of those before the boundary which are
read behind it are least: a minimum cut, one boundary after the other.

What is made of positions and constants alone, of what is stored in any case, or looks at a tensor that is there, is *light*: made again
where it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from ..egraph.frozen import ENode
from .choice import Chosen, Key, Space

Item = tuple[Key, bool]  # a value computed at a place, or moved there

FREE = ("const", "extent", "index")  # made from nothing
MOST_READ = 4  # times its own bytes: what may be read to make a value again


class Schedule:
    """The items of a choice and their stages."""

    def __init__(self, space: Space, chosen: Chosen) -> None:
        self.space, self.made = space, chosen.made
        self.outputs = [self.read(key) for key in chosen.outputs.values()]

    def read(self, key: Key) -> Item:
        """What is read of a value at a place."""
        return key, (key, True) in self.made

    def node(self, item: Item) -> ENode | None:
        """The form by which an item is computed; ``None`` for what is moved."""
        (c, _), moved = item
        return None if moved else self.space.forms.members[c][self.made[item].member or 0]

    def input_of(self, item: Item) -> str | None:
        """The input that an item is."""
        n = self.node(item)
        return n.attrs[0] if n is not None and n.op == "input" else None

    def sources(self, item: Item) -> list[Item]:
        """What an item is made of."""
        found = self.made[item].sources
        return [(s, False) for s in found] if item[1] else [self.read(s) for s in found]

    @cached_property
    def kept(self) -> frozenset[Item]:
        """What is stored in any case: outputs, and what moves."""
        return frozenset({*self.outputs, *(s for item in self.made if item[1] for s in self.sources(item))})

    @cached_property
    def light(self) -> frozenset[Item]:
        """What is made again where it is read."""
        found: dict[Item, frozenset[Item]] = {}  # with what it reads that is kept
        for item in self.made:
            n, sources = self.node(item), self.sources(item)
            if n is None or n.op in ("input", "reduce") or item in self.kept:
                continue
            there = n.op == "view" and (sources[0][1] or self.input_of(sources[0]) is not None)
            if there or n.op in FREE or all(s in found or s in self.kept for s in sources):
                reads = frozenset().union(*(found.get(s, frozenset({s} & self.kept)) for s in sources))
                if sum(map(self.bytes, reads)) <= MOST_READ * self.bytes(item):
                    found[item] = reads
        return frozenset(found)

    @cached_property
    def work(self) -> tuple[Item, ...]:
        """What stages compute, sources first."""
        return tuple(i for i in self.made if not i[1] and i not in self.light and self.input_of(i) is None)

    @cached_property
    def users(self) -> Mapping[Item, tuple[Item, ...]]:
        """Who reads an item, computing or moving it; of what is light, its readers."""
        found: dict[Item, dict[Item, None]] = {item: {} for item in self.made}
        for item in reversed(list(self.made)):
            for s in self.sources(item):
                found[s].update(found[item] if item in self.light else {item: None})
        return {item: tuple(us) for item, us in found.items()}

    @cached_property
    def level(self) -> Mapping[Item, int]:
        """The number of moves that an item has to wait for; those of inputs come before everything."""
        found: dict[Item, int] = {}
        for item in self.made:
            level = max((found[s] for s in self.sources(item)), default=0)
            found[item] = level + int(item[1] and self.input_of(self.sources(item)[0]) is None)
        return found

    @cached_property
    def last(self) -> int:
        """The last stage."""
        return max(self.level.values())

    @cached_property
    def stage(self) -> Mapping[Item, int]:
        """The stage of each item that is work."""
        first = {i: self.level[i] for i in self.work}
        last: dict[Item, int] = {}
        for i in reversed(self.work):
            last[i] = min([self.last, *(self.level[u] - 1 if u[1] else last[u] for u in self.users[i])])
        for k in range(self.last):
            before = self._before(k, first, last)
            for i in self.work:
                if i in before:
                    last[i] = min(last[i], k)
                else:
                    first[i] = max(first[i], k + 1)
        return last

    def _before(self, k: int, first: Mapping[Item, int], last: Mapping[Item, int]) -> set[Item]:
        """What stages up to the k-th compute."""
        import networkx as nx

        graph = nx.DiGraph()
        graph.add_nodes_from(("start", "end"))
        for i in self.work:
            if last[i] <= k:
                graph.add_edge("start", i)
            elif first[i] > k:
                graph.add_edge(i, "end")
            readers = [u for u in self.users[i] if not u[1]]
            for u in readers:
                graph.add_edge(u, i)  # what an item is made of is made before it
                graph.add_edge((i, "stored"), u)
            if readers:
                graph.add_edge(i, (i, "stored"), capacity=max(self.bytes(i), 1))
        _, (before, _) = nx.minimum_cut(graph, "start", "end")
        return {i for i in self.work if i in before}

    def bytes(self, item: Item) -> int:
        """What one device has of an item."""
        c, place = item[0]
        return round(self.space.whole_bytes(c) * self.space.mesh.share(place))

    def stored(self, item: Item) -> bool:
        """Whether an item is stored for a later stage."""
        return any(not u[1] and self.stage[u] > self.stage[item] for u in self.users[item])
