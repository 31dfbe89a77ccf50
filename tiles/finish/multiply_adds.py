"""Additions of a negation as subtractions, and additions of a product as multiply-adds, which round once.

A compiler may contract the one or not; said aloud, the rounding of ``c`` in ``a * b + c`` is common to a whole row.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import dtypes
from ..program import Let, Literal, Loop, Statement, TileProgram, Value, rewritten, uses
from .contraction import below_exponentials


def fuse(program: TileProgram) -> TileProgram:
    """The program with ``sub``, ``fma`` and ``fms`` (:mod:`..operations`) in the place of the ``add`` that read what they are made of."""
    negated = _negated(program)
    products = {} if program.kernel.exact else _products(program)

    def one(s: Statement) -> Statement | None:
        if not isinstance(s, Let):
            return s
        if s.dst.name in negated or s.dst.name in products:
            return None
        at = next((i for i, a in enumerate(s.args) if isinstance(a, Value) and a.name in products), None) if s.op == "add" else None
        if at is not None:
            other, factors = s.args[1 - at], products[s.args[at].name].args  # type: ignore[union-attr]
            if isinstance(other, Value) and other.name in negated:
                return replace(s, op="fms", args=(*factors, negated[other.name]))
            return replace(s, op="fma", args=(*factors, other))
        at = next((i for i, a in enumerate(s.args) if isinstance(a, Value) and a.name in negated), None)
        if at is None:
            return s
        return replace(s, op="sub", args=(s.args[1 - at], negated[s.args[at].name]))  # type: ignore[union-attr]

    return replace(program, body=rewritten(program.body, one)) if negated or products else program


def _negated(program: TileProgram) -> dict[str, Value]:
    """Negations that are only ever added to something: value name -> what it negates."""
    found = {s.dst.name: s.args[0] for s in program.statements() if isinstance(s, Let) and s.op == "neg"}
    kept = {n: v for n, v in found.items() if isinstance(v, Value)}
    for s in program.statements():
        names = [v.name for v in _direct_uses(s)]
        pure = isinstance(s, Let) and s.op == "add" and sum(n in kept for n in names) <= 1
        if not pure:
            for n in names:
                kept.pop(n, None)
    return kept


def _products(program: TileProgram) -> dict[str, Let]:
    """Float products with one reader, a sum: value name -> the product.

    The product must be as large as the sum, or computing it inside the sum would repeat work; at most one per sum.  Products of
    two values are left alone in sums below exponentials, which are rounded step by step (:func:`.contraction.contracts`).
    """
    states = {a.old.name for s in program.statements() if isinstance(s, Loop) for a in s.accumulators}
    found = {
        s.dst.name: s
        for s in program.statements()
        if isinstance(s, Let)
        and s.op == "mul"
        and s.dst.dtype == dtypes.float32
        and any(isinstance(a, Value) for a in s.args)
        and all(isinstance(a, Literal) or (a.dtype == dtypes.float32 and a.name not in states) for a in s.args)
    }
    readers: dict[str, list[Statement]] = {}
    for s in program.statements():
        for v in _direct_uses(s):
            readers.setdefault(v.name, []).append(s)
    rounded = below_exponentials(program)
    kept: dict[str, Let] = {}
    taken: set[str] = set()
    for name, factor in found.items():
        (reader,) = readers[name] if len(readers.get(name, ())) == 1 else (None,)
        if not isinstance(reader, Let) or reader.op != "add" or reader.dst.name in taken or reader.dst.dims != factor.dst.dims:
            continue
        if reader.dst.name in rounded and not any(isinstance(a, Literal) for a in factor.args):
            continue
        if sum(isinstance(a, Value) and a.name == name for a in reader.args) == 1:
            kept[name] = factor
            taken.add(reader.dst.name)
    return kept


def _direct_uses(s: Statement) -> tuple[Value, ...]:
    """What a statement reads; for a loop, the values that its accumulators start from and take at the end of a step."""
    if isinstance(s, Loop):
        return tuple(v for a in s.accumulators for v in (a.start, a.new) if v is not None)
    return uses(s)
