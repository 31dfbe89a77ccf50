"""Counterexamples for people: what was found, with which numbers, and the two sides as numpy code that runs by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.dtypes import DTYPES
from .. import patterns as P
from ..facts import Equal, Placed
from ..patterns import AxisVar, Pattern, Roll, Var
from ..positions import IndexVar
from ..relations import Equation, Row
from ..world import World
from .compare import Observation, Truth, short, suspicious
from .variables import Plan, columns, name_of

LONGEST = 64  # numbers of one array that a snippet prints

# How numpy spells an op; another one is taken from the table of ops by name.
SPELLED = {
    "add": "({} + {})", "mul": "({} * {})", "neg": "(-{})", "recip": "(1.0 / {})", "square": "np.square({})", "abs": "np.abs({})",
    "maximum": "np.maximum({}, {})", "minimum": "np.minimum({}, {})", "exp": "np.exp({})", "exp2": "np.exp2({})", "log": "np.log({})",
    "log1p": "np.log1p({})", "sqrt": "np.sqrt({})", "rsqrt": "(1.0 / np.sqrt({}))", "tanh": "np.tanh({})", "sin": "np.sin({})",
    "cos": "np.cos({})", "floor": "np.floor({})", "lt": "({} < {})", "le": "({} <= {})", "gt": "({} > {})", "ge": "({} >= {})",
    "eq": "({} == {})", "ne": "({} != {})", "not": "({} == 0)", "where": "np.where({} != 0, {}, {})",
}  # fmt: skip
REDUCED = {
    "sum": "np.sum({}, axis={}, keepdims=True)",
    "max": "np.max({}, axis={}, keepdims=True, initial=-np.inf)",
    "min": "np.min({}, axis={}, keepdims=True, initial=np.inf)",
}


def describe(plan: Plan, fact: Any, seen: Observation, world: World) -> str:
    """What is false, the first element where it is, and the value of every variable."""
    lines = [_headline(seen, world)]
    if world.bitwise:
        lines.append(f"  compared bit by bit in {np.dtype(world.dtype).name}, as licence 'exact' promises")
    if world.rational:
        lines.append("  computed exactly, in rational numbers")
    for v in plan.variables.values():
        if v.name not in world.values or v.name == "whole__":
            continue
        value = world.values[v.name]
        if isinstance(v, AxisVar):
            lines.append(f"  axis {v.name}: {world.extents[value]} long{_shared(plan, v, world)}")
        elif isinstance(v, IndexVar):
            placed = next((f.place for f in plan.rule.needs if isinstance(f, Placed) and f.at.name == v.name), v)
            lines.append(f"  position {placed} = {short(value)}")
        elif isinstance(value, np.ndarray):
            along = [a.name for a in plan.axes if value.shape[a.position(world)] > 1]
            lines.append(f"  {v.name}[{', '.join(along)}] = {short(value)}")
        else:
            lines.append(f"  {v.name} = {value}")
    for (when, r), value in sorted(world.refs.items(), key=lambda x: x[0]):
        if when == "new" and r in plan.variables and any(isinstance(n, P.Ref) and n.r.name == r for n in plan.nodes()):
            lines.append(f"  {r} at the new reference = {short(value)}")
    return "\n".join(lines)


def _headline(seen: Observation, world: World) -> str:
    if isinstance(seen, Truth):
        return seen.text
    bad = suspicious(seen, world)
    left, right, bad = np.broadcast_arrays(np.asarray(seen.left), np.asarray(seen.right), bad)
    if not bad.any():
        return f"{seen.names[0]} is {short(seen.left)}, {seen.names[1]} is {short(seen.right)}"
    at = tuple(int(k) for k in np.argwhere(bad)[0])
    a, b = left[at], right[at]
    place = f" at {at}" if left.size > 1 else ""
    return f"{seen.names[0]} is {a}, {seen.names[1]} is {b}{place}"


def _shared(plan: Plan, v: AxisVar, world: World) -> str:
    same = [a.name for a in plan.axes if a.name != v.name and world.values[a.name] == world.values[v.name]]
    return f" (the same axis as {', '.join(same)}: nothing says that they differ)" if same else ""


def snippet(plan: Plan, fact: Any, seen: Observation, world: World) -> str:
    """Both sides as a program that needs numpy only, or ``""`` where they are not two patterns over small arrays."""
    sides = _sides(fact, world)
    equations = ("left", "free-factor", "free-term", "changes-by-term", "changes-by-factor")
    if sides is None or world.bitwise or isinstance(seen, Truth) or seen.names[0] not in equations:
        return ""
    writer = _Writer(plan, world)
    try:
        left, right = writer.code(sides[0]), writer.code(sides[1])
        lines = writer.definitions()
    except NotImplementedError:
        return ""
    text = ["import numpy as np", *writer.imports(), "", *lines, f"left = {left}", f"right = {right}", 'print("left", left.ravel())']
    text.append('print("right", right.ravel())')
    return "\n\nboth sides in numpy, one dimension per axis:\n\n" + "\n".join(f"    {line}".rstrip() for line in text) + "\n"


def _sides(fact: Any, world: World) -> tuple[Any, Any] | None:
    if isinstance(fact, Equal):
        return None if isinstance(fact.right, Roll) else (fact.left, fact.right)
    if isinstance(fact, Row) and isinstance(fact.relation.meaning, Equation):
        return fact.relation.meaning.sides(*columns(fact, world))
    return None


class _Writer:
    """Patterns as numpy expressions; values that premises define are written as their definitions."""

    def __init__(self, plan: Plan, world: World) -> None:
        self.plan, self.world = plan, world
        self.names: dict[str, str] = {}
        self.table = self.monoids = self.whole = False

    def imports(self) -> list[str]:
        """What else the code needs."""
        lines = ["from eqfuse.ir.monoids import MONOIDS"] if self.monoids else []
        lines += ["from eqfuse.ir.ops import OPS"] if self.table else []
        if self.whole:
            lines += ["", "", "def whole(x, axis, n):", "    return np.repeat(x, n, axis) if x.shape[axis] != n else x", ""]
        return lines

    def definitions(self) -> list[str]:
        """Assignments of all names used, in order."""
        return list(self.names.values())

    def code(self, p: Any) -> str:
        """An expression."""
        w = self.world
        if isinstance(p, Var):
            return self.name(p.name)
        if isinstance(p, P.Map):
            op = name_of(p.op, w)
            args = [self.code(a) for a in p.args]
            if op in SPELLED:
                return SPELLED[op].format(*args)
            self.table = True
            return f"OPS[{op!r}].numpy({', '.join(args)})"
        if isinstance(p, P.Const):
            return self.literal(w.full(p.number.value(w)))
        if isinstance(p, P.Index | P.Extent):
            return self.literal(p.value(w))
        if isinstance(p, P.Reduce) and len(p.args) == 1:
            k, monoid = p.axis.position(w), name_of(p.monoid, w)
            self.whole = True
            body = f"whole({self.code(p.x)}, {k}, {w.extents[k]})"
            if monoid == "mean":
                return f"(np.sum({body}, axis={k}, keepdims=True) / {max(w.extents[k], 1)})"
            if monoid in REDUCED:
                return REDUCED[monoid].format(body, k)
            self.monoids = True
            return f"MONOIDS[{monoid!r}].reduce({body}, axis={k}, keepdims=True)"
        if isinstance(p, P.Ref):
            return self.literal(p.value(w))
        if isinstance(p, P.Cast):
            to, x = DTYPES[name_of(p.to, w)], self.code(p.x)
            if to.is_float:
                return x
            return f"({x} != 0)" if to.kind == "bool" else f'{x}.astype("int64").astype("{to.name}").astype(float)'
        raise NotImplementedError(type(p).__name__)

    def name(self, name: str) -> str:
        """A variable: its definition by a premise, or its numbers."""
        pattern = self.plan.matches.get(name)
        if name == "whole__" and isinstance(pattern, Pattern):
            return self.code(pattern)
        if name not in self.names:
            try:
                code = self.code(pattern) if isinstance(pattern, Pattern) else self.literal(self.world.values[name])
            except NotImplementedError:
                code = self.literal(self.world.values[name])
            self.names[name] = f"{name} = {code}"
        return name

    def literal(self, x: np.ndarray) -> str:
        """An array with its shape."""
        x = np.asarray(x, float)
        if x.size > LONGEST:
            raise NotImplementedError("a long array")
        if not x.size:
            return f"np.zeros({x.shape})"
        return f"np.array({x.tolist()})".replace("inf", "np.inf").replace("nan", "np.nan")
