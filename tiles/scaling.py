"""Products whose computed operand may be too large for float16: its rows are divided by powers of two, and the products multiplied.

With p = 2**floor(log2 max_k |a_mk|), the rows a / p * 2**TOP lie just below the largest float16, whatever the data are: nothing
overflows that does not overflow in float32, and what is more than 2**-28 of the largest element of its row keeps all bits of the type.
A sum over tiles keeps p as a running maximum beside its accumulator, which moves with it,

    p' = max(p, p_tile),   acc <- acc * (p / p') + (a / p' * 2**TOP) b,   and at the end sum = acc * p / 2**TOP,

which is the roll of :mod:`eqfuse.rewrites.repair` with p as the reference.  All factors are powers of two, so that they round nothing; most
of the time p / p' is 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..ir import dtypes
from .program import Dim, Literal, Operand, Reduce, Value

if TYPE_CHECKING:
    from .blocks import Block, OpenAccumulator
    from .lower import Lowering

TOP = 14  # a row scaled by 1 / p is below 2, and below 2**15 then; the largest float16 is just below 2**16
LEAST, MOST = 2.0**-100, 2.0**126  # of p: 2**TOP / p is a normal float32


class Scale:
    """The scale of one tile of an operand.  ``power``: the accumulator of p in the loop whose body is ``block``, if there is one."""

    def __init__(self, lowering: Lowering, block: Block, power: OpenAccumulator | None) -> None:
        self.lowering, self.block, self.power = lowering, block, power
        self.new: Operand = Literal(LEAST)
        self.inverse: Operand = Literal(1.0 / LEAST)

    def applied(self, v: Value, k: Dim) -> Value:
        """A tile whose padded lanes along ``k`` are zero, scaled for a product that is summed over ``k``."""
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
        return scaled

    def moved(self, accumulator: Value) -> Value:
        """The accumulator, relative to the new power."""
        assert self.power is not None
        lowering, block = self.lowering, self.block
        change = lowering.let(block, "mul", (self.power.old, self.inverse), hint="change")
        moved = lowering.let(block, "mul", (accumulator, change))
        assert isinstance(moved, Value)
        return moved

    def undone(self, product: Value, hint: str) -> Value:
        """The product as it is without a scale."""
        return unscaled(self.lowering, self.block, product, self.new, hint)


def unscaled(lowering: Lowering, block: Block, v: Value, power: Operand, hint: str | None = None) -> Value:
    """What is relative to a power, as a number of its own."""
    found = lowering.let(block, "mul", (v, lowering.let(block, "mul", (power, Literal(2.0**-TOP)))), hint=hint)
    assert isinstance(found, Value)
    return found
