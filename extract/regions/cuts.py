"""The cheapest values to store between two stages: a minimum cut, in microseconds, of the graph of terms.

Storing a value takes writing and reading it.  What the later stage may make again for itself takes its arithmetic instead (project
selection, as in :mod:`..saving`): so products of all pairs of positions, which row sums and two gradients are made of, are stored for
none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ...ir.terms import Term

LEAST = 1e-9  # what storing takes at least: of cuts that cost nothing, the one with the fewest values
Node = tuple[Term, int] | str  # a value before (0) and after (1) the place where it would be stored
START, END = "start", "end"


def cheapest_cut(
    sources: Sequence[Term], sinks: Collection[Term], users: Mapping[Term, Sequence[Term]], stored: Collection[Term],
    able: Callable[[Term], bool], storing: Callable[[Term], float], again: Mapping[Term, float],
) -> list[Term]:  # fmt: skip
    """The values to store so that no sink is made of a source but through what is stored; what is stored already costs nothing.

    ``able``: whether a value may be stored; sources are.  ``storing``: what that takes.  ``again``: what it takes to make a source again
    for the sinks, for those that may be.  Of equal cuts the one nearest to the sinks, so that what is pointwise between
    joins the stage that ends.
    """
    import networkx as nx
    from networkx.algorithms.flow import shortest_augmenting_path

    graph = nx.DiGraph()
    todo, seen = list(reversed(sources)), dict[Term, None]()
    while todo:
        t = todo.pop()
        if t in seen:
            continue
        seen[t] = None
        if t in sinks:
            graph.add_edge((t, 0), END)
            continue
        if t in stored:
            continue  # nothing flows through it
        if able(t) or t in sources:
            graph.add_edge((t, 0), (t, 1), capacity=max(storing(t), LEAST))
        else:
            graph.add_edge((t, 0), (t, 1))
        for u in users[t]:
            graph.add_edge((t, 1), (u, 0))
            todo.append(u)
    for t in sources:
        if t in again:
            graph.add_edge(START, (t, 0), capacity=again[t])
        else:
            graph.add_edge(START, (t, 0))
    if END not in graph:
        return []
    _, (_, behind) = nx.minimum_cut(graph, START, END, flow_func=shortest_augmenting_path)
    return [t for t in seen if (t, 1) in behind and (t, 0) in graph and (t, 0) not in behind]
