"""Premises and conclusions of rules: conditions, relations and matches.

A *condition* (``free``, ``nonneg``, ...) gives the engine a fact to ask for and the rule's check a constraint on what it draws.
A *relation* has a meaning, an equation between its columns: as a premise the check makes the equation true by defining one
column, as a conclusion the check tests it.  A relation says what its rows mean when it is declared, or that it is a *demand*, which
steers the search and claims nothing: there is no third kind, so no rule can conclude what nobody can test.
"""

from __future__ import annotations

import inspect
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from itertools import permutations
from typing import Any, ClassVar

import numpy as np

from ..errors import RuleError
from ..errors import shown as described
from ..ir.dtypes import DTYPES, cast
from ..ir.index import Axis, IndexExpr, index
from ..ir.monoids import MONOIDS
from ..ir.ops import OPS
from ..ir.ranges import ALL
from ..ir.signs import SIGN_TRAITS, sign_traits
from . import notation
from . import patterns as P
from .notation import Notation, shown, what
from .patterns import AxisVar, Pattern, Var
from .positions import Expressions, IndexVar, NoPosition, Place, ReadAt, axis
from .world import World

__all__ = [
    "FiniteOr", "NonEmpty", "Nonzero", "NotNegative", "OtherAxis", "associative", "at_least", "at_least_one", "at_most",
    "at_most_one", "depends", "differs", "divides", "equal", "equals", "finite", "finite_or", "free", "has_type",
    "idempotent", "increasing", "integer", "less", "linear", "match", "nonneg", "nonpos", "one_of", "operand", "operands",
    "positive", "power_of_two", "relation", "rounding", "selective", "truth", "turns", "turns_nonneg", "wide", "within",
]  # fmt: skip

CONDITION = dict.fromkeys(notation.VALUES, "a premise stands after the two sides, or in the list of premises; all of them must hold")
CONDITION["truth"] += "; its opposite is another premise (depends for free, ...)"


def _set(fact: Any, **values: Any) -> None:
    """Fields of a frozen dataclass while it is made."""
    for name, value in values.items():
        object.__setattr__(fact, name, value)


class Fact(Notation):
    """A premise or conclusion."""

    instead = CONDITION

    def parts(self) -> tuple[Any, ...]:
        """Patterns and variables inside."""
        return tuple(getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]

    def egglog(self, fresh: str) -> str:
        """Text as a premise; ``fresh`` is a suffix for helper variables, unique in the rule."""
        raise NotImplementedError

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
        _set(self, pattern=P.pattern(self.pattern))

    def egglog(self, fresh: str) -> str:
        return f"(= {self.var.egglog()} {self.pattern.egglog()})"

    def forms(self, mirrored: bool) -> list[Fact]:
        return [Match(self.var, p) for p in P.orders(self.pattern)] if mirrored else [self]


@dataclass(frozen=True, eq=False)
class Equal(Fact):
    """Conclusion: two values are equal; the engine unites their classes."""

    left: Pattern
    right: Pattern

    def __post_init__(self) -> None:
        _set(self, left=P.pattern(self.left), right=P.pattern(self.right))


# conditions ------------------------------------------------------------------------------------------------------------------------

CONDITIONS: dict[str, tuple[str, ...]] = {  # the tables of conditions that rules conclude, with their columns
    **dict.fromkeys(("nonneg", "nonpos", "positive", "at-least-one", "at-most-one", "bounded", "truth"), ("T",)),
    "size": ("T", "f64"),
}


@dataclass(frozen=True, eq=False)
class Condition(Fact):
    """A side condition on one value.  ``constrain`` edits the drawing style of a variable; ``holds`` tests a computed value."""

    x: Pattern

    def __post_init__(self) -> None:
        _set(self, x=P.pattern(self.x))

    def row(self) -> str:
        table, _, cells = self.claim()[1:-1].partition(" ")
        return f"{table} {cells}" if table in CONDITIONS else ""

    def constrain(self, style: dict[str, Any]) -> None:
        """Restrict what is drawn."""

    def holds(self, world: World) -> bool:
        """Whether it is true of computed values."""
        return True


@dataclass(frozen=True, eq=False)
class Free(Condition):
    """``x`` does not depend on ``axis``."""

    axis: AxisVar

    def __post_init__(self) -> None:
        _set(self, x=P.pattern(self.x), axis=axis(self.axis))

    def egglog(self, fresh: str) -> str:
        return f"(= m{fresh} (axes {self.x.egglog()})) (= 0 (& m{fresh} {self.axis.egglog()}))"

    def constrain(self, style: dict[str, Any]) -> None:
        style.setdefault("free", set()).add(self.axis.name)

    def holds(self, world: World) -> bool:
        return self.x.value(world).shape[self.axis.position(world)] == 1


class Depends(Free):
    """``x`` depends on ``axis`` (every known form of it does)."""

    def egglog(self, fresh: str) -> str:
        return f"(= m{fresh} (axes {self.x.egglog()})) (!= 0 (& m{fresh} {self.axis.egglog()}))"

    def constrain(self, style: dict[str, Any]) -> None:
        """Dependence steers the search; a check may draw either."""

    def holds(self, world: World) -> bool:
        return True


class Known(Condition):
    """A condition of which the engine keeps a table: what is ``true`` of every number, and how a variable is ``drawn`` for it."""

    table: ClassVar[str]
    drawn: ClassVar[Mapping[str, Any]]
    true: ClassVar[Any]

    def egglog(self, fresh: str) -> str:
        return f"({self.table} {self.x.egglog()})"

    def constrain(self, style: dict[str, Any]) -> None:
        style.update(self.drawn)

    def holds(self, world: World) -> bool:
        return bool(np.all(self.true(self.x.value(world))))


class NonNeg(Known):
    """``x`` is never negative (it may be NaN only where the program is)."""

    table, true = "nonneg", staticmethod(lambda x: ~(x < 0))

    def constrain(self, style: dict[str, Any]) -> None:
        style["sign"] = max(style.get("sign", 0), 1)


class Positive(Known):
    """``x`` is greater than zero (it may be NaN only where the program is)."""

    table, drawn, true = "positive", {"sign": 2}, staticmethod(lambda x: ~(x <= 0))


class NonPos(Known):
    """``x`` is never greater than zero (it may be NaN only where the program is)."""

    table, drawn, true = "nonpos", {"sign": -1}, staticmethod(lambda x: ~(x > 0))


class AtLeastOne(Known):
    """``x`` is 1 or more (it may be NaN only where the program is)."""

    table, drawn, true = "at-least-one", {"low": 1.0}, staticmethod(lambda x: ~(x < 1))


class AtMostOne(Known):
    """``x`` is 1 or less (it may be NaN only where the program is)."""

    table, drawn, true = "at-most-one", {"high": 1.0}, staticmethod(lambda x: ~(x > 1))


class Finite(Known):
    """``x`` is a finite number, whatever the inputs."""

    table, drawn, true = "bounded", {"finite": True}, staticmethod(lambda x: x.dtype == object or np.isfinite(x))


class Truth(Known):
    """``x`` is a truth value: 0 or 1."""

    table, drawn, true = "truth", {"truth": True}, staticmethod(lambda x: np.isin(x, (0.0, 1.0)))


@dataclass(frozen=True, eq=False)
class Within(Condition):
    """``|x| <= size``, whatever the inputs; as a premise it binds a variable to the least bound
    known, and asks whether that is at most any other number."""

    size: P.Number

    def __post_init__(self) -> None:
        _set(self, x=P.pattern(self.x), size=P.number(self.size))

    def egglog(self, fresh: str) -> str:
        if isinstance(self.size, P.NumberVar):
            return f"(= {self.size.egglog()} (size {self.x.egglog()}))"
        return f"(= size{fresh} (size {self.x.egglog()})) (<= size{fresh} {self.size.egglog()})"

    def claim(self) -> str:
        return f"(set (size {self.x.egglog()}) {self.size.egglog()})"

    def row(self) -> str:
        return f"size {self.x.egglog()} {self.size.egglog()}"

    def holds(self, world: World) -> bool:
        return bool(np.all(~(np.abs(self.x.value(world)) > float(self.size.value(world)) * (1 + 1e-12))))


@dataclass(frozen=True, eq=False)
class FiniteOr(Condition):
    """``x`` is finite or this number.  An *assumption* about data, declared where a rule makes it: the engine asks nothing, and the
    check draws nothing else.  Masks put the identity of a reduction into programs; the other infinity and NaN are accidents."""

    number: P.Number

    def __post_init__(self) -> None:
        _set(self, x=P.pattern(self.x), number=P.number(self.number))

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
class HasType(Condition):
    """``x`` is a number of this type: an input or a cast to it, or read from one.  A cast to it changes nothing."""

    type: str | P.NameVar

    def __post_init__(self) -> None:
        _set(self, x=P.pattern(self.x), type=P.known_name(self.type, "type"))

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

    def __post_init__(self) -> None:
        _set(self, a=axis(self.a), b=axis(self.b))

    def egglog(self, fresh: str) -> str:
        return f"(!= {self.a.egglog()} {self.b.egglog()})"


@dataclass(frozen=True, eq=False)
class NonEmpty(Fact):
    """The axis has at least one element."""

    axis: AxisVar

    def __post_init__(self) -> None:
        _set(self, axis=axis(self.axis))

    def egglog(self, fresh: str) -> str:
        return f"(nonempty {self.axis.egglog()})"


@dataclass(frozen=True)
class Comparison:
    """What can be said of numbers: as the engine asks it, as Python does, and what makes it true for an argument, given the other."""

    text: str
    holds: Callable[..., Any]
    tries: Callable[[int, Any], tuple[Any, ...]]  # which argument, the other one


def _divides(a: Any, b: Any) -> bool:
    return a > 0 and abs(b) < math.inf and b % a == 0


def _power_of_two(a: Any) -> bool:
    return 1 <= a < math.inf and int(a) == a and not int(a) & int(a) - 1


COMPARISONS = {
    "equals": Comparison("(= {0} {1})", operator.eq, lambda k, x: (x,)),
    "differs": Comparison("(!= {0} {1})", operator.ne, lambda k, x: (x + 1, x - 1)),
    "less": Comparison("(< {0} {1})", operator.lt, lambda k, x: (x - 1, x - 2, x / 2) if k == 0 else (x + 1, x + 2, 2 * x)),
    "at_most": Comparison("(<= {0} {1})", operator.le, lambda k, x: (x, x - 1, x / 2) if k == 0 else (x, x + 1, 2 * x)),
    "divides": Comparison("(> {0} 0.0) (= 0.0 (% {1} {0}))", _divides, lambda k, x: (1, x) if k == 0 else (x, 2 * x, 3 * x, 0 * x)),
    "power_of_two": Comparison(
        "(>= {0} 1.0) (= {0} (to-f64 (to-i64 {0}))) (= 0 (& (to-i64 {0}) (- (to-i64 {0}) 1)))", _power_of_two, lambda k, x: (4, 2, 1, 8, 16)
    ),
}


@dataclass(frozen=True, eq=False)
class Compare(Fact):
    """What is true of numbers: literal ones, numbers of constants, lengths of axes, and arithmetic on these."""

    relation: str
    args: tuple[P.Number, ...]

    def __post_init__(self) -> None:
        _set(self, args=tuple(map(P.number, self.args)))
        if not any(P.variables(a) for a in self.args):
            cure = "a: Scalar is the number of a constant, Extent(k) the length of an axis"
            raise RuleError(f"{self}: it says nothing of the rule's variables", cure=cure)

    def __repr__(self) -> str:
        return f"{self.relation}({', '.join(map(repr, self.args))})"

    def parts(self) -> tuple[Any, ...]:
        return self.args

    def egglog(self, fresh: str) -> str:
        return COMPARISONS[self.relation].text.format(*(a.egglog() for a in self.args))

    def holds(self, world: World) -> bool:
        """Whether it is true of drawn numbers."""
        return bool(COMPARISONS[self.relation].holds(*(a.value(world) for a in self.args)))

    def settle(self, choose: Callable[[int], int], world: World) -> None:
        """Change a number or a length so that it holds, if there is one that stands alone on a side; ``choose`` draws below a number."""
        if self.holds(world):
            return
        alone = [k for k, a in enumerate(self.args) if isinstance(a, P.NumberVar | P.LengthNumber)]
        if not alone:
            return
        k = alone[choose(len(alone))]
        others = [a.value(world) for n, a in enumerate(self.args) if n != k]
        tries = COMPARISONS[self.relation].tries(k, *(others or [0]))
        found, new = self.args[k], tries[choose(len(tries))]
        if isinstance(found, P.NumberVar):
            world.values[found.name] = world.number(new)
        elif isinstance(found, P.LengthNumber) and 0 <= new <= LONGEST_AXIS:
            at = found.axis.position(world)
            small = tuple(min(n, 2) if new > 16 else n for n in world.extents)
            world.extents = (*small[:at], int(new), *small[at + 1 :])


LONGEST_AXIS = 2**20 + 1  # that a check draws because a rule names its length


def equals(a: Any, b: Any) -> Compare:
    """Two numbers are equal: of constants, lengths of axes (``Extent(k)``), literal ones."""
    return Compare("equals", (a, b))


def differs(a: Any, b: Any) -> Compare:
    """Two numbers are not equal."""
    return Compare("differs", (a, b))


def less(a: Any, b: Any) -> Compare:
    """a < b."""
    return Compare("less", (a, b))


def at_most(a: Any, b: Any) -> Compare:
    """a <= b."""
    return Compare("at_most", (a, b))


def at_least(a: Any, b: Any) -> Compare:
    """a >= b."""
    return Compare("at_most", (b, a))


def divides(a: Any, b: Any) -> Compare:
    """b is a whole multiple of a, and a is positive."""
    return Compare("divides", (a, b))


def power_of_two(a: Any) -> Compare:
    """A number is 1, 2, 4, 8, ..."""
    return Compare("power_of_two", (a,))


def Nonzero(a: Any) -> Compare:
    """A number is not zero."""
    return differs(a, 0.0)


def NotNegative(a: Any) -> Compare:
    """A number is not negative."""
    return at_least(a, 0.0)


MODEST = 100.0  # a float32 exponential overflows at 88: adding this much costs an absolute error of 1e-5 at most


def Modest(a: Any) -> Compare:
    """A number is not large."""
    return at_most(a, MODEST)


@dataclass(frozen=True, eq=False)
class OneOf(Fact):
    """A name is one of these."""

    variable: P.NameVar
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.variable, P.NameVar):
            cure = "one_of(t, 'float16', 'bfloat16') for t: TypeName; has_type(x, 'bfloat16') for a value"
            raise RuleError(f"one_of({shown(self.variable)}, ...): it is no name but {what(self.variable)}", cure=cure)
        if not self.names:
            raise RuleError(f"one_of({self.variable.name}) names nothing", cure="one_of(t, 'float16', 'bfloat16')")
        for name in self.names:
            if not isinstance(name, str):
                raise RuleError(f"one_of({self.variable.name}, ...): {shown(name)} is no name but {what(name)}", cure="write the names")
            P.known_name(name, self.variable.sort)

    def parts(self) -> tuple[Any, ...]:
        return (self.variable,)

    def forms(self, mirrored: bool) -> list[Fact]:
        return [OneOf(self.variable, (name,)) for name in self.names]

    def egglog(self, fresh: str) -> str:
        return f'(= {self.variable.egglog()} "{self.names[0]}")'


def one_of(variable: P.NameVar, *names: str) -> OneOf:
    """A name is one of these: ``one_of(t, "float16", "bfloat16")``."""
    return OneOf(variable, names)


@dataclass(frozen=True, eq=False)
class IndexFree(Fact):
    """An index expression does not mention an axis."""

    at: IndexVar
    axis: AxisVar

    def egglog(self, fresh: str) -> str:
        return f"(= m{fresh} (index-axes {self.at.egglog()})) (= 0 (& m{fresh} {self.axis.egglog()}))"


class IndexDepends(IndexFree):
    """An index expression mentions an axis (it only steers the search)."""

    def egglog(self, fresh: str) -> str:
        return f"(= m{fresh} (index-axes {self.at.egglog()})) (!= 0 (& m{fresh} {self.axis.egglog()}))"


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


# relations ----------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Equation:
    """The meaning ``left = right`` of a row; ``sides`` makes both from the columns.  ``free`` names (value, axis) columns: the value
    does not depend on the axis.  Where a row is a premise, the check computes ``left``."""

    sides: Callable[..., tuple[Any, Any]]
    free: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Claim:
    """The meaning of a row as a predicate on arrays.  ``holds`` gets the columns' values: arrays with one dimension per axis (whole
    along the axes that the row names), the dimension's number for an axis, a name, or a number; it returns where the claim is true.

    ``assumed=False`` is for guards against rounding: a rule that asks for one must be true over the reals without it.
    """

    holds: Callable[..., Any]
    assumed: bool = True


@dataclass(frozen=True)
class Trait:
    """The meaning of a row as a property of ops or monoids, from their tables.  ``holds`` gets names; ``number`` is what a number in
    the last column must be."""

    holds: Callable[..., bool]
    number: Callable[[str], float] | None = None
    sorts: tuple[str, ...] = ()  # of names, by column; the last one is that of all others
    names: Callable[[], Iterable[tuple[str, ...]]] | None = None  # what rows may be of, if not of every name of its sort

    def rows(self) -> list[tuple[str, ...]]:
        """The names that it is true of."""
        names = self.names() if self.names else ((name,) for name in P.SORTS[self.sorts[0]][1])
        return [row for row in names if self.holds(*row)]


Meaning = Equation | Claim | Trait


@dataclass(frozen=True)
class Relation:
    """A named relation.  ``columns`` are engine sorts: ``T`` a value, ``L`` a linear form, ``i64`` an axis or an index expression,
    ``String`` a name, ``f64`` a number.  ``doc`` says what a row means in words, ``meaning`` so that it can be tested.

    ``demand``: rows steer the search and claim nothing.  ``given``: rows come from outside the rules, so no rule concludes them.
    """

    name: str
    columns: tuple[str, ...]
    doc: str
    meaning: Meaning | None = None
    demand: bool = False
    given: bool = False
    asks: str = ""  # rules with such a premise ask for its rows with a row of this demand, which has the first column
    sorts: tuple[str, ...] = ()  # of names in its columns, by column; the last one is that of all others

    @property
    def of_values(self) -> bool:
        """Whether rows say something about values, which a program's numbers could refute."""
        return isinstance(self.meaning, Equation | Claim)

    def __call__(self, *args: Any) -> Row:
        if len(args) != len(self.columns):
            raise RuleError(
                f"relation {self.name} has {len(self.columns)} columns ({' '.join(self.columns)}), not {len(args)}", cure=self.doc
            )
        return Row(self, tuple(map(self._cell, range(len(args)), args)))

    def _cell(self, k: int, x: Any) -> Any:
        """An argument as its column holds it."""
        sort = self.columns[k]
        if sort == "T":
            return P.pattern(x)
        if sort == "f64":
            return P.number(x)
        good: Any = {"L": Pattern, "i64": AxisVar | Place, "String": str | P.NameVar}[sort]
        if not isinstance(x, good):
            wanted = {"L": "form", "i64": "axis or position", "String": "name"}[sort]
            raise RuleError(f"{self.name}: {shown(x)}, in column {k + 1}, is no {wanted} but {what(x)}", cure=self.doc)
        if sort == "String" and self.sorts:
            return P.known_name(x, self.sorts[min(k, len(self.sorts) - 1)])
        return x


@dataclass(frozen=True, eq=False)
class Row(Fact):
    """A row of a relation, as a premise or as a conclusion."""

    relation: Relation
    args: tuple[Any, ...]

    def parts(self) -> tuple[Any, ...]:
        return self.args

    def egglog(self, fresh: str) -> str:
        cells = " ".join(a.egglog() if not isinstance(a, str) else f'"{a}"' for a in self.args)
        return f"({self.relation.name} {cells})"

    def row(self) -> str:
        return self.egglog("")[1:-1] if self.relation.of_values else ""


RELATIONS: dict[str, Relation] = {}
SORTS = ("T", "L", "i64", "f64", "String")


def relation(
    name: str,
    columns: str,
    doc: str,
    *,
    equation: Callable[..., tuple[Any, Any]] | None = None,
    claim: Callable[..., Any] | None = None,
    demand: bool = False,
) -> Relation:
    """Declare a relation for rules of your own, with what a row of it means.

    Exactly one of these is given:

    ``equation``  a function of the columns that returns two patterns that are equal, the first of them a column;
    ``claim``     a function of the columns' values (see :class:`Claim`) that returns where the row is true;
    ``demand``    nothing: rows only steer the search.
    """
    where = f"relation {name}"
    if any(f is not None and not callable(f) for f in (equation, claim)) or not isinstance(demand, bool):
        raise RuleError(f"{where}: a meaning is a function", cure="claim=lambda x: x > 0, equation=lambda x, y: (x, y + 1.0), demand=True")
    if sum((equation is not None, claim is not None, demand)) != 1:
        raise RuleError(f"{where}: its meaning is not declared", cure="exactly one of equation=, claim= and demand=True")
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise RuleError(f"{where}: not a name for the engine", cure="lower case letters, digits and dashes")
    if name in RELATIONS:
        raise RuleError(f"{where}: the name is taken", cure=f"the other one says: {RELATIONS[name].doc}")
    if not isinstance(columns, str) or not columns.split() or not set(columns.split()) <= set(SORTS):
        raise RuleError(f"{where}: columns {columns!r}", cure=f"a text of {', '.join(SORTS)} with spaces between, as in 'T f64'")
    if not isinstance(doc, str) or not doc.strip():
        raise RuleError(f"{where}: no text", cure="say what a row means")
    for option, function in (("equation", equation), ("claim", claim)):
        _takes(where, option, function, columns.split())
    meaning = Equation(equation) if equation else Claim(_judging(where, claim)) if claim else None
    RELATIONS[name] = Relation(name, tuple(columns.split()), doc, meaning, demand)
    return RELATIONS[name]


def _takes(where: str, option: str, function: Any, columns: list[str]) -> None:
    """Refuse a meaning that cannot be called with the columns, or, of values alone, does not give two sides."""
    with suppress(ValueError, TypeError):  # of a function of C's no signature is known
        signature = inspect.signature(function)
        try:
            signature.bind(*columns)
        except TypeError:
            cure = f"{option}=lambda {', '.join('xyzuvwpq'[: len(columns)])}: ... for the columns {' '.join(columns)}"
            raise RuleError(f"{where}: {option} is no function of {len(columns)} arguments", cure=cure) from None
    if option == "claim" or function is None or not set(columns) <= {"T", "f64"}:
        return
    given = [Var(f"x{k}") if c == "T" else P.NumberVar(f"x{k}") for k, c in enumerate(columns)]
    cure = "equation=lambda x, y: (x, y + 1.0): a column, and a pattern that it is equal to"
    try:
        sides = function(*given)
    except RuleError as error:
        raise RuleError(f"{where}: {error.message}", cure=error.cure) from error
    except Exception as error:
        raise RuleError(f"{where}: its equation raised {type(error).__name__}: {error}", cure=cure) from error
    if not isinstance(sides, tuple) or len(sides) != 2 or not any(sides[0] is v for v in given):
        raise RuleError(f"{where}: its equation does not give a column and what it is equal to", cure=cure)
    if P.pattern(sides[0]).egglog() == P.pattern(sides[1]).egglog():
        raise RuleError(f"{where}: both sides of its equation are the same", cure=cure)


def _judging(where: str, claim: Callable[..., Any]) -> Callable[..., Any]:
    """A claim whose answers are truth values."""

    def holds(*columns: Any) -> Any:
        found = claim(*columns)
        if np.asarray(found).dtype.kind != "b":
            cure = "an array of truth values: claim=lambda x: (x > 0) & (x < 1)"
            raise RuleError(f"{where}: its claim gives {described(found)}, no truth values", cure=cure)
        return found

    return holds


def forget(relation: Relation) -> None:
    """Remove a relation that :func:`relation` declared (for tests)."""
    RELATIONS.pop(relation.name, None)


def _relation(
    name: str,
    columns: str,
    doc: str,
    meaning: Meaning | None = None,
    *,
    given: bool = False,
    asks: str = "",
    sorts: tuple[str, ...] = (),
) -> Relation:
    sorts = sorts or (meaning.sorts if isinstance(meaning, Trait) else ())
    RELATIONS[name] = Relation(name, tuple(columns.split()), doc, meaning, meaning is None and not given, given, asks, sorts)
    return RELATIONS[name]


def _changed_by(combine: Callable[[Any, Any], Any]) -> Equation:
    """kind axis t r tn d: at the new reference t is combine(t, d); a local value tn gives t = combine(tn, d)."""

    def sides(kind: Any, axis: Any, t: Any, r: Any, tn: Any, d: Any) -> tuple[Any, Any]:
        return (t, combine(tn, d)) if kind == "loc" else (tn, combine(t, d))

    return Equation(sides)


class Vanishing(Pattern):
    """A value that is ``limit`` wherever ``r`` is -inf and ``c`` holds, and anything elsewhere."""

    def __init__(self, x: Var, r: Var, c: Pattern, limit: float) -> None:
        self.x, self.r, self.c, self.limit = x, r, c, limit

    def parts(self) -> tuple[Any, ...]:
        return (self.x, self.r, self.c)

    def where(self, world: World) -> np.ndarray:
        """Where the value is known."""
        return np.isneginf(np.asarray(self.r.value(world), float)) & (self.c.value(world) != 0)

    def value(self, world: World) -> np.ndarray:
        anything = world.values[self.x.name if self.x.name in world.values else f"{self.x.name} elsewhere"]
        return np.where(self.where(world), world.numbers(self.limit), anything)


def _combined(op: Any, t: Any, x: Any, y: Any) -> tuple[Any, Any]:
    return t, P.Map(op, x, y)


def _turns(domains: tuple[str, ...]) -> Trait:
    def holds(o: str, source: str, target: str) -> bool:
        return o in OPS and (source, target) in OPS[o].turns and OPS[o].domain in domains

    return Trait(holds, sorts=("op",), names=lambda: ((o.name, *pair) for o in OPS.values() for pair in o.turns))


def _signed(trait: str) -> Relation:
    meaning = Trait(lambda o: o in OPS and trait in sign_traits(OPS[o]), sorts=("op",))
    return _relation(trait, "String", f"trait: {SIGN_TRAITS[trait]}", meaning)


def _saturates(o: str) -> bool:
    return o in OPS and OPS[o].arity == 1 and OPS[o].result != "bool" and OPS[o].range(ALL).finite


def _separable(f: np.ndarray, x: np.ndarray) -> np.ndarray:
    return ~(np.abs(f) > np.maximum(np.abs(f + x), MODEST))


def _onehot(c: np.ndarray, j: int) -> np.ndarray:
    return np.count_nonzero(c, axis=j, keepdims=True) <= 1


def _monoid(test: Callable[[Any], bool]) -> Callable[[str], bool]:
    return lambda g: g in MONOIDS and test(MONOIDS[g])


def _type(test: Callable[[Any], bool]) -> Trait:
    return Trait(lambda d: d in DTYPES and test(DTYPES[d]), sorts=("type",))


def _folding(trait: str) -> Relation:
    """A reduction of at least one element is what its op makes of them, one by one.  Sums of integers may wrap."""
    meaning = Trait(_monoid(lambda m: (m.linear or m.idempotent) and trait in sign_traits(OPS[m.combine])), sorts=("monoid",))
    return _relation(f"fold-{trait}", "String", f"trait: a monoid of real numbers that combines by {SIGN_TRAITS[trait]}", meaning)


FIRST_FREE = ((2, 1),)  # column 2 is free of the axis in column 1
wants_factor = _relation("wants-factor", "T i64", "demand: somebody sums t over the axis; write it as a product")
wants_term = _relation("wants-term", "T i64", "demand: write t as a sum, one part free of the axis")
free_factor = _relation("free-factor", "T i64 T T", "t = f * b, f free of the axis", Equation(lambda t, j, f, b: (t, f * b), FIRST_FREE))
free_term = _relation("free-term", "T i64 T T", "t = f + b, f free of the axis", Equation(lambda t, j, f, b: (t, f + b), FIRST_FREE))
written = _relation("written", "String T T T", "op t f b: t = f op b, what the program does last", Equation(_combined), sorts=("op",))
operand = _relation(
    "operand", "String T T T", "op t x rest: t = x op rest, and x is any one of the operands of the chain that the program writes",
    Equation(_combined), asks="wants-operands", sorts=("op",),
)  # fmt: skip
operands = _relation(
    "operands", "String T T T T", "op t x y rest: t = (x op y) op rest, and x and y are any two of three or more operands of such a chain",
    Equation(lambda o, t, x, y, rest: (t, P.Map(o, P.Map(o, x, y), rest))), asks="wants-operands", sorts=("op",),
)  # fmt: skip
wants_operands = _relation("wants-operands", "String", "demand: find the operands of chains of this op", sorts=("op",))
associative = _relation(
    "associative", "String", "trait: an op whose operands may be written in any order",
    Trait(lambda o: o in OPS and OPS[o].associative and OPS[o].commutative, sorts=("op",)),
)  # fmt: skip
separable = _relation(
    "separable", "T T", "f x: |f| is at most |f + x| or modest, so f and x may be rounded apart", Claim(_separable, assumed=False)
)
onehot = _relation("onehot", "T i64", "c holds at one place of the axis at most", Claim(_onehot))
wants_multiple = _relation("wants-multiple", "f64 T", "demand: fold the factor into t")
movable = _relation("movable", "T", "t is a cast, and nothing shows where it rounds; it may round another multiple of its value")
typed = _relation("typed", "T String", "t is a number of the floating type, whatever its own: a cast to it changes nothing", given=True)
needs_repair = _relation("needs-repair", "T i64", "demand: t is below a reduction that cannot run in the first loop over the axis")
function_of = _relation(
    "function-of", "i64 T T T T", "axis t r tn to: t is a function of r alone; tn, to are the function at new and old",
    Equation(lambda j, t, r, tn, to: (to, t)),
)  # fmt: skip
changes_by_term = _relation(
    "changes-by-term", "String i64 T T T T", "kind axis t r tn d: tn = t + d (loc: t = tn + d)", _changed_by(lambda x, d: x + d)
)
changes_by_factor = _relation(
    "changes-by-factor", "String i64 T T T T", "kind axis t r tn q: tn = t * q (loc: t = tn * q)", _changed_by(lambda x, q: x * q)
)
changes_by_form = _relation(
    "changes-by-form", "i64 T T T L", "axis t r tn l: tn is the linear form l over values at the old reference",
    Equation(lambda j, t, r, tn, form: (tn, form)),
)  # fmt: skip
counted_from = _relation("counted-from", "T T", "demand: count x from p, which is x itself or a mean of it")
before_end = _relation(
    "before-end", "T i64 i64", "demand: h chooses what is before the end in a part that may be shorter; outer and inner axis"
)
spoils = _relation("spoils", "T T", "r p: r is finite only where p is", Claim(lambda r, p: (p - p == 0) | ~(r - r == 0)))
offset = _relation(
    "offset", "T T T", "v d u: v = u + d, where one part of a split axis knows u, but not d", Equation(lambda v, d, u: (v, u + d))
)
shifted = _relation(
    "shifted", "T T T T T T T", "t d e a b c n: t = a + d b + e c + d e n, where one part of a split axis knows a, b, c and n",
    Equation(lambda t, d, e, a, b, c, n: (t, a + d * b + e * (c + d * n))),
)  # fmt: skip
least_where = _relation(
    "least-where", "T T T", "x r c: x is -inf (or NaN) wherever the maximum r is -inf and c holds",
    Equation(lambda x, r, c: (x, Vanishing(x, r, c, -np.inf))),
)  # fmt: skip
zero_where = _relation(
    "zero-where", "T T T", "x r c: x is 0 (or NaN) wherever the maximum r is -inf and c holds",
    Equation(lambda x, r, c: (x, Vanishing(x, r, c, 0.0))),
)  # fmt: skip
inner = _relation(
    "inner", "T String i64 T T", "t = (g_k y) * r, r free of the axis k",
    Equation(lambda t, g, k, y, r: (t, P.Reduce(g, k, y) * r), ((4, 2),)), sorts=("monoid",),
)  # fmt: skip
weigh = _relation("weigh", "T T T i64 i64", "demand: compare the products of g_j (h_k f*x) * r with those of h_k f * (g_j x*r); f x r j k")
worth = _relation("worth", "T T T i64 i64", "f x r j k: the larger product of the second order is not larger", given=True)
wants_sums = _relation("wants-sums", "T", "demand: find the sums of products in t")
shares = _relation("shares", "T i64 T", "demand: t can be written as a sum over the axis of products with a, plus something")
wants_product = _relation("wants-product", "T i64 T", "demand: write t as a sum over the axis of products with a, plus something")
product = _relation("product", "T i64 T T", "t = sum_k a*b", Equation(lambda t, k, a, b: (t, P.Reduce("sum", k, a * b))))
product_beside = _relation(
    "product-beside", "T i64 T T T", "t = (sum_k a*b) + r", Equation(lambda t, k, a, b, r: (t, P.Reduce("sum", k, a * b) + r))
)
increasing = _relation("increasing", "String", "trait: a non-decreasing op", Trait(lambda o: o in OPS and OPS[o].increasing, sorts=("op",)))
saturating = _relation(
    "saturating", "String f64", "trait: an op of one argument whose magnitude never exceeds a number",
    Trait(_saturates, lambda o: OPS[o].range(ALL).magnitude, ("op",)),
)  # fmt: skip
turns = _relation("turns", "String String String", "trait: op turns one operation into another, everywhere", _turns(("real", "nonzero")))
turns_nonneg = _relation(
    "turns-nonneg", "String String String", "trait: op turns one operation into another where all is >= 0", _turns(("nonneg", "positive"))
)
linear = _relation("linear", "String", "trait: the monoid commutes with scaling", Trait(_monoid(lambda m: m.linear), sorts=("monoid",)))
idempotent = _relation("idempotent", "String", "trait: a monoid with x + x = x", Trait(_monoid(lambda m: m.idempotent), sorts=("monoid",)))
selective = _relation(
    "selective", "String f64", "trait: a monoid that picks one of its elements, with its identity",
    Trait(_monoid(lambda m: m.idempotent), lambda g: MONOIDS[g].identity, ("monoid",)),
)  # fmt: skip
rounding = _relation("rounding", "String", "trait: a floating type, to which a cast rounds", _type(lambda d: d.is_float))
wide = _relation("wide", "String", "trait: a floating type that overflows and vanishes no earlier than float32", _type(lambda d: d.is_wide))
integer = _relation("integer", "String", "trait: a type of whole numbers; not bool", _type(lambda d: d.kind == "int"))
unsigned = _relation("unsigned", "String", "trait: a type without negative numbers", _type(lambda d: d.unsigned))
keeps_sign = _relation("keeps-sign", "String", "trait: a type that wraps nothing", _type(lambda d: d.is_float or d.kind == "bool"))
always_nonneg, makes_truth = map(_signed, ("always-nonneg", "makes-truth"))
nonneg_if_one, positive_if_one, positive_if_bounded = map(_signed, ("nonneg-if-one", "positive-if-one", "positive-if-bounded"))
KEEPS = ("keeps-nonneg", "keeps-nonpos", "keeps-positive", "keeps-bounded")
keeps_nonneg, keeps_nonpos, keeps_positive, keeps_bounded = map(_signed, KEEPS)
fold_nonneg, fold_nonpos, fold_positive, fold_bounded = map(_folding, KEEPS)
fuse = _relation("fuse", "String T T String", "for extractors: allow, forbid or require that two values share a kernel; the rule")
outside = _relation("outside", "String T T T T T i64 i64 i64 i64", "for extractors: a rule offers a value; what it is made from; axes")
split = _relation(
    "split", "i64 i64 i64 i64", "axis, its outer and its inner part, the index expression; the factor divides the extent", given=True
)
ragged = _relation("ragged", "i64 i64 i64 i64", "as split, but the last part is shorter", given=True)
part = _relation("part", "i64 i64", "the outer and inner axis of a split", given=True)
same_index = _relation("same-index", "i64 i64", "the index expression is the axis itself", given=True)


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


def reduced(axis: AxisVar) -> Search:
    """Something reduces over the axis."""
    return Search("(axis {0})", (axis,))


# spelled like functions in rules
free, depends, nonneg, positive, finite, truth, settled = Free, Depends, NonNeg, Positive, Finite, Truth, Settled
nonpos, at_least_one, at_most_one, within, finite_or = NonPos, AtLeastOne, AtMostOne, Within, FiniteOr
match, equal, has_type, argument = Match, Equal, HasType, Argument
