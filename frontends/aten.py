"""The table of ATen ops.  An op says two things, and nothing else in the front end knows any op by name.

``align``: the dimensions of its result as items of the :class:`~.alignment.Alignment`; what is equal is unified here.
``read``:  the term for the result at a given index, written in terms of its arguments read at other indices.

A ``move`` (permute, slice, reshape, ...) is an op that only re-indexes: it says at which index its argument is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

from ..ir.index import Axis, IndexExpr, index

if TYPE_CHECKING:
    from torch.fx import Node

    from ..ir.ranges import Interval
    from ..ir.terms import Term
    from .alignment import Alignment, Dims

At = tuple[IndexExpr, ...]  # one index expression per dimension; 0 where the size is 1
ZERO = index(0)
RESULT = "eqfuse_result"  # in a node's "custom" metadata: the type of the user's op that it decomposes
WINDOWS = "eqfuse_windows"  # in a node's metadata: the dimensions inside the windows that it looks at
TURNED = "eqfuse_turned"  # in a node's metadata: parts of it are put together in another order


class Reading(Protocol):
    """What an op may ask of whoever reads it (:class:`~.reader.Reader`)."""

    exact: bool  # no rewrite may change bits

    def read(self, x: Any, at: At) -> Term:
        """The term of a value at an index."""

    def once(self, x: Any, at: At) -> Term:
        """The same, of a value that several positions share."""

    def bound(self, item: int | None, taken: frozenset[Axis]) -> Axis | None:
        """An axis for a dimension, to reduce over; ``None`` where its size is 1."""

    def bind(self, item: int | None, taken: frozenset[Axis]) -> tuple[list[Axis], IndexExpr]:
        """Axes for a dimension, to reduce over, and the index along it."""

    def places(self, item: int | None, taken: frozenset[Axis]) -> list[tuple[list[Axis], IndexExpr]]:
        """The axes to reduce over and the index along the dimension, for each range of it."""

    def arguments(self, node: Node) -> list[Any]:
        """A node's arguments in schema order, defaults filled in."""

    def small(self, term: Term) -> bool:
        """Whether float32 counts it exactly."""

    def interval(self, term: Term) -> Interval:
        """What a value may be, whatever the data are."""

    def integer(self, x: Any, at: At) -> IndexExpr | None:
        """A value as an index expression, if it is known as one."""

    def position(self, e: IndexExpr) -> Term:
        """An index expression as a value."""

    def unsupported(self, node: Node, why: str) -> Exception:
        """An error that names an op and the user's line."""


@dataclass(frozen=True)
class Call:
    """One use of an op: the node, the result shape (of the ``item``-th result) and the index it is read at."""

    reader: Reading
    node: Node
    at: At
    item: int | None = None

    def read(self, x: Any, at: At) -> Any:
        """The term of an argument at an index; numbers become constants."""
        return self.reader.read(x, at)

    def aligned(self, x: Any) -> Any:
        """The term of an argument that broadcasts against the result."""
        return self.reader.read(x, broadcast_at(shape_of(x), self.at))

    def unsupported(self, why: str) -> Exception:
        """An error that names this op and the user's line."""
        return self.reader.unsupported(self.node, why)


@dataclass(frozen=True)
class AtenOp:
    """``align(alignment, node, *args)`` and ``read(call, *args)`` take the op's arguments in schema order, defaults filled in."""

    align: Callable[..., Any]
    read: Callable[..., Any] | None = None
    move: Callable[..., At] | None = None  # for moves: the index at which args[0] is read
    integer: Callable[..., IndexExpr | None] | None = None  # on integers known as index expressions
    whole: bool = False  # if it reduces, reading it under other names renames the value instead of writing it again


OPS: dict[str, AtenOp] = {}


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape of a node's value; numbers are 0-dimensional."""
    value = x.meta["val"] if hasattr(x, "meta") else None
    return tuple(int(n) for n in getattr(value, "shape", ()))


def dims_of(x: Any) -> Dims:
    """The items of a node's dimensions; numbers have none."""
    return x.meta["eqfuse_dims"] if hasattr(x, "meta") else ()


def is_inside(node: Node, dtype: torch.dtype) -> bool:
    """Whether a float32 value is an intermediate of one op whose result is float16 or bfloat16.

    torch's decompositions compute such ops in float32, and so does every kernel: the casts between are not the user's.
    """
    origin = node.meta.get("custom", {}).get(RESULT)
    return origin in (torch.float16, torch.bfloat16) and dtype == torch.float32


def broadcast_at(shape: Sequence[int], at: At) -> At:
    """Where an argument of this shape is read when the result is read at ``at``."""
    tail = at[len(at) - len(shape) :]
    return tuple(ZERO if n == 1 else e for n, e in zip(shape, tail, strict=True))


def free_axes(at: At) -> frozenset[Axis]:
    """Every axis that an index mentions."""
    return frozenset().union(*(e.axes() for e in at))


def replaced(at: At, d: int, e: IndexExpr) -> At:
    """``at`` with another index for dimension ``d``."""
    return (*at[:d], e, *at[d + 1 :])


def fresh_dims(alignment: Alignment, node: Node, *_: Any) -> Any:
    """Alignment of an op of which nothing is known."""
    value = node.meta["val"]
    if isinstance(value, list | tuple):
        return tuple(tuple(alignment.fresh(int(n)) for n in getattr(v, "shape", ())) for v in value)
    return tuple(alignment.fresh(int(n)) for n in getattr(value, "shape", ()))


def register(*names: str, align: Callable[..., Any] = fresh_dims, integer: Any = None) -> Callable[[Any], Any]:
    """Declare how ops are read: ``read(call, *args) -> Term``."""

    def add(read: Any) -> Any:
        for name in names:
            assert name not in OPS, name
            OPS[name] = AtenOp(align, read, None, integer, whole=True)
        return read

    return add


def move(*names: str, align: Callable[..., Any] = fresh_dims) -> Callable[[Any], Any]:
    """Declare ops that only re-index their first argument: ``move(call, x, *args) -> index at which x is read``."""

    def add(moved: Any) -> Any:
        for name in names:
            assert name not in OPS, name
            OPS[name] = AtenOp(align, None, moved)
        return moved

    return add
