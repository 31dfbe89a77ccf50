"""The engine's side of the term language: sorts, constructors, analyses.

Axes are one-hot 64-bit integers, so a set of axes is a mask and "does not depend on j" is ``(= 0 (& mask j))``.  Three analyses
are kept for every class:

``axes``    the axes that the value depends on; classes keep the intersection, since one member that is free of j proves it.
``level``   per reduced axis, how many loops over it must end before the value is known: a reduction adds one, a running value
            (Ref) takes one away.  Classes keep the minimum.  A loop over an axis is a loop over its parts when it is split.
signs       ``nonneg``, ``positive``, ``bounded`` (finite whatever the inputs) and ``truth`` (0 or 1), from the ranges that ops
            declare.  An exponential is positive only if its argument is bounded: it is 0 where a mask put -inf.  What one
            sign alone cannot say (``nonpos``, bounds of 1, ``size``, the largest magnitude) is the family ``signs`` of rules.

``has-type`` is what memory holds of inputs and casts, ``length`` how long an axis is.
``settled`` marks values that mention no running value.  ``why-*`` tables name the rule that first
made each node, ``united`` the rules that found a class equal to another form, and ``by-*``, in an engine with ``claims``, the rule that
first concluded each fact.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from ..ir.dtypes import DTYPES
from ..ir.monoids import MONOIDS
from ..ir.ops import OPS, ScalarOp
from ..ir.ranges import ALL, UNIT, Interval
from ..rewrites.facts import CONDITIONS, RELATIONS
from ..rewrites.patterns import number_text
from ..rewrites.rule import PHASES

CONSTRUCTORS: dict[str, tuple[str, ...]] = {
    "Input": ("String", "i64"),
    "Const": ("f64",),
    "Extent": ("i64",),
    "Index": ("i64",),
    "Map1": ("String", "T"),
    "Map2": ("String", "T", "T"),
    "Map3": ("String", "T", "T", "T"),
    "Cast": ("String", "T"),
    "View": ("T", "i64", "i64"),
    "Reduce": ("String", "i64", "T"),
    "Roll": ("String", "i64", "T", "T"),
    "Ref": ("String", "i64", "T"),
    "Pre": ("i64", "T"),
    "Acc": (),
}
TRACED = ("Map1", "Map2", "Map3", "Cast", "View", "Reduce", "Roll", "Ref", "Pre")


FORMS = {"Along": "TT", "LinearSum": "LL", "LinearProduct": "LL"}  # linear forms, and the sorts of their parts


def claimable() -> dict[str, tuple[str, ...]]:
    """The tables whose rows say something about values, and their columns."""
    return {**CONDITIONS, **{r.name: r.columns for r in RELATIONS.values() if r.of_values}}


def schema(claims: bool = False) -> str:
    """Declarations and analyses as engine text; ``claims``: with tables for the rule that first concluded each fact."""
    lines = ["(sort T)", "(sort L)"]
    lines += [f"(constructor {n} ({' '.join(c)}) T)" for n, c in CONSTRUCTORS.items()]
    lines += [f"(function why-{n} ({' '.join(CONSTRUCTORS[n])}) String :merge old)" for n in TRACED]
    lines += [
        "(constructor Along (T T) L)",
        "(constructor LinearSum (L L) L)",
        "(constructor LinearProduct (L L) L)",
        "(constructor Summed (i64 T L) T)",
        "(function axes (T) i64 :merge (& old new))",
        "(function level (T i64) i64 :merge (min old new))",
        "(function index-axes (i64) i64 :merge old)",
        "(relation united (String T))",
        "(relation axis (i64))",
        "(relation related (i64 i64))",
        "(relation unrelated (i64 i64))",
        "(relation nonempty (i64))",
        "(function length (i64) f64 :merge old)",
        "(relation has-type (T String))",
        "(relation identity-of (String f64))",
        "(function size (T) f64 :merge (min old new))",
        *(f"(relation {n} (T))" for n in ("nonneg", "nonpos", "positive", "at-least-one", "at-most-one", "bounded", "truth", "settled")),
        *(f"(relation {n} (String))" for n in (*SIGN_TRAITS, "keeps-sign", "unsigned")),
    ]
    lines += [f"(relation {r.name} ({' '.join(r.columns)}))" for r in RELATIONS.values()]
    if claims:
        lines += [f"(function by-{name} ({' '.join(columns)}) String :merge old)" for name, columns in claimable().items()]
        lines.append("(relation united-form (String L))")
    lines += [*(f"(ruleset {p})" for p in PHASES), AXES, LEVELS, SIGNS, SETTLED, TYPES]
    return "\n".join(lines)


AXES = """
(rule ((= t (Input n m))) ((set (axes t) m)) :ruleset analysis)
(rule ((= t (Const v))) ((set (axes t) 0)) :ruleset analysis)
(rule ((= t (Extent j))) ((set (axes t) 0)) :ruleset analysis)
(rule ((= t (Index j))) ((set (axes t) j)) :ruleset analysis)
(rule ((= t (Acc))) ((set (axes t) 0)) :ruleset analysis)
(rule ((= t (Map1 o x)) (= m (axes x))) ((set (axes t) m)) :ruleset analysis)
(rule ((= t (Map2 o x y)) (= m (axes x)) (= n (axes y))) ((set (axes t) (| m n))) :ruleset analysis)
(rule ((= t (Map3 o x y z)) (= m (axes x)) (= n (axes y)) (= k (axes z))) ((set (axes t) (| m (| n k)))) :ruleset analysis)
(rule ((= t (Cast d x)) (= m (axes x))) ((set (axes t) m)) :ruleset analysis)
(rule ((= t (View x j e)) (= m (axes x)) (!= 0 (& m j)) (= n (index-axes e))) ((set (axes t) (| n (- m j)))) :ruleset analysis)
(rule ((= t (View x j e)) (= m (axes x)) (= 0 (& m j))) ((set (axes t) m)) :ruleset analysis)
(rule ((= t (Reduce g j x)) (= m (axes x))) ((set (axes t) (- m (& m j)))) :ruleset analysis)
(rule ((= t (Roll g j x u)) (= m (axes x)) (= n (axes u)) (= k (| m n))) ((set (axes t) (- k (& k j)))) :ruleset analysis)
(rule ((= t (Ref w j r)) (= m (axes r))) ((set (axes t) m)) :ruleset analysis)
(rule ((= t (Pre j b)) (= m (axes b))) ((set (axes t) (- m (& m j)))) :ruleset analysis)
"""

LEVELS = """
(rule ((= t (Input n m)) (axis j)) ((set (level t j) 0)) :ruleset analysis)
(rule ((= t (Const v)) (axis j)) ((set (level t j) 0)) :ruleset analysis)
(rule ((= t (Extent k)) (axis j)) ((set (level t j) 0)) :ruleset analysis)
(rule ((= t (Index k)) (axis j)) ((set (level t j) 0)) :ruleset analysis)
(rule ((= t (Acc)) (axis j)) ((set (level t j) 0)) :ruleset analysis)
(rule ((= t (Map1 o x)) (= a (level x j))) ((set (level t j) a)) :ruleset analysis)
(rule ((= t (Map2 o x y)) (= a (level x j)) (= b (level y j))) ((set (level t j) (max a b))) :ruleset analysis)
(rule ((= t (Map3 o x y z)) (= a (level x j)) (= b (level y j)) (= c (level z j))) ((set (level t j) (max a (max b c)))) :ruleset analysis)
(rule ((= t (Cast d x)) (= a (level x j))) ((set (level t j) a)) :ruleset analysis)
(rule ((= t (View x k e)) (= a (level x j))) ((set (level t j) a)) :ruleset analysis)
(rule ((= t (Reduce g k x)) (related k j) (= a (level x j))) ((set (level t j) (+ a 1))) :ruleset analysis)
(rule ((= t (Reduce g k x)) (unrelated k j) (= a (level x j))) ((set (level t j) a)) :ruleset analysis)
(rule ((= t (Roll g k x u)) (related k j) (= a (level x j)) (= b (level u j))) ((set (level t j) (+ 1 (max a b)))) :ruleset analysis)
(rule ((= t (Roll g k x u)) (unrelated k j) (= a (level x j)) (= b (level u j))) ((set (level t j) (max a b))) :ruleset analysis)
(rule ((= t (Ref w k r)) (related k j) (= a (level r j))) ((set (level t j) (max 0 (- a 1)))) :ruleset analysis)
(rule ((= t (Ref w k r)) (unrelated k j) (= a (level r j))) ((set (level t j) a)) :ruleset analysis)
(rule ((= t (Pre k b)) (settled b) (= a (level b j))) ((set (level t j) a)) :ruleset analysis)
(rule ((= t (Pre k b)) (= e (Roll "sum" k b u)) (= a (level b j)) (= c (level u j))) ((set (level t j) (max a c))) :ruleset analysis)
"""

SETTLED = """
(rule ((= t (Input n m))) ((settled t)) :ruleset analysis)
(rule ((= t (Const v))) ((settled t)) :ruleset analysis)
(rule ((= t (Extent j))) ((settled t)) :ruleset analysis)
(rule ((= t (Index j))) ((settled t)) :ruleset analysis)
(rule ((= t (Map1 o x)) (settled x)) ((settled t)) :ruleset analysis)
(rule ((= t (Map2 o x y)) (settled x) (settled y)) ((settled t)) :ruleset analysis)
(rule ((= t (Map3 o x y z)) (settled x) (settled y) (settled z)) ((settled t)) :ruleset analysis)
(rule ((= t (Cast d x)) (settled x)) ((settled t)) :ruleset analysis)
(rule ((= t (View x k e)) (settled x)) ((settled t)) :ruleset analysis)
(rule ((= t (Reduce g k x)) (settled x)) ((settled t)) :ruleset analysis)
"""

TYPES = """
(rule ((= t (Cast d x))) ((has-type t d)) :ruleset analysis)
(rule ((= t (View x j e)) (has-type x d)) ((has-type t d)) :ruleset analysis)
"""

SIGN_TRAITS = (
    "always-nonneg", "keeps-nonneg", "nonneg-if-one", "keeps-positive", "positive-if-bounded", "positive-if-one", "keeps-bounded",
    "always-bounded", "makes-truth",
)  # fmt: skip

SIGNS = """
(rule ((= t (Const v)) (>= v 0.0)) ((nonneg t)) :ruleset analysis)
(rule ((= t (Const v)) (> v 0.0) (< v inf)) ((positive t)) :ruleset analysis)
(rule ((= t (Const v)) (< v inf) (> v -inf)) ((bounded t)) :ruleset analysis)
(rule ((= t (Extent j))) ((nonneg t) (bounded t)) :ruleset analysis)
(rule ((= t (Extent j)) (nonempty j)) ((positive t)) :ruleset analysis)
(rule ((= t (Index j))) ((nonneg t) (bounded t)) :ruleset analysis)
(rule ((positive t)) ((nonneg t)) :ruleset analysis)
(rule ((truth t)) ((nonneg t) (bounded t)) :ruleset analysis)
(rule ((= t (Map1 o x)) (always-nonneg o)) ((nonneg t)) :ruleset analysis)
(rule ((= t (Map1 o x)) (keeps-nonneg o) (nonneg x)) ((nonneg t)) :ruleset analysis)
(rule ((= t (Map1 o x)) (keeps-positive o) (positive x)) ((positive t)) :ruleset analysis)
(rule ((= t (Map1 o x)) (positive-if-bounded o) (bounded x)) ((positive t)) :ruleset analysis)
(rule ((= t (Map1 o x)) (keeps-bounded o) (bounded x)) ((bounded t)) :ruleset analysis)
(rule ((= t (Map1 o x)) (always-bounded o)) ((bounded t)) :ruleset analysis)
(rule ((= t (Map1 o x)) (makes-truth o)) ((truth t)) :ruleset analysis)
(rule ((= t (Map2 o x y)) (always-nonneg o)) ((nonneg t)) :ruleset analysis)
(rule ((= t (Map2 o x y)) (keeps-nonneg o) (nonneg x) (nonneg y)) ((nonneg t)) :ruleset analysis)
(rule ((= t (Map2 o x x))  (= o "mul")) ((nonneg t)) :ruleset analysis)
(rule ((= t (Map2 o x y)) (nonneg-if-one o) (nonneg x)) ((nonneg t)) :ruleset analysis)
(rule ((= t (Map2 o x y)) (nonneg-if-one o) (nonneg y)) ((nonneg t)) :ruleset analysis)
(rule ((= t (Map2 o x y)) (positive-if-one o) (positive x)) ((positive t)) :ruleset analysis)
(rule ((= t (Map2 o x y)) (positive-if-one o) (positive y)) ((positive t)) :ruleset analysis)
(rule ((= t (Map2 o x y)) (keeps-positive o) (positive x) (positive y)) ((positive t)) :ruleset analysis)
(rule ((= t (Map2 "add" x y)) (positive x) (nonneg y)) ((positive t)) :ruleset analysis)
(rule ((= t (Map2 "add" x y)) (nonneg x) (positive y)) ((positive t)) :ruleset analysis)
(rule ((= t (Map2 o x y)) (keeps-bounded o) (bounded x) (bounded y)) ((bounded t)) :ruleset analysis)
(rule ((= t (Map2 o x y)) (makes-truth o)) ((truth t)) :ruleset analysis)
(rule ((= t (Map3 "where" c x y)) (nonneg x) (nonneg y)) ((nonneg t)) :ruleset analysis)
(rule ((= t (Map3 "where" c x y)) (positive x) (positive y)) ((positive t)) :ruleset analysis)
(rule ((= t (Map3 "where" c x y)) (bounded x) (bounded y)) ((bounded t)) :ruleset analysis)
(rule ((= t (Cast d x)) (keeps-sign d) (nonneg x)) ((nonneg t)) :ruleset analysis)
(rule ((= t (Cast d x)) (unsigned d)) ((nonneg t)) :ruleset analysis)
(rule ((= t (View x j e)) (nonneg x)) ((nonneg t)) :ruleset analysis)
(rule ((= t (View x j e)) (positive x)) ((positive t)) :ruleset analysis)
(rule ((= t (View x j e)) (bounded x)) ((bounded t)) :ruleset analysis)
(rule ((= t (Reduce g j x)) (linear g) (nonneg x)) ((nonneg t)) :ruleset analysis)
(rule ((= t (Reduce g j x)) (nonempty j) (nonneg x)) ((nonneg t)) :ruleset analysis)
(rule ((= t (Reduce g j x)) (nonempty j) (positive x)) ((positive t)) :ruleset analysis)
(rule ((= t (Reduce g j x)) (nonempty j) (bounded x)) ((bounded t)) :ruleset analysis)
(rule ((= t (Ref w j r)) (nonneg r)) ((nonneg t)) :ruleset analysis)
(rule ((= t (Ref w j r)) (positive r)) ((positive t)) :ruleset analysis)
"""


@functools.cache
def sign_traits(op: ScalarOp) -> tuple[str, ...]:
    """What the declared range transfer says about signs and finiteness.

    Of a positive or finite value a transfer in floating point cannot say it for all arguments at once (an exponential underflows), so
    narrow intervals are asked, and wide ones must not contradict.  ``eqfuse.op`` tests what follows on values.
    """
    n = op.arity
    nonneg, positive = Interval(0.0, math.inf), Interval(1e-30, 1e30)
    near, wide = Interval(-1.0, 1.0), Interval(-300.0, 300.0)

    def ranges(*args: Interval) -> Interval | None:
        try:
            return op.range(*args)
        except (ArithmeticError, AssertionError, ValueError):
            return None

    def low(*args: Interval) -> float:
        r = ranges(*args)
        return -math.inf if r is None else r.lo

    out: list[str] = []
    if op.name == "where" or n > 2:
        return ()
    if low(*[ALL] * n) >= 0:
        out.append("always-nonneg")
    if low(*[nonneg] * n) >= 0:
        out.append("keeps-nonneg")
    if low(*[positive] * n) > 0 and low(*[nonneg] * n) >= 0:
        out.append("keeps-positive")
    if n == 2 and op.commutative and low(ALL, nonneg) >= 0:
        out.append("nonneg-if-one")
    if n == 2 and op.commutative and low(ALL, positive) > 0:
        out.append("positive-if-one")
    everywhere, bounded = ranges(*[ALL] * n), [ranges(*[span] * n) for span in (near, wide)]
    if n == 1 and _positive_until_tiny(lambda size: low(Interval(-size, size))):
        out.append("positive-if-bounded")
    if everywhere is not None and everywhere.finite:
        out.append("always-bounded")
    if op.domain == "real" and all(r is not None and r.finite for r in bounded):
        out.append("keeps-bounded")
    if op.result == "bool" and everywhere == UNIT:
        out.append("makes-truth")
    return tuple(out)


def _positive_until_tiny(low: Callable[[float], float]) -> bool:
    """Whether the lower bound for arguments up to a size is positive, and reaches zero, if at all, by underflow: tiny before."""
    small, large = 1.0, 1e30
    if low(small) <= 0 or low(large) < 0:
        return False
    if low(large) > 0:
        return True
    while large > small * (1 + 1e-9):
        middle = math.sqrt(small * large)
        small, large = (middle, large) if low(middle) > 0 else (small, middle)
    return low(small) < 1e-200


def trait_facts() -> str:
    """What ops and monoids declare, as facts; read from the tables at every saturation, so that new ops take part."""
    facts = []
    for op in OPS.values():
        facts += [f'({trait} "{op.name}")' for trait in sign_traits(op)]
        if op.increasing:
            facts.append(f'(increasing "{op.name}")')
        if op.arity == 1 and op.result != "bool" and (span := op.range(ALL)).finite:
            facts.append(f'(saturating "{op.name}" {number_text(span.magnitude)})')
        if op.associative and op.commutative:
            facts.append(f'(associative "{op.name}")')
        for source, target in op.turns:
            table = "turns" if op.domain in ("real", "nonzero") else "turns-nonneg"
            facts.append(f'({table} "{op.name}" "{source}" "{target}")')
    for d in DTYPES.values():
        facts += [f'(rounding "{d.name}")'] if d.is_float else []
        facts += [f'(wide "{d.name}")'] if d.is_wide else []
        facts += [f'(keeps-sign "{d.name}")'] if d.is_float or d.kind == "bool" else []
        facts += [f'(unsigned "{d.name}")'] if d.unsigned else []
        facts += [f'(integer "{d.name}")'] if d.kind == "int" else []
    for m in MONOIDS.values():
        facts.append(f'(identity-of "{m.name}" {number_text(m.identity)})')
        if m.linear:
            facts.append(f'(linear "{m.name}")')
        if m.idempotent:
            facts += [f'(idempotent "{m.name}")', f'(selective "{m.name}" {number_text(m.identity)})']
    return "\n".join(facts)
