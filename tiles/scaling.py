"""Products whose computed operand may be too large for float16: its rows are divided by powers of two, and the products multiplied.

With p = 2**floor(log2 max_k |a_mk|), the rows a / p * 2**TOP lie just below the largest float16, whatever the data are: nothing
overflows that does not overflow in float32, and what is more than 2**-26 of the largest element of its row keeps all bits of the type.
A sum over tiles keeps p as a running maximum beside its accumulator, which moves with it,

    p' = max(p, p_tile),   acc <- acc * (p / p') + (a / p' * 2**TOP) b,   and at the end sum = acc * p / 2**TOP,

which is the roll of :mod:`eqfuse.rewrites.repair` with p as the reference.  Powers of two round nothing where a device computes them
exactly; where it does not, the accumulator and the rows are off by as little as p / p' is, and where p stays it is 1 in any case.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..ir import dtypes
from .blocks import OpenAccumulator
from .program import Dim, Literal, Operand, Reduce, Value

if TYPE_CHECKING:
    from .blocks import Block
    from .dots import DotMatch
    from .lower import Lowering, Mode

TOP = 13  # a row divided by p is below 2 (or 4, should a logarithm be off), and below 2**15 then; the largest float16 is just below 2**16
LEAST, MOST = 2.0**-100, 2.0**126  # of p, so that 2**TOP / p is a normal float32; a row above MOST is below 2**(TOP + 2) then


class Scale:
    """The scale of an operand in one block.  ``power``: the accumulator of p, where the products are summed in the loop of the block."""

    def __init__(self, lowering: Lowering, block: Block, power: OpenAccumulator | None) -> None:
        self.lowering, self.block, self.power = lowering, block, power
        self.new: Operand = Literal(LEAST)
        self.inverse: Operand = Literal(1.0 / LEAST)
        self._scaled: Value | None = None
        self._change: Operand | None = None

    def applied(self, v: Value, k: Dim) -> Value:
        """The tile of the operand, whose padded lanes along ``k`` are zero, scaled for products that are summed over ``k``."""
        if self._scaled is None:
            lowering, block = self.lowering, self.block
            wide = lowering.as_float(v)
            size = lowering.let(block, "abs", (wide,))
            assert isinstance(size, Value)
            rows = tuple(d for d in size.dims if d != k)
            largest = lowering.put(block, Reduce(lowering.value("largest", rows, dtypes.float32), "max", k, size))
            exponent = lowering.let(block, "mul", (lowering.let(block, "log", (largest,)), Literal(1.0 / math.log(2.0))), hint="exponent")
            power = lowering.let(block, "exp2", (lowering.let(block, "floor", (exponent,)),))
            power = lowering.let(block, "minimum", (power, Literal(MOST)))
            old: Operand = Literal(LEAST) if self.power is None else self.power.old
            self.new = lowering.let(block, "maximum", (old, power), hint="power")
            if self.power is not None:
                assert isinstance(self.new, Value)
                self.power.new = self.new
            self.inverse = lowering.let(block, "recip", (self.new,))
            scale = lowering.let(block, "mul", (self.inverse, Literal(2.0**TOP)), hint="scale")
            scaled = lowering.let(block, "mul", (wide, scale), hint="scaled")
            assert isinstance(scaled, Value)
            self._scaled = scaled
        return self._scaled

    def moved(self, accumulator: Value) -> Value:
        """An accumulator of such products, relative to the new power."""
        assert self.power is not None
        lowering, block, old = self.lowering, self.block, self.power.old
        if self._change is None:
            change = lowering.let(block, "mul", (old, self.inverse))
            stays = lowering.let(block, "eq", (old, self.new), hint="stays")
            self._change = lowering.let(block, "where", (stays, Literal(1.0), change), hint="change")
        moved = lowering.let(block, "mul", (accumulator, self._change))
        assert isinstance(moved, Value)
        return moved


def scale_of(lowering: Lowering, found: DotMatch, block: Block, mode: Mode | None, *, running: bool) -> Scale:
    """The scale of a product's large operand; products that share the operand share it.  ``running``: they are summed in the loop of the
    block, which gets an accumulator for the power."""
    assert found.scaled is not None
    factors, dim = ((found.a, found.m), (found.b, found.n))[found.scaled]
    key = (factors, dim, found.k, mode and mode.key, running)
    if key not in block.scales:
        power = None
        if running:
            assert block.loop is not None
            power = OpenAccumulator(lowering.value("power", (dim,), dtypes.float32), "max", LEAST, factors[0])
            block.loop.accumulators.append(power)
            lowering.define(power.old, block)
        block.scales[key] = Scale(lowering, block, power)
    return block.scales[key]


def absolute(lowering: Lowering, block: Block, v: Value, power: Operand, hint: str | None = None) -> Value:
    """What is relative to a power, as a number of its own."""
    found = lowering.let(block, "mul", (v, lowering.let(block, "mul", (power, Literal(2.0**-TOP)))), hint=hint)
    assert isinstance(found, Value)
    return found
