"""The check of rules on layouts: both sides as maps, element by element.

Layouts are drawn as maps: a few iters, copies and an offset on axes of hardware, extents 1 to 3, strides of both signs and 0, and now and
then a slice of one, which need not be a layout.  Numbers of the rule are drawn likewise, or from those that it names
and their neighbours, changed where a comparison asks for others
(as in :mod:`.draw`), and a choice that makes the left side no layout is given up.  A right side that is none is refuted.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from typing import Any

from ...errors import LayoutError, UnsoundRuleError
from ...ir.layout.terms import KINDS, Places, TooLarge, meaning
from .. import patterns as P
from ..comparisons import Compare
from ..facts import Equal, Match
from ..iters import AXES, LayoutNode, LayoutVar, Measure, OtherName, drawn
from ..rule import WHOLE, Rule
from ..world import World
from .draw import Chooser, Options, Tape, Unusable, require, shrink

EXTENTS = Options((2, 1, 3))
STRIDES = Options((1, 2, 0, -1, 3, 4, -2, 6, -3, 8))
NUMBERS = {  # of the rule, by where they stand, and the least that may stand there
    "extent": ((2, 1, 3, 4, 6), 1),
    "first": ((0, 1, 2, 3, 4, 6), 0),
    "": ((1, 2, 0, 3, 4, -1, 6, -2, 8, -4, 5, -3, 12), -math.inf),
}
NAMES = Options(AXES)
FEW = Options((1, 2, 0))


def check_layouts(rule: Rule, examples: int, end: float) -> tuple[int, Counter[int]]:
    """(examples with premises that hold, places compared by conclusion); raises UnsoundRuleError with a small counterexample."""
    seen: Counter[int] = Counter()
    count = seed = 0
    while seed < 8 * examples and count < examples and not (count and time.perf_counter() > end):
        tape = Tape(seed)
        seed += 1
        if (world := _world(tape, rule)) is None:
            continue
        count += 1
        if _wrong(rule, world, seen):
            marks = shrink(tape.marks, lambda m: bool((w := _world(Tape(None, m), rule)) and _wrong(rule, w, Counter())))
            small = _world(Tape(None, marks), rule)
            assert small is not None
            said = f"rule {rule.name} is false: {_wrong(rule, small, seen)}{_shown(small)}"
            raise UnsoundRuleError(said, where=rule.where, cure="add the missing condition")
    return count, seen


def _layout(choose: Chooser) -> Places:
    found = meaning("point", (), ())
    for kind in ("sharded", "copies"):
        for _ in range(choose(FEW)):
            found = meaning(kind, (choose(EXTENTS), choose(STRIDES), choose(NAMES)), (found,))
    found = meaning("offset", (choose(STRIDES), choose(NAMES)), (found,)) if choose(Options((False, False, True))) else found
    if len(found) > 2 and choose(Options((False,) * 5 + (True,))):
        first = choose(Options(range(len(found))))
        found = meaning("slice", (first, choose(Options(range(1, len(found) - first + 1)))), (found,))
    return found


def _world(choose: Chooser, rule: Rule) -> World | None:
    """Values of the rule's variables at which its premises hold, or ``None``."""
    matches = [f for f in rule.needs if isinstance(f, Match)]
    facts = [f for f in rule.needs if not isinstance(f, Match)]
    asked, compared = [f for f in facts if isinstance(f, Measure)], [f for f in facts if isinstance(f, Compare)]
    made = {f.var.name for f in matches}
    world = World({}, ())
    inside = [n for f in (*rule.needs, *rule.gives) for part in f.parts() for n in P.walk(part)]
    variables = {v.name: v for v in inside if P.is_variable(v)}
    named = sorted({int(n.number) + d for n in inside if isinstance(n, P.NumberLiteral) and abs(n.number) < 1000 for d in (-1, 0, 1)})
    nodes = [n for f in matches for n in P.walk(f.pattern) if isinstance(n, LayoutNode)]
    slots = [(at, v) for n in nodes for at, v in zip(KINDS[n.kind][0], n.attrs(), strict=True)]
    places = {v.name: at for at, v in slots if at in NUMBERS and isinstance(v, P.NumberVar)}
    try:
        for name, v in variables.items():
            if isinstance(v, LayoutVar) and name not in made:
                world.values[name] = _layout(choose)
            elif isinstance(v, P.NameVar):
                world.values[name] = choose(NAMES)
            elif isinstance(v, P.NumberVar):
                usual, lowest = NUMBERS[places.get(name, "")]
                world.values[name] = choose(Options((*usual, *(n for n in named if n >= lowest and n not in usual))))
        waiting = matches
        bound = {v.name for f in matches for v in P.walk(f.pattern) if isinstance(v, P.NumberVar)}
        for comparing in (True, False):  # what is measured may be compared, and what is compared is matched
            for f in asked:
                known = all(n in world.values for n in P.variables(f.x))
                if known and isinstance(f.number, P.NumberVar) and (comparing or f.number.name not in bound):
                    world.values[f.number.name] = f.measured(world)
            for c in compared if comparing else ():
                c.settle(lambda n: choose(Options(range(n))), world)
            while comparing and (ready := [m for m in waiting if all(n in world.values for n in P.variables(m.pattern))]):
                for m in ready:
                    value = drawn(m.pattern, world)
                    require(world.values.setdefault(m.var.name, value) == value)
                waiting = [m for m in waiting if not any(m is other for other in ready)]
        require(not waiting)
        require(all(f.holds(world) for f in facts if isinstance(f, Compare | Measure | OtherName)))
    except (Unusable, LayoutError):
        return None
    return world


def _wrong(rule: Rule, world: World, seen: Counter[int]) -> str:
    """What is false of a conclusion, in words; empty if nothing is."""
    for k, fact in enumerate(rule.gives):
        try:
            if isinstance(fact, Measure):
                there, said = fact.measured(world), fact.number.value(world)
                seen[k] += 1
                if there != said:
                    return f"{type(fact).__name__.lower()} is {there}, not {said:g}"
            elif isinstance(fact, Equal):
                left, right = drawn(fact.left, world), drawn(fact.right, world)
                seen[k] += sum(map(len, left))
                if len(left) != len(right):
                    return f"{len(left)} elements on the left, {len(right)} on the right"
                for x, (a, b) in enumerate(zip(left, right, strict=True)):
                    if a != b:
                        return f"element {x} is at {_set(a)} on the left, at {_set(b)} on the right"
        except TooLarge:
            continue
        except LayoutError as error:
            return f"the right side is no layout: {error.message}"
        except (ZeroDivisionError, OverflowError) as error:
            return f"the right side is no layout: {error}"
    return ""


def _set(places: Any) -> str:
    return "{" + ", ".join("+".join(f"{v}@{a}" for a, v in p) or "0" for p in sorted(places)) + "}"


def _shown(world: World) -> str:
    return "".join(f"\n  {n} = {' '.join(map(_set, v)) if isinstance(v, tuple) else v}" for n, v in world.values.items() if n != WHOLE)
