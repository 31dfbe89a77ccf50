"""What a frozen e-graph may be: the language of :mod:`.frozen` as a table of laws (:mod:`..ir.spec`).

It says that a graph is well formed.  That the members of a class are equal, and the facts true, says the audit.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from ..ir import nodes
from ..ir.index import Axis
from ..ir.spec import Row, Spec, rows_of_nodes, shaped
from .frozen import ENode, FrozenGraph, member_text

KINDS = nodes.KINDS.keys() - {"load"}


@dataclass(frozen=True)
class _Classes:
    """A graph, and the class of the node in question."""

    graph: FrozenGraph

    @cached_property
    def inputs(self) -> frozenset[str]:
        """The names of the program's inputs."""
        return frozenset(i.name for i in self.graph.program.inputs)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The size of every axis: the program's, those that splits have made, and those that views have."""
        rows = (row for name in ("split", "before") for row in self.graph.facts.get(name, ()))
        known = [*self.graph.program.every_axis, *(a for row in rows for a in row)]
        return {a.name: a.size for a in known}

    @cached_property
    def grounded(self) -> frozenset[int]:
        """The classes with a member that can be written down: its arguments are grounded, without going in a circle."""
        readers: dict[int, list[tuple[int, ENode]]] = defaultdict(list)
        missing = {}
        ready: list[int] = []
        for c, members in enumerate(self.graph.classes):
            for n in members:
                missing[id(n)] = len(set(n.args))
                for a in set(n.args):
                    readers[a].append((c, n))
                if not n.args:
                    ready.append(c)
        found: set[int] = set()
        while ready:
            c = ready.pop()
            if c in found:
                continue
            found.add(c)
            for reader, n in readers[c]:
                missing[id(n)] -= 1
                if not missing[id(n)]:
                    ready.append(reader)
        return frozenset(found)

    @cached_property
    def levels(self) -> dict[Axis, dict[int, int]]:
        """The level of every class, by axis."""
        found: dict[Axis, dict[int, int]] = defaultdict(dict)
        for c, axis, level in self.graph.facts.get("level", ()):
            found[axis][c] = level
        return found

    @cached_property
    def mislevelled(self) -> frozenset[int]:
        """The classes whose level over some axis is not the least that their members give."""
        kin = defaultdict(set, {a: {a} for a in self.levels})
        families: dict[Axis, list[frozenset[Axis]]] = defaultdict(list)
        for whole, outer, inner in self.graph.facts.get("split", ()):
            families[whole].append(frozenset((outer, inner)))
        for whole, ways in families.items():
            kin[whole] |= frozenset().union(*ways)
            for parts in ways:  # parts of different splits of an axis cross each other
                for part in parts:
                    kin[part] |= {whole, *frozenset().union(*ways) - parts}
        settled = {c for (c,) in self.graph.facts.get("settled", ())}
        updates: dict[tuple[Axis, int], list[int]] = defaultdict(list)
        for n in chain(*self.graph.classes):
            if n.op == "roll" and n.attrs[0] == "sum":
                updates[n.attrs[1], n.args[0]].append(n.args[1])

        def of(n: ENode, axis: Axis) -> list[int]:
            known = self.levels[axis]
            if not all(a in known for a in n.args):
                return []
            most = max((known[a] for a in n.args), default=0)
            if n.op == "pre":  # the accumulator of a plain sum, or of a loop
                loops = [max(most, known[u]) for u in updates[n.attrs[0], n.args[0]] if u in known]
                return [most, *loops] if n.args[0] in settled else loops
            if n.op not in ("reduce", "roll", "ref") or n.attrs[1] not in kin[axis]:
                return [most]
            return [max(0, most - 1) if n.op == "ref" else most + 1]

        def wrong(c: int, members: tuple[ENode, ...]) -> bool:
            return any(
                known.get(c) != min((level for n in members for level in of(n, axis)), default=None) for axis, known in self.levels.items()
            )

        return frozenset(c for c, members in enumerate(self.graph.classes) if wrong(c, members))


Member = tuple[int, ENode]


def _mentions(at: _Classes, m: Member) -> bool:
    c, n = m
    if n.op == "input":
        return at.graph.axes[c] <= next(i.axes for i in at.graph.program.inputs if i.name == n.attrs[0])
    return at.graph.axes[c] <= nodes.axes(n.op, n.attrs, [at.graph.axes[a] for a in n.args])


def _kind(x: Member | FrozenGraph | int) -> str:
    return "graph" if isinstance(x, FrozenGraph) else "class" if isinstance(x, int) else x[1].op


def _show(at: _Classes, x: Member | FrozenGraph | int) -> str:
    if isinstance(x, FrozenGraph):
        return f"{len(x.classes)} classes"
    return f"c{x}" if isinstance(x, int) else member_text(*x)


_SCALARS = tuple(KINDS - {"roll", *nodes.RUNNING})  # what is a value in any context

GRAPH: Spec = Spec(
    "e-graph",
    (
        Row(
            "axes of each class",
            "every class has a set of axes",
            lambda at, g: len(g.axes) == len(g.classes),
            ("graph",),
        ),
        Row(
            "roots",
            "every output of the program has a class",
            lambda at, g: set(g.roots) == {o.name for o in g.program.outputs} and all(0 <= c < len(g.classes) for c in g.roots.values()),
            ("graph",),
        ),
        Row(
            "originals",
            "every term of the program has a class",
            lambda at, g: len(g.original) == len(g.program.terms()) and all(0 <= c < len(g.classes) for c in g.original),
            ("graph",),
        ),
        Row("word", "a node is one of the language", lambda at, m: _kind(m) in GRAPH.kinds),
        *rows_of_nodes(tuple(KINDS), lambda n: shaped(n.op, n.attrs, len(n.args))),
        Row("known input", "an input is one of the program's", lambda at, m: m[1].attrs[0] in at.inputs, ("input",)),
        Row(
            "arguments",
            "every argument is a class",
            lambda at, m: all(0 <= a < len(at.graph.classes) for a in m[1].args),
            tuple(KINDS),
        ),
        Row(
            "one size",
            "an axis is one of the program's or part of one, and has one size",
            lambda at, m: all(at.sizes.get(a.name) == a.size for a in m[1].mentions),
            tuple(KINDS),
        ),
        Row("axes", "a class depends on no axis that one of its members does not have", _mentions, _SCALARS),
        Row(
            "grounded",
            "what is computed has a form that does not lead back to itself",
            lambda at, c: c in at.grounded,
            ("class",),
        ),
        Row("levels", "the level of a class is the least that its members give", lambda at, c: not at.mislevelled, ("class",)),
    ),
    _kind,
    _show,
)


def check_graph(graph: FrozenGraph) -> None:
    """Raise SpecError unless a graph is well formed."""
    place = _Classes(graph)
    members = ((place, (c, n)) for c, row in enumerate(graph.classes) for n in row)
    computed = ((place, c) for c in (*graph.roots.values(), *graph.original))
    GRAPH.check(graph.program.name, chain([(place, graph)], members, computed))
