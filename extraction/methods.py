"""The extractors, one table: a name, what it minimises, and the function."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from ..errors import OptionError, expect
from .exact import PROVED, exact
from .graph import Cost, Graph, Selection
from .greedy import greedy
from .tree import tree

LARGEST = 100_000  # classes: the sets of so many take up to 1.3 GB


@dataclass(frozen=True)
class Found:
    """A selection, and how good it is known to be.

    ``bound``: no selection has a lower cost of the ``objective`` ("tree" or "dag"); 0 where nothing is known.  ``proof`` says
    it in a word: ``optimal``, ``gap`` or ``none``.  ``seconds`` of wall-clock time.
    """

    selection: Selection
    method: str
    objective: str
    bound: float
    seconds: float

    @property
    def cost(self) -> float:
        """What the method minimises."""
        return self.selection.tree_cost if self.objective == "tree" else self.selection.dag_cost

    @property
    def gap(self) -> float:
        """The part of the cost that might be saved, at most: 0 if it is optimal, 1 if nothing is known."""
        return 0.0 if self.cost <= self.bound else (self.cost - self.bound) / self.cost

    @property
    def proof(self) -> str:
        """``optimal`` (to one part in a million), ``gap`` or ``none``."""
        return "optimal" if self.gap <= PROVED else "gap" if self.bound > 0 else "none"


@dataclass(frozen=True)
class Method:
    """An extractor: of a graph, a selection to start from and a deadline of :func:`time.monotonic`, it makes a selection and a
    bound."""

    objective: str
    says: str
    run: Callable[[Graph, Selection | None, float], tuple[Selection, float]]


def _tree(graph: Graph, start: Selection | None, deadline: float) -> tuple[Selection, float]:
    found = tree(graph)
    return found, found.tree_cost


def _greedy(graph: Graph, start: Selection | None, deadline: float) -> tuple[Selection, float]:
    """The greedy selection, or the one by tree cost or the one given where that is cheaper."""
    if len(graph.classes) > LARGEST:
        raise OptionError(
            f"the graph has {len(graph.classes)} classes; methods that see sharing keep a set of classes for each and take {LARGEST}",
            cure='method="tree"',
        )
    owner, position, children, cost = graph.flat()
    by_tree = tree(graph)
    found = greedy(children, owner, cost, len(graph.classes))
    offered = [Selection(graph, {c: position[n] for c, n in found.items()}), by_tree, *([start] if start else [])]
    return min(offered, key=lambda s: s.dag_cost), 0.0


def _exact(graph: Graph, start: Selection | None, deadline: float) -> tuple[Selection, float]:
    first, _ = _greedy(graph, start, deadline)
    return exact(graph, first, deadline)


METHODS: Mapping[str, Method] = {
    "tree": Method("tree", "the least cost without sharing (bottom-up)", _tree),
    "greedy-dag": Method("dag", "sharing as each class sees it", _greedy),
    "exact": Method("dag", "the least cost with sharing: reductions and an integer program, within the time limit", _exact),
}


def choose(
    graph: Graph,
    costs: Cost | None = None,
    roots: Iterable[int] | None = None,
    method: str = "exact",
    time_limit: float = 10.0,
    start: Mapping[int, int] | Selection | None = None,
) -> Found:
    """Choose a member of each class that the roots need.

    ``costs`` and ``roots`` replace the graph's own: ``costs(c, k)`` is the price of member k of class c, infinity if it may not
    be chosen. ``start``, a selection or class -> position, is what the result is never dearer than ("greedy-dag" and "exact").
    "exact" is never dearer than "greedy-dag" either.  It starts from that selection however long this takes, and ends about when
    ``time_limit`` seconds are over: what that cuts short hangs on the machine, the rest on the graph only.

    Raises :class:`~eqfuse.errors.GraphError` if nothing can be chosen, :class:`~eqfuse.errors.OptionError` for what is no
    option.
    """
    began = time.monotonic()
    expect(method in METHODS, "method", method, f"one of {', '.join(METHODS)}")
    number = isinstance(time_limit, int | float) and not isinstance(time_limit, bool) and 0 < time_limit < math.inf
    expect(number, "time_limit", time_limit, "a number of seconds above 0")
    expect(isinstance(graph, Graph), "graph", graph, "eqfuse.extraction.Graph")
    expect(costs is None or callable(costs), "costs", costs, "a function of a class and of a position in it")
    expect(start is None or isinstance(start, Selection | Mapping), "start", start, "a selection, or class -> position")
    if costs is not None:
        graph = graph.priced(costs)
    if roots is not None:
        graph = Graph(graph.classes, cast("tuple[int, ...]", roots), graph.names, graph.types)
    first = None if start is None else Selection(graph, dict(start.choice if isinstance(start, Selection) else start))
    if first is not None and first.dag_cost == math.inf:
        raise OptionError("start chooses a member that may not be chosen", cure="a start whose members have finite costs")
    selection, bound = METHODS[method].run(graph, first, began + time_limit)
    return Found(selection, method, METHODS[method].objective, bound, time.monotonic() - began)
