"""Pattern terms: what a rule's two sides are made of.

A pattern has three readings.  ``egglog()`` is its text for the e-graph engine, ``value(world)`` its value on random arrays (for
the rule's own check), and Python's operators build it, so that a rule reads like the equation it is.

Arrays in checks have one dimension per axis of a small universe; an axis that a value does not depend on has size 1 there.
"""

from __future__ import annotations

import difflib
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, Union

import numpy as np

from ..errors import RuleError
from ..ir.dtypes import DTYPES
from ..ir.monoids import MONOIDS
from ..ir.ops import OPS
from ..ir.reference import round_to
from ..ir.semantics import Undefined, value
from . import notation
from .notation import Notation, literal, shown, variable_text, what
from .positions import AlongAxis, AxisVar, IndexVar, Length, Place, Whole, axis, no_position, position
from .world import World

__all__ = [
    "Cast", "Const", "Extent", "Gather", "Index", "Map", "Max", "Mean", "Merge", "Reduce", "Scan", "Sum", "View", "Where",
]  # fmt: skip

Operand = Union["Pattern", "Number", float]


class Pattern(Notation):
    """Base of patterns that stand for tensor values."""

    sort = "T"

    @property
    def kind(self) -> str:
        """Which of the language's nodes it is, in the words of :mod:`~eqfuse.egraph.frozen`."""
        return type(self).__name__.lower()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(p if isinstance(p, str) else shown(p) for p in self.parts())})"

    def parts(self) -> tuple[Any, ...]:
        """Sub-patterns and attribute variables."""
        return ()

    def egglog(self) -> str:
        """Text for the engine."""
        raise NotImplementedError

    def value(self, world: World) -> np.ndarray:
        """The value on arrays."""
        raise NotImplementedError

    def rebuild(self, parts: tuple[Any, ...]) -> Pattern:
        """The same node over other parts."""
        raise NotImplementedError

    def as_position(self) -> Place:
        """Index arithmetic, of what can be read so."""
        raise no_position(self)

    # arithmetic sugar, spelled as the front end spells it: subtraction and division by neg and recip, of numbers by numbers.  With a
    # position it is index arithmetic.
    def __add__(self, other: Operand) -> Any:
        return position(self) + other if isinstance(other, Place) else Map("add", self, pattern(other))

    def __radd__(self, other: Operand) -> Any:
        return (other if isinstance(other, Place) else pattern(other)) + (position(self) if isinstance(other, Place) else self)

    def __mul__(self, other: Operand) -> Any:
        return position(self) * other if isinstance(other, Place) else Map("mul", self, pattern(other))

    def __rmul__(self, other: Operand) -> Any:
        return (other if isinstance(other, Place) else pattern(other)) * (position(self) if isinstance(other, Place) else self)

    def __neg__(self) -> Any:
        return Map("neg", self)

    def __abs__(self) -> Pattern:
        return Map("abs", self)

    def __sub__(self, other: Operand) -> Any:
        if (number := literal(other)) is not None:
            return self + -number  # x - 0 is x + (-0.0)
        return self + -(other if isinstance(other, Number | Place) else pattern(other))

    def __rsub__(self, other: Operand) -> Any:
        return -self + other if isinstance(other, Place) else pattern(other) + -self

    def __truediv__(self, other: Operand) -> Pattern:
        if isinstance(other, Number):
            return self * other.reciprocal()
        number = literal(other)
        if number is None:
            return self * Map("recip", pattern(other))
        if number == 0:
            raise RuleError(f"{shown(self)} / {other}: a number divided by zero", cure='write the number that is meant, or Map("recip", y)')
        return self * NumberLiteral(1.0 / number, of=number if 0 < abs(1.0 / number) < math.inf else None)

    def __rtruediv__(self, other: Operand) -> Pattern:
        one = Map("recip", self)
        return one if literal(other) == 1 else pattern(other) * one

    def __floordiv__(self, other: Operand) -> Any:
        return position(self) // other if isinstance(other, Place) else Map("floordiv", self, pattern(other))

    def __rfloordiv__(self, other: Operand) -> Any:
        return Map("floordiv", pattern(other), self)

    def __mod__(self, other: Operand) -> Any:
        return position(self) % other if isinstance(other, Place) else Map("remainder", self, pattern(other))

    def __rmod__(self, other: Operand) -> Any:
        return Map("remainder", pattern(other), self)

    def __pow__(self, power: float) -> Pattern:
        """``self`` to a power that is a number: products and roots for small whole and half powers, as the front end reads them."""
        p = literal(power)
        if p is None or not math.isfinite(p):
            self._no("**", power)
        simple = {2: "square", 0.5: "sqrt", -0.5: "rsqrt"}
        if p in simple:
            return Map(simple[p], self)
        if p in (0, 1):
            return self if p else Const(1.0)
        if p != int(p) or abs(p) > 8:
            return Map("pow", self, Const(float(p)))
        if p < 0:
            return Map("recip", self**-p)
        half = Map("square", self ** (p // 2))
        return half * self if p % 2 else half

    def __rpow__(self, base: float) -> Pattern:
        """A positive number to the power ``self``."""
        number = literal(base)
        if number is None or not 0 < number < math.inf:
            cure = f'a power is a number; of two values: Map("pow", base, {shown(self)})'
            raise RuleError(f"{shown(base)} ** {shown(self)}: the base is no positive number", cure=cure)
        return Map("exp2", self) if number == 2 else Map("pow", Const(float(number)), self)


def pattern(x: Operand) -> Pattern:
    """A pattern from a pattern, a number, or arithmetic on the numbers of constants."""
    if isinstance(x, Pattern):
        return x
    if isinstance(x, Number) or literal(x) is not None:
        return Const(x)
    cure = "a value is a variable, a number, or made of values: x * 2.0, Map(op, x), Sum(k, x)"
    if isinstance(x, AxisVar):
        cure = f"write Extent({x.name}) for its length, Index({x.name}) for positions"
    elif isinstance(x, Place):
        cure = "View(Index(k), k, e) is the position e along k as a value"
    raise RuleError(f"{shown(x)} is no value but {what(x)}", cure=cure)


# variables -----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Var(Pattern):
    """Any tensor value."""

    name: str

    def __repr__(self) -> str:
        return self.name

    def egglog(self) -> str:
        return variable_text(self.name)

    def value(self, world: World) -> np.ndarray:
        return world[self.name]

    def rebuild(self, parts: tuple[Any, ...]) -> Pattern:
        return self


class LinearVar(Var):
    """Any linear form over accumulators (see :class:`Along`)."""

    sort = "L"


@dataclass(frozen=True, eq=False)
class NameVar(Notation):
    """A variable over names: an op with a trait, a monoid, a type, or the kind of a repair.  ``choices`` lists what a check draws from."""

    name: str
    choices: Callable[[], tuple[str, ...]]
    sort: str = "op"  # or "monoid", "type", "kind"
    arity: int | None = None  # of an op, if the annotation says

    instead = notation.NAMES

    def egglog(self) -> str:
        return variable_text(self.name)

    def value(self, world: World) -> str:
        return str(world.values[self.name])


class Number(Notation, ABC):
    """Arithmetic on constants inside a pattern."""

    instead = notation.NUMBERS

    @abstractmethod
    def egglog(self) -> str:
        """Text for the engine."""

    @abstractmethod
    def value(self, world: World) -> float:
        """The number."""

    def parts(self) -> tuple[Any, ...]:
        return ()

    def __mul__(self, other: Number | float) -> Number:
        return NotImplemented if (o := _number(other)) is None else NumberOp("*", (self, o), np.multiply)

    def __rmul__(self, other: float) -> Number:
        return NotImplemented if (o := _number(other)) is None else o * self

    def __add__(self, other: Number | float) -> Number:
        return NotImplemented if (o := _number(other)) is None else NumberOp("+", (self, o), np.add)

    def __radd__(self, other: float) -> Number:
        return NotImplemented if (o := _number(other)) is None else o + self

    def __neg__(self) -> Number:
        return NumberOp("neg", (self,), np.negative)

    def __sub__(self, other: Number | float) -> Number:
        return NotImplemented if (o := _number(other)) is None else self + -o

    def __rsub__(self, other: float) -> Number:
        return NotImplemented if (o := _number(other)) is None else o + -self

    def __truediv__(self, other: Number | float) -> Number:
        return NotImplemented if (o := _number(other)) is None else self * o.reciprocal()

    def __rtruediv__(self, other: float) -> Number:
        if (o := _number(other)) is None:
            return NotImplemented
        return self.reciprocal() if other == 1 else o * self.reciprocal()

    def reciprocal(self) -> Number:
        """1 / x."""
        return NumberOp("/", (NumberLiteral(1.0), self), np.divide)


def _number(x: Any) -> Number | None:
    """A number of a constant, or a literal one; patterns go their own way."""
    return x if isinstance(x, Number) else None if (n := literal(x)) is None else NumberLiteral(n)


def number(x: Any) -> Number:
    """A number: literal, of a constant, the length of an axis, or arithmetic on these."""
    if (found := _number(x)) is not None:
        return found
    if isinstance(x, Const):
        return x.number
    if isinstance(x, Extent) and not isinstance(x, Index):
        return LengthNumber(x.axis)
    if isinstance(x, Map) and isinstance(x.op, str) and x.op in ("add", "mul", "neg", "recip"):
        meant: dict[str, Callable[..., Number]] = {
            "add": operator.add, "mul": operator.mul, "neg": operator.neg, "recip": Number.reciprocal,
        }  # fmt: skip
        return meant[x.op](*map(number, x.args))
    cure = "write a number, a: Scalar, Extent(k), or arithmetic on these"
    raise RuleError(
        f"{shown(x)} is no number but {what(x)}",
        cure=f"write Extent({x.name}) for its length" if isinstance(x, AxisVar) else cure,
    )


@dataclass(frozen=True, eq=False)
class NumberVar(Number):
    """The number in a constant."""

    name: str

    def __repr__(self) -> str:
        return self.name

    def egglog(self) -> str:
        return variable_text(self.name)

    def value(self, world: World) -> float:
        return world.number(world.values[self.name])


@dataclass(frozen=True, eq=False)
class NumberLiteral(Number):
    """A literal number; ``of``: the number that it is the reciprocal of, where a rule divides by one.  The engine has the double
    nearest to a sixth, and reals have a sixth."""

    number: float
    of: float | None = None

    def __repr__(self) -> str:
        return f"{self.number:g}"

    def egglog(self) -> str:
        return number_text(self.number)

    def value(self, world: World) -> float:
        if self.of is None or world.bitwise:
            return world.number(self.number)
        return world.number(Fraction(self.exact()) if world.rational else world.dtype(1) / world.dtype(self.of))

    def exact(self) -> str:
        """The number that is meant, as a quotient; it is finite."""
        return str(Fraction(self.number) if self.of is None else 1 / Fraction(self.of))


@dataclass(frozen=True, eq=False)
class LengthNumber(Number):
    """The length of an axis, in a condition; as a value it is ``Extent``."""

    axis: AxisVar

    def parts(self) -> tuple[Any, ...]:
        return (self.axis,)

    def __repr__(self) -> str:
        return f"Extent({self.axis.name})"

    def egglog(self) -> str:
        return f"(length {self.axis.egglog()})"

    def value(self, world: World) -> float:
        return world.number(self.axis.extent(world))


@dataclass(frozen=True, eq=False)
class NumberOp(Number):
    """Arithmetic, done by the engine on doubles."""

    op: str
    args: tuple[Number, ...]
    numpy: Callable[..., Any]

    def __repr__(self) -> str:
        return f"({self.op} {' '.join(map(repr, self.args))})"

    def parts(self) -> tuple[Any, ...]:
        return self.args

    def egglog(self) -> str:
        return f"({self.op} {' '.join(a.egglog() for a in self.args)})"

    def value(self, world: World) -> float:
        values = [a.value(world) for a in self.args]
        if world.rational:
            exact: dict[str, Callable[..., Any]] = {"*": operator.mul, "+": operator.add, "neg": operator.neg, "/": operator.truediv}
            try:
                return exact[self.op](*values)
            except ZeroDivisionError as error:
                raise Undefined("a division by zero") from error
        with np.errstate(all="ignore"):
            return float(self.numpy(*map(np.float64, values)))


def number_text(x: float) -> str:
    """A double as the engine writes it."""
    if x != x:
        return "NaN"
    if x in (float("inf"), float("-inf")):
        return "inf" if x > 0 else "-inf"
    text = repr(float(x))
    return text if "." in text or "e" in text else text + ".0"


# nodes ---------------------------------------------------------------------------------------------------------------------------


def name_text(n: str | NameVar) -> str:
    """A literal or variable name."""
    return n.egglog() if isinstance(n, NameVar) else f'"{n}"'


SORTS: dict[str, tuple[str, Mapping[str, Any], str]] = {  # what a name names, the table of all, what annotates a variable
    "op": ("op", OPS, "o: Op1, Op2, Op3 or Turns[...]"),
    "monoid": ("monoid", MONOIDS, "g: AnyMonoid"),
    "type": ("type", DTYPES, "t: TypeName"),
}


def known_name(n: Any, sort: str) -> Any:
    """A name of this sort, or a variable for one."""
    called, table, variable = SORTS[sort]
    if isinstance(n, NameVar) and n.sort == sort:
        return n
    if isinstance(n, str) and n in table:
        return n
    close = difflib.get_close_matches(n, table, 1) if isinstance(n, str) else []
    listed = "the ops are those of ir/ops.py and your own" if sort == "op" else f"one of {', '.join(table)}"
    cure = f"{f'did you mean {close[0]!r}? ' if close else ''}{listed}; or a variable, {variable}"
    if isinstance(n, str):
        raise RuleError(f"there is no {called} {n!r}", cure=cure)
    raise RuleError(f"{shown(n)} is no {called} but {what(n)}", cure=cure)


def name_of(n: str | NameVar, world: World) -> str:
    """A literal name, or the drawn one."""
    return n.value(world) if isinstance(n, NameVar) else n


def rounded(x: np.ndarray, to: str, world: World) -> np.ndarray:
    """Numbers of a type next to these."""
    if not DTYPES[to].is_float:
        x = np.trunc(np.where(x == x, x, 0).astype(float))
        x = np.asarray(np.clip(x, max(DTYPES[to].least, -(2.0**53)), min(DTYPES[to].largest, 2.0**53)))
    near = round_to(np.asarray(x, float) if world.rational else x, to)
    return np.vectorize(Fraction, otypes=[object])(near) if world.rational and near.size else world.numbers(near)


POSITIONS: dict[str, Callable[..., Place]] = {  # the ops of index arithmetic
    "add": operator.add, "mul": operator.mul, "neg": operator.neg, "floordiv": operator.floordiv, "remainder": operator.mod,
}  # fmt: skip


@dataclass(eq=False, repr=False)
class Node(Pattern):
    """One operation: its parts in the order in which they are written.  Those that are values are its arguments, the others say of which
    op, axis, type or position it is; the class has the name that the engine knows it by, in lower case it is the kind of node."""

    def parts(self) -> tuple[Any, ...]:
        return tuple(getattr(self, f.name) for f in fields(self))

    def attrs(self) -> tuple[Any, ...]:
        """What it is of besides values."""
        return tuple(p for p in self.parts() if not isinstance(p, Pattern))

    def arguments(self) -> tuple[Pattern, ...]:
        """The values that it is of."""
        return tuple(p for p in self.parts() if isinstance(p, Pattern))

    def rebuild(self, parts: tuple[Any, ...]) -> Pattern:
        return type(self)(*parts)

    def egglog(self) -> str:
        parts = (f'"{p}"' if isinstance(p, str) else p.egglog() for p in self.parts())
        return f"({' '.join((type(self).__name__, *parts))})"

    def value(self, world: World) -> np.ndarray:
        attrs = [p if isinstance(p, str) else p.position(world) if isinstance(p, AxisVar) else p.value(world) for p in self.attrs()]
        return value(world, self.kind, attrs, [x.value(world) for x in self.arguments()])


class Map(Node):
    """A scalar op, by name or as a variable with a trait."""

    def __init__(self, op: str | NameVar, *args: Operand) -> None:
        self.op, self.args = known_name(op, "op"), tuple(map(pattern, args))
        arity = op.arity if isinstance(op, NameVar) else OPS[op].arity
        if len(args) != arity if arity is not None else not args:
            raise RuleError(f"op {shown(op)} takes {arity} argument{'s' * (arity != 1)}, not {len(args)}", cure="count them")

    def parts(self) -> tuple[Any, ...]:
        return (self.op, *self.args)

    def egglog(self) -> str:
        return super().egglog().replace("(Map", f"(Map{len(self.args)}", 1)

    def as_position(self) -> Place:
        if not isinstance(self.op, str) or self.op not in POSITIONS:
            raise no_position(self)
        return POSITIONS[self.op](*map(position, self.args))


@dataclass(eq=False, repr=False)
class Const(Node):
    """A constant.  The engine's numbers have one zero: ``Const(-0.0)`` is ``-Const(0.0)``, and what is computed for a constant is 0.0."""

    number: Any

    def __new__(cls, x: Number | float) -> Any:
        zero = x.number if isinstance(x, NumberLiteral) else None if isinstance(x, Number) else literal(x)
        if zero == 0 and np.signbit(zero):
            return Map("neg", Const(0.0))
        return super().__new__(cls)

    def __post_init__(self) -> None:
        found, x = _number(self.number), self.number
        if found is None:
            cure = f"Extent({x.name}) is its length" if isinstance(x, AxisVar) else "a constant is a number, or a: Scalar for any number"
            raise RuleError(f"Const({shown(x)}): it is no number but {what(x)}", cure=cure)
        self.number = found

    def as_position(self) -> Place:
        if not isinstance(self.number, NumberLiteral) or not self.number.number.is_integer():
            raise no_position(self)
        return Whole(int(self.number.number))


@dataclass(eq=False, repr=False)
class Extent(Node):
    """The length of an axis."""

    axis: AxisVar

    def __post_init__(self) -> None:
        axis(self.axis)

    def as_position(self) -> Place:
        return Length(self.axis)


class Index(Extent):
    """The position along an axis."""

    def as_position(self) -> Place:
        return AlongAxis(self.axis)


@dataclass(eq=False, repr=False)
class Cast(Node):
    """A cast (:func:`eqfuse.ir.dtypes.cast`): to a floating type the identity over the reals, done in a bitwise world; to others always."""

    to: str | NameVar
    x: Any

    def __post_init__(self) -> None:
        self.to, self.x = known_name(self.to, "type"), pattern(self.x)

    def value(self, world: World) -> np.ndarray:
        return world.cast(DTYPES[name_of(self.to, world)], self.x.value(world))


@dataclass(eq=False, repr=False)
class View(Node):
    """``x`` with an axis read at a position: a variable, or computed (see :mod:`.positions`)."""

    x: Any
    axis: AxisVar
    at: Any  # in a finished rule always a variable

    def __post_init__(self) -> None:
        self.x, self.axis, self.at = pattern(self.x), axis(self.axis), position(self.at)

    def value(self, world: World) -> np.ndarray:
        if isinstance(self.x, Index) and self.x.axis.name == self.axis.name:
            return world.numbers(self.at.value(world))  # a position past the end is still a position
        return super().value(world)


@dataclass(eq=False, repr=False)
class Gather(Node):
    """``x`` with an axis read at values, 0 where they are no positions of it."""

    x: Any
    axis: AxisVar
    at: Any

    def __post_init__(self) -> None:
        self.x, self.axis, self.at = pattern(self.x), axis(self.axis), pattern(self.at)


class Folded(Node):
    """What a monoid, by name or as a variable, makes of the elements along an axis: of as many values as its state has parts."""

    def __init__(self, monoid: str | NameVar, along: AxisVar, x: Any, *more: Any) -> None:
        self.monoid, self.axis, self.args = known_name(monoid, "monoid"), axis(along), tuple(map(pattern, (x, *more)))
        self.x = self.args[0]

    def parts(self) -> tuple[Any, ...]:
        return (self.monoid, self.axis, *self.args)

    def egglog(self) -> str:
        text, count = super().egglog(), len(self.args)
        return text if count == 1 else text.replace(f"({type(self).__name__}", f"({type(self).__name__}{count}", 1)


class Reduce(Folded):
    """A reduction."""


class Scan(Folded):
    """The reductions of all prefixes along an axis."""


class Merge(Node):
    """A part of what two states are together: the parts of one, then those of the one behind it."""

    def __init__(self, monoid: str | NameVar, *both: Any) -> None:
        self.monoid, self.args = known_name(monoid, "monoid"), tuple(map(pattern, both))

    def parts(self) -> tuple[Any, ...]:
        return (self.monoid, *self.args)

    def egglog(self) -> str:
        return super().egglog().replace("(Merge", f"(Merge{len(self.args)}", 1)


@dataclass(eq=False, repr=False)
class Ref(Node):
    """The running value of reduction ``r``: a free parameter of a repair.  In a check: ``old`` is r, ``new`` any other value."""

    when: str
    axis: AxisVar
    r: Var

    def value(self, world: World) -> np.ndarray:
        when = "old" if world.looking_back else self.when
        r = self.r.value(world)
        if (known := world.refs.get((when, self.r.name))) is not None:
            return known if world.rational else np.where(np.isnan(r), r, known)  # what has seen a NaN stays one
        return r if when == "old" else r * world.number(1.25) + world.number(0.5)


class Acc(Node):
    """The state of the enclosing Roll."""

    def value(self, world: World) -> np.ndarray:
        assert world.acc is not None
        return world.acc


@dataclass(eq=False, repr=False)
class Pre(Node):
    """The accumulator of a sum over ``body`` in the same loop, before this step: the sum at the old reference."""

    axis: AxisVar
    body: Pattern

    def value(self, world: World) -> np.ndarray:
        return world.reduce("sum", self.axis.position(world), self.body.value(world.back()))


@dataclass(eq=False, repr=False)
class Roll(Node):
    """A reduction in one loop with the reductions that its body mentions; ``update`` moves the state to the new reference.

    Its check is its loop invariant: over any stretch of the axis, ``update[acc := reduce(body at old)] == reduce(body at new)``.
    """

    monoid: str | NameVar
    axis: AxisVar
    body: Pattern
    update: Pattern

    def state(self, body: np.ndarray, world: World) -> np.ndarray:
        """The state after this stretch when the body has these values."""
        return world.reduce(MONOIDS[name_of(self.monoid, world)].state, self.axis.position(world), body)


# linear forms: T(new) = sum_k c_k * b_k(old) ------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Along(Node):
    """``c * b(old)``: one term of a linear form; ``b`` is written in its new form."""

    c: Pattern
    b: Pattern
    sort = "L"

    def value(self, world: World) -> np.ndarray:
        return world.map("mul", self.c.value(world), self.b.value(world.back()))


@dataclass(eq=False, repr=False)
class LinearSum(Node):
    """The sum of two linear forms."""

    x: Pattern
    y: Pattern
    sort = "L"
    op = "add"

    def value(self, world: World) -> np.ndarray:
        return world.map(self.op, self.x.value(world), self.y.value(world))


class LinearProduct(LinearSum):
    """The product of two linear forms."""

    op = "mul"


@dataclass(eq=False, repr=False)
class Summed(Node):
    """A linear form summed over a prefix: its terms become accumulators.  ``own`` is the body whose accumulator is ``Acc``."""

    axis: AxisVar
    own: Pattern
    form: Pattern

    def value(self, world: World) -> np.ndarray:
        return world.reduce("sum", self.axis.position(world), self.form.value(world))


# sugar ---------------------------------------------------------------------------------------------------------------------------


def Sum(axis: AxisVar, x: Pattern) -> Pattern:
    """The sum over an axis."""
    return Reduce("sum", axis, x)


def Max(axis: AxisVar, x: Pattern) -> Pattern:
    """The maximum over an axis."""
    return Reduce("max", axis, x)


def Mean(axis: AxisVar, x: Pattern) -> Pattern:
    """The mean over an axis."""
    return Reduce("mean", axis, x)


def Where(c: Pattern, x: Pattern | float, y: Pattern | float) -> Pattern:
    """``x`` where ``c`` holds, else ``y``."""
    return Map("where", c, x, y)


def walk(p: Any) -> Iterator[Any]:
    """A pattern's nodes and variables, outside in."""
    yield p
    if isinstance(p, Pattern | Number | Place):
        for part in p.parts():
            yield from walk(part)


def variables(p: Any) -> dict[str, Any]:
    """The variables in a pattern, by name."""
    return {v.name: v for v in walk(p) if is_variable(v)}


def is_variable(v: Any) -> bool:
    """Whether it is a variable of a rule."""
    return isinstance(v, Var | AxisVar | NameVar | IndexVar | NumberVar)


def substitute(p: Any, names: Mapping[str, Any]) -> Any:
    """A pattern with some variables replaced."""
    if isinstance(p, Var | AxisVar | NameVar | IndexVar | NumberVar):
        return names.get(p.name, p)
    if isinstance(p, Pattern):
        return p.rebuild(tuple(substitute(x, names) for x in p.parts()))
    return p


def orders(p: Any) -> list[Any]:
    """Every way to write a pattern with the arguments of commutative ops exchanged."""
    if not isinstance(p, Pattern) or isinstance(p, Var):
        return [p]
    ways: list[tuple[Any, ...]] = [()]
    for part in p.parts():
        ways = [(*w, x) for w in ways for x in orders(part)]
    out = [p.rebuild(w) for w in ways]
    if isinstance(p, Map) and isinstance(p.op, str) and len(p.args) == 2 and OPS[p.op].commutative:
        same = p.args[0] is p.args[1]
        out += [] if same else [Map(p.op, *reversed(q.args)) for q in out if isinstance(q, Map)]
    return out


notation.KINDS.update({
    Pattern: "a value", Const: "a constant", Number: "a number of a constant", AxisVar: "an axis", Place: "a position", NameVar: "a name",
})  # fmt: skip
