"""The check of a rule: random arrays that obey its premises must obey its conclusions.

Values are small float64 arrays over a universe of axes of length 0 to 5.  A variable that a premise defines (``match``, or the
equation of a relation) is computed, all others are drawn: ordinary, with ties and zeros, spread over many magnitudes, or with
some or all of them -inf where no premise forbids it.  Two sides are compared wherever EITHER is finite, since uniting classes is symmetric.
Hypothesis shrinks a failure: shortest axes, plainest style, smallest seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, assume, find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample, UnsatisfiedAssumption

from ..errors import RuleError, UnsoundRuleError
from ..ir.ranges import ALL
from . import patterns as P
from .facts import MODEST, Condition, Equal, Fact, IndexFree, Match, Modest, NonEmpty, Nonzero, NotNegative, Row, Within
from .patterns import AxisVar, IndexVar, NameVar, NumberVar, Pattern, Roll, Var, View, World, reduce_array
from .rule import Rule

UNIVERSE = 5  # axes; rules name at most this many
STYLES = ("plain", "ties", "ordinary", "ordinary", "wide", "wide", "masked", "masked", "zeros", "empty")
NUMBERS = (1.0, 0.0, 2.0, -1.0, 0.5, -3.0, 1.4426950408889634)
TOLERANCE = 1e-8
MEANINGLESS = frozenset(["want", "wanta", "scal", "absorbs", "hot", "fuse", "compose-wanted"])


class Failure(Exception):
    """A conclusion that does not hold."""


def check_rule(rule: Rule, examples: int = 200) -> None:
    """Search for a counterexample; raises :class:`UnsoundRuleError` with the smallest one found."""
    if len([v for v in rule.variables if isinstance(v, AxisVar)]) > UNIVERSE:
        raise RuleError(f"rule {rule.name} names more than {UNIVERSE} axes", where=rule.where, cure="use fewer axes")
    compared = 0

    def fails(world: World) -> bool:
        nonlocal compared
        try:
            with np.errstate(all="ignore"):
                compared += _test(rule, world)
        except Failure:
            return True
        return False

    options = settings(
        max_examples=examples,
        database=None,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    try:
        world = find(_worlds(rule), fails, settings=options)
    except NoSuchExample:
        if not compared and not _claims_nothing(rule):
            raise RuleError(
                f"rule {rule.name}: no example satisfied its premises with a finite result",
                where=rule.where,
                cure="a rule that cannot be checked cannot be trusted: weaken the premises or give a relation a meaning",
            ) from None
        return
    try:
        with np.errstate(all="ignore"):
            _test(rule, world)
    except Failure as failure:
        raise UnsoundRuleError(
            f"rule {rule.name} is false: {failure}\n{_describe(rule, world)}", where=rule.where, cure="add the missing condition"
        ) from None


def _claims_nothing(rule: Rule) -> bool:
    """Only demands and nodes are concluded."""
    return all(isinstance(f, Match) or (isinstance(f, Row) and f.relation.name in MEANINGLESS) for f in rule.gives)


# drawing ---------------------------------------------------------------------------------------------------------------------------


def _definitions(rule: Rule) -> dict[str, Any]:
    """Which variables premises define, and by what."""
    found: dict[str, Any] = {}
    for fact in rule.needs:
        if isinstance(fact, Match):
            found.setdefault(fact.var.name, fact.pattern)
    return found


def _meaning(row: Row, world_kind: str | None) -> tuple[Any, Any] | None:
    """The equation of a relation's row as (defined column, expression), or ``None`` for a demand or a trait."""
    name, a = row.relation.name, row.args
    if name == "spl":
        return a[0], a[2] * a[3]
    if name == "aspl":
        return a[0], a[2] + a[3]
    if name in ("radd", "rmul"):
        _, _, t, _, tn, d = a
        if world_kind == "loc":
            return t, (tn + d if name == "radd" else tn * d)
        return tn, (t + d if name == "radd" else t * d)
    if name == "rsub":
        return a[4], a[1]  # read at old, the function has its own value
    if name == "rlin":
        return a[3], a[4]
    if name in ("ninf", "gone"):
        return a[0], Vanishing(a[0], a[1], a[2], -np.inf if name == "ninf" else 0.0)
    return None


class Vanishing(Pattern):
    """A value that is ``limit`` wherever ``r`` is -inf and ``c`` holds, and anything elsewhere."""

    def __init__(self, x: Var, r: Var, c: Pattern, limit: float) -> None:
        self.x, self.r, self.c, self.limit = x, r, c, limit

    def where(self, world: World) -> np.ndarray:
        """Where the value is known."""
        return np.isneginf(self.r.value(world)) & (self.c.value(world) != 0)

    def value(self, world: World) -> np.ndarray:
        r = self.r.value(world)
        anything = world.values.get(self.x.name, np.cos(np.where(np.isfinite(r), r, 0.0)))
        return np.where(self.where(world), self.limit, anything)


def _kind(row: Row, world: World) -> str:
    k = row.args[0]
    return k if isinstance(k, str) else k.value(world)


@st.composite
def _worlds(draw: Any, rule: Rule) -> World:
    with np.errstate(all="ignore"):
        return _draw_world(draw, rule)


def _draw_world(draw: Any, rule: Rule) -> World:
    names: set[str] = set()
    variables: dict[str, Any] = {}
    for fact in (*rule.needs, *rule.gives):
        for part in fact.parts():
            for v in P.walk(part):
                if isinstance(v, Var | AxisVar | NameVar | IndexVar | NumberVar):
                    variables[v.name] = v
                    names.add(v.name)
    lengths = [draw(st.sampled_from((1, 2, 3, 5, 2, 3, 1, 2, 3, 0))) for _ in range(UNIVERSE)]
    world = World({}, ())
    axes = [v for v in variables.values() if isinstance(v, AxisVar)]
    for position, axis in enumerate(axes):
        world.values[axis.name] = position
    for fact in rule.needs:
        if isinstance(fact, NonEmpty):
            lengths[fact.axis.position(world)] = max(lengths[fact.axis.position(world)], 1)
        if isinstance(fact, Row) and fact.relation.name in ("split", "ragged"):
            _split_lengths(draw, fact, world, lengths)
    world.extents = tuple(lengths)
    seed = draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    for v in variables.values():
        if isinstance(v, NameVar):
            world.values[v.name] = draw(st.sampled_from(v.choices()))
        elif isinstance(v, NumberVar):
            world.values[v.name] = draw(st.sampled_from(NUMBERS))
    for fact in rule.needs:
        if isinstance(fact, Nonzero):
            assume(fact.number.value(world) != 0)
        elif isinstance(fact, NotNegative):
            assume(fact.number.value(world) >= 0)
        elif isinstance(fact, Modest):
            assume(fact.number.value(world) <= MODEST)
        elif isinstance(fact, Within):
            assume(fact.size.value(world) >= 0)
        elif isinstance(fact, Row) and fact.relation.name == "saturating":
            op, number = fact.args
            span = P.OPS[op.value(world)].range(ALL)
            assume(span.finite)
            world.values[number.name] = span.magnitude
        elif isinstance(fact, Row) and fact.relation.name == "selective":
            monoid, z = fact.args
            name = monoid if isinstance(monoid, str) else monoid.value(world)
            if isinstance(z, NumberVar):
                world.values[z.name] = P.MONOIDS[name].identity
            else:
                assume(z.value(world) == P.MONOIDS[name].identity)
    _draw_indices(draw, rule, world, variables, rng)
    style_of = _styles(rule)
    defined = _defined_names(rule, world)
    for name, v in variables.items():
        if isinstance(v, Var) and name not in defined:
            world.values[name] = _array(draw, style_of.get(name, {}), world, rng)
    for fact in rule.needs:
        if isinstance(fact, Within) and isinstance(fact.x, Var) and fact.x.name in world.values:
            size = fact.size.value(world)
            world.values[fact.x.name] = np.clip(world.values[fact.x.name], -size, size)
    _solve(rule, world)
    for fact in rule.needs:
        if isinstance(fact, Condition):
            assume(fact.holds(world))
    return world


def _split_lengths(draw: Any, row: Row, world: World, lengths: list[int]) -> None:
    """Make the extents of a split agree with the relation."""
    j, jo, ji = (a.position(world) for a in row.args[:3])
    lengths[jo], lengths[ji] = max(lengths[jo], 1), max(lengths[ji], 1)
    lengths[j] = lengths[jo] * lengths[ji]
    if row.relation.name == "ragged":
        lengths[j] = max(lengths[j] - draw(st.integers(1, lengths[ji])), 1)


def _draw_indices(draw: Any, rule: Rule, world: World, variables: dict[str, Any], rng: np.random.Generator) -> None:
    """Positions for index variables, inside the axis that they read."""
    reads: dict[str, AxisVar] = {}
    unmentioned: dict[str, set[int]] = {}
    for fact in rule.needs:
        if type(fact) is IndexFree:
            unmentioned.setdefault(fact.at.name, set()).add(fact.axis.position(world))
        for part in fact.parts():
            for node in P.walk(part):
                if isinstance(node, View):
                    reads.setdefault(node.at.name, node.axis)
    for name, axis in reads.items():
        n = axis.extent(world)
        shape = [
            m if k not in unmentioned.get(name, ()) and draw(st.booleans()) else 1 for k, m in enumerate(world.extents)
        ]
        assume(n > 0)
        world.values[name] = rng.integers(0, n, size=shape)
    for fact in rule.needs:
        if not isinstance(fact, Row):
            continue
        if fact.relation.name in ("split", "ragged"):
            _, jo, ji, e = fact.args
            step = ji.extent(world)
            world.values[e.name] = (P.Index(jo).value(world) * step + P.Index(ji).value(world)).astype(int)
        elif fact.relation.name == "same-index":
            e, j = fact.args
            world.values[e.name] = P.Index(j).value(world).astype(int)
        elif fact.relation.name == "compose":
            e1, k, e2, e3 = fact.args
            world.values[e3.name] = P.read_at(world.values[e1.name], k.position(world), world.values[e2.name])


def _styles(rule: Rule) -> dict[str, dict[str, Any]]:
    out: dict[str, dict[str, Any]] = {}
    for fact in rule.needs:
        if isinstance(fact, Condition) and isinstance(fact.x, Var):
            fact.constrain(out.setdefault(fact.x.name, {}))
        elif isinstance(fact, Row) and fact.relation.name in ("spl", "aspl") and isinstance(fact.args[2], Var):
            out.setdefault(fact.args[2].name, {}).setdefault("free", set()).add(fact.args[1].name)
        elif isinstance(fact, Row) and fact.relation.name in ("radd", "rmul") and isinstance(fact.args[5], Var):
            out.setdefault(fact.args[5].name, {})["finite"] = True
    return out


def _array(draw: Any, style: dict[str, Any], world: World, rng: np.random.Generator) -> np.ndarray:
    absent = {world.values[n] for n in style.get("free", ())}
    shape = [n if k not in absent and draw(st.booleans()) else 1 for k, n in enumerate(world.extents)]
    how = draw(st.sampled_from(STYLES))
    if style.get("truth"):
        return rng.integers(0, 2, size=shape).astype(float)
    if how == "plain":
        x = rng.integers(1, 4, size=shape).astype(float)
    elif how == "ties":
        x = rng.integers(-2, 3, size=shape).astype(float)
    elif how == "zeros":
        x = rng.integers(0, 2, size=shape) * rng.normal(size=shape)
    elif how == "wide":
        x = rng.normal(size=shape) * 10.0 ** rng.integers(-4, 2, size=shape)
    else:
        x = rng.normal(size=shape)
    sign = style.get("sign", 0)
    if sign:
        x = np.abs(x) if sign > 0 else -np.abs(x)
    if sign == 2:
        x = x + 0.125
    x = np.clip(x, style.get("low"), style.get("high")) if "low" in style or "high" in style else x
    if sign <= 0 and "low" not in style and not style.get("finite") and how in ("masked", "empty"):
        x = np.where(rng.random(size=shape) < (0.3 if how == "masked" else 1.0), -np.inf, x)
    return x


def _equations(rule: Rule, world: World) -> Iterator[tuple[Any, Any, Row | None]]:
    for fact in rule.needs:
        if isinstance(fact, Match):
            yield fact.var, fact.pattern, None
        elif isinstance(fact, Row):
            kind = _kind(fact, world) if fact.relation.name in ("radd", "rmul") else None
            meaning = _meaning(fact, kind)
            if meaning is not None:
                yield (*meaning, fact)


def _defined_names(rule: Rule, world: World) -> set[str]:
    """Variables that are computed.  A reduction's own class (``r`` in ``radd(r, r, ..)``) stays drawn if nothing defines it."""
    return {v.name for v, _, _ in _equations(rule, world) if isinstance(v, Var)}


def _solve(rule: Rule, world: World) -> None:
    """Compute defined variables in dependency order, and note which variable is the new form of which."""
    for fact in rule.needs:
        if isinstance(fact, Row) and fact.relation.name in ("radd", "rmul", "rlin"):
            _, _, t, _, tn, _ = fact.args if fact.relation.name != "rlin" else ("", *fact.args)
            if isinstance(tn, Var) and isinstance(t, Var):
                world.old[tn.name] = t.name
    pending = list(_equations(rule, world))
    while pending:
        left = []
        for var, expr, row in pending:
            try:
                value = expr.value(world)
            except KeyError:
                left.append((var, expr, row))
                continue
            if isinstance(var, Var) and var.name not in world.values:
                world.values[var.name] = value
            elif not _close(var.value(world), value)[0]:
                raise UnsatisfiedAssumption
        if len(left) == len(pending):
            raise UnsatisfiedAssumption
        pending = left


# testing ---------------------------------------------------------------------------------------------------------------------------


def _test(rule: Rule, world: World) -> int:
    """Test every conclusion; how many numbers were compared."""
    return sum(_test_fact(rule, fact, world) for fact in rule.gives)


def _test_fact(rule: Rule, fact: Fact, world: World) -> int:
    if isinstance(fact, Match):
        return 0
    if isinstance(fact, Equal):
        if isinstance(fact.right, Roll):
            return _test_roll(fact.right, world)
        world.acc = _own_state(rule, world)
        return _compare(fact.left.value(world), fact.right.value(world), "left", "right")
    if isinstance(fact, Condition):
        if not fact.holds(world):
            raise Failure(f"{type(fact).__name__} does not hold of {_short(fact.x.value(world))}")
        return int(np.sum(~np.isnan(fact.x.value(world))))
    assert isinstance(fact, Row), fact
    if fact.relation.name in MEANINGLESS:
        return 0
    if fact.relation.name in ("separable", "onehot"):
        return _test_claim(fact, world)
    kind = _kind(fact, world) if fact.relation.name in ("radd", "rmul") else None
    meaning = _meaning(fact, kind)
    assert meaning is not None, f"a rule may not conclude {fact.relation.name}"
    var, expr = meaning
    if isinstance(expr, Vanishing):
        return _test_vanishing(expr, world)
    where = np.zeros(())
    if kind:  # a change of reference is claimed where the old value is finite: elsewhere nothing has been seen
        where = np.where(np.isfinite(fact.args[2 if kind == "run" else 4].value(world)), 0.0, np.nan)
    return _compare(var.value(world) + where, expr.value(world) + where, fact.relation.name, "its meaning")


def _test_claim(row: Row, world: World) -> int:
    """``separable`` and ``onehot`` as what they say of numbers."""
    if row.relation.name == "separable":
        f, both = row.args[0].value(world), (row.args[0] + row.args[1]).value(world)
        holds = ~(np.abs(f) > np.maximum(np.abs(both), MODEST))
    else:
        c, j = row.args
        where = reduce_array("sum", (c.value(world) != 0).astype(float), j.position(world), j.extent(world))
        holds = where <= 1
    if not np.all(holds):
        raise Failure(f"{row.relation.name} does not hold")
    return int(holds.size)


def _test_vanishing(claim: Vanishing, world: World) -> int:
    x, r, where = np.broadcast_arrays(claim.x.value(world), claim.r.value(world), claim.where(world))
    where = where & ~np.isnan(x)
    if not np.all(x[where] == claim.limit):
        raise Failure(f"{claim.x.name} is {_short(x)} where the reduction is {_short(r)}")
    return int(where.sum())


def _own_state(rule: Rule, world: World) -> np.ndarray | None:
    """What ``Acc`` stands for outside a loop: the sum over the stretch of the body that a premise calls its own."""
    for fact in rule.needs:
        if isinstance(fact, Match) and isinstance(fact.pattern, P.Summed):
            own, axis = fact.pattern.own, fact.pattern.axis
            return P.reduce_array("sum", own.value(world.back()), axis.position(world), axis.extent(world))
    return None


def _test_roll(roll: Roll, world: World) -> int:
    """The loop invariant over one stretch of the axis."""
    old, new = roll.body.value(world.back()), roll.body.value(world)
    inner = World(world.values, world.extents, world.old, roll.state(old, world))
    monoid = roll.monoid if isinstance(roll.monoid, str) else roll.monoid.value(world)
    state_is_sum = P.MONOIDS[monoid].state == "sum"
    if not state_is_sum and roll.axis.extent(world) == 0:
        return 0
    return _compare(roll.state(new, world), roll.update.value(inner), "state at the new reference", "updated state")


def _close(a: np.ndarray, b: np.ndarray) -> tuple[bool, int]:
    a, b = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
    where = np.isfinite(a) | np.isfinite(b)
    if not where.any():
        return True, 0
    with np.errstate(all="ignore"):
        scale = max(1.0, float(np.max(np.abs(np.where(np.isfinite(a), a, 0.0)), initial=0.0)))
        good = np.abs(a[where] - b[where]) <= TOLERANCE * scale
    return bool(good.all()), int(where.sum())


def _compare(a: np.ndarray, b: np.ndarray, left: str, right: str) -> int:
    good, n = _close(a, b)
    if not good:
        raise Failure(f"{left} is {_short(a)}, {right} is {_short(b)}")
    return n


def _short(x: Any) -> str:
    return np.array2string(np.squeeze(np.asarray(x)), precision=6, threshold=8).replace("\n", " ")


def _describe(rule: Rule, world: World) -> str:
    lines = []
    for v in rule.variables:
        if v.name not in world.values:
            continue
        value = world.values[v.name]
        if isinstance(v, AxisVar):
            lines.append(f"  axis {v.name}: {world.extents[value]} long")
        elif isinstance(value, np.ndarray):
            along = [a.name for a in rule.variables if isinstance(a, AxisVar) and value.shape[a.position(world)] > 1]
            lines.append(f"  {v.name}[{', '.join(along)}] = {_short(value)}")
        else:
            lines.append(f"  {v.name} = {value}")
    return "\n".join(lines)
