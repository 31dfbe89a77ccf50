"""What a saturated graph claims besides that members of a class are equal, held against the values of its classes.

Facts are claims, too: that a value is not negative, that t = f * b with f free of an axis, that t moves from the old to the new
reference by a factor, that it vanishes where nothing has been seen.  Conditions are tested as inequalities here; a row of a relation
is tested as the meaning says with which the relation was declared (:class:`~eqfuse.rewrites.relations.Relation`), the one that the checks
of rules use, so that relations of users take part.  What is written at the new reference must read as the old value there (``back``).

A row is tested where its left side is a number or infinite, not where that is NaN; of a change between references nothing is asked where
a reference that it moves with is infinite, for there loops are executed, nor where the value at the old one is NaN, or infinite with an
infinite change (or, where numbers have left the range of float64, zero with an infinite change, or infinite with none left).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.index import Axis, IndexExpr
from ..rewrites.facts import CONDITIONS, Known
from ..rewrites.patterns import AxisVar, NumberLiteral, Pattern
from ..rewrites.positions import IndexVar
from ..rewrites.relations import RELATIONS, Claim, Equation, Relation
from ..rewrites.world import World
from .drawn import Drawn
from .frozen import FrozenGraph

RELATIVE, ABSOLUTE = 1e-6, 1e-9
ROUNDING = 1e-12  # what float64 may do to a bound of 1 or 0: exponentials of exact zeros, sums of them
LIMITS = ("positive", "bounded")  # true over the reals, and false of what overflows or underflows in float64, or of 1/inf
SIGNS = ("nonneg", "nonpos")
# relation -> its column of the reduction that moves; t and t(new) stand around it
RUNNING = {"changes-by-term": 3, "changes-by-factor": 3, "changes-by-form": 2, "function-of": 2}


@dataclass(frozen=True)
class Finding:
    """Something that is false: in words, where it comes from in words, the rules that this names, and the classes that it speaks of."""

    what: str
    where: str
    rules: frozenset[str]
    classes: frozenset[int]
    made: int | None = None  # the class whose members differ


def constants_met(graph: FrozenGraph) -> Finding | None:
    """Two constants in one class that are not equal: this needs no values."""
    for c, members in enumerate(graph.classes):
        first, *others = [n.attrs[0] for n in members if n.op == "const"] or [0.0]
        for x in others:
            if not (first == x or (first != first and x != x) or abs(first - x) <= ABSOLUTE * max(abs(first), abs(x))):
                rules = sorted({rule for rule, cls in graph.facts["united"] if cls == c})
                where = f"class {c} united by {', '.join(rules) or 'no rule'}"
                return Finding(f"the constants {first:g} and {x:g} were found equal", where, frozenset(rules), frozenset(), c)
    return None


class _Known(Pattern):
    """A pattern that stands for a value that is known, now and at the old reference."""

    def __init__(self, name: str, now: np.ndarray, back: Callable[[], np.ndarray]) -> None:
        self.name, self.now, self.then = name, now, back

    def value(self, world: World) -> np.ndarray:
        return self.then() if world.looking_back else self.now


class Claims:
    """The claims of one graph at one set of values.  ``tested`` counts the rows, ``numbers`` what was compared."""

    def __init__(self, of: Drawn) -> None:
        self.of, self.graph = of, of.graph
        self.tested = self.numbers = 0
        self.by = {(table, cells): rule for table, cells, rule in self.graph.facts.get("claimed", ())}
        self.forms: dict[int, np.ndarray] = {}

    def findings(self) -> Iterator[Finding]:
        """Every claim that is false."""
        yield from self.conditions()
        yield from self.freedom()
        yield from self.linear_forms()
        yield from self.summed()
        for relation in RELATIONS.values():
            if relation.of_values:
                for row in self.graph.facts.get(relation.name, ()):
                    if said := self.row(relation, row):
                        yield self.false(relation.name, row, said, relation.doc)

    def false(self, table: str, row: tuple[Any, ...], said: str, doc: str = "") -> Finding:
        """A row that is false."""
        columns = CONDITIONS[table] if table in CONDITIONS else RELATIONS[table].columns
        cells = [
            f"form {c}" if sort == "L" else self.of.show_class(c) if sort == "T" else c.name if isinstance(c, Axis) else str(c)
            for c, sort in zip(row, columns, strict=True)
        ]
        rule = self.by.get((table, row))
        words = f"{cells[0]} is said to be {table} and is not" if len(cells) == 1 else f"the fact {table}({', '.join(cells)}) is false"
        return Finding(
            f"{words}: {said}{f' ({doc})' if doc else ''}",
            f"concluded by {rule}" if rule else "",
            frozenset({rule} if rule else ()),
            frozenset(c for c, sort in zip(row, columns, strict=True) if sort == "T"),
        )

    # conditions ----------------------------------------------------------------------------------------------------------------

    def conditions(self) -> Iterator[Finding]:
        """Signs, bounds and sizes."""
        for known in Known.__subclasses__():
            table = known.table
            for (c,) in self.graph.facts.get(table, ()):
                if c in self.of.values and not (table in LIMITS and self.of.left_range):
                    x = self.of.values[c]
                    self.numbers += 1
                    sure = ~np.isinf(x) if self.of.inverted and table in SIGNS else True
                    if np.any(bad := known.broken(x, ROUNDING) & self.of.lanes_of(x) & sure):
                        yield self.false(table, (c,), f"{_first(x, bad):.9g}")
        for c, size in self.graph.facts.get("size", ()):
            if c in self.of.values:
                x = np.abs(self.of.values[c])
                self.numbers += 1
                if np.any(bad := (x > size * (1 + RELATIVE) + ABSOLUTE) & self.of.lanes_of(x)):
                    yield self.false("size", (c, size), f"|x| is {_first(x, bad):.9g}")

    def freedom(self) -> Iterator[Finding]:
        """The axes that the analysis leaves out of a class: its value does not change along them."""
        for c, x in self.of.values.items():
            for axis, k in self.of.place.items():
                if x.shape[k] > 1 and axis not in self.graph.axes[c] and not self.constant(x, axis):
                    yield Finding(
                        f"{self.of.show_class(c)} is said to be free of {axis.name} and is not",
                        "found by the analysis of axes, or by a rule that united the class",
                        frozenset(r for r, cls in self.graph.facts["united"] if cls == c),
                        frozenset({c}),
                        c,
                    )

    def constant(self, x: np.ndarray, axis: Axis) -> bool:
        """Whether a value is the same all along an axis, where it is finite and means something."""
        k = self.of.place[axis]
        if x.shape[k] <= 1:
            return True
        known = np.where(self.of.lanes_of(x) & np.isfinite(x), x, np.nan)
        with np.errstate(all="ignore"):
            low, high = np.fmin.reduce(known, axis=k), np.fmax.reduce(known, axis=k)
        return not np.any(high - low > ABSOLUTE + RELATIVE * np.maximum(abs(low), abs(high)))

    # rows ----------------------------------------------------------------------------------------------------------------------

    def row(self, relation: Relation, row: tuple[Any, ...]) -> str:
        """What is wrong with a row; nothing if it holds, or has no value."""
        of = self.of
        cells: list[Any] = []
        named: dict[str, Any] = {}
        for k, (cell, sort) in enumerate(zip(row, relation.columns, strict=True)):
            if sort == "T":
                if cell not in of.values:
                    return ""
                x = of.values[cell]
                cells.append(_Known(f"c{cell}", x, lambda cell=cell: of.back(cell)))  # type: ignore[misc]
                named[f"c{cell}"] = x
            elif sort == "L":
                if cell not in self.forms:
                    return ""
                form = self.forms[cell]
                cells.append(_Known(f"form {cell}", form, lambda form=form: form))  # type: ignore[misc]
            elif isinstance(cell, Axis):
                if cell not in of.place:
                    return ""
                cells.append(AxisVar(f"axis {k}"))
                named[f"axis {k}"] = of.place[cell]
            elif isinstance(cell, IndexExpr):
                if not set(cell.axes()) <= set(of.place):
                    return ""
                cells.append(IndexVar(f"position {k}"))
                named[f"position {k}"] = of.position(cell)
            else:
                cells.append(NumberLiteral(cell) if sort == "f64" else cell)
        world = World(named, of.extents)
        self.tested += 1
        with np.errstate(all="ignore"):
            if isinstance(relation.meaning, Claim):
                return self.predicate(relation.meaning, row, relation.columns, named)
            assert isinstance(relation.meaning, Equation)
            left, right = (side.value(world) for side in relation.meaning.sides(*cells))
            where: Any = np.True_
            if (r := RUNNING.get(relation.name)) is not None:
                t = of.values[row[r - 1]]
                where = np.isfinite(of.values[row[r]]) & ~np.isnan(t) & of.finite_references(row[r + 1])
                change = self.forms[row[-1]] if relation.columns[-1] == "L" else of.values[row[-1]]
                where = where & (np.isfinite(t) | np.isfinite(change))
                if relation.name == "changes-by-term":  # a term that is so large takes the digits with it: -3.4e38 for what is masked
                    where = where & ~(np.abs(change) * np.finfo(float).eps > ABSOLUTE + RELATIVE * np.abs(t))
                if of.left_range:  # a zero may stand for a number that is too small, or for 1/inf; an infinity for one that is too large
                    before, after = (of.values[row[r + 1]], t) if "loc" in row else (t, of.values[row[r + 1]])
                    where = where & ((before != 0) | np.isfinite(change)) & (np.isfinite(before) | (np.isinf(after) & (change != 0)))
                    where = where & ~(np.isinf(change) & (before != 0) & np.isinf(after / before))  # the ratio itself is too large
                plain = row[r - 1] in of.settled  # else other references are in it, which are not to be moved
                if relation.columns[-1] == "L" and not plain:
                    return ""
                narrow = np.broadcast_shapes(left.shape, right.shape)  # what is summed over an axis is known where all of it is
                where = where.all(axis=tuple(k for k, n in enumerate(narrow) if n == 1), keepdims=True)
                if plain and "loc" not in row and (said := self.differ(t, of.back(row[r + 1]), where)):
                    return f"it is {said} at the old reference"
            if said := self.differ(left, right, where):
                return said
        for value, axis in relation.meaning.free:
            if not self.constant(of.values[row[value]], row[axis]):
                return f"{of.show_class(row[value])} changes along {row[axis].name}"
        return ""

    def predicate(self, claim: Claim, row: tuple[Any, ...], columns: tuple[str, ...], named: dict[str, Any]) -> str:
        """A row whose meaning is a predicate on arrays, which are whole along the axes that the row names."""
        named_axes = [c for c in row if isinstance(c, Axis)]
        cells = []
        for k, (cell, sort) in enumerate(zip(row, columns, strict=True)):
            if sort == "T":
                x = self.of.values[cell]
                shape = list(x.shape)
                for a in named_axes:
                    shape[self.of.place[a]] = self.of.extents[self.of.place[a]]
                cells.append(np.broadcast_to(x, shape))
            else:
                cells.append(named.get(f"axis {k}", named.get(f"position {k}", cell)))
        good = np.asarray(claim.holds(*cells))
        self.numbers += good.size
        return "" if np.all(good | ~self.lanes(good)) else f"it does not hold at {tuple(map(int, np.argwhere(~good)[0]))}"

    def lanes(self, x: np.ndarray) -> np.ndarray:
        """Where a result means something; a result of another shape means something everywhere."""
        return self.of.lanes_of(x) if x.ndim == len(self.of.extents) else np.ones_like(x, dtype=bool)

    def differ(self, left: np.ndarray, right: np.ndarray, where: Any) -> str:
        """Two numbers that should be equal and are not."""
        left, right, where = np.broadcast_arrays(left, right, where)
        finite = np.isfinite(left), np.isfinite(right)
        opposite = np.isinf(left) & np.isinf(right) & (left != right)
        where = where & ~np.isnan(left) & (finite[0] | finite[1] | opposite) & self.lanes(left)
        scale = np.max(np.abs(left[finite[0]]), initial=0.0)
        good = finite[0] & (np.abs(left - right) <= ABSOLUTE + RELATIVE * np.maximum(np.abs(left), 1e-3 * scale))
        self.numbers += int(where.sum())
        bad = where & ~good
        return f"{_first(left, bad):.9g} and {_first(right, bad):.9g}" if bad.any() else ""

    # linear forms --------------------------------------------------------------------------------------------------------------

    def linear_forms(self) -> Iterator[Finding]:
        """A value for every linear form, and every form against those that it was found equal to."""
        of = self.of
        nodes = [n for n in self.graph.facts.get("form", ()) if n[1] != "Along" or {n[2], n[3]} <= set(of.values)]
        united: dict[int, set[str]] = {}
        for rule, form in self.graph.facts.get("united-form", ()):
            united.setdefault(form, set()).add(rule)
        waiting = nodes
        with np.errstate(all="ignore"):
            while waiting:
                left = []
                for node in waiting:
                    form, name, a, b = node
                    if name != "Along" and not {a, b} <= set(self.forms):
                        left.append(node)
                        continue
                    x, y = (of.values[a], of.back(b)) if name == "Along" else (self.forms[a], self.forms[b])
                    value = x + y if name == "LinearSum" else x * y
                    known = self.forms.setdefault(form, value)
                    if known is not value and (said := self.differ(known, value, np.True_)):
                        rules = united.get(form, set())
                        yield Finding(
                            f"form {form} is {name} of {a} and {b}, and something else: {said}",
                            f"united by {', '.join(sorted(rules)) or 'a rule'}",
                            frozenset(rules),
                            frozenset({a, b} if name == "Along" else ()),
                        )
                if len(left) == len(waiting):
                    break
                waiting = left

    def summed(self) -> Iterator[Finding]:
        """A form summed over a prefix is the same whatever way it is written, and so is the update that is made of it."""
        known: dict[tuple[int, Axis, int], np.ndarray] = {}
        for group, cls, axis, own, form in self.graph.facts.get("summed", ()):
            if form not in self.forms or own not in self.of.values or axis not in self.of.place:
                continue
            with np.errstate(all="ignore"):
                value = self.of.reduced("sum", axis, self.forms[form])
                first = known.setdefault((group, axis, own), value)
                said = "" if first is value else self.differ(first, value, np.True_)
                moved = self.of.update(cls, axis, own) if cls is not None and not said else None
                if moved is not None:
                    said = self.differ(value, moved, np.isfinite(moved))
            self.tested += 1
            if said:
                rules = frozenset(r for r, c in self.graph.facts["united"] if c == cls) if cls is not None else frozenset[str]()
                yield Finding(
                    f"the update of a loop over {axis.name}, form {form} summed, is not what it was found equal to: {said}",
                    f"united by {', '.join(sorted(rules)) or 'a rule'}",
                    rules,
                    frozenset({own}),
                    cls,
                )


def _first(x: np.ndarray, bad: np.ndarray) -> float:
    x, bad = np.broadcast_arrays(x, bad)
    return float(x[tuple(np.argwhere(bad)[0])])
