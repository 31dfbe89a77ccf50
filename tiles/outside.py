"""A step of a plan that is not a generated kernel: a call of a function that somebody else wrote.

The function takes torch tensors whose dimensions stand in a stated order and returns one tensor.  How a buffer's dimensions become
those of an argument is data, so that whoever prints or runs the call needs no other knowledge.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.index import Axis
from .kernel import Buffer


@dataclass(frozen=True)
class Operand:
    """A buffer as a function sees it.

    ``dims`` has one entry per dimension of the buffer: the axis that it holds, or ``None`` for a dimension of length 1 that the
    function does not see.  ``order`` are the axes of the function's tensor, outermost first, ``None`` for a dimension of length 1 that the
    buffer does not have.  ``lengths``: how many of these each dimension of what a function returns lists, if not one.
    """

    buffer: Buffer
    dims: tuple[Axis | None, ...]
    order: tuple[Axis | None, ...]
    lengths: tuple[int, ...] = ()

    @property
    def permutation(self) -> tuple[int, ...]:
        """From the buffer's dimensions (those that hold axes) to the function's."""
        held = [a for a in self.dims if a is not None]
        return tuple(held.index(a) for a in self.order if a is not None)


@dataclass(frozen=True)
class OutsideCall:
    """``result = entry(*first, *reads, **named)``.  ``entry`` is (module, name): what the printed module imports."""

    name: str
    entry: tuple[str, str]
    reads: tuple[Operand, ...]
    result: Operand
    first: tuple[str, ...] = ()
    named: tuple[tuple[str, float | tuple[int, ...]], ...] = ()

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Every axis of the call, in order of appearance."""
        return tuple(dict.fromkeys(a for o in (*self.reads, self.result) for a in o.order if a is not None))
