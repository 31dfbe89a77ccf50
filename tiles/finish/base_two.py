"""Exponentials to the base that machines compute: e^x = 2^(x * log2 e), one instruction and a product.

Processors have 2^x; e^x is that with a product before it and a repair of the smallest results around it.  The product is rounded, which is
as much as the argument is off already where it is rounded itself, a sum or a product: then the error of the exponential at most doubles.
Of an argument that is what was loaded it would be the only one, and grow with it, so exponentials of those stay.  A factor that is a number
takes log2 e in.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from ..names import unused
from ..program import Let, Literal, Loop, Operand, Statement, TileProgram, Value, direct_uses

LOG2E = 1.0 / math.log(2.0)


def to_base_two(program: TileProgram) -> TileProgram:
    """The program with ``exp2`` in the place of ``exp`` where the argument is rounded; not in a kernel that keeps every bit."""
    made = {s.dst.name: s for s in program.statements() if isinstance(s, Let)}
    found = {s.dst.name: s for s in made.values() if s.op == "exp" and _rounded(s.args[0], made)}
    if program.kernel.exact or not found:
        return program
    readers = Counter(v.name for s in program.statements() for v in direct_uses(s))
    scaled: dict[str, Let] = {}  # a product with a number, before its exponential
    gone: set[str] = set()
    name = unused(program)
    for e in found.values():
        argument = e.args[0]
        assert isinstance(argument, Value)
        x, by = argument, LOG2E
        while (factor := _factor(made.get(x.name))) is not None and readers[x.name] == 1:
            gone.add(x.name)
            x, by = factor[0], by * factor[1]
        scaled[e.dst.name] = Let(replace(argument, name=name("scaled")), "mul", (x, Literal(by)))

    def block(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        out: list[Statement] = []
        for s in body:
            if isinstance(s, Let) and s.dst.name in scaled:
                product = scaled[s.dst.name]
                out += [product, replace(s, op="exp2", args=(product.dst,))]
            elif not (isinstance(s, Let) and s.dst.name in gone):
                out.append(replace(s, body=block(s.body)) if isinstance(s, Loop) else s)
        return tuple(out)

    return replace(program, body=block(program.body))


def _rounded(x: Operand, made: dict[str, Let]) -> bool:
    s = made.get(x.name) if isinstance(x, Value) else None
    if s is None or not s.dst.dtype.is_float:
        return False
    if s.op in ("neg", "where", "maximum", "minimum"):
        return any(_rounded(a, made) for a in s.args)
    return s.op in ("add", "sub", "mul", "quotient", "fma", "fms")


def _factor(s: Let | None) -> tuple[Value, float] | None:
    """What a product with a number multiplies, and the number; a negation is one with -1."""
    if s is None or not isinstance(s.args[0], Value | Literal):
        return None
    if s.op == "neg" and isinstance(s.args[0], Value):
        return s.args[0], -1.0
    if s.op == "mul" and not s.contracted:
        x, y = s.args if isinstance(s.args[0], Value) else s.args[::-1]
        if isinstance(x, Value) and isinstance(y, Literal) and x.dims == s.dst.dims:
            return x, y.value
    return None
