"""Contractions on the matrix unit.

``sum_k`` of a product is a matrix product if its factors split by the two tile dims that remain: A[m, k] and B[k, n], with m before n
in the kernel's order of dims.  Factors that depend on neither m nor n go to A, which may live in registers.  Both operands must be
exactly zero on padded lanes of k, because zero times infinity is not zero.

*Operand type.*  Products whose type is a 16-bit float have their operands cast to it.  A computed float16 operand that may exceed the
largest float16 would overflow where the program it came from did not, unless that program keeps this very value in float16; then both
operands stay float32 and the unit runs in tf32, which has the mantissa of float16 and the exponent of float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from ..ir import dtypes
from ..ir.dtypes import DType
from ..ir.index import Axis
from ..ir.monoids import MONOIDS
from ..ir.ranges import Interval, mul
from ..ir.recursion import Steps
from .blocks import Block
from .builder import Builder, Mode
from .masks import padded
from .program import Dim, Dot, Permute, Value
from .quotients import product

MIN_DOT_K = 16  # the shortest contraction that the matrix units take


@dataclass(frozen=True)
class DotMatch:
    """How a product splits: the factors of each operand, the dims, and the operand type."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    m: Dim
    n: Dim
    k: Dim
    dtype: DType
    precision: str


def match(builder: Builder, body: int, axis: Axis) -> DotMatch | None:
    """The split of a product that is summed over an axis, or ``None`` if it is no matrix product."""
    k = builder.dim_of.get(axis)
    if k is None or len(k.axes) > 1 or k.size < builder.min_dot_k:
        return None
    factors = _factors(builder, body, k)
    dims = {f: builder.dims_of(builder.nodes[f].axes) for f in factors}
    rest = {d for f in factors for d in dims[f]} - {k}
    if len(rest) != 2:
        return None
    m, n = (d for d in builder.dims if d in rest)
    b = tuple(f for f in factors if n in dims[f])
    a = tuple(f for f in factors if n not in dims[f])
    if any(m in dims[f] for f in b):
        return None
    if not all(any(d in dims[f] for f in side) for side, d in ((a, m), (a, k), (b, k), (b, n))):
        return None
    return DotMatch(a, b, m, n, k, *operand_type(builder, a, b))


def found(builder: Builder) -> tuple[DotMatch, ...]:
    """The contractions of a kernel."""
    sums = (n for n in builder.nodes if n.op in ("reduce", "roll") and MONOIDS[n.attrs[0]].state == "sum")
    matches = (match(builder, n.args[0], n.attrs[1]) for n in sums)
    return tuple(m for m in matches if m is not None)


def _factors(builder: Builder, body: int, k: Dim) -> tuple[int, ...]:
    """The factors of a product.  A product that the program itself keeps in a 16-bit type is one factor: the program rounds it too."""
    found: list[int] = []
    stack = [body]
    while stack:
        f = stack.pop()
        node = builder.nodes[f]
        whole = f != body and node.stored is not None and len(set(builder.dims_of(node.axes)) - {k}) <= 1
        if node.op == "map" and node.attrs[0] == "mul" and not whole:
            stack.extend(reversed(node.args))
        else:
            found.append(f)
    return tuple(found)


def operand_type(builder: Builder, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[DType, str]:
    """The type of both operands, and the precision of their products."""
    facts = builder.facts
    kept = {f: builder.nodes[f].stored or facts.dtype(f) for f in (*a, *b)}  # a statistic read in float32 makes no float32 factor
    promoted = dtypes.promote(*kept.values())
    if promoted not in (dtypes.float16, dtypes.bfloat16):
        return dtypes.float32, "ieee"
    wide = promoted is dtypes.float16 and any(computed(builder, side, promoted).magnitude > promoted.largest for side in (a, b))
    return (dtypes.float32, "tf32") if wide else (promoted, "")


def computed(builder: Builder, side: tuple[int, ...], dtype: DType) -> Interval:
    """The range of an operand that is made here; 0 of one that memory, or the program, has in the type."""
    only = builder.nodes[side[0]]
    held = only.op == "cast" or (only.op == "load" and builder.kernel.buffers[only.attrs[0]].narrow is None)
    if len(side) == 1 and (only.stored == dtype or (held and builder.facts.dtype(side[0]) == dtype)):
        return Interval(0.0, 0.0)
    return reduce(mul, (builder.facts.range(f, finite_inputs=True) for f in side))


def emit(
    builder: Builder,
    found: DotMatch,
    axis: Axis,
    block: Block,
    mode: Mode | None,
    accumulator: Value | None,
    hint: str,
) -> Steps[Value]:
    """Emit a contraction, added to ``accumulator`` if there is one."""
    a, a_loaded = yield _operand(builder, found.a, (found.m, found.k), found, axis, block, mode)
    b, b_loaded = yield _operand(builder, found.b, (found.k, found.n), found, axis, block, mode)
    dst = builder.value(hint, (found.m, found.n), dtypes.float32)
    return builder.put(block, Dot(dst, a, b, accumulator, found.precision, (a_loaded, b_loaded)))


def _operand(
    builder: Builder,
    factors: tuple[int, ...],
    dims: tuple[Dim, ...],
    found: DotMatch,
    axis: Axis,
    block: Block,
    mode: Mode | None,
) -> Steps[tuple[Value, bool]]:
    """An operand in its type and the order of its dims, made once in a block, and whether it comes straight from memory."""
    key = (factors, dims, found.dtype, axis, mode and mode.key)
    if key in block.operands:
        return block.operands[key]
    facts = builder.facts
    only = builder.nodes[factors[0]]
    # a tile of positions has its dims in one order, and so has what is loaded there
    loaded = len(factors) == 1 and only.op == "load" and all(len(builder.dims_of(builder.nodes[x].axes)) < 2 for x in only.args)
    if loaded:
        v = yield builder.load(factors[0], builder.home(factors[0], block, mode), dims)
    elif len(factors) == 1:
        v = builder.as_value((yield builder.emit(factors[0], block, mode)), block)
    else:
        v = builder.as_value((yield product(builder, factors, block, mode)), block)
    zero = any(
        facts.zero_padded(f, axis) and all(g == f or facts.zero_padded(g, axis) or facts.harmless(g) for g in factors) for f in factors
    )
    if not zero:
        v = builder.masked(block, v, padded((builder.binding(axis, block),)), 0.0)
    if v.dtype != found.dtype:
        loaded = False
        v = builder.cast(v, found.dtype, block)
    if v.dims != dims:
        v = builder.once(v, ("permute", dims), lambda s: Permute(builder.value(s.name + "_t", dims, s.dtype), s), block)
    block.operands[key] = v, loaded
    return v, loaded
