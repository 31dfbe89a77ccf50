"""A proof instead of samples, for rules about positions: views that compose, vanish or commute, and axes that are split.

Such a rule is read at one symbolic point.  A position is an integer, a value an arbitrary function of positions, an op that the rule
does not name an arbitrary function of numbers; index expressions are arbitrary integer functions, or what the relations ``split``,
``same-index`` say they are, with symbolic extents.  z3 then looks for a point where the two sides differ.

Reductions are compared by their bodies: the same reduction over the same axis of the same body is the same number.  A reduction over
an axis equals one over its parts if the index expression is a bijection of positions (in range, one to one, onto; three integer
theorems) and the bodies agree there, with the identity where a ragged split reaches past the end.

z3 is optional (``pip install eqfuse[z3]``): without it the check says so and stays with samples.
"""

from __future__ import annotations

import importlib
import operator
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...errors import UnsoundRuleError
from ...ir.monoids import MONOIDS
from .. import patterns as P
from ..comparisons import Compare
from ..facts import Depends, Equal, Free, IndexFree, Match, OtherAxis, Placed
from ..patterns import NameVar, Var
from ..positions import IndexVar
from ..relations import Row, Trait
from .variables import Plan

TIMEOUT = 4000  # milliseconds for one theorem
ABSENT = "z3 is not installed (pip install eqfuse[z3]): rules about positions are tested on arrays only"
OPEN = "z3 did not decide this rule: it is tested on arrays only"


@dataclass(frozen=True)
class Verdict:
    """How many theorems were proved, and what is to be said of the rest."""

    proved: int = 0
    note: str = ""


@cache
def solver() -> Any:
    """The z3 module, or ``None``."""
    try:
        return importlib.import_module("z3")
    except ImportError:
        return None


class _Beyond(Exception):
    """The rule says something that this reading does not know."""


def applies(plan: Plan) -> bool:
    """Whether the rule is about positions, and about nothing else."""
    nodes = list(plan.nodes())
    beyond = any(isinstance(n, P.Gather | P.Scan) or (isinstance(n, P.Reduce) and len(n.args) > 1) for n in nodes)
    if beyond or not any(isinstance(n, P.View | P.Index | IndexVar) for n in nodes):
        return False
    known = all(
        isinstance(f, Match | Depends | Free | IndexFree | OtherAxis | Placed | Compare)
        or (isinstance(f, Row) and (f.relation.given or isinstance(f.relation.meaning, Trait)))
        for f in plan.rule.needs
    )
    return known and any(isinstance(f, Equal) for f in plan.rule.gives)


def check_integers(plan: Plan) -> Verdict:
    """Prove every equation that a rule about positions concludes; raises :class:`~eqfuse.errors.UnsoundRuleError` with a point where
    one fails."""
    if not applies(plan):
        return Verdict()
    if solver() is None:
        return Verdict(note=ABSENT)
    proved, note = 0, ""
    for fact in plan.rule.gives:
        if isinstance(fact, Equal):
            try:
                counts = [_Proof(plan, same).equal(fact) for same in ({}, *({b: a} for a, b in plan.may_coincide))]
                count = sum(counts) if all(counts) else 0
            except _Beyond:
                count = 0
            proved += count
            note = note if count else OPEN
    return Verdict(proved, note)


class _Proof:
    """One equation at one symbolic point.  ``same`` makes two axis variables one axis, where no premise tells them apart."""

    def __init__(self, plan: Plan, same: dict[str, str]) -> None:
        self.z3, self.plan, self.same = solver(), plan, same
        self.axes = [a.name for a in plan.axes if a.name not in same]
        self.given = {f.relation.name: f.args for f in plan.rule.needs if isinstance(f, Row) and f.relation.given}
        self.placed = {f.at.name: f for f in plan.rule.needs if isinstance(f, Placed)}
        self.absent: dict[str, set[str]] = {}
        for f in plan.rule.needs:
            if type(f) is Free and isinstance(f.x, Var):
                self.absent.setdefault(f.x.name, set()).add(self.key(f.axis))
            elif type(f) is IndexFree:
                self.absent.setdefault(f.at.name, set()).add(self.key(f.axis))
        self.extent = {a: self.z3.Int(f"size_{a}") for a in self.axes}
        self.facts: list[Any] = [n >= 0 for n in self.extent.values()]
        self.reductions: dict[Any, Any] = {}
        self.loose = False  # something known was read as arbitrary, so a point where the sides differ may not exist
        self.reads = {n.at.name: self.key(n.axis) for n in plan.nodes() if isinstance(n, P.View)}
        for name in ("split", "ragged"):
            if name in self.given:
                j, jo, ji = (self.extent[a.name] for a in self.given[name][:3])
                self.facts += [jo > 0, ji > 0, j == jo * ji] if name == "split" else [ji > 0, j > (jo - 1) * ji, j <= jo * ji, j > 0]
        for f in plan.rule.needs:
            if isinstance(f, Compare):
                self.compared(f)

    def key(self, axis: Any) -> str:
        """The name that an axis variable goes by."""
        return self.same.get(axis.name, axis.name)

    # reading ---------------------------------------------------------------------------------------------------------------------

    def point(self) -> dict[str, Any]:
        """A symbolic position for every axis."""
        out = {}
        for a in self.axes:
            out[a] = self.z3.Int(a)
            self.facts += [out[a] >= 0, out[a] < self.extent[a]]
        return out

    def value(self, p: Any, at: dict[str, Any]) -> Any:
        """A pattern at a point."""
        z3 = self.z3
        if isinstance(p, Var):
            if p.name in self.plan.matches:
                return self.value(self.plan.matches[p.name], {**at, **{a: self.somewhere(a) for a in self.absent.get(p.name, ())}})
            args = [at[a] for a in self.axes if a not in self.absent.get(p.name, ())]
            return self.function(p.name, len(args), z3.IntSort(), z3.RealSort())(*args)
        if isinstance(p, P.View):
            return self.value(p.x, {**at, self.key(p.axis): self.index(p.at, at)})
        if isinstance(p, P.Index):
            return z3.ToReal(at[self.key(p.axis)])
        if isinstance(p, P.Extent):
            return z3.ToReal(self.extent[self.key(p.axis)])
        if isinstance(p, P.Const):
            return self.constant(p)
        if isinstance(p, P.Cast):
            self.loose = True
            return self.function(f"cast {_text(p.to)}", 1, z3.RealSort(), z3.RealSort())(self.value(p.x, at))
        if isinstance(p, P.Map):
            return self.operation(_text(p.op), [self.value(a, at) for a in p.args])
        if isinstance(p, P.Merge):
            return self.operation(f"?merge by {_text(p.monoid)}", [self.value(a, at) for a in p.args])
        if isinstance(p, P.Reduce):
            bound = z3.Int(f"bound {self.key(p.axis)}")
            body = z3.simplify(self.value(p.x, {**at, self.key(p.axis): bound}))
            return self.reductions.setdefault((_text(p.monoid), self.key(p.axis), body), z3.Real(f"reduction {len(self.reductions)}"))
        raise _Beyond(type(p).__name__)

    def somewhere(self, axis: str) -> Any:
        """The one position at which a value that is free of the axis is read, whatever its pattern mentions: it is the same at all."""
        found = self.z3.Int(f"{axis} somewhere")
        self.facts += [found >= 0, found < self.extent[axis]]
        return found

    def compared(self, f: Compare) -> None:
        """What a premise says of lengths and numbers; what integers cannot say is left out."""
        z3 = self.z3
        try:
            a, b = [self.number(x) for x in f.args] if len(f.args) == 2 else (self.number(f.args[0]), z3.IntVal(0))
        except _Beyond:
            self.loose = True
            return
        if f.relation == "divides":
            if not (a.is_int() and b.is_int()):
                self.loose = True
                return
            self.facts += [a > 0, b % a == 0]
        elif f.relation == "power_of_two":
            self.loose = True
            self.facts.append(a >= 1)
        else:
            says = {"equals": operator.eq, "differs": operator.ne, "less": operator.lt, "at_most": operator.le}
            self.facts.append(says[f.relation](a, b))

    def number(self, x: Any) -> Any:
        """A length, a number, or a sum or product of such."""
        z3 = self.z3
        if isinstance(x, P.LengthNumber):
            return self.extent[self.key(x.axis)]
        if isinstance(x, P.NumberLiteral) and abs(x.number) < float("inf"):
            return z3.IntVal(int(x.number)) if x.number == int(x.number) else z3.RealVal(x.exact())
        if isinstance(x, P.NumberVar):
            return self.constant(P.Const(x))
        if isinstance(x, P.NumberOp) and x.op in ("+", "*", "neg"):
            args = [self.number(a) for a in x.args]
            return -args[0] if x.op == "neg" else args[0] + args[1] if x.op == "+" else args[0] * args[1]
        raise _Beyond(repr(x))

    def function(self, name: str, arity: int, source: Any, target: Any) -> Any:
        """An arbitrary function; without arguments, an arbitrary constant."""
        if not arity:
            return lambda: self.z3.Const(name, target)
        return self.z3.Function(name, *[source] * arity, target)

    def constant(self, p: P.Const) -> Any:
        """A number; an infinite or unknown one is a number of which nothing is known."""
        if isinstance(p.number, P.NumberLiteral) and abs(p.number.number) < float("inf"):
            return self.z3.RealVal(p.number.exact())
        self.loose |= not isinstance(p.number, P.NumberVar)
        return self.z3.Real(f"number {p.number.egglog()}")

    def operation(self, op: str, args: list[Any]) -> Any:
        """A scalar op: sums, products, comparisons and choices are known, any other is arbitrary."""
        z3 = self.z3
        if op in ("add", "mul", "neg"):
            return -args[0] if op == "neg" else args[0] + args[1] if op == "add" else args[0] * args[1]
        if op == "where":
            return z3.If(args[0] != 0, args[1], args[2])
        if op in ("lt", "le", "eq"):
            test = {"lt": args[0] < args[-1], "le": args[0] <= args[-1], "eq": args[0] == args[-1]}[op]
            return z3.If(test, z3.RealVal(1), z3.RealVal(0))
        traits = {f.args[0].name for f in self.plan.rule.needs if isinstance(f, Row) and isinstance(f.args[0], NameVar)}
        self.loose |= op.removeprefix("?") in traits or not op.startswith("?")
        return self.function(f"op {op}", len(args), z3.RealSort(), z3.RealSort())(*args)

    def index(self, e: IndexVar, at: dict[str, Any]) -> Any:
        """An index expression at a point: what a relation says of it, or an arbitrary position."""
        for name in ("split", "ragged"):
            if name in self.given and self.given[name][3].name == e.name:
                _, jo, ji, _ = self.given[name]
                return at[jo.name] * self.extent[ji.name] + at[ji.name]
        if "same-index" in self.given and self.given["same-index"][0].name == e.name:
            return at[self.key(self.given["same-index"][1])]
        if (placed := self.placed.get(e.name)) is not None:
            found = placed.place.compute(_Symbols(self, at))
            if placed.guarded:  # the engine has an answer only where it stays inside
                self.facts += [inside for a in placed.reads for inside in (found >= 0, found < self.extent[self.key(a)])]
            return found
        args = [at[a] for a in self.axes if a not in self.absent.get(e.name, ())]
        found = self.function(e.name, len(args), self.z3.IntSort(), self.z3.IntSort())(*args)
        if e.name in self.reads:
            self.facts.append(found >= 0)  # and perhaps past the end, as positions of parts are
        return found

    # proving ---------------------------------------------------------------------------------------------------------------------

    def prove(self, goal: Any) -> Any:
        """``True``, a model where the goal fails, or ``None`` if z3 does not know."""
        s = self.z3.Solver()
        s.set("timeout", TIMEOUT)
        s.add(*self.facts, self.z3.Not(goal))
        answer = s.check()
        return True if answer == self.z3.unsat else s.model() if answer == self.z3.sat else None

    def equal(self, fact: Equal) -> int:
        """How many theorems prove the equation; 0 if that is left open."""
        left, right = self.unfold(fact.left), self.unfold(fact.right)
        if isinstance(left, P.Reduce) and isinstance(right, P.Reduce) and isinstance(right.x, P.Reduce):
            return self.tiled(left, right)
        for one, other in ((left, right), (right, left)):
            if isinstance(one, P.Reduce) and isinstance(other, P.Reduce) and (count := self.renamed(one, other)):
                return count
        at = self.point()
        if "same-index" in self.given and (found := self.given["same-index"])[0].name in self.placed:
            self.facts.append(self.placed[found[0].name].place.compute(_Symbols(self, at)) == at[self.key(found[1])])
        answer = self.prove(self.value(left, at) == self.value(right, at))
        if answer is True:
            return 1
        if answer is not None and not self.reductions and not self.loose:
            self.refute("the two sides differ", answer)
        return 0

    def unfold(self, p: Any) -> Any:
        """A pattern with its outermost variable replaced by what it is matched as."""
        return self.plan.matches.get(p.name, p) if isinstance(p, Var) else p

    def tiled(self, left: P.Reduce, right: P.Reduce) -> int:
        """A reduction over an axis against one over its two parts."""
        z3, inner = self.z3, right.x
        assert isinstance(inner, P.Reduce)
        rows = self.given.get("split") or self.given.get("ragged")
        one = _text(left.monoid)
        if rows is None or {_text(right.monoid), _text(inner.monoid)} != {one} or left.axis.name != rows[0].name:
            raise _Beyond("other reductions")
        if (right.axis.name, inner.axis.name) != (rows[1].name, rows[2].name):
            raise _Beyond("other axes")
        choices = self.plan.choices.get(left.monoid.name, ()) if isinstance(left.monoid, NameVar) else (one,)
        if "ragged" in self.given and any(MONOIDS[m].state != m for m in choices):
            raise _Beyond("a mean of parts of different sizes")
        at = self.point()
        j, jo, ji = (at[a.name] for a in rows[:3])
        n, m, size = (self.extent[a.name] for a in rows[:3])
        place = self.index(rows[3], at)
        inside = z3.And(place >= 0, place < n)
        jo2, ji2 = z3.Ints("jo2 ji2")
        other = jo2 * size + ji2
        body = self.value(inner.x, at)
        outside = {a.name: z3.Int(f"{a.name} outside") for a in rows[1:3]}  # on the left the parts are no bound positions
        whole = self.value(self.unfold(left.x), {**at, **outside, left.axis.name: place})
        empty = z3.RealVal(repr(MONOIDS[one].identity)) if one in MONOIDS and abs(MONOIDS[one].identity) < float("inf") else None
        if empty is None:
            empty = self.identity()
        theorems = {
            "the parts' positions agree with the whole's": z3.If(inside, body == whole, body == empty),
            "two positions of the parts are one of the whole": z3.Implies(
                z3.And(jo2 >= 0, jo2 < m, ji2 >= 0, ji2 < size, place == other), z3.And(jo == jo2, ji == ji2)
            ),
            "a position of the whole is in no part": z3.And(j / size < m, j % size < size, (j / size) * size + j % size == j),
        }
        if "split" in self.given:
            theorems["a position of the parts is past the end"] = inside
        for what, theorem in theorems.items():
            answer = self.prove(theorem)
            if answer is None or (answer is not True and self.loose):
                return 0
            if answer is not True:
                self.refute(what if "agree" not in what else "the bodies differ", answer)
        return len(theorems)

    def renamed(self, one: P.Reduce, other: P.Reduce) -> int:
        """A reduction that reads at positions against the one over the axis that is read there: the positions are one for each element,
        and the bodies agree there."""
        z3 = self.z3
        views = {n.at.name: n for n in P.walk(one.x) if isinstance(n, P.View) and self.key(n.axis) == self.key(other.axis)}
        if _text(one.monoid) != _text(other.monoid) or len(views) != 1:
            return 0
        (view,), at = views.values(), self.point()
        i, k = self.key(one.axis), self.key(other.axis)
        here = self.index(view.at, at)
        another = z3.Int(f"{i} other")
        there = self.index(view.at, {**at, i: another})
        outside = z3.Int(f"{i} outside")  # on the other side it is no bound position
        theorems = [
            z3.And(here >= 0, here < self.extent[k]),
            z3.Implies(z3.And(another >= 0, another < self.extent[i], here == there), at[i] == another),
            self.extent[i] == self.extent[k],  # finitely many, one to one and as many: onto
            self.value(one.x, at) == self.value(other.x, {**at, i: outside if i != k else here, k: here}),
        ]
        return len(theorems) if all(self.prove(t) is True for t in theorems) else 0

    def identity(self) -> Any:
        """The number that a premise says is the identity."""
        for f in self.plan.rule.needs:
            if isinstance(f, Row) and f.relation.name == "selective" and isinstance(f.args[1], P.Number):
                return self.constant(P.Const(f.args[1]))
        if "split" in self.given:
            return self.z3.Real("no element")  # never asked for: a split that divides reaches past no end
        raise _Beyond("a monoid without a known identity")

    def refute(self, what: str, model: Any) -> None:
        """Report a point where the rule fails."""
        numbers = sorted((d.name(), model[d]) for d in model.decls() if d.arity() == 0 and model[d].sort() == self.z3.IntSort())
        point = ", ".join(f"{n} = {v}" for n, v in numbers) + "".join(f" ({b} is {a})" for b, a in self.same.items())
        rule = self.plan.rule
        raise UnsoundRuleError(
            f"rule {rule.name} is false: {what} (found by z3)\n  at {point or 'every point'}",
            where=rule.where,
            cure="add the missing condition",
        )


@dataclass(frozen=True)
class _Symbols:
    """Positions as integers of z3, at a point."""

    proof: _Proof
    at: dict[str, Any]

    def along(self, axis: Any) -> Any:
        return self.at[self.proof.key(axis)]

    def length(self, axis: Any) -> Any:
        return self.proof.extent[self.proof.key(axis)]

    def variable(self, name: str) -> Any:
        return self.proof.index(IndexVar(name), self.at)

    def divide(self, x: Any, n: Any) -> tuple[Any, Any]:
        z3 = self.proof.z3
        x, n = (z3.IntVal(v) if isinstance(v, int) else v for v in (x, n))
        self.proof.facts.append(n > 0)
        return x / n, x % n

    def moved(self, axis: Any, to: Any) -> _Symbols:
        return _Symbols(self.proof, {**self.at, self.proof.key(axis): to})


def _text(name: str | NameVar) -> str:
    return name if isinstance(name, str) else f"?{name.name}"
