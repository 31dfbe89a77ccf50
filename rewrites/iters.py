"""Layouts as rules write them: nodes over layouts, what is known of a layout, arithmetic on extents and strides.

A layout is a variable (``x: Places``) or one of the nodes of :mod:`~eqfuse.ir.layout.terms`, spelled as there: ``Sharded(e, s, a, x)``.
Extents, strides and offsets are numbers (``e: Scalar``) and arithmetic on them, whole ones; the engine keeps them as doubles, which are
exact up to 2^53, and no larger ones get in.  An axis of hardware is a name (``a: Hardware``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..errors import LayoutError, RuleError
from ..ir.layout import terms
from . import patterns as P
from .facts import Condition, Fact, OtherAxis
from .notation import shown, what
from .relations import relation
from .world import World

__all__ = [
    "Beside", "Copies", "Hardware", "Mentioned", "Offset", "OtherName", "Places", "Point", "Sharded", "Slice", "Tile", "based", "cut",
    "elements", "least", "magnitude", "origin", "quotient", "remainder", "span",
]  # fmt: skip


class Places:
    """Annotation: a layout."""


class Hardware:
    """Annotation: the name of an axis of hardware."""


AXES = ("m", "lane")  # that a check draws from


class LayoutVar(P.Var):
    """Any layout; in a check, its map."""

    sort = "P"


class LayoutNode(P.Node):
    """One node of a layout."""

    sort = "P"

    def __post_init__(self) -> None:
        names, count = terms.KINDS[self.kind]
        for f, name in zip(fields(self), (*names, *["layout"] * count), strict=True):
            setattr(self, f.name, _read(type(self).__name__, name, getattr(self, f.name)))

    def value(self, world: World) -> Any:
        attrs = [integer(x, world) if isinstance(x, P.Number) else P.name_of(x, world) for x in self.attrs()]
        return terms.meaning(self.kind, attrs, [drawn(x, world) for x in self.arguments()])


def drawn(x: P.Pattern, world: World) -> terms.Places:
    """The map of a layout in a check."""
    found: Any = x.value(world)  # of values an array
    return found


def _read(node: str, name: str, x: Any) -> Any:
    if name == "layout":
        if isinstance(x, P.Pattern) and x.sort == "P":
            return x
    elif name != "axis":
        return P.number(x)
    elif isinstance(x, str) or (isinstance(x, P.NameVar) and x.sort == "hardware"):
        return x
    said = f"{node}: {shown(x)} is no {'layout' if name == 'layout' else 'axis of hardware'} but {what(x)}"
    raise RuleError(said, cure="x: Places is any layout, a: Hardware any axis, e: Scalar a number")


def integer(x: P.Number, world: World) -> int:
    """A number of a layout in a check; LayoutError for a fraction."""
    found = x.value(world)
    if found != found or found % 1 or abs(found) > 2**53:
        raise LayoutError(f"{x!r} is {found}", cure="extents, strides and offsets are whole numbers")
    return int(found)


@dataclass(eq=False, repr=False)
class Point(LayoutNode):
    """One element, at 0."""


@dataclass(eq=False, repr=False)
class Sharded(LayoutNode):
    """One more digit, slower than those of ``x``."""

    extent: Any
    stride: Any
    axis: Any
    x: Any


class Copies(Sharded):
    """Copies of ``x`` at steps of a stride."""


@dataclass(eq=False, repr=False)
class Offset(LayoutNode):
    """``x``, all of it elsewhere."""

    by: Any
    axis: Any
    x: Any


@dataclass(eq=False, repr=False)
class Beside(LayoutNode):
    """``x || y -> X(x) + Y(y)``."""

    x: Any
    y: Any


class Tile(Beside):
    """``x || y -> X(x)·span(Y) + Y(y)``."""


@dataclass(eq=False, repr=False)
class Slice(LayoutNode):
    """``count`` elements of ``x``, from the first on."""

    first: Any
    count: Any
    x: Any


# what is known of a layout ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Measure(Condition):
    """A number that the engine keeps for a layout.  As a premise it binds a variable, or asks; as a conclusion it is tested."""

    number: P.Number

    def cells(self) -> str:
        """What it is of, as text."""
        return self.x.egglog()

    def egglog(self, fresh: str) -> str:
        return f"(= {self.number.egglog()} ({type(self).__name__.lower()} {self.cells()}))"

    def claim(self) -> str:
        return f"(set ({type(self).__name__.lower()} {self.cells()}) {self.number.egglog()})"

    @abstractmethod
    def measured(self, world: World) -> int:
        """The number, of a map."""

    def holds(self, world: World) -> bool:
        return self.measured(world) == self.number.value(world)


class Elements(Measure):
    """How many elements a layout has."""

    def measured(self, world: World) -> int:
        return len(drawn(self.x, world))


@dataclass(frozen=True, eq=False)
class Span(Measure):
    """Greatest place of a layout on an axis less the least, plus 1."""

    axis: Any

    def cells(self) -> str:
        return f"{self.x.egglog()} {P.name_text(self.axis)}"

    def measured(self, world: World) -> int:
        return terms.span(drawn(self.x, world), P.name_of(self.axis, world))


class Origin(Span):
    """The least place of a layout's first element on an axis."""

    def measured(self, world: World) -> int:
        return terms.origin(drawn(self.x, world), P.name_of(self.axis, world))


@dataclass(frozen=True, eq=False)
class Mentioned(Fact):
    """The axis is one of those that the layouts in question name."""

    axis: Any

    def egglog(self, fresh: str) -> str:
        return f"(hardware {P.name_text(self.axis)})"


class OtherName(OtherAxis):
    """Two names of axes of hardware are different."""

    def __post_init__(self) -> None:
        """Names stay what they are."""

    def holds(self, world: World) -> bool:
        """Whether it is true of drawn names."""
        return P.name_of(self.a, world) != P.name_of(self.b, world)  # type: ignore[arg-type]


def elements(x: Any, number: Any) -> Elements:
    """How many elements a layout has."""
    return Elements(x, number)


def span(x: Any, axis: Any, number: Any) -> Span:
    """The span of a layout on an axis."""
    return Span(x, number, axis)


def origin(x: Any, axis: Any, number: Any) -> Origin:
    """The least place of a layout's first element on an axis."""
    return Origin(x, number, axis)


def based(x: Any, axis: Any) -> Origin:
    """A layout begins at 0 on an axis."""
    return Origin(x, P.number(0), axis)


cut = relation("cut", "P f64", "somebody wants the digits of the last so many elements apart from the others", demand=True)


def unmixed(facts: Iterable[Fact], layouts: bool) -> None:
    """RuleError if facts speak of layouts and are none of a rule on ``layouts``, or speak of values there, or of both in one place."""
    for fact in facts:
        sides = [p.sort for p in fact.parts() if isinstance(p, P.Pattern)]
        inside = [n for part in fact.parts() for n in P.walk(part) if isinstance(n, P.Pattern)]
        wrong = next((n for n in inside if (n.sort == "P") != layouts), None)
        if wrong is not None:
            cure = "phase='iters' is that of rules on layouts, which have no values; all other phases are of rules on values"
            raise RuleError(f"{shown(wrong)} is {'no layout' if layouts else 'a layout'}", cure=cure)
        if isinstance(fact, Condition) and isinstance(fact, Measure) != layouts and sides:
            said = f"{type(fact).__name__} is no condition on {'layouts' if layouts else 'values'}"
            raise RuleError(said, cure="elements(x, n) and span(x, a, n) are those on layouts")


# arithmetic ------------------------------------------------------------------------------------------------------------------------


def quotient(a: Any, b: Any) -> P.Number:
    """a / b, in one division: exact where b divides a."""
    return P.NumberOp("/", (P.number(a), P.number(b)), np.divide)


def remainder(a: Any, b: Any) -> P.Number:
    """What a division leaves, with the sign of a."""
    return P.NumberOp("%", (P.number(a), P.number(b)), np.fmod)


def least(a: Any, b: Any) -> P.Number:
    """The less of two numbers."""
    return P.NumberOp("min", (P.number(a), P.number(b)), np.minimum)


def magnitude(a: Any) -> P.Number:
    """The absolute value."""
    return P.NumberOp("abs", (P.number(a),), np.abs)
