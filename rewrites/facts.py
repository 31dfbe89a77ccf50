"""Facts of values: the premises and conclusions of rules.

A *condition* (``free``, ``nonneg``, ...) gives the engine a fact to ask for and the rule's check a constraint on what it draws.
:mod:`.comparisons` are premises on numbers and names, :mod:`.relations` rows of tables that say more of several values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import permutations
from typing import Any, ClassVar

import numpy as np

from ..errors import RuleError
from ..ir.dtypes import DTYPES, cast
from ..ir.index import Axis, IndexExpr, index
from . import notation
from . import patterns as P
from .notation import Notation, shown, what
from .patterns import AxisVar, Pattern, Var
from .positions import Expressions, IndexVar, NoPosition, Place, ReadAt, axis
from .world import World

__all__ = [
    "FiniteOr", "NonEmpty", "OtherAxis", "at_least_one", "at_most_one", "depends", "equal", "finite", "finite_or", "free", "has_type",
    "match", "nonneg", "nonpos", "positive", "truth", "within",
]  # fmt: skip

CONDITION = dict.fromkeys(notation.VALUES, "a premise stands after the two sides, or in the list of premises; all of them must hold")
CONDITION["truth"] += "; its opposite is another premise (depends for free, ...)"


def set_fields(fact: Any, **values: Any) -> None:
    """Fields of a frozen dataclass while it is made."""
    for name, value in values.items():
        object.__setattr__(fact, name, value)


READ: dict[Any, Any] = {"Pattern": P.pattern, "P.Number": P.number, "AxisVar": axis}  # what a field may be given as, by annotation


def _mentions(table: str, of: Any, axis: AxisVar, fresh: str, relation: str) -> str:
    """Whether the mask of axes that the engine keeps has the bit of an axis."""
    return f"(= m{fresh} ({table} {of.egglog()})) ({relation} 0 (& m{fresh} {axis.egglog()}))"


class Fact(Notation, ABC):
    """A premise or conclusion."""

    instead = CONDITION

    def __post_init__(self) -> None:
        """A number may be written for a constant, a position for an axis."""
        for f in fields(self):  # type: ignore[arg-type]
            if f.type in READ:
                set_fields(self, **{f.name: READ[f.type](getattr(self, f.name))})

    def parts(self) -> tuple[Any, ...]:
        """Patterns and variables inside."""
        return tuple(getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]

    @abstractmethod
    def egglog(self, fresh: str) -> str:
        """Text as a premise; ``fresh`` is a suffix for helper variables, unique in the rule."""

    def claim(self) -> str:
        """Text as a conclusion."""
        return self.egglog("")

    def row(self) -> str:
        """Table and cells, as text, of a conclusion that is a row and could be false: what provenance can be kept of.  Else empty."""
        return ""

    def forms(self, mirrored: bool) -> list[Fact]:
        """The premise in every way that the engine is to look for it; ``mirrored``: arguments of commutative ops in either order."""
        return [self]


@dataclass(frozen=True, eq=False)
class Match(Fact):
    """``var`` is a value that can be written as ``pattern``."""

    var: Var
    pattern: Pattern

    def __post_init__(self) -> None:
        if not isinstance(self.var, Var):
            cure = "match(t, pattern) says that the variable t can be written as the pattern"
            raise RuleError(f"match({shown(self.var)}, ...): it is no variable for a value but {what(self.var)}", cure=cure)
        super().__post_init__()

    def egglog(self, fresh: str) -> str:
        return f"(= {self.var.egglog()} {self.pattern.egglog()})"

    def forms(self, mirrored: bool) -> list[Fact]:
        return [Match(self.var, p) for p in P.orders(self.pattern)] if mirrored else [self]


@dataclass(frozen=True, eq=False)
class Equal(Fact):
    """Conclusion: two values are equal; the engine unites their classes."""

    left: Pattern
    right: Pattern

    def egglog(self, fresh: str) -> str:
        return f"(union {self.left.egglog()} {self.right.egglog()})"


# conditions ------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Condition(Fact):
    """A side condition on one value.  ``constrain`` edits the drawing style of a variable; ``holds`` tests a computed value."""

    x: Pattern

    def row(self) -> str:
        table, _, cells = self.claim()[1:-1].partition(" ")
        return f"{table} {cells}" if table in CONDITIONS else ""

    def constrain(self, style: dict[str, Any]) -> None:
        """Restrict what is drawn."""

    def holds(self, world: World) -> bool:
        """Whether it is true of computed values."""
        return True

    def breaks(self, x: np.ndarray, world: World) -> np.ndarray | None:
        """Where values do not obey it, if it is a condition on single numbers."""
        return None


@dataclass(frozen=True, eq=False)
class Free(Condition):
    """``x`` does not depend on ``axis``."""

    axis: AxisVar

    def egglog(self, fresh: str) -> str:
        return _mentions("axes", self.x, self.axis, fresh, "=")

    def constrain(self, style: dict[str, Any]) -> None:
        style.setdefault("free", set()).add(self.axis.name)

    def holds(self, world: World) -> bool:
        return self.x.value(world).shape[self.axis.position(world)] == 1


class Depends(Free):
    """``x`` depends on ``axis`` (every known form of it does)."""

    def egglog(self, fresh: str) -> str:
        return _mentions("axes", self.x, self.axis, fresh, "!=")

    def constrain(self, style: dict[str, Any]) -> None:
        """Dependence steers the search; a check may draw either."""

    def holds(self, world: World) -> bool:
        return True


class Known(Condition):
    """A condition of which the engine keeps a table: where numbers that are right to within an error have ``broken`` it, and how a variable
    is ``drawn`` for it.  NaN breaks those of numbers only."""

    table: ClassVar[str]
    drawn: ClassVar[Mapping[str, Any]]
    broken: ClassVar[Any]  # of numbers and the error

    def egglog(self, fresh: str) -> str:
        return f"({self.table} {self.x.egglog()})"

    def constrain(self, style: dict[str, Any]) -> None:
        style.update(self.drawn)

    def holds(self, world: World) -> bool:
        return not np.any(self.breaks(self.x.value(world), world))

    def breaks(self, x: np.ndarray, world: World) -> np.ndarray:
        return np.broadcast_to(np.asarray(type(self).broken(x, 0.0), bool), x.shape)


class NonNeg(Known):
    """``x`` is never negative (it may be NaN only where the program is)."""

    table, broken = "nonneg", staticmethod(lambda x, error: x < -error)

    def constrain(self, style: dict[str, Any]) -> None:
        style["sign"] = max(style.get("sign", 0), 1)


class NonPos(Known):
    """``x`` is never greater than zero (it may be NaN only where the program is)."""

    table, drawn, broken = "nonpos", {"sign": -1}, staticmethod(lambda x, error: x > error)


class Positive(Known):
    """``x`` is greater than zero (it may be NaN only where the program is)."""

    table, drawn, broken = "positive", {"sign": 2}, staticmethod(lambda x, error: x <= 0)


class AtLeastOne(Known):
    """``x`` is 1 or more (it may be NaN only where the program is)."""

    table, drawn, broken = "at-least-one", {"low": 1.0}, staticmethod(lambda x, error: x < 1 - error)


class AtMostOne(Known):
    """``x`` is 1 or less (it may be NaN only where the program is)."""

    table, drawn, broken = "at-most-one", {"high": 1.0}, staticmethod(lambda x, error: x > 1 + error)


class Finite(Known):
    """``x`` is a finite number, whatever the inputs."""

    table, drawn, broken = "bounded", {"finite": True}, staticmethod(lambda x, error: x.dtype != object and ~np.isfinite(x))


class Truth(Known):
    """``x`` is a truth value: 0 or 1."""

    table, drawn, broken = "truth", {"truth": True}, staticmethod(lambda x, error: ~np.isin(x, (0.0, 1.0)))


@dataclass(frozen=True, eq=False)
class Within(Condition):
    """``|x| <= size``, whatever the inputs; as a premise it binds a variable to the least bound
    known, and asks whether that is at most any other number."""

    size: P.Number

    def egglog(self, fresh: str) -> str:
        if isinstance(self.size, P.NumberVar):
            return f"(= {self.size.egglog()} (size {self.x.egglog()}))"
        return f"(= size{fresh} (size {self.x.egglog()})) (<= size{fresh} {self.size.egglog()})"

    def claim(self) -> str:
        return f"(set (size {self.x.egglog()}) {self.size.egglog()})"

    def row(self) -> str:
        return f"size {self.x.egglog()} {self.size.egglog()}"

    def holds(self, world: World) -> bool:
        return not self.breaks(self.x.value(world), world).any()

    def breaks(self, x: np.ndarray, world: World) -> np.ndarray:
        most = self.size.value(world)
        return np.asarray(np.abs(x) > (most if world.rational else float(most) * (1 + 1e-12)), bool)


# the tables of conditions that rules conclude, with their columns
CONDITIONS: dict[str, tuple[str, ...]] = {**{k.table: ("T",) for k in Known.__subclasses__()}, "size": ("T", "f64")}


@dataclass(frozen=True, eq=False)
class FiniteOr(Condition):
    """``x`` is finite or this number.  An *assumption* about data, declared where a rule makes it: the engine asks nothing, and the
    check draws nothing else.  Masks put the identity of a reduction into programs; the other infinity and NaN are accidents."""

    number: P.Number

    def egglog(self, fresh: str) -> str:
        return ""

    def constrain(self, style: dict[str, Any]) -> None:
        style["finite or"] = self.number

    def holds(self, world: World) -> bool:
        if world.rational:
            return True
        x = self.x.value(world)
        return bool(np.all(np.isfinite(x) | (x == self.number.value(world))))


@dataclass(frozen=True, eq=False)
class Moderate(Condition):
    """``|x|`` is at most a million.  An *assumption* about data, as :class:`FiniteOr`: where floats are further apart than a period,
    no law of a periodic function is left."""

    MOST: ClassVar[float] = 1e6

    def egglog(self, fresh: str) -> str:
        return ""

    def constrain(self, style: dict[str, Any]) -> None:
        style.update(low=-self.MOST, high=self.MOST, finite=True)

    def holds(self, world: World) -> bool:
        return not np.any(np.abs(self.x.value(world)) > self.MOST)


@dataclass(frozen=True, eq=False)
class HasType(Condition):
    """``x`` is a number of this type: an input or a cast to it, or read from one.  A cast to it changes nothing."""

    type: str | P.NameVar

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(self, type=P.known_name(self.type, "type"))

    def egglog(self, fresh: str) -> str:
        return f"(has-type {self.x.egglog()} {P.name_text(self.type)})"

    def constrain(self, style: dict[str, Any]) -> None:
        style["type"] = self.type
        style["finite"] = True

    def holds(self, world: World) -> bool:
        if not world.bitwise:  # over the reals no cast to a floating type changes anything
            return True
        x = np.asarray(self.x.value(world), float)
        return bool(np.array_equal(cast(x, DTYPES[P.name_of(self.type, world)]), x, equal_nan=True))


class Settled(Condition):
    """``x`` mentions no running value."""

    def egglog(self, fresh: str) -> str:
        return f"(settled {self.x.egglog()})"

    def constrain(self, style: dict[str, Any]) -> None:
        """What no running value enters reads the same at the old and the new reference, as every drawn variable does."""

    def holds(self, world: World) -> bool:
        now, then = np.broadcast_arrays(self.x.value(world), self.x.value(world.back()))
        return world.rational or bool(np.array_equal(now, then, equal_nan=True))


@dataclass(frozen=True, eq=False)
class Spans(Condition):
    """Conclusion: ``x`` depends on no axes but those of ``parts_of``: values, positions, axes; (value, axis) is a value but for an axis.

    The engine keeps a mask of axes for every value; the rule looks up the masks of these.
    """

    parts_of: tuple[Any, ...]

    def parts(self) -> tuple[Any, ...]:
        return (self.x, *(p for part in self.parts_of for p in (part if isinstance(part, tuple) else (part,))))

    def asks(self) -> str:
        """The masks that it needs, as premises."""
        masks = [part[0] if isinstance(part, tuple) else part for part in self.parts_of if not isinstance(part, AxisVar)]
        return " ".join(f"(= m_{v.name} ({'index-axes' if isinstance(v, IndexVar) else 'axes'} {v.egglog()}))" for v in masks)

    def egglog(self, fresh: str) -> str:
        mask = "0"
        for part in self.parts_of:
            if isinstance(part, tuple):
                value, axis = part
                one = f"(- m_{value.name} (& m_{value.name} {axis.egglog()}))"
            else:
                one = part.egglog() if isinstance(part, AxisVar) else f"m_{part.name}"
            mask = one if mask == "0" else f"(| {mask} {one})"
        return f"(set (axes {self.x.egglog()}) {mask})"

    def holds(self, world: World) -> bool:
        known: set[int] = set()
        for part in self.parts_of:
            if isinstance(part, tuple):
                known |= _dims(part[0].value(world)) - {part[1].position(world)}
            else:
                known |= {part.position(world)} if isinstance(part, AxisVar) else _dims(part.value(world))
        return _dims(self.x.value(world)) <= known


def _dims(x: np.ndarray) -> set[int]:
    return {k for k, n in enumerate(np.shape(x)) if n > 1}


def spans(x: Var, *parts_of: Any) -> Spans:
    """``x`` depends on no axes but those of these."""
    return Spans(x, parts_of)


@dataclass(frozen=True, eq=False)
class Search(Fact):
    """A condition that only steers the search (levels, inequality of classes): engine text over variables, no claim."""

    text: str
    names: tuple[Any, ...]
    unmoved: tuple[Var, ...] = ()  # values that it says contain no running value: the same at every reference

    def parts(self) -> tuple[Any, ...]:
        return self.names

    def egglog(self, fresh: str) -> str:
        return self.text.format(*(n.egglog() for n in self.names), f=fresh)


@dataclass(frozen=True, eq=False)
class Argument(Fact):
    """``x`` is an argument of ``t``: of an op, in whatever place, of a cast or of a reduction.  For demands: a check draws anything."""

    t: Var
    x: Var
    form: str = ""

    def parts(self) -> tuple[Any, ...]:
        return (self.t, self.x)

    def forms(self, mirrored: bool) -> list[Fact]:
        ops = [f"Map{n} o{{f}} {' '.join('{x}' if k == m else f'y{k}{{f}}' for k in range(n))}" for n in (1, 2, 3) for m in range(n)]
        return [replace(self, form=form) for form in (*ops, "Cast d{f} {x}", "Reduce g{f} i{f} {x}")]

    def egglog(self, fresh: str) -> str:
        return f"(= {self.t.egglog()} ({self.form.format(x=self.x.egglog(), f=fresh)}))"


@dataclass(frozen=True, eq=False)
class OtherAxis(Fact):
    """Two axis variables stand for different axes (in a check they always do)."""

    a: AxisVar
    b: AxisVar

    def egglog(self, fresh: str) -> str:
        return f"(!= {self.a.egglog()} {self.b.egglog()})"


@dataclass(frozen=True, eq=False)
class NonEmpty(Fact):
    """The axis has at least one element."""

    axis: AxisVar

    def egglog(self, fresh: str) -> str:
        return f"(nonempty {self.axis.egglog()})"


@dataclass(frozen=True, eq=False)
class IndexFree(Fact):
    """An index expression does not mention an axis."""

    at: IndexVar
    axis: AxisVar

    def egglog(self, fresh: str) -> str:
        return _mentions("index-axes", self.at, self.axis, fresh, "=")


class IndexDepends(IndexFree):
    """An index expression mentions an axis (it only steers the search)."""

    def egglog(self, fresh: str) -> str:
        return _mentions("index-axes", self.at, self.axis, fresh, "!=")


@dataclass(frozen=True, eq=False)
class Placed(Fact):
    """``at`` is this position, computed by index arithmetic outside the engine, which knows index expressions by their numbers.

    :func:`~eqfuse.rewrites.rule.make_rule` adds it for every position that a rule computes.  Where the rest of the rule holds, the engine
    asks with a row of ``wanted-<table>``: the axes and positions that are ``known``, and ``at`` if that is ``met`` in what is matched; the
    answer is a row of ``place-<table>``, with the axes that ``at`` was found to mention (``solved``).  A position that may leave an axis
    that is read there (``reads``) has no answer.
    """

    table: str
    at: IndexVar
    place: Place
    met: bool
    known: tuple[Any, ...]
    solved: tuple[AxisVar, ...]
    reads: tuple[AxisVar, ...]

    def parts(self) -> tuple[Any, ...]:
        return (self.at, self.place, *self.reads)

    @property
    def asked(self) -> tuple[Any, ...]:
        """The columns of a question."""
        return (*self.known, self.at) if self.met else self.known

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns of an answer: the question's, then what it asks for."""
        return (*self.known, self.at, *self.solved)

    def egglog(self, fresh: str) -> str:
        return f"(place-{self.table} {' '.join(v.egglog() for v in self.columns)})"

    def question(self) -> str:
        """The row that asks."""
        return f"(wanted-{self.table} {' '.join(v.egglog() for v in self.asked)})"

    def tables(self) -> list[str]:
        """Declarations of both tables."""
        return [
            f"(relation {name}-{self.table} ({' '.join(['i64'] * len(row))}))"
            for name, row in (("wanted", self.asked), ("place", self.columns))
        ]

    def inside(self, world: World) -> bool:
        """Whether it stays inside of the axes that are read there."""
        at = world.values[self.at.name]
        return self.guarded is False or all(at.size == 0 or (at.min() >= 0 and at.max() < a.extent(world)) for a in self.reads)

    @property
    def guarded(self) -> bool:
        """Whether it could leave an axis that other positions do not leave."""
        return any(isinstance(n, Place) and not isinstance(n, IndexVar | ReadAt) for n in P.walk(self.place))

    def answers(self, row: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """Rows of ``columns`` for one of ``asked``, in axes and index expressions."""
        given = dict(zip((v.name for v in self.asked), row, strict=True))
        met = given.pop(self.at.name, None)
        axes = {n: v for n, v in given.items() if isinstance(v, Axis)}
        exprs = {n: v for n, v in given.items() if isinstance(v, IndexExpr)}
        for found in permutations(sorted(met.axes()) if met is not None else (), len(self.solved)):
            solved = dict(zip((v.name for v in self.solved), found, strict=True))
            try:
                at = index(self.place.compute(Expressions({**axes, **solved}, exprs)))
            except NoPosition:
                continue
            low, high = at.bounds()
            inside = all(low >= 0 and high < {**axes, **solved}[a.name].size for a in self.reads)
            if (met is None or met == at) and (inside or not self.guarded):
                yield tuple({**given, **solved, self.at.name: at}[v.name] for v in self.columns)


# steering --------------------------------------------------------------------------------------------------------------------------


def earlier(b: Var, r: Var, axis: AxisVar) -> Search:
    """``b`` is ready before ``r`` is, so it does not contain r."""
    return Search("(= lb{f} (level {0} {2})) (= lr{f} (level {1} {2})) (< lb{f} lr{f})", (b, r, axis), (b,))


def streamable(x: Var, axis: AxisVar) -> Search:
    """``x`` needs no loop over the axis before it."""
    return Search("(= lv{f} (level {0} {1})) (= lv{f} 0)", (x, axis))


def later(x: Var, axis: AxisVar, least: int = 1) -> Search:
    """``x`` needs at least so many loops over the axis before it."""
    return Search(f"(= lv{{f}} (level {{0}} {{1}})) (>= lv{{f}} {least})", (x, axis))


def latest(f: Var, a: Var, b: Var, axis: AxisVar) -> Search:
    """``f`` is ready later than both others."""
    return Search(
        "(= l1{f} (level {0} {3})) (= l2{f} (level {1} {3})) (= l3{f} (level {2} {3})) (> l1{f} l2{f}) (> l1{f} l3{f})",
        (f, a, b, axis),
    )


def apart(a: AxisVar, b: AxisVar) -> Search:
    """Neither axis is a part of the other."""
    return Search("(unrelated {0} {1})", (a, b))


def distinct(a: Var, b: Var) -> Search:
    """Two values that are not known to be equal."""
    return Search("(!= {0} {1})", (a, b))


def own_axes(a: Var, b: Var, *beside: AxisVar) -> Search:
    """``a`` depends on an axis that ``b`` is free of, beside these."""
    seen = "".join(f" {{{k}}}" for k in range(2, 2 + len(beside)))
    mask = f"(| mb{{f}}{seen})" if beside else "mb{f}"
    text = f"(= ma{{f}} (axes {{0}})) (= mb{{f}} (axes {{1}})) (= ms{{f}} {mask}) (!= 0 (- ma{{f}} (& ma{{f}} ms{{f}})))"
    return Search(text, (a, b, *beside))


def covers(a: Var, b: Var) -> Search:
    """``a`` may depend on all the axes that ``b`` depends on."""
    return Search("(= ma{f} (axes {0})) (= mb{f} (axes {1})) (= mb{f} (& ma{f} mb{f}))", (a, b))


def reduced(axis: AxisVar) -> Search:
    """Something reduces over the axis."""
    return Search("(axis {0})", (axis,))


def summable(t: Var) -> Search:
    """``t`` is a gather of the program, of floats, one of each row along an axis that something else reduces over."""
    return Search("(summable {0})", (t,))


def looked_up(axis: AxisVar) -> Search:
    """Some gather of the program reads along the axis what no loop over it reads anyway."""
    return Search("(looked-up {0})", (axis,))


# spelled like functions in rules
free, depends, nonneg, positive, finite, truth, settled = Free, Depends, NonNeg, Positive, Finite, Truth, Settled
nonpos, at_least_one, at_most_one, within, finite_or, moderate = NonPos, AtLeastOne, AtMostOne, Within, FiniteOr, Moderate
match, equal, has_type, argument = Match, Equal, HasType, Argument
