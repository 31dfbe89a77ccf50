"""Which form of every class is the program's, and which one a kernel computes.

The *base form* of a class is the program's own node, or for a class that only rules made, a form with as few nodes of rules and
running values as there is.  The *plan's form* is the e-node behind a node of a kernel: kernels hold concrete nodes, so they are
looked up bottom-up, a load by what it reads, any other node by its operation and the classes of its arguments.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Mapping
from functools import cached_property

from ..egraph.frozen import ENode, FrozenGraph
from ..extract.choose import Access, Chooser, Leaf
from ..tiles.centres import plain
from ..tiles.kernel import Kernel

RUNNING = ("roll", "ref", "pre", "acc")
DIRECT = ("input", "view", "gather", "index")  # forms that are read, not computed
Key = tuple[str, tuple[object, ...], tuple[int, ...]]


def _open(a: Access) -> Access:
    """An access, whatever says where it reads."""
    return Access(a.buffer, a.index, tuple((axis, 0) for axis, _ in a.looked))


class Forms:
    """Base forms of one graph."""

    def __init__(self, graph: FrozenGraph) -> None:
        self.graph = graph
        self.base: dict[int, ENode] = {}
        self._cost: dict[int, float] = {}
        self._solve()

    def _solve(self) -> None:
        """Cheapest forms by a well-founded cost: the costliest argument, plus little for the program's nodes and much for others'."""
        users: dict[int, list[tuple[int, ENode]]] = {}
        missing: dict[int, int] = {}
        ready: list[tuple[float, int, int, ENode]] = []
        tie = itertools.count()
        cost = self._cost

        def offer(c: int, n: ENode) -> None:
            heapq.heappush(ready, (self.cost(n), next(tie), c, n))

        for c, members in enumerate(self.graph.classes):
            for n in members:
                below = set(n.args)
                missing[id(n)] = len(below)
                for a in below:
                    users.setdefault(a, []).append((c, n))
                if not below:
                    offer(c, n)
        while ready:
            total, _, c, n = heapq.heappop(ready)
            if c in cost:
                continue
            cost[c], self.base[c] = total, n
            for user, m in users.get(c, ()):
                missing[id(m)] -= 1
                if missing[id(m)] == 0 and user not in cost:
                    offer(user, m)

    def cost(self, n: ENode) -> float:
        """How far an e-node is from the program: its costliest argument, and itself."""
        own = 1e-6 if n.rule is None else 1.0
        own += 100.0 if n.op in RUNNING else 0.0
        return max((self._cost.get(a, math.inf) for a in n.args), default=0.0) + own

    def form(self, c: int) -> ENode | None:
        """The base form of a class."""
        return self.base.get(c)

    @cached_property
    def index(self) -> dict[Key, tuple[int, ENode]]:
        """Every e-node by what it is."""
        return {key(n): (c, n) for c, members in enumerate(self.graph.classes) for n in members}

    def below(self, roots: tuple[int, ...]) -> list[int]:
        """Classes that the base forms below some classes mention, roots first."""
        seen: dict[int, None] = {}
        stack = list(reversed(roots))
        while stack:
            c = stack.pop()
            if c not in seen and c in self.base:
                seen[c] = None
                stack.extend(reversed(self.base[c].args))
        return list(seen)


def key(n: ENode) -> Key:
    """What an e-node is, whoever made it."""
    return n.op, n.attrs, n.args


READ = ("load", "index", "const", "extent", "ref", "pre", "acc")  # nodes of what others make, or nobody


class KernelForms:
    """The classes and e-nodes behind the nodes of one kernel.

    ``cls[k]`` is the class of node k (``None`` if it has none: then the kernel was not made from this graph), ``enode[k]`` its
    e-node; a load's e-node is the direct form of its class, or ``None`` for a value that another kernel stored.
    """

    def __init__(self, forms: Forms, chooser: Chooser, kernel: Kernel, leaves: Mapping[int, Leaf]) -> None:
        kernel = plain(kernel)
        self.kernel, self.leaves = kernel, dict(leaves)
        outputs = forms.graph.roots  # where a view of what is made is stored, the output is another class than its node
        self.shown = [(r.node, outputs[r.buffer]) for r in kernel.roots if r.buffer in outputs]
        self.cls: list[int | None] = []
        self.enode: list[ENode | None] = []
        self.loaded: set[int] = set()
        reads: dict[Access, list[tuple[int, tuple[int, ...]]]] = {}  # how classes are read, but for the classes that say where
        for c, accesses in enumerate(chooser.accesses(leaves)):
            for a in accesses:
                reads.setdefault(_open(a), []).append((c, a.places))
        self.places: dict[tuple[int, int], tuple[int, ...]] = {}
        candidates: list[list[tuple[int, ENode | None]]] = []
        for n in kernel.nodes:  # the class that a node was made for, where it is noted, decides
            found: list[tuple[int, ENode | None]] = []
            if n.op in ("load", "index"):
                looked = tuple((a, 0) for a in n.attrs[2]) if n.op == "load" else ()
                access = Access(n.attrs[0], n.attrs[1], looked) if n.op == "load" else Access(None, (n.attrs[0],))
                for c, places in reads.get(access, ()):
                    if not all(any(p == d for d, _ in candidates[x]) for x, p in zip(n.args, places, strict=True)):
                        continue
                    self.places[len(candidates), c] = places
                    direct = None if c in leaves else next((m for m in forms.graph.classes[c] if m.op in DIRECT), None)
                    found.append((c, direct))
            else:
                for args in self._arguments(n.op, n.args, candidates):
                    hit = forms.index.get((n.op, n.attrs, args))
                    if hit is not None and hit not in found:
                        found.append(hit)
            candidates.append([f for f in found if f[0] == n.cls] or found)
        self.cls = [None] * len(candidates)
        self.enode = [None] * len(candidates)
        for k in reversed(range(len(candidates))):  # users first: they say which of several classes an argument is of
            if self.cls[k] is None and candidates[k]:
                self._settle(k, *candidates[k][0], candidates)
        self.loaded = {c for k, c in enumerate(self.cls) if c is not None and c in leaves and kernel.nodes[k].op == "load"}

    def _arguments(self, op: str, args: tuple[int, ...], candidates: list[list[tuple[int, ENode | None]]]) -> Iterator[tuple[int, ...]]:
        if op == "pre":  # a kernel names the reduction that keeps the accumulator, the e-graph its body
            for _, n in candidates[args[0]]:
                if n is not None:
                    yield (n.args[0],)
            return
        yield from itertools.islice(itertools.product(*([c for c, _ in candidates[a]] for a in args)), 64)

    def _settle(self, k: int, c: int, n: ENode | None, candidates: list[list[tuple[int, ENode | None]]]) -> None:
        """What a node is of, and by it those below: the first user decides."""
        todo = [(k, c, n)]
        while todo:
            k, c, n = todo.pop()
            if self.cls[k] is not None:
                continue
            self.cls[k], self.enode[k] = c, n
            node = self.kernel.nodes[k]
            below = self.places.get((k, c), ()) if node.op == "load" else n.args if n is not None else ()
            if node.op in ("index", "pre") or not below:
                continue
            for a, wanted in reversed(list(zip(node.args, below, strict=True))):
                if self.cls[a] is None:
                    todo += [(a, d, m) for d, m in candidates[a] if d == wanted][:1]

    @cached_property
    def kept(self) -> dict[int, int]:
        """The body of every accumulator that the kernel reads before a step, and the class of the reduction that keeps it."""
        found: dict[int, int] = {}
        for k, node in enumerate(self.kernel.nodes):
            n = self.enode[k]
            if node.op == "pre" and n is not None and (c := self.cls[node.args[0]]) is not None:
                found[n.args[0]] = c
        return found

    @property
    def computed(self) -> set[int]:
        """Classes that the kernel computes, and what it computes of them is not merely read from memory or a position."""
        found = {c for k, c in enumerate(self.cls) if c is not None and self.kernel.nodes[k].op not in READ}
        return found | {c for k, c in self.shown if self.cls[k] in found}

    @property
    def held(self) -> set[int]:
        """Every class that some node of the kernel is of, loads included."""
        return {c for c in self.cls if c is not None}

    @property
    def stores(self) -> dict[str, int]:
        """The classes that the kernel stores, by buffer."""
        return {r.buffer: c for r in self.kernel.roots if (c := self.cls[r.node]) is not None}

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.kernel.name


class CallForms:
    """The same for a step that calls an outside implementation: it makes one class, and nobody sees how."""

    def __init__(self, name: str, buffer: str, cls: int, leaves: Mapping[int, Leaf]) -> None:
        self.name, self.leaves, self.loaded = name, dict(leaves), set(leaves)
        self.stores = {buffer: cls}
        self.kept: dict[int, int] = {}
        self.enode: list[ENode | None] = []
        self.computed = self.held = {cls}
