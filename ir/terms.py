"""The term language, on one screen.

A term is a function of named axes.  Broadcasting is by name, a transpose costs nothing, a contraction is a sum of products.

- leaves:      ``Input(name, axes, dtype)``  ``Const(value)``  ``Index(axis)``  ``Extent(axis)``
- pointwise:   ``Map(op, args)`` over the scalar ops of :mod:`.ops`
- reductions:  ``Reduce(monoid, axis, x)``; ``Reduce("sum", k, a * b)`` is the matrix product and nothing else is
- scans:       ``Scan(monoid, axis, x)``: at each position the reduction of the elements up to it
- access:      ``View(x, axis, index)``: x with ``axis`` read at an index expression over other axes
               ``Gather(x, axis, at)``: x with ``axis`` read where another term says, and 0 where that is no position of the axis
- types:       ``Cast(dtype, x)``: round to a type and go on in that type

Terms are frozen and hash-consed (equal terms are one object), and print as Python that rebuilds them: ``eval(repr(t)) is t``.
"""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar, TypeVar
from weakref import WeakValueDictionary

from ..errors import UnsupportedOpError
from . import dtypes, nodes, ops
from .dtypes import DType, Numbers
from .index import Axis, IndexExpr, index
from .monoids import MONOIDS
from .recursion import arguments_first

Number = int | float
LONG = 60  # terms that print as one expression; Python's parser takes two hundred parentheses inside each other
T = TypeVar("T")


class _FromArguments(cached_property[T]):
    """A property that a term computes from those of its arguments: theirs come first, so that depth is no limit."""

    def __get__(self, term: Any, owner: Any = None) -> Any:
        name = self.attrname
        if term is not None and any(name not in a.__dict__ for a in term.args):
            for t in arguments_first(term.args, lambda t: t.args, lambda t: name in t.__dict__):
                getattr(t, name)  # type: ignore[arg-type]
        return super().__get__(term, owner)


def _part(k: int) -> Any:
    """A part of what a term is made of."""
    return property(lambda t: t.key[k])


class Term:
    """Base class; ``axes`` are the named axes that the value depends on, ``dtype`` the type torch would give it."""

    __slots__ = ("__dict__", "__weakref__", "key")
    _interned: ClassVar[WeakValueDictionary[tuple[Any, ...], Term]] = WeakValueDictionary()
    key: tuple[Any, ...]

    def __new__(cls, *key: Any) -> Any:
        full = (cls, *key)
        found = Term._interned.get(full)
        if found is None:
            found = object.__new__(cls)
            object.__setattr__(found, "key", key)
            Term._interned[full] = found
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("terms are frozen")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.key

    @property
    def kind(self) -> str:
        """Which of the language's nodes it is (:mod:`.nodes`)."""
        return type(self).__name__.lower()

    @property
    def parts(self) -> tuple[Any, ...]:
        """Attributes and arguments in the order in which they are written."""
        return self.key

    @cached_property
    def attrs(self) -> tuple[Any, ...]:
        """What it is of besides terms."""
        return tuple(p for p in self.parts if not isinstance(p, Term))

    @cached_property
    def args(self) -> tuple[Term, ...]:
        """The terms directly below."""
        return tuple(p for p in self.parts if isinstance(p, Term))

    @_FromArguments
    def axes(self) -> frozenset[Axis]:
        """The axes the value depends on."""
        return nodes.axes(self.kind, self.attrs, [a.axes for a in self.args])

    @_FromArguments
    def dtype(self) -> DType | None:
        """The element type; ``None`` for a weakly typed constant."""
        fraction = [isinstance(a, Const) and a.fraction for a in self.args]
        return nodes.dtype(self.kind, self.attrs, [a.dtype for a in self.args], fraction)

    @_FromArguments
    def held(self) -> Numbers:
        """The numbers that it is surely one of, where the program computes it in its type (:func:`.nodes.held`)."""
        return nodes.held(self.kind, self.attrs, self.dtype or dtypes.float32, [a.held for a in self.args])

    def over(self, args: Iterable[Term], attribute: Callable[[Any], Any] = lambda x: x) -> Any:
        """The same operation on other arguments; with attributes changed, if so is said."""
        rest = iter(args)
        return self._made(*(next(rest) if isinstance(p, Term) else attribute(p) for p in self.parts))

    @classmethod
    def _made(cls, *parts: Any) -> Any:
        return cls(*parts)

    def __copy__(self) -> Term:
        return self

    def __deepcopy__(self, memo: Any) -> Term:
        return self  # frozen, and the only one of its kind

    def __repr__(self) -> str:
        terms = postorder(self)
        size: dict[Term, int] = {}  # with what is shared as often as it is used
        for t in terms:
            size[t] = 1 + sum(size[a] for a in t.args)
        if size[self] <= LONG:
            return f"{type(self).__name__}({_spelled(self.key, {})})"
        names: dict[Term, str] = {}
        lines: list[str] = []
        for t in terms:
            text = f"{type(t).__name__}({_spelled(t.key, names)})" if t.args else repr(t)
            names[t] = f"t{len(lines)}" if t.args else text
            lines += [f"{names[t]} := {text}"] if t.args else []
        return f"[{', '.join(lines)}][-1]"

    # arithmetic sugar: sub and div are spelled with neg and recip, so that rules see one form --------------------------------
    def __add__(self, o: Term | Number) -> Term:
        return Map("add", (self, as_term(o)))

    def __radd__(self, o: Number) -> Term:
        return as_term(o) + self

    def __mul__(self, o: Term | Number) -> Term:
        return Map("mul", (self, as_term(o)))

    def __rmul__(self, o: Number) -> Term:
        return as_term(o) * self

    def __neg__(self) -> Term:
        return Map("neg", (self,))

    def __sub__(self, o: Term | Number) -> Term:
        if not isinstance(o, int | float):
            return self + -o
        if o == 0 and (self.dtype is None or self.dtype.is_float):
            return self + Const(-float(o))  # x - 0 is x + (-0), for the int 0 as well: -0 + 0 would be 0
        return self + Const(-o)

    def __rsub__(self, o: Number) -> Term:
        return as_term(o) + -self

    def __truediv__(self, o: Term | Number) -> Term:
        return self * (Map("recip", (o,)) if isinstance(o, Term) else Const(1.0 / o))

    def __rtruediv__(self, o: Number) -> Term:
        r = Map("recip", (self,))
        return r if o == 1 else as_term(o) * r


class Input(Term):
    """A tensor argument.  ``layout`` names its dimensions in order; an entry is an Axis or ``None`` for a dimension of size 1."""

    name: str = _part(0)  # the argument's name
    layout: tuple[Axis | None, ...] = _part(1)  # its dimensions, outermost first

    def __new__(cls, name: str, layout: tuple[Axis | None, ...], dtype: DType) -> Input:
        return super().__new__(cls, name, tuple(layout), dtype)

    @cached_property
    def attrs(self) -> tuple[Any, ...]:
        return self.key[:1]

    @cached_property
    def axes(self) -> frozenset[Axis]:
        return frozenset(a for a in self.layout if a is not None)

    @cached_property
    def dtype(self) -> DType:
        return self.key[2]

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(1 if a is None else a.size for a in self.layout)

    def __repr__(self) -> str:
        return f"Input({self.name!r}, {self.layout!r}, {self.dtype!r})"


class Const(Term):
    """A number; weakly typed, like a Python number in torch.

    ``Const(-0.0)`` is ``-Const(0.0)``: equality of numbers, by which terms and the classes of the e-graph are told apart, knows one zero
    only.  Raises UnsupportedOpError for an integer that float64, in which constants are kept, does not represent.
    """

    value: float = _part(0)  # the number

    def __new__(cls, value: float) -> Any:
        number = exact_float(value)
        if number == 0 and math.copysign(1.0, number) < 0:
            return Map("neg", (Const(0.0),))
        return super().__new__(cls, number if number == number else math.nan)  # one NaN, since a NaN equals only the same object

    @property
    def fraction(self) -> bool:
        """No whole number: whole numbers become floats beside it."""
        return not float(self.value).is_integer()

    def __repr__(self) -> str:
        v = self.value
        return f"Const({v!r})" if v == v and abs(v) != float("inf") else f"Const(float({str(v)!r}))"


class Index(Term):
    """The position along an axis: 0, 1, 2, ..."""

    axis: Axis = _part(0)  # the axis

    def __new__(cls, axis: Axis) -> Index:
        return super().__new__(cls, axis)


class Extent(Term):
    """The length of an axis, known when the kernel runs."""

    axis: Axis = _part(0)  # the axis

    def __new__(cls, axis: Axis) -> Extent:
        return super().__new__(cls, axis)


class Map(Term):
    """A scalar op applied element by element; arguments broadcast by axis name."""

    op: str = _part(0)  # the op's name

    def __new__(cls, op: str, args: tuple[Term, ...]) -> Map:
        if op not in ops.OPS:
            raise _unknown("op", op, ops.OPS)
        if len(args) != ops.OPS[op].arity:
            takes = f"{ops.OPS[op].arity} argument" + "s" * (ops.OPS[op].arity != 1)
            raise UnsupportedOpError(f"{op} takes {takes}, {len(args)} given", cure=f"pass a tuple of {takes}")
        return super().__new__(cls, op, tuple(args))

    @property
    def parts(self) -> tuple[Any, ...]:
        return (self.key[0], *self.key[1])

    @classmethod
    def _made(cls, *parts: Any) -> Map:
        return cls(parts[0], parts[1:])


class Reduce(Term):
    """A monoid reduction over one axis.  If ``x`` does not depend on the axis it is the same value, ``axis.size`` times.

    A sum, maximum or minimum of integers is ``isum``, ``imax`` or ``imin``, which are exact; of anything else it is not.  A monoid whose
    state has several parts takes a value for each, and the reduction is one of them (:mod:`.states`).
    """

    monoid: str = _part(0)  # the monoid's name
    axis: Axis = _part(1)  # the axis that disappears

    def __new__(cls, monoid: str, axis: Axis, *x: Term) -> Reduce:
        return super().__new__(cls, _monoid_of(monoid, *x), axis, *x)


class Scan(Term):
    """The inclusive prefix reduction along an axis, which stays: at each position what the monoid makes of the elements up to it.

    From the end, ``x`` is read backwards and so is the result; without the element itself, the result is read one position before.
    Raises UnsupportedOpError for a monoid whose state is none of its values, as that of ``mean``.
    """

    monoid: str = _part(0)  # the monoid's name
    axis: Axis = _part(1)  # the axis along which it runs

    def __new__(cls, monoid: str, axis: Axis, *x: Term) -> Scan:
        monoid = _monoid_of(monoid, *x)
        if MONOIDS[monoid].prefixes is None:
            cure = "scan by another monoid, or say in ir/monoids.py what they are"
            raise UnsupportedOpError(f"{monoid} has no prefixes", cure=cure)
        return super().__new__(cls, monoid, axis, *x)


class View(Term):
    """``x`` with ``axis`` replaced by an index expression over other axes: slice, flip, stride, split, merge, diagonal."""

    axis: Axis = _part(1)  # the axis of ``x`` that is re-indexed
    index: IndexExpr = _part(2)  # where it is read

    def __new__(cls, x: Term, axis: Axis, at: IndexExpr | Axis | int) -> View:
        return super().__new__(cls, x, axis, index(at))


class Gather(Term):
    """``x`` with ``axis`` read where data say: the element of ``x`` at the position ``at``, and 0 where ``at`` is none of the axis.

    It is ``Reduce("sum", axis, where(Index(axis) == at, x, 0))`` for a term ``at`` that does not depend on the axis, and reads one element.
    """

    axis: Axis = _part(1)  # the axis of ``x`` that is read at data

    def __new__(cls, x: Term, axis: Axis, at: Term) -> Gather:
        return super().__new__(cls, x, axis, at)


class Cast(Term):
    """``x`` rounded to ``to``.  A cast that the user wrote; the rounding that torch does between ops is not in the terms."""

    to: DType = _part(0)  # the type rounded to

    def __new__(cls, to: DType, x: Term) -> Cast:
        return super().__new__(cls, to, x)


def selected(t: Gather) -> Term:
    """A gather as the sum that selects its element."""
    x, at = t.args
    return Reduce("sum", t.axis, Map("where", (Map("eq", (Index(t.axis), at)), x, Const(0.0))))


def exact_float(value: float) -> float:
    """A number as a float64; UnsupportedOpError for an integer that is none: rounded in silence it would be another number."""
    try:
        whole = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return float(value)
    try:
        if int(float(whole)) == whole:
            return float(whole)
    except OverflowError:
        pass
    raise UnsupportedOpError(
        f"the constant {whole} is no float64, in which constants are kept",
        cure=f"pass it as an integer tensor, or as float({whole}) where the values beside it are floats",
    )


def whole_number(value: Any) -> Any:
    """An integer that float64 does not have as a term with all its digits; anything else as it is.

    Its upper and lower halves meet in integer arithmetic: the cast keeps constants from being folded in float64.
    """
    if isinstance(value, bool) or not isinstance(value, int) or int(float(value)) == value or not -(2**63) <= value < 2**63:
        return value
    high, low = value >> 32, value & 0xFFFFFFFF
    return Cast(dtypes.int64, Const(high)) * Const(2.0**32) + Const(low)


def number_of(t: Term) -> float | None:
    """The value of a number, -0.0 included; ``None`` for other terms."""
    if isinstance(t, Const):
        return t.value
    return -0.0 if isinstance(t, Map) and t is Const(-0.0) else None


def as_read(t: Term) -> Term:
    """The value of an operand, without what lets a matrix unit read fewer digits of it."""
    while isinstance(t, Map) and ops.OPS[t.op].holds is not None:
        (t,) = t.args
    return t


def _monoid_of(name: str, x: Term, *more: Term) -> str:
    """The monoid of a name for values like ``x``: that of integers for integers."""
    if name not in MONOIDS:
        raise _unknown("monoid", name, MONOIDS)
    if (parts := MONOIDS[name].parts) != 1 + len(more):
        cure = f"pass {parts} value{'s' * (parts > 1)}, one for each part of its state"
        raise UnsupportedOpError(f"monoid {name} reduces {parts} at a time, {1 + len(more)} given", cure=cure)
    whole = x.dtype is not None and x.dtype.kind == "int"
    return next((m.integer if whole else m.name for m in MONOIDS.values() if m.integer and name in (m.name, m.integer)), name)


def _unknown(kind: str, name: object, known: Iterable[str]) -> UnsupportedOpError:
    close = difflib.get_close_matches(str(name), list(known), n=3)
    return UnsupportedOpError(
        f"no {kind} is called {name!r}", cure=f"{' or '.join(map(repr, close))}" if close else f"one of {', '.join(known)}"
    )


def as_term(value: Term | Number) -> Term:
    """A term from a term or a number."""
    return value if isinstance(value, Term) else Const(value)


def postorder(*roots: Term) -> list[Term]:
    """Every term below the roots, arguments before users, each once."""
    return arguments_first(roots, lambda t: t.args)


def _spelled(parts: tuple[Any, ...], names: Mapping[Term, str]) -> str:
    """Parts of a key with commas between them; terms by their names, if they have one."""
    out = []
    for x in parts:
        if isinstance(x, tuple) and any(isinstance(t, Term) for t in x):
            out.append(f"({_spelled(x, names)}{',' * (len(x) == 1)})")
        else:
            out.append(names[x] if isinstance(x, Term) and x in names else repr(x))
    return ", ".join(out)
