"""In what power each value has a factor that some values share.

A factor that a row's exponentials share is in their sum once, in its reciprocal once less, in a product of two sums twice; in a quotient of
two sums it is not.  What has it not is the same whatever the factor is.  A logarithm turns it into a term, which is of the size of the last
digit of the reference: so beside that, added to it, it is nothing, and anywhere else it is seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set

from ..program import (
    Cast,
    Dot,
    Fill,
    Let,
    Literal,
    Loop,
    Lost,
    Mean,
    Operand,
    Permute,
    Reduce,
    Scan,
    Statement,
    Store,
    TileProgram,
    Value,
    Where,
    defines,
    direct_uses,
)

Powers = Mapping[str, int]  # name of a factor -> its power, where that is not 0
ANY: Powers | None = None  # of 0 and of infinities, which no factor changes
UNKNOWN: Powers = {"?": 1}  # a sum of several powers, or what an operation makes of one
MOST_ROUNDS = 16  # of loops, until powers are taken for unknown
TERM = "log "  # before the name of a factor: the term that a logarithm has made of it
SAME = ("sum", "mean", "max", "min")  # reductions of values with one power have it, too


def seen(program: TileProgram, shared: Mapping[str, str], references: Mapping[str, Set[str]]) -> set[str]:
    """The factors that some stored value has in a power.  ``shared``: the values that have one once, and its name; ``references``: by that
    name, the values that are its reference, or a multiple."""
    of = {v: TERM + name for name, values in references.items() for v in values}
    powers: dict[str, Powers | None] = {}
    for _ in range(MOST_ROUNDS):  # around loops
        before = dict(powers)
        found: set[str] = set()
        _block(program.body, shared, of, powers, found)
        if powers == before and "?" not in found:
            return {name.removeprefix(TERM) for name in found}
    return set(shared.values())


def _block(
    body: tuple[Statement, ...], shared: Mapping[str, str], references: Mapping[str, str], powers: dict[str, Powers | None], found: set[str]
) -> None:
    for s in body:
        if isinstance(s, Loop):
            for a in s.accumulators:
                start = _of(Literal(a.identity) if a.start is None else a.start, powers)
                powers[a.old.name] = _either(start, powers.get(a.new.name, ANY))
            _block(s.body, shared, references, powers, found)
            for a in s.accumulators:
                powers[a.old.name] = _either(powers[a.old.name], powers[a.new.name])
        elif isinstance(s, Store):
            found.update(_of(s.src, powers) or {})
        else:
            for v in defines(s):
                powers[v.name] = {shared[v.name]: 1} if v.name in shared else _made(s, references, powers)


def _made(s: Statement, references: Mapping[str, str], powers: Mapping[str, Powers | None]) -> Powers | None:
    of = [_of(v, powers) for v in (s.args if isinstance(s, Let) else direct_uses(s))]
    if isinstance(s, Let):
        return _computed(s, of, references)
    if isinstance(s, Fill):
        return _of(Literal(s.value), powers)
    if isinstance(s, Dot):
        product = _times(_of(s.a, powers), _of(s.b, powers))
        return product if s.acc is None else _either(product, _of(s.acc, powers))
    if isinstance(s, Where):
        return _either(of[0], _of(Literal(s.fill), powers))
    same = isinstance(s, Permute | Lost | Mean) or (isinstance(s, Reduce | Scan) and s.monoid in SAME)
    if not same and not (isinstance(s, Cast) and s.dst.dtype.is_float):
        return UNKNOWN if any(of) else {}
    found = ANY
    for p in of:
        found = _either(found, p)
    return found


def _computed(s: Let, of: list[Powers | None], references: Mapping[str, str]) -> Powers | None:
    if any(name.startswith(TERM) for p in of for name in p or ()):
        return _of_term(s, of, references)
    if s.op == "mul":
        return _times(*of)
    if s.op in ("div", "quotient"):
        return _times(of[0], _power(of[1], -1))
    if s.op == "recip":
        return _power(of[0], -1)
    if s.op == "where":
        return _either(of[1], of[2]) if not of[0] else UNKNOWN
    if s.op in ("eq", "ne") and Literal(0.0) in s.args:
        return {}
    if s.op in ("log", "log2") and of[0] and "?" not in of[0]:
        return {TERM + next(iter(of[0])): 1} if len(of[0]) == 1 else UNKNOWN
    if s.op in ("fma", "fms"):
        return _either(_times(of[0], of[1]), of[2])
    if s.op in ("add", "maximum", "minimum", "neg", "abs"):
        found = of[0]
        for p in of[1:]:
            found = _either(found, p)
        return found
    return UNKNOWN if any(of) else {}


def _of_term(s: Let, of: list[Powers | None], references: Mapping[str, str]) -> Powers | None:
    """What an operation makes of a logarithm: nothing is left of it beside its own reference."""
    terms = {name for p in of for name in p or ()}
    if len(terms) > 1 or "?" in terms:
        return UNKNOWN
    (term,) = terms
    if s.op == "add" and any(isinstance(v, Value) and references.get(v.name) == term for v in s.args):
        return {}
    numbers = all(p or isinstance(v, Literal) for v, p in zip(s.args, of, strict=True))
    return {term: 1} if s.op in ("neg", "mul") and numbers and sum(map(bool, of)) == 1 else UNKNOWN


def _of(v: Operand, powers: Mapping[str, Powers | None]) -> Powers | None:
    if isinstance(v, Value):
        return powers.get(v.name, {})
    return ANY if v.value == 0 or math.isinf(v.value) else {}


def _either(a: Powers | None, b: Powers | None) -> Powers | None:
    """Of a value that is one or the other, or their sum."""
    if a is None or b is None or a == b:
        return b if a is None else a
    return UNKNOWN


def _times(a: Powers | None, b: Powers | None) -> Powers | None:
    if a is None or b is None:
        return ANY
    if "?" in a or "?" in b:
        return UNKNOWN
    return {name: n for name in {*a, *b} if (n := a.get(name, 0) + b.get(name, 0))}


def _power(a: Powers | None, n: int) -> Powers | None:
    return a if a is None or "?" in a else {name: n * k for name, k in a.items()}
