"""Contraction: where a compiler may make one operation, rounded once, of a product and a sum.

It may do so in a whole kernel or nowhere in it.  A product that only sums over its tile read, or one that is added to a state lane by
lane, is then no operation of its own.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import ops
from ..program import ExtentValue, Let, Literal, Loop, Reduce, Statement, TileProgram, Value, rewritten, uses


def contract(program: TileProgram) -> TileProgram:
    """Decide ``TileProgram.contracts``, and mark the products that a compiler then contracts with a sum over their tile."""
    allowed = program.kernel.contracts and contracts(program)
    products = _summed(program) if allowed else frozenset()

    def mark(s: Statement) -> Statement:
        return replace(s, contracted=True) if isinstance(s, Let) and s.dst.name in products else s

    return replace(program, contracts=allowed, body=rewritten(program.body, mark) if products else program.body)


def _summed(program: TileProgram) -> frozenset[str]:
    """Products that a sum over their tile alone reads, or the addition to a state: a compiler makes multiply-adds of them (seen in the
    compiled corpus)."""
    readers: dict[str, list[Statement]] = {}
    for s in program.statements():
        for v in uses(s):
            readers.setdefault(v.name, []).append(s)
    made = {s.dst.name for s in program.statements() if isinstance(s, Let) and s.op in ("mul", "square")}
    found = {n for n in made if all(isinstance(r, Reduce) and r.monoid == "sum" for r in readers.get(n, ()))}
    states = {a.new.name for s in program.statements() if isinstance(s, Loop) for a in s.accumulators if a.monoid == "sum"}
    for s in program.statements():
        if isinstance(s, Let) and s.op == "add" and s.dst.name in states:
            fit = [v.name for v in uses(s) if v.name in made and v.dims == s.dst.dims and len(readers[v.name]) == 1]
            found.update(fit[:1])
    return frozenset(found)


def contracts(program: TileProgram) -> bool:
    """Whether the compiler may make one operation of a product and a sum: not where the sum is the argument of an exponential.

    In exp(x * t - m), where m is the maximum of the rounded products, a product that is not rounded gives another number than the
    one that m was chosen from, and the difference grows with the scores.  So it does if t is a number: then m may be t * max(x).
    """
    made = {s.dst.name: s for s in program.statements() if isinstance(s, Let)}

    def is_product(v: Value) -> bool:
        s = made.get(v.name)
        if s is not None and s.op == "neg":
            return any(is_product(x) for x in uses(s))
        return s is not None and s.op == "mul"

    return not any(is_product(v) for name in below_exponentials(program) for v in uses(made[name]))


def below_exponentials(program: TileProgram) -> frozenset[str]:
    """The sums that exponentials are taken of, as they are, times a number or the length of an axis, or less what a row has (``fms``)."""
    made = {s.dst.name: s for s in program.statements() if isinstance(s, Let)}
    extents = {s.dst.name for s in program.statements() if isinstance(s, ExtentValue)}
    stack = [v for s in made.values() if s.op in ops.OPS and ("add", "mul") in ops.OPS[s.op].turns for v in uses(s)]
    found: set[str] = set()
    while stack:
        s = made.get(stack.pop().name)
        if s is None or s.dst.name in found:
            continue
        if s.op == "add":
            found.add(s.dst.name)
        scaled = s.op == "mul" and any(isinstance(a, Literal) or a.name in extents for a in s.args)
        if s.op in ("add", "neg", "where", "fms") or scaled:
            stack += uses(s)
    return frozenset(found)
