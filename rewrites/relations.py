"""Relations: tables of rows about values, with what a row means, and the table of them.

A relation has a meaning, an equation between its columns: as a premise the check makes the equation true by defining one
column, as a conclusion the check tests it.  A relation says what its rows mean when it is declared, or that it is a *demand*, which
steers the search and claims nothing: there is no third kind, so no rule can conclude what nobody can test.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import RuleError
from ..errors import shown as described
from ..ir.monoids import MONOIDS
from ..ir.ops import OPS
from ..ir.ranges import ALL
from ..ir.signs import SIGN_TRAITS, sign_traits
from ..ir.states import NAMED, THREE, part_name
from . import patterns as P
from .comparisons import MODEST
from .facts import Fact
from .notation import shown, what
from .patterns import AxisVar, Pattern, Var
from .positions import Place
from .world import World

__all__ = [
    "associative", "idempotent", "increasing", "integer", "linear", "operand", "operands", "relation", "rounding", "selective", "turns",
    "turns_nonneg", "wide",
]  # fmt: skip


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
    """A named relation.  ``columns`` are engine sorts: ``T`` a value, ``L`` a linear form, ``P`` a layout, ``i64`` an axis or an index
    expression, ``String`` a name, ``f64`` a number.  ``doc`` says what a row means in words, ``meaning`` so that it can be tested.

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
        if sort in ("T", "P"):
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
SORTS = ("T", "L", "P", "i64", "f64", "String")


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
    """A value that is one of ``limits``, or NaN, wherever ``r`` is -inf and ``c`` holds, and anything elsewhere."""

    def __init__(self, x: Var, r: Var, c: Pattern, *limits: float) -> None:
        self.x, self.r, self.c, self.limits = x, r, c, limits

    def parts(self) -> tuple[Any, ...]:
        return (self.x, self.r, self.c)

    def where(self, world: World) -> np.ndarray:
        """Where the value is known."""
        return np.isneginf(np.asarray(self.r.value(world), float)) & (self.c.value(world) != 0)

    def admits(self, x: np.ndarray) -> np.ndarray:
        """Whether a value is what it may be there."""
        return np.isin(x, self.limits) | (x != x)

    def value(self, world: World) -> np.ndarray:
        anything = world.values[self.x.name if self.x.name in world.values else f"{self.x.name} elsewhere"]
        wrong = self.where(world) & ~self.admits(anything)
        return np.where(wrong, world.numbers(np.resize(self.limits, wrong.shape)), anything) if wrong.any() else anything


def _combined(op: Any, t: Any, x: Any, y: Any) -> tuple[Any, Any]:
    return t, P.Map(op, x, y)


def _turns(domains: tuple[str, ...]) -> Trait:
    def holds(o: str, source: str, target: str) -> bool:
        return o in OPS and (source, target) in OPS[o].turns and OPS[o].domain in domains

    return Trait(holds, sorts=("op",), names=lambda: ((o.name, *pair) for o in OPS.values() for pair in o.turns))


def _steps() -> list[tuple[str, str]]:
    """Monoids of scans whose identity is a number of what they combine: integers have no infinities."""
    rows = (m for m in MONOIDS.values() if m.prefixes is not None)
    return [(m.name, m.combine) for m in rows if not m.of_integers or math.isfinite(m.identity)]


def _states() -> list[str]:
    """Parts of states of several: of those with names, of one of three parts for checks, and of those that programs have brought."""
    known = [part_name(s, k) for s in NAMED.values() for k in range(len(s.formulas))]
    return [*dict.fromkeys([*known, *(f"{THREE}[{k}]" for k in range(3)), *MONOIDS.parts])]


def _all_parts(count: int) -> list[tuple[str, ...]]:
    """A part of each state of so many, and then all of its parts."""
    found = ((name, MONOIDS[name].several) for name in _states())
    return [(name, *(part_name(s, k) for k in range(count))) for name, s in found if s is not None and len(s.formulas) == count]


def _has_theorem(o: str, *parts: str) -> bool:
    return o in OPS and (theorem := OPS[o].addition) is not None and theorem[:4] == parts


def _sign_of_theorem(o: str) -> float:
    theorem = OPS[o].addition
    assert theorem is not None
    return theorem[4]


def _trait(sort: str, name: str, doc: str, test: Callable[[Any], bool], number: Callable[[Any], float] | None = None) -> Relation:
    """A property of an op, a monoid or a type, from its row; ``number`` is what the row says with it."""
    known = P.SORTS[sort][1]
    meaning = Trait(lambda n: n in known and test(known[n]), number and (lambda n: number(known[n])), (sort,))
    return _relation(name, "String f64" if number else "String", f"trait: {doc}", meaning)


def _signed(trait: str) -> Relation:
    return _trait("op", trait, SIGN_TRAITS[trait], lambda o: trait in sign_traits(o))


def _folding(trait: str) -> Relation:
    """A reduction of at least one element is what its op makes of them, one by one.  Sums of integers may wrap."""
    doc = f"a monoid of real numbers that combines by {SIGN_TRAITS[trait]}"
    return _trait("monoid", f"fold-{trait}", doc, lambda m: (m.linear or m.idempotent) and trait in sign_traits(OPS[m.combine]))


def _separable(f: np.ndarray, x: np.ndarray) -> np.ndarray:
    return ~(np.abs(f) > np.maximum(np.abs(f + x), MODEST))


def _onehot(c: np.ndarray, j: int) -> np.ndarray:
    return np.count_nonzero(c, axis=j, keepdims=True) <= 1


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
associative = _trait("op", "associative", "an op whose operands may be written in any order", lambda o: o.associative and o.commutative)
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
prime = _relation("prime", "T i64", "demand: t has a form, which is no product of others")
bends = _relation("bends", "T i64", "demand: t has a form")
wants_body = _relation("wants-body", "T i64", "demand: somebody reads the sum over t in this loop, at the old references")
joint = _relation("joint", "T i64", "demand: r is a reference, but no reduction: it stands for several, or for weights")
together = _relation("together", "T T", "demand: something moves with both references")
horizon = _relation("horizon", "T i64", "demand: r is a reference, -inf where a loop over the axis has seen nothing of it")
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
lost_where = _relation(
    "lost-where", "T T", "x r: x is infinite (or NaN) wherever r is -inf",
    Equation(lambda x, r: (x, Vanishing(x, r, P.Const(1.0), np.inf, -np.inf))),
)  # fmt: skip
kept_where = _relation(
    "kept-where", "T T", "x r: x is 0 or infinite (or NaN) wherever r is -inf, so that a sum of it is the same at every reference",
    Equation(lambda x, r: (x, Vanishing(x, r, P.Const(1.0), 0.0, np.inf, -np.inf))),
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
increasing = _trait("op", "increasing", "a non-decreasing op", lambda o: o.increasing)
monotone = _trait(
    "op", "monotone", "a non-decreasing op of one argument, on all numbers", lambda o: o.increasing and o.arity == 1 and o.domain == "real"
)
saturating = _trait(
    "op", "saturating", "an op of one argument whose magnitude never exceeds a number",
    lambda o: o.arity == 1 and o.result != "bool" and o.range(ALL).finite, lambda o: o.range(ALL).magnitude,
)  # fmt: skip
turns = _relation("turns", "String String String", "trait: op turns one operation into another, everywhere", _turns(("real", "nonzero")))
turns_nonneg = _relation(
    "turns-nonneg", "String String String", "trait: op turns one operation into another where all is >= 0", _turns(("nonneg", "positive"))
)
adds = _relation(
    "adds", "String String String String String f64", "trait: o g h k l a: o(x + y) = g(x) h(y) + a k(x) l(y)",
    Trait(_has_theorem, _sign_of_theorem, ("op",), lambda: ((o.name, *o.addition[:4]) for o in OPS.values() if o.addition)),
)  # fmt: skip
linear = _trait("monoid", "linear", "the monoid commutes with scaling", lambda m: m.linear)
idempotent = _trait("monoid", "idempotent", "a monoid with x + x = x", lambda m: m.idempotent)
selective = _trait(
    "monoid", "selective", "a monoid that picks one of its elements, with its identity", lambda m: m.idempotent, lambda m: m.identity
)  # fmt: skip
steps = _relation(
    "steps", "String String f64", "trait: a monoid of scans, the op that combines two states, and what changes none",
    Trait(
        lambda g, o: (g, o) in _steps(), lambda g: MONOIDS[g].identity, ("monoid", "op"), lambda: _steps(),
    ),
)  # fmt: skip
pair = _relation(
    "parts-of-pair", "String String String", "trait: a part of a state of two, and both",
    Trait(lambda *row: row in _all_parts(2), sorts=("monoid", "monoid", "monoid"), names=lambda: _all_parts(2)),
)  # fmt: skip
triple = _relation(
    "parts-of-triple", "String String String String", "trait: a part of a state of three, and all of them",
    Trait(lambda *row: row in _all_parts(3), sorts=("monoid",) * 4, names=lambda: _all_parts(3)),
)  # fmt: skip
neutral = _relation(
    "neutral", "String f64", "trait: a part of a state of several, and what changes nothing behind it",
    Trait(
        lambda g: MONOIDS[g].identity == MONOIDS[g].identity, lambda g: MONOIDS[g].identity, ("monoid",),
        lambda: [(name,) for name in _states()],
    ),
)  # fmt: skip
rounding = _trait("type", "rounding", "a floating type, to which a cast rounds", lambda d: d.is_float)
wide = _trait("type", "wide", "a floating type that overflows and vanishes no earlier than float32", lambda d: d.is_wide)
integer = _trait("type", "integer", "a type of whole numbers; not bool", lambda d: d.kind == "int")
unsigned = _trait("type", "unsigned", "a type without negative numbers", lambda d: d.unsigned)
keeps_sign = _trait("type", "keeps-sign", "a type that wraps nothing", lambda d: d.is_float or d.kind == "bool")
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
parts_before = _relation(
    "parts-before", "i64 i64 i64 i64 i64 i64 i64 i64",
    "axis j, its outer part J and inner part I, of which the last may be shorter; another axis E for the parts before one, of the length "
    "of J; the positions J * size(I) + I, E, j // size(I) and j % size(I)", given=True,
)  # fmt: skip
same_index = _relation("same-index", "i64 i64", "the index expression is the axis itself", given=True)
