"""Kernels by their loops: results that sum over the same axes and share a product are one kernel, with nothing stored but results.

Of what several results are made of, storing none is a plan that no single step from others leads to, and one kernel for each result makes
the products that they share once for each.  So what shares a loop is put into one kernel from the start: the gradients of keys and of
values, that of queries and the row sums that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.index import Axis
from ...ir.program import Program
from ...ir.terms import Term
from ..regions.work import Work
from ..search import Rejection, RootSpec
from ..targets import Target
from .cover import Cover
from .maker import CoverMaker

Groups = list[list[Term]]


def groups(program: Program, target: Target) -> Groups:
    """The results that may be made in one loop, in an order in which they can be made; empty if there is no such order."""
    work = Work(program, target)
    outputs = list(dict.fromkeys(o.term for o in program.outputs))
    below: dict[Term, set[Term]] = {}  # what a result is made of, down to other results
    keys: dict[Term, tuple[frozenset[Axis], ...]] = {}
    for t in outputs:
        below[t], todo, loops = set(), [t], set[frozenset[Axis]]()
        outer = {t}
        while todo:  # to the outermost sums
            x = todo.pop()
            if x in work.nests:
                loops.add(work.nests[x].summed)
            elif x is t or x not in work.outputs:
                todo += [a for a in x.args if a not in outer]
                outer.update(x.args)
        todo = [t]
        while todo:
            x = todo.pop()
            if x not in below[t]:
                below[t].add(x)
                todo += x.args if x is t or x not in work.outputs else ()
        keys[t] = tuple(sorted(loops, key=sorted))
    products = {t: {x for x in below[t] if x in work.nests and work.nests[x].product} for t in outputs}
    found: Groups = []
    for t in outputs:
        near = [g for g in found if any(keys[x] == keys[t] and products[x] & products[t] for x in g)]
        found = [g for g in found if g not in near] + [[*(x for g in near for x in g), t]]
    return _in_order(found, below)


def _in_order(found: Groups, below: dict[Term, set[Term]]) -> Groups:
    """Groups after those that they are made of; empty if two are made of each other."""
    ordered: Groups = []
    waiting = list(found)
    while waiting:
        ready = next((g for g in waiting if not any(x in below[t] for t in g for h in waiting if h is not g for x in h)), None)
        if ready is None:
            return []
        waiting.remove(ready)
        ordered.append(ready)
    return ordered


def by_loops(maker: CoverMaker, ordered: Sequence[Sequence[Term]]) -> Cover | Rejection:
    """One kernel for each group."""
    number = dict(zip(maker.program.terms(), maker.graph.original, strict=True))
    steps = []
    before: dict[int, RootSpec] = {}
    for group in ordered:
        classes = {number[t] for t in group}
        roots = tuple(o for o in maker.outputs if o.cls in classes)
        leaves = {c: maker.leaf(s) for c, s in before.items() if c not in classes and maker.stored.keeps(s)}
        kernel = maker.kernel(roots, leaves)
        if isinstance(kernel, Rejection):
            return kernel
        steps.append(kernel)
        before.update((o.cls, o) for o in roots)
    return Cover("one kernel per loop", tuple(steps))
