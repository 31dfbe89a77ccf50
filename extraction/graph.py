"""E-graphs as extraction sees them: classes, their members, which classes a member needs, and what it costs.

An e-class is a set of e-nodes, its *members*, that compute the same value; a member takes the values of *children*, which are
classes. Classes are integers ``0 .. n-1``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, TypeVar

from ..errors import GraphError, shown

N = TypeVar("N")
Cost = Callable[[int, int], float]  # of class and position in the class


@dataclass(frozen=True, slots=True)
class Member:
    """One e-node of a class.  ``cost`` is its own, without its children's: at least 0, and infinity if it may not be chosen.
    ``name`` is its identifier in a file."""

    op: str
    children: tuple[int, ...] = ()
    cost: float = 1.0
    name: str = ""


@dataclass(frozen=True)
class Graph:
    """An e-graph.  ``roots`` are the classes that are wanted; ``names`` has the name of each class for people and files,
    ``types`` what its values are, in words (axes, a type), or nothing.

    Raises :class:`~eqfuse.errors.GraphError` if a child or a root is no class, if there are no roots, and for costs that are
    negative or no numbers.
    """

    classes: tuple[tuple[Member, ...], ...]
    roots: tuple[int, ...]
    names: tuple[str, ...] = field(default=(), repr=False)
    types: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "classes", tuple(map(tuple, self.classes)))
            object.__setattr__(self, "roots", tuple(self.roots))
        except TypeError as error:
            raise GraphError(f"no e-graph: {error}", cure="classes as tuples of Member, and roots as a tuple of numbers") from error
        for name in ("names", "types"):
            if getattr(self, name) and len(getattr(self, name)) != len(self.classes):
                raise GraphError(f"{len(getattr(self, name))} {name} for {len(self.classes)} classes", cure="one for each class, or none")
        if not self.names:
            object.__setattr__(self, "names", tuple(map(str, range(len(self.classes)))))
        if not self.types:
            object.__setattr__(self, "types", ("",) * len(self.classes))
        known = range(len(self.classes))
        if not self.roots:
            raise GraphError("the graph has no root: nothing is wanted of it", cure="name the classes that are wanted as roots")
        object.__setattr__(self, "roots", tuple(dict.fromkeys(self.roots)))
        if bad := [r for r in self.roots if not isinstance(r, int) or r not in known]:
            raise GraphError(f"the root {shown(bad[0])} is no class; there are {len(self.classes)}", cure="roots from 0 on")
        for c, members in enumerate(self.classes):
            for k, m in enumerate(members):
                if not isinstance(m, Member):
                    raise GraphError(f"member {k} of class {self.names[c]} is {shown(m)}", cure="a Member, or Graph.of for other objects")
                if any(d not in known for d in m.children):
                    bad = [d for d in m.children if d not in known]
                    message = f"its child {shown(bad[0])} is no class"
                    raise GraphError(message, where=self.place(c, k), cure="children that are numbers of classes")
                if not (isinstance(m.cost, Real) and m.cost >= 0):
                    cure = "a number of at least 0, or infinity to bar it"
                    raise GraphError(f"its cost is {shown(m.cost)}", where=self.place(c, k), cure=cure)

    @classmethod
    def of(
        cls,
        classes: Iterable[Iterable[N]],
        roots: Iterable[int],
        *,
        children: Callable[[N], Sequence[int]],
        cost: Callable[[N], float] = lambda _: 1.0,
        op: Callable[[N], str] = str,
        names: Iterable[str] = (),
        types: Iterable[str] = (),
    ) -> Graph:
        """A graph of any objects: what the children, the price and the text of one of them are is said by functions."""
        made = tuple(tuple(Member(op(n), tuple(children(n)), cost(n)) for n in members) for members in classes)
        return cls(made, tuple(roots), tuple(names), tuple(types))

    def priced(self, cost: Cost) -> Graph:
        """The same graph with other costs: a function of a class and of a position in it."""
        classes = tuple(tuple(replace(m, cost=cost(c, k)) for k, m in enumerate(ms)) for c, ms in enumerate(self.classes))
        return replace(self, classes=classes)

    def flat(self) -> tuple[list[int], list[int], list[tuple[int, ...]], list[float]]:
        """All members one after the other: their classes, positions, children and costs."""
        every = [(c, k, m) for c, ms in enumerate(self.classes) for k, m in enumerate(ms)]
        return [c for c, _, _ in every], [k for _, k, _ in every], [m.children for *_, m in every], [m.cost for *_, m in every]

    def place(self, c: int, k: int) -> str:
        """A member in a message."""
        m = self.classes[c][k]
        return f"class {self.names[c]}, {f'node {m.name}' if m.name else f'member {k}'} ({shown(m.op)})"

    @property
    def members(self) -> int:
        """Number of members of all classes."""
        return sum(map(len, self.classes))


@dataclass(frozen=True)
class Selection:
    """A member for each class that is needed: the program that was chosen.  ``choice`` is class -> position in the class.

    Complete (every root, and every child of what is chosen, is chosen), without cycles and without anything else: classes that
    no root needs are left out.  Raises :class:`~eqfuse.errors.GraphError` if that cannot be.
    """

    graph: Graph = field(repr=False)
    choice: dict[int, int]
    order: tuple[int, ...] = field(init=False, repr=False, compare=False)  # children first

    def __post_init__(self) -> None:
        order = tuple(self._ordered())
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "choice", {c: self.choice[c] for c in sorted(order)})

    def member(self, c: int) -> Member:
        """The member that was chosen for a class."""
        return self.graph.classes[c][self.choice[c]]

    def _ordered(self) -> Iterable[int]:
        """The classes that the roots need, children first; a depth-first search that knows which classes it is in."""
        state: dict[int, bool] = {}  # False: inside, True: done
        for root in self.graph.roots:
            stack = [root] if root not in state else []
            while stack:
                c = stack[-1]
                if c in state:
                    stack.pop()
                    if not state[c]:
                        state[c] = True
                        yield c
                    continue
                if not 0 <= self.choice.get(c, -1) < len(self.graph.classes[c]):
                    message = f"nothing is chosen for the class {self.graph.names[c]}"
                    raise GraphError(message, cure="choose a member of every class that is needed")
                state[c] = False
                for d in self.member(c).children:
                    if state.get(d) is False:
                        message = f"the class {self.graph.names[d]} needs itself in what is chosen"
                        raise GraphError(message, cure="choose without a cycle")
                    if d not in state:
                        stack.append(d)

    @property
    def dag_cost(self) -> float:
        """The sum over the classes of what is chosen: a value that is used twice is computed once."""
        return math.fsum(self.member(c).cost for c in self.order)

    @property
    def tree_cost(self) -> float:
        """What the roots cost if nothing is shared; infinity if no float is as large."""
        costs: dict[int, float] = {}
        for c in self.order:
            m = self.member(c)
            costs[c] = m.cost + sum(costs[d] for d in m.children)
        return sum(costs[r] for r in self.graph.roots)

    def __str__(self) -> str:
        """A line for each class, children first."""
        names = self.graph.names
        lines = [(names[c], self.member(c)) for c in self.order]
        return "\n".join(f"{c} = {m.op}({', '.join(names[d] for d in m.children)})  # {m.cost:g}" for c, m in lines)


def components(edges: Sequence[Iterable[int]], wanted: Iterable[int] | None = None) -> list[list[int]]:
    """The strongly connected components of a graph (Tarjan), children first; only of what ``wanted`` reaches, if that is
    given."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    waiting: list[int] = []
    inside: set[int] = set()
    found: list[list[int]] = []
    for start in range(len(edges)) if wanted is None else wanted:
        if start in index:
            continue
        calls: list[tuple[int, Any]] = []

        def enter(v: int, calls: list[tuple[int, Any]] = calls) -> None:
            index[v] = low[v] = len(index)
            waiting.append(v)
            inside.add(v)
            calls.append((v, iter(edges[v])))

        enter(start)
        while calls:
            v, rest = calls[-1]
            w = next(rest, None)
            if w is None:
                calls.pop()
                if calls:
                    low[calls[-1][0]] = min(low[calls[-1][0]], low[v])
                if low[v] == index[v]:
                    one = [waiting.pop()]
                    while one[-1] != v:
                        one.append(waiting.pop())
                    inside.difference_update(one)
                    found.append(sorted(one))
            elif w not in index:
                enter(w)
            elif w in inside:
                low[v] = min(low[v], index[w])
    return found
