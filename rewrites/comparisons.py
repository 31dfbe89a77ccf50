"""Premises on numbers and names: of constants, of lengths of axes, of ops, monoids and types.

A check makes them true where it can: it changes a drawn number or length that stands alone on a side.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import RuleError
from . import patterns as P
from .facts import Fact, set_fields
from .notation import shown, what
from .world import World

__all__ = [
    "Nonzero", "NotNegative", "at_least", "at_most", "differs", "divides", "equals", "less", "one_of", "power_of_two",
]  # fmt: skip


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
        set_fields(self, args=tuple(map(P.number, self.args)))
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
