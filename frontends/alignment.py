"""Which dimensions are one axis: union-find over the dimensions of every value of a graph.

Pointwise ops and broadcasts make dimensions equal, a contraction makes its two contracted dimensions equal.  Two dimensions of
one tensor are never made equal (``q @ k.T`` has two axes even when q and k come from the same rows): such a union is refused
and the two names are reconciled where the value is read, by a ``View``.

A reshape that merges dimensions gives an item with *parts*; splitting it again gives the parts back, so the rows and heads
that ``view`` folds around every batched matrix product keep their names.  What stands side by side in a dimension of a ``cat`` is known.
Nothing here bears on correctness: the names only decide which equal values are written as one term.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import accumulate

from torch.fx import Node

Item = int
Dims = tuple[Item | None, ...]  # one entry per dimension; None where the size is 1


class Alignment:
    """The union-find.  An *item* stands for a dimension of size other than 1."""

    def __init__(self) -> None:
        self._parent: list[Item] = []
        self._size: list[int] = []
        self._tensors: list[set[int]] = []  # per root: the tensors that have it as a dimension
        self._parts: dict[Item, tuple[Item, ...]] = {}
        self._merged: dict[tuple[Item, ...], Item] = {}
        self._joined: dict[Item, tuple[tuple[Item | None, int], ...]] = {}  # per root: what stands side by side, and where that starts
        self._apart: list[Item] = []  # dimensions by whose parts values are made
        self._turns: list[Item] = []  # dimensions along which a value stands beside itself
        self._pages: list[tuple[Dims, Dims]] = []  # dimensions that say which page is read, and those of a page
        self._count = 0
        self.joins = True  # whether what is put side by side is known
        self.whole: Collection[Node] = ()  # their windows leave dimensions whole, as other windows overlap along these
        self._overlapped: list[Item] = []
        self._cut: list[tuple[Item, Node]] = []

    def fresh(self, size: int) -> Item | None:
        """A dimension that equals no other."""
        if size == 1:
            return None
        self._parent.append(len(self._parent))
        self._size.append(size)
        self._tensors.append(set())
        return len(self._parent) - 1

    def find(self, item: Item) -> Item:
        """The representative."""
        while self._parent[item] != item:
            self._parent[item] = self._parent[self._parent[item]]
            item = self._parent[item]
        return item

    def size(self, item: Item) -> int:
        """The extent."""
        return self._size[item]

    def unify(self, a: Item | None, b: Item | None) -> bool:
        """Make two dimensions one axis; refused (False) if their sizes differ or some tensor has both."""
        if a is None or b is None:
            return False
        a, b = self.find(a), self.find(b)
        if a == b:
            return True
        if self._size[a] != self._size[b] or self._tensors[a] & self._tensors[b]:
            return False
        a, b = min(a, b), max(a, b)
        self._parent[b] = a
        self._tensors[a] |= self._tensors[b]
        joined_a, joined_b = self._joined.get(a), self._joined.pop(b, None)
        if joined_b and not joined_a:
            self._joined[a] = joined_b
        elif joined_a and joined_b and [s for _, s in joined_a] == [s for _, s in joined_b]:
            for (p, _), (q, _) in zip(joined_a, joined_b, strict=True):
                self.unify(p, q)
        parts_a, parts_b = self._parts.get(a), self._parts.pop(b, None)
        if parts_b and not parts_a:
            self._parts[a] = parts_b
        elif parts_a and parts_b:
            self._refine(parts_a, parts_b)
        return True

    def _refine(self, a: Sequence[Item], b: Sequence[Item]) -> None:
        """Two ways to merge one dimension: what is whole in one and merged in the other has these parts; heads are groups of heads."""
        for ones, others in reshape_groups([self._size[p] for p in a], [self._size[p] for p in b]):
            p, q = self.merge([a[k] for k in ones]), self.merge([b[k] for k in others])
            if len(ones) == 1 or len(others) == 1:
                self.unify(p, q)

    def tensor(self, dims: Sequence[Item | None]) -> Dims:
        """Register a tensor: its dimensions are kept apart from now on.  A repeated one is replaced by a fresh item."""
        self._count += 1
        out: list[Item | None] = []
        for d in dims:
            if d is not None and self._count in self._tensors[self.find(d)]:
                d = self.fresh(self._size[d])
            if d is not None:
                self._tensors[self.find(d)].add(self._count)
            out.append(d)
        return tuple(out)

    def parts(self, item: Item) -> tuple[Item, ...]:
        """The dimensions it was merged from, outermost first, or itself."""
        found = self._parts.get(self.find(item))
        return tuple(q for p in found for q in self.parts(p)) if found else (item,)

    def merge(self, items: Sequence[Item]) -> Item:
        """The dimension that lists the given ones, the last running fastest.  With one along which a value stands beside itself, it is
        a dimension like others: elements that were next to each other are again."""
        flat = tuple(self.find(q) for p in items for q in self.parts(p))
        if len(flat) == 1:
            return flat[0]
        if flat not in self._merged:
            item = self.fresh(math.prod(self._size[p] for p in flat))
            assert item is not None
            if not {self.find(t) for t in self._turns} & {*flat} and not self._paged(flat):
                self._parts[item] = flat
            self._merged[flat] = item
        return self._merged[flat]

    def join(self, items: Sequence[Item | None]) -> Item | None:
        """The dimension in which the given ones stand side by side."""
        if len(items) == 1:
            return items[0]
        sizes = [1 if i is None else self._size[i] for i in items]
        item = self.fresh(sum(sizes))
        assert item is not None
        if not self.joins:
            return item
        self._joined[item] = tuple(zip(items, accumulate(sizes, initial=0), strict=False))
        return item

    def joined(self, item: Item) -> tuple[tuple[Item | None, int], ...]:
        """The dimensions that stand side by side in one (``None`` for a single position) and where each starts; none if it is no such."""
        return self._joined.get(self.find(item), ())

    def range(self, item: Item | None, start: int, size: int) -> Item | None:
        """The dimension of some positions: what stands there, if it is some of what was joined, else one that equals no other."""
        joined = self.joined(item) if item is not None else ()
        inside = [(p, at) for p, at in joined if start <= at < start + size]
        if inside and inside[0][1] == start and start + size in (*(at for _, at in joined), self._size[self.find(item)]):  # type: ignore[arg-type]
            return self.join([p for p, _ in inside])
        return self.fresh(size)

    def overlap(self, item: Item) -> None:
        """Note that windows overlap along a dimension."""
        self._overlapped.append(item)

    def cut(self, item: Item, node: Node) -> bool:
        """Note that the windows of a node lie side by side in a dimension.  Whether the dimension is cut into them: where other windows
        overlap along it, these would read each part at a quotient, so the node reads the whole dimension at positions."""
        self._cut.append((item, node))
        return node not in self.whole

    def cut_and_overlapped(self) -> set[Node]:
        """The nodes whose windows cut what other windows overlap in."""
        overlapped = {p for i in self._overlapped for p in (self.find(i), *self.parts(i))}
        return {node for i, node in self._cut if overlapped & {self.find(i), *self.parts(i)}}

    def turn(self, size: int) -> Item | None:
        """A dimension along which a value stands beside itself: what is merged with it is not taken apart again."""
        item = self.fresh(size)
        if item is not None:
            self._turns.append(item)
        return item

    def pages(self, which: Dims, inside: Dims) -> None:
        """Note that pages are read where data say: what lists pages and what is in them is one row, whatever the pages are."""
        self._pages.append((which, inside))

    def _paged(self, items: Sequence[Item]) -> bool:
        """Whether these are both pages and what is in them."""

        def met(dims: Dims) -> bool:
            return any(d is not None and self.find(d) in items for d in dims)

        return any(met(which) and met(inside) for which, inside in self._pages)

    def split(self, item: Item, sizes: Sequence[int]) -> list[Item]:
        """A dimension as several of the given sizes (none is 1)."""
        atoms = list(self.parts(item))
        out: list[Item] = []
        for size in sizes:
            group: list[Item] = []
            while atoms and math.prod(self._size[p] for p in group) < size:
                group.append(atoms.pop(0))
            if math.prod(self._size[p] for p in group) != size:
                break
            out.append(self.merge(group))
        if len(out) == len(sizes):
            return out
        new = [self.fresh(n) for n in sizes]
        items = [n for n in new if n is not None]
        if len(self.parts(item)) == 1:
            self._parts[self.find(item)] = tuple(items)
        return items

    def broadcast(self, *operands: Dims) -> Dims:
        """Dimensions of a pointwise result; operands align at the right."""
        rank = max((len(d) for d in operands), default=0)
        out: list[Item | None] = [None] * rank
        for dims in operands:
            for k, d in enumerate(dims, rank - len(dims)):
                if out[k] is None:
                    out[k] = d
                else:
                    self.unify(out[k], d)
        return tuple(out)

    def take_apart(self, item: Item) -> None:
        """Note that values are made by the parts of a dimension, each a product of its own."""
        self._apart.append(item)

    def is_apart(self, item: Item) -> bool:
        """Whether that was noted of a dimension."""
        return any(self.find(x) == self.find(item) for x in self._apart)

    def reshape(self, dims: Dims, old: Sequence[int], new: Sequence[int]) -> Dims:
        """Dimensions after a reshape."""
        if 0 in old:
            return tuple(self.fresh(n) for n in new)
        out: list[Item | None] = [None] * len(new)
        for ins, outs in reshape_groups(old, new):
            whole = self.merge([d for d in (dims[i] for i in ins) if d is not None])
            for o, item in zip(outs, [whole] if len(outs) == 1 else self.split(whole, [new[o] for o in outs]), strict=True):
                out[o] = item
        return tuple(out)


def reshape_groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Smallest runs of dimensions with equal products: ``(2, 4, 8) -> (8, 8)`` is ``[([0, 1], [0]), ([2], [1])]``; sizes 1 drop."""
    a, b = [i for i, n in enumerate(old) if n != 1], [i for i, n in enumerate(new) if n != 1]
    groups = []
    while a:
        ins, outs = [a.pop(0)], [b.pop(0)]
        p, q = old[ins[0]], new[outs[0]]
        while p != q:
            if p < q:
                ins.append(a.pop(0))
                p *= old[ins[-1]]
            else:
                outs.append(b.pop(0))
                q *= new[outs[-1]]
        groups.append((ins, outs))
    return groups
