"""In which type the operands of a matrix product are multiplied: the quickest of those that have them exactly.

``sum_k a b`` where a and b are float32, but were float16 before the program cast them, is a product of float16: the matrix unit multiplies
exactly and sums in float32.  So what decides is not the type that an operand is declared in, but which numbers it is *held in*
(:func:`.nodes.held`).  Of two operands

- a type of 16 bits that has the numbers of both is multiplied in;
- tf32 has those of float16 and those of bfloat16, so one of each is multiplied in it;
- an operand that has more digits is taken in *pieces*, bfloat16 numbers whose sum it is: each has eight of its digits, and exponents as
  float32 has.  Every piece of one is multiplied with every piece of the other, but for products that lie 24 digits below;
- *weights*, which are between 0 and 1 and one of which is 1 in every sum, are two pieces of float16, scaled towards the largest that it
  has: what is left over, 2^-36, is nothing beside that 1.

Operands that both have more digits than 16 are float32, and so are all where products of pieces take longer.  What the program itself has
in 16 bits is multiplied in 16 bits, be it exact or not.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import dtypes
from .dtypes import TF32, DType, Numbers

NARROW = (dtypes.float16, dtypes.bfloat16)
PIECES = 3  # of bfloat16 in a float32
WEIGHTS = 2.0**11  # what weights are scaled by; where a kernel takes a rounded maximum they reach 16 (tiles/finish/references.py)


@dataclass(frozen=True)
class Operands:
    """How the operands of a product are multiplied: in which type, and in how many pieces each; ``precision`` of the unit where they are
    float32.  ``scale``: what the one in pieces is multiplied with before, and the result divided by.  ``rounded``: they may lose digits."""

    dtype: DType
    precision: str = ""
    pieces: tuple[int, int] = (1, 1)
    scale: float = 1.0
    rounded: bool = False

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The pieces that are multiplied with each other, the least products first: so no sum of some is larger than that of all."""
        a, b = self.pieces
        return tuple(sorted(((i, j) for i in range(a) for j in range(b) if i + j < PIECES), key=sum, reverse=True))

    @property
    def unit(self) -> str:
        """The type for which devices have a rate."""
        return "tf32" if self.precision == "tf32" else self.dtype.name


IEEE = Operands(dtypes.float32, "ieee")
IN_TF32 = Operands(dtypes.float32, "tf32")


def operands(declared: DType | None, a: Numbers, b: Numbers, most: int, weights: tuple[bool, bool] = (False, False)) -> Operands:
    """How operands that are such numbers are multiplied, in a product of the type ``declared``.

    ``most``: how many products in 16 bits take no longer than one in float32; 1 for a device whose rates are the same.
    """
    if declared in NARROW:
        return Operands(declared, rounded=True)
    both = a | b
    if most <= 1 or both not in dtypes.float32.numbers:
        return IEEE
    for dtype in NARROW:
        if both in dtype.numbers:
            return Operands(dtype)
    if both in TF32:
        return IN_TF32
    pieces = _pieces(a), _pieces(b)
    for weighs, other, many in ((weights[0], b, (2, 1)), (weights[1], a, (1, 2))):
        if weighs and other in dtypes.float16.numbers:
            return Operands(dtypes.float16, pieces=many, scale=WEIGHTS)
    found = Operands(dtypes.bfloat16, pieces=pieces)
    return found if min(pieces) < PIECES and len(found.pairs) <= most else IEEE


def _pieces(x: Numbers) -> int:
    """Of how many bfloat16 numbers each of these is the sum."""
    has = dtypes.bfloat16.numbers
    if x in has:
        return 1
    return 2 if x.digits <= 2 * has.digits and Numbers(has.digits, x.step, x.largest) in has else PIECES
