"""What can be said of the nodes of a kernel: intervals, and the order of two nodes, which no interval says.

*Ranges* are the domain of intervals (:mod:`~eqfuse.ir.bounds`) over the nodes, met with what is known of sums and loops.  They come in two
readings.  With ``finite_inputs=False`` a float that is loaded may be infinite: this decides which references need a guard.  With
``finite_inputs=True`` it is at most the largest number of its type: this decides what may be cast to a narrower type for a contraction.

*Order*: ``c x - c M`` has a sign for a constant c where M selects the largest or smallest among values with x.  M may be the running value
with the present tile, and x what stands in that tile.  NaN is left aside, as it is by intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np

from ..ir import ops
from ..ir.bounds import ZERO, Intervals
from ..ir.index import Axis
from ..ir.monoids import MONOIDS
from ..ir.ranges import INF, Interval
from ..ir.recursion import by_arguments
from ..ir.semantics import value
from .kernel import Kernel, Node

FAR = 12  # operations down which it is looked for selections
When = tuple[Any, ...]  # of a reading: () for the final value, ("new" or "old", axis) for that in a loop
SIGNS = {"maximum": -1, "minimum": 1}  # of x - M, where M is what the op makes of values with x


class Ranges:
    """Ranges and order of the nodes of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.nodes = kernel, kernel.nodes
        self.memo: dict[Any, Any] = {}  # answers of functions that ask for the same of a node's arguments, and how deep they are in it
        self.depth = 0

    def below(self, node: int) -> tuple[int, ...]:
        """The arguments of a node."""
        return self.nodes[node].args

    # intervals --------------------------------------------------------------------------------------------------------------
    def range(self, node: int, finite_inputs: bool = False, padded: bool = False) -> Interval:
        """An interval that contains every value of the node; with ``padded`` also what stands on padded lanes, of which a maximum
        knows nothing."""
        return self._range(node, Intervals(finite_inputs), padded)

    @by_arguments
    def _range(self, node: int, domain: Intervals, padded: bool) -> Interval:
        n = self.nodes[node]
        if n.op == "load":
            return domain.input(self.kernel.buffers[n.attrs[0]].dtype)
        args = [self._range(x, domain, padded) for x in n.args]
        return self._met(node, args, value(domain, n.op, n.attrs, args), padded)

    def _met(self, node: int, args: list[Interval], found: Interval, padded: bool) -> Interval:
        """A range met with what is known beside the ranges of the arguments."""
        n = self.nodes[node]
        if n.scalar == "add" and not padded and (sign := self.order(node)):
            return found.at_least(0.0) if sign > 0 else found.at_most(0.0)
        if n.op == "ref" and n.attrs[0] == "old" and self.nodes[n.args[0]].reduction in ("sum", "mean"):
            return args[0].join(ZERO)  # nothing is summed before the first step
        if n.op == "roll" and n.attrs[0] in ("sum", "mean") and args[0].lo >= 0 and self._grows(n.args[1]):
            return Interval(0.0, INF)
        return found

    @by_arguments
    def _grows(self, update: int) -> bool:
        """An update that keeps a non-negative state non-negative: the state, or a product or sum of it and what is not negative."""
        n = self.nodes[update]
        return n.op == "acc" or n.scalar in ("mul", "add") and all(self._grows(x) or self.range(x).lo >= 0 for x in n.args)

    @by_arguments
    def has_one(self, body: int, along: Axis) -> bool:
        """The terms of a sum along an axis are exponentials of c x - c max x, perhaps times something that is at least 1: one of them is
        at least 1.  The maximum is that over this axis alone: where it is over others, too, all terms of a sum may be small."""
        n = self.nodes[body]
        if n.op != "map":
            return False
        o = ops.op(n.attrs[0])
        if o.name == "mul":
            return any(self.has_one(a, along) and self.range(b).lo >= 1 for a, b in (n.args, n.args[::-1]))
        if o.name == "where":
            return self.chooses_one(n, along)
        if ("add", "mul") not in o.turns or not o.increasing:
            return False
        return any(self._falls_short(x, c, along) for c, _, x in self.readings(n.args[0]))

    def _falls_short(self, node: int, factor: float, along: Axis) -> bool:
        """A sum, times a number, is c x - c max x, with the maximum over one axis."""
        n = self.nodes[node]
        if n.scalar != "add" or factor * self.order(node) >= 0:
            return False
        maxima = (self.nodes[r] for x in n.args for _, _, r in self.readings(x, self.guarded))
        return any(m.op == "reduce" and m.attrs[1] == along and m.axes == n.axes - {along} for m in maxima)

    def chooses_one(self, choice: Node, along: Axis) -> bool:
        """The same of terms that ``where`` chooses.  The largest may be among those that it does not choose."""
        return False

    # order ------------------------------------------------------------------------------------------------------------------
    def order(self, node: int) -> int:
        """-1 for a sum that is not positive because it is c x - c M, 1 for one that is not negative, 0 for others."""
        for p, q in (self.nodes[node].args, self.nodes[node].args[::-1]):
            for c, when, x in self.readings(p, self.before):
                for d, then, m in self.readings(q, self.guarded):
                    for combine, sign in SIGNS.items():
                        if c == -d != 0 and self._bounds(combine, m, then, x, when):
                            return sign if c > 0 else -sign
        return 0

    def before(self, node: int) -> int:
        """What a value stands for that is compared with a bound: a number instead of an infinity may be beyond the bound."""
        return node

    def _bounds(self, combine: str, m: int, then: When, x: int, when: When) -> bool:
        """Whether m is the largest (or smallest) of values with x, for what both are at these times."""
        if x == m:  # the maximum so far is no larger than with the present tile, and neither than a number instead of -inf
            (*_, (_, _, last)), own = self.readings(m), self.is_reduction(combine, m)
            selected = any(self.is_reduction(o, last) for o in SIGNS)
            return when == then and (own or not selected) or own and when[:1] == ("old",) and then == ("new", *when[1:])
        if not then and self.nodes[m].scalar == combine:  # the larger of two is no less than one of them
            parts = (r for a in self.nodes[m].args for r in self.readings(a, self.guarded))
            if any(d == 1 and self._bounds(combine, part, at, x, when) for d, at, part in parts):
                return True
        present = not when and then[:1] == ("new",) and then[-1] in self.nodes[x].axes
        return (when == then or present) and then[:1] != ("old",) and self.selects(combine, m, x)

    def readings(self, node: int, past: Callable[[int], int] = lambda node: node) -> Iterator[tuple[float, When, int]]:
        """A node as a number times another node, final or running, which may stand for what is ``past`` it."""
        factor, when = 1.0, cast(When, ())
        while True:
            yield factor, when, node
            n = self.nodes[node]
            number = next((x for x in n.args if self.number(x) is not None), None) if n.scalar == "mul" else None
            if n.op == "ref" and not when:
                when, node = n.attrs, n.args[0]
            elif n.scalar == "neg":
                factor, node = -factor, n.args[0]
            elif number is not None:
                factor, node = factor * float(self.number(number) or 0.0), n.args[number == n.args[0]]
            elif (further := past(node)) != node:
                node = further
            else:
                return

    @by_arguments
    def number(self, node: int) -> float | None:
        """A constant, or a scalar function of such."""
        n = self.nodes[node]
        if n.op == "map":
            args = [self.number(a) for a in n.args]
            return None if None in args else float(ops.op(n.attrs[0]).numpy(*map(np.float64, args)))
        return float(n.attrs[0]) if n.op == "const" else None

    def is_reduction(self, combine: str, node: int) -> bool:
        """Whether a node is a reduction by a scalar op, without running values."""
        n = self.nodes[node]
        return n.op == "reduce" and MONOIDS[n.attrs[0]].combine == combine

    def guarded(self, node: int) -> int:
        """The multiple of a reduction behind a choice that puts a finite number where the reduction is its identity, and nowhere else; or
        the node."""
        n = self.nodes[node]
        if n.scalar == "where":
            test = self.nodes[n.args[0]]
            for m, other in (n.args[1:], n.args[:0:-1]):
                numbers = [self.number(a) for a in (*test.args, other)]
                reductions = [(c, self.nodes[r].attrs[0]) for c, _, r in self.readings(m) if self.nodes[r].op == "reduce"]
                if m not in test.args or not reductions or numbers[-1] is None or math.isinf(numbers[-1]):
                    continue
                if test.scalar is None or len(test.args) != 2 or not any(x is not None and math.isinf(x) for x in numbers[:-1]):
                    continue  # a comparison with an infinity is the same of all finite numbers
                identity = reductions[0][0] * MONOIDS[reductions[0][1]].identity
                at = [[v if a == m else x for a, x in zip(test.args, numbers, strict=False)] for v in (identity, 0.0, -identity)]
                kept = [bool(ops.op(test.scalar).numpy(*map(np.float64, pair))) == (m == n.args[1]) for pair in at]
                if kept == [False, True, True]:
                    return m
        return node

    def chosen(self, body: int) -> int:
        """What a reduction of a body chooses from."""
        return body

    def selects(self, combine: str, m: int, x: int, deep: int = 0) -> bool:
        """m is the largest (or smallest) of values with x: a reduction of x, or of such a reduction, or x with one inside of a sum:
        c + max y selects from c + y, to the last bit, because rounding is monotone."""
        key = ("selects", combine, m, x)
        if key not in self.memo:
            self.memo[key] = deep <= FAR and self._selects(combine, m, x, deep)  # what is too far is not known
        return bool(self.memo[key])

    def _selects(self, combine: str, m: int, x: int, deep: int) -> bool:
        n, of = self.nodes[m], self.nodes[x]
        if self.is_reduction(combine, m):
            body = self.chosen(n.args[0])
            return body == x or self.selects(combine, self.guarded(body), x, deep + 1)
        if n.op == of.op == "map" and n.attrs == of.attrs and n.scalar in ("add", "maximum", "minimum"):
            pairs = (tuple(zip(n.args, other, strict=True)) for other in (of.args, of.args[::-1]))
            return any(all(p == q or self.selects(combine, p, q, deep + 1) for p, q in pair) for pair in pairs)
        return False
