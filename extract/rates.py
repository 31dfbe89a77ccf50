"""What matrix products of terms take on the matrix unit of a device: the price of a product before there is a kernel.

Kernels decide the same of their nodes (:mod:`eqfuse.tiles.dots`), by the same rule (:mod:`eqfuse.ir.products`).
"""

from __future__ import annotations

from ..ir.products import Operands, operands
from ..ir.terms import Term
from .targets import Target


def multiplied(product: Term, target: Target, least: bool = False) -> Operands:
    """How the operands of a product of two terms are multiplied; ``least``: as if they could be weights, for a bound."""
    a, b = product.args
    return operands(product.dtype, a.held, b.held, target.narrow_products, (least, least))


def matrix_us(how: Operands, multiply_adds: float, target: Target) -> float:
    """Microseconds of all matrix units."""
    return 2 * multiply_adds * len(how.pairs) / (target.tensor_rate(how.unit) * 1e6)
