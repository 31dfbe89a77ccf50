"""Which rules can match at all in the graph of a program: those whose operations it has, or rules that can match make.

Compiling a rule takes the engine longer than finding that it never matches, so a small saturation is given only these.  What is not an
operation or a row of a rule's own relation (numbers, signs, lengths) counts as there.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from typing import Any

from ..ir.program import Program
from ..ir.terms import Map, Reduce, Scan
from ..rewrites import patterns
from ..rewrites.facts import Match
from ..rewrites.relations import Relation, Row, Trait
from ..rewrites.rule import Rule

GIVEN = ("written", "movable")  # relations whose first rows come with the program
PARTS = ("split", "ragged", "part", "parts-before")  # those whose rows come with axes that are split


def reachable(rules: Collection[Rule], program: Program, split: bool = True) -> tuple[Rule, ...]:
    """The rules that may match in graphs of the program, in their order; ``split``: whether there are parts of axes."""
    there: set[Any] = {"const", *(PARTS if split else ())}
    for t in program.terms():
        there |= {t.kind} | ({t.op} if isinstance(t, Map) else {t.monoid} if isinstance(t, Reduce | Scan) else set())
    waiting = [(r, needed, made) for r in rules for needed, made in _asked(r)]
    found: set[Rule] = set()
    while able := [row for row in waiting if row[1] <= there]:
        waiting = [row for row in waiting if not row[1] <= there]
        found |= {r for r, _, _ in able}
        there = there.union(*(made for _, _, made in able))
    return tuple(r for r in rules if r in found)


@functools.lru_cache(maxsize=1024)
def _asked(rule: Rule) -> tuple[tuple[frozenset[Any], frozenset[Any]], ...]:
    """What each instance of a rule needs, and what it makes."""
    return tuple((frozenset(_needed(i.needs)), frozenset(_made(i))) for i in rule.instances)


def _operations(pattern: Any) -> Iterator[Any]:
    """The kinds of a pattern's nodes, and their ops and monoids where they are named."""
    for n in patterns.walk(pattern):
        if isinstance(n, patterns.Node):
            yield type(n).__name__.lower()
            yield from (name for name in (getattr(n, "op", None), getattr(n, "monoid", None)) if isinstance(name, str))


def _needed(facts: Collection[Any]) -> Iterator[Any]:
    for f in facts:
        if isinstance(f, Match):
            yield from _operations(f.pattern)
        elif isinstance(f, Row) and not _known(f.relation):
            yield f.relation.name


def _made(rule: Rule) -> Iterator[Any]:
    for f in rule.gives:
        if isinstance(f, Row):
            yield f.relation.name
        for part in f.parts():
            yield from _operations(part)


def _known(relation: Relation) -> bool:
    """Whether rows come from outside the rules, or are asked for by rules when they are compiled."""
    if relation.name in PARTS:
        return False
    return relation.given or relation.name in GIVEN or isinstance(relation.meaning, Trait) or relation.name.startswith("wants-operands")
