"""The kinds of nodes: the language of every level, as one table.

Terms, patterns of rules, e-nodes and nodes of kernels are of one language.  A node has a kind, attributes and arguments; what every level
asks of a kind stands here.  What kinds mean on numbers is said by :mod:`.semantics`.

=========  ====================  ===================================================================================================
kind       attributes            arguments; meaning
=========  ====================  ===================================================================================================
input      name                  a program input; in kernels there are loads instead
load       buffer, (IndexExpr),  kernels only: one index expression per dimension of the buffer; args are the values at which the last
           (Axis)                axes, which the expressions mention, are read (those of gathers); 0 where one is no position
const      number
extent     Axis                  the length of an axis
index      Axis                  the position along an axis; in kernels an IndexExpr, and its value
map        op                    args as the scalar op takes them
cast       DType                 x
view       Axis, IndexExpr       x with the axis read at the expression; in kernels it is part of loads
gather     Axis                  x, at: x with the axis read at a value, 0 where that is no position; in kernels it is part of loads
reduce     monoid, Axis          body; of a monoid whose state has several parts one for each, and the value is one of them
scan       monoid, Axis          body: at each position along the axis, the reduction of the elements up to it; one that does not vary
                                 along the axis is repeated, so the value has the axis in any case
merge      monoid                the parts of a state, then those of the state behind it: a part of both together
roll       monoid, Axis          body, update: a reduction whose body mentions running values; each step does
                                 ``state <- combine(update[acc := state], body)``.  For ``mean`` the state is a sum, divided by the
                                 number of elements seen when it is read
ref        "new" or "old", Axis  r: a *free parameter* of a repair, instantiated with the running value of the reduction r over the axis,
                                 including (new) or before (old) the present step.  In kernels r is any node built on reductions
                                 over the axis: its running value is computed from theirs
pre        Axis                  body: the accumulator of ``sum`` over that body *in the same loop*, before the present step.  It exists
                                 if some ``reduce("sum", axis, body)`` whose body is free of running values, or some
                                 ``roll("sum", axis, body, ..)``, does.  In kernels the argument is that node itself
acc                              the state of the enclosing roll
=========  ====================  ===================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from . import dtypes, ops
from .dtypes import DType, Numbers
from .index import Axis, IndexExpr, index
from .monoids import MONOIDS
from .states import part_of


@dataclass(frozen=True)
class Kind:
    """A kind of node.  ``args``: how many it has, ``None`` if its op or monoid says.  ``takes`` is the attribute with what its value has no
    longer, an axis or several, ``adds`` the one with axes that it has instead.  ``text`` is for people, over attributes and then
    arguments."""

    name: str
    attrs: tuple[Any, ...]
    args: int | None
    text: str
    takes: int | None = None
    adds: int | None = None


KINDS = {
    k.name: k
    for k in (
        Kind("input", (str,), 0, "{0}"),
        Kind("load", (str, tuple, tuple), None, "{0}", takes=2, adds=1),
        Kind("const", (float,), 0, "{0:g}"),
        Kind("extent", (Axis,), 0, "size({0})"),
        Kind("index", (Axis,), 0, "index({0})", adds=0),
        Kind("map", (str,), None, ""),
        Kind("cast", (DType,), 1, "{0}({1})"),
        Kind("view", (Axis, IndexExpr), 1, "{2}[{0} = {1}]", takes=0, adds=1),
        Kind("gather", (Axis,), 2, "{1}[{0} = {2}]", takes=0),
        Kind("reduce", (str, Axis), None, "{0}_{1}({args})", takes=1),
        Kind("scan", (str, Axis), None, "{0}_upto_{1}({args})", adds=1),
        Kind("merge", (str,), None, "{0}_merged({args})"),
        Kind("roll", (str, Axis), 2, "loop_{1}(acc <- {0}({3}, {2}))", takes=1),
        Kind("ref", (str, Axis), 1, "{0}({2})"),
        Kind("pre", (Axis,), 1, "so_far({1})", takes=0),
        Kind("acc", (), 0, "acc"),
    )
}
REDUCTIONS = ("reduce", "roll")
RUNNING = ("ref", "pre", "acc")  # values that a loop around them has


def mentioned(x: Any) -> frozenset[Axis]:
    """The axes that an attribute names."""
    if isinstance(x, Axis):
        return frozenset((x,))
    return x.axes() if isinstance(x, IndexExpr) else frozenset().union(*map(mentioned, x)) if isinstance(x, tuple) else frozenset()


class Operation:
    """A node of a kind, with attributes: what e-nodes and nodes of kernels are."""

    op: str
    attrs: tuple[Any, ...]

    @property
    def scalar(self) -> str | None:
        """The scalar op that it is a map of."""
        return self.attrs[0] if self.op == "map" else None

    @property
    def reduction(self) -> str | None:
        """The monoid of a reduction, in one loop with others or not."""
        return self.attrs[0] if self.op in REDUCTIONS else None

    @property
    def in_order(self) -> Axis | None:
        """The axis whose elements it takes one after the other: a reduction, or a scan."""
        return self.attrs[1] if self.op in (*REDUCTIONS, "scan") else None

    def goes_along(self, *body: frozenset[Axis]) -> Axis | None:
        """The axis along which a kernel has to go for it, over a body, or parts of one, with such axes: that in whose order it is, unless
        nothing varies along it and the monoid says what copies make."""
        axis = self.in_order
        return None if axis is None or (all(axis not in part for part in body) and MONOIDS[self.attrs[0]].copies) else axis

    @property
    def mentions(self) -> tuple[Axis, ...]:
        """The axes that its attributes name."""
        return tuple(sorted(mentioned(self.attrs)))


def renamed(x: Any, to: Callable[[Axis], Axis]) -> Any:
    """An attribute, or a row of such, with other axes."""
    if isinstance(x, Axis):
        return to(x)
    if isinstance(x, tuple):
        return tuple(renamed(y, to) for y in x)
    return x.substitute({a: index(to(a)) for a in x.axes()}) if isinstance(x, IndexExpr) else x


def axes(kind: str, attrs: Sequence[Any], below: Iterable[frozenset[Axis]]) -> frozenset[Axis]:
    """The axes that a value depends on, from those of its arguments; those of an input are its own."""
    row, found = KINDS.get(kind), frozenset[Axis]().union(*below)
    if row is None:  # which specs refuse
        return found
    if kind == "load":
        return found | (mentioned(attrs[1]) - mentioned(attrs[2]))
    if row.takes is not None:
        if attrs[row.takes] not in found:
            return found
        found -= {attrs[row.takes]}
    return found if row.adds is None else found | mentioned(attrs[row.adds])


def dtype(kind: str, attrs: Sequence[Any], args: Sequence[DType | None], fraction: Sequence[bool] = ()) -> DType | None:
    """The type that torch gives a value, from those of its arguments; ``None`` for a weakly typed number.  Inputs and loads have their
    own.  ``fraction``: which arguments are constants and no whole numbers, beside which whole numbers become floats."""
    if kind in ("index", "cast"):
        return dtypes.int64 if kind == "index" else attrs[0]
    if kind == "gather":
        return args[0]
    if kind in ("reduce", "scan", "merge") and (part := part_of(attrs[0])):
        return args[part[1]]
    result = ops.OPS[attrs[0]].result if kind == "map" else "same"
    if result == "bool":
        return dtypes.bool_
    first = int(kind == "map" and attrs[0] == "where")
    found = dtypes.promote(*args[first:])
    floats = result == "float" or any(fraction[first:]) or (kind == "reduce" and attrs[0] == "mean")
    return dtypes.float32 if floats and found is not None and not found.is_float else found


def held(kind: str, attrs: Sequence[Any], kept: DType, args: Sequence[Numbers]) -> Numbers:
    """Numbers of which a value surely is one, perhaps fewer than the type has that it is ``kept`` in: a cast to a type that has a number
    does not change it, nor do views; ops that select make no new digits.  ``args``: the same of its arguments."""
    if kind == "const":
        return dtypes.number(attrs[0])
    found = kept.numbers
    if kind in ("view", "gather") or (kind == "cast" and kept.is_float):
        found = args[0]
    elif kind == "map" and (holds := ops.OPS[attrs[0]].holds) is not None:
        found = args[0] if args[0] in holds else holds
    elif kind == "map" and ops.OPS[attrs[0]].selects:
        found = reduce(Numbers.__or__, args[attrs[0] == "where" :])
    elif kind == "map" and attrs[0] in ("mul", "square"):
        found = args[0] * args[-1]
    return found if found in kept.numbers else kept.numbers


def text(kind: str, attrs: Sequence[Any], args: Sequence[str]) -> str:
    """A node as a formula."""
    if kind != "map":
        return KINDS[kind].text.format(*(a.name if isinstance(a, Axis | DType) else a for a in attrs), *args, args=", ".join(args))
    infix = ops.op(attrs[0]).infix
    return f" {infix} ".join(args) if infix else f"-{args[0]}" if attrs[0] == "neg" else f"{attrs[0]}({', '.join(args)})"
