"""How states of several parts are combined: what ``h = a h + b``, the position of a maximum and ``log sum exp`` so far are made of.

A state is a tuple of values.  Two neighbours ``l`` and ``r`` become one by a formula for each part, over the parts of both; the formulas
are all that is known of the operation, so they are its name: ``mul(l0,r0);add(mul(r0,l1),r1)|1.0,0.0`` says that (a, b) and (a', b') become
(a a', a' b + b'), and that (1, 0) after a state changes nothing.  A part is named with its number, ``linear[1]``.

What stands behind a state to change nothing need not do so before it: ``0 * inf`` is NaN, so whoever begins, begins with an element.
(The formulas of recurrences: Blelloch, *Prefix sums and their applications*, 1990.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np

from . import ops

T = TypeVar("T")
Formula = tuple[Any, ...] | float  # ("l", k) and ("r", k) are parts, a number is itself, else an op and its arguments
MOST_PARTS = 3  # parts that a state may have


@dataclass(frozen=True)
class State:
    """A way to combine states.  ``neutral``: what changes nothing behind any state; ``commutative``: nor does the order matter."""

    name: str
    formulas: tuple[Formula, ...]
    neutral: tuple[float, ...]
    commutative: bool = False

    @property
    def operations(self) -> frozenset[str]:
        """The scalar ops of its formulas."""
        return frozenset(self.written)

    @cached_property
    def written(self) -> tuple[str, ...]:
        """The scalar op of each formula that has one, each formula once."""
        return tuple(f[0] for f in dict.fromkeys(self.nodes()) if isinstance(f, tuple) and f[0] not in "lr")

    def nodes(self, parts: Iterable[int] | None = None) -> Iterator[Formula]:
        """Every formula, or those of some parts, and every formula in it, each as often as it is written."""
        stack = [self.formulas[k] for k in (range(len(self.formulas)) if parts is None else parts)]
        while stack:
            f = stack.pop()
            yield f
            stack += f[1:] if isinstance(f, tuple) and f[0] not in "lr" else ()

    def selects(self, part: int) -> bool:
        """Whether a part of the result is that part of one of the states."""

        def chosen(f: Formula) -> bool:
            if not isinstance(f, tuple):
                return False
            if f[0] in "lr":
                return bool(f[1] == part)
            return f[0] in ("where", "minimum", "maximum") and all(map(chosen, f[2 if f[0] == "where" else 1 :]))

        return chosen(self.formulas[part])

    def before(self, parts: Iterable[int]) -> tuple[int, ...]:
        """The parts that have to be known of what is before for some to be known, these included."""
        found = set(parts)
        while more := {f[1] for f in self.nodes(sorted(found)) if isinstance(f, tuple) and f[0] == "l"} - found:
            found |= more
        return tuple(sorted(found))

    def combined(
        self,
        left: Sequence[T],
        right: Sequence[T],
        apply: Callable[..., T],
        number: Callable[[float], T],
        parts: Iterable[int] | None = None,
    ) -> list[T]:
        """The parts of two neighbours together, or some of them; ``apply(op, *args)`` computes, each formula once."""
        known: dict[Formula, T] = {}

        def value(f: Formula) -> T:
            if f not in known:
                if not isinstance(f, tuple):
                    known[f] = number(f)
                elif f[0] in "lr":
                    known[f] = (left if f[0] == "l" else right)[f[1]]
                else:
                    known[f] = apply(f[0], *map(value, f[1:]))
            return known[f]

        return [value(self.formulas[k]) for k in (range(len(self.formulas)) if parts is None else parts)]

    def on_arrays(self, left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The same on arrays, in their types."""
        found = self.combined(left, right, ops.apply, np.asarray)
        return [np.asarray(x).astype(a.dtype, copy=False) for x, a in zip(found, right, strict=True)]

    def prefixes(self, xs: Sequence[np.ndarray], axis: int) -> list[np.ndarray]:
        """The states after each position along an axis, one array for each part."""
        xs = [np.moveaxis(x, axis, 0) for x in np.broadcast_arrays(*xs)]
        found = [x.copy() for x in xs]
        for k in range(1, len(xs[0])):
            for f, now in zip(found, self.on_arrays([f[k - 1] for f in found], [x[k] for x in xs]), strict=True):
                f[k] = now
        return [np.moveaxis(f, 0, axis) for f in found]

    def text(self) -> str:
        """The formulas and what is neutral: the name of one that has no other."""
        return f"{';'.join(map(_text, self.formulas))}|{','.join(map(repr, self.neutral))}{'~' * self.commutative}"


def _text(f: Formula) -> str:
    if not isinstance(f, tuple):
        return repr(f)
    return f"{f[0]}{f[1]}" if f[0] in "lr" else f"{f[0]}({','.join(map(_text, f[1:]))})"


_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|[-+]?(?:inf|nan|[0-9.]+(?:e[-+]?[0-9]+)?)|[(),])")
_PART = re.compile(r"(.+)\[(\d)\]")


def _formula(text: str) -> Formula:
    """What :func:`_text` wrote.  Raises ValueError for anything else."""
    tokens = _TOKEN.findall(text)

    def read(k: int) -> tuple[Formula, int]:
        word = tokens[k]
        if re.fullmatch(r"[lr]\d", word):
            return (word[0], int(word[1])), k + 1
        if k + 1 == len(tokens) or tokens[k + 1] != "(":
            return float(word), k + 1
        args, k = [], k + 1
        while tokens[k] != ")":
            found, k = read(k + 1)
            args.append(found)
        if word not in ops.OPS or ops.OPS[word].arity != len(args):
            raise ValueError(f"no op {word} of {len(args)} arguments")
        return (word, *args), k + 1

    try:
        found, end = read(0)
    except IndexError:
        raise ValueError(f"{text!r} is no formula") from None
    if end != len(tokens):
        raise ValueError(f"{text!r} is more than a formula")
    return found


def _read(name: str, text: str) -> State:
    formulas, _, neutral = text.partition("|")
    values = tuple(map(float, neutral.removesuffix("~").split(",")))
    return State(name, tuple(map(_formula, formulas.split(";"))), values, text.endswith("~"))


# Values in the order in which NaN is the largest: whether that of r, or that of l, is larger, or smaller
_OVER = "or({0}({1}0,{2}0),and(ne({1}0,{1}0),eq({2}0,{2}0)))"
# of (value, position): the value that comes first in an order, and the least position at which it stands
_CHOSEN = "where({0},r0,l0);where({0},r1,where({1},l1,minimum(l1,r1)))"
# of (m, s), which stands for m + log s: relative to the larger m; exp(-inf) s is 0, and an infinity is no distance from itself
_DISTANCE = "exp(neg(abs(add(l0,neg(r0)))))"
_RELATIVE = "where(ne({0}0,{0}0),{0}1,add({0}1,mul({1}1,{2})))"
_UP, _DOWN = _OVER.format("gt", "r", "l"), _OVER.format("gt", "l", "r")
_SUMS = f"where({_UP},{_RELATIVE.format('r', 'l', _DISTANCE)},where({_DOWN},{_RELATIVE.format('l', 'r', _DISTANCE)},add(l1,r1)))"
NAMED = {
    s.name: s
    for s in (
        _read("linear", "mul(l0,r0);add(mul(r0,l1),r1)|1,0"),  # h -> a h + b
        _read("argmax", _CHOSEN.format(_UP, _DOWN) + "|-inf,2147483647~"),
        _read("argmin", _CHOSEN.format(_OVER.format("lt", "r", "l"), _OVER.format("lt", "l", "r")) + "|inf,2147483647~"),
        _read("logsumexp", f"maximum(l0,r0);{_SUMS}|-inf,0~"),
    )
}
THREE = "add(l0,r0);maximum(l1,r1);mul(l2,r2)|0.0,-inf,1.0"  # the name of a state of three parts: an example


def _ordered(f: Formula) -> Formula:
    """The same with the arguments of commutative ops in one order."""
    if not isinstance(f, tuple) or f[0] in "lr":
        return f
    args = [_ordered(x) for x in f[1:]]
    return (f[0], *(sorted(args, key=_text) if ops.OPS[f[0]].commutative else args))


_BY_FORMULAS = {tuple(map(_ordered, s.formulas)): s for s in NAMED.values()}


def named(state: State) -> State:
    """The same by the name that it has here, if it has one."""
    return _BY_FORMULAS.get(tuple(map(_ordered, state.formulas)), state)


@cache
def part_of(monoid: str) -> tuple[State, int] | None:
    """The state, and which of its parts, that a monoid's name says; ``None`` for the name of anything else."""
    found = _PART.fullmatch(monoid)
    if found is None:
        return None
    try:
        state = NAMED.get(found[1]) or _read(found[1], found[1])
    except ValueError:
        return None
    part, parts = int(found[2]), len(state.formulas)
    known = all(not isinstance(f, tuple) or f[0] not in "lr" or f[1] < parts for f in state.nodes())
    return (state, part) if part < parts == len(state.neutral) <= MOST_PARTS and known else None


def part_name(state: State, part: int) -> str:
    """The name of a monoid whose value is a part of a state."""
    return f"{state.name}[{part}]"
