"""The engine's side of the term language: sorts, constructors, analyses.

Axes are one-hot 64-bit integers, so a set of axes is a mask and "does not depend on j" is ``(= 0 (& mask j))``.  Two analyses
are kept for every class:

``axes``    the axes that the value depends on; classes keep the intersection, since one member that is free of j proves it.
``level``   per reduced axis, how many loops over it must end before the value is known: a reduction adds one, a running value
            (Ref) takes one away.  Classes keep the minimum.  A loop over an axis is a loop over its parts when it is split.

``has-type`` is what memory holds of inputs and casts, ``length`` how long an axis is.
``settled`` marks values that mention no running value.  ``why-*`` tables name the rule that first
made each node, ``united`` the rules that found a class equal to another form, and ``by-*``, in an engine with ``claims``, the rule that
first concluded each fact.
"""

from __future__ import annotations

from ..rewrites.facts import CONDITIONS, RELATIONS, Trait
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
        "(function size (T) f64 :merge (min old new))",
        *(f"(relation {n} (T))" for n in ("nonneg", "nonpos", "positive", "at-least-one", "at-most-one", "bounded", "truth", "settled")),
    ]
    lines += [f"(relation {r.name} ({' '.join(r.columns)}))" for r in RELATIONS.values()]
    if claims:
        lines += [f"(function by-{name} ({' '.join(columns)}) String :merge old)" for name, columns in claimable().items()]
        lines.append("(relation united-form (String L))")
    lines += [*(f"(ruleset {p})" for p in PHASES), AXES, LEVELS, SETTLED, TYPES]
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


def trait_facts() -> str:
    """What ops, monoids and types declare, as facts; read from the tables at every saturation, so that new ops take part."""
    facts = []
    for relation in RELATIONS.values():
        if isinstance(trait := relation.meaning, Trait):
            for names in trait.rows():
                cells = [f'"{name}"' for name in names] + ([number_text(trait.number(names[0]))] if trait.number else [])
                facts.append(f"({relation.name} {' '.join(cells)})")
    return "\n".join(facts)
