"""Positions: index arithmetic as rules write it.

``View(x, k, e)`` reads x at a position along its axis k.  A position is a variable of the rule (``e: Position``) or is computed:
from ``Index(j)``, ``Extent(j)``, whole numbers and other positions, by ``+``, ``-``, ``*``, ``//`` and ``%``.  It stays quasi-affine, as
the index expressions of programs are: factors are numbers or lengths, and so are divisors.

One tree has several readings, by what it is computed with (:class:`Reading`): positions of arrays in a check, index expressions when
the engine asks (:class:`Expressions`), integers in a proof.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np

from ..errors import RuleError
from ..ir.index import Axis, IndexExpr, index
from ..ir.semantics import read_at
from . import notation
from .notation import Notation, literal, shown, variable_text, what
from .world import World

CURE = "positions are made of Index(k), Extent(k), e: Position and whole numbers, by + - * // %; factors and divisors are sizes"


@dataclass(frozen=True, eq=False)
class AxisVar(Notation):
    """An axis."""

    name: str

    instead = notation.AXES

    def egglog(self) -> str:
        return variable_text(self.name)

    def position(self, world: World) -> int:
        """Which dimension of the check's universe it is."""
        return int(world.values[self.name])

    def extent(self, world: World) -> int:
        """Its length."""
        return world.extents[self.position(world)]


class Reading(Protocol):
    """What positions are computed with: numbers of its kind, which have ``+`` and ``*``."""

    def along(self, axis: AxisVar) -> Any:
        """The position along an axis."""

    def length(self, axis: AxisVar) -> Any:
        """The length of an axis."""

    def variable(self, name: str) -> Any:
        """What a variable stands for."""

    def divide(self, x: Any, n: Any) -> tuple[Any, Any]:
        """Quotient, rounded down, and remainder."""

    def moved(self, axis: AxisVar, to: Any) -> Reading:
        """The same elsewhere along an axis."""


class Place(Notation, ABC):
    """Base of positions.  ``fixed``: a number that does not depend on where one is, which may be a factor or a divisor."""

    fixed = False
    instead = notation.POSITIONS

    def as_position(self) -> Place:
        return self

    def parts(self) -> tuple[Any, ...]:
        """Positions and variables inside."""
        found = (getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]
        return tuple(p for p in found if isinstance(p, Notation))

    @abstractmethod
    def compute(self, reading: Reading) -> Any:
        """The position, as one reading has it."""

    def value(self, world: World) -> np.ndarray:
        """The positions on arrays."""
        found = np.asarray(self.compute(_Arrays(world)))
        return found.reshape((1,) * len(world.extents)) if not found.ndim else found

    def at(self, k: AxisVar, inner: Any) -> Place:
        """This position with the axis read at another one, as in x[j = e][k = f] = x[j = e.at(k, f)]."""
        return ReadAt(self, axis(k), position(inner))

    def __add__(self, other: Any) -> Place:
        return NotImplemented if (o := place(other)) is None else Computed("+", self, o)

    def __radd__(self, other: Any) -> Place:
        return NotImplemented if (o := place(other)) is None else Computed("+", o, self)

    def __mul__(self, other: Any) -> Place:
        return NotImplemented if (o := place(other)) is None else Computed("*", self, o)

    __rmul__ = __mul__

    def __neg__(self) -> Place:
        return Computed("*", self, Whole(-1))

    def __sub__(self, other: Any) -> Place:
        return NotImplemented if (o := place(other)) is None else Computed("+", self, -o)

    def __rsub__(self, other: Any) -> Place:
        return NotImplemented if (o := place(other)) is None else Computed("+", o, -self)

    def __floordiv__(self, other: Any) -> Place:
        return NotImplemented if (o := place(other)) is None else Computed("//", self, o)

    def __mod__(self, other: Any) -> Place:
        return NotImplemented if (o := place(other)) is None else Computed("%", self, o)


@dataclass(frozen=True, eq=False)
class Whole(Place):
    """A whole number."""

    number: int
    fixed = True

    def compute(self, reading: Reading) -> Any:
        return self.number

    def __str__(self) -> str:
        return str(self.number)


@dataclass(frozen=True, eq=False)
class AlongAxis(Place):
    """Where one is along an axis: ``Index(axis)``."""

    axis: AxisVar

    def compute(self, reading: Reading) -> Any:
        return reading.along(self.axis)

    def __str__(self) -> str:
        return f"Index({self.axis.name})"


@dataclass(frozen=True, eq=False)
class Length(Place):
    """``Extent(axis)``."""

    axis: AxisVar
    fixed = True

    def compute(self, reading: Reading) -> Any:
        return reading.length(self.axis)

    def __str__(self) -> str:
        return f"Extent({self.axis.name})"


@dataclass(frozen=True, eq=False)
class IndexVar(Place):
    """An index expression, identified by a number in the engine; in a check, an array of positions."""

    name: str

    def egglog(self) -> str:
        return variable_text(self.name)

    def compute(self, reading: Reading) -> Any:
        return reading.variable(self.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Computed(Place):
    """Arithmetic on two positions."""

    op: str
    left: Place
    right: Place

    def __post_init__(self) -> None:
        if self.op == "*" and not (self.left.fixed or self.right.fixed):
            raise RuleError(f"{self}: the product of two positions is no position", cure=CURE)
        if self.op in ("//", "%"):
            if not self.right.fixed:
                raise RuleError(f"{self}: divided by a position", cure=CURE)
            if isinstance(self.right, Whole) and self.right.number < 1:
                raise RuleError(f"{self}: divided by {self.right}", cure="divide by a positive number")

    @property
    def fixed(self) -> bool:  # type: ignore[override]
        return self.left.fixed and self.right.fixed

    def compute(self, reading: Reading) -> Any:
        a, b = self.left.compute(reading), self.right.compute(reading)
        if self.op == "+":
            return b + a if isinstance(a, int) else a + b
        if self.op == "*":
            return b * a if isinstance(a, int) else a * b
        return reading.divide(a, b)[self.op == "%"]

    def __str__(self) -> str:
        return f"({self.left} {self.op} {self.right})"


@dataclass(frozen=True, eq=False)
class ReadAt(Place):
    """A position with an axis read at another position: ``outer`` with ``axis = inner``, what two views make."""

    outer: Place
    axis: AxisVar
    inner: Place

    def compute(self, reading: Reading) -> Any:
        return self.outer.compute(reading.moved(self.axis, self.inner.compute(reading)))

    def __str__(self) -> str:
        return f"{self.outer}[{self.axis.name} = {self.inner}]"


def place(x: Any) -> Place | None:
    """A position, what can be read as one, or a whole number; ``None`` for what is never one."""
    if isinstance(x, Notation):
        return x.as_position()
    number = literal(x)
    return None if number is None or not number.is_integer() else Whole(int(number))


def position(x: Any) -> Place:
    """A position from a position, a whole number, or arithmetic on the positions and lengths of axes."""
    if isinstance(x, AxisVar):
        raise RuleError(f"{x.name} is an axis, no position along it", cure=f"Index({x.name}) is the position, Extent({x.name}) the length")
    found = place(x)
    if found is None:
        raise no_position(x)
    return found


def no_position(x: Any) -> RuleError:
    """What to say of something that is no position."""
    return RuleError(f"{shown(x)} is no position but {what(x)}", cure=CURE)


def axis(x: Any) -> AxisVar:
    """An axis of the rule."""
    if isinstance(x, AxisVar):
        return x
    raise RuleError(f"{shown(x)} is no axis but {what(x)}", cure="a parameter with the annotation k: Axis is one")


# readings --------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Arrays:
    """Positions in a check: arrays with one dimension for every axis of its universe."""

    world: World
    places: Mapping[int, np.ndarray] = field(default_factory=dict)  # dimension -> where it is read

    def along(self, axis: AxisVar) -> np.ndarray:
        k = axis.position(self.world)
        return self.places[k] if k in self.places else self.world.along(k)

    def length(self, axis: AxisVar) -> int:
        return axis.extent(self.world)

    def variable(self, name: str) -> np.ndarray:
        found = self.world.values[name]
        for k, there in self.places.items():
            found = read_at(found, k, there)
        return found

    def divide(self, x: Any, n: int) -> tuple[Any, Any]:
        if n < 1:
            raise NoPosition
        return x // n, x % n

    def moved(self, axis: AxisVar, to: np.ndarray) -> _Arrays:
        return _Arrays(self.world, {axis.position(self.world): np.asarray(to)})


@dataclass(frozen=True)
class Expressions:
    """Positions in the engine's programs: index expressions."""

    axes: Mapping[str, Axis]
    exprs: Mapping[str, IndexExpr]
    places: Mapping[Axis, IndexExpr] = field(default_factory=dict)

    def along(self, axis: AxisVar) -> IndexExpr:
        a = self.axes[axis.name]
        return self.places.get(a, index(a))

    def length(self, axis: AxisVar) -> int:
        return self.axes[axis.name].size

    def variable(self, name: str) -> IndexExpr:
        return self.exprs[name].substitute(self.places) if self.places else self.exprs[name]

    def divide(self, x: Any, n: int) -> tuple[Any, Any]:
        if n < 1:
            raise NoPosition
        return x // n, x % n

    def moved(self, axis: AxisVar, to: Any) -> Expressions:
        return Expressions(self.axes, self.exprs, {self.axes[axis.name]: index(to)})


class NoPosition(ArithmeticError):
    """A division by the length of an empty axis."""
