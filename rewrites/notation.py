"""What rules are written with is notation: Python's own questions about it have no answer.

``x == y``, ``if x``, ``x < y``, ``len(x)`` on pattern variables would be answered by Python, about objects, and the rule would say
something else than its author meant.  So each raises :class:`~eqfuse.errors.RuleError` and says what is written instead.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..errors import RuleError
from ..ir.monoids import MONOIDS
from ..ir.ops import OPS

VALUES = {  # what is written instead, of values
    "==": 'Map("eq", {0}, {1}) is where they are equal; one variable in two places matches only equal values',
    "!=": 'Map("ne", {0}, {1}) is where they differ',
    "<": 'Map("lt", {0}, {1}) is where it holds; of two comparisons, their product',
    "<=": 'Map("le", {0}, {1}) is where it holds; of two comparisons, their product',
    ">": 'Map("gt", {0}, {1}) is where it holds; of two comparisons, their product',
    ">=": 'Map("ge", {0}, {1}) is where it holds; of two comparisons, their product',
    "&": 'Map("and", {0}, {1})',
    "|": 'Map("or", {0}, {1})',
    "~": 'Map("not", {0})',
    "**": 'a power is a number; Map("pow", {0}, {1}) for two values',
    "^": 'Map("ne", {0}, {1}) of two truth values',
    "<<": "{0} * 2.0**n for a number n",
    ">>": "{0} / 2.0**n for a number n",
    "divmod": "{0} // {1} and {0} % {1}",
    "@": "Sum(k, {0} * {1}), with the axes named",
    "truth": "Where(c, x, y) chooses; what must hold is a premise: truth(c), positive(x), ...",
    "[]": "View({0}, k, e) reads it at the position e of its axis k",
    "()": 'Map("exp", {0}) applies an op; o: Op1 is any op, Map(o, {0})',
    "iteration": "values have axes by name: Sum(k, {0}), View({0}, k, e)",
    "number": 'Map("exp", {0}) for a function of it; a: Scalar is the number of a constant',
}
NUMBERS = VALUES | {
    "==": "equals({0}, {1}) as a premise, after the two sides",
    "!=": "differs({0}, {1}) as a premise, after the two sides",
    "<": "less({0}, {1}) as a premise, after the two sides",
    "<=": "at_most({0}, {1}) as a premise, after the two sides",
    ">": "less({1}, {0}) as a premise, after the two sides",
    ">=": "at_least({0}, {1}) as a premise, after the two sides",
    "truth": "differs({0}, 0), less({0}, 1), ... are premises, after the two sides",
}
AXES = dict.fromkeys(VALUES, "Extent({0}) is its length, Index({0}) the position along it") | {
    "==": "one variable in two places is one axis; equals(Extent({0}), Extent({1})) for the lengths",
    "!=": "OtherAxis({0}, {1}) as a premise",
    "<": "less(Extent({0}), Extent({1})) as a premise, for the lengths",
    "<=": "at_most(Extent({0}), Extent({1})) as a premise, for the lengths",
    ">": "less(Extent({1}), Extent({0})) as a premise, for the lengths",
    ">=": "at_least(Extent({0}), Extent({1})) as a premise, for the lengths",
    "truth": "NonEmpty({0}) as a premise",
}
NAMES = dict.fromkeys(VALUES, "a name is only used: Map(o, x), Reduce(g, k, x), Cast(t, x)") | {
    "==": 'write the name itself instead of a variable; one_of(t, "float16", "bfloat16") for types',
    "!=": "say what must be true of it: linear(g), increasing(o), rounding(t)",
}
POSITIONS = dict.fromkeys(VALUES, "positions are computed by + - * // % and read at: View(x, k, e)") | {
    "==": "one variable in two places is one position",
    "<": 'View(Index(k), k, {0}) is the position as a value, of which Map("lt", ...) asks',
}


class Notation:
    """Base of all that rules are written with.  ``instead``: what to write instead of Python's questions."""

    instead = VALUES
    __array_ufunc__ = None  # numbers of numpy leave arithmetic to this side

    def as_position(self) -> Any:
        """The position that it is or can be read as; ``None`` for what is never one."""
        return None

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other or self._no("==", other)

    def __ne__(self, other: object) -> bool:
        return self is not other and self._no("!=", other)

    def __lt__(self, other: Any) -> NoReturn:
        self._no("<", other)

    def __le__(self, other: Any) -> NoReturn:
        self._no("<=", other)

    def __gt__(self, other: Any) -> NoReturn:
        self._no(">", other)

    def __ge__(self, other: Any) -> NoReturn:
        self._no(">=", other)

    def __and__(self, other: Any) -> NoReturn:
        self._no("&", other)

    def __or__(self, other: Any) -> NoReturn:
        self._no("|", other)

    def __rand__(self, other: Any) -> NoReturn:
        self._no("&", other)

    def __ror__(self, other: Any) -> NoReturn:
        self._no("|", other)

    def __matmul__(self, other: Any) -> NoReturn:
        self._no("@", other)

    def __rmatmul__(self, other: Any) -> NoReturn:
        self._no("@", other)

    def __xor__(self, other: Any) -> NoReturn:
        self._no("^", other)

    def __rxor__(self, other: Any) -> NoReturn:
        self._no("^", other)

    def __lshift__(self, other: Any) -> NoReturn:
        self._no("<<", other)

    def __rshift__(self, other: Any) -> NoReturn:
        self._no(">>", other)

    def __divmod__(self, other: Any) -> NoReturn:
        self._no("divmod", other)

    def __round__(self, digits: Any = None) -> NoReturn:
        raise RuleError(f"round({shown(self)}): {shown(self)} is {what(self)}", cure=applied("round", self))

    def __trunc__(self) -> NoReturn:
        self.__float__()

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> NoReturn:
        _foreign("numpy", function, args)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        _foreign("torch", function, args)

    def __invert__(self) -> NoReturn:
        self._no("~")

    def __bool__(self) -> NoReturn:
        raise RuleError(f"{shown(self)} is neither true nor false when the rule is made", cure=self._cure("truth"))

    def __getitem__(self, key: Any) -> NoReturn:
        raise RuleError(f"{shown(self)}[{shown(key)}]: no elements are known when the rule is made", cure=self._cure("[]"))

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuleError(f"{shown(self)} is {what(self)}, not a function", cure=self._cure("()"))

    def __iter__(self) -> NoReturn:
        raise RuleError(f"{shown(self)} is {what(self)}, without elements to iterate over", cure=self._cure("iteration"))

    def __len__(self) -> NoReturn:
        raise RuleError(f"{shown(self)} is {what(self)}, without a len()", cure=self._cure("iteration"))

    def __contains__(self, item: Any) -> NoReturn:
        raise RuleError(f"{shown(self)} is {what(self)}, in which nothing is", cure=self._cure("iteration"))

    def __float__(self) -> NoReturn:
        raise RuleError(f"{shown(self)} is {what(self)}, no number when the rule is made", cure=self._cure("number"))

    def __int__(self) -> NoReturn:
        self.__float__()

    def __index__(self) -> NoReturn:
        self.__float__()

    def _no(self, operator: str, *others: Any) -> NoReturn:
        said = f" {operator} ".join(map(shown, (self, *others))) if others else f"{operator}{shown(self)}"
        raise RuleError(f"{said} is Python's question, which has no answer when the rule is made", cure=self._cure(operator, *others))

    def _cure(self, question: str, *others: Any) -> str:
        return self.instead[question].format(*map(shown, (self, *others)))


def shown(x: Any) -> str:
    """Something that is written, in an error: by its name if it has one."""
    name = getattr(x, "name", None)
    text = name if isinstance(x, Notation) and isinstance(name, str) else str(x) if isinstance(x, Notation) else repr(x)
    return text if len(text) <= 60 and "\n" not in text and " at 0x" not in text else what(x)


def applied(function: str, *args: Any) -> str:
    """How a function of these arguments is written in a rule, if there is an op or a reduction of that name."""
    given = ", ".join(shown(a) for a in args if isinstance(a, Notation)) or "x"
    if function in MONOIDS:
        return f'Reduce("{function}", k, {given}), with the axis named'
    return f'Map("{function}", {given})' if function in OPS else VALUES["()"].format(given)


def _foreign(library: str, function: Any, args: Any) -> NoReturn:
    """A function of arrays is called with what a rule is written with."""
    name = getattr(function, "__name__", "a function").strip("_")
    first = next((a for a in args if isinstance(a, Notation)), None)
    said = f"{shown(first)} is {what(first)}" if first is not None else "patterns are none"
    raise RuleError(f"{library}'s {name} takes arrays, and {said}", cure=applied(name, *args))


KINDS: dict[type, str] = {}  # what things are called, filled where they are defined


def what(x: Any) -> str:
    """What something is, with an article."""
    for kind in type(x).__mro__:
        if kind in KINDS:
            return KINDS[kind]
    if isinstance(x, bool | np.bool_):
        return "a truth value"
    if isinstance(x, int | float | complex | np.number):
        return f"the number {x}"
    if isinstance(x, np.ndarray):
        return "a numpy array"
    name = "class" if isinstance(x, type) else type(x).__name__
    return "None" if x is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def literal(x: Any) -> float | None:
    """A number that is written as one; ``None`` for anything else.  Raises for numbers that a rule cannot say."""
    if isinstance(x, bool | np.bool_):
        raise RuleError(f"{x} is a truth value, not a number", cure='write 1.0 or 0.0; where two values are equal is Map("eq", x, y)')
    if not isinstance(x, int | float | np.integer | np.floating):
        return None
    try:
        number = float(x)
    except OverflowError as error:
        raise RuleError("the number is larger than any float64", cure="write float('inf') or a smaller number") from error
    if number != number:
        raise RuleError("NaN is no number that a rule can match or compare", cure='Map("ne", x, x) is where x is NaN')
    return number


def variable_text(name: str) -> str:
    """A variable as the engine writes it: its own names (``inf``, ``_``, those of helpers) begin otherwise."""
    return f"v_{name}"
