"""Additions of a negation as subtractions, and additions of a product as multiply-adds, which round once.

A compiler may contract the one or not; said aloud, the rounding of ``c`` in ``a * b + c`` is common to a whole row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ...ir import dtypes
from ..program import Let, Literal, Operand, Statement, TileProgram, Value, direct_uses, rewritten
from .contraction import below_exponentials


def fuse(program: TileProgram) -> TileProgram:
    """The program with ``sub``, ``fma`` and ``fms`` (:mod:`..operations`) in the place of the ``add`` that read what they are made of."""
    negated = _negated(program)
    products = _products(program) if program.kernel.contracts else {}

    def one(s: Statement) -> Statement | None:
        if not isinstance(s, Let):
            return s
        if s.dst.name in negated or s.dst.name in products:
            return None
        if s.op != "add":
            return s
        first, second = s.args
        if _name(first) in negated or _name(second) in products:
            first, second = second, first
        less = _name(second) in negated
        last = negated.get(_name(second), second)
        if _name(first) in products:
            return replace(s, op="fms" if less else "fma", args=(*products[_name(first)].args, last))
        return replace(s, op="sub", args=(first, last)) if less else s

    return replace(program, body=rewritten(program.body, one)) if negated or products else program


def _negated(program: TileProgram) -> dict[str, Value]:
    """Negations that are only ever added to something: value name -> what it negates."""
    found = {s.dst.name: s.args[0] for s in program.statements() if isinstance(s, Let) and s.op == "neg"}
    kept = {n: v for n, v in found.items() if isinstance(v, Value)}
    for s in program.statements():
        names = [v.name for v in direct_uses(s)]
        pure = isinstance(s, Let) and s.op == "add" and sum(n in kept for n in names) <= 1
        if not pure:
            for n in names:
                kept.pop(n, None)
    return kept


def _products(program: TileProgram) -> dict[str, Let]:
    """Float products with one reader, a sum: value name -> the product.

    The product must be as large as the sum, or computing it inside the sum would repeat work; at most one per sum.  Sums below
    exponentials are rounded step by step (:func:`.contraction.contracts`).
    """
    readers = Counter(v.name for s in program.statements() for v in direct_uses(s))
    lets = [s for s in program.statements() if isinstance(s, Let)]
    single = {
        s.dst.name: (at, s)
        for at, s in enumerate(lets)
        if s.op == "mul"
        and s.dst.dtype == dtypes.float32
        and readers[s.dst.name] == 1
        and all(isinstance(a, Literal) or a.dtype == dtypes.float32 for a in s.args)
    }
    rounded = below_exponentials(program)
    found: dict[str, Let] = {}
    for s in (s for s in lets if s.op == "add" and s.dst.name not in rounded):
        parts = sorted((single[_name(a)] for a in s.args if _name(a) in single), key=lambda p: p[0])  # the earlier one first
        fit = [p for _, p in parts if p.dst.dims == s.dst.dims]
        found.update((p.dst.name, p) for p in fit[:1])
    return found


def _name(v: Operand) -> str:
    return v.name if isinstance(v, Value) else ""
