"""Which places of its arguments an operation can compute a value at a place from, without moving anything: one line per form.

Let P be the place of the result along one dimension of the mesh, whose n devices are numbered by r.

- replicated: from replicated arguments, every device computes all of it;
- an axis a: pointwise, an argument that has the axis is shared out along it, and one that lacks it is replicated;
- a reduction over another axis, the same; over the axis j that its argument is shared out along, the result is partial: its addends are
  the sums of the parts, and so for means, of equal parts;
- partial: a sum of partial values, one with the other sign or times a number, a choice between partial values by what all devices have, a
  sum of a partial value over an axis, a view of one.  With a factor that may be infinite or 0 the addends would not add up to what the
  program computes.  A maximum is never partial: whether a NaN among its parts survives is up to the transport.  Such reductions are
  split (:mod:`.forms`), and their parts gathered;
- a view x[j = e] along the axis a of e: if position r*l + a of the result, l the length of its part, reads only part r of j, and at the
  same position within that part for every r; or, where x has the axis a besides, if e does not depend on r.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product

from ..egraph.frozen import ENode
from ..ir.index import Axis, IndexExpr, index
from .mesh import PARTIAL, REPLICATED, Mesh, Place

ADDS = ("sum", "isum", "mean")  # reductions whose parts add up to the whole

One = Axis | str  # along one dimension of the mesh


def argument_places(
    n: ENode, axes: Sequence[frozenset[Axis]], numbers: Sequence[float | None], place: Place, mesh: Mesh
) -> Iterator[tuple[Place, ...]]:
    """The places of the arguments of a node, of given axes, that make its value at a place; ``numbers``: those that are constants."""
    choices = [list(_along(n, axes, numbers, p, size)) for p, size in zip(place, mesh.sizes, strict=True)]
    for each in product(*choices):
        found = tuple(zip(*each, strict=True)) if n.args else ()
        if all(_distinct(p) for p in found) and not _shared_twice(n, place):
            yield found


def _distinct(place: Place) -> bool:
    """Whether no axis is shared out over two dimensions of the mesh."""
    axes = [p for p in place if isinstance(p, Axis)]
    return len(axes) == len(set(axes))


def _shared_twice(n: ENode, place: Place) -> bool:
    """Whether a view reads one axis at two that are shared out."""
    return n.op == "view" and sum(p in n.attrs[1].axes() for p in place if isinstance(p, Axis)) > 1


def _along(n: ENode, axes: Sequence[frozenset[Axis]], numbers: Sequence[float | None], p: One, devices: int) -> Iterator[tuple[One, ...]]:
    """The same along one dimension of the mesh."""
    if n.op == "const":
        if p == REPLICATED or (p == PARTIAL and n.attrs[0] == 0):
            yield ()
    elif n.op in ("extent", "index"):
        if p == REPLICATED or (n.op == "index" and p == n.attrs[0]):
            yield ()
    elif n.op in ("map", "cast"):
        yield from _pointwise(n, axes, numbers, p)
    elif n.op == "reduce":
        yield from _reduction(n, axes, p, devices)
    elif n.op == "scan":
        yield from _scan(n, axes, p)
    elif n.op == "view":
        yield from _view(n, axes[0], p, devices)
    elif n.op == "gather" and p not in (axes[0] & {n.attrs[0]}):
        yield (p, REPLICATED) if p == PARTIAL else tuple(p if p in own else REPLICATED for own in axes)


def _pointwise(n: ENode, axes: Sequence[frozenset[Axis]], numbers: Sequence[float | None], p: One) -> Iterator[tuple[One, ...]]:
    if p != PARTIAL:
        yield tuple(p if p in own else REPLICATED for own in axes)
    elif n.scalar in ("neg", "add"):
        yield (PARTIAL,) * len(axes)
    elif n.scalar == "where":
        yield (REPLICATED, PARTIAL, PARTIAL)
    elif n.scalar == "mul":
        for k, c in enumerate(numbers):
            if c is not None and math.isfinite(c):
                yield tuple(REPLICATED if i == k else PARTIAL for i in range(2))


def _reduction(n: ENode, axes: Sequence[frozenset[Axis]], p: One, devices: int) -> Iterator[tuple[One, ...]]:
    (monoid, j), own = n.attrs, axes[0]
    if p != PARTIAL:
        yield tuple(p if len(axes) == 1 or p in x else REPLICATED for x in axes)
    elif monoid in ADDS:
        yield (PARTIAL,)
        if j in own and j.size % devices == 0 and j.size:
            yield (j,)


def _scan(n: ENode, axes: Sequence[frozenset[Axis]], p: One) -> Iterator[tuple[One, ...]]:
    monoid, j = n.attrs
    if p != PARTIAL and p != j:
        yield tuple(p if p in x else REPLICATED for x in axes)
    elif p == PARTIAL and monoid in ADDS:
        yield (PARTIAL,)


def _view(n: ENode, own: frozenset[Axis], p: One, devices: int) -> Iterator[tuple[One, ...]]:
    j, e = n.attrs
    if not isinstance(p, Axis) or j not in own or p not in e.axes():
        yield (p,)
    elif p not in own - {j}:
        if j.size and j.size % devices == 0 and aligned(e, p, devices, j.size // devices):
            yield (j,)
    elif aligned(e, p, devices, 0):
        yield (p,)


@cache
def aligned(e: IndexExpr, a: Axis, parts: int, step: int) -> bool:
    """Whether an expression is, at part r of an axis, ``step * r`` more than at part 0, and there below ``step`` (if that is not 0)."""
    length = a.size // parts
    inside = index(Axis(f"{a.name} inside", length)) if length > 1 else index(0)
    part = Axis(f"{a.name} part", parts)
    first = e.substitute({a: inside})
    if e.substitute({a: inside + index(part) * length}) != first + index(part) * step:
        return False
    low, high = first.bounds()
    return not step or (low >= 0 and high < step)
