"""The oracle: every selection of a small graph, one after the other; and small random graphs."""

import math
from contextlib import suppress

from eqfuse.errors import GraphError
from eqfuse.extraction import Graph, Member, Selection


def selections(graph):
    """All of them: a member for each class that is needed, in every way, and Selection says which have no cycle."""

    def extend(choice, needed):
        needed = [c for c in needed if c not in choice]
        if not needed:
            yield choice
            return
        for k, m in enumerate(graph.classes[needed[0]]):
            if m.cost < math.inf:
                yield from extend({**choice, needed[0]: k}, [*needed[1:], *m.children])

    for choice in extend({}, list(graph.roots)):
        with suppress(GraphError):  # a cycle
            yield Selection(graph, choice)


def optimum(graph, cost="dag_cost"):
    """The least cost, or None if there is no selection."""
    return min((getattr(s, cost) for s in selections(graph)), default=None)


def draw(r, classes=8, members=3, arity=3):
    """A random graph: with cycles or without, whole costs with ties and zeros or fractions."""
    n, whole, cyclic = r.randint(1, classes), r.random() < 0.6, r.random() < 0.6

    def member(c):
        below = range(n) if cyclic else range(c + 1, n)
        children = [r.choice(below) for _ in range(r.randint(0, arity))] if len(below) else []
        cost = r.choice([0, 1, 1, 2, 3, 5]) if whole else round(10 * r.random(), 2)
        return Member("f", tuple(children), math.inf if r.random() < 0.03 else cost)

    made = tuple(tuple(member(c) for _ in range(r.randint(1, members))) for c in range(n))
    return Graph(made, tuple(dict.fromkeys(r.randrange(n) for _ in range(r.randint(1, 2)))))
