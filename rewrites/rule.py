"""How a rule is written.

An equation returns its two sides, then its conditions::

    @rule
    def factor_out_of_sum(x, c, k: Axis):
        \"\"\"sum_k x*c = c * sum_k x, for c constant along k.\"\"\"
        return Sum(k, x * c), c * Sum(k, x), free(c, k), NonEmpty(k)

A fact rule returns what it needs and what follows, as two lists of facts (see :mod:`.facts`)::

    @fact_rule(family="repair", licence="real")
    def shift_through_sum(...):
        return [changes_by_term(kind, j, x, r, xn, d), match(t, x + b)], [changes_by_term(kind, j, t, r, xn + b, d)]

Parameters are pattern variables; their annotation says of what sort.  Nothing is matched that is not written in the function: that
an op or a monoid has a property is a premise (``linear(g)``), whatever the annotation is called.  A parameter with a choice (``Each``,
``Arguments``, ``EitherWay``) is no variable: the function is called with each of its values, and the rule is all that it says then.

A rule is refused when it is made if its check could not test it: each conclusion must be an equation, a condition, a row of a
relation with a meaning, or a demand.  A rule that is registered from outside the package is run on random arrays then and there; the rules
of the package are run by its tests.
"""

from __future__ import annotations

import difflib
import inspect
import itertools
import keyword
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import RuleError
from ..ir.dtypes import DTYPES
from ..ir.monoids import MONOIDS
from ..ir.ops import OPS
from ..ir.states import MOST_PARTS, NAMED, THREE, part_name
from . import comparisons, facts, iters, relations, verdicts
from . import patterns as P
from .comparisons import Compare, OneOf
from .facts import (
    Condition,
    Depends,
    Equal,
    Fact,
    FiniteOr,
    IndexFree,
    Match,
    Moderate,
    NonEmpty,
    OtherAxis,
    Placed,
    Search,
    Spans,
    Within,
)
from .notation import Notation, applied, shown, what
from .patterns import (
    AxisVar,
    Cast,
    Gather,
    LinearVar,
    Map,
    Merge,
    NameVar,
    NumberVar,
    Pre,
    Reduce,
    Ref,
    Roll,
    Scan,
    Var,
    View,
)
from .positions import AlongAxis, IndexVar, Place
from .relations import RELATIONS, Row

__all__ = [
    "AnyMonoid", "AnyOp", "Arguments", "Axis", "Each", "EitherWay", "IdempotentMonoid", "LinearMonoid", "Op1", "Op2", "Op3", "PairMonoid",
    "Position", "Rule", "Scalar", "SelectiveMonoid", "TripleMonoid", "Turns", "TwoStates", "TypeName",
]  # fmt: skip

ORDER = "order"  # the phase of the rules that change the order of a program
ITERS = "iters"  # the phase of the rules on layouts, which a saturation of a program has no use for
LICENCES = ("exact", "real", "approx")
DISABLED: set[str] = set()  # the names of the rules that saturations leave out
PHASES = ("analysis", "factor", "invariance", "repair", "roll", "tiling", "layout", "strength", "fusion", ORDER, ITERS)


# Facts that rules ask for and cannot conclude: they steer, they speak of sizes, or they are taken on trust.
PREMISES = (Search, OtherAxis, NonEmpty, Compare, OneOf, IndexFree, Depends, FiniteOr, Moderate)

# Premises that only test what other premises match: they bind nothing.
TESTS = (Search, OtherAxis, Compare, OneOf, FiniteOr, Moderate)


class Axis:
    """Annotation: an axis variable."""


class Scalar:
    """Annotation: the number in a constant."""


class Position:
    """Annotation: an index expression."""


class Kind:
    """Annotation: the kind of a repair, ``run`` or ``loc``."""


class Form:
    """Annotation: a linear form."""


class AnyMonoid:
    """Annotation: any monoid."""


class PairMonoid:
    """Annotation: a part of a state of two parts."""


class TripleMonoid:
    """Annotation: a part of a state of three parts."""


class LinearMonoid:
    """Annotation: a monoid that commutes with scaling (add the fact ``linear(g)``)."""


class IdempotentMonoid:
    """Annotation: a monoid with x + x = x (add the fact ``idempotent(g)``)."""


class SelectiveMonoid:
    """Annotation: a monoid that picks one of its elements (add the fact ``selective(g, e)``)."""


class AnyOp:
    """Annotation: any op."""


class Op1:
    """Annotation: any op of one argument."""


class Op2:
    """Annotation: any op of two arguments."""


class Op3:
    """Annotation: any op of three arguments."""


class TypeName:
    """Annotation: an element type."""


class Each:
    """Annotation: ``s: Each[nonneg, positive]`` is one of these; the rule is said of each."""

    def __init__(self, *choices: Any) -> None:
        self.choices = choices

    def __class_getitem__(cls, choices: Any) -> Each:
        return cls(*choices) if isinstance(choices, tuple) else cls(choices)

    def of(self, name: str) -> tuple[Any, ...]:
        """What a parameter of this name may be."""
        return self.choices


class _Arguments(Each):
    def of(self, name: str) -> tuple[Any, ...]:
        return tuple(tuple(Var(f"{name}{k + 1}") for k in range(arity)) for arity in sorted({o.arity for o in OPS.values()}))


class _TwoStates(Each):
    def of(self, name: str) -> tuple[Any, ...]:
        return tuple(tuple(Var(f"{name}{k + 1}") for k in range(2 * parts)) for parts in range(2, MOST_PARTS + 1))


Arguments = _Arguments()  # annotation: the arguments of an op or a monoid, as many as it takes: Map(o, *x), Reduce(g, k, *x)
TwoStates = _TwoStates()  # annotation: the parts of two states of several parts: Merge(g, *x)
EitherWay = Each(lambda x, y: (x, y), lambda x, y: (y, x))  # annotation: two arguments in either order: Map(o, *both(x, y))


class Turns:
    """Annotation: ``Turns["add", "mul"]`` is an op with that homomorphism on all reals, ``Turns["mul", "mul", "nonneg"]`` one that
    has it at least on non-negative numbers."""

    def __init__(self, source: str, target: str, where: str) -> None:
        self.source, self.target, self.where = source, target, where

    def __class_getitem__(cls, key: tuple[str, ...]) -> Turns:
        cure = 'Turns["add", "mul"] turns sums into products; Turns["mul", "mul", "nonneg"] need do so of no negative numbers'
        if not isinstance(key, tuple) or not 2 <= len(key) <= 3 or key[2:] not in ((), ("real",), ("nonneg",)):
            raise RuleError(f"Turns[{', '.join(map(shown, key if isinstance(key, tuple) else (key,)))}]: no such trait", cure=cure)
        P.known_name(key[0], "op")
        P.known_name(key[1], "op")
        return cls(key[0], key[1], key[2] if len(key) > 2 else "real")

    def names(self) -> tuple[str, ...]:
        """The ops that have the trait, as the table stands now."""
        domains = ("real", "nonzero") if self.where == "real" else ("nonneg", "positive")
        return tuple(o.name for o in OPS.values() if (self.source, self.target) in o.turns and o.domain in domains)


def _ops(arity: int) -> Callable[[], tuple[str, ...]]:
    return lambda: tuple(o.name for o in OPS.values() if o.arity == arity)


def several(parts: int) -> tuple[str, ...]:
    """Parts of states of so many, which a check may draw."""
    known = (s for s in NAMED.values() if len(s.formulas) == parts)
    return tuple(part_name(s, k) for s in known for k in range(parts)) or tuple(f"{THREE}[{k}]" for k in range(parts))


def _monoids(test: Callable[[Any], bool]) -> Callable[[], tuple[str, ...]]:
    return lambda: tuple(m.name for m in MONOIDS.values() if test(m))


_NAMES: dict[Any, tuple[str, int | None, Callable[[], tuple[str, ...]]]] = {  # sort, arity, what a check may draw
    Kind: ("kind", None, lambda: ("run", "loc")),
    AnyMonoid: ("monoid", None, _monoids(lambda m: True)),
    PairMonoid: ("monoid", None, lambda: several(2)),
    TripleMonoid: ("monoid", None, lambda: several(3)),
    LinearMonoid: ("monoid", None, _monoids(lambda m: m.linear)),
    IdempotentMonoid: ("monoid", None, _monoids(lambda m: m.idempotent)),
    SelectiveMonoid: ("monoid", None, _monoids(lambda m: m.idempotent)),
    AnyOp: ("op", None, lambda: tuple(OPS)),
    Op1: ("op", 1, _ops(1)),
    Op2: ("op", 2, _ops(2)),
    Op3: ("op", 3, _ops(3)),
    TypeName: ("type", None, lambda: tuple(DTYPES)),
}


_ANNOTATIONS = (
    "Axis", "Scalar", "Position", "Form", "Turns[...]", "Each[...]", "Arguments", "EitherWay", "TwoStates", *(a.__name__ for a in _NAMES),
)  # fmt: skip
_ANNOTATED = f"values have no annotation; others have a class of eqfuse.rewrites: {', '.join(_ANNOTATIONS)}"


def _variable(name: str, annotation: Any, scope: dict[str, Any]) -> Any:
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, scope)
        except Exception as error:
            raise RuleError(f"parameter {name}: its annotation {annotation!r} has no value: {error}", cure=_ANNOTATED) from error
    if annotation is inspect.Parameter.empty:
        return Var(name)
    if annotation is Axis:
        return AxisVar(name)
    if annotation is Scalar:
        return NumberVar(name)
    if annotation is Position:
        return IndexVar(name)
    if annotation is Form:
        return LinearVar(name)
    if annotation is iters.Places:
        return iters.LayoutVar(name)
    if annotation is iters.Hardware:
        return NameVar(name, lambda: iters.AXES, "hardware")
    if isinstance(annotation, Turns):
        return NameVar(name, annotation.names)
    if isinstance(annotation, Each):
        return annotation
    try:
        sort, arity, choices = _NAMES[annotation]
    except (KeyError, TypeError):
        raise RuleError(f"parameter {name} has an unknown annotation, {shown(annotation)}", cure=_ANNOTATED) from None
    return NameVar(name, choices, sort, arity)


@dataclass(frozen=True, eq=False)
class Rule:
    """A registered rule.  ``licence`` is the equality it claims: ``exact`` (bitwise), ``real`` (over the reals) or ``approx``.

    Where a parameter has a choice, ``needs`` and ``gives`` are what the function says for the first one, and ``others`` the rules that it
    makes for the others: what reads a rule reads all its ``instances``.
    """

    name: str
    family: str
    licence: str
    phase: str
    doc: str
    file: str
    line: int
    variables: tuple[Any, ...]
    needs: tuple[Fact, ...]
    gives: tuple[Fact, ...]
    mirrored: bool = True
    provenance: bool = True
    builtin: bool = False
    others: tuple[Rule, ...] = ()

    @property
    def instances(self) -> tuple[Rule, ...]:
        """The rule for each choice that its parameters have."""
        return (self, *self.others)

    @property
    def ruleset(self) -> str:
        """The engine's, which it has for itself."""
        return f"in-{self.name}"

    @property
    def where(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"

    @property
    def enabled(self) -> bool:
        """Whether saturations may use it (see ``eqfuse.disable``)."""
        return self.name not in DISABLED

    def __repr__(self) -> str:
        return f"rule({self.name!r}{'' if self.enabled else ', disabled'})"

    def egglog(self, claims: bool = False) -> str:
        """The text that the engine reads: one engine rule for every order of the arguments of commutative ops.

        ``claims``: every fact that it concludes gets a row that names the rule, as nodes and unions do anyway, and it can be run
        as the ruleset ``only-<name>``.  An audit that has found something needs that; otherwise it costs time.
        """
        texts = list(dict.fromkeys(text for r in self.instances for text in r._texts(claims)))
        rulesets = [(self.ruleset, self.name)] + [(f"only-{self.name}", f"only-{self.name}")] * claims
        lines = [line for p in self.places for line in p.tables()] + [f"(ruleset only-{self.name})"] * claims
        for one, p in [(r, p) for r in self.instances for p in r._places()]:
            asking = dict.fromkeys(" ".join(f.egglog(f"_{k}") for k, f in enumerate(way)) for way in one._ways(_before(p, one.needs)))
            lines += [f'(rule ({need}) ({p.question()}) :ruleset {self.ruleset} :name "@{p.table}~{k}")' for k, need in enumerate(asking)]
        lines += [
            f'(rule ({need}) ({give}) :ruleset {ruleset} :name "{name}{"" if k == 0 else f"~{k}"}")'
            for ruleset, name in rulesets
            for k, (need, give) in enumerate(texts)
        ]
        return "\n".join(lines)

    @property
    def asks(self) -> tuple[str, ...]:
        """The demands for what its premises ask for: of relations that are answered on demand, unless it is one of the answers."""
        asking = [r for r in self.instances if not any(isinstance(f, Row) and f.relation.asks for f in r.gives)]
        asked = [f for r in asking for f in r.needs if isinstance(f, Row) and f.relation.asks]
        return tuple(f'({f.relation.asks} "{name}")' for f in asked for name in _names_of(f.args[0]))

    @cached_property
    def places(self) -> tuple[Placed, ...]:
        """The positions that it computes."""
        return tuple(p for r in self.instances for p in r._places())

    def _places(self) -> tuple[Placed, ...]:
        return tuple(f for f in self.needs if isinstance(f, Placed))

    @cached_property
    def sized(self) -> bool:
        """Whether what it does depends on the lengths of axes: it asks for them, or for positions that stay inside of an axis."""
        compared = [a for r in self.instances for f in r.needs if isinstance(f, Compare) for a in f.args]
        return any(isinstance(n, P.LengthNumber) for a in compared for n in P.walk(a)) or any(p.guarded for p in self.places)

    def _ways(self, facts: Iterable[Fact]) -> list[tuple[Fact, ...]]:
        """Premises in every form, as the arguments of commutative ops in either order."""
        ways: list[tuple[Fact, ...]] = [()]
        for fact in facts:
            ways = [(*w, f) for w in ways for f in fact.forms(self.mirrored)]
        return ways

    def _texts(self, claims: bool) -> Iterator[tuple[str, str]]:
        for way in self._ways(self.needs):
            need = " ".join([f.egglog(f"_{k}") for k, f in enumerate(way)] + [f.asks() for f in self.gives if isinstance(f, Spans)])
            yield need, " ".join(self._action(f, claims) for f in self.gives)

    def _action(self, fact: Fact, claims: bool) -> str:
        """The engine's actions for a conclusion, with one provenance row for every node that it may create."""
        rows = ""
        if self.provenance:
            nodes = dict.fromkeys(why for part in fact.parts() for node in P.walk(part) if (why := self._why(node)))
            rows = "".join(" " + n for n in nodes)
        if isinstance(fact, Equal) and self.provenance and (fact.left.sort != "L" or claims):
            rows += f' (united{UNITED[fact.left.sort]} "{self.name}" {fact.left.egglog()})'
        if isinstance(fact, Match):
            return f"{fact.pattern.egglog()}{rows}"  # make the node, claim nothing
        if claims and (row := fact.row()):
            rows += f' (set (by-{row}) "{self.name}")'
        return fact.claim() + rows

    def _why(self, node: Any) -> str | None:
        if not isinstance(node, Map | Merge | Reduce | Scan | Roll | View | Gather | Cast | Ref | Pre | iters.LayoutNode):
            return None
        return f'(set (why-{node.egglog()[1:-1]}) "{self.name}")'


def _place(function: Callable[..., Any]) -> tuple[str, int]:
    path = Path(inspect.getsourcefile(function) or "?")
    return "/".join(path.parts[-2:]), inspect.unwrap(function).__code__.co_firstlineno  # the decorator's, as inspect's own, without parsing


_ELSEWHERE = (f"{Path(__file__).parent.parent}/", f"{sys.prefix}/lib", "<string>")  # the last is where dataclasses are initialised


def _failed(function: Callable[..., Any], error: Exception) -> str:
    """``file:line  text`` of the line of a rule's author at which its body raised: the innermost one outside of this package."""
    own = inspect.getsourcefile(function)
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if f.filename == own or not f.filename.startswith(_ELSEWHERE)]
    frame = (theirs or frames)[-1]
    return f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno}  {(frame.line or '').strip()}"


def _said(error: Exception) -> str:
    """What an exception of Python's says about the body of a rule."""
    if isinstance(error, AttributeError) and isinstance(error.obj, Notation):
        return f"{shown(error.obj)} is {what(error.obj)}, and has no {error.name}"
    if isinstance(error, TypeError) and "__array_ufunc__" in str(error):
        return "a function of numpy takes arrays, and is given what the rule is written with"
    if isinstance(error, TypeError) and _CALL.match(str(error)):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _vocabulary() -> dict[str, Any]:
    """What rules are written with, by name: all that ``eqfuse.rewrites`` has but decorators and the table."""
    scopes = (vars(facts), vars(comparisons), vars(relations), vars(P), globals(), vars(verdicts))
    return {name: scope[name] for scope in scopes for name in scope["__all__"]}


_CALL = re.compile(r"(\w+)(\.__init__)?\(\) (missing|takes|got)")  # how Python refuses arguments


def _cure(error: Exception, parameters: Sequence[str]) -> str:
    """What to try where the body of a rule raised."""
    if isinstance(error, NameError) and error.name:
        name, exported = error.name, _vocabulary()
        if name in exported:
            return f"from eqfuse.rewrites import {name}"
        close = difflib.get_close_matches(name, [*parameters, *exported], n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        return f"{meant}a variable of the rule must be one of its parameters, anything else defined or imported"
    if isinstance(error, AttributeError) and isinstance(error.obj, Notation):
        return applied(error.name or "", error.obj)
    if isinstance(error, TypeError) and "__array_ufunc__" in str(error):
        return applied("")
    if isinstance(error, TypeError) and (called := _CALL.match(str(error))):
        for name, thing in _vocabulary().items():
            if getattr(thing, "__name__", "") == called[1]:
                return f"{name}({', '.join(inspect.signature(thing).parameters)})"
    return "correct this line; a rule is run once, on patterns, which know + - * / ** and what eqfuse.rewrites has (Map, Sum, Where, ...)"


def _facts(result: Any) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """Both forms of a rule as (needs, gives)."""
    form = "a rule returns (left, right, *conditions) or ([needs], [gives])"
    if not isinstance(result, tuple) or len(result) < 2:
        raise RuleError(f"it returns {what(result)}" if not isinstance(result, tuple) else "it returns one side", cure=form)
    if isinstance(result[0], list):
        if len(result) != 2:
            raise RuleError(f"it returns premises, and {len(result) - 1} things beside", cure=form)
        needs, gives = tuple(result[0]), tuple(result[1]) if isinstance(result[1], list | tuple) else (result[1],)
    else:
        left, right, *conditions = result
        whole = (iters.LayoutVar if P.pattern(left).sort == "P" else Var)(WHOLE)
        needs, gives = (Match(whole, P.pattern(left)), *conditions), (Equal(whole, P.pattern(right)),)
    for fact in needs:
        if not isinstance(fact, Fact):
            raise RuleError(f"{shown(fact)} is no premise but {what(fact)}", cure=f"{form}; conditions are free(x, k), positive(x), ...")
        if isinstance(fact, Equal):
            cure = "match(t, pattern) is the premise that t can be written so; one variable in two places is one value"
            raise RuleError(f"{type(fact).__name__} is a conclusion, and stands among the premises", cure=cure)
    for fact in gives:
        if not isinstance(fact, Fact):
            raise RuleError(f"{shown(fact)} is no conclusion but {what(fact)}", cure=f"{form}; conclusions are equal(x, y), nonneg(x), ...")
    if not gives:
        raise RuleError("nothing follows", cure=form)
    return needs, gives


UNITED = {"T": "", "L": "-form", "P": "-layout"}  # tables of the rules that found a class equal to another form, by sort
WHOLE = "whole__"  # the variable that stands for the left side

_SIGNATURE = {
    inspect.Parameter.VAR_POSITIONAL: "a rule has a fixed number of operands",
    inspect.Parameter.VAR_KEYWORD: "a rule has fixed variables",
    inspect.Parameter.KEYWORD_ONLY: "variables are given by position",
}
_CHAIN = "write it for two operands, or for any one of a chain: operand(t, x, rest) matches x anywhere in a sum or product t"


def _parameters(function: Callable[..., Any]) -> list[Any]:
    """The pattern variables that a signature declares."""
    out = []
    for p in inspect.signature(function).parameters.values():
        if p.kind in _SIGNATURE:
            star = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
            cure = _CHAIN if star == "*" else f"def {function.__name__}(..., {p.name})"
            raise RuleError(f"parameter {star}{p.name}: {_SIGNATURE[p.kind]}", cure=cure)
        if p.default is not inspect.Parameter.empty:
            cure = f"write the number in the equation, or {p.name}: Scalar for the number of any constant"
            raise RuleError(f"parameter {p.name}={shown(p.default)}: a variable of an equation has no default", cure=cure)
        if not p.name.isidentifier() or keyword.iskeyword(p.name) or p.name.endswith("__"):
            raise RuleError(f"parameter {p.name!r} is no name for a variable", cure="an identifier that does not end in two underscores")
        out.append(_variable(p.name, p.annotation, inspect.unwrap(function).__globals__))
    return out


def _function(function: Any) -> Callable[..., Any]:
    """What a rule is made of; raises :class:`~eqfuse.errors.RuleError` for anything else."""
    kind = "" if inspect.isfunction(function) else what(function)
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        kind = "a generator or a coroutine"
    if kind:
        said = f"{getattr(function, '__name__', shown(function))} is {kind}; a rule is a plain function"
        raise RuleError(said, cure="@rule above def name(x, y): ...")
    name = function.__name__
    if not name.isidentifier() or keyword.iskeyword(name):
        file, line = _place(function)
        cure = "def with a name, or set __name__ to an identifier that no other rule has"
        raise RuleError(f"{name!r} is no name for a rule", where=f"{file}:{line}", cure=cure)
    return function


def _option(option: str, value: Any, known: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in known:
        close = difflib.get_close_matches(value, known, 1) if isinstance(value, str) else []
        raise RuleError(f"unknown {option} {value!r}", cure=f"{f'did you mean {close[0]!r}? ' if close else ''}one of {', '.join(known)}")


def make_rule(function: Callable[..., Any], family: str, licence: str, phase: str, mirrored: bool) -> Rule:
    """Read a rule function, and refuse what is malformed, with its place."""
    function = _function(function)
    file, line = _place(function)
    where, name = f"{file}:{line}", function.__name__

    def refuse(message: str, cure: str | None) -> RuleError:
        return RuleError(f"rule {name}: {message}", where=where, cure=cure)

    try:
        _option("licence", licence, LICENCES)
        _option("phase", phase, PHASES)
        if not isinstance(family, str) or family != family.strip() or not family or not family.isprintable():
            raise RuleError(f"unknown family {family!r}", cure="a family is named by a text, as in family='mine'")
        if not isinstance(mirrored, bool):
            raise RuleError(f"mirrored is {mirrored!r}", cure="True: commuted forms are matched, too; or False")
        if not (function.__doc__ or "").strip():
            raise RuleError("no docstring", cure="write the equation in plain notation")
        parameters = _parameters(function)
    except RuleError as error:
        raise refuse(error.message, error.cure) from error
    doc = inspect.cleandoc(function.__doc__ or "")
    builtin = (function.__module__ or "").startswith(f"{__package__}.")
    names = list(inspect.signature(function).parameters)
    choices = [p.of(n) if isinstance(p, Each) else (p,) for n, p in zip(names, parameters, strict=True)]
    made: list[Rule] = []
    for chosen in itertools.product(*choices):
        needs, gives = _instance(function, chosen, names, f"{name}-{len(made)}" if made else name, phase, refuse)
        variables = tuple(v for p in chosen for v in (p if isinstance(p, tuple) else (p,)) if P.is_variable(v))
        made.append(Rule(name, family, licence, phase, doc, file, line, variables, needs, gives, mirrored, builtin=builtin))
    if not made:
        raise refuse("a parameter has no choice", "Each[nonneg, positive]")
    return replace(made[0], others=tuple(made[1:]))


def _instance(
    function: Callable[..., Any],
    parameters: Sequence[Any],
    names: Sequence[str],
    table: str,
    phase: str,
    refuse: Callable[[str, str | None], RuleError],
) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """What a rule function says of these parameters, as (needs, gives); ``table`` names the positions that it computes."""
    rule = function.__name__
    try:
        result = function(*parameters)
    except Exception as error:
        if isinstance(error, RuleError):
            message, cure = error.message.removeprefix(f"rule {rule}: "), error.cure
        else:
            message, cure = _said(error), _cure(error, names)
        raise RuleError(f"rule {rule}: {message}", where=_failed(function, error), cure=cure) from error
    try:
        needs, gives = _facts(result)
        iters.unmixed((*needs, *gives), phase == ITERS)
        needs, gives = _placed(table, needs, gives)
    except RuleError as error:
        raise refuse(error.message, error.cure) from error
    bound = {v.name for f in needs if not isinstance(f, TESTS) for part in f.parts() for v in _bindings(part)}
    used = {v.name for f in needs for part in f.parts() for v in P.walk(part) if P.is_variable(v)}
    if loose := next(iter(sorted(used - bound)), None):
        raise refuse(f"nothing says what {loose!r} is: it is only computed with", f"match Const({loose}) on the left, compute on the right")
    if useless := _useless(needs, gives):
        raise refuse(*useless)
    for fact in gives:
        if untestable := _untestable(fact, phase):
            raise refuse(f"concludes {untestable}, which no check can test", "conclude an equation, a condition, or a row with a meaning")
        for part in fact.parts():
            for v in P.walk(part):
                if P.is_variable(v) and v.name not in bound:
                    raise refuse(f"{v.name!r} is used on the right side but nothing on the left binds it", f"match {v.name!r} on the left")
    return needs, gives


def _mentions(fact: Fact) -> list[str]:
    return [v.name for part in fact.parts() for v in P.walk(part) if P.is_variable(v)]


def _useless(needs: tuple[Fact, ...], gives: tuple[Fact, ...]) -> tuple[str, str] | None:
    """Message and cure if a conclusion says no more than a premise, or a premise nothing about the conclusions: a slip of the pen."""
    written = {f.var.name: f.pattern for f in needs if isinstance(f, Match)}
    premises = {f.egglog("") for f in needs}
    for fact in gives:
        if isinstance(fact, Equal):
            left = written.get(fact.left.name, fact.left) if isinstance(fact.left, Var) else fact.left
            if fact.right.egglog() in (left.egglog(), fact.left.egglog()):
                return "both sides are the same", "write what the left side is rewritten to on the right"
        elif fact.claim() in premises:
            return "it concludes what is one of its premises", "leave it out there, or conclude something else"
    if isinstance(found := written.get(WHOLE), Var) and not any(found.name in _mentions(f) for f in needs[1:] if not isinstance(f, TESTS)):
        cure = "exchange the sides, or say what must hold of it: positive(x), ..."
        return f"the left side is {found.name}, which every value of every program matches", cure
    reached, rest = {n for f in gives for n in _mentions(f)}, list(needs)
    while near := [f for f in rest if reached.intersection(_mentions(f))]:
        reached.update(n for f in near for n in _mentions(f))
        rest = [f for f in rest if not any(f is g for g in near)]
    count = Counter(n for f in (*needs, *gives) for n in _mentions(f))
    conditions = [p for f in needs if isinstance(f, Condition | NonEmpty) for p in f.parts()]
    alone = [p.name for p in conditions if isinstance(p, Var | AxisVar) and count[p.name] == 1]
    if rest or alone:
        cure = f"premises are about what the rule matches: {', '.join(n for n in count if count[n] > 1 and n != WHOLE) or 'its variables'}"
        named = [*alone, *(n for f in rest for n in _mentions(f))]
        return (f"nothing but a premise mentions {named[0]!r}" if named else "a premise mentions no variable of the rule"), cure
    matched = {v.name for f in needs if isinstance(f, Match) for p in f.parts() for v in _bindings(p)}
    bounds = (f.size.name for f in needs if isinstance(f, Within) and isinstance(f.size, NumberVar))
    if name := next((b for b in bounds if b in matched), None):
        said = f"within binds {name!r} to the least bound that is known, and {name!r} is matched already"
        return said, f"within(x, bound), at_most(bound, {name}), with bound: Scalar"
    return None


def _untestable(fact: Fact, phase: str) -> str:
    """What a conclusion is called if it states nothing that numbers could refute, and is no demand either."""
    if isinstance(fact, PREMISES):
        return f"{type(fact).__name__}, a premise"
    if isinstance(fact, Row):
        relation = fact.relation
        if relation.given:
            return f"{relation.name}, whose rows come from outside the rules"
        if relation.meaning is None and not relation.demand:
            return f"{relation.name}, whose meaning is not declared"
        if RELATIONS.get(relation.name) is not relation:
            return f"{relation.name}, which is not declared"
    elif isinstance(fact, Condition):
        if type(fact).holds is Condition.holds:
            return f"{type(fact).__name__}, which does not say when it holds"
    elif not isinstance(fact, Equal | Match) and phase != "fusion" and not hasattr(fact, "test"):
        return f"{type(fact).__name__}, which has no test"
    return ""


def _placed(name: str, needs: tuple[Fact, ...], gives: tuple[Fact, ...]) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """The facts with a variable in place of every computed position, and a premise :class:`Placed` for each, in an order in which the
    engine can ask for them: what one needs to know is matched, or the answer to an earlier one."""
    found: dict[str, tuple[IndexVar, Place]] = {}

    def lifted(x: Any) -> Any:
        if isinstance(x, Place) and not isinstance(x, IndexVar):
            return found.setdefault(str(x), (IndexVar(f"position{len(found) + 1}__"), x))[0]
        if isinstance(x, P.Pattern) and any(isinstance(n, Place) for n in P.walk(x)):
            return x.rebuild(tuple(map(lifted, x.parts())))
        return tuple(map(lifted, x)) if isinstance(x, tuple) else x

    def without(fact: Fact) -> Fact:
        if not any(isinstance(n, Place) for part in fact.parts() for n in P.walk(part)):
            return fact
        whole: Any = fact  # every class of facts is a dataclass
        return replace(whole, **{f.name: lifted(getattr(fact, f.name)) for f in fields(whole)})

    needs, gives = tuple(map(without, needs)), tuple(map(without, gives))
    from_rules = [f for f in needs if isinstance(f, Match) or (isinstance(f, Row) and not f.relation.given)]  # given ones bind no position
    matched = {v.name for f in from_rules for part in f.parts() for v in _bindings(part)}
    views = [n for f in (*needs, *gives) for part in f.parts() for n in P.walk(part) if isinstance(n, View)]
    known, waiting, placed = set(matched) - {v.name for v, _ in found.values()}, dict(found), list[Placed]()
    while waiting:
        for key, (at, place) in waiting.items():
            inside = {v.name: v for v in P.walk(place) if P.is_variable(v)}
            reads = tuple({n.axis.name: n.axis for n in views if n.at.name == at.name}.values())
            asked = {**inside, **{a.name: a for a in reads}}
            unknown = [v for n, v in asked.items() if n not in known]
            met = at.name in matched
            along = {n.axis.name for n in P.walk(place) if isinstance(n, AlongAxis)}
            if not unknown or (met and all(v.name in along for v in unknown)):
                given = tuple(v for n, v in asked.items() if n in known)
                placed.append(Placed(f"{name}-{at.name}", at, place, met, given, tuple(unknown), reads))
                known |= {at.name, *asked}
                del waiting[key]
                break
        else:
            at, place = next(iter(waiting.values()))
            loose = next(v.name for v in P.walk(place) if P.is_variable(v) and v.name not in known)
            said = f"nothing on the left binds {loose!r}, which the position {place} is computed from"
            raise RuleError(said, cure=f"match {loose!r} on the left")
    return (*needs, *placed), gives


def _names_of(name: Any) -> tuple[str, ...]:
    return tuple(name.choices()) if isinstance(name, NameVar) else (name,)


def _before(placed: Placed, needs: tuple[Fact, ...]) -> Iterator[Fact]:
    """The premises that hold before a position is known: all that do not mention it, what it solves, or what follows from these."""
    later = needs[next(k for k, f in enumerate(needs) if f is placed) :]
    unknown = {v.name for f in later if isinstance(f, Placed) for v in (*f.solved, *(() if f.met else (f.at,)))}
    for fact in needs:
        if isinstance(fact, Placed) and any(fact is f for f in later):
            continue
        if not unknown & {v.name for part in fact.parts() for v in P.walk(part) if P.is_variable(v)}:
            yield fact


def _bindings(p: Any) -> Iterator[Any]:
    """The variables that matching a pattern gives values to: those in arithmetic on numbers get none from it."""
    if P.is_variable(p):
        yield p
    elif isinstance(p, P.Pattern | P.Number | Place) and not isinstance(p, P.NumberOp):
        for part in p.parts():
            yield from _bindings(part)
