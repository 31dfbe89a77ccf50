"""The engine's side of the term language: sorts, constructors, analyses.

Axes are one-hot 64-bit integers, so a set of axes is a mask and "does not depend on j" is ``(= 0 (& mask j))``.  Two analyses
are kept for every class:

``axes``    the axes that the value depends on; classes keep the intersection, since one member that is free of j proves it.
            What follows from a node is the family ``analyses`` of rules, which every saturation has.
``level``   per reduced axis, how many loops over it must end before the value is known: a reduction adds one, a running value
            (Ref) takes one away.  Classes keep the minimum.  A loop over an axis is a loop over its parts when it is split.
            It claims nothing of values; that it is what the members make it says :mod:`.spec`.

``has-type`` is what memory holds of inputs and casts, and the type of what gathers read at, ``length`` how long an axis is.
``settled`` marks values that mention no running value.  ``why-*`` tables name the rule that first
made each node, ``united`` the rules that found a class equal to another form, and ``by-*``, in an engine with ``claims``, the rule that
first concluded each fact.
"""

from __future__ import annotations

import functools

from ..ir.layout import terms
from ..ir.states import MOST_PARTS
from ..rewrites.facts import CONDITIONS
from ..rewrites.patterns import number_text
from ..rewrites.relations import RELATIONS, Trait

OWN = "levels"  # the ruleset of what is no rule
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
    "Gather": ("T", "i64", "T"),
    "Reduce": ("String", "i64", "T"),
    "Scan": ("String", "i64", "T"),
    **{f"{kind}{n}": ("String", "i64", *["T"] * n) for kind in ("Reduce", "Scan") for n in range(2, MOST_PARTS + 1)},
    **{f"Merge{2 * n}": ("String", *["T"] * (2 * n)) for n in range(2, MOST_PARTS + 1)},
    "Roll": ("String", "i64", "T", "T"),
    "Ref": ("String", "i64", "T"),
    "Pre": ("i64", "T"),
    "Acc": (),
}
TRACED = tuple(name for name in CONSTRUCTORS if name not in ("Input", "Const", "Extent", "Index", "Acc"))

FORMS = {"Along": "TT", "LinearSum": "LL", "LinearProduct": "LL"}  # linear forms, and the sorts of their parts


def claimable() -> dict[str, tuple[str, ...]]:
    """The tables whose rows say something about values, and their columns."""
    return {**CONDITIONS, **{r.name: r.columns for r in RELATIONS.values() if r.of_values}}


def schema(claims: bool = False) -> str:
    """Declarations and analyses as engine text; ``claims``: with tables for the rule that first concluded each fact."""
    lines = ["(sort T)", "(sort L)", "(sort P)"]
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
        "(relation looked-up (i64))",
        "(relation summable (T))",
        "(relation related (i64 i64))",
        "(relation unrelated (i64 i64))",
        "(relation nonempty (i64))",
        "(function length (i64) f64 :merge old)",
        "(relation has-type (T String))",
        "(function size (T) f64 :merge (min old new))",
        *(f"(relation {n} (T))" for n in (*CONDITIONS, "settled") if n != "size"),
    ]
    lines += [f"(relation {r.name} ({' '.join(r.columns)}))" for r in RELATIONS.values()]
    if claims:
        lines += [f"(function by-{name} ({' '.join(columns)}) String :merge old)" for name, columns in claimable().items()]
        lines.append("(relation united-form (String L))")
    lines += [f"(ruleset {OWN})", *levels(), ANALYSES]
    return "\n".join(lines)


SORTS = {"extent": "f64", "stride": "f64", "first": "f64", "axis": "String"}  # of the attributes of layouts
LAYOUTS = {k.capitalize(): (*(SORTS[a] for a in attrs), *["P"] * count) for k, (attrs, count) in terms.KINDS.items()}


def layouts() -> str:
    """Declarations for rules on layouts: nodes, what is known of a layout, and the axes of hardware that are named."""
    lines = [f"(constructor {n} ({' '.join(c)}) P)" for n, c in LAYOUTS.items()]
    lines += [f"(function why-{n} ({' '.join(c)}) String :merge old)" for n, c in LAYOUTS.items()]
    lines += ["(function elements (P) f64 :merge old)", *(f"(function {n} (P String) f64 :merge old)" for n in ("span", "origin"))]
    return "\n".join([*lines, "(relation hardware (String))", "(relation united-layout (String P))"])


LOOPS = {"Reduce": "(+ 1 {})", "Roll": "(+ 1 {})", "Ref": "(max 0 (- {} 1))"}  # by a node over this axis, or over a part of it
ANALYSES = f"""
(rule ((= t (Acc))) ((set (axes t) 0)) :ruleset {OWN})
(rule ((= t (Pre k b)) (settled b) (= a (level b j))) ((set (level t j) a)) :ruleset {OWN})
(rule ((= t (Pre k b)) (= e (Roll "sum" k b u)) (= a (level b j)) (= c (level u j))) ((set (level t j) (max a c))) :ruleset {OWN})
"""


def levels() -> list[str]:
    """The level of every node but an accumulator: the most of its arguments, changed if it is a loop over the axis."""
    rules = []
    for name, columns in CONSTRUCTORS.items():
        cells = [f"c{k}" for k in range(len(columns))]
        args = [c for c, sort in zip(cells, columns, strict=True) if sort == "T"]
        most = functools.reduce("(max {} {})".format, [f"level-{a}" for a in args]) if args else "0"
        cases = [("", most) if args else ("(axis j)", most)]
        if (loop := LOOPS.get(name.rstrip("23"))) is not None:
            cases = [(f"(related {cells[1]} j)", loop.format(most)), (f"(unrelated {cells[1]} j)", most)]
        known = " ".join(f"(= level-{a} (level {a} j))" for a in args)
        for where, level in cases if name != "Pre" else ():
            rules.append(f"(rule ((= t ({name} {' '.join(cells)})) {where} {known}) ((set (level t j) {level})) :ruleset {OWN})")
    return rules


def trait_facts() -> str:
    """What ops, monoids and types declare, as facts; read from the tables at every saturation, so that new ops take part."""
    facts = []
    for relation in RELATIONS.values():
        if isinstance(trait := relation.meaning, Trait):
            for names in trait.rows():
                cells = [f'"{name}"' for name in names] + ([number_text(trait.number(names[0]))] if trait.number else [])
                facts.append(f"({relation.name} {' '.join(cells)})")
    return "\n".join(facts)
