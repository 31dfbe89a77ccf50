"""Calls of outside implementations: from an offer that a rule made about classes to a step of a plan.

A value can be handed to a function if some access to it names every axis of the value once: an input or a stored value, through
any views that permute or drop dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..egraph.frozen import FrozenGraph
from ..ir.index import Axis, IndexExpr
from ..ir.terms import Term
from ..rewrites.verdicts import Offer
from ..tiles.kernel import Buffer
from ..tiles.outside import Operand, OutsideCall
from .choose import Access
from .plan import Cost, PlannedCall
from .targets import Target


@dataclass(frozen=True)
class Outside:
    """An offer for one class, with the axis of every name in it."""

    offer: Offer
    cls: int
    reads: tuple[int, ...]
    axes: tuple[tuple[str, Axis], ...]


def offers(graph: FrozenGraph) -> list[Outside]:
    """What the fusion rules offer in a graph, where the axes of the values are those that the offer names."""
    found: dict[Outside, None] = {}
    for offer, classes, bound in graph.facts.get("outside", ()):
        names = [tuple(a.name for a in v[1:]) for v in (offer.result, *offer.reads)]
        sets = [graph.axes[c] for c in classes]
        for axes in _solutions(dict(bound), list(zip(names, sets, strict=True))):
            found[Outside(offer, classes[0], tuple(classes[1:]), tuple(sorted(axes.items())))] = None
    return list(found)


def _solutions(known: Mapping[str, Axis], values: Sequence[tuple[tuple[str, ...], frozenset[Axis]]]) -> Iterator[dict[str, Axis]]:
    """Every assignment of axes to names for which each value has exactly the axes named, each once."""
    if any(len(names) != len(axes) for names, axes in values):
        return
    pending = [n for names, _ in values for n in names if n not in known]
    if not pending:
        if all({known[n] for n in names} == axes for names, axes in values):
            yield dict(known)
        return
    name = pending[0]
    possible = frozenset.intersection(*(axes for names, axes in values if name in names)) - frozenset(known.values())
    for axis in sorted(possible):
        yield from _solutions({**known, name: axis}, values)


def operand(buffer: Buffer, index: Sequence[IndexExpr], order: tuple[Axis, ...]) -> Operand | None:
    """How a function sees a buffer that is read at an index, if it can."""
    dims: list[Axis | None] = []
    for e, size in zip(index, buffer.shape, strict=True):
        axis = e.as_axis()
        if axis is not None and axis.size == size:
            dims.append(axis)
        elif size == 1 and not e.axes():
            dims.append(None)
        else:
            return None
    held = [a for a in dims if a is not None]
    if len(held) != len(order) or set(held) != set(order):
        return None
    return Operand(buffer, tuple(dims), order)


def planned_call(
    name: str,
    outside: Outside,
    term: Term,
    result: tuple[Buffer, Sequence[IndexExpr]],
    accesses: Sequence[tuple[Access, ...]],
    buffers: Mapping[str, Buffer],
    target: Target,
) -> PlannedCall | None:
    """The step that makes a class by an outside implementation; ``None`` where a value cannot be handed to the function."""
    axes = dict(outside.axes)

    def order(value: tuple[object, ...]) -> tuple[Axis, ...]:
        return tuple(axes[a.name] for a in value[1:])  # type: ignore[attr-defined]

    reads = []
    for cls, value in zip(outside.reads, outside.offer.reads, strict=True):
        ways = (operand(buffers[a.buffer], a.index, order(value)) for a in accesses[cls] if a.buffer)
        able = sorted((w for w in ways if w is not None), key=lambda w: w.buffer.role != "input")  # what is there needs no kernel
        seen = next(iter(able), None)
        if seen is None:
            return None
        reads.append(seen)
    made = operand(*result, order(outside.offer.result))
    if made is None:
        return None
    moved = sum({o.buffer.name: o.buffer.bytes for o in (*reads, made)}.values())
    us = outside.offer.cost(target, {n: a.size for n, a in outside.axes})
    cost = Cost(us, moved, moved, 0.0, 0.0, 0.0, 0, 0, 0, "outside", {"outside": us})
    call = OutsideCall(name, outside.offer.entry, tuple(reads), made)
    return PlannedCall(call, cost, term, outside.offer.by, outside.offer.where)
