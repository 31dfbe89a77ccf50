"""Drawing the numbers of one check: shapes, values, types and names.

A world is a sequence of choices, each from a list whose simplest option comes first.  Hypothesis makes them for a part of the examples,
since it likes edges and shrinks well; a :class:`Tape` makes them evenly at random for the others, which is faster, and shrinks its own.

Shapes: every value has or has not each axis of a small universe (the rule's axes and one more).  Axes are 0 to 7 long, now and then
one is long, or as long as a number that the rule names; an axis that is not the rule's costs little, so it is often longer.  Values:
whole numbers, ties, zeros of both signs, many magnitudes (the ends of every type included), what the rule names (:mod:`.dictionary`),
numbers where functions saturate, a few that all values share so that they meet and cancel, some or all of them -inf, some +inf, some
NaN, each where no premise forbids it.  Three arithmetics:

``real``      float64: the claim is about real numbers, and rounding is told from falsehood in :mod:`.compare`
``exact``     float64, float32 or float16, compared bit by bit
``rational``  fractions: small ones with ties, and large ones, where a false identity hardly holds by accident
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ...ir.dtypes import DTYPES
from ...ir.semantics import RATIONAL
from .. import patterns as P
from ..comparisons import Compare
from ..facts import IndexFree, NonEmpty, Placed, Within
from ..patterns import AxisVar, NumberVar, View
from ..positions import IndexVar, NoPosition, ReadAt
from ..relations import Row, Trait, Vanishing
from ..world import World
from . import compare, dictionary
from .solve import arguments
from .sweep import COUNTED, DRAWN, Sweep, numbers_of
from .variables import Plan, columns, moved


class Options(tuple[Any, ...]):
    """What a choice is made from, simplest first."""

    @cached_property
    def strategy(self) -> st.SearchStrategy[Any]:
        """The same for Hypothesis."""
        return st.sampled_from(self)


class Unusable(Exception):
    """The choices made do not lead to an example."""


class Tape:
    """Choices made at random, or played back: the numbers of the options chosen are ``marks``."""

    def __init__(self, seed: int | None = None, marks: Sequence[int] = ()) -> None:
        self.rng = None if seed is None else random.Random(seed)
        self.given, self.marks = list(marks), list[int]()

    def __call__(self, options: Options) -> Any:
        k = len(self.marks)
        if k < len(self.given):
            mark = min(self.given[k], len(options) - 1)
        else:
            mark = self.rng.randrange(len(options)) if self.rng else 0
        self.marks.append(mark)
        return options[mark]


def shrink(marks: Sequence[int], fails: Callable[[Sequence[int]], bool], tries: int = 400) -> list[int]:
    """The smallest choices found that still fail: each is lowered while the example keeps failing."""
    best, changed = list(marks), True
    while changed and tries > 0:
        changed = False
        for k in range(len(best)):
            for lower in sorted({0, best[k] // 2, best[k] - 1}):
                if not 0 <= lower < best[k] or tries <= 0:
                    continue
                tries -= 1
                if fails(candidate := [*best[:k], lower, *best[k + 1 :]]):
                    best, changed = candidate, True
                    break
    return best


def require(condition: object) -> None:
    """Give the example up unless the condition holds."""
    if not condition:
        raise Unusable


LENGTHS = Options((2, 1, 3, 0, 5, 2, 3, 4, 0, 7, 2, 3))
LONG = (257, 64, 127)
OTHER = Options((2, 1, 3, 5, 0, 16, 40, 3, 16, 40, 2, 64))  # of an axis that is not the rule's: more numbers at hardly any cost
ALONE = Options((2, 1, 3, 0, 16, 5, 100, 16, 200))  # of both axes where the rule has none: pairs of all that is worth a try
MOST = 20_000  # numbers in one value, if axes of others add to them
FAR = 5000  # an axis longer than that is rare, and the only one that is longer than 1
SEEDS = Options(range(2**12))
RARE = Options(range(40))
COIN = Options(range(4))
BEYOND = 0.3  # of uniform values, so many lie all beyond one number that the rule names
PAST = Options((0, 0, 1, 3))  # how far positions may be past the end of an axis
MASKS = {d: Options((*range(2**d), *(2**d - 1,) * 2 ** (d - 1))) for d in range(1, 8)}  # which axes a value has; often all
NUMBERS = (1.0, 0.0, 2.0, -1.0, 0.5, -3.0, 1.4426950408889634, 7.0, -0.25, 1000.0)
# constants are seldom so, but may be
FARTHER = (
    math.inf, -math.inf, -7.0, 100.0, -100.0, 3.0, 1e-3, -1e3, 1e10, -1e10, 1e-10, 1e30, -1e-30, 1 / 3,
)  # fmt: skip
TYPES = Options(("float64", "float32", "float16"))
REAL = (
    "plain", "ties", "ordinary", "wide", "masked", "zeros", "empty", "mixed", "extreme", "infinite", "nan", "named", "uniform", "shared",
    "whole", "special",
)  # fmt: skip
OFTEN = ("mixed", "masked", "wide", "mixed", "named", "named", "extreme", "uniform", "shared", "special")
FRACTIONS = ("plain", "ties", "small", "large", "large", "named")
MEETING = ("special", "named", "special", "mixed", "special", "shared", "special")  # styles that show most if all values have them
EXACT = (*REAL, *("extreme",) * 4)
HOWS = {"real": Options((*REAL, *OFTEN)), "exact": Options((*EXACT, *OFTEN)), "rational": Options(FRACTIONS)}
THEMES = {  # one style for all values of a world, or, as often, one for each
    "real": Options((*(None,) * len(REAL), *REAL, *MEETING)),
    "exact": Options((*(None,) * len(EXACT), *EXACT, *MEETING)),
    "rational": Options((None,)),
}
EXTREMES = (5e-324, 2.5e-310, 1e-300, 1e-160, 1e-40, 6e-8, 1e-3, 1.0, 1 + 2**-10, 1e4, 1e30, 1e150, 1e160, 1e300, 1.7976931348623157e308)
AT_THE_ENDS = 0.3  # of values of a type, so many are where it ends
LONGEST_IDLE = 64  # of an axis of which the rule says only how long it is: no value has it if it is longer
FARTHEST = 1e100  # without longer floats
SPANS = (5.0, 20.0, 100.0, 750.0)  # where functions saturate, in all types


Chooser = Callable[[Options], Any]


@lru_cache(maxsize=4096)
def _options(choices: tuple[Any, ...]) -> Options:
    return Options(choices)


@lru_cache(maxsize=256)
def _constants(named: tuple[float, ...]) -> Options:
    """The numbers of constants: usual ones half of the time, then others, then what the rule names."""
    near = dictionary.near(named, np.float64).tolist() if named else []
    other = [*FARTHER, *near, *(dictionary.derived(named, np.float64)[0].tolist()[::3] if named else ())]
    return Options((*NUMBERS * max(1, len(other) // len(NUMBERS)), *other))


def draw_world(draw: Chooser, plan: Plan, mode: str, sweep: Sweep = DRAWN) -> World:
    """Everything that premises do not define; what they define is computed by :mod:`.solve`."""
    dtype: Any = {"real": float, "rational": object}.get(mode)
    if dtype is None:
        dtype = np.dtype(sweep.dtype or draw(TYPES)).type
    world = World({}, (), dtype=dtype, bitwise=mode == "exact")
    _lengths(draw, plan, world, sweep)
    rng = np.random.default_rng(draw(SEEDS))
    source = Source(draw, plan, mode, world, rng, draw(THEMES[mode]), sweep)
    _names(draw, plan, world)
    _compared(draw, plan, world)
    require(_indices(draw, plan, world, rng))
    defined = {v.name for v, _, _ in plan.equations(world) if isinstance(v, P.Var)}
    for v in plan.tensors:
        if v.name not in defined:
            world.values[v.name] = source.array(plan.styles.get(v.name, {}))
    for _, expr, _ in plan.equations(world):
        if isinstance(expr, Vanishing):
            world.values[f"{expr.x.name} elsewhere"] = source.array({})
    for fact in plan.rule.needs:
        if isinstance(fact, Within) and isinstance(fact.x, P.Var) and fact.x.name in world.values:
            size = fact.size.value(world)
            world.values[fact.x.name] = np.clip(world.values[fact.x.name], world.numbers(-size), world.numbers(size))
    _obey(plan, world, rng)
    if plan.forms:
        _old_values(plan, world, source)
    if plan.moves:
        _references(plan, world, source)
    return world


def _obey(plan: Plan, world: World, rng: np.random.Generator) -> None:
    """Values of which a premise claims something, number by number, keep what obeys it; the rest becomes that, or small whole numbers that
    do.  A claim on several values, or along an axis, only filters what is drawn."""
    for row, claim in plan.assumed():
        values = [a for a in row.args if isinstance(a, P.Var)]
        if len(values) != 1 or values[0].name not in world.values or any(isinstance(a, AxisVar | P.Node) for a in row.args):
            continue
        name, x = values[0].name, world.values[values[0].name]
        few = np.broadcast_to(x.reshape(-1)[:0], 0)
        for tried in (x, world.numbers(rng.choice(COUNTED, size=x.shape)), world.numbers(rng.choice(dictionary.USUAL, size=x.shape))):
            good = np.asarray(claim.holds(*arguments(row, replace(world, values={**world.values, name: tried}))), bool)
            if good.shape != x.shape:
                break
            few = tried[good]
            if few.size:
                world.values[name] = np.where(good, tried, rng.choice(few, size=x.shape))
                break


def _lengths(draw: Chooser, plan: Plan, world: World, sweep: Sweep) -> None:
    """The universe: the rule's axes and one more."""
    small = world.rational or plan.tests_itself
    count = max(2, len(plan.axes) + 1)
    lengths = [draw(LENGTHS if small or k < len(plan.axes) else OTHER if plan.axes else ALONE) for k in range(count)]
    if plan.axes and np.prod(lengths) > MOST:
        lengths[len(plan.axes) :] = [min(n, 3) for n in lengths[len(plan.axes) :]]
    if sweep.lengths or sweep.free > MOST:
        lengths = [min(n, 2) for n in lengths]
    if sweep is not DRAWN:
        lengths[-1] = sweep.free or lengths[-1]
        for name, n in sweep.lengths:
            lengths[[a.name for a in plan.axes].index(name)] = n
    elif (odd := draw(RARE)) < 2 * len(LONG) and odd:
        lengths = [min(n, 2) for n in lengths]
        lengths[odd % max(1, len(plan.axes))] = LONG[odd % len(LONG)]
    elif plan.axes and plan.lengths and draw(COIN) == 1:
        named = draw(_options(plan.lengths))
        require(named < FAR or draw(COIN) == 1)
        lengths = [min(n, 1 if named > FAR else 2) for n in lengths]
        lengths[draw(_options(tuple(range(len(plan.axes)))))] = named
    for position, axis in enumerate(plan.axes):
        world.values[axis.name] = position
    if plan.may_coincide and draw(COIN) == 1:
        first, second = draw(Options(plan.may_coincide))
        world.values[second] = world.values[first]
    for fact in plan.rule.needs:
        if isinstance(fact, NonEmpty):
            at = fact.axis.position(world)
            lengths[at] = max(lengths[at], 1)
        if isinstance(fact, Row) and fact.relation.name == "part":  # nothing is split into nothing
            for a in fact.args:
                lengths[a.position(world)] = max(lengths[a.position(world)], 1)
        if isinstance(fact, Row) and fact.relation.name in ("split", "ragged"):
            j, jo, ji = (a.position(world) for a in fact.args[:3])
            lengths[jo], lengths[ji] = max(lengths[jo], 1), max(lengths[ji], 1)
            lengths[j] = lengths[jo] * lengths[ji]
            if fact.relation.name == "ragged":
                lengths[j] = max(lengths[j] - draw(_options(tuple(range(1, lengths[ji] + 1)))), 1)
    for fact in plan.rule.needs:
        if isinstance(fact, Row) and fact.relation.name == "parts-before":
            j, jo, ji, je = (a.position(world) for a in fact.args[:4])
            lengths[jo], lengths[ji] = max(lengths[jo], 1), max(lengths[ji], 1)
            lengths[j] = max(lengths[jo] * lengths[ji] - draw(_options(tuple(range(lengths[ji])))), 1)
            lengths[je] = lengths[jo]
    world.extents = tuple(lengths)


def _names(draw: Chooser, plan: Plan, world: World) -> None:
    """Ops, monoids and numbers, by what premises say of them."""
    for name, choices in plan.choices.items():
        if world.rational:
            choices = tuple(c for c in choices if c not in P.OPS or c in RATIONAL)
        require(bool(choices))
        world.values[name] = draw(_options(choices))
    together: dict[str, str] = {}
    for fact in plan.rule.needs:  # several names that go together are drawn together
        if isinstance(fact, Row) and isinstance(trait := fact.relation.meaning, Trait) and trait.names is not None:
            rows = [r for r in trait.rows() if all(a == n for a, n in zip(fact.args, r, strict=False) if isinstance(a, str))]
            known = [(k, together[a.name]) for k, a in enumerate(fact.args) if isinstance(a, P.NameVar) and a.name in together]
            rows = [r for r in rows if all(r[k] == n for k, n in known)]
            require(bool(rows))
            names = draw(_options(tuple(rows)))
            together |= {a.name: n for a, n in zip(fact.args, names, strict=False) if isinstance(a, P.NameVar)}
    world.values |= together
    for v in plan.variables.values():
        if isinstance(v, NumberVar):
            number = draw(_constants(plan.literals))
            require(not world.rational or np.isfinite(number))
            world.values[v.name] = number
    for fact in plan.rule.needs:
        if isinstance(fact, Row) and isinstance(fact.relation.meaning, Trait):
            trait, args = fact.relation.meaning, columns(fact, world)
            literals = args if trait.number is None else args[:-1]
            require(trait.holds(*literals))
            if trait.number is not None:
                number = trait.number(args[0])
                require(not world.rational or np.isfinite(number))
                if isinstance(args[-1], NumberVar):
                    world.values[args[-1].name] = number
                else:
                    require(float(args[-1].value(world)) == number)
    if world.rational:
        for v in plan.variables.values():
            if isinstance(v, NumberVar):
                world.values[v.name] = Fraction(world.values[v.name])
    for fact in plan.rule.needs:
        if isinstance(fact, Within):
            require(fact.size.value(world) >= 0)


def _compared(draw: Chooser, plan: Plan, world: World) -> None:
    """Numbers and lengths that obey what premises say of them."""
    facts = [f for f in plan.rule.needs if isinstance(f, Compare)]
    for _ in range(3):
        for fact in facts:
            fact.settle(lambda n: draw(_options(tuple(range(n)))), world)
    require(all(f.holds(world) for f in facts))
    require(all(f.axis.extent(world) for f in plan.rule.needs if isinstance(f, NonEmpty)))


def _indices(draw: Chooser, plan: Plan, world: World, rng: np.random.Generator) -> bool:
    """Positions for index variables, some past the end of the axis that they read, as those of parts are; false if it has none."""
    reads: dict[str, AxisVar] = {}
    computed = {f.at.name for f in plan.rule.needs if isinstance(f, Placed)}
    unmentioned: dict[str, set[int]] = {}
    for fact in plan.rule.needs:
        if type(fact) is IndexFree:
            unmentioned.setdefault(fact.at.name, set()).add(fact.axis.position(world))
    for node in plan.nodes():
        if isinstance(node, View) and node.at.name not in computed:
            reads.setdefault(node.at.name, node.axis)
    within = {v: f.reads[0] for f in plan.rule.needs if isinstance(f, Placed) and f.reads for v in P.variables(f.place)}
    for v in plan.variables.values():
        if isinstance(v, IndexVar) and v.name in within and v.name not in computed:
            reads.setdefault(v.name, within[v.name])  # others are computed from it, which may leave the axis
    for name, axis in reads.items():
        n, mask = axis.extent(world), draw(MASKS[len(world.extents)])
        shape = [m if k not in unmentioned.get(name, ()) and mask >> k & 1 else 1 for k, m in enumerate(world.extents)]
        if not n:
            return False
        world.values[name] = rng.integers(0, rng.integers(1, n + 1) if name in within else n + draw(PAST), size=shape)
    same: dict[str, np.ndarray] = {}  # positions that a premise says are those along an axis
    undone = {f.at.name: f.place for f in plan.rule.needs if isinstance(f, Placed) and isinstance(f.place, ReadAt)}
    for fact in plan.rule.needs:
        if not isinstance(fact, Row) or not fact.relation.given:
            continue
        if fact.relation.name in ("split", "ragged"):
            _, jo, ji, e = fact.args
            outer, inner = (np.asarray(P.Index(a).value(World(world.values, world.extents)), int) for a in (jo, ji))
            world.values[e.name] = outer * ji.extent(world) + inner
        elif fact.relation.name == "parts-before":
            *axes, of, again, which, inside = fact.args
            at, outer, inner, part = (np.asarray(P.Index(a).value(World(world.values, world.extents)), int) for a in axes)
            length = axes[2].extent(world)
            world.values |= {of.name: outer * length + inner, again.name: part, which.name: at // length, inside.name: at % length}
        elif fact.relation.name == "same-index":
            e, j = fact.args
            same[e.name] = world.values[e.name] = np.asarray(P.Index(j).value(World(world.values, world.extents)), int)
            if e.name in undone and not _undo(undone[e.name], same[e.name], world, rng):
                return False
    for fact in plan.rule.needs:
        if isinstance(fact, Placed):
            try:
                world.values[fact.at.name] = fact.place.value(world)
            except NoPosition:
                return False
            if not fact.inside(world) or np.any(world.values[fact.at.name] != same.get(fact.at.name, world.values[fact.at.name])):
                return False
    return all(v.name in world.values for v in plan.variables.values() if isinstance(v, IndexVar))


def _undo(place: ReadAt, along: np.ndarray, world: World, rng: np.random.Generator) -> bool:
    """Draw positions e, and f at which the axis k is read, such that e[k = f] is the position ``along`` another; whether there are any."""
    k, n = place.axis.position(world), along.size
    m, e, f = world.extents[k], place.outer, place.inner
    if not isinstance(e, IndexVar) or not isinstance(f, IndexVar) or m < n:
        return False
    back = rng.permutation(np.concatenate([np.arange(n), rng.integers(0, n, m - n)]))
    along, _ = np.broadcast_arrays(along, world.values[f.name])
    to = [rng.choice(np.flatnonzero(back == at)) for at in along.ravel()]
    world.values[e.name] = back.reshape([-1 if d == k else 1 for d in range(len(world.extents))])
    world.values[f.name] = np.array(to, int).reshape(along.shape)
    return True


def _old_values(plan: Plan, world: World, source: Source) -> None:
    """Values that forms read at the old reference: anything that may contain a running value had another one there."""
    named = {v.name for m in plan.rows for v in (m.t, m.r, m.tn, m.rest) if isinstance(v, P.Var)}
    for v in plan.tensors:
        if v.name in world.values and v.name not in named | plan.unmoved and v.sort == "T":
            like = world.values[v.name]
            other = source.array(plan.styles.get(v.name, {}))
            world.values[f"{v.name} at old"] = other if other.shape == like.shape else like


def _references(plan: Plan, world: World, source: Source) -> None:
    """New values of references, and of everything that may contain a running value and that no premise protects."""
    rows = [*plan.rows, *(m for f in plan.rule.gives if (m := moved(f)))]
    axes = {m.r.name: m.axis.name for m in rows if isinstance(m.r, P.Var)}
    axes |= {n.r.name: n.axis.name for n in plan.nodes() if isinstance(n, P.Ref) and isinstance(n.r, P.Var)}
    for name, axis in axes.items():
        style = plan.styles.get(name, {})
        style = style | {"finite": True, "free": {*style.get("free", ()), axis}}
        world.values[f"{name} at new"] = source.array(style)
    named = {v.name for m in rows for v in (m.t, m.r, m.tn, m.rest) if isinstance(v, P.Var)}
    for v in plan.tensors:
        if v.name in world.values and v.name not in named | plan.unmoved:
            world.values[f"{v.name} at new"] = source.array(plan.styles.get(v.name, {}))


@dataclass
class Source:
    """Where the values of one world come from: ``theme`` is the style of all of them, if there is one."""

    draw: Chooser
    plan: Plan
    mode: str
    world: World
    rng: np.random.Generator
    theme: str | None
    sweep: Sweep = DRAWN
    swept: int = 0  # values that have the numbers of the sweep

    @property
    def dtype(self) -> Any:
        """The type whose numbers are meant."""
        return np.float64 if self.mode != "exact" else self.world.dtype

    @cached_property
    def shared(self) -> np.ndarray:
        """A few numbers of any style, which all values of the world share."""
        styles = self.rng.choice(["ties", "ordinary", "wide", "extreme", "named", "uniform"], size=2)
        few = np.concatenate([self.numbers(str(how), [2]) for how in styles])
        return np.concatenate([few, [m for x in few[:2] for m in dictionary.neighbours(float(x), self.dtype)]])

    def array(self, style: dict[str, Any]) -> np.ndarray:
        """One value: its axes, its style of numbers, and what premises say of it."""
        world, rng = self.world, self.rng
        absent = {world.values[n] for n in style.get("free", ())}
        mask, how = self.draw(MASKS[len(world.extents)]), self.theme or self.draw(HOWS[self.mode])
        if self.sweep.how is not None:
            mask |= 1 << len(world.extents) - 1 if self.sweep.free else 2 ** len(world.extents) - 1
        absent |= {world.values[a] for a in self.plan.only_lengths if world.extents[world.values[a]] > LONGEST_IDLE}
        shape = [n if mask >> k & 1 and k not in absent else 1 for k, n in enumerate(world.extents)]
        if style.get("truth") or "onehot" in style:
            x = rng.integers(0, 2, size=shape).astype(float)
            if "onehot" in style:
                at = world.values[style["onehot"]]
                x = x * (np.cumsum(x != 0, axis=at) <= 1)
                if x.shape[at] != world.extents[at]:
                    x = x * 0.0
            return _exact(x) if world.rational else x.astype(world.dtype)
        name = P.name_of(style["type"], world) if "type" in style else None
        if world.rational and name is None and self.sweep.how is None:
            return _fractions(how, style, shape, rng, self.plan.literals)
        x = self._swept(style, name, shape) if self.sweep.how is not None else self.numbers(how, shape)
        if name is not None and self.sweep.how is None and rng.random() < AT_THE_ENDS:
            x = np.where(rng.random(size=shape) < 0.5, rng.choice(dictionary.ends(name), size=shape), x)
        sign = style.get("sign", 0)
        if sign:
            x = np.abs(x) if sign > 0 else -np.abs(x)
        if sign == 2:
            x = np.where(x == 0, 0.125 if name is None else 1.0, x)
        if "low" in style or "high" in style:
            x = np.clip(x, style.get("low"), style.get("high"))
        if name is not None:
            return P.rounded(_exact(x) if world.rational else x, name, world)
        if world.rational:
            return _exact(x)
        if not style.get("finite"):
            x = _not_finite(how, x, sign, style, rng)
        if "finite or" in style:
            x = np.where(~np.isfinite(x) & (x != style["finite or"].value(world)), 1.0, x)
        with np.errstate(all="ignore"):
            x = x.astype(world.dtype)
            return np.where(x == 0, world.dtype(0.125), x) if sign == 2 else x

    def _swept(self, style: dict[str, Any], name: str | None, shape: list[int]) -> np.ndarray:
        """The numbers of the sweep, for a value of a type, if it has one: the first value has them in order along the last axis."""
        k, how = self.swept, self.sweep.how
        self.swept += 1
        if how == "least" or how == "largest":
            types = [DTYPES[t] for t in ([name] if name else self.plan.named_integers) or ["int8"]]
            one = min(types, key=lambda t: t.largest)
            return np.full(shape, one.least if how == "least" else one.largest)
        if how == "beyond" and style.get("asked"):
            return self.rng.integers(0, 2, size=shape).astype(float)
        if how == "beyond":
            return self.sweep.at * self.rng.choice([1.0, 2.0, 10.0], size=shape)
        every = COUNTED if how == "count" or name is None else numbers_of(name)
        n = shape[-1]
        if how == "all" and len(every) < n and k < 2:  # two values of few numbers: all pairs
            along = np.tile(every, -(-n // len(every)))[:n] if k == 0 else np.repeat(every, -(-n // len(every)))[:n]
        else:
            along = every if k == 0 and len(every) == n else self.rng.permutation(np.resize(every, n))
        return np.broadcast_to(along, shape).copy()

    def numbers(self, how: str, shape: list[int]) -> np.ndarray:
        """Finite numbers of a style, that the world's type has."""
        x, most = self._numbers(how, shape), float(np.finfo(self.dtype).max)
        if self.mode == "real" and compare.LONG is None:  # no longer floats tell rounding near the ends from falsehood
            x, most = np.where(np.abs(x) < 1 / FARTHEST, 0.0, x), FARTHEST
        return np.clip(x, -most, most)

    def _numbers(self, how: str, shape: list[int]) -> np.ndarray:
        rng = self.rng
        if how == "plain":
            return rng.integers(1, 4, size=shape).astype(float)
        if how == "ties":
            return rng.integers(-2, 3, size=shape).astype(float)
        if how == "whole":
            limits = rng.choice(dictionary.limits(), size=shape) + rng.integers(-2, 3, size=shape)
            return np.where(rng.random(size=shape) < 0.5, limits, np.rint(rng.uniform(-1.0, 1.0, size=shape) * 2.0 ** rng.integers(0, 40)))
        if how == "uniform" and self.plan.literals and rng.random() < BEYOND:
            return rng.choice(self.plan.literals) * rng.choice([1.0, -1.0]) * rng.choice([1.0, 2.0, 10.0], size=shape)
        if how == "uniform":
            return rng.uniform(-1.0, 1.0, size=shape) * rng.choice(SPANS)
        if how == "shared":
            return rng.choice(self.shared, size=shape) * rng.choice([1.0, -1.0], size=shape)
        x = rng.normal(size=shape)
        if how == "mixed":
            return np.where(rng.random(size=shape) < 0.4, rng.choice([0.0, -0.0, 1.0], size=shape), x)
        if how == "zeros":
            return np.copysign(rng.integers(0, 2, size=shape) * x, x)
        if how == "wide":
            return x * 10.0 ** rng.integers(-6, 4, size=shape)
        if how == "named":
            named = self.plan.literals
            near = rng.choice(dictionary.near(named or dictionary.USUAL, self.dtype), size=shape)
            other, beside = (rng.choice(d, size=shape) for d in dictionary.derived(named, self.dtype))
            kind = rng.random(size=shape)
            return np.select([kind < 0.4, kind < 0.7, kind < 0.8], [near, other, beside], x)
        if how == "extreme" and self.mode == "exact":
            kinds = [dictionary.midpoints(shape, self.dtype, rng), *(rng.choice(e, size=shape) for e in dictionary.extremes(self.dtype))]
            which = rng.integers(0, len(kinds), size=shape if rng.random() < 0.5 else ())
            return np.sign(x) * np.choose(which, kinds)
        if how == "extreme":
            return np.sign(x) * rng.choice(EXTREMES, size=shape)
        if how == "special":
            return np.where(rng.random(size=shape) < 0.5, rng.choice([0.0, -0.0, 1.0, -1.0, 2.0, -0.5], size=shape), x)
        return x


def _not_finite(how: str, x: np.ndarray, sign: int, style: dict[str, Any], rng: np.random.Generator) -> np.ndarray:
    """Infinities and NaN where premises admit them: NaN is never negative nor more than a bound."""
    if how == "special":  # every kind beside every other
        kinds = [-np.inf] * (sign <= 0 and "low" not in style) + [np.inf] * (sign >= 0 and "high" not in style)
        kinds += [np.nan]
        kinds = [k for k in kinds if rng.random() < 0.6] or kinds
        return np.where(rng.random(size=x.shape) < 0.3, rng.choice(kinds, size=x.shape), x) if kinds else x
    slab = [n if rng.random() < 0.6 else 1 for n in x.shape] if how in ("masked", "mixed") else x.shape  # whole rows and tiles
    some = np.broadcast_to(rng.random(size=slab), x.shape) < (1.0 if how == "empty" else 0.4)
    if how in ("masked", "empty", "mixed") and sign <= 0 and "low" not in style:
        return np.where(some, -np.inf, x)
    if how == "infinite" and sign >= 0 and "high" not in style:
        return np.where(some, np.inf, x)
    if how == "nan":
        return np.where(some, np.nan, x)
    return x


def _exact(x: np.ndarray) -> np.ndarray:
    out = np.empty(x.shape, dtype=object)
    out.reshape(-1)[:] = [Fraction(v) for v in x.reshape(-1).tolist()]
    return out


def _fractions(how: str, style: dict[str, Any], shape: list[int], rng: np.random.Generator, named: tuple[float, ...]) -> np.ndarray:
    """Rational numbers that obey the style."""
    n = int(np.prod(shape))
    size = 3 if how in ("plain", "ties") else 9 if how == "small" else 2**20
    top = rng.integers(1 if how == "plain" else -size, size + 1, size=n)
    bottom = rng.integers(1, 2 if how in ("plain", "ties") else 9 if how == "small" else 2**10, size=n)
    values = [Fraction(int(a), int(b)) for a, b in zip(top, bottom, strict=True)]
    if how == "named":
        picks = rng.choice([s * x for x in named or dictionary.USUAL for s in (1.0, -1.0)], size=n)
        values = [Fraction(p) + v * (k % 3 == 2) for k, (p, v) in enumerate(zip(picks.tolist(), values, strict=True))]
    sign = style.get("sign", 0)
    if sign:
        values = [abs(v) if sign > 0 else -abs(v) for v in values]
    if sign == 2:
        values = [v or Fraction(1, 8) for v in values]
    if "low" in style:
        values = [max(v, Fraction(style["low"])) for v in values]
    if "high" in style:
        values = [min(v, Fraction(style["high"])) for v in values]
    out = np.empty(n, dtype=object)
    out[:] = values
    return out.reshape(shape)
