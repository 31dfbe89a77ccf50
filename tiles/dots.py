"""Contractions on the matrix unit.

``sum_k`` of a product is a matrix product if its factors split by the two tile dims that remain: A[m, k] and B[k, n], with m before n
in the kernel's order of dims.  Factors that depend on neither m nor n go to A, which may live in registers, unless that takes from A what
it is held in.  Both operands must be exactly zero on padded lanes of k, because zero times infinity is not zero.

*Operand type.*  Products whose type is a 16-bit float have their operands cast to it.  A computed float16 operand that may exceed the
largest float16 would overflow where the program it came from did not, unless that program keeps this very value in float16; then both
operands stay float32 and the unit runs in tf32, which has the mantissa of float16 and the exponent of float32.

Of other products the numbers that their operands are held in decide (:mod:`~eqfuse.ir.products`).  A cast that only widens an operand
is left out, so that what is loaded goes straight to the unit; an operand in pieces is ``x = h + (x - h)``, where h is x rounded to 16 bits
and the difference is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from ..ir import dtypes, ops
from ..ir.dtypes import DType, Numbers
from ..ir.index import Axis
from ..ir.monoids import MONOIDS
from ..ir.products import IEEE, IN_TF32, NARROW, Operands, operands
from ..ir.ranges import UNIT, Interval, mul
from ..ir.recursion import Steps
from .analysis import Facts
from .blocks import Block
from .builder import Builder, Mode
from .masks import padded
from .program import Dim, Dot, Literal, Operand, Permute, Value
from .quotients import product

MIN_DOT_K = 16  # the shortest contraction that the matrix units take


@dataclass(frozen=True)
class DotMatch:
    """How a product splits: the factors of each operand, the dims, and how the operands are multiplied."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    m: Dim
    n: Dim
    k: Dim
    how: Operands


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
    how = multiplied(builder, a, b, axis)
    own = tuple(f for f in a if m in dims[f])
    if how == IEEE and own != a and any(k in dims[f] for f in own):
        shared = (*b, *(f for f in a if f not in own))
        if (other := multiplied(builder, own, shared, axis)) != IEEE:
            a, b, how = own, shared, other
    a, b = (tuple(as_read(builder, f) for f in side) for side in (a, b))
    if not how.rounded and how.dtype in NARROW:
        a, b = (tuple(narrowest(builder, f) for f in side) for side in (a, b))
    return DotMatch(a, b, m, n, k, how)


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


def multiplied(builder: Builder, a: tuple[int, ...], b: tuple[int, ...], axis: Axis) -> Operands:
    """How the product of two operands is taken over an axis."""
    facts = builder.facts
    kept = {f: builder.nodes[f].stored or facts.dtype(f) for f in (*a, *b)}  # a statistic read in float32 makes no float32 factor
    promoted = dtypes.promote(*kept.values())
    weights = _weights(facts, a, axis), _weights(facts, b, axis)
    how = operands(promoted, _held(facts, a), _held(facts, b), builder.kernel.narrow_products, weights)
    if how.rounded and how.dtype is dtypes.float16 and any(computed(builder, s, how.dtype).magnitude > how.dtype.largest for s in (a, b)):
        return replace(IN_TF32, rounded=True)
    return how


def _held(facts: Facts, side: tuple[int, ...]) -> Numbers:
    """The numbers that an operand is surely one of; a product of several factors is made in float32."""
    found = reduce(Numbers.__mul__, map(facts.held, side))
    return found if len(side) == 1 or found in dtypes.float32.numbers else dtypes.float32.numbers


def _weights(facts: Facts, side: tuple[int, ...], axis: Axis) -> bool:
    """Whether an operand is between 0 and 1, and 1 somewhere in every sum over an axis."""
    return len(side) == 1 and facts.range(side[0]).join(UNIT) == UNIT and facts.has_one(side[0], axis)


def as_read(builder: Builder, factor: int) -> int:
    """A factor without what lets the unit read fewer digits of it, which the unit does by itself."""
    while (n := builder.nodes[factor]).op == "map" and ops.OPS[n.attrs[0]].holds is not None and n.stored is None:
        (factor,) = n.args
    return factor


def narrowest(builder: Builder, factor: int) -> int:
    """What a factor was before casts that only widened it."""
    facts, nodes = builder.facts, builder.nodes
    while (n := nodes[factor]).op == "cast" and n.stored is None and (of := facts.dtype(n.args[0])) and of.is_float:
        if of == n.attrs[0] or facts.held(n.args[0]) not in n.attrs[0].numbers:
            break
        factor = n.args[0]
    return factor


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
    """Emit a contraction, added to ``accumulator`` if there is one; ``how.scale`` times what it is."""
    (many_a, many_b), pairs = found.how.pieces, found.how.pairs
    a, a_loaded = yield _operand(builder, found.a, (found.m, found.k), found, many_a, axis, block, mode)
    b, b_loaded = yield _operand(builder, found.b, (found.k, found.n), found, many_b, axis, block, mode)
    total = accumulator
    for i, j in pairs:
        dst = builder.value(hint if (i, j) == pairs[-1] else f"{hint}_part", (found.m, found.n), dtypes.float32)
        total = builder.put(block, Dot(dst, a[i], b[j], total, found.how.precision, (a_loaded, b_loaded)))
    assert total is not None
    return total


def _operand(
    builder: Builder,
    factors: tuple[int, ...],
    dims: tuple[Dim, ...],
    found: DotMatch,
    many: int,
    axis: Axis,
    block: Block,
    mode: Mode | None,
) -> Steps[tuple[tuple[Value, ...], bool]]:
    """An operand in its type and the order of its dims, in ``many`` pieces, made once in a block; and whether it is loaded as it is."""
    to = found.how.dtype
    key = (factors, dims, to, many, axis, mode and mode.key)
    if key in block.operands:
        return block.operands[key]
    facts = builder.facts
    only = builder.nodes[factors[0]]
    # a tile of positions has its dims in one order, and so has what is loaded there
    loaded = many == len(factors) == 1 and only.op == "load" and all(len(builder.dims_of(builder.nodes[x].axes)) < 2 for x in only.args)
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
    loaded = loaded and v.dtype == to
    pieces = _pieces(builder, factors, v, found.how, many, block) if many > 1 else (v if v.dtype == to else builder.cast(v, to, block),)

    def turned(s: Value) -> Permute:
        return Permute(builder.value(s.name + "_t", dims, s.dtype), s)

    pieces = tuple(p if p.dims == dims else builder.once(p, ("permute", dims), turned, block) for p in pieces)
    block.operands[key] = pieces, loaded
    return pieces, loaded


def _pieces(builder: Builder, factors: tuple[int, ...], v: Value, how: Operands, many: int, block: Block) -> tuple[Value, ...]:
    """A value, scaled, as the sum of so many of 16 bits: each is what those before leave, rounded, and what is left is exact."""
    rest: Operand = builder.as_float(v, block)
    if how.scale != 1:
        rest = builder.let(block, "mul", (rest, Literal(how.scale)), hint="scaled")
    head, largest = rest, how.dtype.largest
    if how.scale == 1 and reduce(mul, (builder.facts.range(f, finite_inputs=True) for f in factors)).magnitude > largest:
        head = builder.let(block, "minimum", (builder.let(block, "maximum", (rest, Literal(-largest))), Literal(largest)))
    found: list[Value] = []
    for _ in range(many):
        found.append(builder.cast(builder.as_value(head, block), how.dtype, block))
        if len(found) < many:
            head = rest = builder.let(block, "add", (rest, builder.let(block, "neg", (found[-1],))), hint="rest")
    return tuple(found)
