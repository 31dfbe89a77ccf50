"""Calls of outside implementations: from an offer that a rule made about classes to a step of a plan.

A value can be handed to a function if some access to it names every axis of the value once: an input or a stored value, through
any views that permute or drop dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ..egraph.frozen import FrozenGraph
from ..ir.dtypes import DType
from ..ir.index import Axis, IndexExpr
from ..ir.terms import Term
from ..rewrites.rule import Rule
from ..rewrites.verdicts import Offer, Verdict
from ..tiles.kernel import Buffer
from ..tiles.outside import Operand, OutsideCall
from .choose import Access
from .plan import Cost, PlannedCall
from .targets import Target


@dataclass(frozen=True)
class Handed:
    """A value that a function takes or returns: its class, its name where it is offered, the axes in the order of the function's tensor
    (none for a dimension of length 1), the type that the tensor must have, if that matters, and how many axes each dimension has, if not
    one."""

    cls: int
    name: str
    order: tuple[Axis | None, ...]
    dtype: DType | None = None
    lengths: tuple[int, ...] = ()


@dataclass(frozen=True)
class Outside:
    """An implementation of one class of a graph: who offers it, and where; what it takes, after ``first`` and before ``named``, which are
    no tensors.  ``about``: the buffer of the value, for offers of the library, which need no rule and are made for many values."""

    by: str
    where: str
    entry: tuple[str, str]
    result: Handed
    reads: tuple[Handed, ...]
    us: Callable[[Target], float] = field(compare=False)
    first: tuple[str, ...] = ()
    named: tuple[tuple[str, float | tuple[int, ...]], ...] = ()
    about: str = ""

    @property
    def cls(self) -> int:
        """The class that it makes."""
        return self.result.cls


def offers(graph: FrozenGraph) -> list[Outside]:
    """What the fusion rules offer in a graph, where the axes of the values are those that the offer names."""
    found: dict[Outside, None] = {}
    for offer, classes, bound in graph.facts.get("outside", ()):
        names = [tuple(a.name for a in v[1:]) for v in (offer.result, *offer.reads)]
        sets = [graph.axes[c] for c in classes]
        for axes in _solutions(dict(bound), list(zip(names, sets, strict=True))):
            values = (offer.result, *offer.reads)
            made, *given = (Handed(c, v[0].name, tuple(axes[n] for n in order)) for c, v, order in zip(classes, values, names, strict=True))
            lengths = {n: a.size for n, a in axes.items()}
            us = partial(_us, offer, lengths)
            found[Outside(offer.by, offer.where, offer.entry, made, tuple(given), us)] = None
    return list(found)


def _us(offer: Offer, lengths: Mapping[str, int], target: Target) -> float:
    return offer.cost(target, lengths)


def spoken(offer: Offer | Outside) -> str:
    """An offer as a reader looks for it: the rule, the function, the place."""
    about = f" for {offer.about}" if isinstance(offer, Outside) and offer.about else ""
    return f"{offer.by} ({offer.where}) offers {':'.join(offer.entry)}{about}"


def withheld(rules: Collection[Rule], licence: str) -> tuple[str, ...]:
    """What to say of offers that the licence leaves out."""
    return tuple(
        f"{spoken(fact)}, which claims an equality over the reals; licence={licence!r} allows bitwise ones, licence='real' considers it"
        for rule in rules
        for fact in rule.gives
        if isinstance(fact, Offer)
    )


def unmatched(graph: FrozenGraph, rules: Collection[Rule]) -> tuple[str, ...]:
    """What to say of offers and verdicts by these rules that were made for no value of the program, whatever its axes."""
    made = {offer.by for offer, *_ in graph.facts.get("outside", ())} | {by for *_, by in graph.facts.get("fuse", ())}
    found = []
    for rule in rules:
        for fact in rule.gives if rule.name not in made else ():
            if isinstance(fact, Offer):
                found.append(f"{spoken(fact)}, but no value of the program is what its premises describe")
            elif isinstance(fact, Verdict):
                said = f"{rule.name} ({rule.where}) would {fact.verdict} {fact.outer.name} with {fact.inner.name}"
                found.append(f"{said}, but no values of the program are what its premises describe")
    return tuple(found)


def misfits(graph: FrozenGraph) -> dict[str, str]:
    """rule -> what to say of its offers, where they name other axes than the values have that they were made for."""
    usable = {o.by for o in offers(graph)}
    found: dict[str, str] = {}
    for offer, classes, _ in graph.facts.get("outside", ()):
        if offer.by in usable or offer.by in found:
            continue
        for c, value in zip(classes, (offer.result, *offer.reads), strict=True):
            names, have = [a.name for a in value[1:]], sorted(a.name for a in graph.axes[c])
            if len(names) != len(have):
                found[offer.by] = (
                    f"{spoken(offer)} for {value[0].name} with the axes ({', '.join(names)}), but here it has ({', '.join(have)}): "
                    f"an offer names all axes of a value; write another one for {len(have)} of them"
                )
                break
        else:
            found[offer.by] = f"{spoken(offer)} for values with other axes than those that it names"
    return found


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


def operand(buffer: Buffer, index: Sequence[IndexExpr], order: tuple[Axis | None, ...], lengths: tuple[int, ...] = ()) -> Operand | None:
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
    held, seen = ([a for a in axes if a is not None] for axes in (dims, order))
    if len(held) != len(seen) or set(held) != set(seen):
        return None
    return Operand(buffer, tuple(dims), order, lengths)


def planned_call(
    name: str,
    outside: Outside,
    term: Term,
    result: tuple[Buffer, Sequence[IndexExpr]],
    accesses: Sequence[tuple[Access, ...]],
    buffers: Mapping[str, Buffer],
    target: Target,
) -> PlannedCall | str:
    """The step that makes a class by an outside implementation; where a value cannot be handed to the function, why, in words."""
    reads = []
    for value in outside.reads:
        ways = (operand(buffers[a.buffer], a.index, value.order) for a in accesses[value.cls] if a.buffer)
        able = sorted((w for w in ways if w is not None), key=lambda w: w.buffer.role != "input")  # what is there needs no kernel
        seen = next((w for w in able if value.dtype in (None, w.buffer.dtype)), None)
        if seen is None and able:
            return f"{spoken(outside)}, but {able[0].buffer.name} holds {value.name} in {able[0].buffer.dtype.name}"
        if seen is None:
            return _unfit(outside, value, [a for a in accesses[value.cls] if a.buffer])
        reads.append(seen)
    made = operand(*result, outside.result.order, outside.result.lengths)
    if made is None:
        return f"{spoken(outside)}, but {result[0].name} does not hold {outside.result.name} dimension by dimension"
    moved = sum({o.buffer.name: o.buffer.bytes for o in (*reads, made)}.values())
    us = outside.us(target)
    cost = Cost(us, moved, moved, 0.0, 0.0, 0.0, 0, 0, 0, "outside", {"outside": us})
    call = OutsideCall(name, outside.entry, tuple(reads), made, outside.first, outside.named)
    return PlannedCall(call, cost, term, outside.by, outside.where, bool(outside.about))


def _unfit(outside: Outside, value: Handed, accesses: Sequence[Access]) -> str:
    """Why an argument cannot be handed over: nothing holds it, or only through a view that no tensor of these dimensions is."""
    name = f"{value.name}[{', '.join(a.name for a in value.order if a is not None)}]"
    if not accesses:
        return f"{spoken(outside)}, but its argument {name} is neither an input nor stored"
    seen = " or ".join(f"{a.buffer}[{', '.join(map(str, a.index))}]" for a in accesses[:2])
    why = "which is no tensor of those dimensions: offer it for the value before the view"
    return f"{spoken(outside)}, but its argument {name} is {seen}, {why}"
